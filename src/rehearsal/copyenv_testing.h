/* copyenv_testing.h - the copy of a generated application, as the tests of learning on copies want
 * it. Included by tests alone. */
#ifndef AW_REHEARSAL_COPYENV_TESTING_H
#define AW_REHEARSAL_COPYENV_TESTING_H

#include "base/units.h"
#include "rehearsal/copy_fit_testing.h"
#include "rehearsal/copyenv.h"

#define COPY_STEPS 40u /* of an episode */

static inline struct aw_copyenv_config copy_config(const struct life *life)
{
    const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                     .max = {20, 4000, 8192 * AW_MIB}};
    const struct aw_slo slo = {.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&life->app, 1, 0),
                               .timeout_us = 30e6};
    struct aw_copyenv_config config = {
        .state = {.preset = AW_STATE_DEFAULT,
                  .bounds = bounds,
                  .slo = slo,
                  .disk_bytes_per_s_max = 200e6,
                  .net_bytes_per_s_max = 125e6},
        .action = {.mapping = AW_ACTION_ANCHORED,
                   .bounds = bounds,
                   .window = 20,
                   .oom_steps = 100,
                   .deadband = 0.1,
                   .guard = true},
        .objective = {.kind = AW_OBJECTIVE_CONSTRAINED,
                      .slo_weight = 0.5,
                      .slo = slo,
                      .prices = {.core_hour = 0.04, .gib_hour = 0.005},
                      .cost_reference_per_hour = 0.3},
        .lambda = 5,
        .step_s = 15,
        .stale_s = 120,
        .episode_steps = COPY_STEPS,
        .controlled = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
        .guarded = true,
        .start = {.replicas = 6, .cpu_millicores = 1000, .memory_bytes = life->memory_bytes},
        .record = &life->record,
        .load_per_s = life->load_per_s,
        .minutes = MINUTES,
        .busier = 1,
        .error_max = 0.5,
    };
    aw_conf_defaults(aw_guard_fields, &config.guard);
    config.guard.replicas_stabilisation = 0; /* what is compared is what was learned */
    return config;
}

static inline struct aw_env copy_of(const struct aw_copyenv_config *config)
{
    struct aw_env env = {0};
    struct aw_diag diag = {0};
    if (aw_copyenv_make(config, NULL, &env, &diag))
        fail_msg("%s", diag.text);
    return env;
}

#endif
