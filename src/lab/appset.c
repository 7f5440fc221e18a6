/* appset.c - ranges and files of applications, and the load of each. */
#include "lab/appset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "lab/load.h"
#include "pretrain/pretrain.h"

enum aw_err aw_appset_open(struct aw_appset *pool, const char *load, struct aw_diag *diag)
{
    const char *data = getenv("AWARE_DATA_DIR");
    *pool = (struct aw_appset){0};
    if (!load && !data)
        return aw_fail(diag, AW_ERR_USAGE,
                       "no load: say --load, or set AWARE_DATA_DIR to where " AW_APPSET_TRACE
                       " is");
    const int len = load ? snprintf(pool->load, sizeof pool->load, "%s", load)
                         : snprintf(pool->load, sizeof pool->load, "%s/" AW_APPSET_TRACE, data);
    if (len < 0 || (size_t)len >= sizeof pool->load)
        return aw_fail(diag, AW_ERR_LIMIT, "--load: has at most %zu bytes", sizeof pool->load - 1);
    const char *slash = strrchr(pool->load, '/');
    pool->shown = slash ? slash + 1 : pool->load;
    pool->pattern = aw__load_is_pattern(pool->load);
    enum aw_err err = AW_OK;
    if (pool->pattern) {
        struct aw_load probe = {0}; /* a word that is wrong is told before anything begins */
        err = aw_load_parse(pool->load, 0, NULL, &probe, diag);
        aw_load_deinit(&probe);
    } else {
        err = aw_trace_pack_parse(pool->load, 2 * AW__APPSET_RANKS, NULL, &pool->pack, diag);
    }
    if (err)
        *pool = (struct aw_appset){0};
    return err;
}

void aw_appset_close(struct aw_appset *pool)
{
    aw_trace_pack_deinit(&pool->pack);
    *pool = (struct aw_appset){0};
}

/* From 0. A trace with fewer functions begins again, and odd stays odd. */
static uint32_t rank_of(uint32_t app, bool odd, uint32_t count)
{
    const uint32_t rank = 2 * (app % AW__APPSET_RANKS) + (odd ? 0 : 1);
    return count < 2 ? 0 : rank % (count - count % 2);
}

enum aw_err aw_appset_load(const struct aw_appset *pool, uint32_t app, bool odd,
                           const struct aw_alloc *alloc, struct aw_load *ret, struct aw_diag *diag)
{
    if (pool->pattern)
        return aw_load_parse(pool->load, app, alloc, ret, diag);
    const struct aw_load *from = &pool->pack.load[rank_of(app, odd, pool->pack.count)];
    struct aw_load load;
    const enum aw_err err =
        aw_load_init(&load, from->name, from->slot_count, from->slot_us, alloc, diag);
    if (err)
        return err;
    memcpy(load.rate_per_s, from->rate_per_s, from->slot_count * sizeof *load.rate_per_s);
    *ret = load;
    return AW_OK;
}

enum aw_err aw_appset_make(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                           struct aw_load *ret, struct aw_diag *diag)
{
    return aw_appset_load(ctx, app, app < AW__APPSET_TEST_FIRST, alloc, ret, diag);
}

/* The number before `end` of `text`, which moves behind it; false: there is none. */
static bool number_take(const char **text, char end, uint64_t max, uint64_t *ret)
{
    char digits[24];
    const size_t len = end ? strcspn(*text, (const char[]){end, '\0'}) : strlen(*text);
    if (len == 0 || len >= sizeof digits || (end && (*text)[len] != end))
        return false;
    memcpy(digits, *text, len);
    digits[len] = '\0';
    if (aw_text_parse_u64(digits, ret) || *ret > max)
        return false;
    *text += len + (end != '\0');
    return true;
}

enum aw_err aw__appset_range(const char *text, const char *key, uint64_t *ret_seed,
                             uint32_t *ret_first, uint32_t *ret_count, struct aw_diag *diag)
{
    const char *at = text;
    uint64_t seed = *ret_seed, first = 0, last = 0, count = 0;
    const bool seeded = strchr(text, ':') != NULL, range = strchr(text, '-') != NULL;
    bool good = !seeded || number_take(&at, ':', INT64_MAX, &seed);
    if (range) {
        good = good && number_take(&at, '-', UINT32_MAX / 2, &first) &&
               number_take(&at, '\0', UINT32_MAX / 2, &last) && last >= first;
        count = last - first + 1;
    } else {
        good = good && seeded && number_take(&at, '\0', UINT32_MAX / 2, &count);
    }
    if (!good || count == 0 || count > AW_PRETRAIN_APPS_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key,
                          "expected [SEED:]FIRST-LAST, SEED:N or a file, at most %u applications, "
                          "found %s",
                          AW_PRETRAIN_APPS_MAX, AW_QUOTE(text));
    *ret_seed = seed;
    *ret_first = (uint32_t)first;
    *ret_count = (uint32_t)count;
    return AW_OK;
}

enum aw_err aw__appset_app(const char *text, const char *key, uint64_t *ret_seed,
                           uint32_t *ret_index, struct aw_diag *diag)
{
    const char *at = text;
    uint64_t seed = *ret_seed, index = 0;
    if ((strchr(text, ':') && !number_take(&at, ':', INT64_MAX, &seed)) ||
        !number_take(&at, '\0', UINT32_MAX / 2, &index))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key,
                          "expected [SEED:]INDEX or FILE:NAME, found %s", AW_QUOTE(text));
    *ret_seed = seed;
    *ret_index = (uint32_t)index;
    return AW_OK;
}

/* --- of a file -------------------------------------------------------------------------------- */

static bool is_number_like(const char *text)
{
    return text[strspn(text, "0123456789:-")] == '\0';
}

/* As aw_apps_read, with at least one and no more than can be learned from. */
static enum aw_err file_read(const char *path, const char *key, struct aw_apps *ret,
                             struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root = NULL;
    struct aw_apps apps = {0};
    enum aw_err err = aw_tree_load_file(&tree, path, NULL, diag);
    if (err == AW_ERR_NOTFOUND && access(path, F_OK) != 0)
        return aw_fail_at(diag, err, path, 0, 0, key,
                          "there is no such file, and it is no application of the generator");
    err = err ? err : aw_tree_only(&tree, &root, diag);
    err = err ? err : aw_apps_decode(&tree, root, NULL, 0, NULL, &apps, diag);
    if (!err && apps.app_count == 0)
        err = aw_tree_place(
            &tree, root,
            aw_fail(diag, AW_ERR_CONFIG, "expected \"apps\" with something in it, found segments"),
            diag);
    else if (!err && apps.app_count > AW_PRETRAIN_APPS_MAX)
        err = aw_tree_place_key(&tree, aw_node_find(root, "apps"),
                                aw_fail(diag, AW_ERR_LIMIT, "at most %u applications, found %u",
                                        AW_PRETRAIN_APPS_MAX, apps.app_count),
                                diag);
    if (err)
        aw_apps_deinit(&apps);
    else
        *ret = apps;
    aw_tree_deinit(&tree);
    return err;
}

static void pool_fill(struct aw_pretrain_pool *pool, const char *path, const struct aw_apps *file,
                      uint32_t first, uint32_t count)
{
    const char *slash = strrchr(path, '/');
    uint64_t seed = AW_HASH_BEGIN;
    for (uint32_t i = 0; i < file->app_count; i++) {
        const uint64_t hash = aw_app_hash(&file->apps[i]);
        seed = aw_hash_bytes(seed, &hash, sizeof hash);
    }
    pool->seed = seed;
    pool->first = first;
    pool->count = count;
    pool->apps = file->apps;
    pool->file = slash ? slash + 1 : path;
}

enum aw_err aw_appset_pool(const char *text, const char *key, struct aw_pretrain_pool *ret_pool,
                           struct aw_apps *ret_file, struct aw_diag *diag)
{
    if (is_number_like(text))
        return aw__appset_range(text, key, &ret_pool->seed, &ret_pool->first, &ret_pool->count,
                                diag);
    const enum aw_err err = file_read(text, key, ret_file, diag);
    if (!err)
        pool_fill(ret_pool, text, ret_file, 0, ret_file->app_count);
    return err;
}

enum aw_err aw_appset_one(const char *text, const char *key, struct aw_pretrain_pool *ret_pool,
                          struct aw_apps *ret_file, struct aw_diag *diag)
{
    char path[AW_TEXT_MAX];
    const char *colon = access(text, F_OK) == 0 ? NULL : strrchr(text, ':');
    struct aw_apps file = {0};
    if (is_number_like(text) || (!colon && access(text, F_OK) != 0))
        return aw__appset_app(text, key, &ret_pool->seed, &ret_pool->first, diag);
    snprintf(path, sizeof path, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    enum aw_err err = file_read(path, key, &file, diag);
    if (err)
        return err;
    const struct aw_app *found = colon ? aw_apps_find(&file, colon + 1) : file.apps;
    if (!found) {
        aw_apps_deinit(&file);
        return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, key, "has no application %s",
                          AW_QUOTE(colon + 1));
    }
    pool_fill(ret_pool, text, &file, (uint32_t)(found - file.apps), 1);
    *ret_file = file;
    return AW_OK;
}

static uint64_t hash_at(const struct aw_pretrain_pool *pool, uint32_t index)
{
    struct aw_app made;
    if (pool->apps)
        return aw_app_hash(&pool->apps[pool->first + index]);
    aw_app_generate(pool->seed, pool->first + index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                    &made);
    return aw_app_hash(&made);
}

enum aw_err aw_appset_apart(const struct aw_pretrain_pool *learn,
                            const struct aw_pretrain_pool *check, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    char name[AW_APP_NAME_MAX];
    uint64_t *learned = aw_alloc_new(NULL, learn->count, sizeof *learned);
    if (!learned)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " applications", learn->count);
    for (uint32_t i = 0; i < learn->count; i++)
        learned[i] = hash_at(learn, i);
    for (uint32_t k = 0; !err && k < check->count; k++) {
        const uint64_t own = hash_at(check, k);
        for (uint32_t i = 0; !err && i < learn->count; i++)
            if (learned[i] == own)
                err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--check",
                                 "shares applications with --apps, %s for one: what is learned "
                                 "from proves nothing",
                                 aw_pretrain_app_name(check, k, name, sizeof name));
    }
    aw_alloc_free(NULL, learned);
    return err;
}

const char *aw_appset_text(const struct aw_pretrain_pool *pool, char *buf, size_t size)
{
    if (pool->apps)
        snprintf(buf, size, "%" PRIu32 " of %s", pool->count, pool->file);
    else
        snprintf(buf, size, "%" PRIu64 ":%" PRIu32 "-%" PRIu32, pool->seed, pool->first,
                 pool->first + pool->count - 1);
    return buf;
}

/* --- settings --------------------------------------------------------------------------------- */

#define KEYS_MAX 128u

enum aw_err aw_appset_setting(struct aw_pretrain_config *config, const char *pair,
                              struct aw_diag *diag)
{
    static const struct aw_conf_field *const tables[] = {aw_pretrain_fields, aw_context_fields};
    const char *names[KEYS_MAX + 1] = {0};
    char key[64];
    uint32_t count = 0;
    const size_t len = strcspn(pair, "=");
    snprintf(key, sizeof key, "%.*s", (int)(len < sizeof key ? len : sizeof key - 1), pair);
    for (uint32_t t = 0; t < 2; t++)
        for (const struct aw_conf_field *field = tables[t]; field->key; field++) {
            if (!strcmp(field->key, key))
                return aw_conf_set_pair(tables[t], t ? (void *)&config->context : config, pair,
                                        diag);
            AW_ASSERT(count < KEYS_MAX);
            names[count++] = field->key;
        }
    const char *nearest = aw_conf_nearest(key, names);
    if (nearest)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "--set",
                          "unknown setting %s (did you mean \"%s\"?)", AW_QUOTE(key), nearest);
    return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "--set", "unknown setting %s",
                      AW_QUOTE(key));
}
