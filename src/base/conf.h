/*
 * conf.h - settings from one table: it parses, checks, sets defaults, prints help and dumps.
 *
 * A module keeps its settings in a plain struct and describes each member once (key, type, offset,
 * default, bounds, help). From that table come `--set key=value`, YAML files, `--help`, the man
 * page, the reference page and the metadata of a checkpoint.
 *
 * Memory:  nothing is allocated; text values live in fixed arrays inside the struct.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_BASE_CONF_H
#define AW_BASE_CONF_H

#include <aware/err.h>

struct aw_node;
struct aw_tree;

#define AW_CONF_LIST_MAX 8u   /* elements of a list value */
#define AW_CONF_TEXT_MAX 256u /* bytes of a text value, with its NUL; aw_conf_get needs no more */

enum aw_conf_type {
    AW_CONF_BOOL,     /* bool; true/false */
    AW_CONF_U32,      /* uint32_t; decimal, underscores allowed: 1_000_000 */
    AW_CONF_U64,      /* uint64_t, or an int64_t that is never negative; as U32 */
    AW_CONF_F32,      /* float; finite */
    AW_CONF_F64,      /* double; finite */
    AW_CONF_CHOICE,   /* uint32_t, the index into `choices` */
    AW_CONF_U32_LIST, /* struct aw_conf_u32_list; "64,64" or a YAML sequence */
    AW_CONF_TEXT,     /* char[AW_CONF_TEXT_MAX], or as many as `max` says */
};

struct aw_conf_u32_list {
    uint32_t count;
    uint32_t value[AW_CONF_LIST_MAX];
};

struct aw_conf_field {
    const char *key; /* lower case with underscores */
    enum aw_conf_type type;
    size_t offset;              /* of the member in the settings struct */
    const char *initial;        /* the default, written as a user would write it */
    double min, max;            /* numbers and list elements, inclusive; both 0: no bounds;
                                 * one may be infinite; both (F64): also nan and inf */
    const char *const *choices; /* CHOICE: names, ending with NULL; else NULL */
    const char *help;           /* one sentence: what it does, and the source of the default */
    uint32_t marks;             /* bits that mean something to the table's owner */
};

/* Settings in parts: each has a table of its own, from `offset` of the whole struct on. A table of
 * parts ends with a part whose key is NULL. */
struct aw_conf_part {
    const char *key;
    size_t offset;
    const struct aw_conf_field *fields;
};

/* A table of fields ends with a field whose key is NULL.
 *
 * Its rows: the file defines AW_CONF_OF as the settings struct; the type is that of the member, and
 * the key its name, but for _AS. */
#define AW_CONF_NUMBER(member, initial, min, max, help) \
    AW_CONF_NUMBER_AS(#member, member, initial, min, max, help)
#define AW_CONF_NUMBER_AS(key, member, initial, min, max, help) \
    AW_CONF_ROW(AW_CONF_OF, key, member, initial, min, max, help)
/* true, false, and text. */
#define AW_CONF_PLAIN(member, initial, help) AW_CONF_PLAIN_AS(#member, member, initial, help)
#define AW_CONF_PLAIN_AS(key, member, initial, help) \
    AW_CONF_ROW(AW_CONF_OF, key, member, initial, 0, 0, help)
#define AW_CONF_ONE_OF(member, initial, choices, help)                                         \
    {                                                                                          \
#member, AW_CONF_CHOICE, offsetof(AW_CONF_OF, member), initial, 0, 0, choices, help, 0 \
    }
#define AW_CONF_ROW(T, key, member, initial, min, max, help) \
    AW_CONF_MARKED(T, key, member, initial, min, max, help, 0)
#define AW_CONF_MARKED(T, key, member, initial, min, max, help, marks)                           \
    {                                                                                            \
        key, AW_CONF_TYPE(((T *)0)->member), offsetof(T, member), initial, min, max, NULL, help, \
            marks                                                                                \
    }
#define AW_CONF_TYPE(value) \
    _Generic((value), bool: AW_CONF_BOOL, uint32_t: AW_CONF_U32, uint64_t: AW_CONF_U64,  \
        int64_t: AW_CONF_U64, float: AW_CONF_F32, double: AW_CONF_F64,                     \
        struct aw_conf_u32_list: AW_CONF_U32_LIST, char *: AW_CONF_TEXT)

/* Sets every member to its default. A default that does not parse is a bug (AW_ASSERT). */
void aw_conf_defaults(const struct aw_conf_field *table, void *settings);
/* Bytes of the member. */
size_t aw_conf_size(const struct aw_conf_field *field);
/* All members that have one of `marks` are the same in both, bit for bit. */
bool aw_conf_same(const struct aw_conf_field *table, uint32_t marks, const void *a, const void *b);

/* Sets one member from text. AW_ERR_CONFIG: `unknown setting "gama" (did you mean "gamma"?)`,
 * `gamma: expected a number from 0 to 1, found "1.5"`. On failure nothing changed. */
AW_NODISCARD enum aw_err aw_conf_set(const struct aw_conf_field *table, void *settings,
                                     const char *key, const char *value, struct aw_diag *diag);
/* The same from "key=value". */
AW_NODISCARD enum aw_err aw_conf_set_pair(const struct aw_conf_field *table, void *settings,
                                          const char *pair, struct aw_diag *diag);
/* The same from every key of a map of YAML or JSON (see tree.h); errors carry line and column. All
 * of the map is checked before any of it is set. */
AW_NODISCARD enum aw_err aw_conf_set_tree(const struct aw_conf_field *table, void *settings,
                                          const struct aw_tree *tree, const struct aw_node *map,
                                          struct aw_diag *diag);

/* Writes the member as text that aw_conf_set reads back to the same bits (a member that is not
 * finite reads "nan" or "inf", which it refuses). Returns `buf`. */
const char *aw_conf_get(const struct aw_conf_field *field, const void *settings, char *buf,
                        size_t size);

/* The name in a NULL-ended list of names that `word` most likely meant, or NULL when none is near.
 */
const char *aw_conf_nearest(const char *word, const char *const *names);

/* "a whole number from 1 to 100", "true or false", "one of: a, b": what a field takes. */
const char *aw_conf_expects(const struct aw_conf_field *field, char *buf, size_t size);

#endif
