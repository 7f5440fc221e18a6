/* mesh_plant.c - what a mesh shows and takes: readings, limits, replicas, stress. */
#include "mesh/mesh_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"

#define CHANGED 0.02 /* of a stressor's amount: less is the same */
#define RESCTRL "/sys/fs/resctrl/schemata"
#define NO_RESCTRL \
    "this machine has no resctrl (" RESCTRL "): nobody can see or set what a group takes of it"

/* --- looked at -------------------------------------------------------------------------------- */

static double known(struct aw_figure figure)
{
    return figure.at_us == AW_NEVER || !isfinite(figure.value) ? 0 : figure.value;
}

static double share(double used, double limit, uint32_t replicas)
{
    return limit > 0 && replicas ? fmin(1, used / (limit * replicas)) : 0;
}

void aw_mesh_read(struct aw_mesh *mesh, struct aw_graph_reading *ret)
{
    for (uint32_t s = 0; s < mesh->app->service_count; s++) {
        const struct aw__mesh_service *service = &mesh->service[s];
        struct aw_sample sample;
        ret[s] = (struct aw_graph_reading){.replicas = service->replicas};
        memcpy(ret[s].limit, service->limit, sizeof ret[s].limit);
        if (mesh->cluster.ops->observe(mesh->cluster.self, service->workload, INT64_MAX, &sample))
            continue; /* it is there: services are never removed */
        const uint32_t replicas = (uint32_t)sample.replicas_ready;
        ret[s].replicas = replicas;
        ret[s].use[AW_GRAPH_CPU] =
            share(known(sample.cpu_cores_used), service->limit[AW_GRAPH_CPU], replicas);
        ret[s].throttled = known(sample.throttled_share);
        ret[s].stall[AW_GRAPH_CPU] = ret[s].throttled;
        if (!*mesh->actuators.why[AW_GRAPH_DISK])
            ret[s].use[AW_GRAPH_DISK] =
                share(known(sample.disk_bytes_per_s), service->limit[AW_GRAPH_DISK], replicas);
        ret[s].use[AW_GRAPH_NET] =
            share(known(sample.net_bytes_per_s), service->limit[AW_GRAPH_NET], replicas);
        /* those that have ended: spans come of no others */
        ret[s].visits_per_s = known(sample.completions_per_s);
    }
}

void aw__mesh_probe(struct aw_mesh *mesh)
{
    struct aw_diag diag = {0};
    char(*why)[AW_DIAG_TEXT_MAX] = mesh->actuators.why;
    if (aw_local_probe_disk(mesh->local, &diag))
        snprintf(why[AW_GRAPH_DISK], AW_DIAG_TEXT_MAX, "%s", diag.text);
    snprintf(why[AW_GRAPH_MEMORY], AW_DIAG_TEXT_MAX, "%s", NO_RESCTRL);
    snprintf(why[AW_GRAPH_LLC], AW_DIAG_TEXT_MAX, "%s", NO_RESCTRL);
    if (access(RESCTRL, F_OK) == 0)
        for (uint32_t r = AW_GRAPH_MEMORY; r <= AW_GRAPH_LLC; r++)
            snprintf(why[r], AW_DIAG_TEXT_MAX,
                     "this machine has resctrl, which replicas are not placed in yet");
}

/* --- orders ----------------------------------------------------------------------------------- */

static int64_t plant_now(const void *self)
{
    return 1000 * aw__mesh_now_us(self);
}

static enum aw_err plant_limit(void *self, uint32_t s, enum aw_graph_resource resource,
                               double limit)
{
    struct aw_mesh *mesh = self;
    const struct aw_graph_service *its = &mesh->app->services[s];
    struct aw__mesh_service *service = &mesh->service[s];
    enum aw_err err = AW_OK;
    if (!(limit >= its->low[resource] * 0.999 && limit <= its->high[resource] * 1.001))
        return AW_ERR_RANGE;
    if (*mesh->actuators.why[resource])
        return AW_ERR_UNSUPPORTED;
    if (resource == AW_GRAPH_CPU) {
        if (limit > (double)aw_threads_cpu_count())
            return AW_ERR_LIMIT; /* another replica would have no other cores */
        const struct aw_plan plan = {.set = AW_PLAN_CPU, .cpu_millicores = llround(1e3 * limit)};
        err = mesh->cluster.ops->apply(mesh->cluster.self, service->workload, &plan, INT64_MAX);
    } else if (resource == AW_GRAPH_DISK) {
        err = aw_local_limit_disk(mesh->local, service->workload, llround(limit));
    } else {
        aw_local_limit_network(mesh->local, service->workload, llround(limit));
    }
    if (!err)
        service->limit[resource] = limit;
    return err;
}

static enum aw_err plant_scale(void *self, uint32_t s, uint32_t replicas, bool fresh)
{
    struct aw_mesh *mesh = self;
    struct aw__mesh_service *service = &mesh->service[s];
    if (fresh)
        return AW_ERR_UNSUPPORTED;
    if (replicas == 0 || replicas > AW__MESH_REPLICAS_MAX)
        return AW_ERR_RANGE;
    const struct aw_plan plan = {.set = AW_PLAN_REPLICAS, .replicas = (int32_t)replicas};
    const enum aw_err err =
        mesh->cluster.ops->apply(mesh->cluster.self, service->workload, &plan, INT64_MAX);
    if (!err)
        service->replicas = replicas;
    return err;
}

static double plant_cores(const void *self)
{
    const struct aw_mesh *mesh = self;
    double sum = 0;
    for (uint32_t s = 0; s < mesh->app->service_count; s++)
        sum += mesh->service[s].replicas * mesh->service[s].limit[AW_GRAPH_CPU];
    return sum;
}

/* --- stress ----------------------------------------------------------------------------------- */

static void stressor_end(struct aw__mesh_stressor *stressor)
{
    for (uint32_t i = 0; i < stressor->count; i++)
        aw_local_leave(stressor->pid[i]);
    *stressor = (struct aw__mesh_stressor){0};
}

void aw__mesh_stress_end(struct aw_mesh *mesh)
{
    for (uint32_t s = 0; s < mesh->app->service_count; s++)
        for (uint32_t k = 0; k < AW__MESH_STRESSES; k++)
            stressor_end(&mesh->service[s].stressor[k]);
}

/* Those who have ended by themselves are forgotten. */
static void stressor_look(struct aw__mesh_stressor *stressor)
{
    int status;
    for (uint32_t i = 0; i < stressor->count;) {
        if (aw_local_left(stressor->pid[i], &status))
            stressor->pid[i] = stressor->pid[--stressor->count];
        else
            i++;
    }
    if (!stressor->count)
        stressor->amount = 0;
}

static enum aw_err stressor_begin(struct aw_mesh *mesh, uint32_t s, enum aw__mesh_stress kind,
                                  double amount, struct aw_diag *diag)
{
    static const char *const names[AW__MESH_STRESSES] = {"cpu",  "memory",  "llc",
                                                         "disk", "network", "visits"};
    struct aw__mesh_service *service = &mesh->service[s];
    struct aw__mesh_stressor *stressor = &service->stressor[kind];
    char text[32], at[32], life[32];
    /* who only asks takes of its victim what the balancer counts: it has no place in the group */
    const bool outside = kind == AW__MESH_STRESS_NET || kind == AW__MESH_STRESS_VISITS;
    const double each = kind == AW__MESH_STRESS_NET ? amount * service->replicas : amount;
    snprintf(text, sizeof text, "%.6g", each);
    snprintf(at, sizeof at, "127.0.0.1:%u", (unsigned)aw_mesh_port(mesh, s));
    snprintf(life, sizeof life, "%.0fs", 1e-6 * (double)AW_MESH_STRESS_US);
    const char *const command[] = {mesh->program, "stress",       "--kind", names[kind], "--amount",
                                   text,          "--for",        life,     "--at",      at,
                                   "--temp",      mesh->temp_dir, NULL};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < AW__MESH_REPLICAS_MAX && !err; i++) {
        err = aw_local_join(mesh->local, service->workload, outside ? AW_LOCAL_OUTSIDE : i, command,
                            &stressor->pid[stressor->count], diag);
        stressor->count += !err;
        if (outside)
            break;
    }
    if (err == AW_ERR_NOTFOUND && stressor->count)
        err = AW_OK; /* that were all replicas */
    stressor->amount = stressor->count ? amount : 0;
    return err;
}

static enum aw_err stressor_set(struct aw_mesh *mesh, uint32_t s, enum aw__mesh_stress kind,
                                double amount, struct aw_diag *diag)
{
    struct aw__mesh_stressor *stressor = &mesh->service[s].stressor[kind];
    stressor_look(stressor);
    if (fabs(amount - stressor->amount) <= CHANGED * amount)
        return AW_OK;
    stressor_end(stressor);
    return amount > 0 ? stressor_begin(mesh, s, kind, amount, diag) : AW_OK;
}

static enum aw_err plant_stress(void *self, uint32_t s, const struct aw_graph_stress *stress)
{
    struct aw_mesh *mesh = self;
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    const double wanted[AW__MESH_STRESSES] = {
        stress->amount[AW_GRAPH_CPU], stress->amount[AW_GRAPH_MEMORY],
        stress->amount[AW_GRAPH_LLC], stress->amount[AW_GRAPH_DISK],
        stress->amount[AW_GRAPH_NET], stress->extra_per_s};
    if (stress->delay_us > 0)
        err = aw_fail(&diag, AW_ERR_UNSUPPORTED, "packets of a service cannot be delayed here");
    for (uint32_t k = 0; k < AW__MESH_STRESSES; k++) {
        struct aw_diag why = {0};
        const enum aw_err its = stressor_set(mesh, s, (enum aw__mesh_stress)k, wanted[k], &why);
        if (its && !err) {
            err = its;
            diag = why;
        }
    }
    snprintf(mesh->trouble, sizeof mesh->trouble, "%s", err ? diag.text : "");
    return err;
}

static const struct aw_graph_plant_ops plant_ops = {
    .name = "real processes",
    .now = plant_now,
    .limit = plant_limit,
    .scale = plant_scale,
    .stress = plant_stress,
    .cores = plant_cores,
};

struct aw_graph_plant aw_mesh_plant(struct aw_mesh *mesh)
{
    return (struct aw_graph_plant){.ops = &plant_ops, .self = mesh};
}
