/* task_test.c - a meta-learner of one task: what it keeps, gives, learns, refuses and writes. */
#include "meta/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "nn/loss.h"

#define F     3u /* features */
#define P     2u /* labels */
#define S     3u /* states */
#define A     2u /* actions */
#define STEPS 5u
#define E     4u
#define KEEP  3u
#define W     3u /* workloads at most */

static struct aw_meta_settings small(enum aw_meta_encoder encoder)
{
    struct aw_meta_settings settings = aw_meta_default();
    settings.encoder = encoder;
    settings.hidden = settings.dense = 8;
    settings.embedding = E;
    settings.keep_count = KEEP;
    settings.workloads_max = W;
    settings.group = 2; /* fewer than workloads: an update goes in parts */
    settings.grad_norm_max = 1e6;
    return settings;
}

static struct aw_meta *make(bool supervised, const struct aw_meta_settings *settings)
{
    struct aw_meta *meta = NULL;
    struct aw_diag diag = {0};
    const enum aw_err err =
        supervised ? aw_meta_register_sl("sizing", F, P, settings, NULL, &meta, &diag)
                   : aw_meta_register_rl("scaling", S, A, STEPS, settings, NULL, &meta, &diag);
    if (err)
        fail_msg("%s: %s", diag.key, diag.text);
    return meta;
}

static uint32_t workload(struct aw_meta *meta, uint32_t index)
{
    char name[16];
    uint32_t id = UINT32_MAX;
    snprintf(name, sizeof name, "w%u", index);
    assert_ok(aw_meta_workload(meta, name, &id));
    return id;
}

static void insert(struct aw_meta *meta, uint32_t id, struct aw_rng *rng, uint32_t count)
{
    float a[STEPS * 8], b[STEPS * 8], c[STEPS];
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t steps = 1 + aw_rng_below(rng, STEPS); /* of different lengths */
        aw_rng_fill_normal(rng, a, steps * S);
        aw_rng_fill_normal(rng, b, steps * A);
        aw_rng_fill_normal(rng, c, steps);
        if (meta->supervised)
            assert_ok(aw_meta_insert_samples(meta, id, a, b, 1));
        else
            assert_ok(aw_meta_insert_trajectory(meta, id, a, b, c, steps));
    }
}

static void insert_all(struct aw_meta *meta, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    for (uint32_t w = 0; w < W; w++)
        insert(meta, workload(meta, w), &rng, 1 + w);
}

/* --- gradients -------------------------------------------------------------------------------- */

/* A base learner: rows of [x, embedding] through a network, squared error. */
#define ROWS    4u
#define X       2u
#define BASE_IN (X + E)
struct base {
    struct aw_params params;
    struct aw_mlp net;
    struct aw_mlp_cache cache;
    float x[W][ROWS][X], y[W][ROWS];
};

static void base_open(struct base *base)
{
    const uint32_t widths[] = {BASE_IN, 8, 1};
    struct aw_rng rng;
    memset(base, 0, sizeof *base);
    aw_rng_init(&rng, 77, 0);
    aw_mlp_declare(&base->net, &base->params, "base", widths, 3, AW_ACT_TANH, AW_ACT_NONE);
    assert_ok(aw_params_alloc(&base->params, NULL));
    aw_mlp_init_fan_in(&base->net, base->params.value, 0, &rng);
    assert_ok(aw_mlp_cache_init(&base->cache, &base->net, ROWS, NULL));
    aw_rng_fill_normal(&rng, &base->x[0][0][0], W * ROWS * X);
    aw_rng_fill_normal(&rng, &base->y[0][0], W * ROWS);
}

static void base_close(struct base *base)
{
    aw_mlp_cache_deinit(&base->cache);
    aw_params_deinit(&base->params);
}

/* Sum over workloads of the loss; with `feedback`, each row by itself says how it depends on the
 * embedding. */
static double base_loss(struct base *base, struct aw_meta *meta, bool feedback)
{
    double sum = 0;
    for (uint32_t w = 0; w < W; w++) {
        float in[ROWS][BASE_IN], dy[ROWS], dx[ROWS][BASE_IN], e[E];
        assert_ok(aw_meta_embedding(meta, workload(meta, w), e));
        for (uint32_t r = 0; r < ROWS; r++) {
            memcpy(in[r], base->x[w][r], sizeof base->x[w][r]);
            memcpy(in[r] + X, e, sizeof e);
        }
        const float *y = aw_mlp_forward(&base->net, base->params.value, in[0], ROWS, &base->cache);
        sum += aw_loss_mse(y, base->y[w], ROWS, dy);
        if (!feedback)
            continue;
        aw_mlp_backward(&base->net, base->params.value, in[0], ROWS, &base->cache, dy, NULL, dx[0]);
        for (uint32_t r = 0; r < ROWS; r++)
            assert_ok(aw_meta_feedback(meta, workload(meta, w), dx[r] + X));
    }
    return sum;
}

static void what_feedback_makes_of_the_weights_is_what_differences_of_the_loss_say(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        const struct aw_meta_settings settings = small(n & 1 ? AW_META_GRU : AW_META_POOL);
        struct aw_meta *meta = make(n & 2, &settings);
        struct base base;
        struct aw_rng rng;
        base_open(&base);
        insert_all(meta, 5);
        base_loss(&base, meta, true);
        const size_t count = meta->params.count;
        float *before = aw_alloc_new(NULL, count, sizeof *before);
        float *way = aw_alloc_new(NULL, count, sizeof *way);
        assert_non_null(before);
        assert_non_null(way);
        memcpy(before, meta->params.value, count * sizeof *before);
        struct aw_meta_stats stats;
        assert_ok(aw_meta_update(meta, &stats));
        assert_int_equal(stats.workloads, W);
        assert_int_equal(stats.updates, 1);
        assert_true(memcmp(before, meta->params.value, count * sizeof *before) != 0);
        aw_rng_init(&rng, 6, 0);
        /* along each tensor by itself, so that a gradient which is missing cannot hide */
        for (uint32_t t = 0; t < meta->params.tensor_count; t++) {
            const struct aw_param *tensor = &meta->params.tensor[t];
            double along = 0, side[2];
            memset(way, 0, count * sizeof *way);
            for (size_t i = tensor->offset; i < tensor->offset + aw_param_size(tensor); i++) {
                way[i] = (float)aw_rng_normal(&rng);
                along += (double)way[i] * (double)meta->params.grad[i];
            }
            const float step = 2e-3f;
            for (uint32_t s = 0; s < 2; s++) {
                for (size_t i = 0; i < count; i++)
                    meta->params.value[i] = before[i] + (s ? step : -step) * way[i];
                aw__meta_changed(meta);
                side[s] = base_loss(&base, meta, false);
            }
            const double difference = (side[1] - side[0]) / (2 * (double)step);
            if (fabs(difference - along) > 2e-2 * fmax(0.01, fabs(along)))
                fail_msg("case %u, %s: feedback says %g, differences say %g", n, tensor->name,
                         along, difference);
            assert_true(fabs(along) > 0);
        }
        aw_alloc_free(NULL, way);
        aw_alloc_free(NULL, before);
        base_close(&base);
        aw_meta_free(meta);
    }
}

static void
a_base_learner_that_never_moves_gets_a_smaller_loss_by_its_embeddings_alone(void **state)
{
    (void)state;
    struct aw_meta_settings settings = small(AW_META_POOL);
    settings.learning_rate = 1e-2;
    struct aw_meta *meta = make(true, &settings);
    struct base base;
    base_open(&base);
    insert_all(meta, 5);
    const double first = base_loss(&base, meta, false);
    for (uint32_t n = 0; n < 200; n++) {
        base_loss(&base, meta, true);
        assert_ok(aw_meta_update(meta, NULL));
    }
    assert_true(base_loss(&base, meta, false) < 0.8 * first);
    base_close(&base);
    aw_meta_free(meta);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void the_same_seed_and_calls_give_the_same_bytes(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        struct aw_meta_settings settings = small(AW_META_POOL);
        settings.keep = n ? AW_META_KEEP_ENDS : AW_META_KEEP_RANDOM;
        struct aw_meta *meta[3];
        struct base base;
        base_open(&base);
        for (uint32_t i = 0; i < 3; i++) {
            settings.seed = i == 2 ? 2 : 1;
            meta[i] = make(n == 0, &settings);
            insert_all(meta[i], 5);
            struct aw_rng rng;
            aw_rng_init(&rng, 8, 0);
            insert(meta[i], 0, &rng, 20);
            for (uint32_t k = 0; k < 10; k++) {
                base_loss(&base, meta[i], true);
                assert_ok(aw_meta_update(meta[i], NULL));
            }
        }
        assert_true(aw_meta_checksum(meta[0]) == aw_meta_checksum(meta[1]));
        assert_true(aw_meta_checksum(meta[0]) != aw_meta_checksum(meta[2]));
        for (uint32_t i = 0; i < 3; i++)
            aw_meta_free(meta[i]);
        base_close(&base);
    }
}

static void toggled_off_nothing_moves_whatever_feedback_says(void **state)
{
    (void)state;
    const struct aw_meta_settings settings = small(AW_META_GRU);
    struct aw_meta *meta = make(false, &settings);
    struct base base;
    struct aw_meta_stats stats = {.workloads = 9};
    float before[E], after[E];
    base_open(&base);
    insert_all(meta, 5);
    base_loss(&base, meta, true); /* collected while on, and not used before it went off */
    assert_true(aw_meta_updates(meta));
    aw_meta_toggle(meta, false);
    assert_false(aw_meta_updates(meta));
    assert_ok(aw_meta_embedding(meta, 0, before));
    const uint64_t sum = aw_meta_checksum(meta);
    for (uint32_t n = 0; n < 5; n++) {
        base_loss(&base, meta, true);
        assert_ok(aw_meta_update(meta, &stats));
        assert_int_equal(stats.workloads, 0);
    }
    assert_true(aw_meta_checksum(meta) == sum);
    assert_ok(aw_meta_embedding(meta, 0, after));
    assert_memory_equal(before, after, sizeof before);
    const float broken[E] = {0, NAN, 0, 0};
    assert_int_equal(aw_meta_feedback(meta, 0, broken), AW_ERR_DIVERGED);
    aw_meta_toggle(meta, true); /* what was said while it was off is not remembered */
    assert_ok(aw_meta_update(meta, &stats));
    assert_int_equal(stats.workloads, 0);
    assert_true(aw_meta_checksum(meta) == sum);
    base_loss(&base, meta, true);
    assert_ok(aw_meta_update(meta, &stats));
    assert_true(aw_meta_checksum(meta) != sum);
    base_close(&base);
    aw_meta_free(meta);
}

/* --- what is kept ----------------------------------------------------------------------------- */

static void put(struct aw_meta *meta, uint32_t id, float value)
{
    const float features[F] = {value, 1, 2}, labels[P] = {value + 0.25f, value + 0.5f};
    assert_ok(aw_meta_insert_samples(meta, id, features, labels, 1));
}

static void the_latest_samples_stay_in_their_order_with_their_labels(void **state)
{
    (void)state;
    const struct aw_meta_settings settings = small(AW_META_POOL);
    struct aw_meta *meta = make(true, &settings);
    const uint32_t id = workload(meta, 0);
    const struct aw_bundle *bundle = &meta->bundle[id];
    put(meta, id, 0);
    assert_int_equal(bundle->length[0], 1);
    for (uint32_t i = 1; i < 6; i++)
        put(meta, id, (float)i);
    assert_int_equal(bundle->count, 1);
    assert_int_equal(bundle->length[0], KEEP);
    assert_int_equal(bundle->dim, F + P); /* FLASH: numSamples * (F.shape + P.shape) */
    for (uint32_t k = 0; k < KEEP; k++) {
        const float v = (float)(3 + k), row[F + P] = {v, 1, 2, v + 0.25f, v + 0.5f};
        assert_memory_equal(aw_bundle_episode(bundle, 0) + k * (F + P), row, sizeof row);
    }
    float many[8][F] = {{0}}, labels[8][P] = {{0}}; /* more at once than are kept */
    for (uint32_t i = 0; i < 8; i++)
        many[i][0] = 100 + (float)i;
    assert_ok(aw_meta_insert_samples(meta, id, many[0], labels[0], 8));
    for (uint32_t k = 0; k < KEEP; k++)
        assert_true(aw_bundle_episode(bundle, 0)[k * (F + P)] == (float)(105 + k));
    aw_meta_free(meta);
}

static void a_random_choice_keeps_every_sample_with_the_same_chance(void **state)
{
    (void)state;
    enum { SEEN = 12, TRIES = 4000 };
    uint32_t kept[SEEN] = {0};
    struct aw_meta_settings settings = small(AW_META_POOL);
    settings.keep = AW_META_KEEP_RANDOM;
    struct aw_meta *meta = make(true, &settings);
    for (uint32_t n = 0; n < TRIES; n++) {
        const uint32_t id = workload(meta, 0);
        for (uint32_t i = 0; i < SEEN; i++)
            put(meta, id, (float)i);
        for (uint32_t k = 0; k < KEEP; k++)
            kept[(uint32_t)aw_bundle_episode(&meta->bundle[id], 0)[k * (F + P)]]++;
        assert_ok(aw_meta_forget(meta, id));
    }
    /* binomial: 1000 expected, deviation 27 */
    for (uint32_t i = 0; i < SEEN; i++)
        if (kept[i] < 880 || kept[i] > 1120)
            fail_msg("sample %u was kept %u times of %d", i, kept[i], TRIES);
    aw_meta_free(meta);
}

static void trajectories_are_kept_by_their_rewards(void **state)
{
    (void)state;
    static const struct {
        enum aw_meta_keep keep;
        double sums[4];
        const char *why;
    } cases[] = {
        {AW_META_KEEP_DEFAULT, {5, 6, 7, 8}, "the default is the best"},
        {AW_META_KEEP_BEST, {5, 6, 7, 8}, "the highest of all"},
        {AW_META_KEEP_ENDS, {1, 2, 7, 8}, "half the worst, half the best"},
        {AW_META_KEEP_LATEST, {2, 4, 6, 8}, "the last four to come"},
    };
    static const float order[] = {1, 3, 5, 7, 2, 4, 6, 8};
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct aw_meta_settings settings = small(AW_META_POOL);
        settings.keep = cases[c].keep;
        settings.keep_count = 4;
        struct aw_meta *meta = make(false, &settings);
        const uint32_t id = workload(meta, 0);
        for (uint32_t i = 0; i < 8; i++) {
            const float states[2 * S] = {0}, actions[2 * A] = {0}, rewards[2] = {order[i], 0};
            assert_ok(aw_meta_insert_trajectory(meta, id, states, actions, rewards, 2));
        }
        assert_int_equal(meta->bundle[id].count, 4);
        for (uint32_t want = 0; want < 4; want++) {
            bool found = false;
            for (uint32_t k = 0; k < 4; k++)
                found |= meta->bundle[id].value[k] == cases[c].sums[want];
            if (!found)
                fail_msg("%s: %g is missing", cases[c].why, cases[c].sums[want]);
        }
        aw_meta_free(meta);
    }
}

static void units_do_not_matter_once_the_first_data_have_fixed_them(void **state)
{
    (void)state;
    const struct aw_meta_settings settings = small(AW_META_POOL);
    struct aw_meta *meta[2] = {make(true, &settings), make(true, &settings)};
    float e[2][E], later[E];
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    const uint32_t id[2] = {workload(meta[0], 0), workload(meta[1], 0)};
    for (uint32_t n = 0; n < KEEP; n++) {
        float features[F], labels[P];
        aw_rng_fill_normal(&rng, features, F - 1);
        aw_rng_fill_normal(&rng, labels, P);
        features[F - 1] = 7; /* never varies */
        assert_ok(aw_meta_insert_samples(meta[0], id[0], features, labels, 1));
        features[0] = features[0] * 1048576 + 4194304; /* bytes for MiB, and another zero */
        assert_ok(aw_meta_insert_samples(meta[1], id[1], features, labels, 1));
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(aw_meta_embedding(meta[i], id[i], e[i]));
    for (uint32_t i = 0; i < E; i++)
        assert_close((double)e[0][i], (double)e[1][i], 1e-4);
    const struct aw_encoder_normal fixed = meta[0]->encoder.normal;
    put(meta[0], workload(meta[0], 1), 1000);
    assert_ok(aw_meta_embedding(meta[0], workload(meta[0], 1), later));
    assert_memory_equal(&fixed, &meta[0]->encoder.normal, sizeof fixed);
    assert_ok(aw_meta_normalise(meta[0])); /* on demand */
    assert_true(memcmp(&fixed, &meta[0]->encoder.normal, sizeof fixed) != 0);
    aw_meta_free(meta[0]);
    aw_meta_free(meta[1]);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void shapes_and_settings_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    const struct aw_meta_settings good = small(AW_META_POOL);
    struct {
        const char *task, *key;
        uint32_t in, out, steps;
        struct aw_meta_settings settings;
        bool rl;
    } cases[20] = {{0}};
    uint32_t count = 0;
#define CASE(key_, ...)                                              \
    do {                                                             \
        cases[count].task = "t";                                     \
        cases[count].key = key_;                                     \
        cases[count].in = cases[count].out = cases[count].steps = 2; \
        cases[count].settings = good;                                \
        __VA_ARGS__;                                                 \
        count++;                                                     \
    } while (0)
    CASE("task", cases[count].task = "");
    CASE("task", cases[count].task = "a\nb");
    CASE("task", cases[count].task =
                     "a name of more bytes than there is room for in any name of ours, by far");
    CASE("feature_dim", cases[count].in = 0);
    CASE("label_dim", cases[count].out = 0);
    CASE("", cases[count].in = 200; cases[count].out = 57);
    CASE("", cases[count].rl = true; cases[count].in = 200; cases[count].out = 56);
    CASE("steps_max", cases[count].rl = true; cases[count].steps = 0);
    CASE("steps_max", cases[count].rl = true; cases[count].steps = AW_META_STEPS_MAX + 1);
    CASE("hidden", cases[count].settings.hidden = AW_META_WIDTH_MAX + 1);
    CASE("dense", cases[count].settings.dense = 0);
    CASE("embedding", cases[count].settings.embedding = AW_META_EMBEDDING_MAX + 1);
    CASE("keep_count", cases[count].settings.keep_count = AW_META_SAMPLES_MAX + 1);
    CASE("keep_count", cases[count].rl = true;
         cases[count].settings.keep_count = AW_META_TRAJ_MAX + 1);
    CASE("keep_count", cases[count].settings.keep_count = AW_META_SAMPLES_MAX;
         cases[count].settings.group = AW_META_GROUP_MAX; cases[count].settings.hidden = 512);
    CASE("workloads_max", cases[count].settings.workloads_max = AW_META_WORKLOADS_MAX + 1);
    CASE("group", cases[count].settings.group = 0);
    CASE("keep", cases[count].settings.keep = AW_META_KEEP_BEST);
    CASE("keep", cases[count].rl = true; cases[count].settings.keep = AW_META_KEEP_RANDOM);
    CASE("learning_rate", cases[count].settings.learning_rate = NAN);
#undef CASE
    for (uint32_t i = 0; i < count; i++) {
        struct aw_diag diag = {0};
        struct aw_meta *meta = NULL;
        const enum aw_err err =
            cases[i].rl
                ? aw_meta_register_rl(cases[i].task, cases[i].in, cases[i].out, cases[i].steps,
                                      &cases[i].settings, NULL, &meta, &diag)
                : aw_meta_register_sl(cases[i].task, cases[i].in, cases[i].out, &cases[i].settings,
                                      NULL, &meta, &diag);
        if (err != AW_ERR_CONFIG || strcmp(diag.key, cases[i].key) != 0 || !diag.text[0] || meta)
            fail_msg("case %u, %s: error %s, key %s: %s", i, cases[i].key, aw_err_name(err),
                     diag.key, diag.text);
    }
}

static void what_is_unknown_empty_stale_or_not_finite_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    const struct aw_meta_settings settings = small(AW_META_POOL);
    struct aw_meta *sl = make(true, &settings), *rl = make(false, &settings);
    float a[STEPS * S] = {0}, b[STEPS * S] = {0}, c[STEPS] = {0}, e[E], d[E] = {1, 0, 0, 0};
    uint32_t id = 77;
    assert_int_equal(aw_meta_workload(sl, "", &id), AW_ERR_RANGE);
    assert_int_equal(id, 77);
    assert_int_equal(aw_meta_embedding(sl, 0, e), AW_ERR_NOTFOUND); /* never asked for */
    assert_int_equal(aw_meta_insert_samples(sl, 0, a, b, 1), AW_ERR_NOTFOUND);
    assert_int_equal(aw_meta_insert_samples(sl, UINT32_MAX, a, b, 1), AW_ERR_NOTFOUND);
    assert_int_equal(aw_meta_insert_trajectory(rl, 0, a, b, c, 1), AW_ERR_NOTFOUND);
    assert_int_equal(aw_meta_feedback(sl, 0, d), AW_ERR_NOTFOUND);
    assert_int_equal(aw_meta_forget(sl, 0), AW_ERR_NOTFOUND);
    for (uint32_t w = 0; w < W; w++)
        assert_int_equal(workload(sl, w), w);
    assert_int_equal(aw_meta_workload(sl, "one too many", &id), AW_ERR_LIMIT);
    assert_int_equal(workload(sl, 1), 1); /* a known one is found all the same */
    assert_int_equal(aw_meta_embedding(sl, 1, e), AW_ERR_NODATA);
    assert_int_equal(aw_meta_normalise(sl), AW_ERR_NODATA);
    assert_int_equal(aw_meta_feedback(sl, 1, d), AW_ERR_CONFLICT);

    assert_int_equal(workload(rl, 0), 0);
    assert_int_equal(aw_meta_insert_samples(rl, 0, a, b, 1), AW_ERR_USAGE);
    assert_int_equal(aw_meta_insert_trajectory(sl, 0, a, b, c, 1), AW_ERR_USAGE);
    assert_int_equal(aw_meta_insert_samples(sl, 1, a, b, 0), AW_ERR_RANGE);
    assert_int_equal(aw_meta_insert_trajectory(rl, 0, a, b, c, 0), AW_ERR_RANGE);
    assert_int_equal(aw_meta_insert_trajectory(rl, 0, a, b, c, STEPS + 1), AW_ERR_RANGE);
    a[F + 1] = INFINITY; /* of the second sample: the first is not stored either */
    assert_int_equal(aw_meta_insert_samples(sl, 1, a, b, 2), AW_ERR_DIVERGED);
    assert_int_equal(aw_meta_insert_trajectory(rl, 0, a, b, c, 2), AW_ERR_DIVERGED);
    c[0] = NAN;
    a[F + 1] = 0;
    assert_int_equal(aw_meta_insert_trajectory(rl, 0, a, b, c, 2), AW_ERR_DIVERGED);
    b[1] = NAN;
    assert_int_equal(aw_meta_insert_samples(sl, 1, a, b, 1), AW_ERR_DIVERGED);
    assert_int_equal(aw_meta_embedding(sl, 1, e), AW_ERR_NODATA);
    assert_int_equal(aw_meta_embedding(rl, 0, e), AW_ERR_NODATA);

    put(sl, 1, 1);
    put(sl, 1, 2);
    assert_int_equal(aw_meta_feedback(sl, 1, d), AW_ERR_CONFLICT); /* it was never given */
    assert_ok(aw_meta_embedding(sl, 1, e));
    assert_ok(aw_meta_feedback(sl, 1, d));
    d[1] = INFINITY;
    assert_int_equal(aw_meta_feedback(sl, 1, d), AW_ERR_DIVERGED);
    d[1] = 0;
    put(sl, 1, 3); /* now what was said is about data that are no more */
    assert_int_equal(aw_meta_feedback(sl, 1, d), AW_ERR_CONFLICT);
    struct aw_meta_stats stats;
    assert_ok(aw_meta_update(sl, &stats));
    assert_int_equal(stats.workloads, 0);
    assert_ok(aw_meta_embedding(sl, 1, e));
    assert_ok(aw_meta_feedback(sl, 1, d));
    assert_ok(aw_meta_update(sl, &stats));
    assert_int_equal(stats.workloads, 1);
    assert_int_equal(aw_meta_feedback(sl, 1, d), AW_ERR_CONFLICT); /* other weights now */
    d[0] = 3e38f; /* finite, and too much for the way back */
    for (uint32_t n = 0; n < 2; n++) {
        assert_ok(aw_meta_embedding(sl, 1, e));
        assert_ok(aw_meta_feedback(sl, 1, d));
    }
    const uint64_t sum = aw_meta_checksum(sl);
    assert_int_equal(aw_meta_update(sl, &stats), AW_ERR_DIVERGED);
    assert_true(aw_meta_checksum(sl) == sum);
    assert_ok(aw_meta_update(sl, &stats)); /* dropped: the next one is not spoilt */
    assert_int_equal(stats.workloads, 0);

    assert_ok(aw_meta_forget(sl, 1));
    assert_int_equal(aw_meta_embedding(sl, 1, e), AW_ERR_NOTFOUND);
    assert_ok(aw_meta_workload(sl, "another", &id));
    assert_int_equal(id, 1); /* its place, without its data */
    assert_int_equal(aw_meta_embedding(sl, id, e), AW_ERR_NODATA);
    aw_meta_free(sl);
    aw_meta_free(rl);
    aw_meta_free(NULL);
}

/* --- files ------------------------------------------------------------------------------------ */

static void temporary(char path[static 32])
{
    snprintf(path, 32, "/tmp/aware-meta-XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void a_file_carries_the_encoder_to_another_process(void **state)
{
    (void)state;
    const struct aw_meta_settings settings = small(AW_META_GRU);
    struct aw_meta_settings other = settings;
    struct base base;
    char path[32];
    float e[2][E];
    temporary(path);
    base_open(&base);
    other.seed = 9;
    other.workloads_max = 1;
    struct aw_meta *meta = make(false, &settings), *copy = make(false, &other);
    assert_int_equal(aw_meta_save(meta, path, NULL), AW_ERR_NODATA);
    insert_all(meta, 5);
    for (uint32_t n = 0; n < 3; n++) {
        base_loss(&base, meta, true);
        assert_ok(aw_meta_update(meta, NULL));
    }
    assert_ok(aw_meta_save(meta, path, NULL));
    assert_ok(aw_meta_load(copy, path, NULL));
    assert_true(aw_meta_checksum(copy) == aw_meta_checksum(meta));
    struct aw_meta *both[2] = {meta, copy};
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_rng rng;
        aw_rng_init(&rng, 4, 0);
        if (i == 0)
            assert_ok(aw_meta_forget(meta, 0));
        insert(both[i], workload(both[i], 0), &rng, 2);
        assert_ok(aw_meta_embedding(both[i], workload(both[i], 0), e[i]));
    }
    assert_memory_equal(e[0], e[1], sizeof e[0]);
    unlink(path);
    base_close(&base);
    aw_meta_free(meta);
    aw_meta_free(copy);
}

static void a_file_that_is_damaged_foreign_or_of_another_shape_is_refused(void **state)
{
    (void)state;
    const struct aw_meta_settings settings = small(AW_META_POOL);
    struct aw_meta *meta = make(true, &settings), *other = NULL;
    struct aw_diag diag = {0};
    char path[32];
    temporary(path);
    insert_all(meta, 5);
    assert_ok(aw_meta_normalise(meta));
    assert_ok(aw_meta_save(meta, path, NULL));
    const struct {
        const char *task, *key;
        uint32_t in, out, dense;
        bool rl;
    } cases[] = {
        {"another", "task", F, P, 8, false},       {"sizing", "learner", F, P, 8, true},
        {"sizing", "feature_dim", 4, P, 8, false}, {"sizing", "label_dim", F, 1, 8, false},
        {"sizing", "dense", F, P, 9, false},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_meta_settings like = settings;
        like.dense = cases[i].dense;
        assert_ok(cases[i].rl ? aw_meta_register_rl(cases[i].task, cases[i].in, cases[i].out, STEPS,
                                                    &like, NULL, &other, NULL)
                              : aw_meta_register_sl(cases[i].task, cases[i].in, cases[i].out, &like,
                                                    NULL, &other, NULL));
        const uint64_t before = aw_meta_checksum(other);
        assert_int_equal(aw_meta_load(other, path, &diag), AW_ERR_FORMAT);
        assert_string_equal(diag.key, cases[i].key);
        assert_string_equal(diag.file, path);
        assert_true(aw_meta_checksum(other) == before);
        aw_meta_free(other);
    }
    /* every 97th byte of the file, wrong in its turn; then a file that ends too early */
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    const uint64_t before = aw_meta_checksum(meta);
    for (long at = 0; at < size; at += 97) {
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        const int byte = fgetc(file);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_true(fputc(byte ^ 0x10, file) >= 0);
        assert_int_equal(fflush(file), 0);
        const enum aw_err err = aw_meta_load(meta, path, &diag);
        if (!err) /* a byte that says nothing: padding, or the gap between two tensors */
            assert_true(aw_meta_checksum(meta) == before);
        else if (err != AW_ERR_FORMAT && err != AW_ERR_LIMIT)
            fail_msg("byte %ld: %s", at, aw_err_name(err));
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_true(fputc(byte, file) >= 0);
        assert_int_equal(fflush(file), 0);
    }
    assert_int_equal(fclose(file), 0);
    assert_ok(aw_meta_load(meta, path, NULL)); /* as it was */
    assert_int_equal(truncate(path, size - 4), 0);
    assert_int_equal(aw_meta_load(meta, path, &diag), AW_ERR_FORMAT);
    assert_true(aw_meta_checksum(meta) == before);
    unlink(path);
    assert_int_equal(aw_meta_load(meta, path, &diag), AW_ERR_NOTFOUND);
    aw_meta_free(meta);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void nothing_is_allocated_after_register_and_every_allocation_may_fail(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 4; kind++) {
        const struct aw_meta_settings settings = small(kind & 1 ? AW_META_GRU : AW_META_POOL);
        struct aw_alloc_counting counting;
        struct aw_meta *meta = NULL;
        struct base base;
        bool made = false;
        for (uint64_t n = 0; !made && n < 100; n++) {
            aw_alloc_counting_init(&counting);
            counting.fail_after = n;
            struct aw_diag diag = {0};
            const enum aw_err err =
                kind & 2 ? aw_meta_register_sl("t", F, P, &settings, &counting.alloc, &meta, &diag)
                         : aw_meta_register_rl("t", S, A, STEPS, &settings, &counting.alloc, &meta,
                                               &diag);
            made = !err;
            if (err) {
                assert_int_equal(err, AW_ERR_NOMEM);
                assert_true(diag.text[0] != 0);
                assert_null(meta);
                assert_int_equal(counting.alloc_count, counting.free_count);
            }
        }
        assert_true(made);
        const uint64_t count = counting.alloc_count;
        base_open(&base);
        insert_all(meta, 5);
        for (uint32_t n = 0; n < 3; n++) {
            base_loss(&base, meta, true);
            assert_ok(aw_meta_update(meta, NULL));
        }
        assert_ok(aw_meta_forget(meta, 0));
        assert_int_equal(counting.alloc_count, count);
        /* files do allocate: without memory nothing has changed, and nothing is left behind */
        char path[32];
        temporary(path);
        const uint64_t sum = aw_meta_checksum(meta);
        for (uint32_t what = 0; what < 2; what++) {
            enum aw_err err = AW_ERR_NOMEM;
            for (uint64_t n = 0; err && n < 200; n++) {
                counting.fail_after = counting.alloc_count + n;
                err = what ? aw_meta_load(meta, path, NULL) : aw_meta_save(meta, path, NULL);
                assert_true(!err || err == AW_ERR_NOMEM);
                assert_true(aw_meta_checksum(meta) == sum);
                assert_int_equal(counting.alloc_count - count, counting.free_count);
            }
            assert_ok(err);
        }
        unlink(path);
        base_close(&base);
        aw_meta_free(meta);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

AW_TEST_GROUP("task")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_feedback_makes_of_the_weights_is_what_differences_of_the_loss_say),
        cmocka_unit_test(
            a_base_learner_that_never_moves_gets_a_smaller_loss_by_its_embeddings_alone),
        cmocka_unit_test(the_same_seed_and_calls_give_the_same_bytes),
        cmocka_unit_test(toggled_off_nothing_moves_whatever_feedback_says),
        cmocka_unit_test(the_latest_samples_stay_in_their_order_with_their_labels),
        cmocka_unit_test(a_random_choice_keeps_every_sample_with_the_same_chance),
        cmocka_unit_test(trajectories_are_kept_by_their_rewards),
        cmocka_unit_test(units_do_not_matter_once_the_first_data_have_fixed_them),
        cmocka_unit_test(shapes_and_settings_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(what_is_unknown_empty_stale_or_not_finite_is_refused_and_changes_nothing),
        cmocka_unit_test(a_file_carries_the_encoder_to_another_process),
        cmocka_unit_test(a_file_that_is_damaged_foreign_or_of_another_shape_is_refused),
        cmocka_unit_test(nothing_is_allocated_after_register_and_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
