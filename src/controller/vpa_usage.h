/*
 * vpa_usage.h - what every container of some namespaces uses now, looked up by name.
 *
 * metrics.k8s.io is asked where the server has it, as the stock VPA does; a Prometheus (cAdvisor)
 * where it has not, or where it does not answer.
 *
 * Call order: init; per round read, then find as often as wanted; deinit.
 * Memory:     a table at init for `max` containers. Answers are jansson's, dropped within read.
 * Threads:    those of the client. read waits for the network until its deadline.
 *
 * The trap: what one round brought is gone with the next. A container that find does not know has
 * no figure; it does not use nothing.
 */
#ifndef AW_CONTROLLER_VPA_USAGE_H
#define AW_CONTROLLER_VPA_USAGE_H

#include "base/hash_table.h"
#include "kube/metrics.h"

#define AW__USAGE_AHEAD_US \
    INT64_C(3600000000)             /* a sample of a later future is a broken clock's \
                                     */
#define AW__USAGE_NS_MAX      1024u /* namespaces of one round */
#define AW__USAGE_QUESTION_NS 32u   /* of them, those of one question */

struct aw__usage_sources {
    struct aw_kube *kube;
    const char *metrics_version; /* of metrics.k8s.io; NULL or "": it is not there */
    struct aw_kube_prom *prom;   /* NULL: none */
    const char *selector;        /* further matchers, "cluster=\"a\""; NULL: none */
    const struct aw_clock *clock;
};

/* What one container used. Times are those of the metrics source; AW_KUBE_NEVER: missing. */
struct aw__usage_sample {
    uint64_t id; /* of namespace, pod and container */
    int64_t cpu_millicores, memory_bytes;
    int64_t cpu_at_us, memory_at_us;
};

struct aw__usage {
    struct aw_hash_table samples; /* of struct aw__usage_sample */
    uint64_t dropped;             /* figures that were none, or of the future; since init */
    uint64_t left_out;
};

/* AW_ERR_NOMEM; then `usage` is zeroed. */
AW_NODISCARD enum aw_err aw__usage_init(struct aw__usage *usage, uint32_t max,
                                        const struct aw_alloc *alloc);
void aw__usage_deinit(struct aw__usage *usage); /* zeroed is a no-op */

/* Forgets what was, and reads all that is to be had of these namespaces until `deadline_us`
 * (monotonic). The error is the first that no other source made up for; figures may be there all
 * the same. AW_ERR_NOTFOUND: there is no source. AW_ERR_INTERRUPTED: told to stop. */
AW_NODISCARD enum aw_err aw__usage_read(struct aw__usage *usage,
                                        const struct aw__usage_sources *sources,
                                        const char *const *ns, uint32_t count, int64_t deadline_us,
                                        struct aw_diag *diag);
/* NULL: nothing is known of it. */
const struct aw__usage_sample *aw__usage_find(const struct aw__usage *usage, const char *ns,
                                              const char *pod, const char *container);

/* The decoder of metrics.k8s.io, for tests: a PodMetricsList. AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw__usage_decode(struct aw__usage *usage, const json_t *body,
                                          int64_t now_us, struct aw_diag *diag);

#endif
