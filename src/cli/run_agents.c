/* run_agents.c - the door of a run for agents of other processes. */
#include "cli/run_agents.h"

#include <string.h>

#include "base/clock.h"
#include "rpc/agent_service.h"

#define PIECE_US  50000 /* between two looks at who has come */
#define SEATS_MIN 64u   /* files that are read anew may name a few more workloads */

struct aw__runagents {
    struct aw_log *log;
    struct aw_exchange *exchange;
    struct aw_agent_service *service;
    struct aw_rpc_server *server;
    char token[AW_RPC_TOKEN_MAX];
};

/* The first workload that admits such an agent. NULL: none does. */
static const char *first_external(const struct aw_runask *ask)
{
    for (uint32_t i = 0; i < ask->count; i++)
        if (ask->workload[i].pilot.agent == AW_PILOT_EXTERNAL && ask->workload[i].pilot.learning)
            return ask->workload[i].pilot.name;
    return NULL;
}

static void told(void *ctx, const char *what, const char *workload, const char *agent,
                 const char *text)
{
    const struct aw__runagents *agents = ctx;
    aw_log_info(agents->log, what, AW_LOG_STR("workload", workload), AW_LOG_STR("agent", agent),
                AW_LOG_STR("about", text));
}

static enum aw_err server_open(struct aw__runagents *agents, const struct aw_call *run,
                               const struct aw_runask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *token = aw_args_text(args, "agents-token-file");
    const struct aw_rpc_service *services[] = {aw_agent_service_service(agents->service)};
    struct aw_rpc_config config = {.listen = ask->agents,
                                   .tls_cert_path = aw_args_text(args, "agents-tls-cert"),
                                   .tls_key_path = aw_args_text(args, "agents-tls-key"),
                                   .stream_idle_us = AW_AGENT_SERVICE_IDLE_US};
    if (token) {
        const enum aw_err err = aw_rpc_token_read(token, agents->token, diag);
        if (err)
            return err;
        config.token = agents->token;
    }
    struct aw_diag why = {0};
    const enum aw_err err = aw_rpc_server_open(&agents->server, &config, services, 1, &why);
    if (err)
        return aw_fail_at(diag, err, NULL, 0, 0, "--agents", "%s", why.text);
    aw_log_info(agents->log, "agents of other processes may come in",
                AW_LOG_STR("address", ask->agents),
                AW_LOG_INT("port", aw_rpc_server_port(agents->server)));
    return AW_OK;
}

enum aw_err aw__runagents_open(struct aw__runagents **ret, const struct aw_call *run,
                               const struct aw_runask *ask, struct aw_diag *diag)
{
    const char *first = first_external(ask);
    const bool asked = aw_args_given(run->args, "agents");
    *ret = NULL;
    if (!first && !asked)
        return AW_OK;
    if (!asked && !*ask->state)
        return aw_fail(diag, AW_ERR_USAGE,
                       "workload %s has an external agent: say with --agents where it comes in",
                       first);
    struct aw__runagents *agents = aw_alloc_new(NULL, 1, sizeof *agents);
    if (!agents)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for agents");
    agents->log = run->log;
    const struct aw_exchange_config config = {.seats_max =
                                                  ask->count > SEATS_MIN ? ask->count : SEATS_MIN};
    enum aw_err err = aw_exchange_new(&config, NULL, &agents->exchange, diag);
    err = err ? err : aw_agent_service_new(&agents->service, agents->exchange, told, agents, diag);
    err = err ? err : server_open(agents, run, ask, diag);
    if (err) {
        aw__runagents_close(agents);
        return err;
    }
    *ret = agents;
    return AW_OK;
}

void aw__runagents_close(struct aw__runagents *agents)
{
    if (!agents)
        return;
    aw_rpc_server_close(agents->server);
    aw_agent_service_free(agents->service);
    aw_exchange_free(agents->exchange);
    explicit_bzero(agents->token, sizeof agents->token);
    aw_alloc_free(NULL, agents);
}

struct aw_exchange *aw__runagents_exchange(const struct aw__runagents *agents)
{
    return agents ? agents->exchange : NULL;
}

static bool all_there(struct aw_exchange *exchange)
{
    struct aw_exchange_seat seat;
    char agent[AW_EXTERNAL_NAME_MAX];
    for (uint32_t i = 0; aw_exchange_next(exchange, &i, &seat, agent); i++)
        if (!*agent)
            return false;
    return true;
}

void aw__runagents_wait(const struct aw__runagents *agents, double wait_s, const _Atomic int *stop)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + (int64_t)(wait_s * 1e6);
    for (int64_t now; agents && !*stop && (now = aw_clock_monotonic_us(NULL)) < until &&
                      !all_there(agents->exchange);) {
        const enum aw_err err = aw_clock_sleep_until(NULL, now + PIECE_US);
        (void)err; /* interrupted or not, the loop looks again */
    }
}
