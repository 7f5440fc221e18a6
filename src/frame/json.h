/* json.h - the one JSON document that a verb prints under --output json. */
#ifndef AW_FRAME_JSON_H
#define AW_FRAME_JSON_H

#include <aware/err.h>

#include <jansson.h>

/* Prints `json` to stdout and releases it. NULL, as jansson leaves it when memory is out, is
 * AW_ERR_NOMEM. Keys keep the order in which they were set. */
AW_NODISCARD enum aw_err aw_json_print(json_t *json, struct aw_diag *diag);

/* A number, or null where JSON has none (NaN, infinity). */
json_t *aw_json_real(double value);

#endif
