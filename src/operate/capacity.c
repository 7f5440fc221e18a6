/* capacity.c - the verb `capacity`: who has what of a shared cluster, and what would fit. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/quantity.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

static enum aw_err ask(const struct aw_call *run, struct aw__client *client, json_t **ret,
                       struct aw_diag *diag)
{
    const char *cpu = aw_args_text(run->args, "fits-cpu");
    const char *memory = aw_args_text(run->args, "fits-memory");
    const uint64_t minus = aw_args_number(run->args, "minus");
    char path[AW__CLIENT_PATH_MAX];
    if (!aw__client_running(client)) {
        json_t *left = json_object_get(client->views, "capacity");
        if (!json_is_object(left))
            return aw_fail(diag, AW_ERR_NOTFOUND,
                           "nothing is shared: no workload has spec.tenancy and there is no "
                           "Tenant");
        if (cpu || minus)
            return aw__client_need(client, "answer what would be", diag);
        *ret = json_incref(left);
        return AW_OK;
    }
    if (memory && !cpu)
        return aw_fail(diag, AW_ERR_USAGE, "--fits-memory needs --fits-cpu");
    snprintf(path, sizeof path, "/v1/capacity?minus=%llu%s%s%s%s&priority=%llu",
             (unsigned long long)minus, cpu ? "&cpu=" : "", cpu ? cpu : "",
             memory ? "&memory=" : "", memory ? memory : "",
             (unsigned long long)aw_args_number(run->args, "fits-priority"));
    return aw__client_ask(client, path, NULL, ret, diag);
}

static const char *cores_text(const json_t *of, const char *key, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s.cpu_cores", key);
    const double cores = aw_at_real(of, path);
    if (!(cores > 0))
        snprintf(buf, size, "-");
    else
        snprintf(buf, size, "%.1f", cores);
    return buf;
}

static const struct aw_grid_column tenant_columns[] = {
    {.head = "TENANT", .least = 12},
    {.head = "PRIORITY", .right = true, .rank = 2},
    {.head = "WEIGHT", .right = true, .rank = 3},
    {.head = "GUARANTEE", .right = true, .rank = 1},
    {.head = "HOLDS", .right = true},
    {.head = "ASKS", .right = true},
    {.head = "GETS", .right = true},
    {.head = "LENDS", .right = true},
    {.head = "BORROWS", .right = true},
    {.head = "CREDIT", .right = true, .rank = 4},
    {.head = NULL},
};

static enum aw_err tenants_print(const struct aw_call *run, const json_t *all, unsigned width,
                                 struct aw_diag *diag)
{
    static const char *const keys[] = {"guarantee", "holds", "asks", "gets", "lends", "borrows"};
    struct aw_grid grid;
    char buf[32];
    size_t i;
    const json_t *row;
    aw_grid_init(&grid, tenant_columns);
    json_array_foreach(aw_at(all, "tenants"), i, row)
    {
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw_at_text(row, "name"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(row, "priority"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%g", aw_at_real(row, "weight"));
        const bool short_of =
            aw_at_real(row, "gets.cpu_cores") < aw_at_real(row, "asks.cpu_cores") - 0.005;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            aw_grid_add(&grid, short_of && k == 3 ? AW_TONE_ODD : AW_TONE_PLAIN, "%s",
                        cores_text(row, keys[k], buf, sizeof buf));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%+.2f", aw_at_real(row, "credit"));
    }
    const struct aw_grid_look look = {
        .width = width, .heads = true, .color = run->color_out, .end = "\n"};
    return aw_grid_print(&grid, stdout, &look, diag);
}

static const struct aw_grid_column workload_columns[] = {
    {.head = "WORKLOAD", .least = 12},   {.head = "TENANT", .rank = 1, .least = 8},
    {.head = "REPLICAS", .right = true}, {.head = "ASKED", .right = true},
    {.head = "GOT", .right = true},      {.head = "SLO", .rank = 2},
    {.head = "BECAUSE", .least = 20},    {.head = NULL},
};

static enum aw_err workloads_print(const struct aw_call *run, const json_t *all, unsigned width,
                                   struct aw_diag *diag)
{
    struct aw_grid grid;
    size_t i;
    const json_t *row;
    aw_grid_init(&grid, workload_columns);
    json_array_foreach(aw_at(all, "workloads"), i, row)
    {
        const bool missed = aw_at_true(row, "slo_missed");
        const bool cut = strcmp(aw_at_text(row, "reason"), "granted") != 0;
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw_at_text(row, "name"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s",
                    json_is_string(aw_at(row, "tenant")) ? aw_at_text(row, "tenant") : "-");
        aw_grid_add(&grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(row, "replicas"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(row, "asked"));
        aw_grid_add(&grid, cut ? AW_TONE_ODD : AW_TONE_PLAIN, "%lld",
                    (long long)aw_at_integer(row, "got"));
        aw_grid_add(&grid, missed ? AW_TONE_BAD : AW_TONE_PLAIN, "%s", missed ? "missed" : "kept");
        aw_grid_add(&grid, AW_TONE_FAINT, "%s", cut ? aw_at_text(row, "sentence") : "");
    }
    const struct aw_grid_look look = {
        .width = width, .heads = true, .color = run->color_out, .end = "\n"};
    return aw_grid_print(&grid, stdout, &look, diag);
}

static void sums_print(const json_t *of, const char *head)
{
    const double has = aw_at_real(of, "capacity.cpu_cores");
    char held[32], asked[32];
    const double missing = aw_at_real(of, "missing.cpu_cores");
    printf("%s%.4g cores: %s held, %s asked for", head, has, cores_text(of, "held", held, 32),
           cores_text(of, "asked", asked, 32));
    if (missing > 0.005)
        printf("; %.1f more would let everybody have what it asks for", missing);
    putchar('\n');
}

static void what_if_print(const json_t *all)
{
    const json_t *what = aw_at(all, "what_if"), *row;
    size_t i;
    if (!what)
        return;
    const long long less = (long long)aw_at_integer(what, "nodes_less");
    char head[64] = "\nThen: ";
    if (less)
        snprintf(head, sizeof head, "\nWith %lld %s less: ", less, less == 1 ? "node" : "nodes");
    sums_print(what, head);
    if (aw_at(what, "fits")) {
        const bool fits = aw_at_true(what, "fits");
        char gets[32], asks[32];
        printf("A newcomer that asks for %s cores %s: it gets %s%s\n",
               cores_text(what, "newcomer_asks", asks, sizeof asks), fits ? "fits" : "does not fit",
               cores_text(what, "newcomer_gets", gets, sizeof gets),
               !fits                          ? ""
               : aw_at_true(what, "fits_now") ? ", at once"
                                              : ", when others have given back");
    }
    json_array_foreach(aw_at(what, "would_lose"), i, row)
        printf("  %s: %lld -> %lld replicas\n", aw_at_text(row, "name"),
               (long long)aw_at_integer(row, "target"), (long long)aw_at_integer(row, "would_be"));
}

static enum aw_err capacity_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client;
    json_t *all = NULL;
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    err = ask(run, &client, &all, diag);
    if (!err && run->json) {
        err = aw_json_print(all, diag);
        all = NULL;
    } else if (!err) {
        const unsigned width = isatty(STDOUT_FILENO) ? aw_columns(stdout) : 0;
        sums_print(all, "");
        putchar('\n');
        err = tenants_print(run, all, width, diag);
        putchar('\n');
        err = err ? err : workloads_print(run, all, width, diag);
        what_if_print(all);
    }
    json_decref(all);
    aw__client_close(&client);
    return err;
}

static const struct aw_option options[] = {
    AW_NUMBER("minus", 0, "N", "0", 0, 1000, "what would be with so many nodes less"),
    AW_OPTION(TEXT, "fits-cpu", 0, "CORES", NULL,
              "whether a newcomer that asks for so many cores fits, and who would lose"),
    AW_OPTION(TEXT, "fits-memory", 0, "BYTES", NULL, "memory that it asks for, as 8Gi"),
    AW_NUMBER("fits-priority", 0, "N", "0", 0, 1000000000, "its priority"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware capacity", "who holds, asks, gets, lends and borrows; whom that costs its SLO"},
    {"aware capacity --minus 1", "the same with one node less"},
    {"aware capacity --fits-cpu 4 --fits-memory 8Gi", "does this tenant fit?"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_capacity = {
    .name = "capacity",
    .summary = "Show who has what of a shared cluster, and what would fit",
    .text = "Of a daemon whose workloads share a cluster (spec.tenancy, kind Tenant): cores that "
            "every tenant holds, asks for, gets, lends and borrows; what every workload asked for "
            "and got, and why; how many cores are missing. The page "
            "docs/mechanisms/tenancy.md has the rules.",
    .options = options,
    .examples = examples,
    .json = true,
    .run = capacity_run,
};
