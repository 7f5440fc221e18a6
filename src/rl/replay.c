/* replay.c - the ring: one row per transition, gathered into a batch. */
#include "rl/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/params.h"

enum aw_err aw_replay_init(struct aw_replay *replay, const struct aw_replay_config *config,
                           const struct aw_alloc *alloc)
{
    *replay = (struct aw_replay){0};
    if (!config->capacity || config->capacity > AW_REPLAY_CAPACITY_MAX || !config->obs_dim ||
        config->obs_dim > AW_REPLAY_DIM_MAX || !config->act_dim ||
        config->act_dim > AW_REPLAY_DIM_MAX)
        return AW_ERR_LIMIT;
    uint32_t row_floats = 2 * config->obs_dim + config->act_dim + 2;
    float *rows = aw_alloc_new(alloc, config->capacity, row_floats * sizeof *rows);
    if (!rows)
        return AW_ERR_NOMEM;
    *replay = (struct aw_replay){
        .config = *config, .row_floats = row_floats, .rows = rows, .alloc = alloc};
    return AW_OK;
}

void aw_replay_deinit(struct aw_replay *replay)
{
    aw_alloc_free(replay->alloc, replay->rows);
    *replay = (struct aw_replay){0};
}

enum aw_err aw_replay_push(struct aw_replay *replay, const float *obs, const float *act,
                           float reward, const float *next_obs, bool terminal)
{
    uint32_t S = replay->config.obs_dim, A = replay->config.act_dim;
    if (!isfinite(reward) || !aw_params_finite(obs, S) || !aw_params_finite(act, A) ||
        !aw_params_finite(next_obs, S))
        return AW_ERR_DIVERGED;
    float *row = replay->rows + replay->cursor * replay->row_floats;
    memcpy(row, obs, S * sizeof *row);
    memcpy(row + S, act, A * sizeof *row);
    row[S + A] = reward;
    row[S + A + 1] = terminal ? 1.0f : 0.0f;
    memcpy(row + S + A + 2, next_obs, S * sizeof *row);
    replay->cursor = (replay->cursor + 1) % replay->config.capacity;
    if (replay->count < replay->config.capacity)
        replay->count++;
    return AW_OK;
}

static void gather(const struct aw_replay *replay, const float *row, size_t b,
                   const struct aw_replay_batch *batch)
{
    size_t S = replay->config.obs_dim, A = replay->config.act_dim;
    if (batch->obs)
        memcpy(batch->obs + b * S, row, S * sizeof *row);
    if (batch->obs_act)
        memcpy(batch->obs_act + b * (S + A), row, (S + A) * sizeof *row);
    if (batch->act)
        memcpy(batch->act + b * A, row + S, A * sizeof *row);
    if (batch->reward)
        batch->reward[b] = row[S + A];
    if (batch->terminal)
        batch->terminal[b] = row[S + A + 1];
    if (batch->next_obs)
        memcpy(batch->next_obs + b * S, row + S + A + 2, S * sizeof *row);
}

void aw_replay_sample(const struct aw_replay *replay, struct aw_rng *rng, uint32_t B,
                      const struct aw_replay_batch *batch)
{
    AW_ASSERT(replay->count > 0 && B <= AW_REPLAY_BATCH_MAX);
    /* Rows lie far apart in a big ring. Drawing all places first lets the misses overlap. */
    uint32_t index[AW_REPLAY_BATCH_MAX];
    for (uint32_t b = 0; b < B; b++) {
        index[b] = aw_rng_below(rng, replay->count);
        __builtin_prefetch(replay->rows + (size_t)index[b] * replay->row_floats);
    }
    for (uint32_t b = 0; b < B; b++)
        gather(replay, replay->rows + (size_t)index[b] * replay->row_floats, b, batch);
}

static const char *part_name(const char *name, const char *part, char *buf)
{
    snprintf(buf, AW_PERSIST_NAME_MAX, "%s.%s", name, part);
    return buf;
}

void aw_replay_persist(struct aw_replay *replay, struct aw_persist *persist, const char *name)
{
    char buf[AW_PERSIST_NAME_MAX];
    aw_persist_add_rows(persist, AW_PERSIST_STATE, part_name(name, "rows", buf), AW_DTYPE_F32,
                        &replay->count, replay->config.capacity, replay->row_floats, replay->rows);
    aw_persist_add_u64(persist, part_name(name, "cursor", buf), &replay->cursor);
}

enum aw_err aw_replay_persist_valid(const struct aw_replay *replay,
                                    const struct aw_persist_found *found, const char *name,
                                    struct aw_diag *diag)
{
    char buf[AW_PERSIST_NAME_MAX];
    uint32_t capacity = replay->config.capacity;
    uint32_t rows = aw_persist_peek_rows(found, part_name(name, "rows", buf));
    const void *found_cursor = aw_persist_peek(found, part_name(name, "cursor", buf));
    if (!found_cursor)
        return AW_OK; /* a model without its state */
    uint64_t cursor;
    memcpy(&cursor, found_cursor, sizeof cursor);
    /* before the ring is full it is filled from the front; after that any place may be next */
    if (cursor >= capacity || (rows < capacity && cursor != rows))
        return aw_fail(diag, AW_ERR_FORMAT,
                       "%s: expected the place after %u rows of a ring of %u, found %llu", buf,
                       rows, capacity, (unsigned long long)cursor);
    return AW_OK;
}
