/* fake_apiserver_internal.h - what the files of the fake API server share. */
#ifndef AW_DOUBLES_FAKE_APISERVER_INTERNAL_H
#define AW_DOUBLES_FAKE_APISERVER_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>

#include "doubles/fake_apiserver.h"

#define AW__FAKE_OBJECTS_MAX 4096u
#define AW__FAKE_HISTORY_MAX 65536u
#define AW__FAKE_LOG_MAX     8192u
#define AW__FAKE_FAULTS_MAX  16u
#define AW__FAKE_TEXT_MAX    1024u

struct aw__fake_object {
    char collection[128], ns[64], name[128];
    json_t *json;
};

struct aw__fake_change {
    uint64_t version;
    const char *type;
    char collection[128], ns[64];
    char *json;
};

struct aw__fake_seen {
    char line[AW__FAKE_TEXT_MAX];
    json_t *body;
};

struct aw_fake_apiserver {
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
    enum aw_fake_apiserver_resize resize; /* what nodes say */
    int64_t allocatable_milli[2];         /* cpu, memory; -1: anything */
    struct aw__fake_object objects[AW__FAKE_OBJECTS_MAX];
    uint32_t object_count;
    struct aw__fake_change history[AW__FAKE_HISTORY_MAX];
    uint32_t history_count;
    struct aw__fake_seen log[AW__FAKE_LOG_MAX];
    uint32_t log_count;
    struct aw_fake_apiserver_fault faults[AW__FAKE_FAULTS_MAX];
    uint32_t fault_count;
};

/* "/apis/apps/v1/namespaces/a/deployments/b/scale", taken apart. */
struct aw__fake_route {
    char collection[128], ns[64], name[128], sub[32];
};

json_t *aw__fake_status(int code, const char *reason, const char *message);

void aw__fake_merge(json_t *target, const json_t *patch); /* RFC 7396 */

/* The rest with the lock held. */
/* Edits a pod; NULL, or the Status of a refusal: then `pod` is worth nothing. */
json_t *aw__fake_resize(struct aw_fake_apiserver *twin, json_t *pod, const json_t *patch);
struct aw__fake_object *aw__fake_find(struct aw_fake_apiserver *twin, const char *collection,
                                      const char *ns, const char *name);
void aw__fake_store(struct aw_fake_apiserver *twin, const char *collection, json_t *json);
void aw__fake_erase(struct aw_fake_apiserver *twin, struct aw__fake_object *object);
json_t *aw__fake_list(struct aw_fake_apiserver *twin, const struct aw__fake_route *route,
                      uint64_t limit, const char *token, int *ret_status);
json_t *aw__fake_write(struct aw_fake_apiserver *twin, const char *method,
                       const struct aw__fake_route *route, const json_t *body, int *ret_status);
json_t *aw__fake_read(struct aw_fake_apiserver *twin, const struct aw__fake_route *route,
                      int *ret_status);

#endif
