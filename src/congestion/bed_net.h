/*
 * bed_net.h - two network namespaces with a TUN device each, and sockets in them; bed.c alone.
 *
 * Call order: open, in a process with one thread that is meant for this; sockets; close.
 * Memory:     the caller's.
 * Threads:    open changes the namespace of the calling thread; sockets stay where they were made.
 */
#ifndef AW_CONGESTION_BED_NET_H
#define AW_CONGESTION_BED_NET_H

#include <netinet/in.h>

#include <aware/err.h>

#define AW__BED_PORT 5001u /* of the first flow */

enum aw__bed_end { AW__BED_NEAR, AW__BED_FAR, AW__BED_ENDS };

struct aw__bed_net {
    int space[AW__BED_ENDS]; /* namespaces */
    int tun[AW__BED_ENDS];   /* their devices, not blocking */
};

AW_NODISCARD enum aw_err aw__bed_net_open(struct aw__bed_net *net, struct aw_diag *diag);
void aw__bed_net_close(struct aw__bed_net *net);
/* A socket (SOCK_STREAM or SOCK_DGRAM) in one of them; -1: errno says why. */
int aw__bed_socket(const struct aw__bed_net *net, enum aw__bed_end end, int type);
struct sockaddr_in aw__bed_address(enum aw__bed_end end, uint32_t flow);

#endif
