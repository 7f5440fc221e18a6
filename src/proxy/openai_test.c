/* openai_test.c - what is read of requests and of answers. */
#include "proxy/openai.h"

#include "base/testing.h"

#include <string.h>

static void a_request_is_read_whatever_stands_around_it(void **state)
{
    static const struct {
        const char *body, *model, *text;
        bool stream;
        uint32_t tokens_max;
    } cases[] = {
        {"{}", "", "", false, 0},
        {" { \"model\" : \"m\" , \"prompt\" : \"a b\" , \"stream\" : true } ", "m", "a b", true, 0},
        {"{\"prompt\":[\"a\",\"b\"],\"max_tokens\":12}", "", "a\nb", false, 12},
        {"{\"prompt\":[1,2,3],\"max_completion_tokens\":7}", "", "", false, 7},
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":[{"
         "\"type\":"
         "\"text\",\"text\":\"y\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]}]}",
         "", "x\ny", false, 0},
        {"{\"prompt\":\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\ \\ud800\"}", "", "é😀\n\"\\ \xef\xbf\xbd",
         false, 0},
        {"{\"stop\":[\"prompt\"],\"x\":{\"prompt\":\"no\",\"content\":\"no\"},\"stream\":false}",
         "", "", false, 0},
        {"{\"max_tokens\":-1.5e3}", "", "", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_openai_request r;
        char text[256];
        assert_ok(aw_openai_request_read(cases[i].body, strlen(cases[i].body), text, sizeof text,
                                         &r, NULL));
        assert_string_equal(r.model, cases[i].model);
        assert_int_equal(r.text_len, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, r.text_len);
        assert_int_equal(r.stream, cases[i].stream);
        assert_int_equal(r.tokens_max, cases[i].tokens_max);
    }
}

static void what_is_no_object_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"", "byte 0: expected a JSON object"},
        {"[]", "byte 0: expected a JSON object"},
        {"{\"a\"}", "byte 4: expected a colon"},
        {"{\"a\":1", "byte 6: expected a comma or the end of the object"},
        {"{\"a\":\"b", "expected the end of a text"},
        {"{\"a\":1} x", "expected nothing after the object"},
        {"{\"a\":}", "expected a value"},
        {"{\"a\":[1,]}", "expected a value"},
        {"{\"a\":\"\n\"}", "control character"},
    };
    char deep[300] = "{\"a\":";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_openai_request r;
        struct aw_diag diag = {0};
        char text[64];
        assert_int_equal(aw_openai_request_read(cases[i].body, strlen(cases[i].body), text,
                                                sizeof text, &r, &diag),
                         AW_ERR_FORMAT);
        if (!strstr(diag.text, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", diag.text, cases[i].says);
    }
    memset(deep + 5, '[', 200);
    struct aw_openai_request r;
    char text[8];
    assert_int_equal(aw_openai_request_read(deep, strlen(deep), text, sizeof text, &r, NULL),
                     AW_ERR_LIMIT);
}

static void an_answer_is_counted_the_same_however_it_is_cut(void **state)
{
    static const struct {
        const char *bytes;
        uint32_t tokens;
        bool done, cut;
    } cases[] = {
        {"data: {\"text\":\"a\"}\n\ndata: {\"text\":\"data: b\"}\n\ndata: [DONE]\n\n", 2, true,
         false},
        {"data: {\"text\":\"a\"}\r\n\r\n: hello\r\nevent: x\r\ndata:{\"text\":\"b\"}\r\n\r\n", 2,
         false, false},
        {"{\"choices\":[{\"text\":\"x\",\"finish_reason\": "
         "\"length\"}],\"usage\":{\"prompt_tokens\":3,"
         "\"completion_tokens\": 1234}}",
         1234, false, true},
        {"data: {\"finish_reason\":null}\n\ndata: {\"finish_reason\":\"stop\"}\n\ndata: "
         "{\"usage\":{\"completion_tokens\":77,\"x\":1}}\n\ndata: [DONE]\n\n",
         77, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t len = strlen(cases[i].bytes);
        for (size_t step = 1; step <= len; step++) {
            struct aw_openai_answer a = {0};
            for (size_t at = 0; at < len; at += step)
                aw_openai_answer_take(&a, cases[i].bytes + at, len - at < step ? len - at : step);
            assert_int_equal(aw_openai_answer_tokens(&a), cases[i].tokens);
            assert_int_equal(a.done, cases[i].done);
            assert_int_equal(a.cut, cases[i].cut);
        }
    }
}

AW_TEST_GROUP("proxy-openai")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_whatever_stands_around_it),
        cmocka_unit_test(what_is_no_object_is_refused_with_its_place),
        cmocka_unit_test(an_answer_is_counted_the_same_however_it_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
