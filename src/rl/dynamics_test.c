/* dynamics_test.c - the learned model: its loss, its fit, and what it plays. */
#include "rl/dynamics.h"

#include <math.h>
#include <string.h>

#include "rl/logged_testing.h"

static const struct aw__dynamics_config config = {
    .hidden = 32, .batch = 128, .updates = 800, .lr = 2e-3, .plays_max = LINE_EPISODES};

struct model {
    struct line line;
    struct aw__prepared prepared;
    struct aw__dynamics dynamics;
    uint32_t slot[LINE_EPISODES], episode[LINE_EPISODES];
    bool left_out[LINE_EPISODES];
    double gain[LINE_EPISODES], fit;
    struct aw_rng rng;
};

static void model_init(struct model *model, double gain, double spread, float *target)
{
    struct aw_logged_policy policy = line_policy(target);
    line_record(&model->line, gain, spread, 2);
    assert_ok(aw__prepared_init(&model->prepared, 1, 1, LINE_TOTAL, NULL));
    assert_ok(aw__prepared_fill(&model->prepared, &model->line.logged, &policy));
    assert_ok(aw__dynamics_init(&model->dynamics, 1, 1, &config, NULL));
    for (uint32_t e = 0; e < LINE_EPISODES; e++)
        model->episode[e] = e;
}

static void model_deinit(struct model *model)
{
    aw__dynamics_deinit(&model->dynamics);
    aw__prepared_deinit(&model->prepared);
}

static void model_train(struct model *model, uint64_t seed)
{
    aw_rng_init(&model->rng, seed, 0);
    aw__resample(&model->rng, LINE_EPISODES, model->slot, model->left_out);
    assert_ok(aw__dynamics_train(&model->dynamics, &model->prepared, model->slot, model->left_out,
                                 &model->rng, &model->fit));
}

static double model_play(struct model *model, float *target, enum aw__dynamics_noise noise)
{
    struct aw_logged_policy policy = line_policy(target);
    double sum = 0;
    assert_ok(aw__dynamics_play(&model->dynamics, &model->prepared, &policy, model->episode,
                                LINE_EPISODES, noise, &model->rng, model->gain));
    for (uint32_t e = 0; e < LINE_EPISODES; e++)
        sum += model->gain[e] / LINE_EPISODES;
    return sum;
}

/* The loss in double, straight from its definition. */
static double naive_nll(const double *out, const float *y, uint32_t B, uint32_t D)
{
    double sum = 0;
    for (uint32_t b = 0; b < B; b++)
        for (uint32_t k = 0; k < D; k++) {
            double width = out[b * 2 * D + D + k];
            width = fmin(fmax(width, (double)AW__LOG_STD_MIN), (double)AW__LOG_STD_MAX);
            double z = ((double)y[b * D + k] - out[b * 2 * D + k]) / exp(width);
            sum += 0.5 * z * z + width;
        }
    return sum / (B * D);
}

static void the_gradient_of_the_likelihood_matches_central_differences(void **state)
{
    enum { B = 5, D = 3, N = B * 2 * D };
    float out[N], y[B * D], dout[N];
    double wide[N];
    struct aw_rng rng;
    (void)state;
    aw_rng_init(&rng, 5, 0);
    aw_rng_fill_normal(&rng, out, N);
    aw_rng_fill_normal(&rng, y, B * D);
    out[D] = -6; /* beyond the cut on either side: no gradient */
    out[D + 1] = 3;
    for (uint32_t i = 0; i < N; i++)
        wide[i] = (double)out[i];
    assert_close(aw__gaussian_nll(out, y, B, D, dout), naive_nll(wide, y, B, D), 1e-5);
    assert_close(aw__gaussian_nll(out, y, B, D, NULL), naive_nll(wide, y, B, D), 1e-5);
    for (uint32_t i = 0; i < N; i++) {
        const double keep = wide[i], step = 1e-5;
        wide[i] = keep + step;
        double up = naive_nll(wide, y, B, D);
        wide[i] = keep - step;
        double down = naive_nll(wide, y, B, D);
        wide[i] = keep;
        assert_close((double)dout[i], (up - down) / (2 * step), 1e-4);
    }
    assert_true(dout[D] == 0 && dout[D + 1] == 0 && dout[D + 2] != 0);
}

static void what_repeats_the_record_gets_the_record_back(void **state)
{
    static struct model model;
    float same = 0.5f;
    (void)state;
    model_init(&model, 0.5, 0, &same);
    model_train(&model, 1);
    model_play(&model, &same, AW__DYNAMICS_RECORDED);
    for (uint32_t e = 0; e < LINE_EPISODES; e++)
        assert_close(model.gain[e], 0, 1e-3);
    model_deinit(&model);
}

static void the_gain_of_another_policy_under_the_same_luck_is_found(void **state)
{
    static const struct {
        float target;
        enum aw__dynamics_noise noise;
        double tolerance;
        const char *why;
    } cases[] = {
        {0.8f, AW__DYNAMICS_RECORDED, 0.1, "better"},
        {0.8f, AW__DYNAMICS_SAMPLED, 0.3, "better, under new noise: another luck"},
        {0.5f, AW__DYNAMICS_RECORDED, 0.15, "a little better"},
    };
    static struct model model;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float target = cases[i].target;
        double gain = 0;
        model_init(&model, 0.2, 0.5, &target);
        for (uint64_t seed = 0; seed < 3; seed++) {
            model_train(&model, seed);
            gain += model_play(&model, &target, cases[i].noise) / 3;
        }
        const double want = line_counterfactual(&model.line, (double)target);
        if (!(fabs(gain - want) <= cases[i].tolerance * fabs(want)))
            fail_msg("%s: found %g, expected %g", cases[i].why, gain, want);
        model_deinit(&model);
    }
}

static void hold_out_tells_a_world_that_can_be_known_from_one_that_cannot(void **state)
{
    static struct model model;
    float target = 0.8f;
    (void)state;
    model_init(&model, 0.2, 0.5, &target);
    model_train(&model, 1);
    assert_true(model.fit > 0.8); /* the reward is a function of what is seen and done */
    aw_rng_fill_normal(&model.rng, model.prepared.reward, LINE_TOTAL);
    model_train(&model, 1);
    assert_true(model.fit < 0.1);
    model_deinit(&model);
}

static void episodes_of_different_lengths_are_played_to_their_own_ends(void **state)
{
    static struct model model;
    static uint32_t begin[LINE_EPISODES + 1];
    static double whole[LINE_EPISODES];
    float target = 0.8f;
    (void)state;
    model_init(&model, 0.2, 0.5, &target);
    model_train(&model, 1);
    model_play(&model, &target, AW__DYNAMICS_RECORDED);
    memcpy(whole, model.gain, sizeof whole);
    /* the first episode is cut into one of ten steps and one of the rest */
    struct aw_logged logged = model.line.logged;
    memcpy(begin, model.line.begin, sizeof begin);
    begin[LINE_EPISODES - 1] = begin[LINE_EPISODES - 2] + 10;
    logged.episode_begin = begin;
    struct aw_logged_policy policy = line_policy(&target);
    assert_ok(aw__prepared_fill(&model.prepared, &logged, &policy));
    model_play(&model, &target, AW__DYNAMICS_RECORDED);
    for (uint32_t e = 0; e < LINE_EPISODES - 2; e++)
        assert_true(model.gain[e] == whole[e]);
    assert_true(model.gain[LINE_EPISODES - 2] != whole[LINE_EPISODES - 2]);
    model_deinit(&model);
}

static void nothing_imagined_leaves_what_was_seen(void **state)
{
    static struct model model;
    float wild = -40; /* would blow up; it is cut to the bounds of the action and of the state */
    (void)state;
    model_init(&model, 0.2, 0.5, &wild);
    model_train(&model, 1);
    model_play(&model, &wild, AW__DYNAMICS_SAMPLED);
    const struct aw__prepared *p = &model.prepared;
    for (uint32_t e = 0; e < LINE_EPISODES; e++) {
        float s = model.dynamics.sa[e * (p->S + p->A)];
        assert_true(s >= p->low[0] && s <= p->high[0]);
        double most = (double)(p->reward_high - p->reward_low) * (double)p->reward_scale;
        assert_true(fabs(model.gain[e]) <= most * LINE_STEPS * 1.001);
    }
    model_deinit(&model);
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    static struct model model;
    static double first[LINE_EPISODES];
    float target = 0.8f;
    (void)state;
    model_init(&model, 0.2, 0.5, &target);
    for (int noise = AW__DYNAMICS_RECORDED; noise <= AW__DYNAMICS_SAMPLED; noise++) {
        model_train(&model, 3);
        model_play(&model, &target, (enum aw__dynamics_noise)noise);
        memcpy(first, model.gain, sizeof first);
        model_train(&model, 4);
        model_play(&model, &target, (enum aw__dynamics_noise)noise);
        assert_true(memcmp(first, model.gain, sizeof first) != 0);
        model_train(&model, 3);
        model_play(&model, &target, (enum aw__dynamics_noise)noise);
        assert_memory_equal(first, model.gain, sizeof first);
    }
    model_deinit(&model);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    struct aw_alloc_counting counting;
    struct aw__dynamics dynamics;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    for (uint64_t n = 0; err; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw__dynamics_init(&dynamics, 3, 2, &config, &counting.alloc);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_true(n < 20);
        aw__dynamics_deinit(&dynamics);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

AW_TEST_GROUP("dynamics")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_the_likelihood_matches_central_differences),
        cmocka_unit_test(what_repeats_the_record_gets_the_record_back),
        cmocka_unit_test(the_gain_of_another_policy_under_the_same_luck_is_found),
        cmocka_unit_test(hold_out_tells_a_world_that_can_be_known_from_one_that_cannot),
        cmocka_unit_test(episodes_of_different_lengths_are_played_to_their_own_ends),
        cmocka_unit_test(nothing_imagined_leaves_what_was_seen),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
