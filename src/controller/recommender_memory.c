/*
 * recommender_memory.c - what pilots learned, in one file, for the next process.
 *
 * Each pilot has parts under its name (control/pilot_keep.h). It finds them with other settings and
 * in a later version of the program; what cannot be read costs that pilot alone, which then learns
 * again, from what the store has.
 */
#include "controller/recommender_internal.h"

#include "control/pilot_keep.h"

#define KIND "pilots"
#define WHAT "what pilots learned"

struct aw__remembered {
    struct aw_archive archive; /* without those that a pilot has come for */
};

static void remembered_free(struct aw_recommender *r, struct aw__remembered *memory)
{
    if (memory)
        aw_archive_close(&memory->archive);
    aw_alloc_free(r->alloc, memory);
}

void aw__memory_read(struct aw_recommender *r, const char *path)
{
    char buf[AW_FILE_PATH_MAX];
    struct aw_diag why = {0};
    struct aw__remembered *memory = aw_alloc_new(r->alloc, 1, sizeof *memory);
    const enum aw_err err =
        memory ? aw_archive_read(&memory->archive, path, KIND, WHAT, r->alloc, &why) : AW_ERR_NOMEM;
    const bool damaged = !err && memory->archive.damaged > 0;
    if (err || damaged) { /* the next save does not take its place */
        const char *aside =
            aw_envelope_set_aside(path, damaged ? AW_ERR_FORMAT : err, buf, sizeof buf);
        if (err != AW_ERR_NOTFOUND)
            aw_log_warn(r->config.log,
                        damaged ? "some of what was learned before cannot be read"
                                : "what was learned before cannot be read",
                        AW_LOG_STR("file", path), AW_LOG_STR("why", damaged ? "damaged" : why.text),
                        AW_LOG_STR("kept", aside));
    }
    if (err)
        remembered_free(r, memory);
    else
        r->remembered = memory;
}

enum aw_err aw__memory_give(struct aw_recommender *r, uint32_t slot, struct aw_diag *diag)
{
    struct aw_pilot_found found;
    const char *name = aw_pilot_config(aw_loop_pilot(r->loop, slot))->name;
    if (!r->remembered)
        return AW_OK;
    const enum aw_err err =
        aw_loop_recover_one(r->loop, slot, &r->remembered->archive, name, &found, diag);
    if (err)
        return err;
    name = aw_pilot_config(aw_loop_pilot(r->loop, slot))->name; /* the pilot may be another one */
    aw_archive_drop(&r->remembered->archive, name);
    if (found.kind == AW_PILOT_FOUND_KEPT)
        aw_log_info(r->config.log, "learned before, with other settings",
                    AW_LOG_STR("workload", name), AW_LOG_STR("what", found.text));
    else if (*found.text)
        aw_log_warn(r->config.log, "learns again, the others do not", AW_LOG_STR("workload", name),
                    AW_LOG_STR("why", found.text));
    return AW_OK;
}

void aw__memory_free(struct aw_recommender *r)
{
    remembered_free(r, r->remembered);
    r->remembered = NULL;
}

enum aw_err aw_recommender_save(struct aw_recommender *r, const char *path, struct aw_diag *diag)
{
    struct aw_archive_writer to;
    enum aw_err err = aw_archive_create(&to, path, KIND, r->alloc, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < aw_loop_count(r->loop); i++)
        if (aw_loop_has(r->loop, i))
            aw_loop_keep_one(r->loop, i, aw_pilot_config(aw_loop_pilot(r->loop, i))->name, &to);
    /* of pilots that have not come yet, what was remembered stays */
    for (uint32_t i = 0; r->remembered && i < r->remembered->archive.count; i++)
        aw_archive_copy(&to, &r->remembered->archive, &r->remembered->archive.part[i]);
    err = aw_archive_commit(&to, diag);
    if (!err && r->config.vpa_memory)
        err = aw__vpas_save(r->vpas, r->config.vpa_memory, diag);
    return err;
}
