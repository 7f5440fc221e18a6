/* row.c - what a row may be, and when two rows are the same. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "store/backend.h"

#define FIGURES 7u /* doubles at the head of struct aw_store_figures */
_Static_assert(offsetof(struct aw_store_figures, amount) == FIGURES * sizeof(double),
               "the real figures come first");

enum aw_err aw__name_check(const char *workload, struct aw_diag *diag)
{
    size_t len = workload ? strnlen(workload, AW_STORE_NAME_MAX) : 0;
    char quoted[AW_TEXT_QUOTE_MAX];
    bool fine = len > 0 && len < AW_STORE_NAME_MAX && aw_text_utf8_bad(workload, len) == len;
    for (size_t i = 0; fine && i < len; i++)
        fine = (unsigned char)workload[i] >= 0x20 && workload[i] != 0x7f;
    if (fine)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "workload",
                      "expected a name of 1 to %u bytes of text without control characters, "
                      "found %s",
                      AW_STORE_NAME_MAX - 1,
                      workload ? aw_text_quote(workload, len, quoted, sizeof quoted) : "none");
}

static enum aw_err check_vector(const float *x, uint32_t dim, const char *key, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < dim; i++) {
        if (!isfinite(x[i]))
            return aw_fail_at(diag, AW_ERR_DIVERGED, NULL, 0, 0, key,
                              "expected finite numbers, found %f at %u", (double)x[i], i);
    }
    return AW_OK;
}

static enum aw_err check_shape(const struct aw_store_row *row, struct aw_diag *diag)
{
    if (row->obs_dim < 1 || row->obs_dim > AW_STORE_OBS_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "obs",
                          "expected 1 to %u numbers, found %u", AW_STORE_OBS_MAX, row->obs_dim);
    if (row->act_dim < 1 || row->act_dim > AW_STORE_ACT_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "action",
                          "expected 1 to %u numbers, found %u", AW_STORE_ACT_MAX, row->act_dim);
    if (row->episode > AW_STORE_EPISODE_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "episode",
                          "expected at most %u, found %u", AW_STORE_EPISODE_MAX, row->episode);
    if (row->stage >= AW_STAGE_COUNT)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "stage", "there is no stage %u",
                          row->stage);
    if (row->actor >= AW_ACTOR_COUNT)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "actor", "there is no actor %u",
                          row->actor);
    if (row->figures.violated > 1)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "violated", "expected 0 or 1, found %u",
                          row->figures.violated);
    if (row->figures.replicas < 0 || row->figures.replicas > UINT32_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "replicas",
                          "expected a whole number from 0 to 4294967295, found %" PRId64,
                          row->figures.replicas);
    return AW_OK;
}

enum aw_err aw__row_check(const struct aw_store_row *row, struct aw_diag *diag)
{
    double figures[FIGURES];
    enum aw_err err = aw__name_check(row->workload, diag);
    if (err || (err = check_shape(row, diag)) ||
        (err = check_vector(row->obs, row->obs_dim, "obs", diag)) ||
        (err = check_vector(row->next_obs, row->obs_dim, "next_obs", diag)) ||
        (err = check_vector(row->action, row->act_dim, "action", diag)) ||
        (err = check_vector(row->shadow, row->shadow ? row->act_dim : 0, "shadow", diag)) ||
        (err = check_vector(&row->reward, 1, "reward", diag)))
        return err;
    memcpy(figures, &row->figures, sizeof figures);
    for (uint32_t i = 0; i < FIGURES; i++) {
        if (isinf(figures[i]))
            return aw_fail_at(diag, AW_ERR_DIVERGED, NULL, 0, 0, "figures",
                              "expected numbers that are finite or not known, found %f",
                              figures[i]);
    }
    return AW_OK;
}

void aw__row_canonical(struct aw_store_row *row)
{
    double figures[FIGURES];
    memcpy(figures, &row->figures, sizeof figures);
    for (uint32_t i = 0; i < FIGURES; i++)
        figures[i] = isnan(figures[i]) ? (double)NAN : figures[i] + 0.0; /* -0 + 0 is 0 */
    memcpy(&row->figures, figures, sizeof figures);
    row->reward += 0.0f;
}

static bool same_vector(const float *a, const float *b, uint32_t dim)
{
    return (!a && !b) || (a && b && !memcmp(a, b, dim * sizeof *a));
}

bool aw__row_same(const struct aw_store_row *a, const struct aw_store_row *b)
{
    const struct aw_store_figures *f = &a->figures, *g = &b->figures;
    return !strcmp(a->workload, b->workload) && a->episode == b->episode && a->step == b->step &&
           a->at_us == b->at_us && a->stage == b->stage && a->actor == b->actor &&
           a->policy_id == b->policy_id && a->obs_dim == b->obs_dim && a->act_dim == b->act_dim &&
           a->terminated == b->terminated && a->truncated == b->truncated &&
           same_vector(&a->reward, &b->reward, 1) && same_vector(a->obs, b->obs, a->obs_dim) &&
           same_vector(a->next_obs, b->next_obs, a->obs_dim) &&
           same_vector(a->action, b->action, a->act_dim) &&
           same_vector(a->shadow, b->shadow, a->act_dim) &&
           !memcmp(f, g, FIGURES * sizeof(double)) &&
           !memcmp(f->amount, g->amount, sizeof f->amount) && f->violated == g->violated;
}

enum aw_err aw__row_conflict(const struct aw_store_row *row, struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_CONFLICT,
                   "episode %u, step %u of \"%s\" is kept already, with other content",
                   row->episode, row->step, row->workload);
}

static bool better(const struct aw_store_episode *a, const struct aw_store_episode *b)
{
    return a->reward_sum > b->reward_sum ||
           (a->reward_sum == b->reward_sum && a->episode > b->episode);
}

void aw__episodes_insert(struct aw_store_episode *episodes, uint32_t *count, uint32_t max,
                         enum aw_store_order order, const struct aw_store_episode *sum)
{
    if (!sum->ended || (order == AW_STORE_NEWEST && *count == max))
        return;
    /* the newest come in their order; the best are inserted where they belong */
    uint32_t place = *count < max ? (*count)++ : max;
    while (order == AW_STORE_BEST && place > 0 && better(sum, &episodes[place - 1])) {
        if (place < max)
            episodes[place] = episodes[place - 1];
        place--;
    }
    if (place < max)
        episodes[place] = *sum;
}

bool aw__query_takes(const struct aw_store_query *query, uint32_t episode, uint32_t step,
                     int64_t at_us)
{
    uint64_t key = aw__key(episode, step);
    return key >= aw__key(query->episode_first, query->step_first) &&
           key <= aw__key(query->episode_last, query->step_last) && at_us >= query->from_us &&
           at_us <= query->until_us;
}
