/*
 * hpa_limits.h - from a raw recommendation to a count that may be set: stabilisation, scaling
 * rates, bounds.
 *
 * Source: kubernetes pkg/controller/podautoscaler/horizontal.go at e81f39c0, restated.
 *
 * Memory and threads: as hpa.h.
 *
 * The trap: without a behavior an entry exactly as old as the window still counts; with one it
 * does not. Upstream compares "not before" in the one place and "after" in the other.
 */
#ifndef AW_FALLBACK_HPA_LIMITS_H
#define AW_FALLBACK_HPA_LIMITS_H

#include "fallback/hpa.h"

struct aw__hpa_limited {
    int32_t replicas;
    enum aw_hpa_reason reason; /* WITHIN_RANGE, or what held it back */
};

/* The highest recommendation of the window, this one included; records `desired`. */
int32_t aw__hpa_stabilize(struct aw_hpa_state *state, int64_t now_us, int64_t window_us,
                          int32_t desired);
/* `current`, moved no further than all recommendations of either window agree; records `desired`.
 */
int32_t aw__hpa_stabilize_by_rules(struct aw_hpa_state *state, int64_t now_us, int64_t up_us,
                                   int64_t down_us, int32_t current, int32_t desired);

/* Without a behavior: between min and max, and at most doubled (or 4). */
struct aw__hpa_limited aw__hpa_clamp(int32_t current, int32_t desired, int32_t min, int32_t max);
/* With a behavior: no faster than the policies allow. */
struct aw__hpa_limited aw__hpa_limit_rate(const struct aw_hpa_spec *spec,
                                          const struct aw_hpa_state *state, int64_t now_us,
                                          int32_t current, int32_t desired);

/* Remembers a change for as long as the longest period of `rules`. */
void aw__hpa_events_add(struct aw_hpa_events *events, const struct aw_hpa_rules *rules,
                        int64_t now_us, int32_t change);

#endif
