/* fuzz_policy.c - policies that are handed in (control/pilot_policy.c): what is taken is the very
 * policy that its id names, and what is refused changes nothing. */
#include "base/units.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/pilot.h"

#define KINDS 2u

struct subject {
    struct aw_pilot *pilot;
    unsigned char *before, *after; /* its state */
};

/* A pilot whose policy acts from the first tick on. */
static void begin(struct subject *subject, uint32_t agent)
{
    struct aw_pilot_config config;
    aw_pilot_config_init(&config);
    snprintf(config.name, sizeof config.name, "fuzz/policy");
    config.bounds =
        (struct aw_bounds){.min = {1, 100, 128 * AW_MIB}, .max = {4, 4000, 4096 * AW_MIB}};
    config.slo.latency_us_p99 = 1e5;
    config.agent = agent;
    config.learner.hidden = 1;
    config.lifecycle.bootstrap = false;
    config.seed = 1;
    const struct aw_fallback_task task = {.bounds = config.bounds,
                                          .slo_latency_us = 1e5,
                                          .replicas = 1,
                                          .cpu_millicores = 1000,
                                          .memory_bytes = 512 * AW_MIB};
    const enum aw_err err = aw_pilot_new(&config, &task, 0, NULL, &subject->pilot, NULL);
    AW_ASSERT(!err);
    subject->before = malloc(aw_pilot_state_bytes(subject->pilot));
    subject->after = malloc(aw_pilot_state_bytes(subject->pilot));
    AW_ASSERT(subject->before && subject->after);
    aw_pilot_state_save(subject->pilot, subject->before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct subject subjects[KINDS];
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct subject *subject = &subjects[kind];
        struct aw_diag diag = {0};
        if (!subject->pilot)
            begin(subject, kind);
        const enum aw_err err = aw_pilot_propose(subject->pilot, (const char *)data, size, &diag);
        aw_pilot_state_save(subject->pilot, subject->after);
        const bool same =
            memcmp(subject->before, subject->after, aw_pilot_state_bytes(subject->pilot)) == 0;
        AW_ASSERT(same == (err != AW_OK));
        if (err) {
            check_refusal(&diag, err);
        } else {
            const enum aw_err back = aw_pilot_state_load(subject->pilot, subject->before);
            AW_ASSERT(!back);
        }
    }
    return 0;
}
