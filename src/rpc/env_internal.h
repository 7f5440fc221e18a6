/* env_internal.h - private to the files of the Environment service. */
#ifndef AW_RPC_ENV_INTERNAL_H
#define AW_RPC_ENV_INTERNAL_H

#include <aware/env.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rpc/env_service.h"
#include "rpc/session.h"

#define AW__SESSION_ID_MAX   33u /* 128 random bits in hexadecimal, with a NUL */
#define AW__OPTION_BYTES_MAX 512u

/* A session of single calls. `users` and `doomed` are guarded by the service's lock. */
struct aw__slot {
    bool taken;
    char id[AW__SESSION_ID_MAX];
    struct aw__session session;
    pthread_mutex_t lock; /* of the session: calls wait for each other */
    uint32_t users;       /* calls under way */
    bool doomed;          /* freed by the last of them */
    int64_t used_us;
};

struct aw_env_service {
    struct aw_rpc_service service;
    char only[AW_ENV_NAME_MAX]; /* "": all */
    pthread_mutex_t lock;
    uint32_t sessions, copies; /* with those of streams */
    struct aw__slot slot[AW_ENV_SERVICE_SESSIONS];
    _Atomic uint64_t steps;
};

/* Options of a message as "key=value" texts. */
struct aw__pairs {
    char text[AW__SESSION_PAIRS_MAX][AW__OPTION_BYTES_MAX];
    const char *pair[AW__SESSION_PAIRS_MAX];
    size_t count;
};
/* AW_ERR_LIMIT: too many, or too long. */
AW_NODISCARD enum aw_err aw__pairs_add(struct aw__pairs *pairs, const char *key, const char *value,
                                       struct aw_diag *diag);

/* protobuf-c has no const texts; packing only reads them. */
char *aw__text(const char *value);

/* Spaces and options as messages, for descriptions; they point into `block`. */
#define AW__PAGE_SPACES 3u
struct Aware__V1__Space;
struct Aware__V1__Option;
struct aw__page {
    struct Aware__V1__Space *space[AW__PAGE_SPACES];
    struct Aware__V1__Option **options;
    size_t option_count;
    void *block;
};
AW_NODISCARD enum aw_err aw__page_make(struct aw__page *page, const struct aw_space *const *spaces,
                                       size_t space_count, const struct aw_conf_field *fields,
                                       struct aw_diag *diag);
void aw__page_free(struct aw__page *page);

/* Whether the service has it. */
AW_NODISCARD enum aw_err aw__service_has(const struct aw_env_service *service, const char *name,
                                         struct aw_diag *diag);

/* The unary methods that only tell. */
void aw__env_list(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply);
void aw__env_describe(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply);

#endif
