/* contention_testing.h - random applications together on one or two nodes, and each of them alone.
 * Threads: pure. */
#ifndef AW_CLUSTER_SIM_CONTENTION_TESTING_H
#define AW_CLUSTER_SIM_CONTENTION_TESTING_H

#include "cluster/sim/contention.h"

#define TENANTS_MAX 10u

/* Some applications on one or two nodes. */
struct crowd {
    struct aw_sim_settings settings;
    uint32_t count;
    struct aw_sim_workload workload[TENANTS_MAX];
    float rate[TENANTS_MAX];
    struct aw_load load[TENANTS_MAX];
    double offered; /* CPU asked for, over cores */
};

/* Offers up to `most` of all cores. */
static inline void crowd_draw(uint64_t seed, double most, struct crowd *c)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    *c = (struct crowd){.count = 3 + aw_rng_below(&rng, TENANTS_MAX - 3)};
    aw_conf_defaults(aw_sim_fields, &c->settings);
    c->settings.node_count = 1 + aw_rng_below(&rng, 2);
    c->settings.node_cores = 4 + aw_rng_below(&rng, 5);
    c->settings.node_memory_gib = 65536;
    c->settings.overcommit_cpu = 64;
    c->settings.request_timeout_s = 3600;
    c->offered = aw_rng_uniform(&rng, 0.2, most);
    double parts[TENANTS_MAX], all = 0;
    for (uint32_t i = 0; i < c->count; i++)
        all += parts[i] = exp(aw_rng_uniform(&rng, -1, 1));
    for (uint32_t i = 0; i < c->count; i++) {
        struct aw_demand demand;
        struct aw_sim_workload *w = &c->workload[i];
        aw_app_generate(seed, i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &w->app);
        aw_app_demand(&w->app, 1, 0, &demand);
        const double cores =
            c->offered * parts[i] / all * c->settings.node_cores * c->settings.node_count;
        w->replicas = w->replicas_max = 1 + aw_rng_below(&rng, 3);
        const double used = cores / w->replicas, load = aw_rng_uniform(&rng, 0.15, 0.6);
        w->cpu_millicores =
            (int64_t)fmin(fmax(1e3 * used / load, 100), 1e3 * c->settings.node_cores);
        w->memory_bytes = (int64_t)1 << 40;
        c->rate[i] = (float)(cores * 1e3 / demand.cpu_ms);
        c->load[i] =
            (struct aw_load){.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &c->rate[i]};
        w->load = &c->load[i];
    }
}

/* p99 of each, in us; `only`: the others are not there. */
static inline enum aw_err crowd_run(const struct crowd *c, uint32_t model, uint32_t only,
                                    double seconds, double *p99)
{
    struct aw_sim_settings settings = c->settings;
    struct aw_sim *sim = NULL;
    settings.model = model;
    enum aw_err err = aw_sim_new(&settings, 1, c->count, NULL, &sim, NULL);
    for (uint32_t i = 0, index; !err && i < c->count; i++)
        if (only == UINT32_MAX || i == only)
            err = aw_sim_add(sim, &c->workload[i], &index, NULL);
    if (!err) {
        const struct aw_cluster cluster = aw_sim_cluster(sim);
        const int64_t warm_us = 30000000;
        err = cluster.ops->advance(cluster.self, warm_us);
        err = err ? err : cluster.ops->advance(cluster.self, warm_us + (int64_t)(seconds * 1e6));
    }
    for (uint32_t i = 0; !err && i < c->count; i++)
        if (only == UINT32_MAX || i == only)
            p99[i] = aw_sim_truth(sim, only == i ? 0 : i)->latency_us_p99;
    aw_sim_free(sim);
    return err;
}

/* ln of how many times longer p99 is beside the others, in both models. NAN: too much for its own
 * workers, neighbours or not. */
static inline enum aw_err crowd_compare(const struct crowd *c, double seconds,
                                        double ret_slower[2][TENANTS_MAX])
{
    double together[TENANTS_MAX], alone[TENANTS_MAX];
    for (uint32_t m = 0; m < 2; m++) {
        enum aw_err err = crowd_run(c, m, UINT32_MAX, seconds, together);
        for (uint32_t i = 0; !err && i < c->count; i++)
            err = crowd_run(c, m, i, seconds, alone);
        if (err)
            return err;
        for (uint32_t i = 0; i < c->count; i++)
            ret_slower[m][i] = alone[i] > 60e6 ? NAN : log(together[i] / alone[i]);
    }
    return AW_OK;
}

#endif
