/*
 * chaos_mutants_test.c - guards that are broken on purpose, and the invariant that notices each.
 *
 * A promise that nothing can break is no promise, and a check that nothing can fail is no check. So
 * every invariant of `aware chaos` has at least one mutant here that it has to catch, by its own
 * name, within SEEDS bad days. With --table the list goes to stdout, for docs/mechanisms/chaos.md.
 */
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "chaos/chaos.h"

#define SEEDS 300u

unsigned aw_mutant; /* the one that is switched on; 0: none */

struct mutant {
    unsigned number;
    const char *name, *invariant, *says;
};
static const struct mutant mutants[] = {
#define X(number, name, invariant, says) {number, name, invariant, says},
#include "mutant_table.h"
#undef X
};
#define MUTANTS (sizeof mutants / sizeof *mutants)

static bool table;

/* The first seed in which a run fails by this invariant; 0: none. What else it broke is counted. */
static uint64_t hunt(const struct mutant *mutant, uint32_t *ret_others, const char **ret_other)
{
    uint64_t found = 0;
    aw_mutant = mutant->number;
    for (uint64_t seed = 1; !found && seed <= SEEDS; seed++) {
        const bool twice = strcmp(mutant->invariant, aw_invariant_name(AW_INVARIANT_SAME)) == 0;
        const bool others =
            strcmp(mutant->invariant, aw_invariant_name(AW_INVARIANT_EXTERNAL)) == 0;
        const struct aw_chaos_config config = {
            .seed = seed, .faults = AW_CHAOS_ALL, .again = twice, .external = others};
        struct aw_chaos_result result;
        assert_ok(aw_chaos_run(&config, &result, NULL));
        if (!result.failed)
            continue;
        const char *name = aw_invariant_name(result.failure.invariant);
        if (strcmp(name, mutant->invariant) == 0) {
            found = seed;
        } else {
            ++*ret_others;
            *ret_other = name;
        }
    }
    aw_mutant = 0;
    return found;
}

static void every_mutant_is_caught_by_its_invariant(void **state)
{
    (void)state;
    uint32_t escaped = 0;
    for (size_t i = 0; i < MUTANTS; i++) {
        const struct mutant *mutant = &mutants[i];
        uint32_t others = 0;
        const char *other = "";
        const uint64_t seed = hunt(mutant, &others, &other);
        if (table)
            printf("| %s | %s | `%s` | %llu |\n", mutant->name, mutant->says, mutant->invariant,
                   (unsigned long long)seed);
        else if (seed)
            print_message("# %s -> %s in seed %llu\n", mutant->name, mutant->invariant,
                          (unsigned long long)seed);
        else
            print_error("%s: not caught by %s in %u seeds; %u failed otherwise (%s)\n",
                        mutant->name, mutant->invariant, SEEDS, others, other);
        fflush(stdout);
        escaped += seed == 0;
    }
    assert_int_equal(escaped, 0);
}

static void every_invariant_has_a_mutant(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < AW_INVARIANT_COUNT; i++) {
        bool has = false;
        for (size_t k = 0; k < MUTANTS; k++)
            has |= strcmp(mutants[k].invariant, aw_invariant_name(i)) == 0;
        if (!has)
            fail_msg("nothing breaks %s on purpose", aw_invariant_name(i));
    }
}

/* The same copies with nothing switched on are the program as it is shipped. */
static void without_a_mutant_everything_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct aw_chaos_config config = {
            .seed = seed, .faults = AW_CHAOS_ALL, .external = seed > 8};
        struct aw_chaos_result result;
        assert_ok(aw_chaos_run(&config, &result, NULL));
        if (result.failed)
            fail_msg("seed %u: %s: %s", (unsigned)seed, aw_invariant_name(result.failure.invariant),
                     result.failure.text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_invariant_has_a_mutant),
        cmocka_unit_test(without_a_mutant_everything_holds),
        cmocka_unit_test(every_mutant_is_caught_by_its_invariant),
    };
    table = argc > 1 && strcmp(argv[1], "--table") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
