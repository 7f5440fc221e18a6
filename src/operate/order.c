/* order.c - the verbs that order something of the daemon: freeze, unfreeze, undo, approve, reject,
 * emergency and calm. */
#include <aware/resource.h>

#include "base/quantity.h"
#include "frame/json.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FACTOR_MAX 10.0

/* --- giving ----------------------------------------------------------------------------------- */

/* Sends the order, which is released, and says what came of it. */
static enum aw_err give(const struct aw_call *run, json_t *order, struct aw_diag *diag)
{
    struct aw__client client;
    json_t *answer = NULL;
    const char *reason = aw_args_text(run->args, "reason");
    if (reason)
        json_object_set_new(order, "reason", json_string(reason));
    enum aw_err err = aw__client_open(&client, run, diag);
    err = err ? err : aw__client_order(&client, order, &answer, diag);
    json_decref(order);
    aw__client_close(&client);
    if (err)
        return err;
    if (run->json) {
        json_object_set_new(answer, "v", json_integer(1));
        return aw_json_print(answer, diag);
    }
    const char *message = aw_at_text(answer, "message");
    printf("order %lld: %s\n", (long long)aw_at_integer(answer, "id"),
           *message ? message : "taken");
    json_decref(answer);
    return AW_OK;
}

/* A word that is the number of an entry. */
static enum aw_err id_read(const char *word, uint64_t *ret, struct aw_diag *diag)
{
    uint64_t id = 0;
    if (aw_text_parse_u64(word, &id) || id == 0 || id > INT64_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "ID",
                          "expected the number of a decision, as 'aware history' shows it, found "
                          "%s",
                          AW_QUOTE(word));
    *ret = id;
    return AW_OK;
}

static enum aw_err for_put(const struct aw_call *run, json_t *order, struct aw_diag *diag)
{
    const char *lasts = aw_args_text(run->args, "for");
    int64_t us;
    if (!lasts)
        return AW_OK;
    if (aw_duration_parse(lasts, AW_QUANTITY_POSITIVE_OR_0, &us, NULL) || us <= 0)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--for",
                          "expected a duration such as 30m or 2h, found %s", AW_QUOTE(lasts));
    json_object_set_new(order, "for", json_string(lasts));
    return AW_OK;
}

/* Whom it is about: one of WORKLOAD, --namespace and --all. */
static enum aw_err scope_put(const struct aw_call *run, const char *word, json_t *order,
                             struct aw_diag *diag)
{
    const char *namespace = aw_args_text(run->args, "namespace");
    const bool all = aw_args_given(run->args, "all");
    const int said = (word != NULL) + (namespace != NULL) + all;
    if (said != 1)
        return aw_fail(diag, AW_ERR_USAGE,
                       said ? "'aware %s' takes one of WORKLOAD, --namespace and --all, found %d"
                            : "'aware %s' needs one of WORKLOAD, --namespace and --all",
                       run->args->verb->name, said);
    json_object_set_new(order, "scope",
                        json_string(all         ? "all"
                                    : namespace ? "namespace"
                                                : "workload"));
    if (!all)
        json_object_set_new(order, "name", json_string(word ? word : namespace));
    return AW_OK;
}

static json_t *order_new(const char *kind)
{
    json_t *order = json_object();
    json_object_set_new(order, "kind", json_string(kind));
    return order;
}

#define REASON_OPTION(must)                                                        \
    {                                                                              \
        .name = "reason", .letter = 'r', .kind = AW_ARG_TEXT, .arg = "TEXT",       \
        .help = "why, for those who ask later; kept in the log", .required = must, \
    }
#define SCOPE_OPTIONS                                                \
    {.name = "namespace",                                            \
     .letter = 'n',                                                  \
     .kind = AW_ARG_TEXT,                                            \
     .arg = "NAMESPACE",                                             \
     .help = "every workload of this one, also those to come"},      \
    {                                                                \
        .name = "all", .kind = AW_ARG_FLAG, .help = "every workload" \
    }

/* --- freeze, unfreeze ------------------------------------------------------------------------- */

static enum aw_err freeze_run(const struct aw_call *run, struct aw_diag *diag)
{
    json_t *order = order_new("freeze");
    enum aw_err err = scope_put(run, run->args->positional[0], order, diag);
    err = err ? err : for_put(run, order, diag);
    if (aw_args_given(run->args, "scale-down-only"))
        json_object_set_new(order, "down_only", json_true());
    if (!err)
        return give(run, order, diag);
    json_decref(order);
    return err;
}

static enum aw_err unfreeze_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *word = run->args->positional[0];
    json_t *order = order_new("unfreeze");
    uint64_t id;
    enum aw_err err = AW_OK;
    if (word && !aw_text_parse_u64(word, &id) && id > 0 && id <= INT64_MAX &&
        !aw_args_given(run->args, "all") && !aw_args_given(run->args, "namespace"))
        json_object_set_new(order, "order", json_integer((json_int_t)id));
    else
        err = scope_put(run, word, order, diag);
    if (!err)
        return give(run, order, diag);
    json_decref(order);
    return err;
}

static const struct aw_positional freeze_positionals[] = {
    {.name = "WORKLOAD", .kind = AW_ARG_TEXT, .help = "NAME, or NAMESPACE/NAME", .optional = true},
    {.name = NULL},
};
static const struct aw_option freeze_options[] = {
    SCOPE_OPTIONS,
    AW_FLAG("scale-down-only", 0, "growing goes on: for when the metrics cannot be trusted"),
    AW_OPTION(TEXT, "for", 0, "TIME", NULL,
              "ends by itself after this, e.g. 2h (default: until it is lifted)"),
    REASON_OPTION(true),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example freeze_examples[] = {
    {"aware freeze --all --scale-down-only --for 2h --reason 'metrics are down'",
     "nothing shrinks, whatever the figures say"},
    {"aware freeze cart --reason 'launch'", "one workload, until it is lifted"},
    {"aware freeze -n shop --for 30m --reason 'incident 4711'", "a namespace"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_freeze = {
    .name = "freeze",
    .summary = "Block changes to a workload, a namespace or everything, or only scale-down",
    .text = "Takes effect with the next tick, is written to the audit log before it is taken, and "
            "outlives a restart. Given while the daemon is stopped, it stands when it starts. What "
            "is decided goes on being recommended and recorded.",
    .options = freeze_options,
    .positionals = freeze_positionals,
    .examples = freeze_examples,
    .json = true,
    .run = freeze_run,
};

static const struct aw_positional unfreeze_positionals[] = {
    {.name = "WORKLOAD|ID",
     .kind = AW_ARG_TEXT,
     .help = "a workload, or the number of one freeze ('aware get --orders')",
     .optional = true},
    {.name = NULL},
};
static const struct aw_option unfreeze_options[] = {
    SCOPE_OPTIONS,
    REASON_OPTION(false),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example unfreeze_examples[] = {
    {"aware unfreeze cart", "of one workload"},
    {"aware unfreeze 41", "one freeze, by its number"},
    {"aware unfreeze --all", "the one that was given with --all"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_unfreeze = {
    .name = "unfreeze",
    .summary = "Lift a freeze",
    .text = "A freeze is lifted as it was given: one of all workloads with --all, one of a "
            "namespace with --namespace, or any by its number.",
    .options = unfreeze_options,
    .positionals = unfreeze_positionals,
    .examples = unfreeze_examples,
    .json = true,
    .run = unfreeze_run,
};

/* --- undo, approve, reject -------------------------------------------------------------------- */

static enum aw_err by_id(const struct aw_call *run, const char *kind, struct aw_diag *diag)
{
    uint64_t id;
    enum aw_err err = id_read(run->args->positional[0], &id, diag);
    if (err)
        return err;
    json_t *order = order_new(kind);
    json_object_set_new(order, "decision", json_integer((json_int_t)id));
    return give(run, order, diag);
}

static enum aw_err undo_run(const struct aw_call *run, struct aw_diag *diag)
{
    return by_id(run, "undo", diag);
}

static enum aw_err approve_run(const struct aw_call *run, struct aw_diag *diag)
{
    return by_id(run, "approve", diag);
}

static enum aw_err reject_run(const struct aw_call *run, struct aw_diag *diag)
{
    return by_id(run, "reject", diag);
}

static const struct aw_positional id_positionals[] = {
    {.name = "ID", .kind = AW_ARG_TEXT, .help = "number of the decision, from 'aware history'"},
    {.name = NULL},
};
static const struct aw_positional proposal_positionals[] = {
    {.name = "ID",
     .kind = AW_ARG_TEXT,
     .help = "number of the proposal, from 'aware get --proposals'"},
    {.name = NULL},
};
static const struct aw_option id_options[] = {
    REASON_OPTION(false),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example undo_examples[] = {
    {"aware undo 310 --reason 'latency got worse'", "back to what it was before decision 310"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_undo = {
    .name = "undo",
    .summary = "Revert a decision: what it changed goes back to what it was",
    .text = "The workload then stays frozen for half an hour, so that the same decision is not "
            "taken at once again; 'aware unfreeze' lifts that. A decision that was followed by "
            "another change of the same amounts cannot be undone: undo that one first. The rails "
            "that keep a workload safe hold for an undo too.",
    .options = id_options,
    .positionals = id_positionals,
    .examples = undo_examples,
    .json = true,
    .run = undo_run,
};
static const struct aw_example approve_examples[] = {
    {"aware get --proposals", "what waits, with its numbers"},
    {"aware approve 310", "carry it out"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_approve = {
    .name = "approve",
    .summary = "Carry out a recommendation that awaits approval",
    .text = "In mode Approve every change waits until someone approves of it, and expires.",
    .options = id_options,
    .positionals = proposal_positionals,
    .examples = approve_examples,
    .json = true,
    .run = approve_run,
};
static const struct aw_example reject_examples[] = {
    {"aware reject 310 --reason 'not before Monday'", "it is not carried out"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_reject = {
    .name = "reject",
    .summary = "Refuse a recommendation that awaits approval",
    .options = id_options,
    .positionals = proposal_positionals,
    .examples = reject_examples,
    .json = true,
    .run = reject_run,
};

/* --- emergency, calm -------------------------------------------------------------------------- */

/* What it has, times `factor`, within its bounds. */
static enum aw_err plan_put(const struct aw_call *run, const char *name, double factor,
                            json_t *order, struct aw_diag *diag)
{
    struct aw__client client;
    json_t *workload = NULL, *plan = json_object();
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        goto out;
    err = aw__client_need(&client, "emergency", diag);
    err = err ? err : aw__client_workload(&client, name, &workload, diag);
    aw__client_close(&client);
    for (uint32_t i = 0; !err && i < AW_RESOURCES; i++) {
        const char *key = aw_resource_table[i].member;
        char max[64];
        snprintf(max, sizeof max, "bounds.%s.max", key);
        const double now =
            aw_at_real(workload, i == AW_RESOURCE_REPLICAS ? "replicas.wanted" : key);
        const double most = aw_at_real(workload, max);
        if (isnan(now))
            continue;
        const double wanted = ceil(factor * now);
        json_object_set_new(plan, key,
                            json_integer((json_int_t)(most > 0 ? fmin(wanted, most) : wanted)));
    }
    if (!err && json_object_size(plan) == 0)
        err = aw_fail(diag, AW_ERR_NODATA, "%s has not been seen yet: nothing to multiply", name);
    if (!err)
        json_object_set(order, "plan", plan);
out:
    json_decref(workload);
    json_decref(plan);
    return err;
}

static enum aw_err emergency_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *name = run->args->positional[0], *text = aw_args_text(run->args, "factor");
    json_t *order = order_new("emergency");
    double factor = 0;
    json_object_set_new(order, "name", json_string(name));
    enum aw_err err = for_put(run, order, diag);
    if (!err && (aw_text_parse_real(text, &factor) || !(factor >= 1 && factor <= FACTOR_MAX)))
        err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--factor",
                         "expected a number from 1 to %.0f, found %s", FACTOR_MAX, AW_QUOTE(text));
    if (!err)
        err = plan_put(run, name, factor, order, diag);
    if (!err)
        return give(run, order, diag);
    json_decref(order);
    return err;
}

static enum aw_err calm_run(const struct aw_call *run, struct aw_diag *diag)
{
    json_t *order = order_new("calm");
    json_object_set_new(order, "name", json_string(run->args->positional[0]));
    return give(run, order, diag);
}

static const struct aw_positional workload_positionals[] = {
    {.name = "WORKLOAD", .kind = AW_ARG_TEXT, .help = "NAME, or NAMESPACE/NAME"},
    {.name = NULL},
};
static const struct aw_option emergency_options[] = {
    AW_OPTION(TEXT, "for", 0, "TIME", "1h", "how long nothing goes below it"),
    AW_OPTION(TEXT, "factor", 0, "X", "1.5",
              "times what it has now: replicas, CPU and memory, within its bounds"),
    REASON_OPTION(true),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example emergency_examples[] = {
    {"aware emergency cart --reason 'launch at nine'", "half as much again, for an hour"},
    {"aware emergency cart --factor 3 --for 2h --reason 'on television'", "three times as much"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_emergency = {
    .name = "emergency",
    .summary = "Give a workload generous resources at once, then reduce them gradually",
    .text = "Nothing goes below it until it ends; more is still possible. Then the floor comes "
            "down by a twentieth a minute: the end of an emergency is not to be the next one.",
    .options = emergency_options,
    .positionals = workload_positionals,
    .examples = emergency_examples,
    .json = true,
    .run = emergency_run,
};
static const struct aw_example calm_examples[] = {
    {"aware calm cart", "the launch is over"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_calm = {
    .name = "calm",
    .summary = "End an emergency: resources are reduced gradually",
    .options = id_options,
    .positionals = workload_positionals,
    .examples = calm_examples,
    .json = true,
    .run = calm_run,
};
