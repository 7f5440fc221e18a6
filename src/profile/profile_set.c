/* profile_set.c - many objects from many files, and what only shows when all are there. */
#include "profile/profile_internal.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CAPACITY_FIRST 16u
/* Applications that stand in: of the pool and the range that are learned from, with an SLO that is
 * a half above what a request alone takes, as environments have it. */
#define STAND_IN_SEED  1u
#define STAND_IN_POOL  560u
#define STAND_IN_SLO   1.5
#define STAND_IN_LOAD  "diurnal:peak=3,period=24h"
#define STAND_IN_CORES 2.0
#define GROUP          "autoscaling.aware.dev/"

void aw_profile_set_init(struct aw_profile_set *set, const struct aw_alloc *alloc)
{
    *set = (struct aw_profile_set){.alloc = alloc};
    aw__profile_cluster_defaults(&set->cluster);
}

void aw_profile_set_deinit(struct aw_profile_set *set)
{
    aw_alloc_free(set->alloc, set->profiles);
    aw_alloc_free(set->alloc, set->apps);
    aw_alloc_free(set->alloc, set->tenants);
    *set = (struct aw_profile_set){0};
}

/* Room for one more element in `*block`. */
static enum aw_err grow(const struct aw_alloc *alloc, void **block, uint32_t count,
                        uint32_t *capacity, uint32_t capacity_max, size_t size, const char *what,
                        struct aw_diag *diag)
{
    if (count < *capacity)
        return AW_OK;
    if (count == capacity_max)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %" PRIu32 " %s", capacity_max, what);
    uint32_t more = *capacity ? *capacity * 2 : CAPACITY_FIRST;
    more = more < capacity_max ? more : capacity_max;
    void *larger = aw_alloc_new(alloc, more, size);
    if (!larger)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " %s", more, what);
    if (count > 0)
        memcpy(larger, *block, count * size);
    aw_alloc_free(alloc, *block);
    *block = larger;
    *capacity = more;
    return AW_OK;
}

/* --- one object -------------------------------------------------------------------------------
 */

static void place_set(const struct aw__reading *r, struct aw_profile_place *place)
{
    snprintf(place->file, sizeof place->file, "%s", r->tree->file);
    place->line = r->root->line;
    place->column = r->root->column;
}

static enum aw_err profile_add(struct aw_profile_set *set, struct aw__reading *r,
                               struct aw_diag *diag)
{
    void *block = set->profiles;
    enum aw_err err = grow(set->alloc, &block, set->profile_count, &set->profile_capacity,
                           AW_PROFILES_MAX, sizeof *set->profiles, "autoscalers", diag);
    set->profiles = block;
    if (err)
        return err;
    struct aw_profile *profile = &set->profiles[set->profile_count];
    err = aw__profile_read(r, set->alloc, profile, diag);
    if (err)
        return err;
    place_set(r, &profile->place);
    set->profile_count += r->bad_count == 0;
    return AW_OK;
}

static enum aw_err app_add(struct aw_profile_set *set, struct aw__reading *r, struct aw_diag *diag)
{
    void *block = set->apps;
    enum aw_err err = grow(set->alloc, &block, set->app_count, &set->app_capacity,
                           AW_PROFILE_APPS_MAX, sizeof *set->apps, "simulated applications", diag);
    set->apps = block;
    if (err)
        return err;
    struct aw_profile_app *app = &set->apps[set->app_count];
    err = aw__profile_read_app(r, set->alloc, app, diag);
    if (err)
        return err;
    place_set(r, &app->place);
    set->app_count += r->bad_count == 0;
    return AW_OK;
}

static enum aw_err tenant_add(struct aw_profile_set *set, struct aw__reading *r,
                              struct aw_diag *diag)
{
    void *block = set->tenants;
    const enum aw_err err = grow(set->alloc, &block, set->tenant_count, &set->tenant_capacity,
                                 AW_PROFILE_TENANTS_MAX, sizeof *set->tenants, "tenants", diag);
    set->tenants = block;
    if (err)
        return err;
    struct aw_profile_tenant *tenant = &set->tenants[set->tenant_count];
    aw__profile_read_tenant(r, tenant);
    place_set(r, &tenant->place);
    set->tenant_count += r->bad_count == 0;
    return AW_OK;
}

static void cluster_add(struct aw_profile_set *set, struct aw__reading *r)
{
    struct aw_profile_cluster cluster;
    aw__profile_read_cluster(r, &cluster);
    if (set->cluster.place.line > 0) {
        aw__reading_expected(r, r->root,
                             "expected one SimulatedCluster; there is one at %s:%" PRIu32,
                             set->cluster.place.file, set->cluster.place.line);
        return;
    }
    place_set(r, &cluster.place);
    if (r->bad_count == 0)
        set->cluster = cluster;
}

static const struct aw_profile_kind *kind_find(const char *name)
{
    for (const struct aw_profile_kind *kind = aw_profile_kinds; kind->name; kind++) {
        if (!strcmp(kind->name, name))
            return kind;
    }
    return NULL;
}

static void kind_unknown(struct aw__reading *r, const struct aw_node *node)
{
    const char *const names[] = {aw_profile_kinds[0].name, aw_profile_kinds[1].name,
                                 aw_profile_kinds[2].name, aw_profile_kinds[3].name, NULL};
    char quoted[AW_TEXT_QUOTE_MAX];
    const char *near = aw_conf_nearest(node->text, names);
    aw_text_quote(node->text, node->text_len, quoted, sizeof quoted);
    if (near)
        aw__reading_expected(r, node, "unknown kind %s (did you mean \"%s\"?)", quoted, near);
    else
        aw__reading_expected(r, node, "expected one of: %s, %s, %s, %s, found %s", names[0],
                             names[1], names[2], names[3], quoted);
}

/* What the object is; NULL: none of ours, and that has been said. */
static const struct aw_profile_kind *kind_read(struct aw__reading *r)
{
    const struct aw_node *version = NULL, *kind = NULL;
    struct aw_diag diag;
    const char *text;
    enum aw_err err = aw_tree_require(r->tree, r->root, "apiVersion", &version, &diag);
    if (!err)
        err = aw_tree_string(r->tree, version, &text, &diag);
    if (!err)
        err = aw_tree_require(r->tree, r->root, "kind", &kind, &diag);
    if (!err)
        err = aw_tree_string(r->tree, kind, &text, &diag);
    if (err) {
        aw__reading_fail(r, r->root, err, &diag);
        return NULL;
    }
    const struct aw_profile_kind *found = kind_find(kind->text);
    char quoted[AW_TEXT_QUOTE_MAX];
    aw_text_quote(version->text, version->text_len, quoted, sizeof quoted);
    if (!strcmp(version->text, AW_PROFILE_API_VERSION)) {
        if (!found)
            kind_unknown(r, kind);
        return found;
    }
    if (found || !strncmp(version->text, GROUP, strlen(GROUP)))
        aw__reading_expected(r, version, "expected %s, found %s", AW_PROFILE_API_VERSION, quoted);
    else
        aw__reading_warn(r, kind, "skipped", "not an object of %s: skipped",
                         AW_PROFILE_API_VERSION);
    return NULL;
}

static enum aw_err object_add(struct aw_profile_set *set, struct aw__reading *r,
                              struct aw_profile_counts *counts, struct aw_diag *diag)
{
    const struct aw_profile_kind *kind = kind_read(r);
    if (!kind)
        return AW_OK;
    switch ((enum aw_profile_kind_index)(kind - aw_profile_kinds)) {
    case AW_PROFILE_KIND_MPA:
        counts->profiles++;
        return profile_add(set, r, diag);
    case AW_PROFILE_KIND_APP:
        counts->apps++;
        return app_add(set, r, diag);
    case AW_PROFILE_KIND_CLUSTER:
        counts->clusters++;
        cluster_add(set, r);
        return AW_OK;
    case AW_PROFILE_KIND_TENANT:
        counts->tenants++;
        return tenant_add(set, r, diag);
    }
    AW_ASSERT(!"a known kind");
    return AW_OK;
}

/* What `kubectl get -o yaml` writes for several objects. */
static bool is_list(const struct aw_node *document)
{
    const struct aw_node *kind = aw_node_find(document, "kind");
    const struct aw_node *items = aw_node_find(document, "items");
    return kind && kind->kind == AW_NODE_STRING && items && items->kind == AW_NODE_LIST &&
           kind->text_len >= 4 && !strcmp(kind->text + kind->text_len - 4, "List");
}

enum aw_err aw_profile_set_add(struct aw_profile_set *set, const struct aw_tree *tree,
                               struct aw_profile_report *report,
                               struct aw_profile_counts *ret_counts, struct aw_diag *diag)
{
    struct aw_profile_counts counts = {0};
    const uint32_t errors = report->error_count, warnings = report->warning_count;
    struct aw__reading *r = aw_alloc_new(set->alloc, 1, sizeof *r);
    enum aw_err err = AW_OK;
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an object");
    for (const struct aw_node *doc = tree->first; doc && !err; doc = doc->next) {
        const bool list = is_list(doc);
        const struct aw_node *node = list ? aw_node_find(doc, "items")->first : doc;
        for (; node && !err; node = list ? node->next : NULL) {
            *r = (struct aw__reading){.tree = tree, .root = node, .report = report};
            if (node->kind != AW_NODE_NULL) /* nothing between two lines of dashes */
                err = object_add(set, r, &counts, diag);
        }
    }
    aw_alloc_free(set->alloc, r);
    counts.errors = report->error_count - errors;
    counts.warnings = report->warning_count - warnings;
    if (!err && ret_counts)
        *ret_counts = counts;
    return err;
}

/* --- files ------------------------------------------------------------------------------------
 */

struct files {
    struct aw_profile_set *set;
    struct aw_profile_report *report;
    void (*each)(void *ctx, const char *file, const struct aw_profile_counts *counts);
    void *ctx;
};

static enum aw_err file_add(const struct files *files, const char *path, struct aw_diag *diag)
{
    struct aw_profile_counts counts = {0};
    struct aw_tree tree;
    struct aw_diag own;
    enum aw_err err = aw_tree_load_file(&tree, path, files->set->alloc, &own);
    if (err == AW_ERR_NOMEM) {
        if (diag)
            *diag = own;
        return err;
    }
    if (err) { /* the others may be fine */
        aw__report_fail(files->report, err, &own);
        counts.errors = 1;
        err = AW_OK;
    } else {
        err = aw_profile_set_add(files->set, &tree, files->report, &counts, diag);
    }
    aw_tree_deinit(&tree);
    if (!err && files->each)
        files->each(files->ctx, path, &counts);
    return err;
}

static bool has_ending(const char *name)
{
    static const char *const endings[] = {".yaml", ".yml", ".json"};
    const size_t len = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t tail = strlen(endings[i]);
        if (len > tail && !strcmp(name + len - tail, endings[i]))
            return true;
    }
    return false;
}

static int is_wanted(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && has_ending(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* whatever the locale */
}

static enum aw_err directory_add(const struct files *files, const char *path, struct aw_diag *diag)
{
    struct dirent **names = NULL;
    struct aw_diag own;
    enum aw_err err = AW_OK;
    const int count = scandir(path, &names, is_wanted, by_name);
    if (count < 0) {
        aw_fail_at(&own, AW_ERR_IO, path, 0, 0, NULL, "cannot be listed: %s", strerror(errno));
        aw__report_fail(files->report, AW_ERR_IO, &own);
        return AW_OK;
    }
    if (count == 0) {
        aw_fail_at(&own, AW_ERR_NODATA, path, 0, 0, NULL,
                   "expected *.yaml, *.yml or *.json in this directory, found none");
        aw__report_fail(files->report, AW_ERR_NODATA, &own);
    }
    if ((unsigned)count > AW_PROFILE_FILES_MAX)
        err = aw_fail(diag, AW_ERR_LIMIT, "%s: more than %u files", path, AW_PROFILE_FILES_MAX);
    for (int i = 0; i < count; i++) {
        char file[AW_FILE_PATH_MAX];
        const size_t len = strlen(path);
        const char *slash = len > 0 && path[len - 1] == '/' ? "" : "/";
        const int used = snprintf(file, sizeof file, "%s%s%s", path, slash, names[i]->d_name);
        if (!err && used > 0 && (size_t)used < sizeof file)
            err = file_add(files, file, diag);
        else if (!err)
            err = aw_fail(diag, AW_ERR_LIMIT, "%s: a path is longer than %u bytes", path,
                          AW_FILE_PATH_MAX - 1);
        free(names[i]);
    }
    free(names);
    return err;
}

enum aw_err aw_profile_set_read(struct aw_profile_set *set, const char *path,
                                struct aw_profile_report *report,
                                void (*each)(void *ctx, const char *file,
                                             const struct aw_profile_counts *counts),
                                void *ctx, struct aw_diag *diag)
{
    const struct files files = {set, report, each, ctx};
    struct stat status;
    if (strcmp(path, "-") != 0 && !stat(path, &status) && S_ISDIR(status.st_mode))
        return directory_add(&files, path, diag);
    return file_add(&files, path, diag);
}

/* --- all together -----------------------------------------------------------------------------
 */

/* One line of an index: names that must not come together twice, and where they did. */
struct names {
    const char *namespace, *kind, *name;
    const struct aw_profile_place *place;
    uint32_t index; /* in the order they were read */
};

static int compare(const struct names *x, const struct names *y)
{
    int order = strcmp(x->namespace, y->namespace);
    if (order == 0)
        order = strcmp(x->kind, y->kind);
    return order ? order : strcmp(x->name, y->name);
}

static int by_names(const void *a, const void *b)
{
    const struct names *x = a, *y = b;
    const int order = compare(x, y);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static void twice_tell(struct aw_profile_report *report, const struct names *first,
                       const struct names *again, const char *key, const char *what)
{
    struct aw_diag diag;
    aw_fail_at(&diag, AW_ERR_CONFIG, again->place->file, again->place->line, again->place->column,
               key, "%s %s/%s is at %s:%" PRIu32 " already", what, again->namespace, again->name,
               first->place->file, first->place->line);
    aw__report_fail(report, AW_ERR_CONFIG, &diag);
}

/* Sorts `list`, and tells every one that comes again. */
static void names_check(struct aw_profile_report *report, struct names *list, uint32_t count,
                        const char *key, const char *what)
{
    qsort(list, count, sizeof *list, by_names);
    uint32_t first = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (compare(&list[i], &list[first]) == 0)
            twice_tell(report, &list[first], &list[i], key, what);
        else
            first = i;
    }
}

/* Where a profile's start lies outside its bounds. */
static void start_check(struct aw_profile_report *report, const struct aw_profile *profile,
                        const struct aw_profile_app *app)
{
    const struct aw_bounds *b = &profile->pilot.bounds;
    char key[AW_PROFILE_KEY_MAX];
    struct aw_plan start = {
        .replicas = app->replicas ? app->replicas : b->replicas_min,
        .cpu_millicores = app->cpu_millicores ? app->cpu_millicores : b->cpu_millicores_min,
        .memory_bytes = app->memory_bytes ? app->memory_bytes : b->memory_bytes_min};
    const struct aw_plan asked = start;
    aw_bounds_clip(b, &start);
    const uint32_t moved = aw_plan_differs(start.amount, asked.amount);
    if (!moved)
        return;
    const char *what = aw_resource_table[__builtin_ctz(moved)].name; /* the first of them */
    struct aw_diag diag;
    aw_fail_at(&diag, AW_ERR_CONFIG, app->place.file, app->place.line, app->place.column,
               "spec.start", "%s is outside the bounds of %s at %s:%" PRIu32, what,
               aw_profile_key(profile, key, sizeof key), profile->place.file, profile->place.line);
    aw__report_fail(report, AW_ERR_CONFIG, &diag);
}

/* An SLO below what a request takes when it is alone can never be kept, whatever is spent. */
static void slo_check(struct aw_profile_report *report, const struct aw_profile *profile,
                      const struct aw_profile_app *app)
{
    char target[AW_QUANTITY_TEXT_MAX], alone[AW_QUANTITY_TEXT_MAX];
    if (!(profile->pilot.slo.latency_us_p99 > 0) || profile->pilot.slo.quantile < 0.99)
        return;
    if (app->local.command[0]) /* nobody knows what a request of another program needs */
        return;
    const double alone_us = aw_app_unloaded_p99_us(&app->app, 1, 0);
    if (profile->pilot.slo.latency_us_p99 >= alone_us)
        return;
    struct aw_diag diag;
    aw_fail_at(&diag, AW_OK, profile->place.file, profile->place.line, profile->place.column,
               "spec.goals.slo.latency.target",
               "%s cannot be met: p99 of %s/%s is %s even when a request is alone",
               aw_duration_round((int64_t)profile->pilot.slo.latency_us_p99, target, sizeof target),
               app->namespace, app->name,
               aw_duration_round((int64_t)alone_us, alone, sizeof alone));
    aw__report_warn(report, "unmeetable", &diag);
}

static int by_key(const void *key, const void *element)
{
    return compare(key, element);
}

/* Profiles and applications belong together by namespace and target. `apps` is sorted. */
static void worlds_check(const struct aw_profile_set *set, struct aw_profile_report *report,
                         const struct names *apps, bool *used)
{
    struct aw_diag diag;
    for (uint32_t i = 0; i < set->profile_count && set->app_count > 0; i++) {
        const struct aw_profile *p = &set->profiles[i];
        const struct names key = {.namespace = p->namespace, .kind = "", .name = p->target_name};
        const struct names *found = bsearch(&key, apps, set->app_count, sizeof *apps, by_key);
        if (found) {
            used[found->index] = true;
            start_check(report, p, &set->apps[found->index]);
            slo_check(report, p, &set->apps[found->index]);
            continue;
        }
        aw_fail_at(&diag, AW_OK, p->place.file, p->place.line, p->place.column,
                   "spec.scaleTargetRef.name",
                   "no SimulatedApplication %s/%s stands for the target, though others have one",
                   p->namespace, p->target_name);
        aw__report_warn(report, "not_simulated", &diag);
    }
    for (uint32_t i = 0; i < set->app_count; i++) {
        const struct aw_profile_app *app = &set->apps[i];
        if (used[i])
            continue;
        aw_fail_at(&diag, AW_OK, app->place.file, app->place.line, app->place.column,
                   "metadata.name", "no autoscaler has the target %s/%s: nothing scales it",
                   app->namespace, app->name);
        aw__report_warn(report, "unscaled", &diag);
    }
}

/* A Tenant that a profile names must be there; guarantees must fit where the cluster is known. */
static void tenants_check(const struct aw_profile_set *set, struct aw_profile_report *report)
{
    struct aw_diag diag;
    double cores = 0;
    for (uint32_t i = 0; i < set->tenant_count; i++)
        cores += 1e-3 * (double)set->tenants[i].tenancy.terms.guarantee[AW_POOL_CPU];
    for (uint32_t i = 0; i < set->profile_count; i++) {
        const struct aw_profile *p = &set->profiles[i];
        const bool alone = !*p->tenant;
        cores += alone ? 1e-3 * (double)p->tenancy.terms.guarantee[AW_POOL_CPU] : 0;
        if (alone || aw_profile_set_tenant(set, p) != AW_ARBITER_ALONE)
            continue;
        aw_fail_at(&diag, AW_ERR_CONFIG, p->place.file, p->place.line, p->place.column,
                   "spec.tenancy.tenant", "expected the name of a Tenant, found \"%s\"", p->tenant);
        aw__report_fail(report, AW_ERR_CONFIG, &diag);
    }
    const double has = set->cluster.sim.node_cores * set->cluster.sim.node_count;
    if (!(cores > has) || set->app_count == 0)
        return;
    const struct aw_profile_place *place =
        set->tenant_count ? &set->tenants[0].place : &set->profiles[0].place;
    aw_fail_at(&diag, AW_OK, place->file, place->line, place->column, "spec.tenancy.guarantee",
               "guarantees come to %g cores, and the simulated cluster has %g: they cannot all be "
               "kept at once",
               cores, has);
    aw__report_warn(report, "overpromised", &diag);
}

enum aw_err aw_profile_set_check(struct aw_profile_set *set, struct aw_profile_report *report,
                                 struct aw_diag *diag)
{
    uint32_t most = set->profile_count > set->app_count ? set->profile_count : set->app_count;
    most = set->tenant_count > most ? set->tenant_count : most;
    struct names *list = aw_alloc_new(set->alloc, most, sizeof *list);
    bool *used = aw_alloc_new(set->alloc, set->app_count, sizeof *used);
    enum aw_err err = AW_OK;
    if (!list || !used) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory to compare %" PRIu32 " objects", most);
        goto out;
    }
    for (uint32_t i = 0; i < set->profile_count; i++) {
        const struct aw_profile *p = &set->profiles[i];
        list[i] = (struct names){p->namespace, "", p->name, &p->place, i};
    }
    names_check(report, list, set->profile_count, "metadata.name", "an autoscaler");
    for (uint32_t i = 0; i < set->tenant_count; i++) {
        const struct aw_profile_tenant *t = &set->tenants[i];
        list[i] = (struct names){"", "", t->name, &t->place, i};
    }
    names_check(report, list, set->tenant_count, "metadata.name", "a Tenant");
    tenants_check(set, report);
    for (uint32_t i = 0; i < set->profile_count; i++) {
        const struct aw_profile *p = &set->profiles[i];
        list[i] = (struct names){p->namespace, p->target_kind, p->target_name, &p->place, i};
    }
    names_check(report, list, set->profile_count, "spec.scaleTargetRef",
                "an autoscaler of the target");
    for (uint32_t i = 0; i < set->app_count; i++) {
        const struct aw_profile_app *a = &set->apps[i];
        list[i] = (struct names){a->namespace, "", a->name, &a->place, i};
    }
    names_check(report, list, set->app_count, "metadata.name", "a SimulatedApplication");
    worlds_check(set, report, list, used);
    if (report->error_count > 0)
        err = aw_fail(diag, AW_ERR_CONFIG, "%" PRIu32 " error%s", report->error_count,
                      report->error_count == 1 ? "" : "s");
out:
    aw_alloc_free(set->alloc, list);
    aw_alloc_free(set->alloc, used);
    return err;
}

/* The first from where its name points to that can meet its SLO; there, if none can. */
static uint32_t stand_in_index(const struct aw_profile *profile)
{
    const uint64_t hash = aw_hash_text(
        aw_hash_byte(aw_hash_text(AW_HASH_BEGIN, profile->namespace), 0xff), profile->target_name);
    const uint32_t first = (uint32_t)(hash % STAND_IN_POOL);
    for (uint32_t i = 0; i < STAND_IN_POOL; i++) {
        const uint32_t index = (first + i) % STAND_IN_POOL;
        struct aw_app app;
        aw_app_generate(STAND_IN_SEED, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
        if (!(profile->pilot.slo.latency_us_p99 > 0) ||
            STAND_IN_SLO * aw_app_unloaded_p99_us(&app, 1, 0) <= profile->pilot.slo.latency_us_p99)
            return index;
    }
    return first;
}

enum aw_err aw_profile_set_stand_in(struct aw_profile_set *set, struct aw_diag *diag)
{
    const uint32_t count = set->app_count ? 0 : set->profile_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_profile *profile = &set->profiles[i];
        void *block = set->apps;
        const enum aw_err err =
            grow(set->alloc, &block, set->app_count, &set->app_capacity, AW_PROFILE_APPS_MAX,
                 sizeof *set->apps, "simulated applications", diag);
        set->apps = block;
        if (err)
            return err;
        struct aw_profile_app *app = &set->apps[set->app_count++];
        const uint32_t index = stand_in_index(profile);
        *app = (struct aw_profile_app){.place = profile->place,
                                       .load = STAND_IN_LOAD,
                                       .load_cores = STAND_IN_CORES,
                                       .load_seed = index};
        memcpy(app->name, profile->target_name, sizeof app->name);
        memcpy(app->namespace, profile->namespace, sizeof app->namespace);
        aw_app_generate(STAND_IN_SEED, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                        &app->app);
        snprintf(app->pool, sizeof app->pool, "%u:%" PRIu32, STAND_IN_SEED, index);
    }
    return AW_OK;
}

const struct aw_profile_app *aw_profile_set_app(const struct aw_profile_set *set,
                                                const struct aw_profile *profile)
{
    for (uint32_t i = 0; i < set->app_count; i++) {
        if (!strcmp(set->apps[i].namespace, profile->namespace) &&
            !strcmp(set->apps[i].name, profile->target_name))
            return &set->apps[i];
    }
    return NULL;
}
