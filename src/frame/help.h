/* help.h - what a verb says about itself, on a terminal. */
#ifndef AW_FRAME_HELP_H
#define AW_FRAME_HELP_H

#include <stdio.h>

#include "frame/verb.h"

extern const char aw__about[]; /* what the program is, one paragraph */

/* How text about exit codes, files and the environment is laid out in help, man and reference. */
struct aw__note {
    const char *name; /* NULL ends a table */
    const char *text;
};
extern const struct aw__note aw__notes_environment[];
extern const struct aw__note aw__notes_files[];
extern const struct aw__note aw__notes_exit[];

void aw_help_all(FILE *out, bool color);                              /* aware help */
void aw_help_verb(FILE *out, const struct aw_verb *verb, bool color); /* aware help train */

/* The help of an option with its default: "environments in lockstep (default 1)". Returns `buf`. */
const char *aw__option_help(const struct aw_option *option, char *buf, size_t size);

#endif
