/* manager_internal.h - what the kinds of managers share. */
#ifndef AW_FIRM_MANAGER_INTERNAL_H
#define AW_FIRM_MANAGER_INTERNAL_H

#include "firm/manager.h"

#define AW__FIRM_HPA_HISTORY 20u /* syncs of 15 s: the window of 300 s before scaling in */

struct aw__firm_care { /* of a service */
    int64_t given_ns;  /* when it was last given something; 0: never */
    int64_t replaced_ns;
    int64_t banned_ns; /* until then it is left alone: giving did not help */
    uint32_t bans;     /* in a row */
    uint32_t missed;   /* steps since, in which the SLO was missed */
    bool given[AW_GRAPH_RESOURCES];
    double before[AW_GRAPH_RESOURCES]; /* limits then */
    double peak[AW_GRAPH_RESOURCES];   /* of use, fading */
    double visits_before;
    int64_t full_ns[AW_GRAPH_RESOURCES]; /* until then nothing is lent to it */
    /* hpa */
    uint32_t wanted[AW__FIRM_HPA_HISTORY];
    uint32_t wanted_at;
    double use_sum;
    /* captain */
    double margin, use[5], limit_before;
    uint32_t use_at;
    bool shrunk;
};

struct aw_firm_manager {
    enum aw_firm_kind kind;
    struct aw_firm_settings settings;
    const struct aw_graph_app *app;
    uint32_t steps, missed_steps;
    struct aw__firm_care care[AW_GRAPH_SERVICES_MAX];
    const struct aw_alloc *alloc;
};

static inline int64_t aw__firm_now(const struct aw_firm_desk *desk)
{
    return desk->plant.ops->now(desk->plant.self);
}

void aw__firm_hpa(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                  const struct aw_firm_sight *sight);
void aw__firm_aimd(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                   const struct aw_firm_sight *sight);
void aw__firm_captain(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                      const struct aw_firm_sight *sight);

#endif
