/* app.c - see app.h. */
#include "graph/app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* A service is given limits of which the nominal load takes this share: room for bursts, as people
 * provision (FIRM: "usually overprovisioned"). */
#define NOMINAL_USE 0.4
#define CPU_MIN     0.2    /* cores: a quota below 20 ms a period throttles single requests */
#define TRANSFER_S  0.4e-3 /* that the bytes of one visit may take on disk or network */
#define LOW         0.25
#define HIGH        8.0
#define THREADS     16u
#define NODE_SPARE  4.0 /* a node has so often what its services are given at first */
#define PER_NODE    5u  /* services of a node */

const char *const aw_graph_resource_names[] = {"cpu", "memory", "llc", "disk", "network", NULL};
const char *const aw_graph_class_names[] = {"logic", "web", "cache", "store", NULL};

/* What a visit takes per millisecond of CPU: bytes of memory traffic; and per visit: disk, network.
 * Sensitivity: how much slower work gets per shortage (research on interference: iBench, Quasar;
 * stores and caches live on memory, logic on its cache). */
static const struct {
    double memory_per_ms, disk, net, cache;
    double memory_sensitivity, llc_sensitivity;
} classes[AW_GRAPH_CLASSES] = {
    [AW_GRAPH_LOGIC] = {0.4e6, 4e3, 8e3, 2.0e6, 0.6, 0.9},
    [AW_GRAPH_WEB] = {0.3e6, 2e3, 24e3, 1.5e6, 0.5, 0.6},
    [AW_GRAPH_CACHE] = {1.2e6, 1e3, 6e3, 4.0e6, 1.0, 1.2},
    [AW_GRAPH_STORE] = {0.8e6, 64e3, 12e3, 3.0e6, 0.8, 0.8},
};

const char *aw_graph_amount_text(enum aw_graph_resource resource, double amount, char *buf,
                                 size_t size)
{
    if (resource == AW_GRAPH_CPU)
        snprintf(buf, size, "%.2f cores", amount);
    else if (resource == AW_GRAPH_LLC)
        snprintf(buf, size, "%.1f MiB", amount / (1 << 20));
    else
        snprintf(buf, size, "%.1f MB/s", amount / 1e6);
    return buf;
}

void aw_graph_app_init(struct aw_graph_app *app, const char *name, double rate)
{
    memset(app, 0, sizeof *app);
    snprintf(app->name, sizeof app->name, "%s", name);
    app->rate = rate;
}

/* Letters, digits, '-' and '_': what a program can say. */
static bool name_ok(const char *name, bool empty)
{
    const size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_/");
    return !name[len] && len < AW_GRAPH_NAME_MAX && (len || empty) &&
           !(len && name[0] >= '0' && name[0] <= '9');
}

enum aw_err aw_graph_app_service(struct aw_graph_app *app, const char *name,
                                 enum aw_graph_class sort, uint32_t *ret, struct aw_diag *diag)
{
    if (!name_ok(name, false))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected a name of at most %u letters, digits, '-' and '_' that does not "
                       "begin with a digit, found \"%.60s\"",
                       AW_GRAPH_NAME_MAX - 1, name);
    if (aw_graph_service_find(app, name) != AW_GRAPH_NONE)
        return aw_fail(diag, AW_ERR_EXISTS, "service %s is there twice", name);
    if (app->service_count == AW_GRAPH_SERVICES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u services", AW_GRAPH_SERVICES_MAX);
    struct aw_graph_service *service = &app->services[app->service_count];
    snprintf(service->name, sizeof service->name, "%s", name);
    service->sort = sort;
    service->replicas = 1;
    service->threads = THREADS;
    service->cache_bytes = classes[sort].cache;
    service->sensitivity[AW_GRAPH_MEMORY] = classes[sort].memory_sensitivity;
    service->sensitivity[AW_GRAPH_LLC] = classes[sort].llc_sensitivity;
    *ret = app->service_count++;
    return AW_OK;
}

enum aw_err aw_graph_app_op(struct aw_graph_app *app, uint32_t service, const char *name,
                            double cpu_ms, const char *program, struct aw_diag *diag)
{
    const enum aw_graph_class sort = app->services[service].sort;
    if (!name_ok(name, true))
        return aw_fail(diag, AW_ERR_CONFIG, "no name of an operation: \"%.60s\"", name);
    if (app->op_count == AW_GRAPH_OPS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u operations", AW_GRAPH_OPS_MAX);
    if (strlen(program) >= AW_GRAPH_PROGRAM_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a program has at most %u bytes",
                       AW_GRAPH_PROGRAM_MAX - 1);
    if (!(cpu_ms > 0 && cpu_ms <= 10000))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected CPU of a visit above 0 and up to 10000 ms, found %g", cpu_ms);
    for (uint32_t i = 0; i < app->op_count; i++)
        if (app->ops[i].service == service && !strcmp(app->ops[i].name, name))
            return aw_fail(diag, AW_ERR_EXISTS, "operation %s.%s is there twice",
                           app->services[service].name, name);
    struct aw_graph_op *op = &app->ops[app->op_count++];
    *op = (struct aw_graph_op){.service = service,
                               .cpu_us = cpu_ms * 1e3,
                               .memory_bytes = cpu_ms * classes[sort].memory_per_ms,
                               .disk_bytes = classes[sort].disk,
                               .net_bytes = classes[sort].net,
                               .first = AW_GRAPH_NONE};
    snprintf(op->name, sizeof op->name, "%s", name);
    snprintf(op->program, sizeof op->program, "%s", program);
    return AW_OK;
}

uint32_t aw_graph_service_find(const struct aw_graph_app *app, const char *name)
{
    for (uint32_t i = 0; i < app->service_count; i++)
        if (!strcmp(app->services[i].name, name))
            return i;
    return AW_GRAPH_NONE;
}

uint32_t aw_graph_op_find(const struct aw_graph_app *app, const char *name)
{
    char service[AW_GRAPH_NAME_MAX];
    const char *point = strchr(name, '.');
    snprintf(service, sizeof service, "%.*s", point ? (int)(point - name) : (int)strlen(name),
             name);
    const uint32_t index = aw_graph_service_find(app, service);
    for (uint32_t i = 0; i < app->op_count && index != AW_GRAPH_NONE; i++)
        if (app->ops[i].service == index && !strcmp(app->ops[i].name, point ? point + 1 : ""))
            return i;
    return AW_GRAPH_NONE;
}

enum aw_err aw_graph_app_type(struct aw_graph_app *app, const char *name, const char *entry,
                              double share, double slo_ms, struct aw_diag *diag)
{
    const uint32_t op = aw_graph_op_find(app, entry);
    if (op == AW_GRAPH_NONE)
        return aw_fail(diag, AW_ERR_CONFIG, "request type %s enters at %.60s, which is not there",
                       name, entry);
    if (app->type_count == AW_GRAPH_TYPES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u request types", AW_GRAPH_TYPES_MAX);
    if (!(share > 0) || !(slo_ms > 0))
        return aw_fail(diag, AW_ERR_CONFIG, "request type %s needs a share and an SLO above 0",
                       name);
    struct aw_graph_type *type = &app->types[app->type_count++];
    *type = (struct aw_graph_type){.op = op, .share = share, .slo_ms = slo_ms};
    snprintf(type->name, sizeof type->name, "%s", name);
    return AW_OK;
}

/* ---- programs ---- */

struct reader {
    struct aw_graph_app *app;
    const char *at, *text;
    const char *whose;
    struct aw_diag *diag;
};

static enum aw_err wrong(struct reader *reader, const char *expected)
{
    return aw_fail(reader->diag, AW_ERR_CONFIG, "calls of %s: expected %s at byte %zu of \"%.80s\"",
                   reader->whose, expected, (size_t)(reader->at - reader->text) + 1, reader->text);
}

static void skip(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\n");
}

static enum aw_err read_list(struct reader *reader, uint32_t depth, uint32_t *ret_first);

static enum aw_err step_new(struct reader *reader, uint32_t *ret)
{
    *ret = 0;
    if (reader->app->step_count == AW_GRAPH_STEPS_MAX)
        return aw_fail(reader->diag, AW_ERR_LIMIT, "at most %u steps in all programs",
                       AW_GRAPH_STEPS_MAX);
    *ret = reader->app->step_count++;
    reader->app->steps[*ret] = (struct aw_graph_step){.op = AW_GRAPH_NONE,
                                                      .child = AW_GRAPH_NONE,
                                                      .next = AW_GRAPH_NONE,
                                                      .repeat = 1,
                                                      .probability = 1};
    return AW_OK;
}

/* "3*" or "0.3?", any number of them. */
static enum aw_err read_prefix(struct reader *reader, struct aw_graph_step *step)
{
    for (skip(reader); *reader->at >= '0' && *reader->at <= '9'; skip(reader)) {
        char *end;
        const double number = strtod(reader->at, &end);
        const char *sign = end + strspn(end, " \t");
        if (*sign == '*' && number >= 1 && number <= AW_GRAPH_REPEAT_MAX && number == floor(number))
            step->repeat = (uint32_t)number;
        else if (*sign == '?' && number > 0 && number <= 1)
            step->probability = (float)number;
        else
            return wrong(reader, "a number of times from 1 to 64 before '*', or a probability "
                                 "above 0 and up to 1 before '?',");
        reader->at = sign + 1;
    }
    return AW_OK;
}

static enum aw_err read_item(struct reader *reader, uint32_t depth, uint32_t *ret)
{
    static const char *const groups[] = {
        [AW_GRAPH_SEQ] = "seq", [AW_GRAPH_PAR] = "par", [AW_GRAPH_ASYNC] = "async"};
    struct aw_graph_app *app = reader->app;
    char name[2 * AW_GRAPH_NAME_MAX];
    enum aw_err err = step_new(reader, ret);
    if (!err)
        err = read_prefix(reader, &app->steps[*ret]);
    if (err)
        return err;
    const size_t len = strcspn(reader->at, " \t\n,()*?");
    if (len == 0 || len >= sizeof name)
        return wrong(reader, "a service, or par(, seq( or async(,");
    snprintf(name, sizeof name, "%.*s", (int)len, reader->at);
    const char *begin = reader->at;
    reader->at += len;
    skip(reader);
    if (*reader->at == '(') {
        struct aw_graph_step *step = &app->steps[*ret];
        for (uint32_t kind = AW_GRAPH_SEQ; kind <= AW_GRAPH_ASYNC; kind++)
            if (!strcmp(name, groups[kind]))
                step->kind = (enum aw_graph_step_kind)kind;
        if (step->kind == AW_GRAPH_CALL) {
            reader->at = begin;
            return wrong(reader, "par(, seq( or async(");
        }
        if (depth == AW_GRAPH_DEPTH_MAX)
            return wrong(reader, "fewer brackets within each other");
        reader->at++;
        uint32_t child;
        err = read_list(reader, depth + 1, &child);
        if (err)
            return err;
        app->steps[*ret].child = child;
        if (*reader->at != ')')
            return wrong(reader, "')'");
        reader->at++;
        skip(reader);
        return AW_OK;
    }
    app->steps[*ret].op = aw_graph_op_find(app, name);
    if (app->steps[*ret].op != AW_GRAPH_NONE)
        return AW_OK;
    reader->at = begin;
    return wrong(reader, "a service that is there");
}

static enum aw_err read_list(struct reader *reader, uint32_t depth, uint32_t *ret_first)
{
    uint32_t last = AW_GRAPH_NONE;
    *ret_first = AW_GRAPH_NONE;
    do {
        uint32_t step = 0;
        const enum aw_err err = read_item(reader, depth, &step);
        if (err)
            return err;
        if (last == AW_GRAPH_NONE)
            *ret_first = step;
        else
            reader->app->steps[last].next = step;
        last = step;
    } while (*reader->at == ',' && reader->at++);
    return AW_OK;
}

/* ---- what a load comes to ---- */

/* What one visit of an operation calls itself, added to `calls` [ops], times `times`. */
static void expect_steps(const struct aw_graph_app *app, uint32_t first, double times,
                         double *calls)
{
    for (uint32_t i = first; i != AW_GRAPH_NONE; i = app->steps[i].next) {
        const struct aw_graph_step *step = &app->steps[i];
        const double its = times * step->repeat * (double)step->probability;
        if (step->kind == AW_GRAPH_CALL)
            calls[step->op] += its;
        else
            expect_steps(app, step->child, its, calls);
    }
}

struct order {
    uint32_t op[AW_GRAPH_OPS_MAX]; /* callees before their callers */
    uint32_t count;
    uint8_t seen[AW_GRAPH_OPS_MAX]; /* 1: on the way here, 2: done */
};

/* False: a circle, or too deep. */
static bool order_below(const struct aw_graph_app *app, uint32_t op, uint32_t depth,
                        struct order *order)
{
    double calls[AW_GRAPH_OPS_MAX] = {0};
    if (order->seen[op])
        return order->seen[op] == 2;
    if (depth > AW_GRAPH_DEPTH_MAX)
        return false;
    order->seen[op] = 1;
    expect_steps(app, app->ops[op].first, 1, calls);
    for (uint32_t i = 0; i < app->op_count; i++)
        if (calls[i] > 0 && !order_below(app, i, depth + 1, order))
            return false;
    order->seen[op] = 2;
    order->op[order->count++] = op;
    return true;
}

/* Visits of every operation, of `times` requests that enter at `entry`. False: a circle. */
static bool expect(const struct aw_graph_app *app, uint32_t entry, double times, double *visits)
{
    struct order order = {0};
    double its[AW_GRAPH_OPS_MAX] = {0};
    if (!order_below(app, entry, 0, &order))
        return false;
    its[entry] = times;
    for (uint32_t i = order.count; i-- > 0;)
        expect_steps(app, app->ops[order.op[i]].first, its[order.op[i]], its);
    for (uint32_t i = 0; i < app->op_count; i++)
        visits[i] += its[i];
    return true;
}

double aw_graph_visits(const struct aw_graph_app *app, uint32_t type)
{
    double visits[AW_GRAPH_OPS_MAX] = {0}, sum = 0;
    (void)expect(app, app->types[type].op, 1, visits);
    for (uint32_t i = 0; i < app->op_count; i++)
        sum += visits[i];
    return sum;
}

/* Limits that nobody has given are made for the load. */
static void provision(struct aw_graph_app *app, const double *visits)
{
    double node[AW_GRAPH_NODES_MAX][AW_GRAPH_RESOURCES] = {{0}};
    for (uint32_t i = 0; i < app->service_count; i++) {
        struct aw_graph_service *service = &app->services[i];
        double need[AW_GRAPH_RESOURCES] = {0};
        double least[AW_GRAPH_RESOURCES] = {[AW_GRAPH_MEMORY] = 20e6};
        service->visits_per_s = 0;
        for (uint32_t k = 0; k < app->op_count; k++) {
            const struct aw_graph_op *op = &app->ops[k];
            if (op->service != i)
                continue;
            service->visits_per_s += visits[k];
            need[AW_GRAPH_CPU] += visits[k] * op->cpu_us * 1e-6;
            need[AW_GRAPH_MEMORY] += visits[k] * op->memory_bytes;
            need[AW_GRAPH_DISK] += visits[k] * op->disk_bytes;
            need[AW_GRAPH_NET] += visits[k] * op->net_bytes;
            least[AW_GRAPH_DISK] = fmax(least[AW_GRAPH_DISK], op->disk_bytes / TRANSFER_S);
            least[AW_GRAPH_NET] = fmax(least[AW_GRAPH_NET], op->net_bytes / TRANSFER_S);
        }
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
            double limit = need[r] / service->replicas / NOMINAL_USE;
            if (r == AW_GRAPH_CPU)
                limit = fmax(limit, CPU_MIN);
            else if (r == AW_GRAPH_LLC)
                limit = service->cache_bytes / 0.8;
            else
                limit = fmax(limit, least[r]);
            if (service->limit[r] == 0)
                service->limit[r] = limit;
            service->low[r] = LOW * service->limit[r];
            service->high[r] = HIGH * service->limit[r];
        }
        service->low[AW_GRAPH_CPU] = fmax(service->low[AW_GRAPH_CPU], CPU_MIN / 2);
        service->high[AW_GRAPH_CPU] = fmin(service->high[AW_GRAPH_CPU], service->threads);
        service->low[AW_GRAPH_LLC] = 0.5 * service->limit[AW_GRAPH_LLC];
        service->node = i % app->node_count;
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
            node[service->node][r] += service->replicas * service->limit[r];
    }
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        for (uint32_t n = 0; n < app->node_count; n++)
            app->node_pool[r] = fmax(app->node_pool[r], NODE_SPARE * node[n][r]);
}

/* Steps that one run of a program takes at most. */
static double steps_of(const struct aw_graph_app *app, uint32_t first)
{
    double sum = 0;
    for (uint32_t i = first; i != AW_GRAPH_NONE; i = app->steps[i].next)
        sum += app->steps[i].repeat *
               (app->steps[i].kind == AW_GRAPH_CALL ? 1 : 1 + steps_of(app, app->steps[i].child));
    return sum;
}

enum aw_err aw_graph_app_finish(struct aw_graph_app *app, struct aw_diag *diag)
{
    double visits[AW_GRAPH_OPS_MAX] = {0}, shares = 0;
    char whose[2 * AW_GRAPH_NAME_MAX];
    if (!app->service_count || !app->type_count || !(app->rate > 0))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "an application needs services, request types and a "
                       "load above 0");
    app->step_count = 0;
    for (uint32_t i = 0; i < app->op_count; i++) {
        struct aw_graph_op *op = &app->ops[i];
        snprintf(whose, sizeof whose, "%s%s%s", app->services[op->service].name,
                 *op->name ? "." : "", op->name);
        struct reader reader = {app, op->program, op->program, whose, diag};
        op->first = AW_GRAPH_NONE;
        skip(&reader);
        enum aw_err err = *reader.at ? read_list(&reader, 0, &op->first) : AW_OK;
        if (!err && *reader.at)
            err = wrong(&reader, "',' or the end");
        if (!err && steps_of(app, op->first) > AW_GRAPH_RUN_MAX)
            err = aw_fail(diag, AW_ERR_CONFIG, "calls of %s: more than %u steps in one visit",
                          whose, AW_GRAPH_RUN_MAX);
        if (err)
            return err;
    }
    for (uint32_t i = 0; i < app->type_count; i++)
        shares += app->types[i].share;
    for (uint32_t i = 0; i < app->type_count; i++) {
        app->types[i].share /= shares;
        if (!expect(app, app->types[i].op, app->rate * app->types[i].share, visits))
            return aw_fail(diag, AW_ERR_CONFIG,
                           "calls of request type %s go round in a circle, or are deeper than %u",
                           app->types[i].name, AW_GRAPH_DEPTH_MAX);
    }
    app->node_count = (app->service_count + PER_NODE - 1) / PER_NODE;
    if (app->node_count < 2)
        app->node_count = 2;
    if (app->node_count > AW_GRAPH_NODES_MAX)
        app->node_count = AW_GRAPH_NODES_MAX;
    provision(app, visits);
    return AW_OK;
}
