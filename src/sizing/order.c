/* order.c - lists of configurations to try, from what was best elsewhere. */
#include <math.h>
#include <stdbool.h>

#include "sizing/learner_internal.h"

void aw__size_order(const struct aw_size_memory *memory, uint32_t *ret)
{
    const uint32_t C = memory->config_count;
    for (uint32_t c = 0; c < C; c++) {
        uint32_t at = c;
        for (; at > 0 && memory->effect[ret[at - 1]] > memory->effect[c]; at--)
            ret[at] = ret[at - 1];
        ret[at] = c;
    }
}

/* Every known workload is moved to the level of the shots and counts by how well it fits them. */
void aw__size_near(const struct aw_size_memory *memory, double near,
                   const struct aw_size_shot *shots, uint32_t count, double *ret_gain)
{
    const uint32_t C = memory->config_count;
    double best = INFINITY, total = 1e-12;
    for (uint32_t i = 0; i < count; i++)
        best = fmin(best, shots[i].value);
    for (uint32_t c = 0; c < C; c++)
        ret_gain[c] = 0;
    for (uint32_t w = 0; w < memory->workload_count; w++) {
        const double *rest = memory->rest + (size_t)w * C;
        double offset = 0, square = 0, n = 0;
        for (uint32_t i = 0; i < count; i++)
            if (isfinite(rest[shots[i].config])) {
                offset += shots[i].value - memory->effect[shots[i].config] - rest[shots[i].config];
                n++;
            }
        if (n == 0)
            continue;
        offset /= n;
        for (uint32_t i = 0; i < count; i++) {
            const double gap =
                shots[i].value - memory->effect[shots[i].config] - rest[shots[i].config] - offset;
            square += isfinite(gap) ? gap * gap : near * near;
        }
        const double like = exp(-square / (2 * near * near)) + 1e-6;
        total += like;
        for (uint32_t c = 0; c < C; c++)
            if (isfinite(rest[c]))
                ret_gain[c] += like * fmax(0, 1 - exp(offset + memory->effect[c] + rest[c] - best));
    }
    for (uint32_t c = 0; c < C; c++)
        ret_gain[c] /= total;
}
