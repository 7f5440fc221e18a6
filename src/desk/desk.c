/*
 * desk.c - what is decided is written down before it is done.
 *
 * Entries of the log, by kind: start, stop, decision (notable ones alone), outcome (what became of
 * a plan, or of an order), proposal, order, policy (a part of a text that was handed in). The
 * number of an entry is the number that people use.
 */
#include "base/hash.h"
#include "desk/desk_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- seats ------------------------------------------------------------------------------------ */

/* A slot of the loop may be given to another workload: then the seat begins anew. NULL: no memory.
 */
static struct aw__seat *steward_seat(struct aw_desk *desk, uint32_t index, const char *name)
{
    AW_ASSERT(index < AW_WORKLOADS_MAX);
    struct aw__seat *seat = desk->seat[index];
    if (!seat) {
        seat = aw_alloc_new(desk->alloc, 1, sizeof *seat);
        if (!seat)
            return NULL;
        desk->seat[index] = seat;
        if (index >= desk->count)
            desk->count = index + 1;
    }
    if (strcmp(seat->name, name) != 0) {
        aw__desk_policy_drop(seat);
        memset(seat, 0, sizeof *seat);
        snprintf(seat->name, sizeof seat->name, "%s", name);
        seat->decided_us = AW_NEVER;
    }
    return seat;
}

/* The pilot has it; one that has come into this place since, or has been given back a state, has
 * decided nothing yet. */
const struct aw_decision *aw__desk_last(const struct aw_desk *desk, uint32_t index)
{
    static const struct aw_decision none = {.at_us = AW_NEVER};
    const struct aw_decision *last = aw_pilot_decision(aw_loop_pilot(desk->loop, index));
    const int64_t decided_us = desk->seat[index]->decided_us;
    return decided_us != AW_NEVER && last->at_us == decided_us ? last : &none;
}

/* --- writing down ----------------------------------------------------------------------------- */

void aw__desk_ail(struct aw_desk *desk, enum aw_err err, const struct aw_diag *diag)
{
    desk->ailing = err;
    if (diag)
        desk->ailment = *diag;
}

static json_t *axes(uint32_t set)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (set & AW_PLAN_BIT(i))
            json_array_append_new(array, json_string(aw_resource_table[i].name));
    return array;
}

/* `plan` is what changes, or what is proposed; amounts that it does not set are as they are. */
static json_t *entry_of(const struct aw__seat *seat, const struct aw_pilot_config *config,
                        const struct aw_decision *decision, const struct aw_plan *plan)
{
    const struct aw_plan from = aw_explanation_before(decision);
    struct aw_plan to = *plan;
    to.set = from.set;
    json_t *entry = aw_explanation_brief(config, decision);
    if (!entry)
        return NULL;
    json_object_set_new(entry, "workload", json_string(seat->name));
    json_object_set_new(entry, "from", aw_explanation_plan_json(&from));
    json_object_set_new(entry, "to", aw_explanation_plan_json(&to));
    json_object_set_new(entry, "changed", axes(plan->set));
    return entry;
}

/* Adds to the group of this tick; a group that is full is written first. */
static enum aw_err add(struct aw_desk *desk, int64_t at_us, const char *kind, json_t *entry,
                       uint64_t *ret_id)
{
    struct aw_diag diag = {0};
    if (!entry)
        return AW_ERR_NOMEM;
    enum aw_err err = aw_audit_append(desk->audit, at_us, kind, entry, ret_id, &diag);
    if (err == AW_ERR_LIMIT && !(err = aw_audit_commit(desk->audit, &diag)))
        err = aw_audit_append(desk->audit, at_us, kind, entry, ret_id, &diag);
    if (err)
        aw__desk_ail(desk, err, &diag);
    else
        desk->counts.entries++;
    json_decref(entry);
    return err;
}

/* A log that could not be written once may hold half a line until it can be mended. */
static enum aw_err commit(struct aw_desk *desk, struct aw_diag *diag)
{
    struct aw_diag why = {0};
    const enum aw_err err = aw_audit_commit(desk->audit, &why);
    aw__desk_ail(desk, err, &why);
    if (err && diag)
        *diag = why;
    return err;
}

/* The same for what has been done, and for people: a full disk has blocks for it. What ails the
 * desk stays known until a commit without these succeeds. */
enum aw_err aw__desk_commit_reserved(struct aw_desk *desk, struct aw_diag *diag)
{
    struct aw_diag why = {0};
    const enum aw_err err = aw_audit_commit_reserved(desk->audit, &why);
    if (err)
        aw__desk_ail(desk, err, &why);
    else if (aw_audit_on_reserve(desk->audit)) {
        struct aw_diag full = {0};
        aw__desk_ail(desk, aw_fail(&full, AW_ERR_IO, "the disk is full: reserved blocks are used"),
                     &full);
    } else
        aw__desk_ail(desk, AW_OK, &why);
    if (err && diag)
        *diag = why;
    return err;
}

/* --- the desk --------------------------------------------------------------------------------- */

/* The log could not be written, and this was done nevertheless: growth on a missed SLO. */
static void put_by(struct aw_desk *desk, uint32_t index, const struct aw_decision *decision,
                   enum aw_err result)
{
    const struct aw_pilot_config *config = aw_pilot_config(aw_loop_pilot(desk->loop, index));
    json_t *entry = entry_of(desk->seat[index], config, decision, &decision->guard.plan);
    char *text = NULL;
    desk->counts.late++;
    if (entry && !json_object_set_new(entry, "late", json_true()))
        text = json_dumps(entry, JSON_COMPACT);
    if (text && desk->config.unwritten)
        desk->config.unwritten(desk->config.unwritten_ctx, text);
    free(text);
    if (!entry || desk->counts.late_waiting == AW__LATE_MAX) {
        json_decref(entry);
        desk->counts.late_lost++;
        return;
    }
    desk->late[desk->counts.late_waiting++] =
        (struct aw__late){.seat = index, .at_us = decision->at_us, .err = result, .entry = entry};
}

/* Enters what was put by, at the end of its tick and before the next writes anything; what the log
 * does not take waits. One commit each: what was entered is never entered again. */
static void enter_late(struct aw_desk *desk, uint64_t at_most)
{
    const uint64_t waiting = desk->counts.late_waiting;
    uint64_t entered = 0;
    for (; entered < waiting && entered < at_most; entered++) {
        struct aw__late *late = &desk->late[entered];
        struct aw__seat *seat = desk->seat[late->seat];
        uint64_t id = 0;
        if (add(desk, late->at_us, "decision", json_incref(late->entry), &id) ||
            aw__desk_commit_reserved(desk, NULL)) {
            aw_audit_abort(desk->audit);
            break;
        }
        const json_t *name = json_object_get(late->entry, "workload");
        if (seat && strcmp(seat->name, json_string_value(name)) == 0) {
            seat->last_id = seat->changed_id = id;
            aw__desk_outcome(desk, seat, id, 0, late->err);
        }
        json_decref(late->entry);
    }
    desk->counts.late_waiting -= entered;
    memmove(desk->late, desk->late + entered, desk->counts.late_waiting * sizeof *desk->late);
}

static void desk_enter(void *ctx)
{
    struct aw_desk *desk = ctx;
    aw_desk_lock(desk);
    desk->tick_err = AW_OK;
    desk->tick_entries = 0;
    desk->journal_open = desk->unwritten = false;
    enter_late(desk, AW__LATE_TICK);
}

/* What became of this tick's plans. Losing it loses no change and no order: it is told again in no
 * later tick, but whoever reads the log sees the next decision begin from what was there. */
static void desk_leave(void *ctx)
{
    struct aw_desk *desk = ctx;
    struct aw_diag diag = {0};
    if (desk->unwritten)
        enter_late(desk, AW__LATE_TICK);
    if (desk->outcome_count > 0) {
        enum aw_err err = AW_OK;
        for (uint32_t i = 0; !err && i < desk->outcome_count; i++) {
            const struct aw__outcome *outcome = &desk->outcome[i];
            json_t *entry = json_pack("{s:s, s:I, s:s}", "workload", outcome->name, "of",
                                      (json_int_t)outcome->of, "result",
                                      outcome->err ? aw_err_name(outcome->err) : "done");
            if (entry && outcome->order)
                json_object_set_new(entry, "order", json_integer((json_int_t)outcome->order));
            err = add(desk, desk->now_us, "outcome", entry, NULL);
        }
        if (err)
            aw_audit_abort(desk->audit);
        else
            err = aw__desk_commit_reserved(desk, &diag);
        desk->counts.outcomes_lost += err ? desk->outcome_count : 0;
        desk->outcome_count = 0;
    }
    aw_desk_unlock(desk);
}

void aw__desk_outcome(struct aw_desk *desk, const struct aw__seat *seat, uint64_t of,
                      uint64_t order, enum aw_err result)
{
    if (desk->relived)
        return;
    if (desk->outcome_count == AW__OUTCOMES_MAX) {
        desk->counts.outcomes_lost++;
        return;
    }
    struct aw__outcome *outcome = &desk->outcome[desk->outcome_count++];
    *outcome = (struct aw__outcome){.of = of, .order = order, .err = result};
    memcpy(outcome->name, seat->name, sizeof outcome->name);
}

static void desk_orders(void *ctx, uint32_t index, int64_t now_us, struct aw_orders *ret)
{
    struct aw_desk *desk = ctx;
    struct aw_pilot *pilot = aw_loop_pilot(desk->loop, index);
    struct aw__seat *seat = desk->seat[index];
    desk->now_us = now_us; /* which may have gone back */
    desk->relived = desk->config.virtual_time && now_us <= desk->lived_until_us;
    aw__desk_catch_up(desk, now_us);
    if (seat && seat->reset_us > 0) {
        /* nobody learns now. Without memory for it the next tick tries again */
        const enum aw_err err = aw_pilot_forget(pilot, seat->reset_us, NULL);
        (void)err;
    }
    if (seat)
        aw__desk_policies(desk, seat, pilot);
    aw_standing_orders_orders(&desk->book, aw_pilot_config(pilot)->name, now_us, ret);
}

/* A recommendation that nobody has approved of in time, though it still stands. */
static bool unproposed(const struct aw__seat *seat, const struct aw_pilot_config *config,
                       const struct aw_decision *decision)
{
    return config->guard.mode == AW_GUARD_APPROVE && decision->guard.recommended.set &&
           !decision->orders.pin.set &&
           (!seat->proposal.id || decision->at_us >= seat->proposal.expires_us);
}

/* A recommendation that waits for a person: a new one, or none any more. */
static enum aw_err propose(struct aw_desk *desk, struct aw__seat *seat,
                           const struct aw_pilot_config *config, const struct aw_decision *decision)
{
    const struct aw_plan *plan = &decision->guard.recommended;
    struct aw_desk_proposal *waiting = &seat->proposal;
    if (waiting->id && decision->at_us >= waiting->expires_us)
        *waiting = (struct aw_desk_proposal){0};
    if (config->guard.mode != AW_GUARD_APPROVE || plan->set == 0 || decision->orders.pin.set) {
        if (config->guard.mode != AW_GUARD_APPROVE || decision->orders.pin.set)
            *waiting = (struct aw_desk_proposal){0};
        return AW_OK;
    }
    if (waiting->id && memcmp(&waiting->plan, plan, sizeof *plan) == 0)
        return AW_OK;
    const int64_t expires = decision->at_us + (int64_t)llround(desk->config.proposal_s * 1e6);
    json_t *entry = entry_of(seat, config, decision, plan);
    if (entry)
        json_object_set_new(entry, "expires_us", json_integer(expires));
    uint64_t id = 0;
    const enum aw_err err = add(desk, decision->at_us, "proposal", entry, &id);
    if (!err)
        *waiting = (struct aw_desk_proposal){id, decision->at_us, expires, *plan};
    return err;
}

/* The number of the settings in the journal: their text is long, and they hardly ever change. Equal
 * bytes are equal settings; what differs in padding alone is only told once more. */
static enum aw_err settings_of(struct aw_desk *desk, struct aw__seat *seat,
                               const struct aw_pilot_config *config)
{
    const uint64_t sum = aw_hash_bytes(aw_hash_bytes(AW_HASH_BEGIN, config, sizeof *config),
                                       &seat->task, sizeof seat->task);
    if (seat->config && seat->config_sum == sum)
        return AW_OK;
    char *text = aw_explanation_config_text(config, &seat->task);
    const enum aw_err err =
        text ? aw_journal_config(desk->journal, text, &seat->config, NULL) : AW_ERR_NOMEM;
    seat->config_sum = sum;
    if (err)
        seat->config = 0;
    free(text);
    return err;
}

static void keep(struct aw_desk *desk, struct aw__seat *seat, const struct aw_pilot_config *config,
                 const struct aw_decision *decision, const void *moment, size_t moment_bytes)
{
    if (!desk->journal)
        return;
    enum aw_err err = AW_OK;
    if (!desk->journal_open) {
        err = aw_journal_begin(desk->journal, NULL);
        desk->journal_open = !err;
    }
    err = err ? err : settings_of(desk, seat, config);
    char *account = err ? NULL : aw_explanation_text(config, decision);
    if (account)
        err = aw_journal_put_under(desk->journal, seat->last_id, seat->name, decision->at_us,
                                   &decision->orders, account, seat->config, moment, moment_bytes,
                                   NULL);
    desk->counts.journal_failures += err || !account;
    free(account);
}

/* A person's order is carried out when all is as it asks, or a rail that lasts holds the rest. What
 * only waits, for figures or for the cluster to answer, is tried again. */
static bool carried_out(const struct aw_decision *decision)
{
    const uint32_t lasting = AW_CLIP_BIT(AW_CLIP_ABSURD) | AW_CLIP_BIT(AW_CLIP_BOUNDS) |
                             AW_CLIP_BIT(AW_CLIP_NODE) | AW_CLIP_BIT(AW_CLIP_OOM_FLOOR) |
                             AW_CLIP_BIT(AW_CLIP_WORKING_SET) | AW_CLIP_BIT(AW_CLIP_UNCONTROLLED) |
                             AW_CLIP_BIT(AW_CLIP_ZERO);
    const struct aw_plan *pin = &decision->orders.pin;
    const uint32_t differs = pin->set & aw_plan_differs(pin->amount, decision->reading.wanted);
    if (!decision->answered || decision->guard.recommended.set)
        return false;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if ((differs & AW_PLAN_BIT(i)) && !(decision->guard.axis_clips[i] & lasting))
            return false;
    return true;
}

static void desk_decided(void *ctx, uint32_t index, const struct aw_decision *decision,
                         const void *moment, size_t moment_bytes)
{
    struct aw_desk *desk = ctx;
    const struct aw_pilot *pilot = aw_loop_pilot(desk->loop, index);
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    struct aw__seat *seat = steward_seat(desk, index, config->name);
    if (!seat) {
        desk->tick_err = AW_ERR_NOMEM;
        return;
    }
    const struct aw_explanation_noted *before =
        seat->decided_us == AW_NEVER || seat->unlogged ? NULL : &seat->noted;
    const bool notable =
        aw_explanation_notable(before, decision) || unproposed(seat, config, decision);
    desk->relived = desk->config.virtual_time && decision->at_us <= desk->lived_until_us;
    seat->orders = decision->orders;
    if (decision->orders.pin.set && carried_out(decision)) {
        aw__desk_outcome(desk, seat, decision->orders.pin_id, decision->orders.pin_id, AW_OK);
        aw_standing_orders_done(&desk->book, decision->orders.pin_id);
    }
    aw_explanation_note(&seat->noted, decision);
    seat->decided_us = decision->at_us;
    seat->changes = decision->guard.plan.set != 0;
    seat->fresh_id = 0;
    if (!notable || desk->relived || desk->tick_err)
        return;
    enum aw_err err = propose(desk, seat, config, decision);
    uint64_t id = 0;
    err = err ? err
              : add(desk, decision->at_us, "decision",
                    entry_of(seat, config, decision, &decision->guard.plan), &id);
    if (err) {
        desk->tick_err = err;
        seat->unlogged = true;
        return;
    }
    desk->tick_entries++;
    seat->fresh_id = seat->last_id = id;
    keep(desk, seat, config, decision, moment, moment_bytes);
}

static enum aw_err desk_record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    struct aw_desk *desk = ctx;
    (void)now_us;
    enum aw_err err = desk->tick_err;
    if (err) {
        aw_audit_abort(desk->audit);
        if (diag)
            *diag = desk->ailment;
    } else if (desk->tick_entries > 0) {
        err = commit(desk, diag);
    }
    bool taken_back = false;
    if (desk->journal_open) {
        if (err)
            aw_journal_abort(desk->journal);
        else if ((taken_back = aw_journal_commit(desk->journal, NULL) != AW_OK))
            desk->counts.journal_failures++;
        desk->journal_open = false;
    }
    for (uint32_t i = 0; i < desk->count; i++) {
        struct aw__seat *seat = desk->seat[i];
        if (!seat)
            continue;
        if (err || taken_back)
            seat->config = 0; /* so may its number have been */
        if (err) {            /* what was not written is told again, and its numbers are nobody's */
            seat->unlogged = true;
            if (seat->fresh_id || seat->proposal.at_us == seat->decided_us)
                seat->proposal = (struct aw_desk_proposal){0};
            seat->last_id = seat->fresh_id ? 0 : seat->last_id;
            seat->fresh_id = 0;
        } else if (seat->fresh_id) {
            seat->unlogged = false;
            if (seat->changes)
                seat->changed_id = seat->fresh_id;
        }
    }
    desk->unwritten = err != AW_OK;
    desk->counts.held += desk->unwritten;
    return err;
}

static void desk_applied(void *ctx, uint32_t index, const struct aw_decision *decision,
                         enum aw_err err)
{
    struct aw_desk *desk = ctx;
    struct aw__seat *seat = desk->seat[index];
    AW_ASSERT(seat);
    if (desk->unwritten)
        put_by(desk, index, decision, err);
    else
        aw__desk_outcome(desk, seat, seat->fresh_id, 0, err);
}

/* On the thread that ticks, outside of enter and leave: nothing here is written. What was learned
 * shows in the next decision, by its model. */
static void desk_learned(void *ctx, uint32_t index, enum aw_err err, double took_s)
{
    (void)took_s;
    (void)ctx;
    (void)index;
    (void)err;
}

/* --- made and ended --------------------------------------------------------------------------- */

static double or_default(double value, double initial)
{
    return value > 0 ? value : initial;
}

enum aw_err aw_desk_new(const struct aw_desk_config *config, const struct aw_alloc *alloc,
                        struct aw_desk **ret_steward, struct aw_audit_recovery *ret_recovery,
                        struct aw_diag *diag)
{
    struct aw_desk *desk = aw_alloc_new(alloc, 1, sizeof *desk);
    if (!desk)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the desk");
    desk->alloc = alloc;
    desk->config = *config;
    desk->config.proposal_s = or_default(config->proposal_s, AW_DESK_PROPOSAL_S);
    desk->config.undo_freeze_s = or_default(config->undo_freeze_s, AW_DESK_UNDO_FREEZE_S);
    desk->config.pin_s = or_default(config->pin_s, AW_DESK_PIN_S);
    desk->now_us = desk->lived_until_us = AW_NEVER;
    pthread_mutex_init(&desk->lock, NULL);
    desk->hooks = (struct aw_loop_hooks){.ctx = desk,
                                         .moments = *config->journal != '\0',
                                         .enter = desk_enter,
                                         .leave = desk_leave,
                                         .orders = desk_orders,
                                         .decided = desk_decided,
                                         .record = desk_record,
                                         .applied = desk_applied,
                                         .learned = desk_learned};
    desk->seat = aw_alloc_new(alloc, AW_WORKLOADS_MAX, sizeof(struct aw__seat *));
    enum aw_err err = desk->seat ? aw_standing_orders_init(&desk->book, alloc) : AW_ERR_NOMEM;
    if (err)
        aw_fail(diag, err, "no memory for the desk");
    err = err ? err
              : aw_audit_open(&desk->audit, config->disk, config->folder, &config->audit, alloc,
                              ret_recovery, diag);
    if (!err && *config->journal)
        err = aw_journal_open(&desk->journal, config->journal, false, 0, diag);
    if (err) {
        aw_desk_free(desk);
        return err;
    }
    *ret_steward = desk;
    return AW_OK;
}

void aw_desk_free(struct aw_desk *desk)
{
    if (!desk)
        return;
    aw_journal_close(desk->journal);
    aw_audit_close(desk->audit);
    for (uint64_t i = 0; i < desk->counts.late_waiting; i++)
        json_decref(desk->late[i].entry);
    aw_standing_orders_deinit(&desk->book);
    for (uint32_t i = 0; i < desk->count; i++) {
        if (desk->seat[i])
            aw__desk_policy_drop(desk->seat[i]);
        aw_alloc_free(desk->alloc, desk->seat[i]);
    }
    aw_alloc_free(desk->alloc, desk->seat);
    aw_alloc_free(desk->alloc, desk->past);
    pthread_mutex_destroy(&desk->lock);
    aw_alloc_free(desk->alloc, desk);
}

const struct aw_loop_hooks *aw_desk_hooks(struct aw_desk *desk)
{
    return &desk->hooks;
}

enum aw_err aw_desk_attach(struct aw_desk *desk, struct aw_loop *loop,
                           const struct aw_fallback_task *tasks, int64_t now_us,
                           struct aw_diag *diag)
{
    aw_desk_lock(desk);
    desk->loop = loop;
    desk->now_us = now_us;
    enum aw_err err = AW_OK;
    const uint32_t count = aw_loop_count(loop);
    for (uint32_t i = 0; !err && i < count; i++) {
        if (!aw_loop_has(loop, i))
            continue;
        const char *name = aw_pilot_config(aw_loop_pilot(loop, i))->name;
        struct aw__seat *seat = steward_seat(desk, i, name);
        if (!seat)
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for workload %s", name);
        else
            seat->task = tasks[i];
    }
    err = err ? err : aw__desk_recall(desk, diag);
    if (!err)
        aw__desk_catch_up(desk, desk->config.virtual_time ? now_us : INT64_MAX);
    if (!err)
        err = add(desk, now_us, "start", json_pack("{s:I}", "workloads", (json_int_t)count), NULL);
    if (err)
        aw_audit_abort(desk->audit);
    else
        err = aw__desk_commit_reserved(desk, diag);
    aw_desk_unlock(desk);
    return err;
}

enum aw_err aw_desk_follow(struct aw_desk *desk, uint32_t index,
                           const struct aw_fallback_task *task, struct aw_diag *diag)
{
    const char *name = aw_pilot_config(aw_loop_pilot(desk->loop, index))->name;
    struct aw__seat *seat = steward_seat(desk, index, name);
    if (!seat)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for workload %s", name);
    seat->task = *task;
    return AW_OK;
}

void aw_desk_detach(struct aw_desk *desk, int64_t now_us, const char *reason)
{
    aw_desk_lock(desk);
    enter_late(desk, AW__LATE_MAX);
    const enum aw_err err = add(desk, now_us, "stop", json_pack("{s:s}", "reason", reason), NULL);
    if (err || aw__desk_commit_reserved(desk, NULL))
        aw_audit_abort(desk->audit);
    desk->loop = NULL;
    aw_desk_unlock(desk);
}

/* --- looking ---------------------------------------------------------------------------------- */

void aw_desk_lock(struct aw_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
}

void aw_desk_unlock(struct aw_desk *desk)
{
    pthread_mutex_unlock(&desk->lock);
}

uint32_t aw_desk_count(const struct aw_desk *desk)
{
    return desk->count;
}

bool aw_desk_has(const struct aw_desk *desk, uint32_t index)
{
    return index < desk->count && desk->loop && desk->seat[index] && aw_loop_has(desk->loop, index);
}

enum aw_err aw_desk_find(const struct aw_desk *desk, const char *name, uint32_t *ret_index,
                         struct aw_diag *diag)
{
    const bool whole = strchr(name, '/') != NULL;
    uint32_t found = 0, at = 0;
    for (uint32_t i = 0; i < desk->count; i++) {
        if (!aw_desk_has(desk, i))
            continue;
        const char *full = desk->seat[i]->name, *slash = strchr(full, '/');
        if (strcmp(full, name) == 0) {
            *ret_index = i;
            return AW_OK;
        }
        if (!whole && slash && strcmp(slash + 1, name) == 0) {
            at = i;
            found++;
        }
    }
    if (found == 1) {
        *ret_index = at;
        return AW_OK;
    }
    if (found > 1)
        return aw_fail(diag, AW_ERR_NOTFOUND,
                       "%u workloads are called %s; say which with NAMESPACE/%s", found, name,
                       name);
    return aw_fail(diag, AW_ERR_NOTFOUND, "no workload is called %s", name);
}

void aw_desk_peek(const struct aw_desk *desk, uint32_t index, struct aw_desk_view *ret)
{
    AW_ASSERT(aw_desk_has(desk, index));
    const struct aw__seat *seat = desk->seat[index];
    const struct aw_pilot *pilot = aw_loop_pilot(desk->loop, index);
    *ret = (struct aw_desk_view){.index = index,
                                 .name = seat->name,
                                 .pilot = pilot,
                                 .config = aw_pilot_config(pilot),
                                 .decision = aw__desk_last(desk, index),
                                 .last_id = seat->last_id,
                                 .changed_id = seat->changed_id,
                                 .proposal = seat->proposal,
                                 .orders = seat->orders,
                                 .policy_waits = aw__desk_policy_waits(seat, pilot),
                                 .policy_tried = seat->policy.tried_id,
                                 .policy_err = seat->policy.tried_err,
                                 .policy_why = seat->policy.why};
}

struct aw_loop *aw_desk_loop(const struct aw_desk *desk)
{
    return desk->loop;
}

const struct aw_standing_orders *aw_desk_book(const struct aw_desk *desk)
{
    return &desk->book;
}

const struct aw_desk_counts *aw_desk_counts(const struct aw_desk *desk)
{
    return &desk->counts;
}

int64_t aw_desk_now_us(const struct aw_desk *desk)
{
    return desk->now_us;
}

enum aw_err aw_desk_health(const struct aw_desk *desk, struct aw_diag *diag)
{
    if (desk->ailing && diag)
        *diag = desk->ailment;
    return desk->ailing;
}

struct aw_journal *aw_desk_journal(struct aw_desk *desk)
{
    return desk->journal;
}
