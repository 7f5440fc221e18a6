/*
 * team.h - the multi-agent environment over multi/world.h: parallel, agents come and go, flat
 * arrays.
 *
 * All agents act at once. What agent i sees is row i of `local` (its own state) and of `aux` (all
 * others, leave-one-out), what it may do row i of `mask`, what it got element i of `own`.
 * Rows of agents that are not there (world.here) are zeroed, and nobody reads them.
 *
 * The local state begins with the seven numbers of SIMPPO (thesis, Table 4.1); five more are ours
 * and are left zero with `paper`. The auxiliary state is made of what the world was seen to do,
 * never of what agents say, and every figure of it is divided so that the number of agents does not
 * matter.
 *
 * Call order: init on a world; reset the world, then begin; observe, step, observe, step ...
 * Memory:     one block at init for the world's agents_max. Nothing else allocates.
 * Threads:    single owner, of the world too.
 */
#ifndef AW_MULTI_TEAM_H
#define AW_MULTI_TEAM_H

#include "multi/world.h"

#define AW_TEAM_LOCAL   12u
#define AW_TEAM_FIGURES 6u /* of which aux has leave-one-out mean and deviation */
#define AW_TEAM_AUX     (2 * AW_TEAM_FIGURES)

/* What an action is. */
enum aw_team_actions {
    AW_TEAM_STEPS,    /* nothing, a container more or less, 128 shares more or less */
    AW_TEAM_ANCHORED, /* containers of square-root staffing with a chosen factor, and shares */
};
#define AW_TEAM_STEPS_COUNT    5u
#define AW_TEAM_ANCHORED_COUNT 8u
#define AW_TEAM_ACTIONS_MAX    8u
#define AW_TEAM_HOLD           UINT8_MAX /* not its turn: what it wants stays */

struct aw_team_settings {
    uint32_t actions;   /* enum aw_team_actions */
    bool paper;         /* state, penalties and memory in the reward as printed */
    double alpha;       /* weight of SLO preservation in the reward */
    double team_weight; /* of the mean over all in the reward that is learned from; 1: team alone */
    bool difference;    /* learned from besides: what all others lose by it, against the same step
                           in which it holds the least; world.h's world alone */
};
/* Ours, and the paper's. */
void aw_team_settings_init(struct aw_team_settings *settings, bool paper);

struct aw_team;
/* Agents in another world than world.h's: it fills in what they see and get. Of the world itself
 * then only who is there (count, live, here) and each one's category are read. */
struct aw_team_drive {
    void *ctx;
    void (*observe)(void *ctx,
                    struct aw_team *team); /* `local` and `figures` of all that are there */
    /* One step of all; `own` of all that are there. */
    void (*step)(void *ctx, struct aw_team *team, const uint8_t *action);
};

struct aw_team {
    struct aw_team_settings settings;
    const struct aw_team_drive *drive; /* borrowed; NULL: none, it is world.h's */
    struct aw_multi_world *world;
    uint32_t action_count;
    float *local;   /* [agents_max][AW_TEAM_LOCAL] */
    float *aux;     /* [agents_max][AW_TEAM_AUX] */
    float *figures; /* [agents_max][AW_TEAM_FIGURES]: what aux is made of */
    float *mask; /* [agents_max][action_count]: 0, or a large negative number to add to a logit */
    float *own, *reward;          /* of the last step: its own, and what is learned from */
    float *vertical, *horizontal; /* changes as carried out in the last step, -1 to 1 */
    float *smooth;                /* requests/s, as staffing sees them */
    uint8_t *last;                /* action of the step before; 0 of STEPS is nothing */
    double team;                  /* mean of all own rewards of the last step */
    float *caused;                /* with `difference`: what all others got more or less by it */
    void *saved;                  /* the same: the world, to go back to */
    const struct aw_alloc *alloc;
    void *block;
};

AW_NODISCARD enum aw_err aw_team_init(struct aw_team *team, struct aw_multi_world *world,
                                      const struct aw_team_settings *settings,
                                      const struct aw_alloc *alloc);
void aw_team_deinit(struct aw_team *team);
/* After a reset of the world. */
void aw_team_begin(struct aw_team *team);
/* A newcomer of the world: nothing of its slot's past. */
void aw_team_join(struct aw_team *team, uint32_t agent);
void aw_team_observe(struct aw_team *team);
/* action [world.count]; those of agents that are not there are not read. */
void aw_team_step(struct aw_team *team, const uint8_t *action);
/* The two halves of it, for who changes what is wanted in between. */
void aw_team_act(struct aw_team *team, const uint8_t *action);
void aw_team_finish(struct aw_team *team);
/* A step in which somebody else has set containers and shares (rules): rewards alone. */
void aw_team_step_set(struct aw_team *team);

/* Containers of square-root staffing: R + c sqrt(R), for the smoothed rate. */
uint32_t aw_team_staffing(const struct aw_team *team, uint32_t agent, double c);

#endif
