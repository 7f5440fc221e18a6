/* ope.c - off-policy evaluation: two judges, one estimate, bounds. */
#include "rl/ope.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/stats.h"
#include "rl/dynamics.h"
#include "rl/fqe.h"

/*
 * How far to trust each judge, and how wrong an estimate is per unit of what makes it so. Chosen on
 * 160 cases whose truth was measured (aware-bench ope --seed 1) so that Student's t with 4 degrees
 * of freedom fits the errors; checked on others. docs/results/ope.md has the figures of both.
 */
#define FQE_WEIGHT     0.25 /* it sees further than it can count: its outliers are large */
#define MODEL_WEIGHT   0.75
#define ERROR_EPISODES 1.3  /* of the standard error of the recorded returns */
#define ERROR_SPREAD   0.55 /* of the deviation over the model's members */
#define ERROR_APART    0.5  /* of what lies between the judges */
#define ERROR_GAIN     0.6 /* of the difference to the record: what is claimed may be an artefact */
#define ERROR_NOVELTY  0.5 /* of the deviation of recorded returns, per unit of novelty */
#define ERROR_SIZE     0.008 /* of the size of a return: a record that hardly varies knows little */
#define ERROR_EDGE     0.08  /* likewise, per share of recorded actions on a bound */

#define AW_CONF_OF struct aw_ope_settings
const struct aw_conf_field aw_ope_fields[] = {
    AW_CONF_NUMBER(members, "5", 2, AW_OPE_MEMBERS_MAX,
                   "Networks of each ensemble, each fitted to a resample of the episodes."),
    AW_CONF_NUMBER(hidden, "48", 1, AW_MLP_WIDTH_MAX,
                   "Units of each of the two layers of a network."),
    AW_CONF_NUMBER(batch, "128", 1, 4096, "Steps in one gradient update."),
    AW_CONF_NUMBER(fqe_updates, "500", 1, 1e6, "Updates of each member of fitted Q evaluation."),
    AW_CONF_NUMBER(fqe_gamma, "0.95", 0, 0.999, "Discount of fitted Q evaluation."),
    AW_CONF_NUMBER(fqe_tau, "0.02", 1e-6, 1,
                   "Share of the weights that moves into the target network at an update."),
    AW_CONF_NUMBER(fqe_lr, "1e-3", 0, 1,
                   "Adam's learning rate of fitted Q evaluation at first; a tenth of it at last."),
    AW_CONF_NUMBER(model_updates, "600", 1, 1e6,
                   "Updates of each member of the model, unless hold-out ends them sooner."),
    AW_CONF_NUMBER(model_lr, "2e-3", 0, 1,
                   "Adam's learning rate of the model at first; a tenth of it at last."),
    AW_CONF_NUMBER(model_rollouts, "40", 1, AW__DYNAMICS_PLAYS_MAX,
                   "Recorded episodes that each member of the model plays again."),
    {.key = NULL},
};

struct aw_ope {
    struct aw_ope_shape shape;
    struct aw_ope_settings settings;
    struct aw__prepared prepared;
    struct aw__fqe fqe;
    struct aw__dynamics dynamics;
    uint32_t *slot;    /* [episodes_max] */
    bool *left_out;    /* [episodes_max] */
    float *advantage;  /* [steps_max] */
    double *recorded;  /* [episodes_max]: return of each episode */
    double *play;      /* [model_rollouts] */
    uint32_t *episode; /* [model_rollouts] */
    const struct aw_alloc *alloc;
    void *block;
};

static void carve(struct aw_ope *ope, struct aw_carve *take)
{
    size_t E = ope->shape.episodes_max, R = ope->settings.model_rollouts;
    ope->slot = aw_carve_take(take, E, sizeof *ope->slot);
    ope->left_out = aw_carve_take(take, E, sizeof *ope->left_out);
    ope->advantage = aw_carve_take(take, ope->shape.steps_max, sizeof *ope->advantage);
    ope->recorded = aw_carve_take(take, E, sizeof(double));
    ope->play = aw_carve_take(take, R, sizeof(double));
    ope->episode = aw_carve_take(take, R, sizeof *ope->episode);
}

static enum aw_err allocate(struct aw_ope *ope)
{
    const struct aw_ope_settings *s = &ope->settings;
    const uint32_t S = ope->shape.obs_dim, A = ope->shape.act_dim;
    const struct aw__fqe_config fqe = {.hidden = s->hidden,
                                       .batch = s->batch,
                                       .updates = s->fqe_updates,
                                       .gamma = (double)s->fqe_gamma,
                                       .tau = (double)s->fqe_tau,
                                       .lr = (double)s->fqe_lr};
    const struct aw__dynamics_config model = {.hidden = s->hidden,
                                              .batch = s->batch,
                                              .updates = s->model_updates,
                                              .lr = (double)s->model_lr,
                                              .plays_max = s->model_rollouts};
    enum aw_err err = aw__prepared_init(&ope->prepared, S, A, ope->shape.steps_max, ope->alloc);
    err = err ? err : aw__fqe_init(&ope->fqe, S, A, &fqe, ope->alloc);
    err = err ? err : aw__dynamics_init(&ope->dynamics, S, A, &model, ope->alloc);
    if (err)
        return err;
    struct aw_carve take = {0};
    carve(ope, &take);
    ope->block = aw_alloc_new(ope->alloc, take.used, 1);
    if (!ope->block)
        return AW_ERR_NOMEM;
    take = (struct aw_carve){.base = ope->block};
    carve(ope, &take);
    return AW_OK;
}

enum aw_err aw_ope_new(const struct aw_ope_shape *shape, const struct aw_ope_settings *settings,
                       const struct aw_alloc *alloc, struct aw_ope **ret_ope, struct aw_diag *diag)
{
    if (shape->obs_dim < 1 || shape->act_dim < 1 ||
        shape->obs_dim + shape->act_dim > AW_MLP_WIDTH_MAX / 2 - 1 || shape->steps_max < 1 ||
        shape->steps_max > AW_OPE_STEPS_MAX || shape->episodes_max < AW_OPE_EPISODES_MIN ||
        shape->episodes_max > AW_OPE_EPISODES_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "off-policy evaluation: expected 1 to %u steps of %u to %u episodes, with "
                       "observations and actions of at most %u numbers",
                       AW_OPE_STEPS_MAX, AW_OPE_EPISODES_MIN, AW_OPE_EPISODES_MAX,
                       AW_MLP_WIDTH_MAX / 2 - 1);
    for (const struct aw_conf_field *f = aw_ope_fields; f->key; f++) {
        /* settings that came from a table are within it; those that were set by hand may not be */
        char text[AW_CONF_TEXT_MAX];
        struct aw_ope_settings copy = *settings;
        enum aw_err err = aw_conf_set(aw_ope_fields, &copy, f->key,
                                      aw_conf_get(f, settings, text, sizeof text), diag);
        if (err)
            return err;
    }
    struct aw_ope *ope = aw_alloc_new(alloc, 1, sizeof *ope);
    if (!ope)
        return aw_fail(diag, AW_ERR_NOMEM, "off-policy evaluation: out of memory");
    ope->shape = *shape;
    ope->settings = *settings;
    ope->alloc = alloc;
    enum aw_err err = allocate(ope);
    if (err) {
        aw_ope_free(ope);
        return aw_fail(diag, err, "off-policy evaluation: out of memory");
    }
    *ret_ope = ope;
    return AW_OK;
}

void aw_ope_free(struct aw_ope *ope)
{
    if (!ope)
        return;
    const struct aw_alloc *alloc = ope->alloc;
    aw__dynamics_deinit(&ope->dynamics);
    aw__fqe_deinit(&ope->fqe);
    aw__prepared_deinit(&ope->prepared);
    aw_alloc_free(alloc, ope->block);
    aw_alloc_free(alloc, ope);
}

/* An episode that was cut short counts as if it had gone on as it was. */
static double stretch(const struct aw__prepared *p, uint32_t e, uint32_t episode_steps)
{
    uint32_t begin = p->begin[e], end = p->begin[e + 1];
    return p->alive[end - 1] > 0 ? (double)episode_steps / (end - begin) : 1;
}

static void read_returns(struct aw_ope *ope, const struct aw_logged *logged, uint32_t episode_steps)
{
    const struct aw__prepared *p = &ope->prepared;
    for (uint32_t e = 0; e < p->episodes; e++) {
        double sum = 0;
        for (uint32_t i = p->begin[e]; i < p->begin[e + 1]; i++)
            sum += (double)logged->reward[i];
        ope->recorded[e] = sum * stretch(p, e, episode_steps);
    }
}

/* J(policy) - J(record) = E sum_t V(s_t) - Q(s_t, a_t) over the record (Kakade and Langford, 2002,
 * lemma 6.1, from the other side): the mean gain of an episode, and its deviation over the members.
 */
static enum aw_err judge_fqe(struct aw_ope *ope, uint32_t episode_steps, struct aw_rng *rng,
                             double *ret_gain, double *ret_spread)
{
    const struct aw__prepared *p = &ope->prepared;
    const uint32_t M = ope->settings.members;
    double gain[AW_OPE_MEMBERS_MAX];
    for (uint32_t m = 0; m < M; m++) {
        aw__resample(rng, p->episodes, ope->slot, ope->left_out);
        enum aw_err err = aw__fqe_train(&ope->fqe, p, ope->slot, rng);
        if (err)
            return err;
        aw__fqe_advantage(&ope->fqe, p, ope->advantage);
        gain[m] = 0;
        for (uint32_t e = 0; e < p->episodes; e++) {
            double sum = 0;
            for (uint32_t i = p->begin[e]; i < p->begin[e + 1]; i++)
                sum += (double)ope->advantage[i];
            gain[m] += sum * stretch(p, e, episode_steps) / p->episodes;
        }
    }
    *ret_gain = aw_stats_mean(gain, M);
    *ret_spread = aw_stats_std(gain, M);
    return AW_OK;
}

/* The same by the model, which plays episodes that are spread evenly over the record. */
static enum aw_err judge_model(struct aw_ope *ope, const struct aw_logged_policy *policy,
                               uint32_t episode_steps, struct aw_rng *rng, double *ret_gain,
                               double *ret_spread, double *ret_fit)
{
    struct aw__prepared *p = &ope->prepared;
    const uint32_t M = ope->settings.members;
    const uint32_t count =
        p->episodes < ope->settings.model_rollouts ? p->episodes : ope->settings.model_rollouts;
    double gain[AW_OPE_MEMBERS_MAX], fit[AW_OPE_MEMBERS_MAX];
    for (uint32_t k = 0; k < count; k++)
        ope->episode[k] = (uint32_t)((uint64_t)k * p->episodes / count);
    for (uint32_t m = 0; m < M; m++) {
        aw__resample(rng, p->episodes, ope->slot, ope->left_out);
        enum aw_err err =
            aw__dynamics_train(&ope->dynamics, p, ope->slot, ope->left_out, rng, &fit[m]);
        if (!err)
            err = aw__dynamics_play(&ope->dynamics, p, policy, ope->episode, count,
                                    AW__DYNAMICS_RECORDED, rng, ope->play);
        if (err)
            return err;
        gain[m] = 0;
        for (uint32_t k = 0; k < count; k++)
            gain[m] += ope->play[k] * stretch(p, ope->episode[k], episode_steps) / count;
    }
    *ret_gain = aw_stats_mean(gain, M);
    *ret_spread = aw_stats_std(gain, M);
    *ret_fit = aw_stats_mean(fit, M);
    return AW_OK;
}

/* Root mean square over steps and elements, in the scales of the recorded actions. */
static double novelty_of(const struct aw__prepared *p)
{
    size_t S = p->S, row = S + p->A;
    double square = 0;
    for (size_t i = 0; i < p->steps; i++)
        for (size_t k = S; k < row; k++) {
            double far = (double)p->policy[i * row + k] - (double)p->x[i * row + k];
            square += far * far;
        }
    return sqrt(square / ((double)p->steps * p->A));
}

static double edge_of(const struct aw_logged *logged)
{
    const uint32_t A = logged->act_dim, steps = aw_logged_steps(logged);
    uint64_t count = 0;
    for (size_t i = 0; i < steps; i++)
        for (size_t k = 0; k < A; k++) {
            float a = logged->action[i * A + k];
            count += a <= logged->act_low[k] || a >= logged->act_high[k];
        }
    return (double)count / ((double)steps * A);
}

/* The middle `level` of Student's t with 4 degrees of freedom, whose quantile has a closed form
 * (Shaw, 2006): heavier tails than a Gaussian, as errors of models have them. */
static double quantile_of(double level)
{
    double p = 0.5 + 0.5 * level, alpha = 4 * p * (1 - p);
    double q = cos(acos(sqrt(alpha)) / 3) / sqrt(alpha);
    return 2 * sqrt(q - 1);
}

/* Standard error of the estimate: what is known to make it wrong, as if each were independent. */
static double error_of(const struct aw_ope *ope, const struct aw_ope_estimate *found, double gain,
                       uint32_t episode_steps)
{
    const struct aw__prepared *p = &ope->prepared;
    const double spread = p->terminates ? found->fqe_spread : found->model_spread;
    const double apart = p->terminates ? 0 : found->fqe_mean - found->model_mean;
    double size = 0;
    for (uint32_t i = 0; i < p->steps; i++)
        size += fabs((double)(p->reward[i] * p->reward_scale + p->reward_mean)) / p->steps;
    const double parts[] = {
        ERROR_EPISODES * found->episode_error,
        ERROR_SPREAD * spread,
        ERROR_APART * apart,
        ERROR_GAIN * gain,
        ERROR_NOVELTY * found->novelty * found->episode_error * sqrt(p->episodes),
        (ERROR_SIZE + ERROR_EDGE * found->edge) * size * episode_steps,
    };
    double square = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        square += parts[i] * parts[i];
    return sqrt(square);
}

static enum aw_err estimate(struct aw_ope *ope, const struct aw_logged *logged,
                            const struct aw_logged_policy *policy, uint32_t episode_steps,
                            uint64_t seed, struct aw_ope_estimate *found)
{
    struct aw__prepared *p = &ope->prepared;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    enum aw_err err = aw__prepared_fill(p, logged, policy);
    if (err)
        return err;
    read_returns(ope, logged, episode_steps);
    const uint32_t E = p->episodes;
    found->behaviour_mean = aw_stats_mean(ope->recorded, E);
    found->episode_error = aw_stats_std(ope->recorded, E) / sqrt(E);
    found->novelty = novelty_of(p);
    found->edge = edge_of(logged);
    double fqe_gain, model_gain = 0;
    if ((err = judge_fqe(ope, episode_steps, &rng, &fqe_gain, &found->fqe_spread)))
        return err;
    found->fqe_mean = found->behaviour_mean + fqe_gain;
    found->model_mean = found->model_fit = found->model_spread = NAN;
    if (!p->terminates) {
        if ((err = judge_model(ope, policy, episode_steps, &rng, &model_gain, &found->model_spread,
                               &found->model_fit)))
            return err;
        found->model_mean = found->behaviour_mean + model_gain;
    }
    const double gain =
        p->terminates ? fqe_gain : FQE_WEIGHT * fqe_gain + MODEL_WEIGHT * model_gain;
    const double half = quantile_of(found->level) * error_of(ope, found, gain, episode_steps);
    found->mean = found->behaviour_mean + gain;
    found->low = found->mean - half;
    found->high = found->mean + half;
    return isfinite(found->low) && isfinite(found->high) ? AW_OK : AW_ERR_DIVERGED;
}

enum aw_err aw_ope_estimate(struct aw_ope *ope, const struct aw_logged *logged,
                            const struct aw_logged_policy *policy, uint32_t episode_steps,
                            double level, uint64_t seed, struct aw_ope_estimate *ret,
                            struct aw_diag *diag)
{
    AW_ASSERT(level > 0 && level < 1 && episode_steps > 0);
    AW_ASSERT(logged->obs_dim == ope->shape.obs_dim && logged->act_dim == ope->shape.act_dim);
    if (logged->episode_count < AW_OPE_EPISODES_MIN)
        return aw_fail(diag, AW_ERR_NODATA, "off-policy evaluation: expected %u episodes, found %u",
                       AW_OPE_EPISODES_MIN, logged->episode_count);
    if (logged->episode_count > ope->shape.episodes_max ||
        aw_logged_steps(logged) > ope->shape.steps_max)
        return aw_fail(diag, AW_ERR_RANGE,
                       "off-policy evaluation: expected at most %u steps of %u episodes, found %u "
                       "of %u",
                       ope->shape.steps_max, ope->shape.episodes_max, aw_logged_steps(logged),
                       logged->episode_count);
    for (uint32_t e = 0; e < logged->episode_count; e++)
        AW_ASSERT(logged->episode_begin[e] < logged->episode_begin[e + 1]);
    struct aw_ope_estimate found = {.level = level};
    enum aw_err err = estimate(ope, logged, policy, episode_steps, seed, &found);
    if (err)
        return aw_fail(diag, err, "off-policy evaluation: %s", aw_err_text(err));
    *ret = found;
    return AW_OK;
}
