/* kube_testing.h - a client and the double that it talks to; included by tests alone. */
#ifndef AW_KUBE_TESTING_H
#define AW_KUBE_TESTING_H

#include <string.h>

#include "base/testing.h"
#include "doubles/fake_apiserver.h"
#include "kube/client.h"

#define AW_TESTING_WAIT_US 60000000 /* how long a condition may take on a machine that is busy */

struct aw_kube_world {
    struct aw_fake_apiserver *twin;
    struct aw_kube_config config;
    struct aw_clock_virtual clock; /* waits cost nothing, and tests can count them */
    struct aw_kube *kube;
    char server[64], ns[8];
};

/* `options` may be NULL; its clock is the virtual one of the world unless it has one. */
static inline void aw_kube_world_open(struct aw_kube_world *world,
                                      const struct aw_kube_options *options)
{
    struct aw_kube_options wanted = options ? *options : (struct aw_kube_options){0};
    *world = (struct aw_kube_world){.ns = "default"};
    world->twin = aw_fake_apiserver_open();
    assert_non_null(world->twin);
    for (size_t i = 0;
         i < sizeof world->server && (world->server[i] = aw_fake_apiserver_url(world->twin)[i]);
         i++) {
    }
    world->config.server = world->server;
    world->config.ns = world->ns;
    aw_clock_virtual_init(&world->clock, 1769860800000000);
    aw_clock_virtual_advance(&world->clock, 1000000);
    wanted.clock = wanted.clock ? wanted.clock : &world->clock.clock;
    assert_ok(aw_kube_open(&world->kube, &world->config, &wanted, NULL, NULL));
}

static inline void aw_kube_world_close(struct aw_kube_world *world)
{
    aw_kube_close(world->kube);
    aw_fake_apiserver_close(world->twin);
}

#endif
