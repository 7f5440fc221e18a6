/*
 * slices.h - a large answer, item by item: a tree of all of it would take ten times its text.
 *
 * An answer of the API server or of Prometheus is an object with one long array in it. The text is
 * cut there: what lies around the array is parsed as ever, with the array empty, and its items one
 * at a time, each gone before the next.
 *
 * Call order: cut; next until there is no more.
 * Memory:     a cursor into the caller's text, which must stay; an item is jansson's, on the
 *             process heap, and the caller must decref it.
 * Threads:    a cursor has one owner.
 *
 * The trap: text that is not JSON is noticed only when the broken item is reached; the items before
 * it have been handed out by then.
 */
#ifndef AW_KUBE_SLICES_H
#define AW_KUBE_SLICES_H

#include <aware/err.h>

#include <jansson.h>

#define AW_KUBE_SLICES_DEPTH_MAX 8u /* names in the path of an array */

/* Zeroed: there are no items. */
struct aw_kube_slices {
    const char *at, *end; /* behind the bracket that opens the array; at the one that ends it */
    uint64_t told;
};

/* Finds the array at `path` ("items", "data.result") of the object that is `text`, which a NUL
 * ends. `ret_rest` is that object with nothing in the array; where there is no array it is all of
 * it, and there are no items. AW_ERR_FORMAT: no JSON; AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_kube_slices_cut(const char *text, size_t len, const char *path,
                                            struct aw_kube_slices *ret_slices, json_t **ret_rest,
                                            struct aw_diag *diag);
/* The text of the next item, unparsed; NULL: no further item. AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw_kube_slices_text(struct aw_kube_slices *slices, const char **ret_text,
                                             size_t *ret_len, struct aw_diag *diag);
/* The next item; NULL: no further one. AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw_kube_slices_next(struct aw_kube_slices *slices, json_t **ret_item,
                                             struct aw_diag *diag);

#endif
