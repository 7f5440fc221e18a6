/* Tests of the test bed: real packets, real time, two namespaces that nobody sees. */
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "congestion/bed.h"
#include "congestion/learn.h"

#define SECONDS 3.0

static struct aw_bed_result result;
static struct aw_adaptive_policy policy;

/* Skips, and says why, where this machine or these rights do not allow it. */
static void bed_run(const struct aw_bed_plan *plan)
{
    struct aw_diag diag = {0};
    const enum aw_err err = aw_bed_run(plan, NULL, NULL, &result, &diag);
    if (err == AW_ERR_UNSUPPORTED) {
        print_message("skipped: no test bed here: %s\n", diag.text);
        skip();
    }
    if (err == AW_ERR_NOTFOUND) {
        print_message("skipped: %s\n", diag.text);
        skip();
    }
    if (err)
        print_message("%s\n", diag.text);
    assert_int_equal(err, AW_OK);
}

static struct aw_bed_plan plan_of(const struct aw_bed_flow *flow)
{
    return (struct aw_bed_plan){
        .link = {.rate = 800, .delay_s = 0.01, .queue = 40}, /* 9.6 Mbit/s */
        .seconds = SECONDS,
        .seed = 1,
        .flow_count = 1,
        .flow = {*flow}};
}

static void the_learned_controller_fills_a_real_link(void **state)
{
    (void)state;
    assert_ok(aw_adaptive_shipped(&policy, NULL));
    struct aw_adaptive adaptive = {.policy = &policy};
    const struct aw_bed_plan plan =
        plan_of(&(struct aw_bed_flow){.controller = &aw_adaptive_controller, .self = &adaptive});
    bed_run(&plan);
    const struct aw_bed_seen *seen = &result.flow[0];
    /* the link gives 9.6 Mbit/s and no more; a busy machine may cost a half of it */
    assert_true(seen->bits <= 9.7e6 * SECONDS);
    assert_true(seen->bits > 4.8e6 * SECONDS);
    assert_true(aw_latency_histogram_quantile(&seen->delay, 0) >= 10000);
    double bins = 0;
    for (uint32_t i = 0; i < AW_BED_BINS; i++)
        bins += seen->bin_bits[i];
    assert_close(bins, seen->bits, 1);
}

static void the_kernels_cubic_goes_through_the_same_link(void **state)
{
    (void)state;
    const struct aw_bed_plan plan = plan_of(&(struct aw_bed_flow){.tcp = "cubic"});
    bed_run(&plan);
    assert_true(result.flow[0].bits <= 9.7e6 * SECONDS);
    assert_true(result.flow[0].bits > 4.8e6 * SECONDS);
    /* its queue is what cubic is known for */
    assert_true(aw_latency_histogram_quantile(&result.flow[0].delay, 0.95) > 20000);
}

static void a_congestion_control_that_the_kernel_has_not_is_named(void **state)
{
    (void)state;
    struct aw_diag diag = {0};
    const struct aw_bed_plan plan = plan_of(&(struct aw_bed_flow){.tcp = "nosuch"});
    const enum aw_err err = aw_bed_run(&plan, NULL, NULL, &result, &diag);
    if (err == AW_ERR_UNSUPPORTED)
        skip();
    assert_int_equal(err, AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "nosuch"));
}

static bool enough(void *ctx, double share)
{
    (void)share;
    return ++*(uint32_t *)ctx < 3;
}

static void who_asks_for_the_end_gets_it_at_once(void **state)
{
    (void)state;
    struct aw_adaptive adaptive = {.policy = &policy};
    struct aw_bed_plan plan =
        plan_of(&(struct aw_bed_flow){.controller = &aw_adaptive_controller, .self = &adaptive});
    uint32_t asked = 0;
    struct aw_diag diag = {0};
    plan.seconds = 60;
    const enum aw_err err = aw_bed_run(&plan, enough, &asked, &result, &diag);
    if (err == AW_ERR_UNSUPPORTED)
        skip();
    assert_int_equal(err, AW_ERR_INTERRUPTED);
}

static void a_plan_without_flows_or_end_is_refused(void **state)
{
    (void)state;
    struct aw_bed_plan plan = plan_of(&(struct aw_bed_flow){.tcp = "cubic"});
    plan.flow_count = 0;
    assert_int_equal(aw_bed_run(&plan, NULL, NULL, &result, NULL), AW_ERR_RANGE);
    plan.flow_count = 1;
    plan.seconds = 1e9;
    assert_int_equal(aw_bed_run(&plan, NULL, NULL, &result, NULL), AW_ERR_RANGE);
}

AW_TEST_GROUP("congestion-bed")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_learned_controller_fills_a_real_link),
        cmocka_unit_test(the_kernels_cubic_goes_through_the_same_link),
        cmocka_unit_test(a_congestion_control_that_the_kernel_has_not_is_named),
        cmocka_unit_test(who_asks_for_the_end_gets_it_at_once),
        cmocka_unit_test(a_plan_without_flows_or_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
