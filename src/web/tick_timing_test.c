/* tick_timing_test.c - a desk that measures hands everything on and counts what it took. */
#include "web/tick_timing.h"

#include <math.h>

#include "base/testing.h"

#include <string.h>

struct inner {
    char calls[64]; /* a letter for each */
    struct aw_clock_virtual clock;
};

static void note(struct inner *inner, char letter)
{
    const size_t len = strlen(inner->calls);
    assert_true(len + 1 < sizeof inner->calls);
    inner->calls[len] = letter;
}

static void enter(void *ctx)
{
    note(ctx, 'e');
}

static void leave(void *ctx)
{
    struct inner *inner = ctx;
    note(inner, 'l');
    aw_clock_virtual_advance(&inner->clock, 2000); /* writing outcomes is part of a tick */
}

static void orders(void *ctx, uint32_t workload, int64_t now_us, struct aw_orders *ret)
{
    assert_int_equal(workload, 7);
    assert_int_equal(now_us, 11);
    ret->urgent = true;
    note(ctx, 'o');
}

static void decided(void *ctx, uint32_t workload, const struct aw_decision *decision,
                    const void *moment, size_t moment_bytes)
{
    assert_true(workload == 7 && !decision && moment == ctx && moment_bytes == 3);
    note(ctx, 'd');
}

static enum aw_err record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    (void)now_us;
    note(ctx, 'r');
    return aw_fail(diag, AW_ERR_IO, "full");
}

static void applied(void *ctx, uint32_t workload, const struct aw_decision *decision,
                    enum aw_err err)
{
    assert_true(workload == 7 && !decision && err == AW_ERR_CONFLICT);
    note(ctx, 'a');
}

static void learned(void *ctx, uint32_t workload, enum aw_err err, double took_s)
{
    (void)took_s;
    (void)workload;
    (void)err;
    note(ctx, 'L');
}

static void everything_is_handed_on_and_measured(void **state)
{
    static struct inner inner;
    struct aw_tick_timing timing;
    struct aw_orders given = {0};
    struct aw_diag diag = {0};
    const struct aw_loop_hooks hooks = {&inner,  true,   enter,   leave,  orders,
                                        decided, record, applied, learned};
    (void)state;
    aw_clock_virtual_init(&inner.clock, 0);
    assert_ok(aw_tick_timing_init(&timing, &inner.clock.clock));
    const struct aw_loop_hooks *outer = aw_tick_timing_desk(&timing, &hooks);
    assert_true(outer->moments);
    outer->enter(outer->ctx);
    outer->orders(outer->ctx, 7, 11, &given);
    assert_true(given.urgent);
    outer->decided(outer->ctx, 7, NULL, &inner, 3);
    assert_int_equal(outer->record(outer->ctx, 11, &diag), AW_ERR_IO);
    assert_string_equal(diag.text, "full");
    outer->applied(outer->ctx, 7, NULL, AW_ERR_CONFLICT);
    aw_clock_virtual_advance(&inner.clock, 10000);
    outer->leave(outer->ctx);
    aw_clock_virtual_advance(&inner.clock, 3000000);
    outer->learned(outer->ctx, 1, AW_OK, NAN);
    outer->learned(outer->ctx, 2, AW_ERR_NODATA, NAN);
    outer->learned(outer->ctx, 3, AW_ERR_DIVERGED, NAN);
    assert_string_equal(inner.calls, "eodralLLL");
    assert_close(timing.tick.sum, 0.012, 1e-9);
    assert_close(timing.learn.sum, 3, 1e-9); /* side by side: once, not three times */
    assert_int_equal(timing.rounds, 1);
    assert_int_equal(timing.rounds_without_data, 1);
    assert_int_equal(timing.rounds_failed, 1);
    assert_int_equal(timing.applies_failed, 1);
    assert_int_equal(timing.records_failed, 1);
    outer->enter(outer->ctx);
    outer->leave(outer->ctx);
    assert_close(timing.tick.sum, 0.014, 1e-9);
    aw_tick_timing_deinit(&timing);
    aw_tick_timing_deinit(&timing); /* a zeroed one is a no-op */
}

AW_TEST_GROUP("tick-timing")
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_is_handed_on_and_measured)};
    return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
