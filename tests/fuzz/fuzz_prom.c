/*
 * fuzz_prom.c - any bytes as what a Prometheus or metrics.k8s.io says of pods, as a question with
 * placeholders, as a file of questions, and as the objects that a scan reads. The first byte says
 * which question it is the answer to.
 */
#include "fuzz.h"

#include "kube/metrics_internal.h"
#include "kube/prom_queries.h"
#include "kube/scan_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOW_US   1769860800000000
#define FILL_MAX 4096u

static const struct aw_kube_target targets[] = {{"shop", "web", 2}};
static const char *const pods[] = {"a", "b"};

/* Missing, or a number that a controller may act on. */
static void check_figure(struct aw_kube_figure figure)
{
    AW_ASSERT(isfinite(figure.value) && figure.value >= 0);
    AW_ASSERT(figure.at_us != AW_KUBE_NEVER || figure.value == 0);
    AW_ASSERT(figure.at_us <= NOW_US);
}

static void check_known(const struct aw_kube_metrics *metrics)
{
    struct aw_kube_pod_metrics pod;
    struct aw_kube_workload_metrics web;
    aw_kube_metrics_pod(metrics, "shop", "a", NOW_US, &pod);
    check_figure(pod.cpu_cores);
    check_figure(pod.memory_bytes);
    check_figure(pod.throttled_share);
    AW_ASSERT(pod.throttled_share.value <= 1);
    aw_kube_metrics_workload(metrics, "shop", "web", pods, 2, NOW_US, &web);
    check_figure(web.requests_per_s);
    check_figure(web.errors_per_s);
    check_figure(web.in_flight);
    check_figure(web.latency_us_mean);
    check_figure(web.latency_us_p50);
    check_figure(web.latency_us_p95);
    check_figure(web.latency_us_p99);
    AW_ASSERT(web.latency_us_p50.value <= web.latency_us_p95.value);
    AW_ASSERT(web.latency_us_p95.value <= web.latency_us_p99.value);
}

static void check_pod(void *ctx, const char *ns, const char *name, double cores, double bytes,
                      int64_t at_us)
{
    (void)ctx, (void)at_us;
    AW_ASSERT(ns[0] && aw_kube_name_valid(name));
    AW_ASSERT(isfinite(cores) && cores >= 0 && isfinite(bytes) && bytes >= 0);
}

static void check_scan(const json_t *json)
{
    struct aw_kube_scan_row row;
    if (aw__scan_read_workload(json, "Deployment", &row) != AW_OK)
        return;
    const struct aw_kube_scan scan = {.row = &row, .count = 1};
    aw__scan_read_pod(&scan, json);
    (void)aw__scan_owner(&scan, row.ns, row.name);
    aw_kube_scan_judge(&row);
    AW_ASSERT(isfinite(aw_kube_scan_waste(&row)) && aw_kube_scan_waste(&row) >= 0);
}

static void check_fill(const char *bytes, size_t size)
{
    static const struct aw__fill fill = {"5s", ",a=\"b\"", "x|y", "x", "web", "web-.+"};
    char query[512], filled[FILL_MAX];
    struct aw_text text;
    uint32_t spaces;
    const size_t len = size < sizeof query - 1 ? size : sizeof query - 1;
    memcpy(query, bytes, len);
    query[len] = '\0';
    aw_text_init(&text, filled, sizeof filled);
    aw__query_fill(query, &fill, &text);
    const size_t plain = aw__query_bytes(query, &fill, &spaces);
    AW_ASSERT(text.cut || text.len == plain + spaces * strlen(fill.namespaces));
    (void)aw__query_kind(query);
}

static void check_questions(const char *bytes, size_t size)
{
    struct aw_kube_prom_queries questions;
    struct aw_kube_metrics_config config = {0};
    struct aw_diag diag = {0};
    const enum aw_err err = aw_kube_prom_queries_parse(&questions, "fuzz", bytes, size, &diag);
    if (err) {
        check_refusal(&diag, err);
        return;
    }
    aw_kube_prom_queries_apply(&questions, &config);
    AW_ASSERT(config.latency_unit_s >= 0 && config.window_us >= 0);
    aw_kube_prom_queries_deinit(&questions);
}

/* What is JSON has the same items whether it is cut or not. */
static void check_slices(const char *bytes, size_t len, const json_t *json)
{
    const json_t *items = json_object_get(json_object_get(json, "data"), "result");
    struct aw_kube_slices slices;
    json_t *rest = NULL, *item = NULL;
    size_t count = 0;
    enum aw_err err = aw_kube_slices_cut(bytes, len, "data.result", &slices, &rest, NULL);
    AW_ASSERT(!err || !json_is_object(json));
    while (!err && !(err = aw_kube_slices_next(&slices, &item, NULL)) && item) {
        AW_ASSERT(!json_is_array(items) || json_equal(item, json_array_get(items, count)));
        json_decref(item);
        count++;
    }
    AW_ASSERT(!json_is_array(items) || (!err && count == json_array_size(items)));
    json_decref(rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct aw__api_visitor visitor = {check_pod, NULL};
    static struct aw_clock_virtual clock;
    static struct aw_kube *kube;
    static struct aw_kube_metrics *metrics;
    static char server[] = "http://127.0.0.1:1", ns[] = "default";
    static struct aw_kube_config config = {.server = server, .ns = ns};
    struct aw_diag diag = {0};
    uint64_t dropped = 0;
    if (!metrics) {
        aw_clock_virtual_init(&clock, NOW_US);
        AW_ASSERT(!aw_kube_open(&kube, &config, NULL, NULL, NULL));
        const struct aw_kube_metrics_config with = {.kube = kube, /* nothing is ever sent */
                                                    .metrics_version = "v1",
                                                    .pods_max = 8,
                                                    .clock = &clock.clock};
        AW_ASSERT(!aw_kube_metrics_open(&metrics, &with, NULL, NULL));
    }
    if (size == 0)
        return 0;
    const size_t len = size - 1;
    char *bytes = malloc(len + 1); /* of its own length: a step beyond it is seen */
    AW_ASSERT(bytes);
    memcpy(bytes, data + 1, len);
    bytes[len] = '\0';
    const enum aw_err err = aw__metrics_feed(
        metrics, targets, 1, (enum aw_kube_query_id)(data[0] % AW_KUBE_QUERIES), bytes, len, &diag);
    if (err)
        check_refusal(&diag, err);
    check_known(metrics);
    json_t *json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    check_slices(bytes, len, json);
    struct aw_kube_slices items;
    json_t *rest = NULL;
    if (aw_kube_slices_cut(bytes, len, "items", &items, &rest, NULL) == AW_OK)
        (void)!aw__metrics_api_decode(rest, &items, &visitor, &dropped, &diag);
    json_decref(rest);
    check_scan(json);
    json_decref(json);
    check_fill(bytes, len);
    check_questions(bytes, len);
    free(bytes);
    return 0;
}
