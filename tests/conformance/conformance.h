/*
 * conformance.h - runs case files against the HPA and the VPA of src/fallback.
 *
 * A case file is a map with a list `cases`; each case has an `id`, a `kind`, `in` and `expect`, and
 * may say where it comes from in `test` and `source`. The kinds and their keys are described in
 * docs/mechanisms/hpa.md and vpa.md. A kind or a key that is not known, a key that is missing, and
 * an expectation that was not compared are failures of the case, never skipped.
 *
 * Call order: aw_conformance_run_file, or aw_conformance_run on a tree; the sink is called once per
 *             case, in the order of the file.
 * Memory:     the file's tree, from the allocator given; a result is valid during the call.
 * Threads:    no shared state.
 */
#ifndef AW_TESTS_CONFORMANCE_H
#define AW_TESTS_CONFORMANCE_H

#include "base/tree.h"

#define AW_CONFORMANCE_TEXT_MAX 1024u
#define AW_CONFORMANCE_NAME_MAX 256u

struct aw_conformance_result {
    char id[AW_CONFORMANCE_NAME_MAX];   /* "res-01"; "cases[3]" where there is none */
    char kind[AW_CONFORMANCE_NAME_MAX]; /* "resource_utilization" */
    char test[AW_CONFORMANCE_NAME_MAX]; /* where it comes from; may be empty */
    uint32_t line, column;              /* of the case in its file */
    bool passed;
    char expected[AW_CONFORMANCE_TEXT_MAX]; /* "replicas 5, utilization_pct 50" */
    char found[AW_CONFORMANCE_TEXT_MAX];    /* the same of ours, or why it could not be run */
};

struct aw_conformance_summary {
    uint32_t passed, failed;
};

typedef void aw_conformance_sink(void *ctx, const struct aw_conformance_result *result);

/* Fails only when the file is no case file (AW_ERR_FORMAT, _CONFIG, or as aw_tree_load_file) or has
 * no cases (AW_ERR_NODATA); failed cases are counted in `ret`, which is untouched on failure.
 * `sink` may be NULL. */
AW_NODISCARD enum aw_err aw_conformance_run_file(const char *path, const struct aw_alloc *alloc,
                                                 aw_conformance_sink *sink, void *ctx,
                                                 struct aw_conformance_summary *ret,
                                                 struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_conformance_run(const struct aw_tree *tree, aw_conformance_sink *sink,
                                            void *ctx, struct aw_conformance_summary *ret,
                                            struct aw_diag *diag);

/* The kinds that are known, by index; NULL past the last. */
const char *aw_conformance_kind(uint32_t index);

#endif
