/* pilot_shared_test.c - a workload whose network begins as a shared model's policy for it. */
#include "control/pretrained_testing.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "control/account.h"
#include "control/job.h"
#include "control/simulate.h"

#define EPISODE 24u
#define HIDDEN  8u

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

/* Rounds so small that they teach little: what is asked is whose policy is in force when. */
static void begin(struct bench *b, const struct aw_pretrained *shared, uint32_t hidden)
{
    memset(b, 0, sizeof *b);
    struct aw_job_workload *w = &b->workload;
    aw_app_generate(1, 3, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &w->app);
    assert_ok(aw_load_parse("diurnal:mean=20,period=900", 1, NULL, &b->load, NULL));
    aw_load_scale_mean(&b->load, aw_simulate_rate_for(&w->app, 1.5));
    w->load = &b->load;
    struct aw_pilot_config *pilot = &w->pilot;
    aw_pilot_config_init(pilot);
    snprintf(pilot->name, sizeof pilot->name, "test/shared");
    pilot->bounds = (struct aw_bounds){1, 10, 100, 4000, 128 << 20, (int64_t)4 << 30};
    pilot->slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&w->app, 1, 0);
    pilot->seed = 1;
    pilot->episode_steps = EPISODE;
    pilot->thresholds.online = -1e9; /* whatever there is may act */
    pilot->lifecycle.offline_least = 7;
    pilot->agent = AW_PILOT_NETWORK;
    pilot->model = shared;
    pilot->learner.episodes = 8;
    pilot->learner.hidden = hidden;
    pilot->learner.updates = 4;
    pilot->learner.fit_updates = 6;
    pilot->learner.batch = 8;
    pilot->learner.ope.members = 2;
    pilot->learner.ope.hidden = 8;
    pilot->learner.ope.fqe_updates = 6;
    pilot->learner.ope.model_updates = 6;
    pilot->learner.ope.model_rollouts = 2;
    w->task = (struct aw_policy_task){.bounds = pilot->bounds,
                                      .slo_latency_us = pilot->slo.latency_us_p99,
                                      .replicas = 3,
                                      .cpu_millicores = 1000,
                                      .memory_bytes = (int64_t)2 << 30};
    assert_ok(aw_store_open(&b->store, "memory", &(struct aw_store_options){0}, NULL, NULL));
    b->config = (struct aw_job_config){
        .workloads = w, .count = 1, .seed = 7, .thread_count = 1, .store = &b->store};
    aw_conf_defaults(aw_sim_fields, &b->config.sim);
    struct aw_diag diag = {0};
    if (aw_job_new(&b->config, NULL, &b->job, &diag))
        fail_msg("%s", diag.text);
}

static void end(struct bench *b)
{
    aw_job_free(b->job);
    aw_store_close(&b->store);
    aw_load_deinit(&b->load);
}

struct seen {
    uint64_t hash, model;
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
                              d->model,
                              d->origin.checksum,
                              d->origin.episodes,
                              d->guard.plan.replicas,
                              (uint64_t)d->guard.plan.cpu_millicores,
                              (uint64_t)d->guard.plan.memory_bytes};
    seen->hash = aw_hash_bytes(seen->hash, words, sizeof words);
    seen->models += d->model != seen->model;
    seen->model = d->model;
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
    begin(&b, model, HIDDEN);
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
        assert_true(decision->model == aw_pilot_network(view.pilot)->id);
        char *text = aw_account_text(&b.workload.pilot, decision);
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
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        struct bench b;
        begin(&b, model, HIDDEN);
        run(&b, at[k].saved);
        assert_ok(aw_job_save(b.job, path, NULL));
        const struct seen unkilled = run(&b, 2 * EPISODE);
        struct aw_job *again = NULL;
        aw_job_free(b.job);
        b.job = NULL;
        assert_ok(aw_job_new(&b.config, NULL, &again, NULL));
        b.job = again;
        assert_ok(aw_job_load(b.job, path, NULL));
        if (run(&b, 2 * EPISODE).hash != unkilled.hash)
            fail_msg("%s: other decisions", at[k].why);
        end(&b);
    }
    unlink(path);
}

static void a_model_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    struct seen seen[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct bench b;
        begin(&b, i ? model : NULL, HIDDEN / 2);
        seen[i] = run(&b, 8 * EPISODE);
        end(&b);
    }
    assert_int_equal(seen[1].shared_steps, 0);
    assert_true(seen[0].models > 0);
    assert_true(seen[0].hash == seen[1].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workload_begins_with_the_models_policy),
        cmocka_unit_test(a_run_that_was_killed_goes_on_as_if_it_had_not_been),
        cmocka_unit_test(a_model_that_does_not_fit_changes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
