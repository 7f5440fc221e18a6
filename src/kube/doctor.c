/* doctor.c - see doctor.h. */
#include "kube/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kube/verbs.h"
#include "kube/watch.h"

/* What a controller does, and why; a role that lacks one of these cannot do its part. */
static const struct {
    const char *verb, *group, *resource, *sub;
    bool acts;
    const char *why;
} rights[] = {
    {"list", "", "pods", NULL, false, "to see what runs"},
    {"watch", "", "pods", NULL, false, "to follow what runs"},
    {"list", "apps", "deployments", NULL, false, "to see what is scaled"},
    {"watch", "apps", "deployments", NULL, false, "to notice rollouts"},
    {"list", "apps", "statefulsets", NULL, false, "to see what is scaled"},
    {"list", "apps", "replicasets", NULL, false, "to find whose pod it is"},
    {"list", "autoscaling", "horizontalpodautoscalers", NULL, false, "to keep out of their way"},
    {"get", "apps", "deployments", "scale", false, "to read the replicas"},
    {"patch", "autoscaling.k8s.io", "verticalpodautoscalers", "status", false,
     "to recommend for VPA objects that name us"},
    {"patch", "apps", "deployments", "scale", true, "to set the replicas"},
    {"patch", "", "pods", "resize", true, "to resize in place"},
    {"create", "", "pods", "eviction", true, "to resize by replacing a pod"},
    {"create", "coordination.k8s.io", "leases", NULL, true, "to be one leader of several"},
    {"update", "coordination.k8s.io", "leases", NULL, true, "to stay it"},
    {"create", "events.k8s.io", "events", NULL, true, "to tell what was done"},
};

struct exam {
    struct aw_kube *kube;
    const struct aw_kube_doctor *doctor;
    struct aw_kube_server server;
    struct aw_kube_health health;
};

const char *aw_kube_verdict_name(enum aw_kube_verdict verdict)
{
    static const char *const names[] = {"ok", "note", "lack"};
    return names[verdict];
}

AW_PRINTF(5, 6)
static void say(struct exam *exam, const char *check, enum aw_kube_verdict verdict, const char *fix,
                const char *fmt, ...)
{
    struct aw_kube_finding finding = {.check = check, .verdict = verdict};
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding.text, sizeof finding.text, fmt, args);
    va_end(args);
    snprintf(finding.fix, sizeof finding.fix, "%s", fix);
    exam->health.fine += verdict == AW_KUBE_FINE;
    exam->health.notes += verdict == AW_KUBE_NOTE;
    exam->health.lacks += verdict == AW_KUBE_LACK;
    exam->doctor->found(exam->doctor->ctx, &finding);
}

static enum aw_err examine_server(struct exam *exam, struct aw_diag *diag)
{
    const struct aw_kube_config *config = aw_kube_where(exam->kube);
    struct aw_diag said = {0};
    const enum aw_err err = aw_kube_discover(exam->kube, &exam->server, &said);
    if (err) {
        const char *fix = err == AW_ERR_CONFIG ? "check certificates and token of the kubeconfig"
                                               : "check that the server runs and can be reached";
        say(exam, "server", AW_KUBE_LACK, fix, "%s does not answer: %s", config->server, said.text);
        if (diag)
            *diag = said;
        return err;
    }
    const bool old = exam->server.major == 1 && exam->server.minor < AW_KUBE_MINOR_OLDEST;
    say(exam, "server", old ? AW_KUBE_NOTE : AW_KUBE_FINE,
        old ? "older than what is tested; prefer a newer one" : "", "Kubernetes %s at %s, from %s",
        exam->server.release, config->server, config->source ? config->source : "the caller");
    if (config->insecure)
        say(exam, "server", AW_KUBE_NOTE, "give the kubeconfig a certificate-authority",
            "the server's certificate is not checked (insecure-skip-tls-verify)");
    return AW_OK;
}

/* Whether this server, and what was asked, needs a right at all. */
static bool matters(const struct exam *exam, uint32_t which)
{
    const char *sub = rights[which].sub ? rights[which].sub : "";
    return (!rights[which].acts || exam->doctor->acts) &&
           (strcmp(sub, "resize") != 0 || exam->server.pod_resize) &&
           (strcmp(rights[which].group, "autoscaling.k8s.io") != 0 || exam->server.vpa[0]);
}

/* A Prometheus behind the server is a right for that one service, in its namespace. */
static enum aw_err examine_proxy(struct exam *exam, struct aw_diag *diag)
{
    const char *where = exam->doctor->prometheus, *slash = where ? strchr(where, '/') : NULL;
    char ns[AW_KUBE_NAME_MAX], fix[AW_KUBE_FINDING_MAX];
    bool allowed = false;
    if (!slash)
        return AW_OK;
    snprintf(ns, sizeof ns, "%.*s", (int)(slash - where), where);
    const struct aw_kube_access access = {.verb = "get",
                                          .group = "",
                                          .resource = "services",
                                          .subresource = "proxy",
                                          .ns = ns,
                                          .name = slash + 1};
    const enum aw_err err = aw_kube_may(exam->kube, &access, &allowed, diag);
    if (err)
        return err;
    snprintf(
        fix, sizeof fix,
        "add to a role in %.60s: apiGroups [\"\"] resources [\"services/proxy\"] resourceNames "
        "[\"%.60s\"] verbs [\"get\"]",
        ns, slash + 1);
    say(exam, "prometheus", allowed ? AW_KUBE_FINE : AW_KUBE_LACK, allowed ? "" : fix,
        "%s %.100s through the API server", allowed ? "may ask" : "may not ask", where);
    return AW_OK;
}

static enum aw_err examine_rights(struct exam *exam, struct aw_diag *diag)
{
    const char *own_ns = exam->doctor->own_ns ? exam->doctor->own_ns : exam->doctor->ns;
    uint32_t granted = 0;
    bool allowed = false;
    for (uint32_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        const bool lease = !strcmp(rights[i].resource, "leases");
        const struct aw_kube_access access = {.verb = rights[i].verb,
                                              .group = rights[i].group,
                                              .resource = rights[i].resource,
                                              .subresource = rights[i].sub,
                                              .ns = lease ? own_ns : exam->doctor->ns};
        char fix[AW_KUBE_FINDING_MAX];
        if (!matters(exam, i))
            continue;
        enum aw_err err = aw_kube_may(exam->kube, &access, &allowed, diag);
        if (err)
            return err;
        granted += allowed;
        if (allowed)
            continue;
        snprintf(fix, sizeof fix,
                 "add to the role: apiGroups [\"%s\"] resources [\"%s%s%s\"] verbs [\"%s\"]",
                 rights[i].group, rights[i].resource, rights[i].sub ? "/" : "",
                 rights[i].sub ? rights[i].sub : "", rights[i].verb);
        say(exam, "rights", AW_KUBE_LACK, fix, "may not %s %s%s%s%s%s, which is needed %s",
            rights[i].verb, rights[i].resource, rights[i].sub ? "/" : "",
            rights[i].sub ? rights[i].sub : "", lease && own_ns ? " in " : "",
            lease && own_ns ? own_ns : "", rights[i].why);
    }
    say(exam, "rights", AW_KUBE_FINE, "", "%u rights are there%s", granted,
        exam->doctor->acts ? "" : " (those to look; those to act were not asked for)");
    const struct aw_kube_access secrets = {
        .verb = "get", .group = "", .resource = "secrets", .ns = exam->doctor->ns};
    enum aw_err err = examine_proxy(exam, diag);
    err = err ? err : aw_kube_may(exam->kube, &secrets, &allowed, diag);
    if (!err && allowed)
        say(exam, "rights", AW_KUBE_NOTE, "use a service account with fewer rights",
            "may read secrets, which nothing here needs");
    return err;
}

/* A group that is listed may still not answer. */
static void examine_metrics(struct exam *exam)
{
    static const char fix[] = "install metrics-server, or use Prometheus as the source";
    char path[AW_KUBE_PATH_MAX];
    struct aw_diag said = {0};
    if (!exam->server.metrics[0]) {
        say(exam, "metrics", AW_KUBE_LACK, fix, "metrics.k8s.io is not there");
        return;
    }
    snprintf(path, sizeof path, "/apis/metrics.k8s.io/%s/nodes?limit=1", exam->server.metrics);
    const struct aw_kube_request request = {
        .path = path, .once = true, .timeout_us = AW_KUBE_DOCTOR_ASK_US};
    const enum aw_err err = aw_kube_send(exam->kube, &request, NULL, NULL, &said);
    if (err)
        say(exam, "metrics", AW_KUBE_LACK, fix, "metrics.k8s.io is listed and does not answer: %s",
            said.text);
    else
        say(exam, "metrics", AW_KUBE_FINE, "", "metrics.k8s.io/%s answers", exam->server.metrics);
}

static void examine_means(struct exam *exam)
{
    if (exam->server.pod_resize)
        say(exam, "resize", AW_KUBE_FINE, "", "pods can be resized in place");
    else
        say(exam, "resize", AW_KUBE_NOTE, "Kubernetes 1.33 or later resizes in place",
            "pods cannot be resized in place: a new size needs a new pod");
    if (exam->server.eviction[0])
        say(exam, "eviction", AW_KUBE_FINE, "", "evictions by policy/%s", exam->server.eviction);
    else
        say(exam, "eviction", AW_KUBE_LACK, "ask for policy/v1", "pods cannot be evicted");
    if (!exam->server.leases[0])
        say(exam, "leader", AW_KUBE_LACK, "run a single replica",
            "coordination.k8s.io/v1 is not there: several controllers cannot agree");
}

static void count_begin(void *ctx)
{
    *(uint32_t *)ctx = 0;
}

static enum aw_err count_object(void *ctx, const json_t *object)
{
    (void)object;
    ++*(uint32_t *)ctx;
    return AW_OK;
}

/* Who else scales here: nothing that they own will be touched. */
static void examine_others(struct exam *exam)
{
    const struct aw_kube_kind others[] = {
        {"autoscaling", exam->server.autoscaling, "horizontalpodautoscalers",
         "HorizontalPodAutoscaler", true},
        {"autoscaling.k8s.io", exam->server.vpa, "verticalpodautoscalers", "VerticalPodAutoscaler",
         true},
        {"keda.sh", exam->server.keda, "scaledobjects", "ScaledObject", true},
    };
    uint32_t all = 0;
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint32_t count = 0;
        struct aw_diag said = {0};
        const struct aw_kube_query query = {.kind = &others[i], .ns = exam->doctor->ns};
        const struct aw_kube_visitor visitor = {count_begin, count_object, &count};
        if (!others[i].version[0])
            continue;
        if (aw_kube_list(exam->kube, &query, &visitor, &said) != AW_OK)
            say(exam, "others", AW_KUBE_NOTE, "let the role list them", "cannot list %s: %s",
                others[i].plural, said.text);
        else if (count > 0)
            say(exam, "others", AW_KUBE_NOTE, "delete an object to hand its target over",
                "%u %s of %s: their targets will be left to them", count, others[i].kind,
                exam->doctor->ns ? exam->doctor->ns : "all namespaces");
        all += count;
    }
    if (all == 0)
        say(exam, "others", AW_KUBE_FINE, "", "no other autoscaler was found");
}

enum aw_err aw_kube_examine(struct aw_kube *kube, const struct aw_kube_doctor *doctor,
                            struct aw_kube_health *ret_health, struct aw_diag *diag)
{
    struct exam exam = {.kube = kube, .doctor = doctor};
    enum aw_err err = examine_server(&exam, diag);
    err = err ? err : examine_rights(&exam, diag);
    if (!err) {
        examine_metrics(&exam);
        examine_means(&exam);
        examine_others(&exam);
    }
    *ret_health = exam.health;
    return err;
}
