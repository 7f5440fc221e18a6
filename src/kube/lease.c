/* lease.c - see lease.h. */
#include "kube/lease.h"

#include <stdio.h>
#include <string.h>

#include "kube/client_internal.h"
#include "kube/verbs.h"

#define STEPS_MAX 4u /* read, write, conflict, read: then others may have their turn */

enum aw_err aw_kube_leader_init(struct aw_kube_leader *leader, struct aw_kube *kube, const char *ns,
                                const char *name, const struct aw_kube_election_config *config,
                                struct aw_diag *diag)
{
    *leader = (struct aw_kube_leader){.kube = kube, .ns = ns, .name = name};
    if (!aw_kube_name_valid(ns) || !aw_kube_name_valid(name))
        return aw_fail(diag, AW_ERR_CONFIG, "a Lease needs a namespace and a name");
    return aw_kube_election_init(&leader->election, config, diag);
}

static int64_t time_at(const json_t *object, const char *path)
{
    int64_t us = 0;
    return aw_kube_time_parse(aw_kube_text_at(object, path), &us) == AW_OK ? us : 0;
}

enum aw_err aw_kube_lease_read(const json_t *object, struct aw_kube_lease *ret_lease,
                               struct aw_diag *diag)
{
    const char *version = aw_kube_text_at(object, "metadata.resourceVersion");
    const char *holder = aw_kube_text_at(object, "spec.holderIdentity");
    if (strcmp(aw_kube_text_at(object, "kind"), "Lease") != 0 || !version[0] ||
        strlen(version) >= AW_KUBE_VERSION_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "expected a Lease, found something else");
    struct aw_kube_lease lease = {
        .duration_s = aw_kube_int_at(object, "spec.leaseDurationSeconds", 0),
        .transitions = aw_kube_int_at(object, "spec.leaseTransitions", 0),
        .acquired_us = time_at(object, "spec.acquireTime"),
        .renewed_us = time_at(object, "spec.renewTime"),
    };
    snprintf(lease.resource_version, sizeof lease.resource_version, "%s", version);
    /* one that is too long is cut: it is not ours, and that is all we need to know */
    snprintf(lease.holder, sizeof lease.holder, "%s", holder);
    *ret_lease = lease;
    return AW_OK;
}

json_t *aw_kube_lease_write(const struct aw_kube_lease *lease, const char *ns, const char *name)
{
    char acquired[AW_KUBE_TIME_MAX], renewed[AW_KUBE_TIME_MAX];
    /* nobody is said by silence: newer servers refuse an empty holder */
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s*}, s:{s:s*, s:I, s:I, s:s, s:s}}", "apiVersion",
        "coordination.k8s.io/v1", "kind", "Lease", "metadata", "namespace", ns, "name", name,
        "resourceVersion", lease->resource_version[0] ? lease->resource_version : NULL, "spec",
        "holderIdentity", lease->holder[0] ? lease->holder : NULL, "leaseDurationSeconds",
        (json_int_t)lease->duration_s, "leaseTransitions", (json_int_t)lease->transitions,
        "acquireTime", aw_kube_time_print(lease->acquired_us, acquired, sizeof acquired),
        "renewTime", aw_kube_time_print(lease->renewed_us, renewed, sizeof renewed));
}

/* Creates or replaces the object; `ret_lease` is what the server has then. */
static enum aw_err put(struct aw_kube_leader *leader, const struct aw_kube_lease *lease,
                       bool last_words, struct aw_kube_lease *ret_lease, struct aw_diag *diag)
{
    const bool create = !lease->resource_version[0];
    const struct aw_kube_ref ref = {
        .kind = &aw_kube_leases, .ns = leader->ns, .name = create ? NULL : leader->name};
    json_t *object = aw_kube_lease_write(lease, leader->ns, leader->name), *answer = NULL;
    if (!object)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a Lease");
    const struct aw_kube_request request = {.method = create ? "POST" : "PUT",
                                            .body = object,
                                            .timeout_us = leader->election.config.renew_us / 2,
                                            .once = true,
                                            .last_words = last_words};
    enum aw_err err = aw__kube_send_ref(leader->kube, &ref, &request, NULL, &answer, NULL, diag);
    err = err ? err : aw_kube_lease_read(answer, ret_lease, diag);
    json_decref(answer);
    json_decref(object);
    return err;
}

/* AW_OK with `ret_there` false: there is no such Lease yet. */
static enum aw_err fetch(struct aw_kube_leader *leader, struct aw_kube_lease *ret_lease,
                         bool *ret_there, struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {
        .kind = &aw_kube_leases, .ns = leader->ns, .name = leader->name};
    const struct aw_kube_request request = {.timeout_us = leader->election.config.renew_us / 2,
                                            .once = true};
    json_t *answer = NULL;
    enum aw_err err = aw__kube_send_ref(leader->kube, &ref, &request, NULL, &answer, NULL, diag);
    *ret_there = err != AW_ERR_NOTFOUND;
    if (err == AW_ERR_NOTFOUND)
        return AW_OK;
    err = err ? err : aw_kube_lease_read(answer, ret_lease, diag);
    json_decref(answer);
    return err;
}

enum aw_err aw_kube_leader_step(struct aw_kube_leader *leader, int64_t *ret_due_us,
                                struct aw_diag *diag)
{
    struct aw_kube *kube = leader->kube;
    const struct aw_clock *clock = kube->options.clock;
    struct aw_kube_election *election = &leader->election;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < STEPS_MAX; i++) {
        struct aw_kube_lease wanted, got = {0};
        bool there = false;
        switch (aw_kube_election_next(election, aw_clock_monotonic_us(clock),
                                      aw_clock_now_us(clock), aw_rng_double(&kube->rng), &wanted,
                                      ret_due_us)) {
        case AW_KUBE_ELECTION_WAIT:
            return err;
        case AW_KUBE_ELECTION_READ:
            err = fetch(leader, &got, &there, diag);
            aw_kube_election_saw(election, err, there ? &got : NULL, aw_clock_monotonic_us(clock));
            break;
        case AW_KUBE_ELECTION_WRITE:
            err = put(leader, &wanted, false, &got, diag);
            aw_kube_election_wrote(election, err, &got, aw_clock_monotonic_us(clock));
            if (err == AW_ERR_CONFLICT || err == AW_ERR_EXISTS)
                err = AW_OK; /* losing a race is no failure */
            break;
        }
    }
    *ret_due_us = aw_clock_monotonic_us(clock);
    return err;
}

bool aw_kube_leader_leads(const struct aw_kube_leader *leader)
{
    return aw_kube_election_leading(&leader->election,
                                    aw_clock_monotonic_us(leader->kube->options.clock));
}

enum aw_err aw_kube_leader_release(struct aw_kube_leader *leader, struct aw_diag *diag)
{
    const struct aw_clock *clock = leader->kube->options.clock;
    struct aw_kube_lease wanted, got;
    if (!aw_kube_election_release(&leader->election, aw_clock_monotonic_us(clock),
                                  aw_clock_now_us(clock), &wanted))
        return AW_OK;
    return put(leader, &wanted, true, &got, diag);
}
