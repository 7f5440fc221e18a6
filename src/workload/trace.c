/* trace.c - telling formats apart, rows and cells, choosing a function, and the load in the end. */
#include "workload/trace_internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define CHUNK_BYTES   65536u
#define SLOT_US_MIN   1000 /* after compression */
#define GROW_FIRST    1024u
#define SECONDS_A_DAY 86400.0

static const char *const format_names[] = {"auto",  "azure-2019", "azure-2021",
                                           "rates", "timestamps", NULL};
static const char *const unit_names[] = {"count", "rate", NULL};

#define AW_CONF_OF struct aw_trace_settings
const struct aw_conf_field aw_trace_fields[] = {
    AW_CONF_ONE_OF(format, "auto", format_names, "what the file is; auto looks at its first line"),
    AW_CONF_NUMBER(row, "0", 0, AW_TRACE_FUNCTIONS_MAX,
                   "take this function, counted from 1; 0: not chosen so"),
    AW_CONF_NUMBER(top, "0", 0, AW_TRACE_FUNCTIONS_MAX,
                   "take the so-manieth busiest function; 0: not chosen so"),
    AW_CONF_PLAIN(
        func, "",
        "take the function whose hash begins so; without row, top and func all are summed"),
    AW_CONF_PLAIN(column, "", "name of the column of values, for timestamps; empty: the second"),
    AW_CONF_ONE_OF(unit, "count", unit_names,
                   "of values with timestamps: requests in the interval, or requests per second"),
    AW_CONF_NUMBER_AS(
        "slot", slot_s, "0", 0, 86400,
        "seconds that a line or a row covers, or in which invocations are counted; 0: 1 for rates, "
        "the usual distance of timestamps, 60 for invocations"),
    AW_CONF_NUMBER_AS("start", start_s, "0", 0, 1e9, "begin so many seconds into the file"),
    AW_CONF_NUMBER_AS("length", length_s, "0", 0, 1e9, "take so many seconds of the file; 0: all"),
    AW_CONF_NUMBER(compress, "1", 0.001, 1e6, "time runs so many times faster; rates stay"),
    AW_CONF_NUMBER_AS("mean", mean_per_s, "0", 0, 1e6,
                      "rescale to this mean, requests per second; 0: as is"),
    AW_CONF_NUMBER_AS("peak", peak_per_s, "0", 0, 1e6,
                      "rescale to this highest rate instead; 0: as is"),
    {0},
};

/* ---- findings ---- */

void aw__trace_bad(struct aw__trace *trace, uint32_t column, const char *fmt, ...)
{
    struct aw_trace_report *report = trace->report;
    report->bad_count++;
    if (report->finding_count == AW_TRACE_FINDINGS_MAX)
        return;
    struct aw_trace_finding *finding = &report->finding[report->finding_count++];
    va_list args;
    va_start(args, fmt);
    *finding = (struct aw_trace_finding){.line = trace->line_number, .column = column};
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
}

enum aw_err aw_trace_judge(const struct aw_trace_report *report, const char *path,
                           struct aw_diag *diag)
{
    if (report->bad_count * 2 <= report->row_count)
        return AW_OK;
    const struct aw_trace_finding *first = &report->finding[0];
    return aw_fail_at(diag, AW_ERR_FORMAT, path, first->line, first->column, NULL,
                      "%s (the first of %llu bad rows of %llu)", first->text,
                      (unsigned long long)report->bad_count, (unsigned long long)report->row_count);
}

/* ---- lines and cells ---- */

/* One line without its end into trace->line. Returns its length, or -1 at the end of the file;
 * `*ret_cut` says that it was longer than a line may be. */
static long line_read(struct aw__trace *trace, bool *ret_cut)
{
    size_t len = 0;
    bool any = false;
    *ret_cut = false;
    for (;;) {
        if (trace->chunk_at == trace->chunk_len) {
            trace->chunk_at = 0;
            trace->chunk_len = fread(trace->chunk, 1, CHUNK_BYTES, trace->stream);
            if (trace->chunk_len == 0)
                break;
        }
        any = true;
        const char *from = trace->chunk + trace->chunk_at;
        size_t left = trace->chunk_len - trace->chunk_at;
        const char *newline = memchr(from, '\n', left);
        size_t part = newline ? (size_t)(newline - from) : left;
        size_t room = AW_TRACE_LINE_BYTES_MAX - len;
        memcpy(trace->line + len, from, part < room ? part : room);
        len += part < room ? part : room;
        *ret_cut |= part > room;
        trace->chunk_at += part + (newline ? 1 : 0);
        if (newline)
            break;
    }
    if (!any)
        return -1;
    trace->line_number++;
    if (len && trace->line[len - 1] == '\r')
        len--;
    trace->line[len] = '\0';
    return (long)len;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cuts the line at its commas, in place. False: more cells than a row may have. */
static bool line_cut(struct aw__trace *trace, size_t len)
{
    char *at = trace->line, *end = trace->line + len;
    trace->cell_count = 0;
    for (;;) {
        while (at < end && is_blank(*at))
            at++;
        char *begin = at, *stop;
        if (at < end && *at == '"') { /* as far as the closing quote, or the end */
            begin = ++at;
            while (at < end && *at != '"')
                at++;
            stop = at;
            while (at < end && *at != ',')
                at++;
        } else {
            while (at < end && *at != ',')
                at++;
            stop = at;
            while (stop > begin && is_blank(stop[-1]))
                stop--;
        }
        if (trace->cell_count == AW_TRACE_COLUMNS_MAX)
            return false;
        trace->cell[trace->cell_count++] =
            (struct aw__cell){.text = begin, .column = (uint32_t)(begin - trace->line) + 1};
        bool more = at < end;
        *stop = '\0';
        if (!more)
            return true;
        at++;
    }
}

/* Offset of the first byte that is no text: it might reach a terminal or a JSON document. */
static size_t text_bad(const char *bytes, size_t len)
{
    size_t bad = aw_text_utf8_bad(bytes, len);
    for (size_t i = 0; i < bad; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return i;
    }
    return bad;
}

void aw__trace_name(char *buf, size_t size, const char *text)
{
    snprintf(buf, size, "%s", text);
    buf[aw_text_utf8_bad(buf, strlen(buf))] = '\0'; /* not half a character */
}

bool aw__trace_next(struct aw__trace *trace)
{
    bool cut;
    long len;
    if (trace->buffered) {
        trace->buffered = false;
        return true;
    }
    while ((len = line_read(trace, &cut)) >= 0) {
        size_t begin = 0;
        if (trace->line_number == 1 && !memcmp(trace->line, "\xef\xbb\xbf", 3))
            memset(trace->line, ' ', 3); /* a byte order mark; columns still count */
        while (is_blank(trace->line[begin]))
            begin++;
        if (!cut && (begin == (size_t)len || trace->line[begin] == '#'))
            continue;
        size_t bad = text_bad(trace->line, (size_t)len);
        if (!cut && bad == (size_t)len && line_cut(trace, (size_t)len))
            return true;
        trace->report->row_count++;
        if (cut)
            aw__trace_bad(trace, 1, "expected a line of at most %u bytes", AW_TRACE_LINE_BYTES_MAX);
        else if (bad < (size_t)len)
            aw__trace_bad(trace, (uint32_t)bad + 1, "expected text, found the byte \\x%02x",
                          (unsigned char)trace->line[bad]);
        else
            aw__trace_bad(trace, 1, "expected at most %u columns", AW_TRACE_COLUMNS_MAX);
    }
    return false;
}

bool aw__trace_amount(struct aw__trace *trace, const struct aw__cell *cell, const char *expected,
                      double *ret)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    uint32_t whole = 0, digits = 0;
    double value = 0;
    /* Counts are most of every file, and nearly all of them are short. */
    for (; cell->text[digits] >= '0' && cell->text[digits] <= '9' && digits < 9; digits++)
        whole = whole * 10 + (uint32_t)(cell->text[digits] - '0');
    if (digits && !cell->text[digits]) {
        *ret = whole;
        return true;
    }
    if (aw_text_parse_real(cell->text, &value) == AW_OK && value >= 0 && value <= 1e15) {
        *ret = value;
        return true;
    }
    aw__trace_bad(trace, cell->column, "expected %s, found %s", expected,
                  aw_text_quote(cell->text, strlen(cell->text), quoted, sizeof quoted));
    return false;
}

enum aw_err aw__trace_grow(struct aw__trace *trace, void **block, uint32_t count,
                           uint32_t *capacity, uint32_t count_max, size_t size, const char *what,
                           struct aw_diag *diag)
{
    if (count < *capacity)
        return AW_OK;
    if (count >= count_max)
        return aw_fail_at(diag, AW_ERR_LIMIT, trace->name, trace->line_number, 0, NULL,
                          "more than %u %s", count_max, what);
    uint32_t wanted = *capacity ? *capacity * 2 : GROW_FIRST;
    wanted = wanted < count_max ? wanted : count_max;
    void *larger = aw_alloc_new(trace->alloc, wanted, size);
    if (!larger)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u %s", wanted, what);
    if (count)
        memcpy(larger, *block, count * size);
    aw_alloc_free(trace->alloc, *block);
    *block = larger;
    *capacity = wanted;
    return AW_OK;
}

/* ---- which format ---- */

static bool row_has(const struct aw__trace *trace, const char *name)
{
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        if (!strcasecmp(trace->cell[i].text, name))
            return true;
    }
    return false;
}

static uint32_t sniff(const struct aw__trace *trace)
{
    double number;
    if (row_has(trace, "HashFunction"))
        return AW_TRACE_AZURE_2019;
    if (row_has(trace, "end_timestamp"))
        return AW_TRACE_AZURE_2021;
    if (trace->cell_count == 1)
        return aw_text_parse_real(trace->cell[0].text, &number) ? AW_TRACE_AUTO : AW_TRACE_RATES;
    if (row_has(trace, "timestamp") || row_has(trace, "time") || row_has(trace, "date"))
        return AW_TRACE_TIMESTAMPS;
    /* no header: a time begins with a digit, and the value is a number */
    if (trace->cell[0].text[0] >= '0' && trace->cell[0].text[0] <= '9' &&
        !aw_text_parse_real(trace->cell[1].text, &number))
        return AW_TRACE_TIMESTAMPS;
    return AW_TRACE_AUTO;
}

static enum aw_err settings_check(const struct aw_trace_settings *s, struct aw_diag *diag)
{
    if ((s->row > 0) + (s->top > 0) + (s->func[0] != '\0') > 1)
        return aw_fail(diag, AW_ERR_CONFIG, "row, top and func each choose a function: give one");
    if (s->mean_per_s > 0 && s->peak_per_s > 0)
        return aw_fail(diag, AW_ERR_CONFIG, "mean and peak both rescale the load: give one");
    return AW_OK;
}

/* Settings that only some formats have: one that would be ignored is refused. */
static enum aw_err settings_fit(const struct aw_trace_settings *s, uint32_t format,
                                struct aw_diag *diag)
{
    const char *name = format_names[format];
    bool many = format == AW_TRACE_AZURE_2019 || format == AW_TRACE_AZURE_2021;
    if (!many && (s->row || s->top || s->func[0]))
        return aw_fail(diag, AW_ERR_CONFIG, "a file of format %s has no functions to choose from",
                       name);
    if (format != AW_TRACE_TIMESTAMPS && (s->column[0] || s->unit != AW_TRACE_COUNT))
        return aw_fail(diag, AW_ERR_CONFIG, "column and unit are for timestamps, not for %s", name);
    if (format == AW_TRACE_AZURE_2019 && s->slot_s > 0)
        return aw_fail(diag, AW_ERR_CONFIG, "a column of %s is a minute: slot cannot be set", name);
    return AW_OK;
}

static const struct aw__trace_format_ops *ops_of(uint32_t format)
{
    switch ((enum aw_trace_format)format) {
    case AW_TRACE_AZURE_2019:
        return &aw__trace_azure_2019;
    case AW_TRACE_AZURE_2021:
        return &aw__trace_azure_2021;
    case AW_TRACE_RATES:
    case AW_TRACE_TIMESTAMPS:
        return &aw__trace_series;
    case AW_TRACE_AUTO:
        break;
    }
    return NULL;
}

static enum aw_err nothing_read(const struct aw__trace *trace, struct aw_diag *diag)
{
    const struct aw_trace_finding *first = &trace->report->finding[0];
    if (trace->report->finding_count)
        return aw_fail_at(diag, AW_ERR_NODATA, trace->name, first->line, first->column, NULL,
                          "no row could be read; %s", first->text);
    return aw_fail_at(diag, AW_ERR_NODATA, trace->name, 0, 0, NULL, "the trace is empty");
}

/* Opens a pass over the stream: its first row is read and its format known. */
static enum aw_err pass_begin(struct aw__trace *trace, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    uint32_t format = trace->settings->format;
    *trace->report = (struct aw_trace_report){0};
    trace->line_number = 0;
    trace->chunk_at = trace->chunk_len = 0;
    trace->buffered = false;
    if (fseek(trace->stream, 0, SEEK_SET))
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, trace->name, 0, 0, NULL,
                          "a trace is read from a file, not from a pipe");
    if (!aw__trace_next(trace))
        return ferror(trace->stream)
                   ? aw_fail_at(diag, AW_ERR_IO, trace->name, 0, 0, NULL, "%s", strerror(errno))
                   : nothing_read(trace, diag);
    trace->buffered = true;
    if (format == AW_TRACE_AUTO && (format = sniff(trace)) == AW_TRACE_AUTO)
        return aw_fail_at(
            diag, AW_ERR_FORMAT, trace->name, trace->line_number, 1, NULL,
            "expected a header with HashFunction or end_timestamp, a number, or a "
            "time and a number, found %s",
            aw_text_quote(trace->cell[0].text, strlen(trace->cell[0].text), quoted, sizeof quoted));
    trace->report->format = format;
    return settings_fit(trace->settings, format, diag);
}

static enum aw_err trace_init(struct aw__trace *trace, FILE *stream, const char *name,
                              const struct aw_trace_settings *settings,
                              const struct aw_alloc *alloc, struct aw_trace_report *report,
                              struct aw_diag *diag)
{
    struct aw_carve size = {0};
    *trace = (struct aw__trace){
        .stream = stream, .name = name, .settings = settings, .alloc = alloc, .report = report};
    aw_carve_take(&size, AW_TRACE_COLUMNS_MAX, sizeof *trace->cell);
    aw_carve_take(&size, AW_TRACE_LINE_BYTES_MAX + 4, 1);
    aw_carve_take(&size, CHUNK_BYTES, 1);
    struct aw_carve carve = {.base = aw_alloc_new(alloc, 1, size.used)};
    if (!carve.base)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to read %s", name);
    trace->cell = aw_carve_take(&carve, AW_TRACE_COLUMNS_MAX, sizeof *trace->cell);
    trace->line = aw_carve_take(&carve, AW_TRACE_LINE_BYTES_MAX + 4, 1);
    trace->chunk = aw_carve_take(&carve, CHUNK_BYTES, 1);
    return settings_check(settings, diag);
}

static void trace_deinit(struct aw__trace *trace)
{
    aw_alloc_free(trace->alloc, trace->cell); /* the head of the one block */
}

/* ---- functions ---- */

void aw__trace_function_set(struct aw_trace_function *function, double total, double squares,
                            double peak, double slots, double slot_s)
{
    double mean = total / slots;
    function->total = total;
    function->mean_per_s = mean / slot_s;
    function->per_day = total / (slots * slot_s) * SECONDS_A_DAY;
    function->peak_per_s = peak / slot_s;
    function->burstiness = mean > 0 ? sqrt(fmax(0, squares / slots - mean * mean)) / mean : 0;
}

enum aw_err aw__trace_no_function(const struct aw__trace *trace, uint32_t matches,
                                  struct aw_diag *diag)
{
    const struct aw_trace_settings *s = trace->settings;
    char quoted[AW_TEXT_QUOTE_MAX];
    if (!s->func[0])
        return aw_fail_at(diag, AW_ERR_NOTFOUND, trace->name, 0, 0, NULL,
                          "there is no readable function %u among %llu rows", s->row,
                          (unsigned long long)trace->report->row_count);
    aw_text_quote(s->func, strlen(s->func), quoted, sizeof quoted);
    if (matches)
        return aw_fail_at(diag, AW_ERR_CONFIG, trace->name, 0, 0, NULL,
                          "%u functions begin with %s: give more of it, or a row", matches, quoted);
    return aw_fail_at(diag, AW_ERR_NOTFOUND, trace->name, 0, 0, NULL, "no function begins with %s",
                      quoted);
}

static int busier(const void *a, const void *b)
{
    const struct aw_trace_function *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

static enum aw_err list(struct aw__trace *trace, struct aw_trace_list *ret, struct aw_diag *diag)
{
    enum aw_err err = pass_begin(trace, diag);
    *ret = (struct aw_trace_list){.alloc = trace->alloc};
    if (!err)
        err = ops_of(trace->report->format)->list(trace, ret, diag);
    if (!err && ferror(trace->stream))
        err = aw_fail_at(diag, AW_ERR_IO, trace->name, 0, 0, NULL, "%s", strerror(errno));
    if (!err && ret->count == 0)
        err = nothing_read(trace, diag);
    if (err) {
        aw_trace_list_deinit(ret);
        return err;
    }
    qsort(ret->function, ret->count, sizeof *ret->function, busier);
    return AW_OK;
}

void aw_trace_list_deinit(struct aw_trace_list *l)
{
    aw_alloc_free(l->alloc, l->function);
    *l = (struct aw_trace_list){0};
}

/* ---- from counts to a load ---- */

/* The part between start and start + length, faster, rescaled. */
static enum aw_err load_finish(const struct aw__trace *trace, struct aw_load *load,
                               struct aw_diag *diag)
{
    const struct aw_trace_settings *s = trace->settings;
    const double slot_s = (double)load->slot_us / 1e6;
    const double first = floor(s->start_s / slot_s);
    double count = load->slot_count - first;
    if (!(count >= 1))
        return aw_fail_at(diag, AW_ERR_CONFIG, trace->name, 0, 0, NULL,
                          "start is %gs, and the file ends after %gs", s->start_s,
                          slot_s * load->slot_count);
    if (s->length_s > 0)
        count = fmin(count, fmax(1, ceil(s->length_s / slot_s)));
    memmove(load->rate_per_s, load->rate_per_s + (uint32_t)first,
            (uint32_t)count * sizeof *load->rate_per_s);
    load->slot_count = (uint32_t)count;
    load->slot_us = llround((double)load->slot_us / s->compress);
    if (load->slot_us < SLOT_US_MIN)
        return aw_fail_at(diag, AW_ERR_CONFIG, trace->name, 0, 0, NULL,
                          "compress=%g leaves slots shorter than 1 ms", s->compress);
    if (!(aw_load_figures(load).peak_per_s > 0))
        return aw_fail_at(diag, AW_ERR_NODATA, trace->name, 0, 0, NULL,
                          "there is not one request in this part of the trace");
    if (s->mean_per_s > 0)
        aw_load_scale_mean(load, s->mean_per_s);
    if (s->peak_per_s > 0)
        aw_load_scale_peak(load, s->peak_per_s);
    return AW_OK;
}

static enum aw_err read_load(struct aw__trace *trace, struct aw_load *ret, struct aw_diag *diag)
{
    struct aw_load load = {0};
    uint32_t row = 0;
    enum aw_err err;
    if (trace->settings->top) {
        struct aw_trace_list functions;
        if ((err = list(trace, &functions, diag)))
            return err;
        if (trace->settings->top > functions.count)
            err = aw_fail_at(diag, AW_ERR_NOTFOUND, trace->name, 0, 0, NULL,
                             "top is %u, and there are %u functions", trace->settings->top,
                             functions.count);
        else
            row = functions.function[trace->settings->top - 1].row;
        aw_trace_list_deinit(&functions);
        if (err)
            return err;
    }
    if ((err = pass_begin(trace, diag)) ||
        (err = ops_of(trace->report->format)->read(trace, row, &load, diag)))
        goto out;
    if (ferror(trace->stream))
        err = aw_fail_at(diag, AW_ERR_IO, trace->name, 0, 0, NULL, "%s", strerror(errno));
    else if (!load.rate_per_s)
        err = nothing_read(trace, diag);
    else
        err = load_finish(trace, &load, diag);
out:
    if (err)
        aw_load_deinit(&load);
    else
        *ret = load;
    return err;
}

/* ---- many at once ---- */

enum aw_err aw__trace_read_each(struct aw__trace *trace, const struct aw_trace_function *functions,
                                uint32_t count, struct aw_load *loads, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < count; i++) {
        err = i ? pass_begin(trace, diag) : AW_OK;
        err = err ? err
                  : ops_of(trace->report->format)->read(trace, functions[i].row, &loads[i], diag);
    }
    return err;
}

/* One load, where the settings choose it or there is nothing to choose from. */
static enum aw_err pack_one(struct aw__trace *trace, struct aw_trace_pack *pack,
                            struct aw_diag *diag)
{
    if (!(pack->load = aw_alloc_new(trace->alloc, 1, sizeof *pack->load)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a load");
    pack->count = 1;
    return read_load(trace, &pack->load[0], diag);
}

static enum aw_err pack_many(struct aw__trace *trace, uint32_t max, struct aw_trace_pack *pack,
                             struct aw_diag *diag)
{
    struct aw_trace_list functions;
    enum aw_err err = list(trace, &functions, diag);
    if (err)
        return err;
    uint32_t count = functions.count < max ? functions.count : max;
    while (count > 1 && !(functions.function[count - 1].total > 0))
        count--;
    if (!(pack->load = aw_alloc_new(trace->alloc, count, sizeof *pack->load)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u loads", count);
    else
        pack->count = count;
    err = err ? err : pass_begin(trace, diag);
    err = err ? err
              : ops_of(trace->report->format)
                    ->read_many(trace, functions.function, count, pack->load, diag);
    for (uint32_t i = 0; !err && i < count; i++)
        err = load_finish(trace, &pack->load[i], diag);
    aw_trace_list_deinit(&functions);
    return err;
}

enum aw_err aw_trace_pack_stream(FILE *stream, const char *name,
                                 const struct aw_trace_settings *settings, uint32_t max,
                                 const struct aw_alloc *alloc, struct aw_trace_pack *ret_pack,
                                 struct aw_trace_report *report, struct aw_diag *diag)
{
    struct aw_trace_report own;
    struct aw_trace_pack pack = {.alloc = alloc};
    struct aw__trace trace;
    const bool chosen = settings->row || settings->top || settings->func[0];
    enum aw_err err =
        trace_init(&trace, stream, name, settings, alloc, report ? report : &own, diag);
    err = err ? err : pass_begin(&trace, diag);
    if (!err) {
        const uint32_t format = trace.report->format;
        const bool many = format == AW_TRACE_AZURE_2019 || format == AW_TRACE_AZURE_2021;
        err = many && !chosen ? pack_many(&trace, max, &pack, diag) : pack_one(&trace, &pack, diag);
    }
    if (err)
        aw_trace_pack_deinit(&pack);
    else
        *ret_pack = pack;
    trace_deinit(&trace);
    return err;
}

void aw_trace_pack_deinit(struct aw_trace_pack *pack)
{
    for (uint32_t i = 0; i < pack->count; i++)
        aw_load_deinit(&pack->load[i]);
    aw_alloc_free(pack->alloc, pack->load);
    *pack = (struct aw_trace_pack){0};
}

/* ---- entry points ---- */

enum aw_err aw_trace_read_stream(FILE *stream, const char *name,
                                 const struct aw_trace_settings *settings,
                                 const struct aw_alloc *alloc, struct aw_load *ret_load,
                                 struct aw_trace_report *report, struct aw_diag *diag)
{
    struct aw_trace_report own;
    struct aw__trace trace;
    enum aw_err err =
        trace_init(&trace, stream, name, settings, alloc, report ? report : &own, diag);
    if (!err)
        err = read_load(&trace, ret_load, diag);
    trace_deinit(&trace);
    return err;
}

enum aw_err aw_trace_list_stream(FILE *stream, const char *name,
                                 const struct aw_trace_settings *settings,
                                 const struct aw_alloc *alloc, struct aw_trace_list *ret_list,
                                 struct aw_trace_report *report, struct aw_diag *diag)
{
    struct aw_trace_report own;
    struct aw_trace_list made;
    struct aw__trace trace;
    enum aw_err err =
        trace_init(&trace, stream, name, settings, alloc, report ? report : &own, diag);
    if (!err && !(err = list(&trace, &made, diag)))
        *ret_list = made;
    trace_deinit(&trace);
    return err;
}

static enum aw_err trace_open(const char *path, FILE **ret, struct aw_diag *diag)
{
    struct stat info;
    int fd = -1;
    const enum aw_err err = aw_file_open(path, AW_FILE_WAIT_MS, &fd, diag);
    if (err)
        return err;
    FILE *stream = fdopen(fd, "r");
    if (!stream) {
        close(fd);
        return aw_fail_at(diag, AW_ERR_NOMEM, path, 0, 0, NULL, "out of memory");
    }
    if (!fstat(fileno(stream), &info) && S_ISDIR(info.st_mode)) {
        fclose(stream);
        return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL, "is a directory");
    }
    *ret = stream;
    return AW_OK;
}

enum aw_err aw_trace_read(const char *path, const struct aw_trace_settings *settings,
                          const struct aw_alloc *alloc, struct aw_load *ret_load,
                          struct aw_trace_report *report, struct aw_diag *diag)
{
    FILE *stream = NULL;
    enum aw_err err = trace_open(path, &stream, diag);
    if (err)
        return err;
    err = aw_trace_read_stream(stream, path, settings, alloc, ret_load, report, diag);
    fclose(stream);
    return err;
}

enum aw_err aw_trace_list(const char *path, const struct aw_trace_settings *settings,
                          const struct aw_alloc *alloc, struct aw_trace_list *ret_list,
                          struct aw_trace_report *report, struct aw_diag *diag)
{
    FILE *stream = NULL;
    enum aw_err err = trace_open(path, &stream, diag);
    if (err)
        return err;
    err = aw_trace_list_stream(stream, path, settings, alloc, ret_list, report, diag);
    fclose(stream);
    return err;
}

enum aw_err aw_trace_pack(const char *path, const struct aw_trace_settings *settings, uint32_t max,
                          const struct aw_alloc *alloc, struct aw_trace_pack *ret_pack,
                          struct aw_trace_report *report, struct aw_diag *diag)
{
    FILE *stream = NULL;
    enum aw_err err = trace_open(path, &stream, diag);
    if (err)
        return err;
    err = aw_trace_pack_stream(stream, path, settings, max, alloc, ret_pack, report, diag);
    fclose(stream);
    return err;
}
