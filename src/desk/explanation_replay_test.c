/* explanation_replay_test.c - decisions taken again: over whole runs, byte for byte. */
#include "base/units.h"
#include "desk/explanation_testing.h"

static struct aw_explanation_snapshot moment_of(const struct aw_bench *b, uint32_t workload,
                                                const struct aw_decision *d, const void *bytes,
                                                size_t size)
{
    return (struct aw_explanation_snapshot){.config = &b->config[workload],
                                            .task = &b->task[workload],
                                            .bytes = bytes,
                                            .size = size,
                                            .orders = &d->orders,
                                            .at_us = d->at_us};
}

/* From nothing but what a journal keeps: texts and bytes. */
static void again(struct aw_bench *b, uint32_t workload, const struct aw_decision *d,
                  const void *bytes, size_t size)
{
    char *recorded = aw_explanation_text(&b->config[workload], d);
    char *settings = aw_explanation_config_text(&b->config[workload], &b->task[workload]);
    assert_non_null(recorded);
    assert_non_null(settings);
    struct aw_pilot_config config;
    struct aw_fallback_task task;
    struct aw_diag diag = {0};
    if (aw_explanation_config_read(settings, &config, &task, &diag))
        fail_msg("%s", diag.text);
    const struct aw_explanation_snapshot moment = {.config = &config,
                                                   .task = &task,
                                                   .bytes = bytes,
                                                   .size = size,
                                                   .orders = &d->orders,
                                                   .at_us = d->at_us};
    char *now = NULL;
    if (aw_explanation_replay(&moment, NULL, &now, &diag))
        fail_msg("tick %u of %s: %s", b->ticks, b->config[workload].name, diag.text);
    if (strcmp(recorded, now) != 0)
        fail_msg("tick %u of %s is not the same again:\n%s\n%s", b->ticks, b->config[workload].name,
                 recorded, now);
    free(now);
    free(settings);
    free(recorded);
}

static void every_decision_is_the_same_again(void **state)
{
    (void)state;
    static struct aw_bench b;
    aw_bench_prepare(&b);
    b.decided = again;
    aw_bench_begin(&b);
    aw_bench_run(&b, 30 * AW_BENCH_EPISODE);
    const struct aw_bench_seen *seen = &b.seen;
    print_message("# %u decisions, %u changes, %u notable; clips %x\n", seen->decisions,
                  seen->changes, seen->notable, seen->clips);
    assert_int_equal(seen->stages,
                     1u << AW_STAGE_OFFLINE | 1u << AW_STAGE_ONLINE | 1u << AW_STAGE_SERVING);
    assert_int_equal(seen->actors, 1u << AW_ACTOR_FALLBACK | 1u << AW_ACTOR_AGENT |
                                       1u << AW_ACTOR_EXPLORING | 1u << AW_ACTOR_PERSON);
    assert_int_equal(seen->verdicts, 7);
    assert_true(seen->changes > 100);
    assert_true(seen->silent > 10 && seen->missing > 10 && seen->homing > 0 && seen->moved > 8);
    assert_true(seen->frozen > 50 && seen->pinned > 20 && seen->floored > 50);
    assert_true(seen->canaries > 0);
    const uint32_t rails = AW_CLIP_BIT(AW_CLIP_NO_DATA) | AW_CLIP_BIT(AW_CLIP_OOM_FLOOR) |
                           AW_CLIP_BIT(AW_CLIP_CRASH_LOOP) | AW_CLIP_BIT(AW_CLIP_ROLLOUT) |
                           AW_CLIP_BIT(AW_CLIP_STEP) | AW_CLIP_BIT(AW_CLIP_COOL_DOWN) |
                           AW_CLIP_BIT(AW_CLIP_WORKING_SET) | AW_CLIP_BIT(AW_CLIP_DEADBAND) |
                           AW_CLIP_BIT(AW_CLIP_FREEZE);
    assert_int_equal(seen->clips & rails, rails);
    aw_bench_end(&b);
}

static void modes_and_presets_are_the_same_again(void **state)
{
    (void)state;
    static struct aw_bench b;
    aw_bench_prepare(&b);
    b.decided = again;
    b.config[0].guard.mode = AW_GUARD_OFF;
    b.config[1].guard.mode = AW_GUARD_APPROVE;
    b.config[1].slo.quantile = 0.5;
    b.config[2].guard.mode = AW_GUARD_INITIAL;
    b.config[2].state = AW_STATE_PAPER;
    b.config[2].mapping = AW_ACTION_ABSOLUTE;
    b.config[2].objective = AW_OBJECTIVE_PAPER;
    b.config[2].lifecycle.bootstrap = false;
    b.config[3].learning = false;
    b.config[3].controlled = AW_PLAN_REPLICAS;
    b.config[3].node.cpu_millicores = 700;
    aw_bench_begin(&b);
    aw_bench_run(&b, 10 * AW_BENCH_EPISODE);
    const uint32_t rails =
        AW_CLIP_BIT(AW_CLIP_MODE) | AW_CLIP_BIT(AW_CLIP_FREEZE) | AW_CLIP_BIT(AW_CLIP_NODE);
    assert_int_equal(b.seen.clips & rails, rails);
    aw_bench_end(&b);
}

/* Every answer takes longer than the one before, up to three seconds, and then begins anew. */
static int64_t slower_us(void *self)
{
    int64_t *calls = self, us = 0;
    ++*calls;
    for (int64_t i = 0; i <= *calls; i++)
        us += 40000 + 60000 * (i % 50);
    return us;
}

static uint32_t late;

static void again_and_late(struct aw_bench *b, uint32_t workload, const struct aw_decision *d,
                           const void *bytes, size_t size)
{
    assert_true(d->took_s > 0);
    late += d->watchdog.cause == AW_WATCHDOG_CAUSE_DEADLINE;
    if (d->watchdog.cause == AW_WATCHDOG_CAUSE_DEADLINE)
        assert_int_equal(d->in_charge, AW_ACTOR_FALLBACK);
    again(b, workload, d, bytes, size);
}

static void what_came_too_late_is_late_again(void **state)
{
    (void)state;
    static struct aw_bench b;
    int64_t calls = 0;
    const struct aw_clock clock = {.now_us = slower_us, .monotonic_us = slower_us, .self = &calls};
    aw_bench_prepare(&b);
    for (uint32_t i = 0; i < AW_BENCH_WORKLOADS; i++)
        b.config[i].lifecycle.bootstrap = false;
    b.decided = again_and_late;
    b.clock = &clock;
    b.calm = true;
    late = 0;
    aw_bench_begin(&b);
    aw_bench_run(&b, 12 * AW_BENCH_EPISODE);
    print_message("# %u trips\n", late);
    assert_true(late > 3);
    aw_bench_end(&b);
}

/* --- one moment, looked at closely ------------------------------------------------------------ */

#define KEPT_MAX 400000u

struct kept {
    uint32_t workload, tick; /* which is wanted */
    bool growing;            /* or, of that workload, the first with more replicas */
    struct aw_decision decision;
    struct aw_explanation_snapshot moment;
    unsigned char bytes[KEPT_MAX];
};

static void keep(struct aw_bench *b, uint32_t workload, const struct aw_decision *d,
                 const void *bytes, size_t size)
{
    struct kept *kept = b->ctx;
    if (workload != kept->workload ||
        (kept->growing
             ? kept->moment.size > 0 || d->guard.proposed.replicas <= d->reading.replicas_wanted
             : b->ticks != kept->tick))
        return;
    assert_true(size <= sizeof kept->bytes);
    memcpy(kept->bytes, bytes, size);
    kept->decision = *d;
    kept->moment = moment_of(b, workload, &kept->decision, kept->bytes, size);
}

/* A moment of one workload after so many ticks of days without anything bad. */
static void keep_one(struct aw_bench *b, struct kept *kept, uint32_t workload, uint32_t tick)
{
    b->calm = true;
    b->decided = keep;
    b->ctx = kept;
    kept->workload = workload;
    kept->tick = tick;
    kept->moment.size = 0;
    aw_bench_begin(b);
    aw_bench_run(b, tick + 1);
    assert_true(kept->moment.size > 0);
}

static struct aw_bench bench;
static struct kept kept_one;

static void a_moment_that_is_none_is_refused(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    keep_one(&bench, &kept_one, 0, 40);
    char *text = NULL;
    struct aw_diag diag = {0};
    struct aw_explanation_snapshot moment = kept_one.moment;
    static const size_t cut[] = {0, 1, 7, 8, 100, 5000};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        moment.size = cut[i];
        assert_int_equal(aw_explanation_replay(&moment, NULL, &text, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, "no moment of it"));
    }
    moment = kept_one.moment;
    moment.size--;
    assert_int_equal(aw_explanation_replay(&moment, NULL, &text, &diag), AW_ERR_FORMAT);
    moment = kept_one.moment;
    moment.config = &bench.config[1]; /* another fallback, so another state */
    assert_int_equal(aw_explanation_replay(&moment, NULL, &text, &diag), AW_ERR_FORMAT);
    struct aw_explanation_push pushes[AW_EXPLANATION_PUSHES_MAX];
    uint32_t count = 77;
    assert_int_equal(aw_explanation_pushes(&moment, NULL, pushes, &count, &diag), AW_ERR_FORMAT);
    assert_int_equal(count, 77);
    kept_one.bytes[0] ^= 1;
    assert_int_equal(aw_explanation_replay(&kept_one.moment, NULL, &text, &diag), AW_ERR_FORMAT);
    assert_null(text);
    aw_bench_end(&bench);
}

static void want_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    keep_one(&bench, &kept_one, 2, 30);
    struct aw_alloc_counting counting;
    uint64_t n = 0;
    for (enum aw_err err = AW_ERR_NOMEM; err; n++) {
        char *text = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_explanation_replay(&kept_one.moment, &counting.alloc, &text, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_true((text != NULL) == (err == AW_OK));
        free(text);
        assert_true(n < 100);
    }
    assert_true(n > 3);
    aw_bench_end(&bench);
}

/* --- what moved it ---------------------------------------------------------------------------- */

static const struct aw_explanation_push *of(const struct aw_explanation_push *pushes,
                                            uint32_t count, const char *input)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(pushes[i].input, input) == 0)
            return &pushes[i];
    fail_msg("no push of %s", input);
    return NULL;
}

static void an_hpa_is_moved_by_cpu_and_by_nothing_else(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    bench.config[1].learning = false;
    kept_one.growing = true;
    keep_one(&bench, &kept_one, 1, 60);
    kept_one.growing = false;
    struct aw_explanation_push pushes[AW_EXPLANATION_PUSHES_MAX];
    uint32_t count = 0;
    assert_ok(aw_explanation_pushes(&kept_one.moment, NULL, pushes, &count, NULL));
    assert_int_equal(count, AW_INPUT_COUNT);
    assert_string_equal(pushes[0].input, "cpu_cores_used");
    assert_true(pushes[0].effect > 0);
    assert_true(pushes[0].more.replicas >= pushes[0].less.replicas);
    assert_close(pushes[0].value, kept_one.decision.reading.cpu_cores_used, 0);
    for (uint32_t i = 1; i < count; i++)
        assert_true(pushes[i].effect == 0);
    aw_bench_end(&bench);
}

static void a_capacity_rule_is_moved_by_its_load(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    bench.config[0].lifecycle.bootstrap = false; /* it acts from the first tick */
    bench.config[0].watchdog.slack = 500;
    bench.config[0].seed = 6; /* numbers that ask for some two dozen replicas */
    /* small replicas, and room for many: how many follows the load closely */
    bench.config[0].bounds =
        (struct aw_bounds){.min = {1, 100, 128 * AW_MIB}, .max = {40, 300, 4096 * AW_MIB}};
    bench.task[0].bounds = bench.config[0].bounds;
    bench.task[0].replicas = 10;
    bench.task[0].cpu_millicores = 300;
    keep_one(&bench, &kept_one, 0, 30);
    assert_int_equal(kept_one.decision.actor, AW_ACTOR_AGENT);
    struct aw_explanation_push pushes[AW_EXPLANATION_PUSHES_MAX];
    uint32_t count = 0;
    assert_ok(aw_explanation_pushes(&kept_one.moment, NULL, pushes, &count, NULL));
    assert_true(of(pushes, count, "arrivals_per_s")->effect > 0);
    assert_true(of(pushes, count, "cpu_cores_used")->effect > 0);    /* what a request costs */
    assert_true(of(pushes, count, "completions_per_s")->effect < 0); /* goes by both */
    assert_true(of(pushes, count, "disk_bytes_per_s")->effect == 0);
    for (uint32_t i = 1; i < count; i++)
        assert_true(fabs(pushes[i].effect) <= fabs(pushes[i - 1].effect));
    aw_bench_end(&bench);
}

static void a_missing_figure_pushes_nothing_and_predicts_nothing(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    keep_one(&bench, &kept_one, 0, 20);
    aw_bench_end(&bench);
    aw_bench_prepare(&bench);
    bench.decided = keep;
    bench.ctx = &kept_one;
    kept_one.tick = 69; /* the load is not a number then */
    aw_bench_begin(&bench);
    aw_bench_run(&bench, 70);
    struct aw_explanation_push pushes[AW_EXPLANATION_PUSHES_MAX];
    uint32_t count = 0;
    assert_ok(aw_explanation_pushes(&kept_one.moment, NULL, pushes, &count, NULL));
    const struct aw_explanation_push *load = of(pushes, count, "arrivals_per_s");
    assert_true(isnan(load->value) && load->effect == 0);
    struct aw_pilot_forecast forecast;
    assert_ok(aw_explanation_predict(&kept_one.moment, NULL, &forecast, NULL));
    assert_true(isnan(forecast.latency_us_before) && isnan(forecast.latency_us_after));
    assert_string_equal(forecast.why, "the load was not known");
    aw_bench_end(&bench);
}

/* --- what comes of it ------------------------------------------------------------------------- */

static void more_room_is_predicted_to_be_faster(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    keep_one(&bench, &kept_one, 0, 3 * AW_BENCH_EPISODE);
    struct aw_pilot_forecast as_is, more, none;
    assert_ok(aw_explanation_predict(&kept_one.moment, NULL, &as_is, NULL));
    assert_string_equal(as_is.why, "");
    assert_true(as_is.latency_us_before > 0 && isfinite(as_is.error));
    /* within what the copy is off by, it says what was measured */
    assert_true(fabs(log(as_is.latency_us_before / kept_one.decision.score.latency_us_slo)) < 0.7);

    struct aw_orders pinned = {
        .pin_kind = AW_ORDER_APPROVE,
        .pin_id = 1,
        .pin = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU, .replicas = 10, .cpu_millicores = 4000}};
    kept_one.moment.orders = &pinned;
    assert_ok(aw_explanation_predict(&kept_one.moment, NULL, &more, NULL));
    assert_true(more.latency_us_after < more.latency_us_before);
    pinned.pin = (struct aw_plan){
        .set = AW_PLAN_REPLICAS | AW_PLAN_CPU, .replicas = 1, .cpu_millicores = 100};
    bench.config[0].guard.cpu_margin = 0;
    assert_ok(aw_explanation_predict(&kept_one.moment, NULL, &none, NULL));
    assert_true(none.latency_us_after > none.latency_us_before);
    aw_bench_end(&bench);
}

static void where_there_is_no_copy_it_says_why(void **state)
{
    (void)state;
    struct aw_pilot_forecast forecast;
    aw_bench_prepare(&bench);
    keep_one(&bench, &kept_one, 2, 30);
    assert_ok(aw_explanation_predict(&kept_one.moment, NULL, &forecast, NULL));
    assert_true(isnan(forecast.latency_us_before) && isnan(forecast.latency_us_after));
    assert_non_null(strstr(forecast.why, "learns from its record"));
    aw_bench_end(&bench);
}

static void the_detail_has_it_all(void **state)
{
    (void)state;
    aw_bench_prepare(&bench);
    keep_one(&bench, &kept_one, 0, 10 * AW_BENCH_EPISODE);
    char *recorded = aw_explanation_text(&bench.config[0], &kept_one.decision);
    json_t *detail = NULL;
    assert_ok(aw_explanation_detail(&kept_one.moment, recorded, NULL, &detail, NULL));
    assert_true(json_is_true(json_object_get(detail, "replayed")));
    assert_int_equal(json_array_size(json_object_get(detail, "reasons")), AW_INPUT_COUNT);
    assert_int_equal(json_object_size(json_object_get(detail, "policy")), AW_CAPACITY_RULE_DIM);
    const json_t *after = json_object_get(json_object_get(detail, "predicted"), "after");
    assert_true(json_is_number(json_object_get(after, "cost_per_hour")));
    assert_true(json_is_boolean(json_object_get(after, "slo_met")));
    json_decref(detail);
    recorded[10] ^= 1; /* a record that was tampered with is found */
    assert_ok(aw_explanation_detail(&kept_one.moment, recorded, NULL, &detail, NULL));
    assert_true(json_is_false(json_object_get(detail, "replayed")));
    json_decref(detail);
    free(recorded);
    aw_bench_end(&bench);
}

AW_TEST_GROUP("explanation-replay")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_decision_is_the_same_again),
        cmocka_unit_test(modes_and_presets_are_the_same_again),
        cmocka_unit_test(what_came_too_late_is_late_again),
        cmocka_unit_test(a_moment_that_is_none_is_refused),
        cmocka_unit_test(want_of_memory_is_an_error_and_leaks_nothing),
        cmocka_unit_test(an_hpa_is_moved_by_cpu_and_by_nothing_else),
        cmocka_unit_test(a_capacity_rule_is_moved_by_its_load),
        cmocka_unit_test(a_missing_figure_pushes_nothing_and_predicts_nothing),
        cmocka_unit_test(more_room_is_predicted_to_be_faster),
        cmocka_unit_test(where_there_is_no_copy_it_says_why),
        cmocka_unit_test(the_detail_has_it_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
