/*
 * adaptive.h - the controller that was learned: an estimate of the link, and a policy made by it.
 *
 * From the acks it keeps an estimate of the link: bandwidth, loss, what lies in the queue, and how
 * much the bandwidth moves. A few numbers of that (the embedding) choose the numbers of a control
 * law: how fast to grow, how fast to drain, how much queue to keep. Which numbers follow from which
 * embedding is learned by search on many links (learn.h); docs/algorithms/congestion.md has the
 * equations.
 *
 * Memory:  a policy is a plain struct; the controller's state too. Nothing allocates.
 * Threads: a policy is read-only while controllers use it.
 */
#ifndef AW_CONGESTION_ADAPTIVE_H
#define AW_CONGESTION_ADAPTIVE_H

#include "congestion/controller.h"

/* The numbers of the control law. Each is searched for in [0, 1] and mapped to [low, high], by its
 * logarithm where `log` is set. */
/* clang-format off */
/*    name           low    high   log    first  what                                            */
#define AW_LAW_MAP(X)                                                                             \
    X(start_growth,  1.2,   8.0,   true,  2.5,   "rate after / before an interval, at the start") \
    X(start_limit,   0.5,   30.0,  true,  6.0,   "packets sent beyond what came back, of a trip")  \
    X(growth,        1.0,   1.5,   false, 1.05,  "rate after / before an interval, queue empty")  \
    X(drain,         0.05,  3.0,   true,  0.7,   "share of the queue to drain in a round trip")   \
    X(queue_share,   0.0,   0.5,   false, 0.03,  "queue to keep, of bandwidth x round trip")      \
    X(queue_packets, 0.0,   6.0,   false, 1.0,   "queue to keep, packets beside that")            \
    X(empty,         0.3,   8.0,   true,  2.0,   "queue (packets) below which it is empty")       \
    X(down,          0.1,   1.0,   false, 0.8,   "weight of a lower bandwidth than estimated")    \
    X(up,            0.1,   1.0,   false, 0.6,   "weight of a higher one")                        \
    X(hold,          0.8,   1.05,  false, 0.99,  "rate kept, of the bandwidth estimated")
/* clang-format on */

enum aw_law {
#define X(name, low, high, log, first, what) AW_LAW_##name,
    AW_LAW_MAP(X)
#undef X
        AW_LAW_COUNT
};

enum aw_trait {
    AW_TRAIT_STEADY,  /* how little the bandwidth moves */
    AW_TRAIT_PACKETS, /* log of packets in a round trip */
    AW_TRAIT_LOSS,    /* at random */
    AW_TRAIT_COUNT
};

struct aw_adaptive_policy {
    double base[AW_LAW_COUNT];                   /* in [0, 1] */
    double weight[AW_LAW_COUNT][AW_TRAIT_COUNT]; /* added, times the embedding */
};
struct aw_adaptive_policy aw_adaptive_first(void); /* before any search */
/* The law for an embedding, in units of the map. */
void aw_adaptive_law(const struct aw_adaptive_policy *policy, const double trait[AW_TRAIT_COUNT],
                     double law[AW_LAW_COUNT]);

/* What replaces the embedding, for ablations. */
enum aw_adaptive_mode {
    AW_ADAPTIVE_SEEN,   /* the estimate: what ships */
    AW_ADAPTIVE_ZEROED, /* zeros */
    AW_ADAPTIVE_GIVEN,  /* `given`: another link's (shuffled), or the true one */
};

struct aw_adaptive {
    const struct aw_adaptive_policy *policy;
    enum aw_adaptive_mode mode;
    double given[AW_TRAIT_COUNT];
    struct aw_connection connection;
    bool started;     /* the start is over: bandwidth is known */
    double rate;      /* packets/s, asked for */
    double bandwidth; /* packets/s that the link serves; 0: not known */
    double loss;      /* at random */
    double moved;     /* mean |log change| of bandwidth between intervals */
    double idle_s;    /* without an ack */
    double trait[AW_TRAIT_COUNT];
};
void aw_adaptive_reset(struct aw_adaptive *adaptive, const struct aw_connection *connection);
double aw_adaptive_next(struct aw_adaptive *adaptive, const struct aw_monitor *mi);
/* The embedding of a link that is known: what the estimate would come to. */
void aw_adaptive_truth(const struct aw_link *link, double trait[AW_TRAIT_COUNT]);

/* As a controller: `self` must be a struct aw_adaptive whose policy, mode and given are set; reset
 * keeps them. */
extern const struct aw_controller aw_adaptive_controller;

#endif
