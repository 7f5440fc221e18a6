/* metrics.c - families, samples and histograms as text. */
#include "telemetry/metrics.h"

#include "base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* [a-zA-Z_][a-zA-Z0-9_]*: a colon is allowed too, and kept for rules of who scrapes. */
static bool is_name(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* `quotes`: within a label's value a quote is escaped too; within help it is not. */
static void put_escaped(FILE *out, const char *text, bool quotes)
{
    const char *end = text + strlen(text);
    while (text < end) {
        const size_t bytes = aw_text_utf8_length(text, (size_t)(end - text));
        if (bytes == 0)
            putc('?', out);
        else if (*text == '\\')
            fputs("\\\\", out);
        else if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' && quotes)
            fputs("\\\"", out);
        else
            fwrite(text, 1, bytes, out);
        text += bytes ? bytes : 1;
    }
}

static void put_value(FILE *out, double value)
{
    char text[AW_TEXT_REAL_MAX];
    if (isinf(value))
        fputs(value > 0 ? "+Inf" : "-Inf", out);
    else
        fputs(aw_text_real(value, text, sizeof text), out);
}

void aw_metrics_init(struct aw_metrics *metrics, FILE *out, bool openmetrics)
{
    *metrics = (struct aw_metrics){.out = out, .openmetrics = openmetrics};
}

bool aw_metrics_wants_openmetrics(const char *accept)
{
    return accept && strcasestr(accept, "application/openmetrics-text");
}

void aw_metrics_family(struct aw_metrics *metrics, const char *name, enum aw_metric_type type,
                       const char *unit, const char *help)
{
    static const char *const types[] = {"gauge", "counter", "histogram", "info"};
    const char *end = type == AW_METRIC_COUNTER ? "_total" : type == AW_METRIC_INFO ? "_info" : "";
    FILE *out = metrics->out;
    AW_ASSERT(is_name(name) && strlen(name) < sizeof metrics->name);
    AW_ASSERT(!unit || ends_with(name, unit));
    metrics->type = type;
    snprintf(metrics->name, sizeof metrics->name, "%s", name);
    if (metrics->openmetrics) {
        fprintf(out, "# TYPE %s %s\n", name, types[type]);
        if (unit)
            fprintf(out, "# UNIT %s %s\n", name, unit);
        fprintf(out, "# HELP %s ", name);
    } else {
        /* there the suffix is part of the name, and an info is a gauge */
        fprintf(out, "# HELP %s%s ", name, end);
    }
    put_escaped(out, help, metrics->openmetrics);
    putc('\n', out);
    if (!metrics->openmetrics)
        fprintf(out, "# TYPE %s%s %s\n", name, end, type == AW_METRIC_INFO ? "gauge" : types[type]);
}

/* name{a="b"}, `suffix` behind the name; `le` NULL: no such label. */
static void put_series(struct aw_metrics *metrics, const char *suffix,
                       const struct aw_metric_label *labels, uint32_t count, const char *le)
{
    FILE *out = metrics->out;
    AW_ASSERT(*metrics->name && count <= AW_METRICS_LABELS_MAX);
    fprintf(out, "%s%s", metrics->name, suffix);
    for (uint32_t i = 0; i < count; i++) {
        AW_ASSERT(is_name(labels[i].name));
        fprintf(out, "%c%s=\"", i ? ',' : '{', labels[i].name);
        put_escaped(out, labels[i].value, true);
        putc('"', out);
    }
    if (le)
        fprintf(out, "%cle=\"%s\"", count ? ',' : '{', le);
    if (count || le)
        putc('}', out);
    putc(' ', out);
}

void aw_metrics_sample(struct aw_metrics *metrics, const struct aw_metric_label *labels,
                       uint32_t label_count, double value)
{
    AW_ASSERT(metrics->type != AW_METRIC_HISTOGRAM);
    if (isnan(value))
        return;
    put_series(metrics,
               metrics->type == AW_METRIC_COUNTER ? "_total"
               : metrics->type == AW_METRIC_INFO  ? "_info"
                                                  : "",
               labels, label_count, NULL);
    put_value(metrics->out, value);
    putc('\n', metrics->out);
}

void aw_metrics_histogram(struct aw_metrics *metrics, const struct aw_metric_label *labels,
                          uint32_t label_count, const struct aw_metric_histogram *histogram)
{
    uint64_t count = 0;
    char bound[AW_TEXT_REAL_MAX + 2];
    AW_ASSERT(metrics->type == AW_METRIC_HISTOGRAM);
    AW_ASSERT(histogram->bound_count <= AW_METRICS_BUCKETS_MAX);
    for (uint32_t i = 0; i <= histogram->bound_count; i++) {
        count += histogram->bucket[i];
        if (i == histogram->bound_count)
            snprintf(bound, sizeof bound, "+Inf");
        else /* OpenMetrics wants "1.0" where the other takes either */
            snprintf(
                bound, sizeof bound, "%s%s",
                aw_text_real(histogram->bounds[i], (char[AW_TEXT_REAL_MAX]){0}, AW_TEXT_REAL_MAX),
                histogram->bounds[i] == floor(histogram->bounds[i]) ? ".0" : "");
        put_series(metrics, "_bucket", labels, label_count, bound);
        fprintf(metrics->out, "%" PRIu64 "\n", count);
    }
    put_series(metrics, "_sum", labels, label_count, NULL);
    put_value(metrics->out, histogram->sum);
    putc('\n', metrics->out);
    put_series(metrics, "_count", labels, label_count, NULL);
    fprintf(metrics->out, "%" PRIu64 "\n", count);
}

enum aw_err aw_metrics_end(struct aw_metrics *metrics)
{
    if (metrics->openmetrics)
        fputs("# EOF\n", metrics->out);
    return ferror(metrics->out) ? AW_ERR_IO : AW_OK;
}

/* --- many ------------------------------------------------------------------------------------- */

void aw_metrics_one_of(struct aw_metrics *metrics, struct aw_metric_rest *rest, uint32_t index,
                       const struct aw_metric_label *labels, uint32_t label_count, double value)
{
    if (index < AW_METRICS_SERIES_MAX) {
        aw_metrics_sample(metrics, labels, label_count, value);
        return;
    }
    if (!isfinite(value))
        return;
    if (rest->merge == AW_METRIC_MAX)
        rest->value = rest->count ? fmax(rest->value, value) : value;
    else
        rest->value += value;
    rest->count++;
}

void aw_metrics_rest(struct aw_metrics *metrics, struct aw_metric_rest *rest,
                     const struct aw_metric_label *labels, uint32_t label_count)
{
    if (rest->count)
        aw_metrics_sample(metrics, labels, label_count,
                          rest->merge == AW_METRIC_MEAN ? rest->value / (double)rest->count
                                                        : rest->value);
    *rest = (struct aw_metric_rest){.merge = rest->merge};
}

void aw_metric_observe(struct aw_metric_histogram *histogram, double value)
{
    uint32_t i = 0;
    if (!isfinite(value))
        return;
    while (i < histogram->bound_count && value > histogram->bounds[i])
        i++;
    histogram->bucket[i]++;
    histogram->sum += value;
}
