/* policy_view.c - a workload's policies as they are told. */
#include "desk/policy_view.h"

#include <stdlib.h>
#include <string.h>

#include "desk/explanation.h"

/* --- texts ------------------------------------------------------------------------------------ */

void aw_policy_texts_deinit(struct aw_policy_texts *texts)
{
    free(texts->in_force);
    free(texts->trial);
    *texts = (struct aw_policy_texts){0};
}

/* None of one kind is no failure. */
static enum aw_err text_of(enum aw_err err)
{
    return err == AW_ERR_NODATA ? AW_OK : err;
}

enum aw_err aw_policy_texts_read(const struct aw_journal_entry *entry, struct aw_policy_texts *ret,
                                 struct aw_diag *diag)
{
    struct aw_policy_texts texts = {0};
    struct aw_fallback_task task;
    struct aw_pilot *pilot = NULL;
    if (!entry->moment)
        return aw_fail(diag, AW_ERR_NODATA, "the moment of this decision was not kept");
    struct aw_pilot_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    enum aw_err err = config ? aw_explanation_config_read(entry->config, config, &task, diag)
                             : aw_fail(diag, AW_ERR_NOMEM, "no memory for a policy");
    err = err ? err : aw_pilot_new(config, &task, entry->at_us, NULL, &pilot, diag);
    if (!err && aw_pilot_snapshot_load(pilot, entry->moment, entry->moment_bytes))
        err = aw_fail(diag, AW_ERR_FORMAT, "the moment of %s is of another version of aware",
                      entry->workload);
    err = err ? err : text_of(aw_pilot_policy_text(pilot, &texts.in_force, diag));
    err = err ? err : text_of(aw_pilot_trial_text(pilot, &texts.trial, diag));
    aw_pilot_free(pilot);
    aw_alloc_free(NULL, config);
    if (err)
        aw_policy_texts_deinit(&texts);
    else
        *ret = texts;
    return err;
}

/* --- which there are -------------------------------------------------------------------------- */

/* "": none. */
static const char *id_of(const json_t *account, const char *key)
{
    const char *id = json_string_value(json_object_get(json_object_get(account, "canary"), key));
    return id ? id : "";
}

static bool has_id(const char *text, const char *id, char *ret_checksum, size_t size)
{
    json_t *policy = text ? json_loads(text, 0, NULL) : NULL;
    const char *own = json_string_value(json_object_get(policy, "id"));
    const char *checksum = json_string_value(json_object_get(policy, "checksum"));
    const bool same = own && checksum && strcmp(own, id) == 0;
    if (same)
        snprintf(ret_checksum, size, "%s", checksum);
    json_decref(policy);
    return same;
}

enum aw_err aw_policy_pick(const json_t *account, const struct aw_policy_texts *texts, bool trial,
                           const char **ret_text, struct aw_diag *diag)
{
    const char *name = json_string_value(json_object_get(account, "workload"));
    const char *id = id_of(account, trial ? "trial" : "good");
    const char *text = trial ? texts->trial : texts->in_force;
    char checksum[24];
    if (!*id)
        return aw_fail(diag, AW_ERR_NODATA, trial ? "%s tries no policy" : "%s has no policy yet",
                       name ? name : "the workload");
    if (!has_id(text, id, checksum, sizeof checksum))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "policy %s is not in the journal yet; ask again after the next decision",
                       id);
    *ret_text = text;
    return AW_OK;
}

/* --- told ------------------------------------------------------------------------------------- */

static json_t *policy_json(const char *id, const struct aw_policy_texts *texts)
{
    char checksum[24] = "";
    if (!*id)
        return json_null();
    const bool known = has_id(texts->in_force, id, checksum, sizeof checksum) ||
                       has_id(texts->trial, id, checksum, sizeof checksum);
    return json_pack("{s:s, s:o}", "id", id, "checksum",
                     known ? json_string(checksum) : json_null());
}

static json_t *member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return value ? json_incref(value) : json_null();
}

static json_t *canary_json(const json_t *canary)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o, s:o, s:o}}",
                     "state", member(canary, "state"), "sentence", member(canary, "sentence"),
                     "acts", member(canary, "acts"), "restoring", member(canary, "restoring"),
                     "predicted", "mean", member(canary, "predicted_mean"), "low",
                     member(canary, "predicted_low"), "high", member(canary, "predicted_high"),
                     "missed_share", member(canary, "predicted_missed_share"), "observed", "mean",
                     member(canary, "observed_mean"), "missed_share",
                     member(canary, "observed_missed_share"), "steps", member(canary, "steps"),
                     "episodes", member(canary, "episodes"));
}

json_t *aw_policy_view(const json_t *account, const struct aw_policy_texts *texts)
{
    const char *actor = json_string_value(json_object_get(account, "actor"));
    const char *model = json_string_value(json_object_get(account, "model"));
    const bool agent = actor && (!strcmp(actor, aw_actor_name(AW_ACTOR_AGENT)) ||
                                 !strcmp(actor, aw_actor_name(AW_ACTOR_EXPLORING)));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "workload",
                     member(account, "workload"), "at", member(account, "at"), "stage",
                     member(account, "stage"), "actor", member(account, "actor"), "acting",
                     policy_json(agent && model ? model : "", texts), "good",
                     policy_json(id_of(account, "good"), texts), "trial",
                     policy_json(id_of(account, "trial"), texts), "canary",
                     canary_json(json_object_get(account, "canary")));
}
