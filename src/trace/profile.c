/* profile.c - see profile.h. */
#include "trace/profile.h"

#include <stdlib.h>

struct value { /* of a part, or of a type's latency */
    uint32_t type, caller, service;
    double ns;
};

static int compare_names(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_value(const void *left, const void *right)
{
    const struct value *a = left, *b = right;
    int order = compare_names(a->type, b->type);
    order = order ? order : compare_names(a->caller, b->caller);
    order = order ? order : compare_names(a->service, b->service);
    return order ? order : (a->ns > b->ns) - (a->ns < b->ns);
}

static bool same_group(const struct value *a, const struct value *b)
{
    return a->type == b->type && a->caller == b->caller && a->service == b->service;
}

/* A value at a place of the whole row, zeros first. */
static double ranked(const double *sorted, size_t zeros, size_t place)
{
    return place < zeros ? 0 : sorted[place - zeros];
}

double aw_typical(const double *sorted, size_t count, size_t zeros)
{
    const size_t all = count + zeros;
    double sum = 0;
    if (!count)
        return 0;
    const double at = AW_TYPICAL_QUANTILE * (double)(all - 1);
    const size_t low = (size_t)at, high = low + 1 < all ? low + 1 : low;
    const double below = ranked(sorted, zeros, low), above = ranked(sorted, zeros, high);
    const double cap = below + (above - below) * (at - (double)low);
    for (size_t i = 0; i < count; i++)
        sum += sorted[i] < cap ? sorted[i] : cap;
    return sum / (double)all;
}

/* The typical value of a group of `values`, of `all` requests. */
static double typical_of(const struct value *values, uint32_t count, uint32_t all, double *scratch)
{
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = values[i].ns;
    return aw_typical(scratch, count, all > count ? all - count : 0);
}

static uint32_t group_end(const struct value *values, uint32_t count, uint32_t from)
{
    uint32_t until = from + 1;
    while (until < count && same_group(&values[until], &values[from]))
        until++;
    return until;
}

static void fill_types(struct aw_span_profile *profile, struct value *values, uint32_t count,
                       double *scratch)
{
    qsort(values, count, sizeof *values, compare_value);
    for (uint32_t from = 0, until; from < count; from = until) {
        until = group_end(values, count, from);
        profile->types[profile->type_count++] = (struct aw_profile_type){
            .type = values[from].type,
            .requests = until - from,
            .latency_ns = typical_of(values + from, until - from, until - from, scratch),
        };
    }
}

static void fill_parts(struct aw_span_profile *profile, struct value *values, uint32_t count,
                       double *scratch)
{
    qsort(values, count, sizeof *values, compare_value);
    for (uint32_t from = 0, until; from < count; from = until) {
        until = group_end(values, count, from);
        const struct aw_profile_type *type = aw_profile_type(profile, values[from].type);
        profile->parts[profile->part_count++] = (struct aw_profile_part){
            .type = values[from].type,
            .caller = values[from].caller,
            .service = values[from].service,
            .ns = typical_of(values + from, until - from, type->requests, scratch),
        };
    }
}

static void fill_edges(struct aw_span_profile *profile, const struct aw_window *window,
                       struct value *values, double *scratch)
{
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t edge = 0;
        for (uint32_t i = 0; i < window->call_count; i++) {
            const struct aw_call_gap *call = &window->calls[i];
            const struct aw_part *part = &window->parts[call->part];
            values[i] = (struct value){.caller = part->caller,
                                       .service = part->service,
                                       .ns = (double)(side ? call->after_ns : call->before_ns)};
        }
        qsort(values, window->call_count, sizeof *values, compare_value);
        for (uint32_t from = 0, until; from < window->call_count; from = until, edge++) {
            until = group_end(values, window->call_count, from);
            struct aw_profile_edge *at = &profile->edges[edge];
            at->caller = values[from].caller;
            at->service = values[from].service;
            at->calls = until - from;
            at->side_ns[side] = typical_of(values + from, until - from, until - from, scratch);
        }
        profile->edge_count = edge;
    }
}

enum aw_err aw_profile_make(struct aw_span_profile *profile, const struct aw_window *window,
                            uint32_t first, uint32_t step, const struct aw_alloc *alloc)
{
    *profile = (struct aw_span_profile){.alloc = alloc};
    const size_t shares = window->share_count, calls = window->call_count;
    size_t most = shares > calls ? shares : calls;
    most = most > window->request_count ? most : window->request_count;
    struct value *values = aw_alloc_new(alloc, most + 1, sizeof *values);
    double *scratch = aw_alloc_new(alloc, most + 1, sizeof *scratch);
    profile->types = aw_alloc_new(alloc, window->request_count + 1, sizeof *profile->types);
    profile->parts = aw_alloc_new(alloc, shares + 1, sizeof *profile->parts);
    profile->edges = aw_alloc_new(alloc, window->part_count + 1, sizeof *profile->edges);
    enum aw_err err = AW_OK;
    if (!values || !scratch || !profile->types || !profile->parts || !profile->edges) {
        err = AW_ERR_NOMEM;
        goto out;
    }
    uint32_t count = 0;
    for (uint32_t i = first; i < window->request_count; i += step)
        values[count++] = (struct value){.type = window->requests[i].type,
                                         .ns = (double)window->requests[i].latency_ns};
    fill_types(profile, values, count, scratch);
    count = 0;
    for (uint32_t i = first; i < window->request_count; i += step) {
        const struct aw_window_request *request = &window->requests[i];
        for (uint32_t k = 0; k < request->share_count; k++) {
            const struct aw_share *share = &window->shares[request->share_first + k];
            const struct aw_part *part = &window->parts[share->part];
            values[count++] = (struct value){.type = request->type,
                                             .caller = part->caller,
                                             .service = part->service,
                                             .ns = (double)share->ns};
        }
    }
    fill_parts(profile, values, count, scratch);
    fill_edges(profile, window, values, scratch);
out:
    aw_alloc_free(alloc, values);
    aw_alloc_free(alloc, scratch);
    if (err)
        aw_profile_deinit(profile);
    return err;
}

void aw_profile_deinit(struct aw_span_profile *profile)
{
    aw_alloc_free(profile->alloc, profile->types);
    aw_alloc_free(profile->alloc, profile->parts);
    aw_alloc_free(profile->alloc, profile->edges);
    *profile = (struct aw_span_profile){0};
}

static int by_type(const void *key, const void *item)
{
    return compare_names(*(const uint32_t *)key, ((const struct aw_profile_type *)item)->type);
}

const struct aw_profile_type *aw_profile_type(const struct aw_span_profile *profile, uint32_t type)
{
    return bsearch(&type, profile->types, profile->type_count, sizeof *profile->types, by_type);
}

static int by_edge(const void *key, const void *item)
{
    const struct aw_profile_edge *a = key, *b = item;
    const int order = compare_names(a->caller, b->caller);
    return order ? order : compare_names(a->service, b->service);
}

const struct aw_profile_edge *aw_profile_edge(const struct aw_span_profile *profile,
                                              uint32_t caller, uint32_t service)
{
    const struct aw_profile_edge key = {.caller = caller, .service = service};
    return bsearch(&key, profile->edges, profile->edge_count, sizeof *profile->edges, by_edge);
}

static int by_part(const void *key, const void *item)
{
    const struct aw_profile_part *a = key, *b = item;
    int order = compare_names(a->type, b->type);
    order = order ? order : compare_names(a->caller, b->caller);
    return order ? order : compare_names(a->service, b->service);
}

static const struct aw_profile_part *part_of(const struct aw_span_profile *profile, uint32_t type,
                                             uint32_t caller, uint32_t service)
{
    const struct aw_profile_part key = {.type = type, .caller = caller, .service = service};
    return bsearch(&key, profile->parts, profile->part_count, sizeof *profile->parts, by_part);
}

double aw_profile_part_ns(const struct aw_span_profile *profile, uint32_t type, uint32_t caller,
                          uint32_t service)
{
    const struct aw_profile_part *part = part_of(profile, type, caller, service);
    return part ? part->ns : 0;
}

bool aw_profile_has_part(const struct aw_span_profile *profile, uint32_t type, uint32_t caller,
                         uint32_t service)
{
    return part_of(profile, type, caller, service) != NULL;
}
