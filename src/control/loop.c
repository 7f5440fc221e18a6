/* loop.c - the control loop: who is in it, and a tick. */
#include "control/loop_internal.h"

#include <string.h>

#include "base/text.h"

/* --- who comes and goes ----------------------------------------------------------------------- */

/* Room for the pods of `more` beside those of all others, and for the moment of any. */
static enum aw_err make_room(struct aw_loop *loop, uint32_t more, size_t moment_bytes,
                             struct aw_diag *diag)
{
    struct aw_pod *pods = NULL;
    void *moment = NULL;
    const bool moments = loop->hooks && loop->hooks->moments && moment_bytes > loop->moment_bytes;
    uint32_t max = loop->pods.max;
    if (loop->pods_wanted + more > max) { /* half as much again: not for everybody who comes */
        max = loop->pods_wanted + more;
        max += loop->count < loop->max ? max / 2 : 0;
        if (!(pods = aw_alloc_new(loop->alloc, max, sizeof *pods)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u pods", max);
    }
    if (moments && !(moment = aw_alloc_new(loop->alloc, moment_bytes, 1))) {
        aw_alloc_free(loop->alloc, pods);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a moment of %zu bytes", moment_bytes);
    }
    if (pods) {
        aw_alloc_free(loop->alloc, loop->pods.pod);
        loop->pods = (struct aw_pilot_pods){.pod = pods, .max = max};
    }
    if (moment) {
        aw_alloc_free(loop->alloc, loop->moment);
        loop->moment = moment;
        loop->moment_bytes = moment_bytes;
    }
    return moment && loop->tenancy ? aw__loop_tenancy_moments(loop, moment_bytes, diag) : AW_OK;
}

/* A seat for the agent of another process, where the workload admits one. */
static enum aw_err make_seat(struct aw_loop *loop, uint32_t index,
                             const struct aw_pilot_config *config, struct aw_diag *diag)
{
    if (!loop->exchange)
        return AW_OK;
    if (!aw_policy_ops_of(config->agent)->elsewhere || !config->learning) {
        aw_agent_exchange_close(loop->exchange, index);
        return AW_OK;
    }
    const uint32_t more = aw_action_more(&config->bounds);
    struct aw_agent_exchange_seat seat = {.obs_dim = aw_state_dim_with(config->state, more),
                                          .more = more,
                                          .state = config->state,
                                          .mapping = config->mapping,
                                          .step_s = config->step_s,
                                          .deadline_s = config->external.deadline};
    memcpy(seat.name, config->name, sizeof seat.name);
    return aw_agent_exchange_open(loop->exchange, index, &seat, diag);
}

enum aw_err aw_loop_add(struct aw_loop *loop, const struct aw_pilot_config *config,
                        const struct aw_fallback_task *task, uint32_t *ret_workload,
                        struct aw_diag *diag)
{
    const bool used = loop->first_free != AW__LOOP_NOBODY;
    if (!used && loop->count == loop->max)
        return aw_fail(diag, AW_ERR_LIMIT, "the loop was made for %u workloads", loop->max);
    const uint32_t index = used ? loop->first_free : loop->count;
    const int64_t now = loop->cluster.ops->now_us(loop->cluster.self);
    const uint32_t pods_max = aw_pilot_pods_max(config);
    struct aw__loop_slot *slot = &loop->slot[index];
    struct aw_pilot *pilot = NULL;
    enum aw_err err = aw_pilot_new_among(config, task, now, &loop->pods, loop->alloc, &pilot, diag);
    err = err ? err : make_room(loop, pods_max, aw_pilot_snapshot_bytes_max(pilot), diag);
    err = err ? err : make_seat(loop, index, config, diag);
    if (err) {
        aw_pilot_free(pilot);
        return err;
    }
    aw_pilot_clock(pilot, loop->clock);
    loop->first_free = used ? slot->next_free : AW__LOOP_NOBODY;
    loop->count += !used;
    loop->live++;
    loop->pods_wanted += pods_max;
    loop->fresh = true;
    *slot = (struct aw__loop_slot){.pilot = pilot,
                                   .serial = ++loop->serial,
                                   .pods_max = pods_max,
                                   .key = AW__LOOP_NOT_DUE,
                                   .fresh = true,
                                   .round = AW__LOOP_NOBODY};
    *ret_workload = index;
    return AW_OK;
}

enum aw_err aw_loop_remove(struct aw_loop *loop, uint32_t workload)
{
    if (!aw_loop_has(loop, workload))
        return AW_ERR_NOTFOUND;
    struct aw__loop_slot *slot = &loop->slot[workload];
    if (loop->exchange)
        aw_agent_exchange_close(loop->exchange, workload);
    aw__loop_round_leave(loop, slot);
    aw_pilot_free(slot->pilot);
    loop->live--;
    loop->pods_wanted -= slot->pods_max;
    *slot = (struct aw__loop_slot){
        .key = AW__LOOP_NOT_DUE, .next_free = loop->first_free, .round = AW__LOOP_NOBODY};
    loop->first_free = workload;
    return AW_OK;
}

enum aw_err aw_loop_update(struct aw_loop *loop, uint32_t workload,
                           const struct aw_pilot_config *config, struct aw_diag *diag)
{
    if (!aw_loop_has(loop, workload))
        return aw_fail(diag, AW_ERR_NOTFOUND, "there is no workload %u", workload);
    struct aw__loop_slot *slot = &loop->slot[workload];
    const uint32_t pods_max = aw_pilot_pods_max(config), before = slot->pods_max;
    struct aw_pilot *pilot = NULL;
    enum aw_err err = aw_pilot_new_after(slot->pilot, config, &pilot, diag);
    if (err)
        return err;
    err = make_room(loop, pods_max > before ? pods_max - before : 0,
                    aw_pilot_snapshot_bytes_max(pilot), diag);
    err = err ? err : make_seat(loop, workload, config, diag);
    if (err) {
        aw_pilot_free(pilot);
        return err;
    }
    aw_pilot_clock(pilot, loop->clock);
    aw__loop_round_leave(loop, slot); /* it learned for the old settings */
    aw_pilot_free(slot->pilot);
    slot->pilot = pilot;
    slot->pods_max = pods_max;
    loop->pods_wanted += pods_max - before;
    return AW_OK;
}

/* --- made and ended --------------------------------------------------------------------------- */

static enum aw_err make_slots(struct aw_loop *loop, const struct aw_loop_config *config,
                              struct aw_diag *diag)
{
    const uint32_t threads = config->thread_count;
    uint32_t learn_max = config->learn_max;
    if (learn_max == 0 && config->learning == AW_LOOP_LEARN_AFTER)
        learn_max = AW_LOOP_LEARN_AFTER_MAX;
    if (learn_max == 0)
        learn_max = threads > AW_LOOP_LEARN_MAX ? threads : AW_LOOP_LEARN_MAX;
    loop->learn_max = learn_max < loop->max ? learn_max : loop->max;
    loop->slot = aw_alloc_new(loop->alloc, loop->max, sizeof *loop->slot);
    loop->lowest = aw_alloc_new(loop->alloc, loop->learn_max, sizeof *loop->lowest);
    loop->due = aw_alloc_new(loop->alloc, loop->learn_max, sizeof *loop->due);
    loop->err = aw_alloc_new(loop->alloc, loop->learn_max, sizeof *loop->err);
    if (!loop->slot || !loop->lowest || !loop->due || !loop->err)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u workloads", loop->max);
    for (uint32_t i = 0; i < config->workload_count; i++)
        loop->pods_wanted += aw_pilot_pods_max(&config->pilots[i]);
    const enum aw_err err = make_room(loop, 0, 0, diag); /* for all at once */
    loop->pods_wanted = 0;
    return err;
}

enum aw_err aw_loop_new(const struct aw_loop_config *config, const struct aw_alloc *alloc,
                        struct aw_loop **ret_loop, struct aw_diag *diag)
{
    const uint32_t max = config->workloads_max ? config->workloads_max : config->workload_count;
    if (max == 0 || max > AW_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u workloads, found %u",
                       AW_WORKLOADS_MAX, max);
    if (config->workload_count > max)
        return aw_fail(diag, AW_ERR_CONFIG, "expected at most %u workloads, found %u", max,
                       config->workload_count);
    struct aw_loop *loop = aw_alloc_new(alloc, 1, sizeof *loop);
    if (!loop)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the control loop");
    loop->cluster = config->cluster;
    loop->store = config->store;
    loop->deadline_us = config->deadline_us;
    loop->hooks = config->hooks;
    loop->steadfast = config->steadfast;
    loop->clock = config->clock;
    loop->exchange = config->exchange;
    loop->alloc = alloc;
    loop->max = max;
    loop->first_free = AW__LOOP_NOBODY;
    enum aw_err err = make_slots(loop, config, diag);
    err = err ? err : aw__loop_learning_make(loop, config, diag);
    err = err ? err : aw__others_make(loop);
    err = err ? err : aw__loop_tenancy_make(loop, &config->tenancy, config->workload_count, diag);
    for (uint32_t i = 0; !err && i < config->workload_count; i++) {
        uint32_t index;
        err = aw_loop_add(loop, &config->pilots[i], &config->tasks[i], &index, diag);
    }
    if (err) {
        aw_loop_free(loop);
        return err;
    }
    if (loop->exchange) /* of a loop before this one */
        aw_agent_exchange_close_from(loop->exchange, loop->count);
    for (uint32_t i = 0; i < loop->count; i++) /* a store that is not empty: aw_loop_resume */
        loop->slot[i].fresh = false;
    loop->fresh = false;
    *ret_loop = loop;
    return AW_OK;
}

void aw_loop_free(struct aw_loop *loop)
{
    if (!loop)
        return;
    aw__learning_deinit(&loop->learning);
    for (uint32_t i = 0; i < loop->count; i++)
        aw_pilot_free(loop->slot[i].pilot);
    aw__loop_tenancy_free(loop);
    aw__others_free(loop);
    aw_threads_deinit(&loop->pool);
    aw_alloc_free(loop->alloc, loop->rounds);
    aw_alloc_free(loop->alloc, loop->moment);
    aw_alloc_free(loop->alloc, loop->pods.pod);
    aw_alloc_free(loop->alloc, loop->err);
    aw_alloc_free(loop->alloc, loop->due);
    aw_alloc_free(loop->alloc, loop->lowest);
    aw_alloc_free(loop->alloc, loop->slot);
    aw_alloc_free(loop->alloc, loop);
}

/* --- agents of other processes -----------------------------------------------------------------
 */

static bool has_external(const struct aw_loop *loop, const struct aw__loop_slot *slot)
{
    if (!loop->exchange || !slot->pilot)
        return false;
    const struct aw_pilot_config *config = aw_pilot_config(slot->pilot);
    return aw_policy_ops_of(config->agent)->elsewhere && config->learning;
}

/* All at once, so that together they take no longer than the slowest may. */
static void ask_all(struct aw_loop *loop)
{
    const struct aw_cluster *cluster = &loop->cluster;
    const struct aw_loop_hooks *hooks = loop->hooks;
    if (!loop->exchange)
        return;
    aw__others_gather(loop);
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_external_agent_request request;
        struct aw_others_view others;
        if (!has_external(loop, &loop->slot[i]))
            continue;
        if (aw_pilot_asks(loop->slot[i].pilot, cluster->ops->now_us(cluster->self), &request)) {
            aw__others_view(loop, i, &others);
            aw_agent_exchange_ask(loop->exchange, i, &request, &others);
        } else
            aw_agent_exchange_pass(loop->exchange, i);
    }
    if (!aw_agent_exchange_waits(loop->exchange))
        return;
    if (hooks)
        hooks->leave(hooks->ctx);
    aw_agent_exchange_wait(loop->exchange);
    if (hooks)
        hooks->enter(hooks->ctx);
}

static void hear_one(struct aw_loop *loop, uint32_t index)
{
    struct aw_external_agent_answer answer;
    if (!has_external(loop, &loop->slot[index]))
        return;
    aw_agent_exchange_hear(loop->exchange, index, &answer);
    aw_pilot_hear(loop->slot[index].pilot, &answer);
}

/* What an agent is told of a decision. */
static void tell_one(struct aw_loop *loop, uint32_t index)
{
    if (!has_external(loop, &loop->slot[index]))
        return;
    const struct aw_decision *decision = aw_pilot_decision(loop->slot[index].pilot);
    const struct aw_external_agent_report *report = &decision->external;
    const bool acts = decision->actor == AW_ACTOR_AGENT;
    struct aw_agent_exchange_outcome outcome = {
        .verdict = report->fault == AW_EXTERNAL_AGENT_FAULT_LATE     ? AW_AGENT_EXCHANGE_LATE
                   : report->fault > AW_EXTERNAL_AGENT_FAULT_UNASKED ? AW_AGENT_EXCHANGE_INVALID
                   : !acts                                           ? AW_AGENT_EXCHANGE_SHADOW
                   : decision->guard.clips                           ? AW_AGENT_EXCHANGE_CLIPPED
                                                                     : AW_AGENT_EXCHANGE_FOLLOWED,
        .standing = report->standing,
        .acts = acts,
        .frozen = decision->orders.freeze == AW_GUARD_FREEZE_ALL,
    };
    struct aw_text text;
    char reason[AW_GUARD_TEXT_MAX];
    aw_text_init(&text, outcome.text, sizeof outcome.text);
    if (outcome.verdict == AW_AGENT_EXCHANGE_CLIPPED)
        aw_text_add(&text, "%s", aw_guard_clips_format(&decision->guard, reason, sizeof reason));
    else if (!acts && report->follow && decision->verdict != AW_WATCHDOG_PASS)
        aw_text_add(&text, "held back: %s",
                    aw_watchdog_reason_format(&decision->watchdog, reason, sizeof reason));
    else if (!acts && report->follow)
        aw_text_add(&text, "the stage is %s: the fallback acts", aw_stage_name(decision->stage));
    else if (!acts)
        aw_text_add(&text, "%s", aw_external_agent_report_format(report, reason, sizeof reason));
    aw_agent_exchange_tell(loop->exchange, index, &outcome);
}

/* --- a tick ----------------------------------------------------------------------------------- */

void aw_loop_resume(struct aw_loop *loop)
{
    loop->resume_due = loop->store != NULL;
    for (uint32_t i = 0; i < loop->count; i++)
        if (loop->slot[i].pilot)
            aw_pilot_resume(loop->slot[i].pilot, NULL);
}

/* A store that does not say where it ends takes nothing either: rows of another life may be there
 * under the same keys. */
static enum aw_err find_end(struct aw_loop *loop, struct aw_diag *diag)
{
    if (!loop->store || !(loop->resume_due || loop->fresh))
        return AW_OK;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_store_last last;
        struct aw__loop_slot *slot = &loop->slot[i];
        if (!slot->pilot || !(loop->resume_due || slot->fresh))
            continue;
        const enum aw_err err =
            aw_store_last(loop->store, aw_pilot_config(slot->pilot)->name, &last, diag);
        if (err && err != AW_ERR_NODATA)
            return err;
        if (!err || loop->resume_due)
            aw_pilot_resume(slot->pilot, err ? NULL : &last);
        slot->fresh = false;
    }
    loop->resume_due = loop->fresh = false;
    return AW_OK;
}

static enum aw_err observe_all(struct aw_loop *loop, struct aw_diag *diag)
{
    const struct aw_cluster *cluster = &loop->cluster;
    struct aw_store *store = loop->store;
    enum aw_err err = find_end(loop, diag);
    err = err || !store ? err : aw_store_begin(store, diag);
    const bool begun = store && !err;
    loop->pods.used = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_sample sample;
        struct aw_pilot *pilot = loop->slot[i].pilot;
        if (!pilot)
            continue;
        const int64_t now = cluster->ops->now_us(cluster->self);
        const enum aw_err seen =
            cluster->ops->observe(cluster->self, i, loop->deadline_us, &sample);
        loop->counts.observe_failures += seen != AW_OK;
        struct aw_store_row row;
        if (aw_pilot_observe(pilot, seen ? NULL : &sample, now, &row) && begun && !err)
            err = aw_store_append(store, &row, diag);
    }
    const enum aw_err kept = begun ? aw_store_commit(store, err ? NULL : diag) : AW_OK;
    return err ? err : kept;
}

/* Who misses its SLO comes first, then who has waited longest, then the lower slot. */
static uint64_t key_of(const struct aw_loop *loop, uint32_t index)
{
    const struct aw__loop_slot *slot = &loop->slot[index];
    return (uint64_t)!aw_pilot_misses(slot->pilot) << 63 | slot->since << 16 | index;
}
_Static_assert(AW_WORKLOADS_MAX <= 1u << 16, "a slot has sixteen bits of a key");

static void *moment_of(const struct aw_loop *loop, uint32_t index)
{
    return loop->tenancy->moments ? loop->tenancy->moments + index * loop->tenancy->moment_each
                                  : NULL;
}

/* While it is at hand: the passes behind this one look at few pilots. */
static void note_one(struct aw_loop *loop, uint32_t index)
{
    struct aw__loop_slot *slot = &loop->slot[index];
    slot->acts = aw_pilot_decision(slot->pilot)->guard.plan.set != 0;
    const bool due = aw_pilot_learn_due(slot->pilot) && slot->round == AW__LOOP_NOBODY;
    slot->since = !due ? 0 : slot->since ? slot->since : loop->counts.ticks + 1;
    slot->key = due ? key_of(loop, index) : AW__LOOP_NOT_DUE;
}

static void decide_all(struct aw_loop *loop)
{
    const bool together = aw__loop_arbitrates(loop);
    const struct aw_cluster *cluster = &loop->cluster;
    const struct aw_loop_hooks *hooks = loop->hooks;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_pilot *pilot = loop->slot[i].pilot;
        if (!pilot)
            continue;
        const int64_t now = cluster->ops->now_us(cluster->self);
        struct aw_orders orders = {0};
        void *moment = together ? moment_of(loop, i) : loop->moment;
        size_t bytes = 0;
        hear_one(loop, i);
        if (hooks) {
            hooks->orders(hooks->ctx, i, now, &orders);
            if (hooks->moments)
                bytes = aw_pilot_snapshot_save(pilot, moment);
        }
        const struct aw_decision *decision = aw_pilot_decide(pilot, &orders, now);
        if (bytes)
            aw_pilot_snapshot_took(moment, decision->took_s);
        loop->counts.decisions++;
        if (together)
            loop->tenancy->moment_bytes[i] = bytes;
        else if (hooks)
            hooks->decided(hooks->ctx, i, decision, bytes ? moment : NULL, bytes);
        if (!together)
            note_one(loop, i);
    }
}

/* Tenants of one cluster: nothing is told before all of it has been arbitrated. */
static void arbitrate_all(struct aw_loop *loop)
{
    if (!aw__loop_arbitrates(loop))
        return;
    aw__loop_arbitrate(loop);
    for (uint32_t i = 0; i < loop->count; i++) {
        if (!loop->slot[i].pilot)
            continue;
        const size_t bytes = loop->tenancy->moment_bytes[i];
        if (loop->hooks)
            loop->hooks->decided(loop->hooks->ctx, i, aw_pilot_decision(loop->slot[i].pilot),
                                 bytes ? moment_of(loop, i) : NULL, bytes);
        note_one(loop, i);
    }
}

static void apply_all(struct aw_loop *loop, bool recorded, aw_loop_sink *sink, void *ctx)
{
    const struct aw_cluster *cluster = &loop->cluster;
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct aw__loop_slot *slot = &loop->slot[i];
        struct aw_pilot *pilot = slot->pilot;
        if (!pilot || (recorded && !slot->acts && !sink))
            continue;
        const struct aw_decision *decision = aw_pilot_decision(pilot);
        if (recorded ? slot->acts : aw_pilot_unrecorded(pilot)) {
            const enum aw_err err =
                cluster->ops->apply(cluster->self, i, &decision->guard.plan, loop->deadline_us);
            aw_pilot_applied(pilot, !err, cluster->ops->now_us(cluster->self));
            loop->counts.plans_applied += !err;
            loop->counts.apply_failures += err != AW_OK;
            if (loop->hooks)
                loop->hooks->applied(loop->hooks->ctx, i, decision, err);
        }
        if (sink)
            sink(ctx, i, decision);
    }
}

enum aw_err aw_loop_tick(struct aw_loop *loop, aw_loop_sink *sink, void *ctx, struct aw_diag *diag)
{
    const struct aw_loop_hooks *hooks = loop->hooks;
    if (hooks)
        hooks->enter(hooks->ctx);
    enum aw_err err = observe_all(loop, diag);
    const bool kept = !err;
    if (err && aw__loop_may_pass(loop, err)) {
        loop->counts.store_failures++;
        err = AW_OK;
    }
    if (!err) {
        ask_all(loop);
        decide_all(loop);
        arbitrate_all(loop);
        bool recorded = kept;
        if (hooks) {
            const int64_t now = loop->cluster.ops->now_us(loop->cluster.self);
            const enum aw_err written = hooks->record(hooks->ctx, now, kept ? diag : NULL);
            loop->counts.record_failures += written != AW_OK;
            recorded = kept && !written;
        }
        apply_all(loop, recorded, sink, ctx);
        for (uint32_t i = 0; loop->exchange && i < loop->count; i++)
            tell_one(loop, i);
    }
    if (hooks)
        hooks->leave(hooks->ctx);
    if (!err && kept)
        err = aw__loop_learn(loop, diag);
    loop->counts.ticks += err == AW_OK;
    return err;
}

uint32_t aw_loop_count(const struct aw_loop *loop)
{
    return loop->count;
}

bool aw_loop_has(const struct aw_loop *loop, uint32_t workload)
{
    return workload < loop->count && loop->slot[workload].pilot;
}

struct aw_pilot *aw_loop_pilot(struct aw_loop *loop, uint32_t workload)
{
    AW_ASSERT(aw_loop_has(loop, workload));
    return loop->slot[workload].pilot;
}

size_t aw_loop_bytes(const struct aw_loop *loop)
{
    size_t bytes = sizeof *loop + loop->max * sizeof *loop->slot +
                   loop->pods.max * sizeof *loop->pods.pod + loop->moment_bytes;
    for (uint32_t i = 0; i < loop->count; i++)
        bytes += loop->slot[i].pilot ? aw_pilot_bytes(loop->slot[i].pilot, false) : 0;
    return bytes;
}

const struct aw_loop_counts *aw_loop_counts(const struct aw_loop *loop)
{
    return &loop->counts;
}
