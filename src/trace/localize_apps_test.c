/*
 * localize_apps_test.c - applications drawn at random, none of which was ever learned from: how
 * often the culprit is found, and how often one is named where there is none.
 *
 *     build/test-trace trace-localize-apps 200     so many applications of each sort, with a table
 *
 * 8 to 27 services that call each other in sequence or at once, with probabilities; work that is
 * lognormal and now and then takes 30 to 200 ms longer; 60 requests to compare with, 150 to judge.
 */
#include <math.h>
#include <stdlib.h>

#include "base/testing.h"
#include "trace/analysis.h"
#include "trace/classifier.h"
#include "trace/trace_testing.h"

#define SERVICES_MAX 28u
#define CALLS_MAX    8u
#define DEPTH_MAX    6u
#define BASE         60u
#define WINDOW       150u
#define EFFECT       1.15 /* of the mean latency: a fault that does less is none */

enum kind { NONE, CPU, CPU_UNMEASURED, ANSWERS, PACKETS, WORK, KINDS };
static const char *const kinds[KINDS] = {"nothing is wrong",     "CPU, use known",
                                         "CPU, use not known",   "network, answers delayed",
                                         "network, all delayed", "more work in every request"};

struct service {
    double work_ms, spread, gap_ms;
    uint32_t calls, callee[CALLS_MAX];
    double chance[CALLS_MAX];
    bool at_once;
    uint32_t name, pod;
};

struct world {
    struct service services[SERVICES_MAX];
    uint32_t count;
    double tail; /* chance of much more work */
    enum kind kind;
    uint32_t victim;
    double ms; /* of the fault */
    struct aw_rng rng;
    struct aw_spans spans;
    struct aw_analysis analysis;
    struct aw_window window;
    uint64_t trace, id;
};

static double lognormal(struct world *world, double median, double spread)
{
    return median * exp(spread * aw_rng_normal(&world->rng));
}

static double noisy(struct world *world, double ms)
{
    return ms * (1 + 0.1 * aw_rng_normal(&world->rng));
}

static bool is_cpu(const struct world *world)
{
    return world->kind == CPU || world->kind == CPU_UNMEASURED;
}

/* Who is short of CPU waits for his turn now and then: the CFS period. */
static double turn(struct world *world, uint32_t service)
{
    return is_cpu(world) && service == world->victim && aw_rng_below(&world->rng, 2)
               ? aw_rng_uniform(&world->rng, 0, world->ms)
               : 0;
}

static void add(struct world *world, uint32_t service, uint64_t id, uint64_t parent, double start,
                double end)
{
    struct aw_span *span = aw_spans_push(&world->spans);
    AW_ASSERT(span);
    span->trace_hi = 1;
    span->trace_lo = world->trace;
    span->id = id;
    span->parent = parent;
    span->service = span->operation = world->services[service].name;
    span->instance = world->services[service].pod;
    span->start_ns = T0 + (int64_t)(start * (double)MS);
    span->end_ns = T0 + (int64_t)(end * (double)MS);
}

static double serve(struct world *world, uint32_t service, uint64_t parent, double at,
                    uint32_t depth);

static double call(struct world *world, uint32_t from, uint32_t to, uint64_t parent, double at,
                   uint32_t depth)
{
    const uint64_t client = ++world->id;
    const bool delays = world->kind == PACKETS && from == world->victim;
    const bool answers = (world->kind == PACKETS || world->kind == ANSWERS) && to == world->victim;
    double now = at + lognormal(world, world->services[to].gap_ms, 0.5) + turn(world, to);
    now += delays ? noisy(world, world->ms) : 0;
    now = serve(world, to, client, now, depth);
    now += lognormal(world, world->services[to].gap_ms, 0.5) + turn(world, from);
    now += answers ? noisy(world, world->ms) : 0;
    add(world, from, client, parent, at, now);
    return now;
}

static double serve(struct world *world, uint32_t index, uint64_t parent, double at, uint32_t depth)
{
    const struct service *service = &world->services[index];
    const uint64_t me = ++world->id;
    double work = lognormal(world, service->work_ms, service->spread);
    work += aw_rng_double(&world->rng) < world->tail ? aw_rng_uniform(&world->rng, 30, 200) : 0;
    if (is_cpu(world) && index == world->victim)
        work = 2 * work + turn(world, index) + turn(world, index);
    work += world->kind == WORK && index == world->victim ? world->ms : 0;
    double now = at + 0.6 * work, last = now;
    for (uint32_t i = 0; depth < DEPTH_MAX && i < service->calls; i++) {
        if (aw_rng_double(&world->rng) > service->chance[i])
            continue;
        const double end = call(world, index, service->callee[i], me, now, depth + 1);
        last = end > last ? end : last;
        now = service->at_once ? now : end;
    }
    now = (last > now ? last : now) + 0.4 * work;
    add(world, index, me, parent, at, now);
    return now;
}

static void add_call(struct world *world, uint32_t from, uint32_t to)
{
    struct service *service = &world->services[from];
    if (service->calls == CALLS_MAX)
        return;
    service->chance[service->calls] =
        aw_rng_below(&world->rng, 2) ? 1 : aw_rng_uniform(&world->rng, 0.3, 1);
    service->callee[service->calls++] = to;
}

static void draw_app(struct world *world)
{
    world->count = 8 + aw_rng_below(&world->rng, 20);
    world->tail = aw_rng_uniform(&world->rng, 0, 0.03);
    for (uint32_t i = 0; i < world->count; i++) {
        char text[64];
        snprintf(text, sizeof text, "service%u", i);
        world->services[i] = (struct service){
            .work_ms = lognormal(world, 4, 0.7),
            .spread = aw_rng_uniform(&world->rng, 0.2, 0.7),
            .gap_ms = aw_rng_uniform(&world->rng, 0.5, 2),
            .at_once = aw_rng_below(&world->rng, 3) == 0,
            .name = aw_names_add(&world->spans.names, text, strlen(text)),
        };
        snprintf(text, sizeof text, "service%u-0", i);
        world->services[i].pod = aw_names_add(&world->spans.names, text, strlen(text));
        if (i > 0)
            add_call(world, aw_rng_below(&world->rng, i < 6 ? 1 + i / 3 : i), i);
    }
    for (uint32_t i = 0; i < world->count / 3; i++) {
        const uint32_t to = 2 + aw_rng_below(&world->rng, world->count - 2);
        add_call(world, aw_rng_below(&world->rng, to), to);
    }
}

static bool take(void *ctx, const struct aw_request *request)
{
    return aw_window_add(ctx, request);
}

/* The mean latency, in milliseconds. */
static double live(struct world *world, uint32_t requests)
{
    double sum = 0;
    aw_spans_reset(&world->spans);
    aw_window_reset(&world->window);
    for (uint32_t i = 0; i < requests; i++) {
        world->id = 1000000 * ++world->trace;
        serve(world, 0, 0, 400.0 * i, 0);
    }
    aw_analysis_learn(&world->analysis, &world->spans);
    aw_analysis_each(&world->analysis, &world->spans, take, &world->window);
    assert_int_equal(world->window.request_count, requests);
    for (uint32_t i = 0; i < requests; i++)
        sum += (double)world->window.requests[i].latency_ns / (double)MS / requests;
    return sum;
}

struct tally {
    uint32_t cases, first, three, sure, sure_right;
};

static void judge(struct world *world, const struct aw_span_profile *base,
                  const struct aw_classifier *classifier, struct tally *tally)
{
    struct aw_evidence evidence[SERVICES_MAX];
    struct aw_localization found;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < world->count; i++) {
        const bool busy = world->kind == CPU && i == world->victim;
        evidence[i] = (struct aw_evidence){
            .service = world->services[i].name,
            .cpu_use = busy ? 0.99 : 0.1,
            .cpu_rise = busy ? 0.9 : aw_rng_uniform(&world->rng, 0, 0.1),
            .cpu_z = busy ? 150 : aw_rng_uniform(&world->rng, 0, 20),
            .throttled = (double)NAN,
        };
    }
    assert_ok(aw_localize(&found, &world->window, base, evidence,
                          world->kind == CPU_UNMEASURED ? 0 : world->count, NULL));
    aw_classifier_judge(classifier, &found);
    while (rank < found.count &&
           found.culprits[rank].service != world->services[world->victim].name)
        rank++;
    tally->cases++;
    tally->first += rank == 0;
    tally->three += rank < 3;
    tally->sure += found.confident;
    tally->sure_right += found.confident && rank == 0;
    aw_localization_deinit(&found);
}

static void one_app(uint32_t seed, enum kind kind, double size,
                    const struct aw_classifier *classifier, struct tally *tally)
{
    struct world world = {0};
    struct aw_span_profile base;
    aw_rng_init(&world.rng, seed, kind);
    assert_ok(aw_spans_init(&world.spans, 1 << 20, NULL));
    assert_ok(aw_analysis_init(&world.analysis, NULL));
    assert_ok(aw_window_init(&world.window, &world.spans.names, NULL));
    draw_app(&world);
    const double before = live(&world, BASE);
    assert_ok(aw_profile_make(&base, &world.window, 0, 1, NULL));
    world.kind = kind;
    world.victim = aw_rng_below(&world.rng, world.count);
    world.ms = size * before;
    const double after = live(&world, WINDOW);
    if (kind == NONE || after > EFFECT * before)
        judge(&world, &base, classifier, tally);
    aw_profile_deinit(&base);
    aw_window_deinit(&world.window);
    aw_analysis_deinit(&world.analysis);
    aw_spans_deinit(&world.spans);
}

static uint32_t app_count = 30;

static void culprits_of_unknown_applications_are_found(void **state)
{
    static const double sizes[] = {0.15, 0.6, 3}; /* of the mean latency */
    struct aw_classifier classifier;
    (void)state;
    assert_ok(aw_classifier_shipped(&classifier, NULL));
    for (enum kind kind = NONE; kind < KINDS; kind++) {
        for (uint32_t size = 0; size < (kind == NONE ? 1u : 3u); size++) {
            struct tally tally = {0};
            for (uint32_t i = 0; i < app_count; i++)
                one_app(1000 + i, kind, sizes[size], &classifier, &tally);
            print_message("%-28s x %.2f: %u cases, first %.3f, among three %.3f, sure %.3f, of "
                          "these right %u of %u\n",
                          kinds[kind], kind == NONE ? 0 : sizes[size], tally.cases,
                          (double)tally.first / tally.cases, (double)tally.three / tally.cases,
                          (double)tally.sure / tally.cases, tally.sure_right, tally.sure);
            if (kind == NONE) {
                assert_true(tally.sure <= 0.05 * tally.cases);
                continue;
            }
            assert_true(tally.sure - tally.sure_right <= 0.05 * tally.cases);
            assert_true(tally.first >= (size ? 0.95 : 0.8) * tally.cases);
            assert_true(size < 2 || tally.sure >= 0.9 * tally.cases);
        }
    }
}

AW_TEST_GROUP("trace-localize-apps")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(culprits_of_unknown_applications_are_found),
    };
    if (argc > 1)
        app_count = (uint32_t)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests_name("trace-localize-apps", tests, NULL, NULL);
}
