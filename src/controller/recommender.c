/* recommender.c - rounds: look, decide, tell. */
#include "controller/recommender_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TIDY_US         60000000 /* between two looks for pods that are gone */
#define REMEMBER_ROUNDS 40u      /* for which objects may come and be given what was learned */

/* --- what the backend sees -------------------------------------------------------------------- */

static enum aw_err look(void *ctx, uint32_t workload, struct aw_kubecluster_view *ret_view)
{
    struct aw_recommender *r = ctx;
    const uint32_t place = r->slot[workload];
    if (place == AW__NOBODY || !r->object[place] || r->object[place]->gone)
        return AW_ERR_NODATA;
    return aw__cluster_view_view(r->scene, &r->object[place]->target, ret_view);
}

/* --- made and ended --------------------------------------------------------------------------- */

static void defaults(struct aw_recommender_config *config)
{
    if (!(config->step_s > 0))
        config->step_s = AW_RECOMMENDER_STEP_S;
    if (!(config->speed > 0))
        config->speed = 1;
    if (config->objects_max == 0)
        config->objects_max = AW_RECOMMENDER_OBJECTS_MAX;
    if (config->pods_max == 0)
        config->pods_max = AW_RECOMMENDER_PODS_MAX;
    if (!config->instance)
        config->instance = AW_KUBE_MANAGER;
}

static enum aw_err make_tables(struct aw_recommender *r, struct aw_diag *diag)
{
    const uint32_t max = r->config.objects_max;
    r->object = aw_alloc_new(r->alloc, max, sizeof(void *));
    r->target = aw_alloc_new(r->alloc, max, sizeof(void *));
    r->slot = aw_alloc_new(r->alloc, (size_t)max + 1, sizeof *r->slot); /* one more, for looking */
    if (!r->object || !r->target || !r->slot ||
        aw_hash_table_init(&r->places, sizeof(struct aw__place), max, max, r->alloc))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u objects", max);
    memset(r->slot, 0xff, ((size_t)max + 1) * sizeof *r->slot);
    return AW_OK;
}

/* The loop's own time. */
static int64_t lived_us(const struct aw_recommender *r)
{
    const struct aw_cluster cluster = aw_kubecluster_cluster(r->cluster);
    return r->config.speed == 1
               ? cluster.ops->now_us(cluster.self)
               : llround((double)cluster.ops->now_us(cluster.self) * r->config.speed);
}

static enum aw_err make_loop(struct aw_recommender *r, struct aw_diag *diag)
{
    const struct aw_recommender_config *config = &r->config;
    const struct aw_kubecluster_config cluster = {
        .source = {r, look},
        .clock = config->clock,
        .workloads_max = config->objects_max + 1,
        .pods_max = config->pods_max,
        .patience_us = llround(AW_KUBECLUSTER_PATIENCE_US / config->speed),
        .in_place = config->server.pod_resize};
    enum aw_err err = aw_kubecluster_new(&cluster, r->alloc, &r->cluster, diag);
    if (err)
        return err;
    struct aw_cluster seen = aw_kubecluster_cluster(r->cluster);
    if (config->speed != 1) {
        aw_time_scale_init(&r->pace, seen, config->speed, lived_us(r));
        seen = aw_time_scale_cluster(&r->pace);
    }
    const struct aw_loop_config loop = {.cluster = seen,
                                        .store = config->store,
                                        .workloads_max = config->objects_max,
                                        .thread_count = config->thread_count,
                                        .deadline_us = AW__DEADLINE_US,
                                        .hooks = config->hooks  ? config->hooks
                                                 : config->desk ? aw_desk_hooks(config->desk)
                                                                : NULL,
                                        .learning = config->learns_beside ? AW_LOOP_LEARN_BESIDE
                                                                          : AW_LOOP_LEARN_AT_ONCE,
                                        .steadfast = true,
                                        .clock = config->clock};
    err = aw_loop_new(&loop, r->alloc, &r->loop, diag);
    if (!err && config->desk)
        err = aw_desk_attach(config->desk, r->loop, NULL, lived_us(r), diag);
    return err;
}

static enum aw_err make_vpas(struct aw_recommender *r, struct aw_diag *diag)
{
    const struct aw_recommender_config *config = &r->config;
    const struct aw__vpas_config vpas = {.kube = config->kube,
                                         .scene = r->scene,
                                         .usage = {.kube = config->kube,
                                                   .metrics_version = r->config.server.metrics,
                                                   .prom = config->prom,
                                                   .selector = config->prom_selector,
                                                   .clock = config->clock},
                                         .ns = config->ns,
                                         .name = config->vpa_name,
                                         .memory = config->vpa_memory,
                                         .leads = config->leads,
                                         .ctx = config->ctx,
                                         .log = config->log,
                                         .clock = config->clock,
                                         .objects_max = config->objects_max,
                                         .pods_max = config->pods_max};
    return aw__vpas_new(&r->vpas, &vpas, r->alloc, diag);
}

enum aw_err aw_recommender_new(struct aw_recommender **ret_recommender,
                               const struct aw_recommender_config *config,
                               const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_recommender *r = aw_alloc_new(alloc, 1, sizeof *r);
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a recommender");
    r->config = *config;
    r->alloc = alloc;
    defaults(&r->config);
    aw_kube_recorder_init(&r->recorder, config->kube, &config->server, r->config.instance);
    enum aw_err err = r->config.objects_max < AW_WORKLOADS_MAX
                          ? make_tables(r, diag)
                          : aw_fail(diag, AW_ERR_CONFIG, "expected fewer than %u objects, found %u",
                                    AW_WORKLOADS_MAX, r->config.objects_max);
    const struct aw__cluster_view_config scene = {.kube = config->kube,
                                                  .ns = config->ns,
                                                  .clock = config->clock,
                                                  .metrics = config->metrics,
                                                  .objects_max = r->config.objects_max,
                                                  .pods_max = r->config.pods_max,
                                                  .changed = aw__object_changed,
                                                  .ctx = r};
    err = err ? err : aw__cluster_view_open(&r->scene, &scene, alloc, diag);
    err = err ? err : make_loop(r, diag);
    err = err ? err : make_vpas(r, diag);
    if (err) {
        aw_recommender_free(r);
        return err;
    }
    if (config->memory)
        aw__memory_read(r, config->memory);
    *ret_recommender = r;
    return AW_OK;
}

void aw_recommender_free(struct aw_recommender *r)
{
    if (!r)
        return;
    if (r->config.desk && r->loop)
        aw_desk_detach(r->config.desk, lived_us(r), "the recommender ended");
    if (r->object)
        aw__objects_free(r);
    aw__memory_free(r);
    aw_loop_free(r->loop);
    aw_kubecluster_free(r->cluster);
    aw__vpas_free(r->vpas);
    aw__cluster_view_close(r->scene);
    aw_hash_table_deinit(&r->places);
    aw_alloc_free(r->alloc, r->slot);
    aw_alloc_free(r->alloc, r->target);
    aw_alloc_free(r->alloc, r->object);
    aw_alloc_free(r->alloc, r);
}

/* --- a round ---------------------------------------------------------------------------------- */

/* Once when it begins, once when it is over. */
static void trouble(struct aw_recommender *r, bool *ails, bool now, const char *what,
                    const char *why)
{
    if (now && !*ails)
        aw_log_warn(r->config.log, what, AW_LOG_STR("why", why));
    else if (!now && *ails)
        aw_log_info(r->config.log, "over", AW_LOG_STR("what", what));
    *ails = now;
}

static enum aw_err tick(struct aw_recommender *r, struct aw_diag *diag)
{
    const uint64_t lost_before = aw_loop_counts(r->loop)->store_failures;
    struct aw_diag why = {0};
    const enum aw_err err = aw_loop_tick(r->loop, NULL, NULL, &why);
    const struct aw_loop_counts *counts = aw_loop_counts(r->loop);
    const bool lost = err || counts->store_failures > lost_before;
    trouble(r, &r->store_ails, lost, "nothing is changed: steps cannot be kept", why.text);
    if (err && diag)
        *diag = why;
    if (r->config.ticked)
        r->config.ticked(r->config.ctx, counts, lost ? why.text : NULL);
    return err;
}

static void count_bytes(struct aw_recommender *r)
{
    const struct aw_kube_informer_state *state;
    const char *name;
    r->counts.pilot_bytes = aw_loop_bytes(r->loop);
    r->counts.copy_bytes = 0;
    for (uint32_t i = 0; (state = aw__cluster_view_state(r->scene, i, &name)); i++)
        r->counts.copy_bytes += state->bytes;
}

/* What no node can hold would wait for ever. Whoever may not look at nodes goes without. */
static void look_at_nodes(struct aw_recommender *r, int64_t now_us)
{
    struct aw__cluster_view_node node = {0};
    struct aw_diag why = {0};
    if (now_us < r->nodes_us)
        return;
    r->nodes_us = now_us + AW__NODES_US;
    const enum aw_err err = aw__cluster_view_largest_node(r->scene, &node, &why);
    if (err) {
        aw_log_debug(r->config.log, "nodes cannot be looked at", AW_LOG_STR("why", why.text));
        return;
    }
    if (node.cpu_millicores == r->node.cpu_millicores && node.memory_bytes == r->node.memory_bytes)
        return;
    r->node = node;
    aw__objects_renew(r);
}

static enum aw_err make_round(struct aw_recommender *r, struct aw_diag *diag)
{
    const struct aw_clock *clock = r->config.clock;
    const int64_t begin_us = aw_clock_monotonic_us(clock);
    const double begin_cpu_s = aw_clock_thread_cpu_s();
    struct aw_diag why = {0};
    r->write_until_us =
        begin_us + llround(AW_RECOMMENDER_WRITE_SHARE * 1e6 * r->config.step_s / r->config.speed);
    look_at_nodes(r, begin_us);
    aw__objects_read(r);
    enum aw_err err = aw__cluster_view_gather(r->scene, r->target, r->used, &why);
    if (err == AW_ERR_INTERRUPTED)
        return err;
    const enum aw_err measured = aw__cluster_view_measure(
        r->scene, r->target, r->used, begin_us + AW_RECOMMENDER_MEASURE_US, &why);
    if (measured == AW_ERR_INTERRUPTED)
        return measured;
    r->counts.reads_failed += measured != AW_OK;
    trouble(r, &r->ails, measured != AW_OK, "metrics cannot be read: nothing shrinks", why.text);
    if (begin_us >= r->tidy_us) {
        aw_kubecluster_tidy(r->cluster);
        r->tidy_us = begin_us + TIDY_US;
    }
    aw__objects_take(r);
    if (r->remembered && (r->counts.active == r->live || r->counts.rounds >= REMEMBER_ROUNDS))
        aw__memory_free(r);
    if (!r->begun)
        aw_loop_resume(r->loop);
    r->begun = true;
    const enum aw_err ticked = tick(r, diag);
    aw__statuses_count(r);
    const enum aw_err written = aw__statuses_write(r, ticked ? NULL : diag);
    r->counts.rounds++;
    r->counts.round_us = aw_clock_monotonic_us(clock) - begin_us;
    r->counts.round_cpu_us = llround(1e6 * (aw_clock_thread_cpu_s() - begin_cpu_s));
    count_bytes(r);
    if (written == AW_ERR_INTERRUPTED)
        return written;
    err = ticked ? ticked : written;
    return err;
}

/* Who begins to lead does so with what others wrote meanwhile, and changes nothing at first. */
static void lead(struct aw_recommender *r, bool leads)
{
    if (leads && !r->leads) {
        aw__objects_reread(r);
        r->begun = false;
        r->tick_us = 0;
    }
    r->leads = r->counts.leads = leads;
}

enum aw_err aw_recommender_step(struct aw_recommender *r, struct aw_diag *diag)
{
    const struct aw_clock *clock = r->config.clock;
    struct aw_diag why = {0};
    const enum aw_err followed = aw__cluster_view_step(r->scene, &why);
    if (followed == AW_ERR_INTERRUPTED)
        return followed;
    lead(r, !r->config.leads || r->config.leads(r->config.ctx));
    const int64_t now_us = aw_clock_monotonic_us(clock);
    enum aw_err err = AW_OK;
    if (r->leads && aw__cluster_view_synced(r->scene) && now_us >= r->tick_us) {
        const int64_t step_us = llround(1e6 * r->config.step_s / r->config.speed);
        /* at the same distance, but a round that took too long is not made up for */
        r->tick_us = r->tick_us == 0 || now_us - r->tick_us >= step_us ? now_us + step_us
                                                                       : r->tick_us + step_us;
        err = make_round(r, diag);
    }
    if (err != AW_ERR_INTERRUPTED && aw__vpas_step(r->vpas, r->leads) == AW_ERR_INTERRUPTED)
        return AW_ERR_INTERRUPTED;
    r->counts.vpas = aw__vpas_counts(r->vpas)->objects;
    r->counts.vpa_writes = aw__vpas_counts(r->vpas)->writes;
    if (!err && followed && diag)
        *diag = why;
    return err ? err : followed;
}

int64_t aw_recommender_due(const struct aw_recommender *r)
{
    const int64_t vpas_us = aw__vpas_due(r->vpas, r->leads);
    int64_t scene_us = aw__cluster_view_due(r->scene);
    scene_us = vpas_us < scene_us ? vpas_us : scene_us;
    if (!r->leads || !aw__cluster_view_synced(r->scene))
        return scene_us;
    return r->tick_us < scene_us ? r->tick_us : scene_us;
}

bool aw_recommender_synced(const struct aw_recommender *r)
{
    return aw__cluster_view_synced(r->scene);
}

const struct aw_recommender_counts *aw_recommender_counts(const struct aw_recommender *r)
{
    return &r->counts;
}
