/*
 * gpu_profile.h - laws of time and power of programs, fitted to a sweep of a GPU's clocks.
 *
 * Call order: read, use, deinit. Memory: one array. Threads: no shared state.
 */
#ifndef AW_SERVING_GPU_PROFILE_H
#define AW_SERVING_GPU_PROFILE_H

#include "serving/gpu.h"

struct aw_gpu_program {
    char name[128]; /* program, kernel and arguments, as the file has them */
    uint32_t clocks;
    struct aw_gpu_time time;
    struct aw_gpu_power power;
    double error_time, error_power; /* mean, of the fit itself */
};
struct aw_gpu_profile {
    double clock_max; /* MHz */
    bool timed;       /* false: the file has power alone */
    struct aw_gpu_volt volt;
    uint32_t programs;
    struct aw_gpu_program *program;
};
/* AW_ERR_FORMAT: no sweep of clocks. On failure it is left zeroed. */
AW_NODISCARD enum aw_err aw_gpu_profile_read(const char *path, struct aw_gpu_profile *ret,
                                             struct aw_diag *diag);
void aw_gpu_profile_deinit(struct aw_gpu_profile *profile);

#endif
