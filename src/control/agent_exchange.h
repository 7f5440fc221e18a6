/*
 * agent_exchange.h - where a control loop and agents of other processes meet: one question per
 * workload and tick, and the first answer that is in time.
 *
 * It knows no wire. A transport registers an agent, is woken when there is something to send, polls
 * it, and hands in answers; the loop asks, waits, and hears. Everything has one place: a question
 * that was not fetched is replaced by the next one, never queued, so neither a slow agent nor a
 * flood makes anything grow.
 *
 * Call order: new; of the loop, open a seat for each workload that admits an agent, then per tick
 *             ask, wait, hear, tell; of a transport, register, then poll and answer, then leave;
 *             free when neither is left.
 * Memory:     a seat at open; nothing in a tick.
 * Threads:    one thread is the loop; any number of other threads carry agents. The mutex is never
 *             held while a thread waits or sends.
 *
 * An agent per workload: a second one is refused, or with `take_over` replaces the first, which
 * receives a message. An agent that sends more than it was asked for loses its seat.
 *
 * The trap: `wake` is called with the lock held. It may set a flag or signal; it must not block or
 * call anything here. Once leave has returned it is not called any more.
 */
#ifndef AW_CONTROL_AGENT_EXCHANGE_H
#define AW_CONTROL_AGENT_EXCHANGE_H

#include <aware/store.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "control/others.h"
#include "safety/external_agent.h"
#include "telemetry/metrics.h"

/* Answers beyond those that were asked for before an agent loses its seat; each question takes one
 * back, so that an answer which is late each time is only late. */
#define AW_AGENT_EXCHANGE_STRAY_MAX 16u
#define AW_AGENT_EXCHANGE_TEXT_MAX  256u /* of a sentence for an agent's people */
#define AW_AGENT_EXCHANGE_SEATS_MAX 65536u

struct aw_agent_exchange; /* opaque */

struct aw_agent_exchange_config {
    const struct aw_clock *clock; /* borrowed; deadlines are monotonic; NULL: the real one */
    uint32_t seats_max;           /* workloads that may admit an agent; up to _SEATS_MAX */
    uint32_t agents_max;          /* that may be registered at once; 0: one per seat */

    /* Lets time pass, at most until this monotonic time, for callers with a clock of their own:
     * agents may answer meanwhile. NULL: the calling thread sleeps. */
    void (*pause)(void *ctx, int64_t until_us);
    void *ctx;
};

AW_NODISCARD enum aw_err aw_agent_exchange_new(const struct aw_agent_exchange_config *config,
                                               const struct aw_alloc *alloc,
                                               struct aw_agent_exchange **ret,
                                               struct aw_diag *diag);
void aw_agent_exchange_free(
    struct aw_agent_exchange *exchange); /* NULL is a no-op; no agent is registered */

/* What an agent has to know of a workload. */
struct aw_agent_exchange_seat {
    char name[AW_STORE_NAME_MAX];
    uint32_t obs_dim;
    uint32_t more;           /* see aw_action_more */
    uint32_t state, mapping; /* enum aw_state_preset, enum aw_action_mapping */
    double step_s, deadline_s;
};

/* --- the loop --------------------------------------------------------------------------------- */

/* Workload `index` admits an agent from now on. A seat of the same name keeps its agent. */
AW_NODISCARD enum aw_err aw_agent_exchange_open(struct aw_agent_exchange *exchange, uint32_t index,
                                                const struct aw_agent_exchange_seat *seat,
                                                struct aw_diag *diag);
/* Closes the seat and tells its agent. Without a seat a no-op. */
void aw_agent_exchange_close(struct aw_agent_exchange *exchange, uint32_t index);
/* Of all from `index` on. */
void aw_agent_exchange_close_from(struct aw_agent_exchange *exchange, uint32_t index);

/* Asks the agent of an open seat, if one is there; the id is filled in here. `others` NULL: nothing
 * is told of them. */
void aw_agent_exchange_ask(struct aw_agent_exchange *exchange, uint32_t index,
                           const struct aw_external_agent_request *request,
                           const struct aw_others_view *others);
/* An epoch that nobody has had: from the time at which the exchange was made on, so that one after
 * a restart begins above. */
uint64_t aw_agent_exchange_epoch(struct aw_agent_exchange *exchange);
/* Nothing is asked of it in this tick. */
void aw_agent_exchange_pass(struct aw_agent_exchange *exchange, uint32_t index);
/* Some agent has been asked and has neither answered nor gone, and its deadline is not over. */
bool aw_agent_exchange_waits(struct aw_agent_exchange *exchange);
/* Returns when every answer is in, and never later than the last deadline. */
void aw_agent_exchange_wait(struct aw_agent_exchange *exchange);
/* The answer. What arrives from here on is late. */
void aw_agent_exchange_hear(struct aw_agent_exchange *exchange, uint32_t index,
                            struct aw_external_agent_answer *ret_answer);

enum aw_agent_exchange_verdict {
    AW_AGENT_EXCHANGE_FOLLOWED,
    AW_AGENT_EXCHANGE_CLIPPED, /* followed, and a rail changed it */
    AW_AGENT_EXCHANGE_SHADOW,  /* judged; the fallback acted */
    AW_AGENT_EXCHANGE_LATE,
    AW_AGENT_EXCHANGE_INVALID,
};
/* What became of the last answer, and how the agent stands. */
struct aw_agent_exchange_outcome {
    uint64_t id; /* filled in by tell */
    enum aw_agent_exchange_verdict verdict;
    enum aw_external_agent_standing standing;
    bool acts;   /* what it answers is carried out, where a rail does not object */
    bool frozen; /* by an operator */
    char text[AW_AGENT_EXCHANGE_TEXT_MAX];
};
/* The outcome of a question that was asked; without an agent a no-op. */
void aw_agent_exchange_tell(struct aw_agent_exchange *exchange, uint32_t index,
                            const struct aw_agent_exchange_outcome *outcome);

/* --- agents ----------------------------------------------------------------------------------- */

struct aw_agent_exchange_hello {
    const char *workload; /* "shop/cart"; "cart" stands for "default/cart" */
    const char *agent;    /* what it calls itself: 1 to 63 printable ASCII bytes, no space or '@' */
    const char *version;  /* of the same; "": none */
    uint32_t obs_dim, act_dim; /* that it was made for; 0: it takes what there is */
    bool shadow;               /* judged and recorded, never followed */
    bool take_over;            /* from an agent that is there */
    void (*wake)(void *ctx);   /* there is something to poll */
    void *ctx;
};
/* `ret_ticket` is what the agent is known by until it leaves. AW_ERR_NOTFOUND: no such seat.
 * AW_ERR_EXISTS: taken. AW_ERR_CONFIG: other sizes. AW_ERR_FORMAT: its name cannot be one.
 * AW_ERR_LIMIT: too many agents. On failure nothing changed, and there is nothing to leave. */
AW_NODISCARD enum aw_err aw_agent_exchange_register(struct aw_agent_exchange *exchange,
                                                    const struct aw_agent_exchange_hello *hello,
                                                    uint64_t *ret_ticket,
                                                    struct aw_agent_exchange_seat *ret_seat,
                                                    struct aw_diag *diag);
/* In any state, once for every register. An open question stays without an answer. */
void aw_agent_exchange_leave(struct aw_agent_exchange *exchange, uint64_t ticket);

enum aw_agent_exchange_kind {
    AW_AGENT_EXCHANGE_OUTCOME, /* always before the next question */
    AW_AGENT_EXCHANGE_QUESTION,
    AW_AGENT_EXCHANGE_END, /* it has lost its seat: nothing follows */
};
enum aw_agent_exchange_end {
    AW_AGENT_EXCHANGE_END_NONE,
    AW_AGENT_EXCHANGE_END_OTHER_AGENT,
    AW_AGENT_EXCHANGE_END_WORKLOAD_GONE,
    AW_AGENT_EXCHANGE_END_FLOODING,
};
struct aw_agent_exchange_message {
    enum aw_agent_exchange_kind kind;
    struct aw_agent_exchange_outcome outcome;
    struct aw_external_agent_request question;
    struct aw_others_view others; /* of the question */
    double left_s;                /* to answer it */
    enum aw_agent_exchange_end end;
};
/* False: there is nothing to send. */
bool aw_agent_exchange_poll(struct aw_agent_exchange *exchange, uint64_t ticket,
                            struct aw_agent_exchange_message *ret_message);
/* Hands in an answer. Returns what was wrong with it: LATE after its deadline, OLD where this was
 * not asked, or was answered already, GONE where it has no seat. Copies `values`, and `words`,
 * which have crossed their wall; NULL: none. */
enum aw_external_agent_fault
aw_agent_exchange_answer_saying(struct aw_agent_exchange *exchange, uint64_t ticket, uint64_t id,
                                const float *values, size_t count,
                                const struct aw_external_agent_words *words);
/* The same without words. */
enum aw_external_agent_fault aw_agent_exchange_answer(struct aw_agent_exchange *exchange,
                                                      uint64_t ticket, uint64_t id,
                                                      const float *values, size_t count);

/* --- looking ---------------------------------------------------------------------------------- */

struct aw_agent_exchange_counts {
    uint64_t registered, refused, left;
    uint64_t asked, answered;
    uint64_t faults[AW_EXTERNAL_AGENT_FAULT_COUNT]; /* of answers, and of questions without one */
    uint32_t standing[AW_EXTERNAL_AGENT_STANDING_COUNT]; /* open seats, by how their agent stands */
    uint32_t acting;                           /* of them: its answer was carried out last */
    struct aw_metric_histogram took_s;         /* from asking to a good answer */
    struct aw_metric_histogram deadline_share; /* of the time that there was */
};
void aw_agent_exchange_counts(struct aw_agent_exchange *exchange,
                              struct aw_agent_exchange_counts *ret_counts);
/* The next open seat from `index` on, and its agent ("": none). False: there is no further seat. */
bool aw_agent_exchange_next(struct aw_agent_exchange *exchange, uint32_t *index,
                            struct aw_agent_exchange_seat *ret_seat,
                            char ret_agent[AW_EXTERNAL_AGENT_NAME_MAX]);

#endif
