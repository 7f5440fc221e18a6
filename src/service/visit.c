/* visit.c - see visit.h. */
#include "service/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/text.h"
#include "service/caller.h"

#define PAGE         4096u
#define WRITE_MAX    ((size_t)1 << 20) /* of one visit */
#define MEMORY_BYTES ((size_t)8 << 20) /* that visits walk through */
#define SPREAD       0.5               /* of a visit's work that is drawn; the rest is fixed */
#define WORK_MOST    4.0               /* of the mean */
#define STACK_BYTES  ((size_t)512 << 10)
#define TURNS        2000u /* of work between two looks at the clock */

struct peer {
    struct aw__caller caller;
    bool there;
};

/* What a step needs to know of its visit. */
struct context {
    struct aw__traceparent trace; /* parent: this visit's span */
    bool background;
    struct aw_rng rng;
};

struct join { /* of those that are waited for as one */
    uint32_t left;
    bool failed;
};

struct job { /* for a helper */
    struct context context;
    uint32_t step;
    bool single;       /* this step alone, not those behind it */
    struct join *join; /* NULL: nobody waits */
};

struct aw__visits {
    struct aw__visits_config config;
    struct peer peer[AW_GRAPH_SERVICES_MAX];
    struct aw__exporter *exporter; /* NULL: no spans */
    uint32_t name[AW_GRAPH_SERVICES_MAX], op_name[AW_GRAPH_OPS_MAX], instance;
    int disk_fd;
    char *page;   /* [WRITE_MAX], aligned: what is written */
    char *memory; /* [MEMORY_BYTES] */
    _Atomic uint64_t serial, memory_at;
    _Atomic uint64_t calls, calls_failed, disk_bytes, disk_failed;
    uint64_t background_dropped;

    pthread_mutex_t lock;
    pthread_cond_t work, joined;
    struct job job[AW__VISIT_QUEUE];
    uint32_t first, count, idle;
    bool stop;
    pthread_t *helper; /* [config.helpers] */
    uint32_t helper_count;
};

/* --- traceparent ------------------------------------------------------------------------------ */

static bool hex(const char *text, size_t digits, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        const char c = text[i]; /* lower case alone, by the standard */
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *ret = value;
    return true;
}

bool aw__traceparent_read(const char *text, size_t len, struct aw__traceparent *ret)
{
    struct aw__traceparent made = {0};
    uint64_t version, flags;
    /* a later version may have more behind another '-' */
    if (len < AW__TRACEPARENT_MAX - 1 || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
        !hex(text, 2, &version) || version == 0xff || !hex(text + 3, 16, &made.trace_hi) ||
        !hex(text + 19, 16, &made.trace_lo) || !hex(text + 36, 16, &made.parent) ||
        !hex(text + 53, 2, &flags) || (version == 0 && len != AW__TRACEPARENT_MAX - 1) ||
        (len > AW__TRACEPARENT_MAX - 1 && text[55] != '-'))
        return false;
    if ((!made.trace_hi && !made.trace_lo) || !made.parent)
        return false;
    made.sampled = flags & 1;
    *ret = made;
    return true;
}

const char *aw__traceparent_print(const struct aw__traceparent *from, char buf[AW__TRACEPARENT_MAX])
{
    snprintf(buf, AW__TRACEPARENT_MAX, "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-%02x",
             from->trace_hi, from->trace_lo, from->parent, from->sampled ? 1u : 0u);
    return buf;
}

/* Ids that no other replica draws: a seed of the process's own behind splitmix64. Never 0. */
static uint64_t id_new(struct aw__visits *visits)
{
    uint64_t x = visits->config.seed + UINT64_C(0x9e3779b97f4a7c15) * ++visits->serial;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x ? x : 1;
}

/* --- work ------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    return 1000 * aw_clock_now_us(NULL);
}

static void cpu_work(double cpu_us)
{
    const double until_s = aw_clock_thread_cpu_s() + 1e-6 * cpu_us;
    uint64_t x = 88172645463325252u;
    do {
        for (uint32_t i = 0; i < TURNS; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        __asm__ volatile("" : : "r"(x)); /* it is computed, though nobody reads it */
    } while (aw_clock_thread_cpu_s() < until_s);
}

static void memory_work(struct aw__visits *visits, double bytes)
{
    uint64_t sum = 0;
    size_t left = (size_t)fmax(0, bytes);
    while (left >= PAGE) {
        const size_t at = (visits->memory_at += PAGE) % MEMORY_BYTES;
        for (size_t i = 0; i < PAGE; i += sizeof sum)
            sum += *(const uint64_t *)(const void *)(visits->memory + at + i);
        left -= PAGE;
    }
    __asm__ volatile("" : : "r"(sum));
}

/* False: the disk refused it. Less than a page is not worth a write. */
static bool disk_work(struct aw__visits *visits, double bytes, struct aw_rng *rng)
{
    if (bytes < PAGE || visits->disk_fd < 0)
        return true;
    const size_t len = fmin(bytes, WRITE_MAX) / PAGE * PAGE >= PAGE
                           ? (size_t)(fmin(bytes, WRITE_MAX) / PAGE) * PAGE
                           : PAGE;
    const uint32_t places = (uint32_t)((AW__VISIT_DISK - (int64_t)len) / PAGE);
    const off_t at = (off_t)PAGE * aw_rng_below(rng, places);
    ssize_t n;
    do
        n = pwrite(visits->disk_fd, visits->page, len, at);
    while (n < 0 && errno == EINTR);
    visits->disk_bytes += n > 0 ? (uint64_t)n : 0;
    visits->disk_failed += n != (ssize_t)len;
    return n == (ssize_t)len;
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool run_steps(struct aw__visits *visits, struct context *context, uint32_t first,
                      bool single);

static void span_put(struct aw__visits *visits, const struct aw__traceparent *trace, uint64_t id,
                     uint32_t op, uint32_t peer, enum aw_span_kind kind, int64_t start_ns,
                     int64_t end_ns, bool failed)
{
    if (!visits->exporter || !trace->sampled)
        return;
    const struct aw_span span = {.trace_hi = trace->trace_hi,
                                 .trace_lo = trace->trace_lo,
                                 .id = id,
                                 .parent = trace->parent,
                                 .start_ns = start_ns,
                                 .end_ns = end_ns < start_ns ? start_ns : end_ns,
                                 .service = visits->name[visits->config.service],
                                 .instance = visits->instance,
                                 .operation = visits->op_name[op],
                                 .peer = peer == AW_GRAPH_NONE ? AW_NAME_NONE : visits->name[peer],
                                 .kind = (uint8_t)kind,
                                 .flags = failed ? AW_SPAN_ERROR : 0};
    aw__exporter_put(visits->exporter, &span);
}

static bool call(struct aw__visits *visits, struct context *context, uint32_t op)
{
    const struct aw_graph_op *target = &visits->config.app->ops[op];
    struct peer *peer = &visits->peer[target->service];
    char path[AW_GRAPH_NAME_MAX + 16], headers[AW__TRACEPARENT_MAX + 64];
    char value[AW__TRACEPARENT_MAX];
    struct aw__traceparent sent = context->trace;
    int status = 0;
    visits->calls++;
    sent.parent = id_new(visits);
    snprintf(path, sizeof path, *target->name ? "/op/%s" : "/%s", target->name);
    snprintf(headers, sizeof headers, "traceparent: %s\r\n%s", aw__traceparent_print(&sent, value),
             context->background ? "x-background: 1\r\n" : "");
    const struct aw__caller_request request = {.method = "GET", .path = path, .headers = headers};
    const int64_t start_ns = now_ns();
    const bool well = peer->there &&
                      aw__caller_call(&peer->caller, &request, &status, NULL) == AW_OK &&
                      status < 400;
    span_put(visits, &context->trace, sent.parent, op, target->service,
             context->background ? AW_SPAN_PRODUCER : AW_SPAN_CLIENT, start_ns, now_ns(), !well);
    visits->calls_failed += !well;
    return well;
}

/* True: a helper has it, or will. `sure`: one is free, so that nobody waits behind others. */
static bool hand_over(struct aw__visits *visits, const struct job *job, bool sure)
{
    pthread_mutex_lock(&visits->lock);
    const bool fits =
        visits->count < AW__VISIT_QUEUE && !visits->stop && (!sure || visits->idle > visits->count);
    if (fits) {
        visits->job[(visits->first + visits->count++) % AW__VISIT_QUEUE] = *job;
        pthread_cond_signal(&visits->work);
    } else if (!sure) {
        visits->background_dropped++;
    }
    pthread_mutex_unlock(&visits->lock);
    return fits;
}

static struct context context_split(struct context *context)
{
    struct context made = *context;
    aw_rng_init(&made.rng, aw_rng_u64(&context->rng), 0);
    return made;
}

static bool run_together(struct aw__visits *visits, struct context *context, uint32_t first)
{
    struct join join = {0};
    bool well = true;
    const struct aw_graph_step *steps = visits->config.app->steps;
    for (uint32_t i = first; i != AW_GRAPH_NONE; i = steps[i].next) {
        const struct job job = {
            .context = context_split(context), .step = i, .single = true, .join = &join};
        pthread_mutex_lock(&visits->lock);
        join.left++;
        pthread_mutex_unlock(&visits->lock);
        /* the last is this thread's own; so is whatever nobody else is free for */
        if (steps[i].next != AW_GRAPH_NONE && hand_over(visits, &job, true))
            continue;
        struct context own = job.context;
        const bool its = run_steps(visits, &own, i, true);
        well = well && its;
        pthread_mutex_lock(&visits->lock);
        join.left--;
        pthread_mutex_unlock(&visits->lock);
    }
    pthread_mutex_lock(&visits->lock);
    while (join.left)
        pthread_cond_wait(&visits->joined, &visits->lock);
    pthread_mutex_unlock(&visits->lock);
    return well && !join.failed;
}

static bool run_step(struct aw__visits *visits, struct context *context, uint32_t index)
{
    const struct aw_graph_step *step = &visits->config.app->steps[index];
    switch (step->kind) {
    case AW_GRAPH_CALL:
        return call(visits, context, step->op);
    case AW_GRAPH_SEQ:
        return run_steps(visits, context, step->child, false);
    case AW_GRAPH_PAR:
        return run_together(visits, context, step->child);
    case AW_GRAPH_ASYNC:
        break;
    }
    struct job job = {.context = context_split(context), .step = step->child};
    job.context.background = true;
    (void)hand_over(visits, &job, false); /* what is dropped is counted */
    return true;
}

/* One after the other; where one fails, the rest is not begun. */
static bool run_steps(struct aw__visits *visits, struct context *context, uint32_t first,
                      bool single)
{
    const struct aw_graph_step *steps = visits->config.app->steps;
    bool well = true;
    for (uint32_t i = first; i != AW_GRAPH_NONE && well;
         i = single ? AW_GRAPH_NONE : steps[i].next) {
        if (steps[i].probability < 1 && aw_rng_float(&context->rng) >= steps[i].probability)
            continue;
        for (uint32_t turn = 0; turn < steps[i].repeat && well; turn++)
            well = run_step(visits, context, i);
    }
    return well;
}

static void *help(void *ctx)
{
    struct aw__visits *visits = ctx;
    pthread_mutex_lock(&visits->lock);
    for (;;) {
        visits->idle++;
        while (!visits->stop && visits->count == 0)
            pthread_cond_wait(&visits->work, &visits->lock);
        visits->idle--;
        if (visits->count == 0)
            break; /* stopped, and nothing is left */
        struct job job = visits->job[visits->first];
        visits->first = (visits->first + 1) % AW__VISIT_QUEUE;
        visits->count--;
        pthread_mutex_unlock(&visits->lock);
        const bool well = run_steps(visits, &job.context, job.step, job.single);
        pthread_mutex_lock(&visits->lock);
        if (job.join) {
            job.join->failed = job.join->failed || !well;
            job.join->left--;
            pthread_cond_broadcast(&visits->joined);
        }
    }
    pthread_mutex_unlock(&visits->lock);
    return NULL;
}

bool aw__visits_run(struct aw__visits *visits, uint32_t op, const struct aw__traceparent *from,
                    int64_t arrived_ns, bool alone)
{
    const struct aw_graph_op *its = &visits->config.app->ops[op];
    struct aw__traceparent trace = *from;
    struct context context = {0};
    if (!trace.trace_hi && !trace.trace_lo)
        trace = (struct aw__traceparent){
            .trace_hi = id_new(visits), .trace_lo = id_new(visits), .sampled = true};
    const uint64_t id = id_new(visits);
    context.trace = trace;
    context.trace.parent = id;
    context.background = from->background;
    aw_rng_init(&context.rng, id, 0);
    const double drawn = fmin(1 - SPREAD + SPREAD * aw_rng_exponential(&context.rng, 1), WORK_MOST);
    memory_work(visits, its->memory_bytes);
    cpu_work(drawn * its->cpu_us);
    bool well = disk_work(visits, its->disk_bytes, &context.rng);
    if (well && !alone && its->first != AW_GRAPH_NONE)
        well = run_steps(visits, &context, its->first, false);
    span_put(visits, &trace, id, op, AW_GRAPH_NONE,
             from->background ? AW_SPAN_CONSUMER : AW_SPAN_SERVER, arrived_ns, now_ns(), !well);
    return well;
}

/* --- made ------------------------------------------------------------------------------------- */

static enum aw_err peers_read(struct aw__visits *visits, struct aw_diag *diag)
{
    const struct aw_graph_app *app = visits->config.app;
    char line[AW_GRAPH_NAME_MAX + 32], name[AW_GRAPH_NAME_MAX];
    FILE *file = fopen(visits->config.peers, "re");
    if (!file)
        return aw_fail_at(diag, AW_ERR_IO, visits->config.peers, 0, 0, NULL, "%s", strerror(errno));
    enum aw_err err = AW_OK;
    for (int at = 1; !err && fgets(line, sizeof line, file); at++) {
        unsigned port = 0;
        uint32_t service = AW_GRAPH_NONE;
        if (sscanf(line, "%47s %u", name, &port) == 2)
            service = aw_graph_service_find(app, name);
        if (service == AW_GRAPH_NONE || port == 0 || port > 65535) {
            err = aw_fail_at(diag, AW_ERR_FORMAT, visits->config.peers, at, 0, NULL,
                             "expected a service of the graph and a port");
            break;
        }
        if (visits->peer[service].there)
            continue;
        const struct sockaddr_in address = {.sin_family = AF_INET,
                                            .sin_port = htons((uint16_t)port),
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        aw__caller_init(&visits->peer[service].caller, &address, visits->config.call_timeout_us);
        visits->peer[service].there = true;
    }
    fclose(file);
    return err;
}

/* Whom this service's operations call. */
static enum aw_err peers_check(const struct aw__visits *visits, uint32_t first,
                               struct aw_diag *diag)
{
    const struct aw_graph_app *app = visits->config.app;
    enum aw_err err = AW_OK;
    for (uint32_t i = first; i != AW_GRAPH_NONE && !err; i = app->steps[i].next) {
        if (app->steps[i].kind != AW_GRAPH_CALL)
            err = peers_check(visits, app->steps[i].child, diag);
        else if (!visits->peer[app->ops[app->steps[i].op].service].there)
            err = aw_fail_at(diag, AW_ERR_CONFIG, visits->config.peers, 0, 0, NULL,
                             "no port of %s, which %s calls",
                             app->services[app->ops[app->steps[i].op].service].name,
                             app->services[visits->config.service].name);
    }
    return err;
}

static enum aw_err disk_open(struct aw__visits *visits, struct aw_diag *diag)
{
    const struct aw_graph_app *app = visits->config.app;
    char path[512];
    bool needed = false;
    for (uint32_t i = 0; i < app->op_count; i++)
        needed = needed ||
                 (app->ops[i].service == visits->config.service && app->ops[i].disk_bytes >= PAGE);
    if (!needed)
        return AW_OK;
    snprintf(path, sizeof path, "%s/aware-visit-XXXXXX", visits->config.temp_dir);
    const int made = mkostemp(path, O_CLOEXEC);
    if (made >= 0) {
        visits->disk_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        unlink(path);
        close(made);
    }
    if (visits->disk_fd < 0)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, visits->config.temp_dir, 0, 0, NULL,
                          "no file that is written past the page cache: %s", strerror(errno));
    if (posix_fallocate(visits->disk_fd, 0, AW__VISIT_DISK))
        return aw_fail_at(diag, AW_ERR_IO, visits->config.temp_dir, 0, 0, NULL,
                          "no room for a file of 16 MiB");
    return AW_OK;
}

static void names_make(struct aw__visits *visits)
{
    const struct aw_graph_app *app = visits->config.app;
    char instance[AW_GRAPH_NAME_MAX + 16];
    for (uint32_t i = 0; i < app->service_count; i++)
        visits->name[i] = aw__exporter_name(visits->exporter, app->services[i].name);
    for (uint32_t i = 0; i < app->op_count; i++)
        visits->op_name[i] =
            aw__exporter_name(visits->exporter, *app->ops[i].name ? app->ops[i].name : "call");
    snprintf(instance, sizeof instance, "%s-%ld", app->services[visits->config.service].name,
             (long)getpid());
    visits->instance = aw__exporter_name(visits->exporter, instance);
}

static enum aw_err helpers_start(struct aw__visits *visits, struct aw_diag *diag)
{
    pthread_attr_t attributes;
    int failed = 0;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (!failed && visits->helper_count < visits->config.helpers) {
        failed = pthread_create(&visits->helper[visits->helper_count], &attributes, help, visits);
        visits->helper_count += !failed;
    }
    (void)pthread_attr_destroy(&attributes);
    return failed ? aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed)) : AW_OK;
}

enum aw_err aw__visits_new(struct aw__visits **ret, const struct aw__visits_config *config,
                           struct aw_diag *diag)
{
    struct aw__visits *made = aw_alloc_new(NULL, 1, sizeof *made);
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for visits");
    made->config = *config;
    made->disk_fd = -1;
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_cond_init(&made->work, NULL);
    (void)pthread_cond_init(&made->joined, NULL);
    made->helper = aw_alloc_new(NULL, config->helpers ? config->helpers : 1, sizeof *made->helper);
    made->memory = mmap(NULL, MEMORY_BYTES + WRITE_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    enum aw_err err = AW_OK;
    if (made->memory == MAP_FAILED || !made->helper)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for visits");
    else
        made->page = made->memory + MEMORY_BYTES;
    err = err || !config->peers ? err : peers_read(made, diag);
    for (uint32_t i = 0; i < config->app->op_count && !err; i++)
        if (config->app->ops[i].service == config->service)
            err = peers_check(made, config->app->ops[i].first, diag);
    err = err ? err : disk_open(made, diag);
    if (!err && config->traces.sin_port)
        err = aw__exporter_new(&made->exporter, &config->traces, diag);
    if (!err && made->exporter)
        names_make(made);
    err = err ? err : helpers_start(made, diag);
    if (err)
        aw__visits_free(made);
    else
        *ret = made;
    return err;
}

void aw__visits_free(struct aw__visits *visits)
{
    if (!visits)
        return;
    pthread_mutex_lock(&visits->lock);
    visits->stop = true;
    pthread_cond_broadcast(&visits->work);
    pthread_mutex_unlock(&visits->lock);
    for (uint32_t i = 0; i < visits->helper_count; i++)
        (void)pthread_join(visits->helper[i], NULL);
    aw__exporter_free(visits->exporter);
    for (uint32_t i = 0; i < AW_GRAPH_SERVICES_MAX; i++)
        if (visits->peer[i].there)
            aw__caller_deinit(&visits->peer[i].caller);
    if (visits->disk_fd >= 0)
        close(visits->disk_fd);
    if (visits->memory && visits->memory != MAP_FAILED)
        (void)munmap(visits->memory, MEMORY_BYTES + WRITE_MAX);
    (void)pthread_cond_destroy(&visits->joined);
    (void)pthread_cond_destroy(&visits->work);
    (void)pthread_mutex_destroy(&visits->lock);
    aw_alloc_free(NULL, visits->helper);
    aw_alloc_free(NULL, visits);
}

void aw__visits_counts(struct aw__visits *visits, struct aw__visits_counts *ret)
{
    *ret = (struct aw__visits_counts){.calls = visits->calls,
                                      .calls_failed = visits->calls_failed,
                                      .disk_bytes = visits->disk_bytes,
                                      .disk_failed = visits->disk_failed};
    pthread_mutex_lock(&visits->lock);
    ret->background_dropped = visits->background_dropped;
    pthread_mutex_unlock(&visits->lock);
    if (visits->exporter)
        aw__exporter_counts(visits->exporter, &ret->spans);
}
