/* fqe_test.c - fitted Q evaluation against a world whose truth can be written down. */
#include "rl/fqe.h"

#include <math.h>
#include <string.h>

#include "rl/logged_testing.h"

static const struct aw__fqe_config config = {
    .hidden = 32, .batch = 128, .updates = 1500, .gamma = 0.9, .tau = 0.02, .lr = 2e-3};

struct judge {
    struct line line;
    struct aw__prepared prepared;
    struct aw__fqe fqe;
    uint32_t slot[LINE_EPISODES];
    bool left_out[LINE_EPISODES];
    float advantage[LINE_TOTAL];
};

static void judge_init(struct judge *judge, double gain, double spread, float target)
{
    struct aw_logged_policy policy = line_policy(&target);
    line_record(&judge->line, gain, spread, 1);
    assert_ok(aw__prepared_init(&judge->prepared, 1, 1, LINE_TOTAL, NULL));
    assert_ok(aw__prepared_fill(&judge->prepared, &judge->line.logged, &policy));
    assert_ok(aw__fqe_init(&judge->fqe, 1, 1, &config, NULL));
}

static void judge_deinit(struct judge *judge)
{
    aw__fqe_deinit(&judge->fqe);
    aw__prepared_deinit(&judge->prepared);
}

/* Mean gain of an episode over the record, of one member. */
static double judge_run(struct judge *judge, uint64_t seed)
{
    struct aw_rng rng;
    double sum = 0;
    aw_rng_init(&rng, seed, 0);
    aw__resample(&rng, LINE_EPISODES, judge->slot, judge->left_out);
    assert_ok(aw__fqe_train(&judge->fqe, &judge->prepared, judge->slot, &rng));
    aw__fqe_advantage(&judge->fqe, &judge->prepared, judge->advantage);
    for (uint32_t i = 0; i < LINE_TOTAL; i++)
        sum += (double)judge->advantage[i];
    return sum / LINE_EPISODES;
}

static void the_gain_of_a_better_policy_is_found(void **state)
{
    static struct judge judge;
    (void)state;
    judge_init(&judge, 0.2, 0.5, 0.8f);
    double recorded = 0, gain = 0;
    for (uint32_t i = 0; i < LINE_TOTAL; i++)
        recorded += (double)judge.line.reward[i] / LINE_EPISODES;
    for (uint64_t seed = 0; seed < 3; seed++)
        gain += judge_run(&judge, seed) / 3;
    const double want = line_truth((double)0.8f) - recorded;
    assert_true(want > 3); /* there is something to find */
    assert_true(fabs(gain - want) < 0.3 * want);
    judge_deinit(&judge);
}

static void what_repeats_the_record_gains_nothing(void **state)
{
    static struct judge judge;
    (void)state;
    judge_init(&judge, 0.5, 0, 0.5f);
    assert_close(judge_run(&judge, 1), 0, 1e-3);
    judge_deinit(&judge);
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    static struct judge judge;
    static float first[LINE_TOTAL];
    (void)state;
    judge_init(&judge, 0.2, 0.5, 0.8f);
    judge_run(&judge, 3);
    memcpy(first, judge.advantage, sizeof first);
    judge_run(&judge, 4);
    assert_true(memcmp(first, judge.advantage, sizeof first) != 0);
    judge_run(&judge, 3);
    assert_memory_equal(first, judge.advantage, sizeof first);
    judge_deinit(&judge);
}

/* Every episode ends after its first step with reward 1: Q = 1 whatever is done, and nothing is
 * expected of what follows. */
static void what_terminates_is_worth_nothing_more(void **state)
{
    static struct judge judge;
    (void)state;
    judge_init(&judge, 0.2, 0.5, 0.8f);
    for (uint32_t i = 0; i < LINE_TOTAL; i++) {
        judge.prepared.reward[i] = 1;
        judge.prepared.alive[i] = 0;
    }
    judge_run(&judge, 1);
    const float *q =
        aw_mlp_forward(&judge.fqe.q, judge.fqe.target, judge.prepared.x, 100, &judge.fqe.cache);
    double mean = 0;
    for (uint32_t i = 0; i < 100; i++)
        mean += (double)q[i] / 100;
    assert_close(mean / (1 - config.gamma), 1, 0.05);
    judge_deinit(&judge);
}

/* The same with a cut instead of an end: 1 + gamma + gamma^2 + ... */
static void what_is_cut_goes_on(void **state)
{
    static struct judge judge;
    (void)state;
    judge_init(&judge, 0.2, 0.5, 0.8f);
    for (uint32_t i = 0; i < LINE_TOTAL; i++)
        judge.prepared.reward[i] = 1;
    judge_run(&judge, 1);
    const float *q =
        aw_mlp_forward(&judge.fqe.q, judge.fqe.target, judge.prepared.x, 100, &judge.fqe.cache);
    double mean = 0;
    for (uint32_t i = 0; i < 100; i++)
        mean += (double)q[i] / 100;
    assert_close(mean, 1, 0.1); /* times 1 / (1 - gamma) = 10 */
    judge_deinit(&judge);
}

static void a_loss_that_leaves_the_numbers_is_told(void **state)
{
    static struct judge judge;
    struct aw_rng rng;
    (void)state;
    judge_init(&judge, 0.2, 0.5, 0.8f);
    aw_rng_init(&rng, 1, 0);
    aw__resample(&rng, LINE_EPISODES, judge.slot, judge.left_out);
    judge.fqe.config.lr = 1e30;
    assert_int_equal(aw__fqe_train(&judge.fqe, &judge.prepared, judge.slot, &rng), AW_ERR_DIVERGED);
    judge_deinit(&judge);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    struct aw_alloc_counting counting;
    struct aw__fqe fqe;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    for (uint64_t n = 0; err; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw__fqe_init(&fqe, 3, 2, &config, &counting.alloc);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_true(n < 20);
        aw__fqe_deinit(&fqe);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

AW_TEST_GROUP("fqe")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gain_of_a_better_policy_is_found),
        cmocka_unit_test(what_repeats_the_record_gains_nothing),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(what_terminates_is_worth_nothing_more),
        cmocka_unit_test(what_is_cut_goes_on),
        cmocka_unit_test(a_loss_that_leaves_the_numbers_is_told),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
