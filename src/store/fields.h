/*
 * fields.h - every member of a row that export and import name, in one table.
 *
 * Memory:  nothing is allocated.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_STORE_FIELDS_H
#define AW_STORE_FIELDS_H

#include "base/text.h"
#include "store/backend.h"

enum aw__field_kind {
    AW__FIELD_NAME,   /* the workload */
    AW__FIELD_U32,    /* whole number */
    AW__FIELD_I64,    /* whole number, maybe negative */
    AW__FIELD_AMOUNT, /* whole number; none: 0, not known */
    AW__FIELD_STAGE,  /* name of a stage */
    AW__FIELD_ACTOR,  /* name of an actor */
    AW__FIELD_MODEL,  /* 16 hexadecimal digits */
    AW__FIELD_BOOL,   /* true, false */
    AW__FIELD_REWARD, /* float */
    AW__FIELD_FIGURE, /* double; none: NAN */
    AW__FIELD_OBS,    /* vectors; the dimension is set with obs and with action */
    AW__FIELD_NEXT,
    AW__FIELD_ACTION,
    AW__FIELD_SHADOW, /* none: NULL */
};

struct aw__field {
    const char *name;
    enum aw__field_kind kind;
    size_t offset; /* in struct aw_store_row */
};

#define AW__FIELD_COUNT (22u + AW_RESOURCES)
extern const struct aw__field aw__fields[AW__FIELD_COUNT];

/* A row that is being read, with room for what it points to. */
struct aw__row_in {
    struct aw_store_row row;
    char name[AW_STORE_NAME_MAX];
    float obs[AW_STORE_OBS_MAX], next_obs[AW_STORE_OBS_MAX];
    float action[AW_STORE_ACT_MAX], shadow[AW_STORE_ACT_MAX];
    uint32_t next_dim, shadow_dim;
    uint64_t seen; /* bit i: field i was set */
};
void aw__row_in_init(struct aw__row_in *reading);

/* A vector of the row that is written. NULL: not there. */
const float *aw__field_vector(const struct aw__field *field, const struct aw_store_row *row,
                              uint32_t *ret_dim);
bool aw__field_is_vector(const struct aw__field *field);
/* Writes a value that is no vector and no name, without quotes; nothing for a figure that is not
 * known. True: it is a word that JSON would quote. */
bool aw__field_print(const struct aw__field *field, const struct aw_store_row *row,
                     struct aw_text *text);

/* Set a value from its text; NULL: missing. What was expected is in the diagnostic. */
AW_NODISCARD enum aw_err aw__field_set(struct aw__row_in *reading, uint32_t field, const char *text,
                                       struct aw_diag *diag);
/* One more number of a vector. */
AW_NODISCARD enum aw_err aw__field_push(struct aw__row_in *reading, uint32_t field,
                                        const char *text, struct aw_diag *diag);
/* All fields are there and agree in their shapes. A file of a build that did not know a resource
 * has none of it. */
AW_NODISCARD enum aw_err aw__row_in_finish(struct aw__row_in *reading, struct aw_diag *diag);
/* The first field that has to be there and was not seen; AW__FIELD_COUNT: none. */
uint32_t aw__field_missing(const struct aw__row_in *reading);
/* The field of this name; AW__FIELD_COUNT: none. */
uint32_t aw__field_named(const char *name);

#endif
