/* similarity.c - see the formula in the header. */
#include "meta/similarity.h"

#include <math.h>

double aw_similarity(const float *a, const float *b, uint32_t dim)
{
    double aa = 0, bb = 0, ab = 0, dd = 0;
    for (uint32_t i = 0; i < dim; i++) {
        const double x = (double)a[i], y = (double)b[i];
        aa += x * x;
        bb += y * y;
        ab += x * y;
        dd += (x - y) * (x - y);
    }
    const double lengths = sqrt(aa) + sqrt(bb);
    if (lengths <= 0)
        return 1;
    const double cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
    return (1 - sqrt(dd) / lengths + fmin(1, fmax(-1, cosine))) / 2;
}

uint32_t aw_similarity_nearest(const float *a, const float *known, uint32_t count, uint32_t dim,
                               uint32_t max, uint32_t *ret_index, double *ret_similarity)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double s = aw_similarity(a, known + (size_t)i * dim, dim);
        uint32_t at = found;
        while (at > 0 && s > aw_similarity(a, known + (size_t)ret_index[at - 1] * dim, dim))
            at--;
        if (at >= max)
            continue;
        found += found < max;
        for (uint32_t k = found - 1; k > at; k--)
            ret_index[k] = ret_index[k - 1];
        ret_index[at] = i;
    }
    for (uint32_t i = 0; ret_similarity && i < found; i++)
        ret_similarity[i] = aw_similarity(a, known + (size_t)ret_index[i] * dim, dim);
    return found;
}

double aw_similarity_quantile(double nearest, const double *known_nearest, uint32_t count)
{
    uint32_t below = 0;
    for (uint32_t i = 0; i < count; i++)
        below += known_nearest[i] <= nearest;
    return count ? (double)below / count : NAN;
}
