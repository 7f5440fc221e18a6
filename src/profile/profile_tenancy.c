/* profile_tenancy.c - spec.tenancy and kind Tenant: their fields, and what they come to. */
#include <stdio.h>
#include <string.h>

#include "profile/profile_internal.h"
#include "profile/profile_table.h"

#define CORES_MAX    1e9 /* millicores of a guarantee */
#define PRIORITY_MAX ((double)AW_TENANCY_PRIORITY_MAX)

/* Amounts of the two pools; of a struct that has its terms in `at`. */
#define AMOUNTS(name_, base, at, member, cpu_help, memory_help) \
    static const struct aw_schema_field name_[] = {             \
        {.name = "cpu",                                         \
         .type = AW_SCHEMA_CPU,                                 \
         AT(base, at.terms.member[AW_POOL_CPU]),                \
         RANGE(0, CORES_MAX),                                   \
         .help = cpu_help},                                     \
        {.name = "memory",                                      \
         .type = AW_SCHEMA_MEMORY,                              \
         AT(base, at.terms.member[AW_POOL_MEMORY]),             \
         RANGE(0, 1024 * TIB),                                  \
         .help = memory_help},                                  \
        {0},                                                    \
    }
#define GUARANTEE_CPU    "cores that are its own as soon as it asks; others may borrow them"
#define GUARANTEE_MEMORY "memory, likewise; a resource that is not named follows from the other"
#define LIMIT_CPU        "cores beyond the guarantee at most; not said: no limit"
#define LIMIT_MEMORY     "memory, likewise"
AMOUNTS(guarantee_fields, aw__profile_draft, profile.tenancy, guarantee, GUARANTEE_CPU,
        GUARANTEE_MEMORY);
AMOUNTS(limit_fields, aw__profile_draft, profile.tenancy, borrow_limit, LIMIT_CPU, LIMIT_MEMORY);
AMOUNTS(tenant_guarantee_fields, aw_profile_tenant, tenancy, guarantee, GUARANTEE_CPU,
        GUARANTEE_MEMORY);
AMOUNTS(tenant_limit_fields, aw_profile_tenant, tenancy, borrow_limit, LIMIT_CPU, LIMIT_MEMORY);

#define TERMS(base, at, guarantees, limits)                                                 \
    {.name = "weight",                                                                      \
     .type = AW_SCHEMA_REAL,                                                                \
     AT(base, at.terms.weight),                                                             \
     RANGE(0.001, 1000),                                                                    \
     .initial = "1",                                                                        \
     .help = "its part of what is scarce, beside others of its priority"},                  \
        {.name = "priority",                                                                \
         .type = AW_SCHEMA_U64,                                                             \
         AT(base, at.terms.priority),                                                       \
         RANGE(0, PRIORITY_MAX),                                                            \
         .initial = "0",                                                                    \
         .help = "beyond guarantees the higher one goes first, as a PriorityClass' value"}, \
        {.name = "guarantee",                                                               \
         .type = AW_SCHEMA_OBJECT,                                                          \
         .help = "what it gets whenever it asks for it",                                    \
         .fields = guarantees},                                                             \
    {                                                                                       \
        .name = "borrowLimit", .type = AW_SCHEMA_OBJECT,                                    \
        .help = "what it may have beyond the guarantee", .fields = limits                   \
    }

const struct aw_schema_field aw__tenancy_fields[] = {
    {.name = "tenant",
     .type = AW_SCHEMA_NAME,
     P(tenant),
     .help = "the Tenant that it belongs to; the rest then holds within that tenant. Not said: it "
             "is a tenant of its own"},
    TERMS(aw__profile_draft, profile.tenancy, guarantee_fields, limit_fields),
    {0},
};

static const struct aw_schema_field tenant_metadata[] = {
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     AT(aw_profile_tenant, name),
     .help = "the name of the tenant, which spec.tenancy.tenant of its workloads says"},
    {.name = "namespace",
     .type = AW_SCHEMA_NAME,
     AT(aw_profile_tenant, namespace),
     .help = "not used: tenants are of the cluster"},
    METADATA_OF_SERVER,
    {0},
};

static const struct aw_schema_field tenant_spec[] = {
    TERMS(aw_profile_tenant, tenancy, tenant_guarantee_fields, tenant_limit_fields),
    {0},
};

const struct aw_schema_field aw__tenant_fields[] = {
    TYPE_META,
    {.name = "metadata",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "the name",
     .fields = tenant_metadata},
    {.name = "spec",
     .type = AW_SCHEMA_OBJECT,
     .help = "what its workloads together are promised",
     .fields = tenant_spec},
    IGNORED("status", "of the cluster; not read"),
    {0},
};

void aw__profile_terms_end(struct aw__reading *r, const char *path, struct aw_profile_terms *terms)
{
    static const char *const pools[AW_POOLS] = {"cpu", "memory"};
    char name[AW_SCHEMA_NAME_MAX];
    terms->given = aw__reading_at(r, path) != NULL;
    for (uint32_t p = 0; p < AW_POOLS; p++) {
        snprintf(name, sizeof name, "%s.borrowLimit.%s", path, pools[p]);
        if (!aw__reading_at(r, name))
            terms->terms.borrow_limit[p] = AW_TENANCY_UNLIMITED;
    }
}

void aw__profile_read_tenant(struct aw__reading *r, struct aw_profile_tenant *ret)
{
    const struct aw_schema_sink sink = aw__reading_sink(r);
    memset(ret, 0, sizeof *ret);
    aw_schema_defaults(aw__tenant_fields, ret);
    aw_schema_decode(aw__tenant_fields, r->tree, r->root, ret, &sink);
    aw__profile_terms_end(r, "spec", &ret->tenancy);
    ret->tenancy.given = true;
}

bool aw_profile_set_shared(const struct aw_profile_set *set)
{
    bool shared = set->tenant_count > 0;
    for (uint32_t i = 0; i < set->profile_count; i++)
        shared |= set->profiles[i].tenancy.given;
    return shared;
}

uint32_t aw_profile_set_tenant(const struct aw_profile_set *set, const struct aw_profile *profile)
{
    for (uint32_t i = 0; *profile->tenant && i < set->tenant_count; i++)
        if (!strcmp(set->tenants[i].name, profile->tenant))
            return i;
    return AW_ARBITER_ALONE;
}
