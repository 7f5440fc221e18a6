/*
 * desk_policy.c - policies that people hand in, and take back.
 *
 * A text is in the log, in parts of kind "policy", before the order that speaks of it; the order is
 * there before anything is done. The pilot tries it when it is next asked for a decision: then
 * nobody learns. Which orders are done is part of the pilot's state, so that one which a restart
 * has lost is tried again, and no other.
 */
#include "desk/desk_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of a text: twice as much, escaped, and what stands around it is a line of the log. */
#define PART_BYTES 30000u
_Static_assert(2 * PART_BYTES + 1024 < AW_AUDIT_LINE_MAX, "a part is a line");

/* --- what waits ------------------------------------------------------------------------------- */

void aw__desk_policy_drop(struct aw__seat *seat)
{
    free(seat->policy.text);
    free(seat->policy.why);
    seat->policy = (struct aw__seat_policy){0};
}

void aw__desk_policy_note(struct aw_desk *desk, uint64_t id, const struct aw_order *order)
{
    uint32_t index;
    if (aw_desk_find(desk, order->name, &index, NULL))
        return; /* it is gone, and its policies with it */
    struct aw__seat_policy *policy = &desk->seat[index]->policy;
    if (order->kind == AW_ORDER_ROLLBACK) {
        policy->rollback_id = id;
        return;
    }
    policy->propose_id = id;
    policy->order = order->policy;
    free(policy->text);
    policy->text = NULL;
}

static uint64_t latest_of(const struct aw__seat_policy *policy)
{
    return policy->propose_id > policy->rollback_id ? policy->propose_id : policy->rollback_id;
}

/* A state that knows of later orders than the log has is of before the log began anew. */
static bool waits(const struct aw__seat_policy *policy, uint64_t id, uint64_t done)
{
    return id && (id > done || done > latest_of(policy));
}

uint64_t aw__desk_policy_waits(const struct aw__seat *seat, const struct aw_pilot *pilot)
{
    const uint64_t done = aw_pilot_policy_order(pilot);
    const struct aw__seat_policy *policy = &seat->policy;
    return waits(policy, policy->propose_id, done) && policy->propose_id > policy->rollback_id
               ? policy->propose_id
               : 0;
}

/* --- in the log ------------------------------------------------------------------------------- */

enum aw_err aw__desk_policy_write(struct aw_desk *desk, struct aw_order *order, const char *text,
                                  int64_t now_us, struct aw_diag *diag)
{
    const size_t size = strlen(text);
    const uint32_t parts = (uint32_t)((size + PART_BYTES - 1) / PART_BYTES);
    char id[24];
    snprintf(id, sizeof id, "%016" PRIx64, order->policy.id);
    order->policy.parts = parts;
    order->policy.bytes = (uint32_t)size;
    for (uint32_t i = 0; i < parts; i++) {
        const size_t from = (size_t)i * PART_BYTES;
        const size_t len = size - from < PART_BYTES ? size - from : PART_BYTES;
        json_t *part =
            json_pack("{s:s, s:s, s:i, s:i, s:s%}", "id", id, "checksum", order->policy.checksum,
                      "part", (int)i, "parts", (int)parts, "text", text + from, len);
        if (!part)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for a policy");
        uint64_t seq = 0;
        enum aw_err err = aw_audit_append(desk->audit, now_us, "policy", part, &seq, diag);
        if (err == AW_ERR_LIMIT && !(err = aw_audit_commit(desk->audit, diag)))
            err = aw_audit_append(desk->audit, now_us, "policy", part, &seq, diag);
        json_decref(part);
        if (err)
            return err;
        order->policy.first = i == 0 ? seq : order->policy.first;
        desk->counts.entries++;
    }
    return AW_OK;
}

/* The parts of one text, as they come by. */
struct gathering {
    const struct aw_order_policy *policy;
    char *text;
    size_t len;
    uint32_t parts;
};

static enum aw_err gather(void *ctx, const struct aw_audit_entry *entry)
{
    struct gathering *g = ctx;
    json_t *members = NULL;
    if (!entry->intact)
        return AW_ERR_FORMAT;
    const enum aw_err err = aw__desk_members(entry, &members);
    if (err)
        return err;
    const json_t *text = json_object_get(members, "text");
    const char *checksum = json_string_value(json_object_get(members, "checksum"));
    const size_t len = json_string_length(text);
    if (checksum && !strcmp(checksum, g->policy->checksum) && len <= g->policy->bytes - g->len &&
        json_integer_value(json_object_get(members, "part")) == (json_int_t)g->parts) {
        memcpy(g->text + g->len, json_string_value(text), len);
        g->len += len;
        g->parts++;
    }
    json_decref(members);
    return AW_OK;
}

/* The text of an order of before a restart. */
static enum aw_err read_back(const struct aw_desk *desk, struct aw__seat_policy *policy,
                             struct aw_diag *diag)
{
    const struct aw_order_policy *order = &policy->order;
    struct gathering g = {.policy = order};
    const struct aw_audit_filter filter = {.seq_first = order->first,
                                           .seq_last = policy->propose_id,
                                           .from_us = INT64_MIN,
                                           .until_us = INT64_MAX,
                                           .kind = "policy"};
    if (order->bytes > AW_PILOT_POLICY_BYTES_MAX || !(g.text = malloc((size_t)order->bytes + 1)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a policy of %u bytes", order->bytes);
    enum aw_err err = aw_audit_scan(desk->config.disk, desk->config.folder, &filter, gather, &g,
                                    desk->alloc, diag);
    if (!err && (g.len != order->bytes || g.parts != order->parts))
        err = aw_fail(diag, AW_ERR_NOTFOUND, "the log no longer has policy %s", order->checksum);
    if (err) {
        free(g.text);
        return err;
    }
    g.text[g.len] = '\0';
    policy->text = g.text;
    return AW_OK;
}

/* --- a tick ----------------------------------------------------------------------------------- */

/* Without memory or a disk it is tried again with the next decision. */
static bool may_pass(enum aw_err err)
{
    return err == AW_ERR_NOMEM || err == AW_ERR_IO || err == AW_ERR_UNAVAILABLE;
}

static enum aw_err carry_out(struct aw_desk *desk, struct aw__seat *seat, struct aw_pilot *pilot,
                             uint64_t id, bool withdrawn, struct aw_diag *diag)
{
    struct aw__seat_policy *policy = &seat->policy;
    if (id == policy->rollback_id)
        return withdrawn ? AW_OK : aw_pilot_rollback(pilot, diag);
    if (policy->rollback_id > id)
        return aw_fail(diag, AW_ERR_CONFLICT, "it was taken back before it was tried");
    const enum aw_err err = policy->text ? AW_OK : read_back(desk, policy, diag);
    return err ? err : aw_pilot_propose(pilot, policy->text, strlen(policy->text), diag);
}

void aw__desk_policies(struct aw_desk *desk, struct aw__seat *seat, struct aw_pilot *pilot)
{
    struct aw__seat_policy *policy = &seat->policy;
    const uint64_t done = aw_pilot_policy_order(pilot), latest = latest_of(policy);
    if (latest == 0 || latest == done)
        return;
    const uint64_t earlier =
        latest == policy->propose_id ? policy->rollback_id : policy->propose_id;
    const uint64_t order[] = {earlier, latest};
    bool withdrawn = false;
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_diag diag = {0};
        if (!waits(policy, order[i], done))
            continue;
        const enum aw_err err = carry_out(desk, seat, pilot, order[i], withdrawn, &diag);
        if (may_pass(err))
            return;
        withdrawn = order[i] == policy->propose_id && err == AW_ERR_CONFLICT &&
                    policy->rollback_id > order[i];
        if (order[i] == policy->propose_id) {
            free(policy->text);
            policy->text = NULL;
        }
        free(policy->why);
        policy->why = err ? strdup(diag.text) : NULL;
        policy->tried_id = order[i];
        policy->tried_err = err;
        aw_pilot_policy_ordered(pilot, order[i]);
        aw__desk_outcome(desk, seat, order[i], order[i], err);
    }
}

/* --- a new one -------------------------------------------------------------------------------- */

/* By the last decision: what is being learned is nobody's to look at. What has changed since is
 * found when it is tried. */
enum aw_err aw__desk_policy_may(const struct aw_desk *desk, uint32_t index,
                                const struct aw_order *order, struct aw_diag *diag)
{
    const struct aw__seat *seat = desk->seat[index];
    const struct aw_decision *last = aw__desk_last(desk, index);
    const struct aw_canary_report *canary = &last->canary;
    const struct aw_pilot *pilot = aw_loop_pilot(desk->loop, index);
    const uint64_t waiting = aw__desk_policy_waits(seat, pilot);
    const bool decided = last->at_us != AW_NEVER;
    const bool busy =
        decided && (canary->state == AW_CANARY_SHADOW || canary->state == AW_CANARY_TRIAL);
    const bool leaves =
        waits(&seat->policy, seat->policy.rollback_id, aw_pilot_policy_order(pilot));
    if (order->kind == AW_ORDER_ROLLBACK)
        return waiting || (busy && !leaves)
                   ? AW_OK
                   : aw_fail(diag, AW_ERR_CONFLICT,
                             "%s tries no policy: what it has is the last known good", seat->name);
    if (!decided)
        return aw_fail(diag, AW_ERR_CONFLICT, "nothing has been decided for %s yet", seat->name);
    if (waiting)
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "policy %016" PRIx64 " of order %llu waits for the next decision of %s",
                       seat->policy.order.id, (unsigned long long)waiting, seat->name);
    if (canary->good && canary->good == order->policy.id)
        return aw_fail(diag, AW_ERR_EXISTS, "policy %016" PRIx64 " is the one that %s has",
                       order->policy.id, seat->name);
    if (busy && !leaves)
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "%s is trying policy %016" PRIx64
                       " (%s); one at a time: 'aware policy rollback' ends that",
                       seat->name, canary->trial, aw_canary_state_name(canary->state));
    if (canary->good == 0 || (last->stage != AW_STAGE_ONLINE && last->stage != AW_STAGE_SERVING))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "%s is in the hands of its fallback (%s): a policy is tried beside one that "
                       "acts",
                       seat->name, aw_stage_name(last->stage));
    return AW_OK;
}

enum aw_err aw_desk_propose(struct aw_desk *desk, const struct aw_order *order, const char *text,
                            size_t size, int64_t now_us, uint64_t *ret_id, struct aw_diag *diag)
{
    struct aw_order wanted = *order;
    struct aw_pilot_policy read = {0};
    uint32_t index = 0;
    wanted.kind = AW_ORDER_PROPOSE;
    wanted.scope = AW_SCOPE_WORKLOAD;
    aw_desk_lock(desk);
    enum aw_err err = desk->loop ? aw_desk_find(desk, order->name, &index, diag)
                                 : aw_fail(diag, AW_ERR_UNAVAILABLE, "no loop is running");
    if (!err)
        err = aw_pilot_policy_read(aw_loop_pilot(desk->loop, index), text, size, &read, diag);
    if (!err) {
        wanted.policy.id = read.id;
        memcpy(wanted.policy.checksum, read.checksum, sizeof wanted.policy.checksum);
        err = aw__desk_take(desk, &wanted, read.text, now_us, ret_id, diag);
    }
    if (!err)
        desk->seat[index]->policy.text = read.text; /* until it is tried */
    else
        free(read.text);
    aw_desk_unlock(desk);
    return err;
}
