/*
 * conformance_case.h - what a kind of case needs: readers that remember the first failure, and
 * comparisons that write both sides down.
 *
 * Readers return 0 after a failure, so a kind reads all it needs, computes, compares, and never
 * looks at errors; the runner does. Memory and threads: as conformance.h.
 */
#ifndef AW_TESTS_CONFORMANCE_CASE_H
#define AW_TESTS_CONFORMANCE_CASE_H

#include "base/text.h"
#include "base/tree.h"

#define AW__CASE_LIST_MAX 256u /* pods, samples or events of one case */

struct aw__case {
    const struct aw_tree *tree;
    const struct aw_node *in, *expect;
    enum aw_err err;
    struct aw_diag diag;
    bool differs;
    uint32_t compared; /* keys of `expect` that were used */
    struct aw_text expected, found;
};

struct aw__case_kind {
    const char *kind;
    void (*run)(struct aw__case *c);
    const char *in_keys[12]; /* all that may be there, ending with NULL */
};
extern const struct aw__case_kind aw__case_kinds_hpa[], aw__case_kinds_vpa[]; /* end: kind NULL */

/* Fails the case with a text, at a value; the first failure stays. */
void aw__case_fail(struct aw__case *c, const struct aw_node *node, const char *text);

/* The value under `key`; NULL (and a failed case) where it is missing. */
const struct aw_node *aw__case_need(struct aw__case *c, const struct aw_node *map, const char *key);
bool aw__case_has(const struct aw_node *map, const char *key); /* there, and not null */
/* Whole numbers may be written as 3.14e9. */
int64_t aw__case_whole(struct aw__case *c, const struct aw_node *node, int64_t min, int64_t max);
int64_t aw__case_i64(struct aw__case *c, const struct aw_node *map, const char *key, int64_t min,
                     int64_t max);
double aw__case_real(struct aw__case *c, const struct aw_node *map, const char *key);
const char *aw__case_text(struct aw__case *c, const struct aw_node *map, const char *key);
/* The first item of a list of at most AW__CASE_LIST_MAX; NULL for an empty one. */
const struct aw_node *aw__case_list(struct aw__case *c, const struct aw_node *map, const char *key);
/* A list of `count` numbers from -max to max, such as [change, age]. */
void aw__case_numbers(struct aw__case *c, const struct aw_node *list, double *ret, uint32_t count,
                      double max);
/* The key of a map's entry as a number. */
double aw__case_key(struct aw__case *c, const struct aw_node *node);

/* One value against what `expect` says under `key`, if it says so. */
void aw__case_same(struct aw__case *c, const char *key, int64_t found);
void aw__case_same_text(struct aw__case *c, const char *key, const char *found);
void aw__case_same_bool(struct aw__case *c, const char *key, bool found);
void aw__case_close(struct aw__case *c, const char *key, double found, double relative);
/* The parts of the above, for values deeper down. */
void aw__case_compare(struct aw__case *c, const char *label, double expected, double found,
                      double relative);
const struct aw_node *aw__case_expect(struct aw__case *c, const char *key); /* counts as compared */

#endif
