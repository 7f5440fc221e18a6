/* library_teach_test.c - a small library, made twice. */
#include "pretrain/library_teach.h"

#include <math.h>

#include "base/testing.h"

#define APPS 6u

static enum aw_err load_make(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                             struct aw_load *ret, struct aw_diag *diag)
{
    (void)ctx;
    return aw_load_parse("diurnal:mean=20,period=3600,length=7200", app, alloc, ret, diag);
}

static bool count(void *ctx, uint32_t done, uint32_t total)
{
    uint32_t *calls = ctx;
    assert_true(done <= total);
    ++*calls;
    return true;
}

static bool stop(void *ctx, uint32_t done, uint32_t total)
{
    (void)ctx;
    (void)total;
    return done < 2;
}

static struct aw_library_teach_config config_of(uint32_t threads)
{
    struct aw_library_teach_config config;
    aw_library_teach_config_init(&config);
    config.pool = (struct aw_pretrain_pool){.seed = 1, .first = 3, .count = APPS};
    config.load_make = load_make;
    config.rules = 4;
    config.tries = 20;
    config.simulate.thread_count = threads;
    return config;
}

static void a_library_is_lived_and_does_not_depend_on_threads(void **state)
{
    (void)state;
    struct aw_library one, two;
    uint32_t calls = 0;
    struct aw_library_teach_config config = config_of(1);
    assert_ok(aw_library_teach(&config, count, &calls, NULL, &one, NULL));
    config = config_of(2);
    assert_ok(aw_library_teach(&config, NULL, NULL, NULL, &two, NULL));
    assert_true(calls >= 2 * APPS);
    assert_true(one.rules == 4 && one.apps == 2 * APPS && one.distinct == APPS);
    assert_true(one.checksum == two.checksum);
    assert_memory_equal(one.lived, two.lived, sizeof *one.lived * one.apps * 4);
    for (uint32_t i = 0; i < one.apps * 4; i++) {
        assert_true(one.lived[i].cores > 0 && one.lived[i].gib > 0);
        assert_true(one.lived[i].missed >= 0 && one.lived[i].missed <= 1);
    }
    for (uint32_t app = 0; app < one.apps; app++) /* everybody was served within minutes */
        assert_false(isnan(one.context[app][AW_CONTEXT_REQUEST_CPU]));
    /* another load shows in the context of the same application */
    assert_memory_not_equal(one.context[0], one.context[APPS], sizeof one.context[0]);
    /* the rules of a library are others; the most careful choice misses no more */
    assert_memory_not_equal(&one.rule[0], &one.rule[1], sizeof one.rule[0]);
    struct aw_library_left_out plain, careful;
    const struct aw_prices prices = {.core_hour = 0.04, .gib_hour = 0.005};
    aw_library_left_out(&one, &prices, 0.01, 0, &plain);
    aw_library_left_out(&one, &prices, 0.01, 2, &careful);
    assert_true(plain.cost >= 1 && careful.missed <= plain.missed + 1e-9);
    aw_library_deinit(&one);
    aw_library_deinit(&two);
}

static void it_stops_when_told_to_and_leaves_nothing(void **state)
{
    (void)state;
    struct aw_library library = {0};
    const struct aw_library_teach_config config = config_of(1);
    assert_int_equal(aw_library_teach(&config, stop, NULL, NULL, &library, NULL),
                     AW_ERR_INTERRUPTED);
    assert_null(library.rule);
}

AW_TEST_GROUP("library-teach")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_lived_and_does_not_depend_on_threads),
        cmocka_unit_test(it_stops_when_told_to_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
