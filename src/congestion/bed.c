/* bed.c - see bed.h. */
#include "congestion/bed.h"

#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"
#include "congestion/bed_net.h"
#include "congestion/episode.h"
#include "congestion/relay.h"
#include "congestion/wire.h"

#define MAGIC         0x61776172u /* "awar" */
#define PAYLOAD       1472u       /* of a packet of 1500 bytes: IP 20, UDP 8 */
#define BATCH         64u
#define TAG_OTHER     UINT16_MAX /* a packet of no flow */
#define PRIORITY      2          /* of the link; senders and receivers are one below */
#define CHILD_GRACE_S 15
#define LOOK_US       100000
#define SETTLE_S      0.05 /* until the first flow starts */

/* What travels, in the byte order of this machine: both ends are on it. */
struct message {
    uint32_t magic, flow;
    uint64_t number;
    double far_s; /* in the ack: when the packet arrived */
};

struct sender {
    struct bed *bed;
    uint32_t flow;
    int sock;
    struct aw_wire wire;
    pthread_t thread;
    bool begun;
};

struct bed {
    const struct aw_bed_plan *plan;
    struct aw_bed_result *result; /* shared with the parent */
    struct aw__bed_net net;
    struct aw_relay forward, back;
    struct sender sender[AW_BED_FLOWS_MAX];
    int far[AW_BED_FLOWS_MAX]; /* a UDP socket, or one that listens, then what it accepted */
    int64_t begin_ns;
    _Atomic bool stop;
};

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double seconds(const struct bed *bed)
{
    return (double)(clock_ns(CLOCK_MONOTONIC) - bed->begin_ns) * 1e-9;
}

static bool hurry(int priority)
{
    const struct sched_param param = {.sched_priority = priority};
    return !pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

/* Waits for any of `polls`, or until `until_s`, at most a tenth of a second. */
static void wait_for(const struct bed *bed, struct pollfd *polls, uint32_t count, double until_s)
{
    const double wait_s = fmin(fmax(until_s - seconds(bed), 0), 0.1);
    const struct timespec wait = {.tv_nsec = (long)(wait_s * 1e9)};
    (void)ppoll(polls, count, &wait, NULL);
}

/* ---- the link ---- */

/* The flow that a packet belongs to, by its far port. */
static uint16_t tag_of(const struct bed *bed, const unsigned char *data, ssize_t len, bool back)
{
    const uint32_t header = 4u * (data[0] & 15u);
    if (len < 28 || data[0] >> 4 != 4 || header + 4 > (uint32_t)len)
        return TAG_OTHER;
    const unsigned char *port = data + header + (back ? 0 : 2);
    const uint32_t flow = ((uint32_t)port[0] << 8 | port[1]) - AW__BED_PORT;
    return flow < bed->plan->flow_count ? (uint16_t)flow : TAG_OTHER;
}

static void take_in(struct bed *bed, bool back)
{
    unsigned char data[2048];
    struct aw_relay *relay = back ? &bed->back : &bed->forward;
    const int tun = bed->net.tun[back ? AW__BED_FAR : AW__BED_NEAR];
    for (uint32_t i = 0; i < BATCH; i++) {
        const ssize_t len = read(tun, data, sizeof data);
        if (len < 20)
            return;
        const uint16_t tag = tag_of(bed, data, len, back);
        if (tag == TAG_OTHER || len > (ssize_t)AW_RELAY_BYTES_MAX)
            continue; /* what a namespace says to itself: neighbours, multicast */
        const double now_s = seconds(bed);
        double due_s;
        const enum aw_relay_fate fate =
            aw_relay_put(relay, data, (uint32_t)len, tag, now_s, &due_s);
        if (back)
            continue;
        struct aw_bed_seen *seen = &bed->result->flow[tag];
        seen->packets++;
        seen->lost += fate == AW_RELAY_LOST;
        seen->dropped += fate == AW_RELAY_DROPPED;
        if (fate != AW_RELAY_TAKEN)
            continue;
        aw_latency_histogram_record(&seen->delay, (int64_t)((due_s - now_s) * 1e6));
        const double out_s = due_s - bed->plan->link.delay_s;
        if (out_s < bed->plan->seconds) {
            seen->bits += 8.0 * (double)len;
            seen->bin_bits[(uint32_t)(out_s / AW_BED_BIN_S)] += 8.0 * (double)len;
        }
    }
}

static void let_out(struct bed *bed, bool back)
{
    struct aw_relay *relay = back ? &bed->back : &bed->forward;
    const int tun = bed->net.tun[back ? AW__BED_NEAR : AW__BED_FAR];
    const struct aw_relay_slot *slot;
    double now_s = seconds(bed);
    while ((slot = aw_relay_take(relay, now_s))) {
        aw_latency_histogram_record(&bed->result->late, (int64_t)((now_s - slot->due_s) * 1e6));
        const ssize_t n = write(tun, slot->data, slot->bytes);
        (void)n; /* a full socket behind it drops as a machine does */
        now_s = seconds(bed);
    }
}

static void *link_main(void *ctx)
{
    struct bed *bed = ctx;
    bed->result->real_time = hurry(PRIORITY);
    while (!bed->stop) {
        struct pollfd polls[] = {{.fd = bed->net.tun[AW__BED_NEAR], .events = POLLIN},
                                 {.fd = bed->net.tun[AW__BED_FAR], .events = POLLIN}};
        wait_for(bed, polls, 2, fmin(aw_relay_due(&bed->forward), aw_relay_due(&bed->back)));
        take_in(bed, false);
        take_in(bed, true);
        let_out(bed, false);
        let_out(bed, true);
    }
    return NULL;
}

/* ---- senders ---- */

static void packets_send(struct sender *sender)
{
    static const unsigned char nothing[PAYLOAD - sizeof(struct message)];
    struct message message[BATCH];
    struct iovec parts[BATCH][2];
    struct mmsghdr heads[BATCH];
    uint32_t count = 0;
    double now_s = seconds(sender->bed);
    while (count < BATCH && aw_wire_due(&sender->wire) <= now_s) {
        message[count] = (struct message){
            .magic = MAGIC, .flow = sender->flow, .number = aw_wire_sent(&sender->wire, now_s)};
        parts[count][0] = (struct iovec){&message[count], sizeof message[count]};
        parts[count][1] = (struct iovec){(void *)(uintptr_t)nothing, sizeof nothing};
        heads[count] = (struct mmsghdr){.msg_hdr = {.msg_iov = parts[count], .msg_iovlen = 2}};
        count++;
    }
    for (uint32_t at = 0; at < count;) {
        const int sent = sendmmsg(sender->sock, heads + at, count - at, MSG_DONTWAIT);
        if (sent <= 0)
            break; /* the device is full: these are lost */
        at += (uint32_t)sent;
    }
}

static void acks_take(struct sender *sender)
{
    struct message message;
    while (recv(sender->sock, &message, sizeof message, MSG_DONTWAIT) == sizeof message) {
        if (message.magic == MAGIC && message.flow == sender->flow && isfinite(message.far_s))
            aw_wire_acked(&sender->wire, message.number, message.far_s, seconds(sender->bed));
    }
}

static void udp_main(struct sender *sender)
{
    struct bed *bed = sender->bed;
    struct aw_wire *wire = &sender->wire;
    while (!bed->stop) {
        struct pollfd poll = {.fd = sender->sock, .events = POLLIN};
        wait_for(bed, &poll, 1, aw_wire_wake(wire));
        acks_take(sender);
        aw_wire_look(wire, seconds(bed));
        packets_send(sender);
    }
    bed->result->flow[sender->flow].halvings = wire->halvings;
}

static void tcp_main(struct sender *sender)
{
    static const char nothing[65536];
    const struct sockaddr_in to = aw__bed_address(AW__BED_FAR, sender->flow);
    if (connect(sender->sock, (const struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS)
        return;
    while (!sender->bed->stop) {
        struct pollfd poll = {.fd = sender->sock, .events = POLLOUT};
        wait_for(sender->bed, &poll, 1, INFINITY);
        if (poll.revents & POLLOUT) {
            const ssize_t n =
                send(sender->sock, nothing, sizeof nothing, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                return;
        }
    }
}

static void *sender_main(void *ctx)
{
    struct sender *sender = ctx;
    const struct aw_bed_flow *flow = &sender->bed->plan->flow[sender->flow];
    (void)hurry(PRIORITY - 1);
    while (!sender->bed->stop && seconds(sender->bed) < flow->start_s + SETTLE_S)
        wait_for(sender->bed, NULL, 0, flow->start_s + SETTLE_S);
    if (flow->tcp)
        tcp_main(sender);
    else
        udp_main(sender);
    return NULL;
}

/* ---- receivers ---- */

/* When the kernel saw the packet; our own waking would blur it. */
static double arrived(const struct bed *bed, struct msghdr *head)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(c), sizeof at);
            return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
        }
    }
    return seconds(bed);
}

static void udp_echo(const struct bed *bed, int sock)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        struct message message;
        struct sockaddr_in from;
        char control[CMSG_SPACE(sizeof(struct timespec))];
        struct iovec part = {&message, sizeof message};
        struct msghdr head = {.msg_name = &from,
                              .msg_namelen = sizeof from,
                              .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof control};
        if (recvmsg(sock, &head, MSG_DONTWAIT) < (ssize_t)sizeof message)
            return;
        if (message.magic != MAGIC)
            continue;
        message.far_s = arrived(bed, &head);
        (void)sendto(sock, &message, sizeof message, MSG_DONTWAIT, (struct sockaddr *)&from,
                     sizeof from);
    }
}

static void tcp_swallow(struct bed *bed, uint32_t flow, bool *listens)
{
    static char swallowed[262144];
    if (*listens) {
        const int sock = accept4(bed->far[flow], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (sock < 0)
            return;
        (void)close(bed->far[flow]);
        bed->far[flow] = sock;
        *listens = false;
    }
    while (recv(bed->far[flow], swallowed, sizeof swallowed, MSG_DONTWAIT) > 0)
        ;
}

static void *far_main(void *ctx)
{
    struct bed *bed = ctx;
    bool listens[AW_BED_FLOWS_MAX] = {true, true, true, true};
    (void)hurry(PRIORITY - 1);
    while (!bed->stop) {
        struct pollfd polls[AW_BED_FLOWS_MAX];
        for (uint32_t i = 0; i < bed->plan->flow_count; i++)
            polls[i] = (struct pollfd){.fd = bed->far[i], .events = POLLIN};
        wait_for(bed, polls, bed->plan->flow_count, INFINITY);
        for (uint32_t i = 0; i < bed->plan->flow_count; i++) {
            if (!polls[i].revents)
                continue;
            if (bed->plan->flow[i].tcp)
                tcp_swallow(bed, i, &listens[i]);
            else
                udp_echo(bed, bed->far[i]);
        }
    }
    return NULL;
}

/* ---- the child ---- */

static enum aw_err tcp_open(struct bed *bed, uint32_t i, struct aw_diag *diag)
{
    const char *name = bed->plan->flow[i].tcp;
    const int sock = bed->sender[i].sock;
    if (setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)))
        return aw_fail(diag, AW_ERR_NOTFOUND, "this kernel's TCP has no congestion control %s",
                       name);
    if (listen(bed->far[i], 1))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot listen: %s", strerror(errno));
    return AW_OK;
}

static enum aw_err udp_open(struct bed *bed, uint32_t i, struct aw_diag *diag)
{
    const int on = 1;
    const struct sockaddr_in to = aw__bed_address(AW__BED_FAR, i);
    if (setsockopt(bed->far[i], SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) ||
        connect(bed->sender[i].sock, (const struct sockaddr *)&to, sizeof to))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot use a UDP socket: %s", strerror(errno));
    return aw_wire_init(&bed->sender[i].wire, bed->plan->flow[i].controller,
                        bed->plan->flow[i].self, AW_RATE_MAX, bed->plan->flow[i].start_s + SETTLE_S,
                        NULL, diag);
}

static enum aw_err flow_open(struct bed *bed, uint32_t i, struct aw_diag *diag)
{
    const bool tcp = bed->plan->flow[i].tcp;
    const int type = (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK;
    const struct sockaddr_in at = aw__bed_address(AW__BED_FAR, i);
    bed->sender[i] = (struct sender){.bed = bed, .flow = i};
    bed->far[i] = aw__bed_socket(&bed->net, AW__BED_FAR, type);
    bed->sender[i].sock = aw__bed_socket(&bed->net, AW__BED_NEAR, type);
    if (bed->far[i] < 0 || bed->sender[i].sock < 0 ||
        bind(bed->far[i], (const struct sockaddr *)&at, sizeof at))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot make a socket: %s", strerror(errno));
    return tcp ? tcp_open(bed, i, diag) : udp_open(bed, i, diag);
}

static enum aw_err child_open(struct bed *bed, struct aw_diag *diag)
{
    const struct aw_bed_plan *plan = bed->plan;
    const struct aw_link back = {.rate = plan->link.rate, .delay_s = plan->link.delay_s};
    enum aw_err err = aw__bed_net_open(&bed->net, diag);
    if (!err)
        err = aw_relay_open(&bed->forward, &plan->link, plan->seed, NULL, diag);
    if (!err)
        err = aw_relay_open(&bed->back, &back, plan->seed, NULL, diag);
    for (uint32_t i = 0; !err && i < plan->flow_count; i++)
        err = flow_open(bed, i, diag);
    return err;
}

static enum aw_err child_run(struct bed *bed, struct aw_diag *diag)
{
    pthread_t link, far;
    bool link_runs = false, far_runs = false;
    enum aw_err err = child_open(bed, diag);
    if (err)
        return err;
    bed->begin_ns = clock_ns(CLOCK_MONOTONIC);
    link_runs = !aw_thread_begin(&link, link_main, bed);
    far_runs = !aw_thread_begin(&far, far_main, bed);
    bool all = link_runs && far_runs;
    for (uint32_t i = 0; i < bed->plan->flow_count; i++) {
        struct sender *sender = &bed->sender[i];
        sender->begun = all && !aw_thread_begin(&sender->thread, sender_main, sender);
        all = all && sender->begun;
    }
    while (all && seconds(bed) < bed->plan->seconds)
        wait_for(bed, NULL, 0, bed->plan->seconds);
    bed->stop = true;
    for (uint32_t i = 0; i < bed->plan->flow_count; i++)
        if (bed->sender[i].begun)
            (void)pthread_join(bed->sender[i].thread, NULL);
    if (far_runs)
        (void)pthread_join(far, NULL);
    if (link_runs)
        (void)pthread_join(link, NULL);
    return all ? AW_OK : aw_fail(diag, AW_ERR_UNAVAILABLE, "the system gives no more threads");
}

/* ---- the parent ---- */

static enum aw_err plan_check(const struct aw_bed_plan *plan, struct aw_diag *diag)
{
    if (plan->flow_count < 1 || plan->flow_count > AW_BED_FLOWS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u flows, found %u", AW_BED_FLOWS_MAX,
                       plan->flow_count);
    if (!(plan->seconds > 0 && plan->seconds <= AW_BED_SECONDS_MAX))
        return aw_fail(diag, AW_ERR_RANGE, "expected up to %g seconds, found %g",
                       AW_BED_SECONDS_MAX, plan->seconds);
    return AW_OK;
}

static enum aw_err child_wait(pid_t child, double seconds_max, aw_bed_progress *progress, void *ctx,
                              struct aw_diag *diag)
{
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = AW_OK;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        const double passed_s = (double)(aw_clock_monotonic_us(NULL) - begin_us) * 1e-6;
        if (!err && progress && !progress(ctx, fmin(passed_s / seconds_max, 1)))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "stopped");
        if (!err && passed_s > seconds_max + CHILD_GRACE_S)
            err = aw_fail(diag, AW_ERR_DEADLINE, "the test bed did not end");
        if (err) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &status, 0);
            return err;
        }
        const struct timespec wait = {.tv_nsec = LOOK_US * 1000};
        (void)nanosleep(&wait, NULL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return aw_fail(diag, AW_ERR_CHECK, "the test bed's process ended with status %d", status);
    return AW_OK;
}

enum aw_err aw_bed_run(const struct aw_bed_plan *plan, aw_bed_progress *progress, void *ctx,
                       struct aw_bed_result *ret, struct aw_diag *diag)
{
    enum aw_err err = plan_check(plan, diag);
    if (err)
        return err;
    struct aw_bed_result *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for results");
    const pid_t parent = getpid(), child = fork();
    if (child < 0) {
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot start a process: %s", strerror(errno));
    } else if (!child) {
        static struct bed bed;
        struct aw_diag said = {0};
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        bed = (struct bed){.plan = plan, .result = shared};
        shared->err = child_run(&bed, &said);
        snprintf(shared->words, sizeof shared->words, "%s", said.text);
        _exit(0);
    } else {
        err = child_wait(child, plan->seconds, progress, ctx, diag);
        if (!err && shared->err)
            err = aw_fail(diag, shared->err, "%s", shared->words);
        if (!err)
            *ret = *shared;
    }
    (void)munmap(shared, sizeof *shared);
    return err;
}
