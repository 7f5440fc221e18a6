/*
 * agent_client.h - the other end of aware.v1.Agent: to be the agent of a workload of a running
 * control loop.
 *
 * Call order: open, then next and, for each STATE, answer; close. After a failure: close.
 * Memory:     the connection's; events are the caller's.
 * Threads:    single owner.
 *
 * An agent need not answer every state: without an answer in time the fallback decides.
 */
#ifndef AW_RPC_AGENT_CLIENT_H
#define AW_RPC_AGENT_CLIENT_H

#include "control/others.h"
#include "rpc/client.h"
#include "task/action.h"
#include "task/state.h"

#define AW_AGENT_CLIENT_TEXT_MAX 256u

struct aw_agent_client_config {
    struct aw_rpc_client_config wire; /* timeout_us 0: as long as it takes */
    const char *workload;
    const char *agent, *version; /* what it calls itself; version may be "" */
    uint32_t obs_dim, act_dim;   /* that it was made for; 0: whatever there is */
    bool shadow, take_over;
    bool want_global; /* of each state, what is told of all other workloads */
};

struct aw_agent_client; /* opaque */

/* What the workload is like. */
struct aw_agent_client_seat {
    char workload[128];
    uint32_t obs_dim, act_dim;
    double deadline_s, period_s;
};

/* Returns when it has registered. AW_ERR_NOTFOUND, AW_ERR_EXISTS, AW_ERR_CONFIG, AW_ERR_LIMIT: it
 * was refused, in the daemon's own words. */
AW_NODISCARD enum aw_err aw_agent_client_open(struct aw_agent_client **ret,
                                              const struct aw_agent_client_config *config,
                                              struct aw_agent_client_seat *ret_seat,
                                              struct aw_diag *diag);
void aw_agent_client_close(struct aw_agent_client *client); /* NULL is a no-op */

enum aw_agent_client_kind {
    AW_AGENT_CLIENT_STATE,    /* to be answered */
    AW_AGENT_CLIENT_OUTCOME,  /* `text`: what became of an answer; `followed`: it was carried out */
    AW_AGENT_CLIENT_STANDING, /* `text`: why; `followed`: answers are, from now on */
};
struct aw_agent_client_event {
    enum aw_agent_client_kind kind;
    uint64_t id;
    uint32_t obs_dim, act_dim;
    float obs[AW_STATE_DIM_MAX];
    float fallback[AW_ACTION_MAX]; /* what happens unless it is answered */
    bool has_last;                 /* the two below are about the step before */
    float reward;
    float last_action[AW_ACTION_MAX]; /* as it was carried out */
    struct aw_others_view others;     /* epoch 0: nothing is told of them */
    bool followed;
    char text[AW_AGENT_CLIENT_TEXT_MAX];
};
/* Waits for what the daemon says next. AW_ERR_CONFLICT: the seat is lost, and why.
 * AW_ERR_UNAVAILABLE: the daemon has ended. */
AW_NODISCARD enum aw_err aw_agent_client_next(struct aw_agent_client *client,
                                              struct aw_agent_client_event *ret_event,
                                              struct aw_diag *diag);
/* `explanation`: a sentence for people, which the daemon keeps with its decision; NULL: none. */
AW_NODISCARD enum aw_err aw_agent_client_answer(struct aw_agent_client *client, uint64_t id,
                                                const float *action, size_t count,
                                                const char *explanation, struct aw_diag *diag);

#endif
