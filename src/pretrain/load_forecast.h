/*
 * load_forecast.h - two more inputs for a learner without a meta-learner: a forecast of the load,
 * and what the present allocation did under a similar load before.
 *
 * The forecast is ARIMA(2,1,0) of the logarithm of the load, fitted as it goes by recursive least
 * squares that forgets slowly. The table has, for bins of cores and of load per core, the mean SLO
 * preservation seen. Both are learned on the workload itself, as the paper's TL+ does (AWARE
 * section 5.2).
 *
 * Call order: init; see after each step, then features.
 * Memory:     a plain struct; copied by assignment.
 * Threads:    single owner.
 */
#ifndef AW_PRETRAIN_LOAD_FORECAST_H
#define AW_PRETRAIN_LOAD_FORECAST_H

#include <aware/err.h>

#define AW_LOAD_FORECAST_FEATURES 2u
#define AW_LOAD_FORECAST_LAGS     2u
#define AW_LOAD_FORECAST_BINS     8u

struct aw_load_forecast {
    uint32_t seen; /* steps of this episode, up to one more than is needed */
    double level;  /* ln(1 + requests/s), the last */
    double change[AW_LOAD_FORECAST_LAGS];
    double weight[AW_LOAD_FORECAST_LAGS + 1];
    double covariance[AW_LOAD_FORECAST_LAGS + 1][AW_LOAD_FORECAST_LAGS + 1];
    double cores; /* of the last step */
    double sp[AW_LOAD_FORECAST_BINS][AW_LOAD_FORECAST_BINS];
    double count[AW_LOAD_FORECAST_BINS][AW_LOAD_FORECAST_BINS];
};

void aw_load_forecast_init(struct aw_load_forecast *foresight);
/* A new episode: what was learned stays, the last steps are of another time. */
void aw_load_forecast_begin(struct aw_load_forecast *foresight);
/* A step: requests/s, cores allocated, SLO preservation in [0, 1]. What is not finite is passed
 * over. */
void aw_load_forecast_see(struct aw_load_forecast *foresight, double load_per_s, double cores,
                          double sp);
/* The change of ln load to come, in [-1, 1], and the SLO preservation to expect, in [0, 1]: 1 where
 * the table knows nothing. */
void aw_load_forecast_features(const struct aw_load_forecast *foresight,
                               float features[AW_LOAD_FORECAST_FEATURES]);

#endif
