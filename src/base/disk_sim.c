/* disk_sim.c - the simulated disk: its faults, its calls, its death. */
#include "base/disk_sim_state.h"

#include <string.h>

/* ---- every call ---- */

enum what { READING, CHANGING, SYNCING };

static enum aw_err fail_sim(struct aw_diag *diag, const char *path, const char *verb,
                            const char *why)
{
    return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot %s: %s", verb, why);
}

/* Counts the call and lets the faults strike. `*ret_cut`: the power goes while this call is under
 * way: the caller leaves its change unfinished and fails. */
static enum aw_err enter(struct aw_disk_sim *sim, enum what what, const char *path,
                         const char *verb, bool *ret_cut, struct aw_diag *diag)
{
    const struct aw_disk_sim_faults *f = &sim->faults;
    *ret_cut = false;
    if (sim->power_off)
        return fail_sim(diag, path, verb, "the power is off");
    sim->call_count++;
    if (f->clock && f->slow_us > 0)
        aw_clock_virtual_advance(f->clock, f->slow_us);
    if (what != READING) {
        sim->change_count++;
        sim->sync_count += what == SYNCING;
        if (f->cut_at && sim->change_count == f->cut_at) {
            *ret_cut = sim->power_off = true;
            return fail_sim(diag, path, verb, "the power went off");
        }
    }
    uint64_t count = f->fail_count ? f->fail_count : 1;
    if (f->fail_at && sim->call_count >= f->fail_at && sim->call_count - f->fail_at < count)
        return fail_sim(diag, path, verb, "Input/output error");
    if (what == CHANGING && f->read_only)
        return fail_sim(diag, path, verb, "Read-only file system");
    return AW_OK;
}

static enum aw_err fail_nomem(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the simulated disk");
}

static struct aw__disk_handle *handle_of(const struct aw__disk_sim_state *s, int file)
{
    for (size_t i = 0; i < s->handle_count; i++)
        if (s->handles[i].id == file)
            return &s->handles[i];
    return NULL;
}

static enum aw_err fail_closed(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_IO, "this file is no longer open");
}

/* Bytes that a file has blocks for. */
static uint64_t bytes_of(const struct aw__disk_node *node)
{
    return node->seen.len > node->reserved ? node->seen.len : node->reserved;
}

static uint64_t bytes_used(const struct aw__disk_sim_state *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->node_count; i++)
        sum += s->nodes[i].used ? bytes_of(&s->nodes[i]) : 0;
    return sum;
}

/* ---- the contract ---- */

static enum aw_err sim_make_folder(void *self, const char *folder, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    if (strlen(folder) >= AW_DISK_SIM_PATH_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, folder, 0, 0, NULL, "the path is too long");
    if (aw__disk_find(&s->folders, folder))
        return sim->power_off ? fail_sim(diag, folder, "make the folder", "the power is off")
                              : AW_OK;
    enum aw_err err = enter(sim, CHANGING, folder, "make the folder", &cut, diag);
    if (!err && aw__disk_find(&s->seen, folder))
        err = aw_fail_at(diag, AW_ERR_EXISTS, folder, 0, 0, NULL,
                         "expected a folder, found something else");
    if (!err && !aw__disk_set(&s->alloc, &s->folders, folder, 0))
        err = fail_nomem(diag);
    return err;
}

static enum aw_err sim_list(void *self, const char *folder, aw_disk_visit *visit, void *ctx,
                            struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    const struct aw__disk_names *seen = &sim->state->seen;
    bool cut;
    enum aw_err err = enter(sim, READING, folder, "read the folder", &cut, diag);
    if (!err && !aw__disk_find(&sim->state->folders, folder))
        err = aw_fail_at(diag, AW_ERR_NOTFOUND, folder, 0, 0, NULL,
                         "cannot open the folder: No such file or directory");
    for (size_t i = 0; i < seen->count && !err; i++)
        if (aw__disk_inside(seen->at[i].path, folder))
            err = visit(ctx, seen->at[i].path + strlen(folder) + 1);
    return err;
}

static enum aw_err sim_sync_folder(void *self, const char *folder, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    size_t kept = 0;
    bool cut;
    enum aw_err err = enter(sim, SYNCING, folder, "sync the folder", &cut, diag);
    if (err)
        return err;
    for (size_t i = 0; i < s->rename_count; i++) {
        if (!err && aw__disk_inside(s->renames[i].path, folder)) {
            if (!aw__disk_apply(&s->alloc, &s->durable, &s->renames[i]))
                err = fail_nomem(diag);
        } else {
            s->renames[kept++] = s->renames[i];
        }
    }
    s->rename_count = kept;
    aw__disk_collect(s);
    return err;
}

/* Notes a change of names and shows it; `shown` false: it is under way as the power goes. */
static enum aw_err change_names(struct aw__disk_sim_state *s, const char *path, const char *from,
                                uint32_t node, bool gone, bool shown, struct aw_diag *diag)
{
    if (s->rename_count >= AW_DISK_SIM_CHANGE_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u changes wait for a sync",
                       AW_DISK_SIM_CHANGE_MAX);
    if (!aw__disk_reserve(&s->alloc, &s->renames, &s->rename_size, s->rename_count + 1,
                          sizeof *s->renames))
        return fail_nomem(diag);
    struct aw__disk_name_change *c = &s->renames[s->rename_count];
    *c = (struct aw__disk_name_change){.node = node, .gone = gone};
    memcpy(c->path, path, strlen(path) + 1);
    if (from)
        memcpy(c->from, from, strlen(from) + 1);
    if (shown && !aw__disk_apply(&s->alloc, &s->seen, c))
        return fail_nomem(diag);
    s->rename_count++;
    return AW_OK;
}

static enum aw_err new_node(struct aw__disk_sim_state *s, uint32_t *ret_node, struct aw_diag *diag)
{
    uint32_t n = 0;
    while (n < s->node_count && s->nodes[n].used)
        n++;
    if (n >= AW_DISK_SIM_FILES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u files", AW_DISK_SIM_FILES_MAX);
    if (n == s->node_count) {
        if (!aw__disk_reserve(&s->alloc, &s->nodes, &s->node_size, n + 1u, sizeof *s->nodes))
            return fail_nomem(diag);
        s->node_count++;
    }
    s->nodes[n] = (struct aw__disk_node){.used = true};
    *ret_node = n;
    return AW_OK;
}

static bool parent_exists(const struct aw__disk_sim_state *s, const char *path)
{
    char folder[AW_DISK_SIM_PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return true;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    return aw__disk_find(&s->folders, folder);
}

static enum aw_err sim_open(void *self, const char *path, enum aw_disk_mode mode, int *ret_file,
                            struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    uint32_t node = 0;
    bool cut;
    if (strlen(path) >= AW_DISK_SIM_PATH_MAX)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "the path is too long");
    const struct aw__disk_name *name = aw__disk_find(&s->seen, path);
    bool creates = mode != AW_DISK_READ && !name;
    enum aw_err err = enter(sim, creates ? CHANGING : READING, path, "open", &cut, diag);
    if (cut && !new_node(s, &node, diag)) {
        enum aw_err ignored = change_names(s, path, NULL, node, false, false, NULL);
        (void)ignored;
    }
    if (err)
        return err;
    if ((mode == AW_DISK_READ && !name) || !parent_exists(s, path))
        return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL,
                          "cannot open: No such file or directory");
    if (mode == AW_DISK_CREATE && name)
        return aw_fail_at(diag, AW_ERR_EXISTS, path, 0, 0, NULL, "cannot create: File exists");
    if (mode != AW_DISK_READ && sim->faults.read_only)
        return fail_sim(diag, path, "open", "Read-only file system");
    if (!aw__disk_reserve(&s->alloc, &s->handles, &s->handle_size, s->handle_count + 1,
                          sizeof *s->handles))
        return fail_nomem(diag);
    if (name)
        node = name->node;
    else if ((err = new_node(s, &node, diag)) ||
             (err = change_names(s, path, NULL, node, false, true, diag)))
        return err;
    s->handles[s->handle_count++] =
        (struct aw__disk_handle){.id = s->next_id, .node = node, .writable = mode != AW_DISK_READ};
    *ret_file = s->next_id++;
    return AW_OK;
}

static void sim_close(void *self, int file)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_handle *handle = handle_of(sim->state, file);
    if (!handle)
        return;
    *handle = sim->state->handles[--sim->state->handle_count];
    aw__disk_collect(sim->state);
}

static enum aw_err sim_read(void *self, int file, uint64_t offset, void *buf, size_t size,
                            size_t *ret_len, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    bool cut;
    enum aw_err err = enter(sim, READING, NULL, "read", &cut, diag);
    const struct aw__disk_handle *handle = handle_of(sim->state, file);
    if (err || !handle)
        return err ? err : fail_closed(diag);
    const struct aw__disk_content *seen = &sim->state->nodes[handle->node].seen;
    size_t len = offset >= seen->len ? 0 : seen->len - (size_t)offset;
    len = len < size ? len : size;
    if (len)
        memcpy(buf, seen->bytes + offset, len);
    *ret_len = len;
    return AW_OK;
}

static enum aw_err sim_write(void *self, int file, uint64_t offset, const void *bytes, size_t len,
                             struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, CHANGING, NULL, "write", &cut, diag);
    const struct aw__disk_handle *handle = handle_of(s, file);
    if (!handle || !handle->writable)
        return err ? err : fail_closed(diag);
    struct aw__disk_node *node = &s->nodes[handle->node];
    if ((err && !cut) || len == 0)
        return err;
    if (offset > AW_DISK_SIM_BYTES_MAX || len > AW_DISK_SIM_BYTES_MAX - offset ||
        node->change_count >= AW_DISK_SIM_CHANGE_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than a simulated disk takes");
    uint64_t used = bytes_used(s), space = sim->faults.space_bytes;
    uint64_t grows = offset + len > bytes_of(node) ? offset + len - bytes_of(node) : 0;
    if (space && grows && used + grows > space) {
        uint64_t over = used >= space ? grows : used + grows - space;
        len = over < len ? len - (size_t)over : 0;
        err = fail_sim(diag, NULL, "write", "No space left on device");
    }
    if (len == 0)
        return err;
    if (!aw__disk_change_add(&s->alloc, node, offset, bytes, len))
        return fail_nomem(diag);
    if (!aw__disk_write(&s->alloc, &node->seen, offset, bytes, len)) {
        aw_alloc_free(&s->alloc, node->changes[--node->change_count].bytes);
        return fail_nomem(diag);
    }
    return err;
}

static enum aw_err sim_truncate(void *self, int file, uint64_t size, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, CHANGING, NULL, "truncate", &cut, diag);
    const struct aw__disk_handle *handle = handle_of(s, file);
    if (!handle || !handle->writable)
        return err ? err : fail_closed(diag);
    struct aw__disk_node *node = &s->nodes[handle->node];
    if (err && !cut)
        return err;
    if (size > AW_DISK_SIM_BYTES_MAX || node->change_count >= AW_DISK_SIM_CHANGE_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than a simulated disk takes");
    if (!aw__disk_change_add(&s->alloc, node, size, NULL, 0))
        return fail_nomem(diag);
    if (!aw__disk_resize(&s->alloc, &node->seen, (size_t)size)) {
        node->change_count--;
        return fail_nomem(diag);
    }
    node->reserved = 0; /* as ext4 does, even where the size stays */
    return err;
}

static enum aw_err sim_reserve(void *self, int file, uint64_t bytes, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, CHANGING, NULL, "reserve blocks", &cut, diag);
    const struct aw__disk_handle *handle = handle_of(s, file);
    if (!handle || !handle->writable)
        return err ? err : fail_closed(diag);
    struct aw__disk_node *node = &s->nodes[handle->node];
    if (err)
        return err;
    if (sim->faults.no_reserve)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the file system cannot reserve blocks");
    const uint64_t space = sim->faults.space_bytes;
    const uint64_t grows = bytes > bytes_of(node) ? bytes - bytes_of(node) : 0;
    if (bytes > AW_DISK_SIM_BYTES_MAX || (space && grows && bytes_used(s) + grows > space))
        return fail_sim(diag, NULL, "reserve blocks", "No space left on device");
    node->reserved = bytes > node->reserved ? (size_t)bytes : node->reserved;
    return AW_OK;
}

static enum aw_err sim_size(void *self, int file, uint64_t *ret_size, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    bool cut;
    enum aw_err err = enter(sim, READING, NULL, "ask for the size", &cut, diag);
    const struct aw__disk_handle *handle = handle_of(sim->state, file);
    if (err || !handle)
        return err ? err : fail_closed(diag);
    *ret_size = sim->state->nodes[handle->node].seen.len;
    return AW_OK;
}

static enum aw_err sim_sync(void *self, int file, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, SYNCING, NULL, "sync", &cut, diag);
    const struct aw__disk_handle *handle = handle_of(s, file);
    if (!handle)
        return err ? err : fail_closed(diag);
    struct aw__disk_node *node = &s->nodes[handle->node];
    if (err) {
        if (!cut && !sim->power_off)
            aw__disk_lose(&s->alloc, node, &s->rng);
        return err;
    }
    return aw__disk_sync(&s->alloc, node) ? AW_OK : fail_nomem(diag);
}

static enum aw_err sim_lock(void *self, int file, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, READING, NULL, "lock", &cut, diag);
    struct aw__disk_handle *handle = handle_of(s, file);
    if (err || !handle)
        return err ? err : fail_closed(diag);
    for (size_t i = 0; i < s->handle_count; i++)
        if (&s->handles[i] != handle && s->handles[i].node == handle->node && s->handles[i].locked)
            return aw_fail(diag, AW_ERR_UNAVAILABLE,
                           "in use by another process, which writes to it");
    handle->locked = true;
    return AW_OK;
}

static enum aw_err sim_rename(void *self, const char *from, const char *to, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, CHANGING, from, "rename", &cut, diag);
    const struct aw__disk_name *name = aw__disk_find(&s->seen, from);
    if (err && !cut)
        return err;
    if (!name)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, from, 0, 0, NULL,
                          "cannot rename: No such file or directory");
    if (strlen(to) >= AW_DISK_SIM_PATH_MAX)
        return aw_fail_at(diag, AW_ERR_IO, to, 0, 0, NULL, "the path is too long");
    enum aw_err changed = change_names(s, to, from, name->node, false, !cut, cut ? NULL : diag);
    return err ? err : changed;
}

static enum aw_err sim_unlink(void *self, const char *path, struct aw_diag *diag)
{
    struct aw_disk_sim *sim = self;
    struct aw__disk_sim_state *s = sim->state;
    bool cut;
    enum aw_err err = enter(sim, CHANGING, path, "remove", &cut, diag);
    if (err && !cut)
        return err;
    if (!aw__disk_find(&s->seen, path))
        return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL,
                          "cannot remove: No such file or directory");
    enum aw_err changed = change_names(s, path, NULL, 0, true, !cut, cut ? NULL : diag);
    aw__disk_collect(s);
    return err ? err : changed;
}

static const struct aw_disk_ops sim_ops = {
    .name = "simulated",
    .make_folder = sim_make_folder,
    .list = sim_list,
    .sync_folder = sim_sync_folder,
    .open = sim_open,
    .close = sim_close,
    .read = sim_read,
    .write = sim_write,
    .truncate = sim_truncate,
    .size = sim_size,
    .reserve = sim_reserve,
    .sync = sim_sync,
    .lock = sim_lock,
    .rename = sim_rename,
    .unlink = sim_unlink,
};

/* ---- life and death ---- */

enum aw_err aw_disk_sim_init(struct aw_disk_sim *sim, uint64_t seed, const struct aw_alloc *alloc)
{
    *sim = (struct aw_disk_sim){0};
    struct aw__disk_sim_state *s = aw_alloc_new(alloc, 1, sizeof *s);
    if (!s)
        return AW_ERR_NOMEM;
    s->alloc = alloc ? *alloc : aw_alloc_heap;
    aw_rng_init(&s->rng, seed, 0);
    sim->state = s;
    sim->disk = (struct aw_disk){.ops = &sim_ops, .self = sim};
    return AW_OK;
}

void aw_disk_sim_deinit(struct aw_disk_sim *sim)
{
    struct aw__disk_sim_state *s = sim->state;
    if (s) {
        struct aw_alloc alloc = s->alloc;
        for (size_t i = 0; i < s->node_count; i++)
            aw__disk_drop(&alloc, &s->nodes[i]);
        aw_alloc_free(&alloc, s->nodes);
        aw_alloc_free(&alloc, s->seen.at);
        aw_alloc_free(&alloc, s->durable.at);
        aw_alloc_free(&alloc, s->folders.at);
        aw_alloc_free(&alloc, s->renames);
        aw_alloc_free(&alloc, s->handles);
        aw_alloc_free(&alloc, s);
    }
    *sim = (struct aw_disk_sim){0};
}

static bool names_copy(const struct aw_alloc *alloc, struct aw__disk_names *to,
                       const struct aw__disk_names *from)
{
    if (!aw__disk_reserve(alloc, &to->at, &to->size, from->count, sizeof *to->at))
        return false;
    if (from->count)
        memcpy(to->at, from->at, from->count * sizeof *to->at);
    to->count = from->count;
    return true;
}

static bool node_copy(const struct aw_alloc *alloc, struct aw__disk_node *to,
                      const struct aw__disk_node *from)
{
    to->used = from->used;
    if (!aw__disk_copy(alloc, &to->seen, &from->seen) ||
        !aw__disk_copy(alloc, &to->durable, &from->durable))
        return false;
    for (size_t i = 0; i < from->change_count; i++) {
        const struct aw__disk_change *c = &from->changes[i];
        if (!aw__disk_change_add(alloc, to, c->offset, c->bytes, c->len))
            return false;
    }
    return true;
}

enum aw_err aw_disk_sim_copy(struct aw_disk_sim *to, const struct aw_disk_sim *from)
{
    const struct aw__disk_sim_state *f = from->state;
    enum aw_err err = aw_disk_sim_init(to, 0, &f->alloc);
    if (err)
        return err;
    struct aw__disk_sim_state *t = to->state;
    to->call_count = from->call_count;
    to->change_count = from->change_count;
    to->sync_count = from->sync_count;
    to->power_off = from->power_off;
    t->rng = f->rng;
    t->next_id = f->next_id;
    bool fine =
        names_copy(&t->alloc, &t->seen, &f->seen) &&
        names_copy(&t->alloc, &t->durable, &f->durable) &&
        names_copy(&t->alloc, &t->folders, &f->folders) &&
        aw__disk_reserve(&t->alloc, &t->renames, &t->rename_size, f->rename_count,
                         sizeof *t->renames) &&
        aw__disk_reserve(&t->alloc, &t->nodes, &t->node_size, f->node_count, sizeof *t->nodes);
    if (fine && f->rename_count)
        memcpy(t->renames, f->renames, f->rename_count * sizeof *t->renames);
    t->rename_count = fine ? f->rename_count : 0;
    for (size_t i = 0; i < f->node_count && fine; i++) {
        t->node_count++;
        fine = node_copy(&t->alloc, &t->nodes[i], &f->nodes[i]);
    }
    if (!fine) {
        aw_disk_sim_deinit(to);
        return AW_ERR_NOMEM;
    }
    aw__disk_collect(t); /* files that were open and had no name */
    return AW_OK;
}

void aw_disk_sim_kill(struct aw_disk_sim *sim)
{
    sim->state->handle_count = 0;
    aw__disk_collect(sim->state);
}

void aw_disk_sim_power_cut(struct aw_disk_sim *sim, uint64_t seed)
{
    struct aw__disk_sim_state *s = sim->state;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, sim->change_count);
    /* now and then all or nothing, which chance alone hardly ever gives */
    uint32_t keep_of_4 = aw_rng_below(&rng, 5);
    bool fine = true;
    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].used)
            aw__disk_lose(&s->alloc, &s->nodes[i], &rng);
    for (size_t i = 0; i < s->rename_count; i++)
        if (aw_rng_below(&rng, 4) < keep_of_4)
            fine = aw__disk_apply(&s->alloc, &s->durable, &s->renames[i]) && fine;
    s->rename_count = 0;
    s->handle_count = 0;
    fine = names_copy(&s->alloc, &s->seen, &s->durable) && fine;
    aw__disk_collect(s);
    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].used)
            fine = aw__disk_copy(&s->alloc, &s->nodes[i].seen, &s->nodes[i].durable) && fine;
    AW_ASSERT(fine); /* a simulated disk that cannot be cut has nothing to say */
    sim->power_off = false;
    sim->faults.cut_at = 0;
}

enum aw_err aw_disk_sim_put(struct aw_disk_sim *sim, const char *path, const void *bytes,
                            size_t len)
{
    struct aw__disk_sim_state *s = sim->state;
    struct aw__disk_name *name = aw__disk_find(&s->seen, path);
    uint32_t n = 0;
    if (strlen(path) >= AW_DISK_SIM_PATH_MAX)
        return AW_ERR_RANGE;
    if (name) {
        n = name->node;
    } else {
        enum aw_err err = new_node(s, &n, NULL);
        if (err)
            return err;
    }
    struct aw__disk_node *node = &s->nodes[n];
    struct aw__disk_content content = {.bytes = NULL};
    aw__disk_settle(&s->alloc, node);
    if (!aw__disk_write(&s->alloc, &content, 0, bytes, len) ||
        !aw__disk_copy(&s->alloc, &node->seen, &content) ||
        !aw__disk_copy(&s->alloc, &node->durable, &content) ||
        !aw__disk_set(&s->alloc, &s->seen, path, n) ||
        !aw__disk_set(&s->alloc, &s->durable, path, n)) {
        aw_alloc_free(&s->alloc, content.bytes);
        return AW_ERR_NOMEM;
    }
    aw_alloc_free(&s->alloc, content.bytes);
    return AW_OK;
}

const char *aw_disk_sim_get(const struct aw_disk_sim *sim, const char *path, size_t *ret_len)
{
    const struct aw__disk_name *name = aw__disk_find(&sim->state->seen, path);
    if (!name)
        return NULL;
    const struct aw__disk_content *seen = &sim->state->nodes[name->node].seen;
    *ret_len = seen->len;
    return seen->bytes ? (const char *)seen->bytes : "";
}
