/* audit.c - the verbs `audit verify` and `audit show`. */
#include "audit/audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#define SHOWN_MAX      8000u
#define TORN_WAIT_US   200000 /* long enough for a commit that is under way */
#define TORN_TRIES_MAX 3u

static const struct aw_positional audit_positionals[] = {
    {.name = "DIR", .kind = AW_ARG_DIR, .help = "the folder of an audit log"},
    {.name = NULL},
};

/* ---- verify ---- */

static json_t *report_json(const struct aw_audit_report *r)
{
    json_t *object = json_object();
    json_object_set_new(object, "intact", json_boolean(!r->why[0]));
    json_object_set_new(object, "entries", json_integer((json_int_t)r->entry_count));
    json_object_set_new(object, "files", json_integer((json_int_t)r->file_count));
    json_object_set_new(object, "first_seq", json_integer((json_int_t)r->first_seq));
    json_object_set_new(object, "last_seq", json_integer((json_int_t)r->last_seq));
    json_object_set_new(object, "last_hash", json_string(r->last_hash));
    json_object_set_new(object, "dropped_through_seq", json_integer((json_int_t)r->retained_seq));
    json_object_set_new(object, "head_seq", json_integer((json_int_t)r->head_seq));
    if (!r->why[0])
        return object;
    json_t *finding = json_object();
    json_object_set_new(finding, "file", json_string(r->file));
    json_object_set_new(finding, "line", json_integer(r->line));
    json_object_set_new(finding, "seq", json_integer((json_int_t)r->seq));
    json_object_set_new(finding, "why", json_string(r->why));
    json_object_set_new(finding, "maybe_power_cut", json_boolean(r->torn));
    json_object_set_new(finding, "new_chain_seq", json_integer((json_int_t)r->new_chain_seq));
    json_object_set_new(object, "finding", finding);
    return object;
}

static void print_intact(const struct aw_audit_report *r)
{
    printf("intact: entries %ju to %ju in %ju file%s; the last hash is %s\n",
           (uintmax_t)r->first_seq, (uintmax_t)r->last_seq, (uintmax_t)r->file_count,
           r->file_count == 1 ? "" : "s", r->last_hash);
    if (r->first_seq > 1)
        printf("entries before %ju were dropped by retention, which the log records\n",
               (uintmax_t)r->first_seq);
}

/* What a person should know beyond the finding itself. */
static void add_advice(const struct aw_audit_report *r, struct aw_diag *diag)
{
    char finding[AW_AUDIT_WHY_MAX];
    snprintf(finding, sizeof finding, "%s", r->why);
    if (!diag)
        return;
    if (r->torn)
        snprintf(diag->text, sizeof diag->text,
                 "%s (at entry %ju, the last commit: a power cut does this too, and the next start "
                 "cuts it off)",
                 finding, (uintmax_t)r->seq);
    else if (r->new_chain_seq)
        snprintf(diag->text, sizeof diag->text,
                 "%s (noticed before: a new chain begins with entry %ju)", finding,
                 (uintmax_t)r->new_chain_seq);
}

static enum aw_err verify_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *folder = run->args->positional[0], *head = aw_args_text(run->args, "head");
    struct aw_audit_report report = {0};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < TORN_TRIES_MAX; i++) {
        err = aw_audit_verify(NULL, folder, head, NULL, NULL, NULL, &report, diag);
        if (err != AW_ERR_FORMAT || !report.torn)
            break;
        enum aw_err slept = aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + TORN_WAIT_US);
        if (slept)
            break;
    }
    if (err && err != AW_ERR_FORMAT)
        return err;
    if (err)
        add_advice(&report, diag);
    if (run->json) {
        enum aw_err printed = aw_json_print(report_json(&report), err ? NULL : diag);
        return err ? err : printed;
    }
    if (!err)
        print_intact(&report);
    return err;
}

static const struct aw_option verify_options[] = {
    AW_OPTION(TEXT, "head", 0, "HASH", NULL,
              "an entry with this hash must be there: one that was written down elsewhere"),
    {.name = NULL},
};
static const struct aw_example verify_examples[] = {
    {"aware audit verify /var/lib/aware/audit", "is it as it was written"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_audit_verify = {
    .name = "audit verify",
    .summary = "Find any edit, gap or reordering in an audit log",
    .text = "Every line carries the hash of the line before it. The first line that was edited, "
            "removed, repeated, reordered or added is named with its file, and the exit status is "
            "65. A log may be verified while it is written to.\n\n"
            "Anyone who may write the files can also make a whole log anew. Against that, keep the "
            "last hash somewhere else now and then, and ask for it with --head.",
    .options = verify_options,
    .positionals = audit_positionals,
    .examples = verify_examples,
    .json = true,
    .run = verify_run,
};

/* ---- show ---- */

struct shown {
    char *line; /* a copy with a NUL */
    uint64_t seq;
    int64_t at_us;
    char kind[AW_AUDIT_KIND_MAX];
    char file[AW_AUDIT_NAME_MAX];
    uint32_t line_number;
    bool intact;
};

/* The newest `max` entries that were visited, as a ring. */
struct showing {
    struct shown *ring;
    uint64_t visited;
    uint32_t max;
};

static enum aw_err keep(void *ctx, const struct aw_audit_entry *entry)
{
    struct showing *showing = ctx;
    struct shown *to = &showing->ring[showing->visited % showing->max];
    char *line = aw_alloc_new(NULL, entry->line_len + 1, 1);
    if (!line)
        return AW_ERR_NOMEM;
    memcpy(line, entry->line, entry->line_len);
    aw_alloc_free(NULL, to->line);
    *to = (struct shown){.line = line,
                         .seq = entry->seq,
                         .at_us = entry->at_us,
                         .line_number = entry->line_number,
                         .intact = entry->intact};
    memcpy(to->kind, entry->kind, sizeof to->kind);
    snprintf(to->file, sizeof to->file, "%s", entry->file);
    showing->visited++;
    return AW_OK;
}

/* "2h" ago, or a date with or without a time, in UTC. */
static enum aw_err parse_since(const char *text, int64_t *ret_us, struct aw_diag *diag)
{
    static const char *const shapes[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S",
                                         "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
    int64_t ago;
    if (!aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &ago, NULL)) {
        *ret_us = aw_clock_now_us(NULL) - ago;
        return AW_OK;
    }
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct tm tm = {.tm_mday = 1};
        const char *end = strptime(text, shapes[i], &tm);
        if (end && !*end) {
            *ret_us = (int64_t)timegm(&tm) * 1000000;
            return AW_OK;
        }
    }
    return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--since",
                      "expected a time such as 2026-11-16T02:00:00Z, or how long ago such as 2h, "
                      "found %s",
                      AW_QUOTE(text));
}

/* key=value of every member but the log's own. */
static void members_text(json_t *entry, char *buf, size_t size)
{
    static const char *const own[] = {"seq", "at", "kind", "first", "prev", "hash"};
    struct aw_text out;
    const char *key;
    json_t *value;
    aw_text_init(&out, buf, size);
    json_object_foreach(entry, key, value)
    {
        bool skipped = false;
        for (uint32_t i = 0; i < sizeof own / sizeof own[0]; i++)
            skipped = skipped || !strcmp(key, own[i]);
        if (skipped)
            continue;
        char *dumped =
            json_is_string(value)
                ? NULL
                : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        aw_text_add(&out, "%s%s=%s", out.len ? " " : "", key,
                    dumped                  ? dumped
                    : json_is_string(value) ? json_string_value(value)
                                            : "?");
        free(dumped);
    }
}

static void add_row(struct aw_table *table, const struct shown *shown)
{
    char text[AW_CELL_MAX] = "", at[32];
    if (!shown->intact) {
        aw_table_add(table, "?");
        aw_table_add(table, "?");
        aw_table_add(table, "damaged");
        aw_table_add(table, "a line of %s is not as it was written", shown->file);
        return;
    }
    json_t *entry = json_loads(shown->line, 0, NULL);
    if (entry)
        members_text(entry, text, sizeof text);
    json_decref(entry);
    aw_table_add(table, "%ju", (uintmax_t)shown->seq);
    aw_table_add(table, "%s", aw_time_show_us(shown->at_us, at, sizeof at));
    aw_table_add(table, "%s", shown->kind);
    /* what somebody named may hold what a terminal would obey */
    for (char *p = text; *p; p++)
        *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    aw_table_add(table, "%s", text);
}

static json_t *shown_json(const struct shown *shown)
{
    if (shown->intact)
        return json_loads(shown->line, 0, NULL);
    return json_pack("{s:b, s:s, s:i}", "damaged", 1, "file", shown->file, "line",
                     (int)shown->line_number);
}

static enum aw_err show_print(const struct aw_call *run, const struct showing *showing,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {">SEQ", "AT (UTC)", "KIND", "WHAT", NULL};
    uint64_t first = showing->visited > showing->max ? showing->visited - showing->max : 0;
    struct aw_table table;
    if (run->json) {
        json_t *object = json_object(), *entries = json_array();
        for (uint64_t i = first; i < showing->visited; i++)
            json_array_append_new(entries, shown_json(&showing->ring[i % showing->max]));
        json_object_set_new(object, "entries", entries);
        return aw_json_print(object, diag);
    }
    aw_table_init(&table, heads);
    for (uint64_t i = first; i < showing->visited; i++)
        add_row(&table, &showing->ring[i % showing->max]);
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (!err && first)
        printf("\nthe newest %u of %ju; --last N shows more\n", showing->max,
               (uintmax_t)showing->visited);
    return err;
}

static enum aw_err show_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *folder = run->args->positional[0], *since = aw_args_text(run->args, "since");
    struct aw_audit_filter filter = AW_AUDIT_EVERY;
    struct showing showing = {.max = (uint32_t)aw_args_number(run->args, "last")};
    enum aw_err err = since ? parse_since(since, &filter.from_us, diag) : AW_OK;
    if (err)
        return err;
    filter.kind = aw_args_text(run->args, "kind");
    showing.ring = aw_alloc_new(NULL, showing.max, sizeof *showing.ring);
    if (!showing.ring)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u entries", showing.max);
    err = since || filter.kind
              ? aw_audit_scan(NULL, folder, &filter, keep, &showing, NULL, diag)
              : aw_audit_tail(NULL, folder, showing.max, &filter, keep, &showing, NULL, diag);
    if (!err)
        err = show_print(run, &showing, diag);
    for (uint32_t i = 0; i < showing.max; i++)
        aw_alloc_free(NULL, showing.ring[i].line);
    aw_alloc_free(NULL, showing.ring);
    return err;
}

static const struct aw_option show_options[] = {
    AW_OPTION(TEXT, "since", 0, "TIME", NULL,
              "nothing older: 2026-11-16T02:00:00Z, or how long ago, such as 2h"),
    AW_OPTION(TEXT, "kind", 0, "KIND", NULL, "only entries of this kind"),
    AW_NUMBER("last", 0, "N", "50", 1, SHOWN_MAX, "the newest so many"),
    {.name = NULL},
};
static const struct aw_example show_examples[] = {
    {"aware audit show /var/lib/aware/audit --last 20", "the newest 20 entries"},
    {"aware audit show /var/lib/aware/audit --kind freeze --since 7d", "who froze what this week"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_audit_show = {
    .name = "audit show",
    .summary = "List entries of an audit log",
    .text = "Entries come oldest first. Lines that are not as they were written are listed as "
            "damaged; 'aware audit verify' says what is wrong. The files themselves are JSON "
            "lines: other tools read them as they are.",
    .options = show_options,
    .positionals = audit_positionals,
    .examples = show_examples,
    .json = true,
    .run = show_run,
};
