/*
 * models.h - where shipped models are looked for.
 *
 * Memory:  a shelf is the caller's.
 * Threads: single owner.
 */
#ifndef AW_FALLBACK_MODELS_H
#define AW_FALLBACK_MODELS_H

#include "policy/pretrained.h"

/* A shelf over, in this order: `given` (NULL: not said), AWARE_MODELS, and what lies beside this
 * program, as `meson install` and a build folder in the source tree have it. */
AW_NODISCARD enum aw_err aw_models_open(const char *given, struct aw_model_shelf **ret_shelf,
                                        struct aw_diag *diag);

#endif
