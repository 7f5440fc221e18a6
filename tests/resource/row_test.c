/*
 * row_test.c - resources that more.h adds by a row each, and what holds for them without a line of
 * code: bounds, steps, cool-downs, budgets, figures, freezes, modes.
 *
 * A small cluster of its own carries plans out; its `apply` is all that a new resource needs. What
 * must hold is worked out here from a log of what happened, not by the guard's means.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "base/units.h"
#include "safety/guard.h"
#include "safety/limits.h"

#define S     INT64_C(1000000)
#define TICKS 20000u
#define NEW   (AW_PLAN_DISK | AW_PLAN_CLOCK | AW_PLAN_HUGE)

_Static_assert(AW_RESOURCES == 6, "three rows came with more.h");
_Static_assert((NEW & AW_PLAN_COMMON) == 0 && (NEW & AW_PLAN_SIZES) == NEW,
               "sizes, not everywhere");
_Static_assert((NEW & AW_PLAN_RESTARTS) == AW_PLAN_HUGE, "one of them restarts replicas");

static const struct aw_bounds bounds = {
    .min = {1, 100, 64 * AW_MIB, 1 * AW_MIB, 800, 2 * AW_MIB},
    .max = {20, 4000, 4096 * AW_MIB, 512 * AW_MIB, 3600, 1024 * AW_MIB},
};

/* --- a cluster that has them ------------------------------------------------------------------ */

struct rack {
    struct aw_sample sample;
    int64_t now_us;
};

static enum aw_err rack_observe(void *self, uint32_t workload, int64_t deadline_us,
                                struct aw_sample *ret_sample)
{
    struct rack *rack = self;
    (void)workload, (void)deadline_us;
    rack->sample.at_us = rack->now_us;
    *ret_sample = rack->sample;
    return AW_OK;
}

static enum aw_err rack_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                              int64_t deadline_us)
{
    struct rack *rack = self;
    (void)workload, (void)deadline_us;
    const struct aw_plan now = aw_plan_of(rack->sample.wanted), next = aw_plan_over(plan, &now);
    memcpy(rack->sample.wanted, next.amount, sizeof next.amount);
    return AW_OK;
}

/* --- the walk --------------------------------------------------------------------------------- */

struct deed {
    int64_t at_us;
    int64_t before[AW_RESOURCES], after[AW_RESOURCES];
};

struct walk {
    struct aw_guard guard;
    struct aw_guard_memory memory;
    struct aw_guard_input input;
    struct aw_reading reading;
    struct rack rack;
    struct deed deed[TICKS];
    uint32_t deeds;
};

static int64_t any(struct aw_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)aw_rng_below(rng, (uint32_t)(high - low) + 1);
}

static void figure(struct aw_figure *figure, struct walk *w, struct aw_rng *rng, double value)
{
    const bool known = aw_rng_below(rng, 50) != 0;
    *figure =
        (struct aw_figure){.value = known ? value : 0, .at_us = known ? w->rack.now_us : AW_NEVER};
}

static void walk_begin(struct walk *w)
{
    struct aw_guard_settings settings;
    memset(w, 0, sizeof *w);
    aw_conf_defaults(aw_guard_fields, &settings);
    settings.mode = AW_GUARD_AUTO;
    settings.change_factor = 3; /* less than two steps down, so that it is felt */
    settings.disk_up_factor = settings.clock_up_factor = settings.huge_up_factor = 1.5;
    assert_ok(aw_guard_init(&w->guard, &settings, &bounds, NULL));
    aw_guard_begin(&w->memory);
    w->input.reading = &w->reading;
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        w->rack.sample.wanted[r] = bounds.min[r] + (bounds.max[r] - bounds.min[r]) / 3;
    w->rack.sample.replicas_ready = (uint32_t)w->rack.sample.replicas_wanted;
}

static void look(struct walk *w, struct aw_rng *rng)
{
    struct aw_sample sample;
    figure(&w->rack.sample.cpu_cores_used, w, rng, 0.01 * (double)aw_rng_below(rng, 300));
    figure(&w->rack.sample.memory_bytes_used, w, rng, (double)any(rng, 1, 32 * AW_MIB));
    assert_ok(rack_observe(&w->rack, 0, INT64_MAX, &sample));
    aw_reading_take(&sample, 60 * S, 0.99, &w->reading);
    w->input.slo = (enum aw_guard_slo)(aw_rng_below(rng, 20) ? 0 : 1 + aw_rng_below(rng, 2));
    w->input.freeze = (enum aw_guard_freeze)(aw_rng_below(rng, 30) ? 0 : 1 + aw_rng_below(rng, 2));
    w->input.uncontrolled = aw_rng_below(rng, 10) ? 0 : aw_rng_below(rng, AW_PLAN_ALL + 1);
    aw_guard_observe(&w->guard, &w->memory, &w->input, w->rack.now_us);
}

/* Of all that was done within the last `window` seconds: how often a size changed, and the least
 * and the most that resource `r` has been. */
struct past {
    int64_t low, high;
    uint32_t sizes, restarts;
};

static struct past past_of(const struct walk *w, uint32_t r, double window)
{
    struct past past = {.low = w->reading.wanted[r], .high = w->reading.wanted[r]};
    for (uint32_t i = w->deeds; i-- > 0;) {
        const struct deed *deed = &w->deed[i];
        if (w->rack.now_us - deed->at_us >= (int64_t)(window * 1e6))
            break;
        const uint32_t differs = aw_plan_differs(deed->before, deed->after);
        past.sizes += (differs & AW_PLAN_SIZES) != 0;
        past.restarts += (differs & AW_PLAN_RESTARTS) != 0;
        for (uint32_t k = 0; k < 2; k++) {
            const int64_t amount = k ? deed->before[r] : deed->after[r];
            past.low = amount < past.low ? amount : past.low;
            past.high = amount > past.high ? amount : past.high;
        }
    }
    return past;
}

/* A resource that has no code of its own anywhere. */
static void check_new(const struct walk *w, const struct aw_guard_result *result, uint32_t r)
{
    const struct aw_guard_settings *s = &w->guard.settings;
    const int64_t was = w->reading.wanted[r], is = result->plan.amount[r];
    const double used = aw_resource_table[r].use == AW_USE_CPU ? w->reading.cpu_cores_used
                                                               : w->reading.memory_bytes_used;
    if (!(result->plan.set & AW_PLAN_BIT(r))) {
        assert_int_equal(is, was);
        return;
    }
    assert_true(is >= bounds.min[r] && is <= bounds.max[r]);
    assert_false(w->input.uncontrolled & AW_PLAN_BIT(r));
    assert_int_not_equal(w->input.freeze, AW_GUARD_FREEZE_ALL);
    assert_true((double)is <= (double)was * s->up_factor[r]);
    assert_true((double)is >= (double)was / s->down_factor[r]);
    const struct past range = past_of(w, r, s->change_window);
    assert_true((double)is * s->change_factor >= (double)range.high);
    const bool restarts = AW_PLAN_RESTARTS & AW_PLAN_BIT(r);
    const uint32_t spent = past_of(w, r, s->restart_window).restarts;
    if (is > was) {
        const bool calm = w->input.slo != AW_GUARD_SLO_MISSED && r != AW_RESOURCE_HUGE &&
                          !(w->reading.cpu_utilisation > s->pressure);
        assert_true(!calm || past_of(w, r, s->size_up_cooldown).sizes == 0);
        assert_true(!calm || (double)is <= (double)range.low * s->change_factor);
        assert_true(!restarts || spent < s->restart_count);
    } else {
        assert_false(isnan(used));
        assert_int_equal(w->input.slo == AW_GUARD_SLO_UNKNOWN, false);
        assert_int_equal(w->input.freeze, AW_GUARD_FREEZE_NONE);
        assert_int_equal(past_of(w, r, s->size_down_cooldown).sizes, 0);
        assert_true(!restarts || spent < (s->restart_count + 1) / 2);
    }
}

static void a_row_is_held_by_every_rail(void **state)
{
    (void)state;
    static struct walk w;
    struct aw_rng rng;
    uint32_t grown[AW_RESOURCES] = {0}, shrunk[AW_RESOURCES] = {0};
    aw_rng_init(&rng, 7, 0);
    walk_begin(&w);
    for (uint32_t t = 0; t < TICKS; t++) {
        w.rack.now_us += any(&rng, 5, 60) * S;
        look(&w, &rng);
        struct aw_plan plan = {.set = aw_rng_below(&rng, AW_PLAN_ALL + 1)};
        for (uint32_t r = 0; r < AW_RESOURCES; r++)
            plan.amount[r] = aw_rng_below(&rng, 2)   ? any(&rng, bounds.min[r], bounds.max[r])
                             : aw_rng_below(&rng, 2) ? bounds.max[r] + 1
                                                     : bounds.min[r] / 2;
        struct aw_guard_result result, again;
        aw_guard_pass(&w.guard, &w.memory, &w.input, &plan, w.rack.now_us, &result);
        for (uint32_t r = AW_RESOURCE_DISK; r < AW_RESOURCES; r++)
            check_new(&w, &result, r);
        aw_guard_pass(&w.guard, &w.memory, &w.input, &result.recommended, w.rack.now_us, &again);
        assert_memory_equal(&again.recommended, &result.recommended, sizeof result.plan);
        if (result.plan.set == 0)
            continue;
        struct deed *deed = &w.deed[w.deeds++];
        *deed = (struct deed){.at_us = w.rack.now_us};
        memcpy(deed->before, w.rack.sample.wanted, sizeof deed->before);
        assert_ok(rack_apply(&w.rack, 0, &result.plan, INT64_MAX));
        memcpy(deed->after, w.rack.sample.wanted, sizeof deed->after);
        aw_guard_applied(&w.guard, &w.memory, &result.plan, w.rack.now_us);
        w.rack.sample.replicas_ready = (uint32_t)w.rack.sample.replicas_wanted;
        for (uint32_t r = 0; r < AW_RESOURCES; r++) {
            grown[r] += deed->after[r] > deed->before[r];
            shrunk[r] += deed->after[r] < deed->before[r];
        }
    }
    for (uint32_t r = AW_RESOURCE_DISK; r < AW_RESOURCES; r++) /* the rails let it live */
        assert_true(grown[r] > 50 && shrunk[r] > 50);
}

/* --- what people see and set ------------------------------------------------------------------ */

static void a_row_has_settings_words_and_bounds(void **state)
{
    (void)state;
    struct aw_guard_settings settings;
    struct aw_bounds wrong = bounds;
    struct aw_diag diag = {0};
    aw_conf_defaults(aw_guard_fields, &settings);
    assert_ok(aw_conf_set_pair(aw_guard_fields, &settings, "clock_up_factor=1.5", &diag));
    assert_float_equal(settings.up_factor[AW_RESOURCE_CLOCK], 1.5, 0);
    assert_float_equal(settings.disk_down_factor, 2, 0);
    wrong.clock_mhz_max = 700;
    assert_int_equal(aw_bounds_check(&wrong, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "clock of a replica in MHz"));
    struct aw_plan plan = {.clock_mhz = 9000, .disk_bytes_per_s = 1};
    aw_bounds_clip(&bounds, &plan);
    assert_int_equal(plan.clock_mhz, 3600);
    assert_int_equal(plan.disk_bytes_per_s, AW_MIB);
}

static void a_rail_is_named_with_the_row(void **state)
{
    (void)state;
    static struct walk w;
    struct aw_guard_result result;
    char text[AW_GUARD_TEXT_MAX];
    walk_begin(&w);
    memcpy(w.reading.wanted, w.rack.sample.wanted, sizeof w.reading.wanted);
    w.input.node.clock_mhz = 2000;
    const struct aw_plan plan = {.set = AW_PLAN_CLOCK, .clock_mhz = 3000};
    aw_guard_pass(&w.guard, &w.memory, &w.input, &plan, S, &result);
    assert_int_equal(result.plan.clock_mhz, 2000);
    assert_non_null(strstr(aw_guard_clips_format(&result, text, sizeof text), "clock: node"));
}

/* A cluster that has no such resource: its bounds are 0 and 0, and nothing is ever asked for. */
static void a_row_that_is_not_there_is_left_alone(void **state)
{
    (void)state;
    static struct walk w;
    struct aw_guard_result result;
    walk_begin(&w);
    for (uint32_t r = AW_RESOURCE_DISK; r < AW_RESOURCES; r++)
        w.guard.bounds.min[r] = w.guard.bounds.max[r] = w.rack.sample.wanted[r] = 0;
    assert_ok(aw_bounds_check(&w.guard.bounds, NULL));
    memcpy(w.reading.wanted, w.rack.sample.wanted, sizeof w.reading.wanted);
    struct aw_plan plan = {.set = AW_PLAN_ALL};
    memcpy(plan.amount, bounds.max, sizeof plan.amount);
    aw_guard_pass(&w.guard, &w.memory, &w.input, &plan, S, &result);
    assert_true(result.plan.set & AW_PLAN_CPU);
    assert_int_equal(result.plan.set & NEW, 0);
    assert_true(result.axis_clips[AW_RESOURCE_DISK] & AW_CLIP_BIT(AW_CLIP_UNCONTROLLED));
    /* the deadband of the others is as it was */
    plan =
        (struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = w.reading.cpu_millicores_wanted + 1};
    aw_guard_pass(&w.guard, &w.memory, &w.input, &plan, S, &result);
    assert_int_equal(result.plan.set, 0);
    assert_true(result.clips & AW_CLIP_BIT(AW_CLIP_DEADBAND));
}

AW_TEST_GROUP("rows")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_held_by_every_rail),
        cmocka_unit_test(a_row_has_settings_words_and_bounds),
        cmocka_unit_test(a_rail_is_named_with_the_row),
        cmocka_unit_test(a_row_that_is_not_there_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
