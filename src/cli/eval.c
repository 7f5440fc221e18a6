/* eval.c - the verb `eval`: how good the policy in a run directory is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/summary.h"
#include "frame/verbs.h"
#include "train/train.h"

#define EVAL_EPISODES_MAX 100000u

static enum aw_err eval_print(const struct aw_call *run, const struct aw_train_config *config,
                              const struct aw_returns *returns, uint64_t seed, double seconds,
                              struct aw_diag *diag)
{
    double solved = aw_solved_return(config->env);
    char text[256], time[32];
    if (run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "env", json_string(config->env));
        json_object_set_new(object, "agent", json_string(config->agent));
        json_object_set_new(object, "dir", json_string(run->args->positional[0]));
        json_object_set_new(object, "seed", json_integer((json_int_t)seed));
        json_object_update_new(object, aw_returns_json(returns));
        json_object_set_new(object, "solved_return", aw_json_real(solved));
        json_object_set_new(object, "solved",
                            isnan(solved) ? json_null() : json_boolean(returns->mean >= solved));
        json_object_set_new(object, "seconds", aw_json_real(seconds));
        return aw_json_print(object, diag);
    }
    printf("%s%s on %s%s, evaluation seed %" PRIu64 "\n", run->color_out ? "\033[1m" : "",
           config->agent, config->env, run->color_out ? "\033[0m" : "", seed);
    printf("  %s\n", aw_returns_text(returns, text, sizeof text));
    printf("  std %.1f, min %.1f, median %.1f, max %.1f\n", returns->std, returns->min,
           returns->median, returns->max);
    if (!isnan(solved))
        printf("  solved: %s (at %g)\n", returns->mean >= solved ? "yes" : "no", solved);
    printf("  took %s\n", aw_seconds_format(seconds, time, sizeof time));
    return AW_OK;
}

static enum aw_err eval_run(const struct aw_call *run, struct aw_diag *diag)
{
    uint32_t count = (uint32_t)aw_args_number(run->args, "episodes");
    uint64_t seed = aw_args_number(run->args, "seed");
    struct aw_train *train = NULL;
    struct aw_returns summary;
    double *returns = NULL;
    enum aw_err err = aw_train_open(run->args->positional[0], NULL, &train, diag);
    if (err)
        return err;
    if (!(returns = aw_alloc_new(NULL, count, sizeof *returns))) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u returns", count);
        goto out;
    }
    int64_t begin_us = aw_clock_monotonic_us(NULL);
    if ((err = aw_train_evaluate(train, count, seed, returns, diag)) ||
        (err = aw_returns_of(returns, count, &summary, diag)))
        goto out;
    double seconds = (double)(aw_clock_monotonic_us(NULL) - begin_us) / 1e6;
    err = eval_print(run, aw_train_config(train), &summary, seed, seconds, diag);
out:
    aw_alloc_free(NULL, returns);
    aw_train_free(train);
    return err;
}

static const struct aw_option eval_options[] = {
    AW_NUMBER("episodes", 'n', "N", "100", 1, EVAL_EPISODES_MAX, "episodes to play"),
    AW_NUMBER("seed", 's', "N", "1000", 0, AW_TRAIN_SEED_MAX,
              "where the episodes start; never those of the training"),
    {.name = NULL},
};
static const struct aw_positional eval_positionals[] = {
    {.name = "DIR", .kind = AW_ARG_DIR, .help = "a run directory that 'aware train --out' made"},
    {.name = NULL},
};
static const struct aw_example eval_examples[] = {
    {"aware train eval runs/cart", "100 deterministic episodes"},
    {"aware train eval runs/cart --episodes 1000 --seed 7 --output json",
     "more of them, for a script"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_eval = {
    .name = "train eval",
    .summary = "Evaluate the policy of a run",
    .text = "Plays deterministic episodes on fresh environments and reports the mean return with "
            "its 95% bootstrap interval. The same directory, seed and number of episodes give "
            "the same figures.",
    .options = eval_options,
    .positionals = eval_positionals,
    .examples = eval_examples,
    .json = true,
    .run = eval_run,
};
