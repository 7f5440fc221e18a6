/*
 * fake_apiserver.h - a strict small API server for tests: objects, lists, watches, and faults on
 * demand.
 *
 * It keeps JSON objects in memory as etcd would: one resourceVersion for all, a history for
 * watches, pages by token, conflicts by version. Strict: what a real server would refuse (an
 * unknown query parameter, a wrong content type, a name that is not the path's) is refused with a
 * Status. Not a Kubernetes: no schemas, no admission, no controllers, no field selectors. A kind
 * needs no definition; one that is put in shows in the discovery of its group.
 *
 * Call order: open; point a client at `url`; change things; close after the client.
 * Memory:     the process heap. Threads: one per connection; every function here may be called
 *             while they run.
 */
#ifndef AW_DOUBLES_FAKE_APISERVER_H
#define AW_DOUBLES_FAKE_APISERVER_H

#include <aware/err.h>

#include <jansson.h>

struct aw_fake_apiserver;

/* What goes wrong, for the next `count` requests whose "METHOD path?query" begins with `match`. */
struct aw_fake_apiserver_fault {
    const char *match;    /* "GET /api/v1/pods"; borrowed */
    uint32_t count;       /* UINT32_MAX: until cleared */
    int status;           /* answer this; 0: see below */
    const char *reason;   /* of the Status; borrowed */
    const char *message;  /* likewise; NULL: some text */
    int retry_after_s;    /* header; 0: none */
    bool cut;             /* the connection breaks in the middle of the answer */
    bool rubbish;         /* 200, and not JSON */
    uint32_t slow_ms;     /* before the answer */
    uint32_t watch_lines; /* with cut: a watch breaks off in the middle of the line after these */
};

struct aw_fake_apiserver *aw_fake_apiserver_open(void); /* NULL: no port, no memory */
void aw_fake_apiserver_close(struct aw_fake_apiserver *twin);
const char *aw_fake_apiserver_url(const struct aw_fake_apiserver *twin);

/* Requests without "Bearer `token`" are 401 from now on; NULL: all may. Copied. */
void aw_fake_apiserver_token(struct aw_fake_apiserver *twin, const char *token);
/* Access reviews of this resource say no from now on, as those of secrets always do. Copied. */
void aw_fake_apiserver_deny(struct aw_fake_apiserver *twin, const char *resource);
/* What nodes make of resizes from now on (fake_apiserver_resize.c). */
enum aw_fake_apiserver_resize {
    AW_FAKE_RESIZE_DONE,
    AW_FAKE_RESIZE_IN_PROGRESS,
    AW_FAKE_RESIZE_DEFERRED,
    AW_FAKE_RESIZE_INFEASIBLE,
    AW_FAKE_RESIZE_ERROR, /* in progress, and the node fails at it */
};
void aw_fake_apiserver_nodes_resize(struct aw_fake_apiserver *twin,
                                    enum aw_fake_apiserver_resize resize);
/* What a node has to give: a resize beyond it is 403. -1: nobody asks, as at the start. */
void aw_fake_apiserver_allocatable(struct aw_fake_apiserver *twin, int64_t cpu_millicores,
                                   int64_t memory_bytes);
void aw_fake_apiserver_fault(struct aw_fake_apiserver *twin,
                             const struct aw_fake_apiserver_fault *fault);
void aw_fake_apiserver_clear_faults(struct aw_fake_apiserver *twin);

/* Creates or replaces an object: `collection` is "/api/v1/pods" or "/apis/apps/v1/deployments".
 * Steals nothing; the text is JSON with metadata.name and, where there is one, .namespace. */
void aw_fake_apiserver_set(struct aw_fake_apiserver *twin, const char *collection,
                           const char *json);
void aw_fake_apiserver_remove(struct aw_fake_apiserver *twin, const char *collection,
                              const char *ns, const char *name);
/* The object as it is now, the caller's to decref; NULL: none. */
json_t *aw_fake_apiserver_get(struct aw_fake_apiserver *twin, const char *collection,
                              const char *ns, const char *name);

/* Forgets the history: versions and tokens of before are 410. */
void aw_fake_apiserver_compact(struct aw_fake_apiserver *twin);
void aw_fake_apiserver_bookmark(struct aw_fake_apiserver *twin);    /* to every watch */
void aw_fake_apiserver_end_watches(struct aw_fake_apiserver *twin); /* in good order */
/* Ends every watch with an ERROR event of that code and reason. */
void aw_fake_apiserver_error_watches(struct aw_fake_apiserver *twin, int code, const char *reason);

/* Requests so far whose "METHOD path?query" begins with `match`. */
uint32_t aw_fake_apiserver_count(struct aw_fake_apiserver *twin, const char *match);
/* Watches that are open now. */
uint32_t aw_fake_apiserver_watching(struct aw_fake_apiserver *twin);
/* The last body that came with a matching request, the caller's to decref; NULL: none. */
json_t *aw_fake_apiserver_body(struct aw_fake_apiserver *twin, const char *match);

#endif
