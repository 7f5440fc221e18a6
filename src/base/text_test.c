#include "base/text.h"

#include "base/rng.h"
#include "base/testing.h"

#include <locale.h>
#include <math.h>
#include <string.h>

static void a_builder_stops_at_its_end_and_says_so(void **state)
{
    (void)state;
    char buf[8];
    struct aw_text text;
    aw_text_init(&text, buf, sizeof buf);
    aw_text_add(&text, "%d-", 12);
    aw_text_add_bytes(&text, "abc", 3);
    assert_string_equal(buf, "12-abc");
    assert_false(text.cut);
    aw_text_add(&text, "%s", "xyz");
    assert_string_equal(buf, "12-abcx");
    assert_true(text.cut);
    aw_text_add_bytes(&text, "more", 4);
    aw_text_add(&text, "more");
    assert_int_equal(text.len, 7);
    assert_string_equal(buf, "12-abcx");
}

static void quoting_shows_any_bytes_on_one_line(void **state)
{
    (void)state;
    char buf[AW_TEXT_QUOTE_MAX];
    assert_string_equal(aw_text_quote("abc", 3, buf, sizeof buf), "\"abc\"");
    assert_string_equal(aw_text_quote("a\n\"\xff\xc3\xa9", 6, buf, sizeof buf),
                        "\"a\\x0a\\\"\\xff\xc3\xa9\"");
    /* U+009B steers some terminals as ESC [ does; U+00A0 behind it is a character like others */
    assert_string_equal(aw_text_quote("\xc2\x9b\xc2\xa0", 4, buf, sizeof buf),
                        "\"\\xc2\\x9b\xc2\xa0\"");
    char noise[1000];
    memset(noise, 1, sizeof noise);
    aw_text_quote(noise, sizeof noise, buf, sizeof buf);
    assert_string_equal(buf + strlen(buf) - 7, "x01...\"");
    assert_int_equal(strlen(buf), 4 * AW_TEXT_QUOTE_SHOWN + 5);
}

static void numbers_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        double value;
        const char *why;
    } table[] = {
        {"0.5", AW_OK, 0.5, "plain"},
        {".5", AW_OK, 0.5, "no digit before the point"},
        {"5.", AW_OK, 5, "none after"},
        {"-1e-3", AW_OK, -0.001, "exponent"},
        {"1e-999", AW_OK, 0, "too small becomes 0"},
        {"1e999", AW_ERR_RANGE, 0, "overflow is not infinity"},
        {"", AW_ERR_FORMAT, 0, "empty"},
        {".", AW_ERR_FORMAT, 0, "no digits"},
        {" 1", AW_ERR_FORMAT, 0, "space"},
        {"1 ", AW_ERR_FORMAT, 0, "trailing space"},
        {"0x10", AW_ERR_FORMAT, 0, "strtod would take hexadecimal"},
        {"inf", AW_ERR_FORMAT, 0, "and infinity"},
        {"nan", AW_ERR_FORMAT, 0, "and NaN"},
        {"1e", AW_ERR_FORMAT, 0, "empty exponent"},
        {"1,5", AW_ERR_FORMAT, 0, "comma"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        double value = 7;
        float narrow = 7;
        assert_int_equal(aw_text_parse_real(table[i].text, &value), table[i].err);
        assert_int_equal(aw_text_parse_real_f32(table[i].text, &narrow), table[i].err);
        assert_true(value == (table[i].err ? 7 : table[i].value));
    }
    uint64_t whole = 7;
    assert_ok(aw_text_parse_u64("1_000_000", &whole));
    assert_int_equal(whole, 1000000);
    assert_ok(aw_text_parse_u64("18446744073709551615", &whole));
    assert_true(whole == UINT64_MAX);
    assert_int_equal(aw_text_parse_u64("18446744073709551616", &whole), AW_ERR_RANGE);
    const char *bad[] = {"", "_1", "1_", "1__0", "-1", "+1", "1.0", "0x1", " 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(aw_text_parse_u64(bad[i], &whole), AW_ERR_FORMAT);
    assert_true(whole == UINT64_MAX);
}

static void a_printed_number_reads_back_to_the_same_bits(void **state)
{
    (void)state;
    char buf[AW_TEXT_REAL_MAX];
    assert_string_equal(aw_text_real(0.1, buf, sizeof buf), "0.1");
    assert_string_equal(aw_text_real_f32(0.1f, buf, sizeof buf), "0.1");
    assert_string_equal(aw_text_real(1.0 / 3, buf, sizeof buf), "0.3333333333333333");
    assert_string_equal(aw_text_real(-HUGE_VAL, buf, sizeof buf), "-inf");
    assert_string_equal(aw_text_real_f32(NAN, buf, sizeof buf), "nan");
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (int i = 0; i < 100000; i++) {
        union {
            uint64_t bits;
            double wide;
        } a = {aw_rng_u64(&rng)}, b = {0};
        union {
            uint32_t bits;
            float narrow;
        } c = {(uint32_t)aw_rng_u64(&rng)}, d = {0};
        if (isfinite(a.wide)) {
            assert_ok(aw_text_parse_real(aw_text_real(a.wide, buf, sizeof buf), &b.wide));
            assert_true(a.bits == b.bits);
        }
        if (isfinite(c.narrow)) {
            assert_ok(
                aw_text_parse_real_f32(aw_text_real_f32(c.narrow, buf, sizeof buf), &d.narrow));
            assert_true(c.bits == d.bits);
        }
    }
}

/* Only meaningful where such a locale is installed; elsewhere the same checks hold trivially. */
static void the_locale_does_not_reach_numbers(void **state)
{
    (void)state;
    char buf[AW_TEXT_REAL_MAX];
    double value = 0;
    const char *comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
    for (size_t i = 0; i < 3 && !setlocale(LC_NUMERIC, comma[i]); i++)
        continue;
    assert_string_equal(aw_text_real(0.5, buf, sizeof buf), "0.5");
    assert_ok(aw_text_parse_real("0.25", &value));
    assert_true(value == 0.25);
    setlocale(LC_NUMERIC, "C");
}

static void only_wellformed_utf8_passes(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t bad;
        const char *why;
    } table[] = {
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10, "one to four bytes"},
        {"ab\x80", 2, "a lone continuation"},
        {"\xc0\xaf", 0, "over-long slash"},
        {"\xe0\x80\x80", 0, "over-long in three"},
        {"\xed\xa0\x80", 0, "surrogate"},
        {"\xf4\x90\x80\x80", 0, "beyond U+10FFFF"},
        {"\xf5\x80\x80\x80", 0, "no such lead"},
        {"x\xe2\x82", 1, "cut short"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(aw_text_utf8_bad(table[i].bytes, strlen(table[i].bytes)), table[i].bad);
}

static void a_place_counts_lines_and_bytes(void **state)
{
    (void)state;
    uint32_t line, column;
    aw_text_place("ab\ncd\n", 0, &line, &column);
    assert_true(line == 1 && column == 1);
    aw_text_place("ab\ncd\n", 4, &line, &column);
    assert_true(line == 2 && column == 2);
    aw_text_place("ab\ncd\n", 6, &line, &column);
    assert_true(line == 3 && column == 1);
}

AW_TEST_GROUP("text")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_builder_stops_at_its_end_and_says_so),
        cmocka_unit_test(quoting_shows_any_bytes_on_one_line),
        cmocka_unit_test(numbers_are_read_strictly),
        cmocka_unit_test(a_printed_number_reads_back_to_the_same_bits),
        cmocka_unit_test(the_locale_does_not_reach_numbers),
        cmocka_unit_test(only_wellformed_utf8_passes),
        cmocka_unit_test(a_place_counts_lines_and_bytes),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
