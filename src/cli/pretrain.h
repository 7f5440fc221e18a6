/*
 * pretrain.h - what the files of the verb `pretrain` share: what was asked, what has happened, and
 * how it is printed.
 *
 * Memory:  a point per round.
 * Threads: single owner.
 */
#ifndef AW_CLI_PRETRAIN_H
#define AW_CLI_PRETRAIN_H

#include "frame/status_line.h"
#include "frame/verb.h"
#include "lab/appset.h"
#include "meta/known_apps.h"
#include "pretrain/mpi_team.h"
#include "pretrain/pretrain.h"

#define AW__PRETRAIN_COMMAND_MAX 1024u

/* A round as it went. */
struct aw__pretrain_point {
    uint32_t round;
    bool checked, best;
    struct aw_pretrain_score learned, check;
};

struct aw__pretrain {
    const struct aw_call *run;
    struct aw_appset pool;
    struct aw_apps learn_file, check_file; /* where --apps and --check name files */
    struct aw_pretrain_config config;
    struct aw_mpi_team team;
    struct aw_pretrain *pretrain;
    bool paper;
    struct aw_status_line line;
    bool begun;        /* all processes of the team have */
    bool silent;       /* another one tells what went wrong */
    uint32_t patience; /* 0: never stops early */
    uint32_t predict;  /* episodes in each application for validation, at the end */
    bool adapting;     /* to those, right now .. */
    int64_t adapt_us;  /* .. since then */
    struct aw_known_apps_line drop, episodes; /* what the model predicts */
    char model[AW_TEXT_MAX], card[AW_TEXT_MAX];
    char state[AW_TEXT_MAX]; /* "": none */
    char command[AW__PRETRAIN_COMMAND_MAX];
    struct aw__pretrain_point *point; /* of this session; a ring is not needed: rounds are few */
    uint32_t point_count, rounds_before;
    struct aw_pretrain_score fallback; /* on the applications for validation */
    bool early;                        /* stopped by its patience */
    int64_t begin_us, learn_us;        /* of this session, and of its first round */
    double cpu_s;
};

/* The files of --out, a model and its card; `what` is what is made. Their folder is made. */
AW_NODISCARD enum aw_err aw__pretrain_files(const struct aw_args *args, const char *what,
                                            size_t size, char *ret_model, char *ret_card,
                                            struct aw_diag *diag);

/* --- while it runs, on stderr --- */
bool aw__pretrain_met(void *ask, uint32_t done, uint32_t total); /* a hook of pretraining */
void aw__pretrain_announce(const struct aw__pretrain *ask, bool resumed);
void aw__pretrain_row(struct aw__pretrain *ask, const struct aw__pretrain_point *point);

/* --- at the end --- */
AW_NODISCARD enum aw_err aw__pretrain_card_write(const struct aw__pretrain *ask,
                                                 struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__pretrain_print(const struct aw__pretrain *ask, struct aw_diag *diag);

#endif
