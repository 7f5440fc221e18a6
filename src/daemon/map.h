/*
 * map.h - a daemon's map of its workloads: whose embeddings can be made, and the thread that
 * makes them.
 *
 * Call order: open, once the API is there; tell after each step; close before the settings or the
 *             API go.
 * Memory:     all at open; a map (pretrain/workload_map.h).
 * Threads:    open, tell and close are those of the loop. The thread inside works for a tenth of a
 *             core at most, and sleeps where no episode has ended.
 */
#ifndef AW_DAEMON_MAP_H
#define AW_DAEMON_MAP_H

#include "daemon/config.h"
#include "web/api.h"

struct aw__map; /* opaque */

/* The model is the first that a workload names and that can be read; workloads that name another
 * one, or see and act otherwise than it was taught, are left out. Without one, or without memory,
 * the API says what is missing, and the daemon goes on: `*ret` NULL. */
void aw__map_open(struct aw_daemon_config *config, struct aw_log *log, struct aw_api *api,
                  struct aw__map **ret);
void aw__map_close(struct aw__map *map); /* the API shows it no more; NULL is a no-op */

/* Workload `index` has finished so many episodes by now. Never waits. NULL is a no-op. */
void aw__map_tell(struct aw__map *map, uint32_t index, uint32_t episodes);

#endif
