/* bed_net.c - see bed_net.h. The calls are namespaces(7), tun.txt of the kernel, netdevice(7). */
#include "congestion/bed_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define QUEUE_LEN 16384 /* of the device: packets that wait for the link's thread */
#define BUFFER    (8 << 20)

/* 198.18.0.0/15 is for test beds (RFC 2544): no such address is anywhere else. */
static const char *const address[AW__BED_ENDS] = {"198.18.0.1", "198.18.0.2"};

struct sockaddr_in aw__bed_address(enum aw__bed_end end, uint32_t flow)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)(AW__BED_PORT + flow))};
    (void)inet_pton(AF_INET, address[end], &in.sin_addr);
    return in;
}

static enum aw_err refused(const char *what, struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s: %s", what, strerror(errno));
}

static void put(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* not needed: the rights are there with and without a mapped user */
    const ssize_t n = write(fd, text, strlen(text));
    (void)n;
    (void)close(fd);
}

/* Without the right to make a namespace: a user namespace of our own gives it, where allowed. */
static enum aw_err space_new(struct aw_diag *diag)
{
    if (!unshare(CLONE_NEWNET))
        return AW_OK;
    if (errno != EPERM)
        return refused("cannot make a network namespace", diag);
    char map[64];
    const unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return refused("cannot make a network namespace (needs CAP_NET_ADMIN, or user namespaces)",
                       diag);
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid);
    put("/proc/self/gid_map", map);
    return AW_OK;
}

/* A device that is up, in the namespace of the caller. */
static enum aw_err device(enum aw__bed_end end, int *ret_tun, struct aw_diag *diag)
{
    struct ifreq request = {0};
    const struct sockaddr_in here = aw__bed_address(end, 0);
    struct sockaddr_in mask = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffffff00u)};
    const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0)
        return refused("cannot open /dev/net/tun", diag);
    *ret_tun = tun;
    snprintf(request.ifr_name, sizeof request.ifr_name, "aware%d", (int)end);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(tun, TUNSETIFF, &request))
        return refused("cannot make a TUN device", diag);
    const int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return refused("cannot make a socket", diag);
    bool good = true;
    request.ifr_qlen = QUEUE_LEN;
    good = good && !ioctl(sock, SIOCSIFTXQLEN, &request);
    request.ifr_mtu = 1500;
    good = good && !ioctl(sock, SIOCSIFMTU, &request);
    memcpy(&request.ifr_addr, &here, sizeof here);
    good = good && !ioctl(sock, SIOCSIFADDR, &request);
    memcpy(&request.ifr_netmask, &mask, sizeof mask);
    good = good && !ioctl(sock, SIOCSIFNETMASK, &request);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    good = good && !ioctl(sock, SIOCSIFFLAGS, &request);
    const int why = errno;
    (void)close(sock);
    errno = why;
    return good ? AW_OK : refused("cannot set up a TUN device", diag);
}

enum aw_err aw__bed_net_open(struct aw__bed_net *net, struct aw_diag *diag)
{
    *net = (struct aw__bed_net){.space = {-1, -1}, .tun = {-1, -1}};
    enum aw_err err = AW_OK;
    for (int end = 0; !err && end < AW__BED_ENDS; end++) {
        err = space_new(diag);
        if (!err)
            err = device((enum aw__bed_end)end, &net->tun[end], diag);
        if (!err) {
            net->space[end] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
            err = net->space[end] < 0 ? refused("cannot open a network namespace", diag) : AW_OK;
        }
    }
    if (err)
        aw__bed_net_close(net);
    return err;
}

void aw__bed_net_close(struct aw__bed_net *net)
{
    for (int end = 0; end < AW__BED_ENDS; end++) {
        if (net->space[end] >= 0)
            (void)close(net->space[end]);
        if (net->tun[end] >= 0)
            (void)close(net->tun[end]);
    }
    *net = (struct aw__bed_net){.space = {-1, -1}, .tun = {-1, -1}};
}

int aw__bed_socket(const struct aw__bed_net *net, enum aw__bed_end end, int type)
{
    const int size = BUFFER;
    if (setns(net->space[end], CLONE_NEWNET))
        return -1;
    const int sock = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (sock >= 0 && type == SOCK_DGRAM) {
        /* beyond the limit of users where the right is there; a smaller one will do too */
        (void)setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
        (void)setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    }
    return sock;
}
