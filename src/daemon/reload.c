/*
 * reload.c - SIGHUP: the files are read anew, and what they say is taken over.
 *
 * The new settings are tried first, on a job that is thrown away: files that are wrong are refused
 * as a whole. Then the state is saved, and taken up by a job with the new settings: workloads may
 * come and go, and have other bounds, SLOs and prices; each finds what it has learned by its name.
 * Real processes live on as they were started; those of workloads that come are started, and those
 * of workloads that go drain and end.
 */
#include "daemon/daemon_internal.h"

#include "base/text.h"
#include "daemon/agents.h"
#include "daemon/map.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_SHOWN_MAX 512u /* bytes */

/* --- what differs ----------------------------------------------------------------------------- */

static json_t *settings_of(const struct aw_job_workload *workload)
{
    char *text = aw_explanation_config_text(&workload->pilot, &workload->task);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return object;
}

/* "guard.mode Off -> Auto, ..." of one workload; the number of differences. */
static uint32_t differences(const struct aw_job_workload *before, const struct aw_job_workload *now,
                            struct aw_text *ret)
{
    json_t *old = settings_of(before), *new = settings_of(now), *part, *value;
    const char *name, *key;
    uint32_t count = 0;
    json_object_foreach(new, name, part)
    {
        json_object_foreach(part, key, value)
        {
            const json_t *was = json_object_get(json_object_get(old, name), key);
            if (json_equal(was, value))
                continue;
            char *from = was ? json_dumps(was, JSON_ENCODE_ANY) : NULL;
            char *to = json_dumps(value, JSON_ENCODE_ANY);
            aw_text_add(ret, "%s%s.%s %s -> %s", count++ ? ", " : "", name, key,
                        from ? from : "nothing", to ? to : "?");
            free(from);
            free(to);
        }
    }
    json_decref(old);
    json_decref(new);
    return count;
}

static const struct aw_job_workload *workload_of(const struct aw_daemon_config *ask,
                                                 const char *name)
{
    for (uint32_t i = 0; i < ask->count; i++)
        if (strcmp(ask->workload[i].pilot.name, name) == 0)
            return &ask->workload[i];
    return NULL;
}

/* Returns how many workloads differ, come or go. */
static uint32_t tell_differences(struct aw__daemon *d, const struct aw_daemon_config *next)
{
    const struct aw_daemon_config *present = &d->kept.config;
    uint32_t changed = 0;
    for (uint32_t i = 0; i < present->count; i++)
        if (!workload_of(next, present->workload[i].pilot.name)) {
            changed++;
            aw_log_info(d->log, "workload gone: what it has learned is kept",
                        AW_LOG_STR("workload", present->workload[i].pilot.name));
        }
    for (uint32_t i = 0; i < next->count; i++) {
        const struct aw_job_workload *now = &next->workload[i];
        const struct aw_job_workload *before = workload_of(&d->kept.config, now->pilot.name);
        char buf[KEYS_SHOWN_MAX];
        struct aw_text text;
        aw_text_init(&text, buf, sizeof buf);
        if (!before) {
            changed++;
            continue; /* told once its past has been looked for */
        }
        if (differences(before, now, &text) == 0)
            continue;
        changed++;
        aw_log_info(d->log, "settings changed", AW_LOG_STR("workload", now->pilot.name),
                    AW_LOG_STR("what", buf));
    }
    return changed;
}

/* In the same order. */
static bool same_workloads(const struct aw_daemon_config *a, const struct aw_daemon_config *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = strcmp(a->workload[i].pilot.name, b->workload[i].pilot.name) == 0;
    return same;
}

/* --- the change ------------------------------------------------------------------------------- */

static void refused(struct aw__daemon *d, const char *why)
{
    aw_log_warn(d->log, "reload refused, everything goes on as it was", AW_LOG_STR("why", why));
}

/* Whether a job with these settings takes up the state of this one. */
static enum aw_err try_settings(struct aw__daemon *d, const struct aw_daemon_config *next,
                                struct aw_diag *diag)
{
    struct aw_session *s = &d->kept;
    const struct aw_daemon_config present = s->config;
    struct aw_job *job = NULL;
    if (strcmp(present.state, next->state) != 0 || strcmp(present.store, next->store) != 0)
        return aw_fail(diag, AW_ERR_CONFLICT, "state and store stay where they are");
    enum aw_err err = s->local ? aw_local_run_check(next, diag) : AW_OK;
    if (err)
        return err;
    s->config = *next;
    err = aw__session_job(s, NULL, &job, diag);
    err = err ? err : aw__session_reload(s, job, diag);
    s->config = present;
    aw_job_free(job);
    /* what comes anew is started before anything is given up */
    return err || !s->local ? err : aw_local_run_grow(s->local, next, diag);
}

/* The old job is gone from here on. The log is closed and opened again: its start and stop tell
 * what was in force when. */
static enum aw_err take_over(struct aw__daemon *d, struct aw_daemon_config *next,
                             struct aw_diag *diag)
{
    struct aw_session *s = &d->kept;
    aw__map_close(d->map);
    d->map = NULL;
    aw_api_switch(&d->api, NULL);
    if (s->local)
        (void)!aw_local_run_load_end(s->local, NULL); /* it has the loads of the old settings */
    aw_desk_detach(s->desk, aw_job_now_us(s->job), "reload");
    aw_job_free(s->job);
    aw_desk_free(s->desk);
    s->job = NULL;
    s->desk = NULL;
    const bool others = !same_workloads(&s->config, next);
    aw_daemon_config_deinit(&s->config);
    s->config = *next;
    *next = (struct aw_daemon_config){0};
    if (s->local)
        aw_local_run_settle(s->local, &s->config);
    enum aw_err err = others ? aw__session_resize(s, diag) : AW_OK;
    err = err ? err : aw__session_steward(s, diag);
    err = err ? err : aw__session_job(s, s->desk, &s->job, diag);
    err = err ? err : aw__session_reload(s, s->job, diag);
    if (err) { /* what has learned nothing is not saved over what has */
        aw_job_free(s->job);
        s->job = NULL;
    }
    err = err ? err : aw__session_attach(s, diag);
    err = err ? err : aw__session_load(s, diag);
    if (err)
        return err;
    d->store_failures = aw_job_counts(s->job)->store_failures;
    d->orders = d->saved_orders = 0; /* the new desk counts its own */
    aw__map_open(&s->config, d->log, &d->api, &d->map);
    aw_api_agents(&d->api, aw__agents_exchange(s->agents));
    aw_api_switch(&d->api, s->desk);
    return AW_OK;
}

enum aw_err aw__daemon_reload(struct aw__daemon *d, struct aw_diag *diag)
{
    struct aw_daemon_config *next = aw_alloc_new(NULL, 1, sizeof *next);
    struct aw_diag why = {0};
    enum aw_err err = AW_OK;
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    if (!next || d->kept.config.demo) {
        refused(d, next ? "the demo has no files" : "no memory");
        goto out;
    }
    if ((err = d->life->read(d->life->ctx, next, &why)) || (err = aw__daemon_save(d, &why)) ||
        (err = try_settings(d, next, &why))) {
        refused(d, aw_diag_format(&why, err, line, sizeof line));
        err = AW_OK;
        goto out;
    }
    const uint32_t changed = tell_differences(d, next);
    if (changed == 0)
        aw_log_info(d->log, "reload: nothing has changed");
    else if (!(err = take_over(d, next, diag)))
        aw_log_info(d->log, "reloaded", AW_LOG_INT("workloads", changed));
out:
    if (next)
        aw_daemon_config_deinit(next);
    aw_alloc_free(NULL, next);
    return err;
}
