/*
 * scrape.h - what replicas say of themselves: how long requests took inside them.
 *
 * The balancer measures what clients feel, waiting included. A replica that exposes a histogram of
 * its own durations (base/promtext.h) tells how much of that was inside it. A thread of its own
 * asks every replica of every workload that has such metrics, twice a second, and adds up what
 * happened from one answer to the next; observe takes the sums without waiting. A replica that does
 * not answer in time, or not in the right form, is left out of the round.
 *
 * Call order: add a workload's part before other threads see the workload; begin once, any time;
 *             close and total at any time with the cluster's lock held; free before workloads are.
 * Memory:     all at add and begin.
 * Threads:    one of its own, which takes the cluster's lock for moments and never while it waits.
 */
#ifndef AW_CLUSTER_LOCAL_SCRAPE_H
#define AW_CLUSTER_LOCAL_SCRAPE_H

#include <aware/cluster.h>

#include "base/alloc.h"
#include "base/promtext.h"

#define AW__SCRAPE_PATH_MAX 128u

struct aw_local;
struct aw__local_workload;

/* The last reading of one slot's replica, and of which of its lives. */
struct aw__scrape_last {
    uint32_t id;
    int64_t started_us;
    int64_t read_us; /* where it was not read yet, since when it is ready: nothing came before */
    struct aw_promtext_histogram histogram;
};

/* Of one workload. */
struct aw__scrape_part {
    char path[AW__SCRAPE_PATH_MAX]; /* "": its replicas have no metrics */
    char name[AW_PROMTEXT_NAME_MAX];
    struct aw__scrape_last *last;        /* [slots] */
    struct aw_promtext_histogram window; /* since the last close, of all replicas */
    struct aw_promtext_histogram total;  /* since the workload was added */
    int64_t read_us;                     /* the newest that `window` is of */
};

struct aw__scrape; /* opaque */

/* `path` NULL or "": none. AW_ERR_CONFIG, AW_ERR_LIMIT: not a path, or not a name. */
AW_NODISCARD enum aw_err aw__scrape_add(struct aw__scrape_part *part, const char *path,
                                        const char *name, uint32_t slots,
                                        const struct aw_alloc *alloc, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__scrape_begin(struct aw_local *local, const struct aw_alloc *alloc,
                                          struct aw__scrape **ret_scrape, struct aw_diag *diag);
void aw__scrape_free(struct aw__scrape *scrape); /* NULL is a no-op */

/* What was read since the last close becomes figures; missing where there is nothing. */
void aw__scrape_close(struct aw__scrape_part *part, struct aw_sample *figures);

/* One answer, of which `len` bytes are here; `ended`: there will be no more. AW_ERR_NODATA: more is
 * needed. AW_ERR_FORMAT, AW_ERR_UNAVAILABLE (its status), AW_ERR_LIMIT: given up. Turns a chunked
 * body into a plain one where it stands; call it once more only after AW_ERR_NODATA. */
AW_NODISCARD enum aw_err aw__scrape_answer(char *bytes, size_t len, size_t size, bool ended,
                                           const char **ret_body, size_t *ret_len);

#endif
