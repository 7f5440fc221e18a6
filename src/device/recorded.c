/*
 * recorded.c - a recording of devices, played back: the time of the first read is the recording's
 * first, and each read shows the newest line that is not later. Nothing can be set.
 */
#include "device/devices.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define CELLS          10u

struct row {
    uint32_t device;
    struct aw_device_reading reading;
};

struct recorded {
    const struct aw_alloc *alloc;
    int64_t begun_us; /* of the first read; INT64_MIN: none yet */
    uint32_t count, row_count;
    uint32_t at[AW_DEVICES_MAX]; /* the row that was shown last */
    struct aw_device_info info[AW_DEVICES_MAX];
    struct row *row;
};

static uint32_t count(void *self)
{
    return ((struct recorded *)self)->count;
}

static enum aw_err describe(void *self, uint32_t index, struct aw_device_info *ret_info,
                            struct aw_diag *diag __attribute__((unused)))
{
    const struct recorded *recorded = self;
    AW_ASSERT(index < recorded->count);
    *ret_info = recorded->info[index];
    return AW_OK;
}

static enum aw_err read_one(void *self, uint32_t index, int64_t now_us,
                            struct aw_device_reading *ret_reading, struct aw_diag *diag)
{
    struct recorded *recorded = self;
    AW_ASSERT(index < recorded->count);
    if (recorded->begun_us == INT64_MIN)
        recorded->begun_us = now_us;
    const int64_t until = recorded->row[0].reading.at_us + (now_us - recorded->begun_us);
    const struct aw_device_reading *newest = NULL;
    for (uint32_t i = recorded->at[index]; i < recorded->row_count; i++) {
        const struct row *row = &recorded->row[i];
        if (row->reading.at_us > until)
            break;
        if (row->device != index)
            continue;
        newest = &row->reading;
        recorded->at[index] = i;
    }
    if (!newest)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s has nothing recorded so early",
                       recorded->info[index].id);
    *ret_reading = *newest;
    ret_reading->at_us = now_us;
    return AW_OK;
}

static enum aw_err refuse(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_UNSUPPORTED, "a recording cannot be set");
}

static enum aw_err set_clock(void *self __attribute__((unused)),
                             uint32_t index __attribute__((unused)),
                             uint32_t mhz __attribute__((unused)),
                             int64_t now_us __attribute__((unused)), struct aw_diag *diag)
{
    return refuse(diag);
}

static enum aw_err reset(void *self __attribute__((unused)), uint32_t index __attribute__((unused)),
                         int64_t now_us __attribute__((unused)), struct aw_diag *diag)
{
    return refuse(diag);
}

static void close_all(void *self)
{
    struct recorded *recorded = self;
    aw_alloc_free(recorded->alloc, recorded->row);
    aw_alloc_free(recorded->alloc, recorded);
}

static const struct aw_device_ops ops = {.name = "recorded",
                                         .count = count,
                                         .describe = describe,
                                         .read = read_one,
                                         .set_clock = set_clock,
                                         .set_limit = set_clock,
                                         .reset = reset,
                                         .close = close_all};

/* The device of that id, new ones included; AW_DEVICES_MAX: too many. */
static uint32_t device_of(struct recorded *recorded, const char *id, const char *name)
{
    uint32_t i = 0;
    while (i < recorded->count && strcmp(recorded->info[i].id, id) != 0)
        i++;
    if (i < recorded->count || i == AW_DEVICES_MAX)
        return i;
    struct aw_device_info *info = &recorded->info[recorded->count++];
    *info = (struct aw_device_info){.why = "a recording: nothing can be set"};
    snprintf(info->id, sizeof info->id, "%s", id);
    snprintf(info->name, sizeof info->name, "%s", name);
    return i;
}

static enum aw_err line_read(struct recorded *recorded, const char *path, uint32_t line, char *text,
                             struct aw_diag *diag)
{
    char *cell[CELLS] = {0};
    uint32_t cells = 0;
    for (char *at = text; at && cells < CELLS; cells++) {
        cell[cells] = strsep(&at, ",");
        if (cells + 1 == CELLS && at)
            cells = CELLS; /* more than there may be */
    }
    if (cells != CELLS)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, line, 0, NULL, "expected %u cells (%s)", CELLS,
                          AW_DEVICE_CSV_HEAD);
    struct row *row = &recorded->row[recorded->row_count];
    *row = (struct row){0};
    uint64_t value[CELLS] = {0};
    static const uint32_t bit[CELLS] = {0,
                                        0,
                                        0,
                                        AW_DEVICE_CLOCK,
                                        AW_DEVICE_POWER,
                                        AW_DEVICE_ENERGY,
                                        AW_DEVICE_REASONS,
                                        AW_DEVICE_LIMIT,
                                        AW_DEVICE_BUSY,
                                        AW_DEVICE_TEMPERATURE};
    for (uint32_t i = 0; i < CELLS; i++) {
        if (i == 1 || i == 2 || (i > 2 && !*cell[i]))
            continue;
        if (aw_text_parse_u64(cell[i], &value[i]) || (i != 5 && i && value[i] > UINT32_MAX) ||
            value[i] > INT64_MAX)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, line, 0, NULL,
                              "cell %u: expected a whole number, found \"%.32s\"", i + 1, cell[i]);
        row->reading.known |= bit[i];
    }
    row->device = device_of(recorded, cell[1], cell[2]);
    if (row->device == AW_DEVICES_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, path, line, 0, NULL, "more than %u devices",
                          AW_DEVICES_MAX);
    row->reading.at_us = (int64_t)value[0];
    row->reading.clock_mhz = (uint32_t)value[3];
    row->reading.power_mw = (uint32_t)value[4];
    row->reading.energy_uj = value[5];
    row->reading.reasons = (uint32_t)value[6];
    row->reading.limit_mw = (uint32_t)value[7];
    row->reading.busy_permille = (uint32_t)value[8];
    row->reading.temperature_c = (uint32_t)value[9];
    if (recorded->row_count && row->reading.at_us < row[-1].reading.at_us)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, line, 0, NULL,
                          "expected times that never fall");
    recorded->row_count++;
    return AW_OK;
}

enum aw_err aw__recorded_open(const char *path, const struct aw_alloc *alloc,
                              struct aw_devices *ret, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len = 0, lines = 1;
    enum aw_err err = aw_file_read(path, FILE_BYTES_MAX, alloc, &bytes, &len, diag);
    if (err)
        return err;
    for (size_t i = 0; i < len; i++)
        lines += bytes[i] == '\n';
    struct recorded *recorded = aw_alloc_new(alloc, 1, sizeof *recorded);
    if (recorded)
        recorded->row = aw_alloc_new(alloc, lines, sizeof *recorded->row);
    if (!recorded || !recorded->row) {
        aw_alloc_free(alloc, recorded);
        aw_alloc_free(alloc, bytes);
        return aw_fail(diag, AW_ERR_NOMEM, "%s: no memory for %zu lines", path, lines);
    }
    recorded->alloc = alloc;
    recorded->begun_us = INT64_MIN;
    uint32_t line = 0;
    for (char *rest = bytes, *text; !err && (text = strsep(&rest, "\n"));) {
        line++;
        if (line == 1 && strcmp(text, AW_DEVICE_CSV_HEAD) != 0)
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL, "expected %s",
                             AW_DEVICE_CSV_HEAD);
        else if (line > 1 && *text)
            err = line_read(recorded, path, line, text, diag);
    }
    if (!err && !recorded->row_count)
        err = aw_fail(diag, AW_ERR_NODATA, "%s: no readings", path);
    aw_alloc_free(alloc, bytes);
    if (err)
        close_all(recorded);
    else
        *ret = (struct aw_devices){&ops, recorded};
    return err;
}
