/* chaos_log.c - the disk is asked, not the desk: what a power cut would leave, whether it
 * verifies, and whether every order that was acknowledged is in it. */
#include <stdlib.h>
#include <string.h>

#include "chaos/chaos_internal.h"

#define TAIL 256u /* entries that a tick may have written, and then some */

/* What a power cut in this very moment would leave; once per tick, between record and the end. */
static const struct aw_disk *durable(struct aw__chaos *world)
{
    if (!world->has_durable) {
        if (aw_disk_sim_copy(&world->durable, &world->disk))
            return NULL;
        aw_disk_sim_power_cut(&world->durable, world->config.seed + world->tick);
        world->has_durable = true;
    }
    return &world->durable.disk;
}

void aw__chaos_log_forget(struct aw__chaos *world)
{
    if (world->has_durable)
        aw_disk_sim_deinit(&world->durable);
    world->has_durable = false;
}

/* --- a change is in the log ------------------------------------------------------------------- */

struct sought {
    const char *workload;
    int64_t at_us;
    const struct aw_plan *plan;
    bool found;
};

static bool says(const json_t *members, const char *axis, const char *key, int64_t amount)
{
    const json_t *changed = json_object_get(members, "changed");
    const json_t *to = json_object_get(members, "to");
    for (size_t i = 0; i < json_array_size(changed); i++) {
        const char *name = json_string_value(json_array_get(changed, i));
        if (name && strcmp(name, axis) == 0)
            return json_integer_value(json_object_get(to, key)) == amount;
    }
    return false;
}

static json_t *members_of(const struct aw_audit_entry *entry)
{
    char *text = malloc(entry->members_len + 2);
    if (!text)
        return NULL;
    text[0] = '{';
    memcpy(text + 1, entry->members, entry->members_len);
    text[entry->members_len + 1] = '}';
    json_t *members = json_loadb(text, entry->members_len + 2, 0, NULL);
    free(text);
    return members;
}

static enum aw_err seek(void *ctx, const struct aw_audit_entry *entry)
{
    struct sought *sought = ctx;
    if (!entry->intact || entry->at_us != sought->at_us)
        return AW_OK;
    json_t *members = members_of(entry);
    const char *name = json_string_value(json_object_get(members, "workload"));
    if (name && strcmp(name, sought->workload) == 0) {
        const struct aw_plan *plan = sought->plan;
        bool all = true;
        for (uint32_t a = 0; a < AW_RESOURCES; a++)
            all &=
                !(plan->set & AW_PLAN_BIT(a)) || says(members, aw_resource_table[a].name,
                                                      aw_resource_table[a].member, plan->amount[a]);
        sought->found |= all;
    }
    json_decref(members);
    return AW_OK;
}

void aw__chaos_check_recorded(struct aw__chaos *world, uint32_t w, const struct aw_plan *plan)
{
    struct aw__chaos_workload *of = &world->workload[w];
    struct sought sought = {.workload = of->pilot.name, .at_us = of->decision.at_us, .plan = plan};
    struct aw_audit_filter filter = AW_AUDIT_EVERY;
    filter.kind = "decision";
    const struct aw_disk *disk = durable(world);
    if (!disk)
        return;
    const enum aw_err err =
        aw_audit_tail(disk, AW__CHAOS_FOLDER, TAIL, &filter, seek, &sought, NULL, NULL);
    aw__chaos_must(world, sought.found, AW_INVARIANT_RECORDED, w,
                   "after a power cut the log would not have this decision (%s)", aw_err_name(err));
}

/* --- the whole log ---------------------------------------------------------------------------- */

struct roll {
    struct aw__chaos *world;
    bool found[AW__CHAOS_ORDERS_MAX];
};

static enum aw_err call(void *ctx, const struct aw_audit_entry *entry)
{
    struct roll *roll = ctx;
    if (strcmp(entry->kind, "order") != 0)
        return AW_OK;
    for (uint32_t i = 0; i < roll->world->order_count; i++)
        roll->found[i] |= roll->world->order[i].id == entry->seq;
    return AW_OK;
}

void aw__chaos_check_log(struct aw__chaos *world)
{
    struct aw_disk_sim copy;
    struct roll roll = {.world = world};
    struct aw_audit_report report = {0};
    struct aw_diag diag = {0};
    if (aw_disk_sim_copy(&copy, &world->disk))
        return;
    const enum aw_err err =
        aw_audit_verify(&copy.disk, AW__CHAOS_FOLDER, NULL, call, &roll, NULL, &report, &diag);
    aw_disk_sim_deinit(&copy);
    /* half a commit that nobody was told of may lie there until the disk works again */
    const bool broken = world->fault_rate[AW_CHAOS_DISK_FULL] > 0 ||
                        world->fault_rate[AW_CHAOS_DISK_READ_ONLY] > 0 ||
                        world->fault_rate[AW_CHAOS_DISK_ERROR] > 0 ||
                        world->fault_rate[AW_CHAOS_POWER_CUT] > 0 ||
                        world->fault_rate[AW_CHAOS_KILL] > 0;
    if (err == AW_ERR_NOTFOUND && world->order_count == 0)
        return; /* it never got to write */
    aw__chaos_must(world, err == AW_OK || (broken && report.torn), AW_INVARIANT_AUDIT, UINT32_MAX,
                   "%s: %s", aw_err_name(err), *report.why ? report.why : diag.text);
    for (uint32_t i = 0; i < world->order_count; i++)
        aw__chaos_must(world, roll.found[i], AW_INVARIANT_ORDERS_SURVIVE, UINT32_MAX,
                       "order %llu was acknowledged and is not in the log",
                       (unsigned long long)world->order[i].id);
}
