/* order.c - keys of waiting requests, and a binary heap that knows where each of them is. */
#include "serving/order.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
    [AW_SERVING_FCFS] = "fcfs",
    [AW_SERVING_SSJF] = "ssjf",
    [AW_SERVING_ORACLE] = "oracle",
};
#define KINDS (sizeof names / sizeof *names)

const char *aw_serving_order_name(uint32_t kind)
{
    AW_ASSERT(kind < KINDS);
    return names[kind];
}

bool aw_serving_order_find(const char *name, uint32_t *ret_kind)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        if (!strcmp(name, names[i])) {
            *ret_kind = i;
            return true;
        }
    }
    return false;
}

double aw_serving_key(const struct aw_serving_order *order, double arrival_s, double work_s)
{
    if (order->kind == AW_SERVING_FCFS || !isfinite(work_s) || work_s <= 0)
        return arrival_s;
    return isinf(order->alpha) ? work_s : arrival_s + order->alpha * work_s;
}

enum aw_err aw_serving_queue_init(struct aw_serving_queue *queue, uint32_t capacity,
                                  const struct aw_alloc *alloc)
{
    memset(queue, 0, sizeof *queue);
    if (capacity == 0 || capacity > AW_SERVING_QUEUE_MAX)
        return AW_ERR_RANGE;
    struct aw_carve carve = {0};
    for (int pass = 0; pass < 2; pass++) {
        carve.used = 0;
        queue->heap = aw_carve_take(&carve, capacity, sizeof *queue->heap);
        queue->place = aw_carve_take(&carve, capacity, sizeof *queue->place);
        if (pass == 0 && !(carve.base = aw_alloc_new(alloc, 1, carve.used))) {
            memset(queue, 0, sizeof *queue);
            return AW_ERR_NOMEM;
        }
    }
    queue->capacity = capacity;
    queue->alloc = alloc;
    return AW_OK;
}

void aw_serving_queue_deinit(struct aw_serving_queue *queue)
{
    aw_alloc_free(queue->alloc, queue->heap); /* the first part is the block */
    memset(queue, 0, sizeof *queue);
}

void aw_serving_queue_clear(struct aw_serving_queue *queue)
{
    if (queue->capacity)
        memset(queue->place, 0, queue->capacity * sizeof *queue->place);
    queue->count = 0;
    queue->pushed = 0;
}

static bool before(const struct aw_serving_waiting *a, const struct aw_serving_waiting *b)
{
    return a->key < b->key || (a->key == b->key && a->number < b->number);
}

static void put(struct aw_serving_queue *queue, uint32_t at, struct aw_serving_waiting waiting)
{
    queue->heap[at] = waiting;
    queue->place[waiting.id] = at + 1;
}

static void sift_up(struct aw_serving_queue *queue, uint32_t at, struct aw_serving_waiting waiting)
{
    while (at > 0 && before(&waiting, &queue->heap[(at - 1) / 2])) {
        put(queue, at, queue->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(queue, at, waiting);
}

static void sift_down(struct aw_serving_queue *queue, uint32_t at,
                      struct aw_serving_waiting waiting)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count && before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!before(&queue->heap[child], &waiting))
            break;
        put(queue, at, queue->heap[child]);
        at = child;
    }
    put(queue, at, waiting);
}

bool aw_serving_queue_push(struct aw_serving_queue *queue, uint32_t id, double key)
{
    AW_ASSERT(id < queue->capacity && !isnan(key));
    if (queue->count == queue->capacity || queue->place[id])
        return false;
    sift_up(queue, queue->count++,
            (struct aw_serving_waiting){.key = key, .number = queue->pushed++, .id = id});
    return true;
}

static void take(struct aw_serving_queue *queue, uint32_t at)
{
    const struct aw_serving_waiting last = queue->heap[--queue->count];
    queue->place[queue->heap[at].id] = 0;
    if (at == queue->count)
        return;
    if (at > 0 && before(&last, &queue->heap[(at - 1) / 2]))
        sift_up(queue, at, last);
    else
        sift_down(queue, at, last);
}

bool aw_serving_queue_peek(const struct aw_serving_queue *queue, uint32_t *ret_id)
{
    if (queue->count == 0)
        return false;
    *ret_id = queue->heap[0].id;
    return true;
}

bool aw_serving_queue_pop(struct aw_serving_queue *queue, uint32_t *ret_id)
{
    if (!aw_serving_queue_peek(queue, ret_id))
        return false;
    take(queue, 0);
    return true;
}

bool aw_serving_queue_remove(struct aw_serving_queue *queue, uint32_t id)
{
    if (id >= queue->capacity || !queue->place[id])
        return false;
    take(queue, queue->place[id] - 1);
    return true;
}
