#include "base/testing.h"
#include "cluster/sim/internal.h"

#define TIMEOUT_US 30e6

/* A workload whose step had these latencies; replicas enough that a step's own chance is small. */
static struct aw_sim *sim_new(struct aw_load *load, float *rate)
{
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    uint32_t index;
    aw_conf_defaults(aw_sim_fields, &settings);
    *load = (struct aw_load){.slot_count = 1, .slot_us = 1000000, .rate_per_s = rate};
    struct aw_sim_workload workload = {.load = load,
                                       .replicas = 1,
                                       .replicas_max = 1,
                                       .cpu_millicores = 1000,
                                       .memory_bytes = 1 << 30};
    workload.app.segment_count = 1;
    workload.app.segment[0] = (struct aw_segment){.cpu_ms = 1, .parallelism = 1};
    assert_ok(aw_sim_new(&settings, 1, 1, NULL, &sim, NULL));
    assert_ok(aw_sim_add(sim, &workload, &index, NULL));
    return sim;
}

struct part {
    double weight, p50, p95, p99;
};

static double share_beyond(const struct part *part, double x)
{
    const double at[] = {0, part->p50, part->p95, part->p99};
    const double ln[] = {0, log(0.5), log(0.05), log(0.01)};
    const int k = x <= at[1] ? 1 : x <= at[2] ? 2 : 3;
    return exp(ln[k - 1] + (ln[k] - ln[k - 1]) * (x - at[k - 1]) / (at[k] - at[k - 1]));
}

/* The share of all requests beyond x, failures included. */
static double beyond(const struct part *part, uint32_t count, double failures, double x)
{
    double sum = failures, total = failures;
    for (uint32_t i = 0; i < count; i++) {
        sum += part[i].weight * share_beyond(&part[i], x);
        total += part[i].weight;
    }
    return sum / total;
}

static void quantiles_cut_off_what_they_say(void **state)
{
    (void)state;
    float rate = 1;
    struct aw_load load;
    struct aw_sim *sim = sim_new(&load, &rate);
    struct aw__workload *workload = &sim->workload[0];
    struct aw_rng rng;
    uint32_t timeouts = 0;
    aw_rng_init(&rng, 9, 0);
    for (int round = 0; round < 5000; round++) {
        const uint32_t count = 1 + aw_rng_below(&rng, AW__MIXTURE_PARTS);
        struct part part[AW__MIXTURE_PARTS];
        double mean, found[3], weights = 0;
        aw__mixture_begin(&workload->mixture);
        for (uint32_t i = 0; i < count; i++) {
            part[i].weight = exp(aw_rng_uniform(&rng, log(200), log(1e5)));
            part[i].p50 = exp(aw_rng_uniform(&rng, log(1e3), log(1e6)));
            part[i].p95 = part[i].p50 * aw_rng_uniform(&rng, 1.05, 4);
            part[i].p99 = part[i].p95 * aw_rng_uniform(&rng, 1.05, 3);
            weights += part[i].weight;
            const struct aw_steady steady = {.mean_us = part[i].p50,
                                             .p50_us = part[i].p50,
                                             .p95_us = part[i].p95,
                                             .p99_us = part[i].p99};
            aw__mixture_add(&workload->mixture, part[i].weight, &steady, 0, 0, TIMEOUT_US);
        }
        const double failures = round % 2 ? aw_rng_uniform(&rng, 0, 0.02) * weights : 0;
        workload->mixture.failures = failures;
        aw__mixture_latency(sim, 0, &mean, &found[0], &found[1], &found[2]);
        const double want[3] = {0.5, 0.05, 0.01};
        for (int q = 0; q < 3; q++) {
            if (failures / (weights + failures) >= want[q]) {
                timeouts++;
                assert_close(found[q], TIMEOUT_US, 1e-12);
                continue;
            }
            /* a percent of the latency, or of the share that is answered beyond it */
            const double lost = failures / (weights + failures);
            const double low = beyond(part, count, failures, found[q] * 1.011) - lost;
            const double high = beyond(part, count, failures, found[q] / 1.011) - lost;
            assert_true(low <= 1.02 * (want[q] - lost) && high >= 0.98 * (want[q] - lost));
        }
    }
    assert_true(timeouts > 0);
    aw_sim_free(sim);
}

static void parts_beyond_the_room_are_added_to_the_last(void **state)
{
    (void)state;
    float rate = 1;
    struct aw_load load;
    struct aw_sim *sim = sim_new(&load, &rate);
    struct aw__mixture *mixture = &sim->workload[0].mixture;
    const struct aw_steady steady = {.mean_us = 10, .p50_us = 10, .p95_us = 20, .p99_us = 30};
    double mean, p50, p95, p99;
    aw__mixture_begin(mixture);
    for (uint32_t i = 0; i < 3 * AW__MIXTURE_PARTS; i++)
        aw__mixture_add(mixture, 100, &steady, 0, 0, TIMEOUT_US);
    assert_int_equal(mixture->count, AW__MIXTURE_PARTS);
    assert_close(mixture->weight_sum, 100 * 3 * AW__MIXTURE_PARTS, 0);
    assert_close((double)mixture->weight[AW__MIXTURE_PARTS - 1], 100 * (2 * AW__MIXTURE_PARTS + 1),
                 1e-6);
    aw__mixture_latency(sim, 0, &mean, &p50, &p95, &p99);
    assert_close(mean, 10, 1e-9);
    assert_close(p50, 10, 1e-5);
    assert_close(p95, 20, 1e-5);
    assert_close(p99, 30, 1e-5);
    aw_sim_free(sim);
}

static void without_a_request_there_is_no_latency(void **state)
{
    (void)state;
    float rate = 1;
    struct aw_load load;
    struct aw_sim *sim = sim_new(&load, &rate);
    double mean, p50, p95, p99;
    aw__mixture_begin(&sim->workload[0].mixture);
    aw__mixture_latency(sim, 0, &mean, &p50, &p95, &p99);
    assert_true(isnan(mean) && isnan(p50) && isnan(p95) && isnan(p99));
    /* only failures: all of them are the time-out */
    sim->workload[0].mixture.failures = 3;
    aw__mixture_latency(sim, 0, &mean, &p50, &p95, &p99);
    assert_true(mean == TIMEOUT_US && p50 == TIMEOUT_US && p99 == TIMEOUT_US);
    aw_sim_free(sim);
}

AW_TEST_GROUP("sim-mixture")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_cut_off_what_they_say),
        cmocka_unit_test(parts_beyond_the_room_are_added_to_the_last),
        cmocka_unit_test(without_a_request_there_is_no_latency),
    };
    return cmocka_run_group_tests_name("sim-mixture", tests, NULL, NULL);
}
