/* pilot_shared_test.c - workloads whose learning begins at a shared model's policy for them. */
#include "policy/pretrained_testing.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "control/pilot_internal.h"
#include "desk/explanation.h"
#include "policy/capacity.h"
#include "policy/network.h"
#include "simulation/job.h"
#include "simulation/simulate.h"

#define EPISODE 24u
#define HIDDEN  8u
#define SEEDS   12u /* the model's start wins with most of them, and not with all */

static char model_path[] = "/tmp/aw-shared-model-XXXXXX";
static struct aw_pretrained *model;

static int set_up(void **state)
{
    (void)state;
    const int fd = mkstemp(model_path);
    if (fd < 0)
        return -1;
    close(fd);
    struct aw_context *context = model_new(AW_ENCODER_POOL, HIDDEN);
    model_write(context, model_path);
    aw_context_free(context);
    return aw_pretrained_open(model_path, NULL, &model, NULL) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_pretrained_close(model);
    return unlink(model_path);
}

struct bench {
    struct aw_job_workload workload;
    struct aw_load load;
    struct aw_job_config config;
    struct aw_store store;
    struct aw_job *job;
};

struct asked {
    const struct aw_pretrained *model;
    uint32_t agent, hidden, state;
    uint32_t app;
    uint64_t seed;
    bool no_store;
};
static const struct asked network_asked = {
    .agent = AW_POLICY_NETWORK, .hidden = HIDDEN, .app = 3, .seed = 1};
static const struct asked rule_asked = {
    .agent = AW_POLICY_CAPACITY, .hidden = 64, .app = 8, .seed = 1};

static struct asked with_model(struct asked asked)
{
    asked.model = model;
    return asked;
}

/* Rounds so small that they teach little: what is asked is whose policy is in force when. */
static void begin_in(struct bench *b, const struct asked *asked, const struct aw_alloc *alloc)
{
    memset(b, 0, sizeof *b);
    struct aw_job_workload *w = &b->workload;
    aw_app_generate(1, asked->app, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &w->app);
    assert_ok(aw_load_parse("diurnal:mean=20,period=900", 1, NULL, &b->load, NULL));
    aw_load_scale_mean(&b->load, aw_app_rate_for(&w->app, 1.5));
    w->load = &b->load;
    struct aw_pilot_config *pilot = &w->pilot;
    aw_pilot_config_init(pilot);
    pilot->relief.enabled = false; /* what these tests see is the rules alone */
    snprintf(pilot->name, sizeof pilot->name, "test/shared");
    pilot->bounds =
        (struct aw_bounds){.min = {1, 100, 128 << 20}, .max = {10, 4000, (int64_t)4 << 30}};
    pilot->slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&w->app, 1, 0);
    pilot->seed = asked->seed;
    pilot->state = asked->state;
    pilot->episode_steps = EPISODE;
    pilot->thresholds.online = -1e9; /* whatever there is may act */
    pilot->lifecycle.offline_least = 7;
    pilot->agent = asked->agent;
    pilot->model = asked->model;
    pilot->rehearse.tries = 4; /* so few that a model's start is worth something */
    pilot->rehearse.tries_near = 10;
    pilot->learner.episodes = 8;
    pilot->learner.hidden = asked->hidden;
    pilot->learner.updates = 4;
    pilot->learner.fit_updates = 6;
    pilot->learner.batch = 8;
    pilot->learner.ope.members = 2;
    pilot->learner.ope.hidden = 8;
    pilot->learner.ope.fqe_updates = 6;
    pilot->learner.ope.model_updates = 6;
    pilot->learner.ope.model_rollouts = 2;
    w->task = (struct aw_fallback_task){.bounds = pilot->bounds,
                                        .slo_latency_us = pilot->slo.latency_us_p99,
                                        .replicas = 3,
                                        .cpu_millicores = 1000,
                                        .memory_bytes = (int64_t)2 << 30};
    assert_ok(aw_store_open(&b->store, "memory", &(struct aw_store_options){0}, NULL, NULL));
    b->config = (struct aw_job_config){
        .workloads = w,
        .count = 1,
        .seed = 7,
        .thread_count = 1,
        .store = asked->no_store ? NULL : &b->store,
    };
    aw_conf_defaults(aw_sim_fields, &b->config.sim);
    struct aw_diag diag = {0};
    if (aw_job_new(&b->config, alloc, &b->job, &diag))
        fail_msg("%s", diag.text);
}

static void begin(struct bench *b, struct asked asked)
{
    begin_in(b, &asked, NULL);
}

static void end(struct bench *b)
{
    aw_job_free(b->job);
    aw_store_close(&b->store);
    aw_load_deinit(&b->load);
}

struct seen {
    uint64_t hash, policy_id;
    uint32_t models, agent_steps, shared_steps; /* with a policy of the model's in force */
    uint32_t episodes;                          /* that the last such policy knew */
};

static void listen(void *ctx, const struct aw_job_step *step)
{
    struct seen *seen = ctx;
    const struct aw_decision *d = step->decision;
    const uint64_t words[] = {(uint64_t)d->at_us,
                              d->stage,
                              d->actor,
                              d->policy_id,
                              d->origin.checksum,
                              d->origin.episodes,
                              d->guard.plan.replicas,
                              (uint64_t)d->guard.plan.cpu_millicores,
                              (uint64_t)d->guard.plan.memory_bytes};
    seen->hash = aw_hash_bytes(seen->hash, words, sizeof words);
    seen->models += d->policy_id != seen->policy_id;
    seen->policy_id = d->policy_id;
    seen->agent_steps += d->actor == AW_ACTOR_AGENT || d->actor == AW_ACTOR_EXPLORING;
    seen->shared_steps += d->origin.checksum != 0;
    if (d->origin.checksum)
        seen->episodes = d->origin.episodes;
}

static struct seen run(struct bench *b, uint32_t steps)
{
    struct seen seen = {.hash = AW_HASH_BEGIN};
    for (uint32_t i = 0; i < steps; i++) {
        struct aw_diag diag = {0};
        if (aw_job_step(b->job, listen, &seen, &diag))
            fail_msg("step %u: %s", i, diag.text);
    }
    return seen;
}

static void a_workload_begins_with_the_models_policy(void **state)
{
    (void)state;
    struct bench b;
    struct aw_job_view view;
    begin(&b, with_model(network_asked));
    /* half an hour of load is needed before there is a copy: five episodes of six minutes */
    const struct seen young = run(&b, 4 * EPISODE);
    assert_int_equal(young.shared_steps, 0);
    const struct seen known = run(&b, 2 * EPISODE);
    aw_job_view(b.job, 0, &view);
    assert_true(known.shared_steps > 0);
    assert_int_equal(known.episodes, 3); /* the most that the model reads */
    assert_int_equal(known.agent_steps, 0);
    const struct aw_decision *decision = view.decision;
    if (decision->origin.checksum) { /* a round may have done better by now */
        assert_true(decision->origin.checksum == aw_pretrained_info(model)->checksum);
        assert_string_equal(decision->origin.name, aw_pretrained_info(model)->name);
        assert_true(decision->policy_id == aw_network_of(&view.pilot->policy)->actor.id);
        char *text = aw_explanation_text(&b.workload.pilot, decision);
        assert_non_null(text);
        assert_non_null(strstr(text, "\"specialised_from\":{\"checksum\":\""));
        free(text);
    }
    const struct seen later = run(&b, 4 * EPISODE);
    assert_true(later.agent_steps > 0);
    end(&b);
}

static void a_run_that_was_killed_goes_on_as_if_it_had_not_been(void **state)
{
    (void)state;
    static const struct {
        uint32_t saved;
        const char *why;
    } at[] = {
        {5 * EPISODE - 1, "before the model is asked"},
        {6 * EPISODE + 3, "its policy is in force, and nobody acts by it yet"},
        {9 * EPISODE, "while the agent acts"},
    };
    char path[] = "/tmp/aw-shared-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t k = 0; k < 2 * sizeof at / sizeof *at; k++) {
        struct bench b;
        begin(&b, with_model(k % 2 ? rule_asked : network_asked));
        run(&b, at[k / 2].saved);
        assert_ok(aw_job_save(b.job, path, NULL));
        const struct seen unkilled = run(&b, 2 * EPISODE);
        struct aw_job *again = NULL;
        aw_job_free(b.job);
        b.job = NULL;
        assert_ok(aw_job_new(&b.config, NULL, &again, NULL));
        b.job = again;
        assert_ok(aw_job_load(b.job, path, NULL));
        if (run(&b, 2 * EPISODE).hash != unkilled.hash)
            fail_msg("%s, %s: other decisions", aw_policy_names[b.workload.pilot.agent],
                     at[k / 2].why);
        end(&b);
    }
    unlink(path);
}

static struct seen life(struct asked asked, uint32_t steps)
{
    struct bench b;
    begin(&b, asked);
    const struct seen seen = run(&b, steps);
    end(&b);
    return seen;
}

static void a_model_that_cannot_be_used_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        struct asked asked;
        const char *why;
    } cases[] = {
        {{.agent = AW_POLICY_NETWORK, .hidden = HIDDEN / 2, .app = 3, .seed = 1},
         "layers of another size"},
        {{.agent = AW_POLICY_CAPACITY, .state = AW_STATE_PAPER, .hidden = 64, .app = 3, .seed = 1},
         "another state"},
        {{.agent = AW_POLICY_CAPACITY, .hidden = 64, .app = 3, .seed = 1, .no_store = true},
         "no episodes to know the workload by"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct seen without = life(cases[i].asked, 8 * EPISODE);
        const struct seen with = life(with_model(cases[i].asked), 8 * EPISODE);
        assert_int_equal(with.shared_steps, 0);
        assert_true(without.models > 0);
        if (with.hash != without.hash)
            fail_msg("%s: other decisions", cases[i].why);
    }
}

/* A capacity rule has no use for layers: a model of any size will do. */
static void a_capacity_rule_is_searched_for_from_the_model_and_says_so(void **state)
{
    (void)state;
    uint32_t began = 0, other = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct asked asked = with_model(rule_asked);
        struct aw_job_view view;
        struct bench b;
        asked.seed = seed;
        begin(&b, asked);
        const struct seen young = run(&b, 4 * EPISODE);
        assert_int_equal(young.shared_steps, 0);
        const struct seen known = run(&b, 2 * EPISODE);
        aw_job_view(b.job, 0, &view);
        const struct aw_policy_origin *origin = &view.decision->origin;
        assert_int_equal(known.agent_steps, 0);
        assert_true(aw_pilot_learned(view.pilot)->rounds > 0);
        if (view.decision->policy_id && origin->checksum) {
            assert_true(origin->checksum == aw_pretrained_info(model)->checksum);
            assert_string_equal(origin->name, aw_pretrained_info(model)->name);
            assert_int_equal(origin->episodes, 3); /* the most that the model reads */
            assert_true(view.decision->policy_id ==
                        aw_capacity_rule_id(&aw_capacity_of(&view.pilot->policy)->memory.rule));
            char *text = aw_explanation_text(&b.workload.pilot, view.decision);
            assert_non_null(text);
            assert_non_null(strstr(text, "\"specialised_from\":{\"checksum\":\""));
            free(text);
            began++;
        }
        other += view.decision->policy_id && !origin->checksum;
        end(&b);
    }
    assert_true(began > 0);
    assert_true(other > 0); /* the copies judge: chance may have found a better one */
}

static void nothing_of_the_model_stays_in_the_pilot_of_a_capacity_rule(void **state)
{
    (void)state;
    uint64_t live[2];
    size_t bytes[2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct asked asked = i ? with_model(rule_asked) : rule_asked;
        struct aw_alloc_counting counting;
        struct aw_job_view view;
        struct bench b;
        aw_alloc_counting_init(&counting);
        begin_in(&b, &asked, &counting.alloc);
        run(&b, 6 * EPISODE);
        aw_job_view(b.job, 0, &view);
        assert_true(aw_pilot_learned(view.pilot)->rounds > 0);
        live[i] = counting.alloc_count - counting.free_count;
        bytes[i] = aw_pilot_bytes(view.pilot, true);
        end(&b);
        assert_true(counting.alloc_count == counting.free_count);
    }
    assert_true(live[0] == live[1]);
    assert_true(bytes[0] == bytes[1]);
}

AW_TEST_GROUP("pilot-shared")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workload_begins_with_the_models_policy),
        cmocka_unit_test(a_run_that_was_killed_goes_on_as_if_it_had_not_been),
        cmocka_unit_test(a_model_that_cannot_be_used_changes_nothing),
        cmocka_unit_test(a_capacity_rule_is_searched_for_from_the_model_and_says_so),
        cmocka_unit_test(nothing_of_the_model_stays_in_the_pilot_of_a_capacity_rule),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
