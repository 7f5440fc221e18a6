/* explanation_notable_test.c - what is no news: an amount that nobody has looked at again. */
#include "base/testing.h"
#include "desk/explanation.h"

/* The VPA looks once a minute: in the ticks between, what it said of memory still stands. */
static void an_amount_that_is_not_looked_at_again_yet_is_no_news(void **state)
{
    (void)state;
    const uint32_t stale = AW_CLIP_BIT(AW_CLIP_NO_DATA), mode = AW_CLIP_BIT(AW_CLIP_MODE);
    struct aw_explanation_noted noted = {0};
    struct aw_decision looked = {.actor = AW_ACTOR_FALLBACK, .answered = true}, between, other;
    looked.guard.clips = looked.guard.axis_clips[AW_RESOURCE_MEMORY] = stale;
    between = looked;
    between.guard.clips = between.guard.axis_clips[AW_RESOURCE_MEMORY] = 0;
    between.fallback.waiting = AW_PLAN_MEMORY;
    aw_explanation_note(&noted, &looked);
    for (int minute = 0; minute < 3; minute++) {
        assert_false(aw_explanation_notable(&noted, &between));
        aw_explanation_note(&noted, &between);
        assert_false(aw_explanation_notable(&noted, &looked)); /* the same again */
        aw_explanation_note(&noted, &looked);
    }
    other = between;
    other.fallback.waiting = 0;
    assert_true(aw_explanation_notable(&noted, &other)); /* it looked, and nothing holds it back */
    other = between;
    other.actor = noted.actor = AW_ACTOR_AGENT;
    assert_true(aw_explanation_notable(&noted, &other)); /* an agent looks in every tick */
    other = between;
    other.guard.clips = other.guard.axis_clips[AW_RESOURCE_MEMORY] = AW_CLIP_BIT(AW_CLIP_OOM_FLOOR);
    aw_explanation_note(&noted, &looked);
    assert_true(aw_explanation_notable(&noted, &other)); /* a rail that nobody asked for */

    /* the same of what is recommended and may not be done */
    looked.guard.clips = looked.guard.axis_clips[AW_RESOURCE_MEMORY] = mode;
    looked.guard.recommended.set = AW_PLAN_MEMORY;
    looked.guard.recommended.memory_bytes = 300 << 20;
    aw_explanation_note(&noted, &looked);
    assert_false(aw_explanation_notable(&noted, &between));
    aw_explanation_note(&noted, &between);
    assert_false(aw_explanation_notable(&noted, &looked));
    other = looked;
    other.guard.recommended.memory_bytes++;
    assert_true(aw_explanation_notable(&noted, &other));
    other = between;
    other.fallback.waiting = 0;
    assert_true(aw_explanation_notable(&noted, &other)); /* it is recommended no longer */
}

AW_TEST_GROUP("explanation-notable")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_amount_that_is_not_looked_at_again_yet_is_no_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
