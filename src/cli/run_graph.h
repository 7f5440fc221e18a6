/*
 * run_graph.h - `aware run -f FILE` where a file has kind ServiceGraph: one SLO for a graph of
 * services, served on the simulated cluster (daemon/graph_run.h).
 */
#ifndef AW_CLI_RUN_GRAPH_H
#define AW_CLI_RUN_GRAPH_H

#include "frame/verb.h"

/* Whether one of the files is a graph. A file that cannot be read is none: others say why. */
bool aw__run_graph_asked(const struct aw_call *run);
enum aw_err aw__run_graph(const struct aw_call *run, struct aw_diag *diag);

#endif
