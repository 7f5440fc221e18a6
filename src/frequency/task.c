/* task.c - CPU frequency behind the contract of tasks; see aware/task.h. */
#include "frequency/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frequency/governor.h"
#include "frequency/learn.h"
#include "frequency/study.h"

#define PAIRS_EVALUATED 200u
#define PEER_PAIRS      8u
#define PEER_EPISODES   40u
/* An observation: what a machine shows, then the processor's least and nominal frequency of its
 * most: what any program reads from cpuinfo. */
#define OBS_COUNT (AW_FREQUENCY_OBS + 2u)

struct world {
    struct aw_machine machine;
};

static void pair_of(uint64_t seed, enum aw_task_split split, struct aw_frequency_pair *ret)
{
    aw_frequency_pair_draw(seed, split == AW_TASK_UNSEEN, seed % 2, ret);
}

static void pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret_pair)
{
    struct aw_frequency_pair drawn;
    float truth[AW_FREQUENCY_EMBEDDING];
    pair_of(seed, split, &drawn);
    aw_frequency_truth(&drawn, truth);
    *ret_pair =
        (struct aw_task_pair){.seed = seed, .split = split, .truth_count = AW_FREQUENCY_EMBEDDING};
    snprintf(ret_pair->application, sizeof ret_pair->application, "%s %llu%s",
             drawn.batch ? "batch job" : "service", (unsigned long long)seed,
             drawn.phase_count > 1 ? ", phases" : "");
    snprintf(ret_pair->environment, sizeof ret_pair->environment, "%s", drawn.processor.name);
    for (uint32_t i = 0; i < AW_FREQUENCY_EMBEDDING; i++)
        ret_pair->truth[i] = (double)truth[i];
}

static void show(const struct world *world, float *obs)
{
    const struct aw_processor *processor = &world->machine.pair.processor;
    obs[AW_FREQUENCY_OBS] = (float)(processor->min_ghz / processor->max_ghz);
    obs[AW_FREQUENCY_OBS + 1] = (float)(processor->nominal_ghz / processor->max_ghz);
}

static void reset(void *self, const struct aw_task_pair *pair, uint64_t seed, float *obs)
{
    struct world *world = self;
    struct aw_frequency_pair drawn;
    pair_of(pair->seed, pair->split, &drawn);
    aw_machine_reset(&world->machine, &drawn, AW_REWARD_ENERGY, seed, obs);
    show(world, obs);
}

static void step(void *self, const float *action, float *obs, struct aw_task_step *ret_step)
{
    struct world *world = self;
    struct aw_second second;
    AW_ASSERT(world->machine.second < AW_MACHINE_SECONDS);
    AW_ASSERT(action[0] >= 0 && action[0] < AW_LEVELS);
    aw_machine_step(&world->machine, (uint32_t)action[0], obs, &second);
    show(world, obs);
    *ret_step = (struct aw_task_step){.reward = second.reward,
                                      .done = world->machine.second >= AW_MACHINE_SECONDS};
}

static double best(const struct aw_task_pair *pair)
{
    struct aw_frequency_pair drawn;
    struct aw_machine machine;
    struct aw_second second;
    float obs[AW_FREQUENCY_OBS];
    double sum = 0;
    pair_of(pair->seed, pair->split, &drawn);
    aw_machine_reset(&machine, &drawn, AW_REWARD_ENERGY, pair->seed, obs);
    for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
        aw_machine_step(&machine, aw_frequency_oracle(&machine), obs, &second);
        sum += second.reward;
    }
    return sum / AW_MACHINE_SECONDS;
}

static bool validate(const float *obs)
{
    for (uint32_t i = 0; i < OBS_COUNT; i++) {
        if (!isfinite(obs[i]) || obs[i] < 0)
            return false;
    }
    return obs[AW_SEE_USE] <= 1.01f && obs[AW_SEE_GHZ] <= 1.1f && obs[AW_SEE_KEPT] <= 1;
}

/* ---- governors as baselines ---- */

struct memory {
    bool begun;
    struct aw_processor processor;
    struct aw_governor_state state;
};

static void act(const char *name, void *memory_, const float *obs, float *action)
{
    struct memory *memory = memory_;
    if (!memory->begun) {
        /* in units of the most: governors look at shares alone */
        memory->processor = (struct aw_processor){.min_ghz = (double)obs[AW_FREQUENCY_OBS],
                                                  .nominal_ghz = (double)obs[AW_FREQUENCY_OBS + 1],
                                                  .max_ghz = 1,
                                                  .limit_w = 1};
        aw_governor_reset(&memory->state, &memory->processor);
        memory->begun = true;
    }
    memory->state.level = aw_governor_find(name)->next(&memory->state, obs);
    memory->state.second++;
    action[0] = (float)memory->state.level;
}

#define ACT(function, name)                                             \
    static void function(void *memory, const float *obs, float *action) \
    {                                                                   \
        act(name, memory, obs, action);                                 \
    }
ACT(schedutil_act, "schedutil")
ACT(ondemand_act, "ondemand")
ACT(performance_act, "performance")
ACT(powersave_act, "powersave")
ACT(nominal_act, "nominal")
ACT(two_point_act, "two-point-fit")

static const struct aw_task_baseline baselines[] = {
    {"nominal", "the frequency that the processor is sold with", sizeof(struct memory), nominal_act,
     NULL},
    {"schedutil", "1.25 x the frequency that the load would fill", sizeof(struct memory),
     schedutil_act, NULL},
    {"ondemand", "the most above 80 % use, else in proportion", sizeof(struct memory), ondemand_act,
     NULL},
    {"performance", "always the most", sizeof(struct memory), performance_act, NULL},
    {"powersave", "always the least", sizeof(struct memory), powersave_act, NULL},
    {"two-point-fit", "c and m from two frequencies, then the best of the reward",
     sizeof(struct memory), two_point_act, NULL},
};

/* ---- the verbs ---- */

static bool progress(void *ctx, double share, double loss)
{
    const struct aw_task_sink *sink = *(const struct aw_task_sink *const *)ctx;
    char what[64];
    snprintf(what, sizeof what, "loss %.4f", loss);
    return sink->progress(sink->self, share, what);
}

static enum aw_err train(const struct aw_task *task, const struct aw_task_ask *ask,
                         const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_frequency_lesson lesson = aw_frequency_lesson_default();
    struct aw_frequency_learner *learner = NULL;
    char how[96];
    (void)task;
    lesson.seed = ask->seed;
    if (!ask->model)
        return aw_fail(diag, AW_ERR_USAGE, "expected --model FILE to write the model to");
    enum aw_err err = aw_frequency_train(&lesson, progress, &sink, &learner, diag);
    snprintf(how, sizeof how, "aware task train frequency --seed %llu",
             (unsigned long long)ask->seed);
    if (!err)
        err = aw_frequency_save(learner, ask->model, how, diag);
    if (!err) {
        sink->figure(sink->self, "pairs", lesson.pairs);
        sink->figure(sink->self, "updates", lesson.updates);
        sink->row(sink->self);
    }
    aw_frequency_learner_free(learner);
    return err;
}

static enum aw_err learner_of(const struct aw_task_ask *ask, struct aw_frequency_learner **ret,
                              struct aw_diag *diag)
{
    return ask->model ? aw_frequency_load(ask->model, ret, diag) : aw_frequency_shipped(ret, diag);
}

static enum aw_err evaluate(const struct aw_task *task, const struct aw_task_ask *ask,
                            const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_frequency_learner *learner = NULL, *truth = NULL;
    struct aw_frequency_lesson lesson = aw_frequency_lesson_default();
    (void)task;
    if (ask->data)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "frequency has no --data: its machines are drawn");
    if (ask->preset && !strcmp(ask->preset, "paper")) {
        aw_frequency_swing(ask, sink);
        sink->note(sink->self, "FLASH's reward pays for every rise and charges no fall: swinging "
                               "beats holding. Ours is a function of where one is.");
        return AW_OK;
    }
    enum aw_err err = learner_of(ask, &learner, diag);
    lesson.truth = true;
    lesson.seed = ask->seed;
    if (!err) /* an upper bound for the embedding: the same network, told the parameters */
        err = aw_frequency_train(&lesson, progress, &sink, &truth, diag);
    if (!err)
        err = aw_frequency_evaluate(learner, truth, ask, PAIRS_EVALUATED, sink, diag);
    aw_frequency_learner_free(learner);
    aw_frequency_learner_free(truth);
    return err;
}

static enum aw_err compare(const struct aw_task *task, const struct aw_task_ask *ask,
                           const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_frequency_learner *learner = NULL;
    (void)task;
    enum aw_err err = learner_of(ask, &learner, diag);
    if (!err)
        err = aw_frequency_peers(learner, ask, PEER_PAIRS, PEER_EPISODES, sink, diag);
    aw_frequency_learner_free(learner);
    return err;
}

/* One unseen pair: what each makes of it. */
static enum aw_err meet(const struct aw_task *task, const struct aw_task_ask *ask,
                        const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_frequency_learner *learner = NULL;
    (void)task;
    enum aw_err err = learner_of(ask, &learner, diag);
    if (!err)
        err = aw_frequency_evaluate(learner, NULL, ask, 1, sink, diag);
    aw_frequency_learner_free(learner);
    return err;
}

const struct aw_task aw_frequency_task = {
    .name = "frequency",
    .summary = "CPU frequency: the level of the next second, for an application and a processor",
    .text = "A pair is an application (a service with a latency objective, or a batch job; with "
            "phases or without) on a processor (turbo, power limit, heat). A step is a second; the "
            "action is one of 12 levels from the least frequency to the most. The reward is the "
            "share of requests within the objective, less half of the power (of that at nominal "
            "frequency under full load), plus half of the throughput gained over nominal. FLASH's "
            "own reward is broken (--preset paper of evaluate shows it).",
    .kind = AW_TASK_DISCRETE,
    .feature_dim = OBS_COUNT,
    .action_dim = AW_LEVELS,
    .steps_max = AW_MACHINE_SECONDS,
    .world_bytes = sizeof(struct world),
    .pair_count = 100,
    .pair = pair,
    .reset = reset,
    .step = step,
    .best = best,
    .baseline = baselines,
    .baseline_count = sizeof baselines / sizeof *baselines,
    .validate = validate,
    .fallback = 0,
    .verb = {[AW_TASK_TRAIN] = train,
             [AW_TASK_MEET] = meet,
             [AW_TASK_COMPARE] = compare,
             [AW_TASK_EVALUATE] = evaluate},
};
