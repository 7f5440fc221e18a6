#include "simulation/simulate.h"

#include "base/testing.h"
#include "simulation/simulate_testing.h"

#include <math.h>
#include <string.h>

#define SECOND_US 1000000ll
#define STEP_US   (15 * SECOND_US)

/* 20 ms of CPU, no waiting: its use is easy to reckon. */
static const struct aw_app plain = {
    .name = "plain",
    .segment_count = 1,
    .segment = {{.name = "work",
                 .cpu_ms = 20,
                 .cpu_cv = 0.3,
                 .memory_base_mib = 100,
                 .memory_flight_mib = 2,
                 .parallelism = 1,
                 .cold_start_ms = 500}},
};

static struct aw_simulate_config config_of(uint32_t episodes)
{
    struct aw_simulate_config config;
    aw_simulate_config_init(&config);
    config.settings.episodes = episodes;
    config.settings.slo_factor = 3;
    config.tuning_episodes = 2;
    config.tuning_budget = 20;
    return config;
}

static struct aw_simulate_policy policy_of(const char *name)
{
    struct aw_simulate_policy policy;
    assert_ok(aw_simulate_policy_named(name, &policy, NULL));
    policy.tuning = AW_SIMULATE_AS_GIVEN;
    return policy;
}

static struct aw_simulate_summary run(const struct aw_simulate_config *config,
                                      const struct aw_simulate_case *c, const char *name,
                                      aw_simulate_sink *sink, void *ctx)
{
    const struct aw_simulate_policy policy = policy_of(name);
    const struct aw_fallback_task task = aw_simulate_task(&config->settings, c);
    struct aw_simulate_summary summary;
    assert_ok(aw_simulate_run(config, c, 0, &policy, &task, sink, ctx, NULL, &summary, NULL, NULL));
    return summary;
}

/* --- what holds in every step -----------------------------------------------------------------
 */

struct watch {
    const struct aw_simulate_settings *settings;
    uint32_t episode, step; /* expected next */
    double reward, cost;
    uint64_t violated;
    /* while blind: what it was when metrics were lost */
    int64_t blind_from_us, blind_until_us;
    uint32_t replicas;
    int64_t cpu_millicores, memory_bytes;
    uint32_t blind_steps, unanswered;
    uint32_t last_replicas;
    int64_t last_cpu, last_memory, last_at_us;
};

static bool check_step(void *ctx, const struct aw_simulate_step *s)
{
    struct watch *w = ctx;
    const struct aw_simulate_settings *settings = w->settings;
    assert_int_equal(s->episode, w->episode);
    assert_int_equal(s->step, w->step);
    if (++w->step == settings->episode_steps) {
        w->step = 0;
        w->episode++;
    }
    assert_true(s->replicas_wanted >= settings->replicas_min);
    assert_true(s->replicas_wanted <= settings->replicas_max);
    assert_true((double)s->cpu_millicores >= settings->cpu_min_cores * 1e3 - 0.5);
    assert_true((double)s->cpu_millicores <= settings->cpu_max_cores * 1e3 + 0.5);
    assert_true((double)s->memory_bytes >= settings->memory_min_mib * 1048576 - 1);
    assert_true((double)s->memory_bytes <= settings->memory_max_mib * 1048576 + 1);
    assert_true(s->reward >= 0 && s->reward <= 2);
    assert_true(s->cost >= 0 && isfinite(s->cost));
    assert_true(s->cpu_utilization >= 0 && s->cpu_utilization <= 1);
    assert_true(s->memory_utilization >= 0 && s->memory_utilization <= 1);
    assert_true(s->violated == (s->slo_preservation < 1));
    assert_false(s->truth.latency_us_p50 > s->truth.latency_us_p99);
    if (!s->applied) {
        assert_int_equal(s->plan.set, 0);
        w->unanswered++;
    }
    if (s->at_us >= w->blind_from_us && s->at_us < w->blind_until_us) {
        assert_true(s->replicas_wanted >= w->replicas);
        assert_true(s->cpu_millicores >= w->cpu_millicores);
        assert_true(s->memory_bytes >= w->memory_bytes);
        w->blind_steps++;
    }
    w->replicas = s->replicas_wanted;
    w->cpu_millicores = s->cpu_millicores;
    w->memory_bytes = s->memory_bytes;
    w->reward += s->reward;
    w->cost += s->cost;
    w->violated += s->violated;
    return true;
}

static const char *const all_names[] = {"static", "hpa",      "vpa",    "hpa+vpa",    "hpa+vpa-mem",
                                        "aimd",   "constant", "oracle", "oracle-cost"};
#define ALL_COUNT (sizeof all_names / sizeof *all_names)

static void invariants_hold_in_every_step_and_sums_agree(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("bursts", 100, 4, 3, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    struct aw_simulate_config config = config_of(3);
    config.settings.episode_steps = 40;
    for (size_t i = 0; i < ALL_COUNT; i++) {
        struct watch w = {.settings = &config.settings};
        struct aw_simulate_summary s = run(&config, &c, all_names[i], check_step, &w);
        assert_int_equal(w.episode, 3);
        assert_int_equal(s.steps, 120);
        assert_close(s.hours, 0.5, 1e-12);
        assert_close(s.mean.reward, w.reward / 3, 1e-12);
        assert_close(s.mean.cost, w.cost / 0.5, 1e-12);
        assert_int_equal(s.violations, w.violated);
        assert_close(s.mean.violations_per_100, (double)w.violated / 3 * 100, 1e-12);
        assert_close(s.mean.core_hours * config.settings.price_core_hour +
                         s.mean.gib_hours * config.settings.price_gib_hour,
                     s.mean.cost, 1e-9);
        assert_true(s.reward_interval.low <= s.mean.reward);
        assert_true(s.reward_interval.high >= s.mean.reward);
        assert_string_equal(s.policy, all_names[i]);
    }
    aw_load_deinit(&load);
}

/* Load falls to a tenth while nobody can measure: with figures, everything would shrink. */
static void lost_metrics_shrink_nothing(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("constant", 150, 1, 3, &load);
    struct aw_sim_disturbance quiet = aw_sim_undisturbed;
    quiet.load_factor = 0.1;
    const struct aw_simulate_event events[] = {
        {.at_us = 10 * STEP_US, .kind = AW_SIMULATE_FAIL_METRICS, .duration_us = 90 * STEP_US},
        {.at_us = 11 * STEP_US, .kind = AW_SIMULATE_DISTURB, .disturbance = quiet},
    };
    const struct aw_simulate_case blind = {
        .app = plain, .load = &load, .events = events, .event_count = 2};
    const struct aw_simulate_case seeing = {
        .app = plain, .load = &load, .events = events + 1, .event_count = 1};
    struct aw_simulate_config config = config_of(1);
    for (size_t i = 0; i < ALL_COUNT - 2; i++) { /* oracles need no metrics */
        const int64_t begin_us = config.settings.warmup_steps * STEP_US;
        /* from when the last figures are stale */
        struct watch w = {.settings = &config.settings,
                          .blind_from_us = begin_us + 15 * STEP_US,
                          .blind_until_us = begin_us + 100 * STEP_US};
        struct aw_simulate_summary without = run(&config, &blind, all_names[i], check_step, &w);
        struct aw_simulate_summary with = run(&config, &seeing, all_names[i], NULL, NULL);
        assert_true(w.blind_steps >= 80);
        if (strcmp(all_names[i], "hpa") == 0 || strcmp(all_names[i], "constant") == 0)
            assert_true(with.mean.cost < 0.8 * without.mean.cost); /* they would have shrunk */
    }
    aw_load_deinit(&load);
}

static void a_cluster_that_does_not_answer_is_waited_for(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("bursts", 100, 4, 3, &load);
    const struct aw_simulate_event event = {
        .at_us = 10 * STEP_US, .kind = AW_SIMULATE_FAIL_API, .duration_us = 20 * STEP_US};
    const struct aw_simulate_case c = {
        .app = plain, .load = &load, .events = &event, .event_count = 1};
    struct aw_simulate_config config = config_of(1);
    for (size_t i = 0; i < ALL_COUNT; i++) {
        struct watch w = {.settings = &config.settings};
        (void)run(&config, &c, all_names[i], check_step, &w);
        assert_true(w.unanswered >= 19 && w.unanswered <= 21);
    }
    aw_load_deinit(&load);
}

/* --- steady states ----------------------------------------------------------------------------
 */

static void a_constant_load_is_served_at_a_sane_utilisation(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        const char *name;
        double cpu_low, cpu_high, violations_max;
    } cases[] = {
        {"replicas for twice the load", "static", 0.4, 0.55, 0.02},
        {"its target is 80 %, within 10 %", "hpa", 0.65, 0.9, 1},
        {"the same, with memory from its use", "hpa+vpa-mem", 0.65, 0.9, 1},
        {"CPU by the peak, with a margin", "constant", 0.3, 0.8, 0.1},
        {"as little as the SLO allows", "oracle-cost", 0.4, 0.95, 0.02},
    };
    struct aw_load load;
    load_make("constant", 150, 1, 3, &load); /* 3 cores */
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    struct aw_simulate_config config = config_of(2);
    config.settings.warmup_steps = 120;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_simulate_summary s = run(&config, &c, cases[i].name, NULL, NULL);
        if (s.mean.cpu_utilization < cases[i].cpu_low ||
            s.mean.cpu_utilization > cases[i].cpu_high ||
            s.mean.violation_share > cases[i].violations_max || s.mean.failed_share > 0.03)
            fail_msg("%s: %s: utilisation %.2f, violations %.3f, failed %.4f", cases[i].name,
                     cases[i].why, s.mean.cpu_utilization, s.mean.violation_share,
                     s.mean.failed_share);
    }
    aw_load_deinit(&load);
}

static void hpa_and_vpa_together_spiral_into_tiny_pods(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("constant", 150, 1, 3, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    struct aw_simulate_config config = config_of(10);
    const struct aw_fallback_task task = aw_simulate_task(&config.settings, &c);
    struct aw_simulate_policy both = policy_of("hpa+vpa"), apart = policy_of("hpa+vpa-mem");
    struct aw_simulate_summary s, t;
    both.policy.hpa_target = apart.policy.hpa_target = 60;
    assert_ok(aw_simulate_run(&config, &c, 0, &both, &task, NULL, NULL, NULL, &s, NULL, NULL));
    assert_ok(aw_simulate_run(&config, &c, 0, &apart, &task, NULL, NULL, NULL, &t, NULL, NULL));
    assert_true(s.mean.replica_hours > 2 * t.mean.replica_hours);
    assert_true(s.mean.core_hours / s.mean.replica_hours < 0.5); /* cores of a replica */
    assert_true(s.mean.violation_share > 0.5);
    assert_true(t.mean.violation_share < 0.3);
    assert_true(s.mean.reward < t.mean.reward - 30);
    aw_load_deinit(&load);
}

/* --- comparisons ------------------------------------------------------------------------------
 */

static void one_thread_and_two_give_the_same_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"hpa", "hpa+vpa", "aimd", "constant", "oracle"};
    enum { COUNT = sizeof names / sizeof *names };
    struct pool pool;
    struct aw_simulate_policy policies[COUNT];
    static struct aw_simulate_summary one[CASES * COUNT], two[CASES * COUNT];
    struct aw_simulate_row rows_one[COUNT], rows_two[COUNT];
    struct aw_simulate_config config = config_of(2);
    config.settings.episode_steps = 15;
    config.tuning_budget = 6;
    pool_make(&pool);
    for (int i = 0; i < COUNT; i++)
        assert_ok(aw_simulate_policy_named(names[i], &policies[i], NULL));
    memset(one, 0, sizeof one);
    memset(two, 0, sizeof two);
    assert_ok(
        aw_simulate_compare(&config, pool.c, CASES, policies, COUNT, NULL, NULL, NULL, one, NULL));
    config.thread_count = 2;
    assert_ok(
        aw_simulate_compare(&config, pool.c, CASES, policies, COUNT, NULL, NULL, NULL, two, NULL));
    for (uint32_t i = 0; i < CASES * COUNT; i++) {
        assert_memory_equal(&one[i].mean, &two[i].mean, sizeof one[i].mean);
        assert_memory_equal(&one[i].reward_interval, &two[i].reward_interval,
                            sizeof one[i].reward_interval);
        assert_int_equal(one[i].tuned.hpa_target, two[i].tuned.hpa_target);
        assert_int_equal(one[i].task.cpu_millicores, two[i].task.cpu_millicores);
    }
    memset(rows_one, 0, sizeof rows_one);
    memset(rows_two, 0, sizeof rows_two);
    assert_ok(aw_simulate_rows(one, CASES, COUNT, 0, 0.01, 1, NULL, rows_one, NULL));
    assert_ok(aw_simulate_rows(two, CASES, COUNT, 0, 0.01, 1, NULL, rows_two, NULL));
    for (int i = 0; i < COUNT; i++) {
        const struct aw_simulate_row *r = &rows_one[i];
        assert_memory_equal(&r->mean, &rows_two[i].mean, sizeof r->mean);
        assert_memory_equal(r->interval, rows_two[i].interval, sizeof r->interval);
        assert_string_equal(r->policy, names[i]);
        for (uint32_t k = 0; k < AW_SIMULATE_COLUMN_COUNT; k++) {
            const double mean = aw_simulate_column_get(&r->mean, k);
            assert_true(r->interval[k].low <= mean + 1e-12 && r->interval[k].high >= mean - 1e-12);
        }
    }
    assert_close(rows_one[0].reward_gain, 0, 0);
    assert_close(rows_one[0].cost_ratio, 1, 0);
    assert_int_equal(rows_one[0].cheaper_count, 0);
    assert_close(rows_one[3].reward_gain, rows_one[3].mean.reward - rows_one[0].mean.reward, 1e-12);
    pool_free(&pool);
}

/* --- chance -----------------------------------------------------------------------------------
 */

struct first {
    double arrivals[64];
    uint32_t count;
};

static bool note(void *ctx, const struct aw_simulate_step *s)
{
    struct first *first = ctx;
    if (first->count < 64)
        first->arrivals[first->count++] = s->truth.arrivals;
    return true;
}

static void chance_comes_from_the_seed_and_the_application_alone(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("bursts", 100, 4, 3, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    struct aw_simulate_config config = config_of(1);
    config.settings.shift = true;
    config.settings.warmup_steps = 0;
    struct first a = {0}, again = {0}, other = {0}, seed = {0};
    (void)run(&config, &c, "static", note, &a);
    (void)run(&config, &c, "static", note, &again);
    (void)run(&config, &c, "oracle-cost", note, &other);
    config.seed = 2;
    (void)run(&config, &c, "static", note, &seed);
    assert_memory_equal(&a, &again, sizeof a);
    assert_close(a.arrivals[0], other.arrivals[0], 0);
    assert_memory_not_equal(&a, &seed, sizeof a);
    /* every policy sees the same load, though not the same noise once it acts otherwise */
    double sum = 0, sum_other = 0;
    for (int i = 0; i < 64; i++) {
        sum += a.arrivals[i];
        sum_other += other.arrivals[i];
    }
    assert_close(sum_other / sum, 1, 0.05);
    aw_load_deinit(&load);
}

static void episodes_that_begin_anew_do_not_depend_on_their_number(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("bursts", 100, 4, 3, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    const struct aw_simulate_policy policy = policy_of("hpa");
    struct aw_simulate_config config = config_of(5);
    config.settings.continuous = false;
    config.settings.episode_steps = 20;
    const struct aw_fallback_task task = aw_simulate_task(&config.settings, &c);
    struct aw_simulate_summary s;
    double five[5], two[2];
    assert_ok(aw_simulate_run(&config, &c, 4, &policy, &task, NULL, NULL, NULL, &s, five, NULL));
    config.settings.episodes = 2;
    assert_ok(aw_simulate_run(&config, &c, 4, &policy, &task, NULL, NULL, NULL, &s, two, NULL));
    assert_memory_equal(five, two, sizeof two);
    assert_true(five[0] != five[1]); /* elsewhere in the load, with other chance */
    aw_load_deinit(&load);
}

/* --- memory and bad input ---------------------------------------------------------------------
 */

static void steps_do_not_allocate_and_every_failure_is_clean(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("bursts", 100, 4, 3, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    static const char *const names[] = {"hpa+vpa", "oracle"};
    for (int n = 0; n < 2; n++) {
        const struct aw_simulate_policy policy = policy_of(names[n]);
        struct aw_simulate_config config = config_of(1);
        config.settings.episode_steps = 10;
        config.settings.warmup_steps = 0;
        const struct aw_fallback_task task = aw_simulate_task(&config.settings, &c);
        struct aw_simulate_summary s;
        uint64_t counts[2];
        for (uint32_t i = 0; i < 2; i++) {
            struct aw_alloc_counting counting;
            aw_alloc_counting_init(&counting);
            config.settings.episodes = 1 + 4 * i;
            assert_ok(aw_simulate_run(&config, &c, 0, &policy, &task, NULL, NULL, &counting.alloc,
                                      &s, NULL, NULL));
            counts[i] = counting.alloc_count;
            assert_int_equal(counting.alloc_count, counting.free_count);
        }
        assert_int_equal(counts[0], counts[1]);
        for (uint64_t after = 0; after < counts[0]; after++) {
            struct aw_alloc_counting counting;
            struct aw_diag diag = {0};
            aw_alloc_counting_init(&counting);
            counting.fail_after = after;
            s.hours = -1;
            assert_int_equal(aw_simulate_run(&config, &c, 0, &policy, &task, NULL, NULL,
                                             &counting.alloc, &s, NULL, &diag),
                             AW_ERR_NOMEM);
            assert_true(s.hours == -1);
        }
    }
    aw_load_deinit(&load);
}

static bool stop_at_5(void *ctx, const struct aw_simulate_step *s)
{
    (void)s;
    return ++*(int *)ctx < 5;
}
static bool stop_now(void *ctx, uint32_t done, uint32_t total)
{
    (void)ctx;
    (void)total;
    return done < 2;
}

static void a_run_can_be_stopped(void **state)
{
    (void)state;
    struct pool pool;
    pool_make(&pool);
    const struct aw_simulate_policy policy = policy_of("hpa");
    struct aw_simulate_config config = config_of(1);
    const struct aw_fallback_task task = aw_simulate_task(&config.settings, &pool.c[0]);
    static struct aw_simulate_summary s[CASES];
    int steps = 0;
    assert_int_equal(aw_simulate_run(&config, &pool.c[0], 0, &policy, &task, stop_at_5, &steps,
                                     NULL, &s[0], NULL, NULL),
                     AW_ERR_INTERRUPTED);
    assert_int_equal(steps, 5);
    assert_int_equal(
        aw_simulate_compare(&config, pool.c, CASES, &policy, 1, stop_now, NULL, NULL, s, NULL),
        AW_ERR_INTERRUPTED);
    pool_free(&pool);
}

static void what_cannot_be_is_refused_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        const char *set;
        const char *says;
    } cases[] = {
        {"min above max", "replicas_min=30", "replicas"},
        {"min above max", "cpu_min_cores=5", "CPU"},
        {"min above max", "memory_min_mib=9000", "memory"},
        {"start outside", "replicas=40", "within the bounds"},
        {"start outside", "cpu_cores=0.05", "within the bounds"},
        {"start outside", "memory_mib=10", "within the bounds"},
        {"larger than a node", "cpu_max_cores=17", "does not fit"},
        {"larger than a node", "memory_max_mib=70000", "does not fit"},
        {"too long", "episodes=100000", "warm-up"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_simulate_config config;
        struct aw_diag diag = {0};
        aw_simulate_config_init(&config);
        config.settings.episode_steps = 1000;
        assert_ok(aw_simulate_check(&config.settings, &config.sim, &diag));
        assert_ok(aw_conf_set_pair(aw_simulate_fields, &config.settings, cases[i].set, NULL));
        assert_int_equal(aw_simulate_check(&config.settings, &config.sim, &diag), AW_ERR_CONFIG);
        if (!strstr(diag.text, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].why, cases[i].set, diag.text);
    }
    struct aw_simulate_policy policy;
    struct aw_diag diag = {0};
    assert_int_equal(aw_simulate_policy_named("hpa+vpa-men", &policy, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "hpa+vpa-mem"));
    for (uint32_t i = 0; aw_simulate_policy_name(i); i++)
        assert_ok(aw_simulate_policy_named(aw_simulate_policy_name(i), &policy, NULL));

    struct aw_load load;
    load_make("constant", 50, 1, 1, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    struct aw_simulate_config config = config_of(1);
    struct aw_fallback_task task = aw_simulate_task(&config.settings, &c);
    bool kept;
    assert_ok(aw_simulate_policy_named("hpa", &policy, NULL));
    assert_int_equal(aw_simulate_tune(&config, &c, 0, &policy, &task, NULL, &kept, &diag),
                     AW_ERR_NODATA);
    /* an SLO that nothing can meet is no error: it is named */
    config.settings.slo_ms = 1;
    struct aw_simulate_summary s = run(&config, &c, "static", NULL, NULL);
    assert_true(s.slo_unmeetable);
    assert_close(s.mean.violation_share, 1, 0);
    config.settings.slo_ms = 1000;
    s = run(&config, &c, "static", NULL, NULL);
    assert_false(s.slo_unmeetable);
    aw_load_deinit(&load);
}

static void an_empty_load_costs_little_and_violates_nothing(void **state)
{
    (void)state;
    struct aw_load load;
    load_make("constant", 0, 1, 1, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    struct aw_simulate_config config = config_of(1);
    for (size_t i = 0; i < ALL_COUNT; i++) {
        struct aw_simulate_summary s = run(&config, &c, all_names[i], NULL, NULL);
        assert_int_equal(s.violations, 0);
        assert_close(s.requests, 0, 0);
        assert_close(s.mean.replica_hours, 1, 0.05);
    }
    aw_load_deinit(&load);
}

AW_TEST_GROUP("simulate")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_in_every_step_and_sums_agree),
        cmocka_unit_test(lost_metrics_shrink_nothing),
        cmocka_unit_test(a_cluster_that_does_not_answer_is_waited_for),
        cmocka_unit_test(a_constant_load_is_served_at_a_sane_utilisation),
        cmocka_unit_test(hpa_and_vpa_together_spiral_into_tiny_pods),
        cmocka_unit_test(one_thread_and_two_give_the_same_bytes),
        cmocka_unit_test(chance_comes_from_the_seed_and_the_application_alone),
        cmocka_unit_test(episodes_that_begin_anew_do_not_depend_on_their_number),
        cmocka_unit_test(steps_do_not_allocate_and_every_failure_is_clean),
        cmocka_unit_test(a_run_can_be_stopped),
        cmocka_unit_test(what_cannot_be_is_refused_with_its_reason),
        cmocka_unit_test(an_empty_load_costs_little_and_violates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
