/*
 * election.h - electing a leader over one Lease: a state machine without clock, chance or network.
 *
 * The rules are those of client-go's leaderelection. The holder of the Lease renews it each retry
 * period; when it has not managed to for a renew deadline it stops leading, before another process
 * may take over, which happens after a whole lease duration without a change. How long is counted
 * on the observer's own clock from the moment it saw the record change: the times that are written
 * in a Lease are for people, so clocks that disagree do no harm.
 *
 * Call order: init; then next says what to do: wait, read, or write the record that it hands out;
 *             tell it the outcome with saw or wrote; ask leading before every act.
 * Memory:     plain structs. Threads: single owner.
 *
 * The trap: leading is true for a time, not until further notice. A process that was stopped for a
 * minute wakes up believing what was true then; ask with the present time.
 */
#ifndef AW_KUBE_ELECTION_H
#define AW_KUBE_ELECTION_H

#include "kube/object.h"

#define AW_KUBE_LEASE_US   15000000 /* kube-controller-manager's defaults: 15, 10 and 2 s */
#define AW_KUBE_RENEW_US   10000000
#define AW_KUBE_RETRY_US   2000000
#define AW_KUBE_JITTER     1.2 /* of the retry period while waiting for the Lease, as client-go */
#define AW_KUBE_HOLDER_MAX 256u

/* What a Lease says. Zeroed holder: no leader. */
struct aw_kube_lease {
    char holder[AW_KUBE_HOLDER_MAX];
    int64_t duration_s;
    int64_t acquired_us, renewed_us; /* wall; for people */
    int64_t transitions;
    char resource_version[AW_KUBE_VERSION_MAX]; /* "": the object does not exist */
};

struct aw_kube_election_config {
    char identity[AW_KUBE_HOLDER_MAX];    /* unique: host name and something random */
    int64_t lease_us, renew_us, retry_us; /* 0: the defaults; lease > renew > retry */
};

enum aw_kube_election_step {
    AW_KUBE_ELECTION_WAIT,  /* until `ret_due_us` */
    AW_KUBE_ELECTION_READ,  /* get the Lease and call saw */
    AW_KUBE_ELECTION_WRITE, /* write `ret_lease`: create it where its version is "", else replace,
                             * and call wrote */
};

struct aw_kube_election {
    struct aw_kube_election_config config;
    struct aw_kube_lease seen; /* as it was last read or written */
    bool known;                /* `seen` is from the server */
    bool fresh;                /* and no older than this attempt */
    bool leads;                /* until the renew deadline */
    bool released;
    int64_t seen_us;    /* monotonic: when it was seen to have changed */
    int64_t renewed_us; /* monotonic: when our last successful write was begun */
    int64_t tried_us;   /* monotonic: when the write under way was begun */
    int64_t due_us;     /* monotonic: of the next attempt */
    uint64_t gained, lost;
};

/* AW_ERR_CONFIG: no identity, or times that cannot work. */
AW_NODISCARD enum aw_err aw_kube_election_init(struct aw_kube_election *election,
                                               const struct aw_kube_election_config *config,
                                               struct aw_diag *diag);
/* `chance` in [0, 1) spreads the waits of processes that do not lead. */
enum aw_kube_election_step aw_kube_election_next(struct aw_kube_election *election, int64_t now_us,
                                                 int64_t wall_us, double chance,
                                                 struct aw_kube_lease *ret_lease,
                                                 int64_t *ret_due_us);
/* The Lease was read: `lease` NULL: no Lease exists. `err` is the result of reading: AW_OK, or why
 * nothing is known. */
void aw_kube_election_saw(struct aw_kube_election *election, enum aw_err err,
                          const struct aw_kube_lease *lease, int64_t now_us);
/* The Lease was written: `lease` is what the server answered. AW_ERR_CONFLICT and AW_ERR_EXISTS:
 * another process was faster. After anything else it may or may not have been written. */
void aw_kube_election_wrote(struct aw_kube_election *election, enum aw_err err,
                            const struct aw_kube_lease *lease, int64_t now_us);

/* Whether we lead at this moment. */
bool aw_kube_election_leading(const struct aw_kube_election *election, int64_t now_us);
/* Monotonic time after which we no longer lead unless something is written; 0: we do not lead. */
int64_t aw_kube_election_until_us(const struct aw_kube_election *election);
/* Gives up leading and does not run again. True: `ret_lease` is to be written so that the next need
 * not wait. */
bool aw_kube_election_release(struct aw_kube_election *election, int64_t now_us, int64_t wall_us,
                              struct aw_kube_lease *ret_lease);

#endif
