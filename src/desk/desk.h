/*
 * desk.h - the control loop with people in it: it keeps the audit log and the journal, carries
 * orders in, and lets other threads look while the loop works.
 *
 * It is the desk beside a loop (loop.h). What a tick has decided goes to the audit log, with one
 * write and one sync for all workloads, before any of it is done. A log that cannot be written
 * holds everything but growth on a missed SLO: that is carried out, told to `unwritten` at once and
 * entered, marked "late", as soon as the log can be written again.
 *
 * Call order: new (reads the log, so that orders given before a restart still stand); desk into the
 *             loop's config; attach once the loop is there; then the loop ticks. Any thread may
 *             order and look in between, and while the loop learns. detach before the loop goes;
 *             free.
 * Memory:     sized at new and attach. JSON of decisions is jansson's.
 * Threads:    a mutex of its own, held by the loop from enter to leave and by everything here.
 *
 * The trap: aw_desk_peek hands out pointers into the loop. They are good until unlock.
 */
#ifndef AW_DESK_DESK_H
#define AW_DESK_DESK_H

#include "audit/audit.h"
#include "control/loop.h"
#include "desk/explanation.h"
#include "desk/journal.h"
#include "desk/standing_orders.h"

struct aw_desk_config {
    const struct aw_disk *disk;     /* NULL: the machine's; borrowed */
    char folder[AW_DISK_PATH_MAX];  /* of the audit log */
    char journal[AW_DISK_PATH_MAX]; /* file; "": explanations are kept of the last tick alone */
    struct aw_audit_config audit;
    double proposal_s;    /* for which a proposal waits for approval; 0: AW_DESK_PROPOSAL_S */
    double undo_freeze_s; /* for which an undone workload stays frozen; 0: _UNDO_FREEZE_S */
    double pin_s;         /* for which an order is tried; 0: _PIN_S */
    /* A change that is not in the log yet, as the JSON of its entry; may be NULL. */
    void (*unwritten)(void *ctx, const char *entry);
    void *unwritten_ctx;
    bool virtual_time; /* steps may be lived again after a resume: entries up to the log's last
                             time are checked against it, not written twice */
};
/* The message to people while nothing can be written down. */
#define AW_DESK_HELD          "nothing is changed but growth on a missed SLO"
#define AW_DESK_PROPOSAL_S    3600.0
#define AW_DESK_UNDO_FREEZE_S 1800.0
#define AW_DESK_PIN_S         600.0

/* A recommendation that waits for a person. */
struct aw_desk_proposal {
    uint64_t id; /* entry of the log; 0: none */
    int64_t at_us, expires_us;
    struct aw_plan plan;
};

struct aw_desk_counts {
    uint64_t entries;          /* written */
    uint64_t orders;           /* taken */
    uint64_t held;             /* ticks in which nothing could be written */
    uint64_t journal_failures; /* explanations that are not kept */
    uint64_t outcomes_lost;    /* what became of a plan could not be written */
    uint64_t late;             /* changes that were carried out before they were written */
    uint64_t late_waiting;     /* of them, not in the log yet */
    uint64_t late_lost;        /* of them, never in the log: more than can wait */
};

/* What is to be known of a workload. Pointers are good until unlock. */
struct aw_desk_view {
    uint32_t index;
    const char *name;
    const struct aw_pilot *pilot;
    const struct aw_pilot_config *config;
    const struct aw_decision *decision; /* the last; at_us AW_NEVER: none yet */
    uint64_t last_id;                   /* its latest entry of kind decision; 0: none */
    uint64_t changed_id;                /* its latest entry that changed something; 0: none */
    struct aw_desk_proposal proposal;
    struct aw_orders orders; /* as they stood in the last tick */

    uint64_t policy_waits;  /* order with a policy that waits for the next decision; 0: none */
    uint64_t policy_tried;  /* last order about policies, since the loop was made; 0: none */
    enum aw_err policy_err; /* what became of it */
    const char *policy_why; /* NULL: it was carried out */
};

struct aw_desk; /* opaque */

/* AW_ERR_FORMAT: the log was tampered with; see aw_audit_open. `ret_recovery` may be NULL. */
AW_NODISCARD enum aw_err aw_desk_new(const struct aw_desk_config *config,
                                     const struct aw_alloc *alloc, struct aw_desk **ret_steward,
                                     struct aw_audit_recovery *ret_recovery, struct aw_diag *diag);
void aw_desk_free(struct aw_desk *desk); /* NULL is a no-op */
const struct aw_loop_hooks *aw_desk_hooks(struct aw_desk *desk);
/* `tasks` as the loop was given them. Writes an entry of kind "start". */
AW_NODISCARD enum aw_err aw_desk_attach(struct aw_desk *desk, struct aw_loop *loop,
                                        const struct aw_fallback_task *tasks, int64_t now_us,
                                        struct aw_diag *diag);
/* A workload was added to the loop, or a slot was given to another one; with the lock held. */
AW_NODISCARD enum aw_err aw_desk_follow(struct aw_desk *desk, uint32_t index,
                                        const struct aw_fallback_task *task, struct aw_diag *diag);
/* Writes an entry of kind "stop" with this reason. */
void aw_desk_detach(struct aw_desk *desk, int64_t now_us, const char *reason);

/* Takes an order, once it is in the log. For UNDO and APPROVE the plan is filled in here, from the
 * log or the proposal; for EMERGENCY from what the workload has (plan.set 0: half as much again of
 * everything, within bounds). AW_ERR_NOTFOUND: no such workload, decision or order.
 * AW_ERR_CONFLICT: it has expired, was done already, or the workload has changed since in a way
 * that undoing would not undo. AW_ERR_CONFIG, AW_ERR_LIMIT, AW_ERR_IO. `ret_id` may be NULL. */
AW_NODISCARD enum aw_err aw_desk_order(struct aw_desk *desk, const struct aw_order *order,
                                       int64_t now_us, uint64_t *ret_id, struct aw_diag *diag);

/* Hands in a policy, as the text of a file (pilot.h), for the workload that `order` names; reason
 * and by are taken from it too. Its text and the order are in the log when this returns, and the
 * workload's next decision begins to watch it. AW_ERR_FORMAT, AW_ERR_CONFIG: no policy, or not one
 * for this workload. AW_ERR_EXISTS: it has that one. AW_ERR_CONFLICT: not now. Otherwise as order.
 * After a failure nothing has changed. What is found only when it is tried becomes an outcome. */
AW_NODISCARD enum aw_err aw_desk_propose(struct aw_desk *desk, const struct aw_order *order,
                                         const char *text, size_t size, int64_t now_us,
                                         uint64_t *ret_id, struct aw_diag *diag);

/* Looking. lock, then any of the calls below, then unlock. */
void aw_desk_lock(struct aw_desk *desk);
void aw_desk_unlock(struct aw_desk *desk);
uint32_t aw_desk_count(const struct aw_desk *desk); /* slots; some may be empty */
bool aw_desk_has(const struct aw_desk *desk, uint32_t index);
/* AW_ERR_NOTFOUND. "cart" stands for "default/cart" where that is the only one. */
AW_NODISCARD enum aw_err aw_desk_find(const struct aw_desk *desk, const char *name,
                                      uint32_t *ret_index, struct aw_diag *diag);
void aw_desk_peek(const struct aw_desk *desk, uint32_t index, struct aw_desk_view *ret);
struct aw_loop *aw_desk_loop(const struct aw_desk *desk); /* NULL: not attached */
const struct aw_standing_orders *aw_desk_book(const struct aw_desk *desk);
const struct aw_desk_counts *aw_desk_counts(const struct aw_desk *desk);
int64_t aw_desk_now_us(const struct aw_desk *desk); /* of the last tick */
/* AW_OK, or why nothing can be written down now. */
enum aw_err aw_desk_health(const struct aw_desk *desk, struct aw_diag *diag);
/* The journal; NULL: none. */
struct aw_journal *aw_desk_journal(struct aw_desk *desk);

#endif
