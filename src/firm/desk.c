/* desk.c - orders to a world, within bounds, written down: see manager.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "firm/manager.h"

#define CHANGE_MIN 0.002 /* of a limit; less is not worth an order */

enum aw_err aw_firm_desk_init(struct aw_firm_desk *desk, const struct aw_graph_app *app,
                              struct aw_graph_world *world, const struct aw_alloc *alloc)
{
    *desk = (struct aw_firm_desk){.app = app, .world = world, .alloc = alloc};
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

static struct aw_firm_order *note(struct aw_firm_desk *desk, uint32_t service,
                                  enum aw_firm_order_kind kind, double from, double to,
                                  const char *reason)
{
    struct aw_firm_order *order = &desk->order[desk->order_count++ % AW_FIRM_ORDERS_MAX];
    *order = (struct aw_firm_order){.at_ns = aw_graph_world_now(desk->world),
                                    .service = service,
                                    .kind = kind,
                                    .from = from,
                                    .to = to};
    snprintf(order->reason, sizeof order->reason, "%s", reason);
    return order;
}

bool aw_firm_desk_scale(struct aw_firm_desk *desk, uint32_t service, uint32_t replicas, bool fresh,
                        const char *reason)
{
    const uint32_t from = desk->replicas[service];
    if (desk->app->services[service].fixed || replicas == 0 || (replicas == from && !fresh) ||
        aw_graph_world_scale(desk->world, service, replicas, fresh))
        return false;
    desk->replicas[service] = replicas;
    note(desk, service, fresh ? AW_FIRM_REPLACE : AW_FIRM_SCALE, from, replicas, reason);
    return true;
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
    if (fabs(to - from) < CHANGE_MIN * from && !(limit > its->high[resource] && grow))
        return false;
    enum aw_err err = AW_ERR_RANGE;
    if (fabs(to - from) >= CHANGE_MIN * from)
        err = aw_graph_world_limit(desk->world, service, resource, to);
    if (err) /* at the top of its range, or the node has no more: another replica */
        return grow && to >= from &&
               aw_firm_desk_scale(desk, service, desk->replicas[service] + 1, false, reason);
    struct aw_firm_order *order = note(desk, service, AW_FIRM_LIMIT, from, to, reason);
    order->resource = resource;
    order->undo = undo;
    desk->limit[service][resource] = to;
    return true;
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
