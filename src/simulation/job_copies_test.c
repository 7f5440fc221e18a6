/* job_copies_test.c - a workload whose network learns by acting on copies, from its first tick on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/testing.h"
#include "simulation/job.h"
#include "simulation/simulate.h"

#define EPISODE 24u

struct bench {
    struct aw_job_workload workload;
    struct aw_load load;
    struct aw_job_config config;
    struct aw_store store;
    struct aw_job *job;
};

/* Rounds so small that they teach little: what is asked is who may act when, and what is kept. */
static void begin(struct bench *b, uint32_t method)
{
    memset(b, 0, sizeof *b);
    struct aw_job_workload *w = &b->workload;
    aw_app_generate(1, 3, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &w->app);
    assert_ok(aw_load_parse("diurnal:mean=20,period=900", 1, NULL, &b->load, NULL));
    aw_load_scale_mean(&b->load, aw_app_rate_for(&w->app, 1.5));
    w->load = &b->load;
    struct aw_pilot_config *pilot = &w->pilot;
    aw_pilot_config_init(pilot);
    snprintf(pilot->name, sizeof pilot->name, "test/copied");
    pilot->bounds =
        (struct aw_bounds){.min = {1, 100, 128 << 20}, .max = {10, 4000, (int64_t)4 << 30}};
    pilot->slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&w->app, 1, 0);
    pilot->seed = 1;
    pilot->episode_steps = EPISODE;
    pilot->thresholds.online = -1e9; /* whatever was learned may act */
    pilot->lifecycle.offline_least = 4;
    pilot->agent = AW_POLICY_NETWORK;
    pilot->learner.method = method;
    pilot->learner.copy_steps = 128;
    pilot->learner.episodes = 8;
    pilot->learner.hidden = 8;
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

/* What was decided, as one number, and what stages and models were seen. */
struct seen {
    uint64_t hash;
    uint64_t policy_id; /* the last */
    uint32_t models, online_steps;
};

static void listen(void *ctx, const struct aw_job_step *step)
{
    struct seen *seen = ctx;
    const struct aw_decision *d = step->decision;
    const uint64_t words[] = {(uint64_t)d->at_us,
                              d->stage,
                              d->actor,
                              d->policy_id,
                              d->guard.plan.replicas,
                              (uint64_t)d->guard.plan.cpu_millicores,
                              (uint64_t)d->guard.plan.memory_bytes,
                              d->guard.clips};
    seen->hash = aw_hash_bytes(seen->hash, words, sizeof words);
    seen->models += d->policy_id != seen->policy_id;
    seen->policy_id = d->policy_id;
    seen->online_steps += d->stage == AW_STAGE_ONLINE;
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

static void every_method_bootstraps_on_copies_and_takes_over(void **state)
{
    (void)state;
    for (uint32_t method = AW_LEARNER_PPO; method <= AW_LEARNER_DDPG; method++) {
        struct bench b;
        begin(&b, method);
        /* half an hour of load is needed before there is a copy: five episodes of six minutes */
        const struct seen young = run(&b, 4 * EPISODE);
        assert_int_equal(young.models, 0);
        assert_int_equal(young.online_steps, 0);
        const struct seen later = run(&b, 6 * EPISODE);
        struct aw_job_view view;
        aw_job_view(b.job, 0, &view);
        assert_true(later.online_steps > 0);
        assert_true(later.models >= 2); /* it learns on while it acts */
        assert_true(view.total[AW_JOB_AWARE].agent_steps > 0);
        end(&b);
    }
}

static void a_run_that_was_killed_goes_on_as_if_it_had_not_been(void **state)
{
    (void)state;
    static const struct {
        uint32_t saved;
        const char *why;
    } at[] = {
        {5 * EPISODE - 1, "before the first round"},
        {5 * EPISODE + 1, "after it: the record is part of what is saved"},
        {8 * EPISODE, "while the agent acts"},
    };
    char path[] = "/tmp/aw-job-copies-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        struct bench b;
        begin(&b, AW_LEARNER_PPO);
        run(&b, at[k].saved);
        assert_ok(aw_job_save(b.job, path, NULL));
        const struct seen unkilled = run(&b, 2 * EPISODE);
        assert_true(unkilled.models > 0);
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

AW_TEST_GROUP("job-copies")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_bootstraps_on_copies_and_takes_over),
        cmocka_unit_test(a_run_that_was_killed_goes_on_as_if_it_had_not_been),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
