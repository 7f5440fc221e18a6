/* calibrate.h - what `aware calibrate` found, for printing. */
#ifndef AW_LAB_CALIBRATE_H
#define AW_LAB_CALIBRATE_H

#include "fitting/calibrate.h"
#include "frame/verb.h"

#define AW__CALIBRATE_APPS_MAX 32u
#define AW__CALIBRATE_QUIET    0.25 /* cores of other processes: more disturbs a measurement */

/* Goals of a calibration, for --check and for the report. */
#define AW__CALIBRATE_P99_GOAL      0.20 /* median, reference */
#define AW__CALIBRATE_P99_FAST_GOAL 0.25 /* median, fast */
#define AW__CALIBRATE_KNEE_GOAL     0.15 /* median, reference */
#define AW__CALIBRATE_CPU_GOAL      0.05 /* median, as a share of the limit; reference */

/* One application. */
struct aw__calibrated {
    const char *text; /* as it was given */
    struct aw_app described;
    uint32_t count;
    struct aw_calibrate_point point[AW_CALIBRATE_POINTS_MAX];
    struct aw_calibrate_fit fit;
    struct aw_calibrate_verdict verdict;
};

/* All of them. */
struct aw__calibration {
    uint32_t app_count;
    struct aw__calibrated *app; /* [app_count] */
    struct aw_calibrate_verdict all;
    double span_s, node_cores, seconds; /* the last: how long it took */
    uint64_t seed;
    uint32_t disturbed; /* measurements that stayed disturbed */
    bool kept;          /* the goals */
};

AW_NODISCARD enum aw_err aw__calibration_print(const struct aw_call *run,
                                               const struct aw__calibration *c,
                                               struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__calibration_print_json(const struct aw__calibration *c,
                                                    struct aw_diag *diag);
/* Takes the measured points of `app` from what --output json printed before. AW_ERR_NOTFOUND: no
 * points of an application of that text; AW_ERR_FORMAT: it is something else. */
AW_NODISCARD enum aw_err aw__calibrated_read(const char *path, struct aw__calibrated *app,
                                             struct aw_diag *diag);
/* Rows as `aware simulate fit` reads them. */
AW_NODISCARD enum aw_err aw__calibration_write_rows(const struct aw__calibration *c,
                                                    const char *path, struct aw_diag *diag);
/* "2x250m". Returns `buf`. */
const char *aw__calibrate_size_text(const struct aw_calibrate_size *size, char *buf, size_t len);

#endif
