/*
 * host.h - what a machine shows of its processor's frequency, below any folder that looks like
 * /sys: drivers and their quirks, what was found before anything was touched, and the way back.
 *
 * Setting itself is device/devices.h (cpufreq) behind its helper, which resets when its client is
 * gone. What the helper cannot know after it was killed too is in a file of ours, written before
 * the first touch: the caps as they were found.
 *
 * Call order: probe; note; (the agent works); restore.
 * Memory:     plain structs. Threads: any.
 */
#ifndef AW_FREQUENCY_HOST_H
#define AW_FREQUENCY_HOST_H

#include <aware/err.h>

#define AW_HOST_POLICIES_MAX 64u
#define AW_HOST_WORD_MAX     32u
#define AW_HOST_WHY_MAX      200u

struct aw_host_policy {
    uint32_t number;
    char driver[AW_HOST_WORD_MAX], governor[AW_HOST_WORD_MAX], preference[AW_HOST_WORD_MAX];
    char cpus[64];
    uint32_t min_khz, max_khz, base_khz; /* base 0: not said */
    uint32_t cap_khz, floor_khz;         /* scaling_max_freq and scaling_min_freq now */
    bool settable;                       /* the cap can be written by this process */
    char why[AW_HOST_WHY_MAX];           /* what this driver does with a cap, or why not */
};

struct aw_host {
    uint32_t count;
    struct aw_host_policy policy[AW_HOST_POLICIES_MAX];
    char driver_status[AW_HOST_WORD_MAX]; /* intel_pstate or amd_pstate: active, passive, ... */
    bool turbo_known, turbo;
    bool energy; /* RAPL can be read */
    char energy_why[AW_HOST_WHY_MAX];
    uint64_t throttles; /* of all CPUs, since boot */
};
/* AW_ERR_UNAVAILABLE: nothing can be controlled here; the diagnostic says why in a sentence. */
AW_NODISCARD enum aw_err aw_host_probe(const char *root, struct aw_host *ret, struct aw_diag *diag);
uint64_t aw_host_throttles(const char *root); /* 0 where nothing counts them */

/* Energy of all packages, of a counter that wraps. */
struct aw_host_energy {
    uint64_t last_uj[8], range_uj[8];
    uint32_t zones;
};
bool aw_host_energy_open(struct aw_host_energy *energy, const char *root);
/* Joules since the last call; NAN: a zone could not be read. */
double aw_host_energy_read(struct aw_host_energy *energy, const char *root);

/* Writes what was found to `path`. A note that is there already is kept: what it says was found
 * earlier, so it is nearer to what the owner wants (AW_ERR_EXISTS, nothing written). */
AW_NODISCARD enum aw_err aw_host_note(const struct aw_host *host, const char *root,
                                      const char *path, struct aw_diag *diag);
struct aw_host_restored {
    uint32_t policies; /* that the note names */
    uint32_t changed;  /* of them, that had another cap or floor */
    uint32_t gone;     /* not there any more */
};
/* Puts back what the note says, reads it back, removes the note. Idempotent: without a note nothing
 * is done. AW_ERR_CONFLICT: a policy did not take it; the note stays. */
AW_NODISCARD enum aw_err aw_host_restore(const char *path, struct aw_host_restored *ret,
                                         struct aw_diag *diag);

#endif
