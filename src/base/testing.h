/*
 * testing.h - cmocka with the headers it wants, and what a test file has for a main; for tests
 * alone.
 *
 * All test files of a room are one program, test-ROOM (tests/program.c). Each is a group of it,
 * under the name that it has in the room's meson.build, and runs in a process of its own:
 *
 *     AW_TEST_GROUP("replay")
 *     {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(a_full_ring_overwrites_the_oldest)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * argv[0] is the group's name, what follows are words of its own. The trap: who starts this program
 * once more has to name the group: {"/proc/self/exe", aw_test_group_name, ...}.
 */
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

struct aw_test_group {
    const char *name;
    int (*run)(int argc, char **argv);
    struct aw_test_group *next;
};
void aw_test_group_add(struct aw_test_group *group);
extern const char *aw_test_group_name; /* of the one that runs */

#define AW_TEST_GROUP(text)                                                             \
    static int aw_test_group_run(int argc, char **argv);                                \
    __attribute__((constructor)) static void aw_test_group_enlist(void)                 \
    {                                                                                   \
        static struct aw_test_group group = {.name = (text), .run = aw_test_group_run}; \
        aw_test_group_add(&group);                                                      \
    }                                                                                   \
    static int aw_test_group_run(int argc __attribute__((unused)),                      \
                                 char **argv __attribute__((unused)))

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
