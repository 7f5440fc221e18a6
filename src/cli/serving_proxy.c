/* serving_proxy.c - the verbs `serving proxy` and `serving standin`. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/file.h"
#include "base/net.h"
#include "base/quantity.h"
#include "device/devices.h"
#include "device/helper.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "proxy/proxy.h"
#include "proxy/standin.h"

#include <pthread.h>

/* "0,1": the devices that an upstream runs on. */
static enum aw_err devices_of(const char *text, uint64_t *ret_bits, struct aw_diag *diag)
{
    uint64_t bits = 0;
    for (const char *at = text; *at;) {
        char number[8] = "";
        const size_t len = strcspn(at, ",");
        uint64_t index = UINT64_MAX;
        if (len && len < sizeof number)
            memcpy(number, at, len);
        if (aw_text_parse_u64(number, &index) || index >= AW_DEVICES_MAX)
            return aw_fail(diag, AW_ERR_USAGE,
                           "behind #: expected numbers of devices such as 0,1, found %s",
                           AW_QUOTE(text));
        bits |= UINT64_C(1) << index;
        at += len + (at[len] == ',');
    }
    *ret_bits = bits;
    return AW_OK;
}

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
        char address[128] = "";
        const char *from = at ? at + 1 : text;
        const size_t bytes = strcspn(from, "#");
        snprintf(address, sizeof address, "%.*s", (int)bytes, from);
        enum aw_err err = aw_net_parse(address, &up->address, diag);
        if (!err && from[bytes] == '#')
            err = devices_of(from + bytes + 1, &up->devices, diag);
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

/* "latency=10s,ttft=1s,tpot=200ms", any of them. */
static enum aw_err slo_read(const char *text, struct aw_proxy_power *power, struct aw_diag *diag)
{
    const struct {
        const char *name;
        double *ret;
    } goals[] = {
        {"latency=", &power->latency_s}, {"ttft=", &power->ttft_s}, {"tpot=", &power->tpot_s}};
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ",");
        char value[32] = "";
        int64_t us = 0;
        size_t g = 0;
        while (g < 3 && strncmp(at, goals[g].name, strlen(goals[g].name)) != 0)
            g++;
        if (g < 3 && len - strlen(goals[g].name) < sizeof value)
            memcpy(value, at + strlen(goals[g].name), len - strlen(goals[g].name));
        if (g == 3 || aw_duration_parse(value, 0, &us, NULL) || us <= 0)
            return aw_fail(diag, AW_ERR_USAGE,
                           "--slo: expected latency=10s, ttft=1s or tpot=200ms, several with a "
                           "comma between, found %s",
                           AW_QUOTE(text));
        *goals[g].ret = (double)us / 1e6;
        at += len + (at[len] == ',');
    }
    return AW_OK;
}

static enum aw_err power_read(const struct aw_call *run, struct aw_proxy_config *config,
                              struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct aw_proxy_power *power = &config->power;
    const char *rule = aw_args_text(args, "power"), *slo = aw_args_text(args, "slo");
    power->act = aw_args_given(args, "act");
    power->on = strcmp(rule, "off") != 0;
    if (!power->on && (power->act || slo || aw_args_given(args, "cap-watts") ||
                       aw_args_given(args, "device-watts")))
        return aw_fail(diag, AW_ERR_USAGE,
                       "--slo, --cap-watts, --device-watts and --act need a rule: --power "
                       "predictive, for example");
    if (!power->on)
        return AW_OK;
    power->rule = aw_power_defaults;
    if (!aw_power_find(rule, &power->rule.rule))
        return aw_fail(diag, AW_ERR_USAGE, "--power: no such rule: %s", AW_QUOTE(rule));
    if (!aw_args_text(args, "device"))
        return aw_fail(diag, AW_ERR_USAGE, "--power needs --device: whose clocks?");
    enum aw_err err = slo ? slo_read(slo, power, diag) : AW_OK;
    if (err)
        return err;
    if (!slo && (power->rule.rule == AW_POWER_MIAD || power->rule.rule == AW_POWER_PREDICTIVE))
        return aw_fail(diag, AW_ERR_USAGE, "--power %s needs --slo: what may the clocks cost?",
                       rule);
    power->memory = (double)aw_args_number(args, "memory-share") / 100;
    power->clock_mhz_min = (uint32_t)aw_args_number(args, "clock-min");
    power->clock_mhz_max = (uint32_t)aw_args_number(args, "clock-max");
    power->cap_w = (double)aw_args_number(args, "cap-watts");
    power->device_cap_w = (double)aw_args_number(args, "device-watts");
    if (power->rule.rule == AW_POWER_STATIC && !power->clock_mhz_max)
        return aw_fail(diag, AW_ERR_USAGE, "--power static needs --clock-max: which clock?");
    if (power->act && !aw_args_text(args, "audit"))
        return aw_fail(diag, AW_ERR_USAGE,
                       "--act needs --audit DIR: every change of a clock is recorded before it is "
                       "made");
    return AW_OK;
}

/* What sets goes through a helper, which resets when this process is gone, however it went. */
static enum aw_err devices_make(const struct aw_call *run, const struct aw_proxy_config *config,
                                struct aw_devices *ret, struct aw_diag *diag)
{
    const char *spec = aw_args_text(run->args, "device");
    if (!spec)
        return AW_OK;
    if (config->power.on && config->power.act && strncmp(spec, "helper:", 7) != 0)
        return aw_device_helper_spawn(spec, &(struct aw_device_helper_config){.log = run->log},
                                      NULL, ret, diag);
    return aw_devices_open(spec, NULL, ret, diag);
}

/* Without a sync: a clock that was set does not survive a power cut either. */
static enum aw_err audit_make(const struct aw_call *run, struct aw_proxy_config *config,
                              struct aw_diag *diag)
{
    const char *folder = aw_args_text(run->args, "audit");
    const struct aw_audit_config audit = {.no_sync = true};
    if (!config->power.on || !folder)
        return AW_OK;
    return aw_audit_open(&config->power.audit, NULL, folder, &audit, NULL, NULL, diag);
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
    if (err || (err = power_read(run, &config, diag)) ||
        (err = devices_make(run, &config, &devices, diag)))
        return err;
    config.devices = devices.ops ? &devices : NULL;
    if ((err = audit_make(run, &config, diag)) ||
        (err = aw_proxy_open(&thread.proxy, &config, NULL, diag)))
        goto out;
    aw_stop_hold(&held);
    fprintf(stderr, "listening on http://%s:%u, order %s, %u upstream%s with %u slots each\n",
            config.door.host, aw_proxy_port(thread.proxy), aw_serving_order_name(config.order.kind),
            config.upstream_count, config.upstream_count == 1 ? "" : "s", config.slots);
    if (config.power.on)
        fprintf(stderr, "clocks follow %s%s\n", aw_power_name(config.power.rule.rule),
                config.power.act ? "" : ": a dry run, nothing is set (--act sets)");
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
    aw_audit_close(config.power.audit);
    aw_devices_close(&devices);
    return err;
}

static const char *const rules[] = {"off", "fixed", "static", "race", "miad", "predictive", NULL};
static const char *const orders[] = {"fcfs", "ssjf", NULL};
static const struct aw_option options[] = {
    AW_OPTION(TEXT, "upstream", 'u', "[MODEL@]ADDRESS[#DEVICES]", NULL,
              "a model server, as 127.0.0.1:8000; with a model's name it gets requests for that "
              "model alone; #0,1 are the devices that it runs on (all)",
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
    AW_OPTION(CHOICE, "power", 0, "RULE", "off",
              "who sets the devices' clocks: predictive and miad by the slack of --slo, race to "
              "idle, static at --clock-max, fixed at the largest; off leaves them alone",
              .choices = rules),
    AW_OPTION(TEXT, "slo", 0, "GOALS", NULL,
              "what answers have to keep: latency=10s, ttft=1s, tpot=200ms, with commas between"),
    AW_FLAG("act", 0, "really set clocks; without it, decide and say what would be set"),
    AW_OPTION(DIR, "audit", 0, "DIR", NULL,
              "where every change of a clock is recorded before it "
              "is made"),
    AW_NUMBER("cap-watts", 0, "W", "0", 0, 1000000, "all devices together draw no more; 0: no cap"),
    AW_NUMBER("device-watts", 0, "W", "0", 0, 10000,
              "no device draws more, by its clock and its own power limit; 0: no cap"),
    AW_NUMBER("clock-min", 0, "MHZ", "0", 0, 100000, "no clock is set below; 0: the device's"),
    AW_NUMBER("clock-max", 0, "MHZ", "0", 0, 100000, "no clock is set above; 0: the device's"),
    AW_NUMBER("memory-share", 0, "PERCENT", "50", 1, 99,
              "of the time of an answer that the clock does not change"),
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware serving proxy --upstream 127.0.0.1:8000", "in front of one vLLM, llama.cpp or Triton"},
    {"aware serving proxy -u llama@127.0.0.1:8000 -u qwen@127.0.0.1:8001 "
     "--device nvml",
     "servers of two models, with joules per request"},
    {"aware serving proxy -u 127.0.0.1:8000 --device nvml --power predictive --slo "
     "ttft=1s,tpot=200ms",
     "what clocks would follow from the slack; --act --audit DIR sets them"},
    {"curl http://127.0.0.1:8080/aware/clocks", "why each clock is where it is"},
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
            "With --power the clocks of the devices follow what is left of --slo: a rule proposes, "
            "a guard goes to the largest clock at once on a missed SLO, on figures that are old or "
            "missing and on a set that failed, and a cap in watts has the last word. Nothing is "
            "set without --act; what was set is reset when this process ends, however it ends.\n\n"
            "/metrics (Prometheus), /aware/status, /aware/clocks and /aware/explain tell what "
            "happens, /healthz "
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
