/* recorded.c - see recorded.h. */
#include "congestion/recorded.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "trace/read.h"

#define CELLS_MAX 32u
#define PATH_LEN  4096u

/* One CSV file, line after line; cells end with NUL in place. */
struct lines {
    const char *name;
    char *at, *end;
    uint32_t line;
    char *cell[CELLS_MAX];
    uint32_t count;
};

static bool lines_next(struct lines *lines)
{
    while (lines->at < lines->end) {
        char *from = lines->at;
        char *stop = memchr(from, '\n', (size_t)(lines->end - from));
        stop = stop ? stop : lines->end;
        lines->at = stop < lines->end ? stop + 1 : lines->end;
        lines->line++;
        if (stop > from && stop[-1] == '\r')
            stop--;
        if (stop == from)
            continue;
        *stop = '\0';
        lines->count = 0;
        for (char *at = from; at && lines->count < CELLS_MAX;) {
            lines->cell[lines->count++] = at;
            at = strchr(at, ',');
            if (at)
                *at++ = '\0';
        }
        return true;
    }
    return false;
}

static uint32_t column(const struct lines *lines, const char *name)
{
    for (uint32_t i = 0; i < lines->count; i++) {
        if (!strcmp(lines->cell[i], name))
            return i;
    }
    return UINT32_MAX;
}

static enum aw_err need(const struct lines *lines, const char *name, uint32_t *ret_at,
                        struct aw_diag *diag)
{
    *ret_at = column(lines, name);
    if (*ret_at == UINT32_MAX)
        return aw_fail_at(diag, AW_ERR_FORMAT, lines->name, lines->line, 0, name,
                          "expected a header with the column %s, found none of that name", name);
    return AW_OK;
}

static enum aw_err real(const struct lines *lines, uint32_t at, const char *key, double low,
                        double high, double *ret, struct aw_diag *diag)
{
    const char *text = at < lines->count ? lines->cell[at] : "";
    double value;
    if (aw_text_parse_real(text, &value) || value < low || value > high) {
        char quoted[AW_TEXT_QUOTE_MAX];
        return aw_fail_at(diag, AW_ERR_FORMAT, lines->name, lines->line, 0, key,
                          "expected a number from %g to %g, found %s", low, high,
                          aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    }
    *ret = value;
    return AW_OK;
}

static enum aw_err whole(const struct lines *lines, uint32_t at, const char *key, uint64_t *ret,
                         struct aw_diag *diag)
{
    const char *text = at < lines->count ? lines->cell[at] : "";
    if (aw_text_parse_u64(text, ret)) {
        char quoted[AW_TEXT_QUOTE_MAX];
        return aw_fail_at(diag, AW_ERR_FORMAT, lines->name, lines->line, 0, key,
                          "expected a whole number, found %s",
                          aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    }
    return AW_OK;
}

static enum aw_err allocate(struct aw_recorded *recorded, const char *bytes, size_t len,
                            struct aw_diag *diag)
{
    size_t rows = 1;
    for (size_t i = 0; i < len; i++)
        rows += bytes[i] == '\n';
    recorded->time_s = aw_alloc_new(recorded->alloc, rows, sizeof(double));
    recorded->rate = aw_alloc_new(recorded->alloc, rows, sizeof(double));
    recorded->served = aw_alloc_new(recorded->alloc, 2 * rows, sizeof(double));
    /* a run has two rows at least, because one row has no length */
    recorded->run = aw_alloc_new(recorded->alloc, rows / 2 + 1, sizeof *recorded->run);
    if (!recorded->time_s || !recorded->rate || !recorded->served || !recorded->run)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %zu rows", rows);
    return AW_OK;
}

/* A run's rows are all there: its length and what it serves. */
static enum aw_err run_end(struct aw_recorded_run *run, double *served, const struct lines *lines,
                           struct aw_diag *diag)
{
    struct aw_bandwidth *trace = &run->trace;
    if (trace->count < 2)
        return aw_fail_at(diag, AW_ERR_FORMAT, lines->name, lines->line, 0, "run_id",
                          "expected two rows or more of run %llu, found %u",
                          (unsigned long long)run->id, trace->count);
    const double *time_s = trace->time_s;
    trace->period_s = time_s[trace->count - 1] + (time_s[1] - time_s[0]);
    for (uint32_t i = 0; i < trace->count; i++) {
        const double end_s = i + 1 < trace->count ? time_s[i + 1] : trace->period_s;
        served[i + 1] = served[i] + (end_s - time_s[i]) * trace->rate[i];
    }
    trace->served = served;
    return AW_OK;
}

static enum aw_err traces_parse(struct aw_recorded *recorded, struct lines *lines,
                                struct aw_diag *diag)
{
    uint32_t c_run, c_time, c_rate;
    if (!lines_next(lines))
        return aw_fail_at(diag, AW_ERR_FORMAT, lines->name, 1, 0, "run_id",
                          "expected a header run_id,time_s,bandwidth_mbps, found an empty file");
    enum aw_err err = need(lines, "run_id", &c_run, diag);
    if (!err)
        err = need(lines, "time_s", &c_time, diag);
    if (!err)
        err = need(lines, "bandwidth_mbps", &c_rate, diag);
    size_t row = 0, served = 0;
    struct aw_recorded_run *run = NULL;
    double offset_s = 0;
    while (!err && lines_next(lines)) {
        uint64_t id;
        double time_s = 0, mbps = 0;
        err = whole(lines, c_run, "run_id", &id, diag);
        if (!err)
            err = real(lines, c_time, "time_s", 0, 1e9, &time_s, diag);
        if (!err)
            err = real(lines, c_rate, "bandwidth_mbps", 0, AW_BANDWIDTH_MBPS_MAX, &mbps, diag);
        if (err)
            break;
        if (!run || run->id != id) {
            if (run) {
                err = run_end(run, recorded->served + served, lines, diag);
                served += run->trace.count + 1;
            }
            if (err)
                break;
            if (recorded->count >= AW_RECORDED_RUNS_MAX)
                return aw_fail_at(diag, AW_ERR_LIMIT, lines->name, lines->line, 0, "run_id",
                                  "more than %u runs", AW_RECORDED_RUNS_MAX);
            run = &recorded->run[recorded->count++];
            *run = (struct aw_recorded_run){
                .id = id,
                .delay_s = AW_RECORDED_DELAY_S,
                .trace = {.time_s = recorded->time_s + row, .rate = recorded->rate + row}};
            offset_s = time_s;
        } else if (time_s - offset_s <= recorded->time_s[row - 1]) {
            return aw_fail_at(diag, AW_ERR_FORMAT, lines->name, lines->line, 0, "time_s",
                              "expected a time after %g, found %g",
                              recorded->time_s[row - 1] + offset_s, time_s);
        }
        recorded->time_s[row] = time_s - offset_s;
        recorded->rate[row++] = fmax(mbps, AW_BANDWIDTH_MBPS_MIN) * 1e6 / AW_PACKET_BITS;
        run->trace.count++;
    }
    if (!err && !run)
        return aw_fail_at(diag, AW_ERR_NODATA, lines->name, lines->line, 0, "run_id",
                          "expected rows below the header, found none");
    return err ? err : run_end(run, recorded->served + served, lines, diag);
}

static void text_copy(const struct lines *lines, uint32_t at, char *out, size_t size)
{
    if (at < lines->count)
        snprintf(out, size, "%s", lines->cell[at]);
}

static struct aw_recorded_run *run_find(const struct aw_recorded *recorded, uint64_t id,
                                        uint32_t hint)
{
    for (uint32_t i = 0; i < recorded->count; i++) {
        struct aw_recorded_run *run = &recorded->run[(hint + i) % recorded->count];
        if (run->id == id)
            return run;
    }
    return NULL;
}

static enum aw_err runs_parse(struct aw_recorded *recorded, struct lines *lines,
                              struct aw_diag *diag)
{
    uint32_t c_run, hint = 0;
    if (!lines_next(lines))
        return AW_OK;
    enum aw_err err = need(lines, "run_id", &c_run, diag);
    const uint32_t c_delay = column(lines, "delay_ms"), c_kind = column(lines, "kind");
    const uint32_t c_site = column(lines, "site"), c_path = column(lines, "path");
    const uint32_t c_scheme = column(lines, "scheme");
    while (!err && lines_next(lines)) {
        uint64_t id;
        double delay_ms = AW_RECORDED_DELAY_S * 1e3;
        err = whole(lines, c_run, "run_id", &id, diag);
        if (!err && c_delay != UINT32_MAX)
            err = real(lines, c_delay, "delay_ms", 0.01, 1e5, &delay_ms, diag);
        struct aw_recorded_run *run = err ? NULL : run_find(recorded, id, hint);
        if (!run)
            continue; /* the table may describe more runs than the file has traces of */
        hint = (uint32_t)(run - recorded->run) + 1;
        run->delay_s = delay_ms * 1e-3;
        text_copy(lines, c_kind, run->kind, sizeof run->kind);
        text_copy(lines, c_site, run->site, sizeof run->site);
        text_copy(lines, c_path, run->path, sizeof run->path);
        text_copy(lines, c_scheme, run->scheme, sizeof run->scheme);
    }
    recorded->described = !err;
    return err;
}

/* The path of the table that goes with `path`, by replacing `from` in its file name with `to`. */
static bool sibling(const char *path, const char *from, const char *to, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *found = strstr(name, from);
    if (!found)
        return false;
    const int len =
        snprintf(out, size, "%.*s%s%s", (int)(found - path), path, to, found + strlen(from));
    return len > 0 && (size_t)len < size;
}

static enum aw_err parse_file(struct aw_recorded *recorded, const char *path, bool traces,
                              struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err =
        aw_packed_read(path, AW_RECORDED_BYTES_MAX, recorded->alloc, &bytes, &len, diag);
    if (err)
        return err;
    struct lines lines = {.name = path, .at = bytes, .end = bytes + len};
    if (traces) {
        err = allocate(recorded, bytes, len, diag);
        if (!err)
            err = traces_parse(recorded, &lines, diag);
    } else {
        err = runs_parse(recorded, &lines, diag);
    }
    aw_alloc_free(recorded->alloc, bytes);
    return err;
}

enum aw_err aw_recorded_read(const char *path, const struct aw_alloc *alloc,
                             struct aw_recorded *ret, struct aw_diag *diag)
{
    char other[PATH_LEN];
    struct aw_recorded recorded = {.alloc = alloc};
    const char *runs = NULL, *traces = path;
    if (sibling(path, "runs", "traces", other, sizeof other)) {
        runs = path;
        traces = other;
    } else if (sibling(path, "traces", "runs", other, sizeof other)) {
        runs = other;
    }
    *ret = (struct aw_recorded){0};
    enum aw_err err = parse_file(&recorded, traces, true, diag);
    if (!err && runs) {
        err = parse_file(&recorded, runs, false, diag);
        if (err == AW_ERR_NOTFOUND && runs == other)
            err = AW_OK;
    }
    if (err) {
        aw_recorded_deinit(&recorded);
        return err;
    }
    *ret = recorded;
    return AW_OK;
}

void aw_recorded_deinit(struct aw_recorded *recorded)
{
    aw_alloc_free(recorded->alloc, recorded->run);
    aw_alloc_free(recorded->alloc, recorded->time_s);
    aw_alloc_free(recorded->alloc, recorded->rate);
    aw_alloc_free(recorded->alloc, recorded->served);
    *recorded = (struct aw_recorded){0};
}

void aw_recorded_link(const struct aw_recorded_run *run, double queue_bdp, double loss,
                      struct aw_link *ret_link)
{
    const double bdp = aw_bandwidth_mean(&run->trace) * 2 * run->delay_s;
    *ret_link = (struct aw_link){.rate = aw_bandwidth_mean(&run->trace),
                                 .delay_s = run->delay_s,
                                 .loss = loss,
                                 .queue = fmax(10, floor(queue_bdp * bdp)),
                                 .trace = &run->trace};
}
