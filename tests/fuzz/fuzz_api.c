/*
 * fuzz_api.c - any bytes as a request: an answer that is JSON and says what is wrong in one line,
 * or lines of JSON.
 *
 * The first line is the method and the address, the second the type of the content, the rest is the
 * body. The world behind it is made once, and anew after some hundred orders were taken.
 */
#include "fuzz.h"

#include "web/api_testing.h"

#define ORDERS_MAX 500u

static struct aw_api_world world;
static bool made;

static void unmake(void)
{
    if (made)
        aw_api_world_close(&world);
    made = false;
}

static void make(void)
{
    if (made && aw_desk_counts(world.desk)->orders < ORDERS_MAX)
        return;
    if (!made)
        atexit(unmake);
    unmake();
    aw_api_world_open_as(&world, AW_GUARD_APPROVE, false, true);
    aw_api_world_run(&world, 30);
    made = true;
}

static void check_lines(const struct aw_api_response *answer)
{
    const char *at = answer->body, *end = at + answer->len;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        AW_ASSERT(newline);
        json_t *json = json_loadb(at, (size_t)(newline - at), 0, NULL);
        AW_ASSERT(json_is_object(json));
        json_decref(json);
        at = newline + 1;
    }
}

static void check_answer(const struct aw_api_response *answer)
{
    static const int known[] = {200, 201, 400, 404, 405, 409, 413, 501};
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= answer->status == known[i];
    AW_ASSERT(found);
    if (strstr(answer->content_type, "version=")) { /* metrics: lines of text */
        AW_ASSERT(answer->len > 0 && answer->body[answer->len - 1] == '\n');
        AW_ASSERT(strlen(answer->body) == answer->len);
        return;
    }
    if (!strcmp(answer->content_type, "application/x-ndjson")) {
        check_lines(answer);
        return;
    }
    json_t *json = json_loadb(answer->body, answer->len, JSON_REJECT_DUPLICATES, NULL);
    AW_ASSERT(json_is_object(json));
    const json_t *error = json_object_get(json, "error");
    AW_ASSERT((answer->status >= 400) == (error != NULL));
    if (error) {
        const char *message = json_string_value(json_object_get(error, "message"));
        AW_ASSERT(message && *message);
        for (; *message; message++)
            AW_ASSERT((unsigned char)*message >= 0x20 && *message != 0x7f);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct aw_api_response answer;
    make();
    AW_ASSERT(text);
    memcpy(text, data, size);
    text[size] = '\0';
    char *rest = text, *line = strsep(&rest, "\n"), *type = rest ? strsep(&rest, "\n") : NULL;
    char *method = strsep(&line, " ");
    const struct aw_api_request request = {.method = method,
                                           .path = line ? line : "",
                                           .content_type = type,
                                           .body = rest,
                                           .body_len = rest ? size - (size_t)(rest - text) : 0,
                                           .by = AW_API_TESTING_BY};
    AW_ASSERT(!aw_api_answer(&world.api, &request, &answer));
    check_answer(&answer);
    aw_api_response_deinit(&answer);
    free(text);
    return 0;
}
