/* learner_test.c - what is kept on record, and rounds on worlds whose truth can be written down. */
#include "rehearsal/learner.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"
#include "rl/logged_testing.h"

#define STEPS    20u /* of an episode */
#define EPISODES 12u

static struct aw_learner_settings settings_of(void)
{
    struct aw_learner_settings settings = {0};
    aw_conf_defaults(aw_learner_fields, &settings);
    aw_conf_defaults(aw_ope_fields, &settings.ope);
    settings.episodes = EPISODES;
    settings.hidden = 16;
    settings.updates = 400;
    settings.fit_updates = 300;
    settings.batch = 32;
    settings.ope.members = 2;
    settings.ope.hidden = 16;
    settings.ope.fqe_updates = 60;
    settings.ope.model_updates = 100;
    settings.ope.model_rollouts = 4;
    return settings;
}

static const struct aw_learner_shape one = {.obs_dim = 1, .act_dim = 1, .episode_steps = STEPS};

static struct aw_learner *learner_of(const struct aw_learner_settings *settings,
                                     const struct aw_learner_shape *shape)
{
    struct aw_learner *learner = NULL;
    struct aw_diag diag = {0};
    if (aw_learner_new(shape, settings, NULL, &learner, &diag))
        fail_msg("%s", diag.text);
    return learner;
}

static void actor_of(struct aw_actnet *actor, uint32_t hidden)
{
    const struct aw_actnet_shape shape = {.obs_dim = 1, .act_dim = 1, .hidden = hidden};
    assert_ok(aw_actnet_init(actor, &shape, NULL));
}

/* A choice without a morrow: less is cheaper, and below 0.2 the SLO is missed. */
static void add_choices(struct aw_learner *learner, uint32_t episodes, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    for (uint32_t e = 0; e < episodes; e++) {
        for (uint32_t t = 0; t < STEPS; t++) {
            const float obs = aw_rng_float(&rng), next = aw_rng_float(&rng);
            const float action = aw_rng_float(&rng) - 0.5f;
            assert_ok(
                aw_learner_add(learner, &(struct aw_learner_step){.obs = &obs,
                                                                  .action = &action,
                                                                  .next_obs = &next,
                                                                  .gain = -(double)action,
                                                                  .violated = action < 0.2f}));
        }
        aw_learner_end(learner);
    }
}

static double mean_action(const struct aw_actnet *actor)
{
    double sum = 0;
    for (uint32_t i = 0; i < 50; i++) {
        const float obs = (float)i / 50;
        float action;
        assert_ok(aw_actnet_act(actor, &obs, &action));
        sum += (double)action / 50;
    }
    return sum;
}

static void the_latest_episodes_are_kept(void **state)
{
    (void)state;
    struct aw_learner_settings settings = settings_of();
    settings.episodes = 5;
    settings.updates = settings.fit_updates = 1;
    struct aw_learner *learner = learner_of(&settings, &one);
    struct aw_learner_stats stats;
    struct aw_actnet actor;
    actor_of(&actor, settings.hidden);
    aw_learner_end(learner); /* one without steps is none */
    assert_int_equal(aw_learner_episodes(learner), 0);
    for (uint32_t e = 0; e < 20; e++) {
        add_choices(learner, 1, e + 1);
        assert_int_equal(aw_learner_episodes(learner), e < 5 ? e + 1 : 5);
    }
    assert_ok(aw_learner_round(learner, AW_LEARNER_OFFLINE, 1, 1, &actor, &stats, NULL));
    assert_int_equal(stats.episodes, 5);
    assert_int_equal(stats.steps, 5 * STEPS);

    /* the record is that of one who has seen the last five alone */
    struct aw_learner *late = learner_of(&settings, &one);
    struct aw_actnet same;
    actor_of(&same, settings.hidden);
    for (uint32_t e = 15; e < 20; e++)
        add_choices(late, 1, e + 1);
    assert_ok(aw_learner_round(late, AW_LEARNER_OFFLINE, 1, 1, &same, NULL, NULL));
    assert_true(actor.id == same.id && actor.id != 0);

    /* and forgetting is the same as never having seen */
    aw_learner_forget(learner, 7);
    assert_int_equal(aw_learner_episodes(learner), 5);
    aw_learner_forget(learner, 4);
    struct aw_learner *later = learner_of(&settings, &one);
    for (uint32_t e = 16; e < 20; e++)
        add_choices(later, 1, e + 1);
    assert_ok(aw_learner_round(learner, AW_LEARNER_OFFLINE, 1, 1, &actor, NULL, NULL));
    assert_ok(aw_learner_round(later, AW_LEARNER_OFFLINE, 1, 1, &same, NULL, NULL));
    assert_true(actor.id == same.id);
    aw_learner_forget(learner, 0);
    assert_int_equal(aw_learner_episodes(learner), 0);
    aw_actnet_deinit(&actor);
    aw_actnet_deinit(&same);
    aw_learner_free(learner);
    aw_learner_free(late);
    aw_learner_free(later);
    aw_learner_free(NULL);
}

static void an_episode_that_nobody_ends_ends_by_itself(void **state)
{
    (void)state;
    struct aw_learner_settings settings = settings_of();
    settings.episodes = 4;
    struct aw_learner *learner = learner_of(&settings, &one);
    const float zero = 0;
    const struct aw_learner_step step = {.obs = &zero, .action = &zero, .next_obs = &zero};
    for (uint32_t t = 0; t < 50 * STEPS; t++) {
        assert_ok(aw_learner_add(learner, &step));
        const uint32_t ended = t / STEPS;
        assert_int_equal(aw_learner_episodes(learner), ended < 4 ? ended : 4);
    }
    aw_learner_forget(learner, 1); /* the one that has begun stays */
    assert_int_equal(aw_learner_episodes(learner), 1);
    aw_learner_end(learner);
    assert_int_equal(aw_learner_episodes(learner), 2);
    aw_learner_free(learner);
}

static void what_is_not_finite_is_not_taken(void **state)
{
    (void)state;
    const struct aw_learner_settings settings = settings_of();
    struct aw_learner *learner = learner_of(&settings, &one);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const float fine = 0.5f;
    for (size_t i = 0; i < 3; i++) {
        const struct aw_learner_step row[] = {
            {.obs = &bad[i], .action = &fine, .next_obs = &fine},
            {.obs = &fine, .action = &bad[i], .next_obs = &fine},
            {.obs = &fine, .action = &fine, .next_obs = &bad[i]},
            {.obs = &fine, .action = &fine, .next_obs = &fine, .gain = (double)bad[i]},
            {.obs = &fine, .action = &fine, .next_obs = &fine, .gain = 1e200}, /* of a float */
        };
        for (size_t k = 0; k < sizeof row / sizeof *row; k++)
            assert_int_equal(aw_learner_add(learner, &row[k]), AW_ERR_DIVERGED);
    }
    aw_learner_end(learner);
    assert_int_equal(aw_learner_episodes(learner), 0);
    aw_learner_free(learner);
}

static void the_reward_is_made_anew_by_the_weight_of_the_slo(void **state)
{
    (void)state;
    const struct aw_learner_settings settings = settings_of();
    struct aw_learner *learner = learner_of(&settings, &one);
    struct aw_actnet cheap, careful;
    actor_of(&cheap, settings.hidden);
    actor_of(&careful, settings.hidden);
    add_choices(learner, EPISODES, 3);
    assert_ok(aw_learner_round(learner, AW_LEARNER_OFFLINE, 10, 1, &careful, NULL, NULL));
    assert_ok(aw_learner_round(learner, AW_LEARNER_OFFLINE, 0, 1, &cheap, NULL, NULL));
    assert_true(mean_action(&cheap) < -0.1);
    assert_true(mean_action(&careful) > 0.1);
    aw_actnet_deinit(&cheap);
    aw_actnet_deinit(&careful);
    aw_learner_free(learner);
}

/* --- a world with a morrow ----------------------------------------------------------------------
 */

#define LINE_UNIT 4.0 /* an action of 1 is a force of 4 */

static void add_line(struct aw_learner *learner, const struct line *line)
{
    for (uint32_t e = 0; e < LINE_EPISODES; e++) {
        for (uint32_t t = line->begin[e]; t < line->begin[e + 1]; t++) {
            const float action = line->action[t] / (float)LINE_UNIT;
            assert_ok(aw_learner_add(learner,
                                     &(struct aw_learner_step){.obs = &line->obs[t],
                                                               .action = &action,
                                                               .next_obs = &line->next_obs[t],
                                                               .gain = (double)line->reward[t]}));
        }
        aw_learner_end(learner);
    }
}

/* Mean return of the actor, over many episodes of new chance. */
static double line_return(const struct aw_actnet *actor)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 99, 0);
    const uint32_t episodes = 400;
    double sum = 0;
    for (uint32_t e = 0; e < episodes; e++) {
        double s = aw_rng_normal(&rng);
        for (uint32_t t = 0; t < LINE_STEPS; t++) {
            const float obs = (float)s;
            float action;
            assert_ok(aw_actnet_act(actor, &obs, &action));
            const double a = LINE_UNIT * (double)action;
            sum += (-s * s - 0.1 * a * a) / episodes;
            s = 0.8 * s + 0.5 * a + 0.3 * aw_rng_normal(&rng);
        }
    }
    return sum;
}

static struct aw_learner *line_learner(struct line *line, struct aw_learner_settings *settings)
{
    static const struct aw_learner_shape shape = {
        .obs_dim = 1, .act_dim = 1, .episode_steps = LINE_STEPS};
    *settings = settings_of();
    settings->episodes = LINE_EPISODES;
    settings->updates = 1500;
    line_record(line, 0.2, 0.4, 5);
    struct aw_learner *learner = learner_of(settings, &shape);
    add_line(learner, line);
    return learner;
}

static void a_round_is_better_than_what_it_learned_from(void **state)
{
    (void)state;
    static struct line line;
    struct aw_learner_settings settings;
    struct aw_learner *learner = line_learner(&line, &settings);
    struct aw_actnet actor;
    struct aw_learner_stats stats;
    double recorded = 0;
    for (uint32_t t = 0; t < LINE_TOTAL; t++)
        recorded += (double)line.reward[t] / LINE_EPISODES;
    actor_of(&actor, settings.hidden);
    for (uint64_t seed = 3; seed > 0; seed--) { /* whichever chance */
        assert_ok(aw_learner_round(learner, AW_LEARNER_OFFLINE, 0, seed, &actor, &stats, NULL));
        /* better than what was done, and than the same without its noise */
        assert_true(line_return(&actor) > recorded + 0.1 * fabs(recorded));
        assert_true(line_return(&actor) > line_truth(0.2));
    }
    assert_int_equal(stats.episodes, LINE_EPISODES);
    assert_int_equal(stats.steps, LINE_TOTAL);
    assert_true(stats.imitation >= 0 && stats.imitation < 0.05);
    assert_true(isfinite(stats.critic_loss));

    /* and the estimate sees it, with the recorded return as its base */
    struct aw_ope_estimate estimate;
    assert_ok(aw_learner_estimate(learner, &actor, 0, 0.8, 1, &estimate, NULL));
    assert_close(estimate.behaviour_mean, recorded, 1e-4);
    assert_true(estimate.low <= estimate.mean && estimate.mean <= estimate.high);
    assert_true(estimate.mean > recorded);
    struct aw_ope_estimate again;
    assert_ok(aw_learner_estimate(learner, &actor, 0, 0.8, 1, &again, NULL));
    assert_memory_equal(&estimate, &again, sizeof again);
    aw_actnet_deinit(&actor);
    aw_learner_free(learner);
}

static void same_record_and_seed_same_policy(void **state)
{
    (void)state;
    struct aw_learner_settings settings = settings_of();
    settings.updates = settings.fit_updates = 20;
    uint64_t id[4];
    for (uint32_t k = 0; k < 4; k++) {
        struct aw_learner *learner = learner_of(&settings, &one);
        struct aw_actnet actor;
        actor_of(&actor, settings.hidden);
        add_choices(learner, 6, 1);
        if (k == 1) /* a round carries nothing on to the next */
            assert_ok(aw_learner_round(learner, AW_LEARNER_ONLINE, 3, 9, &actor, NULL, NULL));
        assert_ok(aw_learner_round(learner, k == 3 ? AW_LEARNER_ONLINE : AW_LEARNER_OFFLINE, 1,
                                   k == 2 ? 8 : 7, &actor, NULL, NULL));
        id[k] = actor.id;
        aw_actnet_deinit(&actor);
        aw_learner_free(learner);
    }
    assert_true(id[0] == id[1]);
    assert_true(id[0] != id[2]); /* another seed */
    assert_true(id[0] != id[3]); /* another reach */
}

static void too_few_episodes_teach_nothing(void **state)
{
    (void)state;
    const struct aw_learner_settings settings = settings_of();
    struct aw_learner *learner = learner_of(&settings, &one);
    struct aw_actnet actor;
    struct aw_ope_estimate estimate;
    actor_of(&actor, settings.hidden);
    add_choices(learner, AW_OPE_EPISODES_MIN - 1, 1);
    struct aw_diag diag = {0};
    assert_int_equal(aw_learner_round(learner, AW_LEARNER_OFFLINE, 1, 1, &actor, NULL, &diag),
                     AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "3 episodes"));
    assert_true(actor.id == 0);
    assert_int_equal(aw_learner_estimate(learner, &actor, 1, 0.8, 1, &estimate, NULL),
                     AW_ERR_NODATA);
    aw_actnet_deinit(&actor);
    aw_learner_free(learner);
}

static void shapes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct aw_learner_settings settings = settings_of();
    static const struct aw_learner_shape bad[] = {
        {0, 1, 10},
        {1, 0, 10},
        {1, 1, 0},
        {AW_ACTNET_OBS_MAX + 1, 1, 10},
        {1, AW_ACTNET_ACT_MAX + 1, 10},
        {1, 1, AW_LEARNER_STEPS_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct aw_learner *learner = NULL;
        assert_int_equal(aw_learner_new(&bad[i], &settings, NULL, &learner, NULL), AW_ERR_CONFIG);
        assert_null(learner);
    }
}

static void lack_of_memory_leaves_the_policy_as_it_was(void **state)
{
    (void)state;
    struct aw_learner_settings settings = settings_of();
    settings.updates = settings.fit_updates = settings.ope.fqe_updates = 1;
    settings.ope.model_updates = 1;
    struct aw_alloc_counting counting;
    for (uint64_t n = 0;; n++) { /* made */
        assert_true(n < 20);
        struct aw_learner *learner = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err = aw_learner_new(&one, &settings, &counting.alloc, &learner, NULL);
        aw_learner_free(learner);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
    }
    aw_alloc_counting_init(&counting);
    struct aw_learner *learner = NULL;
    assert_ok(aw_learner_new(&one, &settings, &counting.alloc, &learner, NULL));
    const uint64_t made = counting.alloc_count;
    add_choices(learner, 5, 1);
    assert_int_equal(counting.alloc_count, made); /* the record is there from the first */
    struct aw_actnet actor;
    actor_of(&actor, settings.hidden);
    assert_ok(aw_actnet_seal(&actor));
    const uint64_t before = actor.id;
    uint32_t failures = 0;
    for (uint32_t what = 0; what < 2; what++)
        for (uint64_t n = 0;; n++) {
            assert_true(n < 300);
            struct aw_ope_estimate estimate;
            const uint64_t held = counting.alloc_count - counting.free_count;
            counting.fail_after = counting.alloc_count + n;
            const enum aw_err err =
                what ? aw_learner_estimate(learner, &actor, 1, 0.8, 1, &estimate, NULL)
                     : aw_learner_round(learner, AW_LEARNER_OFFLINE, 1, 1, &actor, NULL, NULL);
            assert_int_equal(counting.alloc_count - counting.free_count, held);
            if (!err)
                break;
            assert_int_equal(err, AW_ERR_NOMEM);
            failures++;
            if (!what)
                assert_true(actor.id == before);
        }
    assert_true(failures > 3);
    assert_true(actor.id != before);
    counting.fail_after = UINT64_MAX;
    aw_actnet_deinit(&actor);
    aw_learner_free(learner);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("learner")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_episodes_are_kept),
        cmocka_unit_test(an_episode_that_nobody_ends_ends_by_itself),
        cmocka_unit_test(what_is_not_finite_is_not_taken),
        cmocka_unit_test(the_reward_is_made_anew_by_the_weight_of_the_slo),
        cmocka_unit_test(a_round_is_better_than_what_it_learned_from),
        cmocka_unit_test(same_record_and_seed_same_policy),
        cmocka_unit_test(too_few_episodes_teach_nothing),
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(lack_of_memory_leaves_the_policy_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
