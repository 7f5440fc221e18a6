/*
 * scenario.h - what disturbs a workload, by name and on a schedule.
 *
 * The seven disturbances of AWARE section 2.3 (six payloads and the load, both ways), and
 * contention from neighbours as FIRM injects it. They are plain data here; a cluster applies the
 * effect.
 *
 * A schedule is text, "file-size@30m, neighbour-cpu@10m+5m", or YAML:
 *
 *     - {scenario: file-size, at: 30m}              # to the end
 *     - {scenario: neighbour-cpu, at: 10m, for: 5m}
 *     - {at: 1h, for: 10m, load: 3, payload: 2, families: [image, text]}   # one's own
 *
 * Call order: parse or decode, then effect at any time.
 * Memory:     plain structs of fixed size, copied freely.
 * Threads:    pure functions.
 */
#ifndef AW_WORKLOAD_SCENARIO_H
#define AW_WORKLOAD_SCENARIO_H

#include "base/tree.h"

#define AW_SCHEDULE_EVENTS_MAX 64u

/* What a cluster does to a workload; the same members as its disturbance. */
struct aw_effect {
    double payload;         /* factor on the payload, 1: none */
    uint32_t families;      /* whose payload, bit 1 << enum aw_payload_family; 0: all */
    double cpu_slowdown;    /* CPU time of a request times this */
    double io_slowdown;     /* waiting times this */
    double load_factor;     /* arrivals times this */
    double memory_leak_mib; /* more base memory per replica */
};
extern const struct aw_effect aw_effect_none;

struct aw_scenario {
    const char *name;
    const char *help; /* one line: what changes, and the source */
    struct aw_effect effect;
};
/* Every named scenario, ending with a NULL name. */
extern const struct aw_scenario aw_scenarios[];
/* AW_ERR_NOTFOUND with the nearest name. */
AW_NODISCARD enum aw_err aw_scenario_find(const char *name, const struct aw_scenario **ret,
                                          struct aw_diag *diag);

struct aw_event {
    int64_t from_us, to_us; /* [from, to); to INT64_MAX: to the end */
    char name[32];          /* of the scenario; "custom" for one's own */
    struct aw_effect effect;
};

struct aw_schedule {
    uint32_t count;
    struct aw_event event[AW_SCHEDULE_EVENTS_MAX]; /* by time of begin */
};

/* From text; "" is an empty schedule. AW_ERR_CONFIG: malformed, or two payload changes at once,
 * which no effect can say; AW_ERR_NOTFOUND: no such scenario; AW_ERR_LIMIT. `ret` is untouched on
 * failure, here and below. */
AW_NODISCARD enum aw_err aw_schedule_parse(const char *text, struct aw_schedule *ret,
                                           struct aw_diag *diag);
/* From a YAML or JSON list; a string in it is read as text. Errors have their place. */
AW_NODISCARD enum aw_err aw_schedule_decode(const struct aw_tree *tree, const struct aw_node *list,
                                            struct aw_schedule *ret, struct aw_diag *diag);

/* Everything that is on at `at_us`: factors multiply, leaks add. */
void aw_schedule_effect(const struct aw_schedule *schedule, int64_t at_us,
                        struct aw_effect *ret_effect);
/* When the effect next changes after `at_us`; INT64_MAX: never again. */
int64_t aw_schedule_next(const struct aw_schedule *schedule, int64_t at_us);

#endif
