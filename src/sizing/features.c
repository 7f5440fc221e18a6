/*
 * features.c - numbers out of the cells that name a configuration or a workload.
 *
 * A number is its logarithm: twice the memory is one step, wherever it starts. A word is as many
 * features as it has values, up to a few. A machine type of EC2 ("c4.2xlarge") tells its family,
 * generation, cores and memory by its name.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sizing/read_internal.h"

#define WORDS_MAX   12u    /* values of a column of words that become features */
#define LAMBDA_CORE 1769.0 /* MB of AWS Lambda that come with one whole core */

/* GiB for each core of the families c, m and r; others are taken as m. */
static double family_gib(char family)
{
    return family == 'c' ? 1.9 : family == 'r' ? 7.6 : 3.8;
}

/* "c4.2xlarge": family, generation, cores. False: no such name. */
static bool machine_parse(const struct aw_csv_cell *cell, char *ret_family, double *ret_generation,
                          double *ret_cores)
{
    char text[32], size[24];
    unsigned generation = 0, times = 1;
    if (cell->len == 0 || cell->len >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)cell->len, cell->at);
    if (sscanf(text, "%c%u%*[a-z].%23s", ret_family, &generation, size) != 3 &&
        sscanf(text, "%c%u.%23s", ret_family, &generation, size) != 3)
        return false;
    *ret_generation = generation;
    if (strcmp(size, "medium") == 0)
        *ret_cores = 1;
    else if (strcmp(size, "large") == 0)
        *ret_cores = 2;
    else if (strcmp(size, "xlarge") == 0)
        *ret_cores = 4;
    else if (sscanf(size, "%uxlarge", &times) == 1 && times > 0 && times < 1000)
        *ret_cores = 4.0 * times;
    else
        return false;
    return islower((unsigned char)*ret_family) != 0;
}

static const struct aw_csv_cell *cell_at(const struct aw__size_read *read, uint32_t line,
                                         uint32_t column)
{
    return &read->cell[(size_t)line * AW__SIZE_HEADS_MAX + column];
}

static bool same(const struct aw_csv_cell *a, const struct aw_csv_cell *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static bool head_is(const struct aw__size_read *read, uint32_t column, const char *const *names)
{
    for (; *names; names++)
        if (aw__size_alike(&read->head[column], *names))
            return true;
    return false;
}

/* The rows of cells of `count` things, and where their floats go. */
struct target {
    const struct aw__size_read *read;
    const uint32_t *line; /* [count] */
    uint32_t count;
    float *first; /* the first feature of the first thing */
    size_t stride;
    uint32_t *used, max;
};

static float *feature_new(const struct target *to)
{
    return *to->used < to->max ? to->first + (*to->used)++ : NULL;
}

/* One feature for each word that some have and some have not. */
static void add_words(const struct target *to, uint32_t column)
{
    const struct aw_csv_cell *words[WORDS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < to->count; i++) {
        const struct aw_csv_cell *cell = cell_at(to->read, to->line[i], column);
        uint32_t k = 0;
        while (k < count && !same(words[k], cell))
            k++;
        if (k < count || cell->len == 0)
            continue;
        if (count == WORDS_MAX)
            return; /* a name, not a property */
        words[count++] = cell;
    }
    for (uint32_t k = 0; k < count; k++) {
        float *x = feature_new(to);
        for (uint32_t i = 0; x && i < to->count; i++)
            x[i * to->stride] = same(words[k], cell_at(to->read, to->line[i], column)) ? 1 : 0;
    }
}

/* True when every cell is a number. */
static bool all_numbers(const struct target *to, uint32_t column, double *ret_low)
{
    double low = INFINITY;
    for (uint32_t i = 0; i < to->count; i++) {
        const double value = aw_csv_real(cell_at(to->read, to->line[i], column));
        if (!isfinite(value))
            return false;
        low = value < low ? value : low;
    }
    *ret_low = low;
    return true;
}

static void add_column(const struct target *to, uint32_t column)
{
    double low = 0;
    if (!all_numbers(to, column, &low)) {
        add_words(to, column);
        return;
    }
    float *x = feature_new(to);
    for (uint32_t i = 0; x && i < to->count; i++) {
        const double value = aw_csv_real(cell_at(to->read, to->line[i], column));
        x[i * to->stride] = (float)(low > 0 ? log2(value) : value);
    }
}

static bool add_machines(const struct target *to, uint32_t column, struct aw_size_config *config)
{
    char family;
    double generation, cores;
    for (uint32_t i = 0; i < to->count; i++)
        if (!machine_parse(cell_at(to->read, to->line[i], column), &family, &generation, &cores))
            return false;
    float *x[5];
    for (uint32_t k = 0; k < 5; k++)
        if (!(x[k] = feature_new(to)))
            return true;
    for (uint32_t i = 0; i < to->count; i++) {
        if (!machine_parse(cell_at(to->read, to->line[i], column), &family, &generation, &cores))
            continue;
        const double parts[] = {log2(cores), log2(cores * family_gib(family)), generation,
                                family == 'c', family == 'r'};
        for (uint32_t k = 0; k < 5; k++)
            x[k][i * to->stride] = (float)parts[k];
        config[i].parallel = (isfinite(config[i].parallel) ? config[i].parallel : 1) * cores;
    }
    return true;
}

void aw__size_features(const struct aw__size_read *read, const struct aw__size_set *set,
                       struct aw_size_table *table)
{
    static const char *const parallel[] = {"nodes", "vcpu",    "vcpus",    "cpu", "cpus",
                                           "cores", "workers", "replicas", NULL};
    static const char *const memory[] = {"memory_mb", "memory_size", "memory_mib", "memory", NULL};
    const struct aw__size_list *list = &read->roles.config;
    const struct target to = {
        .read = read,
        .line = set->config_line,
        .count = table->config_count,
        .first = table->config[0].feature,
        .stride = sizeof *table->config / sizeof(float),
        .used = &table->feature_count,
        .max = AW_SIZE_FEATURES_MAX,
    };
    for (uint32_t k = 0; k < list->count; k++) {
        double low = 0;
        const uint32_t column = list->at[k];
        if (add_machines(&to, column, table->config))
            continue;
        add_column(&to, column);
        if (!all_numbers(&to, column, &low) || low <= 0)
            continue;
        for (uint32_t c = 0; c < table->config_count; c++) {
            struct aw_size_config *config = &table->config[c];
            const double value = aw_csv_real(cell_at(read, set->config_line[c], column));
            if (head_is(read, column, parallel))
                config->parallel = (isfinite(config->parallel) ? config->parallel : 1) * value;
            if (head_is(read, column, memory) && list->count == 1)
                config->memory_mb = value;
        }
    }
    table->memory = isfinite(table->config[0].memory_mb);
    float *share = table->memory ? feature_new(&to) : NULL;
    for (uint32_t c = 0; share && c < table->config_count; c++)
        share[c * to.stride] = (float)(LAMBDA_CORE / fmin(LAMBDA_CORE, table->config[c].memory_mb));
}

void aw__size_context(const struct aw__size_read *read, const struct aw__size_set *set,
                      const uint32_t *place, struct aw_size_table *table)
{
    uint32_t line[AW_SIZE_WORKLOADS_MAX];
    const struct target to = {
        .read = read,
        .line = line,
        .count = table->workload_count,
        .first = table->workload[0].context,
        .stride = sizeof *table->workload / sizeof(float),
        .used = &table->context_count,
        .max = AW_SIZE_CONTEXT_MAX,
    };
    for (uint32_t w = 0; w < set->workloads->count; w++)
        if (place[w] != UINT32_MAX)
            line[place[w]] = set->workload_line[w];
    for (uint32_t k = 0; k < read->roles.context.count; k++)
        add_column(&to, read->roles.context.at[k]);
}
