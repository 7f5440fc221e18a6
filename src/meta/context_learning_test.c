/* context_learning_test.c - what only context shows is learned, and carries over. */
#include "meta/context_testing.h"

static double regret(struct toy *toy, uint32_t first, uint32_t count, bool shuffled)
{
    double sum = 0;
    for (uint32_t w = first; w < first + count; w++)
        for (uint32_t n = 0; n < 20; n++) {
            const uint32_t known_as = shuffled ? first + (w + 5 - first) % count : w;
            const float x = (float)aw_rng_uniform(&toy->rng, -1, 1);
            float a;
            assert_ok(aw_context_act(toy->context, known_as, &x, 0, &a));
            sum -= reward_of(toy->c[w], x, a) / (count * 20.0);
        }
    return sum;
}

static void it_learns_what_only_context_shows_and_knows_tasks_it_never_saw(void **state)
{
    (void)state;
    for (uint32_t kind = AW_ENCODER_POOL; kind <= AW_ENCODER_GRU; kind++) {
        struct toy toy;
        begin(&toy, kind, 1);
        struct aw_context_stats stats = {0};
        for (uint32_t n = 0; n < 3000; n++)
            assert_ok(aw_context_learn(toy.context, &stats));
        /* c is uniform: knowing nothing of it costs E[c^2] / 4 = 0.083 */
        const double learned = regret(&toy, 0, TASKS, false);
        const double held = regret(&toy, TASKS, HELD, false);
        const double wrong = regret(&toy, TASKS, HELD, true);
        print_message("%s: regret %.4f, on tasks never learned from %.4f, with another's "
                      "embedding %.4f\n",
                      aw_encoder_kind_names[kind], learned, held, wrong);
        assert_true(learned < 0.02);
        assert_true(held < 0.035);
        assert_true(wrong > 2 * held);
        aw_context_free(toy.context);
    }
}

AW_TEST_GROUP("context-learning")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_what_only_context_shows_and_knows_tasks_it_never_saw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
