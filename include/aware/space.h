/*
 * space.h - what an observation or an action may be: real numbers with names, units and bounds, or
 * one choice of several.
 *
 * Memory:  plain structs; names and axes are the caller's.
 * Threads: pure functions of their arguments.
 */
#ifndef AWARE_SPACE_H
#define AWARE_SPACE_H

#include <aware/err.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

enum aw_space_kind {
    AW_SPACE_BOX,      /* `dim` real numbers, each within its bounds */
    AW_SPACE_DISCRETE, /* one whole number in [0, n), carried in one float */
};

/* One element of a box: what it is called, in which unit, and how far it goes. */
struct aw_space_axis {
    const char *name; /* "pole_angle" */
    const char *unit; /* "rad"; "" for a pure number */
    float low, high;  /* may be -INFINITY, INFINITY */
};

struct aw_space {
    enum aw_space_kind kind;
    uint32_t dim;                     /* floats that carry it: box: elements; discrete: 1 */
    uint32_t n;                       /* discrete: number of choices; box: 0 */
    const struct aw_space_axis *axes; /* box: `dim` of them; discrete: `n` named choices */
};

/* True when `value` (dim floats) is finite and lies in `space`. */
bool aw_space_contains(const struct aw_space *space, const float *value);
/* True when step has to take `value` as an action of `space`: finite, and a choice that exists. A
 * box takes what is beyond its bounds, and clips it. */
bool aw_space_accepts(const struct aw_space *space, const float *value);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
