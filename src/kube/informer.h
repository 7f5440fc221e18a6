/*
 * informer.h - a collection of the cluster, kept up to date, of which only what we use is kept.
 *
 * Lists in pages, then watches; when the watch ends it goes on from the last version it saw; when
 * that version is gone it lists again, and what the new list lacks is reported as deleted. Every
 * object passes a projection that turns the JSON into a few bytes; the JSON is dropped.
 *
 * Call order: open; then, in the owner's loop, step each informer and aw_kube_wait until the
 *             earliest `due`; close before the client.
 * Memory:     an index sized at open for `objects_max`, and one block per object, all blocks
 *             together within `bytes_max`. What does not fit is counted and left out, and
 *             `complete` says so: a caller that sees half of a workload must not act on it.
 * Threads:    those of the client. Nothing waits in step but the request of one page.
 *
 * The trap: an item lives until the handler of its deletion returns. Keep keys, not items.
 */
#ifndef AW_KUBE_INFORMER_H
#define AW_KUBE_INFORMER_H

#include "kube/backoff.h"
#include "kube/watch.h"

#define AW_KUBE_OBJECTS_DEFAULT    65536u
#define AW_KUBE_CACHE_BYTES        ((size_t)64 << 20)
#define AW_KUBE_PROJECTION_MAX     65536u /* bytes that may be kept of one object */
#define AW_KUBE_STEP_EVENTS        1000u  /* events of one step; then other informers run */
#define AW_KUBE_TOKEN_MAX          4096u  /* of the token of a page, with its NUL */
#define AW_KUBE_FOLLOW_FIRST_US    500000 /* before a list or watch is tried again */
#define AW_KUBE_FOLLOW_MAX_US      30000000
#define AW_KUBE_WATCH_SHORT_US     1000000 /* a watch that ended sooner was no success */
#define AW_KUBE_WATCH_FAILURES_MAX 3u      /* in a row, without an event: list anew */

/* One object as the cache keeps it. */
struct aw_kube_item {
    const char *key; /* "namespace/name" */
    const char *uid;
    const char *resource_version;
    const void *data; /* what the projection made; aligned to 8 */
    size_t len;
};

enum aw_kube_change {
    AW_KUBE_APPEARED,
    AW_KUBE_CHANGED,
    AW_KUBE_VANISHED,
    AW_KUBE_RESYNC, /* nothing has changed; look again */
};

struct aw_kube_informer_config {
    struct aw_kube_query query; /* its texts are borrowed until close */
    /* Writes what is to be kept of `object` into `buf`. An error leaves the object out, counted as
     * unreadable. NULL: only key, uid and version are kept. */
    enum aw_err (*project)(void *ctx, const json_t *object, void *buf, size_t size,
                           size_t *ret_len);
    /* `before` is NULL for what appeared, `after` for what vanished; an update that leaves all that
     * is kept as it was is not told. May send requests; must not step or close this informer. May
     * be NULL. */
    void (*changed)(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                    const struct aw_kube_item *after);
    void *ctx;
    uint32_t objects_max; /* 0: AW_KUBE_OBJECTS_DEFAULT */
    size_t bytes_max;     /* of items; 0: AW_KUBE_CACHE_BYTES */
    int64_t resync_us;    /* 0: never */
};

/* How well the copy is. */
struct aw_kube_informer_state {
    bool synced;         /* has seen a whole list */
    bool complete;       /* and nothing of it was left out */
    int64_t in_touch_us; /* monotonic: when the server was last heard on this matter; 0: never */
    uint32_t objects;    /* kept */
    size_t bytes;        /* of them */
    uint64_t lists, watches; /* begun */
    uint64_t events;         /* of watches, bookmarks too */
    uint64_t gone;           /* versions and tokens that had expired */
    uint64_t left_out;       /* objects for which there was no room */
    uint64_t unreadable;     /* objects that the projection refused */
};

struct aw_kube_informer;

/* Sends nothing yet. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_kube_informer_open(struct aw_kube_informer **ret_informer,
                                               struct aw_kube *kube,
                                               const struct aw_kube_informer_config *config,
                                               struct aw_diag *diag);
void aw_kube_informer_close(struct aw_kube_informer *informer); /* NULL is a no-op */

/* Does what is due: a page, a watch to be opened, events to be told. An error is for the log: the
 * informer tries again by itself, later and later. */
AW_NODISCARD enum aw_err aw_kube_informer_step(struct aw_kube_informer *informer,
                                               struct aw_diag *diag);
/* Monotonic time of the next step that is due even if nothing comes; 0: now. */
int64_t aw_kube_informer_due(const struct aw_kube_informer *informer);

const struct aw_kube_informer_state *
aw_kube_informer_state(const struct aw_kube_informer *informer);
/* NULL: not there. Valid until the next step. */
const struct aw_kube_item *aw_kube_informer_find(const struct aw_kube_informer *informer,
                                                 const char *key);
/* Walks all items, in no order: begin with *at = 0; NULL at the end. */
const struct aw_kube_item *aw_kube_informer_walk(const struct aw_kube_informer *informer,
                                                 uint32_t *at);

#endif
