/* guard_walk_test.c - all rails at once under random walks, against a twin that keeps everything
 * that has happened and judges by exact windows. */
#include "safety/guard.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "base/units.h"

#define S INT64_C(1000000)
#define R AW_PLAN_REPLICAS
#define C AW_PLAN_CPU
#define M AW_PLAN_MEMORY

static const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                        .max = {20, 4000, 4096 * AW_MIB}};

static struct aw_guard make(void)
{
    struct aw_guard_settings settings;
    struct aw_guard guard;
    aw_conf_defaults(aw_guard_fields, &settings);
    settings.mode = AW_GUARD_AUTO;
    assert_ok(aw_guard_init(&guard, &settings, &bounds, NULL));
    return guard;
}

/* 4 replicas of 1 core and 1 GiB, calm: 1 core in all and 300 MiB in each are used. */
static struct aw_reading calm(void)
{
    return (struct aw_reading){.replicas_wanted = 4,
                               .replicas_ready = 4,
                               .cpu_millicores_wanted = 1000,
                               .memory_bytes_wanted = 1024 * AW_MIB,
                               .cpu_cores_used = 1,
                               .memory_bytes_used = 250.0 * AW_MIB,
                               .memory_bytes_peak = 300.0 * AW_MIB,
                               .cpu_utilisation = 0.25,
                               .memory_utilisation = 0.25};
}

#define LOG_MAX 1024
#define LONGEST (3600 * S) /* window of all */

struct entry {
    int64_t at_us;
    int64_t wanted[AW_RESOURCES];
    double cores, bytes; /* NAN: missing */
    uint32_t kills;
    bool resized;
};
struct twin {
    struct entry log[LOG_MAX];
    size_t count;
};

static struct entry *twin_add(struct twin *twin, int64_t at_us)
{
    if (twin->count == LOG_MAX) {
        memmove(twin->log, twin->log + LOG_MAX / 2, LOG_MAX / 2 * sizeof *twin->log);
        twin->count = LOG_MAX / 2;
    }
    twin->log[twin->count] = (struct entry){.at_us = at_us, .cores = NAN, .bytes = NAN};
    return &twin->log[twin->count++];
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static double odd_number(struct aw_rng *rng)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e300, 1e-300, 1e18};
    return odd[aw_rng_below(rng, sizeof odd / sizeof *odd)];
}

static int64_t any_amount(struct aw_rng *rng, int64_t low, int64_t high)
{
    static const int64_t odd[] = {0, -1, INT64_MIN, INT64_MAX, 1, INT64_C(1) << 40};
    uint64_t kind = aw_rng_below(rng, 20);
    if (kind == 0)
        return odd[aw_rng_below(rng, sizeof odd / sizeof *odd)];
    double unit = (double)aw_rng_float(rng) * 1.4 - 0.2;
    return (int64_t)((double)low * pow((double)high / (double)low, unit));
}

static bool chance(struct aw_rng *rng, double share)
{
    return (double)aw_rng_float(rng) < share;
}

struct walk {
    struct aw_guard guard;
    struct aw_guard_memory memory;
    struct aw_reading reading;
    struct aw_guard_input input;
    int64_t now_us;
    struct twin twin;
};

/* What each rail cut adds up to what came out, and no rail is named for nothing. */
static void check_cuts(const struct aw_guard_result *result)
{
    const int64_t *out = result->plan.amount;
    uint32_t named[AW_RESOURCES] = {0};
    int64_t left[AW_RESOURCES] = {0};
    for (uint32_t i = 0; i < result->cut_count; i++) {
        const struct aw_guard_cut *cut = &result->cut[i];
        named[cut->axis] |= AW_CLIP_BIT(cut->clip);
        left[cut->axis] = cut->to;
    }
    assert_true(result->cut_count <= AW_GUARD_CUTS_MAX);
    for (uint32_t i = 0; i < AW_RESOURCES && result->cut_count < AW_GUARD_CUTS_MAX; i++) {
        assert_int_equal(named[i], result->axis_clips[i]);
        if (named[i])
            assert_int_equal(left[i], out[i]);
    }
}

/* What the twin says of a result, looking at its whole log. */
static void check(const struct walk *w, const struct aw_guard_result *result)
{
    const struct aw_guard_settings *s = &w->guard.settings;
    const struct aw_bounds *b = &w->guard.bounds;
    const int64_t low[] = {b->replicas_min, b->cpu_millicores_min, b->memory_bytes_min};
    const int64_t high[] = {b->replicas_max, b->cpu_millicores_max, b->memory_bytes_max};
    const int64_t was[] = {w->reading.replicas_wanted, w->reading.cpu_millicores_wanted,
                           w->reading.memory_bytes_wanted};
    const int64_t is[] = {result->plan.replicas, result->plan.cpu_millicores,
                          result->plan.memory_bytes};
    const int64_t node[] = {INT64_MAX, w->input.node.cpu_millicores, w->input.node.memory_bytes};

    double cores = 0, bytes = 0;
    int64_t floor = 0, range_low[3], range_high[3];
    int64_t size_age = INT64_MAX, replicas_age = INT64_MAX;
    uint32_t restarts = 0;
    memcpy(range_low, was, sizeof was);
    memcpy(range_high, was, sizeof was);
    for (size_t i = w->twin.count; i-- > 0;) {
        const struct entry *e = &w->twin.log[i], *before = i ? e - 1 : e;
        const int64_t age = w->now_us - e->at_us;
        if (age > LONGEST)
            break;
        if (age <= (int64_t)(s->peak_window * 1e6)) {
            cores = fmax(cores, e->cores);
            bytes = fmax(bytes, e->bytes);
        }
        if (e->wanted[1] != before->wanted[1] || e->wanted[2] != before->wanted[2])
            size_age = age < size_age ? age : size_age;
        if (e->wanted[0] != before->wanted[0])
            replicas_age = age < replicas_age ? age : replicas_age;
        restarts += e->resized && age < (int64_t)(s->restart_window * 1e6);
        if (e->kills && age <= (int64_t)(s->oom_hold * 1e6))
            floor = 1; /* there was one: the amount is checked by its own tests */
        for (int k = 0; k < 3 && age <= (int64_t)(s->change_window * 1e6); k++) {
            range_low[k] = e->wanted[k] < range_low[k] ? e->wanted[k] : range_low[k];
            range_high[k] = e->wanted[k] > range_high[k] ? e->wanted[k] : range_high[k];
        }
    }
    const bool pressed =
        w->input.slo == AW_GUARD_SLO_MISSED || w->reading.cpu_utilisation > s->pressure;
    assert_int_equal(result->plan.set & (~7u | w->input.uncontrolled), 0);
    if (w->input.freeze == AW_GUARD_FREEZE_ALL || s->mode == AW_GUARD_OFF)
        assert_int_equal(result->plan.set, 0);
    for (int k = 0; k < 3; k++) {
        if (!(result->plan.set & (1u << k))) {
            assert_int_equal(is[k], was[k]);
            continue;
        }
        assert_true(is[k] >= low[k] && is[k] <= high[k]);
        if (node[k] > 0)
            assert_true(is[k] <= (node[k] > low[k] ? node[k] : low[k]));
        /* what bounds and nodes force upon it; a kill's floor only raises */
        int64_t forced = clamp(was[k], low[k], high[k]);
        if (node[k] > 0 && forced > node[k])
            forced = node[k] > low[k] ? node[k] : low[k];
        const bool shrinks = is[k]<forced, grows = is[k]> forced;
        const bool by_kill = k == 2 && floor;
        const double figure = k == 2 ? w->reading.memory_bytes_peak : w->reading.cpu_cores_used;
        if (shrinks) {
            assert_true(isfinite(figure) || (k == 2 && isfinite(w->reading.memory_bytes_used)));
            assert_int_not_equal(w->input.slo, AW_GUARD_SLO_UNKNOWN);
            assert_int_equal(w->reading.rollout, 0);
            assert_int_equal(w->input.freeze, AW_GUARD_FREEZE_NONE);
            assert_true((k ? size_age : replicas_age) >=
                        (int64_t)(1e6 * (k ? s->size_down_cooldown : s->replicas_down_cooldown)));
            assert_true((double)is[k] >= (double)range_high[k] / s->change_factor);
            assert_true(2 * is[k] >= was[k]);
        }
        if (grows && !by_kill) {
            assert_true((double)is[k] <= 4.0 * (double)was[k] || (k == 0 && is[k] <= was[k] + 4));
            if (!pressed && k < 2)
                assert_true((double)is[k] <= (double)range_low[k] * s->change_factor ||
                            (k == 0 && is[k] <= range_low[k] + 4));
            if (!pressed && k == 1)
                assert_true(size_age >= (int64_t)(1e6 * s->size_up_cooldown));
            if (k)
                assert_int_equal(w->reading.rollout, 0);
        }
        if (k && shrinks && !w->input.in_place)
            assert_true(restarts < (s->restart_count + 1) / 2);
        if (k && grows && !by_kill && !w->input.in_place)
            assert_true(restarts < s->restart_count);
        if (k == 2 && shrinks)
            assert_true((double)is[k] >= bytes * (1 + s->memory_margin) || is[k] == forced);
        if (s->mode == AW_GUARD_INITIAL && k)
            assert_int_equal(w->memory.sized, 0);
    }
    /* over all: what is left of CPU carries the recent peak, with either half of a trade missing */
    const int64_t cpu_least = is[1] < was[1] ? is[1] : was[1];
    if (result->plan.set & R && is[0] < clamp(was[0], low[0], high[0]))
        assert_true((double)is[0] * (double)cpu_least >= 1e3 * cores * (1 + s->cpu_margin) - 1e-6);
}

static void walk_tick(struct walk *w, struct aw_rng *rng)
{
    const struct aw_bounds *b = &w->guard.bounds;
    const uint64_t jump = aw_rng_below(rng, 300);
    int64_t dt = (int64_t)(1 + aw_rng_below(rng, 60)) * S;
    if (jump == 0)
        dt = (int64_t)aw_rng_below(rng, 7200) * S;
    w->now_us += dt;
    if (jump == 1) { /* back, and the twin with it */
        const int64_t by = (int64_t)aw_rng_below(rng, 100000) * S + dt;
        w->now_us -= by;
        for (size_t i = 0; i < w->twin.count; i++)
            w->twin.log[i].at_us -= by - dt;
    }
    struct aw_reading *r = &w->reading;
    if (chance(rng, 0.01)) /* somebody else */
        r->replicas_wanted = 1 + (uint32_t)aw_rng_below(rng, 30);
    if (chance(rng, 0.01))
        r->memory_bytes_wanted = 32 * AW_MIB + (int64_t)aw_rng_below(rng, 5000) * AW_MIB;
    const double cores = 1e-3 * (double)r->cpu_millicores_wanted * r->replicas_wanted;
    r->replicas_ready =
        chance(rng, 0.8) ? r->replicas_wanted : (uint32_t)aw_rng_below(rng, r->replicas_wanted + 1);
    r->cpu_utilisation = (double)aw_rng_float(rng);
    r->cpu_cores_used =
        chance(rng, 0.1) ? odd_number(rng) : cores * r->cpu_utilisation * r->cpu_utilisation;
    r->memory_bytes_peak = chance(rng, 0.1)
                               ? odd_number(rng)
                               : (double)r->memory_bytes_wanted * (double)aw_rng_float(rng);
    r->memory_bytes_used = chance(rng, 0.5) ? (double)NAN : 0.5 * r->memory_bytes_peak;
    r->oom_kills = chance(rng, 0.005) ? (uint32_t)aw_rng_below(rng, 3) : 0;
    r->rollout = chance(rng, 0.1);
    w->input.restarts = chance(rng, 0.01) ? (uint32_t)aw_rng_below(rng, 3) : 0;
    w->input.slo = chance(rng, 0.1)    ? AW_GUARD_SLO_MISSED
                   : chance(rng, 0.05) ? AW_GUARD_SLO_UNKNOWN
                                       : AW_GUARD_SLO_MET;
    w->input.freeze = chance(rng, 0.95) ? AW_GUARD_FREEZE_NONE : (uint32_t)aw_rng_below(rng, 3);
    w->input.in_place = chance(rng, 0.05);
    w->input.uncontrolled = chance(rng, 0.9) ? 0 : aw_rng_below(rng, 8);
    w->input.node.cpu_millicores = chance(rng, 0.9) ? 0 : any_amount(rng, 100, 4000);
    w->input.node.memory_bytes = chance(rng, 0.9) ? 0 : any_amount(rng, 64 * AW_MIB, 4096 * AW_MIB);
    const double mode = (double)aw_rng_float(rng);
    w->guard.settings.mode = mode < 0.9    ? AW_GUARD_AUTO
                             : mode < 0.95 ? AW_GUARD_OFF
                                           : AW_GUARD_INITIAL;

    aw_guard_observe(&w->guard, &w->memory, &w->input, w->now_us);
    struct entry *e = twin_add(&w->twin, w->now_us);
    const struct entry *before = w->twin.count > 1 ? e - 1 : e;
    e->wanted[0] = r->replicas_wanted;
    e->wanted[1] = r->cpu_millicores_wanted;
    e->wanted[2] = r->memory_bytes_wanted;
    e->resized =
        before != e && (before->wanted[1] != e->wanted[1] || before->wanted[2] != e->wanted[2]);
    e->cores = isfinite(r->cpu_cores_used) && r->cpu_cores_used >= 0 && r->cpu_cores_used < 1e15
                   ? r->cpu_cores_used
                   : (double)NAN;
    e->bytes =
        isfinite(r->memory_bytes_peak) && r->memory_bytes_peak >= 0 && r->memory_bytes_peak < 1e15
            ? r->memory_bytes_peak
            : (double)NAN;
    e->kills = r->oom_kills;

    struct aw_plan plan = {
        .set =
            chance(rng, 0.01) ? (uint32_t)aw_rng_below(rng, 1000) : (uint32_t)aw_rng_below(rng, 8),
        .replicas = (uint32_t)any_amount(rng, b->replicas_min, b->replicas_max),
        .cpu_millicores = any_amount(rng, b->cpu_millicores_min, b->cpu_millicores_max),
        .memory_bytes = any_amount(rng, b->memory_bytes_min, b->memory_bytes_max)};
    struct aw_guard_result result, again;
    aw_guard_pass(&w->guard, &w->memory, &w->input, &plan, w->now_us, &result);
    check(w, &result);
    check_cuts(&result);
    aw_guard_pass(&w->guard, &w->memory, &w->input, &result.plan, w->now_us, &again);
    assert_memory_equal(&again.plan, &result.plan, sizeof result.plan);
    aw_guard_pass(&w->guard, &w->memory, &w->input, &result.recommended, w->now_us, &again);
    assert_memory_equal(&again.recommended, &result.recommended, sizeof result.plan);

    if (chance(rng, 0.9)) { /* else the cluster refused */
        aw_guard_applied(&w->guard, &w->memory, &result.plan, w->now_us);
        struct entry *applied = twin_add(&w->twin, w->now_us);
        applied->wanted[0] = r->replicas_wanted = result.plan.replicas;
        applied->wanted[1] = r->cpu_millicores_wanted = result.plan.cpu_millicores;
        applied->wanted[2] = r->memory_bytes_wanted = result.plan.memory_bytes;
        applied->resized = result.plan.set & (C | M);
    }
}

static void no_walk_leaves_the_rails(void **state)
{
    (void)state;
    static struct walk w;
    uint64_t changes = 0;
    for (uint64_t seed = 0; seed < 48; seed++) {
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 0);
        memset(&w, 0, sizeof w);
        w.guard = make();
        if (seed % 4 == 1)
            w.guard.settings.change_factor = 1.5;
        if (seed % 4 == 2)
            w.guard.settings.restart_count = 3;
        if (seed % 4 == 3)
            w.guard.settings.oom_hold = w.guard.settings.replicas_down_cooldown = 0;
        w.reading = calm();
        w.input.reading = &w.reading;
        w.now_us = seed % 2 ? 0 : (int64_t)(1700000000 * S);
        aw_guard_begin(&w.memory);
        for (int i = 0; i < 5000; i++) {
            const struct aw_reading before = w.reading;
            walk_tick(&w, &rng);
            changes += before.replicas_wanted != w.reading.replicas_wanted;
            if (i == 1000) { /* a person writes other bounds */
                w.guard.bounds.replicas_max = 10;
                w.guard.bounds.memory_bytes_min = 256 * AW_MIB;
            }
        }
    }
    assert_true(changes > 10000); /* the rails are no wall */
}

static void a_memory_has_no_padding_and_the_same_inputs_give_the_same_bytes(void **state)
{
    (void)state;
    static struct walk twins[2];
    for (int t = 0; t < 2; t++) {
        struct aw_rng rng;
        aw_rng_init(&rng, 5, 0);
        memset(&twins[t], t ? 0xff : 0, sizeof twins[t]);
        twins[t].twin.count = 0;
        twins[t].guard = make();
        twins[t].reading = calm();
        twins[t].input = (struct aw_guard_input){.reading = &twins[t].reading};
        twins[t].now_us = 0;
        aw_guard_begin(&twins[t].memory);
        for (int i = 0; i < 500; i++)
            walk_tick(&twins[t], &rng);
    }
    assert_memory_equal(&twins[0].memory, &twins[1].memory, sizeof twins[0].memory);
    assert_true(sizeof(struct aw_guard_memory) < 3072);
}

AW_TEST_GROUP("guard-walk")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_walk_leaves_the_rails),
        cmocka_unit_test(a_memory_has_no_padding_and_the_same_inputs_give_the_same_bytes),
    };
    return cmocka_run_group_tests_name("guard-walk", tests, NULL, NULL);
}
