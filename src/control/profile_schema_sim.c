/* profile_schema_sim.c - the fields of what stands for a workload and a cluster in a simulation. */
#include "control/profile_internal.h"
#include "control/profile_table.h"

static const struct aw_schema_field app_metadata[] = {
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     A(app.name),
     .help = "the name of the target that it stands for"},
    {.name = "namespace",
     .type = AW_SCHEMA_NAME,
     A(app.namespace),
     .initial = "default",
     .help = NAMESPACE_HELP},
    METADATA_OF_SERVER,
    {0},
};

static const struct aw_schema_field cluster_metadata[] = {
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     C(name),
     .help = "a name for people"},
    IGNORED("namespace", "not read: there is one cluster for all"),
    METADATA_OF_SERVER,
    {0},
};

/* --- SimulatedApplication ---------------------------------------------------------------------
 */

static const struct aw_schema_field app_app_fields[] = {
    {.name = "seed",
     .type = AW_SCHEMA_U64,
     A(seed),
     .initial = "1",
     .help = "pool of generated applications ('aware apps describe')"},
    {.name = "index",
     .type = AW_SCHEMA_U32,
     A(index),
     .initial = "0",
     .help = "which application of the pool"},
    {.name = "segments",
     .type = AW_SCHEMA_ANY_LIST,
     .help = "instead of seed and index: 1 to 6 segments that every request passes, each with a "
             "kind and what differs from it, as in a file of 'aware apps generate'"},
    {.name = "kinds",
     .type = AW_SCHEMA_ANY_LIST,
     .help = "kinds of segments of one's own, with name, cpu, io, memory and so on"},
    {0},
};
static const struct aw_schema_field app_load_fields[] = {
    {.name = "source",
     .type = AW_SCHEMA_TEXT,
     A(app.load),
     .initial = "diurnal",
     .help = "a pattern (diurnal:mean=50/s,peak=4) or a trace (FILE:top=2, beside this file), as "
             "'aware load show' takes it"},
    {.name = "cores",
     .type = AW_SCHEMA_REAL,
     A(app.load_cores),
     RANGE(0, 10000),
     .initial = "2",
     .help = "cores that the mean of a load without a rate keeps busy; 0: as it is written"},
    {.name = "seed",
     .type = AW_SCHEMA_U64,
     A(app.load_seed),
     .initial = "1",
     .help = "of what is left to chance in a pattern"},
    {0},
};
static const struct aw_schema_field app_start_fields[] = {
    {.name = "replicas",
     .type = AW_SCHEMA_U32,
     A(app.replicas),
     RANGE(0, AW_CLUSTER_PODS_MAX),
     .initial = "0",
     .help = "replicas to begin with; 0: for twice the mean load"},
    {.name = "cpu",
     .type = AW_SCHEMA_CPU,
     A(app.cpu_millicores),
     RANGE(1, 1024000),
     .help = "CPU of a replica to begin with; one core where nothing is said"},
    {.name = "memory",
     .type = AW_SCHEMA_MEMORY,
     A(app.memory_bytes),
     RANGE(MIB, TIB),
     .help = "memory of a replica to begin with; from the application where nothing is said"},
    {0},
};
static const struct aw_schema_field app_spec_fields[] = {
    {.name = "app", .type = AW_SCHEMA_OBJECT, .help = "what runs", .fields = app_app_fields},
    {.name = "load",
     .type = AW_SCHEMA_OBJECT,
     .help = "the requests that arrive",
     .fields = app_load_fields},
    {.name = "scenarios",
     .type = AW_SCHEMA_ANY,
     .help = "disturbances: a list of {scenario, at, for}, or text as 'file-size@30m+10m'"},
    {.name = "start",
     .type = AW_SCHEMA_OBJECT,
     .help = "how it begins",
     .fields = app_start_fields},
    {0},
};
const struct aw_schema_field aw__app_fields[] = {
    TYPE_META,
    {.name = "metadata",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "name of the target that it stands for",
     .fields = app_metadata},
    {.name = "spec",
     .type = AW_SCHEMA_OBJECT,
     .help = "application, load and disturbances",
     .fields = app_spec_fields},
    IGNORED("status", "not read"),
    {0},
};

/* --- SimulatedCluster -------------------------------------------------------------------------
 */

static const char *const fault_kinds[] = {"node", "metrics", "api", NULL};

#define F(member) AT(aw_profile_fault, member)
static const struct aw_schema_field fault_fields[] = {
    {.name = "kind",
     .type = AW_SCHEMA_CHOICE,
     .flags = AW_SCHEMA_REQUIRED,
     F(kind),
     .choices = fault_kinds,
     .help = "what fails: a node, the metrics, or the API that changes things"},
    {.name = "node",
     .type = AW_SCHEMA_U32,
     F(node),
     RANGE(0, AW_SIM_NODES_MAX - 1),
     .initial = "0",
     .help = "which node, from 0"},
    {.name = "at",
     .type = AW_SCHEMA_DURATION,
     .flags = AW_SCHEMA_REQUIRED,
     F(at_us),
     RANGE(0, 366 * DAY),
     .help = "when it begins, from the beginning of the run"},
    {.name = "for",
     .type = AW_SCHEMA_DURATION,
     .flags = AW_SCHEMA_REQUIRED,
     F(duration_us),
     RANGE(1, 366 * DAY),
     .help = "how long it lasts"},
    {0},
};
static const struct aw_schema_field cluster_spec_fields[] = {
    {.name = "seed",
     .type = AW_SCHEMA_U64,
     C(seed),
     .initial = "1",
     .help = "seed of all that is left to chance on the cluster"},
    {.name = "faults",
     .type = AW_SCHEMA_LIST,
     .offset = offsetof(struct aw_profile_cluster, fault),
     .size = sizeof(struct aw_profile_fault),
     .count_offset = offsetof(struct aw_profile_cluster, fault_count),
     .count_max = AW_PROFILE_FAULTS_MAX,
     .help = "what fails, and when",
     .fields = fault_fields},
    {0},
};
const struct aw_schema_field aw__cluster_fields[] = {
    TYPE_META,
    {.name = "metadata",
     .type = AW_SCHEMA_OBJECT,
     .help = "a name for people",
     .fields = cluster_metadata},
    {.name = "spec",
     .type = AW_SCHEMA_OBJECT,
     .offset = offsetof(struct aw_profile_cluster, sim),
     .help = "nodes, delays, faults",
     .fields = cluster_spec_fields,
     .conf = aw_sim_fields},
    IGNORED("status", "not read"),
    {0},
};
