/* evaluate.c - see evaluate.h. */
#include "sizing/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel_tasks.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/threads.h"
#include "sizing/peers.h"

#define SHOTS        3u
#define SEARCH       5u
#define HALVES_FROM  8u /* groups from which a half is enough to learn from */
#define SPLITS_MAX   1024u
#define RULES_MAX    8u /* of a task's own baselines that are asked */
#define RANDOM_LISTS 20u

/* clang-format off */
/* from WIDE on: parts of ours, and ablations, which 'compare' shows */
#define METHODS(X)                                     \
    X(AWARE, "aware")                                  \
    X(FLAT, "flat")                                    \
    X(ADDITIVE, "additive")                            \
    X(GP, "gp")                                        \
    X(NEAREST, "nearest")                              \
    X(FAMILY, "family")                                \
    X(ORDER, "in order")                               \
    X(RANDOM, "random")                                \
    X(WIDE, "head gp-wide")                            \
    X(AMDAHL, "head amdahl")                           \
    X(PHYSICAL, "head physical")                       \
    X(NET, "head network")                             \
    X(TRANSFER, "peer transfer learning")              \
    X(REPTILE, "peer Reptile")                         \
    X(MAML, "peer MAML, first order")                  \
    X(ZERO, "aware, embedding zeroed")                 \
    X(SHUFFLED, "aware, embedding shuffled")           \
    X(NET_ZERO, "network, embedding zeroed")           \
    X(NET_SHUFFLED, "network, embedding shuffled")
/* clang-format on */
enum method {
#define X(id, name) M_##id,
    METHODS(X)
#undef X
        METHOD_COUNT
};
static const char *const method_names[] = {
#define X(id, name) name,
    METHODS(X)
#undef X
};

/* Figures of one method: errors, whether intervals held, regrets of time and of cost. */
struct tally {
    double *ape; /* [count] */
    size_t count, room;
    double covered, intervals;
    double regret[2][2]; /* [time, cost][after 3, after 5]: sums */
    double searches[2];
};

struct split {
    uint64_t seed;
    uint32_t learned[AW_SIZE_WORKLOADS_MAX], met[AW_SIZE_WORKLOADS_MAX];
    uint32_t learned_count, met_count;
    struct tally tally[SHOTS][METHOD_COUNT + RULES_MAX]; /* a task's own baselines come last */
};

struct study {
    const struct aw_size_table *table;
    const struct aw_size_protocol *protocol;
    const struct aw_task_sink *sink;
    struct split **split; /* [split_count] */
    uint32_t split_count;
    double from, to; /* of the whole, for progress */
};

static bool push(struct tally *tally, double ape)
{
    if (tally->count == tally->room) {
        const size_t room = tally->room ? 2 * tally->room : 1024;
        double *more = realloc(tally->ape, room * sizeof *more);
        if (!more)
            return false;
        tally->ape = more;
        tally->room = room;
    }
    tally->ape[tally->count++] = ape;
    return true;
}

/* --- one split --- */

static void judge(struct tally *tally, const double *said, const double *y, const uint32_t *order,
                  uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i < count; i++)
        if (!push(tally, fabs(exp(fmin(said[order[i]] - y[order[i]], 50)) - 1)))
            return;
}

/* What the task's own baselines say, from the features that the task has, not ours. */
static void rules_ask(const struct study *study, struct split *split, const double *y,
                      const uint32_t *order, uint32_t count, uint32_t shot_count)
{
    const struct aw_task *task = study->protocol->task;
    float feature[SHOTS][AW_TASK_DIM_MAX], target[AW_TASK_DIM_MAX], packed[SHOTS * AW_TASK_DIM_MAX];
    double value[SHOTS], said[AW_SIZE_CONFIGS_MAX];
    char name[AW_TASK_NAME_MAX];
    for (uint32_t i = 0; i < shot_count; i++) {
        task->configuration(order[i], feature[i], name);
        memcpy(packed + (size_t)i * task->feature_dim, feature[i],
               task->feature_dim * sizeof *packed);
        value[i] = exp(y[order[i]]);
    }
    for (uint32_t b = 0; b < task->baseline_count && b < RULES_MAX; b++) {
        if (!task->baseline[b].predict)
            continue;
        for (uint32_t i = shot_count; i < count; i++) {
            task->configuration(order[i], target, name);
            said[order[i]] =
                log(fmax(1e-300, task->baseline[b].predict(packed, value, shot_count, target)));
        }
        judge(&split->tally[shot_count - 1][METHOD_COUNT + b], said, y, order, shot_count, count);
    }
}

static void predict_all(const struct study *study, struct split *split,
                        struct aw_size_learner *learner, struct aw_size_peer *const *peer,
                        uint32_t workload, const uint32_t *order, uint32_t count,
                        uint32_t shot_count, struct aw_size_prediction *said)
{
    static const enum method of_head[AW_SIZE_HEADS] = {M_FLAT,    M_ADDITIVE, M_GP,       M_WIDE,
                                                       M_NEAREST, M_FAMILY,   M_PHYSICAL, M_NET};
    const double *y = aw_size_times(study->table, workload);
    const float *context = study->table->workload[workload].context;
    struct tally *tally = split->tally[shot_count - 1];
    struct aw_size_shot shots[SHOTS];
    for (uint32_t i = 0; i < shot_count; i++)
        shots[i] = (struct aw_size_shot){order[i], y[order[i]]};
    aw_size_predict(learner, context, AW_SIZE_TOLD_RIGHT, shots, shot_count, said);
    judge(&tally[M_AWARE], said->value, y, order, shot_count, count);
    for (uint32_t i = shot_count; i < count; i++) {
        const uint32_t c = order[i];
        tally[M_AWARE].covered += said->low[c] <= y[c] && y[c] <= said->high[c];
        tally[M_AWARE].intervals++;
    }
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++) {
        enum method method = of_head[h];
        if (method == M_FAMILY && !study->table->memory)
            method = M_AMDAHL;             /* the same two numbers, over nodes and cores */
        const bool own = method >= M_WIDE; /* a part of ours: shown where parts are compared */
        if (own && !study->protocol->ablate)
            continue;
        if ((h != AW_SIZE_HEAD_PHYSICAL && h != AW_SIZE_HEAD_FAMILY) || learner->memory->family)
            if (h != AW_SIZE_HEAD_NET || learner->net_count > 0)
                judge(&tally[method], said->head[h], y, order, shot_count, count);
    }
    if (study->protocol->task)
        rules_ask(study, split, y, order, count, shot_count);
    for (uint32_t p = 0; p < AW_SIZE_PEERS; p++)
        if (peer[p]) {
            aw_size_peer_predict(peer[p], shots, shot_count, said->head[AW_SIZE_HEAD_NET]);
            judge(&tally[M_TRANSFER + p], said->head[AW_SIZE_HEAD_NET], y, order, shot_count,
                  count);
        }
    if (!study->protocol->ablate || learner->net_count == 0)
        return;
    aw_size_predict(learner, context, AW_SIZE_TOLD_ZERO, shots, shot_count, said);
    judge(&tally[M_ZERO], said->value, y, order, shot_count, count);
    judge(&tally[M_NET_ZERO], said->head[AW_SIZE_HEAD_NET], y, order, shot_count, count);
    aw_size_predict(learner, context, AW_SIZE_TOLD_SHUFFLED, shots, shot_count, said);
    judge(&tally[M_SHUFFLED], said->value, y, order, shot_count, count);
    judge(&tally[M_NET_SHUFFLED], said->head[AW_SIZE_HEAD_NET], y, order, shot_count, count);
}

static void regret_add(struct tally *tally, uint32_t what, double three, double five)
{
    tally->regret[what][0] += three;
    tally->regret[what][1] += five;
    tally->searches[what]++;
}

/* A list tried in order, of what can be measured. */
static void list_regret(const double *y, uint32_t config_count, const uint32_t *list, double best,
                        struct tally *tally, uint32_t what)
{
    double found = INFINITY, three = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < config_count && n < SEARCH; i++)
        if (isfinite(y[list[i]])) {
            found = fmin(found, y[list[i]]);
            three = ++n <= 3 ? exp(found - best) - 1 : three;
        }
    regret_add(tally, what, three, exp(found - best) - 1);
}

static void search_all(const struct study *study, struct split *split,
                       struct aw_size_learner *learner, const double *values, uint32_t what,
                       uint32_t workload, struct aw_rng *rng)
{
    const uint32_t C = study->table->config_count;
    const double *y = values + (size_t)workload * C;
    struct tally *tally = split->tally[0];
    struct aw_size_shot shots[SEARCH];
    bool can[AW_SIZE_CONFIGS_MAX];
    uint32_t list[AW_SIZE_CONFIGS_MAX];
    double best = INFINITY, found = INFINITY, three = 0;
    for (uint32_t c = 0; c < C; c++) {
        list[c] = c;
        can[c] = isfinite(y[c]);
        best = can[c] ? fmin(best, y[c]) : best;
    }
    if (!isfinite(best))
        return;
    for (uint32_t n = 0; n < SEARCH; n++) {
        const struct aw_size_next next =
            aw_size_next(learner, study->table->workload[workload].context, shots, n, can);
        if (next.config == UINT32_MAX)
            break;
        shots[n] = (struct aw_size_shot){next.config, y[next.config]};
        found = fmin(found, y[next.config]);
        three = n < 3 ? exp(found - best) - 1 : three;
    }
    regret_add(&tally[M_AWARE], what, three, exp(found - best) - 1);
    list_regret(y, C, learner->order, best, &tally[M_ORDER], what);
    for (uint32_t r = 0; r < RANDOM_LISTS; r++) {
        aw_rng_shuffle(rng, list, C);
        list_regret(y, C, list, best, &tally[M_RANDOM], what);
    }
}

static enum aw_err split_run(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct study *study = ctx;
    const struct aw_size_table *table = study->table;
    struct split *split = study->split[turn];
    struct aw_size_settings settings = study->protocol->settings;
    struct aw_size_learner *learner = NULL;
    struct aw_size_prediction *said = aw_alloc_new(NULL, 1, sizeof *said);
    struct aw_size_peer *peer[AW_SIZE_PEERS] = {NULL};
    struct aw_rng rng;
    if (!said)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a prediction");
    settings.seed = split->seed;
    aw_rng_init(&rng, split->seed, 100 + turn);
    enum aw_err err = aw_size_learner_new(table, table->time, split->learned, split->learned_count,
                                          &settings, &learner, diag);
    for (uint32_t p = 0; p < AW_SIZE_PEERS && !err && study->protocol->ablate; p++)
        if (learner->net_count > 0)
            err =
                aw_size_peer_new(learner->memory, p, split->seed, settings.updates, &peer[p], diag);
    for (uint32_t i = 0; i < split->met_count && !err; i++) {
        const uint32_t w = split->met[i];
        const double *y = aw_size_times(table, w);
        for (uint32_t d = 0; d < study->protocol->draws; d++) {
            uint32_t order[AW_SIZE_CONFIGS_MAX], count = 0;
            for (uint32_t c = 0; c < table->config_count; c++)
                if (isfinite(y[c]))
                    order[count++] = c;
            aw_rng_shuffle(&rng, order, count);
            for (uint32_t k = 1; k <= SHOTS && k < count; k++)
                predict_all(study, split, learner, peer, w, order, count, k, said);
        }
        search_all(study, split, learner, table->time, 0, w, &rng);
    }
    for (uint32_t p = 0; p < AW_SIZE_PEERS; p++)
        aw_size_peer_free(peer[p]);
    aw_size_learner_free(learner);
    learner = NULL;
    settings.nets = settings.nets ? 1 : 0; /* a search needs less of a network than a prediction */
    if (!err && table->costs)
        err = aw_size_learner_new(table, table->cost, split->learned, split->learned_count,
                                  &settings, &learner, diag);
    for (uint32_t i = 0; i < split->met_count && !err && table->costs; i++)
        search_all(study, split, learner, table->cost, 1, split->met[i], &rng);
    aw_size_learner_free(learner);
    aw_alloc_free(NULL, said);
    return err;
}

/* --- splits and rows --- */

static bool split_add(struct study *study, const bool *met, uint64_t seed)
{
    struct split *split =
        study->split_count < SPLITS_MAX ? aw_alloc_new(NULL, 1, sizeof *split) : NULL;
    if (!split)
        return false;
    split->seed = seed;
    for (uint32_t w = 0; w < study->table->workload_count; w++)
        if (met[study->table->workload[w].group])
            split->met[split->met_count++] = w;
        else
            split->learned[split->learned_count++] = w;
    study->split[study->split_count++] = split;
    return true;
}

/* Groups that have a workload in this table, shuffled. */
static uint32_t groups_of(const struct aw_size_table *table, struct aw_rng *rng, uint32_t *groups)
{
    bool there[AW_SIZE_WORKLOADS_MAX] = {false};
    uint32_t count = 0;
    for (uint32_t w = 0; w < table->workload_count; w++)
        there[table->workload[w].group] = true;
    for (uint32_t g = 0; g < table->group_count; g++)
        if (there[g])
            groups[count++] = g;
    aw_rng_shuffle(rng, groups, count);
    return count;
}

static bool splits_make(struct study *study)
{
    uint32_t groups[AW_SIZE_WORKLOADS_MAX];
    bool met[AW_SIZE_WORKLOADS_MAX];
    for (uint32_t s = 0; study->protocol->learned && s < study->protocol->seeds; s++) {
        for (uint32_t w = 0; w < study->table->workload_count; w++)
            met[study->table->workload[w].group] = w >= study->protocol->learned;
        if (!split_add(study, met, study->protocol->seed + s))
            return false;
    }
    if (study->protocol->learned)
        return true;
    for (uint32_t s = 0; s < study->protocol->seeds; s++) {
        const uint64_t seed = study->protocol->seed + s;
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 11);
        const uint32_t count = groups_of(study->table, &rng, groups);
        /* fewer than HALVES_FROM: one left out in turn; one alone is met with nothing learned */
        const uint32_t parts = count < HALVES_FROM ? count : 2;
        for (uint32_t p = 0; p < parts; p++) {
            memset(met, 0, sizeof met);
            for (uint32_t g = 0; g < count; g++)
                met[groups[g]] = g % parts == p;
            if (!split_add(study, met, seed))
                return false;
        }
    }
    return true;
}

static double joined(const struct study *study, uint32_t k, uint32_t m, struct tally *all)
{
    double sum = 0;
    memset(all, 0, sizeof *all);
    for (uint32_t s = 0; s < study->split_count; s++) {
        const struct tally *tally = &study->split[s]->tally[k][m];
        for (size_t i = 0; i < tally->count; i++) {
            sum += tally->ape[i];
            if (!push(all, tally->ape[i]))
                return (double)NAN;
        }
        all->covered += tally->covered;
        all->intervals += tally->intervals;
        for (uint32_t what = 0; what < 2; what++) {
            all->searches[what] += tally->searches[what];
            for (uint32_t n = 0; n < 2; n++)
                all->regret[what][n] += tally->regret[what][n];
        }
    }
    if (all->count > 0)
        aw_stats_sort(all->ape, all->count);
    return all->count ? sum / (double)all->count : (double)NAN;
}

static void rows_put(const struct study *study)
{
    const struct aw_task_sink *sink = study->sink;
    for (uint32_t k = 0; k < SHOTS; k++)
        for (uint32_t m = 0; m < METHOD_COUNT + RULES_MAX; m++) {
            const struct aw_task *task = study->protocol->task;
            const char *name = m < METHOD_COUNT ? method_names[m]
                               : task && m - METHOD_COUNT < task->baseline_count
                                   ? task->baseline[m - METHOD_COUNT].name
                                   : "";
            struct tally all, search;
            const double mape = joined(study, k, m, &all);
            joined(study, 0, m, &search); /* searches do not depend on the shots */
            if (all.count > 0 || search.searches[0] > 0) {
                sink->text(sink->self, "set", study->table->set);
                sink->figure(sink->self, "shots", k + 1);
                sink->text(sink->self, "method", name);
                sink->figure(sink->self, "mape", mape);
                sink->figure(sink->self, "median_ape",
                             all.count ? aw_stats_median(all.ape, all.count) : (double)NAN);
                sink->figure(sink->self, "regret3", search.regret[0][0] / search.searches[0]);
                sink->figure(sink->self, "regret5", search.regret[0][1] / search.searches[0]);
                sink->figure(sink->self, "coverage90", all.covered / all.intervals);
                sink->figure(sink->self, "cost_regret3", search.regret[1][0] / search.searches[1]);
                sink->figure(sink->self, "cost_regret5", search.regret[1][1] / search.searches[1]);
                sink->row(sink->self);
            }
            free(all.ape);
            free(search.ape);
        }
}

static bool watch(void *ctx, uint32_t done, uint32_t total)
{
    const struct study *study = ctx;
    char what[160];
    snprintf(what, sizeof what, "%s: %u of %u splits", study->table->set, done, total);
    return study->sink->progress(study->sink->self,
                                 study->from + (study->to - study->from) * done / total, what);
}

static enum aw_err set_evaluate(struct study *study, struct aw_diag *diag)
{
    struct aw_rng rng;
    uint32_t groups[AW_SIZE_WORKLOADS_MAX];
    aw_rng_init(&rng, 0, 0);
    if (groups_of(study->table, &rng, groups) < 2) {
        char note[AW_SIZE_NAME_MAX + 160];
        snprintf(note, sizeof note,
                 "%s: one group of workloads alone: nothing is learned from when it is met, so "
                 "\"in order\" is the file's own order",
                 study->table->set);
        study->sink->note(study->sink->self, note);
    }
    if (!splits_make(study))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for splits");
    const uint32_t threads =
        study->protocol->threads ? study->protocol->threads : aw_threads_cpu_count();
    const enum aw_err err =
        aw_parallel_tasks(threads, study->split_count, split_run, study, watch, study, NULL, diag);
    if (!err)
        rows_put(study);
    return err;
}

enum aw_err aw_size_evaluate(const struct aw_size_tables *tables,
                             const struct aw_size_protocol *protocol,
                             const struct aw_task_sink *sink, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t t = 0; t < tables->count && !err; t++) {
        struct study study = {
            .table = &tables->table[t],
            .protocol = protocol,
            .sink = sink,
            .from = (double)t / tables->count,
            .to = (double)(t + 1) / tables->count,
            .split = aw_alloc_new(NULL, SPLITS_MAX, sizeof *study.split),
        };
        err = study.split ? set_evaluate(&study, diag) : AW_ERR_NOMEM;
        for (uint32_t s = 0; study.split && s < study.split_count; s++) {
            for (uint32_t k = 0; k < SHOTS; k++)
                for (uint32_t m = 0; m < METHOD_COUNT + RULES_MAX; m++)
                    free(study.split[s]->tally[k][m].ape);
            aw_alloc_free(NULL, study.split[s]);
        }
        aw_alloc_free(NULL, study.split);
    }
    return err;
}
