/* double_internal.h - what the two files of the double share. */
#ifndef AW_KUBE_DOUBLE_INTERNAL_H
#define AW_KUBE_DOUBLE_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>

#include "kube/double.h"

#define AW__DOUBLE_OBJECTS_MAX 4096u
#define AW__DOUBLE_HISTORY_MAX 65536u
#define AW__DOUBLE_LOG_MAX     8192u
#define AW__DOUBLE_FAULTS_MAX  16u
#define AW__DOUBLE_TEXT_MAX    1024u

struct aw__double_object {
    char collection[128], ns[64], name[128];
    json_t *json;
};

struct aw__double_change {
    uint64_t version;
    const char *type;
    char collection[128], ns[64];
    char *json;
};

struct aw__double_seen {
    char line[AW__DOUBLE_TEXT_MAX];
    json_t *body;
};

struct aw_double {
    struct MHD_Daemon *daemon;
    char url[64];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool stop;
    uint64_t version;     /* of the last change */
    uint64_t compacted;   /* versions below it are gone */
    uint64_t watch_epoch; /* watches of an older one end */
    int end_code;         /* and say this before; 0: nothing */
    char end_reason[64];
    uint64_t bookmark; /* how many there were */
    uint32_t watching;
    char token[128], denied[64];
    enum aw_double_resize resize; /* what nodes say */
    struct aw__double_object objects[AW__DOUBLE_OBJECTS_MAX];
    uint32_t object_count;
    struct aw__double_change history[AW__DOUBLE_HISTORY_MAX];
    uint32_t history_count;
    struct aw__double_seen log[AW__DOUBLE_LOG_MAX];
    uint32_t log_count;
    struct aw_double_fault faults[AW__DOUBLE_FAULTS_MAX];
    uint32_t fault_count;
};

/* "/apis/apps/v1/namespaces/a/deployments/b/scale", taken apart. */
struct aw__double_route {
    char collection[128], ns[64], name[128], sub[32];
};

json_t *aw__double_status(int code, const char *reason, const char *message);

void aw__double_merge(json_t *target, const json_t *patch); /* RFC 7396 */

/* The rest with the lock held. */
/* Edits a pod; NULL, or why it is refused: then `pod` is worth nothing. */
const char *aw__double_resize(struct aw_double *twin, json_t *pod, const json_t *patch);
struct aw__double_object *aw__double_find(struct aw_double *twin, const char *collection,
                                          const char *ns, const char *name);
void aw__double_store(struct aw_double *twin, const char *collection, json_t *json);
void aw__double_erase(struct aw_double *twin, struct aw__double_object *object);
json_t *aw__double_list(struct aw_double *twin, const struct aw__double_route *route,
                        uint64_t limit, const char *token, int *ret_status);
json_t *aw__double_write(struct aw_double *twin, const char *method,
                         const struct aw__double_route *route, const json_t *body, int *ret_status);
json_t *aw__double_read(struct aw_double *twin, const struct aw__double_route *route,
                        int *ret_status);

#endif
