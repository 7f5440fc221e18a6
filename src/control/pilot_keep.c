/* pilot_keep.c - what a workload has learned, in named parts. */
#include "control/pilot_keep.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "control/pilot_internal.h"

/* Of what the names mean. Another one is not read: raise it only where a name means something else.
 */
#define CONFIG_VERSION 1u
#define MEMORY_VERSION 1u
#define POLICY_VERSION 1u

#define SETTINGS_MAX      384u
#define SETTING_NAME_MAX  64u
#define DIFFERENCES_SHOWN 3u

/* --- settings --------------------------------------------------------------------------------- */

/* One packed behind the other, under names that later programs find. */
static struct {
    pthread_once_t once;
    struct aw_member member[SETTINGS_MAX];
    const struct aw_conf_field *field[SETTINGS_MAX];
    size_t part[SETTINGS_MAX]; /* offset of its part in the config */
    char name[SETTINGS_MAX][SETTING_NAME_MAX];
    uint32_t count, bytes;
    struct aw_shape shape, memory;
} shapes = {.once = PTHREAD_ONCE_INIT};

static char letter_of(enum aw_conf_type type)
{
    static const char letters[] = {
        [AW_CONF_BOOL] = 'b',     [AW_CONF_U32] = 'I', [AW_CONF_U64] = 'Q',
        [AW_CONF_F32] = 'f',      [AW_CONF_F64] = 'd', [AW_CONF_CHOICE] = 'I',
        [AW_CONF_U32_LIST] = 'L', [AW_CONF_TEXT] = 'c'};
    return letters[type];
}

static void shapes_make(void)
{
    for (const struct aw_conf_part *part = aw_pilot_fields; part->key; part++)
        for (const struct aw_conf_field *field = part->fields; field->key; field++) {
            const uint32_t at = shapes.count++;
            AW_ASSERT(at < SETTINGS_MAX);
            char *name = shapes.name[at];
            const int length = snprintf(name, SETTING_NAME_MAX, "%s/%s", part->key, field->key);
            AW_ASSERT(length > 0 && (size_t)length < SETTING_NAME_MAX);
            for (char *c = name; *c; c++) /* each is a group of its own */
                *c = *c == '.' ? '/' : *c;
            shapes.member[at] = (struct aw_member){.name = name,
                                                   .offset = shapes.bytes,
                                                   .bytes = (uint32_t)aw_conf_size(field),
                                                   .align = 1,
                                                   .type = letter_of(field->type)};
            shapes.field[at] = field;
            shapes.part[at] = part->offset;
            shapes.bytes += shapes.member[at].bytes;
        }
    aw_shape_of_members(&shapes.shape, CONFIG_VERSION, shapes.member, shapes.count, shapes.bytes);
    aw_shape_of(&shapes.memory, MEMORY_VERSION, aw__pilot_memory_layout);
}

static const void *setting(const struct aw_pilot_config *config, uint32_t i)
{
    return (const char *)config + shapes.part[i] + shapes.field[i]->offset;
}

static void config_pack(const struct aw_pilot_config *config, unsigned char *to)
{
    for (uint32_t i = 0; i < shapes.count; i++)
        memcpy(to + shapes.member[i].offset, setting(config, i), shapes.member[i].bytes);
}

static void config_unpack(struct aw_pilot_config *config, const unsigned char *from)
{
    for (uint32_t i = 0; i < shapes.count; i++)
        memcpy((char *)config + shapes.part[i] + shapes.field[i]->offset,
               from + shapes.member[i].offset, shapes.member[i].bytes);
}

/* "bounds.replicas_max 10 -> 12, ...". False: there are none. */
static bool differences(const struct aw_pilot_config *old, const struct aw_pilot_config *config,
                        struct aw_text *text)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < shapes.count; i++) {
        char was[AW_CONF_TEXT_MAX], now[AW_CONF_TEXT_MAX];
        if (memcmp(setting(old, i), setting(config, i), shapes.member[i].bytes) == 0)
            continue;
        if (count++ >= DIFFERENCES_SHOWN)
            continue;
        const size_t at = shapes.part[i];
        aw_conf_get(shapes.field[i], (const char *)old + at, was, sizeof was);
        aw_conf_get(shapes.field[i], (const char *)config + at, now, sizeof now);
        aw_text_add(text, "%s%s %s -> %s", count > 1 ? ", " : "", shapes.field[i]->key, was, now);
    }
    if (count > DIFFERENCES_SHOWN)
        aw_text_add(text, " and %u more settings", count - DIFFERENCES_SHOWN);
    return count > 0;
}

/* --- kept ------------------------------------------------------------------------------------- */

static const char *part_name(const char *place, const char *part, char *buf)
{
    const int length = snprintf(buf, AW_ARCHIVE_NAME_MAX, "%s/%s", place, part);
    AW_ASSERT(length > 0 && (size_t)length < AW_ARCHIVE_NAME_MAX);
    return buf;
}

static void policy_keep(const struct aw_policy *policy, const char *name,
                        struct aw_archive_writer *to)
{
    struct aw_shape shape;
    aw_shape_of(&shape, POLICY_VERSION, policy->ops->layout);
    void *bytes = aw_archive_add(to, name, &shape, policy->ops->state_bytes(policy->self));
    if (bytes)
        policy->ops->save(policy->self, bytes);
}

void aw_pilot_keep(const struct aw_pilot *pilot, const char *place, struct aw_archive_writer *to)
{
    char name[AW_ARCHIVE_NAME_MAX];
    pthread_once(&shapes.once, shapes_make);
    void *bytes = aw_archive_add(to, part_name(place, "config", name), &shapes.shape, shapes.bytes);
    if (bytes)
        config_pack(&pilot->config, bytes);
    bytes =
        aw_archive_add(to, part_name(place, "memory", name), &shapes.memory, sizeof pilot->memory);
    if (bytes)
        memcpy(bytes, &pilot->memory, sizeof pilot->memory);
    bytes = aw_archive_add(to, part_name(place, "fallback", name), NULL,
                           aw_fallback_state_bytes(pilot->fallback));
    if (bytes)
        aw_fallback_state_save(pilot->fallback, bytes);
    policy_keep(&pilot->policy, part_name(place, "policy", name), to);
    if (pilot->trial.self)
        policy_keep(&pilot->trial, part_name(place, "trial", name), to);
}

/* --- and found again -------------------------------------------------------------------------- */

struct finding {
    struct aw_archive *from;
    const char *place;
    char name[AW_ARCHIVE_NAME_MAX];
    char lost_buf[160];
    struct aw_text lost; /* parts that begin anew */
    bool same, anew;
};

static const struct aw_archive_part *part_of(struct finding *f, const char *part)
{
    return aw_archive_find(f->from, part_name(f->place, part, f->name));
}

static void lose(struct finding *f, const char *what)
{
    f->same = false;
    aw_text_add(&f->lost, "%s%s", *f->lost_buf ? ", " : "", what);
}

/* The settings that it was kept by; what the file does not say is as in the new ones. */
static bool config_find(struct finding *f, const struct aw_alloc *alloc,
                        struct aw_pilot_config *config)
{
    struct aw_archive_match match;
    const struct aw_archive_part *part = part_of(f, "config");
    unsigned char *bytes = part ? aw_alloc_new(alloc, shapes.bytes, 1) : NULL;
    if (!bytes)
        return false;
    config_pack(config, bytes);
    const enum aw_err err =
        aw_archive_take(f->from, part, &shapes.shape, bytes, shapes.bytes, &match);
    if (!err)
        config_unpack(config, bytes);
    aw_alloc_free(alloc, bytes);
    return !err;
}

/* Into `ret`, which is as a new pilot has it. */
static enum aw_err memory_find(struct finding *f, struct aw__pilot_memory *ret)
{
    struct aw_archive_match match;
    const struct aw_archive_part *part = part_of(f, "memory");
    const enum aw_err err =
        !part ? AW_ERR_NOTFOUND
              : aw_archive_take(f->from, part, &shapes.memory, ret, sizeof *ret, &match);
    if (err || match.same)
        return err;
    f->same = false;
    ret->in_flight = 0; /* what it was begun on may not be what is seen now */
    for (uint32_t i = 0; i < match.lost_count; i++)
        lose(f, match.lost[i]);
    if (aw_archive_lost(&match, "load_per_s")) /* a ring, and what counts in it */
        ret->minute_count = ret->minute_first = 0;
    return AW_OK;
}

/* A policy of the same kind into `policy`. AW_ERR_FORMAT: it cannot be read, and is to be thrown
 * away. */
static enum aw_err policy_find(struct finding *f, const struct aw_alloc *alloc,
                               const struct aw_policy *policy, const char *name)
{
    struct aw_shape shape;
    struct aw_archive_match match;
    const struct aw_archive_part *part = part_of(f, name);
    const size_t size = policy->ops->state_bytes(policy->self);
    void *bytes = part ? aw_alloc_new(alloc, size, 1) : NULL;
    if (!bytes)
        return part ? AW_ERR_NOMEM : AW_ERR_FORMAT;
    aw_shape_of(&shape, POLICY_VERSION, policy->ops->layout);
    policy->ops->save(policy->self, bytes);
    enum aw_err err = aw_archive_take(f->from, part, &shape, bytes, size, &match);
    for (uint32_t i = 0; !err && i < match.lost_count; i++)
        lose(f, match.lost[i]);
    f->same = f->same && !err && match.same;
    err = err ? err : policy->ops->load(policy->self, bytes);
    aw_alloc_free(alloc, bytes);
    return err;
}

/* Both policies. One that cannot be read is sought again. */
static enum aw_err policies_find(struct finding *f, struct aw_pilot *pilot,
                                 struct aw__pilot_memory *memory)
{
    const struct aw_policy_ops *ops = pilot->policy.ops;
    struct aw_policy anew = {0};
    enum aw_err err = policy_find(f, pilot->alloc, &pilot->policy, "policy");
    if (err == AW_ERR_FORMAT) {
        if ((err = aw_policy_new(ops, &pilot->policy_task, pilot->alloc, &anew)))
            return err;
        aw_policy_free(&pilot->policy);
        pilot->policy = anew;
        memory->origin = (struct aw_policy_origin){0};
        f->anew = true;
        lose(f, "its policy");
    }
    aw_policy_free(&pilot->trial);
    if (err || !aw_canary_busy(&memory->canary))
        return err;
    err = ops->elsewhere ? AW_ERR_FORMAT
                         : aw_policy_new(ops, &pilot->policy_task, pilot->alloc, &pilot->trial);
    err = err ? err : policy_find(f, pilot->alloc, &pilot->trial, "trial");
    if (err == AW_ERR_FORMAT) {
        aw_policy_free(&pilot->trial);
        aw_canary_begin(&memory->canary);
        lose(f, "the policy on trial");
        err = AW_OK;
    }
    return err;
}

/* All parts into a pilot with the settings that they were kept by. AW_ERR_FORMAT: what it remembers
 * cannot be read, and nothing changed. */
static enum aw_err parts_find(struct finding *f, struct aw_pilot *pilot)
{
    struct aw__pilot_memory memory = pilot->memory;
    enum aw_err err = memory_find(f, &memory);
    if (err)
        return err == AW_ERR_NOMEM ? err : AW_ERR_FORMAT;
    const struct aw_archive_part *part = part_of(f, "fallback");
    err = part && aw_archive_same(part, NULL, aw_fallback_state_bytes(pilot->fallback))
              ? aw_fallback_state_load(pilot->fallback, part->bytes)
              : AW_ERR_FORMAT;
    if (err == AW_ERR_FORMAT)
        lose(f, "the fallback's own past");
    err = err == AW_ERR_NOMEM ? err : policies_find(f, pilot, &memory);
    if (err)
        return err;
    pilot->memory = memory;
    pilot->moved = pilot->canary_moved = false;
    memset(&pilot->decision, 0, sizeof pilot->decision);
    aw_pilot_put_away(pilot);
    if (f->anew)
        aw__pilot_ask_anew(pilot);
    return AW_OK;
}

static void tell(const struct finding *f, const char *changes, bool anew,
                 struct aw_pilot_found *found)
{
    struct aw_text text;
    aw_text_init(&text, found->text, sizeof found->text);
    found->kind = anew                   ? AW_PILOT_FOUND_ASKED_ANEW
                  : f->same && !*changes ? AW_PILOT_FOUND_SAME
                                         : AW_PILOT_FOUND_KEPT;
    if (*changes)
        aw_text_add(&text, "%s: ", changes);
    else if (!f->same)
        aw_text_add(&text, "saved by another build of aware: ");
    if (anew)
        aw_text_add(&text, "the task has changed, so its policy is judged again from the offline "
                           "stage on; what was measured of the workload is kept");
    else if (found->kind == AW_PILOT_FOUND_KEPT)
        aw_text_add(&text, "what was learned is kept");
    if (*f->lost_buf)
        aw_text_add(&text, ", but for this, which begins anew: %s", f->lost_buf);
}

/* A pilot with the old settings, which knows what was kept, hands over to one with the new. */
static enum aw_err recover_other(struct finding *f, const struct aw_pilot_config *config,
                                 struct aw_pilot **pilot, bool *ret_anew, struct aw_diag *diag)
{
    struct aw_pilot *old = NULL, *made = NULL;
    const struct aw_pilot *new = *pilot;
    struct aw_plan stands = aw_plan_of(new->task.amount);
    struct aw_fallback_task task = {.bounds = config->bounds,
                                    .slo_latency_us = config->slo.latency_us_p99};
    aw_bounds_clip(&config->bounds, &stands);
    memcpy(task.amount, stands.amount, sizeof stands.amount);
    enum aw_err err = aw_pilot_new_among(config, &task, new->policy_task.now_us, new->among,
                                         new->alloc, &old, diag);
    if (!err && (err = parts_find(f, old)) == AW_ERR_NOMEM)
        aw_fail(diag, err, "no memory for workload %s", config->name);
    err = err ? err : aw_pilot_new_after(old, &new->config, &made, diag);
    if (!err) {
        *ret_anew = f->anew || !aw__pilot_same_question(old, made);
        aw_pilot_clock(made, new->clock);
        aw_pilot_free(*pilot);
        *pilot = made;
    }
    aw_pilot_free(old);
    return err;
}

enum aw_err aw_pilot_recover(struct aw_pilot **pilot, struct aw_archive *from, const char *place,
                             struct aw_pilot_found *found, struct aw_diag *diag)
{
    char changes[256] = "";
    struct aw_text text;
    struct finding f = {.from = from, .place = place, .same = true};
    struct aw_pilot_config config = (*pilot)->config;
    enum aw_err err = AW_ERR_FORMAT;
    bool anew = false;
    pthread_once(&shapes.once, shapes_make);
    aw_text_init(&f.lost, f.lost_buf, sizeof f.lost_buf);
    aw_text_init(&text, changes, sizeof changes);
    *found = (struct aw_pilot_found){0};
    if (!part_of(&f, "config") && !part_of(&f, "memory"))
        return AW_OK;
    if (config_find(&f, (*pilot)->alloc, &config)) {
        if (differences(&config, &(*pilot)->config, &text)) {
            err = recover_other(&f, &config, pilot, &anew, diag);
        } else {
            err = parts_find(&f, *pilot);
            anew = f.anew;
        }
    }
    if (err == AW_ERR_NOMEM)
        return err;
    if (!err) {
        tell(&f, changes, anew, found);
        return AW_OK;
    }
    found->kind = AW_PILOT_FOUND_UNREADABLE;
    snprintf(
        found->text, sizeof found->text,
        "what was learned of this workload was damaged, or saved in a way that this version of "
        "aware cannot read: it learns again");
    return AW_OK;
}
