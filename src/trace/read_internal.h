/* read_internal.h - what the readers of the room share. */
#ifndef AW_TRACE_READ_INTERNAL_H
#define AW_TRACE_READ_INTERNAL_H

#include <jansson.h>

#include "trace/read.h"

/* A resource as its attributes name it: the best name of an instance wins, whatever the order. */
struct aw__origin {
    uint32_t service, instance;
    uint32_t instance_rank; /* 0: none yet */
};
/* Takes one attribute of a resource; others are passed over. */
void aw__origin_take(struct aw__origin *resource, struct aw_names *names, const char *key,
                     size_t key_len, const char *value, size_t len);
/* One attribute of a span that is text, and one that is a whole number. */
void aw__span_take_text(struct aw_span *span, struct aw_names *names, const char *key,
                        size_t key_len, const char *value, size_t len);
void aw__span_take_number(struct aw_span *span, const char *key, size_t key_len, int64_t value);

/* Readers of one JSON value. `where` is the file's name, `line` where the value begins. */
struct aw__value_place {
    const char *name;
    uint32_t line;
};
enum aw_err aw__otlp_json(struct aw_spans *spans, const json_t *value,
                          const struct aw__value_place *place, struct aw_diag *diag);
enum aw_err aw__jaeger_json(struct aw_spans *spans, const json_t *value,
                            const struct aw__value_place *place, struct aw_diag *diag);
enum aw_err aw__zipkin_json(struct aw_spans *spans, const json_t *value,
                            const struct aw__value_place *place, struct aw_diag *diag);

/* "expected ..., found ..." at a path of keys. */
enum aw_err aw__value_refuse(struct aw_diag *diag, const struct aw__value_place *place,
                             const char *key, const char *expected, const json_t *found);
/* A whole number, also as decimal text; what is not there leaves `*ret`. False: something else. */
bool aw__value_whole(const json_t *value, int64_t *ret);
/* An id in hexadecimal; absent or "" is 0. False: something else. */
bool aw__value_id(const json_t *value, uint64_t *ret_hi, uint64_t *ret_lo);
/* The text of a value, "" where it is none, and its length. */
const char *aw__value_text(const json_t *value, size_t *ret_len);

#endif
