/*
 * timetable.h - when requests are to be sent: pure, the same for the same seed, without a socket.
 *
 * Open loop: the timetable does not know how the server is doing. The rate over time comes from a
 * load (workload/load.h) or is constant; requests arrive evenly (whenever the rate has added up to
 * one more) or as a Poisson process of that rate (whenever it has added up to one more exponential
 * draw, the time change that makes any Poisson process out of the unit one).
 *
 * Call order: init, then next until it says no more. A copy goes on from where it was copied.
 * Memory:     plain struct; the load is borrowed.
 * Threads:    single owner.
 */
#ifndef AW_LOAD_TIMETABLE_H
#define AW_LOAD_TIMETABLE_H

#include "base/rng.h"
#include "workload/load.h"

#define AW_TIMETABLE_RATE_MAX  2e6 /* requests/s: beyond what one machine can send */
#define AW_TIMETABLE_SPEED_MAX 1e6

enum aw_arrivals { AW_ARRIVALS_POISSON, AW_ARRIVALS_EVEN };
extern const char *const aw_arrivals_names[]; /* ends with NULL */

struct aw_timetable_config {
    const struct aw_load *load; /* borrowed; NULL: constant */
    double rate_per_s;          /* where there is no load */
    double speed;               /* the load's time runs so many times faster; rates stay */
    enum aw_arrivals arrivals;
    uint64_t seed;
    int64_t duration_us; /* requests are due before it; 0: no limit */
    uint64_t requests;   /* at most so many; 0: no limit */
};

struct aw_timetable {
    struct aw_timetable_config config;
    struct aw_rng rng;
    uint64_t sent;     /* requests scheduled so far */
    uint64_t slot;     /* of the load, counted on over its repetitions */
    double slot_taken; /* requests of this slot that have been scheduled, or parts of one */
    double slot_us;    /* its length in real time */
};

/* AW_ERR_CONFIG: neither duration nor requests, or a figure out of range; AW_ERR_NODATA: a load
 * without a request; AW_ERR_LIMIT: a rate beyond AW_TIMETABLE_RATE_MAX. */
AW_NODISCARD enum aw_err aw_timetable_init(struct aw_timetable *timetable,
                                           const struct aw_timetable_config *config,
                                           struct aw_diag *diag);
/* When the next request is due, in microseconds since the start; false: no further one. */
bool aw_timetable_next(struct aw_timetable *timetable, int64_t *ret_us);

#endif
