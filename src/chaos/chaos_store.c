/* chaos_store.c - a store that is full, broken or slow: the memory store behind a table of
 * functions that asks the world first. */
#include "chaos/chaos_internal.h"

#define SLOW_US_AT_MOST 3000000u

/* What is wrong with the store now. */
static enum aw_err ailment(struct aw__chaos *world, struct aw_diag *diag)
{
    static const enum aw_err broken[] = {AW_ERR_IO, AW_ERR_UNAVAILABLE, AW_ERR_FORMAT,
                                         AW_ERR_DEADLINE};
    aw__chaos_seam(world);
    if (world->dead)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "nobody asks any more");
    if (aw__chaos_any(world, AW_CHAOS_STORE_SLOW))
        world->ahead_us += aw_rng_below(&world->rng, SLOW_US_AT_MOST);
    if (!aw__chaos_any(world, AW_CHAOS_STORE_BROKEN) || aw__chaos_chance(world, 0.3))
        return AW_OK;
    return aw_fail(diag, broken[aw_rng_below(&world->rng, 4)], "the store is broken");
}

static enum aw_err append(void *self, const struct aw_store_row *row, struct aw_diag *diag)
{
    struct aw__chaos *world = self;
    enum aw_err err = ailment(world, diag);
    if (!err && aw__chaos_any(world, AW_CHAOS_STORE_FULL))
        err = aw_fail(diag, AW_ERR_LIMIT, "the store is full");
    world->kept = world->kept && !err;
    err = err ? err : aw_store_append(&world->memory_store, row, diag);
    return err;
}

static enum aw_err begin(void *self, struct aw_diag *diag)
{
    const enum aw_err err = ailment(self, diag);
    struct aw__chaos *world = self;
    world->kept = world->kept && !err;
    return err ? err : aw_store_begin(&world->memory_store, diag);
}

static enum aw_err commit(void *self, struct aw_diag *diag)
{
    struct aw__chaos *world = self;
    const enum aw_err err = ailment(world, diag);
    world->kept = world->kept && !err;
    const enum aw_err inner = aw_store_commit(&world->memory_store, diag);
    return err ? err : inner;
}

static enum aw_err episodes(void *self, const char *workload, enum aw_store_order order,
                            uint32_t max, struct aw_store_episode *ret, uint32_t *ret_count,
                            struct aw_diag *diag)
{
    const struct aw_store *inner = &((struct aw__chaos *)self)->memory_store;
    const enum aw_err err = ailment(self, diag);
    return err ? err
               : inner->ops->episodes(inner->self, workload, order, max, ret, ret_count, diag);
}

static enum aw_err pick(void *self, const char *workload, const struct aw_store_pick *picks,
                        uint32_t count, aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    const struct aw_store *inner = &((struct aw__chaos *)self)->memory_store;
    const enum aw_err err = ailment(self, diag);
    return err ? err : inner->ops->pick(inner->self, workload, picks, count, visit, ctx, diag);
}

static enum aw_err scan(void *self, const struct aw_store_query *query, aw_store_visit *visit,
                        void *ctx, struct aw_diag *diag)
{
    const struct aw_store *inner = &((struct aw__chaos *)self)->memory_store;
    const enum aw_err err = ailment(self, diag);
    return err ? err : inner->ops->scan(inner->self, query, visit, ctx, diag);
}

static enum aw_err last(void *self, const char *workload, struct aw_store_last *ret,
                        struct aw_diag *diag)
{
    struct aw__chaos *world = self;
    const enum aw_err err = ailment(world, diag);
    world->kept = world->kept && !err;
    return err ? err : aw_store_last(&world->memory_store, workload, ret, diag);
}

static enum aw_err counts(void *self, const char *workload, struct aw_store_counts *ret,
                          struct aw_diag *diag)
{
    return aw_store_counts(&((struct aw__chaos *)self)->memory_store, workload, ret, diag);
}

static enum aw_err workloads(void *self, aw_store_visit_name *visit, void *ctx,
                             struct aw_diag *diag)
{
    return aw_store_workloads(&((struct aw__chaos *)self)->memory_store, visit, ctx, diag);
}

static enum aw_err retain(void *self, const struct aw_store_retention *retention,
                          uint64_t *ret_rows_dropped, struct aw_diag *diag)
{
    return aw_store_retain(&((struct aw__chaos *)self)->memory_store, retention, ret_rows_dropped,
                           diag);
}

static enum aw_err flush(void *self, struct aw_diag *diag)
{
    return aw_store_flush(&((struct aw__chaos *)self)->memory_store, diag);
}

static enum aw_err check(void *self, struct aw_diag *diag)
{
    return aw_store_check(&((struct aw__chaos *)self)->memory_store, diag);
}

static void close_nothing(void *self)
{
    (void)self; /* the world closes what is behind it */
}

void aw__chaos_store_wrap(struct aw__chaos *world)
{
    static const struct aw_store_ops ops = {
        .name = "chaos",
        .append = append,
        .begin = begin,
        .commit = commit,
        .episodes = episodes,
        .pick = pick,
        .scan = scan,
        .last = last,
        .counts = counts,
        .workloads = workloads,
        .retain = retain,
        .flush = flush,
        .check = check,
        .close = close_nothing,
    };
    world->store = (struct aw_store){.ops = &ops, .self = world};
}
