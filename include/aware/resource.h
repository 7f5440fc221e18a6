/*
 * resource.h - the table of what a plan can change: one row per resource.
 *
 * A resource is added by one row and by what sets it in a cluster's `apply`. Profiles, plans,
 * bounds, prices, samples, readings, actions, the guard with its settings, the store, the log and
 * the API go through the table.
 *
 * Memory:  constants.
 * Threads: nothing here changes.
 *
 * The trap: a row that is not common is not in every cluster. Where its bounds are 0 and 0 it is
 * left alone, and an amount of 0 means unknown.
 */
#ifndef AWARE_RESOURCE_H
#define AWARE_RESOURCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

enum aw_amount_unit { AW_AMOUNT_COUNT, AW_AMOUNT_MILLICORES, AW_AMOUNT_BYTES };
/* A figure of use; a resource hangs on one of them: it does not shrink while that is unknown. */
enum aw_use { AW_USE_CPU, AW_USE_MEMORY, AW_USES };

/* clang-format off */
/* id, member:   AW_RESOURCE_id, AW_PLAN_id; the name of an amount in structs, in JSON and in stores
 * name:         for people, of its settings, and in profiles
 * unit, most:   what no workload has; beyond it a number is a mistake, not a wish
 * common:       every cluster has it, and every policy decides on it; others where they are bounded
 * restarts:     a change restarts replicas, unless the cluster changes sizes in place
 * use:          see enum aw_use
 * words, noun:  in sentences about its bounds and about its steps
 * up, down:     where the largest step that one decision may take comes from
 * low, high:    its bounds where a profile says none; 0 and 0: it is left alone then
 * step:         learned amounts are multiples of it
 * lot, lots, lot's name, price: LOT_hour is the price of a lot for an hour; so many lots is 1 of it
 *
 *    id        member          name      unit        most                 common restarts use
 *        words, noun, up, down, low, high, step, lot, lots, lot's name, price */
#define AW_RESOURCE_MAP(X)                                                                         \
    X(REPLICAS, replicas,       replicas, COUNT,      1000000,             true,  false,   CPU,    \
      "replicas", "the replicas",                                                                  \
      "; twice what the HPA adds in a period", "; Knative's max-scale-down-rate",                  \
      1, 20, 1, replica, 1.0, "a replica", "0")                                                    \
    AW_SIZE_MAP(X)
/* Amounts of each replica: a profile bounds and prices them by name. */
#define AW_SIZE_MAP(X)                                                                             \
    X(CPU,      cpu_millicores, cpu,      MILLICORES, 1000000000,          true,  true,    CPU,    \
      "CPU of a replica in millicores", "a replica's CPU", "", "",                                 \
      100, 4000, 10, core, 1e-3, "a core", "0.04")                                                 \
    X(MEMORY,   memory_bytes,   memory,   BYTES,      INT64_C(1) << 50,    true,  true,    MEMORY, \
      "memory of a replica in bytes", "a replica's memory", "", "",                                \
      INT64_C(64) << 20, INT64_C(8) << 30, 1 << 20, gib, 0x1p-30, "a GiB of memory", "0.005")      \
    AW_RESOURCE_MORE(X)
/* clang-format on */
#ifndef AW_RESOURCE_MORE
#define AW_RESOURCE_MORE(X) /* rows of a test that adds some */
#endif

/* clang-format off */
#define AW__RESOURCE_ID(id, ...)  AW_RESOURCE_##id,
#define AW__RESOURCE_BIT(id, ...) AW_PLAN_##id = 1 << AW_RESOURCE_##id,
#define AW__RESOURCE_ALL(id, ...) | AW_PLAN_##id
#define AW__RESOURCE_COMMON(id, member, name, unit, most, common, ...) \
    | (common ? AW_PLAN_##id : 0)
#define AW__RESOURCE_RESTARTS(id, member, name, unit, most, common, restarts, ...) \
    | (restarts ? AW_PLAN_##id : 0)

enum aw_resource { AW_RESOURCE_MAP(AW__RESOURCE_ID) AW_RESOURCES };

/* Sets of resources, or-ed. */
enum aw_plan_set {
    AW_RESOURCE_MAP(AW__RESOURCE_BIT)
    AW_PLAN_ALL = 0 AW_RESOURCE_MAP(AW__RESOURCE_ALL),
    AW_PLAN_COMMON = 0 AW_RESOURCE_MAP(AW__RESOURCE_COMMON),
    AW_PLAN_RESTARTS = 0 AW_RESOURCE_MAP(AW__RESOURCE_RESTARTS),
    AW_PLAN_SIZES = AW_PLAN_ALL & ~AW_PLAN_REPLICAS, /* of one replica */
};
#define AW_PLAN_BIT(resource) (UINT32_C(1) << (resource))
#define AW_SIZE_FIRST (AW_RESOURCE_REPLICAS + 1) /* from here on: of each replica */
/* clang-format on */

/* In C++ a struct without a name inside of such a union is an extension, of which clang complains
 * where gcc takes __extension__ for an answer. */
#if defined(__cplusplus) && defined(__clang__)
#define AW__UNNAMED_BEGIN \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wnested-anon-types\"")
#define AW__UNNAMED_END _Pragma("clang diagnostic pop")
#else
#define AW__UNNAMED_BEGIN
#define AW__UNNAMED_END
#endif

/* One amount per resource, as an array and by name: `AW_AMOUNTS(amount, )` declares amount[] and
 * replicas, cpu_millicores, ...; `AW_AMOUNTS(min, _min)` declares min[] and replicas_min, ... */
#define AW_AMOUNTS(array, suffix)                        \
    AW__UNNAMED_BEGIN                                    \
    union {                                              \
        int64_t array[AW_RESOURCES];                     \
        __extension__ struct {                           \
            AW_RESOURCE_MAP(AW__RESOURCE_AMOUNT##suffix) \
        };                                               \
    } AW__UNNAMED_END
#define AW__RESOURCE_AMOUNT(id, member, ...)        int64_t member;
#define AW__RESOURCE_AMOUNT_min(id, member, ...)    int64_t member##_min;
#define AW__RESOURCE_AMOUNT_max(id, member, ...)    int64_t member##_max;
#define AW__RESOURCE_AMOUNT_wanted(id, member, ...) int64_t member##_wanted;

struct aw_amounts {
    AW_AMOUNTS(amount, );
};

struct aw_resource_row {
    const char *member; /* "cpu_millicores" */
    const char *name;   /* "cpu" */
    const char *words;  /* "CPU of a replica in millicores" */
    const char *noun;   /* "a replica's CPU" */
    int64_t most, low, high, step;
    double lots;
    enum aw_amount_unit unit;
    enum aw_use use;
};
extern const struct aw_resource_row aw_resource_table[AW_RESOURCES];

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
