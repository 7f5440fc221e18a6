/* tenants_demo.h - `aware run --demo tenants`: twenty tenants of a full cluster. */
#ifndef AW_LAB_TENANTS_DEMO_H
#define AW_LAB_TENANTS_DEMO_H

#include "frame/verb.h"

AW_NODISCARD enum aw_err aw_demo_tenants(const struct aw_call *call, struct aw_diag *diag);

#endif
