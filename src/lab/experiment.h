/*
 * experiment.h - what the files of the verb `experiment` share: what was asked, and how what was
 * found is printed, kept and drawn.
 *
 * Memory:  jansson's values are their caller's.
 * Threads: single owner.
 */
#ifndef AW_LAB_EXPERIMENT_H
#define AW_LAB_EXPERIMENT_H

#include <jansson.h>
#include <stdio.h>

#include "frame/verb.h"
#include "study/experiment.h"

#define AW__FIGURE_MAX      64u /* bytes of a figure as text, with its NUL */
#define AW__EXPERIMENT_LINE 160u
#define AW__EXPERIMENT_ALL  "all" /* in place of a name: every one of them */

struct aw__experiment {
    const struct aw_experiment_entry *entry;
    struct aw_experiment_config config;
    bool markdown, all;                /* all: one of all that were asked for */
    char load[AW_EXPERIMENT_PATH_MAX]; /* as shown: without folders */
    char html[AW_EXPERIMENT_PATH_MAX], json[AW_EXPERIMENT_PATH_MAX];
    double seconds; /* that this run took; what was taken from the work folder took longer */
};

/* A figure as people read it: "10.5 %", "5.5x", "3m 05s", "12 MiB", "1.25M"; "-" for NAN. ASCII.
 * Returns `buf`. */
const char *aw__figure_show(enum aw_study_report_unit unit, double value, char *buf, size_t size);
/* "9.1 to 12.4 %"; "-" where an end is not known. */
const char *aw__interval_show(enum aw_study_report_unit unit, const struct aw_interval *interval,
                              char *buf, size_t size);

/* One phase of an experiment as a line for a terminal of `columns`, cut to fit. `left_s` NAN: not
 * known yet. Returns `buf`. */
const char *aw__experiment_line(const char *phase, uint32_t done, uint32_t total, double seconds,
                                double left_s, unsigned columns, char *buf, size_t size);

/* Everything, as text of `columns` or as a part of a Markdown page. */
AW_NODISCARD enum aw_err aw__experiment_print(const struct aw__experiment *ask,
                                              const struct aw_study_report *report, FILE *out,
                                              unsigned columns, bool color, struct aw_diag *diag);
/* Everything, with every point of every plot. NULL: out of memory. */
json_t *aw__experiment_json(const struct aw__experiment *ask, const struct aw_study_report *report);
/* The same as a file, wholly or not at all. */
AW_NODISCARD enum aw_err aw__experiment_json_write(const json_t *document, const char *path,
                                                   struct aw_diag *diag);
/* A page that needs no other file, from that document. */
AW_NODISCARD enum aw_err aw__experiment_page_write(const json_t *document, const char *path,
                                                   struct aw_diag *diag);

#endif
