/*
 * options.c - the options of the autoscaling environments, and what they are turned into.
 *
 * Two tables of the same options, because the two names differ in their defaults: autoscale-v0 is
 * what the product uses, autoscale-paper-v0 is what AWARE describes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "base/units.h"
#include "cluster/surrogate.h"
#include "env/autoscale/alone.h"
#include "env/autoscale/internal.h"

/* An operator who knows nothing but the load leaves half of the CPU free, ... */
#define START_UTILISATION 0.5
/* ... and gives memory for the base and so many requests at once, with half of it again. */
#define START_IN_FLIGHT     16
#define START_MEMORY_MARGIN 1.5

static const char *const state_names[] = {"default", "paper", NULL};
static const char *const mapping_names[] = {"anchored", "absolute", NULL};
static const char *const objective_names[] = {"constrained", "paper", NULL};
static const char *const model_names[] = {"fast", "reference", NULL};

/* clang-format off */
#define AW_CONF_OF struct aw_autoscale_settings
/* The five that differ between the two tables are arguments. */
#define OPTIONS(state_initial, mapping_initial, objective_initial, guard_initial, deadband_initial)\
    AW_CONF_PLAIN(app, "1:0",                                                                     \
          "application SEED:INDEX of the generator, a pool SEED:FIRST-LAST or a file of "         \
          "`aware apps`; each episode draws one"),                                                \
    AW_CONF_PLAIN(load, "diurnal:mean=20,peak=3,period=3600",                                     \
          "PATTERN[:key=value,...] or FILE[:key=value,...]: requests over time"),                 \
    AW_CONF_NUMBER(load_cores, "2", 0, 10000,                                                     \
          "scale the load so that its mean needs this many cores; 0: as written"),                \
    AW_CONF_PLAIN(load_seed, "1", "chance of the load's own noise"),                              \
    AW_CONF_PLAIN(load_shift, "true",                                                             \
          "begin each episode at another time of the load"),                                      \
    AW_CONF_PLAIN(scenario, "",                                                                   \
          "what disturbs the workload, NAME@TIME[+DURATION],... of an episode"),                  \
    AW_CONF_ONE_OF(model, "fast", model_names,                                                    \
          "simulate whole intervals (fast) or every request (reference)"),                        \
    AW_CONF_PLAIN(cluster, "", "settings of the simulated cluster: key=value,..."),               \
    AW_CONF_NUMBER(step_s, "15", 1, 3600, "seconds of a step; HPA's sync period is 15"),          \
    AW_CONF_NUMBER(episode_steps, "100", 1, AW_AUTOSCALE_STEPS_MAX,                               \
          "steps of an episode (AWARE section 2.2: 100)"),                                        \
    AW_CONF_NUMBER(warmup_steps, "4", 1, AW_AUTOSCALE_WARMUP_MAX,                                 \
          "steps before an episode under a plain allocation, so that its first state is "         \
          "measured"),                                                                            \
    AW_CONF_ONE_OF(state, state_initial, state_names,                                             \
          "what is seen: AWARE's Table 1 (paper) or more (default)"),                             \
    AW_CONF_NUMBER(history, "0", 0, AW_STATE_HISTORY_MAX,                                         \
          "past states that are seen beside the present one"),                                    \
    AW_CONF_NUMBER(stale_s, "120", 1, 86400,                                                      \
          "a figure older than this many seconds is missing"),                                    \
    AW_CONF_NUMBER(disk_mib_per_s, "200", 1, 1e6,                                                 \
          "disk MiB/s of one replica that count as I/O utilisation 1"),                           \
    AW_CONF_NUMBER(net_mib_per_s, "125", 1, 1e6,                                                  \
          "network MiB/s of one replica that count as utilisation 1; 125 is 1 Gbit/s"),           \
    AW_CONF_ONE_OF(mapping, mapping_initial, mapping_names,                                       \
          "actions relative to recent peaks (anchored) or onto the bounds (absolute)"),           \
    AW_CONF_NUMBER(window, "20", 1, AW_ACTION_WINDOW_MAX, "steps over which a peak is recent"),   \
    AW_CONF_NUMBER(oom_steps, "100", 1, 1e6,                                                      \
          "steps for which an OOM kill holds the memory up"),                                     \
    AW_CONF_NUMBER(deadband, deadband_initial, 0, 1,                                              \
          "relative change of a size that is not worth a restart"),                               \
    AW_CONF_PLAIN(guard, guard_initial,                                                           \
          "hold memory above the recent peak, and well above after an OOM kill"),                 \
    AW_CONF_NUMBER(replicas_min, "1", 1, 64, "fewest replicas"),                                  \
    AW_CONF_NUMBER(replicas_max, "20", 1, 64, "most replicas"),                                   \
    AW_CONF_PLAIN(cpu_min, "100m", "least CPU of a replica"),                                     \
    AW_CONF_PLAIN(cpu_max, "4", "most CPU of a replica"),                                         \
    AW_CONF_PLAIN(memory_min, "64Mi", "least memory of a replica"),                               \
    AW_CONF_PLAIN(memory_max, "8Gi", "most memory of a replica"),                                 \
    AW_CONF_PLAIN(start_cpu, "1", "CPU of a replica to start with"),                              \
    AW_CONF_PLAIN(start_memory, "auto",                                                           \
          "memory of a replica to start with; auto: from the application"),                       \
    AW_CONF_ONE_OF(objective, objective_initial, objective_names,                                 \
          "least cost within the SLO budget (constrained) or AWARE's reward (paper)"),            \
    AW_CONF_NUMBER(slo_weight, "0.5", 0, 1,                                                       \
          "AWARE's alpha: weight of the SLO against utilisation in its reward"),                  \
    AW_CONF_NUMBER(slo_factor, "1.5", 0, 1000,                                                    \
          "latency SLO as a multiple of the unloaded p99; 0: none (SIMPPO section 4.4 uses "      \
          "1.15)"),                                                                               \
    AW_CONF_NUMBER(slo_ms, "0", 0, 1e7,                                                           \
          "latency SLO in milliseconds, for p99; 0: by slo_factor"),                              \
    AW_CONF_NUMBER(slo_per_s, "0", 0, 1e7, "throughput SLO in requests/s; 0: none"),              \
    AW_CONF_NUMBER(budget, "0.01", 0, 1, "share of steps that may miss the SLO"),                 \
    AW_CONF_NUMBER(lambda, "5", AW_LAMBDA_MIN, AW_LAMBDA_MAX,                                     \
          "weight of a missed SLO to begin with, in costs of the starting allocation"),           \
    AW_CONF_NUMBER(price_core_hour, "0.04", 0, 1e6,                                               \
          "$ of a core for an hour; about the on-demand price of managed containers on a "        \
          "large cloud"),                                                                         \
    AW_CONF_NUMBER(price_gib_hour, "0.005", 0, 1e6,                                               \
          "$ of a GiB of memory for an hour; the same"),                                          \
    {0}

const struct aw_conf_field aw__autoscale_fields[] = {
    OPTIONS("default", "anchored", "constrained", "true", "0.2")};
const struct aw_conf_field aw__autoscale_paper_fields[] = {
    OPTIONS("paper", "absolute", "paper", "false", "0")};
/* clang-format on */

/* --- text ------------------------------------------------------------------------------------- */

static enum aw_err number(const char **at, uint64_t *ret)
{
    char *end = NULL;
    if (**at < '0' || **at > '9')
        return AW_ERR_CONFIG;
    unsigned long long value = strtoull(*at, &end, 10);
    *at = end;
    *ret = value;
    return AW_OK;
}

/* SEED:INDEX or SEED:FIRST-LAST; anything that does not begin like that is a file. */
static enum aw_err app_read(const char *text, const struct aw_alloc *alloc,
                            struct aw__options *options, struct aw_diag *diag)
{
    const char *at = text;
    uint64_t seed = 0, first = 0, last = 0;
    if (number(&at, &seed) != AW_OK || *at++ != ':') {
        enum aw_err err = aw_apps_read(text, NULL, 0, alloc, &options->file, diag);
        if (err)
            return err;
        options->app_count = options->file.app_count;
        return options->app_count > 0 && options->app_count <= AW_AUTOSCALE_APPS_MAX
                   ? AW_OK
                   : aw_fail(diag, AW_ERR_CONFIG, "a pool has 1 to %u applications, found %u",
                             AW_AUTOSCALE_APPS_MAX, options->app_count);
    }
    bool ok = number(&at, &first) == AW_OK;
    last = first;
    if (ok && *at == '-') {
        at++;
        ok = number(&at, &last) == AW_OK;
    }
    if (!ok || *at)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected SEED:INDEX, SEED:FIRST-LAST or a file, found \"%.64s\"", text);
    if (first > last || last > UINT32_MAX || last - first >= AW_AUTOSCALE_APPS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "a pool has 1 to %u applications, found \"%.64s\"",
                       AW_AUTOSCALE_APPS_MAX, text);
    options->app_seed = seed;
    options->app_first = (uint32_t)first;
    options->app_count = (uint32_t)(last - first + 1);
    return AW_OK;
}

/* Names the option in the diagnostic of what went wrong with its value: "cluster.node_count". */
static enum aw_err blame(const char *key, enum aw_err err, struct aw_diag *diag)
{
    if (err && diag) {
        char inner[AW_DIAG_KEY_MAX];
        memcpy(inner, diag->key, sizeof inner);
        snprintf(diag->key, sizeof diag->key, "%s%s%.64s", key, *inner ? "." : "", inner);
    }
    return err == AW_ERR_FORMAT || err == AW_ERR_RANGE ? AW_ERR_CONFIG : err;
}

static enum aw_err cpu_read(const char *key, const char *text, int64_t *ret, struct aw_diag *diag)
{
    return blame(key, aw_quantity_parse_cpu(text, ret, diag), diag);
}

static enum aw_err memory_read(const char *key, const char *text, int64_t *ret,
                               struct aw_diag *diag)
{
    return blame(key, aw_quantity_parse_memory(text, ret, diag), diag);
}

/* "key=value,key=value" laid over settings. */
static enum aw_err pairs_set(const char *text, const struct aw_conf_field *fields, void *settings,
                             struct aw_diag *diag)
{
    char pair[AW_CONF_TEXT_MAX];
    while (*text) {
        size_t length = strcspn(text, ",");
        snprintf(pair, sizeof pair, "%.*s", (int)length, text);
        enum aw_err err = aw_conf_set_pair(fields, settings, pair, diag);
        if (err)
            return err;
        text += length;
        text += *text == ',';
    }
    return AW_OK;
}

enum aw_err aw__options_load(const struct aw_autoscale_settings *settings,
                             const struct aw_alloc *alloc, struct aw_load *ret_load,
                             struct aw_diag *diag)
{
    return blame("load", aw_load_parse(settings->load, settings->load_seed, alloc, ret_load, diag),
                 diag);
}

/* --- what belongs together -------------------------------------------------------------------- */

static enum aw_err sizes_read(const struct aw_autoscale_settings *s, struct aw__options *o,
                              struct aw_diag *diag)
{
    struct aw_bounds *b = &o->bounds;
    enum aw_err err;
    b->replicas_min = s->replicas_min;
    b->replicas_max = s->replicas_max;
    if ((err = cpu_read("cpu_min", s->cpu_min, &b->cpu_millicores_min, diag)) ||
        (err = cpu_read("cpu_max", s->cpu_max, &b->cpu_millicores_max, diag)) ||
        (err = memory_read("memory_min", s->memory_min, &b->memory_bytes_min, diag)) ||
        (err = memory_read("memory_max", s->memory_max, &b->memory_bytes_max, diag)) ||
        (err = cpu_read("start_cpu", s->start_cpu, &o->start_cpu_millicores, diag)))
        return err;
    if (strcmp(s->start_memory, "auto") != 0 &&
        (err = memory_read("start_memory", s->start_memory, &o->start_memory_bytes, diag)))
        return err;
    return aw_bounds_check(b, diag);
}

static enum aw_err read_all(const struct aw_autoscale_settings *settings, const struct aw_app *app,
                            const struct aw_alloc *alloc, struct aw__options *o,
                            struct aw_diag *diag)
{
    enum aw_err err;
    aw_conf_defaults(aw_sim_fields, &o->sim);
    err = blame("cluster", pairs_set(settings->cluster, aw_sim_fields, &o->sim, diag), diag);
    if (err || (err = sizes_read(settings, o, diag)))
        return err;
    if ((err = blame("scenario", aw_schedule_parse(settings->scenario, &o->schedule, diag), diag)))
        return err;
    o->sim.model = settings->model;
    /* a start beyond the bounds starts at the bound */
    struct aw_plan start = {.cpu_millicores = o->start_cpu_millicores};
    aw_bounds_clip(&o->bounds, &start);
    o->start_cpu_millicores = start.cpu_millicores;
    if ((double)o->bounds.cpu_millicores_max > 1e3 * o->sim.node_cores ||
        (double)o->bounds.memory_bytes_max > AW_GIB_REAL * o->sim.node_memory_gib)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "cpu_max and memory_max: a replica of %s and %s does not fit on a node of "
                       "%g cores and %g GiB",
                       settings->cpu_max, settings->memory_max, o->sim.node_cores,
                       o->sim.node_memory_gib);
    if (!app)
        return blame("app", app_read(settings->app, alloc, o, diag), diag);
    o->given = app;
    o->app_count = 1;
    return AW_OK;
}

enum aw_err aw__options_read(const struct aw_autoscale_settings *settings, const struct aw_app *app,
                             const struct aw_alloc *alloc, struct aw__options *ret_options,
                             struct aw_diag *diag)
{
    *ret_options = (struct aw__options){0};
    enum aw_err err = read_all(settings, app, alloc, ret_options, diag);
    if (err)
        aw__options_deinit(ret_options);
    return err;
}

void aw__options_deinit(struct aw__options *options)
{
    aw_apps_deinit(&options->file);
    *options = (struct aw__options){0};
}

/* --- applications ----------------------------------------------------------------------------- */

/* The p99 of a request alone on the largest replica: with fewer cores than it could use at once it
 * takes longer. */
static double fastest_p99_us(const struct aw_app *app, double cores)
{
    struct aw_app limited = *app;
    for (uint32_t i = 0; i < limited.segment_count; i++)
        limited.segment[i].parallelism = fmin(limited.segment[i].parallelism, cores);
    return aw__alone_p99_us(&limited);
}

static enum aw_err slo_find(const struct aw_autoscale_settings *s, const struct aw__options *o,
                            const struct aw_app *app, double *ret_slo_us, struct aw_diag *diag)
{
    const double cores = 1e-3 * (double)o->bounds.cpu_millicores_max;
    if (s->slo_ms <= 0 && s->slo_factor <= 0) {
        *ret_slo_us = 0;
        return AW_OK;
    }
    double slo_us = s->slo_ms > 0 ? 1e3 * s->slo_ms : s->slo_factor * aw__alone_p99_us(app);
    double fastest_us = fastest_p99_us(app, cores);
    if (slo_us < fastest_us)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "no allocation can meet the SLO of %s: p99 within %.3g ms, but alone on a "
                       "replica of %s cores a request takes %.3g ms",
                       app->name, 1e-3 * slo_us, s->cpu_max, 1e-3 * fastest_us);
    *ret_slo_us = slo_us;
    return AW_OK;
}

uint32_t aw__options_replicas(const struct aw__options *options, double cores_needed)
{
    double each = START_UTILISATION * 1e-3 * (double)options->start_cpu_millicores;
    double count = ceil(cores_needed / each);
    count = fmin(fmax(count, options->bounds.replicas_min), options->bounds.replicas_max);
    return (uint32_t)count;
}

enum aw_err aw__options_app(const struct aw_autoscale_settings *settings,
                            const struct aw__options *options, const struct aw_load *load,
                            uint32_t index, struct aw__pool_app *ret_app, struct aw_diag *diag)
{
    const struct aw_bounds *b = &options->bounds;
    const struct aw_load_figures figures = aw_load_figures(load);
    struct aw__pool_app pool_app = {.load_factor = 1};
    struct aw_demand demand;
    if (options->given)
        pool_app.app = *options->given;
    else if (options->file.app_count > 0)
        pool_app.app = options->file.apps[index];
    else
        aw_app_generate(options->app_seed, options->app_first + index, aw_segment_builtin(),
                        AW_SEGMENT_BUILTIN_COUNT, &pool_app.app);
    aw_app_demand(&pool_app.app, 1, 0, &demand);
    pool_app.cpu_ms = demand.cpu_ms;
    if (settings->load_cores > 0 && demand.cpu_ms > 0 && figures.mean_per_s > 0)
        pool_app.load_factor = settings->load_cores / (1e-3 * demand.cpu_ms) / figures.mean_per_s;

    double least = AW_MIB_REAL * (demand.memory_base_mib + demand.memory_flight_mib);
    if (least > (double)b->memory_bytes_max)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "no allocation can run %s: one request at a time needs %.0f MiB, and "
                       "memory_max is %s",
                       pool_app.app.name, least / AW_MIB_REAL, settings->memory_max);
    enum aw_err err = slo_find(settings, options, &pool_app.app, &pool_app.slo_us, diag);
    if (err)
        return err;

    double mib =
        START_MEMORY_MARGIN * (demand.memory_base_mib + START_IN_FLIGHT * demand.memory_flight_mib);
    struct aw_plan start = {
        .replicas = aw__options_replicas(options, 1e-3 * demand.cpu_ms * pool_app.load_factor *
                                                      figures.mean_per_s),
        .cpu_millicores = options->start_cpu_millicores,
        .memory_bytes = options->start_memory_bytes ? options->start_memory_bytes
                                                    : (int64_t)(ceil(mib) * AW_MIB_REAL),
    };
    aw_bounds_clip(b, &start);
    pool_app.memory_bytes = start.memory_bytes;
    pool_app.cost_reference_per_hour =
        start.replicas * (1e-3 * (double)start.cpu_millicores * settings->price_core_hour +
                          (double)start.memory_bytes / AW_GIB_REAL * settings->price_gib_hour);
    if (!(pool_app.cost_reference_per_hour > 0)) /* free of charge: every cost is 0 of anything */
        pool_app.cost_reference_per_hour = 1;
    *ret_app = pool_app;
    return AW_OK;
}
