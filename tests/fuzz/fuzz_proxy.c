/*
 * fuzz_proxy.c - any bytes as the body of a request and as an answer that passes the proxy.
 *
 * What jansson reads as an object is never refused, so that the proxy refuses nothing that a server
 * would have taken; the text is the same, only shorter, where it has less room; and an answer is
 * counted the same however it is cut.
 */
#include "fuzz.h"

#include "proxy/openai.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void check_request(const char *bytes, size_t len)
{
    struct aw_openai_request request, again;
    struct aw_diag diag = {0};
    char *text = malloc(len + 1), few[16];
    AW_ASSERT(text);
    const enum aw_err err = aw_openai_request_read(bytes, len, text, len + 1, &request, &diag);
    json_t *json = json_loadb(bytes, len, 0, NULL);
    if (err) {
        check_refusal(&diag, err);
        AW_ASSERT(err == AW_ERR_LIMIT || !json_is_object(json));
    } else {
        /* unescaped text is never longer than the bytes it was made of */
        AW_ASSERT(request.text_len <= len);
        AW_ASSERT(memchr(request.model, '\0', sizeof request.model));
        AW_ASSERT(!aw_openai_request_read(bytes, len, few, sizeof few, &again, NULL));
        AW_ASSERT(again.text_len <= sizeof few && again.text_len <= request.text_len);
        AW_ASSERT(!memcmp(few, text, again.text_len));
        AW_ASSERT(again.stream == request.stream && again.tokens_max == request.tokens_max);
        const json_t *stream = json_object_get(json, "stream");
        if (json && stream && !memmem(bytes, len, "\\u", 2))
            AW_ASSERT(request.stream == json_is_true(stream));
    }
    json_decref(json);
    free(text);
}

static void check_answer(const char *bytes, size_t len)
{
    struct aw_openai_answer whole = {0}, each = {0};
    aw_openai_answer_take(&whole, bytes, len);
    for (size_t i = 0; i < len; i++)
        aw_openai_answer_take(&each, bytes + i, 1);
    AW_ASSERT(whole.events == each.events && whole.matched == each.matched);
    AW_ASSERT(whole.carried == each.carried && !memcmp(whole.carry, each.carry, whole.carried));
    AW_ASSERT(!whole.done || each.done);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* a block of its own size, so that a byte too far is found */
    char *bytes = malloc(size ? size : 1);
    AW_ASSERT(bytes);
    memcpy(bytes, data, size);
    check_request(bytes, size);
    check_answer(bytes, size);
    free(bytes);
    return 0;
}
