/* library_test.c - what others have lived: chosen by likeness, prices and budget. */
#include "policy/library.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "policy/capacity.h"
#include "task/testing.h"

enum { THRIFTY, MIDDLE, LAVISH, RULES };
#define APPS 40u
#define PRICES                               \
    {                                        \
        .core_hour = 0.04, .gib_hour = 0.005 \
    }

/* Two kinds of applications, far apart: in the first the thrifty rule all but keeps the budget, in
 * the second it misses a tenth of all steps. The middle rule has less CPU and more memory. */
static void fill(struct aw_library *library)
{
    assert_ok(aw_library_alloc(library, RULES, APPS, NULL));
    for (uint32_t r = 0; r < RULES; r++) {
        aw_capacity_rule_plain(&library->rule[r]);
        library->rule[r].x[AW_CAPACITY_RULE_MARGIN] = 0.1 + 0.3 * r;
    }
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (uint32_t app = 0; app < APPS; app++) {
        const bool second = app % 2;
        for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
            library->context[app][i] =
                (float)((second ? 5 : 0) + 0.3 * aw_rng_double(&rng)); /* a little apart */
        struct aw_library_lived *row = &library->lived[(size_t)app * RULES];
        row[THRIFTY] = (struct aw_library_lived){1, 1, second ? 0.1f : 0.012f};
        row[MIDDLE] = (struct aw_library_lived){1.5f, 4, 0.006f};
        row[LAVISH] = (struct aw_library_lived){2, 2, 0.0005f};
    }
    aw_library_prepare(library);
}

static uint32_t choice(const struct aw_library *library, float at, struct aw_prices prices,
                       double budget, uint32_t level, struct aw_library_choice *ret)
{
    float context[AW_CONTEXT_DIM];
    struct aw_library_choice chosen;
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        context[i] = at;
    aw_library_choose(library,
                      &(struct aw_library_ask){.context = context,
                                               .prices = prices,
                                               .budget = budget,
                                               .level = level,
                                               .but = UINT32_MAX},
                      &chosen);
    if (ret)
        *ret = chosen;
    return chosen.rule;
}

static void the_nearest_say_what_is_cheapest_within_the_budget(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    const struct aw_prices prices = PRICES;
    assert_int_equal(choice(&library, 0.1f, prices, 0.01, 0, NULL), THRIFTY);
    assert_int_equal(choice(&library, 5.1f, prices, 0.01, 0, NULL), MIDDLE);
    /* one table for any price and any budget */
    const struct aw_prices dear_memory = {.core_hour = 0.04, .gib_hour = 0.1};
    assert_int_equal(choice(&library, 5.1f, dear_memory, 0.01, 0, NULL), LAVISH);
    assert_int_equal(choice(&library, 5.1f, prices, 0.001, 0, NULL), LAVISH);
    assert_int_equal(choice(&library, 5.1f, prices, 0.2, 0, NULL), THRIFTY);
    aw_library_deinit(&library);
}

static void what_is_expected_says_why_a_rule_is_chosen(void **state)
{
    (void)state;
    struct aw_library library;
    struct aw_library_expected of[RULES];
    float context[AW_CONTEXT_DIM];
    fill(&library);
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        context[i] = 5.1f;
    const struct aw_library_ask ask = {
        .context = context, .prices = PRICES, .budget = 0.01, .but = UINT32_MAX};
    aw_library_expect(&library, &ask, of);
    assert_true(of[THRIFTY].cost < of[MIDDLE].cost && of[MIDDLE].cost < of[LAVISH].cost);
    assert_true(of[THRIFTY].price > 1 && of[MIDDLE].price == 0); /* a tenth is missed; nothing */
    assert_close(of[MIDDLE].cost, 0, 1e-9); /* of those that keep the budget the cheapest */
    assert_true(of[THRIFTY].cost + of[THRIFTY].weight * of[THRIFTY].price >
                of[MIDDLE].cost + of[MIDDLE].weight * of[MIDDLE].price);
    aw_library_deinit(&library);
}

static void far_from_all_that_is_known_the_careful_one_acts(void **state)
{
    (void)state;
    struct aw_library library;
    struct aw_library_choice chosen;
    fill(&library);
    const struct aw_prices prices = PRICES;
    choice(&library, 0.1f, prices, 0.01, 0, &chosen);
    assert_true(chosen.distance <= 1);
    assert_int_equal(chosen.level, 0);
    choice(&library, 60, prices, 0.01, 0, &chosen);
    assert_true(chosen.distance > 3);
    assert_int_equal(chosen.level, AW_LIBRARY_LEVELS - 1);
    choice(&library, NAN, prices, 0.01, 0, &chosen); /* nothing was seen at all */
    assert_int_equal(chosen.level, AW_LIBRARY_LEVELS - 1);
    assert_true(chosen.rule != THRIFTY);
    aw_library_deinit(&library);
}

/* Row 0 and row APPS / 2 are one application under two loads, alike to the last digit. */
static void an_application_is_left_out_under_all_its_loads(void **state)
{
    (void)state;
    struct aw_library library;
    struct aw_library_choice chosen;
    fill(&library);
    memcpy(library.context[APPS / 2], library.context[0], sizeof library.context[0]);
    const struct aw_library_ask ask = {
        .context = library.context[0], .prices = PRICES, .budget = 0.01, .but = 0};
    aw_library_choose(&library, &ask, &chosen);
    assert_true(chosen.distance == 0);
    library.distinct = APPS / 2;
    aw_library_choose(&library, &ask, &chosen);
    assert_true(chosen.distance > 0);
    aw_library_deinit(&library);
}

static void what_is_not_known_of_a_workload_is_left_out(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    float context[AW_CONTEXT_DIM];
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        context[i] = i % 3 ? 5.1f : NAN;
    struct aw_library_choice chosen;
    aw_library_choose(&library,
                      &(struct aw_library_ask){
                          .context = context, .prices = PRICES, .budget = 0.01, .but = UINT32_MAX},
                      &chosen);
    assert_int_equal(chosen.rule, MIDDLE);
    aw_library_deinit(&library);
}

static void a_file_comes_back_the_same_and_damage_is_refused(void **state)
{
    (void)state;
    struct aw_library library, back = {0};
    char path[] = "/tmp/aware-library-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fill(&library);
    library.context[3][2] = NAN;
    library.distinct = APPS / 2;
    aw_library_prepare(&library);
    const struct aw_library_note note = {"command", "a test"};
    assert_ok(aw_library_save(&library, path, &note, 1, NULL));
    assert_ok(aw_library_open(path, NULL, &back, NULL));
    assert_true(back.rules == RULES && back.apps == APPS && back.near == library.near);
    assert_int_equal(back.distinct, APPS / 2);
    assert_memory_equal(back.rule, library.rule, RULES * sizeof *back.rule);
    assert_memory_equal(back.lived, library.lived, (size_t)APPS * RULES * sizeof *back.lived);
    assert_true(isnan(back.context[3][2]));
    aw_library_deinit(&back);

    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -9, SEEK_END), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -9, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    struct aw_diag diag = {0};
    assert_int_equal(aw_library_open(path, NULL, &back, &diag), AW_ERR_FORMAT);
    assert_true(diag.text[0]);
    assert_null(back.rule);
    unlink(path);
    aw_library_deinit(&library);
}

/* --- the policy that begins with it ------------------------------------------------------------
 */

static struct aw_action action;

static struct aw_policy begin(const struct aw_library *library)
{
    const struct aw_policy_task task = {
        .need = {.bounds = aw_testing_bounds, .budget = 0.01},
        .action = &action,
        .slo = {.latency_us_p99 = 1e5, .quantile = 0.99},
        .prices = PRICES,
        .step_s = 15,
        .library = library,
    };
    struct aw_policy policy;
    assert_ok(aw_policy_new(&aw_capacity_ops, &task, NULL, &policy));
    return policy;
}

static void watch(const struct aw_policy *policy, const struct aw_reading *reading, bool missed,
                  bool acted)
{
    const struct aw_policy_seen seen = {
        .reading = reading, .latency_us_p50 = 2e4, .violated = missed, .acted = acted};
    policy->ops->observe(policy->self, &seen);
}

static void after_ten_minutes_there_is_a_policy(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    struct aw_policy policy = begin(&library);
    const struct aw_reading reading = aw_testing_reading(0);
    for (uint32_t t = 0; t < 39; t++) {
        watch(&policy, &reading, false, false);
        assert_true(policy.ops->learned(policy.self) == 0);
        assert_null(policy.ops->known(policy.self));
    }
    watch(&policy, &reading, false, false);
    const struct aw_policy_known *known = policy.ops->known(policy.self);
    assert_non_null(known);
    assert_true(known->checksum == library.checksum);
    assert_true(policy.ops->learned(policy.self) != 0);
    aw_policy_free(&policy);
    aw_library_deinit(&library);
}

static void a_workload_that_sleeps_has_a_policy_too_and_is_asked_again_when_it_wakes(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    struct aw_policy policy = begin(&library);
    struct aw_reading reading = aw_testing_reading(0);
    reading.arrivals_per_s = reading.completions_per_s = reading.cpu_cores_used = 0;
    uint32_t at = 0;
    while (!policy.ops->known(policy.self) && at < 100)
        watch(&policy, &reading, false, false), at++;
    assert_int_equal(at, 56); /* fourteen minutes */
    assert_true(((struct aw_capacity *)policy.self)->memory.sure == 0);
    reading = aw_testing_reading(0);
    for (uint32_t t = 0; t < 10; t++)
        watch(&policy, &reading, false, true);
    assert_true(((struct aw_capacity *)policy.self)->memory.sure == 1);
    aw_policy_free(&policy);
    aw_library_deinit(&library);
}

static void misses_again_and_again_ask_for_more_careful_numbers(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    struct aw_policy policy = begin(&library);
    struct aw_capacity *capacity = policy.self;
    capacity->memory.sure = 1; /* the first kind of workload */
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        capacity->memory.seen[i] = 0.1f;
    capacity->memory.prices = capacity->task.prices;
    capacity->memory.budget = capacity->task.need.budget;
    capacity->memory.slo_latency_us = capacity->task.slo.latency_us_p99;
    aw_capacity_set(capacity, &library.rule[THRIFTY], aw_capacity_rule_id(&library.rule[THRIFTY]));
    capacity->memory.known.checksum = library.checksum;
    const struct aw_reading reading = aw_testing_reading(0);
    for (uint32_t t = 0; t < 400; t++) /* one in forty is chance */
        watch(&policy, &reading, t % 40 == 0, true);
    assert_int_equal(policy.ops->known(policy.self)->switches, 0);
    for (uint32_t t = 0; t < 40; t++) /* somebody else's misses are not its own */
        watch(&policy, &reading, true, false);
    assert_int_equal(policy.ops->known(policy.self)->switches, 0);
    for (uint32_t t = 0; t < 12; t++)
        watch(&policy, &reading, true, true);
    assert_int_equal(policy.ops->known(policy.self)->switches, 1);
    assert_true(capacity->memory.id != aw_capacity_rule_id(&library.rule[THRIFTY]));
    aw_policy_free(&policy);
    aw_library_deinit(&library);
}

/* A policy that was searched for, acted, and was set aside: others have lived better ones. */
static void what_failed_gives_way_to_what_others_have_lived(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    struct aw_policy policy = begin(&library);
    struct aw_capacity *capacity = policy.self;
    const struct aw_reading reading = aw_testing_reading(0);
    for (uint32_t t = 0; t < 40; t++)
        watch(&policy, &reading, false, false);
    struct aw_capacity_rule searched = library.rule[THRIFTY];
    searched.x[0] += 0.01;
    aw_capacity_set(capacity, &searched, aw_capacity_rule_id(&searched));
    const struct aw_policy_seen seen = {
        .reading = &reading, .latency_us_p50 = 2e4, .violated = true, .set_aside = true};
    policy.ops->observe(policy.self, &seen);
    assert_true(capacity->memory.id == aw_capacity_rule_id(&searched)); /* it never acted */
    watch(&policy, &reading, true, true);
    policy.ops->observe(policy.self, &seen);
    assert_non_null(policy.ops->known(policy.self));
    assert_true(policy.ops->known(policy.self)->level > 0);
    const uint64_t chosen = capacity->memory.id;
    assert_true(chosen != aw_capacity_rule_id(&searched));
    policy.ops->observe(policy.self, &seen); /* once for every time that it failed */
    assert_true(capacity->memory.id == chosen);
    aw_policy_free(&policy);
    aw_library_deinit(&library);
}

static void other_prices_ask_for_other_numbers(void **state)
{
    (void)state;
    struct aw_library library;
    fill(&library);
    struct aw_policy policy = begin(&library);
    struct aw_capacity *capacity = policy.self;
    const struct aw_reading reading = aw_testing_reading(0);
    for (uint32_t t = 0; t < 40; t++)
        watch(&policy, &reading, false, false);
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++) /* the second kind of workload */
        capacity->memory.seen[i] = 5.1f;
    capacity->task.need.budget = 0.0101;
    watch(&policy, &reading, false, true);
    assert_true(capacity->memory.id == aw_capacity_rule_id(&library.rule[MIDDLE]));
    watch(&policy, &reading, false, true); /* asked once, not in every step */
    assert_int_equal(capacity->memory.since, 2);
    capacity->task.prices.gib_hour = 0.1; /* as a new profile has it */
    watch(&policy, &reading, false, true);
    assert_true(capacity->memory.id == aw_capacity_rule_id(&library.rule[LAVISH]));
    aw_policy_free(&policy);
    aw_library_deinit(&library);
}

AW_TEST_GROUP("library")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_say_what_is_cheapest_within_the_budget),
        cmocka_unit_test(what_is_expected_says_why_a_rule_is_chosen),
        cmocka_unit_test(far_from_all_that_is_known_the_careful_one_acts),
        cmocka_unit_test(an_application_is_left_out_under_all_its_loads),
        cmocka_unit_test(what_is_not_known_of_a_workload_is_left_out),
        cmocka_unit_test(a_file_comes_back_the_same_and_damage_is_refused),
        cmocka_unit_test(after_ten_minutes_there_is_a_policy),
        cmocka_unit_test(a_workload_that_sleeps_has_a_policy_too_and_is_asked_again_when_it_wakes),
        cmocka_unit_test(misses_again_and_again_ask_for_more_careful_numbers),
        cmocka_unit_test(what_failed_gives_way_to_what_others_have_lived),
        cmocka_unit_test(other_prices_ask_for_other_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
