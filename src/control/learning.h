/*
 * learning.h - threads on which rounds of learning run beside the ticks.
 *
 * Call order: init; begin where there is room; finished or wait, then the round is the caller's
 *             again; deinit.
 * Memory:     at init.
 * Threads:    single owner. Rounds run on threads of their own, first come, first served. Where
 *             they are `humble` the thread that ticks goes before them; not where it may have to
 *             wait for them.
 */
#ifndef AW_CONTROL_LEARNING_H
#define AW_CONTROL_LEARNING_H

#include <pthread.h>

#include "base/alloc.h"
#include "control/pilot_round.h"

struct aw__learning_place {
    struct aw_pilot_round *round; /* NULL: empty */
    uint64_t order;               /* number in which it was begun */
    enum { AW__LEARNING_WAITS, AW__LEARNING_RUNS, AW__LEARNING_DONE } state;
};

struct aw__learning {
    const struct aw_alloc *alloc;
    struct aw__learning_place *place; /* [max] */
    uint32_t max, used;
    pthread_t *thread; /* [thread_count] */
    uint32_t thread_count;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t next_order;
    bool humble;
    _Atomic bool stop; /* rounds give up */
    bool made;
};

/* On failure it is zeroed, of which deinit is a no-op. */
AW_NODISCARD enum aw_err aw__learning_init(struct aw__learning *learning, uint32_t threads,
                                           uint32_t rounds_max, bool humble,
                                           const struct aw_alloc *alloc);
/* Rounds that run give up; all are freed. */
void aw__learning_deinit(struct aw__learning *learning);

/* Rounds that there is room for. */
uint32_t aw__learning_room(const struct aw__learning *learning);
/* Takes the round over. There is room. Returns its place. */
uint32_t aw__learning_begin(struct aw__learning *learning, struct aw_pilot_round *round);
/* The round at `place`, which is empty then; NULL: it is not finished. */
struct aw_pilot_round *aw__learning_finished(struct aw__learning *learning, uint32_t place);
/* The same, once it is. */
struct aw_pilot_round *aw__learning_wait(struct aw__learning *learning, uint32_t place);

#endif
