/* simulate_ask.c - from options and a file to applications, loads and policies. */
#include "lab/simulate.h"

#include "policy/models.h"

#include "lab/load.h"

#include "base/threads.h"
#include "cluster/surrogate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define TUNING_SEED 1000003u /* added to the seed of a pattern that is tuned on */
#define TEXT_MAX    512u

const struct aw_conf_field *const aw__simulate_tables[] = {
    aw_simulate_fields, aw_sim_fields, aw_fallback_fields, aw_oracle_fields, NULL};

/* As written: options go before the file, the file before the defaults. */
struct words {
    const char *app, *load, *tune_load, *policies, *model, *episodes, *seed, *cores, *scenario,
        *fault;
    const struct aw_node *settings, *workload, *schedule;
};

static const char *const file_keys[] = {"app",      "load",     "tune_load", "policy", "compare",
                                        "model",    "episodes", "seed",      "cores",  "scenario",
                                        "settings", "workload", NULL};

/* --- the file ---------------------------------------------------------------------------------
 */

/* A list of policies as text with commas, as the option has it. */
static enum aw_err policies_read(const struct aw_tree *tree, const struct aw_node *node, char *buf,
                                 size_t size, const char **ret, struct aw_diag *diag)
{
    struct aw_text text;
    enum aw_err err = AW_OK;
    if (node->kind != AW_NODE_LIST)
        return aw_tree_string(tree, node, ret, diag);
    aw_text_init(&text, buf, size);
    for (const struct aw_node *n = node->first; !err && n; n = n->next) {
        const char *name = "";
        err = aw_tree_string(tree, n, &name, diag);
        aw_text_add(&text, "%s%s", text.len ? "," : "", name);
    }
    *ret = buf;
    return err;
}

static enum aw_err file_read(struct aw__simulate *ask, const char *path, char *policies,
                             size_t policies_size, struct words *words, struct aw_diag *diag)
{
    const struct aw_node *root, *node;
    const struct {
        const char *key;
        const char **to;
    } scalars[] = {
        {"app", &words->app},     {"load", &words->load},         {"tune_load", &words->tune_load},
        {"model", &words->model}, {"episodes", &words->episodes}, {"seed", &words->seed},
        {"cores", &words->cores}};
    enum aw_err err = aw_tree_load_file(&ask->tree, path, NULL, diag);
    if (err || (err = aw_tree_only(&ask->tree, &root, diag)) ||
        (err = aw_tree_known(&ask->tree, root, file_keys, diag)))
        return err;
    for (size_t i = 0; !err && i < sizeof scalars / sizeof *scalars; i++) {
        if ((node = aw_node_find(root, scalars[i].key)))
            err = aw_tree_scalar(&ask->tree, node, scalars[i].to, diag);
    }
    if (!err && (node = aw_node_find(root, "policy")))
        err = aw_tree_string(&ask->tree, node, &words->policies, diag);
    if (!err && (node = aw_node_find(root, "compare")))
        err = policies_read(&ask->tree, node, policies, policies_size, &words->policies, diag);
    if (!err && (node = aw_node_find(root, "scenario"))) {
        if (node->kind == AW_NODE_LIST)
            words->schedule = node;
        else
            err = aw_tree_string(&ask->tree, node, &words->scenario, diag);
    }
    words->settings = aw_node_find(root, "settings");
    words->workload = aw_node_find(root, "workload");
    return err;
}

/* --- settings ---------------------------------------------------------------------------------
 */

/* The settings of all four tables, each in its own struct; policies share theirs. */
struct shared {
    struct aw_fallback_settings policy;
    struct aw_oracle_settings oracle;
    bool policy_given; /* something of the policy was said: it runs as given */
};

static bool has_key(const struct aw_conf_field *table, const char *key, size_t len)
{
    for (; table->key; table++) {
        if (strlen(table->key) == len && !strncmp(table->key, key, len))
            return true;
    }
    return false;
}

static enum aw_err key_unknown(const char *key, size_t len, struct aw_diag *diag)
{
    const char *names[256] = {0};
    char word[64];
    uint32_t count = 0;
    for (const struct aw_conf_field *const *t = aw__simulate_tables; *t; t++) {
        for (const struct aw_conf_field *field = *t; field->key && count < 255; field++)
            names[count++] = field->key;
    }
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), key);
    const char *nearest = aw_conf_nearest(word, names);
    if (nearest)
        return aw_fail(diag, AW_ERR_CONFIG, "unknown setting %s (did you mean \"%s\"?)",
                       AW_QUOTE(word), nearest);
    return aw_fail(diag, AW_ERR_CONFIG,
                   "unknown setting %s; 'aware simulate --settings' lists those there are",
                   AW_QUOTE(word));
}

/* Sets one key in the table that has it. What a policy's name decides cannot be set. */
static enum aw_err setting_set(struct aw__simulate *ask, struct shared *shared, const char *key,
                               size_t len, const char *value, struct aw_diag *diag)
{
    char name[64];
    void *const to[] = {&ask->config.settings, &ask->config.sim, &shared->policy, &shared->oracle};
    snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), key);
    if (!strcmp(name, "kind") || !strcmp(name, "policy") || !strcmp(name, "goal"))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, name,
                          "chosen by the name of the policy: --policy or --compare");
    for (uint32_t i = 0; aw__simulate_tables[i]; i++) {
        if (!has_key(aw__simulate_tables[i], key, len))
            continue;
        shared->policy_given |= to[i] == &shared->policy;
        return aw_conf_set(aw__simulate_tables[i], to[i], name, value, diag);
    }
    return key_unknown(key, len, diag);
}

static enum aw_err settings_set(struct aw__simulate *ask, const struct aw_args *args,
                                const struct words *words, struct shared *shared,
                                struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    if (words->settings && (err = aw_tree_map(&ask->tree, words->settings, diag)))
        return err;
    for (const struct aw_node *n = words->settings ? words->settings->first : NULL; n;
         n = n->next) {
        const char *value;
        if ((err = aw_tree_scalar(&ask->tree, n, &value, diag)))
            return err;
        err = setting_set(ask, shared, n->key, strlen(n->key), value, diag);
        if (err)
            return aw_tree_place_key(&ask->tree, n, err, diag);
    }
    for (uint32_t i = 0; !err && i < args->repeat_count; i++) {
        const char *pair = args->repeat[i], *equals = strchr(pair, '=');
        if (!equals)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--set",
                              "expected key=value, found %s", AW_QUOTE(pair));
        err = setting_set(ask, shared, pair, (size_t)(equals - pair), equals + 1, diag);
    }
    if (!err && words->model)
        err = aw_conf_set(aw_sim_fields, &ask->config.sim, "model", words->model, diag);
    if (!err && words->episodes)
        err = aw_conf_set(aw_simulate_fields, &ask->config.settings, "episodes", words->episodes,
                          diag);
    if (!err && words->seed)
        err = aw_number_parse(words->seed, 0, UINT64_MAX, "seed", &ask->config.seed, diag);
    return err;
}

/* --- policies ---------------------------------------------------------------------------------
 */

static enum aw_err policy_add(struct aw__simulate *ask, const struct shared *shared, bool tune,
                              const char *name, struct aw_diag *diag)
{
    struct aw_simulate_policy policy;
    enum aw_err err = aw_simulate_policy_named(name, &policy, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        if (!strcmp(ask->policy[i].name, policy.name))
            return aw_fail(diag, AW_ERR_USAGE, "%s is named twice", policy.name);
    }
    if (ask->policy_count == AW_SIMULATE_POLICIES_MAX)
        return aw_fail(diag, AW_ERR_USAGE, "at most %u policies can be compared",
                       AW_SIMULATE_POLICIES_MAX);
    const uint32_t kind = policy.policy.kind, goal = policy.oracle.goal;
    policy.policy = shared->policy;
    policy.policy.kind = kind;
    policy.oracle = shared->oracle;
    policy.oracle.goal = goal;
    if (!tune || shared->policy_given)
        policy.tuning = AW_SIMULATE_AS_GIVEN;
    ask->policy[ask->policy_count++] = policy;
    return AW_OK;
}

static enum aw_err policies_set(struct aw__simulate *ask, const struct shared *shared, bool tune,
                                const char *text, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    if (!strcmp(text, "all")) {
        const char *name;
        for (uint32_t i = 0; !err && (name = aw_simulate_policy_name(i)); i++)
            if (strncmp(name, "aware", 5) != 0) /* a day of learning takes seconds: by name alone */
                err = policy_add(ask, shared, tune, name, diag);
        return err;
    }
    while (!err && *text) {
        char name[64];
        const size_t len = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), text);
        err = policy_add(ask, shared, tune, name, diag);
        text += len;
        if (*text == ',' && !*++text)
            err = aw_fail(diag, AW_ERR_USAGE, "expected the name of a policy after the last comma");
    }
    return err;
}

/* --- applications -----------------------------------------------------------------------------
 */

/* "SEED", "SEED:INDEX"; false: it is something else. */
static bool is_generated(const char *text, uint64_t *ret_seed, uint64_t *ret_index)
{
    char seed[32];
    const char *colon = strchr(text, ':');
    const size_t len = colon ? (size_t)(colon - text) : strlen(text);
    if (len == 0 || len >= sizeof seed)
        return false;
    memcpy(seed, text, len);
    seed[len] = '\0';
    *ret_index = 0;
    return aw_text_parse_u64(seed, ret_seed) == AW_OK &&
           (!colon ||
            (aw_text_parse_u64(colon + 1, ret_index) == AW_OK && *ret_index < UINT32_MAX));
}

/* FILE, or FILE:NAME for one that is not the first. */
static enum aw_err pool_read(struct aw__simulate *ask, const char *text, const char **ret_name,
                             struct aw_diag *diag)
{
    char path[AW_TEXT_MAX];
    const char *colon = strrchr(text, ':');
    struct aw_diag other;
    enum aw_err err = aw_apps_read(text, NULL, 0, NULL, &ask->pool, diag);
    if (err != AW_ERR_NOTFOUND || !colon)
        return err;
    snprintf(path, sizeof path, "%.*s", (int)(colon - text), text);
    err = aw_apps_read(path, NULL, 0, NULL, &ask->pool, &other);
    if (!err)
        *ret_name = colon + 1;
    else if (err != AW_ERR_NOTFOUND && diag)
        *diag = other;
    return err;
}

static enum aw_err apps_set(struct aw__simulate *ask, const struct words *words,
                            struct aw_diag *diag)
{
    uint64_t seed = 0, index = 0;
    const char *name = NULL, *text = words->app;
    enum aw_err err = AW_OK;
    if (words->workload) {
        err = aw_apps_decode(&ask->tree, words->workload, NULL, 0, NULL, &ask->pool, diag);
        name = text && !is_generated(text, &seed, &index) ? text : NULL;
    } else if (text && !is_generated(text, &seed, &index)) {
        err = pool_read(ask, text, &name, diag);
        if (err == AW_ERR_NOTFOUND)
            return aw_fail_at(diag, err, NULL, 0, 0, "--app",
                              "expected SEED:INDEX or a file, found %s", AW_QUOTE(text));
    } else {
        for (uint32_t i = 0; i < ask->case_count; i++)
            aw_app_generate(text ? seed : 1, (uint32_t)index + i, aw_segment_builtin(),
                            AW_SEGMENT_BUILTIN_COUNT, &ask->cases[i].app);
        return AW_OK;
    }
    if (err)
        return err;
    uint32_t first = 0;
    while (name && first < ask->pool.app_count && strcmp(ask->pool.apps[first].name, name) != 0)
        first++;
    if (first == ask->pool.app_count)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, NULL, 0, 0, "--app",
                          name ? "no application is named %s" : "the file has no application%s",
                          name ? AW_QUOTE(name) : "");
    if (first + ask->case_count > ask->pool.app_count)
        return aw_fail_at(diag, AW_ERR_NODATA, NULL, 0, 0, "--apps",
                          "%" PRIu32 " applications are asked for, the file has %" PRIu32,
                          ask->case_count, ask->pool.app_count - first);
    for (uint32_t i = 0; i < ask->case_count; i++)
        ask->cases[i].app = ask->pool.apps[first + i];
    return AW_OK;
}

/* --- loads ------------------------------------------------------------------------------------
 */

/* Whether the text itself says how high the load is, or which function of a trace it is. */
static bool says(const char *text, const char *key)
{
    const size_t len = strlen(key);
    for (const char *at = strrchr(text, ':'); at; at = strchr(at + 1, ',')) {
        if (!strncmp(at + 1, key, len) && at[1 + len] == '=')
            return true;
    }
    return false;
}

static enum aw_err load_read(const struct aw_call *run, const char *text, uint64_t seed, bool warn,
                             struct aw_load *ret, struct aw_diag *diag)
{
    struct aw_trace_report report;
    enum aw_err err = aw_load_parse_report(text, seed, NULL, ret, &report, diag);
    if (!err && warn)
        aw__load_warn(run, text, &report);
    return err;
}

/* The first half of a load in place of the whole, or the second. */
static enum aw_err load_half(const struct aw_load *from, bool second, struct aw_load *ret,
                             struct aw_diag *diag)
{
    const uint32_t half = from->slot_count / 2, first = second ? from->slot_count - half : 0;
    if (half == 0)
        return aw_fail(diag, AW_ERR_NODATA,
                       "a load of one slot cannot be tuned on and reported; say --tune-load");
    enum aw_err err = aw_load_init(ret, from->name, half, from->slot_us, NULL, diag);
    if (!err)
        memcpy(ret->rate_per_s, from->rate_per_s + first, half * sizeof *ret->rate_per_s);
    return err;
}

/* Whether a file holds many functions, of which each application can have its own. */
static bool has_functions(const char *text, uint32_t count)
{
    struct aw_trace_settings settings;
    struct aw_trace_list list = {0};
    char path[AW_TEXT_MAX];
    const char *colon = strrchr(text, ':');
    const int len = colon && strchr(colon, '=') ? (int)(colon - text) : (int)strlen(text);
    if (says(text, "row") || says(text, "top") || says(text, "func"))
        return false;
    snprintf(path, sizeof path, "%.*s", len, text);
    aw_conf_defaults(aw_trace_fields, &settings);
    if (aw_trace_list(path, &settings, NULL, &list, NULL, NULL))
        return false;
    const bool many = list.count >= count;
    aw_trace_list_deinit(&list);
    return many;
}

/* The load of case `i`, and another to tune on. */
static enum aw_err loads_of(const struct aw_call *run, struct aw__simulate *ask,
                            const struct words *words, bool functions, uint32_t i,
                            struct aw_diag *diag)
{
    const char *text = words->load ? words->load : "diurnal";
    struct aw_load *reported = &ask->loads[2 * i], *tuned = reported + 1, whole = {0};
    char own[AW_TEXT_MAX + 32];
    const uint64_t seed = ask->config.seed + i;
    enum aw_err err;
    if (functions) {
        const char *join = strrchr(text, ':') && strchr(strrchr(text, ':'), '=') ? "," : ":";
        snprintf(own, sizeof own, "%s%stop=%u", text, join, 2 * i + 1);
        err = load_read(run, own, seed, i == 0, reported, diag);
        snprintf(own, sizeof own, "%s%stop=%u", text, join, 2 * i + 2);
        if (!err && !words->tune_load)
            err = load_read(run, own, seed, false, tuned, diag);
    } else if (aw__load_is_pattern(text) || words->tune_load) {
        err = load_read(run, text, seed, i == 0, reported, diag);
        if (!err && !words->tune_load)
            err = load_read(run, text, seed + TUNING_SEED, false, tuned, diag);
    } else {
        err = load_read(run, text, seed, i == 0, &whole, diag);
        if (!err)
            err = load_half(&whole, true, reported, diag);
        if (!err)
            err = load_half(&whole, false, tuned, diag);
        aw_load_deinit(&whole);
    }
    if (!err && words->tune_load)
        err = load_read(run, words->tune_load, seed + TUNING_SEED, i == 0, tuned, diag);
    if (err)
        return err;
    /* of a pattern a peak is a ratio, of a trace a rate */
    if (!says(text, "mean") && (aw__load_is_pattern(text) || !says(text, "peak"))) {
        ask->peak_scaled += aw_load_scale_cores(reported, &ask->cases[i].app, ask->load_cores);
        ask->peak_scaled += aw_load_scale_cores(tuned, &ask->cases[i].app, ask->load_cores);
    }
    ask->cases[i].load = reported;
    ask->cases[i].tuning_load = tuned;
    return AW_OK;
}

static enum aw_err loads_set(const struct aw_call *run, struct aw__simulate *ask,
                             const struct words *words, struct aw_diag *diag)
{
    const char *text = words->load ? words->load : "diurnal";
    const bool functions = ask->case_count > 1 && !aw__load_is_pattern(text) &&
                           has_functions(text, 2 * ask->case_count);
    enum aw_err err = AW_OK;
    snprintf(ask->load_text, sizeof ask->load_text, "%s", text);
    snprintf(ask->tuning_text, sizeof ask->tuning_text, "%s",
             words->tune_load            ? "--tune-load"
             : functions                 ? "other functions of the same trace"
             : aw__load_is_pattern(text) ? "the same pattern with another seed"
                                         : "the first half of the trace; the second is reported");
    for (uint32_t i = 0; !err && i < ask->case_count; i++)
        err = loads_of(run, ask, words, functions, i, diag);
    return err;
}

/* --- scenarios --------------------------------------------------------------------------------
 */

static struct aw_simulate_event event_of(const struct aw_effect *effect, int64_t at_us)
{
    return (struct aw_simulate_event){.at_us = at_us,
                                      .kind = AW_SIMULATE_DISTURB,
                                      .disturbance = {.payload = effect->payload,
                                                      .families = effect->families,
                                                      .cpu_slowdown = effect->cpu_slowdown,
                                                      .io_slowdown = effect->io_slowdown,
                                                      .load_factor = effect->load_factor,
                                                      .memory_leak_mib = effect->memory_leak_mib}};
}

static void schedule_walk(struct aw__simulate *ask)
{
    struct aw_effect effect;
    int64_t at_us = 0;
    aw_schedule_effect(&ask->schedule, 0, &effect);
    ask->event[ask->event_count++] = event_of(&effect, 0);
    while ((at_us = aw_schedule_next(&ask->schedule, at_us)) != INT64_MAX &&
           ask->event_count < 2 * AW_SCHEDULE_EVENTS_MAX) {
        aw_schedule_effect(&ask->schedule, at_us, &effect);
        ask->event[ask->event_count++] = event_of(&effect, at_us);
    }
}

static enum aw_err scenario_read(struct aw__simulate *ask, const struct words *words,
                                 struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    if (words->scenario) {
        char text[TEXT_MAX];
        const struct aw_simulate_settings *s = &ask->config.settings;
        const double third_s = s->step_s * s->episode_steps * (s->continuous ? s->episodes : 1) / 3;
        /* a bare name is on in the middle third of the run */
        if (strcspn(words->scenario, "@,") == strlen(words->scenario))
            snprintf(text, sizeof text, "%s@%.0fs+%.0fs", words->scenario, third_s, third_s);
        else
            snprintf(text, sizeof text, "%s", words->scenario);
        err = aw_schedule_parse(text, &ask->schedule, diag);
    } else if (words->schedule) {
        err = aw_schedule_decode(&ask->tree, words->schedule, &ask->schedule, diag);
    }
    return err;
}

/* The schedule as events, faults among them, for every case. */
static enum aw_err events_set(struct aw__simulate *ask, const struct words *words,
                              struct aw_diag *diag)
{
    enum aw_err err = scenario_read(ask, words, diag);
    if (!err && ask->schedule.count > 0)
        schedule_walk(ask);
    if (!err && words->fault)
        err = aw__simulate_faults(ask, words->fault, diag);
    for (uint32_t i = 0; !err && i < ask->case_count; i++) {
        ask->cases[i].events = ask->event;
        ask->cases[i].event_count = ask->event_count;
    }
    return err;
}

/* --- all of it --------------------------------------------------------------------------------
 */

/* What no setting can mend is said before anything runs. */
static void warn(const struct aw_call *run, const struct aw__simulate *ask)
{
    const struct aw_simulate_settings *s = &ask->config.settings;
    for (uint32_t i = 0; i < ask->case_count; i++) {
        struct aw_demand demand;
        aw_app_demand(&ask->cases[i].app, 1, 0, &demand);
        const double most = s->replicas_max * aw_replica_capacity(&demand, s->cpu_max_cores);
        const struct aw_load_figures figures = aw_load_figures(ask->cases[i].load);
        if (demand.memory_base_mib + demand.memory_flight_mib > s->memory_max_mib)
            aw_log_warn(run->log, "no allocation can run it: it needs more than memory_max_mib",
                        AW_LOG_STR("app", ask->cases[i].app.name),
                        AW_LOG_NUM("mib", demand.memory_base_mib + demand.memory_flight_mib));
        if (figures.mean_per_s > most)
            aw_log_warn(run->log, "the load is more than all replicas can serve",
                        AW_LOG_STR("app", ask->cases[i].app.name),
                        AW_LOG_NUM("mean_per_s", figures.mean_per_s),
                        AW_LOG_NUM("capacity_per_s", most));
    }
}

/* Who asks for `aware` gets what a run has: the shipped library, if it is there. */
static enum aw_err pilot_take(const struct aw_call *run, struct aw__simulate *ask,
                              struct aw_diag *diag)
{
    bool asked = false;
    struct aw_diag why = {0};
    for (uint32_t i = 0; i < ask->policy_count; i++)
        asked |= ask->policy[i].is_aware;
    if (!asked)
        return AW_OK;
    if (!(ask->pilot = aw_alloc_new(NULL, 1, sizeof *ask->pilot)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a control loop");
    aw_pilot_config_init(ask->pilot);
    ask->config.pilot = ask->pilot;
    const enum aw_err err = aw_models_open(NULL, &ask->shelf, diag);
    if (!err && aw_pilot_model_take(ask->pilot, ask->shelf, "shipped", &why))
        aw_log_warn(run->log, "aware begins at nothing: the shipped library is not used",
                    AW_LOG_STR("why", why.text));
    return err;
}

enum aw_err aw__simulate_ask(const struct aw_call *run, struct aw__simulate *ret,
                             struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *path = aw_args_text(args, "file");
    char policies[TEXT_MAX];
    struct words words = {0};
    struct shared shared = {0};
    struct aw__simulate *ask = ret;
    enum aw_err err = AW_OK;
    *ask = (struct aw__simulate){0};
    aw_simulate_config_init(&ask->config);
    aw_conf_defaults(aw_fallback_fields, &shared.policy);
    aw_conf_defaults(aw_oracle_fields, &shared.oracle);
    if (path && (err = file_read(ask, path, policies, sizeof policies, &words, diag)))
        goto out;
    const struct {
        const char *option;
        const char **to;
    } given[] = {{"app", &words.app},
                 {"load", &words.load},
                 {"tune-load", &words.tune_load},
                 {"policy", &words.policies},
                 {"compare", &words.policies},
                 {"model", &words.model},
                 {"episodes", &words.episodes},
                 {"seed", &words.seed},
                 {"cores", &words.cores},
                 {"scenario", &words.scenario},
                 {"fault", &words.fault}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (aw_args_given(args, given[i].option))
            *given[i].to = aw_args_text(args, given[i].option);
    }
    if (aw_args_given(args, "policy") && aw_args_given(args, "compare")) {
        err = aw_fail(diag, AW_ERR_USAGE, "--policy and --compare exclude each other");
        goto out;
    }
    ask->case_count = (uint32_t)aw_args_number(args, "apps");
    ask->load_cores = 2;
    if (words.cores && (aw_text_parse_real(words.cores, &ask->load_cores) ||
                        !(ask->load_cores >= 0) || ask->load_cores > 1e4)) {
        err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--cores",
                         "expected a number from 0 to 10000, found %s", AW_QUOTE(words.cores));
        goto out;
    }
    const uint64_t threads = aw_args_number(args, "threads");
    ask->config.thread_count = threads ? (uint32_t)threads : aw_threads_cpu_count();
    ask->cases = aw_alloc_new(NULL, ask->case_count, sizeof *ask->cases);
    ask->loads = aw_alloc_new(NULL, 2 * (size_t)ask->case_count, sizeof *ask->loads);
    if (!ask->cases || !ask->loads) {
        err =
            aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " applications", ask->case_count);
        goto out;
    }
    const bool tune = !aw_args_given(args, "as-given");
    if ((err = settings_set(ask, args, &words, &shared, diag)) ||
        (err = policies_set(ask, &shared, tune, words.policies ? words.policies : "hpa+vpa-mem",
                            diag)) ||
        (err = pilot_take(run, ask, diag)) ||
        (err = aw_simulate_check(&ask->config.settings, &ask->config.sim, diag)) ||
        (err = apps_set(ask, &words, diag)) || (err = loads_set(run, ask, &words, diag)) ||
        (err = events_set(ask, &words, diag)))
        goto out;
    bool tuned = false;
    for (uint32_t i = 0; i < ask->policy_count; i++)
        tuned |= ask->policy[i].tuning != AW_SIMULATE_AS_GIVEN;
    if (!tuned)
        snprintf(ask->tuning_text, sizeof ask->tuning_text, "nothing: all run as given");
    warn(run, ask);
    return AW_OK;
out:
    aw__simulate_deinit(ask);
    return err;
}

void aw__simulate_deinit(struct aw__simulate *ask)
{
    for (uint32_t i = 0; ask->loads && i < 2 * ask->case_count; i++)
        aw_load_deinit(&ask->loads[i]);
    aw_alloc_free(NULL, ask->loads);
    aw_alloc_free(NULL, ask->cases);
    aw_alloc_free(NULL, ask->pilot);
    aw_model_shelf_free(ask->shelf);
    aw_apps_deinit(&ask->pool);
    aw_tree_deinit(&ask->tree);
    *ask = (struct aw__simulate){0};
}
