/*
 * leave_one_out.h - of each of many, the means and deviations of all others.
 *
 * Memory:  the caller's.
 * Threads: a pure function.
 */
#ifndef AW_BASE_LEAVE_ONE_OUT_H
#define AW_BASE_LEAVE_ONE_OUT_H

#include <aware/err.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AW_LEAVE_ONE_OUT_MAX 16u /* figures */

/* Of `count` figures over those that are there: of each row of x [n][count] the others', in `ret`
 * [n][2 * count], means before deviations. Rows of those that are not there, and of who is alone,
 * are zeros. O(n), two centred passes in double. */
static inline void aw_leave_one_out(const float *x, const uint8_t *here, uint32_t n, uint32_t count,
                                    float *ret)
{
    AW_ASSERT(count <= AW_LEAVE_ONE_OUT_MAX);
    double mean[AW_LEAVE_ONE_OUT_MAX] = {0}, square[AW_LEAVE_ONE_OUT_MAX] = {0}, live = 0;
    for (uint32_t i = 0; i < n; i++) {
        live += here[i];
        for (uint32_t k = 0; here[i] && k < count; k++)
            mean[k] += (double)x[(size_t)i * count + k];
    }
    for (uint32_t k = 0; k < count; k++)
        mean[k] /= live > 0 ? live : 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; here[i] && k < count; k++) {
            const double centred = (double)x[(size_t)i * count + k] - mean[k];
            square[k] += centred * centred;
        }
    for (uint32_t i = 0; i < n; i++) {
        float *row = ret + (size_t)i * 2 * count;
        for (uint32_t k = 0; k < count; k++) {
            const double centred = (double)x[(size_t)i * count + k] - mean[k];
            const bool others = here[i] && live > 1;
            const double left = square[k] - centred * centred * live / (live > 1 ? live - 1 : 1);
            row[k] = others ? (float)(mean[k] - centred / (live - 1)) : 0;
            row[count + k] = others ? (float)sqrt(fmax(0, left) / (live - 1)) : 0;
        }
    }
}

#endif
