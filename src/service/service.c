/* service.c - the handler of requests, the workers, and the life of the process. */
#include "service/service.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "service/costs.h"
#include "service/metrics.h"
#include "service/server.h"

#define IDLE_US     75000000 /* nginx's keepalive_timeout */
#define TICK_US     100000
#define TURN_US     30000000 /* for who measures before; then everybody for themselves */
#define LOOK_US     10000    /* between two looks whether it has */
#define PAYLOAD_MAX 64.0
#define STACK_BYTES ((size_t)512 << 10) /* of a worker */

enum phase { STARTING, READY, FAILED };

struct task {
    aw__token token;
    double payload;
    int64_t arrived_us, taken_us;
    enum aw_err err;
    struct aw_run run;
    struct aw_diag diag;
};

struct worker {
    struct service *service;
    pthread_t thread;
    uint32_t index;
};

/* What a connection's request is about. */
struct about {
    int64_t arrived_us;
    double payload;
    uint32_t path; /* enum path */
    bool queued;   /* it is with the workers */
    bool openmetrics;
};

enum path { PATH_APP, PATH_HEALTH, PATH_READY, PATH_METRICS, PATH_NONE, PATH_METHOD };

struct service {
    struct aw_service_config config;
    struct aw_runner *runner;
    struct aw__server *server;
    struct aw__service_metrics metrics;
    char *filler; /* [AW_SERVICE_ANSWER_BYTES_MAX]: bodies of answers */
    int64_t born_us;
    bool terminating, draining;
    int64_t drain_at_us, stop_at_us;
    uint32_t in_flight; /* of the serving thread: queued or worked on */

    pthread_mutex_t lock;
    pthread_cond_t work;
    bool stop, done_told;
    struct task *task;                /* [task_max] */
    uint32_t *waiting, *done, *spare; /* rings and a stack of indices into `task` */
    uint32_t task_max, waiting_first, waiting_count, done_count, spare_count;
    struct worker *worker; /* [worker_count] */
    uint32_t worker_started;

    pthread_t starter;
    bool starter_started;
    _Atomic enum phase phase;
    struct aw_diag start_diag;
    enum aw_err start_err;
    void *ballast;
    size_t ballast_bytes;
};

/* ---- workers ---- */

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct service *service = worker->service;
    pthread_mutex_lock(&service->lock);
    for (;;) {
        while (!service->stop && service->waiting_count == 0)
            pthread_cond_wait(&service->work, &service->lock);
        if (service->stop)
            break;
        const uint32_t index = service->waiting[service->waiting_first];
        service->waiting_first = (service->waiting_first + 1) % service->task_max;
        service->waiting_count--;
        pthread_mutex_unlock(&service->lock);
        struct task *task = &service->task[index];
        task->taken_us = aw_clock_monotonic_us(NULL);
        task->err =
            aw_runner_run(service->runner, worker->index, task->payload, &task->run, &task->diag);
        pthread_mutex_lock(&service->lock);
        service->done[service->done_count++] = index;
        if (!service->done_told) { /* one wake for all that end before it is heard */
            service->done_told = true;
            aw__server_notify(service->server);
        }
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

static enum aw_err workers_start(struct service *service, struct aw_diag *diag)
{
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    enum aw_err err = AW_OK;
    while (!err && service->worker_started < service->config.runner.worker_count) {
        struct worker *worker = &service->worker[service->worker_started];
        *worker = (struct worker){.service = service, .index = service->worker_started};
        const int failed = pthread_create(&worker->thread, &attributes, work, worker);
        if (failed)
            err = aw_fail(diag, AW_ERR_UNAVAILABLE, "worker %u of %u: %s",
                          service->worker_started + 1, service->config.runner.worker_count,
                          strerror(failed));
        else
            service->worker_started++;
    }
    (void)pthread_attr_destroy(&attributes);
    return err;
}

/* ---- starting ---- */

/* What a runtime with everything loaded would hold beyond what this program does. */
static enum aw_err ballast_take(struct service *service, struct aw_diag *diag)
{
    const double wanted = aw_runner_demand(service->runner)->memory_base_mib * AW_MIB_REAL -
                          aw__service_resident_bytes();
    if (!service->config.hold_memory || !(wanted > 0))
        return AW_OK;
    void *block = mmap(NULL, (size_t)wanted, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (block == MAP_FAILED)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the %.0f MiB of the description",
                       wanted / AW_MIB_REAL);
    service->ballast = block;
    service->ballast_bytes = (size_t)wanted;
    return AW_OK;
}

/* False: it is to end, or time does not pass. */
static bool sleep_until(struct service *service, int64_t until_us)
{
    const bool slept = aw_clock_sleep_until(NULL, until_us) == AW_OK;
    pthread_mutex_lock(&service->lock);
    const bool stop = service->stop;
    pthread_mutex_unlock(&service->lock);
    return slept && !stop;
}

/* Returns a descriptor, or -1: not to be had. `ret_taken`: because somebody else still has it. */
static int turn_wait(struct service *service, const char *file, bool *ret_taken)
{
    const int64_t limit_us = aw_clock_monotonic_us(NULL) + TURN_US;
    for (;;) {
        const int turn = aw__costs_turn(file);
        *ret_taken = turn < 0 && errno == EWOULDBLOCK;
        const int64_t now_us = aw_clock_monotonic_us(NULL);
        if (!*ret_taken || now_us >= limit_us || !sleep_until(service, now_us + LOOK_US))
            return turn;
    }
}

static enum aw_err costs_find(struct service *service, struct aw_diag *diag)
{
    const char *file = service->config.costs_file;
    struct aw_runner_cost cost[AW_APP_SEGMENTS_MAX];
    const struct aw_runner_config *config = &service->config.runner;
    enum aw_err err = file ? aw__costs_read(file, config, cost, diag) : AW_ERR_NOTFOUND;
    int turn = -1;
    bool taken = false;
    if (file && err == AW_ERR_NOTFOUND && (turn = turn_wait(service, file, &taken)) >= 0)
        err = aw__costs_read(file, config, cost, diag); /* somebody may have measured meanwhile */
    if (!err) {
        aw_runner_costs_set(service->runner, cost);
    } else if (err == AW_ERR_NOTFOUND) {
        err = aw_runner_measure(service->runner, service->config.measure_us, diag);
        if (!err && file && !taken) /* the others have theirs from who has the turn */
            err = aw__costs_write(file, config, aw_runner_costs(service->runner), diag);
    }
    if (turn >= 0)
        close(turn);
    return err;
}

/* Everything that takes time happens here, while the other thread already answers /healthz. */
static void *start(void *arg)
{
    struct service *service = arg;
    const struct aw_service_config *config = &service->config;
    struct aw_diag *diag = &service->start_diag;
    enum aw_err err = aw_runner_new(&config->runner, config->alloc, &service->runner, diag);
    if (!err)
        err = costs_find(service, diag);
    if (!err)
        err = ballast_take(service, diag);
    if (!err)
        err = workers_start(service, diag);
    if (!err) {
        const int64_t start_us =
            config->start_us >= 0 ? config->start_us
                                  : llround(1e3 * aw_runner_demand(service->runner)->cold_start_ms);
        /* in steps, so that a signal during a long start-up is not waited out */
        for (int64_t now_us;
             (now_us = aw_clock_monotonic_us(NULL)) < service->born_us + start_us;) {
            const int64_t left_us = service->born_us + start_us - now_us;
            if (!sleep_until(service, now_us + (left_us < TICK_US ? left_us : TICK_US)))
                break;
        }
    }
    service->start_err = err;
    service->phase = err ? FAILED : READY;
    aw__server_notify(service->server);
    return NULL;
}

/* ---- requests ---- */

static enum path path_of(const struct aw_http1_head *head)
{
    const bool get = aw_http1_is(head->method, "GET") || aw_http1_is(head->method, "HEAD");
    if (aw_http1_is(head->path, "/"))
        return get || aw_http1_is(head->method, "POST") ? PATH_APP : PATH_METHOD;
    if (aw_http1_is(head->path, "/healthz"))
        return get ? PATH_HEALTH : PATH_METHOD;
    if (aw_http1_is(head->path, "/readyz"))
        return get ? PATH_READY : PATH_METHOD;
    if (aw_http1_is(head->path, "/metrics"))
        return get ? PATH_METRICS : PATH_METHOD;
    return PATH_NONE;
}

static enum aw_err payload_read(struct aw_http1_span query, double *ret)
{
    char text[32];
    const struct aw_http1_span value = aw_http1_query(query, "payload");
    *ret = 1;
    if (!value.at)
        return AW_OK;
    if (value.len >= sizeof text)
        return AW_ERR_USAGE;
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    if (aw_text_parse_real(text, ret) || !(*ret > 0) || *ret > PAYLOAD_MAX)
        return AW_ERR_USAGE;
    return AW_OK;
}

static bool accepts_openmetrics(const struct aw_http1_head *head)
{
    char text[256];
    const struct aw_http1_span accept = aw_http1_find(head, "accept");
    if (!accept.at || accept.len >= sizeof text)
        return false;
    memcpy(text, accept.at, accept.len);
    text[accept.len] = '\0';
    return aw_metrics_wants_openmetrics(text);
}

static enum aw_err begin(void *self, struct aw__server *server, aw__token token,
                         const struct aw_http1_head *head)
{
    (void)self;
    _Static_assert(sizeof(struct about) <= AW__SERVER_USER_BYTES, "about a request");
    struct about *about = aw__server_user(server, token);
    about->arrived_us = aw_clock_monotonic_us(NULL);
    about->path = path_of(head);
    if (about->path == PATH_METRICS)
        about->openmetrics = accepts_openmetrics(head);
    return payload_read(head->query, &about->payload);
}

static enum aw_err body(void *self, aw__token token, const char *bytes, size_t len)
{
    (void)self;
    (void)token;
    (void)bytes;
    (void)len; /* what a client uploads is received, and not looked at */
    return AW_OK;
}

static void answer_text(struct service *service, aw__token token, int status, const char *text)
{
    const struct aw__answer answer = {
        .status = status, .type = "text/plain", .body = text, .len = strlen(text)};
    aw__server_answer(service->server, token, &answer);
}

static void answer_metrics(struct service *service, aw__token token, bool openmetrics)
{
    char text[AW__SERVICE_METRICS_BYTES_MAX];
    size_t len = 0;
    pthread_mutex_lock(&service->lock);
    const uint32_t queued = service->waiting_count;
    pthread_mutex_unlock(&service->lock);
    const struct aw__service_gauges now = {.in_flight = service->in_flight,
                                           .queued = queued,
                                           .workers = service->config.runner.worker_count,
                                           .connections = aw__server_connections(service->server),
                                           .ready =
                                               service->phase == READY && !service->terminating,
                                           .app = service->config.runner.app.name};
    if (aw__service_metrics_print(&service->metrics, &now, openmetrics, text, &len)) {
        answer_text(service, token, 500, "no room for the figures\n");
        return;
    }
    const struct aw__answer answer = {.status = 200,
                                      .type = openmetrics ? AW_METRICS_OPENMETRICS
                                                          : AW_METRICS_TEXT_FORMAT,
                                      .body = text,
                                      .len = len};
    aw__server_answer(service->server, token, &answer);
}

static void app_queue(struct service *service, aw__token token, struct about *about)
{
    if (service->phase != READY) {
        service->metrics.outcome[AW__OUTCOME_NOTREADY]++;
        answer_text(service, token, 503, "not ready\n");
        return;
    }
    pthread_mutex_lock(&service->lock);
    const bool full =
        service->spare_count == 0 || service->waiting_count >= service->config.queue_max;
    if (!full) {
        const uint32_t index = service->spare[--service->spare_count];
        struct task *task = &service->task[index];
        task->token = token;
        task->payload = about->payload;
        task->arrived_us = about->arrived_us;
        service->waiting[(service->waiting_first + service->waiting_count++) % service->task_max] =
            index;
        pthread_cond_signal(&service->work);
    }
    pthread_mutex_unlock(&service->lock);
    if (full) {
        service->metrics.outcome[AW__OUTCOME_FULL]++;
        answer_text(service, token, 503, "too many requests are waiting\n");
        return;
    }
    about->queued = true;
    service->in_flight++;
}

static void end(void *self, struct aw__server *server, aw__token token)
{
    struct service *service = self;
    struct about *about = aw__server_user(server, token);
    switch ((enum path)about->path) {
    case PATH_APP:
        app_queue(service, token, about);
        break;
    case PATH_HEALTH:
        answer_text(service, token, 200, "ok\n");
        break;
    case PATH_READY:
        if (service->phase == READY && !service->terminating)
            answer_text(service, token, 200, "ready\n");
        else
            answer_text(service, token, 503, service->terminating ? "draining\n" : "starting\n");
        break;
    case PATH_METRICS:
        answer_metrics(service, token, about->openmetrics);
        break;
    case PATH_NONE:
        answer_text(service, token, 404, "there are /, /healthz, /readyz and /metrics\n");
        break;
    case PATH_METHOD:
        answer_text(service, token, 405, "method not allowed\n");
        break;
    }
}

static void over(void *self, aw__token token, bool answered)
{
    struct service *service = self;
    const struct about *about = aw__server_user(service->server, token);
    if (!answered && about && about->queued)
        service->metrics.outcome[AW__OUTCOME_GONE]++;
}

static void task_answer(struct service *service, const struct task *task)
{
    char extra[AW__SERVER_EXTRA_MAX];
    const struct aw_app *app = aw_runner_app(service->runner);
    const bool failed = task->err != AW_OK;
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    double cpu_us = 0, wait_us = 0;
    aw__service_metrics_run(&service->metrics, app, &task->run, failed);
    service->in_flight--;
    if (!aw__server_user(service->server, task->token))
        return; /* nobody waits for it any more: counted when it went */
    for (uint32_t i = 0; i < app->segment_count; i++) {
        cpu_us += task->run.cpu_us[i];
        wait_us += task->run.wait_us[i];
    }
    service->metrics.outcome[failed ? AW__OUTCOME_FAILED : AW__OUTCOME_OK]++;
    aw_metric_observe(&service->metrics.duration, 1e-6 * (double)(now_us - task->arrived_us));
    if (failed) {
        aw_log_warn(service->config.log, "request failed",
                    AW_LOG_STR("segment", app->segment[task->run.segment_failed].name),
                    AW_LOG_STR("error", aw_err_name(task->err)),
                    AW_LOG_STR("why", task->diag.text));
        answer_text(service, task->token, 500, "a segment failed\n");
        return;
    }
    snprintf(extra, sizeof extra, "Server-Timing: queue;dur=%.3f, cpu;dur=%.3f, wait;dur=%.3f\r\n",
             1e-3 * (double)(task->taken_us - task->arrived_us), 1e-3 * cpu_us, 1e-3 * wait_us);
    uint64_t len = service->config.answer_bytes >= 0 ? (uint64_t)service->config.answer_bytes
                                                     : task->run.send_bytes;
    if (len > AW_SERVICE_ANSWER_BYTES_MAX)
        len = AW_SERVICE_ANSWER_BYTES_MAX;
    const struct aw__answer answer = {.status = 200,
                                      .type = "application/octet-stream",
                                      .extra = extra,
                                      .body = service->filler,
                                      .len = len,
                                      .ready = len,
                                      .borrowed = true};
    aw__server_answer(service->server, task->token, &answer);
}

static void wake(void *self, struct aw__server *server)
{
    struct service *service = self;
    if (service->phase == FAILED)
        aw__server_stop(server);
    pthread_mutex_lock(&service->lock);
    service->done_told = false;
    while (service->done_count) {
        const uint32_t index = service->done[--service->done_count];
        pthread_mutex_unlock(&service->lock);
        task_answer(service, &service->task[index]);
        pthread_mutex_lock(&service->lock);
        service->spare[service->spare_count++] = index;
    }
    pthread_mutex_unlock(&service->lock);
}

static void tick(void *self, struct aw__server *server, int signal)
{
    struct service *service = self;
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    if (service->phase == READY)
        aw_runner_trim(service->runner);
    if (signal && !service->terminating) {
        aw_log_info(service->config.log, "draining", AW_LOG_INT("in_flight", service->in_flight));
        service->terminating = true;
        service->drain_at_us = now_us + service->config.linger_us;
        service->stop_at_us = service->drain_at_us + service->config.drain_us;
    }
    if (!service->terminating)
        return;
    if (!service->draining && now_us >= service->drain_at_us) {
        service->draining = true;
        aw__server_drain(server);
    }
    if (now_us >= service->stop_at_us)
        aw__server_stop(server);
}

static void timer(void *self, struct aw__server *server, aw__token token)
{
    (void)self;
    (void)server;
    (void)token;
}

static const struct aw__handler handler = {begin, body, end, over, timer, wake, tick};

/* ---- life ---- */

static enum aw_err service_init(struct service *service, const struct aw_service_config *config,
                                void **ret_block, struct aw_diag *diag)
{
    const uint32_t workers = config->runner.worker_count;
    const uint32_t tasks = config->queue_max + workers + 1;
    unsigned char *block = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = block}) {
        struct task *task = aw_carve_take(&carve, tasks, sizeof *task);
        uint32_t *waiting = aw_carve_take(&carve, tasks, sizeof *waiting);
        uint32_t *done = aw_carve_take(&carve, tasks, sizeof *done);
        uint32_t *spare = aw_carve_take(&carve, tasks, sizeof *spare);
        struct worker *worker = aw_carve_take(&carve, workers, sizeof *worker);
        char *filler = aw_carve_take(&carve, AW_SERVICE_ANSWER_BYTES_MAX, 1);
        if (block) {
            service->task = task;
            service->waiting = waiting;
            service->done = done;
            service->spare = spare;
            service->worker = worker;
            service->filler = filler;
            break;
        }
        if (!(block = aw_alloc_new(config->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u requests", tasks);
    }
    service->task_max = tasks;
    for (uint32_t i = 0; i < tasks; i++)
        service->spare[service->spare_count++] = tasks - 1 - i;
    *ret_block = block;
    return AW_OK;
}

static void service_deinit(struct service *service, void *block)
{
    pthread_mutex_lock(&service->lock);
    service->stop = true;
    pthread_cond_broadcast(&service->work);
    pthread_mutex_unlock(&service->lock);
    if (service->starter_started)
        (void)pthread_join(service->starter, NULL);
    for (uint32_t i = 0; i < service->worker_started; i++)
        (void)pthread_join(service->worker[i].thread, NULL);
    aw_runner_free(service->runner);
    aw__server_free(service->server);
    if (service->ballast)
        (void)munmap(service->ballast, service->ballast_bytes);
    (void)pthread_cond_destroy(&service->work);
    (void)pthread_mutex_destroy(&service->lock);
    aw_alloc_free(service->config.alloc, block);
}

enum aw_err aw_service_run(const struct aw_service_config *config, struct aw_diag *diag)
{
    struct service service = {.config = *config, .born_us = aw_clock_monotonic_us(NULL)};
    struct aw_demand demand;
    void *block = NULL;
    aw_app_demand(&config->runner.app, config->runner.payload, config->runner.families, &demand);
    if (!service.config.runner.worker_count)
        service.config.runner.worker_count =
            demand.threads ? demand.threads : AW_SERVICE_WORKERS_UNLIMITED;
    const struct aw__server_config server = {.listen_fd = config->listen_fd,
                                             .unix_fd = config->unix_fd,
                                             .signal_fd = config->signal_fd,
                                             .connections_max = config->connections_max,
                                             .idle_us = IDLE_US,
                                             .tick_us = TICK_US,
                                             .handler = &handler,
                                             .self = &service};
    aw__service_metrics_init(&service.metrics);
    (void)pthread_mutex_init(&service.lock, NULL);
    (void)pthread_cond_init(&service.work, NULL);
    enum aw_err err = service_init(&service, &service.config, &block, diag);
    if (!err)
        err = aw__server_new(&server, config->alloc, &service.server, diag);
    if (!err) {
        const int failed = pthread_create(&service.starter, NULL, start, &service);
        if (failed)
            err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
        service.starter_started = !failed;
    }
    if (!err)
        err = aw__server_run(service.server, diag);
    const uint32_t left = service.in_flight;
    service_deinit(&service, block);
    if (service.phase == FAILED) {
        if (diag)
            *diag = service.start_diag;
        return service.start_err;
    }
    if (err == AW_ERR_INTERRUPTED)
        err = aw_fail(diag, AW_ERR_DEADLINE, "%u requests were still in flight", left);
    return err;
}
