/* metrics.c - counters to text. */
#include "service/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Upper bounds in seconds, closest where SLOs lie. */
static const double bounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075,
                                0.1,   0.15,  0.2,   0.3,  0.5,  1,    2,    5};

static const char *const outcome_names[AW__OUTCOME_COUNT] = {"ok", "failed", "queue_full",
                                                             "not_ready", "client_gone"};

void aw__service_metrics_init(struct aw__service_metrics *metrics)
{
    _Static_assert(sizeof bounds / sizeof *bounds <= AW_METRICS_BUCKETS_MAX, "bounds");
    *metrics = (struct aw__service_metrics){
        .duration = {.bounds = bounds, .bound_count = sizeof bounds / sizeof *bounds}};
}

void aw__service_metrics_run(struct aw__service_metrics *metrics, const struct aw_app *app,
                             const struct aw_run *run, bool failed)
{
    const uint32_t count = failed ? run->segment_failed + 1 : app->segment_count;
    for (uint32_t i = 0; i < count && i < app->segment_count; i++) {
        const int kind = aw_runner_kind(app->segment[i].name);
        AW_ASSERT(kind >= 0);
        metrics->kind_runs[kind]++;
        metrics->kind_cpu_s[kind] += 1e-6 * run->cpu_us[i];
        metrics->kind_wait_s[kind] += 1e-6 * run->wait_us[i];
        if (failed && i == run->segment_failed)
            metrics->kind_errors[kind]++;
    }
    metrics->read_bytes += run->read_bytes;
    metrics->write_bytes += run->write_bytes;
    metrics->send_bytes += run->send_bytes;
}

double aw__service_resident_bytes(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/statm", "re"); /* proc(5): pages in all, pages resident */
    const bool read = file && fgets(line, sizeof line, file);
    if (file)
        (void)fclose(file);
    const char *space = read ? strchr(line, ' ') : NULL;
    return space ? (double)strtoull(space, NULL, 10) * (double)sysconf(_SC_PAGESIZE) : 0;
}

static void one(struct aw_metrics *out, const char *name, enum aw_metric_type type,
                const char *unit, const char *help, double value)
{
    aw_metrics_family(out, name, type, unit, help);
    aw_metrics_sample(out, NULL, 0, value);
}

static void by_kind(struct aw_metrics *out, const struct aw__service_metrics *m, const char *name,
                    const char *unit, const char *help, const double *seconds,
                    const uint64_t *counts)
{
    aw_metrics_family(out, name, AW_METRIC_COUNTER, unit, help);
    for (uint32_t i = 0; i < AW_RUNNER_KINDS; i++) {
        const struct aw_metric_label label = {"kind", aw_runner_kind_name(i)};
        if (m->kind_runs[i])
            aw_metrics_sample(out, &label, 1, seconds ? seconds[i] : (double)counts[i]);
    }
}

#define P "aware_workload_"

static void print(struct aw_metrics *out, const struct aw__service_metrics *m,
                  const struct aw__service_gauges *now)
{
    struct timespec cpu = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    const struct aw_metric_label app = {"app", now->app};
    aw_metrics_family(out, "aware_workload", AW_METRIC_INFO, NULL, "The application that runs.");
    aw_metrics_sample(out, &app, 1, 1);
    one(out, P "ready", AW_METRIC_GAUGE, NULL, "1 when requests are served.", now->ready);
    one(out, P "in_flight", AW_METRIC_GAUGE, NULL, "Requests being worked on or waiting for it.",
        now->in_flight);
    one(out, P "queued", AW_METRIC_GAUGE, NULL, "Of them, those waiting for a worker.",
        now->queued);
    one(out, P "workers", AW_METRIC_GAUGE, NULL, "Requests that can be worked on at once.",
        now->workers);
    one(out, P "connections", AW_METRIC_GAUGE, NULL, "Open connections.", now->connections);
    aw_metrics_family(out, P "requests", AW_METRIC_COUNTER, NULL,
                      "Requests for the application, by their outcome.");
    for (uint32_t i = 0; i < AW__OUTCOME_COUNT; i++) {
        const struct aw_metric_label label = {"outcome", outcome_names[i]};
        aw_metrics_sample(out, &label, 1, (double)m->outcome[i]);
    }
    one(out, P "errors", AW_METRIC_COUNTER, NULL, "Requests that were answered with an error.",
        (double)(m->outcome[AW__OUTCOME_FAILED] + m->outcome[AW__OUTCOME_FULL] +
                 m->outcome[AW__OUTCOME_NOTREADY]));
    aw_metrics_family(out, P "request_duration_seconds", AW_METRIC_HISTOGRAM, "seconds",
                      "From the arrival of a request to its answer, waiting included.");
    aw_metrics_histogram(out, NULL, 0, &m->duration);
    by_kind(out, m, P "segment_runs", NULL, "Segments run, by kind.", NULL, m->kind_runs);
    by_kind(out, m, P "segment_errors", NULL, "Segments that failed, by kind.", NULL,
            m->kind_errors);
    by_kind(out, m, P "segment_cpu_seconds", "seconds", "CPU time of segments, by kind.",
            m->kind_cpu_s, NULL);
    by_kind(out, m, P "segment_wait_seconds", "seconds", "Waiting of segments, by kind.",
            m->kind_wait_s, NULL);
    one(out, P "read_bytes", AW_METRIC_COUNTER, "bytes", "Read from files.", (double)m->read_bytes);
    one(out, P "written_bytes", AW_METRIC_COUNTER, "bytes", "Written to files.",
        (double)m->write_bytes);
    one(out, P "sent_bytes", AW_METRIC_COUNTER, "bytes", "Sent as results.", (double)m->send_bytes);
    one(out, "process_cpu_seconds", AW_METRIC_COUNTER, "seconds", "CPU time of the process.",
        (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec);
    one(out, "process_resident_memory_bytes", AW_METRIC_GAUGE, "bytes", "Resident memory.",
        aw__service_resident_bytes());
}

enum aw_err aw__service_metrics_print(const struct aw__service_metrics *metrics,
                                      const struct aw__service_gauges *now, bool openmetrics,
                                      char *buf, size_t *ret_len)
{
    struct aw_metrics out;
    FILE *stream = fmemopen(buf, AW__SERVICE_METRICS_BYTES_MAX, "w");
    if (!stream)
        return AW_ERR_IO;
    aw_metrics_init(&out, stream, openmetrics);
    print(&out, metrics, now);
    enum aw_err err = aw_metrics_end(&out);
    if (fflush(stream) != 0)
        err = AW_ERR_IO; /* it did not fit */
    const long len = ftell(stream);
    (void)fclose(stream);
    if (!err)
        *ret_len = (size_t)len;
    return err;
}
