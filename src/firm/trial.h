/*
 * trial.h - a manager on a simulated graph under a campaign of anomalies, and what came of it.
 *
 * Requests are counted by when they arrived, in buckets of half a second. A violation begins with
 * the first bucket of an anomaly in which more than 5 % of the requests miss their SLO and ends
 * with the first of two in a row in which no more than that do: what lies between is the time to
 * mitigate. One that no manager could see (no bucket is bad) does not count.
 */
#ifndef AW_FIRM_TRIAL_H
#define AW_FIRM_TRIAL_H

#include "firm/manager.h"
#include "graph/campaign.h"

#define AW_FIRM_BUCKET_NS (AW_GRAPH_S_NS / 2)
#define AW_FIRM_BUCKETS   8192u
#define AW_FIRM_LATENCIES 4096u /* drawn for quantiles */

struct aw_firm_trial_config {
    uint64_t seed;
    enum aw_firm_kind kind;
    struct aw_firm_settings settings;
    double traced, span_loss, skew_us;
    int64_t warm_ns; /* before the campaign's time 0; nothing is counted */
};

struct aw_firm_mitigation {
    uint32_t anomaly; /* of the campaign */
    double seconds;
    bool mended; /* before the anomaly ended by itself */
};

struct aw_firm_outcome {
    uint32_t requests, missed, dropped;
    double cores; /* mean of the limits' sum */
    double cores_at_start;
    uint32_t orders;
    uint32_t mitigation_count;
    struct aw_firm_mitigation mitigation[AW_CAMPAIGN_MAX];
    double seconds_mean; /* over them; NAN: none */
    uint32_t latency_count;
    double latency_of_slo[AW_FIRM_LATENCIES]; /* a sample of requests, latency / SLO */
};

/* Called after every step; NULL: nobody looks. */
typedef void aw_firm_trial_look(void *ctx, const struct aw_firm_sight *sight,
                                const struct aw_firm_desk *desk, int64_t now_ns);

AW_NODISCARD enum aw_err
aw_firm_trial(const struct aw_graph_app *app, const struct aw_calibration *calibration,
              const struct aw_campaign *campaign, const struct aw_classifier *classifier,
              const struct aw_firm_trial_config *config, aw_firm_trial_look *look, void *ctx,
              const struct aw_alloc *alloc, struct aw_firm_outcome *ret);

/* One anomaly after another, each for `for_s` with `rest_s` before it: kinds in turn, targets and
 * intensities by the seed. */
void aw_firm_campaign_in_turn(const struct aw_graph_app *app,
                              const struct aw_calibration *calibration, uint64_t seed,
                              uint32_t count, double for_s, double rest_s, struct aw_campaign *ret);

#endif
