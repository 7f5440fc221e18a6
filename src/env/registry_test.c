#include "base/alloc.h"
#include "base/testing.h"

#include <aware/env.h>

#include <stdint.h>
#include <string.h>

static void every_builtin_is_found_by_its_name(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++, count++) {
        const struct aw_env_factory *found = NULL;
        assert_ok(aw_env_find((*f)->spec->name, &found, NULL));
        assert_ptr_equal(found, *f);
        struct aw_env env;
        assert_ok(aw_env_make((*f)->spec->name, &env, NULL));
        assert_string_equal(env.spec->name, (*f)->spec->name);
        assert_int_equal(env.spec->observation.dim, (*f)->spec->observation.dim);
        assert_int_equal(env.spec->action.dim, (*f)->spec->action.dim);
        assert_int_equal(env.spec->state_bytes, (*f)->spec->state_bytes);
        aw_env_free(&env);
        assert_null(env.self);
        aw_env_free(&env);
    }
    assert_int_equal(count, 6);
}

static void an_unknown_name_gets_the_nearest_and_the_list(void **state)
{
    (void)state;
    struct aw_diag diag;
    struct aw_env env = {0};
    assert_int_equal(aw_env_make("cartpole-v2", &env, &diag), AW_ERR_NOTFOUND);
    assert_null(env.ops);
    assert_non_null(strstr(diag.text, "\"cartpole-v2\" (did you mean cartpole-v1?)"));
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++)
        assert_non_null(strstr(diag.text, (*f)->spec->name));
    assert_int_equal(aw_env_make("zzzzzzzzzzzz", &env, &diag), AW_ERR_NOTFOUND);
    assert_null(strstr(diag.text, "did you mean"));
    assert_int_equal(aw_env_make("", &env, NULL), AW_ERR_NOTFOUND);
}

static void an_environment_gives_back_what_it_took_wherever_memory_ends(void **state)
{
    (void)state;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++) {
        struct aw_alloc_counting counting;
        enum aw_err err = AW_ERR_NOMEM;
        for (uint64_t budget = 0; err; budget++) {
            struct aw_env env = {0};
            struct aw_diag diag;
            assert_true(budget < 32);
            aw_alloc_counting_init(&counting);
            counting.fail_after = budget;
            err = (*f)->make(&counting.alloc, &env, &diag);
            assert_true(err == AW_OK || err == AW_ERR_NOMEM);
            assert_true(err == AW_OK || !env.self);
            aw_env_free(&env);
            assert_int_equal(counting.free_count, counting.alloc_count);
        }
    }
}

static void options_are_laid_over_the_defaults(void **state)
{
    (void)state;
    const char *const pairs[] = {"history=2", "episode_steps=7"};
    struct aw_env env;
    assert_ok(aw_env_make_with("autoscale-v0", pairs, 2, NULL, &env, NULL));
    const struct aw_env_factory *factory = NULL;
    assert_ok(aw_env_find("autoscale-v0", &factory, NULL));
    assert_int_equal(env.spec->observation.dim, 3 * factory->spec->observation.dim);
    assert_int_equal(env.spec->episode_steps_max, 7);
    aw_env_free(&env);
    assert_ok(aw_env_make_with("cartpole-v1", NULL, 0, NULL, &env, NULL));
    aw_env_free(&env);
}

static void an_option_that_does_not_exist_is_named(void **state)
{
    (void)state;
    const struct {
        const char *env, *pair, *text, *why;
    } cases[] = {
        {"autoscale-v0", "histroy=2", "did you mean \"history\"", "a typing error"},
        {"autoscale-v0", "history=99", "from 0 to 16", "beyond its bounds"},
        {"autoscale-v0", "history", "history", "no value"},
        {"cartpole-v1", "gravity=1", "cartpole-v1 has no options", "it has none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_env env = {0};
        struct aw_diag diag;
        if (aw_env_make_with(cases[i].env, &cases[i].pair, 1, NULL, &env, &diag) != AW_ERR_CONFIG ||
            !strstr(diag.text, cases[i].text))
            fail_msg("%s: %s", cases[i].why, diag.text);
        assert_null(env.self);
    }
}

AW_TEST_GROUP("env-registry")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_builtin_is_found_by_its_name),
        cmocka_unit_test(an_unknown_name_gets_the_nearest_and_the_list),
        cmocka_unit_test(an_environment_gives_back_what_it_took_wherever_memory_ends),
        cmocka_unit_test(options_are_laid_over_the_defaults),
        cmocka_unit_test(an_option_that_does_not_exist_is_named),
    };
    return cmocka_run_group_tests_name("env-registry", tests, NULL, NULL);
}
