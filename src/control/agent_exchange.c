/*
 * agent_exchange.c - seats, and who sits there.
 *
 * A ticket is a seat's number and the count of those who have had one: a ticket of somebody who has
 * lost the seat fits nobody's. An agent that has lost its seat stays on record until it leaves,
 * since its transport may poll at any moment.
 */
#include "control/agent_exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define NAME_PART_MAX 63u /* bytes of an agent's name, and of its version */

/* One who has registered and has not left. */
struct agent {
    uint64_t ticket;   /* 0: free */
    struct seat *seat; /* NULL: lost */
    enum aw_agent_exchange_end end;
    bool end_told;
    bool shadow;
    uint32_t stray;
    char name[AW_EXTERNAL_AGENT_NAME_MAX];
    uint64_t id;
    void (*wake)(void *ctx);
    void *ctx;
};

struct seat {
    struct aw_agent_exchange_seat of;
    struct agent *agent; /* NULL: nobody */
    bool open;

    /* of this tick */
    bool asked;    /* somebody was */
    bool sent;     /* the question has been fetched */
    bool heard;    /* the loop has taken what there is */
    bool orphaned; /* who was asked sits there no longer, though somebody of its name may */
    bool flooded;  /* who sat there has lost the seat for it, and the loop has not heard of it */
    uint64_t asked_agent;
    char asked_name[AW_EXTERNAL_AGENT_NAME_MAX];
    bool asked_shadow;
    int64_t asked_us, deadline_us;
    struct aw_external_agent_request question;
    struct aw_others_view others;
    bool has_answer; /* good or bad: there is no second one */
    struct aw_external_agent_answer answer;

    bool has_outcome;
    struct aw_agent_exchange_outcome outcome;
    enum aw_external_agent_standing standing; /* as the loop told last */
    bool acts;
};

struct aw_agent_exchange {
    struct aw_agent_exchange_config config;
    const struct aw_alloc *alloc;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct seat **seat;  /* [seats_max]; NULL: never opened */
    struct agent *agent; /* [agents_max] */
    uint64_t ticket_count, question_count, epoch;
    struct aw_agent_exchange_counts counts;
};

/* An agent beside the daemon answers in a millisecond; a deadline may be as long as a step. */
static const double took_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,    0.25,  0.5,    1,     2.5,  5,     15};
static const double share_bounds[] = {0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1};

/* --- made and ended --------------------------------------------------------------------------- */

static bool make_lock(struct aw_agent_exchange *exchange)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr))
        return false;
    bool made = !pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) &&
                !pthread_cond_init(&exchange->arrived, &attr);
    pthread_condattr_destroy(&attr);
    if (made && pthread_mutex_init(&exchange->lock, NULL)) {
        pthread_cond_destroy(&exchange->arrived);
        made = false;
    }
    return made;
}

enum aw_err aw_agent_exchange_new(const struct aw_agent_exchange_config *config,
                                  const struct aw_alloc *alloc, struct aw_agent_exchange **ret,
                                  struct aw_diag *diag)
{
    if (config->seats_max == 0 || config->seats_max > AW_AGENT_EXCHANGE_SEATS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u seats, found %u",
                       AW_AGENT_EXCHANGE_SEATS_MAX, config->seats_max);
    struct aw_agent_exchange *exchange = aw_alloc_new(alloc, 1, sizeof *exchange);
    if (!exchange)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an exchange");
    exchange->config = *config;
    exchange->alloc = alloc;
    exchange->counts.took_s.bounds = took_bounds;
    exchange->counts.took_s.bound_count = sizeof took_bounds / sizeof *took_bounds;
    exchange->counts.deadline_share.bounds = share_bounds;
    exchange->counts.deadline_share.bound_count = sizeof share_bounds / sizeof *share_bounds;
    if (config->agents_max == 0)
        exchange->config.agents_max = config->seats_max;
    exchange->seat = aw_alloc_new(alloc, config->seats_max, sizeof(struct seat *));
    exchange->agent = aw_alloc_new(alloc, exchange->config.agents_max, sizeof *exchange->agent);
    if (!exchange->seat || !exchange->agent || !make_lock(exchange)) {
        aw_alloc_free(alloc, exchange->agent);
        aw_alloc_free(alloc, exchange->seat);
        aw_alloc_free(alloc, exchange);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an exchange of %u seats",
                       config->seats_max);
    }
    *ret = exchange;
    return AW_OK;
}

void aw_agent_exchange_free(struct aw_agent_exchange *exchange)
{
    if (!exchange)
        return;
    for (uint32_t i = 0; i < exchange->config.agents_max; i++)
        AW_ASSERT(exchange->agent[i].ticket == 0);
    for (uint32_t i = 0; i < exchange->config.seats_max; i++)
        aw_alloc_free(exchange->alloc, exchange->seat[i]);
    pthread_cond_destroy(&exchange->arrived);
    pthread_mutex_destroy(&exchange->lock);
    aw_alloc_free(exchange->alloc, exchange->agent);
    aw_alloc_free(exchange->alloc, exchange->seat);
    aw_alloc_free(exchange->alloc, exchange);
}

static int64_t now_us(const struct aw_agent_exchange *exchange)
{
    return aw_clock_monotonic_us(exchange->config.clock);
}

static void wake(const struct agent *agent)
{
    if (agent)
        agent->wake(agent->ctx);
}

/* It sits there no longer, and is told so when it polls next. */
static void lose_seat(struct aw_agent_exchange *exchange, struct seat *seat,
                      enum aw_agent_exchange_end end)
{
    struct agent *agent = seat->agent;
    if (!agent)
        return;
    seat->agent = NULL;
    seat->has_outcome = false;
    seat->orphaned = true;
    agent->seat = NULL;
    agent->end = end;
    pthread_cond_broadcast(&exchange->arrived); /* who waits for its answer waits no more */
    wake(agent);
}

/* --- the loop --------------------------------------------------------------------------------- */

enum aw_err aw_agent_exchange_open(struct aw_agent_exchange *exchange, uint32_t index,
                                   const struct aw_agent_exchange_seat *of, struct aw_diag *diag)
{
    if (index >= exchange->config.seats_max)
        return aw_fail(diag, AW_ERR_LIMIT, "workload %s: at most %u may have an external agent",
                       of->name, exchange->config.seats_max);
    enum aw_err err = AW_OK;
    pthread_mutex_lock(&exchange->lock);
    struct seat *seat = exchange->seat[index];
    if (!seat)
        seat = exchange->seat[index] = aw_alloc_new(exchange->alloc, 1, sizeof *seat);
    if (!seat) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the agent of workload %s", of->name);
    } else {
        const bool same = seat->open && strcmp(seat->of.name, of->name) == 0 &&
                          seat->of.obs_dim == of->obs_dim && seat->of.state == of->state &&
                          seat->of.mapping == of->mapping && seat->of.more == of->more;
        if (!same)
            lose_seat(exchange, seat, AW_AGENT_EXCHANGE_END_WORKLOAD_GONE);
        if (!same) {
            seat->standing = AW_EXTERNAL_AGENT_ABSENT;
            seat->acts = false;
        }
        seat->of = *of;
        seat->open = true;
        seat->asked = seat->has_answer = seat->has_outcome = seat->flooded = false;
    }
    pthread_mutex_unlock(&exchange->lock);
    return err;
}

void aw_agent_exchange_close(struct aw_agent_exchange *exchange, uint32_t index)
{
    if (index >= exchange->config.seats_max)
        return;
    pthread_mutex_lock(&exchange->lock);
    struct seat *seat = exchange->seat[index];
    if (seat && seat->open) {
        lose_seat(exchange, seat, AW_AGENT_EXCHANGE_END_WORKLOAD_GONE);
        seat->open = seat->asked = false;
    }
    pthread_mutex_unlock(&exchange->lock);
}

void aw_agent_exchange_close_from(struct aw_agent_exchange *exchange, uint32_t index)
{
    for (uint32_t i = index; i < exchange->config.seats_max; i++)
        aw_agent_exchange_close(exchange, i);
}

static struct seat *seat_at(const struct aw_agent_exchange *exchange, uint32_t index)
{
    struct seat *seat = index < exchange->config.seats_max ? exchange->seat[index] : NULL;
    return seat && seat->open ? seat : NULL;
}

void aw_agent_exchange_ask(struct aw_agent_exchange *exchange, uint32_t index,
                           const struct aw_external_agent_request *request,
                           const struct aw_others_view *others)
{
    pthread_mutex_lock(&exchange->lock);
    struct seat *seat = seat_at(exchange, index);
    AW_ASSERT(seat);
    struct agent *agent = seat->agent;
    seat->has_answer = seat->heard = seat->sent = seat->orphaned = false;
    seat->asked = agent && !seat->flooded; /* that is to be heard of first */
    if (seat->asked) {
        exchange->counts.asked++;
        agent->stray -= agent->stray > 0;
        seat->asked_agent = agent->id;
        seat->asked_shadow = agent->shadow;
        memcpy(seat->asked_name, agent->name, sizeof seat->asked_name);
        seat->question = *request;
        seat->others = others ? *others : (struct aw_others_view){0};
        seat->question.id = ++exchange->question_count;
        seat->asked_us = now_us(exchange);
        seat->deadline_us = seat->asked_us + (int64_t)(seat->of.deadline_s * 1e6);
        wake(agent);
    }
    pthread_mutex_unlock(&exchange->lock);
}

uint64_t aw_agent_exchange_epoch(struct aw_agent_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    if (exchange->epoch == 0)
        exchange->epoch = (uint64_t)aw_clock_now_us(exchange->config.clock);
    const uint64_t epoch = ++exchange->epoch;
    pthread_mutex_unlock(&exchange->lock);
    return epoch;
}

void aw_agent_exchange_pass(struct aw_agent_exchange *exchange, uint32_t index)
{
    pthread_mutex_lock(&exchange->lock);
    struct seat *seat = seat_at(exchange, index);
    AW_ASSERT(seat);
    seat->asked = false;
    pthread_mutex_unlock(&exchange->lock);
}

/* The agent that was asked is still the one that sits there. */
static bool same_agent(const struct seat *seat)
{
    return seat->agent && !seat->orphaned;
}

/* When the last of those that are waited for has to have answered; INT64_MIN: nobody is. */
static int64_t last_deadline(const struct aw_agent_exchange *exchange, int64_t now)
{
    int64_t last = INT64_MIN;
    for (uint32_t i = 0; i < exchange->config.seats_max; i++) {
        const struct seat *seat = exchange->seat[i];
        if (seat && seat->open && seat->asked && !seat->heard && !seat->has_answer &&
            same_agent(seat) && seat->deadline_us > now && seat->deadline_us > last)
            last = seat->deadline_us;
    }
    return last;
}

bool aw_agent_exchange_waits(struct aw_agent_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    const bool waits = last_deadline(exchange, now_us(exchange)) != INT64_MIN;
    pthread_mutex_unlock(&exchange->lock);
    return waits;
}

void aw_agent_exchange_wait(struct aw_agent_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    for (;;) {
        const int64_t until = last_deadline(exchange, now_us(exchange));
        if (until == INT64_MIN)
            break;
        if (exchange->config.pause) {
            pthread_mutex_unlock(&exchange->lock);
            exchange->config.pause(exchange->config.ctx, until);
            pthread_mutex_lock(&exchange->lock);
            continue;
        }
        const struct timespec at = {.tv_sec = until / 1000000, .tv_nsec = (until % 1000000) * 1000};
        pthread_cond_timedwait(&exchange->arrived, &exchange->lock, &at);
    }
    pthread_mutex_unlock(&exchange->lock);
}

void aw_agent_exchange_hear(struct aw_agent_exchange *exchange, uint32_t index,
                            struct aw_external_agent_answer *ret)
{
    pthread_mutex_lock(&exchange->lock);
    struct seat *seat = seat_at(exchange, index);
    AW_ASSERT(seat);
    struct aw_external_agent_answer answer = {0};
    if ((seat->asked && !seat->heard) || seat->flooded) {
        const enum aw_external_agent_fault fault = seat->flooded ? AW_EXTERNAL_AGENT_FAULT_FLOOD
                                                   : same_agent(seat)
                                                       ? AW_EXTERNAL_AGENT_FAULT_LATE
                                                       : AW_EXTERNAL_AGENT_FAULT_GONE;
        if (seat->has_answer && !seat->flooded) {
            answer = seat->answer;
        } else {
            answer.fault = fault;
            exchange->counts.faults[fault]++;
        }
        answer.agent = seat->asked_agent;
        answer.shadow = seat->asked_shadow;
        memcpy(answer.name, seat->asked_name, sizeof answer.name);
        seat->heard = true;
        seat->flooded = false;
    } else if (seat->agent) {
        answer.agent = seat->agent->id;
        answer.shadow = seat->agent->shadow;
        answer.fault = AW_EXTERNAL_AGENT_FAULT_UNASKED;
        memcpy(answer.name, seat->agent->name, sizeof answer.name);
    }
    *ret = answer;
    pthread_mutex_unlock(&exchange->lock);
}

void aw_agent_exchange_tell(struct aw_agent_exchange *exchange, uint32_t index,
                            const struct aw_agent_exchange_outcome *outcome)
{
    pthread_mutex_lock(&exchange->lock);
    struct seat *seat = seat_at(exchange, index);
    AW_ASSERT(seat);
    seat->standing = outcome->standing;
    seat->acts = outcome->acts;
    if (seat->asked && same_agent(seat)) {
        seat->outcome = *outcome;
        seat->outcome.id = seat->question.id;
        seat->has_outcome = true;
        wake(seat->agent);
    }
    pthread_mutex_unlock(&exchange->lock);
}

/* --- agents ----------------------------------------------------------------------------------- */

/* Names go into logs and onto terminals. */
static bool name_is_good(const char *name, bool may_be_empty)
{
    const size_t len = strlen(name);
    if (len > NAME_PART_MAX || (len == 0 && !may_be_empty))
        return false;
    for (size_t i = 0; i < len; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '@')
            return false;
    return true;
}

static struct seat *seat_named(const struct aw_agent_exchange *exchange, const char *name)
{
    static const char usual[] = "default/";
    for (uint32_t i = 0; i < exchange->config.seats_max; i++) {
        struct seat *seat = seat_at(exchange, i);
        if (!seat)
            continue;
        const char *own = seat->of.name;
        if (strcmp(own, name) == 0 || (strncmp(own, usual, sizeof usual - 1) == 0 &&
                                       strcmp(own + sizeof usual - 1, name) == 0))
            return seat;
    }
    return NULL;
}

static struct agent *agent_of(const struct aw_agent_exchange *exchange, uint64_t ticket)
{
    if (ticket == 0)
        return NULL;
    struct agent *agent = &exchange->agent[ticket % exchange->config.agents_max];
    return agent->ticket == ticket ? agent : NULL;
}

/* A ticket that leads to a free place. NULL: all are taken. */
static struct agent *take_place(struct aw_agent_exchange *exchange)
{
    const uint32_t max = exchange->config.agents_max;
    for (uint32_t i = 0; i < max; i++) {
        const uint64_t ticket = exchange->ticket_count + 1 + i;
        struct agent *agent = &exchange->agent[ticket % max];
        if (agent->ticket)
            continue;
        exchange->ticket_count = ticket;
        *agent = (struct agent){.ticket = ticket};
        return agent;
    }
    return NULL;
}

static enum aw_err admit(struct aw_agent_exchange *exchange,
                         const struct aw_agent_exchange_hello *hello, uint64_t *ret_ticket,
                         struct aw_agent_exchange_seat *ret_seat, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    if (!name_is_good(hello->agent, false) || !name_is_good(hello->version, true))
        return aw_fail(diag, AW_ERR_FORMAT,
                       "agent and version: expected up to %u printable characters without space "
                       "or '@'",
                       NAME_PART_MAX);
    struct seat *seat = seat_named(exchange, hello->workload);
    if (!seat)
        return aw_fail(
            diag, AW_ERR_NOTFOUND, "no workload that admits an external agent is called %s",
            aw_text_quote(hello->workload, strlen(hello->workload), quoted, sizeof quoted));
    const uint32_t act_dim = aw_action_dim(seat->of.more);
    if ((hello->obs_dim && hello->obs_dim != seat->of.obs_dim) ||
        (hello->act_dim && hello->act_dim != act_dim))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "workload %s has %u observations and %u actions, the agent was made for %u "
                       "and %u",
                       seat->of.name, seat->of.obs_dim, act_dim, hello->obs_dim, hello->act_dim);
    if (seat->agent && !hello->take_over)
        return aw_fail(diag, AW_ERR_EXISTS, "agent %s serves workload %s already",
                       seat->agent->name, seat->of.name);
    struct agent *agent = take_place(exchange);
    if (!agent)
        return aw_fail(diag, AW_ERR_LIMIT, "as many agents as there may be are here: %u",
                       exchange->config.agents_max);
    lose_seat(exchange, seat, AW_AGENT_EXCHANGE_END_OTHER_AGENT);
    seat->orphaned = true; /* what was asked before is not for this one, whatever its name */
    agent->seat = seat;
    agent->shadow = hello->shadow;
    agent->wake = hello->wake;
    agent->ctx = hello->ctx;
    snprintf(agent->name, sizeof agent->name, "%s%s%s", hello->agent, *hello->version ? "@" : "",
             hello->version);
    agent->id = aw_external_agent_id(agent->name);
    seat->agent = agent;
    exchange->counts.registered++;
    *ret_ticket = agent->ticket;
    *ret_seat = seat->of;
    return AW_OK;
}

enum aw_err aw_agent_exchange_register(struct aw_agent_exchange *exchange,
                                       const struct aw_agent_exchange_hello *hello,
                                       uint64_t *ret_ticket,
                                       struct aw_agent_exchange_seat *ret_seat,
                                       struct aw_diag *diag)
{
    pthread_mutex_lock(&exchange->lock);
    const enum aw_err err = admit(exchange, hello, ret_ticket, ret_seat, diag);
    exchange->counts.refused += err != AW_OK;
    pthread_mutex_unlock(&exchange->lock);
    return err;
}

void aw_agent_exchange_leave(struct aw_agent_exchange *exchange, uint64_t ticket)
{
    pthread_mutex_lock(&exchange->lock);
    struct agent *agent = agent_of(exchange, ticket);
    AW_ASSERT(agent);
    if (agent->seat) {
        agent->seat->agent = NULL;
        agent->seat->has_outcome = false;
        agent->seat->orphaned = true;
        pthread_cond_broadcast(&exchange->arrived);
    }
    *agent = (struct agent){0};
    exchange->counts.left++;
    pthread_mutex_unlock(&exchange->lock);
}

/* The question is meant for whoever sits there now. */
static bool is_open(const struct seat *seat)
{
    return seat->asked && !seat->heard && !seat->has_answer && same_agent(seat);
}

bool aw_agent_exchange_poll(struct aw_agent_exchange *exchange, uint64_t ticket,
                            struct aw_agent_exchange_message *ret)
{
    pthread_mutex_lock(&exchange->lock);
    struct agent *agent = agent_of(exchange, ticket);
    AW_ASSERT(agent);
    struct seat *seat = agent->seat;
    bool any = true;
    if (!seat) {
        any = !agent->end_told;
        agent->end_told = true;
        if (any)
            *ret = (struct aw_agent_exchange_message){.kind = AW_AGENT_EXCHANGE_END,
                                                      .end = agent->end};
    } else if (seat->has_outcome) {
        *ret = (struct aw_agent_exchange_message){.kind = AW_AGENT_EXCHANGE_OUTCOME,
                                                  .outcome = seat->outcome};
        seat->has_outcome = false;
    } else if (is_open(seat) && !seat->sent) {
        const int64_t left = seat->deadline_us - now_us(exchange);
        *ret = (struct aw_agent_exchange_message){.kind = AW_AGENT_EXCHANGE_QUESTION,
                                                  .question = seat->question,
                                                  .others = seat->others,
                                                  .left_s = left > 0 ? 1e-6 * (double)left : 0};
        seat->sent = true;
    } else {
        any = false;
    }
    pthread_mutex_unlock(&exchange->lock);
    return any;
}

/* One answer more than was asked for. */
static void stray(struct aw_agent_exchange *exchange, struct agent *agent)
{
    struct seat *seat = agent->seat;
    if (!seat || ++agent->stray <= AW_AGENT_EXCHANGE_STRAY_MAX)
        return;
    seat->flooded = true;
    seat->asked_agent = agent->id;
    seat->asked_shadow = agent->shadow;
    memcpy(seat->asked_name, agent->name, sizeof seat->asked_name);
    lose_seat(exchange, seat, AW_AGENT_EXCHANGE_END_FLOODING);
}

static void answer_count(struct aw_agent_exchange *exchange, const struct seat *seat)
{
    struct aw_agent_exchange_counts *counts = &exchange->counts;
    counts->answered++;
    aw_metric_observe(&counts->took_s, seat->answer.took_s);
    if (seat->of.deadline_s > 0)
        aw_metric_observe(&counts->deadline_share, seat->answer.took_s / seat->of.deadline_s);
}

enum aw_external_agent_fault aw_agent_exchange_answer(struct aw_agent_exchange *exchange,
                                                      uint64_t ticket, uint64_t id,
                                                      const float *values, size_t count)
{
    return aw_agent_exchange_answer_saying(exchange, ticket, id, values, count, NULL);
}

enum aw_external_agent_fault
aw_agent_exchange_answer_saying(struct aw_agent_exchange *exchange, uint64_t ticket, uint64_t id,
                                const float *values, size_t count,
                                const struct aw_external_agent_words *words)
{
    pthread_mutex_lock(&exchange->lock);
    struct agent *agent = agent_of(exchange, ticket);
    AW_ASSERT(agent);
    struct seat *seat = agent->seat;
    enum aw_external_agent_fault fault = AW_EXTERNAL_AGENT_FAULT_OLD;
    if (!seat) {
        fault = AW_EXTERNAL_AGENT_FAULT_GONE;
    } else if (seat->asked && seat->question.id == id && same_agent(seat) && !seat->has_answer) {
        const int64_t now = now_us(exchange);
        fault = seat->heard || now > seat->deadline_us
                    ? AW_EXTERNAL_AGENT_FAULT_LATE
                    : aw_external_agent_check(values, count, aw_action_dim(seat->of.more),
                                              seat->answer.action);
        if (fault != AW_EXTERNAL_AGENT_FAULT_LATE) {
            seat->answer.fault = fault;
            seat->answer.took_s = 1e-6 * (double)(now - seat->asked_us);
            seat->has_answer = true;
            memset(&seat->answer.words, 0, sizeof seat->answer.words);
            if (words)
                seat->answer.words = *words;
            if (fault == AW_EXTERNAL_AGENT_FAULT_NONE)
                answer_count(exchange, seat);
            pthread_cond_broadcast(&exchange->arrived);
        }
    }
    /* that it did not come in time is counted where it was waited for */
    if (fault != AW_EXTERNAL_AGENT_FAULT_NONE && fault != AW_EXTERNAL_AGENT_FAULT_LATE)
        exchange->counts.faults[fault]++;
    if (fault == AW_EXTERNAL_AGENT_FAULT_OLD || fault == AW_EXTERNAL_AGENT_FAULT_LATE)
        stray(exchange, agent);
    pthread_mutex_unlock(&exchange->lock);
    return fault;
}

/* --- looking ---------------------------------------------------------------------------------- */

void aw_agent_exchange_counts(struct aw_agent_exchange *exchange,
                              struct aw_agent_exchange_counts *ret)
{
    pthread_mutex_lock(&exchange->lock);
    *ret = exchange->counts;
    for (uint32_t i = 0; i < exchange->config.seats_max; i++) {
        const struct seat *seat = seat_at(exchange, i);
        if (!seat)
            continue;
        ret->standing[seat->standing]++;
        ret->acting += seat->acts;
    }
    pthread_mutex_unlock(&exchange->lock);
}

bool aw_agent_exchange_next(struct aw_agent_exchange *exchange, uint32_t *index,
                            struct aw_agent_exchange_seat *ret_seat,
                            char ret_agent[AW_EXTERNAL_AGENT_NAME_MAX])
{
    bool found = false;
    pthread_mutex_lock(&exchange->lock);
    for (uint32_t i = *index; !found && i < exchange->config.seats_max; i++) {
        const struct seat *seat = seat_at(exchange, i);
        if (!seat)
            continue;
        found = true;
        *index = i;
        *ret_seat = seat->of;
        memset(ret_agent, 0, AW_EXTERNAL_AGENT_NAME_MAX);
        if (seat->agent)
            memcpy(ret_agent, seat->agent->name, AW_EXTERNAL_AGENT_NAME_MAX);
    }
    pthread_mutex_unlock(&exchange->lock);
    return found;
}
