/* server.c - see server.h: opening and closing, the threads, what is bounded over all calls. */
#include "rpc/server.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "rpc/listen.h"
#include "rpc/server_internal.h"

#define TICK_US       1000000
#define PEM_BYTES_MAX (1u << 20) /* of a certificate chain or a key */

/* ---- what is bounded over all calls ---- */

bool aw__server_enter(struct aw_rpc_server *server, struct aw_rpc_stream *call)
{
    pthread_mutex_lock(&server->lock);
    const bool room = server->live < server->calls_max;
    if (room) {
        server->live++;
        call->next = server->first;
        if (call->next)
            call->next->prev = call;
        server->first = call;
    }
    pthread_mutex_unlock(&server->lock);
    return room;
}

void aw__server_leave(struct aw_rpc_server *server, struct aw_rpc_stream *call)
{
    pthread_mutex_lock(&server->lock);
    server->live--;
    if (call->prev)
        call->prev->next = call->next;
    else
        server->first = call->next;
    if (call->next)
        call->next->prev = call->prev;
    pthread_mutex_unlock(&server->lock);
}

bool aw__server_rate_allows(struct aw_rpc_server *server, int64_t monotonic_us)
{
    const uint64_t second = (uint64_t)monotonic_us / 1000000 & UINT32_MAX;
    uint64_t seen = atomic_load(&server->rate_second), next;
    do {
        next = seen >> 32 == second ? seen + 1 : second << 32 | 1;
        if ((next & UINT32_MAX) > AW_RPC_CALLS_PER_S)
            return false;
    } while (!atomic_compare_exchange_weak(&server->rate_second, &seen, next));
    return true;
}

/* Calls that never said what they want, streams that nobody uses, and those that cannot end because
 * what was sent before is not read. */
static void idle_end(struct aw_rpc_server *server, int64_t now_us)
{
    pthread_mutex_lock(&server->lock);
    for (struct aw_rpc_stream *call = server->first; call; call = call->next) {
        const int64_t silent_us = now_us - atomic_load(&call->heard_us);
        pthread_mutex_lock(&call->lock);
        const bool stuck = call->ending && now_us - call->ending_us > AW_RPC_ENDING_US;
        pthread_mutex_unlock(&call->lock);
        if (stuck)
            aw__call_cancel(call, call->status, call->text);
        else if (!atomic_load(&call->heard) && silent_us > server->first_message_us)
            aw__call_cancel(call, AW_RPC_DEADLINE_EXCEEDED, "no message came");
        else if (call->method->kind == AW_RPC_LOCKSTEP && silent_us > server->stream_idle_us)
            aw__call_cancel(call, AW_RPC_DEADLINE_EXCEEDED, "the stream was not used");
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- threads ---- */

static void tick(struct aw_rpc_server *server)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    if (!server->expecting && !atomic_load(&server->stopping))
        aw__call_expect(server); /* the first one, or there was no memory the last time */
    if (now_us < server->tick_us)
        return;
    server->tick_us = now_us + TICK_US;
    idle_end(server, now_us);
    for (uint32_t i = 0; i < server->service_count; i++)
        if (server->services[i]->tick)
            server->services[i]->tick(server->services[i]->ctx, now_us);
}

static void *poll_calls(void *arg)
{
    struct aw_rpc_server *server = arg;
    for (;;) {
        tick(server);
        const grpc_event event =
            grpc_completion_queue_next(server->queue, aw__deadline_in_us(TICK_US), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE)
            aw__call_event(event.tag, event.success);
    }
}

void aw__server_job(struct aw_rpc_server *server, struct aw_rpc_stream *call)
{
    pthread_mutex_lock(&server->job_lock);
    call->job_next = NULL;
    if (server->job_first)
        server->job_last->job_next = call;
    else
        server->job_first = call;
    server->job_last = call;
    pthread_cond_signal(&server->job_there);
    pthread_mutex_unlock(&server->job_lock);
}

static void *work(void *arg)
{
    struct aw_rpc_server *server = arg;
    pthread_mutex_lock(&server->job_lock);
    for (;;) {
        struct aw_rpc_stream *call = server->job_first;
        if (call) {
            server->job_first = call->job_next;
            pthread_mutex_unlock(&server->job_lock);
            aw__call_work(call);
            pthread_mutex_lock(&server->job_lock);
        } else if (server->job_end) {
            break;
        } else {
            pthread_cond_wait(&server->job_there, &server->job_lock);
        }
    }
    pthread_mutex_unlock(&server->job_lock);
    return NULL;
}

/* Those that work first: whoever polls may need them. */
static enum aw_err threads_start(struct aw_rpc_server *server, uint32_t workers,
                                 struct aw_diag *diag)
{
    int failed = 0;
    while (server->worker_count < workers &&
           !(failed = aw_thread_begin(&server->workers[server->worker_count], work, server)))
        server->worker_count++;
    if (!failed)
        failed = aw_thread_begin(&server->poller, poll_calls, server);
    server->polling = !failed;
    return failed
               ? aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the server: %s", strerror(failed))
               : AW_OK;
}

/* ---- opening ---- */

static enum aw_err credentials_make(const struct aw_rpc_config *config,
                                    grpc_server_credentials **ret, struct aw_diag *diag)
{
    char *cert = NULL, *key = NULL;
    size_t cert_len, key_len;
    enum aw_err err;
    if (!config->tls_cert_path) {
        *ret = grpc_insecure_server_credentials_create();
        return AW_OK;
    }
    if ((err = aw_file_read(config->tls_cert_path, PEM_BYTES_MAX, NULL, &cert, &cert_len, diag)) ||
        (err = aw_file_read(config->tls_key_path, PEM_BYTES_MAX, NULL, &key, &key_len, diag)))
        goto out;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = cert};
    *ret = grpc_ssl_server_credentials_create_ex(NULL, &pair, 1,
                                                 GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, NULL);
    if (!*ret)
        err = aw_fail_at(diag, AW_ERR_CONFIG, config->tls_cert_path, 0, 0, NULL,
                         "expected a certificate and its key in PEM");
out:
    aw_alloc_free(NULL, cert);
    if (key)
        explicit_bzero(key, strlen(key));
    aw_alloc_free(NULL, key);
    return err;
}

static enum aw_err config_check(const struct aw_rpc_config *config, const struct aw__listen *listen,
                                struct aw_diag *diag)
{
    const size_t len = config->token ? strlen(config->token) : 0;
    if (!config->tls_cert_path != !config->tls_key_path)
        return aw_fail(diag, AW_ERR_CONFIG, "TLS needs both a certificate and its key");
    if (config->token && (len < AW_TOKEN_MIN || len >= AW_TOKEN_MAX))
        return aw_fail(diag, AW_ERR_CONFIG, "expected a token of %u to %u characters, found %zu",
                       AW_TOKEN_MIN, AW_TOKEN_MAX - 1, len);
    if (!listen->local && (!config->tls_cert_path || !config->token))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "%s can be reached from other machines: that needs TLS and a token",
                       listen->target);
    if (config->orders && !*listen->path && !config->token)
        return aw_fail(
            diag, AW_ERR_CONFIG,
            "everybody on this machine can reach %s and would decide for workloads: that "
            "needs --agents-token-file, or a Unix socket",
            listen->target);
    if (config->threads > AW_RPC_THREADS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u threads, found %u",
                       AW_RPC_THREADS_MAX, config->threads);
    return AW_OK;
}

static grpc_server *grpc_make(void)
{
    grpc_resource_quota *quota = grpc_resource_quota_create("aware");
    grpc_resource_quota_resize(quota, AW_RPC_BUFFER_BYTES);
    grpc_arg args[] = {
        {.key = (char *)(uintptr_t)GRPC_ARG_MAX_CONCURRENT_STREAMS,
         .value.integer = AW_RPC_STREAMS},
        {.key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = AW_RPC_MESSAGE_BYTES_MAX},
        {.key = (char *)(uintptr_t)GRPC_ARG_MAX_SEND_MESSAGE_LENGTH,
         .value.integer = AW_RPC_MESSAGE_BYTES_MAX},
        {.key = (char *)(uintptr_t)GRPC_ARG_ALLOW_REUSEPORT, .value.integer = 0},
        {.key = (char *)(uintptr_t)GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
         .value.integer = AW_RPC_HANDSHAKE_MS},
        {.key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIME_MS,
         .value.integer = AW_RPC_KEEPALIVE_MS},
        {.key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
         .value.integer = AW_RPC_HANDSHAKE_MS},
        {.key = (char *)(uintptr_t)GRPC_ARG_MAX_CONNECTION_IDLE_MS,
         .value.integer = AW_RPC_STREAM_IDLE_US / 1000},
    };
    const size_t plain = sizeof args / sizeof *args;
    grpc_arg all[sizeof args / sizeof *args + 1];
    for (size_t i = 0; i < plain; i++) {
        all[i] = args[i];
        all[i].type = GRPC_ARG_INTEGER;
    }
    all[plain] = (grpc_arg){.type = GRPC_ARG_POINTER,
                            .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA,
                            .value.pointer = {quota, grpc_resource_quota_arg_vtable()}};
    const grpc_channel_args channel = {.num_args = plain + 1, .args = all};
    grpc_server *made = grpc_server_create(&channel, NULL);
    grpc_resource_quota_unref(quota);
    return made;
}

static enum aw_err port_bind(struct aw_rpc_server *server, const struct aw_rpc_config *config,
                             const struct aw__listen *listen, struct aw_diag *diag)
{
    grpc_server_credentials *credentials = NULL;
    enum aw_err err = credentials_make(config, &credentials, diag);
    if (!err)
        err = aw__listen_prepare(listen, diag);
    if (err)
        goto out;
    /* A socket is born with its mode: between bind and a chmod anybody could connect. */
    const mode_t before = *listen->path ? umask(0177) : 0;
    const int port = grpc_server_add_http2_port(server->grpc, listen->target, credentials);
    if (*listen->path)
        umask(before);
    if (!port) {
        err =
            aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot listen on %s: is it taken?", listen->target);
        goto out;
    }
    server->port = *listen->path ? 0 : (uint16_t)port;
    snprintf(server->socket_path, sizeof server->socket_path, "%s", listen->path);
out:
    if (credentials)
        grpc_server_credentials_release(credentials);
    return err;
}

static void services_take(struct aw_rpc_server *server,
                          const struct aw_rpc_service *const *services, uint32_t count)
{
    aw__health_init(&server->health);
    aw__reflection_init(&server->reflection);
    server->health_service = (struct aw_rpc_service){
        .name = "grpc.health.v1.Health", .methods = aw__health_methods, .ctx = &server->health};
    server->reflection_service =
        (struct aw_rpc_service){.name = "grpc.reflection.v1alpha.ServerReflection",
                                .methods = aw__reflection_methods,
                                .ctx = &server->reflection};
    for (uint32_t i = 0; i < count; i++) {
        server->services[server->service_count++] = services[i];
        aw__health_add(&server->health, services[i]->name);
        aw__reflection_add(&server->reflection, services[i]->name);
    }
    server->services[server->service_count++] = &server->health_service;
    server->services[server->service_count++] = &server->reflection_service;
    aw__reflection_add(&server->reflection, server->health_service.name);
    aw__reflection_add(&server->reflection, server->reflection_service.name);
}

enum aw_err aw_rpc_server_open(struct aw_rpc_server **ret_server,
                               const struct aw_rpc_config *config,
                               const struct aw_rpc_service *const *services, uint32_t service_count,
                               struct aw_diag *diag)
{
    struct aw__listen listen;
    AW_ASSERT(service_count <= AW_RPC_SERVICES_MAX);
    enum aw_err err = aw__listen_parse(&listen, config->listen, diag);
    if (err || (err = config_check(config, &listen, diag)))
        return err;
    struct aw_rpc_server *server = aw_alloc_new(NULL, 1, sizeof *server);
    if (!server)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the server");
    aw__library_open();
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->empty, NULL);
    pthread_mutex_init(&server->job_lock, NULL);
    pthread_cond_init(&server->job_there, NULL);
    server->calls_max = config->calls_max ? config->calls_max : AW_RPC_CALLS;
    server->first_message_us =
        config->first_message_us ? config->first_message_us : AW_RPC_FIRST_MESSAGE_US;
    server->stream_idle_us =
        config->stream_idle_us ? config->stream_idle_us : AW_RPC_STREAM_IDLE_US;
    if (config->token)
        snprintf(server->token, sizeof server->token, "%s", config->token);
    services_take(server, services, service_count);
    server->grpc = grpc_make();
    server->stop_queue = grpc_completion_queue_create_for_pluck(NULL);
    server->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->grpc, server->queue, NULL);
    if (!(err = port_bind(server, config, &listen, diag))) {
        grpc_server_start(server->grpc);
        err = threads_start(server, config->threads ? config->threads : AW_RPC_THREADS, diag);
    }
    if (err) {
        aw_rpc_server_close(server);
        return err;
    }
    *ret_server = server;
    return AW_OK;
}

/* ---- closing ---- */

static void streams_tell(struct aw_rpc_server *server)
{
    static const char text[] = "the server stops";
    pthread_mutex_lock(&server->lock);
    for (struct aw_rpc_stream *call = server->first; call; call = call->next) {
        if (call->method->kind == AW_RPC_DUPLEX)
            aw_rpc_stream_end(call, AW_RPC_UNAVAILABLE, text);
        else if (call->method->kind == AW_RPC_LOCKSTEP)
            aw__call_cancel(call, AW_RPC_UNAVAILABLE, text);
    }
    pthread_mutex_unlock(&server->lock);
}

static void calls_end(struct aw_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->stopping, true);
    pthread_mutex_unlock(&server->lock);
    grpc_server_shutdown_and_notify(server->grpc, server->stop_queue, server);
    streams_tell(server);
    const grpc_event event = grpc_completion_queue_pluck(server->stop_queue, server,
                                                         aw__deadline_in_us(AW_RPC_STOP_US), NULL);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
        grpc_server_cancel_all_calls(server->grpc);
        grpc_completion_queue_pluck(server->stop_queue, server, aw__deadline_in_us(-1), NULL);
    }
    /* A queue that is shut down takes nothing more, so what the calls still do has to end first. */
    pthread_mutex_lock(&server->lock);
    while (server->made)
        pthread_cond_wait(&server->empty, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

void aw_rpc_server_close(struct aw_rpc_server *server)
{
    if (!server)
        return;
    calls_end(server);
    grpc_completion_queue_shutdown(server->queue);
    if (server->polling)
        pthread_join(server->poller, NULL);
    else
        poll_calls(server); /* gives back what is still in it */
    pthread_mutex_lock(&server->job_lock);
    server->job_end = true;
    pthread_cond_broadcast(&server->job_there);
    pthread_mutex_unlock(&server->job_lock);
    for (uint32_t i = 0; i < server->worker_count; i++)
        pthread_join(server->workers[i], NULL);
    grpc_server_destroy(server->grpc);
    grpc_completion_queue_destroy(server->queue);
    grpc_completion_queue_shutdown(server->stop_queue);
    grpc_completion_queue_destroy(server->stop_queue);
    if (*server->socket_path)
        unlink(server->socket_path);
    aw__health_deinit(&server->health);
    explicit_bzero(server->token, sizeof server->token);
    pthread_cond_destroy(&server->job_there);
    pthread_mutex_destroy(&server->job_lock);
    pthread_cond_destroy(&server->empty);
    pthread_mutex_destroy(&server->lock);
    aw_alloc_free(NULL, server);
    aw__library_close();
}

uint16_t aw_rpc_server_port(const struct aw_rpc_server *server)
{
    return server->port;
}

void aw_rpc_server_health(struct aw_rpc_server *server, const char *service, bool serving)
{
    aw__health_set(&server->health, service, serving);
}

void aw_rpc_server_stats(struct aw_rpc_server *server, struct aw_rpc_stats *ret)
{
    *ret = (struct aw_rpc_stats){.calls = atomic_load(&server->calls),
                                 .refused = atomic_load(&server->refused),
                                 .messages = atomic_load(&server->messages)};
    pthread_mutex_lock(&server->lock);
    ret->live = server->live;
    pthread_mutex_unlock(&server->lock);
}
