/* time_scale_test.c - both clocks agree, times are scaled, and nothing else is. */
#include "cluster/time_scale.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

#define SPEED 15.0

/* A cluster that is asked and told by hand. */
struct puppet {
    int64_t now_us;
    struct aw_sample sample;
    struct aw_pod pod[2];
    enum aw_err err;
    struct aw_plan applied;
    int64_t deadline_us;
    uint32_t freed;
};

static uint32_t puppet_capabilities(const void *self)
{
    (void)self;
    return AW_CLUSTER_IN_PLACE_RESIZE;
}

static enum aw_err puppet_observe(void *self, uint32_t workload, int64_t deadline_us,
                                  struct aw_sample *ret_sample)
{
    struct puppet *puppet = self;
    assert_int_equal(workload, 3);
    puppet->deadline_us = deadline_us;
    if (puppet->err)
        return puppet->err;
    *ret_sample = puppet->sample;
    return AW_OK;
}

static enum aw_err puppet_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                                int64_t deadline_us)
{
    struct puppet *puppet = self;
    assert_int_equal(workload, 3);
    puppet->applied = *plan;
    puppet->deadline_us = deadline_us;
    return puppet->err;
}

static enum aw_err puppet_advance(void *self, int64_t until_us)
{
    struct puppet *puppet = self;
    puppet->now_us = until_us;
    return AW_OK;
}

static int64_t puppet_now_us(const void *self)
{
    const struct puppet *puppet = self;
    return puppet->now_us;
}

static void puppet_free(void *self)
{
    struct puppet *puppet = self;
    puppet->freed++;
}

static struct aw_cluster puppet_cluster(struct puppet *puppet)
{
    static const struct aw_cluster_ops ops = {
        .name = "puppet",
        .capabilities = puppet_capabilities,
        .observe = puppet_observe,
        .apply = puppet_apply,
        .advance = puppet_advance,
        .now_us = puppet_now_us,
        .free = puppet_free,
    };
    return (struct aw_cluster){.ops = &ops, .self = puppet};
}

static void time_goes_on_from_where_it_is_said_to_begin(void **state)
{
    (void)state;
    struct puppet puppet = {.now_us = 7000000};
    struct aw_time_scale pace;
    aw_time_scale_init(&pace, puppet_cluster(&puppet), SPEED, 500);
    const struct aw_cluster c = aw_time_scale_cluster(&pace);
    assert_int_equal(c.ops->now_us(c.self), 500);
    puppet.now_us += 1000000;
    assert_int_equal(c.ops->now_us(c.self), 500 + 15000000);
    assert_ok(c.ops->advance(c.self, 500 + 45000000));
    assert_int_equal(puppet.now_us, 7000000 + 3000000);
    for (int64_t until = 500 + 45000001; until < 500 + 45000040; until++) { /* never too early */
        assert_ok(c.ops->advance(c.self, until));
        assert_true(c.ops->now_us(c.self) >= until);
        assert_true(c.ops->now_us(c.self) <= until + 15);
    }
    assert_int_equal(c.ops->capabilities(c.self), AW_CLUSTER_IN_PLACE_RESIZE);
    c.ops->free(c.self);
    assert_int_equal(puppet.freed, 1);
}

static void times_are_scaled_and_nothing_else_is(void **state)
{
    (void)state;
    struct puppet puppet = {.now_us = 100};
    struct aw_time_scale pace;
    struct aw_sample seen = {0};
    aw_time_scale_init(&pace, puppet_cluster(&puppet), SPEED, 0);
    const struct aw_cluster c = aw_time_scale_cluster(&pace);
    puppet.pod[0] = (struct aw_pod){.id = 9,
                                    .phase = AW_POD_RUNNING,
                                    .ready = true,
                                    .started_us = 200,
                                    .ready_change_us = 300,
                                    .cpu_millicores = 500,
                                    .memory_bytes = 1 << 20,
                                    .cpu_cores_used = {0.25, 400},
                                    .memory_bytes_used = {4096, AW_NEVER},
                                    .restart_count = 2};
    puppet.pod[1] = (struct aw_pod){.id = 10, .started_us = AW_NEVER, .ready_change_us = AW_NEVER};
    puppet.sample = (struct aw_sample){.at_us = 500,
                                       .replicas_wanted = 2,
                                       .arrivals_per_s = {40, 500},
                                       .latency_us_p99 = {90000, 500},
                                       .throttled_share = {0, AW_NEVER},
                                       .oom_kills = 1,
                                       .pod_count = 2,
                                       .pods = puppet.pod};
    assert_ok(c.ops->observe(c.self, 3, 1234, &seen));
    assert_int_equal(puppet.deadline_us, 1234);
    assert_int_equal(seen.at_us, 400 * 15);
    assert_int_equal(seen.arrivals_per_s.at_us, 400 * 15);
    assert_close(seen.arrivals_per_s.value, 40, 0);
    assert_close(seen.latency_us_p99.value, 90000, 0);
    assert_true(seen.throttled_share.at_us == AW_NEVER);
    assert_true(seen.cpu_cores_used.at_us == (0 - 100) * 15); /* at 0 by the clock inside */
    assert_int_equal(seen.oom_kills, 1);
    assert_int_equal(seen.pod_count, 2);
    assert_int_equal(seen.pods[0].started_us, 100 * 15);
    assert_int_equal(seen.pods[0].ready_change_us, 200 * 15);
    assert_int_equal(seen.pods[0].cpu_cores_used.at_us, 300 * 15);
    assert_close(seen.pods[0].cpu_cores_used.value, 0.25, 0);
    assert_true(seen.pods[0].memory_bytes_used.at_us == AW_NEVER);
    assert_int_equal(seen.pods[0].cpu_millicores, 500);
    assert_int_equal(seen.pods[0].restart_count, 2);
    assert_true(seen.pods[1].started_us == AW_NEVER);
    assert_int_equal(puppet.pod[0].started_us, 200); /* what is the backend's is left alone */
}

static void what_the_cluster_refuses_is_passed_on(void **state)
{
    (void)state;
    struct puppet puppet = {.err = AW_ERR_NODATA};
    struct aw_time_scale pace;
    struct aw_sample seen, before;
    aw_time_scale_init(&pace, puppet_cluster(&puppet), SPEED, 0);
    const struct aw_cluster c = aw_time_scale_cluster(&pace);
    memset(&seen, 0x5a, sizeof seen);
    before = seen;
    assert_int_equal(c.ops->observe(c.self, 3, 1, &seen), AW_ERR_NODATA);
    assert_memory_equal(&seen, &before, sizeof seen);
    const struct aw_plan plan = {.set = AW_PLAN_REPLICAS, .replicas = 4};
    assert_int_equal(c.ops->apply(c.self, 3, &plan, 77), AW_ERR_NODATA);
    assert_int_equal(puppet.applied.replicas, 4);
    assert_int_equal(puppet.deadline_us, 77);
}

AW_TEST_GROUP("time-scale")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_goes_on_from_where_it_is_said_to_begin),
        cmocka_unit_test(times_are_scaled_and_nothing_else_is),
        cmocka_unit_test(what_the_cluster_refuses_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
