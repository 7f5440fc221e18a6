/* metrics_test.c - what is a figure and how old it is, against a Prometheus that lies. */
#include "kube/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "doubles/fake_prometheus.h"
#include "kube/kube_testing.h"
#include "kube/metrics_internal.h"

#define S          1000000
#define WALL_US    1769860800000000 /* what our clock says at first */
#define SERVER_S   1769861100.0     /* and theirs: five minutes ahead */
#define FOREVER_US INT64_MAX

/* How the default questions are recognised. */
#define ASKS_CPU         "irate(container_cpu_usage"
#define ASKS_CPU_TIME    "timestamp(container_cpu"
#define ASKS_MEMORY_TIME "timestamp(container_memory"
#define ASKS_MEMORY      "container_memory_working_set"
#define ASKS_THROTTLED   "throttled_periods"
#define ASKS_TIME        "timestamp(aware"
#define ASKS_ERRORS      "aware_workload_errors"
#define ASKS_IN_FLIGHT   "in_flight"
#define ASKS_LATENCY     "_bucket"
#define ASKS_SUM         "_sum"
#define ASKS_REQUESTS    "aware_workload_requests_total"

struct world {
    struct aw_kube_world api;
    struct aw_fake_prometheus *twin;
    struct aw_kube_prom *prom;
    struct aw_kube_metrics *metrics;
    uint32_t told;
    enum aw_err told_err;
    char told_source[32], told_text[256];
};

static void told(void *ctx, const char *source, enum aw_err err, const char *text)
{
    struct world *world = ctx;
    world->told++;
    world->told_err = err;
    snprintf(world->told_source, sizeof world->told_source, "%s", source);
    snprintf(world->told_text, sizeof world->told_text, "%s", text);
}

static void open_with(struct world *world, const struct aw_kube_metrics_config *like)
{
    *world = (struct world){0};
    aw_kube_world_open(&world->api, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_clock_virtual_init(&world->api.clock, WALL_US);
    world->twin = aw_fake_prometheus_open();
    assert_non_null(world->twin);
    const struct aw_kube_prom_config where = {.url = aw_fake_prometheus_url(world->twin),
                                              .clock = &world->api.clock.clock};
    assert_ok(aw_kube_prom_open(&world->prom, &where, NULL, NULL));
    struct aw_kube_metrics_config config = like ? *like : (struct aw_kube_metrics_config){0};
    config.prom = world->prom;
    config.told = told;
    config.ctx = world;
    config.clock = &world->api.clock.clock;
    config.kube = config.metrics_version ? world->api.kube : NULL;
    assert_ok(aw_kube_metrics_open(&world->metrics, &config, NULL, NULL));
}

static void close_world(struct world *world)
{
    aw_kube_metrics_close(world->metrics);
    aw_kube_prom_close(world->prom);
    aw_fake_prometheus_close(world->twin);
    aw_kube_world_close(&world->api);
}

/* One series: labels, value; the time of evaluation is the server's now. */
struct series {
    const char *labels, *value;
};

static void answer(struct world *world, const char *match, const struct series *series,
                   uint32_t count)
{
    char body[8192];
    struct aw_text text;
    aw_text_init(&text, body, sizeof body);
    aw_text_add(&text, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[");
    for (uint32_t i = 0; i < count; i++)
        aw_text_add(&text, "%s{\"metric\":{%s},\"value\":[%.3f,\"%s\"]}", i ? "," : "",
                    series[i].labels, SERVER_S, series[i].value);
    aw_text_add(&text, "]}}");
    assert_false(text.cut);
    aw_fake_prometheus_answer(world->twin, match, 200, body);
}
#define ANSWER(world, match, ...)                              \
    answer(world, match, (const struct series[]){__VA_ARGS__}, \
           sizeof((const struct series[]){__VA_ARGS__}) / sizeof(struct series))

#define POD(name)       "\"namespace\":\"shop\",\"pod\":\"" name "\""
#define BUCKET(pod, le) POD(pod) ",\"le\":\"" le "\""

static const struct aw_kube_target web = {"shop", "web", 3};
static const char *const web_pods[] = {"web-1", "web-2", "web-3"};

static enum aw_err read_round(struct world *world)
{
    return aw_kube_metrics_read(world->metrics, &web, 1, FOREVER_US, NULL);
}

static struct aw_kube_pod_metrics pod(const struct world *world, const char *name)
{
    struct aw_kube_pod_metrics ret;
    aw_kube_metrics_pod(world->metrics, "shop", name, world->api.clock.wall_us, &ret);
    return ret;
}

static struct aw_kube_workload_metrics workload(const struct world *world)
{
    struct aw_kube_workload_metrics ret;
    aw_kube_metrics_workload(world->metrics, "shop", "web", web_pods, 3, world->api.clock.wall_us,
                             &ret);
    return ret;
}

#define assert_missing(figure) assert_true((figure).at_us == AW_KUBE_NEVER && (figure).value == 0)

static void times_are_of_now(struct world *world)
{
    ANSWER(world, ASKS_CPU_TIME, {POD("web-1"), "1769861100"}, {POD("web-2"), "1769861100"});
    ANSWER(world, ASKS_MEMORY_TIME, {POD("web-1"), "1769861100"}, {POD("web-2"), "1769861100"});
    ANSWER(world, ASKS_TIME, {POD("web-1"), "1769861100"}, {POD("web-2"), "1769861095"});
}

static void usage_comes_with_its_age_on_our_own_clock(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    ANSWER(&world, ASKS_CPU_TIME, {POD("web-1"), "1769861090"}, {POD("web-2"), "1769861100"});
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "0.25"}, {POD("web-2"), "0.5"});
    assert_ok(read_round(&world));
    assert_close(pod(&world, "web-1").cpu_cores.value, 0.25, 1e-12);
    assert_int_equal(pod(&world, "web-1").cpu_cores.at_us, WALL_US - 10 * S);
    assert_int_equal(pod(&world, "web-2").cpu_cores.at_us, WALL_US);
    assert_missing(pod(&world, "web-1").memory_bytes);
    assert_missing(pod(&world, "web-9").cpu_cores);
    assert_true(aw_kube_metrics_state(world.metrics)->from_prom);
    close_world(&world);
}

static void what_is_no_figure_is_missing_and_never_zero(void **state)
{
    static const struct {
        const char *why, *value;
    } lies[] = {
        {"not a number", "NaN"}, {"infinite", "+Inf"},   {"below zero", "-0.1"},
        {"absurd", "1e9"},       {"not at all", "five"}, {"empty", ""},
    };
    struct world world;
    (void)state;
    open_with(&world, NULL);
    times_are_of_now(&world);
    for (uint32_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        ANSWER(&world, ASKS_CPU, {POD("web-1"), lies[i].value}, {POD("web-2"), "0"});
        assert_ok(read_round(&world));
        if (pod(&world, "web-1").cpu_cores.at_us != AW_KUBE_NEVER)
            fail_msg("%s was taken for a figure", lies[i].why);
        assert_true(pod(&world, "web-2").cpu_cores.at_us >= WALL_US); /* a true zero is one */
    }
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "0.5"}, {POD("web-1"), "0.5"}, {POD("web-1"), "0.4"});
    assert_ok(read_round(&world));
    assert_missing(pod(&world, "web-1").cpu_cores); /* which of them? */
    ANSWER(&world, ASKS_CPU, {"\"pod\":\"web-1\"", "0.5"}, {"\"namespace\":\"shop\"", "1"},
           {"\"namespace\":\"other\",\"pod\":\"web-1\"", "1"});
    assert_ok(read_round(&world));
    assert_missing(pod(&world, "web-1").cpu_cores);
    close_world(&world);
}

static void a_sample_without_a_credible_time_is_missing(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "1"}, {POD("web-2"), "1"}, {POD("web-3"), "1"});
    ANSWER(&world, ASKS_CPU_TIME, {POD("web-1"), "1769861160"}, /* a minute from now */
           {POD("web-2"), "1769861105"},                        /* a clock's error */
           {POD("web-3"), "1769860700"});                       /* older than what we take */
    assert_ok(read_round(&world));
    assert_missing(pod(&world, "web-1").cpu_cores);
    assert_int_equal(pod(&world, "web-2").cpu_cores.at_us, WALL_US);
    assert_missing(pod(&world, "web-3").cpu_cores);
    close_world(&world);
}

static void a_figure_grows_old_while_its_question_fails_and_ends_when_it_is_denied(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    times_are_of_now(&world);
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "1"});
    assert_ok(read_round(&world));
    aw_fake_prometheus_answer(world.twin, ASKS_CPU, 503,
                              "{\"status\":\"error\",\"error\":\"busy\"}");
    aw_clock_virtual_advance(&world.api.clock, 60 * S);
    assert_ok(read_round(&world));
    assert_int_equal(pod(&world, "web-1").cpu_cores.at_us, WALL_US);
    aw_clock_virtual_advance(&world.api.clock, AW_KUBE_AGE_MAX_US);
    assert_ok(read_round(&world));
    assert_missing(pod(&world, "web-1").cpu_cores);
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "1"});
    assert_ok(read_round(&world));
    assert_int_equal(pod(&world, "web-1").cpu_cores.at_us, world.api.clock.wall_us);
    answer(&world, ASKS_CPU, NULL, 0);
    assert_ok(read_round(&world));
    assert_missing(pod(&world, "web-1").cpu_cores);
    close_world(&world);
}

static void a_failing_question_is_told_once_by_its_name(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    aw_fake_prometheus_answer(world.twin, ASKS_THROTTLED, 422,
                              "{\"status\":\"error\",\"error\":\"many-to-many matching\"}");
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(read_round(&world));
    assert_int_equal(world.told, 1);
    assert_string_equal(world.told_source, "throttled");
    assert_int_equal(world.told_err, AW_ERR_RANGE);
    assert_non_null(strstr(world.told_text, "many-to-many"));
    aw_fake_prometheus_answer(world.twin, ASKS_THROTTLED, 200, NULL);
    assert_ok(read_round(&world));
    assert_int_equal(world.told, 2);
    assert_int_equal(world.told_err, AW_OK);
    close_world(&world);
}

static void a_partial_answer_is_told_and_does_not_deny(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    times_are_of_now(&world);
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "1"});
    assert_ok(read_round(&world));
    aw_fake_prometheus_answer(
        world.twin, ASKS_CPU, 200,
        "{\"status\":\"success\",\"warnings\":[\"half\"],\"data\":{\"resultType\""
        ":\"vector\",\"result\":[]}}");
    assert_ok(read_round(&world));
    assert_ok(read_round(&world));
    assert_int_equal(world.told, 1);
    assert_string_equal(world.told_source, "cpu");
    assert_close(pod(&world, "web-1").cpu_cores.value, 1, 1e-12);
    close_world(&world);
}

static void a_prometheus_that_is_away_is_asked_once_a_round(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    aw_fake_prometheus_close(world.twin);
    world.twin = NULL;
    assert_int_equal(read_round(&world), AW_ERR_UNAVAILABLE);
    assert_int_equal(read_round(&world), AW_ERR_UNAVAILABLE);
    assert_int_equal(aw_kube_metrics_state(world.metrics)->asked, 2);
    assert_int_equal(world.told, 1);
    assert_string_equal(world.told_source, "prometheus");
    close_world(&world);
}

static void nothing_is_asked_after_the_deadline(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    assert_int_equal(aw_kube_metrics_read(world.metrics, &web, 1, 0, NULL), AW_ERR_DEADLINE);
    assert_int_equal(aw_fake_prometheus_count(world.twin, ""), 0);
    assert_int_equal(world.told, 1);
    close_world(&world);
}

static void latencies_are_those_of_the_merged_histogram(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    times_are_of_now(&world);
    ANSWER(&world, ASKS_LATENCY, {BUCKET("web-1", "+Inf"), "10"}, {BUCKET("web-1", "0.1"), "8"},
           {BUCKET("web-1", "0.5"), "10"}, {BUCKET("web-2", "0.1"), "0"},
           {BUCKET("web-2", "0.5"), "10"}, {BUCKET("web-2", "+Inf"), "10"},
           {BUCKET("web-2", "0.3"), "5"}); /* a bound that the other has not */
    ANSWER(&world, ASKS_SUM, {POD("web-1"), "1"}, {POD("web-2"), "3"});
    ANSWER(&world, ASKS_ERRORS, {POD("web-1"), "0"}, {POD("web-2"), "0.5"});
    ANSWER(&world, ASKS_REQUESTS, {POD("web-1"), "10"}, {POD("web-2"), "10"});
    assert_ok(read_round(&world));
    const struct aw_kube_workload_metrics found = workload(&world);
    /* 20 a second: 8 up to 0.1 s, 20 up to 0.5 s */
    assert_close(found.latency_us_p50.value, 1e6 * (0.1 + 0.4 * 2 / 12), 1e-6);
    assert_close(found.latency_us_p95.value, 1e6 * (0.1 + 0.4 * 11 / 12), 1e-6);
    assert_close(found.latency_us_mean.value, 0.2e6, 1e-6);
    assert_int_equal(found.latency_us_p99.pods, 2);
    assert_int_equal(found.latency_us_p99.at_us, WALL_US - 5 * S); /* the older of the two */
    assert_close(found.requests_per_s.value, 20, 1e-12);
    assert_close(found.errors_per_s.value, 0.5, 1e-12);
    assert_int_equal(found.requests_per_s.pods, 2); /* and the third did not report */
    assert_missing(found.in_flight);
    close_world(&world);
}

static void a_histogram_that_counts_nothing_has_no_quantiles(void **state)
{
    struct world world;
    (void)state;
    open_with(&world, NULL);
    times_are_of_now(&world);
    ANSWER(&world, ASKS_LATENCY, {BUCKET("web-1", "0.1"), "0"}, {BUCKET("web-1", "+Inf"), "0"},
           {BUCKET("web-2", "0.1"), "3"}); /* without an end */
    ANSWER(&world, ASKS_SUM, {POD("web-1"), "0"});
    assert_ok(read_round(&world));
    assert_missing(workload(&world).latency_us_p99);
    assert_missing(workload(&world).latency_us_mean);
    ANSWER(&world, ASKS_LATENCY, {BUCKET("web-1", "0.1"), "1"}, {BUCKET("web-1", "0.10"), "2"},
           {BUCKET("web-1", "+Inf"), "2"});
    assert_ok(read_round(&world));
    assert_missing(workload(&world).latency_us_p50); /* one bound, twice */
    close_world(&world);
}

static void a_question_about_a_workload_is_asked_for_each(void **state)
{
    static const struct aw_kube_target two[] = {
        {"shop", "web", 1}, {"shop", "a.b", 1}, {"shop", "bad\"name", 1}};
    struct aw_kube_metrics_config config = {.latency_unit_s = 0.001};
    struct aw_kube_workload_metrics found;
    struct world world;
    (void)state;
    config.query[AW_KUBE_QUERY_REQUESTS] =
        "sum(rate(mesh{to=\"$workload\",ns=\"$namespace\",pod=~\"$pods\"}[$window]))";
    config.query[AW_KUBE_QUERY_LATENCY] = "sum by (le) (mesh_bucket{to=\"$workload\"})";
    open_with(&world, &config);
    ANSWER(&world, "mesh_bucket{to=\"web\"}", {"\"le\":\"100\"", "5"}, {"\"le\":\"+Inf\"", "5"});
    ANSWER(&world, "mesh{to=\"web\"", {"", "7"});
    assert_ok(aw_kube_metrics_read(world.metrics, two, 3, FOREVER_US, NULL));
    assert_string_equal(aw_fake_prometheus_last(world.twin, "mesh{to=\"a.b\""),
                        "sum(rate(mesh{to=\"a.b\",ns=\"shop\",pod=~\"a\\\\.b-.+\"}[300s]))");
    assert_int_equal(aw_fake_prometheus_count(world.twin, "bad"), 0);
    found = workload(&world);
    assert_close(found.requests_per_s.value, 7, 1e-12); /* as old as the answer */
    assert_int_equal(found.requests_per_s.at_us, WALL_US);
    assert_close(found.latency_us_p50.value, 50000, 1e-6);
    close_world(&world);
}

static void questions_are_split_by_namespaces_and_never_asked_per_pod(void **state)
{
    enum { SPACES = 40 };
    static char names[SPACES][64];
    struct aw_kube_target targets[SPACES];
    const struct aw_kube_metrics_config config = {.selector = "cluster=\"a\""};
    struct world world;
    (void)state;
    for (uint32_t i = 0; i < SPACES; i++) {
        snprintf(names[i], sizeof names[i], "space-%02u", SPACES - 1 - i);
        targets[i] = (struct aw_kube_target){names[i], "web", 100};
    }
    open_with(&world, &config);
    assert_ok(aw_kube_metrics_read(world.metrics, targets, SPACES, FOREVER_US, NULL));
    assert_int_equal(aw_fake_prometheus_count(world.twin, ASKS_CPU), 1);     /* 4000 series */
    assert_int_equal(aw_fake_prometheus_count(world.twin, ASKS_LATENCY), 4); /* 80000 */
    assert_non_null(strstr(aw_fake_prometheus_last(world.twin, ASKS_CPU), "\"space-00|space-01|"));
    assert_non_null(strstr(aw_fake_prometheus_last(world.twin, ASKS_CPU), ",cluster=\"a\"}"));
    assert_null(strchr(aw_fake_prometheus_last(world.twin, ""), '$'));
    close_world(&world);
}

static void what_has_no_room_is_counted_and_old_pods_make_room(void **state)
{
    const struct aw_kube_metrics_config config = {.pods_max = 2};
    struct world world;
    (void)state;
    open_with(&world, &config);
    times_are_of_now(&world);
    ANSWER(&world, ASKS_CPU_TIME, {POD("web-1"), "1769861100"}, {POD("web-2"), "1769861100"},
           {POD("web-3"), "1769861100"});
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "1"}, {POD("web-2"), "2"}, {POD("web-3"), "3"});
    assert_ok(read_round(&world));
    assert_close(pod(&world, "web-2").cpu_cores.value, 2, 1e-12);
    assert_missing(pod(&world, "web-3").cpu_cores);
    assert_true(aw_kube_metrics_state(world.metrics)->left_out > 0);
    aw_fake_prometheus_forget(world.twin);
    ANSWER(&world, ASKS_CPU_TIME, {POD("web-3"), "1769861100"});
    ANSWER(&world, ASKS_CPU, {POD("web-3"), "3"});
    aw_clock_virtual_advance(&world.api.clock, AW_KUBE_AGE_MAX_US + S);
    assert_ok(read_round(&world));
    assert_close(pod(&world, "web-3").cpu_cores.value, 3, 1e-12);
    close_world(&world);
}

#define METRICS "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
#define POD_METRICS(name, at, cpu, memory)                                                   \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"" name "\"},\"timestamp\":\"" at "\"," \
    "\"window\":\"15s\",\"containers\":[{\"name\":\"a\",\"usage\":{\"cpu\":\"" cpu "\","     \
    "\"memory\":\"" memory "\"}},{\"name\":\"b\",\"usage\":{\"cpu\":\"1m\",\"memory\":\"1Mi\"}}]}"

static void the_metrics_api_stands_in_for_usage(void **state)
{
    const struct aw_kube_metrics_config config = {.metrics_version = "v1beta1"};
    struct world world;
    (void)state;
    open_with(&world, &config);
    aw_fake_apiserver_set(world.api.twin, "/apis/metrics.k8s.io/v1beta1/pods",
                          POD_METRICS("web-1", "2026-01-31T11:59:50Z", "249000000n", "3Mi"));
    aw_fake_apiserver_set(world.api.twin, "/apis/metrics.k8s.io/v1beta1/pods",
                          POD_METRICS("web-2", "2026-01-31T11:59:50Z", "rubbish", "3Mi"));
    aw_fake_apiserver_set(world.api.twin, "/apis/metrics.k8s.io/v1beta1/pods",
                          POD_METRICS("web-3", "2026-01-31T12:59:50Z", "1", "3Mi"));
    /* a time without a value must not be in the way */
    ANSWER(&world, ASKS_CPU_TIME, {POD("web-1"), "1769861100"});
    assert_ok(read_round(&world));
    assert_close(pod(&world, "web-1").cpu_cores.value, 0.25, 1e-12);
    assert_close(pod(&world, "web-1").memory_bytes.value, 4 << 20, 1e-12);
    assert_int_equal(pod(&world, "web-1").memory_bytes.at_us, WALL_US - 10 * S);
    assert_missing(pod(&world, "web-2").cpu_cores);
    assert_missing(pod(&world, "web-3").cpu_cores); /* an hour from now */
    assert_true(aw_kube_metrics_state(world.metrics)->from_api);
    times_are_of_now(&world);
    ANSWER(&world, ASKS_CPU, {POD("web-1"), "0.5"});
    assert_ok(read_round(&world)); /* and is not asked where the first source has any */
    assert_close(pod(&world, "web-1").cpu_cores.value, 0.5, 1e-12);
    assert_int_equal(aw_fake_apiserver_count(world.api.twin, "GET " METRICS), 1);
    close_world(&world);
}

static void lists_of_the_metrics_api_are_looked_at_closely(void **state)
{
    static const struct {
        const char *why, *body;
        enum aw_err err;
        uint64_t dropped;
    } cases[] = {
        {"another kind", "{\"kind\":\"Status\",\"items\":[]}", AW_ERR_FORMAT, 0},
        {"no list", "{\"kind\":\"PodMetricsList\"}", AW_ERR_FORMAT, 0},
        {"nobody", "{\"kind\":\"PodMetricsList\",\"items\":[]}", AW_OK, 0},
        {"no containers",
         "{\"kind\":\"PodMetricsList\",\"items\":[{\"metadata\":{\"namespace\":\"a\",\"name\":"
         "\"b\"},\"timestamp\":\"2026-01-31T11:59:50Z\",\"containers\":[]}]}",
         AW_OK, 1},
        {"negative",
         "{\"kind\":\"PodMetricsList\",\"items\":[" POD_METRICS("a", "2026-01-31T11:59:50Z", "-1",
                                                                "1") "]}",
         AW_OK, 1},
        {"no time",
         "{\"kind\":\"PodMetricsList\",\"items\":[" POD_METRICS("a", "noon", "1", "1") "]}", AW_OK,
         1},
    };
    const struct aw__api_visitor visitor = {NULL, NULL};
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t dropped = 0;
        struct aw_kube_slices items;
        json_t *body = NULL;
        assert_ok(
            aw_kube_slices_cut(cases[i].body, strlen(cases[i].body), "items", &items, &body, NULL));
        const enum aw_err err = aw__metrics_api_decode(body, &items, &visitor, &dropped, NULL);
        if (err != cases[i].err || dropped != cases[i].dropped)
            fail_msg("%s: %s, %llu dropped", cases[i].why, aw_err_name(err),
                     (unsigned long long)dropped);
        json_decref(body);
    }
}

static void the_questions_fit_into_an_address(void **state)
{
    static const struct aw_kube_target longest = {
        "a-namespace-of-sixty-three-characters-which-is-as-long-as-it-is", "web", 1};
    struct aw_kube_metrics *metrics = NULL;
    struct aw_kube_prom *prom = NULL;
    struct aw_diag diag = {0};
    struct world world;
    (void)state;
    open_with(&world, NULL);
    assert_int_equal(strlen(longest.ns), 63);
    const struct aw_kube_prom_config where = {.service = "monitoring/prometheus:9090",
                                              .kube = world.api.kube};
    assert_ok(aw_kube_prom_open(&prom, &where, NULL, NULL));
    const struct aw_kube_metrics_config config = {
        .prom = prom, .told = told, .ctx = &world, .clock = &world.api.clock.clock};
    assert_ok(aw_kube_metrics_open(&metrics, &config, NULL, NULL));
    /* the double is no proxy and refuses each of them, as it would not if they had not come */
    assert_int_equal(aw_kube_metrics_read(metrics, &longest, 1, FOREVER_US, &diag), AW_ERR_FORMAT);
    assert_int_equal(aw_fake_apiserver_count(world.api.twin,
                                             "GET /api/v1/namespaces/monitoring/services/"
                                             "prometheus:9090/proxy/api/v1/query?query="),
                     AW_KUBE_QUERIES);
    aw_kube_metrics_close(metrics);
    aw_kube_prom_close(prom);
    close_world(&world);
}

static void memory_that_runs_out_is_an_error_and_no_sources_too(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_kube_metrics *metrics = NULL;
    struct world world;
    (void)state;
    open_with(&world, NULL);
    const struct aw_kube_metrics_config config = {.prom = world.prom, .pods_max = 4};
    aw_alloc_counting_init(&counting);
    for (counting.fail_after = 0; counting.fail_after < 2; counting.fail_after++) {
        counting.alloc_count = 0;
        assert_int_equal(aw_kube_metrics_open(&metrics, &config, &counting.alloc, NULL),
                         AW_ERR_NOMEM);
        assert_null(metrics);
    }
    const struct aw_kube_metrics_config none = {.kube = world.api.kube};
    assert_int_equal(aw_kube_metrics_open(&metrics, &none, NULL, NULL), AW_ERR_CONFIG);
    close_world(&world);
}

AW_TEST_GROUP("kube-metrics")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_comes_with_its_age_on_our_own_clock),
        cmocka_unit_test(what_is_no_figure_is_missing_and_never_zero),
        cmocka_unit_test(a_sample_without_a_credible_time_is_missing),
        cmocka_unit_test(a_figure_grows_old_while_its_question_fails_and_ends_when_it_is_denied),
        cmocka_unit_test(a_failing_question_is_told_once_by_its_name),
        cmocka_unit_test(a_partial_answer_is_told_and_does_not_deny),
        cmocka_unit_test(a_prometheus_that_is_away_is_asked_once_a_round),
        cmocka_unit_test(nothing_is_asked_after_the_deadline),
        cmocka_unit_test(latencies_are_those_of_the_merged_histogram),
        cmocka_unit_test(a_histogram_that_counts_nothing_has_no_quantiles),
        cmocka_unit_test(a_question_about_a_workload_is_asked_for_each),
        cmocka_unit_test(questions_are_split_by_namespaces_and_never_asked_per_pod),
        cmocka_unit_test(what_has_no_room_is_counted_and_old_pods_make_room),
        cmocka_unit_test(the_metrics_api_stands_in_for_usage),
        cmocka_unit_test(lists_of_the_metrics_api_are_looked_at_closely),
        cmocka_unit_test(the_questions_fit_into_an_address),
        cmocka_unit_test(memory_that_runs_out_is_an_error_and_no_sources_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
