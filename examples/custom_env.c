/*
 * custom_env.c - an environment of one's own: how many workers should a pool have?
 *
 * Jobs arrive at a rate that rises and falls; each worker does WORKER_JOBS of them in a step. Every
 * second the agent takes workers away, keeps them or adds some, one step late as in life: whoever
 * waits for the queue to grow pays for the queue. Workers cost, and so do waiting jobs.
 *
 * What the contract asks, and where it is kept here:
 *   - an episode comes from its seed alone                 pool_reset
 *   - a refused action moves nothing                       the first lines of pool_step
 *   - observations and rewards stay within the spec        show, and the shares in pool_step
 *   - nothing but the clock ends it: truncated             the end of pool_step
 *   - a snapshot is everything that decides the future     struct state, sealed by a checksum
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "custom.h"

#define WORKERS_MIN   1
#define WORKERS_MAX   32
#define WORKERS_STEP  2   /* that one action adds or takes away */
#define WORKER_JOBS   4.0 /* that one worker does in a step */
#define QUEUE_MAX     200.0
#define ARRIVALS_MEAN 60.0 /* jobs a step */
#define ARRIVALS_MAX  (ARRIVALS_MEAN * 2)
#define SWING         0.6 /* of the mean, up and down */
#define SWING_STEPS   100.0
#define NOISE         0.2 /* of the mean, uniform, to both sides */
#define STEPS_MAX     200

enum { FEWER, KEEP, MORE, CHOICES };

/* Plain data without padding: save is a copy, and the same state gives the same bytes. */
struct state {
    uint64_t random;
    double phase; /* where in its swing the load begins */
    double queue, arrivals;
    int32_t workers, step;
    uint32_t live; /* reset, and not yet ended */
    uint32_t seal; /* checksum of all before it; only in snapshots */
};
_Static_assert(sizeof(struct state) == 4 * 8 + 4 * 4, "a snapshot has no padding");

static const struct aw_space_axis seen[] = {
    {"queue", "share of the longest", 0, 1},
    {"arrivals", "share of the most", 0, 1},
    {"workers", "share of the most", 0, 1},
};
static const struct aw_space_axis choices[CHOICES] = {
    {"fewer", "", 0, 0},
    {"keep", "", 0, 0},
    {"more", "", 0, 0},
};

static const struct aw_env_spec spec = {
    .name = "pool-v0",
    .summary = "Size a pool of workers before a queue whose load rises and falls.",
    .observation = {AW_SPACE_BOX, 3, 0, seen},
    .action = {AW_SPACE_DISCRETE, 1, CHOICES, choices},
    .episode_steps_max = STEPS_MAX,
    .reward_low = -2, /* all workers, and the longest queue */
    .reward_high = 0,
    .solved_return = NAN,
    .state_bytes = sizeof(struct state),
};

static void show(const struct state *state, float *obs)
{
    obs[0] = (float)(state->queue / QUEUE_MAX);
    obs[1] = (float)(state->arrivals / ARRIVALS_MAX);
    obs[2] = (float)state->workers / WORKERS_MAX;
}

static void arrive(struct state *state)
{
    const double turn = 2 * 3.14159265358979323846;
    double swing = SWING * sin(state->phase + turn * state->step / SWING_STEPS);
    double noise = NOISE * (2 * chance(&state->random) - 1);
    state->arrivals = ARRIVALS_MEAN * (1 + swing + noise); /* 0.2 to 1.8 of the mean */
}

static enum aw_err pool_reset(void *self, uint64_t seed, float *obs)
{
    struct state *state = self;
    *state = (struct state){.random = seed, .workers = WORKERS_MAX / 2, .live = true};
    state->phase = 2 * 3.14159265358979323846 * chance(&state->random);
    arrive(state);
    show(state, obs);
    return AW_OK;
}

static enum aw_err pool_step(void *self, const float *action, float *obs, struct aw_step *ret)
{
    struct state *state = self;
    AW_ASSERT(state->live); /* stepping an episode that has ended is a bug, not an error */
    if (!aw_space_accepts(&spec.action, action))
        return AW_ERR_RANGE;

    int32_t workers = state->workers + ((int32_t)action[0] - KEEP) * WORKERS_STEP;
    state->workers = workers < WORKERS_MIN   ? WORKERS_MIN
                     : workers > WORKERS_MAX ? WORKERS_MAX
                                             : workers;
    double left = state->queue + state->arrivals - WORKER_JOBS * state->workers;
    state->queue = fmin(fmax(left, 0), QUEUE_MAX); /* jobs beyond that are turned away */
    state->step++;
    arrive(state);
    show(state, obs);
    ret->reward = -(obs[0] + obs[2]);
    ret->terminated = false;
    ret->truncated = state->step >= STEPS_MAX;
    state->live = !ret->truncated;
    return AW_OK;
}

/* FNV-1a: tells bytes that save wrote from others, not from those of an enemy. */
static uint32_t seal_of(const struct state *state)
{
    const unsigned char *bytes = (const unsigned char *)state;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < offsetof(struct state, seal); i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static void pool_state_save(const void *self, void *bytes)
{
    struct state state;
    memcpy(&state, self, sizeof state);
    state.seal = seal_of(&state);
    memcpy(bytes, &state, sizeof state);
}

static enum aw_err pool_state_load(void *self, const void *bytes)
{
    struct state state;
    memcpy(&state, bytes, sizeof state);
    if (state.seal != seal_of(&state))
        return AW_ERR_FORMAT;
    memcpy(self, &state, sizeof state);
    return AW_OK;
}

static const struct aw_env_ops ops = {
    .reset = pool_reset,
    .step = pool_step,
    .state_save = pool_state_save,
    .state_load = pool_state_load,
    .free = free,
};

/* The process heap is enough here, whatever `alloc` is: 48 bytes, once. */
static enum aw_err pool_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                             struct aw_diag *diag)
{
    (void)alloc;
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", spec.name);
    *ret_env = (struct aw_env){&spec, &ops, state};
    return AW_OK;
}

const struct aw_env_factory pool_factory = {.spec = &spec, .make = pool_make};
