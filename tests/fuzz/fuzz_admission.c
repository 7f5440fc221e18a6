/*
 * fuzz_admission.c - any bytes as what an API server asks the webhook: a line that is an object of
 * ours, a line that is a LimitRange, and an AdmissionReview. Whatever comes, nothing is denied, and
 * a patch adds amounts to one container and nothing else.
 */
#include "fuzz.h"

#include "base/quantity.h"
#include "controller/admission_review.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_MAX 65536u

/* A cluster in which every pod is everybody's. */
struct cluster {
    struct aw__mpa_intent *mandate; /* NULL: there is none */
    struct aw__limit_range range;
};

static const char *deployment_of(void *ctx, const char *ns, const char *set)
{
    (void)ctx;
    AW_ASSERT(aw_kube_name_valid(ns) && aw_kube_name_valid(set));
    return set[0] == 'w' ? "web" : NULL;
}

static const struct aw__mpa_intent *mandate_of(void *ctx, const char *target, const char **ret_name)
{
    struct cluster *cluster = ctx;
    AW_ASSERT(strlen(target) < AW__TARGET_MAX);
    *ret_name = "web";
    return cluster->mandate;
}

static const struct aw__limit_range *limits_of(void *ctx, const char *ns)
{
    struct cluster *cluster = ctx;
    (void)ns;
    return &cluster->range;
}

/* Takes one line off the input; NULL: it is not JSON. */
static json_t *take_line(const char **bytes, size_t *size)
{
    const char *end = memchr(*bytes, '\n', *size);
    const size_t len = end ? (size_t)(end - *bytes) : 0;
    json_t *json = json_loadb(*bytes, len, 0, NULL);
    *bytes += end ? len + 1 : 0;
    *size -= end ? len + 1 : 0;
    return json;
}

static void check_patch(const char *encoded)
{
    const size_t len = strlen(encoded);
    char *text = calloc(1, len + 1);
    size_t i;
    json_t *op;
    AW_ASSERT(text && len % 4 == 0);
    AW_ASSERT(EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)encoded, (int)len) > 0);
    json_t *patch = json_loads(text, 0, NULL);
    AW_ASSERT(json_is_array(patch) && json_array_size(patch) > 0 && json_array_size(patch) <= 16);
    json_array_foreach(patch, i, op)
    {
        const char *path = json_string_value(json_object_get(op, "path"));
        const json_t *value = json_object_get(op, "value");
        int64_t amount;
        AW_ASSERT(!strcmp(json_string_value(json_object_get(op, "op")), "add"));
        if (!strncmp(path, "/spec/containers/", 17)) {
            AW_ASSERT(strstr(path, "/resources"));
            AW_ASSERT(json_is_object(value) ||
                      aw_quantity_parse(json_string_value(value), AW_QUANTITY_MILLI,
                                        AW_QUANTITY_POSITIVE_OR_0, &amount, NULL) == AW_OK ||
                      aw_quantity_parse(json_string_value(value), AW_QUANTITY_WHOLE,
                                        AW_QUANTITY_POSITIVE_OR_0, &amount, NULL) == AW_OK);
        } else {
            AW_ASSERT(!strncmp(path, "/metadata/annotations", 21));
        }
    }
    json_decref(patch);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct cluster cluster = {.range = aw__limit_range_none};
    const struct aw__review_world world = {deployment_of, mandate_of, limits_of, &cluster};
    enum aw__review_verdict verdict = AW__REVIEW_UNREAD;
    struct aw_diag diag = {0};
    json_t *answer = NULL;
    size_t len = 0;
    void *record = aligned_alloc(8, RECORD_MAX);
    AW_ASSERT(record);
    json_t *object = take_line(&bytes, &size), *range = take_line(&bytes, &size);
    if (object && aw__mpa_intent_project(NULL, object, record, RECORD_MAX, &len) == AW_OK)
        cluster.mandate = record;
    if (range && aw__limit_range_add(&cluster.range, range) != AW_OK)
        cluster.range = aw__limit_range_none;
    enum aw_err err = aw__review(bytes, size, &world, &answer, &verdict, &diag);
    if (err) {
        AW_ASSERT(!answer);
        check_refusal(&diag, err);
    } else {
        AW_ASSERT(json_is_true(aw_kube_at(answer, "response.allowed")));
        AW_ASSERT(aw_kube_text_at(answer, "response.uid")[0]);
        const char *patch = aw_kube_text_at(answer, "response.patch");
        AW_ASSERT((patch[0] != '\0') == (verdict == AW__REVIEW_SIZED));
        if (patch[0])
            check_patch(patch);
    }
    json_decref(answer);
    json_decref(range);
    json_decref(object);
    free(record);
    return 0;
}
