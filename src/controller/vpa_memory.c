/* vpa_memory.c - what was learned of containers, for the next process: a JSON file with the
 * checkpoints of fallback/vpa.h, by object and container. */
#include "controller/vpa_internal.h"

#include "base/envelope.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "aware-vpas-1"

static const char *const histogram_names[AW_VPA_RESOURCE_COUNT] = {"cpuHistogram",
                                                                   "memoryHistogram"};

/* --- one container ---------------------------------------------------------------------------- */

static json_t *histogram_json(const struct aw_histogram_checkpoint *histogram)
{
    json_t *weights = json_object();
    for (uint32_t i = 0; i < histogram->count; i++) {
        char bucket[16];
        snprintf(bucket, sizeof bucket, "%" PRIu32, histogram->items[i].bucket);
        json_object_set_new(weights, bucket, json_integer(histogram->items[i].weight));
    }
    return json_pack("{s:I,s:f,s:o}", "referenceUs", (json_int_t)histogram->reference_us,
                     "totalWeight", histogram->total, "bucketWeights", weights);
}

static json_t *part_json(const struct aw__vpas *v, const struct aw__vpa_part *part,
                         struct aw_vpa_checkpoint *scratch)
{
    aw_vpa_save(&part->aggregate, &v->logic, scratch);
    json_t *value = json_pack("{s:s,s:I,s:I,s:I}", "version", scratch->version, "firstSampleUs",
                              (json_int_t)scratch->first_sample_us, "lastSampleUs",
                              (json_int_t)scratch->last_sample_us, "totalSamplesCount",
                              (json_int_t)scratch->sample_count);
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        json_object_set_new(value, histogram_names[r], histogram_json(&scratch->usage[r]));
    return value;
}

static bool histogram_read(const json_t *value, struct aw_histogram_checkpoint *ret)
{
    json_t *weights = json_object_get(value, "bucketWeights");
    const char *bucket;
    json_t *weight;
    ret->reference_us = aw_kube_int_at(value, "referenceUs", 0);
    ret->total = json_number_value(json_object_get(value, "totalWeight"));
    ret->count = 0;
    json_object_foreach(weights, bucket, weight)
    {
        uint64_t number;
        const json_int_t heavy = json_integer_value(weight);
        if (aw_text_parse_u64(bucket, &number) || number >= AW_HISTOGRAM_BUCKETS_MAX || heavy < 0 ||
            heavy > AW_HISTOGRAM_CHECKPOINT_WEIGHT_MAX || ret->count == AW_HISTOGRAM_BUCKETS_MAX)
            return false;
        ret->items[ret->count].bucket = (uint32_t)number;
        ret->items[ret->count++].weight = (uint32_t)heavy;
    }
    return true;
}

/* The target that a past belongs to. */
static const char *target_print(const struct aw__vpa *object, char *buf, size_t size)
{
    snprintf(buf, size, "%s %s/%s", object->api_version, object->kind, object->name);
    return buf;
}

bool aw__vpa_memory_give(const struct aw__vpas *v, const struct aw__vpa *object,
                         struct aw__vpa_part *part)
{
    const json_t *past = json_object_get(json_object_get(v->remembered, "objects"), object->key);
    const json_t *value = json_object_get(json_object_get(past, "containers"), part->name);
    char target[AW_KUBE_NAME_MAX * 2 + AW_CLUSTER_NAME_MAX];
    if (!value ||
        strcmp(aw_kube_text_at(past, "target"), target_print(object, target, sizeof target)) != 0)
        return false;
    struct aw_vpa_checkpoint *checkpoint = aw_alloc_new(v->alloc, 1, sizeof *checkpoint);
    if (!checkpoint)
        return false;
    snprintf(checkpoint->version, sizeof checkpoint->version, "%s",
             aw_kube_text_at(value, "version"));
    checkpoint->first_sample_us = aw_kube_int_at(value, "firstSampleUs", 0);
    checkpoint->last_sample_us = aw_kube_int_at(value, "lastSampleUs", 0);
    const int64_t count = aw_kube_int_at(value, "totalSamplesCount", 0);
    checkpoint->sample_count = count > 0 ? (uint64_t)count : 0;
    bool good = count > 0;
    for (int r = 0; good && r < AW_VPA_RESOURCE_COUNT; r++)
        good = histogram_read(json_object_get(value, histogram_names[r]), &checkpoint->usage[r]);
    good = good && !aw_vpa_load(&part->aggregate, &v->logic, checkpoint, v->newest_us, NULL);
    aw_alloc_free(v->alloc, checkpoint);
    return good;
}

void aw__vpa_memory_tidy(struct aw__vpas *v)
{
    json_t *objects = json_object_get(v->remembered, "objects"), *past;
    const char *key;
    void *next;
    json_object_foreach_safe(objects, next, key, past)
    {
        bool waits = false;
        for (uint32_t i = 0; !waits && i < v->used; i++)
            waits = v->object[i] && !v->object[i]->part_count && !strcmp(v->object[i]->key, key);
        if (!waits)
            json_object_del(objects, key);
    }
    if (json_object_size(objects) == 0) {
        json_decref(v->remembered);
        v->remembered = NULL;
    }
}

/* --- the file --------------------------------------------------------------------------------- */

void aw__vpa_memory_read(struct aw__vpas *v, const char *path)
{
    struct aw_diag why = {0};
    char buf[AW_FILE_PATH_MAX], *bytes = NULL;
    size_t len = 0;
    enum aw_err err = aw_file_read(path, AW__VPA_MEMORY_MAX, v->alloc, &bytes, &len, &why);
    json_t *value = err ? NULL : json_loadb(bytes, len, 0, NULL);
    aw_alloc_free(v->alloc, bytes);
    if (!err && strcmp(aw_kube_text_at(value, "format"), FORMAT) != 0)
        err = aw_fail(&why, AW_ERR_FORMAT, "not a file of container usage");
    if (!err) {
        v->remembered = value;
        return;
    }
    json_decref(value);
    const char *aside = aw_envelope_set_aside(path, err, buf, sizeof buf);
    if (err != AW_ERR_NOTFOUND)
        aw_log_warn(v->config.log, "what was learned of containers cannot be read",
                    AW_LOG_STR("file", path), AW_LOG_STR("why", why.text),
                    AW_LOG_STR("kept", aside));
}

static json_t *object_json(const struct aw__vpas *v, const struct aw__vpa *object,
                           struct aw_vpa_checkpoint *scratch)
{
    char target[AW_KUBE_NAME_MAX * 2 + AW_CLUSTER_NAME_MAX];
    json_t *containers = json_object();
    for (uint32_t i = 0; i < object->part_count; i++)
        if (object->part[i]->aggregate.sample_count > 0)
            json_object_set_new(containers, object->part[i]->name,
                                part_json(v, object->part[i], scratch));
    return json_pack("{s:s,s:o}", "target", target_print(object, target, sizeof target),
                     "containers", containers);
}

/* Of who has not been seen yet, what was remembered stays. */
enum aw_err aw__vpas_save(const struct aw__vpas *v, const char *path, struct aw_diag *diag)
{
    json_t *before = json_object_get(v->remembered, "objects");
    json_t *objects = before ? json_copy(before) : json_object();
    struct aw_vpa_checkpoint *scratch = aw_alloc_new(v->alloc, 1, sizeof *scratch);
    json_t *value = json_pack("{s:s,s:o}", "format", FORMAT, "objects", objects);
    enum aw_err err = AW_OK;
    if (!value || !scratch) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory to keep what was learned of containers");
        goto out;
    }
    for (uint32_t i = 0; i < v->used; i++)
        if (v->object[i] && !v->object[i]->gone && v->object[i]->part_count > 0)
            json_object_set_new(objects, v->object[i]->key, object_json(v, v->object[i], scratch));
    if (json_object_size(objects) == 0 && !before)
        goto out; /* nobody names us: no file */
    char *text = json_dumps(value, JSON_COMPACT);
    err = text ? aw_file_replace(path, text, strlen(text), NULL, diag)
               : aw_fail(diag, AW_ERR_NOMEM, "no memory to keep what was learned of containers");
    free(text);
out:
    aw_alloc_free(v->alloc, scratch);
    json_decref(value);
    return err;
}
