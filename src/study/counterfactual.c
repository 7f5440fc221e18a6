/*
 * counterfactual.c - a record from rows, copies of it, and plays on them.
 *
 * Rows keep one latency alone, at the quantile that the SLO speaks of. The mean comes from Little's
 * law (requests in flight over arrivals, over a few steps: one count says little), the median from
 * the lognormal that has this mean and that quantile.
 */
#include "study/counterfactual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cluster/sim.h"

#define WORKLOAD     0u
#define UNSCORED     8u   /* steps until the copy has settled where the record begins */
#define LITTLE_STEPS 4u   /* on either side of a step */
#define MEAN_LEAST   0.05 /* of the latency: below, the count of requests was chance */
#define SATURATED    0.97 /* CPU utilisation from which a latency tells of backlog */
#define FAR          0.25 /* ln of sizes: beyond, a size is another one */
#define SIZES_MAX    64u
#define KILLS_SHARE  0.002 /* of steps: a copy that is killed more often holds too much */
#define HOLDS_LESS   0.5   /* of what a request in flight holds, at each try */
#define TRIES        8u
#define LIVED        (AW_COUNTERFACTUAL_CAPACITY_RULE + 1u) /* as RECORDED, with the fit's memory */

/* What a quantile is to the mean of a lognormal; by aw_latency_index. */
static const struct {
    double z;     /* of the normal distribution */
    double guess; /* of the mean, where nothing was counted: of the latency */
    double most;  /* of the mean, likewise */
} relation[] = {{0, 1.14, 20}, {1.645, 0.49, 0.95}, {2.326, 0.35, 0.95}};

struct copy {
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_sim_workload workload;
    double slo_us, bias;
};

struct aw_counterfactual {
    struct aw_counterfactual_config config;
    struct aw_pilot_config pilot;
    const struct aw_alloc *alloc;
    struct aw_counterfactual_step *step; /* [count] */
    double *off;                         /* [count] of a play */
    uint32_t count;
    struct aw_step_rules rules; /* but for the guard, which is the player's */
    struct aw_load load;
    struct aw_copy_record record;
    double size[SIZES_MAX]; /* ln of cores that were tried */
    uint32_t size_count;
    struct copy copy[AW_COUNTERFACTUAL_COPIES_MAX];
    uint32_t copies;
};

/* --- a record from rows ----------------------------------------------------------------------- */

/* Where an axis of the state stands; AW_STATE_DIM_MAX: nowhere. */
static uint32_t axis_named(const char *name)
{
    uint32_t i = 0;
    while (i < AW_STATE_DIM_MAX && strcmp(aw_state_axes[i].name, name) != 0)
        i++;
    return i;
}

void aw_counterfactual_step_of(const struct aw_pilot_config *config, const struct aw_store_row *row,
                               struct aw_counterfactual_step *ret)
{
    const struct aw_store_figures *figures = &row->figures;
    *ret = (struct aw_counterfactual_step){
        .at_us = row->at_us,
        .arrivals_per_s = figures->arrivals_per_s,
        .latency_us_p99 = figures->latency_us_p99,
        .cpu_utilisation = figures->cpu_utilisation,
        .memory_utilisation = figures->memory_utilisation,
        .in_flight = NAN,
        .throttled_share = NAN,
        .ready_share = NAN,
        .cost = figures->cost,
        .cpu_millicores = figures->cpu_millicores,
        .memory_bytes = figures->memory_bytes,
        .replicas = figures->replicas,
        .actor = row->actor,
        .stage = row->stage,
        .violated = figures->violated != 0,
    };
    if (row->obs_dim != AW_STATE_DEFAULT_DIM || config->state != AW_STATE_DEFAULT)
        return;
    struct aw_state state;
    const struct aw_state_config scale = {.preset = config->state,
                                          .bounds = config->bounds,
                                          .slo = config->slo,
                                          .disk_bytes_per_s_max = 1,
                                          .net_bytes_per_s_max = 1};
    aw_state_init(&state, &scale);
    const double ready = (double)row->next_obs[axis_named("ready")];
    const double each =
        expm1((double)row->next_obs[axis_named("in_flight")] / (double)state.in_flight_scale);
    ret->ready_share = ready;
    ret->in_flight = each * fmax(1, round(ready * ret->replicas));
    ret->throttled_share = (double)row->next_obs[axis_named("throttled")];
}

/* Mean latency around a step, by Little's law; NAN: nobody knows. */
static double mean_us(const struct aw_counterfactual *h, uint32_t t)
{
    const uint32_t first = t > LITTLE_STEPS ? t - LITTLE_STEPS : 0;
    const uint32_t last = t + LITTLE_STEPS < h->count ? t + LITTLE_STEPS : h->count - 1;
    const uint32_t which = aw_latency_index(h->pilot.slo.quantile);
    const double told = h->step[t].latency_us_p99;
    double requests = 0, arrivals = 0;
    for (uint32_t i = first; i <= last; i++) {
        const struct aw_counterfactual_step *step = &h->step[i];
        if (isnan(step->in_flight) || isnan(step->arrivals_per_s) ||
            step->cpu_millicores != h->step[t].cpu_millicores)
            continue;
        requests += step->in_flight;
        arrivals += step->arrivals_per_s;
    }
    const double mean =
        arrivals > 0 && requests > 0 ? 1e6 * requests / arrivals : relation[which].guess * told;
    return fmin(relation[which].most * told, fmax(MEAN_LEAST * told, mean));
}

/* Median of the lognormal with this mean and this latency at the SLO's quantile. */
static double median_us(const struct aw_counterfactual *h, double mean, double told)
{
    const double z = relation[aw_latency_index(h->pilot.slo.quantile)].z;
    if (z <= 0) /* it is the median */
        return told;
    /* ln(told / mean) = z s - s^2 / 2; the smaller root is the one where it is above the mean */
    const double root = z * z - 2 * log(told / mean);
    const double spread = z - sqrt(fmax(0, root));
    return mean * exp(-0.5 * spread * spread);
}

static bool settled(const struct aw_counterfactual *h, uint32_t t)
{
    const struct aw_counterfactual_step *now = &h->step[t], *before = &h->step[t ? t - 1 : 0];
    return now->cpu_millicores == before->cpu_millicores &&
           now->memory_bytes == before->memory_bytes && now->replicas == before->replicas &&
           !(now->ready_share < 1) && !(now->cpu_utilisation > SATURATED);
}

static void record_make(struct aw_counterfactual *h, uint32_t count)
{
    aw_copy_begin(&h->record);
    for (uint32_t t = 0; t < count; t++) {
        const struct aw_counterfactual_step *step = &h->step[t];
        const double cores = 1e-3 * (double)step->cpu_millicores * step->replicas;
        const double mean = mean_us(h, t);
        const bool known = step->latency_us_p99 > 0;
        const struct aw_reading reading = {
            .at_us = step->at_us,
            .cpu_millicores_wanted = step->cpu_millicores,
            .memory_bytes_wanted = step->memory_bytes,
            .replicas_wanted = step->replicas,
            .replicas_ready = isnan(step->ready_share)
                                  ? step->replicas
                                  : (uint32_t)lround(step->ready_share * step->replicas),
            .cpu_cores_used = step->cpu_utilisation * cores,
            .memory_bytes_used = step->memory_utilisation * (double)step->memory_bytes,
            .throttled_share = step->throttled_share,
            .arrivals_per_s = step->arrivals_per_s,
            .completions_per_s = step->arrivals_per_s,
            .errors_per_s = 0,
            .in_flight = step->in_flight,
            .latency_us_slo = known ? step->latency_us_p99 : NAN,
            .rollout = !settled(h, t),
        };
        const struct aw_sample sample = {
            .at_us = step->at_us,
            .latency_us_p50 = {known ? median_us(h, mean, step->latency_us_p99) : 0,
                               known ? step->at_us : AW_NEVER},
            .latency_us_mean = {known ? mean : 0, known ? step->at_us : AW_NEVER},
        };
        aw_copy_add(&h->record, &sample, &reading);
    }
}

static void sizes_note(struct aw_counterfactual *h)
{
    for (uint32_t t = 0; t < h->count; t++) {
        const double size = log((double)h->step[t].cpu_millicores);
        uint32_t i = 0;
        while (i < h->size_count && fabs(h->size[i] - size) > FAR / 4)
            i++;
        if (i == h->size_count && h->size_count < SIZES_MAX)
            h->size[h->size_count++] = size;
    }
}

static bool size_is_known(const struct aw_counterfactual *h, int64_t cpu_millicores)
{
    const double size = log((double)cpu_millicores);
    for (uint32_t i = 0; i < h->size_count; i++) {
        if (fabs(h->size[i] - size) <= FAR)
            return true;
    }
    return false;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* What is not known of the load is what it was before. */
static enum aw_err load_make(struct aw_counterfactual *h, struct aw_diag *diag)
{
    enum aw_err err =
        aw_load_init(&h->load, "recorded", h->count, h->rules.step_us, h->alloc, diag);
    double rate = 0;
    for (uint32_t t = 0; !err && t < h->count; t++) {
        rate = isnan(h->step[t].arrivals_per_s) ? rate : h->step[t].arrivals_per_s;
        h->load.rate_per_s[t] = (float)rate;
    }
    return err;
}

static enum aw_err copy_make(struct aw_counterfactual *h, uint32_t index, struct aw_diag *diag)
{
    struct copy *copy = &h->copy[index];
    struct aw_copy_fit fit;
    enum aw_err err =
        aw_copy_fit(&h->record, h->pilot.slo.quantile, index ? h->config.seed + index : 0, &fit);
    if (err)
        return aw_fail(diag, err, "no copy can be made: no step has both load and latency");
    struct aw_sim_settings sim;
    aw_conf_defaults(aw_sim_fields, &sim);
    sim.in_place = h->pilot.in_place;
    copy->bias = fit.bias;
    copy->slo_us = h->pilot.slo.latency_us_p99 * exp(-fit.bias);
    copy->workload = (struct aw_sim_workload){
        .app = fit.app,
        .load = &h->load,
        .replicas = h->step[0].replicas,
        .replicas_max = h->pilot.bounds.replicas_max,
        .cpu_millicores = h->step[0].cpu_millicores,
        .memory_bytes = h->step[0].memory_bytes,
    };
    err = aw_sim_new(&sim, h->config.seed, 1, h->alloc, &copy->sim, diag);
    if (err)
        return err;
    h->copies++;
    uint32_t workload;
    err = aw_sim_add(copy->sim, &copy->workload, &workload, diag);
    copy->cluster = aw_sim_cluster(copy->sim);
    return err;
}

static enum aw_err holds_less(struct aw_counterfactual *h, uint32_t which);

/* A record may hold what the bounds of today no longer allow. */
static void clamp_to_bounds(struct aw_counterfactual *h)
{
    const struct aw_bounds *b = &h->pilot.bounds;
    for (uint32_t t = 0; t < h->count; t++) {
        struct aw_counterfactual_step *step = &h->step[t];
        if (step->replicas > b->replicas_max)
            step->replicas = b->replicas_max;
        if (step->replicas < 1)
            step->replicas = 1;
        if (step->cpu_millicores < 1)
            step->cpu_millicores = b->cpu_millicores_min;
        if (step->memory_bytes < 1)
            step->memory_bytes = b->memory_bytes_min;
    }
}

enum aw_err aw_counterfactual_new(const struct aw_counterfactual_config *config,
                                  const struct aw_counterfactual_step *steps, uint32_t count,
                                  const struct aw_alloc *alloc, struct aw_counterfactual **ret,
                                  struct aw_diag *diag)
{
    AW_ASSERT(config->copies >= 1 && config->copies <= AW_COUNTERFACTUAL_COPIES_MAX);
    if (count < AW_COUNTERFACTUAL_STEPS_MIN || config->score_from + UNSCORED >= count)
        return aw_fail(diag, AW_ERR_NODATA, "%u steps are recorded, at least %u are needed", count,
                       AW_COUNTERFACTUAL_STEPS_MIN);
    if (count > AW_COUNTERFACTUAL_STEPS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "%u steps are recorded, at most %u can be played", count,
                       AW_COUNTERFACTUAL_STEPS_MAX);
    struct aw_counterfactual *h = aw_alloc_new(alloc, 1, sizeof *h);
    struct aw_counterfactual_step *copy = aw_alloc_new(alloc, count, sizeof *copy);
    double *off = aw_alloc_new(alloc, count, sizeof *off);
    if (!h || !copy || !off) {
        aw_alloc_free(alloc, h);
        aw_alloc_free(alloc, copy);
        aw_alloc_free(alloc, off);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u recorded steps", count);
    }
    memcpy(copy, steps, count * sizeof *copy);
    h->config = *config;
    h->pilot = *config->pilot;
    h->config.pilot = &h->pilot;
    h->alloc = alloc;
    h->step = copy;
    h->off = off;
    h->count = count;
    h->rules = (struct aw_step_rules){.objective = {.kind = AW_OBJECTIVE_CONSTRAINED,
                                                    .slo_weight = 0.5,
                                                    .slo = h->pilot.slo,
                                                    .prices = h->pilot.prices,
                                                    .cost_reference_per_hour = 1},
                                      .node = h->pilot.node,
                                      .controlled = h->pilot.controlled,
                                      .in_place = h->pilot.in_place};
    aw_step_times(&h->rules, h->pilot.step_s, h->pilot.stale_s);
    clamp_to_bounds(h);
    record_make(h, count);
    sizes_note(h);
    enum aw_err err = load_make(h, diag);
    for (uint32_t i = 0; !err && i < config->copies; i++)
        err = copy_make(h, i, diag);
    for (uint32_t i = 0; !err && i < h->copies; i++)
        err = holds_less(h, i);
    if (err) {
        aw_counterfactual_free(h);
        return err;
    }
    *ret = h;
    return AW_OK;
}

void aw_counterfactual_free(struct aw_counterfactual *h)
{
    if (!h)
        return;
    for (uint32_t i = 0; i < h->copies; i++)
        aw_sim_free(h->copy[i].sim);
    aw_load_deinit(&h->load);
    aw_alloc_free(h->alloc, h->step);
    aw_alloc_free(h->alloc, h->off);
    aw_alloc_free(h->alloc, h);
}

/* --- a play ----------------------------------------------------------------------------------- */

/* Who plays, with what it remembers. */
struct playing {
    const struct aw_counterfactual_player *player;
    struct aw_step_rules rules;
    struct aw_guard_memory rails;
    struct aw_fallback *policy;
    struct aw_capacity_rule_values values;
    struct aw_capacity_rule_task task;
    struct aw_capacity_rule_memory memory;
};

/* What was recorded is done as it was, behind no rail. */
static bool decides(const struct playing *p)
{
    return p->player->kind == AW_COUNTERFACTUAL_POLICY ||
           p->player->kind == AW_COUNTERFACTUAL_CAPACITY_RULE;
}

static void propose(struct playing *p, const struct aw_counterfactual *h, uint32_t t,
                    const struct aw_step_seen *seen, int64_t now_us, struct aw_plan *ret)
{
    const struct aw_counterfactual_step *step = &h->step[t];
    const struct aw_reading *reading = &seen->reading;
    switch (p->player->kind) {
    case AW_COUNTERFACTUAL_POLICY:
        aw_fallback_decide(p->policy, &seen->sample, now_us, ret, NULL);
        return;
    case AW_COUNTERFACTUAL_CAPACITY_RULE:
        aw_capacity_rule_decide(&p->values, &p->task, &p->memory, reading, seen->score.violated,
                                t > 0, ret);
        return;
    default:
        *ret = (struct aw_plan){.replicas = step->replicas,
                                .cpu_millicores = step->cpu_millicores,
                                .memory_bytes = step->memory_bytes};
        if (reading->replicas_wanted != step->replicas)
            ret->set |= AW_PLAN_REPLICAS;
        if (reading->cpu_millicores_wanted != step->cpu_millicores)
            ret->set |= AW_PLAN_CPU;
        if (reading->memory_bytes_wanted != step->memory_bytes)
            ret->set |= AW_PLAN_MEMORY;
        return;
    }
}

/* What is decided in a step, behind the rails. What was recorded has passed those of its day. */
static enum aw_err act(struct playing *p, const struct aw_counterfactual *h, uint32_t t,
                       const struct aw_cluster *cluster, const struct aw_step_rules *rules,
                       const struct aw_step_seen *seen, struct aw_guard_result *ret)
{
    struct aw_plan proposed;
    const struct aw_guard_input input =
        aw_step_input(rules, &seen->reading, aw_step_slo(rules, &seen->reading, &seen->score),
                      seen->sample.restarts);
    propose(p, h, t, seen, cluster->ops->now_us(cluster->self), &proposed);
    return aw_step_act(rules, decides(p) ? &p->rails : NULL, cluster, WORKLOAD, &input, &proposed,
                       ret);
}

struct sums {
    double cost, replicas, cores, gib;
    uint32_t violations, scored, beyond, replica_changes, size_changes, off_count, kills;
};

static void tally(struct aw_counterfactual *h, const struct aw_reading *reading,
                  const struct aw_score *score, struct sums *sums)
{
    const double replicas = reading->replicas_wanted;
    sums->cost += score->cost;
    sums->violations += score->violated;
    sums->replicas += replicas;
    sums->cores += 1e-3 * (double)reading->cpu_millicores_wanted * replicas;
    sums->gib += (double)reading->memory_bytes_wanted * replicas / AW_GIB_REAL;
    sums->beyond += !size_is_known(h, reading->cpu_millicores_wanted);
    sums->scored++;
}

static enum aw_err play_copy(struct aw_counterfactual *h, uint32_t which, struct playing *p,
                             struct aw_counterfactual_point *points, struct sums *ret)
{
    struct copy *copy = &h->copy[which];
    const struct aw_cluster *cluster = &copy->cluster;
    struct aw_step_rules rules = p->rules;
    struct sums sums = {0};
    rules.objective.slo.latency_us_p99 = copy->slo_us;
    struct aw_sim_workload workload = copy->workload;
    if (p->player->kind ==
        AW_COUNTERFACTUAL_RECORDED) { /* its memory is known to have been enough */
        workload.app.segment[0].memory_base_mib = 1;
        workload.app.segment[0].memory_flight_mib = 0;
    }
    enum aw_err err = aw_sim_replace(copy->sim, WORKLOAD, &workload, 0);
    err = err ? err : aw_sim_reset(copy->sim, h->config.seed + which);
    aw_guard_begin(&p->rails);
    aw_capacity_rule_begin(&p->memory);
    if (p->policy)
        aw_fallback_reset(p->policy);
    const uint32_t from = h->config.score_from > UNSCORED ? h->config.score_from : UNSCORED;
    struct aw_step_seen seen;
    err = err ? err : aw_step_look(&rules, cluster, WORKLOAD, &seen);
    bool known = !err;
    if (err == AW_ERR_NODATA) /* before the first step nothing was measured yet */
        err = AW_OK;
    for (uint32_t t = 0; !err && t < h->count; t++) {
        struct aw_guard_result rails = {0};
        if (known)
            err = act(p, h, t, cluster, &rules, &seen, &rails);
        err = err ? err : aw_step_advance(&rules, cluster);
        err = err ? err : aw_step_look(&rules, cluster, WORKLOAD, &seen);
        if (err)
            break;
        known = true;
        sums.kills += seen.sample.oom_kills;
        sums.replica_changes += (rails.plan.set & AW_PLAN_REPLICAS) != 0;
        sums.size_changes += (rails.plan.set & (AW_PLAN_CPU | AW_PLAN_MEMORY)) != 0;
        if (t >= from)
            tally(h, &seen.reading, &seen.score, &sums);
        const double measured = h->step[t].latency_us_p99, told = seen.reading.latency_us_slo;
        if (t >= from && measured > 0 && told > 0)
            h->off[sums.off_count++] = fabs(log(told / measured) + copy->bias);
        if (points)
            points[t] = (struct aw_counterfactual_point){
                .replicas = seen.reading.replicas_wanted,
                .cpu_millicores = seen.reading.cpu_millicores_wanted,
                .memory_bytes = seen.reading.memory_bytes_wanted,
                .latency_us_p99 = told * exp(copy->bias),
                .cost_per_hour = seen.score.cost * 3600 / h->pilot.step_s,
                .clips = rails.clips,
                .violated = seen.score.violated,
                .changed = rails.plan.set != 0,
            };
    }
    *ret = sums;
    return err;
}

/* What memory a request holds is the weakest part of a fit: use is known as a mean, kills come from
 * peaks. Of a copy that is killed again and again at sizes the workload lived with, a request holds
 * less and the rest of what was used is there without any. */
static enum aw_err holds_less(struct aw_counterfactual *h, uint32_t which)
{
    const struct aw_counterfactual_player lived = {.kind = LIVED};
    struct aw_segment *segment = &h->copy[which].workload.app.segment[0];
    const double n = h->record.memory_n;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && n > 0 && i < TRIES; i++) {
        struct playing p = {.player = &lived, .rules = h->rules};
        struct sums sums;
        err = play_copy(h, which, &p, NULL, &sums);
        if (err || sums.kills <= KILLS_SHARE * h->count)
            break;
        const double mean = h->record.memory_y / n / AW_MIB_REAL,
                     in_flight = h->record.memory_x / n;
        segment->memory_flight_mib = i + 1 < TRIES ? HOLDS_LESS * segment->memory_flight_mib : 0;
        segment->memory_base_mib = fmax(1, mean - segment->memory_flight_mib * in_flight);
    }
    return err;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum aw_err playing_begin(struct playing *p, const struct aw_counterfactual *h,
                                 const struct aw_counterfactual_player *player,
                                 struct aw_diag *diag)
{
    *p = (struct playing){.player = player,
                          .rules = h->rules,
                          .task = {.bounds = h->pilot.bounds, .budget = h->pilot.slo_budget}};
    struct aw_guard_settings rails = player->guard ? *player->guard : h->pilot.guard;
    rails.mode = AW_GUARD_AUTO; /* what was only recommended is what is asked about */
    enum aw_err err = aw_guard_init(&p->rules.guard, &rails, &h->pilot.bounds, diag);
    if (err || player->kind == AW_COUNTERFACTUAL_RECORDED)
        return err;
    if (player->kind == AW_COUNTERFACTUAL_CAPACITY_RULE) {
        aw_capacity_rule_decode(player->rule, &p->values);
        return AW_OK;
    }
    struct aw_plan start = {.replicas = h->step[0].replicas,
                            .cpu_millicores = h->step[0].cpu_millicores,
                            .memory_bytes = h->step[0].memory_bytes};
    aw_bounds_clip(&h->pilot.bounds, &start);
    const struct aw_fallback_task task = {.bounds = h->pilot.bounds,
                                          .slo_latency_us = h->pilot.slo.latency_us_p99,
                                          .slo_quantile = h->pilot.slo.quantile,
                                          .replicas = start.replicas,
                                          .cpu_millicores = start.cpu_millicores,
                                          .memory_bytes = start.memory_bytes};
    return aw_fallback_new(player->policy, &task, h->alloc, &p->policy, diag);
}

enum aw_err aw_counterfactual_play(struct aw_counterfactual *h,
                                   const struct aw_counterfactual_player *player,
                                   struct aw_counterfactual_point *points,
                                   struct aw_counterfactual_result *ret, struct aw_diag *diag)
{
    struct playing p;
    struct aw_counterfactual_result result = {.cost_low = INFINITY,
                                              .cost_high = -INFINITY,
                                              .share_low = INFINITY,
                                              .share_high = -INFINITY,
                                              .off = NAN};
    enum aw_err err = playing_begin(&p, h, player, diag);
    for (uint32_t i = 0; !err && i < h->copies; i++) {
        struct sums sums;
        if ((err = play_copy(h, i, &p, i ? NULL : points, &sums)))
            break;
        const double hours = sums.scored * h->pilot.step_s / 3600;
        const double cost = sums.cost / hours, share = (double)sums.violations / sums.scored;
        result.cost_per_hour += cost / h->copies;
        result.violation_share += share / h->copies;
        result.cost_low = fmin(result.cost_low, cost);
        result.cost_high = fmax(result.cost_high, cost);
        result.share_low = fmin(result.share_low, share);
        result.share_high = fmax(result.share_high, share);
        result.replicas += sums.replicas / sums.scored / h->copies;
        result.cores += sums.cores / sums.scored / h->copies;
        result.gib += sums.gib / sums.scored / h->copies;
        if (i > 0)
            continue;
        result.replica_changes = sums.replica_changes;
        result.size_changes = sums.size_changes;
        result.oom_kills = sums.kills;
        result.beyond = sums.beyond;
        result.scored = sums.scored;
        if (player->kind == AW_COUNTERFACTUAL_RECORDED && sums.off_count > 0) {
            qsort(h->off, sums.off_count, sizeof *h->off, by_value);
            result.off = h->off[sums.off_count / 2];
        }
    }
    aw_fallback_free(p.policy);
    if (!err)
        *ret = result;
    return err;
}

/* --- the search ------------------------------------------------------------------------------- */

/* The past by the minute, as a workload remembers it. */
static uint32_t minutes_of(const struct aw_counterfactual *h, uint32_t count, float *ret)
{
    const uint32_t per_minute = (uint32_t)fmax(1, round(60 / h->pilot.step_s));
    uint32_t minutes = count / per_minute, first = 0;
    if (minutes > AW_REHEARSE_MINUTES_MAX) {
        first = minutes - AW_REHEARSE_MINUTES_MAX;
        minutes = AW_REHEARSE_MINUTES_MAX;
    }
    for (uint32_t m = 0; m < minutes; m++) {
        double sum = 0;
        for (uint32_t i = 0; i < per_minute; i++)
            sum += (double)h->load.rate_per_s[(first + m) * per_minute + i];
        ret[m] = (float)(sum / per_minute);
    }
    return minutes;
}

enum aw_err aw_counterfactual_search(struct aw_counterfactual *h, struct aw_capacity_rule *ret_rule,
                                     struct aw_diag *diag)
{
    const uint32_t count = h->config.score_from;
    struct aw_rehearsal *rehearsal = NULL;
    static const struct aw_rehearse_starts starts = {0};
    struct aw_rehearse_found found;
    float *load = aw_alloc_new(h->alloc, AW_REHEARSE_MINUTES_MAX, sizeof *load);
    if (!load)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the recorded load");
    record_make(h, count); /* of what came before alone */
    const struct aw_counterfactual_step *last = &h->step[count ? count - 1 : 0];
    struct aw_rehearse_config config = {
        .settings = h->pilot.rehearse,
        .bounds = h->pilot.bounds,
        .slo = h->pilot.slo,
        .prices = h->pilot.prices,
        .budget = h->pilot.slo_budget,
        .step_s = h->pilot.step_s,
        .stale_s = h->pilot.stale_s,
        .controlled = h->pilot.controlled,
        .guard = h->pilot.guard,
        .node = h->pilot.node,
        .in_place = h->pilot.in_place,
        .start = {.replicas = last->replicas,
                  .cpu_millicores = last->cpu_millicores,
                  .memory_bytes = last->memory_bytes},
        .record = &h->record,
        .load_per_s = load,
        .minutes = minutes_of(h, count, load),
        .seed = h->config.seed,
    };
    config.minutes_seen = config.minutes;
    enum aw_err err = aw_rehearsal_new(&config, h->alloc, &rehearsal, diag);
    err = err ? err : aw_rehearsal_search(rehearsal, &starts, h->config.seed, &found);
    if (!err)
        *ret_rule = found.rule;
    aw_rehearsal_free(rehearsal);
    aw_alloc_free(h->alloc, load);
    record_make(h, h->count);
    return err;
}
