/* experiment_tenants.h - what the experiments about tenants share: a stage with world, team and
 * learner, and the variants that are compared. */
#ifndef AW_STUDY_EXPERIMENT_TENANTS_H
#define AW_STUDY_EXPERIMENT_TENANTS_H

#include "multi/serve.h"
#include "study/experiment_internal.h"

#define AW__TENANTS_STEPS   50u
#define AW__TENANTS_SERVED  8u       /* episodes that are reported on */
#define AW__TENANTS_LEARNED 1000000u /* seeds of worlds: those that are learned from, ... */
#define AW__TENANTS_CHOSEN  2000000u /* ... that parameters of rules are chosen on, ... */
#define AW__TENANTS_TOLD    3000000u /* ... and that are reported */

struct aw__tenants_variant {
    const char *name;
    bool alone; /* each function learns on the whole cluster */
    bool shared;
    uint32_t critic;
    double team_weight;
    double paper_reward; /* published: team reward against S-RL alone; NAN: not */
    double turn_s;       /* that an agent's turn takes, one after the other; 0: all at once */
    bool difference;     /* rewards, see team.h */
};
/* clang-format off */
enum { AW__TENANTS_ALONE, AW__TENANTS_TOGETHER, AW__TENANTS_IL, AW__TENANTS_IPPO,
       AW__TENANTS_SIMPPO, AW__TENANTS_SIMPPO_TEAM, AW__TENANTS_UNSHARED, AW__TENANTS_ALL,
       AW__TENANTS_CPQ, AW__TENANTS_MAPPO, AW__TENANTS_DIFFERENCE, AW__TENANTS_DIFFERENCE_LOCAL,
       AW__TENANTS_VARIANTS };
/* clang-format on */
extern const struct aw__tenants_variant aw__tenants_variants[AW__TENANTS_VARIANTS];

struct aw__tenants_stage {
    struct aw_multi_world world;
    struct aw_team team;
    struct aw_simppo *agents;
    struct aw_serve serve;
};
/* `agents` functions now, `most` at the most. On failure a deinit is still due. */
AW_NODISCARD enum aw_err aw__tenants_begin(struct aw__tenants_stage *stage,
                                           const struct aw__tenants_variant *variant,
                                           uint32_t agents, uint32_t most, double offered,
                                           uint64_t seed, const struct aw_alloc *alloc,
                                           struct aw_diag *diag);
void aw__tenants_end(struct aw__tenants_stage *stage);
/* Learns for `episodes`; `curve` (may be NULL) [episodes]: the team's reward of each step. */
void aw__tenants_learn(struct aw__tenants_stage *stage, bool alone, uint32_t episodes,
                       uint64_t seed, double *curve);

#endif
