/*
 * adam.h - Adam (Kingma and Ba, 2015) and AdamW, as torch.optim computes them.
 *
 * One loop over the flat block: moments, bias correction, update. Reads params->grad, leaves it as
 * it is (zero it before the next backward). Settings are doubles because 1 - 0.999f is 1e-5 off,
 * and PyTorch subtracts in double too.
 *
 * Memory:  none beyond params->m and ->v. Threads: single owner of `params`.
 * The same gradients give the same bits whether or not the processor has AVX2.
 */
#ifndef AW_NN_ADAM_H
#define AW_NN_ADAM_H

#include "nn/params.h"

struct aw_adam {
    double lr;
    double beta1, beta2; /* in [0, 1) */
    double eps;          /* above 0: the gaps of the block divide by it */
    double weight_decay;
    bool decoupled; /* true: AdamW, decay applied to the weights; false: L2 added to the gradient */
};

/* torch.optim.Adam's defaults with the given learning rate: 0.9, 0.999, 1e-8, no decay. */
struct aw_adam aw_adam_default(double lr);

void aw_adam_step(const struct aw_adam *adam, struct aw_params *params);

#endif
