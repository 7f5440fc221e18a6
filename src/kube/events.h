/*
 * events.h - what we did, told beside the object it was done to (`kubectl describe` shows it).
 *
 * events.k8s.io/v1 where the server has it, else core events. The same thing said again does not
 * become a new object: it is counted, and the object is patched now and then.
 *
 * Call order: init, record as often as there is something to say.
 * Memory:     a fixed table of what was said last. Threads: those of the client.
 *
 * The trap: events are for people and may be lost. Nothing may depend on one.
 */
#ifndef AW_KUBE_EVENTS_H
#define AW_KUBE_EVENTS_H

#include "kube/client.h"
#include "kube/discovery.h"

#define AW_KUBE_RECENT_MAX         64u
#define AW_KUBE_EVENT_HEARTBEAT_US 300000000 /* between two patches of a repeated event */
#define AW_KUBE_EVENT_FORGET_US    900000000 /* said again after so long, it is news */
#define AW_KUBE_NOTE_MAX           1024u     /* what the API takes; longer ones are cut */
#define AW_KUBE_INSTANCE_MAX       129u /* of reportingInstance, with the NUL; the API takes 128 */
#define AW_KUBE_EVENT_TIMEOUT_US   5000000

struct aw_kube_event {
    const struct aw_kube_kind *kind; /* of the object that it is about */
    const char *ns, *name, *uid;     /* ns NULL or "": the kind has none */
    bool warning;
    const char *reason; /* "ScaledHorizontally" */
    const char *action; /* "Scale" */
    const char *note;   /* one sentence */
};

struct aw_kube_recorder {
    struct aw_kube *kube;
    bool v1; /* events.k8s.io/v1 */
    char instance[AW_KUBE_INSTANCE_MAX];
    struct {
        uint64_t hash;                                     /* of all that is said; 0: free */
        char ns[AW_KUBE_NAME_MAX], name[AW_KUBE_NAME_MAX]; /* of the Event object */
        int64_t count, said_us, sent_us;
    } recent[AW_KUBE_RECENT_MAX];
    uint64_t created, patched, kept_back;
};

/* `instance` names this process, e.g. its pod; what is too long for the API is cut. */
void aw_kube_recorder_init(struct aw_kube_recorder *recorder, struct aw_kube *kube,
                           const struct aw_kube_server *server, const char *instance);
/* Errors are for the log, at most. */
AW_NODISCARD enum aw_err aw_kube_record(struct aw_kube_recorder *recorder,
                                        const struct aw_kube_event *event, struct aw_diag *diag);

#endif
