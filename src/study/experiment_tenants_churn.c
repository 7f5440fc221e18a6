/*
 * experiment_tenants_churn.c - functions come and go (SIMPPO Table 4.4), and policies that learned
 * with few functions serve a thousand (section 4.8.4).
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "study/experiment_tenants.h"

#define EPISODES_MAX 40u /* of learning again */
#define TOLD         6u  /* worlds that a drop is measured in */

static uint32_t seeds_of(const struct aw_experiment_config *config)
{
    return config->seeds ? config->seeds : config->scale == AW_EXPERIMENT_FULL ? 5 : 2;
}

static bool told(const struct aw_experiment_config *config, const char *phase, uint32_t done,
                 uint32_t total)
{
    return !config->progress || config->progress(config->progress_ctx, phase, done, total);
}

/* A world with `change` functions more or less than it was made for; who they are hangs on the
 * seed. */
static void reset_changed(struct aw__tenants_stage *stage, uint64_t seed, int change)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 5);
    aw_multi_reset(&stage->world, seed);
    for (int k = 0; k < change; k++)
        (void)aw_multi_add(&stage->world, aw_rng_below(&rng, AW_MULTI_FUNCTIONS), true);
    for (int k = 0; k < -change; k++) {
        uint32_t agent = aw_rng_below(&rng, stage->world.count);
        while (!stage->world.here[agent])
            agent = (agent + 1) % stage->world.count;
        aw_multi_remove(&stage->world, agent, true);
    }
    aw_team_begin(&stage->team);
}

/* Mean own reward of a step: of all, of those that were there before, of newcomers. */
struct rewards {
    double all, incumbents, newcomers;
};

static struct rewards serve(struct aw__tenants_stage *stage, uint64_t seed, int change)
{
    const struct aw_serve_actor actor = {.simppo = stage->agents};
    const uint32_t before = stage->world.settings.agents;
    struct rewards sum = {0};
    uint32_t n[3] = {0};
    for (uint32_t k = 0; k < TOLD; k++) {
        reset_changed(stage, AW__TENANTS_TOLD + 100 * seed + k, change);
        aw_serve_begin(&stage->serve);
        aw_serve_run(&stage->serve, &stage->team, &actor, AW__TENANTS_STEPS, AW_MULTI_NOWHERE);
        for (uint32_t i = 0; i < stage->world.count; i++) {
            if (!stage->world.here[i])
                continue;
            const double reward = stage->serve.reward[i] / AW__TENANTS_STEPS;
            sum.all += reward;
            n[0]++;
            *(i < before ? &sum.incumbents : &sum.newcomers) += reward;
            n[i < before ? 1 : 2]++;
        }
    }
    return (struct rewards){sum.all / n[0], n[1] ? sum.incumbents / n[1] : NAN,
                            n[2] ? sum.newcomers / n[2] : NAN};
}

/* Episodes of learning until the reward changes by less than 2 % from ten to ten. */
static double retrain(struct aw__tenants_stage *stage, uint64_t seed, int change)
{
    double ten = 0, last = NAN;
    for (uint32_t e = 0; e < EPISODES_MAX; e++) {
        reset_changed(stage, AW__TENANTS_LEARNED * seed + 7777 + e, change);
        ten += aw_simppo_episode(stage->agents, true) / 10;
        if (e % 10 != 9)
            continue;
        if (fabs(ten / last - 1) < 0.02)
            return e + 1 - 10; /* it was there at the beginning of these ten */
        last = ten;
        ten = 0;
    }
    return EPISODES_MAX;
}

enum aw_err aw__experiment_tenants_churn(const struct aw_experiment_config *config,
                                         const struct aw_alloc *alloc,
                                         struct aw_study_report *report, struct aw_diag *diag)
{
    static const char *const columns[] = {"drop",     "incumbents", "newcomers", "published",
                                          "episodes", "published",  NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SHARE, AW_UNIT_SHARE, AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE, AW_UNIT_COUNT, AW_UNIT_COUNT};
    static const struct {
        uint32_t from;
        int change;
        double drop, episodes; /* published */
        double goal;           /* of the drop; NAN: none */
    } rows[] = {
        {5, 2, 0.179, 289, NAN},     {5, 5, 0.202, 370, NAN},      {5, -2, 0.091, 130, NAN},
        {20, 2, 0.133, 234, NAN},    {20, 5, 0.166, 326, 0.06},    {20, 10, 0.427, 455, NAN},
        {20, -5, 0.103, 191, NAN},   {20, -10, 0.162, 309, NAN},   {50, 5, 0.128, 243, NAN},
        {50, 10, 0.242, 290, NAN},   {50, -10, 0.110, 249, NAN},   {110, 5, 0.077, 186, NAN},
        {110, 10, 0.149, 196, 0.04}, {110, -10, 0.065, 132, 0.02},
    };
    const uint32_t count = sizeof rows / sizeof *rows, seeds = seeds_of(config);
    const uint32_t episodes = config->scale == AW_EXPERIMENT_FULL ? 300 : 150;
    const uint32_t table = aw_study_report_table(
        report, "Functions come and go; the capacity with them (Table 4.4)", columns, units);
    double drop[16] = {0}, old[16] = {0}, fresh[16] = {0}, again[16] = {0};
    enum aw_err err = AW_OK;
    report->seeds = seeds;
    for (uint32_t s = 0; !err && s < seeds; s++)
        for (uint32_t r = 0; !err && r < count;) {
            const uint32_t from = rows[r].from;
            const uint64_t seed = config->seed + s;
            struct aw__tenants_stage stage;
            if (!told(config, "functions", s * count + r, seeds * count))
                return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
            err = aw__tenants_begin(&stage, &aw__tenants_variants[AW__TENANTS_SIMPPO], from,
                                    from + 10, 0, seed, alloc, diag);
            if (!err)
                aw__tenants_learn(&stage, false, episodes, seed, NULL);
            for (; !err && r < count && rows[r].from == from; r++) {
                const struct rewards before = serve(&stage, seed, 0),
                                     after = serve(&stage, seed, rows[r].change);
                drop[r] += (1 - after.all / before.all) / seeds;
                old[r] += (1 - after.incumbents / before.all) / seeds;
                fresh[r] += (1 - after.newcomers / before.all) / seeds;
                again[r] += retrain(&stage, seed, rows[r].change) / seeds;
            }
            aw__tenants_end(&stage);
        }
    for (uint32_t r = 0; !err && r < count; r++) {
        const double row[] = {drop[r], old[r], fresh[r], rows[r].drop, again[r], rows[r].episodes};
        err = aw_study_report_row(report, table, row, "%u %+d", rows[r].from, rows[r].change);
        if (isnan(rows[r].goal))
            continue;
        struct aw_study_report_figure *figure =
            aw_study_report_figure(report, AW_UNIT_SHARE, drop[r], "%+d at %u: drop of the reward",
                                   rows[r].change, rows[r].from);
        if (figure) {
            figure->paper = rows[r].drop;
            figure->goal = rows[r].goal;
            figure->lower = true;
        }
    }
    aw_study_report_note(report,
                         "A drop below 0 is a gain. Newcomers act by the network of their category "
                         "from their first step; drops are of the first episodes, without "
                         "learning. Episodes: until the reward changes by less than 2 %% from ten "
                         "to ten, at most %u.",
                         EPISODES_MAX);
    return err;
}

/* --- scale ------------------------------------------------------------------------------------ */

#define SIZES    4u
#define SEEDED   64u /* seeds at most */
#define SCHOOLED 24u /* functions that are learned with */
static const uint32_t scale_sizes[SIZES] = {12, SCHOOLED, 110, 1000};
/* Times AW__TENANTS_SERVED worlds: a small cluster is busy or idle as a whole, so that as many
 * functions take many more worlds to tell one point from another. */
static const uint32_t scale_batches[SIZES] = {21, 20, 5, 2};

enum { MISSED, CORES, REWARD, WORST, JAIN, DECISION_US, RULE_MISSED, RULE_WORST, SCALE_COLUMNS };

static double decision_us(struct aw__tenants_stage *stage, uint32_t agents)
{
    const uint32_t times = 20;
    const double from = aw_clock_thread_cpu_s();
    for (uint32_t i = 0; i < times; i++) {
        aw_team_observe(&stage->team);
        aw_simppo_act(stage->agents, false, stage->serve.action);
    }
    return 1e6 * (aw_clock_thread_cpu_s() - from) / times / agents;
}

/* The same worlds under the agents and under a rule: what of it is the world's, and not the
 * policy's. Adds to `sum` [SCALE_COLUMNS] and sets the two that differences are taken of. */
static void serve_size(struct aw__tenants_stage *stage, uint32_t size, uint64_t seed, double *sum,
                       double *ret_missed, double *ret_rule_missed)
{
    const struct aw_serve_actor agents = {.simppo = stage->agents};
    const struct aw_serve_actor staffing = {
        .rule = {.kind = AW_RULE_STAFFING, .parameter = 4, .shares = 1024}};
    const uint32_t batches = scale_batches[size];
    *ret_missed = *ret_rule_missed = 0;
    for (uint32_t b = 0; b < batches; b++) {
        const uint64_t worlds = AW__TENANTS_TOLD + 1000 * seed + b * AW__TENANTS_SERVED;
        struct aw_serve_figures f, rule;
        aw_serve_episodes(&stage->serve, &stage->team, &agents, AW__TENANTS_SERVED,
                          AW__TENANTS_STEPS, worlds, false);
        aw_serve_figures(&stage->serve, &f);
        const double us = decision_us(stage, scale_sizes[size]);
        aw_serve_episodes(&stage->serve, &stage->team, &staffing, AW__TENANTS_SERVED,
                          AW__TENANTS_STEPS, worlds, false);
        aw_serve_figures(&stage->serve, &rule);
        const double row[SCALE_COLUMNS] = {f.missed, f.cores, f.reward,    1 - f.worst,
                                           f.jain,   us,      rule.missed, 1 - rule.worst};
        for (uint32_t c = 0; c < SCALE_COLUMNS; c++)
            sum[c] += row[c] / batches;
        *ret_missed += f.missed / batches;
        *ret_rule_missed += rule.missed / batches;
    }
}

enum aw_err aw__experiment_tenants_scale(const struct aw_experiment_config *config,
                                         const struct aw_alloc *alloc,
                                         struct aw_study_report *report, struct aw_diag *diag)
{
    static const char *const columns[] = {"missed",          "cores",          "reward",
                                          "worst missed",    "Jain",           "us a decision",
                                          "staffing missed", "staffing worst", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SHARE, AW_UNIT_PLAIN, AW_UNIT_PLAIN,
                                                      AW_UNIT_SHARE, AW_UNIT_PLAIN, AW_UNIT_PLAIN,
                                                      AW_UNIT_SHARE, AW_UNIT_SHARE};
    const uint32_t seeds = seeds_of(config) < SEEDED ? seeds_of(config) : SEEDED;
    const uint32_t table = aw_study_report_table(
        report, "Learned with 24 functions, served without learning (Fig. 4.13, 4.14)", columns,
        units);
    const struct aw__tenants_variant *variant = &aw__tenants_variants[AW__TENANTS_SIMPPO];
    double sum[SIZES][SCALE_COLUMNS] = {{0}}, more[SEEDED], rule_more[SEEDED];
    enum aw_err err = AW_OK;
    report->seeds = seeds;
    for (uint32_t s = 0; !err && s < seeds; s++) {
        struct aw__tenants_stage school;
        double missed[SIZES], rule_missed[SIZES];
        const uint64_t seed = config->seed + s;
        if (!told(config, "seed", s, seeds))
            return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
        err = aw__tenants_begin(&school, variant, SCHOOLED, SCHOOLED, 0, seed, alloc, diag);
        if (!err)
            aw__tenants_learn(&school, false, config->scale == AW_EXPERIMENT_FULL ? 300 : 150, seed,
                              NULL);
        for (uint32_t k = 0; !err && k < SIZES; k++) {
            struct aw__tenants_stage stage;
            err = aw__tenants_begin(&stage, variant, scale_sizes[k], scale_sizes[k], 0, seed, alloc,
                                    diag);
            if (!err) {
                aw_simppo_adopt(stage.agents, school.agents);
                serve_size(&stage, k, seed, sum[k], &missed[k], &rule_missed[k]);
            }
            aw__tenants_end(&stage);
        }
        aw__tenants_end(&school);
        more[s] = err ? 0 : missed[3] - missed[1];
        rule_more[s] = err ? 0 : rule_missed[3] - rule_missed[1];
    }
    for (uint32_t k = 0; !err && k < SIZES; k++) {
        for (uint32_t c = 0; c < SCALE_COLUMNS; c++)
            sum[k][c] /= seeds;
        err = aw_study_report_row(report, table, sum[k], "%u functions", scale_sizes[k]);
    }
    if (err)
        return err;
    struct aw_study_report_figure *figure = aw__figure_mean(
        report, AW_UNIT_SHARE, more, seeds, NAN, "1000 functions: steps missed more than with 24");
    if (figure) {
        figure->goal = 0.01;
        figure->lower = true;
    }
    (void)aw__figure_mean(report, AW_UNIT_SHARE, rule_more, seeds, NAN,
                          "the same of square-root staffing, which learns nothing");
    return AW_OK;
}
