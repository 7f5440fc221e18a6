/* simulate_testing.h - loads and a small pool of applications for the tests of simulate. */
#ifndef AW_SIMULATION_SIMULATE_TESTING_H
#define AW_SIMULATION_SIMULATE_TESTING_H

#include "base/testing.h"
#include "simulation/simulate.h"

static inline void load_make(const char *pattern, double mean, double peak, uint64_t seed,
                             struct aw_load *ret)
{
    struct aw_load_settings settings;
    aw_conf_defaults(aw_load_fields, &settings);
    assert_ok(aw_conf_set(aw_load_fields, &settings, "pattern", pattern, NULL));
    settings.mean_per_s = mean;
    settings.peak_ratio = peak;
    settings.noise = 0;
    assert_ok(aw_load_generate(&settings, seed, NULL, ret, NULL));
}

#define CASES 3u

struct pool {
    struct aw_load load[2 * CASES];
    struct aw_simulate_case c[CASES];
};

static inline void pool_make(struct pool *pool)
{
    static const char *const patterns[] = {"bursts", "diurnal", "spikes"};
    for (uint32_t i = 0; i < CASES; i++) {
        struct aw_simulate_case *c = &pool->c[i];
        *c = (struct aw_simulate_case){0};
        aw_app_generate(11, i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &c->app);
        const double rate = aw_app_rate_for(&c->app, 2);
        load_make(patterns[i], rate, 3, 10 + i, &pool->load[2 * i]);
        load_make(patterns[i], rate, 3, 90 + i, &pool->load[2 * i + 1]);
        c->load = &pool->load[2 * i];
        c->tuning_load = &pool->load[2 * i + 1];
    }
}

static inline void pool_free(struct pool *pool)
{
    for (uint32_t i = 0; i < 2 * CASES; i++)
        aw_load_deinit(&pool->load[i]);
}

#endif
