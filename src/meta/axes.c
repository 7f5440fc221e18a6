/* axes.c - the widest two directions of a cloud of points. */
#include "meta/axes.h"

#include <math.h>
#include <string.h>

#define ROUNDS_MAX 300u
#define SETTLED \
    1e-10 /* squared change of an axis in one round: what a map shows is far coarser \
           */

struct cloud {
    const float *rows;
    uint32_t count, stride, dim; /* every stride-th row is looked at, `count` of them */
};

static const float *row_of(const struct cloud *cloud, uint32_t i)
{
    return cloud->rows + (size_t)i * cloud->stride * cloud->dim;
}

static double dot(const double *a, const double *b, uint32_t dim)
{
    double sum = 0;
    for (uint32_t i = 0; i < dim; i++)
        sum += a[i] * b[i];
    return sum;
}

/* next = covariance * axis, times the number of points. Returns the variance along the axis, times
 * the same. */
static double turn(const struct cloud *cloud, const double *mean, const double *axis, double *next)
{
    double along = 0;
    memset(next, 0, cloud->dim * sizeof *next);
    for (uint32_t r = 0; r < cloud->count; r++) {
        const float *x = row_of(cloud, r);
        double at = 0;
        for (uint32_t i = 0; i < cloud->dim; i++)
            at += ((double)x[i] - mean[i]) * axis[i];
        for (uint32_t i = 0; i < cloud->dim; i++)
            next[i] += at * ((double)x[i] - mean[i]);
        along += at * at;
    }
    return along;
}

/* Length 1, or all zeros: `least` is what rounding leaves of no direction at all. */
static void unit(double *v, uint32_t dim, double least)
{
    const double length = sqrt(dot(v, v, dim));
    for (uint32_t i = 0; i < dim; i++)
        v[i] = length > least ? v[i] / length : 0;
}

static void face(double *v, uint32_t dim)
{
    uint32_t largest = 0;
    for (uint32_t i = 1; i < dim; i++)
        if (fabs(v[i]) > fabs(v[largest]))
            largest = i;
    const double sign = v[largest] < 0 ? -1 : 1;
    for (uint32_t i = 0; i < dim; i++)
        v[i] *= sign;
}

static double total_of(const struct cloud *cloud, double *ret_mean)
{
    double total = 0;
    memset(ret_mean, 0, cloud->dim * sizeof *ret_mean);
    for (uint32_t r = 0; r < cloud->count; r++)
        for (uint32_t i = 0; i < cloud->dim; i++)
            ret_mean[i] += (double)row_of(cloud, r)[i] / cloud->count;
    for (uint32_t r = 0; r < cloud->count; r++)
        for (uint32_t i = 0; i < cloud->dim; i++) {
            const double d = (double)row_of(cloud, r)[i] - ret_mean[i];
            total += d * d;
        }
    return total;
}

void aw_axes_find(const float *rows, uint32_t count, uint32_t dim, struct aw_axes *ret)
{
    AW_ASSERT(dim > 0 && dim <= AW_AXES_DIM_MAX);
    memset(ret, 0, sizeof *ret);
    ret->dim = dim;
    if (count == 0)
        return;
    struct cloud cloud = {.rows = rows, .dim = dim};
    cloud.stride = (count + AW_AXES_ROWS_MAX - 1) / AW_AXES_ROWS_MAX;
    cloud.count = (count + cloud.stride - 1) / cloud.stride;
    const double total = total_of(&cloud, ret->mean), least = 1e-12 * total;
    if (!(total > 0))
        return;
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < dim; i++)
            ret->axis[k][i] = 1.0 / (1 + i + k);
    double moved = 1;
    for (uint32_t round = 0; round < ROUNDS_MAX && moved > SETTLED; round++) {
        double next[2][AW_AXES_DIM_MAX];
        moved = 0;
        for (uint32_t k = 0; k < 2; k++)
            (void)turn(&cloud, ret->mean, ret->axis[k], next[k]);
        unit(next[0], dim, least);
        const double shared = dot(next[0], next[1], dim);
        for (uint32_t i = 0; i < dim; i++)
            next[1][i] -= shared * next[0][i];
        unit(next[1], dim, least);
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < dim; i++)
                moved += (next[k][i] - ret->axis[k][i]) * (next[k][i] - ret->axis[k][i]);
            memcpy(ret->axis[k], next[k], dim * sizeof *next[k]);
        }
    }
    double unused[AW_AXES_DIM_MAX];
    for (uint32_t k = 0; k < 2; k++) {
        ret->share[k] = turn(&cloud, ret->mean, ret->axis[k], unused) / total;
        face(ret->axis[k], dim);
    }
}

void aw_axes_place(const struct aw_axes *axes, const float *point, double ret[2])
{
    for (uint32_t k = 0; k < 2; k++) {
        ret[k] = 0;
        for (uint32_t i = 0; i < axes->dim; i++)
            ret[k] += ((double)point[i] - axes->mean[i]) * axes->axis[k][i];
    }
}
