/*
 * power.h - rules that set a GPU's clock from what waits there: pure, no time and no chance inside.
 *
 *   fixed        the largest clock, always: what is saved is measured against it
 *   static       one clock for all, always
 *   race         the largest clock while anything is there, else the smallest
 *   miad-printed Alg. 6.3 as printed, errors included (docs/algorithms/miad.md)
 *   miad         Alg. 6.3 corrected: worst slack of ten seconds, waiting requests count, down only
 *                if every model allows it, a floor, and the smallest clock while nothing is there
 *   predictive   at every event the clock at which the joules that the queue will take, and a price
 *                for every request that is likely to be late, sum to least; or, with price_j 0,
 *                the smallest clock at which each request ends in time by the length that nine of
 *                ten do not exceed, which is what a controller does that knows only p90s
 *
 * x is the clock over the largest one. Call order: none. Memory: the caller's. Threads: pure.
 */
#ifndef AW_SERVING_POWER_H
#define AW_SERVING_POWER_H

#include "serving/catalog.h"

enum aw_power_rule {
    AW_POWER_FIXED,
    AW_POWER_STATIC,
    AW_POWER_RACE,
    AW_POWER_MIAD_PRINTED,
    AW_POWER_MIAD,
    AW_POWER_PREDICTIVE,
    AW_POWER_RULES,
};
const char *aw_power_name(uint32_t rule);
bool aw_power_find(const char *name, uint32_t *ret_rule);

struct aw_power_settings {
    uint32_t rule;
    double static_x;
    double floor_x;  /* of miad and predictive while anything is there */
    double step_x;   /* of miad */
    double margin;   /* share of an SLO that predictive uses up */
    double headroom; /* predictive: the clock is at least so many times the utilisation */
    double risk;     /* predictive: misses that a request may be expected to cause behind it */
    double blame;    /* predictive: share of requests that it may make late; 0: it never learns */
    double tick_s;   /* of miad; the others decide at events */
    double switch_s; /* from a set to its effect, as the controller knows it */
    double price_j;  /* predictive: of a late request, to begin with; 0: by p90s instead */
    bool replicas;   /* devices without need are parked */
    double target;   /* utilisation that parking aims at */
};
extern const struct aw_power_settings aw_power_defaults;

/* One request that is there, in the order of service; the running one first. */
struct aw_power_item {
    double left_s; /* until its SLO is missed, from now */
    double work_s; /* what is left of it at the largest clock, by its p90 */
    double memory; /* m by the profile */
};
#define AW_POWER_ITEMS_MAX 48u /* looked at; behind them the queue is long anyhow */

/* A model that may be asked for while the device is busy: a request of it that finds more than
 * `slack_s` of work before it is too late. */
struct aw_power_other {
    double rate_per_s; /* that this device is asked */
    double slack_s;    /* SLO less its own work */
};

/* `x_now` holds until a switch takes effect. `load` is the utilisation at the largest clock. */
double aw_power_predict(const struct aw_power_settings *settings, const struct aw_power_item *item,
                        uint32_t count, const struct aw_power_other *other, uint32_t others,
                        double x_min, double x_now, double load);

/* One request as a chance: what is left of it is log-normal, nearly. */
struct aw_power_chance {
    double left_s;
    double mean_s, sd_s; /* of its work at the largest clock */
    double memory;
};
/* Of a request of which `served_s` is done and that was predicted to take median_s, and in nine
 * cases of ten no more than high_s. */
struct aw_power_chance aw_power_rest(double median_s, double high_s, double served_s);
/* The clock of least cost: joules beyond idling, and price x the number of requests late. `debt`
 * is that of aw_power_bill. */
double aw_power_least(const struct aw_power_settings *settings, const struct aw_gpu_kind *kind,
                      const struct aw_power_chance *chance, uint32_t count,
                      const struct aw_power_other *other, uint32_t others, double x_now,
                      double load, double debt);
/* The guard around it: the logarithm of the price goes up with each request that the clock has made
 * late and slowly down, so that of n requests no more than blame x n + 9/AW_POWER_BILL_GAIN are
 * made late; at AW_POWER_DEBT_FULL the clock is the largest while anything is there. */
#define AW_POWER_BILL_GAIN 0.5
#define AW_POWER_DEBT_FULL 4.6
double aw_power_bill(const struct aw_power_settings *settings, double debt, bool blamed);

/* The guard around predictive by p90s: it counts the requests that were late and would not have
 * been at the largest clock. `caution` goes up with each and slowly down, so that of n requests
 * no more than blame x n + 2/AW_POWER_GAIN are made late; at 1 the clock is the largest while
 * anything is there. */
#define AW_POWER_GAIN 0.1
double aw_power_learn(const struct aw_power_settings *settings, double caution, bool blamed);
/* The settings under this caution. */
struct aw_power_settings aw_power_careful(const struct aw_power_settings *settings, double caution);

/* The guard around parking: how many times more devices stay than the mean load asks for. It goes
 * up with each request that was late while a device was parked. */
double aw_power_spare(double spare, bool blamed);

/* What a model did on a device since the last tick. */
struct aw_miad_seen {
    double slo_s, memory;
    double latency_s; /* as printed: the mean of the last second with any, stale or not */
    double worst_s;   /* corrected: the longest of ten seconds, waiting ones included; 0: none */
};
/* Both return the next x, before it is rounded to the grid. */
double aw_miad_printed(const struct aw_power_settings *settings, const struct aw_miad_seen *seen,
                       uint32_t models, double x, double x_min);
/* `ret_up_at_max`: it wants more than there is, the signal for a replica. */
double aw_miad(const struct aw_power_settings *settings, const struct aw_miad_seen *seen,
               uint32_t models, bool idle, double x, double x_min, bool *ret_up_at_max);

#endif
