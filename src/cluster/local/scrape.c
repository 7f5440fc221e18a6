/*
 * scrape.c - a round of questions to replicas, a few at a time, none of them waited for.
 *
 * What a replica answers is added to the window that is open when it is read. A reading therefore
 * falls into a window up to a period late, and requests of a replica's last moments into none.
 */
#include "cluster/local/scrape.h"

#include "base/http1.h"
#include "base/net.h"
#include "base/threads.h"
#include "cluster/local/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PERIOD_US   500000  /* between two rounds: a page costs a replica 0.2 ms of CPU */
#define DEADLINE_US 400000  /* of one answer: some of the 100 ms that a throttled one may pause */
#define AGE_MAX_US  1500000 /* further back than the window an increase reaches only that far */
#define PLACES      16u     /* asked at the same time */
#define ANSWER_MAX  131072u /* bytes, head included; aware-workload has 4 KiB */
#define REQUEST_MAX (AW__SCRAPE_PATH_MAX + 128u)
#define REQUEST_LINES \
    " HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"

/* One replica that is being asked. */
struct ask {
    int fd_plus_1; /* 0: the place is free */
    int64_t until_us;
    struct aw__local_workload *workload; /* one that is removed meanwhile stays in memory */
    uint32_t slot;
    uint32_t id;
    int64_t started_us;
    char name[AW_PROMTEXT_NAME_MAX];
    char request[REQUEST_MAX];
    size_t request_len, sent, len;
    char answer[ANSWER_MAX];
};

struct aw__scrape {
    struct aw_local *local;
    const struct aw_alloc *alloc;
    pthread_t thread;
    bool thread_made;
    int wake_fd_plus_1;
    _Atomic bool stop;
    uint32_t workload, slot; /* who is next in this round */
    struct ask ask[PLACES];
};

/* --- a workload's part ------------------------------------------------------------------------ */

enum aw_err aw__scrape_add(struct aw__scrape_part *part, const char *path, const char *name,
                           uint32_t slots, const struct aw_alloc *alloc, struct aw_diag *diag)
{
    if (!path || !*path)
        return AW_OK;
    if (strlen(path) >= sizeof part->path)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of metrics has at most %u bytes",
                       AW__SCRAPE_PATH_MAX - 1);
    bool plain = *path == '/';
    for (const char *at = path; *at; at++)
        plain = plain && *at > 0x20 && *at < 0x7f;
    if (!plain)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "the path of metrics begins with / and has neither spaces nor other "
                       "characters that a request would need to escape");
    if (!name || !aw_promtext_name_valid(name))
        return aw_fail(diag, AW_ERR_CONFIG, "expected the name of a histogram beside metrics");
    if (!(part->last = aw_alloc_new(alloc, slots, sizeof *part->last)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the metrics of replicas");
    snprintf(part->path, sizeof part->path, "%s", path);
    snprintf(part->name, sizeof part->name, "%s", name);
    return AW_OK;
}

static struct aw_figure quantile(const struct aw_promtext_histogram *h, double q, int64_t at_us)
{
    const double s = aw_promtext_quantile(h->bound, h->count, h->buckets, q);
    return isfinite(s) ? (struct aw_figure){.value = 1e6 * s, .at_us = at_us}
                       : (struct aw_figure){.at_us = AW_NEVER};
}

void aw__scrape_close(struct aw__scrape_part *part, struct aw_sample *figures)
{
    figures->inside_us_p50 = quantile(&part->window, 0.5, part->read_us);
    figures->inside_us_p99 = quantile(&part->window, 0.99, part->read_us);
    part->window.buckets = 0;
}

/* With the lock held. */
static void reading_take(struct aw__local_workload *workload, const struct ask *ask,
                         const struct aw_promtext_histogram *now, int64_t now_us)
{
    struct aw__scrape_part *part = &workload->scrape;
    struct aw__scrape_last *last = &part->last[ask->slot];
    const struct aw__replica *r = &workload->replica[ask->slot];
    if (r->id != ask->id || r->started_us != ask->started_us)
        return; /* another has its place, or it has ended since */
    if (last->id != ask->id || last->started_us != ask->started_us) {
        last->id = ask->id;
        last->started_us = ask->started_us;
        last->read_us = r->ready_change_us;
        last->histogram.buckets = 0;
    }
    (void)aw_promtext_add(&part->total, &last->histogram, now);
    /* who was silent for long tells of windows that are closed: that is no part of this one */
    if (workload->observed_us - last->read_us <= AGE_MAX_US &&
        aw_promtext_add(&part->window, &last->histogram, now))
        part->read_us = now_us;
    last->histogram = *now;
    last->read_us = now_us;
}

/* --- one answer ------------------------------------------------------------------------------- */

/* The body of whole chunks moves to their beginning. */
static enum aw_err unchunk(char *bytes, size_t len, size_t *ret_len)
{
    struct aw_http1_chunks chunks = {0};
    struct aw_http1_span data;
    enum aw_err err = AW_OK;
    size_t used = 0, step;
    for (; !err && !chunks.done && used < len; used += err ? 0 : step)
        err = aw_http1_chunks_take(&chunks, bytes + used, len - used, &step, &data);
    if (err || !chunks.done)
        return err ? err : AW_ERR_NODATA;
    chunks = (struct aw_http1_chunks){0};
    *ret_len = 0;
    for (used = 0; !err && !chunks.done; used += err ? 0 : step) {
        err = aw_http1_chunks_take(&chunks, bytes + used, len - used, &step, &data);
        if (!err && data.len > 0) {
            memmove(bytes + *ret_len, data.at, data.len);
            *ret_len += data.len;
        }
    }
    return err;
}

enum aw_err aw__scrape_answer(char *bytes, size_t len, size_t size, bool ended,
                              const char **ret_body, size_t *ret_len)
{
    struct aw_http1_head head;
    enum aw_err err = aw_http1_response(bytes, len, false, &head, NULL);
    if (err == AW_ERR_NODATA)
        return ended ? AW_ERR_FORMAT : AW_ERR_NODATA;
    if (err)
        return err;
    if (head.status != 200)
        return AW_ERR_UNAVAILABLE;
    const size_t have = len - head.bytes;
    switch (head.framing) {
    case AW_HTTP1_EMPTY:
        *ret_len = 0;
        break;
    case AW_HTTP1_LENGTH:
        if (head.length > size - head.bytes)
            return AW_ERR_LIMIT;
        *ret_len = (size_t)head.length;
        err = have < head.length ? AW_ERR_NODATA : AW_OK;
        break;
    case AW_HTTP1_CHUNKED:
        err = unchunk(bytes + head.bytes, have, ret_len);
        break;
    case AW_HTTP1_UNTIL_CLOSE:
        *ret_len = have;
        err = ended ? AW_OK : AW_ERR_NODATA;
        break;
    }
    *ret_body = bytes + head.bytes;
    if (err == AW_ERR_NODATA)
        return ended ? AW_ERR_FORMAT : len == size ? AW_ERR_LIMIT : AW_ERR_NODATA;
    return err;
}

/* --- one question ----------------------------------------------------------------------------- */

static void ask_end(struct ask *ask)
{
    if (ask->fd_plus_1)
        close(ask->fd_plus_1 - 1);
    ask->fd_plus_1 = 0;
}

static void ask_take(struct aw__scrape *scrape, struct ask *ask, const char *body, size_t len)
{
    struct aw_local *local = scrape->local;
    struct aw_promtext_histogram now;
    if (aw_promtext_read(body, len, ask->name, &now, NULL))
        return;
    pthread_mutex_lock(&local->lock);
    reading_take(ask->workload, ask, &now, aw__local_now_us(local));
    pthread_mutex_unlock(&local->lock);
}

/* Whatever can be done without waiting. */
static void ask_step(struct aw__scrape *scrape, struct ask *ask)
{
    const int fd = ask->fd_plus_1 - 1;
    ssize_t got = 0;
    while (ask->sent < ask->request_len) {
        got = send(fd, ask->request + ask->sent, ask->request_len - ask->sent,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
        if (got < 0)
            break;
        ask->sent += (size_t)got;
    }
    while (ask->sent == ask->request_len) {
        const char *body;
        size_t len;
        got = recv(fd, ask->answer + ask->len, sizeof ask->answer - ask->len, MSG_DONTWAIT);
        if (got < 0)
            break;
        ask->len += (size_t)got;
        const enum aw_err err =
            aw__scrape_answer(ask->answer, ask->len, sizeof ask->answer, got == 0, &body, &len);
        if (!err)
            ask_take(scrape, ask, body, len);
        if (err != AW_ERR_NODATA) {
            ask_end(ask);
            return;
        }
    }
    if (errno != EAGAIN && errno != EINTR)
        ask_end(ask);
}

/* The way that requests go, as the balancer has found it. */
static int dial(const char *path, uint16_t port)
{
    const struct sockaddr_in inet = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un;
    if (*path && aw_net_unix(path, &un, NULL))
        return -1;
    const int fd = socket(*path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int failed = fd < 0  ? -1
                       : *path ? connect(fd, (const struct sockaddr *)&un, sizeof un)
                               : connect(fd, (const struct sockaddr *)&inet, sizeof inet);
    if (fd >= 0 && failed && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The next replica of the round, with the lock held; false: that was the last. Who drains is asked
 * as well: what it still answers the balancer counts, too. */
static bool next_find(struct aw__scrape *scrape, struct ask *ask, uint16_t *ret_port,
                      char path[AW_NET_UNIX_PATH_MAX])
{
    const struct aw_local *local = scrape->local;
    for (; scrape->workload < local->workload_count; scrape->workload++, scrape->slot = 0) {
        struct aw__local_workload *w = local->workload[scrape->workload];
        for (; w->scrape.path[0] && scrape->slot < w->slots; scrape->slot++) {
            const struct aw__replica *r = &w->replica[scrape->slot];
            struct aw__backend_view view;
            if (!(r->phase == AW__REPLICA_RUNS && r->ready) && r->phase != AW__REPLICA_DRAINS)
                continue;
            aw__balancer_view(w->balancer, scrape->slot, &view);
            path[0] = '\0';
            if (view.is_unix)
                aw__replica_socket(local, r, path);
            *ret_port = r->port;
            ask->workload = w;
            ask->slot = scrape->slot++;
            ask->id = r->id;
            ask->started_us = r->started_us;
            memcpy(ask->name, w->scrape.name, sizeof ask->name);
            const int len =
                snprintf(ask->request, sizeof ask->request, "GET %s" REQUEST_LINES, w->scrape.path);
            AW_ASSERT(len > 0 && (size_t)len < sizeof ask->request);
            ask->request_len = (size_t)len;
            return true;
        }
    }
    return false;
}

/* False: nobody is left to be asked. */
static bool ask_begin(struct aw__scrape *scrape, struct ask *ask)
{
    struct aw_local *local = scrape->local;
    char path[AW_NET_UNIX_PATH_MAX];
    uint16_t port = 0;
    pthread_mutex_lock(&local->lock);
    const bool found = next_find(scrape, ask, &port, path);
    pthread_mutex_unlock(&local->lock);
    if (!found)
        return false;
    ask->sent = ask->len = 0;
    ask->until_us = aw__local_now_us(local) + DEADLINE_US;
    ask->fd_plus_1 = dial(path, port) + 1;
    return true;
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Until something happens at one of them, or `until_us`. */
static void wait_for_any(struct aw__scrape *scrape, int64_t until_us)
{
    struct pollfd fds[PLACES + 1] = {{.fd = scrape->wake_fd_plus_1 - 1, .events = POLLIN}};
    nfds_t count = 1;
    for (uint32_t i = 0; i < PLACES; i++) {
        const struct ask *ask = &scrape->ask[i];
        if (!ask->fd_plus_1)
            continue;
        fds[count++] = (struct pollfd){.fd = ask->fd_plus_1 - 1,
                                       .events = ask->sent < ask->request_len ? POLLOUT : POLLIN};
        until_us = ask->until_us < until_us ? ask->until_us : until_us;
    }
    const int64_t left_us = until_us - aw__local_now_us(scrape->local);
    (void)poll(fds, count, left_us > 0 ? (int)((left_us + 999) / 1000) : 0);
}

static void round_do(struct aw__scrape *scrape, int64_t until_us)
{
    bool more = true, any = true;
    scrape->workload = scrape->slot = 0;
    while ((more || any) && !scrape->stop) {
        any = false;
        for (uint32_t i = 0; i < PLACES; i++) {
            struct ask *ask = &scrape->ask[i];
            if (ask->fd_plus_1)
                ask_step(scrape, ask);
            if (ask->fd_plus_1 && aw__local_now_us(scrape->local) >= ask->until_us)
                ask_end(ask);
            while (more && !ask->fd_plus_1)
                more = ask_begin(scrape, ask);
            any = any || ask->fd_plus_1;
        }
        if (any)
            wait_for_any(scrape, until_us + DEADLINE_US);
    }
}

static void *scrape_thread(void *ctx)
{
    struct aw__scrape *scrape = ctx;
    while (!scrape->stop) {
        const int64_t until_us = aw__local_now_us(scrape->local) + PERIOD_US;
        round_do(scrape, until_us);
        while (!scrape->stop && aw__local_now_us(scrape->local) < until_us)
            wait_for_any(scrape, until_us);
    }
    return NULL;
}

enum aw_err aw__scrape_begin(struct aw_local *local, const struct aw_alloc *alloc,
                             struct aw__scrape **ret_scrape, struct aw_diag *diag)
{
    struct aw__scrape *scrape = aw_alloc_new(alloc, 1, sizeof *scrape);
    if (!scrape)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the metrics of replicas");
    scrape->local = local;
    scrape->alloc = alloc;
    const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    scrape->wake_fd_plus_1 = wake + 1;
    int failed = wake < 0 ? errno : 0;
    if (!failed) {
        failed = aw_thread_begin(&scrape->thread, scrape_thread, scrape);
    }
    scrape->thread_made = failed == 0;
    if (failed) {
        aw__scrape_free(scrape);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
    }
    *ret_scrape = scrape;
    return AW_OK;
}

void aw__scrape_free(struct aw__scrape *scrape)
{
    if (!scrape)
        return;
    scrape->stop = true;
    if (scrape->thread_made) {
        const uint64_t one = 1;
        (void)!write(scrape->wake_fd_plus_1 - 1, &one, sizeof one);
        pthread_join(scrape->thread, NULL);
    }
    for (uint32_t i = 0; i < PLACES; i++)
        ask_end(&scrape->ask[i]);
    if (scrape->wake_fd_plus_1)
        close(scrape->wake_fd_plus_1 - 1);
    aw_alloc_free(scrape->alloc, scrape);
}
