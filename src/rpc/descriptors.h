/*
 * descriptors.h - reads a FileDescriptorSet (google/protobuf/descriptor.proto) as far as reflection
 * needs it: which files there are, what each imports, which names each declares.
 *
 * Call order: index once; then the finders.
 * Memory:     the caller's struct points into the bytes, which stay.
 * Threads:    reading is safe everywhere.
 */
#ifndef AW_RPC_DESCRIPTORS_H
#define AW_RPC_DESCRIPTORS_H

#include <aware/err.h>

#define AW__DESCRIPTOR_FILES   16u
#define AW__DESCRIPTOR_IMPORTS 8u /* of one file */
#define AW__DESCRIPTOR_DEPTH   8u /* messages within messages */

struct aw__bytes {
    const uint8_t *at;
    size_t size;
};
struct aw__descriptor_file {
    struct aw__bytes whole; /* the FileDescriptorProto itself */
    struct aw__bytes name, package;
    struct aw__bytes import[AW__DESCRIPTOR_IMPORTS];
    uint32_t import_count;
};
struct aw__descriptors {
    struct aw__descriptor_file file[AW__DESCRIPTOR_FILES];
    uint32_t count;
};

/* AW_ERR_FORMAT: not a descriptor set. AW_ERR_LIMIT: more than there is room for. */
AW_NODISCARD enum aw_err aw__descriptors_index(struct aw__descriptors *set, const uint8_t *bytes,
                                               size_t size);
/* NULL: none. */
const struct aw__descriptor_file *aw__descriptors_by_name(const struct aw__descriptors *set,
                                                          const char *name);
/* The file that declares a service, method, message, field, enum or value by its full name,
 * "aware.v1.Environment.Step"; NULL: none. */
const struct aw__descriptor_file *aw__descriptors_by_symbol(const struct aw__descriptors *set,
                                                            const char *symbol);

#endif
