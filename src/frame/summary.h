/* summary.h - what is said about returns and about a finished run, for people and as JSON. */
#ifndef AW_FRAME_SUMMARY_H
#define AW_FRAME_SUMMARY_H

#include <jansson.h>
#include <stdio.h>

#include "train/train.h"

/* A set of episode returns. With no episodes all figures are NAN. */
struct aw_returns {
    uint32_t count;
    double mean, low, high; /* 95 % percentile bootstrap of the mean */
    double std, min, median, max;
};
AW_NODISCARD enum aw_err aw_returns_of(const double *returns, uint32_t count,
                                       struct aw_returns *ret, struct aw_diag *diag);
json_t *aw_returns_json(const struct aw_returns *returns);
/* "-152.3 (95% interval -160.1 to -144.9) over 100 episodes". Returns `buf`. */
const char *aw_returns_text(const struct aw_returns *returns, char *buf, size_t size);

struct aw_summary {
    const struct aw_train_config *config;
    const struct aw_train_progress *progress;
    const struct aw_returns *training;   /* the last episodes of the run */
    const struct aw_returns *evaluation; /* NULL: none was made */
    double seconds, steps_per_second;    /* of this session */
    const char *dir;                     /* NULL: nothing was kept */
};
enum aw_err aw_summary_print(const struct aw_summary *summary, bool color);
json_t *aw_summary_json(const struct aw_summary *summary);

/* The mean return from which an environment counts as solved; NAN: none stated. */
double aw_solved_return(const char *env);

#endif
