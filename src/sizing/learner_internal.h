/* learner_internal.h - what the files of the learner share. */
#ifndef AW_SIZING_LEARNER_INTERNAL_H
#define AW_SIZING_LEARNER_INTERNAL_H

#include "sizing/learner.h"

#define AW__SIZE_VAR_MAX 0.5 /* up to which a prediction is moved below the middle */

/* Whoever is asked for a prediction: a memory, its networks, and what is known of the workload. */
struct aw__size_asked {
    const struct aw_size_memory *memory;
    struct aw_size_net *const *net;
    uint32_t net_count;
    const float *context;
    enum aw_size_told told;
};

uint32_t aw__size_kind(uint32_t shots); /* which mix serves a number of shots */
void aw__size_ask(const struct aw__size_asked *asked, const struct aw_size_shot *shots,
                  uint32_t count, const uint32_t *targets, uint32_t target_count,
                  double (*ret)[AW_SIZE_CONFIGS_MAX], double *ret_sd);
void aw__size_leave_out(const struct aw__size_asked *asked, const struct aw_size_shot *shots,
                        uint32_t count, double error[AW_SIZE_HEADS]);
void aw__size_weights(const struct aw_size_mix *mix, const double error[AW_SIZE_HEADS],
                      double weight[AW_SIZE_HEADS]);
/* No head is taken to be further from the middle one than this. */
#define AW__SIZE_APART 0.7
void aw__size_temper(double word[AW_SIZE_HEADS]);
double aw__size_blend(const double weight[AW_SIZE_HEADS], const double word[AW_SIZE_HEADS],
                      double *ret_spread);
void aw__size_predict(const struct aw__size_asked *asked, const struct aw_size_mix *mixes,
                      const struct aw_size_shot *shots, uint32_t count,
                      struct aw_size_prediction *ret);
struct aw_size_next aw__size_next(const struct aw__size_asked *asked,
                                  const struct aw_size_mix *mixes, const uint32_t *list,
                                  uint32_t way, const struct aw_size_shot *shots, uint32_t count,
                                  const bool *can, struct aw_size_prediction *scratch);
/* order.c: expected gain of each configuration, by known workloads that are like this one. */
void aw__size_near(const struct aw_size_memory *memory, double near,
                   const struct aw_size_shot *shots, uint32_t count, double *ret_gain);
/* The variance of the error at one place. */
double aw__size_variance(const struct aw_size_mix *mix, const double weight[AW_SIZE_HEADS],
                         const double error[AW_SIZE_HEADS], double gp_sd, double spread);

/* weigh.c: rows of what the heads said of workloads kept back, and the mix that suits them. */
struct aw__size_word {
    float word[AW_SIZE_HEADS];  /* ln, at one place */
    float error[AW_SIZE_HEADS]; /* of one shot from the others */
    float truth, sd;
};
/* `groups`: how many were kept back; few of them say little. */
void aw__size_weigh(struct aw__size_word *words, uint32_t count, uint32_t groups, bool shots_two,
                    const bool there[AW_SIZE_HEADS], struct aw_size_mix *ret);
/* Where nothing was kept back. */
void aw__size_weigh_blind(const bool there[AW_SIZE_HEADS], struct aw_size_mix *ret);

/* order.c */
void aw__size_order(const struct aw_size_memory *memory, uint32_t *ret);

#endif
