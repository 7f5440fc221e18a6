/*
 * quantity.c - exact decimal amounts, durations and rates.
 *
 * A number is held as digits * 10^exponent, with at most 20 significant digits. That is below 2^67,
 * so times 2^60 (Ei) or a day in microseconds it still fits 128 bits: every step is exact until
 * the one division at the end, which rounds up.
 */
#include "base/quantity.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef unsigned __int128 u128;

struct decimal {
    u128 digits;
    int exponent; /* of ten */
    bool negative;
    bool too_long; /* more than AW_QUANTITY_DIGITS_MAX significant digits */
};

/* Reads a sign and digits with at most one point; returns what follows, NULL without any digit.
 * Zeros at either end cost no significant digit, so 1000000000000000000000000 is 1 * 10^24. */
static const char *read_decimal(const char *at, struct decimal *ret)
{
    struct decimal number = {.negative = *at == '-'};
    unsigned seen = 0, significant = 0, zeros = 0;
    int after_point = 0;
    bool point = false;
    at += *at == '-' || *at == '+';
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        seen++;
        after_point += point;
        if (*at == '0') {
            zeros += significant > 0;
            continue;
        }
        significant += zeros + 1;
        if (significant > AW_QUANTITY_DIGITS_MAX) {
            number.too_long = true;
            continue;
        }
        for (; zeros; zeros--)
            number.digits *= 10;
        number.digits = number.digits * 10 + (unsigned)(*at - '0');
    }
    number.exponent = (int)zeros - after_point;
    *ret = number;
    return seen ? at : NULL;
}

/* value * 10^exponent, rounded up; false when beyond INT64_MAX. `value` is below 2^127. */
static bool scale_up(u128 value, int exponent, int64_t *ret)
{
    if (value == 0)
        exponent = 0;
    for (; exponent > 0; exponent--) {
        if (value > INT64_MAX)
            return false;
        value *= 10;
    }
    if (exponent < -38) { /* 10^39 is above 2^127: a sliver of one unit is left */
        value = 1;
    } else if (exponent < 0) {
        u128 divisor = 1;
        for (; exponent < 0; exponent++)
            divisor *= 10;
        value = value / divisor + (value % divisor != 0);
    }
    if (value > INT64_MAX)
        return false;
    *ret = (int64_t)value;
    return true;
}

static enum aw_err refuse(struct aw_diag *diag, enum aw_err err, const char *expected,
                          const char *text)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail(diag, err, "expected %s, found %s", expected,
                   aw_text_quote(text, strlen(text), quoted, sizeof quoted));
}

#define EXPECTED_DIGITS "at most 20 significant digits"

struct suffix {
    const char *name;
    int ten; /* power of ten */
    int two; /* power of two */
};

/* From small to large; printing relies on the order. */
static const struct suffix decimal_suffix[] = {
    {"n", -9, 0}, {"u", -6, 0}, {"m", -3, 0}, {"", 0, 0},   {"k", 3, 0},
    {"M", 6, 0},  {"G", 9, 0},  {"T", 12, 0}, {"P", 15, 0}, {"E", 18, 0},
};
static const struct suffix binary_suffix[] = {
    {"", 0, 0},    {"Ki", 0, 10}, {"Mi", 0, 20}, {"Gi", 0, 30},
    {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};
#define DECIMAL_COUNT (sizeof decimal_suffix / sizeof decimal_suffix[0])
#define DECIMAL_ONE   3u /* index of "" */
#define BINARY_COUNT  (sizeof binary_suffix / sizeof binary_suffix[0])

/* e or E, a sign, digits, and nothing after. Values beyond any use are held at the limit. */
static bool read_exponent(const char *at, int *ret)
{
    enum { LIMIT = 100000000 };
    if (*at != 'e' && *at != 'E')
        return false;
    at++;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    if (!*at)
        return false;
    int value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        value = value < LIMIT ? value * 10 + (*at - '0') : LIMIT;
    *ret = negative ? -value : value;
    return *at == 0;
}

static bool read_suffix(const char *at, int *ret_ten, int *ret_two)
{
    for (size_t i = 0; i < DECIMAL_COUNT; i++) {
        if (strcmp(at, decimal_suffix[i].name) == 0) {
            *ret_ten = decimal_suffix[i].ten;
            *ret_two = 0;
            return true;
        }
    }
    for (size_t i = 0; i < BINARY_COUNT; i++) {
        if (strcmp(at, binary_suffix[i].name) == 0) {
            *ret_ten = 0;
            *ret_two = binary_suffix[i].two;
            return true;
        }
    }
    *ret_two = 0;
    return read_exponent(at, ret_ten); /* 1E is exa, 1E3 a thousand */
}

static enum aw_err parse_amount(const char *text, int scale, bool negative_ok, int64_t *ret,
                                struct aw_diag *diag, const char *expected)
{
    struct decimal number;
    int ten, two;
    int64_t value;
    const char *at = read_decimal(text, &number);
    if (!at || !read_suffix(at, &ten, &two))
        return refuse(diag, AW_ERR_FORMAT, expected, text);
    if (number.too_long)
        return refuse(diag, AW_ERR_RANGE, EXPECTED_DIGITS, text);
    if (number.negative && number.digits && !negative_ok)
        return refuse(diag, AW_ERR_RANGE, "an amount that is not negative", text);
    if (!scale_up(number.digits << two, number.exponent + ten + scale, &value))
        return refuse(diag, AW_ERR_RANGE, "an amount that fits 64 bits", text);
    *ret = number.negative ? -value : value;
    return AW_OK;
}

enum aw_err aw_quantity_parse(const char *text, enum aw_quantity_scale scale,
                              enum aw_quantity_flag flag, int64_t *ret, struct aw_diag *diag)
{
    return parse_amount(text, (int)scale, flag == AW_QUANTITY_NEGATIVE_OK, ret, diag,
                        "an amount such as 250m, 2 or 1.5Gi");
}

enum aw_err aw_quantity_parse_cpu(const char *text, int64_t *ret_millicores, struct aw_diag *diag)
{
    return parse_amount(text, AW_QUANTITY_MILLI, false, ret_millicores, diag,
                        "an amount of CPU such as 250m or 1.5");
}

enum aw_err aw_quantity_parse_memory(const char *text, int64_t *ret_bytes, struct aw_diag *diag)
{
    return parse_amount(text, AW_QUANTITY_WHOLE, false, ret_bytes, diag,
                        "an amount of memory such as 512Mi or 1.5Gi");
}

/* `factor` * 10^`ten` microseconds; from large to small. */
static const struct {
    const char *name;
    int64_t factor;
    int ten;
} duration_unit[] = {
    {"d", 86400, 6}, {"h", 3600, 6}, {"m", 60, 6},  {"s", 1, 6},
    {"ms", 1, 3},    {"us", 1, 0},   {"ns", 1, -3},
};
#define DURATION_COUNT (sizeof duration_unit / sizeof duration_unit[0])

enum aw_err aw_duration_parse(const char *text, enum aw_quantity_flag flag, int64_t *ret_us,
                              struct aw_diag *diag)
{
    static const char expected[] = "a duration such as 200ms, 15s or 2h30m";
    int64_t total = 0, part;
    size_t unit = 0; /* the largest that may still come */
    const char *at = text;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    do {
        struct decimal number;
        if (*at == '-' || *at == '+' || !(at = read_decimal(at, &number)))
            return refuse(diag, AW_ERR_FORMAT, expected, text);
        if (number.too_long)
            return refuse(diag, AW_ERR_RANGE, EXPECTED_DIGITS, text);
        size_t len = strcspn(at, "0123456789.+-");
        if (len == 0 && !*at && unit == 0 && number.digits == 0)
            break; /* 0 is 0 in every unit */
        while (unit < DURATION_COUNT && (strlen(duration_unit[unit].name) != len ||
                                         memcmp(duration_unit[unit].name, at, len) != 0))
            unit++;
        if (unit == DURATION_COUNT)
            return refuse(diag, AW_ERR_FORMAT, expected, text);
        if (!scale_up(number.digits * (u128)duration_unit[unit].factor,
                      number.exponent + duration_unit[unit].ten, &part) ||
            __builtin_add_overflow(total, part, &total))
            return refuse(diag, AW_ERR_RANGE, "a duration that fits 64 bits of microseconds", text);
        at += len;
        unit++;
    } while (*at);
    if (negative && total && flag != AW_QUANTITY_NEGATIVE_OK)
        return refuse(diag, AW_ERR_RANGE, "a duration that is not negative", text);
    *ret_us = negative ? -total : total;
    return AW_OK;
}

static const struct {
    char name;
    double seconds;
} rate_unit[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
#define RATE_COUNT     (sizeof rate_unit / sizeof rate_unit[0])
#define RATE_LEN_SHORT 10u /* bytes, as in 12345678/s; longer texts try another unit */

enum aw_err aw_rate_parse(const char *text, double *ret_per_second, struct aw_diag *diag)
{
    static const char expected[] = "a rate such as 100/s, 6000/m or 5/h";
    char number[64];
    double value, factor = 1, seconds = 0;
    size_t len = strcspn(text, "/");
    if (len == 0 || len >= sizeof number || text[len] != '/')
        return refuse(diag, AW_ERR_FORMAT, expected, text);
    for (size_t i = 0; i < RATE_COUNT; i++)
        if (text[len + 1] == rate_unit[i].name && !text[len + 2])
            seconds = rate_unit[i].seconds;
    memcpy(number, text, len);
    number[len] = 0;
    for (size_t i = DECIMAL_ONE + 1; i < DECIMAL_COUNT; i++) {
        if (number[len - 1] == decimal_suffix[i].name[0]) {
            number[len - 1] = 0;
            for (int k = 0; k < decimal_suffix[i].ten; k++)
                factor *= 10;
            break;
        }
    }
    enum aw_err err = aw_text_parse_real(number, &value);
    if (err == AW_ERR_FORMAT || seconds == 0)
        return refuse(diag, AW_ERR_FORMAT, expected, text);
    if (!err && value < 0)
        return refuse(diag, AW_ERR_RANGE, "a rate that is not negative", text);
    if (err || !isfinite(value * factor))
        return refuse(diag, AW_ERR_RANGE, "a rate that is a finite number", text);
    *ret_per_second = value == 0 ? 0 : value * factor / seconds;
    return AW_OK;
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

static uint64_t power_of_ten(int n)
{
    uint64_t power = 1;
    while (n-- > 0)
        power *= 10;
    return power;
}

/* value / 10^decimals without trailing zeros. */
static void add_fixed(struct aw_text *out, uint64_t value, int decimals)
{
    for (; decimals > 0 && value % 10 == 0; decimals--)
        value /= 10;
    uint64_t unit = power_of_ten(decimals);
    aw_text_add(out, "%" PRIu64, value / unit);
    if (decimals > 0)
        aw_text_add(out, ".%0*" PRIu64, decimals, value % unit);
}

static void begin(struct aw_text *out, char *buf, size_t size, bool negative)
{
    AW_ASSERT(size >= AW_QUANTITY_TEXT_MAX);
    aw_text_init(out, buf, size);
    if (negative)
        aw_text_add(out, "-");
}

const char *aw_quantity_print_cpu(int64_t value, enum aw_quantity_scale scale, char *buf,
                                  size_t size)
{
    struct aw_text out;
    uint64_t amount = magnitude(value);
    begin(&out, buf, size, value < 0);
    /* The largest suffix up to whole cores that leaves at least one. */
    int decimals = (int)scale;
    while (decimals > 0 && amount < power_of_ten(decimals))
        decimals -= 3;
    size_t suffix = DECIMAL_ONE - (size_t)((int)scale - decimals) / 3;
    add_fixed(&out, amount, decimals);
    if (amount)
        aw_text_add(&out, "%s", decimal_suffix[suffix].name);
    return buf;
}

/* Bytes in one `suffix` that is not below one. */
static uint64_t suffix_bytes(const struct suffix *suffix)
{
    return power_of_ten(suffix->ten) << suffix->two;
}

/* `amount` in the largest of `count` suffixes that leaves at least one, if three decimals say it
 * exactly. False: they do not, and nothing was added. */
static bool exact_in(struct aw_text *out, uint64_t amount, const struct suffix *suffix,
                     size_t count)
{
    size_t i = count - 1;
    while (i > 0 && suffix_bytes(&suffix[i]) > amount)
        i--;
    uint64_t unit = suffix_bytes(&suffix[i]);
    u128 thousandths = (u128)(amount % unit) * 1000;
    if (thousandths % unit != 0)
        return false;
    add_fixed(out, amount / unit * 1000 + (uint64_t)(thousandths / unit), 3);
    aw_text_add(out, "%s", suffix[i].name);
    return true;
}

const char *aw_quantity_print_memory(int64_t bytes, char *buf, size_t size)
{
    struct aw_text out;
    uint64_t amount = magnitude(bytes);
    begin(&out, buf, size, bytes < 0);
    if (exact_in(&out, amount, binary_suffix, BINARY_COUNT))
        return buf;
    char plain[AW_QUANTITY_TEXT_MAX];
    struct aw_text digits;
    begin(&digits, plain, sizeof plain, bytes < 0);
    aw_text_add(&digits, "%" PRIu64, amount);
    if (exact_in(&out, amount, decimal_suffix + DECIMAL_ONE, DECIMAL_COUNT - DECIMAL_ONE) &&
        out.len <= digits.len)
        return buf;
    aw_text_init(&out, buf, size);
    aw_text_add(&out, "%s", plain);
    return buf;
}

#define US_PER_MS ((uint64_t)1000)
#define US_PER_S  ((uint64_t)1000000)
#define US_PER_M  (60 * US_PER_S)
#define US_PER_H  (60 * US_PER_M)
#define US_PER_D  (24 * US_PER_H)

static void add_duration(struct aw_text *out, uint64_t us)
{
    static const struct {
        char name;
        uint64_t us;
    } part[] = {{'d', US_PER_D}, {'h', US_PER_H}, {'m', US_PER_M}};
    if (us < US_PER_S) {
        if (us == 0)
            aw_text_add(out, "0s");
        else if (us < US_PER_MS)
            aw_text_add(out, "%" PRIu64 "us", us);
        else {
            add_fixed(out, us, 3);
            aw_text_add(out, "ms");
        }
        return;
    }
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (us >= part[i].us)
            aw_text_add(out, "%" PRIu64 "%c", us / part[i].us, part[i].name);
        us %= part[i].us;
    }
    if (us) {
        add_fixed(out, us, 6);
        aw_text_add(out, "s");
    }
}

const char *aw_duration_print(int64_t us, char *buf, size_t size)
{
    struct aw_text out;
    begin(&out, buf, size, us < 0);
    add_duration(&out, magnitude(us));
    return buf;
}

const char *aw_rate_print(double per_second, char *buf, size_t size)
{
    char number[AW_TEXT_REAL_MAX], text[AW_QUANTITY_TEXT_MAX];
    struct aw_text out, candidate;
    begin(&out, buf, size, false);
    for (size_t i = 0; i < RATE_COUNT; i++) {
        double back;
        aw_text_init(&candidate, text, sizeof text);
        aw_text_add(&candidate, "%s/%c",
                    aw_text_real(per_second * rate_unit[i].seconds, number, sizeof number),
                    rate_unit[i].name);
        /* Per second is exact by itself. Another unit is for what is unwieldy per second; it must
         * be shorter, and prove that it is exact. */
        bool better = i == 0 || (out.len > RATE_LEN_SHORT && candidate.len < out.len &&
                                 aw_rate_parse(text, &back, NULL) == AW_OK && back == per_second);
        if (better) {
            aw_text_init(&out, buf, size);
            aw_text_add(&out, "%s", text);
        }
    }
    return buf;
}

/* amount / unit to three significant digits; `unit` below 2^100, the quotient below 10^15. */
static void add_rounded(struct aw_text *out, u128 amount, u128 unit)
{
    int decimals = amount >= 100 * unit ? 0 : amount >= 10 * unit ? 1 : amount >= unit ? 2 : 3;
    uint64_t value;
    for (;; decimals--) {
        value = (uint64_t)((2 * amount * power_of_ten(decimals) + unit) / (2 * unit));
        /* 9.999 has become 10.00: one decimal less */
        if (value < 1000 || decimals == 0)
            break;
    }
    add_fixed(out, value, decimals);
}

const char *aw_quantity_round_cpu(int64_t value, enum aw_quantity_scale scale, char *buf,
                                  size_t size)
{
    struct aw_text out;
    uint64_t amount = magnitude(value);
    begin(&out, buf, size, value < 0);
    size_t i = DECIMAL_ONE - (size_t)scale / 3;
    u128 unit = 1;
    /* 999.5 and above would show four digits */
    while (i + 1 < DECIMAL_COUNT && (u128)amount * 2 >= unit * 1999) {
        unit *= 1000;
        i++;
    }
    add_rounded(&out, amount, unit);
    if (amount)
        aw_text_add(&out, "%s", decimal_suffix[i].name);
    return buf;
}

const char *aw_quantity_round_memory(int64_t bytes, char *buf, size_t size)
{
    struct aw_text out;
    uint64_t amount = magnitude(bytes);
    begin(&out, buf, size, bytes < 0);
    size_t i = 0;
    u128 unit = 1;
    while (i + 1 < BINARY_COUNT && (u128)amount * 2 >= unit * 1999) {
        unit *= 1024;
        i++;
    }
    add_rounded(&out, amount, unit);
    aw_text_add(&out, "%s", binary_suffix[i].name);
    return buf;
}

const char *aw_duration_round(int64_t us, char *buf, size_t size)
{
    struct aw_text out;
    uint64_t amount = magnitude(us);
    begin(&out, buf, size, us < 0);
    if (amount >= 59950 * US_PER_MS) { /* two parts: days and hours, hours and minutes, ... */
        uint64_t step = amount >= US_PER_D ? US_PER_H : amount >= US_PER_H ? US_PER_M : US_PER_S;
        add_duration(&out, (amount + step / 2) / step * step);
    } else if (amount >= 999500) {
        add_rounded(&out, amount, US_PER_S);
        aw_text_add(&out, "s");
    } else if (amount >= US_PER_MS) {
        add_rounded(&out, amount, US_PER_MS);
        aw_text_add(&out, "ms");
    } else {
        add_duration(&out, amount);
    }
    return buf;
}

const char *aw_rate_round(double per_second, char *buf, size_t size)
{
    struct aw_text out;
    if (!(per_second >= 0 && per_second < 1e20))
        return aw_rate_print(per_second, buf, size);
    begin(&out, buf, size, false);
    size_t suffix = DECIMAL_ONE, unit = 0;
    double value = per_second;
    while (value >= 999.5) {
        value /= 1000;
        suffix++;
    }
    while (per_second > 0 && value < 0.1 && suffix == DECIMAL_ONE && unit + 1 < RATE_COUNT)
        value = per_second * rate_unit[++unit].seconds;
    uint64_t millionths = (uint64_t)llround(value * 1e6);
    add_rounded(&out, millionths, 1000000);
    aw_text_add(&out, "%s/%c", decimal_suffix[suffix].name, rate_unit[unit].name);
    return buf;
}
