/* Tests of the link: PCC-RL's events by a naive twin, traces by conservation, and what is exact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/testing.h"
#include "congestion/adaptive.h"
#include "congestion/episode.h"
#include "congestion/learn.h"

static struct aw_flow flow;
static struct aw_latency_histogram rtts;
static union {
    struct aw_adaptive adaptive;
    char bytes[AW_CONTROLLER_BYTES_MAX];
} self;

/* ---- PCC-RL's simulator as it is written there: a list of events, the earliest first ---- */

#define EVENTS_MAX 100000u

struct event {
    double time_s, latency_s;
    bool ack, lost;
    uint32_t hop;
};

struct twin {
    struct aw_link link;
    struct aw_rng rng;
    double now_s, rate, queue_s, queue_at_s;
    struct event event[EVENTS_MAX];
    uint32_t count;
    uint64_t sent, acked, lost;
    double rtt_sum;
};

static void push(struct twin *twin, struct event event)
{
    assert_true(twin->count < EVENTS_MAX);
    twin->event[twin->count++] = event;
}

static bool before(const struct event *a, const struct event *b)
{
    if (a->time_s != b->time_s)
        return a->time_s < b->time_s;
    if (a->ack != b->ack)
        return a->ack; /* 'A' sorts before 'S' */
    return a->hop < b->hop;
}

static struct event pop(struct twin *twin)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < twin->count; i++)
        best = before(&twin->event[i], &twin->event[best]) ? i : best;
    const struct event event = twin->event[best];
    twin->event[best] = twin->event[--twin->count];
    return event;
}

static double twin_queue(const struct twin *twin)
{
    return fmax(0, twin->queue_s - (twin->now_s - twin->queue_at_s));
}

static void twin_run(struct twin *twin, double dur_s)
{
    const double end_s = twin->now_s + dur_s;
    twin->sent = twin->acked = twin->lost = 0;
    twin->rtt_sum = 0;
    while (twin->now_s < end_s) {
        struct event event = pop(twin);
        twin->now_s = event.time_s;
        if (event.ack && event.hop == 2) {
            twin->lost += event.lost;
            twin->acked += !event.lost;
            twin->rtt_sum += event.lost ? 0 : event.latency_s;
            continue;
        }
        if (event.ack) { /* the way back: its queue is always empty */
            push(twin, (struct event){.time_s = event.time_s + twin->link.delay_s,
                                      .latency_s = event.latency_s + twin->link.delay_s,
                                      .ack = true,
                                      .lost = event.lost,
                                      .hop = 2});
            continue;
        }
        twin->sent++;
        push(twin, (struct event){.time_s = twin->now_s + 1.0 / twin->rate});
        const double latency_s = twin->link.delay_s + twin_queue(twin);
        bool lost = aw_rng_double(&twin->rng) < twin->link.loss;
        if (!lost) {
            twin->queue_s = twin_queue(twin);
            twin->queue_at_s = twin->now_s;
            lost = 1.0 / twin->link.rate + twin->queue_s > twin->link.queue / twin->link.rate;
            twin->queue_s += lost ? 0 : 1.0 / twin->link.rate;
        }
        push(twin, (struct event){.time_s = twin->now_s + latency_s,
                                  .latency_s = latency_s,
                                  .ack = true,
                                  .lost = lost,
                                  .hop = 1});
    }
}

static void every_interval_is_that_of_pcc_rl(void **state)
{
    (void)state;
    struct twin *twin = calloc(1, sizeof *twin);
    assert_non_null(twin);
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct aw_rng choose;
        aw_rng_init(&choose, seed, 9);
        *twin = (struct twin){.rate = 300};
        aw_original_link(seed, &twin->link);
        aw_rng_init(&twin->rng, seed, 0x6c696e6b);
        push(twin, (struct event){.time_s = 1.0 / twin->rate});
        aw_flow_reset(&flow, &twin->link, twin->rate, seed);
        int64_t acked = 0, lost = 0;
        double rtt_sum = 0;
        for (uint32_t step = 0; step < 40; step++) {
            const double dur_s = aw_rng_uniform(&choose, 0.02, 0.4);
            struct aw_monitor mi;
            aw_flow_run(&flow, dur_s, &mi);
            twin_run(twin, dur_s);
            assert_int_equal(mi.sent, twin->sent);
            assert_close(mi.end_s, twin->now_s, 1e-12);
            acked += (int64_t)mi.acked - (int64_t)twin->acked;
            lost += (int64_t)mi.lost - (int64_t)twin->lost;
            rtt_sum += mi.rtt_s * (double)mi.acked - twin->rtt_sum;
            /* a packet that is lost in a busy queue and the next one arrive at the same moment:
             * which of them is the last event of an interval hangs on the last bit there */
            assert_true(llabs(acked) <= 1 && acked + lost == 0);
            assert_true(acked || fabs(rtt_sum) < 1e-6);
            twin->rate = aw_rng_uniform(&choose, 40, 1000);
            aw_flow_rate(&flow, twin->rate);
        }
    }
    free(twin);
}

static void features_are_those_of_aurora(void **state)
{
    (void)state;
    double least = 0;
    float features[AW_AURORA_FEATURES];
    struct aw_monitor mi = {.start_s = 1,
                            .end_s = 1.5,
                            .sent = 100,
                            .acked = 51,
                            .rtt_s = 0.2,
                            .rtt_first_s = 0.19,
                            .rtt_second_s = 0.21};
    aw_monitor_features(&mi, &least, features);
    assert_close(features[0], 0.02 / 0.5, 1e-6);
    assert_close(features[1], 1, 1e-6);
    assert_close(features[2], 200.0 / 100.0, 1e-6); /* one packet less arrived */
    mi.rtt_s = 0.4;
    aw_monitor_features(&mi, &least, features);
    assert_close(features[1], 2, 1e-6);
    mi.acked = 0;
    mi.rtt_s = mi.rtt_first_s = mi.rtt_second_s = 0;
    aw_monitor_features(&mi, &least, features);
    assert_close(features[0], 0, 0);
    assert_close(features[2], 1, 0);
    assert_close(aw_monitor_reward(&mi), 10 * (0 - 1) / 0.5, 1e-9);
}

static void a_trace_serves_its_bandwidth_and_no_more(void **state)
{
    (void)state;
    struct aw_moving_link *moving = calloc(1, sizeof *moving);
    assert_non_null(moving);
    for (uint64_t seed = 0; seed < 8; seed++) {
        aw_moving_link_draw(moving, seed, 0);
        moving->link.loss = 0;
        struct aw_monitor mi;
        uint64_t acked = 0;
        /* far above: the queue is never empty, so every packet's service is used */
        aw_flow_reset(&flow, &moving->link, 4 * moving->link.rate + 100, seed);
        const double trip_s = 2 * moving->link.delay_s;
        for (double until_s = 1; until_s <= 60; until_s++) {
            aw_flow_run(&flow, until_s - aw_flow_time(&flow), &mi);
            acked += mi.acked;
            assert_true(mi.rtt_least_s >= trip_s);
            if (mi.busy_acks > 100) {
                double most = 0;
                for (double t = until_s - 3; t < until_s; t += 0.01)
                    most = fmax(most, t > 0 ? aw_bandwidth_at(&moving->trace, t) : 0);
                assert_true((double)mi.busy_acks / mi.busy_s < 1.001 * most + 1);
            }
        }
        /* two periods, but for what is on its way and the slots before the first packets */
        const double could = 2 * moving->served[AW_MOVING_POINTS];
        assert_true((double)acked <= could + 1);
        assert_true((double)acked > 0.95 * could - 2 * trip_s * moving->link.rate - 60);
    }
    free(moving);
}

/* The same link once as a constant and once as a trace of one rate: rates agree, and delays but for
 * a packet's own service, which PCC-RL does not count. */
static void a_flat_trace_is_the_constant_link(void **state)
{
    (void)state;
    const double time_s[2] = {0, 15}, rate[2] = {200, 200}, served[3] = {0, 3000, 6000};
    const struct aw_bandwidth trace = {
        .count = 2, .period_s = 30, .time_s = time_s, .rate = rate, .served = served};
    struct aw_link link = {.rate = 200, .delay_s = 0.05, .queue = 50};
    for (double send = 100; send < 500; send += 130) {
        struct aw_monitor flat, traced;
        link.trace = NULL;
        aw_flow_reset(&flow, &link, send, 3);
        aw_flow_run(&flow, 20, &flat);
        aw_flow_run(&flow, 20, &flat);
        link.trace = &trace;
        aw_flow_reset(&flow, &link, send, 3);
        aw_flow_run(&flow, 20, &traced);
        aw_flow_run(&flow, 20, &traced);
        assert_close((double)flat.acked, (double)traced.acked, 0.002);
        assert_true(fabs(traced.rtt_s - flat.rtt_s - 1.0 / 200) < 2.0 / 200);
    }
}

static void a_busy_link_says_its_bandwidth(void **state)
{
    (void)state;
    for (uint32_t box = 0; box < AW_BOX_COUNT; box += 31) {
        struct aw_link link;
        struct aw_monitor mi;
        aw_box_link(box, 5, &link);
        if (link.queue < 20)
            continue;
        aw_flow_reset(&flow, &link, 1.5 * link.rate / (1 - link.loss), 1);
        aw_flow_run(&flow, 2 * link.delay_s + 60 / link.rate, &mi);
        aw_flow_run(&flow, 20 / link.rate, &mi);
        assert_true(mi.busy_acks >= 3);
        assert_close((double)mi.busy_acks / mi.busy_s, link.rate, 1e-6);
    }
}

static void the_best_constant_rate_is_just_below_the_bandwidth(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        struct aw_episode_plan plan = {.steps = 400, .seed = seed};
        struct aw_episode right, low, high;
        aw_original_link(seed, &plan.link);
        const double best = 0.995 * plan.link.rate / (1 - plan.link.loss);
        plan.start_rate = best;
        aw_episode_run(&plan, &aw_hold_start, &flow, &self, &rtts, NULL, NULL, &right);
        plan.start_rate = 0.9 * best;
        aw_episode_run(&plan, &aw_hold_start, &flow, &self, &rtts, NULL, NULL, &low);
        plan.start_rate = 1.1 * best;
        aw_episode_run(&plan, &aw_hold_start, &flow, &self, &rtts, NULL, NULL, &high);
        assert_true(right.regret < low.regret && right.regret < high.regret);
        assert_true(right.regret < 0.1);
    }
}

static void controllers_stay_within_limits_and_repeat(void **state)
{
    (void)state;
    const struct aw_controller *all[] = {&aw_bbr_like,    &aw_cubic_like,         &aw_vivace,
                                         &aw_aimd,        &aw_hold_start,         &aw_hold_best,
                                         &aw_rate_oracle, &aw_adaptive_controller};
    struct aw_adaptive_policy policy = aw_adaptive_first();
    for (uint32_t c = 0; c < sizeof all / sizeof *all; c++) {
        assert_true(all[c]->bytes <= AW_CONTROLLER_BYTES_MAX);
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct aw_episode_plan plan = {.steps = 60, .seed = seed};
            struct aw_episode first, again;
            aw_original_link(seed, &plan.link);
            self.adaptive = (struct aw_adaptive){.policy = &policy};
            aw_episode_run(&plan, all[c], &flow, &self, &rtts, NULL, NULL, &first);
            self.adaptive = (struct aw_adaptive){.policy = &policy};
            aw_episode_run(&plan, all[c], &flow, &self, &rtts, NULL, NULL, &again);
            assert_true(first.reward_step == again.reward_step && first.packets == again.packets);
            assert_true(isfinite(first.regret) && first.utilisation <= 1.05);
        }
    }
}

static void silence_halves_the_rate(void **state)
{
    (void)state;
    struct aw_adaptive_policy policy = aw_adaptive_first();
    struct aw_adaptive adaptive = {.policy = &policy};
    const struct aw_connection connection = {.rate = 1000, .rate_min = 2, .rate_max = 20000};
    aw_adaptive_reset(&adaptive, &connection);
    double rate = 1000;
    for (uint32_t i = 0; i < 100; i++) {
        const struct aw_monitor silent = {.start_s = i * 0.1,
                                          .end_s = (i + 1) * 0.1,
                                          .rate = rate,
                                          .sent = 10,
                                          .rtt_least_s = 0.05};
        rate = aw_adaptive_next(&adaptive, &silent);
    }
    assert_true(rate <= 1000 / 8.0);
}

static void it_makes_five_million_packets_a_second(void **state)
{
    (void)state;
    const struct aw_link link = {.rate = 5000, .delay_s = 0.1, .loss = 0.01, .queue = 1000};
    struct aw_monitor mi;
    aw_flow_reset(&flow, &link, 5200, 1);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    while (aw_flow_packets(&flow) < 2000000)
        aw_flow_run(&flow, 0.1, &mi);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const double cpu_s =
        (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    print_message("%.1f million packets per second of CPU\n", 2.0 / cpu_s);
#ifdef __OPTIMIZE__
    assert_true(2.0 / cpu_s > 5);
#endif
}

AW_TEST_GROUP("congestion-link")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_interval_is_that_of_pcc_rl),
        cmocka_unit_test(features_are_those_of_aurora),
        cmocka_unit_test(a_trace_serves_its_bandwidth_and_no_more),
        cmocka_unit_test(a_flat_trace_is_the_constant_link),
        cmocka_unit_test(a_busy_link_says_its_bandwidth),
        cmocka_unit_test(the_best_constant_rate_is_just_below_the_bandwidth),
        cmocka_unit_test(controllers_stay_within_limits_and_repeat),
        cmocka_unit_test(silence_halves_the_rate),
        cmocka_unit_test(it_makes_five_million_packets_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
