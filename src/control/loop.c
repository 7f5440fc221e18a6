/* loop.c - the control loop. */
#include "control/loop.h"

#include <string.h>

struct aw_loop {
    struct aw_cluster cluster;
    struct aw_store *store;
    uint32_t count;
    int64_t deadline_us;
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
    aw_alloc_free(loop->alloc, loop->err);
    aw_alloc_free(loop->alloc, loop->due);
    aw_alloc_free(loop->alloc, loop->pilot);
    aw_alloc_free(loop->alloc, loop);
}

/* --- a tick ----------------------------------------------------------------------------------- */

/* What is missing may come back; what cannot is not worth going on for. */
static bool for_good(enum aw_err err)
{
    return err && err != AW_ERR_NODATA && !aw_err_transient(err);
}

static enum aw_err observe_all(struct aw_loop *loop, struct aw_diag *diag)
{
    const struct aw_cluster *cluster = &loop->cluster;
    enum aw_err err = loop->store ? aw_store_begin(loop->store, diag) : AW_OK;
    if (err)
        return err;
    for (uint32_t i = 0; !err && i < loop->count; i++) {
        struct aw_sample sample;
        const int64_t now = cluster->ops->now_us(cluster->self);
        const enum aw_err seen =
            cluster->ops->observe(cluster->self, i, loop->deadline_us, &sample);
        if (for_good(seen)) {
            err = aw_fail(diag, seen, "workload %s cannot be observed",
                          aw_pilot_config(loop->pilot[i])->name);
            break;
        }
        loop->counts.observe_failures += seen != AW_OK;
        struct aw_store_row row;
        if (aw_pilot_observe(loop->pilot[i], seen ? NULL : &sample, now, &row) && loop->store)
            err = aw_store_append(loop->store, &row, diag);
    }
    const enum aw_err kept = loop->store ? aw_store_commit(loop->store, err ? NULL : diag) : AW_OK;
    return err ? err : kept;
}

static enum aw_err decide_all(struct aw_loop *loop, aw_loop_sink *sink, void *ctx,
                              struct aw_diag *diag)
{
    const struct aw_cluster *cluster = &loop->cluster;
    for (uint32_t i = 0; i < loop->count; i++) {
        const int64_t now = cluster->ops->now_us(cluster->self);
        const struct aw_decision *decision = aw_pilot_decide(loop->pilot[i], now);
        loop->counts.decisions++;
        if (decision->guard.plan.set) {
            const enum aw_err err =
                cluster->ops->apply(cluster->self, i, &decision->guard.plan, loop->deadline_us);
            if (for_good(err))
                return aw_fail(diag, err, "workload %s cannot be scaled",
                               aw_pilot_config(loop->pilot[i])->name);
            aw_pilot_applied(loop->pilot[i], !err, now);
            loop->counts.plans_applied += !err;
            loop->counts.apply_failures += err != AW_OK;
        }
        if (sink)
            sink(ctx, i, decision);
    }
    return AW_OK;
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
        loop->counts.learn_rounds += loop->err[i] == AW_OK;
        loop->counts.learn_failures += loop->err[i] != AW_OK && loop->err[i] != AW_ERR_NODATA;
    }
    return AW_OK;
}

enum aw_err aw_loop_tick(struct aw_loop *loop, aw_loop_sink *sink, void *ctx, struct aw_diag *diag)
{
    enum aw_err err = observe_all(loop, diag);
    err = err ? err : decide_all(loop, sink, ctx, diag);
    err = err ? err : learn_all(loop, diag);
    loop->counts.ticks += err == AW_OK;
    return err;
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
