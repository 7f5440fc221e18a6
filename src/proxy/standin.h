/*
 * standin.h - a stand-in for a model server, to try and test the proxy with: speaks OpenAI's HTTP,
 * takes the time that a GPU with continuous batching would take, and fails on demand.
 *
 * Requests wait by arrival for one of `slots` places in the batch. A step prefills who is new and
 * gives everybody in the batch one token; it takes decode_us + batch_us x those in it + prefill_us
 * per 1000 bytes of new prompts. All zero: as fast as it goes.
 *
 * A request says with headers what is to become of it: x-tokens: N (else max_tokens, else 16),
 * x-seed: N (which tokens), and x-fault:
 *
 *     die=N        the connection is reset after N tokens       silent    no answer at all
 *     stall=N      nothing more comes after N tokens            garbage   no HTTP
 *     badchunk=N   a malformed chunk after N tokens             close     no keep-alive, no length
 *     early        it closes before any byte of an answer       surplus   bytes behind the answer
 *     split        every token in two writes                    busy      status 503
 *
 * Call order: start, requests, stop.
 * Threads:    one of its own.
 */
#ifndef AW_PROXY_STANDIN_H
#define AW_PROXY_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aw_standin_config {
    uint16_t port;  /* 0: any */
    uint32_t slots; /* 0: 64 */
    uint32_t decode_us, batch_us, prefill_us;
    uint32_t connections_max; /* 0: 2048 */
    /* Permille of the largest clock: half of a step's time follows it. NULL: it is the largest. */
    const _Atomic uint32_t *clock_permille;
};
struct aw_standin;

struct aw_standin *aw_standin_start(const struct aw_standin_config *config); /* NULL: it cannot */
void aw_standin_stop(struct aw_standin *model);                              /* NULL is a no-op */
uint16_t aw_standin_port(const struct aw_standin *model);
/* So far: requests that it began, answers that it ended, the most that ran at once. */
uint64_t aw_standin_begun(const struct aw_standin *model);
uint64_t aw_standin_ended(const struct aw_standin *model);
uint32_t aw_standin_most(const struct aw_standin *model);
/* Which requests it has begun to serve, by their x-seed, in order; the first 4096. */
uint32_t aw_standin_served(const struct aw_standin *model, uint32_t index);

/* One event of the stream of a seed, without the transfer coding; `i` == tokens is the last one,
 * "data: [DONE]". Returns its length. */
size_t aw_standin_event(uint32_t seed, uint32_t i, uint32_t tokens, char *buf, size_t size);

#endif
