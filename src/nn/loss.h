/*
 * loss.h - losses and densities, each forward with its backward.
 *
 * Conventions: a loss returns its mean over what is stated, in double; gradients are of that
 * returned number. Gradient arrays are written, not added to, unless a name says "add". NULL
 * gradients are skipped. All arrays are row-major [B][D].
 *
 * Memory:  the caller's; nothing allocates. Inputs and outputs do not overlap.
 * Threads: pure functions of their arguments.
 * Numbers: NaN and infinity in give NaN or infinity out, so a check of the loss sees them. For
 *          finite logits every result is finite. A density narrower than exp(-20) may leave the
 *          floats: clamp log_std to [-20, 2], as is the custom.
 */
#ifndef AW_NN_LOSS_H
#define AW_NN_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* mean((y - target)^2) over n elements, as torch's mse_loss. dy [n]. */
double aw_loss_mse(const float *y, const float *target, size_t n, float *dy);

/* mean of torch's huber_loss: 0.5 e^2 where |e| <= delta, else delta (|e| - delta / 2). dy [n]. */
double aw_loss_huber(const float *y, const float *target, size_t n, float delta, float *dy);

/* Diagonal Gaussian. log N(x; mean, exp(log_std)) summed over D, one value per row: logp [B].
 * log_std has D entries shared by all rows (log_std_stride 0) or one row each (stride D). */
void aw_gaussian_log_prob(const float *x, const float *mean, const float *log_std,
                          size_t log_std_stride, uint32_t B, uint32_t D, float *logp);
/* Given dlogp [B]: writes dmean [B][D]; adds to dlog_std ([D] for stride 0, else [B][D]). The
 * gradient of x is minus that of mean. */
void aw_gaussian_log_prob_backward(const float *x, const float *mean, const float *log_std,
                                   size_t log_std_stride, const float *dlogp, uint32_t B,
                                   uint32_t D, float *dmean, float *dlog_std_add);
/* Entropy of one row, summed over D: sum(0.5 + 0.5 ln(2 pi) + log_std). Each log_std has
 * gradient 1. */
double aw_gaussian_entropy(const float *log_std, uint32_t D);

/* Categorical over N logits. log-softmax of each row; logp_all [B][N]. Stable for any finite input.
 */
void aw_categorical_log_softmax(const float *logits, uint32_t B, uint32_t N, float *logp_all);
/* Entropy per row from log-probabilities; entropy [B]. */
void aw_categorical_entropy(const float *logp_all, uint32_t B, uint32_t N, float *entropy);
/* Writes dlogits [B][N] for L = sum_b dlogp[b] * logp_all[b][index[b]] + dentropy[b] * entropy[b].
 * dentropy may be NULL, and then entropy too. An index beyond N is a bug. */
void aw_categorical_backward(const float *logp_all, const uint32_t *index, const float *dlogp,
                             const float *entropy, const float *dentropy, uint32_t B, uint32_t N,
                             float *dlogits);

/* KL(N(mean, std^2) || N(0, 1)) = -0.5 mean(1 + 2 log_std - mean^2 - std^2), mean over all n
 * elements, as the BCQ authors' VAE has it. Gradients are written. */
double aw_loss_vae_kl(const float *mean, const float *log_std, size_t n, float *dmean,
                      float *dlog_std);
/* Reparameterisation z = mean + exp(log_std) * noise, and its backward (adds to both). */
void aw_vae_sample(const float *mean, const float *log_std, const float *noise, size_t n, float *z);
void aw_vae_sample_backward(const float *log_std, const float *noise, const float *dz, size_t n,
                            float *dmean_add, float *dlog_std_add);

#endif
