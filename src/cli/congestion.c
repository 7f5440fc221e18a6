/* congestion.c - the verb `congestion wire`: real packets over a link of this machine's own. */
#include <stdio.h>

#include "cli/task.h"
#include "congestion/learn.h"
#include "congestion/task.h"
#include "congestion/wire_study.h"
#include "frame/json.h"
#include "frame/stop.h"
#include "frame/verbs.h"

static enum aw_err wire_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *model = aw_args_text(args, "model");
    const struct aw_wire_study study = {
        .data = aw_args_text(args, "data"),
        .runs = aw_args_text(args, "runs"),
        .mbps = (double)aw_args_number(args, "kbps") * 1e-3,
        .delay_ms = (double)aw_args_number(args, "delay-ms"),
        .loss = (double)aw_args_number(args, "loss-percent") * 1e-2,
        .queue = (double)aw_args_number(args, "queue-percent") * 1e-2,
        .methods = aw_args_text(args, "methods"),
        .beside = aw_args_text(args, "beside"),
        .seconds = (double)aw_args_number(args, "seconds"),
        .seed = aw_args_number(args, "seed"),
    };
    const struct aw_task_ask ask = {.seed = study.seed, .seeds = 1};
    struct aw_adaptive_policy policy;
    struct aw__task_found found;
    enum aw_err err =
        model ? aw_adaptive_read(model, &policy, diag) : aw_adaptive_shipped(&policy, diag);
    if (err || (err = aw__task_found_init(&found, aw_args_given(args, "quiet"), diag)))
        return err;
    aw_stop_catch(&(struct aw_stop_config){.twice = true});
    err = aw_wire_study_run(&study, &policy, &found.sink, diag);
    aw_status_line_clear(&found.line);
    if (!err && run->json)
        err = aw_json_print(aw__task_found_json(&found, &aw_congestion_task, AW_TASK_COMPARE, &ask),
                            diag);
    else if (!err)
        err = aw__task_found_print(&found, run->color_out, diag);
    aw__task_found_deinit(&found);
    return err;
}

static const struct aw_option wire_options[] = {
    AW_OPTION(FILE, "data", 'd', "FILE", NULL,
              "recorded paths: run_id,time_s,bandwidth_mbps, with runs.csv beside it"),
    AW_OPTION(TEXT, "runs", 0, "IDS", NULL,
              "runs of the file, as 3,17; without it the middle one of each kind and site"),
    AW_NUMBER("kbps", 0, "N", "0", 0, 1000000,
              "one fixed link of as many kbit/s; 0: three that are usual"),
    AW_NUMBER("delay-ms", 0, "N", "20", 1, 5000, "delay of that link, one way"),
    AW_NUMBER("loss-percent", 0, "N", "0", 0, 50, "packets that are lost at random"),
    AW_NUMBER("queue-percent", 0, "N", "100", 1, 10000,
              "the queue, of bandwidth times round trip; 10 packets at least"),
    AW_OPTION(TEXT, "methods", 0, "NAMES", AW_WIRE_METHODS,
              "who sends; tcp-NAME is the kernel's TCP"),
    AW_OPTION(TEXT, "beside", 0, "NAME", NULL,
              "who has the link first: then fairness is measured, as Jain's index over time"),
    AW_OPTION(FILE, "model", 'm', "FILE", NULL, "the policy of `adaptive`"),
    AW_NUMBER("seconds", 'n', "N", "15", 2, 300, "of each run"),
    AW_OPTION_SEED("1", "of the losses"),
    AW_FLAG("quiet", 'q', "no progress on standard error"),
    {.name = NULL},
};

static const struct aw_example wire_examples[] = {
    {"aware congestion wire", "three links, five senders; four minutes"},
    {"aware congestion wire --kbps 12000 --beside tcp-cubic --methods adaptive,tcp-bbr",
     "who gets how much beside the kernel's cubic"},
    {.command = NULL}};

const struct aw_verb aw_verb_congestion_wire = {
    .name = "congestion wire",
    .summary = "Send real packets with learned and usual congestion control, side by side",
    .text =
        "Makes two network namespaces and a link between them: a program that forwards packets "
        "with a bandwidth (fixed, or recorded over time), a queue, a delay and loss. Over it go "
        "paced UDP with the controllers of this program, and the kernel's own TCP. No packet "
        "leaves this machine, nothing of it is configured, and everything is gone when the "
        "command ends, also when it is killed. Needs root or user namespaces, and /dev/net/tun.",
    .options = wire_options,
    .examples = wire_examples,
    .json = true,
    .run = wire_run,
};
