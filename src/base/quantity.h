/*
 * quantity.h - amounts as people write them: 250m, 1.5Gi, 200ms, 2h30m, 100/s.
 *
 * Amounts and durations are whole numbers of a small unit, read and printed exactly: no double is
 * in between. Amounts are those of Kubernetes (apimachinery's resource.Quantity): a decimal number
 * and one of n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent as in 1e3. What is finer than the
 * unit is rounded up, away from zero, as Kubernetes does; durations too. What does not fit is
 * refused, where Kubernetes would silently take the largest.
 *
 * CPU is int64_t millicores where it is set (Kubernetes takes nothing finer) and nanocores where it
 * is measured (what metrics.k8s.io reports); memory is bytes, time is microseconds.
 * A rate is a double per second: rates are measured and averaged, never counted, and a third of a
 * request per second has no exact unit anyway. A printed rate still reads back to the same bits.
 *
 * Memory:  nothing is allocated. Printing needs AW_QUANTITY_TEXT_MAX bytes and returns `buf`.
 * Threads: pure functions of their arguments.
 *
 * The trap: M is a million and Mi is 2^20; m is a thousandth and 100m bytes is one byte.
 */
#ifndef AW_BASE_QUANTITY_H
#define AW_BASE_QUANTITY_H

#include <aware/err.h>

#define AW_QUANTITY_TEXT_MAX   48u /* bytes of a printed value, with its NUL */
#define AW_QUANTITY_DIGITS_MAX 20u /* significant digits read; int64_t has 19 */

/* The unit of the whole number: 10^-scale. */
enum aw_quantity_scale {
    AW_QUANTITY_WHOLE = 0, /* bytes, replicas */
    AW_QUANTITY_MILLI = 3, /* millicores */
    AW_QUANTITY_NANO = 9,  /* nanocores */
};

enum aw_quantity_flag {
    AW_QUANTITY_POSITIVE_OR_0 = 0,
    AW_QUANTITY_NEGATIVE_OK = 1,
};

/* Reads all of `text`. AW_ERR_FORMAT: not an amount; AW_ERR_RANGE: does not fit, or is negative
 * without the flag. `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_quantity_parse(const char *text, enum aw_quantity_scale scale,
                                           enum aw_quantity_flag flag, int64_t *ret,
                                           struct aw_diag *diag);
/* The three that the project uses most, not negative. */
AW_NODISCARD enum aw_err aw_quantity_parse_cpu(const char *text, int64_t *ret_millicores,
                                               struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_quantity_parse_memory(const char *text, int64_t *ret_bytes,
                                                  struct aw_diag *diag);
/* Parts with units d h m s ms us ns, from large to small, each once: 1d, 2h30m, 1.5h, 200ms.
 * A bare 0 needs no unit. */
AW_NODISCARD enum aw_err aw_duration_parse(const char *text, enum aw_quantity_flag flag,
                                           int64_t *ret_us, struct aw_diag *diag);
/* A number, one of k M G or nothing, and /s /m /h or /d. Never negative. */
AW_NODISCARD enum aw_err aw_rate_parse(const char *text, double *ret_per_second,
                                       struct aw_diag *diag);

/* Exact, and for people: reads back to the same number. "250m", "1.5", "123.456789m" (nano). */
const char *aw_quantity_print_cpu(int64_t value, enum aw_quantity_scale scale, char *buf,
                                  size_t size);
/* "1.5Gi", "100M"; plain bytes where no suffix says it within three decimals, and more briefly. */
const char *aw_quantity_print_memory(int64_t bytes, char *buf, size_t size);
const char *aw_duration_print(int64_t us, char *buf, size_t size);    /* "200ms", "2h30m", "1d" */
const char *aw_rate_print(double per_second, char *buf, size_t size); /* "100/s", "5/h" */

/* For tables: three significant digits, rounded half away from zero. "1.23Gi", "0.996Mi", "12.3ms",
 * "2h30m", "1.23k/s". */
const char *aw_quantity_round_cpu(int64_t value, enum aw_quantity_scale scale, char *buf,
                                  size_t size);
const char *aw_quantity_round_memory(int64_t bytes, char *buf, size_t size);
const char *aw_duration_round(int64_t us, char *buf, size_t size);
const char *aw_rate_round(double per_second, char *buf, size_t size);

#endif
