/* controller_actors.c - the two roles that change something: updater and admission. */
#include "cli/controller.h"

#include "base/alloc.h"
#include "controller/admission.h"
#include "controller/updater.h"
#include "telemetry/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "webhook" /* of certificates, in --state */

/* --- what they did, for /metrics -------------------------------------------------------------- */

typedef struct aw_metric_label label;

/* Roles have a thread each, and whoever scrapes comes on another: what is shown is copied here. One
 * process is one controller. */
static struct {
    pthread_mutex_t lock;
    bool updates, admits;
    struct aw_updater_counts updater;
    struct aw_admission_counts admission;
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void put(struct aw_metrics *m, const char *name, enum aw_metric_type type, const char *unit,
                const char *help, double value)
{
    aw_metrics_family(m, name, type, unit, help);
    aw_metrics_sample(m, NULL, 0, value);
}

struct row {
    const char *name;
    uint64_t count;
};

/* A family with one label, of the values in `rows`, whose last name is NULL. */
static void put_by(struct aw_metrics *m, const char *name, enum aw_metric_type type,
                   const char *help, const char *by, const struct row *rows)
{
    aw_metrics_family(m, name, type, NULL, help);
    for (; rows->name; rows++)
        aw_metrics_sample(m, (label[]){{by, rows->name}}, 1, (double)rows->count);
}

static void put_updater(struct aw_metrics *m, const struct aw_updater_counts *c)
{
    put_by(m, "aware_updater_changes", AW_METRIC_COUNTER, "Changes of the cluster, by what.",
           "what",
           (struct row[]){
               {"scale", c->scaled}, {"resize", c->resized}, {"evict", c->evicted}, {NULL, 0}});
    put_by(m, "aware_updater_refusals", AW_METRIC_COUNTER,
           "Changes that were not done: a disruption budget, someone who wrote first, a size that "
           "the server does not take, another error.",
           "reason",
           (struct row[]){{"budget", c->blocked},
                          {"conflict", c->conflicts},
                          {"size", c->refused},
                          {"error", c->failed},
                          {NULL, 0}});
    put_by(m, "aware_updater_objects", AW_METRIC_GAUGE,
           "Objects of the last round, those that ask to be acted for, and of these those that are "
           "not as recommended.",
           "state",
           (struct row[]){
               {"seen", c->objects}, {"acting", c->acting}, {"waiting", c->waiting}, {NULL, 0}});
    put(m, "aware_updater_conditions", AW_METRIC_COUNTER, NULL, "Conditions written.",
        (double)c->told);
    put(m, "aware_updater_rounds", AW_METRIC_COUNTER, NULL, "Looks at all objects.",
        (double)c->rounds);
    put(m, "aware_updater_round_seconds", AW_METRIC_GAUGE, "seconds", "How long the last took.",
        1e-6 * (double)c->round_us);
}

static void put_admission(struct aw_metrics *m, const struct aw_admission_counts *c)
{
    put_by(m, "aware_admission_answers", AW_METRIC_COUNTER,
           "Pods that were answered for: sized, left as they are, or not understood and left.",
           "result",
           (struct row[]){{"sized", c->patched},
                          {"left", c->reviews - c->patched - c->unread},
                          {"unread", c->unread},
                          {NULL, 0}});
    put(m, "aware_admission_refused", AW_METRIC_COUNTER, NULL,
        "Requests that were no review: path, method, too large, too many.", (double)c->refused);
    put(m, "aware_admission_certificates", AW_METRIC_COUNTER, NULL,
        "Certificates made since the start.", (double)c->renewed);
    put(m, "aware_admission_answer_seconds", AW_METRIC_COUNTER, "seconds",
        "Time that answers took, from the last byte of a request on.", 1e-6 * (double)c->total_us);
    put(m, "aware_admission_slowest_seconds", AW_METRIC_GAUGE, "seconds",
        "The longest that one took.", 1e-6 * (double)c->slowest_us);
}

void aw__actors_metrics(struct aw_metrics *m)
{
    pthread_mutex_lock(&shown.lock);
    if (shown.updates)
        put_updater(m, &shown.updater);
    if (shown.admits)
        put_admission(m, &shown.admission);
    pthread_mutex_unlock(&shown.lock);
}

/* --- updater ---------------------------------------------------------------------------------- */

struct updater {
    struct aw__controller *controller;
    struct aw_updater *it;
    struct aw_updater_counts told; /* what the log has */
};

static enum aw_err updater_open(struct aw__controller *controller, struct aw_kube *kube,
                                void **ret_self, struct aw_diag *diag)
{
    const double speed = controller->speed;
    const struct aw_updater_config config = {.ns = controller->ns,
                                             .round_us = llround(AW_UPDATER_ROUND_US / speed),
                                             .pause_us = llround(AW_UPDATER_PAUSE_US / speed),
                                             .disruptions_per_min =
                                                 AW_UPDATER_DISRUPTIONS_PER_MIN * speed,
                                             .instance = controller->instance,
                                             .lease_ns = controller->own_ns,
                                             .lease_name = AW_ADMISSION_LEASE,
                                             .leads = aw__controller_leads,
                                             .ctx = controller};
    struct updater *updater = aw_alloc_new(NULL, 1, sizeof *updater);
    if (!updater)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an updater");
    updater->controller = controller;
    enum aw_err err = aw_updater_new(&updater->it, kube, &controller->server, &config, NULL, diag);
    if (err)
        aw_alloc_free(NULL, updater);
    else
        *ret_self = updater;
    return err;
}

/* One line for a round that changed or failed to change something; events have the details. */
static void updater_tell(struct updater *updater)
{
    const struct aw_updater_counts *now = aw_updater_counts(updater->it), *was = &updater->told;
    const uint64_t done = now->scaled - was->scaled + now->resized - was->resized + now->evicted -
                          was->evicted + now->told - was->told;
    const uint64_t not_done = now->blocked - was->blocked + now->conflicts - was->conflicts +
                              now->refused - was->refused + now->failed - was->failed;
    if (done || not_done)
        aw_log_info(&updater->controller->log, "updated", AW_LOG_STR("role", "updater"),
                    AW_LOG_INT("scaled", (int64_t)(now->scaled - was->scaled)),
                    AW_LOG_INT("resized", (int64_t)(now->resized - was->resized)),
                    AW_LOG_INT("evicted", (int64_t)(now->evicted - was->evicted)),
                    AW_LOG_INT("conditions", (int64_t)(now->told - was->told)),
                    AW_LOG_INT("not_done", (int64_t)not_done),
                    AW_LOG_INT("waiting", (int64_t)now->waiting));
    updater->told = *now;
    pthread_mutex_lock(&shown.lock);
    shown.updates = true;
    shown.updater = *now;
    pthread_mutex_unlock(&shown.lock);
}

static enum aw_err updater_step(void *self, struct aw_diag *diag)
{
    struct updater *updater = self;
    const enum aw_err err = aw_updater_step(updater->it, diag);
    updater_tell(updater);
    return err;
}

static int64_t updater_due(const void *self)
{
    const struct updater *updater = self;
    return aw_updater_due(updater->it);
}

static void updater_close(void *self)
{
    struct updater *updater = self;
    if (updater)
        aw_updater_free(updater->it);
    aw_alloc_free(NULL, updater);
}

const struct aw__role aw__role_updater = {
    .name = "updater",
    .leads = true,
    .open = updater_open,
    .step = updater_step,
    .due = updater_due,
    .close = updater_close,
};

/* --- admission -------------------------------------------------------------------------------- */

/* Every process serves, whoever leads: answers are the same, and the API server needs one. */
struct admission {
    struct aw__controller *controller;
    struct aw_admission *it;
    bool told; /* that it serves */
    char folder[AW_TEXT_MAX + sizeof FOLDER + 1];
};

static void admission_tell(struct admission *admission)
{
    const uint16_t port = aw_admission_port(admission->it);
    if (admission->told || !port)
        return;
    aw_log_info(&admission->controller->log, "serving", AW_LOG_STR("role", "admission"),
                AW_LOG_INT("port", port));
    admission->told = true;
}

static enum aw_err admission_open(struct aw__controller *controller, struct aw_kube *kube,
                                  void **ret_self, struct aw_diag *diag)
{
    const struct aw_args *args = controller->run->args;
    const char *name = aw_args_text(args, "webhook-name");
    const bool always = !strcmp(aw_args_text(args, "webhook"), "always");
    struct admission *admission;
    if (!controller->state[0])
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--state",
                          "the admission role needs a folder for its certificates");
    admission = aw_alloc_new(NULL, 1, sizeof *admission);
    if (!admission)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a webhook");
    admission->controller = controller;
    snprintf(admission->folder, sizeof admission->folder, "%s/" FOLDER, controller->state);
    const struct aw_admission_config config = {.service = name,
                                               .ns = controller->own_ns,
                                               .webhook = name,
                                               .lease_ns = controller->own_ns,
                                               .lease_name = AW_ADMISSION_LEASE,
                                               .state_dir = admission->folder,
                                               .watch_ns = controller->ns,
                                               .instance = controller->instance,
                                               .when_needed = !always,
                                               .port =
                                                   (uint16_t)aw_args_number(args, "webhook-port")};
    enum aw_err err =
        aw_admission_new(&admission->it, kube, &controller->server, &config, NULL, diag);
    if (err) {
        aw_alloc_free(NULL, admission);
        return err;
    }
    admission_tell(admission);
    if (!admission->told)
        aw_log_info(&controller->log, "no object has sizes for new pods: not serving so far",
                    AW_LOG_STR("role", "admission"));
    *ret_self = admission;
    return AW_OK;
}

static enum aw_err admission_step(void *self, struct aw_diag *diag)
{
    struct admission *admission = self;
    const enum aw_err err = aw_admission_step(admission->it, diag);
    admission_tell(admission);
    const struct aw_admission_counts now = aw_admission_counts(admission->it);
    pthread_mutex_lock(&shown.lock);
    shown.admits = true;
    shown.admission = now;
    pthread_mutex_unlock(&shown.lock);
    return err;
}

static int64_t admission_due(const void *self)
{
    const struct admission *admission = self;
    return aw_admission_due(admission->it);
}

static void admission_close(void *self)
{
    struct admission *admission = self;
    if (admission)
        aw_admission_free(admission->it);
    aw_alloc_free(NULL, admission);
}

const struct aw__role aw__role_admission = {
    .name = "admission",
    .leads = false,
    .open = admission_open,
    .step = admission_step,
    .due = admission_due,
    .close = admission_close,
};
