/* summary.c - the figures at the end of a run. */
#include "frame/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "frame/json.h"
#include "frame/layout.h"

#define BOOTSTRAP_RESAMPLES 2000u
#define BOOTSTRAP_SEED      0x95u /* any fixed one: the same returns give the same interval */

enum aw_err aw_returns_of(const double *returns, uint32_t count, struct aw_returns *ret,
                          struct aw_diag *diag)
{
    *ret = (struct aw_returns){0, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (!count)
        return AW_OK;
    struct aw_rng rng;
    double *scratch = aw_alloc_new(NULL, count + (size_t)BOOTSTRAP_RESAMPLES, sizeof *scratch);
    if (!scratch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the figures of %u episodes", count);
    aw_rng_init(&rng, BOOTSTRAP_SEED, 0);
    struct aw_stats stats = aw_stats_of(returns, count, scratch);
    struct aw_interval interval =
        aw_stats_bootstrap_mean(returns, count, 0.95, BOOTSTRAP_RESAMPLES, &rng, scratch);
    aw_alloc_free(NULL, scratch);
    *ret = (struct aw_returns){
        .count = count,
        .mean = stats.mean,
        .low = interval.low,
        .high = interval.high,
        .std = stats.std,
        .min = stats.min,
        .median = stats.median,
        .max = stats.max,
    };
    return AW_OK;
}

json_t *aw_returns_json(const struct aw_returns *returns)
{
    json_t *object = json_object();
    json_object_set_new(object, "episodes", json_integer(returns->count));
    json_object_set_new(object, "return_mean", aw_json_real(returns->mean));
    json_object_set_new(object, "return_low_95", aw_json_real(returns->low));
    json_object_set_new(object, "return_high_95", aw_json_real(returns->high));
    json_object_set_new(object, "return_std", aw_json_real(returns->std));
    json_object_set_new(object, "return_min", aw_json_real(returns->min));
    json_object_set_new(object, "return_median", aw_json_real(returns->median));
    json_object_set_new(object, "return_max", aw_json_real(returns->max));
    return object;
}

const char *aw_returns_text(const struct aw_returns *returns, char *buf, size_t size)
{
    if (!returns->count)
        snprintf(buf, size, "no episode has ended");
    else
        snprintf(buf, size, "return %.1f (95%% interval %.1f to %.1f) over %u episode%s",
                 returns->mean, returns->low, returns->high, returns->count,
                 returns->count == 1 ? "" : "s");
    return buf;
}

double aw_solved_return(const char *env)
{
    const struct aw_env_factory *factory = NULL;
    return aw_env_find(env, &factory, NULL) ? (double)NAN : (double)factory->spec->solved_return;
}

enum aw_err aw_summary_print(const struct aw_summary *summary, bool color)
{
    const struct aw_train_config *config = summary->config;
    const struct aw_train_progress *at = summary->progress;
    double solved = aw_solved_return(config->env);
    char text[256], rate[32], seconds[32];
    printf("%s%s on %s%s, seed %" PRIu64 "%s%s\n", color ? "\033[1m" : "", config->agent,
           config->env, color ? "\033[0m" : "", config->seed, *config->preset ? ", preset " : "",
           config->preset);
    printf("  steps       %" PRIu64 " in %s (%s steps/s)\n", at->step,
           aw_seconds_format(summary->seconds, seconds, sizeof seconds),
           aw_count_format(summary->steps_per_second, rate, sizeof rate));
    printf("  updates     %" PRIu64 "\n  episodes    %" PRIu64 "\n", at->update_count,
           at->episode_count);
    if (at->bootstrap_count)
        printf("  bootstrap   return %.1f over %" PRIu64
               " episode%s of the environment's own agent\n",
               at->bootstrap_return, at->bootstrap_count, at->bootstrap_count == 1 ? "" : "s");
    printf("  training    %s\n", aw_returns_text(summary->training, text, sizeof text));
    if (summary->evaluation)
        printf("  evaluation  %s\n", aw_returns_text(summary->evaluation, text, sizeof text));
    if (summary->evaluation && !isnan(solved))
        printf("  solved      %s (at %g)\n", summary->evaluation->mean >= solved ? "yes" : "no",
               solved);
    if (!summary->dir) {
        printf("  files       none: --out was not given, nothing was saved\n");
        return AW_OK;
    }
    printf("  files       %s\n\nNext:\n  aware train eval %s\n", summary->dir, summary->dir);
    printf("  aware train --resume %s --steps %" PRIu64 "\n  tensorboard --logdir %s\n",
           summary->dir, 2 * config->steps, summary->dir);
    return AW_OK;
}

json_t *aw_summary_json(const struct aw_summary *summary)
{
    const struct aw_train_config *config = summary->config;
    const struct aw_train_progress *at = summary->progress;
    double solved = aw_solved_return(config->env);
    json_t *object = json_object();
    json_object_set_new(object, "env", json_string(config->env));
    json_object_set_new(object, "agent", json_string(config->agent));
    json_object_set_new(object, "preset", json_string(config->preset));
    json_object_set_new(object, "seed", json_integer((json_int_t)config->seed));
    json_object_set_new(object, "envs", json_integer(config->env_count));
    json_object_set_new(object, "steps", json_integer((json_int_t)at->step));
    json_object_set_new(object, "updates", json_integer((json_int_t)at->update_count));
    json_object_set_new(object, "episodes", json_integer((json_int_t)at->episode_count));
    if (at->bootstrap_count) {
        json_t *bootstrap = json_object();
        json_object_set_new(bootstrap, "episodes", json_integer((json_int_t)at->bootstrap_count));
        json_object_set_new(bootstrap, "return_mean", aw_json_real(at->bootstrap_return));
        json_object_set_new(object, "bootstrap", bootstrap);
    }
    json_object_set_new(object, "seconds", aw_json_real(summary->seconds));
    json_object_set_new(object, "steps_per_second", aw_json_real(summary->steps_per_second));
    json_object_set_new(object, "training", aw_returns_json(summary->training));
    json_object_set_new(object, "evaluation",
                        summary->evaluation ? aw_returns_json(summary->evaluation) : json_null());
    json_object_set_new(object, "solved_return", aw_json_real(solved));
    json_object_set_new(object, "solved",
                        summary->evaluation && !isnan(solved)
                            ? json_boolean(summary->evaluation->mean >= solved)
                            : json_null());
    json_object_set_new(object, "dir", summary->dir ? json_string(summary->dir) : json_null());
    return object;
}
