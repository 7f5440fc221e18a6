/* store.c - the verbs `store list`, `store export`, `store import` and `store prune`. */
#include <aware/store.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "store/transfer.h"

#define RECENT_EPISODES 10u
#define LISTED_MAX      8000u
#define STREAM_BYTES    (1u << 16)

static enum aw_err open_store(const struct aw_call *run, bool read_only, struct aw_store *ret,
                              struct aw_diag *diag)
{
    const char *url = run->args->positional[0];
    struct aw_store_options options = {.read_only = read_only};
    if (!strcmp(url, "memory"))
        return aw_fail(diag, AW_ERR_USAGE,
                       "expected a file or influx+http://HOST:PORT/DATABASE; what is in memory is "
                       "gone when a command ends");
    return aw_store_open(ret, url, &options, NULL, diag);
}

static const struct aw_positional store_positionals[] = {
    {.name = "STORE", .kind = AW_ARG_FILE, .help = "a file, or influx+http://HOST:PORT/DATABASE"},
    {.name = NULL},
};

/* ---- list ---- */

struct listed {
    char name[AW_STORE_NAME_MAX];
    struct aw_store_counts counts;
    struct aw_store_last last;
    uint32_t recent_count;
    double recent_mean; /* of the returns of the latest ended episodes; NAN: none */
};

struct listing {
    struct listed *rows;
    uint32_t count, max;
};

static enum aw_err add_listed(void *ctx, const char *workload, const struct aw_store_counts *counts)
{
    struct listing *listing = ctx;
    if (listing->count < listing->max) {
        struct listed *row = &listing->rows[listing->count++];
        snprintf(row->name, sizeof row->name, "%s", workload);
        row->counts = *counts;
    }
    return AW_OK;
}

static enum aw_err fill_listed(struct aw_store *store, struct listed *row, struct aw_diag *diag)
{
    struct aw_store_episode recent[RECENT_EPISODES];
    uint32_t count = 0;
    double sum = 0;
    enum aw_err err = aw_store_last(store, row->name, &row->last, diag);
    if (!err)
        err = aw_store_recent_returns(store, row->name, RECENT_EPISODES, recent, &count, diag);
    for (uint32_t i = 0; i < count && !err; i++)
        sum += recent[i].reward_sum;
    row->recent_count = count;
    row->recent_mean = count ? sum / count : (double)NAN;
    return err;
}

static json_t *listed_json(const struct listed *row)
{
    json_t *object = json_object();
    json_object_set_new(object, "workload", json_string(row->name));
    json_object_set_new(object, "episodes", json_integer((json_int_t)row->counts.episodes));
    json_object_set_new(object, "rows", json_integer((json_int_t)row->counts.rows));
    json_object_set_new(object, "last_episode", json_integer(row->last.episode));
    json_object_set_new(object, "last_step", json_integer(row->last.step));
    json_object_set_new(object, "recent_episodes", json_integer(row->recent_count));
    json_object_set_new(object, "recent_return_mean", aw_json_real(row->recent_mean));
    return object;
}

static enum aw_err list_print(const struct aw_call *run, const struct aw_store *store,
                              const struct listing *listing, const struct aw_store_counts *all,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD", ">EPISODES", ">ROWS", ">LAST", ">RETURN", NULL};
    char buf[AW_QUANTITY_TEXT_MAX];
    struct aw_table table;
    if (run->json) {
        json_t *object = json_object(), *workloads = json_array();
        for (uint32_t i = 0; i < listing->count; i++)
            json_array_append_new(workloads, listed_json(&listing->rows[i]));
        json_object_set_new(object, "backend", json_string(store->ops->name));
        json_object_set_new(object, "workload_count", json_integer((json_int_t)all->workloads));
        json_object_set_new(object, "episodes", json_integer((json_int_t)all->episodes));
        json_object_set_new(object, "rows", json_integer((json_int_t)all->rows));
        json_object_set_new(object, "workloads", workloads);
        return aw_json_print(object, diag);
    }
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < listing->count; i++) {
        const struct listed *row = &listing->rows[i];
        aw_table_add(&table, "%s", row->name);
        aw_table_add(&table, "%ju", (uintmax_t)row->counts.episodes);
        aw_table_add(&table, "%ju", (uintmax_t)row->counts.rows);
        aw_table_add(&table, "%u.%u", row->last.episode, row->last.step);
        aw_table_add(&table, "%s", aw_figure_format(row->recent_mean, buf, sizeof buf));
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (err)
        return err;
    printf("\n%ju workload%s, %ju episode%s, %ju row%s\n", (uintmax_t)all->workloads,
           all->workloads == 1 ? "" : "s", (uintmax_t)all->episodes, all->episodes == 1 ? "" : "s",
           (uintmax_t)all->rows, all->rows == 1 ? "" : "s");
    return AW_OK;
}

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_store store;
    struct aw_store_counts all = {0};
    struct listing listing = {0};
    enum aw_err err = open_store(run, true, &store, diag);
    if (err)
        return err;
    if ((aw_args_given(run->args, "check") && (err = aw_store_check(&store, diag))) ||
        (err = aw_store_counts(&store, NULL, &all, diag)))
        goto out;
    listing.max = all.workloads < LISTED_MAX ? (uint32_t)all.workloads : LISTED_MAX;
    listing.rows = aw_alloc_new(NULL, listing.max, sizeof *listing.rows);
    if (!listing.rows) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u workloads", listing.max);
        goto out;
    }
    err = aw_store_workloads(&store, add_listed, &listing, diag);
    for (uint32_t i = 0; i < listing.count && !err; i++)
        err = fill_listed(&store, &listing.rows[i], diag);
    if (!err)
        err = list_print(run, &store, &listing, &all, diag);
out:
    aw_alloc_free(NULL, listing.rows);
    aw_store_close(&store);
    return err;
}

static const struct aw_option list_options[] = {
    AW_FLAG("check", 0, "look for damage first; reads everything and fails when it finds some"),
    {.name = NULL},
};
static const struct aw_example list_examples[] = {
    {"aware store list aware.db", "what is kept"},
    {"aware store list aware.db --check", "the same, after a look at every page"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_store_list = {
    .name = "store list",
    .summary = "List the workloads whose trajectories a store keeps",
    .text = "LAST is the latest episode and step; RETURN is the mean return of the latest 10 "
            "episodes that have ended. A store may be read while another process writes to it.",
    .options = list_options,
    .positionals = store_positionals,
    .examples = list_examples,
    .json = true,
    .run = list_run,
};

/* ---- export ---- */

static const char *const format_choices[] = {"auto", "jsonl", "csv", NULL};

/* By --format; else by the end of the file's name. */
static enum aw_transfer_format format_of(const struct aw_call *run, const char *path)
{
    const char *format = aw_args_text(run->args, "format");
    size_t len = strlen(path);
    if (!strcmp(format, "auto"))
        return len >= 4 && !strcasecmp(path + len - 4, ".csv") ? AW_TRANSFER_CSV
                                                               : AW_TRANSFER_JSONL;
    return !strcmp(format, "csv") ? AW_TRANSFER_CSV : AW_TRANSFER_JSONL;
}

/* A stream into a file that is replaced when all of it is there. */
struct replacing {
    struct aw_file_writer writer;
    struct aw_diag diag;
    enum aw_err err;
};

static ssize_t write_some(void *cookie, const char *bytes, size_t len)
{
    struct replacing *replacing = cookie;
    if (!replacing->err)
        replacing->err = aw_file_writer_write(&replacing->writer, bytes, len, &replacing->diag);
    return replacing->err ? 0 : (ssize_t)len;
}

static enum aw_err export_to_file(struct aw_store *store, const struct aw_store_query *query,
                                  enum aw_transfer_format format, const char *path, uint64_t *rows,
                                  struct aw_diag *diag)
{
    struct replacing *to = aw_alloc_new(NULL, 1, sizeof *to);
    FILE *stream = NULL;
    enum aw_err err = AW_OK;
    if (!to)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if ((err = aw_file_writer_open(&to->writer, path, NULL, diag)))
        goto out;
    stream = fopencookie(to, "w", (cookie_io_functions_t){.write = write_some});
    if (!stream || setvbuf(stream, NULL, _IOFBF, STREAM_BYTES)) {
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
        goto out;
    }
    err = aw_store_export(store, query, format, stream, NULL, rows, diag);
    bool flushed = fclose(stream) == 0;
    stream = NULL;
    if (to->err) { /* what the file said is more than that the stream refused */
        err = to->err;
        if (diag)
            *diag = to->diag;
    } else if (!err && !flushed) {
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot write");
    }
    if (!err)
        err = aw_file_writer_commit(&to->writer, diag);
out:
    if (stream)
        fclose(stream);
    aw_file_writer_abort(&to->writer);
    aw_alloc_free(NULL, to);
    return err;
}

static enum aw_err export_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "out");
    const bool to_stdout = !strcmp(path, "-");
    struct aw_store_query query = AW_STORE_EVERY;
    struct aw_store store;
    uint64_t rows = 0;
    enum aw_err err = open_store(run, true, &store, diag);
    if (err)
        return err;
    query.workload = aw_args_text(run->args, "workload");
    query.episode_first = (uint32_t)aw_args_number(run->args, "first");
    query.episode_last = (uint32_t)aw_args_number(run->args, "last");
    enum aw_transfer_format format = format_of(run, path);
    if (!to_stdout) {
        err = export_to_file(&store, &query, format, path, &rows, diag);
    } else {
        err = aw_store_export(&store, &query, format, stdout, NULL, &rows, diag);
        if (!err && fflush(stdout))
            err = aw_fail(diag, AW_ERR_IO, "cannot write to standard output");
    }
    if (!err && rows == 0 && query.workload)
        aw_log_warn(run->log, "no row matches", AW_LOG_STR("workload", query.workload));
    if (!err && !to_stdout)
        printf("%s: %ju row%s\n", path, (uintmax_t)rows, rows == 1 ? "" : "s");
    aw_store_close(&store);
    return err;
}

static const struct aw_option export_options[] = {
    AW_OPTION(FILE, "out", 'o', "FILE", "-", "where to write; - is standard output"),
    AW_OPTION(CHOICE, "format", 0, "FORMAT", "auto",
              "auto: csv for a file that ends with .csv, else jsonl", .choices = format_choices),
    AW_OPTION(TEXT, "workload", 0, "NAME", NULL, "only this one"),
    AW_NUMBER("first", 0, "N", "0", 0, AW_STORE_EPISODE_MAX, "the first episode"),
    AW_NUMBER("last", 0, "N", "2147483646", 0, AW_STORE_EPISODE_MAX, "the last episode"),
    {.name = NULL},
};
static const struct aw_example export_examples[] = {
    {"aware store export aware.db -o all.jsonl", "everything, one JSON object a line"},
    {"aware store export aware.db --workload shop/web -o web.csv", "one workload as CSV"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_store_export = {
    .name = "store export",
    .summary = "Write trajectories as JSON lines or CSV, without loss",
    .text = "Rows come by workload, episode and step. Numbers are the shortest that read back to "
            "the same bits. In CSV a vector is one cell with spaces between its numbers. 'aware "
            "store import' reads both.",
    .options = export_options,
    .positionals = store_positionals,
    .examples = export_examples,
    .run = export_run,
};

/* ---- import ---- */

static enum aw_err import_file(const struct aw_call *run, struct aw_store *store, const char *path,
                               uint64_t *rows, struct aw_diag *diag)
{
    const bool from_stdin = !strcmp(path, "-");
    uint64_t read = 0;
    int fd = -1;
    enum aw_err err = from_stdin ? AW_OK : aw_file_open(path, AW_FILE_WAIT_MS, &fd, diag);
    if (err)
        return err;
    FILE *in = from_stdin ? stdin : fdopen(fd, "r");
    if (!in) {
        close(fd);
        return aw_fail_at(diag, AW_ERR_NOMEM, path, 0, 0, NULL, "out of memory");
    }
    err = aw_store_import(store, format_of(run, path), in, from_stdin ? "standard input" : path,
                          NULL, &read, diag);
    *rows += read;
    if (!from_stdin)
        fclose(in);
    return err;
}

static enum aw_err import_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_store store;
    struct aw_store_counts before = {0}, after = {0};
    uint64_t rows = 0;
    enum aw_err err = open_store(run, false, &store, diag);
    if (err || (err = aw_store_counts(&store, NULL, &before, diag)))
        goto out;
    for (uint32_t i = 1; i < run->args->word_count && !err; i++)
        err = import_file(run, &store, run->args->words[i], &rows, diag);
    if (err && rows)
        aw_log_warn(run->log, "rows before the bad one are kept",
                    AW_LOG_INT("rows", (int64_t)rows));
    if (err || (err = aw_store_counts(&store, NULL, &after, diag)))
        goto out;
    if (run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "rows", json_integer((json_int_t)rows));
        json_object_set_new(object, "rows_new",
                            json_integer((json_int_t)(after.rows - before.rows)));
        err = aw_json_print(object, diag);
    } else {
        printf("%ju row%s read, %ju of them new\n", (uintmax_t)rows, rows == 1 ? "" : "s",
               (uintmax_t)(after.rows - before.rows));
    }
out:
    aw_store_close(&store);
    return err;
}

static const struct aw_option import_options[] = {
    AW_OPTION(CHOICE, "format", 0, "FORMAT", "auto",
              "auto: csv for a file that ends with .csv, else jsonl", .choices = format_choices),
    {.name = NULL},
};
static const struct aw_positional import_positionals[] = {
    {.name = "STORE", .kind = AW_ARG_FILE, .help = "a file, or influx+http://HOST:PORT/DATABASE"},
    {.name = "FILE",
     .kind = AW_ARG_FILE,
     .help = "what to read; - is standard input",
     .repeated = true},
    {.name = NULL},
};
static const struct aw_example import_examples[] = {
    {"aware store import aware.db all.jsonl", "into a file, which is created where it is missing"},
    {"aware store export a.db | aware store import b.db -", "from one store into another"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_store_import = {
    .name = "store import",
    .summary = "Read trajectories that export wrote",
    .text = "A row that is kept already is left alone; another row under the same workload, "
            "episode and step is an error. The first bad line ends the import and is named; what "
            "was before it is kept, so a mended file can be imported again.",
    .options = import_options,
    .positionals = import_positionals,
    .examples = import_examples,
    .json = true,
    .run = import_run,
};

/* ---- prune ---- */

static enum aw_err prune_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *age = aw_args_text(run->args, "older-than");
    struct aw_store store;
    struct aw_store_retention retention = {
        .episodes_max = (uint32_t)aw_args_number(run->args, "episodes"),
        .rows_max = aw_args_number(run->args, "rows"),
        .before_us = INT64_MIN,
    };
    struct aw_store_counts left = {0};
    uint64_t dropped = 0;
    int64_t age_us;
    enum aw_err err = AW_OK;
    if (!retention.episodes_max && !retention.rows_max && !age)
        return aw_fail(diag, AW_ERR_USAGE, "expected --episodes, --rows or --older-than");
    if (age) {
        if ((err = aw_duration_parse(age, AW_QUANTITY_POSITIVE_OR_0, &age_us, diag)))
            return err;
        retention.before_us = aw_clock_now_us(NULL) - age_us;
    }
    if ((err = open_store(run, false, &store, diag)))
        return err;
    err = aw_store_retain(&store, &retention, &dropped, diag);
    if (!err)
        err = aw_store_counts(&store, NULL, &left, diag);
    aw_store_close(&store);
    if (err)
        return err;
    if (run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "rows_dropped", json_integer((json_int_t)dropped));
        json_object_set_new(object, "rows", json_integer((json_int_t)left.rows));
        json_object_set_new(object, "episodes", json_integer((json_int_t)left.episodes));
        return aw_json_print(object, diag);
    }
    printf("%ju row%s dropped, %ju in %ju episode%s left\n", (uintmax_t)dropped,
           dropped == 1 ? "" : "s", (uintmax_t)left.rows, (uintmax_t)left.episodes,
           left.episodes == 1 ? "" : "s");
    return AW_OK;
}

static const struct aw_option prune_options[] = {
    AW_NUMBER("episodes", 0, "N", "0", 0, UINT32_MAX,
              "keep so many of each workload, the newest; 0 is no limit"),
    AW_NUMBER("rows", 0, "N", "0", 0, INT64_MAX,
              "keep so many rows in all; what began first goes first; 0 is no limit"),
    AW_OPTION(TEXT, "older-than", 0, "DURATION", NULL,
              "drop episodes whose last row is older, e.g. 30d"),
    {.name = NULL},
};
static const struct aw_example prune_examples[] = {
    {"aware store prune aware.db --episodes 1000", "the latest 1000 episodes of each workload"},
    {"aware store prune aware.db --older-than 30d --rows 1M", "a month, and a million rows"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_store_prune = {
    .name = "store prune",
    .summary = "Drop old episodes",
    .text = "Whole episodes go, never parts, and never the latest of a workload. An SQLite file "
            "does not shrink; the room is used again.",
    .options = prune_options,
    .positionals = store_positionals,
    .examples = prune_examples,
    .json = true,
    .run = prune_run,
};
