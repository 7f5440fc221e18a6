/* loss.c - losses and densities. Sums run in double: a mean over a batch keeps all its digits. */
#include "nn/loss.h"

#include <aware/err.h>
#include <float.h>
#include <math.h>

#define HALF_LOG_TWO_PI 0.91893853320467274178 /* 0.5 ln(2 pi) */

double aw_loss_mse(const float *y, const float *target, size_t n, float *dy)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double error = (double)y[i] - (double)target[i];
        sum += error * error;
        if (dy)
            dy[i] = (float)(2 * error / (double)n);
    }
    return sum / (double)n;
}

double aw_loss_huber(const float *y, const float *target, size_t n, float delta, float *dy)
{
    double sum = 0, bound = (double)delta;
    for (size_t i = 0; i < n; i++) {
        double error = (double)y[i] - (double)target[i], size = fabs(error);
        sum += size <= bound ? 0.5 * error * error : bound * (size - 0.5 * bound);
        if (dy)
            dy[i] = (float)((size <= bound ? error : copysign(bound, error)) / (double)n);
    }
    return sum / (double)n;
}

void aw_gaussian_log_prob(const float *x, const float *mean, const float *log_std,
                          size_t log_std_stride, uint32_t B, uint32_t D, float *logp)
{
    for (size_t b = 0; b < B; b++) {
        const float *row_log_std = log_std + b * log_std_stride;
        double sum = 0;
        for (size_t d = 0; d < D; d++) {
            double width = (double)row_log_std[d];
            double z = ((double)x[b * D + d] - (double)mean[b * D + d]) * exp(-width);
            sum -= 0.5 * z * z + width + HALF_LOG_TWO_PI;
        }
        logp[b] = (float)sum;
    }
}

void aw_gaussian_log_prob_backward(const float *x, const float *mean, const float *log_std,
                                   size_t log_std_stride, const float *dlogp, uint32_t B,
                                   uint32_t D, float *dmean, float *dlog_std_add)
{
    /* Column by column, so that a shared log_std collects its rows in double. */
    for (size_t d = 0; d < D; d++) {
        double shared = 0;
        for (size_t b = 0; b < B; b++) {
            size_t i = b * D + d;
            double narrow = exp(-(double)log_std[b * log_std_stride + d]);
            double z = ((double)x[i] - (double)mean[i]) * narrow, up = (double)dlogp[b];
            double dlog_std = up * (z * z - 1);
            if (dmean)
                dmean[i] = (float)(up * z * narrow);
            if (log_std_stride == 0)
                shared += dlog_std;
            else if (dlog_std_add)
                dlog_std_add[b * log_std_stride + d] += (float)dlog_std;
        }
        if (log_std_stride == 0 && dlog_std_add)
            dlog_std_add[d] += (float)shared;
    }
}

double aw_gaussian_entropy(const float *log_std, uint32_t D)
{
    double sum = 0;
    for (size_t d = 0; d < D; d++)
        sum += 0.5 + HALF_LOG_TWO_PI + (double)log_std[d];
    return sum;
}

void aw_categorical_log_softmax(const float *logits, uint32_t B, uint32_t N, float *logp_all)
{
    for (size_t b = 0; b < B; b++) {
        const float *row = logits + b * N;
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < N; j++)
            top = fmax(top, (double)row[j]);
        for (size_t j = 0; j < N; j++)
            sum += exp((double)row[j] - top);
        double log_sum = log(sum);
        for (size_t j = 0; j < N; j++) {
            double logp = (double)row[j] - top - log_sum;
            /* two finite floats can be further apart than a float reaches; NaN passes through */
            logp_all[b * N + j] = logp < -(double)FLT_MAX ? -FLT_MAX : (float)logp;
        }
    }
}

void aw_categorical_entropy(const float *logp_all, uint32_t B, uint32_t N, float *entropy)
{
    for (size_t b = 0; b < B; b++) {
        double sum = 0;
        for (size_t j = 0; j < N; j++) {
            double logp = (double)logp_all[b * N + j];
            sum -= exp(logp) * logp;
        }
        entropy[b] = (float)sum;
    }
}

void aw_categorical_backward(const float *logp_all, const uint32_t *index, const float *dlogp,
                             const float *entropy, const float *dentropy, uint32_t B, uint32_t N,
                             float *dlogits)
{
    for (size_t b = 0; b < B; b++) {
        AW_ASSERT(index[b] < N);
        double up = (double)dlogp[b];
        double up_entropy = dentropy ? (double)dentropy[b] : 0;
        double H = dentropy ? (double)entropy[b] : 0;
        for (size_t j = 0; j < N; j++) {
            double logp = (double)logp_all[b * N + j], p = exp(logp);
            double hit = j == index[b];
            dlogits[b * N + j] = (float)(up * (hit - p) - up_entropy * p * (logp + H));
        }
    }
}

double aw_loss_vae_kl(const float *mean, const float *log_std, size_t n, float *dmean,
                      float *dlog_std)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        /* std^2 - 1 without cancellation: the posterior sits near the prior for most of training */
        double m = (double)mean[i], twice = 2 * (double)log_std[i], excess = expm1(twice);
        sum += m * m + excess - twice;
        if (dmean)
            dmean[i] = (float)(m / (double)n);
        if (dlog_std)
            dlog_std[i] = (float)(excess / (double)n);
    }
    return 0.5 * sum / (double)n;
}

void aw_vae_sample(const float *mean, const float *log_std, const float *noise, size_t n, float *z)
{
    for (size_t i = 0; i < n; i++)
        z[i] = mean[i] + expf(log_std[i]) * noise[i];
}

void aw_vae_sample_backward(const float *log_std, const float *noise, const float *dz, size_t n,
                            float *dmean_add, float *dlog_std_add)
{
    for (size_t i = 0; i < n; i++) {
        if (dmean_add)
            dmean_add[i] += dz[i];
        if (dlog_std_add)
            dlog_std_add[i] += dz[i] * noise[i] * expf(log_std[i]);
    }
}
