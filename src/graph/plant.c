/* plant.c - the simulated world as a plant; see plant.h. */
#include "graph/plant.h"

static int64_t world_now(const void *self)
{
    return aw_graph_world_now(self);
}

static enum aw_err world_limit(void *self, uint32_t service, enum aw_graph_resource resource,
                               double limit)
{
    return aw_graph_world_limit(self, service, resource, limit);
}

static enum aw_err world_scale(void *self, uint32_t service, uint32_t replicas, bool fresh)
{
    return aw_graph_world_scale(self, service, replicas, fresh);
}

static enum aw_err world_stress(void *self, uint32_t service, const struct aw_graph_stress *stress)
{
    aw_graph_world_stress(self, service, stress);
    return AW_OK;
}

static double world_cores(const void *self)
{
    return aw_graph_world_cores(self);
}

static const struct aw_graph_plant_ops world_ops = {
    .name = "simulated",
    .now = world_now,
    .limit = world_limit,
    .scale = world_scale,
    .stress = world_stress,
    .cores = world_cores,
};

struct aw_graph_plant aw_graph_world_plant(struct aw_graph_world *world)
{
    return (struct aw_graph_plant){.ops = &world_ops, .self = world};
}
