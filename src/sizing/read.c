/*
 * read.c - measurements out of CSV. A format is a row of a table: which columns name a set, a
 * workload, its group, a configuration, its time. What no row fits is read as a generic table.
 *
 * Two passes over the cells: names of workloads and configurations become numbers (a hash table),
 * then the repeats of each pair are sorted together and their median is taken.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/text.h"
#include "sizing/read_internal.h"
#include "trace/read.h"

#define MS 1e-3

static const struct aw__size_format formats[] = {
    {
        .name = "multi-cloud",
        .needs = {"provider", "workload", "nodes"},
        .workload = {"workload"},
        .group = "workload",
        .group_after = '-', /* input-task: the task is what must generalise */
        .config = {"provider", "A_family", "A_vcpu", "B_family", "B_vcpu", "C_family", "C_type",
                   "C_vcpu", "nodes"},
        .time = {{"target_runtime", 1}},
        .cost = "target_cost",
        .good_column = "status",
        .good = "ok",
    },
    {
        .name = "scout",
        .needs = {"vm_type", "workload", "framework"},
        .set = "set",
        .workload = {"workload", "framework", "datasize"},
        .group = "workload",
        .config = {"nodes", "vm_type"},
        .context = {"framework", "input_size"},
        .time = {{"elapsed_time", 1}},
        .good_column = "completed",
        .good = "True",
    },
    {
        .name = "functions",
        .needs = {"function", "memory_mb"},
        .workload = {"function", "repetition"}, /* a repetition is another input */
        .group = "function",
        .config = {"memory_mb"},
        .time = {{"duration_p50", MS}, {"duration_mean", MS}},
        .lambda = true,
        .part_column = "set",
        .part = "real",
    },
    {
        .name = "lambda-runtimes",
        .needs = {"runtime", "memory_mb"},
        .workload = {"work", "runtime", "architecture"},
        .group = "runtime",
        .config = {"memory_mb"},
        .time = {{"duration_ms", MS}},
        .lambda = true,
    },
    {
        .name = "lambda-logs",
        .needs = {"Function", "Memory Size"},
        .workload = {"Function"},
        .group = "Function",
        .config = {"Memory Size"},
        .time = {{"Duration", MS}},
        .lambda = true,
    },
};

/* Of a generic table: the first of these that is there. */
static const char *const workload_heads[] = {
    "workload", "function", "program", "task", "application", "app", "job", "service", NULL};
static const struct aw__size_time times[] = {
    {"time", 1},        {"time_s", 1},      {"runtime", 1},       {"runtime_s", 1},
    {"seconds", 1},     {"duration", 1},    {"duration_s", 1},    {"elapsed_time", 1},
    {"elapsed", 1},     {"latency_s", 1},   {"time_ms", MS},      {"duration_ms", MS},
    {"runtime_ms", MS}, {"latency_ms", MS}, {"milliseconds", MS}, {"value", 0},
};

/* --- which format ----------------------------------------------------------------------------- */

/* The next letter or digit of a head, in lower case; 0: its end, or a unit in brackets. */
static char letter(const char **at, const char *end)
{
    while (*at < end && !isalnum((unsigned char)**at) && **at != '(' && **at != '[')
        ++*at;
    return *at < end && isalnum((unsigned char)**at) ? (char)tolower((unsigned char)*(*at)++) : 0;
}

bool aw__size_alike(const struct aw_csv_cell *head, const char *name)
{
    const char *a = head->at, *b = name, *const b_end = name + strlen(name);
    char x, y;
    do {
        x = letter(&a, head->at + head->len);
        y = letter(&b, b_end);
    } while (x && x == y);
    return x == y;
}

/* The column with exactly this head, or one that is alike. */
static uint32_t heads_find(const struct aw_csv_cell *heads, uint32_t count, const char *name)
{
    uint32_t at = aw_csv_find(heads, count, name);
    for (uint32_t i = 0; i < count && at == UINT32_MAX; i++)
        if (heads[i].len > 0 && aw__size_alike(&heads[i], name))
            at = i;
    return at;
}

static uint32_t column(const struct aw__size_read *read, const char *head)
{
    return head ? heads_find(read->head, read->head_count, head) : UINT32_MAX;
}

/* "Duration (ms)": what its head says in brackets; else `unit`. */
static double unit_of(const struct aw_csv_cell *head, double unit)
{
    static const struct aw__size_time units[] = {{"us", 1e-6},   {"ms", MS},          {"s", 1},
                                                 {"sec", 1},     {"min", 60},         {"h", 3600},
                                                 {"seconds", 1}, {"milliseconds", MS}};
    size_t from = 0;
    while (from < head->len && head->at[from] != '(' && head->at[from] != '[')
        from++;
    const struct aw_csv_cell inside = {head->at + from + 1,
                                       head->len > from + 2 ? head->len - from - 2 : 0};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (inside.len > 0 && aw__size_alike(&inside, units[i].head))
            return units[i].unit;
    return unit;
}

/* The first of some times that is there; UINT32_MAX: none. */
static uint32_t time_find(struct aw__size_read *read, const struct aw__size_time *list,
                          size_t count)
{
    struct aw__size_roles *roles = &read->roles;
    roles->time = UINT32_MAX;
    for (size_t i = 0; i < count && list[i].head && roles->time == UINT32_MAX; i++) {
        roles->time = column(read, list[i].head);
        roles->clock = list[i].unit > 0;
        if (roles->time != UINT32_MAX)
            roles->unit = unit_of(&read->head[roles->time], roles->clock ? list[i].unit : 1);
    }
    return roles->time;
}

static bool fits(struct aw__size_read *read, const struct aw__size_format *format)
{
    for (uint32_t i = 0; i < AW__SIZE_COLUMNS && format->needs[i]; i++)
        if (column(read, format->needs[i]) == UINT32_MAX)
            return false;
    return time_find(read, format->time, AW__SIZE_TIMES) != UINT32_MAX;
}

static void add_columns(const struct aw__size_read *read, const char *const *names,
                        struct aw__size_list *list)
{
    for (uint32_t i = 0; i < AW__SIZE_COLUMNS && names[i]; i++) {
        const uint32_t at = column(read, names[i]);
        if (at != UINT32_MAX && list->count < AW__SIZE_COLUMNS)
            list->at[list->count++] = at;
    }
}

static void roles_known(struct aw__size_read *read, const struct aw__size_format *format)
{
    struct aw__size_roles *roles = &read->roles;
    snprintf(roles->name, sizeof roles->name, "%s", format->name);
    roles->set = column(read, format->set);
    roles->group = column(read, format->group);
    roles->group_after = format->group_after;
    roles->cost = column(read, format->cost);
    roles->price = UINT32_MAX;
    roles->good = column(read, format->good_column);
    roles->good_text = format->good;
    roles->part = column(read, format->part_column);
    roles->part_text = format->part;
    roles->lambda = format->lambda;
    add_columns(read, format->workload, &roles->workload);
    add_columns(read, format->config, &roles->config);
    add_columns(read, format->context, &roles->context);
}

static enum aw_err roles_generic(struct aw__size_read *read, struct aw_diag *diag)
{
    struct aw__size_roles *roles = &read->roles;
    uint32_t workload = UINT32_MAX;
    roles->part = UINT32_MAX;
    for (size_t i = 0; workload_heads[i] && workload == UINT32_MAX; i++)
        workload = column(read, workload_heads[i]);
    if (workload == UINT32_MAX)
        return aw_fail_at(diag, AW_ERR_FORMAT, read->path, 1, 0, "workload",
                          "expected a column of this name in the first line, or the heads of a "
                          "known format");
    if (time_find(read, times, sizeof times / sizeof *times) == UINT32_MAX)
        return aw_fail_at(diag, AW_ERR_FORMAT, read->path, 1, 0, "time",
                          "expected a column time, runtime, duration, seconds, time_ms or value in "
                          "the first line");
    snprintf(roles->name, sizeof roles->name, "csv");
    roles->generic = true;
    roles->workload = (struct aw__size_list){.at = {workload}, .count = 1};
    roles->set = column(read, "set");
    roles->group = column(read, "group");
    roles->cost = column(read, "cost");
    roles->price = column(read, "usd_per_hour");
    roles->good = column(read, "status");
    roles->good_text = "ok";
    for (uint32_t i = 0; i < read->head_count; i++) {
        if (i == workload || i == roles->time || i == roles->set || i == roles->group ||
            i == roles->cost || i == roles->price || i == roles->good)
            continue;
        if (roles->config.count == AW__SIZE_COLUMNS)
            return aw_fail_at(diag, AW_ERR_LIMIT, read->path, 1, 0, "configuration",
                              "expected at most %u columns of configuration", AW__SIZE_COLUMNS);
        roles->config.at[roles->config.count++] = i;
    }
    if (roles->config.count == 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, read->path, 1, 0, "configuration",
                          "expected at least one column beside workload and time: it is the "
                          "configuration");
    return AW_OK;
}

static enum aw_err roles_find(struct aw__size_read *read, struct aw_diag *diag)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (fits(read, &formats[i])) {
            roles_known(read, &formats[i]);
            return AW_OK;
        }
    return roles_generic(read, diag);
}

/* --- lines ------------------------------------------------------------------------------------ */

static const char *cell_text(const struct aw_csv_cell *cell, char *buf, size_t size)
{
    snprintf(buf, size, "%.*s", (int)(cell->len < size ? cell->len : size - 1), cell->at);
    return buf;
}

/* Cells with spaces between; of a generic table with the names of their columns. */
static void joined(const struct aw_csv_cell *cells, const struct aw__size_list *list,
                   const struct aw_csv_cell *heads, char *buf)
{
    struct aw_text text;
    aw_text_init(&text, buf, AW_SIZE_NAME_MAX);
    buf[0] = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct aw_csv_cell *cell = &cells[list->at[i]];
        if (cell->len == 0)
            continue;
        aw_text_add(&text, "%s", text.len ? " " : "");
        if (heads)
            aw_text_add(&text, "%.*s=", (int)heads[list->at[i]].len, heads[list->at[i]].at);
        aw_text_add(&text, "%.*s", (int)cell->len, cell->at);
    }
}

/* The number of a name in a list that grows; AW_ERR_LIMIT beyond `max`. */
static enum aw_err number_of(struct aw__size_names *names, const char *name, uint32_t max,
                             uint32_t *ret)
{
    uint32_t at = (uint32_t)aw_hash_text(AW_HASH_BEGIN, name) & (AW__SIZE_SLOTS - 1);
    for (; names->slot[at]; at = (at + 1) & (AW__SIZE_SLOTS - 1))
        if (strcmp(names->name[names->slot[at] - 1], name) == 0) {
            *ret = names->slot[at] - 1;
            return AW_OK;
        }
    if (names->count == max)
        return AW_ERR_LIMIT;
    snprintf(names->name[names->count], AW_SIZE_NAME_MAX, "%s", name);
    names->slot[at] = ++names->count;
    *ret = names->count - 1;
    return AW_OK;
}

static enum aw_err limit(const struct aw__size_read *read, uint32_t line, const char *what,
                         uint32_t max, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_LIMIT, read->path, line, 0, what, "expected at most %u", max);
}

static enum aw_err set_of(struct aw__size_read *read, const struct aw_csv_cell *cells,
                          uint32_t line, uint32_t *ret_set, struct aw_diag *diag)
{
    char text[AW_SIZE_NAME_MAX];
    const struct aw__size_roles *roles = &read->roles;
    snprintf(text, sizeof text, "%s", roles->name);
    if (roles->set != UINT32_MAX)
        cell_text(&cells[roles->set], text, sizeof text);
    for (*ret_set = 0; *ret_set < read->set_count; ++*ret_set)
        if (strcmp(read->set[*ret_set].name, text) == 0)
            return AW_OK;
    if (read->set_count == AW_SIZE_SETS_MAX)
        return limit(read, line, "set", AW_SIZE_SETS_MAX, diag);
    struct aw__size_set *set = &read->set[read->set_count++];
    snprintf(set->name, sizeof set->name, "%s", text);
    set->configs = aw_alloc_new(NULL, 1, sizeof *set->configs);
    set->workloads = aw_alloc_new(NULL, 1, sizeof *set->workloads);
    set->groups = aw_alloc_new(NULL, 1, sizeof *set->groups);
    if (!set->configs || !set->workloads || !set->groups)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the names of %s", read->path);
    return AW_OK;
}

/* What must generalise: the group's column, or the workload itself. */
static void group_name(const struct aw__size_roles *roles, const struct aw_csv_cell *cells,
                       const char *workload, char *buf)
{
    if (roles->group == UINT32_MAX) {
        snprintf(buf, AW_SIZE_NAME_MAX, "%s", workload);
        return;
    }
    cell_text(&cells[roles->group], buf, AW_SIZE_NAME_MAX);
    const char *after = roles->group_after ? strchr(buf, roles->group_after) : NULL;
    if (after && after[1])
        memmove(buf, after + 1, strlen(after));
}

/* What tables write where nothing was measured. */
static bool missing(const struct aw_csv_cell *cell)
{
    static const char *const words[] = {"nan", "na", "n/a", "null", "none"};
    for (size_t i = 0; cell->len > 0 && i < sizeof words / sizeof *words; i++)
        if (cell->len == strlen(words[i]) && !strncasecmp(cell->at, words[i], cell->len))
            return true;
    return cell->len == 0;
}

static enum aw_err take_line(struct aw__size_read *read, const struct aw_csv_cell *cells,
                             uint32_t line, struct aw_diag *diag)
{
    char name[AW_SIZE_NAME_MAX], group[AW_SIZE_NAME_MAX], text[AW_SIZE_NAME_MAX];
    const struct aw__size_roles *roles = &read->roles;
    uint32_t set_index = 0;
    if (roles->good != UINT32_MAX && cells[roles->good].len > 0 &&
        !aw__size_alike(&cells[roles->good], roles->good_text))
        return AW_OK;
    const double time = aw_csv_real(&cells[roles->time]) * roles->unit;
    const bool empty = missing(&cells[roles->time]); /* could be measured, was not yet */
    if (!empty && (!isfinite(time) || time <= 0))
        return aw_fail_at(diag, AW_ERR_FORMAT, read->path, line, 0,
                          cell_text(&read->head[roles->time], text, sizeof text),
                          "expected a number above 0, found %s",
                          aw_text_quote(cells[roles->time].at, cells[roles->time].len,
                                        (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
    enum aw_err err = set_of(read, cells, line, &set_index, diag);
    if (err)
        return err;
    struct aw__size_set *set = &read->set[set_index];
    struct aw__size_row *row = &read->row[read->row_count];
    *row = (struct aw__size_row){
        .set = set_index, .time = empty ? (double)NAN : time, .cost = (double)NAN};
    joined(cells, &roles->workload, NULL, name);
    if (!*name)
        return aw_fail_at(diag, AW_ERR_FORMAT, read->path, line, 0, "workload",
                          "expected a name, found nothing");
    const uint32_t known = set->workloads->count;
    if (number_of(set->workloads, name, AW_SIZE_WORKLOADS_MAX, &row->workload))
        return limit(read, line, "workloads", AW_SIZE_WORKLOADS_MAX, diag);
    set->asked[row->workload] |= read->asking;
    if (row->workload == known) { /* a new one: its group and context are those of this line */
        group_name(roles, cells, name, group);
        if (number_of(set->groups, group, AW_SIZE_WORKLOADS_MAX, &set->group_of[known]))
            return limit(read, line, "groups", AW_SIZE_WORKLOADS_MAX, diag);
        set->workload_line[known] = read->line_count - 1;
        set->part[known] =
            roles->part != UINT32_MAX &&
            strncmp(cells[roles->part].at, roles->part_text, strlen(roles->part_text)) == 0;
    }
    joined(cells, &roles->config, roles->generic ? read->head : NULL, name);
    const uint32_t configs = set->configs->count;
    if (!*name)
        return aw_fail_at(diag, AW_ERR_FORMAT, read->path, line, 0,
                          cell_text(&read->head[roles->config.at[0]], text, sizeof text),
                          "expected a configuration, found nothing");
    if (number_of(set->configs, name, AW_SIZE_CONFIGS_MAX, &row->config))
        return limit(read, line, "configurations", AW_SIZE_CONFIGS_MAX, diag);
    if (row->config == configs)
        set->config_line[configs] = read->line_count - 1;
    if (roles->cost != UINT32_MAX) {
        row->cost = aw_csv_real(&cells[roles->cost]);
        if (!(row->cost > 0) || !isfinite(row->cost))
            row->cost = (double)NAN;
    }
    if (roles->price != UINT32_MAX && roles->clock)
        row->cost = time * aw_csv_real(&cells[roles->price]) / 3600;
    read->row_count += !empty;
    return AW_OK;
}

/* Where the columns of the first file are in this one; those that are needed must be there. */
static enum aw_err map_heads(struct aw__size_read *read, const char *path,
                             const struct aw_csv_cell *heads, uint32_t count, struct aw_diag *diag)
{
    const struct aw__size_roles *roles = &read->roles;
    for (uint32_t i = 0; i < read->head_count; i++) {
        char text[64];
        bool needed = i == roles->time;
        read->map[i] = heads_find(heads, count, cell_text(&read->head[i], text, sizeof text));
        for (uint32_t k = 0; k < roles->config.count; k++)
            needed |= roles->config.at[k] == i;
        needed |= roles->workload.at[0] == i;
        if (needed && read->map[i] == UINT32_MAX)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, text,
                              "expected a column of this name in the first line, as in the other "
                              "file");
    }
    return AW_OK;
}

/* The one that the first line has most of: comma, semicolon or tab. */
static char separator_of(const char *at, const char *end)
{
    static const char all[] = {',', ';', '\t'};
    uint32_t count[sizeof all] = {0}, most = 0;
    for (; at < end && *at != '\n'; at++)
        for (uint32_t i = 0; i < sizeof all; i++)
            count[i] += *at == all[i];
    for (uint32_t i = 1; i < sizeof all; i++)
        most = count[i] > count[most] ? i : most;
    return all[most];
}

static enum aw_err lines_read(struct aw__size_read *read, const char *path, const char *bytes,
                              size_t len, struct aw_diag *diag)
{
    struct aw_csv_lines lines = {.at = bytes, .end = bytes + len};
    struct aw_csv_cell heads[AW_CSV_CELLS_MAX], cells[AW_CSV_CELLS_MAX];
    enum aw_err err;
    read->path = path;
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        lines.at += 3; /* a byte order mark, as spreadsheets write it */
    lines.separator = separator_of(lines.at, lines.end);
    const uint32_t count = aw_csv_next(&lines, heads);
    if (count == 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL,
                          "expected a line of column names, found nothing");
    if (count > AW__SIZE_HEADS_MAX)
        return limit(read, 1, "columns", AW__SIZE_HEADS_MAX, diag);
    if (read->head_count == 0) {
        memcpy(read->head, heads, count * sizeof *heads);
        read->head_count = count;
        if ((err = roles_find(read, diag)))
            return err;
    }
    if ((err = map_heads(read, path, heads, count, diag)))
        return err;
    for (uint32_t found; (found = aw_csv_next(&lines, cells)) > 0;) {
        if (found != count)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, lines.line, 0, NULL,
                              "expected %u cells as in the first line, found %u", count, found);
        if (read->line_count == read->line_max)
            return limit(read, lines.line, "lines", AW_SIZE_ROWS_MAX, diag);
        struct aw_csv_cell *at = read->cell + (size_t)read->line_count++ * AW__SIZE_HEADS_MAX;
        for (uint32_t i = 0; i < read->head_count; i++)
            at[i] = read->map[i] == UINT32_MAX ? (struct aw_csv_cell){"", 0} : cells[read->map[i]];
        if ((err = take_line(read, at, lines.line, diag)))
            return err;
    }
    return AW_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

static int row_order(const void *a, const void *b)
{
    const struct aw__size_row *x = a, *y = b;
    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    if (x->workload != y->workload)
        return x->workload < y->workload ? -1 : 1;
    if (x->config != y->config)
        return x->config < y->config ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

/* The median of the repeats of each pair; rows are sorted, repeats by their time. */
static void fill(const struct aw__size_read *read, uint32_t set, const uint32_t *place,
                 struct aw_size_table *table)
{
    for (uint32_t i = 0, next; i < read->row_count; i = next) {
        const struct aw__size_row *row = &read->row[i];
        for (next = i + 1;
             next < read->row_count && read->row[next].set == row->set &&
             read->row[next].workload == row->workload && read->row[next].config == row->config;
             next++)
            ;
        if (row->set != set || place[row->workload] == UINT32_MAX)
            continue;
        const struct aw__size_row *low = &read->row[i + (next - i - 1) / 2],
                                  *high = &read->row[i + (next - i) / 2];
        const size_t at = (size_t)place[row->workload] * table->config_count + row->config;
        table->time[at] = 0.5 * (log(low->time) + log(high->time));
        table->cost[at] = 0.5 * (log(low->cost) + log(high->cost));
        const double memory = table->config[row->config].memory_mb;
        if (read->roles.lambda && isfinite(memory))
            table->cost[at] = log(aw_size_lambda_usd(memory, exp(table->time[at])));
        table->costs |= isfinite(table->cost[at]);
    }
}

/* A table of all workloads of a set, or of a part of them. */
static enum aw_err table_make(struct aw__size_read *read, uint32_t index, bool part,
                              struct aw_size_tables *ret, struct aw_diag *diag)
{
    struct aw__size_set *set = &read->set[index];
    uint32_t *place = read->place, workloads = 0;
    if (ret->count == AW_SIZE_SETS_MAX)
        return AW_OK;
    for (uint32_t w = 0; w < set->workloads->count; w++)
        place[w] = part && !set->part[w] ? UINT32_MAX : workloads++;
    if (workloads == 0 || set->configs->count < 2 || (part && workloads == set->workloads->count))
        return AW_OK;
    struct aw_size_table *table = &ret->table[ret->count];
    if (aw_size_table_init(table, set->configs->count, workloads, set->groups->count))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", read->path);
    ret->count++;
    snprintf(table->set, sizeof table->set, "%s%s%s", set->name, part ? "-" : "",
             part ? read->roles.part_text : "");
    for (uint32_t c = 0; c < table->config_count; c++) {
        memcpy(table->config[c].name, set->configs->name[c], AW_SIZE_NAME_MAX);
        if (read->roles.price == UINT32_MAX)
            continue;
        const double usd = aw_csv_real(
            &read->cell[(size_t)set->config_line[c] * AW__SIZE_HEADS_MAX + read->roles.price]);
        table->config[c].price = usd > 0 ? log(usd / 3600) : (double)NAN;
        table->costs |= usd > 0;
    }
    for (uint32_t g = 0; g < table->group_count; g++)
        memcpy(table->group[g], set->groups->name[g], AW_SIZE_NAME_MAX);
    for (uint32_t w = 0; w < set->workloads->count; w++)
        if (place[w] != UINT32_MAX) {
            memcpy(table->workload[place[w]].name, set->workloads->name[w], AW_SIZE_NAME_MAX);
            table->workload[place[w]].group = set->group_of[w];
            table->workload[place[w]].asked = set->asked[w];
        }
    table->clock = read->roles.clock;
    aw__size_features(read, set, table);
    aw__size_context(read, set, place, table);
    aw_size_table_standardise(table);
    fill(read, index, place, table);
    return AW_OK;
}

static size_t lines_of(const char *bytes, size_t len)
{
    size_t count = 1;
    for (size_t i = 0; i < len; i++)
        count += bytes[i] == '\n';
    return count;
}

/* Both files, then the tables. */
static enum aw_err read_all(struct aw__size_read *read, const char *const path[2], char *bytes[2],
                            struct aw_size_tables *tables, struct aw_diag *diag)
{
    size_t len[2] = {0, 0}, lines = 0;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < 2 && !err; i++)
        if (path[i]) {
            err = aw_packed_read(path[i], AW_SIZE_BYTES_MAX, NULL, &bytes[i], &len[i], diag);
            lines += err ? 0 : lines_of(bytes[i], len[i]);
        }
    if (err)
        return err;
    read->line_max = lines < AW_SIZE_ROWS_MAX ? (uint32_t)lines : AW_SIZE_ROWS_MAX;
    read->cell =
        aw_alloc_new(NULL, (size_t)read->line_max * AW__SIZE_HEADS_MAX, sizeof *read->cell);
    read->row = aw_alloc_new(NULL, read->line_max, sizeof *read->row);
    if (!read->cell || !read->row)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path[0] ? path[0] : path[1]);
    for (uint32_t i = 0; i < 2 && !err; i++)
        if (path[i]) {
            read->asking = i == 1;
            err = lines_read(read, path[i], bytes[i], len[i], diag);
        }
    qsort(read->row, read->row_count, sizeof *read->row, row_order);
    for (uint32_t s = 0; s < read->set_count && !err; s++) {
        err = table_make(read, s, false, tables, diag);
        if (!err && read->roles.part != UINT32_MAX && !path[1])
            err = table_make(read, s, true, tables, diag);
    }
    if (!err && tables->count == 0)
        err = aw_fail_at(diag, AW_ERR_NODATA, read->path, 0, 0, NULL,
                         "expected at least two configurations, found %u usable lines",
                         read->row_count);
    return err;
}

enum aw_err aw_size_read_both(const char *path, const char *asked,
                              struct aw_size_tables *ret_tables, struct aw_diag *diag)
{
    char *bytes[2] = {NULL, NULL};
    struct aw_size_tables tables = {0};
    struct aw__size_read *read = aw_alloc_new(NULL, 1, sizeof *read);
    AW_ASSERT(path || asked);
    if (!read)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path ? path : asked);
    const enum aw_err err =
        read_all(read, (const char *const[2]){path, asked}, bytes, &tables, diag);
    if (err)
        aw_size_tables_deinit(&tables);
    else
        *ret_tables = tables;
    for (uint32_t s = 0; s < read->set_count; s++) {
        aw_alloc_free(NULL, read->set[s].configs);
        aw_alloc_free(NULL, read->set[s].workloads);
        aw_alloc_free(NULL, read->set[s].groups);
    }
    aw_alloc_free(NULL, read->cell);
    aw_alloc_free(NULL, read->row);
    aw_alloc_free(NULL, bytes[0]);
    aw_alloc_free(NULL, bytes[1]);
    aw_alloc_free(NULL, read);
    return err;
}

enum aw_err aw_size_read(const char *path, struct aw_size_tables *ret_tables, struct aw_diag *diag)
{
    return aw_size_read_both(path, NULL, ret_tables, diag);
}
