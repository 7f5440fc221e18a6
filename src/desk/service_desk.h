/*
 * service_desk.h - people and the record for the services of a graph, which no pilot has: the same
 * audit log, journal and standing orders as a loop's (desk.h), for changes of any resource.
 *
 * A change is asked for with `record`: whether a person has frozen the service, then one entry of
 * kind "decision" in the audit log and its account in the journal. What becomes of it is an entry
 * of kind "outcome". Without its entry nothing is done.
 *
 * Call order: new (reads the log: orders given before stand); then, every step, `now`, undos that
 *             wait, any number of record and outcome, `tell` what there is to see; free. Other
 *             threads may order and look in between.
 * Memory:     sized at new. JSON is jansson's.
 * Threads:    a mutex of its own, taken by every call.
 *
 * The trap: times are the owner's own (virtual in a simulation); they never go back.
 */
#ifndef AW_DESK_SERVICE_DESK_H
#define AW_DESK_SERVICE_DESK_H

#include "audit/audit.h"
#include "desk/standing_orders.h"

#define AW_SERVICE_DESK_MAX      64u /* services */
#define AW_SERVICE_DESK_UNDOS    16u /* that wait for the next step */
#define AW_SERVICE_DESK_TEXT_MAX 256u

struct aw_service_desk_config {
    char folder[AW_DISK_PATH_MAX];  /* of the audit log */
    char journal[AW_DISK_PATH_MAX]; /* file */
    struct aw_audit_config audit;
    const char *graph; /* its name: services are "graph/service" */
    const char *const *services;
    uint32_t count;
};

/* One resource of one service, from here to there. */
struct aw_service_change {
    uint32_t service;
    const char *actor;    /* "firm-rule" */
    const char *resource; /* "disk", "replicas", "fresh replicas" */
    double from, to;
    bool shrinks, undoable;
    const char *what;      /* "disk 160.0 MB/s -> 480.0 MB/s" */
    const char *why;       /* the evidence, in a line */
    const json_t *account; /* for who asks later; borrowed; "sentence" is added */
};

/* A change that a person wants back. */
struct aw_service_undo {
    uint64_t order, decision; /* entries */
    uint32_t service;
    char resource[32];
    double from, to; /* of now, and back */
};

struct aw_service_desk_counts {
    uint64_t recorded, frozen, orders, failures;
};

struct aw_service_desk;

/* AW_ERR_FORMAT: the log was tampered with, see aw_audit_open. `ret_last_us`: time of the log's
 * last entry, 0 where there is none. Writes an entry of kind "start". */
AW_NODISCARD enum aw_err aw_service_desk_new(const struct aw_service_desk_config *config,
                                             struct aw_service_desk **ret, int64_t *ret_last_us,
                                             struct aw_diag *diag);
/* Writes an entry of kind "stop". NULL is a no-op. */
void aw_service_desk_free(struct aw_service_desk *desk, const char *reason);

void aw_service_desk_now(struct aw_service_desk *desk, int64_t now_us);
/* AW_OK: it is in the log as `*ret_id`. AW_ERR_CONFLICT: a person has frozen the service; that it
 * would have been done is in the log once. AW_ERR_IO and the like: it could not be written. */
AW_NODISCARD enum aw_err aw_service_desk_record(struct aw_service_desk *desk,
                                                const struct aw_service_change *change,
                                                uint64_t *ret_id, struct aw_diag *diag);
/* `order`: that asked for it; 0: none. */
void aw_service_desk_outcome(struct aw_service_desk *desk, uint32_t service, uint64_t of,
                             uint64_t order, enum aw_err err);
/* The next undo that waits. False: none. */
bool aw_service_desk_undo(struct aw_service_desk *desk, struct aw_service_undo *ret);

/* FREEZE, UNFREEZE and UNDO; AW_ERR_UNSUPPORTED for any other. Otherwise as aw_desk_order. */
AW_NODISCARD enum aw_err aw_service_desk_order(struct aw_service_desk *desk,
                                               const struct aw_order *order, uint64_t *ret_id,
                                               struct aw_diag *diag);

/* What there is to see, as documents of the API: `status`, and a row for each service (an array).
 * Both are taken over. */
void aw_service_desk_tell(struct aw_service_desk *desk, json_t *status, json_t *rows);
/* {"saved", "status", "workloads", "freezes", "proposals"}: what a stopped daemon leaves. NULL: no
 * memory. */
json_t *aw_service_desk_views(struct aw_service_desk *desk);
/* "shop/cart" of "cart" or "shop/cart". AW_ERR_NOTFOUND. */
AW_NODISCARD enum aw_err aw_service_desk_find(struct aw_service_desk *desk, const char *name,
                                              uint32_t *ret_service, struct aw_diag *diag);
const char *aw_service_desk_name(const struct aw_service_desk *desk, uint32_t service);
/* As the API explains a decision; `decision` 0: the latest. AW_ERR_NOTFOUND. */
AW_NODISCARD enum aw_err aw_service_desk_explain(struct aw_service_desk *desk, uint32_t service,
                                                 uint64_t decision, json_t **ret,
                                                 struct aw_diag *diag);
int64_t aw_service_desk_now_us(struct aw_service_desk *desk);
struct aw_service_desk_counts aw_service_desk_counts(struct aw_service_desk *desk);

#endif
