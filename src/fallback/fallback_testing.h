/* fallback_testing.h - a workload of equal replicas for the tests of policies. */
#ifndef AW_FALLBACK_FALLBACK_TESTING_H
#define AW_FALLBACK_FALLBACK_TESTING_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "base/units.h"
#include "fallback/fallback.h"
#include "fallback/fallback_kinds.h"

#define SECOND_US 1000000ll
#define STEP_US   (15 * SECOND_US)
#define NOW_US    (3600 * SECOND_US)

/* A workload of equal replicas, as a cluster would show it. */
struct shown {
    struct aw_sample sample;
    struct aw_pod pods[AW_CLUSTER_PODS_MAX];
};

struct view {
    uint32_t replicas;
    int64_t millicores;
    double mib;
    double cores_used;      /* of one replica */
    double mib_used;        /* likewise */
    double p99_us;          /* NAN: no figure */
    int64_t age_us;         /* of every figure; negative: all are missing */
    uint32_t oom_kills;     /* since the last look, of the first replica */
    uint32_t oom_kills_old; /* and in its life before */
};

static inline struct aw_figure figure(const struct view *view, double value, int64_t now_us)
{
    if (view->age_us < 0 || isnan(value))
        return (struct aw_figure){.at_us = AW_NEVER};
    return (struct aw_figure){.value = value, .at_us = now_us - view->age_us};
}

static inline const struct aw_sample *show(struct shown *shown, const struct view *v,
                                           int64_t now_us)
{
    for (uint32_t i = 0; i < v->replicas; i++)
        shown->pods[i] = (struct aw_pod){
            .id = i + 1,
            .phase = AW_POD_RUNNING,
            .ready = true,
            .started_us = now_us - 7200 * SECOND_US,
            .ready_change_us = now_us - 7100 * SECOND_US,
            .cpu_millicores = v->millicores,
            .memory_bytes = (int64_t)(v->mib * AW_MIB_REAL),
            .cpu_cores_used = figure(v, v->cores_used, now_us),
            .memory_bytes_used = figure(v, v->mib_used * AW_MIB_REAL, now_us),
            .oom_kill_count = i == 0 ? v->oom_kills_old + v->oom_kills : 0,
        };
    shown->sample = (struct aw_sample){
        .at_us = now_us,
        .replicas_wanted = v->replicas,
        .cpu_millicores_wanted = v->millicores,
        .memory_bytes_wanted = (int64_t)(v->mib * AW_MIB_REAL),
        .replicas_ready = v->replicas,
        .cpu_cores_used = figure(v, v->cores_used * v->replicas, now_us),
        .memory_bytes_used = figure(v, v->mib_used * AW_MIB_REAL, now_us),
        .memory_bytes_peak = figure(v, v->mib_used * AW_MIB_REAL, now_us),
        .latency_us_p99 = figure(v, v->p99_us, now_us),
        .arrivals_per_s = figure(v, 10, now_us),
        .oom_kills = v->oom_kills,
        .pod_count = v->replicas,
        .pods = shown->pods,
    };
    return &shown->sample;
}

static const struct aw_fallback_task task = {
    .bounds = {.replicas_min = 1,
               .replicas_max = 20,
               .cpu_millicores_min = 100,
               .cpu_millicores_max = 4000,
               .memory_bytes_min = 64 << 20,
               .memory_bytes_max = 8ll << 30},
    .slo_latency_us = 100e3,
    .replicas = 4,
    .cpu_millicores = 1000,
    .memory_bytes = 512 << 20,
};

static inline struct aw_fallback *make_at(enum aw_fallback_kind kind, uint32_t hpa_target)
{
    struct aw_fallback_settings settings;
    struct aw_fallback *policy = NULL;
    aw_conf_defaults(aw_fallback_fields, &settings);
    settings.kind = kind;
    settings.hpa_target = hpa_target;
    assert_ok(aw_fallback_new(&settings, &task, NULL, &policy, NULL));
    return policy;
}

static inline struct aw_fallback *make(enum aw_fallback_kind kind)
{
    return make_at(kind, 80);
}

/* Follows its own plans on a load that is given; fills the last view. */
static inline void live(struct aw_fallback *policy, struct view *v, double cores, double mib,
                        int steps, int64_t from_us)
{
    static struct shown shown;
    for (int i = 0; i < steps; i++) {
        const int64_t now_us = from_us + i * STEP_US;
        struct aw_plan plan;
        v->cores_used = fmin(cores / v->replicas, 1e-3 * (double)v->millicores);
        v->mib_used = mib;
        aw_fallback_decide(policy, show(&shown, v, now_us), now_us, &plan, NULL);
        v->oom_kills_old += v->oom_kills;
        v->oom_kills = 0;
        v->replicas = plan.replicas;
        v->millicores = plan.cpu_millicores;
        v->mib = (double)plan.memory_bytes / AW_MIB_REAL;
    }
}

static inline struct view draw(struct aw_rng *rng)
{
    return (struct view){
        .replicas = 1 + aw_rng_below(rng, 20),
        .millicores = 100 + aw_rng_below(rng, 3900),
        .mib = 64 + aw_rng_below(rng, 4000),
        .cores_used = aw_rng_double(rng) < 0.2 ? 0 : aw_rng_uniform(rng, 0, 4),
        .mib_used = aw_rng_uniform(rng, 0, 4000),
        .p99_us = aw_rng_double(rng) < 0.1 ? (double)NAN : aw_rng_uniform(rng, 1e3, 300e3),
        .age_us = aw_rng_double(rng) < 0.3 ? -1 : (int64_t)aw_rng_below(rng, 90) * SECOND_US,
        .oom_kills = aw_rng_below(rng, 10) == 0,
    };
}

#endif
