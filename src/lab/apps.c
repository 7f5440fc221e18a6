/* apps.c - the verbs `apps generate` and `apps describe`. */
#include "workload/apps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/units.h"
#include "cluster/surrogate.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#define SLO_FACTOR 1.5 /* of the unloaded p99, unless a profile says otherwise */
#define HEAT_CORES 11u
#define HEAT_ROWS  8u
#define SEED_LEN   20u /* digits of a seed */

/* The kinds to draw from: built in, and those of --segments. */
static enum aw_err kinds_load(const struct aw_call *run, struct aw_apps *ret, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "segments");
    return path ? aw_apps_read(path, NULL, 0, NULL, ret, diag) : AW_OK;
}

/* ---- generate ---- */

static enum aw_err pool_text(const struct aw_app *apps, uint32_t count, uint64_t seed,
                             const struct aw_segment *kinds, uint32_t kind_count, char **ret_text,
                             size_t *ret_len, struct aw_diag *diag)
{
    FILE *out = open_memstream(ret_text, ret_len);
    if (!out)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", count);
    fprintf(out, "# %u applications of seed %llu, by `aware apps generate`\n", count,
            (unsigned long long)seed);
    enum aw_err err = aw_apps_write(out, apps, count, kinds, kind_count, diag);
    if (fclose(out) && !err)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", count);
    return err;
}

/* The same pool as JSON, which `-f` reads as well. */
static enum aw_err pool_print_json(const char *text, size_t len, struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root = NULL;
    enum aw_err err = aw_tree_load(&tree, "apps", text, len, NULL, diag);
    if (!err)
        err = aw_tree_only(&tree, &root, diag);
    if (!err)
        err = aw_json_print(aw_json_from_node(root), diag);
    aw_tree_deinit(&tree);
    return err;
}

static enum aw_err generate_run(const struct aw_call *run, struct aw_diag *diag)
{
    const uint64_t seed = aw_args_number(run->args, "seed");
    const uint32_t count = (uint32_t)aw_args_number(run->args, "count");
    const char *path = aw_args_text(run->args, "out");
    const bool to_stdout = !strcmp(path, "-");
    struct aw_apps more = {0};
    char *text = NULL;
    size_t len = 0;
    struct aw_app *apps = NULL;
    enum aw_err err = kinds_load(run, &more, diag);
    if (err)
        return err;
    const struct aw_segment *kinds = more.kinds ? more.kinds : aw_segment_builtin();
    const uint32_t kind_count = more.kinds ? more.kind_count : AW_SEGMENT_BUILTIN_COUNT;
    apps = aw_alloc_new(NULL, count, sizeof *apps);
    if (!apps) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", count);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++)
        aw_app_generate(seed, i, kinds, kind_count, &apps[i]);
    if ((err = pool_text(apps, count, seed, kinds, kind_count, &text, &len, diag)))
        goto out;
    if (to_stdout && run->json)
        err = pool_print_json(text, len, diag);
    else if (to_stdout)
        fwrite(text, 1, len, stdout);
    else
        err = aw_file_replace(path, text, len, NULL, diag);
    if (err || to_stdout)
        goto out;
    if (run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "file", json_string(path));
        json_object_set_new(object, "seed", json_integer((json_int_t)seed));
        json_object_set_new(object, "count", json_integer(count));
        err = aw_json_print(object, diag);
    } else {
        printf("%s: %u application%s of seed %llu\n", path, count, count == 1 ? "" : "s",
               (unsigned long long)seed);
    }
out:
    free(text);
    aw_alloc_free(NULL, apps);
    aw_apps_deinit(&more);
    return err;
}

static const struct aw_option generate_options[] = {
    AW_OPTION_SEED("1", "which pool; the same seed gives the same applications"),
    AW_NUMBER("count", 'n', "N", "1000", 1, AW_APPS_MAX, "how many applications"),
    AW_OPTION(FILE, "segments", 0, "FILE", NULL, "draw from the segment kinds of this file too"),
    AW_OPTION(FILE, "out", 'o', "FILE", "-", "where to write the pool; - is standard output"),
    {.name = NULL},
};
static const struct aw_example generate_examples[] = {
    {"aware apps generate --seed 1 --count 1000 -o apps.yaml", "the pool that the results use"},
    {"aware apps generate -n 3 --segments my.yaml", "three, with segment kinds of your own"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_apps_generate = {
    .name = "apps generate",
    .summary = "Draw a pool of applications and write it as YAML",
    .text = "An application is a sequence of 1 to 6 segments drawn with replacement from 16 "
            "built-in kinds and those of --segments, each with its own scale. Application I of a "
            "seed is the same whether or not others are drawn.",
    .options = generate_options,
    .examples = generate_examples,
    .json = true,
    .run = generate_run,
};

/* ---- describe ---- */

/* "SEED:INDEX", or "SEED" for the first of its pool. */
static enum aw_err app_from_pool(const struct aw_call *run, const char *text, struct aw_app *ret,
                                 struct aw_diag *diag)
{
    char seed_text[SEED_LEN + 1] = "";
    size_t len = strcspn(text, ":");
    uint64_t seed = 0, index = 0;
    struct aw_apps more = {0};
    if (len <= SEED_LEN)
        memcpy(seed_text, text, len);
    if (aw_text_parse_u64(seed_text, &seed) ||
        (text[len] && (aw_text_parse_u64(text + len + 1, &index) || index > UINT32_MAX)))
        return aw_fail(diag, AW_ERR_USAGE, "--app: expected SEED:INDEX such as 1:17, found %s",
                       AW_QUOTE(text));
    enum aw_err err = kinds_load(run, &more, diag);
    if (err)
        return err;
    aw_app_generate(seed, (uint32_t)index, more.kinds ? more.kinds : aw_segment_builtin(),
                    more.kinds ? more.kind_count : AW_SEGMENT_BUILTIN_COUNT, ret);
    aw_apps_deinit(&more);
    return AW_OK;
}

static enum aw_err app_from_file(const struct aw_call *run, const char *path, struct aw_app *ret,
                                 struct aw_diag *diag)
{
    const char *name = run->args->positional[0];
    struct aw_apps kinds = {0}, apps = {0};
    enum aw_err err = kinds_load(run, &kinds, diag);
    if (err || (err = aw_apps_read(path, kinds.kinds, kinds.kind_count, NULL, &apps, diag)))
        goto out;
    const struct aw_app *found = name ? aw_apps_find(&apps, name) : apps.apps;
    if (apps.app_count == 0)
        err = aw_fail_at(diag, AW_ERR_NODATA, path, 0, 0, NULL, "has no applications");
    else if (!found)
        err = aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL, "has no application %s",
                         AW_QUOTE(name));
    else
        *ret = *found;
out:
    aw_apps_deinit(&apps);
    aw_apps_deinit(&kinds);
    return err;
}

/* p99 of one replica over its CPU and memory at one rate (AWARE Fig. 6). */
struct heat {
    double rate_per_s;
    double cores[HEAT_CORES];
    double memory_mib[HEAT_ROWS];
    double p99_us[HEAT_ROWS]
                 [HEAT_CORES]; /* NAN: killed for memory; INFINITY: more than it serves */
};

/* Two significant digits: a size that one would write. */
static double rounded(double value)
{
    double unit = pow(10, floor(log10(value)) - 1);
    return round(value / unit) * unit;
}

static void heat_make(const struct aw_demand *demand, double rate_per_s, struct heat *heat)
{
    static const double cores[HEAT_CORES] = {0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8};
    /* of the memory that an idle replica holds */
    static const double sizes[HEAT_ROWS] = {4, 2.8, 2, 1.6, 1.3, 1.15, 1.05, 0.9};
    memcpy(heat->cores, cores, sizeof cores);
    heat->rate_per_s = rate_per_s;
    for (uint32_t row = 0; row < HEAT_ROWS; row++) {
        heat->memory_mib[row] = rounded(sizes[row] * demand->memory_base_mib);
        for (uint32_t i = 0; i < HEAT_CORES; i++) {
            struct aw_replica replica = {
                .demand = *demand, .cores = cores[i], .rate_per_s = rate_per_s};
            struct aw_steady steady;
            bool full = rate_per_s > AW_SURROGATE_LOAD_MAX * aw_replica_capacity(demand, cores[i]);
            double *p99_us = &heat->p99_us[row][i];
            double held_mib = demand->memory_base_mib;
            if (!full) {
                aw_surrogate_eval(&replica, &steady);
                held_mib += demand->memory_flight_mib * steady.in_flight_peak;
            }
            if (held_mib > heat->memory_mib[row])
                *p99_us = NAN;
            else
                *p99_us = full ? INFINITY : steady.p99_us;
        }
    }
}

static const char *cell_text(double p99_us, double slo_us, char *buf, size_t size)
{
    char text[AW_QUANTITY_TEXT_MAX];
    if (isnan(p99_us))
        snprintf(buf, size, "OOM ");
    else if (isinf(p99_us))
        snprintf(buf, size, "full ");
    else
        snprintf(buf, size, "%s%c", aw_duration_round(llround(p99_us), text, sizeof text),
                 p99_us > slo_us ? '!' : ' ');
    return buf;
}

/* Green within the SLO, yellow up to twice of it, red beyond, grey for what does not run. */
static const char *cell_color(double p99_us, double slo_us)
{
    if (isnan(p99_us))
        return "\033[37;100m";
    if (isinf(p99_us) || p99_us > 2 * slo_us)
        return "\033[30;41m";
    return p99_us > slo_us ? "\033[30;43m" : "\033[30;42m";
}

static void heat_print(const struct heat *heat, double slo_us, bool color)
{
    char text[AW_QUANTITY_TEXT_MAX], rate[AW_QUANTITY_TEXT_MAX];
    printf("\np99 of one replica at %s, over its memory and its cores:\n\n",
           aw_rate_round(heat->rate_per_s, rate, sizeof rate));
    for (uint32_t row = 0; row < HEAT_ROWS; row++) {
        aw_quantity_round_memory(llround(heat->memory_mib[row] * AW_MIB_REAL), text, sizeof text);
        printf("%8s  ", text);
        for (uint32_t i = 0; i < HEAT_CORES; i++) {
            double p99_us = heat->p99_us[row][i];
            cell_text(p99_us, slo_us, text, sizeof text);
            printf("%s%7s%s", color ? cell_color(p99_us, slo_us) : "", text,
                   color ? "\033[0m" : "");
        }
        putchar('\n');
    }
    printf("%8s  ", "cores");
    for (uint32_t i = 0; i < HEAT_CORES; i++)
        printf("%6g ", heat->cores[i]);
    printf("\n\n! misses the SLO; full: more arrives than it can serve; OOM: killed, too little "
           "memory\n");
}

static json_t *heat_json(const struct heat *heat)
{
    json_t *object = json_object(), *cores = json_array(), *memory = json_array();
    json_t *rows = json_array();
    for (uint32_t i = 0; i < HEAT_CORES; i++)
        json_array_append_new(cores, json_real(heat->cores[i]));
    for (uint32_t row = 0; row < HEAT_ROWS; row++) {
        json_t *cells = json_array();
        json_array_append_new(memory, json_real(heat->memory_mib[row]));
        for (uint32_t i = 0; i < HEAT_CORES; i++) {
            double p99_us = heat->p99_us[row][i];
            json_array_append_new(cells, isnan(p99_us)   ? json_string("oom")
                                         : isinf(p99_us) ? json_string("full")
                                                         : json_real(p99_us));
        }
        json_array_append_new(rows, cells);
    }
    json_object_set_new(object, "rate_per_s", json_real(heat->rate_per_s));
    json_object_set_new(object, "cores", cores);
    json_object_set_new(object, "memory_mib", memory);
    json_object_set_new(object, "p99_us", rows);
    return object;
}

static json_t *demand_json(const struct aw_demand *d)
{
    json_t *object = json_object();
    json_object_set_new(object, "cpu_ms", json_real(d->cpu_ms));
    json_object_set_new(object, "cpu_cv", json_real(d->cpu_cv));
    json_object_set_new(object, "io_ms", json_real(d->io_ms));
    json_object_set_new(object, "io_cv", json_real(d->io_cv));
    json_object_set_new(object, "memory_mib", json_real(d->memory_base_mib));
    json_object_set_new(object, "memory_per_request_mib", json_real(d->memory_flight_mib));
    json_object_set_new(object, "disk_kib", json_real(d->disk_kib));
    json_object_set_new(object, "net_kib", json_real(d->net_kib));
    json_object_set_new(object, "parallelism", json_real(d->parallelism));
    json_object_set_new(object, "threads", json_integer(d->threads));
    json_object_set_new(object, "cold_start_ms", json_real(d->cold_start_ms));
    return object;
}

static enum aw_err describe_json(const struct aw_app *app, const struct aw_demand *demand,
                                 double p99_us, const struct heat *heat, struct aw_diag *diag)
{
    json_t *object = json_object(), *segments = json_array();
    for (uint32_t i = 0; i < app->segment_count; i++) {
        const struct aw_segment *s = &app->segment[i];
        json_t *entry = json_object();
        json_object_set_new(entry, "kind", json_string(s->name));
        json_object_set_new(entry, "family", json_string(aw_payload_family_names[s->family]));
        json_object_set_new(entry, "cpu_ms", json_real(s->cpu_ms));
        json_object_set_new(entry, "io_ms", json_real(s->io_ms));
        json_object_set_new(entry, "memory_mib", json_real(s->memory_base_mib));
        json_object_set_new(entry, "memory_per_request_mib", json_real(s->memory_flight_mib));
        json_object_set_new(entry, "parallelism", json_real(s->parallelism));
        json_object_set_new(entry, "threads", json_integer(s->threads));
        json_object_set_new(entry, "cold_start_ms", json_real(s->cold_start_ms));
        json_array_append_new(segments, entry);
    }
    json_object_set_new(object, "name", json_string(app->name));
    json_object_set_new(object, "segments", segments);
    json_object_set_new(object, "demand", demand_json(demand));
    json_object_set_new(object, "unloaded_p99_us", json_real(p99_us));
    json_object_set_new(object, "slo_us", json_real(SLO_FACTOR * p99_us));
    json_object_set_new(object, "heat_map", heat_json(heat));
    return aw_json_print(object, diag);
}

static const char *ms_text(double ms, char buf[AW_QUANTITY_TEXT_MAX])
{
    return aw_duration_round(llround(ms * 1e3), buf, AW_QUANTITY_TEXT_MAX);
}

static const char *mib_text(double mib, char buf[AW_QUANTITY_TEXT_MAX])
{
    return aw_quantity_round_memory(llround(mib * AW_MIB_REAL), buf, AW_QUANTITY_TEXT_MAX);
}

static enum aw_err segments_print(const struct aw_app *app, bool color, struct aw_diag *diag)
{
    static const char *const heads[] = {"SEGMENT",   "PAYLOAD", ">CPU",     ">WAIT",  ">MEMORY",
                                        ">+REQUEST", ">CORES",  ">THREADS", ">START", NULL};
    char buf[AW_QUANTITY_TEXT_MAX];
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < app->segment_count; i++) {
        const struct aw_segment *s = &app->segment[i];
        aw_table_add(&table, "%s", s->name);
        aw_table_add(&table, "%s", aw_payload_family_names[s->family]);
        aw_table_add(&table, "%s", ms_text(s->cpu_ms, buf));
        aw_table_add(&table, "%s", s->io_ms > 0 ? ms_text(s->io_ms, buf) : "-");
        aw_table_add(&table, "%s", mib_text(s->memory_base_mib, buf));
        aw_table_add(&table, "%s", mib_text(s->memory_flight_mib, buf));
        aw_table_add(&table, "%g", s->parallelism);
        if (s->threads)
            aw_table_add(&table, "%u", s->threads);
        else
            aw_table_add(&table, "-");
        aw_table_add(&table, "%s", ms_text(s->cold_start_ms, buf));
    }
    return aw_table_print(&table, stdout, color, diag);
}

static enum aw_err describe_print(const struct aw_app *app, const struct aw_demand *d,
                                  double p99_us, const struct heat *heat, bool color,
                                  struct aw_diag *diag)
{
    char a[AW_QUANTITY_TEXT_MAX], b[AW_QUANTITY_TEXT_MAX];
    printf("%s: %u segment%s\n\n", app->name, app->segment_count,
           app->segment_count == 1 ? "" : "s");
    enum aw_err err = segments_print(app, color, diag);
    if (err)
        return err;
    printf("\nA request:   %s of CPU", ms_text(d->cpu_ms, a));
    if (d->io_ms > 0)
        printf(", %s of waiting", ms_text(d->io_ms, a));
    printf(", on up to %.2g cores at once\n", d->parallelism);
    printf("A replica:   %s when idle, %s more per request in flight; starts in %s\n",
           mib_text(d->memory_base_mib, a), mib_text(d->memory_flight_mib, b),
           ms_text(d->cold_start_ms, (char[AW_QUANTITY_TEXT_MAX]){0}));
    if (d->threads)
        printf("Workers:     %u requests at once in a replica, whatever its cores\n", d->threads);
    printf("Alone:       p99 %s; SLO %s (%.1f times that)\n", ms_text(p99_us / 1e3, a),
           ms_text(SLO_FACTOR * p99_us / 1e3, b), SLO_FACTOR);
    heat_print(heat, SLO_FACTOR * p99_us, color);
    return AW_OK;
}

static enum aw_err describe_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "file"), *rate = aw_args_text(run->args, "rate");
    struct aw_app app;
    struct aw_demand demand;
    struct heat heat;
    enum aw_err err;
    if (path && aw_args_given(run->args, "app"))
        return aw_fail(diag, AW_ERR_USAGE, "--app and --file both name an application: give one");
    if (!path && run->args->positional[0])
        return aw_fail(diag, AW_ERR_USAGE, "NAME is an application of a file: give --file too");
    err = path ? app_from_file(run, path, &app, diag)
               : app_from_pool(run, aw_args_text(run->args, "app"), &app, diag);
    if (err)
        return err;
    aw_app_demand(&app, 1, 0, &demand);
    double rate_per_s = 0.5 * aw_replica_capacity(&demand, 1);
    if (rate && (err = aw_rate_parse(rate, &rate_per_s, diag)))
        return err;
    if (!(rate_per_s > 0))
        return aw_fail(diag, AW_ERR_USAGE, "--rate: expected a rate above 0, found %s",
                       AW_QUOTE(rate));
    double p99_us = aw_app_unloaded_p99_us(&app, 1, 0);
    heat_make(&demand, rate_per_s, &heat);
    return run->json ? describe_json(&app, &demand, p99_us, &heat, diag)
                     : describe_print(&app, &demand, p99_us, &heat, run->color_out, diag);
}

static const struct aw_option describe_options[] = {
    AW_OPTION(TEXT, "app", 0, "SEED:INDEX", "1:0", "application INDEX of the pool of SEED"),
    AW_OPTION(FILE, "file", 'f', "FILE", NULL,
              "take it from this file instead, by NAME or the first"),
    AW_OPTION(FILE, "segments", 0, "FILE", NULL, "know the segment kinds of this file too"),
    AW_OPTION(TEXT, "rate", 0, "RATE", NULL,
              "requests of the heat map, e.g. 20/s; half of what one core can do if not given"),
    {.name = NULL},
};
static const struct aw_positional describe_positionals[] = {
    {.name = "NAME", .kind = AW_ARG_TEXT, .help = "an application of --file", .optional = true},
    {.name = NULL},
};
static const struct aw_example describe_examples[] = {
    {"aware apps describe --app 1:17", "number 17 of the pool of seed 1"},
    {"aware apps describe -f apps.yaml app-1-17 --rate 20/s", "one of a file, at another rate"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_apps_describe = {
    .name = "apps describe",
    .summary = "Show what an application needs, with a heat map of its latency",
    .text = "The heat map is the p99 of one replica in steady state on the simulated cluster, over "
            "its CPU and memory limit.",
    .options = describe_options,
    .positionals = describe_positionals,
    .examples = describe_examples,
    .json = true,
    .run = describe_run,
};
