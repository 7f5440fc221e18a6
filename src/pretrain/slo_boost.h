/*
 * slo_boost.h - what a policy asks for, raised while the SLO is missed.
 *
 * A policy that knows a workload from a few episodes of another controller may be wrong about how
 * much it needs, and goes on being wrong until it has learned. Two numbers outside of it remember
 * what was missed: `quick` asks for more replicas at the first miss and is gone within a few dozen
 * steps; `slow` asks for larger ones where misses do not end, in few steps of its own, because each
 * of them restarts replicas; where they are as large as may be, for more of them. It begins as
 * after a miss: the sizes it finds may not suffice, and replicas that are asked for when that shows
 * come too late. A third, `memory`, is for absolute sizes: it asks for more after every step in
 * which replicas were killed for want of it, to the end of the episode, as the guard's floor does
 * (guard.h). Nothing is ever lowered.
 *
 * Call order: aw_slo_boost_begin, then per step: aw_slo_boost_apply before the action is carried
 *             out, aw_slo_boost_see with the result, and where sizes are absolute
 *             aw_slo_boost_killed. A step without figures is left out.
 * Memory:     a plain struct.
 * Threads:    pure functions of their arguments.
 */
#ifndef AW_PRETRAIN_SLO_BOOST_H
#define AW_PRETRAIN_SLO_BOOST_H

#include <stdbool.h>

#define AW_SLO_BOOST_MEMORY_MAX 2.0 /* from an action's least to its most */

struct aw_slo_boost {
    double quick, slow; /* 0 .. 1 */
    double memory;      /* 0 .. AW_SLO_BOOST_MEMORY_MAX, what is added to an action's */
};

void aw_slo_boost_begin(struct aw_slo_boost *trim);
void aw_slo_boost_see(struct aw_slo_boost *trim, bool missed);
/* In this step replicas were killed for want of memory. */
void aw_slo_boost_killed(struct aw_slo_boost *trim);
/* `action` [AW_ACTION_DIM], each from -1 to 1, of either mapping (task/action.h). */
void aw_slo_boost_apply(const struct aw_slo_boost *trim, float *action);

#endif
