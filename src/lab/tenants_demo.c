/*
 * tenants_demo.c - `aware run --demo tenants`: twenty tenants on a full cluster, a newcomer and a
 * noisy neighbour arrive; who asked, who got, who lent; SLOs beside independent autoscalers.
 *
 * Two worlds under the same load and chance: every tenant has an autoscaler of its own (square-root
 * staffing, generous); the same autoscalers behind the arbiter, which is what the product does.
 * Terms: four gold tenants have a guarantee, all others a limit of what they may borrow. A third
 * world, agents that learned together behind the arbiter, is research: its figures are told at the
 * end, because it misses more.
 */
#include "lab/tenants_demo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frame/json.h"
#include "frame/stop.h"
#include "frame/version.h"
#include "lab/experiment.h"
#include "multi/arbitrate.h"
#include "multi/serve.h"

#define TENANTS     20u
#define GOLD        4u
#define STEPS       360u
#define NEWCOMER_AT 90u
#define NOISY_AT    180u
#define NOISY_END   270u
#define NOISY       9u /* which: Page-Rank, that needs memory bandwidth */
#define NOISE       8.0
#define OVERCOMMIT  3.2 /* containers for each core: what all ask for on a quiet day */
#define BORROW      12  /* containers that a tenant without a guarantee may have at the most */
#define FACTOR      4.5 /* of the autoscalers' staffing: what a generous owner chooses */
#define LEARNED     150u
#define EVERY       10u        /* steps of a row */
#define FRAME_NS    100000000L /* of a step on a terminal */

enum { INDEPENDENT, ARBITRATED, TOGETHER, WORLDS };
#define SHOWN TOGETHER /* worlds in rows, plot and table: those before it */
static const char *const world_names[] = {"independent", "arbiter", "learned"};

enum { QUIET, NEWCOMER, NOISE_ON, AFTER, PHASES };
static const char *const phase_names[] = {"quiet", "a newcomer", "a noisy neighbour", "after it"};

struct stage {
    struct aw_multi_world world;
    struct aw_team team;
    struct aw_multi_arbiter arbiter;
    struct aw_simppo *agents;
    struct aw_rule_memory memory[TENANTS + 1];
    uint8_t action[TENANTS + 1];
    uint32_t missed[TENANTS + 1], lived[TENANTS + 1],
        window; /* window: missed since the last row */
    uint32_t asked[TENANTS + 1];
    uint32_t phase_missed[PHASES], phase_gold[PHASES]; /* steps of all tenants, and of gold ones */
    double cores, held;                                /* containers now, and of all steps summed */
};

static uint32_t phase_at(uint32_t step)
{
    return step < NEWCOMER_AT ? QUIET
           : step < NOISY_AT  ? NEWCOMER
           : step < NOISY_END ? NOISE_ON
                              : AFTER;
}

static enum aw_err stage_begin(struct stage *s, uint32_t which, uint64_t seed, struct aw_diag *diag)
{
    struct aw_multi_settings settings;
    struct aw_team_settings how;
    aw_conf_defaults(aw_multi_fields, &settings);
    settings.agents = TENANTS;
    settings.agents_max = TENANTS + 1;
    settings.offered = 0.5;
    aw_team_settings_init(&how, false);
    enum aw_err err = aw_multi_init(&s->world, &settings, NULL, diag);
    err = err ? err : aw_team_init(&s->team, &s->world, &how, NULL);
    err = err ? err : aw_multi_arbiter_init(&s->arbiter, &s->world, OVERCOMMIT, NULL, diag);
    if (!err && which == TOGETHER) {
        struct aw_simppo_settings learner;
        aw_simppo_settings_init(&learner, false);
        err = aw_simppo_new(&learner, &s->team, seed, NULL, &s->agents, diag);
        for (uint32_t e = 0; !err && e < LEARNED; e++) {
            aw_multi_reset(&s->world, 1000 + e);
            aw_team_begin(&s->team);
            (void)aw_simppo_episode(s->agents, true);
        }
    }
    if (err)
        return err;
    aw_multi_reset(&s->world, seed);
    aw_team_begin(&s->team);
    for (uint32_t i = GOLD; i <= TENANTS; i++)
        s->arbiter.terms[i].borrow_limit[AW_POOL_CPU] = BORROW * 1000;
    for (uint32_t i = 0; i < GOLD; i++) {
        const double busy = aw_multi_offered(&s->world, i);
        s->arbiter.terms[i].guarantee[AW_POOL_CPU] =
            (int64_t)(1000 * ceil(busy + FACTOR * sqrt(busy)));
    }
    return AW_OK;
}

static void stage_end(struct stage *s)
{
    aw_simppo_free(s->agents);
    aw_multi_arbiter_deinit(&s->arbiter);
    aw_team_deinit(&s->team);
    aw_multi_deinit(&s->world);
}

static void stage_step(struct stage *s, uint32_t which, uint32_t step)
{
    struct aw_multi_world *w = &s->world;
    static const struct aw_rule rule = {
        .kind = AW_RULE_STAFFING, .parameter = FACTOR, .shares = 1024};
    if (step == NEWCOMER_AT) {
        const uint32_t agent = aw_multi_add(w, 8, false); /* Image-Inference; no node comes */
        aw_team_join(&s->team, agent);
    }
    if (step == NOISY_AT || step == NOISY_END)
        aw_multi_surge(w, NOISY, step == NOISY_AT ? NOISE : 1 / NOISE);
    if (which == TOGETHER) {
        aw_team_observe(&s->team);
        aw_simppo_act(s->agents, true, s->action);
        aw_team_act(&s->team, s->action);
    } else {
        aw_rule_act(&rule, s->memory, &s->team);
    }
    for (uint32_t i = 0; i < w->count; i++)
        s->asked[i] = w->wanted[i];
    if (which != INDEPENDENT)
        aw_multi_arbitrate(&s->arbiter, w);
    aw_team_finish(&s->team);
    s->cores = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const bool late = w->p99_s[i] > w->slo_s[i];
        s->missed[i] += late;
        s->window += late;
        s->phase_missed[phase_at(step)] += late;
        s->phase_gold[phase_at(step)] += late && i < GOLD;
        s->lived[i]++;
        s->cores += aw_multi_cores(w, i);
    }
    s->held += s->cores;
}

/* --- what is shown ---------------------------------------------------------------------------- */

static const char *event_at(uint32_t step)
{
    return step < NEWCOMER_AT           ? ""
           : step < NEWCOMER_AT + EVERY ? "<- a newcomer arrives"
           : step < NOISY_AT            ? ""
           : step < NOISY_AT + EVERY    ? "<- the load of one tenant grows eightfold"
           : step < NOISY_END           ? ""
           : step < NOISY_END + EVERY   ? "<- and is back"
                                        : "";
}

static void row_print(struct stage *s, uint32_t step)
{
    const double steps = (double)EVERY * s[0].world.live;
    const struct aw_multi_arbiter *a = &s[ARBITRATED].arbiter;
    uint32_t cut = 0, lent = 0;
    for (uint32_t k = 0; k < a->count; k++) {
        cut += a->grant[k].reason != AW_ARBITER_GRANTED;
        lent += a->standing[k].lends[AW_POOL_CPU] > 0;
    }
    printf("%5u s   %7.0f %9.0f   %8.1f %% %7.1f %%   cuts %u, %2u lend   %s\n", step * 10,
           s[INDEPENDENT].cores, s[ARBITRATED].cores, 100 * s[INDEPENDENT].window / steps,
           100 * s[ARBITRATED].window / steps, cut, lent, event_at(step));
    fflush(stdout);
}

static const char *tenant_name(const struct aw_multi_world *w, uint32_t i, char *buf, size_t size)
{
    snprintf(buf, size, "%s-%u%s", aw_multi_functions[w->kind[i]].name, i,
             i < GOLD       ? " (gold)"
             : i == NOISY   ? " (noisy)"
             : i == TENANTS ? " (newcomer)"
                            : "");
    return buf;
}

static double missed_by(const struct stage *s, uint32_t i)
{
    return s->lived[i] ? (double)s->missed[i] / s->lived[i] : 0;
}

static enum aw_err tables_of(struct stage *s, struct aw_study_report *report)
{
    static const char *const columns[] = {
        "asked", "got", "lends", "borrows", "missed independent", "missed arbiter", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_COUNT, AW_UNIT_COUNT, AW_UNIT_PLAIN,
                                                      AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_SHARE};
    const struct aw_multi_arbiter *a = &s[ARBITRATED].arbiter;
    const uint32_t table = aw_study_report_table(
        report,
        "Behind the arbiter in the last step: containers asked for, got, lent to others, borrowed; "
        "then steps of the run that missed the SLO",
        columns, units);
    enum aw_err err = AW_OK;
    for (uint32_t k = 0; !err && k < a->count; k++) {
        const uint32_t i = a->agent[k];
        char name[64];
        const double row[] = {s[ARBITRATED].asked[i],
                              s[ARBITRATED].world.containers[i],
                              1e-3 * (double)a->standing[k].lends[AW_POOL_CPU],
                              1e-3 * (double)a->standing[k].borrows[AW_POOL_CPU],
                              missed_by(&s[INDEPENDENT], i),
                              missed_by(&s[ARBITRATED], i)};
        err = aw_study_report_row(report, table, row, "%s",
                                  tenant_name(&s[0].world, i, name, sizeof name));
    }
    return err;
}

/* Steps missed, by what was going on. */
static enum aw_err phases_of(const struct stage *s, struct aw_study_report *report)
{
    static const uint32_t begin[PHASES + 1] = {0, NEWCOMER_AT, NOISY_AT, NOISY_END, STEPS};
    static const char *const columns[] = {"independent", "arbiter", "gold, independent",
                                          "gold, arbiter", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SHARE, AW_UNIT_SHARE, AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE};
    const uint32_t table =
        aw_study_report_table(report, "Steps that missed the SLO, by what went on", columns, units);
    enum aw_err err = AW_OK;
    for (uint32_t p = 0; !err && p < PHASES; p++) {
        const double steps = begin[p + 1] - begin[p];
        const double all = steps * (TENANTS + (p > QUIET)), gold = steps * GOLD;
        const double row[] = {
            s[INDEPENDENT].phase_missed[p] / all, s[ARBITRATED].phase_missed[p] / all,
            s[INDEPENDENT].phase_gold[p] / gold, s[ARBITRATED].phase_gold[p] / gold};
        err = aw_study_report_row(report, table, row, "%s", phase_names[p]);
    }
    return err;
}

static enum aw_err figures_of(const struct stage *s, struct aw_study_report *report)
{
    double all[WORLDS] = {0}, gold[WORLDS] = {0};
    enum aw_err err = AW_OK;
    for (uint32_t v = 0; v < WORLDS; v++) {
        for (uint32_t i = 0; i <= TENANTS; i++) {
            all[v] += missed_by(&s[v], i) / (TENANTS + 1);
            gold[v] += i < GOLD ? missed_by(&s[v], i) / GOLD : 0;
        }
        if (v >= SHOWN)
            continue;
        (void)aw_study_report_figure(report, AW_UNIT_SHARE, all[v], "steps missed, all: %s",
                                     world_names[v]);
        (void)aw_study_report_figure(report, AW_UNIT_SHARE, gold[v],
                                     "steps missed, gold tenants: %s", world_names[v]);
        (void)aw_study_report_figure(report, AW_UNIT_COUNT, s[v].held / STEPS,
                                     "containers held on average: %s", world_names[v]);
    }
    err = phases_of(s, report);
    aw_study_report_note(report,
                         "The arbiter is what the product does by default: it never learns. In the "
                         "quiet it costs what borrow limits refuse; it pays when tenants collide.");
    aw_study_report_note(report,
                         "Research, off by default: agents that learned together (%u episodes), "
                         "behind the same arbiter, missed %.1f %% of all steps (gold %.1f %%) with "
                         "%.0f containers. They hold fewer, and miss more.",
                         LEARNED, 100 * all[TOGETHER], 100 * gold[TOGETHER],
                         s[TOGETHER].held / STEPS);
    return err;
}

static enum aw_err play(struct stage *s, struct aw_study_report *report, bool rows, bool slowly)
{
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "SLO missed, and who came when",
                             "seconds", "share of tenants that miss their SLO");
    enum aw_err err = AW_OK;
    for (uint32_t v = 0; v < SHOWN; v++)
        (void)aw_study_report_series(report, plot, world_names[v]);
    for (uint32_t step = 0; !err && step < STEPS && !aw_stop_signal; step++) {
        for (uint32_t v = 0; v < WORLDS; v++)
            stage_step(&s[v], v, step);
        if (slowly)
            nanosleep(&(struct timespec){.tv_nsec = FRAME_NS}, NULL);
        if (step % EVERY != EVERY - 1)
            continue;
        if (rows)
            row_print(s, step + 1 - EVERY);
        for (uint32_t v = 0; !err && v < WORLDS; v++) {
            if (v < SHOWN)
                err = aw_study_report_point(report, plot, v, 10.0 * (step + 1),
                                            s[v].window / ((double)EVERY * s[v].world.live), NAN,
                                            NAN);
            s[v].window = 0;
        }
    }
    return err;
}

static enum aw_err tell(const struct aw_call *call, struct aw_study_report *report, uint64_t seed,
                        struct aw_diag *diag)
{
    static const struct aw_experiment_entry entry = {
        .name = "tenants", .shows = "who gets the last cores", .title = "Tenants"};
    static struct aw__experiment ask;
    const char *path = aw_args_text(call->args, "report");
    ask = (struct aw__experiment){.entry = &entry};
    aw_experiment_config_init(&ask.config);
    ask.config.seed = seed;
    snprintf(ask.load, sizeof ask.load, "built in");
    snprintf(report->source, sizeof report->source, "%s", AW_VERSION_SOURCE);
    snprintf(report->command, sizeof report->command, "aware run --demo tenants --seed %llu",
             (unsigned long long)seed);
    enum aw_err err = AW_OK;
    json_t *document = aw__experiment_json(&ask, report);
    if (!document)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (!call->json) {
        err = aw__experiment_print(&ask, report, stdout, 100, call->color_out, diag);
        path = path ? path : "report.html";
    }
    if (!err && path) {
        err = aw__experiment_page_write(document, path, diag);
        if (!err)
            fprintf(stderr, "aware: the page is %s\n", path);
    }
    if (!err && call->json)
        return aw_json_print(document, diag);
    json_decref(document);
    return err;
}

enum aw_err aw_demo_tenants(const struct aw_call *call, struct aw_diag *diag)
{
    const uint64_t seed =
        aw_args_given(call->args, "seed") ? aw_args_number(call->args, "seed") : 1;
    const bool rows = !call->json && !aw_args_given(call->args, "quiet");
    struct stage *s = aw_alloc_new(NULL, WORLDS, sizeof *s);
    struct aw_study_report *report = NULL;
    enum aw_err err =
        s ? aw_study_report_new("tenants", "Twenty tenants on a full cluster", NULL, &report, diag)
          : aw_fail(diag, AW_ERR_NOMEM, "no memory for a demo");
    for (uint32_t v = 0; !err && v < WORLDS; v++)
        err = stage_begin(&s[v], v, seed, diag);
    if (rows && !err)
        printf("Twenty tenants share a cluster that is full: room for %.0f containers. Four of "
               "them, gold, have a\nguarantee. The same load twice: every tenant has an "
               "autoscaler of its own (independent), and the\nsame autoscalers behind the arbiter, "
               "which hands out what there is by written terms.\n\n"
               "   TIME   CONTAINERS            SLO MISSED             THE ARBITER\n"
               "          independent arbiter   independent arbiter    cuts, and who lends\n",
               s[0].world.node_count * s[0].world.settings.node_cores * OVERCOMMIT);
    err = err ? err : play(s, report, rows, rows && isatty(STDOUT_FILENO));
    if (rows)
        putchar('\n');
    err = err ? err : figures_of(s, report);
    err = err ? err : tables_of(s, report);
    if (!err)
        aw_study_report_note(report,
                             "The newcomer comes at %u s, the noisy neighbour from %u to %u s: the "
                             "load of one tenant is eightfold. No node is added; a core takes %.1f "
                             "containers, which are rarely busy all at once.",
                             10 * NEWCOMER_AT, 10 * NOISY_AT, 10 * NOISY_END, OVERCOMMIT);
    err = err ? err : tell(call, report, seed, diag);
    aw_study_report_free(report);
    for (uint32_t v = 0; s && v < WORLDS; v++)
        stage_end(&s[v]);
    aw_alloc_free(NULL, s);
    return err;
}
