/* gpu.h - what the verbs of `gpu` share. */
#ifndef AW_OPERATE_GPU_H
#define AW_OPERATE_GPU_H

#include "device/devices.h"
#include "device/helper.h"
#include "frame/verb.h"

/* The devices of --device; for one that will set, through a helper process. */
AW_NODISCARD enum aw_err aw__gpu_open(const struct aw_call *run, bool to_set,
                                      struct aw_devices *ret, struct aw_diag *diag);

#endif
