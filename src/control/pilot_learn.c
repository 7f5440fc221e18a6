/*
 * pilot_learn.c - between episodes: what there is to learn from, as a lesson, and what came of it.
 */
#include <math.h>
#include <string.h>

#include "control/pilot_internal.h"

#define JUMP          2.0f /* times all that was seen before: another load */
#define JUMP_MINUTES  30u  /* that it must last; as many as a search needs */
#define KNOWN_MINUTES 180u /* of load, before what others have lived is searched beyond */
#define JUMP_PAST     60u  /* minutes of the other at least, to tell */

bool aw__pilot_makes_copies(const struct aw_pilot *pilot)
{
    return pilot->config.learning &&
           pilot->teacher->copies(&pilot->config.learner, pilot->config.model != NULL);
}

bool aw_pilot_learn_due(const struct aw_pilot *pilot)
{
    return pilot->memory.learn_due && !aw_canary_busy(&pilot->memory.canary);
}

bool aw_pilot_learns_episodes(const struct aw_pilot *pilot)
{
    return pilot->teacher->from_record;
}

void aw_pilot_learn_again(struct aw_pilot *pilot)
{
    pilot->memory.learn_due = 1;
}

bool aw_pilot_misses(const struct aw_pilot *pilot)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    return memory->missed > pilot->config.slo_budget * memory->loaded;
}

void aw_pilot_put_away(struct aw_pilot *pilot)
{
    aw_learner_free(pilot->learner);
    pilot->learner = NULL;
}

double aw__pilot_read(const struct aw_pilot *pilot, double slo_preservation, double cpu_utilisation,
                      double memory_utilisation, bool violated)
{
    return pilot->config.model ? aw_pretrained_reward(pilot->config.model, slo_preservation,
                                                      cpu_utilisation, memory_utilisation, violated)
                               : 0;
}

static enum aw_err recall_row(void *ctx, const struct aw_store_row *row)
{
    struct aw_pilot *pilot = ctx;
    if (row->obs_dim != pilot->obs_dim || row->act_dim != pilot->action.dim)
        return AW_OK; /* of another task; it says nothing to this one */
    enum aw_err err = aw_learner_add(
        pilot->learner,
        &(struct aw_learner_step){
            .obs = row->obs,
            .action = row->action,
            .next_obs = row->next_obs,
            .gain = aw__pilot_gain(pilot, row->figures.cost, row->figures.paper_reward),
            .violated = row->figures.violated,
            .by_fallback = row->actor == AW_ACTOR_FALLBACK,
            .read =
                aw__pilot_read(pilot, row->figures.slo_preservation, row->figures.cpu_utilisation,
                               row->figures.memory_utilisation, row->figures.violated),
        });
    if (!err && (row->truncated || row->terminated))
        aw_learner_end(pilot->learner);
    return err;
}

enum aw_err aw_pilot_recall(struct aw_pilot *pilot, struct aw_store *store, struct aw_diag *diag)
{
    if (pilot->learner)
        return AW_OK;
    /* a search has all it needs in the pilot, but where it is to begin at a shared model too */
    const bool asks = pilot->config.model &&
                      (pilot->memory.lifecycle.stage == AW_STAGE_OFFLINE || pilot->memory.anew);
    if (!pilot->teacher->from_record && !(store && asks))
        return AW_OK;
    enum aw_err err =
        aw_learner_new(&(struct aw_learner_shape){.obs_dim = pilot->obs_dim,
                                                  .act_dim = pilot->action.dim,
                                                  .episode_steps = pilot->config.episode_steps},
                       &pilot->config.learner, pilot->alloc, &pilot->learner, diag);
    if (err || !store)
        return err;
    const uint32_t now = pilot->memory.episode, keep = pilot->config.learner.episodes;
    uint32_t first = now > keep ? now - keep : 0;
    first = first > pilot->memory.learn_from ? first : pilot->memory.learn_from;
    struct aw_store_query query = AW_STORE_EVERY;
    query.workload = pilot->config.name;
    query.episode_first = first;
    /* rows of a life that was killed and is being lived again lie ahead; they are not the past yet
     */
    query.episode_last = now ? now - 1 : 0;
    if (now == 0)
        return AW_OK;
    err = aw_store_scan(store, &query, recall_row, pilot, diag);
    if (err) {
        aw_learner_free(pilot->learner);
        pilot->learner = NULL;
    }
    return err;
}

static float minute_ago(const struct aw__pilot_memory *memory, uint32_t ago)
{
    return (float)aw_unpack16(
        memory->load_per_s[(memory->minute_count - ago) % AW__PILOT_SEARCH_MINUTES]);
}

/* How many of the latest minutes of load policies are tried on. */
static uint32_t past_minutes(const struct aw__pilot_memory *memory)
{
    const uint32_t minutes = memory->minute_count - memory->minute_first;
    return minutes < AW__PILOT_SEARCH_MINUTES ? minutes : AW__PILOT_SEARCH_MINUTES;
}

bool aw__pilot_load_jumped(const struct aw__pilot_memory *memory)
{
    const uint32_t minutes = past_minutes(memory);
    if (minutes < JUMP_MINUTES + JUMP_PAST)
        return false;
    float low = INFINITY, high = 0; /* of late */
    for (uint32_t ago = 1; ago <= JUMP_MINUTES; ago++) {
        low = fminf(low, minute_ago(memory, ago));
        high = fmaxf(high, minute_ago(memory, ago));
    }
    bool above = true, below = true; /* than all before; mostly one look tells that neither is so */
    for (uint32_t ago = JUMP_MINUTES + 1; ago <= minutes && (above || below); ago++) {
        const float before = minute_ago(memory, ago);
        above = above && low > JUMP * before;
        below = below && JUMP * high < before;
    }
    return above || below;
}

/* The latest minutes of load, oldest first. Returns how many. */
static uint32_t past_load(const struct aw__pilot_memory *memory, float *ret)
{
    const uint32_t minutes = past_minutes(memory);
    for (uint32_t i = 0; i < minutes; i++)
        ret[i] = minute_ago(memory, minutes - i);
    return minutes;
}

bool aw__pilot_young(const struct aw_pilot *pilot)
{
    return pilot->policy.ops->known(pilot->policy.self) &&
           pilot->memory.minute_count < KNOWN_MINUTES;
}

/* A policy that acts gives way to one that was tried. The first one need not, nor one that learned
 * nothing (there is no estimate of it): for these the stages are the trial. */
static bool goes_on_trial(const struct aw_pilot *pilot)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    return pilot->config.canary.enabled && aw__pilot_policy_id(pilot) != 0 &&
           (!isnan(memory->better_mean) || pilot->policy.ops->known(pilot->policy.self)) &&
           aw_lifecycle_agent_acts(&memory->lifecycle);
}

/* `load` has room for AW__PILOT_SEARCH_MINUTES. */
static void lesson_of(const struct aw_pilot *pilot, float *load, const _Atomic bool *stop,
                      struct aw_lesson *ret)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_pilot_config *config = &pilot->config;
    const uint64_t seed = config->seed ^ ((uint64_t)memory->episode << 32);
    *ret = (struct aw_lesson){
        .workload = config->name,
        .copies =
            {
                .settings = config->rehearse,
                .bounds = config->bounds,
                .slo = config->slo,
                .prices = config->prices,
                .budget = config->slo_budget,
                .step_s = config->step_s,
                .stale_s = config->stale_s,
                .episode_steps = config->episode_steps,
                .controlled = config->controlled,
                .guard = config->guard,
                .node = config->node,
                .in_place = config->in_place,
                .start = aw_plan_of(memory->reading.wanted),
                .record = &memory->record,
                .load_per_s = load,
                .minutes = past_load(memory, load),
                .minutes_seen = memory->minute_count - memory->minute_first,
                .tried = goes_on_trial(pilot),
                .seed = seed,
                .slo_weight = config->slo_weight,
                .stop = stop,
            },
        .state = &pilot->state.config,
        .action = &pilot->action.config,
        .objective = pilot->rules.objective,
        .lambda = config->lambda,
        .lambda_now = memory->lambda,
        .level = config->level,
        .settings = &config->learner,
        .fallback = &config->fallback,
        .task = pilot->task,
        .lived = &memory->lifecycle.fallback,
        .offline = memory->lifecycle.stage == AW_STAGE_OFFLINE,
        .looks = aw__pilot_young(pilot),
        .tries = goes_on_trial(pilot),
        .canary = &memory->canary,
        .rows = memory->rows,
        .learner = pilot->learner,
        .model = config->model,
        .policy = pilot->policy,
        .policy_task = &pilot->policy_task,
        .seed = seed,
        .alloc = pilot->alloc,
        .origin = memory->origin,
        .better_mean = memory->better_mean,
        .better_low = memory->better_low,
        .better_high = memory->better_high,
        .anew = memory->anew,
        .learned = pilot->learned,
    };
    ret->objective.cost_reference_per_hour = memory->cost_reference_per_hour;
    memcpy(ret->task.amount, memory->reading.wanted, sizeof ret->task.amount);
}

void aw__pilot_lesson_take(struct aw_pilot *pilot, const struct aw_lesson *lesson)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    memory->origin = lesson->origin;
    memory->better_mean = lesson->better_mean;
    memory->better_low = lesson->better_low;
    memory->better_high = lesson->better_high;
    memory->anew = lesson->anew;
    pilot->learned = lesson->learned;
}

static void take(struct aw_pilot *pilot, struct aw_lesson *lesson)
{
    aw__pilot_lesson_take(pilot, lesson);
    if (lesson->trial.self)
        aw__pilot_try(pilot, &lesson->trial, &lesson->trial_origin, &lesson->candidate,
                      AW_CANARY_CAUSE_FOUND);
}

/* The next search comes after half as many steps again: every new policy costs a rollout. */
static void search_later(struct aw__pilot_memory *memory, uint32_t rows)
{
    memory->next_rows =
        memory->rows + (rows > AW__PILOT_SEARCH_ROWS ? rows : AW__PILOT_SEARCH_ROWS) / 2;
}

const struct aw_learned *aw_pilot_learned(const struct aw_pilot *pilot)
{
    return &pilot->learned;
}

void aw__pilot_learn_begins(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    memory->learn_due = 0;
    if (!pilot->teacher->from_record) {
        memory->loaded = memory->missed = 0;
        search_later(memory, memory->rows - memory->rows_first);
    }
}

enum aw_err aw__pilot_teach(struct aw_pilot *pilot, float *load, const _Atomic bool *stop,
                            struct aw_lesson *lesson, struct aw_diag *diag)
{
    if (pilot->learner)
        aw_learner_forget(pilot->learner, pilot->memory.episode - pilot->memory.learn_from);
    lesson_of(pilot, load, stop, lesson);
    return pilot->teacher->learn(lesson, diag);
}

void aw__pilot_learn_ends(struct aw_pilot *pilot, enum aw_err err)
{
    if (!pilot->teacher->from_record && err == AW_ERR_NODATA) /* the next episode may tell more */
        search_later(&pilot->memory, 0);
}

enum aw_err aw_pilot_learn(struct aw_pilot *pilot, struct aw_diag *diag)
{
    struct aw_lesson lesson;
    float load[AW__PILOT_SEARCH_MINUTES];
    aw__pilot_learn_begins(pilot);
    const enum aw_err err = aw__pilot_teach(pilot, load, NULL, &lesson, diag);
    take(pilot, &lesson);
    aw__pilot_learn_ends(pilot, err);
    if (!pilot->teacher->from_record)
        aw_pilot_put_away(pilot); /* what the model was shown: who searches is small */
    return err;
}
