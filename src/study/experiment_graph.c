/* experiment_graph.c - see experiment_graph.h. */
#include "study/experiment_graph.h"

#include <stdio.h>

#define CALIBRATION_SEED 77u

static const char *const names[AW__GRAPHS] = {"train-ticket", "social-network", "media", "hotel"};

struct making {
    const struct aw_experiment_config *config;
    struct aw__graphs *graphs;
    const struct aw_alloc *alloc;
};

static enum aw_err calibrate(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct making *making = ctx;
    struct aw_calibration *calibration = &making->graphs->calibration[turn];
    double *values = (double *)calibration;
    const size_t count = sizeof *calibration / sizeof *values;
    struct aw__piece_key key;
    char path[AW_EXPERIMENT_PATH_MAX];
    enum aw_err err = aw_graph_builtin(names[turn], &making->graphs->app[turn], diag);
    if (err)
        return err;
    aw__piece_key_begin(&key, making->config);
    aw__piece_key_text(&key, names[turn]);
    aw__piece_key_number(&key, CALIBRATION_SEED);
    aw__piece_key_path(&key, making->config, "calibration", ".bin", path, sizeof path);
    if (!aw__piece_load(path, values, count, making->alloc))
        return AW_OK;
    err = aw_calibrate_graph(&making->graphs->app[turn], CALIBRATION_SEED, making->alloc,
                             calibration);
    if (err)
        return aw_fail(diag, err, "no memory to calibrate %s", names[turn]);
    return aw__piece_save(path, values, count, making->alloc, diag);
}

enum aw_err aw__graphs_new(const struct aw_experiment_config *config, const struct aw_alloc *alloc,
                           struct aw__graphs **ret, struct aw_diag *diag)
{
    struct aw__graphs *graphs = aw_alloc_new(alloc, 1, sizeof *graphs);
    struct making making = {config, graphs, alloc};
    if (!graphs)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the applications");
    const enum aw_err err =
        aw__turns(config, AW__GRAPHS, "calibrating anomalies", calibrate, &making, alloc, diag);
    if (err)
        aw_alloc_free(alloc, graphs);
    else
        *ret = graphs;
    return err;
}

struct aw_study_report_figure *aw__graph_figure(struct aw_study_report *report,
                                                enum aw_study_report_unit unit, const double *x,
                                                uint32_t groups, uint32_t count, double paper,
                                                double goal, bool lower, const char *name)
{
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, unit, aw_stats_mean(x, (size_t)groups * count), "%s", name);
    if (figure) {
        figure->interval = aw__resampled_mean(groups, count, x);
        figure->paper = paper;
        figure->goal = goal;
        figure->lower = lower;
    }
    return figure;
}
