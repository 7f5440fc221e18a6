/* arbitrate.c - functions as claims, grants as what is wanted. */
#include "multi/arbitrate.h"

enum aw_err aw_multi_arbiter_init(struct aw_multi_arbiter *a, const struct aw_multi_world *world,
                                  double overcommit, const struct aw_alloc *alloc,
                                  struct aw_diag *diag)
{
    struct aw_arbiter_settings settings;
    const uint32_t n = world->settings.agents_max;
    *a = (struct aw_multi_arbiter){.overcommit = overcommit, .alloc = alloc};
    aw_conf_defaults(aw_arbiter_fields, &settings);
    const enum aw_err err = aw_arbiter_init(&a->arbiter, &settings, 0, n, alloc, diag);
    if (err)
        return err;
    a->terms = aw_alloc_new(alloc, n, sizeof *a->terms);
    a->claim = aw_alloc_new(alloc, n, sizeof *a->claim);
    a->since = aw_alloc_new(alloc, n, sizeof *a->since);
    a->grant = aw_alloc_new(alloc, n, sizeof *a->grant);
    a->standing = aw_alloc_new(alloc, n, sizeof *a->standing);
    a->agent = aw_alloc_new(alloc, n, sizeof *a->agent);
    if (!a->terms || !a->claim || !a->since || !a->grant || !a->standing || !a->agent) {
        aw_multi_arbiter_deinit(a);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to arbitrate between %u functions", n);
    }
    for (uint32_t i = 0; i < n; i++)
        aw_tenancy_terms_init(&a->terms[i]);
    return AW_OK;
}

void aw_multi_arbiter_deinit(struct aw_multi_arbiter *a)
{
    aw_arbiter_deinit(&a->arbiter);
    aw_alloc_free(a->alloc, a->agent);
    aw_alloc_free(a->alloc, a->standing);
    aw_alloc_free(a->alloc, a->grant);
    aw_alloc_free(a->alloc, a->since);
    aw_alloc_free(a->alloc, a->claim);
    aw_alloc_free(a->alloc, a->terms);
    *a = (struct aw_multi_arbiter){0};
}

void aw_multi_arbitrate(struct aw_multi_arbiter *a, struct aw_multi_world *w)
{
    const struct aw_multi_settings *settings = &w->settings;
    a->count = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const int64_t memory = (int64_t)aw_multi_functions[w->kind[i]].memory_mib;
        if (!w->here[i])
            continue;
        a->agent[a->count] = i;
        a->claim[a->count++] = (struct aw_arbiter_workload){
            .tenant = AW_ARBITER_ALONE,
            .terms = a->terms[i],
            .holds = {w->containers[i] * INT64_C(1000), w->containers[i] * memory},
            .quantum = {1000, memory},
            .replicas_asked = w->wanted[i],
            .replicas_floor = w->wanted[i] > 0,
            .since = a->since[i]};
    }
    struct aw_arbiter_case of = {
        .capacity = {(int64_t)(w->node_count * settings->node_cores * a->overcommit * 1000),
                     (int64_t)(w->node_count * settings->node_memory_gib * 1024)},
        .elapsed_s = settings->step_s,
        .workload_count = a->count,
        .workloads = a->claim};
    aw_arbiter_run(&a->arbiter, &of, a->grant, a->standing);
    for (uint32_t k = 0; k < a->count; k++) {
        const uint32_t i = a->agent[k];
        const struct aw_arbiter_grant *grant = &a->grant[k];
        a->since[i] = a->claim[k].since;
        const uint32_t keeps = w->containers[i] < w->wanted[i] ? w->containers[i] : w->wanted[i];
        const uint32_t got = grant->keeps && grant->replicas < keeps ? keeps : grant->replicas;
        aw_multi_set(w, i, got, w->shares[i]);
    }
}
