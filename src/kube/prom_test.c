/* prom_test.c - what counts as an answer of Prometheus, and what does not. */
#include "kube/prom.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "doubles/fake_prometheus.h"

#define POINTS_MAX 16u

struct notes {
    uint32_t series, points;
    struct aw_kube_prom_point point[POINTS_MAX];
    char pod[64];
};

static void take(void *ctx, const struct aw_kube_labels *labels,
                 const struct aw_kube_prom_point *points, uint32_t count)
{
    struct notes *notes = ctx;
    const char *pod = aw_kube_label(labels, "pod");
    assert_true(count > 0);
    notes->series++;
    snprintf(notes->pod, sizeof notes->pod, "%s", pod ? pod : "");
    for (uint32_t i = 0; i < count; i++) {
        assert_true(isfinite(points[i].value) && isfinite(points[i].at_s));
        assert_true(notes->points < POINTS_MAX);
        notes->point[notes->points++] = points[i];
    }
}

#define VECTOR(items) \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" items "]}}"
#define MATRIX(items) \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[" items "]}}"

static void only_finite_numbers_with_a_time_are_points(void **state)
{
    static const struct {
        const char *why, *body;
        enum aw_err err;
        uint32_t series, points, dropped;
    } cases[] = {
        {"a vector", VECTOR("{\"metric\":{\"pod\":\"a\"},\"value\":[1.5,\"2\"]}"), AW_OK, 1, 1, 0},
        {"nothing", VECTOR(""), AW_OK, 0, 0, 0},
        {"NaN", VECTOR("{\"metric\":{},\"value\":[1,\"NaN\"]}"), AW_OK, 0, 0, 1},
        {"infinities",
         VECTOR("{\"metric\":{},\"value\":[1,\"+Inf\"]},{\"metric\":{},\"value\":[1,"
                "\"-Inf\"]}"),
         AW_OK, 0, 0, 2},
        {"beyond all numbers", VECTOR("{\"metric\":{},\"value\":[1,\"1e999\"]}"), AW_OK, 0, 0, 1},
        {"a number that is no text", VECTOR("{\"metric\":{},\"value\":[1,2]}"), AW_OK, 0, 0, 1},
        {"no time", VECTOR("{\"metric\":{},\"value\":[null,\"2\"]}"), AW_OK, 0, 0, 1},
        {"too much in a pair", VECTOR("{\"metric\":{},\"value\":[1,\"2\",3]}"), AW_OK, 0, 0, 1},
        {"a native histogram", VECTOR("{\"metric\":{},\"histogram\":[1,{}]}"), AW_OK, 0, 0, 1},
        {"a matrix", MATRIX("{\"metric\":{},\"values\":[[1,\"2\"],[2,\"NaN\"],[3,\"4\"]]}"), AW_OK,
         1, 2, 1},
        {"time that goes back", MATRIX("{\"metric\":{},\"values\":[[2,\"2\"],[1,\"3\"]]}"), AW_OK,
         1, 1, 1},
        {"a scalar",
         "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[1,"
         "\"7\"]}}",
         AW_OK, 1, 1, 0},
        {"a string",
         "{\"status\":\"success\",\"data\":{\"resultType\":\"string\",\"result\":[1,"
         "\"7\"]}}",
         AW_ERR_FORMAT, 0, 0, 0},
        {"labels that are no texts", VECTOR("{\"metric\":{\"a\":1},\"value\":[1,\"2\"]}"),
         AW_ERR_FORMAT, 0, 0, 0},
        {"good before bad: the good one was told, and the answer is none",
         VECTOR("{\"metric\":{},\"value\":[1,\"2\"]},{\"metric\":7}"), AW_ERR_FORMAT, 1, 1, 0},
        {"it breaks off",
         "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":["
         "{\"metric\":{},\"value\":[1,\"2\"]}",
         AW_ERR_FORMAT, 0, 0, 0},
        {"the type comes last",
         "{\"data\":{\"result\":[{\"metric\":{},\"value\":[1,\"2\"]}],\"resultType\":\"vector\"},"
         "\"status\":\"success\"}",
         AW_OK, 1, 1, 0},
        {"an error", "{\"status\":\"error\",\"error\":\"no\"}", AW_ERR_FORMAT, 0, 0, 0},
        {"somebody else", "{\"kind\":\"PodList\",\"items\":[]}", AW_ERR_FORMAT, 0, 0, 0},
        {"no data", "{\"status\":\"success\"}", AW_ERR_FORMAT, 0, 0, 0},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct notes notes = {0};
        struct aw_kube_prom_answer answer = {0};
        const struct aw_kube_prom_visitor visitor = {take, &notes};
        const enum aw_err err =
            aw_kube_prom_decode(cases[i].body, strlen(cases[i].body), &visitor, &answer, NULL);
        if (err != cases[i].err || notes.series != cases[i].series ||
            notes.points != cases[i].points ||
            answer.series != (cases[i].err ? 0 : cases[i].series) ||
            answer.dropped != cases[i].dropped)
            fail_msg("%s: %s, %u series, %u points, %u dropped", cases[i].why, aw_err_name(err),
                     notes.series, notes.points, answer.dropped);
    }
}

struct world {
    struct aw_fake_prometheus *twin;
    struct aw_kube_prom *prom;
};

static void open_world(struct world *world, const char *token_file)
{
    world->twin = aw_fake_prometheus_open();
    assert_non_null(world->twin);
    const struct aw_kube_prom_config config = {.url = aw_fake_prometheus_url(world->twin),
                                               .token_file = token_file};
    assert_ok(aw_kube_prom_open(&world->prom, &config, NULL, NULL));
}

static void close_world(struct world *world)
{
    aw_kube_prom_close(world->prom);
    aw_fake_prometheus_close(world->twin);
}

static void a_question_arrives_as_it_was_asked(void **state)
{
    static const char query[] = "sum by (pod) (rate(x{a=\"b+c&d=e\",f=~\"g|h\"}[5m])) > 0 % 7";
    struct world world;
    struct notes notes = {0};
    struct aw_kube_prom_answer answer;
    const struct aw_kube_prom_visitor visitor = {take, &notes};
    const struct aw_kube_prom_range range = {1000, 2000, 100};
    (void)state;
    open_world(&world, NULL);
    aw_fake_prometheus_answer(world.twin, "rate(x", 200,
                              VECTOR("{\"metric\":{\"pod\":\"a\"},\"value\":[1.5,\"2\"]}"));
    assert_ok(aw_kube_prom_ask(world.prom, query, 0, &visitor, &answer, NULL));
    assert_string_equal(aw_fake_prometheus_last(world.twin, "rate"), query);
    assert_string_equal(notes.pod, "a");
    assert_int_equal(answer.code, 200);
    assert_ok(aw_kube_prom_ask_range(world.prom, query, &range, 0, &visitor, &answer, NULL));
    assert_int_equal(aw_fake_prometheus_count(world.twin, "rate(x"), 2);
    const struct aw_kube_prom_range endless = {0, 1000000000, 1};
    assert_int_equal(
        aw_kube_prom_ask_range(world.prom, query, &endless, 0, &visitor, &answer, NULL),
        AW_ERR_LIMIT);
    close_world(&world);
}

static void a_refusal_says_why_and_tells_nothing(void **state)
{
    static const struct {
        int status;
        const char *body, *text;
        enum aw_err err;
    } cases[] = {
        {400, "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}",
         "parse error", AW_ERR_FORMAT},
        {422, "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"many-to-many\"}",
         "many-to-many", AW_ERR_RANGE},
        {503, "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"too long\"}", "too long",
         AW_ERR_UNAVAILABLE},
        {200, "<html>a login page</html>", "JSON", AW_ERR_FORMAT},
        {200, "{\"status\":\"success\",\"data\":{}}", "found something else", AW_ERR_FORMAT},
        {404, "404 page not found", "404", AW_ERR_NOTFOUND},
        {0, NULL, "", AW_ERR_UNAVAILABLE},
    };
    struct world world;
    struct notes notes = {0};
    const struct aw_kube_prom_visitor visitor = {take, &notes};
    (void)state;
    open_world(&world, NULL);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_kube_prom_answer answer;
        struct aw_diag diag = {0};
        aw_fake_prometheus_answer(world.twin, "up", cases[i].status, cases[i].body);
        assert_int_equal(aw_kube_prom_ask(world.prom, "up", 0, &visitor, &answer, &diag),
                         cases[i].err);
        assert_int_equal(answer.code, cases[i].status);
        if (!strstr(diag.text, cases[i].text))
            fail_msg("%d: %s", cases[i].status, diag.text);
    }
    assert_int_equal(notes.series, 0);
    close_world(&world);
}

static void a_reserve_of_the_server_is_kept(void **state)
{
    struct world world;
    struct notes notes = {0};
    struct aw_kube_prom_answer answer;
    const struct aw_kube_prom_visitor visitor = {take, &notes};
    (void)state;
    open_world(&world, NULL);
    aw_fake_prometheus_answer(
        world.twin, "up", 200,
        "{\"status\":\"success\",\"warnings\":[\"store 2\\nis away\"],\"data\":{"
        "\"resultType\":\"vector\",\"result\":[]}}");
    assert_ok(aw_kube_prom_ask(world.prom, "up", 0, &visitor, &answer, NULL));
    assert_true(answer.warned);
    assert_string_equal(answer.warning, "store 2 is away");
    close_world(&world);
}

static void a_token_is_shown_and_read_anew(void **state)
{
    char file[] = "/tmp/aware-token-XXXXXX";
    struct world world;
    struct notes notes = {0};
    struct aw_kube_prom_answer answer;
    const struct aw_kube_prom_visitor visitor = {take, &notes};
    const int fd = mkstemp(file);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "first\n", 6), 6);
    open_world(&world, file);
    aw_fake_prometheus_token(world.twin, "first");
    assert_ok(aw_kube_prom_ask(world.prom, "up", 0, &visitor, &answer, NULL));
    aw_fake_prometheus_token(world.twin, "later");
    assert_int_equal(pwrite(fd, "later\n", 6, 0), 6);
    assert_ok(aw_kube_prom_ask(world.prom, "up", 0, &visitor, &answer, NULL)); /* after a 401 */
    aw_fake_prometheus_token(world.twin, "other");
    assert_int_equal(aw_kube_prom_ask(world.prom, "up", 0, &visitor, &answer, NULL), AW_ERR_CONFIG);
    assert_int_equal(answer.code, 401);
    close_world(&world);
    close(fd);
    unlink(file);
}

static void an_address_that_is_none_is_refused(void **state)
{
    struct aw_kube *kube = NULL;
    struct aw_kube_config config = {.server = (char[]){"http://127.0.0.1:1"},
                                    .ns = (char[]){"default"}};
    struct aw_kube_prom *prom = NULL;
    (void)state;
    assert_ok(aw_kube_open(&kube, &config, NULL, NULL, NULL));
    const struct aw_kube_prom_config bad[] = {
        {0},
        {.url = "http://a", .service = "a/b:1", .kube = kube},
        {.url = "ftp://a"},
        {.service = "monitoring/prometheus:9090"},
        {.service = "prometheus:9090", .kube = kube},
        {.service = "../../secrets/x", .kube = kube},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(aw_kube_prom_open(&prom, &bad[i], NULL, NULL), AW_ERR_CONFIG);
    const struct aw_kube_prom_config good = {.service = "monitoring/https:prometheus:9090",
                                             .kube = kube};
    assert_ok(aw_kube_prom_open(&prom, &good, NULL, NULL));
    assert_true(aw_kube_prom_query_max(prom) == AW_KUBE_PROM_PROXY_MAX);
    aw_kube_prom_close(prom);
    aw_kube_close(kube);
}

AW_TEST_GROUP("kube-prom")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_finite_numbers_with_a_time_are_points),
        cmocka_unit_test(a_question_arrives_as_it_was_asked),
        cmocka_unit_test(a_refusal_says_why_and_tells_nothing),
        cmocka_unit_test(a_reserve_of_the_server_is_kept),
        cmocka_unit_test(a_token_is_shown_and_read_anew),
        cmocka_unit_test(an_address_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
