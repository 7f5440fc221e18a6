/* library.c - formulas that were lived. */
#include "policy/library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define NEIGHBOURS 10u
#define NEAR_SHARE 0.9
#define FAR        3    /* times `near`: no neighbour tells anything */
#define CLIP       4.0f /* deviations beyond which a number is no farther away */
#define COST_LEAST 1e-6

/* What misses count at each level. */
static const double miss_weight[AW_LIBRARY_LEVELS] = {1.5, 4, 16, 16};

enum aw_err aw_library_alloc(struct aw_library *library, uint32_t rules, uint32_t apps,
                             const struct aw_alloc *alloc)
{
    struct aw_library made = {.rules = rules, .apps = apps, .distinct = apps, .alloc = alloc};
    made.rule = aw_alloc_new(alloc, rules, sizeof *made.rule);
    made.lived = aw_alloc_new(alloc, (size_t)rules * apps, sizeof *made.lived);
    made.context = aw_alloc_new(alloc, apps, sizeof *made.context);
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        made.weight[i] = 1;
    if (!made.rule || !made.lived || !made.context) {
        aw_library_deinit(&made);
        return AW_ERR_NOMEM;
    }
    *library = made;
    return AW_OK;
}

void aw_library_deinit(struct aw_library *library)
{
    aw_alloc_free(library->alloc, library->rule);
    aw_alloc_free(library->alloc, library->lived);
    aw_alloc_free(library->alloc, library->context);
    *library = (struct aw_library){0};
}

/* What neither side knows is left out, and counts as far as the rest on average. */
static float distance(const struct aw_library *library, const float *a, const float *b)
{
    float sum = 0, known = 0, all = 0;
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++) {
        const float weight = library->weight[i];
        const float off = (a[i] - b[i]) / library->scale[i];
        all += weight;
        if (isnan(off))
            continue;
        const float clipped = fminf(CLIP, fabsf(off));
        sum += weight * clipped * clipped;
        known += weight;
    }
    return known > 0 ? sqrtf(sum / known * all) : INFINITY;
}

struct neighbour {
    float distance;
    uint32_t app;
};

/* The nearest, nearest first. */
static uint32_t nearest(const struct aw_library *library, const float *context, uint32_t but,
                        struct neighbour *ret)
{
    uint32_t count = 0;
    for (uint32_t app = 0; app < library->apps; app++) {
        if (but != UINT32_MAX && app % library->distinct == but % library->distinct)
            continue;
        const float d = distance(library, context, library->context[app]);
        uint32_t at = count < NEIGHBOURS ? count++ : NEIGHBOURS;
        while (at > 0 && d < ret[at - 1].distance)
            at--;
        if (at >= count)
            continue;
        memmove(&ret[at + 1], &ret[at], (count - at - 1) * sizeof *ret);
        ret[at] = (struct neighbour){d, app};
    }
    return count;
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void aw_library_prepare(struct aw_library *library)
{
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++) {
        double sum = 0, square = 0, count = 0;
        for (uint32_t app = 0; app < library->apps; app++) {
            const double x = (double)library->context[app][i];
            if (isnan(x))
                continue;
            sum += x;
            square += x * x;
            count++;
        }
        const double mean = count > 0 ? sum / count : 0;
        const double variance = count > 0 ? square / count - mean * mean : 0;
        library->centre[i] = (float)mean;
        library->scale[i] = (float)sqrt(fmax(1e-8, variance));
    }
    float far[AW_LIBRARY_APPS_MAX];
    for (uint32_t app = 0; app < library->apps; app++) {
        struct neighbour found[NEIGHBOURS];
        far[app] = nearest(library, library->context[app], app, found) ? found[0].distance : 0;
    }
    qsort(far, library->apps, sizeof *far, by_size);
    library->near = fmaxf(1e-6f, far[(uint32_t)(NEAR_SHARE * (library->apps - 1))]);
    uint64_t hash = AW_HASH_BEGIN;
    hash = aw_hash_bytes(hash, library->rule, library->rules * sizeof *library->rule);
    hash = aw_hash_bytes(hash, library->context, library->apps * sizeof *library->context);
    hash = aw_hash_bytes(hash, library->lived,
                         (size_t)library->apps * library->rules * sizeof *library->lived);
    library->checksum = aw_hash_bytes(hash, library->weight, sizeof library->weight);
}

static double cost_of(const struct aw_library_lived *lived, const struct aw_prices *prices)
{
    return fmax(COST_LEAST,
                (double)lived->cores * prices->core_hour + (double)lived->gib * prices->gib_hour);
}

struct sums {
    double cost, price, missed, weight;
};

/* What each formula would take in the application, as far above the best one there. */
static void add_app(const struct aw_library *library, const struct aw_library_ask *ask,
                    uint32_t app, double weight, struct sums *sums)
{
    const struct aw_library_lived *row = &library->lived[(size_t)app * library->rules];
    double cheapest = INFINITY;
    for (uint32_t f = 0; f < library->rules; f++) {
        const double cost =
            log(cost_of(&row[f], &ask->prices)) + aw_miss_price((double)row[f].missed, ask->budget);
        cheapest = fmin(cheapest, cost);
    }
    for (uint32_t f = 0; f < library->rules; f++) {
        const double missed = (double)row[f].missed;
        sums[f].cost += weight * (log(cost_of(&row[f], &ask->prices)) - cheapest);
        sums[f].price += weight * aw_miss_price(missed, ask->budget);
        sums[f].missed += weight * missed;
        sums[f].weight += weight;
    }
}

/* Of every formula, and how careful that is. */
static uint32_t add_nearest(const struct aw_library *library, const struct aw_library_ask *ask,
                            struct sums *sums, double *ret_away)
{
    struct neighbour found[NEIGHBOURS];
    const uint32_t count = nearest(library, ask->context, ask->but, found);
    const double away = count ? (double)(found[0].distance / library->near) : (double)INFINITY;
    uint32_t level = ask->level;
    if (away > 1 && level == 0)
        level = 1;
    if (!(away < FAR))
        level = AW_LIBRARY_LEVELS - 1;
    if (level == AW_LIBRARY_LEVELS - 1) {
        for (uint32_t app = 0; app < library->apps; app++)
            add_app(library, ask, app, 1, sums);
    } else {
        const double width = fmax(1e-6, (double)found[count / 2].distance);
        for (uint32_t i = 0; i < count; i++) {
            const double off = (double)found[i].distance / width;
            add_app(library, ask, found[i].app, exp(-0.5 * off * off), sums);
        }
    }
    *ret_away = away;
    return level;
}

void aw_library_expect(const struct aw_library *library, const struct aw_library_ask *ask,
                       struct aw_library_expected *ret)
{
    struct sums sums[AW_LIBRARY_RULES_MAX] = {0};
    double away;
    const uint32_t level = add_nearest(library, ask, sums, &away);
    for (uint32_t f = 0; f < library->rules; f++)
        ret[f] = (struct aw_library_expected){.cost = sums[f].cost / sums[f].weight,
                                              .price = sums[f].price / sums[f].weight,
                                              .weight = miss_weight[level]};
}

void aw_library_choose(const struct aw_library *library, const struct aw_library_ask *ask,
                       struct aw_library_choice *ret)
{
    struct sums sums[AW_LIBRARY_RULES_MAX] = {0};
    double away, least = INFINITY;
    const uint32_t level = add_nearest(library, ask, sums, &away);
    uint32_t best = 0;
    for (uint32_t f = 0; f < library->rules; f++) {
        const double value = sums[f].cost + miss_weight[level] * sums[f].price;
        if (value < least) {
            least = value;
            best = f;
        }
    }
    *ret = (struct aw_library_choice){.rule = best,
                                      .level = level,
                                      .distance = away,
                                      .cost = exp(sums[best].cost / sums[best].weight),
                                      .missed = sums[best].missed / sums[best].weight};
}
