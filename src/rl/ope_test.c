/* ope_test.c - estimates and their bounds, in a world whose truth can be written down. */
#include "rl/ope.h"

#include <math.h>
#include <string.h>

#include "rl/logged_testing.h"

static const struct aw_ope_shape shape = {
    .obs_dim = 1, .act_dim = 1, .steps_max = LINE_TOTAL, .episodes_max = LINE_EPISODES};

static struct line line;

static struct aw_ope *ope_make(const struct aw_alloc *alloc)
{
    struct aw_ope_settings settings;
    struct aw_ope *ope = NULL;
    aw_conf_defaults(aw_ope_fields, &settings);
    settings.fqe_gamma = 0.9f;
    settings.hidden = 32;
    settings.members = 3;
    settings.fqe_updates = 250;
    settings.model_updates = 300;
    assert_ok(aw_ope_new(&shape, &settings, alloc, &ope, NULL));
    return ope;
}

static struct aw_ope_estimate judge(struct aw_ope *ope, float gain, double level, uint64_t seed)
{
    struct aw_ope_estimate estimate;
    struct aw_logged_policy policy = line_policy(&gain);
    assert_ok(
        aw_ope_estimate(ope, &line.logged, &policy, LINE_STEPS, level, seed, &estimate, NULL));
    assert_true(estimate.low < estimate.mean && estimate.mean < estimate.high);
    return estimate;
}

static double recorded_mean(void)
{
    double sum = 0;
    for (uint32_t i = 0; i < LINE_TOTAL; i++)
        sum += (double)line.reward[i] / LINE_EPISODES;
    return sum;
}

static void what_repeats_the_record_is_judged_by_the_record(void **state)
{
    struct aw_ope *ope = ope_make(NULL);
    (void)state;
    line_record(&line, 0.5, 0, 1);
    struct aw_ope_estimate e = judge(ope, 0.5f, 0.8, 1);
    assert_close(e.mean, recorded_mean(), 1e-3);
    assert_close(e.behaviour_mean, recorded_mean(), 1e-6);
    assert_close(e.novelty, 0, 1e-4);
    /* and nothing but the chance of the episodes is in doubt */
    assert_true(e.high - e.low < 6 * e.episode_error);
    aw_ope_free(ope);
}

static void bounds_hold_the_truth_about_as_often_as_they_say(void **state)
{
    enum { RECORDS = 8 };
    static const float gains[] = {0.5f, 0.8f, -0.2f};
    struct aw_ope *ope = ope_make(NULL);
    uint32_t held = 0, total = 0;
    (void)state;
    for (uint64_t record = 0; record < RECORDS; record++) {
        line_record(&line, 0.2, 0.5, 100 + record);
        for (size_t i = 0; i < sizeof gains / sizeof *gains; i++, total++) {
            struct aw_ope_estimate e = judge(ope, gains[i], 0.8, 1);
            double truth = line_truth((double)gains[i]);
            held += e.low <= truth && truth <= e.high;
        }
    }
    assert_in_range(held, total * 65 / 100, total);
    aw_ope_free(ope);
}

static void better_is_judged_better(void **state)
{
    struct aw_ope *ope = ope_make(NULL);
    (void)state;
    line_record(&line, 0.2, 0.5, 1);
    struct aw_ope_estimate worse = judge(ope, -0.2f, 0.8, 1), better = judge(ope, 0.8f, 0.8, 1);
    assert_true(better.low > worse.mean && better.mean > recorded_mean());
    assert_true(better.fqe_mean > worse.fqe_mean && better.model_mean > worse.model_mean);
    assert_true(better.model_fit > 0.7);
    aw_ope_free(ope);
}

static void a_higher_level_and_a_stranger_policy_widen_the_bounds(void **state)
{
    struct aw_ope *ope = ope_make(NULL);
    (void)state;
    line_record(&line, 0.2, 0.3, 1);
    struct aw_ope_estimate narrow = judge(ope, 0.4f, 0.5, 1), middle = judge(ope, 0.4f, 0.8, 1),
                           wide = judge(ope, 0.4f, 0.95, 1), strange = judge(ope, -2, 0.8, 1);
    assert_true(narrow.mean == middle.mean && middle.mean == wide.mean);
    assert_true(narrow.low > middle.low && middle.low > wide.low);
    /* Student's t with 4 degrees of freedom: 0.741, 1.533, 2.776 */
    assert_close((middle.high - middle.mean) / (narrow.high - narrow.mean), 1.5332 / 0.7407, 1e-3);
    assert_close((wide.high - wide.mean) / (narrow.high - narrow.mean), 2.7764 / 0.7407, 1e-3);
    assert_true(strange.novelty > 2 * middle.novelty);
    assert_true(strange.high - strange.low > 2 * (middle.high - middle.low));
    aw_ope_free(ope);
}

static void the_same_seed_gives_the_same_bytes_and_allocates_nothing(void **state)
{
    struct aw_alloc_counting counting;
    (void)state;
    aw_alloc_counting_init(&counting);
    struct aw_ope *ope = ope_make(&counting.alloc);
    line_record(&line, 0.2, 0.5, 1);
    const uint64_t before = counting.alloc_count;
    struct aw_ope_estimate a = judge(ope, 0.8f, 0.8, 7), other = judge(ope, 0.6f, 0.8, 8),
                           b = judge(ope, 0.8f, 0.8, 7);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(memcmp(&a, &other, sizeof a) != 0);
    assert_int_equal(counting.alloc_count, before);
    aw_ope_free(ope);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

static void an_episode_that_was_cut_short_counts_as_if_it_went_on(void **state)
{
    static uint32_t begin[LINE_EPISODES + 1];
    struct aw_ope *ope = ope_make(NULL);
    (void)state;
    line_record(&line, 0.5, 0, 1);
    double want = 0;
    memcpy(begin, line.begin, sizeof begin);
    begin[LINE_EPISODES] = begin[LINE_EPISODES - 1] + LINE_STEPS / 2;
    line.logged.episode_begin = begin;
    for (uint32_t i = 0; i < begin[LINE_EPISODES]; i++)
        want += (double)line.reward[i] * (i < begin[LINE_EPISODES - 1] ? 1 : 2) / LINE_EPISODES;
    assert_close(judge(ope, 0.5f, 0.8, 1).behaviour_mean, want, 1e-5);
    aw_ope_free(ope);
}

static void records_that_terminate_are_judged_by_values_alone(void **state)
{
    struct aw_ope *ope = ope_make(NULL);
    (void)state;
    line_record(&line, 0.2, 0.5, 1);
    for (uint32_t e = 0; e < LINE_EPISODES; e++)
        line.terminated[(e + 1) * LINE_STEPS - 1] = true;
    struct aw_ope_estimate e = judge(ope, 0.8f, 0.8, 1);
    assert_true(isnan(e.model_mean) && isnan(e.model_fit) && isfinite(e.low));
    assert_close(e.mean, e.fqe_mean, 1e-9);
    aw_ope_free(ope);
}

static enum aw_err act_fails(void *ctx, const float *obs, uint32_t count, float *action)
{
    (void)obs, (void)count, (void)action;
    return *(const enum aw_err *)ctx;
}

static void failures_leave_the_estimate_alone(void **state)
{
    struct aw_ope *ope = ope_make(NULL);
    struct aw_ope_estimate estimate, untouched;
    struct aw_diag diag;
    float gain = 0.8f;
    enum aw_err policy_err = AW_ERR_DEADLINE;
    const struct aw_logged_policy good = line_policy(&gain),
                                  bad = {.act = act_fails, .ctx = &policy_err};
    (void)state;
    line_record(&line, 0.2, 0.5, 1);
    memset(&untouched, 0x5a, sizeof untouched);
    estimate = untouched;
    struct aw_logged few = line.logged, many = line.logged;
    few.episode_count = AW_OPE_EPISODES_MIN - 1;
    assert_int_equal(aw_ope_estimate(ope, &few, &good, LINE_STEPS, 0.8, 1, &estimate, &diag),
                     AW_ERR_NODATA);
    uint32_t begin[LINE_EPISODES + 2];
    memcpy(begin, line.begin, sizeof line.begin);
    begin[LINE_EPISODES] = LINE_TOTAL - 1;
    begin[LINE_EPISODES + 1] = LINE_TOTAL;
    many.episode_count++;
    many.episode_begin = begin;
    assert_int_equal(aw_ope_estimate(ope, &many, &good, LINE_STEPS, 0.8, 1, &estimate, &diag),
                     AW_ERR_RANGE);
    assert_int_equal(aw_ope_estimate(ope, &line.logged, &bad, LINE_STEPS, 0.8, 1, &estimate, &diag),
                     policy_err);
    line.reward[5] = NAN;
    assert_int_equal(
        aw_ope_estimate(ope, &line.logged, &good, LINE_STEPS, 0.8, 1, &estimate, &diag),
        AW_ERR_DIVERGED);
    assert_memory_equal(&estimate, &untouched, sizeof estimate);
    line.reward[5] = 0;
    assert_ok(aw_ope_estimate(ope, &line.logged, &good, LINE_STEPS, 0.8, 1, &estimate, &diag));
    aw_ope_free(ope);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_ope_settings settings;
    struct aw_ope *ope = NULL;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    aw_conf_defaults(aw_ope_fields, &settings);
    for (uint64_t n = 0; err; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_ope_new(&shape, &settings, &counting.alloc, &ope, NULL);
        assert_true(err ? !ope : !!ope);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        aw_ope_free(ope);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    aw_ope_free(NULL);
}

static void impossible_shapes_and_settings_are_refused(void **state)
{
    struct aw_ope_settings good, bad;
    struct aw_ope_shape wrong = shape;
    struct aw_ope *ope = NULL;
    struct aw_diag diag;
    (void)state;
    aw_conf_defaults(aw_ope_fields, &good);
    wrong.obs_dim = 0;
    assert_int_equal(aw_ope_new(&wrong, &good, NULL, &ope, &diag), AW_ERR_CONFIG);
    wrong = shape;
    wrong.steps_max = AW_OPE_STEPS_MAX + 1;
    assert_int_equal(aw_ope_new(&wrong, &good, NULL, &ope, &diag), AW_ERR_CONFIG);
    bad = good;
    bad.members = AW_OPE_MEMBERS_MAX + 1;
    assert_int_equal(aw_ope_new(&shape, &bad, NULL, &ope, &diag), AW_ERR_CONFIG);
    bad = good;
    bad.fqe_gamma = NAN;
    assert_int_equal(aw_ope_new(&shape, &bad, NULL, &ope, &diag), AW_ERR_CONFIG);
    assert_null(ope);
}

AW_TEST_GROUP("ope")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_the_record_is_judged_by_the_record),
        cmocka_unit_test(bounds_hold_the_truth_about_as_often_as_they_say),
        cmocka_unit_test(better_is_judged_better),
        cmocka_unit_test(a_higher_level_and_a_stranger_policy_widen_the_bounds),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_and_allocates_nothing),
        cmocka_unit_test(an_episode_that_was_cut_short_counts_as_if_it_went_on),
        cmocka_unit_test(records_that_terminate_are_judged_by_values_alone),
        cmocka_unit_test(failures_leave_the_estimate_alone),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
        cmocka_unit_test(impossible_shapes_and_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
