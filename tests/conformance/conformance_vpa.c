/* conformance_vpa.c - the kinds of case that are about the VPA. */
#include "base/units.h"
#include "conformance_case.h"
#include "fallback/vpa_update.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECOND_US   ((int64_t)1000000)
#define SECONDS_MAX 1e9   /* in either direction */
#define NUMBER_MAX  1e15  /* bytes, weights */
#define ROUNDING    1e-12 /* upstream's tests compare reals with a margin too */
#define EPSILON_VPA 1e-4

static int64_t seconds(struct aw__case *c, const struct aw_node *map, const char *key)
{
    return aw__case_i64(c, map, key, -(int64_t)SECONDS_MAX, (int64_t)SECONDS_MAX) * SECOND_US;
}

/* {"type": "linear", "max", "bucket_size", "epsilon"}, or exponential with "first" and "ratio",
 * which is also what no type means; without an epsilon, that of the VPA. */
static void read_shape(struct aw__case *c, const struct aw_node *node, int64_t half_life_us,
                       struct aw_histogram_shape *shape)
{
    static const char *const keys[] = {"type",  "max",     "bucket_size", "first",
                                       "ratio", "epsilon", NULL};
    memset(shape, 0, sizeof *shape);
    shape->bucket_count = 1;
    if (c->err)
        return;
    c->err = aw_tree_known(c->tree, node, keys, &c->diag);
    bool linear = false;
    if (aw__case_has(node, "type")) {
        const char *type = aw__case_text(c, node, "type");
        linear = strcmp(type, "linear") == 0;
        if (!linear && strcmp(type, "exponential") != 0)
            aw__case_fail(c, node, "type: expected linear or exponential");
    }
    double epsilon =
        aw__case_has(node, "epsilon") ? aw__case_real(c, node, "epsilon") : EPSILON_VPA;
    double max = aw__case_real(c, node, "max");
    double size = aw__case_real(c, node, linear ? "bucket_size" : "first");
    double ratio = linear ? 0 : aw__case_real(c, node, "ratio");
    if (c->err)
        return;
    c->err = linear ? aw_histogram_shape_linear(shape, max, size, epsilon, half_life_us, &c->diag)
                    : aw_histogram_shape_exponential(shape, max, size, ratio, epsilon, half_life_us,
                                                     &c->diag);
}

/* {"0.5": 4, ...} against the histogram. */
static void compare_percentiles(struct aw__case *c, const struct aw_histogram *histogram,
                                const struct aw_histogram_shape *shape)
{
    const struct aw_node *map = aw__case_expect(c, "percentile->value");
    if (map)
        c->err = aw_tree_map(c->tree, map, &c->diag);
    if (c->err || !map)
        return;
    for (const struct aw_node *node = map->first; node && !c->err; node = node->next) {
        char label[64];
        double p = aw__case_key(c, node);
        snprintf(label, sizeof label, "p%g", p);
        aw__case_compare(c, label, aw__case_real(c, map, node->key),
                         aw_histogram_percentile(histogram, shape, p), ROUNDING);
    }
}

static void add_samples(struct aw__case *c, const char *key, uint32_t width,
                        const struct aw_histogram_shape *shape, struct aw_histogram *histogram)
{
    aw_histogram_reset(histogram, shape);
    for (const struct aw_node *node = aw__case_list(c, c->in, key); node && !c->err;
         node = node->next) {
        double sample[3] = {0};
        aw__case_numbers(c, node, sample, width, NUMBER_MAX);
        if (sample[1] < 0 || fabs(sample[2]) > SECONDS_MAX)
            aw__case_fail(c, node, "expected a weight of 0 or more and a time within reason");
        if (!c->err)
            aw_histogram_add(histogram, shape, sample[0], sample[1],
                             (int64_t)(sample[2] * (double)SECOND_US));
    }
}

static void histogram_percentile(struct aw__case *c)
{
    struct aw_histogram_shape shape;
    struct aw_histogram histogram;
    read_shape(c, aw__case_need(c, c->in, "histogram"), 0, &shape);
    add_samples(c, "samples_[value,weight]", 2, &shape, &histogram);
    compare_percentiles(c, &histogram, &shape);
}

static void decaying_histogram_percentile(struct aw__case *c)
{
    struct aw_histogram_shape shape;
    struct aw_histogram histogram;
    int64_t half_life_us = seconds(c, c->in, "half_life_s");
    read_shape(c, aw__case_need(c, c->in, "histogram"), half_life_us, &shape);
    add_samples(c, "samples_[value,weight,t_s]", 3, &shape, &histogram);
    compare_percentiles(c, &histogram, &shape);
}

/* {"39.99": 0, ...}: value and bucket. */
static void compare_buckets(struct aw__case *c, const struct aw_histogram_shape *shape)
{
    const struct aw_node *map = aw__case_expect(c, "find_bucket");
    if (map)
        c->err = aw_tree_map(c->tree, map, &c->diag);
    if (c->err || !map)
        return;
    for (const struct aw_node *node = map->first; node && !c->err; node = node->next) {
        char label[64];
        double value = aw__case_key(c, node);
        snprintf(label, sizeof label, "bucket of %g", value);
        aw__case_compare(c, label, aw__case_real(c, map, node->key),
                         aw_histogram_find(shape, value), 0);
    }
}

static void exponential_buckets(struct aw__case *c)
{
    struct aw_histogram_shape shape = {.bucket_count = 1};
    double max = aw__case_real(c, c->in, "max"), first = aw__case_real(c, c->in, "first_bucket");
    double ratio = aw__case_real(c, c->in, "ratio");
    if (!c->err)
        c->err =
            aw_histogram_shape_exponential(&shape, max, first, ratio, EPSILON_VPA, 0, &c->diag);
    aw__case_same(c, "num_buckets", shape.bucket_count);
    if (aw__case_expect(c, "bucket_starts")) {
        uint32_t bucket = 0;
        for (const struct aw_node *node = aw__case_list(c, c->expect, "bucket_starts");
             node && !c->err; node = node->next, bucket++) {
            char label[64];
            double start = 0;
            snprintf(label, sizeof label, "start %u", bucket);
            c->err = aw_tree_real(c->tree, node, -INFINITY, INFINITY, &start, &c->diag);
            if (bucket >= shape.bucket_count)
                aw__case_fail(c, node, "more starts than buckets");
            else
                aw__case_compare(c, label, start, shape.start[bucket], ROUNDING);
        }
    }
    compare_buckets(c, &shape);
}

static void linear_buckets(struct aw__case *c)
{
    struct aw_histogram_shape shape = {.bucket_count = 1};
    double max = aw__case_real(c, c->in, "max"), size = aw__case_real(c, c->in, "bucket_size");
    if (!c->err)
        c->err = aw_histogram_shape_linear(&shape, max, size, EPSILON_VPA, 0, &c->diag);
    aw__case_same(c, "num_buckets", shape.bucket_count);
    aw__case_close(c, "bucket_start_17", shape.start[17], ROUNDING);
    compare_buckets(c, &shape);
}

/* One percentile of CPU and one of memory, each near a round figure and near our own exact one. */
static void percentile_estimator(struct aw__case *c)
{
    static const char *const keys[AW_VPA_RESOURCE_COUNT][5] = {
        {"cpu_histogram", "cpu_samples_cores", "cpu_percentile", "cpu_cores"},
        {"mem_histogram", "mem_samples_bytes", "mem_percentile", "mem_bytes"},
    };
    const struct aw_node *exact = aw__case_expect(c, "exact_from_own_check");
    double near = 0;
    if (aw__case_expect(c, "max_relative_error"))
        near = aw__case_real(c, c->expect, "max_relative_error");
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        struct aw_histogram_shape shape;
        struct aw_histogram histogram;
        double weight = aw__case_real(c, c->in, "weights");
        read_shape(c, aw__case_need(c, c->in, keys[r][0]), 0, &shape);
        aw_histogram_reset(&histogram, &shape);
        for (const struct aw_node *node = aw__case_list(c, c->in, keys[r][1]); node && !c->err;
             node = node->next) {
            double value = 0;
            c->err = aw_tree_real(c->tree, node, 0, NUMBER_MAX, &value, &c->diag);
            if (!c->err && !(weight >= 0))
                aw__case_fail(c, c->in, "weights: expected 0 or more");
            if (!c->err)
                aw_histogram_add(&histogram, &shape, value, weight, 0);
        }
        double p = aw__case_real(c, c->in, keys[r][2]);
        if (c->err)
            return;
        double found = aw_histogram_percentile(&histogram, &shape, p);
        aw__case_close(c, keys[r][3], found, near);
        /* written with seven digits */
        if (exact)
            aw__case_compare(c, keys[r][3], aw__case_real(c, exact, keys[r][3]), found, 1e-6);
    }
}

static void confidence_multiplier(struct aw__case *c)
{
    struct aw_vpa_aggregate aggregate = {0};
    double multiplier = aw__case_real(c, c->in, "multiplier");
    double exponent = aw__case_real(c, c->in, "exponent");
    int64_t interval_us = 86400 * SECOND_US;
    aggregate.sample_count = (uint64_t)aw__case_i64(c, c->in, "samples", 0, INT64_MAX);
    if (aw__case_has(c->in, "lifespan_s"))
        aggregate.last_sample_us = seconds(c, c->in, "lifespan_s");
    if (aw__case_has(c->in, "confidence_interval_s"))
        interval_us = seconds(c, c->in, "confidence_interval_s");
    if (interval_us <= 0)
        aw__case_fail(c, c->in, "confidence_interval_s: expected more than 0");
    if (c->err)
        return;
    double confidence = aw__vpa_confidence(&aggregate, interval_us);
    aw__case_close(c, "confidence", confidence, ROUNDING);
    int64_t cpu = aw__case_i64(c, c->in, "base_cpu_m", 0, AW_VPA_AMOUNT_MAX);
    aw__case_same(c, "cpu_m", aw__vpa_with_confidence(cpu, multiplier, exponent, confidence));
    if (aw__case_has(c->in, "base_mem_bytes")) {
        int64_t bytes = aw__case_i64(c, c->in, "base_mem_bytes", 0, AW_VPA_AMOUNT_MAX);
        aw__case_same(c, "mem_bytes",
                      aw__vpa_with_confidence(bytes, multiplier, exponent, confidence));
    }
}

static void safety_margin(struct aw__case *c)
{
    double margin = aw__case_real(c, c->in, "margin");
    int64_t cpu = aw__case_i64(c, c->in, "base_cpu_m", 0, AW_VPA_AMOUNT_MAX);
    int64_t bytes = aw__case_i64(c, c->in, "base_mem_bytes", 0, AW_VPA_AMOUNT_MAX);
    aw__case_same(c, "cpu_m", aw__vpa_with_margin(cpu, margin));
    aw__case_same(c, "mem_bytes", aw__vpa_with_margin(bytes, margin));
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void min_resource(struct aw__case *c)
{
    int64_t cpu = aw__case_i64(c, c->in, "base_cpu_m", 0, AW_VPA_AMOUNT_MAX);
    int64_t cpu_min = aw__case_i64(c, c->in, "min_cpu_m", 0, AW_VPA_AMOUNT_MAX);
    int64_t bytes = aw__case_i64(c, c->in, "base_mem_bytes", 0, AW_VPA_AMOUNT_MAX);
    int64_t bytes_min = aw__case_i64(c, c->in, "min_mem_bytes", 0, AW_VPA_AMOUNT_MAX);
    aw__case_same(c, "cpu_m", larger(cpu, aw__vpa_pod_share(cpu_min, 1)));
    aw__case_same(c, "mem_bytes", larger(bytes, aw__vpa_pod_share(bytes_min, 1)));
}

static void pod_minimum(struct aw__case *c)
{
    uint32_t count = (uint32_t)aw__case_i64(c, c->in, "containers", 1, AW_VPA_CONTAINERS_MAX);
    int64_t cpu = aw__case_i64(c, c->in, "estimate_cpu_m", 0, AW_VPA_AMOUNT_MAX);
    int64_t bytes = aw__case_i64(c, c->in, "estimate_mem_bytes", 0, AW_VPA_AMOUNT_MAX);
    int64_t cpu_min = aw__case_i64(c, c->in, "pod_min_cpu_m", 0, AW_VPA_AMOUNT_MAX);
    int64_t mib_min = aw__case_i64(c, c->in, "pod_min_mem_mib", 0, AW_VPA_AMOUNT_MAX / AW_MIB);
    if (c->err)
        return;
    cpu = larger(cpu, aw__vpa_pod_share(cpu_min, count));
    bytes = larger(bytes, aw__vpa_pod_share(mib_min * AW_MIB, count));
    aw__case_same(c, "target_cpu_m", cpu);
    aw__case_same(c, "target_mem_bytes", bytes);
    aw__case_same(c, "target_cpu_m_each", cpu);
    aw__case_same(c, "target_mem_bytes_each", bytes);
}

static void oom_bump(struct aw__case *c)
{
    struct aw_vpa_config config;
    struct aw_vpa_container container = {.has_memory = true};
    int64_t mib_max = AW_VPA_AMOUNT_MAX / AW_MIB;
    aw_vpa_config_init(&config);
    config.oom_ratio = aw__case_real(c, c->in, "ratio");
    config.oom_bytes_min = aw__case_i64(c, c->in, "min_bump_mib", 0, mib_max) * AW_MIB;
    container.memory_peak = aw__case_i64(c, c->in, "usage_peak_in_window_mib", 0, mib_max) * AW_MIB;
    int64_t request = aw__case_i64(c, c->in, "request_mib", 0, mib_max) * AW_MIB;
    int64_t bytes = aw__vpa_oom_bytes(&config, &container, request);
    aw__case_close(c, "oom_sample_mib", (double)bytes / (double)AW_MIB, 0);
}

/* Samples through the real path; the expected additions and subtractions straight into a second
 * histogram. Buckets narrow enough to tell the values apart, and the same decay as the VPA's. */
static void memory_peak_window(struct aw__case *c)
{
    struct aw_vpa_config config;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    struct aw_histogram expected;
    struct aw_histogram_shape *shape = &config.shape[AW_VPA_MEMORY];
    double largest = 1;

    aw_vpa_config_init(&config);
    config.memory_interval_us = seconds(c, c->in, "interval_s");
    const struct aw_node *samples = aw__case_list(c, c->in, "samples_[bytes,t_s]");
    for (const struct aw_node *node = samples; node && !c->err; node = node->next) {
        double sample[2];
        aw__case_numbers(c, node, sample, 2, SECONDS_MAX);
        largest = fmax(largest, sample[0]);
    }
    if (!c->err && config.memory_interval_us <= 0)
        aw__case_fail(c, c->in, "interval_s: expected more than 0");
    if (!c->err)
        c->err = aw_histogram_shape_linear(shape, largest, largest / 100, EPSILON_VPA,
                                           shape->half_life_us, &c->diag);
    if (c->err)
        return;
    aw_vpa_aggregate_init(&aggregate, &config, 0);
    for (const struct aw_node *node = samples; node; node = node->next) {
        double sample[2];
        aw__case_numbers(c, node, sample, 2, SECONDS_MAX);
        if (!aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, (int64_t)sample[0],
                        (int64_t)sample[1] * SECOND_US))
            aw__case_fail(c, node, "the sample was refused");
    }
    aw_histogram_reset(&expected, shape);
    if (!aw__case_expect(c, "histogram_ops_[op,bytes,weight,t_s]"))
        return;
    for (const struct aw_node *node =
             aw__case_list(c, c->expect, "histogram_ops_[op,bytes,weight,t_s]");
         node && !c->err; node = node->next) {
        c->err = aw_tree_list(c->tree, node, &c->diag);
        if (c->err || node->count != 4) {
            aw__case_fail(c, node, "expected [\"add\" or \"sub\", bytes, weight, seconds]");
            return;
        }
        const struct aw_node *op = node->first, *bytes = op->next, *weight = bytes->next;
        double value = (double)aw__case_whole(c, bytes, 0, (int64_t)SECONDS_MAX);
        double heavy = (double)aw__case_whole(c, weight, 0, (int64_t)SECONDS_MAX);
        int64_t time_us = aw__case_whole(c, weight->next, 0, (int64_t)SECONDS_MAX) * SECOND_US;
        if (c->err)
            return;
        if (op->kind == AW_NODE_STRING && strcmp(op->text, "add") == 0)
            aw_histogram_add(&expected, shape, value, heavy, time_us);
        else if (op->kind == AW_NODE_STRING && strcmp(op->text, "sub") == 0)
            aw_histogram_subtract(&expected, shape, value, heavy, time_us);
        else
            aw__case_fail(c, op, "expected \"add\" or \"sub\"");
    }
    for (uint32_t i = 0; i < shape->bucket_count; i++) {
        char label[64];
        double want = expected.weight[i], have = aggregate.usage[AW_VPA_MEMORY].weight[i];
        snprintf(label, sizeof label, "weight of %g", shape->start[i]);
        if (want > 0 || have > 0)
            aw__case_compare(c, label, want, have, ROUNDING);
    }
}

static void oom_staleness(struct aw__case *c)
{
    struct aw_vpa_config config;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    aw_vpa_config_init(&config);
    config.memory_interval_us = seconds(c, c->in, "interval_s");
    int64_t last_us = seconds(c, c->in, "last_memory_sample_t_s");
    int64_t oom_us = seconds(c, c->in, "oom_t_s");
    if (!c->err && config.memory_interval_us <= 0)
        aw__case_fail(c, c->in, "interval_s: expected more than 0");
    if (c->err)
        return;
    aw_vpa_aggregate_init(&aggregate, &config, last_us);
    if (!aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 1000 * AW_MIB, last_us))
        aw__case_fail(c, c->in, "the sample was refused");
    aw__case_same_bool(c, "discarded",
                       !aw_vpa_oom(&config, &aggregate, &container, 1000 * AW_MIB, oom_us));
}

/* {"2": 10000, ...} against all buckets: those that are not named must be 0. */
static void compare_weights(struct aw__case *c, const char *key, const double *found,
                            uint32_t bucket_count)
{
    const struct aw_node *map = aw__case_expect(c, key);
    if (map)
        c->err = aw_tree_map(c->tree, map, &c->diag);
    if (c->err || !map)
        return;
    for (uint32_t i = 0; i < bucket_count; i++) {
        char name[16], label[64];
        snprintf(name, sizeof name, "%u", i);
        snprintf(label, sizeof label, "weight of bucket %u", i);
        double expected = aw_node_find(map, name) ? aw__case_real(c, map, name) : 0;
        if (expected != 0 || found[i] != 0)
            aw__case_compare(c, label, expected, found[i], ROUNDING);
    }
}

static void checkpoint_save(struct aw__case *c)
{
    struct aw_histogram_shape shape;
    struct aw_histogram histogram;
    struct aw_histogram_checkpoint saved;
    double weights[AW_HISTOGRAM_BUCKETS_MAX] = {0};
    read_shape(c, aw__case_need(c, c->in, "histogram"), 0, &shape);
    add_samples(c, "samples_[value,weight]", 2, &shape, &histogram);
    if (c->err)
        return;
    aw_histogram_save(&histogram, &shape, &saved);
    for (uint32_t i = 0; i < saved.count; i++)
        weights[saved.items[i].bucket] = saved.items[i].weight;
    aw__case_close(c, "total_weight", saved.total, ROUNDING);
    compare_weights(c, "bucket_weights", weights, shape.bucket_count);
}

static void checkpoint_load(struct aw__case *c)
{
    struct aw_histogram_shape shape;
    struct aw_histogram histogram;
    struct aw_histogram_checkpoint checkpoint = {0};
    read_shape(c, aw__case_need(c, c->in, "histogram"), 0, &shape);
    checkpoint.total = aw__case_real(c, c->in, "total_weight");
    const struct aw_node *map = aw__case_need(c, c->in, "bucket_weights");
    if (!c->err)
        c->err = aw_tree_map(c->tree, map, &c->diag);
    if (c->err)
        return;
    for (uint32_t i = 0; i < shape.bucket_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        if (!aw_node_find(map, name))
            continue;
        checkpoint.items[checkpoint.count].bucket = i;
        checkpoint.items[checkpoint.count].weight =
            (uint32_t)aw__case_i64(c, map, name, 0, UINT32_MAX);
        checkpoint.count++;
    }
    if (checkpoint.count != map->count)
        aw__case_fail(c, map, "a bucket that the histogram lacks");
    if (!c->err)
        c->err = aw_histogram_load(&histogram, &shape, &checkpoint, &c->diag);
    if (c->err)
        return;
    aw__case_close(c, "total_weight", histogram.total, ROUNDING);
    compare_weights(c, "weights", histogram.weight, shape.bucket_count);
}

static void update_priority(struct aw__case *c)
{
    struct aw_vpa_recommendation wanted = {0};
    struct aw_vpa_pod_container container = {.recommendation = &wanted, .controlled = {true}};
    struct aw_vpa_pod pod = {.containers = &container, .container_count = 1};
    container.has_request[AW_VPA_CPU] = aw__case_has(c->in, "cpu_request_m");
    if (container.has_request[AW_VPA_CPU])
        container.request[AW_VPA_CPU] =
            aw__case_i64(c, c->in, "cpu_request_m", 0, AW_VPA_AMOUNT_MAX);
    wanted.target[AW_VPA_CPU] = aw__case_i64(c, c->in, "cpu_target_m", 0, AW_VPA_AMOUNT_MAX);
    bool has_lower = aw__case_has(c->in, "lower_m"), has_upper = aw__case_has(c->in, "upper_m");
    wanted.upper[AW_VPA_CPU] = INT64_MAX;
    if (has_lower)
        wanted.lower[AW_VPA_CPU] = aw__case_i64(c, c->in, "lower_m", 0, AW_VPA_AMOUNT_MAX);
    if (has_upper)
        wanted.upper[AW_VPA_CPU] = aw__case_i64(c, c->in, "upper_m", 0, AW_VPA_AMOUNT_MAX);
    container.has_bounds = has_lower || has_upper;
    struct aw_vpa_priority priority = aw_vpa_pod_priority(&pod);
    aw__case_same_bool(c, "outside_range", priority.outside_range);
    aw__case_close(c, "resource_diff", priority.diff, ROUNDING);
    aw__case_same_bool(c, "scale_up", priority.scale_up);
}

const struct aw__case_kind aw__case_kinds_vpa[] = {
    {"histogram_percentile", histogram_percentile, {"histogram", "samples_[value,weight]"}},
    {"decaying_histogram_percentile",
     decaying_histogram_percentile,
     {"histogram", "half_life_s", "samples_[value,weight,t_s]"}},
    {"exponential_buckets", exponential_buckets, {"max", "first_bucket", "ratio"}},
    {"linear_buckets", linear_buckets, {"max", "bucket_size"}},
    {"percentile_estimator",
     percentile_estimator,
     {"cpu_histogram", "cpu_samples_cores", "mem_histogram", "mem_samples_bytes", "weights",
      "cpu_percentile", "mem_percentile"}},
    {"confidence_multiplier",
     confidence_multiplier,
     {"base_cpu_m", "base_mem_bytes", "multiplier", "exponent", "samples", "lifespan_s",
      "confidence_interval_s"}},
    {"safety_margin", safety_margin, {"base_cpu_m", "base_mem_bytes", "margin"}},
    {"min_resource", min_resource, {"base_cpu_m", "min_cpu_m", "base_mem_bytes", "min_mem_bytes"}},
    {"pod_minimum",
     pod_minimum,
     {"containers", "estimate_cpu_m", "estimate_mem_bytes", "pod_min_cpu_m", "pod_min_mem_mib"}},
    {"oom_bump", oom_bump, {"request_mib", "usage_peak_in_window_mib", "ratio", "min_bump_mib"}},
    {"memory_peak_window", memory_peak_window, {"interval_s", "samples_[bytes,t_s]"}},
    {"oom_staleness", oom_staleness, {"interval_s", "last_memory_sample_t_s", "oom_t_s"}},
    {"checkpoint_save", checkpoint_save, {"histogram", "samples_[value,weight]"}},
    {"checkpoint_load", checkpoint_load, {"histogram", "total_weight", "bucket_weights"}},
    {"update_priority", update_priority, {"cpu_request_m", "cpu_target_m", "lower_m", "upper_m"}},
    {0},
};
