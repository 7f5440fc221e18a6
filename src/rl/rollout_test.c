#include "rl/rollout.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>

/* A rollout of one observation and one action per step, filled from flat [T][N] arrays. */
static void fill(struct aw_rollout *rollout, uint32_t T, uint32_t N, const float *reward,
                 const float *value, const bool *terminated, const bool *truncated,
                 const float *bootstrap)
{
    struct aw_rollout_config config = {.step_count = T, .env_count = N, .obs_dim = 1, .act_dim = 1};
    float zero[64] = {0};
    assert_true(N <= 64);
    assert_ok(aw_rollout_init(rollout, &config, NULL));
    for (uint32_t t = 0; t < T; t++) {
        size_t row = (size_t)t * N;
        assert_false(aw_rollout_full(rollout));
        assert_ok(aw_rollout_push(rollout, &(struct aw_rollout_step){
                                               .obs = zero,
                                               .action = zero,
                                               .logp = zero,
                                               .reward = reward + row,
                                               .terminated = terminated + row,
                                               .truncated = truncated + row,
                                               .bootstrap = bootstrap + row,
                                           }));
    }
    assert_true(aw_rollout_full(rollout));
    for (size_t i = 0; i < (size_t)T * N; i++)
        rollout->value[i] = value[i];
}

static void gae_equals_the_sums_done_by_hand(void **state)
{
    (void)state;
    /* gamma = lambda = 1/2, so a quarter of each advantage flows back. One environment, 3 steps of
     * reward 1, values 2, 4, 8, and 16 for the observation after the last. */
    static const struct {
        const char *why;
        bool terminated[3], truncated[3];
        float bootstrap[3];
        double advantage[3];
    } cases[] = {
        /* d2 = 1+8-8 = 1; d1 = 1+4-4 = 1; d0 = 1+2-2 = 1 */
        {"nothing ends", {0, 0, 0}, {0, 0, 0}, {99, 99, 16}, {1 + 1.25 / 4, 1.25, 1}},
        /* d2 = 1-8 = -7 */
        {"the last step terminates: no bootstrap",
         {0, 0, 1},
         {0, 0, 0},
         {99, 99, 16},
         {1 - 0.75 / 4, 1 - 7 / 4.0, -7}},
        /* d1 = 1-4 = -3, cut */
        {"a termination inside: nothing flows back over it",
         {0, 1, 0},
         {0, 0, 0},
         {99, 99, 16},
         {1 - 3 / 4.0, -3, 1}},
        /* d1 = 1+32/2-4 = 13, cut: 32 is V(final observation), 8 the value after the reset */
        {"a truncation inside bootstraps from the final observation",
         {0, 0, 0},
         {0, 1, 0},
         {99, 32, 16},
         {1 + 13 / 4.0, 13, 1}},
        {"terminated wins over truncated",
         {0, 1, 0},
         {0, 1, 0},
         {99, 32, 16},
         {1 - 3 / 4.0, -3, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const float reward[3] = {1, 1, 1}, value[3] = {2, 4, 8};
        struct aw_rollout rollout;
        fill(&rollout, 3, 1, reward, value, cases[c].terminated, cases[c].truncated,
             cases[c].bootstrap);
        aw_rollout_gae(&rollout, 0.5, 0.5);
        for (int t = 0; t < 3; t++) {
            if (fabs((double)rollout.advantage[t] - cases[c].advantage[t]) > 1e-6)
                fail_msg("%s: step %d: %g, by hand %g", cases[c].why, t,
                         (double)rollout.advantage[t], cases[c].advantage[t]);
            assert_close((double)rollout.target[t], cases[c].advantage[t] + (double)value[t], 1e-6);
        }
        aw_rollout_deinit(&rollout);
    }
}

enum { T = 40, N = 7, ROWS = T * N };

/* The definition of GAE as a sum of TD errors (Schulman et al., 2016, equation 16), each started
 * anew from its own step: quadratic, and shares nothing with the recursion. */
static double naive_advantage(uint32_t t, uint32_t n, const float *reward, const float *value,
                              const bool *terminated, const bool *truncated, const float *bootstrap,
                              double gamma, double lambda)
{
    double sum = 0, weight = 1;
    for (uint32_t k = t; k < T; k++, weight *= gamma * lambda) {
        uint32_t i = k * N + n;
        double next;
        if (terminated[i])
            next = 0;
        else if (truncated[i] || k == T - 1)
            next = (double)bootstrap[i];
        else
            next = (double)value[i + N];
        sum += weight * ((double)reward[i] + gamma * next - (double)value[i]);
        if (terminated[i] || truncated[i])
            break;
    }
    return sum;
}

static void gae_equals_its_definition_on_random_episodes(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    for (int round = 0; round < 20; round++) {
        float reward[ROWS], value[ROWS], bootstrap[ROWS];
        bool terminated[ROWS], truncated[ROWS];
        aw_rng_fill_normal(&rng, reward, ROWS);
        aw_rng_fill_normal(&rng, value, ROWS);
        aw_rng_fill_normal(&rng, bootstrap, ROWS);
        for (int i = 0; i < ROWS; i++) {
            terminated[i] = aw_rng_below(&rng, 10) == 0;
            truncated[i] = aw_rng_below(&rng, 10) == 0;
        }
        double gamma = aw_rng_uniform(&rng, 0.5, 1), lambda = aw_rng_double(&rng);
        struct aw_rollout rollout;
        fill(&rollout, T, N, reward, value, terminated, truncated, bootstrap);
        aw_rollout_gae(&rollout, gamma, lambda);
        for (uint32_t t = 0; t < T; t++)
            for (uint32_t n = 0; n < N; n++)
                assert_close((double)rollout.advantage[t * N + n],
                             naive_advantage(t, n, reward, value, terminated, truncated, bootstrap,
                                             gamma, lambda),
                             1e-5);
        aw_rollout_deinit(&rollout);
    }
}

static void a_number_that_is_not_finite_is_refused_where_it_matters(void **state)
{
    (void)state;
    struct aw_rollout rollout;
    assert_ok(aw_rollout_init(&rollout, &(struct aw_rollout_config){2, 1, 1, 1}, NULL));
    const float good = 1, bad = NAN;
    const bool no = false, yes = true;
    const struct {
        const char *why;
        struct aw_rollout_step step;
        enum aw_err want;
    } cases[] = {
        {"observation", {&bad, &good, &good, &good, &no, &no, &good}, AW_ERR_DIVERGED},
        {"action", {&good, &bad, &good, &good, &no, &no, &good}, AW_ERR_DIVERGED},
        {"log-probability", {&good, &good, &bad, &good, &no, &no, &good}, AW_ERR_DIVERGED},
        {"reward", {&good, &good, &good, &bad, &no, &no, &good}, AW_ERR_DIVERGED},
        {"value at a truncation", {&good, &good, &good, &good, &no, &yes, &bad}, AW_ERR_DIVERGED},
        {"value that nothing reads", {&good, &good, &good, &good, &no, &no, &bad}, AW_OK},
        {"value after the last step",
         {&good, &good, &good, &good, &no, &no, &bad},
         AW_ERR_DIVERGED},
        {"value after a termination", {&good, &good, &good, &good, &yes, &no, &bad}, AW_OK},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t used = rollout.used;
        enum aw_err err = aw_rollout_push(&rollout, &cases[c].step);
        if (err != cases[c].want || rollout.used != used + (err == AW_OK))
            fail_msg("%s: %s", cases[c].why, aw_err_name(err));
    }
    assert_true(aw_rollout_full(&rollout));
    aw_rollout_clear(&rollout);
    assert_false(aw_rollout_full(&rollout));
    aw_rollout_deinit(&rollout);
    aw_rollout_deinit(&rollout);
}

static void impossible_sizes_and_missing_memory_leave_nothing_behind(void **state)
{
    (void)state;
    struct aw_rollout rollout;
    assert_int_equal(aw_rollout_init(&rollout, &(struct aw_rollout_config){0, 1, 1, 1}, NULL),
                     AW_ERR_RANGE);
    assert_int_equal(aw_rollout_init(&rollout, &(struct aw_rollout_config){1, 1, 0, 1}, NULL),
                     AW_ERR_RANGE);
    assert_int_equal(
        aw_rollout_init(&rollout, &(struct aw_rollout_config){1u << 20, 1u << 20, 1, 1}, NULL),
        AW_ERR_LIMIT);
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    struct aw_rollout_config config = {4, 2, 3, 1};
    assert_int_equal(aw_rollout_init(&rollout, &config, &counting.alloc), AW_ERR_NOMEM);
    aw_rollout_deinit(&rollout);
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_rollout_init(&rollout, &config, &counting.alloc));
    assert_int_equal(counting.alloc_count, 1);
    aw_rollout_deinit(&rollout);
    assert_int_equal(counting.free_count, 1);
}

static void explained_variance_is_one_for_perfect_values_and_zero_for_a_constant(void **state)
{
    (void)state;
    struct aw_rollout rollout;
    assert_ok(aw_rollout_init(&rollout, &(struct aw_rollout_config){4, 1, 1, 1}, NULL));
    for (int i = 0; i < 4; i++)
        rollout.target[i] = rollout.value[i] = (float)i;
    assert_close(aw_rollout_explained_variance(&rollout), 1, 1e-12);
    for (int i = 0; i < 4; i++)
        rollout.value[i] = 7;
    assert_close(aw_rollout_explained_variance(&rollout), 0, 1e-12);
    for (int i = 0; i < 4; i++)
        rollout.value[i] = -(float)i;
    assert_close(aw_rollout_explained_variance(&rollout), -3, 1e-12);
    for (int i = 0; i < 4; i++)
        rollout.target[i] = 5;
    assert_true(isnan(aw_rollout_explained_variance(&rollout)));
    aw_rollout_deinit(&rollout);
}

AW_TEST_GROUP("rollout")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gae_equals_the_sums_done_by_hand),
        cmocka_unit_test(gae_equals_its_definition_on_random_episodes),
        cmocka_unit_test(a_number_that_is_not_finite_is_refused_where_it_matters),
        cmocka_unit_test(impossible_sizes_and_missing_memory_leave_nothing_behind),
        cmocka_unit_test(explained_variance_is_one_for_perfect_values_and_zero_for_a_constant),
    };
    return cmocka_run_group_tests_name("rollout", tests, NULL, NULL);
}
