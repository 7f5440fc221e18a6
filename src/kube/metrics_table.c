/* metrics_table.c - what is known of pods, by their names, and what is read of it. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/promtext.h"
#include "kube/metrics_internal.h"

#define ROUND_MAX 0x7fffffffu /* a thousand years of rounds */

/* Where the count of one bucket of an entry is. Bounds lie one behind the other, so that no memory
 * is touched for those that no pod has. */
static float *bucket_of(const struct aw_kube_metrics *metrics, uint32_t entry, uint32_t bound)
{
    return metrics->bucket + (size_t)bound * metrics->entry_max + entry;
}

static uint64_t hash_key(const char *ns, const char *between, const char *name)
{
    return aw_hash_text(aw_hash_text(aw_hash_text(AW_HASH_BEGIN, ns), between), name);
}

static bool has_key(const struct aw_kube_metrics *metrics, const struct aw__metric_entry *entry,
                    const char *ns, const char *between, const char *name)
{
    const char *key = metrics->names + entry->key_at;
    const size_t ns_len = strlen(ns), between_len = strlen(between);
    return strlen(name) + between_len + ns_len == entry->key_len && !memcmp(key, ns, ns_len) &&
           !memcmp(key + ns_len, between, between_len) && !strcmp(key + ns_len + between_len, name);
}

static void put_place(struct aw_kube_metrics *metrics, uint64_t hash, uint32_t entry)
{
    struct aw__metric_place *place = aw_hash_table_add(&metrics->by_key, hash);
    place->entry = entry; /* there is room for all from the beginning */
}

/* As aw__metrics_add, without adding. */
static uint32_t entry_find(const struct aw_kube_metrics *metrics, const char *ns,
                           const char *between, const char *name)
{
    const struct aw__metric_place *place =
        aw_hash_table_find(&metrics->by_key, hash_key(ns, between, name));
    while (place && !has_key(metrics, &metrics->entry[place->entry], ns, between, name))
        place = aw_hash_table_next(&metrics->by_key, place);
    return place ? (uint32_t)place->entry : AW__NONE;
}

uint32_t aw__metrics_add(struct aw_kube_metrics *metrics, const char *ns, const char *between,
                         const char *name, int64_t now_us)
{
    uint32_t found = entry_find(metrics, ns, between, name);
    if (found == AW__NONE) {
        struct aw_text text;
        const size_t len = strlen(ns) + strlen(between) + strlen(name);
        if (metrics->entry_count == metrics->entry_max ||
            metrics->names_size - metrics->names_len <= len) {
            metrics->state.left_out++;
            return AW__NONE;
        }
        found = metrics->entry_count++;
        metrics->entry[found] = (struct aw__metric_entry){.key_at = (uint32_t)metrics->names_len,
                                                          .key_len = (uint32_t)len,
                                                          .hash = hash_key(ns, between, name)};
        aw_text_init(&text, metrics->names + metrics->names_len, len + 1);
        aw_text_add(&text, "%s%s%s", ns, between, name);
        metrics->names_len += len + 1;
        put_place(metrics, metrics->entry[found].hash, found);
    }
    metrics->entry[found].seen_us = now_us;
    return found;
}

void aw__metrics_forget(struct aw_kube_metrics *metrics, int64_t now_us)
{
    uint32_t kept = 0;
    size_t len = 0;
    aw_hash_table_clear(&metrics->by_key);
    for (uint32_t i = 0; i < metrics->entry_count; i++) {
        struct aw__metric_entry entry = metrics->entry[i];
        if (now_us - entry.seen_us > metrics->config.age_max_us)
            continue;
        memmove(metrics->names + len, metrics->names + entry.key_at, entry.key_len + 1);
        for (uint32_t b = 0; b < metrics->bound_count; b++)
            *bucket_of(metrics, kept, b) = *bucket_of(metrics, i, b);
        entry.key_at = (uint32_t)len;
        len += entry.key_len + 1;
        put_place(metrics, entry.hash, kept);
        metrics->entry[kept++] = entry;
    }
    metrics->entry_count = kept;
    metrics->names_len = len;
    if (metrics->bound_count == AW_KUBE_BUCKETS_MAX) { /* buckets of a pod have changed: anew */
        metrics->bound_count = 0;
        for (uint32_t i = 0; i < kept; i++)
            metrics->entry[i].slot[AW_KUBE_QUERY_LATENCY].round = 0;
    }
}

void aw__metrics_put(struct aw_kube_metrics *metrics, uint32_t entry, enum aw_kube_query_id id,
                     double value, int64_t at_us)
{
    struct aw__metric_slot *slot = &metrics->entry[entry].slot[id];
    if (slot->round == metrics->round) {
        metrics->state.dropped += slot->missing ? 1 : 2;
        slot->missing = true;
        return;
    }
    *slot = (struct aw__metric_slot){
        .value = (float)value, .at_us = at_us, .round = metrics->round & ROUND_MAX};
}

void aw__metrics_put_bucket(struct aw_kube_metrics *metrics, uint32_t entry, double bound_s,
                            double value, int64_t at_us)
{
    struct aw__metric_slot *slot = &metrics->entry[entry].slot[AW_KUBE_QUERY_LATENCY];
    uint32_t b = 0;
    while (b < metrics->bound_count && metrics->bound[b] != bound_s)
        b++;
    if (b == AW_KUBE_BUCKETS_MAX) {
        metrics->state.dropped++;
        return;
    }
    if (b == metrics->bound_count) { /* no pod has had it so far */
        metrics->bound[metrics->bound_count++] = bound_s;
        for (uint32_t i = 0; i < metrics->entry_count; i++)
            *bucket_of(metrics, i, b) = NAN;
    }
    if (slot->round != metrics->round) {
        *slot = (struct aw__metric_slot){.at_us = at_us, .round = metrics->round & ROUND_MAX};
        for (uint32_t i = 0; i < metrics->bound_count; i++)
            *bucket_of(metrics, entry, i) = NAN;
    }
    if (!isnan(*bucket_of(metrics, entry, b))) {
        metrics->state.dropped += slot->missing ? 1 : 2;
        slot->missing = true;
    }
    *bucket_of(metrics, entry, b) = (float)value;
}

/* --- what is known --- */

static const struct aw_kube_figure missing = {.at_us = AW_KUBE_NEVER};

static bool is_there(const struct aw_kube_metrics *metrics, const struct aw__metric_entry *entry,
                     uint32_t id)
{
    const struct aw__metric_slot *slot = &entry->slot[id];
    return slot->round > 0 && slot->round >= metrics->good[id] && !slot->missing;
}

static struct aw_kube_figure figure(const struct aw_kube_metrics *metrics, uint32_t at,
                                    enum aw_kube_query_id id, int64_t now_us)
{
    if (at == AW__NONE)
        return missing;
    const struct aw__metric_entry *entry = &metrics->entry[at];
    const uint32_t time = metrics->time_of[id];
    if (!is_there(metrics, entry, id) || (time != AW__NONE && !is_there(metrics, entry, time)))
        return missing;
    struct aw_kube_figure ret = {(double)entry->slot[id].value, entry->slot[id].at_us, 1};
    if (time != AW__NONE && entry->slot[time].at_us < ret.at_us)
        ret.at_us = entry->slot[time].at_us;
    return now_us - ret.at_us > metrics->config.age_max_us ? missing : ret;
}

void aw_kube_metrics_pod(const struct aw_kube_metrics *metrics, const char *ns, const char *pod,
                         int64_t now_us, struct aw_kube_pod_metrics *ret_pod)
{
    const uint32_t at = entry_find(metrics, ns, "/", pod);
    *ret_pod = (struct aw_kube_pod_metrics){
        .cpu_cores = figure(metrics, at, AW_KUBE_QUERY_CPU, now_us),
        .memory_bytes = figure(metrics, at, AW_KUBE_QUERY_MEMORY, now_us),
        .throttled_share = figure(metrics, at, AW_KUBE_QUERY_THROTTLED, now_us),
    };
}

/* Adds one pod's to the sum, which is as old as its oldest part. */
static void add(struct aw_kube_figure *sum, struct aw_kube_figure part)
{
    if (part.at_us == AW_KUBE_NEVER)
        return;
    sum->value += part.value;
    sum->at_us = sum->pods == 0 || part.at_us < sum->at_us ? part.at_us : sum->at_us;
    sum->pods += part.pods;
}

/* Whose figures make up a workload. */
struct members {
    const struct aw_kube_metrics *metrics;
    const char *ns;
    const char *const *pods;
    uint32_t pod_count;
    uint32_t own; /* the entry of the workload itself, or AW__NONE */
    int64_t now_us;
};

static struct aw_kube_figure sum_of(const struct members *members, enum aw_kube_query_id id)
{
    struct aw_kube_figure sum = figure(members->metrics, members->own, id, members->now_us);
    if (sum.at_us != AW_KUBE_NEVER)
        return sum;
    sum = missing;
    for (uint32_t i = 0; i < members->pod_count; i++)
        add(&sum, figure(members->metrics,
                         entry_find(members->metrics, members->ns, "/", members->pods[i]), id,
                         members->now_us));
    return sum;
}

/* Buckets of a workload: at the bounds that all its pods have. */
struct histogram {
    double bound[AW_KUBE_BUCKETS_MAX], count[AW_KUBE_BUCKETS_MAX];
    uint32_t buckets;
    struct aw_kube_figure all; /* the count of the last bucket, with its time and pods */
    double sum_s;              /* of the durations of the same pods */
    uint32_t sum_pods;         /* that had one */
};

static void merge_row(const struct aw_kube_metrics *metrics, uint32_t at, double *counts)
{
    for (uint32_t b = 0; b < metrics->bound_count; b++)
        counts[b] +=
            (double)*bucket_of(metrics, at, b); /* NaN stays: a bound that a pod lacks is none */
}

static bool has_total(const struct aw_kube_metrics *metrics, uint32_t at)
{
    for (uint32_t b = 0; b < metrics->bound_count; b++)
        if (isinf(metrics->bound[b]))
            return !isnan(*bucket_of(metrics, at, b));
    return false;
}

static void merge_pod(const struct members *members, uint32_t at, double *counts,
                      struct histogram *histogram)
{
    const struct aw_kube_metrics *metrics = members->metrics;
    const struct aw_kube_figure row = figure(metrics, at, AW_KUBE_QUERY_LATENCY, members->now_us);
    const struct aw_kube_figure sum =
        figure(metrics, at, AW_KUBE_QUERY_LATENCY_SUM, members->now_us);
    if (row.at_us == AW_KUBE_NEVER || !has_total(metrics, at))
        return;
    merge_row(metrics, at, counts);
    add(&histogram->all, row);
    histogram->sum_s += sum.value;
    histogram->sum_pods += sum.at_us != AW_KUBE_NEVER;
}

/* By insertion: the bounds come in the order in which they were met. Counts never fall from one
 * bucket to the next; rates of different scrapes may, by a little. */
static void sort_buckets(const struct aw_kube_metrics *metrics, const double *counts,
                         struct histogram *histogram)
{
    for (uint32_t b = 0; b < metrics->bound_count; b++) {
        if (isnan(counts[b]))
            continue;
        uint32_t at = histogram->buckets++;
        for (; at > 0 && histogram->bound[at - 1] > metrics->bound[b]; at--) {
            histogram->bound[at] = histogram->bound[at - 1];
            histogram->count[at] = histogram->count[at - 1];
        }
        histogram->bound[at] = metrics->bound[b];
        histogram->count[at] = counts[b];
    }
    for (uint32_t b = 1; b < histogram->buckets; b++)
        if (histogram->count[b] < histogram->count[b - 1])
            histogram->count[b] = histogram->count[b - 1];
}

static void read_histogram(const struct members *members, struct histogram *histogram)
{
    const struct aw_kube_metrics *metrics = members->metrics;
    double counts[AW_KUBE_BUCKETS_MAX] = {0};
    *histogram = (struct histogram){.all = missing};
    if (members->own != AW__NONE)
        merge_pod(members, members->own, counts, histogram);
    const bool own = histogram->all.pods > 0;
    for (uint32_t i = 0; i < members->pod_count && !own; i++) {
        const uint32_t at = entry_find(metrics, members->ns, "/", members->pods[i]);
        if (at != AW__NONE)
            merge_pod(members, at, counts, histogram);
    }
    if (histogram->all.pods > 0)
        sort_buckets(metrics, counts, histogram);
}

static struct aw_kube_figure latency(const struct histogram *histogram, double quantile)
{
    struct aw_kube_figure ret = histogram->all;
    ret.value = 1e6 * aw_promtext_quantile(histogram->bound, histogram->count, histogram->buckets,
                                           quantile);
    return isnan(ret.value) ? missing : ret;
}

void aw_kube_metrics_workload(const struct aw_kube_metrics *metrics, const char *ns,
                              const char *name, const char *const *pods, uint32_t pod_count,
                              int64_t now_us, struct aw_kube_workload_metrics *ret_workload)
{
    const struct members members = {
        metrics, ns, pods, pod_count, entry_find(metrics, ns, "//", name), now_us};
    struct histogram histogram;
    read_histogram(&members, &histogram);
    *ret_workload = (struct aw_kube_workload_metrics){
        .requests_per_s = sum_of(&members, AW_KUBE_QUERY_REQUESTS),
        .errors_per_s = sum_of(&members, AW_KUBE_QUERY_ERRORS),
        .in_flight = sum_of(&members, AW_KUBE_QUERY_IN_FLIGHT),
        .latency_us_p50 = latency(&histogram, 0.50),
        .latency_us_p95 = latency(&histogram, 0.95),
        .latency_us_p99 = latency(&histogram, 0.99),
        .latency_us_mean = histogram.all,
    };
    const double all = histogram.buckets ? histogram.count[histogram.buckets - 1] : 0;
    if (all > 0 && histogram.sum_pods == histogram.all.pods)
        ret_workload->latency_us_mean.value = 1e6 * histogram.sum_s / all;
    else
        ret_workload->latency_us_mean = missing;
}
