/* learning_test.c - control never waits for learning, and learning gives what it always gave. */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "policy/capacity.h"
#include "simulation/job_testing.h"

/* A teacher that learns when it is let: as the search of a large workload takes its time. */
static struct {
    sem_t go;
    _Atomic uint32_t begun, ended;
    _Atomic bool holds;
} lessons;

static enum aw_err held_learn(struct aw_lesson *lesson, struct aw_diag *diag)
{
    lessons.begun++;
    while (lessons.holds) {
        if (lesson->copies.stop && *lesson->copies.stop)
            return AW_ERR_INTERRUPTED;
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 10000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
        if (sem_timedwait(&lessons.go, &soon) == 0)
            break;
    }
    const enum aw_err err = aw_capacity_teacher.learn(lesson, diag);
    lessons.ended++;
    return err;
}

static bool held_copies(const struct aw_learner_settings *settings, bool has_model)
{
    (void)settings;
    (void)has_model;
    return true;
}

static const struct aw_teacher_ops held_teacher = {
    .learns = true, .least_cost = true, .copies = held_copies, .learn = held_learn};

static void prepare_held(struct bench *b, enum aw_loop_learning learning)
{
    prepare(b);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        b->workload[i].pilot.agent = AW_POLICY_CAPACITY;
        b->workload[i].pilot.policy = &aw_capacity_ops;
        b->workload[i].pilot.teacher = &held_teacher;
    }
    b->config.learning = learning;
    b->config.twin = false;
    lessons.begun = lessons.ended = 0;
    lessons.holds = true;
    assert_int_equal(sem_init(&lessons.go, 0, 0), 0);
}

static void let_go(void)
{
    lessons.holds = false;
    for (uint32_t i = 0; i < 64; i++)
        sem_post(&lessons.go);
}

static struct aw_pilot *pilot_of(struct bench *b, uint32_t i)
{
    return aw_loop_pilot(aw_job_loop(b->job), i);
}

/* Whether so many rounds give a policy, and it is taken. Those that saw too little come first,
 * and do not count. */
static bool learned(struct bench *b, uint64_t rounds)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + 120000000;
    while (aw_job_counts(b->job)->learn_rounds < rounds && aw_clock_monotonic_us(NULL) < until) {
        usleep(20000);
        run(b, 1);
    }
    return aw_job_counts(b->job)->learn_rounds >= rounds;
}

/* Old: the tick that began a round ended with it, and so did everything else. */
static void ticks_go_on_while_everything_learns(void **state)
{
    (void)state;
    struct bench b;
    prepare_held(&b, AW_LOOP_LEARN_BESIDE);
    begin(&b);
    run(&b, 12 * EPISODE); /* this returns although no round has */
    for (uint32_t i = 0; i < 1000 && lessons.begun == 0; i++)
        usleep(1000);
    assert_true(lessons.begun >= 1);
    assert_int_equal(lessons.ended, 0);
    assert_int_equal(aw_job_counts(b.job)->learn_rounds, 0);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        assert_int_equal(aw_pilot_stage(pilot_of(&b, i)), AW_STAGE_OFFLINE);
    let_go();
    assert_true(learned(&b, 2));
    run(&b, 6 * EPISODE);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        assert_true(aw_pilot_decision(pilot_of(&b, i))->policy_id != 0);
    end(&b);
}

static void rounds_that_run_are_given_up_at_the_end(void **state)
{
    (void)state;
    struct bench b;
    prepare_held(&b, AW_LOOP_LEARN_BESIDE);
    begin(&b);
    while (lessons.begun == 0)
        run(&b, 1);
    const int64_t began = aw_clock_monotonic_us(NULL);
    end(&b);
    assert_true(aw_clock_monotonic_us(NULL) - began < 5000000);
    assert_int_equal(lessons.ended, 0);
}

/* A round learns for the workload as it was when the round began. If the workload has changed
 * since, the loop drops the result and learns again. */
static void a_result_that_comes_too_late_is_not_taken(void **state)
{
    (void)state;
    struct bench b;
    for (uint32_t k = 0; k < 3; k++) {
        prepare_held(&b, AW_LOOP_LEARN_BESIDE);
        begin(&b);
        while (lessons.begun == 0)
            run(&b, 1);
        struct aw_pilot_config config = *aw_pilot_config(pilot_of(&b, 0));
        for (uint32_t i = 0; i < WORKLOADS; i++) {
            if (k == 0)
                assert_ok(aw_pilot_forget(pilot_of(&b, i), aw_job_now_us(b.job), NULL));
            config = *aw_pilot_config(pilot_of(&b, i));
            config.slo.latency_us_p99 *= 1.2;
            if (k == 1)
                assert_ok(aw_loop_update(aw_job_loop(b.job), i, &config, NULL));
        }
        if (k == 2) { /* nobody is there any more */
            let_go();
            aw_job_free(b.job);
            assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
            run(&b, 1);
            end(&b);
            continue;
        }
        const uint32_t before = lessons.begun;
        let_go();
        while (lessons.ended < before)
            usleep(1000);
        run(&b, 1);
        assert_int_equal(aw_job_counts(b.job)->learn_rounds, 0);
        assert_int_equal(aw_job_counts(b.job)->learn_failures, 0);
        for (uint32_t i = 0; i < WORKLOADS; i++)
            assert_int_equal(aw_pilot_learned(pilot_of(&b, i))->rounds, 0);
        end(&b);
    }
}

/* --- simulated time --------------------------------------------------------------------------- */

/* However many threads there are: with one, rounds are late, and are waited for. */
static void the_same_ticks_give_the_same_bytes_whatever_the_machine(void **state)
{
    (void)state;
    uint64_t h[3];
    for (uint32_t n = 0; n < 3; n++) {
        struct bench b;
        prepare(&b);
        b.config.thread_count = 2 * n + 1;
        b.config.learning = AW_LOOP_LEARN_AFTER;
        begin(&b);
        h[n] = run(&b, 12 * EPISODE + 5);
        for (uint32_t i = 0; i < WORKLOADS; i++)
            assert_true(aw_pilot_decision(pilot_of(&b, i))->policy_id != 0);
        end(&b);
    }
    assert_true(h[0] == h[1] && h[0] == h[2]);
}

static void a_run_that_was_killed_while_it_learned_goes_on_as_if_it_had_not_been(void **state)
{
    (void)state;
    char path[] = "/tmp/aw-learning-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    uint32_t under_way = 0;
    for (uint32_t saved = 4 * EPISODE - 2; saved < 10 * EPISODE; saved += 5) {
        struct bench b;
        prepare(&b);
        b.config.learning = AW_LOOP_LEARN_AFTER;
        begin(&b);
        run(&b, saved);
        const uint64_t rounds = aw_job_counts(b.job)->learn_rounds;
        assert_ok(aw_job_save(b.job, path, NULL));
        const uint64_t unkilled = run(&b, AW_LOOP_LEARN_LATER);
        under_way += aw_job_counts(b.job)->learn_rounds > rounds;
        const uint64_t later = run(&b, 40);
        aw_job_free(b.job);
        assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
        assert_ok(aw_job_load(b.job, path, NULL));
        assert_true(run(&b, AW_LOOP_LEARN_LATER) == unkilled);
        assert_true(run(&b, 40) == later);
        end(&b);
    }
    assert_true(under_way > 2); /* some saves came while rounds ran */
    unlink(path);
}

AW_TEST_GROUP("learning")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_go_on_while_everything_learns),
        cmocka_unit_test(rounds_that_run_are_given_up_at_the_end),
        cmocka_unit_test(a_result_that_comes_too_late_is_not_taken),
        cmocka_unit_test(the_same_ticks_give_the_same_bytes_whatever_the_machine),
        cmocka_unit_test(a_run_that_was_killed_while_it_learned_goes_on_as_if_it_had_not_been),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
