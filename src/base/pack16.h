/*
 * pack16.h - a positive amount in 16 bits: six of exponent, ten of fraction, within 0.05 %.
 *
 * For histories that thousands of workloads have each, of figures that chance makes less exact than
 * that: requests per second, bytes. From 2^-17 (8e-6) to 2^46 (7e13); what is below is 0, what is
 * above the most. Whole numbers up to 2048 are exact, and order is kept: a > b is never packed
 * below b, so the highest of a ring is found without unpacking it.
 *
 * Memory:  none.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_BASE_PACK16_H
#define AW_BASE_PACK16_H

#include <math.h>
#include <stdint.h>

#define AW_PACK16_EXPONENT_LEAST (-17)
#define AW_PACK16_FRACTION       1024u

/* `up`: 0.5 to the nearest, 1 - 1e-9 never below. NAN, and what is not positive, is 0. */
static inline uint16_t aw__pack16(double value, double up)
{
    int exponent;
    const double part = frexp(value, &exponent); /* 0.5 .. 1 */
    if (!(value > 0) || exponent <= AW_PACK16_EXPONENT_LEAST)
        return 0;
    if (exponent > AW_PACK16_EXPONENT_LEAST + 63)
        return UINT16_MAX;
    /* a fraction of 1024 is the next power of two: the sum carries it there */
    const uint32_t fraction = (uint32_t)(2 * AW_PACK16_FRACTION * part - AW_PACK16_FRACTION + up);
    const uint32_t bits =
        (uint32_t)(exponent - AW_PACK16_EXPONENT_LEAST) * AW_PACK16_FRACTION + fraction;
    return (uint16_t)(bits < UINT16_MAX ? bits : UINT16_MAX);
}
static inline uint16_t aw_pack16(double value)
{
    return aw__pack16(value, 0.5);
}
static inline uint16_t aw_pack16_up(double value)
{
    return aw__pack16(value, 1 - 1e-9);
}
static inline double aw_unpack16(uint16_t bits)
{
    const double fraction = AW_PACK16_FRACTION + bits % AW_PACK16_FRACTION;
    const int exponent = (int)(bits / AW_PACK16_FRACTION) + AW_PACK16_EXPONENT_LEAST;
    return bits ? ldexp(fraction / (2 * AW_PACK16_FRACTION), exponent) : 0;
}

#endif
