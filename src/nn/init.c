/* init.c - uniform, fan-in and orthogonal beginnings. */
#include "nn/init.h"

#include <math.h>

void aw_init_uniform(float *value, size_t count, float limit, struct aw_rng *rng)
{
    aw_rng_fill_uniform(rng, value, count, -limit, limit);
}

void aw_init_fan_in(float *value, size_t count, uint32_t fan_in, struct aw_rng *rng)
{
    AW_ASSERT(fan_in > 0);
    aw_init_uniform(value, count, (float)(1 / sqrt((double)fan_in)), rng);
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Draws vector `k` and makes it a unit vector orthogonal to the k before it. Projecting twice is
 * enough for full precision (Giraud, Langou and Rozloznik, 2005). */
static void draw_orthonormal(double *vectors, size_t k, size_t length, struct aw_rng *rng)
{
    double *vector = vectors + k * length;
    double norm;
    do {
        for (size_t i = 0; i < length; i++)
            vector[i] = aw_rng_normal(rng);
        for (int pass = 0; pass < 2; pass++) {
            for (size_t j = 0; j < k; j++) {
                const double *other = vectors + j * length;
                double along = dot(vector, other, length);
                for (size_t i = 0; i < length; i++)
                    vector[i] -= along * other[i];
            }
        }
        norm = sqrt(dot(vector, vector, length));
    } while (norm < 1e-9); /* the draw lay in the span of the others: next to never */
    for (size_t i = 0; i < length; i++)
        vector[i] /= norm;
}

void aw_init_orthogonal(float *value, uint32_t rows, uint32_t columns, float gain, double *work,
                        struct aw_rng *rng)
{
    /* Gram-Schmidt is a QR decomposition with a positive diagonal of R by construction. */
    bool wide = rows <= columns;
    size_t count = wide ? rows : columns, length = wide ? columns : rows;
    for (size_t k = 0; k < count; k++)
        draw_orthonormal(work, k, length, rng);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            value[r * columns + c] =
                (float)((double)gain * (wide ? work[r * length + c] : work[c * length + r]));
}
