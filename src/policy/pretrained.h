/*
 * pretrained.h - a model that was taught on many applications, made into a policy for one workload.
 *
 * A model (meta/context.h, as `aware pretrain` writes it) is an actor that sees a state and the
 * embedding of the workload, and the encoder that makes this embedding from episodes of the
 * fallback. The embedding of a workload does not change from state to state, so what it does to the
 * first layer is a bias: W [x, e] + b = W_x x + (W_e e + b). Folded in, what is left is a network
 * of the shape that a pilot serves, tries, saves and exports.
 *
 * Call order: open; fits; bundle_init, filled with episodes; specialise; close. Or a shelf, which
 *             opens each file once for a whole process.
 * Memory:     all at open; specialise allocates its scratch and frees it.
 * Threads:    read-only after open: any number of pilots may specialise at once. A shelf has one
 *             owner.
 *
 * The trap: an encoder understands rewards as it was taught with, which are not the pilot's. Use
 * aw_pretrained_reward for the episodes of a bundle.
 */
#ifndef AW_POLICY_PRETRAINED_H
#define AW_POLICY_PRETRAINED_H

#include "base/alloc.h"
#include "meta/bundle.h"
#include "policy/library.h"
#include "policy/peers_model.h"
#include "rl/actnet.h"

#define AW_PRETRAINED_NAME_MAX 40u /* bytes, with the NUL */

struct aw_pretrained_info {
    char name[AW_PRETRAINED_NAME_MAX]; /* of its file, without folder and ending */
    uint64_t checksum;                 /* of its weights, as its card has it */
    uint32_t state, mapping;           /* enum aw_state_preset, enum aw_action_mapping */
    uint32_t hidden;                   /* units of each of the actor's two layers */
    uint32_t episodes, steps;          /* that a workload is known by at most, and of each */
};

struct aw_pretrained; /* opaque */

/* The shared model that a policy is of, made for this workload, or (a formula) was searched for
 * from; checksum 0: it is of none. */
struct aw_policy_origin {
    char name[AW_PRETRAINED_NAME_MAX];
    uint64_t checksum;
    uint32_t episodes; /* of the fallback, that the workload was known by */
    uint32_t unused_;  /* 0 */
};

/* AW_ERR_NOTFOUND: no such file. AW_ERR_FORMAT: damaged, or not a model of `aware pretrain`.
 * AW_ERR_DIVERGED: a weight is no number. AW_ERR_UNSUPPORTED: one that no pilot can use, with what
 * is odd about it. */
AW_NODISCARD enum aw_err aw_pretrained_open(const char *path, const struct aw_alloc *alloc,
                                            struct aw_pretrained **ret_model, struct aw_diag *diag);
void aw_pretrained_close(struct aw_pretrained *model); /* NULL is a no-op */
const struct aw_pretrained_info *aw_pretrained_info(const struct aw_pretrained *model);
const char *aw_pretrained_path(const struct aw_pretrained *model); /* it was read from */

/* Whether a pilot that sees `state`, acts by `mapping` and serves networks of `hidden` units (0: it
 * serves none) can use it. AW_ERR_CONFIG: what differs. */
AW_NODISCARD enum aw_err aw_pretrained_fits(const struct aw_pretrained *model, uint32_t state,
                                            uint32_t mapping, uint32_t hidden,
                                            struct aw_diag *diag);

/* A step's reward as the encoder reads it, from SLO preservation and utilisations in [0, 1]. */
double aw_pretrained_reward(const struct aw_pretrained *model, double slo_preservation,
                            double cpu_utilisation, double memory_utilisation, bool violated);
/* Room for the episodes that a workload is known by. */
AW_NODISCARD enum aw_err aw_pretrained_bundle_init(const struct aw_pretrained *model,
                                                   const struct aw_alloc *alloc,
                                                   struct aw_bundle *ret_bundle);
/* `actor`, of the model's shape, becomes the policy for the workload that `bundle` is of, sealed.
 * AW_ERR_NODATA: an empty bundle. After a failure `actor` is as it was. */
AW_NODISCARD enum aw_err aw_pretrained_specialise(const struct aw_pretrained *model,
                                                  const struct aw_bundle *bundle,
                                                  const struct aw_alloc *alloc,
                                                  struct aw_actnet *actor, struct aw_diag *diag);

/* --- the models of a process ------------------------------------------------------------------ */

#define AW_MODEL_SHELF_FOLDERS_MAX 4u
#define AW_MODEL_SHELF_MODELS_MAX  32u
#define AW_MODEL_SHELF_PATH_MAX    512u
#define AW_MODEL_SHELF_SHIPPED     "shipped"
#define AW_MODEL_SHELF_NONE        "none"
#define AW_MODEL_SHELF_FILE        "default.safetensors" /* that is shipped */
#define AW_MODEL_SHELF_LIBRARY     "library.safetensors" /* likewise, of capacity rules */
#define AW_MODEL_SHELF_PEERS       "multi.safetensors"   /* likewise, of agents of one cluster */

struct aw_model_shelf; /* opaque */

/* `folders` [count], where a shipped model is looked for, the first first; NULL and "" are left
 * out. AW_ERR_LIMIT: too many, or a path too long. */
AW_NODISCARD enum aw_err aw_model_shelf_new(const char *const *folders, size_t count,
                                            const struct aw_alloc *alloc,
                                            struct aw_model_shelf **ret_shelf,
                                            struct aw_diag *diag);
void aw_model_shelf_free(struct aw_model_shelf *shelf); /* closes all; NULL is a no-op */

/* "none": NULL. "shipped": the first that a folder has; AW_ERR_NOTFOUND: none has. Else a path. A
 * file that was refused is refused again without being read. `ret_model` lives as long as the
 * shelf. */
AW_NODISCARD enum aw_err aw_model_shelf_get(struct aw_model_shelf *shelf, const char *what,
                                            const struct aw_pretrained **ret_model,
                                            struct aw_diag *diag);

/* The same of a library of capacity rules (library.h). */
AW_NODISCARD enum aw_err aw_model_shelf_library(struct aw_model_shelf *shelf, const char *what,
                                                const struct aw_library **ret_library,
                                                struct aw_diag *diag);
/* The same of networks of agents that learned together (peers_model.h). */
AW_NODISCARD enum aw_err aw_model_shelf_peers(struct aw_model_shelf *shelf, const char *what,
                                              const struct aw_peers_model **ret_peers,
                                              struct aw_diag *diag);

#endif
