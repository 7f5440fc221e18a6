/*
 * balancer_testing.h - a balancer with servers behind it, for its tests alone.
 *
 * Whatever happens to a link is tested over TCP and over a Unix socket (BOTH), and what happens to
 * a request on a trunk, too (EVERY_WAY): by the initial state of a test, which world_begin looks
 * at.
 */
#ifndef AW_CLUSTER_LOCAL_BALANCER_TESTING_H
#define AW_CLUSTER_LOCAL_BALANCER_TESTING_H

#include "base/port_testing.h"
#include "cluster/local/balancer_internal.h"
#include "cluster/local/standin_testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

enum way { WAY_TCP, WAY_UNIX, WAY_TRUNK };
static enum way ways[] = {WAY_TCP, WAY_UNIX, WAY_TRUNK};
/* clang-format off */
#define OVER_UNIX(test)  { #test " (Unix socket)", test, NULL, NULL, &ways[WAY_UNIX] }
#define OVER_TRUNK(test) { #test " (trunk)", test, NULL, NULL, &ways[WAY_TRUNK] }
/* clang-format on */
#define BOTH(test)      cmocka_unit_test(test), OVER_UNIX(test)
#define EVERY_WAY(test) BOTH(test), OVER_TRUNK(test)

#define SERVERS_MAX 8

struct world {
    struct aw__balancer *balancer;
    uint16_t port;
    enum way way;
    char dir[64]; /* of Unix sockets */
    pid_t server[SERVERS_MAX];
    uint16_t server_port[SERVERS_MAX];
};

/* The path that a server on that port is offered. */
static inline const char *path_of(const struct world *world, uint16_t port, char buf[128])
{
    snprintf(buf, 128, "%s/%u.sock", world->dir, (unsigned)port);
    return buf;
}

/* A server on a port of its own; it is not in the balancer yet. */
static inline void server_start(struct world *world, uint32_t slot, const char *word,
                                const char *value)
{
    char text[16], path[128];
    world->server_port[slot] = test_port_free();
    path_of(world, world->server_port[slot], path);
    snprintf(text, sizeof text, "%u", (unsigned)world->server_port[slot]);
    static const char *const words[] = {"tcp", "socket", "trunk"};
    const char *const socket_word = words[world->way];
    const char *const socket_path = world->way ? path : "tcp";
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "standin", aw_test_group_name, "serve", text, socket_word,
              socket_path, word, value, (char *)NULL);
        _exit(127);
    }
    world->server[slot] = pid;
}

static inline void slot_on(const struct world *world, uint32_t slot)
{
    char path[128];
    aw__balancer_set(world->balancer, slot, AW__BACKEND_ON, world->server_port[slot],
                     path_of(world, world->server_port[slot], path));
}

static inline void server_end(pid_t pid, int number)
{
    int status;
    kill(pid, number);
    waitpid(pid, &status, 0);
}

static inline void config_init(struct aw__balancer_config *config)
{
    *config = (struct aw__balancer_config){.slots = SERVERS_MAX,
                                           .clients = 256,
                                           .health_path = "/healthz",
                                           .health_period_us = 100000,
                                           .health_timeout_us = 500000,
                                           .health_failures = 3,
                                           .connect_timeout_us = 500000,
                                           .wait_us = 3000000,
                                           .request_timeout_us = 5000000,
                                           .idle_us = 1000000};
}

static inline bool view_ready(const struct world *world, uint32_t slot)
{
    struct aw__backend_view view;
    aw__balancer_view(world->balancer, slot, &view);
    return view.seen && view.ready;
}

#define WAITS_MAX 8000 /* of 5 ms: others may have the machine */
#define wait_for(condition)                                             \
    do {                                                                \
        bool met_ = false;                                              \
        for (int i_ = 0; i_ < WAITS_MAX && !(met_ = (condition)); i_++) \
            standin_wait_ms(5);                                         \
        assert_true(met_);                                              \
    } while (0)

static inline bool view_is_unix(const struct world *world, uint32_t slot)
{
    struct aw__backend_view view;
    aw__balancer_view(world->balancer, slot, &view);
    return view.is_unix;
}

static inline bool view_has_trunk(const struct world *world, uint32_t slot)
{
    struct aw__backend_view view;
    aw__balancer_view(world->balancer, slot, &view);
    return view.has_trunk;
}

static inline void world_begin(struct world *world, const struct aw__balancer_config *config,
                               uint32_t servers, void **state)
{
    struct aw_diag diag = {0};
    *world = (struct world){.way = *state ? *(const enum way *)*state : WAY_TCP,
                            .dir = "/tmp/aware-balancer-XXXXXX"};
    assert_non_null(mkdtemp(world->dir));
    assert_ok(aw__balancer_new(config, NULL, &world->balancer, &diag));
    world->port = aw__balancer_port(world->balancer);
    for (uint32_t i = 0; i < servers; i++) {
        server_start(world, i, NULL, NULL);
        slot_on(world, i);
    }
    for (uint32_t i = 0; i < servers; i++) {
        wait_for(view_ready(world, i));
        wait_for(view_is_unix(world, i) == (world->way != WAY_TCP));
        wait_for(view_has_trunk(world, i) == (world->way == WAY_TRUNK));
    }
}

static inline void world_end(struct world *world)
{
    aw__balancer_free(world->balancer);
    for (uint32_t i = 0; i < SERVERS_MAX; i++)
        if (world->server[i])
            server_end(world->server[i], SIGKILL);
    DIR *dir = opendir(world->dir);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(world->dir), 0);
}

static inline struct aw__balancer_counts counts_of(const struct world *world)
{
    struct aw__balancer_counts counts;
    aw__balancer_counts(world->balancer, &counts);
    return counts;
}

/* CPU time of this process, the balancer's thread in it. */
static inline int64_t own_cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000000LL + used.tv_nsec / 1000;
}

/* Bad luck loses no request, however busy the machine is: what fails with "books: " has failed
 * (tools/run-tests). */
static inline void assert_lost(const struct world *world, uint64_t expected)
{
    const uint64_t lost = counts_of(world).lost;
    if (lost != expected)
        fail_msg("books: %llu lost, expected %llu", (unsigned long long)lost,
                 (unsigned long long)expected);
}

/* Whoever comes also goes, and is counted once. */
static inline void books_close(const struct world *world)
{
    wait_for(counts_of(world).in_flight == 0);
    const struct aw__balancer_counts c = counts_of(world);
    const uint64_t ended = c.completions + c.refused + c.lost + c.timed_out + c.failed + c.aborted;
    if (c.arrivals != ended)
        fail_msg("books: %llu arrived, %llu ended", (unsigned long long)c.arrivals,
                 (unsigned long long)ended);
}

/* From here to thread_release the balancer's thread waits before its orders: whatever a replica
 * does meanwhile, the order comes first. */
static inline void thread_hold(const struct world *world)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&world->balancer->lock);
    atomic_fetch_add(&world->balancer->orders, 1);
    assert_int_equal(write(world->balancer->wake.fd, &one, sizeof one), sizeof one);
    standin_wait_ms(50);
}

static inline void thread_release(const struct world *world, uint32_t slot_off)
{
    struct aw__order *order = &world->balancer->order[slot_off];
    order->mode = AW__BACKEND_OFF;
    order->number++;
    pthread_mutex_unlock(&world->balancer->lock);
}

/* A replica of which the test itself is in charge: where links of the slot will arrive. */
static inline int listener_open(struct world *world, uint32_t slot)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    char path[128];
    int fd = -1;
    world->server_port[slot] = test_port_free();
    if (world->way != WAY_TCP) {
        assert_ok(aw_net_listen_unix(path_of(world, world->server_port[slot], path), 8, &fd, NULL));
        assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* accept(2) is to wait */
        return fd;
    }
    address.sin_port = htons(world->server_port[slot]);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

#endif
