/* Tests of the link for real packets and of the sender, in virtual time: no sockets here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/testing.h"
#include "congestion/episode.h"
#include "congestion/learn.h"
#include "congestion/relay.h"
#include "congestion/wire.h"
#include "congestion/wire_study.h"

static const unsigned char packet[1500];

static void a_packet_waits_for_those_before_it_and_is_served_by_its_bytes(void **state)
{
    (void)state;
    const struct aw_link link = {.rate = 100, .delay_s = 0.05, .queue = 2};
    struct aw_relay relay;
    double due_s;
    assert_ok(aw_relay_open(&relay, &link, 1, NULL, NULL));
    assert_true(isinf(aw_relay_due(&relay)));
    assert_int_equal(aw_relay_put(&relay, packet, 1500, 7, 1, &due_s), AW_RELAY_TAKEN);
    assert_close(due_s, 1 + 0.01 + 0.05, 1e-9);
    assert_int_equal(aw_relay_put(&relay, packet, 750, 8, 1, &due_s), AW_RELAY_TAKEN);
    assert_close(due_s, 1 + 0.015 + 0.05, 1e-9); /* half a packet, half the time */
    assert_int_equal(aw_relay_put(&relay, packet, 1500, 9, 1, &due_s), AW_RELAY_TAKEN);
    assert_int_equal(aw_relay_put(&relay, packet, 1500, 9, 1, &due_s), AW_RELAY_DROPPED);
    assert_int_equal(aw_relay_put(&relay, packet, 1500, 9, 1.02, &due_s), AW_RELAY_TAKEN);
    assert_null(aw_relay_take(&relay, 1.0599));
    const struct aw_relay_slot *slot = aw_relay_take(&relay, 1.0601);
    assert_non_null(slot);
    assert_int_equal(slot->tag, 7);
    assert_int_equal(slot->bytes, 1500);
    assert_null(aw_relay_take(&relay, 1.0601));
    assert_int_equal(aw_relay_take(&relay, 2)->tag, 8);
    aw_relay_close(&relay);
}

static void a_way_back_is_a_delay_alone(void **state)
{
    (void)state;
    const struct aw_link link = {.rate = 1, .delay_s = 0.05};
    struct aw_relay relay;
    double due_s;
    assert_ok(aw_relay_open(&relay, &link, 1, NULL, NULL));
    for (uint32_t i = 0; i < AW_RELAY_PACKETS_MAX; i++) {
        assert_int_equal(aw_relay_put(&relay, packet, 60, 0, 3, &due_s), AW_RELAY_TAKEN);
        assert_close(due_s, 3.05, 1e-12);
    }
    /* and it has an end */
    assert_int_equal(aw_relay_put(&relay, packet, 60, 0, 3, &due_s), AW_RELAY_DROPPED);
    aw_relay_close(&relay);
}

static void a_recorded_bandwidth_is_followed(void **state)
{
    (void)state;
    static const double time_s[] = {0, 1}, rate[] = {10, 100}, served[] = {0, 10, 110};
    const struct aw_bandwidth trace = {
        .count = 2, .period_s = 2, .time_s = time_s, .rate = rate, .served = served};
    const struct aw_link link = {.queue = 1000, .trace = &trace};
    struct aw_relay relay;
    double due_s = 0;
    for (double at_s = 0; at_s < 7; at_s += 0.01)
        assert_close(aw_bandwidth_when(&trace, aw_bandwidth_served(&trace, at_s)), at_s, 1e-9);
    assert_close(aw_link_capacity(&link, 0.5, 2.5), 5 + 100 + 5, 1e-9);
    assert_ok(aw_relay_open(&relay, &link, 1, NULL, NULL));
    for (uint32_t i = 0; i < 120; i++)
        assert_int_equal(aw_relay_put(&relay, packet, 1500, 0, 0, &due_s), AW_RELAY_TAKEN);
    assert_close(due_s, 3, 1e-9); /* 110 in a period of two seconds, 10 in the next second */
    aw_relay_close(&relay);
}

/* A sender, the link, and acks that come back after the delay, moment by moment. */
struct run {
    struct aw_wire wire;
    struct aw_relay forward, back;
    double now_s, mute_s; /* from then on nothing comes back */
    uint64_t sent, arrived;
    double arrived_late; /* in the second half */
    double offset_s;     /* of the receiver's clock */
};

static void run_until(struct run *run, double until_s)
{
    const double half_s = run->now_s + 0.5 * (until_s - run->now_s);
    double due_s;
    while (run->now_s < until_s) {
        const struct aw_relay_slot *slot;
        while ((slot = aw_relay_take(&run->forward, run->now_s))) {
            double ack[2]; /* number, arrival */
            memcpy(ack, slot->data, sizeof ack[0]);
            ack[1] = slot->due_s + run->offset_s;
            run->arrived++;
            run->arrived_late += run->now_s > half_s;
            if (run->now_s < run->mute_s)
                (void)aw_relay_put(&run->back, ack, sizeof ack, 0, run->now_s, &due_s);
        }
        while ((slot = aw_relay_take(&run->back, run->now_s))) {
            double ack[2];
            memcpy(ack, slot->data, sizeof ack);
            aw_wire_acked(&run->wire, (uint64_t)ack[0], ack[1], run->now_s);
        }
        aw_wire_look(&run->wire, run->now_s);
        while (aw_wire_due(&run->wire) <= run->now_s) {
            unsigned char data[1500] = {0};
            const double number = (double)aw_wire_sent(&run->wire, run->now_s);
            memcpy(data, &number, sizeof number);
            (void)aw_relay_put(&run->forward, data, sizeof data, 0, run->now_s, &due_s);
            run->sent++;
        }
        run->now_s = fmin(fmax(fmin(fmin(aw_relay_due(&run->forward), aw_relay_due(&run->back)),
                                    aw_wire_wake(&run->wire)),
                               run->now_s + 1e-6),
                          until_s);
    }
}

static void run_open(struct run *run, const struct aw_link *link,
                     const struct aw_controller *controller, void *self)
{
    const struct aw_link back = {.delay_s = link->delay_s};
    *run = (struct run){.mute_s = INFINITY, .offset_s = 1e6};
    assert_ok(aw_relay_open(&run->forward, link, 1, NULL, NULL));
    assert_ok(aw_relay_open(&run->back, &back, 1, NULL, NULL));
    assert_ok(aw_wire_init(&run->wire, controller, self, AW_RATE_MAX, 0, NULL, NULL));
}

static void run_close(struct run *run)
{
    aw_relay_close(&run->forward);
    aw_relay_close(&run->back);
    aw_wire_deinit(&run->wire);
}

static struct run run;

static void a_sender_finds_the_bandwidth_as_in_the_simulator(void **state)
{
    static const struct aw_controller *const who[] = {&aw_adaptive_controller, &aw_bbr_like};
    static _Alignas(16) char self[AW_CONTROLLER_BYTES_MAX];
    static struct aw_flow flow;
    static struct aw_latency_histogram rtts;
    struct aw_adaptive_policy policy;
    (void)state;
    assert_ok(aw_adaptive_shipped(&policy, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_link link = {.rate = 1000, .delay_s = 0.02, .queue = 80, .loss = 0.01};
        const struct aw_episode_plan plan = {.link = link, .seconds = 20, .seed = 1};
        struct aw_episode episode;
        ((struct aw_adaptive *)(void *)self)->policy = &policy;
        run_open(&run, &link, who[i], self);
        run_until(&run, 20);
        const double used = run.arrived_late / 10 / link.rate;
        run_close(&run);
        memset(self, 0, sizeof self);
        ((struct aw_adaptive *)(void *)self)->policy = &policy;
        aw_episode_run(&plan, who[i], &flow, self, &rtts, NULL, NULL, &episode);
        assert_true(used > 0.9);
        assert_true(fabs(used - episode.utilisation) < 0.06);
    }
}

struct fixed {
    double rate;
    uint32_t seen;
    struct aw_monitor last;
};

static void fixed_reset(void *self, const struct aw_connection *connection)
{
    (void)self;
    (void)connection;
}

static double fixed_next(void *self, const struct aw_monitor *mi)
{
    struct fixed *fixed = self;
    fixed->last = *mi;
    fixed->seen++;
    return fixed->rate;
}

static const struct aw_controller fixed_controller = {
    .name = "fixed", .bytes = sizeof(struct fixed), .reset = fixed_reset, .next = fixed_next};

static void an_interval_says_what_was_lost_and_how_long_a_round_trip_was(void **state)
{
    (void)state;
    struct fixed fixed = {.rate = 500};
    struct aw_link link = {.rate = 1000, .delay_s = 0.03, .queue = 50, .loss = 0.2};
    run_open(&run, &link, &fixed_controller, &fixed);
    double lost = 0, known = 0;
    uint32_t seen = 0;
    for (double at_s = 0.005; at_s < 10; at_s += 0.005) {
        run_until(&run, at_s);
        if (fixed.seen == seen)
            continue;
        seen = fixed.seen;
        lost += (double)fixed.last.lost;
        known += (double)(fixed.last.lost + fixed.last.acked);
    }
    assert_close(lost / known, 0.2, 0.03);
    assert_close(fixed.last.rtt_least_s, 0.061, 1e-4); /* two delays, and its own service */
    assert_close(fixed.last.rtt_s, 0.061, 1e-3);
    assert_close(aw_monitor_delivery(&fixed.last), 400, 120);
    run_close(&run);
}

static void a_busy_link_is_measured_whatever_is_sent(void **state)
{
    (void)state;
    struct fixed fixed = {.rate = 1300};
    const struct aw_link link = {.rate = 1000, .delay_s = 0.03, .queue = 4000};
    run_open(&run, &link, &fixed_controller, &fixed);
    run_until(&run, 5);
    assert_true(fixed.last.busy_acks > 20);
    assert_close((double)fixed.last.busy_acks / fixed.last.busy_s, 1000, 10);
    run_close(&run);
}

static void silence_halves_the_rate_whatever_the_controller_says(void **state)
{
    (void)state;
    struct fixed fixed = {.rate = 1000};
    const struct aw_link link = {.rate = 1000, .delay_s = 0.02, .queue = 100};
    run_open(&run, &link, &fixed_controller, &fixed);
    run_until(&run, 2);
    assert_int_equal(run.wire.halvings, 0);
    assert_true(run.wire.rate > 999);
    run.mute_s = 2;
    run_until(&run, 4);
    assert_true(run.wire.halvings >= 5);
    assert_true(run.wire.rate < 50);
    assert_true(run.wire.rate >= AW_RATE_MIN);
    run.mute_s = INFINITY; /* it is heard again: the controller decides */
    run_until(&run, 8);
    assert_true(run.wire.rate > 999);
    run_close(&run);
}

static void a_sender_starts_with_one_packet_and_asks_again_after_a_second(void **state)
{
    (void)state;
    struct fixed fixed = {.rate = 1000};
    const struct aw_link link = {.rate = 1000, .delay_s = 0.02, .queue = 100};
    run_open(&run, &link, &fixed_controller, &fixed);
    run.mute_s = 0;
    run_until(&run, 3.5);
    assert_int_equal(run.sent, 4);
    assert_false(run.wire.met);
    run_close(&run);
}

static void acks_of_packets_that_were_never_sent_change_nothing(void **state)
{
    (void)state;
    struct fixed fixed = {.rate = 1000};
    struct aw_wire wire;
    assert_ok(aw_wire_init(&wire, &fixed_controller, &fixed, AW_RATE_MAX, 0, NULL, NULL));
    aw_wire_acked(&wire, 0, 1, 1);
    aw_wire_acked(&wire, UINT64_MAX, 1, 1);
    assert_false(wire.met);
    assert_int_equal(aw_wire_sent(&wire, 1), 0);
    aw_wire_acked(&wire, 1, 1, 1);
    assert_false(wire.met);
    aw_wire_acked(&wire, 0, 1.02, 1.04);
    assert_true(wire.met);
    assert_close(wire.rate, AW_START_PACKETS / 0.04, 1e-6);
    aw_wire_acked(&wire, 0, 1.02, 1.05); /* twice */
    assert_int_equal(wire.mi.acked, 0);
    aw_wire_deinit(&wire);
}

static void jains_index_is_one_for_equal_shares(void **state)
{
    (void)state;
    assert_close(aw_jain((double[]){3, 3, 3}, 3), 1, 1e-12);
    assert_close(aw_jain((double[]){1, 0}, 2), 0.5, 1e-12);
    assert_close(aw_jain((double[]){3, 1}, 2), 0.8, 1e-12);
    assert_true(isnan(aw_jain((double[]){0, 0}, 2)));
}

AW_TEST_GROUP("congestion-wire")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_waits_for_those_before_it_and_is_served_by_its_bytes),
        cmocka_unit_test(a_way_back_is_a_delay_alone),
        cmocka_unit_test(a_recorded_bandwidth_is_followed),
        cmocka_unit_test(a_sender_finds_the_bandwidth_as_in_the_simulator),
        cmocka_unit_test(an_interval_says_what_was_lost_and_how_long_a_round_trip_was),
        cmocka_unit_test(a_busy_link_is_measured_whatever_is_sent),
        cmocka_unit_test(silence_halves_the_rate_whatever_the_controller_says),
        cmocka_unit_test(a_sender_starts_with_one_packet_and_asks_again_after_a_second),
        cmocka_unit_test(acks_of_packets_that_were_never_sent_change_nothing),
        cmocka_unit_test(jains_index_is_one_for_equal_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
