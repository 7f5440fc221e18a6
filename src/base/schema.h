/*
 * schema.h - nested fields from one table: it decodes, checks, sets defaults and explains.
 *
 * What conf.h is for flat settings, this is for objects of YAML or JSON with objects and lists in
 * them. Each field is described once (name, type, place in a struct, default, bounds, help); from
 * that come decoding, `aware explain-schema` and a schema in OpenAPI.
 *
 * Memory:  nothing is allocated; values go into the caller's struct.
 * Threads: pure functions of their arguments.
 *
 * Members of nested objects lie in the same struct as those around them: offsets count from one
 * base, except in the items of a list, each of which is a struct of its own.
 *
 * A null is as good as an absent key, as in Kubernetes. A table of conf.h can be part of an object;
 * its keys are written as Kubernetes writes names: hpa_target is hpaTarget, drain_s drainSeconds.
 */
#ifndef AW_BASE_SCHEMA_H
#define AW_BASE_SCHEMA_H

#include "base/conf.h"
#include "base/tree.h"

#define AW_SCHEMA_NAMES_MAX 96u /* keys of one object */
#define AW_SCHEMA_NAME_MAX  64u /* bytes of a key, with its NUL */

enum aw_schema_type {
    AW_SCHEMA_OBJECT,     /* `fields`, and the keys of `conf` whose settings are at `offset` */
    AW_SCHEMA_LIST,       /* of objects: items of `size` bytes, their count at `count_offset` */
    AW_SCHEMA_SET,        /* uint32_t; a list of `choices`, as bits 1 << index */
    AW_SCHEMA_TEXT,       /* char[size] */
    AW_SCHEMA_NAME,       /* char[size]; as Kubernetes names objects (RFC 1123) */
    AW_SCHEMA_BOOL,       /* bool */
    AW_SCHEMA_U32,        /* uint32_t */
    AW_SCHEMA_U64,        /* uint64_t, up to INT64_MAX */
    AW_SCHEMA_REAL,       /* double */
    AW_SCHEMA_AUTO_REAL,  /* double; NAN for auto */
    AW_SCHEMA_SHARE,      /* double; 0.01 or 1% */
    AW_SCHEMA_QUANTILE,   /* double; 0.5, 0.95, 0.99 or p50, p95, p99 */
    AW_SCHEMA_CPU,        /* int64_t millicores; 250m, 2 */
    AW_SCHEMA_MEMORY,     /* int64_t bytes; 1.5Gi */
    AW_SCHEMA_DURATION,   /* int64_t microseconds; 200ms, 2h30m */
    AW_SCHEMA_RATE,       /* double per second; 100/s */
    AW_SCHEMA_CHOICE,     /* uint32_t, the index into `choices` */
    AW_SCHEMA_TEXTS,      /* a map of texts; checked, not kept */
    AW_SCHEMA_ANY,        /* anything; not kept, or read elsewhere */
    AW_SCHEMA_ANY_LIST,   /* a list; read elsewhere */
    AW_SCHEMA_ANY_OBJECT, /* a map; read elsewhere */
};

enum aw_schema_flag {
    AW_SCHEMA_REQUIRED = 1,
    AW_SCHEMA_REFUSED = 2, /* an upstream field that we ignore; `help` says why */
};

struct aw_schema_field {
    const char *name; /* NULL ends a table */
    enum aw_schema_type type;
    uint32_t flags;
    size_t offset;
    size_t size;                /* see the types */
    size_t count_offset;        /* LIST */
    uint32_t count_max;         /* LIST */
    double min, max;            /* inclusive, in the unit that is kept; both 0: none */
    const char *const *choices; /* ending with NULL */
    const char *initial;        /* the default as a user would write it; NULL: zero, or none */
    const char *help;           /* one sentence */
    const struct aw_schema_field *fields;
    const struct aw_conf_field *conf;
    const char *conf_without; /* a key of `conf` that files cannot say; NULL: none */
};

/* Sets every member to its default. A default that does not parse is a bug (AW_ASSERT). */
void aw_schema_defaults(const struct aw_schema_field *fields, void *base);

/* Takes what is wrong, with the value (or, for a missing key, the map) at which it is wrong. */
struct aw_schema_sink {
    void (*take)(void *ctx, const struct aw_node *node, enum aw_err err,
                 const struct aw_diag *diag);
    void *ctx;
};
/* Decodes a map over what `base` holds. A value that is wrong leaves its member alone; all that is
 * wrong goes to the sink. */
void aw_schema_decode(const struct aw_schema_field *fields, const struct aw_tree *tree,
                      const struct aw_node *map, void *base, const struct aw_schema_sink *sink);
/* The keys of a map with the names and values of a conf table. */
void aw_schema_decode_conf(const struct aw_conf_field *conf, const struct aw_tree *tree,
                           const struct aw_node *map, void *settings,
                           const struct aw_schema_sink *sink);

/* "hpaTarget" for hpa_target, "drainSeconds" for drain_s. Returns `buf`. */
const char *aw_schema_conf_name(const struct aw_conf_field *field, char *buf, size_t size);
/* "duration", "list of objects": for people. */
const char *aw_schema_type_name(const struct aw_schema_field *field);
const char *aw_schema_conf_type_name(const struct aw_conf_field *field);
/* "a duration from 1us to 1d, such as 200ms". Returns `buf`. */
const char *aw_schema_expects(const struct aw_schema_field *field, char *buf, size_t size);

/* What a path of keys leads to: a field, or a setting of a conf table (then `conf` too). */
struct aw_schema_found {
    const struct aw_schema_field *field; /* NULL: the top */
    const struct aw_conf_field *conf;
};
/* `path` as "spec.goals.slo"; list items have no number ("goals.metrics.type"), though [] is let
 * pass. AW_ERR_NOTFOUND names the nearest key. */
AW_NODISCARD enum aw_err aw_schema_find(const struct aw_schema_field *fields, const char *path,
                                        struct aw_schema_found *ret, struct aw_diag *diag);

/* For schema.c and schema_explain.c alone: the keys of one object. */
struct aw__schema_keys {
    const struct aw_schema_field *fields;
    const struct aw_conf_field *conf;
    const char *without;
};
const struct aw_schema_field *aw__schema_field(const struct aw__schema_keys *keys,
                                               const char *name);
const struct aw_conf_field *aw__schema_conf(const struct aw__schema_keys *keys, const char *name);
enum aw_err aw__schema_unknown(const struct aw__schema_keys *keys, const char *word,
                               enum aw_err err, struct aw_diag *diag);

#endif
