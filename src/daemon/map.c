/* map.c - embeddings of a daemon's workloads, made beside its loop. */
#include "daemon/map.h"

#include "base/clock.h"
#include "base/threads.h"
#include "policy/models.h"
#include "pretrain/workload_map.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SLICE      4u      /* workloads between two pauses */
#define IDLE_US    1000000 /* between two looks where there is nothing to do */
#define PAUSE_US   100000  /* the longest piece of a pause: who closes it does not wait for more */
#define REST_TIMES 9       /* as long as a slice took: a tenth of a core at most */

struct aw__map {
    struct aw_api *api;
    struct aw_workload_map *workload_map;
    pthread_t thread;
    _Atomic bool stop;
};

/* --- whose ------------------------------------------------------------------------------------ */

/* The first that can be used. `missing` has why, where there is none. */
static const struct aw_pretrained *model_find(struct aw_daemon_config *ask, char *missing,
                                              size_t size)
{
    const char *before = NULL; /* most name the same one as the workload before them */
    struct aw_diag diag = {0};
    if (!ask->shelf && aw_models_open(ask->models, &ask->shelf, &diag)) {
        snprintf(missing, size, "%s", diag.text);
        return NULL;
    }
    snprintf(missing, size, "learning.model is 'none': nothing reads the episodes of a workload");
    for (uint32_t i = 0; i < ask->count; i++) {
        const char *what = ask->set.profiles[i].model;
        const struct aw_pretrained *model = NULL;
        if (before && strcmp(before, what) == 0)
            continue;
        before = what;
        const enum aw_err err = aw_model_shelf_get(ask->shelf, what, &model, &diag);
        if (!err && model)
            return model;
        if (err) {
            char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
            aw_diag_format(&diag, err, line, sizeof line);
            snprintf(missing, size, "no model can be used: %.*s", (int)size / 2, line);
        }
    }
    return NULL;
}

/* Who is read by it. A workload that does not learn has a place as well. */
static void workloads_fill(struct aw_daemon_config *ask, const struct aw_pretrained *model,
                           struct aw_workload_map_workload *ret)
{
    const struct aw_pretrained_info *info = aw_pretrained_info(model);
    const char *before = NULL;
    const struct aw_pretrained *named = NULL;
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct aw_pilot_config *pilot = &ask->workload[i].pilot;
        const char *what = ask->set.profiles[i].model;
        if (!before || strcmp(before, what) != 0) {
            named = NULL;
            if (aw_model_shelf_get(ask->shelf, what, &named, NULL))
                named = NULL;
        }
        before = what;
        ret[i] = (struct aw_workload_map_workload){.name = pilot->name,
                                                   .left_out = named != model ||
                                                               info->state != pilot->state ||
                                                               info->mapping != pilot->mapping};
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static void *work(void *ctx)
{
    struct aw__map *map = ctx;
    while (!map->stop) {
        const int64_t begin = aw_clock_monotonic_us(NULL);
        const uint32_t done = aw_workload_map_work(map->workload_map, begin, SLICE);
        const int64_t end = aw_clock_monotonic_us(NULL);
        const int64_t until = end + (done ? REST_TIMES * (end - begin) : IDLE_US);
        for (int64_t now = end; !map->stop && now < until; now = aw_clock_monotonic_us(NULL)) {
            const int64_t piece = now + PAUSE_US < until ? now + PAUSE_US : until;
            const enum aw_err err = aw_clock_sleep_until(NULL, piece);
            (void)err; /* interrupted or not, the loop looks again */
        }
    }
    return NULL;
}

/* --- opened and closed ------------------------------------------------------------------------ */

void aw__map_open(struct aw_daemon_config *ask, struct aw_log *log, struct aw_api *api,
                  struct aw__map **ret)
{
    char missing[AW_DIAG_TEXT_MAX] = "";
    struct aw_diag diag = {0};
    struct aw__map *map = NULL;
    struct aw_workload_map_workload *workloads = NULL;
    *ret = NULL;
    const struct aw_pretrained *model = model_find(ask, missing, sizeof missing);
    if (!model)
        goto out;
    map = aw_alloc_new(NULL, 1, sizeof *map);
    workloads = aw_alloc_new(NULL, ask->count, sizeof *workloads);
    if (!map || !workloads) {
        snprintf(missing, sizeof missing, "no memory for a map of workloads");
        goto out;
    }
    workloads_fill(ask, model, workloads);
    const struct aw_workload_map_config config = {.model = aw_pretrained_path(model),
                                                  .store = ask->store,
                                                  .workloads = workloads,
                                                  .count = ask->count};
    map->api = api;
    if (aw_workload_map_new(&config, NULL, &map->workload_map, &diag)) {
        snprintf(missing, sizeof missing, "%s", diag.text);
    } else if (aw_thread_begin(&map->thread, work, map)) {
        snprintf(missing, sizeof missing, "no thread to make embeddings on");
    } else {
        *ret = map;
        map = NULL;
    }
out:
    if (map)
        aw_workload_map_free(map->workload_map);
    aw_alloc_free(NULL, map);
    aw_alloc_free(NULL, workloads);
    if (!*ret)
        aw_log_info(log, "no map of workloads", AW_LOG_STR("why", missing));
    aw_api_map(api, *ret ? (*ret)->workload_map : NULL,
               model ? aw_pretrained_info(model)->name : "", missing);
}

void aw__map_close(struct aw__map *map)
{
    if (!map)
        return;
    map->stop = true;
    pthread_join(map->thread, NULL);
    aw_api_map(map->api, NULL, "", "settings are being taken over");
    aw_workload_map_free(map->workload_map);
    aw_alloc_free(NULL, map);
}

void aw__map_tell(struct aw__map *map, uint32_t index, uint32_t episodes)
{
    if (map)
        aw_workload_map_tell(map->workload_map, index, episodes);
}
