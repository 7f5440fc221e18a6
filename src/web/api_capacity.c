/*
 * api_capacity.c - /v1/capacity: who holds, wants, borrows and lends of a shared cluster, and what
 * would be with nodes less or a tenant more.
 */
#include "web/api_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "tenancy/arbiter.h"

#define MINUS_MAX 1000u

/* What is asked beyond the present. */
struct question {
    uint32_t minus;         /* nodes */
    int64_t more[AW_POOLS]; /* that a newcomer asks for; 0: none comes */
    struct aw_tenancy_terms terms;
};

static double cores(int64_t millicores)
{
    return 1e-3 * (double)millicores;
}

static json_t *amounts(const int64_t amount[AW_POOLS])
{
    return json_pack("{s:f, s:I}", "cpu_cores", cores(amount[AW_POOL_CPU]), "memory_bytes",
                     (json_int_t)amount[AW_POOL_MEMORY]);
}

/* Which of the two a lot is, and its name. */
static const char *lot_name(struct aw_loop *loop, const struct aw_loop_tenancy_view *view,
                            uint32_t lot)
{
    const uint32_t tenants = view->of->tenant_count;
    return lot < tenants ? view->names[lot].text
                         : aw_pilot_config(aw_loop_pilot(loop, view->slots[lot - tenants]))->name;
}

static json_t *standing_json(const char *name, const struct aw_tenancy_terms *terms,
                             const struct aw_arbiter_standing *s, double credit)
{
    bool ok = true;
    json_t *object = json_object();
    aw__json_set(object, "name", json_string(name), &ok);
    aw__json_set(object, "weight", json_real(terms->weight), &ok);
    aw__json_set(object, "priority", json_integer(terms->priority), &ok);
    aw__json_set(object, "guarantee", amounts(terms->guarantee), &ok);
    aw__json_set(object, "holds", amounts(s->holds), &ok);
    aw__json_set(object, "asks", amounts(s->asks), &ok);
    aw__json_set(object, "gets", amounts(s->gets), &ok);
    aw__json_set(object, "target", amounts(s->target), &ok);
    aw__json_set(object, "lends", amounts(s->lends), &ok);
    aw__json_set(object, "borrows", amounts(s->borrows), &ok);
    aw__json_set(object, "share", json_real(s->share), &ok);
    aw__json_set(object, "credit", json_real(credit), &ok);
    aw__json_set(object, "rank", json_integer(s->rank), &ok);
    aw__json_set(object, "of", json_integer(s->of), &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *tenants_json(struct aw_loop *loop, const struct aw_loop_tenancy_view *view)
{
    const struct aw_arbiter_case *of = view->of;
    json_t *list = json_array();
    for (uint32_t i = 0; i < of->tenant_count + of->workload_count; i++) {
        const bool tenant = i < of->tenant_count;
        if (!tenant && of->workloads[i - of->tenant_count].tenant != AW_ARBITER_ALONE)
            continue;
        json_array_append_new(
            list, standing_json(lot_name(loop, view, i),
                                tenant ? &of->tenants[i].terms
                                       : &of->workloads[i - of->tenant_count].terms,
                                &view->standings[i], tenant ? of->tenants[i].credit.credit : 0));
    }
    return list;
}

static json_t *workloads_json(struct aw_loop *loop, const struct aw_loop_tenancy_view *view)
{
    const struct aw_arbiter_case *of = view->of;
    json_t *list = json_array();
    for (uint32_t k = 0; k < of->workload_count; k++) {
        const struct aw_arbiter_workload *w = &of->workloads[k];
        const struct aw_arbiter_grant *grant = &view->grants[k];
        const struct aw_pilot *pilot = aw_loop_pilot(loop, view->slots[k]);
        const struct aw_decision *decision = aw_pilot_decision(pilot);
        bool ok = true;
        json_t *row = json_object();
        aw__json_set(row, "name", json_string(aw_pilot_config(pilot)->name), &ok);
        aw__json_set(row, "tenant",
                     w->tenant == AW_ARBITER_ALONE ? json_null()
                                                   : json_string(view->names[w->tenant].text),
                     &ok);
        aw__json_set(row, "replicas", json_integer(decision->reading.replicas_wanted), &ok);
        aw__json_set(row, "asked", json_integer(w->replicas_asked), &ok);
        aw__json_set(row, "got", json_integer(decision->guard.plan.replicas), &ok);
        aw__json_set(row, "target", json_integer(grant->target), &ok);
        aw__json_set(row, "holds", amounts(w->holds), &ok);
        aw__json_set(row, "reason", json_string(aw_arbiter_reason_name(grant->reason)), &ok);
        aw__json_set(row, "sentence", json_string(aw_arbiter_reason_sentence(grant->reason)), &ok);
        aw__json_set(row, "wait_s", json_real(grant->wait_s), &ok);
        aw__json_set(row, "slo_missed", json_boolean(decision->score.violated), &ok);
        json_array_append_new(list, row);
    }
    return list;
}

/* What all have, want and lack. */
static void sums_json(json_t *object, const struct aw_arbiter_case *of,
                      const struct aw_arbiter_grant *grants, bool *ok)
{
    int64_t held[AW_POOLS] = {0}, asked[AW_POOLS] = {0}, lacks[AW_POOLS] = {0};
    for (uint32_t k = 0; k < of->workload_count; k++)
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            const struct aw_arbiter_workload *w = &of->workloads[k];
            held[r] += w->holds[r];
            asked[r] += w->replicas_asked * w->quantum[r];
            lacks[r] += (w->replicas_asked - grants[k].target) * w->quantum[r];
        }
    aw__json_set(object, "capacity", amounts(of->capacity), ok);
    aw__json_set(object, "held", amounts(held), ok);
    aw__json_set(object, "asked", amounts(asked), ok);
    aw__json_set(object, "missing", amounts(lacks), ok);
}

/* The same case again, with nodes less and perhaps a newcomer, as it settles: nobody waits. */
static json_t *what_if(struct aw_loop *loop, const struct aw_loop_tenancy_view *view,
                       const struct question *ask)
{
    const struct aw_arbiter_case *was = view->of;
    const uint32_t n = was->workload_count, t = was->tenant_count;
    const struct aw_amounts *node =
        n ? &aw_pilot_config(aw_loop_pilot(loop, view->slots[0]))->node : NULL;
    struct aw_arbiter arbiter;
    struct aw_arbiter_workload *workloads = calloc(n + 1, sizeof *workloads);
    struct aw_arbiter_tenant *tenants = calloc(t + 1, sizeof *tenants);
    struct aw_arbiter_grant *grants = calloc(n + 1, sizeof *grants);
    struct aw_arbiter_standing *standings = calloc(t + n + 1, sizeof *standings);
    json_t *object = NULL;
    bool ok = workloads && tenants && grants && standings &&
              !aw_arbiter_init(&arbiter, view->settings, t, n + 1, NULL, NULL);
    if (ok) {
        memcpy(workloads, was->workloads, n * sizeof *workloads);
        memcpy(tenants, was->tenants, t * sizeof *tenants);
        struct aw_arbiter_case of = {
            .tenant_count = t, .workload_count = n, .tenants = tenants, .workloads = workloads};
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            const enum aw_resource resource =
                r == AW_POOL_CPU ? AW_RESOURCE_CPU : AW_RESOURCE_MEMORY;
            of.capacity[r] = was->capacity[r] - ask->minus * (node ? node->amount[resource] : 0);
            of.capacity[r] = of.capacity[r] > 1 ? of.capacity[r] : 1;
        }
        const bool comes = ask->more[AW_POOL_CPU] > 0;
        if (comes) {
            workloads[n] = (struct aw_arbiter_workload){
                .tenant = AW_ARBITER_ALONE, .terms = ask->terms, .replicas_asked = 100};
            for (uint32_t r = 0; r < AW_POOLS; r++) /* in hundredths: what of it fits */
                workloads[n].quantum[r] = (ask->more[r] + 99) / 100;
            of.workload_count++;
        }
        aw_arbiter_run(&arbiter, &of, grants, standings);
        object = json_object();
        sums_json(object, &of, grants, &ok);
        aw__json_set(object, "nodes_less", json_integer(ask->minus), &ok);
        json_t *losers = json_array();
        for (uint32_t k = 0; k < n; k++) {
            if (grants[k].target >= view->grants[k].target)
                continue;
            json_array_append_new(
                losers,
                json_pack("{s:s, s:i, s:i}", "name",
                          aw_pilot_config(aw_loop_pilot(loop, view->slots[k]))->name, "target",
                          (int)view->grants[k].target, "would_be", (int)grants[k].target));
        }
        aw__json_set(object, "would_lose", losers, &ok);
        if (comes) {
            aw__json_set(object, "newcomer_asks", amounts(ask->more), &ok);
            aw__json_set(object, "newcomer_gets", amounts(standings[t + n].target), &ok);
            aw__json_set(object, "fits", json_boolean(grants[n].target == 100), &ok);
            aw__json_set(object, "fits_now", json_boolean(grants[n].replicas == 100), &ok);
        }
        aw_arbiter_deinit(&arbiter);
    }
    free(standings);
    free(grants);
    free(tenants);
    free(workloads);
    return object;
}

static json_t *capacity_json(const struct aw_api *api, const struct question *ask)
{
    struct aw_loop *loop = aw_desk_loop(api->config.desk);
    struct aw_loop_tenancy_view view;
    if (!loop || !aw_loop_tenancy_view(loop, &view))
        return json_null();
    bool ok = true;
    json_t *object = json_object();
    aw__json_set(object, "v", json_integer(1), &ok);
    aw__json_set(object, "reclaim_s", json_real(view.settings->reclaim_s), &ok);
    sums_json(object, view.of, view.grants, &ok);
    aw__json_set(object, "tenants", tenants_json(loop, &view), &ok);
    aw__json_set(object, "workloads", workloads_json(loop, &view), &ok);
    if (ask && (ask->minus || ask->more[AW_POOL_CPU] > 0))
        aw__json_set(object, "what_if", what_if(loop, &view, ask), &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

json_t *aw__api_capacity(const struct aw_api *api)
{
    return capacity_json(api, NULL);
}

/* A number from 0 to `most`; not given: as it was. */
static enum aw_err number_read(const struct aw__api_call *call, const char *key, double most,
                               double *ret, struct aw_diag *diag)
{
    const char *text = aw__api_param(call, key);
    char *end = NULL;
    if (!text)
        return AW_OK;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= most))
        return aw_fail(diag, AW_ERR_USAGE, "%s: expected a number from 0 to %g, found \"%.40s\"",
                       key, most, text);
    *ret = value;
    return AW_OK;
}

static enum aw_err question_read(const struct aw__api_call *call, struct question *ret,
                                 struct aw_diag *diag)
{
    const char *cpu = aw__api_param(call, "cpu"), *memory = aw__api_param(call, "memory");
    double minus = 0, priority = 0;
    *ret = (struct question){0};
    aw_tenancy_terms_init(&ret->terms);
    enum aw_err err = number_read(call, "minus", MINUS_MAX, &minus, diag);
    err = err ? err : number_read(call, "priority", AW_TENANCY_PRIORITY_MAX, &priority, diag);
    err = err ? err : number_read(call, "weight", 1000, &ret->terms.weight, diag);
    if (!err && cpu)
        err = aw_quantity_parse_cpu(cpu, &ret->more[AW_POOL_CPU], diag);
    if (!err && memory)
        err = aw_quantity_parse_memory(memory, &ret->more[AW_POOL_MEMORY], diag);
    ret->minus = (uint32_t)minus;
    ret->terms.priority = (int64_t)priority;
    ret->terms.weight = ret->terms.weight > 0 ? ret->terms.weight : 1;
    return err;
}

enum aw_err aw__api_get_capacity(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct question ask;
    const enum aw_err err = question_read(call, &ask, diag);
    if (err)
        return err;
    aw_desk_lock(desk);
    call->body = capacity_json(call->api, &ask);
    aw_desk_unlock(desk);
    if (!call->body)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (!json_is_null(call->body))
        return AW_OK;
    json_decref(call->body);
    call->body = NULL;
    return aw_fail(diag, AW_ERR_NOTFOUND,
                   "nothing is shared: no workload has spec.tenancy, there is no Tenant, or the "
                   "capacity of the cluster is not known");
}
