/*
 * run_demo.c - the built-in demo of `aware run`, as the file that a user could have written.
 *
 * One definition: the demo is made as YAML and then read like any file, so `aware run --print-demo`
 * shows what runs, and `aware run -f examples/demo.yaml` runs the same.
 */
#include "cli/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define POOL_SEED    1u   /* of the generated applications */
#define SLO_FACTOR   1.5  /* over the p99 of a request alone */
#define SLO_BUDGET   "1%" /* of steps */
#define REPLICAS_MAX 20u
#define CPU_MAX      "4"
#define MEMORY_MAX   "4Gi"
#define MEAN_CORES   2.0   /* that a load keeps busy on average */
#define DISTURBED_AT "14h" /* all serve by then; the run ends at AW__RUN_DURATION_TEXT */

static const struct {
    const char *name;
    uint32_t app; /* of the pool */
    const char *load;
    uint32_t hpa_target;  /* percent of the CPU request at which the fallback holds the SLO */
    const char *scenario; /* NULL: none */
    const char *what;     /* for a comment */
} demo[] = {
    {"storefront", 39, "diurnal:peak=3,period=6h", 60, NULL, "a web front end with a day's wave"},
    {"orders", 28, "diurnal:peak=2,period=4h", 60, NULL, "a table in a database"},
    {"downloads", 27, "diurnal:peak=3,period=6h", 60, NULL, "compressed files, unpacked"},
    {"uploads", 21, "bursts:peak=2.5,period=60m,duration=20m", 50, NULL,
     "writes to an object store, in bursts"},
    {"exports", 35, "ramp:peak=2,period=3h", 50, "neighbour-cpu@" DISTURBED_AT,
     "jobs, up and down; when it has long been serving, a noisy neighbour moves in"},
};

char *aw__run_demo_yaml(void)
{
    char *bytes = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&bytes, &len);
    if (!out)
        return NULL;
    fputs("# The demo of `aware run`: five generated applications on the simulated cluster. Each "
          "begins under\n"
          "# HPA and VPA; AWARE learns from them, takes over, serves, and learns again after a "
          "disturbance.\n"
          "# Written by `aware run --print-demo`; `aware run -f examples/demo.yaml` runs it.\n",
          out);
    for (size_t i = 0; i < sizeof demo / sizeof *demo; i++) {
        struct aw_app app;
        aw_app_generate(POOL_SEED, demo[i].app, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                        &app);
        const double slo_ms = SLO_FACTOR * 1e-3 * aw_app_unloaded_p99_us(&app, 1, 0);
        fprintf(out,
                "---\n"
                "# %s\n"
                "apiVersion: " AW_PROFILE_API_VERSION "\n"
                "kind: SimulatedApplication\n"
                "metadata:\n"
                "  name: %s\n"
                "spec:\n"
                "  app: {seed: %u, index: %" PRIu32 "}\n"
                "  load: {source: \"%s\", cores: %g}\n",
                demo[i].what, demo[i].name, POOL_SEED, demo[i].app, demo[i].load, MEAN_CORES);
        if (demo[i].scenario)
            fprintf(out, "  scenarios: %s\n", demo[i].scenario);
        fprintf(out,
                "---\n"
                "apiVersion: " AW_PROFILE_API_VERSION "\n"
                "kind: MultidimPodAutoscaler\n"
                "metadata:\n"
                "  name: %s\n"
                "spec:\n"
                "  scaleTargetRef:\n"
                "    name: %s\n"
                "  goals:\n"
                "    slo:\n"
                "      latency: {quantile: 0.99, target: %.0fms} # %g times that of a request "
                "alone\n"
                "      budget: %s\n"
                "  constraints:\n"
                "    global: {minReplicas: 1, maxReplicas: %u}\n"
                "    pod:\n"
                "      requests:\n"
                "        minAllowed: {cpu: 100m, memory: 64Mi}\n"
                "        maxAllowed: {cpu: " CPU_MAX ", memory: " MEMORY_MAX "}\n"
                "  learning:\n"
                "    fallback: {hpaTarget: %" PRIu32 "} # HPA on CPU, VPA on memory\n",
                demo[i].name, demo[i].name, ceil(slo_ms), SLO_FACTOR, SLO_BUDGET, REPLICAS_MAX,
                demo[i].hpa_target);
    }
    if (fclose(out) != 0) {
        free(bytes);
        return NULL;
    }
    return bytes;
}
