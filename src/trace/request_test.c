/* request_test.c - trees and critical paths: by hand, beside a naive twin, and whatever comes. */
#include "trace/request.h"

#include "base/testing.h"
#include "trace/relations.h"
#include "trace/trace_testing.h"

struct fixture {
    struct aw_spans spans;
    struct aw_request_builder *builder;
    struct aw_request request;
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_ok(aw_spans_init(&f->spans, 10000, NULL));
    assert_ok(aw_request_builder_new(&f->builder, 2000, NULL));
}

static void tear_down(struct fixture *f)
{
    aw_request_builder_free(f->builder);
    aw_spans_deinit(&f->spans);
}

static void build(struct fixture *f, const struct aw_relations *relations)
{
    assert_ok(aw_request_build(f->builder, f->spans.at, f->spans.count, relations, &f->request));
}

/* What must hold of any request whatever was sent. */
static void check_request(const struct aw_request *request)
{
    const struct aw_span_node *root = &request->nodes[request->root];
    int64_t cursor = root->end_ns, sum = 0;
    for (uint32_t i = 0; i < request->section_count; i++) {
        const struct aw_section *section = &request->sections[i];
        const struct aw_span_node *node = &request->nodes[section->node];
        assert_true(section->end_ns == cursor);
        assert_true(section->start_ns < section->end_ns);
        assert_true(section->start_ns >= node->start_ns && section->end_ns <= node->end_ns);
        assert_true(node->flags & AW_NODE_REACHED);
        assert_false(node->flags & (AW_NODE_BACKGROUND | AW_NODE_OUTSIDE));
        cursor = section->start_ns;
    }
    assert_true(cursor == root->start_ns);
    uint64_t reached = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        const struct aw_span_node *node = &request->nodes[i];
        sum += node->exclusive_ns;
        reached += (node->flags & AW_NODE_REACHED) != 0;
        assert_true(node->exclusive_ns >= 0);
        if (node->flags & AW_NODE_REACHED && i != request->root &&
            !(node->flags & AW_NODE_BACKGROUND)) {
            assert_true(node->start_ns >= request->nodes[node->parent].start_ns);
            assert_true(node->end_ns <= request->nodes[node->parent].end_ns);
        }
    }
    assert_true(sum == aw_request_latency_ns(request));
    assert_int_equal(reached + request->counts.duplicate + request->counts.orphaned,
                     request->count);
}

static void exclusive_times_sum_to_the_latency_whatever_was_sent(void **state)
{
    struct fixture f;
    struct aw_rng rng;
    struct aw_relations *relations = NULL;
    struct aw_request_counts all = {0};
    (void)state;
    set_up(&f);
    assert_ok(aw_relations_new(&relations, NULL));
    aw_rng_init(&rng, 1, 0);
    for (uint32_t i = 0; i < 20000; i++) {
        aw_spans_reset(&f.spans);
        testing_random_trace(&f.spans, &rng, i + 1, 1 + aw_rng_below(&rng, 40));
        build(&f, i > 10000 ? relations : NULL);
        check_request(&f.request);
        aw_request_counts_add(&all, &f.request.counts);
        if (i % 10 == 0)
            aw_relations_learn(relations, &f.request);
    }
    /* all of it happened */
    assert_true(all.duplicate && all.orphaned && all.adopted && all.skewed && all.clipped &&
                all.outside && all.background && all.retried && all.rootless);
    aw_relations_free(relations);
    tear_down(&f);
}

/* ---- a naive twin: the definition, with lists walked again and again ---- */

struct twin {
    const struct aw_span *spans;
    uint32_t count;
    int64_t exclusive[64];
};

static void twin_walk(struct twin *twin, uint32_t at)
{
    const struct aw_span *span = &twin->spans[at];
    int64_t cursor = span->end_ns;
    for (;;) {
        uint32_t last = UINT32_MAX;
        for (uint32_t i = 0; i < twin->count; i++) {
            const struct aw_span *child = &twin->spans[i];
            if (child->parent == span->id && child->end_ns <= cursor &&
                child->end_ns > child->start_ns &&
                (last == UINT32_MAX || child->end_ns > twin->spans[last].end_ns))
                last = i;
        }
        if (last == UINT32_MAX)
            break;
        twin->exclusive[at] += cursor - twin->spans[last].end_ns;
        twin_walk(twin, last);
        cursor = twin->spans[last].start_ns;
    }
    twin->exclusive[at] += cursor - span->start_ns;
}

static void sound_traces_have_the_path_of_the_definition(void **state)
{
    struct fixture f;
    struct aw_rng rng;
    (void)state;
    set_up(&f);
    aw_rng_init(&rng, 2, 0);
    for (uint32_t round = 0; round < 5000; round++) {
        struct twin twin = {.count = 2 + aw_rng_below(&rng, 40)};
        aw_spans_reset(&f.spans);
        testing_span(&f.spans, 1, 1, 0, "a", 0, 4000000, AW_SPAN_INTERNAL);
        for (uint32_t i = 1; i < twin.count; i++) { /* within its parent, on even milliseconds */
            const struct aw_span *up = &f.spans.at[aw_rng_below(&rng, i)];
            const double from = (double)((up->start_ns - T0) / MS);
            const double until = (double)((up->end_ns - T0) / MS);
            const uint32_t room = (uint32_t)(until - from) / 2;
            const uint32_t a = aw_rng_below(&rng, room + 1), b = aw_rng_below(&rng, room + 1);
            testing_span(&f.spans, 1, i + 1, up->id, "a", from + 2.0 * (a < b ? a : b),
                         from + 2.0 * (a < b ? b : a), AW_SPAN_INTERNAL);
        }
        twin.spans = f.spans.at;
        twin_walk(&twin, 0);
        build(&f, NULL);
        check_request(&f.request);
        for (uint32_t i = 0; i < twin.count; i++)
            assert_true(f.request.nodes[i].exclusive_ns == twin.exclusive[i]);
    }
    tear_down(&f);
}

static void the_order_in_which_spans_come_does_not_matter(void **state)
{
    struct fixture f;
    struct aw_rng rng;
    (void)state;
    set_up(&f);
    aw_rng_init(&rng, 4, 0);
    for (uint32_t round = 0; round < 500; round++) {
        int64_t before[41] = {0};
        aw_spans_reset(&f.spans);
        testing_span(&f.spans, 1, 1, 0, "a", 0, 1000, AW_SPAN_SERVER);
        for (uint32_t i = 1; i < 40; i++) {
            const double from = aw_rng_uniform(&rng, 0, 900);
            testing_span(&f.spans, 1, i + 1, 1 + aw_rng_below(&rng, i), i % 3 ? "a" : "b", from,
                         from + aw_rng_uniform(&rng, 1, 100), 0);
        }
        build(&f, NULL);
        for (uint32_t i = 0; i < 40; i++)
            before[f.spans.at[i].id] = f.request.nodes[i].exclusive_ns;
        for (uint32_t i = 39; i > 0; i--) {
            const uint32_t k = aw_rng_below(&rng, i + 1);
            const struct aw_span swap = f.spans.at[i];
            f.spans.at[i] = f.spans.at[k];
            f.spans.at[k] = swap;
        }
        build(&f, NULL);
        for (uint32_t i = 0; i < 40; i++)
            assert_true(before[f.spans.at[i].id] == f.request.nodes[i].exclusive_ns);
    }
    tear_down(&f);
}

/* ---- by hand ---- */

static int64_t exclusive_ms(const struct fixture *f, uint64_t id)
{
    for (uint32_t i = 0; i < f->spans.count; i++) {
        if (f->spans.at[i].id == id)
            return f->request.nodes[i].exclusive_ns / MS;
    }
    return -1;
}

static void of_parallel_calls_the_last_to_return_is_on_the_path(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 2, 1, "front", 10, 60, AW_SPAN_INTERNAL); /* beside 3 */
    testing_span(&f.spans, 1, 3, 1, "front", 20, 90, AW_SPAN_INTERNAL);
    testing_span(&f.spans, 1, 4, 1, "front", 5, 18, AW_SPAN_INTERNAL); /* before 3 */
    build(&f, NULL);
    assert_int_equal(exclusive_ms(&f, 1), 10 + 2 + 5);
    assert_int_equal(exclusive_ms(&f, 2), 0);
    assert_int_equal(exclusive_ms(&f, 3), 70);
    assert_int_equal(exclusive_ms(&f, 4), 13);
    const struct aw_section *sections = f.request.sections;
    assert_int_equal(f.request.section_count, 5);
    assert_int_equal(sections[0].node, 0);
    assert_int_equal(sections[0].after, 2); /* begins when span 3 ends */
    assert_int_equal(sections[0].before, AW_NODE_NONE);
    assert_int_equal(sections[2].before, 2);
    assert_int_equal(sections[2].after, 3);
    tear_down(&f);
}

static void a_clock_that_is_off_is_moved_but_the_span_is_not(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_CLIENT);
    testing_span(&f.spans, 1, 2, 1, "orders", 500, 560, AW_SPAN_SERVER); /* half a second ahead */
    testing_span(&f.spans, 1, 3, 2, "orders", 510, 530, AW_SPAN_INTERNAL);
    build(&f, NULL);
    assert_int_equal(f.request.counts.skewed, 1);
    assert_int_equal(f.request.nodes[1].start_ns, T0 + 20 * MS);
    assert_int_equal(f.request.nodes[1].end_ns, T0 + 80 * MS);
    assert_int_equal(f.request.nodes[2].start_ns, T0 + 30 * MS); /* by the same clock */
    assert_int_equal(f.spans.at[1].start_ns, T0 + 500 * MS);
    assert_int_equal(exclusive_ms(&f, 1), 40);
    assert_int_equal(exclusive_ms(&f, 2), 40);
    assert_int_equal(exclusive_ms(&f, 3), 20);
    tear_down(&f);
}

static void a_server_that_goes_on_after_its_client_gave_up_is_cut(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_CLIENT);
    testing_span(&f.spans, 1, 2, 1, "orders", 10, 400, AW_SPAN_SERVER);
    build(&f, NULL);
    assert_int_equal(f.request.counts.skewed, 0);
    assert_int_equal(f.request.counts.clipped, 1);
    assert_int_equal(exclusive_ms(&f, 1), 10);
    assert_int_equal(exclusive_ms(&f, 2), 90);
    tear_down(&f);
}

static void what_nobody_waits_for_is_not_on_the_path(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 2, 1, "front", 10, 20, AW_SPAN_PRODUCER);
    testing_span(&f.spans, 1, 3, 2, "mail", 15, 300, AW_SPAN_CONSUMER);
    testing_span(&f.spans, 1, 4, 3, "mail", 20, 90, AW_SPAN_INTERNAL);
    testing_span(&f.spans, 1, 5, 1, "front", 30, 95, AW_SPAN_INTERNAL)->flags = AW_SPAN_FOLLOWS;
    build(&f, NULL);
    check_request(&f.request);
    assert_int_equal(f.request.counts.background, 3);
    assert_int_equal(exclusive_ms(&f, 1), 90);
    assert_int_equal(exclusive_ms(&f, 2), 10);
    assert_int_equal(exclusive_ms(&f, 4), 0);
    tear_down(&f);
}

/* `count` requests like it are shown; then it is built once more. */
static void learn(struct fixture *f, struct aw_relations *relations, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        build(f, relations);
        aw_relations_learn(relations, &f->request);
    }
}

static void a_call_that_outlives_its_caller_often_is_in_the_background(void **state)
{
    struct fixture f;
    struct aw_relations *relations = NULL;
    (void)state;
    set_up(&f);
    assert_ok(aw_relations_new(&relations, NULL));
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 2, 1, "front", 10, 150, AW_SPAN_INTERNAL)->operation =
        aw_names_add(&f.spans.names, "send mail", 9);
    learn(&f, relations, AW_RELATION_LEAST - 1);
    build(&f, relations);
    assert_int_equal(exclusive_ms(&f, 2), 90); /* not enough requests to tell */
    learn(&f, relations, 1);
    build(&f, relations);
    assert_int_equal(exclusive_ms(&f, 2), 0);
    assert_int_equal(exclusive_ms(&f, 1), 100);
    aw_relations_free(relations);
    tear_down(&f);
}

static void siblings_that_were_seen_in_parallel_do_not_wait_for_each_other(void **state)
{
    struct fixture f;
    struct aw_relations *relations = NULL;
    (void)state;
    set_up(&f);
    assert_ok(aw_relations_new(&relations, NULL));
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 2, 1, "front", 10, 40, AW_SPAN_INTERNAL)->operation =
        aw_names_add(&f.spans.names, "one", 3);
    testing_span(&f.spans, 1, 3, 1, "front", 45, 90, AW_SPAN_INTERNAL)->operation =
        aw_names_add(&f.spans.names, "two", 3);
    learn(&f, relations, 30);
    build(&f, relations);
    assert_int_equal(exclusive_ms(&f, 2), 30); /* always one after the other so far */
    f.spans.at[2].start_ns = T0 + 20 * MS;
    learn(&f, relations, 1); /* a counter-example */
    f.spans.at[2].start_ns = T0 + 45 * MS;
    build(&f, relations);
    assert_int_equal(exclusive_ms(&f, 2), 0);
    assert_int_equal(exclusive_ms(&f, 1), 55);
    aw_relations_free(relations);
    tear_down(&f);
}

static void an_orphan_finds_the_caller_it_usually_has(void **state)
{
    struct fixture f;
    struct aw_relations *relations = NULL;
    (void)state;
    set_up(&f);
    assert_ok(aw_relations_new(&relations, NULL));
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 2, 1, "orders", 10, 90, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 3, 2, "stock", 20, 80, AW_SPAN_SERVER);
    learn(&f, relations, 1);
    f.spans.at[2].parent = 77; /* its client span was lost */
    build(&f, NULL);
    assert_int_equal(f.request.counts.orphaned, 1);
    build(&f, relations);
    check_request(&f.request);
    assert_int_equal(f.request.counts.adopted, 1);
    assert_int_equal(f.request.nodes[2].parent, 1);
    assert_int_equal(exclusive_ms(&f, 3), 60);
    aw_relations_free(relations);
    tear_down(&f);
}

static void attempts_after_a_failure_are_told_as_such(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, AW_SPAN_SERVER);
    testing_span(&f.spans, 1, 2, 1, "front", 10, 30, AW_SPAN_CLIENT)->flags = AW_SPAN_ERROR;
    testing_span(&f.spans, 1, 3, 1, "front", 40, 60, AW_SPAN_CLIENT)->flags = AW_SPAN_ERROR;
    testing_span(&f.spans, 1, 4, 1, "front", 70, 90, AW_SPAN_CLIENT);
    build(&f, NULL);
    assert_int_equal(f.request.counts.retried, 2);
    assert_true(f.request.nodes[3].flags & AW_NODE_RETRY);
    assert_false(f.request.nodes[1].flags & AW_NODE_RETRY);
    tear_down(&f);
}

static void circles_and_depth_end(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 2, "a", 0, 100, 0); /* 1 below 2, 2 below 1: nobody is the root */
    testing_span(&f.spans, 1, 2, 1, "a", 10, 90, 0);
    build(&f, NULL);
    check_request(&f.request);
    assert_int_equal(f.request.root, 0);
    aw_spans_reset(&f.spans);
    for (uint32_t i = 0; i < 2000; i++)
        testing_span(&f.spans, 1, i + 1, i, "a", i * 0.001, 100 - i * 0.001, 0);
    build(&f, NULL);
    check_request(&f.request);
    assert_int_equal(f.request.section_count, 2000 * 2 - 1);
    aw_spans_reset(&f.spans);
    for (uint32_t i = 0; i < 2001; i++)
        testing_span(&f.spans, 1, i + 1, i ? 1 : 0, "a", 0, 100, 0);
    assert_int_equal(aw_request_build(f.builder, f.spans.at, 2001, NULL, &f.request), AW_ERR_LIMIT);
    f.spans.at[0].end_ns = f.spans.at[0].start_ns;
    assert_int_equal(aw_request_build(f.builder, f.spans.at, 1, NULL, &f.request), AW_ERR_NODATA);
    tear_down(&f);
}

static void a_client_is_known_by_its_only_child_elsewhere(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    testing_span(&f.spans, 1, 1, 0, "front", 0, 100, 0);
    testing_span(&f.spans, 1, 2, 1, "front", 10, 90, 0);
    testing_span(&f.spans, 1, 3, 2, "orders", 9.4, 80, 0); /* a clock of whole milliseconds */
    build(&f, NULL);
    assert_int_equal(f.request.nodes[0].kind, AW_SPAN_UNSPECIFIED);
    assert_int_equal(f.request.nodes[1].kind, AW_SPAN_CLIENT);
    assert_int_equal(f.request.nodes[2].kind, AW_SPAN_SERVER);
    assert_int_equal(f.request.counts.skewed + f.request.counts.clipped, 0);
    assert_int_equal(exclusive_ms(&f, 3), 70);
    tear_down(&f);
}

AW_TEST_GROUP("trace-request")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exclusive_times_sum_to_the_latency_whatever_was_sent),
        cmocka_unit_test(sound_traces_have_the_path_of_the_definition),
        cmocka_unit_test(the_order_in_which_spans_come_does_not_matter),
        cmocka_unit_test(of_parallel_calls_the_last_to_return_is_on_the_path),
        cmocka_unit_test(a_clock_that_is_off_is_moved_but_the_span_is_not),
        cmocka_unit_test(a_server_that_goes_on_after_its_client_gave_up_is_cut),
        cmocka_unit_test(what_nobody_waits_for_is_not_on_the_path),
        cmocka_unit_test(a_call_that_outlives_its_caller_often_is_in_the_background),
        cmocka_unit_test(siblings_that_were_seen_in_parallel_do_not_wait_for_each_other),
        cmocka_unit_test(an_orphan_finds_the_caller_it_usually_has),
        cmocka_unit_test(attempts_after_a_failure_are_told_as_such),
        cmocka_unit_test(circles_and_depth_end),
        cmocka_unit_test(a_client_is_known_by_its_only_child_elsewhere),
    };
    return cmocka_run_group_tests_name("trace-request", tests, NULL, NULL);
}
