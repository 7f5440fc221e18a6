/*
 * pursuit.c - whose the excess of calls is: see localize.h, and docs/algorithms/localization.md.
 *
 * A service has four groups of edges: those that come in and those that go out, each before and
 * after the server. Where a group's mean excess is m over n calls, taking it away lowers the sum of
 * squares by n m^2: that is the gain. The gain of a service is that of its four groups.
 */
#include "trace/localize_internal.h"

#define ROUNDS_MAX 8u    /* services to blame at once */
#define GAIN_MIN   0.01  /* of the sum of squares: less is noise */
#define CALLEE     1.001 /* what both ends explain equally well is the callee's */
#define LEVEL_MAX  2.0   /* of a group's level an edge may be given */

struct group {
    double calls, sum; /* of calls x excess */
};

struct pursuit {
    struct aw__edges *edges;
    struct group *groups; /* [services][4]: role (out, in) x side */
    double *left;         /* [edges][2] */
    double *given;        /* [edges][2]: to the caller, to the callee */
    uint32_t services;
};

static uint32_t group_of(uint32_t service, uint32_t role, uint32_t side)
{
    return 4 * service + 2 * role + side;
}

static void sum_groups(struct pursuit *pursuit)
{
    for (uint32_t i = 0; i < 4 * pursuit->services; i++)
        pursuit->groups[i] = (struct group){0};
    for (uint32_t i = 0; i < pursuit->edges->count; i++) {
        const struct aw__edge *edge = &pursuit->edges->at[i];
        const uint32_t ends[2] = {edge->caller, edge->callee};
        for (uint32_t role = 0; role < 2; role++) {
            for (uint32_t side = 0; side < 2; side++) {
                struct group *group = &pursuit->groups[group_of(ends[role], role, side)];
                group->calls += edge->calls;
                group->sum += edge->calls * pursuit->left[2 * i + side];
            }
        }
    }
}

static double level_of(const struct group *group)
{
    return group->calls > 0 ? group->sum / group->calls : 0;
}

static double gain_of(const struct pursuit *pursuit, uint32_t service)
{
    double gain = 0;
    for (uint32_t role = 0; role < 2; role++) {
        for (uint32_t side = 0; side < 2; side++) {
            const struct group *group = &pursuit->groups[group_of(service, role, side)];
            gain += (role ? CALLEE : 1) * group->calls * level_of(group) * level_of(group);
        }
    }
    return gain;
}

static void give(struct pursuit *pursuit, uint32_t service)
{
    for (uint32_t i = 0; i < pursuit->edges->count; i++) {
        const struct aw__edge *edge = &pursuit->edges->at[i];
        if (edge->caller != service && edge->callee != service)
            continue;
        const uint32_t role = edge->callee == service;
        for (uint32_t side = 0; side < 2; side++) {
            const double most =
                LEVEL_MAX * level_of(&pursuit->groups[group_of(service, role, side)]);
            double *left = &pursuit->left[2 * i + side];
            const double taken = *left < most ? *left : most;
            pursuit->given[2 * i + role] += taken;
            *left -= taken;
        }
    }
}

enum aw_err aw__pursue(struct aw__edges *edges, uint32_t service_count,
                       const struct aw_alloc *alloc)
{
    struct pursuit pursuit = {.edges = edges, .services = service_count};
    double squares = 0;
    enum aw_err err = AW_OK;
    pursuit.groups = aw_alloc_new(alloc, 4 * (size_t)service_count + 1, sizeof *pursuit.groups);
    pursuit.left = aw_alloc_new(alloc, 2 * (size_t)edges->count + 1, sizeof *pursuit.left);
    pursuit.given = aw_alloc_new(alloc, 2 * (size_t)edges->count + 1, sizeof *pursuit.given);
    if (!pursuit.groups || !pursuit.left || !pursuit.given) {
        err = AW_ERR_NOMEM;
        goto out;
    }
    for (uint32_t i = 0; i < edges->count; i++) {
        const struct aw__edge *edge = &edges->at[i];
        for (uint32_t side = 0; side < 2; side++) {
            pursuit.left[2 * i + side] = edge->excess_ns[side];
            squares += edge->calls * edge->excess_ns[side] * edge->excess_ns[side];
        }
    }
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        uint32_t best = 0;
        double gain = 0;
        sum_groups(&pursuit);
        for (uint32_t i = 0; i < service_count; i++) {
            const double its = gain_of(&pursuit, i);
            best = its > gain ? i : best;
            gain = its > gain ? its : gain;
        }
        if (!(gain > GAIN_MIN * squares))
            break;
        give(&pursuit, best);
    }
    for (uint32_t i = 0; i < edges->count; i++) {
        const double caller = pursuit.given[2 * i];
        const double callee =
            pursuit.given[2 * i + 1] + pursuit.left[2 * i] + pursuit.left[2 * i + 1];
        edges->at[i].callers_share = caller + callee > 0 ? caller / (caller + callee) : 0;
    }
out:
    aw_alloc_free(alloc, pursuit.groups);
    aw_alloc_free(alloc, pursuit.left);
    aw_alloc_free(alloc, pursuit.given);
    return err;
}
