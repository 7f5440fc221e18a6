/* assembly_test.c - what is complete, late, too much; nothing is allocated and nothing is lost. */
#include "trace/assembly.h"

#include "base/testing.h"
#include "trace/trace_testing.h"

#define S INT64_C(1000000)

struct seen {
    uint64_t trace[4096];
    uint32_t count[4096];
    uint32_t traces, spans;
};

static void note(void *ctx, const struct aw_span *spans, uint32_t count)
{
    struct seen *seen = ctx;
    for (uint32_t i = 0; i < count; i++)
        assert_true(spans[i].trace_lo == spans[0].trace_lo);
    seen->trace[seen->traces % 4096] = spans[0].trace_lo;
    seen->count[seen->traces++ % 4096] = count;
    seen->spans += count;
}

static struct aw_span of(uint64_t trace, uint64_t id)
{
    return (struct aw_span){.trace_lo = trace, .id = id, .end_ns = 1};
}

static void a_trace_is_complete_when_it_was_quiet(void **state)
{
    struct aw_assembly *assembly = NULL;
    struct seen seen = {0};
    (void)state;
    assert_ok(aw_assembly_new(
        &assembly,
        &(struct aw_assembly_config){.quiet_us = 5 * S, .spans_max = 100, .traces_max = 10}, NULL));
    struct aw_span a1 = of(1, 1), a2 = of(1, 2), b1 = of(2, 1), a3 = of(1, 3);
    assert_true(aw_assembly_push(assembly, &a1, 0));
    assert_true(aw_assembly_push(assembly, &b1, 1 * S));
    assert_true(aw_assembly_push(assembly, &a2, 4 * S));
    aw_assembly_poll(assembly, 5 * S, note, &seen);
    assert_int_equal(seen.traces, 0); /* trace 1 was touched at 4 s, trace 2 at 1 s */
    aw_assembly_poll(assembly, 6 * S, note, &seen);
    assert_int_equal(seen.traces, 1);
    assert_int_equal(seen.trace[0], 2);
    aw_assembly_poll(assembly, 9 * S, note, &seen);
    assert_int_equal(seen.traces, 2);
    assert_int_equal(seen.count[1], 2);
    assert_false(aw_assembly_push(assembly, &a3, 10 * S));
    const struct aw_assembly_counts counts = aw_assembly_counts(assembly);
    assert_true(counts.late == 1 && counts.spans == 4 && counts.traces == 2);
    assert_int_equal(aw_assembly_waiting(assembly), 0);
    aw_assembly_free(assembly);
}

static void a_flood_is_dropped_and_counted_and_others_stay_whole(void **state)
{
    struct aw_assembly *assembly = NULL;
    struct seen seen = {0};
    (void)state;
    assert_ok(aw_assembly_new(
        &assembly,
        &(struct aw_assembly_config){.spans_max = 50, .traces_max = 5, .spans_per_trace_max = 20},
        NULL));
    struct aw_span span = of(1, 1);
    assert_true(aw_assembly_push(assembly, &span, 0));
    for (uint32_t i = 0; i < 100; i++) { /* one trace without end */
        span = of(2, i + 1);
        assert_int_equal(aw_assembly_push(assembly, &span, 0), i < 20);
    }
    for (uint32_t i = 0; i < 100; i++) { /* traces without end */
        span = of(100 + i, 1);
        assert_int_equal(aw_assembly_push(assembly, &span, 0), i < 3);
    }
    span = of(1, 2);
    assert_true(aw_assembly_push(assembly, &span, 0));
    const struct aw_assembly_counts counts = aw_assembly_counts(assembly);
    assert_int_equal(counts.dropped_trace, 80);
    assert_int_equal(counts.dropped_full, 97);
    aw_assembly_flush(assembly, note, &seen);
    assert_int_equal(seen.traces, 5);
    assert_int_equal(seen.trace[4], 1); /* touched last */
    assert_int_equal(seen.count[4], 2);
    assert_int_equal(seen.spans, 2 + 20 + 3);
    aw_assembly_free(assembly);
}

static void spans_are_neither_lost_nor_doubled(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_assembly *assembly = NULL;
    static struct seen seen;
    struct aw_rng rng;
    uint64_t kept = 0;
    (void)state;
    aw_alloc_counting_init(&counting);
    aw_rng_init(&rng, 11, 0);
    assert_ok(aw_assembly_new(
        &assembly,
        &(struct aw_assembly_config){
            .quiet_us = 2 * S, .spans_max = 2000, .traces_max = 300, .spans_per_trace_max = 40},
        &counting.alloc));
    const uint64_t allocations = counting.alloc_count;
    for (uint32_t i = 0; i < 200000; i++) {
        const int64_t now = (int64_t)i * 3000;
        struct aw_span span = of(1 + i / 40 + aw_rng_below(&rng, 30), i + 1);
        kept += aw_assembly_push(assembly, &span, now);
        if (i % 100 == 0)
            aw_assembly_poll(assembly, now, note, &seen);
    }
    aw_assembly_flush(assembly, note, &seen);
    const struct aw_assembly_counts counts = aw_assembly_counts(assembly);
    assert_int_equal(seen.spans, kept);
    assert_int_equal(counts.spans, 200000);
    assert_int_equal(counts.spans, kept + counts.late + counts.dropped_full + counts.dropped_trace);
    assert_true(counts.late > 0 || counts.dropped_trace > 0);
    assert_int_equal(counting.alloc_count, allocations);
    aw_assembly_free(assembly);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

static void every_allocation_that_fails_is_survived(void **state)
{
    (void)state;
    for (uint64_t n = 0;; n++) {
        struct aw_alloc_counting counting;
        struct aw_assembly *assembly = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err = aw_assembly_new(
            &assembly, &(struct aw_assembly_config){.spans_max = 10, .traces_max = 10},
            &counting.alloc);
        aw_assembly_free(assembly);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err) {
            assert_true(n > 0);
            break;
        }
        assert_int_equal(err, AW_ERR_NOMEM);
    }
}

AW_TEST_GROUP("trace-assembly")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_complete_when_it_was_quiet),
        cmocka_unit_test(a_flood_is_dropped_and_counted_and_others_stay_whole),
        cmocka_unit_test(spans_are_neither_lost_nor_doubled),
        cmocka_unit_test(every_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests_name("trace-assembly", tests, NULL, NULL);
}
