/* member.c - see member.h. */
#include "service/member.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "service/server.h"

#define IDLE_US     75000000
#define TICK_US     100000
#define STACK_BYTES ((size_t)512 << 10)
#define ALONE_ARG   "alone"

struct about { /* a connection's request */
    struct aw__traceparent from;
    int64_t arrived_ns;
    uint32_t bytes;
    uint16_t path; /* enum path */
    uint16_t op;
    bool alone;
};
_Static_assert(sizeof(struct about) <= AW__SERVER_USER_BYTES, "about a request");

enum path { PATH_VISIT, PATH_BULK, PATH_HEALTH, PATH_METRICS, PATH_NONE };

struct visit {
    aw__token token;
    struct about about;
    bool well;
};

struct member {
    struct aw_member_config config;
    struct aw__visits *visits;
    struct aw__server *server;
    char *filler; /* [AW_MEMBER_BULK_MAX] */
    bool draining;
    int64_t stop_at_us;
    uint32_t in_flight;
    uint64_t visited, failed, turned_away;
    int64_t visit_us; /* of all, from arrival to answer */

    pthread_mutex_t lock;
    pthread_cond_t work;
    bool stop, told;
    struct visit waiting[AW_MEMBER_QUEUE_MAX], done[AW_MEMBER_QUEUE_MAX];
    uint32_t first, count, done_count;
    pthread_t *thread; /* [config.threads] */
    uint32_t thread_count;
};

static void *work(void *ctx)
{
    struct member *member = ctx;
    pthread_mutex_lock(&member->lock);
    for (;;) {
        while (!member->stop && member->count == 0)
            pthread_cond_wait(&member->work, &member->lock);
        if (member->stop)
            break;
        struct visit visit = member->waiting[member->first];
        member->first = (member->first + 1) % AW_MEMBER_QUEUE_MAX;
        member->count--;
        pthread_mutex_unlock(&member->lock);
        visit.well = aw__visits_run(member->visits, visit.about.op, &visit.about.from,
                                    visit.about.arrived_ns, visit.about.alone);
        pthread_mutex_lock(&member->lock);
        member->done[member->done_count++] = visit; /* in flight together: never more than these */
        if (!member->told) {
            member->told = true;
            aw__server_notify(member->server);
        }
    }
    pthread_mutex_unlock(&member->lock);
    return NULL;
}

/* --- requests --------------------------------------------------------------------------------- */

static void answer_text(struct member *member, aw__token token, int status, const char *text)
{
    const struct aw__answer answer = {
        .status = status, .type = "text/plain", .body = text, .len = strlen(text)};
    aw__server_answer(member->server, token, &answer);
}

static void answer_bytes(struct member *member, aw__token token, size_t len)
{
    if (len > AW_MEMBER_BULK_MAX)
        len = AW_MEMBER_BULK_MAX;
    const struct aw__answer answer = {.status = 200,
                                      .type = "application/octet-stream",
                                      .body = member->filler,
                                      .len = len,
                                      .ready = len,
                                      .borrowed = true};
    aw__server_answer(member->server, token, &answer);
}

/* The operation that a path names; AW_GRAPH_NONE. */
static uint32_t op_of(const struct member *member, struct aw_http1_span path)
{
    static const char prefix[] = "/op/";
    const struct aw_graph_app *app = member->config.visits.app;
    char name[AW_GRAPH_NAME_MAX] = "";
    if (path.len > strlen(prefix) && path.len - strlen(prefix) < sizeof name &&
        !memcmp(path.at, prefix, strlen(prefix))) {
        memcpy(name, path.at + strlen(prefix), path.len - strlen(prefix));
        name[path.len - strlen(prefix)] = '\0';
    } else if (!aw_http1_is(path, "/")) {
        return AW_GRAPH_NONE;
    }
    for (uint32_t i = 0; i < app->op_count; i++)
        if (app->ops[i].service == member->config.visits.service && !strcmp(app->ops[i].name, name))
            return i;
    return AW_GRAPH_NONE;
}

static enum aw_err begin(void *self, struct aw__server *server, aw__token token,
                         const struct aw_http1_head *head)
{
    struct member *member = self;
    struct about *about = aw__server_user(server, token);
    about->arrived_ns = 1000 * aw_clock_now_us(NULL);
    if (aw_http1_is(head->path, "/healthz") || aw_http1_is(head->path, "/readyz")) {
        about->path = PATH_HEALTH;
        return AW_OK;
    }
    if (aw_http1_is(head->path, "/metrics")) {
        about->path = PATH_METRICS;
        return AW_OK;
    }
    if (aw_http1_is(head->path, "/bulk")) {
        char text[24] = "";
        uint64_t bytes = 0;
        const struct aw_http1_span value = aw_http1_query(head->query, "bytes");
        if (value.at && value.len < sizeof text)
            memcpy(text, value.at, value.len);
        if (aw_text_parse_u64(text, &bytes) || bytes > AW_MEMBER_BULK_MAX)
            return AW_ERR_USAGE;
        about->path = PATH_BULK;
        about->bytes = (uint32_t)bytes;
        return AW_OK;
    }
    const uint32_t op = op_of(member, head->path);
    about->path = op == AW_GRAPH_NONE ? PATH_NONE : PATH_VISIT;
    about->op = (uint16_t)op;
    about->alone = aw_http1_query(head->query, ALONE_ARG).at != NULL;
    const struct aw_http1_span trace = aw_http1_find(head, "traceparent");
    if (!trace.at || !aw__traceparent_read(trace.at, trace.len, &about->from))
        about->from = (struct aw__traceparent){0};
    about->from.background = aw_http1_find(head, "x-background").at != NULL;
    return AW_OK;
}

static enum aw_err body(void *self, aw__token token, const char *bytes, size_t len)
{
    (void)self;
    (void)token;
    (void)bytes;
    (void)len;
    return AW_OK;
}

static void answer_metrics(struct member *member, aw__token token)
{
    char text[4096];
    struct aw__visits_counts counts;
    struct aw_text out;
    aw__visits_counts(member->visits, &counts);
    pthread_mutex_lock(&member->lock);
    const uint32_t queued = member->count;
    pthread_mutex_unlock(&member->lock);
    const struct {
        const char *name, *type;
        uint64_t value;
    } rows[] = {
        {"aware_member_visits_total", "counter", member->visited},
        {"aware_member_visits_failed_total", "counter", member->failed},
        {"aware_member_visits_turned_away_total", "counter", member->turned_away},
        {"aware_member_calls_total", "counter", counts.calls},
        {"aware_member_calls_failed_total", "counter", counts.calls_failed},
        {"aware_member_background_dropped_total", "counter", counts.background_dropped},
        {"aware_member_disk_bytes_total", "counter", counts.disk_bytes},
        {"aware_member_disk_failed_total", "counter", counts.disk_failed},
        {"aware_member_spans_sent_total", "counter", counts.spans.sent},
        {"aware_member_spans_dropped_full_total", "counter", counts.spans.full},
        {"aware_member_spans_dropped_refused_total", "counter", counts.spans.refused},
        {"aware_member_queued", "gauge", queued},
        {"aware_member_in_flight", "gauge", member->in_flight},
    };
    aw_text_init(&out, text, sizeof text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        aw_text_add(&out, "# TYPE %s %s\n%s %" PRIu64 "\n", rows[i].name, rows[i].type,
                    rows[i].name, rows[i].value);
    answer_text(member, token, 200, text);
}

static void visit_queue(struct member *member, aw__token token, const struct about *about)
{
    if (member->in_flight >= AW_MEMBER_QUEUE_MAX) {
        member->turned_away++;
        answer_text(member, token, 503, "too many requests are waiting\n");
        return;
    }
    member->in_flight++;
    pthread_mutex_lock(&member->lock);
    member->waiting[(member->first + member->count++) % AW_MEMBER_QUEUE_MAX] =
        (struct visit){.token = token, .about = *about};
    pthread_cond_signal(&member->work);
    pthread_mutex_unlock(&member->lock);
}

static void end(void *self, struct aw__server *server, aw__token token)
{
    struct member *member = self;
    const struct about *about = aw__server_user(server, token);
    switch ((enum path)about->path) {
    case PATH_VISIT:
        visit_queue(member, token, about);
        break;
    case PATH_BULK:
        answer_bytes(member, token, about->bytes);
        break;
    case PATH_HEALTH:
        if (member->draining)
            answer_text(member, token, 503, "draining\n");
        else
            answer_text(member, token, 200, "ok\n");
        break;
    case PATH_METRICS:
        answer_metrics(member, token);
        break;
    case PATH_NONE:
        answer_text(member, token, 404, "no such operation of this service\n");
        break;
    }
}

static void over(void *self, aw__token token, bool answered)
{
    (void)self;
    (void)token;
    (void)answered;
}

static void timer(void *self, struct aw__server *server, aw__token token)
{
    (void)self;
    (void)server;
    (void)token;
}

static void wake(void *self, struct aw__server *server)
{
    struct member *member = self;
    (void)server;
    pthread_mutex_lock(&member->lock);
    member->told = false;
    while (member->done_count) {
        const struct visit visit = member->done[--member->done_count];
        pthread_mutex_unlock(&member->lock);
        member->in_flight--;
        member->visited++;
        member->failed += !visit.well;
        if (visit.well)
            answer_bytes(member, visit.token,
                         (size_t)member->config.visits.app->ops[visit.about.op].net_bytes);
        else
            answer_text(member, visit.token, 502, "a call or the disk failed\n");
        pthread_mutex_lock(&member->lock);
    }
    pthread_mutex_unlock(&member->lock);
}

static void tick(void *self, struct aw__server *server, int signal)
{
    struct member *member = self;
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    if (signal && !member->draining) {
        aw_log_info(member->config.log, "draining", AW_LOG_INT("in_flight", member->in_flight));
        member->draining = true;
        member->stop_at_us = now_us + member->config.drain_us;
        aw__server_drain(server);
    }
    if (member->draining && now_us >= member->stop_at_us)
        aw__server_stop(server);
}

static const struct aw__handler handler = {begin, body, end, over, timer, wake, tick};

/* --- life ------------------------------------------------------------------------------------- */

static enum aw_err threads_start(struct member *member, struct aw_diag *diag)
{
    pthread_attr_t attributes;
    int failed = 0;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (!failed && member->thread_count < member->config.threads) {
        failed = pthread_create(&member->thread[member->thread_count], &attributes, work, member);
        member->thread_count += !failed;
    }
    (void)pthread_attr_destroy(&attributes);
    return failed ? aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed)) : AW_OK;
}

static void member_free(struct member *member)
{
    pthread_mutex_lock(&member->lock);
    member->stop = true;
    pthread_cond_broadcast(&member->work);
    pthread_mutex_unlock(&member->lock);
    for (uint32_t i = 0; i < member->thread_count; i++)
        (void)pthread_join(member->thread[i], NULL);
    aw__visits_free(member->visits);
    aw__server_free(member->server);
    (void)pthread_cond_destroy(&member->work);
    (void)pthread_mutex_destroy(&member->lock);
    aw_alloc_free(member->config.alloc, member->thread);
    aw_alloc_free(member->config.alloc, member->filler);
    aw_alloc_free(member->config.alloc, member);
}

enum aw_err aw_member_run(const struct aw_member_config *config, struct aw_diag *diag)
{
    struct member *member = aw_alloc_new(config->alloc, 1, sizeof *member);
    const struct aw__server_config server = {.listen_fd = config->listen_fd,
                                             .unix_fd = config->unix_fd,
                                             .signal_fd = config->signal_fd,
                                             .connections_max = config->connections_max,
                                             .idle_us = IDLE_US,
                                             .tick_us = TICK_US,
                                             .handler = &handler,
                                             .self = member};
    if (!member)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a service");
    member->config = *config;
    (void)pthread_mutex_init(&member->lock, NULL);
    (void)pthread_cond_init(&member->work, NULL);
    member->filler = aw_alloc_new(config->alloc, AW_MEMBER_BULK_MAX, 1);
    member->thread = aw_alloc_new(config->alloc, config->threads, sizeof *member->thread);
    enum aw_err err = member->filler && member->thread
                          ? AW_OK
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory for a service");
    err = err ? err : aw__visits_new(&member->visits, &config->visits, diag);
    err = err ? err : aw__server_new(&server, config->alloc, &member->server, diag);
    err = err ? err : threads_start(member, diag);
    err = err ? err : aw__server_run(member->server, diag);
    const uint32_t left = member->in_flight;
    member_free(member);
    if (err == AW_ERR_INTERRUPTED)
        err = aw_fail(diag, AW_ERR_DEADLINE, "%u requests were still in flight", left);
    return err;
}
