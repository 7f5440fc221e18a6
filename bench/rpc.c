/*
 * rpc.c - `aware-bench rpc`: environment steps per second over gRPC, from a client in C to a
 * server in another process of this machine.
 *
 * A step is one message each way. Single steps measure the wire and the wake-ups of two processes;
 * 256 environments in a message measure what is left when those are shared. The environments' own
 * time is in all of them, so an environment is measured that costs little (pendulum-v1) and the one
 * that this is for (autoscale-v0), whose actions are held for 20 steps, as controllers do.
 */
#include <aware/env.h>
#include <aware/v1/environment.pb-c.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/space.h"
#include "bench/bench.h"
#include "rpc/client.h"
#include "rpc/env_service.h"

#define MEASURE_US    1500000
#define ROUNDS        3u /* of which the quickest counts: what else is on the machine slows us */
#define BATCHED       256u
#define HOLD          20u
#define TIMEOUT_US    300000000 /* making 256 of autoscale-v0 takes seconds */
#define STREAM_GOAL   10000.0
#define BATCHED_GOAL  200000.0
#define REQUEST_BYTES 65536u

struct server {
    pid_t pid;
    char folder[64], socket[96];
};

/* In the child, which has not touched gRPC before the fork. Never returns. */
static void serve(const char *listen, int ready)
{
    struct aw_env_service *service = NULL;
    struct aw_rpc_server *server = NULL;
    struct aw_diag diag = {0};
    struct aw_rpc_config config = {.listen = listen};
    sigset_t stop;
    int number;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    enum aw_err err = aw_env_service_new(&service, NULL, &diag);
    const struct aw_rpc_service *services[] = {err ? NULL : aw_env_service_service(service)};
    err = err ? err : aw_rpc_server_open(&server, &config, services, 1, &diag);
    const char byte = err ? 0 : 1;
    if (write(ready, &byte, 1) != 1 || err)
        _exit(1);
    sigwait(&stop, &number);
    aw_rpc_server_close(server);
    aw_env_service_free(service);
    _exit(0);
}

static void server_end(struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGTERM);
        while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (*server->folder) {
        unlink(server->socket);
        rmdir(server->folder);
    }
    *server = (struct server){0};
}

static enum aw_err server_begin(struct server *server, struct aw_diag *diag)
{
    int ends[2];
    char byte = 0;
    *server = (struct server){.folder = "/tmp/aware-bench-XXXXXX"};
    if (!mkdtemp(server->folder)) {
        *server->folder = '\0';
        return aw_fail(diag, AW_ERR_IO, "no folder for a socket: %s", strerror(errno));
    }
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->folder);
    char listen[sizeof server->socket + 8];
    snprintf(listen, sizeof listen, "unix:%s", server->socket);
    if (pipe(ends))
        return aw_fail(diag, AW_ERR_IO, "no pipe to the server: %s", strerror(errno));
    server->pid = fork();
    if (server->pid == 0)
        serve(listen, ends[1]);
    close(ends[1]);
    const bool ready = server->pid > 0 && read(ends[0], &byte, 1) == 1 && byte;
    close(ends[0]);
    return ready ? AW_OK : aw_fail(diag, AW_ERR_IO, "the server did not begin");
}

/* ---- a client ---- */

struct asker {
    struct aw_rpc_client *client;
    struct aw_rpc_talk *talk; /* NULL: single calls */
    char session[64];
    const struct aw_env_spec *spec;
    uint32_t count;
    float *action; /* [count][action.dim] */
    uint8_t bytes[REQUEST_BYTES];
};

static enum aw_err exchange(struct asker *asker, Aware__V1__StreamRequest *request,
                            Aware__V1__StreamResponse **ret, struct aw_diag *diag)
{
    struct aw_rpc_answer answer = {0};
    const size_t size = aware__v1__stream_request__get_packed_size(request);
    AW_ASSERT(size <= sizeof asker->bytes);
    aware__v1__stream_request__pack(request, asker->bytes);
    enum aw_err err = aw_rpc_talk_exchange(asker->talk, asker->bytes, size, &answer, diag);
    if (err)
        return err;
    Aware__V1__StreamResponse *response =
        aware__v1__stream_response__unpack(NULL, answer.size, answer.bytes);
    aw_rpc_answer_free(&answer);
    if (!response || response->response_case == AWARE__V1__STREAM_RESPONSE__RESPONSE_ERROR) {
        err = aw_fail(diag, AW_ERR_FORMAT, "the server says: %s",
                      response ? response->error->message : "nothing that can be read");
        if (response)
            aware__v1__stream_response__free_unpacked(response, NULL);
        return err;
    }
    *ret = response;
    return AW_OK;
}

static enum aw_err stream_begin(struct asker *asker, Aware__V1__InitRequest *init,
                                Aware__V1__ResetRequest *reset, struct aw_diag *diag)
{
    Aware__V1__StreamRequest request;
    Aware__V1__StreamResponse *response = NULL;
    enum aw_err err =
        aw_rpc_talk_open(&asker->talk, asker->client, "/aware.v1.Environment/Stream", diag);
    if (err)
        return err;
    aware__v1__stream_request__init(&request);
    request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_INIT;
    request.init = init;
    if ((err = exchange(asker, &request, &response, diag)))
        return err;
    aware__v1__stream_response__free_unpacked(response, NULL);
    request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_RESET;
    request.reset = reset;
    if ((err = exchange(asker, &request, &response, diag)))
        return err;
    aware__v1__stream_response__free_unpacked(response, NULL);
    return AW_OK;
}

static enum aw_err calls_begin(struct asker *asker, Aware__V1__InitRequest *init,
                               Aware__V1__ResetRequest *reset, struct aw_diag *diag)
{
    struct aw_rpc_answer answer = {0};
    size_t size = aware__v1__init_request__pack(init, asker->bytes);
    enum aw_err err = aw_rpc_client_call(asker->client, "/aware.v1.Environment/Init", asker->bytes,
                                         size, &answer, NULL, diag);
    if (err)
        return err;
    Aware__V1__InitResponse *made =
        aware__v1__init_response__unpack(NULL, answer.size, answer.bytes);
    aw_rpc_answer_free(&answer);
    if (!made)
        return aw_fail(diag, AW_ERR_FORMAT, "the answer to Init cannot be read");
    snprintf(asker->session, sizeof asker->session, "%s", made->session);
    aware__v1__init_response__free_unpacked(made, NULL);
    reset->session = asker->session;
    size = aware__v1__reset_request__pack(reset, asker->bytes);
    err = aw_rpc_client_call(asker->client, "/aware.v1.Environment/Reset", asker->bytes, size,
                             &answer, NULL, diag);
    aw_rpc_answer_free(&answer);
    return err;
}

static enum aw_err asker_begin(struct asker *asker, bool stream, struct aw_diag *diag)
{
    char name[AW_ENV_NAME_MAX];
    Aware__V1__InitRequest init;
    Aware__V1__ResetRequest reset;
    aware__v1__init_request__init(&init);
    aware__v1__reset_request__init(&reset);
    snprintf(name, sizeof name, "%s", asker->spec->name);
    init.name = name;
    init.count = asker->count;
    return stream ? stream_begin(asker, &init, &reset, diag)
                  : calls_begin(asker, &init, &reset, diag);
}

static enum aw_err asker_step(struct asker *asker, struct aw_diag *diag)
{
    Aware__V1__StepRequest step;
    aware__v1__step_request__init(&step);
    step.action = asker->action;
    step.n_action = (size_t)asker->count * asker->spec->action.dim;
    if (asker->talk) {
        Aware__V1__StreamRequest request;
        Aware__V1__StreamResponse *response = NULL;
        aware__v1__stream_request__init(&request);
        request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_STEP;
        request.step = &step;
        enum aw_err err = exchange(asker, &request, &response, diag);
        if (!err)
            aware__v1__stream_response__free_unpacked(response, NULL);
        return err;
    }
    struct aw_rpc_answer answer = {0};
    step.session = asker->session;
    const size_t size = aware__v1__step_request__pack(&step, asker->bytes);
    enum aw_err err = aw_rpc_client_call(asker->client, "/aware.v1.Environment/Step", asker->bytes,
                                         size, &answer, NULL, diag);
    if (err)
        return err;
    Aware__V1__StepResponse *response =
        aware__v1__step_response__unpack(NULL, answer.size, answer.bytes);
    aw_rpc_answer_free(&answer);
    if (!response)
        return aw_fail(diag, AW_ERR_FORMAT, "the answer to Step cannot be read");
    aware__v1__step_response__free_unpacked(response, NULL);
    return AW_OK;
}

/* ---- figures ---- */

static enum aw_err measure(struct aw_rpc_client *client, const struct aw_env_spec *spec,
                           bool stream, uint32_t count, double *ret_rate, struct aw_diag *diag)
{
    struct asker *asker = aw_alloc_new(NULL, 1, sizeof *asker);
    float *action = aw_alloc_new(NULL, (size_t)count * spec->action.dim, sizeof *action);
    struct aw_rng rng;
    double quickest = 0;
    uint64_t steps = 0;
    enum aw_err err = AW_OK;
    aw_rng_init(&rng, 0, 0);
    if (!asker || !action) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a client");
        goto out;
    }
    *asker = (struct asker){.client = client, .spec = spec, .count = count, .action = action};
    if ((err = asker_begin(asker, stream, diag)))
        goto out;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const int64_t begin_us = aw_clock_monotonic_us(NULL);
        const uint64_t before = steps;
        int64_t now_us;
        do {
            if (steps % HOLD == 0)
                for (uint32_t i = 0; i < count; i++)
                    aw_space_sample(&spec->action, &rng, action + (size_t)i * spec->action.dim);
            if ((err = asker_step(asker, diag)))
                goto out;
            steps++;
            now_us = aw_clock_monotonic_us(NULL);
        } while (now_us - begin_us < MEASURE_US / ROUNDS);
        const double rate = (double)(steps - before) * count * 1e6 / (double)(now_us - begin_us);
        quickest = rate > quickest ? rate : quickest;
    }
    *ret_rate = quickest;
out:
    if (asker)
        aw_rpc_talk_close(asker->talk);
    aw_alloc_free(NULL, asker);
    aw_alloc_free(NULL, action);
    return err;
}

enum aw_err aw__bench_rpc(struct aw__bench *bench, struct aw_diag *diag)
{
    static const char *const names[] = {"pendulum-v1", "autoscale-v0"};
    static const struct {
        const char *what;
        bool stream;
        uint32_t count;
        double goal;
    } cases[] = {
        {"single steps over a stream", true, 1, STREAM_GOAL},
        {"256 environments a message, stream", true, BATCHED, BATCHED_GOAL},
        {"single steps, a call each", false, 1, NAN},
        {"256 environments a message, a call each", false, BATCHED, NAN},
    };
    struct server server = {0};
    struct aw_rpc_client *client = NULL;
    char address[sizeof server.socket + 8];
    enum aw_err err = server_begin(&server, diag);
    if (err)
        goto out;
    snprintf(address, sizeof address, "unix:%s", server.socket);
    const struct aw_rpc_client_config config = {.address = address, .timeout_us = TIMEOUT_US};
    if ((err = aw_rpc_client_open(&client, &config, diag)))
        goto out;
    for (size_t e = 0; e < sizeof names / sizeof *names; e++) {
        const struct aw_env_factory *factory;
        if ((err = aw_env_find(names[e], &factory, diag)))
            goto out;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            double rate = 0;
            if ((err =
                     measure(client, factory->spec, cases[i].stream, cases[i].count, &rate, diag)))
                goto out;
            struct aw__bench_figure *figure =
                aw__bench_add(bench, "steps/s", "%s: %s", names[e], cases[i].what);
            figure->value = rate;
            figure->goal = cases[i].goal;
        }
    }
out:
    aw_rpc_client_close(client);
    server_end(&server);
    return err;
}
