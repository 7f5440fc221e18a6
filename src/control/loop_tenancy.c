/* loop_tenancy.c - between deciding and writing down: what all ask for meets what there is. */
#include "control/loop_internal.h"

#include <string.h>

enum aw_err aw__loop_tenancy_make(struct aw_loop *loop, const struct aw_loop_tenancy *of,
                                  uint32_t place_count, struct aw_diag *diag)
{
    if (!of->places)
        return AW_OK;
    struct aw__loop_tenancy *t = aw_alloc_new(loop->alloc, 1, sizeof *t);
    if (!t)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for tenants");
    loop->tenancy = t;
    const uint32_t tenants = of->tenant_count;
    const enum aw_err err =
        aw_arbiter_init(&t->arbiter, &of->settings, tenants, loop->max, loop->alloc, diag);
    if (err)
        return err;
    t->place = aw_alloc_new(loop->alloc, loop->max, sizeof *t->place);
    t->since = aw_alloc_new(loop->alloc, loop->max, sizeof *t->since);
    t->slot = aw_alloc_new(loop->alloc, loop->max, sizeof *t->slot);
    t->name = aw_alloc_new(loop->alloc, tenants + 1, sizeof *t->name);
    t->tenant = aw_alloc_new(loop->alloc, tenants + 1, sizeof *t->tenant);
    t->workload = aw_alloc_new(loop->alloc, loop->max, sizeof *t->workload);
    t->grant = aw_alloc_new(loop->alloc, loop->max, sizeof *t->grant);
    t->standing = aw_alloc_new(loop->alloc, tenants + loop->max, sizeof *t->standing);
    t->moment_bytes = aw_alloc_new(loop->alloc, loop->max, sizeof *t->moment_bytes);
    if (!t->place || !t->since || !t->slot || !t->name || !t->tenant || !t->workload || !t->grant ||
        !t->standing || !t->moment_bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u tenants", tenants);
    for (uint32_t i = 0; i < loop->max; i++) {
        t->place[i].tenant = AW_ARBITER_ALONE;
        aw_tenancy_terms_init(&t->place[i].terms);
    }
    memcpy(t->place, of->places, place_count * sizeof *t->place);
    for (uint32_t i = 0; i < tenants; i++) {
        t->tenant[i].terms = of->tenants[i].terms;
        memcpy(t->name[i].text, of->tenants[i].name, sizeof t->name[i].text);
    }
    t->tenant_count = tenants;
    t->last_us = AW_NEVER;
    return AW_OK;
}

void aw__loop_tenancy_free(struct aw_loop *loop)
{
    struct aw__loop_tenancy *t = loop->tenancy;
    if (!t)
        return;
    aw_arbiter_deinit(&t->arbiter);
    aw_alloc_free(loop->alloc, t->moments);
    aw_alloc_free(loop->alloc, t->moment_bytes);
    aw_alloc_free(loop->alloc, t->standing);
    aw_alloc_free(loop->alloc, t->grant);
    aw_alloc_free(loop->alloc, t->workload);
    aw_alloc_free(loop->alloc, t->tenant);
    aw_alloc_free(loop->alloc, t->name);
    aw_alloc_free(loop->alloc, t->slot);
    aw_alloc_free(loop->alloc, t->since);
    aw_alloc_free(loop->alloc, t->place);
    aw_alloc_free(loop->alloc, t);
}

enum aw_err aw__loop_tenancy_moments(struct aw_loop *loop, size_t each, struct aw_diag *diag)
{
    struct aw__loop_tenancy *t = loop->tenancy;
    unsigned char *moments = aw_alloc_new(loop->alloc, loop->max, each);
    if (!moments)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u moments of %zu bytes", loop->max,
                       each);
    aw_alloc_free(loop->alloc, t->moments);
    t->moments = moments;
    t->moment_each = each;
    return AW_OK;
}

void aw_loop_capacity(struct aw_loop *loop, const int64_t capacity[AW_POOLS])
{
    if (loop->tenancy)
        memcpy(loop->tenancy->capacity, capacity, sizeof loop->tenancy->capacity);
}

bool aw__loop_arbitrates(const struct aw_loop *loop)
{
    const struct aw__loop_tenancy *t = loop->tenancy;
    return t && t->capacity[AW_POOL_CPU] > 0 && t->capacity[AW_POOL_MEMORY] > 0;
}

static const enum aw_resource resource_of[AW_POOLS] = {
    [AW_POOL_CPU] = AW_RESOURCE_CPU,
    [AW_POOL_MEMORY] = AW_RESOURCE_MEMORY,
};

/* What a pilot has decided, as a claim. False: nothing is known of what it has. */
static bool claim(const struct aw_pilot *pilot, struct aw_arbiter_workload *ret)
{
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    const struct aw_decision *decision = aw_pilot_decision(pilot);
    const struct aw_plan now = aw_plan_of(decision->reading.wanted);
    const struct aw_plan then = aw_plan_over(&decision->guard.plan, &now);
    if (now.replicas <= 0 || now.cpu_millicores <= 0 || now.memory_bytes <= 0)
        return false;
    /* what may not shrink is a floor: what is not ours, frozen, only recommended, or ordered */
    const bool held = !(config->controlled & AW_PLAN_REPLICAS) ||
                      config->guard.mode != AW_GUARD_AUTO ||
                      decision->orders.freeze != AW_GUARD_FREEZE_NONE ||
                      decision->actor == AW_ACTOR_PERSON || !decision->answered;
    const int64_t least =
        config->bounds.replicas_min < then.replicas ? config->bounds.replicas_min : then.replicas;
    ret->replicas_asked = (uint32_t)then.replicas;
    ret->replicas_floor = (uint32_t)(held ? then.replicas : least);
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        ret->quantum[r] = then.amount[resource_of[r]];
        ret->holds[r] = now.replicas * now.amount[resource_of[r]];
    }
    return true;
}

/* The grant as an order to the pilot. */
static void tell(struct aw_pilot *pilot, const struct aw_arbiter_workload *claimed,
                 const struct aw_arbiter_grant *grant, const struct aw_arbiter_standing *standing)
{
    const struct aw_decision *decision = aw_pilot_decision(pilot);
    const int64_t *present = decision->reading.wanted;
    struct aw_order_grant order = {.reason = grant->reason,
                                   .asked = claimed->replicas_asked,
                                   .got = grant->replicas,
                                   .target = grant->target,
                                   .wait_s = (uint32_t)(grant->wait_s + 0.5),
                                   .rank = standing->rank,
                                   .of = standing->of};
    bool larger = false; /* replicas, not only more of them */
    for (uint32_t r = 0; r < AW_POOLS; r++)
        larger |= claimed->quantum[r] > present[resource_of[r]];
    if (grant->keeps) {
        order.same_size = larger;
        order.got = order.asked < present[AW_RESOURCE_REPLICAS]
                        ? order.asked
                        : (uint32_t)present[AW_RESOURCE_REPLICAS];
    } else if (larger && order.got < present[AW_RESOURCE_REPLICAS]) {
        /* fewer larger replicas were not asked for: as many of the present size as its share holds
         */
        int64_t most = present[AW_RESOURCE_REPLICAS];
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            const int64_t fit = grant->replicas * claimed->quantum[r] / present[resource_of[r]];
            most = fit < most ? fit : most;
        }
        order.same_size = 1;
        order.got = most > claimed->replicas_floor ? (uint32_t)most : claimed->replicas_floor;
    }
    aw_pilot_grant(pilot, &order);
}

void aw__loop_arbitrate(struct aw_loop *loop)
{
    struct aw__loop_tenancy *t = loop->tenancy;
    const int64_t now = loop->cluster.ops->now_us(loop->cluster.self);
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_arbiter_workload *w = &t->workload[n];
        if (!loop->slot[i].pilot || !claim(loop->slot[i].pilot, w))
            continue;
        w->tenant = t->place[i].tenant;
        w->terms = t->place[i].terms;
        w->since = t->since[i];
        t->slot[n++] = i;
    }
    t->of = (struct aw_arbiter_case){
        .capacity = {t->capacity[AW_POOL_CPU], t->capacity[AW_POOL_MEMORY]},
        .elapsed_s = t->last_us == AW_NEVER ? 0 : 1e-6 * (double)(now - t->last_us),
        .tenant_count = t->tenant_count,
        .workload_count = n,
        .tenants = t->tenant,
        .workloads = t->workload};
    t->last_us = now;
    aw_arbiter_run(&t->arbiter, &t->of, t->grant, t->standing);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = t->slot[k];
        const uint32_t lot =
            t->workload[k].tenant == AW_ARBITER_ALONE ? t->tenant_count + k : t->workload[k].tenant;
        t->since[i] = t->workload[k].since;
        if (t->grant[k].reason != AW_ARBITER_GRANTED)
            tell(loop->slot[i].pilot, &t->workload[k], &t->grant[k], &t->standing[lot]);
    }
}

bool aw_loop_tenancy_view(const struct aw_loop *loop, struct aw_loop_tenancy_view *ret)
{
    const struct aw__loop_tenancy *t = loop->tenancy;
    if (!aw__loop_arbitrates(loop) || t->last_us == AW_NEVER)
        return false;
    *ret = (struct aw_loop_tenancy_view){.of = &t->of,
                                         .grants = t->grant,
                                         .standings = t->standing,
                                         .slots = t->slot,
                                         .names = t->name,
                                         .settings = &t->arbiter.settings};
    return true;
}
