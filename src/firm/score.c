/* score.c - see score.h. */
#include "firm/score.h"

#include <math.h>

#include "base/stats.h"

void aw_firm_score_init(struct aw_firm_score *score, const struct aw_campaign *campaign)
{
    *score = (struct aw_firm_score){.campaign = campaign};
}

static void given(struct aw_firm_score *score, const struct aw_firm_order *order)
{
    for (uint32_t i = 0; i < score->campaign->count; i++) {
        const struct aw_anomaly *anomaly = &score->campaign->anomaly[i];
        struct aw_firm_found *found = &score->found[i];
        if (!found->seen || found->given || order->at_ns < found->seen_ns ||
            order->at_ns > anomaly->at_ns + anomaly->for_ns + AW_FIRM_SCORE_AFTER_NS)
            continue;
        found->given = true;
        found->given_ns = order->at_ns;
        found->service = order->service;
        found->resource = order->kind == AW_FIRM_LIMIT ? order->resource : AW_GRAPH_RESOURCES;
        found->right_service = order->service == anomaly->service;
        found->right_resource = found->resource == aw_anomaly_resource(anomaly->kind);
    }
}

static void look(struct aw_firm_found *found, const struct aw_anomaly *anomaly, bool missed,
                 int64_t now_ns)
{
    if (now_ns <= anomaly->at_ns || found->mended)
        return;
    if (!found->seen) {
        found->seen = missed && now_ns <= anomaly->at_ns + anomaly->for_ns;
        found->seen_ns = now_ns;
        return;
    }
    found->held_ns = found->held == 0 ? now_ns : found->held_ns;
    found->held = missed ? 0 : found->held + 1;
    if (found->held < 2 || found->mended_ns)
        return;
    found->mended_ns = found->held_ns;
    found->mended = found->held_ns <= anomaly->at_ns + anomaly->for_ns;
}

void aw_firm_score_step(struct aw_firm_score *score, const struct aw_firm_sight *sight,
                        const struct aw_firm_desk *desk, int64_t now_ns)
{
    for (uint32_t i = 0; i < score->campaign->count; i++)
        look(&score->found[i], &score->campaign->anomaly[i], sight->missed, now_ns);
    for (; score->orders < desk->order_count; score->orders++) {
        const struct aw_firm_order *order = &desk->order[score->orders % AW_FIRM_ORDERS_MAX];
        if (!order->undo && !aw_firm_order_shrinks(order))
            given(score, order);
    }
}

void aw_firm_score_tally(const struct aw_firm_score *score, enum aw_anomaly_kind kind,
                         struct aw_firm_tally *ret)
{
    double took[AW_CAMPAIGN_MAX], since[AW_CAMPAIGN_MAX];
    *ret = (struct aw_firm_tally){.median_s = NAN, .median_begin_s = NAN};
    for (uint32_t i = 0; i < score->campaign->count; i++) {
        const struct aw_anomaly *anomaly = &score->campaign->anomaly[i];
        const struct aw_firm_found *found = &score->found[i];
        if ((kind != AW_ANOMALY_KINDS && anomaly->kind != kind) || !found->seen)
            continue;
        const int64_t end_ns = found->mended ? found->mended_ns : anomaly->at_ns + anomaly->for_ns;
        took[ret->seen] = 1e-9 * (double)(end_ns - found->seen_ns);
        since[ret->seen++] = 1e-9 * (double)(end_ns - anomaly->at_ns);
        ret->given += found->given;
        ret->right_service += found->right_service;
        ret->right_resource += found->right_resource;
        ret->right_both += found->right_service && found->right_resource;
        ret->mended += found->mended;
    }
    if (!ret->seen)
        return;
    aw_stats_sort(took, ret->seen);
    aw_stats_sort(since, ret->seen);
    ret->median_s = aw_stats_quantile(took, ret->seen, 0.5);
    ret->median_begin_s = aw_stats_quantile(since, ret->seen, 0.5);
}
