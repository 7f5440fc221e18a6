/* table.c - see table.h. */
#include "sizing/table.h"

#include <math.h>
#include <string.h>

/* aws.amazon.com/lambda/pricing: a GB second, and a request. */
#define LAMBDA_GB_SECOND 1.66667e-5
#define LAMBDA_REQUEST   2e-7

double aw_size_lambda_usd(double memory_mb, double seconds)
{
    return memory_mb / 1024 * seconds * LAMBDA_GB_SECOND + LAMBDA_REQUEST;
}

enum aw_err aw_size_table_init(struct aw_size_table *table, uint32_t configs, uint32_t workloads,
                               uint32_t groups)
{
    const size_t cells = (size_t)configs * workloads;
    memset(table, 0, sizeof *table);
    for (struct aw_carve carve = {0};;) {
        table->config = aw_carve_take(&carve, configs, sizeof *table->config);
        table->workload = aw_carve_take(&carve, workloads, sizeof *table->workload);
        table->group = aw_carve_take(&carve, groups, sizeof *table->group);
        table->time = aw_carve_take(&carve, cells, sizeof *table->time);
        table->cost = aw_carve_take(&carve, cells, sizeof *table->cost);
        if (carve.base)
            break;
        table->block = aw_alloc_new(NULL, 1, carve.used);
        if (!table->block) {
            memset(table, 0, sizeof *table);
            return AW_ERR_NOMEM;
        }
        carve = (struct aw_carve){.base = table->block};
    }
    table->config_count = configs;
    table->workload_count = workloads;
    table->group_count = groups;
    for (size_t i = 0; i < cells; i++)
        table->time[i] = table->cost[i] = (double)NAN;
    for (uint32_t c = 0; c < configs; c++)
        table->config[c].memory_mb = table->config[c].parallel = table->config[c].price =
            (double)NAN;
    return AW_OK;
}

void aw_size_table_deinit(struct aw_size_table *table)
{
    aw_alloc_free(NULL, table->block);
    memset(table, 0, sizeof *table);
}

void aw_size_tables_deinit(struct aw_size_tables *tables)
{
    for (uint32_t i = 0; i < tables->count; i++)
        aw_size_table_deinit(&tables->table[i]);
    tables->count = 0;
}

/* One column of numbers `stride` floats apart. */
static void standardise(float *x, size_t count, size_t stride)
{
    double sum = 0, square = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i * stride];
    const double mean = count ? sum / (double)count : 0;
    for (size_t i = 0; i < count; i++)
        square += ((double)x[i * stride] - mean) * ((double)x[i * stride] - mean);
    const double deviation = count ? sqrt(square / (double)count) : 0;
    for (size_t i = 0; i < count; i++)
        x[i * stride] = deviation > 1e-9 ? (float)(((double)x[i * stride] - mean) / deviation) : 0;
}

void aw_size_table_standardise(struct aw_size_table *table)
{
    for (uint32_t k = 0; k < table->feature_count; k++)
        standardise(&table->config[0].feature[k], table->config_count,
                    sizeof *table->config / sizeof(float));
    for (uint32_t k = 0; k < table->context_count; k++)
        standardise(&table->workload[0].context[k], table->workload_count,
                    sizeof *table->workload / sizeof(float));
}
