/*
 * page.h - the files of the page, which travel inside the program.
 *
 * Memory:  texts that live for ever.
 * Threads: pure function of its argument.
 */
#ifndef AW_WEB_PAGE_H
#define AW_WEB_PAGE_H

#include <aware/err.h>

struct aw_page_file {
    const char *path; /* "/page.css" */
    const char *type;
    const char *text;
};

/* The file of an address, its query left out; NULL: none. */
const struct aw_page_file *aw_page_find(const char *path);

/* The plotting library, which reports use too (src/web/page/vendor/README.md). */
extern const char aw_uplot_js[], aw_uplot_css[];

#endif
