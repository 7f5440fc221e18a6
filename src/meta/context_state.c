/*
 * context_state.c - a learner with context as it stands, to go on with: one safetensors file.
 *
 * Transitions and episodes of all workloads lie one after the other in one tensor each, and only
 * those that there are. A checksum over every tensor, its name and its shape is among the metadata:
 * a bit that flipped on a disk must not become a slightly different run.
 */
#include "meta/context_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FORMAT       "aware-context-state-3"
#define PARTS        31u
#define COUNTERS     13u
#define CHECKSUM_MAX 20u /* bytes of its text */

struct part {
    const char *name;
    enum aw_dtype dtype;
    uint64_t rows, columns;
    void *data;
    bool own; /* its place is the learner or the caller, not the pack */
};

/* What lies elsewhere in the learner than in the file, and the list of all parts. */
struct pack {
    struct part part[PARTS];
    uint32_t part_count;
    uint64_t transitions, episodes;
    uint64_t counter[COUNTERS];
    float *rows, *x, *teacher;
    uint8_t *taught;
    uint64_t *replay_count, *replay_cursor;                /* [workloads] */
    uint64_t *bundle_count, *bundle_next, *bundle_version; /* [workloads] */
    uint64_t *length, *id;                                 /* [episodes] */
    double *value;                                         /* [episodes] */
    void *block;
};

static void add(struct pack *pack, const char *name, enum aw_dtype dtype, uint64_t rows,
                uint64_t columns, void *data)
{
    AW_ASSERT(pack->part_count < PARTS);
    pack->part[pack->part_count++] = (struct part){name, dtype, rows, columns, data, false};
}

static void add_params(struct pack *pack, const char *const *names, struct aw_params *params)
{
    add(pack, names[0], AW_DTYPE_F32, params->count, 1, params->value);
    add(pack, names[1], AW_DTYPE_F32, params->count, 1, params->m);
    add(pack, names[2], AW_DTYPE_F32, params->count, 1, params->v);
}

static size_t kept_count(const struct aw_context *c)
{
    return c->encoding.count + c->actor.count + c->critic.count;
}

static void list(struct pack *pack, struct aw_context *c, uint64_t *own, size_t own_count)
{
    static const char *const encoder[] = {"encoder.value", "encoder.m", "encoder.v"};
    static const char *const actor[] = {"actor.value", "actor.m", "actor.v"};
    static const char *const critic[] = {"critic.value", "critic.m", "critic.v"};
    const uint64_t W = c->config.workloads, A = c->config.act_dim, in = c->encoder.config.in;
    const uint64_t E = pack->episodes;
    pack->part_count = 0;
    add_params(pack, encoder, &c->encoding);
    add_params(pack, actor, &c->actor);
    add_params(pack, critic, &c->critic);
    add(pack, "actor.target", AW_DTYPE_F32, c->actor.count, 1, c->actor_target);
    add(pack, "critic.target", AW_DTYPE_F32, c->critic.count, 1, c->critic_target);
    add(pack, "actor.held", AW_DTYPE_F32, c->actor.count, 1, c->actor_held);
    add(pack, "kept", AW_DTYPE_F32, kept_count(c), 1, c->kept);
    add(pack, "normal.mean", AW_DTYPE_F32, in, 1, c->encoder.normal.mean);
    add(pack, "normal.scale", AW_DTYPE_F32, in, 1, c->encoder.normal.scale);
    add(pack, "embedding", AW_DTYPE_F32, W, c->config.settings.embedding, c->embedding);
    add(pack, "embedded", AW_DTYPE_I64, W, sizeof *c->embedded / sizeof(uint64_t), c->embedded);
    add(pack, "own", AW_DTYPE_I64, own_count, 1, own);
    for (uint32_t i = 0; i < pack->part_count; i++)
        pack->part[i].own = true;
    add(pack, "counters", AW_DTYPE_I64, COUNTERS, 1, pack->counter);
    add(pack, "teacher", AW_DTYPE_F32, W, A, pack->teacher);
    add(pack, "taught", AW_DTYPE_U8, W, 1, pack->taught);
    add(pack, "replay.count", AW_DTYPE_I64, W, 1, pack->replay_count);
    add(pack, "replay.cursor", AW_DTYPE_I64, W, 1, pack->replay_cursor);
    add(pack, "replay.rows", AW_DTYPE_F32, pack->transitions, c->replay[0].row_floats, pack->rows);
    add(pack, "bundle.count", AW_DTYPE_I64, W, 1, pack->bundle_count);
    add(pack, "bundle.next", AW_DTYPE_I64, W, 1, pack->bundle_next);
    add(pack, "bundle.version", AW_DTYPE_I64, W, 1, pack->bundle_version);
    add(pack, "bundle.length", AW_DTYPE_I64, E, 1, pack->length);
    add(pack, "bundle.id", AW_DTYPE_I64, E, 1, pack->id);
    add(pack, "bundle.value", AW_DTYPE_F64, E, 1, pack->value);
    add(pack, "bundle.x", AW_DTYPE_F32, E, (uint64_t)c->config.steps * in, pack->x);
}

static void carve(struct pack *pack, const struct aw_context *c, struct aw_carve *take)
{
    const size_t W = c->config.workloads, E = pack->episodes;
    pack->rows = aw_carve_take(take, pack->transitions * c->replay[0].row_floats, sizeof(float));
    pack->x = aw_carve_take(take, E * c->config.steps * c->encoder.config.in, sizeof(float));
    pack->teacher = aw_carve_take(take, W * c->config.act_dim, sizeof(float));
    pack->taught = aw_carve_take(take, W, 1);
    pack->replay_count = aw_carve_take(take, W, sizeof(uint64_t));
    pack->replay_cursor = aw_carve_take(take, W, sizeof(uint64_t));
    pack->bundle_count = aw_carve_take(take, W, sizeof(uint64_t));
    pack->bundle_next = aw_carve_take(take, W, sizeof(uint64_t));
    pack->bundle_version = aw_carve_take(take, W, sizeof(uint64_t));
    pack->length = aw_carve_take(take, E, sizeof(uint64_t));
    pack->id = aw_carve_take(take, E, sizeof(uint64_t));
    pack->value = aw_carve_take(take, E, sizeof(double));
}

static enum aw_err pack_room(struct pack *pack, const struct aw_context *c)
{
    struct aw_carve take = {0};
    carve(pack, c, &take);
    if (!(pack->block = aw_alloc_new(c->alloc, take.used, 1)))
        return AW_ERR_NOMEM;
    take = (struct aw_carve){.base = pack->block};
    carve(pack, c, &take);
    return AW_OK;
}

/* --- out -------------------------------------------------------------------------------------- */

static void fill(struct pack *pack, const struct aw_context *c)
{
    const uint32_t A = c->config.act_dim;
    const size_t wide = (size_t)c->config.steps * c->encoder.config.in;
    uint64_t row = 0, episode = 0;
    const uint64_t counter[COUNTERS] = {
        c->rng.s[0],       c->rng.s[1],      c->rng.s[2],   c->rng.s[3],    c->version,
        c->updates,        c->encoding.step, c->actor.step, c->critic.step, c->has_kept,
        c->encoder_frozen, c->actor_frozen,  c->loaded};
    memcpy(pack->counter, counter, sizeof counter);
    for (uint32_t w = 0; w < c->config.workloads; w++) {
        const struct aw_replay *replay = &c->replay[w];
        const struct aw_bundle *bundle = &c->bundle[w];
        pack->replay_count[w] = replay->count;
        pack->replay_cursor[w] = replay->cursor;
        memcpy(pack->rows + row * replay->row_floats, replay->rows,
               (size_t)replay->count * replay->row_floats * sizeof(float));
        row += replay->count;
        pack->bundle_count[w] = bundle->count;
        pack->bundle_next[w] = bundle->next_id;
        pack->bundle_version[w] = bundle->version;
        for (uint32_t e = 0; e < bundle->count; e++, episode++) {
            pack->length[episode] = bundle->length[e];
            pack->id[episode] = bundle->id[e];
            pack->value[episode] = bundle->value[e];
            memcpy(pack->x + episode * wide, aw_bundle_episode(bundle, e), wide * sizeof(float));
        }
        const float *teacher = c->teacher + (size_t)w * A;
        pack->taught[w] = !isnan(teacher[0]);
        if (pack->taught[w])
            memcpy(pack->teacher + (size_t)w * A, teacher, A * sizeof *teacher);
    }
}

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; bytes; bytes--)
        h = (h ^ *at++) * 0x100000001b3u;
    return h;
}

static uint64_t mix_part(uint64_t h, const char *name, uint64_t rows, uint64_t columns,
                         const void *data, size_t bytes)
{
    const uint64_t shape[2] = {rows, columns};
    h = mix(h, name, strlen(name));
    h = mix(h, shape, sizeof shape);
    return mix(h, data, bytes);
}

enum aw_err aw_context_save_state(const struct aw_context *context, const char *path,
                                  const char *about, const uint64_t *own, size_t own_count,
                                  struct aw_diag *diag)
{
    struct aw_context *c = (struct aw_context *)(uintptr_t)context; /* parts are read alone */
    struct aw_safetensors_writer *writer = NULL;
    struct pack pack = {0};
    char text[CHECKSUM_MAX];
    uint64_t sum = 0;
    for (uint32_t w = 0; w < c->config.workloads; w++) {
        pack.transitions += c->replay[w].count;
        pack.episodes += c->bundle[w].count;
    }
    enum aw_err err = pack_room(&pack, c);
    err = err ? err : aw_safetensors_writer_new(c->alloc, &writer);
    if (!err) {
        fill(&pack, c);
        list(&pack, c, (uint64_t *)(uintptr_t)own, own_count);
    }
    for (uint32_t i = 0; !err && i < pack.part_count; i++) {
        const struct part *part = &pack.part[i];
        const uint64_t shape[2] = {part->rows, part->columns};
        sum = mix_part(sum, part->name, part->rows, part->columns, part->data,
                       part->rows * part->columns * aw_dtype_size(part->dtype));
        err = aw_safetensors_add(writer, part->name, part->dtype, 2, shape, part->data);
    }
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    err = err ? err : aw__context_meta_add(writer, FORMAT, &c->config);
    err = err ? err : aw_safetensors_add_meta(writer, "checksum", text);
    err = err ? err : aw_safetensors_add_meta(writer, "about", about);
    if (err)
        aw_fail_at(diag, err, path, 0, 0, NULL, "cannot be written");
    err = err ? err : aw_safetensors_write(writer, path, diag);
    aw_safetensors_writer_free(writer);
    aw_alloc_free(c->alloc, pack.block);
    return err;
}

/* --- in --------------------------------------------------------------------------------------- */

/* The first line in which two texts differ, in words. */
static enum aw_err about_same(const char *path, const char *found, const char *expected,
                              struct aw_diag *diag)
{
    while (*found || *expected) {
        const size_t f = strcspn(found, "\n"), e = strcspn(expected, "\n");
        if (f != e || memcmp(found, expected, f) != 0)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                              "the state is of another run: it has \"%.*s\", and this is \"%.*s\"",
                              (int)(f < 80 ? f : 80), found, (int)(e < 80 ? e : 80), expected);
        found += f + (found[f] == '\n');
        expected += e + (expected[e] == '\n');
    }
    return AW_OK;
}

static enum aw_err config_same(const char *path, const struct aw_context_config *found,
                               const struct aw_context_config *here, struct aw_diag *diag)
{
    if (found->obs_dim != here->obs_dim || found->act_dim != here->act_dim ||
        found->steps != here->steps || found->seed != here->seed)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                          "the state is of another learner: %u states, %u actions, %u steps, seed "
                          "%" PRIu64 "; expected %u, %u, %u, %" PRIu64,
                          found->obs_dim, found->act_dim, found->steps, found->seed, here->obs_dim,
                          here->act_dim, here->steps, here->seed);
    for (const struct aw_conf_field *field = aw_context_fields; field->key; field++) {
        char a[AW_CONF_TEXT_MAX], b[AW_CONF_TEXT_MAX];
        aw_conf_get(field, &found->settings, a, sizeof a);
        aw_conf_get(field, &here->settings, b, sizeof b);
        if (strcmp(a, b) != 0)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, field->key,
                              "the state was saved with %s, and this is %s", a, b);
    }
    return AW_OK;
}

static uint64_t rows_of(const struct aw_safetensors *file, const char *name)
{
    struct aw_tensor_view view;
    return aw_safetensors_find(file, name, &view) && view.rank == 2 ? view.shape[0] : 0;
}

/* Every part is there, shaped as it must be, finite, and the sum of them all is as it was. */
static enum aw_err parts_check(const struct aw_safetensors *file, const char *path,
                               const struct pack *pack, struct aw_diag *diag)
{
    const char *said = aw_safetensors_meta(file, "checksum");
    char text[CHECKSUM_MAX];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < pack->part_count; i++) {
        const struct part *part = &pack->part[i];
        struct aw_tensor_view view;
        if (!aw_safetensors_find(file, part->name, &view) || view.dtype != part->dtype ||
            view.rank != 2 || view.shape[0] != part->rows || view.shape[1] != part->columns)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, part->name,
                              "missing, or not of %" PRIu64 " by %" PRIu64 " numbers", part->rows,
                              part->columns);
        sum = mix_part(sum, part->name, part->rows, part->columns, view.data, view.bytes);
        if (part->dtype == AW_DTYPE_F32 && !aw_params_finite(view.data, view.bytes / 4))
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, part->name,
                              "a number is not finite");
    }
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    if (!said || strcmp(said, text) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "checksum",
                          "the file is damaged: its content adds up to %s, and %s was written",
                          text, said ? said : "nothing");
    return AW_OK;
}

/* Counts that fit each other: nothing in the file may lead outside of the learner's memory. */
static bool counts_fit(const struct pack *pack, const struct aw_context *c)
{
    const struct aw_context_settings *s = &c->config.settings;
    uint64_t rows = 0, episodes = 0;
    bool fit = (pack->counter[0] | pack->counter[1] | pack->counter[2] | pack->counter[3]) != 0;
    for (uint32_t w = 0; fit && w < c->config.workloads; w++) {
        fit = pack->replay_count[w] <= s->replay && pack->replay_cursor[w] < s->replay &&
              pack->bundle_count[w] <= s->episodes;
        rows += pack->replay_count[w];
        episodes += pack->bundle_count[w];
    }
    for (uint64_t e = 0; fit && e < pack->episodes; e++)
        fit = pack->length[e] > 0 && pack->length[e] <= c->config.steps;
    return fit && rows == pack->transitions && episodes == pack->episodes;
}

static void take_back(struct aw_context *c, const struct pack *pack)
{
    const uint32_t A = c->config.act_dim;
    const size_t wide = (size_t)c->config.steps * c->encoder.config.in;
    uint64_t row = 0, episode = 0;
    memcpy(c->rng.s, pack->counter, sizeof c->rng.s);
    c->version = pack->counter[4];
    c->updates = pack->counter[5];
    c->encoding.step = pack->counter[6];
    c->actor.step = pack->counter[7];
    c->critic.step = pack->counter[8];
    c->has_kept = pack->counter[9] != 0;
    c->encoder_frozen = pack->counter[10] != 0;
    c->actor_frozen = pack->counter[11] != 0;
    c->loaded = pack->counter[12] != 0;
    for (uint32_t w = 0; w < c->config.workloads; w++) {
        struct aw_replay *replay = &c->replay[w];
        struct aw_bundle *bundle = &c->bundle[w];
        replay->count = (uint32_t)pack->replay_count[w];
        replay->cursor = pack->replay_cursor[w];
        memcpy(replay->rows, pack->rows + row * replay->row_floats,
               (size_t)replay->count * replay->row_floats * sizeof(float));
        row += replay->count;
        bundle->count = (uint32_t)pack->bundle_count[w];
        bundle->next_id = pack->bundle_next[w];
        bundle->version = pack->bundle_version[w];
        for (uint32_t e = 0; e < bundle->count; e++, episode++) {
            bundle->length[e] = (uint32_t)pack->length[episode];
            bundle->id[e] = pack->id[episode];
            bundle->value[e] = pack->value[episode];
            memcpy(bundle->x + e * wide, pack->x + episode * wide, wide * sizeof(float));
        }
        for (uint32_t i = 0; i < A; i++)
            c->teacher[(size_t)w * A + i] =
                pack->taught[w] ? pack->teacher[(size_t)w * A + i] : NAN;
    }
}

enum aw_err aw_context_load_state(struct aw_context *c, const char *path, const char *about,
                                  uint64_t *own, size_t own_count, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_context_config config;
    struct pack pack = {0};
    enum aw_err err = aw_safetensors_open(path, c->alloc, &file, diag);
    err = err ? err : aw__context_meta_read(file, FORMAT, path, &config, diag);
    err = err ? err : config_same(path, &config, &c->config, diag);
    if (!err) {
        const char *found = aw_safetensors_meta(file, "about");
        err = about_same(path, found ? found : "", about, diag);
    }
    if (!err) {
        const uint64_t most = c->config.workloads;
        pack.transitions = rows_of(file, "replay.rows");
        pack.episodes = rows_of(file, "bundle.x");
        if (pack.transitions > most * c->config.settings.replay ||
            pack.episodes > most * c->config.settings.episodes)
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "more than the learner holds");
        else if ((err = pack_room(&pack, c)))
            aw_fail_at(diag, err, path, 0, 0, NULL, "no memory to read it");
    }
    if (!err) {
        list(&pack, c, own, own_count);
        err = parts_check(file, path, &pack, diag);
    }
    /* First what is only in the pack, so that its counts can be looked at; then the learner. */
    for (uint32_t pass = 0; !err && pass < 2; pass++) {
        for (uint32_t i = 0; i < pack.part_count; i++) {
            struct aw_tensor_view view;
            if (pack.part[i].own == (pass == 1) &&
                aw_safetensors_find(file, pack.part[i].name, &view) && view.bytes > 0)
                memcpy(pack.part[i].data, view.data, view.bytes);
        }
        if (pass == 0 && !counts_fit(&pack, c))
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                             "the file is damaged: its counts do not fit each other");
    }
    if (!err)
        take_back(c, &pack);
    aw_safetensors_close(file);
    aw_alloc_free(c->alloc, pack.block);
    return err;
}
