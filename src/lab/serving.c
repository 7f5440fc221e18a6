/* serving.c - the verbs `serving validate` and `serving profile`. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "serving/gpu_profile.h"
#include "serving/onnx.h"
#include "serving/validate.h"

static json_t *row_json(const struct aw_validate_row *row)
{
    json_t *object = json_pack("{s:s, s:I, s:o, s:o}", "what", row->what, "cases",
                               (json_int_t)row->cases, "error_mean", aw_json_real(row->error_mean),
                               "error_p95", aw_json_real(row->error_p95));
    if (row->file[0])
        json_object_set_new(object, "file", json_string(row->file));
    if (isfinite(row->tau))
        json_object_set_new(object, "tau", aw_json_real(row->tau));
    if (isfinite(row->accuracy))
        json_object_set_new(object, "accuracy", aw_json_real(row->accuracy));
    if (isfinite(row->goal) && !row->file[0])
        json_object_set_new(object, "goal", aw_json_real(row->goal));
    return object;
}

static enum aw_err validate_print_json(const struct aw_validate *validate, struct aw_diag *diag)
{
    json_t *rows = json_array(), *files = json_array(), *skipped = json_array();
    for (uint32_t i = 0; i < validate->rows; i++)
        json_array_append_new(validate->row[i].file[0] ? files : rows, row_json(&validate->row[i]));
    for (uint32_t i = 0; i < validate->skipped; i++)
        json_array_append_new(
            skipped, json_pack("{s:s, s:s}", "file", validate->skip[i], "why", validate->why[i]));
    return aw_json_print(
        json_pack("{s:o, s:o, s:o}", "rows", rows, "files", files, "skipped", skipped), diag);
}

static enum aw_err validate_print(const struct aw_call *run, const struct aw_validate *validate,
                                  struct aw_diag *diag)
{
    static const char *const heads[] = {"WHAT",  ">CASES", ">ERROR MEAN", ">P95",
                                        ">GOAL", ">TAU",   "FILE",        NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < validate->rows; i++) {
        const struct aw_validate_row *row = &validate->row[i];
        aw_table_add(&table, "%s", row->what);
        aw_table_add(&table, "%" PRIu64, row->cases);
        aw_table_add(&table, "%.1f%%", 100 * row->error_mean);
        aw_table_add(&table, "%.1f%%", 100 * row->error_p95);
        if (isfinite(row->goal) && !row->file[0])
            aw_table_add(&table, "%s %.0f%%", row->error_mean <= row->goal ? "met" : "MISSED",
                         100 * row->goal);
        else
            aw_table_add(&table, "%s", "");
        if (isfinite(row->tau))
            aw_table_add(&table, "%.3f", row->tau);
        else
            aw_table_add(&table, "%s", "");
        aw_table_add(&table, "%s", row->file[0] ? row->file : "(all)");
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    for (uint32_t i = 0; !err && i < validate->skipped; i++)
        fprintf(stderr, "aware: %s is skipped: %s\n", validate->skip[i], validate->why[i]);
    return err;
}

static enum aw_err validate_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *folder = aw_args_text(run->args, "data");
    struct aw_validate *validate = aw_alloc_new(NULL, 1, sizeof *validate);
    if (!validate)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to validate");
    enum aw_err err = aw_validate_run(folder, validate, diag);
    if (!err)
        err = run->json ? validate_print_json(validate, diag) : validate_print(run, validate, diag);
    aw_alloc_free(NULL, validate);
    return err;
}

static const struct aw_option validate_options[] = {
    AW_OPTION(DIR, "data", 0, "DIR", NULL,
              "measurements: sweeps of clocks or power limits, operators, phases of LLMs, prompts "
              "and lengths; files are told by their columns",
              .required = true),
    {.name = NULL},
};
static const struct aw_example validate_examples[] = {
    {"aware serving validate --data gpu_freq", "errors of the simulated GPU, by kind and by file"},
    {"aware serving validate --data gpu_freq --output json", "the same for programs"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_serving_validate = {
    .name = "serving validate",
    .summary = "Measure how wrong the simulated GPU is, on data held out of its fit",
    .text = "Fits the laws of the simulated GPU to a part of each file and predicts the rest: "
            "clocks from other clocks of the same program, matrix products from products of other "
            "shapes, decoding from other configurations, lengths of answers from other prompts. "
            "Prints the mean and the 95th percentile of relative errors.\n\n"
            "Formats are those of public measurements (docs/results/serving.md names them): other "
            "GPUs, programs and models need no change. Files of no known format, and files that "
            "cannot be read, are skipped and named, with the reason.",
    .options = validate_options,
    .examples = validate_examples,
    .json = true,
    .run = validate_run,
};

/* ---- profile ---- */

static enum aw_err profile_json(const struct aw_gpu_profile *profile, const char *path,
                                struct aw_diag *diag)
{
    json_t *programs = json_array();
    for (uint32_t i = 0; i < profile->programs; i++) {
        const struct aw_gpu_program *program = &profile->program[i];
        json_t *object =
            json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "name", program->name, "clocks",
                      (int)program->clocks, "power_static_watts", aw_json_real(program->power.s),
                      "power_dynamic_watts", aw_json_real(program->power.c), "power_error_mean",
                      aw_json_real(program->error_power), "cap", aw_json_real(program->power.cap));
        if (profile->timed) {
            json_object_set_new(object, "time_memory", aw_json_real(program->time.a));
            json_object_set_new(object, "time_core", aw_json_real(program->time.b));
            json_object_set_new(object, "memory_share",
                                aw_json_real(aw_gpu_memory_share(&program->time)));
            json_object_set_new(object, "sensitivity",
                                aw_json_real(aw_gpu_sensitivity(&program->time)));
            json_object_set_new(object, "time_error_mean", aw_json_real(program->error_time));
        }
        json_array_append_new(programs, object);
    }
    return aw_json_print(json_pack("{s:s, s:o, s:{s:o, s:o}, s:o}", "source", path, "clock_max_mhz",
                                   aw_json_real(profile->clock_max), "voltage", "slope",
                                   aw_json_real(profile->volt.slope), "floor",
                                   aw_json_real(profile->volt.floor), "programs", programs),
                         diag);
}

static enum aw_err profile_print(const struct aw_call *run, const struct aw_gpu_profile *profile,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {"PROGRAM", ">MEMORY SHARE", ">SENSITIVITY", ">TIME ERROR",
                                        ">STATIC", ">DYNAMIC",      ">POWER ERROR", NULL};
    struct aw_table table;
    printf("up to %.0f MHz; voltage: slope %.2f, floor %.2f of the largest\n\n", profile->clock_max,
           profile->volt.slope, profile->volt.floor);
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < profile->programs; i++) {
        const struct aw_gpu_program *program = &profile->program[i];
        aw_table_add(&table, "%s", program->name);
        if (profile->timed) {
            aw_table_add(&table, "%.2f", aw_gpu_memory_share(&program->time));
            aw_table_add(&table, "%.2f", aw_gpu_sensitivity(&program->time));
            aw_table_add(&table, "%.1f%%", 100 * program->error_time);
        } else {
            for (uint32_t k = 0; k < 3; k++)
                aw_table_add(&table, "-");
        }
        aw_table_add(&table, "%.0f W", program->power.s);
        aw_table_add(&table, "%.0f W", program->power.c);
        aw_table_add(&table, "%.1f%%", 100 * program->error_power);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

/* --- of an ONNX model */

#define CLUSTER_THRESHOLD 0.25 /* of sensitivity, 0 to 2; Alg. 6.1 gives none */

static enum aw_err onnx_json(const struct aw_onnx_model *model, const char *path,
                             const struct aw_gpu_kind *kind, struct aw_diag *diag)
{
    json_t *operators = json_array();
    for (uint32_t i = 0; i < model->operators; i++) {
        const struct aw_onnx_operator *op = &model->operator[i];
        json_array_append_new(
            operators,
            json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:i}", "name", op->name, "type",
                      op->type, "bytes", aw_json_real(op->bytes), "flops", aw_json_real(op->flops),
                      "seconds", aw_json_real(op->time_s), "memory_share", aw_json_real(op->memory),
                      "sensitivity", aw_json_real(op->sensitivity), "cluster", (int)op->cluster));
    }
    return aw_json_print(
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:o}", "source", path,
                  "model", model->name, "gpu", kind->name, "weights_bytes",
                  aw_json_real(model->weights_bytes), "flops", aw_json_real(model->flops),
                  "seconds", aw_json_real(model->time_s), "memory_share",
                  aw_json_real(model->memory), "sensitivity", aw_json_real(model->sensitivity),
                  "clusters", (int)model->clusters, "without_shape", (int)model->unknown,
                  "operators", operators),
        diag);
}

/* Operators of one type as one row, in order of first appearance. */
static enum aw_err onnx_print(const struct aw_call *run, const struct aw_onnx_model *model,
                              const struct aw_gpu_kind *kind, struct aw_diag *diag)
{
    static const char *const heads[] = {"OPERATOR", ">COUNT",       ">GB", ">GFLOP",
                                        ">TIME",    ">SENSITIVITY", NULL};
    struct aw_table table;
    printf("%s on %s at %.0f MHz: %.3g ms, %.3g GB of weights, memory share %.2f, sensitivity "
           "%.2f\n%u operators in %u clusters (Alg. 6.1)\n\n",
           model->name[0] ? model->name : "the model", kind->name, kind->clock_max,
           1e3 * model->time_s, 1e-9 * model->weights_bytes, model->memory, model->sensitivity,
           model->operators, model->clusters);
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < model->operators; i++) {
        const char *type = model->operator[i].type;
        double bytes = 0, flops = 0, time = 0, sensitivity = 0;
        uint32_t count = 0;
        bool first = true;
        for (uint32_t k = 0; k < i && first; k++)
            first = strcmp(model->operator[k].type, type) != 0;
        for (uint32_t k = i; first && k < model->operators; k++) {
            const struct aw_onnx_operator *op = &model->operator[k];
            if (strcmp(op->type, type))
                continue;
            count++;
            bytes += op->bytes;
            flops += op->flops;
            time += op->time_s;
            sensitivity += op->sensitivity * op->time_s;
        }
        if (!first)
            continue;
        aw_table_add(&table, "%s", type);
        aw_table_add(&table, "%u", count);
        aw_table_add(&table, "%.3g", 1e-9 * bytes);
        aw_table_add(&table, "%.3g", 1e-9 * flops);
        aw_table_add(&table, "%.1f%%", 100 * time / model->time_s);
        aw_table_add(&table, "%.2f", sensitivity / time);
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (!err && model->unknown)
        fprintf(stderr, "aware: %u operators have no shape and are left out\n", model->unknown);
    return err;
}

static enum aw_err onnx_run(const struct aw_call *run, const char *path, struct aw_diag *diag)
{
    const char *gpu = aw_args_text(run->args, "gpu");
    const struct aw_onnx_settings settings = {.kind = aw_gpu_kind_find(gpu),
                                              .free = (int64_t)aw_args_number(run->args, "free"),
                                              .threshold = CLUSTER_THRESHOLD};
    struct aw_onnx_model model;
    enum aw_err err = aw_onnx_read(path, &settings, &model, diag);
    if (err)
        return err;
    err = run->json ? onnx_json(&model, path, settings.kind, diag)
                    : onnx_print(run, &model, settings.kind, diag);
    aw_onnx_deinit(&model);
    return err;
}

static enum aw_err profile_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "data");
    struct aw_gpu_profile profile;
    if (strstr(path, ".onnx"))
        return onnx_run(run, path, diag);
    enum aw_err err = aw_gpu_profile_read(path, &profile, diag);
    if (!err)
        err = run->json ? profile_json(&profile, path, diag) : profile_print(run, &profile, diag);
    aw_gpu_profile_deinit(&profile);
    return err;
}

static const char *const gpu_names[] = {"v100", "a100", NULL};
static const struct aw_option profile_options[] = {
    AW_OPTION(FILE, "data", 0, "FILE", NULL,
              "a sweep of clocks: programs with time, power or energy; told by its columns. Or a "
              "model: NAME.onnx",
              .required = true),
    AW_OPTION(CHOICE, "gpu", 0, "KIND", "a100", "of a model: on which GPU", .choices = gpu_names),
    AW_NUMBER("free", 0, "N", "1", 1, 1 << 20,
              "of a model: what stands for dimensions without a number (batch, tokens)"),
    {.name = NULL},
};
static const struct aw_example profile_examples[] = {
    {"aware serving profile --data sweep.csv", "what each program's time and power hang on"},
    {"aware serving profile --data sweep.csv --output json",
     "as a profile, each law with its error"},
    {"aware serving profile --data model.onnx --free 128",
     "which operators of a model the core bounds, and which the memory"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_serving_profile = {
    .name = "serving profile",
    .summary = "Fit time and power of programs over a GPU's clocks",
    .text =
        "Reads a sweep of clocks in one of the formats of 'serving validate' and fits t = a + b/x "
        "and P = s + c x V^2 to every program, and V to the GPU. The memory share a / (a + b) says "
        "how little a program suffers from a lower clock; its sensitivity is 2 (1 - share). Errors "
        "are those of the fit; 'serving validate' has those of data held out.\n\n"
        "Of an ONNX model it tells bytes, flops, time and sensitivity of every operator by the "
        "GPU's roofline, and the clusters of Alg. 6.1. Shapes come from the file; nothing is run. "
        "The roofline of the A100 is measured (products, 6.8 % error), that of the V100 is scaled "
        "from its data sheet.",
    .options = profile_options,
    .examples = profile_examples,
    .json = true,
    .run = profile_run,
};
