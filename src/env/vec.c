/* vec.c - lockstep over copies; each copy touches only its own rows, so threads share nothing. */
#include "env/vec.h"

#include <math.h>
#include <string.h>

#include "base/envelope.h"

struct aw_vec_member {
    struct aw_rng seeds; /* of this copy's episodes */
    double episode_return;
    uint32_t length;
    enum aw_err err; /* of the last step */
};

/* A snapshot: a head, then for each copy a record, its row of `obs` and its environment's own. */
struct head {
    struct aw_envelope head;
    uint32_t count;
    uint32_t obs_dim;
    uint32_t state_bytes;
    uint32_t live;
};
struct record {
    struct aw_rng seeds;
    double episode_return;
    uint32_t length;
    uint32_t unused; /* zero */
};
AW_LAYOUT(head_layout, struct head, 0, AW_ENVELOPE(head.), count, obs_dim, state_bytes, live);
AW_LAYOUT(record_layout, struct record, 0, seeds.s, episode_return, length, unused);
static struct aw_format format = {.kind = "vec",
                                  .what = "a snapshot of environments",
                                  .version = 1,
                                  .layout = {head_layout, record_layout}};

size_t aw_vec_state_bytes(const struct aw_vec *vec)
{
    return sizeof(struct head) +
           vec->count * (sizeof(struct record) + vec->spec->observation.dim * sizeof(float) +
                         vec->spec->state_bytes);
}

static void carve(struct aw_vec *vec, struct aw_carve *block)
{
    size_t n = vec->count, rows = n * vec->spec->observation.dim;
    vec->envs = aw_carve_take(block, n, sizeof *vec->envs);
    vec->members = aw_carve_take(block, n, sizeof *vec->members);
    vec->obs = aw_carve_take(block, rows, sizeof *vec->obs);
    vec->prev_obs = aw_carve_take(block, rows, sizeof *vec->prev_obs);
    vec->next_obs = aw_carve_take(block, rows, sizeof *vec->next_obs);
    vec->action = aw_carve_take(block, n * vec->spec->action.dim, sizeof *vec->action);
    vec->reward = aw_carve_take(block, n, sizeof *vec->reward);
    vec->terminated = aw_carve_take(block, n, sizeof *vec->terminated);
    vec->truncated = aw_carve_take(block, n, sizeof *vec->truncated);
    vec->finished = aw_carve_take(block, n, sizeof *vec->finished);
    vec->rollback = aw_carve_take(block, 1, aw_vec_state_bytes(vec));
}

static enum aw_err make(const struct aw_env_factory *factory, const void *settings,
                        const struct aw_alloc *alloc, struct aw_env *ret_env, struct aw_diag *diag)
{
    return settings && factory->fields ? factory->make_with(settings, alloc, ret_env, diag)
                                       : factory->make(alloc, ret_env, diag);
}

enum aw_err aw_vec_init(struct aw_vec *vec, const struct aw_env_factory *factory, uint32_t count,
                        struct aw_threads *pool, const struct aw_alloc *alloc, struct aw_diag *diag)
{
    return aw_vec_init_with(vec, factory, NULL, count, pool, alloc, diag);
}

enum aw_err aw_vec_init_with(struct aw_vec *vec, const struct aw_env_factory *factory,
                             const void *settings, uint32_t count, struct aw_threads *pool,
                             const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *vec = (struct aw_vec){0};
    if (count == 0 || count > AW_VEC_COUNT_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected 1 to %u environments, found %u",
                       AW_VEC_COUNT_MAX, count);
    /* The first one says what shape they have: options may change the spaces. */
    struct aw_env first = {0};
    enum aw_err err = make(factory, settings, alloc, &first, diag);
    if (err)
        return err;
    *vec = (struct aw_vec){.spec = first.spec, .count = count, .pool = pool, .alloc = alloc};
    struct aw_carve block = {0};
    carve(vec, &block);
    block = (struct aw_carve){.base = aw_alloc_new(alloc, block.used, 1)};
    if (!block.base) {
        aw_env_free(&first);
        *vec = (struct aw_vec){0};
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u environments", count);
    }
    carve(vec, &block); /* `envs` comes first, so it is the block */
    vec->envs[0] = first;
    for (uint32_t i = 1; i < count && !err; i++)
        err = make(factory, settings, alloc, &vec->envs[i], diag);
    if (err)
        aw_vec_deinit(vec);
    return err;
}

void aw_vec_deinit(struct aw_vec *vec)
{
    for (uint32_t i = 0; i < vec->count; i++)
        aw_env_free(&vec->envs[i]);
    aw_alloc_free(vec->alloc, vec->envs);
    *vec = (struct aw_vec){0};
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

/* Begins copy i's next episode. */
static enum aw_err begin(struct aw_vec *vec, uint32_t i)
{
    size_t dim = vec->spec->observation.dim;
    struct aw_vec_member *member = &vec->members[i];
    float *obs = vec->obs + i * dim;
    member->episode_return = 0;
    member->length = 0;
    enum aw_err err = vec->envs[i].ops->reset(vec->envs[i].self, aw_rng_u64(&member->seeds), obs);
    return err ? err : all_finite(obs, dim) ? AW_OK : AW_ERR_DIVERGED;
}

static void begin_one(void *ctx, uint32_t i, uint32_t worker)
{
    (void)worker;
    struct aw_vec *vec = ctx;
    vec->members[i].err = begin(vec, i);
}

/* The step's description, as if nothing had happened yet. */
static void clear_last_step(struct aw_vec *vec)
{
    size_t n = vec->count, rows = n * vec->spec->observation.dim;
    memset(vec->prev_obs, 0, rows * sizeof *vec->prev_obs);
    memset(vec->next_obs, 0, rows * sizeof *vec->next_obs);
    memset(vec->reward, 0, n * sizeof *vec->reward);
    memset(vec->terminated, 0, n * sizeof *vec->terminated);
    memset(vec->truncated, 0, n * sizeof *vec->truncated);
    vec->finished_count = 0;
}

/* The failure of the first copy that has one: the same whatever thread was first. */
static enum aw_err first_failure(struct aw_vec *vec, const char *what, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < vec->count; i++)
        if (vec->members[i].err) {
            vec->live = false;
            return aw_fail(diag, vec->members[i].err, "%s: environment %u of %u failed to %s: %s",
                           vec->spec->name, i, vec->count, what, aw_err_text(vec->members[i].err));
        }
    return AW_OK;
}

enum aw_err aw_vec_reset(struct aw_vec *vec, uint64_t seed, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < vec->count; i++)
        aw_rng_init(&vec->members[i].seeds, seed, i);
    clear_last_step(vec);
    vec->live = true;
    aw_threads_parallel_for(vec->pool, vec->count, 0, begin_one, vec);
    return first_failure(vec, "reset", diag);
}

static enum aw_err advance(struct aw_vec *vec, uint32_t i)
{
    size_t dim = vec->spec->observation.dim;
    const struct aw_env *env = &vec->envs[i];
    struct aw_vec_member *member = &vec->members[i];
    float *next_obs = vec->next_obs + i * dim;
    struct aw_step step = {0};
    enum aw_err err =
        env->ops->step(env->self, vec->action + i * vec->spec->action.dim, next_obs, &step);
    if (err)
        return err;
    if (!isfinite(step.reward) || !all_finite(next_obs, dim))
        return AW_ERR_DIVERGED;
    vec->reward[i] = step.reward;
    vec->terminated[i] = step.terminated;
    vec->truncated[i] = step.truncated;
    member->episode_return += (double)step.reward;
    member->length++;
    if (!step.terminated && !step.truncated) {
        memcpy(vec->obs + i * dim, next_obs, dim * sizeof *next_obs);
        return AW_OK;
    }
    /* Parked in the copy's own slot; step() moves the finished ones together afterwards. */
    vec->finished[i] = (struct aw_vec_episode){.env = i,
                                               .length = member->length,
                                               .episode_return = member->episode_return,
                                               .terminated = step.terminated};
    return begin(vec, i);
}

static void advance_one(void *ctx, uint32_t i, uint32_t worker)
{
    (void)worker;
    struct aw_vec *vec = ctx;
    vec->members[i].err = advance(vec, i);
}

enum aw_err aw_vec_fallback(struct aw_vec *vec, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < vec->count; i++)
        if (!aw_env_fallback(&vec->envs[i], vec->action + (size_t)i * vec->spec->action.dim))
            return aw_fail(diag, AW_ERR_NODATA,
                           "copy %u of %s does not say what its own agent does", i,
                           vec->spec->name);
    return AW_OK;
}

enum aw_err aw_vec_step(struct aw_vec *vec, struct aw_diag *diag)
{
    AW_ASSERT(vec->live);
    const struct aw_space *space = &vec->spec->action;
    for (uint32_t i = 0; i < vec->count; i++)
        if (!aw_space_accepts(space, vec->action + (size_t)i * space->dim))
            return aw_fail(
                diag, AW_ERR_RANGE,
                "%s: the action of environment %u (first element %g) is not one it takes",
                vec->spec->name, i, (double)vec->action[(size_t)i * space->dim]);

    float *answered = vec->obs;
    vec->obs = vec->prev_obs;
    vec->prev_obs = answered;
    aw_threads_parallel_for(vec->pool, vec->count, 0, advance_one, vec);

    vec->finished_count = 0;
    enum aw_err err = first_failure(vec, "step", diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < vec->count; i++)
        if (vec->terminated[i] || vec->truncated[i])
            vec->finished[vec->finished_count++] = vec->finished[i];
    return AW_OK;
}

void aw_vec_state_save(const struct aw_vec *vec, void *bytes)
{
    size_t dim = vec->spec->observation.dim, row_bytes = dim * sizeof(float);
    struct head head = {.count = vec->count,
                        .obs_dim = vec->spec->observation.dim,
                        .state_bytes = vec->spec->state_bytes,
                        .live = vec->live};
    unsigned char *at = bytes;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t i = 0; i < vec->count; i++) {
        const struct aw_vec_member *member = &vec->members[i];
        struct record record = {member->seeds, member->episode_return, member->length, 0};
        memcpy(at, &record, sizeof record);
        at += sizeof record;
        memcpy(at, vec->obs + i * dim, row_bytes);
        at += row_bytes;
        vec->envs[i].ops->state_save(vec->envs[i].self, at);
        at += vec->spec->state_bytes;
    }
    aw_envelope_seal(&format, 0, bytes, aw_vec_state_bytes(vec));
}

/* Takes everything from a snapshot of the right shape. A failure may leave it half done. */
static enum aw_err load(struct aw_vec *vec, const unsigned char *at)
{
    size_t dim = vec->spec->observation.dim, row_bytes = dim * sizeof(float);
    struct head head;
    memcpy(&head, at, sizeof head);
    at += sizeof head;
    vec->live = head.live;
    for (uint32_t i = 0; i < vec->count; i++) {
        struct record record;
        memcpy(&record, at, sizeof record);
        at += sizeof record;
        vec->members[i] = (struct aw_vec_member){.seeds = record.seeds,
                                                 .episode_return = record.episode_return,
                                                 .length = record.length};
        memcpy(vec->obs + i * dim, at, row_bytes);
        at += row_bytes;
        if (!isfinite(record.episode_return) || !all_finite(vec->obs + i * dim, dim))
            return AW_ERR_FORMAT;
        enum aw_err err = vec->envs[i].ops->state_load(vec->envs[i].self, at);
        if (err)
            return err;
        at += vec->spec->state_bytes;
    }
    return AW_OK;
}

enum aw_err aw_vec_state_load(struct aw_vec *vec, const void *bytes, size_t size,
                              struct aw_diag *diag)
{
    struct head head;
    if (size != aw_vec_state_bytes(vec))
        return aw_fail(diag, AW_ERR_FORMAT,
                       "a snapshot of %u times %s is %zu bytes long, found %zu", vec->count,
                       vec->spec->name, aw_vec_state_bytes(vec), size);
    enum aw_err err = aw_envelope_open(&format, 0, bytes, size, diag);
    if (err)
        return err;
    memcpy(&head, bytes, sizeof head);
    if (head.count != vec->count || head.obs_dim != vec->spec->observation.dim ||
        head.state_bytes != vec->spec->state_bytes || head.live > 1)
        return aw_fail(diag, AW_ERR_FORMAT, "these bytes are not a snapshot of %u times %s",
                       vec->count, vec->spec->name);
    bool was_live = vec->live;
    if (was_live)
        aw_vec_state_save(vec, vec->rollback);
    err = load(vec, bytes);
    if (err) {
        /* What we just wrote ourselves loads. A vector that had failed stays so. */
        vec->live = false;
        AW_ASSERT(!was_live || load(vec, vec->rollback) == AW_OK);
        return aw_fail(diag, AW_ERR_FORMAT, "the snapshot holds no valid state of %s",
                       vec->spec->name);
    }
    clear_last_step(vec);
    return AW_OK;
}
