/* metrics_internal.h - the parts of a reader of metrics: questions, the table, the two sources. */
#ifndef AW_KUBE_METRICS_INTERNAL_H
#define AW_KUBE_METRICS_INTERNAL_H

#include "base/hash_table.h"
#include "kube/metrics.h"

#define AW__NONE           UINT32_MAX
#define AW__NAME_BYTES     96u /* room for a pod's "namespace/name", on average */
#define AW__SELECTOR_MAX   512u
#define AW__API_SPACES_MAX 64u /* namespaces that are asked one by one; more: all at once */

/* How often a question is asked in a round. */
enum aw__ask {
    AW__ASK_NEVER,
    AW__ASK_ONCE,
    AW__ASK_SPACES,    /* for some namespaces at a time */
    AW__ASK_WORKLOADS, /* for each workload */
};

/* What a placeholder stands for. */
struct aw__fill {
    const char *window, *selector, *namespaces, *ns, *workload, *pods;
};

enum aw__ask aw__query_kind(const char *query);
/* Bytes of the question without what stands for $namespaces, and how often it has that. */
size_t aw__query_bytes(const char *query, const struct aw__fill *fill, uint32_t *ret_spaces);
/* Adds the question with its placeholders filled. */
void aw__query_fill(const char *query, const struct aw__fill *fill, struct aw_text *text);

/* A value of one entry, or the time of values. */
struct aw__metric_slot {
    int64_t at_us;       /* wall, on our clock */
    float value;         /* of a time: 0 */
    uint32_t round : 31; /* that brought it; 0: none */
    bool missing : 1;    /* it came, and was none: twice */
};
_Static_assert(sizeof(struct aw__metric_slot) == 16, "there are eleven for each pod of a cluster");

/* A pod, or a workload that has series of its own. */
struct aw__metric_entry {
    uint32_t key_at, key_len; /* in `names`: "namespace/pod", "namespace//workload" */
    uint64_t hash;
    int64_t seen_us;                              /* when anything came, wall */
    struct aw__metric_slot slot[AW_KUBE_QUERIES]; /* that of LATENCY: of the whole row of buckets */
};

/* Where an entry is, by the hash of its key. */
struct aw__metric_place {
    uint64_t hash;
    uint64_t entry;
};

struct aw__trouble {
    enum aw_err err; /* as it was told last */
    bool warned;
};

struct aw_kube_metrics {
    const struct aw_alloc *alloc;
    struct aw_kube_metrics_config config;
    struct aw_kube_metrics_state state;
    const char *query[AW_KUBE_QUERIES];
    enum aw__ask kind[AW_KUBE_QUERIES];
    uint32_t time_of[AW_KUBE_QUERIES]; /* AW__NONE: as old as the answer */
    char window[AW_KUBE_TIME_MAX], selector[AW__SELECTOR_MAX];

    uint32_t round;
    uint32_t good[AW_KUBE_QUERIES]; /* the last round in which it was answered whole */
    struct aw__trouble trouble[AW_KUBE_QUERIES + 2]; /* and of the two sources */

    struct aw__metric_entry *entry; /* [entry_max] */
    struct aw_hash_table by_key;    /* of struct aw__metric_place */
    float *bucket;                  /* [AW_KUBE_BUCKETS_MAX][entry_max]; NaN: not there */
    char *names;                    /* [names_size] */
    uint32_t entry_count, entry_max;
    size_t names_len, names_size;
    double bound[AW_KUBE_BUCKETS_MAX]; /* seconds, in the order in which they were met */
    uint32_t bound_count;

    uint32_t *order; /* [AW_KUBE_TARGETS_MAX]: targets by namespace */
    uint32_t *space; /* [AW_KUBE_TARGETS_MAX]: of `order`, where a namespace begins */
    uint32_t order_count, space_count;
    char *text;   /* [AW_KUBE_PROM_QUERY_MAX]: a question */
    char *spaces; /* [AW_KUBE_PROM_QUERY_MAX]: "shop|web" */
};

/* --- the table --- */

/* Drops entries without news for longer than `age_max_us`. */
void aw__metrics_forget(struct aw_kube_metrics *metrics, int64_t now_us);
/* `between` is "/" for a pod and "//" for a workload. AW__NONE: not there, or no room. */
uint32_t aw__metrics_add(struct aw_kube_metrics *metrics, const char *ns, const char *between,
                         const char *name, int64_t now_us);
/* A value that came twice in a round counts as missing. */
void aw__metrics_put(struct aw_kube_metrics *metrics, uint32_t entry, enum aw_kube_query_id id,
                     double value, int64_t at_us);
void aw__metrics_put_bucket(struct aw_kube_metrics *metrics, uint32_t entry, double bound_s,
                            double value, int64_t at_us);

/* Takes `text` for the answer to question `id` of a round about `targets`, without asking a server:
 * for the fuzzer. A NUL ends the text. */
AW_NODISCARD enum aw_err aw__metrics_feed(struct aw_kube_metrics *metrics,
                                          const struct aw_kube_target *targets, uint32_t count,
                                          enum aw_kube_query_id id, const char *text, size_t len,
                                          struct aw_diag *diag);

/* --- metrics.k8s.io --- */

struct aw__api_visitor {
    void (*pod)(void *ctx, const char *ns, const char *name, double cores, double bytes,
                int64_t at_us);
    void *ctx;
};
/* A PodMetricsList, cut at its items. Pods that make no sense are counted in `ret_dropped`.
 * AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw__metrics_api_decode(const json_t *rest, struct aw_kube_slices *items,
                                                const struct aw__api_visitor *visitor,
                                                uint64_t *ret_dropped, struct aw_diag *diag);

#endif
