/* span_door.c - see span_door.h. */
#include "daemon/span_door.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/threads.h"
#include "rpc/span_service.h"
#include "trace/receiver.h"

#define TICK_US  500000
#define KEEP_US  (INT64_C(24) * 3600 * 1000000)
#define KEEP_MAX 1000000u /* requests */

struct aw__span_door {
    struct aw_log *log;
    struct aw_collector *collector;
    struct aw_receiver *receiver;
    struct aw_forward *forward;
    struct aw_rpc_service service;
    struct aw_rpc_server *server;
    const struct aw_daemon_traces *asked; /* while it opens */
    struct aw_receiver_config http;       /* has the token */
    pthread_t thread;
    bool ticking;
    _Atomic bool stop;
};

static void *tick(void *ctx)
{
    struct aw__span_door *door = ctx;
    while (!door->stop) {
        struct aw_diag diag = {0};
        char line[1024], why[AW_FORWARD_WHY_MAX];
        if (door->forward && aw_forward_trouble(door->forward, why))
            aw_log_warn(door->log, "spans are not passed on", AW_LOG_STR("why", why));
        const enum aw_err slept = aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + TICK_US);
        (void)slept; /* sooner is no harm */
        const enum aw_err err = aw_collector_tick(door->collector, aw_clock_now_us(NULL), &diag);
        if (err)
            aw_log_warn(door->log, "requests are not kept",
                        AW_LOG_STR("why", aw_diag_format(&diag, err, line, sizeof line)));
    }
    return NULL;
}

static enum aw_err open_http(struct aw__span_door *door, const char *address, struct aw_diag *diag)
{
    struct aw_diag why = {0};
    enum aw_err err = aw_net_parse(address, &door->http.address, &why);
    if (!err)
        err = aw_receiver_open(&door->receiver, &door->http, door->collector, &why);
    if (err)
        return aw_fail_at(diag, err, NULL, 0, 0, "--traces", "%s", why.text);
    aw_log_info(door->log, "spans are taken over HTTP", AW_LOG_STR("address", address),
                AW_LOG_INT("port", aw_receiver_port(door->receiver)));
    return AW_OK;
}

static enum aw_err open_grpc(struct aw__span_door *door, const char *address, struct aw_diag *diag)
{
    const struct aw_rpc_service *services[] = {&door->service};
    const struct aw_rpc_config config = {.listen = address,
                                         .token = *door->http.token ? door->http.token : NULL,
                                         .tls_cert_path = door->asked->tls_cert,
                                         .tls_key_path = door->asked->tls_key};
    struct aw_diag why = {0};
    aw_span_service_init(&door->service, door->collector);
    const enum aw_err err = aw_rpc_server_open(&door->server, &config, services, 1, &why);
    if (err)
        return aw_fail_at(diag, err, NULL, 0, 0, "--traces-grpc", "%s", why.text);
    aw_log_info(door->log, "spans are taken over gRPC", AW_LOG_STR("address", address),
                AW_LOG_INT("port", aw_rpc_server_port(door->server)));
    return AW_OK;
}

static enum aw_err open_forward(struct aw__span_door *door, struct aw_diag *diag)
{
    struct aw_forward_config config = {.url = door->asked->forward};
    struct aw_diag why = {0};
    enum aw_err err = AW_OK;
    if (!config.url)
        return AW_OK;
    if (door->asked->forward_token_file)
        err = aw_file_read_token(door->asked->forward_token_file, config.token, diag);
    if (!err && (err = aw_forward_new(&door->forward, &config, &why)))
        err = aw_fail_at(diag, err, NULL, 0, 0, "--traces-forward", "%s", why.text);
    explicit_bzero(config.token, sizeof config.token);
    return err;
}

enum aw_err aw__span_door_open(struct aw__span_door **ret, const struct aw_daemon_config *config,
                               struct aw_log *log, struct aw_diag *diag)
{
    char store[AW_FILE_PATH_MAX];
    struct aw_collector_config collector = {
        .store = store, .keep_us = KEEP_US, .traces_max = KEEP_MAX};
    *ret = NULL;
    if (!config->traces.http && !config->traces.grpc)
        return AW_OK;
    struct aw__span_door *door = aw_alloc_new(NULL, 1, sizeof *door);
    if (!door)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for traces");
    door->log = log;
    door->asked = &config->traces;
    door->http.tls_cert_path = config->traces.tls_cert;
    door->http.tls_key_path = config->traces.tls_key;
    snprintf(store, sizeof store, "%.*s/" AW_DAEMON_TRACES,
             (int)(sizeof store - sizeof AW_DAEMON_TRACES - 1), config->state);
    enum aw_err err = AW_OK;
    if (config->traces.token_file)
        err = aw_file_read_token(config->traces.token_file, door->http.token, diag);
    err = err ? err : open_forward(door, diag);
    collector.forward = door->forward;
    err = err ? err : aw_collector_new(&door->collector, &collector, diag);
    if (!err && config->traces.http)
        err = open_http(door, config->traces.http, diag);
    if (!err && config->traces.grpc)
        err = open_grpc(door, config->traces.grpc, diag);
    const int failed = err ? 0 : aw_thread_begin(&door->thread, tick, door);
    door->ticking = !err && !failed;
    if (failed)
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for traces: %s", strerror(failed));
    if (err)
        aw__span_door_close(door);
    else
        *ret = door;
    return err;
}

void aw__span_door_close(struct aw__span_door *door)
{
    if (!door)
        return;
    door->stop = true;
    aw_rpc_server_close(door->server);
    aw_receiver_close(door->receiver);
    if (door->ticking)
        pthread_join(door->thread, NULL);
    aw_collector_free(door->collector); /* keeps what still waits */
    aw_forward_free(door->forward);
    explicit_bzero(door->http.token, sizeof door->http.token);
    aw_alloc_free(NULL, door);
}
