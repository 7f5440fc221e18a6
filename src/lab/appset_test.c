/* appset_test.c - ranges and files as people write them; loads that are never shared between what
 * is learned from and what is reported on. */
#include "lab/appset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "pretrain/pretrain.h"

static void ranges_are_read_and_nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t seed;
        uint32_t first, count;
    } cases[] = {
        {"0-759", true, 1, 0, 760}, {"7:0-9", true, 7, 0, 10},   {"3:25", true, 3, 0, 25},
        {"5-5", true, 1, 5, 1},     {"9-5", false, 0, 0, 0},     {"25", false, 0, 0, 0},
        {"1:", false, 0, 0, 0},     {":5", false, 0, 0, 0},      {"1:0", false, 0, 0, 0},
        {"a-b", false, 0, 0, 0},    {"0-99999", false, 0, 0, 0}, {"-5", false, 0, 0, 0},
        {"", false, 0, 0, 0},       {"1-2-3", false, 0, 0, 0},   {"1:2:3", false, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t seed = 1;
        uint32_t first = 77, count = 77;
        struct aw_diag diag = {0};
        const enum aw_err err =
            aw__appset_range(cases[i].text, "--apps", &seed, &first, &count, &diag);
        if ((err == AW_OK) != cases[i].good)
            fail_msg("%s: %s", cases[i].text, diag.text);
        if (err) {
            assert_string_equal(diag.key, "--apps");
            assert_true(seed == 1 && first == 77 && count == 77);
        } else {
            assert_true(seed == cases[i].seed && first == cases[i].first &&
                        count == cases[i].count);
        }
    }
    uint64_t seed = 1;
    uint32_t index = 0;
    assert_ok(aw__appset_app("4:17", "--app", &seed, &index, NULL));
    assert_true(seed == 4 && index == 17);
    assert_ok(aw__appset_app("3", "--app", &seed, &index, NULL));
    assert_true(seed == 4 && index == 3);
    assert_int_equal(aw__appset_app("3-4", "--app", &seed, &index, NULL), AW_ERR_USAGE);
}

static const char *written(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void a_file_is_a_pool_of_all_that_is_in_it(void **state)
{
    (void)state;
    char folder[] = "/tmp/aware-apps-XXXXXX", path[64], one[80], text[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a:b.yaml", folder);
    written(path, "apps:\n"
                  "- {name: cart, segments: [{kind: gzip, cpu: 30ms}]}\n"
                  "- {name: page, segments: [{kind: gzip, cpu: 31ms}]}\n");
    struct aw_pretrain_pool pool = {.seed = 1}, other = {.seed = 1}, single = {.seed = 1};
    struct aw_apps file = {0}, again = {0}, third = {0};
    assert_ok(aw_appset_pool(path, "--apps", &pool, &file, NULL));
    assert_true(pool.first == 0 && pool.count == 2 && pool.seed != 1);
    assert_string_equal(aw_appset_text(&pool, text, sizeof text), "2 of a:b.yaml");
    assert_string_equal(aw_pretrain_app_name(&pool, 1, text, sizeof text), "page");
    snprintf(one, sizeof one, "%s:page", path);
    single.count = 1;
    assert_ok(aw_appset_one(one, "--app", &single, &third, NULL));
    assert_true(single.first == 1 && single.count == 1 && single.seed == pool.seed);
    struct aw_diag diag = {0};
    assert_int_equal(aw_appset_apart(&pool, &single, &diag), AW_ERR_USAGE);
    assert_non_null(strstr(diag.text, "page"));
    assert_ok(aw_appset_pool("0-9", "--check", &other, &again, NULL));
    assert_true(other.seed == 1 && other.count == 10 && !other.apps && !again.apps);
    assert_string_equal(aw_appset_text(&other, text, sizeof text), "1:0-9");
    assert_ok(aw_appset_apart(&pool, &other, NULL));
    written(path, "apps:\n- {name: cart, segments: [{kind: gzip, cpu: 30ms}]}\n");
    assert_ok(aw_appset_pool(path, "--apps", &other, &again, NULL));
    assert_true(other.seed != pool.seed);
    aw_apps_deinit(&file);
    aw_apps_deinit(&again);
    aw_apps_deinit(&third);
    unlink(path);
    rmdir(folder);
}

static void a_file_that_is_none_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        uint32_t line;
        const char *word;
    } cases[] = {
        {"apps: 3\n", AW_ERR_CONFIG, 1, "a list"},
        {"- name: x\n", AW_ERR_CONFIG, 1, "a map"},
        {"segments:\n- {name: s, cpu: 1ms}\n", AW_ERR_CONFIG, 1, "\"apps\""},
        {"apps: []\n", AW_ERR_CONFIG, 1, "\"apps\""},
        {"apps:\n- {name: x}\n", AW_ERR_CONFIG, 2, "segments"},
        {"", AW_ERR_FORMAT, 0, "empty"},
        {NULL, AW_ERR_NOTFOUND, 0, "no such file"},
    };
    char folder[] = "/tmp/aware-apps-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/apps.yaml", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_pretrain_pool pool = {.seed = 1};
        struct aw_apps file = {0};
        struct aw_diag diag = {0};
        if (cases[i].text)
            written(path, cases[i].text);
        else
            unlink(path);
        const enum aw_err err = aw_appset_pool(path, "--apps", &pool, &file, &diag);
        if (err != cases[i].err || diag.line != cases[i].line || strcmp(diag.file, path) != 0 ||
            !strstr(diag.text, cases[i].word))
            fail_msg("%s: %s, line %u of %s", cases[i].text, diag.text, diag.line, diag.file);
        assert_true(pool.seed == 1 && !pool.apps && !file.apps);
    }
    struct aw_apps many = {0};
    struct aw_pretrain_pool pool = {.seed = 1};
    struct aw_diag diag = {0};
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "# too many\napps:\n");
    for (uint32_t i = 0; i <= AW_PRETRAIN_APPS_MAX; i++)
        fprintf(out, "- {name: a%u, segments: [{kind: gzip}]}\n", i);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(aw_appset_pool(path, "--apps", &pool, &many, &diag), AW_ERR_LIMIT);
    assert_int_equal(diag.line, 2);
    unlink(path);
    rmdir(folder);
}

static void what_is_reported_on_has_loads_of_its_own(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-pool-XXXXXX";
    const int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    assert_non_null(out);
    fprintf(out, "HashFunction,1,2\n");
    for (uint32_t i = 0; i < 7; i++) /* an odd number of them: the last is nobody's */
        fprintf(out, "f%u,%u,%u\n", i, 100 - i, 100 + i % 2);
    assert_int_equal(fclose(out), 0);
    struct aw_appset pool;
    assert_ok(aw_appset_open(&pool, path, NULL));
    assert_int_equal(pool.pack.count, 7);
    bool learned[7] = {0}, reported[7] = {0};
    for (uint32_t app = 0; app < 1000; app += 3) {
        struct aw_load load;
        assert_ok(aw_appset_make(&pool, app, NULL, &load, NULL));
        (app < AW__APPSET_TEST_FIRST ? learned : reported)[load.name[1] - '0'] = true;
        aw_load_deinit(&load);
    }
    for (uint32_t i = 0; i < 7; i++)
        assert_false(learned[i] && reported[i]);
    aw_appset_close(&pool);
    assert_ok(aw_appset_open(&pool, "poisson:mean=5", NULL)); /* one each */
    struct aw_load a, b;
    assert_ok(aw_appset_make(&pool, 1, NULL, &a, NULL));
    assert_ok(aw_appset_make(&pool, 2, NULL, &b, NULL));
    assert_true(memcmp(a.rate_per_s, b.rate_per_s, a.slot_count * sizeof *a.rate_per_s) != 0);
    aw_load_deinit(&a);
    aw_load_deinit(&b);
    aw_appset_close(&pool);
    assert_int_not_equal(aw_appset_open(&pool, "poisson:mean=none", NULL), AW_OK);
    aw_appset_close(&pool);
    unlink(path);
}

AW_TEST_GROUP("cli-appset")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read_and_nonsense_is_refused),
        cmocka_unit_test(a_file_is_a_pool_of_all_that_is_in_it),
        cmocka_unit_test(a_file_that_is_none_is_refused_with_its_place),
        cmocka_unit_test(what_is_reported_on_has_loads_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
