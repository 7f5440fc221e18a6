/*
 * page.h - pages that need no other file: a template whose names in double at signs are filled in.
 *
 * Style, scripts and the plotting library travel inside the program (report/). Data are JSON in a
 * script element of their own, four digits each: more cannot be seen.
 */
#ifndef AW_FRAME_PAGE_H
#define AW_FRAME_PAGE_H

#include <aware/err.h>

#include <stdio.h>

/* What stands for a name: a text, or what a function writes. */
struct aw_page_part {
    const char *name; /* NULL ends a table */
    const char *text; /* NULL: ask put */
    void (*put)(FILE *out, const void *ctx);
};

/* Fills in the template and replaces `path`, wholly or not at all. The parts that all pages share
 * (plots, scripts and style) need not be named. An unknown name is a bug of the template. */
AW_NODISCARD enum aw_err aw_page_write(const char *page, const struct aw_page_part *parts,
                                       const void *ctx, const char *path, struct aw_diag *diag);

/* A JSON number of four digits; null for what is not finite. */
void aw_page_real(FILE *out, double value);
/* A JSON text that cannot end the script element around it. */
void aw_page_text(FILE *out, const char *text);
/* Text between tags. */
void aw_page_escaped(FILE *out, const char *text);

#endif
