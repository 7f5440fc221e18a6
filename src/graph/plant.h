/*
 * plant.h - a running application that is a graph of services, as those see it who give orders:
 * simulated (world.h) or as real processes of a machine.
 *
 * Contract of every kind:
 *   now    of its own time, in nanoseconds.
 *   limit  of one replica. AW_ERR_RANGE: below or beyond what the service may have. AW_ERR_LIMIT:
 *          there is not that much left. AW_ERR_UNSUPPORTED: nobody can set it here. Then nothing is
 *          changed.
 *   scale  AW_ERR_RANGE, AW_ERR_LIMIT, AW_ERR_UNSUPPORTED (`fresh`) likewise.
 *   stress what an injector does; zeros end it. AW_ERR_UNSUPPORTED: not here, and nothing is done.
 *   cores  that CPU limits sum to.
 *
 * Memory and threads: the kind's own.
 */
#ifndef AW_GRAPH_PLANT_H
#define AW_GRAPH_PLANT_H

#include "graph/world.h"

struct aw_graph_plant_ops {
    const char *name;
    int64_t (*now)(const void *self);
    enum aw_err (*limit)(void *self, uint32_t service, enum aw_graph_resource resource,
                         double limit);
    enum aw_err (*scale)(void *self, uint32_t service, uint32_t replicas, bool fresh);
    enum aw_err (*stress)(void *self, uint32_t service, const struct aw_graph_stress *stress);
    double (*cores)(const void *self);
};

struct aw_graph_plant {
    const struct aw_graph_plant_ops *ops;
    void *self;
};

struct aw_graph_plant aw_graph_world_plant(struct aw_graph_world *world);

#endif
