/* metrics.c - counters to text. */
#include "service/metrics.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Upper bounds in seconds: 1, 2, 5 per decade up to 10 s, closer where SLOs lie. */
static const double bounds[AW__METRICS_BUCKETS] = {
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075,
    0.1,   0.15,  0.2,   0.3,   0.5,    0.75, 1,     2,    5,    10,   30};

static const char *const outcome_names[AW__OUTCOME_COUNT] = {"ok", "failed", "queue_full",
                                                             "not_ready", "client_gone"};

void aw__metrics_request(struct aw__metrics *metrics, int64_t duration_us)
{
    const double seconds = 1e-6 * (double)duration_us;
    uint32_t i = 0;
    while (i < AW__METRICS_BUCKETS && seconds > bounds[i])
        i++;
    metrics->bucket[i]++;
    metrics->duration_s += seconds;
}

void aw__metrics_run(struct aw__metrics *metrics, const struct aw_app *app,
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

static void head(struct aw_text *text, const char *name, const char *type, const char *help)
{
    aw_text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct aw_text *text, const char *name, const char *type, const char *help,
                double value)
{
    char buf[AW_TEXT_REAL_MAX];
    head(text, name, type, help);
    aw_text_add(text, "%s %s\n", name, aw_text_real(value, buf, sizeof buf));
}

static double resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    const int read = fscanf(file, "%llu %llu", &size, &resident);
    (void)fclose(file);
    return read == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

static void by_kind(struct aw_text *text, const struct aw__metrics *m, const char *name,
                    const char *help, const double *seconds, const uint64_t *counts)
{
    char buf[AW_TEXT_REAL_MAX];
    head(text, name, "counter", help);
    for (uint32_t i = 0; i < AW_RUNNER_KINDS; i++) {
        if (m->kind_runs[i])
            aw_text_add(text, "%s{kind=\"%s\"} %s\n", name, aw_runner_kind_name(i),
                        aw_text_real(seconds ? seconds[i] : (double)counts[i], buf, sizeof buf));
    }
}

#define P "aware_workload_"

static void histogram_print(struct aw_text *text, const struct aw__metrics *m)
{
    char buf[AW_TEXT_REAL_MAX];
    uint64_t sum = 0;
    head(text, P "request_duration_seconds", "histogram",
         "From the end of a request to its answer, waiting included.");
    for (uint32_t i = 0; i < AW__METRICS_BUCKETS; i++) {
        sum += m->bucket[i];
        aw_text_add(text, P "request_duration_seconds_bucket{le=\"%s\"} %llu\n",
                    aw_text_real(bounds[i], buf, sizeof buf), (unsigned long long)sum);
    }
    sum += m->bucket[AW__METRICS_BUCKETS];
    aw_text_add(text,
                P "request_duration_seconds_bucket{le=\"+Inf\"} %llu\n" P
                  "request_duration_seconds_sum %s\n" P "request_duration_seconds_count %llu\n",
                (unsigned long long)sum, aw_text_real(m->duration_s, buf, sizeof buf),
                (unsigned long long)sum);
}

size_t aw__metrics_print(const struct aw__metrics *m, const struct aw__gauges *now, char *buf,
                         size_t size)
{
    struct aw_text text;
    struct timespec cpu = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    aw_text_init(&text, buf, size);
    head(&text, P "info", "gauge", "The application that runs.");
    aw_text_add(&text, P "info{app=\"%s\"} 1\n", now->app);
    one(&text, P "ready", "gauge", "1 when requests are served.", now->ready && !now->draining);
    one(&text, P "in_flight", "gauge", "Requests being worked on or waiting for it.",
        now->in_flight);
    one(&text, P "queued", "gauge", "Of them, those waiting for a worker.", now->queued);
    one(&text, P "workers", "gauge", "Requests that can be worked on at once.", now->workers);
    one(&text, P "connections", "gauge", "Open connections.", now->connections);
    head(&text, P "requests_total", "counter", "Requests for the application, by their outcome.");
    for (uint32_t i = 0; i < AW__OUTCOME_COUNT; i++)
        aw_text_add(&text, P "requests_total{outcome=\"%s\"} %llu\n", outcome_names[i],
                    (unsigned long long)m->outcome[i]);
    one(&text, P "errors_total", "counter", "Requests that were not answered with 200.",
        (double)(m->outcome[AW__OUTCOME_FAILED] + m->outcome[AW__OUTCOME_FULL] +
                 m->outcome[AW__OUTCOME_NOTREADY]));
    histogram_print(&text, m);
    by_kind(&text, m, P "segment_runs_total", "Segments run, by kind.", NULL, m->kind_runs);
    by_kind(&text, m, P "segment_errors_total", "Segments that failed, by kind.", NULL,
            m->kind_errors);
    by_kind(&text, m, P "segment_cpu_seconds_total", "CPU time of segments, by kind.",
            m->kind_cpu_s, NULL);
    by_kind(&text, m, P "segment_wait_seconds_total", "Waiting of segments, by kind.",
            m->kind_wait_s, NULL);
    one(&text, P "read_bytes_total", "counter", "Read from files.", (double)m->read_bytes);
    one(&text, P "written_bytes_total", "counter", "Written to files.", (double)m->write_bytes);
    one(&text, P "sent_bytes_total", "counter", "Sent as results.", (double)m->send_bytes);
    one(&text, "process_cpu_seconds_total", "counter", "CPU time of the process.",
        (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec);
    one(&text, "process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes());
    AW_ASSERT(!text.cut);
    return text.len;
}
