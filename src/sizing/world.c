/* world.c - see world.h. */
#include "sizing/world.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"

#define CORE_MB   1769.0 /* of memory that comes with one core */
#define CORES_MAX 6.0
#define NOISE     0.02
#define THRASH    4.0 /* times slower for each time that memory falls short */

enum { WAIT, WORK, THREADS, NEED, SPEED, TRUTHS };

static const double sizes[AW_SIZE_WORLD_SIZES] = {128,  192,  256,  512,  768,  1024,
                                                  1536, 1769, 2048, 3008, 5120, 10240};

void aw_size_world_pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret_pair)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 40 + split);
    *ret_pair = (struct aw_task_pair){.seed = seed, .split = split, .truth_count = TRUTHS};
    ret_pair->truth[WAIT] = exp(aw_rng_uniform(&rng, log(0.005), log(1.0)));
    ret_pair->truth[WORK] = exp(aw_rng_uniform(&rng, log(0.005), log(2.0)));
    ret_pair->truth[THREADS] = aw_rng_double(&rng) < 0.7 ? 1 : aw_rng_uniform(&rng, 1, 6);
    ret_pair->truth[NEED] = exp(aw_rng_uniform(&rng, log(0.04), log(0.6))); /* GB */
    ret_pair->truth[SPEED] = exp(aw_rng_uniform(&rng, log(0.6), log(1.6)));
    snprintf(ret_pair->application, sizeof ret_pair->application, "function %llu",
             (unsigned long long)seed);
    snprintf(ret_pair->environment, sizeof ret_pair->environment, "cores of %.2f",
             ret_pair->truth[SPEED]);
}

void aw_size_world_configuration(uint32_t index, float *features, char name[AW_TASK_NAME_MAX])
{
    AW_ASSERT(index < AW_SIZE_WORLD_SIZES);
    features[0] = (float)log2(sizes[index]);
    features[1] = (float)(CORE_MB / fmin(sizes[index], CORE_MB));
    snprintf(name, AW_TASK_NAME_MAX, "%.0f MB", sizes[index]);
}

static double truth(const struct aw_task_pair *pair, uint32_t index)
{
    const double *t = pair->truth;
    const double cores = fmin(sizes[index] / CORE_MB, CORES_MAX);
    const double usable = fmin(cores, t[THREADS]) * t[SPEED];
    const double lack = fmax(0, t[NEED] * 1024 / sizes[index] - 1);
    return (t[WAIT] + t[WORK] / usable) * (1 + THRASH * lack);
}

double aw_size_world_sample(const struct aw_task_pair *pair, uint32_t index, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 200 + index);
    return truth(pair, index) * exp(NOISE * aw_rng_normal(&rng));
}

double aw_size_world_best(const struct aw_task_pair *pair)
{
    double best = INFINITY;
    for (uint32_t i = 0; i < AW_SIZE_WORLD_SIZES; i++)
        best = fmin(best, truth(pair, i));
    return best;
}

enum aw_err aw_size_table_of_task(const struct aw_task *task, uint64_t seed, uint32_t learned,
                                  uint32_t unseen, struct aw_size_table *ret_table,
                                  struct aw_diag *diag)
{
    const uint32_t C = task->configuration_count;
    struct aw_size_table *table = ret_table;
    if (task->feature_dim > AW_SIZE_FEATURES_MAX || C > AW_SIZE_CONFIGS_MAX ||
        learned + unseen > AW_SIZE_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "task %s: expected at most %u features and %u configurations", task->name,
                       AW_SIZE_FEATURES_MAX, AW_SIZE_CONFIGS_MAX);
    if (aw_size_table_init(table, C, learned + unseen, learned + unseen))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the pairs of task %s", task->name);
    snprintf(table->set, sizeof table->set, "%s", task->name);
    table->feature_count = task->feature_dim;
    table->memory = task->sample == aw_size_world_sample;
    for (uint32_t c = 0; c < C; c++) {
        float features[AW_TASK_DIM_MAX];
        task->configuration(c, features, table->config[c].name);
        for (uint32_t k = 0; k < task->feature_dim; k++)
            table->config[c].feature[k] = features[k];
        table->config[c].memory_mb = table->memory ? sizes[c] : (double)NAN;
    }
    aw_size_table_standardise(table);
    for (uint32_t w = 0; w < learned + unseen; w++) {
        struct aw_task_pair pair = {0};
        task->pair(seed + w, w < learned ? AW_TASK_LEARNED : AW_TASK_UNSEEN, &pair);
        table->workload[w].group = w;
        snprintf(table->workload[w].name, AW_SIZE_NAME_MAX, "%s", pair.application);
        for (uint32_t c = 0; c < C; c++) {
            const double value = task->sample(&pair, c, seed + w);
            if (!isfinite(value) || value <= 0) {
                aw_size_table_deinit(table);
                return aw_fail(diag, AW_ERR_RANGE,
                               "task %s: expected a value above 0 of configuration %u, found %g",
                               task->name, c, value);
            }
            table->time[(size_t)w * C + c] = log(value);
            if (table->memory)
                table->cost[(size_t)w * C + c] = log(aw_size_lambda_usd(sizes[c], value));
        }
    }
    table->costs = table->memory;
    return AW_OK;
}
