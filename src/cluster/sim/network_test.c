#include "base/testing.h"
#include "cluster/sim/network.h"

#include "base/rng.h"

#include <math.h>

/* The network as a textbook has it, in double, over the inputs that calibration sees. */
static void naive(const struct aw_replica *replica, double *e)
{
    float x[AW_SURROGATE_INPUTS];
    double a[AW_SURROGATE_HIDDEN], b[AW_SURROGATE_HIDDEN];
    aw_surrogate_inputs(replica, x);
    for (uint32_t j = 0; j < AW_SURROGATE_HIDDEN; j++) {
        a[j] = (double)aw_weights.b0[j];
        for (uint32_t k = 0; k < AW_SURROGATE_INPUTS; k++)
            a[j] += (double)aw_weights.w0[j * AW_SURROGATE_INPUTS + k] *
                    ((double)x[k] - (double)aw_weights.shift[k]) * (double)aw_weights.scale[k];
        a[j] = fmax(a[j], 0);
    }
    for (uint32_t j = 0; j < AW_SURROGATE_HIDDEN; j++) {
        b[j] = (double)aw_weights.b1[j];
        for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k++)
            b[j] += (double)aw_weights.w1[j * AW_SURROGATE_HIDDEN + k] * a[k];
        b[j] = fmax(b[j], 0);
    }
    for (uint32_t j = 0; j < AW_SURROGATE_OUTPUTS; j++) {
        e[j] = (double)aw_weights.b2[j];
        for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k++)
            e[j] += (double)aw_weights.w2[j * AW_SURROGATE_HIDDEN + k] * b[k];
        e[j] = exp(fmin(fmax(e[j], -12), 12));
    }
}

static void vectors_give_what_the_textbook_gives(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    for (uint32_t index = 0; index < 500; index++) {
        struct aw_app app;
        struct aw_replica replica;
        struct aw_steady steady;
        double e[AW_SURROGATE_OUTPUTS];
        aw_app_generate(6, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
        aw_app_demand(&app, aw_rng_uniform(&rng, 0.3, 4), 0, &replica.demand);
        replica.cores = exp(aw_rng_uniform(&rng, log(0.05), log(16)));
        replica.rate_per_s =
            aw_rng_uniform(&rng, 0, 1.2) * aw_replica_capacity(&replica.demand, replica.cores);
        naive(&replica, e);
        aw_surrogate_eval(&replica, &steady);
        const double alone_us = aw_replica_alone_ms(&replica.demand, replica.cores) * 1e3;
        assert_close(steady.mean_us / alone_us / e[0], 1, 2e-4);
        assert_close(steady.p50_us / alone_us / e[1], 1, 2e-4);
        assert_close(steady.p95_us / steady.p50_us / (1 + e[2]), 1, 2e-4);
        assert_close(steady.p99_us / steady.p95_us / (1 + e[3]), 1, 2e-4);
        assert_close(steady.throttled_share, e[4] / (1 + e[4]), 2e-4);
        assert_close(steady.p99_spread / e[6], 1, 2e-4);
    }
}

/* Recorded from plain vectors; AVX2 and AVX-512 add in the same order. New weights, new bits. */
static void every_processor_gives_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t bits[][AW_SURROGATE_OUTPUTS] = {
        {0x3f5c1552, 0x3f2784fa, 0x3fed0999, 0x3f0c7f30, 0x442046ab, 0x4007150d, 0x3ea0c2df},
        {0x3f90e782, 0x3f6108a6, 0x3ffc9a58, 0x3ef32a78, 0x4134bc02, 0x3fa7c99e, 0x3e8696c9},
        {0x3fba1998, 0x3f961ef9, 0x4000211d, 0x3eeb7844, 0x4102b763, 0x3e943b27, 0x3e823dc5},
    };
    float x[AW_SURROGATE_INPUTS], sum[AW_SURROGATE_HIDDEN], e[AW_SURROGATE_WIDTH];
    for (uint32_t i = 0; i < AW_SURROGATE_INPUTS; i++)
        x[i] = 0.125f * (float)i - 0.5f;
    aw__network_begin(x, sum);
    for (uint32_t k = 0; k < sizeof bits / sizeof *bits; k++) {
        const struct aw__network_asked asked = {.on_cpu = 0.3f * (float)k + 0.1f,
                                                .on_threads = 0.2f * (float)k,
                                                .cores = 0.5f * (float)(k + 1),
                                                .requests = 100.0f * (float)(k + 1),
                                                .log_cpu = x[AW__INPUT_CPU]};
        aw__network_end(sum, &asked, e);
        assert_memory_equal(e, bits[k], sizeof bits[k]);
    }
}

static void no_load_and_no_cpu_time_are_finite(void **state)
{
    (void)state;
    const struct {
        struct aw_replica replica;
        const char *why;
    } cases[] = {
        {{.demand = {.cpu_ms = 10, .parallelism = 1}, .cores = 1}, "no requests"},
        {{.demand = {.io_ms = 10, .parallelism = 1}, .cores = 1, .rate_per_s = 5}, "only waiting"},
        {{.demand = {.cpu_ms = 1e-6, .parallelism = 1}, .cores = 1e-3, .rate_per_s = 1e6}, "tiny"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_steady steady;
        aw_surrogate_eval(&cases[i].replica, &steady);
        if (!isfinite(steady.p99_us) || !isfinite(steady.in_flight_peak) || !(steady.p50_us > 0))
            fail_msg("%s", cases[i].why);
    }
}

AW_TEST_GROUP("sim-network")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_give_what_the_textbook_gives),
        cmocka_unit_test(every_processor_gives_the_same_bits),
        cmocka_unit_test(no_load_and_no_cpu_time_are_finite),
    };
    return cmocka_run_group_tests_name("sim-network", tests, NULL, NULL);
}
