/*
 * bench.h - benchmarks of `aware bench`: each is a function in a file of its own, and a row of the
 * table in bench.c.
 *
 * A benchmark reports figures by name, each with a unit and, where one was set, a goal; `aware
 * bench` prints them as a table or JSON and, with --check, fails where a goal is missed.
 */
#ifndef AW_CLI_BENCH_H
#define AW_CLI_BENCH_H

#include "frame/verb.h"

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
    bool against_torch; /* --against torch was given */
    struct aw__bench_figure figure[AW__BENCH_FIGURES_MAX];
    uint32_t figure_count;
};

/* One more figure, with all optional members NAN. Beyond the maximum is a bug (AW_ASSERT). */
struct aw__bench_figure *aw__bench_add(struct aw__bench *bench, const char *unit,
                                       const char *name_fmt, ...) AW_PRINTF(3, 4);
/* True when the figure has a goal and misses it. */
bool aw__bench_missed(const struct aw__bench_figure *figure);

/* A benchmark. It may write progress to stderr, nothing to stdout. */
typedef enum aw_err aw__bench_fn(const struct aw_call *run, struct aw__bench *bench,
                                 struct aw_diag *diag);

aw__bench_fn aw__bench_balancer;
aw__bench_fn aw__bench_control;
/* `aware bench control --workloads`: so many in one loop, then so many hours of coming and going.
 */
AW_NODISCARD enum aw_err aw__bench_fleet(uint32_t count, uint32_t hours, struct aw__bench *bench,
                                         struct aw_diag *diag);
aw__bench_fn aw__bench_env;
aw__bench_fn aw__bench_nn;
aw__bench_fn aw__bench_ope;
aw__bench_fn aw__bench_rl;
aw__bench_fn aw__bench_rpc;
aw__bench_fn aw__bench_sim;

#endif
