/*
 * env.c - steps per second of every built-in environment: alone (CPU time), and in lockstep
 * on one and two threads (wall time).
 *
 * A new random action at every step is the hardest that an environment can be asked: to the
 * autoscaling ones it means a rollout of all pods in each of them. Controllers hold still most of
 * the time, so these are also measured with actions that are held, and the goal is about that.
 */
#include <aware/env.h>

#include <time.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "env/vec.h"

#define MEASURE_US   200000 /* of each figure; alone, of each round */
#define ROUNDS       3u     /* of which the quickest counts: what else is on the machine slows us */
#define HELD_GOAL    1e6    /* steps/s of an autoscaling environment with the fast model */
#define VEC_COUNT    64u    /* environments in lockstep */
#define ACTION_COUNT 1024u  /* drawn before the clock starts, used round and round */
#define BATCH        256u   /* steps between looks at the clock */
#define HOLD         20u    /* steps for which an action is held in the second figure */

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

static enum aw_err failed(const struct aw_env_spec *spec, enum aw_err err, struct aw_diag *diag)
{
    return aw_fail(diag, err, "%s failed while it was measured: %s", spec->name, aw_err_text(err));
}

/* CPU time of this thread: what one core does, whoever else is on it. */
static int64_t cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* One environment, stepped by its own functions, resets included; a new action every `hold` steps.
 */
static enum aw_err single(const struct aw_env_factory *factory, const float *actions, uint32_t hold,
                          float *obs, double *ret_rate, struct aw_diag *diag)
{
    const struct aw_env_spec *spec = factory->spec;
    struct aw_env env = {0};
    struct aw_step step;
    uint64_t count = 0, seed = 0;
    enum aw_err err = factory->make(NULL, &env, diag);
    if (err)
        return err;
    if ((err = env.ops->reset(env.self, seed++, obs)))
        goto out;
    double quickest = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t before = count;
        const int64_t begin_us = cpu_us();
        int64_t now_us;
        do {
            for (uint32_t i = 0; i < BATCH; i++, count++) {
                const float *action = actions + (count / hold % ACTION_COUNT) * spec->action.dim;
                if ((err = env.ops->step(env.self, action, obs, &step)))
                    goto out;
                if ((step.terminated || step.truncated) &&
                    (err = env.ops->reset(env.self, seed++, obs)))
                    goto out;
            }
            now_us = cpu_us();
        } while (now_us - begin_us < MEASURE_US);
        const double rate = (double)(count - before) * 1e6 / (double)(now_us - begin_us);
        quickest = rate > quickest ? rate : quickest;
    }
    *ret_rate = quickest;
out:
    aw_env_free(&env);
    return err ? failed(spec, err, diag) : AW_OK;
}

/* VEC_COUNT of them through the vectoriser. */
static enum aw_err lockstep(const struct aw_env_factory *factory, const float *actions,
                            uint32_t threads, double *ret_rate, struct aw_diag *diag)
{
    const struct aw_env_spec *spec = factory->spec;
    struct aw_threads pool = {0};
    struct aw_vec vec = {0};
    uint64_t count = 0;
    enum aw_err err = aw_threads_init(&pool, threads, NULL);
    if (err)
        return aw_fail(diag, err, "cannot start %u threads", threads);
    if ((err = aw_vec_init(&vec, factory, VEC_COUNT, threads > 1 ? &pool : NULL, NULL, diag)) ||
        (err = aw_vec_reset(&vec, 0, diag)))
        goto out;
    int64_t begin_us = aw_clock_monotonic_us(NULL), now_us;
    do {
        for (uint32_t i = 0; i < BATCH / 16; i++, count += VEC_COUNT) {
            size_t size = (size_t)VEC_COUNT * spec->action.dim;
            const float *from = actions + (count % ACTION_COUNT) * spec->action.dim;
            for (size_t k = 0; k < size; k++)
                vec.action[k] = from[k];
            if ((err = aw_vec_step(&vec, diag)))
                goto out;
        }
        now_us = aw_clock_monotonic_us(NULL);
    } while (now_us - begin_us < MEASURE_US);
    *ret_rate = (double)count * 1e6 / (double)(now_us - begin_us);
out:
    aw_vec_deinit(&vec);
    aw_threads_deinit(&pool);
    return err;
}

enum aw_err aw__bench_env(struct aw__bench *bench, struct aw_diag *diag)
{
    _Static_assert(ACTION_COUNT % VEC_COUNT == 0, "a lockstep never reads past the actions");
    enum aw_err err = AW_OK;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f && !err; f++) {
        const struct aw_env_spec *spec = (*f)->spec;
        struct aw_rng rng;
        double rate = 0;
        float *actions = aw_alloc_new(NULL, ACTION_COUNT, spec->action.dim * sizeof *actions);
        float *obs = aw_alloc_new(NULL, spec->observation.dim, sizeof *obs);
        aw_rng_init(&rng, 0, 0);
        if (!actions || !obs)
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the actions");
        for (uint32_t i = 0; !err && i < ACTION_COUNT; i++)
            action_draw(&spec->action, &rng, actions + (size_t)i * spec->action.dim);
        if (!err && !(err = single(*f, actions, 1, obs, &rate, diag)))
            aw__bench_add(bench, "steps/s", "%s single", spec->name)->value = rate;
        if (!err && (*f)->fields && !(err = single(*f, actions, HOLD, obs, &rate, diag))) {
            struct aw__bench_figure *figure = aw__bench_add(
                bench, "steps/s", "%s single, action held %u steps", spec->name, HOLD);
            figure->value = rate;
            figure->goal = HELD_GOAL;
        }
        for (uint32_t threads = 1; !err && threads <= 2; threads++) {
            if (!(err = lockstep(*f, actions, threads, &rate, diag)))
                aw__bench_add(bench, "steps/s", "%s x%u, %u thread%s", spec->name, VEC_COUNT,
                              threads, threads == 1 ? "" : "s")
                    ->value = rate;
        }
        aw_alloc_free(NULL, actions);
        aw_alloc_free(NULL, obs);
    }
    return err;
}
