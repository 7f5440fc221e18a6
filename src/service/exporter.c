/* exporter.c - see exporter.h. */
#include "service/exporter.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "service/caller.h"
#include "trace/write.h"

#define TIMEOUT_US 1000000
#define FIRST      (-15) /* niceness */

struct aw__exporter {
    struct aw__caller caller;
    struct aw_names names;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    uint32_t first, count;
    struct aw__exporter_counts counts;
    struct aw_bytes bytes;
    struct aw_span batch[AW__EXPORTER_BATCH];
    struct aw_span ring[AW__EXPORTER_SPANS];
};

static uint32_t batch_take(struct aw__exporter *exporter)
{
    const uint32_t count =
        exporter->count < AW__EXPORTER_BATCH ? exporter->count : AW__EXPORTER_BATCH;
    for (uint32_t i = 0; i < count; i++)
        exporter->batch[i] = exporter->ring[(exporter->first + i) % AW__EXPORTER_SPANS];
    exporter->first = (exporter->first + count) % AW__EXPORTER_SPANS;
    exporter->count -= count;
    return count;
}

static bool batch_send(struct aw__exporter *exporter, uint32_t count)
{
    int status = 0;
    exporter->bytes.size = 0;
    if (aw_spans_write_otlp(exporter->batch, count, &exporter->names, &exporter->bytes))
        return false;
    const struct aw__caller_request request = {.method = "POST",
                                               .path = "/v1/traces",
                                               .headers = "Content-Type: application/x-protobuf"
                                                          "\r\n",
                                               .body = exporter->bytes.bytes,
                                               .len = exporter->bytes.size};
    return aw__caller_call(&exporter->caller, &request, &status, NULL) == AW_OK && status == 200;
}

static void *run(void *ctx)
{
    struct aw__exporter *exporter = ctx;
    /* first in line where its group is short of CPU: that is when its spans are wanted. Who may not
     * has to wait its turn. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), FIRST);
    pthread_mutex_lock(&exporter->lock);
    for (bool last = false; !last;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += AW__EXPORTER_US * 1000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        while (!exporter->stop && exporter->count < AW__EXPORTER_BATCH)
            if (pthread_cond_timedwait(&exporter->wake, &exporter->lock, &until) == ETIMEDOUT)
                break;
        last = exporter->stop;
        for (bool well = true; exporter->count && well;) {
            const uint32_t count = batch_take(exporter);
            exporter->counts.batches++;
            pthread_mutex_unlock(&exporter->lock);
            well = batch_send(exporter, count);
            pthread_mutex_lock(&exporter->lock);
            exporter->counts.sent += well ? count : 0;
            exporter->counts.refused += well ? 0 : count;
        }
    }
    exporter->counts.refused += exporter->count;
    pthread_mutex_unlock(&exporter->lock);
    return NULL;
}

enum aw_err aw__exporter_new(struct aw__exporter **ret, const struct sockaddr_in *address,
                             struct aw_diag *diag)
{
    struct aw__exporter *made = aw_alloc_new(NULL, 1, sizeof *made);
    pthread_condattr_t attributes;
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for spans");
    if (aw_names_init(&made->names, NULL)) {
        aw_alloc_free(NULL, made);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for spans");
    }
    aw__caller_init(&made->caller, address, TIMEOUT_US);
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&made->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    const int failed = pthread_create(&made->thread, NULL, run, made);
    made->running = !failed;
    if (failed) {
        aw__exporter_free(made);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for spans: %s", strerror(failed));
    }
    *ret = made;
    return AW_OK;
}

void aw__exporter_free(struct aw__exporter *exporter)
{
    if (!exporter)
        return;
    pthread_mutex_lock(&exporter->lock);
    exporter->stop = true;
    pthread_cond_signal(&exporter->wake);
    pthread_mutex_unlock(&exporter->lock);
    if (exporter->running)
        (void)pthread_join(exporter->thread, NULL);
    (void)pthread_cond_destroy(&exporter->wake);
    (void)pthread_mutex_destroy(&exporter->lock);
    aw__caller_deinit(&exporter->caller);
    aw_alloc_free(exporter->bytes.alloc, exporter->bytes.bytes);
    aw_names_deinit(&exporter->names);
    aw_alloc_free(NULL, exporter);
}

uint32_t aw__exporter_name(struct aw__exporter *exporter, const char *text)
{
    return aw_names_add(&exporter->names, text, strlen(text));
}

void aw__exporter_put(struct aw__exporter *exporter, const struct aw_span *span)
{
    pthread_mutex_lock(&exporter->lock);
    if (exporter->count == AW__EXPORTER_SPANS) {
        exporter->counts.full++;
    } else {
        exporter->ring[(exporter->first + exporter->count++) % AW__EXPORTER_SPANS] = *span;
        if (exporter->count == AW__EXPORTER_BATCH)
            pthread_cond_signal(&exporter->wake);
    }
    pthread_mutex_unlock(&exporter->lock);
}

void aw__exporter_counts(struct aw__exporter *exporter, struct aw__exporter_counts *ret)
{
    pthread_mutex_lock(&exporter->lock);
    *ret = exporter->counts;
    pthread_mutex_unlock(&exporter->lock);
}
