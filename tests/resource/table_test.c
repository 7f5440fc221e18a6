/*
 * table_test.c - the rows of more.h in the tables that people look at: `get` and `top`, the rows of
 * `run`, and its CSV. A column for each of them where a workload has it, and none where nobody has.
 */
#include "cli/run.h"

#include "base/testing.h"
#include "base/units.h"
#include "frame/rows.h"

#include <stdlib.h>
#include <string.h>

static const char with[] =
    "{\"now\":\"2026-01-01T00:00:00Z\",\"workloads\":[{\"name\":\"default/"
    "a\",\"cpu_millicores\":500,"
    "\"memory_bytes\":268435456,\"disk_bytes_per_s\":67108864,\"clock_mhz\":1600},"
    "{\"name\":\"default/b\",\"cpu_millicores\":750,\"memory_bytes\":536870912}]}";
static const char without[] =
    "{\"now\":\"2026-01-01T00:00:00Z\",\"workloads\":[{\"name\":\"default/b\","
    "\"cpu_millicores\":750,\"memory_bytes\":536870912}]}";

/* The cell under `head` in line `row` of a table whose columns stand right; "": no such head. */
static const char *under(const char *table, const char *head, uint32_t row, char *buf, size_t size)
{
    const char *at = strstr(table, head), *line = table;
    buf[0] = '\0';
    if (!at || memchr(table, '\n', (size_t)(at - table)))
        return buf;
    const size_t end = (size_t)(at - table) + strlen(head);
    for (uint32_t i = 0; i < row; i++)
        line = strchr(line, '\n') + 1;
    size_t begin = end;
    while (begin > 0 && line[begin - 1] != ' ')
        begin--;
    snprintf(buf, size, "%.*s", (int)(end - begin), line + begin);
    return buf;
}

static char *table_of(const char *text)
{
    char *out = NULL;
    size_t len;
    struct aw_grid grid;
    json_t *list = json_loads(text, 0, NULL);
    FILE *file = open_memstream(&out, &len);
    assert_non_null(list);
    aw_rows_grid(list, &grid);
    const struct aw_grid_look look = {.wide = true, .heads = true, .end = "\n"};
    assert_ok(aw_grid_print(&grid, file, &look, NULL));
    fclose(file);
    json_decref(list);
    return out;
}

static void get_has_a_column_for_what_a_workload_has(void **state)
{
    (void)state;
    char buf[64];
    char *table = table_of(with);
    assert_string_equal(under(table, "CPU", 1, buf, sizeof buf), "500m");
    assert_string_equal(under(table, "MEMORY", 2, buf, sizeof buf), "512Mi");
    assert_string_equal(under(table, "DISK", 1, buf, sizeof buf), "64Mi");
    assert_string_equal(under(table, "DISK", 2, buf, sizeof buf), "-");
    assert_string_equal(under(table, "CLOCK", 1, buf, sizeof buf), "1600");
    assert_null(strstr(table, "HUGE")); /* nobody has it */
    free(table);
    table = table_of(without);
    assert_string_equal(under(table, "CPU", 1, buf, sizeof buf), "750m");
    assert_null(strstr(table, "DISK"));
    free(table);
}

static char *rows_of(const struct aw_daemon_config *ask, const struct aw__runrow *rows)
{
    char *out = NULL;
    size_t len;
    FILE *file = open_memstream(&out, &len);
    aw__runrows_head(file, ask);
    for (uint32_t i = 0; i < ask->count; i++)
        aw__runrows_episode(file, ask, &rows[i], 0);
    fclose(file);
    return out;
}

static void run_has_a_column_for_what_a_workload_is_bounded_in(void **state)
{
    (void)state;
    static struct aw_job_workload workload[2];
    static struct aw_daemon_config ask = {.workload = workload, .count = 2};
    static struct aw__runrow rows[2] = {
        {.name = "a",
         .stage = AW_STAGE_SERVING,
         .amount = {3, 500, 256 * AW_MIB, 64 * AW_MIB, 1600}},
        {.name = "b", .stage = AW_STAGE_SERVING, .amount = {3, 750, 512 * AW_MIB}}};
    char buf[64];
    snprintf(workload[0].pilot.name, sizeof workload[0].pilot.name, "default/a");
    snprintf(workload[1].pilot.name, sizeof workload[1].pilot.name, "default/b");
    char *table = rows_of(&ask, rows);
    assert_null(strstr(table, "DISK"));
    assert_string_equal(under(table, " CPU", 1, buf, sizeof buf), "500m");
    free(table);
    workload[0].pilot.bounds.disk_bytes_per_s_max = workload[0].pilot.bounds.clock_mhz_max = 1;
    table = rows_of(&ask, rows);
    assert_string_equal(under(table, "MEMORY", 2, buf, sizeof buf), "512Mi");
    assert_string_equal(under(table, "DISK", 1, buf, sizeof buf), "64Mi");
    assert_string_equal(under(table, "DISK", 2, buf, sizeof buf), "-");
    assert_string_equal(under(table, "CLOCK", 1, buf, sizeof buf), "1600");
    assert_null(strstr(table, "HUGE"));
    free(table);
    size_t len;
    FILE *file = open_memstream(&table, &len);
    aw__runlines_head(file, false, &ask, 1);
    fclose(file);
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        assert_non_null(strstr(table, aw_resource_table[r].member));
    free(table);
}

AW_TEST_GROUP("table")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_has_a_column_for_what_a_workload_has),
        cmocka_unit_test(run_has_a_column_for_what_a_workload_is_bounded_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
