/*
 * api.h - the local API, version 1: a request in, an answer out (docs/mechanisms/api.md).
 *
 * Call order: init once a desk is there; answer from any thread; tick after every tick of the
 *             loop; views whenever a snapshot for a stopped daemon is wanted; deinit.
 * Memory:     an answer is malloc'd: aw_api_response_deinit. JSON is jansson's.
 * Threads:    answer, tick and views lock what they read: the desk's lock for the loop's
 * present, a lock of its own for what tick told. Never both for long: whatever reads files or takes
 * decisions again does so without them.
 *
 * Nothing here knows sockets: the server fills a request and sends the answer (server.h).
 *
 * The trap: an answer with status 400 is AW_OK here. Only AW_ERR_NOMEM means that there is no
 * answer.
 */
#ifndef AW_WEB_API_H
#define AW_WEB_API_H

#include <pthread.h>

#include "base/clock.h"
#include "desk/desk.h"
#include "pretrain/workload_map.h"
#include "web/recent.h"
#include "web/tick_timing.h"

#define AW_API_PATH_MAX         2048u      /* bytes of path and query, with the NUL */
#define AW_API_BODY_MAX         (1u << 20) /* bytes */
#define AW_API_PAGE             100u       /* of a list that names no limit */
#define AW_API_PAGE_MAX         1000u
#define AW_API_EXPORT_LINES     10000u
#define AW_API_EXPORT_LINES_MAX 100000u
#define AW_API_EXPORT_BYTES_MAX (64u << 20)
#define AW_API_AUDIT_LINES_MAX  200000u /* looked through for one answer */
#define AW_API_RECENT           10u     /* entries in a description */
#define AW_API_VERSION          1
#define AW_API_HEADER_MAX       256u
#define AW_API_MODEL_MAX        64u /* bytes of a model's name, with the NUL */

struct aw_metrics;
struct aw_service_desk;

/* What a daemon tells of itself. */
struct aw_api_config {
    struct aw_desk *desk;             /* borrowed; NULL: one will come (aw_api_switch) */
    struct aw_service_desk *services; /* borrowed; NULL: workloads, of `desk` */
    const struct aw_clock *clock;     /* NULL: the real one */
    const struct aw_disk *disk;       /* of the audit log; NULL: the machine's */
    char version[32];
    char cluster[AW_CLUSTER_NAME_MAX];
    char state[AW_DISK_PATH_MAX];   /* folder */
    char audit[AW_DISK_PATH_MAX];   /* folder */
    char store[AW_DISK_PATH_MAX];   /* for aw_store_open; "" and "memory": none to read beside */
    char reports[AW_DISK_PATH_MAX]; /* folder of reports to show; "": none */
    struct aw_tick_timing *timing;  /* borrowed; NULL: not measured */
    /* Adds further families to an answer of /metrics; any thread. May be NULL. */
    void (*more)(void *ctx, struct aw_metrics *metrics);
    void *ctx;
    bool virtual_time; /* the loop's time is not the clock's */
    double speed;      /* simulated over real; INFINITY: as fast as it goes */
    double step_s;
    double stuck_s; /* real seconds without a tick that are too many; 0: never */
};

struct aw_api {
    struct aw_api_config config;
    pthread_rwlock_t gate; /* held while an answer is made: switching waits for that */
    int64_t started_us, started_mono_us;
    struct aw_recent watch;             /* what lately happened; a lock of its own */
    struct aw_agent_exchange *exchange; /* borrowed; behind the gate; NULL: no external agents */
    struct aw_workload_map *map; /* borrowed; behind the gate, as the two that follow; NULL: none */
    char map_model[AW_API_MODEL_MAX];
    char map_missing[AW_DIAG_TEXT_MAX]; /* why there is no map */

    pthread_mutex_t lock;  /* of what follows */
    pthread_cond_t ticked; /* a tick is over, or waiters must look again */
    uint64_t tick_serial;
    struct aw_loop_counts counts;
    int64_t tick_mono_us; /* AW_NEVER: none yet */
    bool stopping, standby, made;
    char store_trouble[AW_DIAG_TEXT_MAX]; /* "": steps are kept */
};

AW_NODISCARD enum aw_err aw_api_init(struct aw_api *api, const struct aw_api_config *config);
void aw_api_deinit(struct aw_api *api); /* a zeroed one is a no-op */

/* A tick is over. `store_trouble` NULL: what had happened was kept. */
void aw_api_tick(struct aw_api *api, const struct aw_loop_counts *counts,
                 const char *store_trouble);
/* What the twin of workload `index` did in the step that has just ended; before aw_api_tick. */
void aw_api_twin(struct aw_api *api, uint32_t index, const struct aw_recent_twin *twin);
/* Waits for a tick behind `serial`, for `timeout_ms` at most, and returns the latest one's serial.
 * aw_api_wake ends every wait at once. */
uint64_t aw_api_wait(struct aw_api *api, uint64_t serial, uint32_t timeout_ms);
void aw_api_wake(struct aw_api *api);
/* Another desk takes the place of this one; NULL: requests get "try again". Returns when no thread
 * uses the old one any more. */
void aw_api_switch(struct aw_api *api, struct aw_desk *desk);
/* Where workloads lie, by the model of this name. `map` NULL: nowhere, for want of what `missing`
 * says. Returns when no thread uses the former one any more. */
void aw_api_map(struct aw_api *api, struct aw_workload_map *map, const char *model,
                const char *missing);
/* Where external agents come in; NULL: nowhere. Returns when no thread uses the former one any
 * more. */
void aw_api_agents(struct aw_api *api, struct aw_agent_exchange *exchange);
/* From now on orders are refused: the loop will not tick again. */
void aw_api_stopping(struct aw_api *api);
/* Another process ticks, and this one is ready to take over: it is ready without a tick. */
void aw_api_standby(struct aw_api *api, bool standby);

struct aw_api_request {
    const char *method;       /* "GET" */
    const char *path;         /* as it came, percent-encoded, with its query; "/v1/status?x=y" */
    const char *content_type; /* NULL: none */
    const char *accept;       /* NULL: none */
    const char *body;         /* NULL: none */
    size_t body_len;
    const char *by; /* the user; NULL: unknown, who may look and not order */
};

struct aw_api_response {
    int status;
    const char *content_type;
    char *body;
    size_t len;
    char allow[AW_API_HEADER_MAX]; /* "": none */
    char next[AW_API_HEADER_MAX];  /* Aware-Next; "": none */
};
void aw_api_response_deinit(struct aw_api_response *response); /* a zeroed one is a no-op */

/* AW_OK: there is an answer, whatever its status. AW_ERR_NOMEM: no answer, `ret` is zeroed. */
AW_NODISCARD enum aw_err aw_api_answer(struct aw_api *api, const struct aw_api_request *request,
                                       struct aw_api_response *ret);
/* The answer of what failed before a request was there, e.g. a body that is too large. */
AW_NODISCARD enum aw_err aw_api_refuse(enum aw_err err, const struct aw_diag *diag,
                                       struct aw_api_response *ret);

/* What verbs read of a stopped daemon: status, all workloads, orders and proposals, one object.
 * The caller frees `*ret_text` with free(). AW_ERR_UNAVAILABLE: no desk is there. */
AW_NODISCARD enum aw_err aw_api_views(struct aw_api *api, char **ret_text, size_t *ret_len);

#endif
