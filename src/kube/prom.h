/*
 * prom.h - asks a Prometheus (its HTTP API, v1) and tells the series that it answers with.
 *
 * Anything that speaks this API will do: Prometheus, Thanos, Mimir, VictoriaMetrics. It is reached
 * at an address of its own, or through the API server (the proxy of a Service), so that a person at
 * a desk needs no port-forward and no second credential.
 *
 * Call order: open, ask as often as you like, close (before the client of the API server).
 * Memory:     answers are jansson values, dropped before a call returns; a visitor copies what it
 *             wants to keep. Bounded by AW_KUBE_PROM_ANSWER_MAX and AW_KUBE_PROM_SERIES_MAX.
 * Threads:    those of the client.
 *
 * The trap: the time beside a value of an aggregation is when the question was evaluated, not when
 * anything was measured. How old the samples are must be asked separately: timestamp(metric).
 */
#ifndef AW_KUBE_PROM_H
#define AW_KUBE_PROM_H

#include "kube/client.h"
#include "kube/series.h"

#define AW_KUBE_PROM_QUERY_MAX  32768u /* bytes of a question, with its NUL */
#define AW_KUBE_PROM_PROXY_MAX  4096u  /* of one that is part of an address */
#define AW_KUBE_PROM_PREFIX_MAX 700u   /* of the path before /api/v1, with its NUL */
#define AW_KUBE_PROM_SERIES_MAX 200000u
#define AW_KUBE_PROM_POINTS_MAX 11000u /* of one series; Prometheus itself refuses more */
#define AW_KUBE_PROM_ANSWER_MAX ((size_t)64 << 20)
#define AW_KUBE_PROM_TIMEOUT_US 10000000

/* Where it is. Everything is borrowed until close. */
struct aw_kube_prom_config {
    const char *url;     /* "http://prometheus:9090/prefix"; NULL: behind the API server */
    const char *service; /* "monitoring/prometheus:9090", of the cluster of `kube`; NULL: `url` */
    struct aw_kube *kube;
    const char *token_file;       /* read anew each minute; NULL: none. With `url` alone */
    const char *ca_file;          /* NULL: the system's */
    const struct aw_clock *clock; /* NULL: the real one */
};

struct aw_kube_prom;

/* AW_ERR_CONFIG: neither or both of url and service, or not one; AW_ERR_NOMEM. Nothing is sent. */
AW_NODISCARD enum aw_err aw_kube_prom_open(struct aw_kube_prom **ret_prom,
                                           const struct aw_kube_prom_config *config,
                                           const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_kube_prom_close(struct aw_kube_prom *prom); /* NULL is a no-op */

/* How long a question may be here, with its NUL: through the API server it goes into the address,
 * because a POST there needs another right. */
size_t aw_kube_prom_query_max(const struct aw_kube_prom *prom);

/* Told of every series of an answer that has at least one finite value. Of an instant question
 * there is one point, of a range all finite ones, in order. */
struct aw_kube_prom_visitor {
    void (*series)(void *ctx, const struct aw_kube_labels *labels,
                   const struct aw_kube_prom_point *points, uint32_t count);
    void *ctx;
};

/* What came with the series of an answer; filled after a failure too. */
struct aw_kube_prom_answer {
    int code;         /* HTTP; 0: no answer */
    uint32_t series;  /* told */
    uint32_t dropped; /* series or points that were not a finite number with a time */
    bool warned;      /* the server says that it is partial, or has some other reserve */
    char warning[AW_KUBE_MESSAGE_MAX]; /* the first of them, one printable line */
};

/* What is true now. AW_ERR_FORMAT: malformed question or answer; AW_ERR_UNAVAILABLE,
 * AW_ERR_DEADLINE, AW_ERR_CONFIG (rights), AW_ERR_LIMIT, AW_ERR_RANGE (the server could not work it
 * out: 422). After a failure some may have been told. */
AW_NODISCARD enum aw_err aw_kube_prom_ask(struct aw_kube_prom *prom, const char *query,
                                          int64_t timeout_us,
                                          const struct aw_kube_prom_visitor *visitor,
                                          struct aw_kube_prom_answer *ret_answer,
                                          struct aw_diag *diag);

/* What was true from `from_s` to `to_s`, every `step_s` seconds. */
struct aw_kube_prom_range {
    int64_t from_s, to_s, step_s;
};
AW_NODISCARD enum aw_err aw_kube_prom_ask_range(struct aw_kube_prom *prom, const char *query,
                                                const struct aw_kube_prom_range *range,
                                                int64_t timeout_us,
                                                const struct aw_kube_prom_visitor *visitor,
                                                struct aw_kube_prom_answer *ret_answer,
                                                struct aw_diag *diag);

/* The decoder of both, for tests, of a text that a NUL ends: vector, matrix and scalar. Series are
 * reported one by one, also those before a malformed one; `ret_answer` is that of a whole
 * answer. */
AW_NODISCARD enum aw_err aw_kube_prom_decode(const char *text, size_t len,
                                             const struct aw_kube_prom_visitor *visitor,
                                             struct aw_kube_prom_answer *ret_answer,
                                             struct aw_diag *diag);

#endif
