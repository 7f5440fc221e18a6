/* length.c - the network, the lengths of each model, and the memory of prompts. */
#include "serving/length.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/adam.h"
#include "nn/mlp.h"

#define EMBED      24u /* numbers that hashed words become */
#define MODEL_BITS 12u /* of the model's name, as +-1 */
#define HIDDEN     24u
#define INPUT      (EMBED + AW_PROMPT_HAND + MODEL_BITS)
#define BATCH_MAX  64u
#define BINS       96u /* of lengths: 8 for each doubling, to 2^12 tokens and beyond */
#define BINS_TWICE 8.0
#define EMBED_RATE 3.0f   /* of hashed words, over that of the rest */
#define SEEN_FULL  200.0f /* different prompts from which on a word is trusted fully */
#define RATE_LEAST 0.1    /* of the rate that it begins with */
#define RATE_STEPS 300.0  /* after which it is half of that */
#define CACHE      4096u  /* prompts remembered */
#define CACHE_WAYS 4u
/* A remembered length is believed where its answers differ by less than this, of the logarithm. */
#define CACHE_SPREAD_MAX 0.35
#define SPREAD_ONE       0.3 /* of a prompt with one answer: what sampling makes of it */

const struct aw_length_settings aw_length_defaults = {
    .seed = 1, .rate = 1e-3, .decay = 0.1, .replay = 8192, .batch = 8, .cache = true};

/* Of one model, or of one class of predictions. */
struct lengths {
    uint32_t count;
    uint32_t bin[BINS];
};

struct model {
    uint32_t name; /* of aw_prompt.model */
    struct lengths all;
    struct lengths class[AW_LENGTH_CLASSES];
};

struct memory {
    uint64_t hash;
    uint32_t count;
    float mean, m2; /* of the logarithm of the length */
    uint32_t used;  /* when it was seen last, for its set */
};

struct lesson {
    struct aw_prompt prompt;
    uint32_t tokens;
};

struct aw_length {
    struct aw_length_settings settings;
    struct aw_rng rng;
    uint64_t learned;
    uint32_t model_count, clock;
    struct model model[AW_LENGTH_MODELS_MAX];
    struct memory memory[CACHE];
    struct aw_params params;
    struct aw_mlp mlp;
    struct aw_mlp_cache cache;
    float *embed; /* [BUCKETS][EMBED] */
    struct {
        uint32_t last, prompts; /* the prompt that had it last, and how many had it */
    } seen[AW_PROMPT_BUCKETS];
    float *energy;         /* [BUCKETS]: Adagrad's sum of squares, one for a row */
    struct lesson *lesson; /* [replay] */
    const struct aw_alloc *alloc;
};

/* --- lengths of a model ----------------------------------------------------------------------- */

static uint32_t bin_of(uint32_t tokens)
{
    const double at = BINS_TWICE * log2(tokens < 1 ? 1 : tokens);
    return at >= BINS - 1 ? BINS - 1 : (uint32_t)at;
}

static double bin_tokens(double bin)
{
    return exp2(bin / BINS_TWICE);
}

/* The share below the middle of the length's bin. */
static double rank_of(const struct lengths *lengths, uint32_t tokens)
{
    const uint32_t bin = bin_of(tokens);
    uint64_t below = 0;
    for (uint32_t i = 0; i < bin; i++)
        below += lengths->bin[i];
    return lengths->count ? ((double)below + 0.5 * lengths->bin[bin]) / lengths->count : 0.5;
}

static double quantile_of(const struct lengths *lengths, double q)
{
    const double wanted = q * lengths->count;
    double below = 0;
    for (uint32_t i = 0; i < BINS; i++) {
        const double here = lengths->bin[i];
        if (here > 0 && below + here >= wanted)
            return bin_tokens(i + (wanted - below) / here);
        below += here;
    }
    return bin_tokens(BINS);
}

static void lengths_add(struct lengths *lengths, uint32_t tokens)
{
    if (lengths->count >= 1u << 20) { /* older ones fade */
        lengths->count = 0;
        for (uint32_t i = 0; i < BINS; i++)
            lengths->count += lengths->bin[i] /= 2;
    }
    lengths->bin[bin_of(tokens)]++;
    lengths->count++;
}

static struct model *model_of(struct aw_length *length, uint32_t name, bool make)
{
    for (uint32_t i = 0; i < length->model_count; i++)
        if (length->model[i].name == name)
            return &length->model[i];
    if (!make)
        return NULL;
    if (length->model_count == AW_LENGTH_MODELS_MAX)
        return &length->model[AW_LENGTH_MODELS_MAX - 1];
    length->model[length->model_count].name = name;
    return &length->model[length->model_count++];
}

static uint32_t class_of(double rank)
{
    static const double cut[AW_LENGTH_CLASSES - 1] = {.25, .5, .75, .99};
    uint32_t class = 0;
    while (class < AW_LENGTH_CLASSES - 1 && rank >= cut[class])
        class ++;
    return class;
}

/* --- prompts seen before ---------------------------------------------------------------------- */

static struct memory *memory_of(struct aw_length *length, uint64_t hash, bool make)
{
    struct memory *set = &length->memory[hash % (CACHE / CACHE_WAYS) * CACHE_WAYS], *oldest = set;
    for (uint32_t i = 0; i < CACHE_WAYS; i++) {
        if (set[i].count && set[i].hash == hash) {
            set[i].used = ++length->clock;
            return &set[i];
        }
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    if (!make)
        return NULL;
    *oldest = (struct memory){.hash = hash, .used = ++length->clock};
    return oldest;
}

static double memory_spread(const struct memory *memory)
{
    return memory->count > 1 ? sqrt(fmax((double)memory->m2, 0) / (memory->count - 1)) : SPREAD_ONE;
}

/* --- the network ------------------------------------------------------------------------------ */

static void input_make(const struct aw_length *length, const struct aw_prompt *prompt, float *x)
{
    memset(x, 0, EMBED * sizeof *x);
    for (uint32_t t = 0; t < prompt->terms; t++) {
        const float *row = length->embed + (size_t)prompt->bucket[t] * EMBED;
        for (uint32_t k = 0; k < EMBED; k++)
            x[k] += prompt->value[t] * row[k];
    }
    memcpy(x + EMBED, prompt->hand, sizeof prompt->hand);
    for (uint32_t k = 0; k < MODEL_BITS; k++)
        x[EMBED + AW_PROMPT_HAND + k] = prompt->model >> k & 1 ? 0.1f : -0.1f;
}

void aw_length_predict(struct aw_length *length, const struct aw_prompt *prompt,
                       struct aw_length_guess *ret)
{
    float x[INPUT], y = 0.5f;
    const struct model *model = model_of(length, prompt->model, false);
    *ret = (struct aw_length_guess){.rank = 0.5, .class = 1, .known = length->learned > 0};
    if (ret->known) {
        input_make(length, prompt, x);
        aw_mlp_infer(&length->mlp, length->params.value, x, &y);
    }
    ret->rank = isfinite(y) ? fmin(fmax(y, 0), 1) : 0.5;
    const struct memory *memory =
        length->settings.cache ? memory_of(length, prompt->hash, false) : NULL;
    if (memory && model && memory_spread(memory) < CACHE_SPREAD_MAX) {
        ret->cached = true;
        ret->rank = rank_of(&model->all, (uint32_t)exp(memory->mean));
    }
    ret->class = class_of(ret->rank);
    ret->tokens = model && model->all.count ? quantile_of(&model->all, ret->rank) : 128;
    const struct lengths *seen = model ? &model->class[ret->class] : NULL;
    if (ret->cached)
        ret->tokens_p90 = exp(memory->mean + 1.3 * memory_spread(memory));
    else if (seen && seen->count >= 20)
        ret->tokens_p90 = quantile_of(seen, 0.9);
    else
        ret->tokens_p90 = model && model->all.count ? quantile_of(&model->all, 0.95) : 512;
    if (prompt->tokens_max) {
        ret->tokens = fmin(ret->tokens, prompt->tokens_max);
        ret->tokens_p90 = fmin(ret->tokens_p90, prompt->tokens_max);
    }
    ret->tokens_p90 = fmax(ret->tokens_p90, ret->tokens);
}

/* A word says something when many different prompts have had it: of one that two prompts had, all
 * that can be learned is these two prompts. */
static float trust(const struct aw_length *length, uint32_t bucket)
{
    const float seen = (float)length->seen[bucket].prompts / SEEN_FULL;
    return seen < 1 ? EMBED_RATE * seen * seen : EMBED_RATE;
}

/* One step on a batch of lessons: squared error of ranks. */
static void step(struct aw_length *length, const struct lesson *const *lesson, uint32_t B)
{
    static const float energy_first = 1e-3f;
    float x[BATCH_MAX * INPUT] = {0}, dy[BATCH_MAX], dx[BATCH_MAX * INPUT];
    for (uint32_t b = 0; b < B; b++)
        input_make(length, &lesson[b]->prompt, x + b * INPUT);
    const float *y = aw_mlp_forward(&length->mlp, length->params.value, x, B, &length->cache);
    for (uint32_t b = 0; b < B; b++) {
        const struct model *model = model_of(length, lesson[b]->prompt.model, false);
        dy[b] = 2 * (y[b] - (float)rank_of(&model->all, lesson[b]->tokens)) / (float)B;
    }
    aw_params_zero_grad(&length->params);
    aw_mlp_backward(&length->mlp, length->params.value, x, B, &length->cache, dy,
                    length->params.grad, dx);
    if (!aw_params_finite(length->params.grad, length->params.count))
        return;
    /* fast at first; then slowly enough that a few hundred prompts are not learned by heart */
    const double rate = length->settings.rate *
                        fmax(RATE_LEAST, RATE_STEPS / (RATE_STEPS + (double)length->learned));
    struct aw_adam adam = aw_adam_default(rate);
    adam.weight_decay = length->settings.decay;
    adam.decoupled = true;
    aw_adam_step(&adam, &length->params);
    for (uint32_t b = 0; b < B; b++) {
        const float *d = dx + b * INPUT;
        float square = 0;
        for (uint32_t k = 0; k < EMBED; k++)
            square += d[k] * d[k];
        const struct aw_prompt *prompt = &lesson[b]->prompt;
        for (uint32_t t = 0; t < prompt->terms; t++) {
            float *row = length->embed + (size_t)prompt->bucket[t] * EMBED;
            float *energy = &length->energy[prompt->bucket[t]];
            *energy += prompt->value[t] * prompt->value[t] * square;
            const float pace =
                trust(length, prompt->bucket[t]) * (float)rate / sqrtf(energy_first + *energy);
            for (uint32_t k = 0; k < EMBED; k++)
                row[k] -= pace * prompt->value[t] * d[k];
        }
    }
}

void aw_length_learn(struct aw_length *length, const struct aw_prompt *prompt, uint32_t tokens)
{
    tokens = tokens < AW_LENGTH_TOKENS_MAX ? tokens : AW_LENGTH_TOKENS_MAX;
    struct model *model = model_of(length, prompt->model, true);
    struct aw_length_guess guess;
    aw_length_predict(length, prompt, &guess);
    lengths_add(&model->all, tokens);
    lengths_add(&model->class[guess.class], tokens);
    if (length->settings.cache) {
        struct memory *memory = memory_of(length, prompt->hash, true);
        const double x = log(tokens < 1 ? 1 : tokens), before = x - (double)memory->mean;
        memory->count++;
        memory->mean += (float)(before / memory->count);
        memory->m2 += (float)(before * (x - (double)memory->mean));
    }
    struct lesson *last = &length->lesson[length->learned++ % length->settings.replay];
    last->prompt = *prompt;
    last->prompt.model = model->name;
    last->tokens = tokens;
    for (uint32_t t = 0; t < prompt->terms; t++) {
        const uint32_t bucket = prompt->bucket[t];
        /* the text's own: the same prompt to another model is no news */
        length->seen[bucket].prompts += length->seen[bucket].last != prompt->text;
        length->seen[bucket].last = prompt->text;
    }
    const uint32_t kept = length->learned < length->settings.replay ? (uint32_t)length->learned
                                                                    : length->settings.replay;
    const struct lesson *batch[BATCH_MAX] = {last};
    for (uint32_t b = 1; b < length->settings.batch; b++)
        batch[b] = &length->lesson[aw_rng_below(&length->rng, kept)];
    step(length, batch, length->settings.batch);
}

uint64_t aw_length_learned(const struct aw_length *length)
{
    return length->learned;
}

/* --- life ------------------------------------------------------------------------------------- */

enum aw_err aw_length_new(const struct aw_length_settings *settings, const struct aw_alloc *alloc,
                          struct aw_length **ret)
{
    static const uint32_t widths[] = {INPUT, HIDDEN, 1};
    AW_ASSERT(settings->batch >= 1 && settings->batch <= BATCH_MAX && settings->replay >= 1);
    struct aw_carve carve = {0};
    struct aw_length *length = NULL;
    float *embed = NULL, *energy = NULL;
    struct lesson *lesson = NULL;
    for (int pass = 0; pass < 2; pass++) {
        carve.used = 0;
        length = aw_carve_take(&carve, 1, sizeof *length);
        embed = aw_carve_take(&carve, (size_t)AW_PROMPT_BUCKETS * EMBED, sizeof *embed);
        energy = aw_carve_take(&carve, AW_PROMPT_BUCKETS, sizeof *energy);
        lesson = aw_carve_take(&carve, settings->replay, sizeof *lesson);
        if (pass == 0 && !(carve.base = aw_alloc_new(alloc, 1, carve.used)))
            return AW_ERR_NOMEM;
    }
    *length = (struct aw_length){
        .settings = *settings, .embed = embed, .energy = energy, .lesson = lesson, .alloc = alloc};
    aw_rng_init(&length->rng, settings->seed, 0x1e46);
    aw_mlp_declare(&length->mlp, &length->params, "length", widths, 3, AW_ACT_TANH, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&length->params, alloc);
    err = err ? err : aw_mlp_cache_init(&length->cache, &length->mlp, settings->batch, alloc);
    if (err) {
        aw_length_free(length);
        return err;
    }
    aw_mlp_init_fan_in(&length->mlp, length->params.value, 0.01f, &length->rng);
    length->params.value[length->mlp.layer[1].bias] = 0.5f;
    /* small: at first hand features speak alone */
    aw_rng_fill_normal(&length->rng, embed, (size_t)AW_PROMPT_BUCKETS * EMBED);
    for (size_t i = 0; i < (size_t)AW_PROMPT_BUCKETS * EMBED; i++)
        embed[i] *= 0.02f;
    *ret = length;
    return AW_OK;
}

void aw_length_free(struct aw_length *length)
{
    if (!length)
        return;
    aw_mlp_cache_deinit(&length->cache);
    aw_params_deinit(&length->params);
    aw_alloc_free(length->alloc, length);
}
