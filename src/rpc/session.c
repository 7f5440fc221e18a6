/* session.c - see session.h. */
#include "rpc/session.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* Of a message beyond its floats: field headers, and an index of up to 5 bytes for each copy that
 * terminated or was truncated. */
#define HEADERS_BYTES 64u
#define INDEX_BYTES   10u

static void carve(struct aw__session *s, struct aw_carve *block)
{
    const size_t rows = (size_t)s->count * s->spec->observation.dim;
    s->copies = aw_carve_take(block, s->count, sizeof *s->copies);
    s->obs = aw_carve_take(block, rows, sizeof *s->obs);
    s->final_obs = aw_carve_take(block, rows, sizeof *s->final_obs);
    s->reward = aw_carve_take(block, s->count, sizeof *s->reward);
    s->terminated = aw_carve_take(block, s->count, sizeof *s->terminated);
    s->truncated = aw_carve_take(block, s->count, sizeof *s->truncated);
}

static enum aw_err size_check(const struct aw_env_spec *spec, uint32_t count, size_t bytes_max,
                              struct aw_diag *diag)
{
    const size_t row = (2 * (size_t)spec->observation.dim + 1) * sizeof(float) + INDEX_BYTES;
    const size_t action = (size_t)spec->action.dim * sizeof(float);
    const size_t wide = row > action ? row : action;
    if (wide * count + HEADERS_BYTES > bytes_max)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "a step of %u times %s would not fit into a message of %zu bytes; at most "
                       "%zu copies do",
                       count, spec->name, bytes_max, (bytes_max - HEADERS_BYTES) / wide);
    return AW_OK;
}

enum aw_err aw__session_open(struct aw__session *session, const char *name,
                             const char *const *pairs, size_t pair_count, uint32_t count,
                             size_t message_bytes_max, const struct aw_alloc *alloc,
                             struct aw_diag *diag)
{
    struct aw_env first = {0};
    struct aw_carve block = {0};
    enum aw_err err;
    *session = (struct aw__session){0};
    if (count == 0 || count > AW__SESSION_COPIES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected 1 to %u copies, found %u",
                       AW__SESSION_COPIES_MAX, count);
    if ((err = aw_env_make_with(name, pairs, pair_count, alloc, &first, diag)))
        return err;
    if ((err = size_check(first.spec, count, message_bytes_max, diag)))
        goto out;
    *session = (struct aw__session){.spec = first.spec, .count = count, .alloc = alloc};
    carve(session, &block);
    block = (struct aw_carve){.base = aw_alloc_new(alloc, block.used, 1)};
    if (!block.base) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u environments", count);
        goto out;
    }
    carve(session, &block); /* `copies` comes first, so it is the block */
    session->copies[0].env = first;
    first = (struct aw_env){0};
    for (uint32_t i = 1; i < count && !err; i++)
        err = aw_env_make_with(name, pairs, pair_count, alloc, &session->copies[i].env, diag);
out:
    aw_env_free(&first);
    if (err)
        aw__session_close(session);
    return err;
}

void aw__session_close(struct aw__session *session)
{
    for (uint32_t i = 0; session->copies && i < session->count; i++)
        aw_env_free(&session->copies[i].env);
    aw_alloc_free(session->alloc, session->copies);
    *session = (struct aw__session){0};
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

static float *row(const struct aw__session *s, float *rows, uint32_t i)
{
    return rows + (size_t)i * s->spec->observation.dim;
}

static enum aw_err begin(struct aw__session *s, uint32_t i, uint64_t seed)
{
    struct aw__session_copy *copy = &s->copies[i];
    float *obs = row(s, s->obs, i);
    const enum aw_err err = copy->env.ops->reset(copy->env.self, seed, obs);
    if (err)
        return err;
    s->ended_count -= copy->ended;
    copy->ended = false;
    return all_finite(obs, s->spec->observation.dim) ? AW_OK : AW_ERR_DIVERGED;
}

static enum aw_err failed(struct aw__session *s, uint32_t i, const char *what, enum aw_err err,
                          struct aw_diag *diag)
{
    s->live = false;
    /* whatever it was, it is the environment's failure and not the client's */
    return aw_fail(diag, err == AW_ERR_NOMEM ? err : AW_ERR_DIVERGED,
                   "%s: copy %u of %u failed to %s: %s", s->spec->name, i, s->count, what,
                   aw_err_text(err));
}

enum aw_err aw__session_reset(struct aw__session *session, const struct aw__session_reset *how,
                              struct aw_diag *diag)
{
    const uint32_t count = how->only ? (uint32_t)how->only_count : session->count;
    if (how->only && !session->live)
        return aw_fail(diag, AW_ERR_CONFLICT, "a reset of some copies before one of all");
    if (how->only && (!session->manual || !how->manual))
        return aw_fail(diag, AW_ERR_FORMAT, "these copies reset themselves");
    for (size_t i = 0; how->only && i < how->only_count; i++)
        if (how->only[i] >= session->count || (i && how->only[i] <= how->only[i - 1]))
            return aw_fail(diag, AW_ERR_FORMAT,
                           "copies to reset: expected ascending numbers below %u", session->count);
    if (!how->only) {
        for (uint32_t i = 0; i < session->count; i++)
            aw_rng_init(&session->copies[i].seeds, how->seed, i);
        session->manual = how->manual;
        session->next_step = how->next_step;
        session->live = true;
    }
    session->final_count = session->terminated_count = session->truncated_count = 0;
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t i = how->only ? how->only[k] : k;
        const uint64_t next = aw_rng_u64(&session->copies[i].seeds);
        const enum aw_err err = begin(session, i, how->exact ? how->seed + i : next);
        if (err)
            return failed(session, i, "reset", err, diag);
    }
    return AW_OK;
}

static enum aw_err advance(struct aw__session *s, uint32_t i, const float *action)
{
    struct aw__session_copy *copy = &s->copies[i];
    const size_t dim = s->spec->observation.dim;
    float *obs = row(s, s->obs, i);
    struct aw_step step = {0};
    const enum aw_err err = copy->env.ops->step(copy->env.self, action, obs, &step);
    if (err)
        return err;
    if (!isfinite(step.reward) || !all_finite(obs, dim))
        return AW_ERR_DIVERGED;
    s->reward[i] = step.reward;
    if (step.terminated)
        s->terminated[s->terminated_count++] = i;
    if (step.truncated)
        s->truncated[s->truncated_count++] = i;
    if (!step.terminated && !step.truncated)
        return AW_OK;
    copy->ended = true;
    s->ended_count++;
    if (s->manual || s->next_step)
        return AW_OK;
    memcpy(row(s, s->final_obs, s->final_count++), obs, dim * sizeof *obs);
    return begin(s, i, aw_rng_u64(&copy->seeds));
}

enum aw_err aw__session_step(struct aw__session *session, const float *action, size_t action_count,
                             struct aw_diag *diag)
{
    const struct aw_space *space = &session->spec->action;
    if (!session->live)
        return aw_fail(diag, AW_ERR_CONFLICT, "a step before a reset");
    if (session->ended_count && !session->next_step)
        return aw_fail(diag, AW_ERR_CONFLICT, "%u of %u copies have ended and were not reset",
                       session->ended_count, session->count);
    if (action_count != (size_t)session->count * space->dim)
        return aw_fail(diag, AW_ERR_FORMAT, "expected %u times %u floats of action, found %zu",
                       session->count, space->dim, action_count);
    for (uint32_t i = 0; i < session->count; i++)
        if (!aw_space_accepts(space, action + (size_t)i * space->dim))
            return aw_fail(diag, AW_ERR_RANGE,
                           "the action of copy %u (first element %g) is not one it takes", i,
                           (double)action[(size_t)i * space->dim]);
    session->final_count = session->terminated_count = session->truncated_count = 0;
    for (uint32_t i = 0; i < session->count; i++) {
        const bool begins = session->copies[i].ended;
        const enum aw_err err = begins ? begin(session, i, aw_rng_u64(&session->copies[i].seeds))
                                       : advance(session, i, action + (size_t)i * space->dim);
        if (err)
            return failed(session, i, begins ? "reset" : "step", err, diag);
        session->reward[i] = begins ? 0 : session->reward[i];
    }
    return AW_OK;
}
