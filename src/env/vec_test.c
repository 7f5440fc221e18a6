#include "base/envelope_testing.h"
#include "base/space.h"
#include "base/testing.h"
#include "env/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 5, STEPS = 700, OBS_MAX = 4 };

static const struct aw_env_factory *find(const char *name)
{
    const struct aw_env_factory *factory = NULL;
    assert_ok(aw_env_find(name, &factory, NULL));
    return factory;
}

static void fill_actions(struct aw_vec *vec, struct aw_rng *rng)
{
    for (uint32_t i = 0; i < vec->count; i++)
        aw_space_sample(&vec->spec->action, rng, vec->action + i * vec->spec->action.dim);
}

/* The naive twin of one copy: an environment that is reset by hand, with the documented seeds. */
struct twin {
    struct aw_env env;
    struct aw_rng seeds;
    float obs[OBS_MAX];
    double total;
    uint32_t length;
};

static void a_copy_equals_an_environment_reset_by_hand(const char *name)
{
    struct aw_vec vec;
    assert_ok(aw_vec_init(&vec, find(name), COPIES, NULL, NULL, NULL));
    struct twin twins[COPIES];
    memset(twins, 0, sizeof twins);
    for (uint32_t i = 0; i < COPIES; i++) {
        assert_ok(aw_env_make(name, &twins[i].env, NULL));
        aw_rng_init(&twins[i].seeds, 17, i);
        assert_ok(
            twins[i].env.ops->reset(twins[i].env.self, aw_rng_u64(&twins[i].seeds), twins[i].obs));
    }
    assert_ok(aw_vec_reset(&vec, 17, NULL));
    size_t dim = vec.spec->observation.dim, row = dim * sizeof(float);
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 1);
    uint32_t ended_in_all = 0;
    for (int s = 0; s < STEPS; s++) {
        fill_actions(&vec, &rng);
        assert_ok(aw_vec_step(&vec, NULL));
        uint32_t ended = 0;
        for (uint32_t i = 0; i < COPIES; i++) {
            struct twin *twin = &twins[i];
            float shown[OBS_MAX];
            struct aw_step step;
            assert_memory_equal(vec.prev_obs + i * dim, twin->obs, row);
            assert_ok(twin->env.ops->step(twin->env.self, vec.action + i * vec.spec->action.dim,
                                          shown, &step));
            assert_memory_equal(vec.next_obs + i * dim, shown, row);
            assert_true(vec.reward[i] == step.reward);
            assert_int_equal(vec.terminated[i], step.terminated);
            assert_int_equal(vec.truncated[i], step.truncated);
            twin->total += (double)step.reward;
            twin->length++;
            memcpy(twin->obs, shown, row);
            if (step.terminated || step.truncated) {
                assert_int_equal(vec.finished[ended].env, i);
                assert_int_equal(vec.finished[ended].length, twin->length);
                assert_true(vec.finished[ended].episode_return == twin->total);
                assert_int_equal(vec.finished[ended].terminated, step.terminated);
                ended++;
                assert_ok(
                    twin->env.ops->reset(twin->env.self, aw_rng_u64(&twin->seeds), twin->obs));
                assert_memory_not_equal(twin->obs, shown, row);
                twin->total = 0;
                twin->length = 0;
            }
            assert_memory_equal(vec.obs + i * dim, twin->obs, row);
        }
        assert_int_equal(vec.finished_count, ended);
        ended_in_all += ended;
    }
    assert_true(ended_in_all >= COPIES * 3);
    for (uint32_t i = 0; i < COPIES; i++)
        aw_env_free(&twins[i].env);
    aw_vec_deinit(&vec);
    aw_vec_deinit(&vec);
}

static void every_copy_equals_an_environment_reset_by_hand(void **state)
{
    (void)state;
    a_copy_equals_an_environment_reset_by_hand("cartpole-v1");
    a_copy_equals_an_environment_reset_by_hand("pendulum-v1");
    a_copy_equals_an_environment_reset_by_hand("identity-box-v0");
}

/* A digest of everything a learner sees in `steps` steps. */
static uint64_t digest_run(struct aw_vec *vec, struct aw_rng *rng, int steps)
{
    uint64_t hash = 1;
    size_t n = vec->count, rows = n * vec->spec->observation.dim * sizeof(float);
    for (int s = 0; s < steps; s++) {
        fill_actions(vec, rng);
        assert_ok(aw_vec_step(vec, NULL));
        const struct {
            const void *bytes;
            size_t size;
        } parts[] = {{vec->obs, rows},      {vec->prev_obs, rows},
                     {vec->next_obs, rows}, {vec->reward, n * sizeof(float)},
                     {vec->terminated, n},  {vec->truncated, n}};
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
            for (size_t b = 0; b < parts[p].size; b++)
                hash = (hash ^ ((const unsigned char *)parts[p].bytes)[b]) * 0x100000001b3u;
        for (uint32_t i = 0; i < vec->finished_count; i++) {
            uint64_t bits;
            memcpy(&bits, &vec->finished[i].episode_return, sizeof bits);
            hash = (hash ^ bits ^ vec->finished[i].length) * 0x100000001b3u;
        }
    }
    return hash;
}

static void the_bytes_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++) {
        uint64_t alone = 0;
        for (uint32_t threads = 1; threads <= 3; threads++) {
            struct aw_threads pool;
            struct aw_vec vec;
            struct aw_rng rng;
            aw_rng_init(&rng, 2, 0);
            assert_ok(aw_threads_init(&pool, threads, NULL));
            assert_ok(aw_vec_init(&vec, *f, 9, &pool, NULL, NULL));
            assert_ok(aw_vec_reset(&vec, 3, NULL));
            uint64_t digest = digest_run(&vec, &rng, 300);
            alone = threads == 1 ? digest : alone;
            assert_int_equal(digest, alone);
            aw_vec_deinit(&vec);
            aw_threads_deinit(&pool);
        }
    }
}

static void a_run_resumed_from_its_bytes_is_the_run_that_went_on(void **state)
{
    (void)state;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++) {
        struct aw_vec vec, fresh;
        struct aw_rng rng;
        aw_rng_init(&rng, 4, 0);
        assert_ok(aw_vec_init(&vec, *f, COPIES, NULL, NULL, NULL));
        assert_ok(aw_vec_reset(&vec, 5, NULL));
        digest_run(&vec, &rng, 137);
        size_t size = aw_vec_state_bytes(&vec);
        unsigned char *bytes = malloc(size), *again = malloc(size);
        aw_vec_state_save(&vec, bytes);
        aw_vec_state_save(&vec, again);
        assert_memory_equal(bytes, again, size);

        struct aw_rng rng_copy = rng;
        assert_ok(aw_vec_init(&fresh, *f, COPIES, NULL, NULL, NULL));
        assert_ok(aw_vec_state_load(&fresh, bytes, size, NULL));
        assert_memory_equal(fresh.obs, vec.obs,
                            COPIES * vec.spec->observation.dim * sizeof *vec.obs);
        assert_int_equal(digest_run(&vec, &rng, 250), digest_run(&fresh, &rng_copy, 250));
        aw_vec_state_save(&vec, bytes);
        aw_vec_state_save(&fresh, again);
        assert_memory_equal(bytes, again, size);
        free(bytes);
        free(again);
        aw_vec_deinit(&vec);
        aw_vec_deinit(&fresh);
    }
}

static void damaged_or_foreign_bytes_are_refused_and_nothing_changes(void **state)
{
    (void)state;
    struct aw_vec vec;
    struct aw_rng rng;
    struct aw_diag diag;
    aw_rng_init(&rng, 6, 0);
    assert_ok(aw_vec_init(&vec, find("identity-box-v0"), 3, NULL, NULL, NULL));
    assert_ok(aw_vec_reset(&vec, 7, NULL));
    digest_run(&vec, &rng, 10);
    size_t size = aw_vec_state_bytes(&vec);
    unsigned char *bytes = malloc(size), *before = malloc(size), *after = malloc(size);
    aw_vec_state_save(&vec, bytes);
    digest_run(&vec, &rng, 10);
    aw_vec_state_save(&vec, before);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(aw_vec_state_load(&vec, bytes, size, &diag), AW_ERR_FORMAT);
        bytes[i] ^= 0x10;
    }
    assert_int_equal(aw_vec_state_load(&vec, bytes, size - 1, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "bytes long"));
    aw_vec_state_save(&vec, after);
    assert_memory_equal(before, after, size);

    /* A vector's snapshot in good order around an environment's that is not: the last copy refuses,
     * and the copies before it must be taken back. */
    bytes[size - 1] ^= 1;
    aw_testing_reseal(bytes, size);
    assert_int_equal(aw_vec_state_load(&vec, bytes, size, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "no valid state of identity-box-v0"));
    aw_vec_state_save(&vec, after);
    assert_memory_equal(before, after, size);
    bytes[size - 1] ^= 1;
    aw_testing_reseal(bytes, size);
    assert_ok(aw_vec_state_load(&vec, bytes, size, NULL));
    free(bytes);
    free(before);
    free(after);
    aw_vec_deinit(&vec);
}

static void an_action_that_no_step_takes_moves_no_copy(void **state)
{
    (void)state;
    const struct {
        const char *env;
        float action;
    } cases[] = {{"cartpole-v1", 2},   {"cartpole-v1", 0.5f}, {"cartpole-v1", -1},
                 {"cartpole-v1", NAN}, {"pendulum-v1", NAN},  {"pendulum-v1", INFINITY}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct aw_vec vec;
        struct aw_diag diag;
        assert_ok(aw_vec_init(&vec, find(cases[c].env), 3, NULL, NULL, NULL));
        assert_ok(aw_vec_reset(&vec, 1, NULL));
        unsigned char before[1024], after[1024];
        size_t size = aw_vec_state_bytes(&vec);
        assert_true(size <= sizeof before);
        aw_vec_state_save(&vec, before);
        vec.action[2] = cases[c].action;
        assert_int_equal(aw_vec_step(&vec, &diag), AW_ERR_RANGE);
        assert_non_null(strstr(diag.text, "environment 2"));
        aw_vec_state_save(&vec, after);
        assert_memory_equal(before, after, size);
        vec.action[2] = 1;
        assert_ok(aw_vec_step(&vec, NULL));
        aw_vec_deinit(&vec);
    }
}

static void nothing_is_allocated_after_init_and_a_failing_init_leaves_nothing(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_vec vec;
    struct aw_diag diag;
    uint64_t needed = 0;
    for (;; needed++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = needed;
        enum aw_err err =
            aw_vec_init(&vec, find("cartpole-v1"), COPIES, NULL, &counting.alloc, &diag);
        if (err == AW_OK)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_int_equal(counting.free_count, counting.alloc_count);
        aw_vec_deinit(&vec);
    }
    assert_int_equal(needed, 1 + COPIES);
    struct aw_rng rng;
    aw_rng_init(&rng, 8, 0);
    assert_ok(aw_vec_reset(&vec, 1, NULL));
    digest_run(&vec, &rng, 200);
    unsigned char bytes[2048];
    assert_true(aw_vec_state_bytes(&vec) <= sizeof bytes);
    aw_vec_state_save(&vec, bytes);
    assert_ok(aw_vec_state_load(&vec, bytes, aw_vec_state_bytes(&vec), NULL));
    assert_int_equal(counting.alloc_count, needed);
    aw_vec_deinit(&vec);
    assert_int_equal(counting.free_count, needed);
    assert_int_equal(aw_vec_init(&vec, find("cartpole-v1"), 0, NULL, NULL, &diag), AW_ERR_LIMIT);
    assert_int_equal(aw_vec_init(&vec, find("cartpole-v1"), AW_VEC_COUNT_MAX + 1, NULL, NULL, NULL),
                     AW_ERR_LIMIT);
}

/* An environment that turns bad in its third step, as its one setting says. */
struct bad {
    enum { BAD_OBS, BAD_REWARD, BAD_STEP } kind;
    uint32_t step;
};
static struct bad bad_state;

static enum aw_err bad_reset(void *self, uint64_t seed, float *obs)
{
    (void)seed;
    ((struct bad *)self)->step = 0;
    obs[0] = 0;
    return AW_OK;
}

static enum aw_err bad_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    (void)action;
    struct bad *self = ctx;
    bool now = ++self->step == 3;
    *ret = (struct aw_step){.reward = now && self->kind == BAD_REWARD ? NAN : 1};
    obs[0] = now && self->kind == BAD_OBS ? INFINITY : 1;
    return now && self->kind == BAD_STEP ? AW_ERR_UNAVAILABLE : AW_OK;
}

static void bad_save(const void *self, void *bytes)
{
    memcpy(bytes, self, sizeof(struct bad));
}

static enum aw_err bad_load(void *self, const void *bytes)
{
    memcpy(self, bytes, sizeof(struct bad));
    return AW_OK;
}

static void bad_free(void *self)
{
    (void)self;
}

static const struct aw_space_axis bad_axes[] = {{"x", "", -1, 1}};
static const struct aw_env_spec bad_spec = {
    .name = "bad-v0",
    .summary = "Turns bad.",
    .observation = {AW_SPACE_BOX, 1, 0, bad_axes},
    .action = {AW_SPACE_BOX, 1, 0, bad_axes},
    .state_bytes = sizeof(struct bad),
};
static const struct aw_env_ops bad_ops = {bad_reset, bad_step, bad_save, bad_load, bad_free};

static enum aw_err bad_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                            struct aw_diag *diag)
{
    (void)alloc, (void)diag;
    *ret_env = (struct aw_env){&bad_spec, &bad_ops, &bad_state};
    return AW_OK;
}

static void numbers_that_are_not_finite_stop_at_this_wall(void **state)
{
    (void)state;
    const struct aw_env_factory factory = {.spec = &bad_spec, .make = bad_make};
    const enum aw_err want[] = {AW_ERR_DIVERGED, AW_ERR_DIVERGED, AW_ERR_UNAVAILABLE};
    for (int kind = BAD_OBS; kind <= BAD_STEP; kind++) {
        struct aw_vec vec;
        struct aw_diag diag;
        bad_state.kind = kind;
        assert_ok(aw_vec_init(&vec, &factory, 1, NULL, NULL, NULL));
        assert_ok(aw_vec_reset(&vec, 1, NULL));
        assert_ok(aw_vec_step(&vec, NULL));
        assert_ok(aw_vec_step(&vec, NULL));
        assert_int_equal(aw_vec_step(&vec, &diag), want[kind]);
        assert_non_null(strstr(diag.text, "bad-v0: environment 0 of 1 failed to step"));
        assert_ok(aw_vec_reset(&vec, 1, NULL));
        assert_ok(aw_vec_step(&vec, NULL));
        aw_vec_deinit(&vec);
    }
}

AW_TEST_GROUP("vec")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_copy_equals_an_environment_reset_by_hand),
        cmocka_unit_test(the_bytes_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(a_run_resumed_from_its_bytes_is_the_run_that_went_on),
        cmocka_unit_test(damaged_or_foreign_bytes_are_refused_and_nothing_changes),
        cmocka_unit_test(an_action_that_no_step_takes_moves_no_copy),
        cmocka_unit_test(nothing_is_allocated_after_init_and_a_failing_init_leaves_nothing),
        cmocka_unit_test(numbers_that_are_not_finite_stop_at_this_wall),
    };
    return cmocka_run_group_tests_name("vec", tests, NULL, NULL);
}
