/* Each safeguard against the one thing that it is for: broken with it and without it. */
#include <math.h>

#include "base/testing.h"
#include "frequency/guard.h"
#include "frequency/machine.h"

#define SECOND_US 1000000

/* What a model wants, and what its readings look like. */
struct scene {
    bool bad_data, late, greedy, memory_bound, hot;
};

struct outcome {
    double watts, reward, above; /* mean; `above`: share of seconds beyond nominal */
};

static struct outcome play(struct scene scene, const struct aw_frequency_guard_config *config)
{
    struct aw_frequency_pair pair;
    struct aw_machine machine;
    struct aw_frequency_guard guard;
    struct aw_second second;
    struct outcome out = {0};
    float obs[AW_FREQUENCY_OBS];
    enum aw_frequency_break why;
    aw_frequency_pair_draw(4, true, false, &pair);
    pair.batch = true;
    pair.processor = aw_processors[4];
    pair.processor.nominal_ghz = aw_level_ghz(&pair.processor, 6); /* one of its levels */
    pair.processor.turbo_all_ghz = pair.processor.max_ghz;
    pair.processor.limit_w = 400; /* what the guard holds back, not the silicon */
    pair.processor.heat_c_per_w = 0;
    pair.phase[0] = (struct aw_phase){.cycles = scene.memory_bound ? 0.02 : 1,
                                      .memory_ns = scene.memory_bound ? 1 : 0.02};
    const struct aw_processor *processor = &pair.processor;
    aw_machine_reset(&machine, &pair, AW_REWARD_ENERGY, 1, obs);
    aw_frequency_guard_init(&guard, config, processor->min_ghz, processor->nominal_ghz,
                            processor->max_ghz, processor->limit_w);
    double ghz = processor->nominal_ghz;
    bool by_model = false;
    uint64_t throttles = 0;
    for (uint32_t s = 0; s < 400; s++) {
        const int64_t now_us = (int64_t)s * SECOND_US;
        aw_machine_step(&machine, aw_level_of(processor, ghz), obs, &second);
        throttles += scene.hot && second.ghz > processor->nominal_ghz;
        const struct aw_frequency_sample sample = {
            .ghz = scene.bad_data && s > 20 ? 99 : second.ghz,
            .ips = second.ips,
            .use = second.use,
            .watts = second.watts,
            .alpha = 1 - second.stalled,
            .counted = 1,
            .throttles = throttles,
            .reward = second.reward,
            .by_model = by_model,
        };
        const bool good = aw_frequency_guard_sample(&guard, &sample, now_us);
        /* a model that was fed rubbish, hangs, or is greedy: always the most */
        if (good && s >= 40 && !(scene.late && s > 60))
            aw_frequency_guard_predict(&guard, processor->max_ghz, now_us);
        ghz = aw_frequency_guard_decide(&guard, processor->nominal_ghz, now_us, &why);
        by_model = why == AW_BREAK_NONE;
        if (s >= 150) {
            out.watts += second.watts / 250;
            out.reward += second.reward / 250;
            out.above += (second.ghz > processor->nominal_ghz + 0.01) / 250.0;
        }
    }
    return out;
}

static struct aw_frequency_guard_config only(enum aw_frequency_break kept)
{
    struct aw_frequency_guard_config config = aw_frequency_guard_default();
    for (uint32_t i = 0; i < AW_BREAK_NONE; i++)
        config.off[i] = i != kept;
    return config;
}

static void each_safeguard_holds_what_it_is_for(void **state)
{
    static const struct {
        struct scene scene;
        enum aw_frequency_break breaks;
        const char *why;
    } cases[] = {
        {{.bad_data = true}, AW_BREAK_DATA, "a frequency that the processor does not have"},
        {{.late = true}, AW_BREAK_LATE, "a model that hangs at its last, high wish"},
        {{.greedy = true}, AW_BREAK_MODEL, "a model that earns less than nominal frequency"},
        {{.memory_bound = true}, AW_BREAK_USELESS, "cores that wait for memory"},
        {{.hot = true}, AW_BREAK_THROTTLE, "a processor that throttles"},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_frequency_guard_config with = only(cases[i].breaks);
        struct aw_frequency_guard_config without = only(AW_BREAK_NONE);
        const struct outcome kept = play(cases[i].scene, &with);
        const struct outcome lost = play(cases[i].scene, &without);
        print_message("%s: %.0f W and %.0f %% above nominal with it, %.0f W and %.0f %% without\n",
                      cases[i].why, kept.watts, 100 * kept.above, lost.watts, 100 * lost.above);
        assert_true(lost.above > 0.9);
        assert_true(kept.above < 0.2);
        assert_true(kept.watts < lost.watts);
    }
}

static void nothing_true_is_dropped(void **state)
{
    (void)state;
    struct aw_frequency_guard guard;
    const struct aw_frequency_guard_config config = aw_frequency_guard_default();
    const double unknown = (double)NAN;
    aw_frequency_guard_init(&guard, &config, 1, 2, 3, 100);
    struct aw_frequency_sample sample = {
        .ghz = 2.2, .ips = 1e9, .use = 0.5, .watts = 50, .alpha = 0.5, .counted = 1, .reward = 0.5};
    assert_true(aw_frequency_guard_sample(&guard, &sample, 0));
    sample.watts = sample.ips = sample.alpha = sample.reward = unknown; /* not known is no lie */
    assert_true(aw_frequency_guard_sample(&guard, &sample, 0));
    sample.counted = 0.05; /* counters that hardly ran */
    assert_false(aw_frequency_guard_sample(&guard, &sample, 0));
    sample.counted = 1;
    sample.backwards = true;
    assert_false(aw_frequency_guard_sample(&guard, &sample, 0));
    sample.backwards = false;
    sample.use = 1.5;
    assert_false(aw_frequency_guard_sample(&guard, &sample, 0));
}

static void a_wish_that_is_no_frequency_is_no_wish(void **state)
{
    (void)state;
    static const double wishes[] = {NAN, INFINITY, -1, 0, 400};
    for (uint32_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        struct aw_frequency_guard guard;
        const struct aw_frequency_guard_config config = aw_frequency_guard_default();
        enum aw_frequency_break why;
        aw_frequency_guard_init(&guard, &config, 1, 2, 3, 100);
        aw_frequency_guard_predict(&guard, wishes[i], 0);
        assert_close(aw_frequency_guard_decide(&guard, 1.5, 0, &why), 1.5, 0);
        assert_int_equal(why, AW_BREAK_LATE);
    }
}

AW_TEST_GROUP("frequency-guard")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_safeguard_holds_what_it_is_for),
        cmocka_unit_test(nothing_true_is_dropped),
        cmocka_unit_test(a_wish_that_is_no_frequency_is_no_wish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
