/* validate.c - the files of a folder, each to who knows its columns, and the errors of all. */
#include "serving/validate.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/stats.h"
#include "serving/length_study.h"
#include "serving/table.h"

#define KINDS_MAX     16u
#define ERRORS_MAX    (4u << 20) /* of all files; more are not kept */
#define FILES_MAX     512u
#define DEPTH_MAX     3u
#define PATH_MAX_     1024u
#define LENGTH_MODELS 24u /* of a table of lengths: enough for a mean */

struct entry {
    uint8_t kind;
    uint16_t file;
    float error;
};
struct aw__validate_bag {
    uint32_t kinds, files, entries, paths;
    char kind[KINDS_MAX][32];
    char file[FILES_MAX][128];
    char path[FILES_MAX][PATH_MAX_];
    double tau[FILES_MAX], accuracy[FILES_MAX];
    struct entry *entry; /* [ERRORS_MAX] */
    double *scratch;     /* [ERRORS_MAX] */
};

/* The order of rows, and what is to be reached (docs/results/serving.md). */
static const struct {
    const char *what;
    double goal;
} kinds[] = {
    {"time", 0.03},      {"power", 0.05},      {"gemm", 0.10},       {"decode", 0.03},
    {"prefill", NAN},    {"attention", NAN},   {"elementwise", NAN}, {"network", NAN},
    {"limit_time", NAN}, {"limit_power", NAN}, {"length", NAN},      {"length_class", NAN},
};
#define KINDS ((uint32_t)(sizeof kinds / sizeof *kinds))

void aw__validate_error(struct aw_validate *validate, const char *what, double predicted,
                        double measured)
{
    struct aw__validate_bag *bag = validate->bag;
    uint8_t kind = 0;
    while (kind < KINDS && strcmp(kinds[kind].what, what))
        kind++;
    AW_ASSERT(kind < KINDS);
    const double error = fabs(predicted / measured - 1);
    if (bag->entries < ERRORS_MAX && isfinite(error))
        bag->entry[bag->entries++] = (struct entry){kind, (uint16_t)(bag->files - 1), (float)error};
}

static void row_make(struct aw_validate *validate, uint32_t kind, uint32_t file)
{
    struct aw__validate_bag *bag = validate->bag;
    size_t n = 0;
    for (uint32_t i = 0; i < bag->entries; i++)
        if (bag->entry[i].kind == kind && (file == UINT32_MAX || bag->entry[i].file == file))
            bag->scratch[n++] = (double)bag->entry[i].error;
    if (n == 0 || validate->rows == AW_VALIDATE_ROWS_MAX)
        return;
    struct aw_validate_row *row = &validate->row[validate->rows++];
    *row = (struct aw_validate_row){.cases = n,
                                    .error_mean = aw_stats_mean(bag->scratch, n),
                                    .tau = NAN,
                                    .accuracy = NAN,
                                    .goal = kinds[kind].goal};
    snprintf(row->what, sizeof row->what, "%s", kinds[kind].what);
    if (file != UINT32_MAX)
        snprintf(row->file, sizeof row->file, "%s", bag->file[file]);
    aw_stats_sort(bag->scratch, n);
    row->error_p95 = aw_stats_quantile(bag->scratch, n, 0.95);
    double tau = 0, accuracy = 0;
    uint32_t count = 0;
    for (uint32_t f = 0; f < bag->files && !strncmp(row->what, "length", 6); f++) {
        bool mine = false;
        for (uint32_t i = 0; i < bag->entries && !mine; i++)
            mine = bag->entry[i].kind == kind && bag->entry[i].file == f;
        if (!mine || (file != UINT32_MAX && file != f))
            continue;
        tau += bag->tau[f];
        accuracy += bag->accuracy[f];
        count++;
    }
    row->tau = count ? tau / count : NAN;
    row->accuracy = count ? accuracy / count : NAN;
}

/* --- lengths ---------------------------------------------------------------------------------- */

/* Predictions that somebody else made: classes 0 to 4. The median length of a class comes from the
 * even rows, and is judged on the odd ones. */
static enum aw_err classes_try(struct aw_validate *validate, const struct aw_serving_table *table,
                               bool *ret_mine, struct aw_diag *diag)
{
    static const char *const five[] = {"output_tokens", "predicted_class5", NULL},
                             *const three[] = {"output_tokens", "predicted_class3", NULL};
    static const double cuts[2][4] = {{42, 141, 294, 503}, {141, 503, INFINITY, INFINITY}};
    struct aw__validate_bag *bag = validate->bag;
    double median[5];
    const bool fine = aw_serving_table_has(table, five);
    const char *const *names = fine ? five : three;
    const double *cut = cuts[fine ? 0 : 1];
    if (!(*ret_mine = aw_serving_table_has(table, names)))
        return AW_OK;
    const uint32_t truth = aw_serving_table_column(table, names[0]),
                   class = aw_serving_table_column(table, names[1]);
    for (uint32_t c = 0; c < 5; c++) {
        size_t n = 0;
        for (uint32_t r = 0; r < table->rows; r += 2)
            if (aw_serving_table_real(table, r, class) == c &&
                aw_serving_table_real(table, r, truth) > 0)
                bag->scratch[n++] = aw_serving_table_real(table, r, truth);
        aw_stats_sort(bag->scratch, n);
        median[c] = n ? aw_stats_median(bag->scratch, n) : 1;
    }
    const uint32_t most = 4000;
    double *xy = aw_alloc_new(NULL, 2 * (size_t)most, sizeof *xy);
    if (!xy)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for predictions");
    uint32_t n = 0;
    uint64_t right = 0, cases = 0;
    const uint32_t step = table->rows / 2 / most + 1;
    for (uint32_t r = 1; r < table->rows; r += 2) {
        const double tokens = aw_serving_table_real(table, r, truth),
                     predicted = aw_serving_table_real(table, r, class);
        if (!(tokens > 0) || !(predicted >= 0 && predicted < 5))
            continue;
        aw__validate_error(validate, "length_class", median[(uint32_t)predicted], tokens);
        const uint32_t own =
            (tokens >= cut[0]) + (tokens >= cut[1]) + (tokens >= cut[2]) + (tokens >= cut[3]);
        right += own == (uint32_t)predicted;
        cases++;
        if (r / 2 % step == 0 && n < most) {
            xy[n] = predicted;
            xy[most + n++] = tokens;
        }
    }
    bag->tau[bag->files - 1] = aw_kendall_tau(xy, xy + most, n);
    bag->accuracy[bag->files - 1] = cases ? (double)right / (double)cases : NAN;
    aw_alloc_free(NULL, xy);
    return AW_OK;
}

/* A table of lengths (id, models) needs the prompts: the first .jsonl beside it whose lines have
 * them. */
static enum aw_err lengths_try(struct aw_validate *validate, const char *path,
                               const struct aw_serving_table *table, bool *ret_mine,
                               struct aw_diag *diag)
{
    struct aw__validate_bag *bag = validate->bag;
    const char *prompts = NULL;
    *ret_mine = aw_serving_table_column(table, "id") != AW_SERVING_TABLE_NONE && table->columns > 1;
    if (!*ret_mine)
        return AW_OK;
    struct aw_length_data data = {0};
    enum aw_err err = AW_ERR_NOTFOUND;
    for (uint32_t i = 0; i < bag->paths && err; i++) {
        if (!strstr(bag->path[i], ".jsonl"))
            continue;
        prompts = bag->path[i];
        err = aw_length_data_read(prompts, path, &data, diag);
    }
    if (!prompts)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL,
                          "expected prompts (.jsonl) beside the lengths, found none");
    if (err)
        return err;
    const struct aw_length_trial trial = {
        .settings = aw_length_defaults, .epochs = 1, .models_max = LENGTH_MODELS, .errors = true};
    struct aw_length_score score;
    err = aw_length_try(&data, &trial, &score, diag);
    if (!err) {
        for (uint64_t i = 0; i < score.cases && bag->entries < ERRORS_MAX; i++)
            bag->entry[bag->entries++] =
                (struct entry){10, (uint16_t)(bag->files - 1), score.errors ? score.errors[i] : 0};
        bag->tau[bag->files - 1] = score.tau;
        bag->accuracy[bag->files - 1] = score.accuracy;
        aw_alloc_free(NULL, score.errors);
    }
    aw_length_data_deinit(&data);
    return err;
}

/* --- the folder ------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(a, b);
}

static enum aw_err files_find(struct aw__validate_bag *bag, const char *folder, uint32_t depth,
                              struct aw_diag *diag)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, folder, 0, 0, NULL, "no such folder");
    enum aw_err err = AW_OK;
    for (struct dirent *entry; !err && (entry = readdir(dir));) {
        char path[PATH_MAX_];
        struct stat stat_of;
        if (entry->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path ||
            stat(path, &stat_of))
            continue;
        if (S_ISDIR(stat_of.st_mode) && depth < DEPTH_MAX)
            err = files_find(bag, path, depth + 1, diag);
        else if (S_ISREG(stat_of.st_mode) && bag->paths < FILES_MAX)
            memcpy(bag->path[bag->paths++], path, sizeof path);
    }
    closedir(dir);
    return err;
}

static enum aw_err table_try(struct aw_validate *validate, const char *path, const char *name,
                             bool *ret_mine, struct aw_diag *diag)
{
    struct aw__validate_bag *bag = validate->bag;
    struct aw_serving_table table = {0};
    if (bag->files == FILES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u files", FILES_MAX);
    enum aw_err err = aw_serving_table_read(path, &table, diag);
    if (err)
        return err;
    snprintf(bag->file[bag->files], sizeof bag->file[0], "%s", name);
    bag->tau[bag->files] = bag->accuracy[bag->files] = NAN;
    bag->files++;
    err = aw__validate_clocks(validate, path, &table, ret_mine, diag);
    if (!err && !*ret_mine)
        err = aw__validate_operators(validate, path, &table, ret_mine, diag);
    if (!err && !*ret_mine)
        err = aw__validate_phases(validate, path, &table, ret_mine, diag);
    if (!err && !*ret_mine)
        err = classes_try(validate, &table, ret_mine, diag);
    if (!err && !*ret_mine)
        err = lengths_try(validate, path, &table, ret_mine, diag);
    aw_serving_table_deinit(&table);
    return err;
}

/* Out of memory ends the run; whatever else is wrong with one file is that file's. */
static enum aw_err file_try(struct aw_validate *validate, const char *path,
                            struct aw_diag *ret_first, enum aw_err *ret_err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct aw_diag diag = {0};
    bool mine = false;
    if (strstr(name, ".jsonl"))
        return AW_OK; /* belongs to a table of lengths */
    const uint32_t entries = validate->bag->entries;
    const enum aw_err err =
        strstr(name, ".csv") ? table_try(validate, path, name, &mine, &diag) : AW_OK;
    if (err == AW_ERR_NOMEM)
        *ret_first = diag;
    if (err == AW_ERR_NOMEM || (!err && mine && validate->bag->entries > entries))
        return err;
    if (!err && mine)
        aw_fail_at(&diag, AW_ERR_NODATA, path, 0, 0, NULL,
                   "too few cases to hold any out, or figures that are no numbers");
    if ((err || mine) && !*ret_err) {
        *ret_err = err ? err : AW_ERR_NODATA;
        *ret_first = diag;
    }
    if (validate->skipped == AW_VALIDATE_SKIPS_MAX)
        return AW_OK;
    const uint32_t at = validate->skipped++;
    snprintf(validate->skip[at], sizeof validate->skip[0], "%s", name);
    snprintf(validate->why[at], sizeof validate->why[0], "%.160s",
             err || mine ? diag.text : "no known format");
    if (diag.line)
        snprintf(validate->why[at], sizeof validate->why[0], "line %u: %.160s", diag.line,
                 diag.text);
    return AW_OK;
}

enum aw_err aw_validate_run(const char *folder, struct aw_validate *ret, struct aw_diag *diag)
{
    memset(ret, 0, sizeof *ret);
    struct aw__validate_bag *bag = ret->bag = aw_alloc_new(NULL, 1, sizeof *bag);
    enum aw_err err = bag ? AW_OK : AW_ERR_NOMEM;
    if (bag) {
        bag->entry = aw_alloc_new(NULL, ERRORS_MAX, sizeof *bag->entry);
        bag->scratch = aw_alloc_new(NULL, ERRORS_MAX, sizeof *bag->scratch);
        err = bag->entry && bag->scratch ? AW_OK : AW_ERR_NOMEM;
    }
    if (err)
        aw_fail(diag, err, "no memory to validate");
    err = err ? err : files_find(bag, folder, 0, diag);
    if (!err)
        qsort(bag->path, bag->paths, sizeof *bag->path, by_path);
    struct aw_diag first = {0};
    enum aw_err bad = AW_OK; /* of the first file that cannot be read */
    for (uint32_t i = 0; !err && i < bag->paths; i++)
        err = file_try(ret, bag->path[i], &first, &bad);
    for (uint32_t k = 0; !err && k < KINDS; k++)
        row_make(ret, k, UINT32_MAX);
    for (uint32_t f = 0; !err && f < bag->files; f++)
        for (uint32_t k = 0; k < KINDS; k++)
            row_make(ret, k, f);
    if ((err == AW_ERR_NOMEM || (!err && ret->rows == 0 && bad)) && diag && first.text[0])
        *diag = first;
    if (!err && ret->rows == 0 && bad)
        err = bad;
    if (!err && ret->rows == 0)
        err = aw_fail_at(diag, AW_ERR_NODATA, folder, 0, 0, NULL,
                         "no file of a known format: clock sweeps, operators, phases or lengths");
    if (bag) {
        aw_alloc_free(NULL, bag->entry);
        aw_alloc_free(NULL, bag->scratch);
    }
    aw_alloc_free(NULL, bag);
    ret->bag = NULL;
    return err;
}
