/*
 * chaos_policy.c - people who hand in policies and take them back: sound ones, another workload's,
 * and what a bad disk made of them. What is damaged is refused; what was acknowledged is tried, or
 * told why not, with the next decision, whatever died meanwhile; nothing else is.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "chaos/chaos_internal.h"

/* The eighteenth digit of a number may be another: it is the same number. */
static bool means_the_same(const json_t *whole, const char *text, size_t size)
{
    json_t *other = json_loadb(text, size, 0, NULL);
    const bool same = other && json_equal(whole, other);
    json_decref(other);
    return same;
}

static void damage(struct aw__chaos *world, char *text, size_t *size, uint32_t how)
{
    const uint32_t at = aw_rng_below(&world->rng, (uint32_t)*size);
    if (how == 1) /* a digit that is another, or what is no JSON any more */
        text[at] = text[at] == '7' ? '8' : '7';
    else if (how == 2)
        *size = at;
    else if (how == 3)
        memset(text, 0, *size / 2);
}

/* It was acknowledged, or the disk refused it, and it may be there all the same. */
static void remember(struct aw__chaos *world, uint32_t w, uint32_t kind, uint64_t policy,
                     uint64_t id, enum aw_err err)
{
    struct aw__chaos_workload *to = &world->workload[w];
    if (err == AW_ERR_IO)
        world->maybe[kind] = true;
    if (err)
        return;
    world->result->orders++;
    to->policy_order = id;
    if (kind == AW_ORDER_PROPOSE)
        to->policy_proposed[to->policy_next++ % AW__CHAOS_POLICIES_MAX] = policy;
}

static void give_back(struct aw__chaos *world, uint32_t w)
{
    struct aw_order order = {.kind = AW_ORDER_ROLLBACK,
                             .scope = AW_SCOPE_WORKLOAD,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER};
    uint64_t id = 0;
    struct aw_diag diag = {0};
    memcpy(order.name, world->workload[w].pilot.name, sizeof order.name);
    const enum aw_err err = aw_desk_order(world->desk, &order, aw__chaos_now_us(world), &id, &diag);
    aw__chaos_say(world, "  someone takes a policy of %s back: %s %s", order.name, aw_err_name(err),
                  err ? diag.text : "");
    aw__chaos_digest(world, &err, sizeof err);
    remember(world, w, AW_ORDER_ROLLBACK, 0, id, err);
}

static void hand_in(struct aw__chaos *world, uint32_t from, uint32_t w, uint32_t how)
{
    struct aw_order order = {.until_us = AW_FOR_EVER, .freeze_until_us = AW_NEVER};
    char *text = NULL;
    uint64_t id = 0;
    struct aw_diag diag = {0};
    if (aw_pilot_policy_text(aw_loop_pilot(world->loop, from), &text, NULL))
        return; /* there is none yet */
    size_t size = strlen(text);
    json_t *whole = json_loadb(text, size, 0, NULL);
    const char *hex = json_string_value(json_object_get(whole, "id"));
    const uint64_t policy = hex ? strtoull(hex, NULL, 16) : 0;
    damage(world, text, &size, how);
    memcpy(order.name, world->workload[w].pilot.name, sizeof order.name);
    const enum aw_err err =
        aw_desk_propose(world->desk, &order, text, size, aw__chaos_now_us(world), &id, &diag);
    aw__chaos_say(world, "  a policy of %s for %s, %s: %s %s", world->workload[from].pilot.name,
                  order.name, how ? "damaged" : "as it is", aw_err_name(err), err ? diag.text : "");
    aw__chaos_digest(world, &err, sizeof err);
    if (how && !means_the_same(whole, text, size))
        aw__chaos_must(world, err != AW_OK, AW_INVARIANT_STATE, w,
                       "a policy file that was damaged is taken");
    remember(world, w, AW_ORDER_PROPOSE, policy, id, err);
    json_decref(whole);
    free(text);
}

void aw__chaos_policy(struct aw__chaos *world)
{
    struct aw_rng *rng = &world->rng;
    if (!aw__chaos_any(world, AW_CHAOS_MODEL))
        return;
    const uint32_t from = aw_rng_below(rng, world->count), how = aw_rng_below(rng, 6);
    uint32_t to = aw_rng_below(rng, world->count);
    for (uint32_t i = 0; i < 8; i++) { /* people know where a policy acts, mostly */
        const enum aw_stage stage = aw_pilot_stage(aw_loop_pilot(world->loop, to));
        if (to != from && (stage == AW_STAGE_ONLINE || stage == AW_STAGE_SERVING))
            break;
        to = aw_rng_below(rng, world->count);
    }
    if (how == 5)
        give_back(world, to);
    else
        hand_in(world, from, to, how);
}

static bool was_proposed(const struct aw__chaos *world, uint32_t w, uint64_t policy)
{
    const struct aw__chaos_workload *of = &world->workload[w];
    if (of->policy_next >= AW__CHAOS_POLICIES_MAX || world->maybe[AW_ORDER_PROPOSE])
        return true; /* more than anybody remembers */
    for (uint32_t i = 0; i < of->policy_next; i++)
        if (of->policy_proposed[i] == policy)
            return true;
    return false;
}

void aw__chaos_policy_check(struct aw__chaos *world, uint32_t w, const struct aw_decision *decision)
{
    const struct aw__chaos_workload *of = &world->workload[w];
    const struct aw_canary_reason *reason = &decision->canary.reason;
    const struct aw_disk_sim_faults *disk = &world->disk.faults;
    if (decision->canary.moved && reason->cause == AW_CANARY_CAUSE_PROPOSED)
        aw__chaos_must(world, was_proposed(world, w, reason->trial), AW_INVARIANT_ORDERS_SURVIVE, w,
                       "policy %016" PRIx64 " is tried, and nobody's order for it was acknowledged",
                       reason->trial);
    /* out of memory, or where the log cannot be read, it waits */
    if (of->policy_order && !world->heap.failed && !aw__chaos_any(world, AW_CHAOS_NO_MEMORY) &&
        !disk->fail_at && !disk->fail_count && !world->disk.power_off && !world->dead)
        aw__chaos_must(world,
                       aw_pilot_policy_order(aw_loop_pilot(world->loop, w)) >= of->policy_order,
                       AW_INVARIANT_ORDERS_SURVIVE, w,
                       "order %llu about its policies was acknowledged, and is not carried out",
                       (unsigned long long)of->policy_order);
}
