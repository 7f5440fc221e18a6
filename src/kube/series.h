/*
 * series.h - one series of an answer of Prometheus: its labels, and the point of an instant
 * question.
 *
 * An answer about thousands of pods is hundreds of thousands of short texts of one shape,
 *
 *     {"metric":{"namespace":"shop","pod":"web-1"},"value":[1435781451.781,"0.5"]}
 *
 * and a tree for each costs ten times what it takes to read one. What has exactly this shape is
 * read as it stands; everything else is left to jansson, whose word on what is JSON counts.
 *
 * Memory:  labels point into themselves, or into the tree that they were made from.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_KUBE_SERIES_H
#define AW_KUBE_SERIES_H

#include <aware/err.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define AW_KUBE_LABELS_QUICK 12u  /* labels of a series that is read without a tree */
#define AW_KUBE_LABELS_BYTES 768u /* and their texts */

struct aw_kube_prom_point {
    double at_s; /* when it was true, or evaluated; seconds since 1970 */
    double value;
};

struct aw_kube_labels {
    const json_t *tree; /* not NULL: they are here */
    uint32_t count;
    struct {
        const char *name, *value;
    } label[AW_KUBE_LABELS_QUICK];
    char text[AW_KUBE_LABELS_BYTES];
};

/* NULL: there is no such label. */
const char *aw_kube_label(const struct aw_kube_labels *labels, const char *name);

/* False: `text` is not of the shape above, and nothing is known of it. `ret_finite` false: it is,
 * and its value is no finite number. */
bool aw_kube_series_quick(const char *text, size_t len, struct aw_kube_labels *labels,
                          struct aw_kube_prom_point *ret_point, bool *ret_finite);

#endif
