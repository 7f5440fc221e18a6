/* policy_file.c - a policy as JSON; see learn.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "congestion/learn.h"

#define KIND      "aware congestion policy"
#define BYTES_MAX ((size_t)1 << 20)

extern const char aw__congestion_json[];
extern const unsigned aw__congestion_json_size;

static const char *const law_names[AW_LAW_COUNT] = {
#define X(name, low, high, log, first, what) [AW_LAW_##name] = #name,
    AW_LAW_MAP(X)
#undef X
};

enum aw_err aw_adaptive_write(const struct aw_adaptive_policy *policy, const char *path,
                              const char *how, struct aw_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    json_t *laws = json_object();
    for (uint32_t i = 0; i < AW_LAW_COUNT; i++) {
        json_t *weight = json_array();
        for (uint32_t t = 0; t < AW_TRAIT_COUNT; t++)
            json_array_append_new(weight, json_real(policy->weight[i][t]));
        json_object_set_new(laws, law_names[i],
                            json_pack("{s:f,s:o}", "base", policy->base[i], "weight", weight));
    }
    json_t *root =
        json_pack("{s:s,s:i,s:s,s:o}", "kind", KIND, "version", 1, "how", how, "law", laws);
    FILE *out = root ? open_memstream(&text, &len) : NULL;
    enum aw_err err = out ? aw_json_write(root, out, 1) : AW_ERR_NOMEM;
    if (out && fclose(out) && !err)
        err = AW_ERR_NOMEM;
    if (err)
        err = aw_fail(diag, err, "no memory for a policy");
    else
        err = aw_file_replace(path, text, len, NULL, diag);
    free(text);
    json_decref(root);
    return err;
}

static enum aw_err parse(const char *name, const char *bytes, size_t len,
                         struct aw_adaptive_policy *ret, struct aw_diag *diag)
{
    struct aw_adaptive_policy policy;
    json_t *root = json_loadb(bytes, len, 0, NULL);
    const char *kind = json_string_value(json_object_get(root, "kind"));
    enum aw_err err = AW_OK;
    if (!kind || strcmp(kind, KIND))
        err = aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "kind",
                         "expected a file of kind \"" KIND "\", found another");
    const json_t *laws = json_object_get(root, "law");
    for (uint32_t i = 0; !err && i < AW_LAW_COUNT; i++) {
        const json_t *law = json_object_get(laws, law_names[i]);
        const json_t *weight = json_object_get(law, "weight");
        policy.base[i] = json_number_value(json_object_get(law, "base"));
        bool good = json_is_number(json_object_get(law, "base")) && policy.base[i] >= 0 &&
                    policy.base[i] <= 1 && json_array_size(weight) == AW_TRAIT_COUNT;
        for (uint32_t t = 0; good && t < AW_TRAIT_COUNT; t++) {
            policy.weight[i][t] = json_number_value(json_array_get(weight, t));
            good = json_is_number(json_array_get(weight, t)) && fabs(policy.weight[i][t]) <= 1;
        }
        if (!good)
            err = aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, law_names[i],
                             "expected a base from 0 to 1 and %u weights from -1 to 1",
                             AW_TRAIT_COUNT);
    }
    if (!err)
        *ret = policy;
    json_decref(root);
    return err;
}

enum aw_err aw_adaptive_read(const char *path, struct aw_adaptive_policy *ret, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err = aw_file_read(path, BYTES_MAX, NULL, &bytes, &len, diag);
    if (!err)
        err = parse(path, bytes, len, ret, diag);
    aw_alloc_free(NULL, bytes);
    return err;
}

enum aw_err aw_adaptive_shipped(struct aw_adaptive_policy *ret, struct aw_diag *diag)
{
    return parse("the policy of the program", aw__congestion_json, aw__congestion_json_size, ret,
                 diag);
}
