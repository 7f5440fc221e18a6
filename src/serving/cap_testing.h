/* cap_testing.h - bad days of eight GPUs below a cap: lost ones, failed and ignored sets, power
 * that is not what the profile says, caps that fall. */
#ifndef AW_SERVING_CAP_TESTING_H
#define AW_SERVING_CAP_TESTING_H

#include "serving/cap.h"

#include <math.h>
#include <time.h>

#include "base/rng.h"
#include "base/testing.h"

#define DEVICES  8u
#define BOUND    1.1
#define SWITCH_S 0.2
#define TICKS    288u /* of a day: every five minutes, each with its latencies */

/* The true world of one device. */
struct truth {
    double x, pending_x, at_s; /* a set on its way */
    double error;              /* of its power, against the profile */
    bool lost;
};

static void set_make(struct truth *truth, struct aw_rng *rng, double now_s, double x)
{
    for (uint32_t twice = 0; twice < 2; twice++) { /* a set is sent twice */
        bool failed = aw_rng_double(rng) < 0.05;   /* says so, and is tried again at once */
        for (uint32_t again = 0; failed && again < 4; again++)
            failed = aw_rng_double(rng) < 0.05;
        if (failed || aw_rng_double(rng) < 0.01) /* or says nothing and does nothing */
            continue;
        truth->pending_x = x;
        truth->at_s = now_s + SWITCH_S;
    }
}

struct day {
    uint64_t checks, over, hopeless;
    double most_w;
};

static void moment(struct aw_cap *cap, struct truth *truth, struct aw_rng *rng, double now_s,
                   double cap_w, const double *want, bool check, struct day *day)
{
    struct aw_cap_device device[DEVICES];
    double x[DEVICES], watts = 0;
    for (uint32_t d = 0; d < DEVICES; d++) {
        if (!truth[d].lost && truth[d].at_s <= now_s) {
            truth[d].x = truth[d].pending_x;
            truth[d].at_s = INFINITY;
        }
        device[d] =
            (struct aw_cap_device){truth[d].lost ? NAN : truth[d].x, want[d], 0.5 * want[d], 1 + d};
        watts += (1 + truth[d].error) * aw_gpu_busy_w(cap->kind, 0.3, truth[d].x);
    }
    const bool possible = aw_cap_tick(cap, now_s, cap_w, device, x);
    if (check) {
        day->checks++;
        day->hopeless += !possible;
        day->over += possible && watts > cap_w;
        day->most_w = fmax(day->most_w, watts - cap_w);
    }
    for (uint32_t d = 0; d < DEVICES; d++)
        if (isfinite(x[d]) && !truth[d].lost)
            set_make(&truth[d], rng, now_s, x[d]);
}

static void bad_day(uint64_t seed, struct day *day)
{
    struct aw_cap cap;
    struct aw_rng rng;
    struct truth truth[DEVICES];
    double want[DEVICES], cap_w = 1400;
    const struct aw_gpu_kind *kind = aw_gpu_kind_find("v100");
    aw_rng_init(&rng, seed, 0xbad);
    aw_cap_init(&cap, kind, DEVICES, aw_gpu_x_min(kind), BOUND, SWITCH_S);
    for (uint32_t d = 0; d < DEVICES; d++)
        truth[d] = (struct truth){
            .x = aw_gpu_x_min(kind), .at_s = INFINITY, .error = aw_rng_uniform(&rng, -0.09, 0.09)};
    uint32_t lost = 0;
    for (uint32_t t = 0; t < TICKS; t++) {
        const double now_s = 300.0 * t;
        if (aw_rng_below(&rng, 24) == 0)
            cap_w = aw_rng_uniform(&rng, 820, 1500);
        for (uint32_t d = 0; d < DEVICES; d++) {
            want[d] = aw_rng_below(&rng, 3) ? aw_rng_uniform(&rng, 0.3, 1) : 1;
            if (truth[d].lost && aw_rng_below(&rng, 6) == 0) {
                truth[d].lost = false;
                lost--;
            } else if (!truth[d].lost && lost < 2 && aw_rng_below(&rng, 100) == 0) {
                truth[d].lost = true;
                lost++;
            }
        }
        for (uint32_t k = 0; k <= 4; k++) /* two latencies after the cap has changed, it holds */
            moment(&cap, truth, &rng, now_s + k * SWITCH_S, cap_w, want, k >= 2, day);
    }
}

static inline void days_run(uint32_t count)
{
    struct day day = {.most_w = -INFINITY};
    const clock_t begin = clock();
    for (uint32_t i = 0; i < count; i++)
        bad_day(i, &day);
    print_message(
        "%u bad days: %lu moments, %lu above the cap, %lu with no way to keep it, nearest "
        "%.0f W, %.1f s\n",
        count, (unsigned long)day.checks, (unsigned long)day.over, (unsigned long)day.hopeless,
        day.most_w, (double)(clock() - begin) / CLOCKS_PER_SEC);
    assert_true(day.over == 0);
    assert_true(day.hopeless * 100 < day.checks);
}

#endif
