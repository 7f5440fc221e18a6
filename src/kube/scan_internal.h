/* scan_internal.h - the parts of a scan: what objects say, what was used, what follows. */
#ifndef AW_KUBE_SCAN_INTERNAL_H
#define AW_KUBE_SCAN_INTERNAL_H

#include "kube/scan.h"

/* Usage as buckets that grow by a twentieth, as VPA keeps it: no quantile is off by more. */
#define AW__SCAN_BUCKETS 256u
#define AW__SCAN_GROWTH  1.05

struct aw__scan_usage {
    float weight[AW__SCAN_BUCKETS];
    double max;
    uint32_t samples;
};

struct aw__scan_work { /* beside each row while the scan lasts */
    struct aw__scan_usage cpu, memory;
    double throttled_sum, oom_sum;
    uint32_t throttled_count;
};

#define AW__SCAN_CPU_FIRST    0.001     /* cores: the first bucket */
#define AW__SCAN_MEMORY_FIRST 1048576.0 /* bytes */

void aw__scan_push(struct aw__scan_usage *usage, double first, double value);
struct aw_kube_scan_usage aw__scan_usage_of(const struct aw__scan_usage *usage, double first);

/* The row of that workload; NULL: none. Rows are sorted. */
struct aw_kube_scan_row *aw__scan_find(const struct aw_kube_scan *scan, const char *ns,
                                       const char *kind, const char *name);
/* Whose pod it was, by the name that controllers give: NAME-HASH-xxxxx of a Deployment, NAME-0 of a
 * StatefulSet, NAME-xxxxx of a DaemonSet. NULL: its owner is not there. */
struct aw_kube_scan_row *aw__scan_owner(const struct aw_kube_scan *scan, const char *ns,
                                        const char *pod);

/* What the API has: workloads into sorted rows, then pods and autoscalers onto them. */
AW_NODISCARD enum aw_err aw__scan_objects(struct aw_kube_scan *scan,
                                          const struct aw_kube_scan_config *config,
                                          struct aw_diag *diag);
/* What was used. */
AW_NODISCARD enum aw_err aw__scan_history(struct aw_kube_scan *scan,
                                          const struct aw_kube_scan_config *config,
                                          struct aw__scan_work *work, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__scan_snapshot(struct aw_kube_scan *scan,
                                           const struct aw_kube_scan_config *config,
                                           struct aw__scan_work *work, struct aw_diag *diag);

/* Reads one workload of the list of `kind`. AW_ERR_FORMAT: not one. */
AW_NODISCARD enum aw_err aw__scan_read_workload(const json_t *object, const char *kind,
                                                struct aw_kube_scan_row *ret_row);
void aw__scan_read_pod(const struct aw_kube_scan *scan, const json_t *pod);

#endif
