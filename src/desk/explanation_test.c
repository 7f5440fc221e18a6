/* explanation_test.c - what an account says, what it is kept for, and how config is kept beside it.
 * */
#include "desk/explanation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "base/text.h"
#include "base/units.h"
#include "desk/explanation_internal.h"

#define ALL (AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY)

static void plain_config(struct aw_pilot_config *config)
{
    aw_pilot_config_init(config);
    memcpy(config->name, "shop/cart", sizeof "shop/cart");
    config->bounds =
        (struct aw_bounds){.min = {1, 100, 64 * AW_MIB}, .max = {20, 4000, 4096 * AW_MIB}};
    config->slo.latency_us_p99 = 250e3;
    config->seed = UINT64_MAX;
}

/* Three replicas of half a core and 512 MiB, all figures known, nothing to do. */
static struct aw_decision plain_decision(void)
{
    struct aw_decision d = {.at_us = INT64_C(1700000000123456),
                            .stage = AW_STAGE_SERVING,
                            .actor = AW_ACTOR_AGENT,
                            .in_charge = AW_ACTOR_AGENT,
                            .policy_id = 0xabc,
                            .answered = true,
                            .state_dim = AW_STATE_DEFAULT_DIM,
                            .by_agent = {.set = ALL, .amount = {3, 500, 512 * AW_MIB}},
                            .fallback = {.utilization = NAN},
                            .watchdog = {.value = NAN, .limit = NAN, .quiet_s = NAN},
                            .stay = {.from = AW_STAGE_SERVING,
                                     .to = AW_STAGE_SERVING,
                                     .mean = NAN,
                                     .std = NAN,
                                     .threshold = NAN,
                                     .deviation = NAN},
                            .estimate = {NAN, NAN, NAN},
                            .reading = {.replicas_wanted = 3,
                                        .cpu_millicores_wanted = 500,
                                        .memory_bytes_wanted = 512 * AW_MIB,
                                        .replicas_ready = 3,
                                        .arrivals_per_s = 45,
                                        .cpu_utilisation = 0.93,
                                        .memory_utilisation = 0.5},
                            .score = {.latency_us_slo = 180e3, .sp = 1}};
    d.guard.plan = d.guard.recommended = d.guard.proposed =
        (struct aw_plan){.set = 0, .amount = {3, 500, 512 * AW_MIB}};
    return d;
}

/* --- sentences -------------------------------------------------------------------------------- */

static void clip(struct aw_decision *d, enum aw_clip clip, uint32_t axes)
{
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (axes & (1u << i))
            d->guard.axis_clips[i] |= AW_CLIP_BIT(clip);
    d->guard.clips |= AW_CLIP_BIT(clip);
}

static void change(struct aw_decision *d, struct aw_plan plan)
{
    d->guard.proposed = d->guard.recommended = d->guard.plan = plan;
    d->by_agent = d->by_fallback = plan;
}

static void by_fallback(struct aw_decision *d, enum aw_fallback_cause cause, double utilization)
{
    d->actor = d->in_charge = AW_ACTOR_FALLBACK;
    d->fallback.cause = cause;
    d->fallback.utilization = utilization;
}

static void agent_grows(struct aw_decision *d)
{
    change(d, (struct aw_plan){.set = ALL, .amount = {5, 1500, 640 * AW_MIB}});
}
static void hpa_grows(struct aw_decision *d)
{
    by_fallback(d, AW_FALLBACK_CAUSE_UP, 0.93);
    change(d, (struct aw_plan){.set = AW_PLAN_REPLICAS, .amount = {5, 500, 512 * AW_MIB}});
}
static void nothing_known(struct aw_decision *d)
{
    by_fallback(d, AW_FALLBACK_CAUSE_NO_DATA, NAN);
    d->answered = false;
    d->verdict = AW_WATCHDOG_TRIPPED;
    d->watchdog.cause = AW_WATCHDOG_CAUSE_NO_FIGURES;
    d->watchdog.quiet_s = 300;
}
static void cut(struct aw_decision *d)
{
    change(d, (struct aw_plan){.set = AW_PLAN_REPLICAS, .amount = {5, 500, 512 * AW_MIB}});
    d->guard.proposed.replicas = 20;
    clip(d, AW_CLIP_STEP, AW_PLAN_REPLICAS);
    clip(d, AW_CLIP_COOL_DOWN, AW_PLAN_CPU | AW_PLAN_MEMORY);
    d->guard.cut_count = 3;
    d->guard.cut[0] = (struct aw_guard_cut){5, AW_CLIP_STEP, AW_RESOURCE_REPLICAS};
    d->guard.cut[1] = (struct aw_guard_cut){500, AW_CLIP_COOL_DOWN, AW_RESOURCE_CPU};
    d->guard.cut[2] = (struct aw_guard_cut){512 * AW_MIB, AW_CLIP_COOL_DOWN, AW_RESOURCE_MEMORY};
}
static void off(struct aw_decision *d)
{
    hpa_grows(d);
    d->guard.plan.set = 0;
    clip(d, AW_CLIP_MODE, AW_PLAN_REPLICAS);
}
static void frozen(struct aw_decision *d)
{
    off(d);
    d->guard.clips = d->guard.axis_clips[0] = 0;
    clip(d, AW_CLIP_FREEZE, AW_PLAN_REPLICAS);
    d->orders.freeze = AW_GUARD_FREEZE_ALL;
    d->orders.freeze_id = 7;
}
static void undone(struct aw_decision *d)
{
    d->actor = AW_ACTOR_PERSON;
    d->orders.pin_kind = AW_ORDER_UNDO;
    d->orders.pin_id = 42;
    change(d, (struct aw_plan){.set = AW_PLAN_REPLICAS, .amount = {2, 500, 512 * AW_MIB}});
}
static void home(struct aw_decision *d)
{
    by_fallback(d, AW_FALLBACK_CAUSE_NOT_YET, NAN);
    d->homing = AW_PLAN_CPU;
    change(d, (struct aw_plan){.set = AW_PLAN_CPU, .amount = {3, 1000, 512 * AW_MIB}});
    d->by_fallback = d->guard.plan;
}
static void emergency(struct aw_decision *d)
{
    agent_grows(d);
    d->by_agent =
        (struct aw_plan){.set = ALL, .amount = {3, 500, 512 * AW_MIB}}; /* it would have stayed */
    d->orders.floor = d->guard.plan;
    d->orders.floor_id = 9;
    d->orders.urgent = true;
}
static void killed(struct aw_decision *d)
{
    by_fallback(d, AW_FALLBACK_CAUSE_NONE, NAN);
    change(d, (struct aw_plan){.set = AW_PLAN_MEMORY, .amount = {3, 500, 640 * AW_MIB}});
    d->by_fallback = (struct aw_plan){0};
    clip(d, AW_CLIP_OOM_FLOOR, AW_PLAN_MEMORY);
}
static void promoted(struct aw_decision *d)
{
    d->moved = true;
    d->stay.cause = AW_LIFECYCLE_CAUSE_PROVEN;
    d->stay.from = AW_STAGE_ONLINE;
}
static void no_figures(struct aw_decision *d)
{
    d->reading.arrivals_per_s = d->reading.cpu_utilisation = d->reading.memory_utilisation = NAN;
    d->score.latency_us_slo = NAN;
}

static void a_sentence_reads_well(void **state)
{
    (void)state;
    static const struct {
        void (*make)(struct aw_decision *d);
        const char *text, *why;
    } row[] = {
        {agent_grows,
         "agent (formula): replicas 3 -> 5, cpu 500m -> 1.5 cores, memory 512Mi -> 640Mi, seeing "
         "45/s requests, p99 180ms of 250ms allowed, CPU 93 % used, memory 50 % used",
         "all three amounts"},
        {hpa_grows,
         "fallback (hpa+vpa-mem): replicas 3 -> 5, because CPU utilisation is above the target "
         "(93 %, target 80 %)",
         "a rule has a reason"},
        {nothing_known,
         "fallback (hpa+vpa-mem): no change, because the figures it needs are missing or stale; "
         "the cluster did not answer; the agent is held back: a figure that is needed is missing "
         "or stale; the fallback acts for 300 s",
         "an outage"},
        {cut,
         "agent (formula): replicas 3 -> 5, seeing 45/s requests, p99 180ms of 250ms allowed, CPU "
         "93 % used, memory 50 % used; replicas cut to the most that one decision may change; "
         "cpu, memory held: too soon after the last change",
         "rails name their axes"},
        {off,
         "fallback (hpa+vpa-mem): would change replicas 3 -> 5, because CPU utilisation is above "
         "the target (93 %, target 80 %); replicas only recommended: the mode "
         "does not let it act",
         "mode Off"},
        {frozen,
         "fallback (hpa+vpa-mem): would change replicas 3 -> 5, because CPU utilisation is above "
         "the target (93 %, target 80 %); replicas left alone: frozen (order 7)",
         "a freeze names its order"},
        {undone,
         "a person (undo, order 42): replicas 3 -> 2: what a decision changed goes back to what "
         "it was",
         "an order"},
        {home,
         "fallback (hpa+vpa-mem): cpu 500m -> 1 core, because it takes over and goes back to the "
         "size that it knows",
         "a hand-back is not the rule's doing"},
        {emergency,
         "agent (formula): replicas 3 -> 5, cpu 500m -> 1.5 cores, memory 512Mi -> 640Mi; "
         "emergency 9 goes on: nothing is below what it asks for",
         "an emergency has its own reason"},
        {killed,
         "fallback (hpa+vpa-mem): memory 512Mi -> 640Mi; memory raised above what was killed for "
         "want of memory",
         "a rail that acts unasked has its own reason"},
        {promoted,
         "agent (formula): no change, seeing 45/s requests, p99 180ms of 250ms allowed, CPU 93 % "
         "used, memory 50 % used; stage online -> serving: mean and deviation have reached their "
         "thresholds",
         "a stage that ends"},
        {no_figures, "agent (formula): no change, seeing no figures", "nothing to go by"},
    };
    struct aw_pilot_config config;
    plain_config(&config);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[AW_EXPLANATION_SENTENCE_MAX], cut_text[20];
        struct aw_decision d = plain_decision();
        row[i].make(&d);
        aw_explanation_sentence(&config, &d, text, sizeof text);
        if (strcmp(text, row[i].text) != 0)
            fail_msg("%s:\n%s\nexpected\n%s", row[i].why, text, row[i].text);
        aw_explanation_sentence(&config, &d, cut_text, sizeof cut_text);
        assert_int_equal(strlen(cut_text), sizeof cut_text - 1);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static const json_t *at(const json_t *object, const char *path)
{
    char key[64];
    while (object && *path) {
        const size_t len = strcspn(path, ".");
        assert_true(len < sizeof key);
        memcpy(key, path, len);
        key[len] = '\0';
        object = json_object_get(object, key);
        path += len + (path[len] == '.');
    }
    return object;
}

static void an_account_has_all_that_led_to_a_decision(void **state)
{
    (void)state;
    static const char *const there[] = {
        "format",
        "workload",
        "at",
        "at_us",
        "episode",
        "step",
        "stage",
        "actor",
        "sentence",
        "inputs",
        "standing.answered",
        "standing.replicas_ready",
        "state.cpu_limit",
        "state.age",
        "agent.kind",
        "agent.model",
        "agent.plan",
        "agent.action.cpu",
        "fallback.kind",
        "fallback.plan",
        "fallback.reason",
        "orders.freeze",
        "action.replicas",
        "guard.mode",
        "guard.proposed",
        "guard.rails",
        "guard.recommended",
        "guard.plan",
        "plan.before",
        "plan.after",
        "changed",
        "cost_per_hour",
        "last_step.slo_missed",
        "estimate.low",
        "watchdog.verdict",
        "lifecycle.sentence",
        "canary.state",
        "model",
        "seed",
    };
    struct aw_pilot_config config;
    plain_config(&config);
    struct aw_decision d = plain_decision();
    cut(&d);
    d.age_s[AW_INPUT_ARRIVALS_PER_S] = 12.5f;
    d.age_s[AW_INPUT_IN_FLIGHT] = NAN;
    d.reading.in_flight = NAN;
    d.state[0] = 0.3f;
    json_t *account = aw_explanation_json(&config, &d);
    assert_non_null(account);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!at(account, there[i]))
            fail_msg("no %s", there[i]);
    assert_int_equal(json_object_size(at(account, "inputs")), AW_INPUT_COUNT);
    assert_int_equal(json_object_size(at(account, "state")), AW_STATE_DEFAULT_DIM);
    assert_string_equal(json_string_value(at(account, "at")), "2023-11-14T22:13:20.123456Z");
    assert_string_equal(json_string_value(at(account, "seed")), "18446744073709551615");
    assert_string_equal(json_string_value(at(account, "model")), "0000000000000abc");
    assert_close(json_real_value(at(account, "inputs.arrivals_per_s.value")), 45, 0);
    assert_close(json_real_value(at(account, "inputs.arrivals_per_s.age_s")), 12.5, 0);
    assert_true(json_is_null(at(account, "inputs.in_flight.value")));
    assert_true(json_is_null(at(account, "inputs.in_flight.age_s")));
    assert_true(json_real_value(at(account, "state.cpu_limit")) == 0.3); /* as short as it is */
    assert_int_equal(json_integer_value(at(account, "plan.before.replicas")), 3);
    assert_int_equal(json_integer_value(at(account, "plan.after.replicas")), 5);
    assert_int_equal(json_integer_value(at(account, "plan.after.cpu_millicores")), 500);
    assert_close(json_real_value(at(account, "cost_per_hour.before")), 3 * (0.02 + 0.0025), 1e-12);
    assert_close(json_real_value(at(account, "cost_per_hour.after")), 5 * (0.02 + 0.0025), 1e-12);
    const json_t *rails = at(account, "guard.rails");
    assert_int_equal(json_array_size(rails), 2);
    const json_t *first = json_array_get(rails, 0), *second = json_array_get(rails, 1);
    assert_int_equal(json_integer_value(at(first, "cut.replicas.from")), 20);
    assert_int_equal(json_integer_value(at(first, "cut.replicas.to")), 5);
    assert_int_equal(json_object_size(at(first, "cut")), 1);
    assert_int_equal(json_integer_value(at(second, "cut.memory_bytes.to")), 512 * AW_MIB);
    assert_string_equal(json_string_value(json_object_get(second, "rail")), "cool_down");
    assert_int_equal(json_array_size(json_object_get(second, "clipped")), 2);
    json_decref(account);
}

static void the_other_one_is_told_of_whoever_acts(void **state)
{
    (void)state;
    struct aw_pilot_config config;
    plain_config(&config);
    static const enum aw_actor actor[] = {AW_ACTOR_AGENT, AW_ACTOR_FALLBACK, AW_ACTOR_PERSON,
                                          AW_ACTOR_PERSON};
    static const enum aw_actor in_charge[] = {AW_ACTOR_AGENT, AW_ACTOR_FALLBACK, AW_ACTOR_AGENT,
                                              AW_ACTOR_FALLBACK};
    for (size_t i = 0; i < 4; i++) {
        struct aw_decision d = plain_decision();
        d.actor = actor[i];
        d.in_charge = in_charge[i];
        const bool agent = in_charge[i] == AW_ACTOR_AGENT;
        d.action[AW_ACTION_CPU] = agent ? 0.25f : -0.5f; /* the agent's is 0.25 */
        d.shadow[AW_ACTION_CPU] = agent ? -0.5f : 0.25f;
        json_t *account = aw_explanation_json(&config, &d);
        assert_close(json_real_value(at(account, "agent.action.cpu")), 0.25, 0);
        assert_close(json_real_value(at(account, "fallback.action.cpu")), -0.5, 0);
        const bool person = actor[i] == AW_ACTOR_PERSON;
        assert_true(json_is_true(at(account, "agent.acts")) == (agent && !person));
        assert_true(json_is_true(at(account, "fallback.acts")) == (!agent && !person));
        json_decref(account);
    }
}

static void the_same_decision_is_the_same_text(void **state)
{
    (void)state;
    struct aw_pilot_config config;
    plain_config(&config);
    struct aw_decision a, b, c = plain_decision();
    memset(&a, 0x55, sizeof a); /* what is between members is nobody's business */
    memset(&b, 0xaa, sizeof b);
    a = plain_decision();
    b = plain_decision();
    c.reading.arrivals_per_s = nextafter(c.reading.arrivals_per_s, 100);
    char *x = aw_explanation_text(&config, &a), *y = aw_explanation_text(&config, &b),
         *z = aw_explanation_text(&config, &c);
    assert_string_equal(x, y);
    assert_string_not_equal(x, z); /* the last bit shows */
    free(x);
    free(y);
    free(z);
}

static void a_brief_is_brief_on_the_worst_of_days(void **state)
{
    (void)state;
    struct aw_pilot_config config;
    plain_config(&config);
    struct aw_decision d = plain_decision();
    nothing_known(&d);
    change(&d, (struct aw_plan){.set = ALL, .amount = {UINT32_MAX, INT64_MAX, INT64_MAX}});
    d.guard.plan.set = AW_PLAN_CPU;
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++)
        clip(&d, (enum aw_clip)c, ALL);
    d.orders = (struct aw_orders){
        .freeze_id = INT64_MAX, .pin_id = INT64_MAX, .floor_id = INT64_MAX, .floor = d.guard.plan};
    d.moved = d.canary.moved = d.canary.restoring = true;
    json_t *brief = aw_explanation_brief(&config, &d);
    char *text = json_dumps(brief, JSON_COMPACT);
    assert_non_null(text);
    assert_true(strlen(text) < AW_EXPLANATION_BRIEF_MAX);
    free(text);
    json_decref(brief);

    d = plain_decision();
    hpa_grows(&d);
    brief = aw_explanation_brief(&config, &d);
    assert_int_equal(json_integer_value(at(brief, "from.replicas")), 3);
    assert_int_equal(json_integer_value(at(brief, "to.replicas")), 5);
    assert_int_equal(json_integer_value(at(brief, "to.memory_bytes")), 512 * AW_MIB);
    assert_int_equal(json_array_size(at(brief, "changed")), 1);
    assert_string_equal(json_string_value(at(brief, "actor")), "fallback");
    assert_null(at(brief, "recommended"));
    assert_null(at(brief, "clips"));
    json_decref(brief);
    off(&d);
    brief = aw_explanation_brief(&config, &d);
    assert_int_equal(json_integer_value(at(brief, "to.replicas")), 3);
    assert_int_equal(json_integer_value(at(brief, "recommended.replicas")), 5);
    json_decref(brief);
}

/* --- worth keeping ---------------------------------------------------------------------------- */

static void same(struct aw_decision *d)
{
    d->at_us++;
    d->reading.arrivals_per_s *= 2;
    clip(d, AW_CLIP_DEADBAND, AW_PLAN_CPU);
}
static void replaced(struct aw_decision *d)
{
    d->policy_id++;
}
static void tripped(struct aw_decision *d)
{
    d->verdict = AW_WATCHDOG_TRIPPED;
}
static void clipped(struct aw_decision *d)
{
    clip(d, AW_CLIP_COOL_DOWN, AW_PLAN_CPU);
}
static void freeze_ordered(struct aw_decision *d)
{
    d->orders.freeze = AW_GUARD_FREEZE_DOWN;
}
static void silent(struct aw_decision *d)
{
    d->answered = false;
}
static void tried(struct aw_decision *d)
{
    d->canary.moved = true;
}
static void staged(struct aw_decision *d)
{
    d->stage = AW_STAGE_ONLINE;
}

static void what_is_worth_keeping(void **state)
{
    (void)state;
    static const struct {
        void (*make)(struct aw_decision *d);
        bool notable;
        const char *why;
    } row[] = {
        {same, false, "time and load go on, a size is nearly what it should be"},
        {agent_grows, true, "something changes"},
        {hpa_grows, true, "something changes, and who decides"},
        {replaced, true, "another policy"},
        {tripped, true, "the watchdog"},
        {clipped, true, "a rail holds it back"},
        {freeze_ordered, true, "an order"},
        {off, true, "a recommendation that waits"},
        {silent, true, "the cluster does not answer"},
        {promoted, true, "a stage has ended"},
        {staged, true, "a stage has ended, and nobody said so"},
        {tried, true, "a new policy is tried"},
    };
    const struct aw_decision before = plain_decision();
    struct aw_explanation_noted noted = {0};
    assert_true(aw_explanation_notable(NULL, &before)); /* the first */
    aw_explanation_note(&noted, &before);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct aw_decision d = before;
        row[i].make(&d);
        if (aw_explanation_notable(&noted, &d) != row[i].notable)
            fail_msg("%s", row[i].why);
    }
    struct aw_decision waits = before, more;
    off(&waits);
    more = waits;
    aw_explanation_note(&noted, &waits);
    assert_false(aw_explanation_notable(&noted, &more)); /* it waits on */
    more.guard.recommended.replicas++;
    assert_true(aw_explanation_notable(&noted, &more)); /* for something else */
}

/* --- config ----------------------------------------------------------------------------------- */

/* Any double, some of them none. */
static double any_real(struct aw_rng *rng)
{
    const uint64_t bits = aw_rng_u64(rng);
    double real;
    memcpy(&real, &bits, sizeof real);
    return isnan(real) ? NAN : real;
}

static void random_field(const struct aw_conf_field *field, void *settings, struct aw_rng *rng)
{
    unsigned char *to = (unsigned char *)settings + field->offset;
    const double low = field->min, high = field->max > field->min ? field->max : 1e6;
    const double real = low + (fmin(high, 1e9) - low) * aw_rng_double(rng);
    switch (field->type) {
    case AW_CONF_BOOL:
        *(bool *)to = aw_rng_double(rng) < 0.5;
        break;
    case AW_CONF_U32:
        *(uint32_t *)to = (uint32_t)ceil(low) + aw_rng_below(rng, (uint32_t)(real - low) + 1);
        break;
    case AW_CONF_U64:
        *(uint64_t *)to = aw_rng_u64(rng);
        if (field->max > 0)
            *(uint64_t *)to %= (uint64_t)field->max + 1;
        break;
    case AW_CONF_F32:
        *(float *)to = (float)real;
        break;
    case AW_CONF_F64:
        *(double *)to = isinf(low) && isinf(high) ? any_real(rng) : real;
        break;
    case AW_CONF_CHOICE: {
        uint32_t count = 0;
        while (field->choices[count])
            count++;
        *(uint32_t *)to = aw_rng_below(rng, count);
        break;
    }
    case AW_CONF_TEXT:
        for (size_t i = 0; i + 1 < aw_conf_size(field); i++)
            to[i] = (unsigned char)('!' + aw_rng_below(rng, 90));
        break;
    case AW_CONF_U32_LIST:
        fail_msg("no such field is known here");
    }
}

static void random_config(struct aw_pilot_config *config, struct aw_fallback_task *task,
                          struct aw_rng *rng)
{
    memset(config, 0, sizeof *config);
    memset(task, 0, sizeof *task);
    for (const struct aw_conf_field *field = aw_fallback_task_fields; field->key; field++)
        random_field(field, task, rng);
    for (const struct aw_conf_part *part = aw_pilot_fields; part->key; part++)
        for (const struct aw_conf_field *field = part->fields; field->key; field++)
            random_field(field, (char *)config + part->offset, rng);
}

static void config_comes_back_to_the_last_bit(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    for (uint32_t turn = 0; turn < 200; turn++) {
        struct aw_pilot_config config, back;
        struct aw_fallback_task task, task_back;
        struct aw_diag diag = {0};
        random_config(&config, &task, &rng);
        char *text = aw_explanation_config_text(&config, &task);
        assert_non_null(text);
        if (aw_explanation_config_read(text, &back, &task_back, &diag))
            fail_msg("%s", diag.text);
        assert_memory_equal(&config, &back, sizeof config);
        assert_memory_equal(&task, &task_back, sizeof task);
        char *again = aw_explanation_config_text(&back, &task_back);
        assert_string_equal(text, again);
        free(again);
        free(text);
    }
}

/* Whoever adds a member to a config and no row of its table hears of it. */
static void every_byte_of_config_is_carried(void **state)
{
    (void)state;
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    struct aw_pilot_config config;
    struct aw_fallback_task task;
    unsigned char carried[sizeof config], task_carried[sizeof task];
    memset(&config, 0xff, sizeof config);
    memset(&task, 0xff, sizeof task);
    __builtin_clear_padding(&config);
    __builtin_clear_padding(&task);
    memset(carried, 0, sizeof carried);
    memset(task_carried, 0, sizeof task_carried);
    for (const struct aw_conf_field *field = aw_fallback_task_fields; field->key; field++)
        memset(task_carried + field->offset, 1, aw_conf_size(field));
    for (const struct aw_conf_part *part = aw_pilot_fields; part->key; part++)
        for (const struct aw_conf_field *field = part->fields; field->key; field++)
            memset(carried + part->offset + field->offset, 1, aw_conf_size(field));
    /* what a policy was made from decides nothing once it is made: it is part of the state */
    memset(carried + offsetof(struct aw_pilot_config, model), 1, sizeof config.model);
    memset(carried + offsetof(struct aw_pilot_config, library), 1, sizeof config.library);
    memset(carried + offsetof(struct aw_pilot_config, unknown), 1, sizeof config.unknown);
    memset(carried + offsetof(struct aw_pilot_config, peers), 1, sizeof config.peers);
    /* a kind of policy that is the caller's own has no name to be told by */
    memset(carried + offsetof(struct aw_pilot_config, policy), 1, sizeof config.policy);
    memset(carried + offsetof(struct aw_pilot_config, teacher), 1, sizeof config.teacher);
    /* nobody reads these: replicas as such have no price, and a node no number of them */
    memset(carried + offsetof(struct aw_pilot_config, prices.replica_hour), 1, sizeof(double));
    memset(carried + offsetof(struct aw_pilot_config, node.replicas), 1, sizeof(int64_t));
    for (size_t i = 0; i < sizeof config; i++)
        if (((const unsigned char *)&config)[i] && !carried[i])
            fail_msg("byte %zu of struct aw_pilot_config is not kept", i);
    for (size_t i = 0; i < sizeof task; i++)
        if (((const unsigned char *)&task)[i] && !task_carried[i])
            fail_msg("byte %zu of struct aw_fallback_task is not kept", i);
    return;
#endif
#endif
    print_message("skipped: this compiler does not tell padding from members; gcc does\n");
    skip();
}

static void config_that_is_none_is_refused(void **state)
{
    (void)state;
    struct aw_pilot_config config, back;
    struct aw_fallback_task task = {0}, task_back;
    plain_config(&config);
    char *text = aw_explanation_config_text(&config, &task);
    static const struct {
        const char *part, *key, *value, *says;
    } row[] = {
        {"config", "step_s", "fifteen", "config.step_s cannot"},
        {"config", "agent", "3", "config.agent cannot"},
        {"config", "learning", "yes", "config.learning cannot"},
        {"config", "seed", "18446744073709551616", "config.seed cannot"},
        {"config", "node_memory_bytes", "-1", "config.node_memory_bytes cannot"},
        {"config", "lambda", NULL, "\"config\" should have"},
        {"config", "surplus", "1", "\"config\" should have"},
        {"task", "replicas", "4294967296", "task.replicas cannot"},
        {"watchdog", "window", "100000", "watchdog.window cannot"}, /* would overrun a ring */
        {"guard", "mode", "Sometimes", "guard.mode cannot"},
        {"canary", "share", NULL, "\"canary\" should have"},
    };
    struct aw_diag diag = {0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        json_t *root = json_loads(text, 0, NULL);
        json_t *part = json_object_get(root, row[i].part);
        if (row[i].value)
            assert_int_equal(json_object_set_new(part, row[i].key, json_string(row[i].value)), 0);
        else
            assert_int_equal(json_object_del(part, row[i].key), 0);
        char *bad = json_dumps(root, JSON_COMPACT);
        memset(&back, 0x5a, sizeof back);
        assert_int_equal(aw_explanation_config_read(bad, &back, &task_back, &diag), AW_ERR_FORMAT);
        if (!strstr(diag.text, row[i].says))
            fail_msg("%s.%s: %s", row[i].part, row[i].key, diag.text);
        assert_int_equal(((unsigned char *)&back)[sizeof back - 1], 0x5a); /* untouched */
        free(bad);
        json_decref(root);
    }
    for (size_t len = 0; len < strlen(text); len += 37) {
        char *cut_short = strndup(text, len);
        assert_int_equal(aw_explanation_config_read(cut_short, &back, &task_back, &diag),
                         AW_ERR_FORMAT);
        free(cut_short);
    }
    assert_int_equal(aw_explanation_config_read("{\"format\":2}", &back, &task_back, &diag),
                     AW_ERR_FORMAT);
    assert_int_equal(aw_explanation_config_read("[]", &back, &task_back, &diag), AW_ERR_FORMAT);
    free(text);
}

/* --- want of memory --------------------------------------------------------------------------- */

static int64_t left;

static void *counted_malloc(size_t size)
{
    return left-- > 0 ? malloc(size) : NULL;
}

/* jansson's memory runs out at every place in turn. */
static void want_of_memory_gives_nothing_and_leaks_nothing(void **state)
{
    (void)state;
    struct aw_pilot_config config;
    plain_config(&config);
    struct aw_decision d = plain_decision();
    cut(&d);
    json_set_alloc_funcs(counted_malloc, free);
    bool done = false;
    for (int64_t n = 0; !done; n += n < 50 ? 1 : 7) {
        left = n;
        char *text = aw_explanation_text(&config, &d);
        left = n;
        json_t *brief = aw_explanation_brief(&config, &d);
        left = n;
        char *settings = aw_explanation_config_text(&config, &(struct aw_fallback_task){0});
        done = text && brief && settings;
        assert_true(n < 5000);
        left = INT64_MAX;
        free(text);
        free(settings);
        json_decref(brief);
    }
    json_set_alloc_funcs(malloc, free);
}

AW_TEST_GROUP("explanation")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_reads_well),
        cmocka_unit_test(an_account_has_all_that_led_to_a_decision),
        cmocka_unit_test(the_other_one_is_told_of_whoever_acts),
        cmocka_unit_test(the_same_decision_is_the_same_text),
        cmocka_unit_test(a_brief_is_brief_on_the_worst_of_days),
        cmocka_unit_test(what_is_worth_keeping),
        cmocka_unit_test(config_comes_back_to_the_last_bit),
        cmocka_unit_test(every_byte_of_config_is_carried),
        cmocka_unit_test(config_that_is_none_is_refused),
        cmocka_unit_test(want_of_memory_gives_nothing_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
