/* names.c - see names.h. */
#include "trace/names.h"

#include <string.h>

#include "base/hash.h"
#include "base/text.h"

#define FIRST_ROOM  256u
#define FIRST_BYTES 8192u

struct item {
    uint64_t hash;
    uint32_t name;
};

/* Grows a block to twice its size, at most `max`, and at least `least`. */
static bool grow(void **block, size_t *room, size_t least, size_t max, size_t size,
                 const struct aw_alloc *alloc)
{
    size_t wanted = *room * 2 < least ? least : *room * 2;
    wanted = wanted < max ? wanted : max;
    if (wanted < least)
        return false;
    void *larger = aw_alloc_new(alloc, wanted, size);
    if (!larger)
        return false;
    if (*block)
        memcpy(larger, *block, *room * size);
    aw_alloc_free(alloc, *block);
    *block = larger;
    *room = wanted;
    return true;
}

/* Eight bytes at a time: names are looked up once a span. */
static uint64_t hash_of(const char *text, size_t len)
{
    uint64_t hash = AW_HASH_BEGIN ^ len, word;
    for (; len >= sizeof word; text += sizeof word, len -= sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, text, len);
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
    return hash ? hash : 1;
}

static uint32_t find(const struct aw_names *names, const char *text, size_t len, uint64_t hash)
{
    const struct item *item = aw_hash_table_find(&names->table, hash);
    for (; item; item = aw_hash_table_next(&names->table, item)) {
        const char *kept = names->bytes + names->offset[item->name];
        if (!memcmp(kept, text, len) && !kept[len])
            return item->name;
    }
    return AW_NAME_NONE;
}

static uint32_t keep(struct aw_names *names, const char *text, size_t len, uint64_t hash)
{
    size_t room = names->room;
    /* a text may be compared with up to AW_NAME_BYTES_MAX bytes that lie behind a shorter one */
    const size_t least = names->bytes_used + len + 1 + AW_NAME_BYTES_MAX;
    if (names->count == names->room && !grow((void **)&names->offset, &room, names->count + 1,
                                             AW_NAMES_MAX, sizeof *names->offset, names->alloc))
        return AW_NAME_OTHER;
    names->room = (uint32_t)room;
    if (least > names->bytes_room &&
        !grow((void **)&names->bytes, &names->bytes_room, least, AW_NAMES_BYTES, 1, names->alloc))
        return AW_NAME_OTHER;
    struct item *item = aw_hash_table_add(&names->table, hash);
    if (!item)
        return AW_NAME_OTHER;
    item->name = names->count++;
    names->offset[item->name] = (uint32_t)names->bytes_used;
    memcpy(names->bytes + names->bytes_used, text, len);
    names->bytes[names->bytes_used + len] = '\0';
    names->bytes_used += len + 1;
    return item->name;
}

enum aw_err aw_names_init(struct aw_names *names, const struct aw_alloc *alloc)
{
    *names = (struct aw_names){.alloc = alloc};
    enum aw_err err =
        aw_hash_table_init(&names->table, sizeof(struct item), FIRST_ROOM, AW_NAMES_MAX, alloc);
    size_t room = 0;
    if (!err &&
        !(grow((void **)&names->offset, &room, FIRST_ROOM, AW_NAMES_MAX, sizeof *names->offset,
               alloc) &&
          grow((void **)&names->bytes, &names->bytes_room, FIRST_BYTES, AW_NAMES_BYTES, 1, alloc)))
        err = AW_ERR_NOMEM;
    names->room = (uint32_t)room;
    if (!err && (keep(names, "", 0, hash_of("", 0)) != AW_NAME_NONE ||
                 keep(names, "(other)", 7, hash_of("(other)", 7)) != AW_NAME_OTHER))
        err = AW_ERR_NOMEM;
    if (err)
        aw_names_deinit(names);
    return err;
}

void aw_names_deinit(struct aw_names *names)
{
    aw_hash_table_deinit(&names->table);
    aw_alloc_free(names->alloc, names->offset);
    aw_alloc_free(names->alloc, names->bytes);
    *names = (struct aw_names){0};
}

/* Plain ASCII, which nearly every name is, in one pass. */
static size_t plain_bytes(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] >= ' ' && text[i] < 0x7f)
        i++;
    return i;
}

uint32_t aw_names_add(struct aw_names *names, const char *text, size_t len)
{
    char clean[AW_NAME_BYTES_MAX];
    if (!len)
        return AW_NAME_NONE; /* `text` may be NULL then */
    len = len < AW_NAME_BYTES_MAX ? len : AW_NAME_BYTES_MAX - 1;
    size_t good = plain_bytes(text, len);
    if (good < len) { /* something odd: copy it, made showable */
        size_t used = good;
        memcpy(clean, text, good);
        for (size_t at = good; at < len && text[at];) {
            size_t bytes = aw_text_utf8_length(text + at, len - at);
            const unsigned char byte = (unsigned char)text[at];
            const bool control = byte < ' ' || byte == 0x7f ||
                                 (byte == 0xc2 && bytes == 2 && (unsigned char)text[at + 1] < 0xa0);
            if (!bytes || control) {
                clean[used++] = '?';
                at += bytes ? bytes : 1;
                continue;
            }
            memcpy(clean + used, text + at, bytes);
            used += bytes;
            at += bytes;
        }
        text = clean;
        len = used;
    }
    const uint64_t hash = hash_of(text, len);
    uint32_t name = len ? find(names, text, len, hash) : AW_NAME_NONE;
    if (name == AW_NAME_NONE && len) {
        name = keep(names, text, len, hash);
        names->refused += name == AW_NAME_OTHER;
    }
    return name;
}

uint32_t aw_names_find(const struct aw_names *names, const char *text)
{
    const size_t len = strlen(text);
    return len && len < AW_NAME_BYTES_MAX ? find(names, text, len, hash_of(text, len))
                                          : AW_NAME_NONE;
}

const char *aw_names_text(const struct aw_names *names, uint32_t name)
{
    AW_ASSERT(name < names->count);
    return names->bytes + names->offset[name];
}
