/* arbiter.c - the arbiter: fill by guarantees, classes and levels; round; match growth. */
#include "tenancy/arbiter.h"

#include <math.h>
#include <string.h>

#define AW_CONF_OF struct aw_arbiter_settings
const struct aw_conf_field aw_arbiter_fields[] = {
    AW_CONF_NUMBER(reclaim_s, "60", 0, 86400,
                   "Seconds for which what was borrowed may be kept when it is wanted back."),
    AW_CONF_NUMBER(credit_s, "3600", 1, 1e7,
                   "Time constant in seconds over which lending and borrowing are remembered."),
    AW_CONF_NUMBER(credit_tilt, "2", 1, 16,
                   "The most by which credits change a weight, as a factor; 1: not at all."),
    {0},
};

/* One that shares: a workload inside its tenant, or a tenant inside the cluster. */
struct aw__arbiter_entry {
    double at[AW_POOLS];   /* what it has so far */
    double up[AW_POOLS];   /* up to which it rises in this phase */
    double asks[AW_POOLS]; /* within its limits */
    double guaranteed[AW_POOLS];
    double weight, low, high; /* level: dominant share over weight, at `at` and at `up` */
    int64_t priority;
    uint32_t lot;   /* of a workload: its tenant's entry */
    uint32_t count; /* of a tenant: its workloads */
    uint32_t replicas;
    bool open;      /* it rises; later: it is below its guarantee */
    bool held;      /* it would have to give back less than a replica */
    bool capped;    /* by its own limit */
    bool outranked; /* a higher class took what it wanted */
};

void aw_tenancy_terms_init(struct aw_tenancy_terms *terms)
{
    *terms = (struct aw_tenancy_terms){
        .weight = 1, .borrow_limit = {AW_TENANCY_UNLIMITED, AW_TENANCY_UNLIMITED}};
}

const char *aw_arbiter_reason_name(enum aw_arbiter_reason reason)
{
    static const char *const name[] = {
#define X(id, text, sentence) [AW_ARBITER_##id] = text,
        AW_ARBITER_REASON_MAP(X)
#undef X
    };
    return name[reason];
}

const char *aw_arbiter_reason_sentence(enum aw_arbiter_reason reason)
{
    static const char *const sentence[] = {
#define X(id, text, words) [AW_ARBITER_##id] = words,
        AW_ARBITER_REASON_MAP(X)
#undef X
    };
    return sentence[reason];
}

enum aw_err aw_arbiter_init(struct aw_arbiter *arbiter, const struct aw_arbiter_settings *settings,
                            uint32_t tenants_max, uint32_t workloads_max,
                            const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *arbiter = (struct aw_arbiter){.settings = *settings,
                                   .workloads_max = workloads_max,
                                   .tenants_max = tenants_max,
                                   .alloc = alloc};
    const size_t entries = (size_t)tenants_max + 2 * (size_t)workloads_max;
    arbiter->entry = aw_alloc_new(alloc, entries, sizeof *arbiter->entry);
    arbiter->order = aw_alloc_new(alloc, entries, sizeof *arbiter->order);
    if (arbiter->entry && arbiter->order)
        return AW_OK;
    aw_arbiter_deinit(arbiter);
    return aw_fail(diag, AW_ERR_NOMEM, "no memory to arbitrate between %u workloads",
                   workloads_max);
}

void aw_arbiter_deinit(struct aw_arbiter *arbiter)
{
    if (arbiter->entry)
        aw_alloc_free(arbiter->alloc, arbiter->entry);
    if (arbiter->order)
        aw_alloc_free(arbiter->alloc, arbiter->order);
    *arbiter = (struct aw_arbiter){0};
}

/* --- order ------------------------------------------------------------------------------------ */

typedef bool before_fn(const struct aw__arbiter_entry *entry, uint32_t a, uint32_t b);

static void sift(const struct aw__arbiter_entry *entry, uint32_t *order, uint32_t root, uint32_t n,
                 before_fn *before)
{
    for (uint32_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(entry, order[child], order[child + 1]))
            child++;
        if (!before(entry, order[root], order[child]))
            return;
        const uint32_t kept = order[root];
        order[root] = order[child];
        order[child] = kept;
    }
}

/* In place and without allocating, which qsort of glibc does not promise. `before` is total. */
static void sort(const struct aw__arbiter_entry *entry, uint32_t *order, uint32_t n,
                 before_fn *before)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift(entry, order, i, n, before);
    for (uint32_t end = n; end-- > 1;) {
        const uint32_t kept = order[0];
        order[0] = order[end];
        order[end] = kept;
        sift(entry, order, 0, end, before);
    }
}

static bool by_priority(const struct aw__arbiter_entry *entry, uint32_t a, uint32_t b)
{
    if (entry[a].priority != entry[b].priority)
        return entry[a].priority > entry[b].priority;
    return a < b;
}

static bool by_lot(const struct aw__arbiter_entry *entry, uint32_t a, uint32_t b)
{
    return entry[a].lot != entry[b].lot ? entry[a].lot < entry[b].lot : by_priority(entry, a, b);
}

/* Who is below its guarantee first, then by class, then who holds the last part of a replica
 * already, so that halves do not go back and forth, then by level. */
static bool by_need(const struct aw__arbiter_entry *entry, uint32_t a, uint32_t b)
{
    if (entry[a].open != entry[b].open)
        return entry[a].open;
    if (entry[a].priority != entry[b].priority)
        return entry[a].priority > entry[b].priority;
    if (entry[a].held != entry[b].held)
        return entry[a].held;
    if (entry[a].low < entry[b].low || entry[a].low > entry[b].low)
        return entry[a].low < entry[b].low;
    return a < b;
}

/* --- filling ---------------------------------------------------------------------------------- */

/* Where an entry stands when the level is `level`, as a share of its way from `at` to `up`. */
static double way(const struct aw__arbiter_entry *e, double level)
{
    return level >= e->high ? 1 : level <= e->low ? 0 : (level - e->low) / (e->high - e->low);
}

/* AW_POOLS bits of what would be used beyond `left` at this level. */
static uint32_t overflow(const struct aw__arbiter_entry *entry, const uint32_t *order, uint32_t n,
                         const double left[AW_POOLS], double level)
{
    double use[AW_POOLS] = {0};
    uint32_t over = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct aw__arbiter_entry *e = &entry[order[i]];
        const double share = e->open ? way(e, level) : 0;
        for (uint32_t r = 0; share > 0 && r < AW_POOLS; r++)
            use[r] += share * (e->up[r] - e->at[r]);
    }
    for (uint32_t r = 0; r < AW_POOLS; r++)
        over |= use[r] > left[r] ? 1u << r : 0;
    return over;
}

/* Levels of an entry on its way; false: it does not rise. */
static bool set_level(struct aw__arbiter_entry *e, const double capacity[AW_POOLS],
                      const double left[AW_POOLS])
{
    double part = 1, best = -1;
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        const double more = e->up[r] - e->at[r];
        if (more > left[r])
            part = fmin(part, left[r] / more);
    }
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        e->up[r] = fmax(e->at[r], e->at[r] + part * (e->up[r] - e->at[r]));
        if (!(e->up[r] > e->at[r]) || e->up[r] / capacity[r] <= best)
            continue;
        best = e->up[r] / capacity[r];
        e->low = e->at[r] / capacity[r] / e->weight;
        e->high = best / e->weight;
    }
    return best > 0 && e->high > e->low;
}

#define BISECTIONS 60u /* more than the bits of a level that matter: replicas are whole */

/* All of one class rise at the pace of their weights from `at` towards `up`. */
static void rise(struct aw__arbiter_entry *entry, const uint32_t *order, uint32_t n,
                 const double capacity[AW_POOLS], double left[AW_POOLS])
{
    for (uint32_t i = 0; i < n; i++)
        entry[order[i]].open = true;
    for (uint32_t round = 0; round < AW_POOLS; round++) {
        double low = 0, high = 0;
        bool any = false;
        for (uint32_t i = 0; i < n; i++) {
            struct aw__arbiter_entry *e = &entry[order[i]];
            e->open = e->open && set_level(e, capacity, left);
            high = e->open ? fmax(high, e->high) : high;
            any |= e->open;
        }
        if (!any)
            return;
        uint32_t over = overflow(entry, order, n, left, high);
        low = over ? 0 : high;
        for (uint32_t i = 0; over && i < BISECTIONS; i++) {
            const double middle = 0.5 * (low + high);
            const uint32_t there = overflow(entry, order, n, left, middle);
            low = there ? low : middle;
            high = there ? middle : high;
            over = there ? there : over;
        }
        for (uint32_t i = 0; i < n; i++) {
            struct aw__arbiter_entry *e = &entry[order[i]];
            const double share = e->open ? way(e, low) : 0;
            for (uint32_t r = 0; r < AW_POOLS && share > 0; r++) {
                const double more = share * (e->up[r] - e->at[r]);
                left[r] = fmax(0, left[r] - more);
                e->at[r] += more;
            }
            for (uint32_t r = 0; r < AW_POOLS; r++) /* what it needs is gone */
                e->open = e->open && !(over >> r & 1 && e->up[r] > e->at[r]);
        }
        if (!over)
            return;
    }
}

/* Guarantees, then the rest; both by class. `order` is by priority. */
static void fill(struct aw__arbiter_entry *entry, const uint32_t *order, uint32_t n,
                 const double capacity[AW_POOLS], const double whole[AW_POOLS])
{
    double left[AW_POOLS];
    memcpy(left, whole, sizeof left);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < AW_POOLS; r++)
            left[r] -= entry[order[i]].at[r];
    for (uint32_t r = 0; r < AW_POOLS; r++)
        left[r] = fmax(0, left[r]);
    for (uint32_t phase = 0; phase < 2; phase++) {
        double taken = 0;
        for (uint32_t from = 0, to; from < n; from = to) {
            double before = 0, after = 0;
            for (uint32_t r = 0; r < AW_POOLS; r++)
                before += left[r] / capacity[r];
            for (to = from; to < n; to++) {
                struct aw__arbiter_entry *e = &entry[order[to]];
                if (e->priority != entry[order[from]].priority)
                    break;
                e->outranked = phase == 1 && taken > 0;
                for (uint32_t r = 0; r < AW_POOLS; r++)
                    e->up[r] = fmax(e->at[r], phase ? e->asks[r] : e->guaranteed[r]);
            }
            rise(entry, order + from, to - from, capacity, left);
            for (uint32_t r = 0; r < AW_POOLS; r++)
                after += left[r] / capacity[r];
            taken += before - after;
        }
    }
}

/* --- what is shared --------------------------------------------------------------------------- */

/* The share of `asks` that `amount` covers of the pools that it names. */
static double covers(const int64_t amount[AW_POOLS], const double asks[AW_POOLS], int64_t unnamed)
{
    double part = 1;
    bool named = false;
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        if (amount[r] == unnamed)
            continue;
        named = true;
        part = asks[r] > 0 ? fmin(part, (double)amount[r] / asks[r]) : part;
    }
    return named ? part : unnamed ? 1 : 0;
}

/* Limits of the terms over what is asked; `at` is the floor. */
static void promise(struct aw__arbiter_entry *e, const struct aw_tenancy_terms *terms)
{
    int64_t most[AW_POOLS];
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        const int64_t limit = terms->borrow_limit[r], guarantee = terms->guarantee[r];
        most[r] =
            limit > AW_TENANCY_UNLIMITED - guarantee ? AW_TENANCY_UNLIMITED : guarantee + limit;
    }
    const double sure = covers(terms->guarantee, e->asks, 0);
    const double may = covers(most, e->asks, AW_TENANCY_UNLIMITED);
    e->capped = may < 1;
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        const double asks = e->asks[r];
        e->asks[r] = fmax(e->at[r], may * asks);
        e->guaranteed[r] = fmin(e->asks[r], fmax(e->at[r], sure * asks));
    }
}

static double need(const struct aw_arbiter_workload *w, uint32_t replicas, uint32_t pool)
{
    return (double)replicas * (double)w->quantum[pool];
}

static const struct aw_tenancy_terms *terms_of(const struct aw_arbiter_case *of, uint32_t lot)
{
    return lot < of->tenant_count ? &of->tenants[lot].terms
                                  : &of->workloads[lot - of->tenant_count].terms;
}

/* What the guarantee still covers beyond `has`; a pool that it does not name is not counted, and a
 * guarantee that names none covers nothing. */
static double of_guarantee(const struct aw_arbiter_case *of, uint32_t lot,
                           const double has[AW_POOLS], uint32_t pool)
{
    const int64_t *guarantee = terms_of(of, lot)->guarantee;
    bool named = false;
    for (uint32_t r = 0; r < AW_POOLS; r++)
        named |= guarantee[r] > 0;
    return !named ? 0 : guarantee[pool] > 0 ? (double)guarantee[pool] - has[pool] + 0.5 : INFINITY;
}

/* The workloads as entries, and their tenants: [workloads], then [tenants and those alone]. */
static void gather(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of)
{
    const uint32_t n = of->workload_count, lots = of->tenant_count + n;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    memset(lot, 0, lots * sizeof *lot);
    for (uint32_t i = 0; i < n; i++) {
        const struct aw_arbiter_workload *w = &of->workloads[i];
        const bool alone = w->tenant == AW_ARBITER_ALONE;
        struct aw__arbiter_entry *e = &entry[i];
        AW_ASSERT(alone || w->tenant < of->tenant_count);
        *e = (struct aw__arbiter_entry){.lot = alone ? of->tenant_count + i : w->tenant,
                                        .priority = alone ? 0 : w->terms.priority,
                                        .weight = w->terms.weight};
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            e->at[r] = need(w, w->replicas_floor, r);
            e->asks[r] = fmax(e->at[r], need(w, w->replicas_asked, r));
        }
        struct aw_tenancy_terms free_terms;
        aw_tenancy_terms_init(&free_terms);
        promise(e, alone ? &free_terms : &w->terms); /* of one alone: at the level of tenants */
        struct aw__arbiter_entry *t = &lot[e->lot];
        t->count++;
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            t->at[r] += e->at[r];
            t->asks[r] += e->asks[r];
        }
    }
    for (uint32_t i = 0; i < lots; i++) {
        const struct aw_tenancy_terms *terms = terms_of(of, i);
        const double credit = i < of->tenant_count ? of->tenants[i].credit.credit : 0;
        lot[i].weight = terms->weight * pow(arbiter->settings.credit_tilt, credit);
        lot[i].priority = terms->priority;
        if (lot[i].count)
            promise(&lot[i], terms);
    }
}

/* The workloads of a tenant within `whole`, from their floors. */
static void fill_tenant(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of,
                        const uint32_t *order, uint32_t n, const double capacity[AW_POOLS],
                        const double whole[AW_POOLS])
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < AW_POOLS; r++)
            arbiter->entry[order[i]].at[r] =
                need(&of->workloads[order[i]], of->workloads[order[i]].replicas_floor, r);
    fill(arbiter->entry, order, n, capacity, whole);
}

/* What a tenant's guarantee comes to: what its workloads make of it. A pool that it does not name
 * follows from those that it names. */
static void mix_guarantee(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of,
                          const uint32_t *order, uint32_t n, const double capacity[AW_POOLS])
{
    struct aw__arbiter_entry *t = arbiter->entry + of->workload_count + arbiter->entry[*order].lot;
    const double none[AW_POOLS] = {0};
    double whole[AW_POOLS], sum[AW_POOLS] = {0};
    for (uint32_t r = 0; r < AW_POOLS; r++)
        whole[r] = of_guarantee(of, arbiter->entry[*order].lot, none, r);
    fill_tenant(arbiter, of, order, n, capacity, whole);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < AW_POOLS; r++)
            sum[r] += arbiter->entry[order[i]].at[r];
    for (uint32_t r = 0; r < AW_POOLS; r++)
        t->guaranteed[r] = fmin(t->asks[r], sum[r]);
}

static void share_out(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of,
                      const double capacity[AW_POOLS])
{
    const uint32_t n = of->workload_count, lots = of->tenant_count + n;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    uint32_t *order = arbiter->order, *top = order + n, present = 0;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    sort(entry, order, n, by_lot);
    for (uint32_t i = 0; i < n; i += lot[entry[order[i]].lot].count) {
        const struct aw__arbiter_entry *t = &lot[entry[order[i]].lot];
        if (t->count > 1)
            mix_guarantee(arbiter, of, order + i, t->count, capacity);
    }
    for (uint32_t i = 0; i < lots; i++)
        if (lot[i].count > 0)
            top[present++] = i;
    sort(lot, top, present, by_priority);
    fill(lot, top, present, capacity, capacity);

    for (uint32_t i = 0; i < n; i += lot[entry[order[i]].lot].count) {
        const struct aw__arbiter_entry *t = &lot[entry[order[i]].lot];
        bool whole = true; /* it got its guarantee: what its workloads made of that stands */
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            double sum = 0;
            for (uint32_t k = 0; k < t->count; k++)
                sum += entry[order[i + k]].at[r];
            whole = whole && t->at[r] >= sum * (1 - 1e-9);
        }
        if (t->count == 1)
            memcpy(entry[order[i]].at, t->at, sizeof t->at);
        else if (whole)
            fill(entry, order + i, t->count, capacity, t->at);
        else
            fill_tenant(arbiter, of, order + i, t->count, capacity, t->at);
    }
}

/* --- whole replicas --------------------------------------------------------------------------- */

/* Up to `most` replicas more, as many as fit; returns how many. */
static uint32_t give(const struct aw_arbiter_workload *w, uint32_t most, double left[AW_POOLS],
                     double tenant_left[AW_POOLS])
{
    double n = most;
    for (uint32_t r = 0; r < AW_POOLS; r++)
        if (w->quantum[r] > 0)
            n = fmin(n, floor(fmin(left[r], tenant_left[r]) / (double)w->quantum[r] + 1e-9));
    n = fmax(0, n);
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        left[r] -= n * (double)w->quantum[r];
        tenant_left[r] -= n * (double)w->quantum[r];
    }
    return (uint32_t)n;
}

/* The most whole replicas of `w` within `amount`. */
static uint32_t whole_in(const struct aw_arbiter_workload *w, const double amount[AW_POOLS])
{
    double most = w->replicas_asked;
    for (uint32_t r = 0; r < AW_POOLS; r++)
        if (w->quantum[r] > 0)
            most = fmin(most, floor(amount[r] / (double)w->quantum[r] * (1 + 1e-12) + 1e-9));
    return (uint32_t)fmax(most, fmin(w->replicas_floor, UINT32_MAX));
}

/* Orders workloads by need, by what they come to (`entry.replicas`) or by what they hold: `open` is
 * set where a replica more is within the guarantee, `low` is the level. `up` of a tenant becomes
 * what its workloads come to, or hold. */
static void order_by_need(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of,
                          const double capacity[AW_POOLS], bool by_holds)
{
    const uint32_t n = of->workload_count;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    for (uint32_t i = 0; i < of->tenant_count + n; i++)
        memset(lot[i].up, 0, sizeof lot[i].up);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < AW_POOLS; r++)
            lot[entry[i].lot].up[r] += by_holds ? (double)of->workloads[i].holds[r]
                                                : need(&of->workloads[i], entry[i].replicas, r);
    for (uint32_t i = 0; i < n; i++) {
        const struct aw_arbiter_workload *w = &of->workloads[i];
        struct aw__arbiter_entry *e = &entry[i];
        const struct aw__arbiter_entry *t = &lot[e->lot];
        e->open = by_holds || e->replicas < w->replicas_asked;
        e->held = false;
        e->low = 0;
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            e->held |= !by_holds && need(w, e->replicas, r) < (double)w->holds[r] - 0.5;
            e->low = fmax(e->low, t->up[r] / capacity[r] / t->weight);
        }
        for (uint32_t r = 0; r < AW_POOLS; r++)
            e->open = e->open && (double)w->quantum[r] <= of_guarantee(of, e->lot, t->up, r);
        e->priority = t->priority;
        arbiter->order[i] = i;
    }
    sort(entry, arbiter->order, n, by_need);
}

/* What is left over is less than a replica each: one round nearly does. A turn is twice as much as
 * the one before, so that small replicas soon take what large ones left. */
#define ROUNDS_MAX 31u

static void round_off(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of,
                      const double capacity[AW_POOLS])
{
    const uint32_t n = of->workload_count;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    double left[AW_POOLS];
    memcpy(left, capacity, sizeof left);
    for (uint32_t i = 0; i < n; i++) {
        entry[i].replicas = whole_in(&of->workloads[i], entry[i].at);
        for (uint32_t r = 0; r < AW_POOLS; r++)
            left[r] -= need(&of->workloads[i], entry[i].replicas, r);
    }
    order_by_need(arbiter, of, capacity, false);
    for (uint32_t i = 0; i < of->tenant_count + n; i++)
        for (uint32_t r = 0; r < AW_POOLS; r++) { /* what guarantee and limits still let it have */
            lot[i].guaranteed[r] =
                fmin(of_guarantee(of, i, lot[i].up, r), lot[i].asks[r] - lot[i].up[r] + 0.5);
            lot[i].up[r] = lot[i].asks[r] - lot[i].up[r];
        }
    for (uint32_t phase = 0; phase < 2; phase++) { /* within guarantees, then any */
        bool given = true;
        for (uint32_t round = 0; given && round < ROUNDS_MAX; round++) {
            given = false;
            for (uint32_t k = 0; k < n; k++) {
                const uint32_t i = arbiter->order[k];
                const struct aw_arbiter_workload *w = &of->workloads[i];
                struct aw__arbiter_entry *e = &entry[i];
                const uint32_t wants = w->replicas_asked - e->replicas, turn = 1u << round;
                double *tenant = phase ? lot[e->lot].up : lot[e->lot].guaranteed;
                const uint32_t more =
                    wants > 0 ? give(w, wants < turn ? wants : turn, left, tenant) : 0;
                for (uint32_t r = 0; !phase && r < AW_POOLS; r++)
                    lot[e->lot].up[r] -= need(w, more, r);
                e->replicas += more;
                given |= more > 0;
            }
        }
    }
}

/* --- from what is held to what is due --------------------------------------------------------- */

static double more_than_held(const struct aw_arbiter_workload *w, uint32_t replicas, uint32_t pool)
{
    return fmax(0, need(w, replicas, pool) - (double)w->holds[pool]);
}

static bool above_target(const struct aw_arbiter_workload *w, uint32_t target)
{
    for (uint32_t r = 0; r < AW_POOLS; r++)
        if (need(w, target, r) < (double)w->holds[r] - 0.5)
            return true;
    return false;
}

/* Grows from `from` up to `most` replicas, as far as the growth is free; returns to how many. */
static uint32_t grow_into(const struct aw_arbiter_workload *w, uint32_t from, uint32_t most,
                          double free[AW_POOLS], const double within[AW_POOLS])
{
    double n = most;
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        const double room = fmax(0, fmin(free[r], within[r]));
        if (w->quantum[r] > 0 && more_than_held(w, most, r) - more_than_held(w, from, r) > room)
            n = fmin(n, floor((fmax((double)w->holds[r], need(w, from, r)) + room) /
                                  (double)w->quantum[r] +
                              1e-9));
    }
    const uint32_t to = (uint32_t)fmax(n, from);
    for (uint32_t r = 0; r < AW_POOLS; r++)
        free[r] -= more_than_held(w, to, r) - more_than_held(w, from, r);
    return to;
}

/* Replicas of its size that a workload has room for in what it holds. */
static uint32_t held_replicas(const struct aw_arbiter_workload *w, uint32_t most)
{
    double n = most;
    for (uint32_t r = 0; r < AW_POOLS; r++)
        if (w->quantum[r] > 0)
            n = fmin(n, floor((double)w->holds[r] / (double)w->quantum[r] + 1e-9));
    return (uint32_t)n;
}

/* Growth into what is free: guarantees first, then by class and level. */
static void grow(struct aw_arbiter *arbiter, const struct aw_arbiter_case *of,
                 const double capacity[AW_POOLS], double free[AW_POOLS],
                 struct aw_arbiter_grant *ret)
{
    const uint32_t n = of->workload_count;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    order_by_need(arbiter, of, capacity, true);
    for (uint32_t i = 0; i < of->tenant_count + n; i++) {
        double has[AW_POOLS];
        memcpy(has, lot[i].up, sizeof has);
        for (uint32_t r = 0; r < AW_POOLS; r++) /* of the guarantee, what it does not hold */
            lot[i].up[r] = of_guarantee(of, i, has, r);
    }
    for (uint32_t phase = 0; phase < 2; phase++)
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t i = arbiter->order[k];
            const struct aw_arbiter_workload *w = &of->workloads[i];
            double *within = phase ? free : lot[entry[i].lot].up;
            const uint32_t from = phase ? ret[i].replicas : held_replicas(w, entry[i].replicas);
            const uint32_t to = grow_into(w, from, entry[i].replicas, free, within);
            for (uint32_t r = 0; !phase && r < AW_POOLS; r++)
                within[r] -= more_than_held(w, to, r) - more_than_held(w, from, r);
            ret[i] = (struct aw_arbiter_grant){.replicas = to, .target = entry[i].replicas};
        }
}

static enum aw_arbiter_reason reason_of(const struct aw__arbiter_entry *e,
                                        const struct aw__arbiter_entry *t)
{
    const double all = t->at[AW_POOL_CPU] / fmax(1, t->asks[AW_POOL_CPU]);
    if (e->capped || (t->capped && all > 0.999))
        return AW_ARBITER_BORROW;
    if (t->count > 1 && e->outranked)
        return AW_ARBITER_TENANT;
    return t->outranked ? AW_ARBITER_PRIORITY : AW_ARBITER_SHARE;
}

static void match(struct aw_arbiter *arbiter, struct aw_arbiter_case *of,
                  const double capacity[AW_POOLS], struct aw_arbiter_grant *ret)
{
    const uint32_t n = of->workload_count;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    const double reclaim_s = arbiter->settings.reclaim_s;
    double free[AW_POOLS], longest = 0;
    bool full = false;
    memcpy(free, capacity, sizeof free);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t r = 0; r < AW_POOLS; r++)
            free[r] -= (double)of->workloads[i].holds[r];
    }
    for (uint32_t r = 0; r < AW_POOLS; r++)
        full |= free[r] < -0.5; /* more was asked of the cluster than it has: nobody has a right */
    grow(arbiter, of, capacity, free, ret);
    for (uint32_t i = 0; i < n; i++) {
        struct aw_arbiter_workload *w = &of->workloads[i];
        const bool waits = ret[i].replicas < ret[i].target;
        w->since.waits_s = waits ? w->since.waits_s + of->elapsed_s : 0;
        longest = fmax(longest, w->since.waits_s);
        ret[i].reason = waits ? AW_ARBITER_WAITING
                        : ret[i].target < w->replicas_asked
                            ? reason_of(&entry[i], &lot[entry[i].lot])
                            : AW_ARBITER_GRANTED;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct aw_arbiter_workload *w = &of->workloads[i];
        const bool over =
            above_target(w, entry[i].replicas) && entry[i].replicas < w->replicas_asked;
        const bool beyond = over && (entry[i].capped || lot[entry[i].lot].capped);
        w->since.over_s = beyond ? w->since.over_s + of->elapsed_s : 0;
        ret[i].wait_s = ret[i].reason == AW_ARBITER_WAITING ? fmax(0, reclaim_s - longest) : 0;
        if (!over)
            continue;
        ret[i].keeps = !full && longest < reclaim_s && !(beyond && w->since.over_s >= reclaim_s);
        ret[i].reason = ret[i].keeps ? ret[i].reason : AW_ARBITER_RECLAIMED;
    }
}

/* --- how everybody stands --------------------------------------------------------------------- */

static void stand(struct aw_arbiter *arbiter, struct aw_arbiter_case *of,
                  const double capacity[AW_POOLS], const struct aw_arbiter_grant *grants,
                  struct aw_arbiter_standing *standing)
{
    const uint32_t n = of->workload_count, lots = of->tenant_count + n;
    struct aw__arbiter_entry *entry = arbiter->entry, *lot = entry + n;
    uint32_t *top = arbiter->order + n, present = 0;
    memset(standing, 0, lots * sizeof *standing);
    for (uint32_t i = 0; i < n; i++) {
        const struct aw_arbiter_workload *w = &of->workloads[i];
        struct aw_arbiter_standing *s = &standing[entry[i].lot];
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            const int64_t got = (int64_t)need(w, grants[i].replicas, r);
            s->holds[r] += w->holds[r];
            s->asks[r] += (int64_t)fmin(need(w, w->replicas_asked, r), 0x1p60);
            s->target[r] += (int64_t)need(w, entry[i].replicas, r);
            s->gets[r] += grants[i].keeps && got < w->holds[r] ? w->holds[r] : got;
        }
    }
    for (uint32_t i = 0; i < lots; i++) {
        lot[i].low = 0;
        for (uint32_t r = 0; r < AW_POOLS; r++)
            lot[i].low = fmax(lot[i].low, (double)standing[i].gets[r] / capacity[r]);
        standing[i].share = lot[i].low;
        lot[i].low /= lot[i].weight;
        lot[i].open = lot[i].held = false;
        if (lot[i].count)
            top[present++] = i;
    }
    sort(lot, top, present, by_need);
    for (uint32_t from = 0, to; from < present; from = to) {
        for (to = from; to < present && lot[top[to]].priority == lot[top[from]].priority; to++)
            standing[top[to]].rank = to - from + 1;
        for (uint32_t k = from; k < to; k++)
            standing[top[k]].of = to - from;
    }
}

/* Who lends of what is its own, who borrows, and what that does to credits. What is one's own: the
 * guarantee, or else an equal part by weight. */
static void settle(struct aw_arbiter *arbiter, struct aw_arbiter_case *of,
                   const double capacity[AW_POOLS], struct aw_arbiter_standing *standing)
{
    const uint32_t n = of->workload_count, lots = of->tenant_count + n;
    const struct aw__arbiter_entry *lot = arbiter->entry + n;
    double weights = 0, slack[AW_POOLS] = {0}, over[AW_POOLS] = {0};
    for (uint32_t i = 0; i < lots; i++)
        weights += lot[i].count ? terms_of(of, i)->weight : 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < lots; i++) {
            const struct aw_tenancy_terms *terms = terms_of(of, i);
            double lent = 0, borrowed = 0, own_share = 0;
            for (uint32_t r = 0; lot[i].count && r < AW_POOLS; r++) {
                struct aw_arbiter_standing *s = &standing[i];
                const double own =
                    fmax((double)terms->guarantee[r], capacity[r] * terms->weight / weights);
                const double idle = fmax(0, own - fmax((double)s->asks[r], (double)s->gets[r]));
                const double beyond = fmax(0, (double)s->gets[r] - own);
                own_share = fmax(own_share, own / capacity[r]);
                if (pass == 0) {
                    slack[r] += idle;
                    over[r] += beyond;
                    continue;
                }
                s->lends[r] = slack[r] > 0 ? (int64_t)(idle * fmin(1, over[r] / slack[r])) : 0;
                s->borrows[r] = (int64_t)beyond;
                lent = fmax(lent, (double)s->lends[r] / capacity[r]);
                borrowed = fmax(borrowed, beyond / capacity[r]);
            }
            if (pass == 0 || i >= of->tenant_count || !(own_share > 0))
                continue;
            double *credit = &of->tenants[i].credit.credit;
            const double now = fmin(1, fmax(-1, (lent - borrowed) / own_share));
            const double pace = -expm1(-of->elapsed_s / arbiter->settings.credit_s);
            *credit += pace * (now - *credit);
        }
}

void aw_arbiter_run(struct aw_arbiter *arbiter, struct aw_arbiter_case *of,
                    struct aw_arbiter_grant *ret_grants, struct aw_arbiter_standing *ret_standings)
{
    double capacity[AW_POOLS];
    AW_ASSERT(of->workload_count <= arbiter->workloads_max);
    AW_ASSERT(of->tenant_count <= arbiter->tenants_max);
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        AW_ASSERT(of->capacity[r] > 0);
        capacity[r] = (double)of->capacity[r];
    }
    gather(arbiter, of);
    share_out(arbiter, of, capacity);
    round_off(arbiter, of, capacity);
    match(arbiter, of, capacity, ret_grants);
    if (!ret_standings)
        return;
    stand(arbiter, of, capacity, ret_grants, ret_standings);
    settle(arbiter, of, capacity, ret_standings);
}
