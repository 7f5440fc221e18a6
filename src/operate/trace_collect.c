/* trace_collect.c - the verb `trace collect`: a door for spans, until it is interrupted. */
#include "operate/trace.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/quantity.h"
#include "frame/json.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "rpc/span_service.h"
#include "trace/receiver.h"
#include "trace/span_store.h"

#define TICK_MS 500

static enum aw_err read_config(const struct aw_call *run, struct aw_collector_config *collector,
                               struct aw_receiver_config *receiver, struct aw_diag *diag)
{
    const char *token = aw_args_text(run->args, "token-file");
    *receiver = (struct aw_receiver_config){.tls_cert_path = aw_args_text(run->args, "tls-cert"),
                                            .tls_key_path = aw_args_text(run->args, "tls-key")};
    *collector = (struct aw_collector_config){
        .store = aw_args_text(run->args, "store"),
        .traces_max = aw_args_number(run->args, "max-requests"),
    };
    enum aw_err err = aw_net_parse(aw_args_text(run->args, "listen"), &receiver->address, diag);
    if (!err && token)
        err = aw_file_read_token(token, receiver->token, diag);
    if (!err)
        err = aw_duration_parse(aw_args_text(run->args, "keep"), AW_QUANTITY_POSITIVE_OR_0,
                                &collector->keep_us, diag);
    if (!err)
        err = aw_duration_parse(aw_args_text(run->args, "quiet-period"), AW_QUANTITY_POSITIVE_OR_0,
                                &collector->quiet_us, diag);
    return err;
}

/* --forward; NULL: not at all. */
static enum aw_err open_forward(const struct aw_call *run, struct aw_forward **ret,
                                struct aw_diag *diag)
{
    struct aw_forward_config config = {.url = aw_args_text(run->args, "forward")};
    const char *token = aw_args_text(run->args, "forward-token-file");
    if (token && !config.url)
        return aw_fail(diag, AW_ERR_USAGE, "--forward-token-file goes with --forward alone");
    enum aw_err err = token ? aw_file_read_token(token, config.token, diag) : AW_OK;
    if (!err && config.url)
        err = aw_forward_new(ret, &config, diag);
    explicit_bzero(config.token, sizeof config.token);
    return err;
}

static json_t *counts_json(const struct aw_collector_counts *counts,
                           const struct aw_forward_counts *passed)
{
    return json_pack(
        "{sI sI sI sI sI sI sI sI so s{sI sI sI}}", "spans", (json_int_t)counts->assembly.spans,
        "requests", (json_int_t)counts->assembly.traces, "late", (json_int_t)counts->assembly.late,
        "dropped_full", (json_int_t)counts->assembly.dropped_full, "dropped_trace",
        (json_int_t)counts->assembly.dropped_trace, "refused", (json_int_t)counts->refused,
        "turned_away", (json_int_t)counts->turned_away, "store_failures",
        (json_int_t)counts->store_failures, "counts", aw__counts_json(&counts->requests),
        "forwarded", "sent", (json_int_t)passed->sent, "refused", (json_int_t)passed->refused,
        "dropped", (json_int_t)passed->dropped);
}

static void counts_print(const struct aw_collector_counts *counts)
{
    printf("%ju spans, %ju requests; %ju spans late, %ju dropped, %ju refused, %ju orphaned; %ju "
           "messages told to come again\n",
           (uintmax_t)counts->assembly.spans, (uintmax_t)counts->assembly.traces,
           (uintmax_t)counts->assembly.late,
           (uintmax_t)(counts->assembly.dropped_full + counts->assembly.dropped_trace),
           (uintmax_t)counts->refused, (uintmax_t)counts->requests.orphaned,
           (uintmax_t)counts->turned_away);
}

/* Ticks until a signal comes. A store that cannot be written is told once. */
static void serve(const struct aw_call *run, struct aw_collector *collector,
                  struct aw_forward *forward)
{
    const struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
    struct aw_diag diag;
    while (!aw_stop_signal) {
        char line[1024], why[AW_FORWARD_WHY_MAX];
        nanosleep(&pause, NULL);
        if (forward && aw_forward_trouble(forward, why))
            aw_log_warn(run->log, "spans are not passed on", AW_LOG_STR("why", why));
        const enum aw_err err = aw_collector_tick(collector, aw_clock_now_us(NULL), &diag);
        if (err)
            aw_log_warn(run->log, "requests are not kept",
                        AW_LOG_STR("error", aw_diag_format(&diag, err, line, sizeof line)));
    }
}

/* --grpc; "none": not at all. */
static enum aw_err open_rpc(const struct aw_call *run, const struct aw_rpc_service *service,
                            const char *token, struct aw_rpc_server **ret, struct aw_diag *diag)
{
    const char *listen = aw_args_text(run->args, "grpc");
    const struct aw_rpc_config config = {.listen = listen,
                                         .token = token,
                                         .tls_cert_path = aw_args_text(run->args, "tls-cert"),
                                         .tls_key_path = aw_args_text(run->args, "tls-key")};
    return strcmp(listen, "none") ? aw_rpc_server_open(ret, &config, &service, 1, diag) : AW_OK;
}

static enum aw_err collect_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_collector_config collector_config;
    struct aw_receiver_config receiver_config;
    struct aw_collector *collector = NULL;
    struct aw_receiver *receiver = NULL;
    struct aw_rpc_server *rpc = NULL;
    struct aw_rpc_service service;
    struct aw_forward *forward = NULL;
    struct aw_forward_counts passed = {0};
    char address[AW_NET_TEXT_MAX];
    enum aw_err err = read_config(run, &collector_config, &receiver_config, diag);
    if (err || (err = open_forward(run, &forward, diag)))
        return err;
    collector_config.forward = forward;
    if ((err = aw_collector_new(&collector, &collector_config, diag))) {
        aw_forward_free(forward);
        return err;
    }
    aw_stop_catch(&(struct aw_stop_config){0});
    err = aw_receiver_open(&receiver, &receiver_config, collector, diag);
    aw_span_service_init(&service, collector);
    if (!err)
        err = open_rpc(run, &service, *receiver_config.token ? receiver_config.token : NULL, &rpc,
                       diag);
    if (!err) {
        receiver_config.address.sin_port = htons(aw_receiver_port(receiver));
        fprintf(stderr,
                "spans are taken at http%s://%s/v1/traces (OTLP) and /api/v2/spans (Zipkin)",
                receiver_config.tls_cert_path ? "s" : "",
                aw_net_print(&receiver_config.address, address, sizeof address));
        if (rpc)
            fprintf(stderr, " and by gRPC at port %u", aw_rpc_server_port(rpc));
        fprintf(stderr, ", and kept in %s; Ctrl-C ends it\n", collector_config.store);
        serve(run, collector, forward);
    }
    aw_rpc_server_close(rpc);
    aw_receiver_close(receiver);
    if (!err) { /* what still waits is complete as far as it will ever be */
        err = aw_collector_flush(collector, diag);
        const struct aw_collector_counts counts = aw_collector_counts(collector);
        if (forward)
            aw_forward_end(forward, &passed);
        if (run->json && !err)
            err = aw_json_print(counts_json(&counts, &passed), diag);
        else if (!err)
            counts_print(&counts);
        if (forward && !run->json && !err)
            printf("%ju messages passed on, %ju refused there, %ju dropped\n",
                   (uintmax_t)passed.sent, (uintmax_t)passed.refused, (uintmax_t)passed.dropped);
    }
    aw_collector_free(collector);
    aw_forward_free(forward);
    aw_stop_let_go();
    return err;
}

static const struct aw_option collect_options[] = {
    AW_OPTION(TEXT, "listen", 'l', "ADDRESS", "127.0.0.1:4318",
              "where to take spans; port 0: any that is free"),
    AW_OPTION(TEXT, "grpc", 0, "ADDRESS", "127.0.0.1:4317",
              "where to take OTLP over gRPC; none: nowhere"),
    AW_OPTION(FILE, "tls-cert", 0, "FILE", NULL,
              "certificate of both servers (PEM); beyond loopback gRPC needs one"),
    AW_OPTION(FILE, "tls-key", 0, "FILE", NULL, "its key"),
    AW_OPTION(FILE, "store", 0, "FILE", "traces.db",
              "where to keep requests, a file of SQLite that all verbs of trace read"),
    AW_OPTION(FILE, "token-file", 0, "FILE", NULL,
              "senders must give this token; required beyond loopback"),
    AW_OPTION(TEXT, "keep", 0, "TIME", "24h", "drop requests that are older; 0: never"),
    AW_NUMBER("max-requests", 0, "N", "1M", 0, INT64_MAX / 2,
              "keep so many at most, the latest; 0: all"),
    AW_OPTION(TEXT, "forward", 0, "URL", NULL,
              "pass every message on to this OTLP receiver over HTTP, such as http://tempo:4318; "
              "one that is away costs senders nothing"),
    AW_OPTION(FILE, "forward-token-file", 0, "FILE", NULL, "a token to give there"),
    AW_OPTION(TEXT, "quiet-period", 0, "TIME", "5s",
              "a request is complete when no span of it has come for this long"),
    {.name = NULL},
};
static const struct aw_example collect_examples[] = {
    {"aware trace collect", "point OTEL_EXPORTER_OTLP_ENDPOINT at http://localhost:4318"},
    {"aware trace collect --forward http://tempo:4318", "between senders and Tempo"},
    {"aware trace list traces.db", "meanwhile, or afterwards: the slowest requests"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_collect = {
    .name = "trace collect",
    .summary = "Take spans from OpenTelemetry or Zipkin, and keep the requests",
    .text =
        "OTLP over HTTP as protobuf or JSON, and Zipkin's JSON, gzipped or not. When more comes "
        "than can be put together, senders are told to come again, and what is dropped is "
        "counted. It ends at Ctrl-C or SIGTERM and then says what it has seen.",
    .options = collect_options,
    .examples = collect_examples,
    .json = true,
    .run = collect_run,
};
