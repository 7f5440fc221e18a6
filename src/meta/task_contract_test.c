/* task_contract_test.c - a task's table: what is refused, and by which name. */
#include <aware/task.h>

#include <string.h>

#include "base/testing.h"

/* A knob with a hidden best place: the nearer, the better. */
struct world {
    double place;
    uint32_t step;
};

static void toy_pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->seed = seed;
    ret->split = split;
    ret->truth[0] = (double)(seed % 3) - 1;
    ret->truth_count = 1;
}

static void toy_reset(void *world, const struct aw_task_pair *pair, uint64_t seed, float *obs)
{
    (void)seed;
    *(struct world *)world = (struct world){.place = pair->truth[0]};
    obs[0] = 0;
}

static void toy_step(void *world, const float *action, float *obs, struct aw_task_step *ret)
{
    struct world *w = world;
    const double miss = (double)action[0] - w->place;
    ret->reward = -miss * miss;
    ret->done = ++w->step == 4;
    obs[0] = (float)ret->reward;
}

static void still(void *memory, const float *obs, float *action)
{
    (void)obs;
    ++*(uint32_t *)memory;
    action[0] = 0;
}

static enum aw_err toy_train(const struct aw_task *task, const struct aw_task_ask *ask,
                             const struct aw_task_sink *sink, struct aw_diag *diag)
{
    (void)task, (void)ask, (void)sink, (void)diag;
    return AW_OK;
}

static const struct aw_task_baseline rules[] = {
    {.name = "still", .summary = "Stays at 0", .memory_bytes = sizeof(uint32_t), .act = still},
};
static const struct aw_task toy = {
    .name = "toy-knob",
    .summary = "A knob with a hidden best place",
    .kind = AW_TASK_BOX,
    .feature_dim = 1,
    .action_dim = 1,
    .steps_max = 10,
    .world_bytes = sizeof(struct world),
    .pair = toy_pair,
    .reset = toy_reset,
    .step = toy_step,
    .baseline = rules,
    .baseline_count = 1,
    .verb = {[AW_TASK_TRAIN] = toy_train},
};

static void a_whole_table_passes_and_an_absent_verb_is_named(void **state)
{
    (void)state;
    struct aw_diag diag = {0};
    const struct aw_task_ask ask = {0};
    const struct aw_task_sink sink = {0};
    assert_int_equal(aw_task_check(&toy, &diag), AW_OK);
    assert_int_equal(aw_task_do(&toy, AW_TASK_TRAIN, &ask, &sink, &diag), AW_OK);
    assert_int_equal(aw_task_do(&toy, AW_TASK_MEET, &ask, &sink, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "meet"));
}

static void what_is_missing_is_refused_by_its_name(void **state)
{
    (void)state;
    struct aw_task bad[7];
    const char *const key[] = {"baseline",  "name",  "reset",   "action_dim",
                               "steps_max", "still", "fallback"};
    struct aw_task_baseline idle = rules[0];
    idle.act = NULL;
    for (uint32_t i = 0; i < 7; i++)
        bad[i] = toy;
    bad[0].baseline_count = 0;
    bad[1].name = "Toy knob";
    bad[2].step = NULL;
    bad[3].action_dim = 0;
    bad[4].steps_max = 0;
    bad[5].baseline = &idle;
    bad[6].fallback = 1;
    for (uint32_t i = 0; i < 7; i++) {
        struct aw_diag diag = {0};
        assert_int_equal(aw_task_check(&bad[i], &diag), AW_ERR_CONFIG);
        assert_string_equal(diag.key, key[i]);
    }
}

static void an_episode_of_a_baseline_ends_when_its_world_says_so(void **state)
{
    (void)state;
    struct aw_task_pair pair;
    struct world world;
    uint32_t memory = 99, steps = 0;
    toy_pair(2, AW_TASK_UNSEEN, &pair);
    const double sum = aw_task_play(&toy, &rules[0], &pair, 1, &world, &memory, &steps);
    assert_int_equal(steps, 4);
    assert_int_equal(memory, 4); /* zeroed, then counted */
    assert_true(sum == -4);
}

AW_TEST_GROUP("task-contract")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_table_passes_and_an_absent_verb_is_named),
        cmocka_unit_test(what_is_missing_is_refused_by_its_name),
        cmocka_unit_test(an_episode_of_a_baseline_ends_when_its_world_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
