/* read_test.c - measurements out of CSV: every known format, a generic one, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/testing.h"
#include "sizing/table.h"

static char path[] = "/tmp/aware-size-XXXXXX";

static const char *written(const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    return path;
}

static void read_ok(const char *text, struct aw_size_tables *tables)
{
    struct aw_diag diag = {0};
    const enum aw_err err = aw_size_read(written(text), tables, &diag);
    if (err)
        fail_msg("%s:%u %s", diag.file, diag.line, diag.text);
}

static void every_known_format_is_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *text, *set, *group, *config;
        uint32_t workloads, groups;
        double seconds; /* of the first workload on the first configuration */
    } cases[] = {
        {"provider,A_family,A_vcpu,B_family,B_vcpu,C_family,C_type,C_vcpu,nodes,workload,"
         "target_cost,target_runtime,status\n"
         "C,,,,,1,1,1,3,buzz-kmeans,0.02,188,ok\nA,1,0,,,,,,2,buzz-kmeans,0.01,90,ok\n"
         "A,1,0,,,,,,2,santander-kmeans,0.01,,\"Timed, out\"\n",
         "multi-cloud", "kmeans", "C 1 1 1 3", 1, 1, 188},
        {"set,nodes,vm_type,workload,framework,datasize,repetition,completed,input_size,"
         "elapsed_time\n"
         "one,10,c4.2xlarge,lr,spark,huge,1,True,480,41\none,10,r3.large,lr,spark,huge,1,True,480,"
         "60\none,10,r3.large,lr,spark,big,1,False,480,60\n",
         "one", "lr", "10 c4.2xlarge", 1, 1, 41},
        {"set,function,memory_mb,repetition,duration_p50\nsynthetic,f,128,0,30\nsynthetic,f,256,0,"
         "20\n",
         "functions", "f", "128", 1, 1, 0.03},
        {"work,runtime,architecture,memory_mb,duration_ms\ns3,rust,arm64,128,10\n"
         "s3,rust,arm64,128,30\ns3,rust,arm64,128,20\ns3,rust,arm64,256,5\n",
         "lambda-runtimes", "rust", "128", 1, 1, 0.02},
        {"Function,Memory Size,Duration\nf1,3008,800\nf1,128,9000\nf2,128,9000\n", "lambda-logs",
         "f1", "3008", 2, 2, 0.8},
        {"workload,cpus,disk,time_ms\r\na,1,ssd,1000\r\na,2,hdd,500\r\nb,2,hdd,\r\n", "csv", "a",
         "cpus=1 disk=ssd", 2, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_size_tables tables;
        read_ok(cases[i].text, &tables);
        assert_int_equal(tables.count, 1);
        const struct aw_size_table *table = &tables.table[0];
        assert_string_equal(table->set, cases[i].set);
        assert_string_equal(table->group[0], cases[i].group);
        assert_string_equal(table->config[0].name, cases[i].config);
        assert_int_equal(table->workload_count, cases[i].workloads);
        assert_int_equal(table->config_count, 2);
        assert_close(exp(table->time[0]), cases[i].seconds, 1e-9);
        assert_true(table->feature_count > 0);
        aw_size_tables_deinit(&tables);
    }
}

/* Spreadsheets change separators, the case of heads and their units; the figures stay. */
static void a_table_may_be_written_in_other_ways(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds; /* of the first workload on the first configuration */
    } cases[] = {
        {"Function;MEMORY_MB;Duration P50\nf;128;30\nf;256;20\n", 0.03},
        {"function\tmemory_mb\tduration_mean\nf\t128\t30\nf\t256\t20\n", 0.03},
        {"function,memory_size_(MB),duration_(ms)\nf,128,30\nf,256,20\n", 0.03},
        {"Function,Memory Size,Duration (s)\nf,128,30\nf,256,20\n", 30},
        {"memory_mb,runtime,duration_ms\n128,rust,30\n256,rust,20\n", 0.03},
        {"vm_type,workload,framework,elapsed_time\nc4.large,lr,spark,30\nr4.large,lr,spark,9\n",
         30},
        {"provider,nodes,workload,target_runtime\nA,2,buzz-lr,30\nA,3,buzz-lr,9\n", 30},
        {"function,size,time\nf,128,NaN\nf,128,30\nf,256,n/a\nf,256,20\n", 30},
        {"workload,cpus,status,time\nf,1,OK,30\nf,2,Ok,20\nf,2,failed,1\n", 30},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_size_tables tables;
        read_ok(cases[i].text, &tables);
        const struct aw_size_table *table = &tables.table[0];
        assert_int_equal(table->config_count, 2);
        assert_int_equal(table->workload_count, 1);
        assert_close(exp(table->time[0]), cases[i].seconds, 1e-9);
        assert_true(exp(table->time[1]) < cases[i].seconds);
        assert_int_equal(table->memory, i < 5); /* then physics can be asked */
        aw_size_tables_deinit(&tables);
    }
}

/* The same table, packed: the reader unpacks it. */
static void a_table_may_be_gzip(void **state)
{
    (void)state;
    struct aw_size_tables tables;
    struct aw_diag diag = {0};
    static const char text[] = "workload,cpus,time\nf,1,30\nf,2,20\n";
    gzFile out = gzopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(gzwrite(out, text, sizeof text - 1), sizeof text - 1);
    gzclose(out);
    assert_ok(aw_size_read(path, &tables, &diag));
    assert_close(exp(tables.table[0].time[1]), 20, 1e-9);
    aw_size_tables_deinit(&tables);
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        uint32_t line;
        const char *why;
    } cases[] = {
        {"", AW_ERR_FORMAT, 1, "nothing at all"},
        {"time,cpus\n1,2\n", AW_ERR_FORMAT, 1, "no workload"},
        {"workload,cpus\na,2\n", AW_ERR_FORMAT, 1, "no time"},
        {"workload,time\na,2\n", AW_ERR_FORMAT, 1, "no configuration"},
        {"workload,cpus,time\na,1,5\na,2\n", AW_ERR_FORMAT, 3, "a cell is missing"},
        {"workload,cpus,time\na,1,5\na,2,-5\n", AW_ERR_FORMAT, 3, "a time below 0"},
        {"workload,cpus,time\na,1,fast\n", AW_ERR_FORMAT, 2, "a time that is none"},
        {"workload,cpus,time\n,1,7\n", AW_ERR_FORMAT, 2, "a workload without a name"},
        {"function,memory_mb,duration_p50\nf,,5\n", AW_ERR_FORMAT, 2, "no configuration's cell"},
        {"workload,cpus,time\na,1,5\n", AW_ERR_NODATA, 0, "one configuration"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_size_tables tables;
        struct aw_diag diag = {0};
        assert_int_equal(aw_size_read(written(cases[i].text), &tables, &diag), cases[i].err);
        if (diag.line != cases[i].line)
            fail_msg("%s: line %u", cases[i].why, diag.line);
        assert_true(*diag.text);
    }
}

static void a_second_file_may_have_its_columns_in_another_order(void **state)
{
    (void)state;
    char other[] = "/tmp/aware-size-XXXXXX";
    struct aw_size_tables tables;
    struct aw_diag diag = {0};
    const int fd = mkstemp(other);
    assert_true(fd >= 0);
    assert_true(write(fd, "time,cpus,workload\n7,2,mine\n,4,mine\n", 36) == 36);
    close(fd);
    written("workload,cpus,time,group\na,1,10,g\na,2,5,g\n");
    assert_ok(aw_size_read_both(path, other, &tables, &diag));
    const struct aw_size_table *table = &tables.table[0];
    assert_int_equal(table->workload_count, 2);
    assert_int_equal(table->config_count, 3); /* 4 was named and not measured */
    assert_false(table->workload[0].asked);
    assert_true(table->workload[1].asked);
    assert_close(exp(aw_size_times(table, 1)[1]), 7, 1e-9);
    assert_true(isnan(aw_size_times(table, 1)[2]));
    aw_size_tables_deinit(&tables);
    written("workload,memory,time\na,1,10\na,2,5\n");
    assert_int_equal(aw_size_read_both(path, other, &tables, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.key, "memory");
    unlink(other);
}

AW_TEST_GROUP("sizing-read")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_format_is_recognised),
        cmocka_unit_test(a_table_may_be_written_in_other_ways),
        cmocka_unit_test(a_table_may_be_gzip),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(a_second_file_may_have_its_columns_in_another_order),
    };
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
