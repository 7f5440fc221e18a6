/* session_test.c - sessions give what aw_vec gives, and refuse what would be a bug inside. */
#include "rpc/session.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/space.h"
#include "base/testing.h"
#include "env/vec.h"

#define COPIES 5u
#define STEPS  450u /* beyond two episodes of the pendulum */
#define BYTES  (4u << 20)

static void open_named(struct aw__session *s, const char *name, uint32_t count)
{
    struct aw_diag diag = {0};
    if (aw__session_open(s, name, NULL, 0, count, BYTES, NULL, &diag))
        fail_msg("%s", diag.text);
}

/* Rows of next_obs that ended, as a session keeps them. */
static void compare_ends(const struct aw__session *s, const struct aw_vec *vec)
{
    const size_t dim = vec->spec->observation.dim;
    uint32_t final = 0, terminated = 0, truncated = 0;
    for (uint32_t i = 0; i < vec->count; i++) {
        if (vec->terminated[i])
            assert_int_equal(s->terminated[terminated++], i);
        if (vec->truncated[i])
            assert_int_equal(s->truncated[truncated++], i);
        if (vec->terminated[i] || vec->truncated[i])
            assert_memory_equal(s->final_obs + final++ * dim, vec->next_obs + i * dim,
                                dim * sizeof(float));
    }
    assert_int_equal(s->terminated_count, terminated);
    assert_int_equal(s->truncated_count, truncated);
    assert_int_equal(s->final_count, final);
}

static void a_session_gives_the_bytes_of_the_vectoriser(void **state)
{
    static const char *const names[] = {"pendulum-v1", "cartpole-v1"};
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        const struct aw_env_factory *factory;
        struct aw__session s;
        struct aw_vec vec;
        struct aw_rng rng;
        uint32_t ends = 0;
        assert_ok(aw_env_find(names[n], &factory, NULL));
        assert_ok(aw_vec_init(&vec, factory, COPIES, NULL, NULL, NULL));
        assert_ok(aw_vec_reset(&vec, 7, NULL));
        open_named(&s, names[n], COPIES);
        assert_ok(aw__session_reset(&s, &(struct aw__session_reset){.seed = 7}, NULL));
        const size_t rows = COPIES * vec.spec->observation.dim * sizeof(float);
        const size_t actions = (size_t)COPIES * vec.spec->action.dim;
        aw_rng_init(&rng, 1, 1);
        for (uint32_t k = 0; k < STEPS; k++) {
            assert_memory_equal(s.obs, vec.obs, rows);
            for (uint32_t i = 0; i < COPIES; i++)
                aw_space_sample(&vec.spec->action, &rng, vec.action + i * vec.spec->action.dim);
            assert_ok(aw__session_step(&s, vec.action, actions, NULL));
            assert_ok(aw_vec_step(&vec, NULL));
            assert_memory_equal(s.reward, vec.reward, COPIES * sizeof(float));
            compare_ends(&s, &vec);
            ends += vec.finished_count;
        }
        assert_true(ends >= 2 * COPIES);
        aw__session_close(&s);
        aw_vec_deinit(&vec);
    }
}

static void a_copy_that_ended_waits_for_its_reset(void **state)
{
    struct aw__session s;
    struct aw_diag diag = {0};
    float action[2] = {0};
    const uint32_t second = 1;
    (void)state;
    open_named(&s, "pendulum-v1", 2);
    const struct aw__session_reset all = {.seed = 3, .manual = true};
    const struct aw__session_reset one = {.manual = true, .only = &second, .only_count = 1};
    assert_int_equal(aw__session_step(&s, action, 2, &diag), AW_ERR_CONFLICT);
    assert_int_equal(aw__session_reset(&s, &one, &diag), AW_ERR_CONFLICT);
    assert_ok(aw__session_reset(&s, &all, NULL));
    for (uint32_t k = 0; k < 100; k++)
        assert_ok(aw__session_step(&s, action, 2, NULL));
    assert_ok(aw__session_reset(&s, &one, NULL)); /* the second is a hundred steps behind now */
    for (uint32_t k = 0; k < 100; k++)
        assert_ok(aw__session_step(&s, action, 2, NULL));
    assert_int_equal(s.truncated_count, 1);
    assert_int_equal(s.truncated[0], 0);
    assert_int_equal(s.final_count, 0);
    assert_int_equal(aw__session_step(&s, action, 2, &diag), AW_ERR_CONFLICT);
    const uint32_t first = 0;
    const struct aw__session_reset again = {.manual = true, .only = &first, .only_count = 1};
    assert_ok(aw__session_reset(&s, &again, NULL));
    assert_ok(aw__session_step(&s, action, 2, NULL));
    aw__session_close(&s);
}

/* The episodes are those of copies that reset themselves at once, with a step between two of them
 * that nobody's action decides. */
static void a_copy_that_ended_begins_in_the_place_of_its_next_step(void **state)
{
    struct aw__session s, at_once;
    struct aw_diag diag = {0};
    const uint32_t second = 1;
    float action[2] = {0.5f, -0.5f};
    (void)state;
    open_named(&s, "pendulum-v1", 2);
    open_named(&at_once, "pendulum-v1", 2);
    const struct aw__session_reset how = {.seed = 3, .next_step = true};
    const struct aw__session_reset only = {.next_step = true, .only = &second, .only_count = 1};
    assert_ok(aw__session_reset(&s, &how, NULL));
    assert_int_equal(aw__session_reset(&s, &only, &diag), AW_ERR_FORMAT);
    assert_ok(aw__session_reset(&at_once, &(struct aw__session_reset){.seed = 3}, NULL));
    for (uint32_t episode = 0; episode < 3; episode++) {
        for (uint32_t k = 0; k < 200; k++) {
            assert_ok(aw__session_step(&s, action, 2, NULL));
            assert_ok(aw__session_step(&at_once, action, 2, NULL));
            assert_memory_equal(s.reward, at_once.reward, 2 * sizeof(float));
        }
        assert_int_equal(s.truncated_count, 2);
        assert_int_equal(s.final_count, 0);
        assert_memory_equal(s.obs, at_once.final_obs, 6 * sizeof(float)); /* the last of the old */
        assert_ok(aw__session_step(&s, action, 2, NULL));
        assert_int_equal(s.truncated_count, 0);
        assert_true(s.reward[0] == 0 && s.reward[1] == 0);
        assert_memory_equal(s.obs, at_once.obs, 6 * sizeof(float)); /* the first of the new */
    }
    aw__session_close(&s);
    aw__session_close(&at_once);
}

static void an_exact_seed_is_the_seed_of_the_environment_itself(void **state)
{
    struct aw__session s;
    struct aw_env env;
    float obs[3];
    (void)state;
    open_named(&s, "pendulum-v1", 2);
    assert_ok(aw__session_reset(&s, &(struct aw__session_reset){.seed = 41, .exact = true}, NULL));
    assert_ok(aw_env_make("pendulum-v1", &env, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(env.ops->reset(env.self, 41 + i, obs));
        assert_memory_equal(s.obs + i * 3, obs, sizeof obs);
    }
    aw_env_free(&env);
    aw__session_close(&s);
}

static void what_no_step_takes_moves_nothing(void **state)
{
    struct aw__session s;
    struct aw_diag diag = {0};
    float before[6], action[2] = {0.5f, NAN};
    (void)state;
    open_named(&s, "pendulum-v1", 2);
    assert_ok(aw__session_reset(&s, &(struct aw__session_reset){.seed = 1}, NULL));
    memcpy(before, s.obs, sizeof before);
    assert_int_equal(aw__session_step(&s, action, 2, &diag), AW_ERR_RANGE);
    assert_non_null(strstr(diag.text, "copy 1"));
    assert_int_equal(aw__session_step(&s, action, 1, &diag), AW_ERR_FORMAT);
    assert_int_equal(aw__session_step(&s, action, 3, &diag), AW_ERR_FORMAT);
    assert_memory_equal(s.obs, before, sizeof before);
    action[1] = 0;
    assert_ok(aw__session_step(&s, action, 2, NULL));
    aw__session_close(&s);
}

static void copies_to_reset_are_ascending_and_exist(void **state)
{
    static const struct {
        uint32_t only[2];
        bool manual;
        const char *why;
    } cases[] = {
        {{1, 1}, true, "twice the same"},
        {{2, 1}, true, "descending"},
        {{0, 3}, true, "one that is not there"},
        {{0, 1}, false, "they reset themselves"},
    };
    struct aw__session s;
    struct aw_diag diag = {0};
    (void)state;
    open_named(&s, "pendulum-v1", 3);
    assert_ok(aw__session_reset(&s, &(struct aw__session_reset){.manual = true}, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw__session_reset how = {
            .manual = cases[i].manual, .only = cases[i].only, .only_count = 2};
        if (aw__session_reset(&s, &how, &diag) != AW_ERR_FORMAT)
            fail_msg("%s was taken", cases[i].why);
    }
    aw__session_close(&s);
}

static void a_session_that_cannot_be_made_leaves_nothing(void **state)
{
    struct aw__session s;
    struct aw_diag diag = {0};
    const char *pair = "no_such=1";
    (void)state;
    assert_int_equal(aw__session_open(&s, "nothing-v9", NULL, 0, 1, BYTES, NULL, &diag),
                     AW_ERR_NOTFOUND);
    assert_int_equal(aw__session_open(&s, "pendulum-v1", &pair, 1, 1, BYTES, NULL, &diag),
                     AW_ERR_CONFIG);
    assert_int_equal(aw__session_open(&s, "pendulum-v1", NULL, 0, 0, BYTES, NULL, &diag),
                     AW_ERR_LIMIT);
    assert_int_equal(aw__session_open(&s, "pendulum-v1", NULL, 0, AW__SESSION_COPIES_MAX + 1, BYTES,
                                      NULL, &diag),
                     AW_ERR_LIMIT);
    assert_int_equal(aw__session_open(&s, "pendulum-v1", NULL, 0, 256, 4096, NULL, &diag),
                     AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "at most"));
    aw__session_close(&s);
}

static void memory_that_ends_is_an_error_and_leaks_nothing(void **state)
{
    struct aw_alloc_counting counting;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    for (uint64_t n = 0; err; n++) {
        struct aw__session s;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw__session_open(&s, "cartpole-v1", NULL, 0, 3, BYTES, &counting.alloc, NULL);
        assert_true(!err || err == AW_ERR_NOMEM);
        if (!err) { /* and then nothing more is taken */
            const uint64_t made = counting.alloc_count;
            const float action[3] = {0, 1, 0};
            assert_ok(aw__session_reset(&s, &(struct aw__session_reset){.seed = 1}, NULL));
            for (uint32_t k = 0; k < 100; k++)
                assert_ok(aw__session_step(&s, action, 3, NULL));
            assert_int_equal(counting.alloc_count, made);
        }
        aw__session_close(&s);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

AW_TEST_GROUP("rpc-session")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_gives_the_bytes_of_the_vectoriser),
        cmocka_unit_test(a_copy_that_ended_waits_for_its_reset),
        cmocka_unit_test(a_copy_that_ended_begins_in_the_place_of_its_next_step),
        cmocka_unit_test(an_exact_seed_is_the_seed_of_the_environment_itself),
        cmocka_unit_test(what_no_step_takes_moves_nothing),
        cmocka_unit_test(copies_to_reset_are_ascending_and_exist),
        cmocka_unit_test(a_session_that_cannot_be_made_leaves_nothing),
        cmocka_unit_test(memory_that_ends_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
