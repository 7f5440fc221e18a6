/*
 * kind.h - what a segment kind must be able to do, and what it is given for it.
 *
 * A kind turns CPU time into something that a service would really do. Its work comes in pieces of
 * some tens of microseconds that are all alike; how many of them a request takes is the runner's
 * business, which has measured what one costs. So a kind never looks at a clock.
 *
 * A lane is a thread that may run pieces: a worker, or a helper of one. Two lanes run at the same
 * time and never share scratch.
 *
 * Memory:  state is one block from `setup->alloc`; libraries (zlib, jansson, libyaml, SQLite) also
 *          use the process heap.
 * Threads: open and close by one owner; pieces and exchange from any lane.
 */
#ifndef AW_SEGMENTS_KIND_H
#define AW_SEGMENTS_KIND_H

#include "base/alloc.h"
#include "base/rng.h"
#include "workload/app.h"

struct aw__setup {
    const struct aw_segment *segment; /* at payload 1 */
    double payload;                   /* sizes what the pieces work on */
    uint32_t lane_count;
    uint64_t seed;
    const char *object_server; /* "ADDR:PORT"; NULL: none */
    const struct aw_alloc *alloc;
};

struct aw__segment_kind {
    const char *name;
    /* On failure nothing is left behind and `ret_state` is untouched. */
    enum aw_err (*open)(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag);
    void (*close)(void *state); /* NULL is a no-op */
    /* Pieces `first` to `first + count - 1`; which one decides only what data it looks at. */
    enum aw_err (*pieces)(void *state, uint32_t lane, uint64_t first, uint64_t count,
                          struct aw_diag *diag);
    /* Moves a request's object from or to the object server, which is to think for `delay_us`; the
     * kinds that have none use aw__agent_exchange_none. */
    enum aw_err (*exchange)(void *state, uint32_t lane, int64_t delay_us, struct aw_diag *diag);
};

extern const struct aw__segment_kind aw__kind_float_ops, aw__kind_matrix_multiply,
    aw__kind_ml_inference;
extern const struct aw__segment_kind aw__kind_image_resize, aw__kind_image_rotate,
    aw__kind_image_compress;
extern const struct aw__segment_kind aw__kind_json_to_yaml, aw__kind_web_serving;
extern const struct aw__segment_kind aw__kind_gzip, aw__kind_gunzip;
extern const struct aw__segment_kind aw__kind_file_read, aw__kind_file_write;
extern const struct aw__segment_kind aw__kind_object_read, aw__kind_object_write,
    aw__kind_object_stream;
extern const struct aw__segment_kind aw__kind_table_scan, aw__kind_sleep;

extern const struct aw__segment_kind *const aw__kinds[]; /* ends with NULL */

enum aw_err aw__agent_exchange_none(void *state, uint32_t lane, int64_t delay_us,
                                    struct aw_diag *diag);

/* `base` times the payload to a power, kept within bounds: the side of an image, bytes of text. */
uint32_t aw__sized(const struct aw__setup *setup, double base, double exponent, uint32_t low,
                   uint32_t high);
/* Text that compresses as prose does: words of a small vocabulary, the same for the same seed. */
void aw__prose(uint64_t seed, char *buf, size_t len);

/* Results go here, so that no compiler removes unused work. */
void aw__keep(double value);

#endif
