/*
 * err.h - every operating error the project knows, from one table.
 *
 * An error is a code for programs and, optionally, a diagnostic for people. Functions that can fail
 * return `enum aw_err` and must be checked. Bugs are not errors: they are AW_ASSERT, on in release.
 * Libraries never print and never exit; they fill the diagnostic and return.
 *
 * Threads: no shared state. A diagnostic belongs to the caller.
 */
#ifndef AWARE_ERR_H
#define AWARE_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_NODISCARD __attribute__((warn_unused_result))
#ifdef __cplusplus
#define AW_NORETURN [[noreturn]]
#else
#define AW_NORETURN _Noreturn
#endif
#define AW_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* clang-format off */
/*     name        transient  exit  http  text                                  */
#define AW_ERR_MAP(X)                                                              \
    X(NOMEM,       true,      71,   503,  "out of memory")                         \
    X(IO,          true,      74,   500,  "input or output failed")                \
    X(NOTFOUND,    false,     66,   404,  "not found")                             \
    X(EXISTS,      false,     73,   409,  "already exists")                        \
    X(CONFLICT,    true,      75,   409,  "object changed under us")               \
    X(USAGE,       false,     64,   400,  "wrong usage")                           \
    X(CONFIG,      false,     78,   400,  "invalid configuration")                 \
    X(FORMAT,      false,     65,   400,  "malformed input")                       \
    X(RANGE,       false,     65,   400,  "value out of range")                    \
    X(LIMIT,       false,     65,   413,  "larger than the limit")                 \
    X(NODATA,      false,     69,   404,  "not enough samples")                    \
    X(UNSUPPORTED, false,     69,   501,  "not supported here")                    \
    X(UNAVAILABLE, true,      69,   503,  "not available")                         \
    X(DEADLINE,    true,      75,   504,  "took longer than allowed")              \
    X(INTERRUPTED, true,      130,  503,  "interrupted")                           \
    X(DIVERGED,    false,     70,   500,  "a number left the finite range")        \
    X(CHECK,       false,     1,    500,  "a check did not hold")
/* clang-format on */

enum aw_err {
    AW_OK = 0,
#define X(name, transient, exit_code, http, text) AW_ERR_##name,
    AW_ERR_MAP(X)
#undef X
        AW_ERR_COUNT
};

const char *aw_err_name(enum aw_err err); /* "CONFIG"; "OK" for AW_OK */
const char *aw_err_text(enum aw_err err); /* "invalid configuration" */
bool aw_err_transient(enum aw_err err);   /* worth trying again later */
int aw_err_exit_code(enum aw_err err);    /* for main(), after sysexits.h; 0 for AW_OK */
int aw_err_http_status(enum aw_err err);  /* 200 for AW_OK */

#define AW_DIAG_FILE_MAX 256
#define AW_DIAG_KEY_MAX  128
#define AW_DIAG_TEXT_MAX 512

/* What a person needs to mend it. Fields that do not apply are empty or 0. */
struct aw_diag {
    char file[AW_DIAG_FILE_MAX]; /* where the input came from */
    uint32_t line;               /* 1-based; 0: does not apply */
    uint32_t column;             /* 1-based, in bytes; 0: does not apply */
    char key[AW_DIAG_KEY_MAX];   /* dotted path of the value, e.g. "goals.slo.target" */
    char text[AW_DIAG_TEXT_MAX]; /* one sentence: what was expected and what was found */
};

/* Clears `diag`, sets its text and returns `err`: `return aw_fail(diag, AW_ERR_RANGE, "...")`.
 * `diag` may be NULL everywhere. An over-long text is cut, never overrun. */
enum aw_err aw_fail(struct aw_diag *diag, enum aw_err err, const char *fmt, ...) AW_PRINTF(3, 4);

/* As aw_fail, with the place. `file` and `key` may be NULL. */
enum aw_err aw_fail_at(struct aw_diag *diag, enum aw_err err, const char *file, uint32_t line,
                       uint32_t column, const char *key, const char *fmt, ...) AW_PRINTF(7, 8);

/* One line without a newline: "file:line:column: key: text" with what is present; the error's own
 * text where there is no diagnostic. Returns `buf`. */
const char *aw_diag_format(const struct aw_diag *diag, enum aw_err err, char *buf, size_t size);

/* For bugs only: prints the expression and its place to stderr, then aborts. On in release. */
#define AW_ASSERT(expr) ((expr) ? (void)0 : aw_assert_fail(#expr, __FILE__, __LINE__))
AW_NORETURN void aw_assert_fail(const char *expr, const char *file, int line);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
