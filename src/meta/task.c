/*
 * task.c - a meta-learner of one task: data in, embeddings out, gradients back (aware/meta.h).
 *
 * FLASH has the base learner and the meta-learner in one graph of one framework. Here they meet at
 * two calls, embedding and feedback, so that the base learner may be anything that can say how its
 * loss changes with its input. update reads the workloads with feedback once more, in groups, and
 * goes back through the encoder: the forward pass is made twice, and no activations have to be kept
 * from the one to the other.
 */
#include "meta/task.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

/* Below this share of a number's own size its spread is rounding, not variety. */
#define VARIED_SHARE 1e-6
#define VARIED_LEAST 1e-15

struct aw_meta_settings aw_meta_default(void)
{
    return (struct aw_meta_settings){
        .encoder = AW_META_POOL,
        .hidden = 64,
        .dense = 64,
        .embedding = 16,
        .keep_count = 16,
        .workloads_max = 256,
        .group = 16,
        .learning_rate = 1e-3,
        .grad_norm_max = 10,
        .seed = 1,
    };
}

struct aw_meta_settings aw_meta_paper(void)
{
    struct aw_meta_settings settings = aw_meta_default();
    settings.encoder = AW_META_GRU;
    settings.hidden = settings.dense = 256;
    settings.embedding = 32;
    settings.keep_count = 20;
    settings.learning_rate = 3e-4;
    return settings;
}

/* --- register --------------------------------------------------------------------------------- */

static bool name_is_fit(const char *name)
{
    const size_t length = strnlen(name, AW_META_NAME_MAX);
    if (length == 0 || length == AW_META_NAME_MAX || aw_text_utf8_bad(name, length) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return true;
}

static enum aw_err expect(const char *key, uint64_t value, uint64_t most, struct aw_diag *diag)
{
    if (value >= 1 && value <= most)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key, "expected 1 to %llu, found %llu",
                      (unsigned long long)most, (unsigned long long)value);
}

static bool keep_is_fit(const struct aw_meta *meta)
{
    switch (meta->settings.keep) {
    case AW_META_KEEP_LATEST:
        return true;
    case AW_META_KEEP_RANDOM:
        return meta->supervised;
    case AW_META_KEEP_BEST:
    case AW_META_KEEP_ENDS:
        return !meta->supervised;
    case AW_META_KEEP_DEFAULT:
        break;
    }
    return false;
}

static uint32_t row_dim(const struct aw_meta *meta)
{
    return meta->in_dim + meta->out_dim + (meta->supervised ? 0 : 1);
}

/* Episodes and steps of a bundle, and so of the encoder's cache. */
static uint32_t episodes_of(const struct aw_meta *meta)
{
    return meta->supervised ? 1 : meta->settings.keep_count;
}

static uint32_t steps_of(const struct aw_meta *meta)
{
    return meta->supervised ? meta->settings.keep_count : meta->steps_max;
}

static enum aw_err check_memory(const struct aw_meta *meta, struct aw_diag *diag)
{
    const struct aw_meta_settings *s = &meta->settings;
    const uint64_t rows = (uint64_t)episodes_of(meta) * steps_of(meta), dim = row_dim(meta);
    /* a supervised task has its samples twice: as they are kept, and as the encoder reads them */
    const uint64_t data = s->workloads_max * rows * dim * sizeof(float) * 2;
    /* inputs, and what layers of `hidden` keep for the way back: the GRU keeps most */
    const uint64_t work = s->group * rows * (dim + 24 * (uint64_t)s->hidden) * sizeof(float);
    if (data <= AW_META_BYTES_MAX && work <= AW_META_BYTES_MAX)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "keep_count",
                      "expected data and work space of at most %zu MiB each, found %llu and %llu; "
                      "keep less of a workload, fewer workloads, or a smaller group",
                      AW_META_BYTES_MAX >> 20, (unsigned long long)(data >> 20),
                      (unsigned long long)(work >> 20));
}

static enum aw_err check(const struct aw_meta *meta, struct aw_diag *diag)
{
    const struct aw_meta_settings *s = &meta->settings;
    const bool sl = meta->supervised;
    enum aw_err err = expect(sl ? "feature_dim" : "state_dim", meta->in_dim, AW_META_DIM_MAX, diag);
    err = err ? err : expect(sl ? "label_dim" : "action_dim", meta->out_dim, AW_META_DIM_MAX, diag);
    err = err ? err : expect("steps_max", meta->steps_max, AW_META_STEPS_MAX, diag);
    err = err ? err : expect("hidden", s->hidden, AW_META_WIDTH_MAX, diag);
    err = err ? err : expect("dense", s->dense, AW_META_WIDTH_MAX, diag);
    err = err ? err : expect("embedding", s->embedding, AW_META_EMBEDDING_MAX, diag);
    err = err ? err
              : expect("keep_count", s->keep_count, sl ? AW_META_SAMPLES_MAX : AW_META_TRAJ_MAX,
                       diag);
    err = err ? err : expect("workloads_max", s->workloads_max, AW_META_WORKLOADS_MAX, diag);
    err = err ? err : expect("group", s->group, AW_META_GROUP_MAX, diag);
    if (err)
        return err;
    if (row_dim(meta) > AW_META_DIM_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected at most %u numbers of a sample, found %u",
                       AW_META_DIM_MAX, row_dim(meta));
    if (s->encoder != AW_META_POOL && s->encoder != AW_META_GRU)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "encoder", "there is no such encoder");
    if (!keep_is_fit(meta))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "keep", "expected %s",
                          sl ? "latest or random" : "best, ends or latest");
    if (!isfinite(s->learning_rate) || !(s->learning_rate > 0))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "learning_rate",
                          "expected a number above 0, found %g", s->learning_rate);
    if (!isfinite(s->grad_norm_max) || !(s->grad_norm_max > 0))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "grad_norm_max",
                          "expected a number above 0, found %g", s->grad_norm_max);
    return check_memory(meta, diag);
}

static void cut(struct aw_meta *meta, struct aw_carve *carve)
{
    const size_t W = meta->settings.workloads_max, E = meta->settings.embedding;
    const size_t G = meta->settings.group;
    const size_t samples = meta->supervised ? W * meta->settings.keep_count : 0;
    meta->workload = aw_carve_take(carve, W, sizeof *meta->workload);
    meta->bundle = aw_carve_take(carve, W, sizeof *meta->bundle);
    meta->sample_x = aw_carve_take(carve, samples * (row_dim(meta) - 1), sizeof(float));
    meta->sample_last = aw_carve_take(carve, samples, sizeof(float));
    meta->embedding = aw_carve_take(carve, W * E, sizeof(float));
    meta->d_embedding = aw_carve_take(carve, W * E, sizeof(float));
    meta->d_group = aw_carve_take(carve, G * E, sizeof(float));
    meta->group = aw_carve_take(carve, G, sizeof(const struct aw_bundle *));
    meta->pending = aw_carve_take(carve, W, sizeof *meta->pending);
}

static enum aw_err make_bundles(struct aw_meta *meta)
{
    static const uint32_t choice[] = {
        [AW_META_KEEP_LATEST] = AW_BUNDLE_LATEST,
        [AW_META_KEEP_RANDOM] = AW_BUNDLE_LATEST,
        [AW_META_KEEP_BEST] = AW_BUNDLE_BEST,
        [AW_META_KEEP_ENDS] = AW_BUNDLE_ENDS,
    };
    const uint32_t dim = row_dim(meta), actions = meta->supervised ? 0 : meta->out_dim;
    const struct aw_bundle_config config = {
        .episodes = episodes_of(meta),
        .steps = steps_of(meta),
        .obs_dim = dim - 1 - actions,
        .act_dim = actions,
        .choice = choice[meta->settings.keep],
    };
    enum aw_err err = AW_OK;
    for (uint32_t w = 0; !err && w < meta->settings.workloads_max; w++)
        err = aw_bundle_init(&meta->bundle[w], &config, meta->alloc);
    return err;
}

static enum aw_err make(const struct aw_meta *like, const char *task,
                        const struct aw_meta_settings *settings, const struct aw_alloc *alloc,
                        struct aw_meta **ret_meta, struct aw_diag *diag)
{
    struct aw_meta *meta = NULL;
    struct aw_meta draft = *like;
    draft.settings = settings ? *settings : aw_meta_default();
    if (draft.settings.keep == AW_META_KEEP_DEFAULT)
        draft.settings.keep = draft.supervised ? AW_META_KEEP_LATEST : AW_META_KEEP_BEST;
    if (!name_is_fit(task))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "task",
                          "expected a name of 1 to %u bytes without control characters",
                          AW_META_NAME_MAX - 1);
    enum aw_err err = check(&draft, diag);
    if (err)
        return err;
    meta = aw_alloc_new(alloc, 1, sizeof *meta);
    if (!meta) {
        err = AW_ERR_NOMEM;
        goto out;
    }
    *meta = draft;
    meta->alloc = alloc;
    meta->updates = true;
    meta->version = 1;
    meta->adam = aw_adam_default(meta->settings.learning_rate);
    memcpy(meta->task, task, strlen(task) + 1);
    struct aw_carve parts = {0};
    cut(meta, &parts); /* without a block: how much; the pointers are NULL until the next */
    if (!(meta->block = aw_alloc_new(alloc, parts.used, 1))) {
        err = AW_ERR_NOMEM;
        goto out;
    }
    parts = (struct aw_carve){.base = meta->block};
    cut(meta, &parts);
    const struct aw_encoder_config config = {
        .kind = meta->settings.encoder == AW_META_GRU ? AW_ENCODER_GRU : AW_ENCODER_POOL,
        .in = row_dim(meta),
        .hidden = meta->settings.hidden,
        .dense = meta->settings.dense,
        .embedding = meta->settings.embedding,
    };
    aw_encoder_declare(&meta->encoder, &meta->params, "encoder", &config);
    err = make_bundles(meta);
    err = err ? err : aw_params_alloc(&meta->params, alloc);
    err = err ? err
              : aw_encoder_cache_new(&meta->encoder, meta->settings.group, episodes_of(meta),
                                     steps_of(meta), true, alloc, &meta->cache);
    if (err)
        goto out;
    aw_rng_init(&meta->rng, meta->settings.seed, 0);
    aw_encoder_init(&meta->encoder, meta->params.value, &meta->rng);
    *ret_meta = meta;
    meta = NULL;
out:
    aw_meta_free(meta);
    return err ? aw_fail(diag, err, "no memory for the meta-learner of %s", task) : AW_OK;
}

enum aw_err aw_meta_register_sl(const char *task, uint32_t feature_dim, uint32_t label_dim,
                                const struct aw_meta_settings *settings,
                                const struct aw_alloc *alloc, struct aw_meta **ret_meta,
                                struct aw_diag *diag)
{
    const struct aw_meta like = {
        .supervised = true, .in_dim = feature_dim, .out_dim = label_dim, .steps_max = 1};
    return make(&like, task, settings, alloc, ret_meta, diag);
}

enum aw_err aw_meta_register_rl(const char *task, uint32_t state_dim, uint32_t action_dim,
                                uint32_t steps_max, const struct aw_meta_settings *settings,
                                const struct aw_alloc *alloc, struct aw_meta **ret_meta,
                                struct aw_diag *diag)
{
    const struct aw_meta like = {
        .in_dim = state_dim, .out_dim = action_dim, .steps_max = steps_max};
    return make(&like, task, settings, alloc, ret_meta, diag);
}

void aw_meta_free(struct aw_meta *meta)
{
    if (!meta)
        return;
    aw_encoder_cache_free(meta->cache);
    aw_params_deinit(&meta->params);
    for (uint32_t w = 0; meta->block && w < meta->settings.workloads_max; w++)
        aw_bundle_deinit(&meta->bundle[w]);
    aw_alloc_free(meta->alloc, meta->block);
    aw_alloc_free(meta->alloc, meta);
}

/* --- workloads -------------------------------------------------------------------------------- */

static bool is_known(const struct aw_meta *meta, uint32_t workload)
{
    return workload < meta->settings.workloads_max && meta->workload[workload].name[0];
}

enum aw_err aw_meta_workload(struct aw_meta *meta, const char *name, uint32_t *ret_workload)
{
    uint32_t place = UINT32_MAX;
    if (!name_is_fit(name))
        return AW_ERR_RANGE;
    for (uint32_t w = 0; w < meta->settings.workloads_max; w++) {
        if (strcmp(meta->workload[w].name, name) == 0) {
            *ret_workload = w;
            return AW_OK;
        }
        if (!meta->workload[w].name[0] && place == UINT32_MAX)
            place = w;
    }
    if (place == UINT32_MAX)
        return AW_ERR_LIMIT;
    memcpy(meta->workload[place].name, name, strlen(name) + 1);
    *ret_workload = place;
    return AW_OK;
}

/* Its embedding is of data that are no more, and so is what was said about it. */
static void data_changed(struct aw_meta *meta, uint32_t workload)
{
    const uint32_t E = meta->settings.embedding;
    meta->workload[workload].weights = meta->workload[workload].data = 0;
    meta->workload[workload].pending = false;
    memset(meta->d_embedding + (size_t)workload * E, 0, E * sizeof(float));
}

enum aw_err aw_meta_forget(struct aw_meta *meta, uint32_t workload)
{
    if (!is_known(meta, workload))
        return AW_ERR_NOTFOUND;
    data_changed(meta, workload);
    aw_bundle_clear(&meta->bundle[workload]);
    memset(&meta->workload[workload], 0, sizeof meta->workload[workload]);
    return AW_OK;
}

/* --- data ------------------------------------------------------------------------------------- */

static void put_sample(struct aw_meta *meta, uint32_t workload, uint32_t at, const float *features,
                       const float *labels)
{
    const size_t wide = row_dim(meta) - 1, F = meta->in_dim, P = meta->out_dim;
    const size_t row = (size_t)workload * meta->settings.keep_count + at;
    float *x = meta->sample_x + row * wide;
    memcpy(x, features, F * sizeof *x);
    memcpy(x + F, labels, (P - 1) * sizeof *x);
    meta->sample_last[row] = labels[P - 1];
}

/* Makes room for one more at the end: what is kept stays in the order of its arrival. */
static void drop_oldest(struct aw_meta *meta, uint32_t workload)
{
    const size_t wide = row_dim(meta) - 1, keep = meta->settings.keep_count;
    float *x = meta->sample_x + (size_t)workload * keep * wide;
    float *last = meta->sample_last + (size_t)workload * keep;
    memmove(x, x + wide, (keep - 1) * wide * sizeof *x);
    memmove(last, last + 1, (keep - 1) * sizeof *last);
    meta->workload[workload].sample_count--;
}

/* Whether it was kept. */
static bool take_sample(struct aw_meta *meta, uint32_t workload, const float *features,
                        const float *labels)
{
    struct aw__meta_workload *known = &meta->workload[workload];
    const uint32_t keep = meta->settings.keep_count;
    known->sample_seen += known->sample_seen < UINT32_MAX;
    if (known->sample_count == keep && meta->settings.keep == AW_META_KEEP_RANDOM) {
        /* Vitter's algorithm R: the n-th stays with chance keep / n */
        const uint32_t at = aw_rng_below(&meta->rng, known->sample_seen);
        if (at < keep)
            put_sample(meta, workload, at, features, labels);
        return at < keep;
    }
    if (known->sample_count == keep)
        drop_oldest(meta, workload);
    put_sample(meta, workload, known->sample_count++, features, labels);
    return true;
}

enum aw_err aw_meta_insert_samples(struct aw_meta *meta, uint32_t workload, const float *features,
                                   const float *labels, uint32_t count)
{
    const size_t F = meta->in_dim, P = meta->out_dim, keep = meta->settings.keep_count;
    if (!meta->supervised)
        return AW_ERR_USAGE;
    if (!is_known(meta, workload))
        return AW_ERR_NOTFOUND;
    if (count == 0)
        return AW_ERR_RANGE;
    if (!aw_params_finite(features, count * F) || !aw_params_finite(labels, count * P))
        return AW_ERR_DIVERGED;
    bool changed = false;
    for (size_t i = 0; i < count; i++)
        changed |= take_sample(meta, workload, features + i * F, labels + i * P);
    if (!changed)
        return AW_OK;
    const float *x = meta->sample_x + workload * keep * (F + P - 1);
    const bool kept =
        aw_bundle_add(&meta->bundle[workload], x, x, meta->sample_last + workload * keep,
                      meta->workload[workload].sample_count);
    AW_ASSERT(kept);
    data_changed(meta, workload);
    return AW_OK;
}

enum aw_err aw_meta_insert_trajectory(struct aw_meta *meta, uint32_t workload, const float *states,
                                      const float *actions, const float *rewards, uint32_t steps)
{
    if (meta->supervised)
        return AW_ERR_USAGE;
    if (!is_known(meta, workload))
        return AW_ERR_NOTFOUND;
    if (steps == 0 || steps > meta->steps_max)
        return AW_ERR_RANGE;
    if (!aw_params_finite(states, (size_t)steps * meta->in_dim) ||
        !aw_params_finite(actions, (size_t)steps * meta->out_dim) ||
        !aw_params_finite(rewards, steps))
        return AW_ERR_DIVERGED;
    if (aw_bundle_add(&meta->bundle[workload], states, actions, rewards, steps))
        data_changed(meta, workload);
    return AW_OK;
}

/* --- normalisation ---------------------------------------------------------------------------- */

/* Adds (x - mean)^power of every row there is to sum [dim]; returns how many rows. */
static double add_up(const struct aw_meta *meta, const double *mean, uint32_t power, double *sum)
{
    const uint32_t dim = row_dim(meta);
    double count = 0;
    for (uint32_t w = 0; w < meta->settings.workloads_max; w++)
        for (uint32_t k = 0; k < meta->bundle[w].count; k++) {
            const float *x = aw_bundle_episode(&meta->bundle[w], k);
            for (uint32_t t = 0; t < meta->bundle[w].length[k]; t++, x += dim, count++)
                for (uint32_t i = 0; i < dim; i++) {
                    const double off = (double)x[i] - mean[i];
                    sum[i] += power == 2 ? off * off : off;
                }
        }
    return count;
}

enum aw_err aw_meta_normalise(struct aw_meta *meta)
{
    struct aw_encoder_normal *normal = &meta->encoder.normal;
    const double zero[AW_META_DIM_MAX] = {0};
    double mean[AW_META_DIM_MAX] = {0}, square[AW_META_DIM_MAX] = {0};
    const double count = add_up(meta, zero, 1, mean);
    if (!(count > 0))
        return AW_ERR_NODATA;
    for (uint32_t i = 0; i < row_dim(meta); i++)
        mean[i] /= count;
    add_up(meta, mean, 2, square);
    for (uint32_t i = 0; i < row_dim(meta); i++) {
        const double spread = sqrt(square[i] / count), size = fabs(mean[i]);
        /* what has not varied yet may do so later: by its own size then, for want of better */
        const bool varied = spread > VARIED_LEAST && spread > VARIED_SHARE * size;
        normal->mean[i] = (float)mean[i];
        normal->scale[i] = (float)(1 / (varied ? spread : fmax(size, 1)));
    }
    meta->normalised = true;
    aw__meta_changed(meta);
    return AW_OK;
}

static void drop_feedback(struct aw_meta *meta)
{
    const size_t W = meta->settings.workloads_max, E = meta->settings.embedding;
    memset(meta->d_embedding, 0, W * E * sizeof(float));
    for (uint32_t w = 0; w < W; w++)
        meta->workload[w].pending = false;
}

void aw__meta_changed(struct aw_meta *meta)
{
    meta->version++;
    drop_feedback(meta);
}

/* --- embeddings, and what comes back ---------------------------------------------------------- */

uint32_t aw_meta_embedding_dim(const struct aw_meta *meta)
{
    return meta->settings.embedding;
}

static bool is_current(const struct aw_meta *meta, uint32_t workload)
{
    return meta->workload[workload].weights == meta->version &&
           meta->workload[workload].data == meta->bundle[workload].version;
}

enum aw_err aw_meta_embedding(struct aw_meta *meta, uint32_t workload, float *ret_embedding)
{
    const uint32_t E = meta->settings.embedding;
    if (!is_known(meta, workload))
        return AW_ERR_NOTFOUND;
    const struct aw_bundle *bundle = &meta->bundle[workload];
    if (bundle->count == 0)
        return AW_ERR_NODATA;
    if (!meta->normalised) {
        const enum aw_err err = aw_meta_normalise(meta);
        if (err)
            return err;
    }
    float *embedding = meta->embedding + (size_t)workload * E;
    if (!is_current(meta, workload)) {
        const float *e =
            aw_encoder_forward(&meta->encoder, meta->params.value, &bundle, 1, meta->cache);
        if (!aw_params_finite(e, E))
            return AW_ERR_DIVERGED;
        memcpy(embedding, e, E * sizeof *e);
        meta->workload[workload].weights = meta->version;
        meta->workload[workload].data = bundle->version;
    }
    memcpy(ret_embedding, embedding, E * sizeof *embedding);
    return AW_OK;
}

enum aw_err aw_meta_feedback(struct aw_meta *meta, uint32_t workload,
                             const float *d_loss_d_embedding)
{
    const uint32_t E = meta->settings.embedding;
    if (!is_known(meta, workload))
        return AW_ERR_NOTFOUND;
    if (!aw_params_finite(d_loss_d_embedding, E))
        return AW_ERR_DIVERGED;
    if (!meta->updates)
        return AW_OK;
    if (!is_current(meta, workload))
        return AW_ERR_CONFLICT;
    float *d = meta->d_embedding + (size_t)workload * E;
    for (uint32_t i = 0; i < E; i++)
        d[i] += d_loss_d_embedding[i];
    meta->workload[workload].pending = true;
    return AW_OK;
}

enum aw_err aw_meta_update(struct aw_meta *meta, struct aw_meta_stats *ret_stats)
{
    const uint32_t E = meta->settings.embedding, G = meta->settings.group;
    struct aw_meta_stats stats = {.updates = meta->params.step};
    for (uint32_t w = 0; w < meta->settings.workloads_max; w++)
        if (meta->workload[w].pending)
            meta->pending[stats.workloads++] = w;
    if (stats.workloads > 0) {
        aw_params_zero_grad(&meta->params);
        for (uint32_t from = 0; from < stats.workloads; from += G) {
            const uint32_t count = stats.workloads - from < G ? stats.workloads - from : G;
            for (uint32_t i = 0; i < count; i++) {
                const uint32_t w = meta->pending[from + i];
                meta->group[i] = &meta->bundle[w];
                memcpy(meta->d_group + (size_t)i * E, meta->d_embedding + (size_t)w * E,
                       E * sizeof(float));
            }
            aw_encoder_forward(&meta->encoder, meta->params.value, meta->group, count, meta->cache);
            aw_encoder_backward(&meta->encoder, meta->params.value, meta->cache, meta->d_group,
                                meta->params.grad);
        }
        stats.grad_norm = aw_params_clip_grad_norm(&meta->params, meta->settings.grad_norm_max);
        if (!isfinite(stats.grad_norm)) {
            drop_feedback(meta);
            return AW_ERR_DIVERGED;
        }
        aw_adam_step(&meta->adam, &meta->params);
        aw__meta_changed(meta);
    }
    stats.updates = meta->params.step;
    if (ret_stats)
        *ret_stats = stats;
    return AW_OK;
}

void aw_meta_toggle(struct aw_meta *meta, bool updates)
{
    meta->updates = updates;
    if (!updates)
        drop_feedback(meta);
}

bool aw_meta_updates(const struct aw_meta *meta)
{
    return meta->updates;
}
