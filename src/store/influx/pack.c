/* pack.c - a row as base64 (RFC 4648 section 4) of its numbers, little-endian. */
#include "store/influx/pack.h"

#include <string.h>

#include "base/hash.h"

/* 2 is 1 with the amounts of resources that 1 does not know behind it; it is written where one of
 * them is known. */
enum { PACK_VERSION = 1, PACK_VERSION_AMOUNTS = 2 };
_Static_assert(AW_RESOURCES <= AW__PACK_AMOUNTS_MAX, "there is room for all of them");

enum { FLAG_TERMINATED = 1, FLAG_TRUNCATED = 2, FLAG_SHADOW = 4, FLAGS_ALL = 7 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed rows are little-endian");

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Walks the bytes in either direction, so that both have one order of fields. */
struct walk {
    unsigned char *bytes;
    size_t at, len; /* len: of what may be read */
    bool writing, failed;
};

static void pass(struct walk *walk, void *value, size_t size)
{
    if (walk->writing)
        memcpy(walk->bytes + walk->at, value, size);
    else if (walk->len - walk->at >= size)
        memcpy(value, walk->bytes + walk->at, size);
    else
        walk->failed = true;
    walk->at += walk->failed ? 0 : size;
}

/* A vector of the row; `to` is where reading puts it. */
static void pass_vector(struct walk *walk, const float **vector, float *to, uint32_t dim)
{
    if (walk->writing) {
        memcpy(walk->bytes + walk->at, *vector, dim * sizeof **vector);
        walk->at += dim * sizeof **vector;
        return;
    }
    pass(walk, to, dim * sizeof *to);
    *vector = to;
}

/* Each known amount under the hash of its name, so that builds with other rows agree; one that
 * this build has no row for is passed over. */
static void pass_amounts(struct walk *walk, struct aw_store_figures *figures)
{
    uint32_t count = 0;
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES && walk->writing; r++)
        count += figures->amount[r] != 0;
    pass(walk, &count, sizeof count);
    uint32_t r = AW_RESOURCE_MEMORY;
    for (uint32_t i = 0; i < count && !walk->failed; i++) {
        uint64_t name = 0;
        int64_t amount = 0;
        if (walk->writing) {
            while (!figures->amount[++r])
                ;
            name = aw_hash_text(AW_HASH_BEGIN, aw_resource_table[r].member);
            amount = figures->amount[r];
        }
        pass(walk, &name, sizeof name);
        pass(walk, &amount, sizeof amount);
        for (uint32_t k = AW_RESOURCE_MEMORY + 1; k < AW_RESOURCES && !walk->writing; k++)
            if (aw_hash_text(AW_HASH_BEGIN, aw_resource_table[k].member) == name)
                figures->amount[k] = amount;
    }
}

static void pass_row(struct walk *walk, struct aw_store_row *row, struct aw__packed *packed)
{
    uint32_t version = PACK_VERSION, replicas = (uint32_t)row->figures.replicas;
    uint32_t flags = (row->terminated ? FLAG_TERMINATED : 0u) |
                     (row->truncated ? FLAG_TRUNCATED : 0u) | (row->shadow ? FLAG_SHADOW : 0u);
    struct aw_store_figures *f = &row->figures;
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        version = f->amount[r] ? PACK_VERSION_AMOUNTS : version;
    pass(walk, &version, sizeof version);
    pass(walk, &flags, sizeof flags);
    pass(walk, &row->at_us, sizeof row->at_us);
    pass(walk, &row->stage, sizeof row->stage);
    pass(walk, &row->actor, sizeof row->actor);
    pass(walk, &row->policy_id, sizeof row->policy_id);
    pass(walk, &row->obs_dim, sizeof row->obs_dim);
    pass(walk, &row->act_dim, sizeof row->act_dim);
    pass(walk, &row->reward, sizeof row->reward);
    pass(walk, &f->arrivals_per_s, sizeof f->arrivals_per_s);
    pass(walk, &f->latency_us_p99, sizeof f->latency_us_p99);
    pass(walk, &f->slo_preservation, sizeof f->slo_preservation);
    pass(walk, &f->cpu_utilisation, sizeof f->cpu_utilisation);
    pass(walk, &f->memory_utilisation, sizeof f->memory_utilisation);
    pass(walk, &f->cost, sizeof f->cost);
    pass(walk, &f->paper_reward, sizeof f->paper_reward);
    pass(walk, &replicas, sizeof replicas);
    f->replicas = replicas;
    pass(walk, &f->violated, sizeof f->violated);
    pass(walk, &f->cpu_millicores, sizeof f->cpu_millicores);
    pass(walk, &f->memory_bytes, sizeof f->memory_bytes);
    if (walk->failed || version < PACK_VERSION || version > PACK_VERSION_AMOUNTS ||
        flags > FLAGS_ALL || row->obs_dim > AW_STORE_OBS_MAX || row->act_dim > AW_STORE_ACT_MAX ||
        row->stage >= AW_STAGE_COUNT || row->actor >= AW_ACTOR_COUNT) {
        walk->failed = true;
        return;
    }
    row->terminated = flags & FLAG_TERMINATED;
    row->truncated = flags & FLAG_TRUNCATED;
    pass_vector(walk, &row->obs, packed->obs, row->obs_dim);
    pass_vector(walk, &row->next_obs, packed->next_obs, row->obs_dim);
    pass_vector(walk, &row->action, packed->action, row->act_dim);
    if (flags & FLAG_SHADOW)
        pass_vector(walk, &row->shadow, packed->shadow, row->act_dim);
    else
        row->shadow = NULL;
    if (version == PACK_VERSION_AMOUNTS)
        pass_amounts(walk, f);
}

void aw__pack(const struct aw_store_row *row, struct aw__packed *scratch, struct aw_text *text)
{
    struct aw_store_row copy = *row;
    struct walk walk = {.bytes = scratch->bytes, .writing = true};
    pass_row(&walk, &copy, scratch);
    AW_ASSERT(!walk.failed && walk.at <= AW__PACK_BYTES_MAX);
    for (size_t i = 0; i < walk.at; i += 3) {
        size_t left = walk.at - i;
        uint32_t bits = (uint32_t)scratch->bytes[i] << 16 |
                        (left > 1 ? (uint32_t)scratch->bytes[i + 1] << 8 : 0) |
                        (left > 2 ? scratch->bytes[i + 2] : 0);
        char four[4] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63],
                        left > 1 ? alphabet[bits >> 6 & 63] : '=',
                        left > 2 ? alphabet[bits & 63] : '='};
        aw_text_add_bytes(text, four, 4);
    }
}

/* 0 to 63; 64: not a character of the alphabet. */
static uint32_t value_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? (uint32_t)(c - 'A')
           : c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') + 26
           : c >= '0' && c <= '9' ? (uint32_t)(c - '0') + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : 64;
}

bool aw__unpack(const char *text, size_t len, struct aw__packed *packed, struct aw_store_row *row)
{
    size_t count = 0;
    if (len == 0 || len % 4 || len > AW__PACK_TEXT_MAX)
        return false;
    size_t padding = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            uint32_t value = i + k < len - padding ? value_of(text[i + k]) : 0;
            if (value == 64)
                return false;
            bits = bits << 6 | value;
        }
        for (uint32_t k = 0; k < 3 && count < AW__PACK_BYTES_MAX; k++)
            packed->bytes[count++] = (unsigned char)(bits >> (16 - 8 * k));
    }
    struct walk walk = {.bytes = packed->bytes, .len = count - padding};
    pass_row(&walk, row, packed);
    return !walk.failed && walk.at == walk.len;
}
