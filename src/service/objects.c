/* objects.c - objects by name, each kept until it is replaced and nobody reads it any more. */
#include "service/objects.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/threads.h"
#include "service/server.h"

#define IDLE_US   75000000
#define TICK_US   100000
#define PARTS_MAX 64u

struct content {
    uint64_t len;
    uint32_t readers; /* requests that are sending it; +1 while it has a name */
    char bytes[];
};

struct object {
    char name[AW_OBJECTS_NAME_MAX];
    struct content *content;
};

/* What a connection's request is about. */
struct about {
    struct content *content; /* being received or sent */
    uint64_t at;             /* bytes received */
    int64_t begun_us, delay_us;
    uint32_t parts, part;
    uint32_t slot;
    bool put, health, sending;
};

struct aw_objects {
    struct aw_objects_config config;
    struct aw__server *server;
    uint64_t bytes; /* of all contents */
    uint32_t object_count;
    _Atomic bool stop;
    pthread_t thread;
    struct object object[AW_OBJECTS_MAX];
};

static void content_drop(struct aw_objects *objects, struct content *content)
{
    if (!content || --content->readers > 0)
        return;
    objects->bytes -= content->len;
    aw_alloc_free(objects->config.alloc, content);
}

static struct content *content_new(struct aw_objects *objects, uint64_t len)
{
    if (len > AW_OBJECTS_BYTES_MAX || len > AW_OBJECTS_ALL_BYTES_MAX - objects->bytes)
        return NULL;
    struct content *content = aw_alloc_new(objects->config.alloc, 1, sizeof *content + (size_t)len);
    if (!content)
        return NULL;
    content->len = len;
    content->readers = 1;
    objects->bytes += len;
    return content;
}

/* The place of a name; a new one when `make`. UINT32_MAX: none. */
static uint32_t slot_of(struct aw_objects *objects, struct aw_http1_span name, bool make)
{
    for (uint32_t i = 0; i < objects->object_count; i++) {
        if (aw_http1_is(name, objects->object[i].name))
            return i;
    }
    if (!make || objects->object_count == AW_OBJECTS_MAX || name.len >= AW_OBJECTS_NAME_MAX)
        return UINT32_MAX;
    struct object *object = &objects->object[objects->object_count];
    memcpy(object->name, name.at, name.len);
    object->name[name.len] = '\0';
    return objects->object_count++;
}

static enum aw_err number_of(struct aw_http1_span query, const char *key, uint64_t high,
                             uint64_t *ret)
{
    char text[24];
    const struct aw_http1_span value = aw_http1_query(query, key);
    if (!value.at)
        return AW_OK;
    if (value.len >= sizeof text)
        return AW_ERR_USAGE;
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    uint64_t number = 0;
    if (aw_text_parse_u64(text, &number) || number > high)
        return AW_ERR_USAGE;
    *ret = number;
    return AW_OK;
}

static enum aw_err begin(void *self, struct aw__server *server, aw__token token,
                         const struct aw_http1_head *head)
{
    _Static_assert(sizeof(struct about) <= AW__SERVER_USER_BYTES, "about a request");
    struct aw_objects *objects = self;
    struct about *about = aw__server_user(server, token);
    uint64_t delay_us = 0, parts = 1;
    enum aw_err err = number_of(head->query, "delay_us", AW_OBJECTS_DELAY_US_MAX, &delay_us);
    if (!err)
        err = number_of(head->query, "parts", PARTS_MAX, &parts);
    if (err)
        return err;
    about->begun_us = aw_clock_monotonic_us(NULL);
    about->delay_us = (int64_t)delay_us;
    about->parts = parts ? (uint32_t)parts : 1;
    about->put = aw_http1_is(head->method, "PUT");
    about->health = aw_http1_is(head->path, "/healthz");
    if (about->health)
        return AW_OK;
    if (!about->put && !aw_http1_is(head->method, "GET"))
        return AW_ERR_UNSUPPORTED;
    about->slot = slot_of(objects, head->path, about->put);
    if (!about->put) {
        about->content = about->slot < AW_OBJECTS_MAX ? objects->object[about->slot].content : NULL;
        if (about->content)
            about->content->readers++;
        return AW_OK;
    }
    if (head->framing != AW_HTTP1_LENGTH)
        return AW_ERR_UNSUPPORTED;
    about->content = about->slot < AW_OBJECTS_MAX ? content_new(objects, head->length) : NULL;
    return about->content ? AW_OK : AW_ERR_LIMIT;
}

static enum aw_err body(void *self, aw__token token, const char *bytes, size_t len)
{
    struct aw_objects *objects = self;
    struct about *about = aw__server_user(objects->server, token);
    if (!about->put)
        return AW_OK;
    AW_ASSERT(len <= about->content->len - about->at);
    memcpy(about->content->bytes + about->at, bytes, len);
    about->at += len;
    return AW_OK;
}

static void text_answer(struct aw_objects *objects, aw__token token, int status, const char *text)
{
    const struct aw__answer answer = {
        .status = status, .type = "text/plain", .body = text, .len = strlen(text)};
    aw__server_answer(objects->server, token, &answer);
}

/* What is due by now: the first answer, or one more part of it. */
static void go_on(struct aw_objects *objects, aw__token token, struct about *about)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    const int64_t part_us = about->delay_us / about->parts;
    while (about->part < about->parts && (about->part + 1) * part_us <= now_us - about->begun_us)
        about->part++;
    if (about->part == 0) {
        aw__server_timer(objects->server, token, about->begun_us + part_us);
        return;
    }
    if (about->put) {
        struct object *object = &objects->object[about->slot];
        struct content *const old = object->content;
        object->content = about->content; /* the request's share becomes the name's */
        about->content = NULL;
        content_drop(objects, old);
        text_answer(objects, token, 201, "kept\n");
        return;
    }
    struct content *content = about->content;
    const size_t ready = (size_t)(content->len * about->part / about->parts);
    const bool last = about->part == about->parts;
    if (!last)
        aw__server_timer(objects->server, token, about->begun_us + (about->part + 1) * part_us);
    if (about->sending) {
        aw__server_ready(objects->server, token, ready);
        return;
    }
    about->sending = true;
    const struct aw__answer answer = {.status = 200,
                                      .type = "application/octet-stream",
                                      .body = content->bytes,
                                      .len = (size_t)content->len,
                                      .ready = ready,
                                      .borrowed = true};
    aw__server_answer(objects->server, token, &answer);
}

static void end(void *self, struct aw__server *server, aw__token token)
{
    struct aw_objects *objects = self;
    struct about *about = aw__server_user(server, token);
    if (about->health)
        text_answer(objects, token, 200, "ok\n");
    else if (!about->content)
        text_answer(objects, token, 404, "no such object\n");
    else
        go_on(objects, token, about);
}

static void over(void *self, aw__token token, bool answered)
{
    (void)answered;
    struct aw_objects *objects = self;
    struct about *about = aw__server_user(objects->server, token);
    if (about)
        content_drop(objects, about->content);
}

static void timer(void *self, struct aw__server *server, aw__token token)
{
    struct about *about = aw__server_user(server, token);
    if (about)
        go_on(self, token, about);
}

static void wake(void *self, struct aw__server *server)
{
    struct aw_objects *objects = self;
    if (objects->stop)
        aw__server_stop(server);
}

static void tick(void *self, struct aw__server *server, int signal)
{
    (void)self;
    if (signal)
        aw__server_drain(server);
}

static const struct aw__handler handler = {begin, body, end, over, timer, wake, tick};

static enum aw_err objects_new(const struct aw_objects_config *config, struct aw_objects **ret,
                               struct aw_diag *diag)
{
    struct aw_objects *objects = aw_alloc_new(config->alloc, 1, sizeof *objects);
    if (!objects)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u objects", AW_OBJECTS_MAX);
    objects->config = *config;
    const struct aw__server_config server = {.listen_fd = config->listen_fd,
                                             .unix_fd = -1,
                                             .signal_fd = config->signal_fd,
                                             .connections_max = config->connections_max,
                                             .idle_us = IDLE_US,
                                             .tick_us = TICK_US,
                                             .handler = &handler,
                                             .self = objects};
    enum aw_err err = aw__server_new(&server, config->alloc, &objects->server, diag);
    if (err)
        aw_alloc_free(config->alloc, objects);
    else
        *ret = objects;
    return err;
}

static void objects_free(struct aw_objects *objects)
{
    aw__server_free(objects->server);
    for (uint32_t i = 0; i < objects->object_count; i++)
        content_drop(objects, objects->object[i].content);
    aw_alloc_free(objects->config.alloc, objects);
}

enum aw_err aw_objects_run(const struct aw_objects_config *config, struct aw_diag *diag)
{
    struct aw_objects *objects = NULL;
    enum aw_err err = objects_new(config, &objects, diag);
    if (err)
        return err;
    AW_ASSERT(objects);
    err = aw__server_run(objects->server, diag);
    objects_free(objects);
    return err;
}

static void *serve(void *arg)
{
    struct aw_objects *objects = arg;
    struct aw_diag diag;
    const enum aw_err err = aw__server_run(objects->server, &diag);
    (void)err; /* told to stop; a broken epoll shows as refused connections */
    return NULL;
}

enum aw_err aw_objects_start(const struct aw_objects_config *config,
                             struct aw_objects **ret_objects, struct aw_diag *diag)
{
    struct aw_objects *objects = NULL;
    enum aw_err err = objects_new(config, &objects, diag);
    if (err)
        return err;
    AW_ASSERT(objects);
    const int failed = aw_thread_begin(&objects->thread, serve, objects);
    if (failed) {
        objects_free(objects);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
    }
    *ret_objects = objects;
    return AW_OK;
}

void aw_objects_stop(struct aw_objects *objects)
{
    if (!objects)
        return;
    objects->stop = true;
    aw__server_notify(objects->server);
    (void)pthread_join(objects->thread, NULL);
    objects_free(objects);
}
