/* desk.c - orders to a world, within bounds, written down: see manager.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "firm/manager_internal.h"

#define CHANGE_MIN 0.002 /* of a limit; less is not worth an order */

enum aw_err aw_firm_desk_init(struct aw_firm_desk *desk, const struct aw_graph_app *app,
                              struct aw_graph_plant plant, const struct aw_alloc *alloc)
{
    *desk = (struct aw_firm_desk){.app = app, .plant = plant, .alloc = alloc};
    desk->order = aw_alloc_new(alloc, AW_FIRM_ORDERS_MAX, sizeof *desk->order);
    if (!desk->order) {
        *desk = (struct aw_firm_desk){0};
        return AW_ERR_NOMEM;
    }
    for (uint32_t s = 0; s < app->service_count; s++) {
        memcpy(desk->limit[s], app->services[s].limit, sizeof desk->limit[s]);
        desk->replicas[s] = app->services[s].replicas;
    }
    return AW_OK;
}

void aw_firm_desk_deinit(struct aw_firm_desk *desk)
{
    aw_alloc_free(desk->alloc, desk->order);
    *desk = (struct aw_firm_desk){0};
}

bool aw_firm_order_shrinks(const struct aw_firm_order *order)
{
    return order->kind != AW_FIRM_REPLACE && order->to < order->from;
}

static enum aw_err do_it(struct aw_firm_desk *desk, const struct aw_firm_order *order)
{
    enum aw_err err;
    if (order->kind == AW_FIRM_LIMIT) {
        err = desk->plant.ops->limit(desk->plant.self, order->service, order->resource, order->to);
        if (!err)
            desk->limit[order->service][order->resource] = order->to;
        return err;
    }
    err = desk->plant.ops->scale(desk->plant.self, order->service, (uint32_t)order->to,
                                 order->kind == AW_FIRM_REPLACE);
    if (!err)
        desk->replicas[order->service] = (uint32_t)order->to;
    return err;
}

static void note(struct aw_firm_desk *desk, const struct aw_firm_order *order)
{
    desk->order[desk->order_count++ % AW_FIRM_ORDERS_MAX] = *order;
}

/* Doubt, then the record, then the deed. AW_ERR_CONFLICT: it may not be done. */
static enum aw_err carry_out(struct aw_firm_desk *desk, struct aw_firm_order *order,
                             const char *reason)
{
    uint64_t id = 0;
    order->at_ns = aw__firm_now(desk);
    snprintf(order->reason, sizeof order->reason, "%s", reason);
    if (desk->doubt && aw_firm_order_shrinks(order)) {
        desk->in_doubt++;
        return AW_ERR_CONFLICT;
    }
    if (desk->rails.before && desk->rails.before(desk->rails.ctx, order, &id)) {
        desk->forbidden++;
        return AW_ERR_CONFLICT;
    }
    const enum aw_err err = do_it(desk, order);
    if (desk->rails.after)
        desk->rails.after(desk->rails.ctx, order, id, err);
    if (!err)
        note(desk, order);
    return err;
}

enum aw_err aw_firm_desk_put_back(struct aw_firm_desk *desk, const struct aw_firm_order *order)
{
    const enum aw_err err = do_it(desk, order);
    if (!err)
        note(desk, order);
    return err;
}

bool aw_firm_desk_scale(struct aw_firm_desk *desk, uint32_t service, uint32_t replicas, bool fresh,
                        const char *reason)
{
    struct aw_firm_order order = {.service = service,
                                  .kind = fresh ? AW_FIRM_REPLACE : AW_FIRM_SCALE,
                                  .from = desk->replicas[service],
                                  .to = replicas};
    if (desk->app->services[service].fixed || replicas == 0 ||
        (replicas == desk->replicas[service] && !fresh))
        return false;
    const enum aw_err err = carry_out(desk, &order, reason);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES && err == AW_ERR_LIMIT; r++)
        desk->refused_ns[service][r] = order.at_ns;
    return err == AW_OK;
}

bool aw_firm_desk_limit(struct aw_firm_desk *desk, uint32_t service,
                        enum aw_graph_resource resource, double limit, bool grow, bool undo,
                        const char *reason)
{
    const struct aw_graph_service *its = &desk->app->services[service];
    const double from = desk->limit[service][resource];
    if (its->fixed)
        return false;
    if (limit < its->low[resource] && resource == AW_GRAPH_CPU && desk->replicas[service] > 1)
        return aw_firm_desk_scale(desk, service, desk->replicas[service] - 1, false, reason);
    const double to = fmin(fmax(limit, its->low[resource]), its->high[resource]);
    struct aw_firm_order order = {.service = service,
                                  .kind = AW_FIRM_LIMIT,
                                  .resource = resource,
                                  .from = from,
                                  .to = to,
                                  .undo = undo};
    if (fabs(to - from) < CHANGE_MIN * from && !(limit > its->high[resource] && grow))
        return false;
    enum aw_err err = AW_ERR_RANGE;
    if (fabs(to - from) >= CHANGE_MIN * from)
        err = carry_out(desk, &order, reason);
    if (err == AW_ERR_LIMIT && grow)
        desk->refused_ns[service][resource] = order.at_ns;
    if (err && err != AW_ERR_CONFLICT &&
        err != AW_ERR_UNSUPPORTED) /* the top of its range, or the node has no more */
        return grow && to >= from &&
               aw_firm_desk_scale(desk, service, desk->replicas[service] + 1, false, reason);
    return !err;
}

const char *aw_firm_order_text(const struct aw_firm_desk *desk, const struct aw_firm_order *order,
                               char *buf, size_t size)
{
    const char *name = desk->app->services[order->service].name;
    char from[32], to[32];
    if (order->kind == AW_FIRM_LIMIT)
        snprintf(buf, size, "%s of %s from %s to %s", aw_graph_resource_names[order->resource],
                 name, aw_graph_amount_text(order->resource, order->from, from, sizeof from),
                 aw_graph_amount_text(order->resource, order->to, to, sizeof to));
    else if (order->kind == AW_FIRM_SCALE)
        snprintf(buf, size, "%s from %.0f to %.0f replicas", name, order->from, order->to);
    else
        snprintf(buf, size, "%s by fresh replicas", name);
    return buf;
}
