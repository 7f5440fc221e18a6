/*
 * port_testing.h - a port for a server that a test starts.
 *
 * The kernel gives outgoing connections their ports from 32768 on, in the order of its own; one
 * that it names as free may be such a connection's the next moment, before the server has bound
 * it. Those below are left alone.
 */
#ifndef AW_BASE_PORT_TESTING_H
#define AW_BASE_PORT_TESTING_H

#include <arpa/inet.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/testing.h"

static inline uint16_t test_port_free(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint16_t any;
        assert_int_equal(getrandom(&any, sizeof any, 0), sizeof any);
        const uint16_t port = (uint16_t)(20000 + any % 12000);
        const struct sockaddr_in address = {.sin_family = AF_INET,
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                            .sin_port = htons(port)};
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        const int err = bind(fd, (const struct sockaddr *)&address, sizeof address);
        close(fd);
        if (!err)
            return port;
    }
    fail_msg("no port is free");
    return 0;
}

#endif
