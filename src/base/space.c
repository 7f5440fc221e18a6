/* space.c - membership, acceptance and uniform draws. */
#include "base/space.h"

#include <math.h>

/* In this order a NaN fails the first comparison, and the cast sees only what it can hold. */
static bool is_choice(const struct aw_space *space, float value)
{
    return value >= 0 && value < (float)space->n && value == (float)(uint32_t)value;
}

bool aw_space_contains(const struct aw_space *space, const float *value)
{
    if (space->kind == AW_SPACE_DISCRETE)
        return is_choice(space, value[0]);
    for (uint32_t i = 0; i < space->dim; i++)
        if (!isfinite(value[i]) || value[i] < space->axes[i].low || value[i] > space->axes[i].high)
            return false;
    return true;
}

bool aw_space_accepts(const struct aw_space *space, const float *value)
{
    if (space->kind == AW_SPACE_DISCRETE)
        return is_choice(space, value[0]);
    for (uint32_t i = 0; i < space->dim; i++)
        if (!isfinite(value[i]))
            return false;
    return true;
}

void aw_space_sample(const struct aw_space *space, struct aw_rng *rng, float *value)
{
    if (space->kind == AW_SPACE_DISCRETE) {
        value[0] = (float)aw_rng_below(rng, space->n);
        return;
    }
    for (uint32_t i = 0; i < space->dim; i++) {
        float low = space->axes[i].low, high = space->axes[i].high;
        bool bounded = isfinite(low) && isfinite(high);
        /* in double: high - low may be beyond a float, and rounding must not pass a bound */
        double draw = bounded ? aw_rng_uniform(rng, (double)low, (double)high) : aw_rng_normal(rng);
        float x = (float)draw;
        value[i] = x < low ? low : x > high ? high : x;
    }
}
