/* loop_keep.c - the state of a loop: as bytes of this build, and as parts for a later process. */
#include "control/loop_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/envelope.h"

/* --- bytes ------------------------------------------------------------------------------------ */

AW_LAYOUT(counts_layout, struct aw_loop_counts, 0, ticks, decisions, plans_applied,
          observe_failures, apply_failures, store_failures, record_failures, learn_rounds,
          learn_failures, learn_waiting, learn_waited);
static struct aw_format format = {
    .kind = "loop", .what = "the state of all workloads", .version = 1, .layout = {counts_layout}};

/* Credits, waiting times and when they were brought up to date: without them a run that goes on
 * would share otherwise than one that never stopped. */
static size_t tenancy_bytes(const struct aw_loop *loop)
{
    const struct aw__loop_tenancy *t = loop->tenancy;
    return t ? sizeof t->last_us + loop->count * sizeof *t->since +
                   t->tenant_count * sizeof t->tenant->credit
             : 0;
}

static void tenancy_save(const struct aw_loop *loop, unsigned char *to)
{
    const struct aw__loop_tenancy *t = loop->tenancy;
    if (!t)
        return;
    memcpy(to, &t->last_us, sizeof t->last_us);
    to += sizeof t->last_us;
    memcpy(to, t->since, loop->count * sizeof *t->since);
    to += loop->count * sizeof *t->since;
    for (uint32_t i = 0; i < t->tenant_count; i++, to += sizeof t->tenant[i].credit)
        memcpy(to, &t->tenant[i].credit, sizeof t->tenant[i].credit);
}

static void tenancy_load(struct aw_loop *loop, const unsigned char *from)
{
    struct aw__loop_tenancy *t = loop->tenancy;
    if (!t)
        return;
    memcpy(&t->last_us, from, sizeof t->last_us);
    from += sizeof t->last_us;
    memcpy(t->since, from, loop->count * sizeof *t->since);
    from += loop->count * sizeof *t->since;
    for (uint32_t i = 0; i < t->tenant_count; i++, from += sizeof t->tenant[i].credit)
        memcpy(&t->tenant[i].credit, from, sizeof t->tenant[i].credit);
}

size_t aw_loop_state_bytes(const struct aw_loop *loop)
{
    size_t bytes = sizeof(struct aw_envelope) + sizeof loop->counts + tenancy_bytes(loop);
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct aw__loop_slot *slot = &loop->slot[i];
        bytes += sizeof slot->since + (slot->pilot ? aw_pilot_state_bytes(slot->pilot) : 0);
    }
    return bytes;
}

void aw_loop_state_save(const struct aw_loop *loop, void *bytes)
{
    unsigned char *to = (unsigned char *)bytes + sizeof(struct aw_envelope);
    memcpy(to, &loop->counts, sizeof loop->counts);
    to += sizeof loop->counts;
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct aw__loop_slot *slot = &loop->slot[i];
        const uint64_t since = slot->pilot ? slot->since : AW__LOOP_EMPTY;
        memcpy(to, &since, sizeof since);
        to += sizeof since;
        if (!slot->pilot)
            continue;
        aw_pilot_state_save(slot->pilot, to);
        to += aw_pilot_state_bytes(slot->pilot);
    }
    tenancy_save(loop, to);
    aw_envelope_seal(&format, loop->count, bytes, aw_loop_state_bytes(loop));
}

enum aw_err aw_loop_state_load(struct aw_loop *loop, const void *bytes)
{
    const unsigned char *from = (const unsigned char *)bytes + sizeof(struct aw_envelope);
    if (aw_envelope_open(&format, loop->count, bytes, aw_loop_state_bytes(loop), NULL))
        return AW_ERR_FORMAT;
    memcpy(&loop->counts, from, sizeof loop->counts);
    from += sizeof loop->counts;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw__loop_slot *slot = &loop->slot[i];
        uint64_t since;
        memcpy(&since, from, sizeof since);
        from += sizeof since;
        if ((since == AW__LOOP_EMPTY) != (slot->pilot == NULL))
            return AW_ERR_FORMAT;
        if (!slot->pilot)
            continue;
        const enum aw_err err = aw_pilot_state_load(slot->pilot, from);
        if (err)
            return err;
        from += aw_pilot_state_bytes(slot->pilot);
        slot->since = since;
        slot->key = AW__LOOP_NOT_DUE;
    }
    tenancy_load(loop, from);
    return AW_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

static const char *place_of(const struct aw__loop_slot *slot, const char *place, const char *part,
                            char *buf)
{
    snprintf(buf, AW_ARCHIVE_NAME_MAX, "%s/%s%s", place, aw_pilot_config(slot->pilot)->name, part);
    return buf;
}

/* When it is due, and what it began from. */
static void round_keep(const struct aw_loop *loop, const struct aw__loop_round *round,
                       const char *name, struct aw_archive_writer *to)
{
    size_t size = 0;
    const void *from = aw_pilot_round_bytes(loop->learning.place[round->place].round, &size);
    unsigned char *bytes = aw_archive_add(to, name, NULL, sizeof round->due + size);
    if (!bytes)
        return;
    memcpy(bytes, &round->due, sizeof round->due);
    memcpy(bytes + sizeof round->due, from, size);
}

/* A round that was under way. Where everything is as it was it is begun again from where it began,
 * and is over when it would have been; else it is due. */
static enum aw_err round_find(struct aw_loop *loop, uint32_t workload, bool same,
                              const struct aw_archive_part *part, struct aw_diag *diag)
{
    struct aw_pilot *pilot = loop->slot[workload].pilot;
    struct aw_pilot_round *made = NULL;
    uint64_t due = 0;
    if (part->size < sizeof due)
        return AW_OK;
    memcpy(&due, part->bytes, sizeof due);
    enum aw_err err = AW_ERR_FORMAT;
    if (same && loop->mode == AW_LOOP_LEARN_AFTER && due > 0 &&
        aw__learning_room(&loop->learning) > 0)
        err = aw_pilot_round_again(pilot, (const unsigned char *)part->bytes + sizeof due,
                                   part->size - sizeof due, loop->store, &made, diag);
    if (!err)
        aw__loop_round_put(loop, workload, made, due);
    else if (err == AW_ERR_FORMAT)
        aw_pilot_learn_again(pilot);
    return err == AW_ERR_FORMAT ? AW_OK : err;
}

void aw_loop_keep_one(const struct aw_loop *loop, uint32_t workload, const char *place,
                      struct aw_archive_writer *to)
{
    char name[AW_ARCHIVE_NAME_MAX];
    const struct aw__loop_slot *slot = &loop->slot[workload];
    aw_pilot_keep(slot->pilot, place, to);
    snprintf(name, sizeof name, "%s/round", place);
    if (slot->round != AW__LOOP_NOBODY)
        round_keep(loop, &loop->rounds[slot->round], name, to);
}

static const char *credit_of(const struct aw__loop_tenancy *t, uint32_t tenant, const char *place,
                             char *buf)
{
    snprintf(buf, AW_ARCHIVE_NAME_MAX, "%s/tenants/%s/credit", place, t->name[tenant].text);
    return buf;
}

static void part_put(struct aw_archive_writer *to, const char *name, const void *from, size_t size)
{
    void *bytes = aw_archive_add(to, name, NULL, size);
    if (bytes)
        memcpy(bytes, from, size);
}

/* False: there is none, or it is of another size. */
static bool part_get(struct aw_archive *from, const char *name, void *to, size_t size)
{
    const struct aw_archive_part *part = aw_archive_find(from, name);
    const bool there = part && part->size == size;
    if (there)
        memcpy(to, part->bytes, size);
    return there;
}

static void tenancy_keep(const struct aw_loop *loop, const char *place,
                         struct aw_archive_writer *to)
{
    const struct aw__loop_tenancy *t = loop->tenancy;
    char name[AW_ARCHIVE_NAME_MAX];
    if (!t)
        return;
    snprintf(name, sizeof name, "%s/arbitrated", place);
    part_put(to, name, &t->last_us, sizeof t->last_us);
    for (uint32_t i = 0; i < t->tenant_count; i++)
        part_put(to, credit_of(t, i, place, name), &t->tenant[i].credit,
                 sizeof t->tenant[i].credit);
    for (uint32_t i = 0; i < loop->count; i++)
        if (loop->slot[i].pilot)
            part_put(to, place_of(&loop->slot[i], place, "/share", name), &t->since[i],
                     sizeof t->since[i]);
}

/* A tenant or workload that is new begins without a past. False: something was not there. */
static bool tenancy_recover(struct aw_loop *loop, struct aw_archive *from, const char *place)
{
    struct aw__loop_tenancy *t = loop->tenancy;
    char name[AW_ARCHIVE_NAME_MAX];
    if (!t)
        return true;
    snprintf(name, sizeof name, "%s/arbitrated", place);
    bool same = part_get(from, name, &t->last_us, sizeof t->last_us);
    for (uint32_t i = 0; i < t->tenant_count; i++)
        same &= part_get(from, credit_of(t, i, place, name), &t->tenant[i].credit,
                         sizeof t->tenant[i].credit);
    for (uint32_t i = 0; i < loop->count; i++)
        if (loop->slot[i].pilot)
            same &= part_get(from, place_of(&loop->slot[i], place, "/share", name), &t->since[i],
                             sizeof t->since[i]);
    return same;
}

void aw_loop_keep(const struct aw_loop *loop, const char *place, struct aw_archive_writer *to)
{
    char name[AW_ARCHIVE_NAME_MAX];
    struct aw_shape shape;
    aw_shape_of(&shape, format.version, counts_layout);
    snprintf(name, sizeof name, "%s/counts", place);
    void *bytes = aw_archive_add(to, name, &shape, sizeof loop->counts);
    if (bytes)
        memcpy(bytes, &loop->counts, sizeof loop->counts);
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct aw__loop_slot *slot = &loop->slot[i];
        if (!slot->pilot)
            continue;
        aw_loop_keep_one(loop, i, place_of(slot, place, "", name), to);
        bytes = aw_archive_add(to, place_of(slot, place, "/since", name), NULL, sizeof slot->since);
        if (bytes)
            memcpy(bytes, &slot->since, sizeof slot->since);
    }
    tenancy_keep(loop, place, to);
}

enum aw_err aw_loop_recover_one(struct aw_loop *loop, uint32_t workload, struct aw_archive *from,
                                const char *place, struct aw_pilot_found *found,
                                struct aw_diag *diag)
{
    char name[AW_ARCHIVE_NAME_MAX];
    AW_ASSERT(aw_loop_has(loop, workload));
    snprintf(name, sizeof name, "%s/round", place); /* `place` may be a name that the pilot has */
    const enum aw_err err = aw_pilot_recover(&loop->slot[workload].pilot, from, place, found, diag);
    /* its settings are those that there was room made for */
    AW_ASSERT(!loop->moment ||
              aw_pilot_snapshot_bytes_max(loop->slot[workload].pilot) <= loop->moment_bytes);
    const struct aw_archive_part *part = err ? NULL : aw_archive_find(from, name);
    if (!part || found->kind == AW_PILOT_FOUND_UNREADABLE)
        return err;
    return round_find(loop, workload, found->kind == AW_PILOT_FOUND_SAME, part, diag);
}

enum aw_err aw_loop_recover(struct aw_loop *loop, struct aw_archive *from, const char *place,
                            aw_loop_found *found, void *ctx, bool *ret_same, struct aw_diag *diag)
{
    char name[AW_ARCHIVE_NAME_MAX];
    struct aw_shape shape;
    struct aw_archive_match match = {0};
    snprintf(name, sizeof name, "%s/counts", place);
    const struct aw_archive_part *part = aw_archive_find(from, name);
    aw_shape_of(&shape, format.version, counts_layout);
    *ret_same = part &&
                !aw_archive_take(from, part, &shape, &loop->counts, sizeof loop->counts, &match) &&
                match.same;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw__loop_slot *slot = &loop->slot[i];
        struct aw_pilot_found what;
        if (!slot->pilot)
            continue;
        place_of(slot, place, "", name);
        const enum aw_err err = aw_loop_recover_one(loop, i, from, name, &what, diag);
        if (err)
            return err;
        part = aw_archive_find(from, place_of(slot, place, "/since", name));
        if (part && part->size == sizeof slot->since)
            memcpy(&slot->since, part->bytes, sizeof slot->since);
        *ret_same = *ret_same && part && what.kind == AW_PILOT_FOUND_SAME;
        if (found)
            found(ctx, i, &what);
    }
    *ret_same = tenancy_recover(loop, from, place) && *ret_same;
    return AW_OK;
}
