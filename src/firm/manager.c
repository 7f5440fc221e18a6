/*
 * manager.c - FIRM's managers: whom the traces name gets what its groups lack; what did not help is
 * undone; what is not needed any more is taken back. See docs/algorithms/firm.md.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "firm/manager_internal.h"

#define SECOND       AW_GRAPH_S_NS
#define CULPRITS_MAX 7u
#define CALM_NS      (5 * SECOND)  /* after which what was given may be taken back */
#define BAN_NS       (2 * SECOND)  /* who was given something in vain; doubled every time .. */
#define BAN_DOUBLED  4u            /* .. at most so often */
#define BAN_OLD_NS   (60 * SECOND) /* .. and forgotten */
#define REPLACE_NS   (8 * SECOND)  /* from one replacement to the next */
#define PEAK_FADE    0.985         /* a step: half of a peak is forgotten in 23 s */
#define TRIM_MOST    0.85          /* of a limit that stays, in one step */
#define TRIM_WORTH   0.93          /* below which of the limit a trim is worth an order */
#define THROTTLED    1.2           /* over its limit counts as used where single periods ran dry */
#define DELAY_US     200.0 /* of a round trip beyond the usual: spans alone replace nobody */
#define DELAY_OF_SLO 0.05  /* that needs no trace */
#define WITNESS_NS   (3 * SECOND / 2) /* since the last gift: what was given has to show first */
#define WITNESS_RISE 0.4              /* of use and waiting: a burst is no witness */
#define WITNESS_DRY  0.5              /* share of periods that it is throttled in */
#define TIGHT_NS     (20 * SECOND)    /* that a node counts as full after it refused an order */
#define SURE_STEPS   3u /* missed steps after which the likeliest is tried without being sure */

const char *const aw_firm_kind_names[] = {"none", "firm-rule", "firm-agent", "hpa",
                                          "aimd", "captain",   NULL};

static double or_else(double value, double initial)
{
    return value > 0 ? value : initial;
}

enum aw_err aw_firm_manager_new(enum aw_firm_kind kind, const struct aw_firm_settings *settings,
                                const struct aw_graph_app *app, const struct aw_alloc *alloc,
                                struct aw_firm_manager **ret)
{
    struct aw_firm_manager *manager = aw_alloc_new(alloc, 1, sizeof *manager);
    if (!manager)
        return AW_ERR_NOMEM;
    manager->alloc = alloc;
    manager->kind = kind;
    manager->app = app;
    manager->settings = *settings;
    struct aw_firm_settings *s = &manager->settings;
    s->rule_factor = or_else(s->rule_factor, 8);
    s->lent = or_else(s->lent, 1);
    s->trim_use = or_else(s->trim_use, 0.3);
    s->undo_steps = s->undo_steps ? s->undo_steps : 10;
    s->hpa_target = or_else(s->hpa_target, 0.5);
    s->aimd_add = or_else(s->aimd_add, 0.2);
    s->aimd_cut = or_else(s->aimd_cut, 0.01);
    s->captain_target = or_else(s->captain_target, 0.05);
    *ret = manager;
    return AW_OK;
}

void aw_firm_manager_free(struct aw_firm_manager *manager)
{
    if (manager)
        aw_alloc_free(manager->alloc, manager);
}

/* ---- the agent's numbers ---- */

void aw_firm_state(const struct aw_graph_reading *reading, double maintenance, double visits_before,
                   double worst_share, float *obs)
{
    const double change =
        visits_before > 0 ? reading->visits_per_s / visits_before : 1; /* WC: now / before */
    obs[0] = (float)maintenance;
    obs[1] = (float)fmin(fmax(change, 0), 4);
    obs[2] = (float)worst_share;
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        obs[3 + r] = (float)(reading->use[r] + reading->stall[r]);
}

double aw_firm_action(const struct aw_graph_service *service, enum aw_graph_resource resource,
                      double limit, float action, bool absolute)
{
    const double low = service->low[resource], high = service->high[resource];
    if (absolute)
        return low + (high - low) * 0.5 * ((double)action + 1);
    return limit * pow(AW_FIRM_STEP_FACTOR, (double)action);
}

double aw_firm_reward(const struct aw_graph_reading *reading, double maintenance)
{
    double use = 0;
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        use += reading->use[r];
    return 0.5 * fmin(1, maintenance) * AW_GRAPH_RESOURCES + 0.5 * use;
}

/* ---- giving ---- */

static void remember(struct aw__firm_care *care, struct aw_firm_desk *desk, uint32_t service,
                     uint32_t resource)
{
    if (!care->given[resource])
        care->before[resource] = desk->limit[service][resource];
    care->given[resource] = true;
    care->given_ns = aw__firm_now(desk);
}

static void give_by_rule(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                         const struct aw_firm_sight *sight, const struct aw_firm_suspect *suspect,
                         const char *reason)
{
    const struct aw_graph_reading *reading = &sight->readings[suspect->service];
    struct aw__firm_care *care = &manager->care[suspect->service];
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        const bool cause = r == suspect->lacks;
        if (!cause && reading->use[r] < AW_FIRM_SHORT)
            continue;
        const double before = desk->limit[suspect->service][r];
        if (aw_firm_desk_limit(desk, suspect->service, (enum aw_graph_resource)r,
                               manager->settings.rule_factor * before, true, false, reason)) {
            if (!care->given[r])
                care->before[r] = before;
            care->given[r] = true;
            care->given_ns = aw__firm_now(desk);
        }
    }
}

static enum aw_err give_by_agent(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                                 const struct aw_firm_sight *sight, uint32_t service,
                                 const char *reason)
{
    struct aw__firm_care *care = &manager->care[service];
    const struct aw_agent *agent = manager->settings.agent;
    const bool absolute = manager->settings.absolute;
    float obs[AW_FIRM_OBS], action[AW_GRAPH_RESOURCES];
    double limit[AW_GRAPH_RESOURCES];
    aw_firm_state(&sight->readings[service], sight->maintenance, care->visits_before,
                  sight->missed_share, obs);
    const enum aw_err err = agent->ops->act(agent->self, obs, 1, false, action);
    if (err)
        return err;
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        if (!isfinite(action[r]))
            return AW_ERR_DIVERGED;
        limit[r] = aw_firm_action(&manager->app->services[service], (enum aw_graph_resource)r,
                                  desk->limit[service][r], action[r], absolute);
    }
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        /* a guard rail outside of the network: nothing is taken while the SLO is missed */
        if (limit[r] < desk->limit[service][r])
            continue;
        const double before = desk->limit[service][r];
        if (aw_firm_desk_limit(desk, service, (enum aw_graph_resource)r, limit[r], true, false,
                               reason)) {
            remember(care, desk, service, r);
            care->before[r] = fmin(care->before[r], before);
        }
    }
    return AW_OK;
}

static enum aw_err give(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                        const struct aw_firm_sight *sight, const struct aw_firm_suspect *suspect)
{
    struct aw__firm_care *care = &manager->care[suspect->service];
    const int64_t now = aw__firm_now(desk);
    char reason[AW_FIRM_REASON_MAX];
    if (care->banned_ns > now)
        return AW_OK;
    aw_firm_suspect_text(suspect, sight, reason, sizeof reason);
    if (suspect->lacks == AW_GRAPH_RESOURCES && suspect->slow_network) {
        if (sight->readings[suspect->service].net_delay_us < DELAY_US)
            return AW_OK;
        if (care->replaced_ns + REPLACE_NS < now || !care->replaced_ns) {
            if (aw_firm_desk_scale(desk, suspect->service, desk->replicas[suspect->service], true,
                                   reason))
                care->replaced_ns = now;
        }
        return AW_OK;
    }
    if (suspect->lacks == AW_GRAPH_RESOURCES)
        return AW_OK;
    if (manager->kind == AW_FIRM_AGENT && manager->settings.agent)
        return give_by_agent(manager, desk, sight, suspect->service, reason);
    give_by_rule(manager, desk, sight, suspect, reason);
    return AW_OK;
}

/* ---- taking back ---- */

static void undo(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                 const struct aw_firm_sight *sight, uint32_t service)
{
    struct aw__firm_care *care = &manager->care[service];
    bool needed = false;
    char reason[AW_FIRM_REASON_MAX];
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        needed =
            needed || (care->given[r] && sight->readings[service].use[r] * desk->limit[service][r] >
                                             0.9 * care->before[r]);
    if (needed) /* it uses what it was given: another one is to blame beside it */
        return;
    snprintf(reason, sizeof reason,
             "the SLO is missed %u steps after it was given, and it does "
             "not use it",
             care->missed);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        if (care->given[r])
            aw_firm_desk_limit(desk, service, (enum aw_graph_resource)r, care->before[r], false,
                               true, reason);
        care->given[r] = false;
    }
    if (aw__firm_now(desk) > care->banned_ns + BAN_OLD_NS)
        care->bans = 0;
    care->banned_ns = aw__firm_now(desk) + BAN_NS * (1 << care->bans);
    care->bans += care->bans < BAN_DOUBLED;
    care->missed = 0;
    care->given_ns = 0;
}

/* Is the room of its node wanted by others? */
static bool is_tight(const struct aw_firm_manager *manager, const struct aw_firm_desk *desk,
                     uint32_t service, uint32_t resource)
{
    const uint32_t node = manager->app->services[service].node;
    const int64_t now = aw__firm_now(desk);
    for (uint32_t s = 0; s < manager->app->service_count; s++) {
        const int64_t at = desk->refused_ns[s][resource];
        if (at && at + TIGHT_NS > now && (s != service) && manager->app->services[s].node == node)
            return true;
    }
    return false;
}

/* Room of a node that nobody uses is lent, but for CPU, which is what people pay for; who lacks it
 * has it back at once. True: an order was given. */
static bool lend(struct aw_firm_manager *manager, struct aw_firm_desk *desk, uint32_t service,
                 uint32_t resource)
{
    struct aw__firm_care *care = &manager->care[service];
    const double spare = manager->app->services[service].limit[resource] * manager->settings.lent;
    if (resource == AW_GRAPH_CPU || desk->limit[service][resource] >= 0.999 * spare ||
        aw__firm_now(desk) < care->full_ns[resource] || is_tight(manager, desk, service, resource))
        return false;
    if (aw_firm_desk_limit(desk, service, (enum aw_graph_resource)resource, spare, false, false,
                           "nobody else uses it"))
        return true;
    care->full_ns[resource] = aw__firm_now(desk) + TIGHT_NS;
    return false;
}

static void give_back(struct aw_firm_manager *manager, struct aw_firm_desk *desk, uint32_t service)
{
    struct aw__firm_care *care = &manager->care[service];
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        const double least = fmax(manager->app->services[service].limit[r], 2 * care->peak[r]);
        if (desk->limit[service][r] > 1.05 * least && is_tight(manager, desk, service, r))
            (void)aw_firm_desk_limit(desk, service, (enum aw_graph_resource)r, least, false, true,
                                     "others on its node lack it, and it uses less");
    }
}

static void trim(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                 const struct aw_firm_sight *sight, uint32_t service)
{
    struct aw__firm_care *care = &manager->care[service];
    const int64_t now = aw__firm_now(desk);
    if (sight->missed || now < 2 * CALM_NS || (care->given_ns && now < care->given_ns + CALM_NS))
        return;
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        const struct aw_graph_service *its = &manager->app->services[service];
        const double limit = desk->limit[service][r];
        /* CPU that nobody uses is handed back; of the others, what was given: a smaller rate makes
         * every transfer longer, whoever else uses it */
        if (lend(manager, desk, service, r))
            continue;
        const double lent = its->limit[r] * manager->settings.lent;
        const double least =
            r == AW_GRAPH_CPU ? its->low[r] : fmax(its->limit[r], fmin(limit, lent));
        const double wanted = fmax(care->peak[r] / manager->settings.trim_use, least);
        if (r == AW_GRAPH_CPU && sight->readings[service].throttled > 0) {
            care->peak[r] = fmax(care->peak[r], manager->settings.trim_use * limit * THROTTLED);
            continue; /* bursts need it, whatever the mean says */
        }
        if (wanted < TRIM_WORTH * limit)
            (void)aw_firm_desk_limit(desk, service, (enum aw_graph_resource)r,
                                     fmax(wanted, TRIM_MOST * limit), false, true,
                                     "its SLO holds and it uses less");
    }
    if (desk->replicas[service] > manager->app->services[service].replicas && care->given_ns &&
        care->peak[AW_GRAPH_CPU] < 0.5 * desk->limit[service][AW_GRAPH_CPU] &&
        aw_firm_desk_scale(desk, service, desk->replicas[service] - 1, false,
                           "its SLO holds and it uses less"))
        care->given_ns = now; /* and then see */
}

/* Where several are to blame at once, one's excess hides another's. Packets that are late by a good
 * part of the SLO need no other evidence. */
static enum aw_err replace_witnessed(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                                     const struct aw_firm_sight *sight)
{
    const double much_us = fmax(DELAY_US, 1e3 * DELAY_OF_SLO * sight->worst_slo_ms);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < sight->suspect_count && !err; i++) {
        struct aw_firm_suspect suspect = sight->suspect[i];
        if (sight->readings[suspect.service].net_delay_us < much_us)
            continue;
        suspect.lacks = AW_GRAPH_RESOURCES;
        suspect.slow_network = true;
        err = give(manager, desk, sight, &suspect);
    }
    return err;
}

/* Traces may point beside it: who is throttled stretches the calls that it makes, and sends its
 * spans late. Where nobody whom they are sure of lacks anything, the likeliest of those is given to
 * who has newly come to the limit of its CPU. */
static enum aw_err give_witnessed(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                                  const struct aw_firm_sight *sight)
{
    const int64_t now = aw__firm_now(desk);
    for (uint32_t s = 0; s < manager->app->service_count; s++)
        if (manager->care[s].given_ns && now < manager->care[s].given_ns + WITNESS_NS)
            return AW_OK;
    for (uint32_t i = 0; i < sight->suspect_count; i++) {
        const struct aw_firm_suspect *suspect = &sight->suspect[i];
        if (suspect->lacks == AW_GRAPH_CPU && suspect->rise[AW_GRAPH_CPU] > WITNESS_RISE &&
            sight->readings[suspect->service].use[AW_GRAPH_CPU] >= AW_FIRM_SHORT &&
            sight->readings[suspect->service].throttled > WITNESS_DRY)
            return give(manager, desk, sight, suspect);
    }
    return AW_OK;
}

static enum aw_err firm_step(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                             const struct aw_firm_sight *sight)
{
    enum aw_err err = AW_OK;
    uint32_t given = 0;
    for (uint32_t i = 0; i < sight->suspect_count && sight->missed && !err; i++) {
        const struct aw_firm_suspect *suspect = &sight->suspect[i];
        const bool sure = suspect->score > 0;
        const bool tried = i == 0 && manager->missed_steps >= SURE_STEPS;
        if ((!sure && !tried) || given == CULPRITS_MAX)
            break;
        err = give(manager, desk, sight, suspect);
        given++;
    }
    if (!err && sight->missed)
        err = replace_witnessed(manager, desk, sight);
    if (!err && sight->missed)
        err = give_witnessed(manager, desk, sight);
    for (uint32_t s = 0; s < manager->app->service_count; s++) {
        struct aw__firm_care *care = &manager->care[s];
        const struct aw_graph_reading *reading = &sight->readings[s];
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
            care->peak[r] = fmax(PEAK_FADE * care->peak[r], reading->use[r] * reading->limit[r]);
        care->visits_before = reading->visits_per_s;
        care->missed = sight->missed && care->given_ns ? care->missed + 1 : 0;
        if (care->missed >= manager->settings.undo_steps)
            undo(manager, desk, sight, s);
        give_back(manager, desk, s);
        trim(manager, desk, sight, s);
    }
    return err;
}

enum aw_err aw_firm_manager_step(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                                 const struct aw_firm_sight *sight)
{
    enum aw_err err = AW_OK;
    manager->steps++;
    manager->missed_steps = sight->missed ? manager->missed_steps + 1 : 0;
    switch (manager->kind) {
    case AW_FIRM_RULE:
    case AW_FIRM_AGENT:
        err = firm_step(manager, desk, sight);
        break;
    case AW_FIRM_HPA:
        aw__firm_hpa(manager, desk, sight);
        break;
    case AW_FIRM_AIMD:
        aw__firm_aimd(manager, desk, sight);
        break;
    case AW_FIRM_CAPTAIN:
        aw__firm_captain(manager, desk, sight);
        break;
    case AW_FIRM_NONE:
    case AW_FIRM_KINDS:
        break;
    }
    return err;
}
