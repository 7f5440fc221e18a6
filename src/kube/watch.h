/*
 * watch.h - lists in pages and watches: how a client follows a collection.
 *
 * Call order: list pages until there is no next one; then watch from the list's resourceVersion;
 *             watch_next until it says ended, failed or gone; watch_close.
 * Memory:     a page and an event own a jansson value. A watch keeps at most AW_KUBE_LINE_MAX of
 *             unread bytes and holds the server back before that.
 * Threads:    those of the client.
 *
 * The trap: a resourceVersion is opaque and expires. After `gone` only a new list helps; what was
 * deleted meanwhile is found by its absence (informer.h does that).
 */
#ifndef AW_KUBE_WATCH_H
#define AW_KUBE_WATCH_H

#include "kube/client.h"

#define AW_KUBE_PAGE_ITEMS 250u              /* of a list; 500 pods are 4 MB of JSON */
#define AW_KUBE_LINE_MAX   ((size_t)8 << 20) /* of one event; etcd takes objects of 1.5 MiB */
/* A watch is asked to end after so long. client-go waits 5 to 10 minutes; but a server says nothing
 * at all, not even a bookmark, of a kind of which nothing has changed since it began (seen with
 * 1.20), and a watch that ends in good order is then the only sign that it lives. */
#define AW_KUBE_WATCH_MIN_S     60u
#define AW_KUBE_WATCH_MAX_S     120u
#define AW_KUBE_WATCH_GRACE_US  30000000 /* and is ended by us so long after that */
#define AW_KUBE_LIST_TIMEOUT_US 20000000

/* What to list or watch. */
struct aw_kube_query {
    const struct aw_kube_kind *kind;
    const char *ns;     /* NULL: all namespaces */
    const char *labels; /* a selector; NULL: all */
    const char *fields; /* "spec.nodeName=a"; NULL: all */
    uint32_t limit;     /* items of a page; 0: AW_KUBE_PAGE_ITEMS */
};

struct aw_kube_page {
    json_t *body;
    struct aw_kube_slices items;  /* in the client's memory, until its next request */
    const char *resource_version; /* of the collection, in `body` */
    const char *next;             /* the token of the next page, in `body`; "": this is the last */
};
/* One page; `token` NULL is the first. A token that has expired is AW_ERR_NODATA with a status that
 * is gone: begin anew; `ret_status` may be NULL. One attempt: the caller paces itself. */
AW_NODISCARD enum aw_err aw_kube_list_page(struct aw_kube *kube, const struct aw_kube_query *query,
                                           const char *token, struct aw_kube_page *ret_page,
                                           struct aw_kube_status *ret_status, struct aw_diag *diag);
void aw_kube_page_deinit(struct aw_kube_page *page); /* zeroed is a no-op */

/* All pages, for a caller that needs a collection once. `begin` is called before the first object,
 * and again when a token expired on the way: what was seen is then worth nothing. */
struct aw_kube_visitor {
    void (*begin)(void *ctx);
    /* An error ends the list. It asks nothing of the same client. */
    enum aw_err (*object)(void *ctx, const json_t *object);
    void *ctx;
};
#define AW_KUBE_LIST_RESTARTS_MAX 3u
AW_NODISCARD enum aw_err aw_kube_list(struct aw_kube *kube, const struct aw_kube_query *query,
                                      const struct aw_kube_visitor *visitor, struct aw_diag *diag);

enum aw_kube_event_type {
    AW_KUBE_ADDED,
    AW_KUBE_MODIFIED,
    AW_KUBE_DELETED,
    AW_KUBE_BOOKMARK, /* only the resourceVersion has moved */
    AW_KUBE_ERROR,    /* the watch is over; see status */
};

struct aw_kube_watch_event {
    enum aw_kube_event_type type;
    json_t *object;               /* the caller's to decref */
    const char *resource_version; /* in `object`; "" for an error */
    struct aw_kube_status status; /* of an error */
};
/* One line of a watch. AW_ERR_FORMAT; `ret_event` is untouched on failure. */
AW_NODISCARD enum aw_err aw_kube_watch_decode(const char *line, size_t len,
                                              struct aw_kube_watch_event *ret_event,
                                              struct aw_diag *diag);

struct aw_kube_watch; /* belongs to its client, has a connection of its own */

/* Begins at `resource_version`. Does not wait for the answer. AW_ERR_LIMIT: too many watches. */
AW_NODISCARD enum aw_err aw_kube_watch_open(struct aw_kube_watch **ret_watch, struct aw_kube *kube,
                                            const struct aw_kube_query *query,
                                            const char *resource_version, struct aw_diag *diag);
void aw_kube_watch_close(struct aw_kube_watch *watch); /* NULL is a no-op */

enum aw_kube_watch_state {
    AW_KUBE_WATCH_EVENT,  /* there is one in `ret_event` */
    AW_KUBE_WATCH_IDLE,   /* nothing has come; aw_kube_wait */
    AW_KUBE_WATCH_ENDED,  /* the server ended it in good order: watch on from the last version */
    AW_KUBE_WATCH_FAILED, /* broken off, or refused: see `ret_status` and the diagnostic */
};
/* Never waits. A line that was cut off in the middle is dropped: its event comes again. */
enum aw_kube_watch_state aw_kube_watch_next(struct aw_kube_watch *watch,
                                            struct aw_kube_watch_event *ret_event,
                                            struct aw_kube_status *ret_status,
                                            struct aw_diag *diag);

#endif
