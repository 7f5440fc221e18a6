/*
 * pilot_round.h - a round of learning that runs beside the ticks of its workload.
 *
 * The round has a pilot of its own, a copy of the workload's as it was when the round began, and
 * learns with that; the workload's pilot observes and decides meanwhile. At the end the result is
 * taken over, unless the workload has changed since: a person made it forget, its stage or its
 * policy changed, or a policy is on trial. Then the result is dropped, and learning is due again.
 *
 * Call order: new on the thread that ticks, run on any one, then take on the thread that ticks, at
 *             most once; free when run has returned, or was never called.
 * Memory:     a pilot's, and what learning takes.
 * Threads:    between new and take the round shares nothing with its workload's pilot.
 */
#ifndef AW_CONTROL_PILOT_ROUND_H
#define AW_CONTROL_PILOT_ROUND_H

#include "control/pilot.h"

struct aw_pilot_round; /* opaque */

/* `store` (may be NULL) is read here and not later. On failure the pilot is as it was. */
AW_NODISCARD enum aw_err aw_pilot_round_new(struct aw_pilot *pilot, struct aw_store *store,
                                            struct aw_pilot_round **ret_round,
                                            struct aw_diag *diag);
/* Again, from what aw_pilot_round_bytes gave: the same result. AW_ERR_FORMAT: of a pilot with
 * another config, or of another build. */
AW_NODISCARD enum aw_err aw_pilot_round_again(const struct aw_pilot *pilot, const void *bytes,
                                              size_t size, struct aw_store *store,
                                              struct aw_pilot_round **ret_round,
                                              struct aw_diag *diag);
void aw_pilot_round_free(struct aw_pilot_round *round); /* NULL is a no-op */

/* Takes long. `stop` (may be NULL) becomes true: it ends soon, and has learned nothing. */
void aw_pilot_round_run(struct aw_pilot_round *round, const _Atomic bool *stop);
/* What aw_pilot_learn returns, or AW_ERR_CONFLICT: the question has changed, and it is due again.
 */
AW_NODISCARD enum aw_err aw_pilot_round_take(struct aw_pilot *pilot, struct aw_pilot_round *round);

/* What it began from; lives as long as the round. */
const void *aw_pilot_round_bytes(const struct aw_pilot_round *round, size_t *ret_size);
double aw_pilot_round_took_s(const struct aw_pilot_round *round); /* real; after run */

#endif
