/* loop.c - the control loop. */
#include "control/loop.h"

#include <string.h>

struct aw_loop {
    struct aw_cluster cluster;
    struct aw_store *store;
    uint32_t count;
    int64_t deadline_us;
    const struct aw_loop_desk *desk; /* NULL: none */
    bool steadfast;
    bool resume_due;         /* the store has not been asked yet where it ends */
    void *moment;            /* scratch; NULL: nobody asks */
    struct aw_pilot **pilot; /* [count] */
    struct aw_threads pool;
    struct aw_loop_counts counts;

    /* those that learn in this tick */
    uint32_t *due; /* [count] indices */
    uint32_t due_count;
    enum aw_err *err; /* [count] of the due ones */
    const struct aw_alloc *alloc;
};

enum aw_err aw_loop_new(const struct aw_loop_config *config, const struct aw_alloc *alloc,
                        struct aw_loop **ret_loop, struct aw_diag *diag)
{
    if (config->workload_count == 0 || config->workload_count > AW_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u workloads, found %u",
                       AW_WORKLOADS_MAX, config->workload_count);
    struct aw_loop *loop = aw_alloc_new(alloc, 1, sizeof *loop);
    if (!loop)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the control loop");
    loop->cluster = config->cluster;
    loop->store = config->store;
    loop->deadline_us = config->deadline_us;
    loop->desk = config->desk;
    loop->steadfast = config->steadfast;
    loop->alloc = alloc;
    const uint32_t count = config->workload_count;
    loop->pilot = aw_alloc_new(alloc, count, sizeof(struct aw_pilot *));
    loop->due = aw_alloc_new(alloc, count, sizeof *loop->due);
    loop->err = aw_alloc_new(alloc, count, sizeof *loop->err);
    enum aw_err err = AW_OK;
    if (!loop->pilot || !loop->due || !loop->err)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u workloads", count);
    loop->count = loop->pilot ? count : 0;
    if (!err && (err = aw_threads_init(&loop->pool, config->thread_count, alloc)))
        aw_fail(diag, err, "no threads to learn with");
    const int64_t now = loop->cluster.ops->now_us(loop->cluster.self);
    for (uint32_t i = 0; !err && i < count; i++)
        err =
            aw_pilot_new(&config->pilots[i], &config->tasks[i], now, alloc, &loop->pilot[i], diag);
    if (!err && loop->desk && loop->desk->moments) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < count; i++) {
            const size_t most = aw_pilot_moment_bytes_max(loop->pilot[i]);
            bytes = bytes > most ? bytes : most;
        }
        if (!(loop->moment = aw_alloc_new(alloc, bytes, 1)))
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a moment of %zu bytes", bytes);
    }
    if (err) {
        aw_loop_free(loop);
        return err;
    }
    *ret_loop = loop;
    return AW_OK;
}

void aw_loop_free(struct aw_loop *loop)
{
    if (!loop)
        return;
    for (uint32_t i = 0; i < loop->count; i++)
        aw_pilot_free(loop->pilot[i]);
    aw_threads_deinit(&loop->pool);
    aw_alloc_free(loop->alloc, loop->moment);
    aw_alloc_free(loop->alloc, loop->err);
    aw_alloc_free(loop->alloc, loop->due);
    aw_alloc_free(loop->alloc, loop->pilot);
    aw_alloc_free(loop->alloc, loop);
}

/* --- a tick ----------------------------------------------------------------------------------- */

void aw_loop_resume(struct aw_loop *loop)
{
    loop->resume_due = loop->store != NULL;
    for (uint32_t i = 0; i < loop->count; i++)
        aw_pilot_resume(loop->pilot[i], NULL);
}

/* A store that does not say where it ends takes nothing either: rows of another life may be there
 * under the same keys. */
static enum aw_err find_end(struct aw_loop *loop, struct aw_diag *diag)
{
    for (uint32_t i = 0; loop->resume_due && i < loop->count; i++) {
        struct aw_store_last last;
        struct aw_pilot *pilot = loop->pilot[i];
        const enum aw_err err =
            aw_store_last(loop->store, aw_pilot_config(pilot)->name, &last, diag);
        if (err && err != AW_ERR_NODATA)
            return err;
        aw_pilot_resume(pilot, err ? NULL : &last);
    }
    loop->resume_due = false;
    return AW_OK;
}

static enum aw_err observe_all(struct aw_loop *loop, struct aw_diag *diag)
{
    const struct aw_cluster *cluster = &loop->cluster;
    struct aw_store *store = loop->store;
    enum aw_err err = find_end(loop, diag);
    err = err || !store ? err : aw_store_begin(store, diag);
    const bool begun = store && !err;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_sample sample;
        const int64_t now = cluster->ops->now_us(cluster->self);
        const enum aw_err seen =
            cluster->ops->observe(cluster->self, i, loop->deadline_us, &sample);
        loop->counts.observe_failures += seen != AW_OK;
        struct aw_store_row row;
        if (aw_pilot_observe(loop->pilot[i], seen ? NULL : &sample, now, &row) && begun && !err)
            err = aw_store_append(store, &row, diag);
    }
    const enum aw_err kept = begun ? aw_store_commit(store, err ? NULL : diag) : AW_OK;
    return err ? err : kept;
}

static void decide_all(struct aw_loop *loop)
{
    const struct aw_cluster *cluster = &loop->cluster;
    const struct aw_loop_desk *desk = loop->desk;
    for (uint32_t i = 0; i < loop->count; i++) {
        const int64_t now = cluster->ops->now_us(cluster->self);
        struct aw_pilot *pilot = loop->pilot[i];
        struct aw_orders orders = {0};
        size_t bytes = 0;
        if (desk) {
            desk->orders(desk->ctx, i, now, &orders);
            if (desk->moments)
                bytes = aw_pilot_moment_save(pilot, loop->moment);
        }
        const struct aw_decision *decision = aw_pilot_decide(pilot, &orders, now);
        loop->counts.decisions++;
        if (desk)
            desk->decided(desk->ctx, i, decision, bytes ? loop->moment : NULL, bytes);
    }
}

static void apply_all(struct aw_loop *loop, bool recorded, aw_loop_sink *sink, void *ctx)
{
    const struct aw_cluster *cluster = &loop->cluster;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw_pilot *pilot = loop->pilot[i];
        const struct aw_decision *decision = aw_pilot_decision(pilot);
        if (!recorded) {
            aw_pilot_unrecorded(pilot);
        } else if (decision->guard.plan.set) {
            const enum aw_err err =
                cluster->ops->apply(cluster->self, i, &decision->guard.plan, loop->deadline_us);
            aw_pilot_applied(pilot, !err, cluster->ops->now_us(cluster->self));
            loop->counts.plans_applied += !err;
            loop->counts.apply_failures += err != AW_OK;
            if (loop->desk)
                loop->desk->applied(loop->desk->ctx, i, decision, err);
        }
        if (sink)
            sink(ctx, i, decision);
    }
}

static void learn_one(void *ctx, uint32_t turn, uint32_t worker)
{
    (void)worker;
    struct aw_loop *loop = ctx;
    loop->err[turn] = aw_pilot_learn(loop->pilot[loop->due[turn]], NULL);
}

static enum aw_err learn_all(struct aw_loop *loop, struct aw_diag *diag)
{
    loop->due_count = 0;
    for (uint32_t i = 0; i < loop->count; i++)
        if (aw_pilot_learn_due(loop->pilot[i])) {
            enum aw_err err = aw_pilot_recall(loop->pilot[i], loop->store, diag);
            if (err)
                return err;
            loop->due[loop->due_count++] = i;
        }
    if (loop->due_count == 0)
        return AW_OK;
    aw_threads_parallel_for(&loop->pool, loop->due_count, 1, learn_one, loop);
    for (uint32_t i = 0; i < loop->due_count; i++) {
        if (loop->desk)
            loop->desk->learned(loop->desk->ctx, loop->due[i], loop->err[i]);
        loop->counts.learn_rounds += loop->err[i] == AW_OK;
        loop->counts.learn_failures += loop->err[i] != AW_OK && loop->err[i] != AW_ERR_NODATA;
    }
    return AW_OK;
}

/* The store is asked again in the next tick: full, busy or gone may pass. */
static bool may_pass(const struct aw_loop *loop, enum aw_err err)
{
    return loop->steadfast && err != AW_ERR_CONFLICT && err != AW_ERR_DIVERGED;
}

enum aw_err aw_loop_tick(struct aw_loop *loop, aw_loop_sink *sink, void *ctx, struct aw_diag *diag)
{
    const struct aw_loop_desk *desk = loop->desk;
    if (desk)
        desk->enter(desk->ctx);
    enum aw_err err = observe_all(loop, diag);
    const bool kept = !err;
    if (err && may_pass(loop, err)) {
        loop->counts.store_failures++;
        err = AW_OK;
    }
    if (!err) {
        decide_all(loop);
        bool recorded = kept;
        if (desk) {
            const int64_t now = loop->cluster.ops->now_us(loop->cluster.self);
            const enum aw_err written = desk->record(desk->ctx, now, kept ? diag : NULL);
            loop->counts.record_failures += written != AW_OK;
            recorded = kept && !written;
        }
        apply_all(loop, recorded, sink, ctx);
    }
    if (desk)
        desk->leave(desk->ctx);
    if (!err && kept)
        err = learn_all(loop, diag);
    loop->counts.ticks += err == AW_OK;
    return err;
}

uint32_t aw_loop_count(const struct aw_loop *loop)
{
    return loop->count;
}

bool aw_loop_has(const struct aw_loop *loop, uint32_t workload)
{
    return workload < loop->count && loop->pilot[workload];
}

struct aw_pilot *aw_loop_pilot(struct aw_loop *loop, uint32_t workload)
{
    AW_ASSERT(workload < loop->count);
    return loop->pilot[workload];
}

const struct aw_loop_counts *aw_loop_counts(const struct aw_loop *loop)
{
    return &loop->counts;
}

/* --- bytes ------------------------------------------------------------------------------------ */

size_t aw_loop_state_bytes(const struct aw_loop *loop)
{
    size_t bytes = sizeof loop->counts;
    for (uint32_t i = 0; i < loop->count; i++)
        bytes += aw_pilot_state_bytes(loop->pilot[i]);
    return bytes;
}

void aw_loop_state_save(const struct aw_loop *loop, void *bytes)
{
    unsigned char *to = bytes;
    memcpy(to, &loop->counts, sizeof loop->counts);
    to += sizeof loop->counts;
    for (uint32_t i = 0; i < loop->count; i++) {
        aw_pilot_state_save(loop->pilot[i], to);
        to += aw_pilot_state_bytes(loop->pilot[i]);
    }
}

enum aw_err aw_loop_state_load(struct aw_loop *loop, const void *bytes)
{
    const unsigned char *from = bytes;
    memcpy(&loop->counts, from, sizeof loop->counts);
    from += sizeof loop->counts;
    for (uint32_t i = 0; i < loop->count; i++) {
        enum aw_err err = aw_pilot_state_load(loop->pilot[i], from);
        if (err)
            return err;
        from += aw_pilot_state_bytes(loop->pilot[i]);
    }
    return AW_OK;
}
