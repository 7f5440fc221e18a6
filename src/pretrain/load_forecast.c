/* load_forecast.c - a forecast of the load, and a table of what allocations did. */
#include "pretrain/load_forecast.h"

#include <math.h>
#include <string.h>

#define TERMS  (AW_LOAD_FORECAST_LAGS + 1)
#define FORGET 0.995 /* per step: half of what is known is younger than half an hour */
#define DOUBT  100.0 /* variance of the weights to begin with */

void aw_load_forecast_init(struct aw_load_forecast *f)
{
    memset(f, 0, sizeof *f);
    for (uint32_t i = 0; i < TERMS; i++)
        f->covariance[i][i] = DOUBT;
}

void aw_load_forecast_begin(struct aw_load_forecast *f)
{
    f->seen = 0;
    memset(f->change, 0, sizeof f->change);
}

static void inputs(const struct aw_load_forecast *f, double x[TERMS])
{
    for (uint32_t i = 0; i < AW_LOAD_FORECAST_LAGS; i++)
        x[i] = f->change[i];
    x[AW_LOAD_FORECAST_LAGS] = 1;
}

static double predicted(const struct aw_load_forecast *f)
{
    double x[TERMS], sum = 0;
    inputs(f, x);
    for (uint32_t i = 0; i < TERMS; i++)
        sum += f->weight[i] * x[i];
    return sum;
}

/* Recursive least squares: one change of the load, given those before it. */
static void fit(struct aw_load_forecast *f, double change)
{
    double x[TERMS], px[TERMS] = {0}, scale = FORGET;
    inputs(f, x);
    for (uint32_t i = 0; i < TERMS; i++)
        for (uint32_t k = 0; k < TERMS; k++)
            px[i] += f->covariance[i][k] * x[k];
    for (uint32_t i = 0; i < TERMS; i++)
        scale += x[i] * px[i];
    const double off = change - predicted(f);
    for (uint32_t i = 0; i < TERMS; i++) {
        f->weight[i] += px[i] / scale * off;
        for (uint32_t k = 0; k < TERMS; k++) {
            const double next = (f->covariance[i][k] - px[i] * px[k] / scale) / FORGET;
            f->covariance[i][k] = fmin(DOUBT, fmax(-DOUBT, next)); /* no wind-up in calm times */
        }
    }
}

/* Bins of a factor of two: cores from 1/4 on, requests/s per core from 1/2 on. */
static uint32_t bin_of(double value, double first)
{
    const double bin = value > 0 ? floor(log2(value / first)) : 0;
    return (uint32_t)fmin(AW_LOAD_FORECAST_BINS - 1, fmax(0, bin));
}

static void place(double load_per_s, double cores, uint32_t *ret_row, uint32_t *ret_column)
{
    *ret_row = bin_of(cores, 0.25);
    *ret_column = bin_of(cores > 0 ? load_per_s / cores : 0, 0.5);
}

void aw_load_forecast_see(struct aw_load_forecast *f, double load_per_s, double cores, double sp)
{
    if (!isfinite(load_per_s) || load_per_s < 0 || !isfinite(cores) || !isfinite(sp))
        return;
    const double level = log1p(load_per_s);
    if (f->seen > 0) {
        const double change = level - f->level;
        if (f->seen > AW_LOAD_FORECAST_LAGS)
            fit(f, change);
        memmove(f->change + 1, f->change, (AW_LOAD_FORECAST_LAGS - 1) * sizeof *f->change);
        f->change[0] = change;
    }
    f->seen += f->seen <= AW_LOAD_FORECAST_LAGS;
    f->level = level;
    f->cores = cores;
    uint32_t row, column;
    place(load_per_s, cores, &row, &column);
    f->count[row][column]++;
    f->sp[row][column] += (sp - f->sp[row][column]) / f->count[row][column];
}

void aw_load_forecast_features(const struct aw_load_forecast *f,
                               float features[AW_LOAD_FORECAST_FEATURES])
{
    const double change = f->seen > AW_LOAD_FORECAST_LAGS ? predicted(f) : 0;
    uint32_t row, column;
    place(expm1(fmin(50, fmax(0, f->level + change))), f->cores, &row, &column);
    features[0] = (float)fmin(1, fmax(-1, change));
    features[1] = f->count[row][column] > 0 ? (float)f->sp[row][column] : 1.0f;
}
