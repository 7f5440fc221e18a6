/*
 * experiment_mitigation.c - how long until a violation is mended (FIRM, Fig. 3.6), and what a few
 * minutes of anomalies come to (Fig. 3.7): FIRM's rule and agent beside HPA, AIMD and Captain.
 *
 * Everything is learned and tuned on train-ticket; the other applications are reported on. AIMD is
 * there twice: with the settings that miss least, whatever they cost, and frugal: with those that
 * miss least among those that take no more CPU than the rule, or, where none does, take least.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "firm/learn.h"
#include "study/experiment_graph.h"

#define SEEDS_MOST  10u
#define CURVE       40u /* points of a learning curve */
#define TUNED_MOST  16u
#define CHECKS      5u /* mitigation along the way of learning */
#define TUNING_SEED 9000u
#define NEVER_S     1e9
#define LENT        3.0 /* times the first limits, of what nobody uses; node pools have four */

enum who { RULE, AGENT, LENDS, HPA, AIMD, AIMD_FRUGAL, CAPTAIN, WHO };
static const char *const who_names[WHO] = {"firm, rule", "firm, agent",  "firm, lends", "hpa",
                                           "aimd",       "aimd, frugal", "captain"};
static const enum aw_firm_kind who_kind[WHO] = {AW_FIRM_RULE,   AW_FIRM_AGENT, AW_FIRM_RULE,
                                                AW_FIRM_HPA,    AW_FIRM_AIMD,  AW_FIRM_AIMD,
                                                AW_FIRM_CAPTAIN};

struct result {
    double seconds, seconds_limits; /* mean; of kinds that a limit mends */
    double kind_s[AW_ANOMALY_KINDS], kind_n[AW_ANOMALY_KINDS];
    double missed, dropped, cores, cores_at_start, p50, p99;
};

struct study {
    const struct aw_experiment_config *config;
    const struct aw__graphs *graphs;
    const struct aw_alloc *alloc;
    struct aw_classifier classifier;
    bool in_turn; /* one anomaly after another; else as they come */
    uint32_t seeds, episodes, anomalies;
    double for_s;
    char agent[SEEDS_MOST][AW_EXPERIMENT_PATH_MAX];
    double curve[SEEDS_MOST][3][CURVE]; /* one for all, one for each, transferred */
    double check_s[SEEDS_MOST][CHECKS];
    struct aw_firm_settings tuning[TUNED_MOST * 3];
    enum who tuning_who[TUNED_MOST * 3];
    struct result tuned[TUNED_MOST * 3];
    uint32_t tuning_count;
    struct aw_firm_settings settings[WHO];
    struct result result[SEEDS_MOST][AW__GRAPHS][WHO];
    double cdf[WHO][101]; /* latency / SLO at 0 to 100 % of requests, mean over runs */
};

static void campaign_make(const struct study *study, uint32_t graph, uint64_t seed,
                          struct aw_campaign *ret)
{
    const struct aw_graph_app *app = &study->graphs->app[graph];
    if (study->in_turn) {
        aw_firm_campaign_in_turn(app, &study->graphs->calibration[graph], seed, study->anomalies,
                                 study->for_s, 30, ret);
        return;
    }
    memset(ret, 0, sizeof *ret); /* thesis, 3.3.1: intervals exponential, 0.33 a second */
    ret->seed = seed;
    ret->duration_ns = (int64_t)(1e9 * study->for_s);
    ret->rate = 0.33;
    ret->high = 1;
    ret->for_ns = 10 * AW_GRAPH_S_NS;
    aw_campaign_draw(ret, app, &study->graphs->calibration[graph]);
}

static void sum_up(const struct aw_firm_outcome *outcome, const struct aw_campaign *campaign,
                   struct result *ret)
{
    double limits = 0, limits_n = 0;
    *ret = (struct result){.seconds = outcome->seconds_mean,
                           .missed = (double)outcome->missed / outcome->requests,
                           .dropped = (double)outcome->dropped / outcome->requests,
                           .cores = outcome->cores,
                           .cores_at_start = outcome->cores_at_start};
    for (uint32_t i = 0; i < outcome->mitigation_count; i++) {
        const enum aw_anomaly_kind kind = campaign->anomaly[outcome->mitigation[i].anomaly].kind;
        ret->kind_s[kind] += outcome->mitigation[i].seconds;
        ret->kind_n[kind]++;
        if (kind != AW_ANOMALY_DELAY) {
            limits += outcome->mitigation[i].seconds;
            limits_n++;
        }
    }
    ret->seconds_limits = limits_n > 0 ? limits / limits_n : (double)NAN;
}

static enum aw_err live(const struct study *study, uint32_t graph, uint64_t seed, enum who who,
                        const struct aw_firm_settings *settings, struct result *ret, double *cdf,
                        struct aw_diag *diag)
{
    const bool ours = who <= LENDS;
    struct aw_firm_trial_config config = {.seed = seed,
                                          .kind = who_kind[who],
                                          .settings = *settings,
                                          .traced = ours ? 0.5 : 0,
                                          .span_loss = 0.01,
                                          .skew_us = 2000,
                                          .warm_ns = 20 * AW_GRAPH_S_NS};
    struct aw_campaign *campaign = aw_alloc_new(study->alloc, 1, sizeof *campaign);
    struct aw_firm_outcome *outcome = aw_alloc_new(study->alloc, 1, sizeof *outcome);
    enum aw_err err = campaign && outcome ? AW_OK : AW_ERR_NOMEM;
    if (!err) {
        campaign_make(study, graph, seed, campaign);
        err =
            aw_firm_trial(&study->graphs->app[graph], &study->graphs->calibration[graph], campaign,
                          &study->classifier, &config, NULL, NULL, study->alloc, outcome);
    }
    if (!err) {
        sum_up(outcome, campaign, ret);
        aw_stats_sort(outcome->latency_of_slo, outcome->latency_count);
        ret->p50 = aw_stats_quantile(outcome->latency_of_slo, outcome->latency_count, 0.5);
        ret->p99 = aw_stats_quantile(outcome->latency_of_slo, outcome->latency_count, 0.99);
        for (uint32_t i = 0; cdf && i <= 100; i++)
            cdf[i] = aw_stats_quantile(outcome->latency_of_slo, outcome->latency_count, i / 100.0);
    }
    aw_alloc_free(study->alloc, campaign);
    aw_alloc_free(study->alloc, outcome);
    return err ? aw_fail(diag, err, "%s on %s failed", who_names[who],
                         study->graphs->app[graph].name)
               : AW_OK;
}

/* ---- learning ---- */

struct curve {
    double *point;
    uint32_t episodes;
};

static bool curve_take(void *ctx, uint32_t number, double reward)
{
    struct curve *curve = ctx;
    const uint32_t per = curve->episodes / CURVE ? curve->episodes / CURVE : 1;
    if (number / per < CURVE)
        curve->point[number / per] += reward / per;
    return true;
}

static enum aw_err teach(const struct study *study, uint32_t seed, uint32_t episodes, uint32_t only,
                         struct aw_agent *agent, double *point)
{
    struct curve curve = {point, episodes};
    return aw_firm_teach(&study->graphs->app[AW__GRAPH_SEEN],
                         &study->graphs->calibration[AW__GRAPH_SEEN],
                         &(struct aw_firm_learn){.seed = study->config->seed * 100 + seed,
                                                 .episodes = episodes,
                                                 .only = only,
                                                 .episode = point ? curve_take : NULL,
                                                 .ctx = &curve},
                         agent, study->alloc);
}

/* How long a checkpoint takes to mend, on the application that it is learned on. */
static enum aw_err check(const struct study *study, uint32_t seed, const struct aw_agent *agent,
                         double *ret, struct aw_diag *diag)
{
    struct study quick = *study;
    struct result result;
    quick.in_turn = true;
    quick.anomalies = AW_ANOMALY_KINDS;
    quick.for_s = 30;
    const enum aw_err err = live(&quick, AW__GRAPH_SEEN, TUNING_SEED + 7 + seed, AGENT,
                                 &(struct aw_firm_settings){.agent = agent}, &result, NULL, diag);
    *ret = result.seconds;
    return err;
}

static enum aw_err learn_turn(void *ctx, uint32_t seed, struct aw_diag *diag)
{
    struct study *study = ctx;
    struct aw_agent agent = {0}, each = {0};
    const uint32_t only = aw_graph_service_find(&study->graphs->app[AW__GRAPH_SEEN], "travel");
    double *points = study->curve[seed][0];
    enum aw_err err =
        aw_firm_agent_new("ddpg", study->config->paper, seed + 1, study->alloc, &agent, diag);
    for (uint32_t i = 0; i < CHECKS && !err; i++) { /* by eighths of the way, doubling */
        double part[CURVE] = {0};
        const uint32_t from = i ? study->episodes >> (CHECKS - i) : 0;
        const uint32_t until =
            i + 1 < CHECKS ? study->episodes >> (CHECKS - 1 - i) : study->episodes;
        const uint32_t first = from * CURVE / study->episodes,
                       last = until * CURVE / study->episodes;
        err = teach(study, seed * 10 + i, until - from, AW_GRAPH_NONE, &agent, part);
        for (uint32_t k = first; k < last; k++)
            points[k] = part[(k - first) * CURVE / (last - first)];
        if (!err && study->in_turn)
            err = check(study, seed, &agent, &study->check_s[seed][i], diag);
    }
    if (!err) {
        snprintf(study->agent[seed], sizeof study->agent[seed], "%.480s/agent-%u",
                 study->config->work, seed + 1);
        err = aw_file_mkdirs(study->agent[seed], diag);
    }
    if (!err)
        err = agent.ops->save(agent.self, study->agent[seed], false, diag);
    if (!err && study->in_turn) {
        err =
            aw_firm_agent_new("ddpg", study->config->paper, seed + 100, study->alloc, &each, diag);
        if (!err)
            err = teach(study, seed + 200, study->episodes, only, &each, study->curve[seed][1]);
        if (!err)
            err = teach(study, seed + 300, study->episodes, only, &agent, study->curve[seed][2]);
    }
    aw_agent_free(&agent);
    aw_agent_free(&each);
    return err;
}

/* ---- tuning ---- */

static void tuning_list(struct study *study)
{
    static const double hpa[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8};
    static const double add[] = {0.05, 0.2, 0.5, 2}, cut[] = {0.002, 0.01, 0.03};
    static const double captain[] = {0.02, 0.05, 0.1, 0.2};
    uint32_t n = 0;
    study->tuning_who[n++] = RULE; /* whose CPU the frugal one may take */
    for (size_t i = 0; i < sizeof hpa / sizeof *hpa; i++) {
        study->tuning_who[n] = HPA;
        study->tuning[n++].hpa_target = hpa[i];
    }
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 3; k++) {
            study->tuning_who[n] = AIMD;
            study->tuning[n].aimd_add = add[i];
            study->tuning[n++].aimd_cut = cut[k];
        }
    }
    for (size_t i = 0; i < sizeof captain / sizeof *captain; i++) {
        study->tuning_who[n] = CAPTAIN;
        study->tuning[n++].captain_target = captain[i];
    }
    study->tuning_count = n;
}

static enum aw_err tune_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct study *study = ctx;
    return live(study, AW__GRAPH_SEEN, TUNING_SEED, study->tuning_who[turn], &study->tuning[turn],
                &study->tuned[turn], NULL, diag);
}

static void choose(struct study *study, struct aw_study_report *report)
{
    for (uint32_t who = HPA; who < WHO; who++) {
        double best = NEVER_S, least = NEVER_S;
        for (uint32_t i = 0; i < study->tuning_count; i++) {
            const enum who its = who == AIMD_FRUGAL ? AIMD : (enum who)who;
            if (study->tuning_who[i] != its)
                continue;
            const bool affordable = study->tuned[i].cores <= 1.05 * study->tuned[0].cores;
            /* where none is frugal enough, the most frugal */
            const double value = who != AIMD_FRUGAL || affordable ? study->tuned[i].missed
                                                                  : 1000 + study->tuned[i].cores;
            least = fmin(least, value);
            if (value < best) {
                best = value;
                study->settings[who] = study->tuning[i];
            }
        }
    }
    aw_study_report_note(
        report,
        "Tuned on train-ticket by misses: HPA at %.0f %% CPU; AIMD +%.0f %% of the "
        "first limit while missed, -%.1f %% while held, every half second; frugal "
        "AIMD, which takes no more CPU than the rule or else as little as it can, "
        "+%.0f %%, -%.1f %%; Captain throttled "
        "%.0f %%.",
        100 * study->settings[HPA].hpa_target, 100 * study->settings[AIMD].aimd_add,
        100 * study->settings[AIMD].aimd_cut, 100 * study->settings[AIMD_FRUGAL].aimd_add,
        100 * study->settings[AIMD_FRUGAL].aimd_cut, 100 * study->settings[CAPTAIN].captain_target);
}

/* ---- comparing ---- */

static enum aw_err compare_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct study *study = ctx;
    const enum who who = (enum who)(turn % WHO);
    const uint32_t graph = turn / WHO % AW__GRAPHS, seed = turn / WHO / AW__GRAPHS;
    struct aw_firm_settings settings = study->settings[who];
    struct aw_agent agent = {0};
    double cdf[101] = {0};
    enum aw_err err = AW_OK;
    if (who == AGENT) {
        err = aw_firm_agent_new("ddpg", study->config->paper, 1, study->alloc, &agent, diag);
        if (!err)
            err = agent.ops->load(agent.self, study->agent[seed], false, diag);
        settings.agent = &agent;
    }
    if (!err)
        err = live(study, graph, study->config->seed * 1000 + seed, who, &settings,
                   &study->result[seed][graph][who], cdf, diag);
    if (!err && graph != AW__GRAPH_SEEN && seed == 0 && graph == 1)
        memcpy(study->cdf[who], cdf, sizeof cdf);
    aw_agent_free(&agent);
    return err;
}

/* A figure of all that were not learned from, [seeds][apps]. */
static void unseen(const struct study *study, enum who who, size_t member, double *ret)
{
    for (uint32_t s = 0; s < study->seeds; s++)
        for (uint32_t g = 1; g < AW__GRAPHS; g++)
            ret[s * (AW__GRAPHS - 1) + g - 1] =
                *(const double *)((const char *)&study->result[s][g][who] + member);
}

static void ratio(const struct study *study, struct aw_study_report *report, enum who worse,
                  enum who better, size_t member, double paper, double goal, bool lower,
                  const char *name)
{
    double a[SEEDS_MOST * AW__GRAPHS], b[SEEDS_MOST * AW__GRAPHS];
    const uint32_t n = study->seeds * (AW__GRAPHS - 1);
    unseen(study, worse, member, a);
    unseen(study, better, member, b);
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_TIMES, aw_stats_mean(a, n) / aw_stats_mean(b, n), "%s", name);
    if (figure) {
        figure->interval = aw__resampled_ratio(study->seeds, AW__GRAPHS - 1, a, b);
        figure->paper = paper;
        figure->goal = goal;
        figure->lower = lower;
    }
}

static void mean(const struct study *study, struct aw_study_report *report, enum who who,
                 enum aw_study_report_unit unit, size_t member, double paper, double goal,
                 const char *name)
{
    double x[SEEDS_MOST * AW__GRAPHS];
    unseen(study, who, member, x);
    aw__graph_figure(report, unit, x, study->seeds, AW__GRAPHS - 1, paper, goal, true, name);
}

static enum aw_err table_all(const struct study *study, struct aw_study_report *report)
{
    static const char *const columns[] = {"to mend",   "without delays", "missed", "dropped",
                                          "CPU limit", "p99 of SLO",     NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SECONDS, AW_UNIT_SECONDS,
                                                      AW_UNIT_SHARE,   AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE,   AW_UNIT_TIMES};
    enum aw_err err = AW_OK;
    for (uint32_t g = 0; g < AW__GRAPHS && !err; g++) {
        char title[96];
        snprintf(title, sizeof title, "%s%s; CPU limit of what it began with",
                 study->graphs->app[g].name, g == AW__GRAPH_SEEN ? " (learned and tuned on)" : "");
        const uint32_t table = aw_study_report_table(report, title, columns, units);
        for (uint32_t who = 0; who < WHO && !err; who++) {
            double sum[6] = {0};
            for (uint32_t s = 0; s < study->seeds; s++) {
                const struct result *result = &study->result[s][g][who];
                const double values[6] = {result->seconds,
                                          result->seconds_limits,
                                          result->missed,
                                          result->dropped,
                                          result->cores / result->cores_at_start,
                                          result->p99};
                for (uint32_t i = 0; i < 6; i++)
                    sum[i] += values[i] / study->seeds;
            }
            err = aw_study_report_row(report, table, sum, "%s", who_names[who]);
        }
    }
    return err;
}

static enum aw_err table_kinds(const struct study *study, struct aw_study_report *report)
{
    const char *columns[WHO + 1] = {0};
    enum aw_study_report_unit units[WHO];
    for (uint32_t who = 0; who < WHO; who++) {
        columns[who] = who_names[who];
        units[who] = AW_UNIT_SECONDS;
    }
    const uint32_t table = aw_study_report_table(
        report, "Time to mend by kind, applications never seen", columns, units);
    enum aw_err err = AW_OK;
    for (uint32_t k = 0; k < AW_ANOMALY_KINDS && !err; k++) {
        double values[WHO];
        for (uint32_t who = 0; who < WHO; who++) {
            double sum = 0, n = 0;
            for (uint32_t s = 0; s < study->seeds; s++) {
                for (uint32_t g = 1; g < AW__GRAPHS; g++) {
                    sum += study->result[s][g][who].kind_s[k];
                    n += study->result[s][g][who].kind_n[k];
                }
            }
            values[who] = n > 0 ? sum / n : (double)NAN;
        }
        err = aw_study_report_row(report, table, values, "%s", aw_anomaly_kind_names[k]);
    }
    return err;
}

static enum aw_err plot_learning(const struct study *study, struct aw_study_report *report)
{
    static const char *const names[] = {"one for all", "one for each (travel)", "transferred"};
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_LINES,
                                               "Learning on train-ticket: mean reward of a step",
                                               "episodes", "reward");
    enum aw_err err = AW_OK;
    for (uint32_t m = 0; m < 3 && !err; m++) {
        const uint32_t series = aw_study_report_series(report, plot, names[m]);
        for (uint32_t i = 0; i < CURVE && !err; i++) {
            double x[SEEDS_MOST];
            for (uint32_t s = 0; s < study->seeds; s++)
                x[s] = study->curve[s][m][i];
            const double middle = aw_stats_mean(x, study->seeds);
            err = aw_study_report_point(report, plot, series, (i + 1.0) * study->episodes / CURVE,
                                        middle, aw_stats_min(x, study->seeds),
                                        aw_stats_max(x, study->seeds));
        }
    }
    const uint32_t mends =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES,
                             "Time to mend along the way, train-ticket", "episodes", "seconds");
    const uint32_t series = aw_study_report_series(report, mends, "one for all");
    for (uint32_t i = 0; i < CHECKS && !err; i++) {
        double x[SEEDS_MOST];
        for (uint32_t s = 0; s < study->seeds; s++)
            x[s] = study->check_s[s][i];
        err = aw_study_report_point(report, mends, series, study->episodes >> (CHECKS - 1 - i),
                                    aw_stats_mean(x, study->seeds), aw_stats_min(x, study->seeds),
                                    aw_stats_max(x, study->seeds));
    }
    return err;
}

static enum aw_err plot_cdf(const struct study *study, struct aw_study_report *report)
{
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Latency of requests in social-network",
                             "latency / SLO, at most 5", "share of requests");
    enum aw_err err = AW_OK;
    for (uint32_t who = 0; who < WHO && !err; who++) {
        const uint32_t series = aw_study_report_series(report, plot, who_names[who]);
        for (uint32_t i = 0; i <= 100 && !err; i++)
            err = aw_study_report_point(report, plot, series, fmin(5, study->cdf[who][i]),
                                        i / 100.0, (double)NAN, (double)NAN);
    }
    return err;
}

static void figures(const struct study *study, struct aw_study_report *report)
{
    const size_t seconds = offsetof(struct result, seconds),
                 limits = offsetof(struct result, seconds_limits),
                 missed = offsetof(struct result, missed), cores = offsetof(struct result, cores),
                 dropped = offsetof(struct result, dropped);
    if (study->in_turn) {
        mean(study, report, AGENT, AW_UNIT_SECONDS, seconds, 1.7, 1.5, "time to mend, agent");
        mean(study, report, RULE, AW_UNIT_SECONDS, seconds, NAN, 1.5, "time to mend, rule");
        mean(study, report, LENDS, AW_UNIT_SECONDS, seconds, NAN, 1.5,
             "time to mend, rule that lends");
        ratio(study, report, AIMD, AGENT, seconds, 9, 10, false, "shorter than tuned AIMD");
        ratio(study, report, HPA, AGENT, seconds, 30, 30, false, "shorter than tuned HPA");
        ratio(study, report, AIMD_FRUGAL, AGENT, seconds, NAN, NAN, false,
              "shorter than frugal AIMD");
        ratio(study, report, CAPTAIN, AGENT, seconds, NAN, NAN, false, "shorter than Captain");
        ratio(study, report, AIMD, AGENT, limits, NAN, NAN, false,
              "shorter than tuned AIMD, where a limit mends");
        ratio(study, report, HPA, AGENT, limits, NAN, NAN, false,
              "shorter than tuned HPA, where a limit mends");
    }
    mean(study, report, AGENT, AW_UNIT_SHARE, missed, NAN, NAN, "requests over their SLO, agent");
    mean(study, report, RULE, AW_UNIT_SHARE, missed, NAN, NAN, "requests over their SLO, rule");
    ratio(study, report, AIMD, AGENT, missed, 9, 10, false, "fewer violations than tuned AIMD");
    ratio(study, report, HPA, AGENT, missed, 16, 16, false, "fewer violations than tuned HPA");
    mean(study, report, LENDS, AW_UNIT_SHARE, missed, NAN, NAN,
         "requests over their SLO, rule that lends");
    ratio(study, report, AIMD, LENDS, missed, 9, 10, false,
          "fewer violations than tuned AIMD, rule that lends");
    ratio(study, report, HPA, LENDS, missed, 16, 16, false,
          "fewer violations than tuned HPA, rule that lends");
    ratio(study, report, LENDS, AIMD, cores, NAN, 1, true,
          "CPU limit, of tuned AIMD's, rule that lends");
    ratio(study, report, LENDS, HPA, cores, 0.71, 1, true,
          "CPU limit, of tuned HPA's, rule that lends");
    ratio(study, report, AIMD_FRUGAL, AGENT, missed, NAN, NAN, false,
          "fewer violations than frugal AIMD");
    ratio(study, report, CAPTAIN, AGENT, missed, NAN, NAN, false, "fewer violations than Captain");
    ratio(study, report, AGENT, AIMD, cores, NAN, 1, true, "CPU limit, of tuned AIMD's");
    ratio(study, report, AGENT, HPA, cores, 0.71, 1, true, "CPU limit, of tuned HPA's");
    ratio(study, report, HPA, AGENT, dropped, 8, NAN, false, "fewer dropped than tuned HPA");
}

static enum aw_err run(const struct aw_experiment_config *config, bool in_turn,
                       const struct aw_alloc *alloc, struct aw_study_report *report,
                       struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    struct aw__graphs *graphs = NULL;
    struct study *study = aw_alloc_new(alloc, 1, sizeof *study);
    if (!study)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    study->config = config;
    study->alloc = alloc;
    study->in_turn = in_turn;
    study->seeds = config->seeds ? config->seeds : full ? 5 : 1;
    study->seeds = study->seeds < SEEDS_MOST ? study->seeds : SEEDS_MOST;
    study->episodes = full ? 3200 : 800;
    study->anomalies = (full ? 2 : 1) * AW_ANOMALY_KINDS;
    study->for_s = in_turn ? full ? 120 : 60 : full ? 300 : 120;
    enum aw_err err = aw_firm_localizer(&study->classifier, diag);
    err = err ? err : aw__graphs_new(config, alloc, &graphs, diag);
    study->graphs = graphs;
    tuning_list(study);
    study->settings[LENDS].lent = LENT;
    if (!err)
        err = aw__turns(config, study->tuning_count, "tuning on train-ticket", tune_turn, study,
                        alloc, diag);
    if (!err)
        err = aw__turns(config, study->seeds, "learning on train-ticket", learn_turn, study, alloc,
                        diag);
    if (!err) {
        choose(study, report);
        err = aw__turns(config, study->seeds * AW__GRAPHS * WHO, "comparing", compare_turn, study,
                        alloc, diag);
    }
    if (!err) {
        report->apps = AW__GRAPHS - 1;
        report->seeds = study->seeds;
        figures(study, report);
        err = in_turn ? table_kinds(study, report) : AW_OK;
        err = err ? err : table_all(study, report);
        err = err ? err : in_turn ? plot_learning(study, report) : plot_cdf(study, report);
    }
    aw_alloc_free(alloc, graphs);
    aw_alloc_free(alloc, study);
    return err;
}

enum aw_err aw__experiment_mitigation(const struct aw_experiment_config *config,
                                      const struct aw_alloc *alloc, struct aw_study_report *report,
                                      struct aw_diag *diag)
{
    const enum aw_err err = run(config, true, alloc, report, diag);
    aw_study_report_note(
        report,
        "One anomaly after another, every kind as often, intensity uniform, 60 s each "
        "(full: 120 s), 30 s of rest. From the first half second in which more than 5 %% of "
        "the requests that arrived missed their SLO, to the first of two in which no more "
        "did. What nobody mends counts until the anomaly ends by itself.");
    aw_study_report_note(report, "A delay of the network is mended by no limit and by no number of "
                                 "replicas beside the slow one: FIRM replaces it, the others wait "
                                 "for its end. Rows without delays leave it out.");
    return err;
}

enum aw_err aw__experiment_firm(const struct aw_experiment_config *config,
                                const struct aw_alloc *alloc, struct aw_study_report *report,
                                struct aw_diag *diag)
{
    const enum aw_err err = run(config, false, alloc, report, diag);
    aw_study_report_note(report, "Anomalies as they come: intervals exponential, 0.33 a second, "
                                 "kind, target and intensity uniform, 10 s each: three or four at "
                                 "once, 120 s (full: 300 s).");
    return err;
}
