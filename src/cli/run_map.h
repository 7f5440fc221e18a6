/*
 * run_map.h - a daemon's map of its workloads: whose embeddings can be made, and the thread that
 * makes them.
 *
 * Call order: open, once the API is there; tell after each step; close before the settings or the
 *             API go.
 * Memory:     all at open; an atlas (pretrain/atlas.h).
 * Threads:    open, tell and close are those of the loop. The thread inside works for a tenth of a
 *             core at most, and sleeps where no episode has ended.
 */
#ifndef AW_CLI_RUN_MAP_H
#define AW_CLI_RUN_MAP_H

#include "cli/run.h"
#include "web/api.h"

struct aw__runmap; /* opaque */

/* The model is the first that a workload names and that can be read; workloads that name another
 * one, or see and act otherwise than it was taught, are left out. Without one, or without memory,
 * the API is told what is missing, and the daemon goes on: `*ret` NULL. */
void aw__runmap_open(const struct aw_call *run, struct aw_runask *ask, struct aw_api *api,
                     struct aw__runmap **ret);
void aw__runmap_close(struct aw__runmap *map); /* the API shows it no more; NULL is a no-op */

/* Workload `index` has finished so many episodes by now. Never waits. NULL is a no-op. */
void aw__runmap_tell(struct aw__runmap *map, uint32_t index, uint32_t episodes);

#endif
