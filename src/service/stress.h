/*
 * stress.h - takes so much of one resource, for so long: what an anomaly injector starts inside of
 * a control group.
 *
 *   cpu      so many cores of CPU time, in slots of 10 ms
 *   disk     so many bytes/s, written past the page cache to a file without a name
 *   network  so many bytes/s of answers, asked for from a server on loopback
 *   memory   so many bytes/s, walked through a block of four times the last-level cache
 *   llc      so many bytes of the last-level cache kept warm, at random
 *   visits   so many requests/s to a server on loopback, which go no further
 *
 * It ends by itself: when the time is over, and, by the kernel's word, with the process that
 * started it.
 *
 * Call order: run, which returns when the time is over.
 * Memory:     a block for memory and llc.
 * Threads:    of its own.
 */
#ifndef AW_SERVICE_STRESS_H
#define AW_SERVICE_STRESS_H

#include <aware/err.h>
#include <netinet/in.h>

enum aw_stress_kind {
    AW_STRESS_CPU,
    AW_STRESS_DISK,
    AW_STRESS_NETWORK,
    AW_STRESS_MEMORY,
    AW_STRESS_LLC,
    AW_STRESS_VISITS,
    AW_STRESS_KINDS
};
extern const char *const aw_stress_kind_names[]; /* "cpu", "disk", ...; ends with NULL */

struct aw_stress_config {
    enum aw_stress_kind kind;
    double amount;
    int64_t for_us;            /* at most AW_STRESS_MOST_US */
    struct sockaddr_in server; /* NETWORK, VISITS */
    const char *path;          /* VISITS: what is asked for */
    const char *temp_dir;      /* DISK */
};
#define AW_STRESS_MOST_US (INT64_C(3600) * 1000000)

AW_NODISCARD enum aw_err aw_stress_run(const struct aw_stress_config *config, struct aw_diag *diag);

#endif
