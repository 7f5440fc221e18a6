/* collector.c - see collector.h. */
#include "trace/collector.h"

#include <pthread.h>
#include <string.h>

#include "trace/relations.h"
#include "trace/span_store.h"
#include "trace/window.h"
#include "trace/write.h"

#define RETAIN_EVERY 60u /* ticks */
/* A sender who puts an id into every name fills the table; then everything begins anew. */
#define NAMES_FULL (AW_NAMES_MAX / 2)

struct aw_collector {
    struct aw_collector_config config;
    pthread_mutex_t lock;
    struct aw_spans spans; /* of the message that is being taken; names of all */
    struct aw_assembly *assembly;
    struct aw_request_builder *builder;
    struct aw_relations *relations;
    struct aw_span_store *store;
    struct aw_collector_counts counts;
    uint32_t ticks;
    bool writing, failed;
    struct aw_diag failure;
};

static void keep(void *ctx, const struct aw_span *spans, uint32_t count)
{
    struct aw_collector *collector = ctx;
    struct aw_request request;
    if (aw_request_build(collector->builder, spans, count, collector->relations, &request))
        return;
    aw_relations_learn(collector->relations, &request);
    aw_request_counts_add(&collector->counts.requests, &request.counts);
    if (!collector->store || collector->failed)
        return;
    enum aw_err err =
        collector->writing ? AW_OK : aw_span_store_begin(collector->store, &collector->failure);
    collector->writing = collector->writing || !err;
    if (!err)
        err = aw_span_store_add(collector->store, &request,
                                aw_window_type(&collector->spans.names, &request),
                                &collector->spans.names, &collector->failure);
    collector->failed = err != AW_OK;
}

enum aw_err aw_collector_new(struct aw_collector **ret, const struct aw_collector_config *config,
                             struct aw_diag *diag)
{
    struct aw_collector *made = aw_alloc_new(NULL, 1, sizeof *made);
    const uint32_t spans_max = config->spans_max ? config->spans_max : AW_COLLECTOR_SPANS;
    const struct aw_assembly_config assembly = {
        .quiet_us = config->quiet_us, .spans_max = spans_max, .traces_max = spans_max};
    enum aw_err err = AW_OK;
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    made->config = *config;
    made->config.spans_max = spans_max;
    pthread_mutex_init(&made->lock, NULL);
    if (aw_spans_init(&made->spans, AW_COLLECTOR_BATCH, NULL) ||
        aw_assembly_new(&made->assembly, &assembly, NULL) ||
        aw_request_builder_new(&made->builder, AW_TRACE_SPANS_MAX, NULL) ||
        aw_relations_new(&made->relations, NULL))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (!err && config->store)
        err = aw_span_store_open(&made->store, config->store, false, diag);
    if (err)
        aw_collector_free(made);
    else
        *ret = made;
    return err;
}

/* As it came; Zipkin's as OTLP of what is known of its spans. */
static void pass_on(struct aw_collector *collector, const char *bytes, size_t size,
                    enum aw_span_format format)
{
    struct aw_forward *forward = collector->config.forward;
    if (format == AW_SPANS_OTLP || format == AW_SPANS_OTLP_JSON) {
        aw_forward_put(forward, bytes, size, format);
        return;
    }
    struct aw_bytes made = {0};
    if (!aw_spans_write_otlp(collector->spans.at, collector->spans.count, &collector->spans.names,
                             &made))
        aw_forward_put(forward, (const char *)made.bytes, made.size, AW_SPANS_OTLP);
    aw_alloc_free(made.alloc, made.bytes);
}

enum aw_err aw_collector_take(struct aw_collector *collector, const char *bytes, size_t size,
                              enum aw_span_format format, int64_t now_us, uint64_t *ret_rejected,
                              struct aw_diag *diag)
{
    pthread_mutex_lock(&collector->lock);
    enum aw_err err = AW_OK;
    if (aw_assembly_waiting(collector->assembly) >
        AW_COLLECTOR_FULL_SHARE * collector->config.spans_max) {
        collector->counts.turned_away++;
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "%u spans are waiting already; send them again",
                      aw_assembly_waiting(collector->assembly));
    }
    aw_spans_reset(&collector->spans);
    if (!err)
        err = aw_spans_read(&collector->spans, "body", bytes, size, format, NULL, diag);
    if (!err) {
        for (uint32_t i = 0; i < collector->spans.count; i++)
            (void)aw_assembly_push(collector->assembly, &collector->spans.at[i], now_us);
        if (collector->config.forward)
            pass_on(collector, bytes, size, format);
        if (collector->config.seen)
            collector->config.seen(collector->config.ctx, &collector->spans, now_us);
        collector->counts.refused += collector->spans.refused;
        *ret_rejected = collector->spans.refused + collector->spans.dropped;
    }
    pthread_mutex_unlock(&collector->lock);
    return err;
}

/* Ends a transaction; the first failure is told, later ones are counted. */
static enum aw_err settle(struct aw_collector *collector, struct aw_diag *diag)
{
    const bool before = collector->counts.store_failures > 0;
    if (!collector->writing && !collector->failed)
        return AW_OK;
    enum aw_err err =
        collector->failed ? AW_ERR_IO : aw_span_store_commit(collector->store, &collector->failure);
    if (err && collector->writing)
        aw_span_store_rollback(collector->store);
    collector->writing = collector->failed = false;
    collector->counts.store_failures += err != AW_OK;
    if (!err || before)
        return AW_OK;
    if (diag)
        *diag = collector->failure;
    return err;
}

static void begin_anew(struct aw_collector *collector)
{
    aw_assembly_flush(collector->assembly, keep, collector);
    struct aw_spans spans = {0};
    struct aw_relations *relations = NULL;
    if (aw_spans_init(&spans, AW_COLLECTOR_BATCH, NULL) || aw_relations_new(&relations, NULL)) {
        aw_spans_deinit(&spans);
        return; /* as full as it is; new names are (other) */
    }
    aw_spans_deinit(&collector->spans);
    aw_relations_free(collector->relations);
    collector->spans = spans;
    collector->relations = relations;
}

enum aw_err aw_collector_tick(struct aw_collector *collector, int64_t now_us, struct aw_diag *diag)
{
    const struct aw_collector_config *config = &collector->config;
    pthread_mutex_lock(&collector->lock);
    aw_assembly_poll(collector->assembly, now_us, keep, collector);
    if (collector->spans.names.count > NAMES_FULL)
        begin_anew(collector);
    enum aw_err err = settle(collector, diag);
    if (!err && collector->store && (config->keep_us || config->traces_max) &&
        collector->ticks++ % RETAIN_EVERY == 0)
        err = aw_span_store_retain(collector->store,
                                   config->keep_us ? (now_us - config->keep_us) * 1000 : 0,
                                   config->traces_max, diag);
    pthread_mutex_unlock(&collector->lock);
    return err;
}

enum aw_err aw_collector_flush(struct aw_collector *collector, struct aw_diag *diag)
{
    pthread_mutex_lock(&collector->lock);
    aw_assembly_flush(collector->assembly, keep, collector);
    const enum aw_err err = settle(collector, diag);
    pthread_mutex_unlock(&collector->lock);
    return err;
}

struct aw_collector_counts aw_collector_counts(struct aw_collector *collector)
{
    pthread_mutex_lock(&collector->lock);
    struct aw_collector_counts counts = collector->counts;
    counts.assembly = aw_assembly_counts(collector->assembly);
    counts.waiting = aw_assembly_waiting(collector->assembly);
    pthread_mutex_unlock(&collector->lock);
    return counts;
}

void aw_collector_free(struct aw_collector *collector)
{
    if (!collector)
        return;
    if (collector->assembly && collector->builder)
        aw_assembly_flush(collector->assembly, keep, collector);
    if (collector->store)
        (void)settle(collector, NULL);
    aw_span_store_close(collector->store);
    aw_assembly_free(collector->assembly);
    aw_request_builder_free(collector->builder);
    aw_relations_free(collector->relations);
    aw_spans_deinit(&collector->spans);
    pthread_mutex_destroy(&collector->lock);
    aw_alloc_free(NULL, collector);
}
