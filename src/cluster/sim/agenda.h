/*
 * agenda.h - what happens next: a binary heap of times, one per thing, that can be moved.
 *
 * Memory: one block, sized at init for ids 0 .. id_count - 1. Each id has at most one time.
 */
#ifndef AW_CLUSTER_SIM_AGENDA_H
#define AW_CLUSTER_SIM_AGENDA_H

#include "base/alloc.h"

#define AW__AGENDA_NONE UINT32_MAX

struct aw__agenda {
    uint32_t count, id_count;
    double *time_us; /* [id_count] */
    uint32_t *place; /* [id_count]: in `heap`; AW__AGENDA_NONE: has no time */
    uint32_t *heap;  /* [id_count]: ids, earliest first */
};

AW_NODISCARD enum aw_err aw__agenda_init(struct aw__agenda *agenda, uint32_t id_count,
                                         const struct aw_alloc *alloc);
void aw__agenda_deinit(struct aw__agenda *agenda, const struct aw_alloc *alloc);
void aw__agenda_clear(struct aw__agenda *agenda);
void aw__agenda_set(struct aw__agenda *agenda, uint32_t id, double time_us);
void aw__agenda_remove(struct aw__agenda *agenda, uint32_t id); /* without a time: a no-op */
/* The earliest id; equal times go to the smaller id, so a run is reproducible. NONE when empty. */
static inline uint32_t aw__agenda_first(const struct aw__agenda *agenda)
{
    return agenda->count ? agenda->heap[0] : AW__AGENDA_NONE;
}

#endif
