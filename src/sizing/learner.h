/*
 * learner.h - several heads, mixed by their errors on workloads that were kept from them.
 *
 * Folds of the groups learned from are kept back in turn; every head predicts them from random
 * shots. What came of it decides, for each number of shots: the weight of each head, how much a
 * head's failure to predict one shot from the others counts against it (so that a workload unlike
 * those known leaves the heads that only remember), how wide an interval must be to hold 90 %, and
 * how to choose what to measure next. Without workloads to learn from there are no folds: physics
 * and features speak then, with wide intervals.
 *
 * Call order: new, then predict and next, then free.
 * Memory:     everything is allocated at new.
 * Threads:    single owner (its networks remember whom they were asked about).
 */
#ifndef AW_SIZING_LEARNER_H
#define AW_SIZING_LEARNER_H

#include "sizing/net.h"

#define AW_SIZE_NETS_MAX 8u
#define AW_SIZE_KINDS    4u /* of shot counts that are weighed apart: 1, 2, 3, and 4 or more */

/* clang-format off */
#define AW_SIZE_HEAD_MAP(X)                                                     \
    X(FLAT,     "flat",     "the geometric mean of what was measured")          \
    X(ADDITIVE, "additive", "level of the workload, and mean effects elsewhere")\
    X(GP,       "gp",       "additive, and the covariance of configurations")   \
    X(WIDE,     "gp-wide",  "the same with features, and levels")               \
    X(NEAREST,  "nearest",  "workloads whose shape fits what was measured")     \
    X(FAMILY,   "family",   "a + b/share of a core, by least squares")          \
    X(PHYSICAL, "physical", "a part that scales and a part that does not")      \
    X(NET,      "network",  "a neural process on the meta-learner's embedding")
/* clang-format on */
enum aw_size_heads {
#define X(id, name, summary) AW_SIZE_HEAD_##id,
    AW_SIZE_HEAD_MAP(X)
#undef X
        AW_SIZE_HEADS
};
const char *aw_size_head_name(uint32_t head);

struct aw_size_settings {
    uint64_t seed;
    uint32_t nets;    /* whose mean is the network's word; 0: no network */
    uint32_t updates; /* of each */
    uint32_t folds;   /* of groups, kept back in turn */
    uint32_t draws;   /* of shots, for each workload kept back */
};
struct aw_size_settings aw_size_default(void);

/* clang-format off */
/*    id         lead  turns  near  what */
#define AW_SIZE_WAY_MAP(X)                                                                  \
    X(ORDER,     99,   false, 0,    "the list of what was best on average elsewhere")       \
    X(GAIN,      1,    false, 0,    "the largest expected gain, after one of the list")     \
    X(GAIN_TURN, 1,    true,  0,    "gain and list by turns")                               \
    X(BOTH,      1,    false, 0.2,  "gain, and gain of workloads like it")
/* clang-format on */
enum aw_size_ways {
#define X(id, lead, turns, near, what) AW_SIZE_WAY_##id,
    AW_SIZE_WAY_MAP(X)
#undef X
        AW_SIZE_WAYS
};

/* What was learned about mixing, for one number of shots. */
struct aw_size_mix {
    double weight[AW_SIZE_HEADS]; /* add up to 1 */
    double sharpness;             /* of how a head predicts one shot from the others */
    /* of the error's variance: a constant, and factors of the GP's variance, of the heads' spread
     * and of the square of how far one shot is from what the others say */
    double var[4];
    double low, high; /* quantiles of the error in deviations: 5 % and 95 % */
    double shift;     /* in variances: below the middle, MAPE is least */
    double kept_mape; /* on workloads kept back; NAN: there were none */
};

struct aw_size_prediction {
    double value[AW_SIZE_CONFIGS_MAX];     /* ln of the figure to report: least MAPE */
    double middle[AW_SIZE_CONFIGS_MAX];    /* ln, as likely above as below */
    double deviation[AW_SIZE_CONFIGS_MAX]; /* of ln */
    double low[AW_SIZE_CONFIGS_MAX], high[AW_SIZE_CONFIGS_MAX]; /* ln: 90 % lie between */
    double head[AW_SIZE_HEADS][AW_SIZE_CONFIGS_MAX];
    double weight[AW_SIZE_HEADS]; /* as they were for this workload */
};

struct aw_size_learner {
    const struct aw_size_table *table;
    struct aw_size_settings settings;
    struct aw_size_memory *memory;
    struct aw_size_net *net[AW_SIZE_NETS_MAX];
    uint32_t net_count;
    struct aw_size_mix mix[AW_SIZE_KINDS];
    uint32_t order[AW_SIZE_CONFIGS_MAX]; /* best on average elsewhere first */
    uint32_t way; /* to search, of AW_SIZE_WAY_MAP: the best for workloads kept back */
    struct aw_size_prediction scratch;
};

/* `value` is table->time or table->cost; workloads are those learned from, perhaps none. */
AW_NODISCARD enum aw_err aw_size_learner_new(const struct aw_size_table *table, const double *value,
                                             const uint32_t *workloads, uint32_t workload_count,
                                             const struct aw_size_settings *settings,
                                             struct aw_size_learner **ret_learner,
                                             struct aw_diag *diag);
void aw_size_learner_free(struct aw_size_learner *learner); /* NULL is a no-op */

void aw_size_predict(struct aw_size_learner *learner, const float *context, enum aw_size_told told,
                     const struct aw_size_shot *shots, uint32_t count,
                     struct aw_size_prediction *ret);

struct aw_size_next {
    uint32_t config; /* UINT32_MAX: all were measured */
    double gain;     /* expected, as a share of the best so far; 1 before the first */
};
/* What to measure next. `can` [config_count] says what may be measured; NULL: all. */
struct aw_size_next aw_size_next(struct aw_size_learner *learner, const float *context,
                                 const struct aw_size_shot *shots, uint32_t count, const bool *can);

#endif
