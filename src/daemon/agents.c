/* agents.c - the door of a run for agents of other processes. */
#include "daemon/agents.h"

#include <string.h>

#include "base/clock.h"
#include "rpc/agent_service.h"

#define PIECE_US  50000 /* between two looks at who has come */
#define SEATS_MIN 64u   /* files that are read anew may name a few more workloads */

struct aw__agents {
    struct aw_log *log;
    struct aw_agent_exchange *exchange;
    struct aw_agent_service *service;
    struct aw_rpc_server *server;
    char token[AW_TOKEN_MAX];
};

/* The first workload that admits such an agent. NULL: none does. */
static const char *first_external(const struct aw_daemon_config *config)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (aw_policy_ops_of(config->workload[i].pilot.agent)->elsewhere &&
            config->workload[i].pilot.learning)
            return config->workload[i].pilot.name;
    return NULL;
}

static void told(void *ctx, const char *what, const char *workload, const char *agent,
                 const char *text)
{
    const struct aw__agents *agents = ctx;
    aw_log_info(agents->log, what, AW_LOG_STR("workload", workload), AW_LOG_STR("agent", agent),
                AW_LOG_STR("about", text));
}

static enum aw_err server_open(struct aw__agents *agents, const struct aw_daemon_agents *door,
                               struct aw_diag *diag)
{
    const struct aw_rpc_service *services[] = {aw_agent_service_service(agents->service)};
    struct aw_rpc_config config = {.listen = door->address,
                                   .orders = true,
                                   .tls_cert_path = door->tls_cert,
                                   .tls_key_path = door->tls_key,
                                   .stream_idle_us = AW_AGENT_SERVICE_IDLE_US};
    if (door->token_file) {
        const enum aw_err err = aw_file_read_token(door->token_file, agents->token, diag);
        if (err)
            return err;
        config.token = agents->token;
    }
    struct aw_diag why = {0};
    const enum aw_err err = aw_rpc_server_open(&agents->server, &config, services, 1, &why);
    if (err)
        return aw_fail_at(diag, err, NULL, 0, 0, "--agents", "%s", why.text);
    aw_log_info(agents->log, "agents of other processes may come in",
                AW_LOG_STR("address", door->address),
                AW_LOG_INT("port", aw_rpc_server_port(agents->server)));
    return AW_OK;
}

enum aw_err aw__agents_open(struct aw__agents **ret, const struct aw_daemon_config *config,
                            struct aw_log *log, struct aw_diag *diag)
{
    const char *first = first_external(config);
    *ret = NULL;
    if (!first && !config->agents.asked)
        return AW_OK;
    if (!*config->agents.address)
        return aw_fail(diag, AW_ERR_USAGE,
                       "workload %s has an external agent: say with --agents where it comes in",
                       first);
    struct aw__agents *agents = aw_alloc_new(NULL, 1, sizeof *agents);
    if (!agents)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for agents");
    agents->log = log;
    const struct aw_agent_exchange_config seats = {
        .seats_max = config->count > SEATS_MIN ? config->count : SEATS_MIN};
    enum aw_err err = aw_agent_exchange_new(&seats, NULL, &agents->exchange, diag);
    err = err ? err : aw_agent_service_new(&agents->service, agents->exchange, told, agents, diag);
    err = err ? err : server_open(agents, &config->agents, diag);
    if (err) {
        aw__agents_close(agents);
        return err;
    }
    *ret = agents;
    return AW_OK;
}

void aw__agents_close(struct aw__agents *agents)
{
    if (!agents)
        return;
    aw_rpc_server_close(agents->server);
    aw_agent_service_free(agents->service);
    aw_agent_exchange_free(agents->exchange);
    explicit_bzero(agents->token, sizeof agents->token);
    aw_alloc_free(NULL, agents);
}

struct aw_agent_exchange *aw__agents_exchange(const struct aw__agents *agents)
{
    return agents ? agents->exchange : NULL;
}

static bool all_there(struct aw_agent_exchange *exchange)
{
    struct aw_agent_exchange_seat seat;
    char agent[AW_EXTERNAL_AGENT_NAME_MAX];
    for (uint32_t i = 0; aw_agent_exchange_next(exchange, &i, &seat, agent); i++)
        if (!*agent)
            return false;
    return true;
}

void aw__agents_wait(const struct aw__agents *agents, double wait_s, const _Atomic int *stop)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + (int64_t)(wait_s * 1e6);
    for (int64_t now; agents && !*stop && (now = aw_clock_monotonic_us(NULL)) < until &&
                      !all_there(agents->exchange);) {
        const enum aw_err err = aw_clock_sleep_until(NULL, now + PIECE_US);
        (void)err; /* interrupted or not, the loop looks again */
    }
}
