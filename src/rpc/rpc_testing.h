/*
 * rpc_testing.h - a server and a client of it in one process; included by tests alone.
 *
 * gRPC's library is not built with ThreadSanitizer, which therefore cannot see its locks: what
 * happens inside it is not judged.
 */
#ifndef AW_RPC_TESTING_H
#define AW_RPC_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/testing.h"
#include "rpc/client.h"
#include "rpc/env_service.h"
#include "rpc/server.h"

#if defined(__SANITIZE_THREAD__)
/* the sanitizer's library looks it up: what is hidden it does not find. Weak: of many files one */
__attribute__((weak, visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1:report_signal_unsafe=0";
}
#endif

#define AW_TESTING_WAIT_US 60000000 /* the machine may be busy: nothing here has to be fast */

struct aw_rpc_world {
    char folder[64], socket[96], listen[104];
    struct aw_env_service *envs;
    struct aw_rpc_server *server;
    struct aw_rpc_client *client;
};

/* `extra` services beside that of environments; `config` may be NULL. */
static inline void aw_rpc_world_open(struct aw_rpc_world *world, const struct aw_rpc_config *config,
                                     const struct aw_rpc_service *extra)
{
    struct aw_diag diag = {0};
    struct aw_rpc_config all = config ? *config : (struct aw_rpc_config){0};
    const struct aw_rpc_service *services[2] = {NULL, extra};
    *world = (struct aw_rpc_world){.folder = "/tmp/aware-rpc-XXXXXX"};
    assert_non_null(mkdtemp(world->folder));
    snprintf(world->socket, sizeof world->socket, "%s/s", world->folder);
    snprintf(world->listen, sizeof world->listen, "unix:%s", world->socket);
    if (!all.listen)
        all.listen = world->listen;
    assert_ok(aw_env_service_new(&world->envs, NULL, NULL));
    services[0] = aw_env_service_service(world->envs);
    if (aw_rpc_server_open(&world->server, &all, services, extra ? 2 : 1, &diag))
        fail_msg("%s", diag.text);
    const struct aw_rpc_client_config client = {.address = world->listen,
                                                .timeout_us = AW_TESTING_WAIT_US};
    assert_ok(aw_rpc_client_open(&world->client, &client, NULL));
}

static inline void aw_rpc_world_close(struct aw_rpc_world *world)
{
    aw_rpc_client_close(world->client);
    aw_rpc_server_close(world->server);
    aw_env_service_free(world->envs);
    unlink(world->socket);
    rmdir(world->folder);
}

/* Looks again until it holds, or fails. */
#define aw_testing_until(condition)                                                        \
    do {                                                                                   \
        const int64_t until_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;         \
        while (!(condition)) {                                                             \
            if (aw_clock_monotonic_us(NULL) > until_us)                                    \
                fail_msg("not within %d s: %s", AW_TESTING_WAIT_US / 1000000, #condition); \
            usleep(2000);                                                                  \
        }                                                                                  \
    } while (0)

#endif
