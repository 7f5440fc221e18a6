/* status_test.c - what is written can be read; a condition's time is that of its change. */
#include "controller/status.h"

#include "base/testing.h"
#include "base/units.h"

#include <string.h>

#define T0 INT64_C(1769860800000000) /* 2026-01-31T12:00:00Z */

static struct aw_mpa_status example(void)
{
    struct aw_mpa_status s;
    aw_mpa_status_init(&s);
    s.generation = 7;
    s.replicas = 3;
    memcpy(s.mode, "Auto", 5);
    memcpy(s.stage, "SERVING", 8);
    memcpy(s.slo, "99.4%", 6);
    s.recommendation = (struct aw_mpa_recommendation){.given = true,
                                                      .replicas = 4,
                                                      .cpu_millicores = 250,
                                                      .memory_bytes = 512 * AW_MIB,
                                                      .container = "web",
                                                      .decision = "42",
                                                      .at_us = T0};
    memcpy(s.last.id, "42", 3);
    memcpy(s.last.actor, "agent", 6);
    memcpy(s.last.message, "more load", 10);
    s.last.at_us = T0;
    aw_mpa_condition_set(&s, AW_MPA_ABLE_TO_SCALE, true, T0, "Found", "the target is there");
    aw_mpa_condition_set(&s, AW_MPA_FROZEN, false, T0, "NotFrozen", "nobody froze it");
    return s;
}

static void what_is_written_can_be_read(void **state)
{
    (void)state;
    const struct aw_mpa_status s = example();
    struct aw_mpa_status back;
    json_t *value = aw_mpa_status_json(&s);
    json_t *object = json_pack("{s:O}", "status", value);
    for (uint32_t whole = 0; whole < 2; whole++) {
        aw_mpa_status_read(whole ? object : value, &back);
        assert_int_equal(aw_mpa_status_differs(&s, &back, 0), AW_MPA_SAME);
        assert_int_equal(back.recommendation.at_us, s.recommendation.at_us);
        assert_string_equal(back.recommendation.decision, s.recommendation.decision);
        assert_string_equal(back.last.message, s.last.message);
        assert_int_equal(back.last.at_us, s.last.at_us);
        for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++)
            assert_int_equal(back.condition[i].changed_us, s.condition[i].changed_us);
    }
    assert_string_equal(aw_kube_text_at(value, "recommendation.cpu"), "250m");
    assert_string_equal(aw_kube_text_at(value, "recommendation.memory"), "512Mi");
    assert_string_equal(aw_kube_text_at(value, "recommendation.time"), "2026-01-31T12:00:00Z");
    assert_string_equal(aw_kube_text_at(value, "conditions[type=AbleToScale].status"), "True");
    json_decref(object);
    json_decref(value);
}

static void a_packed_status_is_the_same_in_few_bytes(void **state)
{
    (void)state;
    const struct aw_mpa_status s = example();
    struct aw_mpa_status back, none;
    unsigned char bytes[AW_MPA_PACKED_MAX];
    const size_t len = aw_mpa_status_pack(&s, bytes, sizeof bytes);
    assert_int_equal(aw_mpa_status_pack(&s, NULL, 0), len);
    assert_true(len < 256); /* of a struct of nearly 5 KB */
    aw_mpa_status_unpack(bytes, len, &back);
    assert_memory_equal(&back, &s, sizeof s);
    aw_mpa_status_init(&none);
    aw_mpa_status_unpack(NULL, 0, &back);
    assert_memory_equal(&back, &none, sizeof none);
    for (size_t cut = 0; cut < len; cut++) { /* what is missing is empty, and nothing is overrun */
        aw_mpa_status_unpack(bytes, cut, &back);
        assert_true(strlen(back.last.message) < sizeof back.last.message);
        for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++)
            assert_true(strlen(back.condition[i].message) < AW_MPA_MESSAGE_MAX);
    }
}

static void what_is_not_known_is_taken_out_of_the_object(void **state)
{
    (void)state;
    struct aw_mpa_status s;
    aw_mpa_status_init(&s);
    json_t *value = aw_mpa_status_json(&s);
    assert_true(json_is_null(json_object_get(value, "recommendation")));
    assert_true(json_is_null(json_object_get(value, "replicas")));
    assert_true(json_is_null(json_object_get(value, "lastDecision")));
    assert_int_equal(json_array_size(json_object_get(value, "conditions")), 0);
    json_decref(value);
}

static void rubbish_in_a_status_is_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"status\":null}",
        "{\"recommendation\":{\"replicas\":-1,\"cpu\":\"1\",\"memory\":\"1Gi\"}}",
        "{\"recommendation\":{\"replicas\":1,\"cpu\":\"much\",\"memory\":\"1Gi\"}}",
        "{\"recommendation\":{\"replicas\":1,\"cpu\":\"1\"}}",
        "{\"recommendation\":{\"replicas\":99999999999,\"cpu\":\"1\",\"memory\":\"1Gi\"}}",
        "{\"recommendation\":7,\"replicas\":\"3\",\"conditions\":{\"type\":\"Frozen\"}}",
        "{\"conditions\":[7,null,{\"type\":\"Other\",\"status\":\"True\"},{\"type\":\"Frozen\"}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct aw_mpa_status s;
        json_t *value = json_loads(texts[i], 0, NULL);
        assert_non_null(value);
        aw_mpa_status_read(value, &s);
        assert_false(s.recommendation.given);
        assert_int_equal(s.replicas, -1);
        for (uint32_t c = 0; c < AW_MPA_CONDITION_COUNT; c++)
            assert_int_equal(s.condition[c].holds, AW_MPA_ABSENT);
        json_decref(value);
    }
}

static void a_condition_that_holds_on_keeps_its_time(void **state)
{
    (void)state;
    struct aw_mpa_status s = example();
    struct aw_mpa_condition *c = &s.condition[AW_MPA_ABLE_TO_SCALE];
    aw_mpa_condition_set(&s, AW_MPA_ABLE_TO_SCALE, true, T0 + 5000000, "Other", "still");
    assert_int_equal(c->changed_us, T0);
    assert_string_equal(c->reason, "Other");
    aw_mpa_condition_set(&s, AW_MPA_ABLE_TO_SCALE, false, T0 + 9000000, "Gone", "no more");
    assert_int_equal(c->changed_us, T0 + 9000000);
    assert_int_equal(c->generation, 7);
}

static void a_long_sentence_is_cut_between_characters(void **state)
{
    (void)state;
    struct aw_mpa_status s = example();
    char words[AW_MPA_MESSAGE_MAX + 9];
    for (size_t i = 0; i + 2 < sizeof words; i += 2)
        memcpy(words + i, "\xc3\xa9", 3);
    aw_mpa_condition_set(&s, AW_MPA_FROZEN, true, T0, "Cut", "x%s", words);
    json_t *value = aw_mpa_status_json(&s);
    assert_string_equal(aw_kube_text_at(value, "conditions[type=Frozen].status"), "True");
    assert_int_equal(strlen(s.condition[AW_MPA_FROZEN].message) % 2, 1);
    json_decref(value);
}

static void what_others_wrote_too_long_can_still_be_written_again(void **state)
{
    (void)state;
    struct aw_mpa_status s;
    char words[AW_MPA_WORD_MAX * 3];
    for (size_t i = 0; i + 3 < sizeof words; i += 3)
        memcpy(words + i, "\xe2\x82\xac", 4);
    json_t *odd = json_pack("{s:s,s:[{s:s,s:s,s:s,s:s}]}", "mode", words, "conditions", "type",
                            "Frozen", "status", "True", "reason", words, "message", words);
    aw_mpa_status_read(odd, &s);
    json_t *value = aw_mpa_status_json(&s);
    assert_non_null(value);
    assert_true(*aw_kube_text_at(value, "mode"));
    assert_true(*aw_kube_text_at(value, "conditions[type=Frozen].reason"));
    json_decref(value);
    json_decref(odd);
}

static void only_what_somebody_acts_on_is_news(void **state)
{
    (void)state;
    const struct aw_mpa_status s = example();
    struct aw_mpa_status n = s;
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0), AW_MPA_SAME);
    n.recommendation.at_us += 1000000; /* time alone is nothing */
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0), AW_MPA_SAME);
    memcpy(n.slo, "99.5%", 6);
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0), AW_MPA_WORDS);
    n.recommendation.cpu_millicores = 260;
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_WORDS);
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0), AW_MPA_NEWS);
    n.recommendation.cpu_millicores = 300;
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_NEWS);
    n = s;
    n.recommendation.replicas++;
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_NEWS);
    n = s;
    aw_mpa_condition_set(&n, AW_MPA_FROZEN, true, T0, "Frozen", "by somebody");
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_NEWS);
    n = s;
    n.generation++;
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_NEWS);
}

static void the_same_decision_again_is_not_written_again(void **state)
{
    (void)state;
    const struct aw_mpa_status s = example();
    struct aw_mpa_status n = s;
    memcpy(n.last.id, "43", 3);
    n.last.at_us += 60000000;
    memcpy(n.recommendation.decision, "43", 3);
    n.recommendation.at_us += 60000000;
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_SAME);
    memcpy(n.last.message, "less load", 10);
    assert_int_equal(aw_mpa_status_differs(&s, &n, 0.1), AW_MPA_WORDS);
}

AW_TEST_GROUP("controller-status")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_can_be_read),
        cmocka_unit_test(a_packed_status_is_the_same_in_few_bytes),
        cmocka_unit_test(what_is_not_known_is_taken_out_of_the_object),
        cmocka_unit_test(rubbish_in_a_status_is_nothing),
        cmocka_unit_test(a_condition_that_holds_on_keeps_its_time),
        cmocka_unit_test(a_long_sentence_is_cut_between_characters),
        cmocka_unit_test(what_others_wrote_too_long_can_still_be_written_again),
        cmocka_unit_test(only_what_somebody_acts_on_is_news),
        cmocka_unit_test(the_same_decision_again_is_not_written_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
