/* json.c - printing one JSON document. */
#include "frame/json.h"

#include <math.h>
#include <stdio.h>

enum aw_err aw_json_print(json_t *json, struct aw_diag *diag)
{
    if (!json)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the JSON document");
    int failed = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(json);
    if (failed)
        return aw_fail(diag, AW_ERR_IO, "standard output: cannot write the JSON document");
    putchar('\n');
    return AW_OK;
}

json_t *aw_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
