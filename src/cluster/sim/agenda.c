/* agenda.c - an indexed binary heap. */
#include "cluster/sim/agenda.h"

enum aw_err aw__agenda_init(struct aw__agenda *agenda, uint32_t id_count,
                            const struct aw_alloc *alloc)
{
    struct aw_carve carve = {0};
    *agenda = (struct aw__agenda){0};
    for (int pass = 0; pass < 2; pass++) {
        agenda->time_us = aw_carve_take(&carve, id_count, sizeof *agenda->time_us);
        agenda->place = aw_carve_take(&carve, id_count, sizeof *agenda->place);
        agenda->heap = aw_carve_take(&carve, id_count, sizeof *agenda->heap);
        if (pass == 0) {
            void *block = aw_alloc_new(alloc, carve.used, 1);
            if (!block) {
                *agenda = (struct aw__agenda){0};
                return AW_ERR_NOMEM;
            }
            carve = (struct aw_carve){.base = block};
        }
    }
    agenda->id_count = id_count;
    for (uint32_t i = 0; i < id_count; i++)
        agenda->place[i] = AW__AGENDA_NONE;
    return AW_OK;
}

void aw__agenda_deinit(struct aw__agenda *agenda, const struct aw_alloc *alloc)
{
    aw_alloc_free(alloc, agenda->time_us); /* the first part of the block */
    *agenda = (struct aw__agenda){0};
}

void aw__agenda_clear(struct aw__agenda *agenda)
{
    for (uint32_t i = 0; i < agenda->count; i++)
        agenda->place[agenda->heap[i]] = AW__AGENDA_NONE;
    agenda->count = 0;
}

static bool earlier(const struct aw__agenda *agenda, uint32_t a, uint32_t b)
{
    double ta = agenda->time_us[a], tb = agenda->time_us[b];
    return ta < tb || (ta == tb && a < b);
}

static void put(struct aw__agenda *agenda, uint32_t place, uint32_t id)
{
    agenda->heap[place] = id;
    agenda->place[id] = place;
}

static void rise(struct aw__agenda *agenda, uint32_t place, uint32_t id)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (!earlier(agenda, id, agenda->heap[parent]))
            break;
        put(agenda, place, agenda->heap[parent]);
        place = parent;
    }
    put(agenda, place, id);
}

static void sink(struct aw__agenda *agenda, uint32_t place, uint32_t id)
{
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= agenda->count)
            break;
        if (child + 1 < agenda->count &&
            earlier(agenda, agenda->heap[child + 1], agenda->heap[child]))
            child++;
        if (!earlier(agenda, agenda->heap[child], id))
            break;
        put(agenda, place, agenda->heap[child]);
        place = child;
    }
    put(agenda, place, id);
}

void aw__agenda_set(struct aw__agenda *agenda, uint32_t id, double time_us)
{
    uint32_t place = agenda->place[id];
    double before = agenda->time_us[id];
    agenda->time_us[id] = time_us;
    if (place == AW__AGENDA_NONE)
        rise(agenda, agenda->count++, id);
    else if (time_us < before)
        rise(agenda, place, id);
    else
        sink(agenda, place, id);
}

void aw__agenda_remove(struct aw__agenda *agenda, uint32_t id)
{
    uint32_t place = agenda->place[id];
    if (place == AW__AGENDA_NONE)
        return;
    agenda->place[id] = AW__AGENDA_NONE;
    uint32_t last = agenda->heap[--agenda->count];
    if (last == id)
        return;
    rise(agenda, place, last);
    sink(agenda, agenda->place[last], last);
}
