/* demo_services.h - what the files of the demo `services` share: what happened, to be shown. */
#ifndef AW_CLI_DEMO_SERVICES_H
#define AW_CLI_DEMO_SERVICES_H

#include "firm/trial.h"

#define AW__DEMO_STEPS 256u
#define AW__DEMO_SPANS 96u /* of the waterfall */
#define AW__DEMO_LINES 64u /* of what was decided */
#define AW__DEMO_RUNS  2u  /* FIRM, HPA */

struct aw__demo_bar { /* a server's span in the waterfall */
    char service[AW_GRAPH_NAME_MAX];
    uint32_t depth, section_count;
    double start_ms, end_ms, path_ms;
    double section[8][2]; /* of the critical path, ms */
};

struct aw__demo_event {
    double at_s;
    char text[320];
};

struct aw__demo_run {
    const char *name;
    uint32_t steps;
    double at_s[AW__DEMO_STEPS], missed[AW__DEMO_STEPS], latency_of_slo[AW__DEMO_STEPS];
    uint32_t culprit[AW__DEMO_STEPS]; /* service; AW_GRAPH_NONE */
    uint32_t event_count;
    struct aw__demo_event event[AW__DEMO_LINES];
    struct aw_firm_outcome outcome;
};

struct aw__demo_services {
    struct aw_graph_app app;
    struct aw_campaign campaign;
    struct aw_calibration calibration;
    struct aw__demo_run run[AW__DEMO_RUNS];
    /* the slowest request of the first step that missed the SLO */
    uint32_t bar_count, bar_type;
    double request_ms, bar_at_s;
    struct aw__demo_bar bar[AW__DEMO_SPANS];
    uint32_t culprit;
};

AW_NODISCARD enum aw_err aw__demo_services_page(const struct aw__demo_services *demo,
                                                const char *path, struct aw_diag *diag);

#endif
