/* supervised_test.c - a supervised task from its table alone: learned, met, compared. */
#include "flash/supervised.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "flash/tasks.h"

#define CONFIGS 8u

static void pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, split);
    *ret = (struct aw_task_pair){.seed = seed, .split = split, .truth_count = 2};
    ret->truth[0] = aw_rng_uniform(&rng, 0.1, 5);
    ret->truth[1] = aw_rng_uniform(&rng, 0.5, 2);
}

static void configuration(uint32_t index, float *features, char name[AW_TASK_NAME_MAX])
{
    features[0] = (float)index;
    snprintf(name, AW_TASK_NAME_MAX, "%u", index);
}

static double sample(const struct aw_task_pair *p, uint32_t index, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, index);
    return p->truth[0] * exp(-0.3 * p->truth[1] * index + 0.01 * aw_rng_normal(&rng));
}

static double bad(const struct aw_task_pair *p, uint32_t index, uint64_t seed)
{
    (void)p, (void)seed;
    return index == 3 ? -1 : 1;
}

static double first(const float *features, const double *values, uint32_t count,
                    const float *target)
{
    (void)features, (void)count, (void)target;
    return values[0];
}

static const struct aw_task_baseline rules[] = {
    {.name = "first", .summary = "What was measured first", .predict = first},
};
static const struct aw_task decay = {
    .name = "decay",
    .summary = "Curves that fall at a rate of their own",
    .kind = AW_TASK_SUPERVISED,
    .feature_dim = 1,
    .configuration_count = CONFIGS,
    .pair = pair,
    .configuration = configuration,
    .sample = sample,
    .baseline = rules,
    .baseline_count = 1,
    .verb = {[AW_TASK_COMPARE] = aw_task_supervised},
};

struct seen {
    char method[64];
    double shots, mape_aware, mape_first;
    uint32_t rows;
};

static void see_text(void *self, const char *key, const char *value)
{
    struct seen *seen = self;
    if (strcmp(key, "method") == 0)
        snprintf(seen->method, sizeof seen->method, "%s", value);
}

static void see_figure(void *self, const char *key, double value)
{
    struct seen *seen = self;
    if (strcmp(key, "shots") == 0)
        seen->shots = value;
    if (strcmp(key, "mape") == 0 && seen->shots == 2 && strcmp(seen->method, "aware") == 0)
        seen->mape_aware = value;
    if (strcmp(key, "mape") == 0 && seen->shots == 2 && strcmp(seen->method, "first") == 0)
        seen->mape_first = value;
}

static void see_row(void *self)
{
    ((struct seen *)self)->rows++;
}

static void see_note(void *self, const char *sentence)
{
    (void)self, (void)sentence;
}

static bool see_progress(void *self, double share, const char *what)
{
    (void)what;
    assert_true(share >= 0 && share <= 1);
    return ((struct seen *)self)->shots < 99;
}

static struct aw_task_sink sink_of(struct seen *seen)
{
    return (struct aw_task_sink){seen, see_text, see_figure, see_row, see_note, see_progress};
}

static void what_was_learned_elsewhere_beats_the_tasks_own_rule(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct aw_diag diag = {0};
    const struct aw_task_ask ask = {.seed = 1, .seeds = 1, .threads = 1};
    const struct aw_task_sink sink = sink_of(&seen);
    assert_ok(aw_task_do(&decay, AW_TASK_COMPARE, &ask, &sink, &diag));
    assert_true(seen.rows >= 6);
    assert_true(seen.mape_aware > 0 && seen.mape_aware < 0.5 * seen.mape_first);
}

static void a_value_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct aw_diag diag = {0};
    struct aw_task task = decay;
    const struct aw_task_ask ask = {.seed = 1, .seeds = 1, .threads = 1};
    const struct aw_task_sink sink = sink_of(&seen);
    task.sample = bad;
    assert_int_equal(aw_task_do(&task, AW_TASK_COMPARE, &ask, &sink, &diag), AW_ERR_RANGE);
    assert_non_null(strstr(diag.text, "configuration 3"));
}

static void whoever_asked_may_end_it(void **state)
{
    (void)state;
    struct seen seen = {.shots = 100};
    struct aw_diag diag = {0};
    const struct aw_task_ask ask = {.seed = 1, .seeds = 2, .threads = 1};
    const struct aw_task_sink sink = sink_of(&seen);
    assert_int_equal(aw_task_do(&decay, AW_TASK_COMPARE, &ask, &sink, &diag), AW_ERR_INTERRUPTED);
}

static void every_task_of_the_table_is_whole(void **state)
{
    (void)state;
    for (uint32_t i = 0; aw_tasks()[i]; i++) {
        const struct aw_task *found = NULL;
        struct aw_diag diag = {0};
        if (aw_task_check(aw_tasks()[i], &diag))
            fail_msg("%s: %s", diag.key, diag.text);
        assert_ok(aw_task_find(aw_tasks()[i]->name, &found, &diag));
        assert_ptr_equal(found, aw_tasks()[i]);
    }
    const struct aw_task *none = NULL;
    struct aw_diag diag = {0};
    assert_int_equal(aw_task_find("none", &none, &diag), AW_ERR_NOTFOUND);
}

AW_TEST_GROUP("flash-supervised")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_learned_elsewhere_beats_the_tasks_own_rule),
        cmocka_unit_test(a_value_that_cannot_be_is_refused),
        cmocka_unit_test(whoever_asked_may_end_it),
        cmocka_unit_test(every_task_of_the_table_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
