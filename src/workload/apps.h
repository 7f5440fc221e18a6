/*
 * apps.h - a pool of applications as a file, and segment kinds that users add.
 *
 *     segments:                       # kinds: added to the built-in ones, or in place of one
 *       - name: sleep
 *         cpu: 50us
 *         io: 100ms
 *     apps:
 *       - name: nightly
 *         segments:
 *           - kind: sleep             # everything else as the kind says
 *           - {kind: gzip, cpu: 30ms} # except what is written here
 *
 * YAML or JSON. A file that is written holds every kind it uses, so it means the same tomorrow.
 *
 * Call order: read, then use what is in it, then deinit.
 * Memory:     one block, sized by the reader.
 * Threads:    read-only after it is read.
 */
#ifndef AW_WORKLOAD_APPS_H
#define AW_WORKLOAD_APPS_H

#include "base/tree.h"
#include "workload/app.h"

#include <stdio.h>

#define AW_APPS_MAX 10000u /* applications of one file; the limits of tree.h come close behind */

struct aw_apps {
    uint32_t kind_count; /* those given to the reader, then those of the file */
    uint32_t app_count;
    struct aw_segment *kinds; /* [kind_count] */
    struct aw_app *apps;      /* [app_count] */
    const struct aw_alloc *alloc;
};

/* Reads a file of kinds, of applications, or of both. `kinds` are known before it (NULL: the
 * built-in ones); a kind of the file with the name of one of them takes its place. AW_ERR_CONFIG
 * with file, line, column and key; AW_ERR_LIMIT: too many. On failure `ret` is untouched. */
AW_NODISCARD enum aw_err aw_apps_read(const char *path, const struct aw_segment *kinds,
                                      uint32_t kind_count, const struct aw_alloc *alloc,
                                      struct aw_apps *ret, struct aw_diag *diag);
/* The same from a tree that is already there, e.g. part of a larger file. */
AW_NODISCARD enum aw_err aw_apps_decode(const struct aw_tree *tree, const struct aw_node *map,
                                        const struct aw_segment *kinds, uint32_t kind_count,
                                        const struct aw_alloc *alloc, struct aw_apps *ret,
                                        struct aw_diag *diag);
void aw_apps_deinit(struct aw_apps *apps); /* a zeroed one is a no-op */

/* Writes the kinds that `apps` use and the applications as YAML that reads back to the same bits.
 * AW_ERR_NOTFOUND: a segment's kind is not among `kinds`; AW_ERR_IO: the stream refused. */
AW_NODISCARD enum aw_err aw_apps_write(FILE *out, const struct aw_app *apps, uint32_t app_count,
                                       const struct aw_segment *kinds, uint32_t kind_count,
                                       struct aw_diag *diag);

/* The application of that name; NULL: none. */
const struct aw_app *aw_apps_find(const struct aw_apps *apps, const char *name);

/* One application of a file: `text` is PATH:NAME, or PATH alone for its first. A path that exists
 * is never cut at a colon. AW_ERR_NOTFOUND: the file has no such application. */
AW_NODISCARD enum aw_err aw_apps_read_one(const char *text, struct aw_app *ret,
                                          struct aw_diag *diag);

/* Of what an application does, whatever its name: one that was written and read again has the same.
 */
uint64_t aw_app_hash(const struct aw_app *app);

/* What a segment can say, for the reference: one entry per key, ending with a NULL key. */
struct aw_segment_field {
    const char *key;
    const char *unit; /* "ms", "Mi", "Ki": what is kept; "" plain number; NULL: a payload family */
    size_t offset;
    double min, max;
    const char *help;
};
extern const struct aw_segment_field aw_segment_fields[];
/* "none", "file", ...: ends with NULL, in the order of enum aw_payload_family. */
extern const char *const aw_payload_family_names[];

#endif
