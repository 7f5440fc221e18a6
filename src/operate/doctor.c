/* doctor.c - the verb `doctor`: is everything there that a controller on this cluster needs? */
#include "kube/doctor.h"

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX 2u /* of a question: somebody is waiting at a terminal */

/* Where findings go: one of the two. */
struct report {
    struct aw_table table;
    json_t *list;
    const struct aw_call *run;
};

static void found(void *ctx, const struct aw_kube_finding *finding)
{
    struct report *report = ctx;
    const char *verdict = aw_kube_verdict_name(finding->verdict);
    if (report->run->json) {
        json_array_append_new(report->list,
                              json_pack("{s:s, s:s, s:s, s:s}", "check", finding->check, "state",
                                        verdict, "found", finding->text, "fix", finding->fix));
        return;
    }
    aw_table_add(&report->table, "%s", finding->check);
    aw_table_add(&report->table, "%s", verdict);
    aw_table_add(&report->table, "%s%s%s", finding->text, finding->fix[0] ? "; " : "",
                 finding->fix);
}

static enum aw_err print(struct report *report, const struct aw_kube_health *health,
                         struct aw_diag *diag)
{
    if (!report->run->json)
        return aw_table_print(&report->table, stdout, report->run->color_out, diag);
    json_t *root =
        json_pack("{s:i, s:i, s:i, s:O}", "ok", (int)health->fine, "notes", (int)health->notes,
                  "lacks", (int)health->lacks, "findings", report->list);
    return aw_json_print(root, diag);
}

static enum aw_err doctor_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"CHECK", "STATE", "FOUND", NULL};
    const char *ns = aw_args_text(run->args, "namespace");
    struct aw_kube_config_from from = {.path = aw_args_text(run->args, "kubeconfig"),
                                       .context = aw_args_text(run->args, "context")};
    struct report report = {.run = run, .list = json_array()};
    struct aw_kube_health health = {0};
    struct aw_kube_config config = {0};
    struct aw_kube *kube = NULL;
    struct aw_diag said = {0};
    aw_table_init(&report.table, heads);
    aw_kube_config_environment(&from);
    enum aw_err err = aw_kube_config_load(&config, &from, NULL, diag);
    const struct aw_kube_options options = {.attempts_max = ATTEMPTS_MAX,
                                            .timeout_us = AW_KUBE_DOCTOR_ASK_US};
    err = err ? err : aw_kube_open(&kube, &config, &options, NULL, diag);
    if (err)
        goto out;
    /* as the controllers find out where they are */
    const char *own_ns = getenv("POD_NAMESPACE");
    const char *prometheus = aw_args_text(run->args, "prometheus");
    const struct aw_kube_doctor doctor = {
        .ns = ns,
        .own_ns = own_ns && *own_ns ? own_ns : config.ns,
        .prometheus = prometheus && !strstr(prometheus, "://") ? prometheus : NULL,
        .acts = aw_args_given(run->args, "act"),
        .found = found,
        .ctx = &report};
    err = aw_kube_examine(kube, &doctor, &health, &said);
    const enum aw_err printed = print(&report, &health, diag);
    if (!printed && diag)
        *diag = said;
    err = printed ? printed : err;
    if (!err && health.lacks)
        err = aw_fail(diag, AW_ERR_CHECK, "%u thing%s missing", health.lacks,
                      health.lacks == 1 ? " is" : "s are");
out:
    aw_kube_close(kube);
    aw_kube_config_deinit(&config);
    aw_table_deinit(&report.table);
    json_decref(report.list);
    return err;
}

static const struct aw_option doctor_options[] = {
    AW_OPTION(FILE, "kubeconfig", 0, "FILE", NULL,
              "the cluster and who to be (default: $KUBECONFIG, ~/.kube/config, or the pod's "
              "service account)"),
    AW_OPTION(TEXT, "context", 0, "NAME", NULL, "a context of the kubeconfig"),
    AW_OPTION(TEXT, "namespace", 'n', "NAME", NULL, "the namespace to work in (default: all)"),
    AW_OPTION(TEXT, "prometheus", 0, "WHERE", NULL,
              "as for the controllers: NAMESPACE/SERVICE:PORT needs a right of its own"),
    AW_FLAG("act", 0, "ask for the rights to act too, not only to look"),
    {.name = NULL},
};
static const struct aw_example doctor_examples[] = {
    {"aware doctor", "the cluster of the current context"},
    {"aware doctor --context prod --namespace shop --act", "may we act there?"},
    {"aware doctor --output json", "for a pipeline; the exit status says it too"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_doctor = {
    .name = "doctor",
    .summary = "Find out what a Kubernetes cluster lacks for autoscaling with aware",
    .text = "Asks the API server what it is and what it has, which rights we hold (one by one, "
            "with the rule that would grant a missing one), whether metrics answer, whether pods "
            "can be resized in place or evicted, and which other autoscalers are there, whose "
            "targets will be left alone. It only asks; nothing is changed. Leases are those of the "
            "controllers' own namespace: that of the context, or POD_NAMESPACE.\n\n"
            "A state is ok, note (works, and there is something to know) or lack (something will "
            "not work). The exit status is 1 when something is lacking.",
    .options = doctor_options,
    .examples = doctor_examples,
    .json = true,
    .run = doctor_run,
};
