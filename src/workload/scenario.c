/*
 * scenario.c - the disturbances and their schedules.
 *
 * A payload factor is the mean of the sizes after the change over the mean before, as AWARE section
 * 2.3 states them. Of the floating-point operations the paper's text reads "from 10^8 to 20^8"; we
 * take it as twice as many, since 256 times would be another program. The load scenarios go from
 * one side of 1e5 requests a day to the other; an order of magnitude is our choice (on the public
 * day of the Azure trace the medians of both sides are a factor of 36 apart).
 */
#include "workload/scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/units.h"
#include "workload/app.h"
#include "workload/apps.h"

#define LOAD_STEP      10.0
#define ALL_OF(family) (1u << (family))

const struct aw_effect aw_effect_none = {
    .payload = 1, .cpu_slowdown = 1, .io_slowdown = 1, .load_factor = 1};

/* clang-format off */
/* A payload and its family; CPU time, waiting, load; memory. */
#define EFFECT(p, f, cpu, io, load, leak) {p, f, cpu, io, load, leak}
const struct aw_scenario aw_scenarios[] = {
    {"file-size", "files of 128-384 KB become 512-1024 KB (AWARE 2.3)",
     EFFECT((512 + 768 + 1024) / (128.0 + 256 + 384), ALL_OF(AW_PAYLOAD_FILE), 1, 1, 1, 0)},
    {"table-size", "tables of 1024 rows become 10240 (AWARE 2.3)",
     EFFECT(10, ALL_OF(AW_PAYLOAD_TABLE), 1, 1, 1, 0)},
    {"float-ops", "twice as many floating-point operations (AWARE 2.3)",
     EFFECT(2, ALL_OF(AW_PAYLOAD_FLOAT), 1, 1, 1, 0)},
    {"image-size", "images of 40x40 become 160x160 (AWARE 2.3)",
     EFFECT(160 / 40.0, ALL_OF(AW_PAYLOAD_IMAGE), 1, 1, 1, 0)},
    {"text-size", "JSON of 250-1000 B becomes 2-5 KB (AWARE 2.3)",
     EFFECT((2000 + 3000 + 5000) / (250.0 + 500 + 1000), ALL_OF(AW_PAYLOAD_TEXT), 1, 1, 1, 0)},
    {"model-size", "matrices of side 50 become 150 (AWARE 2.3)",
     EFFECT(150 / 50.0, ALL_OF(AW_PAYLOAD_MODEL), 1, 1, 1, 0)},
    {"load-high-to-low", "a tenth of the requests (AWARE 2.3)",
     EFFECT(1, 0, 1, 1, 1 / LOAD_STEP, 0)},
    {"load-low-to-high", "ten times the requests (AWARE 2.3)",
     EFFECT(1, 0, 1, 1, LOAD_STEP, 0)},
    /* Intensities are ours: what the anomaly injector of FIRM makes, at a strength that a tuned
     * limit with a usual margin of 1.2 to 1.5 does not absorb. */
    {"neighbour-cpu", "neighbours on the caches: CPU time times 1.6 (as FIRM injects)",
     EFFECT(1, 0, 1.6, 1, 1, 0)},
    {"neighbour-memory", "neighbours on memory: CPU time times 1.3, 64 MiB more (as FIRM injects)",
     EFFECT(1, 0, 1.3, 1, 1, 64)},
    {"neighbour-network", "neighbours on the network: waiting times 3 (as FIRM injects)",
     EFFECT(1, 0, 1, 3, 1, 0)},
    {NULL, NULL, EFFECT(0, 0, 0, 0, 0, 0)},
};
/* clang-format on */
#define SCENARIO_COUNT (sizeof aw_scenarios / sizeof *aw_scenarios - 1)

enum aw_err aw_scenario_find(const char *name, const struct aw_scenario **ret, struct aw_diag *diag)
{
    const char *names[SCENARIO_COUNT + 1] = {0};
    char quoted[AW_TEXT_QUOTE_MAX];
    for (uint32_t i = 0; i < SCENARIO_COUNT; i++) {
        names[i] = aw_scenarios[i].name;
        if (!strcmp(names[i], name)) {
            *ret = &aw_scenarios[i];
            return AW_OK;
        }
    }
    const char *nearest = aw_conf_nearest(name, names);
    aw_text_quote(name, strlen(name), quoted, sizeof quoted);
    if (nearest)
        return aw_fail(diag, AW_ERR_NOTFOUND, "unknown scenario %s (did you mean \"%s\"?)", quoted,
                       nearest);
    return aw_fail(diag, AW_ERR_NOTFOUND,
                   "unknown scenario %s; there are file-size, table-size, float-ops, image-size, "
                   "text-size, model-size, load-high-to-low, load-low-to-high, neighbour-cpu, "
                   "neighbour-memory and neighbour-network",
                   quoted);
}

/* ---- schedules ---- */

static enum aw_err event_add(struct aw_schedule *schedule, const struct aw_event *event,
                             struct aw_diag *diag)
{
    if (schedule->count == AW_SCHEDULE_EVENTS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a schedule has at most %u events",
                       AW_SCHEDULE_EVENTS_MAX);
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct aw_event *other = &schedule->event[i];
        if (other->effect.payload != 1 && event->effect.payload != 1 &&
            other->from_us < event->to_us && event->from_us < other->to_us)
            return aw_fail(diag, AW_ERR_CONFIG,
                           "%s and %s overlap: only one payload can change at a time", other->name,
                           event->name);
    }
    uint32_t at = schedule->count++;
    for (; at > 0 && schedule->event[at - 1].from_us > event->from_us; at--)
        schedule->event[at] = schedule->event[at - 1];
    schedule->event[at] = *event;
    return AW_OK;
}

static enum aw_err span_set(struct aw_event *event, const char *from, const char *duration,
                            struct aw_diag *diag)
{
    int64_t duration_us = 0;
    enum aw_err err = aw_duration_parse(from, AW_QUANTITY_POSITIVE_OR_0, &event->from_us, diag);
    if (err)
        return AW_ERR_CONFIG;
    event->to_us = INT64_MAX;
    if (!duration)
        return AW_OK;
    if (aw_duration_parse(duration, AW_QUANTITY_POSITIVE_OR_0, &duration_us, diag))
        return AW_ERR_CONFIG;
    if (duration_us == 0 || __builtin_add_overflow(event->from_us, duration_us, &event->to_us))
        return aw_fail(diag, AW_ERR_CONFIG, "an event must last longer than 0, and end some day");
    return AW_OK;
}

/* One "NAME@TIME[+DURATION]", blanks around it cut. */
static enum aw_err event_parse(const char *text, size_t len, struct aw_schedule *schedule,
                               struct aw_diag *diag)
{
    char word[128], quoted[AW_TEXT_QUOTE_MAX];
    const struct aw_scenario *scenario = NULL;
    struct aw_event event = {0};
    for (; len && *text == ' '; text++)
        len--;
    while (len && text[len - 1] == ' ')
        len--;
    aw_text_quote(text, len, quoted, sizeof quoted);
    char *at = NULL;
    if (len < sizeof word) {
        memcpy(word, text, len);
        word[len] = '\0';
        at = strlen(word) == len ? strchr(word, '@') : NULL;
    }
    if (!at)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected SCENARIO@TIME or SCENARIO@TIME+DURATION, found %s", quoted);
    *at++ = '\0';
    char *plus = strchr(at, '+');
    if (plus)
        *plus++ = '\0';
    enum aw_err err = aw_scenario_find(word, &scenario, diag);
    if (err || (err = span_set(&event, at, plus, diag)))
        return err;
    snprintf(event.name, sizeof event.name, "%s", scenario->name);
    event.effect = scenario->effect;
    return event_add(schedule, &event, diag);
}

static enum aw_err list_parse(const char *text, struct aw_schedule *schedule, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    while (!err && *text) {
        size_t len = strcspn(text, ",");
        err = event_parse(text, len, schedule, diag);
        text += len + (text[len] == ',' && text[len + 1]);
        if (!strcmp(text, ","))
            return aw_fail(diag, AW_ERR_CONFIG, "expected an event after the last comma");
    }
    return err;
}

enum aw_err aw_schedule_parse(const char *text, struct aw_schedule *ret, struct aw_diag *diag)
{
    struct aw_schedule schedule = {0};
    enum aw_err err = list_parse(text, &schedule, diag);
    if (!err)
        *ret = schedule;
    return err;
}

/* ---- from YAML ---- */

static enum aw_err families_read(const struct aw_tree *tree, const struct aw_node *list,
                                 uint32_t *ret, struct aw_diag *diag)
{
    uint32_t families = 0;
    enum aw_err err = aw_tree_list(tree, list, diag);
    for (const struct aw_node *n = err ? NULL : list->first; n && !err; n = n->next) {
        const char *name;
        uint32_t family = 1;
        if ((err = aw_tree_string(tree, n, &name, diag)))
            break;
        while (aw_payload_family_names[family] &&
               strcmp(aw_payload_family_names[family], name) != 0)
            family++;
        if (!aw_payload_family_names[family])
            return aw_tree_expected(tree, n, AW_ERR_CONFIG, diag,
                                    "one of: file, table, float, image, text, model");
        families |= 1u << family;
    }
    if (!err)
        *ret = families;
    return err;
}

static enum aw_err effect_read(const struct aw_tree *tree, const struct aw_node *map,
                               struct aw_effect *effect, struct aw_diag *diag)
{
    const struct {
        const char *key;
        double *member, min, max;
    } reals[] = {
        {"payload", &effect->payload, 0.01, 1000},
        {"cpu_slowdown", &effect->cpu_slowdown, 0.01, 100},
        {"io_slowdown", &effect->io_slowdown, 0.01, 1000},
        {"load", &effect->load_factor, 0, 1000},
    };
    const struct aw_node *node;
    enum aw_err err = AW_OK;
    for (size_t i = 0; !err && i < sizeof reals / sizeof *reals; i++) {
        if ((node = aw_node_find(map, reals[i].key)))
            err = aw_tree_real(tree, node, reals[i].min, reals[i].max, reals[i].member, diag);
    }
    if (!err && (node = aw_node_find(map, "families")))
        err = families_read(tree, node, &effect->families, diag);
    if (!err && (node = aw_node_find(map, "memory_leak"))) {
        const char *text;
        int64_t bytes = 0;
        if ((err = aw_tree_scalar(tree, node, &text, diag)))
            return err;
        if (aw_quantity_parse_memory(text, &bytes, diag))
            return aw_tree_place(tree, node, AW_ERR_CONFIG, diag);
        effect->memory_leak_mib = (double)bytes / AW_MIB_REAL;
    }
    return err;
}

static bool changes_nothing(const struct aw_effect *e)
{
    return e->payload == 1 && e->cpu_slowdown == 1 && e->io_slowdown == 1 && e->load_factor == 1 &&
           e->memory_leak_mib == 0;
}

static enum aw_err event_read(const struct aw_tree *tree, const struct aw_node *map,
                              struct aw_schedule *schedule, struct aw_diag *diag)
{
    static const char *const keys[] = {
        "scenario",     "at",   "for",         "payload",     "families",
        "cpu_slowdown", "load", "io_slowdown", "memory_leak", NULL};
    const struct aw_node *node = NULL;
    const char *text, *from, *duration = NULL;
    struct aw_event event = {.name = "custom", .effect = aw_effect_none};
    enum aw_err err = aw_tree_known(tree, map, keys, diag);
    if (err)
        return err;
    if ((node = aw_node_find(map, "scenario"))) {
        const struct aw_scenario *scenario = NULL;
        if ((err = aw_tree_string(tree, node, &text, diag)) ||
            (err = aw_tree_place(tree, node, aw_scenario_find(text, &scenario, diag), diag)))
            return err;
        snprintf(event.name, sizeof event.name, "%s", scenario->name);
        event.effect = scenario->effect;
    }
    if ((err = effect_read(tree, map, &event.effect, diag)) ||
        (err = aw_tree_require(tree, map, "at", &node, diag)) ||
        (err = aw_tree_scalar(tree, node, &from, diag)))
        return err;
    const struct aw_node *last = aw_node_find(map, "for");
    if (last && (err = aw_tree_scalar(tree, last, &duration, diag)))
        return err;
    if ((err = span_set(&event, from, NULL, diag)))
        return aw_tree_place(tree, node, err, diag);
    if (last && (err = span_set(&event, from, duration, diag)))
        return aw_tree_place(tree, last, err, diag);
    if (changes_nothing(&event.effect))
        return aw_tree_place(
            tree, map,
            aw_fail(diag, AW_ERR_CONFIG, "the event changes nothing: give a scenario or an effect"),
            diag);
    return aw_tree_place(tree, map, event_add(schedule, &event, diag), diag);
}

enum aw_err aw_schedule_decode(const struct aw_tree *tree, const struct aw_node *list,
                               struct aw_schedule *ret, struct aw_diag *diag)
{
    struct aw_schedule schedule = {0};
    enum aw_err err = aw_tree_list(tree, list, diag);
    for (const struct aw_node *n = err ? NULL : list->first; n && !err; n = n->next) {
        if (n->kind == AW_NODE_STRING)
            err = aw_tree_place(tree, n, list_parse(n->text, &schedule, diag), diag);
        else
            err = event_read(tree, n, &schedule, diag);
    }
    if (!err)
        *ret = schedule;
    return err;
}

/* ---- what is on ---- */

void aw_schedule_effect(const struct aw_schedule *schedule, int64_t at_us,
                        struct aw_effect *ret_effect)
{
    struct aw_effect sum = aw_effect_none;
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct aw_event *event = &schedule->event[i];
        if (at_us < event->from_us || at_us >= event->to_us)
            continue;
        if (event->effect.payload != 1) {
            sum.payload = event->effect.payload;
            sum.families = event->effect.families;
        }
        sum.cpu_slowdown *= event->effect.cpu_slowdown;
        sum.io_slowdown *= event->effect.io_slowdown;
        sum.load_factor *= event->effect.load_factor;
        sum.memory_leak_mib += event->effect.memory_leak_mib;
    }
    *ret_effect = sum;
}

int64_t aw_schedule_next(const struct aw_schedule *schedule, int64_t at_us)
{
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < schedule->count; i++) {
        const int64_t edges[] = {schedule->event[i].from_us, schedule->event[i].to_us};
        for (uint32_t k = 0; k < 2; k++) {
            if (edges[k] > at_us && edges[k] < next_us)
                next_us = edges[k];
        }
    }
    return next_us;
}
