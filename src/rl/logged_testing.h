/*
 * logged_testing.h - a world whose truth can be written down, and records of it. Included by tests
 * alone.
 *
 * s' = 0.8 s + 0.5 a + 0.3 e, with e of N(0, 1); r = -s^2 - 0.1 a^2. Under a = -k s the second
 * moment of s follows m' = (0.8 - 0.5 k)^2 m + 0.09, so the mean return of T steps is
 * -(1 + 0.1 k^2) (m_0 + ... + m_T-1), m_0 = 1.
 */
#ifndef AW_RL_LOGGED_TESTING_H
#define AW_RL_LOGGED_TESTING_H

#include "base/rng.h"
#include "base/testing.h"
#include "rl/logged.h"

enum { LINE_EPISODES = 24, LINE_STEPS = 40, LINE_TOTAL = LINE_EPISODES * LINE_STEPS };

struct line {
    uint32_t begin[LINE_EPISODES + 1];
    float obs[LINE_TOTAL], next_obs[LINE_TOTAL], action[LINE_TOTAL], reward[LINE_TOTAL];
    bool terminated[LINE_TOTAL];
    struct aw_logged logged;
};

static const float line_low = -4, line_high = 4;

/* a = -gain s + spread N(0, 1) acts. */
static inline void line_record(struct line *line, double gain, double spread, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    for (uint32_t e = 0; e < LINE_EPISODES; e++) {
        double s = aw_rng_normal(&rng);
        line->begin[e] = e * LINE_STEPS;
        for (uint32_t i = e * LINE_STEPS; i < (e + 1) * LINE_STEPS; i++) {
            float seen = (float)s;
            double a = (double)(float)(-gain) * (double)seen;
            if (spread > 0)
                a += spread * aw_rng_normal(&rng);
            a = a > (double)line_high ? (double)line_high : a;
            a = a < (double)line_low ? (double)line_low : a;
            line->obs[i] = seen;
            line->action[i] = (float)a;
            line->reward[i] = (float)(-s * s - 0.1 * a * a);
            s = 0.8 * s + 0.5 * a + 0.3 * aw_rng_normal(&rng);
            line->next_obs[i] = (float)s;
            line->terminated[i] = false;
        }
    }
    line->begin[LINE_EPISODES] = LINE_TOTAL;
    line->logged = (struct aw_logged){.obs_dim = 1,
                                      .act_dim = 1,
                                      .episode_count = LINE_EPISODES,
                                      .episode_begin = line->begin,
                                      .obs = line->obs,
                                      .action = line->action,
                                      .reward = line->reward,
                                      .next_obs = line->next_obs,
                                      .terminated = line->terminated,
                                      .act_low = &line_low,
                                      .act_high = &line_high};
}

static inline double line_truth(double gain)
{
    double m = 1, sum = 0, keep = 0.8 - 0.5 * gain;
    for (uint32_t t = 0; t < LINE_STEPS; t++) {
        sum += m;
        m = keep * keep * m + 0.09;
    }
    return -(1 + 0.1 * gain * gain) * sum;
}

/* What the recorded episodes would have earned under a = -gain s with the very noise they had: mean
 * return beyond the recorded one. */
static inline double line_counterfactual(const struct line *line, double gain)
{
    double sum = 0;
    for (uint32_t e = 0; e < LINE_EPISODES; e++) {
        double s = (double)line->obs[line->begin[e]];
        for (uint32_t i = line->begin[e]; i < line->begin[e + 1]; i++) {
            double noise = (double)line->next_obs[i] - 0.8 * (double)line->obs[i] -
                           0.5 * (double)line->action[i];
            double a = -gain * s;
            sum += -s * s - 0.1 * a * a - (double)line->reward[i];
            s = 0.8 * s + 0.5 * a + noise;
        }
    }
    return sum / LINE_EPISODES;
}

/* ctx: the gain, a float. */
static inline enum aw_err line_act(void *ctx, const float *obs, uint32_t count, float *action)
{
    for (uint32_t i = 0; i < count; i++)
        action[i] = -*(const float *)ctx * obs[i];
    return AW_OK;
}

static inline struct aw_logged_policy line_policy(float *gain)
{
    return (struct aw_logged_policy){.act = line_act, .ctx = gain};
}

#endif
