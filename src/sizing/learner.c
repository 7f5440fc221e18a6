/* learner.c - heads asked and mixed (learner.h); what the mixing is made of is in weigh.c. */
#include <math.h>
#include <string.h>

#include "sizing/learner_internal.h"

#define LOO_UNIT 0.1 /* of the logarithm: an error that speaks against a head */

static aw_size_head *const simple[AW_SIZE_HEAD_NET] = {
    aw_size_flat,    aw_size_additive,  aw_size_gp,       aw_size_gp_wide,
    aw_size_nearest, aw_size_two_point, aw_size_physical,
};

const char *aw_size_head_name(uint32_t head)
{
    static const char *const names[] = {
#define X(id, name, summary) name,
        AW_SIZE_HEAD_MAP(X)
#undef X
    };
    AW_ASSERT(head < AW_SIZE_HEADS);
    return names[head];
}

struct aw_size_settings aw_size_default(void)
{
    return (struct aw_size_settings){.seed = 1, .nets = 3, .updates = 700, .folds = 4, .draws = 4};
}

uint32_t aw__size_kind(uint32_t shots)
{
    return shots < AW_SIZE_KINDS ? shots - 1 : AW_SIZE_KINDS - 1;
}

/* The word of every head at `targets`; the GP's deviation beside. */
void aw__size_ask(const struct aw__size_asked *asked, const struct aw_size_shot *shots,
                  uint32_t count, const uint32_t *targets, uint32_t target_count,
                  double (*ret)[AW_SIZE_CONFIGS_MAX], double *ret_sd)
{
    double all[AW_SIZE_CONFIGS_MAX], sd[AW_SIZE_CONFIGS_MAX];
    for (uint32_t h = 0; h < AW_SIZE_HEAD_NET; h++) {
        simple[h](asked->memory, shots, count, all, h == AW_SIZE_HEAD_WIDE ? sd : NULL);
        for (uint32_t t = 0; t < target_count; t++)
            ret[h][t] = all[targets[t]];
        for (uint32_t t = 0; h == AW_SIZE_HEAD_WIDE && ret_sd && t < target_count; t++)
            ret_sd[t] = sd[targets[t]];
    }
    double *net = ret[AW_SIZE_HEAD_NET];
    memcpy(net, ret[AW_SIZE_HEAD_WIDE], target_count * sizeof *net);
    if (asked->net_count == 0)
        return;
    memset(net, 0, target_count * sizeof *net);
    for (uint32_t n = 0; n < asked->net_count; n++) {
        aw_size_net_predict(asked->net[n], asked->context, asked->told, shots, count, targets,
                            target_count, all);
        for (uint32_t t = 0; t < target_count; t++)
            net[t] += all[t] / asked->net_count;
    }
}

/* How well each head predicts one shot from the others: mean absolute error of the logarithm. */
void aw__size_leave_out(const struct aw__size_asked *asked, const struct aw_size_shot *shots,
                        uint32_t count, double error[AW_SIZE_HEADS])
{
    static _Thread_local double one[AW_SIZE_HEADS][AW_SIZE_CONFIGS_MAX];
    memset(error, 0, AW_SIZE_HEADS * sizeof *error);
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        struct aw_size_shot others[AW_SIZE_SHOTS_MAX];
        uint32_t n = 0;
        for (uint32_t k = 0; k < count; k++)
            if (k != i)
                others[n++] = shots[k];
        aw__size_ask(asked, others, n, &shots[i].config, 1, one, NULL);
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            error[h] += fmin(fabs(one[h][0] - shots[i].value), 3) / count;
    }
}

void aw__size_weights(const struct aw_size_mix *mix, const double error[AW_SIZE_HEADS],
                      double weight[AW_SIZE_HEADS])
{
    double least = INFINITY, sum = 0;
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        if (mix->weight[h] > 1e-6)
            least = fmin(least, error[h]);
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        sum += weight[h] = mix->weight[h] * exp(-mix->sharpness * (error[h] - least) / LOO_UNIT);
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        weight[h] /= sum;
}

/* A head that is far from the middle one is brought nearer: a few can be off by a factor. */
void aw__size_temper(double word[AW_SIZE_HEADS])
{
    double sorted[AW_SIZE_HEADS];
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++) {
        uint32_t at = h;
        for (; at > 0 && sorted[at - 1] > word[h]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = word[h];
    }
    const double middle = 0.5 * (sorted[(AW_SIZE_HEADS - 1) / 2] + sorted[AW_SIZE_HEADS / 2]);
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        word[h] = fmax(middle - AW__SIZE_APART, fmin(middle + AW__SIZE_APART, word[h]));
}

/* The mean of the heads at one place, and how far they are apart. */
double aw__size_blend(const double weight[AW_SIZE_HEADS], const double word[AW_SIZE_HEADS],
                      double *ret_spread)
{
    double mean = 0, spread = 0;
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        mean += weight[h] * word[h];
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        spread += weight[h] * (word[h] - mean) * (word[h] - mean);
    *ret_spread = spread;
    return mean;
}

double aw__size_variance(const struct aw_size_mix *mix, const double weight[AW_SIZE_HEADS],
                         const double error[AW_SIZE_HEADS], double gp_sd, double spread)
{
    double off = 0;
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        off += weight[h] * error[h];
    return mix->var[0] + mix->var[1] * gp_sd * gp_sd + mix->var[2] * spread +
           mix->var[3] * off * off;
}

void aw__size_predict(const struct aw__size_asked *asked, const struct aw_size_mix *mixes,
                      const struct aw_size_shot *shots, uint32_t count,
                      struct aw_size_prediction *ret)
{
    const uint32_t C = asked->memory->config_count;
    const struct aw_size_mix *mix = &mixes[aw__size_kind(count)];
    double error[AW_SIZE_HEADS], sd[AW_SIZE_CONFIGS_MAX];
    uint32_t all[AW_SIZE_CONFIGS_MAX] = {0};
    AW_ASSERT(count > 0 && count <= AW_SIZE_SHOTS_MAX);
    for (uint32_t c = 0; c < C; c++)
        all[c] = c;
    aw__size_ask(asked, shots, count, all, C, ret->head, sd);
    aw__size_leave_out(asked, shots, count, error);
    aw__size_weights(mix, error, ret->weight);
    for (uint32_t c = 0; c < C; c++) {
        double spread, word[AW_SIZE_HEADS];
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            word[h] = ret->head[h][c];
        aw__size_temper(word);
        ret->middle[c] = aw__size_blend(ret->weight, word, &spread);
        const double var = aw__size_variance(mix, ret->weight, error, sd[c], spread);
        ret->deviation[c] = sqrt(var);
        ret->value[c] = ret->middle[c] - mix->shift * fmin(var, AW__SIZE_VAR_MAX);
        ret->low[c] = ret->middle[c] + mix->low * ret->deviation[c];
        ret->high[c] = ret->middle[c] + mix->high * ret->deviation[c];
    }
    for (uint32_t i = 0; i < count; i++) { /* what was measured is known */
        const uint32_t c = shots[i].config;
        ret->value[c] = ret->middle[c] = ret->low[c] = ret->high[c] = shots[i].value;
        ret->deviation[c] = 0;
    }
}

void aw_size_predict(struct aw_size_learner *learner, const float *context, enum aw_size_told told,
                     const struct aw_size_shot *shots, uint32_t count,
                     struct aw_size_prediction *ret)
{
    const struct aw__size_asked asked = {.memory = learner->memory,
                                         .net = learner->net,
                                         .net_count = learner->net_count,
                                         .context = context,
                                         .told = told};
    aw__size_predict(&asked, learner->mix, shots, count, ret);
}

/* --- what to measure next --- */

/* E[max(0, 1 - exp(y - best))] of a normal y. */
static double expected_gain(double mean, double sd, double best)
{
    if (sd < 1e-9)
        return fmax(0, 1 - exp(mean - best));
    const double z = (best - mean) / sd;
    const double below = 0.5 * erfc(-z / sqrt(2));
    const double below_tilted = 0.5 * erfc(-(z - sd) / sqrt(2));
    return fmax(0, below - exp(mean - best + 0.5 * sd * sd) * below_tilted);
}

static bool measured(const struct aw_size_shot *shots, uint32_t count, uint32_t config)
{
    for (uint32_t i = 0; i < count; i++)
        if (shots[i].config == config)
            return true;
    return false;
}

#define SPREAD 0.5 /* of a deviation: intervals are for all places, gains for the best of them */

static const struct {
    uint32_t lead; /* measurements of the list first */
    bool turns;    /* then by turns */
    double near;   /* how unlike a workload may be whose gain counts; 0: none does */
} ways[AW_SIZE_WAYS] = {
#define X(id, lead, turns, near, what) {lead, turns, near},
    AW_SIZE_WAY_MAP(X)
#undef X
};

struct aw_size_next aw__size_next(const struct aw__size_asked *asked,
                                  const struct aw_size_mix *mixes, const uint32_t *list,
                                  uint32_t way, const struct aw_size_shot *shots, uint32_t count,
                                  const bool *can, struct aw_size_prediction *scratch)
{
    struct aw_size_next next = {.config = UINT32_MAX, .gain = 0};
    const uint32_t C = asked->memory->config_count;
    double best = INFINITY, most = -1, largest = 0;
    const bool listed = count < ways[way].lead || (ways[way].turns && count % 2 == 0);
    for (uint32_t i = 0; i < count; i++)
        best = fmin(best, shots[i].value);
    if (count > 0 && count < AW_SIZE_SHOTS_MAX) {
        double near[AW_SIZE_CONFIGS_MAX] = {0};
        if (ways[way].near > 0)
            aw__size_near(asked->memory, ways[way].near, shots, count, near);
        aw__size_predict(asked, mixes, shots, count, scratch);
        for (uint32_t c = 0; c < C; c++) {
            if ((can && !can[c]) || measured(shots, count, c))
                continue;
            const double sd = scratch->deviation[c];
            const double gain = expected_gain(scratch->middle[c], SPREAD * sd, best);
            largest = fmax(largest, expected_gain(scratch->middle[c], sd, best));
            /* where no gain is to be expected, the least is the best */
            const double score = gain + near[c] - 1e-9 * scratch->middle[c];
            if (score > most || next.config == UINT32_MAX) {
                most = score;
                next.config = c;
            }
        }
    }
    next.gain = count ? largest : 1;
    for (uint32_t i = 0; i < C && listed; i++)
        if ((!can || can[list[i]]) && !measured(shots, count, list[i])) {
            next.config = list[i];
            break;
        }
    return next;
}

struct aw_size_next aw_size_next(struct aw_size_learner *learner, const float *context,
                                 const struct aw_size_shot *shots, uint32_t count, const bool *can)
{
    const struct aw__size_asked asked = {.memory = learner->memory,
                                         .net = learner->net,
                                         .net_count = learner->net_count,
                                         .context = context};
    return aw__size_next(&asked, learner->mix, learner->order, learner->way, shots, count, can,
                         &learner->scratch);
}
