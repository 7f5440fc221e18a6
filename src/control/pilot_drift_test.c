/* pilot_drift_test.c - a workload that becomes another: noticed, forgotten, sought for anew. */
#include "control/pilot_internal.h"

#include "base/pack16.h"
#include "control/pilot_testing.h"
#include "policy/capacity.h"

static void fill(struct aw__pilot_memory *memory, uint32_t minutes, double low, double high)
{
    for (uint32_t i = 0; i < minutes; i++)
        memory->load_per_s[memory->minute_count++ % AW__PILOT_SEARCH_MINUTES] =
            aw_pack16(i % 7 ? low : high);
}

static void a_load_beyond_all_that_was_seen_for_half_an_hour_is_another_load(void **state)
{
    (void)state;
    static const struct {
        double low, high;           /* of the past */
        uint32_t past, late;        /* minutes */
        double late_low, late_high; /* of the last minutes */
        bool jumped;
        const char *why;
    } table[] = {
        {10, 20, 300, 30, 100, 200, true, "ten times as much"},
        {10, 20, 300, 30, 1, 2, true, "a tenth"},
        {10, 20, 300, 29, 100, 200, false, "not for long enough"},
        {10, 20, 300, 30, 30, 100, false, "some of it could be a busy hour"},
        {10, 200, 300, 30, 100, 200, false, "as busy as it has been before"},
        {0, 20, 300, 30, 1, 2, false, "it was idle before"},
        {10, 20, 59, 30, 100, 200, false, "too little is known of the past"},
        {10, 20, 2000, 30, 100, 200, true, "a ring that has come round"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        static struct aw__pilot_memory memory;
        memset(&memory, 0, sizeof memory);
        fill(&memory, table[i].past, table[i].low, table[i].high);
        assert_false(aw__pilot_load_jumped(&memory));
        fill(&memory, table[i].late, table[i].late_low, table[i].late_high);
        if (aw__pilot_load_jumped(&memory) != table[i].jumped)
            fail_msg("%s", table[i].why);
        memory.minute_first = memory.minute_count - table[i].late; /* once is enough */
        assert_false(aw__pilot_load_jumped(&memory));
    }
}

/* Ticks until the pilot begins anew; 0: it does not within `most`. */
static uint32_t until_anew(struct bench *b, uint32_t most)
{
    const uint32_t first = b->pilot->memory.rows_first;
    for (uint32_t t = 1; t <= most; t++) {
        bench_tick(b);
        if (b->pilot->memory.rows_first != first)
            return t;
    }
    return 0;
}

static void dearer_requests_are_noticed_in_steps_and_searched_for_in_episodes(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    assert_int_equal(until_anew(&b, 400), 0); /* nothing changes by itself */
    struct aw_sim_disturbance slower = aw_sim_undisturbed;
    slower.cpu_slowdown = 1.5;
    aw_sim_disturb(b.sim, 0, &slower);
    assert_in_range(until_anew(&b, 48), 1, 48); /* in twelve minutes */
    const struct aw__pilot_memory *memory = &b.pilot->memory;
    assert_int_equal(memory->record.bin_count, 0);
    assert_int_equal(memory->next_rows, memory->rows_first + AW__PILOT_SEARCH_ROWS);
    /* the first search is on what is new alone, and soon */
    uint32_t t = 0;
    for (; memory->next_rows <= memory->rows_first + AW__PILOT_SEARCH_ROWS; t++) {
        assert_true(t < 10 * EPISODE);
        bench_tick(&b);
    }
    assert_in_range(t, AW__PILOT_SEARCH_ROWS - 1, 10 * EPISODE);
    assert_int_equal(until_anew(&b, 400), 0); /* and that is how it is now */
    bench_end(&b);
}

static void after_a_jump_policies_are_tried_on_the_new_load_alone(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    assert_int_equal(until_anew(&b, 600), 0);
    struct aw_sim_disturbance quieter = aw_sim_undisturbed;
    quieter.load_factor = 0.02;
    aw_sim_disturb(b.sim, 0, &quieter);
    const double high = aw_capacity_of(&b.pilot->policy)->memory.lived.high_load;
    assert_in_range(until_anew(&b, 200), 4 * AW_REHEARSE_MINUTES_MIN, 5 * AW_REHEARSE_MINUTES_MIN);
    const struct aw__pilot_memory *memory = &b.pilot->memory;
    assert_int_equal(memory->minute_count - memory->minute_first, AW_REHEARSE_MINUTES_MIN);
    assert_true(aw_capacity_of(&b.pilot->policy)->memory.lived.high_load <
                0.3 * high); /* no reserve for what is gone */
    for (uint32_t t = 0; t < 2 * EPISODE; t++)
        bench_tick(&b);
    assert_true(aw_capacity_of(&b.pilot->policy)->memory.rehearsed_load < 0.3 * high);
    bench_end(&b);
}

AW_TEST_GROUP("pilot-drift")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_beyond_all_that_was_seen_for_half_an_hour_is_another_load),
        cmocka_unit_test(dearer_requests_are_noticed_in_steps_and_searched_for_in_episodes),
        cmocka_unit_test(after_a_jump_policies_are_tried_on_the_new_load_alone),
    };
    return cmocka_run_group_tests_name("pilot-drift", tests, NULL, NULL);
}
