/*
 * length_study.h - how good predictions of lengths are, on prompts that were not learned from.
 *
 * Read are prompts ({"id":, "prompt":} a line) and a table of the lengths of answers (id, one
 * column a model). Prompts are divided by their text into five parts; each part is predicted by a
 * predictor that has learned from the other four, in random order, and never from that part.
 *
 * Memory:  freed again, but for what read returns. Threads: no shared state.
 */
#ifndef AW_SERVING_LENGTH_STUDY_H
#define AW_SERVING_LENGTH_STUDY_H

#include "base/rng.h"
#include "serving/length.h"

struct aw_length_data {
    uint32_t prompts, models;
    struct aw_prompt *prompt; /* [prompts], model not set */
    float *tokens;            /* [prompts][models]; NAN: no answer */
    char (*name)[64];         /* [models] */
};
AW_NODISCARD enum aw_err aw_length_data_read(const char *prompts, const char *lengths,
                                             struct aw_length_data *ret, struct aw_diag *diag);
void aw_length_data_deinit(struct aw_length_data *data);

struct aw_length_score {
    uint64_t cases;
    uint32_t models;
    double tau;                   /* Kendall's tau-b of prompts within a model, mean over models */
    double accuracy, f1;          /* of the five classes; macro F1 */
    double error_mean, error_p95; /* |predicted - true| / true, of tokens */
    double p90_covered;           /* share of answers no longer than the p90 predicted */
    double predict_us, learn_us;  /* of processor time each */
    float *errors;                /* [cases], the caller's to free; NULL: not wanted */
};
struct aw_length_trial {
    struct aw_length_settings settings;
    uint32_t epochs;
    uint32_t models_max; /* evenly taken; 0: all */
    bool random;         /* keys of chance: tau must be 0 */
    bool errors;         /* the error of each case is wanted */
    bool alone;          /* each model learns from its own answers alone */
};
AW_NODISCARD enum aw_err aw_length_try(const struct aw_length_data *data,
                                       const struct aw_length_trial *trial,
                                       struct aw_length_score *ret, struct aw_diag *diag);

/* Kendall's tau-b; 0 where one side is constant. */
double aw_kendall_tau(const double *x, const double *y, uint32_t n);

#endif
