/* actnet_test.c - a policy ready to serve. */
#include "rl/actnet.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

static const struct aw_actnet_shape shape = {.obs_dim = 5, .act_dim = 2, .hidden = 32};

static void without_weights_the_action_is_the_base(void **state)
{
    (void)state;
    struct aw_actnet actor;
    assert_int_equal(aw_actnet_init(&actor, &shape, NULL), AW_OK);
    actor.base[0] = 0.25f;
    actor.base[1] = -1;
    const float obs[5] = {9, 8, 7, -6, 5};
    float action[2];
    assert_int_equal(aw_actnet_act(&actor, obs, action), AW_OK);
    assert_true(action[0] == 0.25f && action[1] == -1);
    aw_actnet_deinit(&actor);
    aw_actnet_deinit(&actor);
}

/* Rows of a smooth function that a small network can learn. */
static void teach(float *obs, float *action, size_t count, struct aw_rng *rng)
{
    for (size_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < 5; i++)
            obs[t * 5 + i] = 3 + 2 * (float)aw_rng_normal(rng);
        action[t * 2] = 0.8f * tanhf(obs[t * 5] - 3);
        action[t * 2 + 1] = 0.5f * sinf(obs[t * 5 + 1]);
    }
}

static void it_learns_to_act_as_another_policy_does(void **state)
{
    (void)state;
    enum { N = 2000 };
    static float obs[N * 5], action[N * 2];
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    teach(obs, action, N, &rng);
    struct aw_actnet actor;
    assert_int_equal(aw_actnet_init(&actor, &shape, NULL), AW_OK);
    aw_actnet_normalise(&actor, obs, N);
    aw_actnet_init_weights(&actor, 3e-3f, &rng);
    double loss = 0;
    const struct aw_actnet_fit fit = {.updates = 3000, .batch = 64, .lr = 3e-3};
    assert_int_equal(aw_actnet_fit(&actor, &fit, obs, action, N, &rng, &loss), AW_OK);
    assert_true(loss < 0.005);
    /* on rows that it was not taught with, too */
    double fresh = 0;
    teach(obs, action, N, &rng);
    for (size_t t = 0; t < N; t++) {
        float a[2];
        assert_int_equal(aw_actnet_act(&actor, obs + t * 5, a), AW_OK);
        fresh += pow(a[0] - action[t * 2], 2) + pow(a[1] - action[t * 2 + 1], 2);
    }
    assert_true(fresh / (2 * N) < 0.01);
    aw_actnet_deinit(&actor);
}

static void with_a_small_reach_it_stays_near_its_base(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 0);
    struct aw_actnet actor;
    assert_int_equal(aw_actnet_init(&actor, &shape, NULL), AW_OK);
    aw_actnet_init_weights(&actor, 3, &rng);
    actor.base[0] = 0.95f;
    actor.base[1] = 0;
    actor.reach[0] = actor.reach[1] = 0.1f;
    for (int n = 0; n < 1000; n++) {
        float obs[5], a[2];
        for (int i = 0; i < 5; i++)
            obs[i] = 100 * (float)aw_rng_normal(&rng);
        assert_int_equal(aw_actnet_act(&actor, obs, a), AW_OK);
        assert_true(a[0] >= 0.85f - 1e-6f && a[0] <= 1);
        assert_true(fabsf(a[1]) <= 0.1f + 1e-6f);
    }
    aw_actnet_deinit(&actor);
}

static void what_is_not_finite_neither_enters_nor_leaves(void **state)
{
    (void)state;
    struct aw_actnet actor;
    assert_int_equal(aw_actnet_init(&actor, &shape, NULL), AW_OK);
    float obs[5] = {0, NAN, 0, 0, 0}, a[2] = {7, 7};
    assert_int_equal(aw_actnet_act(&actor, obs, a), AW_ERR_DIVERGED);
    obs[1] = 0;
    actor.theta[0] = INFINITY;
    actor.theta[1] = NAN;
    assert_int_equal(aw_actnet_seal(&actor), AW_ERR_DIVERGED);
    assert_true(a[0] == 7 && a[1] == 7);
    assert_true(actor.id == 0);
    aw_actnet_deinit(&actor);
}

static void an_id_names_the_content(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    struct aw_actnet a, b;
    assert_int_equal(aw_actnet_init(&a, &shape, NULL), AW_OK);
    assert_int_equal(aw_actnet_init(&b, &shape, NULL), AW_OK);
    aw_actnet_init_weights(&a, 1, &rng);
    assert_int_equal(aw_actnet_seal(&a), AW_OK);
    aw_actnet_copy(&b, &a);
    assert_true(b.id == a.id && a.id != 0);
    b.base[0] += 0.001f;
    assert_int_equal(aw_actnet_seal(&b), AW_OK);
    assert_true(b.id != a.id);
    b.base[0] = a.base[0];
    assert_int_equal(aw_actnet_seal(&b), AW_OK);
    assert_true(b.id == a.id);
    aw_actnet_deinit(&a);
    aw_actnet_deinit(&b);
}

static void bytes_go_out_and_in_and_damaged_ones_are_refused(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 4, 0);
    struct aw_actnet a, b;
    assert_int_equal(aw_actnet_init(&a, &shape, NULL), AW_OK);
    assert_int_equal(aw_actnet_init(&b, &shape, NULL), AW_OK);
    aw_actnet_init_weights(&a, 1, &rng);
    assert_int_equal(aw_actnet_seal(&a), AW_OK);
    static unsigned char bytes[1 << 16];
    assert_true(aw_actnet_state_bytes(&a) < sizeof bytes);
    aw_actnet_state_save(&a, bytes);
    assert_int_equal(aw_actnet_state_load(&b, bytes), AW_OK);
    assert_memory_equal(a.block, b.block, a.block_bytes);
    assert_true(a.id == b.id);
    bytes[100] ^= 1;
    assert_int_equal(aw_actnet_state_load(&b, bytes), AW_ERR_FORMAT);
    bytes[100] ^= 1;
    bytes[0] ^= 1; /* the shape */
    assert_int_equal(aw_actnet_state_load(&b, bytes), AW_ERR_FORMAT);
    assert_memory_equal(a.block, b.block, a.block_bytes);
    aw_actnet_deinit(&a);
    aw_actnet_deinit(&b);
}

static void shapes_beyond_the_limits_and_lack_of_memory_are_told(void **state)
{
    (void)state;
    struct aw_actnet actor;
    struct aw_actnet_shape bad = shape;
    bad.hidden = AW_ACTNET_HIDDEN_MAX + 1;
    assert_int_equal(aw_actnet_init(&actor, &bad, NULL), AW_ERR_RANGE);
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_actnet_init(&actor, &shape, &counting.alloc), AW_ERR_NOMEM);
    for (uint64_t n = 1;; n++) {
        aw_alloc_counting_init(&counting);
        assert_int_equal(aw_actnet_init(&actor, &shape, &counting.alloc), AW_OK);
        counting.fail_after = n;
        struct aw_rng rng;
        aw_rng_init(&rng, 1, 0);
        const float obs[5] = {0}, action[2] = {0.1f, 0.2f};
        const struct aw_actnet_fit fit = {.updates = 2, .batch = 2, .lr = 1e-3};
        enum aw_err err = aw_actnet_fit(&actor, &fit, obs, action, 1, &rng, NULL);
        aw_actnet_deinit(&actor);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_true(n < 20);
    }
}

AW_TEST_GROUP("actnet")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_weights_the_action_is_the_base),
        cmocka_unit_test(it_learns_to_act_as_another_policy_does),
        cmocka_unit_test(with_a_small_reach_it_stays_near_its_base),
        cmocka_unit_test(what_is_not_finite_neither_enters_nor_leaves),
        cmocka_unit_test(an_id_names_the_content),
        cmocka_unit_test(bytes_go_out_and_in_and_damaged_ones_are_refused),
        cmocka_unit_test(shapes_beyond_the_limits_and_lack_of_memory_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
