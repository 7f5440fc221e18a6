/*
 * counters.h - instructions, cycles and stalls of all CPUs by perf_event_open, and busy time.
 *
 * Call order: open, then read once a second, close.
 * Memory:     plain struct. Threads: single owner.
 *
 * The trap: counters that share the hardware run a part of the time; counts are scaled up by
 * enabled/running, and `counted` says which share was real. Virtual machines often have none: then
 * open says so, and what is not known stays NAN.
 */
#ifndef AW_FREQUENCY_COUNTERS_H
#define AW_FREQUENCY_COUNTERS_H

#include <aware/err.h>

#define AW_COUNTER_CPUS_MAX 256u
enum { AW_COUNT_INSTRUCTIONS, AW_COUNT_CYCLES, AW_COUNT_STALLS, AW_COUNT_KINDS };

struct aw_counters {
    uint32_t cpus;
    int fd[AW_COUNTER_CPUS_MAX][AW_COUNT_KINDS];           /* -1: none */
    uint64_t last[AW_COUNTER_CPUS_MAX][AW_COUNT_KINDS][3]; /* value, enabled, running */
    bool hardware;
    char why[160]; /* why not; "": nothing is missing */
    uint64_t busy, idle;
    const char *stat; /* /proc/stat, or a file like it */
};

struct aw_counted {
    double instructions, cycles, stalls; /* since the last read; NAN: not known */
    double counted;                      /* least share of the time a counter ran */
    bool backwards;
    double use; /* busy share of all CPUs; NAN: not known */
};
void aw_counters_open(struct aw_counters *counters, uint32_t cpus, const char *stat);
void aw_counters_read(struct aw_counters *counters, struct aw_counted *ret);
void aw_counters_close(struct aw_counters *counters);

/* One counter's reading against the one before, both {value, enabled, running}: the scaled
 * difference; pure, so that tests can feed it. False: it went backwards. */
bool aw_counter_difference(const uint64_t before[3], const uint64_t now[3], double *ret_difference,
                           double *ret_share);

#endif
