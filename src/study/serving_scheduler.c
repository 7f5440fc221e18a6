/* serving_scheduler.c - what an order of service is worth, and how lengths are predicted. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "serving/batch.h"
#include "serving/length_study.h"
#include "serving/requests.h"
#include "serving/table.h"
#include "study/experiment_internal.h"

#define SEEDS_MAX 20u
#define FIRST_S   0.1 /* the released scheduler's service: 0.1 s + 0.02 s a token */
#define TOKEN_S   0.02

/* True lengths and the predictions of them. */
struct lengths {
    uint32_t count;
    float *tokens, *five, *three;
};

static void lengths_deinit(struct lengths *lengths)
{
    aw_alloc_free(NULL, lengths->tokens);
    aw_alloc_free(NULL, lengths->five);
    aw_alloc_free(NULL, lengths->three);
}

static bool lengths_init(struct lengths *lengths, uint32_t count)
{
    *lengths = (struct lengths){.tokens = aw_alloc_new(NULL, count, sizeof(float)),
                                .five = aw_alloc_new(NULL, count, sizeof(float)),
                                .three = aw_alloc_new(NULL, count, sizeof(float))};
    return lengths->tokens && lengths->five && lengths->three;
}

/* A class stands for its median length. */
static void classes_to_tokens(struct lengths *lengths, float *class, double *scratch)
{
    double median[8];
    for (uint32_t c = 0; c < 8; c++) {
        size_t n = 0;
        for (uint32_t i = 0; i < lengths->count; i++)
            if (class[i] == (float)c)
                scratch[n++] = (double)lengths->tokens[i];
        aw_stats_sort(scratch, n);
        median[c] = n ? aw_stats_median(scratch, n) : 0;
    }
    for (uint32_t i = 0; i < lengths->count; i++)
        class[i] = (float)median[(uint32_t) class[i] & 7];
}

/* Real predictions where the file has them; else lengths of a trace with noise of tau .6. */
static enum aw_err lengths_read(const char *path, uint64_t seed, struct lengths *ret,
                                bool *ret_real, struct aw_diag *diag)
{
    static const char *const heads[] = {"output_tokens", "predicted_class5", "predicted_class3",
                                        NULL};
    struct aw_serving_table table = {0};
    struct aw_requests requests = {0};
    double *scratch = NULL;
    enum aw_err err = AW_OK;
    *ret = (struct lengths){0};
    *ret_real = strstr(path, ".csv") && !aw_serving_table_read(path, &table, NULL) &&
                aw_serving_table_has(&table, heads);
    if (!*ret_real)
        err = aw_requests_read(path, seed, 100000, &requests, diag);
    const uint32_t most = err ? 0 : *ret_real ? table.rows : requests.count;
    if (!err &&
        (!lengths_init(ret, most) || !(scratch = aw_alloc_new(NULL, most, sizeof *scratch))))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u lengths", most);
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0x1e4);
    for (uint32_t r = 0; !err && r < most; r++) {
        const uint32_t n = ret->count;
        double tokens, five, three;
        if (*ret_real) {
            tokens = aw_serving_table_real(&table, r, aw_serving_table_column(&table, heads[0]));
            five = aw_serving_table_real(&table, r, aw_serving_table_column(&table, heads[1]));
            three = aw_serving_table_real(&table, r, aw_serving_table_column(&table, heads[2]));
        } else {
            tokens = (double)requests.answer[r];
            five = three = tokens * exp(0.55 * aw_rng_normal(&rng));
        }
        if (!(tokens >= 1) || !(five >= 0) || !(three >= 0))
            continue;
        ret->tokens[n] = (float)tokens;
        ret->five[n] = (float)five;
        ret->three[n] = (float)three;
        ret->count++;
    }
    if (!err && *ret_real) {
        classes_to_tokens(ret, ret->five, scratch);
        classes_to_tokens(ret, ret->three, scratch);
    }
    if (!err && ret->count == 0)
        err = aw_fail_at(diag, AW_ERR_NODATA, path, 0, 0, NULL, "no length in it");
    aw_alloc_free(NULL, scratch);
    aw_serving_table_deinit(&table);
    aw_requests_deinit(&requests);
    if (err)
        lengths_deinit(ret);
    return err;
}

/* Changes against FCFS of the mean, the p99 and the longest, over seeds. */
struct change {
    double mean, p99, most, quarter;
};

static enum aw_err compare(const struct lengths *lengths, const float *guess,
                           const struct aw_batch_settings *settings, uint32_t n, uint32_t seeds,
                           uint64_t first, struct aw_serving_queue *queue, double *room,
                           struct change *ret)
{
    enum aw_err err = AW_OK;
    *ret = (struct change){0};
    for (uint32_t s = 0; !err && s < seeds; s++) {
        struct aw_batch_settings own = *settings, fcfs = *settings;
        struct aw_batch_result a, b;
        own.seed = fcfs.seed = first + s;
        fcfs.order.kind = AW_SERVING_FCFS;
        err = aw_batch_run(&fcfs, lengths->tokens, guess, lengths->count, n, queue, room, &a);
        err = err ? err
                  : aw_batch_run(&own, lengths->tokens, guess, lengths->count, n, queue, room, &b);
        if (err)
            return err;
        ret->mean += (b.mean_s / a.mean_s - 1) / seeds;
        ret->p99 += (b.p99_s / a.p99_s - 1) / seeds;
        ret->most += (b.max_s / a.max_s - 1) / seeds;
        ret->quarter += b.done_quarter / a.done_quarter / seeds;
    }
    return err;
}

struct row {
    const char *what;
    uint32_t kind, slots, order;
    double load, alpha, cv;
};
static const struct row rows[] = {
    {"one server, .7", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .7, 10, 1},
    {"one server, .9", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .9, 10, 1},
    {"one server, .95", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .95, 10, 1},
    {"one server, .9, alpha 12", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .9, 12, 1},
    {"one server, .9, alpha 20", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .9, 20, 1},
    {"one server, .9, no ageing", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .9, INFINITY, 1},
    {"one server, .9, oracle, no ageing", AW_BATCH_NONE, 1, AW_SERVING_ORACLE, .9, INFINITY, 1},
    {"one server, .9, oracle", AW_BATCH_NONE, 1, AW_SERVING_ORACLE, .9, 10, 1},
    {"one server, .9, bursts (cv 3)", AW_BATCH_NONE, 1, AW_SERVING_SSJF, .9, 10, 3},
    {"dynamic 4, .9", AW_BATCH_DYNAMIC, 4, AW_SERVING_SSJF, .9, 10, 1},
    {"continuous 4, .9", AW_BATCH_CONTINUOUS, 4, AW_SERVING_SSJF, .9, 5, 1},
    {"continuous 16, .9", AW_BATCH_CONTINUOUS, 16, AW_SERVING_SSJF, .9, 2, 1},
    {"continuous 16, .95", AW_BATCH_CONTINUOUS, 16, AW_SERVING_SSJF, .95, 2, 1},
    {"continuous 16, .95, alpha 5", AW_BATCH_CONTINUOUS, 16, AW_SERVING_SSJF, .95, 5, 1},
    {"continuous 16, 1.0", AW_BATCH_CONTINUOUS, 16, AW_SERVING_SSJF, 1, 2, 1},
    {"continuous 64, .95", AW_BATCH_CONTINUOUS, 64, AW_SERVING_SSJF, .95, 2, 1},
};
#define ROWS ((uint32_t)(sizeof rows / sizeof *rows))

static void goals_set(struct aw_study_report *report, const struct row *row,
                      const struct change *change)
{
    struct aw_study_report_figure *figure = NULL;
    if (!strcmp(row->what, "one server, .9")) {
        figure = aw_study_report_figure(report, AW_UNIT_SHARE, change->mean,
                                        "one server, load .9: mean JCT against FCFS");
        if (figure) {
            figure->goal = -0.2;
            figure->lower = true;
            figure->paper = -0.413; /* at 3.6 to 36 times overload, no ageing */
        }
        figure = aw_study_report_figure(report, AW_UNIT_SHARE, change->p99, "its p99");
        if (figure) {
            figure->goal = 0;
            figure->lower = true;
        }
    } else if (!strcmp(row->what, "continuous 16, .95")) {
        figure = aw_study_report_figure(report, AW_UNIT_SHARE, change->mean,
                                        "16 slots, load .95: mean JCT against FCFS");
        if (figure) {
            figure->goal = -0.12;
            figure->lower = true;
        }
        figure = aw_study_report_figure(report, AW_UNIT_SHARE, change->p99, "its p99 (16 slots)");
        if (figure) {
            figure->goal = 0.05;
            figure->lower = true;
        }
    }
}

enum aw_err aw__experiment_scheduler(const struct aw_experiment_config *config,
                                     const struct aw_alloc *alloc, struct aw_study_report *report,
                                     struct aw_diag *diag)
{
    static const char *const columns[] = {"mean JCT",        "p99",     "longest",
                                          "3 classes: mean", "its p99", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SHARE, AW_UNIT_SHARE, AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE, AW_UNIT_SHARE};
    (void)alloc;
    struct lengths lengths;
    struct aw_serving_queue queue = {0};
    bool real;
    uint32_t seeds = config->seeds ? config->seeds : config->scale == AW_EXPERIMENT_FULL ? 6 : 3;
    const uint32_t n = config->scale == AW_EXPERIMENT_FULL ? 100000 : 40000;
    report->seeds = seeds;
    enum aw_err err = lengths_read(config->load, config->seed, &lengths, &real, diag);
    if (err)
        return err;
    double *room = aw_alloc_new(NULL, 3 * (size_t)n, sizeof *room);
    err = room ? aw_serving_queue_init(&queue, n, NULL) : AW_ERR_NOMEM;
    if (err)
        aw_fail(diag, err, "no memory for %u requests", n);
    const uint32_t table = aw_study_report_table(report, "Change against FCFS", columns, units);
    for (uint32_t r = 0; !err && r < ROWS; r++) {
        const struct aw_batch_settings settings = {.order = {rows[r].order, rows[r].alpha},
                                                   .kind = rows[r].kind,
                                                   .slots = rows[r].slots,
                                                   .first_s = FIRST_S,
                                                   .token_s = TOKEN_S,
                                                   .slowdown = 0.02,
                                                   .load = rows[r].load,
                                                   .cv = rows[r].cv};
        struct change five, three;
        err =
            compare(&lengths, lengths.five, &settings, n, seeds, config->seed, &queue, room, &five);
        err = err ? err
                  : compare(&lengths, lengths.three, &settings, n, seeds, config->seed, &queue,
                            room, &three);
        const double values[] = {five.mean, five.p99, five.most, three.mean, three.p99};
        err = err ? err : aw_study_report_row(report, table, values, "%s", rows[r].what);
        if (!err)
            goals_set(report, &rows[r], &five);
        if (!err && config->progress &&
            !config->progress(config->progress_ctx, "orders", r + 1, ROWS))
            err = AW_ERR_INTERRUPTED;
    }
    aw_study_report_note(report,
                         real ? "Lengths and predictions are real: LMSYS requests to vicuna-13b, "
                                "classes of the authors' BERT."
                              : "Lengths are those of the trace; predictions are made of them with "
                                "noise (tau about .6).");
    aw_study_report_note(report, "The order changes who waits, not how much is done: throughput is "
                                 "the same for every order. The paper's -41 %% is at 3.6 to 36 "
                                 "times overload of 50 requests.");
    aw_serving_queue_deinit(&queue);
    aw_alloc_free(NULL, room);
    lengths_deinit(&lengths);
    return err;
}

/* --- the predictor ---------------------------------------------------------------------------- */

enum aw_err aw__experiment_predictor(const struct aw_experiment_config *config,
                                     const struct aw_alloc *alloc, struct aw_study_report *report,
                                     struct aw_diag *diag)
{
    static const struct {
        const char *what;
        uint32_t epochs;
        bool alone, random;
    } cases[] = {{"all models teach one predictor", 1, false, false},
                 {"each model from its own answers, 1 epoch", 1, true, false},
                 {"each model from its own answers, 4 epochs", 4, true, false},
                 {"keys of chance", 1, false, true}};
    static const char *const columns[] = {"tau",        "accuracy", "macro F1", "p90 covered",
                                          "error mean", "predict",  "learn",    NULL};
    static const enum aw_study_report_unit units[] = {
        AW_UNIT_PLAIN, AW_UNIT_SHARE,   AW_UNIT_SHARE,  AW_UNIT_SHARE,
        AW_UNIT_SHARE, AW_UNIT_SECONDS, AW_UNIT_SECONDS};
    (void)alloc;
    struct aw_length_data data;
    char lengths[AW_EXPERIMENT_PATH_MAX];
    const char *slash = strrchr(config->load, '/');
    snprintf(lengths, sizeof lengths, "%.*salpaca_eval_lengths.csv.gz",
             slash ? (int)(slash + 1 - config->load) : 0, config->load);
    enum aw_err err = aw_length_data_read(config->load, lengths, &data, diag);
    if (err)
        return err;
    const uint32_t seeds = config->seeds ? config->seeds : 3;
    report->seeds = seeds;
    const uint32_t table = aw_study_report_table(
        report, "Five-fold over prompts: none is learned from and judged", columns, units);
    double best = 0;
    for (uint32_t c = 0; !err && c < sizeof cases / sizeof *cases; c++) {
        double sum[7] = {0};
        for (uint32_t s = 0; !err && s < seeds; s++) {
            struct aw_length_trial trial = {.settings = aw_length_defaults,
                                            .epochs = cases[c].epochs,
                                            .models_max =
                                                config->scale == AW_EXPERIMENT_FULL ? 0 : 24,
                                            .alone = cases[c].alone,
                                            .random = cases[c].random};
            struct aw_length_score score;
            trial.settings.seed = config->seed + s;
            err = aw_length_try(&data, &trial, &score, diag);
            const double values[] = {score.tau,
                                     score.accuracy,
                                     score.f1,
                                     score.p90_covered,
                                     score.error_mean,
                                     1e-6 * score.predict_us,
                                     1e-6 * score.learn_us};
            for (uint32_t k = 0; !err && k < 7; k++)
                sum[k] += values[k] / seeds;
        }
        best = cases[c].random ? best : fmax(best, sum[0]);
        err = err ? err : aw_study_report_row(report, table, sum, "%s", cases[c].what);
        if (!err && config->progress &&
            !config->progress(config->progress_ctx, "ways to learn", c + 1, 4))
            err = AW_ERR_INTERRUPTED;
    }
    struct aw_study_report_figure *figure =
        err ? NULL
            : aw_study_report_figure(report, AW_UNIT_PLAIN, best,
                                     "Kendall's tau within a model, unseen prompts");
    if (figure)
        figure->goal = 0.4;
    aw_study_report_note(report,
                         "%u prompts, %u models. The paper's BERT has accuracy .43 on its "
                         "own split, in which prompts repeat.",
                         data.prompts, data.models);
    aw_length_data_deinit(&data);
    return err;
}
