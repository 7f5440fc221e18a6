/*
 * advise.h - a workload sized: every configuration with its time and money, the choice, and what to
 * measure next.
 *
 * Threads: single owner. Same table, settings and seed: same advice.
 */
#ifndef AW_SIZING_ADVISE_H
#define AW_SIZING_ADVISE_H

#include "sizing/learner.h"

enum aw_size_goal {
    AW_SIZE_TIME,
    AW_SIZE_COST,
    AW_SIZE_BALANCE, /* time times cost: a per cent of one is worth a per cent of the other */
};

struct aw_size_row {
    uint32_t config;
    bool measured;
    double seconds, seconds_low, seconds_high; /* of the least MAPE; 90 % lie between */
    double usd;                                /* NAN: nobody knows a price */
    double goal;                               /* what is to be small */
};

struct aw_size_advice {
    uint32_t row_count, measured, learned_workloads, learned_groups;
    struct aw_size_row row[AW_SIZE_CONFIGS_MAX]; /* the best first */
    uint32_t choice;                             /* a row: the best that was measured, or, before
                                                    any was, the first to measure */
    uint32_t next;                               /* a row; UINT32_MAX: all were measured */
    double gain;                                 /* expected of the next, as a share */
    bool stop;                                   /* the gain is not worth another measurement */
    double weight[AW_SIZE_HEADS];                /* of the heads; zeros before a measurement */
    double kept_mape; /* of such predictions on workloads kept back; NAN: there were none */
};

/* `workload` is one of the table; all others, but for those asked about, are learned from. `stop`
 * is the share below which a gain is too small. AW_ERR_NODATA: a goal of cost without any price. */
AW_NODISCARD enum aw_err aw_size_advise(const struct aw_size_table *table, uint32_t workload,
                                        enum aw_size_goal goal, double stop,
                                        const struct aw_size_settings *settings,
                                        struct aw_size_advice *ret_advice, struct aw_diag *diag);

#endif
