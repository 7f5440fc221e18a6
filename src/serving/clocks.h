/*
 * clocks.h - which clock each device gets now: a rule of power.h proposes, a guard disposes, a cap
 * of cap.h has the last word. Pure: time, readings and what was measured are arguments.
 *
 * A server is what answers requests (a process behind the proxy) on one or more devices. The rule
 * sees the requests that are there and what they still have until their SLO is missed. Outside of
 * the rule stands the guard: a clock goes down by a bounded step at a time, stays between two
 * bounds, and is the largest at once when an SLO was missed, when a server or its figures are not
 * known or are old, when the device does not answer, and when a set was refused or ignored. Only
 * the cap in watts may lower what the guard has raised.
 *
 * Call order: init, then decide once a tick.
 * Memory:     the caller's structs; nothing is allocated.
 * Threads:    single owner.
 *
 * The trap: what is not known never lowers a clock. A server that has not shown yet how long a
 * token takes keeps its devices at the largest clock, however idle the rule thinks they are.
 */
#ifndef AW_SERVING_CLOCKS_H
#define AW_SERVING_CLOCKS_H

#include "serving/cap.h"
#include "serving/power.h"

#define AW_CLOCKS_SERVERS_MAX 32u
#define AW_CLOCKS_GOALS       3u /* latency, time to first token, time per token */

/* clang-format off */
/*     name      largest? text                                                              */
#define AW_CLOCKS_WHY_MAP(X) \
    X(RULE,      false, "the smallest clock at which the requests that are there keep their SLO") \
    X(IDLE,      false, "nothing is there to serve") \
    X(STEP,      false, "on its way down, by one bounded step in a tick") \
    X(BOUND,     false, "the bounds that were given") \
    X(MISSED,    true,  "an SLO was missed") \
    X(HOLD,      true,  "an SLO was missed a short time ago") \
    X(UNKNOWN,   true,  "how long answers and tokens take is not known yet") \
    X(DOWN,      true,  "a server does not answer its health checks") \
    X(STALE,     true,  "what is measured is too old") \
    X(LOST,      true,  "the device does not answer") \
    X(UNSET,     true,  "a clock that was set was refused or ignored") \
    X(CAP,       false, "the cap in watts")
/* clang-format on */
enum aw_clocks_why {
#define X(name, largest, text) AW_CLOCKS_##name,
    AW_CLOCKS_WHY_MAP(X)
#undef X
        AW_CLOCKS_WHYS
};
const char *aw_clocks_why_name(enum aw_clocks_why why); /* "missed" */
const char *aw_clocks_why_text(enum aw_clocks_why why);

struct aw_clocks_config {
    struct aw_power_settings power;
    double x_low, x_high;           /* bounds of every clock */
    double down_x;                  /* a clock falls at most so far in a tick; 0: 0.1 */
    double hold_s;                  /* the largest clock for so long after a missed SLO; 0: 10 */
    double stale_s;                 /* figures older than this are not known; 0: 2 */
    double cap_w;                   /* of all devices; 0: none */
    double device_cap_w;            /* of each; 0: none */
    double bound;                   /* of true power over the profile; 0: 1.1 */
    const struct aw_gpu_kind *kind; /* needed with a cap */
};

/* One server as it was measured. */
struct aw_clocks_server {
    double at_s;                /* when */
    double missed_s;            /* of the last SLO that was missed; -INFINITY: none yet */
    double memory;              /* m: share of its time that no clock changes */
    double load;                /* share of its slots in use, at the largest clock */
    double rate_per_s, slack_s; /* of requests to come, as aw_power_other has them */
    double caution;             /* of aw_power_learn */
    bool healthy;
    bool known; /* speeds and lengths are */
    uint32_t slots, in_flight, waiting;
    struct aw_miad_seen goal[AW_CLOCKS_GOALS]; /* slo_s 0: no such goal */
    uint32_t runs, waits;
    struct aw_power_item run[AW_POWER_ITEMS_MAX];  /* served side by side */
    struct aw_power_item wait[AW_POWER_ITEMS_MAX]; /* behind each other, each by a slot's share */
};

/* One device as it was read. */
struct aw_clocks_device {
    double read_x;    /* NAN: it does not answer */
    bool unset;       /* a set was refused or ignored */
    uint32_t servers; /* bits of those that it works for */
};

struct aw_clocks_choice {
    double x;      /* to be set */
    double wish_x; /* by the rule alone */
    enum aw_clocks_why why;
    uint32_t server; /* that it is about; UINT32_MAX: none */
    double slack;    /* least share of an SLO that is left there; NAN: nothing is measured */
    bool wants_more; /* misses SLOs at the largest clock: a replica is wanted */
};

struct aw_clocks {
    struct aw_clocks_config config;
    uint32_t devices;
    double x_min; /* of the devices */
    double due_s; /* miad decides next; what is urgent does not wait for it */
    bool due;
    double set_x[AW_CAP_DEVICES_MAX];
    double unset_s[AW_CAP_DEVICES_MAX]; /* when a set failed last */
    struct aw_cap cap;
};

/* AW_ERR_CONFIG: bounds or caps that cannot be; a cap without a kind. */
AW_NODISCARD enum aw_err aw_clocks_init(struct aw_clocks *clocks,
                                        const struct aw_clocks_config *config, uint32_t devices,
                                        double x_min, struct aw_diag *diag);
/* False: the cap cannot be kept with the devices as they are; all that can be done is in `ret`. */
bool aw_clocks_decide(struct aw_clocks *clocks, double now_s, const struct aw_clocks_server *server,
                      uint32_t servers, const struct aw_clocks_device *device,
                      struct aw_clocks_choice *ret);

#endif
