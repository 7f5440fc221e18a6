/*
 * double.h - a strict small API server for tests: objects, lists, watches, and faults on demand.
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
#ifndef AW_KUBE_DOUBLE_H
#define AW_KUBE_DOUBLE_H

#include <aware/err.h>

#include <jansson.h>

struct aw_double;

/* What goes wrong, for the next `count` requests whose "METHOD path?query" begins with `match`. */
struct aw_double_fault {
    const char *match;    /* "GET /api/v1/pods"; borrowed */
    uint32_t count;       /* UINT32_MAX: until cleared */
    int status;           /* answer this; 0: see below */
    const char *reason;   /* of the Status; borrowed */
    int retry_after_s;    /* header; 0: none */
    bool cut;             /* the connection breaks in the middle of the answer */
    bool rubbish;         /* 200, and not JSON */
    uint32_t slow_ms;     /* before the answer */
    uint32_t watch_lines; /* with cut: a watch breaks off in the middle of the line after these */
};

struct aw_double *aw_double_open(void); /* NULL: no port, no memory */
void aw_double_close(struct aw_double *twin);
const char *aw_double_url(const struct aw_double *twin);

/* Requests without "Bearer `token`" are 401 from now on; NULL: all may. Copied. */
void aw_double_token(struct aw_double *twin, const char *token);
/* Access reviews of this resource say no from now on, as those of secrets always do. Copied. */
void aw_double_deny(struct aw_double *twin, const char *resource);
/* What nodes make of resizes from now on (double_resize.c). */
enum aw_double_resize {
    AW_DOUBLE_RESIZE_DONE,
    AW_DOUBLE_RESIZE_IN_PROGRESS,
    AW_DOUBLE_RESIZE_DEFERRED,
    AW_DOUBLE_RESIZE_INFEASIBLE,
};
void aw_double_nodes_resize(struct aw_double *twin, enum aw_double_resize resize);
void aw_double_fault(struct aw_double *twin, const struct aw_double_fault *fault);
void aw_double_clear_faults(struct aw_double *twin);

/* Creates or replaces an object: `collection` is "/api/v1/pods" or "/apis/apps/v1/deployments".
 * Steals nothing; the text is JSON with metadata.name and, where there is one, .namespace. */
void aw_double_set(struct aw_double *twin, const char *collection, const char *json);
void aw_double_remove(struct aw_double *twin, const char *collection, const char *ns,
                      const char *name);
/* The object as it is now, the caller's to decref; NULL: none. */
json_t *aw_double_get(struct aw_double *twin, const char *collection, const char *ns,
                      const char *name);

/* Forgets the history: versions and tokens of before are 410. */
void aw_double_compact(struct aw_double *twin);
void aw_double_bookmark(struct aw_double *twin);    /* to every watch */
void aw_double_end_watches(struct aw_double *twin); /* in good order */
/* Ends every watch with an ERROR event of that code and reason. */
void aw_double_error_watches(struct aw_double *twin, int code, const char *reason);

/* Requests so far whose "METHOD path?query" begins with `match`. */
uint32_t aw_double_count(struct aw_double *twin, const char *match);
/* Watches that are open now. */
uint32_t aw_double_watching(struct aw_double *twin);
/* The last body that came with a matching request, the caller's to decref; NULL: none. */
json_t *aw_double_body(struct aw_double *twin, const char *match);

#endif
