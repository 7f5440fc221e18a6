/* world_internal.h - the insides of a world, which its files share. */
#ifndef AW_GRAPH_WORLD_INTERNAL_H
#define AW_GRAPH_WORLD_INTERNAL_H

#include "base/rng.h"
#include "graph/world.h"

#define AW__GRAPH_CORES     8u                 /* that one replica works on at once */
#define AW__GRAPH_PERIOD_NS INT64_C(100000000) /* of CFS, and of what follows from use */
#define AW__GRAPH_PENDING   512u               /* changes of limits that are under way */

enum aw__graph_event {
    AW__GRAPH_REQUEST, /* the next one arrives */
    AW__GRAPH_ARRIVE,  /* a call reaches its server */
    AW__GRAPH_STEP,    /* a visit's first work is done: its program begins */
    AW__GRAPH_RETURN,  /* an answer reaches its caller */
    AW__GRAPH_EPOCH,
    AW__GRAPH_EXTRA,
    AW__GRAPH_CHANGE,
};

struct aw__graph_item {
    int64_t at_ns;
    uint32_t event, index;
};

struct aw__graph_frame {
    uint32_t parent, request, visit; /* visit: the frame whose service calls; itself for one */
    uint32_t step, op, replica, next_free;
    uint16_t pending, repeat;
    bool is_visit, entered, single, failed, background;
    int64_t sent_ns, begin_ns, end_ns;
    uint64_t id; /* of its server span; the client's is the next number */
};

struct aw__graph_request {
    uint32_t type, live, first_span, next_free;
    bool traced, failed, done;
    int64_t arrival_ns;
    uint64_t trace;
};

struct aw__graph_backlog { /* of a disk or a network */
    double bytes;          /* that wait at .. */
    int64_t at_ns;         /* .. this time */
    double rate, alone; /* bytes/ns: that its own work gets, and what the limit alone would give */
};

struct aw__graph_replica {
    uint32_t service, node;
    uint32_t instance; /* name */
    bool live, stressed;
    bool ran_dry;      /* of quota, in this epoch */
    int64_t ready_ns;  /* takes calls from then on */
    int64_t retire_ns; /* takes none from then on; INT64_MAX */
    int64_t core_free_ns[AW__GRAPH_CORES];
    int64_t period; /* number of the CFS period that quota was last taken from */
    double period_used_ns, quota_ns;
    struct aw__graph_backlog disk, net;
    double slow, slow_by[AW_GRAPH_RESOURCES];
    double offered[AW_GRAPH_RESOURCES]; /* in this epoch: core-ns, bytes */
    double demand[AW_GRAPH_RESOURCES];  /* smoothed, a second */
    /* since the last reading */
    double used[AW_GRAPH_RESOURCES], waited_ns[AW_GRAPH_RESOURCES];
    double worked_ns, delay_ns;
    uint32_t visits, epochs, throttled;
};

struct aw__graph_state { /* of a service */
    double limit[AW_GRAPH_RESOURCES];
    uint32_t replica[2 * AW_GRAPH_SCALE_MAX]; /* old ones too while new ones start */
    uint32_t replica_count, turn;
    struct aw_graph_stress stress;
};

struct aw__graph_span {
    struct aw_span span;
    uint32_t next;
};

struct aw__graph_change {
    uint32_t service, resource;
    double limit;
};

struct aw_graph_world {
    const struct aw_graph_app *app;
    struct aw_graph_config config;
    struct aw_rng rng;
    int64_t now_ns, read_ns;
    uint64_t serial, visits, requests, replica_serial;
    struct aw__graph_item *heap;
    uint32_t heap_count;
    struct aw__graph_frame *frames;
    uint32_t frame_free;
    struct aw__graph_request *requests_pool;
    uint32_t request_free;
    struct aw__graph_span *spans_pool;
    uint32_t span_free;
    struct aw_graph_done *done;
    uint32_t done_count;
    bool done_taken;
    struct aw__graph_replica replicas[AW_GRAPH_REPLICAS_MAX];
    struct aw__graph_state state[AW_GRAPH_SERVICES_MAX];
    struct aw__graph_change change[AW__GRAPH_PENDING];
    uint32_t change_count;                                 /* ring: number of the next one */
    bool image[AW_GRAPH_SERVICES_MAX][AW_GRAPH_NODES_MAX]; /* has run there before */
    uint32_t service_name[AW_GRAPH_SERVICES_MAX], op_name[AW_GRAPH_OPS_MAX];
    double skew_ns[AW_GRAPH_NODES_MAX];
    double type_until[AW_GRAPH_TYPES_MAX]; /* sums of shares */
    struct aw_spans spans;
    const struct aw_alloc *alloc;
};

void aw__graph_push(struct aw_graph_world *world, int64_t at_ns, enum aw__graph_event event,
                    uint32_t index);

/* pools.c: groups, their limits, and who is short of what. */
AW_NODISCARD enum aw_err aw__graph_replica_start(struct aw_graph_world *world, uint32_t service,
                                                 bool at_once);
uint32_t aw__graph_pick(struct aw_graph_world *world, uint32_t service); /* a replica for a call */
void aw__graph_epoch(struct aw_graph_world *world);
void aw__graph_refresh(struct aw_graph_world *world, struct aw__graph_replica *replica);
void aw__graph_change_apply(struct aw_graph_world *world, uint32_t index);
void aw__graph_extra(struct aw_graph_world *world, uint32_t service);
/* When work that is ready at `at_ns` is done. */
int64_t aw__graph_work(struct aw__graph_replica *replica, int64_t at_ns, double work_ns);
int64_t aw__graph_queue(struct aw__graph_replica *replica, enum aw_graph_resource resource,
                        int64_t at_ns, double bytes);

#endif
