/*
 * arbiter_chaos_test.c - a thousand bad days of a shared cluster, every promise checked after every
 * tick.
 *
 * Agents are killed, 30 % of them at once: what they held stays held, and is asked for again and
 * again. Members flap: they leave and come back with something to hold. Liars ask for everything.
 * Some cannot be reached: what they are told arrives late, so that what they were to give back is
 * held on. Nodes go and come back.
 */
#include "tenancy/arbiter.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

#define SEEDS     1000u
#define TICKS     160u
#define WORKLOADS 40u
#define TENANTS   10u
#define STEP_S    15.0
#define RECLAIM_S 60.0
#define LATE_MAX  4u /* ticks that an order to shrink may take */
/* A tenant may be kept waiting for the reclaim time and for what was told to arrive; two ticks more
 * for the look before and after. */
#define WAIT_TICKS_MAX ((uint32_t)(RECLAIM_S / STEP_S) + LATE_MAX + 2)

struct member {
    bool here, dead, liar;
    uint32_t late; /* ticks until it does what it was told */
    uint32_t next; /* replicas that it was told */
    uint32_t held;
};

struct day {
    struct aw_rng rng;
    struct aw_arbiter arbiter;
    struct aw_arbiter_tenant tenant[TENANTS];
    struct aw_arbiter_workload workload[WORKLOADS], shown[WORKLOADS];
    struct aw_arbiter_grant grant[WORKLOADS];
    struct aw_arbiter_standing standing[TENANTS + WORKLOADS];
    struct member member[WORKLOADS];
    uint32_t index[WORKLOADS]; /* of what is shown */
    uint32_t below[TENANTS];   /* ticks in a row below its guarantee while others borrow */
    uint32_t lowest[TENANTS];  /* ticks in a row without what is its share */
    uint32_t lost;             /* ticks until the capacity is whole again, or has settled */
    struct aw_arbiter_case of;
    int64_t whole[AW_POOLS];
};

static void begin(struct day *d, uint64_t seed)
{
    struct aw_arbiter_settings settings;
    memset(d, 0, sizeof *d);
    aw_rng_init(&d->rng, seed, 0);
    aw_conf_defaults(aw_arbiter_fields, &settings);
    settings.reclaim_s = RECLAIM_S;
    assert_ok(aw_arbiter_init(&d->arbiter, &settings, TENANTS, WORKLOADS, NULL, NULL));
    d->whole[AW_POOL_CPU] = 200000;
    d->whole[AW_POOL_MEMORY] = 4000;
    for (uint32_t t = 0; t < TENANTS; t++) {
        struct aw_tenancy_terms *terms = &d->tenant[t].terms;
        aw_tenancy_terms_init(terms);
        terms->weight = aw_rng_uniform(&d->rng, 0.5, 2);
        terms->priority = aw_rng_below(&d->rng, 3);
        if (aw_rng_below(&d->rng, 2)) /* in all at most half of the cluster */
            terms->guarantee[AW_POOL_CPU] = d->whole[AW_POOL_CPU] / (2 * TENANTS);
    }
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_arbiter_workload *w = &d->workload[i];
        aw_tenancy_terms_init(&w->terms);
        w->tenant = i % TENANTS;
        w->quantum[AW_POOL_CPU] = 250 * (1 + aw_rng_below(&d->rng, 4));
        w->quantum[AW_POOL_MEMORY] = 1 + aw_rng_below(&d->rng, 8);
        w->replicas_floor = 1;
        d->member[i] = (struct member){.here = true,
                                       .held = 1 + aw_rng_below(&d->rng, 3),
                                       .liar = aw_rng_below(&d->rng, 10) == 0};
        w->replicas_asked = 2 + aw_rng_below(&d->rng, 10);
    }
}

static void disturb(struct day *d, uint32_t tick)
{
    if (tick % 40 == 20)
        for (uint32_t i = 0; i < WORKLOADS; i++)
            d->member[i].dead |= aw_rng_below(&d->rng, 10) < 3;
    if (tick % 40 == 39)
        for (uint32_t i = 0; i < WORKLOADS; i++)
            d->member[i].dead = false;
    if (tick % 50 == 30)
        d->lost = 10;
    d->lost -= d->lost > 0;
    for (uint32_t r = 0; r < AW_POOLS; r++)
        d->of.capacity[r] = d->lost ? d->whole[r] * 4 / 5 : d->whole[r];
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct member *m = &d->member[i];
        if (aw_rng_below(&d->rng, 60) == 0) {
            m->here = !m->here;
            m->held = m->here ? 1 : 0; /* who comes has its floor, whether there is room or not */
            m->late = 0;
        }
        uint32_t *asked = &d->workload[i].replicas_asked;
        if (m->liar)
            *asked = UINT32_MAX;
        else if (!m->dead && aw_rng_below(&d->rng, 12) == 0)
            *asked = 1 + aw_rng_below(&d->rng, aw_rng_below(&d->rng, 4) ? 8 : 60);
    }
}

static void show(struct day *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        if (!d->member[i].here) {
            memset(&d->workload[i].since, 0, sizeof d->workload[i].since);
            continue;
        }
        d->index[n] = i;
        d->shown[n] = d->workload[i];
        for (uint32_t r = 0; r < AW_POOLS; r++)
            d->shown[n].holds[r] = d->member[i].held * d->workload[i].quantum[r];
        n++;
    }
    d->of.tenants = d->tenant;
    d->of.workloads = d->shown;
    d->of.tenant_count = TENANTS;
    d->of.workload_count = n;
    d->of.elapsed_s = STEP_S;
}

static void obey(struct day *d)
{
    for (uint32_t k = 0; k < d->of.workload_count; k++) {
        const uint32_t i = d->index[k];
        struct member *m = &d->member[i];
        const struct aw_arbiter_grant *grant = &d->grant[k];
        d->workload[i].since = d->shown[k].since;
        const uint32_t wants =
            grant->keeps && grant->replicas < m->held ? m->held : grant->replicas;
        if (wants >= m->held) { /* growth counts from the moment that it was granted */
            m->held = wants;
            m->late = 0;
            continue;
        }
        if (m->late == 0)
            m->late = 1 + aw_rng_below(&d->rng, LATE_MAX);
        if (--m->late == 0)
            m->held = wants;
    }
}

static int64_t guarantee_of(const struct day *d, uint32_t tenant)
{
    return d->tenant[tenant].terms.guarantee[AW_POOL_CPU];
}

/* NULL: all promises hold. Else which is broken. */
static const char *broken(struct day *d)
{
    const struct aw_arbiter_case *of = &d->of;
    double after[AW_POOLS] = {0}, before[AW_POOLS] = {0};
    for (uint32_t k = 0; k < of->workload_count; k++)
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            const double got = (double)d->grant[k].replicas * (double)d->shown[k].quantum[r];
            before[r] += (double)d->shown[k].holds[r];
            after[r] += fmax(got, (double)d->shown[k].holds[r]);
            if (d->grant[k].replicas < d->shown[k].replicas_floor && !d->grant[k].keeps &&
                d->grant[k].reason != AW_ARBITER_WAITING)
                return "below its floor";
        }
    for (uint32_t r = 0; r < AW_POOLS; r++)
        if (after[r] > fmax((double)of->capacity[r], before[r]) + 0.5)
            return "more was given than there is";
    for (uint32_t t = 0; t < TENANTS; t++) {
        const struct aw_arbiter_standing *s = &d->standing[t];
        const int64_t guarantee = guarantee_of(d, t);
        const int64_t due = s->asks[AW_POOL_CPU] < guarantee ? s->asks[AW_POOL_CPU] : guarantee;
        bool borrowed = false;
        for (uint32_t o = 0; o < TENANTS; o++)
            borrowed |= o != t && d->standing[o].gets[AW_POOL_CPU] > 4000 + guarantee_of(d, o);
        /* 1000 m is the largest replica: what is due may fall between two numbers of replicas */
        const bool below = s->gets[AW_POOL_CPU] + 1000 < due && borrowed && !d->lost;
        d->below[t] = below ? d->below[t] + 1 : 0;
        if (d->below[t] > WAIT_TICKS_MAX)
            return "below its guarantee while others borrow";
        /* it waits, while another one of its class or below has more than it is entitled to */
        bool starved = false;
        for (uint32_t o = 0; o < TENANTS && !d->lost; o++)
            starved |= o != t && s->gets[AW_POOL_CPU] + 1000 < s->target[AW_POOL_CPU] &&
                       d->tenant[o].terms.priority <= d->tenant[t].terms.priority &&
                       d->standing[o].gets[AW_POOL_CPU] > d->standing[o].target[AW_POOL_CPU] + 1000;
        d->lowest[t] = starved ? d->lowest[t] + 1 : 0;
        if (d->lowest[t] > WAIT_TICKS_MAX)
            return "starved";
        if (!(fabs(d->tenant[t].credit.credit) <= 1))
            return "credit out of range";
    }
    return NULL;
}

static void a_thousand_bad_days_break_nothing(void **state)
{
    (void)state;
    uint32_t bad = 0;
    uint64_t reclaimed = 0, waited = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct day d;
        begin(&d, seed);
        for (uint32_t tick = 0; tick < TICKS; tick++) {
            disturb(&d, tick);
            show(&d);
            aw_arbiter_run(&d.arbiter, &d.of, d.grant, d.standing);
            const char *what = broken(&d);
            if (what) {
                print_message("# seed %u, tick %u: %s\n", (unsigned)seed, tick, what);
                bad++;
                break;
            }
            for (uint32_t k = 0; k < d.of.workload_count; k++) {
                reclaimed += d.grant[k].reason == AW_ARBITER_RECLAIMED;
                waited += d.grant[k].reason == AW_ARBITER_WAITING;
            }
            obey(&d);
        }
        aw_arbiter_deinit(&d.arbiter);
    }
    print_message("# %u seeds: %u broken; %.1f reclaimed, %.1f waited of a day\n", SEEDS, bad,
                  (double)reclaimed / SEEDS, (double)waited / SEEDS);
    assert_int_equal(bad, 0);
    assert_true(reclaimed > 10 * SEEDS && waited > 10 * SEEDS); /* the days were bad */
}

AW_TEST_GROUP("arbiter-chaos")
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_bad_days_break_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
