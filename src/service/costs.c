/* costs.c - measured costs to a file and back. */
#include "service/costs.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/tree.h"

#define TEXT_BYTES 4096u

enum aw_err aw__costs_write(const char *path, const struct aw_runner_config *config,
                            const struct aw_runner_cost *cost, struct aw_diag *diag)
{
    const struct aw_app *app = &config->app;
    char buf[TEXT_BYTES], number[AW_TEXT_REAL_MAX];
    struct aw_text text;
    aw_text_init(&text, buf, sizeof buf);
    aw_text_add(&text, "{\"app\": \"%s\", \"payload\": %s, \"families\": %u, \"segments\": [",
                app->name, aw_text_real(config->payload, number, sizeof number), config->families);
    for (uint32_t i = 0; i < app->segment_count; i++) {
        aw_text_add(&text, "%s\n  {\"kind\": \"%s\", \"piece_us\": %s", i ? "," : "",
                    app->segment[i].name, aw_text_real(cost[i].piece_us, number, sizeof number));
        aw_text_add(&text, ", \"fixed_us\": %s}",
                    aw_text_real(cost[i].fixed_us, number, sizeof number));
    }
    aw_text_add(&text, "\n]}\n");
    AW_ASSERT(!text.cut);
    return aw_file_replace(path, text.buf, text.len, NULL, diag);
}

static enum aw_err row_read(const struct aw_tree *tree, const struct aw_node *row,
                            struct aw_runner_cost *ret, const char **ret_kind, struct aw_diag *diag)
{
    const struct aw_node *kind = NULL, *piece = NULL, *fixed = NULL;
    enum aw_err err = aw_tree_require(tree, row, "kind", &kind, diag);
    if (!err)
        err = aw_tree_string(tree, kind, ret_kind, diag);
    if (!err)
        err = aw_tree_require(tree, row, "piece_us", &piece, diag);
    if (!err)
        err = aw_tree_real(tree, piece, 1e-6, 1e9, &ret->piece_us, diag);
    if (!err)
        err = aw_tree_require(tree, row, "fixed_us", &fixed, diag);
    if (!err)
        err = aw_tree_real(tree, fixed, 0, 1e9, &ret->fixed_us, diag);
    return err;
}

static enum aw_err tree_read(const struct aw_tree *tree, const struct aw_runner_config *config,
                             struct aw_runner_cost *ret, struct aw_diag *diag)
{
    const struct aw_app *app = &config->app;
    const struct aw_node *root = NULL, *name = NULL, *size = NULL, *whose = NULL, *rows = NULL;
    int64_t found_families = 0;
    const char *found = NULL;
    double found_payload = 0;
    enum aw_err err = aw_tree_only(tree, &root, diag);
    if (!err)
        err = aw_tree_require(tree, root, "app", &name, diag);
    if (!err)
        err = aw_tree_string(tree, name, &found, diag);
    if (!err)
        err = aw_tree_require(tree, root, "payload", &size, diag);
    if (!err)
        err = aw_tree_real(tree, size, 0, DBL_MAX, &found_payload, diag);
    if (!err)
        err = aw_tree_require(tree, root, "families", &whose, diag);
    if (!err)
        err = aw_tree_i64(tree, whose, 0, UINT32_MAX, &found_families, diag);
    if (!err)
        err = aw_tree_require(tree, root, "segments", &rows, diag);
    if (!err)
        err = aw_tree_list(tree, rows, diag);
    if (err)
        return err;
    bool same = !strcmp(found, app->name) && found_payload == config->payload &&
                found_families == config->families && rows->count == app->segment_count;
    uint32_t i = 0;
    for (const struct aw_node *row = rows->first; same && row; row = row->next, i++) {
        const char *kind = NULL;
        if ((err = row_read(tree, row, &ret[i], &kind, diag)))
            return err;
        same = !strcmp(kind, app->segment[i].name);
    }
    return same ? AW_OK : AW_ERR_NOTFOUND;
}

enum aw_err aw__costs_read(const char *path, const struct aw_runner_config *config,
                           struct aw_runner_cost *ret, struct aw_diag *diag)
{
    struct aw_runner_cost cost[AW_APP_SEGMENTS_MAX] = {{0}};
    struct aw_tree tree;
    struct stat st;
    if (stat(path, &st) == 0 && st.st_size == 0)
        return AW_ERR_NOTFOUND;
    enum aw_err err = aw_tree_load_file(&tree, path, NULL, diag);
    if (!err)
        err = tree_read(&tree, config, cost, diag);
    aw_tree_deinit(&tree);
    if (!err)
        memcpy(ret, cost, config->app.segment_count * sizeof *cost);
    return err;
}

/* The file itself is locked. It is replaced under the lock, so whoever waited for that has the lock
 * of a file without a name, and finds the new one by its name. */
int aw__costs_turn(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}
