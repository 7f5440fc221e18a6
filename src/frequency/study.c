/* study.c - see study.h. */
#include "frequency/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/stats.h"

#define METHODS_MAX 16u
#define RESAMPLES   1000u
#define PAIR_BASE   500000u /* seeds of pairs that nothing was chosen on */

struct result {
    double reward, watts, missed, throughput, instructions;
};

enum who { ORACLE, STATIC_BEST, GOVERNOR, LEARNED, ZEROED, SHUFFLED, TRUE_PARAMETERS };

struct seat {
    enum who who;
    const char *name;
    const struct aw_governor *governor;
};

struct player {
    struct aw_frequency_learner *learner, *truth;
    float embedding[2][AW_FREQUENCY_EMBEDDING]; /* of this pair, and of the one before it */
};

static void play(const struct seat *seat, struct player *player,
                 const struct aw_frequency_pair *pair, uint64_t seed, struct result *ret)
{
    struct aw_machine machine;
    struct aw_governor_state state;
    struct aw_frequency_driver driver = {0};
    struct aw_second second = {0};
    float obs[AW_FREQUENCY_OBS];
    double unused;
    uint32_t fixed = 0;
    struct result sum = {0};
    aw_machine_reset(&machine, pair, AW_REWARD_ENERGY, seed, obs);
    aw_governor_reset(&state, &pair->processor);
    if (seat->who == STATIC_BEST)
        fixed = aw_frequency_static_best(pair, AW_REWARD_ENERGY, seed, &unused);
    if (seat->who >= LEARNED) {
        const enum aw_frequency_mode mode = seat->who == LEARNED    ? AW_FREQUENCY_EMBEDDED
                                            : seat->who == ZEROED   ? AW_FREQUENCY_ZEROED
                                            : seat->who == SHUFFLED ? AW_FREQUENCY_SHUFFLED
                                                                    : AW_FREQUENCY_TRUE;
        struct aw_frequency_learner *learner =
            seat->who == TRUE_PARAMETERS ? player->truth : player->learner;
        if (aw_frequency_begin(&driver, learner, &pair->processor, mode, "met"))
            return;
        if (seat->who == SHUFFLED)
            memcpy(driver.embedding, player->embedding[1], sizeof driver.embedding);
        if (seat->who == TRUE_PARAMETERS)
            aw_frequency_truth(pair, driver.embedding);
    }
    for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
        uint32_t level = fixed;
        if (seat->who == ORACLE)
            level = aw_frequency_oracle(&machine);
        else if (seat->who == GOVERNOR)
            level = seat->governor->next(&state, obs);
        else if (seat->who >= LEARNED)
            level = aw_frequency_decide(&driver, obs, second.reward);
        state.level = level;
        state.second++;
        aw_machine_step(&machine, level, obs, &second);
        sum.reward += second.reward / AW_MACHINE_SECONDS;
        sum.watts += second.watts / AW_MACHINE_SECONDS;
        sum.missed +=
            (second.requests > 0 ? second.missed / second.requests : 0) / AW_MACHINE_SECONDS;
        sum.throughput += second.throughput / AW_MACHINE_SECONDS;
        sum.instructions += second.ips / AW_MACHINE_SECONDS;
    }
    if (seat->who == LEARNED) {
        memcpy(player->embedding[1], player->embedding[0], sizeof driver.embedding);
        memcpy(player->embedding[0], driver.embedding, sizeof driver.embedding);
    }
    aw_frequency_end(&driver);
    *ret = sum;
}

/* One pair has no other to be shuffled with: it is shown to who is worth showing. */
static uint32_t seats_make(struct seat *seat, bool truth, bool one)
{
    uint32_t count = 0;
    seat[count++] = (struct seat){.who = ORACLE, .name = "oracle"};
    seat[count++] = (struct seat){.who = STATIC_BEST, .name = "static-best"};
    for (const struct aw_governor *g = aw_governors; g->name; g++) {
        if (one && !strcmp(g->name, "conservative"))
            continue;
        seat[count++] = (struct seat){.who = GOVERNOR, .name = g->name, .governor = g};
    }
    seat[count++] = (struct seat){.who = LEARNED, .name = "learned"};
    if (one)
        return count;
    seat[count++] = (struct seat){.who = ZEROED, .name = "learned, embedding zeroed"};
    seat[count++] = (struct seat){.who = SHUFFLED, .name = "learned, embedding shuffled"};
    if (truth)
        seat[count++] = (struct seat){.who = TRUE_PARAMETERS, .name = "learned, true parameters"};
    AW_ASSERT(count <= METHODS_MAX);
    return count;
}

static uint32_t seat_of(const struct seat *seat, const char *name)
{
    uint32_t i = 0;
    while (strcmp(seat[i].name, name))
        i++;
    return i;
}

static double mean_of(const struct result *result, uint32_t pairs, size_t offset)
{
    double sum = 0;
    for (uint32_t i = 0; i < pairs; i++)
        sum += *(const double *)(const void *)((const char *)&result[i] + offset);
    return sum / pairs;
}

#define MEAN(m, member) mean_of(&result[(size_t)(m)*pairs], pairs, offsetof(struct result, member))

static void rows(const char *set, const struct seat *seat, uint32_t count,
                 const struct result *result, uint32_t pairs, uint64_t seed, double *scratch,
                 const struct aw_task_sink *sink)
{
    const double oracle = MEAN(0, reward), nominal = MEAN(seat_of(seat, "nominal"), reward);
    const uint32_t schedutil = seat_of(seat, "schedutil");
    for (uint32_t m = 0; m < count; m++) {
        struct aw_rng rng;
        double per_work = 0;
        for (uint32_t i = 0; i < pairs; i++) {
            const struct result *mine = &result[(size_t)m * pairs + i];
            const struct result *theirs = &result[(size_t)schedutil * pairs + i];
            scratch[i] = mine->reward;
            per_work += mine->watts / mine->instructions * theirs->instructions / theirs->watts;
        }
        aw_rng_init(&rng, seed, m);
        const struct aw_interval interval =
            aw_stats_bootstrap_mean(scratch, pairs, 0.95, RESAMPLES, &rng, scratch + pairs);
        const double reward = MEAN(m, reward);
        sink->text(sink->self, "set", set);
        sink->text(sink->self, "method", seat[m].name);
        sink->figure(sink->self, "pairs", pairs);
        sink->figure(sink->self, "reward", reward);
        if (pairs > 1) {
            sink->figure(sink->self, "reward_low", interval.low);
            sink->figure(sink->self, "reward_high", interval.high);
        }
        sink->figure(sink->self, "drop", (oracle - reward) / fabs(oracle));
        sink->figure(sink->self, "regret", (oracle - reward) / (oracle - nominal));
        sink->figure(sink->self, "watts", MEAN(m, watts));
        sink->figure(sink->self, "joules_of_schedutil", MEAN(m, watts) / MEAN(schedutil, watts));
        sink->figure(sink->self, "joules_per_work", per_work / pairs);
        sink->figure(sink->self, "missed", MEAN(m, missed));
        sink->figure(sink->self, "throughput", MEAN(m, throughput));
        sink->row(sink->self);
    }
}

enum aw_err aw_frequency_evaluate(struct aw_frequency_learner *learner,
                                  struct aw_frequency_learner *truth, const struct aw_task_ask *ask,
                                  uint32_t pairs, const struct aw_task_sink *sink,
                                  struct aw_diag *diag)
{
    struct seat seat[METHODS_MAX];
    const uint32_t count = seats_make(seat, truth != NULL, pairs == 1);
    struct result *result = aw_alloc_new(NULL, (size_t)count * pairs, sizeof *result);
    double *scratch = aw_alloc_new(NULL, 2 * (size_t)pairs + RESAMPLES, sizeof *scratch);
    enum aw_err err =
        result && scratch ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for %u pairs", pairs);
    for (uint32_t phases = 0; !err && phases < 2; phases++) {
        struct player player = {.learner = learner, .truth = truth};
        for (uint32_t i = 0; !err && i < pairs; i++) {
            struct aw_frequency_pair pair;
            aw_frequency_pair_draw(PAIR_BASE + ask->seed * 10007 + i, true, phases, &pair);
            for (uint32_t m = 0; m < count; m++)
                play(&seat[m], &player, &pair, ask->seed + i, &result[(size_t)m * pairs + i]);
            if (!sink->progress(sink->self, (phases + (i + 1.0) / pairs) / 2, "machines"))
                err = aw_fail(diag, AW_ERR_INTERRUPTED, "the evaluation was stopped");
        }
        if (!err)
            rows(phases ? "unseen, phases" : "unseen, steady", seat, count, result, pairs,
                 ask->seed, scratch, sink);
    }
    aw_alloc_free(NULL, result);
    aw_alloc_free(NULL, scratch);
    return err;
}

void aw_frequency_swing(const struct aw_task_ask *ask, const struct aw_task_sink *sink)
{
    static const char *const names[2][2] = {{"energy (default)", "paper"},
                                            {"hold the most", "swing between least and most"}};
    for (uint32_t reward = 0; reward < 2; reward++) {
        for (uint32_t swing = 0; swing < 2; swing++) {
            struct aw_machine machine;
            struct aw_frequency_pair pair;
            struct aw_second second;
            float obs[AW_FREQUENCY_OBS];
            double sum = 0;
            aw_frequency_pair_draw(ask->seed, true, false, &pair);
            pair.batch = true; /* a CPU-bound job without an objective */
            pair.phase[0].memory_ns = 0;
            aw_machine_reset(&machine, &pair, reward ? AW_REWARD_PAPER : AW_REWARD_ENERGY,
                             ask->seed, obs);
            for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
                aw_machine_step(&machine, swing && s % 2 ? 0 : AW_LEVELS - 1, obs, &second);
                sum += second.reward;
            }
            sink->text(sink->self, "reward", names[0][reward]);
            sink->text(sink->self, "behaviour", names[1][swing]);
            sink->figure(sink->self, "mean", sum / AW_MACHINE_SECONDS);
            sink->row(sink->self);
        }
    }
}
