/*
 * prompt.h - a prompt as numbers: hashed words and word pairs, and what a person would look at.
 *
 * Words (lower case), neighbouring pairs, the first three and the last two are hashed into signed
 * buckets, unit norm in all. Hand features are what long and short answers were seen to depend on:
 * "write", "list", "essay", "N words", code, digits, questions of one word. The length of a prompt
 * by itself says almost nothing (tau .02).
 *
 * Memory:  the caller's struct; nothing allocates. Threads: pure.
 */
#ifndef AW_SERVING_PROMPT_H
#define AW_SERVING_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#define AW_PROMPT_BUCKETS 4096u
#define AW_PROMPT_TERMS   320u  /* of a prompt, the first and the last words; more are dropped */
#define AW_PROMPT_HAND    67u   /* hand features */
#define AW_PROMPT_BYTES   8192u /* looked at: half of it from the front, half from the back */

struct aw_prompt {
    uint64_t hash; /* of the whole text and the model: equal prompts */
    uint32_t text; /* of the text alone */
    uint32_t model;
    uint32_t tokens_max; /* what the client allows; 0: not said */
    uint16_t terms;
    uint16_t bucket[AW_PROMPT_TERMS];
    float value[AW_PROMPT_TERMS]; /* signed, all of them of norm 1 */
    float hand[AW_PROMPT_HAND];
};

/* `model` is any name; "" where there is one alone. `text` need not be UTF-8 and may hold NUL. */
void aw_prompt_read(struct aw_prompt *prompt, const char *text, size_t len, const char *model,
                    uint32_t tokens_max);

#endif
