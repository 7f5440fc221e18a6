/* descriptors.c - see descriptors.h. Field numbers are those of google/protobuf/descriptor.proto.
 */
#include "rpc/descriptors.h"

#include <string.h>

enum { SET_FILE = 1 };
enum { FILE_NAME = 1, FILE_PACKAGE, FILE_DEPENDENCY, FILE_MESSAGE, FILE_ENUM, FILE_SERVICE };
enum { MESSAGE_NAME = 1, MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM };
enum { ANY_NAME = 1, ENUM_VALUE = 2, SERVICE_METHOD = 2 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static bool varint(struct aw__bytes *in, uint64_t *ret)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && in->size; shift += 7) {
        const uint8_t byte = *in->at++;
        in->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct aw__bytes *in, uint64_t size)
{
    if (size > in->size)
        return false;
    in->at += size;
    in->size -= (size_t)size;
    return true;
}

/* The next field: its number, and its bytes where it has any. False at the end or at nonsense, of
 * which `*bad` tells. */
static bool field(struct aw__bytes *in, uint32_t *ret_number, struct aw__bytes *ret_bytes,
                  bool *bad)
{
    uint64_t key, size = 0;
    if (!in->size)
        return false;
    *bad = true;
    *ret_bytes = (struct aw__bytes){0};
    if (!varint(in, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return false;
    *ret_number = (uint32_t)(key >> 3);
    switch (key & 7) {
    case WIRE_VARINT:
        if (!varint(in, &size))
            return false;
        break;
    case WIRE_64:
    case WIRE_32:
        if (!skip(in, (key & 7) == WIRE_64 ? 8 : 4))
            return false;
        break;
    case WIRE_BYTES:
        if (!varint(in, &size) || size > in->size)
            return false;
        *ret_bytes = (struct aw__bytes){.at = in->at, .size = (size_t)size};
        in->at += size;
        in->size -= (size_t)size;
        break;
    default:
        return false;
    }
    *bad = false;
    return true;
}

static enum aw_err file_index(struct aw__descriptors *set, struct aw__bytes in)
{
    struct aw__bytes bytes;
    uint32_t number;
    bool bad = false;
    if (set->count == AW__DESCRIPTOR_FILES)
        return AW_ERR_LIMIT;
    struct aw__descriptor_file file = {.whole = in};
    while (field(&in, &number, &bytes, &bad)) {
        if (number == FILE_NAME)
            file.name = bytes;
        if (number == FILE_PACKAGE)
            file.package = bytes;
        if (number == FILE_DEPENDENCY) {
            if (file.import_count == AW__DESCRIPTOR_IMPORTS)
                return AW_ERR_LIMIT;
            file.import[file.import_count++] = bytes;
        }
    }
    if (bad)
        return AW_ERR_FORMAT;
    set->file[set->count++] = file;
    return AW_OK;
}

enum aw_err aw__descriptors_index(struct aw__descriptors *set, const uint8_t *bytes, size_t size)
{
    struct aw__bytes in = {.at = bytes, .size = size}, inner;
    uint32_t number;
    bool bad = false;
    *set = (struct aw__descriptors){0};
    while (field(&in, &number, &inner, &bad)) {
        enum aw_err err = number == SET_FILE ? file_index(set, inner) : AW_OK;
        if (err)
            return err;
    }
    return bad ? AW_ERR_FORMAT : AW_OK;
}

static bool equal(struct aw__bytes bytes, const char *text, size_t len)
{
    return bytes.size == len && (!len || !memcmp(bytes.at, text, len));
}

const struct aw__descriptor_file *aw__descriptors_by_name(const struct aw__descriptors *set,
                                                          const char *name)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (equal(set->file[i].name, name, strlen(name)))
            return &set->file[i];
    return NULL;
}

static struct aw__bytes name_of(struct aw__bytes in)
{
    struct aw__bytes bytes, name = {0};
    uint32_t number;
    bool bad = false;
    while (field(&in, &number, &bytes, &bad))
        if (number == ANY_NAME)
            name = bytes;
    return name;
}

/* Whether `in`, which is declared by field `kind` of a message (or, with `depth` 0, of a file),
 * declares what is left of a symbol: "Space.Kind.KIND_BOX". */
static bool declares(struct aw__bytes in, bool is_message, const char *symbol, uint32_t depth)
{
    const char *dot = strchr(symbol, '.');
    const size_t len = dot ? (size_t)(dot - symbol) : strlen(symbol);
    struct aw__bytes bytes;
    uint32_t number;
    bool bad = false;
    if (!equal(name_of(in), symbol, len) || depth == AW__DESCRIPTOR_DEPTH)
        return false;
    if (!dot)
        return true;
    while (field(&in, &number, &bytes, &bad)) {
        const bool nested = is_message && number == MESSAGE_NESTED;
        const bool member = number == (is_message ? (uint32_t)MESSAGE_FIELD : ENUM_VALUE) ||
                            (is_message && number == MESSAGE_ENUM);
        if ((nested || member) && declares(bytes, nested, dot + 1, depth + 1))
            return true;
    }
    return false;
}

const struct aw__descriptor_file *aw__descriptors_by_symbol(const struct aw__descriptors *set,
                                                            const char *symbol)
{
    _Static_assert((int)ENUM_VALUE == (int)SERVICE_METHOD, "values and methods are found alike");
    for (uint32_t i = 0; i < set->count; i++) {
        const struct aw__descriptor_file *file = &set->file[i];
        const size_t len = file->package.size;
        struct aw__bytes in = file->whole, bytes;
        const char *rest = symbol;
        uint32_t number;
        bool bad = false;
        if (len) {
            if (strlen(symbol) <= len + 1 || !equal(file->package, symbol, len) ||
                symbol[len] != '.')
                continue;
            rest = symbol + len + 1;
        }
        while (field(&in, &number, &bytes, &bad))
            if ((number == FILE_MESSAGE || number == FILE_ENUM || number == FILE_SERVICE) &&
                declares(bytes, number == FILE_MESSAGE, rest, 0))
                return file;
    }
    return NULL;
}
