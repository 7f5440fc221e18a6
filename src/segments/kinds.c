/* kinds.c - the table of kinds, and what they share. */
#include "segments/kind.h"

#include <math.h>
#include <string.h>

const struct aw__segment_kind *const aw__kinds[] = {
    &aw__kind_float_ops,    &aw__kind_matrix_multiply, &aw__kind_image_resize,
    &aw__kind_image_rotate, &aw__kind_image_compress,  &aw__kind_json_to_yaml,
    &aw__kind_gzip,         &aw__kind_gunzip,          &aw__kind_web_serving,
    &aw__kind_ml_inference, &aw__kind_file_read,       &aw__kind_file_write,
    &aw__kind_object_read,  &aw__kind_object_write,    &aw__kind_object_stream,
    &aw__kind_table_scan,   &aw__kind_sleep,           NULL,
};

enum aw_err aw__agent_exchange_none(void *state, uint32_t lane, int64_t delay_us,
                                    struct aw_diag *diag)
{
    (void)state;
    (void)lane;
    (void)delay_us;
    (void)diag;
    return AW_OK;
}

uint32_t aw__sized(const struct aw__setup *setup, double base, double exponent, uint32_t low,
                   uint32_t high)
{
    double size = base * pow(setup->payload, exponent);
    return !(size > low) ? low : size > high ? high : (uint32_t)size;
}

void aw__prose(uint64_t seed, char *buf, size_t len)
{
    static const char *const words[] = {
        "the",   "of",     "service", "and",   "request", "a",      "replica", "to",
        "limit", "memory", "in",      "scale", "latency", "queue",  "is",      "cluster",
        "load",  "window", "on",      "pod",   "order",   "budget", "table",   "metric",
        "with",  "canary", "token",   "image", "stream",  "offset", "answer",  "worker"};
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0x9f05e);
    size_t at = 0;
    while (at < len) {
        const uint32_t draw = aw_rng_below(&rng, 1024);
        const char *word = words[draw % 32];
        const size_t n = strlen(word);
        for (size_t i = 0; i < n && at < len; i++)
            buf[at++] = word[i];
        if (at < len)
            buf[at++] = draw < 40 ? '\n' : ' ';
        if (draw >= 1000 && at < len) /* now and then a figure, which compresses badly */
            buf[at++] = (char)('0' + draw % 10);
    }
}

void aw__keep(double value)
{
    __asm__ volatile("" : : "m"(value) : "memory");
}

/* ---- sleep: waiting alone, which the runner does; its pieces are next to nothing ---- */

static enum aw_err sleep_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    (void)setup;
    (void)diag;
    *ret_state = NULL;
    return AW_OK;
}

static void sleep_close(void *state)
{
    (void)state;
}

#define SLEEP_TURNS 2000u

static enum aw_err sleep_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                struct aw_diag *diag)
{
    (void)state;
    (void)lane;
    (void)diag;
    uint64_t x = first | 1;
    for (uint64_t i = 0; i < count * SLEEP_TURNS; i++)
        x = x * 6364136223846793005u + 1442695040888963407u; /* Knuth's, MMIX */
    aw__keep((double)(x >> 32));
    return AW_OK;
}

const struct aw__segment_kind aw__kind_sleep = {"sleep", sleep_open, sleep_close, sleep_pieces,
                                                aw__agent_exchange_none};
