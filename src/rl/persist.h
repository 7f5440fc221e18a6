/*
 * persist.h - how every learner is written to a run directory and read back, bit for bit.
 *
 * A learner lists its parts once (name, type, shape, where they live); the same list saves, checks
 * and loads. Parts of the MODEL are what acting needs and what a PyTorch user opens; they go into
 * DIR/model.safetensors. DIR/state.safetensors holds the model and the STATE parts: an exact resume
 * reads that file alone, so a crash between the two writes can never mix two saves.
 *
 * Call order: begin, add parts (in any order), then save or load; the list may be used again.
 * Memory:     a list points at the learner's own arrays and owns nothing. save and load allocate.
 * Threads:    single owner.
 *
 * The trap: load copies nothing before every part has been checked (present, same type and shape,
 * finite) and `valid` has agreed, so a refused file leaves the learner as it was. What is derived
 * from parts (a cached standard deviation, say) has to be recomputed by the caller after a load.
 */
#ifndef AW_RL_PERSIST_H
#define AW_RL_PERSIST_H

#include <aware/agent.h>

#include "base/alloc.h"
#include "base/conf.h"
#include "base/rng.h"
#include "nn/safetensors.h"

#define AW_PERSIST_PARTS_MAX 512u  /* BCQ with its deepest networks has 301 */
#define AW_PERSIST_NAME_MAX  96u   /* bytes, with the NUL */
#define AW_PERSIST_PATH_MAX  4096u /* bytes of DIR and the file's name, with the NUL */

enum aw_persist_file {
    AW_PERSIST_MODEL, /* in model.safetensors and in state.safetensors */
    AW_PERSIST_STATE, /* in state.safetensors alone */
};

/* What the metadata say about the learner. Everything is borrowed. */
struct aw_persist_about {
    const char *algorithm; /* "ddpg"; load refuses any other */
    const struct aw_agent_shape *shape;
    const struct aw_conf_field *fields; /* each setting becomes metadata "setting.KEY" */
    const void *settings;
    uint64_t seed;
    const uint64_t *update_count;
};

struct aw_persist_part {
    char name[AW_PERSIST_NAME_MAX];
    enum aw_persist_file file;
    enum aw_dtype dtype;
    uint32_t rank;     /* 1 or 2 */
    uint64_t shape[2]; /* of a part with `rows`: the most there may be, columns */
    uint32_t *rows;    /* NULL: all of shape[0]; else how many rows count; load sets it */
    bool generator;    /* four numbers of an aw_rng: not all of them zero */
    void *data;
};

struct aw_persist {
    struct aw_persist_about about;
    uint32_t part_count;
    struct aw_persist_part part[AW_PERSIST_PARTS_MAX];
};

void aw_persist_begin(struct aw_persist *persist, const struct aw_persist_about *about);

/* Running out of places, a name that is too long or given twice are bugs. */
void aw_persist_add(struct aw_persist *persist, enum aw_persist_file file, const char *name,
                    enum aw_dtype dtype, uint64_t count, void *data); /* rank 1 */
/* [*rows][columns], of which at most `rows_max`; only the rows in use are written. */
void aw_persist_add_rows(struct aw_persist *persist, enum aw_persist_file file, const char *name,
                         enum aw_dtype dtype, uint32_t *rows, uint32_t rows_max, uint32_t columns,
                         void *data);
/* Every tensor of `params` from `values` (laid out as params->value), `prefix` before each name. */
void aw_persist_add_params(struct aw_persist *persist, enum aw_persist_file file,
                           const char *prefix, const struct aw_params *params, float *values);
/* STATE: both moments as "adam.m." and "adam.v." + prefix + name, and the step "adam." + prefix +
 * "step". Give a learner with several parameter blocks a prefix each, e.g. "actor.". */
void aw_persist_add_moments(struct aw_persist *persist, const char *prefix,
                            struct aw_params *params);
/* STATE. Counters and generators travel as I64 with the same bits. */
void aw_persist_add_u64(struct aw_persist *persist, const char *name, uint64_t *value);
void aw_persist_add_rng(struct aw_persist *persist, const char *name, struct aw_rng *rng);

/* Writes DIR/model.safetensors and, with `resumable`, DIR/state.safetensors first. DIR must exist.
 * A part that is not finite is AW_ERR_DIVERGED: nothing is written, an older save stays. */
AW_NODISCARD enum aw_err aw_persist_save(const struct aw_persist *persist, const char *dir,
                                         bool resumable, const struct aw_alloc *alloc,
                                         struct aw_diag *diag);

/* What load found for one part, before anything is copied; NULL when there is no such part. */
struct aw_persist_found;
const void *aw_persist_peek(const struct aw_persist_found *found, const char *name);
/* Number of rows found for a part with rows (0 when there is no such part). */
uint32_t aw_persist_peek_rows(const struct aw_persist_found *found, const char *name);
/* Says whether the parts agree with one another; may be NULL. Fills `diag` when it refuses. */
typedef enum aw_err aw_persist_valid(void *ctx, const struct aw_persist_found *found,
                                     struct aw_diag *diag);

/* Reads model.safetensors (not resumable: the MODEL parts) or state.safetensors (all parts).
 * Another algorithm or other shapes are refused with a sentence that names both, and so is a
 * generator of zeros, which yields nothing else, so that drawing from it may never end. */
AW_NODISCARD enum aw_err aw_persist_load(struct aw_persist *persist, const char *dir,
                                         bool resumable, aw_persist_valid *valid, void *ctx,
                                         const struct aw_alloc *alloc, struct aw_diag *diag);

#endif
