/*
 * profile_schema.h - the kinds of object that files may hold, and the table of their fields.
 *
 * Threads: constant data.
 */
#ifndef AW_PROFILE_PROFILE_SCHEMA_H
#define AW_PROFILE_PROFILE_SCHEMA_H

#include "base/schema.h"

struct aw_profile_kind {
    const char *name;  /* "MultidimPodAutoscaler"; NULL ends the table */
    const char *alias; /* "mpa" */
    const char *help;
    const struct aw_schema_field *fields;
};

enum aw_profile_kind_index {
    AW_PROFILE_KIND_MPA,
    AW_PROFILE_KIND_APP,
    AW_PROFILE_KIND_CLUSTER,
    AW_PROFILE_KIND_TENANT,
};
extern const struct aw_profile_kind aw_profile_kinds[];

#endif
