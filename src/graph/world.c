/*
 * world.c - requests that walk through services, event by event: see world.h.
 *
 * A visit is two events, or three where it calls others: it reaches its server, which takes its
 * place in the queues of cores, quota and disk at once; its program begins; its answer arrives. A
 * frame is a visit, or a group of steps within one that is waited for together.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/world_internal.h"

#define FIRST_WORK 0.7   /* of a visit's CPU before it calls others; the rest when they answered */
#define HOP_NS     150e3 /* one way, and half of that again at random */
#define SPREAD     0.5   /* of work that is exponential; the rest is always there */
#define T0_NS      (INT64_C(1700000000) * AW_GRAPH_S_NS) /* spans are dated */
#define HEAP_MAX   (AW_GRAPH_FRAMES_MAX + AW_GRAPH_SERVICES_MAX + AW__GRAPH_PENDING + 16u)
#define SPANS_POOL (1u << 17)

/* ---- the queue of events: a heap in which each has four below it ---- */

void aw__graph_push(struct aw_graph_world *world, int64_t at_ns, enum aw__graph_event event,
                    uint32_t index)
{
    struct aw__graph_item *heap = world->heap;
    AW_ASSERT(world->heap_count < HEAP_MAX);
    uint32_t at = world->heap_count++;
    while (at && heap[(at - 1) / 4].at_ns > at_ns) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap[at] = (struct aw__graph_item){at_ns, event, index};
}

static struct aw__graph_item pop(struct aw_graph_world *world)
{
    struct aw__graph_item *heap = world->heap;
    const struct aw__graph_item top = heap[0], last = heap[--world->heap_count];
    const uint32_t count = world->heap_count;
    uint32_t at = 0;
    for (;;) {
        const uint32_t first = 4 * at + 1, end = first + 4 < count ? first + 4 : count;
        uint32_t least = first;
        if (first >= count)
            break;
        for (uint32_t i = first + 1; i < end; i++)
            least = heap[i].at_ns < heap[least].at_ns ? i : least;
        if (heap[least].at_ns >= last.at_ns)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = last;
    return top;
}

/* ---- spans ---- */

static void span_add(struct aw_graph_world *world, struct aw__graph_request *request,
                     const struct aw_span *span)
{
    const uint32_t at = world->span_free;
    if (at == AW_GRAPH_NONE ||
        (world->config.span_loss > 0 && aw_rng_double(&world->rng) < world->config.span_loss))
        return;
    world->span_free = world->spans_pool[at].next;
    world->spans_pool[at].span = *span;
    world->spans_pool[at].next = request->first_span;
    request->first_span = at;
}

/* Of a visit whose answer has arrived: its server's, and its caller's. */
static void spans_emit(struct aw_graph_world *world, const struct aw__graph_frame *frame)
{
    struct aw__graph_request *request = &world->requests_pool[frame->request];
    const struct aw__graph_replica *replica = &world->replicas[frame->replica];
    struct aw_span span = {.trace_hi = world->config.seed + 1, .trace_lo = request->trace};
    span.id = frame->id;
    span.parent = frame->visit == AW_GRAPH_NONE ? 0 : frame->id + 1;
    span.service = world->service_name[replica->service];
    span.instance = replica->instance;
    span.operation = world->op_name[frame->op];
    span.kind = frame->background ? AW_SPAN_CONSUMER : AW_SPAN_SERVER;
    span.flags = frame->failed ? AW_SPAN_ERROR : 0;
    const int64_t skew = T0_NS + (int64_t)world->skew_ns[replica->node];
    span.start_ns = frame->begin_ns + skew;
    span.end_ns = frame->end_ns + skew;
    span_add(world, request, &span);
    if (frame->visit == AW_GRAPH_NONE)
        return;
    const struct aw__graph_frame *caller = &world->frames[frame->visit];
    const struct aw__graph_replica *from = &world->replicas[caller->replica];
    const int64_t its = T0_NS + (int64_t)world->skew_ns[from->node];
    span.id = frame->id + 1;
    span.parent = caller->id;
    span.service = world->service_name[from->service];
    span.instance = from->instance;
    span.peer = world->service_name[replica->service];
    span.kind = frame->background ? AW_SPAN_PRODUCER : AW_SPAN_CLIENT;
    span.start_ns = frame->sent_ns + its;
    /* who sends a message is done when it is sent */
    span.end_ns = (frame->background ? frame->sent_ns + (int64_t)HOP_NS : world->now_ns) + its;
    span_add(world, request, &span);
}

static void spans_flush(struct aw_graph_world *world, struct aw__graph_request *request, bool keep)
{
    for (uint32_t at = request->first_span, next; at != AW_GRAPH_NONE; at = next) {
        struct aw_span *span = keep ? aw_spans_push(&world->spans) : NULL;
        if (span)
            *span = world->spans_pool[at].span;
        next = world->spans_pool[at].next;
        world->spans_pool[at].next = world->span_free;
        world->span_free = at;
    }
    request->first_span = AW_GRAPH_NONE;
}

/* ---- requests ---- */

static void request_release(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_request *request = &world->requests_pool[index];
    if (--request->live)
        return;
    spans_flush(world, request, false); /* of what went on in the background: late */
    request->next_free = world->request_free;
    world->request_free = index;
}

static void request_end(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_request *request = &world->requests_pool[index];
    if (world->done_taken)
        world->done_count = 0;
    world->done_taken = false;
    if (world->done_count < AW_GRAPH_DONE_MAX)
        world->done[world->done_count++] =
            (struct aw_graph_done){request->type, request->failed, request->arrival_ns,
                                   world->now_ns - request->arrival_ns};
    spans_flush(world, request, true);
    request->done = true;
}

static uint32_t frame_new(struct aw_graph_world *world, uint32_t request)
{
    const uint32_t at = world->frame_free;
    if (at == AW_GRAPH_NONE)
        return at;
    struct aw__graph_frame *frame = &world->frames[at];
    world->frame_free = frame->next_free;
    *frame = (struct aw__graph_frame){
        .parent = AW_GRAPH_NONE, .visit = AW_GRAPH_NONE, .step = AW_GRAPH_NONE, .request = request};
    world->requests_pool[request].live++;
    return at;
}

static void frame_release(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_frame *frame = &world->frames[index];
    const uint32_t request = frame->request;
    frame->next_free = world->frame_free;
    world->frame_free = index;
    request_release(world, request);
}

static double hop_ns(struct aw_graph_world *world, struct aw__graph_replica *replica)
{
    const struct aw__graph_state *state = &world->state[replica->service];
    double hop = HOP_NS * (1 + 0.5 * aw_rng_double(&world->rng));
    if (replica->stressed && state->stress.delay_us > 0) {
        const double delay =
            1e3 * state->stress.delay_us * fmax(0, 1 + 0.1 * aw_rng_normal(&world->rng));
        replica->delay_ns += delay;
        hop += delay;
    }
    return hop;
}

/* Sends a call; `caller` AW_GRAPH_NONE: from outside. False: there is no room for it. */
static bool call(struct aw_graph_world *world, uint32_t request, uint32_t parent, uint32_t visit,
                 uint32_t op, bool background)
{
    const uint32_t at = frame_new(world, request);
    if (at == AW_GRAPH_NONE)
        return false;
    struct aw__graph_frame *frame = &world->frames[at];
    frame->is_visit = true;
    frame->parent = parent;
    frame->visit = visit;
    frame->op = op;
    frame->background = background;
    frame->replica = aw__graph_pick(world, world->app->ops[op].service);
    frame->sent_ns = world->now_ns;
    frame->id = world->serial += 2;
    world->visits++;
    const double hop = hop_ns(world, &world->replicas[frame->replica]);
    aw__graph_push(world, world->now_ns + (int64_t)hop, AW__GRAPH_ARRIVE, at);
    return true;
}

static void resume(struct aw_graph_world *world, uint32_t index);

/* Steps that are waited for as one. */
static bool group(struct aw_graph_world *world, uint32_t parent, uint32_t step, bool single,
                  bool background)
{
    const uint32_t request = world->frames[parent].request;
    const uint32_t at = frame_new(world, request);
    if (at == AW_GRAPH_NONE)
        return false;
    struct aw__graph_frame *frame = &world->frames[at], *above = &world->frames[parent];
    frame->parent = background ? AW_GRAPH_NONE : parent;
    frame->visit = above->is_visit ? parent : above->visit;
    frame->background = background || above->background;
    frame->step = step;
    frame->single = single;
    resume(world, at);
    return true;
}

static bool happens(struct aw_graph_world *world, const struct aw_graph_step *step)
{
    return step->probability >= 1 || aw_rng_float(&world->rng) < step->probability;
}

/* Begins one step. What it has begun is in `pending`. */
static void step_begin(struct aw_graph_world *world, uint32_t index,
                       const struct aw_graph_step *step)
{
    struct aw__graph_frame *frame = &world->frames[index];
    const uint32_t visit = frame->is_visit ? index : frame->visit;
    bool fine = true;
    if (step->kind == AW_GRAPH_CALL) {
        frame->pending++;
        fine = call(world, frame->request, index, visit, step->op, frame->background);
        frame->pending -= !fine;
    } else if (step->kind == AW_GRAPH_ASYNC) {
        fine = group(world, index, step->child, false, true);
    } else if (step->kind == AW_GRAPH_SEQ) {
        frame->pending++;
        fine = group(world, index, step->child, false, false);
        frame->pending -= !fine;
    } else {
        for (uint32_t i = step->child; i != AW_GRAPH_NONE; i = world->app->steps[i].next) {
            const struct aw_graph_step *child = &world->app->steps[i];
            const bool plain = child->kind == AW_GRAPH_CALL && child->repeat == 1;
            if (plain && !happens(world, child))
                continue;
            frame->pending++;
            const bool begun =
                plain ? call(world, frame->request, index, visit, child->op, frame->background)
                      : group(world, index, i, true, false);
            frame->pending -= !begun;
            fine = fine && begun;
        }
    }
    if (!fine)
        world->requests_pool[frame->request].failed = true;
}

/* One that waited for `frame` goes on. */
static void notify(struct aw_graph_world *world, uint32_t parent)
{
    if (parent != AW_GRAPH_NONE && --world->frames[parent].pending == 0)
        resume(world, parent);
}

static void visit_answer(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_frame *frame = &world->frames[index];
    struct aw__graph_replica *replica = &world->replicas[frame->replica];
    const struct aw_graph_op *op = &world->app->ops[frame->op];
    const int64_t sent =
        aw__graph_queue(replica, AW_GRAPH_NET, frame->end_ns, frame->failed ? 0 : op->net_bytes);
    aw__graph_push(world, sent + (int64_t)hop_ns(world, replica), AW__GRAPH_RETURN, index);
}

static double draw_work(struct aw_graph_world *world, double mean)
{
    return mean * (1 - SPREAD + SPREAD * aw_rng_exponential(&world->rng, 1));
}

/* Until it waits for something, or is done. */
static void resume(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_frame *frame = &world->frames[index];
    while (frame->step != AW_GRAPH_NONE) {
        const struct aw_graph_step *step = &world->app->steps[frame->step];
        if (!frame->entered) {
            frame->entered = true;
            frame->repeat = happens(world, step) ? (uint16_t)step->repeat : 0;
        }
        if (frame->repeat == 0) {
            frame->step = frame->single ? AW_GRAPH_NONE : step->next;
            frame->entered = false;
            continue;
        }
        frame->repeat--;
        frame->pending++; /* held, so that what ends at once does not come back here */
        step_begin(world, index, step);
        if (--frame->pending)
            return;
    }
    if (!frame->is_visit) {
        const uint32_t parent = frame->parent;
        frame_release(world, index);
        notify(world, parent);
        return;
    }
    struct aw__graph_replica *replica = &world->replicas[frame->replica];
    const struct aw_graph_op *op = &world->app->ops[frame->op];
    const double work = draw_work(world, 1e3 * (1 - FIRST_WORK) * op->cpu_us);
    replica->offered[AW_GRAPH_CPU] += work;
    frame->end_ns = aw__graph_work(replica, world->now_ns, work * replica->slow);
    visit_answer(world, index);
}

static void arrive(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_frame *frame = &world->frames[index];
    struct aw__graph_replica *replica = &world->replicas[frame->replica];
    const struct aw_graph_op *op = &world->app->ops[frame->op];
    int64_t free_ns = INT64_MAX;
    frame->begin_ns = frame->end_ns = world->now_ns;
    replica->visits++;
    for (uint32_t i = 0; i < AW__GRAPH_CORES; i++)
        free_ns = replica->core_free_ns[i] < free_ns ? replica->core_free_ns[i] : free_ns;
    const bool leaf = op->first == AW_GRAPH_NONE;
    const double work = draw_work(world, 1e3 * (leaf ? 1 : FIRST_WORK) * op->cpu_us);
    replica->offered[AW_GRAPH_CPU] += work;
    replica->offered[AW_GRAPH_MEMORY] += op->memory_bytes;
    if (free_ns > world->now_ns + AW_GRAPH_WAIT_MAX_NS) {
        frame->failed = true;
        world->requests_pool[frame->request].failed = true;
        visit_answer(world, index);
        return;
    }
    frame->end_ns = aw__graph_work(replica, world->now_ns, work * replica->slow);
    if (op->disk_bytes > 0)
        frame->end_ns = aw__graph_queue(replica, AW_GRAPH_DISK, frame->end_ns,
                                        draw_work(world, op->disk_bytes));
    if (leaf) {
        visit_answer(world, index);
        return;
    }
    frame->step = op->first;
    aw__graph_push(world, frame->end_ns, AW__GRAPH_STEP, index);
}

static void answered(struct aw_graph_world *world, uint32_t index)
{
    struct aw__graph_frame *frame = &world->frames[index];
    const uint32_t parent = frame->parent, request = frame->request;
    const bool root = frame->visit == AW_GRAPH_NONE;
    if (world->requests_pool[request].traced && !world->requests_pool[request].done)
        spans_emit(world, frame);
    if (root)
        request_end(world, request);
    frame_release(world, index);
    notify(world, parent);
}

static void request_begin(struct aw_graph_world *world)
{
    const double rate = world->app->rate * world->config.load;
    const uint32_t at = world->request_free;
    const double draw = aw_rng_double(&world->rng);
    uint32_t type = 0;
    aw__graph_push(world,
                   world->now_ns + (int64_t)(1e9 * aw_rng_exponential(&world->rng, 1 / rate)),
                   AW__GRAPH_REQUEST, 0);
    world->requests++;
    while (type + 1 < world->app->type_count && draw > world->type_until[type])
        type++;
    if (at == AW_GRAPH_NONE || world->frame_free == AW_GRAPH_NONE) {
        if (world->done_taken)
            world->done_count = 0;
        world->done_taken = false;
        if (world->done_count < AW_GRAPH_DONE_MAX)
            world->done[world->done_count++] =
                (struct aw_graph_done){type, true, world->now_ns, AW_GRAPH_WAIT_MAX_NS};
        return;
    }
    struct aw__graph_request *request = &world->requests_pool[at];
    world->request_free = request->next_free;
    *request = (struct aw__graph_request){.type = type,
                                          .arrival_ns = world->now_ns,
                                          .first_span = AW_GRAPH_NONE,
                                          .trace = world->requests};
    request->traced =
        world->config.traced >= 1 ||
        (world->config.traced > 0 && aw_rng_double(&world->rng) < world->config.traced);
    const bool begun =
        call(world, at, AW_GRAPH_NONE, AW_GRAPH_NONE, world->app->types[type].op, false);
    AW_ASSERT(begun); /* there was a frame */
}

void aw_graph_world_run(struct aw_graph_world *world, int64_t until_ns)
{
    while (world->heap_count && world->heap[0].at_ns <= until_ns) {
        const struct aw__graph_item item = pop(world);
        world->now_ns = item.at_ns;
        switch ((enum aw__graph_event)item.event) {
        case AW__GRAPH_REQUEST:
            request_begin(world);
            break;
        case AW__GRAPH_ARRIVE:
            arrive(world, item.index);
            break;
        case AW__GRAPH_STEP:
            resume(world, item.index);
            break;
        case AW__GRAPH_RETURN:
            answered(world, item.index);
            break;
        case AW__GRAPH_EPOCH:
            aw__graph_epoch(world);
            aw__graph_push(world, world->now_ns + AW__GRAPH_PERIOD_NS, AW__GRAPH_EPOCH, 0);
            break;
        case AW__GRAPH_EXTRA:
            aw__graph_extra(world, item.index);
            break;
        case AW__GRAPH_CHANGE:
            aw__graph_change_apply(world, item.index);
            break;
        }
    }
    world->now_ns = until_ns > world->now_ns ? until_ns : world->now_ns;
}

/* ---- looking ---- */

int64_t aw_graph_world_now(const struct aw_graph_world *world)
{
    return world->now_ns;
}

uint64_t aw_graph_world_visits(const struct aw_graph_world *world)
{
    return world->visits;
}

uint64_t aw_graph_world_requests(const struct aw_graph_world *world)
{
    return world->requests;
}

struct aw_spans *aw_graph_world_spans(struct aw_graph_world *world)
{
    return &world->spans;
}

const struct aw_graph_done *aw_graph_world_done(struct aw_graph_world *world, uint32_t *ret_count)
{
    *ret_count = world->done_taken ? 0 : world->done_count;
    world->done_taken = true;
    return world->done;
}

double aw_graph_world_cores(const struct aw_graph_world *world)
{
    double cores = 0;
    for (uint32_t i = 0; i < AW_GRAPH_REPLICAS_MAX; i++)
        if (world->replicas[i].live)
            cores += world->state[world->replicas[i].service].limit[AW_GRAPH_CPU];
    return cores;
}

void aw_graph_world_load(struct aw_graph_world *world, double load)
{
    world->config.load = load;
}

void aw_graph_world_read(struct aw_graph_world *world, struct aw_graph_reading *ret)
{
    const double span_s = (double)(world->now_ns - world->read_ns) * 1e-9;
    for (uint32_t s = 0; s < world->app->service_count; s++) {
        const struct aw__graph_state *state = &world->state[s];
        struct aw_graph_reading *reading = &ret[s];
        double waited[AW_GRAPH_RESOURCES] = {0}, worked = 0, delay = 0, visits = 0;
        uint32_t epochs = 0, throttled = 0;
        *reading = (struct aw_graph_reading){0};
        memcpy(reading->limit, state->limit, sizeof reading->limit);
        for (uint32_t i = 0; i < state->replica_count; i++) {
            struct aw__graph_replica *replica = &world->replicas[state->replica[i]];
            const bool out = replica->retire_ns <= world->now_ns;
            reading->replicas += !out;
            for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
                reading->use[r] += out ? 0 : replica->used[r];
                waited[r] += out ? 0 : replica->waited_ns[r];
                replica->used[r] = replica->waited_ns[r] = 0;
            }
            worked += out ? 0 : replica->worked_ns;
            delay += out ? 0 : replica->delay_ns;
            visits += replica->visits;
            epochs += out ? 0 : replica->epochs;
            throttled += out ? 0 : replica->throttled;
            replica->worked_ns = replica->delay_ns = 0;
            replica->visits = replica->epochs = replica->throttled = 0;
        }
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
            reading->use[r] = epochs ? reading->use[r] / epochs : 0;
            reading->stall[r] = waited[r] > 0 ? waited[r] / (waited[r] + worked) : 0;
        }
        reading->throttled = epochs ? fmin(1, (double)throttled / epochs) : 0;
        reading->visits_per_s = span_s > 0 ? visits / span_s : 0;
        reading->net_delay_us = visits > 0 ? delay / visits * 1e-3 : 0;
    }
    world->read_ns = world->now_ns;
}

/* ---- life ---- */

void aw_graph_world_free(struct aw_graph_world *world)
{
    if (!world)
        return;
    const struct aw_alloc *alloc = world->alloc;
    aw_spans_deinit(&world->spans);
    aw_alloc_free(alloc, world->heap);
    aw_alloc_free(alloc, world->frames);
    aw_alloc_free(alloc, world->requests_pool);
    aw_alloc_free(alloc, world->spans_pool);
    aw_alloc_free(alloc, world->done);
    aw_alloc_free(alloc, world);
}

static void names_make(struct aw_graph_world *world)
{
    const struct aw_graph_app *app = world->app;
    struct aw_names *names = &world->spans.names;
    for (uint32_t i = 0; i < app->service_count; i++)
        world->service_name[i] =
            aw_names_add(names, app->services[i].name, strlen(app->services[i].name));
    for (uint32_t i = 0; i < app->op_count; i++) {
        const char *name = *app->ops[i].name ? app->ops[i].name : "call";
        world->op_name[i] = aw_names_add(names, name, strlen(name));
    }
}

static void begin(struct aw_graph_world *world)
{
    const struct aw_graph_app *app = world->app;
    double until = 0;
    for (uint32_t i = 0; i < AW_GRAPH_FRAMES_MAX; i++)
        world->frames[i].next_free = i + 1 < AW_GRAPH_FRAMES_MAX ? i + 1 : AW_GRAPH_NONE;
    for (uint32_t i = 0; i < AW_GRAPH_REQUESTS_MAX; i++)
        world->requests_pool[i].next_free = i + 1 < AW_GRAPH_REQUESTS_MAX ? i + 1 : AW_GRAPH_NONE;
    for (uint32_t i = 0; i < SPANS_POOL; i++)
        world->spans_pool[i].next = i + 1 < SPANS_POOL ? i + 1 : AW_GRAPH_NONE;
    for (uint32_t i = 0; i < app->node_count; i++)
        world->skew_ns[i] = 1e3 * world->config.skew_us * aw_rng_normal(&world->rng);
    for (uint32_t i = 0; i < app->type_count; i++)
        world->type_until[i] = until += app->types[i].share;
    for (uint32_t i = 0; i < app->service_count; i++) {
        memcpy(world->state[i].limit, app->services[i].limit, sizeof world->state[i].limit);
        for (uint32_t k = 0; k < app->services[i].replicas; k++)
            AW_ASSERT(!aw__graph_replica_start(world, i, true));
    }
    aw__graph_push(world, 0, AW__GRAPH_REQUEST, 0);
    aw__graph_push(world, AW__GRAPH_PERIOD_NS, AW__GRAPH_EPOCH, 0);
}

enum aw_err aw_graph_world_new(const struct aw_graph_app *app, const struct aw_graph_config *config,
                               const struct aw_alloc *alloc, struct aw_graph_world **ret)
{
    struct aw_graph_world *world = aw_alloc_new(alloc, 1, sizeof *world);
    if (!world)
        return AW_ERR_NOMEM;
    world->alloc = alloc;
    world->app = app;
    world->config = *config;
    if (!(world->config.load > 0))
        world->config.load = 1;
    aw_rng_init(&world->rng, config->seed, 0);
    enum aw_err err = aw_spans_init(&world->spans, AW_GRAPH_SPANS_MAX, alloc);
    world->heap = aw_alloc_new(alloc, HEAP_MAX, sizeof *world->heap);
    world->frames = aw_alloc_new(alloc, AW_GRAPH_FRAMES_MAX, sizeof *world->frames);
    world->requests_pool = aw_alloc_new(alloc, AW_GRAPH_REQUESTS_MAX, sizeof *world->requests_pool);
    world->spans_pool = aw_alloc_new(alloc, SPANS_POOL, sizeof *world->spans_pool);
    world->done = aw_alloc_new(alloc, AW_GRAPH_DONE_MAX, sizeof *world->done);
    if (err || !world->heap || !world->frames || !world->requests_pool || !world->spans_pool ||
        !world->done) {
        aw_graph_world_free(world);
        return AW_ERR_NOMEM;
    }
    names_make(world);
    begin(world);
    *ret = world;
    return AW_OK;
}
