/*
 * flash_sizeless.c - a supervised learner with and without a meta-learner (aware/meta.h).
 *
 *     flash_sizeless [--seeds N] [--check]
 *
 * The task is that of Sizeless (Eismann et al., 2021), as FLASH has it in sections 4 and 5.1: how
 * long will a request of an application take at a target size (CPU and memory), judged by what was
 * measured of it at one base size? Applications are generated (workload/app.h), and each runs in an
 * environment of its own, of which no feature tells: machines whose cores and disks are faster or
 * slower than those of the base measurement. Of an application never seen before there are X
 * measurements at other sizes, X from 1 to 3: FLASH's X-shot.
 *
 * The truth is a closed formula, not a machine: waiting, plus CPU time over the cores that a
 * request can use (aw_replica_alone_ms), times a penalty where memory is short. Measurements are
 * off it by a few percent; errors are counted against the formula itself.
 *
 * Three learners get the same network, batches and steps:
 *   alone   sees the base measurement and the target size
 *   raw     sees, beside that, the X measurements as they are, one after another
 *   flash   sees, beside the base measurement, the embedding of the application
 *
 * With --check the exit status is 1 unless flash has at most HELPS times the error of alone.
 */
#include <aware/meta.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"
#include "cluster/surrogate.h"
#include "nn/adam.h"
#include "nn/loss.h"
#include "nn/mlp.h"
#include "workload/app.h"

#define HELPS 0.5

#define CORES     5u
#define MEMORIES  4u
#define SIZES     (CORES * MEMORIES)
#define FEATURES  7u /* five measured at the base size, two of the target */
#define SHOTS_MAX 3u
#define SHOT_DIM  3u /* of a raw one: size and result */
#define EMBEDDING 16u
#define IN_MAX    (FEATURES + EMBEDDING)
#define SEEDS_MAX 100u

#define TRAINED 300u /* applications learned from */
#define UNSEEN  200u
#define GROUP   16u /* applications of a batch */
#define QUERIES 8u  /* sizes of each of them */
#define ROWS    (GROUP * QUERIES)
#define STEPS   2000u
#define RATE    2e-3 /* of Adam, falling to nothing */

#define BASE_CORES  1.0
#define BASE_MIB    2048.0
#define NOISE       0.03 /* deviation of a measurement, relative */
#define SPEED_RANGE 2.0  /* of cores and of disks: half to double, each by itself */
#define PRESSURE    0.5  /* a request takes so much longer per memory that is missing */

static const double cores_of[CORES] = {0.25, 0.5, 1, 2, 4};
static const double mib_of[MEMORIES] = {256, 512, 1024, 2048};

/* An application in its environment, measured. */
struct subject {
    float feature[SIZES][FEATURES];
    float label[SIZES]; /* ln of time at that size over time at the base size, as measured */
    double truth[SIZES];
};

enum learner { ALONE, RAW, FLASH, LEARNERS };
static const char *const learner_names[] = {"alone", "raw", "flash"};

struct trial {
    enum learner learner;
    uint32_t shots;
    struct aw_rng rng;
    const struct subject *subject; /* [TRAINED + UNSEEN] */
    struct aw_meta *meta;          /* FLASH */
    uint32_t workload[TRAINED + UNSEEN];
    uint32_t in;
    struct aw_params params;
    struct aw_mlp net;
    struct aw_mlp_cache cache;
};

static void must(enum aw_err err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "flash_sizeless: %s: %s\n", what, aw_err_text(err));
    exit(aw_err_exit_code(err));
}

/* --- the world -------------------------------------------------------------------------------- */

static double time_ms(const struct aw_demand *demand, double cores, double mib)
{
    const double need = demand->memory_base_mib + demand->memory_flight_mib;
    return aw_replica_alone_ms(demand, cores) * (1 + PRESSURE * fmax(0, need / mib - 1));
}

static double measured(double value, struct aw_rng *rng)
{
    return value * exp(NOISE * aw_rng_normal(rng));
}

static double speed(struct aw_rng *rng)
{
    return exp(aw_rng_uniform(rng, -log(SPEED_RANGE), log(SPEED_RANGE)));
}

static void meet(struct subject *subject, uint64_t seed, uint32_t index)
{
    struct aw_app app;
    struct aw_demand there, here;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 1000000 + index);
    aw_app_generate(seed, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
    aw_app_demand(&app, 1, 0, &here);
    there = here;
    there.cpu_ms /= speed(&rng);
    there.io_ms /= speed(&rng);
    const double base_ms = measured(time_ms(&here, BASE_CORES, BASE_MIB), &rng);
    const float base[] = {
        (float)log(base_ms),
        (float)log(measured(here.cpu_ms, &rng)),
        (float)log(measured(here.memory_base_mib + here.memory_flight_mib, &rng)),
        (float)log1p(measured(here.disk_kib, &rng)),
        (float)log1p(measured(here.net_kib, &rng)),
    };
    for (uint32_t i = 0; i < SIZES; i++) {
        const double cores = cores_of[i % CORES], mib = mib_of[i / CORES];
        const double ms = time_ms(&there, cores, mib);
        memcpy(subject->feature[i], base, sizeof base);
        subject->feature[i][5] = (float)log2(cores);
        subject->feature[i][6] = (float)log2(mib);
        subject->label[i] = (float)log(measured(ms, &rng) / base_ms);
        subject->truth[i] = log(ms / base_ms);
    }
}

/* Logarithms differ by orders of magnitude too: every feature to mean 0 and deviation 1, by the
 * applications that are learned from. */
static void standardise(struct subject *subjects)
{
    for (uint32_t k = 0; k < FEATURES; k++) {
        double sum = 0, square = 0, n = TRAINED * SIZES;
        for (uint32_t s = 0; s < TRAINED; s++)
            for (uint32_t i = 0; i < SIZES; i++) {
                const double x = (double)subjects[s].feature[i][k];
                sum += x;
                square += x * x;
            }
        const double mean = sum / n, scale = 1 / sqrt(square / n - mean * mean);
        for (uint32_t s = 0; s < TRAINED + UNSEEN; s++)
            for (uint32_t i = 0; i < SIZES; i++)
                subjects[s].feature[i][k] =
                    (float)(((double)subjects[s].feature[i][k] - mean) * scale);
    }
}

/* --- the learners ----------------------------------------------------------------------------- */

/* Draws the measurements that are given, first in `order`, and the sizes that are asked for. */
static void draw(struct trial *trial, uint32_t order[SIZES])
{
    for (uint32_t i = 0; i < SIZES; i++)
        order[i] = i;
    aw_rng_shuffle(&trial->rng, order, SIZES);
}

/* What a learner knows of an application beside the features, from the measurements given. */
static void learn_about(struct trial *trial, uint32_t who, const uint32_t *given, float *known)
{
    const struct subject *subject = &trial->subject[who];
    float features[SHOTS_MAX][FEATURES], labels[SHOTS_MAX];
    for (uint32_t k = 0; k < trial->shots; k++) {
        memcpy(features[k], subject->feature[given[k]], sizeof features[k]);
        labels[k] = subject->label[given[k]];
        if (trial->learner == RAW) {
            known[k * SHOT_DIM] = features[k][5];
            known[k * SHOT_DIM + 1] = features[k][6];
            known[k * SHOT_DIM + 2] = labels[k];
        }
    }
    if (trial->learner != FLASH)
        return;
    must(aw_meta_insert_samples(trial->meta, trial->workload[who], features[0], labels,
                                trial->shots),
         "insert_samples");
    must(aw_meta_embedding(trial->meta, trial->workload[who], known), "embedding");
}

static void put_row(const struct trial *trial, uint32_t who, uint32_t size, const float *known,
                    float *row)
{
    memcpy(row, trial->subject[who].feature[size], FEATURES * sizeof *row);
    memcpy(row + FEATURES, known, (trial->in - FEATURES) * sizeof *row);
}

static void step(struct trial *trial, double rate)
{
    static float x[ROWS * IN_MAX], dx[ROWS * IN_MAX], label[ROWS], dy[ROWS];
    uint32_t who[GROUP], order[SIZES];
    for (uint32_t g = 0; g < GROUP; g++) {
        float known[EMBEDDING] = {0};
        bool again = true;
        while (again) { /* an application once in a batch: its embedding is of one state of data */
            who[g] = aw_rng_below(&trial->rng, TRAINED);
            again = false;
            for (uint32_t k = 0; k < g; k++)
                again |= who[k] == who[g];
        }
        draw(trial, order);
        learn_about(trial, who[g], order, known);
        for (uint32_t q = 0; q < QUERIES; q++) {
            const uint32_t size = order[SHOTS_MAX + q], row = g * QUERIES + q;
            put_row(trial, who[g], size, known, x + (size_t)row * trial->in);
            label[row] = trial->subject[who[g]].label[size];
        }
    }
    const float *y = aw_mlp_forward(&trial->net, trial->params.value, x, ROWS, &trial->cache);
    aw_loss_mse(y, label, ROWS, dy);
    aw_params_zero_grad(&trial->params);
    aw_mlp_backward(&trial->net, trial->params.value, x, ROWS, &trial->cache, dy,
                    trial->params.grad, dx);
    const struct aw_adam adam = aw_adam_default(rate);
    aw_adam_step(&adam, &trial->params);
    if (trial->learner != FLASH)
        return;
    for (uint32_t row = 0; row < ROWS; row++)
        must(aw_meta_feedback(trial->meta, trial->workload[who[row / QUERIES]],
                              dx + (size_t)row * trial->in + FEATURES),
             "feedback");
    must(aw_meta_update(trial->meta, NULL), "update");
}

static void trial_open(struct trial *trial, uint64_t seed)
{
    const uint32_t more[LEARNERS] = {0, trial->shots * SHOT_DIM, EMBEDDING};
    trial->in = FEATURES + more[trial->learner];
    const uint32_t widths[] = {trial->in, 64, 64, 1};
    aw_rng_init(&trial->rng, seed, 1);
    aw_mlp_declare(&trial->net, &trial->params, "base", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    must(aw_params_alloc(&trial->params, NULL), "the network");
    aw_mlp_init_fan_in(&trial->net, trial->params.value, 0, &trial->rng);
    must(aw_mlp_cache_init(&trial->cache, &trial->net, ROWS, NULL), "the network");
    if (trial->learner != FLASH)
        return;
    struct aw_meta_settings settings = aw_meta_default();
    struct aw_diag diag = {0};
    settings.embedding = EMBEDDING;
    settings.keep_count = trial->shots;
    settings.workloads_max = TRAINED + UNSEEN;
    settings.seed = seed;
    must(aw_meta_register_sl("sizeless", FEATURES, 1, &settings, NULL, &trial->meta, &diag),
         diag.text);
    for (uint32_t s = 0; s < TRAINED + UNSEEN; s++) {
        char name[AW_META_NAME_MAX];
        snprintf(name, sizeof name, "app-%llu-%u", (unsigned long long)seed, s);
        must(aw_meta_workload(trial->meta, name, &trial->workload[s]), "workload");
    }
    for (uint32_t s = 0; s < TRAINED; s++) { /* what the normalisation is fixed by */
        uint32_t order[SIZES];
        draw(trial, order);
        for (uint32_t k = 0; k < trial->shots; k++)
            must(aw_meta_insert_samples(trial->meta, trial->workload[s],
                                        trial->subject[s].feature[order[k]],
                                        &trial->subject[s].label[order[k]], 1),
                 "insert_samples");
    }
}

/* Mean absolute percentage error on applications never seen, at all sizes that were not given. */
static double mape_of(struct trial *trial, uint64_t seed)
{
    double sum = 0;
    aw_rng_init(&trial->rng, seed, 2); /* the same are given to every learner */
    for (uint32_t s = TRAINED; s < TRAINED + UNSEEN; s++) {
        float known[EMBEDDING] = {0}, row[IN_MAX], y;
        uint32_t order[SIZES];
        draw(trial, order);
        learn_about(trial, s, order, known);
        for (uint32_t i = SHOTS_MAX; i < SIZES; i++) {
            put_row(trial, s, order[i], known, row);
            aw_mlp_infer(&trial->net, trial->params.value, row, &y);
            sum += fabs(exp((double)y - trial->subject[s].truth[order[i]]) - 1);
        }
    }
    return sum / (UNSEEN * (SIZES - SHOTS_MAX));
}

static double run(enum learner learner, uint32_t shots, const struct subject *subjects,
                  uint64_t seed)
{
    struct trial trial = {.learner = learner, .shots = shots, .subject = subjects};
    trial_open(&trial, seed);
    for (uint32_t n = 0; n < STEPS; n++)
        step(&trial, RATE * (1 - (double)n / STEPS));
    if (trial.meta)
        aw_meta_toggle(trial.meta, false);
    const double mape = mape_of(&trial, seed);
    aw_meta_free(trial.meta);
    aw_mlp_cache_deinit(&trial.cache);
    aw_params_deinit(&trial.params);
    return mape;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 3;
    bool check = false, bad = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            check = true;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            bad |= aw_text_parse_u64(argv[++i], &seeds) || seeds == 0 || seeds > SEEDS_MAX;
        else
            bad = true;
    }
    if (bad) {
        fprintf(stderr, "usage: flash_sizeless [--seeds N] [--check]\n");
        return aw_err_exit_code(AW_ERR_USAGE);
    }
    static struct subject subjects[TRAINED + UNSEEN];
    static double mape[SHOTS_MAX][LEARNERS][SEEDS_MAX];
    for (uint64_t seed = 0; seed < seeds; seed++) {
        for (uint32_t s = 0; s < TRAINED + UNSEEN; s++)
            meet(&subjects[s], seed + 1, s);
        standardise(subjects);
        for (uint32_t x = 0; x < SHOTS_MAX; x++)
            for (uint32_t l = ALONE; l < LEARNERS; l++)
                mape[x][l][seed] = run((enum learner)l, x + 1, subjects, seed + 1);
    }
    bool helped = true;
    printf("MAPE on %u applications never seen, mean (lowest to highest) of %llu seeds\n\n%-8s",
           UNSEEN, (unsigned long long)seeds, "");
    for (uint32_t l = ALONE; l < LEARNERS; l++)
        printf("%-24s", learner_names[l]);
    printf("flash/alone\n");
    for (uint32_t x = 0; x < SHOTS_MAX; x++) {
        double mean[LEARNERS] = {0};
        printf("%u-shot  ", x + 1);
        for (uint32_t l = ALONE; l < LEARNERS; l++) {
            double low = mape[x][l][0], high = low;
            for (uint64_t seed = 0; seed < seeds; seed++) {
                mean[l] += mape[x][l][seed] / (double)seeds;
                low = fmin(low, mape[x][l][seed]);
                high = fmax(high, mape[x][l][seed]);
            }
            printf("%.3f (%.3f to %.3f)  ", mean[l], low, high);
        }
        printf(" %.2f\n", mean[FLASH] / mean[ALONE]);
        helped &= mean[FLASH] <= HELPS * mean[ALONE];
    }
    if (check && !helped) {
        printf("\nflash has more than %.2f of the error of alone\n", HELPS);
        return aw_err_exit_code(AW_ERR_CHECK);
    }
    return 0;
}
