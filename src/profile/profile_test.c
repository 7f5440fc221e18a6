#include "profile/profile_testing.h"

#include <math.h>
#include <stdio.h>

static void ten_lines_are_enough_and_the_rest_are_defaults(void **state)
{
    (void)state;
    struct aw_profile_set set = read_sound(CART SLO BOUNDS);
    assert_int_equal(set.profile_count, 1);
    const struct aw_profile *p = &set.profiles[0];
    char key[AW_PROFILE_KEY_MAX];
    assert_string_equal(aw_profile_key(p, key, sizeof key), "default/cart");
    assert_string_equal(p->place.file, "f.yaml");
    assert_int_equal(p->place.line, 1);
    assert_string_equal(p->target_api_version, "apps/v1");
    assert_string_equal(p->target_kind, "Deployment");
    assert_string_equal(p->target_name, "cart");
    assert_true(p->pilot.slo.latency_us_p99 == 200000);
    assert_true(p->pilot.slo.quantile == 0.99);
    assert_true(p->pilot.slo.timeout_us == 30e6);
    assert_true(p->pilot.slo.throughput_per_s == 0);
    assert_true(p->pilot.slo_budget == 0.01);
    assert_true(p->slo_window_us == 3600000000);
    assert_int_equal(p->pilot.bounds.replicas_min, 1);
    assert_int_equal(p->pilot.bounds.replicas_max, 9);
    assert_int_equal(p->pilot.bounds.cpu_millicores_min, 100);
    assert_int_equal(p->pilot.bounds.cpu_millicores_max, 4000);
    assert_int_equal(p->pilot.bounds.memory_bytes_min, (int64_t)64 << 20);
    assert_int_equal(p->pilot.bounds.memory_bytes_max, (int64_t)8 << 30);
    assert_int_equal(p->pilot.controlled, AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY);
    assert_string_equal(p->container, "*");
    assert_false(p->requests_only);
    assert_string_equal(p->recommender, "");
    assert_true(p->pilot.lifecycle.bootstrap);
    assert_true(isnan(p->pilot.thresholds.online) && isnan(p->pilot.thresholds.serving) &&
                isnan(p->pilot.thresholds.deviation));
    assert_int_equal(p->pilot.lifecycle.window, 10);
    assert_int_equal(p->retraining, AW_RETRAINING_ONLINE);
    assert_false(p->high_stakes);
    assert_int_equal(p->task, AW_PROFILE_TASK_DEFAULT);
    assert_int_equal(p->pilot.objective, AW_OBJECTIVE_CONSTRAINED);
    assert_true(p->pilot.prices.core_hour == 0.04 && p->pilot.prices.gib_hour == 0.005);
    assert_true(p->pilot.watchdog.explore_violation == 0.5);
    assert_true(p->pilot.step_s == 15);
    assert_int_equal(p->pilot.episode_steps, 100);
    assert_int_equal(p->pilot.fallback.kind, AW_FALLBACK_HPA_VPA_MEM);
    assert_int_equal(p->pilot.fallback.hpa_target, 80);
    struct aw_guard_settings guard;
    memset(&guard, 0, sizeof guard);
    aw_conf_defaults(aw_guard_fields, &guard);
    assert_int_equal(guard.mode, AW_GUARD_OFF);
    assert_true(p->pilot.guard.peak_window == guard.peak_window);
    assert_int_equal(p->pilot.agent, AW_POLICY_CAPACITY);
    aw_profile_set_deinit(&set);
}

/* What is measured with aw_pilot_config_init (src/study) is what a run has. */
static void a_profile_that_says_no_more_gives_the_pilot_of_the_defaults(void **state)
{
    (void)state;
    struct aw_profile_set set = read_sound(CART SLO BOUNDS);
    struct aw_pilot_config own, plain;
    aw_pilot_config_of(&own, &set.profiles[0], true);
    aw_pilot_config_init(&plain);
    memcpy(plain.name, own.name, sizeof plain.name);
    plain.bounds = own.bounds;
    plain.slo = own.slo;
    plain.seed = own.seed;
    plain.stale_s = plain.fallback.stale; /* one age for both */
    for (const struct aw_conf_part *part = aw_pilot_fields; part->key; part++)
        for (const struct aw_conf_field *field = part->fields; field->key; field++) {
            struct aw_conf_field one[] = {*field, {0}};
            one[0].marks = 1;
            if (!aw_conf_same(one, 1, (char *)&own + part->offset, (char *)&plain + part->offset))
                fail_msg("%s.%s differs", part->key, field->key);
        }
    aw_profile_set_deinit(&set);
}

static void what_is_written_is_what_is_kept(void **state)
{
    (void)state;
    struct aw_profile_set set = read_sound(
        MPA "metadata: {name: a, namespace: n, labels: {x: y}}\n"
            "spec:\n"
            "  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: t}\n"
            "  goals:\n"
            "    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, "
            "averageUtilization: 65}}}]\n"
            "    slo: {latency: {quantile: p95, target: 1.5s, timeout: 1m}, throughput: 120/m, "
            "budget: 0.5%, window: 1d}\n"
            "  constraints:\n"
            "    global: {minReplicas: 2, maxReplicas: 30, behavior: {scaleDown: "
            "{stabilizationWindowSeconds: 60}}}\n"
            "    containerControlledResources: [memory]\n"
            "    container:\n"
            "    - {name: main, requests: {minAllowed: {cpu: 50m, memory: 1Gi}, maxAllowed: "
            "{cpu: 1.5, memory: 2Gi}}}\n"
            "    - {name: side, mode: 'Off'}\n"
            "    pod: {requests: {maxAllowed: {cpu: 1, memory: 4Gi}}}\n"
            "  policy: {updateMode: InPlaceOrRecreate}\n"
            "  recommenders: [{name: aware}]\n"
            "  guard: {peakWindow: 900, restartCount: 3}\n"
            "  learning:\n"
            "    bootstrap: false\n"
            "    thresholds: {online: 120, serving: 130.5, variance: auto}\n"
            "    windowEpisodes: 7\n"
            "    retraining: {highStakes: true}\n"
            "    objective: {kind: paper, sloWeight: 0.7, prices: {coreHour: 1, gibHour: 0}}\n"
            "    explorationBudget: 0.25\n"
            "    task: paper\n"
            "    fallback: {kind: hpa, hpaTolerance: 0.2}\n"
            "    canary: {shadowSteps: 8, share: 0.5, episodes: 4}\n"
            "    agent: {name: network, settings: {gamma: 0.5}}\n"
            "    stepSeconds: 30\n"
            "    episodeSteps: 50\n"
            "    seed: 99\n");
    const struct aw_profile *p = &set.profiles[0];
    assert_string_equal(p->namespace, "n");
    assert_string_equal(p->target_kind, "StatefulSet");
    assert_true(p->pilot.slo.quantile == 0.95);
    struct aw_pilot_config config;
    aw_pilot_config_of(&config, p, true);
    assert_true(config.slo.quantile == 0.95);
    assert_true(p->pilot.slo.latency_us_p99 == 1.5e6 && p->pilot.slo.timeout_us == 60e6);
    assert_true(p->pilot.slo.throughput_per_s == 2);
    assert_close(p->pilot.slo_budget, 0.005, 1e-15);
    assert_true(p->slo_window_us == 86400000000);
    assert_int_equal(p->pilot.bounds.replicas_min, 2);
    assert_int_equal(p->pilot.bounds.cpu_millicores_min, 50);
    assert_int_equal(p->pilot.bounds.cpu_millicores_max, 1000); /* the pod's is narrower */
    assert_int_equal(p->pilot.bounds.memory_bytes_max, (int64_t)2 << 30);
    assert_int_equal(p->pilot.controlled, AW_PLAN_REPLICAS | AW_PLAN_MEMORY);
    assert_string_equal(p->container, "main");
    assert_int_equal(p->update_mode, AW_UPDATE_IN_PLACE_OR_RECREATE);
    assert_true(p->update_mode_given);
    assert_int_equal(p->pilot.guard.mode, AW_GUARD_AUTO);
    assert_true(p->pilot.guard.peak_window == 900 && p->pilot.guard.restart_count == 3);
    assert_string_equal(p->recommender, "");
    assert_false(p->pilot.lifecycle.bootstrap);
    assert_true(p->pilot.thresholds.online == 120 && p->pilot.thresholds.serving == 130.5);
    assert_true(isnan(p->pilot.thresholds.deviation));
    assert_int_equal(p->pilot.lifecycle.window, 7);
    assert_int_equal(p->retraining, AW_RETRAINING_OFFLINE);
    assert_int_equal(p->pilot.objective, AW_OBJECTIVE_PAPER);
    assert_true(p->pilot.slo_weight == 0.7 && p->pilot.prices.core_hour == 1 &&
                p->pilot.prices.gib_hour == 0);
    assert_true(p->pilot.watchdog.explore_violation == 0.25);
    assert_int_equal(p->task, AW_PROFILE_TASK_PAPER);
    assert_int_equal(p->pilot.fallback.kind, AW_FALLBACK_HPA);
    assert_int_equal(p->pilot.fallback.hpa_target, 65);
    assert_int_equal(p->pilot.fallback.hpa_down_window, 60);
    assert_true(p->pilot.fallback.hpa_tolerance == 0.2);
    assert_true(p->pilot.canary.enabled && p->pilot.canary.share == 0.5 &&
                p->pilot.canary.restore_steps == 20);
    assert_int_equal(p->pilot.canary.shadow_steps, 8);
    assert_int_equal(p->pilot.canary.episodes, 4);
    assert_int_equal(p->pilot.agent, AW_POLICY_NETWORK);
    assert_true(p->pilot.step_s == 30);
    assert_int_equal(p->pilot.episode_steps, 50);
    assert_int_equal(p->seed, 99);

    assert_true(p->pilot.learner.gamma == 0.5);
    aw_profile_set_deinit(&set);
}

static void a_bound_that_is_not_said_never_contradicts_one_that_is(void **state)
{
    (void)state;
    static const struct {
        const char *requests;
        int64_t cpu_min, cpu_max, memory_mib_min, memory_mib_max;
        const char *why;
    } cases[] = {
        {"{maxAllowed: {cpu: 50m}}", 50, 50, 64, 8192, "below the least that is usual"},
        {"{minAllowed: {cpu: 16}}", 16000, 16000, 64, 8192, "above the most that is usual"},
        {"{maxAllowed: {memory: 32Mi}}", 100, 4000, 32, 32, "memory likewise"},
        {"{minAllowed: {memory: 16Gi}}", 100, 4000, 16384, 16384, "memory likewise"},
        {"{minAllowed: {cpu: 200m}, maxAllowed: {memory: 1Gi}}", 200, 4000, 64, 1024, "one each"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 CART SLO "  constraints:\n    global: {maxReplicas: 9}\n    container: [{name: "
                          "'*', requests: %s}]\n",
                 cases[i].requests);
        struct aw_profile_set set = read_sound(text);
        const struct aw_bounds *b = &set.profiles[0].pilot.bounds;
        if (b->cpu_millicores_min != cases[i].cpu_min ||
            b->cpu_millicores_max != cases[i].cpu_max ||
            b->memory_bytes_min >> 20 != cases[i].memory_mib_min ||
            b->memory_bytes_max >> 20 != cases[i].memory_mib_max)
            fail_msg("%s: %s", cases[i].requests, cases[i].why);
        aw_profile_set_deinit(&set);
    }
}

static void only_one_who_says_nothing_acts_in_a_simulation_and_not_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        enum aw_guard_mode real, simulated;
    } cases[] = {
        {"", AW_GUARD_OFF, AW_GUARD_AUTO},
        {"  policy: {updateMode: Off}\n", AW_GUARD_OFF, AW_GUARD_OFF},
        {"  policy: {updateMode: Initial}\n", AW_GUARD_INITIAL, AW_GUARD_INITIAL},
        {"  policy: {updateMode: Auto}\n", AW_GUARD_AUTO, AW_GUARD_AUTO},
        {"  policy: {updateMode: Recreate}\n", AW_GUARD_AUTO, AW_GUARD_AUTO},
        {"  policy: {updateMode: InPlaceOrRecreate}\n", AW_GUARD_AUTO, AW_GUARD_AUTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, CART SLO BOUNDS "%s", cases[i].policy);
        struct aw_profile_set set = read_sound(text);
        assert_int_equal(aw_profile_mode(&set.profiles[0], false), cases[i].real);
        assert_int_equal(aw_profile_mode(&set.profiles[0], true), cases[i].simulated);
        assert_int_equal(set.profiles[0].pilot.guard.mode, cases[i].real);
        aw_profile_set_deinit(&set);
    }
}

static const struct {
    const char *text;
    uint32_t line, column; /* column 0: not compared */
    const char *key, *says, *why;
} wrong_files[] = {
    /* what it is */
    {"kind: MultidimPodAutoscaler\n", 1, 1, "", "missing key \"apiVersion\"", "no version"},
    {HEAD, 1, 1, "", "missing key \"kind\"", "no kind"},
    {HEAD "kind: MultidimPodAutoscalr\n", 2, 7, "kind", "did you mean \"MultidimPod", "a typo"},
    {HEAD "kind: Deployment\n", 2, 7, "kind", "SimulatedCluster", "none of the group"},
    {"apiVersion: autoscaling.k8s.io/v1alpha1\nkind: MultidimPodAutoscaler\n", 1, 13, "apiVersion",
     "expected autoscaling.aware.dev/v1alpha1", "upstream's"},
    {"apiVersion: autoscaling.aware.dev/v9\nkind: Nothing\n", 1, 13, "apiVersion", "v1alpha1",
     "of the group, but another version"},
    {"- 1\n", 1, 1, "", "a map", "not an object"},
    {HEAD "kind: [1]\n", 2, 7, "kind", "a string", "not a name"},

    /* fields */
    {MPA "metadata: {name: a}\n", 1, 1, "", "missing key \"spec\"", "nothing in it"},
    {MPA "metadata: {name: a}\nspec: {constraints: {global: {maxReplicas: 2}}}\n", 4, 7, "spec",
     "\"scaleTargetRef\"", "no target"},
    {CART SLO, 5, 3, "spec", "missing key \"constraints\"", "no bounds"},
    {CART SLO "  constraints: {global: {}}\n", 7, 25, "spec.constraints.global",
     "missing key \"maxReplicas\"", "upstream requires it"},
    {CART SLO BOUNDS "  learnig: {}\n", 8, 3, "spec.learnig", "did you mean \"learning\"",
     "a typo"},
    {CART SLO BOUNDS "  learning: {fallback: {hpa_target: 3}}\n", 8, 25,
     "spec.learning.fallback.hpa_target", "did you mean \"hpaTarget\"", "another spelling"},
    {CART SLO BOUNDS "  guard: {mode: Auto}\n", 8, 11, "spec.guard.mode", "updateMode",
     "there is one place to say it"},
    {CART SLO BOUNDS "  guard: {peakWindow: 1}\n", 8, 23, "spec.guard.peakWindow", "30 to",
     "bounds of a setting"},
    {CART SLO BOUNDS "  guard: []\n", 8, 10, "spec.guard", "a map", "no map"},
    {CART SLO BOUNDS "  policy: {updateMode: auto}\n", 8, 24, "spec.policy.updateMode",
     "did you mean \"Auto\"", "names have their case"},
    {CART SLO BOUNDS "  policy: {updateMode: false}\n", 8, 24, "spec.policy.updateMode",
     "one of: Off", "Off without quotes in YAML 1.1"},
    {CART SLO BOUNDS "  learning: {bootstrap: 'false'}\n", 8, 25, "spec.learning.bootstrap",
     "true or false", "a text is no truth"},
    {CART SLO BOUNDS "  learning: {thresholds: {online: fast}}\n", 8, 35,
     "spec.learning.thresholds.online", "auto or a number", "neither"},
    {CART SLO BOUNDS "  learning: {thresholds: {online: .nan}}\n", 8, 35,
     "spec.learning.thresholds.online", "auto or a number", "only auto is nan"},
    {CART SLO BOUNDS "  learning: {seed: -1}\n", 8, 20, "spec.learning.seed", "whole number",
     "negative"},
    {CART SLO BOUNDS "  learning: {episodeSteps: 2.5}\n", 8, 28, "spec.learning.episodeSteps",
     "whole number", "half a step"},
    {CART SLO BOUNDS "  recommenders: [{name: a}, {name: b}]\n", 8, 17, "spec.recommenders",
     "at most 1", "two deciders"},
    {MPA "metadata: {name: A_b}\nspec:\n  scaleTargetRef: {name: c}\n" SLO BOUNDS, 3, 18,
     "metadata.name", "lower-case", "not a name"},
    {MPA "metadata: {name: -a}\nspec:\n  scaleTargetRef: {name: c}\n" SLO BOUNDS, 3, 18,
     "metadata.name", "both ends", "begins with a dash"},
    {MPA "metadata: {name: a, labels: {x: 1}}\nspec:\n  scaleTargetRef: {name: c}\n" SLO BOUNDS, 3,
     33, "metadata.labels.x", "a string", "labels are texts"},

    /* goals */
    {CART BOUNDS "  goals: {slo: {latency: {target: 0s}}}\n", 7, 35,
     "spec.goals.slo.latency.target", "1us", "nothing is that fast"},
    {CART BOUNDS "  goals: {slo: {latency: {target: -3ms}}}\n", 7, 35,
     "spec.goals.slo.latency.target", "a duration", "negative"},
    {CART BOUNDS "  goals: {slo: {latency: {target: 200}}}\n", 7, 35,
     "spec.goals.slo.latency.target", "a duration", "200 what?"},
    {CART BOUNDS "  goals: {slo: {latency: {quantile: p99}}}\n", 7, 26, "spec.goals.slo.latency",
     "missing key \"target\"", "which quantile of what"},
    {CART BOUNDS "  goals: {slo: {latency: {target: 1s, quantile: p90}}}\n", 7, 49,
     "spec.goals.slo.latency.quantile", "p95", "no sample has it"},
    {CART BOUNDS "  goals: {slo: {latency: {target: 1s, timeout: 500ms}}}\n", 7, 48,
     "spec.goals.slo.latency.timeout", "above the target", "a lost request would keep the SLO"},
    {CART BOUNDS "  goals: {slo: {throughput: 5, budget: 1%}}\n", 7, 29,
     "spec.goals.slo.throughput", "a rate", "5 per what?"},
    {CART BOUNDS "  goals: {slo: {throughput: 5/s, budget: 1.5}}\n", 7, 42, "spec.goals.slo.budget",
     "0 to 1", "more than all"},
    {CART BOUNDS "  goals: {slo: {throughput: 5/s, budget: -1%}}\n", 7, 42, "spec.goals.slo.budget",
     "0 to 1", "less than none"},
    {CART BOUNDS "  goals: {slo: {throughput: 5/s, window: 10s}}\n", 7, 42, "spec.goals.slo.window",
     "at least a step (15s)", "shorter than a step"},
    {CART BOUNDS "  goals:\n    metrics:\n    - {type: Pods, pods: {}}\n", 9, 7,
     "spec.goals.metrics[0]", "Resource cpu", "not read"},
    {CART BOUNDS "  goals:\n    metrics:\n    - {type: Resource, resource: {name: memory, "
                 "target: {averageUtilization: 50}}}\n",
     9, 7, "spec.goals.metrics[0]", "Resource cpu", "HPA on memory fights VPA"},
    {CART BOUNDS "  goals:\n    metrics:\n    - {type: Resource, resource: {name: cpu, target: "
                 "{averageUtilization: 50}}}\n  learning: {fallback: {hpaTarget: 60}}\n",
     9, 7, "spec.goals.metrics[0]", "line 10", "two targets"},
    {CART BOUNDS "  goals:\n    metrics:\n    - {type: Resource, resource: {name: cpu, target: "
                 "{averageUtilization: 50}}}\n    - {type: Resource, resource: {name: cpu, "
                 "target: {averageUtilization: 50}}}\n",
     10, 7, "spec.goals.metrics[1]", "expected one", "the CPU twice"},

    /* constraints */
    {CART SLO "  constraints: {global: {minReplicas: 5, maxReplicas: 3}}\n", 7, 25,
     "spec.constraints.global", "found 5 and 3", "least above most"},
    {CART SLO "  constraints: {global: {maxReplicas: 1025}}\n", 7, 39,
     "spec.constraints.global.maxReplicas", "1 to 1024", "more than a sample holds"},
    {CART SLO "  constraints: {global: {minReplicas: 0, maxReplicas: 3}}\n", 7, 39,
     "spec.constraints.global.minReplicas", "1 to 1024", "nothing left to observe"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n    container:\n    - name: a\n"
              "      requests: {minAllowed: {memory: 2Gi}, maxAllowed: {memory: 1Gi}}\n",
     10, 7, "spec.constraints.container[0]", "found 2Gi and 1Gi", "least above most"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n    container:\n    - name: a\n"
              "      requests: {minAllowed: {cpu: 2}}\n"
              "    pod: {requests: {maxAllowed: {cpu: 1}}}\n",
     10, 7, "spec.constraints.container[0]", "found 2 and 1", "container against pod"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n    container:\n    - name: a\n"
              "      requests: {minAllowed: {memory: 100m}}\n",
     11, 39, "spec.constraints.container[0].requests.minAllowed.memory", "1Mi",
     "a tenth of a byte"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n    container: [{name: a}]\n"
              "  resourcePolicy: {containerPolicies: [{containerName: a}]}\n",
     10, 40, "spec.resourcePolicy.containerPolicies[0]", "line 9", "described twice"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n    container:\n    - {name: a}\n"
              "    - {name: b}\n",
     11, 7, "spec.constraints.container[1]", "line 10", "one size, two containers"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n"
              "    containerControlledResources: [cpu]\n"
              "  resourcePolicy: {containerPolicies: [{containerName: a, "
              "controlledResources: [memory]}]}\n",
     10, 0, "spec.resourcePolicy.containerPolicies[0].controlledResources", "line 9",
     "said twice, and differently"},
    {CART SLO "  constraints:\n    global: {maxReplicas: 3}\n"
              "    containerControlledResources: [cpu, gpu]\n",
     9, 41, "spec.constraints.containerControlledResources[1]", "one of: cpu, memory",
     "no such resource"},
    {CART SLO "  constraints: {global: {maxReplicas: 3, behavior: {scaleUp: {}}}}\n", 7, 53,
     "spec.constraints.global.behavior.scaleUp", "spec.guard", "of upstream, not used here"},
    {CART SLO "  constraints: {global: {maxReplicas: 3, requests: {}}}\n", 7, 42,
     "spec.constraints.global.requests", "not supported", "of upstream, not used here"},
    {CART SLO "  constraints: {global: {maxReplicas: 3, behavior: {scaleDown: "
              "{stabilizationWindowSeconds: 9}}}}\n  learning: {fallback: {hpaDownWindow: 8}}\n",
     7, 0, "spec.constraints.global.behavior.scaleDown.stabilizationWindowSeconds", "line 8",
     "said twice, and differently"},

    /* learning */
    {CART SLO BOUNDS "  learning: {retraining: {mode: online, highStakes: true}}\n", 8, 33,
     "spec.learning.retraining.mode", "line 8", "high stakes rule it out"},
    {CART SLO BOUNDS "  learning: {canary: {share: 2}}\n", 8, 30, "spec.learning.canary.share",
     "from 0.01 to 1", "more than an episode"},
    {CART SLO BOUNDS "  learning: {agent: {name: formla}}\n", 8, 28, "spec.learning.agent.name",
     "formula", "a typo"},
    {CART SLO BOUNDS "  learning: {agent: {name: ddpg}}\n", 8, 28, "spec.learning.agent.name",
     "network", "a learner, not a kind of agent"},
    {CART SLO BOUNDS "  learning: {agent: {settings: {copis: 1}}}\n", 8, 33,
     "spec.learning.agent.settings.copis", "did you mean \"copies\"", "a typo"},
    {CART SLO BOUNDS "  learning: {agent: {name: network, settings: {copies: 1}}}\n", 8, 48,
     "spec.learning.agent.settings.copies", "unknown", "a setting of the other kind"},
    {CART SLO BOUNDS "  learning: {agent: {settings: 3}}\n", 8, 32, "spec.learning.agent.settings",
     "a map", "not settings"},
    {CART BOUNDS "  goals: {slo: {throughput: 1/s}}\n  learning: {fallback: {kind: aimd}}\n", 8, 24,
     "spec.learning.fallback", "latency SLO", "nothing to follow"},
    {CART SLO "  constraints: {global: {minReplicas: 3, maxReplicas: 3}}\n"
              "  learning: {fallback: {kind: hpa}}\n",
     8, 24, "spec.learning.fallback", "changes sizes", "nothing to do"},
    {CART SLO "  constraints: {global: {maxReplicas: 3}, containerControlledResources: []}\n"
              "  learning: {fallback: {kind: vpa}}\n",
     8, 24, "spec.learning.fallback", "changes replicas", "nothing to do"},
    {CART SLO BOUNDS "  learning: {fallback: {kind: aimd, aimdMemoryLow: 0.9}}\n", 8, 24,
     "spec.learning.fallback", "", "low above high"},

    /* the simulated world */
    {APP("a") "spec: {app: {segments: [{kind: gzp}]}}\n", 4, 32, "spec.app.segments[0].kind",
     "did you mean \"gzip\"", "a typo"},
    {APP("a") "spec: {app: {segments: []}}\n", 4, 24, "spec.app.segments", "1 to 6", "nothing"},
    {APP("a") "spec: {app: {segments: [{kind: gzip}], seed: 3}}\n", 4, 24, "spec.app.segments",
     "not both", "drawn, or described"},
    {APP("a") "spec: {app: {kinds: [{name: x, cpu: 1ms}]}}\n", 4, 21, "spec.app.kinds", "segments",
     "kinds that nothing is of"},
    {APP("a") "spec: {app: {segments: [{kind: x}], kinds: [{name: x, cpu: 0ms}]}}\n", 4, 60,
     "spec.app.kinds[0].cpu", "0.001ms", "nothing runs in no time"},
    {APP("a") "spec: {load: {source: nothing.csv}}\n", 4, 23, "spec.load.source", "nothing.csv",
     "no such file"},
    {APP("a") "spec: {load: {source: 'diurnal:maen=3'}}\n", 4, 23, "spec.load.source", "mean",
     "a typo"},
    {APP("a") "spec: {load: {source: 'diurnal:mean=3/s', cores: 2}}\n", 4, 50, "spec.load.cores",
     "not both", "two scales"},
    {APP("a") "spec: {scenarios: [{scenario: fire, at: 3m}]}\n", 4, 31,
     "spec.scenarios[0].scenario", "fire", "no such scenario"},
    {APP("a") "spec: {scenarios: 'fire@3m'}\n", 4, 19, "spec.scenarios", "fire",
     "the same as text"},
    {APP("a") "spec: {start: {cpu: 0}}\n", 4, 21, "spec.start.cpu", "1m", "no CPU at all"},
    {CLUSTER "spec: {nodeCount: 2, faults: [{kind: node, node: 2, at: 1h, for: 1m}]}\n", 4, 31,
     "spec.faults[0]", "0 to 1", "no such node"},
    {CLUSTER "spec: {nodes: 2}\n", 4, 8, "spec.nodes", "unknown key", "nodeCount"},
    {CLUSTER "spec: {faults: [{kind: api, at: 1h}]}\n", 4, 17, "spec.faults[0]",
     "missing key \"for\"", "for ever?"},
    {CLUSTER "---\n" CLUSTER, 5, 1, "", "f.yaml:1", "two worlds"},

    /* together */
    {CART SLO BOUNDS "---\n" MPA
                     "metadata: {name: cart}\nspec:\n  scaleTargetRef: {name: x}\n" BOUNDS,
     9, 1, "metadata.name", "default/cart is at f.yaml:1 already", "one name"},
    {CART SLO BOUNDS "---\n" MPA
                     "metadata: {name: x}\nspec:\n  scaleTargetRef: {name: cart}\n" BOUNDS,
     9, 1, "spec.scaleTargetRef", "default/cart is at f.yaml:1 already", "one target"},
    {APP("a") "---\n" APP("a"), 5, 1, "metadata.name", "f.yaml:1", "one name"},
    {CART SLO BOUNDS "---\n" APP("cart") "spec: {start: {replicas: 10}}\n", 9, 1, "spec.start",
     "replicas is outside", "beyond the most"},
    {CART SLO BOUNDS "---\n" APP("cart") "spec: {start: {cpu: 5}}\n", 9, 1, "spec.start",
     "cpu is outside", "beyond the most"},
};

static void what_is_wrong_is_said_with_its_place_and_path(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        struct aw_profile_set set;
        static struct heard heard;
        const enum aw_err err = read_text(&set, wrong_files[i].text, &heard, NULL);
        const struct aw_profile_finding *f = NULL;
        for (uint32_t k = 0; k < heard.count && !f; k++)
            f = heard.finding[k].err ? &heard.finding[k] : NULL;
        aw_profile_set_deinit(&set);
        if (!f || err != AW_ERR_CONFIG || heard.report.error_count != 1) {
            print_error("%s: %s, %u errors\n", wrong_files[i].why, aw_err_name(err),
                        heard.report.error_count);
            wrong++;
            continue;
        }
        if (f->diag.line == wrong_files[i].line &&
            (!wrong_files[i].column || f->diag.column == wrong_files[i].column) &&
            !strcmp(f->diag.key, wrong_files[i].key) && strstr(f->diag.text, wrong_files[i].says) &&
            !strcmp(f->diag.file, "f.yaml"))
            continue;
        print_error("%s: at %u:%u %s: %s\n", wrong_files[i].why, f->diag.line, f->diag.column,
                    f->diag.key, f->diag.text);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void what_is_odd_is_a_warning_with_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name, *key, *why;
    } cases[] = {
        {CART BOUNDS, "no_slo", "spec", "nothing to learn for"},
        {CART BOUNDS "  goals: {slo: {budget: 2%}}\n", "no_slo", "spec.goals.slo",
         "a budget of "
         "nothing"},
        {CART SLO "  constraints: {global: {maxReplicas: 3}, containerControlledResources: "
                  "[memory]}\n",
         "unbounded", "spec.constraints.containerControlledResources", "no bounds"},
        {CART SLO "  constraints: {global: {minReplicas: 3, maxReplicas: 3}, "
                  "containerControlledResources: []}\n",
         "nothing_to_scale", "spec.constraints", "no choice at all"},
        {CART SLO "  constraints:\n    global: {minReplicas: 3, maxReplicas: 3}\n"
                  "    container: [{name: '*', mode: Off}]\n",
         "nothing_to_scale", "spec.constraints", "sizes are Off"},
        {CART BOUNDS "  goals: {slo: {throughput: 1/s, budget: 0.1%}}\n", "small_budget",
         "spec.goals.slo", "less than a step"},
        {CART SLO BOUNDS "  recommenders: [{name: vpa}]\n", "other_recommender",
         "spec.recommenders", "someone else decides"},
        {CART SLO BOUNDS "  learning: {thresholds: {online: 9, serving: 8}}\n", "low_serving",
         "spec.learning.thresholds.serving", "trusted before it is tried"},
        {CART SLO BOUNDS "---\napiVersion: apps/v1\nkind: Deployment\n", "skipped", "kind",
         "manifests are kept together"},
        {CART SLO BOUNDS "---\n" APP("cart") "spec: {app: {index: 3}}\n---\n" MPA NAMED("x")
             SLO BOUNDS,
         "not_simulated", "spec.scaleTargetRef.name", "the one without an application"},
        {CART BOUNDS "  goals: {slo: {latency: {target: 5ms}}}\n---\n" APP("cart"), "unmeetable",
         "spec.goals.slo.latency.target", "less than a request needs alone"},
        {APP("x"), "unscaled", "metadata.name", "nobody scales it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_profile_set set;
        static struct heard heard;
        assert_ok(read_text(&set, cases[i].text, &heard, NULL));
        const struct aw_profile_finding *f = &heard.finding[0];
        if (heard.count != 1 || f->err || strcmp(f->warning, cases[i].name) != 0 ||
            strncmp(f->diag.key, cases[i].key, strlen(cases[i].key)) != 0 || f->diag.line == 0)
            fail_msg("%s: %u, %s %s: %s", cases[i].why, heard.count, f->warning, f->diag.key,
                     f->diag.text);
        aw_profile_set_deinit(&set);
    }
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
    (void)state;
    struct aw_profile_set set;
    static struct heard heard;
    assert_int_equal(
        read_text(&set,
                  CART "  goals: {slo: {latency: {target: 0s}, budget: 2}}\n"              /* 2 */
                       "  constraints: {global: {minReplicas: 3, maxReplicas: 2, x: 1}}\n" /* 2 */
                       "  learning: {agent: {name: x}, retraining: {mode: online, "
                       "highStakes: true}}\n" /* 2 */
                       "---\n" APP("b") "spec: {app: {segments: [{kind: x}]}, load: "
                                        "{source: 'ramp:x=1'}, scenarios: [x@1m]}\n" /* 3 */
                                        "---\n" MPA NAMED("good") SLO BOUNDS,
                  &heard, NULL),
        AW_ERR_CONFIG);
    assert_int_equal(heard.report.error_count, 9);
    assert_int_equal(set.profile_count, 1); /* what is wrong is not in the set */
    assert_string_equal(set.profiles[0].name, "good");
    assert_int_equal(set.app_count, 0);
    aw_profile_set_deinit(&set);
}

static void what_kubectl_prints_is_read(void **state)
{
    (void)state;
    struct aw_profile_set set =
        read_sound("apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n"
                   "- apiVersion: autoscaling.aware.dev/v1alpha1\n"
                   "  kind: MultidimPodAutoscaler\n"
                   "  metadata:\n"
                   "    annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}\n"
                   "    creationTimestamp: '2024-05-01T10:00:00Z'\n"
                   "    generation: 3\n"
                   "    managedFields: [{manager: kubectl}]\n"
                   "    name: a\n"
                   "    namespace: n\n"
                   "    resourceVersion: '42'\n"
                   "    uid: 0b1\n"
                   "  spec:\n"
                   "    scaleTargetRef: {name: a}\n"
                   "    goals: {metrics: null, slo: {latency: {target: 1s}}}\n"
                   "    constraints: {global: {maxReplicas: 3}}\n"
                   "    policy: null\n"
                   "  status: {conditions: [{type: AbleToScale}], anything: 3}\n");
    assert_int_equal(set.profile_count, 1);
    assert_string_equal(set.profiles[0].namespace, "n");
    aw_profile_set_deinit(&set);
}

static void an_application_is_drawn_or_described(void **state)
{
    (void)state;
    struct aw_profile_set set = read_sound(
        CART SLO BOUNDS "---\n" APP("cart") "spec:\n  app: {seed: 5, index: 17}\n"
                                            "  load: {source: 'bursts:mean=20/s', seed: 3}\n"
                                            "---\n" MPA NAMED("own") SLO BOUNDS
        "---\n" APP("own") "spec:\n"
                           "  app:\n"
                           "    kinds: [{name: nap, cpu: 1ms, io: 50ms}]\n"
                           "    segments: [{kind: nap}, {kind: gzip, cpu: 7ms}]\n"
                           "  load: {source: ramp, cores: 3.5}\n"
                           "  scenarios:\n"
                           "  - {scenario: file-size, at: 30m, for: 10m}\n"
                           "  - neighbour-cpu@2h\n"
                           "  start: {replicas: 3, cpu: 500m, memory: 1Gi}\n"
                           "---\n" CLUSTER "spec:\n"
                           "  model: reference\n"
                           "  nodeCount: 3\n"
                           "  drainSeconds: 7\n"
                           "  seed: 8\n"
                           "  faults:\n"
                           "  - {kind: api, at: 2h, for: 1m}\n"
                           "  - {kind: node, node: 2, at: 1h, for: 5m}\n");
    struct aw_app drawn;
    aw_app_generate(5, 17, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &drawn);
    const struct aw_profile_app *app = aw_profile_set_app(&set, &set.profiles[0]);
    assert_non_null(app);
    assert_memory_equal(&app->app, &drawn, sizeof drawn);
    assert_string_equal(app->load, "bursts:mean=20/s");
    assert_true(app->load_cores == 0); /* the load names a rate */
    assert_int_equal(app->load_seed, 3);
    assert_int_equal(app->scenarios.count, 0);
    assert_int_equal(app->replicas, 0);

    app = aw_profile_set_app(&set, &set.profiles[1]);
    assert_non_null(app);
    assert_string_equal(app->app.name, "own");
    assert_int_equal(app->app.segment_count, 2);
    assert_string_equal(app->app.segment[0].name, "nap");
    assert_true(app->app.segment[0].io_ms == 50);
    assert_true(app->app.segment[1].cpu_ms == 7);
    assert_true(app->load_cores == 3.5);
    assert_int_equal(app->scenarios.count, 2);
    assert_string_equal(app->scenarios.event[0].name, "file-size");
    assert_int_equal(app->replicas, 3);
    assert_int_equal(app->cpu_millicores, 500);
    assert_int_equal(app->memory_bytes, (int64_t)1 << 30);

    assert_string_equal(set.cluster.name, "c");
    assert_int_equal(set.cluster.sim.model, AW_SIM_REFERENCE);
    assert_int_equal(set.cluster.sim.node_count, 3);
    assert_true(set.cluster.sim.drain_s == 7);
    assert_true(set.cluster.sim.node_cores == 16); /* as without one */
    assert_int_equal(set.cluster.seed, 8);
    assert_int_equal(set.cluster.fault_count, 2);
    assert_int_equal(set.cluster.fault[0].kind, AW_PROFILE_FAULT_NODE); /* by time */
    assert_int_equal(set.cluster.fault[0].node, 2);
    assert_true(set.cluster.fault[1].at_us == 7200000000);
    aw_profile_set_deinit(&set);
}

static void targets_of_different_kinds_or_namespaces_do_not_meet(void **state)
{
    (void)state;
    struct aw_profile_set set =
        read_sound(CART SLO BOUNDS "---\n" MPA "metadata: {name: b}\nspec:\n"
                                   "  scaleTargetRef: {kind: StatefulSet, name: cart}\n" SLO BOUNDS
                                   "---\n" MPA "metadata: {name: cart, namespace: other}\nspec:\n"
                                   "  scaleTargetRef: {name: cart}\n" SLO BOUNDS);
    assert_int_equal(set.profile_count, 3);
    aw_profile_set_deinit(&set);
}

AW_TEST_GROUP("profile")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_lines_are_enough_and_the_rest_are_defaults),
        cmocka_unit_test(a_profile_that_says_no_more_gives_the_pilot_of_the_defaults),
        cmocka_unit_test(what_is_written_is_what_is_kept),
        cmocka_unit_test(a_bound_that_is_not_said_never_contradicts_one_that_is),
        cmocka_unit_test(only_one_who_says_nothing_acts_in_a_simulation_and_not_elsewhere),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place_and_path),
        cmocka_unit_test(what_is_odd_is_a_warning_with_a_name),
        cmocka_unit_test(all_that_is_wrong_is_told_at_once),
        cmocka_unit_test(what_kubectl_prints_is_read),
        cmocka_unit_test(an_application_is_drawn_or_described),
        cmocka_unit_test(targets_of_different_kinds_or_namespaces_do_not_meet),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
