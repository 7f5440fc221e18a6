/* frequency.c - the verbs `frequency probe|run|restore`: the learned policy on this machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "device/devices.h"
#include "device/helper.h"
#include "device/setter.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "frequency/counters.h"
#include "frequency/guard.h"
#include "frequency/host.h"
#include "frequency/learn.h"

#define STATE_DEFAULT "/run/aware-frequency.json"
#define WATTS_DEFAULT 150.0 /* where RAPL says no limit: a scale, not a bound */
#define SECOND_US     1000000

static const struct aw_option root_option[] = {
    AW_OPTION(DIR, "root", 0, "DIR", "/sys", "the tree to read and write"), {.name = NULL}};

/* ---- probe ---- */

static json_t *policy_json(const struct aw_host_policy *policy)
{
    return json_pack("{s:I,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:b,s:s}", "policy",
                     (json_int_t)policy->number, "cpus", policy->cpus, "driver", policy->driver,
                     "governor", policy->governor, "preference", policy->preference, "min_khz",
                     (json_int_t)policy->min_khz, "max_khz", (json_int_t)policy->max_khz,
                     "base_khz", (json_int_t)policy->base_khz, "cap_khz",
                     (json_int_t)policy->cap_khz, "floor_khz", (json_int_t)policy->floor_khz,
                     "settable", policy->settable, "why", policy->why);
}

static enum aw_err probe_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"POLICY", "CPUS", "DRIVER", "GOVERNOR",
                                        "RANGE",  "CAP",  "NOTE",   NULL};
    struct aw_host host;
    struct aw_counters counters;
    enum aw_err err = aw_host_probe(aw_args_text(run->args, "root"), &host, diag);
    if (err)
        return err;
    aw_counters_open(&counters, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), "/proc/stat");
    char hardware[sizeof counters.why];
    snprintf(hardware, sizeof hardware, "%s", counters.why);
    aw_counters_close(&counters);
    if (run->json) {
        json_t *policies = json_array();
        for (uint32_t i = 0; i < host.count; i++)
            json_array_append_new(policies, policy_json(&host.policy[i]));
        return aw_json_print(json_pack("{s:o,s:s,s:o,s:b,s:s,s:s,s:I}", "policies", policies,
                                       "driver_status", host.driver_status, "turbo",
                                       host.turbo_known ? json_boolean(host.turbo) : json_null(),
                                       "energy", host.energy, "energy_why", host.energy_why,
                                       "counters_why", hardware, "throttles",
                                       (json_int_t)host.throttles),
                             diag);
    }
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < host.count; i++) {
        const struct aw_host_policy *policy = &host.policy[i];
        aw_table_add(&table, "policy%u", policy->number);
        aw_table_add(&table, "%s", policy->cpus);
        aw_table_add(&table, "%s%s%s", policy->driver, host.driver_status[0] ? ", " : "",
                     host.driver_status);
        aw_table_add(&table, "%s", policy->governor);
        aw_table_add(&table, "%.2f to %.2f GHz", policy->min_khz * 1e-6, policy->max_khz * 1e-6);
        aw_table_add(&table, "%.2f GHz", policy->cap_khz * 1e-6);
        aw_table_add(&table, "%s", policy->why);
    }
    err = aw_table_print(&table, stdout, run->color_out, diag);
    aw_table_deinit(&table);
    printf("\nturbo: %s. energy: %s. counters: %s.\n",
           !host.turbo_known ? "not said"
           : host.turbo      ? "on"
                             : "off",
           host.energy ? "RAPL" : host.energy_why, hardware[0] ? hardware : "instructions, cycles");
    return err;
}

static const struct aw_example probe_examples[] = {
    {"aware frequency probe", "What can be read and set here, and what the driver does with it"},
    {.command = NULL}};

const struct aw_verb aw_verb_frequency_probe = {
    .name = "frequency probe",
    .summary = "Show what of this machine's CPU frequency can be read and set",
    .text = "Reads only. Drivers differ: under intel_pstate and amd_pstate in active mode the "
            "hardware chooses up to the cap, and a set speed is not honoured; a cap below the "
            "floor is refused. Virtual machines show no frequency at all.",
    .options = root_option,
    .examples = probe_examples,
    .json = true,
    .run = probe_run,
};

/* ---- restore ---- */

static enum aw_err restore_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_host_restored restored;
    const enum aw_err err = aw_host_restore(aw_args_text(run->args, "state"), &restored, diag);
    if (err)
        return err;
    if (run->json)
        return aw_json_print(json_pack("{s:I,s:I,s:I}", "policies", (json_int_t)restored.policies,
                                       "changed", (json_int_t)restored.changed, "gone",
                                       (json_int_t)restored.gone),
                             diag);
    if (!restored.policies)
        printf("No note of an earlier run: nothing to put back.\n");
    else
        printf("%u of %u policies put back as they were found.\n", restored.changed,
               restored.policies);
    return AW_OK;
}

static const struct aw_option restore_options[] = {
    AW_OPTION(FILE, "state", 0, "FILE", STATE_DEFAULT, "the note of what was found"),
    {.name = NULL}};

static const struct aw_example restore_examples[] = {
    {"aware frequency restore", "Put back what a run that was killed has left"}, {.command = NULL}};

const struct aw_verb aw_verb_frequency_restore = {
    .name = "frequency restore",
    .summary = "Put CPU frequency caps back as they were found",
    .text = "A run that ends, by itself or by a signal, puts back what it found, and so does its "
            "helper when the run is killed. This is for the case that both were killed. Without a "
            "note nothing is done; it may be called by anybody at any time.",
    .options = restore_options,
    .examples = restore_examples,
    .json = true,
    .run = restore_run,
};

/* ---- run ---- */

struct agent {
    const struct aw_call *run;
    struct aw_host host;
    struct aw_processor processor;
    struct aw_devices devices;
    struct aw_setter setter;
    struct aw_counters counters;
    struct aw_host_energy energy;
    struct aw_frequency_learner *learner;
    struct aw_frequency_driver driver;
    struct aw_frequency_guard guard;
    struct aw_governor_state fallback;
    json_t *rows;
    double ghz_max, full_w;
    bool by_model, throttled_known;
    uint64_t throttles;
};

static uint32_t cpus_of(const struct aw_host *host)
{
    uint32_t cpus = 0;
    for (uint32_t i = 0; i < host->count; i++) {
        char list[sizeof host->policy[i].cpus];
        snprintf(list, sizeof list, "%s", host->policy[i].cpus);
        char *save = NULL;
        for (char *word = strtok_r(list, " ,", &save); word; word = strtok_r(NULL, " ,", &save))
            cpus++;
    }
    return cpus ? cpus : 1;
}

static double limit_w(const char *root)
{
    char path[4096];
    unsigned long long uw = 0;
    snprintf(path, sizeof path, "%.3900s/class/powercap/intel-rapl:0/constraint_0_power_limit_uw",
             root);
    FILE *in = fopen(path, "re");
    if (in && fscanf(in, "%llu", &uw) != 1)
        uw = 0;
    if (in)
        (void)fclose(in);
    return uw ? (double)uw * 1e-6 : WATTS_DEFAULT;
}

/* The processor as the policy learned to see processors: ranges, and what a scale needs. */
static void processor_of(const struct aw_host *host, const char *root, struct aw_processor *ret)
{
    const struct aw_host_policy *first = &host->policy[0];
    const double nominal =
        (first->base_khz ? first->base_khz : first->min_khz / 3 + first->max_khz / 3 * 2) * 1e-6;
    *ret = (struct aw_processor){.name = "this one",
                                 .cores = cpus_of(host),
                                 .min_ghz = first->min_khz * 1e-6,
                                 .nominal_ghz = nominal,
                                 .max_ghz = first->max_khz * 1e-6,
                                 .limit_w = limit_w(root)};
}

/* One second as the policy sees it; what is not known is the mildest guess, and `ret_whole` false
 * keeps the model out. */
static void look(struct agent *agent, const struct aw_counted *counted, double watts, double ghz,
                 float obs[AW_FREQUENCY_OBS], bool *ret_whole)
{
    const struct aw_processor *processor = &agent->processor;
    const double scale = processor->cores * processor->max_ghz * 1e9;
    const double stalled = counted->stalls / counted->cycles;
    *ret_whole = !isnan(counted->instructions) && !isnan(counted->use) && !isnan(ghz);
    obs[AW_SEE_IPS] = *ret_whole ? (float)(counted->instructions / scale) : 0;
    obs[AW_SEE_USE] = isnan(counted->use) ? 0.5f : (float)counted->use;
    obs[AW_SEE_GHZ] = isnan(ghz) ? 1 : (float)(ghz / processor->max_ghz);
    obs[AW_SEE_KEPT] = 1; /* nobody says what the application's objective is */
    obs[AW_SEE_THROUGHPUT] = 1;
    obs[AW_SEE_WATTS] = isnan(watts) ? 0.5f : (float)(watts / processor->limit_w);
    obs[AW_SEE_STALLED] = isnan(stalled) ? 0.3f : (float)fmin(1, stalled);
    obs[AW_SEE_THROTTLED] = 0;
}

static double clock_of(const struct agent *agent)
{
    double sum = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < agent->setter.count; i++) {
        const struct aw_setter_device *device = &agent->setter.device[i];
        if (device->read && device->reading.known & AW_DEVICE_CLOCK) {
            sum += device->reading.clock_mhz * 1e-3;
            known++;
        }
    }
    return known ? sum / known : (double)NAN;
}

static void want(struct agent *agent, double ghz, int64_t now_us)
{
    for (uint32_t i = 0; i < agent->setter.count; i++) {
        struct aw_device_info info;
        struct aw_diag ignored;
        if (agent->devices.ops->describe(agent->devices.self, i, &info, &ignored))
            continue;
        uint32_t mhz = aw_device_clock_near(&info, (uint32_t)lround(ghz * 1e3));
        /* a cap below the floor is refused by drivers: the owner's floor holds */
        const uint32_t least =
            i < agent->host.count ? (agent->host.policy[i].floor_khz + 999) / 1000 : 0;
        if (mhz < least)
            mhz = aw_device_clock_near(&info, least);
        aw_setter_want(&agent->setter, i, mhz, 0, now_us);
    }
}

static void second(struct agent *agent, uint32_t number, int64_t now_us)
{
    const char *root = aw_args_text(agent->run->args, "root");
    struct aw_counted counted;
    float obs[AW_FREQUENCY_OBS];
    bool whole;
    aw_device_helper_beat(&agent->devices);
    aw_setter_step(&agent->setter, now_us);
    aw_counters_read(&agent->counters, &counted);
    const double watts = aw_host_energy_read(&agent->energy, root);
    const double ghz = clock_of(agent);
    look(agent, &counted, watts, ghz, obs, &whole);
    const double reward =
        isnan(watts) || !whole
            ? (double)NAN
            : 1 - AW_REWARD_POWER * watts / agent->full_w +
                  AW_REWARD_THROUGHPUT *
                      (counted.instructions / fmax(counted.use, 0.01) /
                           (agent->processor.cores * agent->processor.nominal_ghz * 1e9) -
                       1);
    const struct aw_frequency_sample sample = {
        .ghz = ghz,
        .ips = counted.instructions,
        .use = counted.use,
        .watts = watts,
        .alpha = isnan(counted.stalls) ? (double)NAN
                                       : fmax(0, 1 - counted.stalls / fmax(counted.cycles, 1)),
        .counted = counted.counted,
        .throttles = aw_host_throttles(root),
        .backwards = counted.backwards,
        .reward = reward,
        .by_model = agent->by_model,
    };
    const bool good = aw_frequency_guard_sample(&agent->guard, &sample, now_us);
    if (good && whole) {
        const uint32_t level = aw_frequency_decide(&agent->driver, obs, isnan(reward) ? 0 : reward);
        aw_frequency_guard_predict(&agent->guard, aw_level_ghz(&agent->processor, level), now_us);
    }
    agent->fallback.level = aw_governor_find("schedutil")->next(&agent->fallback, obs);
    enum aw_frequency_break why;
    const double wish = aw_frequency_guard_decide(
        &agent->guard, aw_level_ghz(&agent->processor, agent->fallback.level), now_us, &why);
    agent->by_model = why == AW_BREAK_NONE;
    want(agent, wish, now_us);
    const char *state = aw_setter_state_text(agent->setter.device[0].state);
    if (agent->run->json)
        json_array_append_new(agent->rows, json_pack("{s:I,s:o,s:o,s:o,s:f,s:s,s:s}", "second",
                                                     (json_int_t)number, "ghz", aw_json_real(ghz),
                                                     "use", aw_json_real(counted.use), "watts",
                                                     aw_json_real(watts), "wish_ghz", wish, "state",
                                                     state, "why", aw_frequency_break_text(why)));
    else
        printf("%4u s  now %.2f GHz  use %3.0f %%  wish %.2f GHz: %s%s%s\n", number, ghz,
               100 * counted.use, wish, state, why == AW_BREAK_NONE ? "" : "; ",
               why == AW_BREAK_NONE ? "" : aw_frequency_break_text(why));
    (void)fflush(stdout);
}

static enum aw_err agent_open(struct agent *agent, bool act, struct aw_diag *diag)
{
    const char *root = aw_args_text(agent->run->args, "root");
    const char *state = aw_args_text(agent->run->args, "state");
    const struct aw_frequency_guard_config safe = aw_frequency_guard_default();
    const struct aw_device_helper_config helper = {.log = agent->run->log};
    struct aw_host_restored restored;
    char spec[AW_DEVICES_SPEC_MAX];
    enum aw_err err = AW_OK;
    if (act) /* a run before this one may have been killed */
        err = aw_host_restore(state, &restored, diag);
    if (!err)
        err = aw_host_probe(root, &agent->host, diag);
    if (!err && act)
        err = aw_host_note(&agent->host, root, state, diag);
    snprintf(spec, sizeof spec, "cpufreq:%.480s", root);
    if (!err)
        err = act ? aw_device_helper_spawn(spec, &helper, NULL, &agent->devices, diag)
                  : aw_devices_open(spec, NULL, &agent->devices, diag);
    if (!err)
        err = aw_setter_init(&agent->setter, &agent->devices,
                             &(struct aw_setter_config){.act = act}, diag);
    if (!err)
        err = aw_frequency_shipped(&agent->learner, diag);
    if (err)
        return err;
    processor_of(&agent->host, root, &agent->processor);
    agent->full_w = agent->processor.limit_w;
    aw_governor_reset(&agent->fallback, &agent->processor);
    aw_frequency_guard_init(&agent->guard, &safe, agent->processor.min_ghz,
                            agent->processor.nominal_ghz, agent->processor.max_ghz,
                            agent->processor.limit_w);
    aw_counters_open(&agent->counters, agent->processor.cores, "/proc/stat");
    (void)aw_host_energy_open(&agent->energy, root);
    return aw_frequency_begin(&agent->driver, agent->learner, &agent->processor,
                              AW_FREQUENCY_EMBEDDED, "this machine");
}

static enum aw_err run_run(const struct aw_call *run, struct aw_diag *diag)
{
    const bool act = aw_args_given(run->args, "act");
    const uint64_t seconds = aw_args_number(run->args, "seconds");
    struct agent *agent = aw_alloc_new(NULL, 1, sizeof *agent);
    if (!agent)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an agent");
    agent->run = run;
    agent->rows = json_array();
    aw_stop_catch(&(struct aw_stop_config){0});
    enum aw_err err = agent_open(agent, act, diag);
    if (!err && !act)
        fprintf(stderr, "dry run: nothing is set (--act sets)\n");
    if (!err && agent->counters.why[0])
        fprintf(stderr, "%s: the model stays out, the fallback decides\n", agent->counters.why);
    for (uint32_t s = 1; !err && s <= seconds && !aw_stop_signal; s++) {
        struct timespec wait = {.tv_sec = 1};
        (void)nanosleep(&wait, NULL);
        if (!aw_stop_signal)
            second(agent, s, aw_clock_monotonic_us(NULL));
    }
    if (agent->setter.devices) {
        const enum aw_err end =
            aw_setter_finish(&agent->setter, aw_clock_monotonic_us(NULL), err ? NULL : diag);
        err = err ? err : end;
    }
    aw_devices_close(&agent->devices);
    if (act) { /* what the helper did not know: the note has it */
        struct aw_host_restored restored;
        const enum aw_err end =
            aw_host_restore(aw_args_text(run->args, "state"), &restored, err ? NULL : diag);
        err = err ? err : end;
    }
    if (agent->learner)
        aw_frequency_end(&agent->driver);
    aw_frequency_learner_free(agent->learner);
    aw_counters_close(&agent->counters);
    if (!err && run->json)
        err = aw_json_print(json_incref(agent->rows), diag);
    json_decref(agent->rows);
    aw_alloc_free(NULL, agent);
    return err;
}

static const struct aw_option run_options[] = {
    AW_OPTION(DIR, "root", 0, "DIR", "/sys", "the tree to read and write"),
    AW_OPTION(FILE, "state", 0, "FILE", STATE_DEFAULT, "where what was found is noted"),
    AW_FLAG("act", 0, "set frequencies; without it only what would be set is shown"),
    AW_NUMBER("seconds", 'n', "N", "60", 1, 100000000, "how long"),
    {.name = NULL}};

static const struct aw_example run_examples[] = {
    {"aware frequency run --seconds 30", "What it would do, second by second; nothing is set"},
    {"aware frequency run --act --seconds 3600", "An hour; everything is put back at the end"},
    {.command = NULL}};

const struct aw_verb aw_verb_frequency_run = {
    .name = "frequency run",
    .summary = "Choose this machine's CPU frequency, second by second, within safeguards",
    .text = "The learned policy proposes a cap from instructions, use, power and stalls; "
            "safeguards outside of it drop readings that cannot be true, ignore late proposals, "
            "withhold a policy that earns less than the fallback, and give no more than nominal "
            "frequency where cores wait for memory or the processor throttles.\n\nDry by default. "
            "With --act caps are set through a helper that puts them back when this process is "
            "gone, however it went; what was found is also noted in a file first, for `aware "
            "frequency restore`.",
    .options = run_options,
    .examples = run_examples,
    .json = true,
    .run = run_run,
};
