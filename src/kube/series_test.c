/* series_test.c - what is read without a tree is what the tree says, and the rest is left to it. */
#include "kube/series.h"

#include <stdio.h>
#include <string.h>

#include "base/testing.h"

static void what_has_the_usual_shape_is_read_as_it_stands(void **state)
{
    static const char text[] = "{\"metric\":{\"le\":\"+Inf\",\"namespace\":\"shop\",\"pod\":"
                               "\"web-1\"},\"value\":[1435781451.781,\"0.25\"]}";
    struct aw_kube_labels labels;
    struct aw_kube_prom_point point;
    bool finite = false;
    (void)state;
    assert_true(aw_kube_series_quick(text, strlen(text), &labels, &point, &finite));
    assert_true(finite);
    assert_close(point.at_s, 1435781451.781, 1e-12);
    assert_close(point.value, 0.25, 1e-12);
    assert_string_equal(aw_kube_label(&labels, "namespace"), "shop");
    assert_string_equal(aw_kube_label(&labels, "pod"), "web-1");
    assert_string_equal(aw_kube_label(&labels, "le"), "+Inf");
    assert_null(aw_kube_label(&labels, "workload"));
    for (size_t len = 0; len < strlen(text); len++) /* no part of it is one */
        assert_false(aw_kube_series_quick(text, len, &labels, &point, &finite));
}

static void a_value_that_is_no_number_is_found_out(void **state)
{
    static const char *const texts[] = {"{\"metric\":{},\"value\":[1,\"NaN\"]}",
                                        "{\"metric\":{},\"value\":[1,\"+Inf\"]}",
                                        "{\"metric\":{},\"value\":[1,\"\"]}"};
    struct aw_kube_labels labels;
    struct aw_kube_prom_point point;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool finite = true;
        assert_true(aw_kube_series_quick(texts[i], strlen(texts[i]), &labels, &point, &finite));
        assert_false(finite);
        assert_int_equal(labels.count, 0);
    }
}

static void what_is_unusual_is_left_to_others(void **state)
{
    static const struct {
        const char *why, *text;
    } cases[] = {
        {"blanks", "{\"metric\": {},\"value\":[1,\"2\"]}"},
        {"another order", "{\"value\":[1,\"2\"],\"metric\":{}}"},
        {"a range", "{\"metric\":{},\"values\":[[1,\"2\"]]}"},
        {"an escape", "{\"metric\":{\"a\":\"\\u0041\"},\"value\":[1,\"2\"]}"},
        {"beyond ASCII", "{\"metric\":{\"a\":\"\303\244\"},\"value\":[1,\"2\"]}"},
        {"a label twice", "{\"metric\":{\"a\":\"b\",\"a\":\"c\"},\"value\":[1,\"2\"]}"},
        {"a label that is no text", "{\"metric\":{\"a\":1},\"value\":[1,\"2\"]}"},
        {"a value that is no text", "{\"metric\":{},\"value\":[1,2]}"},
        {"a time with an exponent", "{\"metric\":{},\"value\":[1e9,\"2\"]}"},
        {"a time that is no number of JSON", "{\"metric\":{},\"value\":[01,\"2\"]}"},
        {"nor is this", "{\"metric\":{},\"value\":[1.,\"2\"]}"},
        {"something behind it", "{\"metric\":{},\"value\":[1,\"2\"]} "},
        {"a comma too many", "{\"metric\":{\"a\":\"b\",},\"value\":[1,\"2\"]}"},
    };
    struct aw_kube_labels labels;
    struct aw_kube_prom_point point;
    bool finite;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (aw_kube_series_quick(cases[i].text, strlen(cases[i].text), &labels, &point, &finite))
            fail_msg("%s was taken", cases[i].why);
}

static void more_labels_than_there_is_room_for_are_left_to_others(void **state)
{
    char text[2 * AW_KUBE_LABELS_BYTES];
    struct aw_kube_labels labels;
    struct aw_kube_prom_point point;
    bool finite;
    (void)state;
    const int len = snprintf(text, sizeof text, "{\"metric\":{\"a\":\"%0*d\"},\"value\":[1,\"2\"]}",
                             (int)AW_KUBE_LABELS_BYTES, 7);
    assert_false(aw_kube_series_quick(text, (size_t)len, &labels, &point, &finite));
}

AW_TEST_GROUP("kube-series")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_the_usual_shape_is_read_as_it_stands),
        cmocka_unit_test(a_value_that_is_no_number_is_found_out),
        cmocka_unit_test(what_is_unusual_is_left_to_others),
        cmocka_unit_test(more_labels_than_there_is_room_for_are_left_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
