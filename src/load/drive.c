/* drive.c - threads, each with its share of one timetable, and what they add up to. */
#include "load/drive.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/threads.h"
#include "load/drive_internal.h"

#define EXPIRE_US  20000  /* between two looks for requests that are out of time */
#define PUBLISH_US 100000 /* between two handings over of figures */
#define LEAD_US    20000  /* between the start of the threads and that of the timetable */
#define HEAD_BYTES (AW_HTTP1_HEAD_BYTES_MAX - 512u)

const char *aw_drive_error_name(enum aw_drive_error error)
{
    static const char *const names[AW_DRIVE_ERRORS] = {
#define X(name, word, text) word,
        AW_DRIVE_ERROR_MAP(X)
#undef X
    };
    return names[error];
}

const char *aw_drive_error_text(enum aw_drive_error error)
{
    static const char *const texts[AW_DRIVE_ERRORS] = {
#define X(name, word, text) text,
        AW_DRIVE_ERROR_MAP(X)
#undef X
    };
    return texts[error];
}

/* ---- one thread ---- */

/* The next due time of this thread: every so-manieth of the common timetable. */
static bool own_next(struct aw__driver *driver, int64_t *ret_due_us)
{
    int64_t at_us;
    do {
        if (!aw_timetable_next(&driver->timetable, &at_us))
            return false;
    } while ((driver->timetable.sent - 1) % driver->config->threads != driver->index);
    *ret_due_us = driver->start_us + at_us;
    return true;
}

static void publish(struct aw__driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    driver->published = driver->all;
    driver->published_connections = driver->wire_open;
    aw_latency_histogram_merge(driver->published_interval, driver->interval);
    pthread_mutex_unlock(&driver->lock);
    if (driver->interval->count)
        aw_latency_histogram_reset(driver->interval);
}

/* Runs until the timetable is over and everything has ended; `err` says how it went. */
static void driver_run(struct aw__driver *driver)
{
    int64_t due_us = 0, expire_us = 0, publish_us = 0;
    bool more = own_next(driver, &due_us);
    driver->last_due_us = driver->start_us;
    while (!driver->err && !*driver->stop) {
        driver->now_us = aw_clock_monotonic_us(NULL);
        while (more && due_us <= driver->now_us) {
            driver->last_due_us = due_us;
            aw__wire_dispatch(driver, due_us);
            more = own_next(driver, &due_us);
        }
        if (driver->now_us >= expire_us) {
            aw__wire_expire(driver);
            expire_us = driver->now_us + EXPIRE_US;
        }
        if (driver->now_us >= publish_us) {
            publish(driver);
            publish_us = driver->now_us + PUBLISH_US;
        }
        if (!more && driver->busy_count == 0 && driver->backlog_count == 0)
            break;
        int64_t until_us = expire_us < publish_us ? expire_us : publish_us;
        if (more && due_us < until_us)
            until_us = due_us;
        driver->err = aw__wire_wait(driver, until_us, &driver->diag);
    }
    driver->finished_us = aw_clock_monotonic_us(NULL);
    publish(driver);
    driver->done = true;
}

static void *thread_main(void *arg)
{
    /* the default lets a timer be 50 us late, several requests at 50 000 a second: prctl(2) */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    driver_run(arg);
    return NULL;
}

/* ---- all of them ---- */

struct drive {
    struct aw__driver *driver; /* [threads] */
    char *request;
    size_t request_len;
    struct aw_latency_histogram *interval;
    _Atomic bool stop;
};

/* One block with everything that the threads will touch. */
static unsigned char *block_new(const struct aw_drive_config *config, struct drive *drive)
{
    const uint32_t threads = config->threads;
    const uint32_t wires = (config->connections_max + threads - 1) / threads;
    const size_t request_bytes = HEAD_BYTES + config->body_len;
    unsigned char *block = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = block}) {
        drive->driver = aw_carve_take(&carve, threads, sizeof *drive->driver);
        drive->request = aw_carve_take(&carve, request_bytes, 1);
        drive->interval = aw_carve_take(&carve, 1, sizeof *drive->interval);
        for (uint32_t i = 0; i < threads; i++) {
            struct aw__wire *wire = aw_carve_take(&carve, wires, sizeof *wire);
            char *heads = aw_carve_take(&carve, wires, AW_HTTP1_HEAD_BYTES_MAX);
            int64_t *backlog = aw_carve_take(&carve, AW_DRIVE_BACKLOG_MAX, sizeof *backlog);
            char *in = aw_carve_take(&carve, AW__DRIVE_IN_BYTES, 1);
            struct aw_latency_histogram *hist = aw_carve_take(&carve, 5, sizeof *hist);
            if (!block)
                continue;
            drive->driver[i] = (struct aw__driver){.config = config,
                                                   .request = drive->request,
                                                   .index = i,
                                                   .stop = &drive->stop,
                                                   .epoll_fd = -1,
                                                   .wire_max = wires,
                                                   .wire = wire,
                                                   .backlog = backlog,
                                                   .backlog_max = AW_DRIVE_BACKLOG_MAX,
                                                   .in = in,
                                                   .latency = hist,
                                                   .service = hist + 1,
                                                   .behind = hist + 2,
                                                   .interval = hist + 3,
                                                   .published_interval = hist + 4};
            for (uint32_t k = 0; k < wires; k++)
                wire[k].head = heads + (size_t)k * AW_HTTP1_HEAD_BYTES_MAX;
        }
        if (block)
            return block;
        if (!(block = aw_alloc_new(config->alloc, carve.used, 1)))
            return NULL;
    }
}

static enum aw_err request_write(const struct aw_drive_config *config, struct drive *drive,
                                 struct aw_diag *diag)
{
    const char *method = config->method ? config->method : "GET";
    char length[48] = "";
    if (config->body_len || !strcmp(method, "POST") || !strcmp(method, "PUT"))
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", config->body_len);
    const int len = snprintf(drive->request, HEAD_BYTES, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n",
                             method, config->target.path, config->target.host, length,
                             config->headers ? config->headers : "");
    if (len < 0 || (size_t)len >= HEAD_BYTES)
        return aw_fail(diag, AW_ERR_LIMIT, "a request head of more than %u bytes", HEAD_BYTES);
    if (config->body_len)
        memcpy(drive->request + len, config->body, config->body_len);
    drive->request_len = (size_t)len + config->body_len;
    return AW_OK;
}

static void totals_add(struct aw_drive_totals *sum, const struct aw_drive_totals *one)
{
    sum->due += one->due;
    sum->answered += one->answered;
    sum->ok += one->ok;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        sum->error[i] += one->error[i];
    sum->retried += one->retried;
    sum->connects += one->connects;
    sum->bytes_in += one->bytes_in;
    sum->bytes_out += one->bytes_out;
    for (uint32_t i = 0; i < 6; i++)
        sum->status[i] += one->status[i];
}

/* Tells the caller how it is going. False: it has had enough. */
static bool report(const struct aw_drive_config *config, struct drive *drive, int64_t start_us,
                   int64_t *last_us, uint64_t *last_answered)
{
    struct aw_drive_report now = {.latency = drive->interval};
    aw_latency_histogram_reset(drive->interval);
    for (uint32_t i = 0; i < config->threads; i++) {
        struct aw__driver *driver = &drive->driver[i];
        pthread_mutex_lock(&driver->lock);
        totals_add(&now.all, &driver->published);
        now.connections += driver->published_connections;
        aw_latency_histogram_merge(drive->interval, driver->published_interval);
        aw_latency_histogram_reset(driver->published_interval);
        pthread_mutex_unlock(&driver->lock);
    }
    uint64_t ended = now.all.answered;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        ended += i == AW_DRIVE_STATUS ? 0 : now.all.error[i];
    now.at_us = aw_clock_monotonic_us(NULL) - start_us;
    now.span_us = now.at_us - *last_us;
    now.answered = now.all.answered - *last_answered;
    now.in_flight = now.all.due > ended ? now.all.due - ended : 0;
    *last_us = now.at_us;
    *last_answered = now.all.answered;
    return config->report(config->ctx, &now);
}

/* Waits for the threads, reporting as often as was asked. */
static void supervise(const struct aw_drive_config *config, struct drive *drive, int64_t start_us,
                      bool *ret_stopped)
{
    int64_t last_us = 0, next_us = start_us + config->report_us;
    uint64_t last_answered = 0;
    for (;;) {
        bool done = true;
        for (uint32_t i = 0; i < config->threads; i++)
            done &= !drive->driver[i].started || drive->driver[i].done;
        if (done)
            return;
        const int64_t now_us = aw_clock_monotonic_us(NULL);
        int64_t until_us = now_us + EXPIRE_US;
        if (config->report && now_us >= next_us) {
            next_us += config->report_us;
            if (!drive->stop && !report(config, drive, start_us, &last_us, &last_answered)) {
                drive->stop = true;
                *ret_stopped = true;
            }
        } else if (config->report && next_us < until_us) {
            until_us = next_us;
        }
        const enum aw_err err = aw_clock_sleep_until(NULL, until_us);
        (void)err; /* a signal: the next report may end it */
    }
}

static enum aw_err threads_start(const struct aw_drive_config *config, struct drive *drive,
                                 int64_t start_us, struct aw_diag *diag)
{
    const char *method = config->method ? config->method : "GET";
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < config->threads; i++) {
        struct aw__driver *driver = &drive->driver[i];
        driver->request_len = drive->request_len;
        driver->repeatable = strcmp(method, "POST") != 0 && strcmp(method, "PATCH") != 0;
        driver->start_us = start_us;
        if ((err = aw_timetable_init(&driver->timetable, &config->timetable, diag)) ||
            (err = aw__wire_open(driver, diag)))
            break;
        const int failed = aw_thread_begin(&driver->thread, thread_main, driver);
        if (failed)
            err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
        driver->started = !failed;
    }
    return err;
}

static void result_make(const struct aw_drive_config *config, const struct drive *drive,
                        int64_t start_us, struct aw_drive_result *ret)
{
    int64_t due_us = start_us, finished_us = start_us;
    struct aw_latency_histogram *behind = drive->interval;
    aw_latency_histogram_reset(behind);
    for (uint32_t i = 0; i < config->threads; i++) {
        const struct aw__driver *driver = &drive->driver[i];
        totals_add(&ret->all, &driver->all);
        aw_latency_histogram_merge(&ret->latency, driver->latency);
        aw_latency_histogram_merge(&ret->service, driver->service);
        aw_latency_histogram_merge(behind, driver->behind);
        due_us = driver->last_due_us > due_us ? driver->last_due_us : due_us;
        finished_us = driver->finished_us > finished_us ? driver->finished_us : finished_us;
        if (driver->backlog_seen_max > ret->backlog_max)
            ret->backlog_max = driver->backlog_seen_max;
    }
    /* a timetable by duration lasts as long as it says, also when its last request came earlier */
    const int64_t end_us =
        config->timetable.duration_us > 0 && !config->timetable.requests && !ret->stopped
            ? start_us + config->timetable.duration_us
            : due_us;
    const int64_t warm_us = start_us + config->warm_up_us;
    ret->span_us = end_us > warm_us ? end_us - warm_us : 0;
    ret->drained_us = finished_us > warm_us ? finished_us - warm_us : 0;
    ret->behind_us_p99 = aw_latency_histogram_quantile(behind, 0.99);
}

static enum aw_err config_check(const struct aw_drive_config *config, struct aw_diag *diag)
{
    struct aw_timetable timetable;
    if (config->threads < 1 || config->threads > AW_DRIVE_THREADS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u threads, found %u",
                       AW_DRIVE_THREADS_MAX, config->threads);
    if (config->connections_max < config->threads ||
        config->connections_max > AW_DRIVE_CONNECTIONS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected %u to %u connections, found %u",
                       config->threads, AW_DRIVE_CONNECTIONS_MAX, config->connections_max);
    if (config->timeout_us <= 0 || config->warm_up_us < 0)
        return aw_fail(diag, AW_ERR_CONFIG, "expected a timeout above 0 and a warm-up from 0 on");
    if (config->body_len > AW_DRIVE_BODY_BYTES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a body of more than %zu bytes",
                       AW_DRIVE_BODY_BYTES_MAX);
    return aw_timetable_init(&timetable, &config->timetable, diag);
}

enum aw_err aw_drive_run(const struct aw_drive_config *config, struct aw_drive_result *ret_result,
                         struct aw_diag *diag)
{
    struct drive drive = {0};
    bool stopped = false;
    enum aw_err err = config_check(config, diag);
    if (err)
        return err;
    unsigned char *block = block_new(config, &drive);
    if (!block)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u connections", config->connections_max);
    for (uint32_t i = 0; i < config->threads; i++)
        (void)pthread_mutex_init(&drive.driver[i].lock, NULL);
    const int64_t start_us = aw_clock_monotonic_us(NULL) + LEAD_US;
    if (!(err = request_write(config, &drive, diag)))
        err = threads_start(config, &drive, start_us, diag);
    if (err)
        drive.stop = true;
    supervise(config, &drive, start_us, &stopped);
    for (uint32_t i = 0; i < config->threads; i++) {
        struct aw__driver *driver = &drive.driver[i];
        if (driver->started)
            (void)pthread_join(driver->thread, NULL);
        if (!err && driver->err) {
            err = driver->err;
            if (diag)
                *diag = driver->diag;
        }
        aw__wire_close(driver);
        (void)pthread_mutex_destroy(&driver->lock);
    }
    if (!err) {
        memset(ret_result, 0, sizeof *ret_result);
        ret_result->stopped = stopped;
        result_make(config, &drive, start_us, ret_result);
    }
    aw_alloc_free(config->alloc, block);
    return err;
}
