/*
 * simulate_fault.c - what --fault takes: "node@20m+5m,metrics@1h+3m,api@90m+2m".
 *
 * A fault has a kind, a time from the end of the warm-up and how long it lasts; a node may have its
 * number, "node:2". Faults join the events of --scenario, in order of time.
 */
#include "lab/simulate.h"

#include "base/quantity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 1024u /* bytes of --fault, with its NUL */

static const struct {
    const char *name;
    enum aw_simulate_event_kind kind;
} kinds[] = {{"node", AW_SIMULATE_FAIL_NODE},
             {"metrics", AW_SIMULATE_FAIL_METRICS},
             {"api", AW_SIMULATE_FAIL_API}};

static enum aw_err malformed(const char *text, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--fault",
                      "expected node[:NUMBER], metrics or api, @WHEN+HOWLONG, as in node@20m+5m; "
                      "found %s",
                      AW_QUOTE(text));
}

static enum aw_err fault_parse(char *text, uint32_t node_count, struct aw_simulate_event *ret,
                               struct aw_diag *diag)
{
    char whole[TEXT_MAX];
    snprintf(whole, sizeof whole, "%s", text);
    char *when = strchr(text, '@'), *length = when ? strchr(when, '+') : NULL;
    if (!length)
        return malformed(whole, diag);
    *when++ = *length++ = 0;
    char *number = strchr(text, ':');
    uint64_t node = 0;
    if (number)
        *number++ = 0;
    struct aw_simulate_event event = {0};
    size_t k = 0, count = sizeof kinds / sizeof *kinds;
    while (k < count && strcmp(kinds[k].name, text) != 0)
        k++;
    if (k == count || (number && kinds[k].kind != AW_SIMULATE_FAIL_NODE) ||
        aw_duration_parse(when, AW_QUANTITY_POSITIVE_OR_0, &event.at_us, NULL) ||
        aw_duration_parse(length, AW_QUANTITY_POSITIVE_OR_0, &event.duration_us, NULL))
        return malformed(whole, diag);
    if (number) {
        enum aw_err err = aw_number_parse(number, 0, node_count - 1, "--fault", &node, diag);
        if (err)
            return err;
    }
    event.kind = kinds[k].kind;
    event.node = (uint32_t)node;
    *ret = event;
    return AW_OK;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct aw_simulate_event *)a)->at_us;
    int64_t y = ((const struct aw_simulate_event *)b)->at_us;
    return (x > y) - (x < y);
}

enum aw_err aw__simulate_faults(struct aw__simulate *ask, const char *text, struct aw_diag *diag)
{
    char copy[TEXT_MAX];
    if (strlen(text) >= sizeof copy)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--fault", "longer than %zu bytes",
                          sizeof copy);
    snprintf(copy, sizeof copy, "%s", text);
    uint32_t faults = 0;
    for (char *one = copy, *next; one; one = next) {
        if ((next = strchr(one, ',')))
            *next++ = 0;
        if (faults++ == AW__SIMULATE_FAULTS_MAX)
            return aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "--fault", "at most %u faults",
                              AW__SIMULATE_FAULTS_MAX);
        enum aw_err err =
            fault_parse(one, ask->config.sim.node_count, &ask->event[ask->event_count], diag);
        if (err)
            return err;
        ask->event_count++;
    }
    qsort(ask->event, ask->event_count, sizeof *ask->event, by_time);
    return AW_OK;
}
