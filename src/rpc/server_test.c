/* server_test.c - the server against clients that are wrong, slow, rude or many. */
#include "rpc/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/health/v1/health.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "rpc/rpc_testing.h"

#define CONNECTIONS    1000u
#define MEMORY_KIB_MAX (192 * 1024) /* of a thousand connections, whose two ends are here */
#define TOKEN          "a-token-of-many-characters"

/* ---- a service that echoes ---- */

static _Atomic uint32_t streams_open, streams_closed;
static struct aw_rpc_stream *_Atomic last_stream;

static void echo_unary(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    (void)ctx;
    uint8_t *room = aw_rpc_reply_room(reply, size);
    if (room && size)
        memcpy(room, bytes, size);
}

static void echo_open(void *ctx, struct aw_rpc_stream *stream, void **ret_self,
                      struct aw_rpc_reply *reply)
{
    (void)ctx, (void)reply;
    atomic_store(&last_stream, stream);
    atomic_fetch_add(&streams_open, 1);
    *ret_self = stream;
}

/* Says each message twice: as its answer, and by itself. */
static void echo_duplex(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    if (aw_rpc_stream_send(self, bytes, size))
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "you do not read");
    else
        echo_unary(NULL, bytes, size, reply);
}

static void echo_lockstep(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    (void)self;
    echo_unary(NULL, bytes, size, reply);
}

static _Atomic uint32_t long_begun;
static _Atomic bool long_may_end;

/* As long as the test likes, on a worker. */
static void echo_long(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    (void)self;
    if (aw_rpc_reply_defer(reply))
        return;
    atomic_fetch_add(&long_begun, 1);
    const int64_t until_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    while (!atomic_load(&long_may_end) && aw_clock_monotonic_us(NULL) < until_us)
        usleep(1000);
    echo_unary(NULL, bytes, size, reply);
}

static void echo_close(void *self)
{
    (void)self;
    atomic_fetch_add(&streams_closed, 1);
}

static const struct aw_rpc_method echo_methods[] = {
    {.path = "/test.Echo/Unary", .kind = AW_RPC_UNARY, .unary = echo_unary},
    {.path = "/test.Echo/LongUnary", .kind = AW_RPC_UNARY, .unary = echo_long},
    {.path = "/test.Echo/LongLockstep",
     .kind = AW_RPC_LOCKSTEP,
     .open = echo_open,
     .message = echo_long,
     .close = echo_close},
    {.path = "/test.Echo/Lockstep",
     .kind = AW_RPC_LOCKSTEP,
     .open = echo_open,
     .message = echo_lockstep,
     .close = echo_close},
    {.path = "/test.Echo/Duplex",
     .kind = AW_RPC_DUPLEX,
     .open = echo_open,
     .message = echo_duplex,
     .close = echo_close},
    {.path = NULL},
};
static const struct aw_rpc_service echo = {.name = "test.Echo", .methods = echo_methods};

static struct aw_rpc_world world;

static int set_up(void **state)
{
    (void)state;
    atomic_store(&streams_open, 0);
    atomic_store(&streams_closed, 0);
    atomic_store(&long_begun, 0);
    atomic_store(&long_may_end, false);
    aw_rpc_world_open(&world, NULL, &echo);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_rpc_world_close(&world);
    return 0;
}

/* The status of one call; what it answered is thrown away. */
static enum aw_rpc_status status_of(struct aw_rpc_client *client, const char *path,
                                    const uint8_t *bytes, size_t size)
{
    struct aw_rpc_answer answer = {0};
    struct aw_diag diag = {0};
    enum aw_rpc_status status = AW_RPC_UNKNOWN;
    const enum aw_err err = aw_rpc_client_call(client, path, bytes, size, &answer, &status, &diag);
    assert_true(!err == (status == AW_RPC_OK));
    aw_rpc_answer_free(&answer);
    return status;
}

static bool still_serves(void)
{
    const uint8_t word[] = "still there";
    struct aw_rpc_answer answer = {0};
    const enum aw_err err = aw_rpc_client_call(world.client, "/test.Echo/Unary", word, sizeof word,
                                               &answer, NULL, NULL);
    const bool same =
        !err && answer.size == sizeof word && !memcmp(answer.bytes, word, sizeof word);
    aw_rpc_answer_free(&answer);
    return same;
}

/* ---- what takes long ---- */

#define LONG_STREAMS (AW_RPC_THREADS + 2u) /* more than there are workers */

static void what_takes_long_holds_up_nobody_and_is_answered_in_the_end(void **state)
{
    (void)state;
    struct aw_rpc_talk *talk[LONG_STREAMS], *quick;
    struct aw_rpc_answer answer = {0};
    const uint8_t word[] = "quick";
    assert_ok(aw_rpc_talk_open(&quick, world.client, "/test.Echo/Lockstep", NULL));
    for (uint8_t i = 0; i < LONG_STREAMS; i++) {
        assert_ok(aw_rpc_talk_open(&talk[i], world.client, "/test.Echo/LongLockstep", NULL));
        assert_ok(aw_rpc_talk_send(talk[i], &i, 1, NULL));
    }
    aw_testing_until(atomic_load(&long_begun) == AW_RPC_THREADS);
    assert_true(still_serves());
    for (int i = 0; i < 100; i++) {
        assert_ok(aw_rpc_talk_exchange(quick, word, sizeof word, &answer, NULL));
        assert_memory_equal(answer.bytes, word, sizeof word);
        aw_rpc_answer_free(&answer);
    }
    assert_int_equal(atomic_load(&long_begun), AW_RPC_THREADS);
    atomic_store(&long_may_end, true);
    for (uint8_t i = 0; i < LONG_STREAMS; i++) {
        assert_ok(aw_rpc_talk_receive(talk[i], &answer, NULL));
        assert_int_equal(answer.size, 1);
        assert_int_equal(answer.bytes[0], i);
        aw_rpc_answer_free(&answer);
        aw_rpc_talk_close(talk[i]);
    }
    aw_rpc_talk_close(quick);
    assert_int_equal(status_of(world.client, "/test.Echo/LongUnary", word, sizeof word), AW_RPC_OK);
    aw_testing_until(atomic_load(&streams_closed) == LONG_STREAMS + 1);
}

static void a_client_that_goes_while_its_answer_is_made_leaves_nothing_behind(void **state)
{
    (void)state;
    struct aw_rpc_talk *talk;
    struct aw_rpc_stats stats;
    assert_ok(aw_rpc_talk_open(&talk, world.client, "/test.Echo/LongLockstep", NULL));
    assert_ok(aw_rpc_talk_send(talk, (const uint8_t *)"x", 1, NULL));
    aw_testing_until(atomic_load(&long_begun) == 1);
    aw_rpc_talk_close(talk);
    assert_true(still_serves());
    assert_int_equal(atomic_load(&streams_closed), 0); /* not under the feet of its handler */
    atomic_store(&long_may_end, true);
    aw_testing_until(atomic_load(&streams_closed) == 1);
    aw_testing_until((aw_rpc_server_stats(world.server, &stats), stats.live == 0));
}

/* ---- methods ---- */

static void an_unknown_method_is_unimplemented(void **state)
{
    (void)state;
    assert_int_equal(status_of(world.client, "/test.Echo/Nothing", NULL, 0), AW_RPC_UNIMPLEMENTED);
    assert_int_equal(status_of(world.client, "nonsense", NULL, 0), AW_RPC_UNIMPLEMENTED);
    assert_true(still_serves());
}

static void messages_of_every_size_come_back(void **state)
{
    static const size_t sizes[] = {0, 1, 23, 24, 1000, 65536, 1 << 20, AW_RPC_MESSAGE_BYTES_MAX};
    uint8_t *bytes = malloc(AW_RPC_MESSAGE_BYTES_MAX);
    struct aw_rpc_talk *talk = NULL;
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < AW_RPC_MESSAGE_BYTES_MAX; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    assert_ok(aw_rpc_talk_open(&talk, world.client, "/test.Echo/Lockstep", NULL));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct aw_rpc_answer answer = {0};
        assert_ok(aw_rpc_talk_exchange(talk, bytes, sizes[i], &answer, NULL));
        assert_int_equal(answer.size, sizes[i]);
        if (sizes[i])
            assert_memory_equal(answer.bytes, bytes, sizes[i]);
        aw_rpc_answer_free(&answer);
    }
    aw_rpc_talk_close(talk);
    free(bytes);
}

static void a_message_that_is_too_large_is_refused(void **state)
{
    const size_t size = AW_RPC_MESSAGE_BYTES_MAX + 1;
    uint8_t *bytes = calloc(1, size);
    (void)state;
    assert_non_null(bytes);
    assert_int_equal(status_of(world.client, "/test.Echo/Unary", bytes, size),
                     AW_RPC_RESOURCE_EXHAUSTED);
    free(bytes);
    assert_true(still_serves());
}

static void either_side_of_a_duplex_speaks_when_it_likes(void **state)
{
    struct aw_rpc_talk *talk = NULL;
    const uint8_t word[] = "twice";
    (void)state;
    assert_ok(aw_rpc_talk_open(&talk, world.client, "/test.Echo/Duplex", NULL));
    for (uint32_t i = 0; i < 20; i++)
        assert_ok(aw_rpc_talk_send(talk, word, sizeof word, NULL));
    for (uint32_t i = 0; i < 40; i++) {
        struct aw_rpc_answer answer = {0};
        assert_ok(aw_rpc_talk_receive(talk, &answer, NULL));
        assert_int_equal(answer.size, sizeof word);
        aw_rpc_answer_free(&answer);
    }
    aw_rpc_talk_close(talk);
    aw_testing_until(atomic_load(&streams_closed) == 1);
}

static void who_does_not_read_fills_a_queue_and_no_more(void **state)
{
    enum { SIZE = 1 << 20, MESSAGES_MAX = 4 * AW_RPC_QUEUE };
    struct aw_rpc_talk *talk = NULL;
    uint8_t *bytes = calloc(1, SIZE);
    enum aw_err err = AW_OK;
    (void)state;
    assert_non_null(bytes);
    assert_ok(aw_rpc_talk_open(&talk, world.client, "/test.Echo/Duplex", NULL));
    /* The service ends the stream when its queue is full; the client hears of it when it sends. */
    for (uint32_t i = 0; i < MESSAGES_MAX && !err; i++)
        err = aw_rpc_talk_send(talk, bytes, SIZE, NULL);
    aw_rpc_talk_close(talk);
    aw_testing_until(atomic_load(&streams_closed) == 1);
    free(bytes);
    assert_true(still_serves());
}

/* ---- limits ---- */

static void more_calls_than_there_is_room_for_are_refused(void **state)
{
    const struct aw_rpc_config config = {.calls_max = 2};
    struct aw_rpc_world small;
    struct aw_rpc_talk *talk[2] = {NULL};
    struct aw_rpc_answer answer = {0};
    const uint8_t byte = 1;
    (void)state;
    aw_rpc_world_open(&small, &config, &echo);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(aw_rpc_talk_open(&talk[i], small.client, "/test.Echo/Lockstep", NULL));
        assert_ok(aw_rpc_talk_exchange(talk[i], &byte, 1, &answer, NULL));
        aw_rpc_answer_free(&answer);
    }
    assert_int_equal(status_of(small.client, "/test.Echo/Unary", &byte, 1),
                     AW_RPC_RESOURCE_EXHAUSTED);
    aw_rpc_talk_close(talk[0]);
    aw_testing_until(status_of(small.client, "/test.Echo/Unary", &byte, 1) == AW_RPC_OK);
    aw_rpc_talk_close(talk[1]);
    aw_rpc_world_close(&small);
}

static void a_stream_that_says_nothing_is_ended(void **state)
{
    const struct aw_rpc_config config = {.first_message_us = 1, .stream_idle_us = 1};
    struct aw_rpc_world strict;
    struct aw_rpc_talk *talk = NULL;
    struct aw_rpc_answer answer = {0};
    (void)state;
    aw_rpc_world_open(&strict, &config, &echo);
    assert_ok(aw_rpc_talk_open(&talk, strict.client, "/test.Echo/Lockstep", NULL));
    assert_int_not_equal(aw_rpc_talk_receive(talk, &answer, NULL), AW_OK);
    aw_rpc_talk_close(talk);
    aw_testing_until(atomic_load(&streams_closed) >= 1);
    aw_rpc_world_close(&strict);
}

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    /* a full queue of the socket is waited for */
    aw_testing_until(!connect(fd, (const struct sockaddr *)&address, sizeof address) ||
                     errno == EISCONN);
    return fd;
}

static void bytes_that_are_no_http2_harm_nobody_else(void **state)
{
    static const char *const rubbish[] = {
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        const int fd = dial(world.socket);
        const size_t len = strlen(rubbish[i]);
        assert_int_equal(send(fd, rubbish[i], len, MSG_NOSIGNAL), (ssize_t)len);
        assert_true(still_serves());
        close(fd);
    }
    assert_true(still_serves());
}

static long memory_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "VmRSS:", 6))
            kib = strtol(line + 6, NULL, 10);
    fclose(file);
    return kib;
}

/* Half of them never say anything; the other half begin as HTTP/2 does, and then are silent. */
static void a_thousand_connections_are_held(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static int fd[CONNECTIONS];
    struct rlimit limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 3 * CONNECTIONS)
        skip();
    assert_true(still_serves());
    const long before = memory_kib();
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fd[i] = dial(world.socket);
        if (i % 2)
            assert_int_equal(send(fd[i], preface, sizeof preface - 1, MSG_NOSIGNAL),
                             (ssize_t)sizeof preface - 1);
        if (i % 100 == 0)
            assert_true(still_serves());
    }
    assert_true(still_serves());
    print_message("%u connections: %ld KiB more\n", CONNECTIONS, memory_kib() - before);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(memory_kib() - before < MEMORY_KIB_MAX);
#endif
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        close(fd[i]);
    assert_true(still_serves());
}

/* ---- who may come ---- */

static void beyond_loopback_tls_and_a_token_are_demanded(void **state)
{
    static const struct {
        struct aw_rpc_config config;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {{.listen = "0.0.0.0:0"}, AW_ERR_CONFIG, "neither"},
        {{.listen = "0.0.0.0:0", .token = TOKEN}, AW_ERR_CONFIG, "no TLS"},
        {{.listen = "0.0.0.0:0", .tls_cert_path = "/c", .tls_key_path = "/k"},
         AW_ERR_CONFIG,
         "no token"},
        {{.listen = "127.0.0.1:0", .tls_cert_path = "/c"}, AW_ERR_CONFIG, "no key"},
        {{.listen = "127.0.0.1:0", .token = "short"}, AW_ERR_CONFIG, "a token to be guessed"},
        {{.listen = "127.0.0.1:0", .orders = true}, AW_ERR_CONFIG, "orders without a token"},
        {{.listen = "no address"}, AW_ERR_CONFIG, "no address"},
        {{.listen = "unix:"}, AW_ERR_CONFIG, "no path"},
        {{.listen = "127.0.0.1:0", .tls_cert_path = "/no/c", .tls_key_path = "/no/k"},
         AW_ERR_NOTFOUND,
         "no such certificate"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_rpc_server *server = NULL;
        struct aw_diag diag = {0};
        if (aw_rpc_server_open(&server, &cases[i].config, NULL, 0, &diag) != cases[i].err)
            fail_msg("%s: %s", cases[i].why, diag.text);
        assert_null(server);
        assert_true(*diag.text);
    }
}

static void the_token_is_asked_for_where_there_is_one(void **state)
{
    static const struct {
        const char *token;
        enum aw_rpc_status status;
    } cases[] = {
        {NULL, AW_RPC_UNAUTHENTICATED},
        {"another-token-of-some-length", AW_RPC_UNAUTHENTICATED},
        {TOKEN "x", AW_RPC_UNAUTHENTICATED},
        {TOKEN, AW_RPC_OK},
    };
    const struct aw_rpc_config config = {.token = TOKEN};
    struct aw_rpc_world guarded;
    (void)state;
    aw_rpc_world_open(&guarded, &config, &echo);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_rpc_client_config who = {
            .address = guarded.listen, .token = cases[i].token, .timeout_us = AW_TESTING_WAIT_US};
        struct aw_rpc_client *client = NULL;
        assert_ok(aw_rpc_client_open(&client, &who, NULL));
        assert_int_equal(status_of(client, "/test.Echo/Unary", NULL, 0), cases[i].status);
        /* who has no token does not learn which methods there are, but a probe may look */
        assert_int_equal(status_of(client, "/test.Echo/Nothing", NULL, 0),
                         cases[i].status ? AW_RPC_UNAUTHENTICATED : AW_RPC_UNIMPLEMENTED);
        assert_int_equal(status_of(client, "/grpc.health.v1.Health/Check", NULL, 0), AW_RPC_OK);
        aw_rpc_client_close(client);
    }
    aw_rpc_world_close(&guarded);
}

static void a_socket_is_its_owners_alone_and_nobody_elses_is_taken(void **state)
{
    struct aw_rpc_server *second = NULL;
    struct aw_diag diag = {0};
    struct stat there;
    char path[128];
    (void)state;
    assert_int_equal(stat(world.socket, &there), 0);
    assert_int_equal(there.st_mode & 0777, 0600);
    const struct aw_rpc_config same = {.listen = world.listen};
    assert_int_equal(aw_rpc_server_open(&second, &same, NULL, 0, &diag), AW_ERR_UNAVAILABLE);
    snprintf(path, sizeof path, "%s/file", world.folder);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    const struct aw_rpc_config file = {.listen = path};
    assert_int_equal(aw_rpc_server_open(&second, &file, NULL, 0, &diag), AW_ERR_EXISTS);
    unlink(path);
    assert_true(still_serves());
}

static void a_port_that_is_taken_is_said(void **state)
{
    struct aw_rpc_server *first = NULL, *second = NULL;
    struct aw_diag diag = {0};
    char listen[32];
    (void)state;
    assert_ok(aw_rpc_server_open(&first, &(struct aw_rpc_config){.listen = "127.0.0.1:0"}, NULL, 0,
                                 NULL));
    snprintf(listen, sizeof listen, "127.0.0.1:%u", aw_rpc_server_port(first));
    assert_int_equal(
        aw_rpc_server_open(&second, &(struct aw_rpc_config){.listen = listen}, NULL, 0, &diag),
        AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, listen));
    aw_rpc_server_close(first);
}

/* ---- health and reflection ---- */

static int32_t health_asked(struct aw_rpc_talk *watch, const char *service)
{
    char name[64];
    uint8_t bytes[80];
    struct aw_rpc_answer answer = {0};
    Grpc__Health__V1__HealthCheckRequest request;
    grpc__health__v1__health_check_request__init(&request);
    snprintf(name, sizeof name, "%s", service ? service : "");
    request.service = name;
    const size_t size = grpc__health__v1__health_check_request__pack(&request, bytes);
    if (!watch)
        assert_ok(aw_rpc_client_call(world.client, "/grpc.health.v1.Health/Check", bytes, size,
                                     &answer, NULL, NULL));
    else if (service)
        assert_ok(aw_rpc_talk_exchange(watch, bytes, size, &answer, NULL));
    else
        assert_ok(aw_rpc_talk_receive(watch, &answer, NULL));
    Grpc__Health__V1__HealthCheckResponse *response =
        grpc__health__v1__health_check_response__unpack(NULL, answer.size, answer.bytes);
    assert_non_null(response);
    const int32_t status = response->status;
    grpc__health__v1__health_check_response__free_unpacked(response, NULL);
    aw_rpc_answer_free(&answer);
    return status;
}

static void health_is_told_and_its_changes_are_watched(void **state)
{
    enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };
    struct aw_rpc_talk *watch = NULL, *unknown = NULL;
    const uint8_t nobody[] = {0x0a, 2, 'n', 'o'};
    (void)state;
    assert_int_equal(health_asked(NULL, ""), SERVING);
    assert_int_equal(health_asked(NULL, "test.Echo"), SERVING);
    assert_int_equal(status_of(world.client, "/grpc.health.v1.Health/Check", nobody, 4),
                     AW_RPC_NOT_FOUND);
    assert_ok(aw_rpc_talk_open(&watch, world.client, "/grpc.health.v1.Health/Watch", NULL));
    assert_ok(aw_rpc_talk_open(&unknown, world.client, "/grpc.health.v1.Health/Watch", NULL));
    assert_int_equal(health_asked(watch, "test.Echo"), SERVING);
    assert_int_equal(health_asked(unknown, "no"), SERVICE_UNKNOWN);
    aw_rpc_server_health(world.server, "test.Echo", false);
    aw_rpc_server_health(world.server, "test.Echo", false);
    aw_rpc_server_health(world.server, "test.Echo", true);
    assert_int_equal(health_asked(watch, NULL), NOT_SERVING);
    assert_int_equal(health_asked(watch, NULL), SERVING);
    assert_int_equal(health_asked(NULL, ""), SERVING);
    aw_rpc_talk_close(watch);
    aw_rpc_talk_close(unknown);
}

static void reflection_knows_every_service_and_symbol(void **state)
{
    typedef Grpc__Reflection__V1alpha__ServerReflectionRequest request_message;
    typedef Grpc__Reflection__V1alpha__ServerReflectionResponse response_message;
    static const struct {
        const char *symbol;
        size_t files; /* with what is imported; 0: not known */
    } cases[] = {
        {"aware.v1.Environment", 1},
        {"aware.v1.Environment.Step", 1},
        {"aware.v1.Space.Kind", 1},
        {"aware.v1.Space.Kind.KIND_BOX", 1},
        {"aware.v1.ListResponse.Entry", 1},
        {"aware.v1.StepRequest.action", 1},
        {"aware.v1.Autoreset", 1},
        {"aware.v1.Agent", 2},
        {"grpc.health.v1.Health.Watch", 1},
        {"aware.v1", 0},
        {"aware.v1.", 0},
        {"aware.v1.Nothing", 0},
        {"aware.v1.Environment.Step.more", 0},
        {"", 0},
    };
    struct aw_rpc_talk *talk = NULL;
    (void)state;
    assert_ok(aw_rpc_talk_open(&talk, world.client,
                               "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                               NULL));
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const bool list = i == sizeof cases / sizeof *cases;
        struct aw_rpc_answer answer = {0};
        request_message request;
        char text[64];
        uint8_t bytes[128];
        grpc__reflection__v1alpha__server_reflection_request__init(&request);
        snprintf(text, sizeof text, "%s", list ? "*" : cases[i].symbol);
        /* list_services is 7, file_containing_symbol is 4 */
        request.message_request_case = list ? 7 : 4;
        request.list_services = text;
        const size_t size =
            grpc__reflection__v1alpha__server_reflection_request__pack(&request, bytes);
        assert_ok(aw_rpc_talk_exchange(talk, bytes, size, &answer, NULL));
        response_message *response = grpc__reflection__v1alpha__server_reflection_response__unpack(
            NULL, answer.size, answer.bytes);
        assert_non_null(response);
        if (list)
            assert_int_equal(response->list_services_response->n_service, 4);
        else if (!cases[i].files)
            assert_int_equal(response->error_response->error_code, AW_RPC_NOT_FOUND);
        else if (response->message_response_case != 4)
            fail_msg("%s is not known", text);
        else
            assert_int_equal(response->file_descriptor_response->n_file_descriptor_proto,
                             cases[i].files);
        grpc__reflection__v1alpha__server_reflection_response__free_unpacked(response, NULL);
        aw_rpc_answer_free(&answer);
    }
    aw_rpc_talk_close(talk);
}

/* ---- the end ---- */

static void a_server_that_closes_ends_its_streams(void **state)
{
    struct aw_rpc_world ending;
    struct aw_rpc_talk *talk[2] = {NULL};
    static const char *const path[] = {"/test.Echo/Lockstep", "/test.Echo/Duplex"};
    const uint8_t byte = 1;
    (void)state;
    aw_rpc_world_open(&ending, NULL, &echo);
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_rpc_answer answer = {0};
        assert_ok(aw_rpc_talk_open(&talk[i], ending.client, path[i], NULL));
        assert_ok(aw_rpc_talk_exchange(talk[i], &byte, 1, &answer, NULL));
        aw_rpc_answer_free(&answer);
    }
    aw_rpc_server_close(ending.server);
    ending.server = NULL;
    assert_int_equal(atomic_load(&streams_closed), 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_rpc_answer answer = {0};
        enum aw_err err = AW_OK;
        while (!err) { /* what was sent before is still there to be read */
            err = aw_rpc_talk_receive(talk[i], &answer, NULL);
            aw_rpc_answer_free(&answer);
        }
        aw_rpc_talk_close(talk[i]);
    }
    aw_rpc_world_close(&ending);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

AW_TEST_GROUP("rpc-server")
{
    const struct CMUnitTest tests[] = {
        TEST(what_takes_long_holds_up_nobody_and_is_answered_in_the_end),
        TEST(a_client_that_goes_while_its_answer_is_made_leaves_nothing_behind),
        TEST(an_unknown_method_is_unimplemented),
        TEST(messages_of_every_size_come_back),
        TEST(a_message_that_is_too_large_is_refused),
        TEST(either_side_of_a_duplex_speaks_when_it_likes),
        TEST(who_does_not_read_fills_a_queue_and_no_more),
        TEST(more_calls_than_there_is_room_for_are_refused),
        TEST(a_stream_that_says_nothing_is_ended),
        TEST(bytes_that_are_no_http2_harm_nobody_else),
        TEST(a_thousand_connections_are_held),
        TEST(beyond_loopback_tls_and_a_token_are_demanded),
        TEST(the_token_is_asked_for_where_there_is_one),
        TEST(a_socket_is_its_owners_alone_and_nobody_elses_is_taken),
        TEST(a_port_that_is_taken_is_said),
        TEST(health_is_told_and_its_changes_are_watched),
        TEST(reflection_knows_every_service_and_symbol),
        TEST(a_server_that_closes_ends_its_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
