/* wire.c - see wire.h. */
#include "congestion/wire.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "congestion/episode.h"

#define WINDOW_MASK  (AW_WIRE_WINDOW_MAX - 1u)
#define OLD_TRIPS    1.5
#define SILENT_TRIPS 2.0
#define FIRST_TRIPS  1.5 /* length of the first intervals, PCC-RL's 3 D */
#define FIRST_UNSEEN 2u
#define RTT_WEIGHT   0.125 /* RFC 6298 */

enum { KNOWN, SENT };

enum aw_err aw_wire_init(struct aw_wire *wire, const struct aw_controller *controller, void *self,
                         double rate_max, double now_s, const struct aw_alloc *alloc,
                         struct aw_diag *diag)
{
    *wire = (struct aw_wire){.controller = controller,
                             .self = self,
                             .connection = {.rate_min = AW_RATE_MIN, .rate_max = rate_max},
                             .send_s = now_s,
                             .heard_s = now_s,
                             .far_last_s = -INFINITY,
                             .way_least_s = INFINITY,
                             .alloc = alloc};
    wire->slot = aw_alloc_new(alloc, AW_WIRE_WINDOW_MAX, sizeof *wire->slot);
    return wire->slot ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for packets on their way");
}

void aw_wire_deinit(struct aw_wire *wire)
{
    aw_alloc_free(wire->alloc, wire->slot);
    *wire = (struct aw_wire){0};
}

double aw_wire_due(const struct aw_wire *wire)
{
    return wire->next - wire->head >= AW_WIRE_WINDOW_MAX ? (double)INFINITY : wire->send_s;
}

double aw_wire_wake(const struct aw_wire *wire)
{
    const double due_s = aw_wire_due(wire);
    return wire->met ? fmin(due_s, wire->mi.start_s + wire->length_s) : due_s;
}

uint64_t aw_wire_sent(struct aw_wire *wire, double now_s)
{
    AW_ASSERT(wire->next - wire->head < AW_WIRE_WINDOW_MAX);
    if (!wire->met) {
        wire->send_s = now_s + AW_WIRE_TRY_S;
    } else {
        /* late by more than a burst: what was not sent is not made up for */
        wire->send_s = fmax(wire->send_s, now_s - AW_WIRE_BURST_S) + 1 / wire->rate;
        wire->mi.sent++;
    }
    wire->slot[wire->next & WINDOW_MASK] = (struct aw_wire_slot){.sent_s = now_s, .state = SENT};
    return wire->next++;
}

static void interval_begin(struct aw_wire *wire, double now_s)
{
    wire->mi = (struct aw_monitor){.start_s = now_s, .rate = wire->rate};
    wire->rtt_sum = 0;
    wire->sample_count = 0;
}

/* The first round trip: now it is known what 10 packets per round trip are. */
static void meet(struct aw_wire *wire, double now_s)
{
    const double rate = AW_START_PACKETS / fmax(wire->rtt_s, 1e-4);
    wire->met = true;
    wire->connection.rate = fmin(fmax(rate, wire->connection.rate_min), wire->connection.rate_max);
    wire->rate = wire->connection.rate;
    wire->controller->reset(wire->self, &wire->connection);
    wire->unseen = FIRST_UNSEEN;
    wire->length_s = FIRST_TRIPS * wire->rtt_s;
    wire->send_s = wire->halved_s = now_s;
    interval_begin(wire, now_s);
}

static void lose(struct aw_wire *wire, uint64_t number)
{
    struct aw_wire_slot *slot = &wire->slot[number & WINDOW_MASK];
    if (slot->state != SENT)
        return;
    slot->state = KNOWN;
    wire->mi.lost++;
}

/* Packets of which it is known what became of them are let go, from the oldest on. */
static void pass(struct aw_wire *wire)
{
    while (wire->head < wire->next && wire->slot[wire->head & WINDOW_MASK].state != SENT)
        wire->head++;
}

void aw_wire_acked(struct aw_wire *wire, uint64_t number, double far_s, double now_s)
{
    if (number >= wire->next || number < wire->head)
        return;
    struct aw_wire_slot *slot = &wire->slot[number & WINDOW_MASK];
    if (slot->state != SENT)
        return;
    const double rtt_s = now_s - slot->sent_s, way_s = far_s - slot->sent_s;
    slot->state = KNOWN;
    wire->rtt_last_s = rtt_s;
    wire->rtt_s += wire->rtt_s > 0 ? RTT_WEIGHT * (rtt_s - wire->rtt_s) : rtt_s;
    wire->rtt_least_s = wire->rtt_least_s > 0 ? fmin(wire->rtt_least_s, rtt_s) : rtt_s;
    wire->way_least_s = fmin(wire->way_least_s, way_s);
    wire->heard_s = now_s;
    wire->top = number + 1 > wire->top ? number + 1 : wire->top;
    if (!wire->met) {
        meet(wire, now_s);
    } else {
        struct aw_monitor *mi = &wire->mi;
        const double gap_s = far_s - wire->far_last_s;
        if (gap_s >= 0 && gap_s < way_s - wire->way_least_s) {
            mi->busy_acks++;
            mi->busy_s += gap_s;
        }
        mi->ack_first_s = mi->acked++ ? mi->ack_first_s : now_s;
        mi->ack_last_s = now_s;
        mi->rtt_last_s = rtt_s;
        wire->rtt_sum += rtt_s;
        if (wire->sample_count < AW_WIRE_SAMPLES_MAX)
            wire->sample[wire->sample_count++] = rtt_s;
    }
    wire->far_last_s = fmax(wire->far_last_s, far_s);
    for (uint64_t i = wire->head; i + AW_WIRE_REORDERED < wire->top; i++)
        lose(wire, i);
    pass(wire);
}

static void halves(struct aw_wire *wire)
{
    const uint32_t half = wire->sample_count / 2;
    double first = 0, second = 0;
    for (uint32_t i = 0; i < wire->sample_count; i++)
        *(i < half ? &first : &second) += wire->sample[i];
    if (half) {
        wire->mi.rtt_first_s = first / half;
        wire->mi.rtt_second_s = second / (wire->sample_count - half);
    }
}

void aw_wire_look(struct aw_wire *wire, double now_s)
{
    const double old_s = OLD_TRIPS * fmax(wire->rtt_s, wire->rtt_last_s) + AW_WIRE_LATE_S;
    if (!wire->met)
        return;
    for (uint64_t i = wire->head; i < wire->next; i++) {
        if (wire->slot[i & WINDOW_MASK].sent_s + old_s > now_s)
            break;
        lose(wire, i);
    }
    pass(wire);
    const double silent_s = SILENT_TRIPS * wire->rtt_s + 1 / wire->rate;
    if (now_s - wire->heard_s > silent_s && now_s - wire->halved_s > silent_s) {
        wire->rate = fmax(0.5 * wire->rate, wire->connection.rate_min);
        wire->halved_s = now_s;
        wire->halvings++;
    }
    if (now_s < wire->mi.start_s + wire->length_s)
        return;
    struct aw_monitor *mi = &wire->mi;
    mi->end_s = now_s;
    mi->rtt_s = mi->acked ? wire->rtt_sum / (double)mi->acked : 0;
    mi->rtt_least_s = wire->rtt_least_s;
    mi->in_flight = (double)(wire->next - wire->head);
    halves(wire);
    if (wire->unseen) {
        wire->unseen--;
    } else {
        wire->length_s = aw_monitor_length(mi, wire->length_s);
        const double rate = wire->controller->next(wire->self, mi);
        if (isfinite(rate) && now_s - wire->heard_s <= silent_s) {
            const double next =
                fmin(fmax(rate, wire->connection.rate_min), wire->connection.rate_max);
            /* what waits for its turn was timed by the old rate */
            wire->send_s = fmin(wire->send_s, now_s + 1 / next);
            wire->rate = next;
        }
    }
    interval_begin(wire, now_s);
}
