/* length_study.c - predictions of lengths, judged on prompts that were not learned from. */
#include "serving/length_study.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/stats.h"
#include "serving/table.h"
#include "trace/read.h"

#define FOLDS       5u
#define PROMPTS_MAX 200000u

double aw_kendall_tau(const double *x, const double *y, uint32_t n)
{
    double both = 0, x_pairs = 0, y_pairs = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const int a = (x[i] > x[k]) - (x[i] < x[k]), b = (y[i] > y[k]) - (y[i] < y[k]);
            both += a * b;
            x_pairs += a != 0;
            y_pairs += b != 0;
        }
    return x_pairs > 0 && y_pairs > 0 ? both / sqrt(x_pairs * y_pairs) : 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum aw_err prompt_take(const char *path, uint32_t number, const char *line, size_t len,
                               struct aw_prompt *ret, double *ret_id, struct aw_diag *diag)
{
    json_error_t error;
    json_t *object = json_loadb(line, len, 0, &error);
    const char *text = json_string_value(json_object_get(object, "prompt"));
    const json_t *id = json_object_get(object, "id");
    if (!text || !json_is_number(id)) {
        json_decref(object);
        return aw_fail_at(diag, AW_ERR_FORMAT, path, number, 0, NULL,
                          "expected {\"id\": number, \"prompt\": text}");
    }
    aw_prompt_read(ret, text, strlen(text), "", 0);
    *ret_id = json_number_value(id);
    json_decref(object);
    return AW_OK;
}

/* The answers to prompt `id`, where the table has it. */
static bool tokens_take(const struct aw_serving_table *table, uint32_t ids, double id, float *into)
{
    for (uint32_t r = 0; r < table->rows; r++) {
        if (aw_serving_table_real(table, r, ids) != id)
            continue;
        for (uint32_t c = 0; c < table->columns; c++)
            if (c != ids)
                *into++ = (float)aw_serving_table_real(table, r, c);
        return true;
    }
    return false;
}

enum aw_err aw_length_data_read(const char *prompts, const char *lengths,
                                struct aw_length_data *ret, struct aw_diag *diag)
{
    struct aw_length_data data = {0};
    struct aw_serving_table table = {0};
    char *bytes = NULL;
    size_t len = 0;
    uint32_t ids = 0;
    memset(ret, 0, sizeof *ret);
    enum aw_err err = aw_serving_table_read(lengths, &table, diag);
    err = err ? err : aw_packed_read(prompts, AW_SERVING_TABLE_BYTES_MAX, NULL, &bytes, &len, diag);
    uint32_t lines = 1;
    for (size_t i = 0; !err && i < len; i++)
        lines += bytes[i] == '\n';
    if (!err && (table.columns < 2 || lines > PROMPTS_MAX))
        err = aw_fail_at(diag, AW_ERR_LIMIT, prompts, 0, 0, NULL,
                         "expected at most %u prompts and a column for each model", PROMPTS_MAX);
    if (!err) {
        ids = aw_serving_table_column(&table, "id");
        ids = ids == AW_SERVING_TABLE_NONE ? 0 : ids;
        data.models = table.columns - 1;
        data.prompt = aw_alloc_new(NULL, lines, sizeof *data.prompt);
        data.tokens = aw_alloc_new(NULL, (size_t)lines * data.models, sizeof *data.tokens);
        data.name = aw_alloc_new(NULL, data.models, sizeof *data.name);
        if (!data.prompt || !data.tokens || !data.name)
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u prompts", lines);
    }
    for (uint32_t m = 0; !err && m < data.models; m++)
        snprintf(data.name[m], sizeof data.name[m], "%s", table.cell[m + (m >= ids)]);
    uint32_t number = 0;
    for (char *at = bytes; !err && at && *at;) {
        char *end = strchr(at, '\n');
        const size_t size = end ? (size_t)(end - at) : strlen(at);
        double id = NAN;
        number++;
        if (size) {
            err = prompt_take(prompts, number, at, size, &data.prompt[data.prompts], &id, diag);
            if (!err &&
                tokens_take(&table, ids, id, data.tokens + (size_t)data.prompts * data.models))
                data.prompts++;
        }
        at = end ? end + 1 : NULL;
    }
    if (!err && data.prompts < 2 * FOLDS)
        err = aw_fail_at(diag, AW_ERR_NODATA, prompts, 0, 0, NULL,
                         "expected at least %u prompts with lengths, found %u", 2 * FOLDS,
                         data.prompts);
    aw_alloc_free(NULL, bytes);
    aw_serving_table_deinit(&table);
    if (err)
        aw_length_data_deinit(&data);
    *ret = data;
    return err;
}

void aw_length_data_deinit(struct aw_length_data *data)
{
    aw_alloc_free(NULL, data->prompt);
    aw_alloc_free(NULL, data->tokens);
    aw_alloc_free(NULL, data->name);
    memset(data, 0, sizeof *data);
}

/* --- trying ----------------------------------------------------------------------------------- */

struct tally {
    uint64_t cases, right, covered;
    uint64_t confusion[AW_LENGTH_CLASSES][AW_LENGTH_CLASSES]; /* true, predicted */
    double *error;                                            /* [cases] */
    double *rank, *truth;                                     /* [models][prompts] */
    uint64_t predicted, learned;
    double predict_s, learn_s;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint32_t fold_of(const struct aw_prompt *prompt)
{
    return (uint32_t)((prompt->hash >> 17 ^ prompt->hash) % FOLDS); /* equal texts together */
}

static float tokens_at(const struct aw_length_data *data, uint32_t p, uint32_t m)
{
    return data->tokens[(size_t)p * data->models + m];
}

/* The class that a length has among those of its model that were learned from. */
static uint32_t class_true(const struct aw_length_data *data, uint32_t fold, uint32_t m, float own)
{
    uint32_t below = 0, count = 0;
    for (uint32_t p = 0; p < data->prompts; p++) {
        const float tokens = tokens_at(data, p, m);
        if (fold_of(&data->prompt[p]) == fold || !isfinite(tokens))
            continue;
        below += tokens < own;
        count++;
    }
    const double rank = count ? (double)below / count : 0.5;
    return (rank >= .25) + (rank >= .5) + (rank >= .75) + (rank >= .99);
}

static void teach(struct aw_length *length, const struct aw_length_data *data,
                  const struct aw_length_trial *trial, uint32_t fold, uint32_t step, uint32_t only,
                  uint32_t *order, struct tally *tally)
{
    struct aw_rng rng;
    aw_rng_init(&rng, trial->settings.seed, 100 + fold);
    uint32_t count = 0;
    for (uint32_t p = 0; p < data->prompts; p++)
        for (uint32_t m = only == UINT32_MAX ? 0 : only; m < data->models; m += step) {
            if (fold_of(&data->prompt[p]) != fold && isfinite(tokens_at(data, p, m)))
                order[count++] = p * data->models + m;
            if (only != UINT32_MAX)
                break;
        }
    const double begin = now_s();
    for (uint32_t epoch = 0; epoch < trial->epochs; epoch++) {
        aw_rng_shuffle(&rng, order, count);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t p = order[i] / data->models, m = order[i] % data->models;
            struct aw_prompt prompt = data->prompt[p];
            prompt.model = m;
            prompt.hash += m; /* a cache that has seen it in another model is no help */
            aw_length_learn(length, &prompt, (uint32_t)tokens_at(data, p, m));
        }
    }
    tally->learn_s += now_s() - begin;
    tally->learned += (uint64_t)count * trial->epochs;
}

static void judge(struct aw_length *length, const struct aw_length_data *data,
                  const struct aw_length_trial *trial, uint32_t fold, uint32_t m,
                  struct tally *tally, struct aw_rng *rng)
{
    for (uint32_t p = 0; p < data->prompts; p++) {
        const float tokens = tokens_at(data, p, m);
        if (fold_of(&data->prompt[p]) != fold || !isfinite(tokens) || tokens < 1)
            continue;
        struct aw_prompt prompt = data->prompt[p];
        struct aw_length_guess guess;
        prompt.model = m;
        prompt.hash += m;
        const double begin = now_s();
        aw_length_predict(length, &prompt, &guess);
        tally->predict_s += now_s() - begin;
        tally->predicted++;
        const uint32_t class = class_true(data, fold, m, tokens);
        tally->rank[(size_t)m * data->prompts + p] =
            trial->random ? aw_rng_double(rng) : guess.rank;
        tally->truth[(size_t)m * data->prompts + p] = (double)tokens;
        tally->confusion[class][guess.class]++;
        tally->right += class == guess.class;
        tally->covered += (double)tokens <= guess.tokens_p90;
        tally->error[tally->cases++] = fabs(guess.tokens - (double)tokens) / (double)tokens;
    }
}

static void score(const struct aw_length_data *data, struct tally *tally, uint32_t step,
                  struct aw_length_score *ret, double *x, double *y)
{
    *ret = (struct aw_length_score){.cases = tally->cases};
    for (uint32_t m = 0; m < data->models; m += step) {
        double tau = 0;
        uint32_t folds = 0;
        for (uint32_t fold = 0; fold < FOLDS; fold++) { /* ranks of two predictors do not compare */
            uint32_t n = 0;
            for (uint32_t p = 0; p < data->prompts; p++) {
                if (fold_of(&data->prompt[p]) != fold ||
                    isnan(tally->rank[(size_t)m * data->prompts + p]))
                    continue;
                x[n] = tally->rank[(size_t)m * data->prompts + p];
                y[n++] = tally->truth[(size_t)m * data->prompts + p];
            }
            tau += n > 1 ? aw_kendall_tau(x, y, n) : 0;
            folds += n > 1;
        }
        ret->tau += folds ? tau / folds : 0;
        ret->models++;
    }
    ret->tau /= ret->models;
    ret->accuracy = (double)tally->right / (double)tally->cases;
    ret->p90_covered = (double)tally->covered / (double)tally->cases;
    for (uint32_t c = 0; c < AW_LENGTH_CLASSES; c++) {
        double truth = 0, predicted = 0;
        for (uint32_t k = 0; k < AW_LENGTH_CLASSES; k++) {
            truth += (double)tally->confusion[c][k];
            predicted += (double)tally->confusion[k][c];
        }
        if (truth + predicted > 0)
            ret->f1 += 2 * (double)tally->confusion[c][c] / (truth + predicted) / AW_LENGTH_CLASSES;
    }
    ret->error_mean = aw_stats_mean(tally->error, tally->cases);
    aw_stats_sort(tally->error, tally->cases);
    ret->error_p95 = aw_stats_quantile(tally->error, tally->cases, 0.95);
    ret->predict_us = 1e6 * tally->predict_s / (double)tally->predicted;
    ret->learn_us = 1e6 * tally->learn_s / (double)tally->learned;
}

enum aw_err aw_length_try(const struct aw_length_data *data, const struct aw_length_trial *trial,
                          struct aw_length_score *ret, struct aw_diag *diag)
{
    const size_t pairs = (size_t)data->prompts * data->models;
    const uint32_t most = trial->models_max ? trial->models_max : data->models;
    const uint32_t step = most < data->models ? (data->models + most - 1) / most : 1;
    struct tally tally = {0};
    struct aw_length *length = NULL;
    struct aw_rng rng;
    enum aw_err err = AW_OK;
    aw_rng_init(&rng, trial->settings.seed, 99);
    uint32_t *order = aw_alloc_new(NULL, pairs, sizeof *order);
    double *xy = aw_alloc_new(NULL, 2 * (size_t)data->prompts, sizeof *xy);
    tally.error = aw_alloc_new(NULL, pairs, sizeof *tally.error);
    tally.rank = aw_alloc_new(NULL, pairs, sizeof *tally.rank);
    tally.truth = aw_alloc_new(NULL, pairs, sizeof *tally.truth);
    if (!order || !xy || !tally.error || !tally.rank || !tally.truth)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %zu answers", pairs);
    for (size_t i = 0; !err && i < pairs; i++)
        tally.rank[i] = NAN;
    for (uint32_t fold = 0; !err && fold < FOLDS; fold++) {
        for (uint32_t m = 0; !err && m < data->models; m += step) {
            if (m == 0 || trial->alone) {
                aw_length_free(length);
                length = NULL;
                err = aw_length_new(&trial->settings, NULL, &length);
                if (!err)
                    teach(length, data, trial, fold, step, trial->alone ? m : UINT32_MAX, order,
                          &tally);
            }
            if (!err)
                judge(length, data, trial, fold, m, &tally, &rng);
        }
    }
    if (!err && tally.cases == 0)
        err = aw_fail(diag, AW_ERR_NODATA, "no answer to judge a prediction by");
    if (!err)
        score(data, &tally, step, ret, xy, xy + data->prompts);
    if (!err && trial->errors && (ret->errors = aw_alloc_new(NULL, tally.cases, sizeof(float))))
        for (uint64_t i = 0; i < tally.cases; i++)
            ret->errors[i] = (float)tally.error[i];
    aw_length_free(length);
    aw_alloc_free(NULL, order);
    aw_alloc_free(NULL, xy);
    aw_alloc_free(NULL, tally.error);
    aw_alloc_free(NULL, tally.rank);
    aw_alloc_free(NULL, tally.truth);
    return err;
}
