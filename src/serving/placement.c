/* placement.c - clusters, AlpaServe's search, and grouping by likeness. */
#include "serving/placement.h"

#include <math.h>
#include <string.h>

#define OVERHEAD_S    0.011 /* mms: HTTP 2.5, dispatch 2.5, manager 5, and slack, in ms */
#define STAGE_COST    0.009 /* mms: of each stage, for each stage */
#define OP_COST       0.15  /* of each doubling of tensor parallelism: all-reduce over PCIe */
#define EMPTY_LIKE    0.5   /* distance to an empty device: less than to another class */
#define ADDITIONS_MAX 4096u

/* --- Alg. 6.1 --------------------------------------------------------------------------------- */

uint32_t aw_cluster(const double *score, uint32_t n, double threshold, uint32_t *cluster)
{
    uint32_t count = 0, size = 0;
    double mean = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && !(fabs(score[i] - mean) < threshold)) {
            count++;
            size = 0;
            mean = 0;
        }
        mean += (score[i] - mean) / ++size;
        cluster[i] = count;
    }
    return n ? count + 1 : 0;
}

/* Line by line: the head is in before the loop visits it again, the bracket takes the comparison
 * into abs(), the mean runs on into the next cluster, and the last cluster is not pushed. */
uint32_t aw_cluster_printed(const double *score, uint32_t n, double threshold, uint32_t *cluster)
{
    uint32_t count = 0, size = 1;
    double mean = n ? score[0] : 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool same = score[i] - mean < threshold; /* abs() of a truth is that truth */
        if (!same)
            count++;
        mean += (score[i] - mean) / ++size;
        cluster[i] = count;
    }
    for (uint32_t i = 0; i < n; i++)
        cluster[i] = cluster[i] == count ? UINT32_MAX : cluster[i];
    return count;
}

/* --- AlpaServe -------------------------------------------------------------------------------- */

double aw_place_stage_s(double latency_s, uint32_t op, uint32_t pp)
{
    const double parallel = latency_s / op * (1 + OP_COST * log2(op));
    return parallel / pp * (1 + STAGE_COST * (pp > 1 ? pp : 0));
}

void aw_place_simulate(const struct aw_place_problem *problem, struct aw_place *place,
                       uint64_t *ret_unserved, uint64_t *ret_handled)
{
    double clock[AW_PLACE_GROUPS_MAX][AW_PLACE_STAGES_MAX] = {0};
    double sum = 0;
    uint64_t served = 0;
    if (ret_unserved)
        memset(ret_unserved, 0, problem->models * sizeof *ret_unserved);
    if (ret_handled)
        memset(ret_handled, 0, place->groups * sizeof *ret_handled);
    for (uint32_t i = 0; i < problem->count; i++) {
        const uint32_t m = problem->model[i];
        uint32_t best = UINT32_MAX;
        for (uint32_t g = 0; g < place->groups; g++)
            if (place->models[g] >> m & 1 &&
                (best == UINT32_MAX || clock[g][place->pp - 1] < clock[best][place->pp - 1]))
                best = g;
        bool done = best != UINT32_MAX;
        if (done) {
            const double stage = aw_place_stage_s((double)problem->work_s[i], place->op, place->pp);
            double at = problem->arrival_s[i], next[AW_PLACE_STAGES_MAX];
            for (uint32_t k = 0; k < place->pp; k++)
                next[k] = at = fmax(at, clock[best][k]) + stage;
            at += OVERHEAD_S;
            done = at <= problem->arrival_s[i] + problem->slo_s[m];
            if (done) {
                memcpy(clock[best], next, place->pp * sizeof *next);
                sum += at - problem->arrival_s[i];
                served++;
                if (ret_handled)
                    ret_handled[best]++;
            }
        }
        if (!done && ret_unserved)
            ret_unserved[m]++;
    }
    place->attainment = problem->count ? (double)served / problem->count : 1;
    place->latency_s = served ? sum / (double)served : 0;
    place->score = place->attainment - place->latency_s / 1e4 + (double)place->replicas / 1e6;
    place->simulations++;
}

static double group_used(const struct aw_place_problem *problem, const struct aw_place *place,
                         uint32_t g)
{
    double used = 0;
    for (uint32_t m = 0; m < problem->models; m++)
        if (place->models[g] >> m & 1)
            used += problem->weights_gb[m] / (place->op * place->pp);
    return used;
}

/* The first pair of (most unserved model, least busy group) that is new and fits. */
static bool pair_add(const struct aw_place_problem *problem, struct aw_place *place,
                     const uint64_t *unserved, const uint64_t *handled)
{
    bool model_done[AW_FLEET_MODELS_MAX] = {false};
    for (uint32_t i = 0; i < problem->models; i++) {
        uint32_t m = UINT32_MAX;
        for (uint32_t k = 0; k < problem->models; k++)
            if (!model_done[k] && (m == UINT32_MAX || unserved[k] > unserved[m]))
                m = k;
        model_done[m] = true;
        bool group_done[AW_PLACE_GROUPS_MAX] = {false};
        for (uint32_t j = 0; j < place->groups; j++) {
            uint32_t g = UINT32_MAX;
            for (uint32_t k = 0; k < place->groups; k++)
                if (!group_done[k] && (g == UINT32_MAX || handled[k] < handled[g]))
                    g = k;
            group_done[g] = true;
            if (place->models[g] >> m & 1 ||
                group_used(problem, place, g) + problem->weights_gb[m] / (place->op * place->pp) >
                    problem->kind->memory_gb)
                continue;
            place->models[g] |= UINT64_C(1) << m;
            place->replicas++;
            return true;
        }
    }
    return false;
}

/* Every model once first: what is nowhere is unserved altogether, the largest first. */
static bool once_each(const struct aw_place_problem *problem, struct aw_place *place)
{
    bool done[AW_FLEET_MODELS_MAX] = {false};
    for (uint32_t i = 0; i < problem->models; i++) {
        uint32_t m = UINT32_MAX, best = UINT32_MAX;
        for (uint32_t k = 0; k < problem->models; k++)
            if (!done[k] && (m == UINT32_MAX || problem->weights_gb[k] > problem->weights_gb[m]))
                m = k;
        done[m] = true;
        for (uint32_t g = 0; g < place->groups; g++)
            if (group_used(problem, place, g) + problem->weights_gb[m] / (place->op * place->pp) <=
                    problem->kind->memory_gb &&
                (best == UINT32_MAX ||
                 group_used(problem, place, g) < group_used(problem, place, best)))
                best = g;
        if (best == UINT32_MAX)
            return false;
        place->models[best] |= UINT64_C(1) << m;
        place->replicas++;
    }
    return true;
}

enum aw_err aw_place_search(const struct aw_place_problem *problem, uint32_t pp_max,
                            struct aw_place *ret, struct aw_diag *diag)
{
    struct aw_place best = {.score = -INFINITY};
    uint32_t shapes = 0, simulations = 0;
    for (uint32_t op = 1; op <= AW_PLACE_OP_MAX && op <= problem->devices; op *= 2)
        for (uint32_t pp = 1; pp <= AW_PLACE_STAGES_MAX && op * pp <= problem->devices; pp *= 2) {
            uint64_t unserved[AW_FLEET_MODELS_MAX], handled[AW_PLACE_GROUPS_MAX];
            struct aw_place place = {.op = op, .pp = pp, .groups = problem->devices / (op * pp)};
            if (pp > pp_max || (pp_max == 1 && op > 1) || problem->devices % (op * pp))
                continue;
            shapes++;
            if (!once_each(problem, &place))
                continue;
            struct aw_place top = {.score = -INFINITY};
            for (uint32_t i = 0; i < ADDITIONS_MAX; i++) {
                aw_place_simulate(problem, &place, unserved, handled);
                if (place.score > top.score)
                    top = place;
                if (!pair_add(problem, &place, unserved, handled))
                    break;
            }
            simulations += place.simulations;
            if (top.score > best.score)
                best = top;
        }
    if (best.score == -INFINITY)
        return aw_fail(diag, AW_ERR_RANGE, "%u devices of %g GB do not hold the models",
                       problem->devices, problem->kind->memory_gb);
    best.shapes = shapes;
    best.simulations = simulations;
    *ret = best;
    return AW_OK;
}

/* --- likeness --------------------------------------------------------------------------------- */

/* Models in order of `trait`, replica after replica, each to the device with room that is most
 * like it. An empty device is nearer than one of another class, so that classes open their own. */
static enum aw_err by_trait(struct aw_fleet_world *world, const double *trait, double range,
                            const double *share, double spread, struct aw_diag *diag)
{
    double room[AW_FLEET_DEVICES_MAX], load[AW_FLEET_DEVICES_MAX] = {0},
                                       sum[AW_FLEET_DEVICES_MAX] = {0},
                                       weight[AW_FLEET_DEVICES_MAX] = {0}, total = 0;
    uint64_t placed[AW_FLEET_MODELS_MAX] = {0};
    uint32_t copies[AW_FLEET_MODELS_MAX], most = 0;
    for (uint32_t d = 0; d < world->devices; d++)
        room[d] = world->kind->memory_gb;
    for (uint32_t m = 0; m < world->models; m++) {
        copies[m] = (uint32_t)__builtin_popcountll(world->replicas[m]);
        most = copies[m] > most ? copies[m] : most;
        total += share[m];
    }
    for (uint32_t round = 0; round < most; round++) {
        bool done[AW_FLEET_MODELS_MAX] = {false};
        for (uint32_t i = 0; i < world->models; i++) {
            uint32_t m = UINT32_MAX, best = UINT32_MAX;
            double nearest = INFINITY;
            for (uint32_t k = 0; k < world->models; k++)
                if (!done[k] && (m == UINT32_MAX || trait[k] > trait[m]))
                    m = k;
            done[m] = true;
            const double part = share[m] / copies[m] / total * world->devices;
            for (uint32_t d = 0; d < world->devices && round < copies[m]; d++) {
                if (placed[m] >> d & 1 || room[d] < world->weights_gb[m])
                    continue;
                const double unlike =
                    weight[d] > 0 ? fabs(sum[d] / weight[d] - trait[m]) / range : EMPTY_LIKE;
                const double distance = (1 - spread) * unlike + spread * (load[d] + part);
                if (distance < nearest) {
                    nearest = distance;
                    best = d;
                }
            }
            if (best == UINT32_MAX && round == 0)
                return aw_fail(diag, AW_ERR_RANGE, "no device has room for model %u", m);
            if (best == UINT32_MAX)
                continue;
            placed[m] |= UINT64_C(1) << best;
            room[best] -= world->weights_gb[m];
            load[best] += part;
            sum[best] += part * trait[m];
            weight[best] += part;
        }
    }
    memcpy(world->replicas, placed, sizeof placed);
    return AW_OK;
}

enum aw_err aw_place_by_sensitivity(struct aw_fleet_world *world, const double *share,
                                    double spread, struct aw_diag *diag)
{
    double trait[AW_FLEET_MODELS_MAX];
    for (uint32_t m = 0; m < world->models; m++)
        trait[m] = 2 * (1 - world->memory[m]);
    return by_trait(world, trait, 2, share, spread, diag);
}

enum aw_err aw_place_by_latency(struct aw_fleet_world *world, const double *share, double spread,
                                struct aw_diag *diag)
{
    double trait[AW_FLEET_MODELS_MAX], low = INFINITY, high = -INFINITY;
    for (uint32_t m = 0; m < world->models; m++) {
        trait[m] = log(world->slo_s[m]);
        low = fmin(low, trait[m]);
        high = fmax(high, trait[m]);
    }
    return by_trait(world, trait, fmax(high - low, 1e-9), share, spread, diag);
}
