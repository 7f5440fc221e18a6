/* job_test.c - pilot, loop and job together: what must hold whatever was learned. */
#include "simulation/job.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"
#include "simulation/job_testing.h"

static void it_learns_and_takes_over(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    run(&b, 12 * EPISODE);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_job_view view;
        aw_job_view(b.job, i, &view);
        assert_true(view.episodes >= 11);
        assert_true(view.stage[AW_JOB_AWARE][AW_STAGE_OFFLINE].steps >= 4 * EPISODE);
        assert_true(view.total[AW_JOB_AWARE].agent_steps > 0);
        assert_true(view.total[AW_JOB_TWIN].agent_steps == 0);
        assert_true(view.decision->policy_id != 0);
    }
    struct aw_store_counts counts;
    assert_ok(b.store.ops->counts(b.store.self, NULL, &counts, NULL));
    assert_int_equal(counts.workloads, WORKLOADS);
    assert_int_equal(counts.rows, WORKLOADS * (12 * EPISODE - 1)); /* one is in flight */
    end(&b);
}

static void same_seed_same_decisions_on_one_thread_and_on_two(void **state)
{
    (void)state;
    uint64_t h[3];
    for (uint32_t n = 0; n < 3; n++) {
        struct bench b;
        prepare(&b);
        b.config.thread_count = n + 1;
        begin(&b);
        h[n] = run(&b, 9 * EPISODE + 5);
        end(&b);
    }
    assert_true(h[0] == h[1]);
    assert_true(h[0] == h[2]);
    struct bench b;
    prepare(&b);
    b.config.seed++;
    begin(&b);
    assert_true(run(&b, 9 * EPISODE + 5) != h[0]); /* the hash can tell */
    end(&b);
}

static void a_run_that_was_killed_goes_on_as_if_it_had_not_been(void **state)
{
    (void)state;
    /* saved at some step, lived on for some more, killed; then resumed from the save with a store
     * that is ahead of it */
    static const struct {
        uint32_t saved, lived;
        const char *why;
    } at[] = {
        {0, 3, "before anything"},
        {7, 0, "within the first episode"},
        {EPISODE, EPISODE + 3, "at the end of an episode, killed in the next"},
        {4 * EPISODE + 1, 40, "while it learns offline"},
        {6 * EPISODE - 1, 30, "before a round of learning"},
        {9 * EPISODE + 5, 17, "while the agent acts"},
    };
    char path[] = "/tmp/aw-job-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        struct bench b;
        prepare(&b);
        begin(&b);
        run(&b, at[k].saved);
        assert_ok(aw_job_save(b.job, path, NULL));
        const uint64_t unkilled = run(&b, 60);

        struct aw_job *again = NULL;
        run(&b, at[k].lived);
        aw_job_free(b.job);
        assert_ok(aw_job_new(&b.config, NULL, &again, NULL));
        b.job = again;
        struct aw_diag diag = {0};
        if (aw_job_load(b.job, path, &diag))
            fail_msg("%s: %s", at[k].why, diag.text);
        assert_int_equal(aw_job_steps(b.job), at[k].saved);
        if (run(&b, 60) != unkilled)
            fail_msg("%s: other decisions", at[k].why);
        end(&b);
    }
    unlink(path);
}

/* A cluster that the job does not own, with the bench's workloads on it. */
static struct aw_sim *outside(struct bench *b)
{
    struct aw_sim *sim = NULL;
    assert_ok(aw_sim_new(&b->config.sim, 7, WORKLOADS, NULL, &sim, NULL));
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        const struct aw_job_workload *w = &b->workload[i];
        uint32_t index;
        assert_ok(aw_sim_add(sim,
                             &(struct aw_sim_workload){.app = w->app,
                                                       .load = w->load,
                                                       .replicas = w->task.replicas,
                                                       .replicas_max = w->pilot.bounds.replicas_max,
                                                       .cpu_millicores = w->task.cpu_millicores,
                                                       .memory_bytes = w->task.memory_bytes},
                             &index, NULL));
    }
    return sim;
}

struct told {
    uint32_t steps;
    int64_t at_us;
    double cost;
    bool sampled;
};

static void take_step(void *ctx, const struct aw_job_step *step)
{
    struct told *told = ctx;
    told->steps++;
    told->at_us = step->at_us;
    told->cost += step->own[AW_JOB_AWARE].cost;
    told->sampled = step->sample != NULL;
}

/* Ticks with a step of time behind each. */
static void tick(struct bench *b, const struct aw_cluster *cluster, uint32_t ticks,
                 struct told *told)
{
    const int64_t step_us = (int64_t)(b->workload[0].pilot.step_s * 1e6);
    for (uint32_t i = 0; i < ticks; i++) {
        assert_ok(aw_job_step(b->job, take_step, told, NULL));
        assert_ok(
            cluster->ops->advance(cluster->self, cluster->ops->now_us(cluster->self) + step_us));
    }
}

static void a_cluster_of_the_callers_is_told_of_when_steps_have_ended(void **state)
{
    (void)state;
    struct bench b;
    struct told told = {0};
    struct aw_job_view view;
    char path[] = "/tmp/aw-job-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    prepare(&b);
    struct aw_sim *sim = outside(&b);
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    b.config.cluster = &cluster;
    b.config.seconds_per_step = b.workload[0].pilot.step_s;
    begin(&b);
    tick(&b, &cluster, 1, &told);
    assert_int_equal(told.steps, 0); /* nothing has ended yet */
    tick(&b, &cluster, 9, &told);
    assert_int_equal(told.steps, 9 * WORKLOADS);
    assert_int_equal(aw_job_steps(b.job), 9);
    assert_int_equal(told.at_us + (int64_t)(b.workload[0].pilot.step_s * 1e6),
                     aw_job_lived_us(b.job));
    assert_true(told.sampled && told.cost > 0);
    aw_job_view(b.job, 0, &view);
    assert_int_equal(view.total[AW_JOB_AWARE].steps, 9);
    assert_int_equal(view.total[AW_JOB_TWIN].steps, 0); /* whatever the config asks for */
    assert_true(view.asked.replicas > 0 && view.at_us > 0);

    /* what a step was while nobody looked is not told of, and nothing is done before a look */
    assert_ok(aw_job_save(b.job, path, NULL));
    aw_job_free(b.job);
    assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
    assert_ok(aw_job_load(b.job, path, NULL));
    told = (struct told){0};
    tick(&b, &cluster, 1, &told);
    assert_int_equal(told.steps, 0);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        assert_false(aw_pilot_decision(aw_loop_pilot(aw_job_loop(b.job), i))->applied);
    tick(&b, &cluster, 1, &told);
    assert_int_equal(aw_job_steps(b.job), 10);

    /* a state of the one kind of cluster is none of the other's */
    b.config.cluster = NULL;
    aw_job_free(b.job);
    assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
    assert_int_equal(aw_job_load(b.job, path, NULL), AW_ERR_FORMAT);
    end(&b);
    aw_sim_free(sim);
    unlink(path);
}

static void without_learning_both_worlds_are_the_same(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        b.workload[i].pilot.learning = b.workload[i].pilot.relief.enabled = false;
    begin(&b);
    run(&b, 6 * EPISODE);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_job_view view;
        aw_job_view(b.job, i, &view);
        assert_memory_equal(&view.total[AW_JOB_AWARE], &view.total[AW_JOB_TWIN],
                            sizeof view.total[0]);
    }
    end(&b);
}

struct outage {
    int64_t from_us, to_us;
    uint32_t replicas[WORKLOADS];
    int64_t memory_bytes[WORKLOADS];
    uint32_t agent_steps; /* within it, once the figures have grown old */
};

static void watch_outage(void *ctx, const struct aw_job_step *step)
{
    struct outage *out = ctx;
    const struct aw_plan *plan = &step->plan[AW_JOB_AWARE];
    const uint32_t i = step->workload;
    if (step->at_us >= out->from_us + 150000000 && step->at_us < out->to_us) {
        assert_true(plan->replicas >= out->replicas[i]);
        assert_true(plan->memory_bytes >= out->memory_bytes[i]);
        out->agent_steps += step->decision->actor != AW_ACTOR_FALLBACK;
    }
    out->replicas[i] = plan->replicas;
    out->memory_bytes[i] = plan->memory_bytes;
}

static void lost_metrics_hand_over_to_the_fallback_and_shrink_nothing(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    const int64_t from = (int64_t)8 * EPISODE * 15000000;
    const struct aw_profile_fault fault = {
        .kind = AW_PROFILE_FAULT_METRICS, .at_us = from, .duration_us = 900000000};
    b.config.faults = &fault;
    b.config.fault_count = 1;
    begin(&b);
    struct outage out = {.from_us = from, .to_us = from + fault.duration_us};
    for (uint32_t s = 0; s < 14 * EPISODE; s++)
        assert_ok(aw_job_step(b.job, watch_outage, &out, NULL));
    assert_int_equal(out.agent_steps, 0);
    struct aw_job_view view;
    aw_job_view(b.job, 0, &view);
    assert_true(view.total[AW_JOB_AWARE].agent_steps > 0);
    end(&b);
}

static void ticks_do_not_allocate_and_a_serving_workload_is_small(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        b.workload[i].pilot.agent = AW_POLICY_CAPACITY; /* as users have it */
        aw_conf_defaults(aw_learner_fields, &b.workload[i].pilot.learner);
        b.workload[i].pilot.learning = false;
    }
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    b.config.store = NULL;
    assert_ok(aw_job_new(&b.config, &counting.alloc, &b.job, NULL));
    const uint64_t before = counting.alloc_count;
    run(&b, 3 * EPISODE);
    assert_int_equal(counting.alloc_count, before);
    struct aw_job_view view;
    aw_job_view(b.job, 0, &view);
    assert_true(aw_pilot_bytes(view.pilot, false) <= 64 << 10);
    aw_job_free(b.job);
    b.job = NULL;
    assert_int_equal(counting.alloc_count, counting.free_count);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        aw_load_deinit(&b.load[i]);
}

static void a_capacity_rule_does_not_take_the_papers_objective(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag = {0};
    prepare(&b);
    b.workload[1].pilot.objective = AW_OBJECTIVE_PAPER;
    assert_int_equal(aw_job_new(&b.config, NULL, &b.job, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "network"));
    for (uint32_t i = 0; i < WORKLOADS; i++)
        aw_load_deinit(&b.load[i]);
}

static void lack_of_memory_is_told_and_leaves_nothing_behind(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    for (uint64_t n = 0;; n++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        struct aw_job *job = NULL;
        const enum aw_err err = aw_job_new(&b.config, &counting.alloc, &job, NULL);
        if (!err)
            aw_job_free(job);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_null(job);
        assert_true(n < 500);
    }
    for (uint32_t i = 0; i < WORKLOADS; i++)
        aw_load_deinit(&b.load[i]);
}

static void changes_of_replicas_are_counted_and_what_is_taken_back_soon(void **state)
{
    (void)state;
    static const struct {
        int64_t at_s;
        uint32_t replicas;
        uint64_t changes, down, up;
        const char *why;
    } table[] = {
        {0, 4, 0, 0, 0, "how it begins is no change"},
        {15, 6, 1, 0, 0, "more"},
        {30, 6, 1, 0, 0, "nothing"},
        {315, 5, 2, 0, 0, "fewer, when the window has passed"},
        {330, 6, 3, 0, 1, "more again at once"},
        {615, 7, 4, 0, 1, "more after the window of fewer"},
        {900, 4, 5, 1, 1, "fewer within the window of more"},
    };
    struct aw_replica_track track = {0};
    struct aw_totals totals = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const int64_t at_us = table[i].at_s * 1000000;
        aw_totals_turn(&totals, aw_replica_track_step(&track, table[i].replicas, at_us));
        if (totals.replica_changes != table[i].changes || totals.reversals_down != table[i].down ||
            totals.reversals_up != table[i].up)
            fail_msg("%s", table[i].why);
    }
}

struct window {
    int64_t added_us[WORKLOADS];
    uint32_t held[AW_ACTOR_COUNT]; /* times that fewer were wanted too soon, and not given */
};

static void look_at_window(void *ctx, const struct aw_job_step *step)
{
    struct window *w = ctx;
    const struct aw_decision *d = step->decision;
    const struct aw_plan *wish = &d->guard.proposed, *plan = &d->guard.plan;
    int64_t *added_us = &w->added_us[step->workload];
    const uint32_t present = (uint32_t)d->reading.wanted[AW_RESOURCE_REPLICAS];
    const bool soon =
        *added_us != AW_NEVER && d->at_us - *added_us < (int64_t)AW_STABILISATION_S * 1000000;
    const bool changed = d->applied && (plan->set & AW_PLAN_REPLICAS);
    if (soon && (wish->set & AW_PLAN_REPLICAS) && wish->replicas < present)
        w->held[d->actor] += !changed || plan->replicas >= present;
    if (changed && plan->replicas > present)
        *added_us = d->at_us;
}

/* Kubernetes' window is the HPA's own; here it holds for the fallback and for what was learned. A
 * fallback without a window of its own would take replicas back at once. */
static void five_minutes_bind_the_policy_and_the_fallback(void **state)
{
    (void)state;
    for (int bound = 1; bound >= 0; bound--) {
        struct bench b;
        struct window w = {.added_us = {AW_NEVER, AW_NEVER}};
        prepare(&b);
        for (uint32_t i = 0; i < WORKLOADS; i++) {
            b.workload[i].pilot.fallback.hpa_down_window = 0;
            if (!bound)
                b.workload[i].pilot.guard.replicas_stabilisation = 0;
        }
        begin(&b);
        for (uint32_t n = 0; n < 16 * EPISODE; n++)
            assert_ok(aw_job_step(b.job, look_at_window, &w, NULL));
        uint64_t back = 0;
        for (uint32_t i = 0; i < WORKLOADS; i++) {
            struct aw_job_view view;
            aw_job_view(b.job, i, &view);
            back += view.total[AW_JOB_AWARE].reversals_down;
        }
        if (bound) {
            assert_int_equal(back, 0);
            assert_true(w.held[AW_ACTOR_FALLBACK] > 0 && w.held[AW_ACTOR_AGENT] > 0);
        } else {
            assert_true(back > 0); /* so the test can tell */
        }
        end(&b);
    }
}

AW_TEST_GROUP("job")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_and_takes_over),
        cmocka_unit_test(same_seed_same_decisions_on_one_thread_and_on_two),
        cmocka_unit_test(a_run_that_was_killed_goes_on_as_if_it_had_not_been),
        cmocka_unit_test(a_cluster_of_the_callers_is_told_of_when_steps_have_ended),
        cmocka_unit_test(without_learning_both_worlds_are_the_same),
        cmocka_unit_test(lost_metrics_hand_over_to_the_fallback_and_shrink_nothing),
        cmocka_unit_test(ticks_do_not_allocate_and_a_serving_workload_is_small),
        cmocka_unit_test(a_capacity_rule_does_not_take_the_papers_objective),
        cmocka_unit_test(changes_of_replicas_are_counted_and_what_is_taken_back_soon),
        cmocka_unit_test(five_minutes_bind_the_policy_and_the_fallback),
        cmocka_unit_test(lack_of_memory_is_told_and_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
