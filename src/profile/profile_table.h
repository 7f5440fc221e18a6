/* profile_table.h - short words for the tables of profile_schema.c and profile_schema_sim.c. */
#ifndef AW_PROFILE_PROFILE_TABLE_H
#define AW_PROFILE_PROFILE_TABLE_H

#include "profile/profile_internal.h"

#define TIB ((double)((int64_t)1 << 40))

#define SECOND ((double)1000000)
#define DAY    (86400 * SECOND)

#define AT(struct_name, member)                     \
    .offset = offsetof(struct struct_name, member), \
    .size = sizeof(((struct struct_name *)0)->member)
#define D(member)        AT(aw__profile_draft, member)
#define P(member)        AT(aw__profile_draft, profile.member)
#define A(member)        AT(aw__app_draft, member)
#define C(member)        AT(aw_profile_cluster, member)
#define RANGE(low, high) .min = (low), .max = (high)

#define IGNORED(key, text)                                   \
    {                                                        \
        .name = (key), .type = AW_SCHEMA_ANY, .help = (text) \
    }

/* What an API server adds, so that `kubectl get -o yaml` reads back. */
#define METADATA_OF_SERVER                                                    \
    {.name = "labels", .type = AW_SCHEMA_TEXTS, .help = "not read"},          \
        {.name = "annotations", .type = AW_SCHEMA_TEXTS, .help = "not read"}, \
        IGNORED("creationTimestamp", "of the API server; not read"),          \
        IGNORED("deletionGracePeriodSeconds", "of the API server; not read"), \
        IGNORED("deletionTimestamp", "of the API server; not read"),          \
        IGNORED("finalizers", "of the API server; not read"),                 \
        IGNORED("generateName", "of the API server; not read"),               \
        IGNORED("generation", "of the API server; not read"),                 \
        IGNORED("managedFields", "of the API server; not read"),              \
        IGNORED("ownerReferences", "of the API server; not read"),            \
        IGNORED("resourceVersion", "of the API server; not read"),            \
        IGNORED("selfLink", "of the API server; not read"),                   \
        IGNORED("uid", "of the API server; not read")

#define TYPE_META                                                           \
    {.name = "apiVersion",                                                  \
     .type = AW_SCHEMA_ANY,                                                 \
     .flags = AW_SCHEMA_REQUIRED,                                           \
     .help = AW_PROFILE_API_VERSION},                                       \
    {                                                                       \
        .name = "kind", .type = AW_SCHEMA_ANY, .flags = AW_SCHEMA_REQUIRED, \
        .help = "the kind of object"                                        \
    }

#define NAMESPACE_HELP "the namespace; objects of different ones have nothing to do with each other"

#endif
