/* profile_internal.h - what the files of the profile reader share: objects while they are read. */
#ifndef AW_PROFILE_PROFILE_INTERNAL_H
#define AW_PROFILE_PROFILE_INTERNAL_H

#include "profile/profile.h"
#include "profile/profile_schema.h"

#define AW__PROFILE_CONTAINERS_MAX 16u /* of constraints.container, of containerPolicies */
#define AW__PROFILE_METRICS_MAX    16u /* of goals.metrics */
#define AW__PROFILE_BAD_MAX        256u

/* An entry of constraints.container or resourcePolicy.containerPolicies. */
struct aw__container {
    char name[AW_CLUSTER_NAME_MAX];
    uint32_t mode;              /* 0: Auto, 1: Off */
    struct aw_bounds limits;    /* 0: not said */
    uint32_t controlled;        /* bits of sizes, the first is CPU */
    uint32_t controlled_values; /* 0: RequestsAndLimits, 1: RequestsOnly */
};

/* An entry of goals.metrics. */
struct aw__metric {
    uint32_t type; /* index of its choices; 0: Resource */
    char resource[AW_CLUSTER_NAME_MAX];
    uint32_t target_type; /* 0: Utilization */
    uint32_t utilization; /* percent; 0: not said */
};

/* A MultidimPodAutoscaler while it is read: what the profile keeps, and what it is made of. */
struct aw__profile_draft {
    struct aw_profile profile;
    uint32_t metric_count, container_count, policy_count, recommender_count;
    struct aw__metric metric[AW__PROFILE_METRICS_MAX];
    struct aw__container container[AW__PROFILE_CONTAINERS_MAX];
    struct aw__container policy[AW__PROFILE_CONTAINERS_MAX];
    struct aw_bounds pod; /* 0: not said */
    struct {
        char name[AW_CLUSTER_NAME_MAX];
    } recommender[1];
    uint32_t controlled; /* bits of sizes, the first is CPU */
    uint32_t down_window_s;
    int64_t latency_us, timeout_us;
    double throughput_per_s;
};

struct aw__app_draft {
    struct aw_profile_app app;
    uint64_t seed;
    uint32_t index;
    int64_t cpu_millicores;
};

/* One object while it is read. */
struct aw__reading {
    const struct aw_tree *tree;
    const struct aw_node *root; /* the object: a document, or an item of a List */
    struct aw_profile_report *report;
    uint32_t bad_count;
    const struct aw_node *bad[AW__PROFILE_BAD_MAX]; /* where something was wrong */
};

/* The value at a path of keys below the object; NULL: absent, or null. */
const struct aw_node *aw__reading_at(const struct aw__reading *reading, const char *path);
/* Nothing was wrong at or below that path. */
bool aw__reading_sound(const struct aw__reading *reading, const char *path);
/* Tells what is wrong at a value; `diag` has its text. */
void aw__reading_fail(struct aw__reading *reading, const struct aw_node *node, enum aw_err err,
                      const struct aw_diag *diag);
void aw__reading_expected(struct aw__reading *reading, const struct aw_node *node, const char *fmt,
                          ...) AW_PRINTF(3, 4);
void aw__reading_warn(struct aw__reading *reading, const struct aw_node *node, const char *name,
                      const char *fmt, ...) AW_PRINTF(4, 5);
struct aw_schema_sink aw__reading_sink(struct aw__reading *reading);

/* A finding without an object around it: to the report. */
void aw__report_fail(struct aw_profile_report *report, enum aw_err err, const struct aw_diag *diag);
void aw__report_warn(struct aw_profile_report *report, const char *name,
                     const struct aw_diag *diag);

/* Decode the object into `ret`; whatever is wrong went to the report. The result is an error only
 * for want of memory. `alloc` serves what is needed in between. */
AW_NODISCARD enum aw_err aw__profile_read(struct aw__reading *reading, const struct aw_alloc *alloc,
                                          struct aw_profile *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__profile_read_app(struct aw__reading *reading,
                                              const struct aw_alloc *alloc,
                                              struct aw_profile_app *ret, struct aw_diag *diag);
void aw__profile_read_tenant(struct aw__reading *reading, struct aw_profile_tenant *ret);
/* What was not said of limits is no limit; `path` is that of the object with the limits. */
void aw__profile_terms_end(struct aw__reading *reading, const char *path,
                           struct aw_profile_terms *terms);
void aw__profile_read_cluster(struct aw__reading *reading, struct aw_profile_cluster *ret);
void aw__profile_cluster_defaults(struct aw_profile_cluster *cluster);

extern const struct aw_schema_field aw__profile_fields[]; /* base: struct aw__profile_draft */
extern const struct aw_schema_field aw__app_fields[];     /* base: struct aw__app_draft */
extern const struct aw_schema_field aw__cluster_fields[]; /* base: struct aw_profile_cluster */
extern const struct aw_schema_field aw__tenant_fields[];  /* base: struct aw_profile_tenant */
extern const struct aw_schema_field aw__tenancy_fields[]; /* base: struct aw__profile_draft */

#endif
