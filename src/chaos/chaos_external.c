/*
 * chaos_external.c - agents of other processes, as bad as they come: late, silent, not a number, of
 * a wrong size, out of bounds, about something old, flooding, gone in the middle of it, two at
 * once; and some that answer as agreed and want to hurt.
 *
 * They sit where a transport would (agent_exchange.h). What each of them really said, and when, is
 * written down here, so that what was carried out can be held against it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chaos/chaos_internal.h"

#define AGENT_STREAM 3u /* of the seed: what agents do */
#define FLOOD        200u

enum mood {
    KIND,  /* well formed, in time, some action */
    LEAST, /* the same, always the least of everything */
    FLIP,  /* the same, from the least to the most in every tick */
    SILENT,
    LATE,
    NOT_A_NUMBER,
    INFINITE,
    SIZE,
    BOUNDS,
    OLD,
    FUTURE,
    TWICE,          /* a bad one behind a good one */
    TOO_LATE_TWICE, /* a good one behind a bad one */
    FLOODING,
    LEAVING,   /* without an answer */
    REJOINING, /* the same, and back at once */
    PARTING,   /* with an answer, then gone */
    OUSTED,    /* another one takes its place, and it answers all the same */
    MOODS
};

static int64_t wire_now(void *self)
{
    return ((struct aw__chaos *)self)->wire_us;
}

static enum aw_err wire_sleep(void *self, int64_t monotonic_us)
{
    (void)self;
    (void)monotonic_us;
    return AW_OK;
}

static void no_wake(void *ctx)
{
    (void)ctx;
}

static void come(struct aw__chaos *world, uint32_t w, bool take_over)
{
    struct aw__chaos_agent *agent = &world->agent[w];
    struct aw_agent_exchange_seat seat;
    char name[16];
    snprintf(name, sizeof name, "agent-%u", aw_rng_below(&world->agent_rng, 3));
    const struct aw_agent_exchange_hello hello = {.workload = world->workload[w].pilot.name,
                                                  .agent = name,
                                                  .version = "1",
                                                  .take_over = take_over,
                                                  .wake = no_wake};
    uint64_t ticket = 0;
    if (aw_agent_exchange_register(world->exchange, &hello, &ticket, &seat, NULL))
        return;
    if (agent->ticket)
        aw_agent_exchange_leave(world->exchange, agent->ticket);
    agent->ticket = ticket;
    agent->asked = 0;
}

static void go(struct aw__chaos *world, uint32_t w)
{
    struct aw__chaos_agent *agent = &world->agent[w];
    if (agent->ticket)
        aw_agent_exchange_leave(world->exchange, agent->ticket);
    agent->ticket = 0;
}

/* --- what one says ---------------------------------------------------------------------------- */

static void say(struct aw__chaos *world, uint32_t w, uint64_t id, const float *values, size_t count)
{
    struct aw__chaos_agent *agent = &world->agent[w];
    if (!agent->ticket)
        return;
    const enum aw_external_agent_fault fault =
        aw_agent_exchange_answer(world->exchange, agent->ticket, id, values, count);
    world->result->answers[fault]++;
    aw__chaos_digest(world, &fault, sizeof fault);
}

/* The answer that would be followed from one who is trusted. */
static void say_well(struct aw__chaos *world, uint32_t w)
{
    struct aw__chaos_agent *agent = &world->agent[w];
    for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
        agent->action[a] = agent->mood == LEAST  ? -1
                           : agent->mood == FLIP ? (world->tick % 2 ? 1 : -1)
                                                 : (float)aw_rng_uniform(&world->agent_rng, -1, 1);
    agent->said = true;
    say(world, w, agent->asked, agent->action, AW_ACTION_DIM);
}

static void say_badly(struct aw__chaos *world, uint32_t w, uint32_t mood)
{
    static const size_t sizes[] = {0, 1, 2, 4, 64};
    struct aw_rng *rng = &world->agent_rng;
    float values[64] = {0};
    size_t count = AW_ACTION_DIM;
    const uint32_t at = aw_rng_below(rng, AW_ACTION_DIM);
    if (mood == NOT_A_NUMBER)
        values[at] = NAN;
    else if (mood == INFINITE)
        values[at] = aw_rng_below(rng, 2) ? INFINITY : -INFINITY;
    else if (mood == BOUNDS)
        values[at] = (float)aw_rng_uniform(rng, 1.001, 1e6) * (aw_rng_below(rng, 2) ? 1.0f : -1.0f);
    else
        count = sizes[aw_rng_below(rng, sizeof sizes / sizeof *sizes)];
    say(world, w, world->agent[w].asked, values, count);
}

static void act(struct aw__chaos *world, uint32_t w)
{
    struct aw__chaos_agent *agent = &world->agent[w];
    static const float zeros[AW_ACTION_DIM];
    switch ((enum mood)agent->mood) {
    case KIND:
    case LEAST:
    case FLIP:
        say_well(world, w);
        break;
    case TWICE:
        say_well(world, w);
        say_badly(world, w, NOT_A_NUMBER);
        say(world, w, agent->asked, zeros, AW_ACTION_DIM);
        break;
    case TOO_LATE_TWICE:
        say_badly(world, w, BOUNDS);
        say(world, w, agent->asked, zeros, AW_ACTION_DIM);
        break;
    case NOT_A_NUMBER:
    case INFINITE:
    case SIZE:
    case BOUNDS:
        say_badly(world, w, agent->mood);
        break;
    case OLD:
        say(world, w, agent->asked - 1, zeros, AW_ACTION_DIM);
        break;
    case FUTURE:
        say(world, w, agent->asked + 1, zeros, AW_ACTION_DIM);
        break;
    case FLOODING:
        for (uint32_t i = 0; i < FLOOD; i++)
            say(world, w, i, zeros, AW_ACTION_DIM);
        break;
    case LEAVING:
        go(world, w);
        break;
    case REJOINING:
        go(world, w);
        come(world, w, false);
        break;
    case PARTING:
        say_well(world, w);
        go(world, w);
        break;
    case OUSTED: {
        const uint64_t id = agent->asked, before = agent->ticket;
        agent->ticket = 0;
        come(world, w, true);
        (void)aw_agent_exchange_answer(world->exchange, before, id, zeros, AW_ACTION_DIM);
        aw_agent_exchange_leave(world->exchange, before);
        say(world, w, id, zeros, AW_ACTION_DIM); /* nor has the new one been asked */
        break;
    }
    case SILENT:
    case LATE:
    case MOODS:
        break;
    }
}

/* The loop waits: everybody does what they do, and where somebody is still waited for, time passes
 * and the late ones answer. */
static void while_it_waits(void *ctx, int64_t until_us)
{
    struct aw__chaos *world = ctx;
    bool acted = false;
    for (uint32_t w = 0; w < world->count; w++) {
        struct aw__chaos_agent *agent = &world->agent[w];
        struct aw_agent_exchange_message message;
        while (agent->ticket && !agent->answered &&
               aw_agent_exchange_poll(world->exchange, agent->ticket, &message)) {
            if (message.kind == AW_AGENT_EXCHANGE_END) {
                go(world, w);
            } else if (message.kind == AW_AGENT_EXCHANGE_QUESTION) {
                agent->asked = message.question.id;
                agent->answered = acted = true;
                act(world, w);
            }
        }
    }
    if (acted)
        return;
    world->wire_us = until_us + 1;
    for (uint32_t w = 0; w < world->count; w++)
        if (world->agent[w].answered && world->agent[w].mood == LATE)
            say(world, w, world->agent[w].asked, (const float[AW_ACTION_DIM]){0}, AW_ACTION_DIM);
}

/* --- a world ---------------------------------------------------------------------------------- */

enum aw_err aw__chaos_external_make(struct aw__chaos *world, struct aw_diag *diag)
{
    struct aw_rng *rng = &world->agent_rng;
    aw_rng_init(rng, world->config.seed, AGENT_STREAM);
    world->wire = (struct aw_clock){
        .now_us = wire_now, .monotonic_us = wire_now, .sleep_until = wire_sleep, .self = world};
    for (uint32_t i = 0; i < world->count; i++) {
        struct aw__chaos_workload *w = &world->workload[i];
        struct aw_external_agent_settings *settings = &w->pilot.external;
        w->spite = AW__SPITE_NONE; /* whoever wants to hurt does so from outside */
        w->pilot.agent = AW_POLICY_EXTERNAL;
        settings->deadline = aw_rng_uniform(rng, 0.05, 5);
        settings->strikes = 1 + aw_rng_below(rng, 4);
        settings->forgive = 1 + aw_rng_below(rng, 20);
        settings->probation = 1 + aw_rng_below(rng, 6);
        settings->backoff = aw_rng_uniform(rng, 15, 300);
        world->agent[i].manners = aw_rng_double(rng);
    }
    return aw_agent_exchange_new(
        &(struct aw_agent_exchange_config){.clock = &world->wire,
                                           .seats_max = AW_CHAOS_WORKLOADS_MAX,
                                           .agents_max = 2 * AW_CHAOS_WORKLOADS_MAX,
                                           .pause = while_it_waits,
                                           .ctx = world},
        NULL, &world->exchange, diag);
}

void aw__chaos_external_free(struct aw__chaos *world)
{
    for (uint32_t w = 0; world->exchange && w < world->count; w++)
        go(world, w);
    aw_agent_exchange_free(world->exchange);
    world->exchange = NULL;
}

void aw__chaos_external_tick(struct aw__chaos *world)
{
    struct aw_rng *rng = &world->agent_rng;
    world->ahead_us += world->wire_us - world->wire_asked_us; /* that the tick before has waited */
    world->wire_us += 1000;
    world->wire_asked_us = world->wire_us;
    for (uint32_t w = 0; w < world->count; w++) {
        struct aw__chaos_agent *agent = &world->agent[w];
        agent->answered = agent->said = false;
        agent->mood = aw_rng_double(rng) < agent->manners ? aw_rng_below(rng, SILENT)
                                                          : aw_rng_below(rng, MOODS);
        if (!agent->ticket && aw_rng_double(rng) < 0.6)
            come(world, w, aw_rng_below(rng, 2));
        else if (agent->ticket && aw_rng_double(rng) < 0.02)
            go(world, w);
        else if (agent->ticket && aw_rng_double(rng) < 0.01)
            for (uint32_t i = 0; i < FLOOD; i++)
                say(world, w, i, (const float[AW_ACTION_DIM]){0}, AW_ACTION_DIM);
    }
}

void aw__chaos_external_check(struct aw__chaos *world, uint32_t w,
                              const struct aw_decision *decision)
{
    const struct aw__chaos_agent *agent = &world->agent[w];
    const struct aw_external_agent_report *report = &decision->external;
    world->result->asides += report->moved && report->standing == AW_EXTERNAL_AGENT_ASIDE;
    if (decision->in_charge == AW_ACTOR_AGENT)
        aw__chaos_must(world,
                       agent->said &&
                           memcmp(decision->action, agent->action, sizeof decision->action) == 0,
                       AW_INVARIANT_EXTERNAL, w, "the agent acts, and %s",
                       agent->said ? "this is not what it said" : "it has said nothing of use");
    double longest_s = 0;
    for (uint32_t i = 0; i < world->count; i++)
        longest_s = fmax(longest_s, world->workload[i].pilot.external.deadline);
    const double waited_s = 1e-6 * (double)(world->wire_us - world->wire_asked_us);
    aw__chaos_must(world, waited_s <= longest_s + 1e-5, AW_INVARIANT_EXTERNAL, w,
                   "%g s were waited for agents, the longest deadline is %g s", waited_s,
                   longest_s);
    aw__chaos_digest(world, &report->standing, sizeof report->standing);
}
