/*
 * openai.h - what an ordering proxy wants to know of a request and of an answer, out of their
 * bytes: no copy but of the prompt's text, no allocation, nothing changed.
 *
 * A request body is JSON as OpenAI's completions and chat completions have it. Read are the model,
 * whether the answer is to be streamed, how many tokens are allowed, and the text of the prompt:
 * `prompt` (a text, or several), or every `content` and `text` of `messages`. Everything else is
 * passed over, and may be whatever the server behind understands.
 *
 * An answer is read as it passes: events of a stream ("data:" lines), the number of tokens that the
 * server tells ("completion_tokens"), whether it was cut off ("finish_reason": "length").
 *
 * Memory:  the caller's. Threads: pure functions of their arguments.
 */
#ifndef AW_PROXY_OPENAI_H
#define AW_PROXY_OPENAI_H

#include <aware/err.h>

#define AW_OPENAI_MODEL_MAX 128u
#define AW_OPENAI_DEPTH_MAX 64u
#define AW_OPENAI_CARRY     64u

struct aw_openai_request {
    bool stream;
    uint32_t tokens_max;             /* 0: not said */
    char model[AW_OPENAI_MODEL_MAX]; /* "": not said, or longer than that */
    size_t text_len;
};

/* `text` takes the prompt, unescaped, as much as fits. AW_ERR_FORMAT: not a JSON object;
 * AW_ERR_LIMIT: deeper than AW_OPENAI_DEPTH_MAX. `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_openai_request_read(const char *body, size_t len, char *text,
                                                size_t text_size, struct aw_openai_request *ret,
                                                struct aw_diag *diag);

/* Zeroed is its beginning. */
struct aw_openai_answer {
    uint32_t events;      /* "data:" lines, without the last one, "[DONE]" */
    uint32_t tokens_told; /* 0: the server did not say */
    bool done;            /* "data: [DONE]" came */
    bool cut;             /* its length was limited */
    uint8_t matched;      /* of "data:" at the beginning of this line */
    uint8_t carried;
    char carry[AW_OPENAI_CARRY]; /* the last bytes, for words that are split */
};
/* The next bytes of the body, without the transfer coding. */
void aw_openai_answer_take(struct aw_openai_answer *answer, const char *bytes, size_t len);
/* Tokens as told, else events. */
uint32_t aw_openai_answer_tokens(const struct aw_openai_answer *answer);

#endif
