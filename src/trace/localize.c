/* localize.c - see localize.h. The pursuit is in pursuit.c. */
#include "trace/localize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/localize_internal.h"

#define BASE_REQUESTS_MIN 2u    /* of a type, to compare with */
#define BASE_CALLS_MIN    3u    /* of an edge */
#define TYPE_REQUESTS_MIN 3u    /* of a type, for a variance */
#define CPU_Z_HALF        100.0 /* z that counts half */
#define EXCESS_MUCH       0.3   /* of all: below, where it lies says little */
#define CPU_RISE_MUCH     0.3
#define CPU_USE_MUCH      0.8

static int compare_service(const void *left, const void *right)
{
    const struct aw_culprit *a = left, *b = right;
    return (a->service > b->service) - (a->service < b->service);
}

static struct aw_culprit *find(const struct aw_localization *at, uint32_t service)
{
    const struct aw_culprit key = {.service = service};
    return bsearch(&key, at->culprits, at->count, sizeof *at->culprits, compare_service);
}

uint32_t aw__localize_find(const struct aw_localization *at, uint32_t service)
{
    const struct aw_culprit *found = find(at, service);
    AW_ASSERT(found);
    return (uint32_t)(found - at->culprits);
}

/* Every service that either period knows, once, in order of name. */
static enum aw_err list_services(struct aw_localization *at, const struct aw_window *window,
                                 const struct aw_span_profile *base,
                                 const struct aw_evidence *evidence, uint32_t evidence_count)
{
    const size_t most = 2 * (size_t)window->part_count + 2 * (size_t)(base ? base->part_count : 0);
    uint32_t count = 0;
    at->culprits = aw_alloc_new(at->alloc, most + 1, sizeof *at->culprits);
    if (!at->culprits)
        return AW_ERR_NOMEM;
    for (uint32_t i = 0; i < window->part_count; i++) {
        at->culprits[count++].service = window->parts[i].service;
        if (window->parts[i].caller)
            at->culprits[count++].service = window->parts[i].caller;
    }
    for (uint32_t i = 0; base && i < base->part_count; i++) {
        at->culprits[count++].service = base->parts[i].service;
        if (base->parts[i].caller)
            at->culprits[count++].service = base->parts[i].caller;
    }
    qsort(at->culprits, count, sizeof *at->culprits, compare_service);
    for (uint32_t i = 0; i < count; i++) {
        if (!at->count || at->culprits[at->count - 1].service != at->culprits[i].service)
            at->culprits[at->count++].service = at->culprits[i].service;
    }
    for (uint32_t i = 0; i < at->count; i++)
        at->culprits[i].evidence = (struct aw_evidence){.service = at->culprits[i].service,
                                                        .cpu_use = (double)NAN,
                                                        .cpu_rise = (double)NAN,
                                                        .cpu_z = (double)NAN,
                                                        .throttled = (double)NAN};
    for (uint32_t i = 0; i < evidence_count; i++) { /* who has no span slows no request */
        struct aw_culprit *culprit = find(at, evidence[i].service);
        if (culprit)
            culprit->evidence = evidence[i];
    }
    return at->count <= AW_LOCALIZE_SERVICES_MAX ? AW_OK : AW_ERR_LIMIT;
}

/* What a call of an unknown edge takes: the mean of all that are known. */
static void usual_gap(const struct aw_span_profile *base, double ret_ns[2])
{
    double calls = 0;
    ret_ns[0] = ret_ns[1] = 0;
    for (uint32_t i = 0; i < base->edge_count; i++) {
        calls += base->edges[i].calls;
        for (uint32_t side = 0; side < 2; side++)
            ret_ns[side] += base->edges[i].side_ns[side] * base->edges[i].calls;
    }
    for (uint32_t side = 0; side < 2; side++)
        ret_ns[side] = calls > 0 ? ret_ns[side] / calls : 0;
}

static enum aw_err make_edges(struct aw__edges *edges, const struct aw_localization *at,
                              const struct aw_span_profile *now, const struct aw_span_profile *base)
{
    double usual[2] = {0};
    *edges = (struct aw__edges){.count = now->edge_count};
    edges->at = aw_alloc_new(at->alloc, now->edge_count + 1, sizeof *edges->at);
    if (!edges->at)
        return AW_ERR_NOMEM;
    if (base)
        usual_gap(base, usual);
    for (uint32_t i = 0; i < now->edge_count; i++) {
        const struct aw_profile_edge *edge = &now->edges[i];
        const struct aw_profile_edge *before =
            base ? aw_profile_edge(base, edge->caller, edge->service) : NULL;
        struct aw__edge *made = &edges->at[i];
        *made = (struct aw__edge){.caller = aw__localize_find(at, edge->caller),
                                  .callee = aw__localize_find(at, edge->service),
                                  .calls = edge->calls};
        for (uint32_t side = 0; side < 2; side++) {
            double usually = before ? before->side_ns[side] : 0;
            if (!before || before->calls < BASE_CALLS_MIN)
                usually = usually > usual[side] ? usually : usual[side];
            const double excess = edge->side_ns[side] - usually;
            made->excess_ns[side] = excess > 0 && base ? excess : 0;
        }
    }
    return AW_OK;
}

/* The part of an edge's time that is its caller's; the rest is its callee's. */
static double callers_share(const struct aw__edges *edges, const struct aw_span_profile *now,
                            uint32_t caller, uint32_t service)
{
    const struct aw_profile_edge *edge = aw_profile_edge(now, caller, service);
    return edge ? edges->at[edge - now->edges].callers_share : 0;
}

/* How a part of a type differs from the baseline, in a request. */
struct difference {
    uint32_t type; /* place among the window's types */
    uint32_t caller, service;
    double ns;
};

struct differences {
    struct difference *at;
    uint32_t count;
    double *shift_ns; /* of each of the window's types: the sum of its parts' */
};

/* The window's requests of a type that both periods know; 0: one of them does not. */
static uint32_t matched(const struct aw_span_profile *now, const struct aw_span_profile *base,
                        uint32_t type)
{
    const struct aw_profile_type *here = aw_profile_type(now, type);
    const struct aw_profile_type *before = aw_profile_type(base, type);
    return here && before && before->requests >= BASE_REQUESTS_MIN ? here->requests : 0;
}

static void note_difference(struct differences *differences, const struct aw_span_profile *now,
                            const struct aw_profile_part *part, double ns)
{
    const uint32_t type = (uint32_t)(aw_profile_type(now, part->type) - now->types);
    differences->at[differences->count++] = (struct difference){
        .type = type, .caller = part->caller, .service = part->service, .ns = ns};
    differences->shift_ns[type] += ns;
}

static enum aw_err compare_periods(struct differences *differences, struct aw_localization *at,
                                   const struct aw_span_profile *now,
                                   const struct aw_span_profile *base)
{
    const size_t most = (size_t)now->part_count + (base ? base->part_count : 0);
    differences->at = aw_alloc_new(at->alloc, most + 1, sizeof *differences->at);
    differences->shift_ns =
        aw_alloc_new(at->alloc, now->type_count + 1, sizeof *differences->shift_ns);
    if (!differences->at || !differences->shift_ns)
        return AW_ERR_NOMEM;
    for (uint32_t i = 0; base && i < now->type_count; i++) {
        const struct aw_profile_type *type = &now->types[i];
        const uint32_t requests = matched(now, base, type->type);
        if (!requests)
            continue;
        at->requests_matched += requests;
        at->latency_ns += type->latency_ns * requests;
        at->latency_base_ns += aw_profile_type(base, type->type)->latency_ns * requests;
    }
    for (uint32_t i = 0; base && i < now->part_count; i++) {
        const struct aw_profile_part *part = &now->parts[i];
        if (matched(now, base, part->type))
            note_difference(differences, now, part,
                            part->ns -
                                aw_profile_part_ns(base, part->type, part->caller, part->service));
    }
    for (uint32_t i = 0; base && i < base->part_count; i++) { /* what is not there any more */
        const struct aw_profile_part *part = &base->parts[i];
        if (matched(now, base, part->type) &&
            !aw_profile_has_part(now, part->type, part->caller, part->service))
            note_difference(differences, now, part, -part->ns);
    }
    return AW_OK;
}

static void add_excess(struct aw_localization *at, const struct aw__edges *edges,
                       const struct aw_span_profile *now, const struct differences *differences)
{
    for (uint32_t i = 0; i < differences->count; i++) {
        const struct difference *one = &differences->at[i];
        const double ns = one->ns * now->types[one->type].requests;
        struct aw_culprit *service = &at->culprits[aw__localize_find(at, one->service)];
        if (!one->caller) {
            service->own_ns += ns;
            continue;
        }
        const double share = callers_share(edges, now, one->caller, one->service);
        service->called_ns += ns * (1 - share);
        at->culprits[aw__localize_find(at, one->caller)].calling_ns += ns * share;
    }
}

/* A part's covariance with the latency goes to the service, or to both ends of an edge. */
static void add_product(struct aw_localization *at, const struct aw__edges *edges,
                        const struct aw_span_profile *now, uint32_t caller, uint32_t service,
                        double value)
{
    const double share = caller ? callers_share(edges, now, caller, service) : 0;
    at->culprits[aw__localize_find(at, service)].feature[AW_FEATURE_COVARIANCE] +=
        value * (1 - share);
    if (share > 0)
        at->culprits[aw__localize_find(at, caller)].feature[AW_FEATURE_COVARIANCE] += value * share;
}

/* Shares of the latency's covariance, types apart: Cov(T_i, T) / Var(T), which sums to 1. That
 * within the window, and that between the periods, as if both had as many requests: a fault that
 * slows every request alike has no variance within. */
static void add_covariance(struct aw_localization *at, const struct aw__edges *edges,
                           const struct aw_window *window, const struct aw_span_profile *now,
                           const struct differences *differences)
{
    double variance = 0;
    for (uint32_t i = 0; i < window->request_count; i++) {
        const struct aw_window_request *request = &window->requests[i];
        const struct aw_profile_type *type = aw_profile_type(now, request->type);
        if (type->requests < TYPE_REQUESTS_MIN)
            continue;
        const double off = (double)request->latency_ns - edges->mean_ns[type - now->types];
        variance += off * off;
        for (uint32_t k = 0; k < request->share_count; k++) {
            const struct aw_share *share = &window->shares[request->share_first + k];
            const struct aw_part *part = &window->parts[share->part];
            add_product(at, edges, now, part->caller, part->service, (double)share->ns * off);
        }
    }
    for (uint32_t i = 0; i < differences->count; i++) {
        const struct difference *one = &differences->at[i];
        const double product =
            0.5 * now->types[one->type].requests * one->ns * differences->shift_ns[one->type];
        variance += product;
        add_product(at, edges, now, one->caller, one->service, product);
    }
    for (uint32_t i = 0; i < at->count && variance > 0; i++)
        at->culprits[i].feature[AW_FEATURE_COVARIANCE] /= variance;
}

static enum aw_lacks lacks_of(const struct aw_culprit *culprit)
{
    const struct aw_evidence *evidence = &culprit->evidence;
    if (evidence->cpu_rise > CPU_RISE_MUCH || evidence->cpu_use > CPU_USE_MUCH ||
        evidence->throttled > CPU_RISE_MUCH)
        return AW_LACKS_CPU;
    if (culprit->feature[AW_FEATURE_EXCESS] < EXCESS_MUCH)
        return AW_LACKS_UNKNOWN;
    if (culprit->called_ns > culprit->own_ns + culprit->calling_ns && culprit->called_ns > 0)
        return AW_LACKS_NETWORK;
    if (culprit->calling_ns > culprit->own_ns && culprit->calling_ns > 0)
        return AW_LACKS_CPU; /* it is late to see answers that are there */
    return AW_LACKS_UNKNOWN;
}

static void finish(struct aw_localization *at)
{
    double positive = 0;
    for (uint32_t i = 0; i < at->count; i++) {
        struct aw_culprit *culprit = &at->culprits[i];
        culprit->excess_ns = culprit->own_ns + culprit->called_ns + culprit->calling_ns;
        positive += culprit->excess_ns > 0 ? culprit->excess_ns : 0;
    }
    for (uint32_t i = 0; i < at->count; i++) {
        struct aw_culprit *culprit = &at->culprits[i];
        const double excess = culprit->excess_ns > 0 ? culprit->excess_ns : 0;
        const double z = culprit->evidence.cpu_z, rise = culprit->evidence.cpu_rise;
        const double share = culprit->feature[AW_FEATURE_COVARIANCE];
        culprit->feature[AW_FEATURE_EXCESS] = positive > 0 ? excess / positive : 0;
        culprit->feature[AW_FEATURE_COVARIANCE] = share > 1 ? 1 : share < 0 ? 0 : share;
        culprit->feature[AW_FEATURE_GROWTH] =
            at->latency_base_ns > 0 ? log1p(excess / at->latency_base_ns) : 0;
        culprit->feature[AW_FEATURE_CPU_RISE] = rise > 0 ? (rise < 1 ? rise : 1) : 0;
        culprit->feature[AW_FEATURE_CPU_Z] = z > 0 ? z / (z + CPU_Z_HALF) : 0;
        culprit->lacks = lacks_of(culprit);
        if (at->requests_matched) {
            culprit->excess_ns /= at->requests_matched;
            culprit->own_ns /= at->requests_matched;
            culprit->called_ns /= at->requests_matched;
            culprit->calling_ns /= at->requests_matched;
        }
    }
    if (at->requests_matched) {
        at->latency_ns /= at->requests_matched;
        at->latency_base_ns /= at->requests_matched;
    }
}

/* Means of types; the typical latency is no mean, and a covariance needs one. */
static enum aw_err make_means(struct aw__edges *edges, const struct aw_window *window,
                              const struct aw_span_profile *now, const struct aw_alloc *alloc)
{
    edges->mean_ns = aw_alloc_new(alloc, now->type_count + 1, sizeof *edges->mean_ns);
    if (!edges->mean_ns)
        return AW_ERR_NOMEM;
    for (uint32_t i = 0; i < window->request_count; i++) {
        const struct aw_profile_type *type = aw_profile_type(now, window->requests[i].type);
        edges->mean_ns[type - now->types] +=
            (double)window->requests[i].latency_ns / type->requests;
    }
    return AW_OK;
}

enum aw_err aw_localize(struct aw_localization *ret, const struct aw_window *window,
                        const struct aw_span_profile *base, const struct aw_evidence *evidence,
                        uint32_t evidence_count, const struct aw_alloc *alloc)
{
    struct aw_span_profile now = {0};
    struct aw__edges edges = {0};
    struct differences differences = {0};
    *ret = (struct aw_localization){.alloc = alloc, .requests = window->request_count};
    enum aw_err err = window->request_count ? AW_OK : AW_ERR_NODATA;
    if (!err)
        err = aw_profile_make(&now, window, 0, 1, alloc);
    if (!err)
        err = list_services(ret, window, base, evidence, evidence_count);
    if (!err)
        err = make_edges(&edges, ret, &now, base);
    if (!err)
        err = make_means(&edges, window, &now, alloc);
    if (!err)
        err = aw__pursue(&edges, ret->count, alloc);
    if (!err)
        err = compare_periods(&differences, ret, &now, base);
    if (!err) {
        add_excess(ret, &edges, &now, &differences);
        add_covariance(ret, &edges, window, &now, &differences);
        finish(ret);
    }
    aw_alloc_free(alloc, differences.at);
    aw_alloc_free(alloc, differences.shift_ns);
    aw_alloc_free(alloc, edges.at);
    aw_alloc_free(alloc, edges.mean_ns);
    aw_profile_deinit(&now);
    if (err)
        aw_localization_deinit(ret);
    return err;
}

void aw_localization_deinit(struct aw_localization *localization)
{
    aw_alloc_free(localization->alloc, localization->culprits);
    *localization = (struct aw_localization){0};
}

const char *aw_lacks_name(enum aw_lacks lacks)
{
    return lacks == AW_LACKS_CPU ? "cpu" : lacks == AW_LACKS_NETWORK ? "network" : "";
}

const char *aw_culprit_text(const struct aw_culprit *culprit, char *buf, size_t size)
{
    struct aw_text text;
    const struct aw_evidence *evidence = &culprit->evidence;
    aw_text_init(&text, buf, size);
    if (culprit->excess_ns == 0) /* no baseline */
        aw_text_add(&text, "%.0f %% of the latency's variance",
                    100 * culprit->feature[AW_FEATURE_COVARIANCE]);
    else
        aw_text_add(&text, "%+.1f ms exclusive (%.0f %% of the excess, %.0f %% of the variance)",
                    culprit->excess_ns / 1e6, 100 * culprit->feature[AW_FEATURE_EXCESS],
                    100 * culprit->feature[AW_FEATURE_COVARIANCE]);
    const bool much = culprit->excess_ns > 0;
    if (much && culprit->called_ns > fmax(culprit->own_ns, culprit->calling_ns))
        aw_text_add(&text, ", in calls to it outside of its spans");
    else if (much && culprit->calling_ns > culprit->own_ns)
        aw_text_add(&text, ", in its calls outside of their servers");
    if (evidence->cpu_use > 0)
        aw_text_add(&text, ", CPU at %.0f %% of its limit", 100 * evidence->cpu_use);
    if (evidence->throttled > 0)
        aw_text_add(&text, ", throttled %.0f %% of periods", 100 * evidence->throttled);
    if (culprit->lacks == AW_LACKS_CPU)
        aw_text_add(&text, ": needs CPU");
    else if (culprit->lacks == AW_LACKS_NETWORK)
        aw_text_add(&text, ": look at its network");
    return buf;
}
