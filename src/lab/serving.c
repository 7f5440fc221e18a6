/* serving.c - the verbs `serving validate` and `serving profile`. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "serving/gpu_profile.h"
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

static enum aw_err profile_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "data");
    struct aw_gpu_profile profile;
    enum aw_err err = aw_gpu_profile_read(path, &profile, diag);
    if (!err)
        err = run->json ? profile_json(&profile, path, diag) : profile_print(run, &profile, diag);
    aw_gpu_profile_deinit(&profile);
    return err;
}

static const struct aw_option profile_options[] = {
    AW_OPTION(FILE, "data", 0, "FILE", NULL,
              "a sweep of clocks: programs with time, power or energy; told by its columns",
              .required = true),
    {.name = NULL},
};
static const struct aw_example profile_examples[] = {
    {"aware serving profile --data sweep.csv", "what each program's time and power hang on"},
    {"aware serving profile --data sweep.csv --output json",
     "as a profile, each law with its error"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_serving_profile = {
    .name = "serving profile",
    .summary = "Fit time and power of programs over a GPU's clocks",
    .text =
        "Reads a sweep of clocks in one of the formats of 'serving validate' and fits t = a + b/x "
        "and P = s + c x V^2 to every program, and V to the GPU. The memory share a / (a + b) says "
        "how little a program suffers from a lower clock; its sensitivity is 2 (1 - share). Errors "
        "are those of the fit; 'serving validate' has those of data held out.",
    .options = profile_options,
    .examples = profile_examples,
    .json = true,
    .run = profile_run,
};
