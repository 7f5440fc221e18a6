/*
 * chaos_people.c - people who order, sensibly or not, and what is owed to them: an order that was
 * acknowledged stands until it ends by itself, somebody ends it, or it is carried out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chaos/chaos_internal.h"

#define MINUTE_US INT64_C(60000000)

/* Rails that give a reason to leave an order undone for good; missing figures come back. */
#define LASTING                                                                              \
    (AW_CLIP_BIT(AW_CLIP_ABSURD) | AW_CLIP_BIT(AW_CLIP_BOUNDS) | AW_CLIP_BIT(AW_CLIP_NODE) | \
     AW_CLIP_BIT(AW_CLIP_OOM_FLOOR) | AW_CLIP_BIT(AW_CLIP_WORKING_SET) |                     \
     AW_CLIP_BIT(AW_CLIP_UNCONTROLLED) | AW_CLIP_BIT(AW_CLIP_ZERO))

/* --- giving orders ---------------------------------------------------------------------------- */

static const struct aw__chaos_deed *deed_of(const struct aw__chaos *world, uint64_t id)
{
    for (uint32_t i = world->deed_count; i-- > 0;)
        if (world->deed[i].id == id)
            return &world->deed[i];
    return NULL;
}

static int64_t soon(struct aw__chaos *world, double minutes)
{
    return aw__chaos_now_us(world) +
           (int64_t)(aw_rng_uniform(&world->rng, 1, minutes) * (double)MINUTE_US);
}

static void draw_scope(struct aw__chaos *world, struct aw_order *order, uint32_t w)
{
    const char *name = world->workload[w].pilot.name;
    order->scope = aw_rng_below(&world->rng, 3);
    if (order->scope == AW_SCOPE_WORKLOAD)
        snprintf(order->name, sizeof order->name, "%s", name);
    else if (order->scope == AW_SCOPE_NAMESPACE)
        snprintf(order->name, sizeof order->name, "%.*s", (int)strcspn(name, "/"), name);
}

/* What somebody who knows what they do would order. */
static void draw_order(struct aw__chaos *world, struct aw_order *order)
{
    struct aw_rng *rng = &world->rng;
    const uint32_t w = aw_rng_below(rng, world->count);
    struct aw_desk_view view;
    aw_desk_lock(world->desk);
    aw_desk_peek(world->desk, w, &view);
    aw_desk_unlock(world->desk);
    static const uint32_t kinds[] = {AW_ORDER_FREEZE,   AW_ORDER_FREEZE,    AW_ORDER_UNFREEZE,
                                     AW_ORDER_UNFREEZE, AW_ORDER_UNDO,      AW_ORDER_UNDO,
                                     AW_ORDER_UNDO,     AW_ORDER_EMERGENCY, AW_ORDER_CALM,
                                     AW_ORDER_APPROVE,  AW_ORDER_APPROVE,   AW_ORDER_REJECT};
    order->kind = kinds[aw_rng_below(rng, sizeof kinds / sizeof *kinds)];
    if (view.proposal.id && aw__chaos_chance(world, 0.7))
        order->kind = AW_ORDER_APPROVE;
    switch ((enum aw_order_kind)order->kind) {
    case AW_ORDER_FREEZE:
        draw_scope(world, order, w);
        order->down_only = aw__chaos_chance(world, 0.4);
        order->until_us = aw__chaos_chance(world, 0.1) ? AW_FOR_EVER : soon(world, 15);
        break;
    case AW_ORDER_UNFREEZE:
        draw_scope(world, order, w);
        if (world->order_count > 0 && aw__chaos_chance(world, 0.5))
            order->decision = world->order[aw_rng_below(rng, world->order_count)].id;
        break;
    case AW_ORDER_EMERGENCY:
    case AW_ORDER_CALM:
        snprintf(order->name, sizeof order->name, "%s", view.name);
        order->until_us = soon(world, 10);
        break;
    case AW_ORDER_APPROVE:
    case AW_ORDER_REJECT:
        order->decision = view.proposal.id;
        break;
    default: /* of the latest, or of any */
        order->decision = view.changed_id;
        if (world->deed_count > 0 && aw__chaos_chance(world, 0.2))
            order->decision = world->deed[aw_rng_below(rng, world->deed_count)].id;
        break;
    }
}

/* What a tired person, a broken script or somebody who means harm would send. */
static void draw_nonsense(struct aw__chaos *world, struct aw_order *order)
{
    static const char *const names[] = {"",      "no/such", "cart",  "shop",
                                        "a/b/c", "%s%n",    "../..", "shop/"};
    static const int64_t times[] = {0, -1, INT64_MIN, INT64_MAX, INT64_MAX - 1};
    struct aw_rng *rng = &world->rng;
    order->kind = aw_rng_below(rng, AW_ORDER_COUNT + 2);
    order->scope = aw_rng_below(rng, 5);
    snprintf(order->name, sizeof order->name, "%s", names[aw_rng_below(rng, 8)]);
    if (aw__chaos_chance(world, 0.3))
        memset(order->name, 'x', sizeof order->name - 1);
    if (aw__chaos_chance(world, 0.3))
        memset(order->reason, '"', sizeof order->reason - 1);
    if (aw__chaos_chance(world, 0.2))
        order->reason[0] = (char)0xff; /* not UTF-8 */
    order->down_only = aw__chaos_chance(world, 0.5);
    order->until_us = times[aw_rng_below(rng, 5)];
    order->freeze_until_us = times[aw_rng_below(rng, 5)];
    order->decision = aw_rng_u64(rng) >> aw_rng_below(rng, 64);
    order->plan = (struct aw_plan){.set = aw_rng_below(rng, 16),
                                   .replicas = (uint32_t)aw_rng_u64(rng),
                                   .cpu_millicores = (int64_t)aw_rng_u64(rng),
                                   .memory_bytes = (int64_t)aw_rng_u64(rng)};
}

/* What an order ends of those before it. `pinned`: the workload that it pins; UINT32_MAX: none. */
static void lift(struct aw__chaos *world, const struct aw_order *order, uint32_t count,
                 uint32_t pinned)
{
    for (uint32_t i = 0; i < count; i++) {
        struct aw__chaos_order *before = &world->order[i];
        const bool same =
            before->order.scope == order->scope && strcmp(before->order.name, order->name) == 0;
        if (order->kind == AW_ORDER_UNFREEZE || order->kind == AW_ORDER_CALM)
            before->ended |= order->decision ? before->id == order->decision : same;
        if (order->kind == AW_ORDER_EMERGENCY && before->order.kind == AW_ORDER_EMERGENCY)
            before->ended |= strcmp(before->order.name, order->name) == 0;
        if (pinned != UINT32_MAX && before->workload == pinned)
            before->pin_over = true; /* the later one takes its place */
    }
}

/* The disk refused an order. When the power went in that very moment it may be there all the same,
 * so nothing that it would end is owed to anybody any more. */
static void lift_maybe(struct aw__chaos *world, const struct aw_order *order)
{
    const bool pins = order->kind == AW_ORDER_UNDO || order->kind == AW_ORDER_APPROVE;
    if (order->kind < AW_ORDER_COUNT)
        world->maybe[order->kind] = true;
    lift(world, order, world->order_count, UINT32_MAX);
    for (uint32_t i = 0; pins && i < world->order_count; i++)
        world->order[i].pin_over = true;
}

/* An acknowledged order, as far as it can be held against anybody later. */
static void remember(struct aw__chaos *world, uint64_t id, const struct aw_order *order,
                     const struct aw_plan *proposal, uint32_t proposed)
{
    if (world->order_count == AW__CHAOS_ORDERS_MAX)
        return;
    const int64_t now = aw__chaos_now_us(world);
    struct aw__chaos_order *kept = &world->order[world->order_count++];
    *kept = (struct aw__chaos_order){
        .id = id, .order = *order, .until_us = AW_NEVER, .workload = UINT32_MAX};
    switch ((enum aw_order_kind)order->kind) {
    case AW_ORDER_FREEZE:
        kept->until_us = order->until_us;
        break;
    case AW_ORDER_UNDO: {
        const struct aw__chaos_deed *deed = deed_of(world, order->decision);
        if (!deed)
            break;
        kept->until_us = now + AW__CHAOS_UNDO_FREEZE_US;
        kept->pin_until_us = now + AW__CHAOS_PIN_US;
        kept->workload = deed->workload;
        kept->target_set = deed->set;
        memcpy(kept->target, deed->from, sizeof kept->target);
        snprintf(kept->order.name, sizeof kept->order.name, "%s",
                 world->workload[deed->workload].pilot.name);
        kept->order.scope = AW_SCOPE_WORKLOAD;
        break;
    }
    case AW_ORDER_APPROVE:
        kept->pin_until_us = now + AW__CHAOS_PIN_US;
        kept->workload = proposed;
        kept->target_set = proposal->set;
        memcpy(kept->target, proposal->amount, sizeof kept->target);
        break;
    default:
        break;
    }
    lift(world, order, world->order_count - 1, kept->workload);
}

static void give(struct aw__chaos *world, const struct aw_order *order, bool sensible)
{
    struct aw_plan proposal = {0};
    uint32_t proposed = UINT32_MAX;
    aw_desk_lock(world->desk);
    for (uint32_t i = 0; order->kind == AW_ORDER_APPROVE && i < world->count; i++) {
        struct aw_desk_view view;
        aw_desk_peek(world->desk, i, &view);
        if (view.proposal.id == order->decision && order->decision) {
            proposal = view.proposal.plan;
            proposed = i;
        }
    }
    aw_desk_unlock(world->desk);
    uint64_t id = 0;
    struct aw_diag diag = {0};
    const int64_t now = aw__chaos_now_us(world);
    const enum aw_err err = aw_desk_order(world->desk, order, now, &id, &diag);
    const char *name = aw_order_name(order->kind);
    aw__chaos_say(world, "  someone orders %s \"%s\" (%llu): %s %s", name ? name : "?", order->name,
                  (unsigned long long)order->decision, aw_err_name(err), err ? diag.text : "");
    aw__chaos_digest(world, &err, sizeof err);
    if (sensible && order->kind == AW_ORDER_FREEZE)
        aw__chaos_must(world, err == AW_OK || err == AW_ERR_IO || err == AW_ERR_LIMIT,
                       AW_INVARIANT_FREEZE, UINT32_MAX, "a freeze is refused: %s: %s",
                       aw_err_name(err), diag.text);
    if (err == AW_ERR_IO)
        lift_maybe(world, order);
    if (err)
        return;
    world->result->orders++;
    if (now > world->now_max_us)
        world->now_max_us = now;
    remember(world, id, order, &proposal, proposed);
}

void aw__chaos_people(struct aw__chaos *world)
{
    const uint32_t kinds[] = {AW_CHAOS_ORDERS, AW_CHAOS_NONSENSE};
    for (uint32_t k = 0; k < 2; k++) {
        if (!aw__chaos_any(world, kinds[k]))
            continue;
        struct aw_order order = {.freeze_until_us = AW_NEVER, .until_us = AW_FOR_EVER};
        snprintf(order.reason, sizeof order.reason, "because of \"tick\" %u", world->tick);
        snprintf(order.by, sizeof order.by, "someone");
        if (k == 0)
            draw_order(world, &order);
        else
            draw_nonsense(world, &order);
        give(world, &order, k == 0);
    }
}

/* --- what is owed ----------------------------------------------------------------------------- */

/* What has ended by the latest clock there ever was has ended: a clock may go back, people's
 * patience does not. */
static bool lasts(const struct aw__chaos *world, int64_t until_us, int64_t now_us)
{
    return until_us == AW_FOR_EVER || (now_us < until_us && world->now_max_us < until_us);
}

uint32_t aw__chaos_frozen(const struct aw__chaos *world, uint32_t w, int64_t now_us)
{
    const char *name = world->workload[w].pilot.name;
    uint32_t level = AW_GUARD_FREEZE_NONE;
    for (uint32_t i = 0; i < world->order_count; i++) {
        const struct aw__chaos_order *order = &world->order[i];
        const struct aw_order *o = &order->order;
        if (order->ended || order->until_us == AW_NEVER || !lasts(world, order->until_us, now_us))
            continue;
        const size_t len = strlen(o->name);
        const bool about = o->scope == AW_SCOPE_ALL ||
                           (o->scope == AW_SCOPE_WORKLOAD && strcmp(o->name, name) == 0) ||
                           (o->scope == AW_SCOPE_NAMESPACE && strncmp(o->name, name, len) == 0 &&
                            name[len] == '/');
        const uint32_t this_level =
            o->kind == AW_ORDER_FREEZE && o->down_only ? AW_GUARD_FREEZE_DOWN : AW_GUARD_FREEZE_ALL;
        if (about && this_level > level)
            level = this_level;
    }
    return level;
}

bool aw__chaos_order_stands(const struct aw__chaos *world, uint64_t id, uint32_t kind, uint32_t w)
{
    if (world->order_count == AW__CHAOS_ORDERS_MAX || world->maybe[kind])
        return true; /* more than anybody remembers */
    for (uint32_t i = 0; i < world->order_count; i++) {
        const struct aw__chaos_order *order = &world->order[i];
        if (order->id != id || order->order.kind != kind)
            continue;
        const char *name = world->workload[w].pilot.name, *slash = strchr(name, '/');
        /* who undoes a decision by its number alone need not say whose it was */
        return order->workload == w || !*order->order.name ||
               strcmp(order->order.name, name) == 0 ||
               (slash && strcmp(order->order.name, slash + 1) == 0);
    }
    return false;
}

/* Whether every amount that the order speaks of is as it asks, as far as was seen. */
static bool reached(const struct aw__chaos_order *order, const int64_t *belief)
{
    for (uint32_t a = 0; a < AW_RESOURCES; a++)
        if ((order->target_set & AW_PLAN_BIT(a)) && belief[a] != order->target[a])
            return false;
    return true;
}

/* A rail that lasts is named on every amount that is not as the order asks. */
static bool excused(const struct aw__chaos_order *order, const int64_t *belief,
                    const struct aw_guard_result *guard)
{
    for (uint32_t a = 0; a < AW_RESOURCES; a++)
        if ((order->target_set & AW_PLAN_BIT(a)) && belief[a] != order->target[a] &&
            !(guard->axis_clips[a] & LASTING))
            return false;
    return true;
}

static void check_pin(struct aw__chaos *world, struct aw__chaos_order *order, uint32_t w,
                      const struct aw_decision *decision)
{
    const int64_t *belief = world->workload[w].belief;
    const struct aw_orders *orders = &decision->orders;
    if (!lasts(world, order->pin_until_us, decision->at_us) || orders->floor.set) {
        order->pin_over = true;
        return;
    }
    if (orders->pin_id == order->id) {
        const bool same = orders->pin.set == order->target_set &&
                          !(order->target_set & aw_plan_differs(orders->pin.amount, order->target));
        aw__chaos_must(world, same, AW_INVARIANT_UNDO, w,
                       "order %llu does not ask for what there was before decision %llu",
                       (unsigned long long)order->id, (unsigned long long)order->order.decision);
        order->tried = true;
        order->excused = excused(order, belief, &decision->guard);
        if (reached(order, belief))
            order->pin_over = true;
        return;
    }
    if (order->tried || reached(order, belief))
        aw__chaos_must(world, order->excused || reached(order, belief), AW_INVARIANT_UNDO, w,
                       "order %llu was given up, and no rail that lasts had its name on it",
                       (unsigned long long)order->id);
    else
        aw__chaos_must(world, false, AW_INVARIANT_ORDERS_SURVIVE, w,
                       "order %llu (%s) was acknowledged and is not tried",
                       (unsigned long long)order->id, aw_order_name(order->order.kind));
    order->pin_over = true;
}

void aw__chaos_people_check(struct aw__chaos *world, uint32_t w, const struct aw_decision *decision)
{
    const uint32_t frozen = aw__chaos_frozen(world, w, decision->at_us);
    if (frozen)
        aw__chaos_must(world, decision->orders.freeze >= frozen, AW_INVARIANT_ORDERS_SURVIVE, w,
                       "a freeze was acknowledged (%u), and the decision knows of %u", frozen,
                       decision->orders.freeze);
    for (uint32_t i = 0; i < world->order_count; i++) {
        struct aw__chaos_order *order = &world->order[i];
        if (order->workload == w && !order->pin_over)
            check_pin(world, order, w, decision);
        if (order->order.kind == AW_ORDER_EMERGENCY && !order->ended &&
            strcmp(order->order.name, world->workload[w].pilot.name) == 0 &&
            lasts(world, order->order.until_us, decision->at_us))
            aw__chaos_must(world, decision->orders.floor.set && decision->orders.urgent,
                           AW_INVARIANT_ORDERS_SURVIVE, w,
                           "emergency %llu was acknowledged, and the decision does not know of it",
                           (unsigned long long)order->id);
    }
}
