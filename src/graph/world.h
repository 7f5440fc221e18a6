/*
 * world.h - an application that is a graph of services, simulated event by event.
 *
 * Requests arrive at random (Poisson) and walk the programs of their operations. Every visit waits
 * for a core and for its group's CPU quota (CFS, periods of 100 ms), then for its disk; its answer
 * waits for its network. Work is slower where a group is short of memory bandwidth or of cache. Of
 * traced requests, spans come out as a tracer would send them: two of each call, by the clocks of
 * their nodes, some of them lost.
 *
 * A replica is a group with five limits. Limits of a node never sum to more than the node has:
 * what a stressor takes inside of one group, nobody else loses.
 *
 * Call order: new; then run for a while, look (read, done, spans), order (limit, scale), again.
 * Memory:     all at new; beyond its maxima requests fail, and are counted.
 * Threads:    single owner. Same seed, same bytes.
 *
 * The trap: read, done and spans give what has happened since they were last asked.
 */
#ifndef AW_GRAPH_WORLD_H
#define AW_GRAPH_WORLD_H

#include "base/alloc.h"
#include "graph/app.h"
#include "trace/span.h"

#define AW_GRAPH_S_NS         INT64_C(1000000000)
#define AW_GRAPH_REPLICAS_MAX 256u       /* of all services, at once */
#define AW_GRAPH_SCALE_MAX    16u        /* replicas of a service */
#define AW_GRAPH_FRAMES_MAX   (1u << 15) /* visits under way */
#define AW_GRAPH_REQUESTS_MAX (1u << 13)
#define AW_GRAPH_DONE_MAX     (1u << 16)
#define AW_GRAPH_SPANS_MAX    (1u << 18)
#define AW_GRAPH_WAIT_MAX_NS  AW_GRAPH_S_NS /* who would wait longer for a core is turned away */

struct aw_graph_config {
    uint64_t seed;
    double load;      /* of the application's rate; 0: 1 */
    double traced;    /* share of requests that leave spans */
    double span_loss; /* share of their spans that never arrive */
    double skew_us;   /* deviation of the nodes' clocks */
};

/* A request that has ended. */
struct aw_graph_done {
    uint32_t type;
    bool failed; /* turned away somewhere */
    int64_t arrival_ns, latency_ns;
};

/* What a service did since it was last read; of its replicas, the mean. */
struct aw_graph_reading {
    double use[AW_GRAPH_RESOURCES];   /* of its limit, whoever in the group used it: 0 to 1 */
    double stall[AW_GRAPH_RESOURCES]; /* share of a visit's time that was spent waiting for it */
    double limit[AW_GRAPH_RESOURCES]; /* of one replica */
    double throttled;                 /* share of CFS periods */
    double visits_per_s;
    double net_delay_us; /* mean round trip of a packet beyond the usual: what ping would say */
    uint32_t replicas;
};

/* Inside of the groups of a service that run at this moment, beside its own work. */
struct aw_graph_stress {
    double amount[AW_GRAPH_RESOURCES]; /* in units of the resource */
    double delay_us;                   /* of every packet, each way: mean; a tenth deviation */
    double extra_per_s;                /* visits from elsewhere, which end here */
};

struct aw_graph_world;

/* `app` must outlive it. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_graph_world_new(const struct aw_graph_app *app,
                                            const struct aw_graph_config *config,
                                            const struct aw_alloc *alloc,
                                            struct aw_graph_world **ret);
void aw_graph_world_free(struct aw_graph_world *world); /* NULL is a no-op */

void aw_graph_world_run(struct aw_graph_world *world, int64_t until_ns);
int64_t aw_graph_world_now(const struct aw_graph_world *world);
uint64_t aw_graph_world_visits(const struct aw_graph_world *world);   /* since its beginning */
uint64_t aw_graph_world_requests(const struct aw_graph_world *world); /* that have arrived */

/* `ret` [services]. */
void aw_graph_world_read(struct aw_graph_world *world, struct aw_graph_reading *ret);
/* Requests that have ended, `*ret_count` of them; good until the world runs on. */
const struct aw_graph_done *aw_graph_world_done(struct aw_graph_world *world, uint32_t *ret_count);
/* Spans of traced requests that have ended. The list is the world's: take what is needed, then
 * aw_spans_reset it. */
struct aw_spans *aw_graph_world_spans(struct aw_graph_world *world);
/* Cores that all limits sum to. */
double aw_graph_world_cores(const struct aw_graph_world *world);

/* Orders; each takes as long as FIRM measured (Table 3.5). AW_ERR_RANGE: below or beyond what the
 * service may have. AW_ERR_LIMIT: the node has not that much left. Then nothing is changed. */
AW_NODISCARD enum aw_err aw_graph_world_limit(struct aw_graph_world *world, uint32_t service,
                                              enum aw_graph_resource resource, double limit);
/* `fresh`: replicas that run now are replaced by new ones as soon as those are ready. AW_ERR_RANGE:
 * 0 or beyond AW_GRAPH_SCALE_MAX; AW_ERR_LIMIT: no node has room. */
AW_NODISCARD enum aw_err aw_graph_world_scale(struct aw_graph_world *world, uint32_t service,
                                              uint32_t replicas, bool fresh);

/* What an injector does. A stress of zeros ends it. */
void aw_graph_world_stress(struct aw_graph_world *world, uint32_t service,
                           const struct aw_graph_stress *stress);
void aw_graph_world_load(struct aw_graph_world *world, double load);

#endif
