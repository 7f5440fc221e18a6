/* informer.c - list, watch, and again; see informer.h. */
#include "kube/informer.h"

#include <stdio.h>
#include <string.h>

#include "kube/cache.h"
#include "kube/client_internal.h"

enum phase {
    PHASE_LIST,  /* the page after `token` is to be fetched */
    PHASE_OPEN,  /* a watch from `version` is to be opened */
    PHASE_WATCH, /* and its events are to be told */
};

struct aw_kube_informer {
    struct aw_kube *kube;
    struct aw_kube_informer_config config;
    struct aw_kube_informer_state state;
    struct aw__kube_cache cache;
    struct aw_kube_watch *watch;
    struct aw_kube_backoff backoff;
    enum phase phase;
    int64_t due_us;    /* of the phase; 0: at once */
    int64_t resync_us; /* the next; 0: never */
    int64_t opened_us; /* of the watch */
    uint64_t round;    /* of the list that is running, or was last */
    uint64_t lacking;  /* objects of this round that were left out or refused */
    uint64_t watch_events;
    uint32_t watch_failures;           /* in a row */
    char token[AW_KUBE_TOKEN_MAX];     /* "": the first page */
    char version[AW_KUBE_VERSION_MAX]; /* the last that was seen */
    _Alignas(8) char scratch[AW_KUBE_PROJECTION_MAX];
};

enum aw_err aw_kube_informer_open(struct aw_kube_informer **ret_informer, struct aw_kube *kube,
                                  const struct aw_kube_informer_config *config,
                                  struct aw_diag *diag)
{
    struct aw_kube_informer *informer = aw_alloc_new(kube->alloc, 1, sizeof *informer);
    if (!informer ||
        aw__kube_cache_init(
            &informer->cache, config->objects_max ? config->objects_max : AW_KUBE_OBJECTS_DEFAULT,
            config->bytes_max ? config->bytes_max : AW_KUBE_CACHE_BYTES, kube->alloc) != AW_OK) {
        aw_alloc_free(kube->alloc, informer);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to follow %s", config->query.kind->plural);
    }
    informer->kube = kube;
    informer->config = *config;
    informer->backoff = (struct aw_kube_backoff){AW_KUBE_FOLLOW_FIRST_US, AW_KUBE_FOLLOW_MAX_US, 0};
    *ret_informer = informer;
    return AW_OK;
}

void aw_kube_informer_close(struct aw_kube_informer *informer)
{
    if (!informer)
        return;
    aw_kube_watch_close(informer->watch);
    aw__kube_cache_deinit(&informer->cache);
    aw_alloc_free(informer->kube->alloc, informer);
}

static int64_t now_us(const struct aw_kube_informer *informer)
{
    return aw_clock_monotonic_us(informer->kube->options.clock);
}

static void tell(struct aw_kube_informer *informer, enum aw_kube_change change,
                 const struct aw__kube_item *before, const struct aw__kube_item *after)
{
    if (informer->config.changed)
        informer->config.changed(informer->config.ctx, change, before ? &before->view : NULL,
                                 after ? &after->view : NULL);
}

static void vanish(struct aw_kube_informer *informer, struct aw__kube_item *item)
{
    aw__kube_cache_take(&informer->cache, item);
    tell(informer, AW_KUBE_VANISHED, item, NULL);
    aw__kube_item_free(&informer->cache, item);
}

static void vanish_key(struct aw_kube_informer *informer, const char *key)
{
    struct aw__kube_item *item = aw__kube_cache_find(&informer->cache, key);
    if (item)
        vanish(informer, item);
}

/* An object as the server has it now. */
static void see(struct aw_kube_informer *informer, const json_t *object)
{
    struct aw_kube_meta meta;
    struct aw__kube_item *item, *old = NULL;
    char key[AW_KUBE_KEY_MAX];
    size_t len = 0;
    if (aw_kube_meta_read(object, &meta, NULL) != AW_OK) {
        informer->state.unreadable++;
        informer->lacking++;
        return;
    }
    aw_kube_meta_key(&meta, key, sizeof key);
    item = aw__kube_cache_find(&informer->cache, key);
    if (item && strcmp(item->view.uid, meta.uid) != 0) {
        vanish(informer, item); /* another object has taken its name */
        item = NULL;
    }
    if (item && meta.resource_version[0] &&
        !strcmp(item->view.resource_version, meta.resource_version)) {
        item->round = informer->round; /* a list that repeats what the watch had said */
        return;
    }
    if (informer->config.project &&
        informer->config.project(informer->config.ctx, object, informer->scratch,
                                 sizeof informer->scratch, &len) != AW_OK) {
        informer->state.unreadable++;
        informer->lacking++;
        vanish_key(informer, key);
        return;
    }
    AW_ASSERT(len <= sizeof informer->scratch);
    const struct aw_kube_item fresh = {key, meta.uid, meta.resource_version, informer->scratch,
                                       len};
    if (aw__kube_cache_put(&informer->cache, &fresh, informer->round, &item, &old) != AW_OK) {
        informer->state.left_out++;
        informer->lacking++;
        vanish_key(informer, key); /* what is old is worse than what is missing */
        return;
    }
    /* most updates of a pod are somebody's heartbeat, and nothing to us */
    const bool same = old && informer->config.project && old->view.len == item->view.len &&
                      !memcmp(old->view.data, item->view.data, item->view.len);
    if (!same)
        tell(informer, old ? AW_KUBE_CHANGED : AW_KUBE_APPEARED, old, item);
    aw__kube_item_free(&informer->cache, old);
}

/* What this round of the list has not seen is no longer there. Closing a gap moves items towards
 * it, so one that was not looked at yet never lands before `i`. */
static void sweep(struct aw_kube_informer *informer)
{
    struct aw__kube_cache *cache = &informer->cache;
    for (uint32_t i = 0; i < cache->places.places;) {
        struct aw__kube_item *item = aw__kube_cache_at(cache, i);
        if (item && item->round != informer->round)
            vanish(informer, item); /* another may have moved into this slot: look again */
        else
            i++;
    }
}

static void begin_list(struct aw_kube_informer *informer)
{
    informer->phase = PHASE_LIST;
    informer->token[0] = '\0';
    informer->watch_failures = 0;
}

/* Later, and later again. */
static void back_off(struct aw_kube_informer *informer, const struct aw_kube_status *status)
{
    informer->due_us =
        now_us(informer) +
        aw_kube_backoff_next(&informer->backoff, status->retry_after_us, &informer->kube->rng);
}

static enum aw_err step_list(struct aw_kube_informer *informer, struct aw_diag *diag)
{
    struct aw_kube_page page;
    struct aw_kube_status status;
    json_t *object = NULL;
    if (!informer->token[0]) {
        informer->round++;
        informer->lacking = 0;
        informer->state.lists++;
    }
    enum aw_err err = aw_kube_list_page(informer->kube, &informer->config.query, informer->token,
                                        &page, &status, diag);
    if (err) {
        if (aw_kube_status_is_gone(&status)) {
            informer->state.gone++;
            begin_list(informer);
        }
        back_off(informer, &status);
        return err;
    }
    informer->state.in_touch_us = now_us(informer);
    informer->due_us = 0;
    aw_kube_backoff_reset(&informer->backoff);
    while (!(err = aw_kube_slices_next(&page.items, &object, diag)) && object) {
        see(informer, object);
        json_decref(object);
    }
    if (err) {
        back_off(informer, &status); /* the page was no JSON to its end */
    } else if (strlen(page.next) >= sizeof informer->token) {
        err = aw_fail(diag, AW_ERR_LIMIT, "the server's token of a page is too long");
        back_off(informer, &status);
    } else if (page.next[0]) {
        snprintf(informer->token, sizeof informer->token, "%s", page.next);
    } else {
        snprintf(informer->version, sizeof informer->version, "%s", page.resource_version);
        sweep(informer);
        informer->state.synced = true;
        informer->state.complete = informer->lacking == 0;
        informer->phase = PHASE_OPEN;
        informer->watch_failures = 0;
    }
    aw_kube_page_deinit(&page);
    return err;
}

static enum aw_err step_open(struct aw_kube_informer *informer, struct aw_diag *diag)
{
    enum aw_err err = aw_kube_watch_open(&informer->watch, informer->kube, &informer->config.query,
                                         informer->version, diag);
    if (err) {
        back_off(informer, &(struct aw_kube_status){0});
        return err;
    }
    informer->state.watches++;
    informer->opened_us = now_us(informer);
    informer->watch_events = 0;
    informer->due_us = 0;
    informer->phase = PHASE_WATCH;
    return AW_OK;
}

/* The watch is over; what next depends on why. */
static void leave_watch(struct aw_kube_informer *informer, const struct aw_kube_status *status,
                        bool in_order)
{
    const int64_t lasted_us = now_us(informer) - informer->opened_us;
    const bool useful = informer->watch_events > 0 || lasted_us >= AW_KUBE_WATCH_SHORT_US;
    aw_kube_watch_close(informer->watch);
    informer->watch = NULL;
    informer->phase = PHASE_OPEN;
    informer->due_us = 0;
    if (aw_kube_status_is_gone(status)) {
        informer->state.gone++;
        begin_list(informer);
        back_off(informer, status); /* with jitter: all other clients lost their version, too */
        return;
    }
    if (in_order && useful) {
        aw_kube_backoff_reset(&informer->backoff);
        informer->watch_failures = 0;
        return;
    }
    informer->watch_failures = useful ? 0 : informer->watch_failures + 1;
    if (useful)
        aw_kube_backoff_reset(&informer->backoff);
    back_off(informer, status);
    /* refused thrice for no reason that we know: perhaps it is the version */
    if (informer->watch_failures >= AW_KUBE_WATCH_FAILURES_MAX && status->code != 429 &&
        status->code < 500 && status->code != 0)
        begin_list(informer);
}

static void take_event(struct aw_kube_informer *informer, const struct aw_kube_watch_event *event)
{
    struct aw_kube_meta meta;
    char key[AW_KUBE_KEY_MAX];
    informer->state.events++;
    informer->watch_events++;
    informer->state.in_touch_us = now_us(informer);
    if (event->type == AW_KUBE_ADDED || event->type == AW_KUBE_MODIFIED) {
        see(informer, event->object);
        informer->state.complete = informer->state.complete && informer->lacking == 0;
    } else if (event->type == AW_KUBE_DELETED &&
               aw_kube_meta_read(event->object, &meta, NULL) == AW_OK) {
        vanish_key(informer, aw_kube_meta_key(&meta, key, sizeof key));
    }
    snprintf(informer->version, sizeof informer->version, "%s", event->resource_version);
}

static enum aw_err step_watch(struct aw_kube_informer *informer, struct aw_diag *diag)
{
    struct aw_kube_watch_event event;
    struct aw_kube_status status;
    struct aw_diag said = {0};
    for (uint32_t i = 0; i < AW_KUBE_STEP_EVENTS; i++) {
        switch (aw_kube_watch_next(informer->watch, &event, &status, &said)) {
        case AW_KUBE_WATCH_IDLE:
            return AW_OK;
        case AW_KUBE_WATCH_ENDED: /* by the server: until now there was nothing more to tell */
            informer->state.in_touch_us = now_us(informer);
            leave_watch(informer, &status, true);
            return AW_OK;
        case AW_KUBE_WATCH_FAILED:
            leave_watch(informer, &status, false);
            return aw_fail(diag, status.code ? aw_kube_status_err(&status) : AW_ERR_UNAVAILABLE,
                           "the watch of %s broke off: %s", informer->config.query.kind->plural,
                           said.text);
        case AW_KUBE_WATCH_EVENT:
            if (event.type == AW_KUBE_ERROR) {
                json_decref(event.object);
                leave_watch(informer, &event.status, false);
                return aw_fail(diag, aw_kube_status_err(&event.status),
                               "the watch of %s was ended: %d %s%s%s",
                               informer->config.query.kind->plural, event.status.code,
                               aw_kube_reason_name(event.status.reason),
                               event.status.message[0] ? ": " : "", event.status.message);
            }
            take_event(informer, &event);
            json_decref(event.object);
            break;
        }
    }
    return AW_OK;
}

static void resync(struct aw_kube_informer *informer)
{
    const int64_t now = now_us(informer);
    if (!informer->config.resync_us || !informer->state.synced)
        return;
    if (informer->resync_us == 0)
        informer->resync_us = now + informer->config.resync_us;
    if (now < informer->resync_us)
        return;
    informer->resync_us = now + informer->config.resync_us;
    for (uint32_t i = 0; i < informer->cache.places.places; i++) {
        struct aw__kube_item *item = aw__kube_cache_at(&informer->cache, i);
        if (item)
            tell(informer, AW_KUBE_RESYNC, item, item);
    }
}

enum aw_err aw_kube_informer_step(struct aw_kube_informer *informer, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    if (informer->phase == PHASE_WATCH)
        err = step_watch(informer, diag);
    if (!err && informer->phase != PHASE_WATCH && informer->due_us <= now_us(informer))
        err = informer->phase == PHASE_LIST ? step_list(informer, diag) : step_open(informer, diag);
    resync(informer);
    informer->state.objects = informer->cache.places.count;
    informer->state.bytes = informer->cache.bytes;
    return err;
}

int64_t aw_kube_informer_due(const struct aw_kube_informer *informer)
{
    const int64_t resync = informer->resync_us ? informer->resync_us : INT64_MAX;
    if (informer->phase == PHASE_WATCH)
        return resync;
    return informer->due_us < resync ? informer->due_us : resync;
}

const struct aw_kube_informer_state *aw_kube_informer_state(const struct aw_kube_informer *informer)
{
    return &informer->state;
}

const struct aw_kube_item *aw_kube_informer_find(const struct aw_kube_informer *informer,
                                                 const char *key)
{
    const struct aw__kube_item *item = aw__kube_cache_find(&informer->cache, key);
    return item ? &item->view : NULL;
}

const struct aw_kube_item *aw_kube_informer_walk(const struct aw_kube_informer *informer,
                                                 uint32_t *at)
{
    while (*at < informer->cache.places.places) {
        const struct aw__kube_item *item = aw__kube_cache_at(&informer->cache, (*at)++);
        if (item)
            return &item->view;
    }
    return NULL;
}
