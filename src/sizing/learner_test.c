/* learner_test.c - heads and their mix on workloads made up here, whose truth is a formula. */
#include "sizing/learner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

#define WORKLOADS 16u
#define CONFIGS   9u

/* Memory sizes of AWS Lambda: a part of the time waits, the rest needs a share of a core. */
static void lambda_make(struct aw_size_table *table, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    assert_ok(aw_size_table_init(table, CONFIGS, WORKLOADS, WORKLOADS));
    table->feature_count = 1;
    table->memory = table->clock = true;
    for (uint32_t c = 0; c < CONFIGS; c++) {
        table->config[c].memory_mb = 128 * pow(2, 0.6 * c);
        table->config[c].feature[0] = (float)c;
        snprintf(table->config[c].name, AW_SIZE_NAME_MAX, "%.0f", table->config[c].memory_mb);
    }
    for (uint32_t w = 0; w < WORKLOADS; w++) {
        const double share = aw_rng_double(&rng), level = aw_rng_uniform(&rng, -2, 3);
        table->workload[w].group = w;
        for (uint32_t c = 0; c < CONFIGS; c++)
            table->time[w * CONFIGS + c] =
                level + log(1 - share + share * 1792 / fmin(1792, table->config[c].memory_mb)) +
                0.01 * aw_rng_normal(&rng);
    }
    aw_size_table_standardise(table);
}

static struct aw_size_settings quick(uint32_t nets)
{
    struct aw_size_settings settings = aw_size_default();
    settings.nets = nets;
    settings.updates = 60;
    settings.draws = 2;
    return settings;
}

static void two_numbers_tell_a_curve_of_the_family(void **state)
{
    (void)state;
    struct aw_size_table table;
    struct aw_size_memory *memory = NULL;
    lambda_make(&table, 1);
    assert_ok(aw_size_memory_new(&table, table.time, NULL, 0, &memory));
    for (uint32_t w = 0; w < WORKLOADS; w++) {
        const double *y = aw_size_times(&table, w);
        const struct aw_size_shot shots[] = {{1, y[1]}, {6, y[6]}};
        double said[CONFIGS];
        aw_size_two_point(memory, shots, 2, said, NULL);
        for (uint32_t c = 0; c < CONFIGS; c++)
            assert_true(fabs(said[c] - y[c]) < 0.12);
        aw_size_physical(memory, shots, 2, said, NULL);
        for (uint32_t c = 0; c < CONFIGS; c++)
            assert_true(fabs(said[c] - y[c]) < 0.35); /* no workload says which knee it is */
    }
    aw_size_memory_free(memory);
    aw_size_table_deinit(&table);
}

static void the_mix_beats_the_mean_and_its_intervals_hold(void **state)
{
    (void)state;
    struct aw_size_table table;
    struct aw_size_learner *learner = NULL;
    struct aw_diag diag = {0};
    static struct aw_size_prediction said;
    const struct aw_size_settings settings = quick(1);
    uint32_t known[WORKLOADS];
    double flat = 0, mine = 0, held = 0, count = 0;
    lambda_make(&table, 2);
    for (uint32_t w = 0; w < WORKLOADS; w++)
        known[w] = w;
    assert_ok(aw_size_learner_new(&table, table.time, known, 11, &settings, &learner, &diag));
    for (uint32_t w = 11; w < WORKLOADS; w++) {
        const double *y = aw_size_times(&table, w);
        const struct aw_size_shot shots[] = {{0, y[0]}, {5, y[5]}};
        aw_size_predict(learner, NULL, AW_SIZE_TOLD_RIGHT, shots, 2, &said);
        assert_true(said.value[5] == y[5]); /* what was measured is known */
        for (uint32_t c = 1; c < CONFIGS; c++) {
            if (c == 5)
                continue;
            mine += fabs(exp(said.value[c] - y[c]) - 1);
            flat += fabs(exp(said.head[AW_SIZE_HEAD_FLAT][c] - y[c]) - 1);
            held += said.low[c] <= y[c] && y[c] <= said.high[c];
            assert_true(said.low[c] <= said.high[c]);
            count++;
        }
    }
    assert_true(mine < 0.2 * flat);
    assert_true(held / count > 0.7);
    aw_size_learner_free(learner);
    aw_size_table_deinit(&table);
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    struct aw_size_table table;
    struct aw_diag diag = {0};
    static struct aw_size_prediction said[2];
    const struct aw_size_settings settings = quick(1);
    uint32_t known[WORKLOADS];
    lambda_make(&table, 3);
    for (uint32_t w = 0; w < WORKLOADS; w++)
        known[w] = w;
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_size_learner *learner = NULL;
        const struct aw_size_shot shot = {2, 1.0};
        memset(&said[i], 0, sizeof said[i]);
        assert_ok(aw_size_learner_new(&table, table.time, known, 8, &settings, &learner, &diag));
        aw_size_predict(learner, NULL, AW_SIZE_TOLD_RIGHT, &shot, 1, &said[i]);
        aw_size_learner_free(learner);
    }
    assert_memory_equal(&said[0], &said[1], sizeof said[0]);
    aw_size_table_deinit(&table);
}

static void a_search_without_any_memory_ends_at_the_best(void **state)
{
    (void)state;
    struct aw_size_table table;
    struct aw_size_learner *learner = NULL;
    struct aw_diag diag = {0};
    struct aw_size_shot shots[CONFIGS];
    const struct aw_size_settings settings = quick(1);
    lambda_make(&table, 4);
    assert_ok(aw_size_learner_new(&table, table.time, NULL, 0, &settings, &learner, &diag));
    const double *y = aw_size_times(&table, 0);
    double best = INFINITY, found = INFINITY;
    for (uint32_t c = 0; c < CONFIGS; c++)
        best = fmin(best, y[c]);
    for (uint32_t n = 0; n < 4; n++) {
        const struct aw_size_next next = aw_size_next(learner, NULL, shots, n, NULL);
        assert_true(next.config < CONFIGS);
        for (uint32_t i = 0; i < n; i++)
            assert_int_not_equal(shots[i].config, next.config);
        shots[n] = (struct aw_size_shot){next.config, y[next.config]};
        found = fmin(found, y[next.config]);
    }
    assert_true(exp(found - best) < 1.1);
    for (uint32_t c = 0; c < CONFIGS; c++)
        shots[c] = (struct aw_size_shot){c, y[c]};
    assert_int_equal(aw_size_next(learner, NULL, shots, CONFIGS, NULL).config, UINT32_MAX);
    aw_size_learner_free(learner);
    aw_size_table_deinit(&table);
}

static void holes_in_a_table_are_no_numbers(void **state)
{
    (void)state;
    struct aw_size_table table;
    struct aw_size_learner *learner = NULL;
    struct aw_diag diag = {0};
    static struct aw_size_prediction said;
    const struct aw_size_settings settings = quick(1);
    struct aw_rng rng;
    uint32_t known[WORKLOADS];
    lambda_make(&table, 5);
    aw_rng_init(&rng, 5, 1);
    for (uint32_t i = 0; i < WORKLOADS * CONFIGS; i++)
        if (aw_rng_double(&rng) < 0.6)
            table.time[i] = (double)NAN;
    for (uint32_t w = 0; w < WORKLOADS; w++) {
        known[w] = w;
        table.time[w * CONFIGS + 4] = (double)NAN; /* nobody ran this one */
    }
    assert_ok(
        aw_size_learner_new(&table, table.time, known, WORKLOADS, &settings, &learner, &diag));
    const struct aw_size_shot shot = {4, 2.0};
    aw_size_predict(learner, NULL, AW_SIZE_TOLD_RIGHT, &shot, 1, &said);
    for (uint32_t c = 0; c < CONFIGS; c++)
        assert_true(isfinite(said.value[c]) && isfinite(said.low[c]) && isfinite(said.high[c]));
    aw_size_learner_free(learner);
    aw_size_table_deinit(&table);
}

AW_TEST_GROUP("sizing-learner")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_numbers_tell_a_curve_of_the_family),
        cmocka_unit_test(the_mix_beats_the_mean_and_its_intervals_hold),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(a_search_without_any_memory_ends_at_the_best),
        cmocka_unit_test(holes_in_a_table_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
