/* load.h - what the verbs that take a load share. */
#ifndef AW_LAB_LOAD_H
#define AW_LAB_LOAD_H

#include "frame/verb.h"
#include "workload/trace.h"

/* One warning per finding of a trace, and one that says how many more there were. */
void aw__load_warn(const struct aw_call *run, const char *file,
                   const struct aw_trace_report *report);

/* Whether a load as users write it begins with the name of a pattern, and so is no file. */
bool aw__load_is_pattern(const char *text);

#endif
