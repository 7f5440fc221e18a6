/* read_internal.h - what the files of the CSV reader share. */
#ifndef AW_SIZING_READ_INTERNAL_H
#define AW_SIZING_READ_INTERNAL_H

#include "base/text.h"
#include "sizing/table.h"

#define AW__SIZE_HEADS_MAX 32u /* columns of a file */
#define AW__SIZE_COLUMNS   16u /* that name a workload or a configuration */
#define AW__SIZE_TIMES     4u
#define AW__SIZE_SLOTS     8192u /* of a table of names; a power of two, above twice the names */

struct aw__size_list {
    uint32_t at[AW__SIZE_COLUMNS]; /* columns */
    uint32_t count;
};

struct aw__size_time {
    const char *head;
    double unit; /* seconds; 0: no time */
};

/* A known format: heads of its columns. */
struct aw__size_format {
    const char *name;
    const char *needs[AW__SIZE_COLUMNS]; /* all must be there, and one of `time` */
    const char *set;
    const char *workload[AW__SIZE_COLUMNS];
    const char *group;
    char group_after; /* the group is what follows the first of these; 0: all of it */
    const char *config[AW__SIZE_COLUMNS];
    const char *context[AW__SIZE_COLUMNS];
    struct aw__size_time time[AW__SIZE_TIMES]; /* the first that is there */
    const char *cost;
    const char *good_column, *good; /* only such rows count */
    bool lambda;                    /* costs are AWS Lambda's */
    /* Workloads whose cell begins with `part` make a second table of their own. */
    const char *part_column, *part;
};

/* The same of the file at hand: column numbers; UINT32_MAX: there is none. */
struct aw__size_roles {
    char name[32];
    uint32_t set, group, time, cost, price, good, part;
    char group_after;
    double unit;
    const char *good_text, *part_text;
    bool lambda, clock, generic;
    struct aw__size_list workload, config, context;
};

struct aw__size_names {
    uint32_t count;
    uint32_t slot[AW__SIZE_SLOTS]; /* 1 + the number of a name; 0: free */
    char name[AW_SIZE_WORKLOADS_MAX][AW_SIZE_NAME_MAX];
};

struct aw__size_row {
    uint32_t set, workload, config;
    double time, cost;
};

struct aw__size_set {
    char name[AW_SIZE_NAME_MAX];
    struct aw__size_names *configs, *workloads, *groups;
    uint32_t group_of[AW_SIZE_WORKLOADS_MAX];
    uint32_t workload_line[AW_SIZE_WORKLOADS_MAX]; /* lines of cells where it was first seen */
    uint32_t config_line[AW_SIZE_CONFIGS_MAX];
    bool part[AW_SIZE_WORKLOADS_MAX];
    bool asked[AW_SIZE_WORKLOADS_MAX];
};

struct aw__size_read {
    const char *path;
    struct aw_csv_cell head[AW_CSV_CELLS_MAX];
    uint32_t head_count;
    struct aw__size_roles roles;
    uint32_t map[AW_CSV_CELLS_MAX]; /* of each head, the column of the file being read */
    bool asking;                    /* the file being read is the second */
    uint32_t line_count, line_max;  /* of cells: so far, and room */
    struct aw_csv_cell *cell;       /* line after line, head_count each */
    struct aw__size_row *row;
    uint32_t row_count;
    uint32_t set_count;
    struct aw__size_set set[AW_SIZE_SETS_MAX];
    uint32_t place[AW_SIZE_WORKLOADS_MAX];
};

/* "Memory Size (MB)" is memory_size: letters and digits count; what is in brackets is a unit. */
bool aw__size_alike(const struct aw_csv_cell *head, const char *name);
/* features.c: numbers of configurations and workloads out of their cells. */
void aw__size_features(const struct aw__size_read *read, const struct aw__size_set *set,
                       struct aw_size_table *table);
void aw__size_context(const struct aw__size_read *read, const struct aw__size_set *set,
                      const uint32_t *place, struct aw_size_table *table);

#endif
