/*
 * manager.h - who gives services what they lack: FIRM's rule and agent, and those they are compared
 * with, behind one contract.
 *
 * A manager sees a step (watch.h) and gives orders to the plant (graph/plant.h) through a desk of
 * its own, which keeps every order within a service's bounds, turns one that its node cannot fill
 * into one more replica, one below the lower bound into one less, leaves alone who may not be
 * touched, and writes everything down with its reason.
 *
 * Call order: new of one kind; step every AW_FIRM_STEP_NS of the world's time; free.
 * Memory:     at new.
 * Threads:    single owner.
 */
#ifndef AW_FIRM_MANAGER_H
#define AW_FIRM_MANAGER_H

#include <aware/agent.h>

#include "firm/watch.h"
#include "graph/plant.h"

#define AW_FIRM_STEP_NS    (AW_GRAPH_S_NS / 2)
#define AW_FIRM_REASON_MAX 240u
#define AW_FIRM_ORDERS_MAX 4096u /* kept of a run; older ones are overwritten */

enum aw_firm_order_kind {
    AW_FIRM_LIMIT,
    AW_FIRM_SCALE,   /* from and to are replicas */
    AW_FIRM_REPLACE, /* replicas by fresh ones */
};
struct aw_firm_order {
    int64_t at_ns;
    uint32_t service;
    enum aw_firm_order_kind kind;
    enum aw_graph_resource resource;
    double from, to;
    bool undo; /* of one that did not help, or is not needed any more */
    char reason[AW_FIRM_REASON_MAX];
};

/* Who has a word before an order is carried out, and hears what became of it. Zeroed: nobody. */
struct aw_firm_rails {
    /* AW_OK: it is written down, and may be done. Anything else: it is not done. `*ret_id` is
     * handed to `after`. */
    enum aw_err (*before)(void *ctx, const struct aw_firm_order *order, uint64_t *ret_id);
    void (*after)(void *ctx, const struct aw_firm_order *order, uint64_t id, enum aw_err err);
    void *ctx;
};

struct aw_firm_desk {
    const struct aw_graph_app *app;
    struct aw_graph_plant plant;
    struct aw_firm_order *order;                             /* [AW_FIRM_ORDERS_MAX], a ring */
    uint64_t order_count;                                    /* ever */
    double limit[AW_GRAPH_SERVICES_MAX][AW_GRAPH_RESOURCES]; /* as ordered */
    uint32_t replicas[AW_GRAPH_SERVICES_MAX];
    struct aw_firm_rails rails;
    bool doubt; /* figures of this step cannot be trusted: nothing shrinks */
    int64_t refused_ns[AW_GRAPH_SERVICES_MAX][AW_GRAPH_RESOURCES]; /* when its node was full */
    uint64_t in_doubt;  /* orders that were not given for that */
    uint64_t forbidden; /* .. because `rails.before` refused them */
    const struct aw_alloc *alloc;
};
AW_NODISCARD enum aw_err aw_firm_desk_init(struct aw_firm_desk *desk,
                                           const struct aw_graph_app *app,
                                           struct aw_graph_plant plant,
                                           const struct aw_alloc *alloc);
void aw_firm_desk_deinit(struct aw_firm_desk *desk); /* zeroed is a no-op */
/* Sets a limit as near to `limit` as may be. `grow`: where the node has not that much, another
 * replica. True: something was ordered. */
bool aw_firm_desk_limit(struct aw_firm_desk *desk, uint32_t service,
                        enum aw_graph_resource resource, double limit, bool grow, bool undo,
                        const char *reason);
bool aw_firm_desk_scale(struct aw_firm_desk *desk, uint32_t service, uint32_t replicas, bool fresh,
                        const char *reason);
/* As a person ordered it: bounds and the node hold, doubt does not, nor that a service is fixed.
 * `rails` are not asked: the order is in the log. AW_ERR_RANGE, AW_ERR_LIMIT as the world says. */
AW_NODISCARD enum aw_err aw_firm_desk_put_back(struct aw_firm_desk *desk,
                                               const struct aw_firm_order *order);
/* It takes something away. */
bool aw_firm_order_shrinks(const struct aw_firm_order *order);
/* "disk of geo-db from 160.0 MB/s to 480.0 MB/s". Returns `buf`. */
const char *aw_firm_order_text(const struct aw_firm_desk *desk, const struct aw_firm_order *order,
                               char *buf, size_t size);

enum aw_firm_kind {
    AW_FIRM_NONE,  /* nobody does anything */
    AW_FIRM_RULE,  /* culprit, resource, order: by rule */
    AW_FIRM_AGENT, /* the same, how much by what was learned */
    AW_FIRM_HPA,
    AW_FIRM_AIMD,
    AW_FIRM_CAPTAIN, /* Autothrottle's lower level: CPU alone */
    AW_FIRM_KINDS
};
extern const char *const aw_firm_kind_names[]; /* "none", "firm-rule", ... */

/* Of all of them; each reads its own. 0: the default. */
struct aw_firm_settings {
    double rule_factor;           /* of a limit that is used up (8) */
    double lent;                  /* times a first limit, of what nobody uses, but CPU (1) */
    double trim_use;              /* to which use limits are taken back while all is well (0.3) */
    uint32_t undo_steps;          /* what has not helped by then is undone (10) */
    double hpa_target;            /* use of CPU (0.5) */
    double aimd_add;              /* of the limits at the start, while the SLO is missed (0.2) */
    double aimd_cut;              /* of the limit, while it holds (0.01) */
    double captain_target;        /* share of throttled periods (0.05) */
    const struct aw_agent *agent; /* AW_FIRM_AGENT: whom to ask; borrowed */
    bool absolute;                /* the paper's actions: the limit itself, not its change */
};

struct aw_firm_manager;
AW_NODISCARD enum aw_err aw_firm_manager_new(enum aw_firm_kind kind,
                                             const struct aw_firm_settings *settings,
                                             const struct aw_graph_app *app,
                                             const struct aw_alloc *alloc,
                                             struct aw_firm_manager **ret);
void aw_firm_manager_free(struct aw_firm_manager *manager); /* NULL is a no-op */
/* AW_ERR_DIVERGED: the agent has left the finite numbers; nothing was ordered for it. */
AW_NODISCARD enum aw_err aw_firm_manager_step(struct aw_firm_manager *manager,
                                              struct aw_firm_desk *desk,
                                              const struct aw_firm_sight *sight);

/* What the agent sees and says (thesis, Table 3.2): SM, WC, RC, RU x 5; five limits. */
#define AW_FIRM_OBS         8u
#define AW_FIRM_ACT         ((uint32_t)AW_GRAPH_RESOURCES)
#define AW_FIRM_STEP_FACTOR 4.0 /* that an action may change a limit by, up and down */
void aw_firm_state(const struct aw_graph_reading *reading, double maintenance, double visits_before,
                   double worst_share, float *obs);
/* The limit that an action asks for. */
double aw_firm_action(const struct aw_graph_service *service, enum aw_graph_resource resource,
                      double limit, float action, bool absolute);
/* alpha SM |R| + (1 - alpha) sum of use, alpha = 1/2, SM at most 1. */
double aw_firm_reward(const struct aw_graph_reading *reading, double maintenance);

#endif
