/* vpa.c - samples in, percentiles out; CPU and memory differ by their index and two rules. */
#include "fallback/vpa.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define HOUR_US   (3600 * (int64_t)1000000)
#define DAY_US    (24 * HOUR_US)
#define MINUTE_US (60 * (int64_t)1000000)

const char *aw_vpa_resource_name(enum aw_vpa_resource resource)
{
    return resource == AW_VPA_CPU ? "cpu" : "memory";
}

void aw_vpa_config_init(struct aw_vpa_config *config)
{
    /* A bucket with less than a thousandth of the lightest sample is empty. */
    const double epsilon = 0.001 * 0.1;
    enum aw_err err;
    *config = (struct aw_vpa_config){
        /* since February 2025 a CPU sample weighs the same whatever the request was */
        .sample_weight = {0.1, 1.0},
        .unit = {1000, 1},
        .target = {.percentile = {0.9, 0.9}, .margin = 0.15},
        .lower = {.percentile = {0.5, 0.5},
                  .margin = 0.15,
                  .confidence_multiplier = 0.001,
                  .confidence_exponent = -2},
        .upper = {.percentile = {0.95, 0.95},
                  .margin = 0.15,
                  .confidence_multiplier = 1,
                  .confidence_exponent = 1},
        .confidence_us = DAY_US,
        .memory_interval_us = DAY_US,
        .memory_intervals = 8,
        .oom_ratio = 1.2,
        .oom_bytes_min = 100 * AW_MIB,
        .pod_min = {25, 250 * AW_MIB},
        .round_to = {1, 1},
    };
    err = aw_histogram_shape_exponential(&config->shape[AW_VPA_CPU], 1000, 0.01, 1.05, epsilon,
                                         DAY_US, NULL);
    AW_ASSERT(err == AW_OK);
    err = aw_histogram_shape_exponential(&config->shape[AW_VPA_MEMORY], 1e12, 1e7, 1.05, epsilon,
                                         DAY_US, NULL);
    AW_ASSERT(err == AW_OK);
}

static bool is_fraction(double value)
{
    return value >= 0 && value <= 1; /* false for NaN */
}

static bool is_not_negative(double value)
{
    return isfinite(value) && value >= 0;
}

enum aw_err aw_vpa_config_check(const struct aw_vpa_config *config, struct aw_diag *diag)
{
    const struct aw_vpa_estimator *parts[3] = {&config->lower, &config->target, &config->upper};

    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        const char *name = aw_vpa_resource_name((enum aw_vpa_resource)r);
        double last = 0;
        for (int i = 0; i < 3; i++) {
            double p = parts[i]->percentile[r];
            if (!is_fraction(p) || p < last)
                return aw_fail(diag, AW_ERR_CONFIG,
                               "%s: expected percentiles of lower bound, target and upper bound "
                               "in order within 0 to 1, found %g, %g, %g",
                               name, parts[0]->percentile[r], parts[1]->percentile[r],
                               parts[2]->percentile[r]);
            last = p;
        }
        if (!is_not_negative(config->sample_weight[r]) || !is_not_negative(config->unit[r]) ||
            config->unit[r] == 0)
            return aw_fail(diag, AW_ERR_CONFIG, "%s: expected a weight and a unit above 0", name);
        if (config->pod_min[r] < 0 || config->max_allowed[r] < 0 || config->round_to[r] < 1 ||
            config->round_to[r] > AW_VPA_AMOUNT_MAX)
            return aw_fail(diag, AW_ERR_CONFIG,
                           "%s: expected a pod minimum and a maximum of 0 or more and rounding "
                           "of 1 or more",
                           name);
    }
    if (!is_not_negative(parts[0]->margin) || !(parts[1]->margin >= parts[0]->margin) ||
        !(parts[2]->margin >= parts[1]->margin) || !isfinite(parts[2]->margin))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected margins of lower bound, target and upper bound in order, found "
                       "%g, %g, %g",
                       parts[0]->margin, parts[1]->margin, parts[2]->margin);
    if (!(config->lower.confidence_exponent <= 0) || !(config->upper.confidence_exponent >= 0) ||
        config->target.confidence_exponent != 0 ||
        !is_not_negative(config->lower.confidence_multiplier) ||
        !is_not_negative(config->upper.confidence_multiplier))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "confidence must lower the lower bound, raise the upper and leave the "
                       "target alone");
    if (config->confidence_us <= 0 || config->memory_interval_us <= 0 ||
        config->memory_intervals == 0 ||
        config->memory_interval_us > AW_HISTOGRAM_TIME_US_MAX / config->memory_intervals)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected positive intervals of confidence and of memory");
    if (!is_not_negative(config->oom_ratio) || config->oom_bytes_min < 0)
        return aw_fail(diag, AW_ERR_CONFIG, "expected bumps after OOM of 0 or more");
    return AW_OK;
}

void aw_vpa_aggregate_init(struct aw_vpa_aggregate *aggregate, const struct aw_vpa_config *config,
                           int64_t now_us)
{
    memset(aggregate, 0, sizeof *aggregate);
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        aw_histogram_reset(&aggregate->usage[r], &config->shape[r]);
    aggregate->created_us = now_us;
}

static void add(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                enum aw_vpa_resource resource, int64_t amount, int64_t time_us)
{
    aw_histogram_add(&aggregate->usage[resource], &config->shape[resource],
                     (double)amount / config->unit[resource], config->sample_weight[resource],
                     time_us);
}

static bool add_cpu(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                    struct aw_vpa_container *container, int64_t millicores, int64_t time_us)
{
    if (millicores < 0 || (container->has_cpu && time_us <= container->cpu_last_us))
        return false;
    add(config, aggregate, AW_VPA_CPU, millicores, time_us);
    if (aggregate->sample_count == 0 || time_us > aggregate->last_sample_us)
        aggregate->last_sample_us = time_us;
    if (aggregate->sample_count == 0 || time_us < aggregate->first_sample_us)
        aggregate->first_sample_us = time_us;
    aggregate->sample_count++;
    container->has_cpu = true;
    container->cpu_last_us = time_us;
    return true;
}

/* One peak per interval, stamped with the interval's end: a larger one takes the place of the last,
 * and the first of an interval opens the next. */
static bool add_memory(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                       struct aw_vpa_container *container, int64_t bytes, int64_t time_us,
                       bool is_oom)
{
    int64_t interval_us = config->memory_interval_us;
    if (bytes < 0 || (!is_oom && container->has_memory && time_us < container->memory_last_us))
        return false;
    if (!container->has_memory)
        container->window_end_us = time_us;
    container->has_memory = true;
    container->memory_last_us = time_us;

    if (time_us < container->window_end_us) {
        int64_t peak = container->memory_peak > container->oom_peak ? container->memory_peak
                                                                    : container->oom_peak;
        /* A peak of 0 stays until the interval ends: so does upstream. */
        if (peak == 0 || bytes <= peak)
            return true;
        aw_histogram_subtract(&aggregate->usage[AW_VPA_MEMORY], &config->shape[AW_VPA_MEMORY],
                              (double)peak / config->unit[AW_VPA_MEMORY],
                              config->sample_weight[AW_VPA_MEMORY], container->window_end_us);
    } else {
        int64_t late_us = time_us - container->window_end_us;
        container->window_end_us += late_us - late_us % interval_us + interval_us;
        container->memory_peak = 0;
        container->oom_peak = 0;
    }
    add(config, aggregate, AW_VPA_MEMORY, bytes, container->window_end_us);
    *(is_oom ? &container->oom_peak : &container->memory_peak) = bytes;
    return true;
}

bool aw_vpa_add(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                struct aw_vpa_container *container, enum aw_vpa_resource resource, int64_t amount,
                int64_t time_us)
{
    return resource == AW_VPA_CPU
               ? add_cpu(config, aggregate, container, amount, time_us)
               : add_memory(config, aggregate, container, amount, time_us, false);
}

/* Cut to a whole one within 0 to AW_VPA_AMOUNT_MAX. */
static int64_t whole_amount(double value)
{
    if (!(value > 0)) /* NaN too */
        return 0;
    return value >= (double)AW_VPA_AMOUNT_MAX ? AW_VPA_AMOUNT_MAX : (int64_t)value;
}

/* From the request or a measured peak, never from an earlier OOM: otherwise a series of kills would
 * bump the bump. */
int64_t aw__vpa_oom_bytes(const struct aw_vpa_config *config,
                          const struct aw_vpa_container *container, int64_t request_bytes)
{
    int64_t used = request_bytes > container->memory_peak ? request_bytes : container->memory_peak;
    int64_t by_bytes = whole_amount((double)used + (double)config->oom_bytes_min);
    int64_t by_ratio = whole_amount((double)used * config->oom_ratio);
    return by_bytes > by_ratio ? by_bytes : by_ratio;
}

bool aw_vpa_oom(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                struct aw_vpa_container *container, int64_t request_bytes, int64_t time_us)
{
    if (container->has_memory && time_us < container->memory_last_us - config->memory_interval_us)
        return false;
    return add_memory(config, aggregate, container,
                      aw__vpa_oom_bytes(config, container, request_bytes), time_us, true);
}

bool aw_vpa_expired(const struct aw_vpa_aggregate *aggregate, const struct aw_vpa_config *config,
                    int64_t now_us)
{
    int64_t since_us =
        aggregate->sample_count == 0 ? aggregate->created_us : aggregate->last_sample_us;
    return now_us - since_us >= config->memory_interval_us * (int64_t)config->memory_intervals;
}

int64_t aw__vpa_with_margin(int64_t amount, double margin)
{
    int64_t sum = amount + whole_amount((double)amount * margin);
    return sum > AW_VPA_AMOUNT_MAX ? AW_VPA_AMOUNT_MAX : sum;
}

/* Days of history, or days' worth of samples at one a minute: the smaller. */
double aw__vpa_confidence(const struct aw_vpa_aggregate *aggregate, int64_t confidence_us)
{
    double span = (double)(aggregate->last_sample_us - aggregate->first_sample_us);
    double by_time = span / (double)confidence_us;
    double by_count = (double)aggregate->sample_count / ((double)confidence_us / (double)MINUTE_US);
    return by_time < by_count ? by_time : by_count;
}

int64_t aw__vpa_with_confidence(int64_t amount, double multiplier, double exponent,
                                double confidence)
{
    if (exponent == 0)
        return amount;
    /* No history: everything is possible, whatever was seen so far. Without this line it would be
     * 0 * infinity for an amount of 0. */
    if (confidence <= 0 && multiplier > 0)
        return exponent > 0 ? AW_VPA_AMOUNT_MAX : 0;
    return whole_amount((double)amount * pow(1 + multiplier / confidence, exponent));
}

int64_t aw__vpa_pod_share(int64_t pod_min, uint32_t container_count)
{
    return whole_amount((double)pod_min * (1.0 / (double)container_count));
}

static int64_t estimate(const struct aw_vpa_config *config,
                        const struct aw_vpa_aggregate *aggregate, uint32_t container_count,
                        const struct aw_vpa_estimator *estimator, enum aw_vpa_resource resource)
{
    double usage = aw_histogram_percentile(&aggregate->usage[resource], &config->shape[resource],
                                           estimator->percentile[resource]);
    int64_t amount = whole_amount(usage * config->unit[resource]);
    int64_t least = aw__vpa_pod_share(config->pod_min[resource], container_count);
    amount = aw__vpa_with_margin(amount, estimator->margin);
    amount = aw__vpa_with_confidence(amount, estimator->confidence_multiplier,
                                     estimator->confidence_exponent,
                                     aw__vpa_confidence(aggregate, config->confidence_us));
    amount = amount > least ? amount : least;
    int64_t rest = amount % config->round_to[resource];
    return rest == 0 ? amount : amount - rest + config->round_to[resource];
}

/* The maximum has the last word where both cannot be had. */
static int64_t cap(const struct aw_vpa_config *config, const struct aw_vpa_policy *policy,
                   enum aw_vpa_resource resource, int64_t amount)
{
    int64_t most = policy && policy->max_allowed[resource] ? policy->max_allowed[resource]
                                                           : config->max_allowed[resource];
    if (policy && amount < policy->min_allowed[resource])
        amount = policy->min_allowed[resource];
    return most > 0 && amount > most ? most : amount;
}

enum aw_err aw_vpa_recommend(const struct aw_vpa_config *config,
                             const struct aw_vpa_aggregate *aggregate, uint32_t container_count,
                             const struct aw_vpa_policy *policy, struct aw_vpa_recommendation *ret)
{
    AW_ASSERT(container_count >= 1 && container_count <= AW_VPA_CONTAINERS_MAX);
    if (aggregate->sample_count == 0)
        return AW_ERR_NODATA;
    for (int i = 0; i < AW_VPA_RESOURCE_COUNT; i++) {
        enum aw_vpa_resource r = (enum aw_vpa_resource)i;
        int64_t target = estimate(config, aggregate, container_count, &config->target, r);
        int64_t lower = estimate(config, aggregate, container_count, &config->lower, r);
        int64_t upper = estimate(config, aggregate, container_count, &config->upper, r);
        ret->uncapped_target[r] = target;
        ret->target[r] = cap(config, policy, r, target);
        ret->lower[r] = cap(config, policy, r, lower);
        ret->upper[r] = cap(config, policy, r, upper);
    }
    return AW_OK;
}

void aw_vpa_save(const struct aw_vpa_aggregate *aggregate, const struct aw_vpa_config *config,
                 struct aw_vpa_checkpoint *ret)
{
    *ret = (struct aw_vpa_checkpoint){
        .version = AW_VPA_CHECKPOINT_VERSION,
        .first_sample_us = aggregate->first_sample_us,
        .last_sample_us = aggregate->last_sample_us,
        .sample_count = aggregate->sample_count,
    };
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        aw_histogram_save(&aggregate->usage[r], &config->shape[r], &ret->usage[r]);
}

enum aw_err aw_vpa_load(struct aw_vpa_aggregate *ret, const struct aw_vpa_config *config,
                        const struct aw_vpa_checkpoint *checkpoint, int64_t now_us,
                        struct aw_diag *diag)
{
    struct aw_vpa_aggregate loaded;
    if (strncmp(checkpoint->version, AW_VPA_CHECKPOINT_VERSION, sizeof checkpoint->version) != 0)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "expected a checkpoint of version %s, found %.8s",
                       AW_VPA_CHECKPOINT_VERSION, checkpoint->version);
    if (checkpoint->first_sample_us > checkpoint->last_sample_us)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "the first sample (%" PRId64 " us) is later than the last (%" PRId64 " us)",
                       checkpoint->first_sample_us, checkpoint->last_sample_us);
    if (checkpoint->first_sample_us < -AW_HISTOGRAM_TIME_US_MAX ||
        checkpoint->last_sample_us > AW_HISTOGRAM_TIME_US_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "the time of a sample is out of range");
    aw_vpa_aggregate_init(&loaded, config, now_us);
    loaded.first_sample_us = checkpoint->first_sample_us;
    loaded.last_sample_us = checkpoint->last_sample_us;
    loaded.sample_count = checkpoint->sample_count;
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        enum aw_err err =
            aw_histogram_load(&loaded.usage[r], &config->shape[r], &checkpoint->usage[r], diag);
        if (err)
            return err;
    }
    *ret = loaded;
    return AW_OK;
}
