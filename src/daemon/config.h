/*
 * config.h - what a run is: workloads, cluster, time, where it is kept, which doors are open.
 *
 * Call order: zero it, aw_profile_set_init, files, workloads; then a session (session.h). Where a
 *             workload of the files is changed, that is between files and workloads. deinit ends
 *             any state of it.
 * Memory:     plain data; the arrays and the shelf are the config's own.
 * Threads:    single owner.
 *
 * Nothing here knows of a command line, and nothing here prints: what is odd in a file goes to a
 * callback of the caller, what can be lived with to a log.
 */
#ifndef AW_DAEMON_CONFIG_H
#define AW_DAEMON_CONFIG_H

#include "base/file.h"
#include "base/log.h"
#include "policy/pretrained.h"
#include "simulation/job.h"
#include "web/listen_auth.h"

/* Of what is kept, in the directory of a run. */
/* Of the audit log, for growth and orders on a full disk: some two thousand entries. */
#define AW_DAEMON_RESERVE_BYTES (4u << 20)
#define AW_DAEMON_AUDIT         "audit"
#define AW_DAEMON_JOURNAL       "decisions.db"
#define AW_DAEMON_SOCKET        "socket"
#define AW_DAEMON_AGENTS        "agents"
#define AW_DAEMON_TRACES        "traces.db"

/* The door for agents of other processes. */
struct aw_daemon_agents {
    char address[AW_FILE_PATH_MAX]; /* "": nowhere */
    bool asked;                     /* a door is made whether or not a workload admits an agent */
    double wait_s;                  /* for which a run waits for them before its first step */
    const char *token_file, *tls_cert, *tls_key; /* paths, borrowed; NULL: none */
};

/* The doors for spans of requests that cross services. */
struct aw_daemon_traces {
    const char *http, *grpc;        /* addresses, borrowed; NULL: none */
    const char *token_file;         /* path, borrowed; NULL: none */
    const char *tls_cert, *tls_key; /* paths, of both; NULL: none */
    const char *forward;            /* URL of another OTLP receiver; NULL: none */
    const char *forward_token_file;
};

struct aw_daemon_config {
    bool demo;
    bool local; /* processes of this machine; false: the simulated cluster */
    struct aw_profile_set set;
    struct aw_job_workload *workload; /* [set.profile_count] */
    struct aw_load *load;             /* [set.profile_count] */
    const char *models;               /* folder looked into first; borrowed; NULL: none */
    struct aw_model_shelf *shelf;     /* models that they begin at; NULL: none does */
    uint32_t count;
    const char *fallback; /* "hpa+vpa-mem"; "the fallback" where they differ */
    uint64_t seed;
    uint64_t steps_total;
    double step_s;
    double speed; /* simulated over real time; INFINITY: as fast as it goes */
    bool twin;
    bool daemon; /* without end, with a socket */
    bool audit;  /* with an audit log and a journal */
    bool fresh;  /* what is kept is forgotten first */
    uint32_t thread_count;
    char socket[AW_FILE_PATH_MAX];  /* of a daemon */
    struct aw_listen_auth door;     /* of its page and metrics; host "": none */
    struct aw_listen_auth probes;   /* for liveness probes; host "": none */
    char reports[AW_FILE_PATH_MAX]; /* folder that the page shows; "": none */
    struct aw_daemon_agents agents;
    struct aw_daemon_traces traces;
    char state[AW_FILE_PATH_MAX];  /* directory; "": none */
    char store[AW_FILE_PATH_MAX];  /* for aw_store_open */
    char report[AW_FILE_PATH_MAX]; /* file; "": none */
};

/* Reads files into the set, beside what is there, and checks the whole. `seed` NULL: as the files
 * say. On failure the config is to be deinitialised, here and below. */
AW_NODISCARD enum aw_err aw_daemon_config_files(struct aw_daemon_config *config,
                                                const char *const *files, uint32_t count,
                                                const uint64_t *seed,
                                                struct aw_profile_report *report,
                                                struct aw_diag *diag);
/* Workloads, loads and models of what was read. A model that cannot be used is logged: its
 * workloads learn from nothing. `threads` 0: one per processor. */
AW_NODISCARD enum aw_err aw_daemon_config_workloads(struct aw_daemon_config *config,
                                                    uint32_t threads, struct aw_log *log,
                                                    struct aw_diag *diag);
void aw_daemon_config_deinit(struct aw_daemon_config *config); /* a zeroed one is a no-op */

/* Whether a run on this cluster can be saved and resumed: all but the reference model. */
bool aw_daemon_config_keeps(const struct aw_daemon_config *config);

/* The name without "default/". */
const char *aw_run_name(const char *name);
/* "4:05", "1d 04:05": hours and minutes of a run's time. Returns `buf`. */
#define AW_RUN_CLOCK_MAX 32u
const char *aw_run_clock(int64_t us, char *buf, size_t size);

#endif
