/*
 * known_apps.h - the workloads that a model was taught on: their names and embeddings, kept in its
 * file.
 *
 * What a model says of a workload it has never seen is worth as much as the workload is like one of
 * these (FLASH section 5.5). Beside them may stand two lines, fitted where a model was evaluated:
 * what a workload loses at first, and how many episodes it takes to adapt, over its similarity to
 * the nearest one known.
 *
 * Call order: init, name and embedding of each, measure; then it can be saved with a model. load,
 *             place; deinit.
 * Memory:     one block at init or load.
 * Threads:    read-only after measure or load.
 */
#ifndef AW_META_KNOWN_APPS_H
#define AW_META_KNOWN_APPS_H

#include <aware/err.h>

#include "base/alloc.h"
#include "meta/context.h"

#define AW_KNOWN_APPS_NAME_MAX 64u /* bytes of a name, with its NUL; without newlines */
#define AW_KNOWN_APPS_ODD_BELOW \
    0.01 /* quantile below which a workload is outside of what is known */
#define AW_KNOWN_APPS_PLACES_MAX 64u /* nearest ones that can be asked for */
/* The precision of what is reported: R is a number of some 100 with one digit, and episodes are
 * counted in whole ones. */
#define AW_KNOWN_APPS_DROP_DEVIATION_MIN     0.001
#define AW_KNOWN_APPS_EPISODES_DEVIATION_MIN 1.0

/* intercept + slope * similarity. `related`: the slope is below 0 by more than chance; where it is
 * not, all that is known is what the applications for validation came to, which is the line at
 * `at`. Models from before have slope, intercept and deviation alone: at 1, and related where the
 * slope is below 0. */
struct aw_known_apps_line {
    bool there;
    double slope, intercept;
    double deviation; /* one, of a workload as like as those for validation; never 0 */
    double at;        /* mean similarity of the applications for validation to their nearest */
    double error;     /* of the slope, one standard error; NAN: not known */
    double growth;    /* of the deviation, per unit of similarity below `at` */
    double lowest;    /* the least similarity that was measured; NAN: not known */
    bool related;
};

/* What a line says of a workload. */
struct aw_known_apps_prediction {
    bool there;   /* false: the model does not say, and nothing else is filled in */
    double value; /* where no relation was found, the mean on validation */
    double deviation;
    bool related; /* false: no relation was found */
    bool outside; /* the workload is outside of what is known, or less like than was measured */
};

struct aw_known_apps {
    uint32_t count, dim;
    char (*name)[AW_KNOWN_APPS_NAME_MAX]; /* [count] */
    float *embedding;                     /* [count][dim] */
    double *nearest;                      /* [count] similarity of each to its own nearest */
    struct aw_known_apps_line drop;     /* share of the converged reward that is missing at first */
    struct aw_known_apps_line episodes; /* to adapt */
    void *block;
    const struct aw_alloc *alloc;
};

AW_NODISCARD enum aw_err aw_known_apps_init(struct aw_known_apps *known, uint32_t count,
                                            uint32_t dim, const struct aw_alloc *alloc);
void aw_known_apps_deinit(struct aw_known_apps *known); /* a zeroed one is a no-op */
/* Fills in `nearest`. */
void aw_known_apps_measure(struct aw_known_apps *known);

/* Where an embedding lies among those known. */
struct aw_known_apps_place {
    uint32_t count; /* of the nearest, the nearest first */
    uint32_t index[AW_KNOWN_APPS_PLACES_MAX];
    double similarity[AW_KNOWN_APPS_PLACES_MAX];
    double quantile; /* of the nearest one's similarity; NAN: none is known */
    bool odd;        /* outside of what is known */
};
void aw_known_apps_place(const struct aw_known_apps *known, const float *embedding, uint32_t max,
                         struct aw_known_apps_place *ret);

/* `similarity` to the nearest one known, NAN: none is; `odd`: outside of what is known. */
struct aw_known_apps_prediction aw_known_apps_predict(const struct aw_known_apps_line *line,
                                                      double similarity, bool odd);

/* As aw_context_save, with those known. The lines become metadata predict.drop.slope, .intercept,
 * .deviation and so on, and predict.episodes.*. */
AW_NODISCARD enum aw_err aw_known_apps_save(const struct aw_context *context,
                                            const struct aw_known_apps *known, const char *path,
                                            const char *const *meta, size_t meta_pairs,
                                            struct aw_diag *diag);
/* From the file of a model; one without any yields 0 of them. AW_ERR_FORMAT: damaged. */
AW_NODISCARD enum aw_err aw_known_apps_load(struct aw_known_apps *known, const char *path,
                                            const struct aw_alloc *alloc, struct aw_diag *diag);
/* Every key of a model's metadata with its value, in one reading. */
typedef void aw_known_apps_visit(void *ctx, const char *key, const char *value);
AW_NODISCARD enum aw_err aw_known_apps_meta(const char *path, aw_known_apps_visit *visit, void *ctx,
                                            const struct aw_alloc *alloc, struct aw_diag *diag);

#endif
