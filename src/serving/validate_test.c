/* validate_test.c - data made from the laws has no error; data of another kind has; bad files. */
#include "serving/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/testing.h"
#include "serving/gpu.h"
#include "serving/gpu_profile.h"

static struct aw_validate *validate;
static char folder[64];

static FILE *file_open(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static void file_remove(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static const struct aw_validate_row *row_of(const char *what)
{
    for (uint32_t i = 0; i < validate->rows; i++)
        if (!strcmp(validate->row[i].what, what) && !validate->row[i].file[0])
            return &validate->row[i];
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/aw-validate-XXXXXX");
    validate = aw_alloc_new(NULL, 1, sizeof *validate);
    return mkdtemp(folder) && validate ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    aw_alloc_free(NULL, validate);
    return rmdir(folder);
}

/* A GPU and programs that nobody has named, by the laws, with `jump` W more at one clock. */
static void sweep_write(const char *name, double jump, double odd)
{
    const struct aw_gpu_volt volt = {0.8, 0.8};
    FILE *file = file_open(name);
    fputs("stage,instruction,frequency,time,energy\n", file);
    for (int program = 0; program < 4; program++)
        for (int clock = 600; clock <= 1500; clock += 100) {
            const double x = clock / 1500.0, t = (0.2 + 0.1 * program) + (0.8 - 0.1 * program) / x;
            double p = 50 + 10 * program + 200 * aw_gpu_switching(&volt, x);
            p += clock == 1000 ? jump : 0;
            p += program == 0 && clock == 1200 ? odd : 0;
            fprintf(file, "%d,forward,%d,%.9f,%.9f\n", program, clock, t, p * t);
        }
    fclose(file);
}

static void data_of_the_law_has_no_error(void **state)
{
    (void)state;
    sweep_write("a.csv", 0, 0);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_true(row_of("time")->cases == 40 && row_of("time")->error_mean < 1e-6);
    assert_true(row_of("power")->cases == 40 && row_of("power")->error_mean < 1e-4);
    /* what all programs do at a clock is the GPU's, and is foreseen; what one does is not */
    sweep_write("a.csv", 40, 0);
    assert_ok(aw_validate_run(folder, validate, NULL));
    const double common = row_of("power")->error_p95;
    sweep_write("a.csv", 0, 80);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_true(row_of("power")->error_p95 > common);
    assert_true(row_of("power")->error_mean > 0.005);
    file_remove("a.csv");
}

static void a_profile_finds_the_laws_again(void **state)
{
    (void)state;
    struct aw_gpu_profile profile;
    struct aw_diag diag = {0};
    char path[128];
    sweep_write("sweep.csv", 0, 0);
    snprintf(path, sizeof path, "%s/sweep.csv", folder);
    assert_ok(aw_gpu_profile_read(path, &profile, &diag));
    assert_int_equal(profile.programs, 4);
    for (uint32_t p = 0; p < 4; p++) {
        assert_close(aw_gpu_memory_share(&profile.program[p].time), 0.2 + 0.1 * p, 1e-6);
        assert_close(aw_gpu_sensitivity(&profile.program[p].time), 1.6 - 0.2 * p, 1e-6);
        assert_close(profile.program[p].power.s, 50 + 10 * p, 0.02);
        assert_true(profile.program[p].error_time < 1e-6);
    }
    aw_gpu_profile_deinit(&profile);
    file_remove("sweep.csv");
    FILE *file = file_open("sweep.csv");
    fputs("red,green\n1,2\n", file);
    fclose(file);
    assert_int_equal(aw_gpu_profile_read(path, &profile, &diag), AW_ERR_FORMAT);
    file_remove("sweep.csv");
}

static void products_follow_the_roofline(void **state)
{
    (void)state;
    const struct aw_gpu_roof roof = {4e-6, 1.5e12, 2.4e14, 1.5};
    FILE *file = file_open("mlp.csv");
    fputs("time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,"
          "time_stats.mlp_up_proj.median,time_stats.mlp_down_proj.median,n_head,n_kv_head,n_embd,"
          "n_expanded_embd,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n",
          file);
    for (int tp = 1; tp <= 4; tp *= 2)
        for (int tokens = 1; tokens <= 4096; tokens *= 2) {
            const double shape[4][2] = {{4096, 12288.0 / tp},
                                        {4096.0 / tp, 4096},
                                        {4096, 22016.0 / tp},
                                        {11008.0 / tp, 4096}};
            for (int op = 0; op < 4; op++) {
                const double K = shape[op][0], N = shape[op][1];
                fprintf(file, "%.9g,",
                        1e3 * aw_gpu_roof_at(&roof, 2 * (tokens * K + K * N + tokens * N),
                                             2.0 * tokens * K * N, 1));
            }
            fprintf(file, "32,32,4096,11008,True,%d,%d\n", tokens, tp);
        }
    fclose(file);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_true(row_of("gemm")->error_mean < 0.02);
    file_remove("mlp.csv");
}

static void bad_files_are_named(void **state)
{
    (void)state;
    struct aw_diag diag = {0};
    assert_int_equal(aw_validate_run("/nowhere-at-all", validate, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_validate_run(folder, validate, &diag), AW_ERR_NODATA);
    FILE *file = file_open("odd.csv");
    fputs("red,green\n1,2\n", file);
    fclose(file);
    assert_int_equal(aw_validate_run(folder, validate, &diag), AW_ERR_NODATA);
    assert_int_equal(validate->skipped, 1);
    sweep_write("b.csv", 0, 0);
    assert_ok(aw_validate_run(folder, validate, &diag)); /* beside one that is known */
    assert_string_equal(validate->skip[0], "odd.csv");
    file = file_open("odd.csv");
    fputs("stage,instruction,frequency,time,energy\n0,forward,1,2,3,4\n", file);
    fclose(file);
    assert_ok(aw_validate_run(folder, validate, &diag)); /* the others have their figures */
    assert_int_equal(row_of("time")->cases, 40);
    assert_string_equal(validate->skip[0], "odd.csv");
    assert_non_null(strstr(validate->why[0], "line 2: expected at most 5 cells"));
    file_remove("b.csv");
    assert_int_equal(aw_validate_run(folder, validate, &diag), AW_ERR_FORMAT); /* nothing is left */
    assert_int_equal(diag.line, 2);
    file = file_open("odd.csv");
    fputs("stage,instruction,frequency,time,energy\n0,forward,nan,2,-3\n0,forward,x,,\n", file);
    fclose(file);
    assert_int_equal(aw_validate_run(folder, validate, &diag), AW_ERR_NODATA);
    file_remove("odd.csv");
}

/* What is measured is judged, whatever else is not there, and wherever it stands. */
static void a_part_of_the_columns_is_enough(void **state)
{
    (void)state;
    FILE *file = file_open("a.csv");
    fputs("\xef\xbb\xbfkernel,power/W,coreF,appName\r\n", file);
    for (int program = 0; program < 3; program++)
        for (int clock = 700; clock <= 1300; clock += 100)
            fprintf(file, "k,%.9f,%d,%c\r\n", 40 + 0.1 * (program + 1) * clock, clock,
                    'a' + program);
    fclose(file);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_null(row_of("time"));
    assert_int_equal(row_of("power")->cases, 21);
    assert_true(row_of("power")->error_mean < 0.02);
    file = file_open("a.csv");
    fputs("frequency,time,stage\n", file);
    for (int clock = 700; clock <= 1300; clock += 100)
        fprintf(file, "%d,%.9f,0\n", clock, 0.3 + 700.0 / clock);
    fclose(file);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_null(row_of("power"));
    assert_true(row_of("time")->cases == 7 && row_of("time")->error_mean < 1e-6);
    file_remove("a.csv");
}

/* A kink that no law has, at a clock that is held out, is foreseen from programs that slow alike,
 * and from no others. */
static void programs_that_slow_alike_speak_for_each_other(void **state)
{
    (void)state;
    double error[2];
    for (int kinked = 1; kinked <= 8; kinked += 7) { /* how many of eight programs have it */
        FILE *file = file_open("a.csv");
        fputs("appName,coreF,time/ms,power/W\n", file);
        for (int program = 0; program < 8; program++)
            for (int clock = 800; clock <= 1400; clock += 100)
                fprintf(file, "p%d,%d,%.9f,100\n", program, clock,
                        (1 + program) *
                            (program < kinked && clock >= 900 ? 8.0 / 9 : 800.0 / clock));
        fclose(file);
        assert_ok(aw_validate_run(folder, validate, NULL));
        error[kinked > 1] = row_of("time")->error_mean * 8 / kinked;
    }
    assert_true(error[0] > 0.01); /* of the program alone that has it */
    assert_true(error[1] < 0.25 * error[0]);
    file_remove("a.csv");
}

/* Sizes that are all multiples of 64 still fall into two halves, each of which foretells the
 * other. */
static void halves_do_not_hang_on_parity(void **state)
{
    (void)state;
    FILE *file = file_open("attention.csv");
    fputs("time_stats.attn_prefill.mean,batch_size,prefill_chunk_size,kv_cache_size,"
          "num_tensor_parallel_workers\n",
          file);
    for (int chunk = 64; chunk <= 2048; chunk += 64)
        for (int kv = 0; kv <= 2048; kv += 256)
            fprintf(file, "%.9g,1,%d,%d,2\n", 0.01 + 1e-7 * chunk * (kv + 0.5 * chunk), chunk, kv);
    fclose(file);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_int_equal(row_of("attention")->cases, 32 * 9);
    assert_true(row_of("attention")->error_mean < 0.02);
    file_remove("attention.csv");
}

static void a_batch_that_went_wrong_is_left_out(void **state)
{
    (void)state;
    FILE *file = file_open("phases.csv");
    fputs(
        "model,hardware,tensor_parallel,prompt_size,batch_size,token_size,prompt_time,token_time\n",
        file);
    for (int batch = 1; batch <= 64; batch *= 2)
        fprintf(file, "m,g,2,512,%d,128,%g,%g\n", batch, batch == 64 ? 80.0 : 20 + 100.0 * batch,
                40 + 0.2 * batch);
    for (int prompt = 64; prompt <= 4096; prompt *= 2)
        fprintf(file, "m,g,2,%d,1,128,%g,%g\n", prompt, 20 + 100.0 * prompt / 512, 40.2);
    fclose(file);
    assert_ok(aw_validate_run(folder, validate, NULL));
    assert_int_equal(row_of("prefill")->cases, 13);
    assert_int_equal(row_of("decode")->cases, 13);
    assert_true(row_of("prefill")->error_mean < 0.05 && row_of("decode")->error_mean < 0.05);
    file_remove("phases.csv");
}

static void public_measurements_meet_the_goals(void **state)
{
    (void)state;
    static const char *const parts[] = {"gpu_freq", "splitwise", "vidur"};
    const char *data = getenv("AWARE_DATA_DIR");
    if (!data) {
        print_message("AWARE_DATA_DIR is not set: skipped\n");
        skip();
    }
    for (uint32_t i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", data, parts[i]);
        assert_ok(aw_validate_run(path, validate, NULL));
        for (uint32_t r = 0; r < validate->rows; r++)
            if (!validate->row[r].file[0] && isfinite(validate->row[r].goal))
                assert_true(validate->row[r].error_mean <= validate->row[r].goal);
    }
}

AW_TEST_GROUP("serving-validate")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_of_the_law_has_no_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_profile_finds_the_laws_again, setup, teardown),
        cmocka_unit_test_setup_teardown(products_follow_the_roofline, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_files_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_of_the_columns_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(programs_that_slow_alike_speak_for_each_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(halves_do_not_hang_on_parity, setup, teardown),
        cmocka_unit_test_setup_teardown(a_batch_that_went_wrong_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(public_measurements_meet_the_goals, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
