/* serving_plan.c - the verb `serving plan`. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "serving/placement.h"
#include "serving/requests.h"

#define PATTERN   "bursts:peak=3,period=10m,duration=2m,length=1h"
#define TRAIN_MAX 30000u /* requests that the search simulates */

static const char *const kind_names[] = {"v100", NULL};

/* Everything that a plan is made of, and what the fleet does under it. */
struct plan {
    struct aw_requests requests;
    struct aw_fleet_world world;
    struct aw_fleet_load load;
    struct aw_place place;
    struct aw_fleet_result fixed, own;
    double share, scale;
};

static enum aw_err search(struct plan *plan, uint32_t pp_max, struct aw_diag *diag)
{
    const struct aw_fleet_world *world = &plan->world;
    struct aw_place_problem problem = {.kind = world->kind,
                                       .devices = world->devices,
                                       .models = world->models,
                                       .count = plan->load.count < TRAIN_MAX ? plan->load.count
                                                                             : TRAIN_MAX,
                                       .arrival_s = plan->load.arrival_s,
                                       .model = plan->load.model,
                                       .work_s = plan->load.work_s};
    for (uint32_t m = 0; m < world->models; m++) {
        problem.weights_gb[m] = world->weights_gb[m];
        problem.latency_s[m] = aw_serving_models[m].latency_s;
        problem.slo_s[m] = world->slo_s[m];
        problem.memory[m] = world->memory[m];
    }
    return aw_place_search(&problem, pp_max, &plan->place, diag);
}

/* Groups of one device are a placement of whole models, which the fleet serves. */
static enum aw_err judge(struct plan *plan, uint64_t seed, struct aw_diag *diag)
{
    struct aw_fleet *fleet = NULL;
    for (uint32_t m = 0; m < plan->world.models; m++) {
        plan->world.replicas[m] = 0;
        for (uint32_t g = 0; g < plan->place.groups; g++)
            if (plan->place.models[g] >> m & 1)
                plan->world.replicas[m] |= UINT64_C(1) << g;
    }
    enum aw_err err = aw_fleet_new(&plan->world, plan->load.count, &fleet, diag);
    struct aw_fleet_settings settings = {.order = {AW_SERVING_SSJF, AW_SERVING_ALPHA_ALONE},
                                         .power = aw_power_defaults,
                                         .switch_s = 0.02,
                                         .seed = seed};
    settings.power.rule = AW_POWER_FIXED;
    err = err ? err : aw_fleet_run(fleet, &plan->load, &settings, &plan->fixed);
    settings.power.rule = AW_POWER_PREDICTIVE;
    err = err ? err : aw_fleet_run(fleet, &plan->load, &settings, &plan->own);
    aw_fleet_free(fleet);
    return err;
}

static json_t *result_json(const struct aw_fleet_result *result)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "attainment", aw_json_real(result->attainment),
        "watts", aw_json_real(result->mean_w), "energy_joules", aw_json_real(result->energy_j),
        "busy_joules", aw_json_real(result->busy_j), "idle_joules", aw_json_real(result->idle_j),
        "joules_per_request", aw_json_real(result->energy_j / (double)result->requests),
        "joules_per_token", aw_json_real(result->energy_j / fmax(result->tokens, 1)));
}

static enum aw_err plan_json(const struct plan *plan, struct aw_diag *diag)
{
    json_t *groups = json_array();
    for (uint32_t g = 0; g < plan->place.groups; g++) {
        json_t *models = json_array(), *devices = json_array();
        const uint32_t size = plan->place.op * plan->place.pp;
        for (uint32_t d = 0; d < size; d++)
            json_array_append_new(devices, json_integer(g * size + d));
        for (uint32_t m = 0; m < plan->world.models; m++)
            if (plan->place.models[g] >> m & 1)
                json_array_append_new(models, json_string(aw_serving_models[m].name));
        json_array_append_new(groups,
                              json_pack("{s:o, s:o}", "devices", devices, "models", models));
    }
    json_t *document = json_pack(
        "{s:s, s:i, s:o, s:o, s:i, s:i, s:i, s:o, s:i, s:i, s:o}", "gpu", plan->world.kind->name,
        "gpus", (int)plan->world.devices, "load", aw_json_real(plan->share), "slo_scale",
        aw_json_real(plan->scale), "tensor_parallel", (int)plan->place.op, "pipeline_stages",
        (int)plan->place.pp, "replicas", (int)plan->place.replicas, "search_attainment",
        aw_json_real(plan->place.attainment), "shapes", (int)plan->place.shapes, "simulations",
        (int)plan->place.simulations, "groups", groups);
    if (plan->own.requests) {
        json_object_set_new(document, "fixed_clocks", result_json(&plan->fixed));
        json_object_set_new(document, "predictive", result_json(&plan->own));
    }
    return aw_json_print(document, diag);
}

static enum aw_err plan_print(const struct aw_call *run, const struct plan *plan,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {"GPUS", ">MEMORY", "MODELS", NULL};
    const uint32_t size = plan->place.op * plan->place.pp;
    struct aw_table table;
    printf("%u %s, load %.0f %%, SLO scale %g: groups of %u GPU%s (tensor parallel %u, stages %u), "
           "%u replicas, attainment %.2f %% in the search\n\n",
           plan->world.devices, plan->world.kind->name, 100 * plan->share, plan->scale, size,
           size == 1 ? "" : "s", plan->place.op, plan->place.pp, plan->place.replicas,
           100 * plan->place.attainment);
    aw_table_init(&table, heads);
    for (uint32_t g = 0; g < plan->place.groups; g++) {
        char models[AW_CELL_MAX] = "";
        double used = 0;
        size_t len = 0;
        for (uint32_t m = 0; m < plan->world.models; m++) {
            if (!(plan->place.models[g] >> m & 1))
                continue;
            len += (size_t)snprintf(models + len, sizeof models - len, "%s%s", len ? ", " : "",
                                    aw_serving_models[m].name);
            used += plan->world.weights_gb[m] / size;
        }
        if (size == 1)
            aw_table_add(&table, "%u", g);
        else
            aw_table_add(&table, "%u-%u", g * size, g * size + size - 1);
        aw_table_add(&table, "%.1f of %g GB", used, plan->world.kind->memory_gb);
        aw_table_add(&table, "%s", models);
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (!err && plan->own.requests)
        printf(
            "\nfixed clocks: %.0f W, attainment %.2f %%; predictive clocks: %.0f W (%.2fx less), "
            "attainment %.2f %%, %.0f J a request\n",
            plan->fixed.mean_w, 100 * plan->fixed.attainment, plan->own.mean_w,
            plan->fixed.mean_w / plan->own.mean_w, 100 * plan->own.attainment,
            plan->own.energy_j / (double)plan->own.requests);
    return err;
}

static enum aw_err plan_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct plan *plan = aw_alloc_new(NULL, 1, sizeof *plan);
    if (!plan)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a plan");
    const uint64_t seed = aw_args_number(args, "seed");
    plan->share = 0.01 * (double)aw_args_number(args, "utilization");
    plan->scale = (double)aw_args_number(args, "slo-scale");
    const struct aw_requests_plan how = {
        .load = plan->share, .to = 1, .slo_scale = plan->scale, .guess_sigma = 0.55, .seed = seed};
    const char *load = aw_args_text(args, "load");
    enum aw_err err =
        aw_fleet_world_table(&plan->world, aw_gpu_kind_find(aw_args_text(args, "gpu")),
                             (uint32_t)aw_args_number(args, "gpus"), diag);
    err = err ? err : aw_requests_read(load ? load : PATTERN, seed, 0, &plan->requests, diag);
    err = err ? err : aw_requests_load(&plan->requests, &how, &plan->world, &plan->load, diag);
    err = err ? err : search(plan, aw_args_given(args, "whole") ? 1 : AW_PLACE_STAGES_MAX, diag);
    if (!err && plan->place.op * plan->place.pp == 1)
        err = judge(plan, seed, diag);
    if (!err)
        err = run->json ? plan_json(plan, diag) : plan_print(run, plan, diag);
    aw_requests_deinit(&plan->requests);
    aw_requests_load_deinit(&plan->load);
    aw_alloc_free(NULL, plan);
    return err;
}

static const struct aw_option plan_options[] = {
    AW_NUMBER("gpus", 'g', "N", "8", 1, AW_FLEET_DEVICES_MAX, "GPUs to place models on"),
    AW_OPTION(CHOICE, "gpu", 0, "KIND", "v100", "which GPUs", .choices = kind_names),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "a trace of requests (Azure LLM, Mooncake, Azure Functions) or a pattern (default: "
              "an hour of bursts)"),
    AW_NUMBER("utilization", 'u', "PERCENT", "30", 1, 95,
              "of all GPUs at their largest clock; the trace is stretched to it"),
    AW_NUMBER("slo-scale", 0, "N", "5", 1, 100, "SLO over the latency of one request alone"),
    AW_FLAG("whole", 0, "whole models alone, no tensor parallelism and no stages"),
    AW_OPTION_SEED("1", "of who asks for which model, and of predictions"),
    {.name = NULL},
};
static const struct aw_example plan_examples[] = {
    {"aware serving plan", "fifteen models on eight GPUs"},
    {"aware serving plan --gpus 16 --utilization 50 --whole --output json",
     "whole models on sixteen, for programs"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_serving_plan = {
    .name = "serving plan",
    .summary = "Place models on GPUs so that most requests meet their SLO",
    .text = "Searches over shapes of groups (tensor parallelism, pipeline stages) and places the "
            "fifteen built-in models greedily, guided by a simulation of the load, as AlpaServe "
            "does. Where the best groups are single GPUs, the plan is then served by the simulated "
            "fleet, once with fixed clocks and once with clocks that follow the slack of SLOs: "
            "watts, attainment and joules of both are printed.",
    .options = plan_options,
    .examples = plan_examples,
    .json = true,
    .run = plan_run,
};
