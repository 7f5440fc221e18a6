/*
 * pilot_policy.c - a policy as a file: out of one pilot, and into another, where it is tried.
 *
 *   {"checksum": "<16 hex digits>", "format": "aware-policy", "version": 1, "id": "<16 hex
 * digits>", "kind": "formula", "numbers": {"cpu": 0.624, ...}, "values": {"cpu": 1.0, ...}}
 *
 * `numbers` are as they are searched for, in [0, 1]; `values` tell people what they stand for and
 * are not read. A network has `task` (what it sees and does) and its arrays instead. The checksum
 * is FNV-1a of everything else as JSON without white space, keys sorted, 17 digits: it finds what a
 * disk or an editor did. It is no signature: who may hand in a policy is decided before this.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/hash.h"
#include "base/text.h"
#include "control/pilot_internal.h"

#define FORMAT     "aware-policy"
#define VERSION    1
#define HEX_BYTES  17u /* of an id, with its NUL */
#define DUMP_FLAGS (JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17))

static void hex_of(uint64_t value, char *hex)
{
    snprintf(hex, HEX_BYTES, "%016" PRIx64, value);
}

/* FNV-1a over the object without its member "checksum". False: no memory. */
static bool checksum_of(json_t *policy, char *hex)
{
    json_t *rest = json_copy(policy);
    char *text = NULL;
    if (rest) {
        json_object_del(rest, "checksum");
        text = json_dumps(rest, DUMP_FLAGS);
    }
    uint64_t h = aw_hash_text(AW_HASH_BEGIN, text);
    hex_of(h, hex);
    const bool known = text != NULL;
    free(text);
    json_decref(rest);
    return known;
}

/* --- out -------------------------------------------------------------------------------------- */

static enum aw_err text_of(const struct aw_pilot *pilot, uint64_t id, const struct aw_policy *which,
                           char **ret_text, struct aw_diag *diag)
{
    char hex[HEX_BYTES], *text = NULL;
    json_t *policy = json_object();
    hex_of(id, hex);
    int bad = json_object_set_new(policy, "format", json_string(FORMAT));
    bad |= json_object_set_new(policy, "version", json_integer(VERSION));
    bad |= json_object_set_new(policy, "id", json_string(hex));
    bad |= json_object_set_new(policy, "kind", json_string(aw_policy_names[pilot->config.agent]));
    bad |= which->ops->describe(which->self, policy);
    bad |= !checksum_of(policy, hex);
    bad |= json_object_set_new(policy, "checksum", json_string(hex));
    if (!bad)
        text = json_dumps(policy, DUMP_FLAGS);
    json_decref(policy);
    if (!text)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the policy of %s", pilot->config.name);
    *ret_text = text;
    return AW_OK;
}

enum aw_err aw_pilot_policy_text(const struct aw_pilot *pilot, char **ret_text,
                                 struct aw_diag *diag)
{
    const uint64_t id = aw__pilot_policy_id(pilot);
    if (pilot->policy.ops->elsewhere)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "workload %s has an external agent, which keeps its policy itself",
                       pilot->config.name);
    return id ? text_of(pilot, id, &pilot->policy, ret_text, diag)
              : aw_fail(diag, AW_ERR_NODATA, "workload %s has no policy yet", pilot->config.name);
}

enum aw_err aw_pilot_trial_text(const struct aw_pilot *pilot, char **ret_text, struct aw_diag *diag)
{
    const struct aw_canary_memory *canary = &pilot->memory.canary;
    return aw_canary_busy(canary)
               ? text_of(pilot, canary->candidate.id, &pilot->trial, ret_text, diag)
               : aw_fail(diag, AW_ERR_NODATA, "workload %s tries no policy", pilot->config.name);
}

/* --- in --------------------------------------------------------------------------------------- */

static enum aw_err read_id(const json_t *policy, uint64_t *ret, struct aw_diag *diag)
{
    const char *hex = json_string_value(json_object_get(policy, "id"));
    char *end = NULL;
    const uint64_t id =
        hex && strspn(hex, "0123456789abcdef") == HEX_BYTES - 1 && hex[HEX_BYTES - 1] == '\0'
            ? strtoull(hex, &end, 16)
            : 0;
    if (id == 0)
        return aw_fail(diag, AW_ERR_FORMAT, "id: expected 16 hexadecimal digits that are not 0");
    *ret = id;
    return AW_OK;
}

/* Bytes from outside as a terminal can show them. */
static const char *quote(const char *text, char *buf)
{
    return text ? aw_text_quote(text, strlen(text), buf, AW_TEXT_QUOTE_MAX) : "none";
}

/* All that does not depend on the kind. */
static enum aw_err read_head(const struct aw_pilot *pilot, json_t *policy, uint64_t *ret_id,
                             struct aw_diag *diag)
{
    char hex[HEX_BYTES], found[AW_TEXT_QUOTE_MAX];
    const char *format = json_string_value(json_object_get(policy, "format"));
    if (!format || strcmp(format, FORMAT) != 0)
        return aw_fail(diag, AW_ERR_FORMAT, "not a policy: expected \"format\": \"" FORMAT "\"");
    const json_int_t version = json_integer_value(json_object_get(policy, "version"));
    if (version != VERSION)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "version: expected %d, found %" JSON_INTEGER_FORMAT
                       ": it was written by another version of aware",
                       VERSION, version);
    const char *checksum = json_string_value(json_object_get(policy, "checksum"));
    if (!checksum_of(policy, hex))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to read a policy");
    if (!checksum || strcmp(checksum, hex) != 0)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "checksum: expected %s, found %s: the file is damaged or was edited", hex,
                       quote(checksum, found));
    const char *kind = json_string_value(json_object_get(policy, "kind"));
    const char *own = aw_policy_names[pilot->config.agent];
    if (!kind || strcmp(kind, own) != 0)
        return aw_fail(diag, AW_ERR_CONFIG, "kind: expected %s, as workload %s has it, found %s",
                       own, pilot->config.name, quote(kind, found));
    return read_id(policy, ret_id, diag);
}

/* Whether this is the moment to try it. */
static enum aw_err may_try(const struct aw_pilot *pilot, uint64_t id, struct aw_diag *diag)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const char *name = pilot->config.name;
    if (id == aw__pilot_policy_id(pilot))
        return aw_fail(diag, AW_ERR_EXISTS, "policy %016" PRIx64 " is the one that %s has", id,
                       name);
    if (aw_canary_busy(&memory->canary))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "workload %s is trying policy %016" PRIx64 " (%s); one at a time", name,
                       memory->canary.candidate.id,
                       aw_canary_state_name((enum aw_canary_state)memory->canary.state));
    if (!pilot->config.learning || !aw__pilot_policy_id(pilot) ||
        !aw_lifecycle_agent_acts(&memory->lifecycle))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "workload %s is in the hands of its fallback: a policy is tried beside one "
                       "that acts",
                       name);
    if (aw_canary_barred(&memory->canary, id, memory->rows))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "policy %016" PRIx64 " was rolled back on %s, and too little has been seen "
                       "since",
                       id, name);
    return AW_OK;
}

/* A file that was read. */
struct file {
    json_t *json;
    uint64_t id;
    struct aw_policy policy;
};

static void file_deinit(struct file *file)
{
    aw_policy_free(&file->policy);
    json_decref(file->json);
    *file = (struct file){0};
}

/* On failure too `ret` is to be deinited. */
static enum aw_err file_read(const struct aw_pilot *pilot, const char *text, size_t size,
                             struct file *ret, struct aw_diag *diag)
{
    json_error_t error;
    *ret = (struct file){0};
    if (pilot->policy.ops->elsewhere)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "workload %s has an external agent, which keeps its policy itself",
                       pilot->config.name);
    if (size > AW_PILOT_POLICY_BYTES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a policy of %zu bytes: at most %u are read", size,
                       AW_PILOT_POLICY_BYTES_MAX);
    ret->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!ret->json)
        return aw_fail(diag, AW_ERR_FORMAT, "not a policy: no JSON at line %d, column %d",
                       error.line, error.column);
    if (!json_is_object(ret->json))
        return aw_fail(diag, AW_ERR_FORMAT, "not a policy: expected an object");
    enum aw_err err = read_head(pilot, ret->json, &ret->id, diag);
    if (err)
        return err;
    if (aw_policy_new(pilot->policy.ops, &pilot->policy_task, pilot->alloc, &ret->policy))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a policy");
    return ret->policy.ops->read(ret->policy.self, ret->json, ret->id, diag);
}

enum aw_err aw_pilot_policy_read(const struct aw_pilot *pilot, const char *text, size_t size,
                                 struct aw_pilot_policy *ret, struct aw_diag *diag)
{
    struct file file;
    enum aw_err err = file_read(pilot, text, size, &file, diag);
    if (!err) {
        struct aw_pilot_policy policy = {.id = file.id};
        snprintf(policy.checksum, sizeof policy.checksum, "%s",
                 json_string_value(json_object_get(file.json, "checksum")));
        policy.text = json_dumps(file.json, DUMP_FLAGS | JSON_ENSURE_ASCII);
        if (policy.text)
            *ret = policy;
        else
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a policy");
    }
    file_deinit(&file);
    return err;
}

enum aw_err aw_pilot_propose(struct aw_pilot *pilot, const char *text, size_t size,
                             struct aw_diag *diag)
{
    struct file file;
    enum aw_err err = file_read(pilot, text, size, &file, diag);
    err = err ? err : may_try(pilot, file.id, diag);
    const struct aw_canary_candidate candidate = {
        .id = file.id, .gain = NAN, .gain_error = NAN, .violation_share = NAN};
    if (!err) {
        aw__pilot_try(pilot, &file.policy, NULL, &candidate, AW_CANARY_CAUSE_PROPOSED);
        pilot->memory.by_trial = 0;  /* what decided the step before was another one */
        pilot->memory.learn_due = 0; /* nothing is learned while one is tried */
    }
    file_deinit(&file);
    return err;
}

enum aw_err aw_pilot_rollback(struct aw_pilot *pilot, struct aw_diag *diag)
{
    if (!aw_canary_busy(&pilot->memory.canary))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "workload %s tries no policy: the one that it has, %016" PRIx64
                       ", is the last known good one",
                       pilot->config.name, aw__pilot_policy_id(pilot));
    aw__pilot_canary_ordered(pilot);
    return AW_OK;
}

uint64_t aw_pilot_policy_order(const struct aw_pilot *pilot)
{
    return pilot->memory.policy_order;
}

void aw_pilot_policy_ordered(struct aw_pilot *pilot, uint64_t order)
{
    pilot->memory.policy_order = order;
}
