/*
 * runner.h - an application that really runs: its segments, made ready, and requests through them.
 *
 * The description (workload/app.h) says what a request costs; the runner makes it cost that. CPU
 * time is spent on the kind's own work (kind.h), in pieces whose cost is measured on this machine;
 * waiting is real reading, writing and talking to an object server, filled up to what the
 * description says; memory of a request is mapped, touched and given back.
 *
 * Call order: new, then measure or costs_set, then run from `worker_count` threads, each with its
 *             own index, then free when all have returned.
 * Memory:     blocks at new; a run holds what the description says a request holds, mapped, and
 *             kept for the next one for a moment. Libraries (zlib, jansson, libyaml, SQLite) also
 *             use the process heap.
 * Threads:    run may be called by different workers at once; everything else by the owner.
 *
 * Nothing is left behind whatever ends the process: files have no name.
 */
#ifndef AW_SEGMENTS_RUNNER_H
#define AW_SEGMENTS_RUNNER_H

#include "base/alloc.h"
#include "workload/app.h"

#define AW_RUNNER_WORKERS_MAX    256u
#define AW_RUNNER_PAYLOAD_MAX    64.0
#define AW_RUNNER_MEMORY_KEPT_US 500000 /* after a request, for the next */

enum aw_runner_waits {
    AW_RUNNER_WAITS_DESCRIBED, /* as long as the description says, or longer if the machine does */
    AW_RUNNER_WAITS_REAL,      /* as long as this machine takes */
};

struct aw_runner_config {
    struct aw_app app;
    double payload;        /* multiplies every payload, > 0; 1: as described */
    uint32_t families;     /* of those families alone: bit 1 << family; 0: all */
    double work_scale;     /* multiplies the CPU time, >= 0; 1: as described */
    uint32_t worker_count; /* threads that will call run, from 1 */
    enum aw_runner_waits waits;
    const char *temp_dir;      /* for files without a name; read at new */
    const char *object_server; /* "ADDR:PORT", for segments that use one; NULL: none */
    uint64_t seed;             /* of what is drawn for a request, and of generated data */
};

/* What a segment costs on this machine: pieces * piece_us + fixed_us of CPU time. */
struct aw_runner_cost {
    double piece_us; /* > 0 */
    double fixed_us; /* what a request costs without any piece: files, sockets, memory */
};

/* What one request did. Times are of the request's own threads. */
struct aw_run {
    double cpu_us[AW_APP_SEGMENTS_MAX];  /* spent */
    double wait_us[AW_APP_SEGMENTS_MAX]; /* from its start to its end, without the CPU part */
    uint64_t pieces[AW_APP_SEGMENTS_MAX];
    uint64_t read_bytes, write_bytes, send_bytes;
    uint32_t segment_failed; /* index, when run failed */
};

struct aw_runner;

/* Makes every segment ready. AW_ERR_UNSUPPORTED: a segment of a kind that cannot run;
 * AW_ERR_CONFIG, AW_ERR_UNAVAILABLE (object server), AW_ERR_IO (temp_dir), AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_runner_new(const struct aw_runner_config *config,
                                       const struct aw_alloc *alloc, struct aw_runner **ret_runner,
                                       struct aw_diag *diag);
void aw_runner_free(struct aw_runner *runner); /* NULL is a no-op */

/* Measures each segment for about `budget_us` of CPU time; no worker may run meanwhile. */
AW_NODISCARD enum aw_err aw_runner_measure(struct aw_runner *runner, int64_t budget_us,
                                           struct aw_diag *diag);
/* As measured before, one entry per segment. */
void aw_runner_costs_set(struct aw_runner *runner, const struct aw_runner_cost *cost);
const struct aw_runner_cost *aw_runner_costs(const struct aw_runner *runner);

/* One request, from its first segment to its last; `payload` multiplies that of the config for it
 * alone. Blocks. Whatever it returns, `ret_run` has what was done. */
AW_NODISCARD enum aw_err aw_runner_run(struct aw_runner *runner, uint32_t worker, double payload,
                                       struct aw_run *ret_run, struct aw_diag *diag);

/* Gives back memory that requests held and none has needed for AW_RUNNER_MEMORY_KEPT_US, one
 * request's worth at a time. Every run does so too; this is for times without runs. */
void aw_runner_trim(struct aw_runner *runner);

/* The application at the config's payload, for the server, which holds memory and answers for
 * it. */
const struct aw_demand *aw_runner_demand(const struct aw_runner *runner);
const struct aw_app *aw_runner_app(const struct aw_runner *runner);

/* Whether any of its segments talks to an object server. */
bool aw_runner_needs_objects(const struct aw_app *app);
/* The kinds that can run: those built in, in their order, then "sleep"; NULL at the end. */
#define AW_RUNNER_KINDS (AW_SEGMENT_BUILTIN_COUNT + 1)
const char *aw_runner_kind_name(uint32_t index);
/* Which of them a segment is; -1: none. */
int aw_runner_kind(const char *name);

#endif
