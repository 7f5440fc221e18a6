/*
 * leave_one_out.h - of each of many, the means and deviations of all others.
 *
 * Memory:  the caller's.
 * Threads: a pure function.
 */
#ifndef AW_BASE_LEAVE_ONE_OUT_H
#define AW_BASE_LEAVE_ONE_OUT_H

#include <stdint.h>

#define AW_LEAVE_ONE_OUT_MAX 16u /* figures */

/* Of `count` figures over those that are there: of each row of x [n][count] the others', in `ret`
 * [n][2 * count], means before deviations. Rows of those that are not there, and of who is alone,
 * are zeros. O(n), two centred passes in double. */
void aw_leave_one_out(const float *x, const uint8_t *here, uint32_t n, uint32_t count, float *ret);

#endif
