/* capacity_rule_test.c - what nine numbers stand for, and what must hold whatever they are. */
#include "policy/capacity_rule.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "base/units.h"

static const struct aw_capacity_rule_task task = {
    .bounds = {.min = {1, 100, 64 * AW_MIB}, .max = {20, 4000, 8192 * AW_MIB}},
    .budget = 0.05,
};

/* A calm step: one core's use for ten requests a second, four replicas of a core and 512 MiB. */
static struct aw_reading calm(void)
{
    return (struct aw_reading){
        .cpu_millicores_wanted = 1000,
        .memory_bytes_wanted = 512 * AW_MIB,
        .replicas_wanted = 4,
        .replicas_ready = 4,
        .allocated = {0, 4000, 2048.0 * 1048576},
        .cpu_cores_used = 1,
        .memory_bytes_used = 300.0 * 1048576,
        .memory_bytes_peak = 460.0 * 1048576,
        .throttled_share = 0,
        .arrivals_per_s = 10,
        .completions_per_s = 10,
        .errors_per_s = 0,
        .in_flight = 1,
        .latency_us_slo = 1e5,
        .cpu_utilisation = 0.25,
        .memory_utilisation = 0.6,
    };
}

static struct aw_capacity_rule_values plain_values(void)
{
    struct aw_capacity_rule plain;
    struct aw_capacity_rule_values values;
    aw_capacity_rule_plain(&plain);
    aw_capacity_rule_decode(&plain, &values);
    return values;
}

/* As the plain one, but the load of now alone counts and nothing is trimmed. */
static struct aw_capacity_rule_values direct_values(void)
{
    struct aw_capacity_rule_values values = plain_values();
    values.v[AW_CAPACITY_RULE_CPU] = 1;
    values.v[AW_CAPACITY_RULE_MARGIN] = 1.8;
    values.v[AW_CAPACITY_RULE_WINDOW] = 1;
    values.v[AW_CAPACITY_RULE_PEAK] = 1;
    values.v[AW_CAPACITY_RULE_SMOOTH] = 1;
    values.v[AW_CAPACITY_RULE_TRIM] = 0;
    values.v[AW_CAPACITY_RULE_FLOOR] = 0;
    values.v[AW_CAPACITY_RULE_SLEEP] = 0;
    return values;
}

static struct aw_plan decide(const struct aw_capacity_rule_values *values,
                             struct aw_capacity_rule_memory *memory,
                             const struct aw_reading *reading)
{
    struct aw_plan plan;
    aw_capacity_rule_decide(values, &task, memory, reading, false, true, &plan);
    return plan;
}

static void every_number_has_its_scale(void **state)
{
    (void)state;
    static const struct {
        enum aw_capacity_rule_number number;
        double x, value;
        const char *why;
    } row[] = {
        {AW_CAPACITY_RULE_CPU, 0, 0.1, "low end"},
        {AW_CAPACITY_RULE_CPU, 1, 4, "high end"},
        {AW_CAPACITY_RULE_CPU, 0.5, 0.632455532, "the geometric middle"},
        {AW_CAPACITY_RULE_CPU, -3, 0.1, "beyond the low end"},
        {AW_CAPACITY_RULE_CPU, 7, 4, "beyond the high end"},
        {AW_CAPACITY_RULE_CPU, NAN, 0.1, "not a number"},
        {AW_CAPACITY_RULE_MARGIN, 0, 0.8, "low end"},
        {AW_CAPACITY_RULE_MARGIN, 1, 16, "high end"},
        {AW_CAPACITY_RULE_WINDOW, 0, 1, "the present alone"},
        {AW_CAPACITY_RULE_WINDOW, 1, 240, "an hour"},
        {AW_CAPACITY_RULE_PEAK, 0, 0, "ends are reached before x is at its own"},
        {AW_CAPACITY_RULE_PEAK, 0.1, 0, "likewise"},
        {AW_CAPACITY_RULE_PEAK, 0.5, 0.5, "the middle"},
        {AW_CAPACITY_RULE_PEAK, 0.9, 1, "likewise"},
        {AW_CAPACITY_RULE_PEAK, 1, 1, "the peak alone"},
        {AW_CAPACITY_RULE_SMOOTH, 0, 0.03, "slow"},
        {AW_CAPACITY_RULE_SMOOTH, 1, 1, "not smoothed"},
        {AW_CAPACITY_RULE_TRIM, 0, 0.01, "slow, but never off"},
        {AW_CAPACITY_RULE_TRIM, 1, 0.3, "high end"},
        {AW_CAPACITY_RULE_FLOOR, 0, 0, "off"},
        {AW_CAPACITY_RULE_FLOOR, 0.0999, 0, "still off"},
        {AW_CAPACITY_RULE_FLOOR, 0.1, 0.02, "just on"},
        {AW_CAPACITY_RULE_FLOOR, 1, 1, "always for the highest load"},
        {AW_CAPACITY_RULE_SLEEP, 0, 1, "sleeps at once"},
        {AW_CAPACITY_RULE_SLEEP, 0.7999, 199, "whole steps"},
        {AW_CAPACITY_RULE_SLEEP, 0.8, 0, "never"},
        {AW_CAPACITY_RULE_SLEEP, 1, 0, "never"},
        {AW_CAPACITY_RULE_ASLEEP, 0, 0.03, "a sliver"},
        {AW_CAPACITY_RULE_ASLEEP, 1, 1, "as large as awake"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct aw_capacity_rule rule = {0};
        rule.x[row[i].number] = row[i].x;
        const double value = aw_capacity_rule_value(&rule, row[i].number);
        if (!(fabs(value - row[i].value) <= 1e-6 * fabs(row[i].value)))
            fail_msg("%s at %g, %s: %g instead of %g", aw_capacity_rule_name(row[i].number),
                     row[i].x, row[i].why, value, row[i].value);
    }
}

static void a_larger_x_never_means_less_where_it_is_on(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < AW_CAPACITY_RULE_DIM; n++) {
        struct aw_capacity_rule rule = {0};
        double last = 0;
        for (uint32_t k = 0; k <= 1000; k++) {
            rule.x[n] = k / 1000.0;
            const double value = aw_capacity_rule_value(&rule, (enum aw_capacity_rule_number)n);
            if (n == AW_CAPACITY_RULE_SLEEP && rule.x[n] >= 0.8)
                assert_true(value <= 0);
            else
                assert_true(value >= last);
            last = value;
        }
        assert_true(strlen(aw_capacity_rule_name((enum aw_capacity_rule_number)n)) > 0);
        assert_true(strlen(aw_capacity_rule_meaning((enum aw_capacity_rule_number)n)) > 0);
    }
}

static void the_plain_capacity_rule_is_a_core_and_twice_the_need(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = plain_values();
    assert_close(values.v[AW_CAPACITY_RULE_CPU], 1, 0.01);
    assert_close(values.v[AW_CAPACITY_RULE_MARGIN], 2, 0.01);
    assert_true(values.v[AW_CAPACITY_RULE_FLOOR] <= 0);
    assert_true(values.v[AW_CAPACITY_RULE_SLEEP] <= 0);
    assert_true(values.v[AW_CAPACITY_RULE_TRIM] > 0);
}

static void other_numbers_have_another_id(void **state)
{
    (void)state;
    struct aw_capacity_rule a, b;
    aw_capacity_rule_plain(&a);
    aw_capacity_rule_plain(&b);
    assert_true(aw_capacity_rule_id(&a) == aw_capacity_rule_id(&b));
    assert_true(aw_capacity_rule_id(&a) != 0);
    for (uint32_t n = 0; n < AW_CAPACITY_RULE_DIM; n++) {
        b = a;
        b.x[n] = nextafter(b.x[n], 2);
        assert_true(aw_capacity_rule_id(&a) != aw_capacity_rule_id(&b));
    }
}

static void replicas_are_the_need_times_the_margin(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = direct_values();
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    for (uint32_t i = 0; i < 5; i++) {
        const struct aw_plan plan = decide(&values, &memory, &reading);
        assert_int_equal(plan.set, AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY);
        assert_int_equal(plan.replicas, 2); /* 0.1 core s x 10 /s x 1.8, over a core */
        assert_int_equal(plan.cpu_millicores, 1000);
        assert_int_equal(plan.memory_bytes, 512 * AW_MIB);
    }
    reading.arrivals_per_s = 52; /* not yet answered: CPU per request is as it was */
    assert_int_equal(decide(&values, &memory, &reading).replicas, 10);
}

static void a_recent_peak_counts_for_its_window_and_no_longer(void **state)
{
    (void)state;
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_WINDOW] = 7;
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    for (uint32_t i = 0; i < 300; i++) { /* beyond the ring's size */
        const bool spike = i == 270;
        reading.arrivals_per_s = spike ? 40 : 10;
        const uint32_t replicas = decide(&values, &memory, &reading).replicas;
        assert_int_equal(replicas, i >= 270 && i < 277 ? 8 : 2);
    }
}

/* A ring lies in two pieces: every window, with its peak at every place of it and of the ring. */
static void a_peak_is_found_wherever_its_window_lies_in_the_ring(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 2, 7, 100, 239, 240};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (uint32_t at = 0; at < 2 * AW_CAPACITY_RULE_HISTORY; at += 3) {
            struct aw_capacity_rule_values values = direct_values();
            struct aw_capacity_rule_memory memory;
            struct aw_reading reading = calm();
            values.v[AW_CAPACITY_RULE_WINDOW] = windows[w];
            aw_capacity_rule_begin(&memory);
            for (uint32_t i = 0; i < at + windows[w] + 3; i++) {
                reading.arrivals_per_s = i == at ? 40 : 10;
                struct aw_plan plan; /* no trims: it does not act */
                aw_capacity_rule_decide(&values, &task, &memory, &reading, false, false, &plan);
                const uint32_t replicas = (uint32_t)plan.replicas;
                if (replicas != (i >= at && i < at + windows[w] ? 8 : 2))
                    fail_msg("window %u, peak at %u: %u replicas at %u", windows[w], at, replicas,
                             i);
            }
        }
}

static void a_floor_serves_a_share_of_the_highest_load(void **state)
{
    (void)state;
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_FLOOR] = 0.5;
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    reading.arrivals_per_s = 60;
    decide(&values, &memory, &reading);
    reading.arrivals_per_s = 10;
    assert_int_equal(decide(&values, &memory, &reading).replicas, 6); /* 0.5 x 60, fading */
    values.v[AW_CAPACITY_RULE_FLOOR] = 0;
    assert_int_equal(decide(&values, &memory, &reading).replicas, 2);
}

static void missing_figures_shrink_and_restart_nothing(void **state)
{
    (void)state;
    static const struct {
        bool arrivals, cpu, completions, memory;
        const char *why;
    } row[] = {
        {1, 0, 0, 0, "no load"},
        {0, 1, 0, 0, "no CPU"},
        {0, 0, 0, 1, "no memory"},
        {1, 1, 1, 1, "an outage of everything"},
        {1, 0, 0, 1, "no load and no memory"},
        {0, 1, 1, 1, "load alone is known"},
    };
    /* large, and idle by now: every figure that is there speaks for shrinking all three */
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct aw_capacity_rule_values values = direct_values();
        values.v[AW_CAPACITY_RULE_SLEEP] = 3;
        values.v[AW_CAPACITY_RULE_ASLEEP] = 0.1;
        struct aw_capacity_rule_memory memory;
        aw_capacity_rule_begin(&memory);
        struct aw_reading reading = calm();
        reading.replicas_wanted = reading.replicas_ready = 15;
        reading.cpu_millicores_wanted = 3000;
        reading.memory_bytes_wanted = 2000000000; /* not a whole number of MiB */
        reading.memory_bytes_peak = 900.0 * 1048576;
        for (uint32_t t = 0; t < 60; t++)
            decide(&values, &memory, &reading);
        const struct aw_plan seen = decide(&values, &memory, &reading);
        assert_true(seen.replicas < 15 && seen.cpu_millicores < 3000 &&
                    seen.memory_bytes < 2000000000);
        reading.memory_bytes_peak = 100.0 * 1048576;
        for (uint32_t t = 0; t < 200; t++) {
            struct aw_reading gap = reading;
            gap.arrivals_per_s = row[i].arrivals ? (double)NAN : 0;
            gap.cpu_cores_used = row[i].cpu ? (double)NAN : 0;
            gap.completions_per_s = row[i].completions ? (double)NAN : 0;
            gap.memory_bytes_peak = row[i].memory ? (double)NAN : reading.memory_bytes_peak;
            const struct aw_plan plan = decide(&values, &memory, &gap);
            const bool blind = row[i].arrivals || row[i].cpu;
            if (blind && (plan.replicas < 15 || plan.cpu_millicores != 3000 ||
                          plan.memory_bytes < 2000000000))
                fail_msg("%s, step %u: %u x %lldm", row[i].why, t, (unsigned)plan.replicas,
                         (long long)plan.cpu_millicores);
            if (row[i].memory && plan.memory_bytes != 2000000000)
                fail_msg("%s, step %u: %lld bytes", row[i].why, t, (long long)plan.memory_bytes);
        }
    }
}

static void a_new_workload_that_nobody_sees_stays_as_it_is(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = plain_values();
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    reading.arrivals_per_s = reading.cpu_cores_used = reading.completions_per_s = NAN;
    reading.memory_bytes_peak = NAN;
    reading.memory_bytes_wanted = 1000000000;
    for (uint32_t i = 0; i < 400; i++) {
        const struct aw_plan plan = decide(&values, &memory, &reading);
        assert_int_equal(plan.replicas, 4);
        assert_int_equal(plan.cpu_millicores, 1000);
        assert_int_equal(plan.memory_bytes, 1000000000);
    }
}

static void without_a_cpu_figure_more_load_still_adds_replicas(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = direct_values();
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    decide(&values, &memory, &reading);
    reading.cpu_cores_used = NAN;
    reading.arrivals_per_s = 80;
    assert_int_equal(decide(&values, &memory, &reading).replicas, 15);
}

/* Any capacity rule, so that what holds is not luck of one. */
static void draw_values(struct aw_rng *rng, struct aw_capacity_rule_values *values)
{
    struct aw_capacity_rule rule;
    for (uint32_t n = 0; n < AW_CAPACITY_RULE_DIM; n++)
        rule.x[n] = aw_rng_double(rng);
    aw_capacity_rule_decode(&rule, values);
}

static void more_load_never_means_fewer_cores(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    for (uint32_t k = 0; k < 300; k++) {
        struct aw_capacity_rule_values values;
        struct aw_capacity_rule_memory memory;
        draw_values(&rng, &values);
        aw_capacity_rule_begin(&memory);
        struct aw_reading reading = calm();
        const uint32_t past = aw_rng_below(&rng, 80);
        for (uint32_t t = 0; t < past; t++) {
            reading.arrivals_per_s = aw_rng_below(&rng, 3) ? 50 * aw_rng_double(&rng) : 0;
            reading.completions_per_s = reading.arrivals_per_s;
            reading.cpu_cores_used = 0.08 * reading.arrivals_per_s;
            struct aw_plan plan;
            aw_capacity_rule_decide(&values, &task, &memory, &reading, aw_rng_below(&rng, 10) == 0,
                                    true, &plan);
        }
        const bool violated = aw_rng_below(&rng, 2), acts = aw_rng_below(&rng, 2);
        int64_t last = 0;
        for (uint32_t load = 0; load < 100; load++) {
            struct aw_capacity_rule_memory copy = memory;
            struct aw_plan plan;
            /* a step without load moves no trim, one with load does: compare among the latter */
            reading.arrivals_per_s = acts ? load + 0.1 : load;
            aw_capacity_rule_decide(&values, &task, &copy, &reading, violated, acts, &plan);
            const int64_t cores = plan.replicas * plan.cpu_millicores;
            assert_true(cores >= last);
            last = cores;
        }
    }
}

/* Where the margin's trim is after `steps`, of which a share `p` misses the SLO. */
static double trim_after(double p, double trim, uint32_t steps, uint64_t seed)
{
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_TRIM] = trim;
    struct aw_capacity_rule_memory memory;
    struct aw_rng rng;
    aw_capacity_rule_begin(&memory);
    aw_rng_init(&rng, seed, 0);
    const struct aw_reading reading = calm();
    for (uint32_t t = 0; t < steps; t++) {
        struct aw_plan plan;
        aw_capacity_rule_decide(&values, &task, &memory, &reading, aw_rng_double(&rng) < p, true,
                                &plan);
    }
    return memory.margin_trim;
}

static void the_trim_balances_just_below_the_budget(void **state)
{
    (void)state;
    const double target = 0.9 * task.budget;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        assert_true(trim_after(1.3 * target, 0.003, 20000, seed) > 0.4);
        assert_true(trim_after(0.7 * target, 0.003, 20000, seed) < 0.05);
        assert_close(trim_after(1, 0.3, 100, seed), 1.5, 1e-12); /* and has ends */
        assert_close(trim_after(0, 0.3, 100, seed), 0, 0);       /* never below the numbers */
        assert_close(trim_after(1, 0, 100, seed), 0, 0);         /* off is off */
    }
    /* in a closed loop, where more margin means fewer misses, the share missed is the target */
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct aw_capacity_rule_values values = direct_values();
        values.v[AW_CAPACITY_RULE_TRIM] = 0.05;
        struct aw_capacity_rule_memory memory;
        struct aw_rng rng;
        aw_capacity_rule_begin(&memory);
        aw_rng_init(&rng, seed, 0);
        const struct aw_reading reading = calm();
        uint32_t missed = 0;
        const uint32_t steps = 40000;
        for (uint32_t t = 0; t < steps; t++) {
            const bool violated = aw_rng_double(&rng) < 0.1 * exp(-5 * memory.margin_trim);
            struct aw_plan plan;
            missed += violated;
            aw_capacity_rule_decide(&values, &task, &memory, &reading, violated, true, &plan);
        }
        assert_close((double)missed / steps, target, 0.002);
        assert_true((double)missed / steps < task.budget);
    }
}

static void what_another_brought_about_moves_no_trim(void **state)
{
    (void)state;
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_TRIM] = 0.3;
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    struct aw_plan plan;
    for (uint32_t t = 0; t < 50; t++)
        aw_capacity_rule_decide(&values, &task, &memory, &reading, true, false, &plan);
    assert_close(memory.margin_trim, 0, 0);
    assert_close(memory.size_trim, 0, 0);
    reading.arrivals_per_s = 0; /* nor does a step without requests */
    for (uint32_t t = 0; t < 50; t++)
        aw_capacity_rule_decide(&values, &task, &memory, &reading, true, true, &plan);
    assert_close(memory.margin_trim, 0, 0);
    aw_capacity_rule_decide(&values, &task, &memory, &(struct aw_reading){.arrivals_per_s = 5},
                            true, true, &plan);
    assert_true(memory.margin_trim > 0);
    aw_capacity_rule_changed(&memory);
    assert_close(memory.margin_trim, 0, 0);
}

static void missed_steps_make_replicas_larger_but_seldom(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = direct_values();
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    uint32_t changes = 0;
    for (uint32_t t = 0; t < 200; t++) {
        struct aw_plan plan;
        aw_capacity_rule_decide(&values, &task, &memory, &reading, true, true, &plan);
        assert_true(plan.cpu_millicores >= reading.cpu_millicores_wanted);
        changes += plan.cpu_millicores != reading.cpu_millicores_wanted;
        reading.cpu_millicores_wanted = plan.cpu_millicores;
    }
    assert_true(reading.cpu_millicores_wanted > 1150); /* e^0.3 at most */
    assert_true(reading.cpu_millicores_wanted <= 1350);
    assert_true(changes >= 2 && changes <= 5);

    /* what is missed while replicas start says nothing about their size */
    aw_capacity_rule_begin(&memory);
    reading = calm();
    reading.replicas_ready = 3;
    for (uint32_t t = 0; t < 200; t++) {
        struct aw_plan plan;
        aw_capacity_rule_decide(&values, &task, &memory, &reading, true, true, &plan);
        assert_int_equal(plan.cpu_millicores, 1000);
    }
}

/* One replica of a core where a fifth is wanted: met steps say nothing of the margin, and a miss is
 * answered by a larger replica, which is given back. */
static void where_one_replica_is_too_large_a_miss_makes_it_larger_for_a_while(void **state)
{
    (void)state;
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_TRIM] = 0.1;
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    struct aw_plan plan = {0};
    reading.arrivals_per_s = reading.completions_per_s = 1;
    reading.cpu_cores_used = 0.1;
    reading.replicas_wanted = reading.replicas_ready = 1;
    for (uint32_t t = 0; t < 50; t++) {
        aw_capacity_rule_decide(&values, &task, &memory, &reading, t % 10 == 0, true, &plan);
        reading.cpu_millicores_wanted = plan.cpu_millicores;
    }
    assert_int_equal(plan.replicas, 1);
    assert_true(plan.cpu_millicores > 1000);
    const double margin = memory.margin_trim;
    assert_true(margin > 0);
    for (uint32_t t = 0; t < 2000; t++) {
        aw_capacity_rule_decide(&values, &task, &memory, &reading, false, true, &plan);
        reading.cpu_millicores_wanted = plan.cpu_millicores;
    }
    assert_int_equal(plan.cpu_millicores, 1000); /* and no smaller than the numbers say */
    assert_close(memory.margin_trim, margin, 0); /* it is not too small when load comes */
}

/* A hair more than the replicas hold is not worth another one; a tenth is. */
static void a_little_more_needs_no_replica_more(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = direct_values();
    struct aw_capacity_rule_memory memory;
    struct aw_reading reading = calm();
    struct aw_plan full, plan;
    aw_capacity_rule_begin(&memory);
    aw_capacity_rule_decide(&values, &task, &memory, &reading, false, false, &full);
    const double load = reading.arrivals_per_s, cores = reading.cpu_cores_used;
    const double hold = (double)(full.replicas * full.cpu_millicores) * 1e-3;
    const double wanted = cores * values.v[AW_CAPACITY_RULE_MARGIN];
    for (uint32_t percent = 101; percent <= 110; percent++) {
        const double factor = percent / 100.0 * hold / wanted;
        aw_capacity_rule_begin(&memory);
        reading.replicas_wanted = reading.replicas_ready = (uint32_t)full.replicas;
        reading.arrivals_per_s = reading.completions_per_s = load * factor;
        reading.cpu_cores_used = cores * factor;
        aw_capacity_rule_decide(&values, &task, &memory, &reading, false, false, &plan);
        assert_int_equal(plan.replicas, full.replicas + (percent > 105));
        /* who has fewer gets them at once */
        aw_capacity_rule_begin(&memory);
        reading.replicas_wanted = 1;
        aw_capacity_rule_decide(&values, &task, &memory, &reading, false, false, &plan);
        assert_true(full.replicas == 1 || plan.replicas == full.replicas + 1);
    }
}

static void it_sleeps_after_its_idle_steps_and_wakes_at_the_first_request(void **state)
{
    (void)state;
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_SLEEP] = 5;
    values.v[AW_CAPACITY_RULE_ASLEEP] = 0.2;
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    decide(&values, &memory, &reading);
    reading.arrivals_per_s = reading.completions_per_s = reading.cpu_cores_used = 0;
    for (uint32_t t = 1; t <= 10; t++) {
        const struct aw_plan plan = decide(&values, &memory, &reading);
        assert_int_equal(plan.cpu_millicores, t < 5 ? 1000 : 200);
        assert_int_equal(plan.replicas, 1);
    }
    reading.arrivals_per_s = 30;
    const struct aw_plan woken = decide(&values, &memory, &reading);
    assert_int_equal(woken.cpu_millicores, 1000);
    assert_int_equal(woken.replicas, 6);

    values.v[AW_CAPACITY_RULE_SLEEP] = 0; /* never */
    reading.arrivals_per_s = 0;
    for (uint32_t t = 0; t < 300; t++)
        assert_int_equal(decide(&values, &memory, &reading).cpu_millicores, 1000);
}

static void steps_that_nobody_saw_were_not_idle(void **state)
{
    (void)state;
    struct aw_capacity_rule_values values = direct_values();
    values.v[AW_CAPACITY_RULE_SLEEP] = 5;
    values.v[AW_CAPACITY_RULE_ASLEEP] = 0.2;
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    decide(&values, &memory, &reading);
    reading.arrivals_per_s = reading.completions_per_s = reading.cpu_cores_used = 0;
    decide(&values, &memory, &reading);
    struct aw_reading gap = reading;
    gap.arrivals_per_s = NAN;
    for (uint32_t t = 0; t < 20; t++)
        decide(&values, &memory, &gap);
    assert_int_equal(decide(&values, &memory, &reading).cpu_millicores, 1000);
}

static void a_kill_for_want_of_memory_raises_it_and_holds_it(void **state)
{
    (void)state;
    const struct aw_capacity_rule_values values = direct_values();
    struct aw_capacity_rule_memory memory;
    aw_capacity_rule_begin(&memory);
    struct aw_reading reading = calm();
    decide(&values, &memory, &reading);
    reading.oom_kills = 1;
    struct aw_plan plan = decide(&values, &memory, &reading);
    assert_true(plan.memory_bytes >= (int64_t)(1.15 * 512 * 1048576));
    assert_true(plan.memory_bytes <= (int64_t)(1.15 * 512 * 1048576) + AW_MIB);
    reading.memory_bytes_wanted = plan.memory_bytes;
    plan = decide(&values, &memory, &reading); /* killed again at the new size */
    assert_true(plan.memory_bytes >= (int64_t)(1.15 * 1.15 * 512 * 1048576));
    reading.memory_bytes_wanted = plan.memory_bytes;
    reading.oom_kills = 0;
    for (uint32_t t = 0; t < 20; t++) {
        plan = decide(&values, &memory, &reading);
        assert_int_equal(plan.memory_bytes, reading.memory_bytes_wanted);
    }
    for (uint32_t t = 0; t < 500; t++) { /* the memory of it fades; use decides again */
        plan = decide(&values, &memory, &reading);
        reading.memory_bytes_wanted = plan.memory_bytes;
    }
    assert_true(plan.memory_bytes < (int64_t)600 * AW_MIB);
    assert_true((double)plan.memory_bytes >= 1.03 * reading.memory_bytes_peak);
}

static void memory_is_the_recent_peak_and_a_little_more(void **state)
{
    (void)state;
    static const struct {
        double peak_mib;
        int64_t wanted_mib, expected_mib;
        const char *why;
    } row[] = {
        {460, 512, 512, "near enough: not worth a restart"},
        {505, 512, 546, "too near the limit: it grows"},
        {300, 512, 324, "far too much: it shrinks"},
        {410, 512, 512, "a little too much: it stays"},
        {1, 512, 64, "not below the bounds"},
        {9000, 512, 8192, "not above them"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct aw_capacity_rule_values values = direct_values();
        struct aw_capacity_rule_memory memory;
        aw_capacity_rule_begin(&memory);
        struct aw_reading reading = calm();
        reading.memory_bytes_peak = row[i].peak_mib * 1048576;
        reading.memory_bytes_wanted = row[i].wanted_mib * AW_MIB;
        const struct aw_plan plan = decide(&values, &memory, &reading);
        if (plan.memory_bytes != row[i].expected_mib * AW_MIB)
            fail_msg("%s: %lld MiB", row[i].why, (long long)(plan.memory_bytes / AW_MIB));
    }
}

static double absurd(struct aw_rng *rng, double usual)
{
    static const double strange[] = {0, 1e-300, 1e-9, 1, 1e9, 1e18, 1e20, 1e38, 9e38, 1e299};
    switch (aw_rng_below(rng, 8)) {
    case 0:
        return NAN;
    case 1:
    case 2:
        return strange[aw_rng_below(rng, sizeof strange / sizeof *strange)];
    default:
        return usual * aw_rng_double(rng);
    }
}

static int64_t absurd_size(struct aw_rng *rng, int64_t usual)
{
    static const int64_t strange[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    return aw_rng_below(rng, 8) ? usual + aw_rng_below(rng, 1000) : strange[aw_rng_below(rng, 5)];
}

static void any_readings_at_all_stay_within_the_bounds(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    const struct aw_bounds *bounds = &task.bounds;
    struct aw_capacity_rule_memory memory;
    struct aw_capacity_rule_values values;
    for (uint32_t i = 0; i < 100000; i++) {
        if (i % 1000 == 0) {
            aw_capacity_rule_begin(&memory);
            draw_values(&rng, &values);
        }
        if (i % 1000 == 500)
            aw_capacity_rule_changed(&memory);
        const struct aw_reading reading = {
            .cpu_millicores_wanted = absurd_size(&rng, 900),
            .memory_bytes_wanted = absurd_size(&rng, 512 * AW_MIB),
            .replicas_wanted = aw_rng_below(&rng, 10) ? 1 + aw_rng_below(&rng, 20) : UINT32_MAX,
            .replicas_ready = aw_rng_below(&rng, 10) ? aw_rng_below(&rng, 20) : UINT32_MAX,
            .cpu_cores_used = absurd(&rng, 5),
            .memory_bytes_used = absurd(&rng, 3e8),
            .memory_bytes_peak = absurd(&rng, 5e8),
            .arrivals_per_s = absurd(&rng, 50),
            .completions_per_s = absurd(&rng, 50),
            .in_flight = absurd(&rng, 10),
            .latency_us_slo = absurd(&rng, 1e5),
            .oom_kills = aw_rng_below(&rng, 20) ? 0 : UINT32_MAX,
            .rollout = aw_rng_below(&rng, 5) == 0,
        };
        struct aw_plan plan;
        aw_capacity_rule_decide(&values, &task, &memory, &reading, aw_rng_below(&rng, 2),
                                aw_rng_below(&rng, 2), &plan);
        assert_true(plan.replicas >= bounds->replicas_min && plan.replicas <= bounds->replicas_max);
        assert_true(plan.cpu_millicores >= bounds->cpu_millicores_min &&
                    plan.cpu_millicores <= bounds->cpu_millicores_max);
        assert_true(plan.memory_bytes >= bounds->memory_bytes_min &&
                    plan.memory_bytes <= bounds->memory_bytes_max);
        assert_true(isfinite(memory.margin_trim) && isfinite(memory.smooth_load) &&
                    isfinite(memory.high_load));
    }
}

static void too_much_load_to_believe_asks_for_the_most(void **state)
{
    (void)state;
    static const double load[] = {1e9, 1e20, 1e38, 1e39, 1e299};
    for (uint32_t share = 0; share <= 2; share++)
        for (size_t i = 0; i < sizeof load / sizeof *load; i++) {
            struct aw_capacity_rule_values values = direct_values();
            values.v[AW_CAPACITY_RULE_PEAK] = 0.5 * share;
            struct aw_capacity_rule_memory memory;
            aw_capacity_rule_begin(&memory);
            struct aw_reading reading = calm();
            decide(&values, &memory, &reading);
            reading.arrivals_per_s = load[i];
            assert_int_equal(decide(&values, &memory, &reading).replicas, 20);
        }
}

static void same_inputs_same_bytes(void **state)
{
    (void)state;
    /* snapshots compare and copy it whole */
    _Static_assert(sizeof(struct aw_capacity_rule_memory) ==
                       10 * sizeof(double) + AW_CAPACITY_RULE_HISTORY * sizeof(uint16_t) +
                           AW_CAPACITY_RULE_MEMORY_HISTORY * sizeof(uint16_t) +
                           4 * sizeof(uint32_t),
                   "aw_capacity_rule_memory has padding");
    _Static_assert(sizeof(struct aw_capacity_rule) == AW_CAPACITY_RULE_DIM * sizeof(double),
                   "aw_capacity_rule has padding");
    struct aw_capacity_rule_memory memory[2];
    memset(&memory[0], 0x00, sizeof memory[0]);
    memset(&memory[1], 0xff, sizeof memory[1]);
    const struct aw_capacity_rule_values values = plain_values();
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    aw_capacity_rule_begin(&memory[0]);
    aw_capacity_rule_begin(&memory[1]);
    for (uint32_t t = 0; t < 600; t++) {
        struct aw_reading reading = calm();
        reading.arrivals_per_s = 50 * aw_rng_double(&rng);
        const bool violated = aw_rng_below(&rng, 5) == 0;
        struct aw_plan plan[2];
        for (uint32_t k = 0; k < 2; k++)
            aw_capacity_rule_decide(&values, &task, &memory[k], &reading, violated, true, &plan[k]);
        assert_memory_equal(&plan[0], &plan[1], sizeof plan[0]);
        assert_memory_equal(&memory[0], &memory[1], sizeof memory[0]);
    }
}

static void a_value_lies_where_it_is_read_back_from(void **state)
{
    (void)state;
    static const double cores[] = {0.1, 0.5, 1.7, 4};
    struct aw_capacity_rule rule;
    aw_capacity_rule_plain(&rule);
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        rule.x[AW_CAPACITY_RULE_CPU] = aw_capacity_rule_place(AW_CAPACITY_RULE_CPU, cores[i]);
        assert_close(aw_capacity_rule_value(&rule, AW_CAPACITY_RULE_CPU), cores[i], 1e-12);
    }
    assert_close(aw_capacity_rule_place(AW_CAPACITY_RULE_MARGIN, 1e9), 1, 0);
    assert_close(aw_capacity_rule_place(AW_CAPACITY_RULE_MARGIN, 0), 0, 0);
}

AW_TEST_GROUP("capacity-rule")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_lies_where_it_is_read_back_from),
        cmocka_unit_test(every_number_has_its_scale),
        cmocka_unit_test(a_larger_x_never_means_less_where_it_is_on),
        cmocka_unit_test(the_plain_capacity_rule_is_a_core_and_twice_the_need),
        cmocka_unit_test(other_numbers_have_another_id),
        cmocka_unit_test(replicas_are_the_need_times_the_margin),
        cmocka_unit_test(a_peak_is_found_wherever_its_window_lies_in_the_ring),
        cmocka_unit_test(a_recent_peak_counts_for_its_window_and_no_longer),
        cmocka_unit_test(a_floor_serves_a_share_of_the_highest_load),
        cmocka_unit_test(missing_figures_shrink_and_restart_nothing),
        cmocka_unit_test(a_new_workload_that_nobody_sees_stays_as_it_is),
        cmocka_unit_test(without_a_cpu_figure_more_load_still_adds_replicas),
        cmocka_unit_test(more_load_never_means_fewer_cores),
        cmocka_unit_test(the_trim_balances_just_below_the_budget),
        cmocka_unit_test(what_another_brought_about_moves_no_trim),
        cmocka_unit_test(missed_steps_make_replicas_larger_but_seldom),
        cmocka_unit_test(where_one_replica_is_too_large_a_miss_makes_it_larger_for_a_while),
        cmocka_unit_test(a_little_more_needs_no_replica_more),
        cmocka_unit_test(it_sleeps_after_its_idle_steps_and_wakes_at_the_first_request),
        cmocka_unit_test(steps_that_nobody_saw_were_not_idle),
        cmocka_unit_test(a_kill_for_want_of_memory_raises_it_and_holds_it),
        cmocka_unit_test(memory_is_the_recent_peak_and_a_little_more),
        cmocka_unit_test(any_readings_at_all_stay_within_the_bounds),
        cmocka_unit_test(too_much_load_to_believe_asks_for_the_most),
        cmocka_unit_test(same_inputs_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
