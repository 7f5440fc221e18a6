/*
 * experiment_overhead.c - what the meta-learner costs in time and bytes (FLASH Table 3).
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "study/experiment_internal.h"

#define EPISODES 20u
#define STEPS    100u
#define OBS      20u
#define ACT      3u

static enum aw_err episode(struct aw_context *context, struct aw_rng *rng)
{
    float obs[STEPS * OBS], action[STEPS * ACT], reward[STEPS];
    for (uint32_t i = 0; i < STEPS * OBS; i++)
        obs[i] = (float)aw_rng_uniform(rng, -1, 1);
    for (uint32_t i = 0; i < STEPS * ACT; i++)
        action[i] = (float)aw_rng_uniform(rng, -1, 1);
    for (uint32_t i = 0; i < STEPS; i++)
        reward[i] = (float)aw_rng_uniform(rng, 0, 2);
    (void)aw_context_episode(context, 0, obs, action, reward, STEPS);
    enum aw_err err = AW_OK;
    for (uint32_t t = 0; !err && t + 1 < STEPS; t++)
        err = aw_context_push(context, 0, obs + (size_t)t * OBS, action + (size_t)t * ACT,
                              reward[t], obs + (size_t)(t + 1) * OBS, false);
    return err;
}

struct times {
    double embed_s, act_s;
    double teach_s, update_s; /* with the encoder, and without it */
};

static double median(double *x, uint32_t n)
{
    aw_stats_sort(x, n);
    return aw_stats_median(x, n);
}

static enum aw_err measure(const struct aw_context_config *config, const struct aw_alloc *alloc,
                           struct times *ret, struct aw_diag *diag)
{
    struct aw_context *context = NULL;
    struct aw_rng rng;
    double time[32];
    float action[ACT], obs[OBS] = {0};
    aw_rng_init(&rng, 1, 0);
    enum aw_err err = aw_context_new(config, alloc, &context, diag);
    for (uint32_t e = 0; !err && e < EPISODES; e++)
        err = episode(context, &rng);
    err = err ? err : aw_context_normalise(context);
    for (uint32_t i = 0; !err && i < 8; i++) {
        if ((err = episode(context, &rng)))
            break; /* else the bundle is another now: nothing is remembered */
        const double from = aw_clock_thread_cpu_s();
        (void)aw_context_embed(context, 0);
        time[i] = aw_clock_thread_cpu_s() - from;
    }
    ret->embed_s = err ? (double)NAN : median(time, 8);
    for (uint32_t i = 0; !err && i < 32; i++) {
        const double from = aw_clock_thread_cpu_s();
        for (uint32_t k = 0; !err && k < 100; k++)
            err = aw_context_act(context, 0, obs, 0, action);
        time[i] = (aw_clock_thread_cpu_s() - from) / 100;
    }
    ret->act_s = err ? (double)NAN : median(time, 32);
    for (uint32_t i = 0; !err && i < 4; i++) {
        const double from = aw_clock_thread_cpu_s();
        err = aw_context_learn(context, NULL);
        time[i] = aw_clock_thread_cpu_s() - from;
    }
    ret->teach_s = err ? (double)NAN : median(time, 4);
    if (!err)
        aw_context_freeze(context, true, false); /* as on a new workload */
    for (uint32_t i = 0; !err && i < 16; i++) {
        const double from = aw_clock_thread_cpu_s();
        err = aw_context_learn(context, NULL);
        time[i] = aw_clock_thread_cpu_s() - from;
    }
    ret->update_s = err ? (double)NAN : median(time, 16);
    aw_context_free(context);
    return err;
}

enum aw_err aw__experiment_overhead(const struct aw_experiment_config *config,
                                    const struct aw_alloc *alloc, struct aw_study_report *report,
                                    struct aw_diag *diag)
{
    (void)config;
    enum aw_err err = AW_OK;
    for (uint32_t paper = 0; !err && paper < 2; paper++) {
        const char *name = paper ? "paper" : "default";
        struct aw_pretrain_config pretrain;
        struct aw_context_config context;
        struct times times;
        aw_pretrain_config_init(&pretrain);
        if (paper)
            aw_pretrain_config_paper(&pretrain);
        aw_context_config_init(&context);
        context.settings = pretrain.context;
        context.settings.group = 1;
        context.settings.rows = 64;
        if (paper)
            context.settings.choice = AW_BUNDLE_LATEST; /* so that each episode makes another */
        context.obs_dim = OBS;
        context.act_dim = ACT;
        context.steps = STEPS;
        context.workloads = 1;
        err = measure(&context, alloc, &times, diag);
        if (err)
            break;
        struct aw_study_report_figure *embed = aw_study_report_figure(
            report, AW_UNIT_SECONDS, times.embed_s,
            "embedding of a workload, %s encoder (%u episodes)", name, context.settings.episodes);
        if (embed) {
            embed->goal = 0.1;
            embed->lower = true;
        }
        const struct {
            double seconds, published; /* FLASH Table 3, of FIRM; section 5.4 */
            const char *what;
        } figures[] = {
            {times.act_s, 2.3e-3, "one action"},
            {times.embed_s + times.act_s, 8.1e-3, "one action and the embedding it needs"},
            {times.teach_s, 4.95, "one update of pretraining (64 rows)"},
            {times.update_s, 1.25, "one update of fine-tuning (64 rows)"},
        };
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
            struct aw_study_report_figure *figure = aw_study_report_figure(
                report, AW_UNIT_SECONDS, figures[i].seconds, "%s, %s", figures[i].what, name);
            if (figure)
                figure->paper = figures[i].published;
        }
    }
    aw_study_report_note(report, "Medians of CPU time on one thread. An embedding is computed once "
                                 "per episode of a workload, an action once per step. Published: "
                                 "FLASH Table 3 for FIRM, on other machines; 8.1 ms have the "
                                 "embedding in them, 4.95 s are an update of the meta-learner too, "
                                 "1.25 s one without it; rows of an update are not said.");
    return err;
}
