/* advise.c - see advise.h. */
#include "sizing/advise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

struct advising {
    const struct aw_size_table *table;
    uint32_t workload;
    enum aw_size_goal goal;
    double *price; /* [config]: ln of USD a second; NAN: not known */
    double *value; /* [workload][config]: ln of the goal */
    double *scratch;
    uint32_t *known;
    uint32_t known_count;
};

/* What a second costs: of AWS Lambda by its memory, else as it was elsewhere, or for this one. */
static void prices(struct advising *a)
{
    const uint32_t C = a->table->config_count, W = a->table->workload_count;
    for (uint32_t c = 0; c < C; c++) {
        uint32_t count = 0;
        for (uint32_t w = 0; w < W; w++) {
            const double ratio =
                a->table->cost[(size_t)w * C + c] - a->table->time[(size_t)w * C + c];
            if (isfinite(ratio))
                a->scratch[count++] = ratio;
        }
        a->price[c] = a->table->config[c].price;
        if (isfinite(a->price[c]))
            continue;
        if (count > 0) {
            aw_stats_sort(a->scratch, count);
            a->price[c] = aw_stats_median(a->scratch, count);
        } else if (a->table->costs && a->table->memory) {
            a->price[c] = log(aw_size_lambda_usd(a->table->config[c].memory_mb, 1));
        }
    }
}

static double goal_of(enum aw_size_goal goal, double time, double price)
{
    return goal == AW_SIZE_TIME ? time : goal == AW_SIZE_COST ? time + price : time + 0.5 * price;
}

static void values(struct advising *a)
{
    const uint32_t C = a->table->config_count, W = a->table->workload_count;
    for (uint32_t w = 0; w < W; w++)
        for (uint32_t c = 0; c < C; c++) {
            const size_t at = (size_t)w * C + c;
            const double paid = a->table->cost[at] - a->table->time[at];
            a->value[at] =
                goal_of(a->goal, a->table->time[at], isfinite(paid) ? paid : a->price[c]);
        }
}

static uint32_t learned(struct advising *a)
{
    const struct aw_size_table *table = a->table;
    uint32_t groups = 0;
    for (uint32_t w = 0; w < table->workload_count; w++)
        if (w != a->workload && !table->workload[w].asked)
            a->known[a->known_count++] = w;
    for (uint32_t g = 0; g < table->group_count; g++) {
        bool there = false;
        for (uint32_t i = 0; i < a->known_count; i++)
            there |= table->workload[a->known[i]].group == g;
        groups += there;
    }
    return groups;
}

static int by_goal(const void *a, const void *b)
{
    const struct aw_size_row *x = a, *y = b;
    return x->goal < y->goal   ? -1
           : x->goal > y->goal ? 1
                               : (x->config > y->config) - (x->config < y->config);
}

/* Rows of all configurations, the best first. Before a measurement only their order is known. */
static void rows_fill(const struct advising *a, const struct aw_size_learner *learner,
                      const struct aw_size_prediction *said, struct aw_size_advice *ret)
{
    const uint32_t C = a->table->config_count;
    const double *y = aw_size_times(a->table, a->workload);
    for (uint32_t c = 0; c < C; c++) {
        struct aw_size_row *row = &ret->row[c];
        const double price = a->price[c];
        /* back from the goal to seconds: the price of a second is known, its number is not */
        const double back = goal_of(a->goal, 0, price);
        *row = (struct aw_size_row){.config = c, .measured = isfinite(y[c]), .usd = (double)NAN};
        if (!said) {
            row->seconds = row->seconds_low = row->seconds_high = (double)NAN;
            row->goal = learner->memory->effect[c];
            continue;
        }
        row->seconds = row->measured ? exp(y[c]) : exp(said->value[c] - back);
        row->seconds_low = row->measured ? row->seconds : exp(said->low[c] - back);
        row->seconds_high = row->measured ? row->seconds : exp(said->high[c] - back);
        const double paid = a->table->cost[(size_t)a->workload * C + c];
        row->usd = row->measured && isfinite(paid) ? exp(paid) : row->seconds * exp(price);
        row->goal = said->value[c];
    }
    ret->row_count = C;
    qsort(ret->row, C, sizeof *ret->row, by_goal);
}

static uint32_t row_of(const struct aw_size_advice *advice, uint32_t config)
{
    for (uint32_t i = 0; i < advice->row_count; i++)
        if (advice->row[i].config == config)
            return i;
    return UINT32_MAX;
}

static void advise(struct advising *a, struct aw_size_learner *learner, double stop,
                   struct aw_size_prediction *said, struct aw_size_advice *ret)
{
    const uint32_t C = a->table->config_count;
    const double *y = a->value + (size_t)a->workload * C;
    const float *context = a->table->workload[a->workload].context;
    struct aw_size_shot shots[AW_SIZE_SHOTS_MAX] = {{0, 0}};
    uint32_t count = 0, best = UINT32_MAX;
    for (uint32_t c = 0; c < C; c++) {
        if (!isfinite(y[c]))
            continue;
        ret->measured++;
        if (best == UINT32_MAX || y[c] < y[best])
            best = c;
        if (count < AW_SIZE_SHOTS_MAX)
            shots[count++] = (struct aw_size_shot){c, y[c]};
    }
    if (count > 0) {
        aw_size_predict(learner, context, AW_SIZE_TOLD_RIGHT, shots, count, said);
        memcpy(ret->weight, said->weight, sizeof ret->weight);
        ret->kept_mape =
            learner->mix[count < AW_SIZE_KINDS ? count - 1 : AW_SIZE_KINDS - 1].kept_mape;
    }
    bool can[AW_SIZE_CONFIGS_MAX] = {false};
    for (uint32_t c = 0; c < C; c++)
        can[c] = !isfinite(y[c]);
    const struct aw_size_next next = aw_size_next(learner, context, shots, count, can);
    rows_fill(a, learner, count ? said : NULL, ret);
    ret->gain = next.gain;
    ret->next = next.config == UINT32_MAX ? UINT32_MAX : row_of(ret, next.config);
    ret->stop = count > 0 && (ret->next == UINT32_MAX || next.gain < stop);
    ret->choice = row_of(ret, count ? best : next.config);
}

enum aw_err aw_size_advise(const struct aw_size_table *table, uint32_t workload,
                           enum aw_size_goal goal, double stop,
                           const struct aw_size_settings *settings,
                           struct aw_size_advice *ret_advice, struct aw_diag *diag)
{
    const size_t C = table->config_count, W = table->workload_count;
    struct advising a = {.table = table, .workload = workload, .goal = goal};
    struct aw_size_learner *learner = NULL;
    struct aw_size_prediction *said = aw_alloc_new(NULL, 1, sizeof *said);
    enum aw_err err = AW_OK;
    a.price = aw_alloc_new(NULL, C, sizeof(double));
    a.value = aw_alloc_new(NULL, W * C, sizeof(double));
    a.scratch = aw_alloc_new(NULL, W, sizeof(double));
    a.known = aw_alloc_new(NULL, W, sizeof(uint32_t));
    if (!said || !a.price || !a.value || !a.scratch || !a.known) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for advice");
        goto out;
    }
    if (goal != AW_SIZE_TIME && !table->costs) {
        err = aw_fail(diag, AW_ERR_NODATA,
                      "expected a price: a column cost or usd_per_hour, or sizes of AWS Lambda");
        goto out;
    }
    prices(&a);
    values(&a);
    memset(ret_advice, 0, sizeof *ret_advice);
    ret_advice->kept_mape = (double)NAN;
    ret_advice->learned_groups = learned(&a);
    ret_advice->learned_workloads = a.known_count;
    err = aw_size_learner_new(table, a.value, a.known, a.known_count, settings, &learner, diag);
    if (!err)
        advise(&a, learner, stop, said, ret_advice);
out:
    aw_size_learner_free(learner);
    aw_alloc_free(NULL, said);
    aw_alloc_free(NULL, a.price);
    aw_alloc_free(NULL, a.value);
    aw_alloc_free(NULL, a.scratch);
    aw_alloc_free(NULL, a.known);
    return err;
}
