/*
 * axes.h - the two directions in which a cloud of points is widest: its first principal components.
 *
 * They are found by orthogonal iteration on the points themselves (no matrix is made), which gives
 * the two axes alone and always the same ones: the start is fixed, the wider axis is the first, and
 * the largest coordinate of each is positive, so that a map does not flip between two drawings.
 *
 * Memory:  none but the struct.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_META_AXES_H
#define AW_META_AXES_H

#include <aware/err.h>

#define AW_AXES_DIM_MAX  256u
#define AW_AXES_ROWS_MAX 1024u /* looked at; of more, as many evenly chosen ones */

struct aw_axes {
    uint32_t dim;
    double mean[AW_AXES_DIM_MAX];
    double axis[2][AW_AXES_DIM_MAX]; /* of length 1, or zeros where there is no such direction */
    double share[2];                 /* of the variance along each; 0 where all points are one */
};

/* Of `rows` [count][dim], dim from 1 to AW_AXES_DIM_MAX. Fewer than two points have no direction:
 * their axes are zeros. */
void aw_axes_find(const float *rows, uint32_t count, uint32_t dim, struct aw_axes *ret);
/* Where a point [dim] lies on the two. */
void aw_axes_place(const struct aw_axes *axes, const float *point, double ret[2]);

#endif
