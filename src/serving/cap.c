/* cap.c - splitting watts, and keeping the sum. */
#include "serving/cap.h"

#include <math.h>
#include <string.h>

#define WISH 0.01 /* worth of a step that no SLO needs, over one that it does */

void aw_cap_init(struct aw_cap *cap, const struct aw_gpu_kind *kind, uint32_t devices, double x,
                 double bound, double switch_s)
{
    AW_ASSERT(devices <= AW_CAP_DEVICES_MAX);
    *cap = (struct aw_cap){.kind = kind, .devices = devices, .bound = bound, .switch_s = switch_s};
    const double low = aw_gpu_x_min(kind);
    for (uint32_t i = 0; i <= AW_CAP_LEVELS; i++) {
        const double at = low + (1 - low) * i / AW_CAP_LEVELS;
        for (uint32_t m = 0; m <= 4; m++) /* whatever it is that it serves */
            cap->level_w[i] = fmax(cap->level_w[i], bound * aw_gpu_busy_w(kind, 0.25 * m, at));
    }
    for (uint32_t d = 0; d < devices; d++) {
        cap->last_x[d] = cap->target_x[d] = x;
        cap->set_at_s[d] = -INFINITY;
    }
}

/* Power is convex in the clock, so a line between two levels is above it: still a bound. */
double aw_cap_watts(const struct aw_cap *cap, double x)
{
    const double low = aw_gpu_x_min(cap->kind);
    const double at = fmin(fmax((x - low) / (1 - low), 0), 1) * AW_CAP_LEVELS;
    const uint32_t level = at < AW_CAP_LEVELS ? (uint32_t)at : AW_CAP_LEVELS - 1;
    return cap->level_w[level] + (at - level) * (cap->level_w[level + 1] - cap->level_w[level]);
}

/* What a device gains in SLO loss from x to y. */
static double worth(const struct aw_cap_device *device, double x, double y)
{
    const double needed = fmax(fmin(y, device->need_x) - fmin(x, device->need_x), 0);
    return fmax(device->weight, 1e-6) * (needed + WISH * (y - x));
}

void aw_cap_split(const struct aw_cap *cap, const struct aw_cap_device *device, const bool *held,
                  double budget_w, double *ret_x)
{
    const double low = aw_gpu_x_min(cap->kind), step = (1 - low) / AW_CAP_LEVELS;
    double used = 0;
    for (uint32_t d = 0; d < cap->devices; d++) {
        ret_x[d] = held[d] ? ret_x[d] : low;
        used += aw_cap_watts(cap, ret_x[d]);
    }
    for (;;) {
        uint32_t best = UINT32_MAX;
        double rate = 0, cost = 0, next = 0;
        for (uint32_t d = 0; d < cap->devices; d++) {
            const double y = fmin(ret_x[d] + step, device[d].want_x);
            if (held[d] || y <= ret_x[d] + 1e-12)
                continue;
            const double watts = aw_cap_watts(cap, y) - aw_cap_watts(cap, ret_x[d]);
            const double own = worth(&device[d], ret_x[d], y) / fmax(watts, 1e-9);
            if (used + watts <= budget_w && own > rate) {
                best = d;
                rate = own;
                cost = watts;
                next = y;
            }
        }
        if (best == UINT32_MAX)
            return;
        ret_x[best] = next;
        used += cost;
    }
}

bool aw_cap_tick(struct aw_cap *cap, double now_s, double cap_w, const struct aw_cap_device *device,
                 double *ret_x)
{
    const double low = aw_gpu_x_min(cap->kind);
    bool held[AW_CAP_DEVICES_MAX] = {false}, stuck = false;
    double x[AW_CAP_DEVICES_MAX], highest[AW_CAP_DEVICES_MAX], sum = 0, spare = 0, least = 0;
    for (uint32_t d = 0; d < cap->devices; d++) {
        const bool lost = isnan(device[d].read_x);
        if (!lost)
            cap->last_x[d] = device[d].read_x;
        /* after a latency the target is there, or it was ignored */
        const bool settled = now_s >= cap->set_at_s[d] + cap->switch_s - 1e-9;
        const bool ignored = settled && cap->last_x[d] > cap->target_x[d] + 1e-6;
        highest[d] = settled ? cap->last_x[d] : fmax(cap->last_x[d], cap->target_x[d]);
        held[d] = lost || ignored;
        x[d] = held[d] ? highest[d] : low;
        stuck |= held[d];
        if (!held[d])
            spare = fmax(spare, aw_cap_watts(cap, highest[d]) - aw_cap_watts(cap, low));
        sum += aw_cap_watts(cap, highest[d]);
        least += aw_cap_watts(cap, x[d]);
    }
    /* where somebody does not follow, the next one may not either */
    const double budget = stuck && sum > cap_w ? fmax(cap_w - spare, least) : cap_w;
    aw_cap_split(cap, device, held, budget, x);
    for (uint32_t d = 0; d < cap->devices; d++) {
        ret_x[d] = NAN;
        const bool ignored = held[d] && !isnan(device[d].read_x);
        double next = ignored ? low : aw_gpu_grid(cap->kind, x[d] - 1e-9);
        if (next > x[d] + 1e-9) /* the grid rounds up */
            next = fmax(next - cap->kind->clock_step / cap->kind->clock_max, low);
        if (isnan(device[d].read_x))
            continue;
        if (next > highest[d]) { /* up: only with all others at their highest */
            const double more = aw_cap_watts(cap, next) - aw_cap_watts(cap, highest[d]);
            if (sum + more > cap_w)
                continue;
            sum += more;
        }
        if (!ignored && fabs(next - cap->target_x[d]) < 1e-9 && fabs(next - cap->last_x[d]) < 1e-9)
            continue;
        cap->target_x[d] = next;
        cap->set_at_s[d] = now_s;
        ret_x[d] = next;
    }
    return least <= cap_w;
}
