/* mesh_internal.h - what the files of the mesh share. */
#ifndef AW_MESH_MESH_INTERNAL_H
#define AW_MESH_MESH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "load/drive.h"
#include "mesh/mesh.h"
#include "trace/receiver.h"

#define AW__MESH_PATH_MAX     512u
#define AW__MESH_SPANS        (1u << 16) /* that may come between two steps */
#define AW__MESH_REPLICAS_MAX AW_GRAPH_SCALE_MAX

enum aw__mesh_stress {
    AW__MESH_STRESS_CPU,
    AW__MESH_STRESS_MEMORY,
    AW__MESH_STRESS_LLC,
    AW__MESH_STRESS_DISK,
    AW__MESH_STRESS_NET,
    AW__MESH_STRESS_VISITS,
    AW__MESH_STRESSES
};

struct aw__mesh_stressor {
    double amount; /* that runs; 0: none */
    uint32_t count;
    int pid[AW__MESH_REPLICAS_MAX];
};

struct aw__mesh_service {
    uint32_t workload; /* of the local cluster */
    bool started;
    double limit[AW_GRAPH_RESOURCES]; /* as ordered */
    uint32_t replicas;
    struct aw__mesh_stressor stressor[AW__MESH_STRESSES];
};

struct aw__mesh_load { /* of one type of request */
    struct aw_mesh *mesh;
    struct aw_drive_config config;
    struct aw_drive_result result;
    double slo_us;
    uint64_t failed_before;
    enum aw_err err;
    struct aw_diag diag;
    pthread_t thread;
    bool made;
};

struct aw_mesh {
    struct aw_mesh_config config;
    const struct aw_graph_app *app;
    char program[AW__MESH_PATH_MAX], temp_dir[AW__MESH_PATH_MAX];
    struct aw_local_settings settings;
    struct aw_local *local;
    struct aw_cluster cluster;
    int64_t begin_us; /* monotonic: the mesh's time 0 */
    struct aw__mesh_service service[AW_GRAPH_SERVICES_MAX];
    struct aw_mesh_actuators actuators;
    char trouble[AW_DIAG_TEXT_MAX];

    struct aw_collector *collector;
    struct aw_receiver *receiver;
    pthread_mutex_t lock; /* of what follows */
    struct aw_names names;
    struct aw_span *span[2]; /* [AW__MESH_SPANS]: one is filled, one is looked at */
    int64_t *arrived_us[2];
    uint32_t filled, span_count;
    uint64_t spans_dropped;
    uint64_t requests, missed; /* ever */

    uint64_t requests_told, missed_told;
    _Atomic bool load_stop;
    struct aw__mesh_load load[AW_GRAPH_TYPES_MAX];
};

int64_t aw__mesh_now_us(const struct aw_mesh *mesh);
/* plant.c */
void aw__mesh_stress_end(struct aw_mesh *mesh);
void aw__mesh_probe(struct aw_mesh *mesh);

#endif
