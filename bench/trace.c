/*
 * trace.c - `aware-bench trace`: spans per second and core, from the bytes of OTLP requests to the
 * critical path of every request, and how long it takes to find a culprit.
 *
 * Requests are like TrainTicket's larger ones: 163 spans of ten services, eight attributes each, of
 * which most concern nobody here. Each service sends what it has in messages of 512 spans, as SDKs
 * do, so the spans of a trace come in many pieces. Time is that of the thread.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "bench/bench.h"
#include "trace/analysis.h"
#include "trace/classifier.h"
#include "trace/read.h"
#include "trace/write.h"

#define SERVICES        10u
#define BATCH_SPANS     512u
#define TRACES          4000u
#define ROUNDS          5u  /* of which the quickest counts: what else is on the machine slows us */
#define WINDOW_REQUESTS 62u /* some 10 000 spans */
#define RATE_GOAL       1e6
#define LOCALIZE_GOAL   10.0 /* ms */
#define MS              INT64_C(1000000)

static double thread_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct maker {
    struct aw_spans spans;
    struct aw_rng rng;
    uint32_t services[SERVICES], pods[SERVICES], operations[2 * SERVICES];
    uint64_t trace;
    int64_t slow_ns; /* more of it in service 5 */
};

static int64_t ns_between(struct maker *maker, int64_t low, int64_t high)
{
    return low + (int64_t)(aw_rng_double(&maker->rng) * (double)(high - low));
}

static struct aw_span *add(struct maker *maker, uint32_t service, uint64_t parent, int64_t start_ns)
{
    struct aw_span *span = aw_spans_push(&maker->spans);
    AW_ASSERT(span);
    span->trace_hi = maker->trace * UINT64_C(0x9e3779b97f4a7c15);
    span->trace_lo = maker->trace;
    span->id = aw_rng_u64(&maker->rng) | 1;
    span->parent = parent;
    span->service = maker->services[service];
    span->instance = maker->pods[service];
    span->start_ns = start_ns;
    return span;
}

/* A server that works, calls up to four others in sequence, and queries twice. Returns its end. */
static int64_t serve(struct maker *maker, uint32_t service, uint64_t parent, int64_t start_ns,
                     uint32_t depth)
{
    const uint32_t place = maker->spans.count;
    int64_t now = start_ns + ns_between(maker, MS, 2 * MS);
    const uint64_t id = add(maker, service, parent, start_ns)->id;
    now += service == 5 ? maker->slow_ns : 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_span *query = add(maker, service, id, now);
        query->kind = AW_SPAN_CLIENT;
        query->operation = maker->operations[SERVICES + service];
        query->end_ns = now += ns_between(maker, MS, 3 * MS);
    }
    for (uint32_t i = 0; depth < 3 && i < 4 - depth; i++) {
        const uint32_t callee = 1 + (service * 3 + i * 2 + depth) % (SERVICES - 1);
        const uint32_t client = maker->spans.count;
        const uint64_t client_id = add(maker, service, id, now)->id;
        const int64_t end = serve(maker, callee, client_id, now + MS, depth + 1);
        struct aw_span *span = &maker->spans.at[client];
        span->kind = AW_SPAN_CLIENT;
        span->operation = maker->operations[callee];
        span->end_ns = now = end + ns_between(maker, MS, 2 * MS);
    }
    struct aw_span *span = &maker->spans.at[place];
    span->kind = AW_SPAN_SERVER;
    span->operation = maker->operations[service];
    span->end_ns = now + MS;
    return span->end_ns;
}

static enum aw_err make(struct maker *maker, uint32_t traces, int64_t slow_ns)
{
    char text[64];
    const enum aw_err err =
        maker->spans.max ? AW_OK : aw_spans_init(&maker->spans, AW_SPANS_MAX, NULL);
    aw_rng_init(&maker->rng, 1 + (uint64_t)slow_ns, 0);
    maker->slow_ns = slow_ns;
    for (uint32_t i = 0; i < SERVICES && !err; i++) {
        int len = snprintf(text, sizeof text, "ts-number-%u-service", i);
        maker->services[i] = aw_names_add(&maker->spans.names, text, (size_t)len);
        len = snprintf(text, sizeof text, "ts-number-%u-service-6f6cfc45b-h5m2n", i);
        maker->pods[i] = aw_names_add(&maker->spans.names, text, (size_t)len);
        len = snprintf(text, sizeof text, "GET /api/v1/number%uservice/{id}", i);
        maker->operations[i] = aw_names_add(&maker->spans.names, text, (size_t)len);
        len = snprintf(text, sizeof text, "SELECT ts.table_of_%u", i);
        maker->operations[SERVICES + i] = aw_names_add(&maker->spans.names, text, (size_t)len);
    }
    for (uint32_t i = 0; i < traces && !err; i++) {
        maker->trace++;
        serve(maker, 0, 0, INT64_C(1700000000) * 1000 * MS + i * 20 * MS, 0);
    }
    return err;
}

/* ---- messages ---- */

static void put(struct aw_bytes *out, const void *bytes, size_t size)
{
    AW_ASSERT(out->size + size <= out->room);
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void put_length(struct aw_bytes *out, uint8_t key, size_t size)
{
    uint8_t head[8] = {key};
    size_t used = 1;
    for (; size >= 0x80; size >>= 7)
        head[used++] = (uint8_t)(size | 0x80);
    head[used++] = (uint8_t)size;
    put(out, head, used);
}

/* Eight attributes as HTTP instrumentation has them. */
static void put_attributes(struct aw_bytes *out)
{
    static const char *const pairs[][2] = {
        {"http.request.method", "GET"},
        {"url.scheme", "http"},
        {"server.address", "ts-number-5-service.default.svc"},
        {"network.peer.address", "10.244.3.117"},
        {"url.full", "http://ts-number-5-service:12031/api/v1/service/8b1a9953c4611296"},
        {"user_agent.original", "Java-http-client/11.0.16"},
        {"thread.name", "http-nio-12031-exec-7"},
        {"network.protocol.version", "1.1"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const size_t key = strlen(pairs[i][0]), value = strlen(pairs[i][1]);
        put_length(out, 9 << 3 | 2, 2 + key + 2 + 2 + value);
        put_length(out, 1 << 3 | 2, key);
        put(out, pairs[i][0], key);
        put_length(out, 2 << 3 | 2, 2 + value);
        put_length(out, 1 << 3 | 2, value);
        put(out, pairs[i][1], value);
    }
}

struct messages {
    struct aw_bytes all;
    size_t *at; /* where each begins; [count + 1] */
    uint32_t count;
};

/* A span as the writer makes it, with attributes behind: the scope's length is set afterwards. */
static enum aw_err put_message(struct messages *messages, const struct aw_span *spans,
                               uint32_t count, const struct aw_names *names)
{
    struct aw_bytes one = {0};
    static uint8_t body[BATCH_SPANS * 1024];
    struct aw_bytes scope = {.bytes = body, .room = sizeof body};
    struct aw_bytes *out = &messages->all;
    enum aw_err err = AW_OK;
    size_t resource = 0;
    for (uint32_t i = 0; i < count && !err; i++) {
        one.size = 0;
        err = aw_spans_write_otlp(&spans[i], 1, names, &one);
        if (err)
            break;
        /* heads of six bytes: request, resource (with its length), scope, span */
        const uint8_t *at = one.bytes + 6;
        resource = 6 + (size_t)((at[1] & 0x7f) | (at[2] & 0x7f) << 7);
        const uint8_t *span = at + resource + 6 + 6;
        const size_t span_size = one.size - (size_t)(span - one.bytes);
        struct aw_bytes attributes = {.bytes = (uint8_t[1024]){0}, .room = 1024};
        put_attributes(&attributes);
        put_length(&scope, 2 << 3 | 2, span_size + attributes.size);
        put(&scope, span, span_size);
        put(&scope, attributes.bytes, attributes.size);
    }
    if (!err) {
        size_t inner = scope.size, head = 2; /* a key, and a length in as many bytes as it needs */
        for (; inner >= 0x80; inner >>= 7)
            head++;
        messages->at[messages->count++] = out->size;
        put_length(out, 1 << 3 | 2, resource + head + scope.size);
        put(out, one.bytes + 6, resource);
        put_length(out, 2 << 3 | 2, scope.size);
        put(out, scope.bytes, scope.size);
        messages->at[messages->count] = out->size;
    }
    aw_alloc_free(NULL, one.bytes);
    return err;
}

static enum aw_err make_messages(struct messages *messages, const struct maker *maker)
{
    static struct aw_span batch[SERVICES][BATCH_SPANS];
    uint32_t used[SERVICES] = {0};
    const uint32_t count = maker->spans.count;
    enum aw_err err = AW_OK;
    messages->all.room = (size_t)count * 900;
    messages->all.bytes = aw_alloc_new(NULL, messages->all.room, 1);
    messages->at = aw_alloc_new(NULL, count / BATCH_SPANS + SERVICES + 2, sizeof *messages->at);
    if (!messages->all.bytes || !messages->at)
        return AW_ERR_NOMEM;
    for (uint32_t i = 0; i < count && !err; i++) {
        uint32_t service = 0;
        while (maker->services[service] != maker->spans.at[i].service)
            service++;
        batch[service][used[service]++] = maker->spans.at[i];
        if (used[service] == BATCH_SPANS) {
            err = put_message(messages, batch[service], BATCH_SPANS, &maker->spans.names);
            used[service] = 0;
        }
    }
    for (uint32_t i = 0; i < SERVICES && !err; i++) {
        if (used[i])
            err = put_message(messages, batch[i], used[i], &maker->spans.names);
    }
    return err;
}

/* ---- measuring ---- */

struct sink {
    struct aw_analysis analysis;
    uint64_t spans, requests;
    int64_t path_ns;
    enum aw_err err;
};

static void complete(void *ctx, const struct aw_span *spans, uint32_t count)
{
    struct sink *sink = ctx;
    struct aw_request request;
    const enum aw_err err =
        aw_request_build(sink->analysis.builder, spans, count, sink->analysis.relations, &request);
    sink->err = err ? err : sink->err;
    if (err)
        return;
    sink->spans += count;
    sink->requests++;
    for (uint32_t i = 0; i < request.section_count; i++)
        sink->path_ns += request.sections[i].end_ns - request.sections[i].start_ns;
    sink->path_ns -= aw_request_latency_ns(&request);
}

static enum aw_err pipeline(const struct messages *messages, uint32_t spans, double *ret_per_s,
                            struct aw_diag *diag)
{
    struct aw_assembly *assembly = NULL;
    struct aw_spans list = {0};
    struct sink sink = {0};
    const struct aw_assembly_config config = {
        .quiet_us = 2000, .spans_max = 400000, .traces_max = 20000};
    enum aw_err err = aw_spans_init(&list, BATCH_SPANS * 2, NULL);
    if (!err)
        err = aw_analysis_init(&sink.analysis, NULL);
    if (!err)
        err = aw_assembly_new(&assembly, &config, NULL);
    const double begin = thread_s();
    for (uint32_t i = 0; i < messages->count && !err; i++) {
        err = aw_spans_read_otlp(&list, "bench", messages->all.bytes + messages->at[i],
                                 messages->at[i + 1] - messages->at[i], diag);
        for (uint32_t k = 0; k < list.count; k++)
            aw_assembly_push(assembly, &list.at[k], (int64_t)i * 10);
        aw_spans_reset(&list);
        aw_assembly_poll(assembly, (int64_t)i * 10, complete, &sink);
    }
    if (!err)
        aw_assembly_flush(assembly, complete, &sink);
    *ret_per_s = spans / (thread_s() - begin);
    if (!err && (sink.err || sink.spans != spans || sink.requests != TRACES || sink.path_ns))
        err =
            aw_fail(diag, AW_ERR_CHECK,
                    "%ju of %u spans in %ju requests arrived, paths are off "
                    "by %jd ns",
                    (uintmax_t)sink.spans, spans, (uintmax_t)sink.requests, (intmax_t)sink.path_ns);
    aw_assembly_free(assembly);
    aw_analysis_deinit(&sink.analysis);
    aw_spans_deinit(&list);
    return err;
}

static bool take(void *ctx, const struct aw_request *request)
{
    return aw_window_add(ctx, request);
}

/* From spans to a culprit: trees, paths, profile, pursuit, features, judgement. */
static enum aw_err localize(struct aw__bench *bench, struct aw_diag *diag)
{
    struct maker maker = {0};
    struct aw_window window;
    struct aw_span_profile base = {0};
    struct aw_analysis analysis = {0};
    struct aw_classifier classifier;
    struct aw_localization found = {0};
    double best = HUGE_VAL;
    uint32_t spans = 0;
    enum aw_err err = aw_classifier_shipped(&classifier, diag);
    if (!err)
        err = make(&maker, WINDOW_REQUESTS, 0);
    if (!err)
        err = aw_analysis_init(&analysis, NULL);
    if (!err)
        err = aw_window_init(&window, &maker.spans.names, NULL);
    if (err)
        return err;
    aw_analysis_learn(&analysis, &maker.spans);
    aw_analysis_each(&analysis, &maker.spans, take, &window);
    err = aw_profile_make(&base, &window, 0, 1, NULL);
    for (uint32_t round = 0; round < ROUNDS && !err; round++) {
        aw_spans_reset(&maker.spans);
        aw_window_reset(&window);
        err = make(&maker, WINDOW_REQUESTS, 40 * MS);
        spans = maker.spans.count;
        const double begin = thread_s();
        aw_analysis_each(&analysis, &maker.spans, take, &window);
        err = err ? err : aw_localize(&found, &window, &base, NULL, 0, NULL);
        if (!err)
            aw_classifier_judge(&classifier, &found);
        const double took = 1e3 * (thread_s() - begin);
        best = took < best ? took : best;
        if (!err && (!found.confident || found.culprits[0].service != maker.services[5]))
            err = aw_fail(diag, AW_ERR_CHECK, "the culprit was not found");
        aw_localization_deinit(&found);
    }
    struct aw__bench_figure *figure = aw__bench_add(bench, "ms", "localization of %u spans", spans);
    figure->value = best;
    figure->goal = LOCALIZE_GOAL;
    figure->lower_is_better = true;
    aw_profile_deinit(&base);
    aw_window_deinit(&window);
    aw_analysis_deinit(&analysis);
    aw_spans_deinit(&maker.spans);
    return err;
}

enum aw_err aw__bench_trace(struct aw__bench *bench, struct aw_diag *diag)
{
    struct maker maker = {0};
    struct messages messages = {0};
    double best = 0, per_s = 0;
    enum aw_err err = make(&maker, TRACES, 0);
    if (!err)
        err = make_messages(&messages, &maker);
    for (uint32_t i = 0; i < ROUNDS && !err; i++) {
        err = pipeline(&messages, maker.spans.count, &per_s, diag);
        best = per_s > best ? per_s : best;
    }
    if (!err) {
        aw__bench_add(bench, "bytes", "a span of OTLP")->value =
            (double)messages.all.size / maker.spans.count;
        aw__bench_add(bench, "spans", "a request")->value = (double)maker.spans.count / TRACES;
        struct aw__bench_figure *figure =
            aw__bench_add(bench, "spans/s", "OTLP bytes to critical path");
        figure->value = best;
        figure->goal = RATE_GOAL;
        err = localize(bench, diag);
    }
    aw_alloc_free(NULL, messages.all.bytes);
    aw_alloc_free(NULL, messages.at);
    aw_spans_deinit(&maker.spans);
    return err;
}
