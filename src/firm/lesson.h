/*
 * lesson.h - localization on the simulated graph: injections as labels, learning, and how well.
 *
 * Windows of requests under known anomalies. Single: one of random kind, target and intensity.
 * Several: one of every kind at once, each of a strength between nothing and its most; those too
 * weak for a request to miss its SLO are not to blame (thesis, 3.3.2, Fig. 3.5).
 */
#ifndef AW_FIRM_LESSON_H
#define AW_FIRM_LESSON_H

#include "firm/watch.h"
#include "graph/campaign.h"

struct aw_firm_sample { /* a service in a window */
    struct aw_culprit culprit;
    bool to_blame;
    bool right_resource;       /* of one to blame: what it is said to lack is what was taken */
    enum aw_anomaly_kind kind; /* of what was injected into it */
    uint32_t window, rank;     /* its place by score among the window's services, from 0 */
};

struct aw_firm_lesson {
    uint64_t seed;
    uint32_t windows;
    double window_s;
    double traced, span_loss, skew_us;
    bool several; /* anomalies at once */
    bool paper;   /* the paper's features too */
};

#define AW_FIRM_SAMPLES_MAX (1u << 17)
struct aw_firm_samples {
    struct aw_firm_sample *at;
    uint32_t count, windows;
    uint32_t windows_top1; /* single: the first of a window was the one */
    const struct aw_alloc *alloc;
};
/* AW_ERR_NOMEM: left zeroed. */
AW_NODISCARD enum aw_err aw_firm_samples_init(struct aw_firm_samples *samples,
                                              const struct aw_alloc *alloc);
void aw_firm_samples_deinit(struct aw_firm_samples *samples); /* zeroed is a no-op */

/* Adds windows of an application. `classifier` says what suspects score; NULL: nothing yet. */
AW_NODISCARD enum aw_err aw_firm_collect(const struct aw_graph_app *app,
                                         const struct aw_calibration *calibration,
                                         const struct aw_firm_lesson *lesson,
                                         const struct aw_classifier *classifier,
                                         struct aw_firm_samples *samples);

/* The threshold is where F1 of what was learned from is highest. */
void aw_firm_learn(const struct aw_firm_samples *samples, enum aw_features features, uint64_t seed,
                   struct aw_classifier *ret);

struct aw_firm_roc_point {
    double fpr, tpr;
};
struct aw_firm_quality {
    double auc;
    double tpr_at_10;                       /* true positives at 10 % false ones */
    double fpr_at_99;                       /* false positives at 99 % true ones */
    double accuracy, f1, precision, recall; /* at the threshold */
    double accuracy_never;                  /* of saying "nobody" always */
    double resource;                        /* of those found, the right resource */
    uint32_t positives, negatives;
    struct aw_firm_roc_point roc[101]; /* at false positives of 0 to 100 % */
};
/* AW_ERR_NOMEM; AW_ERR_NODATA: one of the classes is empty. */
AW_NODISCARD enum aw_err aw_firm_judge(const struct aw_firm_samples *samples,
                                       const struct aw_classifier *classifier,
                                       struct aw_firm_quality *ret);

#endif
