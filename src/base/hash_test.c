/* hash_test.c - what FNV-1a gives, by its published vectors. */
#include "base/hash.h"

#include <string.h>

#include "base/testing.h"

static void published_vectors_hold(void **state)
{
    (void)state;
    /* of the reference code by Fowler, Noll and Vo */
    static const struct {
        const char *text;
        uint64_t hash;
    } rows[] = {
        {"", UINT64_C(0xcbf29ce484222325)},
        {"a", UINT64_C(0xaf63dc4c8601ec8c)},
        {"foobar", UINT64_C(0x85944171f73967e8)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(aw_hash_text(AW_HASH_BEGIN, rows[i].text) == rows[i].hash);
        assert_true(aw_hash_bytes(AW_HASH_BEGIN, rows[i].text, strlen(rows[i].text)) ==
                    rows[i].hash);
    }
}

static void parts_mix_as_the_whole_does_and_null_is_nothing(void **state)
{
    (void)state;
    const uint64_t whole = aw_hash_text(AW_HASH_BEGIN, "foobar");
    assert_true(aw_hash_text(aw_hash_text(AW_HASH_BEGIN, "foo"), "bar") == whole);
    assert_true(aw_hash_text(whole, NULL) == whole);
    assert_true(aw_hash_byte(aw_hash_text(AW_HASH_BEGIN, "fooba"), 'r') == whole);
}

AW_TEST_GROUP("hash")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_hold),
        cmocka_unit_test(parts_mix_as_the_whole_does_and_null_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
