/* scan.c - the verb `scan`: what the workloads of a cluster waste, and what they risk. */
#include "kube/scan.h"

#include "base/quantity.h"
#include "base/units.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#include <stdio.h>
#include <stdlib.h>

#define ATTEMPTS_MAX   3u        /* of a question: somebody is waiting at a terminal */
#define HISTORY_MIN_US 600000000 /* ten minutes: less is no history */
#define HISTORY_MAX_US (90 * 86400000000)
#define RISK_HIGH      30u /* from these sums of weights on */
#define RISK_MEDIUM    10u

/* A scan and how it is to be shown. */
struct view {
    const struct aw_call *run;
    struct aw_kube_scan scan;
    uint32_t *order; /* [scan.count]: rows as they are shown */
    uint32_t shown;  /* of them */
    bool by_risk, by_name;
    double price_cpu, price_memory; /* per core or GiB and month; < 0: not given */
    json_t *notes;
};

static void note(void *ctx, const char *text)
{
    struct view *view = ctx;
    json_array_append_new(view->notes, json_string(text));
    if (!view->run->json)
        aw_log_warn(view->run->log, text, AW_LOG_STR("verb", "scan"));
}

/* --- order --- */

static int by_wish(const void *a, const void *b, void *ctx)
{
    const struct view *view = ctx;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct aw_kube_scan_row *x = &view->scan.row[i], *y = &view->scan.row[j];
    const double waste = aw_kube_scan_waste(y) - aw_kube_scan_waste(x);
    if (!view->by_name && view->by_risk && x->risk != y->risk)
        return x->risk < y->risk ? 1 : -1;
    if (!view->by_name && waste != 0)
        return waste > 0 ? 1 : -1;
    if (!view->by_name && x->risk != y->risk)
        return x->risk < y->risk ? 1 : -1;
    return i < j ? -1 : i > j; /* rows are by namespace, kind and name */
}

/* --- figures --- */

static const char *cpu_text(double cores, char *buf)
{
    if (cores < 0)
        return "-";
    return aw_quantity_round_cpu((int64_t)(cores * 1000 + 0.5), AW_QUANTITY_MILLI, buf,
                                 AW_QUANTITY_TEXT_MAX);
}

static const char *memory_text(double bytes, char *buf)
{
    return bytes < 0 ? "-" : aw_quantity_round_memory((int64_t)bytes, buf, AW_QUANTITY_TEXT_MAX);
}

static double money(const struct view *view, double cores, double bytes)
{
    return (view->price_cpu > 0 ? view->price_cpu * cores : 0) +
           (view->price_memory > 0 ? view->price_memory * bytes / AW_GIB_REAL : 0);
}

static bool has_prices(const struct view *view)
{
    return view->price_cpu >= 0 || view->price_memory >= 0;
}

static const char *level(const struct aw_kube_scan_row *row)
{
    if (row->risk >= RISK_HIGH)
        return "high";
    return row->risk >= RISK_MEDIUM ? "medium" : row->risk ? "low" : "none";
}

/* "killed for memory (3), throttled (41%)". */
static void print_risks(const struct aw_kube_scan_row *row, struct aw_text *text)
{
    const char *between = "";
    for (uint32_t i = 0; i < AW_KUBE_RISKS; i++) {
        if (!(row->risks & 1u << i))
            continue;
        aw_text_add(text, "%s%s", between, aw_kube_risk_text((enum aw_kube_risk)i));
        between = ", ";
        if (i == AW_KUBE_RISK_OOM)
            aw_text_add(text, " (%u)", row->oom_kills);
        else if (i == AW_KUBE_RISK_THROTTLED)
            aw_text_add(text, " (%.0f%%)", 100 * row->throttled_share);
        else if (i == AW_KUBE_RISK_CONFLICT)
            aw_text_add(text, " (%s)", row->conflict);
    }
}

struct sums {
    double cpu, memory, cpu_waste, memory_waste;
    uint32_t risky, unmeasured;
};

static struct sums sum_up(const struct view *view)
{
    struct sums sums = {0};
    for (uint32_t i = 0; i < view->scan.count; i++) {
        const struct aw_kube_scan_row *row = &view->scan.row[i];
        sums.cpu += row->cpu_request > 0 ? row->cpu_request * row->pods : 0;
        sums.memory += row->memory_request > 0 ? row->memory_request * row->pods : 0;
        sums.cpu_waste += row->cpu_waste;
        sums.memory_waste += row->memory_waste;
        sums.risky += row->risk >= RISK_MEDIUM;
        sums.unmeasured += row->cpu.samples == 0;
    }
    return sums;
}

/* --- for people --- */

static void add_row(const struct view *view, const struct aw_kube_scan_row *row,
                    struct aw_table *table)
{
    char buf[6][AW_QUANTITY_TEXT_MAX], risks[AW_CELL_MAX];
    struct aw_text text;
    aw_text_init(&text, risks, sizeof risks);
    print_risks(row, &text);
    aw_table_add(table, "%s", row->ns);
    aw_table_add(table, "%s/%s", row->kind, row->name);
    aw_table_add(table, "%u", row->pods);
    aw_table_add(table, "%s", cpu_text(row->cpu_request, buf[0]));
    aw_table_add(table, "%s", cpu_text(row->cpu_need, buf[1]));
    aw_table_add(table, "%s", memory_text(row->memory_request, buf[2]));
    aw_table_add(table, "%s", memory_text(row->memory_need, buf[3]));
    aw_table_add(table, "%s", cpu_text(row->cpu_waste, buf[4]));
    aw_table_add(table, "%s", memory_text(row->memory_waste, buf[5]));
    if (has_prices(view))
        aw_table_add(table, "%.2f", money(view, row->cpu_waste, row->memory_waste));
    aw_table_add(table, "%s%s%s", level(row), row->risk ? ": " : "", risks);
}

static void print_sums(const struct view *view)
{
    const struct sums sums = sum_up(view);
    char buf[4][AW_QUANTITY_TEXT_MAX];
    printf("\n%u workload%s: %s of %s CPU and %s of %s memory are requested and not needed",
           view->scan.count, view->scan.count == 1 ? "" : "s", cpu_text(sums.cpu_waste, buf[0]),
           cpu_text(sums.cpu, buf[1]), memory_text(sums.memory_waste, buf[2]),
           memory_text(sums.memory, buf[3]));
    if (has_prices(view))
        printf(" (%.2f a month)", money(view, sums.cpu_waste, sums.memory_waste));
    printf("; %u at risk.\n", sums.risky);
    if (sums.unmeasured > 0)
        printf("%u had no usage to judge by.\n", sums.unmeasured);
    if (view->shown < view->scan.count)
        printf("%u of them are shown.\n", view->shown);
}

static enum aw_err print_table(const struct view *view, struct aw_diag *diag)
{
    static const char *const heads[] = {"NAMESPACE",      "WORKLOAD", ">PODS",  ">CPU",
                                        ">NEEDS",         ">MEMORY",  ">NEEDS", ">CPU UNUSED",
                                        ">MEMORY UNUSED", "RISK",     NULL};
    static const char *const priced[] = {"NAMESPACE",      "WORKLOAD", ">PODS",  ">CPU",
                                         ">NEEDS",         ">MEMORY",  ">NEEDS", ">CPU UNUSED",
                                         ">MEMORY UNUSED", ">MONTHLY", "RISK",   NULL};
    struct aw_table table;
    if (view->scan.count == 0) {
        printf("No Deployment, StatefulSet or DaemonSet was found.\n");
        return AW_OK;
    }
    aw_table_init(&table, has_prices(view) ? priced : heads);
    for (uint32_t i = 0; i < view->shown; i++)
        add_row(view, &view->scan.row[view->order[i]], &table);
    const enum aw_err err = aw_table_print(&table, stdout, view->run->color_out, diag);
    if (!err)
        print_sums(view);
    return err;
}

/* --- for programs --- */

/* A figure that is not known is null. */
static json_t *known(double value)
{
    return value < 0 ? json_null() : aw_json_real(value);
}

static json_t *usage_json(const struct aw_kube_scan_usage *usage)
{
    if (usage->samples == 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:i}", "p50", usage->p50, "p95", usage->p95, "max",
                     usage->max, "samples", (int)usage->samples);
}

static json_t *row_json(const struct view *view, const struct aw_kube_scan_row *row)
{
    json_t *risks = json_array();
    for (uint32_t i = 0; i < AW_KUBE_RISKS; i++)
        if (row->risks & 1u << i)
            json_array_append_new(risks, json_string(aw_kube_risk_text((enum aw_kube_risk)i)));
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:i, s:{s:o, s:o, s:o, s:o, s:f}, s:{s:o, s:o, s:o, s:o, s:f}, s:o, s:i, "
        "s:i, s:b, s:{s:i, s:b, s:b, s:s}, s:{s:s, s:i, s:o}}",
        "namespace", row->ns, "kind", row->kind, "name", row->name, "pods", (int)row->pods, /**/
        "cpu", "request", known(row->cpu_request), "limit", known(row->cpu_limit), "used",
        usage_json(&row->cpu), "need", known(row->cpu_need), "unused", row->cpu_waste, /**/
        "memory", "request", known(row->memory_request), "limit", known(row->memory_limit), "used",
        usage_json(&row->memory), "need", known(row->memory_need), "unused", row->memory_waste,
        "throttledShare", known(row->throttled_share), "oomKills", (int)row->oom_kills, "restarts",
        (int)row->restarts, "crashLoop", row->crash_loop, /**/
        "autoscalers", "hpa", (int)row->hpa_count, "vpa", row->vpa, "keda", row->keda, "conflict",
        row->conflict, /**/
        "risk", "level", level(row), "score", (int)row->risk, "reasons", risks);
    if (json && has_prices(view))
        json_object_set_new(json, "unusedMonthly",
                            json_real(money(view, row->cpu_waste, row->memory_waste)));
    return json;
}

static enum aw_err print_json(struct view *view, struct aw_diag *diag)
{
    static const char *const sources[] = {"history", "snapshot", "none"};
    const struct sums sums = sum_up(view);
    json_t *rows = json_array();
    for (uint32_t i = 0; i < view->shown; i++)
        json_array_append_new(rows, row_json(view, &view->scan.row[view->order[i]]));
    return aw_json_print(json_pack("{s:s, s:i, s:i, s:{s:f, s:f}, s:{s:f, s:f}, s:o, s:O}",
                                   "source", sources[view->scan.source], "workloads",
                                   (int)view->scan.count, "atRisk", (int)sums.risky, "cpu",
                                   "requested", sums.cpu, "unused", sums.cpu_waste, "memory",
                                   "requested", sums.memory, "unused", sums.memory_waste, "rows",
                                   rows, "notes", view->notes),
                         diag);
}

/* --- asking --- */

static enum aw_err read_price(const struct aw_call *run, const char *name, double *ret_price,
                              struct aw_diag *diag)
{
    const char *text = aw_args_text(run->args, name);
    *ret_price = -1;
    if (text && (aw_text_parse_real(text, ret_price) != AW_OK || *ret_price < 0))
        return aw_fail(diag, AW_ERR_USAGE, "expected an amount for --%s, found %s", name,
                       AW_QUOTE(text));
    return AW_OK;
}

/* The Prometheus that was named, or one that a Service of the cluster says to be. */
static enum aw_err open_prom(struct view *view, struct aw_kube *kube, struct aw_kube_prom **ret,
                             struct aw_diag *diag)
{
    const struct aw_args *args = view->run->args;
    const char *named = aw_args_text(args, "prometheus");
    char found[2 * AW_KUBE_NAME_MAX], text[sizeof found + 64];
    struct aw_diag said = {0};
    if (!named) {
        if (aw_kube_find_prometheus(kube, found, sizeof found, &said) != AW_OK)
            return AW_OK;
        snprintf(text, sizeof text, "Prometheus: Service %s", found);
        aw_log_info(view->run->log, text, AW_LOG_STR("verb", "scan"));
        named = found;
    } else if (!strcmp(named, "none")) {
        return AW_OK;
    }
    struct aw_kube_prom_config config = {.kube = kube,
                                         .token_file = aw_args_text(args, "prometheus-token"),
                                         .ca_file = aw_args_text(args, "prometheus-ca")};
    if (strstr(named, "://"))
        config.url = named;
    else
        config.service = named;
    return aw_kube_prom_open(ret, &config, NULL, diag);
}

static enum aw_err look(struct view *view, struct aw_kube *kube, const char *ns, int64_t history_us,
                        struct aw_diag *diag)
{
    struct aw_kube_server server;
    struct aw_kube_prom *prom = NULL;
    enum aw_err err = aw_kube_discover(kube, &server, diag);
    err = err ? err : open_prom(view, kube, &prom, diag);
    const struct aw_kube_scan_config config = {.kube = kube,
                                               .server = &server,
                                               .prom = prom,
                                               .ns = ns,
                                               .history_us = history_us,
                                               .told = note,
                                               .ctx = view};
    err = err ? err : aw_kube_scan(&view->scan, &config, NULL, diag);
    aw_kube_prom_close(prom);
    if (err)
        return err;
    if (view->scan.left_out > 0)
        note(view, "there are more workloads than one scan takes; name a namespace");
    view->order = aw_alloc_new(NULL, view->scan.count, sizeof *view->order);
    if (!view->order)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a scan");
    for (uint32_t i = 0; i < view->scan.count; i++)
        view->order[i] = i;
    qsort_r(view->order, view->scan.count, sizeof *view->order, by_wish, view);
    return AW_OK;
}

static enum aw_err scan_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *sort = aw_args_text(run->args, "sort");
    const char *ns = aw_args_text(run->args, "namespace");
    const uint64_t limit = aw_args_number(run->args, "limit");
    struct view view = {.run = run,
                        .notes = json_array(),
                        .by_risk = !strcmp(sort, "risk"),
                        .by_name = !strcmp(sort, "name")};
    struct aw_kube_config_from from = {.path = aw_args_text(run->args, "kubeconfig"),
                                       .context = aw_args_text(run->args, "context")};
    struct aw_kube_config config = {0};
    struct aw_kube *kube = NULL;
    int64_t history_us = 0;
    enum aw_err err = aw_duration_parse(aw_args_text(run->args, "history"),
                                        AW_QUANTITY_POSITIVE_OR_0, &history_us, diag);
    if (!err && (history_us < HISTORY_MIN_US || history_us > HISTORY_MAX_US))
        err = aw_fail(diag, AW_ERR_USAGE, "expected --history between 10m and 90d");
    if (!err && ns && aw_args_given(run->args, "all-namespaces"))
        err = aw_fail(diag, AW_ERR_USAGE, "--namespace and --all-namespaces exclude each other");
    err = err ? err : read_price(run, "price-cpu", &view.price_cpu, diag);
    err = err ? err : read_price(run, "price-memory", &view.price_memory, diag);
    if (err)
        goto out;
    aw_kube_config_environment(&from);
    err = aw_kube_config_load(&config, &from, NULL, diag);
    const struct aw_kube_options options = {.attempts_max = ATTEMPTS_MAX};
    err = err ? err : aw_kube_open(&kube, &config, &options, NULL, diag);
    if (err)
        goto out;
    if (!ns && !aw_args_given(run->args, "all-namespaces"))
        ns = config.ns;
    err = look(&view, kube, ns, history_us, diag);
    if (err)
        goto out;
    view.shown = limit && limit < view.scan.count ? (uint32_t)limit : view.scan.count;
    err = run->json ? print_json(&view, diag) : print_table(&view, diag);
out:
    aw_kube_close(kube);
    aw_kube_config_deinit(&config);
    aw_alloc_free(NULL, view.order);
    aw_kube_scan_deinit(&view.scan);
    json_decref(view.notes);
    return err;
}

static const char *const sorts[] = {"waste", "risk", "name", NULL};
static const struct aw_option scan_options[] = {
    AW_OPTION(TEXT, "namespace", 'n', "NAME", NULL,
              "the namespace to look at (default: that of the context)"),
    AW_FLAG("all-namespaces", 'A', "look at all namespaces"),
    AW_OPTION(TEXT, "prometheus", 0, "WHERE", NULL,
              "a URL, or NAMESPACE/SERVICE:PORT to go through the API server, or none (default: a "
              "Service that is labelled as a Prometheus)"),
    AW_OPTION(FILE, "prometheus-token", 0, "FILE", NULL, "a bearer token for a URL"),
    AW_OPTION(FILE, "prometheus-ca", 0, "FILE", NULL,
              "certificates to trust for a URL (default: the system's)"),
    AW_OPTION(TEXT, "history", 0, "TIME", "7d", "how far to look back, 10m to 90d"),
    AW_OPTION(CHOICE, "sort", 0, "BY", "waste", "what comes first: waste, risk or name",
              .choices = sorts),
    AW_NUMBER("limit", 0, "N", "0", 0, AW_KUBE_SCAN_ROWS_MAX,
              "show only the first so many; 0 is all"),
    AW_OPTION(TEXT, "price-cpu", 0, "AMOUNT", NULL, "of a core for a month; adds a column"),
    AW_OPTION(TEXT, "price-memory", 0, "AMOUNT", NULL, "of a GiB for a month; adds a column"),
    AW_OPTION(FILE, "kubeconfig", 0, "FILE", NULL,
              "the cluster and who to be (default: $KUBECONFIG, ~/.kube/config, or the pod's "
              "service account)"),
    AW_OPTION(TEXT, "context", 0, "NAME", NULL, "a context of the kubeconfig"),
    {.name = NULL},
};
static const struct aw_example scan_examples[] = {
    {"aware scan -A", "every namespace, most waste first"},
    {"aware scan -n shop --sort risk", "what is about to break in one namespace"},
    {"aware scan -A --price-cpu 22 --price-memory 3 --limit 20", "the twenty dearest, in money"},
    {"aware scan -A --prometheus http://127.0.0.1:9090 -o json", "for a pipeline"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_scan = {
    .name = "scan",
    .summary = "Rank the workloads of a Kubernetes cluster by waste and risk",
    .text =
        "Compares what Deployments, StatefulSets and DaemonSets request with what their pods have "
        "used, as a Prometheus remembers it, and looks for what is about to hurt: containers "
        "killed for memory, crash loops, throttling, memory near its limit, missing requests and "
        "limits, autoscalers that work against each other. It reads; nothing is written, and "
        "nothing needs to be installed in the cluster.\n\n"
        "What a pod needs is the 95th percentile of its CPU and the peak of its memory, each and "
        "15 % more. What is requested beyond that, times the pods, is unused. Usage is pooled over "
        "all pods that a workload had; pods that are gone are known by their names. Without a "
        "Prometheus one look at metrics.k8s.io must do, and is said to be no history.\n\n"
        "Risk is high, medium, low or none. A workload that is throttled or killed would have used "
        "more than it could: mind its risk before you believe that it wastes.",
    .options = scan_options,
    .examples = scan_examples,
    .json = true,
    .run = scan_run,
};
