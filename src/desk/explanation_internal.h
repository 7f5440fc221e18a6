/* explanation_internal.h - what the files of an account share. */
#ifndef AW_DESK_EXPLANATION_INTERNAL_H
#define AW_DESK_EXPLANATION_INTERNAL_H

#include "desk/explanation.h"

/* A JSON object under construction: failed allocations are checked once, at the end. */
struct aw__told {
    json_t *object;
    bool failed;
};
struct aw__told aw__told_begin(void);
/* Takes over `value`; NULL: there was no memory for it. */
void aw__told_put(struct aw__told *told, const char *key, json_t *value);
void aw__told_text(struct aw__told *told, const char *key, const char *value);
void aw__told_real(struct aw__told *told, const char *key, double value); /* NAN, INFINITY: null */
void aw__told_whole(struct aw__told *told, const char *key, int64_t value);
void aw__told_flag(struct aw__told *told, const char *key, bool value);
/* NULL: no memory; nothing is left behind. */
json_t *aw__told_end(struct aw__told *told);

#endif
