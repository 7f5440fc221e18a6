/* slices_test.c - answers cut at their array: what is told, and what is found out. */
#include "kube/slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "base/text.h"

/* The items as one text, and the rest; "!" where the text turns out to be no JSON. */
static void read_all(const char *text, const char *path, char *buf, size_t size)
{
    struct aw_kube_slices slices;
    json_t *rest = NULL, *item = NULL;
    struct aw_text to;
    aw_text_init(&to, buf, size);
    enum aw_err err = aw_kube_slices_cut(text, strlen(text), path, &slices, &rest, NULL);
    while (!err && !(err = aw_kube_slices_next(&slices, &item, NULL)) && item) {
        char *dump = json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY);
        aw_text_add(&to, "%s ", dump);
        free(dump);
        json_decref(item);
    }
    char *dump = rest ? json_dumps(rest, JSON_COMPACT) : NULL;
    aw_text_add(&to, "%s%s", dump ? dump : "", err ? "!" : "");
    free(dump);
    json_decref(rest);
}

static void items_come_one_by_one_and_the_rest_without_them(void **state)
{
    static const struct {
        const char *why, *text, *path, *found;
    } cases[] = {
        {"a list", "{\"kind\":\"L\",\"items\":[{\"a\":[1]},{\"b\":{}}]}", "items",
         "{\"a\":[1]} {\"b\":{}} {\"kind\":\"L\",\"items\":[]}"},
        {"deeper, and something behind it",
         "{ \"data\" : { \"result\" : [ 1 , \"x\" ] , \"type\" : 2 } }", "data.result",
         "1 \"x\" {\"data\":{\"result\":[],\"type\":2}}"},
        {"nothing in it", "{\"items\":[ ]}", "items", "{\"items\":[]}"},
        {"none", "{\"kind\":\"L\"}", "items", "{\"kind\":\"L\"}"},
        {"null, as Go has an empty one", "{\"items\":null}", "items", "{\"items\":null}"},
        {"of the same name elsewhere", "{\"m\":{\"items\":[9]},\"items\":[1]}", "items",
         "1 {\"m\":{\"items\":[9]},\"items\":[]}"},
        {"brackets and quotes in texts",
         "{\"a\":\"]\\\"[\",\"items\":[{\"t\":\"}]\\\\\"},\"\\\\\\\"]\"]}", "items",
         "{\"t\":\"}]\\\\\"} \"\\\\\\\"]\" {\"a\":\"]\\\"[\",\"items\":[]}"},
        {"a comma too many", "{\"items\":[1,]}", "items", "1 {\"items\":[]}!"},
        {"a comma too few", "{\"items\":[1 2]}", "items", "{\"items\":[]}!"},
        {"an item that is none", "{\"items\":[1,{\"a\"},3]}", "items", "1 {\"items\":[]}!"},
        {"it breaks off", "{\"items\":[1,2", "items", "!"},
        {"it breaks off in a text", "{\"items\":[\"a", "items", "!"},
        {"nothing at all", "", "items", "!"},
        {"something behind it", "{\"items\":[1]} x", "items", "!"},
        {"twice", "{\"items\":[1],\"items\":[2]}", "items", "!"},
    };
    char found[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_all(cases[i].text, cases[i].path, found, sizeof found);
        if (strcmp(found, cases[i].found) != 0)
            fail_msg("%s: %s", cases[i].why, found);
    }
}

static void a_byte_that_ends_a_text_early_is_no_json(void **state)
{
    static const char text[] = "{\"items\":[{\"a\":\0 1}]}";
    struct aw_kube_slices slices;
    json_t *rest = NULL;
    (void)state;
    assert_int_equal(aw_kube_slices_cut(text, sizeof text - 1, "items", &slices, &rest, NULL),
                     AW_ERR_FORMAT);
    assert_null(rest);
}

AW_TEST_GROUP("kube-slices")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_one_by_one_and_the_rest_without_them),
        cmocka_unit_test(a_byte_that_ends_a_text_early_is_no_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
