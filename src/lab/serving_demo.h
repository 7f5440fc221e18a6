/* serving_demo.h - the demo of model serving, for `aware run --demo serving`. */
#ifndef AW_LAB_SERVING_DEMO_H
#define AW_LAB_SERVING_DEMO_H

#include "frame/verb.h"

/* Reads --report, --seed, --quiet and --output of `run`. */
AW_NODISCARD enum aw_err aw_serving_demo(const struct aw_call *call, struct aw_diag *diag);

#endif
