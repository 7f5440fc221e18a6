/* simppo.c - many agents, few networks: acting in batches, GAE per agent, PPO per network. */
#include "multi/simppo.h"

#include <math.h>
#include <string.h>

#include "nn/adam.h"

#define ROWS_MAX   4096u /* of one forward pass */
#define STATES_MAX 30u   /* agents whose states one critic sees */

struct aw_simppo {
    struct aw_simppo_settings settings;
    struct aw_team *team;
    struct aw_rng rng;
    struct aw_adam adam;
    uint32_t net_count, agents_max;
    struct aw_ppo_model *net; /* [net_count] */
    uint32_t actor_dim, critic_dim;

    uint8_t *action;  /* [agents_max] */
    float *logp;      /* [agents_max] */
    float *mean;      /* [AW_TEAM_LOCAL] of all local states */
    uint32_t *agents; /* [agents_max] of one network */
    /* of an episode: [horizon][agents_max] */
    float *obs; /* [..][critic_dim]; the actor's are the first, or all */
    float *masks;
    float *old_logp, *reward, *advantage, *target;
    float *value; /* [horizon + 1] */
    uint8_t *taken, *alive;
    /* of one forward pass or minibatch */
    float *batch_obs, *batch_critic, *batch_mask, *batch_action, *batch_logp, *batch_value,
        *batch_advantage, *batch_target;
    uint32_t *row; /* [horizon * agents_max] */
    const struct aw_alloc *alloc;
    void *block;
};

void aw_simppo_settings_init(struct aw_simppo_settings *s, bool paper)
{
    *s = (struct aw_simppo_settings){.critic = AW_SIMPPO_AUX,
                                     .shared = !paper,
                                     .horizon = 50,
                                     .minibatch = paper ? 5 : 150,
                                     .epochs = 5,
                                     .hidden = 64,
                                     .lr = paper ? 3e-4 : 1e-3,
                                     .gamma = paper ? 0.99 : 0.9,
                                     .lambda = paper ? 1 : 0.9,
                                     .bootstrap = !paper,
                                     .clip = 0.2,
                                     .entropy = 0.01,
                                     .value_coef = paper ? 0.05 : 0.5,
                                     .grad_norm = paper ? 1e9 : 0.5};
}

static void carve(struct aw_simppo *s, struct aw_carve *c)
{
    const size_t n = s->agents_max, rows = s->settings.horizon * n, acts = s->team->action_count;
    const size_t batch = ROWS_MAX;
    s->action = aw_carve_take(c, n, 1);
    s->logp = aw_carve_take(c, n, sizeof(float));
    s->mean = aw_carve_take(c, AW_TEAM_LOCAL, sizeof(float));
    s->agents = aw_carve_take(c, n, sizeof *s->agents);
    s->obs = aw_carve_take(c, rows * s->critic_dim, sizeof(float));
    s->masks = aw_carve_take(c, rows * acts, sizeof(float));
    s->old_logp = aw_carve_take(c, rows, sizeof(float));
    s->reward = aw_carve_take(c, rows, sizeof(float));
    s->advantage = aw_carve_take(c, rows, sizeof(float));
    s->target = aw_carve_take(c, rows, sizeof(float));
    s->value = aw_carve_take(c, rows + n, sizeof(float));
    s->taken = aw_carve_take(c, rows, 1);
    s->alive = aw_carve_take(c, rows, 1);
    s->row = aw_carve_take(c, rows, sizeof *s->row);
    s->batch_obs = aw_carve_take(c, batch * s->actor_dim, sizeof(float));
    s->batch_critic = aw_carve_take(c, batch * s->critic_dim, sizeof(float));
    s->batch_mask = aw_carve_take(c, batch * acts, sizeof(float));
    s->batch_action = aw_carve_take(c, batch, sizeof(float));
    s->batch_logp = aw_carve_take(c, batch, sizeof(float));
    s->batch_value = aw_carve_take(c, batch, sizeof(float));
    s->batch_advantage = aw_carve_take(c, batch, sizeof(float));
    s->batch_target = aw_carve_take(c, batch, sizeof(float));
}

enum aw_err aw_simppo_new(const struct aw_simppo_settings *settings, struct aw_team *team,
                          uint64_t seed, const struct aw_alloc *alloc, struct aw_simppo **ret,
                          struct aw_diag *diag)
{
    static const uint32_t more[] = {[AW_SIMPPO_LOCAL] = 0,
                                    [AW_SIMPPO_AUX] = AW_TEAM_AUX,
                                    [AW_SIMPPO_MEANS] = AW_TEAM_FIGURES,
                                    [AW_SIMPPO_ALL] = AW_TEAM_LOCAL,
                                    [AW_SIMPPO_STATES] = 0};
    struct aw_simppo *s = aw_alloc_new(alloc, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a learner");
    s->settings = *settings;
    s->team = team;
    s->alloc = alloc;
    s->agents_max = team->world->settings.agents_max;
    s->net_count = settings->shared ? AW_MULTI_CATEGORIES : s->agents_max;
    s->critic_dim = AW_TEAM_LOCAL + more[settings->critic];
    if (settings->critic == AW_SIMPPO_STATES) {
        AW_ASSERT(s->agents_max <= STATES_MAX && !settings->aux_in_actor);
        s->critic_dim = AW_TEAM_LOCAL * s->agents_max;
    }
    s->actor_dim = settings->aux_in_actor ? s->critic_dim : AW_TEAM_LOCAL;
    s->adam = aw_adam_default(settings->lr);
    aw_rng_init(&s->rng, seed, 1);
    struct aw_carve sizing = {0};
    carve(s, &sizing);
    s->block = aw_alloc_new(alloc, sizing.used, 1);
    s->net = aw_alloc_new(alloc, s->net_count, sizeof *s->net);
    enum aw_err err = s->block && s->net ? AW_OK : AW_ERR_NOMEM;
    const struct aw_ppo_model_config model = {
        .action = AW_AGENT_DISCRETE,
        .obs_dim = s->actor_dim,
        .critic_dim = s->critic_dim,
        .act_dim = 1,
        .act_n = team->action_count,
        .hidden = {.count = 2, .value = {settings->hidden, settings->hidden}},
        .activation = settings->relu ? AW_ACT_RELU : AW_ACT_TANH,
        .batch_max = settings->shared                          ? ROWS_MAX
                     : settings->minibatch > settings->horizon ? settings->minibatch
                                                               : settings->horizon};
    for (uint32_t i = 0; !err && i < s->net_count; i++)
        err = aw_ppo_model_init(&s->net[i], &model, &s->rng, alloc);
    if (err) {
        aw_simppo_free(s);
        return aw_fail(diag, err, "no memory for %u networks", s->net_count);
    }
    carve(s, &(struct aw_carve){.base = s->block});
    *ret = s;
    return AW_OK;
}

void aw_simppo_free(struct aw_simppo *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->net && i < s->net_count; i++)
        aw_ppo_model_deinit(&s->net[i]);
    aw_alloc_free(s->alloc, s->net);
    aw_alloc_free(s->alloc, s->block);
    aw_alloc_free(s->alloc, s);
}

const struct aw_mlp *aw_simppo_actor(const struct aw_simppo *s, uint32_t net,
                                     const float **ret_theta)
{
    *ret_theta = s->net[net].params.value;
    return &s->net[net].actor;
}

size_t aw_simppo_parameters(const struct aw_simppo *s)
{
    return s->net[0].params.count;
}

size_t aw_simppo_bytes_serving(const struct aw_simppo *s)
{
    /* its rows in the team's arrays, and of the learner action, log-probability and index */
    return sizeof(float) * (AW_TEAM_LOCAL + AW_TEAM_AUX + AW_TEAM_FIGURES + 5) +
           sizeof(float) * s->team->action_count + 1 + 1 + 2 * sizeof(float);
}

size_t aw_simppo_bytes_training(const struct aw_simppo *s)
{
    return s->settings.horizon *
           (sizeof(float) * (s->critic_dim + s->team->action_count + 5) + sizeof(uint32_t) + 2);
}

static uint32_t net_of(const struct aw_simppo *s, uint32_t agent)
{
    return s->settings.shared ? s->team->world->category[agent] : agent;
}

/* What the critic sees of an agent now; the actor sees the first of it, or all. */
static void see(const struct aw_simppo *s, uint32_t agent, float *ret)
{
    const float *aux = s->team->aux + (size_t)agent * AW_TEAM_AUX;
    const float *local = s->team->local;
    memcpy(ret, local + (size_t)agent * AW_TEAM_LOCAL, AW_TEAM_LOCAL * sizeof *ret);
    if (s->settings.critic == AW_SIMPPO_STATES)
        for (uint32_t i = 0, at = 1; i < s->agents_max; i++) {
            if (i != agent) /* those that are not there are zeros */
                memcpy(ret + AW_TEAM_LOCAL * at++, local + (size_t)i * AW_TEAM_LOCAL,
                       AW_TEAM_LOCAL * sizeof *ret);
        }
    else if (s->settings.critic == AW_SIMPPO_ALL)
        memcpy(ret + AW_TEAM_LOCAL, s->mean, AW_TEAM_LOCAL * sizeof *ret);
    else
        memcpy(ret + AW_TEAM_LOCAL, aux, (s->critic_dim - AW_TEAM_LOCAL) * sizeof *ret);
}

static void mean_of_all(struct aw_simppo *s)
{
    const struct aw_multi_world *w = s->team->world;
    memset(s->mean, 0, AW_TEAM_LOCAL * sizeof *s->mean);
    for (uint32_t i = 0; i < w->count; i++)
        for (uint32_t k = 0; w->here[i] && k < AW_TEAM_LOCAL; k++)
            s->mean[k] += s->team->local[(size_t)i * AW_TEAM_LOCAL + k] / (float)w->live;
}

/* Actions of `n` agents of one network. */
static void act_some(struct aw_simppo *s, struct aw_ppo_model *net, const uint32_t *agents,
                     uint32_t n, bool greedy)
{
    const uint32_t acts = s->team->action_count;
    for (uint32_t k = 0; k < n; k++) {
        float row[STATES_MAX * AW_TEAM_LOCAL];
        see(s, agents[k], row);
        memcpy(s->batch_obs + (size_t)k * s->actor_dim, row, s->actor_dim * sizeof *row);
    }
    const float *head = aw_ppo_policy(net, s->batch_obs, n);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t a = 0; a < acts; a++)
            s->batch_mask[k * acts + a] =
                head[k * acts + a] + s->team->mask[(size_t)agents[k] * acts + a];
    if (greedy)
        aw_ppo_mode(net, s->batch_mask, n, s->batch_action);
    else
        aw_ppo_sample(net, s->batch_mask, n, &s->rng, s->batch_action, s->batch_logp);
    for (uint32_t k = 0; k < n; k++) {
        s->action[agents[k]] = (uint8_t)s->batch_action[k];
        s->logp[agents[k]] = s->batch_logp[k];
    }
}

static void act_all(struct aw_simppo *s, bool greedy)
{
    const struct aw_multi_world *w = s->team->world;
    if (s->settings.critic == AW_SIMPPO_ALL)
        mean_of_all(s);
    for (uint32_t net = 0; net < s->net_count; net++) {
        const uint32_t most = s->net[net].config.batch_max;
        uint32_t n = 0, from = s->settings.shared ? 0 : net;
        const uint32_t to = s->settings.shared ? w->count : net + 1;
        for (uint32_t i = from; i < to && i < w->count; i++) {
            if (!w->here[i] || net_of(s, i) != net)
                continue;
            s->agents[n++] = i;
            if (n == most || n == ROWS_MAX) {
                act_some(s, &s->net[net], s->agents, n, greedy);
                n = 0;
            }
        }
        if (n > 0)
            act_some(s, &s->net[net], s->agents, n, greedy);
    }
}

/* Who has the lowest SLO preservation acts; the first of equals. */
static void hold_others(struct aw_simppo *s)
{
    const struct aw_multi_world *w = s->team->world;
    for (uint32_t i = 0; s->settings.turns > 0 && i < w->count; i++) {
        const float kept = s->team->local[(size_t)i * AW_TEAM_LOCAL];
        uint32_t before = 0;
        for (uint32_t k = 0; w->here[i] && k < w->count; k++) {
            const float other = s->team->local[(size_t)k * AW_TEAM_LOCAL];
            before += w->here[k] && (other < kept || (!(other > kept) && k < i));
        }
        if (before >= s->settings.turns)
            s->action[i] = AW_TEAM_HOLD;
    }
}

void aw_simppo_act(struct aw_simppo *s, bool greedy, uint8_t *ret_action)
{
    act_all(s, greedy);
    hold_others(s);
    memcpy(ret_action, s->action, s->team->world->count);
}

/* --- an episode ------------------------------------------------------------------------------- */

static void values_of(struct aw_simppo *s, uint32_t step)
{
    const struct aw_multi_world *w = s->team->world;
    for (uint32_t net = 0; net < s->net_count; net++) {
        uint32_t n = 0;
        const uint32_t from = s->settings.shared ? 0 : net,
                       to = s->settings.shared ? w->count : net + 1;
        for (uint32_t i = from; i <= to && i <= w->count; i++) {
            const bool more = i < to && i < w->count;
            if (more && w->here[i] && net_of(s, i) == net) {
                see(s, i, s->batch_critic + (size_t)n * s->critic_dim);
                s->agents[n++] = i;
            }
            if (n == ROWS_MAX || (!more && n > 0)) {
                aw_ppo_values(&s->net[net], s->batch_critic, n, s->batch_value);
                for (uint32_t k = 0; k < n; k++)
                    s->value[(size_t)step * s->agents_max + s->agents[k]] = s->batch_value[k];
                n = 0;
            }
        }
    }
}

static void remember(struct aw_simppo *s, uint32_t step)
{
    const struct aw_multi_world *w = s->team->world;
    const uint32_t acts = s->team->action_count;
    for (uint32_t i = 0; i < w->count; i++) {
        const size_t at = (size_t)step * s->agents_max + i;
        s->alive[at] = w->here[i];
        if (!w->here[i])
            continue;
        see(s, i, s->obs + at * s->critic_dim);
        memcpy(s->masks + at * acts, s->team->mask + (size_t)i * acts, acts * sizeof(float));
        s->taken[at] = s->action[i];
        s->old_logp[at] = s->logp[i];
    }
}

/* GAE per agent. A life that ends before the episode does is cut as truncated: its last value. */
static void estimate(struct aw_simppo *s)
{
    const struct aw_simppo_settings *set = &s->settings;
    const uint32_t T = set->horizon, n = s->agents_max;
    const float gamma = (float)set->gamma, lambda = (float)set->lambda;
    for (uint32_t i = 0; i < s->team->world->count; i++) {
        float after = 0;
        for (uint32_t t = T; t-- > 0;) {
            const size_t at = (size_t)t * n + i;
            const bool last = t + 1 == T || !s->alive[at + n];
            const float next = last && !set->bootstrap ? 0 : s->value[at + n];
            const float error = s->reward[at] + gamma * next - s->value[at];
            after = error + (last ? 0 : gamma * lambda * after);
            s->advantage[at] = after;
            s->target[at] = after + s->value[at];
        }
    }
}

static void learn_rows(struct aw_simppo *s, struct aw_ppo_model *net, const uint32_t *row,
                       uint32_t n)
{
    const uint32_t acts = s->team->action_count;
    for (uint32_t k = 0; k < n; k++) {
        const size_t at = row[k];
        memcpy(s->batch_critic + (size_t)k * s->critic_dim, s->obs + at * s->critic_dim,
               s->critic_dim * sizeof(float));
        memcpy(s->batch_obs + (size_t)k * s->actor_dim, s->obs + at * s->critic_dim,
               s->actor_dim * sizeof(float));
        memcpy(s->batch_mask + (size_t)k * acts, s->masks + at * acts, acts * sizeof(float));
        s->batch_action[k] = s->taken[at];
        s->batch_logp[k] = s->old_logp[at];
        s->batch_value[k] = s->value[at];
        s->batch_advantage[k] = s->advantage[at];
        s->batch_target[k] = s->target[at];
    }
    const struct aw_ppo_loss loss = {.clip_range = (float)s->settings.clip,
                                     .value_coef = (float)s->settings.value_coef,
                                     .entropy_coef = (float)s->settings.entropy,
                                     .normalise_advantage = n > 1};
    const struct aw_ppo_batch batch = {.count = n,
                                       .obs = s->batch_obs,
                                       .critic_obs = s->batch_critic,
                                       .mask = s->batch_mask,
                                       .action = s->batch_action,
                                       .logp = s->batch_logp,
                                       .value = s->batch_value,
                                       .advantage = s->batch_advantage,
                                       .target = s->batch_target};
    struct aw_ppo_loss_stats stats;
    aw_ppo_gradient(net, &loss, &batch, &stats);
    const double norm = aw_params_clip_grad_norm(&net->params, s->settings.grad_norm);
    if (isfinite(norm))
        aw_adam_step(&s->adam, &net->params);
}

static void learn(struct aw_simppo *s)
{
    const struct aw_multi_world *w = s->team->world;
    for (uint32_t net = 0; net < s->net_count; net++) {
        uint32_t rows = 0;
        const uint32_t from = s->settings.shared ? 0 : net,
                       to = s->settings.shared ? w->count : net + 1;
        for (uint32_t t = 0; t < s->settings.horizon; t++)
            for (uint32_t i = from; i < to && i < w->count; i++) {
                const size_t at = (size_t)t * s->agents_max + i;
                if (s->alive[at] && s->taken[at] != AW_TEAM_HOLD && net_of(s, i) == net)
                    s->row[rows++] = (uint32_t)at;
            }
        uint32_t size = s->settings.minibatch < ROWS_MAX ? s->settings.minibatch : ROWS_MAX;
        /* with many agents as many minibatches as with few */
        if (s->settings.shared && rows / 16 > size)
            size = rows / 16 < ROWS_MAX ? rows / 16 : ROWS_MAX;
        for (uint32_t epoch = 0; rows > 0 && epoch < s->settings.epochs; epoch++) {
            aw_rng_shuffle(&s->rng, s->row, rows);
            for (uint32_t at = 0; at < rows; at += size)
                learn_rows(s, &s->net[net], s->row + at, rows - at < size ? rows - at : size);
        }
    }
}

double aw_simppo_episode(struct aw_simppo *s, bool learns)
{
    double sum = 0;
    aw_team_observe(s->team);
    for (uint32_t t = 0; t < s->settings.horizon; t++) {
        act_all(s, false);
        hold_others(s);
        if (learns) {
            remember(s, t);
            values_of(s, t);
        }
        aw_team_step(s->team, s->action);
        for (uint32_t i = 0; learns && i < s->team->world->count; i++)
            s->reward[(size_t)t * s->agents_max + i] = s->team->reward[i];
        sum += s->team->team;
        aw_team_observe(s->team);
        if (s->settings.critic == AW_SIMPPO_ALL)
            mean_of_all(s);
    }
    if (learns) {
        values_of(s, s->settings.horizon);
        estimate(s);
        learn(s);
    }
    return sum;
}

void aw_simppo_inherit(struct aw_simppo *s, uint32_t agent, uint32_t from)
{
    if (s->settings.shared)
        return;
    struct aw_params *to = &s->net[agent].params;
    memcpy(to->value, s->net[from].params.value, to->count * sizeof *to->value);
    aw_params_zero_moments(to);
}

void aw_simppo_adopt(struct aw_simppo *s, const struct aw_simppo *from)
{
    AW_ASSERT(s->settings.shared && from->settings.shared);
    for (uint32_t i = 0; i < s->net_count; i++) {
        AW_ASSERT(s->net[i].params.count == from->net[i].params.count);
        memcpy(s->net[i].params.value, from->net[i].params.value,
               from->net[i].params.count * sizeof(float));
    }
}
