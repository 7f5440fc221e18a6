/*
 * experiment_tenants.c - agents that learn together on one cluster (SIMPPO, thesis chapter 4):
 * training curves, and what is served beside rules.
 */
#include "study/experiment_tenants.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AGENTS 12u

const struct aw__tenants_variant aw__tenants_variants[AW__TENANTS_VARIANTS] = {
    [AW__TENANTS_ALONE] = {"S-RL alone", true, false, AW_SIMPPO_LOCAL, 0, 0, 0, false},
    [AW__TENANTS_TOGETHER] = {"S-RL together", false, false, AW_SIMPPO_LOCAL, 0, -0.559, 0, false},
    [AW__TENANTS_IL] = {"IL-RL", false, false, AW_SIMPPO_LOCAL, 1, -0.382, 0, false},
    [AW__TENANTS_IPPO] = {"IPPO-PS", false, true, AW_SIMPPO_LOCAL, 0, NAN, 0, false},
    [AW__TENANTS_SIMPPO] = {"SIMPPO", false, true, AW_SIMPPO_AUX, 0.25, NAN, 0, false},
    [AW__TENANTS_SIMPPO_TEAM] = {"SIMPPO, team reward", false, true, AW_SIMPPO_AUX, 1, NAN, 0,
                                 false},
    [AW__TENANTS_UNSHARED] = {"SIMPPO, no sharing", false, false, AW_SIMPPO_AUX, 0.25, NAN, 0,
                              false},
    [AW__TENANTS_ALL] = {"SIMPPO-All", false, true, AW_SIMPPO_ALL, 0.25, NAN, 0, false},
    [AW__TENANTS_CPQ] = {"CPQ-RL, 1 s a turn", false, false, AW_SIMPPO_LOCAL, 0, -0.03, 1, false},
    [AW__TENANTS_MAPPO] = {"MAPPO, all states", false, true, AW_SIMPPO_STATES, 0.25, NAN, 0, false},
    [AW__TENANTS_DIFFERENCE] = {"SIMPPO, difference rewards", false, true, AW_SIMPPO_AUX, 0, NAN, 0,
                                true},
    [AW__TENANTS_DIFFERENCE_LOCAL] = {"IPPO-PS, difference rewards", false, true, AW_SIMPPO_LOCAL,
                                      0, NAN, 0, true},
};

enum aw_err aw__tenants_begin(struct aw__tenants_stage *stage,
                              const struct aw__tenants_variant *variant, uint32_t agents,
                              uint32_t most, double offered, uint64_t seed,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_multi_settings world;
    struct aw_team_settings team;
    struct aw_simppo_settings learner;
    memset(stage, 0, sizeof *stage);
    aw_conf_defaults(aw_multi_fields, &world);
    world.agents = agents;
    world.agents_max = most;
    world.offered = offered > 0 ? offered : world.offered;
    aw_team_settings_init(&team, false);
    team.team_weight = variant->team_weight;
    team.difference = variant->difference;
    aw_simppo_settings_init(&learner, false);
    learner.critic = variant->critic;
    learner.shared = variant->shared;
    learner.turns = variant->turn_s > 0 ? (uint32_t)(world.step_s / variant->turn_s) : 0;
    enum aw_err err = aw_multi_init(&stage->world, &world, alloc, diag);
    err = err ? err : aw_team_init(&stage->team, &stage->world, &team, alloc);
    err = err ? err : aw_simppo_new(&learner, &stage->team, seed, alloc, &stage->agents, diag);
    err = err ? err
              : aw_serve_init(&stage->serve, stage->world.settings.agents_max,
                              AW__TENANTS_SERVED * AW__TENANTS_STEPS, alloc);
    return err ? aw_fail(diag, err, "no memory for %u functions", agents) : AW_OK;
}

void aw__tenants_end(struct aw__tenants_stage *stage)
{
    aw_serve_deinit(&stage->serve);
    aw_simppo_free(stage->agents);
    aw_team_deinit(&stage->team);
    aw_multi_deinit(&stage->world);
}

void aw__tenants_learn(struct aw__tenants_stage *stage, bool alone, uint32_t episodes,
                       uint64_t seed, double *curve)
{
    const uint32_t worlds = alone ? stage->world.settings.agents : 1;
    for (uint32_t e = 0; e < episodes; e++) {
        double sum = 0;
        for (uint32_t a = 0; a < worlds; a++) {
            if (alone)
                aw_multi_reset_alone(&stage->world, AW__TENANTS_LEARNED * seed + e, a);
            else
                aw_multi_reset(&stage->world, AW__TENANTS_LEARNED * seed + e);
            aw_team_begin(&stage->team);
            sum += aw_simppo_episode(stage->agents, true);
        }
        if (curve)
            curve[e] = sum / worlds / AW__TENANTS_STEPS;
    }
}

static uint32_t episodes_of(const struct aw_experiment_config *config)
{
    return config->scale == AW_EXPERIMENT_FULL ? 400 : 200;
}

static uint32_t seeds_of(const struct aw_experiment_config *config)
{
    return config->seeds ? config->seeds : config->scale == AW_EXPERIMENT_FULL ? 10 : 3;
}

static bool told(const struct aw_experiment_config *config, const char *phase, uint32_t done,
                 uint32_t total)
{
    return !config->progress || config->progress(config->progress_ctx, phase, done, total);
}

/* --- training --------------------------------------------------------------------------------- */

#define CURVE_MAX 400u
#define BIN       20u

static double mean_of(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / n : NAN;
}

/* Episodes until the mean of ten is within 3 % of the end, and stays so for three tens. */
static double converged_at(const double *curve, uint32_t n)
{
    const double end = mean_of(curve + n - 40, 40);
    for (uint32_t at = 0; at + 30 <= n; at++) {
        bool near = true;
        for (uint32_t k = 0; k < 3; k++)
            near = near && mean_of(curve + at + 10 * k, 10) >= 0.97 * end;
        if (near)
            return at + 10;
    }
    return n;
}

enum aw_err aw__experiment_tenants_training(const struct aw_experiment_config *config,
                                            const struct aw_alloc *alloc,
                                            struct aw_study_report *report, struct aw_diag *diag)
{
    static const char *const columns[] = {"first 10",  "last 40",    "against alone",
                                          "published", "97 % after", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE, AW_UNIT_COUNT};
    const uint32_t episodes = episodes_of(config), seeds = seeds_of(config);
    const uint32_t table = aw_study_report_table(
        report, "Team reward of a step while learning (Fig. 4.3, 4.6, 4.9)", columns, units);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Learning curves",
                                               "episode", "team reward of a step");
    double alone = NAN;
    enum aw_err err = AW_OK;
    report->seeds = seeds;
    for (uint32_t v = 0; !err && v < AW__TENANTS_VARIANTS; v++) {
        const struct aw__tenants_variant *variant = &aw__tenants_variants[v];
        double curve[CURVE_MAX], all[CURVE_MAX] = {0}, first = 0, last = 0, after = 0;
        for (uint32_t s = 0; !err && s < seeds; s++) {
            struct aw__tenants_stage stage;
            if (!told(config, variant->name, v * seeds + s, AW__TENANTS_VARIANTS * seeds))
                return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
            err = aw__tenants_begin(&stage, variant, AGENTS, AGENTS, 0, config->seed + s, alloc,
                                    diag);
            if (!err)
                aw__tenants_learn(&stage, variant->alone, episodes, config->seed + s, curve);
            aw__tenants_end(&stage);
            for (uint32_t e = 0; !err && e < episodes; e++)
                all[e] += curve[e] / seeds;
            first += err ? 0 : mean_of(curve, 10) / seeds;
            last += err ? 0 : mean_of(curve + episodes - 40, 40) / seeds;
            after += err ? 0 : converged_at(curve, episodes) / seeds;
        }
        alone = v == AW__TENANTS_ALONE ? last : alone;
        const double row[] = {first, last, last / alone - 1, variant->paper_reward, after};
        err = err ? err : aw_study_report_row(report, table, row, "%s", variant->name);
        const uint32_t line = aw_study_report_series(report, plot, variant->name);
        for (uint32_t e = 0; !err && e + BIN <= episodes; e += BIN)
            err = aw_study_report_point(report, plot, line, e + BIN / 2.0, mean_of(all + e, BIN),
                                        NAN, NAN);
    }
    aw_study_report_note(report,
                         "12 functions on 4 nodes, offered load 55 %% of the cores, %u episodes of "
                         "50 steps, %u seeds; reward 0.7 SLO preservation + 0.3 CPU use.",
                         episodes, seeds);
    return err;
}

/* --- serving ---------------------------------------------------------------------------------- */

#define FRONT 12u /* factors of staffing: 0.5, 1, ... */

struct front {
    double cores[FRONT], missed[FRONT];
};

/* Missed at this number of cores, between two points of the front. */
static double front_at(const struct front *front, double cores)
{
    for (uint32_t i = 0; i + 1 < FRONT; i++)
        if (cores <= front->cores[i + 1]) {
            const double part =
                fmax(0, (cores - front->cores[i]) / (front->cores[i + 1] - front->cores[i]));
            return front->missed[i] + part * (front->missed[i + 1] - front->missed[i]);
        }
    return front->missed[FRONT - 1];
}

static void front_of(struct aw__tenants_stage *stage, uint32_t kind, uint64_t seed,
                     struct front *ret)
{
    for (uint32_t i = 0; i < FRONT; i++) {
        struct aw_serve_figures f;
        const struct aw_serve_actor actor = {
            .rule = {.kind = kind, .parameter = 0.5 * (i + 1), .shares = 1024, .threshold = 1.15}};
        aw_serve_episodes(&stage->serve, &stage->team, &actor, AW__TENANTS_SERVED,
                          AW__TENANTS_STEPS, seed, false);
        aw_serve_figures(&stage->serve, &f);
        ret->cores[i] = f.cores;
        ret->missed[i] = f.missed;
    }
}

/* The parameter with the highest reward on worlds that are not reported. */
static double tune(struct aw__tenants_stage *stage, uint32_t kind, uint64_t seed)
{
    double best = 0, most = -INFINITY;
    for (uint32_t i = 0; i < FRONT; i++) {
        struct aw_serve_figures f;
        const double parameter = kind <= AW_RULE_ENSURE ? 0.5 * (i + 1) : 0.08 * (i + 1);
        const struct aw_serve_actor actor = {
            .rule = {.kind = kind, .parameter = parameter, .shares = 1024, .threshold = 1.15}};
        aw_serve_episodes(&stage->serve, &stage->team, &actor, AW__TENANTS_SERVED,
                          AW__TENANTS_STEPS, seed, false);
        aw_serve_figures(&stage->serve, &f);
        best = f.reward > most ? parameter : best;
        most = fmax(most, f.reward);
    }
    return best;
}

/* A factor of staffing for every function, searched for together on the worlds that are reported:
 * what nobody can know beforehand. */
static void search_ceiling(struct aw__tenants_stage *stage, uint64_t seed, uint32_t tries,
                           float factor[AGENTS])
{
    struct aw_rng rng;
    double most = -INFINITY;
    float candidate[AGENTS];
    aw_rng_init(&rng, seed, 3);
    for (uint32_t i = 0; i < AGENTS; i++)
        factor[i] = 3;
    for (uint32_t k = 0; k < tries; k++) {
        struct aw_serve_figures f;
        memcpy(candidate, factor, sizeof candidate);
        for (uint32_t i = 0; k > 0 && i < AGENTS; i++)
            if (aw_rng_below(&rng, 3) == 0)
                candidate[i] = fmaxf(0, candidate[i] + (float)aw_rng_normal(&rng) *
                                                           (k < tries / 2 ? 1 : 0.4f));
        const struct aw_serve_actor actor = {
            .rule = {.kind = AW_RULE_STAFFING, .each = candidate, .shares = 1024}};
        aw_serve_episodes(&stage->serve, &stage->team, &actor, AW__TENANTS_SERVED,
                          AW__TENANTS_STEPS, seed, false);
        aw_serve_figures(&stage->serve, &f);
        if (f.reward > most) {
            most = f.reward;
            memcpy(factor, candidate, sizeof candidate);
        }
    }
}

#define SEEDS_MAX 64u
#define RESAMPLES 2000u
#define COLUMNS   9u
#define ROWS_MAX  (AW__TENANTS_VARIANTS + AW_RULES + 2)

/* One row: means over seeds, and what each seed came to beside staffing. */
struct tally {
    const char *name;
    double sum[COLUMNS];
    double better[2][SEEDS_MAX]; /* staffing's, ENSURE's missed at equal cores less its own */
};

static void add(struct tally *tally, struct aw__tenants_stage *stage, const double *alone_s,
                const struct front front[2], uint32_t seed, uint32_t seeds)
{
    struct aw_serve_figures f;
    double product = 0, worst = 0;
    aw_serve_figures(&stage->serve, &f);
    for (uint32_t i = 0; i < AGENTS; i++) {
        const double ratio = aw_serve_p99(&stage->serve, i) / alone_s[i];
        product += log(ratio);
        worst = fmax(worst, ratio);
    }
    for (uint32_t k = 0; k < 2; k++)
        tally->better[k][seed] = front_at(&front[k], f.cores) - f.missed;
    const double value[COLUMNS] = {f.missed,
                                   f.cores,
                                   f.reward,
                                   exp(product / AGENTS),
                                   worst,
                                   1 - f.worst,
                                   f.jain,
                                   tally->better[0][seed],
                                   tally->better[1][seed]};
    for (uint32_t c = 0; c < COLUMNS; c++)
        tally->sum[c] += value[c] / seeds;
}

static void serve_with(struct aw__tenants_stage *stage, const struct aw_serve_actor *actor,
                       uint64_t seed, bool alone)
{
    aw_serve_episodes(&stage->serve, &stage->team, actor, AW__TENANTS_SERVED, AW__TENANTS_STEPS,
                      AW__TENANTS_TOLD + 100 * seed, alone);
}

/* All of one seed. */
static enum aw_err serve_seed(const struct aw_experiment_config *config, uint32_t s, uint32_t seeds,
                              double offered, struct tally *tally, const struct aw_alloc *alloc,
                              struct aw_diag *diag)
{
    const uint64_t seed = config->seed + s;
    double alone_s[AGENTS];
    struct front front[2];
    enum aw_err err = AW_OK;
    for (uint32_t v = 0; !err && v < AW__TENANTS_VARIANTS; v++) {
        const struct aw__tenants_variant *variant = &aw__tenants_variants[v];
        struct aw__tenants_stage stage;
        err = aw__tenants_begin(&stage, variant, AGENTS, AGENTS, offered, seed, alloc, diag);
        if (err) {
            aw__tenants_end(&stage);
            break;
        }
        aw__tenants_learn(&stage, variant->alone, episodes_of(config), seed, NULL);
        const struct aw_serve_actor actor = {.simppo = stage.agents};
        if (v == AW__TENANTS_ALONE) { /* first: everything is measured against it */
            front_of(&stage, AW_RULE_STAFFING, AW__TENANTS_TOLD + 100 * seed, &front[0]);
            front_of(&stage, AW_RULE_ENSURE, AW__TENANTS_TOLD + 100 * seed, &front[1]);
            serve_with(&stage, &actor, seed, true);
            for (uint32_t i = 0; i < AGENTS; i++)
                alone_s[i] = aw_serve_p99(&stage.serve, i);
            add(&tally[v], &stage, alone_s, front, s, seeds);
            serve_with(&stage, &actor, seed, false);
            add(&tally[AW__TENANTS_VARIANTS], &stage, alone_s, front, s, seeds);
            for (uint32_t r = 0; r < AW_RULES; r++) {
                const struct aw_serve_actor rule = {
                    .rule = {.kind = r,
                             .parameter = tune(&stage, r, AW__TENANTS_CHOSEN + 100 * seed),
                             .shares = 1024,
                             .threshold = 1.15}};
                serve_with(&stage, &rule, seed, false);
                add(&tally[AW__TENANTS_VARIANTS + 1 + r], &stage, alone_s, front, s, seeds);
            }
            float factor[AGENTS];
            search_ceiling(&stage, AW__TENANTS_TOLD + 100 * seed,
                           config->scale == AW_EXPERIMENT_FULL ? 300 : 120, factor);
            const struct aw_serve_actor ceiling = {
                .rule = {.kind = AW_RULE_STAFFING, .each = factor, .shares = 1024}};
            serve_with(&stage, &ceiling, seed, false);
            add(&tally[ROWS_MAX - 1], &stage, alone_s, front, s, seeds);
        } else {
            serve_with(&stage, &actor, seed, false);
            add(&tally[v], &stage, alone_s, front, s, seeds);
        }
        aw__tenants_end(&stage);
    }
    return err;
}

static void name_rows(struct tally *tally)
{
    for (uint32_t v = 0; v < AW__TENANTS_VARIANTS; v++)
        tally[v].name = aw__tenants_variants[v].name;
    tally[AW__TENANTS_VARIANTS].name = "S-RL alone, served together";
    tally[AW__TENANTS_VARIANTS + 1].name = "staffing, c tuned";
    tally[AW__TENANTS_VARIANTS + 2].name = "ENSURE, c tuned";
    tally[AW__TENANTS_VARIANTS + 3].name = "KPA, target tuned";
    tally[AW__TENANTS_VARIANTS + 4].name = "HPA, target tuned";
    tally[ROWS_MAX - 1].name = "joint ceiling by search";
}

/* One learned variant beside rules and IPPO-PS at equal cores, over paired seeds. */
static void beside(struct aw_study_report *report, const struct tally *tally, uint32_t variant,
                   uint32_t seeds, double offered, struct aw_rng *rng)
{
    static const char *const against[] = {"staffing", "ENSURE"};
    double scratch[RESAMPLES + SEEDS_MAX], paired[SEEDS_MAX];
    const struct tally *row = &tally[variant];
    for (uint32_t k = 0; k < 2; k++) {
        struct aw_study_report_figure *figure =
            aw_study_report_figure(report, AW_UNIT_SHARE, row->sum[7 + k],
                                   "%s at %.0f %%: fewer steps missed than %s at equal cores",
                                   row->name, 100 * offered, against[k]);
        if (figure)
            figure->interval =
                aw_stats_bootstrap_mean(row->better[k], seeds, 0.95, RESAMPLES, rng, scratch);
    }
    for (uint32_t s = 0; s < seeds; s++)
        paired[s] = row->better[0][s] - tally[AW__TENANTS_IPPO].better[0][s];
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_SHARE, mean_of(paired, seeds),
        "%s at %.0f %%: fewer steps missed than IPPO-PS, both beside staffing", row->name,
        100 * offered);
    if (figure)
        figure->interval = aw_stats_bootstrap_mean(paired, seeds, 0.95, RESAMPLES, rng, scratch);
}

static void figures_of(struct aw_study_report *report, const struct tally *tally, uint32_t seeds,
                       double offered)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 9);
    beside(report, tally, AW__TENANTS_SIMPPO, seeds, offered, &rng);
    beside(report, tally, AW__TENANTS_DIFFERENCE, seeds, offered, &rng);
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_TIMES, tally[AW__TENANTS_VARIANTS].sum[3] / tally[AW__TENANTS_ALONE].sum[3],
        "S-RL alone -> together at %.0f %%: p99", 100 * offered);
    if (figure && offered > 0.5) {
        figure->goal = 2;
        figure->paper = 3.2; /* geometric middle of 2.2 and 4.8 */
    }
}

enum aw_err aw__experiment_tenants_serving(const struct aw_experiment_config *config,
                                           const struct aw_alloc *alloc,
                                           struct aw_study_report *report, struct aw_diag *diag)
{
    static const char *const columns[] = {
        "missed",       "cores", "reward",     "p99/alone", "worst",
        "worst missed", "Jain",  "staffing -", "ENSURE -",  NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SHARE, AW_UNIT_PLAIN, AW_UNIT_PLAIN,
                                                      AW_UNIT_TIMES, AW_UNIT_TIMES, AW_UNIT_SHARE,
                                                      AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_SHARE};
    static const double loads[] = {0.4, 0.55, 0.7};
    const uint32_t seeds = seeds_of(config) < SEEDS_MAX ? seeds_of(config) : SEEDS_MAX;
    const uint32_t count = sizeof loads / sizeof *loads;
    enum aw_err err = AW_OK;
    report->seeds = seeds;
    for (uint32_t l = 0; !err && l < count; l++) {
        struct tally *tally = aw_alloc_new(alloc, ROWS_MAX, sizeof *tally);
        char title[96];
        if (!tally)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for a table");
        name_rows(tally);
        for (uint32_t s = 0; !err && s < seeds; s++) {
            if (!told(config, "offered load", l * seeds + s, count * seeds))
                err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
            err = err ? err : serve_seed(config, s, seeds, loads[l], tally, alloc, diag);
        }
        snprintf(title, sizeof title, "Served at %.0f %% offered (Fig. 4.4, 4.7, 4.11)",
                 100 * loads[l]);
        const uint32_t table = aw_study_report_table(report, title, columns, units);
        for (uint32_t r = 0; !err && r < ROWS_MAX; r++)
            err = aw_study_report_row(report, table, tally[r].sum, "%s", tally[r].name);
        if (!err)
            figures_of(report, tally, seeds, loads[l]);
        aw_alloc_free(alloc, tally);
    }
    aw_study_report_note(
        report, "Last two columns: steps that the rule misses at the same number of cores (its "
                "front on the reported worlds, interpolated) less the row's own; above 0 the row "
                "is better. Learned policies are sampled. Rules are tuned on other worlds; the "
                "ceiling is searched for on the reported ones.");
    return err;
}
