/* train.c - a learner out of a table: folds kept back, heads weighed, then all (learner.h). */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "sizing/learner_internal.h"

#define FOLDS_MAX    8u
#define TARGETS_MAX  24u /* places at which a draw is judged */
#define WORDS_MAX    60000u
#define REGRET_MAX   1.0 /* of a workload, where ways to search are compared: one must not decide */
#define SEARCH_SHOTS 5u

static const uint32_t kind_shots[AW_SIZE_KINDS] = {1, 2, 3, 5};

/* One fold: a memory and networks that have not seen its workloads. */
struct fold {
    struct aw_size_memory *memory;
    struct aw_size_net *net[AW_SIZE_NETS_MAX];
    uint32_t net_count;
    uint32_t *kept; /* workloads of the table */
    uint32_t kept_count;
    uint32_t order[AW_SIZE_CONFIGS_MAX];
};

struct training {
    struct aw_size_learner *learner;
    const double *value;
    const uint32_t *workload;
    uint32_t workload_count;
    uint32_t fold_of[AW_SIZE_WORKLOADS_MAX]; /* of a group of the table */
    uint32_t fold_count;
    struct fold fold[FOLDS_MAX];
    uint32_t list[AW_SIZE_WORKLOADS_MAX];
    uint32_t kept[FOLDS_MAX][AW_SIZE_WORKLOADS_MAX];
    struct aw__size_word *words; /* [AW_SIZE_KINDS][WORDS_MAX] */
    uint32_t word_count[AW_SIZE_KINDS];
    uint32_t group_count;
    double said[AW_SIZE_HEADS][AW_SIZE_CONFIGS_MAX];
    struct aw_rng rng;
};

static enum aw_err nets_make(const struct aw_size_memory *memory,
                             const struct aw_size_settings *settings, uint64_t stream,
                             struct aw_size_net **net, uint32_t *ret_count, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    *ret_count = 0;
    if (memory->workload_count < 3)
        return AW_OK;
    for (uint32_t n = 0; n < settings->nets && !err; n++) {
        err = aw_size_net_new(memory, settings->seed * 1000003 + stream * 101 + n,
                              settings->updates, &net[n], diag);
        *ret_count += !err;
    }
    return err;
}

/* Groups, not workloads, are dealt out: what is kept back must be new. */
static void deal(struct training *training)
{
    const struct aw_size_table *table = training->learner->table;
    uint32_t groups[AW_SIZE_WORKLOADS_MAX], count = 0;
    bool there[AW_SIZE_WORKLOADS_MAX] = {false};
    for (uint32_t i = 0; i < training->workload_count; i++)
        there[table->workload[training->workload[i]].group] = true;
    for (uint32_t g = 0; g < table->group_count; g++)
        if (there[g])
            groups[count++] = g;
    aw_rng_shuffle(&training->rng, groups, count);
    const uint32_t folds = training->learner->settings.folds;
    training->group_count = count;
    training->fold_count = count < 2 ? 0 : count < folds ? count : folds;
    for (uint32_t i = 0; i < count; i++)
        training->fold_of[groups[i]] = training->fold_count ? i % training->fold_count : 0;
}

static enum aw_err fold_make(struct training *training, uint32_t f, struct aw_diag *diag)
{
    const struct aw_size_table *table = training->learner->table;
    struct fold *fold = &training->fold[f];
    uint32_t count = 0;
    fold->kept = training->kept[f];
    for (uint32_t i = 0; i < training->workload_count; i++) {
        const uint32_t w = training->workload[i];
        if (training->fold_of[table->workload[w].group] == f)
            fold->kept[fold->kept_count++] = w;
        else
            training->list[count++] = w;
    }
    if (aw_size_memory_new(table, training->value, training->list, count, &fold->memory))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a fold");
    aw__size_order(fold->memory, fold->order);
    return nets_make(fold->memory, &training->learner->settings, f + 1, fold->net, &fold->net_count,
                     diag);
}

static uint32_t measured_shuffled(struct training *training, uint32_t workload, uint32_t *order)
{
    const uint32_t C = training->learner->table->config_count;
    uint32_t count = 0;
    for (uint32_t c = 0; c < C; c++)
        if (isfinite(training->value[(size_t)workload * C + c]))
            order[count++] = c;
    aw_rng_shuffle(&training->rng, order, count);
    return count;
}

/* What the heads say of one workload kept back, with some shots. */
static void hear(struct training *training, const struct fold *fold, uint32_t workload,
                 const uint32_t *order, uint32_t count, uint32_t kind)
{
    const struct aw_size_table *table = training->learner->table;
    const double *y = training->value + (size_t)workload * table->config_count;
    const struct aw__size_asked asked = {.memory = fold->memory,
                                         .net = fold->net,
                                         .net_count = fold->net_count,
                                         .context = table->workload[workload].context};
    struct aw_size_shot shots[AW_SIZE_SHOTS_MAX];
    double error[AW_SIZE_HEADS], sd[AW_SIZE_CONFIGS_MAX];
    const uint32_t k = kind_shots[kind];
    if (count <= k)
        return;
    for (uint32_t i = 0; i < k; i++)
        shots[i] = (struct aw_size_shot){order[i], y[order[i]]};
    const uint32_t targets = count - k < TARGETS_MAX ? count - k : TARGETS_MAX;
    aw__size_ask(&asked, shots, k, order + k, targets, training->said, sd);
    aw__size_leave_out(&asked, shots, k, error);
    for (uint32_t t = 0; t < targets && training->word_count[kind] < WORDS_MAX; t++) {
        struct aw__size_word *word =
            &training->words[(size_t)kind * WORDS_MAX + training->word_count[kind]++];
        double said[AW_SIZE_HEADS];
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            said[h] = training->said[h][t];
        aw__size_temper(said);
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++) {
            word->word[h] = (float)said[h];
            word->error[h] = (float)error[h];
        }
        word->truth = (float)y[order[k + t]];
        word->sd = (float)sd[t];
    }
}

static void weigh(struct training *training)
{
    struct aw_size_learner *learner = training->learner;
    bool there[AW_SIZE_HEADS];
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        there[h] = true;
    there[AW_SIZE_HEAD_FAMILY] = there[AW_SIZE_HEAD_PHYSICAL] = learner->memory->family;
    there[AW_SIZE_HEAD_NET] = learner->net_count > 0;
    for (uint32_t f = 0; f < training->fold_count; f++) {
        const struct fold *fold = &training->fold[f];
        there[AW_SIZE_HEAD_NET] &= fold->net_count > 0;
        for (uint32_t i = 0; i < fold->kept_count; i++)
            for (uint32_t d = 0; d < learner->settings.draws; d++) {
                uint32_t order[AW_SIZE_CONFIGS_MAX];
                const uint32_t count = measured_shuffled(training, fold->kept[i], order);
                for (uint32_t kind = 0; kind < AW_SIZE_KINDS; kind++)
                    hear(training, fold, fold->kept[i], order, count, kind);
            }
    }
    for (uint32_t kind = 0; kind < AW_SIZE_KINDS; kind++)
        aw__size_weigh(training->words + (size_t)kind * WORDS_MAX, training->word_count[kind],
                       training->group_count, kind > 0, there, &learner->mix[kind]);
}

/* --- how to search --- */

/* Regret after 3 and after 5 measurements, added, of one way to search. */
static double search_regret(struct training *training, const struct fold *fold, uint32_t workload,
                            uint32_t way)
{
    struct aw_size_learner *learner = training->learner;
    const uint32_t C = learner->table->config_count;
    const double *y = training->value + (size_t)workload * C;
    const struct aw__size_asked asked = {.memory = fold->memory,
                                         .net = fold->net,
                                         .net_count = fold->net_count,
                                         .context = learner->table->workload[workload].context};
    struct aw_size_shot shots[SEARCH_SHOTS];
    bool can[AW_SIZE_CONFIGS_MAX];
    double best = INFINITY, found = INFINITY, regret = 0;
    for (uint32_t c = 0; c < C; c++) {
        can[c] = isfinite(y[c]);
        best = can[c] ? fmin(best, y[c]) : best;
    }
    for (uint32_t n = 0; n < SEARCH_SHOTS; n++) {
        const struct aw_size_next next =
            aw__size_next(&asked, learner->mix, fold->order, way, shots, n, can, &learner->scratch);
        if (next.config == UINT32_MAX)
            break;
        shots[n] = (struct aw_size_shot){next.config, y[next.config]};
        found = fmin(found, y[next.config]);
        regret += n == 2 ? exp(found - best) - 1 : 0;
    }
    return isfinite(found) ? regret + exp(found - best) - 1 : 0;
}

/* The way to search that the workloads kept back would have had. */
static void choose_way(struct training *training)
{
    double least = INFINITY;
    training->learner->way = AW_SIZE_WAY_GAIN;
    for (uint32_t way = 0; training->fold_count > 0 && way < AW_SIZE_WAYS; way++) {
        double sum = 0;
        for (uint32_t f = 0; f < training->fold_count; f++)
            for (uint32_t i = 0; i < training->fold[f].kept_count; i++)
                sum += fmin(REGRET_MAX, search_regret(training, &training->fold[f],
                                                      training->fold[f].kept[i], way));
        if (sum < least) {
            least = sum;
            training->learner->way = way;
        }
    }
}

enum aw_err aw_size_learner_new(const struct aw_size_table *table, const double *value,
                                const uint32_t *workloads, uint32_t workload_count,
                                const struct aw_size_settings *settings,
                                struct aw_size_learner **ret_learner, struct aw_diag *diag)
{
    struct aw_size_learner *learner = aw_alloc_new(NULL, 1, sizeof *learner);
    struct training *training = aw_alloc_new(NULL, 1, sizeof *training);
    enum aw_err err = learner && training ? AW_OK : AW_ERR_NOMEM;
    AW_ASSERT(settings->nets <= AW_SIZE_NETS_MAX && settings->folds <= FOLDS_MAX);
    if (!err) {
        learner->table = table;
        learner->settings = *settings;
        *training = (struct training){.learner = learner,
                                      .value = value,
                                      .workload = workloads,
                                      .workload_count = workload_count};
        training->words = aw_alloc_new(NULL, AW_SIZE_KINDS * WORDS_MAX, sizeof *training->words);
        err = training->words
                  ? aw_size_memory_new(table, value, workloads, workload_count, &learner->memory)
                  : AW_ERR_NOMEM;
    }
    if (err) {
        aw_fail(diag, err, "no memory for a learner");
        goto out;
    }
    aw_rng_init(&training->rng, settings->seed, 3);
    aw__size_order(learner->memory, learner->order);
    err = nets_make(learner->memory, settings, 0, learner->net, &learner->net_count, diag);
    deal(training);
    for (uint32_t f = 0; f < training->fold_count && !err; f++)
        err = fold_make(training, f, diag);
    if (err)
        goto out;
    weigh(training);
    choose_way(training);
    *ret_learner = learner;
    learner = NULL;
out:
    for (uint32_t f = 0; training && f < training->fold_count; f++) {
        for (uint32_t n = 0; n < training->fold[f].net_count; n++)
            aw_size_net_free(training->fold[f].net[n]);
        aw_size_memory_free(training->fold[f].memory);
    }
    if (training)
        aw_alloc_free(NULL, training->words);
    aw_alloc_free(NULL, training);
    aw_size_learner_free(learner);
    return err;
}

void aw_size_learner_free(struct aw_size_learner *learner)
{
    if (!learner)
        return;
    for (uint32_t n = 0; n < learner->net_count; n++)
        aw_size_net_free(learner->net[n]);
    aw_size_memory_free(learner->memory);
    aw_alloc_free(NULL, learner);
}
