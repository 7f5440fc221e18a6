/*
 * chaos_life.c - how what is under test begins, is saved and dies: desk and loop are made as a
 * daemon makes them, from what the disk, the save and the store have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/envelope.h"
#include "chaos/chaos_internal.h"

#define FILE_BYTES 32768u /* of a file of the log: it rotates some times in a run */
#define GROUP      131072u

/* --- a save ----------------------------------------------------------------------------------- */

/* As a run keeps its state in a file (job.c). The owner is the seed. */
static struct aw_format format = {.kind = "chaos", .what = "a save", .version = 2};

void aw__chaos_save(struct aw__chaos *world)
{
    const size_t bytes = sizeof(struct aw_envelope) + aw_loop_state_bytes(world->loop);
    unsigned char *save = world->save_bytes == bytes ? world->save : realloc(world->save, bytes);
    if (!save)
        return;
    aw_loop_state_save(world->loop, save + sizeof(struct aw_envelope));
    aw_envelope_seal(&format, world->config.seed, save, bytes);
    world->save = save;
    world->save_bytes = bytes;
    world->save_tick = world->tick + 1;
    for (uint32_t i = 0; i < world->count; i++) {
        world->workload[i].promise_saved = world->workload[i].promise;
        world->workload[i].sized_saved = world->workload[i].sized;
    }
}

/* NULL: refused. */
static const unsigned char *opened(const struct aw__chaos *world, const unsigned char *save,
                                   size_t bytes)
{
    return aw_envelope_open(&format, world->config.seed, save, bytes, NULL) ||
                   bytes != sizeof(struct aw_envelope) + aw_loop_state_bytes(world->loop)
               ? NULL
               : save + sizeof(struct aw_envelope);
}

/* What a bad day makes of a save. `ret_bytes` is how long it is then. */
static void damage(struct aw__chaos *world, unsigned char *save, size_t *ret_bytes)
{
    struct aw_format older = {.kind = "chaos", .what = "a save", .version = format.version - 1};
    struct aw_rng *rng = &world->rng;
    const uint32_t size = (uint32_t)*ret_bytes;
    switch (aw_rng_below(rng, 5)) {
    case 0:
        save[aw_rng_below(rng, size)] ^= (unsigned char)(1u << aw_rng_below(rng, 8));
        break;
    case 1:
        *ret_bytes = aw_rng_below(rng, size);
        break;
    case 2: /* a hole */
        memset(save + size / 2, 0, size / 4);
        save[size / 2] = (unsigned char)~save[size / 2];
        break;
    case 3: /* of another run */
        aw_envelope_seal(&format, world->config.seed + 1, save, size);
        break;
    default: /* of an older format */
        aw_envelope_seal(&older, world->config.seed, save, size);
        break;
    }
}

/* Takes up the save, or does without. A failure is one of memory. */
static enum aw_err recall(struct aw__chaos *world, bool *ret_taken)
{
    if (!world->save)
        return AW_OK;
    const bool damaged = aw__chaos_any(world, AW_CHAOS_STATE_DAMAGED);
    unsigned char *save = malloc(world->save_bytes);
    size_t bytes = world->save_bytes;
    if (!save)
        return AW_ERR_NOMEM;
    memcpy(save, world->save, bytes);
    if (damaged)
        damage(world, save, &bytes);
    const unsigned char *state = opened(world, save, bytes);
    aw__chaos_must(world, (state == NULL) == damaged, AW_INVARIANT_STATE, UINT32_MAX, "%s",
                   damaged ? "a save that was damaged is taken up"
                           : "a save that nobody touched is refused");
    enum aw_err err = state ? aw_loop_state_load(world->loop, state) : AW_OK;
    *ret_taken = state && !err;
    if (err && !world->heap.failed)
        aw__chaos_must(world, false, AW_INVARIANT_STATE, UINT32_MAX,
                       "a save that nobody touched cannot be loaded: %s", aw_err_name(err));
    free(save);
    return err;
}

/* --- the desk, with somebody who looks over its shoulder ---------------------------------------
 */

static void desk_enter(void *ctx)
{
    const struct aw_loop_hooks *inner = ((struct aw__chaos *)ctx)->inner_desk;
    inner->enter(inner->ctx);
}

static void desk_leave(void *ctx)
{
    struct aw__chaos *world = ctx;
    aw__chaos_spite_over(world);
    world->inner_desk->leave(world->inner_desk->ctx);
}

static void desk_orders(void *ctx, uint32_t workload, int64_t now_us, struct aw_orders *ret)
{
    struct aw__chaos *world = ctx;
    const struct aw_loop_hooks *inner = world->inner_desk;
    world->deciding = workload;
    inner->orders(inner->ctx, workload, now_us, ret);
}

static void desk_decided(void *ctx, uint32_t workload, const struct aw_decision *decision,
                         const void *moment, size_t moment_bytes)
{
    struct aw__chaos *world = ctx;
    aw__chaos_note_decided(world, workload, decision);
    aw__chaos_people_check(world, workload, decision);
    aw__chaos_policy_check(world, workload, decision);
    world->record_asked = false;
    aw__chaos_check_proposal(world, workload, &decision->guard.proposed);
    world->inner_desk->decided(world->inner_desk->ctx, workload, decision, moment, moment_bytes);
}

static enum aw_err desk_record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    struct aw__chaos *world = ctx;
    aw__chaos_seam(world);
    world->record_asked = true;
    world->recorded = world->inner_desk->record(world->inner_desk->ctx, now_us, diag);
    for (uint32_t i = 0; (world->recorded || !world->kept) && i < world->count; i++)
        world->result->check_count[AW_INVARIANT_UNRECORDED] +=
            world->workload[i].decision.guard.plan.set != 0;
    aw__chaos_seam(world);
    return world->recorded;
}

static void desk_applied(void *ctx, uint32_t workload, const struct aw_decision *decision,
                         enum aw_err err)
{
    const struct aw_loop_hooks *inner = ((struct aw__chaos *)ctx)->inner_desk;
    inner->applied(inner->ctx, workload, decision, err);
}

static void desk_learned(void *ctx, uint32_t workload, enum aw_err err, double took_s)
{
    struct aw__chaos *world = ctx;
    world->result->learned += err == AW_OK;
    world->inner_desk->learned(world->inner_desk->ctx, workload, err, took_s);
}

/* --- begun ------------------------------------------------------------------------------------ */

static enum aw_err begin(struct aw__chaos *world, struct aw_diag *diag)
{
    struct aw_pilot_config pilots[AW_CHAOS_WORKLOADS_MAX];
    struct aw_fallback_task tasks[AW_CHAOS_WORKLOADS_MAX];
    struct aw_desk_config config = {
        .disk = &world->disk.disk,
        .folder = AW__CHAOS_FOLDER,
        .audit = {.file_bytes_max = FILE_BYTES, .group_bytes_max = GROUP},
        .proposal_s = 1e-6 * AW__CHAOS_PROPOSAL_US,
        .undo_freeze_s = 1e-6 * AW__CHAOS_UNDO_FREEZE_US,
        .pin_s = 1e-6 * AW__CHAOS_PIN_US};
    for (uint32_t i = 0; i < world->count; i++) {
        pilots[i] = world->workload[i].pilot;
        tasks[i] = world->workload[i].task;
    }
    const struct aw_alloc *alloc = &world->heap.alloc;
    enum aw_err err = aw_desk_new(&config, alloc, &world->desk, NULL, diag);
    if (err)
        return err;
    world->inner_desk = aw_desk_hooks(world->desk);
    world->hooks = (struct aw_loop_hooks){.ctx = world,
                                          .moments = world->inner_desk->moments,
                                          .enter = desk_enter,
                                          .leave = desk_leave,
                                          .orders = desk_orders,
                                          .decided = desk_decided,
                                          .record = desk_record,
                                          .applied = desk_applied,
                                          .learned = desk_learned};
    aw__chaos_stopwatch(world);
    err = aw_loop_new(&(struct aw_loop_config){.cluster = aw__chaos_cluster(world),
                                               .store = &world->store,
                                               .pilots = pilots,
                                               .tasks = tasks,
                                               .workload_count = world->count,
                                               .thread_count = 1,
                                               .deadline_us = world->step_us,
                                               .hooks = &world->hooks,
                                               .steadfast = true,
                                               .clock = &world->stopwatch,
                                               .exchange = world->exchange},
                      alloc, &world->loop, diag);
    return err ? err
               : aw_desk_attach(world->desk, world->loop, tasks, aw__chaos_now_us(world), diag);
}

static void drop(struct aw__chaos *world)
{
    aw_disk_sim_kill(&world->disk);
    aw_loop_free(world->loop);
    aw_desk_free(world->desk);
    world->loop = NULL;
    world->desk = NULL;
    aw__chaos_must(world, world->heap.bytes == 0, AW_INVARIANT_MEMORY, UINT32_MAX,
                   "%zu bytes are left behind", world->heap.bytes);
}

/* From nothing, to the point where it may tick. */
static enum aw_err start(struct aw__chaos *world, bool *ret_taken, struct aw_diag *diag)
{
    enum aw_err err = begin(world, diag);
    *ret_taken = false;
    return err ? err : recall(world, ret_taken);
}

/* A start that fails is tried again, as whoever watches over a daemon would: at once where memory
 * was short, in the next tick where the disk is at fault. */
void aw__chaos_start(struct aw__chaos *world)
{
    struct aw_diag diag = {0};
    bool taken;
    world->heap.failed = false;
    enum aw_err err = start(world, &taken, &diag);
    if (err && world->heap.failed) {
        aw__chaos_say(world, "  no memory to start (%s); once more", aw_err_name(err));
        aw__chaos_must(world, err == AW_ERR_NOMEM, AW_INVARIANT_STATE, UINT32_MAX,
                       "out of memory it says %s: %s", aw_err_name(err), diag.text);
        drop(world);
        err = start(world, &taken, &diag);
    }
    world->down = err != AW_OK;
    if (err) {
        aw__chaos_say(world, "  cannot start: %s", diag.text);
        const bool disk = world->disk.faults.read_only || world->disk.faults.space_bytes ||
                          world->disk.faults.fail_at || world->disk.power_off;
        aw__chaos_must(world, err == AW_ERR_IO && disk,
                       err == AW_ERR_FORMAT ? AW_INVARIANT_AUDIT : AW_INVARIANT_STATE, UINT32_MAX,
                       "it cannot start: %s: %s", aw_err_name(err), diag.text);
        drop(world);
        if (world->disk.power_off)
            aw_disk_sim_power_cut(&world->disk, world->config.seed ^ world->tick);
        return;
    }
    aw_loop_resume(world->loop);
    aw__chaos_note_restart(world, taken);
    world->fresh = true;
    world->result->restarts++;
    aw__chaos_say(world, "  started, %s", taken ? "from its last save" : "without a save");
}

void aw__chaos_end(struct aw__chaos *world, bool killed, bool power)
{
    if (power)
        aw_disk_sim_power_cut(&world->disk, aw_rng_u64(&world->rng));
    else if (killed)
        aw_disk_sim_kill(&world->disk);
    else if (world->desk)
        aw_desk_detach(world->desk, aw__chaos_now_us(world), "asked to");
    aw__chaos_say(world, "  %s", power ? "the power goes" : killed ? "kill -9" : "stopped");
    world->dead = false;
    world->dead_in = 0;
    world->disk.faults.fail_at = world->disk.faults.fail_count = 0;
    drop(world);
    if (world->disk.power_off) /* it went while the log was closed */
        aw_disk_sim_power_cut(&world->disk, aw_rng_u64(&world->rng));
}
