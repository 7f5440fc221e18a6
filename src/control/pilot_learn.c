/*
 * pilot_learn.c - between episodes: a search on copies of the workload, or a round of a network.
 */
#include <math.h>
#include <string.h>

#include "control/pilot_internal.h"
#include "control/pilot_peek.h"
#include "policy/capacity.h"
#include "policy/network.h"

/* Of the fallback's score: an interval hardly ever shows a network to be better
 * (docs/results/ope.md); no worse than this must do. */
#define NO_WORSE       0.05
#define ESTIMATE_DOUBT 0.2 /* of a difference of two policies, that copies may have wrong */
/* An 80 % interval: so many units below and above the mean leave a tenth of the truths beyond
 * either end, by split conformal prediction on applications that no result is reported of
 * (`aware evaluate estimates`; docs/results/ope.md says which, and what came of it). */
#define ESTIMATE_BELOW 0.43
#define ESTIMATE_ABOVE 0.33
/* A unit's parts, of the fallback's score but for the first. */
#define ESTIMATE_MISSED 0.5  /* of what the copies have wrong of the fallback's past */
#define ESTIMATE_LEAST  0.05 /* a load to come that is another */
#define ESTIMATE_RESIZE 0.2  /* per e-fold of a replica's size: sizes that were never tried */
#define ESTIMATE_MISFIT 6    /* per error of the copies */
#define JUMP            2.0f /* times all that was seen before: another load */
#define JUMP_MINUTES    30u  /* that it must last; as many as a search needs */
#define JUMP_PAST       60u  /* minutes of the other at least, to tell */
#define SEARCH_GAIN     0.01 /* of ln cost: less is not worth another policy */
#define SEARCH_MISSES   4    /* times the budget on copies: no policy to begin with */

bool aw__pilot_makes_copies(const struct aw_pilot *pilot)
{
    return !aw_network_of(&pilot->policy) || pilot->config.model ||
           pilot->config.learner.method != AW_LEARNER_BCQ;
}

bool aw__pilot_learns(const struct aw_pilot *pilot)
{
    return aw_capacity_of(&pilot->policy) || aw_network_of(&pilot->policy);
}

bool aw_pilot_learn_due(const struct aw_pilot *pilot)
{
    return pilot->memory.learn_due && !aw_canary_busy(&pilot->memory.canary);
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

static enum aw_err recall_row(void *ctx, const struct aw_store_row *row)
{
    struct aw_pilot *pilot = ctx;
    if (row->obs_dim != pilot->obs_dim || row->act_dim != AW_ACTION_DIM)
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
    if (aw_capacity_of(&pilot->policy) && !(store && aw__pilot_asks_model(pilot)))
        return AW_OK; /* a search has all it needs in the pilot */
    enum aw_err err =
        aw_learner_new(&(struct aw_learner_shape){.obs_dim = pilot->obs_dim,
                                                  .act_dim = AW_ACTION_DIM,
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

static double score_of(const struct aw_pilot *pilot, const struct aw_rehearsed *rehearsed)
{
    if (pilot->config.objective == AW_OBJECTIVE_PAPER)
        return pilot->config.episode_steps * rehearsed->paper_reward;
    return aw_pilot_episode_score(pilot, rehearsed->cost_ratio, 1, rehearsed->violation_share);
}

/* Of the episodes on record; `otherwise` where there are none. */
static double fallback_mean(const struct aw_lifecycle_ring *ring, double otherwise)
{
    double mean = ring->count ? 0 : otherwise;
    for (uint32_t i = 0; i < ring->count; i++)
        mean += ring->score[i] / ring->count;
    return mean;
}

/* What the policy would earn per episode. The copies are asked for the difference to the fallback
 * alone, whose own episodes are on record: what they get wrong of both is wrong of neither.
 *
 * The unit of doubt has what makes an estimate wrong: how much is promised, how far the copies
 * disagree, what they have wrong of the fallback and of latencies, a size that nobody has tried,
 * and a load to come that is another. */
enum aw_err aw__pilot_estimate(struct aw_pilot *pilot, struct aw_rehearsal *rehearsal,
                               uint64_t seed, struct aw_diag *diag)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_rehearsed by_agent[AW_REHEARSE_COPIES_MAX], by_fallback[AW_REHEARSE_COPIES_MAX];
    struct aw_fallback *policy = NULL;
    struct aw_fallback_task task = pilot->task;
    memcpy(task.amount, memory->reading.wanted, sizeof task.amount);
    aw_rehearsal_as_it_was(rehearsal);
    enum aw_err err = aw_fallback_new(&pilot->config.fallback, &task, pilot->alloc, &policy, diag);
    const struct aw_capacity *capacity = aw_capacity_of(&pilot->policy);
    if (!err && capacity)
        err = aw_rehearsal_play(rehearsal, &capacity->memory.rule, seed, by_agent);
    else if (!err)
        err = aw__pilot_play(pilot, rehearsal, aw_pilot_network(pilot), seed, by_agent);
    err = err ? err : aw_rehearsal_play_fallback(rehearsal, policy, seed, by_fallback);
    aw_fallback_free(policy);
    if (err)
        return err;
    const uint32_t copies = aw_rehearsal_copies(rehearsal);
    double mean = 0, square = 0, fallback = 0, cores = 0;
    for (uint32_t i = 0; i < copies; i++) {
        cores += by_agent[i].cores / copies;
        fallback += score_of(pilot, &by_fallback[i]) / copies;
        mean += (score_of(pilot, &by_agent[i]) - score_of(pilot, &by_fallback[i])) / copies;
    }
    for (uint32_t i = 0; i < copies; i++) {
        const double off = score_of(pilot, &by_agent[i]) - score_of(pilot, &by_fallback[i]) - mean;
        square += off * off / copies;
    }
    const double past = fallback_mean(&memory->lifecycle.fallback, fallback);
    if (capacity)
        cores = capacity->values.v[AW_CAPACITY_RULE_CPU];
    const double resize = fabs(log(cores / fmax(1e-3, memory->record.last_cores)));
    const double unit = fabs(mean) + sqrt(square) + ESTIMATE_MISSED * fabs(fallback - past) +
                        fabs(past) * (ESTIMATE_LEAST + ESTIMATE_RESIZE * fmin(1, resize) +
                                      ESTIMATE_MISFIT * aw_rehearsal_error(rehearsal));
    memory->better_mean = mean;
    memory->better_low = mean - ESTIMATE_BELOW * unit;
    memory->better_high = mean + ESTIMATE_ABOVE * unit;
    return AW_OK;
}

/* What a new policy would earn over the one in force, by the same copies and the same chance. */
static void predict(const struct aw_pilot *pilot, const struct aw_rehearsed *known,
                    const struct aw_rehearsed *found, uint32_t copies,
                    struct aw_canary_candidate *ret)
{
    double gain = 0, square = 0, misses = 0;
    for (uint32_t i = 0; i < copies; i++) {
        gain += (score_of(pilot, &found[i]) - score_of(pilot, &known[i])) / copies;
        misses += found[i].violation_share / copies;
    }
    for (uint32_t i = 0; i < copies; i++) {
        const double off = score_of(pilot, &found[i]) - score_of(pilot, &known[i]) - gain;
        square += off * off / copies;
    }
    ret->gain = gain;
    ret->gain_error = sqrt(square + ESTIMATE_DOUBT * ESTIMATE_DOUBT * gain * gain);
    ret->violation_share = misses;
}

/* A policy that acts gives way to one that was tried. The first one need not, nor one that learned
 * nothing (there is no estimate of it): for these the stages are the trial. */
static bool goes_on_trial(const struct aw_pilot *pilot)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    return pilot->config.canary.enabled && aw__pilot_policy_id(pilot) != 0 &&
           !isnan(memory->better_mean) && aw_lifecycle_agent_acts(&memory->lifecycle);
}

enum aw_err aw__pilot_rehearsal(struct aw_pilot *pilot, uint64_t seed,
                                struct aw_rehearsal **ret_rehearsal, struct aw_diag *diag)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_pilot_config *config = &pilot->config;
    float load[AW__PILOT_SEARCH_MINUTES];
    const struct aw_reading *reading = &memory->reading;
    const struct aw_rehearse_config rehearse = {
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
        .node_cpu_millicores = config->node_cpu_millicores,
        .node_memory_bytes = config->node_memory_bytes,
        .in_place = config->in_place,
        .start = aw_plan_of(reading->wanted),
        .record = &memory->record,
        .load_per_s = load,
        .minutes = past_load(memory, load),
        .minutes_seen = memory->minute_count - memory->minute_first,
        .seed = seed,
        .slo_weight = config->slo_weight,
    };
    struct aw_capacity *capacity = aw_capacity_of(&pilot->policy);
    double highest = 0;
    for (uint32_t i = 0; i < rehearse.minutes; i++)
        highest = fmax(highest, (double)load[i]);
    if (capacity)
        capacity->memory.rehearsed_load = highest;
    return aw_rehearsal_new(&rehearse, pilot->alloc, ret_rehearsal, diag);
}

/* Where the search begins beside chance: at what is in force, and at what a shared model would do
 * here. A model that gives nothing to begin at is as good as none. */
struct starts {
    struct aw_capacity_rule taught;
    struct aw_pilot_origin origin[AW_REHEARSE_TAUGHT + 1]; /* by enum aw_rehearse_from */
    struct aw_rehearse_starts at;
};

static enum aw_err find_starts(struct aw_pilot *pilot, struct aw_rehearsal *rehearsal,
                               uint64_t seed, struct starts *ret)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    enum aw_err err = AW_ERR_NODATA;
    *ret = (struct starts){.origin[AW_REHEARSE_KNOWN] = memory->origin,
                           .at.known =
                               aw__pilot_policy_id(pilot) ? aw_pilot_capacity_rule(pilot) : NULL};
    if (pilot->learner) {
        aw_learner_forget(pilot->learner, memory->episode - memory->learn_from);
        err = aw__pilot_taught(pilot, rehearsal, seed, &ret->taught,
                               &ret->origin[AW_REHEARSE_TAUGHT]);
    }
    if (!err)
        ret->at.taught = &ret->taught;
    return err == AW_ERR_NOMEM ? err : AW_OK;
}

static enum aw_err search_rule(struct aw_pilot *pilot, struct aw_diag *diag)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_pilot_config *config = &pilot->config;
    memory->loaded = memory->missed = 0;
    /* half as many again: every new policy costs a rollout */
    const uint32_t rows = memory->rows - memory->rows_first;
    memory->next_rows =
        memory->rows + (rows > AW__PILOT_SEARCH_ROWS ? rows : AW__PILOT_SEARCH_ROWS) / 2;
    const uint64_t seed = config->seed ^ ((uint64_t)memory->episode << 32);
    struct aw_rehearsal *rehearsal = NULL;
    enum aw_err err = aw__pilot_rehearsal(pilot, seed, &rehearsal, diag);
    if (err == AW_ERR_NODATA) { /* the next episode may tell more */
        memory->next_rows = memory->rows + AW__PILOT_SEARCH_ROWS / 2;
    }
    if (err)
        return err;
    struct starts starts;
    struct aw_rehearse_found found;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX], in_force[AW_REHEARSE_COPIES_MAX];
    double before = INFINITY;
    err = find_starts(pilot, rehearsal, seed, &starts);
    err = err ? err : aw_rehearsal_search(rehearsal, &starts.at, seed, &found);
    const struct aw_capacity_rule *known = starts.at.known;
    if (!err && known) {
        err = aw_rehearsal_play(rehearsal, known, seed + AW__PILOT_ESTIMATE_STREAM, in_force);
        if (!err)
            before = aw_rehearsal_value(rehearsal, in_force);
    }
    double misses = 0;
    if (!err)
        err = aw_rehearsal_play(rehearsal, &found.rule, seed + AW__PILOT_ESTIMATE_STREAM, each);
    for (uint32_t i = 0; !err && i < aw_rehearsal_copies(rehearsal); i++)
        misses = fmax(misses, each[i].violation_share);
    if (!err && found.value < before - SEARCH_GAIN && misses < SEARCH_MISSES * config->slo_budget) {
        const struct aw_pilot_origin *origin = &starts.origin[found.from];
        struct aw_canary_candidate candidate = {.id = aw_capacity_rule_id(&found.rule)};
        if (!goes_on_trial(pilot)) {
            struct aw_capacity *capacity = aw_capacity_of(&pilot->policy);
            aw_capacity_set(capacity, &found.rule, candidate.id);
            aw_capacity_rule_changed(&capacity->memory.lived);
            memory->origin = *origin;
        } else if (candidate.id != aw__pilot_policy_id(pilot) &&
                   !aw_canary_barred(&memory->canary, candidate.id, memory->rows)) {
            aw_rehearsal_as_it_was(rehearsal);
            const uint64_t chance = seed + AW__PILOT_ESTIMATE_STREAM;
            err = aw_rehearsal_play(rehearsal, known, chance, in_force);
            err = err ? err : aw_rehearsal_play(rehearsal, &found.rule, chance, each);
            struct aw_policy trial = {0};
            err = err ? err
                      : aw_policy_new(pilot->policy.ops, &pilot->policy_task, pilot->alloc, &trial);
            if (!err) {
                predict(pilot, in_force, each, aw_rehearsal_copies(rehearsal), &candidate);
                aw_capacity_set(aw_capacity_of(&trial), &found.rule, candidate.id);
                aw__pilot_try(pilot, &trial, origin, &candidate, AW_CANARY_CAUSE_FOUND);
            }
        }
    }
    if (!err) {
        memory->anew = 0;
        pilot->learned.rounds++;
        pilot->learned.copies = aw_rehearsal_copies(rehearsal);
        pilot->learned.copy_error = aw_rehearsal_error(rehearsal);
        pilot->learned.value = found.value;
    }
    if (!err && aw__pilot_policy_id(pilot))
        err = aw__pilot_estimate(pilot, rehearsal, seed + AW__PILOT_ESTIMATE_STREAM, diag);
    aw_rehearsal_free(rehearsal);
    return err;
}

static enum aw_err learn_rule(struct aw_pilot *pilot, struct aw_diag *diag)
{
    const enum aw_err err = search_rule(pilot, diag);
    aw_pilot_put_away(pilot); /* what the model was shown: pilots of capacity rules are small */
    return err;
}

static enum aw_err round_on_copies(struct aw_pilot *pilot, uint64_t seed, struct aw_actnet *actor,
                                   struct aw_learner_stats *ret_stats, struct aw_diag *diag)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_pilot_config *config = &pilot->config;
    const struct aw_reading *reading = &memory->reading;
    float load[AW__PILOT_SEARCH_MINUTES];
    struct aw_objective objective = pilot->rules.objective;
    objective.cost_reference_per_hour = memory->cost_reference_per_hour;
    const struct aw_copyenv_config copy = {
        .state = pilot->state.config,
        .action = pilot->action.config,
        .objective = objective,
        .lambda = fmin(AW_LAMBDA_MAX, aw__pilot_weight(pilot, memory->lambda)),
        .step_s = config->step_s,
        .stale_s = config->stale_s,
        .episode_steps = config->episode_steps,
        .controlled = config->controlled,
        .guarded = true,
        .guard = config->guard,
        .node_cpu_millicores = config->node_cpu_millicores,
        .node_memory_bytes = config->node_memory_bytes,
        .in_place = config->in_place,
        .start = aw_plan_of(reading->wanted),
        .record = &memory->record,
        .load_per_s = load,
        .minutes = past_load(memory, load),
        .busier = aw_rehearse_busier(memory->minute_count - memory->minute_first),
        .error_max = config->rehearse.error_max,
    };
    return aw_learner_round_on_copies(pilot->learner, &copy, seed, actor, ret_stats, diag);
}

enum aw_err aw__pilot_round(struct aw_pilot *pilot, uint64_t seed, struct aw_actnet *actor,
                            struct aw_diag *diag)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const enum aw_learner_round kind =
        memory->lifecycle.stage == AW_STAGE_OFFLINE ? AW_LEARNER_OFFLINE : AW_LEARNER_ONLINE;
    struct aw_learner_stats stats = {0};
    const enum aw_err err =
        pilot->config.learner.method != AW_LEARNER_BCQ
            ? round_on_copies(pilot, seed, actor, &stats, diag)
            : aw_learner_round(pilot->learner, kind, aw__pilot_weight(pilot, memory->lambda), seed,
                               actor, &stats, diag);
    if (!err)
        pilot->learned = (struct aw_pilot_learned){.rounds = pilot->learned.rounds + 1,
                                                   .copies = stats.copies,
                                                   .copy_error = NAN,
                                                   .value = NAN,
                                                   .critic_loss = stats.critic_loss,
                                                   .imitation_loss = stats.imitation};
    return err;
}

const struct aw_pilot_learned *aw_pilot_learned(const struct aw_pilot *pilot)
{
    return &pilot->learned;
}

enum aw_err aw_pilot_learn(struct aw_pilot *pilot, struct aw_diag *diag)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    memory->learn_due = 0;
    if (aw_capacity_of(&pilot->policy))
        return learn_rule(pilot, diag);
    struct aw_actnet *actor = &aw_network_of(&pilot->policy)->actor;
    AW_ASSERT(pilot->learner);
    const uint32_t believed = memory->episode - memory->learn_from;
    aw_learner_forget(pilot->learner, believed);
    const uint64_t seed = pilot->config.seed ^ ((uint64_t)memory->episode << 32);
    enum aw_err err =
        pilot->config.model ? aw__pilot_learn_shared(pilot, seed, diag) : AW_ERR_UNSUPPORTED;
    /* without copies nobody can tell the model's policy from another: what acts goes on, and who
     * does not act yet learns as if there were no model */
    if (err != AW_ERR_UNSUPPORTED)
        return err;
    err = aw__pilot_round(pilot, seed, actor, diag);
    if (!err)
        memory->origin = (struct aw_pilot_origin){0};
    if (err || memory->lifecycle.stage != AW_STAGE_OFFLINE)
        return err;
    struct aw_ope_estimate estimate;
    err =
        aw_learner_estimate(pilot->learner, actor, aw__pilot_weight(pilot, pilot->config.lambda),
                            pilot->config.level, seed + AW__PILOT_ESTIMATE_STREAM, &estimate, diag);
    if (err)
        return err;
    const double past = estimate.behaviour_mean, margin = NO_WORSE * fabs(past);
    memory->better_mean = estimate.mean - past;
    memory->better_low = estimate.low - past + margin;
    memory->better_high = estimate.high - past;
    return AW_OK;
}
