/*
 * order.c - `aware-bench order`: what the order of the proxy's queue is worth to clients.
 *
 * Four kinds of prompts, whose answers have 5, 20, 60 and 200 tokens, arrive at random at nine
 * tenths of what a stand-in server with four places in its batch can do. The proxy learns their
 * lengths by itself, from the answers. The same arrivals, by the same seeds, are served in order of
 * arrival and shortest predicted first with aging. Told are the latencies of clients, from due to
 * answered; medians of rounds.
 */
#include "bench/bench.h"

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

#define KINDS    4u
#define SLOTS    4u
#define STEP_US  1000
#define LOAD     0.9
#define ROUNDS   3u
#define ROUND_US 20000000
#define WARM_US  6000000

static const struct {
    uint32_t tokens;
    const char *headers, *body;
} kinds[KINDS] = {
    {5, "X-Tokens: 5\r\n", "{\"stream\":true,\"prompt\":\"Answer yes or no: is water wet?\"}"},
    {20, "X-Tokens: 20\r\n", "{\"stream\":true,\"prompt\":\"Name the capital of France.\"}"},
    {60, "X-Tokens: 60\r\n", "{\"stream\":true,\"prompt\":\"Explain what a mutex is.\"}"},
    {200, "X-Tokens: 200\r\n",
     "{\"stream\":true,\"prompt\":\"Write a long essay about the history of bridges.\"}"},
};

struct sender {
    struct aw_drive_config config;
    struct aw_drive_result result;
    struct aw_diag diag;
    enum aw_err err;
    pthread_t thread;
};

static void *send_main(void *ctx)
{
    struct sender *sender = ctx;
    sender->err = aw_drive_run(&sender->config, &sender->result, &sender->diag);
    return NULL;
}

static void *proxy_main(void *ctx)
{
    AW_ASSERT(!aw_proxy_run(ctx, NULL));
    return NULL;
}

struct outcome {
    double mean_ms, p99_ms, short_ms;
};

/* All kinds at once, each at a quarter of the requests. */
static enum aw_err senders_run(struct sender *senders, uint16_t port, uint64_t seed,
                               struct outcome *ret, struct aw_diag *diag)
{
    static struct aw_latency_histogram all;
    double tokens = 0;
    char url[64];
    enum aw_err err = AW_OK;
    for (uint32_t k = 0; k < KINDS; k++)
        tokens += kinds[k].tokens + 1.0; /* the end of a stream takes a step, too */
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1/completions", port);
    for (uint32_t k = 0; k < KINDS; k++) {
        struct sender *sender = &senders[k];
        *sender = (struct sender){
            .config = {.timetable = {.rate_per_s = LOAD * SLOTS * 1e6 / STEP_US / tokens,
                                     .speed = 1,
                                     .arrivals = AW_ARRIVALS_POISSON,
                                     .seed = seed * KINDS + k,
                                     .duration_us = ROUND_US + WARM_US},
                       .method = "POST",
                       .headers = kinds[k].headers,
                       .body = kinds[k].body,
                       .body_len = strlen(kinds[k].body),
                       .connections_max = 1024,
                       .threads = 1,
                       .timeout_us = 120000000,
                       .warm_up_us = WARM_US}};
        err = err ? err : aw_target_parse(url, false, &sender->config.target, diag);
    }
    if (err)
        return err;
    for (uint32_t k = 0; k < KINDS; k++)
        AW_ASSERT(!aw_thread_begin(&senders[k].thread, send_main, &senders[k]));
    aw_latency_histogram_reset(&all);
    for (uint32_t k = 0; k < KINDS; k++) {
        pthread_join(senders[k].thread, NULL);
        if (senders[k].err && !err) {
            err = senders[k].err;
            *diag = senders[k].diag;
        }
        if (!err && senders[k].result.all.ok != senders[k].result.all.due)
            err = aw_fail(diag, AW_ERR_CHECK, "a request was not answered");
        aw_latency_histogram_merge(&all, &senders[k].result.latency);
    }
    *ret = (struct outcome){aw_latency_histogram_mean(&all) / 1e3,
                            aw_latency_histogram_estimate(&all, .99) / 1e3,
                            aw_latency_histogram_mean(&senders[0].result.latency) / 1e3};
    return err;
}

static enum aw_err order_run(uint32_t kind, uint64_t seed, struct sender *senders,
                             struct outcome *ret, struct aw_diag *diag)
{
    const struct aw_standin_config server = {
        .decode_us = STEP_US, .slots = SLOTS, .connections_max = 64};
    struct aw_standin *model = aw_standin_start(&server);
    struct aw_proxy_config *config = calloc(1, sizeof *config);
    struct aw_proxy *proxy = NULL;
    pthread_t thread;
    AW_ASSERT(model && config);
    *config = (struct aw_proxy_config){.upstream_count = 1,
                                       .slots = SLOTS,
                                       .order = {.kind = kind, .alpha = AW_SERVING_ALPHA_BATCHED}};
    config->upstream[0].address = (struct sockaddr_in){.sin_family = AF_INET,
                                                       .sin_port = htons(aw_standin_port(model)),
                                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    enum aw_err err = aw_listen_auth_parse(&config->door, "127.0.0.1:0", diag);
    err = err ? err : aw_proxy_open(&proxy, config, NULL, diag);
    free(config);
    if (!err) {
        AW_ASSERT(!aw_thread_begin(&thread, proxy_main, proxy));
        err = senders_run(senders, aw_proxy_port(proxy), seed, ret, diag);
        aw_proxy_stop(proxy);
        pthread_join(thread, NULL);
    }
    aw_proxy_close(proxy);
    aw_standin_stop(model);
    return err;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell(struct aw__bench *bench, const char *what, double *fcfs, double *ssjf)
{
    double change[ROUNDS];
    for (uint32_t r = 0; r < ROUNDS; r++)
        change[r] = ssjf[r] / fcfs[r] - 1;
    qsort(fcfs, ROUNDS, sizeof *fcfs, by_value);
    qsort(ssjf, ROUNDS, sizeof *ssjf, by_value);
    qsort(change, ROUNDS, sizeof *change, by_value);
    aw__bench_add(bench, "ms", "%s, by arrival", what)->value = fcfs[ROUNDS / 2];
    aw__bench_add(bench, "ms", "%s, shortest first", what)->value = ssjf[ROUNDS / 2];
    aw__bench_add(bench, "share", "%s, change", what)->value = change[ROUNDS / 2];
}

enum aw_err aw__bench_order(struct aw__bench *bench, struct aw_diag *diag)
{
    struct sender *senders = calloc(KINDS, sizeof *senders);
    double mean[2][ROUNDS], p99[2][ROUNDS], few[2][ROUNDS];
    enum aw_err err = senders ? AW_OK : AW_ERR_NOMEM;
    for (uint32_t r = 0; r < ROUNDS && !err; r++) {
        for (uint32_t k = 0; k < 2 && !err; k++) {
            struct outcome outcome = {0};
            err = order_run(k ? AW_SERVING_SSJF : AW_SERVING_FCFS, r + 1, senders, &outcome, diag);
            mean[k][r] = outcome.mean_ms;
            p99[k][r] = outcome.p99_ms;
            few[k][r] = outcome.short_ms;
        }
        if (!bench->json)
            fprintf(stderr, "round %u of %u\n", r + 1, ROUNDS);
    }
    if (!err) {
        tell(bench, "mean latency", mean[0], mean[1]);
        tell(bench, "p99", p99[0], p99[1]);
        tell(bench, "mean of the shortest", few[0], few[1]);
    }
    free(senders);
    return err;
}
