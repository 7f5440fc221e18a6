/*
 * prometheus_test.c - the questions, answered by a real Prometheus that scrapes what kubelets and
 * applications export.
 *
 * The exporter is in the process; its counters follow the clock, so that every rate is known. It
 * has what real ones have and what doubles a sum: the pod's own cgroup, the sandbox, the same
 * metric from a second job, a container's last life, samples with times of their own.
 */
#include <microhttpd.h>

#include "base/port_testing.h"
#include "kube/kube_testing.h"
#include "kube/metrics.h"
#include "kube/prom_queries.h"
#include "kube/scan.h"

#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_MAX   16384
#define LATE_S     100 /* how old the samples of "late-1" are */
#define SKIPPED    77  /* exit status: there is no Prometheus here */
#define WAIT_US    AW_TESTING_WAIT_US
#define HISTORY_US 600000000

extern char **environ;

static double born_s; /* when the exporter's counters were 0 */

static double now_s(void)
{
    return 1e-6 * (double)aw_clock_now_us(NULL);
}

/* What kubelet says of containers; a line of `job` resource has the same names. */
static void print_kubelet(struct aw_text *text, double t)
{
    static const struct {
        const char *pod, *labels;
        double cores, bytes;
    } series[] = {
        {"web-1", "container=\"app\",id=\"/kubepods/a/1\",cpu=\"total\"", 0.25, 1e8},
        {"web-1", "container=\"proxy\",id=\"/kubepods/a/2\",cpu=\"total\"", 0.05, 1e7},
        {"web-1", "container=\"\",id=\"/kubepods/a\",cpu=\"total\"", 0.31, 1.2e8},
        {"web-1", "container=\"POD\",id=\"/kubepods/a/0\",cpu=\"total\"", 0.01, 1e6},
        {"web-1", "container=\"app\",id=\"/kubepods/a/9\",cpu=\"total\"", 0, 9e7}, /* a past life */
        {"web-5d9c7b8f6-x2x4z", "container=\"app\",id=\"/kubepods/b/1\",cpu=\"total\"", 0.5, 2e8},
    };
    for (uint32_t i = 0; i < sizeof series / sizeof *series; i++) {
        aw_text_add(text,
                    "container_cpu_usage_seconds_total{namespace=\"shop\",pod=\"%s\",%s} %f\n",
                    series[i].pod, series[i].labels, t * series[i].cores);
        aw_text_add(text,
                    "container_memory_working_set_bytes{namespace=\"shop\",pod=\"%s\",%s} %f\n",
                    series[i].pod, series[i].labels, series[i].bytes);
    }
    aw_text_add(
        text,
        "container_cpu_cfs_periods_total{namespace=\"shop\",pod=\"web-1\",container=\"app\"}"
        " %f\n"
        "container_cpu_cfs_throttled_periods_total{namespace=\"shop\",pod=\"web-1\","
        "container=\"app\"} %f\n",
        5 * t, 4 * t); /* half of the time it slept */
    aw_text_add(
        text,
        "container_cpu_usage_seconds_total{namespace=\"shop\",pod=\"late-1\",container=\"a\""
        "} %f %lld\n",
        t, (long long)(1000 * (now_s() - LATE_S)));
}

/* What proxies of two meshes say, in milliseconds. */
static void print_meshes(struct aw_text *text, double t)
{
    static const char *const labels[] = {
        "reporter=\"destination\",destination_workload=\"mesh\","
        "destination_workload_namespace=\"shop\"",
        "direction=\"inbound\",namespace=\"shop\",pod=\"link-1\"",
    };
    static const char *const total[] = {"istio_requests_total", "response_total"};
    static const char *const failed[] = {"response_code=\"503\"", "classification=\"failure\""};
    static const char *const time[] = {"istio_request_duration_milliseconds",
                                       "response_latency_ms"};
    for (uint32_t i = 0; i < 2; i++) {
        aw_text_add(text, "%s{%s,x=\"a\"} %f\n%s{%s,%s} %f\n", total[i], labels[i], 9 * t, total[i],
                    labels[i], failed[i], t);
        aw_text_add(text, "%s_bucket{%s,le=\"200\"} %f\n%s_bucket{%s,le=\"+Inf\"} %f\n", time[i],
                    labels[i], 10 * t, time[i], labels[i], 10 * t);
        aw_text_add(text, "%s_sum{%s} %f\n", time[i], labels[i], 500 * t);
    }
}

static void print_histogram(struct aw_text *text, const char *name, const char *pod, double rate)
{
    static const struct {
        const char *le;
        double share;
    } buckets[] = {{"0.1", 0.5}, {"0.2", 0.9}, {"1", 1}, {"+Inf", 1}};
    for (uint32_t i = 0; i < sizeof buckets / sizeof *buckets; i++)
        aw_text_add(text, "%s_bucket{namespace=\"shop\",pod=\"%s\",le=\"%s\"} %f\n", name, pod,
                    buckets[i].le, rate * buckets[i].share);
    aw_text_add(text,
                "%s_sum{namespace=\"shop\",pod=\"%s\"} %f\n"
                "%s_count{namespace=\"shop\",pod=\"%s\"} %f\n",
                name, pod, 0.12 * rate, name, pod, rate);
}

/* What two applications say: aware-workload's names, and those of a client library. */
static void print_requests(struct aw_text *text, double t)
{
    aw_text_add(
        text,
        "aware_workload_requests_total{namespace=\"shop\",pod=\"web-1\",outcome=\"ok\"} %f\n"
        "aware_workload_errors_total{namespace=\"shop\",pod=\"web-1\"} %f\n"
        "aware_workload_in_flight{namespace=\"shop\",pod=\"web-1\"} 7\n",
        40 * t, 2 * t);
    print_histogram(text, "aware_workload_request_duration_seconds", "web-1", 40 * t);
    aw_text_add(text,
                "http_requests_total{namespace=\"shop\",pod=\"api-1\",code=\"200\"} %f\n"
                "http_requests_total{namespace=\"shop\",pod=\"api-1\",code=\"503\"} %f\n",
                20 * t, 5 * t);
    print_histogram(text, "http_request_duration_seconds", "api-1", 25 * t);
    /* counts requests, and has never had an error to count */
    aw_text_add(text, "http_requests_total{namespace=\"shop\",pod=\"calm-1\",code=\"200\"} %f\n",
                3 * t);
}

static enum MHD_Result export(void *ctx, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state) {
    static char page[PAGE_MAX]; const double t = now_s() - born_s; struct aw_text text;
    (void)ctx, (void)method, (void)version, (void)data, (void)size, (void)state;
    aw_text_init(&text, page, sizeof page); print_kubelet(&text, t);
    if (!strcmp(path, "/app")){print_requests(&text, t); print_meshes(&text, t);}
AW_ASSERT(!text.cut);
struct MHD_Response *response =
    MHD_create_response_from_buffer(text.len, page, MHD_RESPMEM_MUST_COPY);
MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4");
const enum MHD_Result result = MHD_queue_response(connection, 200, response);
MHD_destroy_response(response);
return result;
}

/* --- the world --- */

struct world {
    struct MHD_Daemon *exporter;
    char folder[64], url[64];
    pid_t prometheus;
    struct aw_kube_prom *prom;
};

/* Two jobs scrape the same exporter, as clusters scrape one kubelet for two of its pages. */
static void write_config(const struct world *world, unsigned port)
{
    char path[128];
    snprintf(path, sizeof path, "%s/prometheus.yml", world->folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n");
    static const char *const jobs[][2] = {{"cadvisor", "/app"}, {"resource", "/kubelet"}};
    for (uint32_t i = 0; i < 2; i++)
        fprintf(file,
                "- job_name: %s\n  honor_labels: true\n  metrics_path: %s\n  static_configs:\n"
                "  - targets: ['127.0.0.1:%u']\n",
                jobs[i][0], jobs[i][1], port);
    assert_int_equal(fclose(file), 0);
}

static int open_world(void **state)
{
    static struct world world;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char config[96], data[96], listen[64];
    snprintf(world.folder, sizeof world.folder, "/tmp/aware-prometheus-XXXXXX");
    assert_non_null(mkdtemp(world.folder));
    born_s = now_s() - 600; /* it has been there for a while */
    world.exporter = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, export, NULL,
                                      MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
    assert_non_null(world.exporter);
    write_config(&world, MHD_get_daemon_info(world.exporter, MHD_DAEMON_INFO_BIND_PORT)->port);
    const unsigned port = test_port_free();
    snprintf(world.url, sizeof world.url, "http://127.0.0.1:%u/", port);
    snprintf(config, sizeof config, "--config.file=%s/prometheus.yml", world.folder);
    snprintf(data, sizeof data, "--storage.tsdb.path=%s/data", world.folder);
    snprintf(listen, sizeof listen, "--web.listen-address=127.0.0.1:%u", port);
    char *const argv[] = {(char[]){"prometheus"},        config, data, listen,
                          (char[]){"--log.level=error"}, NULL};
    assert_int_equal(posix_spawnp(&world.prometheus, argv[0], NULL, NULL, argv, environ), 0);
    const struct aw_kube_prom_config where = {.url = world.url};
    assert_ok(aw_kube_prom_open(&world.prom, &where, NULL, NULL));
    *state = &world;
    return 0;
}

static int close_world(void **state)
{
    struct world *world = *state;
    char command[96];
    aw_kube_prom_close(world->prom);
    kill(world->prometheus, SIGTERM);
    waitpid(world->prometheus, NULL, 0);
    MHD_stop_daemon(world->exporter);
    snprintf(command, sizeof command, "%s", world->folder);
    char *const argv[] = {(char[]){"rm"}, (char[]){"-rf"}, command, NULL};
    pid_t pid;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
    return 0;
}

/* --- tests --- */

static void told(void *ctx, const char *source, enum aw_err err, const char *text)
{
    (void)ctx;
    /* until it has started it is away or says 503; a question that is refused is a mistake */
    if (err && err != AW_ERR_UNAVAILABLE)
        fail_msg("%s: %s: %s", source, aw_err_name(err), text);
}

static const struct aw_kube_target targets[] = {{"shop", "web", 2}, {"shop", "api", 1}};

static struct aw_kube_workload_metrics workload(const struct aw_kube_metrics *metrics,
                                                const char *pod)
{
    struct aw_kube_workload_metrics ret;
    aw_kube_metrics_workload(metrics, "shop", "none", &pod, 1, aw_clock_now_us(NULL), &ret);
    return ret;
}

static struct aw_kube_pod_metrics pod_of(const struct aw_kube_metrics *metrics, const char *pod)
{
    struct aw_kube_pod_metrics ret;
    aw_kube_metrics_pod(metrics, "shop", pod, aw_clock_now_us(NULL), &ret);
    return ret;
}

static bool has(struct aw_kube_figure figure)
{
    return figure.at_us != AW_KUBE_NEVER;
}

/* Everything has been scraped twice before it was asked for. */
static bool is_complete(const struct aw_kube_metrics *metrics)
{
    const struct aw_kube_pod_metrics web = pod_of(metrics, "web-1");
    const struct aw_kube_workload_metrics served = workload(metrics, "web-1");
    const struct aw_kube_workload_metrics api = workload(metrics, "api-1");
    return has(web.cpu_cores) && has(web.memory_bytes) && has(web.throttled_share) &&
           has(pod_of(metrics, "late-1").cpu_cores) && has(served.requests_per_s) &&
           has(served.errors_per_s) && has(served.in_flight) && has(served.latency_us_p95) &&
           has(served.latency_us_mean) && has(api.requests_per_s) && has(api.errors_per_s) &&
           has(api.latency_us_mean) && has(workload(metrics, "calm-1").errors_per_s);
}

/* A rate is taken between two moments at which a busy machine scraped: near is all one can ask. */
#define assert_near(value, truth) assert_close((value) / (truth), 1, 0.2)

static void every_question_is_answered_and_nothing_is_counted_twice(void **state)
{
    const struct world *world = *state;
    const struct aw_kube_metrics_config config = {.prom = world->prom, .told = told};
    const int64_t end_us = aw_clock_monotonic_us(NULL) + WAIT_US;
    struct aw_kube_metrics *metrics = NULL;
    assert_ok(aw_kube_metrics_open(&metrics, &config, NULL, NULL));
    do {
        assert_true(aw_clock_monotonic_us(NULL) < end_us);
        (void)!aw_kube_metrics_read(metrics, targets, 2, end_us, NULL);
        usleep(200000);
    } while (!is_complete(metrics));
    const struct aw_kube_pod_metrics web = pod_of(metrics, "web-1");
    assert_near(web.cpu_cores.value, 0.30);     /* both containers, once each */
    assert_near(web.memory_bytes.value, 1.1e8); /* of its lives the larger one */
    assert_near(web.throttled_share.value, 0.4);
    const double age_s = now_s() - 1e-6 * (double)pod_of(metrics, "late-1").cpu_cores.at_us;
    assert_true(age_s > LATE_S - 5 && age_s < LATE_S + 60); /* as old as its sample */
    const struct aw_kube_workload_metrics served = workload(metrics, "web-1");
    assert_near(served.requests_per_s.value, 40);
    assert_near(served.errors_per_s.value, 2);
    assert_near(served.in_flight.value, 7);
    assert_near(served.latency_us_p50.value, 100000);
    assert_near(served.latency_us_p95.value, 600000); /* half way from 0.2 s to 1 s */
    assert_near(served.latency_us_mean.value, 120000);
    const struct aw_kube_workload_metrics api = workload(metrics, "api-1");
    assert_near(api.requests_per_s.value, 25);
    assert_near(api.errors_per_s.value, 5);
    assert_near(api.latency_us_mean.value, 120000);
    assert_true(api.in_flight.at_us == AW_KUBE_NEVER); /* it does not say */
    assert_true(workload(metrics, "calm-1").errors_per_s.value == 0);
    aw_kube_metrics_close(metrics);
}

static void meshes_are_asked_in_their_own_words(void **state)
{
    static const char *const presets[] = {"preset: istio\n", "preset: linkerd\n"};
    static const struct aw_kube_target mesh = {"shop", "mesh", 1};
    static const char *const pod = "link-1";
    const struct world *world = *state;
    const int64_t end_us = aw_clock_monotonic_us(NULL) + WAIT_US;
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_kube_metrics_config config = {.prom = world->prom, .told = told};
        struct aw_kube_workload_metrics found;
        struct aw_kube_prom_queries questions;
        struct aw_kube_metrics *metrics = NULL;
        assert_ok(aw_kube_prom_queries_parse(&questions, "a preset", presets[i], strlen(presets[i]),
                                             NULL));
        aw_kube_prom_queries_apply(&questions, &config);
        assert_ok(aw_kube_metrics_open(&metrics, &config, NULL, NULL));
        do {
            assert_true(aw_clock_monotonic_us(NULL) < end_us);
            (void)!aw_kube_metrics_read(metrics, &mesh, 1, end_us, NULL);
            aw_kube_metrics_workload(metrics, "shop", "mesh", &pod, 1, aw_clock_now_us(NULL),
                                     &found);
            usleep(200000);
        } while (!has(found.requests_per_s) || !has(found.errors_per_s) ||
                 !has(found.latency_us_mean));
        assert_near(found.requests_per_s.value, 10);
        assert_near(found.errors_per_s.value, 1);
        assert_near(found.latency_us_p50.value, 100000);
        assert_near(found.latency_us_mean.value, 50000);
        aw_kube_metrics_close(metrics);
        aw_kube_prom_queries_deinit(&questions);
    }
}

static void a_scan_finds_the_history(void **state)
{
    const struct world *world = *state;
    struct aw_kube_world api;
    const struct aw_kube_server server = {.autoscaling = ""};
    const int64_t end_us = aw_clock_monotonic_us(NULL) + WAIT_US;
    struct aw_kube_scan scan = {0};
    aw_kube_world_open(&api, &(struct aw_kube_options){.clock = &aw_clock_real});
    aw_fake_apiserver_set(
        api.twin, "/apis/apps/v1/deployments",
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\"},\"spec\":{\"replicas\":3,"
        "\"template\":{\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":{"
        "\"requests\":{\"cpu\":\"2\",\"memory\":\"1Gi\"}}}]}}}}");
    const struct aw_kube_scan_config config = {
        .kube = api.kube, .server = &server, .prom = world->prom, .history_us = HISTORY_US};
    do { /* the last moment of the range is a whole second: two scrapes must lie before it */
        assert_true(aw_clock_monotonic_us(NULL) < end_us);
        usleep(scan.row ? 500000 : 0);
        aw_kube_scan_deinit(&scan);
        assert_ok(aw_kube_scan(&scan, &config, NULL, NULL));
    } while (scan.source != AW_KUBE_SCAN_HISTORY || scan.row[0].cpu.samples == 0);
    assert_int_equal(scan.count, 1);
    assert_near(scan.row[0].memory.max, 2e8);
    assert_near(scan.row[0].memory_waste, 3 * (0x1p30 - 2.3e8));
    assert_near(scan.row[0].cpu.max, 0.5);
    assert_near(scan.row[0].cpu_waste, 3 * (2 - 0.575));
    aw_kube_scan_deinit(&scan);
    aw_kube_world_close(&api);
}

static bool is_there(void)
{
    pid_t pid;
    int status = 1;
    char *const argv[] = {(char[]){"prometheus"}, (char[]){"--version"}, NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0);
    if (posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&quiet);
    return status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_is_answered_and_nothing_is_counted_twice),
        cmocka_unit_test(meshes_are_asked_in_their_own_words),
        cmocka_unit_test(a_scan_finds_the_history),
    };
    if (!is_there())
        return SKIPPED;
    return cmocka_run_group_tests(tests, open_world, close_world);
}
