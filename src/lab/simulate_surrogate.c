/*
 * simulate_surrogate.c - the verb `simulate fit-surrogate`: fits the fast network to the reference.
 *
 * Samples are independent, so they are drawn on all processors; the fit is one thread of our own
 * layers and optimiser. One sample in ten is held out, and only those are reported.
 */
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/verbs.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/threads.h"
#include "cluster/surrogate.h"
#include "nn/adam.h"
#include "nn/loss.h"
#include "nn/mlp.h"
#include "nn/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IN     AW_SURROGATE_INPUTS
#define OUT    AW_SURROGATE_OUTPUTS
#define BATCH  256u
#define LR     3e-3
#define LR_END 1e-5
#define HOLD   10u /* one sample in so many is held out */
#define SLICE  64u /* samples between looks at the clock */

struct calibration {
    uint64_t seed;
    uint32_t sample_count, request_count;
    float *x;        /* [sample_count][IN] */
    float *y;        /* [sample_count][OUT] */
    double *replica; /* [sample_count][4]: load on capacity, cores, rate, alone ms */
    uint32_t first;  /* of the slice being drawn */
    _Atomic uint32_t failures;
    float shift[IN], scale[IN];
    struct aw_params params;
    struct aw_mlp mlp;
};

static void draw(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    struct calibration *c = ctx;
    const uint32_t i = c->first + index;
    struct aw_replica replica;
    struct aw_steady steady;
    if (aw_surrogate_sample(c->seed, i, c->request_count, &replica, &steady, NULL)) {
        c->failures++;
        return;
    }
    aw_surrogate_inputs(&replica, c->x + (size_t)i * IN);
    aw_surrogate_encode(&replica, &steady, c->y + (size_t)i * OUT);
    c->replica[(size_t)i * 4] =
        replica.rate_per_s / aw_replica_capacity(&replica.demand, replica.cores);
    c->replica[(size_t)i * 4 + 1] = replica.cores;
    c->replica[(size_t)i * 4 + 2] = replica.rate_per_s;
}

static enum aw_err draw_all(struct calibration *c, struct aw_diag *diag)
{
    struct aw_threads pool;
    enum aw_err err = aw_threads_init(&pool, aw_threads_cpu_count(), NULL);
    if (err)
        return aw_fail(diag, err, "no threads for the samples");
    struct aw_status_line line;
    aw_status_line_init(&line, stderr, false);
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    for (c->first = 0; c->first < c->sample_count; c->first += SLICE) {
        uint32_t left = c->sample_count - c->first;
        aw_threads_parallel_for(&pool, left < SLICE ? left : SLICE, 1, draw, c);
        const int64_t now_us = aw_clock_monotonic_us(NULL);
        aw_status_line_draw(&line, false, now_us, "samples %u of %u, %.0f s", c->first + SLICE,
                            c->sample_count, (double)(now_us - begin_us) * 1e-6);
    }
    aw_status_line_clear(&line);
    aw_threads_deinit(&pool);
    return c->failures ? aw_fail(diag, AW_ERR_CHECK, "%u samples failed", c->failures) : AW_OK;
}

/* Inputs to mean 0 and deviation 1, over what is not held out. */
static void normalise(struct calibration *c)
{
    for (uint32_t j = 0; j < IN; j++) {
        struct aw_running running = {0};
        for (uint32_t i = 0; i < c->sample_count; i++)
            if (i % HOLD)
                aw_running_push(&running, (double)c->x[(size_t)i * IN + j]);
        c->shift[j] = (float)running.mean;
        c->scale[j] = (float)(1 / fmax(aw_running_std(&running), 1e-6));
    }
    for (uint32_t i = 0; i < c->sample_count; i++)
        for (uint32_t j = 0; j < IN; j++)
            c->x[(size_t)i * IN + j] = (c->x[(size_t)i * IN + j] - c->shift[j]) * c->scale[j];
}

static enum aw_err fit(struct calibration *c, uint32_t epochs, struct aw_diag *diag)
{
    struct aw_mlp_cache cache = {0};
    const uint32_t widths[] = {IN, AW_SURROGATE_HIDDEN, AW_SURROGATE_HIDDEN, OUT};
    struct aw_rng rng;
    aw_rng_init(&rng, c->seed, 7);
    aw_mlp_declare(&c->mlp, &c->params, "surrogate", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    uint32_t *order = aw_alloc_new(NULL, c->sample_count, sizeof *order);
    float *x = aw_alloc_new(NULL, (size_t)BATCH * IN, sizeof *x);
    float *y = aw_alloc_new(NULL, (size_t)BATCH * OUT, sizeof *y);
    float *dy = aw_alloc_new(NULL, (size_t)BATCH * OUT, sizeof *dy);
    enum aw_err err = aw_params_alloc(&c->params, NULL);
    if (!err)
        err = aw_mlp_cache_init(&cache, &c->mlp, BATCH, NULL);
    if (err || !order || !x || !y || !dy) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the fit");
        goto out;
    }
    aw_mlp_init_fan_in(&c->mlp, c->params.value, 0, &rng);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->sample_count; i++)
        if (i % HOLD)
            order[count++] = i;
    const uint32_t batches = count / BATCH;
    struct aw_adam adam = aw_adam_default(LR);
    struct aw_status_line line;
    aw_status_line_init(&line, stderr, false);
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        aw_rng_shuffle(&rng, order, count);
        double loss = 0;
        for (uint32_t b = 0; b < batches; b++) {
            const double done = (epoch + (double)b / batches) / epochs;
            adam.lr = LR_END + (LR - LR_END) * 0.5 * (1 + cos(M_PI * done));
            for (uint32_t k = 0; k < BATCH; k++) {
                const size_t i = order[b * BATCH + k];
                memcpy(x + (size_t)k * IN, c->x + i * IN, IN * sizeof *x);
                memcpy(y + (size_t)k * OUT, c->y + i * OUT, OUT * sizeof *y);
            }
            const float *out = aw_mlp_forward(&c->mlp, c->params.value, x, BATCH, &cache);
            /* Huber: a handful of near-critical samples have not settled, and must not rule */
            loss += aw_loss_huber(out, y, (size_t)BATCH * OUT, 0.2f, dy);
            aw_params_zero_grad(&c->params);
            aw_mlp_backward(&c->mlp, c->params.value, x, BATCH, &cache, dy, c->params.grad, NULL);
            aw_adam_step(&adam, &c->params);
        }
        aw_status_line_draw(&line, false, aw_clock_monotonic_us(NULL),
                            "fit: epoch %u of %u, loss %.5f", epoch + 1, epochs, loss / batches);
    }
    aw_status_line_clear(&line);
out:
    aw_mlp_cache_deinit(&cache);
    aw_alloc_free(NULL, order);
    aw_alloc_free(NULL, x);
    aw_alloc_free(NULL, y);
    aw_alloc_free(NULL, dy);
    return err;
}

/* Relative errors on the samples held out, of figures decoded from outputs. */
static enum aw_err report(const struct calibration *c, bool color, struct aw_diag *diag)
{
    static const char *const heads[] = {"FIGURE", ">MEDIAN %", ">90 %", ">99 %", NULL};
    static const char *const names[] = {
        "mean", "p50", "p95", "p99", "throttled (points)", "in flight peak", "spread"};
    uint32_t held = 0;
    double *error[OUT];
    for (uint32_t j = 0; j < OUT; j++)
        error[j] = aw_alloc_new(NULL, c->sample_count, sizeof(double));
    for (uint32_t i = 0; i < c->sample_count; i += HOLD, held++) {
        float out[OUT];
        struct aw_steady want, got;
        const struct aw_replica unit = {
            .demand = {.cpu_ms = 1, .parallelism = 1}, .cores = 1, .rate_per_s = 1};
        aw_mlp_infer(&c->mlp, c->params.value, c->x + (size_t)i * IN, out);
        aw_surrogate_decode(&unit, c->y + (size_t)i * OUT, &want);
        aw_surrogate_decode(&unit, out, &got);
        error[0][held] = fabs(got.mean_us / want.mean_us - 1);
        error[1][held] = fabs(got.p50_us / want.p50_us - 1);
        error[2][held] = fabs(got.p95_us / want.p95_us - 1);
        error[3][held] = fabs(got.p99_us / want.p99_us - 1);
        error[4][held] = fabs(got.throttled_share - want.throttled_share);
        error[5][held] = fabs(got.in_flight_peak / want.in_flight_peak - 1);
        error[6][held] = fabs(got.p99_spread / want.p99_spread - 1);
    }
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t j = 0; j < OUT; j++) {
        aw_stats_sort(error[j], held);
        aw_table_add(&table, "%s", names[j]);
        aw_table_add(&table, "%.1f", 100 * aw_stats_quantile(error[j], held, 0.5));
        aw_table_add(&table, "%.1f", 100 * aw_stats_quantile(error[j], held, 0.9));
        aw_table_add(&table, "%.1f", 100 * aw_stats_quantile(error[j], held, 0.99));
        aw_alloc_free(NULL, error[j]);
    }
    return aw_table_print(&table, stdout, color, diag);
}

static void write_array(FILE *out, const char *name, const float *value, size_t count)
{
    fprintf(out, "    .%s =\n        {", name);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%.9gf,", i % 5 ? " " : i ? "\n         " : "", (double)value[i]);
    fputs("},\n", out);
}

static enum aw_err write_source(const struct calibration *c, const char *path, struct aw_diag *diag)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be written: %m");
    fprintf(out,
            "/* weights.c - made by: aware simulate fit-surrogate --seed %llu --samples %u "
            "--requests %u */\n"
            "#include \"cluster/sim/weights.h\"\n\n/* clang-format off */\n"
            "const struct aw_weights aw_weights = {\n",
            (unsigned long long)c->seed, c->sample_count, c->request_count);
    write_array(out, "shift", c->shift, IN);
    write_array(out, "scale", c->scale, IN);
    static const char *const w[] = {"w0", "w1", "w2"}, *const b[] = {"b0", "b1", "b2"};
    for (uint32_t l = 0; l < 3; l++) {
        const struct aw_linear *layer = &c->mlp.layer[l];
        write_array(out, w[l], c->params.value + layer->weight, (size_t)layer->in * layer->out);
        write_array(out, b[l], c->params.value + layer->bias, layer->out);
    }
    fputs("};\n", out);
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be written: %m");
    return AW_OK;
}

/* Samples take minutes, a fit seconds: --data keeps them. */
static enum aw_err data_load(struct calibration *c, const char *path, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    enum aw_err err = aw_safetensors_open(path, NULL, &file, diag);
    if (!err)
        err = aw_safetensors_copy(file, "x", AW_DTYPE_F32, 2, (uint64_t[]){c->sample_count, IN},
                                  c->x, diag);
    if (!err)
        err = aw_safetensors_copy(file, "y", AW_DTYPE_F32, 2, (uint64_t[]){c->sample_count, OUT},
                                  c->y, diag);
    aw_safetensors_close(file);
    return err;
}

static enum aw_err data_save(const struct calibration *c, const char *path, struct aw_diag *diag)
{
    struct aw_safetensors_writer *writer = NULL;
    enum aw_err err = aw_safetensors_writer_new(NULL, &writer);
    if (!err)
        err = aw_safetensors_add(writer, "x", AW_DTYPE_F32, 2, (uint64_t[]){c->sample_count, IN},
                                 c->x);
    if (!err)
        err = aw_safetensors_add(writer, "y", AW_DTYPE_F32, 2, (uint64_t[]){c->sample_count, OUT},
                                 c->y);
    if (!err)
        err = aw_safetensors_write(writer, path, diag);
    aw_safetensors_writer_free(writer);
    return err;
}

static enum aw_err calibrate_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct calibration c = {
        .seed = aw_args_number(run->args, "seed"),
        .sample_count = (uint32_t)aw_args_number(run->args, "samples"),
        .request_count = (uint32_t)aw_args_number(run->args, "requests"),
    };
    const char *data = aw_args_text(run->args, "data");
    const char *path = aw_args_text(run->args, "out");
    c.x = aw_alloc_new(NULL, (size_t)c.sample_count * IN, sizeof *c.x);
    c.y = aw_alloc_new(NULL, (size_t)c.sample_count * OUT, sizeof *c.y);
    c.replica = aw_alloc_new(NULL, (size_t)c.sample_count * 4, sizeof *c.replica);
    enum aw_err err = AW_OK;
    if (!c.x || !c.y || !c.replica)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u samples", c.sample_count);
    else if (data && access(data, R_OK) == 0)
        err = data_load(&c, data, diag);
    else if (!(err = draw_all(&c, diag)) && data)
        err = data_save(&c, data, diag);
    if (!err) {
        normalise(&c);
        err = fit(&c, (uint32_t)aw_args_number(run->args, "epochs"), diag);
    }
    if (!err)
        err = report(&c, run->color_out, diag);
    if (!err && path)
        err = write_source(&c, path, diag);
    aw_params_deinit(&c.params);
    aw_alloc_free(NULL, c.x);
    aw_alloc_free(NULL, c.y);
    aw_alloc_free(NULL, c.replica);
    return err;
}

static const struct aw_option calibrate_options[] = {
    AW_NUMBER("samples", 0, "N", "20000", 100, 1000000,
              "random settings to run through the reference"),
    AW_NUMBER("requests", 0, "N", "40000", 100, 10000000, "requests to follow in each"),
    AW_NUMBER("epochs", 0, "N", "300", 1, 100000, "passes over the samples"),
    AW_OPTION_SEED("1", "seed of everything drawn"),
    AW_OPTION(FILE, "data", 0, "FILE", NULL,
              "keep the samples here, or take them from here when they are"),
    AW_OPTION(FILE, "out", 'o', "FILE", NULL,
              "write the network as C source: src/cluster/sim/weights.c"),
    {.name = NULL},
};
static const struct aw_example calibrate_examples[] = {
    {"aware simulate fit-surrogate -o src/cluster/sim/weights.c",
     "fit anew what the program ships"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_simulate_surrogate = {
    .name = "simulate fit-surrogate",
    .summary = "Fit the fast model of the simulated cluster to the reference",
    .text = "Runs random applications, sizes and rates through the reference model, which follows "
            "every request, and fits the network of the fast model to the steady states found. One "
            "sample in ten is held out; errors are reported on those.",
    .options = calibrate_options,
    .examples = calibrate_examples,
    .run = calibrate_run,
};
