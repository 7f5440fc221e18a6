/*
 * turns.h - how often the number of replicas changes, and how often a change is soon taken back.
 *
 * Kubernetes removes no replica within five minutes of wanting one more. That window is ours too:
 * who removes one within it has taken back what was just added.
 *
 * Memory:  a plain struct.
 * Threads: a pure function of its arguments.
 */
#ifndef AW_TASK_TURNS_H
#define AW_TASK_TURNS_H

#include <stdint.h>

#define AW_STABILISATION_S 300

/* The number of replicas from step to step. `replicas` 0: none is known yet. */
struct aw_replica_track {
    uint32_t replicas, unused;
    int64_t more_us, fewer_us; /* when there last came to be; AW_NEVER */
};

/* What a step did to the number of replicas; bits. */
enum aw_turn {
    AW_TURN_NONE = 0,
    AW_TURN_CHANGE = 1,  /* another number */
    AW_TURN_REMOVED = 2, /* fewer within AW_STABILISATION_S after more */
    AW_TURN_ADDED = 4,   /* more within it after fewer */
};

/* `replicas` are asked for at `now_us`: bits of enum aw_turn. */
uint32_t aw_replica_track_step(struct aw_replica_track *track, uint32_t replicas, int64_t now_us);

#endif
