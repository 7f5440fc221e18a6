#include "base/rng.h"
#include "base/testing.h"
#include "cluster/sim/agenda.h"

#include <math.h>

enum { IDS = 200 };

/* The earliest of a plain array: the naive twin. */
static uint32_t earliest(const double *time)
{
    uint32_t best = AW__AGENDA_NONE;
    for (uint32_t i = 0; i < IDS; i++)
        if (!isnan(time[i]) && (best == AW__AGENDA_NONE || time[i] < time[best]))
            best = i;
    return best;
}

static void the_first_is_always_the_earliest(void **state)
{
    (void)state;
    struct aw__agenda agenda;
    struct aw_rng rng;
    double time[IDS];
    aw_rng_init(&rng, 1, 0);
    assert_ok(aw__agenda_init(&agenda, IDS, NULL));
    for (uint32_t i = 0; i < IDS; i++)
        time[i] = NAN;
    assert_int_equal(aw__agenda_first(&agenda), AW__AGENDA_NONE);
    for (int turn = 0; turn < 20000; turn++) {
        uint32_t id = aw_rng_below(&rng, IDS);
        if (aw_rng_below(&rng, 3)) {
            time[id] = floor(aw_rng_uniform(&rng, 0, 50)); /* ties are common */
            aw__agenda_set(&agenda, id, time[id]);
        } else {
            time[id] = NAN;
            aw__agenda_remove(&agenda, id);
        }
        assert_int_equal(aw__agenda_first(&agenda), earliest(time));
    }
    aw__agenda_clear(&agenda);
    assert_int_equal(aw__agenda_first(&agenda), AW__AGENDA_NONE);
    aw__agenda_set(&agenda, 3, 1);
    assert_int_equal(aw__agenda_first(&agenda), 3);
    aw__agenda_deinit(&agenda, NULL);
}

AW_TEST_GROUP("agenda")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_always_the_earliest),
    };
    return cmocka_run_group_tests_name("agenda", tests, NULL, NULL);
}
