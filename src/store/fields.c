/* fields.c - the table of members, and their text in both directions. */
#include "store/fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MEMBER(member) offsetof(struct aw_store_row, member)

const struct aw__field aw__fields[AW__FIELD_COUNT] = {
    {"workload", AW__FIELD_NAME, 0},
    {"episode", AW__FIELD_U32, MEMBER(episode)},
    {"step", AW__FIELD_U32, MEMBER(step)},
    {"at_us", AW__FIELD_I64, MEMBER(at_us)},
    {"stage", AW__FIELD_STAGE, MEMBER(stage)},
    {"actor", AW__FIELD_ACTOR, MEMBER(actor)},
    {"model", AW__FIELD_MODEL, MEMBER(policy_id)},
    {"obs", AW__FIELD_OBS, 0},
    {"action", AW__FIELD_ACTION, 0},
    {"shadow", AW__FIELD_SHADOW, 0},
    {"reward", AW__FIELD_REWARD, MEMBER(reward)},
    {"next_obs", AW__FIELD_NEXT, 0},
    {"terminated", AW__FIELD_BOOL, MEMBER(terminated)},
    {"truncated", AW__FIELD_BOOL, MEMBER(truncated)},
    {"arrivals_per_s", AW__FIELD_FIGURE, MEMBER(figures.arrivals_per_s)},
    {"latency_us_p99", AW__FIELD_FIGURE, MEMBER(figures.latency_us_p99)},
    {"slo_preservation", AW__FIELD_FIGURE, MEMBER(figures.slo_preservation)},
    {"cpu_utilisation", AW__FIELD_FIGURE, MEMBER(figures.cpu_utilisation)},
    {"memory_utilisation", AW__FIELD_FIGURE, MEMBER(figures.memory_utilisation)},
    {"cost", AW__FIELD_FIGURE, MEMBER(figures.cost)},
    {"paper_reward", AW__FIELD_FIGURE, MEMBER(figures.paper_reward)},
    {"replicas", AW__FIELD_AMOUNT, MEMBER(figures.replicas)},
    {"violated", AW__FIELD_U32, MEMBER(figures.violated)},
#define X(id, member, ...) {#member, AW__FIELD_AMOUNT, MEMBER(figures.member)},
    AW_SIZE_MAP(X)
#undef X
};
#define FIELD_AMOUNTS (AW__FIELD_COUNT - AW_RESOURCES + 1) /* the first of AW_SIZE_MAP */
_Static_assert(AW__FIELD_COUNT <= 64, "`seen` has a bit for each");

void aw__row_in_init(struct aw__row_in *reading)
{
    reading->row = (struct aw_store_row){
        .workload = reading->name,
        .obs = reading->obs,
        .next_obs = reading->next_obs,
        .action = reading->action,
    };
    reading->next_dim = reading->shadow_dim = reading->seen = 0;
}

uint32_t aw__field_named(const char *name)
{
    uint32_t i = 0;
    while (i < AW__FIELD_COUNT && strcmp(aw__fields[i].name, name) != 0)
        i++;
    return i;
}

bool aw__field_is_vector(const struct aw__field *field)
{
    return field->kind >= AW__FIELD_OBS;
}

const float *aw__field_vector(const struct aw__field *field, const struct aw_store_row *row,
                              uint32_t *ret_dim)
{
    bool observed = field->kind == AW__FIELD_OBS || field->kind == AW__FIELD_NEXT;
    *ret_dim = observed ? row->obs_dim : row->act_dim;
    return field->kind == AW__FIELD_OBS      ? row->obs
           : field->kind == AW__FIELD_NEXT   ? row->next_obs
           : field->kind == AW__FIELD_ACTION ? row->action
                                             : row->shadow;
}

bool aw__field_print(const struct aw__field *field, const struct aw_store_row *row,
                     struct aw_text *text)
{
    const char *at = (const char *)row + field->offset;
    char real[AW_TEXT_REAL_MAX];
    uint32_t u32 = 0;
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double figure = 0;
    bool boolean = false;
    switch (field->kind) {
    case AW__FIELD_U32:
        memcpy(&u32, at, sizeof u32);
        aw_text_add(text, "%" PRIu32, u32);
        return false;
    case AW__FIELD_I64:
    case AW__FIELD_AMOUNT:
        memcpy(&i64, at, sizeof i64);
        if (i64 || field->kind == AW__FIELD_I64)
            aw_text_add(text, "%" PRId64, i64);
        return false;
    case AW__FIELD_STAGE:
        aw_text_add(text, "%s", aw_stage_name(row->stage));
        return true;
    case AW__FIELD_ACTOR:
        aw_text_add(text, "%s", aw_actor_name(row->actor));
        return true;
    case AW__FIELD_MODEL:
        memcpy(&u64, at, sizeof u64);
        aw_text_add(text, "%016" PRIx64, u64);
        return true;
    case AW__FIELD_BOOL:
        memcpy(&boolean, at, sizeof boolean);
        aw_text_add(text, "%s", boolean ? "true" : "false");
        return false;
    case AW__FIELD_REWARD:
        aw_text_add(text, "%s", aw_text_real_f32(row->reward, real, sizeof real));
        return false;
    default:
        AW_ASSERT(field->kind == AW__FIELD_FIGURE);
        memcpy(&figure, at, sizeof figure);
        if (!isnan(figure))
            aw_text_add(text, "%s", aw_text_real(figure, real, sizeof real));
        return false;
    }
}

/* ---- reading ---- */

static enum aw_err refuse(uint32_t field, const char *expected, const char *text,
                          struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, aw__fields[field].name,
                      "expected %s, found %s", expected,
                      text ? aw_text_quote(text, strlen(text), quoted, sizeof quoted) : "none");
}

static bool parse_i64(const char *text, int64_t *ret)
{
    uint64_t magnitude;
    bool negative = *text == '-';
    if (aw_text_parse_u64(text + negative, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static bool parse_model(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < 16 && text[i]; i++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, text[i]);
        if (!digit)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *ret = value;
    return i == 16 && !text[i];
}

static bool parse_word(const char *text, const char *(*name_of)(uint32_t), uint32_t *ret)
{
    const char *name;
    for (uint32_t i = 0; (name = name_of(i)); i++) {
        if (!strcmp(name, text)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

enum aw_err aw__field_set(struct aw__row_in *reading, uint32_t field, const char *text,
                          struct aw_diag *diag)
{
    char *to = (char *)&reading->row + aw__fields[field].offset;
    uint64_t u64;
    uint32_t u32;
    int64_t i64;
    double figure = (double)NAN;
    float reward;
    bool boolean;
    reading->seen |= UINT64_C(1) << field;
    if (!text &&
        (aw__fields[field].kind == AW__FIELD_SHADOW || aw__fields[field].kind == AW__FIELD_AMOUNT))
        return AW_OK;
    if (!text && aw__fields[field].kind != AW__FIELD_FIGURE)
        return refuse(field, "a value", NULL, diag);
    switch (aw__fields[field].kind) {
    case AW__FIELD_NAME:
        if (strlen(text) >= sizeof reading->name)
            return refuse(field, "a name of at most 127 bytes", text, diag);
        memcpy(reading->name, text, strlen(text) + 1);
        return AW_OK;
    case AW__FIELD_U32:
        if (aw_text_parse_u64(text, &u64) || u64 > UINT32_MAX)
            return refuse(field, "a whole number from 0 to 4294967295", text, diag);
        u32 = (uint32_t)u64;
        memcpy(to, &u32, sizeof u32);
        return AW_OK;
    case AW__FIELD_I64:
    case AW__FIELD_AMOUNT:
        if (!parse_i64(text, &i64))
            return refuse(field, "a whole number of 64 bits", text, diag);
        memcpy(to, &i64, sizeof i64);
        return AW_OK;
    case AW__FIELD_STAGE:
        if (!parse_word(text, aw_stage_name, &reading->row.stage))
            return refuse(field, "a stage", text, diag);
        return AW_OK;
    case AW__FIELD_ACTOR:
        if (!parse_word(text, aw_actor_name, &reading->row.actor))
            return refuse(field, "an actor", text, diag);
        return AW_OK;
    case AW__FIELD_MODEL:
        if (!parse_model(text, &reading->row.policy_id))
            return refuse(field, "16 hexadecimal digits", text, diag);
        return AW_OK;
    case AW__FIELD_BOOL:
        boolean = !strcmp(text, "true");
        if (!boolean && strcmp(text, "false") != 0)
            return refuse(field, "true or false", text, diag);
        memcpy(to, &boolean, sizeof boolean);
        return AW_OK;
    case AW__FIELD_REWARD:
        if (aw_text_parse_real_f32(text, &reward))
            return refuse(field, "a number", text, diag);
        reading->row.reward = reward;
        return AW_OK;
    case AW__FIELD_FIGURE:
        if (text && aw_text_parse_real(text, &figure))
            return refuse(field, "a number, or nothing", text, diag);
        memcpy(to, &figure, sizeof figure);
        return AW_OK;
    default:
        return refuse(field, "a list of numbers", text, diag);
    }
}

enum aw_err aw__field_push(struct aw__row_in *reading, uint32_t field, const char *text,
                           struct aw_diag *diag)
{
    struct aw_store_row *row = &reading->row;
    enum aw__field_kind kind = aw__fields[field].kind;
    bool observed = kind == AW__FIELD_OBS || kind == AW__FIELD_NEXT;
    uint32_t max = observed ? AW_STORE_OBS_MAX : AW_STORE_ACT_MAX;
    float *to = kind == AW__FIELD_OBS      ? reading->obs
                : kind == AW__FIELD_NEXT   ? reading->next_obs
                : kind == AW__FIELD_ACTION ? reading->action
                                           : reading->shadow;
    uint32_t *dim = kind == AW__FIELD_OBS      ? &row->obs_dim
                    : kind == AW__FIELD_NEXT   ? &reading->next_dim
                    : kind == AW__FIELD_ACTION ? &row->act_dim
                                               : &reading->shadow_dim;
    reading->seen |= UINT64_C(1) << field;
    if (*dim == max)
        return aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, aw__fields[field].name,
                          "more than %u numbers", max);
    if (aw_text_parse_real_f32(text, &to[*dim]))
        return refuse(field, "a number", text, diag);
    ++*dim;
    if (kind == AW__FIELD_SHADOW)
        row->shadow = reading->shadow;
    return AW_OK;
}

uint32_t aw__field_missing(const struct aw__row_in *reading)
{
    uint64_t seen = reading->seen;
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        if (!(AW_PLAN_COMMON & AW_PLAN_BIT(r)))
            seen |= UINT64_C(1) << (FIELD_AMOUNTS + r - AW_SIZE_FIRST);
    uint32_t i = 0;
    while (i < AW__FIELD_COUNT && seen >> i & 1)
        i++;
    return i;
}

enum aw_err aw__row_in_finish(struct aw__row_in *reading, struct aw_diag *diag)
{
    const struct aw_store_row *row = &reading->row;
    const uint32_t missing = aw__field_missing(reading);
    if (missing < AW__FIELD_COUNT)
        return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, aw__fields[missing].name, "missing");
    if (reading->next_dim != row->obs_dim)
        return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, "next_obs",
                          "expected %u numbers as in obs, found %u", row->obs_dim,
                          reading->next_dim);
    if (row->shadow && reading->shadow_dim != row->act_dim)
        return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, "shadow",
                          "expected %u numbers as in action, found %u", row->act_dim,
                          reading->shadow_dim);
    return AW_OK;
}
