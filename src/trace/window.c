/* window.c - see window.h. */
#include "trace/window.h"

#include <stdio.h>
#include <string.h>

#define FIRST_ROOM 256u

struct item {
    uint64_t hash;
    uint32_t part;
};

static bool grow(void **block, uint32_t *room, uint32_t used, uint32_t max, size_t size,
                 const struct aw_alloc *alloc)
{
    uint32_t wanted = *room ? *room * 2 : FIRST_ROOM;
    wanted = wanted < max ? wanted : max;
    if (used < *room)
        return true;
    if (wanted <= used)
        return false;
    void *larger = aw_alloc_new(alloc, wanted, size);
    if (!larger)
        return false;
    if (*block)
        memcpy(larger, *block, (size_t)used * size);
    aw_alloc_free(alloc, *block);
    *block = larger;
    *room = wanted;
    return true;
}

enum aw_err aw_window_init(struct aw_window *window, struct aw_names *names,
                           const struct aw_alloc *alloc)
{
    *window = (struct aw_window){.names = names, .alloc = alloc};
    enum aw_err err = aw_hash_table_init(&window->index, sizeof(struct item), FIRST_ROOM,
                                         AW_WINDOW_PARTS_MAX, alloc);
    if (err)
        *window = (struct aw_window){0};
    return err;
}

void aw_window_deinit(struct aw_window *window)
{
    aw_hash_table_deinit(&window->index);
    aw_alloc_free(window->alloc, window->parts);
    aw_alloc_free(window->alloc, window->requests);
    aw_alloc_free(window->alloc, window->shares);
    aw_alloc_free(window->alloc, window->calls);
    aw_alloc_free(window->alloc, window->sum);
    aw_alloc_free(window->alloc, window->touched);
    *window = (struct aw_window){0};
}

void aw_window_reset(struct aw_window *window)
{
    window->request_count = window->share_count = window->call_count = 0;
    window->dropped = 0;
}

/* AW_NODE_NONE: there is no room for it. */
static uint32_t part_of(struct aw_window *window, uint32_t caller, uint32_t service)
{
    uint64_t hash = ((uint64_t)caller << 32 | service) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29) | 1;
    struct item *item = aw_hash_table_find(&window->index, hash);
    for (; item; item = aw_hash_table_next(&window->index, item)) {
        const struct aw_part *part = &window->parts[item->part];
        if (part->caller == caller && part->service == service)
            return item->part;
    }
    uint32_t room[2] = {window->part_room, window->part_room};
    if (!grow((void **)&window->sum, &room[0], window->part_count, AW_WINDOW_PARTS_MAX,
              sizeof *window->sum, window->alloc) ||
        !grow((void **)&window->touched, &room[1], window->part_count, AW_WINDOW_PARTS_MAX,
              sizeof *window->touched, window->alloc) ||
        !grow((void **)&window->parts, &window->part_room, window->part_count, AW_WINDOW_PARTS_MAX,
              sizeof *window->parts, window->alloc) ||
        !(item = aw_hash_table_add(&window->index, hash)))
        return AW_NODE_NONE;
    item->part = window->part_count;
    window->parts[window->part_count] = (struct aw_part){.service = service, .caller = caller};
    return window->part_count++;
}

/* The server of a client span: its child of another service; AW_NODE_NONE: it has none. */
static uint32_t server_of(const struct aw_request *request, uint32_t client)
{
    const struct aw_span_node *node = &request->nodes[client];
    if (node->kind != AW_SPAN_CLIENT && node->kind != AW_SPAN_PRODUCER)
        return AW_NODE_NONE;
    for (uint32_t child = node->first_child; child != AW_NODE_NONE;
         child = request->nodes[child].next) {
        if (request->spans[child].service != request->spans[client].service &&
            !(request->nodes[child].flags & AW_NODE_BACKGROUND))
            return child;
    }
    return AW_NODE_NONE;
}

static bool add_shares(struct aw_window *window, const struct aw_request *request)
{
    uint32_t count = 0;
    bool fits = true;
    for (uint32_t i = 0; i < request->count && fits; i++) {
        const int64_t ns = request->nodes[i].exclusive_ns;
        if (ns <= 0)
            continue;
        const uint32_t server = server_of(request, i);
        const struct aw_span *span = &request->spans[i];
        const uint32_t part = server == AW_NODE_NONE
                                  ? part_of(window, AW_NAME_NONE, span->service)
                                  : part_of(window, span->service, request->spans[server].service);
        fits = part != AW_NODE_NONE;
        if (fits && !window->sum[part])
            window->touched[count++] = part;
        if (fits)
            window->sum[part] += ns;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t part = window->touched[i];
        fits = fits && grow((void **)&window->shares, &window->share_room, window->share_count,
                            AW_WINDOW_SHARES_MAX, sizeof *window->shares, window->alloc);
        if (fits)
            window->shares[window->share_count++] =
                (struct aw_share){.part = part, .ns = window->sum[part]};
        window->sum[part] = 0;
    }
    return fits;
}

static bool add_calls(struct aw_window *window, const struct aw_request *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        const struct aw_span_node *node = &request->nodes[i];
        const uint32_t server =
            node->flags & AW_NODE_REACHED ? server_of(request, i) : AW_NODE_NONE;
        if (server == AW_NODE_NONE || request->nodes[server].flags & AW_NODE_OUTSIDE)
            continue;
        const uint32_t part =
            part_of(window, request->spans[i].service, request->spans[server].service);
        if (part == AW_NODE_NONE ||
            !grow((void **)&window->calls, &window->call_room, window->call_count,
                  AW_WINDOW_CALLS_MAX, sizeof *window->calls, window->alloc))
            return false;
        window->calls[window->call_count++] = (struct aw_call_gap){
            .part = part,
            .before_ns = request->nodes[server].start_ns - node->start_ns,
            .after_ns = node->end_ns - request->nodes[server].end_ns,
        };
    }
    return true;
}

uint32_t aw_window_type(struct aw_names *names, const struct aw_request *request)
{
    char text[2 * AW_NAME_BYTES_MAX];
    const struct aw_span *root = &request->spans[request->root], *only = NULL;
    uint32_t calls = 0;
    /* who only passes a request on has one call out of its own service */
    for (uint32_t i = 0; i < request->count && calls < 2; i++) {
        const struct aw_span_node *node = &request->nodes[i];
        if (node->parent == AW_NODE_NONE || request->spans[i].service == root->service ||
            request->spans[node->parent].service != root->service)
            continue;
        calls++;
        only = &request->spans[i];
    }
    snprintf(text, sizeof text, "%.400s %.400s", aw_names_text(names, root->service),
             aw_names_text(names, root->operation));
    uint32_t type = aw_names_add(names, text, strlen(text));
    if (calls == 1) {
        snprintf(text, sizeof text, "%.200s > %.200s", aw_names_text(names, type),
                 aw_names_text(names, only->operation));
        type = aw_names_add(names, text, strlen(text));
    }
    return type;
}

bool aw_window_add(struct aw_window *window, const struct aw_request *request)
{
    const uint32_t share_first = window->share_count, call_first = window->call_count;
    const struct aw_span *root = &request->spans[request->root];
    const bool fits = grow((void **)&window->requests, &window->request_room, window->request_count,
                           AW_WINDOW_REQUESTS_MAX, sizeof *window->requests, window->alloc) &&
                      add_shares(window, request) && add_calls(window, request);
    if (!fits) {
        window->share_count = share_first;
        window->call_count = call_first;
        window->dropped++;
        return false;
    }
    window->requests[window->request_count++] = (struct aw_window_request){
        .type = aw_window_type(window->names, request),
        .root_service = root->service,
        .start_ns = root->start_ns,
        .latency_ns = aw_request_latency_ns(request),
        .share_first = share_first,
        .share_count = window->share_count - share_first,
        .failed = root->flags & AW_SPAN_ERROR,
    };
    return true;
}
