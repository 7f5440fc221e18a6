/* localize_test.c - made-up faults are found where they were made; where there are none, nobody. */
#include "trace/localize.h"

#include <math.h>

#include "base/stats.h"
#include "base/testing.h"
#include "trace/analysis.h"
#include "trace/evaluate.h"
#include "trace/metrics.h"
#include "trace/trace_testing.h"

/* An application: front calls orders and users; orders calls stock and then pay; users calls
 * stock. What slows it is added in milliseconds. */
enum { FRONT, ORDERS, USERS, STOCK, PAY, SERVICES };
static const char *const names[SERVICES] = {"front", "orders", "users", "stock", "pay"};

struct fault {
    double own[SERVICES];    /* of its own work */
    double answer[SERVICES]; /* from its end until its callers see it: its network */
    double accept[SERVICES]; /* until it begins, and... */
    double wake[SERVICES];   /* ...until it sees an answer: both when it is short of CPU */
    bool half;               /* of the requests alone */
};

struct world {
    struct aw_spans spans;
    struct aw_analysis analysis;
    struct aw_window window;
    struct aw_span_profile base;
    struct aw_rng rng;
    uint64_t trace, id;
};

static double noisy(struct world *world, double ms)
{
    return ms * aw_rng_uniform(&world->rng, 0.8, 1.3);
}

/* A call from `from` at `at`; returns when its caller goes on. */
static double call(struct world *world, const struct fault *fault, uint64_t parent, uint32_t from,
                   uint32_t to, double at)
{
    static const uint32_t calls[SERVICES][3] = {
        [FRONT] = {ORDERS, USERS}, [ORDERS] = {STOCK, PAY}, [USERS] = {STOCK}};
    const uint64_t client = ++world->id, server = ++world->id;
    const double begin = at + noisy(world, 1) + fault->accept[to];
    double now = begin + noisy(world, 5) + fault->own[to];
    for (uint32_t i = 0; calls[to][i]; i++)
        now = call(world, fault, server, to, calls[to][i], now);
    const double end = now + noisy(world, 2);
    const double back = end + noisy(world, 1) + fault->answer[to] + fault->wake[from];
    testing_span(&world->spans, world->trace, client, parent, names[from], at, back, 0);
    testing_span(&world->spans, world->trace, server, client, names[to], begin, end, 0);
    return back;
}

static bool add(void *ctx, const struct aw_request *request)
{
    return aw_window_add(ctx, request);
}

static void run(struct world *world, const struct fault *fault, uint32_t requests)
{
    static const struct fault none;
    aw_spans_reset(&world->spans);
    aw_window_reset(&world->window);
    for (uint32_t i = 0; i < requests; i++) {
        const uint64_t root = world->id = 1000 * (i + 1);
        const struct fault *its = fault->half && i % 2 ? &none : fault;
        world->trace++;
        double now = noisy(world, 3) + its->own[FRONT];
        now = call(world, its, root, FRONT, ORDERS, now);
        now = call(world, its, root, FRONT, USERS, now);
        testing_span(&world->spans, world->trace, root, 0, names[FRONT], 0, now + 1, 0);
    }
    aw_analysis_learn(&world->analysis, &world->spans);
    aw_analysis_each(&world->analysis, &world->spans, add, &world->window);
}

static void set_up(struct world *world)
{
    static const struct fault none;
    *world = (struct world){0};
    aw_rng_init(&world->rng, 5, 0);
    assert_ok(aw_spans_init(&world->spans, 100000, NULL));
    assert_ok(aw_analysis_init(&world->analysis, NULL));
    assert_ok(aw_window_init(&world->window, &world->spans.names, NULL));
    run(world, &none, 60);
    assert_ok(aw_profile_make(&world->base, &world->window, 0, 1, NULL));
}

static void tear_down(struct world *world)
{
    aw_profile_deinit(&world->base);
    aw_window_deinit(&world->window);
    aw_analysis_deinit(&world->analysis);
    aw_spans_deinit(&world->spans);
}

static void faults_are_found_where_they_were_made(void **state)
{
    static const struct {
        const char *why;
        struct fault fault;
        uint32_t culprit;
        enum aw_lacks lacks;
    } cases[] = {
        {"own work of a leaf", {.own = {[PAY] = 60}}, PAY, AW_LACKS_UNKNOWN},
        {"own work in the middle", {.own = {[ORDERS] = 60}}, ORDERS, AW_LACKS_UNKNOWN},
        {"own work of half the requests", {.own = {[USERS] = 120}, .half = true}, USERS, 0},
        {"answers of a leaf with one caller", {.answer = {[PAY] = 60}}, PAY, AW_LACKS_NETWORK},
        {"answers of a leaf with two callers", {.answer = {[STOCK] = 40}}, STOCK, AW_LACKS_NETWORK},
        {"answers in the middle", {.answer = {[ORDERS] = 60}}, ORDERS, AW_LACKS_NETWORK},
        {"late to accept and to wake",
         {.accept = {[ORDERS] = 30}, .wake = {[ORDERS] = 30}},
         ORDERS,
         AW_LACKS_CPU},
        {"the root is late to wake", {.wake = {[FRONT] = 60}}, FRONT, AW_LACKS_CPU},
    };
    struct world world;
    struct aw_classifier classifier;
    (void)state;
    set_up(&world);
    assert_ok(aw_classifier_shipped(&classifier, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_localization found;
        run(&world, &cases[i].fault, 100);
        assert_ok(aw_localize(&found, &world.window, &world.base, NULL, 0, NULL));
        aw_classifier_judge(&classifier, &found);
        assert_int_equal(found.count, SERVICES);
        assert_int_equal(found.requests_matched, 100);
        const char *first = aw_names_text(&world.spans.names, found.culprits[0].service);
        if (strcmp(first, names[cases[i].culprit]) != 0)
            fail_msg("%s: %s, not %s", cases[i].why, first, names[cases[i].culprit]);
        if (!found.confident)
            fail_msg("%s: not sure, %.2f", cases[i].why, found.culprits[0].score);
        if (cases[i].lacks && found.culprits[0].lacks != cases[i].lacks)
            fail_msg("%s: lacks \"%s\"", cases[i].why, aw_lacks_name(found.culprits[0].lacks));
        aw_localization_deinit(&found);
    }
    tear_down(&world);
}

static void where_nothing_is_wrong_nobody_is_named(void **state)
{
    static const struct fault none;
    struct world world;
    struct aw_classifier classifier;
    (void)state;
    set_up(&world);
    assert_ok(aw_classifier_shipped(&classifier, NULL));
    for (uint32_t round = 0; round < 20; round++) {
        struct aw_localization found;
        run(&world, &none, 100);
        assert_ok(aw_localize(&found, &world.window, &world.base, NULL, 0, NULL));
        aw_classifier_judge(&classifier, &found);
        assert_false(found.confident);
        aw_localization_deinit(&found);
    }
    struct aw_localization few;
    run(&world, &(struct fault){.own = {[PAY] = 500}}, AW_LOCALIZE_REQUESTS_MIN - 1);
    assert_ok(aw_localize(&few, &world.window, &world.base, NULL, 0, NULL));
    aw_classifier_judge(&classifier, &few);
    assert_false(few.confident); /* sure as it looks */
    aw_localization_deinit(&few);
    aw_window_reset(&world.window);
    assert_int_equal(aw_localize(&few, &world.window, &world.base, NULL, 0, NULL), AW_ERR_NODATA);
    tear_down(&world);
}

static void shares_of_covariance_sum_to_one(void **state)
{
    struct world world;
    struct aw_localization found;
    double sum = 0;
    (void)state;
    set_up(&world);
    run(&world, &(struct fault){.own = {[PAY] = 40, [STOCK] = 5}, .half = true}, 200);
    assert_ok(aw_localize(&found, &world.window, NULL, NULL, 0, NULL));
    for (uint32_t i = 0; i < found.count; i++) {
        sum += found.culprits[i].feature[AW_FEATURE_COVARIANCE];
        assert_true(found.culprits[i].excess_ns == 0);
    }
    assert_close(sum, 1, 0.02); /* shares below 0 are cut */
    assert_ok(aw_localize_paper(&found, &world.window));
    for (uint32_t i = 0; i < found.count; i++)
        assert_true(fabs(found.culprits[i].paper[AW_PAPER_RELATIVE]) <= 1.000001);
    aw_localization_deinit(&found);
    tear_down(&world);
}

static void the_typical_value_is_the_winsorised_mean(void **state)
{
    struct aw_rng rng;
    (void)state;
    aw_rng_init(&rng, 9, 0);
    for (uint32_t round = 0; round < 500; round++) {
        double all[64], sum = 0;
        const uint32_t zeros = aw_rng_below(&rng, 20), count = 1 + aw_rng_below(&rng, 40);
        for (uint32_t i = 0; i < zeros + count; i++)
            all[i] = i < zeros ? 0 : aw_rng_exponential(&rng, 10);
        aw_stats_sort(all, zeros + count);
        const double cap = aw_stats_quantile(all, zeros + count, AW_TYPICAL_QUANTILE);
        for (uint32_t i = 0; i < zeros + count; i++)
            sum += all[i] < cap ? all[i] : cap;
        assert_close(aw_typical(all + zeros, count, zeros), sum / (zeros + count), 1e-12);
    }
}

static void a_service_that_uses_its_limit_stands_out(void **state)
{
    static const char head[] = "Time,TimeStamp,PodName,CpuUsage(m),CpuUsageRate(%)\n";
    struct aw_names table;
    struct aw_metrics metrics = {0};
    struct aw_evidence evidence[8];
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", head);
    (void)state;
    for (int minute = 0; minute < 40; minute++) {
        const bool fault = minute >= 35, other = minute >= 20 && minute < 30;
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            "x,%d,orders-6f6cfc45b-h5m2n,%d,%d\nx,%d,users-6f6cfc45b-h5m2n,%d,%d\n",
            60 * minute + 9, fault ? 500 : 5 + minute % 3, fault ? 100 : 1, 60 * minute + 9,
            other ? 400 : 10, other ? 80 : 2);
    }
    assert_ok(aw_names_init(&table, NULL));
    assert_ok(aw_metrics_read(&metrics, &table, "pods", text, used, NULL));
    struct aw_diag diag = {0};
    assert_int_equal(aw_metrics_read(&metrics, &table, "bad", "a,b\n1,2\n", 8, &diag),
                     AW_ERR_FORMAT);
    assert_string_equal(diag.key, "TimeStamp");
    aw_metrics_join(&metrics);
    const struct aw_minutes faulty[] = {{20, 29}, {35, 37}};
    assert_int_equal(
        aw_metrics_evidence(&metrics, (struct aw_minutes){35, 37}, faulty, 2, evidence, 8), 2);
    const uint32_t orders = evidence[0].service == aw_names_find(&table, "orders") ? 0 : 1;
    assert_close(evidence[orders].cpu_use, 1, 1e-9);
    assert_close(evidence[orders].cpu_rise, 0.99, 1e-9);
    assert_true(evidence[orders].cpu_z > 100);
    assert_close(evidence[!orders].cpu_rise, 0, 1e-9); /* a fault of before is no history */
    /* a figure is of the minute before its time; but not where another fault begins */
    assert_int_equal(
        aw_metrics_evidence(&metrics, (struct aw_minutes){33, 34}, faulty, 1, evidence, 8), 2);
    assert_close(evidence[orders].cpu_use, 1, 1e-9);
    assert_int_equal(
        aw_metrics_evidence(&metrics, (struct aw_minutes){33, 34}, faulty, 2, evidence, 8), 2);
    assert_close(evidence[orders].cpu_use, 0.01, 1e-9);
    aw_metrics_deinit(&metrics);
    aw_names_deinit(&table);
}

static void a_pod_that_is_scraped_twice_counts_once(void **state)
{
    struct aw_names table;
    struct aw_metrics metrics = {0};
    struct aw_evidence evidence[2];
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "CpuUsage(m),PodName,TimeStamp\n");
    (void)state;
    for (int minute = 0; minute < 20; minute++) {
        for (int pod = 0; pod < 2; pod++) {
            /* in milliseconds, and of some minutes two rows */
            for (int again = 0; again < 1 + (minute * 7 % 3 == 0); again++)
                used += (size_t)snprintf(text + used, sizeof text - used, "%d,db-%d,%lld\n",
                                         minute >= 18 ? 90 : 40 + minute % 2, pod,
                                         1700000000000LL + 60000LL * minute + 20000 * again);
        }
    }
    assert_ok(aw_names_init(&table, NULL));
    assert_ok(aw_metrics_read(&metrics, &table, "pods", text, used, NULL));
    /* a file that overlaps says of each pod what is known already */
    assert_ok(aw_metrics_read(&metrics, &table, "pods", text, used, NULL));
    aw_metrics_join(&metrics);
    const int64_t zero = 1700000000 / 60;
    assert_int_equal(aw_metrics_evidence(&metrics, (struct aw_minutes){zero + 18, zero + 19}, NULL,
                                         0, evidence, 2),
                     1);
    assert_string_equal(aw_names_text(&table, evidence[0].service), "db");
    assert_true(isnan(evidence[0].cpu_use));
    assert_close(evidence[0].cpu_z, (180 - 81) / 2.0, 1.5); /* two pods; 80 or 82 before */
    aw_metrics_deinit(&metrics);
    aw_names_deinit(&table);
}

static void pods_are_of_services(void **state)
{
    static const struct {
        const char *pod, *form, *parts;
    } of[] = {
        {"orders-6f6cfc45b-h5m2n", "orders", "orders"},
        {"ts-basic-service-5dc8d4f9fd-46997", "ts-basic-service", "ts-basic-service"},
        {"redis-cart-3823415956-x0p1q", "redis-cart", "redis-cart"},
        {"front-v2-7d9f8-a1b2c", "front-v2", "front-v2"},
        {"carts-db-0", "carts-db", "carts"},
        {"agent-h5m2n", "agent", "agent-h5m2n"},
        {"ts-auth-service", "ts-auth-service", "ts"},
        {"orders-abc-def", "orders-abc-def", "orders"},
        {"orders", "orders", "orders"},
        {"", "", ""},
        {"--", "--", "--"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t len = strlen(of[i].pod);
        assert_int_equal(aw_span_pod_service(of[i].pod, len, false), strlen(of[i].form));
        assert_int_equal(aw_span_pod_service(of[i].pod, len, true), strlen(of[i].parts));
    }
}

static void what_was_learned_is_written_and_read(void **state)
{
    struct aw_classifier learned, back;
    struct aw_rng rng;
    char *text = NULL;
    size_t size = 0;
    (void)state;
    aw_rng_init(&rng, 3, 0);
    aw_classifier_init(&learned, AW_FEATURES_OURS, 7);
    for (uint32_t i = 0; i < 4000; i++) {
        struct aw_culprit culprit = {0};
        for (uint32_t k = 0; k < AW_FEATURES; k++)
            culprit.feature[k] = aw_rng_double(&rng);
        aw_classifier_learn(&learned, &culprit, culprit.feature[0] + culprit.feature[3] > 1, 1);
    }
    aw_classifier_finish(&learned);
    learned.threshold = 0.25;
    FILE *out = open_memstream(&text, &size);
    assert_ok(aw_classifier_write(&learned, out));
    fclose(out);
    assert_ok(aw_classifier_read(&back, "text", text, size, NULL));
    uint32_t right = 0;
    for (uint32_t i = 0; i < 500; i++) {
        struct aw_culprit culprit = {0};
        for (uint32_t k = 0; k < AW_FEATURES; k++)
            culprit.feature[k] = aw_rng_double(&rng);
        const double score = aw_classifier_score(&back, &culprit);
        assert_true(score == aw_classifier_score(&learned, &culprit));
        right += (score > 0) == (culprit.feature[0] + culprit.feature[3] > 1);
    }
    assert_true(right > 450);
    static const struct {
        const char *text, *key;
    } bad[] = {{"{}", "kind"},
               {"{\"kind\":\"aware trace localizer\"}", "features"},
               {"{\"kind\":\"aware trace localizer\",\"features\":\"ours\",\"seed\":1,"
                "\"threshold\":0,\"weights\":[1]}",
                "weights"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct aw_diag diag = {0};
        assert_int_equal(aw_classifier_read(&back, "bad", bad[i].text, strlen(bad[i].text), &diag),
                         AW_ERR_FORMAT);
        assert_string_equal(diag.key, bad[i].key);
    }
    free(text);
}

AW_TEST_GROUP("trace-localize")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_found_where_they_were_made),
        cmocka_unit_test(where_nothing_is_wrong_nobody_is_named),
        cmocka_unit_test(shares_of_covariance_sum_to_one),
        cmocka_unit_test(the_typical_value_is_the_winsorised_mean),
        cmocka_unit_test(a_service_that_uses_its_limit_stands_out),
        cmocka_unit_test(a_pod_that_is_scraped_twice_counts_once),
        cmocka_unit_test(pods_are_of_services),
        cmocka_unit_test(what_was_learned_is_written_and_read),
    };
    return cmocka_run_group_tests_name("trace-localize", tests, NULL, NULL);
}
