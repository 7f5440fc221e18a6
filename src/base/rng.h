/*
 * rng.h - the one source of chance: xoshiro256++, seeded through splitmix64, splittable.
 *
 * Same seed and stream, same bytes, on every run and machine. Every consumer owns its generator:
 * one per environment from (seed, index), one per learner. Nothing here is for secrets.
 *
 * Memory:  32 bytes, copyable; a copy continues identically. No hidden state.
 * Threads: single owner.
 */
#ifndef AW_BASE_RNG_H
#define AW_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct aw_rng {
    uint64_t s[4];
};

/* Streams of one seed are independent: (seed, 0), (seed, 1), ... */
void aw_rng_init(struct aw_rng *rng, uint64_t seed, uint64_t stream);

uint64_t aw_rng_u64(struct aw_rng *rng);
uint32_t aw_rng_below(struct aw_rng *rng, uint32_t n); /* uniform in [0, n), unbiased; n > 0 */
double aw_rng_double(struct aw_rng *rng);              /* uniform in [0, 1), 53 bits */
float aw_rng_float(struct aw_rng *rng);                /* uniform in [0, 1), 24 bits */
double aw_rng_uniform(struct aw_rng *rng, double low, double high);
double aw_rng_normal(struct aw_rng *rng); /* mean 0, deviation 1 */
double aw_rng_exponential(struct aw_rng *rng, double mean);
uint64_t aw_rng_poisson(struct aw_rng *rng, double mean);
void aw_rng_fill_normal(struct aw_rng *rng, float *out, size_t n);
void aw_rng_fill_uniform(struct aw_rng *rng, float *out, size_t n, float low, float high);
/* Fisher-Yates over 0..n-1 already in `index` or any other content. */
void aw_rng_shuffle(struct aw_rng *rng, uint32_t *index, size_t n);

#endif
