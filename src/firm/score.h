/*
 * score.h - of a run under a campaign: which anomalies were seen, who was given what first, and
 * how long it took.
 *
 * An anomaly is seen with the first step that misses the SLO after it began; it is mended with the
 * first of two steps in a row that hold it. The first order that gives while it is seen says who
 * was found and what. One that no step missed the SLO by does not count: there was nothing to find.
 *
 * Call order: init; step after every step; ended anomalies can be read at any time.
 * Memory:     plain struct.
 * Threads:    single owner.
 */
#ifndef AW_FIRM_SCORE_H
#define AW_FIRM_SCORE_H

#include "firm/manager.h"
#include "graph/campaign.h"

#define AW_FIRM_SCORE_AFTER_NS (2 * AW_GRAPH_S_NS) /* behind its end, that orders still count */

struct aw_firm_found {
    bool seen;                          /* a step missed the SLO */
    bool given;                         /* something was ordered for it, .. */
    bool right_service, right_resource; /* .. the first of it to and of these */
    bool mended;                        /* before it ended by itself */
    uint32_t service;                   /* that was given something first */
    enum aw_graph_resource resource;    /* AW_GRAPH_RESOURCES: replicas */
    int64_t seen_ns, given_ns, mended_ns;
    uint32_t held; /* steps in a row, so far */
    int64_t held_ns;
};

struct aw_firm_score {
    const struct aw_campaign *campaign; /* borrowed */
    uint64_t orders;                    /* of the desk, that were looked at */
    struct aw_firm_found found[AW_CAMPAIGN_MAX];
};

void aw_firm_score_init(struct aw_firm_score *score, const struct aw_campaign *campaign);
void aw_firm_score_step(struct aw_firm_score *score, const struct aw_firm_sight *sight,
                        const struct aw_firm_desk *desk, int64_t now_ns);

struct aw_firm_tally { /* of anomalies of one kind, or of all */
    uint32_t seen, given, right_service, right_resource, right_both, mended;
    double median_s;       /* from seen to mended; NAN: none. One that was not mended counts with
                               all the time that it had */
    double median_begin_s; /* from its beginning */
};
/* `kind` AW_ANOMALY_KINDS: all. */
void aw_firm_score_tally(const struct aw_firm_score *score, enum aw_anomaly_kind kind,
                         struct aw_firm_tally *ret);

#endif
