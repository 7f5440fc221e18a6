/* env_serve.c - the verb `env serve`: environments for learners in other processes, over gRPC. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/env_many.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "rpc/env_service.h"
#include "rpc/parallel_service.h"
#include "rpc/server.h"

/* One line on stdout when it can be reached, so that a script that asked for port 0 knows where. */
static void announce(const struct aw_call *run, const struct aw_rpc_server *server,
                     const char *listen)
{
    const uint16_t port = aw_rpc_server_port(server);
    const char *scheme = aw_args_text(run->args, "tls-cert") ? "grpcs" : "grpc";
    const char *path = !strncmp(listen, "unix:", 5) ? listen + 5 : listen;
    const char *colon = strrchr(listen, ':');
    if (!port)
        printf("grpc+unix://%s\n", path);
    else if (colon && colon != listen)
        printf("%s://%.*s:%u\n", scheme, (int)(colon - listen), listen, port);
    else
        printf("%s://127.0.0.1:%u\n", scheme, port);
    fflush(stdout);
}

static enum aw_err serve_run(const struct aw_call *run, struct aw_diag *diag)
{
    char token[AW_TOKEN_MAX] = "";
    const struct aw_args *args = run->args;
    const char *token_path = aw_args_text(args, "token-file");
    const char *only = args->positional[0];
    struct aw_env_service *service = NULL;
    struct aw_parallel_service *many = NULL;
    struct aw_rpc_server *server = NULL;
    struct aw_rpc_config config = {
        .listen = aw_args_text(args, "listen"),
        .tls_cert_path = aw_args_text(args, "tls-cert"),
        .tls_key_path = aw_args_text(args, "tls-key"),
        .threads = (uint32_t)aw_args_number(args, "threads"),
    };
    struct aw_env_service_stats served = {0};
    struct aw_rpc_stats calls = {0};
    struct aw_stop_held held;
    enum aw_err err;

    if (token_path) {
        if ((err = aw_file_read_token(token_path, token, diag)))
            return err;
        config.token = token;
    }
    aw_stop_hold(&held); /* from before the threads of the server are made */
    const bool only_many = only && aw_env_many_has(only);
    const struct aw_rpc_service *services[2];
    uint32_t count = 0;
    if (!only_many) {
        if ((err = aw_env_service_new(&service, only, diag)))
            goto out;
        services[count++] = aw_env_service_service(service);
    }
    if (!only || only_many) {
        if ((err = aw_parallel_service_new(&many, diag)))
            goto out;
        services[count++] = aw_parallel_service_service(many);
    }
    if ((err = aw_rpc_server_open(&server, &config, services, count, diag)))
        goto out;
    announce(run, server, config.listen);
    aw_log_info(run->log, "serving environments", AW_LOG_STR("listen", config.listen),
                AW_LOG_INT("port", aw_rpc_server_port(server)));
    (void)aw_stop_wait();
    aw_rpc_server_stats(server, &calls);
    if (service)
        aw_env_service_stats(service, &served);
    aw_log_info(run->log, "stopping", AW_LOG_INT("calls", (int64_t)calls.calls),
                AW_LOG_INT("refused", (int64_t)calls.refused),
                AW_LOG_INT("steps", (int64_t)served.steps),
                AW_LOG_INT("sessions", (int64_t)served.sessions));
out:
    aw_rpc_server_close(server);
    aw_env_service_free(service);
    aw_parallel_service_free(many);
    aw_stop_release(&held);
    explicit_bzero(token, sizeof token);
    return err;
}

static const struct aw_option serve_options[] = {
    AW_OPTION(TEXT, "listen", 'l', "ADDRESS", "127.0.0.1:50051",
              "where: HOST:PORT, with port 0 whichever is free, or unix:/PATH of a socket; beyond "
              "this machine it needs --tls-cert, --tls-key and --token-file"),
    AW_OPTION(FILE, "token-file", 0, "FILE", NULL,
              "clients have to send the first line of this file: authorization: Bearer TOKEN"),
    AW_OPTION(FILE, "tls-cert", 0, "FILE", NULL, "certificate chain, PEM"),
    AW_OPTION(FILE, "tls-key", 0, "FILE", NULL, "its key, PEM"),
    AW_NUMBER("threads", 0, "N", "4", 1, AW_RPC_THREADS_MAX,
              "threads for what takes long: making copies, stepping many of them"),
    {.name = NULL},
};
static const struct aw_positional serve_positionals[] = {
    {.name = "NAME", .kind = AW_ARG_ENV, .help = "serve only this one", .optional = true},
    {.name = NULL},
};
static const struct aw_example serve_examples[] = {
    {"aware env serve", "all of them, on 127.0.0.1:50051"},
    {"aware env serve --listen unix:/tmp/aware-env.sock pendulum-v1",
     "one of them, on a socket that only its owner may use"},
    {"aware train --env grpc://127.0.0.1:50051/pendulum-v1 --agent td3",
     "learn from one over the wire"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_env_serve = {
    .name = "env serve",
    .summary = "Serve environments over gRPC to learners in any language",
    .text =
        "Serves aware.v1.Environment (proto/aware/v1/environment.proto), "
        "aware.v1.ParallelEnvironment of many agents (parallel.proto), health and reflection. "
        "Prints its address when it can be reached, and serves until it is interrupted. "
        "docs/mechanisms/rpc.md tells the protocol; limits are those of one trusted user: at most "
        "256 sessions and 16384 environments at once.\n\n"
        "The other way round, 'aware train', 'aware train eval', 'aware env describe' and "
        "'aware env check' take the address of an environment that another program serves: "
        "grpc://HOST:PORT/NAME, grpcs://HOST:PORT/NAME?ca=FILE&token=FILE or "
        "grpc+unix:///PATH?env=NAME.",
    .options = serve_options,
    .positionals = serve_positionals,
    .examples = serve_examples,
    .run = serve_run,
};
