/* agent_serve.c - the verb `agent serve`: to be the external agent of a workload. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "frame/verbs.h"
#include "rpc/agent_client.h"
#include "train/train.h"

#define CONSTANT     "constant:"
#define NUMBER_BYTES 64u

/* What answers: the policy of a run, one action for ever, or the fallback's own. */
struct policy {
    struct aw_train *train; /* NULL: one of the others */
    bool constant;
    char said[160]; /* of every answer, to the daemon's people */
    float action[AW_ACTION_DIM];
};

struct counts {
    uint64_t states, answers, followed;
};

static enum aw_err constant_read(const char *text, struct policy *policy, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < AW_ACTION_DIM; i++) {
        char number[NUMBER_BYTES];
        const size_t len = strcspn(text, ",");
        snprintf(number, sizeof number, "%.*s", (int)len, text);
        const bool last = i + 1 == AW_ACTION_DIM;
        if (len >= sizeof number || text[len] != (last ? '\0' : ',') ||
            aw_text_parse_real_f32(number, &policy->action[i]) || fabsf(policy->action[i]) > 1)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--policy",
                              "expected " CONSTANT "CPU,MEMORY,REPLICAS, each from -1 to 1");
        text += len + !last;
    }
    policy->constant = true;
    return AW_OK;
}

static enum aw_err policy_read(const char *text, struct policy *policy, struct aw_diag *diag)
{
    snprintf(policy->said, sizeof policy->said, "policy %.150s", text);
    if (strcmp(text, "fallback") == 0)
        return AW_OK;
    if (strncmp(text, CONSTANT, sizeof CONSTANT - 1) == 0)
        return constant_read(text + sizeof CONSTANT - 1, policy, diag);
    return aw_train_open(text, NULL, &policy->train, diag);
}

static enum aw_err decide(const struct policy *policy, const struct aw_agent_client_event *event,
                          float *ret_action, struct aw_diag *diag)
{
    if (policy->train)
        return aw_train_act(policy->train, event->obs, event->obs_dim, ret_action, event->act_dim,
                            diag);
    memcpy(ret_action, event->fallback, event->act_dim * sizeof *ret_action);
    if (policy->constant)
        memcpy(ret_action, policy->action, sizeof policy->action);
    return AW_OK;
}

/* Until the daemon ends it, which is no failure. */
static enum aw_err answer_all(const struct aw_call *run, struct aw_agent_client *client,
                              const struct policy *policy, struct counts *counts,
                              struct aw_diag *diag)
{
    const uint64_t steps = aw_args_number(run->args, "steps");
    while (steps == 0 || counts->states < steps) {
        struct aw_agent_client_event event;
        float action[AW_ACTION_MAX];
        enum aw_err err = aw_agent_client_next(client, &event, diag);
        if (err)
            return err;
        counts->followed += event.kind == AW_AGENT_CLIENT_OUTCOME && event.followed;
        if (event.kind == AW_AGENT_CLIENT_STANDING)
            aw_log_info(run->log, event.followed ? "the agent acts" : "the agent does not act",
                        AW_LOG_STR("why", event.text));
        if (event.kind != AW_AGENT_CLIENT_STATE)
            continue;
        counts->states++;
        err = decide(policy, &event, action, diag);
        err = err ? err
                  : aw_agent_client_answer(client, event.id, action, event.act_dim, policy->said,
                                           diag);
        if (err)
            return err;
        counts->answers++;
    }
    return AW_OK;
}

static enum aw_err serve_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *token_path = aw_args_text(args, "token-file"), *ca = aw_args_text(args, "tls-ca");
    const char *version = aw_args_text(args, "agent-version");
    char token[AW_TOKEN_MAX] = "";
    struct policy policy = {0};
    struct aw_agent_client *client = NULL;
    struct aw_agent_client_seat seat;
    struct counts counts = {0};
    enum aw_err err = policy_read(aw_args_text(args, "policy"), &policy, diag);
    if (!err && token_path)
        err = aw_file_read_token(token_path, token, diag);
    const struct aw_agent_client_config config = {
        .wire = {.address = aw_args_text(args, "address"),
                 .tls = ca != NULL || aw_args_given(args, "tls"),
                 .ca_path = ca,
                 .token = *token ? token : NULL},
        .workload = args->positional[0],
        .agent = aw_args_text(args, "name"),
        .version = version ? version : "",
        .act_dim = policy.train || policy.constant ? AW_ACTION_DIM : 0,
        .shadow = aw_args_given(args, "shadow"),
        .take_over = aw_args_given(args, "take-over")};
    err = err ? err : aw_agent_client_open(&client, &config, &seat, diag);
    if (!err) {
        aw_log_info(run->log, "registered", AW_LOG_STR("workload", seat.workload),
                    AW_LOG_INT("observations", seat.obs_dim),
                    AW_LOG_INT("deadline_ms", (int64_t)(seat.deadline_s * 1e3)));
        err = answer_all(run, client, &policy, &counts, diag);
        printf("%s: %" PRIu64 " states, %" PRIu64 " answers, %" PRIu64 " followed\n", seat.workload,
               counts.states, counts.answers, counts.followed);
    }
    if (err == AW_ERR_UNAVAILABLE && counts.states > 0) { /* the daemon has ended, as they do */
        aw_log_info(run->log, "the daemon has ended");
        err = AW_OK;
    }
    aw_agent_client_close(client);
    aw_train_free(policy.train);
    explicit_bzero(token, sizeof token);
    return err;
}

static const struct aw_option serve_options[] = {
    AW_OPTION(TEXT, "address", 'a', "ADDRESS", "unix:aware-state/agents",
              "where a run lets agents in: unix:/PATH or HOST:PORT"),
    AW_OPTION(TEXT, "policy", 'p', "POLICY", "fallback",
              "what answers: a run directory of 'aware train'; constant:CPU,MEMORY,REPLICAS, each "
              "from -1 to 1; or fallback, which says what the fallback would do"),
    AW_OPTION(TEXT, "name", 0, "NAME", "aware", "of the agent"),
    AW_OPTION(TEXT, "agent-version", 0, "TEXT", NULL, "of the agent, for the audit log"),
    AW_FLAG("shadow", 0, "be asked and recorded, and never followed"),
    AW_FLAG("take-over", 0, "take the place of an agent that is there"),
    AW_NUMBER("steps", 0, "N", "0", 0, INT64_MAX, "leave after so many answers; 0: never"),
    AW_OPTION(FILE, "token-file", 0, "FILE", NULL,
              "the first line of this file is sent as the token"),
    AW_FLAG("tls", 0, "speak TLS, trusting what the system trusts"),
    AW_OPTION(FILE, "tls-ca", 0, "FILE", NULL, "speak TLS, trusting the certificates in this file"),
    {.name = NULL},
};
static const struct aw_positional serve_positionals[] = {
    {.name = "WORKLOAD",
     .kind = AW_ARG_TEXT,
     .help = "whose agent is external, as 'aware get' says"},
    {.name = NULL},
};
static const struct aw_example serve_examples[] = {
    {"aware agent serve shop/checkout --address unix:/var/lib/aware/agents --policy runs/td3",
     "a policy of 'aware train --env autoscale-v0' decides for a workload"},
    {"aware agent serve cart --policy constant:0.2,0.3,0.1 --shadow", "watched, never followed"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_agent_serve = {
    .name = "agent serve",
    .summary = "Be the external agent of a workload of a running loop",
    .text = "Registers over gRPC for a workload whose files say learning.agent.name: external, and "
            "answers each of its states. The answers are judged before they are followed, and go "
            "through the watchdog and the guard rails like any other; docs/mechanisms/"
            "external-agents.md tells how. It ends when the run does.",
    .options = serve_options,
    .positionals = serve_positionals,
    .examples = serve_examples,
    .run = serve_run,
};
