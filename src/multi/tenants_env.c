/* tenants_env.c - see tenants_env.h. */
#include "multi/tenants_env.h"

#include <math.h>
#include <string.h>

#include "multi/team.h"

#define EPISODE_STEPS_MAX 100000u
#define CHANCE_STREAM     1u /* of who comes and goes; the world's is 0 */

struct settings {
    struct aw_multi_settings world;
    uint32_t actions; /* enum aw_team_actions */
    bool paper;
    double alpha, team_weight;
    double joins;  /* functions that come in a step, on average */
    double leaves; /* share of the functions that go in a step */
    uint32_t episode_steps;
};

static const char *const action_names[] = {"steps", "anchored", NULL};
#define AW_CONF_OF struct settings
static const struct aw_conf_field fields[] = {
    AW_MULTI_FIELDS(world.),
    AW_CONF_ONE_OF(actions, "anchored", action_names,
                   "steps: nothing, a container or 128 shares more or less, as the paper has it; "
                   "anchored: containers of square-root staffing with a factor, and shares."),
    AW_CONF_PLAIN(paper, "false",
                  "State, penalties and reward as printed; with actions=steps, alpha=0.3 and "
                  "team_weight=1 it is the paper's task."),
    AW_CONF_NUMBER(alpha, "0.7", 0, 1,
                   "Weight of SLO preservation in the reward; the rest is CPU utilization."),
    AW_CONF_NUMBER(team_weight, "0.25", 0, 1,
                   "Weight of the mean of all in an agent's reward; 1 is the team's alone."),
    AW_CONF_NUMBER(joins, "0", 0, 100,
                   "Functions that come in a step, on average, while agents_max has room."),
    AW_CONF_NUMBER(leaves, "0", 0, 0.5,
                   "Share of the functions that go in a step, on average; the last one stays."),
    AW_CONF_NUMBER(episode_steps, "50", 1, EPISODE_STEPS_MAX,
                   "Steps of an episode (T of Table 4.2)."),
    {0},
};
#undef AW_CONF_OF

/* --- spaces ----------------------------------------------------------------------------------- */

static const struct aw_space_axis observation_axes[AW_TEAM_LOCAL] = {
    {"slo_preserved", "share", 0, 1},
    {"cpu_use", "share", 0, 1},
    {"memory_use", "share", 0, 1},
    {"rate_change", "share", -1, 1},
    {"shares", "of 2048", 0, 1},
    {"container_memory", "GiB", 0, 1},
    {"containers", "of 24", 0, 1},
    {"busy", "of 24", 0, INFINITY},
    {"node_pressure", "runnable per core", 0, 2},
    {"backlog", "steps", 0, 1},
    {"p99_over_slo", "logarithm", -2.31f, 2.31f},
    {"pending", "of 24", -1, 1},
};

static const struct aw_space_axis context_axes[AW_TEAM_AUX] = {
    {"cores_mean", "nodes", 0, INFINITY},
    {"memory_mean", "nodes", 0, INFINITY},
    {"vertical_mean", "512 shares", -INFINITY, INFINITY},
    {"horizontal_mean", "4 containers", -INFINITY, INFINITY},
    {"slo_preserved_mean", "share", 0, 1},
    {"use_mean", "share", 0, 1},
    {"cores_deviation", "nodes", 0, INFINITY},
    {"memory_deviation", "nodes", 0, INFINITY},
    {"vertical_deviation", "512 shares", 0, INFINITY},
    {"horizontal_deviation", "4 containers", 0, INFINITY},
    {"slo_preserved_deviation", "share", 0, 1},
    {"use_deviation", "share", 0, 1},
};

static const struct aw_space_axis steps_axes[AW_TEAM_STEPS_COUNT] = {
    {"nothing", "", 0, 0},     {"container_more", "", 0, 0}, {"container_less", "", 0, 0},
    {"shares_more", "", 0, 0}, {"shares_less", "", 0, 0},
};

static const struct aw_space_axis anchored_axes[AW_TEAM_ANCHORED_COUNT] = {
    {"staffing_1_at_512", "", 0, 0},  {"staffing_2_at_512", "", 0, 0},
    {"staffing_3_at_512", "", 0, 0},  {"staffing_4.5_at_512", "", 0, 0},
    {"staffing_1_at_1024", "", 0, 0}, {"staffing_2_at_1024", "", 0, 0},
    {"staffing_3_at_1024", "", 0, 0}, {"staffing_4.5_at_1024", "", 0, 0},
};

static const struct aw_parallel_spec default_spec = {
    .name = "tenants-v0",
    .summary = "Functions of one cluster that scale at once: who has cores takes them from others",
    .observation = {AW_SPACE_BOX, AW_TEAM_LOCAL, 0, observation_axes},
    .context = {AW_SPACE_BOX, AW_TEAM_AUX, 0, context_axes},
    .action = {AW_SPACE_DISCRETE, 1, AW_TEAM_ANCHORED_COUNT, anchored_axes},
    .agents_max = 12,
    .episode_steps_max = 50,
    .reward_low = -1,
    .reward_high = 1,
};

/* --- the environment -------------------------------------------------------------------------- */

struct tenants {
    struct aw_parallel_spec spec;
    struct settings settings;
    struct aw_multi_world world;
    struct aw_team team;
    struct aw_rng chance;
    uint32_t steps;
    uint8_t *action; /* [agents_max] */
    const struct aw_alloc *alloc;
};

static float within(const struct aw_space_axis *axis, float x)
{
    return fminf(fmaxf(x, axis->low), axis->high); /* sums in floating point miss by a last digit */
}

static void write_row(const struct tenants *t, uint32_t i, struct aw_parallel_rows *rows)
{
    const struct aw_team *team = &t->team;
    const size_t n = t->spec.action.n;
    float *obs = rows->obs + (size_t)i * AW_TEAM_LOCAL;
    float *context = rows->context + (size_t)i * AW_TEAM_AUX;
    for (uint32_t k = 0; k < AW_TEAM_LOCAL; k++)
        obs[k] = within(&observation_axes[k], team->local[(size_t)i * AW_TEAM_LOCAL + k]);
    for (uint32_t k = 0; k < AW_TEAM_AUX; k++)
        context[k] = within(&context_axes[k], team->aux[(size_t)i * AW_TEAM_AUX + k]);
    for (uint32_t k = 0; k < n; k++)
        rows->allowed[i * n + k] = team->mask[i * n + k] >= 0;
    rows->reward[i] = fminf(fmaxf(team->reward[i], t->spec.reward_low), t->spec.reward_high);
}

static enum aw_err tenants_reset(void *self, uint64_t seed, struct aw_parallel_rows *rows)
{
    struct tenants *t = self;
    aw_rng_init(&t->chance, seed, CHANCE_STREAM);
    aw_multi_reset(&t->world, seed);
    aw_team_begin(&t->team);
    aw_team_observe(&t->team);
    t->steps = 0;
    memset(rows->flags, 0, t->spec.agents_max);
    for (uint32_t i = 0; i < t->world.count; i++) {
        rows->flags[i] = AW_PARALLEL_LIVE | AW_PARALLEL_JOINED;
        write_row(t, i, rows);
    }
    return AW_OK;
}

/* Who goes, in `flags`. */
static bool draw_leavers(struct tenants *t, uint8_t *flags)
{
    uint32_t left = t->world.live;
    for (uint32_t i = 0; t->settings.leaves > 0 && i < t->world.count; i++)
        if (flags[i] && left > 1 && aw_rng_uniform(&t->chance, 0, 1) < t->settings.leaves) {
            flags[i] = AW_PARALLEL_TERMINATED;
            left--;
        }
    return left < t->world.live;
}

static bool let_join(struct tenants *t, uint8_t *flags)
{
    const double joins = t->settings.joins;
    if (joins <= 0)
        return false;
    uint32_t count = (uint32_t)(joins + aw_rng_uniform(&t->chance, 0, 1));
    bool any = false;
    for (; count > 0 && t->world.count < t->spec.agents_max; count--, any = true) {
        const uint32_t kind = aw_rng_below(&t->chance, AW_MULTI_FUNCTIONS);
        const uint32_t i = aw_multi_append(&t->world, kind, true);
        aw_team_join(&t->team, i);
        flags[i] = AW_PARALLEL_LIVE | AW_PARALLEL_JOINED;
    }
    return any;
}

static void churn(struct tenants *t, struct aw_parallel_rows *rows)
{
    const bool left = draw_leavers(t, rows->flags);
    for (uint32_t i = 0; left && i < t->world.count; i++)
        if (rows->flags[i] & AW_PARALLEL_TERMINATED) {
            write_row(t, i, rows); /* its last */
            aw_multi_remove(&t->world, i, true);
        }
    const bool joined = let_join(t, rows->flags);
    if (left || joined) /* what the others see of all others */
        aw_team_observe(&t->team);
}

static enum aw_err tenants_step(void *self, const float *action, struct aw_parallel_rows *rows)
{
    struct tenants *t = self;
    AW_ASSERT(t->world.live > 0 && t->steps < t->spec.episode_steps_max);
    for (uint32_t i = 0; i < t->world.count; i++) {
        if (t->world.here[i] && !aw_space_accepts(&t->spec.action, &action[i]))
            return AW_ERR_RANGE;
        t->action[i] = t->world.here[i] ? (uint8_t)action[i] : 0;
    }
    aw_team_step(&t->team, t->action);
    aw_team_observe(&t->team);
    t->steps++;
    const bool over = t->steps == t->spec.episode_steps_max;
    memset(rows->flags, 0, t->spec.agents_max);
    for (uint32_t i = 0; i < t->world.count; i++)
        if (t->world.here[i])
            rows->flags[i] = over ? AW_PARALLEL_TRUNCATED : AW_PARALLEL_LIVE;
    if (!over)
        churn(t, rows);
    for (uint32_t i = 0; i < t->world.count; i++)
        if (t->world.here[i])
            write_row(t, i, rows);
    return AW_OK;
}

static void tenants_free(void *self)
{
    struct tenants *t = self;
    if (!t)
        return;
    aw_team_deinit(&t->team);
    aw_multi_deinit(&t->world);
    aw_alloc_free(t->alloc, t->action);
    aw_alloc_free(t->alloc, t);
}

static const struct aw_parallel_ops ops = {tenants_reset, tenants_step, tenants_free};

static enum aw_err tenants_make(const void *given, const struct aw_alloc *alloc,
                                struct aw_parallel *ret_env, struct aw_diag *diag)
{
    const struct settings *settings = given;
    struct tenants *t = aw_alloc_new(alloc, 1, sizeof *t);
    if (!t)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for tenants-v0");
    *t = (struct tenants){.spec = default_spec, .settings = *settings, .alloc = alloc};
    const struct aw_team_settings how = {.actions = settings->actions,
                                         .paper = settings->paper,
                                         .alpha = settings->alpha,
                                         .team_weight = settings->team_weight};
    enum aw_err err = aw_multi_init(&t->world, &settings->world, alloc, diag);
    if (!err && (err = aw_team_init(&t->team, &t->world, &how, alloc)))
        (void)aw_fail(diag, err, "no memory for %u agents", t->world.settings.agents_max);
    if (!err && !(t->action = aw_alloc_new(alloc, t->world.settings.agents_max, 1)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for actions");
    if (err) {
        tenants_free(t);
        return err;
    }
    t->spec.agents_max = t->world.settings.agents_max;
    t->spec.episode_steps_max = settings->episode_steps;
    if (settings->actions == AW_TEAM_STEPS)
        t->spec.action = (struct aw_space){AW_SPACE_DISCRETE, 1, AW_TEAM_STEPS_COUNT, steps_axes};
    *ret_env = (struct aw_parallel){.spec = &t->spec, .ops = &ops, .self = t};
    return AW_OK;
}

const struct aw_parallel_factory aw_tenants_factory = {
    .spec = &default_spec,
    .fields = fields,
    .settings_bytes = sizeof(struct settings),
    .make = tenants_make,
};
