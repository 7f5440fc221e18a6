/* learn.c - see learn.h. */
#include "frequency/learn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "nn/adam.h"
#include "nn/mlp.h"
#include "nn/safetensors.h"

#define HIDDEN      128u
#define BEHIND_MAX  0.5 /* what a level may be worth less than the best: beyond, all are bad */
#define VALUE_SCALE 4.0
#define EXPLORE     0.15
#define KIND        "aware frequency values"
#define WORKLOADS   320u
#define PATH_LEN    4096u

/* models/frequency.safetensors and its encoder, inside the program */
extern const char aw__frequency_values[], aw__frequency_encoder[];
extern const unsigned aw__frequency_values_size, aw__frequency_encoder_size;

struct aw_frequency_learner {
    struct aw_params params;
    struct aw_mlp mlp;
    struct aw_mlp_cache cache;
    struct aw_meta *meta;
    bool truth;
};

static const uint32_t sweep[AW_FREQUENCY_SWEEP] = {11, 8, 5, 9, 6, 10, 4, 7};

struct aw_frequency_lesson aw_frequency_lesson_default(void)
{
    return (struct aw_frequency_lesson){
        .pairs = 300, .updates = 8000, .group = 16, .rows = 16, .lr = 1e-3, .seed = 1};
}

void aw_frequency_truth(const struct aw_frequency_pair *pair, float truth[AW_FREQUENCY_EMBEDDING])
{
    const struct aw_phase *phase = &pair->phase[0];
    truth[0] = (float)phase->cycles;
    truth[1] = (float)phase->memory_ns;
    truth[2] = (float)phase->load;
    truth[3] = pair->batch ? 1 : 0;
    truth[4] = (float)(pair->slo_factor / 5);
    truth[5] = (float)(5 * pair->wobble);
    truth[6] = (float)pair->phase_count / 3;
    truth[7] = (float)(log10(pair->instructions) - 7);
}

/* ---- a learner ---- */

static enum aw_err learner_new(uint64_t seed, uint32_t batch, bool truth,
                               struct aw_frequency_learner **ret, struct aw_diag *diag)
{
    static const uint32_t widths[] = {AW_FREQUENCY_INPUT, HIDDEN, HIDDEN, AW_LEVELS};
    struct aw_frequency_learner *learner = aw_alloc_new(NULL, 1, sizeof *learner);
    struct aw_meta_settings settings = aw_meta_default();
    struct aw_rng rng;
    if (!learner)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a learner");
    settings.hidden = 48;
    settings.dense = 32;
    settings.embedding = AW_FREQUENCY_EMBEDDING;
    settings.keep = AW_META_KEEP_LATEST;
    settings.keep_count = 3;
    settings.workloads_max = WORKLOADS;
    settings.group = 32;
    settings.learning_rate = 1e-3;
    settings.seed = seed;
    learner->truth = truth;
    aw_rng_init(&rng, seed, 0x71 /* "q" */);
    aw_mlp_declare(&learner->mlp, &learner->params, "values", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&learner->params, NULL);
    if (!err) {
        aw_mlp_init_fan_in(&learner->mlp, learner->params.value, 0, &rng);
        err = aw_mlp_cache_init(&learner->cache, &learner->mlp, batch, NULL);
    }
    if (!err)
        err = aw_meta_register_rl("frequency", AW_FREQUENCY_OBS + 2, 1, AW_FREQUENCY_CONTEXT,
                                  &settings, NULL, &learner->meta, diag);
    if (err) {
        aw_frequency_learner_free(learner);
        return err;
    }
    *ret = learner;
    return AW_OK;
}

void aw_frequency_learner_free(struct aw_frequency_learner *learner)
{
    if (!learner)
        return;
    aw_meta_free(learner->meta);
    aw_mlp_cache_deinit(&learner->cache);
    aw_params_deinit(&learner->params);
    aw_alloc_free(NULL, learner);
}

/* ---- driving ---- */

static void hints(const struct aw_processor *processor, float out[2])
{
    out[0] = (float)(processor->min_ghz / processor->max_ghz);
    out[1] = (float)(processor->nominal_ghz / processor->max_ghz);
}

static void input(const struct aw_frequency_driver *driver, const float *obs, float *x)
{
    memcpy(x, obs, AW_FREQUENCY_OBS * sizeof *x);
    memcpy(x + AW_FREQUENCY_OBS, driver->before, AW_FREQUENCY_OBS * sizeof *x);
    hints(driver->processor, x + 2 * AW_FREQUENCY_OBS);
    x[2 * AW_FREQUENCY_OBS + 2] = (float)driver->level / (AW_LEVELS - 1);
    /* instructions of a busy cycle, demand as the frequency that would just serve it, and room */
    const float busy = obs[AW_SEE_USE] * obs[AW_SEE_GHZ];
    x[2 * AW_FREQUENCY_OBS + 3] = fminf(obs[AW_SEE_IPS] / fmaxf(busy, 0.01f), 4);
    x[2 * AW_FREQUENCY_OBS + 4] = busy;
    x[2 * AW_FREQUENCY_OBS + 5] = obs[AW_SEE_USE] > 0.98f ? 1 : 0;
    memcpy(x + AW_FREQUENCY_SEEN, driver->embedding, sizeof driver->embedding);
}

enum aw_err aw_frequency_begin(struct aw_frequency_driver *driver,
                               struct aw_frequency_learner *learner,
                               const struct aw_processor *processor, enum aw_frequency_mode mode,
                               const char *name)
{
    *driver = (struct aw_frequency_driver){.learner = learner,
                                           .processor = processor,
                                           .mode = mode,
                                           .level = aw_level_nominal(processor)};
    return aw_meta_workload(learner->meta, name, &driver->workload);
}

void aw_frequency_again(struct aw_frequency_driver *driver)
{
    driver->kept = 0;
    driver->known = driver->means > 0;
    if (driver->known)
        memcpy(driver->embedding, driver->mean, sizeof driver->mean);
    driver->second = AW_FREQUENCY_SWEEP + 1;
    driver->level = aw_level_nominal(driver->processor);
    memset(driver->before, 0, sizeof driver->before);
}

void aw_frequency_end(struct aw_frequency_driver *driver)
{
    if (driver->learner)
        (void)!aw_meta_forget(driver->learner->meta, driver->workload);
}

static void embed(struct aw_frequency_driver *driver)
{
    float z[AW_FREQUENCY_EMBEDDING];
    if (aw_meta_embedding(driver->learner->meta, driver->workload, z))
        return;
    driver->means++;
    for (uint32_t i = 0; i < AW_FREQUENCY_EMBEDDING; i++)
        driver->mean[i] += (z[i] - driver->mean[i]) / (float)driver->means;
    memcpy(driver->embedding, driver->known ? driver->mean : z, sizeof z);
}

/* Notes a finished second; a full trajectory, or the end of the sweep, makes a new embedding. */
static void remember(struct aw_frequency_driver *driver, const float *obs, double reward)
{
    if (driver->deaf)
        return;
    float *state = driver->state[driver->kept];
    memcpy(state, obs, AW_FREQUENCY_OBS * sizeof *state);
    hints(driver->processor, state + AW_FREQUENCY_OBS);
    driver->action[driver->kept] = (float)driver->level / (AW_LEVELS - 1);
    driver->reward[driver->kept++] = (float)reward;
    if (driver->kept < AW_FREQUENCY_CONTEXT && driver->second != AW_FREQUENCY_SWEEP)
        return;
    struct aw_meta *meta = driver->learner->meta;
    if (!aw_meta_insert_trajectory(meta, driver->workload, driver->state[0], driver->action,
                                   driver->reward, driver->kept) &&
        driver->mode == AW_FREQUENCY_EMBEDDED)
        embed(driver);
    driver->kept = 0;
}

uint32_t aw_frequency_decide(struct aw_frequency_driver *driver, const float obs[AW_FREQUENCY_OBS],
                             double reward)
{
    float x[AW_FREQUENCY_INPUT], value[AW_LEVELS];
    if (driver->second)
        remember(driver, obs, reward);
    uint32_t choice = 0;
    if (driver->second < AW_FREQUENCY_SWEEP) {
        choice = sweep[driver->second];
    } else {
        input(driver, obs, x);
        aw_mlp_infer(&driver->learner->mlp, driver->learner->params.value, x, value);
        for (uint32_t i = 0; i < AW_LEVELS; i++)
            value[i] += (float)(driver->lean * i / (AW_LEVELS - 1));
        for (uint32_t i = 1; i < AW_LEVELS; i++)
            choice = value[i] > value[choice] ? i : choice;
    }
    memcpy(driver->before, obs, sizeof driver->before);
    driver->level = choice;
    driver->second++;
    return choice;
}

/* ---- training ---- */

struct pupil { /* one pair that is learned from */
    struct aw_frequency_pair pair;
    struct aw_machine machine;
    struct aw_frequency_driver driver;
    float obs[AW_FREQUENCY_OBS];
    double reward;
};

static void pupil_reset(struct pupil *pupil, uint64_t seed)
{
    aw_machine_reset(&pupil->machine, &pupil->pair, AW_REWARD_ENERGY, seed, pupil->obs);
    pupil->reward = 0;
    pupil->driver.second = pupil->driver.kept = 0;
    pupil->driver.level = aw_level_nominal(pupil->driver.processor);
    memset(pupil->driver.before, 0, sizeof pupil->driver.before);
}

static void pupil_step(struct pupil *pupil, struct aw_rng *rng)
{
    struct aw_second second;
    uint32_t level = aw_frequency_decide(&pupil->driver, pupil->obs, pupil->reward);
    if (pupil->driver.second > AW_FREQUENCY_SWEEP && aw_rng_double(rng) < EXPLORE)
        pupil->driver.level = level = aw_rng_below(rng, AW_LEVELS);
    aw_machine_step(&pupil->machine, level, pupil->obs, &second);
    pupil->reward = second.reward;
}

/* What each level is worth in the coming second, less what the best is: at most BEHIND_MAX less. */
static void targets(const struct aw_machine *machine, float out[AW_LEVELS])
{
    double value[AW_LEVELS], best = -INFINITY;
    for (uint32_t i = 0; i < AW_LEVELS; i++) {
        value[i] = aw_frequency_value(machine, i);
        best = fmax(best, value[i]);
    }
    for (uint32_t i = 0; i < AW_LEVELS; i++)
        out[i] = (float)(VALUE_SCALE * fmax(value[i] - best, -BEHIND_MAX));
}

struct class_room {
    struct aw_frequency_learner *learner;
    const struct aw_frequency_lesson *lesson;
    struct pupil *pupil;
    float *x, *want, *dy, *dx;
    struct aw_rng rng;
};

/* The rows of an update: `rows` seconds of each of `group` pairs. */
static enum aw_err gather(struct class_room *room, const uint32_t *chosen)
{
    const struct aw_frequency_lesson *lesson = room->lesson;
    for (uint32_t g = 0; g < lesson->group; g++) {
        struct pupil *pupil = &room->pupil[chosen[g]];
        if (pupil->machine.second >= AW_MACHINE_SECONDS)
            pupil_reset(pupil, aw_rng_u64(&room->rng));
        while (pupil->driver.second <= AW_FREQUENCY_SWEEP)
            pupil_step(pupil, &room->rng);
        if (room->learner->truth)
            aw_frequency_truth(&pupil->pair, pupil->driver.embedding);
        for (uint32_t r = 0; r < lesson->rows; r++) {
            const size_t row = (size_t)g * lesson->rows + r;
            input(&pupil->driver, pupil->obs, room->x + row * AW_FREQUENCY_INPUT);
            targets(&pupil->machine, room->want + row * AW_LEVELS);
            pupil_step(pupil, &room->rng);
        }
        /* the newest embedding for all rows of the pair: its gradient is about that one */
        float *z = pupil->driver.embedding;
        if (!room->learner->truth) {
            const enum aw_err err =
                aw_meta_embedding(room->learner->meta, pupil->driver.workload, z);
            if (err)
                return err;
        }
        for (uint32_t r = 0; r < lesson->rows; r++)
            memcpy(room->x + ((size_t)g * lesson->rows + r) * AW_FREQUENCY_INPUT +
                       AW_FREQUENCY_SEEN,
                   z, AW_FREQUENCY_EMBEDDING * sizeof *z);
    }
    return AW_OK;
}

static enum aw_err update(struct class_room *room, const uint32_t *chosen, double lr,
                          double *ret_loss)
{
    const struct aw_frequency_lesson *lesson = room->lesson;
    struct aw_frequency_learner *learner = room->learner;
    const uint32_t B = lesson->group * lesson->rows;
    const struct aw_adam adam = aw_adam_default(lr);
    double loss = 0;
    const float *y =
        aw_mlp_forward(&learner->mlp, learner->params.value, room->x, B, &learner->cache);
    for (uint32_t i = 0; i < B * AW_LEVELS; i++) {
        const float error = y[i] - room->want[i];
        loss += (double)(error * error);
        room->dy[i] = error / (float)B;
    }
    aw_params_zero_grad(&learner->params);
    aw_mlp_backward(&learner->mlp, learner->params.value, room->x, B, &learner->cache, room->dy,
                    learner->params.grad, room->dx);
    (void)aw_params_clip_grad_norm(&learner->params, 1);
    aw_adam_step(&adam, &learner->params);
    *ret_loss = loss / (B * AW_LEVELS);
    if (learner->truth)
        return AW_OK;
    for (uint32_t g = 0; g < lesson->group; g++) {
        float feedback[AW_FREQUENCY_EMBEDDING] = {0};
        for (uint32_t r = 0; r < lesson->rows; r++) {
            const float *dz =
                room->dx + ((size_t)g * lesson->rows + r) * AW_FREQUENCY_INPUT + AW_FREQUENCY_SEEN;
            for (uint32_t e = 0; e < AW_FREQUENCY_EMBEDDING; e++)
                feedback[e] += dz[e];
        }
        const enum aw_err err =
            aw_meta_feedback(learner->meta, room->pupil[chosen[g]].driver.workload, feedback);
        if (err)
            return err;
    }
    return aw_meta_update(learner->meta, NULL);
}

static enum aw_err room_open(struct class_room *room, struct aw_diag *diag)
{
    const struct aw_frequency_lesson *lesson = room->lesson;
    const size_t B = (size_t)lesson->group * lesson->rows;
    room->pupil = aw_alloc_new(NULL, lesson->pairs, sizeof *room->pupil);
    room->x = aw_alloc_new(NULL, B * AW_FREQUENCY_INPUT, sizeof(float));
    room->dx = aw_alloc_new(NULL, B * AW_FREQUENCY_INPUT, sizeof(float));
    room->want = aw_alloc_new(NULL, B * AW_LEVELS, sizeof(float));
    room->dy = aw_alloc_new(NULL, B * AW_LEVELS, sizeof(float));
    if (!room->pupil || !room->x || !room->dx || !room->want || !room->dy)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u pairs", lesson->pairs);
    aw_rng_init(&room->rng, lesson->seed, 0x74726169 /* "trai" */);
    for (uint32_t i = 0; i < lesson->pairs; i++) {
        struct pupil *pupil = &room->pupil[i];
        char name[32];
        snprintf(name, sizeof name, "pair %u", i);
        aw_frequency_pair_draw(lesson->seed * 100003 + i, false, i % 2, &pupil->pair);
        const enum aw_err err = aw_frequency_begin(
            &pupil->driver, room->learner, &pupil->pair.processor, AW_FREQUENCY_EMBEDDED, name);
        if (err)
            return aw_fail(diag, err, "at most %u pairs", WORKLOADS);
        pupil->driver.mode = AW_FREQUENCY_ZEROED; /* until all have shown something */
        pupil_reset(pupil, aw_rng_u64(&room->rng));
        while (pupil->driver.second <= AW_FREQUENCY_SWEEP)
            pupil_step(pupil, &room->rng);
        pupil->driver.mode = room->learner->truth ? AW_FREQUENCY_TRUE : AW_FREQUENCY_EMBEDDED;
    }
    return AW_OK;
}

enum aw_err aw_frequency_train(const struct aw_frequency_lesson *lesson,
                               aw_frequency_progress *progress, void *ctx,
                               struct aw_frequency_learner **ret_learner, struct aw_diag *diag)
{
    struct class_room room = {.lesson = lesson};
    uint32_t chosen[AW_META_GROUP_MAX], order[WORKLOADS];
    if (lesson->pairs > WORKLOADS || lesson->group > lesson->pairs ||
        lesson->group > AW_META_GROUP_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected at most %u pairs, and no more at once",
                       WORKLOADS);
    enum aw_err err =
        learner_new(lesson->seed, lesson->group * lesson->rows, lesson->truth, &room.learner, diag);
    if (!err)
        err = room_open(&room, diag);
    double mean = 0;
    for (uint32_t u = 0; !err && u < lesson->updates; u++) {
        double loss = 0;
        for (uint32_t i = 0; i < lesson->pairs; i++)
            order[i] = i;
        aw_rng_shuffle(&room.rng, order, lesson->pairs);
        memcpy(chosen, order, lesson->group * sizeof *chosen);
        err = gather(&room, chosen);
        if (!err)
            err = update(&room, chosen, lesson->lr * (1 - 0.9 * u / lesson->updates), &loss);
        mean = u ? 0.98 * mean + 0.02 * loss : loss;
        if (!err && progress && u % 20 == 0 && !progress(ctx, (double)u / lesson->updates, mean))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "training was stopped");
    }
    for (uint32_t i = 0; room.pupil && i < lesson->pairs; i++)
        aw_frequency_end(&room.pupil[i].driver);
    aw_alloc_free(NULL, room.pupil);
    aw_alloc_free(NULL, room.x);
    aw_alloc_free(NULL, room.dx);
    aw_alloc_free(NULL, room.want);
    aw_alloc_free(NULL, room.dy);
    if (err) {
        aw_frequency_learner_free(room.learner);
        return err;
    }
    *ret_learner = room.learner;
    return AW_OK;
}

/* ---- files ---- */

enum aw_err aw_frequency_save(const struct aw_frequency_learner *learner, const char *path,
                              const char *how, struct aw_diag *diag)
{
    struct aw_safetensors_writer *writer = NULL;
    char encoder[PATH_LEN];
    snprintf(encoder, sizeof encoder, "%.4000s.encoder", path);
    enum aw_err err = aw_safetensors_writer_new(NULL, &writer);
    if (!err)
        err = aw_safetensors_add_params(writer, &learner->params, learner->params.value, "");
    if (!err)
        err = aw_safetensors_add_meta(writer, "kind", KIND);
    if (!err)
        err = aw_safetensors_add_meta(writer, "how", how);
    if (!err)
        err = aw_safetensors_seal(writer);
    if (!err)
        err = aw_safetensors_write(writer, path, diag);
    aw_safetensors_writer_free(writer);
    return err || learner->truth ? err : aw_meta_save(learner->meta, encoder, diag);
}

/* Takes `file`, which may be NULL after a failure that `err` says. */
static enum aw_err values_load(struct aw_safetensors *file, enum aw_err err, const char *path,
                               struct aw_frequency_learner **ret_learner, struct aw_diag *diag)
{
    struct aw_frequency_learner *learner = NULL;
    if (!err)
        err = aw_safetensors_check_seal(file, diag);
    if (!err) {
        const char *kind = aw_safetensors_meta(file, "kind");
        if (!kind || strcmp(kind, KIND))
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "kind",
                             "expected a file of kind \"" KIND "\", found another");
    }
    if (!err)
        err = learner_new(1, 1, false, &learner, diag);
    if (!err)
        err = aw_safetensors_copy_params(file, &learner->params, "", learner->params.value, diag);
    aw_safetensors_close(file);
    if (err)
        aw_frequency_learner_free(learner);
    else
        *ret_learner = learner;
    return err;
}

/* Hands the learner out, or releases it. */
static enum aw_err handed(enum aw_err err, struct aw_frequency_learner *learner,
                          struct aw_frequency_learner **ret_learner)
{
    if (err)
        aw_frequency_learner_free(learner);
    else
        *ret_learner = learner;
    return err;
}

enum aw_err aw_frequency_load(const char *path, struct aw_frequency_learner **ret_learner,
                              struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_frequency_learner *learner = NULL;
    char encoder[PATH_LEN];
    snprintf(encoder, sizeof encoder, "%.4000s.encoder", path);
    enum aw_err err = aw_safetensors_open(path, NULL, &file, diag);
    err = values_load(file, err, path, &learner, diag);
    if (!err)
        err = aw_meta_load(learner->meta, encoder, diag);
    return handed(err, learner, ret_learner);
}

enum aw_err aw_frequency_shipped(struct aw_frequency_learner **ret_learner, struct aw_diag *diag)
{
    static const char name[] = "the frequency model of the program";
    struct aw_safetensors *file = NULL;
    struct aw_frequency_learner *learner = NULL;
    enum aw_err err = aw_safetensors_parse(aw__frequency_values, aw__frequency_values_size, name,
                                           NULL, &file, diag);
    err = values_load(file, err, name, &learner, diag);
    if (!err)
        err = aw_meta_load_bytes(learner->meta, aw__frequency_encoder, aw__frequency_encoder_size,
                                 name, diag);
    return handed(err, learner, ret_learner);
}
