/* fuzz_quantity.c - what reads as an amount, duration or rate prints to text that reads the same.
 */
#include "fuzz.h"

#include "base/quantity.h"

#include <math.h>
#include <string.h>

#define TEXT_BYTES_MAX 4096u

static void check_amount(const char *text, enum aw_quantity_scale scale, enum aw_quantity_flag flag)
{
    char buf[AW_QUANTITY_TEXT_MAX];
    struct aw_diag diag = {0};
    int64_t value = 0, back = 0;
    enum aw_err err = aw_quantity_parse(text, scale, flag, &value, &diag);
    if (err) {
        check_refusal(&diag, err);
        return;
    }
    AW_ASSERT(value >= 0 || flag == AW_QUANTITY_NEGATIVE_OK);
    aw_quantity_print_cpu(value, scale, buf, sizeof buf);
    AW_ASSERT(aw_quantity_parse(buf, scale, flag, &back, NULL) == AW_OK && back == value);
    aw_quantity_print_memory(value, buf, sizeof buf);
    AW_ASSERT(aw_quantity_parse(buf, AW_QUANTITY_WHOLE, flag, &back, NULL) == AW_OK &&
              back == value);
    aw_quantity_round_cpu(value, scale, buf, sizeof buf);
    aw_quantity_round_memory(value, buf, sizeof buf);
    AW_ASSERT(strlen(buf) < 12);
}

static void check_duration(const char *text)
{
    char buf[AW_QUANTITY_TEXT_MAX];
    struct aw_diag diag = {0};
    int64_t us = 0, back = 0;
    enum aw_err err = aw_duration_parse(text, AW_QUANTITY_NEGATIVE_OK, &us, &diag);
    if (err) {
        check_refusal(&diag, err);
        return;
    }
    aw_duration_print(us, buf, sizeof buf);
    AW_ASSERT(aw_duration_parse(buf, AW_QUANTITY_NEGATIVE_OK, &back, NULL) == AW_OK && back == us);
    aw_duration_round(us, buf, sizeof buf);
}

static void check_rate(const char *text)
{
    char buf[AW_QUANTITY_TEXT_MAX];
    struct aw_diag diag = {0};
    double rate = 0, back = 0;
    enum aw_err err = aw_rate_parse(text, &rate, &diag);
    if (err) {
        check_refusal(&diag, err);
        return;
    }
    AW_ASSERT(isfinite(rate) && rate >= 0);
    aw_rate_print(rate, buf, sizeof buf);
    AW_ASSERT(aw_rate_parse(buf, &back, NULL) == AW_OK && back == rate);
    aw_rate_round(rate, buf, sizeof buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES_MAX];
    size = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, size);
    text[size] = 0;
    check_amount(text, AW_QUANTITY_WHOLE, AW_QUANTITY_POSITIVE_OR_0);
    check_amount(text, AW_QUANTITY_MILLI, AW_QUANTITY_NEGATIVE_OK);
    check_amount(text, AW_QUANTITY_NANO, AW_QUANTITY_NEGATIVE_OK);
    check_duration(text);
    check_rate(text);
    return 0;
}
