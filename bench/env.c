/*
 * env.c - steps per second of every built-in environment: alone, and in lockstep on one and two
 * threads.
 *
 * A new random action at every step is the hardest that an environment can be asked: to the
 * autoscaling ones it means a rollout of all pods in each of them. Controllers hold still most of
 * the time, so these are also measured with actions that are held. In lockstep, the figure beside
 * ours is what ours is compared with: alone for one thread, one thread for two.
 */
#include <aware/env.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "env/vec.h"

#define ROUNDS       150u  /* of which the quickest counts: what else is on the machine slows us */
#define ROUND_US     5000  /* of CPU time: long enough for all that an episode may be */
#define WALL_US      1000  /* by the clock: short enough to be undisturbed now and then, ... */
#define WALL_TRIES   3u    /* ... and so many in a round */
#define VEC_COUNT    64    /* environments in lockstep */
#define ACTION_COUNT 1024u /* drawn before the clock starts, used round and round */
#define BATCH        256u  /* steps between looks at the clock */
#define HOLD         20    /* steps for which an action is held in the second figure */
/* Goals of an autoscaling environment with the fast model, in steps/s and as ratios. */
#define FRESH_GOAL    1e6
#define HELD_GOAL     1e6
#define TOGETHER_GOAL 1.0 /* VEC_COUNT on one thread, to one alone */
#define THREADS_GOAL  1.7 /* two threads, to one */

static void action_draw(const struct aw_space *space, struct aw_rng *rng, float *action)
{
    if (space->kind == AW_SPACE_DISCRETE) {
        action[0] = (float)aw_rng_below(rng, space->n);
        return;
    }
    for (uint32_t i = 0; i < space->dim; i++)
        action[i] =
            (float)aw_rng_uniform(rng, (double)space->axes[i].low, (double)space->axes[i].high);
}

/* CPU time of this thread: what one core does, even if other processes share it. */
static int64_t cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* One that is measured: an environment alone, or VEC_COUNT of them through the vectoriser. */
struct runner {
    uint32_t threads; /* 0: alone, by its own functions, resets included */
    uint32_t hold;    /* steps from one action to the next */
    struct aw_env env;
    float *obs; /* alone: what it shows */
    struct aw_threads pool;
    struct aw_vec vec;
    uint64_t steps, seed;
    double quickest; /* steps/s */
};

static void runner_free(struct runner *runner)
{
    aw_env_free(&runner->env);
    aw_alloc_free(NULL, runner->obs);
    aw_vec_deinit(&runner->vec);
    aw_threads_deinit(&runner->pool);
}

static enum aw_err runner_begin(struct runner *runner, const struct aw_env_factory *factory,
                                struct aw_diag *diag)
{
    enum aw_err err;
    if (runner->threads == 0) {
        runner->obs = aw_alloc_new(NULL, factory->spec->observation.dim, sizeof *runner->obs);
        if (!runner->obs)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for an observation");
        if ((err = factory->make(NULL, &runner->env, diag)))
            return err;
        return runner->env.ops->reset(runner->env.self, runner->seed++, runner->obs);
    }
    if ((err = aw_threads_init(&runner->pool, runner->threads, NULL)))
        return aw_fail(diag, err, "cannot start %u threads", runner->threads);
    if ((err = aw_vec_init(&runner->vec, factory, VEC_COUNT, &runner->pool, NULL, diag)))
        return err;
    return aw_vec_reset(&runner->vec, 0, diag);
}

static enum aw_err run_alone(struct runner *runner, const float *actions)
{
    const struct aw_env *env = &runner->env;
    const uint32_t dim = env->spec->action.dim;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < BATCH && !err; i++, runner->steps++) {
        const float *action = actions + (runner->steps / runner->hold % ACTION_COUNT) * dim;
        struct aw_step step;
        err = env->ops->step(env->self, action, runner->obs, &step);
        if (!err && (step.terminated || step.truncated))
            err = env->ops->reset(env->self, runner->seed++, runner->obs);
    }
    return err;
}

static enum aw_err run_together(struct runner *runner, const float *actions, struct aw_diag *diag)
{
    struct aw_vec *vec = &runner->vec;
    const size_t dim = vec->spec->action.dim;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < BATCH && !err; i += VEC_COUNT, runner->steps += VEC_COUNT) {
        memcpy(vec->action, actions + runner->steps % ACTION_COUNT * dim,
               VEC_COUNT * dim * sizeof *actions);
        err = aw_vec_step(vec, diag);
    }
    return err;
}

/* One round. What one thread does is measured in its CPU time, what several do by the clock. */
static enum aw_err runner_round(struct runner *runner, const float *actions, struct aw_diag *diag)
{
    const bool wall = runner->threads > 1;
    const uint64_t before = runner->steps;
    const int64_t begin_us = wall ? aw_clock_monotonic_us(NULL) : cpu_us();
    int64_t span_us;
    enum aw_err err;
    do {
        err = runner->threads ? run_together(runner, actions, diag) : run_alone(runner, actions);
        span_us = (wall ? aw_clock_monotonic_us(NULL) : cpu_us()) - begin_us;
    } while (!err && span_us < (wall ? WALL_US : ROUND_US));
    const double rate = (double)(runner->steps - before) * 1e6 / (double)span_us;
    runner->quickest = rate > runner->quickest ? rate : runner->quickest;
    return err;
}

enum { FRESH, HELD, ONE_THREAD, TWO_THREADS, RUNNERS };

/* All of them by turns, so that what else is on the machine slows them alike. */
static enum aw_err measure(const struct aw_env_factory *factory, const float *actions,
                           double *ret_rate, struct aw_diag *diag)
{
    struct runner runner[RUNNERS] = {[FRESH] = {.hold = 1},
                                     [HELD] = {.hold = HOLD},
                                     [ONE_THREAD] = {.threads = 1},
                                     [TWO_THREADS] = {.threads = 2}};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < RUNNERS && !err; i++)
        err = runner_begin(&runner[i], factory, diag);
    for (uint32_t round = 0; round < ROUNDS && !err; round++)
        for (uint32_t i = 0; i < RUNNERS; i++)
            for (uint32_t k = 0; k < (runner[i].threads > 1 ? WALL_TRIES : 1) && !err; k++)
                err = runner_round(&runner[i], actions, diag);
    for (uint32_t i = 0; i < RUNNERS; i++) {
        ret_rate[i] = runner[i].quickest;
        runner_free(&runner[i]);
    }
    return err ? aw_fail(diag, err, "%s failed while it was measured: %s", factory->spec->name,
                         aw_err_text(err))
               : AW_OK;
}

/* Adds a figure; `against` NAN: there is nothing to compare it with. */
static void report(struct aw__bench *bench, double rate, double against, double goal,
                   const char *env, const char *what)
{
    struct aw__bench_figure *figure = aw__bench_add(bench, "steps/s", "%s %s", env, what);
    figure->value = rate;
    figure->against = against;
    figure->ratio = rate / against;
    figure->goal = goal;
}

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

static void report_all(struct aw__bench *bench, const struct aw_env_factory *factory,
                       const double *rate)
{
    const char *env = factory->spec->name;
    /* The goals are for what simulates a cluster: less than a microsecond is not worth a thread. */
    const bool heavy = factory->fields != NULL, two = heavy && aw_threads_cpu_count() > 1;
    report(bench, rate[FRESH], (double)NAN, heavy ? FRESH_GOAL : (double)NAN, env, "single");
    if (heavy)
        report(bench, rate[HELD], (double)NAN, HELD_GOAL, env,
               "single, action held " TEXT(HOLD) " steps");
    report(bench, rate[ONE_THREAD], rate[FRESH], heavy ? TOGETHER_GOAL : (double)NAN, env,
           "x" TEXT(VEC_COUNT) ", 1 thread");
    report(bench, rate[TWO_THREADS], rate[ONE_THREAD], two ? THREADS_GOAL : (double)NAN, env,
           "x" TEXT(VEC_COUNT) ", 2 threads");
}

enum aw_err aw__bench_env(struct aw__bench *bench, struct aw_diag *diag)
{
    _Static_assert(ACTION_COUNT % VEC_COUNT == 0, "a lockstep never reads past the actions");
    enum aw_err err = AW_OK;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f && !err; f++) {
        const struct aw_space *space = &(*f)->spec->action;
        double rate[RUNNERS] = {0};
        struct aw_rng rng;
        float *actions = aw_alloc_new(NULL, ACTION_COUNT, space->dim * sizeof *actions);
        if (!actions)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for the actions");
        aw_rng_init(&rng, 0, 0);
        for (uint32_t i = 0; i < ACTION_COUNT; i++)
            action_draw(space, &rng, actions + (size_t)i * space->dim);
        if (!(err = measure(*f, actions, rate, diag)))
            report_all(bench, *f, rate);
        aw_alloc_free(NULL, actions);
    }
    return err;
}
