/*
 * bench.h - what is asked of a benchmark and what it reports: a benchmark is a function in a file
 * of its own and a row of the table below.
 *
 * A benchmark reports figures by name, each with a unit and, where one was set, a goal; main.c
 * prints them as a table or JSON and, with --check, fails where a goal is missed.
 */
#ifndef AW_BENCH_BENCH_H
#define AW_BENCH_BENCH_H

#include <aware/err.h>

/* clang-format off */
/*    name       --against?  what it measures */
#define AW__BENCH_MAP(X)                                                                           \
    X(nn,        true,       "updates, actions and encoder, with --against torch beside PyTorch")  \
    X(rl,        false,      "training steps per second")                                          \
    X(env,       false,      "steps per second of the environments")                               \
    X(sim,       false,      "the simulated cluster, with --fidelity how near the fast model is")  \
    X(ope,       false,      "how often intervals of off-policy evaluation hold the truth")        \
    X(control,   false,      "one decision of a workload that serves, and what it keeps")          \
    X(balancer,  false,      "that of the local cluster beside wrk alone; needs control groups")   \
    X(proxy,     false,      "what the proxy before model servers adds, beside no proxy")          \
    X(order,     false,      "what the order of the proxy's queue is worth, in real time")         \
    X(rpc,       false,      "environments over gRPC, single steps and 256 a message")             \
    X(trace,     false,      "spans to critical paths, and to a culprit")                          \
    X(tenants,   false,      "ten thousand agents on one contended cluster")
/* clang-format on */

#define AW__BENCH_FIGURES_MAX 128u
#define AW__BENCH_NAME_MAX    96u

struct aw__bench_figure {
    char name[AW__BENCH_NAME_MAX]; /* "ddpg update": stable, programs look for it */
    const char *unit;              /* static text: "us", "steps/s" */
    double value;                  /* ours */
    double against;                /* the peer's, in the same unit; NAN: not measured */
    double ratio;                  /* how many times faster ours is; NAN: no peer */
    double goal;                   /* of the ratio, or of the value without a peer; NAN: none */
    bool lower_is_better;          /* of the value */
};

struct aw__bench {
    /* What was asked; a benchmark reads what concerns it. */
    bool against_torch;      /* nn */
    bool fidelity;           /* sim */
    bool json;               /* a program reads along: say nothing for people */
    uint32_t case_count;     /* ope */
    uint32_t seed;           /* ope */
    const char *csv;         /* ope; NULL: no file */
    uint32_t workload_count; /* control; 0: one workload alone */
    uint32_t hours;          /* control, of many workloads */
    /* What was found. */
    struct aw__bench_figure figure[AW__BENCH_FIGURES_MAX];
    uint32_t figure_count;
};

/* One more figure, with all optional members NAN. Beyond the maximum is a bug (AW_ASSERT). */
struct aw__bench_figure *aw__bench_add(struct aw__bench *bench, const char *unit,
                                       const char *name_fmt, ...) AW_PRINTF(3, 4);

/* A benchmark. It may write progress to stderr, nothing to stdout. */
typedef enum aw_err aw__bench_fn(struct aw__bench *bench, struct aw_diag *diag);

#define X(name, peer, help) aw__bench_fn aw__bench_##name;
AW__BENCH_MAP(X)
#undef X
aw__bench_fn aw__bench_fleet;    /* control, where workload_count is not 0 */
aw__bench_fn aw__bench_together; /* sim, with fidelity */

#endif
