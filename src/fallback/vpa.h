/*
 * vpa.h - the recommender of the Kubernetes Vertical Pod Autoscaler: usage in, requests out.
 *
 * Samples of every container of a workload go into one aggregate per container name; a
 * recommendation is a percentile of it with a margin, within bounds that widen with ignorance.
 *
 * Call order: aw_vpa_config_init once; per container name an aggregate (aw_vpa_aggregate_init), per
 *             running container a zeroed struct aw_vpa_container; then aw_vpa_add and aw_vpa_oom as
 *             things happen, aw_vpa_recommend at any time.
 * Memory:     nothing is allocated; no struct holds a pointer, so all may be saved as bytes. For
 *             exchange with a real VPA use the checkpoint, which is small and has a version.
 * Threads:    pure functions of their arguments; an aggregate and its containers have one owner.
 *
 * Amounts are whole millicores and bytes, cut towards zero at every step, as upstream does.
 *
 * The trap: CPU counts every sample, memory one peak per day and container. So a memory figure is
 * never from less than the largest value of its day, and a leak shows at once, a release in days.
 *
 * Source: kubernetes/autoscaler vertical-pod-autoscaler/pkg/recommender at 55c37cd5, restated. See
 * docs/mechanisms/vpa.md.
 */
#ifndef AW_FALLBACK_VPA_H
#define AW_FALLBACK_VPA_H

#include "fallback/histogram.h"

#define AW_VPA_CONTAINERS_MAX     64u               /* containers of one pod */
#define AW_VPA_AMOUNT_MAX         100000000000000LL /* 1e14: what stands for "no upper bound" */
#define AW_VPA_CHECKPOINT_VERSION "v3"

enum aw_vpa_resource {
    AW_VPA_CPU,    /* millicores */
    AW_VPA_MEMORY, /* bytes */
    AW_VPA_RESOURCE_COUNT,
};

const char *aw_vpa_resource_name(enum aw_vpa_resource resource); /* "cpu", "memory" */

/* How one of the three figures comes about; each step follows the one before. */
struct aw_vpa_estimator {
    double percentile[AW_VPA_RESOURCE_COUNT];
    double margin;                /* added fraction */
    double confidence_multiplier; /* m and e of (1 + m / confidence)^e; e = 0: none */
    double confidence_exponent;
};

struct aw_vpa_config {
    struct aw_histogram_shape shape[AW_VPA_RESOURCE_COUNT];
    double sample_weight[AW_VPA_RESOURCE_COUNT];
    double unit[AW_VPA_RESOURCE_COUNT]; /* amounts per unit of the histogram: 1000 for cores */
    struct aw_vpa_estimator target, lower, upper;
    int64_t confidence_us;      /* so long a history, at a sample a minute, is confidence 1 */
    int64_t memory_interval_us; /* one peak of memory for each */
    uint32_t memory_intervals;  /* and so many make the window after which a silent state expires */
    double oom_ratio;
    int64_t oom_bytes_min;
    int64_t pod_min[AW_VPA_RESOURCE_COUNT];     /* shared evenly by the containers of a pod */
    int64_t max_allowed[AW_VPA_RESOURCE_COUNT]; /* where a policy says nothing; 0: none */
    int64_t round_to[AW_VPA_RESOURCE_COUNT];    /* up to a multiple; 1: unchanged */
};

/* What is known of one container name over all pods of a workload. */
struct aw_vpa_aggregate {
    struct aw_histogram usage[AW_VPA_RESOURCE_COUNT];
    int64_t created_us;
    int64_t first_sample_us, last_sample_us; /* of CPU */
    uint64_t sample_count;                   /* of CPU */
};

/* What is known of one running container. Zeroed is new. */
struct aw_vpa_container {
    bool has_cpu, has_memory; /* whether the times below mean anything */
    int64_t cpu_last_us;
    int64_t memory_last_us;
    int64_t window_end_us; /* of the present interval of memory */
    int64_t memory_peak;   /* within it, from usage ... */
    int64_t oom_peak;      /* ... and from running out */
};

/* What the owner of a workload says about one container. Zeroed: nothing. */
struct aw_vpa_policy {
    int64_t min_allowed[AW_VPA_RESOURCE_COUNT]; /* 0: none */
    int64_t max_allowed[AW_VPA_RESOURCE_COUNT]; /* 0: that of the config */
};

struct aw_vpa_recommendation {
    int64_t target[AW_VPA_RESOURCE_COUNT];
    int64_t lower[AW_VPA_RESOURCE_COUNT];           /* a request below is worth a restart */
    int64_t upper[AW_VPA_RESOURCE_COUNT];           /* and one above */
    int64_t uncapped_target[AW_VPA_RESOURCE_COUNT]; /* before min and max of the policy */
};

/* The status of a VerticalPodAutoscalerCheckpoint, of one container name. */
struct aw_vpa_checkpoint {
    char version[8];
    struct aw_histogram_checkpoint usage[AW_VPA_RESOURCE_COUNT];
    int64_t first_sample_us, last_sample_us;
    uint64_t sample_count;
};

/* The defaults of vpa-recommender. */
void aw_vpa_config_init(struct aw_vpa_config *config);
/* AW_ERR_CONFIG: percentiles outside 0 to 1 or not in order, negative margins, intervals that are
 * not positive, and the like. */
AW_NODISCARD enum aw_err aw_vpa_config_check(const struct aw_vpa_config *config,
                                             struct aw_diag *diag);

void aw_vpa_aggregate_init(struct aw_vpa_aggregate *aggregate, const struct aw_vpa_config *config,
                           int64_t now_us);
/* Takes one sample of usage in; false and nothing changed when it is negative, CPU not newer, or
 * memory older than the last. */
bool aw_vpa_add(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                struct aw_vpa_container *container, enum aw_vpa_resource resource, int64_t amount,
                int64_t time_us);
/* The container was killed for want of memory, or evicted with memory starved, while it asked for
 * `request_bytes`: counts as a peak of more than that. False: too old to matter. */
bool aw_vpa_oom(const struct aw_vpa_config *config, struct aw_vpa_aggregate *aggregate,
                struct aw_vpa_container *container, int64_t request_bytes, int64_t time_us);
/* Nothing came for the whole window of memory: forget it. */
bool aw_vpa_expired(const struct aw_vpa_aggregate *aggregate, const struct aw_vpa_config *config,
                    int64_t now_us);

/* What one container of a pod with `container_count` of them should ask for; lower <= target <=
 * upper. AW_ERR_NODATA before the first sample of CPU. `policy` may be NULL. */
AW_NODISCARD enum aw_err aw_vpa_recommend(const struct aw_vpa_config *config,
                                          const struct aw_vpa_aggregate *aggregate,
                                          uint32_t container_count,
                                          const struct aw_vpa_policy *policy,
                                          struct aw_vpa_recommendation *ret);

void aw_vpa_save(const struct aw_vpa_aggregate *aggregate, const struct aw_vpa_config *config,
                 struct aw_vpa_checkpoint *ret);
/* AW_ERR_UNSUPPORTED: another version; AW_ERR_FORMAT: see aw_histogram_load, or times in the wrong
 * order. On failure `ret` is untouched. */
AW_NODISCARD enum aw_err aw_vpa_load(struct aw_vpa_aggregate *ret,
                                     const struct aw_vpa_config *config,
                                     const struct aw_vpa_checkpoint *checkpoint, int64_t now_us,
                                     struct aw_diag *diag);

/* The steps of an estimate; for tests and case files within this room. */
int64_t aw__vpa_with_margin(int64_t amount, double margin);
double aw__vpa_confidence(const struct aw_vpa_aggregate *aggregate, int64_t confidence_us);
int64_t aw__vpa_with_confidence(int64_t amount, double multiplier, double exponent,
                                double confidence);
int64_t aw__vpa_pod_share(int64_t pod_min, uint32_t container_count);
int64_t aw__vpa_oom_bytes(const struct aw_vpa_config *config,
                          const struct aw_vpa_container *container, int64_t request_bytes);

#endif
