/* profile_sim.c - one SimulatedApplication, one SimulatedCluster: from what is written. */
#include "profile/profile_internal.h"

#include "base/file.h"
#include "base/text.h"
#include "workload/apps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the application --------------------------------------------------------------------------
 */

/* A map made here around lists of the file, so that the reader of application files can be asked.
 * The lists keep their own parents: what is wrong in them is told with its true path. */
struct made {
    struct aw_node root, apps, app, name, segments, kinds;
    struct aw_node *root_sorted[2], *app_sorted[2];
};

static void made_fill(struct made *made, const struct aw_node *segments,
                      const struct aw_node *kinds, const char *name)
{
    *made = (struct made){.segments = *segments};
    made->name = (struct aw_node){.kind = AW_NODE_STRING,
                                  .line = segments->line,
                                  .column = segments->column,
                                  .key = "name",
                                  .text = name,
                                  .text_len = (uint32_t)strlen(name),
                                  .next = &made->segments};
    made->segments.key = "segments";
    made->segments.next = NULL;
    made->app_sorted[0] = &made->name;
    made->app_sorted[1] = &made->segments;
    made->app = (struct aw_node){.kind = AW_NODE_MAP,
                                 .line = segments->line,
                                 .column = segments->column,
                                 .first = &made->name,
                                 .last = &made->segments,
                                 .sorted = made->app_sorted,
                                 .count = 2};
    made->apps = (struct aw_node){.kind = AW_NODE_LIST,
                                  .line = segments->line,
                                  .column = segments->column,
                                  .key = "apps",
                                  .first = &made->app,
                                  .last = &made->app,
                                  .count = 1};
    made->root_sorted[0] = &made->apps;
    made->root = (struct aw_node){.kind = AW_NODE_MAP,
                                  .line = segments->line,
                                  .column = segments->column,
                                  .first = &made->apps,
                                  .last = &made->apps,
                                  .sorted = made->root_sorted,
                                  .count = 1};
    if (!kinds)
        return;
    made->kinds = *kinds;
    made->kinds.key = "segments";
    made->kinds.next = NULL;
    made->apps.next = &made->kinds;
    made->root.last = &made->kinds;
    made->root.count = 2;
    made->root_sorted[1] = &made->kinds;
}

/* Whether a diagnostic is about what was made here: then its path means nothing to anyone. */
static enum aw_err segments_read(struct aw__reading *r, const struct aw_node *segments,
                                 const struct aw_alloc *alloc, struct aw__app_draft *draft,
                                 struct aw_diag *ret_diag)
{
    struct aw_apps apps = {0};
    struct aw_diag diag;
    struct made made;
    made_fill(&made, segments, aw__reading_at(r, "spec.app.kinds"),
              *draft->app.name ? draft->app.name : "app");
    const enum aw_err err = aw_apps_decode(r->tree, &made.root, NULL, 0, alloc, &apps, &diag);
    if (err == AW_ERR_NOMEM) {
        if (ret_diag)
            *ret_diag = diag;
        return err;
    }
    if (err)
        aw__reading_fail(r, segments, AW_ERR_CONFIG, &diag);
    else
        draft->app.app = apps.apps[0];
    aw_apps_deinit(&apps);
    return AW_OK;
}

static enum aw_err app_use(struct aw__reading *r, const struct aw_alloc *alloc,
                           struct aw__app_draft *draft, struct aw_diag *diag)
{
    const struct aw_node *segments = aw__reading_at(r, "spec.app.segments");
    const struct aw_node *kinds = aw__reading_at(r, "spec.app.kinds");
    const struct aw_node *seed = aw__reading_at(r, "spec.app.seed");
    const struct aw_node *index = aw__reading_at(r, "spec.app.index");
    if (segments && (seed || index)) {
        aw__reading_expected(
            r, segments, "expected segments, or seed and index as on line %" PRIu32 ", not both",
            seed ? seed->line : index->line);
        return AW_OK;
    }
    if (segments)
        return segments_read(r, segments, alloc, draft, diag);
    if (kinds)
        aw__reading_expected(r, kinds, "expected segments beside it that are of these kinds");
    aw_app_generate(draft->seed, draft->index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                    &draft->app.app);
    snprintf(draft->app.pool, sizeof draft->app.pool, "%" PRIu64 ":%" PRIu32, draft->seed,
             draft->index);
    return AW_OK;
}

/* --- the load ---------------------------------------------------------------------------------
 */

static bool is_pattern(const char *text)
{
    const size_t len = strcspn(text, ":");
    for (const char *const *name = aw_load_pattern_names; *name; name++) {
        if (strlen(*name) == len && !strncmp(*name, text, len))
            return true;
    }
    return false;
}

/* Whether the options of a load, after its last colon, have such a key. */
static bool says(const char *text, const char *key)
{
    const size_t len = strlen(key);
    for (const char *at = strrchr(text, ':'); at; at = strchr(at + 1, ',')) {
        if (!strncmp(at + 1, key, len) && at[1 + len] == '=')
            return true;
    }
    return false;
}

/* A trace lies beside the file that names it. */
static void trace_use(struct aw__reading *r, const struct aw_node *node, struct aw_profile_app *app)
{
    char path[AW_FILE_PATH_MAX], text[AW_CONF_TEXT_MAX], quoted[AW_TEXT_QUOTE_MAX];
    const char *file = r->tree->file, *slash = strrchr(file, '/');
    const char *colon = strrchr(app->load, ':');
    const int folder = slash && app->load[0] != '/' ? (int)(slash - file + 1) : 0;
    const int len = snprintf(text, sizeof text, "%.*s%s", folder, file, app->load);
    if (len < 0 || (size_t)len >= sizeof text) {
        aw__reading_expected(r, node,
                             "expected a path of at most %u bytes, the folder of this file "
                             "included",
                             AW_CONF_TEXT_MAX - 1);
        return;
    }
    /* options are after the last colon, if there is a key=value */
    const size_t options = colon && strchr(colon, '=') ? strlen(colon) : 0;
    snprintf(path, sizeof path, "%.*s", (int)(strlen(text) - options), text);
    if (access(path, R_OK))
        aw__reading_expected(r, node,
                             "expected a pattern of load (constant, diurnal, poisson, spikes, "
                             "bursts, ramp) or a file that can be read, found %s (%s)",
                             aw_text_quote(path, strlen(path), quoted, sizeof quoted),
                             strerror(errno));
    snprintf(app->load, sizeof app->load, "%s", text);
}

static enum aw_err load_use(struct aw__reading *r, const struct aw_alloc *alloc,
                            struct aw_profile_app *app, struct aw_diag *ret_diag)
{
    const struct aw_node *node = aw__reading_at(r, "spec.load.source");
    const struct aw_node *cores = aw__reading_at(r, "spec.load.cores");
    const bool pattern = is_pattern(app->load);
    /* of a pattern a peak is a ratio, of a trace a rate */
    const bool has_rate = says(app->load, "mean") || (!pattern && says(app->load, "peak"));
    if (has_rate && cores && app->load_cores > 0)
        aw__reading_expected(r, cores,
                             "expected cores or a load that names a rate (line %" PRIu32 "), not "
                             "both",
                             node->line);
    if (has_rate)
        app->load_cores = 0;
    if (!pattern) {
        trace_use(r, node, app);
        return AW_OK;
    }
    struct aw_load load = {0};
    struct aw_diag diag;
    const enum aw_err err = aw_load_parse(app->load, app->load_seed, alloc, &load, &diag);
    aw_load_deinit(&load);
    if (err == AW_ERR_NOMEM) {
        if (ret_diag)
            *ret_diag = diag;
        return err;
    }
    if (err)
        aw__reading_fail(r, node, aw_tree_place(r->tree, node, AW_ERR_CONFIG, &diag), &diag);
    return AW_OK;
}

static void scenarios_use(struct aw__reading *r, struct aw_profile_app *app)
{
    const struct aw_node *node = aw__reading_at(r, "spec.scenarios");
    struct aw_diag diag;
    enum aw_err err = AW_OK;
    if (!node)
        return;
    if (node->kind == AW_NODE_STRING)
        err = aw_tree_place(r->tree, node, aw_schedule_parse(node->text, &app->scenarios, &diag),
                            &diag);
    else
        err = aw_schedule_decode(r->tree, node, &app->scenarios, &diag);
    if (err)
        aw__reading_fail(r, node, AW_ERR_CONFIG, &diag);
}

enum aw_err aw__profile_read_app(struct aw__reading *r, const struct aw_alloc *alloc,
                                 struct aw_profile_app *ret, struct aw_diag *diag)
{
    struct aw__app_draft *draft = aw_alloc_new(alloc, 1, sizeof *draft);
    enum aw_err err = AW_OK;
    if (!draft)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an application");
    const struct aw_schema_sink sink = aw__reading_sink(r);
    aw_schema_defaults(aw__app_fields, draft);
    aw_schema_decode(aw__app_fields, r->tree, r->root, draft, &sink);
    if (aw__reading_sound(r, "spec.app"))
        err = app_use(r, alloc, draft, diag);
    if (!err && aw__reading_sound(r, "spec.load"))
        err = load_use(r, alloc, &draft->app, diag);
    scenarios_use(r, &draft->app);
    if (!err)
        *ret = draft->app;
    aw_alloc_free(alloc, draft);
    return err;
}

/* --- the cluster ------------------------------------------------------------------------------
 */

static int by_time(const void *a, const void *b)
{
    const int64_t x = ((const struct aw_profile_fault *)a)->at_us;
    const int64_t y = ((const struct aw_profile_fault *)b)->at_us;
    return (x > y) - (x < y);
}

void aw__profile_cluster_defaults(struct aw_profile_cluster *cluster)
{
    *cluster = (struct aw_profile_cluster){0};
    aw_schema_defaults(aw__cluster_fields, cluster);
}

void aw__profile_read_cluster(struct aw__reading *r, struct aw_profile_cluster *ret)
{
    const struct aw_schema_sink sink = aw__reading_sink(r);
    struct aw_profile_cluster cluster;
    aw__profile_cluster_defaults(&cluster);
    aw_schema_decode(aw__cluster_fields, r->tree, r->root, &cluster, &sink);
    const struct aw_node *list = aw__reading_at(r, "spec.faults");
    const struct aw_node *item = list && list->kind == AW_NODE_LIST ? list->first : NULL;
    if (aw__reading_sound(r, "spec.nodeCount")) {
        for (uint32_t i = 0; i < cluster.fault_count && item; i++, item = item->next) {
            const struct aw_profile_fault *fault = &cluster.fault[i];
            if (fault->kind == AW_PROFILE_FAULT_NODE && fault->node >= cluster.sim.node_count)
                aw__reading_expected(r, item,
                                     "expected a node from 0 to %" PRIu32 ", found %" PRIu32,
                                     cluster.sim.node_count - 1, fault->node);
        }
    }
    qsort(cluster.fault, cluster.fault_count, sizeof *cluster.fault, by_time);
    *ret = cluster;
}
