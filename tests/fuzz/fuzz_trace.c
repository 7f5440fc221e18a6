/*
 * fuzz_trace.c - any bytes as a trace: refused in one line, or a sound load.
 *
 * Findings fit on a line and lie inside the file; a function that is listed can be read, and its
 * load has the figures of the list.
 */
#include "fuzz.h"

#include "workload/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX  (256u << 10)
#define FUNCTIONS_TRIED 3u

static void check_report(const struct aw_trace_report *report)
{
    AW_ASSERT(report->bad_count <= report->row_count);
    AW_ASSERT(report->finding_count <= AW_TRACE_FINDINGS_MAX);
    AW_ASSERT(report->finding_count <= report->bad_count);
    for (uint32_t i = 0; i < report->finding_count; i++) {
        AW_ASSERT(report->finding[i].line >= 1 && report->finding[i].column >= 1);
        for (const char *at = report->finding[i].text; *at; at++)
            AW_ASSERT((unsigned char)*at >= 0x20 && *at != 0x7f);
    }
}

static void check_load(const struct aw_load *load)
{
    AW_ASSERT(load->slot_count >= 1 && load->slot_count <= AW_LOAD_SLOTS_MAX);
    AW_ASSERT(load->slot_us > 0);
    for (uint32_t i = 0; i < load->slot_count; i++)
        AW_ASSERT(isfinite(load->rate_per_s[i]) && load->rate_per_s[i] >= 0);
}

static void check_read(FILE *stream, const struct aw_trace_settings *settings,
                       const struct aw_trace_function *function)
{
    struct aw_trace_report report;
    struct aw_diag diag = {0};
    struct aw_load load = {0};
    enum aw_err err = aw_trace_read_stream(stream, "input", settings, NULL, &load, &report, &diag);
    if (err) {
        check_refusal(&diag, err);
        AW_ASSERT(!load.rate_per_s);
        AW_ASSERT(!function || err == AW_ERR_LIMIT || function->total == 0 ||
                  function->peak_per_s < 1e-30);
        return;
    }
    check_report(&report);
    check_load(&load);
    if (function) {
        double mean = aw_load_figures(&load).mean_per_s;
        AW_ASSERT(fabs(mean - function->mean_per_s) <= 1e-4 * function->mean_per_s + 1e-30);
    }
    aw_load_deinit(&load);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[TEXT_BYTES_MAX];
    struct aw_trace_settings settings;
    struct aw_trace_report report = {0};
    struct aw_trace_list list = {0};
    struct aw_diag diag = {0};
    size = size < sizeof text ? size : sizeof text;
    if (size == 0)
        return 0; /* fmemopen refuses it */
    memcpy(text, data, size);
    FILE *stream = fmemopen(text, size, "r");
    AW_ASSERT(stream);
    aw_conf_defaults(aw_trace_fields, &settings);
    for (settings.format = 0; settings.format <= AW_TRACE_TIMESTAMPS; settings.format++)
        check_read(stream, &settings, NULL);
    settings.format = AW_TRACE_AUTO;
    enum aw_err err = aw_trace_list_stream(stream, "input", &settings, NULL, &list, &report, &diag);
    if (err)
        check_refusal(&diag, err);
    bool many = report.format == AW_TRACE_AZURE_2019 || report.format == AW_TRACE_AZURE_2021;
    for (uint32_t i = 0; many && i < list.count && i < FUNCTIONS_TRIED; i++) {
        settings.row = list.function[i].row;
        check_read(stream, &settings, &list.function[i]);
    }
    aw_trace_list_deinit(&list);
    fclose(stream);
    return 0;
}
