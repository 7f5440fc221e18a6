/* rehearse.c - policies tried on copies of a workload. */
#include "rehearsal/rehearse.h"

#include <math.h>
#include <string.h>

#include "base/cma.h"
#include "cluster/sim.h"
#include "policy/peers.h"

#define WORKLOAD       0u
#define ENOUGH_MINUTES 1440u /* of load, to know what there may be */
#define STRESS         1.5   /* more load than ever seen, where nothing is known */
#define CAREFUL_LEAST  0.2   /* of the target, where nothing is known */
#define TRIED_STRESS   1.1   /* times the load at most, .. */
#define TRIED_STEADY   1.02  /* .. where it never grew at least, and .. */
#define BLOCK_MINUTES  30u   /* whose highest loads tell whether it grows */
#define TRIED_CAREFUL  0.7   /* .. of the target, where a trial comes before it acts alone */
#define UNSCORED       10u   /* steps: how it stood before is nobody's merit */
#define CHECK_SEED     0x5eedu
#define DRAWS          10u
#define NEAR_SPREAD    0.04 /* of the search around what is known */
#define FAR_SPREAD     0.07
#define STARTS         2u
#define MISS_PRICE     0.5 /* of ln cost, for missing twice the target */
#define MISS_MORE      1.5
#define MARGIN_LEAST   1.1   /* to begin a search with */
#define RECORD_MINUTES 240.0 /* of load, that tell as much of a cost as others' lives do */
#define IDLE           1e-3  /* of what was wanted: as little use as is told apart from none */

#define AW_CONF_OF struct aw_rehearse_settings
const struct aw_conf_field aw_rehearse_fields[] = {
    AW_CONF_NUMBER(copies, "2", 1, AW_REHEARSE_COPIES_MAX,
                   "Copies of a workload that a policy is tried on."),
    AW_CONF_NUMBER(tries, "80", 4, 100000, "Policies drawn at random before the search proper."),
    AW_CONF_NUMBER(tries_near, "100", 10, 100000, "Policies tried by each search (CMA-ES)."),
    AW_CONF_NUMBER(target, "0.9", 0.01, 1,
                   "Share of the SLO budget that a rehearsed policy may spend."),
    AW_CONF_NUMBER(error_max, "0.5", 0, 100,
                   "Mean error of ln latency beyond which a copy is not believed."),
    {0},
};

struct copy {
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_sim_workload workload;
    double load_factor;
    struct aw_slo slo; /* as strict for the copy as the true one is for the workload */
    double error;
};

struct aw_rehearsal {
    struct aw_rehearse_config config;
    struct aw_step_rules rules;
    struct aw_capacity_rule_task task;
    struct aw_load load;
    uint32_t steps, count;
    struct copy copy[AW_REHEARSE_COPIES_MAX];
    const struct aw_alloc *alloc;
};

double aw_rehearse_busier(uint32_t minutes_seen)
{
    return 1 + STRESS * fmax(0, 1 - minutes_seen / (double)ENOUGH_MINUTES);
}

/* By how much the load has outgrown all that had been before. */
static double growth(const struct aw_rehearse_config *config)
{
    double high = 0, most = 1;
    for (uint32_t from = 0; from < config->minutes; from += BLOCK_MINUTES) {
        double block = 0;
        for (uint32_t m = from; m < config->minutes && m < from + BLOCK_MINUTES; m++)
            block = fmax(block, (double)config->load_per_s[m]);
        if (from > 0)
            most = high > 0 ? fmax(most, block / high) : INFINITY;
        high = fmax(high, block);
    }
    return most;
}

static enum aw_err make_copy(struct aw_rehearsal *r, uint32_t index, struct aw_diag *diag)
{
    const struct aw_rehearse_config *config = &r->config;
    struct aw_copy_fit fit;
    /* the first believes the record as it is; the others are drawn around it */
    enum aw_err err =
        aw_copy_fit(config->record, config->slo.quantile, index ? config->seed + index : 0, &fit);
    if (err)
        return aw_fail(diag, err, "too little was seen of the workload to make a copy of it");
    if (fit.error > config->settings.error_max)
        return aw_fail(diag, AW_ERR_NODATA, "no copy answers as the workload does: error %.2f",
                       fit.error);
    struct copy *copy = &r->copy[r->count];
    struct aw_sim_settings sim;
    aw_conf_defaults(aw_sim_fields, &sim);
    sim.in_place = config->in_place;
    copy->error = fit.error;
    /* every other copy is busier than the past was */
    const double busier = config->tried ? fmin(TRIED_STRESS, fmax(TRIED_STEADY, growth(config)))
                                        : aw_rehearse_busier(config->minutes_seen);
    copy->load_factor = index % 2 ? busier : 1;
    copy->slo = config->slo;
    copy->slo.latency_us_p99 *= exp(-fit.bias);
    copy->workload = (struct aw_sim_workload){
        .app = fit.app,
        .load = &r->load,
        .replicas = config->start.replicas,
        .replicas_max = config->bounds.replicas_max,
        .cpu_millicores = config->start.cpu_millicores,
        .memory_bytes = config->start.memory_bytes,
    };
    err = aw_sim_new(&sim, config->seed, 1, r->alloc, &copy->sim, diag);
    if (err)
        return err;
    r->count++;
    uint32_t workload;
    err = aw_sim_add(copy->sim, &copy->workload, &workload, diag);
    copy->cluster = aw_sim_cluster(copy->sim);
    return err;
}

enum aw_err aw_rehearsal_new(const struct aw_rehearse_config *config, const struct aw_alloc *alloc,
                             struct aw_rehearsal **ret_rehearsal, struct aw_diag *diag)
{
    AW_ASSERT(config->settings.copies <= AW_REHEARSE_COPIES_MAX);
    if (config->minutes < AW_REHEARSE_MINUTES_MIN)
        return aw_fail(diag, AW_ERR_NODATA, "%u minutes of load, at least %u are needed",
                       config->minutes, AW_REHEARSE_MINUTES_MIN);
    const double steps = config->minutes * 60.0 / config->step_s;
    if (steps < 2 * UNSCORED)
        return aw_fail(diag, AW_ERR_NODATA, "%.0f steps of load, at least %u are needed", steps,
                       2 * UNSCORED);
    struct aw_rehearsal *r = aw_alloc_new(alloc, 1, sizeof *r);
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a rehearsal");
    r->config = *config;
    r->alloc = alloc;
    r->steps = (uint32_t)steps;
    r->task = (struct aw_capacity_rule_task){.bounds = config->bounds, .budget = config->budget};
    r->rules = (struct aw_step_rules){.objective = {.kind = AW_OBJECTIVE_CONSTRAINED,
                                                    .slo_weight = config->slo_weight,
                                                    .prices = config->prices,
                                                    .cost_reference_per_hour = 1},
                                      .node = config->node,
                                      .controlled = config->controlled,
                                      .in_place = config->in_place};
    aw_step_times(&r->rules, config->step_s, config->stale_s);
    struct aw_guard_settings rails = config->guard;
    rails.mode = AW_GUARD_AUTO;
    enum aw_err err = aw_guard_init(&r->rules.guard, &rails, &config->bounds, diag);
    err = err ? err : aw_load_init(&r->load, "past", config->minutes, 60000000, alloc, diag);
    if (!err)
        memcpy(r->load.rate_per_s, config->load_per_s, config->minutes * sizeof(float));
    for (uint32_t i = 0; !err && i < config->settings.copies; i++)
        err = make_copy(r, i, diag);
    if (err) {
        aw_rehearsal_free(r);
        return err;
    }
    *ret_rehearsal = r;
    return AW_OK;
}

void aw_rehearsal_free(struct aw_rehearsal *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->count; i++)
        aw_sim_free(r->copy[i].sim);
    aw_load_deinit(&r->load);
    aw_alloc_free(r->alloc, r);
}

uint32_t aw_rehearsal_copies(const struct aw_rehearsal *r)
{
    return r->count;
}

double aw_rehearsal_error(const struct aw_rehearsal *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->count; i++)
        sum += r->copy[i].error;
    return sum / r->count;
}

void aw_rehearsal_as_it_was(struct aw_rehearsal *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        r->copy[i].load_factor = 1;
}

/* --- a play ----------------------------------------------------------------------------------- */

/* Who decides in a play: one of the four. */
struct player {
    const struct aw_capacity_rule_values *values;
    struct aw_fallback *policy;
    const struct aw_rehearse_network *network;
    const struct aw_peers *peers;
};

/* What a network knows of a play so far. */
struct seeing {
    struct aw_state state;
    struct aw_action action;
    struct aw_state_memory state_memory;
    struct aw_action_memory action_memory;
};

static void seeing_begin(struct seeing *seeing, const struct aw_rehearse_network *network,
                         const struct aw_slo *slo)
{
    struct aw_state_config state = *network->state;
    state.slo = *slo;
    aw_state_init(&seeing->state, &state);
    aw_action_init(&seeing->action, network->action);
    aw_state_begin(&seeing->state_memory);
    aw_action_begin(&seeing->action_memory);
}

/* As a pilot does it (pilot_tick.c). */
static enum aw_err network_decide(const struct aw_rehearse_network *network, struct seeing *seeing,
                                  const struct aw_reading *reading, const struct aw_score *score,
                                  struct aw_plan *ret)
{
    float obs[AW_STATE_DIM_MAX], action[AW_ACTION_MAX];
    aw_action_observe(&seeing->action, &seeing->action_memory, reading);
    aw_state_encode(&seeing->state, &seeing->state_memory, reading, score, obs);
    const enum aw_err err = aw_actnet_act(network->actor, obs, action);
    if (err)
        return err;
    aw_action_plan(&seeing->action, &seeing->action_memory, reading, action, ret);
    return AW_OK;
}

/* Leans as the agent of the workload does, and has lived nothing. */
static void peers_begin(struct aw_peers *ret, const struct aw_peers *of, const struct aw_slo *slo)
{
    struct aw_policy_task task = of->task;
    task.slo = *slo;
    aw_peers_begin(ret, &task);
    aw_peers_become(ret, of);
}

static void peers_decide(struct aw_peers *peers, const struct aw_step_seen *seen, bool acted,
                         struct aw_plan *ret)
{
    float state[AW_PEERS_STATE];
    aw_peers_see(peers, &seen->reading, seen->score.violated, state);
    aw_peers_plan(peers, &seen->reading, seen->score.violated, acted, aw_peers_choose(peers, state),
                  ret);
}

/* Sums of a play. Costs of an hour in which nothing is needed and of a busy one are compared with
 * their own needs each, as the lifecycle does it, and not all costs with all needs. */
struct sums {
    double cost, ratio, paper_reward, cores;
    double wanted, used;               /* cores of all replicas */
    double episode_cost, episode_need; /* of the episode so far, in $ */
    uint32_t episode_steps;
    uint32_t violations, scored;
};

static void end_episode(struct sums *sums)
{
    if (sums->episode_need > 0)
        sums->ratio +=
            sums->episode_steps * fmin(AW_COST_RATIO_MAX, sums->episode_cost / sums->episode_need);
    sums->episode_cost = sums->episode_need = 0;
    sums->episode_steps = 0;
}

static void add_step(const struct aw_rehearse_config *config, const struct aw_reading *reading,
                     const struct aw_score *score, struct sums *sums)
{
    sums->cost += score->cost;
    sums->paper_reward += score->paper_reward;
    sums->cores += 1e-3 * (double)reading->cpu_millicores_wanted;
    sums->wanted += 1e-3 * (double)reading->cpu_millicores_wanted * reading->replicas_wanted;
    sums->used += isnan(reading->cpu_cores_used) ? 0 : reading->cpu_cores_used;
    sums->violations += score->violated;
    sums->scored++;
    sums->episode_cost += score->cost;
    sums->episode_need +=
        aw_need_per_hour(&config->prices, &config->bounds, reading) * config->step_s / 3600;
    if (++sums->episode_steps == config->episode_steps)
        end_episode(sums);
}

/* The copy as the workload stands, one step into its past. */
static enum aw_err copy_begin(struct aw_rehearsal *r, uint32_t which,
                              const struct aw_step_rules *rules, uint64_t seed)
{
    struct copy *copy = &r->copy[which];
    enum aw_err err = aw_sim_replace(copy->sim, WORKLOAD, &copy->workload, 0);
    err = err ? err : aw_sim_reset(copy->sim, seed + which);
    if (err)
        return err;
    struct aw_sim_disturbance stress = aw_sim_undisturbed;
    stress.load_factor = copy->load_factor;
    aw_sim_disturb(copy->sim, WORKLOAD, &stress);
    return aw_step_advance(rules, &copy->cluster);
}

static enum aw_err play_copy(struct aw_rehearsal *r, uint32_t which, const struct player *player,
                             uint64_t seed, struct aw_rehearsed *ret)
{
    struct copy *copy = &r->copy[which];
    struct aw_step_rules rules = r->rules;
    rules.objective.slo = copy->slo;
    struct aw_capacity_rule_memory memory;
    struct aw_guard_memory rails_memory;
    struct seeing seeing;
    struct aw_peers peers;
    aw_capacity_rule_begin(&memory);
    aw_guard_begin(&rails_memory);
    if (player->network)
        seeing_begin(&seeing, player->network, &copy->slo);
    if (player->peers)
        peers_begin(&peers, player->peers, &copy->slo);
    if (player->policy)
        aw_fallback_reset(player->policy);
    struct aw_capacity_rule_task task = r->task;
    task.slo_latency_us = copy->slo.latency_us_p99;
    struct sums sums = {0};
    enum aw_err err = copy_begin(r, which, &rules, seed);
    for (uint32_t t = 0; !err && t < r->steps; t++) {
        struct aw_step_seen seen;
        struct aw_plan proposed;
        struct aw_guard_result rails;
        if ((err = aw_step_look(&rules, &copy->cluster, WORKLOAD, &seen)))
            break;
        if (t >= UNSCORED)
            add_step(&r->config, &seen.reading, &seen.score, &sums);
        if (player->policy)
            aw_fallback_decide(player->policy, &seen.sample,
                               copy->cluster.ops->now_us(copy->cluster.self), &proposed, NULL);
        else if (player->network)
            err = network_decide(player->network, &seeing, &seen.reading, &seen.score, &proposed);
        else if (player->peers)
            peers_decide(&peers, &seen, t > 0, &proposed);
        else
            aw_capacity_rule_decide(player->values, &task, &memory, &seen.reading,
                                    seen.score.violated, t > 0, &proposed);
        const struct aw_guard_input input =
            aw_step_input(&rules, &seen.reading, aw_step_slo(&rules, &seen.reading, &seen.score),
                          seen.sample.restarts);
        err = err ? err
                  : aw_step_act(&rules, &rails_memory, &copy->cluster, WORKLOAD, &input, &proposed,
                                &rails);
        err = err ? err : aw_step_advance(&rules, &copy->cluster);
    }
    if (err)
        return err;
    end_episode(&sums); /* what is left of it counts by its length */
    *ret =
        (struct aw_rehearsed){.cost_per_hour = sums.cost * 3600 / (sums.scored * r->config.step_s),
                              .cost_ratio = sums.ratio / sums.scored,
                              .violation_share = (double)sums.violations / sums.scored,
                              .paper_reward = sums.paper_reward / sums.scored,
                              .cores = sums.cores / sums.scored,
                              .margin = sums.wanted / fmax(IDLE * sums.wanted, sums.used)};
    return AW_OK;
}

static enum aw_err play(struct aw_rehearsal *r, const struct player *player, uint64_t seed,
                        struct aw_rehearsed *ret)
{
    const _Atomic bool *stop = r->config.stop;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < r->count; i++)
        err = stop && *stop ? AW_ERR_INTERRUPTED : play_copy(r, i, player, seed, &ret[i]);
    return err;
}

enum aw_err aw_rehearsal_play(struct aw_rehearsal *r, const struct aw_capacity_rule *rule,
                              uint64_t seed, struct aw_rehearsed *ret)
{
    struct aw_capacity_rule_values values;
    aw_capacity_rule_decode(rule, &values);
    return play(r, &(struct player){.values = &values}, seed, ret);
}

enum aw_err aw_rehearsal_play_fallback(struct aw_rehearsal *r, struct aw_fallback *policy,
                                       uint64_t seed, struct aw_rehearsed *ret)
{
    return play(r, &(struct player){.policy = policy}, seed, ret);
}

enum aw_err aw_rehearsal_play_network(struct aw_rehearsal *r,
                                      const struct aw_rehearse_network *network, uint64_t seed,
                                      struct aw_rehearsed *ret)
{
    return play(r, &(struct player){.network = network}, seed, ret);
}

enum aw_err aw_rehearsal_play_peers(struct aw_rehearsal *r, const struct aw_peers *peers,
                                    uint64_t seed, struct aw_rehearsed *ret)
{
    return play(r, &(struct player){.peers = peers}, seed, ret);
}

/* Of the cost on copies only `part` counts. */
static double value_of(const struct aw_rehearsal *r, const struct aw_rehearsed *each, double part)
{
    double cost = 0, share = 0, worst = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        cost += log(each[i].cost_per_hour);
        share += each[i].violation_share / r->count;
        worst = fmax(worst, each[i].violation_share);
    }
    const double known = fmin(1, 2.0 * r->config.minutes_seen / ENOUGH_MINUTES);
    const double least = r->config.tried ? TRIED_CAREFUL : CAREFUL_LEAST;
    const double target =
        fmax(1e-4, r->config.settings.target * r->config.budget * fmax(least, known));
    const double over = 0.5 * (share + worst) / target;
    double price = 0;
    if (over > 1)
        price += MISS_PRICE * fmin(over - 1, 1);
    if (over > 2)
        price += MISS_MORE * log(over / 2);
    return part * cost / r->count + price;
}

double aw_rehearsal_value(const struct aw_rehearsal *r, const struct aw_rehearsed *each)
{
    return value_of(r, each, 1);
}

/* --- the search ------------------------------------------------------------------------------- */

static enum aw_err judge(struct aw_rehearsal *r, const double *x, uint64_t seed, double *ret)
{
    struct aw_capacity_rule rule;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    memcpy(rule.x, x, sizeof rule.x);
    const enum aw_err err = aw_rehearsal_play(r, &rule, seed, each);
    if (!err)
        *ret = aw_rehearsal_value(r, each);
    return err;
}

/* The numbers that decide most, which are sought before the others. */
static const uint32_t few[] = {AW_CAPACITY_RULE_CPU, AW_CAPACITY_RULE_MARGIN,
                               AW_CAPACITY_RULE_WINDOW, AW_CAPACITY_RULE_PEAK};
#define FEW (sizeof few / sizeof *few)

/* How a network's size and margin are tried in a capacity rule. Networks are taught for a reward
 * without prices: they keep much to spare, and where few large replicas are the cheapest they take
 * larger ones than elsewhere, but not as large. (A start with these is worth nearly twice as much
 * of ln cost as one with the size as it is and margins of 1 and 0.7; docs/results/shipped.md.) */
static const struct {
    double cores, margin;
} taken[] = {{1, 1}, {1, 0.5}, {1, 0.25}, {2, 1}, {2, 0.5}, {2, 0.25}};
#define TAKEN (sizeof taken / sizeof *taken)

/* Ways to read a load: smoothed, steady, quick, by slow peaks, asleep between batches. */
static const double way[][AW_CAPACITY_RULE_DIM] = {
    /* window, peak, smooth, trim, floor, sleep, asleep */
    {[AW_CAPACITY_RULE_WINDOW] = 0.05, 0.05, 0.2, 0.35, 0, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.5, 0.85, 0.9, 0.35, 0, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.3, 0.5, 0.85, 0.45, 0.2, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.85, 0.6, 0.6, 0.35, 0, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.35, 0.5, 0.85, 0.45, 0.2, 0.6, 0.2},
};
#define WAYS (sizeof way / sizeof *way)

/* A first guess: sizes spread over their range, a margin at random, and one of the ways. */
static void draw(struct aw_rng *rng, uint32_t number, uint32_t count, double *x)
{
    memcpy(x, way[number % WAYS], AW_CAPACITY_RULE_DIM * sizeof *x);
    const uint32_t stratum = (uint32_t)((number * 7919ull) % count); /* in no order of ways */
    x[AW_CAPACITY_RULE_CPU] = (stratum + aw_rng_double(rng)) / count;
    x[AW_CAPACITY_RULE_MARGIN] = 0.75 * pow(aw_rng_double(rng), 1.5);
}

/* CMA-ES over the numbers `which` of `x`; x becomes the best that was found. `ret_mean` (may be
 * NULL): where the search ended. */
static enum aw_err refine(struct aw_rehearsal *r, const uint32_t *which, uint32_t dim,
                          double spread, uint64_t seed, double *x, double *ret_mean)
{
    struct aw_cma cma;
    double start[AW_CAPACITY_RULE_DIM], trial[AW_CAPACITY_RULE_DIM];
    for (uint32_t i = 0; i < dim; i++)
        start[i] = x[which ? which[i] : i];
    aw_cma_init(&cma, dim, start, spread, DRAWS, seed);
    memcpy(trial, x, sizeof trial);
    enum aw_err err = AW_OK;
    for (uint32_t tried = 0; !err && tried < r->config.settings.tries_near; tried += DRAWS) {
        double value[DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t k = 0; !err && k < DRAWS; k++) {
            for (uint32_t i = 0; i < dim; i++)
                trial[which ? which[i] : i] = cma.x[k][i];
            err = judge(r, trial, seed, &value[k]);
        }
        if (!err)
            aw_cma_tell(&cma, value);
    }
    for (uint32_t i = 0; !err && i < dim; i++) {
        if (ret_mean)
            ret_mean[which ? which[i] : i] = cma.mean[i];
        x[which ? which[i] : i] = cma.best[i];
    }
    return err;
}

/* Keeps the better one of `x` and the best so far, by chance that no search has seen. */
static enum aw_err contend(struct aw_rehearsal *r, const double *x, enum aw_rehearse_from from,
                           uint64_t seed, struct aw_rehearse_found *best)
{
    double first, second;
    enum aw_err err = judge(r, x, seed ^ CHECK_SEED, &first);
    err = err ? err : judge(r, x, (seed ^ CHECK_SEED) + 1, &second);
    if (!err && 0.5 * (first + second) < best->value) {
        best->value = 0.5 * (first + second);
        best->from = from;
        memcpy(best->rule.x, x, sizeof best->rule.x);
    }
    return err;
}

enum aw_err aw_rehearsal_translate(struct aw_rehearsal *r,
                                   const struct aw_rehearse_network *network, uint64_t seed,
                                   struct aw_capacity_rule *ret_rule)
{
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    enum aw_err err = aw_rehearsal_play_network(r, network, seed, each);
    double cores = 0, margin = 0, best = INFINITY;
    for (uint32_t i = 0; !err && i < r->count; i++) {
        cores += each[i].cores / r->count;
        margin += each[i].margin / r->count;
    }
    struct aw_capacity_rule made = {0};
    for (uint32_t i = 0; !err && i < WAYS * TAKEN; i++) {
        const double part = margin * taken[i / WAYS].margin;
        double x[AW_CAPACITY_RULE_DIM], value;
        memcpy(x, way[i % WAYS], sizeof x);
        x[AW_CAPACITY_RULE_CPU] =
            aw_capacity_rule_place(AW_CAPACITY_RULE_CPU, cores * taken[i / WAYS].cores);
        x[AW_CAPACITY_RULE_MARGIN] =
            aw_capacity_rule_place(AW_CAPACITY_RULE_MARGIN, fmax(MARGIN_LEAST, part));
        err = judge(r, x, seed, &value);
        if (!err && value < best) {
            best = value;
            memcpy(made.x, x, sizeof x);
        }
    }
    if (!err)
        *ret_rule = made;
    return err;
}

/* From the start `x`, which becomes the best near it. */
static enum aw_err seek(struct aw_rehearsal *r, enum aw_rehearse_from from, double spread,
                        uint64_t chance, uint64_t seed, double *x, struct aw_rehearse_found *best)
{
    const enum aw_err err = refine(r, few, FEW, spread, chance, x, NULL);
    return err ? err : contend(r, x, from, seed, best);
}

enum aw_err aw_rehearsal_rank(struct aw_rehearsal *r, const struct aw_rehearse_lived *lived,
                              uint64_t seed, double *ret)
{
    const double seen = r->config.minutes_seen;
    const double part = lived->expected ? seen / (seen + RECORD_MINUTES) : 1;
    for (uint32_t i = 0; i < lived->count; i++) {
        struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
        const enum aw_err err = aw_rehearsal_play(r, &lived->rule[i], seed, each);
        if (err)
            return err;
        ret[i] = value_of(r, each, part) + (lived->expected ? (1 - part) * lived->expected[i] : 0);
    }
    return AW_OK;
}

/* The best of what others have lived, as the copies and they say. */
static enum aw_err start_lived(struct aw_rehearsal *r, const struct aw_rehearse_lived *lived,
                               uint64_t seed, double *x)
{
    double value[AW_REHEARSE_LIVED_MAX];
    uint32_t best = 0;
    AW_ASSERT(lived->count <= AW_REHEARSE_LIVED_MAX);
    const enum aw_err err = aw_rehearsal_rank(r, lived, seed, value);
    for (uint32_t i = 1; !err && i < lived->count; i++)
        best = value[i] < value[best] ? i : best;
    if (!err)
        memcpy(x, lived->rule[best].x, sizeof lived->rule[best].x);
    return err;
}

enum aw_err aw_rehearsal_search(struct aw_rehearsal *r, const struct aw_rehearse_starts *starts,
                                uint64_t seed, struct aw_rehearse_found *ret_found)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    double start[STARTS][AW_CAPACITY_RULE_DIM] = {0}, value[STARTS];
    for (uint32_t s = 0; s < STARTS; s++)
        value[s] = INFINITY;
    enum aw_err err = AW_OK;
    const bool lived = starts->lived.count > 0;
    const uint32_t tries = lived ? 0 : r->config.settings.tries;
    if (lived)
        err = start_lived(r, &starts->lived, seed, start[0]);
    for (uint32_t i = 0; !err && i < tries; i++) {
        double x[AW_CAPACITY_RULE_DIM], v;
        draw(&rng, i, tries, x);
        if ((err = judge(r, x, seed, &v)))
            break;
        uint32_t at = STARTS;
        while (at > 0 && v < value[at - 1])
            at--;
        if (at == STARTS)
            continue;
        for (uint32_t s = STARTS - 1; s > at; s--) {
            memcpy(start[s], start[s - 1], sizeof start[s]);
            value[s] = value[s - 1];
        }
        memcpy(start[at], x, sizeof x);
        value[at] = v;
    }
    struct aw_rehearse_found best = {.value = INFINITY};
    double x[AW_CAPACITY_RULE_DIM], mean[AW_CAPACITY_RULE_DIM];
    for (uint32_t s = 0; !err && s < (lived ? 1 : STARTS); s++)
        err = seek(r, AW_REHEARSE_DRAWN, FAR_SPREAD, seed + s, seed, start[s], &best);
    if (!err && starts->known) {
        memcpy(x, starts->known->x, sizeof x);
        err = contend(r, x, AW_REHEARSE_KNOWN, seed, &best);
        err = err ? err : seek(r, AW_REHEARSE_KNOWN, NEAR_SPREAD, seed + STARTS, seed, x, &best);
    }
    if (!err && starts->taught) {
        memcpy(x, starts->taught->x, sizeof x);
        err = seek(r, AW_REHEARSE_TAUGHT, FAR_SPREAD, seed + STARTS + 2, seed, x, &best);
    }
    if (!err) {
        memcpy(x, best.rule.x, sizeof x);
        err = refine(r, NULL, AW_CAPACITY_RULE_DIM, FAR_SPREAD, seed + STARTS + 1, x, mean);
        err = err ? err : contend(r, x, best.from, seed, &best);
        err = err ? err : contend(r, mean, best.from, seed, &best);
    }
    if (!err)
        *ret_found = best;
    return err;
}
