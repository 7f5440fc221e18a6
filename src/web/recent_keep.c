/* recent_keep.c - what lately happened as a file, so that plots and sums outlive the process. */
#include "web/recent.h"

#include "base/alloc.h"
#include "base/envelope.h"
#include "base/file.h"

#include <string.h>

#define BYTES_MAX (2 * (size_t)AW_RECENT_BYTES_MAX)

struct head {
    uint64_t ticks;
    uint32_t count, fleets;
    uint64_t decisions[AW_ACTOR_COUNT][AW_RECENT_OUTCOME_COUNT];
    uint64_t clips[AW_CLIP_COUNT];
    uint64_t trips[AW_WATCHDOG_CAUSE_COUNT];
    uint64_t stages[AW_STAGE_COUNT];
};

/* One workload; its points and episodes follow, the oldest first, the episode under way last. */
struct kept {
    char name[AW_STORE_NAME_MAX];
    uint64_t policy_id, steps, missed, model_changes, stage_changes, replica_changes, taken_back;
    uint64_t outcomes[AW_RECENT_OUTCOME_COUNT];
    double reward, cost;
    struct aw_recent_beside beside;
    struct aw_replica_track track;
    uint64_t point_count, episode_count; /* of all time */
    uint32_t points, episodes;           /* that follow, without the one under way */
};

AW_LAYOUT(head_layout, struct head, 0, ticks, count, fleets, decisions, clips, trips, stages);
AW_LAYOUT(kept_layout, struct kept, 0, name, policy_id, steps, missed, model_changes, stage_changes,
          replica_changes, taken_back, outcomes, reward, cost, beside.steps, beside.missed,
          beside.twin_missed, beside.reward, beside.cost, beside.twin_reward, beside.twin_cost,
          track.replicas, track.unused, track.more_us, track.fewer_us, point_count, episode_count,
          points, episodes);
AW_LAYOUT(point_layout, struct aw_recent_point, 0, at_us, arrivals_per_s, latency_us, cpu_used,
          memory_used, cpu_millicores, memory_bytes, cost_per_hour, fallback_cost_per_hour, reward,
          twin_cost_per_hour, twin_latency_us, twin_reward, clips, ready, wanted, fallback_replicas,
          twin_replicas, stage, actor, outcome, flags);
AW_LAYOUT(episode_layout, struct aw_recent_episode, 0, end_us, policy_id, number, steps, missed,
          agent_steps, twin_steps, twin_missed, reward, twin_reward, cost, twin_cost, estimate, low,
          high, judged, judged_deviation, threshold, lambda, critic_loss, imitation_loss,
          copy_error, rounds, stage);
AW_LAYOUT(fleet_layout, struct aw_recent_fleet, 0, at_us, cost_per_hour, fallback_cost_per_hour,
          twin_cost_per_hour, arrivals_per_s, cpu_used, memory_used, total, missing, twin_missing,
          with_twin, frozen, held, changes, pending, stage);

static struct aw_format format = {
    .kind = "recent",
    .what = "what lately happened",
    .version = 1,
    .layout = {head_layout, kept_layout, point_layout, episode_layout, fleet_layout}};

/* Where bytes go to or come from; `at` grows beyond `size` where they do not fit. */
struct cursor {
    unsigned char *bytes; /* NULL: they are counted alone */
    size_t at, size;
};

static void put(struct cursor *c, const void *from, size_t size)
{
    if (c->bytes && c->at + size <= c->size)
        memcpy(c->bytes + c->at, from, size);
    c->at += size;
}

static bool take(struct cursor *c, void *to, size_t size)
{
    if (size > c->size - c->at)
        return false;
    memcpy(to, c->bytes + c->at, size);
    c->at += size;
    return true;
}

static bool is_kept(const struct aw_recent_one *one)
{
    return one->seen || one->loaded;
}

static void one_put(struct cursor *c, const struct aw_recent *watch,
                    const struct aw_recent_one *one)
{
    struct kept kept = {.policy_id = one->policy_id,
                        .steps = one->steps,
                        .missed = one->missed,
                        .model_changes = one->model_changes,
                        .stage_changes = one->stage_changes,
                        .replica_changes = one->replica_changes,
                        .taken_back = one->taken_back,
                        .reward = one->reward,
                        .cost = one->cost,
                        .beside = one->beside,
                        .track = one->track,
                        .point_count = one->point_count,
                        .episode_count = one->episode_count,
                        .points = aw_recent_points(watch, one),
                        .episodes = aw_recent_episodes(watch, one)};
    memcpy(kept.name, one->name, sizeof kept.name);
    memcpy(kept.outcomes, one->outcomes, sizeof kept.outcomes);
    put(c, &kept, sizeof kept);
    for (uint32_t i = 0; i < kept.points; i++)
        put(c, aw_recent_point(watch, one, i), sizeof(struct aw_recent_point));
    for (uint32_t i = 0; i < kept.episodes; i++)
        put(c, aw_recent_episode(watch, one, i), sizeof(struct aw_recent_episode));
    put(c, &one->open, sizeof one->open);
}

static void all_put(struct cursor *c, const struct aw_recent *watch)
{
    struct head head = {.ticks = watch->ticks, .fleets = aw_recent_fleets(watch)};
    for (uint32_t i = 0; i < watch->count; i++)
        head.count += is_kept(&watch->one[i]);
    memcpy(head.decisions, watch->decisions, sizeof head.decisions);
    memcpy(head.clips, watch->clips, sizeof head.clips);
    memcpy(head.trips, watch->trips, sizeof head.trips);
    memcpy(head.stages, watch->stages, sizeof head.stages);
    put(c, &head, sizeof head);
    for (uint32_t i = 0; i < head.fleets; i++)
        put(c, aw_recent_fleet(watch, i), sizeof(struct aw_recent_fleet));
    for (uint32_t i = 0; i < watch->count; i++)
        if (is_kept(&watch->one[i]))
            one_put(c, watch, &watch->one[i]);
}

enum aw_err aw_recent_save(struct aw_recent *watch, const char *path, struct aw_diag *diag)
{
    struct cursor sizing = {.at = sizeof(struct aw_envelope)};
    aw_recent_lock(watch);
    all_put(&sizing, watch);
    struct cursor writing = {.bytes = aw_alloc_new(NULL, sizing.at, 1),
                             .at = sizeof(struct aw_envelope),
                             .size = sizing.at};
    if (writing.bytes)
        all_put(&writing, watch);
    aw_recent_unlock(watch);
    if (!writing.bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to save %zu bytes", sizing.at);
    const enum aw_err err = aw_envelope_write(&format, 0, writing.bytes, writing.size, path, diag);
    aw_alloc_free(NULL, writing.bytes);
    return err;
}

/* The newest `keep` of `count` of a ring of `max`, as it keeps them. */
static bool ring_take(struct cursor *c, void *ring, uint32_t max, uint64_t count, uint32_t there,
                      size_t size)
{
    if (there > count || (size_t)there * size > c->size - c->at)
        return false;
    for (uint64_t i = count - there; i < count; i++) {
        void *to = (unsigned char *)ring + (i % max) * size;
        if (!take(c, to, size))
            return false;
    }
    return true;
}

/* What `count` of all time goes on from: where the ring was shorter, it begins with what it had. */
static uint64_t count_of(uint64_t count, uint32_t there, uint32_t max)
{
    return there < max && there < count ? there : count;
}

static bool one_take(struct cursor *c, struct aw_recent *watch, uint32_t index)
{
    struct kept kept;
    struct aw_recent_one *one = &watch->one[index];
    if (!take(c, &kept, sizeof kept) || !memchr(kept.name, 0, sizeof kept.name) || !*kept.name)
        return false;
    *one = (struct aw_recent_one){
        .ring = one->ring,
        .policy_id = kept.policy_id,
        .steps = kept.steps,
        .missed = kept.missed,
        .model_changes = kept.model_changes,
        .stage_changes = kept.stage_changes,
        .replica_changes = kept.replica_changes,
        .taken_back = kept.taken_back,
        .reward = kept.reward,
        .cost = kept.cost,
        .beside = kept.beside,
        .track = kept.track,
        .point_count = count_of(kept.point_count, kept.points, watch->points_max),
        .episode_count = count_of(kept.episode_count, kept.episodes, watch->episodes_max),
        .loaded = true};
    memcpy(one->name, kept.name, sizeof one->name);
    memcpy(one->outcomes, kept.outcomes, sizeof one->outcomes);
    return ring_take(c, &watch->point[(size_t)one->ring * watch->points_max], watch->points_max,
                     one->point_count, kept.points, sizeof *watch->point) &&
           ring_take(c, &watch->episode[(size_t)one->ring * watch->episodes_max],
                     watch->episodes_max, one->episode_count, kept.episodes,
                     sizeof *watch->episode) &&
           take(c, &one->open, sizeof one->open);
}

static bool all_take(struct cursor *c, struct aw_recent *watch)
{
    struct head head;
    if (!take(c, &head, sizeof head) || head.count > c->size / sizeof(struct kept) ||
        head.fleets > AW_RECENT_FLEET_MAX || !aw__recent_room(watch, head.count) ||
        !ring_take(c, watch->fleet, AW_RECENT_FLEET_MAX, head.fleets, head.fleets,
                   sizeof *watch->fleet))
        return false;
    watch->ticks = head.ticks;
    watch->fleet_count = head.fleets;
    memcpy(watch->decisions, head.decisions, sizeof head.decisions);
    memcpy(watch->clips, head.clips, sizeof head.clips);
    memcpy(watch->trips, head.trips, sizeof head.trips);
    memcpy(watch->stages, head.stages, sizeof head.stages);
    for (uint32_t i = 0; i < head.count; i++)
        if (!one_take(c, watch, i))
            return false;
    watch->named = head.count;
    return c->at == c->size;
}

/* As before the first tick; the room stays. */
static void forget(struct aw_recent *watch)
{
    for (uint32_t i = 0; i < watch->count; i++)
        watch->one[i] = (struct aw_recent_one){.ring = watch->one[i].ring};
    watch->named = 0;
    watch->fleet_count = watch->ticks = 0;
    memset(watch->decisions, 0, sizeof watch->decisions);
    memset(watch->clips, 0, sizeof watch->clips);
    memset(watch->trips, 0, sizeof watch->trips);
    memset(watch->stages, 0, sizeof watch->stages);
}

enum aw_err aw_recent_load(struct aw_recent *watch, const char *path, struct aw_diag *diag)
{
    char aside[AW_FILE_PATH_MAX];
    void *bytes = NULL;
    size_t size = 0;
    enum aw_err err = aw_envelope_read(&format, 0, path, BYTES_MAX, NULL, &bytes, &size, diag);
    if (err == AW_ERR_NOTFOUND)
        return AW_OK;
    if (!err) {
        struct cursor c = {.bytes = bytes, .at = sizeof(struct aw_envelope), .size = size};
        aw_recent_lock(watch);
        if (!all_take(&c, watch)) {
            forget(watch);
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "figures out of range");
        }
        aw_recent_unlock(watch);
    }
    aw_alloc_free(NULL, bytes);
    (void)aw_envelope_set_aside(path, err, aside, sizeof aside); /* it goes on without it */
    return err;
}
