#include "workload/apps.h"

#include "base/clock.h"
#include "base/testing.h"
#include "base/yaml.h"

#include <stdlib.h>
#include <string.h>

#define POOL_COUNT 1000u

/* As aw_apps_read, from text. */
static enum aw_err read_text(const char *text, size_t len, const struct aw_alloc *alloc,
                             struct aw_apps *ret, struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root = NULL;
    enum aw_err err = aw_tree_load(&tree, "apps.yaml", text, len, alloc, diag);
    if (!err)
        err = aw_tree_only(&tree, &root, diag);
    if (!err)
        err = aw_apps_decode(&tree, root, NULL, 0, alloc, ret, diag);
    aw_tree_deinit(&tree);
    return err;
}

static void a_pool_of_a_thousand_reads_back_to_the_same_bits_within_a_second(void **state)
{
    (void)state;
    static struct aw_app pool[POOL_COUNT];
    const struct aw_segment *kinds = aw_segment_builtin();
    char *text = NULL;
    size_t len = 0;
    int64_t begin_us = aw_clock_monotonic_us(NULL);
    for (uint32_t i = 0; i < POOL_COUNT; i++)
        aw_app_generate(1, i, kinds, AW_SEGMENT_BUILTIN_COUNT, &pool[i]);
    FILE *out = open_memstream(&text, &len);
    assert_ok(aw_apps_write(out, pool, POOL_COUNT, kinds, AW_SEGMENT_BUILTIN_COUNT, NULL));
    fclose(out);
#ifndef __SANITIZE_ADDRESS__
    assert_true(aw_clock_monotonic_us(NULL) - begin_us < 1000000);
#endif

    struct aw_apps apps = {0};
    struct aw_diag diag = {0};
    enum aw_err err = read_text(text, len, NULL, &apps, &diag);
    assert_string_equal(diag.text, "");
    assert_ok(err);
    assert_int_equal(apps.app_count, POOL_COUNT);
    assert_int_equal(apps.kind_count, AW_SEGMENT_BUILTIN_COUNT);
    assert_memory_equal(apps.kinds, kinds, AW_SEGMENT_BUILTIN_COUNT * sizeof *kinds);
    assert_memory_equal(apps.apps, pool, sizeof pool);
    assert_ptr_equal(aw_apps_find(&apps, "app-1-17"), &apps.apps[17]);
    assert_null(aw_apps_find(&apps, "app-1-1000"));
    aw_apps_deinit(&apps);
    free(text);
}

static const char user_file[] = "segments:\n"
                                "- name: sleep\n"
                                "  cpu: 50us\n"
                                "  io: 1.5s\n"
                                "  memory: 2Mi\n"
                                "  memory_per_request: 512Ki\n"
                                "- {name: gzip, cpu: 1m30s, family: text, threads: 3}\n"
                                "apps:\n"
                                "- name: nightly\n"
                                "  segments:\n"
                                "  - kind: sleep\n"
                                "  - {kind: gzip, send: 1Mi}\n"
                                "  - {kind: table_scan, cpu: 0.123456789012345678ms}\n";

static void the_hash_is_of_what_an_application_does_and_outlives_a_file(void **state)
{
    (void)state;
    const struct aw_segment *kinds = aw_segment_builtin();
    struct aw_app app, other;
    struct aw_apps read = {0};
    char *text = NULL;
    size_t len = 0;
    aw_app_generate(1, 3, kinds, AW_SEGMENT_BUILTIN_COUNT, &app);
    aw_app_generate(1, 4, kinds, AW_SEGMENT_BUILTIN_COUNT, &other);
    assert_true(aw_app_hash(&app) != aw_app_hash(&other));
    FILE *out = open_memstream(&text, &len);
    assert_ok(aw_apps_write(out, &app, 1, kinds, AW_SEGMENT_BUILTIN_COUNT, NULL));
    fclose(out);
    assert_ok(read_text(text, len, NULL, &read, NULL));
    assert_true(aw_app_hash(&read.apps[0]) == aw_app_hash(&app));
    other = app;
    snprintf(other.name, sizeof other.name, "renamed");
    assert_true(aw_app_hash(&other) == aw_app_hash(&app));
    for (uint32_t i = 0; aw_segment_fields[i].key; i++) {
        other = app;
        ((unsigned char *)&other.segment[0])[aw_segment_fields[i].offset] ^= 1;
        if (aw_app_hash(&other) == aw_app_hash(&app))
            fail_msg("%s does not matter", aw_segment_fields[i].key);
    }
    aw_apps_deinit(&read);
    free(text);
}

static void users_add_kinds_and_take_the_place_of_builtin_ones(void **state)
{
    (void)state;
    struct aw_apps apps = {0};
    assert_ok(read_text(user_file, strlen(user_file), NULL, &apps, NULL));
    assert_int_equal(apps.kind_count, AW_SEGMENT_BUILTIN_COUNT + 1);
    const struct aw_app *app = aw_apps_find(&apps, "nightly");
    assert_non_null(app);
    assert_int_equal(app->segment_count, 3);
    assert_true(app->segment[0].cpu_ms == 0.05);
    assert_true(app->segment[0].io_ms == 1500);
    assert_true(app->segment[0].memory_flight_mib == 0.5);
    assert_true(app->segment[0].parallelism == 1);
    assert_true(app->segment[1].cpu_ms == 90000);
    assert_int_equal(app->segment[1].family, AW_PAYLOAD_TEXT);
    assert_int_equal(app->segment[1].threads, 3);
    assert_true(app->segment[1].send_kib == 1024);
    assert_true(app->segment[1].io_ms == 0); /* nothing is left of the built-in gzip */
    assert_true(app->segment[2].cpu_ms == 0.123456789012345678);
    assert_int_equal(app->segment[2].threads, 6); /* as the kind */
    aw_apps_deinit(&apps);
}

static void a_file_of_users_kinds_round_trips_too(void **state)
{
    (void)state;
    struct aw_apps apps = {0}, back = {0};
    char *text = NULL;
    size_t len = 0;
    assert_ok(read_text(user_file, strlen(user_file), NULL, &apps, NULL));
    FILE *out = open_memstream(&text, &len);
    assert_ok(aw_apps_write(out, apps.apps, 1, apps.kinds, apps.kind_count, NULL));
    fclose(out);
    assert_ok(read_text(text, len, NULL, &back, NULL));
    assert_memory_equal(apps.apps, back.apps, sizeof *apps.apps);
    free(text);
    aw_apps_deinit(&apps);
    aw_apps_deinit(&back);
}

static void what_is_wrong_is_said_with_its_place_and_key(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t line, column;
        const char *key, *says, *why;
    } cases[] = {
        {"segments:\n- {name: a, cpu: 1ms, memroy: 3Mi}\n", 2, 0, "segments[0].memroy",
         "did you mean \"memory\"", "a typo"},
        {"segments:\n- {name: a, io: 1ms}\n", 2, 3, "segments[0]", "missing key \"cpu\"",
         "nothing runs without CPU time"},
        {"segments:\n- {name: a, cpu: 0ms}\n", 2, 18, "segments[0].cpu", "0.001ms to",
         "nor with 0"},
        {"segments:\n- {name: a, cpu: 3}\n", 2, 18, "segments[0].cpu", "a duration", "3 what?"},
        {"segments:\n- {name: a, cpu: -3ms}\n", 2, 18, "segments[0].cpu", "", "negative time"},
        {"segments:\n- {name: a, cpu: 2d}\n", 2, 18, "segments[0].cpu", "to 3.6e+06ms", "too long"},
        {"segments:\n- {name: a, cpu: 1ms, memory: 6Mb}\n", 2, 31, "segments[0].memory", "6Mb",
         "no such unit"},
        {"segments:\n- {name: a, cpu: 1ms, parallelism: 0.5}\n", 2, 36, "segments[0].parallelism",
         "1 to 256", "half a core at once is none"},
        {"segments:\n- {name: a, cpu: 1ms, cpu_cv: .nan}\n", 2, 31, "segments[0].cpu_cv", "",
         "not a number"},
        {"segments:\n- {name: a, cpu: 1ms, threads: 2.5}\n", 2, 32, "segments[0].threads", "whole",
         "half a thread"},
        {"segments:\n- {name: a, cpu: 1ms, family: cat}\n", 2, 31, "segments[0].family", "one of",
         "no such payload"},
        {"segments:\n- {name: A b, cpu: 1ms}\n", 2, 10, "segments[0].name", "a name", "not a word"},
        {"segments:\n- {name: 'null', cpu: 1ms}\n", 2, 10, "segments[0].name", "a name",
         "would read back as null"},
        {"segments:\n- {name: a, cpu: 1ms}\n- {name: a, cpu: 2ms}\n", 3, 10, "segments[1].name",
         "line 2", "defined twice"},
        {"apps:\n- name: x\n  segments: []\n", 3, 13, "apps[0].segments", "1 to 6", "no segment"},
        {"apps:\n- name: x\n  segments:\n  - {kind: gzp}\n", 4, 12, "apps[0].segments[0].kind",
         "did you mean \"gzip\"", "a typo"},
        {"apps:\n- name: x\n  segments:\n  - {kind: gzip, name: y}\n", 4, 0,
         "apps[0].segments[0].name", "unknown", "a segment has its kind's name"},
        {"apps:\n- name: x\n  segments:\n  - {kind: gzip}\n- name: x\n  segments: [{kind: gzip}]\n",
         5, 9, "apps[1].name", "line 2", "two of one name"},
        {"apps: 3\n", 1, 7, "apps", "a list", "not a list"},
        {"app: []\n", 1, 0, "app", "did you mean \"apps\"", "a typo"},
        {"apps: []\n", 1, 1, "", "something in it", "empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_apps apps = {0};
        struct aw_diag diag = {0};
        enum aw_err err = read_text(cases[i].text, strlen(cases[i].text), NULL, &apps, &diag);
        if (err != AW_ERR_CONFIG || diag.line != cases[i].line ||
            (cases[i].column && diag.column != cases[i].column) ||
            strcmp(diag.key, cases[i].key) != 0 || !strstr(diag.text, cases[i].says))
            fail_msg("%s: %s at %u:%u %s: %s", cases[i].why, aw_err_name(err), diag.line,
                     diag.column, diag.key, diag.text);
        assert_string_equal(diag.file, "apps.yaml");
        assert_null(apps.kinds);
    }
}

static void a_kind_too_many_is_refused(void **state)
{
    (void)state;
    char text[8192] = "segments:\n";
    size_t len = strlen(text);
    for (uint32_t i = AW_SEGMENT_BUILTIN_COUNT; i < AW_SEGMENT_KINDS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "- {name: k%u, cpu: 1ms}\n", i);
    struct aw_apps apps = {0};
    struct aw_diag diag = {0};
    assert_ok(read_text(text, len, NULL, &apps, &diag));
    assert_int_equal(apps.kind_count, AW_SEGMENT_KINDS_MAX);
    aw_apps_deinit(&apps);
    len += (size_t)snprintf(text + len, sizeof text - len, "- {name: gunzip, cpu: 1ms}\n");
    assert_ok(read_text(text, len, NULL, &apps, &diag)); /* in place of another: not one more */
    aw_apps_deinit(&apps);
    len += (size_t)snprintf(text + len, sizeof text - len, "- {name: last, cpu: 1ms}\n");
    assert_int_equal(read_text(text, len, NULL, &apps, &diag), AW_ERR_LIMIT);
}

static void a_segment_of_no_kind_cannot_be_written(void **state)
{
    (void)state;
    struct aw_app app = {.name = "x", .segment_count = 1, .segment = {{.name = "nothing"}}};
    struct aw_diag diag = {0};
    assert_int_equal(aw_apps_write(stdout, &app, 1, aw_segment_builtin(), 1, &diag),
                     AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "nothing"));
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    struct aw_app app;
    aw_app_generate(1, 0, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(
        aw_apps_write(full, &app, 1, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, NULL),
        AW_ERR_IO);
    fclose(full);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        struct aw_apps apps = {0};
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = read_text(user_file, strlen(user_file), &counting.alloc, &apps, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        aw_apps_deinit(&apps);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_true(n < 1000);
    }
}

AW_TEST_GROUP("apps")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_of_a_thousand_reads_back_to_the_same_bits_within_a_second),
        cmocka_unit_test(the_hash_is_of_what_an_application_does_and_outlives_a_file),
        cmocka_unit_test(users_add_kinds_and_take_the_place_of_builtin_ones),
        cmocka_unit_test(a_file_of_users_kinds_round_trips_too),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place_and_key),
        cmocka_unit_test(a_kind_too_many_is_refused),
        cmocka_unit_test(a_segment_of_no_kind_cannot_be_written),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("apps", tests, NULL, NULL);
}
