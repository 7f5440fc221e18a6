/*
 * library.h - formulas that were lived, and in which applications: the one to begin with.
 *
 * Every formula of the library was lived for half a day in every application of the library, and
 * what it took is kept: cores, memory, share of steps missed. A workload is known by its context
 * (task/context.h) after minutes. The applications whose contexts are nearest say what each formula
 * would take here; prices and budget come in when it is asked, so that one table serves any. Only
 * what was really lived is chosen: a network asked for the best numbers would find its own errors.
 *
 * Call order: read, or alloc and fill in; prepare; choose as often as needed; deinit.
 * Memory:     one block at alloc; choose allocates nothing.
 * Threads:    read-only once prepared.
 */
#ifndef AW_POLICY_LIBRARY_H
#define AW_POLICY_LIBRARY_H

#include "base/alloc.h"
#include "policy/capacity_rule.h"
#include "task/context.h"
#include "task/objective.h"

#define AW_LIBRARY_RULES_MAX 128u
#define AW_LIBRARY_APPS_MAX  2048u

/* What a formula took in an application. */
struct aw_library_lived {
    float cores, gib; /* mean, reserved */
    float missed;     /* share of steps */
};

struct aw_library {
    uint32_t rules, apps;
    uint32_t distinct; /* applications: rows so far apart are one of them under another load */
    struct aw_capacity_rule *rule;                       /* [rules] */
    struct aw_library_lived *lived;                      /* [apps][rules] */
    float (*context)[AW_CONTEXT_DIM];                    /* [apps] */
    float weight[AW_CONTEXT_DIM];                        /* of each number in a distance */
    float centre[AW_CONTEXT_DIM], scale[AW_CONTEXT_DIM]; /* by prepare */
    float near; /* distance within which nine of ten known applications have neighbours */
    uint64_t checksum;
    const struct aw_alloc *alloc;
};

AW_NODISCARD enum aw_err aw_library_alloc(struct aw_library *library, uint32_t rules, uint32_t apps,
                                          const struct aw_alloc *alloc);
void aw_library_deinit(struct aw_library *library); /* a zeroed one is a no-op */
/* Centre, scale, near and checksum, from what was filled in. */
void aw_library_prepare(struct aw_library *library);

/* A line of metadata: how the library was made. */
struct aw_library_note {
    const char *key, *value;
};
/* Replaces `path` atomically. */
AW_NODISCARD enum aw_err aw_library_save(const struct aw_library *library, const char *path,
                                         const struct aw_library_note *notes, uint32_t note_count,
                                         struct aw_diag *diag);
/* Prepared. AW_ERR_FORMAT: damaged, or not a library. On failure `ret_library` is untouched. */
AW_NODISCARD enum aw_err aw_library_open(const char *path, const struct aw_alloc *alloc,
                                         struct aw_library *ret_library, struct aw_diag *diag);

/* How careful a choice is: what a miss counts, times what it is worth. */
#define AW_LIBRARY_LEVELS 4u /* the last: one formula for all that is known */

struct aw_library_ask {
    const float *context; /* [AW_CONTEXT_DIM] */
    struct aw_prices prices;
    double budget;
    uint32_t level; /* below AW_LIBRARY_LEVELS */
    uint32_t but;   /* this application is not to be known, under no load; UINT32_MAX: all are */
};
struct aw_library_choice {
    uint32_t rule;
    uint32_t level;  /* as asked, or more careful where the workload is far from all known */
    double distance; /* to the nearest, in units of `near`; above 1: far from all known */
    double cost;     /* over the cheapest formula's that keeps the budget, as expected */
    double missed;   /* as expected */
};
/* What a rule would take here, as far as the nearest applications can tell. */
struct aw_library_expected {
    double cost;   /* ln, over the best one's */
    double price;  /* of its misses (aw_miss_price), .. */
    double weight; /* .. and what that counts at the level that was asked for */
};
/* `ret` has one for every rule. */
void aw_library_expect(const struct aw_library *library, const struct aw_library_ask *ask,
                       struct aw_library_expected *ret);
void aw_library_choose(const struct aw_library *library, const struct aw_library_ask *ask,
                       struct aw_library_choice *ret);

#endif
