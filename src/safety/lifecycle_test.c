/* lifecycle_test.c - Algorithm 1 to the letter where thresholds are numbers, what `auto` derives,
 * and that noise alone does not make it flap. */
#include "safety/lifecycle.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/stats.h"
#include "base/testing.h"

#define NONE ((double)NAN)
#define HOUR (INT64_C(3600) * 1000000)

struct scene {
    struct aw_lifecycle lifecycle;
    struct aw_lifecycle_memory memory;
    struct aw_lifecycle_reason reason;
};

static struct aw_lifecycle_settings defaults(void)
{
    struct aw_lifecycle_settings settings;
    aw_conf_defaults(aw_lifecycle_fields, &settings);
    return settings;
}

static void begin(struct scene *scene, const struct aw_lifecycle_settings *settings, double online,
                  double serving, double deviation)
{
    const struct aw_lifecycle_thresholds thresholds = {online, serving, deviation};
    assert_ok(aw_lifecycle_init(&scene->lifecycle, settings, &thresholds, NULL));
    aw_lifecycle_begin(&scene->lifecycle, &scene->memory, &scene->reason);
}

static bool episode(struct scene *scene, double score, double share, double low)
{
    return aw_lifecycle_episode(
        &scene->lifecycle, &scene->memory,
        &(struct aw_lifecycle_episode){.score = score, .agent_share = share},
        &(struct aw_lifecycle_estimate){low + 1, low, low + 2}, &scene->reason);
}

/* Nothing but Algorithm 1: no hysteresis, no patience, a window of two. */
static struct aw_lifecycle_settings letter(void)
{
    struct aw_lifecycle_settings s = defaults();
    s.window = s.fill = 2;
    s.offline_least = s.stage_least = s.streak = 1;
    s.patience = 0;
    s.hysteresis = s.deviation_hysteresis = s.drift = 0;
    return s;
}

static void bootstrapping_decides_where_it_begins(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        struct scene scene;
        struct aw_lifecycle_settings settings = letter();
        settings.bootstrap = on;
        begin(&scene, &settings, 130, 150, 10);
        assert_int_equal(scene.memory.stage, on ? AW_STAGE_OFFLINE : AW_STAGE_ONLINE);
        assert_int_equal(scene.reason.from, AW_STAGE_INITIALIZED);
        assert_int_equal(scene.reason.to, scene.memory.stage);
        assert_int_equal(scene.reason.cause,
                         on ? AW_LIFECYCLE_CAUSE_BOOTSTRAP : AW_LIFECYCLE_CAUSE_NO_BOOTSTRAP);
        assert_int_equal(aw_lifecycle_agent_acts(&scene.memory), !on);
        assert_true(aw_lifecycle_agent_learns(&scene.memory));
    }
}

static void algorithm_1_to_the_letter(void **state)
{
    (void)state;
    static const struct {
        double score, low; /* of the episode; of the estimate */
        enum aw_stage after;
        enum aw_lifecycle_cause cause;
        const char *why;
    } rows[] = {
        {130, NONE, AW_STAGE_OFFLINE, AW_LIFECYCLE_CAUSE_NO_ESTIMATE, "nothing estimated"},
        {130, 129.9, AW_STAGE_OFFLINE, AW_LIFECYCLE_CAUSE_ESTIMATE_LOW, "line 11 is false"},
        {130, 130, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_ESTIMATE_GOOD, "line 12"},
        {160, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_NO_WINDOW, "one episode has no deviation"},
        {100, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_MEAN_LOW, "mean 130 below 150"},
        {200, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_DEVIATION_HIGH, "mean 150, but 100 and 200"},
        {100, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_DEVIATION_HIGH, "mean 150, but 200 and 100"},
        {150, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_MEAN_LOW, "100 and 150"},
        {150, 0, AW_STAGE_SERVING, AW_LIFECYCLE_CAUSE_PROVEN, "line 16: equal is enough"},
        {10, 0, AW_STAGE_SERVING, AW_LIFECYCLE_CAUSE_NO_WINDOW, "a stage is judged by its own"},
        {300, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_DEVIATION_HIGH, "line 20, by the deviation"},
        {151, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_NO_WINDOW, "anew"},
        {151, 0, AW_STAGE_SERVING, AW_LIFECYCLE_CAUSE_PROVEN, "again"},
        {150, 0, AW_STAGE_SERVING, AW_LIFECYCLE_CAUSE_NO_WINDOW, "first"},
        {150, 0, AW_STAGE_SERVING, AW_LIFECYCLE_CAUSE_HOLDS, "equal holds"},
        {149, 0, AW_STAGE_ONLINE, AW_LIFECYCLE_CAUSE_MEAN_LOW, "line 20, by the mean"},
    };
    struct scene scene;
    struct aw_lifecycle_settings settings = letter();
    begin(&scene, &settings, 130, 150, 10);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const enum aw_stage before = scene.memory.stage;
        const double share = aw_lifecycle_agent_acts(&scene.memory) ? 1 : 0;
        const bool moved = episode(&scene, rows[i].score, share, rows[i].low);
        if (scene.memory.stage != rows[i].after || scene.reason.cause != rows[i].cause)
            fail_msg("row %zu, %s: stage %u, cause %s", i, rows[i].why, scene.memory.stage,
                     aw_lifecycle_cause_name(scene.reason.cause));
        assert_int_equal(moved, before != rows[i].after);
        assert_int_equal(scene.reason.from, before);
        assert_int_equal(scene.reason.to, rows[i].after);
    }
}

static void high_stakes_learn_again_offline_and_stay_there_until_the_estimate_is_good(void **state)
{
    (void)state;
    struct scene scene;
    struct aw_lifecycle_settings settings = letter();
    settings.retrain_offline = true;
    begin(&scene, &settings, 130, 150, 10);
    episode(&scene, 130, 0, 140);
    episode(&scene, 155, 1, 0);
    episode(&scene, 155, 1, 0);
    assert_int_equal(scene.memory.stage, AW_STAGE_SERVING);
    episode(&scene, 140, 1, 0);
    episode(&scene, 140, 1, 0);
    assert_int_equal(scene.memory.stage, AW_STAGE_OFFLINE);
    assert_false(aw_lifecycle_agent_acts(&scene.memory));
    for (int i = 0; i < 5; i++)
        assert_false(episode(&scene, 130, 0, 129));
    assert_true(episode(&scene, 130, 0, 135));
    assert_int_equal(scene.memory.stage, AW_STAGE_ONLINE);
}

static void auto_thresholds_are_the_fallbacks_own_figures(void **state)
{
    (void)state;
    static const double scores[] = {128, 131, 133, 127, 130, 135, 126, 129, 131, 130};
    struct scene scene;
    struct aw_lifecycle_settings settings = defaults();
    struct aw_lifecycle_limits limits;
    begin(&scene, &settings, NONE, NONE, NONE);
    for (int i = 0; i < 10; i++) {
        aw_lifecycle_limits(&scene.lifecycle, &scene.memory, &limits);
        assert_int_equal(isnan(limits.online), i < 5);
        episode(&scene, scores[i], 0, 100);
    }
    const double mean = aw_stats_mean(scores, 10), std = aw_stats_std(scores, 10);
    aw_lifecycle_limits(&scene.lifecycle, &scene.memory, &limits);
    assert_close(limits.online, mean, 1e-12);
    assert_close(limits.serving_enter, mean + std / sqrt(10), 1e-12);
    assert_close(limits.deviation_enter, fmax(2 * std, 0.05 * mean), 1e-12);
    assert_close(limits.deviation_leave, 1.25 * limits.deviation_enter, 1e-12);
    assert_true(isnan(limits.drift));

    scene.lifecycle.thresholds.serving = 200; /* one number does not touch the others */
    aw_lifecycle_limits(&scene.lifecycle, &scene.memory, &limits);
    assert_close(limits.online, mean, 1e-12);
    assert_close(limits.serving_enter, 200, 0);
}

static void only_clear_episodes_count_and_only_for_who_acted(void **state)
{
    (void)state;
    static const struct {
        double score, share;
        uint32_t agent, fallback; /* that it adds */
        const char *why;
    } rows[] = {
        {100, 1, 1, 0, "the agent's"},
        {100, 0.8, 1, 0, "still the agent's"},
        {100, 0.79, 0, 0, "nobody's"},
        {100, 0.5, 0, 0, "nobody's"},
        {100, 0.2, 0, 1, "the fallback's"},
        {100, 0, 0, 1, "the fallback's"},
        {NONE, 1, 0, 0, "no number"},
        {INFINITY, 0, 0, 0, "no number"},
        {100, NONE, 0, 0, "nobody knows whose"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        struct aw_lifecycle_settings settings = defaults();
        settings.bootstrap = false;
        begin(&scene, &settings, 130, 150, 10);
        episode(&scene, rows[i].score, rows[i].share, 0);
        if (scene.memory.agent.count != rows[i].agent ||
            scene.memory.fallback.count != rows[i].fallback)
            fail_msg("%s: %u, %u", rows[i].why, scene.memory.agent.count,
                     scene.memory.fallback.count);
        assert_int_equal(scene.memory.episodes, 1);
    }
}

/* Brings a scene with default settings to SERVING; the fallback has mean 130 and deviation 5. */
static void serve(struct scene *scene, struct aw_rng *rng, double level)
{
    struct aw_lifecycle_settings settings = defaults();
    begin(scene, &settings, NONE, NONE, NONE);
    for (int i = 0; i < 400 && scene->memory.stage != AW_STAGE_SERVING; i++) {
        const bool acts = aw_lifecycle_agent_acts(&scene->memory);
        episode(scene, (acts ? level : 130) + 5 * aw_rng_normal(rng), acts, 131);
    }
    assert_int_equal(scene->memory.stage, AW_STAGE_SERVING);
}

static void noise_alone_seldom_ends_serving_and_drift_soon_does(void **state)
{
    (void)state;
    uint32_t left = 0, found = 0, waited = 0;
    const uint32_t runs = 200;
    for (uint32_t seed = 0; seed < runs; seed++) {
        struct scene scene;
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 0);
        serve(&scene, &rng, 160);
        for (int i = 0; i < 100; i++) /* 100 episodes are 42 hours */
            left += episode(&scene, 160 + 5 * aw_rng_normal(&rng), 1, 0) &&
                    scene.memory.stage != AW_STAGE_SERVING;
    }
    assert_true(left < runs / 10);
    for (uint32_t seed = 0; seed < runs; seed++) {
        struct scene scene;
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 1);
        serve(&scene, &rng, 160);
        for (int i = 0; i < 20; i++)
            episode(&scene, 160 + 5 * aw_rng_normal(&rng), 1, 0);
        if (scene.memory.stage != AW_STAGE_SERVING)
            continue;
        /* far above the fallback still, and yet below what it can do */
        for (int i = 0; i < 30 && scene.memory.stage == AW_STAGE_SERVING; i++, waited++)
            found += episode(&scene, 148 + 5 * aw_rng_normal(&rng), 1, 0);
    }
    assert_true(found > runs * 9 / 10);
    assert_true(waited < 15 * runs);
}

static void hysteresis_halves_the_flapping_at_the_threshold(void **state)
{
    (void)state;
    uint32_t moves[2] = {0, 0};
    for (int with = 0; with < 2; with++) {
        for (uint32_t seed = 0; seed < 50; seed++) {
            struct scene scene;
            struct aw_rng rng;
            struct aw_lifecycle_settings settings = with ? defaults() : letter();
            settings.window = settings.fill = 10;
            settings.patience = 0;
            settings.bootstrap = false;
            aw_rng_init(&rng, seed, 0);
            begin(&scene, &settings, 0, 150, 100); /* the agent is exactly at the threshold */
            for (int i = 0; i < 500; i++)
                moves[with] += episode(&scene, 150 + 5 * aw_rng_normal(&rng), 1, 0);
        }
    }
    assert_true(moves[0] > 0);
    assert_true(2 * moves[1] < moves[0]);
}

static void a_stage_lasts_for_its_least_episodes(void **state)
{
    (void)state;
    struct scene scene;
    struct aw_lifecycle_settings settings = letter();
    settings.offline_least = 4;
    settings.stage_least = 3;
    begin(&scene, &settings, 130, 150, 10);
    for (int i = 0; i < 3; i++) {
        assert_false(episode(&scene, 130, 0, 150));
        assert_int_equal(scene.reason.cause, AW_LIFECYCLE_CAUSE_YOUNG_STAGE);
    }
    assert_true(episode(&scene, 130, 0, 150));
    for (int i = 0; i < 2; i++)
        assert_false(episode(&scene, 160, 1, 0));
    assert_int_equal(scene.reason.cause, AW_LIFECYCLE_CAUSE_YOUNG_STAGE);
    assert_true(episode(&scene, 160, 1, 0));
    assert_int_equal(scene.memory.stage, AW_STAGE_SERVING);
    for (int i = 0; i < 2; i++)
        assert_false(episode(&scene, 0, 1, 0));
    assert_true(episode(&scene, 0, 1, 0));
    assert_int_equal(scene.memory.stage, AW_STAGE_ONLINE);
}

static void serving_ends_after_failures_in_a_row(void **state)
{
    (void)state;
    struct scene scene;
    struct aw_lifecycle_settings settings = letter();
    settings.streak = 3;
    begin(&scene, &settings, 130, 150, 10);
    episode(&scene, 130, 0, 150);
    episode(&scene, 150, 1, 0);
    episode(&scene, 150, 1, 0);
    for (int i = 0; i < 10; i++) { /* two bad windows, then a good one, again and again */
        assert_false(episode(&scene, 149, 1, 0));
        assert_false(episode(&scene, 150, 1, 0));
        assert_false(episode(&scene, 151, 1, 0));
    }
    for (int i = 0; i < 3; i++) /* the first makes 150 with the 151 before */
        assert_false(episode(&scene, 149, 1, 0));
    assert_true(episode(&scene, 149, 1, 0));
}

static void an_online_agent_that_stays_poor_goes_back_and_waits_longer_each_time(void **state)
{
    (void)state;
    struct scene scene;
    struct aw_lifecycle_settings settings = defaults();
    begin(&scene, &settings, 130, 150, 10);
    uint32_t waits[4], turn = 0, waited = 0;
    for (int i = 0; i < 1000 && turn < 4; i++) {
        if (aw_lifecycle_agent_acts(&scene.memory)) {
            const bool moved = episode(&scene, 120, 1, 0);
            if (moved) {
                assert_int_equal(scene.reason.cause, AW_LIFECYCLE_CAUSE_POOR);
                assert_close(scene.reason.threshold, 130, 0);
            }
        } else {
            waited++;
            if (episode(&scene, 130, 0, 200)) {
                waits[turn++] = waited;
                waited = 0;
            }
        }
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(waits[i], 5u << i);
    settings.patience = 0; /* to the letter: for ever */
    settings.bootstrap = false;
    begin(&scene, &settings, 130, 150, 10);
    for (int i = 0; i < 1000; i++)
        assert_false(episode(&scene, 120, 1, 0));
}

static void what_others_have_lived_serves_at_once_and_after_failing_only_with_time(void **state)
{
    (void)state;
    struct scene scene;
    struct aw_lifecycle_settings settings = defaults();
    begin(&scene, &settings, NONE, NONE, NONE);
    assert_true(aw_lifecycle_known(&scene.lifecycle, &scene.memory, &scene.reason));
    assert_int_equal(scene.memory.stage, AW_STAGE_SERVING);
    assert_int_equal(scene.reason.cause, AW_LIFECYCLE_CAUSE_KNOWN);
    assert_int_equal(scene.reason.from, AW_STAGE_OFFLINE);
    assert_false(aw_lifecycle_known(&scene.lifecycle, &scene.memory, &scene.reason));
    for (uint32_t failed = 1; failed <= 3; failed++) {
        for (uint32_t i = 0; i < settings.trip_count; i++)
            (void)aw_lifecycle_trip(&scene.lifecycle, &scene.memory, i, &scene.reason);
        assert_int_equal(scene.memory.stage, AW_STAGE_OFFLINE);
        uint32_t waited = 0;
        while (!aw_lifecycle_known(&scene.lifecycle, &scene.memory, &scene.reason)) {
            (void)episode(&scene, -100, 0, NONE);
            assert_true(++waited < 1000);
        }
        assert_int_equal(waited, 1u << (failed - 1)); /* one episode, then twice as many */
    }
}

/* It drifted, and stakes are high: nobody has failed, and the fallback acts all the same. */
static void where_stakes_are_high_what_others_have_lived_waits_like_the_rest(void **state)
{
    (void)state;
    for (uint32_t high = 0; high < 2; high++) {
        struct scene scene;
        struct aw_lifecycle_settings settings = defaults();
        settings.retrain_offline = high;
        begin(&scene, &settings, NONE, NONE, NONE);
        assert_true(aw_lifecycle_known(&scene.lifecycle, &scene.memory, &scene.reason));
        scene.memory.stage = AW_STAGE_OFFLINE;
        assert_int_equal(scene.memory.demotions, 0);
        uint32_t waited = 0;
        while (!aw_lifecycle_known(&scene.lifecycle, &scene.memory, &scene.reason)) {
            (void)episode(&scene, -100, 0, NONE);
            assert_true(++waited < 1000);
        }
        assert_int_equal(waited, high ? settings.offline_least : 1);
    }
}

static void trips_within_the_window_take_the_agent_back_offline(void **state)
{
    (void)state;
    static const struct {
        int64_t at[4];
        int demoted_at; /* -1: never */
        const char *why;
    } rows[] = {
        {{0, 1, 2, 3}, 2, "three in three hours"},
        {{0, 5, 10, 15}, -1, "never three in six hours"},
        {{0, 5, 6, 7}, 3, "the first is too long ago"},
        {{100, 1, 2, 3}, 2, "a clock that went back"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        struct aw_lifecycle_settings settings = defaults();
        settings.bootstrap = false;
        begin(&scene, &settings, 130, 150, 10);
        int demoted = -1;
        for (int k = 0; k < 4; k++) {
            if (aw_lifecycle_trip(&scene.lifecycle, &scene.memory, rows[i].at[k] * HOUR,
                                  &scene.reason)) {
                assert_int_equal(demoted, -1);
                assert_int_equal(scene.reason.cause, AW_LIFECYCLE_CAUSE_TRIPS);
                assert_int_equal(scene.reason.count, 3);
                demoted = k;
            }
        }
        if (demoted != rows[i].demoted_at)
            fail_msg("%s: at %d", rows[i].why, demoted);
        assert_int_equal(scene.memory.stage, demoted < 0 ? AW_STAGE_ONLINE : AW_STAGE_OFFLINE);
    }
}

static void without_figures_of_the_fallback_auto_waits_and_says_so(void **state)
{
    (void)state;
    struct scene scene;
    struct aw_lifecycle_settings settings = defaults();
    settings.bootstrap = false;
    begin(&scene, &settings, NONE, NONE, NONE);
    for (int i = 0; i < 50; i++)
        assert_false(episode(&scene, 150, 1, 0));
    assert_int_equal(scene.reason.cause, AW_LIFECYCLE_CAUSE_NO_REFERENCE);
}

static void settings_that_cannot_work_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t window, fill;
        double online, serving, deviation;
        const char *text;
    } rows[] = {
        {5, 6, 1, 1, 1, "fill"},
        {5, 5, INFINITY, 1, 1, "infinite"},
        {5, 5, 1, -INFINITY, 1, "infinite"},
        {5, 5, 1, 1, -1, "deviation"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_lifecycle lifecycle = {.settings = {.window = 77}};
        struct aw_lifecycle_settings settings = defaults();
        struct aw_diag diag;
        settings.window = rows[i].window;
        settings.fill = rows[i].fill;
        assert_int_equal(aw_lifecycle_init(&lifecycle, &settings,
                                           &(struct aw_lifecycle_thresholds){
                                               rows[i].online, rows[i].serving, rows[i].deviation},
                                           &diag),
                         AW_ERR_CONFIG);
        assert_non_null(strstr(diag.text, rows[i].text));
        assert_int_equal(lifecycle.settings.window, 77);
    }
}

static void a_reason_reads_as_a_sentence_with_its_figures(void **state)
{
    (void)state;
    char text[AW_LIFECYCLE_TEXT_MAX];
    struct scene scene;
    struct aw_lifecycle_settings settings = letter();
    begin(&scene, &settings, 130, 150, 10);
    assert_string_equal(aw_lifecycle_reason_format(&scene.reason, text, sizeof text),
                        "initialized -> offline: begins with bootstrapping: the fallback acts");
    episode(&scene, 130, 0, 131.5);
    assert_string_equal(aw_lifecycle_reason_format(&scene.reason, text, sizeof text),
                        "offline -> online: the estimate's lower bound has reached the threshold; "
                        "mean 131.50; threshold 130.00; over 1");
    episode(&scene, 150, 1, 0);
    episode(&scene, 152, 1, 0);
    assert_string_equal(aw_lifecycle_reason_format(&scene.reason, text, sizeof text),
                        "online -> serving: mean and deviation have reached their thresholds; mean "
                        "151.00; threshold 150.00; deviation 1.41 of 10.00 allowed; over 2");
    for (uint32_t cause = 0; cause < AW_LIFECYCLE_CAUSE_COUNT; cause++)
        assert_true(strlen(aw_lifecycle_cause_sentence(cause)) > 10);
}

static void a_stage_is_told_in_words_that_need_no_manual(void **state)
{
    (void)state;
    static const struct {
        struct aw_lifecycle_reason reason;
        const char *words;
    } cases[] = {
        {{AW_LIFECYCLE_CAUSE_YOUNG_STAGE, 1, 1, 2, 0, 0, 0, 0},
         "learning from hpa: 2 of 5 episodes"},
        {{AW_LIFECYCLE_CAUSE_YOUNG_STAGE, 1, 1, 7, 0, 0, 0, 0},
         "learning from hpa: 7 episodes, more are needed after a setback"},
        {{AW_LIFECYCLE_CAUSE_ESTIMATE_LOW, 1, 1, 6, 0, 0, 0, 0},
         "waiting: not yet better than hpa"},
        {{AW_LIFECYCLE_CAUSE_TRIPS, 3, 1, 3, 0, 0, 0, 0},
         "learning again: the watchdog tripped too often"},
        {{AW_LIFECYCLE_CAUSE_NO_WINDOW, 2, 2, 1, 0, 0, 0, 0},
         "the agent acts and learns; it is not yet proven"},
        {{AW_LIFECYCLE_CAUSE_HOLDS, 3, 3, 10, 0, 0, 0, 0},
         "the agent acts; it has proven itself and is watched"},
        {{AW_LIFECYCLE_CAUSE_KNOWN, 1, 3, 0, 0, 0, 0, 0},
         "the agent acts, with what did best in workloads like this one"},
        {{AW_LIFECYCLE_CAUSE_NO_WINDOW, 3, 3, 2, 0, 0, 0, 0},
         "the agent acts and is watched; too soon to judge it"},
    };
    char text[AW_LIFECYCLE_TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(
            aw_lifecycle_reason_words(&cases[i].reason, 5, "hpa", text, sizeof text),
            cases[i].words);
    for (uint32_t cause = 0; cause < AW_LIFECYCLE_CAUSE_COUNT; cause++)
        for (uint32_t stage = 0; stage < AW_STAGE_COUNT; stage++) {
            const struct aw_lifecycle_reason reason = {.cause = cause, .from = stage, .to = stage};
            assert_true(strlen(aw_lifecycle_reason_words(&reason, 5, "hpa", text, sizeof text)) >
                        8);
        }
}

/* A twin that keeps every score and judges by the words of Algorithm 1. */
static void a_twin_that_keeps_everything_moves_at_the_same_episodes(void **state)
{
    (void)state;
    enum { EPISODES = 4000, K = 7 };
    static double kept[EPISODES];
    for (uint32_t seed = 0; seed < 10; seed++) {
        struct scene scene;
        struct aw_rng rng;
        struct aw_lifecycle_settings settings = letter();
        settings.window = settings.fill = K;
        settings.retrain_offline = seed % 2;
        aw_rng_init(&rng, seed, 3);
        begin(&scene, &settings, 130, 131, 6);
        enum aw_stage stage = AW_STAGE_OFFLINE;
        uint32_t count = 0, moves = 0;
        for (int i = 0; i < EPISODES; i++) {
            const double score = 131 + 5 * aw_rng_normal(&rng),
                         low = 125 + 10 * aw_rng_double(&rng);
            if (stage == AW_STAGE_OFFLINE) {
                episode(&scene, score, 0, low);
                if (low >= 130) {
                    stage = AW_STAGE_ONLINE;
                    count = 0;
                    moves++;
                }
            } else {
                episode(&scene, score, 1, low);
                kept[count++] = score;
                if (count >= K) {
                    const double *last = kept + count - K;
                    const bool good = aw_stats_mean(last, K) >= 131 && aw_stats_std(last, K) <= 6;
                    if (good != (stage == AW_STAGE_SERVING)) {
                        stage = good       ? AW_STAGE_SERVING
                                : seed % 2 ? AW_STAGE_OFFLINE
                                           : AW_STAGE_ONLINE;
                        count = 0;
                        moves++;
                    }
                }
            }
            /* sums of a ring are taken in another order: a tie may fall either way, none did */
            assert_int_equal(scene.memory.stage, stage);
        }
        assert_true(moves > 100);
    }
}

static void a_memory_has_no_padding(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct aw_lifecycle_memory), 2 * (AW_LIFECYCLE_WINDOW_MAX * 8 + 8) +
                                                             2 * 8 + AW_LIFECYCLE_TRIPS_MAX * 8 +
                                                             8 * 4);
}

static void an_agent_of_which_nothing_can_be_estimated_is_tried_in_its_time(void **state)
{
    (void)state;
    struct aw_lifecycle_settings settings;
    struct aw_lifecycle lifecycle;
    struct aw_lifecycle_memory memory;
    struct aw_lifecycle_reason reason;
    aw_conf_defaults(aw_lifecycle_fields, &settings);
    settings.bootstrap = true;
    assert_ok(aw_lifecycle_init(&lifecycle, &settings,
                                &(struct aw_lifecycle_thresholds){NAN, NAN, NAN}, NULL));
    aw_lifecycle_begin(&lifecycle, &memory, NULL);
    const struct aw_lifecycle_episode stranger = {.score = -100};
    const struct aw_lifecycle_episode admitted = {.score = -100, .admitted = true};
    for (uint32_t i = 0; i < 3 * settings.offline_least; i++) /* nobody has admitted it */
        assert_false(aw_lifecycle_episode(&lifecycle, &memory, &stranger, NULL, &reason));
    assert_int_equal(reason.cause, AW_LIFECYCLE_CAUSE_NO_ESTIMATE);
    aw_lifecycle_begin(&lifecycle, &memory, NULL);
    uint32_t episodes = 1;
    while (!aw_lifecycle_episode(&lifecycle, &memory, &admitted, NULL, &reason))
        assert_true(++episodes < 100);
    assert_true(episodes >= settings.offline_least);
    assert_int_equal(reason.cause, AW_LIFECYCLE_CAUSE_ADMITTED);
    assert_int_equal(memory.stage, AW_STAGE_ONLINE);
}

AW_TEST_GROUP("lifecycle")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bootstrapping_decides_where_it_begins),
        cmocka_unit_test(algorithm_1_to_the_letter),
        cmocka_unit_test(high_stakes_learn_again_offline_and_stay_there_until_the_estimate_is_good),
        cmocka_unit_test(auto_thresholds_are_the_fallbacks_own_figures),
        cmocka_unit_test(only_clear_episodes_count_and_only_for_who_acted),
        cmocka_unit_test(noise_alone_seldom_ends_serving_and_drift_soon_does),
        cmocka_unit_test(hysteresis_halves_the_flapping_at_the_threshold),
        cmocka_unit_test(a_stage_lasts_for_its_least_episodes),
        cmocka_unit_test(serving_ends_after_failures_in_a_row),
        cmocka_unit_test(an_online_agent_that_stays_poor_goes_back_and_waits_longer_each_time),
        cmocka_unit_test(what_others_have_lived_serves_at_once_and_after_failing_only_with_time),
        cmocka_unit_test(where_stakes_are_high_what_others_have_lived_waits_like_the_rest),
        cmocka_unit_test(trips_within_the_window_take_the_agent_back_offline),
        cmocka_unit_test(without_figures_of_the_fallback_auto_waits_and_says_so),
        cmocka_unit_test(settings_that_cannot_work_are_refused),
        cmocka_unit_test(a_reason_reads_as_a_sentence_with_its_figures),
        cmocka_unit_test(a_stage_is_told_in_words_that_need_no_manual),
        cmocka_unit_test(a_twin_that_keeps_everything_moves_at_the_same_episodes),
        cmocka_unit_test(a_memory_has_no_padding),
        cmocka_unit_test(an_agent_of_which_nothing_can_be_estimated_is_tried_in_its_time),
    };
    return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
