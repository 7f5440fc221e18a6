/*
 * safetensors.h - checkpoints that PyTorch users can open: safetensors files, checked to the byte.
 *
 * A file is a u64 length, a JSON header (name -> dtype, shape, offsets; `__metadata__` of strings)
 * and the data. Writing is atomic: a crash leaves the old file or the new one. Reading trusts
 * nothing: a truncated file, an oversized header, overlapping, missing or unindexed bytes, a wrong
 * dtype or shape, NaN or infinity are refused with a diagnostic that names file, tensor and what
 * was expected.
 *
 * Call order: writer: new, add..., seal, write, free. reader: open, check_seal, get or copy...,
 *             close. Seals are for files in which a flipped bit must not become another number.
 * Memory:     the reader reads the file once into one block; views live until close. It does not
 *             map it: a file that someone truncates in place would kill the process on the next
 *             access. The writer keeps pointers to the caller's arrays until write. The JSON tree
 *             of a header comes from the process heap, everything else from `alloc`.
 * Threads:    single owner.
 *
 * The same tensors and metadata give the same bytes, in whatever order they were added. A tensor
 * that holds NaN or infinity is not written: it could not be read back, and would replace a
 * checkpoint that can.
 */
#ifndef AW_NN_SAFETENSORS_H
#define AW_NN_SAFETENSORS_H

#include "nn/params.h"

#define AW_SAFETENSORS_FILE_BYTES_MAX   ((size_t)1 << 36)
#define AW_SAFETENSORS_HEADER_BYTES_MAX 100000000u /* the format's own limit */
#define AW_SAFETENSORS_TENSORS_MAX      1024u
#define AW_SAFETENSORS_META_MAX         1024u /* keys of __metadata__ */
#define AW_SAFETENSORS_NAME_MAX         256u  /* bytes of a tensor's name or a key, with the NUL */
#define AW_SAFETENSORS_RANK_MAX         8u
#define AW_SAFETENSORS_SEAL             "checksum" /* the metadata key that seals the rest */

enum aw_dtype { AW_DTYPE_F32, AW_DTYPE_F64, AW_DTYPE_I64, AW_DTYPE_U8 };
const char *aw_dtype_name(enum aw_dtype dtype); /* "F32" */
size_t aw_dtype_size(enum aw_dtype dtype);      /* bytes of one element */

struct aw_safetensors_writer;
AW_NODISCARD enum aw_err aw_safetensors_writer_new(const struct aw_alloc *alloc,
                                                   struct aw_safetensors_writer **ret_writer);
void aw_safetensors_writer_free(struct aw_safetensors_writer *writer); /* NULL is a no-op */
/* The array is borrowed until write; the name is copied. A name twice, or `__metadata__`, is a bug.
 * AW_ERR_LIMIT: a name too long or one tensor too many. AW_ERR_FORMAT: a name that is not UTF-8 or
 * holds control characters. */
AW_NODISCARD enum aw_err aw_safetensors_add(struct aw_safetensors_writer *writer, const char *name,
                                            enum aw_dtype dtype, uint32_t rank,
                                            const uint64_t *shape, const void *data);
/* Copies both. A key twice is a bug; the errors are those of add. */
AW_NODISCARD enum aw_err aw_safetensors_add_meta(struct aw_safetensors_writer *writer,
                                                 const char *key, const char *value);
/* All tensors of `params`, from `values` laid out as params->value, each name with `prefix` before
 * it. After a failure some may have been added. */
AW_NODISCARD enum aw_err aw_safetensors_add_params(struct aw_safetensors_writer *writer,
                                                   const struct aw_params *params,
                                                   const float *values, const char *prefix);
/* Adds the metadata AW_SAFETENSORS_SEAL: a checksum of all that was added so far, tensors and
 * metadata, in whatever order. The last thing before write. */
AW_NODISCARD enum aw_err aw_safetensors_seal(struct aw_safetensors_writer *writer);
/* Replaces `path` atomically. AW_ERR_DIVERGED: a number is not finite, and nothing was touched. */
AW_NODISCARD enum aw_err aw_safetensors_write(struct aw_safetensors_writer *writer,
                                              const char *path, struct aw_diag *diag);

struct aw_safetensors; /* an open file */
AW_NODISCARD enum aw_err aw_safetensors_open(const char *path, const struct aw_alloc *alloc,
                                             struct aw_safetensors **ret_file,
                                             struct aw_diag *diag);
/* The same from bytes in memory, which stay the caller's until close; `name` is for diagnostics. */
AW_NODISCARD enum aw_err aw_safetensors_parse(const void *bytes, size_t size, const char *name,
                                              const struct aw_alloc *alloc,
                                              struct aw_safetensors **ret_file,
                                              struct aw_diag *diag);
void aw_safetensors_close(struct aw_safetensors *file); /* NULL is a no-op */

/* AW_ERR_FORMAT: what the file holds is not what was sealed. A file without a seal passes: older
 * versions wrote none. */
AW_NODISCARD enum aw_err aw_safetensors_check_seal(const struct aw_safetensors *file,
                                                   struct aw_diag *diag);

struct aw_tensor_view {
    const char *name;
    enum aw_dtype dtype;
    uint32_t rank;
    uint64_t shape[AW_SAFETENSORS_RANK_MAX];
    const void *data; /* aligned to the size of an element */
    size_t bytes;
};
/* Tensors come in the order of their bytes. Unlike copy, a view may hold NaN or infinity. */
uint32_t aw_safetensors_count(const struct aw_safetensors *file);
void aw_safetensors_at(const struct aw_safetensors *file, uint32_t index,
                       struct aw_tensor_view *ret_view);
/* False, and `ret_view` untouched, when there is no such tensor. */
bool aw_safetensors_find(const struct aw_safetensors *file, const char *name,
                         struct aw_tensor_view *ret_view);
/* NULL: not in the file. */
const char *aw_safetensors_meta(const struct aw_safetensors *file, const char *key);
uint32_t aw_safetensors_meta_count(const struct aw_safetensors *file);
/* The key of entry `index`, in the order of the file. */
const char *aw_safetensors_meta_key(const struct aw_safetensors *file, uint32_t index);

/* Copies the tensor `name` into `data`; dtype and shape must be just these. F32 and F64 must be
 * finite. On failure `data` is untouched. */
AW_NODISCARD enum aw_err aw_safetensors_copy(const struct aw_safetensors *file, const char *name,
                                             enum aw_dtype dtype, uint32_t rank,
                                             const uint64_t *shape, void *data,
                                             struct aw_diag *diag);
/* Fills `values` (laid out as params->value) from the tensors of `params` under `prefix`; other
 * tensors in the file are ignored. All are checked before the first is copied. */
AW_NODISCARD enum aw_err aw_safetensors_copy_params(const struct aw_safetensors *file,
                                                    const struct aw_params *params,
                                                    const char *prefix, float *values,
                                                    struct aw_diag *diag);

#endif
