/*
 * clock.h - time as an argument: the real clock, and one that tests move by hand.
 *
 * Wall time is for stamps that people read; it may jump. Monotonic time is for durations and
 * deadlines; its zero means nothing. Both are microseconds.
 *
 * Call order: pass `&aw_clock_real` or `&virtual.clock` on; code that needs the time asks the
 *             clock.
 * Memory:     a clock is borrowed and must outlive its users. Passing NULL means the real one.
 * Threads:    the real clock is safe everywhere; a virtual one has one owner.
 */
#ifndef AW_BASE_CLOCK_H
#define AW_BASE_CLOCK_H

#include <aware/err.h>

struct aw_clock {
    int64_t (*now_us)(void *self);       /* wall: since 1970-01-01 UTC, without leap seconds */
    int64_t (*monotonic_us)(void *self); /* never goes back */
    /* Returns when monotonic time has reached `monotonic_us`, at once if it has already.
     * AW_ERR_INTERRUPTED: a signal came first, so that a loop can look at its stop flag. */
    enum aw_err (*sleep_until)(void *self, int64_t monotonic_us);
    void *self;
};

/* The clock of the machine. */
extern const struct aw_clock aw_clock_real;

/* A clock that stands still until it is advanced. Sleeping advances it at once. */
struct aw_clock_virtual {
    struct aw_clock clock; /* pass &virtual.clock on */
    int64_t wall_us;
    int64_t mono_us;
    uint64_t sleep_count; /* sleeps that had to wait */
};
void aw_clock_virtual_init(struct aw_clock_virtual *virt, int64_t wall_us);
/* Moves both times on by `us`, which is not negative. */
void aw_clock_virtual_advance(struct aw_clock_virtual *virt, int64_t us);

/* The three questions, with NULL as the real clock. */
int64_t aw_clock_now_us(const struct aw_clock *clock);
int64_t aw_clock_monotonic_us(const struct aw_clock *clock);
AW_NODISCARD enum aw_err aw_clock_sleep_until(const struct aw_clock *clock, int64_t monotonic_us);

/* CPU seconds of the calling thread so far: what a piece of work cost, however busy other threads
 * were. */
double aw_clock_thread_cpu_s(void);
double aw_clock_process_cpu_s(void); /* of all its threads */

/* "2026-11-16 02:03:04" in UTC; simulated times, which begin in 1970, as "3:04:00" and
 * "1d 03:04:00". Returns `buf`. */
const char *aw_time_show_us(int64_t us, char *buf, size_t size);

#endif
