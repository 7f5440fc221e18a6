/* fit_test.c - what a fit finds of an application that is known. */
#include "base/testing.h"
#include "fitting/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS_MAX 2000u

static const struct aw_demand known = {
    .cpu_ms = 12, .cpu_cv = 0.4, .io_ms = 20, .io_cv = 0.4, .parallelism = 1, .threads = 16};
static const struct aw_fit_world world = {.saturated_ms = 2000, .burstiness = 1};

/* Rows that the model itself would measure, with noise. */
static void rows_make(struct aw_fit_rows *rows, double noise)
{
    static struct aw_fit_row row[ROWS_MAX];
    static const double cores[] = {0.25, 0.5, 1, 2};
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    *rows = (struct aw_fit_rows){.row = row, .group_count = 1, .setting_count = 4};
    for (uint32_t s = 0; s < 4; s++) {
        const double capacity = aw_replica_capacity(&known, cores[s]);
        for (uint32_t i = 0; i < 120; i++) {
            const double rate = capacity * (i + 1) / 100;
            const double ms = aw_fit_latency_ms(&known, &world, cores[s], rate);
            row[rows->row_count++] = (struct aw_fit_row){
                .rate_per_s = rate,
                .latency_ms = ms * exp(noise * aw_rng_normal(&rng)),
                .replicas = 1,
                .cores = cores[s],
                .memory_limit_mib = NAN,
                .memory_used_mib = 80 + 3 * rate * ms * 1e-3,
                .cores_used = NAN,
                .setting = s,
            };
        }
    }
}

static const struct aw_fit_config config = {.seed = 1, .train_share = 0.7, .starts = 4};

static void an_application_that_is_known_is_found_again(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    static struct aw_fit fit;
    rows_make(&rows, 0.05);
    assert_int_equal(aw_fit_run(&config, &rows, 0, "known", NULL, &fit, NULL), AW_OK);
    assert_int_equal(fit.train_count + fit.test_count, rows.row_count);
    assert_true(fit.below_median < 0.08);
    assert_true(fit.below_median < fit.constant_median);
    /* CPU time decides the capacity, so rows beyond it pin it down */
    assert_true(fabs(fit.segment.cpu_ms / known.cpu_ms - 1) < 0.1);
    assert_int_equal(fit.knee_count, 4);
    assert_int_equal(fit.knee_near_count, 4);
    assert_true(fit.told_apart > 0.9);
}

static void memory_is_a_base_and_something_per_request(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    static struct aw_fit fit;
    rows_make(&rows, 0);
    assert_int_equal(aw_fit_run(&config, &rows, 0, "known", NULL, &fit, NULL), AW_OK);
    assert_true(fabs(fit.segment.memory_base_mib - 80) < 2);
    assert_true(fabs(fit.segment.memory_flight_mib - 3) < 0.5);
    assert_true(fit.memory_median < 0.05);
}

static void the_same_seed_gives_the_same_fit(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    static struct aw_fit a, b;
    rows_make(&rows, 0.1);
    assert_int_equal(aw_fit_run(&config, &rows, 0, "known", NULL, &a, NULL), AW_OK);
    assert_int_equal(aw_fit_run(&config, &rows, 0, "known", NULL, &b, NULL), AW_OK);
    assert_memory_equal(&a.segment, &b.segment, sizeof a.segment);
    assert_true(a.below_median == b.below_median);
    const struct aw_fit_config other = {.seed = 2, .train_share = 0.7, .starts = 4};
    assert_int_equal(aw_fit_run(&other, &rows, 0, "known", NULL, &b, NULL), AW_OK);
    assert_true(a.below_median != b.below_median);
}

static void latency_never_falls_below_a_request_alone(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 64; threads *= 2) {
        struct aw_demand demand = known;
        demand.threads = threads;
        for (double load = 0.01; load < 1.5; load += 0.05) {
            const double rate = load * aw_replica_capacity(&demand, 1);
            assert_true(aw_fit_latency_ms(&demand, &world, 1, rate) >=
                        demand.io_ms + demand.cpu_ms / demand.parallelism);
        }
    }
    const double beyond = 1.2 * aw_replica_capacity(&known, 1);
    assert_true(aw_fit_latency_ms(&known, &world, 1, beyond) == world.saturated_ms);
}

static void too_few_rows_are_no_fit(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    static struct aw_fit fit;
    rows_make(&rows, 0);
    rows.row_count = AW_FIT_ROWS_MIN - 1;
    assert_int_equal(aw_fit_run(&config, &rows, 0, "few", NULL, &fit, NULL), AW_ERR_NODATA);
}

/* --- reading ----------------------------------------------------------------------------------
 */

static char path[] = "/tmp/aware-fit-XXXXXX";

static void file_make(const char *text)
{
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void columns_are_found_by_name_in_any_order(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    file_make("num_pods,x,pod_cpu_limit,requests,Requests_Duration_Mean,pod_mem_limit\r\n"
              "2,?,0.5,240,12.5,0.5\r\n2,?,0.5,480,13,0.5\r\n1,?,0.5,240,15,0.5\r\n");
    assert_int_equal(aw_fit_read(path, NULL, &rows, NULL), AW_OK);
    unlink(path);
    assert_int_equal(rows.row_count, 3);
    assert_int_equal(rows.setting_count, 2);
    assert_true(rows.row[0].rate_per_s == 2 && rows.row[0].latency_ms == 12.5);
    assert_true(rows.row[0].cores == 0.5 && rows.row[0].memory_limit_mib == 512);
    assert_true(isnan(rows.row[0].memory_used_mib));
    assert_int_equal(rows.row[0].setting, rows.row[1].setting);
    assert_int_not_equal(rows.row[0].setting, rows.row[2].setting);
    aw_fit_rows_deinit(&rows);
}

static void runs_of_one_request_are_averaged_by_function_and_size(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    file_make("Function,Memory Size,Max Memory Used,Duration\n"
              "f,1792,60,100\ng,1792,70,10\nf,896,60,220\nf,1792,62,300\ng,1792,70,30\n");
    assert_int_equal(aw_fit_read(path, NULL, &rows, NULL), AW_OK);
    unlink(path);
    assert_int_equal(rows.group_count, 2);
    assert_int_equal(rows.row_count, 3);
    for (uint32_t i = 0; i < rows.row_count; i++) {
        const struct aw_fit_row *row = &rows.row[i];
        const double want = row->group == 1 ? 20 : row->cores == 1 ? 200 : 220;
        assert_true(row->latency_ms == want);
        assert_true(row->rate_per_s == 0);
    }
    aw_fit_rows_deinit(&rows);
}

static void a_bad_row_is_told_with_its_place_and_left_out(void **state)
{
    (void)state;
    struct aw_fit_rows rows;
    file_make("requests,latency_ms,cores\n60,10,1\n60,ten,1\n60,12,1\n60\n0,5,1\n60,10,1\n"
              "60,10,1\n60,10,1\n");
    assert_int_equal(aw_fit_read(path, NULL, &rows, NULL), AW_OK);
    unlink(path);
    assert_int_equal(rows.row_count, 5);
    assert_int_equal(rows.report.bad_count, 3);
    assert_int_equal(rows.report.finding[0].line, 3);
    assert_int_equal(rows.report.finding[0].column, 4);
    assert_non_null(strstr(rows.report.finding[0].text, "\"ten\""));
    assert_int_equal(rows.report.finding[1].line, 5);
    aw_fit_rows_deinit(&rows);
}

static void files_that_are_no_measurements_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        const char *why;
    } table[] = {
        {"", AW_ERR_NODATA, "empty"},
        {"requests,latency_ms,cores\n", AW_ERR_NODATA, "a header alone"},
        {"requests,cores\n1,2\n", AW_ERR_FORMAT, "no latency"},
        {"requests,latency_ms\n1,2\n", AW_ERR_FORMAT, "no CPU"},
        {"requests,latency_ms,cores\nx,y,z\nx,y,z\n1,2,1\n", AW_ERR_FORMAT, "more bad than good"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct aw_fit_rows rows;
        struct aw_diag diag = {0};
        file_make(table[i].text);
        if (aw_fit_read(path, NULL, &rows, &diag) != table[i].err)
            fail_msg("%s: %s", table[i].why, diag.text);
        assert_string_not_equal(diag.text, "");
        unlink(path);
    }
    struct aw_fit_rows rows;
    assert_int_equal(aw_fit_read("/nowhere.csv", NULL, &rows, NULL), AW_ERR_NOTFOUND);
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    file_make("requests,latency_ms,cores\n60,10,1\n60,12,1\n");
    for (uint64_t n = 0;; n++) {
        struct aw_alloc_counting counting;
        struct aw_fit_rows rows = {0};
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        enum aw_err err = aw_fit_read(path, &counting.alloc, &rows, NULL);
        if (!err)
            aw_fit_rows_deinit(&rows);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
    }
    unlink(path);
}

AW_TEST_GROUP("fit")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_application_that_is_known_is_found_again),
        cmocka_unit_test(memory_is_a_base_and_something_per_request),
        cmocka_unit_test(the_same_seed_gives_the_same_fit),
        cmocka_unit_test(latency_never_falls_below_a_request_alone),
        cmocka_unit_test(too_few_rows_are_no_fit),
        cmocka_unit_test(columns_are_found_by_name_in_any_order),
        cmocka_unit_test(runs_of_one_request_are_averaged_by_function_and_size),
        cmocka_unit_test(a_bad_row_is_told_with_its_place_and_left_out),
        cmocka_unit_test(files_that_are_no_measurements_are_refused),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
