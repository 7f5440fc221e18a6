/*
 * controller.h - what the files of the verb `controller` share: what was asked, the election, and
 * the roles, each with a client and a thread of its own.
 *
 * Call order: a role is opened on the thread that will step it, stepped until everything is to end,
 *             and closed there.
 * Threads:    everything here is read-only once roles run, but for what is atomic.
 */
#ifndef AW_CLI_CONTROLLER_H
#define AW_CLI_CONTROLLER_H

#include "base/clock.h"
#include "daemon/doors.h"
#include "frame/verb.h"
#include "kube/client.h"
#include "kube/discovery.h"

#include <stdatomic.h>

#define AW__CONTROLLER_INSTANCE_MAX 128u

struct aw__controller {
    const struct aw_call *run;
    struct aw_log log;
    struct aw_kube_config where;
    struct aw_kube_server server;
    const char *ns;                             /* to work in; NULL: all */
    char own_ns[AW_KUBE_NAME_MAX];              /* where we run, and where our Leases are */
    char instance[AW__CONTROLLER_INSTANCE_MAX]; /* this process, for Leases and events */
    const char *lease;                          /* name of the Lease; NULL: a single process */
    char state[AW_TEXT_MAX];                    /* directory; "": none */
    char store[AW_TEXT_MAX];                    /* for aw_store_open; "": none */
    char socket[AW_TEXT_MAX];                   /* "": none */
    struct aw_listen_auth door, probes;         /* host "": none */
    uint32_t thread_count;
    double step_s;
    double speed;                   /* of what the controllers take for time; 1 but in trials */
    _Atomic int64_t leads_until_us; /* monotonic; 0: we do not lead */
    _Atomic bool stopping;
    _Atomic bool failed; /* a role could not begin: everything is to end */
};

/* Whether we lead at this moment. `ctx` is the controller. */
bool aw__controller_leads(void *ctx);

/* One of --roles. */
struct aw__role {
    const char *name;
    bool leads; /* stepped by the leader alone */
    /* `kube` is this role's alone. */
    enum aw_err (*open)(struct aw__controller *controller, struct aw_kube *kube, void **ret_self,
                        struct aw_diag *diag);
    enum aw_err (*step)(void *self, struct aw_diag *diag);
    int64_t (*due)(const void *self); /* monotonic; 0: now */
    void (*close)(void *self);
};

/* What updater and admission of this process did, for /metrics; nothing where they do not run. */
struct aw_metrics;
void aw__actors_metrics(struct aw_metrics *metrics);

extern const struct aw__role aw__role_recommender, aw__role_updater, aw__role_admission;

#endif
