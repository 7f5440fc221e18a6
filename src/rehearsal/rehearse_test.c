/* rehearse_test.c - plays and searches on copies: what they find, and what they never do. */
#include "rehearsal/rehearse.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "rehearsal/copy_fit_testing.h"

#define BUDGET 0.01

/* One life for all tests: making it takes longer than most of them. */
static struct life life;

static int begin(void **state)
{
    (void)state;
    live(3, 1, &life);
    return 0;
}

static struct aw_rehearse_config config_of(uint32_t minutes)
{
    struct aw_rehearse_config config = {
        .bounds = {.min = {1, 100, 64 * AW_MIB}, .max = {20, 4000, 8192 * AW_MIB}},
        .slo = {.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&life.app, 1, 0),
                .timeout_us = 30e6},
        .prices = {.core_hour = 0.04, .gib_hour = 0.005},
        .budget = BUDGET,
        .step_s = 15,
        .stale_s = 120,
        .episode_steps = 100,
        .controlled = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
        .in_place = false,
        .start = {.replicas = 6, .cpu_millicores = 1000, .memory_bytes = life.memory_bytes},
        .record = &life.record,
        .load_per_s = life.load_per_s,
        .minutes = minutes,
        .minutes_seen = minutes,
        .seed = 9,
    };
    aw_conf_defaults(aw_rehearse_fields, &config.settings);
    aw_conf_defaults(aw_guard_fields, &config.guard);
    config.guard.replicas_stabilisation = 0; /* what is compared is the rule */
    config.settings.copies = 2;
    config.settings.tries = 20;
    config.settings.tries_near = 40;
    return config;
}

static struct aw_rehearsal *rehearsal_of(const struct aw_rehearse_config *config)
{
    struct aw_rehearsal *rehearsal = NULL;
    struct aw_diag diag = {0};
    if (aw_rehearsal_new(config, NULL, &rehearsal, &diag))
        fail_msg("%s", diag.text);
    return rehearsal;
}

static struct aw_fallback *policy_of(const struct aw_rehearse_config *config, uint32_t kind)
{
    struct aw_fallback_settings settings;
    aw_conf_defaults(aw_fallback_fields, &settings);
    settings.kind = kind;
    settings.hpa_target = 50;
    const struct aw_fallback_task task = {.bounds = config->bounds,
                                          .slo_latency_us = config->slo.latency_us_p99,
                                          .replicas = config->start.replicas,
                                          .cpu_millicores = config->start.cpu_millicores,
                                          .memory_bytes = config->start.memory_bytes};
    struct aw_fallback *policy = NULL;
    assert_ok(aw_fallback_new(&settings, &task, NULL, &policy, NULL));
    return policy;
}

/* What a capacity rule is worth on chance that no search has seen. */
static double worth(struct aw_rehearsal *r, const struct aw_capacity_rule *rule)
{
    const uint32_t plays = 5;
    double sum = 0;
    for (uint32_t k = 0; k < plays; k++) {
        struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
        assert_ok(aw_rehearsal_play(r, rule, 7000 + 10 * k, each));
        sum += aw_rehearsal_value(r, each);
    }
    return sum / plays;
}

static const struct aw_rehearse_starts by_chance = {0};

static void the_search_finds_what_is_better_than_the_plain_capacity_rule(void **state)
{
    (void)state;
    const struct aw_rehearse_config config = config_of(MINUTES);
    struct aw_rehearsal *r = rehearsal_of(&config);
    assert_int_equal(aw_rehearsal_copies(r), 2);
    assert_true(aw_rehearsal_error(r) < 0.3);
    struct aw_capacity_rule plain;
    struct aw_rehearse_found found;
    struct aw_rehearsed by_plain[2], by_found[2];
    aw_capacity_rule_plain(&plain);
    assert_ok(aw_rehearsal_search(r, &by_chance, 1, &found));
    assert_true(isfinite(found.value));
    assert_int_equal(found.from, AW_REHEARSE_DRAWN);
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        assert_true(found.rule.x[i] >= 0 && found.rule.x[i] <= 1);
    assert_true(worth(r, &found.rule) < worth(r, &plain) - 0.05);
    assert_ok(aw_rehearsal_play(r, &plain, 77, by_plain));
    assert_ok(aw_rehearsal_play(r, &found.rule, 77, by_found));
    assert_true(by_found[0].cost_per_hour < by_plain[0].cost_per_hour);
    assert_true(by_found[0].violation_share <= 2 * BUDGET);
    aw_rehearsal_free(r);
}

static void a_search_is_repeatable_and_keeps_what_is_known_to_be_good(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(180);
    config.settings.tries = 10;
    config.settings.tries_near = 20;
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct aw_rehearse_found found, again;
    assert_ok(aw_rehearsal_search(r, &by_chance, 1, &found));
    assert_ok(aw_rehearsal_search(r, &by_chance, 1, &again));
    assert_memory_equal(&found.rule, &again.rule, sizeof found.rule);
    assert_memory_equal(&found.value, &again.value, sizeof found.value);
    assert_ok(aw_rehearsal_search(r, &by_chance, 2, &again));
    assert_memory_not_equal(&found.rule, &again.rule, sizeof found.rule);
    const struct aw_rehearse_starts known = {.known = &found.rule};
    assert_ok(aw_rehearsal_search(r, &known, 3, &again));
    assert_true(worth(r, &again.rule) < worth(r, &found.rule) + 0.1);
    aw_rehearsal_free(r);
}

static void a_search_begins_at_the_best_of_what_others_have_lived(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(180);
    config.settings.tries_near = 10;
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct aw_capacity_rule lived[3];
    for (uint32_t i = 0; i < 3; i++)
        aw_capacity_rule_plain(&lived[i]);
    lived[0].x[AW_CAPACITY_RULE_MARGIN] = 0; /* too little, too much, and the plain one */
    lived[2].x[AW_CAPACITY_RULE_MARGIN] = 1;
    const struct aw_rehearse_starts starts = {.lived = {.rule = lived, .count = 3}};
    struct aw_rehearse_found found;
    assert_ok(aw_rehearsal_search(r, &starts, 1, &found));
    assert_int_equal(found.from, AW_REHEARSE_DRAWN);
    assert_true(worth(r, &found.rule) < worth(r, &lived[1]) + 0.1);
    double nearest = 1; /* nothing was drawn: it lies near one of them */
    for (uint32_t k = 0; k < 3; k++) {
        double off = 0;
        for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
            off = fmax(off, fabs(found.rule.x[i] - lived[k].x[i]));
        nearest = fmin(nearest, off);
    }
    assert_true(nearest < 0.5);
    aw_rehearsal_free(r);
}

/* After half an hour others' lives decide, after a day the copies. */
static void what_others_lived_counts_less_the_longer_the_record_is(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(60);
    struct aw_capacity_rule rule[2];
    for (uint32_t i = 0; i < 2; i++)
        aw_capacity_rule_plain(&rule[i]);
    rule[0].x[AW_CAPACITY_RULE_MARGIN] = 0.2; /* far too little here, .. */
    rule[1].x[AW_CAPACITY_RULE_MARGIN] = 0.9;
    const double expected[2] = {0, 6}; /* .. and elsewhere it was not */
    struct aw_rehearse_lived lived = {.rule = rule, .count = 2};
    double value[2], alone[2];
    config.minutes_seen = 30;
    struct aw_rehearsal *r = rehearsal_of(&config);
    assert_ok(aw_rehearsal_rank(r, &lived, 1, alone));
    assert_true(alone[1] < alone[0]);
    lived.expected = expected;
    assert_ok(aw_rehearsal_rank(r, &lived, 1, value));
    assert_true(value[0] < value[1]);
    aw_rehearsal_free(r);
    config.minutes_seen = 10 * 1440;
    r = rehearsal_of(&config);
    assert_ok(aw_rehearsal_rank(r, &lived, 1, value));
    assert_true(value[1] < value[0]);
    aw_rehearsal_free(r);
}

/* A load that never grew is prepared for as it is, one that did for more. */
static void copies_are_busier_where_the_load_grows(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(120);
    struct aw_capacity_rule plain;
    struct aw_rehearsed each[2];
    float load[120];
    aw_capacity_rule_plain(&plain);
    config.settings.copies = 2;
    config.tried = true;
    config.load_per_s = load;
    double busier[2];
    for (uint32_t grows = 0; grows < 2; grows++) {
        for (uint32_t m = 0; m < 120; m++)
            load[m] = 3 * life.load_per_s[0] * (grows && m >= 90 ? 1.3f : 1.0f);
        struct aw_rehearsal *r = rehearsal_of(&config);
        assert_ok(aw_rehearsal_play(r, &plain, 1, each));
        busier[grows] = each[1].cost_per_hour / each[0].cost_per_hour;
        aw_rehearsal_free(r);
    }
    assert_true(busier[1] > busier[0] + 0.03);
}

static void a_play_is_a_function_of_capacity_rule_and_seed(void **state)
{
    (void)state;
    const struct aw_rehearse_config config = config_of(60);
    struct aw_rehearsal *r = rehearsal_of(&config), *twin = rehearsal_of(&config);
    struct aw_capacity_rule plain, large;
    struct aw_rehearsed a[2], b[2];
    memset(a, 0, sizeof a);
    memset(b, 0xff, sizeof b);
    aw_capacity_rule_plain(&plain);
    large = plain;
    large.x[AW_CAPACITY_RULE_MARGIN] = 1;
    assert_ok(aw_rehearsal_play(r, &plain, 5, a));
    assert_ok(aw_rehearsal_play(r, &large, 5, b));
    assert_true(b[0].cost_per_hour > 1.2 * a[0].cost_per_hour); /* as many as may be */
    /* what the load needs hardly depends on who acts: ratios are as costs are */
    assert_close(b[0].cost_ratio / a[0].cost_ratio, b[0].cost_per_hour / a[0].cost_per_hour, 0.2);
    assert_ok(aw_rehearsal_play(r, &plain, 5, b)); /* whatever was played in between */
    assert_memory_equal(a, b, sizeof a);
    assert_ok(aw_rehearsal_play(twin, &plain, 5, b));
    assert_memory_equal(a, b, sizeof a);
    assert_ok(aw_rehearsal_play(r, &plain, 6, b));
    assert_memory_not_equal(a, b, sizeof a);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(a[i].cost_per_hour > 0 && a[i].cost_ratio > 0);
        assert_true(a[i].violation_share >= 0 && a[i].violation_share <= 1);
    }
    aw_rehearsal_free(r);
    aw_rehearsal_free(twin);
}

static void a_copy_that_was_busier_than_the_past_can_be_as_busy_as_it(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(60);
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct aw_capacity_rule plain;
    struct aw_rehearsed busier[2], as_it_was[2];
    aw_capacity_rule_plain(&plain);
    assert_ok(aw_rehearsal_play(r, &plain, 5, busier));
    aw_rehearsal_as_it_was(r);
    assert_ok(aw_rehearsal_play(r, &plain, 5, as_it_was));
    assert_memory_equal(&busier[0], &as_it_was[0], sizeof busier[0]);
    assert_true(busier[1].cost_per_hour > 1.1 * as_it_was[1].cost_per_hour);
    aw_rehearsal_free(r);
}

static void costs_are_compared_with_needs_episode_by_episode(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(60);
    struct aw_capacity_rule plain;
    struct aw_rehearsed by_step[2], by_all[2];
    aw_capacity_rule_plain(&plain);
    plain.x[AW_CAPACITY_RULE_FLOOR] = 0.7; /* a reserve that quiet minutes do not need */
    for (uint32_t whole = 0; whole < 2; whole++) {
        config.episode_steps = whole ? UINT32_MAX : 1;
        struct aw_rehearsal *r = rehearsal_of(&config);
        assert_ok(aw_rehearsal_play(r, &plain, 5, whole ? by_all : by_step));
        aw_rehearsal_free(r);
    }
    assert_close(by_step[0].cost_per_hour, by_all[0].cost_per_hour, 0);
    assert_true(by_step[0].cost_ratio > 1.02 * by_all[0].cost_ratio);
}

static void a_fallback_plays_too_and_begins_anew_each_time(void **state)
{
    (void)state;
    const struct aw_rehearse_config config = config_of(MINUTES);
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct aw_fallback *hpa = policy_of(&config, AW_FALLBACK_HPA),
                       *fixed = policy_of(&config, AW_FALLBACK_STATIC);
    struct aw_rehearsed a[2], b[2], still[2];
    assert_ok(aw_rehearsal_play_fallback(r, hpa, 5, a));
    assert_ok(aw_rehearsal_play_fallback(r, fixed, 5, still));
    assert_ok(aw_rehearsal_play_fallback(r, hpa, 5, b));
    assert_memory_equal(a, b, sizeof a);
    /* what stays as it is costs what it costs */
    const double gib = (double)config.start.memory_bytes / 1073741824.0;
    const double each = 0.04 + 0.005 * gib;
    assert_close(still[0].cost_per_hour, config.start.replicas * each, 1e-6);
    assert_true(fabs(a[0].cost_per_hour / still[0].cost_per_hour - 1) > 0.01);
    aw_fallback_free(hpa);
    aw_fallback_free(fixed);
    aw_rehearsal_free(r);
}

static struct aw_rehearsed came_of(double cost, double violation_share)
{
    return (struct aw_rehearsed){
        .cost_per_hour = cost, .cost_ratio = 1, .violation_share = violation_share};
}

static void missing_the_target_is_dearer_than_any_saving_it_brings(void **state)
{
    (void)state;
    const struct aw_rehearse_config config = config_of(MINUTES);
    struct aw_rehearsal *r = rehearsal_of(&config);
    double last = -INFINITY;
    for (uint32_t k = 0; k < 40; k++) { /* rises with violations, once the target is passed */
        const struct aw_rehearsed each[2] = {came_of(1, 0.001 * k), came_of(1, 0.001 * k)};
        const double value = aw_rehearsal_value(r, each);
        assert_true(value >= last);
        last = value;
    }
    const struct aw_rehearsed kept[2] = {came_of(1, 0), came_of(1, 0)};
    const struct aw_rehearsed dear[2] = {came_of(1.1, 0), came_of(1.1, 0)};
    const struct aw_rehearsed uneven[2] = {came_of(1, 0), came_of(1, 0.2)};
    const struct aw_rehearsed even[2] = {came_of(1, 0.1), came_of(1, 0.1)};
    const struct aw_rehearsed cheap[2] = {came_of(0.8, 0.1), came_of(0.8, 0.1)};
    assert_close(aw_rehearsal_value(r, kept), 0, 1e-12);
    assert_close(aw_rehearsal_value(r, dear), log(1.1), 1e-12);
    assert_true(aw_rehearsal_value(r, cheap) > aw_rehearsal_value(r, kept));
    assert_true(aw_rehearsal_value(r, uneven) > aw_rehearsal_value(r, even)); /* the worst counts */
    aw_rehearsal_free(r);
}

/* A network of a constant action: weights are 0, the action is `base` whatever it sees. */
struct constant {
    struct aw_state_config seen;
    struct aw_action_config acted;
    struct aw_actnet actor;
    struct aw_rehearse_network network;
};

static void constant_make(struct constant *c, const struct aw_rehearse_config *config)
{
    *c = (struct constant){.seen = {.preset = AW_STATE_DEFAULT,
                                    .bounds = config->bounds,
                                    .slo = config->slo,
                                    .disk_bytes_per_s_max = 2e8,
                                    .net_bytes_per_s_max = 1e8},
                           .acted = {.mapping = AW_ACTION_ANCHORED,
                                     .bounds = config->bounds,
                                     .window = 20,
                                     .oom_steps = 100,
                                     .deadband = 0.1,
                                     .guard = true}};
    assert_ok(aw_actnet_init(
        &c->actor, &(struct aw_actnet_shape){AW_STATE_DEFAULT_DIM, AW_ACTION_DIM, 4}, NULL));
    c->network =
        (struct aw_rehearse_network){.actor = &c->actor, .state = &c->seen, .action = &c->acted};
}

static void sizes_that_are_not_controlled_stay_whoever_plays(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(60);
    config.controlled = AW_PLAN_REPLICAS;
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct aw_rehearsed each[4][2];
    struct aw_rehearse_found found;
    struct aw_capacity_rule small;
    aw_capacity_rule_plain(&small);
    small.x[AW_CAPACITY_RULE_CPU] = aw_capacity_rule_place(AW_CAPACITY_RULE_CPU, 0.25);
    struct aw_fallback *vpa = policy_of(&config, AW_FALLBACK_VPA);
    struct constant c;
    constant_make(&c, &config);
    c.actor.base[AW_ACTION_CPU] = -1;
    assert_ok(aw_rehearsal_play(r, &small, 5, each[0]));
    assert_ok(aw_rehearsal_play_fallback(r, vpa, 5, each[1]));
    assert_ok(aw_rehearsal_play_network(r, &c.network, 5, each[2]));
    assert_ok(aw_rehearsal_search(r, &by_chance, 1, &found));
    assert_ok(aw_rehearsal_play(r, &found.rule, 5, each[3]));
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i < 2; i++)
            assert_close(each[k][i].cores, 1, 1e-9);
    aw_actnet_deinit(&c.actor);
    aw_fallback_free(vpa);
    aw_rehearsal_free(r);
}

static void a_network_plays_too_and_what_it_adds_it_pays_for(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(60);
    config.slo_weight = 0.5;
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct constant c;
    struct aw_rehearsed each[3][2], again[2];
    constant_make(&c, &config);
    for (uint32_t k = 0; k < 3; k++) {
        c.actor.base[AW_ACTION_REPLICAS] = k == 0 ? -1.0f : k == 1 ? 0.0f : 1.0f;
        assert_ok(aw_rehearsal_play_network(r, &c.network, 5, each[k]));
    }
    assert_true(each[0][0].cost_per_hour < each[1][0].cost_per_hour);
    assert_true(each[1][0].cost_per_hour < each[2][0].cost_per_hour);
    assert_true(each[2][0].violation_share <= each[0][0].violation_share);
    assert_true(each[1][0].paper_reward > 0 && each[1][0].paper_reward < 2);
    assert_true(each[1][0].cores >= 0.1 && each[1][0].cores <= 4);
    assert_true(each[1][0].margin > 1 && each[1][0].margin < each[2][0].margin);
    assert_ok(aw_rehearsal_play_network(r, &c.network, 5, again));
    assert_memory_equal(again, each[2], sizeof again);
    c.actor.base[0] = NAN;
    assert_int_equal(aw_rehearsal_play_network(r, &c.network, 5, again), AW_ERR_DIVERGED);
    aw_actnet_deinit(&c.actor);
    aw_rehearsal_free(r);
}

static void what_a_network_does_becomes_a_capacity_rule_to_begin_with(void **state)
{
    (void)state;
    struct aw_rehearse_config config = config_of(60);
    config.settings.tries = 4;
    config.settings.tries_near = 20;
    struct aw_rehearsal *r = rehearsal_of(&config);
    struct constant c;
    struct aw_capacity_rule taught, again;
    struct aw_rehearsed each[2];
    constant_make(&c, &config);
    c.actor.base[AW_ACTION_REPLICAS] = 0.5f;
    assert_ok(aw_rehearsal_play_network(r, &c.network, 5, each));
    assert_ok(aw_rehearsal_translate(r, &c.network, 5, &taught));
    const double cores = 0.5 * (each[0].cores + each[1].cores);
    const double margin = 0.5 * (each[0].margin + each[1].margin);
    const double size = aw_capacity_rule_value(&taught, AW_CAPACITY_RULE_CPU) / cores;
    const double spare = aw_capacity_rule_value(&taught, AW_CAPACITY_RULE_MARGIN) / margin;
    assert_true(size > 0.99 && size < 2.01);
    assert_true(spare > 0.24 && spare < 1.01);
    assert_ok(aw_rehearsal_translate(r, &c.network, 5, &again));
    assert_memory_equal(&taught, &again, sizeof taught);

    /* a search from there ends no lower; where it began is told */
    struct aw_rehearse_found by_itself, from_there;
    const struct aw_rehearse_starts starts = {.taught = &taught};
    assert_ok(aw_rehearsal_search(r, &by_chance, 1, &by_itself));
    assert_ok(aw_rehearsal_search(r, &starts, 1, &from_there));
    assert_true(from_there.value <= by_itself.value || from_there.from == AW_REHEARSE_TAUGHT);
    if (from_there.from == AW_REHEARSE_DRAWN)
        assert_memory_equal(&from_there.rule, &by_itself.rule, sizeof by_itself.rule);

    c.actor.base[0] = NAN;
    assert_int_equal(aw_rehearsal_translate(r, &c.network, 5, &again), AW_ERR_DIVERGED);
    assert_memory_equal(&taught, &again, sizeof taught); /* untouched */
    aw_actnet_deinit(&c.actor);
    aw_rehearsal_free(r);
}

static void where_little_is_known_less_may_be_missed(void **state)
{
    (void)state;
    const struct aw_rehearse_config brief = config_of(60), all = config_of(MINUTES);
    struct aw_rehearsal *little = rehearsal_of(&brief), *more = rehearsal_of(&all);
    const struct aw_rehearsed each[2] = {came_of(1, 0.006), came_of(1, 0.006)};
    assert_true(aw_rehearsal_value(little, each) > aw_rehearsal_value(more, each));
    aw_rehearsal_free(little);
    aw_rehearsal_free(more);
}

static void too_little_to_go_by_is_told(void **state)
{
    (void)state;
    struct aw_copy_record nothing;
    aw_copy_begin(&nothing);
    struct aw_rehearse_config brief = config_of(AW_REHEARSE_MINUTES_MIN - 1);
    struct aw_rehearse_config unseen = config_of(60), poor = config_of(60);
    unseen.record = &nothing;
    poor.settings.error_max = 1e-6;
    static const char *const expected[] = {"minutes", "too little", "no copy"};
    const struct aw_rehearse_config *const config[] = {&brief, &unseen, &poor};
    for (size_t i = 0; i < 3; i++) {
        struct aw_alloc_counting counting;
        struct aw_rehearsal *r = NULL;
        struct aw_diag diag = {0};
        aw_alloc_counting_init(&counting);
        assert_int_equal(aw_rehearsal_new(config[i], &counting.alloc, &r, &diag), AW_ERR_NODATA);
        assert_null(r);
        assert_non_null(strstr(diag.text, expected[i]));
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    struct aw_rehearse_config wrong = config_of(60);
    struct aw_rehearsal *r = NULL;
    wrong.bounds.replicas_min = 30;
    assert_int_equal(aw_rehearsal_new(&wrong, NULL, &r, NULL), AW_ERR_CONFIG);
    assert_null(r);
}

static void lack_of_memory_is_told_and_leaves_nothing_behind(void **state)
{
    (void)state;
    const struct aw_rehearse_config config = config_of(60);
    for (uint64_t n = 0;; n++) {
        assert_true(n < 200);
        struct aw_alloc_counting counting;
        struct aw_rehearsal *r = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err = aw_rehearsal_new(&config, &counting.alloc, &r, NULL);
        if (err) {
            assert_int_equal(err, AW_ERR_NOMEM);
            assert_null(r);
        } else { /* all memory is there: playing takes no more */
            struct aw_capacity_rule plain;
            struct aw_rehearsed each[2];
            const uint64_t made = counting.alloc_count;
            aw_capacity_rule_plain(&plain);
            assert_ok(aw_rehearsal_play(r, &plain, 1, each));
            assert_int_equal(counting.alloc_count, made);
        }
        aw_rehearsal_free(r);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
    }
    aw_rehearsal_free(NULL);
}

/* A record of medians: copies that are fitted to it as if it were of another quantile are off. */
static void copies_are_fitted_to_the_quantile_of_the_slo(void **state)
{
    (void)state;
    static struct life half;
    static const double quantile[] = {0.5, 0.99};
    double error[2];
    live_at(3, 1, 0.5, &half);
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_rehearse_config config = config_of(MINUTES);
        config.record = &half.record;
        config.slo.quantile = quantile[i];
        config.settings.error_max = 10;
        struct aw_rehearsal *rehearsal = rehearsal_of(&config);
        error[i] = aw_rehearsal_error(rehearsal);
        aw_rehearsal_free(rehearsal);
    }
    assert_true(error[0] < 0.5 * error[1]);
}

static void need_is_of_the_load_and_the_unknown_counts_for_nothing(void **state)
{
    (void)state;
    const struct aw_prices prices = {.core_hour = 0.04, .gib_hour = 0.005};
    const struct aw_bounds bounds = {.min = {2, 250, AW_MIB}, .max = {20, 4000, 8192 * AW_MIB}};
    const double gib = 1073741824.0;
    static const struct {
        double cores, gib, need;
        const char *why;
    } row[] = {
        {3, 2, 0.04 * 6 + 0.005 * 6 * 2, "twice the CPU used, and the memory of as many replicas"},
        {0, 2, 0.04 * 0.5 + 0.005 * 1 * 2, "the least that the bounds allow"},
        {NAN, 2, 0.04 * 0.5 + 0.005 * 2, "CPU is not known"},
        {3, NAN, 0.04 * 6, "memory is not known"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct aw_reading reading = {.cpu_cores_used = row[i].cores,
                                           .memory_bytes_used = row[i].gib * gib};
        const double need = aw_need_per_hour(&prices, &bounds, &reading);
        if (!(fabs(need - row[i].need) < 1e-12))
            fail_msg("%s: %g instead of %g", row[i].why, need, row[i].need);
    }
}

AW_TEST_GROUP("rehearse")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds_what_is_better_than_the_plain_capacity_rule),
        cmocka_unit_test(a_search_is_repeatable_and_keeps_what_is_known_to_be_good),
        cmocka_unit_test(a_search_begins_at_the_best_of_what_others_have_lived),
        cmocka_unit_test(what_others_lived_counts_less_the_longer_the_record_is),
        cmocka_unit_test(copies_are_busier_where_the_load_grows),
        cmocka_unit_test(a_play_is_a_function_of_capacity_rule_and_seed),
        cmocka_unit_test(a_copy_that_was_busier_than_the_past_can_be_as_busy_as_it),
        cmocka_unit_test(costs_are_compared_with_needs_episode_by_episode),
        cmocka_unit_test(a_fallback_plays_too_and_begins_anew_each_time),
        cmocka_unit_test(missing_the_target_is_dearer_than_any_saving_it_brings),
        cmocka_unit_test(sizes_that_are_not_controlled_stay_whoever_plays),
        cmocka_unit_test(a_network_plays_too_and_what_it_adds_it_pays_for),
        cmocka_unit_test(what_a_network_does_becomes_a_capacity_rule_to_begin_with),
        cmocka_unit_test(where_little_is_known_less_may_be_missed),
        cmocka_unit_test(too_little_to_go_by_is_told),
        cmocka_unit_test(lack_of_memory_is_told_and_leaves_nothing_behind),
        cmocka_unit_test(copies_are_fitted_to_the_quantile_of_the_slo),
        cmocka_unit_test(need_is_of_the_load_and_the_unknown_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
