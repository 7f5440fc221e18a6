/*
 * nn.c - the neural core at the sizes that matter here, against PyTorch in the same run.
 *
 * Every figure is CPU time of one thread. Ours and the peer's rounds alternate, and the
 * quickest of each are compared: on a shared machine noise only ever adds, and it comes and goes.
 * The products table compares our kernels with OpenBLAS, which decides where matmul.c hands over.
 */
#include "bench/bench.h"
#include "bench/peer.h"

#include "base/alloc.h"
#include "base/stats.h"
#include "nn/gru.h"
#include "nn/matmul.h"
#include "nn/mlp.h"
#include "rl/agents.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#undef I /* cblas.h brings complex.h */

#define ROUNDS       15u
#define ROUND_S      0.02 /* CPU time of one of our rounds, where a case is shorter than that */
#define STATE_DIM    73u  /* AWARE's 9 figures with a 64-wide embedding */
#define ACTION_DIM   3u
#define REPLAY_FILL  10000u
#define GRU_EPISODES 20u
#define GRU_STEPS    100u
#define GRU_FEATURES 13u
#define GRU_HIDDEN   256u

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What the cases work on. */
struct rig {
    struct aw_agent ddpg;
    float state[STATE_DIM];
    struct aw_params params;
    struct aw_gru gru;
    struct aw_gru_cache *inference, *training;
    float *x, *dy;
    float *a, *b, *c; /* operands of the products */
    uint32_t M, N, K;
};

static void case_update(struct rig *rig)
{
    AW_ASSERT(rig->ddpg.ops->learn(rig->ddpg.self, NULL) == AW_OK);
}

static void case_action(struct rig *rig)
{
    float action[ACTION_DIM];
    AW_ASSERT(rig->ddpg.ops->act(rig->ddpg.self, rig->state, 1, false, action) == AW_OK);
}

static void case_gru_forward(struct rig *rig)
{
    aw_gru_forward(&rig->gru, rig->params.value, rig->x, GRU_STEPS, GRU_EPISODES, rig->inference,
                   NULL);
}

static void case_gru_both(struct rig *rig)
{
    aw_params_zero_grad(&rig->params);
    aw_gru_forward(&rig->gru, rig->params.value, rig->x, GRU_STEPS, GRU_EPISODES, rig->training,
                   NULL);
    aw_gru_backward(&rig->gru, rig->params.value, rig->x, GRU_STEPS, GRU_EPISODES, rig->training,
                    rig->dy, NULL, rig->params.grad, NULL);
}

static const struct {
    const char *name, *title, *unit;
    double per_unit; /* seconds */
    double goal;
    void (*run)(struct rig *rig);
} cases[] = {
    {"ddpg_update", "ddpg update, state 73, 40-40, batch 64", "us", 1e-6, 10, case_update},
    {"action", "one action of that actor", "us", 1e-6, 50, case_action},
    {"gru_forward", "encoder forward, 20 x 100 steps, 256 wide", "ms", 1e-3, 1.4, case_gru_forward},
    {"gru_both", "encoder forward and backward", "ms", 1e-3, 1.7, case_gru_both},
};

static enum aw_err ddpg_make(struct rig *rig, struct aw_diag *diag)
{
    static const char *const sets[] = {"hidden=40,40", "batch=64", "offline=true",
                                       "updates_per_step=1", "replay_capacity=10000"};
    static const float low[ACTION_DIM] = {-1, -1, -1}, high[ACTION_DIM] = {1, 1, 1};
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = STATE_DIM,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = ACTION_DIM,
                                         .act_low = low,
                                         .act_high = high};
    const struct aw_agent_factory *factory;
    unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX] __attribute__((aligned(64)));
    enum aw_err err = aw_agent_factory_find("ddpg", &factory, diag);
    if (!err)
        err = aw_agent_settings(factory, "aware-table2", settings, diag);
    for (size_t i = 0; !err && i < sizeof sets / sizeof *sets; i++)
        err = aw_conf_set_pair(factory->fields, settings, sets[i], diag);
    if (!err)
        err = factory->make(&shape, settings, 1, NULL, &rig->ddpg, diag);
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    aw_rng_fill_normal(&rng, rig->state, STATE_DIM);
    for (uint32_t i = 0; !err && i < REPLAY_FILL; i++) {
        float obs[STATE_DIM], next[STATE_DIM], action[ACTION_DIM], reward;
        bool no = false;
        aw_rng_fill_normal(&rng, obs, STATE_DIM);
        aw_rng_fill_normal(&rng, next, STATE_DIM);
        aw_rng_fill_uniform(&rng, action, ACTION_DIM, -1, 1);
        aw_rng_fill_normal(&rng, &reward, 1);
        err = rig->ddpg.ops->observe(rig->ddpg.self,
                                     &(struct aw_transition){obs, action, &reward, next, &no, &no});
    }
    return err;
}

static enum aw_err rig_make(struct rig *rig, struct aw_diag *diag)
{
    const size_t rows = (size_t)GRU_STEPS * GRU_EPISODES, product = (size_t)512 * 512;
    enum aw_err err = ddpg_make(rig, diag);
    if (err)
        return err;
    aw_gru_declare(&rig->gru, &rig->params, "gru", GRU_FEATURES, GRU_HIDDEN, 2, true);
    rig->x = aw_alloc_new(NULL, rows * GRU_FEATURES, sizeof(float));
    rig->dy = aw_alloc_new(NULL, rows * 2 * GRU_HIDDEN, sizeof(float));
    rig->a = aw_alloc_new(NULL, product, sizeof(float));
    rig->b = aw_alloc_new(NULL, product, sizeof(float));
    rig->c = aw_alloc_new(NULL, product, sizeof(float));
    err = aw_params_alloc(&rig->params, NULL);
    if (!err)
        err = aw_gru_cache_new(&rig->gru, GRU_STEPS, GRU_EPISODES, false, NULL, &rig->inference);
    if (!err)
        err = aw_gru_cache_new(&rig->gru, GRU_STEPS, GRU_EPISODES, true, NULL, &rig->training);
    if (err || !rig->x || !rig->dy || !rig->a || !rig->b || !rig->c)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the benchmark");
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 0);
    aw_gru_init_uniform(&rig->gru, rig->params.value, &rng);
    aw_rng_fill_normal(&rng, rig->x, rows * GRU_FEATURES);
    aw_rng_fill_normal(&rng, rig->dy, rows * 2 * GRU_HIDDEN);
    aw_rng_fill_normal(&rng, rig->a, product);
    aw_rng_fill_normal(&rng, rig->b, product);
    return AW_OK;
}

static void rig_free(struct rig *rig)
{
    aw_agent_free(&rig->ddpg);
    aw_gru_cache_free(rig->inference);
    aw_gru_cache_free(rig->training);
    aw_params_deinit(&rig->params);
    aw_alloc_free(NULL, rig->x);
    aw_alloc_free(NULL, rig->dy);
    aw_alloc_free(NULL, rig->a);
    aw_alloc_free(NULL, rig->b);
    aw_alloc_free(NULL, rig->c);
}

/* Seconds for `count` runs. */
static double time_runs(void (*run)(struct rig *), struct rig *rig, uint64_t count)
{
    double begin = cpu_seconds();
    for (uint64_t i = 0; i < count; i++)
        run(rig);
    return cpu_seconds() - begin;
}

/* Runs of one round: enough for ROUND_S, at least one. The first call also warms the caches. */
static uint64_t runs_per_round(void (*run)(struct rig *), struct rig *rig)
{
    uint64_t count = 1;
    while (count < (uint64_t)1 << 30) {
        double seconds = time_runs(run, rig, count);
        if (seconds >= ROUND_S / 4) {
            double wanted = (double)count * ROUND_S / seconds;
            return wanted < 1 ? 1 : (uint64_t)wanted;
        }
        count *= 4;
    }
    return count;
}

/* The quickest round: noise of a shared machine only ever adds, and to memory-bound work most. */
static double best(const double *x, size_t n)
{
    return aw_stats_min(x, n);
}

static enum aw_err measure(struct rig *rig, struct aw__peer *peer, size_t which,
                           struct aw__bench *bench, struct aw_diag *diag)
{
    double ours[ROUNDS], theirs[ROUNDS];
    const uint64_t count = runs_per_round(cases[which].run, rig);
    uint64_t peer_count = 1;
    if (peer) {
        double seconds; /* as long a round for the peer, after one to warm up */
        enum aw_err err = aw__peer_time(peer, cases[which].name, 1, &seconds, diag);
        if (!err)
            err = aw__peer_time(peer, cases[which].name, 1, &seconds, diag);
        if (err)
            return err;
        peer_count = seconds < ROUND_S ? (uint64_t)(ROUND_S / seconds) : 1;
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ours[round] = time_runs(cases[which].run, rig, count) / (double)count;
        if (!peer)
            continue;
        enum aw_err err = aw__peer_time(peer, cases[which].name, peer_count, &theirs[round], diag);
        if (err)
            return err;
        theirs[round] /= (double)peer_count;
    }
    struct aw__bench_figure *figure =
        aw__bench_add(bench, cases[which].unit, "%s", cases[which].title);
    figure->value = best(ours, ROUNDS) / cases[which].per_unit;
    figure->lower_is_better = true;
    if (peer) {
        figure->against = best(theirs, ROUNDS) / cases[which].per_unit;
        figure->ratio = figure->against / figure->value;
        figure->goal = cases[which].goal;
    }
    return AW_OK;
}

/* --- our products against OpenBLAS
 * ---------------------------------------------------------------- */

static void ours_forward(struct rig *rig)
{
    aw_matmul_forward(rig->a, rig->b, NULL, AW_ACT_NONE, rig->c, rig->M, rig->N, rig->K);
}
static void ours_backward_x(struct rig *rig)
{
    aw_matmul_backward_x(rig->a, rig->b, rig->N, rig->c, rig->M, rig->N, rig->K);
}
static void ours_backward_w(struct rig *rig)
{
    aw_matmul_backward_w(rig->a, rig->b, rig->c, rig->M, rig->N, rig->K);
}
static void blas_forward(struct rig *rig)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rig->M, (int)rig->N, (int)rig->K, 1,
                rig->a, (int)rig->K, rig->b, (int)rig->K, 0, rig->c, (int)rig->N);
}
static void blas_backward_x(struct rig *rig)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rig->M, (int)rig->N, (int)rig->K, 1,
                rig->a, (int)rig->K, rig->b, (int)rig->N, 0, rig->c, (int)rig->N);
}
static void blas_backward_w(struct rig *rig)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)rig->M, (int)rig->N, (int)rig->K, 1,
                rig->a, (int)rig->M, rig->b, (int)rig->N, 1, rig->c, (int)rig->N);
}

static void measure_products(struct rig *rig, struct aw__bench *bench)
{
    static const struct {
        const char *name;
        void (*ours)(struct rig *), (*blas)(struct rig *);
    } kinds[] = {{"forward", ours_forward, blas_forward},
                 {"backward x", ours_backward_x, blas_backward_x},
                 {"backward w", ours_backward_w, blas_backward_w}};
    static const uint32_t sizes[][3] = {{64, 40, 73},   {64, 40, 40},   {64, 64, 64},
                                        {128, 64, 64},  {64, 128, 128}, {64, 256, 73},
                                        {64, 256, 256}, {256, 256, 256}};
    for (size_t kind = 0; kind < 3; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            double ours[ROUNDS], blas[ROUNDS];
            rig->M = sizes[s][kind == 2 ? 1 : 0];
            rig->N = sizes[s][kind == 0 ? 1 : 2];
            rig->K = sizes[s][kind == 0 ? 2 : kind == 1 ? 1 : 0];
            uint64_t count = runs_per_round(kinds[kind].ours, rig) / 4 + 1;
            for (uint32_t round = 0; round < ROUNDS; round++) {
                ours[round] = time_runs(kinds[kind].ours, rig, count) / (double)count;
                blas[round] = time_runs(kinds[kind].blas, rig, count) / (double)count;
            }
            struct aw__bench_figure *figure =
                aw__bench_add(bench, "us", "%s %u x %u x %u, against OpenBLAS", kinds[kind].name,
                              rig->M, rig->N, rig->K);
            figure->value = best(ours, ROUNDS) * 1e6;
            figure->against = best(blas, ROUNDS) * 1e6;
            figure->ratio = figure->against / figure->value;
            figure->lower_is_better = true;
        }
}

enum aw_err aw__bench_nn(struct aw__bench *bench, struct aw_diag *diag)
{
    struct rig rig = {0};
    struct aw__peer peer = {0};
    aw_matmul_single_thread();
    enum aw_err err = bench->against_torch ? aw__peer_open(&peer, diag) : AW_OK;
    if (!err)
        err = rig_make(&rig, diag);
    if (!err && bench->against_torch && !bench->json)
        fprintf(stderr, "one thread each, in turns: AWARE (%s) and PyTorch %s\n",
                aw_matmul_kernel_name(), peer.version);
    for (size_t i = 0; !err && i < sizeof cases / sizeof *cases; i++)
        err = measure(&rig, bench->against_torch ? &peer : NULL, i, bench, diag);
    if (!err)
        measure_products(&rig, bench);
    rig_free(&rig);
    aw__peer_close(&peer);
    return err;
}
