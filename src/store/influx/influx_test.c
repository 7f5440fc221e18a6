/*
 * influx_test.c - the InfluxDB store against a real server, started on loopback with a folder of
 * its own. Where no influxd is installed the tests are skipped, and say so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/http.h"
#include "base/port_testing.h"
#include "store/conformance_testing.h"
#include "store/influx/pack.h"

#define START_ATTEMPTS 600 /* of 50 ms: a loaded machine takes its time */

static char folder[64] = "/tmp/aware-influx-XXXXXX";
static pid_t server;
static unsigned port;
static bool missing;

static const char *find_server(void)
{
    static char path[512];
    const char *from = getenv("PATH");
    while (from && *from) {
        size_t len = strcspn(from, ":");
        snprintf(path, sizeof path, "%.*s/influxd", (int)len, from);
        if (access(path, X_OK) == 0)
            return path;
        from += len + (from[len] == ':');
    }
    return NULL;
}

static bool answers(const char *path)
{
    char url[128];
    struct aw_http *http = NULL;
    struct aw_http_answer answer;
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", port, path);
    assert_ok(aw_http_open(&http, NULL, NULL, NULL));
    struct aw_http_request request = {.url = url, .name = "server"};
    bool fine = !aw_http_send(http, &request, &answer, NULL) && answer.status == 204;
    aw_http_close(http);
    return fine;
}

static void start_server(void)
{
    char config[128];
    snprintf(config, sizeof config, "%s/influxdb.conf", folder);
    port = test_port_free();
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fprintf(file,
            "reporting-disabled = true\nbind-address = \"127.0.0.1:0\"\n"
            "[meta]\ndir = \"%s/meta\"\n"
            "[data]\ndir = \"%s/data\"\nwal-dir = \"%s/wal\"\nquery-log-enabled = false\n"
            "[http]\nbind-address = \"127.0.0.1:%u\"\nlog-enabled = false\n"
            "[monitor]\nstore-enabled = false\n",
            folder, folder, folder, port);
    fclose(file);
    const char *path = find_server();
    server = fork();
    if (server == 0) {
        int null = open("/dev/null", O_RDWR);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies takes it along */
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execl(path, path, "-config", config, (char *)NULL);
        _exit(127);
    }
    assert_true(server > 0);
    int attempt = 0;
    while (!answers("/ping") && attempt++ < START_ATTEMPTS)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(attempt < START_ATTEMPTS);
}

static void end_server(int signal)
{
    int status;
    kill(server, signal);
    assert_int_equal(waitpid(server, &status, 0), server);
}

static int make_server(void **state)
{
    (void)state;
    missing = !find_server();
    if (missing) {
        print_message("influxd is not installed; `make test` installs it\n");
        return 0;
    }
    if (!mkdtemp(folder))
        return -1;
    start_server();
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int remove_server(void **state)
{
    (void)state;
    if (missing)
        return 0;
    end_server(SIGTERM);
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void name_influx(struct backend *it)
{
    if (missing)
        skip();
    snprintf(it->url, sizeof it->url, "influx+http://127.0.0.1:%u/test_%u", port, it->opened);
}

static struct backend influx = {.lasts = true, .name_next = name_influx};

/* More than a page of episodes, of rows and of picks. */
static void pages_are_put_together(void **state)
{
    enum { EPISODES = 1050, DRAWS = 200 };
    struct aw_store store;
    struct aw_store_counts counts;
    struct aw_rng rng, twin;
    static struct aw_store_episode e[EPISODES];
    float reward[DRAWS];
    uint32_t seen = 0, count;
    open_next(*state, &store);
    assert_ok(aw_store_begin(&store, NULL));
    for (uint32_t i = 0; i < EPISODES; i++)
        append_row(&store, "a", i, 7, true);
    assert_ok(aw_store_commit(&store, NULL));
    assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
    assert_true(counts.rows == EPISODES && counts.episodes == EPISODES);
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, same_as_made, &seen, NULL));
    assert_int_equal(seen, EPISODES);
    assert_ok(aw_store_recent_returns(&store, "a", EPISODES, e, &count, NULL));
    assert_int_equal(count, EPISODES);
    for (uint32_t i = 0; i < EPISODES; i++)
        assert_int_equal(e[i].episode, i);
    aw_rng_init(&rng, 3, 0);
    twin = rng;
    struct aw_store_batch batch = {.obs_dim = OBS, .act_dim = ACT, .reward = reward};
    assert_ok(aw_store_sample(&store, "a", DRAWS, &rng, &batch, NULL));
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct sample_row r;
        make_row(&r, "a", aw_rng_below(&twin, EPISODES), 7);
        assert_true(reward[i] == r.row.reward);
    }
    uint64_t dropped;
    struct aw_store_retention retention = {.episodes_max = 900, .before_us = INT64_MIN};
    assert_ok(aw_store_retain(&store, &retention, &dropped, NULL));
    assert_int_equal(dropped, EPISODES - 900);
    aw_store_close(&store);
}

static void a_group_larger_than_the_buffer_arrives(void **state)
{
    static float wide[AW_STORE_OBS_MAX];
    struct aw_store store;
    struct aw_store_counts counts;
    struct sample_row r;
    open_next(*state, &store);
    assert_ok(aw_store_begin(&store, NULL));
    for (uint32_t i = 0; i < 150; i++) { /* of 11 KB each */
        make_row(&r, "a", 0, i);
        r.row.obs = r.row.next_obs = wide;
        r.row.obs_dim = AW_STORE_OBS_MAX;
        assert_ok(aw_store_append(&store, &r.row, NULL));
    }
    assert_ok(aw_store_commit(&store, NULL));
    assert_ok(aw_store_counts(&store, "a", &counts, NULL));
    assert_int_equal(counts.rows, 150);
    assert_ok(aw_store_check(&store, NULL));
    aw_store_close(&store);
}

static void write_line(const char *line)
{
    char url[128];
    struct aw_http *http = NULL;
    struct aw_http_answer answer;
    snprintf(url, sizeof url, "http://127.0.0.1:%u/write?db=test_%u", port, influx.opened);
    struct aw_http_request request = {
        .method = "POST", .url = url, .name = "x", .body = line, .body_len = strlen(line)};
    assert_ok(aw_http_open(&http, NULL, NULL, NULL));
    assert_ok(aw_http_send(http, &request, &answer, NULL));
    assert_int_equal(answer.status, 204);
    aw_http_close(http);
}

static void what_others_wrote_is_refused(void **state)
{
    struct aw_store store;
    struct aw_diag diag = {0};
    open_next(*state, &store);
    write_line("aware_step,workload=a row=\"AQAA\",reward=1,violated=0i,ended=0i,at_us=0i 5");
    aw_store_close(&store);
    assert_ok(aw_store_open(&store, influx.url, NULL, NULL, NULL));
    assert_int_equal(aw_store_check(&store, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "episode 0, step 5 of \"a\""));
    aw_store_close(&store);
    write_line("aware_step,workload=a%2 row=\"AQAA\",reward=1,violated=0i,ended=0i,at_us=0i 5");
    assert_int_equal(aw_store_open(&store, influx.url, NULL, NULL, &diag), AW_ERR_FORMAT);
}

static void a_reader_creates_and_writes_nothing(void **state)
{
    struct aw_store store;
    struct aw_store_options reading = {.read_only = true};
    struct aw_diag diag = {0};
    struct sample_row r;
    open_next(*state, &store);
    append_row(&store, "a", 0, 0, false);
    aw_store_close(&store);
    assert_ok(aw_store_open(&store, influx.url, &reading, NULL, NULL));
    make_row(&r, "a", 0, 1);
    assert_int_equal(aw_store_append(&store, &r.row, &diag), AW_ERR_UNSUPPORTED);
    aw_store_close(&store);
    influx.opened++;
    name_influx(&influx);
    assert_int_equal(aw_store_open(&store, influx.url, &reading, NULL, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "database not found"));
}

static void a_server_that_is_killed_has_what_it_acknowledged(void **state)
{
    struct aw_store store;
    struct aw_diag diag = {0};
    struct aw_store_last last;
    struct sample_row r;
    uint32_t seen = 0;
    open_next(*state, &store);
    append_episode(&store, "a", 0, 20, true);
    end_server(SIGKILL);
    make_row(&r, "a", 1, 0);
    assert_int_equal(aw_store_append(&store, &r.row, &diag), AW_ERR_UNAVAILABLE);
    assert_true(diag.file[0] && diag.text[0]);
    /* a group whose rows went nowhere says so at commit too */
    assert_int_equal(aw_store_last(&store, "a", &last, NULL), AW_ERR_UNAVAILABLE);
    unsigned before = port;
    start_server();
    if (port == before) {
        assert_ok(aw_store_last(&store, "a", &last, NULL));
        assert_int_equal(last.episode, 0);
    }
    aw_store_close(&store);
    name_influx(&influx); /* the port is another one */
    assert_ok(aw_store_open(&store, influx.url, NULL, NULL, NULL));
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, same_as_made, &seen, NULL));
    assert_int_equal(seen, 20);
    aw_store_close(&store);
}

static void a_group_that_went_nowhere_says_so_at_commit(void **state)
{
    struct aw_store store;
    struct aw_store_last last;
    open_next(*state, &store);
    append_row(&store, "a", 0, 0, false);
    assert_ok(aw_store_begin(&store, NULL));
    append_row(&store, "a", 0, 1, false);
    end_server(SIGKILL);
    assert_int_equal(aw_store_last(&store, "b", &last, NULL), AW_ERR_NODATA); /* from memory */
    struct counting counting = {0};
    assert_int_equal(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL),
                     AW_ERR_UNAVAILABLE);
    assert_int_equal(aw_store_commit(&store, NULL), AW_ERR_IO);
    aw_store_close(&store);
    start_server();
    name_influx(&influx);
    assert_ok(aw_store_open(&store, influx.url, NULL, NULL, NULL));
    assert_ok(aw_store_last(&store, "a", &last, NULL));
    assert_int_equal(last.step, 0);
    append_row(&store, "a", 0, 1, false);
    aw_store_close(&store);
}

static void an_open_that_fails_leaves_nothing(void **state)
{
    static const struct {
        const char *why, *url;
        enum aw_err err;
    } cases[] = {
        {"no database", "influx+http://127.0.0.1:1/", AW_ERR_CONFIG},
        {"no database and no slash", "influx+http://127.0.0.1:1", AW_ERR_CONFIG},
        {"a database that would need quoting", "influx+http://127.0.0.1:1/a\"b", AW_ERR_CONFIG},
        {"nobody there", "influx+http://user:hunter2@127.0.0.1:1/x", AW_ERR_UNAVAILABLE},
    };
    struct aw_store store;
    struct aw_diag diag;
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (aw_store_open(&store, cases[i].url, NULL, NULL, &diag) != cases[i].err)
            fail_msg("%s: %s", cases[i].why, diag.text);
        assert_null(store.ops);
        assert_true(!strstr(diag.text, "hunter2") && !strstr(diag.file, "hunter2"));
    }
    for (uint64_t budget = 0; budget < 2; budget++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        assert_int_equal(aw_store_open(&store, cases[3].url, NULL, &counting.alloc, NULL),
                         AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

static void a_packed_row_is_read_or_refused(void **state)
{
    static struct aw__packed packed;
    struct sample_row r;
    char buf[AW__PACK_TEXT_MAX];
    struct aw_text text;
    (void)state;
    make_row(&r, "a", 1, 1);
    aw_text_init(&text, buf, sizeof buf);
    aw__pack(&r.row, &packed, &text);
    struct aw_store_row back = {.workload = "a", .episode = 1, .step = 1};
    assert_true(aw__unpack(buf, text.len, &packed, &back));
    assert_true(aw__row_same(&r.row, &back));
    for (size_t len = 0; len < text.len; len++)
        assert_false(aw__unpack(buf, len, &packed, &back));
    for (size_t i = 0; i < 8; i++) { /* version and flags */
        char kept = buf[i];
        buf[i] = '*';
        assert_false(aw__unpack(buf, text.len, &packed, &back));
        buf[i] = kept;
    }
    assert_true(aw__unpack(buf, text.len, &packed, &back));
}

AW_TEST_GROUP("store-influx")
{
    const struct CMUnitTest tests[] = {
        AW_CONFORMANCE(&influx),
        AW_CONFORMANCE_TEST(pages_are_put_together, &influx),
        AW_CONFORMANCE_TEST(a_group_larger_than_the_buffer_arrives, &influx),
        AW_CONFORMANCE_TEST(what_others_wrote_is_refused, &influx),
        AW_CONFORMANCE_TEST(a_reader_creates_and_writes_nothing, &influx),
        AW_CONFORMANCE_TEST(a_server_that_is_killed_has_what_it_acknowledged, &influx),
        AW_CONFORMANCE_TEST(a_group_that_went_nowhere_says_so_at_commit, &influx),
        cmocka_unit_test(an_open_that_fails_leaves_nothing),
        cmocka_unit_test(a_packed_row_is_read_or_refused),
    };
    return cmocka_run_group_tests_name("influx", tests, make_server, remove_server);
}
