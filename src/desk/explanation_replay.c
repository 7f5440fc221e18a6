/*
 * explanation_replay.c - decisions taken again: as they were, with a figure a little different, and
 * with a copy of the workload asked what came of them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/pilot_peek.h"
#include "desk/explanation_internal.h"
#include "policy/capacity.h"

/* Relative changes that are tried, until one makes a difference: amounts are whole numbers, and
 * rules have tolerances of a tenth. */
static const double tried[] = {0.05, 0.15, 0.4};

static const char *const input_names[] = {
#define X(id, member, unit) #member,
    AW_INPUT_MAP(X)
#undef X
};
_Static_assert(AW_INPUT_COUNT <= AW_EXPLANATION_PUSHES_MAX, "every input can be told of");

/* --- again ------------------------------------------------------------------------------------
 */

static enum aw_err load(struct aw_pilot *pilot, const struct aw_explanation_snapshot *moment,
                        struct aw_diag *diag)
{
    const enum aw_err err = aw_pilot_snapshot_load(pilot, moment->bytes, moment->size);
    return err ? aw_fail(diag, err,
                         "workload %s: these %zu bytes are no moment of it that this version reads",
                         moment->config->name, moment->size)
               : AW_OK;
}

/* A pilot that stands where the decision was taken. */
static enum aw_err stand(const struct aw_explanation_snapshot *moment, const struct aw_alloc *alloc,
                         struct aw_pilot **ret, struct aw_diag *diag)
{
    struct aw_pilot *pilot = NULL;
    enum aw_err err =
        aw_pilot_new(moment->config, moment->task, moment->at_us, alloc, &pilot, diag);
    err = err ? err : load(pilot, moment, diag);
    if (err) {
        aw_pilot_free(pilot);
        return err;
    }
    *ret = pilot;
    return AW_OK;
}

enum aw_err aw_explanation_replay(const struct aw_explanation_snapshot *moment,
                                  const struct aw_alloc *alloc, char **ret_text,
                                  struct aw_diag *diag)
{
    struct aw_pilot *pilot = NULL;
    enum aw_err err = stand(moment, alloc, &pilot, diag);
    if (err)
        return err;
    char *text =
        aw_explanation_text(moment->config, aw_pilot_decide(pilot, moment->orders, moment->at_us));
    aw_pilot_free(pilot);
    if (!text)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an account");
    *ret_text = text;
    return AW_OK;
}

/* --- what moved it ----------------------------------------------------------------------------
 */

static double input_value(const struct aw_reading *reading, uint32_t input)
{
    const double value[] = {
#define X(id, member, unit) [AW_INPUT_##id] = reading->member,
        AW_INPUT_MAP(X)
#undef X
    };
    return value[input];
}

static struct aw_plan proposed(struct aw_pilot *pilot, const struct aw_explanation_snapshot *moment)
{
    const struct aw_decision *decision = aw_pilot_decide(pilot, moment->orders, moment->at_us);
    const struct aw_plan before = aw_explanation_before(decision);
    return aw_plan_over(&decision->guard.proposed, &before);
}

static enum aw_err push(struct aw_pilot *pilot, const struct aw_explanation_snapshot *moment,
                        uint32_t input, const struct aw_plan *as_it_was,
                        struct aw_explanation_push *push, struct aw_diag *diag)
{
    push->less = push->more = *as_it_was;
    if (isnan(push->value))
        return AW_OK;
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        push->by = tried[i];
        enum aw_err err = load(pilot, moment, diag);
        if (err)
            return err;
        aw_pilot_nudge(pilot, (enum aw_input)input, 1 - push->by);
        push->less = proposed(pilot, moment);
        if ((err = load(pilot, moment, diag)))
            return err;
        aw_pilot_nudge(pilot, (enum aw_input)input, 1 + push->by);
        push->more = proposed(pilot, moment);
        if (aw_plan_differs(push->less.amount, as_it_was->amount) ||
            aw_plan_differs(push->more.amount, as_it_was->amount))
            break;
    }
    const struct aw_prices *prices = &moment->config->prices;
    const double cost = aw_prices_per_hour(prices, as_it_was);
    push->effect =
        cost > 0
            ? (aw_prices_per_hour(prices, &push->more) - aw_prices_per_hour(prices, &push->less)) /
                  (2 * push->by * cost)
            : 0;
    return AW_OK;
}

/* Largest effect first; equal ones stay in the order of the inputs. */
static void sort_by_effect(struct aw_explanation_push *pushes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct aw_explanation_push moving = pushes[i];
        uint32_t at = i;
        for (; at > 0 && fabs(pushes[at - 1].effect) < fabs(moving.effect); at--)
            pushes[at] = pushes[at - 1];
        pushes[at] = moving;
    }
}

enum aw_err aw_explanation_pushes(const struct aw_explanation_snapshot *moment,
                                  const struct aw_alloc *alloc,
                                  struct aw_explanation_push *ret_pushes, uint32_t *ret_count,
                                  struct aw_diag *diag)
{
    struct aw_explanation_push pushes[AW_INPUT_COUNT];
    struct aw_pilot *pilot = NULL;
    enum aw_err err = stand(moment, alloc, &pilot, diag);
    if (err)
        return err;
    const struct aw_plan as_it_was = proposed(pilot, moment);
    const struct aw_reading reading = aw_pilot_decision(pilot)->reading;
    for (uint32_t i = 0; !err && i < AW_INPUT_COUNT; i++) {
        pushes[i] = (struct aw_explanation_push){.input = input_names[i],
                                                 .value = input_value(&reading, i)};
        err = push(pilot, moment, i, &as_it_was, &pushes[i], diag);
    }
    aw_pilot_free(pilot);
    if (err)
        return err;
    sort_by_effect(pushes, AW_INPUT_COUNT);
    memcpy(ret_pushes, pushes, sizeof pushes);
    *ret_count = AW_INPUT_COUNT;
    return AW_OK;
}

/* --- what came of it --------------------------------------------------------------------------
 */

enum aw_err aw_explanation_predict(const struct aw_explanation_snapshot *moment,
                                   const struct aw_alloc *alloc, struct aw_pilot_forecast *ret,
                                   struct aw_diag *diag)
{
    struct aw_pilot *pilot = NULL;
    const enum aw_err err = stand(moment, alloc, &pilot, diag);
    if (err)
        return err;
    aw_pilot_decide(pilot, moment->orders, moment->at_us);
    const struct aw_plan before = aw_explanation_before(aw_pilot_decision(pilot));
    aw_pilot_forecast(pilot, &before, ret);
    aw_pilot_free(pilot);
    return AW_OK;
}

/* --- all of it as JSON ------------------------------------------------------------------------
 */

static json_t *latency_json(const struct aw_pilot_config *config, double latency_us, double cost)
{
    const double slo = config->slo.latency_us_p99;
    struct aw__told told = aw__told_begin();
    aw__told_real(&told, "latency_us", latency_us);
    aw__told_flag(&told, "overload", isinf(latency_us));
    aw__told_put(&told, "slo_met",
                 isnan(latency_us) || slo <= 0 ? json_null() : json_boolean(latency_us <= slo));
    aw__told_real(&told, "cost_per_hour", cost);
    return aw__told_end(&told);
}

static json_t *predicted_json(const struct aw_pilot *pilot)
{
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    const struct aw_decision *decision = aw_pilot_decision(pilot);
    const struct aw_plan before = aw_explanation_before(decision);
    const struct aw_plan after = aw_plan_over(&decision->guard.plan, &before);
    struct aw_pilot_forecast forecasted;
    aw_pilot_forecast(pilot, &before, &forecasted);
    struct aw__told told = aw__told_begin();
    aw__told_put(&told, "before",
                 latency_json(config, forecasted.latency_us_before,
                              aw_prices_per_hour(&config->prices, &before)));
    aw__told_put(&told, "after",
                 latency_json(config, forecasted.latency_us_after,
                              aw_prices_per_hour(&config->prices, &after)));
    aw__told_real(&told, "slo_latency_us",
                  config->slo.latency_us_p99 > 0 ? config->slo.latency_us_p99 : (double)NAN);
    aw__told_real(&told, "error", forecasted.error);
    aw__told_text(&told, "unknown_because", *forecasted.why ? forecasted.why : NULL);
    return aw__told_end(&told);
}

static json_t *policy_json(const struct aw_pilot *pilot)
{
    struct aw_pilot_peek seen;
    aw_pilot_peek(pilot, &seen);
    const struct aw_capacity *capacity = aw_capacity_of(seen.policy);
    if (!capacity || !capacity->memory.id)
        return json_null();
    struct aw__told told = aw__told_begin();
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++) {
        const enum aw_capacity_rule_number number = (enum aw_capacity_rule_number)i;
        struct aw__told one = aw__told_begin();
        aw__told_real(&one, "value", aw_capacity_rule_value(&capacity->memory.rule, number));
        aw__told_text(&one, "meaning", aw_capacity_rule_meaning(number));
        aw__told_put(&told, aw_capacity_rule_name(number), aw__told_end(&one));
    }
    return aw__told_end(&told);
}

static json_t *pushes_json(const struct aw_explanation_push *pushes, uint32_t count)
{
    json_t *list = json_array();
    bool failed = !list;
    for (uint32_t i = 0; i < count; i++) {
        struct aw__told told = aw__told_begin();
        aw__told_text(&told, "input", pushes[i].input);
        aw__told_real(&told, "value", pushes[i].value);
        aw__told_real(&told, "tried", pushes[i].by);
        aw__told_real(&told, "effect", pushes[i].effect);
        aw__told_put(&told, "less", aw_explanation_plan_json(&pushes[i].less));
        aw__told_put(&told, "more", aw_explanation_plan_json(&pushes[i].more));
        failed |= json_array_append_new(list, aw__told_end(&told)) != 0;
    }
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

enum aw_err aw_explanation_detail(const struct aw_explanation_snapshot *moment,
                                  const char *recorded, const struct aw_alloc *alloc,
                                  json_t **ret_json, struct aw_diag *diag)
{
    struct aw_explanation_push pushes[AW_EXPLANATION_PUSHES_MAX];
    uint32_t count = 0;
    struct aw_pilot *pilot = NULL;
    enum aw_err err = aw_explanation_pushes(moment, alloc, pushes, &count, diag);
    err = err ? err : stand(moment, alloc, &pilot, diag);
    if (err)
        return err;
    char *text =
        aw_explanation_text(moment->config, aw_pilot_decide(pilot, moment->orders, moment->at_us));
    struct aw__told told = aw__told_begin();
    told.failed |= !text;
    aw__told_put(&told, "predicted", predicted_json(pilot));
    aw__told_put(&told, "reasons", pushes_json(pushes, count));
    aw__told_put(&told, "policy", policy_json(pilot));
    aw__told_put(&told, "replayed",
                 recorded && text ? json_boolean(strcmp(recorded, text) == 0) : json_null());
    json_t *detail = aw__told_end(&told);
    free(text);
    aw_pilot_free(pilot);
    if (!detail)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an account");
    *ret_json = detail;
    return AW_OK;
}
