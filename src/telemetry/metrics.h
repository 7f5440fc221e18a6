/*
 * metrics.h - figures in the two text formats that Prometheus reads: OpenMetrics 1.0 and the older
 * one, version 0.0.4.
 *
 * Call order: init; family, then samples of that family, again and again; end.
 * Memory:     nothing is allocated; text goes to the caller's stream as it is made.
 * Threads:    single owner.
 *
 * A label may have as many values as its caller lets it: code that labels by workload hands them to
 * aw_metrics_one_of, which writes the first ones by name and merges the rest into one series, so
 * that a fleet does not flood its scraper.
 *
 * The trap: the name of a counter is given without "_total" and that of an info without "_info";
 * the formats differ in where they put it.
 */
#ifndef AW_TELEMETRY_METRICS_H
#define AW_TELEMETRY_METRICS_H

#include <aware/err.h>

#include <stdio.h>

#define AW_METRICS_NAME_MAX    96u   /* bytes of a family's name, with its NUL */
#define AW_METRICS_LABELS_MAX  4u    /* of one sample */
#define AW_METRICS_BUCKETS_MAX 16u   /* of a histogram, without the one for everything */
#define AW_METRICS_SERIES_MAX  1000u /* workloads with series of their own; the rest share one */
#define AW_METRICS_OTHER       "other"
#define AW_METRICS_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define AW_METRICS_TEXT_FORMAT "text/plain; version=0.0.4; charset=utf-8"

enum aw_metric_type { AW_METRIC_GAUGE, AW_METRIC_COUNTER, AW_METRIC_HISTOGRAM, AW_METRIC_INFO };

struct aw_metrics {
    FILE *out; /* borrowed */
    bool openmetrics;
    enum aw_metric_type type; /* of the family at hand */
    char name[AW_METRICS_NAME_MAX];
};

struct aw_metric_label {
    const char *name;
    const char *value; /* anything: what is not UTF-8 becomes '?' */
};

/* Counts of what was at most each bound; the last bucket has everything else. */
struct aw_metric_histogram {
    const double *bounds; /* [bound_count] rising; borrowed */
    uint32_t bound_count;
    uint64_t bucket[AW_METRICS_BUCKETS_MAX + 1]; /* not cumulative */
    double sum;
};

/* What more series than may have a name come to. Zeroed but for `merge` is empty. */
enum aw_metric_merge { AW_METRIC_SUM, AW_METRIC_MEAN, AW_METRIC_MAX };
struct aw_metric_rest {
    enum aw_metric_merge merge;
    uint64_t count; /* of finite values */
    double value;   /* sum, or largest */
};

void aw_metrics_init(struct aw_metrics *metrics, FILE *out, bool openmetrics);
/* Whether an Accept header asks for OpenMetrics (NULL: no). */
bool aw_metrics_wants_openmetrics(const char *accept);

/* Begins a family. `unit` NULL: none; else the name ends with it, as OpenMetrics demands. An
 * invalid name is a bug. */
void aw_metrics_family(struct aw_metrics *metrics, const char *name, enum aw_metric_type type,
                       const char *unit, const char *help);
/* A value that is not a number is left out: a gap says what NaN would, and breaks no sum. */
void aw_metrics_sample(struct aw_metrics *metrics, const struct aw_metric_label *labels,
                       uint32_t label_count, double value);
void aw_metrics_histogram(struct aw_metrics *metrics, const struct aw_metric_label *labels,
                          uint32_t label_count, const struct aw_metric_histogram *histogram);
/* AW_ERR_IO: the stream failed, and what it has is not whole. */
AW_NODISCARD enum aw_err aw_metrics_end(struct aw_metrics *metrics);

/* The `index`-th of many: a sample of its own below AW_METRICS_SERIES_MAX, else part of the rest.
 */
void aw_metrics_one_of(struct aw_metrics *metrics, struct aw_metric_rest *rest, uint32_t index,
                       const struct aw_metric_label *labels, uint32_t label_count, double value);
/* Writes the rest under these labels, if there is any; it is empty then. */
void aw_metrics_rest(struct aw_metrics *metrics, struct aw_metric_rest *rest,
                     const struct aw_metric_label *labels, uint32_t label_count);

/* A value that is not finite is dropped. */
void aw_metric_observe(struct aw_metric_histogram *histogram, double value);

#endif
