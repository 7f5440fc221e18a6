/*
 * envelope.h - the one head that saved bytes have: whose they are, and whether they are whole.
 *
 * A format is one struct: a kind, a sentence, a version, and the layouts of the structs that lie in
 * its bytes. A layout names every member; its hash is made of their names, types, places and sizes.
 * So bytes of a build whose structs differ are refused even where their number is the same, and a
 * new member that is not named does not compile.
 *
 *     AW_LAYOUT(point_layout, struct point, 0, x, y);
 *     static struct aw_format format = {
 *         .kind = "point", .what = "a point", .version = 1, .layout = {point_layout}};
 *
 * Call order: leave sizeof(struct aw_envelope) bytes, write what is to be saved behind them, seal;
 *             on the way back open, then believe what is behind the head. write and read do the
 *             same with a file.
 * Memory:     seal and open allocate nothing; read gives a block.
 * Threads:    any. A format is written to once, atomically: its hash.
 *
 * The trap: the checksum finds accidents, not forgeries. After open, still check that numbers are
 * in range. And what is named "unused" today and used tomorrow has the same layout: give it its new
 * name in the list, or the format a new version.
 */
#ifndef AW_BASE_ENVELOPE_H
#define AW_BASE_ENVELOPE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/alloc.h"

#define AW_FORMAT_LAYOUTS_MAX 8u
#define AW_FORMAT_KIND_MAX    8u /* bytes of a kind, with its NUL */

/* --- layouts ---------------------------------------------------------------------------------- */

/* Mixes the members of a struct, or of several, into `hash`. */
typedef uint64_t aw_layout(uint64_t hash);

struct aw_member {
    const char *name;
    uint32_t offset, bytes, align;
    char type;
};

/* For AW_LAYOUT: the members must be in the order in which they lie. */
uint64_t aw_layout_mix(uint64_t hash, const struct aw_member *members, size_t count, size_t bytes);

/* One struct of a layout, as a program that does not know it can read its bytes: by name. */
struct aw_layout_table {
    const struct aw_member *members; /* [count] */
    uint32_t count, bytes;
};
/* The structs of `layout`, `max` at most, in the order in which they are mixed: of a struct and
 * what its arrays are made of, the struct itself is the last. Returns how many there are. */
uint32_t aw_layout_tables(aw_layout *layout, struct aw_layout_table *ret, uint32_t max);

/* Defines the static aw_layout `name`. Every member is named, in order; of a struct within, its
 * members: `rng.s`. An array of structs is one member, whose struct needs a layout of its own.
 * `padding` is what no member has, in bytes; best none. */
#define AW_LAYOUT(name, type, padding, ...)                                                    \
    static uint64_t name(uint64_t hash)                                                        \
    {                                                                                          \
        static const struct aw_member members[] = {AW__EACH(AW__MEMBER, type, __VA_ARGS__)};   \
        _Static_assert((padding)AW__EACH(AW__MEMBER_BYTES, type, __VA_ARGS__) == sizeof(type), \
                       "name every member of it");                                             \
        return aw_layout_mix(hash, members, sizeof members / sizeof *members, sizeof(type));   \
    }                                                                                          \
    _Static_assert(sizeof(type) <= UINT32_MAX, "a layout is of a struct")

#define AW__AT(T, m) (((T *)0)->m)
#define AW__MEMBER(T, m)                                                          \
    {#m, offsetof(T, m), sizeof AW__AT(T, m), _Alignof(__typeof__(AW__AT(T, m))), \
     AW__TYPE(AW__AT(T, m)) * AW__NOT_A_STRUCT(AW__AT(T, m))},
#define AW__MEMBER_BYTES(T, m) +sizeof AW__AT(T, m)
/* 12 is record_type_class of GCC's typeclass.h, and of Clang. */
#define AW__NOT_A_STRUCT(m) sizeof(char[__builtin_classify_type(m) == 12 ? -1 : 1])
/* An array counts as what it is made of; 's': of arrays or structs. */
/* clang-format off */
#define AW__TYPE(m)                                                                      \
    _Generic((m), bool: 'b', bool *: 'b', char: 'c', char *: 'c', uint8_t: 'B',    \
        uint8_t *: 'B', uint16_t: 'H', uint16_t *: 'H', int32_t: 'i', int32_t *: 'i',    \
        uint32_t: 'I', uint32_t *: 'I', int64_t: 'q', int64_t *: 'q', uint64_t: 'Q',     \
        uint64_t *: 'Q', float: 'f', float *: 'f', double: 'd', double *: 'd', default: 's')
/* clang-format on */

/* M(T, m) for every m of at most 340: what is scanned again goes one further (C17 has no loop). */
#define AW__EACH(M, T, ...)      AW__SCAN(AW__EACH_1(M, T, __VA_ARGS__, ))
#define AW__EACH_1(M, T, m, ...) M(T, m) __VA_OPT__(AW__EACH_AGAIN AW__NONE(M, T, __VA_ARGS__))
#define AW__EACH_AGAIN()         AW__EACH_1
#define AW__NONE                 ()
#define AW__SCAN(...)            AW__SCAN_64(AW__SCAN_64(AW__SCAN_64(AW__SCAN_64(__VA_ARGS__))))
#define AW__SCAN_64(...)         AW__SCAN_16(AW__SCAN_16(AW__SCAN_16(AW__SCAN_16(__VA_ARGS__))))
#define AW__SCAN_16(...)         AW__SCAN_4(AW__SCAN_4(AW__SCAN_4(AW__SCAN_4(__VA_ARGS__))))
#define AW__SCAN_4(...)          AW__SCAN_1(AW__SCAN_1(AW__SCAN_1(AW__SCAN_1(__VA_ARGS__))))
#define AW__SCAN_1(...)          __VA_ARGS__

/* --- formats ---------------------------------------------------------------------------------- */

/* The way from one version to the next. */
struct aw_format_past {
    uint32_t version;              /* that it begins at; it ends at version + 1 */
    uint64_t layout;               /* that bytes of this version have; a refusal tells it */
    size_t (*bytes)(size_t bytes); /* how many `bytes` become; 0: cannot be of this version */
    /* AW_ERR_FORMAT: what they say cannot be. `to` is zeroed. */
    enum aw_err (*migrate)(const void *from, size_t bytes, void *to);
};

struct aw_format {
    char kind[AW_FORMAT_KIND_MAX]; /* a word; differs from every other format's */
    const char *what;              /* for sentences: "the state of a run" */
    uint32_t version;              /* from 1 on */
    uint32_t past_count;
    const struct aw_format_past *past; /* [past_count]; NULL: none */
    aw_layout *layout[AW_FORMAT_LAYOUTS_MAX];
    _Atomic uint64_t layout_hash; /* 0: not made yet */
};

/* The head. What was saved follows it. */
struct aw_envelope {
    char mark[8];
    uint32_t crc; /* of all that follows, begun with the version */
    uint32_t version;
    char kind[AW_FORMAT_KIND_MAX];
    uint64_t layout;
    uint64_t owner;
    uint64_t bytes; /* behind the head */
};
_Static_assert(sizeof(struct aw_envelope) == 48, "an envelope has no padding");
/* For the list of a struct that begins with it. */
#define AW_ENVELOPE(at) at mark, at crc, at version, at kind, at layout, at owner, at bytes

/* `bytes` are `size` with the head, which is written. `owner` is a number that open must be given
 * again: a hash of settings without which they mean nothing; 0 will do. */
void aw_envelope_seal(struct aw_format *format, uint64_t owner, void *bytes, size_t size);

/* AW_ERR_FORMAT: not what `format` seals now, and the sentence says what was expected and found.
 * Bytes of an older version are refused here; read migrates them. */
AW_NODISCARD enum aw_err aw_envelope_open(struct aw_format *format, uint64_t owner,
                                          const void *bytes, size_t size, struct aw_diag *diag);

/* Seals, and replaces the file. */
AW_NODISCARD enum aw_err aw_envelope_write(struct aw_format *format, uint64_t owner, void *bytes,
                                           size_t size, const char *path, struct aw_diag *diag);

/* A file of at most `size_max` bytes, opened, and migrated if it is of an older version. The block,
 * head included, is the caller's to free with aw_alloc_free. On failure the file is as it was and
 * outputs are untouched; the diagnostic names the file. */
AW_NODISCARD enum aw_err aw_envelope_read(struct aw_format *format, uint64_t owner,
                                          const char *path, size_t size_max,
                                          const struct aw_alloc *alloc, void **ret_bytes,
                                          size_t *ret_size, struct aw_diag *diag);

/* For a program that goes on without a file that could not be read, for whatever reason (damaged,
 * of another build, too large, no right to it, no memory), so that the next save does not overwrite
 * it: it becomes PATH.refused. Returns that, in `buf`; "" where there is no such file
 * (AW_ERR_NOTFOUND), nothing is wrong with it (AW_OK), or it cannot be renamed. */
const char *aw_envelope_set_aside(const char *path, enum aw_err err, char *buf, size_t size);

#endif
