/* copyenv_test.c - a copy keeps the contract of environments, and answers as the pilot would. */
#include "rehearsal/copyenv.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "env/check.h"
#include "rehearsal/copyenv_testing.h"

/* One life for all tests: making it takes longer than most of them. */
static struct life life;

static int begin(void **state)
{
    (void)state;
    live(3, 1, &life);
    return 0;
}

static void it_keeps_the_contract_of_environments(void **state)
{
    (void)state;
    static const struct {
        bool guarded;
        uint32_t objective, preset;
        double busier;
        const char *why;
    } cases[] = {
        {true, AW_OBJECTIVE_CONSTRAINED, AW_STATE_DEFAULT, 1, "as a pilot makes it"},
        {false, AW_OBJECTIVE_CONSTRAINED, AW_STATE_DEFAULT, 2.5, "without rails, under more load"},
        {true, AW_OBJECTIVE_PAPER, AW_STATE_PAPER, 1, "as the paper has it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_copyenv_config config = copy_config(&life);
        config.guarded = cases[i].guarded;
        config.objective.kind = cases[i].objective;
        config.state.preset = cases[i].preset;
        config.busier = cases[i].busier;
        struct aw_env env = copy_of(&config);
        struct aw_env_finding finding[AW_ENV_CHECK_RULE_COUNT];
        uint32_t count = 1;
        assert_ok(aw_env_check(&env, 5, NULL, finding, AW_ENV_CHECK_RULE_COUNT, &count));
        for (uint32_t f = 0; f < count; f++)
            print_error("%s: %s: %s\n", cases[i].why, aw_env_check_rule_name(finding[f].rule),
                        finding[f].text);
        assert_int_equal(count, 0);
        aw_env_free(&env);
    }
}

/* Plays one episode with one action all along; the sum of rewards. */
static double play(const struct aw_env *env, uint64_t seed, const float *action,
                   uint32_t *ret_violations, double *ret_cost)
{
    float obs[AW_STATE_DIM_MAX];
    struct aw_step step = {0};
    double sum = 0;
    *ret_violations = 0;
    *ret_cost = 0;
    assert_ok(env->ops->reset(env->self, seed, obs));
    while (!step.truncated) {
        assert_ok(env->ops->step(env->self, action, obs, &step));
        assert_false(step.terminated);
        *ret_violations += aw_copyenv_score(env)->violated;
        *ret_cost += aw_copyenv_score(env)->cost;
        sum += (double)step.reward;
    }
    return sum;
}

static void the_reward_is_minus_cost_and_the_weight_of_what_was_missed(void **state)
{
    (void)state;
    struct aw_copyenv_config config = copy_config(&life);
    static const float actions[][AW_ACTION_DIM] = {{0.2f, 0, -1}, {0.2f, 0, 0}, {0.2f, 0, 1}};
    const double reference = config.objective.cost_reference_per_hour * config.step_s / 3600;
    double cost[3];
    uint32_t violations[3];
    for (uint32_t a = 0; a < 3; a++) {
        struct aw_env env = copy_of(&config);
        const double sum = play(&env, 7, actions[a], &violations[a], &cost[a]);
        assert_close(sum, -cost[a] / reference - config.lambda * violations[a], 1e-5);
        aw_env_free(&env);
    }
    assert_true(cost[0] < cost[1] && cost[1] < cost[2]); /* more margin costs more */
    assert_true(violations[0] > violations[2]);          /* and misses less */
}

static void the_rails_hold_what_an_action_asks_for(void **state)
{
    (void)state;
    struct aw_copyenv_config config = copy_config(&life);
    static const float least[AW_ACTION_DIM] = {-1, -1, -1};
    uint32_t violations[2];
    double cost[2];
    for (uint32_t guarded = 0; guarded < 2; guarded++) {
        config.guarded = guarded;
        struct aw_env env = copy_of(&config);
        (void)play(&env, 11, least, &violations[guarded], &cost[guarded]);
        aw_env_free(&env);
    }
    assert_true(cost[1] > cost[0]); /* shrinking goes slowly behind the rails */

    config.guarded = true; /* and what is not controlled never moves */
    config.controlled = 0;
    struct aw_env env = copy_of(&config);
    double still;
    (void)play(&env, 11, least, &violations[0], &still);
    const double per_step =
        6 * (0.04 + 0.005 * (double)life.memory_bytes / 1073741824.0) * config.step_s / 3600;
    assert_close(still, COPY_STEPS * per_step, 1e-3);
    aw_env_free(&env);
}

static void episodes_differ_by_where_in_the_past_they_begin(void **state)
{
    (void)state;
    struct aw_copyenv_config config = copy_config(&life);
    struct aw_env env = copy_of(&config);
    float obs[8][AW_STATE_DIM_MAX], again[AW_STATE_DIM_MAX];
    for (uint32_t i = 0; i < 8; i++)
        assert_ok(env.ops->reset(env.self, i, obs[i]));
    uint32_t different = 0;
    for (uint32_t i = 1; i < 8; i++)
        different += memcmp(obs[i], obs[0], sizeof again) != 0;
    assert_int_equal(different, 7);
    assert_ok(env.ops->reset(env.self, 3, again));
    assert_memory_equal(again, obs[3], sizeof again);
    aw_env_free(&env);
}

static void a_state_of_another_copy_is_refused(void **state)
{
    (void)state;
    struct aw_copyenv_config config = copy_config(&life);
    struct aw_env one = copy_of(&config);
    config.seed = 5;
    struct aw_env other = copy_of(&config);
    static unsigned char bytes[AW_ENV_STATE_BYTES_MAX];
    assert_int_equal(one.spec->state_bytes, other.spec->state_bytes);
    one.ops->state_save(one.self, bytes);
    assert_ok(one.ops->state_load(one.self, bytes));
    assert_int_equal(other.ops->state_load(other.self, bytes), AW_ERR_FORMAT);
    aw_env_free(&one);
    aw_env_free(&other);
}

static void too_little_seen_makes_no_copy(void **state)
{
    (void)state;
    struct aw_copy_record nothing;
    aw_copy_begin(&nothing);
    static const struct {
        bool nothing;
        uint32_t minutes, steps;
        double error_max;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {true, MINUTES, 10, 0.5, AW_ERR_NODATA, "nothing on record"},
        {false, AW_COPYENV_MINUTES_MIN - 1, 10, 0.5, AW_ERR_NODATA, "too short a past"},
        {false, MINUTES, 10, 0, AW_ERR_NODATA, "no copy is perfect"},
        {false, MINUTES, 0, 0.5, AW_ERR_LIMIT, "episodes of nothing"},
        {false, MINUTES, AW_COPYENV_STEPS_MAX + 1, 0.5, AW_ERR_LIMIT, "endless ones"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_copyenv_config config = copy_config(&life);
        if (cases[i].nothing)
            config.record = &nothing;
        config.minutes = cases[i].minutes;
        config.episode_steps = cases[i].steps;
        config.error_max = cases[i].error_max;
        struct aw_env env = {0};
        struct aw_diag diag = {0};
        if (aw_copyenv_make(&config, NULL, &env, &diag) != cases[i].err)
            fail_msg("%s", cases[i].why);
        assert_true(diag.text[0] != '\0');
        assert_null(env.self);
    }
}

static void memory_is_taken_at_make_alone(void **state)
{
    (void)state;
    const struct aw_copyenv_config config = copy_config(&life);
    struct aw_alloc_counting counting;
    struct aw_env env = {0};
    uint64_t n = 0;
    for (;; n++) {
        assert_true(n < 50);
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err = aw_copyenv_make(&config, &counting.alloc, &env, NULL);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_null(env.self);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_true(n >= 3);
    const uint64_t made = counting.alloc_count;
    static const float action[AW_ACTION_DIM] = {0};
    uint32_t violations;
    double cost;
    (void)play(&env, 1, action, &violations, &cost);
    assert_int_equal(counting.alloc_count, made);
    aw_env_free(&env);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("copyenv")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_the_contract_of_environments),
        cmocka_unit_test(the_reward_is_minus_cost_and_the_weight_of_what_was_missed),
        cmocka_unit_test(the_rails_hold_what_an_action_asks_for),
        cmocka_unit_test(episodes_differ_by_where_in_the_past_they_begin),
        cmocka_unit_test(a_state_of_another_copy_is_refused),
        cmocka_unit_test(too_little_seen_makes_no_copy),
        cmocka_unit_test(memory_is_taken_at_make_alone),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
