/*
 * wire.h - a paced sender for real packets: what to send when, and what the acks mean.
 *
 * The same monitor intervals as in the simulator (link.h), from acks of single packets. A sender
 * starts with one packet, whose ack says how long a round trip is; then 10 packets per round trip;
 * two intervals are not looked at; then its controller is asked after each interval.
 *
 * A packet is lost when three that were sent later have been acked, or when it is 1.5 round trips
 * old (and AW_WIRE_LATE_S more: slow links). Whatever the controller says, the rate is
 * within the connection's limits, and halved while nothing comes back for two round trips.
 *
 * Whether the link was busy between two acks is judged by the receiver's times, as a way back that
 * jitters would blur it: by gaps between arrivals, and by how much longer than the least a packet
 * was on its way. The clocks need not agree.
 *
 * Call order: init; then due, sent, acked and look as time goes on.
 * Memory:     one block, made by init. Nothing else allocates.
 * Threads:    single owner. Time is an argument, so a test can run it without sockets.
 */
#ifndef AW_CONGESTION_WIRE_H
#define AW_CONGESTION_WIRE_H

#include "congestion/controller.h"

struct aw_alloc;

#define AW_WIRE_WINDOW_MAX  (1u << 15) /* packets not acked */
#define AW_WIRE_SAMPLES_MAX 16384u     /* acks of one interval whose halves are compared */
#define AW_WIRE_BURST_S     0.001      /* of packets that are sent at once, late ones */
#define AW_WIRE_LATE_S      0.25       /* beyond 1.5 round trips */
#define AW_WIRE_TRY_S       1.0        /* until the first packet is sent again */
#define AW_WIRE_REORDERED   3u         /* later acks that say that a packet is lost */

struct aw_wire_slot {
    double sent_s;
    uint8_t state; /* of wire.c */
};

struct aw_wire {
    const struct aw_controller *controller;
    void *self; /* the controller's */
    struct aw_connection connection;
    double rate, send_s; /* packets/s; when the next one may go */
    bool met;            /* the first ack has come */
    uint32_t unseen;     /* intervals that are not looked at yet */
    double length_s;
    uint64_t head, next, top; /* oldest not known, next to send, 1 + highest acked */
    double rtt_s, rtt_last_s, rtt_least_s, way_least_s, far_last_s, heard_s, halved_s;
    uint64_t halvings;
    struct aw_monitor mi;
    double rtt_sum;
    uint32_t sample_count;
    double sample[AW_WIRE_SAMPLES_MAX];
    struct aw_wire_slot *slot; /* [AW_WIRE_WINDOW_MAX] */
    const struct aw_alloc *alloc;
};

/* `self` is at least controller->bytes, set up as the controller wants it; it is reset here. */
AW_NODISCARD enum aw_err aw_wire_init(struct aw_wire *wire, const struct aw_controller *controller,
                                      void *self, double rate_max, double now_s,
                                      const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_wire_deinit(struct aw_wire *wire); /* a zeroed one is a no-op */

/* When something is to be done next: a packet to send (due) or an interval to end. */
double aw_wire_due(const struct aw_wire *wire);
double aw_wire_wake(const struct aw_wire *wire);
/* A packet goes; returns its number. */
uint64_t aw_wire_sent(struct aw_wire *wire, double now_s);
/* An ack came at `now_s` for packet `number`, which arrived at `far_s` by the receiver's clock. An
 * ack of a packet that is not waited for is nothing. */
void aw_wire_acked(struct aw_wire *wire, uint64_t number, double far_s, double now_s);
/* Ends what has ended: packets too old, the interval, silence. */
void aw_wire_look(struct aw_wire *wire, double now_s);

#endif
