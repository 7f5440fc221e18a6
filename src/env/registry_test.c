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
        assert_ptr_equal(env.spec, (*f)->spec);
        aw_env_free(&env);
        assert_null(env.self);
        aw_env_free(&env);
    }
    assert_int_equal(count, 4);
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

static void an_environment_allocates_once_and_gives_it_back(void **state)
{
    (void)state;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        struct aw_env env;
        assert_ok((*f)->make(&counting.alloc, &env, NULL));
        assert_int_equal(counting.alloc_count, 1);
        aw_env_free(&env);
        assert_int_equal(counting.free_count, 1);
        counting.fail_after = 0;
        struct aw_diag diag;
        assert_int_equal((*f)->make(&counting.alloc, &env, &diag), AW_ERR_NOMEM);
        assert_null(env.self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_builtin_is_found_by_its_name),
        cmocka_unit_test(an_unknown_name_gets_the_nearest_and_the_list),
        cmocka_unit_test(an_environment_allocates_once_and_gives_it_back),
    };
    return cmocka_run_group_tests_name("env-registry", tests, NULL, NULL);
}
