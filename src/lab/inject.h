/* inject.h - what the files of the verb `inject` share. */
#ifndef AW_LAB_INJECT_H
#define AW_LAB_INJECT_H

#include <stdio.h>

#include "frame/verb.h"
#include "graph/campaign.h"

/* Requests by when they arrived (simulated) or ended (real), a second each. */
struct aw__second {
    uint32_t requests, missed;
};

struct aw__injection {
    struct aw_graph_app app;
    struct aw_campaign campaign;
    struct aw_calibration calibration;
    bool real;
    struct aw__second *seconds; /* [second_count] */
    uint32_t second_count;
    uint32_t requests, missed;
};

/* The campaign among real processes: started, calibrated, stressed, ended. */
AW_NODISCARD enum aw_err aw__inject_local(const struct aw_call *run, struct aw__injection *at,
                                          FILE *spans_out, struct aw_diag *diag);

#endif
