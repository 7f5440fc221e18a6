/* catalog.c - the V100 as measured, and the fifteen models of Table 6.1. */
#include "serving/catalog.h"

#include <math.h>
#include <string.h>

#define LENGTH_TABLE 512.0 /* tokens at which Table 6.1 has its latencies */
#define FIRST_SHARE  0.05  /* of that latency, before the first token: a prompt is one pass */

const struct aw_gpu_kind aw_gpu_kinds[] = {
    /* Laws: NV-DVFS-Benchmark on the V100, 405 to 1,380 MHz, matrixMul and streaming kernels; the
     * nearly idle readings (27 W and 49 W) are those of a GPU with a context. */
    {.name = "v100",
     .clock_max = 1380,
     .clock_min = 405,
     .clock_step = 7.5,
     .memory_gb = 13,
     .idle_min_w = 27,
     .idle_max_w = 49,
     .parked_w = 25,
     .limit_w = 300,
     .volt = {0.26, 0.5},
     .core = {17, 154, 1},
     .stream = {40, 106, 1},
     /* not measured: of 900 GB/s and 125 TFLOP/s (data sheet) what the A100 reaches of its own */
     .roof = {4e-6, 0.67e12, 95e12, 1.5},
     .source = "NV-DVFS-Benchmark (Wang and Chu, 2018), V100",
     .error = 0.05},
    /* Laws: Perseus' GPT-3 stages, 855 to 1,410 MHz; idle of the data sheet's class. */
    {.name = "a100",
     .clock_max = 1410,
     .clock_min = 210,
     .clock_step = 15,
     .memory_gb = 75,
     .idle_min_w = 50,
     .idle_max_w = 80,
     .parked_w = 45,
     .limit_w = 400,
     .volt = {0.8, 0.82},
     .core = {57, 437, 1},
     .stream = {80, 200, 1},
     .roof = {4e-6, 1.5e12, 238e12, 1.5}, /* Vidur's products of Llama-2-7B: 6.8 % */
     .source = "Perseus (Chung et al., 2024), A100 SXM, GPT-3 stages",
     .error = 0.01},
    {.name = NULL},
};

const struct aw_gpu_kind *aw_gpu_kind_find(const char *name)
{
    for (const struct aw_gpu_kind *kind = aw_gpu_kinds; kind->name; kind++)
        if (!strcmp(kind->name, name))
            return kind;
    return NULL;
}

double aw_gpu_x_min(const struct aw_gpu_kind *kind)
{
    return kind->clock_min / kind->clock_max;
}

double aw_gpu_grid(const struct aw_gpu_kind *kind, double x)
{
    const double steps = ceil((x * kind->clock_max - kind->clock_min) / kind->clock_step - 1e-9);
    const double clock = kind->clock_min + fmax(steps, 0) * kind->clock_step;
    return fmin(clock / kind->clock_max, 1);
}

double aw_gpu_idle_w(const struct aw_gpu_kind *kind, double x)
{
    const double low = aw_gpu_x_min(kind);
    return kind->idle_min_w + (kind->idle_max_w - kind->idle_min_w) * (x - low) / (1 - low);
}

double aw_gpu_busy_w(const struct aw_gpu_kind *kind, double m, double x)
{
    const double w = (1 - m) * aw_gpu_power_at(&kind->core, &kind->volt, x) +
                     m * aw_gpu_power_at(&kind->stream, &kind->volt, x);
    return fmin(fmax(w, aw_gpu_idle_w(kind, x)), kind->limit_w);
}

const struct aw_serving_model aw_serving_models[AW_SERVING_MODELS] = {
    {"resnet-50", 0.2, 0.051, false, 0.25},     {"bert-base", 0.5, 0.123, false, 0.12},
    {"bert-large", 1.4, 0.365, false, 0.12},    {"roberta-base", 0.5, 0.135, false, 0.12},
    {"roberta-large", 1.4, 0.382, false, 0.12}, {"opt-1.3b", 5.0, 1.243, true, 0.6},
    {"opt-2.7b", 10.4, 2.351, true, 0.65},      {"gpt2-large", 3.3, 0.832, true, 0.5},
    {"gpt2-xl", 6.4, 1.602, true, 0.55},        {"codegen-350m", 1.3, 0.357, true, 0.5},
    {"codegen-2b", 8.0, 2.507, true, 0.65},     {"bloom-1b1", 4.0, 0.523, true, 0.6},
    {"bloom-3b", 11.0, 1.293, true, 0.7},       {"switch-base-16", 2.4, 0.348, true, 0.6},
    {"switch-base-32", 4.8, 0.402, true, 0.65},
};

double aw_serving_work(const struct aw_serving_model *model, double tokens)
{
    if (!model->autoregressive)
        return model->latency_s;
    return model->latency_s * (FIRST_SHARE + (1 - FIRST_SHARE) * tokens / LENGTH_TABLE);
}
