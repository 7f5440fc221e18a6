/*
 * demos.h - what `aware run --demo NAME` shows: one row per demo, one function each.
 *
 * A demo tells one story in about a minute, on what the program has built in: live in the
 * terminal, then as a page (--report, report.html). It reads of its call's options --report,
 * --seed, --quiet and --output; with --output json it writes one document and no page unless a
 * report is asked for.
 */
#ifndef AW_CLI_DEMOS_H
#define AW_CLI_DEMOS_H

#include "frame/verb.h"
#include "lab/tenants_demo.h"

/* name, function of (const struct aw_call *, struct aw_diag *), what it shows. NULL: the control
 * loop itself, as without --file. Add a row here. */
/* clang-format off */
#define AW__DEMO_MAP(X) \
    X("autoscale", NULL, "five workloads, learned and served") \
    X("tasks", aw__demo_tasks, "an unseen workload of every task") \
    X("tenants", aw_demo_tenants, "twenty tenants, a newcomer, a noisy neighbour") \
    X("services", aw__demo_services, "a graph of services, its culprit found and mended") \
    X("serving", aw_serving_demo, "fifteen models on eight simulated GPUs, clocks that save power")
/* clang-format on */

struct aw__demo {
    const char *name;
    enum aw_err (*run)(const struct aw_call *call, struct aw_diag *diag);
};

enum aw_err aw__demo_services(const struct aw_call *call, struct aw_diag *diag);

/* Ends with a NULL name. */
extern const struct aw__demo aw__demos[];
enum aw_err aw__demo_tasks(const struct aw_call *call, struct aw_diag *diag);
/* Their names, for the option; ends with NULL. */
extern const char *const aw__demo_names[];
#define AW__DEMO_HELP_ROW(name_, run_, what_) "; " name_ ": " what_
#define AW__DEMO_HELP                         AW__DEMO_MAP(AW__DEMO_HELP_ROW)

/* NULL: the control loop's own demo, or none was asked for. */
const struct aw__demo *aw__demo_asked(const struct aw_args *args);

#endif
