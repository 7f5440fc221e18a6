/* Tests of the simulated machine, its reward and its governors. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/testing.h"
#include "frequency/learn.h"

static double play(const struct aw_frequency_pair *pair, enum aw_frequency_reward reward,
                   uint32_t even, uint32_t odd, struct aw_second *last)
{
    struct aw_machine machine;
    float obs[AW_FREQUENCY_OBS];
    double sum = 0;
    aw_machine_reset(&machine, pair, reward, 3, obs);
    for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
        aw_machine_step(&machine, s % 2 ? odd : even, obs, last);
        sum += last->reward;
    }
    return sum / AW_MACHINE_SECONDS;
}

static void cycles_scale_and_memory_does_not(void **state)
{
    (void)state;
    struct aw_frequency_pair pair;
    struct aw_machine machine;
    struct aw_second low, high;
    float obs[AW_FREQUENCY_OBS];
    aw_frequency_pair_draw(1, true, false, &pair);
    pair.batch = true;
    pair.processor.limit_w = 1e6; /* no limit, no turbo steps: the law alone */
    pair.processor.turbo_all_ghz = pair.processor.max_ghz;
    pair.phase[0] = (struct aw_phase){.cycles = 1, .memory_ns = 0, .load = 0.5};
    aw_machine_reset(&machine, &pair, AW_REWARD_ENERGY, 1, obs);
    aw_machine_try(&machine, 0, &low, NULL);
    aw_machine_try(&machine, AW_LEVELS - 1, &high, NULL);
    assert_close(high.ips / low.ips, pair.processor.max_ghz / pair.processor.min_ghz, 1e-9);
    machine.pair.phase[0] = (struct aw_phase){.cycles = 0.01, .memory_ns = 1, .load = 0.5};
    aw_machine_try(&machine, 0, &low, NULL);
    aw_machine_try(&machine, AW_LEVELS - 1, &high, NULL);
    assert_true(high.ips / low.ips < 1.02);
    assert_true(high.watts > low.watts);
}

static void power_rises_faster_than_frequency(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < AW_PROCESSORS; p++) {
        struct aw_frequency_pair pair;
        struct aw_machine machine;
        struct aw_second at[3];
        float obs[AW_FREQUENCY_OBS];
        aw_frequency_pair_draw(2, false, false, &pair);
        pair.processor = aw_processors[p];
        pair.processor.limit_w = 1e6;
        pair.batch = true;
        aw_machine_reset(&machine, &pair, AW_REWARD_ENERGY, 1, obs);
        machine.celsius = 40;
        for (uint32_t i = 0; i < 3; i++)
            aw_machine_try(&machine, 3 + 4 * i, &at[i], NULL);
        const double first = (at[1].watts - at[0].watts) / (at[1].ghz - at[0].ghz);
        const double second = (at[2].watts - at[1].watts) / (at[2].ghz - at[1].ghz);
        assert_true(second > first);
    }
}

static void a_power_limit_and_heat_throttle(void **state)
{
    (void)state;
    struct aw_frequency_pair pair;
    struct aw_machine machine;
    struct aw_second second;
    float obs[AW_FREQUENCY_OBS];
    aw_frequency_pair_draw(3, true, false, &pair);
    pair.batch = true;
    aw_machine_reset(&machine, &pair, AW_REWARD_ENERGY, 1, obs);
    machine.pair.processor.limit_w *= 0.6;
    aw_machine_try(&machine, AW_LEVELS - 1, &second, NULL);
    assert_true(second.throttled && second.watts <= machine.pair.processor.limit_w + 1e-6);
    machine.pair.processor.limit_w = 1e6;
    machine.celsius = 150;
    aw_machine_try(&machine, AW_LEVELS - 1, &second, NULL);
    assert_true(second.throttled && second.ghz < machine.pair.processor.nominal_ghz);
}

static void swinging_pays_by_the_papers_reward_and_never_by_ours(void **state)
{
    (void)state;
    uint32_t paper = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct aw_frequency_pair pair;
        struct aw_second second;
        double best = -INFINITY, swing = -INFINITY;
        aw_frequency_pair_draw(seed, true, false, &pair);
        pair.batch = true;
        pair.phase[0].memory_ns = 0; /* CPU-bound, no objective: SP stays 1 */
        paper += play(&pair, AW_REWARD_PAPER, AW_LEVELS - 1, 0, &second) >
                 play(&pair, AW_REWARD_PAPER, AW_LEVELS - 1, AW_LEVELS - 1, &second) + 0.05;
        for (uint32_t level = 0; level < AW_LEVELS; level++)
            best = fmax(best, play(&pair, AW_REWARD_ENERGY, level, level, &second));
        for (uint32_t low = 0; low < AW_LEVELS; low++)
            swing = fmax(swing, play(&pair, AW_REWARD_ENERGY, AW_LEVELS - 1, low, &second));
        assert_true(swing <= best + 0.01); /* heat has a memory of seconds, the reward none */
    }
    assert_int_equal(paper, 40);
}

static void the_oracle_is_above_every_governor(void **state)
{
    (void)state;
    double oracle = 0, most = 0;
    for (const struct aw_governor *g = aw_governors; g->name; g++) {
        double sum = 0;
        oracle = 0;
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct aw_frequency_pair pair;
            struct aw_machine machine, twin;
            struct aw_governor_state memory;
            struct aw_second second;
            float obs[AW_FREQUENCY_OBS], unused[AW_FREQUENCY_OBS];
            aw_frequency_pair_draw(seed, true, seed % 2, &pair);
            aw_machine_reset(&machine, &pair, AW_REWARD_ENERGY, seed, obs);
            aw_machine_reset(&twin, &pair, AW_REWARD_ENERGY, seed, unused);
            aw_governor_reset(&memory, &pair.processor);
            for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
                memory.level = g->next(&memory, obs);
                memory.second++;
                assert_true(memory.level < AW_LEVELS);
                aw_machine_step(&machine, memory.level, obs, &second);
                sum += second.reward;
                aw_machine_step(&twin, aw_frequency_oracle(&twin), unused, &second);
                oracle += second.reward;
            }
        }
        most = fmax(most, sum);
        assert_true(sum < oracle);
    }
    assert_true(most > 0);
}

static void what_ships_beats_the_two_point_fit_under_phases(void **state)
{
    (void)state;
    struct aw_frequency_learner *learner = NULL;
    struct aw_diag diag;
    double ours = 0, fit = 0, ours_w = 0, sched_w = 0, ours_missed = 0, sched_missed = 0;
    assert_ok(aw_frequency_shipped(&learner, &diag));
    const struct aw_governor *who[2] = {aw_governor_find("two-point-fit"),
                                        aw_governor_find("schedutil")};
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct aw_frequency_pair pair;
        aw_frequency_pair_draw(700000 + seed, true, true, &pair);
        for (uint32_t w = 0; w < 3; w++) {
            struct aw_machine machine;
            struct aw_governor_state memory;
            struct aw_frequency_driver driver = {0};
            struct aw_second second = {0};
            float obs[AW_FREQUENCY_OBS];
            aw_machine_reset(&machine, &pair, AW_REWARD_ENERGY, seed, obs);
            aw_governor_reset(&memory, &pair.processor);
            if (w == 2)
                assert_ok(aw_frequency_begin(&driver, learner, &pair.processor,
                                             AW_FREQUENCY_EMBEDDED, "met"));
            for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
                const uint32_t level = w == 2 ? aw_frequency_decide(&driver, obs, second.reward)
                                              : who[w]->next(&memory, obs);
                memory.level = level;
                memory.second++;
                aw_machine_step(&machine, level, obs, &second);
                const double missed = second.requests > 0 ? second.missed / second.requests : 0;
                ours += w == 2 ? second.reward : 0;
                fit += w == 0 ? second.reward : 0;
                ours_w += w == 2 ? second.watts : 0;
                sched_w += w == 1 ? second.watts : 0;
                ours_missed += w == 2 ? missed : 0;
                sched_missed += w == 1 ? missed : 0;
            }
            aw_frequency_end(&driver);
        }
    }
    print_message("reward %.4f, two-point fit %.4f; watts %.3f of schedutil's\n",
                  ours / 60 / AW_MACHINE_SECONDS, fit / 60 / AW_MACHINE_SECONDS, ours_w / sched_w);
    assert_true(ours > fit);
    assert_true(ours_w < 0.9 * sched_w && ours_missed <= sched_missed);
    aw_frequency_learner_free(learner);
}

/* A learner is shared by a driver and its copies: what a deaf one lives leaves no trace. */
static void an_examination_is_not_learned_from(void **state)
{
    (void)state;
    float embedding[3][AW_FREQUENCY_EMBEDDING];
    enum { ALONE, EXAMINED, HEARD };
    for (uint32_t how = ALONE; how <= HEARD; how++) {
        struct aw_frequency_learner *learner = NULL;
        struct aw_diag diag;
        struct aw_frequency_driver driver;
        const float obs[AW_FREQUENCY_OBS] = {0.4f, 0.6f, 0.8f, 1, 1, 0.6f, 0.2f, 0};
        const float other[AW_FREQUENCY_OBS] = {0.9f, 0.2f, 0.3f, 0.5f, 0, 1, 0.7f, 1};
        assert_ok(aw_frequency_shipped(&learner, &diag));
        assert_ok(
            aw_frequency_begin(&driver, learner, &aw_processors[0], AW_FREQUENCY_EMBEDDED, "a"));
        for (uint32_t i = 0; i < 100; i++)
            (void)aw_frequency_decide(&driver, obs, 0.5);
        struct aw_frequency_driver copy = driver;
        copy.deaf = how == EXAMINED;
        for (uint32_t i = 0; i < 100 && how != ALONE; i++)
            (void)aw_frequency_decide(&copy, other, -1);
        for (uint32_t i = 0; i < AW_FREQUENCY_CONTEXT; i++)
            (void)aw_frequency_decide(&driver, obs, 0.5);
        memcpy(embedding[how], driver.embedding, sizeof driver.embedding);
        aw_frequency_end(&driver);
        aw_frequency_learner_free(learner);
    }
    assert_memory_equal(embedding[ALONE], embedding[EXAMINED], sizeof embedding[ALONE]);
    assert_true(memcmp(embedding[ALONE], embedding[HEARD], sizeof embedding[ALONE]) != 0);
}

static void a_decision_takes_microseconds(void **state)
{
    (void)state;
    struct aw_frequency_learner *learner = NULL;
    struct aw_diag diag;
    struct aw_frequency_driver driver;
    struct timespec from, to;
    const float obs[AW_FREQUENCY_OBS] = {0.4f, 0.6f, 0.8f, 1, 1, 0.6f, 0.2f, 0};
    assert_ok(aw_frequency_shipped(&learner, &diag));
    assert_ok(aw_frequency_begin(&driver, learner, &aw_processors[0], AW_FREQUENCY_EMBEDDED, "a"));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (uint32_t i = 0; i < 24000; i++)
        (void)aw_frequency_decide(&driver, obs, 0.5);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const double us =
        ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e3 /
        24000;
    print_message("%.2f us for a decision, embeddings included\n", us);
#ifdef __OPTIMIZE__
    assert_true(us < 50);
#endif
    aw_frequency_end(&driver);
    aw_frequency_learner_free(learner);
}

AW_TEST_GROUP("frequency-machine")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_scale_and_memory_does_not),
        cmocka_unit_test(power_rises_faster_than_frequency),
        cmocka_unit_test(a_power_limit_and_heat_throttle),
        cmocka_unit_test(swinging_pays_by_the_papers_reward_and_never_by_ours),
        cmocka_unit_test(the_oracle_is_above_every_governor),
        cmocka_unit_test(what_ships_beats_the_two_point_fit_under_phases),
        cmocka_unit_test(an_examination_is_not_learned_from),
        cmocka_unit_test(a_decision_takes_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
