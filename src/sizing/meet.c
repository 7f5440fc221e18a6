/*
 * meet.c - a workload never seen before, measurement by measurement: what the learner chooses, what
 * it then knows of all the others, and what a rule without memory would.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "sizing/evaluate.h"

#define STEPS 5u

static double mape(const double *said, const double *y, uint32_t count,
                   const struct aw_size_shot *shots, uint32_t shot_count)
{
    double sum = 0, n = 0;
    for (uint32_t c = 0; c < count; c++) {
        bool open = isfinite(y[c]);
        for (uint32_t i = 0; i < shot_count; i++)
            open &= shots[i].config != c;
        if (open) {
            sum += fabs(exp(fmin(said[c] - y[c], 50)) - 1);
            n++;
        }
    }
    return n > 0 ? sum / n : (double)NAN;
}

static void row_put(const struct aw_size_table *table, const double *value, uint32_t workload,
                    const struct aw_size_shot *shots, uint32_t count, double best,
                    const struct aw_size_prediction *said, double gain,
                    const struct aw_task_sink *sink)
{
    const uint32_t now = shots[count - 1].config;
    const double *y = value + (size_t)workload * table->config_count;
    double found = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        found = fmin(found, shots[i].value);
    sink->text(sink->self, "workload", table->workload[workload].name);
    sink->figure(sink->self, "measured", count);
    sink->text(sink->self, "configuration", table->config[now].name);
    sink->figure(sink->self, "seconds", exp(aw_size_times(table, workload)[now]));
    if (table->costs)
        sink->figure(sink->self, "usd", exp(y[now]));
    sink->figure(sink->self, "regret", exp(found - best) - 1);
    sink->figure(sink->self, "mape_aware", mape(said->value, y, table->config_count, shots, count));
    sink->figure(sink->self, "mape_additive",
                 mape(said->head[AW_SIZE_HEAD_ADDITIVE], y, table->config_count, shots, count));
    sink->figure(sink->self, "mape_flat",
                 mape(said->head[AW_SIZE_HEAD_FLAT], y, table->config_count, shots, count));
    sink->figure(sink->self, "expected_gain", gain);
    sink->row(sink->self);
}

static void meet_one(const struct aw_size_table *table, const double *value, uint32_t workload,
                     struct aw_size_learner *learner, struct aw_size_prediction *said,
                     const struct aw_task_sink *sink)
{
    const uint32_t C = table->config_count;
    const double *y = value + (size_t)workload * C;
    const float *context = table->workload[workload].context;
    struct aw_size_shot shots[STEPS] = {{0, 0}};
    bool can[AW_SIZE_CONFIGS_MAX] = {false};
    double best = INFINITY;
    for (uint32_t c = 0; c < C; c++) {
        can[c] = isfinite(y[c]);
        best = can[c] ? fmin(best, y[c]) : best;
    }
    struct aw_size_next next = aw_size_next(learner, context, shots, 0, can);
    for (uint32_t n = 0; n < STEPS && next.config != UINT32_MAX; n++) {
        shots[n] = (struct aw_size_shot){next.config, y[next.config]};
        aw_size_predict(learner, context, AW_SIZE_TOLD_RIGHT, shots, n + 1, said);
        next = aw_size_next(learner, context, shots, n + 1, can);
        row_put(table, value, workload, shots, n + 1, best, said, next.gain, sink);
    }
}

enum aw_err aw_size_meet(const struct aw_size_table *table, uint64_t seed, uint32_t learned,
                         const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_size_settings settings = aw_size_default();
    struct aw_size_learner *learner = NULL;
    struct aw_size_prediction *said = aw_alloc_new(NULL, 1, sizeof *said);
    uint32_t *known = aw_alloc_new(NULL, table->workload_count, sizeof *known), count = 0;
    const double *value = table->costs ? table->cost : table->time; /* the least cost is sought */
    struct aw_rng rng;
    enum aw_err err = said && known ? AW_OK : AW_ERR_NOMEM;
    aw_rng_init(&rng, seed, 21);
    const uint32_t met = learned ? learned : aw_rng_below(&rng, table->workload_count);
    settings.seed = seed;
    for (uint32_t w = 0; !err && w < table->workload_count; w++)
        if (learned ? w < learned : table->workload[w].group != table->workload[met].group)
            known[count++] = w;
    if (err)
        aw_fail(diag, err, "no memory to meet a workload");
    err = err ? err : aw_size_learner_new(table, value, known, count, &settings, &learner, diag);
    if (!err)
        meet_one(table, value, met, learner, said, sink);
    aw_size_learner_free(learner);
    aw_alloc_free(NULL, known);
    aw_alloc_free(NULL, said);
    return err;
}
