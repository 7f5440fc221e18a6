/* hpa_limits.c - what the recent past still forbids. */
#include "fallback/hpa_limits.h"

#include <math.h>

#define SECOND_US 1000000

/* scaleUpLimitFactor and scaleUpLimitMinimum upstream */
#define UP_FACTOR  2
#define UP_MINIMUM 4

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t max32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t saturate(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* Where a new entry goes among `count` of at most `max`. */
struct place {
    uint32_t index;
    bool merge; /* into what is there */
};

/* Into the newest entry when that began less than 1/(max - 2) of the window ago, so that a window
 * full of entries always fits; else over an outdated one, else to the end. A list that is full all
 * the same (the window was made longer) takes it into the newest too. */
static struct place place_of(uint64_t count, uint64_t max, uint64_t outdated, uint64_t newest,
                             int64_t newest_age_us, int64_t window_us)
{
    bool close = count > 0 && newest_age_us < window_us / (int64_t)(max - 2);
    if (close || (outdated == count && count == max))
        return (struct place){(uint32_t)newest, true};
    return (struct place){(uint32_t)outdated, false};
}

static void record(struct aw_hpa_state *state, uint64_t outdated, int64_t now_us, int64_t window_us,
                   int32_t desired)
{
    struct aw_hpa_recommendation fresh = {.time_us = now_us, .low = desired, .high = desired};
    struct aw_hpa_recommendation *items = state->recommendations;
    uint64_t newest = 0;
    for (uint64_t i = 1; i < state->recommendation_count; i++)
        newest = items[i].time_us > items[newest].time_us ? i : newest;
    int64_t age_us = now_us - items[newest].time_us + (int64_t)items[newest].span_us;
    struct place place = place_of(state->recommendation_count, AW_HPA_RECOMMENDATIONS_MAX, outdated,
                                  newest, age_us, window_us);
    if (place.merge) {
        fresh.low = min32(fresh.low, items[newest].low);
        fresh.high = max32(fresh.high, items[newest].high);
        fresh.span_us = age_us > 0 ? (uint64_t)age_us : 0;
    }
    state->recommendation_count += !place.merge && place.index == state->recommendation_count;
    items[place.index] = fresh;
}

int32_t aw__hpa_stabilize(struct aw_hpa_state *state, int64_t now_us, int64_t window_us,
                          int32_t desired)
{
    uint64_t outdated = state->recommendation_count;
    int64_t cutoff_us = now_us - window_us;
    int32_t highest = desired;
    for (uint64_t i = 0; i < state->recommendation_count; i++) {
        const struct aw_hpa_recommendation *past = &state->recommendations[i];
        if (past->time_us < cutoff_us)
            outdated = i;
        else
            highest = max32(highest, past->high);
    }
    record(state, outdated, now_us, window_us, desired);
    return highest;
}

int32_t aw__hpa_stabilize_by_rules(struct aw_hpa_state *state, int64_t now_us, int64_t up_us,
                                   int64_t down_us, int32_t current, int32_t desired)
{
    uint64_t outdated = state->recommendation_count;
    int64_t up_cutoff_us = now_us - up_us, down_cutoff_us = now_us - down_us;
    int32_t lowest = desired, highest = desired;
    for (uint64_t i = 0; i < state->recommendation_count; i++) {
        const struct aw_hpa_recommendation *past = &state->recommendations[i];
        if (past->time_us > up_cutoff_us)
            lowest = min32(lowest, past->low);
        if (past->time_us > down_cutoff_us)
            highest = max32(highest, past->high);
        if (past->time_us < up_cutoff_us && past->time_us < down_cutoff_us)
            outdated = i;
    }
    record(state, outdated, now_us, up_us > down_us ? up_us : down_us, desired);
    return min32(max32(current, lowest), highest);
}

struct aw__hpa_limited aw__hpa_clamp(int32_t current, int32_t desired, int32_t min, int32_t max)
{
    int32_t rate = max32(saturate((int64_t)current * UP_FACTOR), UP_MINIMUM);
    if (desired < min)
        return (struct aw__hpa_limited){min, AW_HPA_REASON_TOO_FEW};
    if (max > rate && desired > rate)
        return (struct aw__hpa_limited){rate, AW_HPA_REASON_UP_LIMIT};
    if (desired > max)
        return (struct aw__hpa_limited){max, AW_HPA_REASON_TOO_MANY};
    return (struct aw__hpa_limited){desired, AW_HPA_REASON_WITHIN_RANGE};
}

static int64_t changed(const struct aw_hpa_events *events, int64_t now_us, int32_t period_s)
{
    int64_t cutoff_us = now_us - (int64_t)period_s * SECOND_US, sum = 0;
    for (uint64_t i = 0; i < events->count; i++)
        if (events->items[i].time_us > cutoff_us)
            sum += events->items[i].change;
    return sum;
}

/* The count that one direction may reach. `sign` +1: up, -1: down. The order of the operations of a
 * percentage is upstream's: 100 * (1 + 10 / 100.0) is a hair above 110, and its ceil is 111. */
static int32_t reach(const struct aw_hpa_rules *rules, const struct aw_hpa_state *state,
                     int64_t now_us, int32_t current, int sign)
{
    if (rules->select == AW_HPA_SELECT_DISABLED)
        return current;
    /* Of several policies: the one that reaches furthest, or least far. */
    bool largest = (rules->select == AW_HPA_SELECT_MAX) == (sign > 0);
    int32_t result = largest ? INT32_MIN : INT32_MAX;
    for (uint32_t i = 0; i < rules->policy_count; i++) {
        const struct aw_hpa_policy *policy = &rules->policies[i];
        int64_t added = changed(&state->up, now_us, policy->period_s);
        int64_t removed = changed(&state->down, now_us, policy->period_s);
        int64_t base = current - added + removed;
        double percent = (double)policy->value / 100;
        int64_t there;
        if (policy->type == AW_HPA_POLICY_PODS)
            there = base + sign * (int64_t)policy->value;
        else if (sign > 0)
            there = (int64_t)ceil((double)base * (1 + percent));
        else
            there = (int64_t)((double)base * (1 - percent));
        result = largest ? max32(result, saturate(there)) : min32(result, saturate(there));
    }
    return result;
}

struct aw__hpa_limited aw__hpa_limit_rate(const struct aw_hpa_spec *spec,
                                          const struct aw_hpa_state *state, int64_t now_us,
                                          int32_t current, int32_t desired)
{
    if (desired > current) {
        int32_t rate = max32(reach(&spec->up, state, now_us, current, +1), current);
        int32_t most = min32(rate, spec->replicas_max);
        if (desired > most)
            return (struct aw__hpa_limited){
                most, rate < spec->replicas_max ? AW_HPA_REASON_UP_LIMIT : AW_HPA_REASON_TOO_MANY};
    } else if (desired < current) {
        int32_t rate = min32(reach(&spec->down, state, now_us, current, -1), current);
        int32_t least = max32(rate, spec->replicas_min);
        if (desired < least)
            return (struct aw__hpa_limited){least, rate > spec->replicas_min
                                                       ? AW_HPA_REASON_DOWN_LIMIT
                                                       : AW_HPA_REASON_TOO_FEW};
    }
    return (struct aw__hpa_limited){desired, AW_HPA_REASON_WITHIN_RANGE};
}

void aw__hpa_events_add(struct aw_hpa_events *events, const struct aw_hpa_rules *rules,
                        int64_t now_us, int32_t change)
{
    struct aw_hpa_event fresh = {.time_us = now_us, .change = change};
    struct aw_hpa_event *items = events->items;
    int32_t longest_s = 0;
    for (uint32_t i = 0; i < rules->policy_count; i++)
        longest_s = max32(longest_s, rules->policies[i].period_s);
    int64_t window_us = (int64_t)longest_s * SECOND_US;
    uint64_t outdated = events->count, newest = 0;
    for (uint64_t i = 0; i < events->count; i++) {
        outdated = items[i].time_us < now_us - window_us ? i : outdated;
        newest = items[i].time_us > items[newest].time_us ? i : newest;
    }
    int64_t age_us = now_us - items[newest].time_us + items[newest].span_us;
    struct place place =
        place_of(events->count, AW_HPA_EVENTS_MAX, outdated, newest, age_us, window_us);
    if (place.merge) {
        fresh.change = saturate((int64_t)change + items[newest].change);
        fresh.span_us = age_us < 0 ? 0 : age_us > UINT32_MAX ? UINT32_MAX : (uint32_t)age_us;
    }
    events->count += !place.merge && place.index == events->count;
    items[place.index] = fresh;
}
