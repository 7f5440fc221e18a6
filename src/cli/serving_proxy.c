/* serving_proxy.c - the verbs `serving proxy` and `serving standin`. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/net.h"
#include "device/devices.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "proxy/proxy.h"
#include "proxy/standin.h"

#include <pthread.h>

static enum aw_err upstreams_read(const struct aw_call *run, struct aw_proxy_config *config,
                                  struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    if (args->repeat_count > AW_PROXY_UPSTREAMS_MAX)
        return aw_fail(diag, AW_ERR_USAGE, "at most %u upstreams", AW_PROXY_UPSTREAMS_MAX);
    for (uint32_t i = 0; i < args->repeat_count; i++) {
        struct aw_proxy_upstream *up = &config->upstream[config->upstream_count++];
        const char *text = args->repeat[i], *at = strrchr(text, '@');
        const size_t len = at ? (size_t)(at - text) : 0;
        if (len >= sizeof up->model)
            return aw_fail(diag, AW_ERR_USAGE, "a model's name has at most %zu bytes",
                           sizeof up->model - 1);
        memcpy(up->model, text, len);
        enum aw_err err = aw_net_parse(at ? at + 1 : text, &up->address, diag);
        if (err)
            return err;
        if (!up->address.sin_port)
            return aw_fail(diag, AW_ERR_USAGE, "an upstream needs a port, found %s",
                           AW_QUOTE(text));
    }
    return AW_OK;
}

static int64_t seconds(const struct aw_call *run, const char *name)
{
    return (int64_t)aw_args_number(run->args, name) * 1000000;
}

static enum aw_err config_read(const struct aw_call *run, struct aw_proxy_config *config,
                               struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *token = aw_args_text(args, "token-file");
    const char *other = aw_args_text(args, "upstream-token-file");
    enum aw_err err = aw_listen_auth_parse(&config->door, aw_args_text(args, "listen"), diag);
    if (err || (err = upstreams_read(run, config, diag)) ||
        (token && (err = aw_file_read_token(token, config->door.token, diag))) ||
        (other && (err = aw_file_read_token(other, config->upstream_token, diag))))
        return err;
    (void)aw_serving_order_find(aw_args_text(args, "order"), &config->order.kind);
    if (aw_text_parse_real(aw_args_text(args, "alpha"), &config->order.alpha) ||
        !(config->order.alpha >= 0) || !isfinite(config->order.alpha))
        return aw_fail(diag, AW_ERR_USAGE, "--alpha: expected a number of at least 0, found %s",
                       AW_QUOTE(aw_args_text(args, "alpha")));
    config->no_learning = config->order.kind == AW_SERVING_FCFS;
    config->slots = (uint32_t)aw_args_number(args, "slots");
    config->connections_max = (uint32_t)aw_args_number(args, "connections");
    config->queue_max = (uint32_t)aw_args_number(args, "queue");
    config->body_bytes_max = (size_t)aw_args_number(args, "body-max") << 10;
    config->queue_us = seconds(run, "queue-timeout");
    config->first_us = seconds(run, "answer-timeout");
    config->stall_us = seconds(run, "stall-timeout");
    snprintf(config->health, sizeof config->health, "%.*s", (int)sizeof config->health - 1,
             aw_args_text(args, "health"));
    if (config->health[0] != '/' || strpbrk(config->health, " \r\n\t"))
        return aw_fail(diag, AW_ERR_USAGE, "--health: expected a path such as /health, found %s",
                       AW_QUOTE(config->health));
    config->log = run->log;
    return AW_OK;
}

struct proxy_thread {
    struct aw_proxy *proxy;
    struct aw_diag diag;
    enum aw_err err;
};

static void *proxy_main(void *ctx)
{
    struct proxy_thread *thread = ctx;
    thread->err = aw_proxy_run(thread->proxy, &thread->diag);
    if (thread->err)
        (void)kill(getpid(), SIGTERM); /* the thread that waits for signals hears it */
    return NULL;
}

static enum aw_err proxy_run(const struct aw_call *run, struct aw_diag *diag)
{
    static struct aw_proxy_config config; /* large, and one a process */
    struct aw_devices devices = {0};
    struct proxy_thread thread = {0};
    struct aw_stop_held held;
    pthread_t id;
    config = (struct aw_proxy_config){0};
    enum aw_err err = config_read(run, &config, diag);
    const char *device = aw_args_text(run->args, "device");
    if (err || (device && (err = aw_devices_open(device, NULL, &devices, diag))))
        return err;
    config.devices = device ? &devices : NULL;
    if ((err = aw_proxy_open(&thread.proxy, &config, NULL, diag)))
        goto out;
    aw_stop_hold(&held);
    fprintf(stderr, "listening on http://%s:%u, order %s, %u upstream%s with %u slots each\n",
            config.door.host, aw_proxy_port(thread.proxy), aw_serving_order_name(config.order.kind),
            config.upstream_count, config.upstream_count == 1 ? "" : "s", config.slots);
    if (pthread_create(&id, NULL, proxy_main, &thread)) {
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread");
    } else {
        (void)aw_stop_wait();
        aw_proxy_stop(thread.proxy);
        (void)pthread_join(id, NULL);
        if ((err = thread.err))
            *diag = thread.diag;
    }
    aw_stop_release(&held);
out:
    aw_proxy_close(thread.proxy);
    aw_devices_close(&devices);
    return err;
}

static const char *const orders[] = {"fcfs", "ssjf", NULL};
static const struct aw_option options[] = {
    AW_OPTION(TEXT, "upstream", 'u', "[MODEL@]ADDRESS", NULL,
              "a model server, as 127.0.0.1:8000; with a model's name it gets requests for that "
              "model alone",
              .required = true, .repeated = true),
    AW_OPTION(TEXT, "listen", 'l', "ADDRESS", "127.0.0.1:8080",
              "where clients connect; beyond loopback --token-file is needed"),
    AW_OPTION(
        CHOICE, "order", 0, "ORDER", "ssjf",
        "who is served first: fcfs by arrival, ssjf also by the predicted length of the answer",
        .choices = orders),
    AW_OPTION(TEXT, "alpha", 0, "X", "2",
              "seconds of arrival that a second of predicted work is worth; 10 for servers without "
              "batching"),
    AW_NUMBER("slots", 'n', "N", "16", 1, AW_PROXY_SLOTS_MAX,
              "requests in flight on each upstream"),
    AW_NUMBER("queue", 0, "N", "4096", 1, AW_PROXY_CONNECTIONS_MAX,
              "requests that may wait, of each model; more are refused with 503"),
    AW_NUMBER("connections", 'c', "N", "10240", 1, AW_PROXY_CONNECTIONS_MAX,
              "clients at once; more wait in the system's queue"),
    AW_NUMBER("body-max", 0, "KIB", "4096", 1, AW_PROXY_BODY_MAX >> 10, "largest request"),
    AW_NUMBER("queue-timeout", 0, "S", "300", 1, 86400, "a request waits at most so long"),
    AW_NUMBER("answer-timeout", 0, "S", "600", 1, 86400, "for the first byte of an answer"),
    AW_NUMBER("stall-timeout", 0, "S", "60", 1, 86400, "between two bytes of an answer"),
    AW_OPTION(TEXT, "health", 0, "PATH", "/health", "what upstreams are asked whether they are up"),
    AW_OPTION(FILE, "token-file", 0, "FILE", NULL,
              "clients must send its first line as a bearer token"),
    AW_OPTION(FILE, "upstream-token-file", 0, "FILE", NULL,
              "sent to upstreams instead of what clients send"),
    AW_OPTION(TEXT, "device", 'd', "BACKEND", NULL,
              "devices whose energy is accounted to requests, as gpu list has them"),
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware serving proxy --upstream 127.0.0.1:8000", "in front of one vLLM, llama.cpp or Triton"},
    {"aware serving proxy -u llama@127.0.0.1:8000 -u qwen@127.0.0.1:8001 "
     "--device nvml",
     "servers of two models, with joules per request"},
    {"curl http://127.0.0.1:8080/aware/explain", "why requests were served in this order"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_serving_proxy = {
    .name = "serving proxy",
    .summary = "Order requests in front of model servers, and measure them",
    .text = "Speaks OpenAI's HTTP to clients and to upstreams: completions, chat completions, "
            "streams. Requests wait in the order of arrival + alpha x predicted work until an "
            "upstream has a slot; answers pass through untouched. Lengths of answers are learned "
            "online; prompts are stored nowhere.\n\n"
            "/metrics (Prometheus), /aware/status and /aware/explain tell what happens, /healthz "
            "and /readyz are for probes.",
    .options = options,
    .examples = examples,
    .run = proxy_run,
};

/* ---- standin ---- */

static enum aw_err standin_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct aw_standin_config config = {
        .port = (uint16_t)aw_args_number(args, "port"),
        .slots = (uint32_t)aw_args_number(args, "slots"),
        .decode_us = (uint32_t)aw_args_number(args, "decode"),
        .batch_us = (uint32_t)aw_args_number(args, "batch"),
        .prefill_us = (uint32_t)aw_args_number(args, "prefill"),
    };
    struct aw_stop_held held;
    aw_stop_hold(&held);
    struct aw_standin *model = aw_standin_start(&config);
    if (!model) {
        aw_stop_release(&held);
        return aw_fail(diag, AW_ERR_CONFLICT, "cannot listen on 127.0.0.1:%u", config.port);
    }
    fprintf(stderr, "a stand-in model server listens on http://127.0.0.1:%u\n",
            aw_standin_port(model));
    (void)aw_stop_wait();
    aw_standin_stop(model);
    aw_stop_release(&held);
    return AW_OK;
}

static const struct aw_option standin_options[] = {
    AW_NUMBER("port", 'p', "N", "8000", 0, UINT16_MAX, "of 127.0.0.1; 0: any that is free"),
    AW_NUMBER("slots", 'n', "N", "16", 1, 2048, "answers in a batch; further ones wait"),
    AW_NUMBER("decode", 0, "US", "44200", 0, 10000000, "microseconds of a step"),
    AW_NUMBER("batch", 0, "US", "200", 0, 10000000, "and of it for each answer in the batch"),
    AW_NUMBER("prefill", 0, "US", "59000", 0, 10000000,
              "and for 1000 bytes of prompts that are new in it"),
    {.name = NULL},
};
static const struct aw_example standin_examples[] = {
    {"aware serving standin --port 8000 --decode 5000",
     "then: aware serving proxy --upstream 127.0.0.1:8000"},
    {"curl -sN 127.0.0.1:8000/v1/completions -d '{\"stream\":true,\"max_tokens\":5}'",
     "five tokens of nothing"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_serving_standin = {
    .name = "serving standin",
    .summary = "A stand-in for a model server, to try the proxy without a GPU",
    .text = "Answers completions with words that mean nothing, in the time that a GPU with "
            "continuous batching would take. The defaults are those of Llama2-70B on eight A100 "
            "(Splitwise, decode within 2 %). The header x-fault makes an answer go wrong: die=N, "
            "stall=N, badchunk=N (after N tokens), early, silent, garbage, busy, surplus, close.",
    .options = standin_options,
    .examples = standin_examples,
    .run = standin_run,
};
