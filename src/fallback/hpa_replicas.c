/* hpa_replicas.c - pods grouped, missing values filled in on the safe side, one ratio, one ceil. */
#include "fallback/hpa_replicas.h"

#include <math.h>
#include <string.h>

/* Sums of thousandths over all pods, as wide as it takes: 16384 * 2^63 * 100 fits 127 bits. */
typedef __int128 wide;

static int64_t clamp64(wide value)
{
    return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

int32_t aw__hpa_ceil(double x)
{
    double up = ceil(x);
    if (isnan(up))
        return 0;
    return up >= INT32_MAX ? INT32_MAX : up <= INT32_MIN ? INT32_MIN : (int32_t)up;
}

static bool within(const struct aw__hpa_tolerance *tolerance, double ratio)
{
    return 1.0 - tolerance->down <= ratio && ratio <= 1.0 + tolerance->up;
}

enum aw__hpa_group aw__hpa_group_of(const struct aw_hpa_controller *controller,
                                    const struct aw_hpa_pod *pod,
                                    const struct aw_hpa_sample *sample, bool is_cpu, int64_t now_us)
{
    if (pod->deleted || pod->phase == AW_HPA_FAILED)
        return AW__HPA_IGNORED;
    if (pod->phase == AW_HPA_PENDING)
        return AW__HPA_UNREADY;
    if (!sample->present)
        return AW__HPA_MISSING;
    if (!is_cpu)
        return AW__HPA_READY;
    if (pod->ready == AW_HPA_READY_ABSENT || !pod->started)
        return AW__HPA_UNREADY;

    bool is_false = pod->ready == AW_HPA_READY_FALSE;
    bool unready;
    if (now_us < pod->start_us + controller->cpu_initialization_us)
        /* the window of a sample must lie wholly after the pod became ready */
        unready = is_false || sample->timestamp_us < pod->ready_change_us + sample->window_us;
    else
        /* a pod that was ready once and is not now still counts: its load is real */
        unready =
            is_false && pod->ready_change_us < pod->start_us + controller->initial_readiness_us;
    return unready ? AW__HPA_UNREADY : AW__HPA_READY;
}

/* What all samples of a metric add up to, in one pass over the pods. Which pods get which value
 * depends on a ratio that is known only afterwards, so the groups are summed apart. */
struct sums {
    wide usage, request;  /* of ready pods */
    wide missing_request; /* of pods without a sample */
    wide missing_fill;    /* their requests, each times the fill, cut as upstream does */
    wide unready_request; /* of unready pods */
    uint32_t ready, unready, missing, ignored;
};

static enum aw_hpa_failure sum_up(const struct aw_hpa_controller *controller,
                                  const struct aw_hpa_metric *metric,
                                  const struct aw_hpa_reading *reading,
                                  const struct aw_hpa_snapshot *snapshot, struct sums *sums)
{
    bool is_resource = metric->type == AW_HPA_RESOURCE || metric->type == AW_HPA_CONTAINER_RESOURCE;
    bool is_cpu = is_resource && strcmp(metric->name, "cpu") == 0;
    bool by_request = metric->target_type == AW_HPA_UTILIZATION;
    int64_t fill_pct = metric->target > 100 ? metric->target : 100;
    bool lacks_request = false;

    *sums = (struct sums){0};
    if (snapshot->pod_count == 0)
        return AW_HPA_FAILURE_NO_PODS;
    for (uint32_t i = 0; i < snapshot->pod_count; i++) {
        const struct aw_hpa_sample *sample = &reading->samples[i];
        wide request = by_request && sample->has_request ? sample->request : 0;
        lacks_request |= by_request && !sample->has_request;
        switch (
            aw__hpa_group_of(controller, &snapshot->pods[i], sample, is_cpu, snapshot->now_us)) {
        case AW__HPA_READY:
            sums->ready++;
            sums->usage += sample->value;
            sums->request += request;
            break;
        case AW__HPA_UNREADY:
            sums->unready++;
            sums->unready_request += request;
            break;
        case AW__HPA_MISSING:
            sums->missing++;
            sums->missing_request += request;
            sums->missing_fill += by_request ? request * fill_pct / 100 : metric->target;
            break;
        case AW__HPA_IGNORED:
            sums->ignored++;
            break;
        }
    }
    if (sums->ready == 0 && reading->stray_count == 0)
        return AW_HPA_FAILURE_NO_SAMPLES;
    return lacks_request ? AW_HPA_FAILURE_NO_REQUEST : AW_HPA_FAILURE_NONE;
}

/* The quotient of a metric over `count` pods, as a whole percentage or a whole average. */
static int64_t level(bool by_request, wide usage, wide request, uint32_t count)
{
    if (by_request) {
        wide pct = usage * 100 / request;
        return pct > INT32_MAX ? INT32_MAX : pct < INT32_MIN ? INT32_MIN : (int64_t)pct;
    }
    return clamp64(usage / count);
}

/* Resource, ContainerResource and Pods. */
static struct aw_hpa_proposal propose_per_pod(const struct aw_hpa_controller *controller,
                                              const struct aw_hpa_metric *metric,
                                              const struct aw_hpa_reading *reading,
                                              const struct aw_hpa_snapshot *snapshot,
                                              const struct aw__hpa_tolerance *tolerance)
{
    struct aw_hpa_proposal proposal = {0};
    struct sums sums;
    bool by_request = metric->target_type == AW_HPA_UTILIZATION;
    int32_t current = snapshot->spec_replicas;

    proposal.failure = sum_up(controller, metric, reading, snapshot, &sums);
    if (proposal.failure)
        return proposal;

    /* Strays have no request, so they are no part of a utilisation; an average takes them in. */
    uint32_t sampled = sums.ready + reading->stray_count;
    wide usage = sums.usage + (by_request ? 0 : reading->stray_sum);
    if (by_request && sums.request <= 0)
        return (struct aw_hpa_proposal){.failure = AW_HPA_FAILURE_DISJOINT};
    int64_t now_level = level(by_request, usage, sums.request, sampled);
    double ratio = (double)now_level / (double)metric->target;

    proposal.ratio = ratio;
    proposal.utilization_pct = by_request ? (int32_t)now_level : 0;
    proposal.usage = by_request ? clamp64(usage / sums.ready) : now_level;
    proposal.ready_count = sums.ready;
    proposal.unready_count = sums.unready;
    proposal.missing_count = sums.missing;
    proposal.ignored_count = sums.ignored;
    proposal.replicas = current;

    bool up_with_unready = sums.unready > 0 && ratio > 1.0;
    if (!up_with_unready && sums.missing == 0) {
        if (!within(tolerance, ratio))
            proposal.replicas = aw__hpa_ceil(ratio * (double)sums.ready);
        return proposal;
    }

    /* Absent values are taken to argue against the change: full when shrinking, idle when growing.
     * At a ratio of exactly 1 nothing is filled in. */
    uint32_t filled = sampled;
    wide filled_usage = usage, filled_request = sums.request;
    if (sums.missing > 0 && (ratio < 1.0 || ratio > 1.0)) {
        filled += sums.missing;
        filled_request += sums.missing_request;
        filled_usage += ratio < 1.0 ? sums.missing_fill : 0;
    }
    if (up_with_unready) {
        filled += sums.unready;
        filled_request += sums.unready_request;
    }
    double again =
        (double)level(by_request, filled_usage, filled_request, filled) / (double)metric->target;
    if (within(tolerance, again) || (ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0))
        return proposal;
    int32_t replicas = aw__hpa_ceil(again * (double)filled);
    if ((again < 1.0 && replicas > current) || (again > 1.0 && replicas < current))
        return proposal;
    proposal.replicas = replicas;
    return proposal;
}

/* Object and External against one value: every ready pod carries its share. */
static struct aw_hpa_proposal propose_value(const struct aw_hpa_metric *metric,
                                            const struct aw_hpa_reading *reading,
                                            const struct aw_hpa_snapshot *snapshot,
                                            const struct aw__hpa_tolerance *tolerance)
{
    struct aw_hpa_proposal proposal = {
        .replicas = snapshot->spec_replicas,
        .usage = reading->value,
        .ratio = (double)reading->value / (double)metric->target,
    };
    if (snapshot->spec_replicas == 0) {
        proposal.replicas = aw__hpa_ceil(proposal.ratio);
        return proposal;
    }
    if (within(tolerance, proposal.ratio))
        return proposal;
    if (snapshot->pod_count == 0)
        return (struct aw_hpa_proposal){.failure = AW_HPA_FAILURE_NO_PODS};
    for (uint32_t i = 0; i < snapshot->pod_count; i++) {
        const struct aw_hpa_pod *pod = &snapshot->pods[i];
        proposal.ready_count += pod->phase == AW_HPA_RUNNING && pod->ready == AW_HPA_READY_TRUE;
    }
    proposal.replicas = aw__hpa_ceil(proposal.ratio * (double)proposal.ready_count);
    return proposal;
}

/* Object and External against an average: pods need not even be looked at. */
static struct aw_hpa_proposal propose_average(const struct aw_hpa_metric *metric,
                                              const struct aw_hpa_reading *reading,
                                              const struct aw_hpa_snapshot *snapshot,
                                              const struct aw__hpa_tolerance *tolerance)
{
    int32_t exist = snapshot->status_replicas;
    double total = (double)reading->value, target = (double)metric->target;
    struct aw_hpa_proposal proposal = {.replicas = exist, .usage = reading->value};

    proposal.ratio = total / (target * (double)exist); /* no pods: infinite or NaN, not within */
    if (!within(tolerance, proposal.ratio))
        proposal.replicas = aw__hpa_ceil(total / target);
    /* A sum that has reached the end of its range is no longer a number to divide. */
    if (exist > 0 && total < 0x1p63)
        proposal.usage = (int64_t)ceil(total / (double)exist);
    return proposal;
}

struct aw_hpa_proposal aw__hpa_propose(const struct aw_hpa_controller *controller,
                                       const struct aw_hpa_spec *spec, uint32_t index,
                                       const struct aw_hpa_snapshot *snapshot)
{
    const struct aw_hpa_metric *metric = &spec->metrics[index];
    const struct aw_hpa_reading *reading = &snapshot->readings[index];
    struct aw__hpa_tolerance tolerance = {controller->tolerance, controller->tolerance};

    if (reading->failed)
        return (struct aw_hpa_proposal){.failure = AW_HPA_FAILURE_UNREADABLE};
    if (spec->has_behavior && spec->down.tolerance >= 0)
        tolerance.down = spec->down.tolerance;
    if (spec->has_behavior && spec->up.tolerance >= 0)
        tolerance.up = spec->up.tolerance;
    switch (metric->type) {
    case AW_HPA_RESOURCE:
    case AW_HPA_CONTAINER_RESOURCE:
    case AW_HPA_PODS:
        return propose_per_pod(controller, metric, reading, snapshot, &tolerance);
    case AW_HPA_OBJECT:
    case AW_HPA_EXTERNAL:
        break;
    }
    return metric->target_type == AW_HPA_VALUE
               ? propose_value(metric, reading, snapshot, &tolerance)
               : propose_average(metric, reading, snapshot, &tolerance);
}
