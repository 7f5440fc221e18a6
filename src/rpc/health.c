/* health.c - see health.h. */
#include "rpc/health.h"

#include <grpc/health/v1/health.pb-c.h>
#include <string.h>

enum { NOT_ASKED = -1, NOT_KNOWN = -2 };

void aw__health_init(struct aw__health *health)
{
    *health = (struct aw__health){.count = 0};
    pthread_mutex_init(&health->lock, NULL);
    aw__health_add(health, "");
}

void aw__health_deinit(struct aw__health *health)
{
    pthread_mutex_destroy(&health->lock);
}

void aw__health_add(struct aw__health *health, const char *service)
{
    AW_ASSERT(health->count < AW__HEALTH_SERVICES);
    health->service[health->count].name = service;
    health->service[health->count++].serving = true;
}

static int32_t find(const struct aw__health *health, const char *service)
{
    for (uint32_t i = 0; i < health->count; i++)
        if (!strcmp(health->service[i].name, service))
            return (int32_t)i;
    return NOT_KNOWN;
}

static Grpc__Health__V1__HealthCheckResponse response(const struct aw__health *health,
                                                      int32_t service)
{
    Grpc__Health__V1__HealthCheckResponse message = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    if (service < 0)
        message.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
    else if (health->service[service].serving)
        message.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    else
        message.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    return message;
}

static void reply_put(struct aw_rpc_reply *reply,
                      const Grpc__Health__V1__HealthCheckResponse *message)
{
    uint8_t *room =
        aw_rpc_reply_room(reply, grpc__health__v1__health_check_response__get_packed_size(message));
    if (room)
        grpc__health__v1__health_check_response__pack(message, room);
}

/* With the lock held. A watcher that does not read will hear the next change, or none. */
static void tell(const struct aw__watch *watch)
{
    uint8_t bytes[16];
    const Grpc__Health__V1__HealthCheckResponse message = response(watch->health, watch->service);
    AW_ASSERT(grpc__health__v1__health_check_response__get_packed_size(&message) <= sizeof bytes);
    size_t size = grpc__health__v1__health_check_response__pack(&message, bytes);
    if (aw_rpc_stream_send(watch->stream, bytes, size) == AW_ERR_LIMIT)
        aw_rpc_stream_end(watch->stream, AW_RPC_RESOURCE_EXHAUSTED, "changes were not read");
}

void aw__health_set(struct aw__health *health, const char *service, bool serving)
{
    pthread_mutex_lock(&health->lock);
    const int32_t at = find(health, service);
    AW_ASSERT(at >= 0);
    const bool changed = health->service[at].serving != serving;
    health->service[at].serving = serving;
    for (uint32_t i = 0; i < AW__HEALTH_WATCHES && changed; i++)
        if (health->watch[i].stream && health->watch[i].service == at)
            tell(&health->watch[i]);
    pthread_mutex_unlock(&health->lock);
}

static void check(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw__health *health = ctx;
    Grpc__Health__V1__HealthCheckRequest *request =
        grpc__health__v1__health_check_request__unpack(NULL, size, bytes);
    if (!request) {
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "not a HealthCheckRequest");
        return;
    }
    pthread_mutex_lock(&health->lock);
    const int32_t service = find(health, request->service);
    const Grpc__Health__V1__HealthCheckResponse message = response(health, service);
    pthread_mutex_unlock(&health->lock);
    if (service < 0)
        aw_rpc_reply_fail(reply, AW_RPC_NOT_FOUND, "there is no such service here");
    else
        reply_put(reply, &message);
    grpc__health__v1__health_check_request__free_unpacked(request, NULL);
}

static void watch_open(void *ctx, struct aw_rpc_stream *stream, void **ret_self,
                       struct aw_rpc_reply *reply)
{
    struct aw__health *health = ctx;
    struct aw__watch *watch = NULL;
    pthread_mutex_lock(&health->lock);
    for (uint32_t i = 0; i < AW__HEALTH_WATCHES && !watch; i++)
        if (!health->watch[i].stream)
            watch = &health->watch[i];
    if (watch)
        *watch = (struct aw__watch){.health = health, .stream = stream, .service = NOT_ASKED};
    pthread_mutex_unlock(&health->lock);
    if (!watch)
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "%u streams watch already",
                          AW__HEALTH_WATCHES);
    *ret_self = watch;
}

static void watch_message(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw__watch *watch = self;
    Grpc__Health__V1__HealthCheckRequest *request =
        grpc__health__v1__health_check_request__unpack(NULL, size, bytes);
    if (!request || watch->service != NOT_ASKED) {
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "expected one HealthCheckRequest");
    } else {
        pthread_mutex_lock(&watch->health->lock);
        watch->service = find(watch->health, request->service);
        tell(watch);
        pthread_mutex_unlock(&watch->health->lock);
    }
    if (request)
        grpc__health__v1__health_check_request__free_unpacked(request, NULL);
}

static void watch_half_closed(void *self, struct aw_rpc_reply *reply)
{
    const struct aw__watch *watch = self;
    if (watch->service == NOT_ASKED)
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "expected one HealthCheckRequest");
}

static void watch_close(void *self)
{
    struct aw__watch *watch = self;
    struct aw__health *health = watch->health;
    pthread_mutex_lock(&health->lock);
    *watch = (struct aw__watch){0};
    pthread_mutex_unlock(&health->lock);
}

const struct aw_rpc_method aw__health_methods[] = {
    {.path = "/grpc.health.v1.Health/Check", .kind = AW_RPC_UNARY, .anyone = true, .unary = check},
    {.path = "/grpc.health.v1.Health/Watch",
     .kind = AW_RPC_DUPLEX,
     .open = watch_open,
     .message = watch_message,
     .half_closed = watch_half_closed,
     .close = watch_close},
    {.path = NULL},
};
