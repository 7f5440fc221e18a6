/* turns.c - changes of a number of replicas, and those that are soon taken back. */
#include "task/turns.h"

#include <stdbool.h>

#include <aware/cluster.h>

uint32_t aw_replica_track_step(struct aw_replica_track *track, uint32_t replicas, int64_t now_us)
{
    const int64_t window_us = (int64_t)AW_STABILISATION_S * 1000000;
    if (track->replicas == 0) {
        *track = (struct aw_replica_track){
            .replicas = replicas, .more_us = AW_NEVER, .fewer_us = AW_NEVER};
        return AW_TURN_NONE;
    }
    if (replicas == track->replicas)
        return AW_TURN_NONE;
    const bool more = replicas > track->replicas;
    const int64_t other_us = more ? track->fewer_us : track->more_us;
    const bool back = other_us != AW_NEVER && now_us - other_us < window_us;
    *(more ? &track->more_us : &track->fewer_us) = now_us;
    track->replicas = replicas;
    return AW_TURN_CHANGE | (back ? more ? AW_TURN_ADDED : AW_TURN_REMOVED : AW_TURN_NONE);
}
