/* chaos.c - one seed: ticks, and what is looked at after each. */
#include "chaos/chaos.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/hash.h"
#include "chaos/chaos_internal.h"

#define LOG_EVERY       8u /* ticks: reading the whole log takes long */
#define BYTES_BASE      ((size_t)8 << 20)
#define BYTES_EACH      ((size_t)4 << 20) /* of a workload that learns */
#define FAULTS_TEXT_MAX 2048u

/* --- names ------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *sentence;
} faults[] =
    {
#define X(id, name, sentence) {name, sentence},
        AW_CHAOS_FAULT_MAP(X)
#undef X
},
  invariants[] = {
#define X(id, name, sentence) {name, sentence},
      AW_INVARIANT_MAP(X)
#undef X
};
_Static_assert(AW_CHAOS_FAULT_COUNT < 64, "faults are bits of a word");

const char *aw_chaos_fault_name(uint32_t fault)
{
    return fault < AW_CHAOS_FAULT_COUNT ? faults[fault].name : NULL;
}

const char *aw_chaos_fault_sentence(uint32_t fault)
{
    return fault < AW_CHAOS_FAULT_COUNT ? faults[fault].sentence : NULL;
}

const char *aw_invariant_name(uint32_t invariant)
{
    return invariant < AW_INVARIANT_COUNT ? invariants[invariant].name : NULL;
}

const char *aw_invariant_sentence(uint32_t invariant)
{
    return invariant < AW_INVARIANT_COUNT ? invariants[invariant].sentence : NULL;
}

enum aw_err aw_chaos_faults_parse(const char *text, uint64_t *ret, struct aw_diag *diag)
{
    const char *names[AW_CHAOS_FAULT_COUNT + 1] = {0};
    char copy[FAULTS_TEXT_MAX];
    uint64_t set = 0;
    if (strlen(text) >= sizeof copy)
        return aw_fail(diag, AW_ERR_LIMIT, "longer than %zu bytes", sizeof copy);
    snprintf(copy, sizeof copy, "%s", text);
    for (uint32_t f = 0; f < AW_CHAOS_FAULT_COUNT; f++)
        names[f] = faults[f].name;
    for (char *one = copy, *next; one; one = next) {
        if ((next = strchr(one, ',')))
            *next++ = '\0';
        const bool out = *one == '-';
        one += out;
        uint64_t bits = strcmp(one, "all") == 0 ? AW_CHAOS_ALL : 0;
        for (uint32_t f = 0; f < AW_CHAOS_FAULT_COUNT; f++)
            if (strcmp(one, names[f]) == 0)
                bits = AW_CHAOS_BIT(f);
        if (bits == 0 && strcmp(one, "none") != 0) {
            const char *near = aw_conf_nearest(one, names);
            return aw_fail(diag, AW_ERR_USAGE, "no fault is called \"%s\"%s%s%s", one,
                           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        }
        set = out ? set & ~bits : set | bits;
    }
    *ret = set;
    return AW_OK;
}

/* --- shared ----------------------------------------------------------------------------------- */

struct block {
    size_t bytes;
    unsigned char pad[AW_ALLOC_ALIGN - sizeof(size_t)];
};

static void *heap_new(void *ctx, size_t bytes)
{
    struct aw__chaos_heap *heap = ctx;
    heap->count++;
    if (heap->fail_at && heap->count >= heap->fail_at) {
        heap->fail_at = 0;
        heap->failed = true;
        return NULL;
    }
    struct block *block = aw_alloc_heap.alloc(aw_alloc_heap.ctx, bytes + sizeof *block);
    if (!block)
        return NULL;
    block->bytes = bytes;
    heap->bytes += bytes;
    heap->bytes_max = heap->bytes > heap->bytes_max ? heap->bytes : heap->bytes_max;
    return block + 1;
}

static void heap_free(void *ctx, void *memory)
{
    struct aw__chaos_heap *heap = ctx;
    if (!memory)
        return;
    struct block *block = (struct block *)memory - 1;
    heap->bytes -= block->bytes;
    aw_alloc_heap.free(aw_alloc_heap.ctx, block);
}

void aw__chaos_heap_init(struct aw__chaos_heap *heap)
{
    *heap = (struct aw__chaos_heap){.alloc = {heap_new, heap_free, heap}};
}

bool aw__chaos_chance(struct aw__chaos *world, double share)
{
    return aw_rng_double(&world->rng) < share;
}

int64_t aw__chaos_now_us(const struct aw__chaos *world)
{
    return AW__CHAOS_EPOCH_US + world->cluster.ops->now_us(world->cluster.self) + world->ahead_us +
           world->jump_us;
}

void aw__chaos_digest(struct aw__chaos *world, const void *bytes, size_t size)
{
    uint64_t h = world->result->digest;
    h = aw_hash_bytes(h, bytes, size);
    world->result->digest = h;
}

void aw__chaos_say(struct aw__chaos *world, const char *fmt, ...)
{
    if (!world->config.trace)
        return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    world->config.trace(world->config.ctx, line);
}

bool aw__chaos_must(struct aw__chaos *world, bool holds, enum aw_invariant invariant, uint32_t w,
                    const char *fmt, ...)
{
    struct aw_chaos_result *result = world->result;
    if (world->dry) {
        result->check_count[invariant] += !holds;
        return holds;
    }
    if (!world->applying)
        result->check_count[invariant]++;
    if (holds || result->failed)
        return holds;
    struct aw_chaos_failure *failure = &result->failure;
    result->failed = true;
    failure->invariant = invariant;
    failure->tick = world->tick;
    va_list args;
    va_start(args, fmt);
    vsnprintf(failure->text, sizeof failure->text, fmt, args);
    va_end(args);
    if (w < world->count) {
        const struct aw__chaos_workload *of = &world->workload[w];
        snprintf(failure->workload, sizeof failure->workload, "%s", of->pilot.name);
        json_t *brief = of->has_decision ? aw_explanation_brief(&of->pilot, &of->decision) : NULL;
        char *text = brief ? json_dumps(brief, JSON_COMPACT) : NULL;
        if (text)
            snprintf(failure->account, sizeof failure->account, "%s", text);
        free(text);
        json_decref(brief);
    }
    aw__chaos_say(world, "  %s does not hold%s%s: %s", aw_invariant_name(invariant),
                  *failure->workload ? " for " : "", failure->workload, failure->text);
    return false;
}

/* From here on nothing that is done reaches anybody: what a process that was killed between two
 * calls has done. */
void aw__chaos_seam(struct aw__chaos *world)
{
    if (world->dead_in == 0 || --world->dead_in > 0)
        return;
    world->dead = true;
    world->disk.faults.fail_at = world->disk.call_count + 1;
    world->disk.faults.fail_count = UINT64_MAX - world->disk.call_count - 1;
}

/* --- a tick ----------------------------------------------------------------------------------- */

static void tell(struct aw__chaos *world, uint32_t w, const struct aw_decision *decision)
{
    const struct aw__chaos_workload *of = &world->workload[w];
    const struct aw_guard_result *guard = &decision->guard;
    char clips[AW_GUARD_TEXT_MAX];
    aw__chaos_say(
        world, "  %-12s %s/%s has %lld x %lld m, %lld MiB; asks %u: %lld x %lld m, %lld MiB%s%s%s",
        of->pilot.name, aw_stage_name(decision->stage), aw_actor_name(decision->actor),
        (long long)of->real[AW_RESOURCE_REPLICAS], (long long)of->real[AW_RESOURCE_CPU],
        (long long)(of->real[AW_RESOURCE_MEMORY] >> 20), (unsigned)guard->plan.set,
        (long long)guard->plan.replicas, (long long)guard->plan.cpu_millicores,
        (long long)(guard->plan.memory_bytes >> 20), decision->applied ? " done" : "",
        guard->clips ? "; " : "", aw_guard_clips_format(guard, clips, sizeof clips));
}

static void sink(void *ctx, uint32_t w, const struct aw_decision *decision)
{
    struct aw__chaos *world = ctx;
    const struct aw_guard_result *guard = &decision->guard;
    world->result->decisions++;
    world->result->agent_steps +=
        decision->actor == AW_ACTOR_AGENT || decision->actor == AW_ACTOR_EXPLORING;
    aw__chaos_check_decision(world, w, decision);
    aw__chaos_digest(world, &decision->at_us, sizeof decision->at_us);
    aw__chaos_digest(world, &decision->stage, sizeof decision->stage);
    aw__chaos_digest(world, &decision->actor, sizeof decision->actor);
    aw__chaos_digest(world, &decision->policy_id, sizeof decision->policy_id);
    aw__chaos_digest(world, decision->action, sizeof decision->action);
    aw__chaos_digest(world, guard->plan.amount, sizeof guard->plan.amount);
    aw__chaos_digest(world, &guard->clips, sizeof guard->clips);
    if (world->config.trace)
        tell(world, w, decision);
}

/* What was decided and recorded in this tick, by the number that people would undo it with. */
static void note_deeds(struct aw__chaos *world)
{
    for (uint32_t i = 0; i < world->count && world->deed_count < AW__CHAOS_DEEDS_MAX; i++) {
        const struct aw__chaos_workload *w = &world->workload[i];
        const struct aw_plan *plan = &w->decision.guard.plan;
        if (!w->decided || plan->set == 0 || world->recorded || !world->record_asked)
            continue;
        struct aw_desk_view view;
        aw_desk_lock(world->desk);
        aw_desk_peek(world->desk, i, &view);
        aw_desk_unlock(world->desk);
        struct aw__chaos_deed *deed = &world->deed[world->deed_count++];
        *deed = (struct aw__chaos_deed){
            .id = view.changed_id, .workload = i, .set = (uint32_t)plan->set};
        memcpy(deed->from, w->decision.reading.wanted, sizeof deed->from);
    }
}

static void tick_loop(struct aw__chaos *world)
{
    struct aw_diag diag = {0};
    for (uint32_t i = 0; i < world->count; i++)
        world->workload[i].observed = world->workload[i].decided = world->workload[i].applied = 0;
    world->record_asked = false;
    world->recorded = AW_OK;
    world->kept = true;
    aw__chaos_spite(world);
    if (world->exchange)
        aw__chaos_external_tick(world);
    const enum aw_err err = aw_loop_tick(world->loop, sink, world, &diag);
    aw__chaos_must(world, err == AW_OK, AW_INVARIANT_TICK, UINT32_MAX, "%s: %s", aw_err_name(err),
                   diag.text);
    for (uint32_t i = 0; i < world->count; i++) {
        const struct aw__chaos_workload *w = &world->workload[i];
        aw__chaos_must(world, w->observed == 1 && w->decided == 1 && w->applied <= 1,
                       AW_INVARIANT_NEIGHBOURS, i, "observed %u times, decided on %u, applied %u",
                       w->observed, w->decided, w->applied);
    }
    note_deeds(world);
    aw__chaos_must(world, world->heap.bytes <= BYTES_BASE + world->count * BYTES_EACH,
                   AW_INVARIANT_MEMORY, UINT32_MAX, "%zu bytes are in use", world->heap.bytes);
    world->fresh = false;
}

static void live(struct aw__chaos *world)
{
    const bool kills = world->until[AW_CHAOS_KILL][0] == world->tick + 1;
    if (!world->down && kills && aw__chaos_chance(world, 0.5)) {
        aw__chaos_end(world, aw__chaos_chance(world, 0.8), false);
        aw__chaos_check_log(world);
        aw__chaos_start(world);
    } else if (!world->down && kills) { /* in the middle of it */
        world->dead_in = 1 + aw_rng_below(&world->rng, 6 * world->count + 4);
    }
    if (world->down)
        aw__chaos_start(world);
    if (world->down || world->result->failed)
        return;
    aw__chaos_people(world);
    aw__chaos_policy(world);
    tick_loop(world);
    aw__chaos_log_forget(world);
    if (world->dead || world->disk.power_off) {
        aw__chaos_end(world, true, world->disk.power_off);
        aw__chaos_check_log(world);
        aw__chaos_start(world);
    } else if ((world->tick + 1) % world->save_every == 0) {
        aw__chaos_save(world);
    }
    if (!world->down && (world->tick + 1) % LOG_EVERY == 0)
        aw__chaos_check_log(world);
}

static enum aw_err run(struct aw__chaos *world, struct aw_diag *diag)
{
    enum aw_err err = aw__chaos_world_make(world, diag);
    if (err)
        return err;
    world->result->workloads = world->count;
    aw__chaos_start(world);
    for (; world->tick < world->steps && !world->result->failed; world->tick++) {
        const int64_t begin = world->cluster.ops->now_us(world->cluster.self);
        aw__chaos_say(world, "tick %u", world->tick);
        world->ahead_us = 0;
        aw__chaos_faults_roll(world);
        live(world);
        const int64_t took = world->ahead_us;
        world->ahead_us = 0;
        /* a tick that took longer than its step is followed by the next at once */
        const int64_t step = took > world->step_us ? took : world->step_us;
        if ((err = world->cluster.ops->advance(world->cluster.self, begin + step)))
            return aw_fail(diag, err, "the simulated cluster stopped");
        world->result->ticks++;
    }
    if (!world->result->failed) {
        aw__chaos_end(world, false, false);
        aw__chaos_check_log(world);
    }
    return AW_OK;
}

static enum aw_err run_once(const struct aw_chaos_config *config, struct aw_chaos_result *ret,
                            struct aw_diag *diag)
{
    struct aw__chaos *world = calloc(1, sizeof *world);
    if (!world)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a world");
    memset(ret, 0, sizeof *ret);
    ret->digest = AW_HASH_BEGIN;
    world->config = *config;
    world->result = ret;
    const enum aw_err err = run(world, diag);
    aw__chaos_world_free(world);
    free(world);
    return err;
}

enum aw_err aw_chaos_run(const struct aw_chaos_config *config, struct aw_chaos_result *ret,
                         struct aw_diag *diag)
{
    enum aw_err err = run_once(config, ret, diag);
    if (err || ret->failed || !config->again)
        return err;
    struct aw_chaos_config second = *config;
    second.trace = NULL;
    struct aw_chaos_result again;
    err = run_once(&second, &again, diag);
    if (err)
        return err;
    ret->check_count[AW_INVARIANT_SAME]++;
    if (again.failed || again.digest != ret->digest) {
        ret->failed = true;
        ret->failure =
            (struct aw_chaos_failure){.invariant = AW_INVARIANT_SAME, .tick = again.ticks};
        snprintf(ret->failure.text, sizeof ret->failure.text,
                 "lived twice, it gave %016llx and then %016llx", (unsigned long long)ret->digest,
                 (unsigned long long)again.digest);
    }
    return AW_OK;
}
