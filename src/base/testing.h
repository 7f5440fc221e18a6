/* testing.h - cmocka with the headers it wants; included by tests alone. */
#ifndef AW_BASE_TESTING_H
#define AW_BASE_TESTING_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <aware/err.h>

#define assert_ok(expr) assert_int_equal((expr), AW_OK)

/* |a - b| <= tol * max(1, |a|, |b|), printing both on failure. */
#define assert_close(a, b, tol) aw_testing_close((a), (b), (tol), #a, __FILE__, __LINE__)

static inline void aw_testing_close(double a, double b, double tol, const char *what,
                                    const char *file, int line)
{
    double scale = 1, diff = a > b ? a - b : b - a;
    double abs_a = a < 0 ? -a : a, abs_b = b < 0 ? -b : b;
    scale = abs_a > scale ? abs_a : scale;
    scale = abs_b > scale ? abs_b : scale;
    if (!(diff <= tol * scale)) {
        print_error("%s: %.9g and %.9g differ by more than %g\n", what, a, b, tol * scale);
        _fail(file, line);
    }
}

#endif
