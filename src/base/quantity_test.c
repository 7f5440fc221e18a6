#include "base/quantity.h"

#include "base/rng.h"
#include "base/testing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static char buf[AW_QUANTITY_TEXT_MAX];

static void amounts_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_quantity_scale scale;
        int64_t value; /* -1: refused */
        const char *why;
    } table[] = {
        {"250m", AW_QUANTITY_MILLI, 250, "millicores"},
        {"2", AW_QUANTITY_MILLI, 2000, "cores"},
        {"0.5", AW_QUANTITY_MILLI, 500, "half a core"},
        {".5", AW_QUANTITY_MILLI, 500, "Kubernetes takes it"},
        {"5.", AW_QUANTITY_MILLI, 5000, "and this"},
        {"+1", AW_QUANTITY_MILLI, 1000, "and a plus"},
        {"1e3", AW_QUANTITY_WHOLE, 1000, "exponent"},
        {"1E3", AW_QUANTITY_WHOLE, 1000, "exponent"},
        {"1E", AW_QUANTITY_WHOLE, 1000000000000000000, "exa"},
        {"1e-3", AW_QUANTITY_MILLI, 1, "negative exponent"},
        {"100M", AW_QUANTITY_WHOLE, 100000000, "decimal mega"},
        {"1.5Gi", AW_QUANTITY_WHOLE, 1610612736, "binary giga"},
        {"1Ki", AW_QUANTITY_WHOLE, 1024, "binary kilo"},
        {"7Ei", AW_QUANTITY_WHOLE, 7 * ((int64_t)1 << 60), "largest suffix"},
        {"8Ei", AW_QUANTITY_WHOLE, -1, "2^63 does not fit"},
        {"9223372036854775807", AW_QUANTITY_WHOLE, INT64_MAX, "the largest"},
        {"9223372036854775808", AW_QUANTITY_WHOLE, -1, "one more"},
        {"9223372036854775.807", AW_QUANTITY_MILLI, INT64_MAX, "the largest in millis"},
        {"1n", AW_QUANTITY_MILLI, 1, "finer than the unit: up"},
        {"1.0001", AW_QUANTITY_MILLI, 1001, "up"},
        {"1.000", AW_QUANTITY_MILLI, 1000, "zeros are not finer"},
        {"100m", AW_QUANTITY_WHOLE, 1, "a tenth of a byte is a byte"},
        {"123456789n", AW_QUANTITY_NANO, 123456789, "as metrics.k8s.io reports"},
        {"0.1Ki", AW_QUANTITY_WHOLE, 103, "102.4, up"},
        {"1e-999999999999", AW_QUANTITY_WHOLE, 1, "a sliver is one"},
        {"1e999999999999", AW_QUANTITY_WHOLE, -1, "too large"},
        {"0e999999999999", AW_QUANTITY_WHOLE, 0, "zero stays zero"},
        {"1000000000000000000000000e-6", AW_QUANTITY_WHOLE, 1000000000000000000,
         "zeros cost no digits"},
        {"0.000000000000000000000000000001", AW_QUANTITY_WHOLE, 1, "nor here"},
        {"12345678901234567890", AW_QUANTITY_WHOLE, -1, "twenty digits, too large"},
        {"1.23456789012345678901", AW_QUANTITY_WHOLE, -1, "twenty-one digits"},
        {"-1", AW_QUANTITY_WHOLE, -1, "negative"},
        {"-0", AW_QUANTITY_WHOLE, 0, "zero is not negative"},
        {"", AW_QUANTITY_WHOLE, -1, "empty"},
        {"m", AW_QUANTITY_WHOLE, -1, "no number"},
        {".", AW_QUANTITY_WHOLE, -1, "no digit"},
        {"1 Gi", AW_QUANTITY_WHOLE, -1, "space"},
        {" 1", AW_QUANTITY_WHOLE, -1, "space"},
        {"1gi", AW_QUANTITY_WHOLE, -1, "case matters"},
        {"1K", AW_QUANTITY_WHOLE, -1, "kilo is k"},
        {"1GB", AW_QUANTITY_WHOLE, -1, "no unit"},
        {"1e", AW_QUANTITY_WHOLE, -1, "no exponent"},
        {"1e3Ki", AW_QUANTITY_WHOLE, -1, "one of the two"},
        {"1..5", AW_QUANTITY_WHOLE, -1, "two points"},
        {"--1", AW_QUANTITY_WHOLE, -1, "two signs"},
        {"0x10", AW_QUANTITY_WHOLE, -1, "hexadecimal"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t value = -1;
        struct aw_diag diag = {0};
        enum aw_err err = aw_quantity_parse(table[i].text, table[i].scale,
                                            AW_QUANTITY_POSITIVE_OR_0, &value, &diag);
        if (value != table[i].value || (err == AW_OK) != (table[i].value >= 0))
            fail_msg("\"%s\" (%s): %" PRId64 ", %s", table[i].text, table[i].why, value, diag.text);
        assert_int_equal(err != AW_OK, diag.text[0] != 0);
    }
    int64_t value = 0;
    assert_ok(
        aw_quantity_parse("-1.5Ki", AW_QUANTITY_WHOLE, AW_QUANTITY_NEGATIVE_OK, &value, NULL));
    assert_int_equal(value, -1536);
    assert_ok(aw_quantity_parse("-0.1", AW_QUANTITY_WHOLE, AW_QUANTITY_NEGATIVE_OK, &value, NULL));
    assert_int_equal(value, -1); /* away from zero */
}

static void refusals_say_what_was_expected(void **state)
{
    (void)state;
    struct aw_diag diag;
    int64_t value;
    double rate;
    assert_int_equal(aw_quantity_parse_cpu("two", &value, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.text, "expected an amount of CPU such as 250m or 1.5, found \"two\"");
    assert_int_equal(aw_quantity_parse_memory("1GB", &value, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.text,
                        "expected an amount of memory such as 512Mi or 1.5Gi, found \"1GB\"");
    assert_int_equal(aw_quantity_parse_memory("-1", &value, &diag), AW_ERR_RANGE);
    assert_string_equal(diag.text, "expected an amount that is not negative, found \"-1\"");
    assert_int_equal(aw_quantity_parse_memory("1e30", &value, &diag), AW_ERR_RANGE);
    assert_string_equal(diag.text, "expected an amount that fits 64 bits, found \"1e30\"");
    assert_int_equal(aw_duration_parse("15", AW_QUANTITY_POSITIVE_OR_0, &value, &diag),
                     AW_ERR_FORMAT);
    assert_string_equal(diag.text, "expected a duration such as 200ms, 15s or 2h30m, found \"15\"");
    assert_int_equal(aw_rate_parse("100", &rate, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.text, "expected a rate such as 100/s, 6000/m or 5/h, found \"100\"");
}

/* A naive twin: schoolbook arithmetic on an array of decimal digits. */
static bool twin_parse(const char *digits, int decimals, int two, int ten, int64_t *ret)
{
    enum { CELLS = 160, POINT = 80 }; /* cell POINT holds the ones */
    int cell[CELLS] = {0};
    int n = (int)strlen(digits);
    for (int i = 0; i < n; i++)
        cell[POINT + (n - 1 - i) - decimals + ten] = digits[i] - '0';
    for (int k = 0; k < two; k++) {
        int carry = 0;
        for (int i = 0; i < CELLS; i++) {
            int doubled = 2 * cell[i] + carry;
            cell[i] = doubled % 10;
            carry = doubled / 10;
        }
    }
    bool finer = false;
    for (int i = 0; i < POINT; i++)
        finer |= cell[i] != 0;
    unsigned __int128 value = 0;
    for (int i = CELLS - 1; i >= POINT; i--) {
        value = value * 10 + (unsigned)cell[i];
        if (value > INT64_MAX)
            return false;
    }
    value += finer;
    if (value > INT64_MAX)
        return false;
    *ret = (int64_t)value;
    return true;
}

static void amounts_agree_with_schoolbook_arithmetic(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int ten, two;
    } suffix[] = {{"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},    {"", 0, 0},    {"k", 3, 0},
                  {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},    {"P", 15, 0},  {"E", 18, 0},
                  {"Ki", 0, 10}, {"Mi", 0, 20}, {"Gi", 0, 30},   {"Ti", 0, 40}, {"Pi", 0, 50},
                  {"Ei", 0, 60}, {"e7", 7, 0},  {"E-12", -12, 0}};
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 0);
    uint32_t accepted = 0;
    for (int round = 0; round < 100000; round++) {
        char digits[32], text[64];
        int n = 1 + (int)aw_rng_below(&rng, AW_QUANTITY_DIGITS_MAX);
        for (int i = 0; i < n; i++)
            digits[i] = (char)('0' + aw_rng_below(&rng, 10));
        digits[n] = 0;
        int decimals = (int)aw_rng_below(&rng, (uint32_t)n + 1);
        size_t s = aw_rng_below(&rng, sizeof suffix / sizeof suffix[0]);
        int scale = 3 * (int)aw_rng_below(&rng, 4);
        snprintf(text, sizeof text, "%.*s%s%s%s", n - decimals, digits, decimals ? "." : "",
                 digits + n - decimals, suffix[s].name);
        int64_t want = -1, got = -1;
        bool fits = twin_parse(digits, decimals, suffix[s].two, suffix[s].ten + scale, &want);
        enum aw_err err = aw_quantity_parse(text, (enum aw_quantity_scale)scale,
                                            AW_QUANTITY_POSITIVE_OR_0, &got, NULL);
        if (err != (fits ? AW_OK : AW_ERR_RANGE) || got != want)
            fail_msg("%s at scale %d: %" PRId64 " and %" PRId64, text, scale, got, want);
        accepted += fits;
    }
    assert_true(accepted > 30000);
}

static void durations_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
        const char *why;
    } table[] = {
        {"200ms", 200000, ""},
        {"15s", 15000000, ""},
        {"2h30m", 9000000000, "two parts"},
        {"1.5h", 5400000000, "a fraction"},
        {"1d", 86400000000, "a day"},
        {"1d1h1m1s1ms1us", 90061001001, "all parts"},
        {"1d1us", 86400000001, "parts may be left out"},
        {"0", 0, "zero needs no unit"},
        {"0s", 0, ""},
        {"1ns", 1, "finer than the unit: up"},
        {"1500ns", 2, "up"},
        {"0.1us", 1, "up"},
        {"106751991d", 9223372022400000000, "close to the largest"},
        {"106751992d", -1, "beyond"},
        {"9223372036854775807us1ns", -1, "the sum is beyond"},
        {"15", -1, "no unit"},
        {"0s0", -1, "no unit in a later part"},
        {"30m2h", -1, "wrong order"},
        {"1h1h", -1, "twice"},
        {"1h-5m", -1, "a sign inside"},
        {"1w", -1, "no such unit"},
        {"1min", -1, "no such unit"},
        {"1 s", -1, "space"},
        {"h", -1, "no number"},
        {"", -1, "empty"},
        {"-1s", -1, "negative"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t us = -1;
        enum aw_err err = aw_duration_parse(table[i].text, AW_QUANTITY_POSITIVE_OR_0, &us, NULL);
        if (us != table[i].us || (err == AW_OK) != (table[i].us >= 0))
            fail_msg("\"%s\" (%s): %" PRId64, table[i].text, table[i].why, us);
    }
    int64_t us = 0;
    assert_ok(aw_duration_parse("-1m30s", AW_QUANTITY_NEGATIVE_OK, &us, NULL));
    assert_int_equal(us, -90000000);
}

static void rates_are_read_per_second(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value; /* -1: refused */
    } table[] = {
        {"100/s", 100},     {"6000/m", 100}, {"5/h", 5.0 / 3600}, {"86400/d", 1}, {"1.5k/s", 1500},
        {"2M/m", 2e6 / 60}, {"1e3/s", 1000}, {"0/s", 0},          {"-0/s", 0},    {"100", -1},
        {"100/", -1},       {"/s", -1},      {"k/s", -1},         {"100/ms", -1}, {"100/s ", -1},
        {"1/s/s", -1},      {"-1/s", -1},    {"1e308k/s", -1},    {"nan/s", -1},  {"1m/s", -1},
        {"1e309/s", -1},    {"", -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        double value = -1;
        enum aw_err err = aw_rate_parse(table[i].text, &value, NULL);
        if (value != table[i].value || signbit(value) != (table[i].value < 0))
            fail_msg("\"%s\": %g", table[i].text, value);
        assert_int_equal(err == AW_OK, table[i].value >= 0);
    }
}

static void printing_suits_people(void **state)
{
    (void)state;
    static const struct {
        int64_t millicores;
        const char *exact, *rounded;
    } cpu[] = {
        {0, "0", "0"},           {250, "250m", "250m"},
        {1000, "1", "1"},        {1500, "1.5", "1.5"},
        {1234, "1.234", "1.23"}, {-1500, "-1.5", "-1.5"},
        {999, "999m", "999m"},   {120586239, "120586.239", "121k"},
        {999600, "999.6", "1k"},
    };
    for (size_t i = 0; i < sizeof cpu / sizeof cpu[0]; i++) {
        assert_string_equal(
            aw_quantity_print_cpu(cpu[i].millicores, AW_QUANTITY_MILLI, buf, sizeof buf),
            cpu[i].exact);
        assert_string_equal(
            aw_quantity_round_cpu(cpu[i].millicores, AW_QUANTITY_MILLI, buf, sizeof buf),
            cpu[i].rounded);
    }
    static const struct {
        int64_t nanocores;
        const char *exact, *rounded;
    } usage[] = {
        {123456789, "123.456789m", "123m"}, {1500, "1.5u", "1.5u"},          {7, "7n", "7n"},
        {2000000001, "2.000000001", "2"},   {999999999, "999.999999m", "1"},
    };
    for (size_t i = 0; i < sizeof usage / sizeof usage[0]; i++) {
        assert_string_equal(
            aw_quantity_print_cpu(usage[i].nanocores, AW_QUANTITY_NANO, buf, sizeof buf),
            usage[i].exact);
        assert_string_equal(
            aw_quantity_round_cpu(usage[i].nanocores, AW_QUANTITY_NANO, buf, sizeof buf),
            usage[i].rounded);
    }
    static const struct {
        int64_t bytes;
        const char *exact, *rounded;
    } memory[] = {
        {0, "0", "0"},
        {1, "1", "1"},
        {1024, "1Ki", "1Ki"},
        {1610612736, "1.5Gi", "1.5Gi"},
        {100000000, "100M", "95.4Mi"},
        {262144000, "250Mi", "250Mi"},
        {123456000, "123.456M", "118Mi"},
        {262144LL << 10, "256Mi", "256Mi"},
        {1073741825, "1073741825", "1Gi"},
        {1001, "1001", "0.978Ki"},
        {999, "999", "999"},
        {1020 << 10, "1020Ki", "0.996Mi"},
        {-1536, "-1.5Ki", "-1.5Ki"},
        {INT64_MAX, "9223372036854775807", "8Ei"},
    };
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        assert_string_equal(aw_quantity_print_memory(memory[i].bytes, buf, sizeof buf),
                            memory[i].exact);
        assert_string_equal(aw_quantity_round_memory(memory[i].bytes, buf, sizeof buf),
                            memory[i].rounded);
    }
    static const struct {
        int64_t us;
        const char *exact, *rounded;
    } duration[] = {
        {0, "0s", "0s"},
        {7, "7us", "7us"},
        {200000, "200ms", "200ms"},
        {1500, "1.5ms", "1.5ms"},
        {12345, "12.345ms", "12.3ms"},
        {999600, "999.6ms", "1s"},
        {15000000, "15s", "15s"},
        {1234567, "1.234567s", "1.23s"},
        {59960000, "59.96s", "1m"},
        {9000000000, "2h30m", "2h30m"},
        {9012000000, "2h30m12s", "2h30m"},
        {86400000000, "1d", "1d"},
        {90061500000, "1d1h1m1.5s", "1d1h"},
        {86399000000, "23h59m59s", "1d"},
        {-90000000, "-1m30s", "-1m30s"},
    };
    for (size_t i = 0; i < sizeof duration / sizeof duration[0]; i++) {
        assert_string_equal(aw_duration_print(duration[i].us, buf, sizeof buf), duration[i].exact);
        assert_string_equal(aw_duration_round(duration[i].us, buf, sizeof buf),
                            duration[i].rounded);
    }
    static const struct {
        double per_second;
        const char *exact, *rounded;
    } rate[] = {
        {100, "100/s", "100/s"},         {0, "0/s", "0/s"},
        {5.0 / 3600, "5/h", "5/h"},      {0.5, "0.5/s", "0.5/s"},
        {0.05, "0.05/s", "3/m"},         {1234.5, "1234.5/s", "1.23k/s"},
        {999.6, "999.6/s", "1k/s"},      {1.0 / 86400, "1/d", "1/d"},
        {1e300, "1e+300/s", "1e+300/s"}, {12345678, "12345678/s", "12.3M/s"},
    };
    for (size_t i = 0; i < sizeof rate / sizeof rate[0]; i++) {
        assert_string_equal(aw_rate_print(rate[i].per_second, buf, sizeof buf), rate[i].exact);
        assert_string_equal(aw_rate_round(rate[i].per_second, buf, sizeof buf), rate[i].rounded);
    }
}

/* Numbers of every size, round ones among them. */
static int64_t any_value(struct aw_rng *rng)
{
    int64_t value = (int64_t)(aw_rng_u64(rng) >> (1 + aw_rng_below(rng, 63)));
    static const int64_t step[] = {1, 1, 1000, 1024, 1000000, 1 << 20, 500, 60000000};
    int64_t s = step[aw_rng_below(rng, 8)];
    value = value / s * s;
    return aw_rng_below(rng, 2) ? value : -value;
}

static void what_is_printed_reads_back_the_same(void **state)
{
    (void)state;
    static const enum aw_quantity_scale scale[] = {AW_QUANTITY_WHOLE, AW_QUANTITY_MILLI,
                                                   AW_QUANTITY_NANO};
    struct aw_rng rng;
    aw_rng_init(&rng, 6, 0);
    for (int i = 0; i < 200000; i++) {
        int64_t x = i == 0 ? INT64_MAX : i == 1 ? -INT64_MAX : any_value(&rng), back = 0;
        for (size_t s = 0; s < 3; s++) {
            aw_quantity_print_cpu(x, scale[s], buf, sizeof buf);
            assert_ok(aw_quantity_parse(buf, scale[s], AW_QUANTITY_NEGATIVE_OK, &back, NULL));
            assert_true(back == x);
        }
        aw_quantity_print_memory(x, buf, sizeof buf);
        assert_ok(aw_quantity_parse(buf, AW_QUANTITY_WHOLE, AW_QUANTITY_NEGATIVE_OK, &back, NULL));
        assert_true(back == x);
        aw_duration_print(x, buf, sizeof buf);
        assert_ok(aw_duration_parse(buf, AW_QUANTITY_NEGATIVE_OK, &back, NULL));
        assert_true(back == x);
    }
    for (int i = 0; i < 50000; i++) {
        union {
            uint64_t bits;
            double value;
        } x = {aw_rng_u64(&rng) >> 1};
        if (i & 1)
            x.value = aw_rng_below(&rng, 100000) / (double)(1 + aw_rng_below(&rng, 4000));
        double back = -1;
        if (!isfinite(x.value))
            continue;
        assert_ok(aw_rate_parse(aw_rate_print(x.value, buf, sizeof buf), &back, NULL));
        assert_true(back == x.value);
    }
}

/* Rounding for tables stays within half a unit of the third digit. */
static void what_is_rounded_is_near(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 7, 0);
    for (int i = 0; i < 100000; i++) {
        int64_t x = any_value(&rng), back = 0;
        double near = 0.0051 * fabs((double)x) + 1;
        /* the largest may round up beyond 64 bits */
        if (x > INT64_MAX / 2 || x < -INT64_MAX / 2)
            continue;
        aw_quantity_round_memory(x, buf, sizeof buf);
        assert_ok(aw_quantity_parse(buf, AW_QUANTITY_WHOLE, AW_QUANTITY_NEGATIVE_OK, &back, NULL));
        assert_true(fabs((double)back - (double)x) <= near);
        aw_quantity_round_cpu(x, AW_QUANTITY_MILLI, buf, sizeof buf);
        assert_ok(aw_quantity_parse(buf, AW_QUANTITY_MILLI, AW_QUANTITY_NEGATIVE_OK, &back, NULL));
        assert_true(fabs((double)back - (double)x) <= near);
        aw_duration_round(x, buf, sizeof buf);
        assert_ok(aw_duration_parse(buf, AW_QUANTITY_NEGATIVE_OK, &back, NULL));
        /* two parts of a duration: at worst half an hour of a day */
        assert_true(fabs((double)back - (double)x) <= 0.021 * fabs((double)x) + 1);
    }
}

AW_TEST_GROUP("quantity")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_read_exactly),
        cmocka_unit_test(refusals_say_what_was_expected),
        cmocka_unit_test(amounts_agree_with_schoolbook_arithmetic),
        cmocka_unit_test(durations_are_read_exactly),
        cmocka_unit_test(rates_are_read_per_second),
        cmocka_unit_test(printing_suits_people),
        cmocka_unit_test(what_is_printed_reads_back_the_same),
        cmocka_unit_test(what_is_rounded_is_near),
    };
    return cmocka_run_group_tests_name("quantity", tests, NULL, NULL);
}
