/* copy_fit_test.c - copies of generated applications against the applications themselves. */
#include "rehearsal/copy_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cluster/surrogate.h"
#include "rehearsal/copy_fit_testing.h"

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, uint32_t count)
{
    qsort(x, count, sizeof *x, by_size);
    return x[count / 2];
}

/* |copy / truth - 1| of the SLO's latency at every size and load that was seen often enough;
 * returns how many. */
static uint32_t errors_of(const struct life *life, const struct aw_copy_fit *fit, double *ret)
{
    struct aw_demand copy;
    aw_app_demand(&fit->app, 1, 0, &copy);
    uint32_t count = 0;
    for (uint32_t i = 0; i < life->record.bin_count; i++) {
        const struct aw_copy_bin *bin = &life->record.bin[i];
        const double most = AW_SURROGATE_LOAD_MAX * aw_replica_capacity(&life->demand, bin->cores);
        if (bin->weight < 5 || bin->rate_per_s > most)
            continue;
        struct aw_replica replica = {
            .demand = life->demand, .cores = bin->cores, .rate_per_s = bin->rate_per_s};
        struct aw_steady truth, said;
        aw_surrogate_eval(&replica, &truth);
        replica.demand = copy;
        aw_surrogate_eval(&replica, &said);
        const double is[] = {truth.p50_us, truth.p95_us, truth.p99_us};
        const double as[] = {said.p50_us, said.p95_us, said.p99_us};
        const uint32_t at = aw_latency_index(fit->quantile);
        ret[count++] = fabs(as[at] * exp(fit->bias) / is[at] - 1);
    }
    return count;
}

static void a_copy_answers_as_the_workload_does_where_it_was_seen(void **state)
{
    (void)state;
    static const uint32_t app[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32_t count = sizeof app / sizeof *app;
    static double all[8 * AW_COPY_BINS_MAX];
    uint32_t n = 0, good = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct life life;
        struct aw_copy_fit fit;
        live(app[i], 1, &life);
        assert_ok(aw_copy_fit(&life.record, 0.99, 0, &fit));
        double errors[AW_COPY_BINS_MAX];
        const uint32_t bins = errors_of(&life, &fit, errors);
        assert_true(bins >= 3);
        memcpy(all + n, errors, bins * sizeof *errors);
        n += bins;
        const double typical = median(errors, bins);
        const struct aw_segment *copy = &fit.app.segment[0];
        if (!(fabs(copy->cpu_ms / life.demand.cpu_ms - 1) <= 0.05))
            fail_msg("app %u: %.2f ms of CPU instead of %.2f", app[i], copy->cpu_ms,
                     life.demand.cpu_ms);
        if (!(typical <= 0.4))
            fail_msg("app %u: p99 is off by %.0f %% where it was seen", app[i], 100 * typical);
        good += typical <= 0.1;
        assert_true(isfinite(fit.error) && fit.error >= 0 && fit.error < 0.5);
        assert_true(fit.capacity_per_core > 0);
        assert_true(copy->memory_base_mib > 0.7 * life.demand.memory_base_mib &&
                    copy->memory_base_mib < 1.5 * life.demand.memory_base_mib);
        assert_true(copy->cold_start_ms > 100 && copy->cold_start_ms < 60000);
    }
    const double typical = median(all, n);
    if (!(typical <= 0.1 && good >= count - 2))
        fail_msg("median error %.1f %%, %u of %u good", 100 * typical, good, count);
}

static void a_copy_is_fitted_to_the_quantile_that_the_slo_speaks_of(void **state)
{
    (void)state;
    static const double quantile[] = {0.5, 0.95, 0.99};
    for (uint32_t q = 0; q < 3; q++) {
        double all[4 * AW_COPY_BINS_MAX];
        uint32_t n = 0;
        for (uint32_t app = 0; app < 4; app++) {
            struct life life;
            struct aw_copy_fit fit;
            live_at(app, 1, quantile[q], &life);
            assert_ok(aw_copy_fit(&life.record, quantile[q], 0, &fit));
            n += errors_of(&life, &fit, all + n);
        }
        const double typical = median(all, n);
        if (!(typical <= 0.1))
            fail_msg("p%.0f: the copies are off by %.0f %%", 100 * quantile[q], 100 * typical);
    }
}

/* --- made-up steps, for what a real life shows too rarely ---------------------------------------
 */

static struct aw_sample step_at(uint32_t t, double rate, double p99_us)
{
    const int64_t at = t * STEP_US;
    return (struct aw_sample){
        .at_us = at,
        .replicas_wanted = 2,
        .replicas_ready = 2,
        .cpu_millicores_wanted = 1000,
        .memory_bytes_wanted = 512 * AW_MIB,
        .cpu_cores_used = {0.02 * rate, at},
        .memory_bytes_used = {2e8 + 1e6 * rate, at},
        .memory_bytes_peak = {3e8, at},
        .throttled_share = {0.01, at},
        .arrivals_per_s = {rate, at},
        .completions_per_s = {rate, at},
        .errors_per_s = {0, at},
        .in_flight = {0.05 * rate, at},
        .latency_us_p50 = {0.4 * p99_us, at},
        .latency_us_p95 = {0.8 * p99_us, at},
        .latency_us_p99 = {p99_us, at},
        .latency_us_mean = {0.45 * p99_us, at},
    };
}

static bool add(struct aw_copy_record *record, const struct aw_sample *sample)
{
    struct aw_reading reading;
    aw_reading_take(sample, STALE_US, 0.99, &reading);
    return aw_copy_add(record, sample, &reading);
}

/* A quarter of an hour of calm steps from step `from` on. */
static uint32_t add_calm(struct aw_copy_record *record, uint32_t from)
{
    for (uint32_t t = 0; t < 60; t++) {
        const struct aw_sample sample = step_at(from + t, 20 + 10 * (t % 3), 1e5);
        add(record, &sample);
    }
    return from + 60;
}

static void nothing_seen_gives_no_copy(void **state)
{
    (void)state;
    struct aw_copy_record record;
    struct aw_copy_fit fit, before;
    memset(&fit, 0x5a, sizeof fit);
    before = fit;
    aw_copy_begin(&record);
    assert_int_equal(aw_copy_fit(&record, 0.99, 0, &fit), AW_ERR_NODATA);
    for (uint32_t t = 1; t < 100; t++) { /* no request ever */
        const struct aw_sample idle = step_at(t, 0, 0);
        add(&record, &idle);
    }
    assert_int_equal(aw_copy_fit(&record, 0.99, 0, &fit), AW_ERR_NODATA);
    assert_memory_equal(&fit, &before, sizeof fit);
    assert_int_equal(record.bin_count, 0);
    const struct aw_sample one = step_at(100, 30, 1e5);
    add(&record, &one);
    assert_ok(aw_copy_fit(&record, 0.99, 0, &fit)); /* a single step is little, but something */
    aw_copy_doubt(&record, 0.1);
    assert_int_equal(aw_copy_fit(&record, 0.99, 0, &before), AW_ERR_NODATA);
}

static void steps_that_tell_nothing_of_latency_change_no_bin(void **state)
{
    (void)state;
    enum { GAP, ROLLOUT, STARTING, LOST, BEHIND, NO_P99, NO_MEAN, NO_SIZE, NO_REPLICAS, KINDS };
    static const char *const why[KINDS] = {
        [GAP] = "metrics are missing",
        [ROLLOUT] = "a rollout",
        [STARTING] = "replicas start",
        [LOST] = "requests fail",
        [BEHIND] = "it falls behind",
        [NO_P99] = "no p99",
        [NO_MEAN] = "no mean",
        [NO_SIZE] = "replicas without a limit",
        [NO_REPLICAS] = "no replica is ready",
    };
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct aw_copy_record record;
        aw_copy_begin(&record);
        uint32_t t = add_calm(&record, 1);
        const struct aw_copy_record before = record;
        for (uint32_t k = 0; k < 40; k++, t++) {
            struct aw_sample s = step_at(t, 30, 2e7); /* a latency that would be remembered */
            switch (kind) {
            case GAP:
                s.arrivals_per_s.at_us = AW_NEVER;
                break;
            case ROLLOUT:
                s.rollout = true;
                break;
            case STARTING:
                s.replicas_ready = 1;
                break;
            case LOST:
                s.completions_per_s.value = 0;
                s.errors_per_s.value = 30;
                break;
            case BEHIND:
                s.completions_per_s.value = 20;
                break;
            case NO_P99:
                s.latency_us_p99.at_us = AW_NEVER;
                break;
            case NO_MEAN:
                s.latency_us_mean = (struct aw_figure){NAN, s.at_us};
                break;
            case NO_SIZE:
                s.cpu_millicores_wanted = 0;
                break;
            default:
                s.replicas_ready = s.replicas_wanted = 0;
                break;
            }
            add(&record, &s);
        }
        if (record.bin_count != before.bin_count)
            fail_msg("%s: %u bins became %u", why[kind], before.bin_count, record.bin_count);
        for (uint32_t i = 0; i < record.bin_count; i++)
            if (memcmp(&record.bin[i].log_slo, &before.bin[i].log_slo, sizeof(float)) != 0)
                fail_msg("%s: bin %u learned a latency", why[kind], i);
    }
}

static void lost_requests_do_not_make_the_others_dearer(void **state)
{
    (void)state;
    struct aw_copy_record record;
    struct aw_copy_fit fit;
    aw_copy_begin(&record);
    uint32_t t = add_calm(&record, 1);
    for (uint32_t k = 0; k < 200; k++, t++) { /* all CPU goes into what nobody waits for */
        struct aw_sample s = step_at(t, 90, 3e7);
        s.cpu_cores_used.value = 2;
        s.completions_per_s.value = 0;
        s.errors_per_s.value = 90;
        s.in_flight.value = 2000;
        add(&record, &s);
    }
    assert_ok(aw_copy_fit(&record, 0.99, 0, &fit));
    assert_close(fit.app.segment[0].cpu_ms, 20, 0.02);
    assert_close(fit.app.segment[0].memory_flight_mib, 2e7 * 2 / 1048576, 0.05);
}

static void a_backlog_that_is_worked_off_is_waited_out(void **state)
{
    (void)state;
    struct aw_copy_record record;
    aw_copy_begin(&record);
    uint32_t t = add_calm(&record, 1);
    const uint32_t bins = record.bin_count;
    for (uint32_t k = 0; k < 10; k++, t++) { /* answers what arrives, and old requests with it */
        struct aw_sample s = step_at(t, 50, 2e7);
        s.completions_per_s.value = k < 4 ? 30 : 60;
        s.in_flight.value = k < 4 ? 300 * (k + 1) : 1200 - 150 * (k - 3);
        add(&record, &s);
    }
    struct aw_sample late = step_at(t++, 50, 2e7);
    add(&record, &late); /* the queue is gone, its last requests are in this step's latency */
    assert_int_equal(record.bin_count, bins);
    for (uint32_t k = 0; k < 8; k++, t++) {
        struct aw_sample s = step_at(t, 50, 1.2e5);
        add(&record, &s);
    }
    assert_int_equal(record.bin_count, bins + 1); /* and then it learns again */
    assert_close(exp((double)record.bin[bins].log_slo), 1.2e5, 1e-6);
}

static void a_few_that_are_left_over_are_no_backlog(void **state)
{
    (void)state;
    struct aw_copy_record record;
    aw_copy_begin(&record);
    uint32_t t = add_calm(&record, 1);
    const uint32_t bins = record.bin_count;
    struct aw_sample s = step_at(t++, 50, 1.2e5); /* 4 of them, whatever rate and time make of it */
    s.completions_per_s.value = 46;
    s.in_flight.value = 4;
    add(&record, &s);
    assert_int_equal(record.bin_count, bins); /* the step itself says nothing */
    s = step_at(t, 50, 1.2e5);
    s.completions_per_s.value = 54;
    add(&record, &s);
    assert_int_equal(record.bin_count, bins + 1); /* and the next need not wait */
}

static void starts_are_timed_and_flapping_is_no_start(void **state)
{
    (void)state;
    struct aw_copy_record record;
    struct aw_copy_fit fit;
    aw_copy_begin(&record);
    uint32_t t = add_calm(&record, 1);
    struct aw_sample s = step_at(t, 30, 1e5);
    const struct aw_pod pods[] = {
        {.ready = true, .started_us = s.at_us - 9000000, .ready_change_us = s.at_us - 1000000},
        {.ready = true, .started_us = s.at_us - 90000000000, .ready_change_us = s.at_us - 5},
        {.ready = true, .started_us = s.at_us - 99000000, .ready_change_us = s.at_us - 90000000},
        {.ready = false, .started_us = s.at_us - 9000000, .ready_change_us = s.at_us - 2000000},
        {.ready = true, .started_us = AW_NEVER, .ready_change_us = s.at_us - 3},
    };
    s.pods = pods;
    s.pod_count = sizeof pods / sizeof *pods;
    add(&record, &s);
    add(&record, &s); /* seen before */
    assert_close(record.start_count, 1, 0);
    assert_ok(aw_copy_fit(&record, 0.99, 0, &fit));
    assert_close(fit.app.segment[0].cold_start_ms, 8000 - 2500, 1e-9);
}

static void bins_are_bounded_and_the_most_faded_gives_way(void **state)
{
    (void)state;
    struct aw_copy_record record;
    aw_copy_begin(&record);
    uint32_t t = 1;
    for (uint32_t size = 0; size < 30; size++)
        for (uint32_t k = 0; k < 30; k++, t++) {
            struct aw_sample s = step_at(t, 2 * pow(1.3, k), 1e5);
            s.cpu_millicores_wanted = (int64_t)(100 * pow(1.15, size));
            add(&record, &s);
        }
    assert_int_equal(record.bin_count, AW_COPY_BINS_MAX);
    /* what was seen last is there */
    const double cores = record.last_cores, rate = pow(1.3, 29);
    bool there = false;
    for (uint32_t i = 0; i < record.bin_count; i++) {
        assert_true(isfinite(record.bin[i].log_slo) && record.bin[i].weight > 0);
        there |= fabs(record.bin[i].cores / cores - 1) < 0.06 &&
                 fabs(record.bin[i].rate_per_s / rate - 1) < 0.25;
    }
    assert_true(there);
    struct aw_copy_fit fit;
    assert_ok(aw_copy_fit(&record, 0.99, 0, &fit));
}

static void after_a_doubt_the_new_outweighs_the_old(void **state)
{
    (void)state;
    double cpu_ms[2];
    for (uint32_t doubted = 0; doubted < 2; doubted++) {
        struct aw_copy_record record;
        struct aw_copy_fit fit;
        aw_copy_begin(&record);
        uint32_t t = 1;
        for (uint32_t k = 0; k < 5; k++)
            t = add_calm(&record, t);
        if (doubted)
            aw_copy_doubt(&record, 0.1);
        for (uint32_t k = 0; k < 60; k++, t++) { /* too little to be noticed by itself */
            struct aw_sample s = step_at(t, 30, 1e5);
            s.cpu_cores_used.value *= 1.09;
            assert_false(add(&record, &s));
        }
        assert_ok(aw_copy_fit(&record, 0.99, 0, &fit));
        cpu_ms[doubted] = fit.app.segment[0].cpu_ms;
    }
    assert_true(cpu_ms[0] < 20.5);
    assert_true(cpu_ms[1] > 21 && cpu_ms[1] < 21.8);
}

static void
requests_that_cost_something_else_are_noticed_and_what_was_known_is_forgotten(void **state)
{
    (void)state;
    static const struct {
        double cpu, latency; /* times what they were */
        uint32_t within;     /* steps; 0: never */
        const char *why;
    } table[] = {
        {2, 1, 5, "CPU doubled"},
        {0.5, 1, 5, "CPU halved"},
        {1.25, 1, 20, "a quarter more CPU"},
        {1, 2, 8, "twice the waiting"},
        {1, 0.5, 8, "half of it"},
        {1, 1.5, 30, "half as much again"},
        {1.05, 1, 0, "too little to matter"},
        {1, 1.08, 0, "too little to matter"},
        {1, 1, 0, "nothing changed"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct aw_copy_record record;
        aw_copy_begin(&record);
        uint32_t t = add_calm(&record, add_calm(&record, 1)), noticed = 0;
        for (uint32_t k = 1; k <= 200 && !noticed; k++, t++) {
            struct aw_sample s = step_at(t, 20 + 10 * (k % 3), table[i].latency * 1e5);
            s.cpu_cores_used.value *= table[i].cpu;
            noticed = add(&record, &s) ? k : 0;
        }
        if (noticed > table[i].within || (table[i].within && !noticed))
            fail_msg("%s: noticed after %u steps", table[i].why, noticed);
        if (!noticed)
            continue;
        struct aw_copy_fit fit;
        assert_int_equal(aw_copy_fit(&record, 0.99, 0, &fit), AW_ERR_NODATA);
        struct aw_sample s = step_at(t, 30, table[i].latency * 1e5);
        s.cpu_cores_used.value *= table[i].cpu;
        assert_false(add(&record, &s));
        assert_ok(aw_copy_fit(&record, 0.99, 0, &fit)); /* of the new alone */
        assert_close(fit.app.segment[0].cpu_ms, 20 * table[i].cpu, 1e-9);
    }
}

static void same_record_and_seed_same_copy_and_others_differ(void **state)
{
    (void)state;
    _Static_assert(sizeof(struct aw_copy_bin) == 9 * sizeof(float), "aw_copy_bin has padding");
    _Static_assert(sizeof(struct aw_copy_record) == AW_COPY_BINS_MAX * sizeof(struct aw_copy_bin) +
                                                        17 * sizeof(double) + sizeof(int64_t) +
                                                        2 * sizeof(uint32_t),
                   "aw_copy_record has padding");
    struct life life, again;
    memset(&life, 0x11, sizeof life);
    memset(&again, 0x22, sizeof again);
    live(4, 3, &life);
    live(4, 3, &again);
    assert_memory_equal(&life.record, &again.record, sizeof life.record);
    struct aw_copy_fit a, b, other;
    uint32_t differ = 0;
    for (uint64_t seed = 0; seed < 5; seed++) {
        assert_ok(aw_copy_fit(&life.record, 0.99, seed, &a));
        assert_ok(aw_copy_fit(&again.record, 0.99, seed, &b));
        assert_memory_equal(&a, &b, sizeof a);
        assert_ok(aw_copy_fit(&life.record, 0.99, seed + 100, &other));
        differ += memcmp(&a.app.segment[0], &other.app.segment[0], sizeof a.app.segment[0]) != 0;
        /* they agree where the record speaks */
        double errors[AW_COPY_BINS_MAX];
        assert_true(median(errors, errors_of(&life, &other, errors)) < 0.25);
    }
    assert_int_equal(differ, 5);
}

AW_TEST_GROUP("copy-fit")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_answers_as_the_workload_does_where_it_was_seen),
        cmocka_unit_test(a_copy_is_fitted_to_the_quantile_that_the_slo_speaks_of),
        cmocka_unit_test(nothing_seen_gives_no_copy),
        cmocka_unit_test(steps_that_tell_nothing_of_latency_change_no_bin),
        cmocka_unit_test(lost_requests_do_not_make_the_others_dearer),
        cmocka_unit_test(a_backlog_that_is_worked_off_is_waited_out),
        cmocka_unit_test(a_few_that_are_left_over_are_no_backlog),
        cmocka_unit_test(starts_are_timed_and_flapping_is_no_start),
        cmocka_unit_test(bins_are_bounded_and_the_most_faded_gives_way),
        cmocka_unit_test(after_a_doubt_the_new_outweighs_the_old),
        cmocka_unit_test(
            requests_that_cost_something_else_are_noticed_and_what_was_known_is_forgotten),
        cmocka_unit_test(same_record_and_seed_same_copy_and_others_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
