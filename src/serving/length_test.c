/* length_test.c - what the predictor of lengths learns, remembers and costs. */
#include "serving/length.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "serving/length_study.h"

static struct aw_prompt prompt_of(const char *text, const char *model, uint32_t tokens_max)
{
    struct aw_prompt prompt;
    aw_prompt_read(&prompt, text, strlen(text), model, tokens_max);
    return prompt;
}

/* Words that no hand feature knows: "alder" is followed by long answers, "birch" by short ones. */
static void words_that_no_list_has_are_learned(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_length *length;
    struct aw_rng rng;
    char text[64];
    aw_rng_init(&rng, 3, 0);
    aw_alloc_counting_init(&counting);
    assert_ok(aw_length_new(&aw_length_defaults, &counting.alloc, &length));
    struct aw_length_guess guess;
    struct aw_prompt prompt = prompt_of("anything", "m", 0);
    aw_length_predict(length, &prompt, &guess);
    assert_false(guess.known);
    const uint64_t before = counting.alloc_count;
    for (int i = 0; i < 4000; i++) {
        const bool tall = aw_rng_below(&rng, 2);
        snprintf(text, sizeof text, "zq%u %s zq%u", aw_rng_below(&rng, 5000),
                 tall ? "alder" : "birch", aw_rng_below(&rng, 5000));
        prompt = prompt_of(text, "m", 0);
        aw_length_learn(length, &prompt,
                        (uint32_t)((tall ? 400 : 20) * (0.8 + 0.4 * aw_rng_double(&rng))));
    }
    prompt = prompt_of("zq9001 alder zq9002", "m", 0);
    aw_length_predict(length, &prompt, &guess);
    assert_true(guess.rank > 0.6 && guess.tokens > 200 && !guess.cached);
    assert_true(guess.tokens_p90 >= guess.tokens);
    prompt = prompt_of("zq9003 birch zq9004", "m", 0);
    aw_length_predict(length, &prompt, &guess);
    assert_true(guess.rank < 0.4 && guess.tokens < 100);
    assert_true(counting.alloc_count == before); /* neither allocates */
    aw_length_free(length);
    assert_true(counting.alloc_count == counting.free_count);
}

static void a_prompt_seen_before_is_remembered_unless_its_answers_differ(void **state)
{
    (void)state;
    struct aw_length *length;
    struct aw_length_guess guess;
    struct aw_prompt same = prompt_of("the same again", "m", 0);
    struct aw_prompt odd = prompt_of("now so now so", "m", 0);
    assert_ok(aw_length_new(&aw_length_defaults, NULL, &length));
    for (uint32_t i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof text, "other %u", i);
        struct aw_prompt other = prompt_of(text, "m", 0);
        aw_length_learn(length, &other, 10 + 5 * i);
        if (i % 20 == 0) {
            aw_length_learn(length, &same, 300);
            aw_length_learn(length, &odd, i % 40 ? 5 : 2000);
        }
    }
    aw_length_predict(length, &same, &guess);
    assert_true(guess.cached);
    assert_close(guess.tokens, 300, 0.15);
    aw_length_predict(length, &odd, &guess);
    assert_false(guess.cached);
    same = prompt_of("the same again", "another", 0); /* another model answers otherwise */
    aw_length_predict(length, &same, &guess);
    assert_false(guess.cached);
    same = prompt_of("the same again", "m", 40);
    aw_length_predict(length, &same, &guess);
    assert_true(guess.tokens <= 40 && guess.tokens_p90 <= 40); /* a client's limit is a bound */
    aw_length_free(length);
}

static void any_bytes_are_a_prompt(void **state)
{
    (void)state;
    struct aw_prompt prompt;
    struct aw_rng rng;
    static char bytes[20000];
    aw_rng_init(&rng, 5, 0);
    for (uint32_t i = 0; i < 300; i++) {
        const uint32_t len = aw_rng_below(&rng, sizeof bytes);
        for (uint32_t k = 0; k < len; k++)
            bytes[k] = (char)aw_rng_below(&rng, 256);
        aw_prompt_read(&prompt, bytes, i ? len : 0, "m", i);
        float norm = 0;
        for (uint32_t t = 0; t < prompt.terms; t++)
            norm += prompt.value[t] * prompt.value[t];
        assert_true(prompt.terms == 0 || fabsf(norm - 1) < 1e-3f);
        for (uint32_t h = 0; h < AW_PROMPT_HAND; h++)
            assert_true(isfinite(prompt.hand[h]));
    }
}

static void a_tau_is_what_kendall_says(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4}, y[] = {1, 3, 2, 4}, tied[] = {1, 1, 2, 2},
                 flat[] = {1, 1, 1, 1};
    assert_close(aw_kendall_tau(x, x, 4), 1, 1e-12);
    assert_close(aw_kendall_tau(x, y, 4), 4.0 / 6, 1e-12);
    assert_close(aw_kendall_tau(x, tied, 4), 4 / sqrt(6.0 * 4), 1e-12);
    assert_close(aw_kendall_tau(x, flat, 4), 0, 1e-12);
}

static void real_prompts_that_were_not_learned_from_are_ranked(void **state)
{
    (void)state;
    const char *folder = getenv("AWARE_DATA_DIR");
    char prompts[512], lengths[512];
    struct aw_length_data data;
    struct aw_length_score score;
    if (!folder) {
        print_message("AWARE_DATA_DIR is not set: skipped\n");
        skip();
    }
    snprintf(prompts, sizeof prompts, "%s/llm_lengths/alpaca_eval_prompts.jsonl.gz", folder);
    snprintf(lengths, sizeof lengths, "%s/llm_lengths/alpaca_eval_lengths.csv.gz", folder);
    assert_ok(aw_length_data_read(prompts, lengths, &data, NULL));
    struct aw_length_trial trial = {.settings = aw_length_defaults, .epochs = 1, .models_max = 12};
    assert_ok(aw_length_try(&data, &trial, &score, NULL));
    assert_true(score.tau > 0.33);
    trial.random = true;
    assert_ok(aw_length_try(&data, &trial, &score, NULL));
    assert_true(fabs(score.tau) < 0.05); /* a key of chance ranks nothing */
    aw_length_data_deinit(&data);
}

AW_TEST_GROUP("serving-length")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_no_list_has_are_learned),
        cmocka_unit_test(a_prompt_seen_before_is_remembered_unless_its_answers_differ),
        cmocka_unit_test(any_bytes_are_a_prompt),
        cmocka_unit_test(a_tau_is_what_kendall_says),
        cmocka_unit_test(real_prompts_that_were_not_learned_from_are_ranked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
