/* appset_test.c - ranges as people write them; loads that are never shared between what is learned
 * from and what is reported on. */
#include "cli/appset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

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
    struct aw__appset pool;
    assert_ok(aw__appset_open(&pool, path, NULL));
    assert_int_equal(pool.pack.count, 7);
    bool learned[7] = {0}, reported[7] = {0};
    for (uint32_t app = 0; app < 1000; app += 3) {
        struct aw_load load;
        assert_ok(aw__appset_make(&pool, app, NULL, &load, NULL));
        (app < AW__APPSET_TEST_FIRST ? learned : reported)[load.name[1] - '0'] = true;
        aw_load_deinit(&load);
    }
    for (uint32_t i = 0; i < 7; i++)
        assert_false(learned[i] && reported[i]);
    aw__appset_close(&pool);
    assert_ok(aw__appset_open(&pool, "poisson:mean=5", NULL)); /* one each */
    struct aw_load a, b;
    assert_ok(aw__appset_make(&pool, 1, NULL, &a, NULL));
    assert_ok(aw__appset_make(&pool, 2, NULL, &b, NULL));
    assert_true(memcmp(a.rate_per_s, b.rate_per_s, a.slot_count * sizeof *a.rate_per_s) != 0);
    aw_load_deinit(&a);
    aw_load_deinit(&b);
    aw__appset_close(&pool);
    assert_int_not_equal(aw__appset_open(&pool, "poisson:mean=none", NULL), AW_OK);
    aw__appset_close(&pool);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read_and_nonsense_is_refused),
        cmocka_unit_test(what_is_reported_on_has_loads_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
