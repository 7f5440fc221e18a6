/*
 * proxy.c - `aware-bench proxy`: what the proxy in front of model servers adds.
 *
 * The open-loop generator asks a stand-in model server for short streams, 2000 a second, directly
 * and through the proxy in turn, in one process: generator, proxy and server each have a thread.
 * What a round adds is its quantile minus that of the direct round beside it; told is the median of
 * the rounds. CPU time is that of the proxy's thread. On a machine with other work quantiles are
 * those of its scheduler: `chrt -f 10 build/aware-bench proxy` leaves others waiting instead.
 */
#include "bench/bench.h"

#include "base/clock.h"
#include "base/threads.h"
#include "load/drive.h"
#include "proxy/proxy.h"
#include "proxy/standin.h"

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE        2000.0
#define ROUNDS      5u
#define ROUND_US    3000000
#define WARM_US     500000
#define TOKENS      "8"
#define STEP_US     1000
#define SLOTS       256u
#define PROMPTS     2000u
#define P99_MS_GOAL 1.0
#define LOSS_GOAL   0.02

enum way { DIRECT, BY_ARRIVAL, BY_LENGTH, WAYS };
static const char *const way_names[] = {"direct", "fcfs", "ssjf"};

struct side {
    struct aw_proxy *proxy;
    pthread_t thread;
    uint16_t port;
    bool runs;
};

static void *side_main(void *ctx)
{
    struct side *side = ctx;
    AW_ASSERT(!aw_proxy_run(side->proxy, NULL));
    return NULL;
}

static enum aw_err side_begin(struct side *side, uint16_t model_port, uint32_t kind,
                              struct aw_diag *diag)
{
    struct aw_proxy_config *config = calloc(1, sizeof *config);
    if (!config)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a proxy");
    *config = (struct aw_proxy_config){.upstream_count = 1,
                                       .slots = SLOTS,
                                       .order = {.kind = kind, .alpha = AW_SERVING_ALPHA_BATCHED},
                                       .no_learning = kind == AW_SERVING_FCFS};
    config->upstream[0].address = (struct sockaddr_in){.sin_family = AF_INET,
                                                       .sin_port = htons(model_port),
                                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    enum aw_err err = aw_listen_auth_parse(&config->door, "127.0.0.1:0", diag);
    err = err ? err : aw_proxy_open(&side->proxy, config, NULL, diag);
    free(config);
    if (err)
        return err;
    side->port = aw_proxy_port(side->proxy);
    side->runs = !aw_thread_begin(&side->thread, side_main, side);
    return side->runs ? AW_OK : aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the proxy");
}

static void side_end(struct side *side)
{
    if (side->runs) {
        aw_proxy_stop(side->proxy);
        pthread_join(side->thread, NULL);
    }
    aw_proxy_close(side->proxy);
}

static double thread_cpu_s(const struct side *side)
{
    clockid_t id;
    struct timespec t;
    if (!side->runs || pthread_getcpuclockid(side->thread, &id) || clock_gettime(id, &t))
        return NAN;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct round {
    double p50_ms, p99_ms, per_s, cpu_us;
    uint64_t failed;
};

static enum aw_err ask(const struct side *side, uint16_t port, struct round *ret,
                       struct aw_drive_result *result, struct aw_diag *diag)
{
    static const char body[] =
        "{\"model\":\"m\",\"stream\":true,\"prompt\":\"Which is the longest river?\"}";
    struct aw_drive_config config = {
        .timetable = {.rate_per_s = RATE, .speed = 1, .duration_us = ROUND_US + WARM_US},
        .method = "POST",
        .headers = "X-Tokens: " TOKENS "\r\nContent-Type: application/json\r\n",
        .body = body,
        .body_len = sizeof body - 1,
        .connections_max = SLOTS,
        .threads = 1,
        .timeout_us = 10000000,
        .warm_up_us = WARM_US};
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1/completions", port);
    enum aw_err err = aw_target_parse(url, false, &config.target, diag);
    const double before = thread_cpu_s(side);
    err = err ? err : aw_drive_run(&config, result, diag);
    if (err)
        return err;
    const double cpu_s = thread_cpu_s(side) - before;
    *ret = (struct round){.p50_ms = aw_latency_histogram_estimate(&result->service, .5) / 1e3,
                          .p99_ms = aw_latency_histogram_estimate(&result->service, .99) / 1e3,
                          .per_s = (double)result->all.ok * 1e6 / (double)result->span_us,
                          .cpu_us = cpu_s * 1e6 / (RATE * (ROUND_US + WARM_US) / 1e6),
                          .failed = result->all.due - result->all.ok};
    return AW_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void tell(struct aw__bench *bench, const struct round rounds[ROUNDS][WAYS], enum way way)
{
    double p50[ROUNDS], p99[ROUNDS], loss[ROUNDS], cpu[ROUNDS], absolute[ROUNDS];
    uint64_t failed = 0;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        const struct round *direct = &rounds[r][DIRECT], *here = &rounds[r][way];
        p50[r] = here->p50_ms - direct->p50_ms;
        p99[r] = here->p99_ms - direct->p99_ms;
        loss[r] = 1 - here->per_s / direct->per_s;
        cpu[r] = here->cpu_us;
        absolute[r] = here->p99_ms;
        failed += here->failed;
    }
    const char *name = way_names[way];
    struct aw__bench_figure *f = aw__bench_add(bench, "ms", "%s: p99", name);
    f->value = median(absolute, ROUNDS);
    if (way == DIRECT)
        return;
    aw__bench_add(bench, "ms", "%s: p50 added", name)->value = median(p50, ROUNDS);
    f = aw__bench_add(bench, "ms", "%s: p99 added", name);
    f->value = median(p99, ROUNDS);
    f->goal = P99_MS_GOAL;
    f->lower_is_better = true;
    f = aw__bench_add(bench, "share", "%s: throughput lost", name);
    f->value = median(loss, ROUNDS);
    f->goal = LOSS_GOAL;
    f->lower_is_better = true;
    aw__bench_add(bench, "us", "%s: CPU of the proxy per request", name)->value =
        median(cpu, ROUNDS);
    f = aw__bench_add(bench, "requests", "%s: failed", name);
    f->value = (double)failed;
    f->goal = 0;
    f->lower_is_better = true;
}

/* What a guess and a lesson cost, on prompts that are all different. */
static enum aw_err lengths(struct aw__bench *bench, struct aw_diag *diag)
{
    struct aw_length *length;
    double predict_s = 0, learn_s = 0;
    if (aw_length_new(&aw_length_defaults, NULL, &length))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the predictor");
    for (uint32_t i = 0; i < PROMPTS; i++) {
        char text[400];
        struct aw_prompt prompt;
        struct aw_length_guess guess;
        int len = 0;
        for (uint32_t w = 0; w < 40; w++)
            len += snprintf(text + len, sizeof text - (size_t)len, "w%u ",
                            (i * 2654435761u + w * 40503u) % 5000);
        const double a = aw_clock_thread_cpu_s();
        aw_prompt_read(&prompt, text, (size_t)len, "m", 0);
        aw_length_predict(length, &prompt, &guess);
        const double b = aw_clock_thread_cpu_s();
        aw_length_learn(length, &prompt, i % 300);
        predict_s += b - a;
        learn_s += aw_clock_thread_cpu_s() - b;
    }
    aw_length_free(length);
    aw__bench_add(bench, "us", "a guess of a length")->value = predict_s * 1e6 / PROMPTS;
    aw__bench_add(bench, "us", "a lesson")->value = learn_s * 1e6 / PROMPTS;
    return AW_OK;
}

enum aw_err aw__bench_proxy(struct aw__bench *bench, struct aw_diag *diag)
{
    static struct aw_drive_result result;
    static struct round rounds[ROUNDS][WAYS];
    const struct aw_standin_config config = {
        .decode_us = STEP_US, .slots = SLOTS, .connections_max = 4 * SLOTS};
    struct side side[WAYS] = {{0}};
    struct aw_standin *model = aw_standin_start(&config);
    if (!model)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no stand-in model server");
    side[DIRECT].port = aw_standin_port(model);
    enum aw_err err = side_begin(&side[BY_ARRIVAL], side[DIRECT].port, AW_SERVING_FCFS, diag);
    err = err ? err : side_begin(&side[BY_LENGTH], side[DIRECT].port, AW_SERVING_SSJF, diag);
    for (uint32_t r = 0; r < ROUNDS && !err; r++) {
        for (enum way way = 0; way < WAYS && !err; way++)
            err = ask(&side[way], side[way].port, &rounds[r][way], &result, diag);
        if (!bench->json)
            fprintf(stderr, "round %u of %u\n", r + 1, ROUNDS);
    }
    for (enum way way = 0; way < WAYS && !err; way++)
        tell(bench, rounds, way);
    err = err ? err : lengths(bench, diag);
    side_end(&side[BY_ARRIVAL]);
    side_end(&side[BY_LENGTH]);
    aw_standin_stop(model);
    return err;
}
