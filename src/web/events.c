/* events.c - one text of news at a time, handed to all who listen. */
#include "web/events.h"

#include "base/alloc.h"
#include "base/threads.h"
#include "web/api_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 4096u

struct news {
    uint32_t holders; /* the hub, and streams that read it */
    size_t len;
    char text[];
};

struct stream {
    struct aw__events *events;
    struct MHD_Connection *connection;
    struct news *news; /* being read; NULL: all is read */
    size_t at;
    uint64_t read; /* serial of the last news that was begun */
    bool asleep;   /* suspended, until there is more */
    struct stream *next, *before;
};

struct aw__events {
    struct aw_api *api;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* of what follows */
    void (*beat)(void *ctx);
    void *beat_ctx;
    struct stream *first;
    uint32_t count;
    struct news *latest; /* NULL: none yet */
    uint64_t serial;     /* of it */
    bool closing;
};

/* --- news ------------------------------------------------------------------------------------- */

static void news_drop(struct news *news)
{
    if (news && --news->holders == 0)
        free(news);
}

/* "event: tick\ndata: {...}\n\n"; JSON has no newline in it. NULL: no memory, or no desk. */
static struct news *news_make(struct aw_api *api)
{
    const struct aw_api_request ask = {.method = "GET", .path = "/v1/status"};
    struct aw_api_response answer;
    static const char head[] = "event: tick\ndata: ", tail[] = "\n\n";
    if (aw_api_answer(api, &ask, &answer))
        return NULL;
    size_t len = answer.len;
    while (len && answer.body[len - 1] == '\n')
        len--;
    struct news *news = NULL;
    if (answer.status == 200)
        news = malloc(sizeof *news + sizeof head + len + sizeof tail);
    if (news) {
        memcpy(news->text, head, sizeof head - 1);
        memcpy(news->text + sizeof head - 1, answer.body, len);
        memcpy(news->text + sizeof head - 1 + len, tail, sizeof tail - 1);
        news->len = sizeof head - 1 + len + sizeof tail - 1;
        news->holders = 1;
    }
    aw_api_response_deinit(&answer);
    return news;
}

/* With the lock held. */
static void wake_all(struct aw__events *events)
{
    for (struct stream *s = events->first; s; s = s->next)
        if (s->asleep) {
            s->asleep = false;
            MHD_resume_connection(s->connection);
        }
}

static bool anybody(struct aw__events *events)
{
    pthread_mutex_lock(&events->lock);
    const bool found = events->count > 0 && !events->closing;
    pthread_mutex_unlock(&events->lock);
    return found;
}

static bool closing(struct aw__events *events)
{
    pthread_mutex_lock(&events->lock);
    const bool found = events->closing;
    pthread_mutex_unlock(&events->lock);
    return found;
}

static void tell(struct aw__events *events)
{
    struct news *news = news_make(events->api);
    if (!news)
        return; /* told with the next tick */
    pthread_mutex_lock(&events->lock);
    news_drop(events->latest);
    events->latest = news;
    events->serial++;
    wake_all(events);
    pthread_mutex_unlock(&events->lock);
}

static void *wait_for_ticks(void *ctx)
{
    struct aw__events *events = ctx;
    uint64_t seen = 0;
    while (!closing(events)) {
        seen = aw_api_wait(events->api, seen, AW_EVENTS_BEAT_MS);
        pthread_mutex_lock(&events->lock);
        void (*beat)(void *) = events->beat;
        void *beat_ctx = events->beat_ctx;
        pthread_mutex_unlock(&events->lock);
        if (beat)
            beat(beat_ctx);
        if (!anybody(events))
            continue;
        tell(events);
        /* whoever ticks faster than people read is told of twice a second */
        const int64_t until = aw_clock_monotonic_us(NULL) + AW_EVENTS_PERIOD_MS * 1000;
        while (!closing(events) && aw_clock_monotonic_us(NULL) < until) {
            const enum aw_err err =
                aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 100000);
            (void)err; /* interrupted or not, the loop looks again */
        }
    }
    return NULL;
}

/* --- a listener ------------------------------------------------------------------------------- */

static ssize_t stream_read(void *ctx, uint64_t position, char *buf, size_t max)
{
    struct stream *s = ctx;
    struct aw__events *events = s->events;
    ssize_t got = 0;
    (void)position;
    pthread_mutex_lock(&events->lock);
    if (events->closing) {
        got = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        if (!s->news && events->latest && s->read != events->serial) {
            s->news = events->latest;
            s->news->holders++;
            s->read = events->serial;
            s->at = 0;
        }
        if (s->news) {
            const size_t left = s->news->len - s->at, taken = left < max ? left : max;
            memcpy(buf, s->news->text + s->at, taken);
            s->at += taken;
            got = (ssize_t)taken;
            if (s->at == s->news->len) {
                news_drop(s->news);
                s->news = NULL;
            }
        } else {
            s->asleep = true;
            MHD_suspend_connection(s->connection);
        }
    }
    pthread_mutex_unlock(&events->lock);
    return got;
}

static void stream_free(void *ctx)
{
    struct stream *s = ctx;
    struct aw__events *events = s->events;
    pthread_mutex_lock(&events->lock);
    *(s->before ? &s->before->next : &events->first) = s->next;
    if (s->next)
        s->next->before = s->before;
    events->count--;
    news_drop(s->news);
    pthread_mutex_unlock(&events->lock);
    free(s);
}

struct MHD_Response *aw__events_answer(struct aw__events *events, struct MHD_Connection *connection)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct stream){.events = events, .connection = connection};
    pthread_mutex_lock(&events->lock);
    const bool room = events->count < AW_EVENTS_STREAMS_MAX && !events->closing;
    if (room) {
        s->next = events->first;
        if (s->next)
            s->next->before = s;
        events->first = s;
        events->count++;
        s->read = events->latest ? events->serial - 1 : events->serial; /* the present at once */
    }
    pthread_mutex_unlock(&events->lock);
    if (!room) {
        free(s);
        return NULL;
    }
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                                      stream_read, s, stream_free);
    if (!response)
        stream_free(s);
    aw_api_wake(events->api); /* a first listener is told at once */
    return response;
}

/* --- made and ended --------------------------------------------------------------------------- */

enum aw_err aw__events_open(struct aw__events **ret, struct aw_api *api, struct aw_diag *diag)
{
    struct aw__events *events = aw_alloc_new(NULL, 1, sizeof *events);
    if (!events)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the event stream");
    events->api = api;
    pthread_mutex_init(&events->lock, NULL);
    events->running = aw_thread_begin(&events->thread, wait_for_ticks, events) == 0;
    if (!events->running) {
        aw__events_free(events);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the event stream");
    }
    *ret = events;
    return AW_OK;
}

void aw__events_beat(struct aw__events *events, void (*beat)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&events->lock);
    events->beat = beat;
    events->beat_ctx = ctx;
    pthread_mutex_unlock(&events->lock);
}

void aw__events_close(struct aw__events *events)
{
    if (!events)
        return;
    pthread_mutex_lock(&events->lock);
    events->closing = true;
    wake_all(events);
    pthread_mutex_unlock(&events->lock);
    aw_api_wake(events->api);
    if (events->running)
        pthread_join(events->thread, NULL);
    events->running = false;
}

void aw__events_free(struct aw__events *events)
{
    if (!events)
        return;
    AW_ASSERT(!events->running && events->count == 0);
    news_drop(events->latest);
    pthread_mutex_destroy(&events->lock);
    aw_alloc_free(NULL, events);
}
