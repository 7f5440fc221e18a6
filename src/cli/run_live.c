/*
 * run_live.c - a run as it goes, on a terminal: time, a table of workloads, the last events.
 *
 * One thread steps the job and tells what it saw; another draws, so that the table stays alive
 * while the job learns. Lines never wrap when they are drawn; when the terminal has since become
 * narrower, what they wrap to now is counted, so that going up again finds their place.
 */
#include "cli/run.h"

#include "base/clock.h"
#include "base/quantity.h"
#include "frame/layout.h"
#include "frame/progress.h"
#include "frame/show.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINES_MAX     256u
#define LINE_MAX_     1024u /* bytes of a line with its colours */
#define EVENTS_SHOWN  6u
#define BAR_CELLS     30u
#define SLO_CELLS     8u
#define SLO_BAR_FULL  1.25   /* times the SLO: where its bar is full */
#define LEARNING_US   250000 /* a step that takes longer is learning */
#define RATE_SECONDS  3.0    /* time constant of the smoothed speed */
#define EVEN          0.005  /* a ratio nearer to 1 is neither good nor bad */
#define EVENT_FRESH_S 2.0    /* real seconds for which an event is bright */

enum ink { PLAIN, QUIET, GOOD, FAIR, BAD, BOLD, COOL, INKS };
static const char *const inks[INKS] = {"",           "\033[2m", "\033[32m", "\033[33m",
                                       "\033[1;31m", "\033[1m", "\033[36m"};

/* The columns, and which goes first when there is no room: the highest number. */
enum column {
    NAME,
    STAGE,
    ACTS,
    REPLICAS,
    SIZES, /* a column for each */
    USED = SIZES + AW_RESOURCES - AW_SIZE_FIRST,
    LATENCY,
    COST,
    REWARD,
    MISSED,
    COLUMNS
};
#define SIZE(resource) (SIZES + (resource)-AW_SIZE_FIRST)
static const struct {
    const char *head, *head_alone; /* alone: without a twin */
    int dropped;
} columns[COLUMNS] = {
    [NAME] = {"WORKLOAD", "WORKLOAD", 0},
    [STAGE] = {"STAGE", "STAGE", 1},
    [ACTS] = {"ACTS", "ACTS", 6},
    [REPLICAS] = {"REPLICAS", "REPLICAS", 2},
#define X(id, ...) \
    [SIZE(AW_RESOURCE_##id)] = {#id, #id, AW_RESOURCE_##id == AW_RESOURCE_CPU ? 7 : 8},
    AW_SIZE_MAP(X)
#undef X
        [USED] = {"CPU MEM USED", "CPU MEM USED", 9},
    [LATENCY] = {"LATENCY / SLO", "LATENCY / SLO", 5},
    [COST] = {"COST last all", "COST", 3},
    [REWARD] = {"REWARD", "REWARD", 10},
    [MISSED] = {"MISSED / TWIN", "MISSED", 4},
};

struct cell {
    char text[96]; /* may hold colours of its own */
    unsigned width;
    enum ink ink;
};

struct aw__runlive {
    const struct aw_daemon_config *ask;
    FILE *out;
    bool color, utf8;
    int64_t begin_us;

    pthread_mutex_t lock;   /* of what is told */
    struct aw__runrow *row; /* [ask->count] */
    uint64_t steps;
    int64_t told_us;
    uint32_t event_count;
    struct aw_history_event event[EVENTS_SHOWN]; /* the last first */
    int64_t event_us[EVENTS_SHOWN];              /* real, when it was told */
    uint64_t events_seen;

    /* of who draws */
    int64_t drawn_us, rate_us;
    uint64_t rate_steps;
    double rate; /* steps per second; 0: not known yet */
    unsigned width[COLUMNS];
    unsigned line_width[LINES_MAX];
    uint32_t lines;
    struct aw__runrow *drawn; /* [ask->count] copies */
};

static bool is_utf8(void)
{
    const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

enum aw_err aw__runlive_new(const struct aw_daemon_config *ask, FILE *out, bool wanted, bool color,
                            uint64_t steps_before, struct aw__runlive **ret)
{
    const char *term = getenv("TERM");
    *ret = NULL;
    if (!wanted || !isatty(fileno(out)) || !term || !strcmp(term, "dumb"))
        return AW_OK;
    struct aw__runlive *live = aw_alloc_new(NULL, 1, sizeof *live);
    struct aw__runrow *rows = aw_alloc_new(NULL, 2 * (size_t)ask->count, sizeof *rows);
    if (!live || !rows) {
        aw_alloc_free(NULL, rows);
        aw_alloc_free(NULL, live);
        return AW_ERR_NOMEM;
    }
    live->ask = ask;
    live->out = out;
    live->color = color;
    live->utf8 = is_utf8();
    live->row = rows;
    live->drawn = rows + ask->count;
    live->begin_us = live->rate_us = live->told_us = aw_clock_monotonic_us(NULL);
    live->steps = live->rate_steps = steps_before;
    pthread_mutex_init(&live->lock, NULL);
    fputs("\033[?25l", out); /* no cursor */
    *ret = live;
    return AW_OK;
}

bool aw__runlive_due(const struct aw__runlive *live)
{
    return live && aw_clock_monotonic_us(NULL) - live->told_us >= AW_STATUS_REDRAW_US;
}

void aw__runlive_tell(struct aw__runlive *live, const struct aw__runrow *rows, uint64_t steps,
                      const struct aw_history *history)
{
    const int64_t now = aw_clock_monotonic_us(NULL);
    pthread_mutex_lock(&live->lock);
    memcpy(live->row, rows, live->ask->count * sizeof *rows);
    live->steps = steps;
    live->told_us = now;
    const uint64_t fresh = history->event_count - live->events_seen;
    for (uint32_t i = EVENTS_SHOWN; i-- > 0;) /* those that were there move down */
        live->event_us[i] = i >= fresh ? live->event_us[i - fresh] : now;
    live->event_count = 0;
    for (const struct aw_history_event *event;
         live->event_count < EVENTS_SHOWN &&
         (event = aw_history_event(history, live->event_count));)
        live->event[live->event_count++] = *event;
    live->events_seen = history->event_count;
    pthread_mutex_unlock(&live->lock);
}

/* --- lines ------------------------------------------------------------------------------------ */

struct line {
    struct aw__runlive *live;
    char text[LINE_MAX_];
    size_t len;
    unsigned width, limit; /* columns used, and that there are */
};

static void line_begin(struct line *line, struct aw__runlive *live)
{
    const unsigned all = aw_columns(live->out);
    *line = (struct line){.live = live, .limit = all > 1 ? all - 1 : 1};
}

/* Text of `width` columns; what goes beyond the line is cut at the last space that fits, or where
 * it ends if there is none. */
static void line_put(struct line *line, enum ink ink, const char *text)
{
    const unsigned room = line->limit - line->width;
    const bool color = line->live->color && ink != PLAIN;
    size_t bytes = 0;
    unsigned width = 0;
    while (text[bytes] && width < room) {
        const size_t n = aw_text_utf8_length(text + bytes, strlen(text + bytes));
        bytes += n ? n : 1;
        width++;
    }
    if (text[bytes]) {
        size_t at = bytes;
        while (at > 0 && text[at] != ' ')
            at--;
        for (; at > 0 && bytes > at; bytes--)
            width -= ((unsigned char)text[bytes - 1] & 0xc0u) != 0x80u;
    }
    const int n = snprintf(line->text + line->len, sizeof line->text - line->len, "%s%.*s%s",
                           color ? inks[ink] : "", (int)bytes, text, color ? "\033[0m" : "");
    if (n < 0 || line->len + (size_t)n >= sizeof line->text)
        return;
    line->len += (size_t)n;
    line->width += width;
}

static void line_fmt(struct line *line, enum ink ink, const char *fmt, ...) AW_PRINTF(3, 4);
static void line_fmt(struct line *line, enum ink ink, const char *fmt, ...)
{
    char text[LINE_MAX_ / 2];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    line_put(line, ink, text);
}

static void line_pad(struct line *line, unsigned count)
{
    for (; count > 0; count--)
        line_put(line, PLAIN, " ");
}

static void line_end(struct line *line)
{
    struct aw__runlive *live = line->live;
    if (live->lines == LINES_MAX)
        return;
    fprintf(live->out, "%.*s\033[K\n", (int)line->len, line->text);
    live->line_width[live->lines++] = line->width;
}

/* Up to where the first line was drawn, however the terminal has wrapped it since. */
static void go_up(struct aw__runlive *live)
{
    const unsigned all = aw_columns(live->out);
    unsigned up = 0;
    for (uint32_t i = 0; i < live->lines; i++)
        up += live->line_width[i] > all ? (live->line_width[i] + all - 1) / all : 1;
    if (up > 0)
        fprintf(live->out, "\r\033[%uA", up);
    live->lines = 0;
}

static unsigned terminal_rows(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
        return size.ws_row;
    return 24;
}

static void bar_fill(const struct aw__runlive *live, char *buf, size_t size, double share,
                     unsigned cells)
{
    struct aw_text text;
    const unsigned full = (unsigned)(fmin(1, fmax(0, share)) * cells + 0.5);
    aw_text_init(&text, buf, size);
    for (unsigned i = 0; i < cells; i++)
        aw_text_add(&text, "%s", i < full ? (live->utf8 ? "█" : "#") : (live->utf8 ? "░" : "."));
}

/* --- the table -------------------------------------------------------------------------------- */

static unsigned width_of(const char *text)
{
    unsigned width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0u) != 0x80u;
    return width;
}

static void cell_put(struct cell *cell, enum ink ink, const char *fmt, ...) AW_PRINTF(3, 4);
static void cell_put(struct cell *cell, enum ink ink, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(cell->text, sizeof cell->text, fmt, args);
    va_end(args);
    cell->width = width_of(cell->text);
    cell->ink = ink;
}

static enum ink ratio_ink(double ratio)
{
    return isnan(ratio) ? QUIET : ratio < 1 - EVEN ? GOOD : ratio <= 1 + EVEN ? PLAIN : FAIR;
}

static void latency_cell(const struct aw__runlive *live, const struct aw__runrow *row,
                         struct cell *cell)
{
    char bar[SLO_CELLS * 3 + 1], text[AW_QUANTITY_TEXT_MAX];
    if (!(row->slo_us > 0) || !isfinite(row->latency_us)) {
        cell_put(cell, QUIET, "%s",
                 isfinite(row->latency_us) && row->latency_us > 0
                     ? aw_duration_round((int64_t)row->latency_us, text, sizeof text)
                     : "-");
        return;
    }
    const double ratio = row->latency_us / row->slo_us;
    bar_fill(live, bar, sizeof bar, ratio / SLO_BAR_FULL, SLO_CELLS);
    cell_put(cell,
             row->violated ? BAD
             : ratio > 0.9 ? FAIR
                           : PLAIN,
             "%s %4.2f", bar, fmin(ratio, 9.99));
}

static void cost_cell(const struct aw__runlive *live, const struct aw__runrow *row,
                      struct cell *cell)
{
    const double last = aw__run_cost_ratio(row->recent), all = aw__run_cost_ratio(row->total);
    char text[2][16] = {"    -", "    -"};
    if (!live->ask->twin) {
        cell_put(cell, PLAIN, "$%.3f", row->total[AW_JOB_AWARE].cost);
        return;
    }
    if (!isnan(last))
        snprintf(text[0], sizeof text[0], "%4.2fx", last);
    if (!isnan(all))
        snprintf(text[1], sizeof text[1], "%4.2fx", all);
    cell_put(cell, ratio_ink(isnan(last) ? all : last), "%s  %s", text[0], text[1]);
}

static void row_cells(const struct aw__runlive *live, const struct aw__runrow *row,
                      struct cell cells[COLUMNS])
{
    static const enum ink stage_ink[AW_STAGE_COUNT] = {QUIET, FAIR, COOL, GOOD};
    const struct aw_totals *own = &row->total[AW_JOB_AWARE], *twin = &row->total[AW_JOB_TWIN];
    char text[AW_QUANTITY_TEXT_MAX];
    const bool whole = own->steps > 0;
    cell_put(&cells[NAME], BOLD, "%.24s", row->name);
    cell_put(&cells[STAGE], stage_ink[row->stage], "%s", aw_stage_name(row->stage));
    cell_put(&cells[ACTS],
             row->verdict != AW_WATCHDOG_PASS   ? BAD
             : row->actor == AW_ACTOR_FALLBACK  ? QUIET
             : row->actor == AW_ACTOR_EXPLORING ? COOL
                                                : GOOD,
             "%s", aw_actor_name(row->actor));
    cell_put(&cells[REPLICAS], row->ready < row->wanted ? FAIR : PLAIN, "%" PRIu32 "/%" PRIu32,
             row->ready, row->wanted);
    cell_put(&cells[SIZE(AW_RESOURCE_CPU)], PLAIN, "%s",
             aw_quantity_round_cpu(row->cpu_millicores, AW_QUANTITY_MILLI, text, sizeof text));
    cell_put(&cells[SIZE(AW_RESOURCE_MEMORY)], PLAIN, "%s",
             aw_quantity_round_memory(row->memory_bytes, text, sizeof text));
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        cell_put(&cells[SIZE(r)], PLAIN, "%s",
                 aw_show_amount((enum aw_resource)r,
                                row->amount[r] > 0 ? (double)row->amount[r] : NAN, text,
                                sizeof text));
    cell_put(&cells[USED], PLAIN, "%3.0f%% %3.0f%%", 100 * row->cpu_used, 100 * row->memory_used);
    latency_cell(live, row, &cells[LATENCY]);
    cost_cell(live, row, &cells[COST]);
    const double reward = aw__run_reward(&row->recent[AW_JOB_AWARE], row->episode_steps);
    const double gain = reward - aw__run_reward(&row->recent[AW_JOB_TWIN], row->episode_steps);
    if (isnan(reward))
        cell_put(&cells[REWARD], QUIET, "-");
    else if (!live->ask->twin)
        cell_put(&cells[REWARD], PLAIN, "%.0f", reward);
    else
        cell_put(&cells[REWARD],
                 gain > 0.5    ? GOOD
                 : gain < -0.5 ? FAIR
                               : PLAIN,
                 "%.0f (%+.0f)", reward, gain);
    if (!whole)
        cell_put(&cells[MISSED], QUIET, "-");
    else if (!live->ask->twin)
        cell_put(&cells[MISSED], PLAIN, "%" PRIu64, own->violations);
    else
        cell_put(&cells[MISSED],
                 own->violations > twin->violations   ? FAIR
                 : own->violations < twin->violations ? GOOD
                                                      : PLAIN,
                 "%" PRIu64 " / %" PRIu64, own->violations, twin->violations);
}

/* Which columns fit. Widths only grow, so that the table does not tremble. */
static void choose_columns(struct aw__runlive *live, unsigned limit, bool shown[COLUMNS])
{
    unsigned all = 0;
    const uint32_t there = AW_PLAN_COMMON | aw__run_more(live->ask);
    for (int c = 0; c < COLUMNS; c++) {
        const bool size = c >= SIZES && c < USED;
        shown[c] = !size || there >> (c - SIZES + AW_SIZE_FIRST) & 1;
        all += shown[c] ? live->width[c] + 2 : 0;
    }
    for (int turn = COLUMNS; turn > 0 && all > limit + 2; turn--) {
        for (int c = 0; c < COLUMNS; c++) {
            if (columns[c].dropped == turn && shown[c]) {
                shown[c] = false;
                all -= live->width[c] + 2;
            }
        }
    }
}

static void put_cells(struct line *line, const struct aw__runlive *live, const bool shown[COLUMNS],
                      const struct cell cells[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        if (!shown[c])
            continue;
        const bool right = (c >= REPLICAS && c < USED) || c == MISSED || c == REWARD;
        const unsigned pad = live->width[c] > cells[c].width ? live->width[c] - cells[c].width : 0;
        line_pad(line, right ? pad : 0);
        line_put(line, cells[c].ink, cells[c].text);
        line_pad(line, (right ? 0 : pad) + 2);
    }
}

static void grow(struct aw__runlive *live, const struct cell cells[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++)
        live->width[c] = cells[c].width > live->width[c] ? cells[c].width : live->width[c];
}

/* All workloads together, as one row. */
static void row_of_all(const struct aw__runlive *live, struct cell cells[COLUMNS])
{
    struct aw__runrow all = {.name = "all"};
    uint32_t serving = 0;
    double weight = 0;
    for (uint32_t i = 0; i < live->ask->count; i++) {
        const struct aw__runrow *row = &live->drawn[i];
        serving += row->stage == AW_STAGE_SERVING;
        all.episode_steps = row->episode_steps;
        all.ready += row->ready;
        all.wanted += row->wanted;
        all.cpu_used += row->cpu_used;
        all.memory_used += row->memory_used;
        weight++;
        for (int w = 0; w < AW_JOB_WORLDS; w++) {
            aw_totals_add(&all.total[w], &row->total[w], 1);
            aw_totals_add(&all.recent[w], &row->recent[w], 1);
        }
    }
    all.cpu_used /= weight;
    all.memory_used /= weight;
    all.latency_us = NAN;
    row_cells(live, &all, cells);
    cell_put(&cells[STAGE], QUIET, "%" PRIu32 "/%" PRIu32 " serve", serving, live->ask->count);
    for (int c = 0; c < COLUMNS; c++) {
        if (c == ACTS || (c >= SIZES && c < USED) || c == LATENCY)
            cell_put(&cells[c], QUIET, "%s", "");
    }
}

/* --- a frame ---------------------------------------------------------------------------------- */

static void head_draw(struct aw__runlive *live, uint64_t steps, int64_t told_us, bool stopping)
{
    const struct aw_daemon_config *ask = live->ask;
    const int64_t now = aw_clock_monotonic_us(NULL);
    const double seconds = 1e-6 * (double)(now - live->rate_us);
    if (seconds >= 0.2 && steps > live->rate_steps) {
        const double rate = (double)(steps - live->rate_steps) / seconds;
        const double weight = live->rate > 0 ? 1 - exp(-seconds / RATE_SECONDS) : 1;
        live->rate += weight * (rate - live->rate);
        live->rate_us = now;
        live->rate_steps = steps;
    }
    const double share = (double)steps / (double)ask->steps_total;
    char bar[BAR_CELLS * 3 + 1], at[AW_RUN_CLOCK_MAX], end[AW_RUN_CLOCK_MAX];
    char rate[32] = "-", left[32] = "-", spent[32];
    struct line line;
    line_begin(&line, live);
    line_put(&line, BOLD, "aware run");
    line_fmt(&line, QUIET, "  %" PRIu32 " %sworkload%s%s%s%s%s", ask->count,
             ask->local ? "" : "simulated ", ask->count == 1 ? "" : "s",
             ask->local ? " on this machine" : "", ask->twin ? ", beside " : "",
             ask->twin ? ask->fallback : "", ask->twin ? " alone on the same load" : "");
    line_end(&line);

    const int64_t step_us = llround(ask->step_s * 1e6);
    aw_run_clock((int64_t)steps * step_us, at, sizeof at);
    aw_run_clock((int64_t)ask->steps_total * step_us, end, sizeof end);
    if (live->rate > 0) {
        snprintf(rate, sizeof rate, "%.0f", live->rate * ask->step_s);
        aw_count_format(live->rate * ask->step_s, rate, sizeof rate);
        aw_seconds_format((double)(ask->steps_total - steps) / live->rate, left, sizeof left);
    }
    aw_seconds_format(1e-6 * (double)(now - live->begin_us), spent, sizeof spent);
    bar_fill(live, bar, sizeof bar, share, BAR_CELLS);
    line_begin(&line, live);
    if (line.limit > 100)
        line_put(&line, COOL, bar);
    line_fmt(&line, PLAIN, "%s%3.0f%%", line.width ? " " : "", 100 * share);
    line_fmt(&line, BOLD, "  %s", at);
    line_fmt(&line, PLAIN, " of %s", end);
    if (stopping) /* the first to be seen, however narrow */
        line_put(&line, FAIR, "  stopping after this step");
    line_fmt(&line, PLAIN, "  %s spent, %s left", spent, left);
    if (!stopping && now - told_us > LEARNING_US && isinf(ask->speed))
        line_put(&line, COOL, "  learning");
    line_fmt(&line, PLAIN, "  %s times real time", rate);
    line_end(&line);
}

/* What it comes to: "saved $1.20 (9.1 %), missed 0.4 % (budget 1 %), 12 changes a day". Parts that
 * do not fit whole are left out, the last first. */
static void outcome_draw(struct aw__runlive *live)
{
    const struct aw_daemon_config *ask = live->ask;
    struct aw_totals own = {0}, twin = {0};
    double budget = 0;
    for (uint32_t i = 0; i < ask->count; i++) {
        aw_totals_add(&own, &live->drawn[i].total[AW_JOB_AWARE], 1);
        aw_totals_add(&twin, &live->drawn[i].total[AW_JOB_TWIN], 1);
        budget = fmax(budget, ask->workload[i].pilot.slo_budget);
    }
    if (own.steps == 0)
        return;
    char part[3][96];
    const double saved = twin.cost - own.cost, missed = (double)own.violations / (double)own.steps,
                 days = (double)own.steps * ask->step_s / 86400;
    if (ask->twin && twin.cost > 0)
        snprintf(part[0], sizeof part[0], "%s $%.2f (%.1f %%)",
                 saved < 0 ? "spent more by" : "saved", fabs(saved), 100 * fabs(saved) / twin.cost);
    else
        snprintf(part[0], sizeof part[0], "spent $%.2f", own.cost);
    snprintf(part[1], sizeof part[1], "missed the SLO in %.2f %% of steps (budget %g %%)",
             100 * missed, 100 * budget);
    snprintf(part[2], sizeof part[2], "%.0f replica changes a day per workload",
             (double)own.replica_changes / days);
    const enum ink ink[3] = {ask->twin && saved > 0 ? GOOD : PLAIN, missed > budget ? BAD : GOOD,
                             PLAIN};
    struct line line;
    line_begin(&line, live);
    for (int i = 0; i < 3; i++) {
        if (line.width + (i ? 2 : 0) + width_of(part[i]) > line.limit)
            break;
        line_put(&line, PLAIN, i ? ", " : "");
        line_put(&line, ink[i], part[i]);
    }
    line_end(&line);
}

static void table_draw(struct aw__runlive *live, unsigned room)
{
    const struct aw_daemon_config *ask = live->ask;
    struct cell cells[COLUMNS];
    struct line line;
    bool shown[COLUMNS];
    /* each workload has two lines where there is room: figures, and why */
    const bool with_why = 2 * ask->count + 3 <= room;
    const uint32_t each = with_why ? 2 : 1;
    const uint32_t fits = room > 4 ? (room - 3) / each : 1;
    const uint32_t count = ask->count < fits ? ask->count : fits;

    for (int c = 0; c < COLUMNS; c++)
        cell_put(&cells[c], QUIET, "%s", ask->twin ? columns[c].head : columns[c].head_alone);
    grow(live, cells);
    for (uint32_t i = 0; i < count; i++) {
        row_cells(live, &live->drawn[i], cells);
        grow(live, cells);
    }
    row_of_all(live, cells);
    grow(live, cells);
    line_begin(&line, live);
    choose_columns(live, line.limit, shown);
    for (int c = 0; c < COLUMNS; c++)
        cell_put(&cells[c], QUIET, "%s", ask->twin ? columns[c].head : columns[c].head_alone);
    put_cells(&line, live, shown, cells);
    line_end(&line);
    for (uint32_t i = 0; i < count; i++) {
        row_cells(live, &live->drawn[i], cells);
        line_begin(&line, live);
        put_cells(&line, live, shown, cells);
        line_end(&line);
        if (with_why) {
            line_begin(&line, live);
            line_fmt(&line, QUIET, "  %s", live->drawn[i].why);
            line_end(&line);
        }
    }
    if (count < ask->count) {
        line_begin(&line, live);
        line_fmt(&line, QUIET, "  and %" PRIu32 " more", ask->count - count);
        line_end(&line);
    }
    if (ask->count > 1) {
        row_of_all(live, cells);
        line_begin(&line, live);
        put_cells(&line, live, shown, cells);
        line_end(&line);
    }
}

static void events_draw(struct aw__runlive *live, const struct aw_history_event *events,
                        const int64_t *event_us, uint32_t count)
{
    static const enum ink ink[] = {
        [AW_HISTORY_STAGE] = COOL,
        [AW_HISTORY_TRIP] = BAD,
        [AW_HISTORY_SCENARIO] = FAIR,
        [AW_HISTORY_FAULT] = FAIR,
    };
    const int64_t now = aw_clock_monotonic_us(NULL);
    struct line line;
    line_begin(&line, live);
    line_end(&line);
    for (uint32_t i = count; i-- > 0;) {
        const struct aw_history_event *event = &events[i];
        const bool fresh = 1e-6 * (double)(now - event_us[i]) < EVENT_FRESH_S;
        char clock[AW_RUN_CLOCK_MAX];
        line_begin(&line, live);
        line_fmt(&line, QUIET, "%9s  ", aw_run_clock(event->at_us, clock, sizeof clock));
        line_fmt(&line, fresh ? BOLD : PLAIN, "%s",
                 event->workload < live->ask->count
                     ? aw_run_name(live->ask->workload[event->workload].pilot.name)
                     : "cluster");
        line_fmt(&line, fresh ? ink[event->kind] : PLAIN, "  %s", event->text);
        line_end(&line);
    }
}

void aw__runlive_draw(struct aw__runlive *live, bool stopping)
{
    struct aw_history_event events[EVENTS_SHOWN];
    int64_t event_us[EVENTS_SHOWN];
    const unsigned rows = terminal_rows(live->out);
    pthread_mutex_lock(&live->lock);
    const uint64_t steps = live->steps;
    const int64_t told_us = live->told_us;
    const uint32_t event_count = live->event_count;
    memcpy(live->drawn, live->row, live->ask->count * sizeof *live->row);
    memcpy(events, live->event, sizeof events);
    memcpy(event_us, live->event_us, sizeof event_us);
    pthread_mutex_unlock(&live->lock);
    go_up(live);
    head_draw(live, steps, told_us, stopping);
    if (live->drawn[0].name) {
        const uint32_t shown = rows > 14 ? event_count : event_count < 2 ? event_count : 2;
        const unsigned used = 3 + 1 + shown + 1; /* head, space, events, the cursor's line */
        outcome_draw(live);
        table_draw(live, rows > used + 4 ? rows - used : 4);
        if (shown)
            events_draw(live, events, event_us, shown);
    }
    fputs("\033[J", live->out); /* what a longer frame left */
    fflush(live->out);
}

void aw__runlive_free(struct aw__runlive *live)
{
    if (!live)
        return;
    go_up(live);
    fputs("\033[J\033[?25h", live->out);
    fflush(live->out);
    pthread_mutex_destroy(&live->lock);
    aw_alloc_free(NULL, live->row);
    aw_alloc_free(NULL, live);
}
