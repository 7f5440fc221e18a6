/* election.c - see election.h. */
#include "kube/election.h"

#include <stdio.h>
#include <string.h>

enum aw_err aw_kube_election_init(struct aw_kube_election *election,
                                  const struct aw_kube_election_config *config,
                                  struct aw_diag *diag)
{
    struct aw_kube_election_config wanted = *config;
    wanted.lease_us = wanted.lease_us ? wanted.lease_us : AW_KUBE_LEASE_US;
    wanted.renew_us = wanted.renew_us ? wanted.renew_us : AW_KUBE_RENEW_US;
    wanted.retry_us = wanted.retry_us ? wanted.retry_us : AW_KUBE_RETRY_US;
    if (!wanted.identity[0])
        return aw_fail(diag, AW_ERR_CONFIG, "an election needs an identity");
    /* a Lease counts whole seconds, and a follower may look as late as a jittered retry */
    if (wanted.lease_us < 1000000 || wanted.retry_us <= 0 || wanted.lease_us <= wanted.renew_us ||
        (double)wanted.renew_us <= (double)wanted.retry_us * AW_KUBE_JITTER)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected lease > renew > %g * retry and a lease of at least 1 s",
                       AW_KUBE_JITTER);
    *election = (struct aw_kube_election){.config = wanted};
    return AW_OK;
}

static bool is_ours(const struct aw_kube_election *election)
{
    return !strcmp(election->seen.holder, election->config.identity);
}

bool aw_kube_election_leading(const struct aw_kube_election *election, int64_t now_us)
{
    return election->leads && now_us < aw_kube_election_until_us(election);
}

int64_t aw_kube_election_until_us(const struct aw_kube_election *election)
{
    return election->leads ? election->renewed_us + election->config.renew_us : 0;
}

static void stop_leading(struct aw_kube_election *election)
{
    election->lost += election->leads;
    election->leads = false;
}

/* Whether somebody else may still be leading, as far as we can tell. */
static bool is_held(const struct aw_kube_election *election, int64_t now_us)
{
    const struct aw_kube_lease *seen = &election->seen;
    const int64_t lease_us = seen->duration_s > 0 && seen->duration_s < 86400
                                 ? seen->duration_s * 1000000
                                 : election->config.lease_us;
    return seen->resource_version[0] && seen->holder[0] && !is_ours(election) &&
           now_us < election->seen_us + lease_us;
}

static void fill(const struct aw_kube_election *election, int64_t wall_us,
                 struct aw_kube_lease *ret_lease)
{
    const struct aw_kube_lease *seen = &election->seen;
    const bool ours = is_ours(election) && seen->resource_version[0];
    struct aw_kube_lease lease = {
        .duration_s = election->config.lease_us / 1000000,
        .acquired_us = ours ? seen->acquired_us : wall_us,
        .renewed_us = wall_us,
        .transitions = seen->transitions + (!ours && seen->resource_version[0] ? 1 : 0),
    };
    snprintf(lease.holder, sizeof lease.holder, "%s", election->config.identity);
    snprintf(lease.resource_version, sizeof lease.resource_version, "%s", seen->resource_version);
    *ret_lease = lease;
}

enum aw_kube_election_step aw_kube_election_next(struct aw_kube_election *election, int64_t now_us,
                                                 int64_t wall_us, double chance,
                                                 struct aw_kube_lease *ret_lease,
                                                 int64_t *ret_due_us)
{
    const struct aw_kube_election_config *config = &election->config;
    if (!aw_kube_election_leading(election, now_us))
        stop_leading(election);
    *ret_due_us = INT64_MAX;
    if (election->released)
        return AW_KUBE_ELECTION_WAIT;
    if (now_us < election->due_us) {
        *ret_due_us = election->due_us;
        return AW_KUBE_ELECTION_WAIT;
    }
    /* Who leads writes on what it wrote last; a conflict will tell. Everybody else looks first. */
    if (!election->fresh && !(election->leads && election->known))
        return AW_KUBE_ELECTION_READ;
    election->fresh = false;
    if (is_held(election, now_us)) {
        election->due_us =
            now_us + (int64_t)((double)config->retry_us * (1 + (AW_KUBE_JITTER - 1) * chance));
        *ret_due_us = election->due_us;
        return AW_KUBE_ELECTION_WAIT;
    }
    fill(election, wall_us, ret_lease);
    election->tried_us = now_us;
    return AW_KUBE_ELECTION_WRITE;
}

/* Takes the server's record over; its change restarts the patience of a follower. */
static void take(struct aw_kube_election *election, const struct aw_kube_lease *lease,
                 int64_t now_us)
{
    if (strcmp(election->seen.resource_version, lease->resource_version) != 0) {
        election->seen = *lease;
        election->seen_us = now_us;
    }
    election->known = true;
}

void aw_kube_election_saw(struct aw_kube_election *election, enum aw_err err,
                          const struct aw_kube_lease *lease, int64_t now_us)
{
    static const struct aw_kube_lease none = {0};
    if (err) {
        election->due_us = now_us + election->config.retry_us;
        return;
    }
    take(election, lease ? lease : &none, now_us);
    election->fresh = true;
    if (!is_ours(election))
        stop_leading(election);
}

void aw_kube_election_wrote(struct aw_kube_election *election, enum aw_err err,
                            const struct aw_kube_lease *lease, int64_t now_us)
{
    election->due_us = election->tried_us + election->config.retry_us;
    if (!err) {
        take(election, lease, now_us);
        election->gained += !election->leads;
        election->leads = true;
        election->renewed_us = election->tried_us; /* the server may have counted from then on */
        return;
    }
    /* What the server has now is not known: read before the next attempt. Who led still does until
     * its renew deadline; others have to wait for longer than that. */
    election->known = false;
    if (err == AW_ERR_CONFLICT || err == AW_ERR_EXISTS)
        election->due_us = now_us;
}

bool aw_kube_election_release(struct aw_kube_election *election, int64_t now_us, int64_t wall_us,
                              struct aw_kube_lease *ret_lease)
{
    const bool led = aw_kube_election_leading(election, now_us) && election->known;
    election->released = true;
    if (led) {
        fill(election, wall_us, ret_lease);
        ret_lease->holder[0] = '\0';
        ret_lease->duration_s = 1; /* zero is not a valid duration; client-go does the same */
    }
    stop_leading(election);
    return led;
}
