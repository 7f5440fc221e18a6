/* forward.c - see forward.h. */
#include "trace/forward.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/text.h"
#include "base/threads.h"

#define TIMEOUT_US  5000000 /* of a try, and MIB_US more for every MiB */
#define MIB_US      1000000
#define LAST_US     2000000 /* for what still waits at the end */
#define AGAIN_US    1000000
#define AGAIN_MAX_S 30u
#define ANSWER_MAX  ((size_t)64 << 10)

static int64_t timeout_us(size_t size)
{
    return TIMEOUT_US + (int64_t)(size >> 20) * MIB_US;
}

struct message {
    struct message *next;
    size_t size;
    bool json;
    int64_t first_us; /* of its first try; 0: none yet */
    uint64_t sent;    /* how many others were, at its last try */
    uint32_t failed;  /* tries, where others were sent between */
    char bytes[];
};

struct aw_forward {
    struct aw_http *http;
    char url[AW_FORWARD_URL_MAX];
    char header[AW_TOKEN_MAX + 32];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool running, stop;
    int64_t again_us, end_us; /* `end_us`: once it is to stop */
    _Atomic int64_t until_us; /* of the try under way */
    struct message *first, **last;
    size_t bytes;
    struct aw_forward_counts counts;
    bool failing, told;
    char why[AW_FORWARD_WHY_MAX];
};

enum outcome { SENT, REFUSED, AGAIN };

/* One try. `ret_again_us`: when to come again, where the receiver says so; else 0. */
static enum outcome try_to_send(struct aw_forward *forward, const struct message *message,
                                int64_t *ret_again_us, char why[AW_FORWARD_WHY_MAX])
{
    const char *headers[] = {*forward->header ? forward->header : NULL, NULL};
    const struct aw_http_request request = {
        .method = "POST",
        .url = forward->url,
        .name = "the receiver of --forward",
        .content_type = message->json ? "application/json" : "application/x-protobuf",
        .headers = headers,
        .body = message->bytes,
        .body_len = message->size,
        .header_wanted = "Retry-After",
        .until_us = &forward->until_us};
    struct aw_http_answer answer;
    struct aw_diag diag = {0};
    uint64_t seconds = 0;
    *ret_again_us = 0;
    const enum aw_err err = aw_http_send(forward->http, &request, &answer, &diag);
    if (err && err != AW_ERR_LIMIT) { /* however long an answer is: it is one */
        snprintf(why, AW_FORWARD_WHY_MAX, "%.200s", diag.text);
        return AGAIN;
    }
    if (answer.status >= 200 && answer.status < 300)
        return SENT;
    snprintf(why, AW_FORWARD_WHY_MAX, "it answers with status %d", answer.status);
    if (answer.status != 429 && (answer.status < 502 || answer.status > 504))
        return REFUSED;
    if (!aw_text_parse_u64(answer.header, &seconds) && seconds)
        *ret_again_us = (int64_t)(seconds < AGAIN_MAX_S ? seconds : AGAIN_MAX_S) * 1000000;
    return AGAIN;
}

/* Waits with the lock held; sooner where it is to stop. */
static void wait_until(struct aw_forward *forward, int64_t at_us)
{
    const struct timespec until = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
    while (!forward->stop && aw_clock_monotonic_us(NULL) < at_us)
        if (pthread_cond_timedwait(&forward->wake, &forward->lock, &until))
            break;
}

static void drop_first(struct aw_forward *forward, uint64_t *count)
{
    struct message *message = forward->first;
    forward->first = message->next;
    if (!forward->first)
        forward->last = &forward->first;
    forward->bytes -= message->size;
    forward->counts.waiting--;
    ++*count;
    aw_alloc_free(NULL, message);
}

/* True: no further try of the first message. Else it is behind the others, so that they get by. */
static bool give_up_first(struct aw_forward *forward, int64_t now_us)
{
    struct message *message = forward->first;
    message->failed += !message->failed || forward->counts.sent > message->sent;
    message->sent = forward->counts.sent;
    if (message->failed >= AW_FORWARD_TRIES || now_us - message->first_us >= AW_FORWARD_OLD_US)
        return true;
    if (message->next) {
        forward->first = message->next;
        message->next = NULL;
        *forward->last = message;
        forward->last = &message->next;
    }
    return false;
}

static void *run(void *ctx)
{
    struct aw_forward *forward = ctx;
    int64_t pause_us = forward->again_us, again_us;
    pthread_mutex_lock(&forward->lock);
    for (;;) {
        while (!forward->stop && !forward->first)
            (void)pthread_cond_wait(&forward->wake, &forward->lock);
        const int64_t begin_us = aw_clock_monotonic_us(NULL);
        if (!forward->first || begin_us >= forward->end_us)
            break;
        char why[AW_FORWARD_WHY_MAX] = "";
        struct message *message = forward->first; /* stays first: only this thread takes it out */
        const int64_t until_us = begin_us + timeout_us(message->size);
        forward->until_us = until_us < forward->end_us ? until_us : forward->end_us;
        message->first_us = message->first_us ? message->first_us : begin_us;
        pthread_mutex_unlock(&forward->lock);
        const enum outcome outcome = try_to_send(forward, message, &again_us, why);
        pthread_mutex_lock(&forward->lock);
        if (outcome != SENT) {
            forward->told = forward->failing && forward->told;
            snprintf(forward->why, sizeof forward->why, "%s", why);
        }
        forward->failing = outcome != SENT;
        if (outcome != AGAIN) {
            drop_first(forward, outcome == SENT ? &forward->counts.sent : &forward->counts.refused);
            pause_us = forward->again_us;
            continue;
        }
        if (forward->stop)
            break; /* it was tried, and nobody waits any longer */
        if (give_up_first(forward, begin_us))
            drop_first(forward, &forward->counts.dropped);
        else
            forward->counts.tried_again++;
        wait_until(forward, aw_clock_monotonic_us(NULL) + (again_us ? again_us : pause_us));
        pause_us = pause_us * 2 < (int64_t)AGAIN_MAX_S * 1000000 ? pause_us * 2
                                                                 : (int64_t)AGAIN_MAX_S * 1000000;
    }
    while (forward->first)
        drop_first(forward, &forward->counts.dropped);
    pthread_mutex_unlock(&forward->lock);
    return NULL;
}

static enum aw_err set_url(struct aw_forward *forward, const char *url, struct aw_diag *diag)
{
    const char *host = !strncmp(url, "http://", 7)    ? url + 7
                       : !strncmp(url, "https://", 8) ? url + 8
                                                      : "";
    size_t len = strlen(url);
    if (!*host || *host == '/' || len > AW_FORWARD_URL_MAX - 16)
        return aw_fail(diag, AW_ERR_USAGE,
                       "expected the URL of an OTLP receiver, such as http://tempo:4318");
    while (url[len - 1] == '/')
        len--;
    const bool bare = !memchr(host, '/', len - (size_t)(host - url));
    snprintf(forward->url, sizeof forward->url, "%.*s%s", (int)len, url, bare ? "/v1/traces" : "");
    return AW_OK;
}

enum aw_err aw_forward_new(struct aw_forward **ret, const struct aw_forward_config *config,
                           struct aw_diag *diag)
{
    const struct aw_http_config http = {.timeout_us = timeout_us(AW_FORWARD_BYTES),
                                        .body_bytes_max = ANSWER_MAX};
    pthread_condattr_t attributes;
    struct aw_forward *made = aw_alloc_new(NULL, 1, sizeof *made);
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    made->last = &made->first;
    made->end_us = INT64_MAX;
    made->again_us = config->again_us ? config->again_us : AGAIN_US;
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&made->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (*config->token)
        snprintf(made->header, sizeof made->header, "Authorization: Bearer %s", config->token);
    enum aw_err err = set_url(made, config->url, diag);
    if (!err)
        err = aw_http_open(&made->http, &http, NULL, diag);
    const int failed = err ? 0 : aw_thread_begin(&made->thread, run, made);
    made->running = !err && !failed;
    if (failed)
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for spans: %s", strerror(failed));
    if (err)
        aw_forward_free(made);
    else
        *ret = made;
    return err;
}

void aw_forward_counts(struct aw_forward *forward, struct aw_forward_counts *ret)
{
    pthread_mutex_lock(&forward->lock);
    *ret = forward->counts;
    pthread_mutex_unlock(&forward->lock);
}

void aw_forward_end(struct aw_forward *forward, struct aw_forward_counts *ret)
{
    pthread_mutex_lock(&forward->lock);
    if (!forward->stop)
        forward->end_us = aw_clock_monotonic_us(NULL) + LAST_US;
    forward->stop = true;
    if (forward->until_us > forward->end_us)
        forward->until_us = forward->end_us; /* also of a try under way */
    pthread_cond_signal(&forward->wake);
    pthread_mutex_unlock(&forward->lock);
    if (forward->running)
        (void)pthread_join(forward->thread, NULL);
    forward->running = false;
    aw_forward_counts(forward, ret);
}

void aw_forward_free(struct aw_forward *forward)
{
    struct aw_forward_counts counts;
    if (!forward)
        return;
    aw_forward_end(forward, &counts);
    aw_http_close(forward->http);
    (void)pthread_cond_destroy(&forward->wake);
    (void)pthread_mutex_destroy(&forward->lock);
    explicit_bzero(forward->header, sizeof forward->header);
    aw_alloc_free(NULL, forward);
}

void aw_forward_put(struct aw_forward *forward, const char *bytes, size_t size,
                    enum aw_span_format format)
{
    struct message *message = NULL;
    pthread_mutex_lock(&forward->lock);
    if (!forward->stop && forward->counts.waiting < AW_FORWARD_MESSAGES &&
        size <= AW_FORWARD_BYTES - forward->bytes)
        message = aw_alloc_new(NULL, 1, sizeof *message + size);
    if (message) {
        message->size = size;
        message->json = format == AW_SPANS_OTLP_JSON;
        memcpy(message->bytes, bytes, size);
        *forward->last = message;
        forward->last = &message->next;
        forward->bytes += size;
        forward->counts.waiting++;
        pthread_cond_signal(&forward->wake);
    } else {
        forward->counts.dropped++;
    }
    pthread_mutex_unlock(&forward->lock);
}

bool aw_forward_trouble(struct aw_forward *forward, char ret[AW_FORWARD_WHY_MAX])
{
    pthread_mutex_lock(&forward->lock);
    const bool news = forward->failing && !forward->told;
    if (news)
        memcpy(ret, forward->why, sizeof forward->why);
    forward->told = forward->told || news;
    pthread_mutex_unlock(&forward->lock);
    return news;
}
