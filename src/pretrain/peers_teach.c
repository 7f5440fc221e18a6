/* peers_teach.c - many applications on one simulated cluster, whose agents learn together. */
#include "pretrain/peers_teach.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "multi/simppo.h"
#include "safety/step.h"

#define CONTEXT_STEPS 44u /* under the plain rule: categories come out of them */
#define SETTLE_STEPS  4u  /* of an episode, before it is learned from */
#define HORIZON       100u
#define PLAIN         4u   /* the choice while it is not known what they are */
#define NEED_FOLLOWS  0.05 /* of a step's need, in what its cost is compared with */
#define NEED_LEAST    0.02 /* of the cost: asleep, it needs nothing */
#define REWARD_SCALE  0.05 /* values of about 1 */
#define CHECKS        10u
#define CHECK_STEPS   600u

_Static_assert(AW_PEERS_STATE == AW_TEAM_LOCAL, "the team's rows are states of peers");
_Static_assert(AW_PEERS_CHOICES == AW_TEAM_ANCHORED_COUNT, "and its actions their choices");
_Static_assert((int)AW_PEERS_CATEGORIES == (int)AW_MULTI_CATEGORIES, "and so their categories");

void aw_peers_teach_config_init(struct aw_peers_teach_config *config)
{
    *config = (struct aw_peers_teach_config){.cores = 2,
                                             .towns = 32,
                                             .towns_checked = 16,
                                             .agents_min = 6,
                                             .agents_max = 20,
                                             .room_min = 3,
                                             .room_max = 9,
                                             .episodes = 1500,
                                             .miss = 4,
                                             .team_weight = 0.25};
    aw_simulate_config_init(&config->simulate);
}

/* --- a town ----------------------------------------------------------------------------------- */

struct citizen {
    struct aw_load load;
    struct aw_sim_workload workload;
    struct aw_step_rules rules;
    struct aw_policy_task task;
    struct aw_peers peers;
    struct aw_guard_memory rails;
    struct aw_step_seen seen;
    struct aw_peers known;        /* its category and its rule */
    double moved;                 /* change of replicas of its last plan, as carried out */
    double need_known, need_slow; /* $ of a step: while it was got to know, and of late */
    double cost, need, missed;
    uint32_t scored;
};

struct town {
    uint32_t count;
    struct citizen *citizen; /* [count] */
    struct aw_sim *sim;
    struct aw_cluster cluster;
    const struct aw_alloc *alloc;
};

/* What learning sees of the towns, one at a time. */
struct school {
    const struct aw_peers_teach_config *config;
    struct town *town;
    double count[AW_PEERS_CATEGORIES]; /* of states, and their sums */
    double sum[AW_PEERS_CATEGORIES][AW_PEERS_STATE], square[AW_PEERS_CATEGORIES][AW_PEERS_STATE];
    enum aw_err err; /* the first that a step met */
};

static void town_deinit(struct town *town)
{
    aw_sim_free(town->sim);
    for (uint32_t i = 0; town->citizen && i < town->count; i++)
        aw_load_deinit(&town->citizen[i].load);
    aw_alloc_free(town->alloc, town->citizen);
    *town = (struct town){0};
}

static enum aw_err citizen_init(const struct aw_peers_teach_config *config,
                                const struct aw_pretrain_pool *pool, uint32_t index,
                                const struct aw_alloc *alloc, struct citizen *c,
                                struct aw_diag *diag)
{
    const struct aw_simulate_settings *s = &config->simulate.settings;
    const uint32_t number = pool->first + index;
    struct aw_app app;
    if (pool->apps)
        app = pool->apps[number];
    else
        aw_app_generate(pool->seed, number, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
    enum aw_err err = config->load_make(config->load_ctx, number, alloc, &c->load, diag);
    if (err)
        return err;
    aw_load_scale_cores(&c->load, &app, config->cores);
    const struct aw_fallback_task task =
        aw_simulate_task(s, &(struct aw_simulate_case){.app = app, .load = &c->load});
    const struct aw_slo slo = {.quantile = 0.99,
                               .latency_us_p99 = task.slo_latency_us,
                               .timeout_us = config->simulate.sim.request_timeout_s * 1e6};
    const struct aw_prices prices = {.core_hour = s->price_core_hour,
                                     .gib_hour = s->price_gib_hour};
    c->workload = (struct aw_sim_workload){.app = app,
                                           .load = &c->load,
                                           .replicas = (uint32_t)task.replicas,
                                           .replicas_max = s->replicas_max,
                                           .cpu_millicores = task.cpu_millicores,
                                           .memory_bytes = task.memory_bytes};
    c->rules = (struct aw_step_rules){
        .objective = {.kind = AW_OBJECTIVE_CONSTRAINED,
                      .slo_weight = s->reward_weight,
                      .slo = slo,
                      .prices = prices,
                      .cost_reference_per_hour = 1},
        .node = {.cpu_millicores = llround(config->simulate.sim.node_cores * 1e3),
                 .memory_bytes = llround(config->simulate.sim.node_memory_gib * AW_GIB_REAL)},
        .controlled = AW_PLAN_COMMON,
        .in_place = config->simulate.sim.in_place};
    aw_step_times(&c->rules, s->step_s, 4 * s->step_s);
    c->task = (struct aw_policy_task){.need = {.bounds = task.bounds, .budget = s->slo_budget},
                                      .slo = slo,
                                      .prices = prices,
                                      .step_s = s->step_s,
                                      .library = config->library};
    struct aw_guard_settings guard;
    aw_conf_defaults(aw_guard_fields, &guard);
    guard.mode = AW_GUARD_AUTO;
    return aw_guard_init(&c->rules.guard, &guard, &task.bounds, diag);
}

/* All of them anew, somewhere in their day. The chance of an episode is `seed`. */
static enum aw_err town_begin(struct town *town, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 3);
    const struct aw_load *any = &town->citizen[0].load;
    const int64_t at_us = (int64_t)aw_rng_below(&rng, any->slot_count) * any->slot_us;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < town->count; i++) {
        struct citizen *c = &town->citizen[i];
        err = aw_sim_replace(town->sim, i, &c->workload, at_us);
        aw_peers_begin(&c->peers, &c->task);
        if (c->known.memory.id)
            aw_peers_become(&c->peers, &c->known);
        aw_guard_begin(&c->rails);
        c->moved = 0;
        c->need_slow = c->need_known;
    }
    err = err ? err : aw_sim_reset(town->sim, seed);
    return err ? err : aw_step_advance(&town->citizen[0].rules, &town->cluster);
}

static enum aw_err town_look(struct town *town)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < town->count; i++) {
        struct citizen *c = &town->citizen[i];
        err = aw_step_look(&c->rules, &town->cluster, i, &c->seen);
        if (err == AW_ERR_NODATA) { /* nothing was measured yet: as it stands */
            c->seen.score = (struct aw_score){.sp = 1};
            err = AW_OK;
        }
    }
    return err;
}

static enum aw_err citizen_act(struct town *town, uint32_t i, uint32_t choice)
{
    struct citizen *c = &town->citizen[i];
    const struct aw_step_seen *seen = &c->seen;
    struct aw_guard_result result;
    struct aw_plan proposed;
    aw_peers_plan(&c->peers, &seen->reading, seen->score.violated, true, choice, &proposed);
    const struct aw_guard_input input =
        aw_step_input(&c->rules, &seen->reading,
                      aw_step_slo(&c->rules, &seen->reading, &seen->score), seen->sample.restarts);
    const double before = (double)seen->reading.replicas_wanted;
    const enum aw_err err =
        aw_step_act(&c->rules, &c->rails, &town->cluster, i, &input, &proposed, &result);
    c->moved = result.plan.set & AW_PLAN_REPLICAS ? (double)result.plan.replicas - before : 0;
    return err;
}

static void town_score(struct town *town)
{
    for (uint32_t i = 0; i < town->count; i++) {
        struct citizen *c = &town->citizen[i];
        const struct aw_step_rules *rules = &c->rules;
        c->cost += c->seen.score.cost;
        c->need +=
            aw_need_per_hour(&rules->objective.prices, &c->task.need.bounds, &c->seen.reading) *
            rules->step_s / 3600;
        c->missed += c->seen.score.violated;
        c->scored++;
    }
}

/* Under the plain rule, until it is known what each is short of. */
static enum aw_err town_get_to_know(struct town *town, uint64_t seed)
{
    struct aw_context_memory *memory = aw_alloc_new(town->alloc, town->count, sizeof *memory);
    enum aw_err err = memory ? town_begin(town, seed) : AW_ERR_NOMEM;
    for (uint32_t i = 0; !err && i < town->count; i++)
        aw_context_begin(&memory[i]);
    for (uint32_t t = 0; !err && t < CONTEXT_STEPS; t++) {
        err = town_look(town);
        for (uint32_t i = 0; !err && i < town->count; i++) {
            struct citizen *c = &town->citizen[i];
            float state[AW_PEERS_STATE];
            aw_peers_see(&c->peers, &c->seen.reading, c->seen.score.violated, state);
            aw_context_add(&memory[i], &c->seen.reading,
                           c->seen.sample.latency_us_p50.at_us == AW_NEVER
                               ? (double)NAN
                               : c->seen.sample.latency_us_p50.value,
                           &c->task.slo, c->seen.score.violated, c->rules.step_s);
            c->need_known +=
                aw_need_per_hour(&c->task.prices, &c->task.need.bounds, &c->seen.reading) *
                c->rules.step_s / 3600 / CONTEXT_STEPS;
            err = citizen_act(town, i, PLAIN);
        }
        err = err ? err : aw_step_advance(&town->citizen[0].rules, &town->cluster);
    }
    for (uint32_t i = 0; !err && i < town->count; i++) {
        struct citizen *c = &town->citizen[i];
        float context[AW_CONTEXT_DIM];
        aw_peers_begin(&c->known, &c->task);
        if (aw_context_read(&memory[i], &c->task.slo, context))
            aw_peers_know(&c->known, context);
        else /* it slept all the time */
            aw_peers_lean(&c->known, 0);
    }
    aw_alloc_free(town->alloc, memory);
    return err;
}

static enum aw_err town_init(const struct aw_peers_teach_config *config,
                             const struct aw_pretrain_pool *pool, uint32_t index, uint64_t seed,
                             const struct aw_alloc *alloc, struct town *ret, struct aw_diag *diag)
{
    struct aw_sim_settings sim = config->simulate.sim;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 100 + index);
    const uint32_t more = config->agents_max - config->agents_min + 1;
    struct town town = {.count = config->agents_min + aw_rng_below(&rng, more), .alloc = alloc};
    const double room = aw_rng_uniform(&rng, config->room_min, config->room_max);
    const double nodes = ceil(town.count * config->cores * room / sim.node_cores);
    sim.node_count = (uint32_t)fmin(AW_SIM_NODES_MAX, fmax(1, nodes));
    town.citizen = aw_alloc_new(alloc, town.count, sizeof *town.citizen);
    if (!town.citizen)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a town of %u agents", town.count);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < town.count; i++)
        err = citizen_init(config, pool, aw_rng_below(&rng, pool->count), alloc, &town.citizen[i],
                           diag);
    err = err ? err : aw_sim_new(&sim, seed, town.count, alloc, &town.sim, diag);
    for (uint32_t i = 0; !err && i < town.count; i++) {
        uint32_t workload;
        err = aw_sim_add(town.sim, &town.citizen[i].workload, &workload, diag);
    }
    if (!err) {
        town.cluster = aw_sim_cluster(town.sim);
        err = town_get_to_know(&town, seed + index);
    }
    if (err)
        town_deinit(&town);
    else
        *ret = town;
    return err;
}

/* --- what a team sees and gets ---------------------------------------------------------------- */

/* The rule as it is, or near it, until something is learned: logits that are added to those of the
 * networks while they learn, and are part of them afterwards. */
static const float prior[AW_PEERS_CHOICES] = {-2, -1.2f, -0.5f, 0, 0, -0.5f, -1.5f, -2.5f};

static void see(void *ctx, struct aw_team *team)
{
    struct school *school = ctx;
    for (uint32_t i = 0; i < school->town->count; i++) {
        struct citizen *c = &school->town->citizen[i];
        const struct aw_reading *r = &c->seen.reading;
        float *state = team->local + (size_t)i * AW_TEAM_LOCAL;
        float *figures = team->figures + (size_t)i * AW_TEAM_FIGURES;
        aw_peers_see(&c->peers, r, c->seen.score.violated, state);
        figures[0] = (float)(r->allocated[AW_RESOURCE_CPU] / (double)c->rules.node.cpu_millicores);
        figures[1] = (float)(r->allocated[AW_RESOURCE_MEMORY] / (double)c->rules.node.memory_bytes);
        figures[2] = 0; /* sizes are the rule's */
        figures[3] = (float)(c->moved / 4);
        figures[4] = (float)c->seen.score.sp;
        figures[5] =
            (float)(0.5 * (c->seen.score.cpu_utilisation + c->seen.score.memory_utilisation));
        memcpy(team->mask + (size_t)i * AW_PEERS_CHOICES, prior, sizeof prior);
        school->count[c->known.memory.category]++;
        for (uint32_t k = 0; k < AW_PEERS_STATE; k++) {
            school->sum[c->known.memory.category][k] += (double)state[k];
            school->square[c->known.memory.category][k] += (double)state[k] * (double)state[k];
        }
    }
}

static void step(void *ctx, struct aw_team *team, const uint8_t *action)
{
    struct school *school = ctx;
    const struct aw_peers_teach_config *config = school->config;
    struct town *town = school->town;
    enum aw_err err = school->err;
    for (uint32_t i = 0; !err && i < town->count; i++)
        err = citizen_act(town, i, action[i]);
    err = err ? err : aw_step_advance(&town->citizen[0].rules, &town->cluster);
    err = err ? err : town_look(town);
    for (uint32_t i = 0; i < town->count; i++) {
        struct citizen *c = &town->citizen[i];
        const struct aw_score *score = &c->seen.score;
        const double need =
            aw_need_per_hour(&c->task.prices, &c->task.need.bounds, &c->seen.reading) *
            c->rules.step_s / 3600;
        c->need_slow += NEED_FOLLOWS * (need - c->need_slow);
        const double dear = score->cost / fmax(NEED_LEAST * score->cost, c->need_slow);
        team->own[i] =
            (float)(-REWARD_SCALE * (log(fmax(1e-3, dear)) + (score->violated ? config->miss : 0)));
    }
    school->err = err;
}

/* --- what networks are worth ------------------------------------------------------------------ */

/* `choice` of all, or AW_PEERS_CHOICES: their networks'. */
static enum aw_err live(struct town *towns, uint32_t count, const struct aw_peers_model *model,
                        uint32_t choice, uint64_t seed)
{
    enum aw_err err = AW_OK;
    for (uint32_t n = 0; !err && n < count; n++) {
        struct town *town = &towns[n];
        err = town_begin(town, seed + n);
        for (uint32_t i = 0; i < town->count; i++) {
            struct citizen *c = &town->citizen[i];
            c->cost = c->need = c->missed = 0;
            c->scored = 0;
            aw_peers_wear(&c->peers, choice < AW_PEERS_CHOICES ? NULL : model);
        }
        for (uint32_t t = 0; !err && t < CHECK_STEPS; t++) {
            err = town_look(town);
            if (!err && t >= SETTLE_STEPS)
                town_score(town);
            for (uint32_t i = 0; !err && i < town->count; i++) {
                struct citizen *c = &town->citizen[i];
                float state[AW_PEERS_STATE];
                aw_peers_see(&c->peers, &c->seen.reading, c->seen.score.violated, state);
                err = citizen_act(town, i,
                                  choice < AW_PEERS_CHOICES ? choice
                                                            : aw_peers_choose(&c->peers, state));
            }
            err = err ? err : aw_step_advance(&town->citizen[0].rules, &town->cluster);
        }
    }
    return err;
}

/* Of agents whose load needed something: the mean of each one's. */
static struct aw_peers_lived tally(const struct town *towns, uint32_t count, double budget,
                                   float *ret_missed, uint32_t *ret_agents)
{
    struct aw_peers_lived lived = {0};
    double agents = 0, by[AW_PEERS_CATEGORIES] = {0}, missed[AW_PEERS_CATEGORIES] = {0};
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t i = 0; i < towns[n].count; i++) {
            const struct citizen *c = &towns[n].citizen[i];
            if (!(c->need > 0) || c->scored == 0)
                continue;
            const double share = c->missed / c->scored;
            lived.missed += share;
            lived.cost += log(c->cost / c->need);
            lived.value += log(c->cost / c->need) + aw_miss_price(share, budget);
            missed[c->known.memory.category] += share;
            by[c->known.memory.category]++;
            agents++;
        }
    agents = fmax(1, agents);
    for (uint32_t k = 0; ret_missed && k < AW_PEERS_CATEGORIES; k++) {
        ret_missed[k] = (float)(missed[k] / fmax(1, by[k]));
        ret_agents[k] = (uint32_t)by[k];
    }
    return (struct aw_peers_lived){.missed = lived.missed / agents,
                                   .cost = exp(lived.cost / agents),
                                   .value = lived.value / agents};
}

static void model_take(const struct aw_simppo *simppo, const struct school *school,
                       struct aw_peers_model *model)
{
    for (uint32_t k = 0; k < AW_PEERS_CATEGORIES; k++) {
        const float *theta;
        const struct aw_mlp *actor = aw_simppo_actor(simppo, k, &theta);
        struct aw_peers_net *net = &model->net[k];
        float *to = net->theta;
        for (uint32_t l = 0; l < actor->layer_count; l++) {
            const struct aw_linear *layer = &actor->layer[l];
            const size_t weights = (size_t)layer->in * layer->out;
            memcpy(to, theta + layer->weight, weights * sizeof *to);
            memcpy(to + weights, theta + layer->bias, layer->out * sizeof *to);
            to += weights + layer->out;
        }
        AW_ASSERT(to == net->theta + AW_PEERS_THETA);
        for (uint32_t i = 0; i < AW_PEERS_CHOICES; i++) /* the biases of the last layer */
            to[-(ptrdiff_t)AW_PEERS_CHOICES + i] += prior[i];
        const double n = fmax(1, school->count[k]);
        for (uint32_t i = 0; i < AW_PEERS_STATE; i++) {
            const double mean = school->sum[k][i] / n;
            const double variance = school->square[k][i] / n - mean * mean;
            net->centre[i] = (float)mean;
            net->spread[i] = (float)sqrt(fmax(1e-3, variance));
        }
    }
}

/* --- learning --------------------------------------------------------------------------------- */

struct class
{
    struct school school;
    struct aw_team_drive drive;
    struct aw_multi_world world; /* says who is there; nothing happens in it */
    struct aw_team team;
    struct aw_simppo *simppo;
    struct town *learn, *choose, *report;
    struct aw_peers_model best, now;
    double best_value;
};

static enum aw_err towns_init(const struct aw_peers_teach_config *config,
                              const struct aw_pretrain_pool *pool, uint32_t count, uint64_t seed,
                              const struct aw_alloc *alloc, struct town **ret, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    *ret = aw_alloc_new(alloc, count, sizeof **ret);
    if (!*ret)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u towns", count);
    for (uint32_t i = 0; !err && i < count; i++)
        err = town_init(config, pool, i, seed, alloc, &(*ret)[i], diag);
    return err;
}

static void towns_free(struct town *towns, uint32_t count, const struct aw_alloc *alloc)
{
    for (uint32_t i = 0; towns && i < count; i++)
        town_deinit(&towns[i]);
    aw_alloc_free(alloc, towns);
}

static void class_deinit(struct class *class, const struct aw_alloc *alloc)
{
    const struct aw_peers_teach_config *config = class->school.config;
    towns_free(class->learn, config->towns, alloc);
    towns_free(class->choose, config->towns_checked, alloc);
    towns_free(class->report, config->towns_checked, alloc);
    aw_simppo_free(class->simppo);
    aw_team_deinit(&class->team);
    aw_multi_deinit(&class->world);
}

static enum aw_err class_init(struct class *class, const struct aw_peers_teach_config *config,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    const uint64_t seed = config->simulate.seed;
    struct aw_multi_settings world;
    struct aw_team_settings team;
    struct aw_simppo_settings simppo;
    *class = (struct class){.school.config = config, .best_value = INFINITY};
    class->drive = (struct aw_team_drive){&class->school, see, step};
    aw_conf_defaults(aw_multi_fields, &world);
    world.agents = world.agents_max = config->agents_max;
    aw_team_settings_init(&team, false);
    team.team_weight = config->team_weight;
    aw_simppo_settings_init(&simppo, false);
    simppo.horizon = HORIZON;
    simppo.relu = true;
    /* replicas take steps to come, and a network that begins near the rule has little to explore */
    simppo.gamma = 0.97;
    simppo.entropy = 0.002;
    simppo.lr = 3e-4;
    simppo.hidden = AW_PEERS_HIDDEN;
    enum aw_err err =
        towns_init(config, &config->learn, config->towns, seed, alloc, &class->learn, diag);
    err = err ? err
              : towns_init(config, &config->choose, config->towns_checked, seed + 1000, alloc,
                           &class->choose, diag);
    err = err ? err
              : towns_init(config, &config->report, config->towns_checked, seed + 2000, alloc,
                           &class->report, diag);
    err = err ? err : aw_multi_init(&class->world, &world, alloc, diag);
    if (err)
        return err;
    aw_multi_reset(&class->world, seed);
    err = aw_team_init(&class->team, &class->world, &team, alloc);
    class->team.drive = &class->drive;
    return err ? err : aw_simppo_new(&simppo, &class->team, seed, alloc, &class->simppo, diag);
}

static enum aw_err episode(struct class *class, uint32_t number)
{
    struct town *town = &class->learn[number % class->school.config->towns];
    struct aw_multi_world *world = &class->world;
    class->school.town = town;
    world->count = world->live = town->count;
    for (uint32_t i = 0; i < town->count; i++) {
        world->here[i] = 1;
        world->category[i] = (uint8_t)town->citizen[i].known.memory.category;
    }
    enum aw_err err = town_begin(town, class->school.config->simulate.seed + 77777 + number);
    for (uint32_t t = 0; !err && t < SETTLE_STEPS; t++) {
        float state[AW_PEERS_STATE];
        err = town_look(town);
        for (uint32_t i = 0; !err && i < town->count; i++) {
            struct citizen *c = &town->citizen[i];
            aw_peers_see(&c->peers, &c->seen.reading, c->seen.score.violated, state);
            err = citizen_act(town, i, PLAIN);
        }
        err = err ? err : aw_step_advance(&town->citizen[0].rules, &town->cluster);
    }
    err = err ? err : town_look(town);
    if (err)
        return err;
    (void)aw_simppo_episode(class->simppo, true);
    return class->school.err;
}

/* The networks as they are now, if they are the best so far. */
static enum aw_err check(struct class *class, uint32_t episodes, uint32_t *ret_episodes)
{
    const struct aw_peers_teach_config *config = class->school.config;
    model_take(class->simppo, &class->school, &class->now);
    enum aw_err err = aw_peers_model_prepare(&class->now);
    err = err ? err
              : live(class->choose, config->towns_checked, &class->now, AW_PEERS_CHOICES,
                     config->simulate.seed + 555);
    if (err)
        return err;
    const double value = tally(class->choose, config->towns_checked,
                               config->simulate.settings.slo_budget, NULL, NULL)
                             .value;
    if (value < class->best_value) {
        class->best = class->now;
        class->best_value = value;
        *ret_episodes = episodes;
    }
    return AW_OK;
}

static enum aw_err report(struct class *class, struct aw_peers_taught *ret)
{
    const struct aw_peers_teach_config *config = class->school.config;
    const double budget = config->simulate.settings.slo_budget;
    const uint64_t seed = config->simulate.seed + 999;
    enum aw_err err =
        live(class->report, config->towns_checked, &class->best, AW_PEERS_CHOICES, seed);
    if (err)
        return err;
    ret->learned =
        tally(class->report, config->towns_checked, budget, class->best.missed, ret->agents);
    for (uint32_t choice = 0; !err && choice < AW_PEERS_CHOICES; choice++) {
        err = live(class->report, config->towns_checked, NULL, choice, seed);
        if (!err)
            ret->fixed[choice] = tally(class->report, config->towns_checked, budget, NULL, NULL);
    }
    return err ? err : aw_peers_model_prepare(&class->best);
}

enum aw_err aw_peers_teach(const struct aw_peers_teach_config *config,
                           aw_peers_teach_progress *progress, void *ctx,
                           const struct aw_alloc *alloc, struct aw_peers_model *ret_model,
                           struct aw_peers_taught *ret_taught, struct aw_diag *diag)
{
    struct class *class = aw_alloc_new(alloc, 1, sizeof *class);
    struct aw_peers_taught taught = {0};
    if (!class)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to teach agents");
    const uint32_t each = config->episodes / CHECKS ? config->episodes / CHECKS : 1;
    struct aw_diag said = {0};
    enum aw_err err = class_init(class, config, alloc, &said);
    for (uint32_t i = 0; !err && i < config->episodes; i++) {
        err = episode(class, i);
        if (!err && (i + 1) % each == 0)
            err = check(class, i + 1, &taught.episodes);
        if (!err && progress && !progress(ctx, i + 1, config->episodes))
            err = AW_ERR_INTERRUPTED;
    }
    err = err ? err : report(class, &taught);
    if (!err) {
        *ret_model = class->best;
        *ret_taught = taught;
    } else if (said.text[0] && diag) {
        *diag = said;
    } else if (err != AW_ERR_INTERRUPTED) {
        aw_fail(diag, err, "the towns could not be lived in");
    }
    class_deinit(class, alloc);
    aw_alloc_free(alloc, class);
    return err;
}
