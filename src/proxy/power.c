/* power.c - the thread that turns what was measured into clocks, with a record of each change. */
#include "proxy/power.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/threads.h"
#include "device/helper.h"
#include "device/setter.h"

#define TICK_US   100000
#define SENTENCE  512u
#define SWITCH_S  0.2 /* where a device does not say */
#define IDLE_W    45.0
#define LIMIT_W   300.0
#define EPSILON_X 1e-6

struct past {
    struct aw_clocks_choice choice;
    uint32_t mhz;       /* that was chosen */
    uint32_t from_mhz;  /* before the last change */
    int64_t changed_us; /* 0: never */
    uint64_t changes;
    char sentence[SENTENCE];
};

struct aw__power {
    struct aw_proxy_power config;
    struct aw_devices devices;
    struct aw_log *log;
    const struct aw_alloc *alloc;
    pthread_t thread;
    pthread_mutex_t lock; /* of what stands below */
    pthread_cond_t ended;
    bool stop, running;
    uint32_t servers, count;
    struct aw_clocks_server server[AW_CLOCKS_SERVERS_MAX];
    struct past past[AW_DEVICES_MAX];
    struct aw_device_reading reading[AW_DEVICES_MAX];
    bool read[AW_DEVICES_MAX];
    enum aw_setter_state state[AW_DEVICES_MAX];
    uint64_t changes, unrecorded, failures, raised;
    bool kept;
    /* the thread's own */
    struct aw_clocks_server now[AW_CLOCKS_SERVERS_MAX];
    uint64_t bits[AW_CLOCKS_SERVERS_MAX];
    struct aw_device_info info[AW_DEVICES_MAX];
    struct aw_gpu_kind kind;
    struct aw_clocks clocks;
    struct aw_setter setter;
};

/* What a card may draw over its clock: the measured law where the catalogue has the card, else
 * everything above idle in proportion to the clock, up to its power limit. The second is above any
 * card that its limit does not hold back. */
static void kind_make(struct aw__power *p)
{
    const struct aw_device_info *i = &p->info[0];
    const struct aw_gpu_kind *known = !strncmp(i->name, "Tesla V100", 10) ? aw_gpu_kind_find("v100")
                                      : !strncmp(i->name, "NVIDIA A100", 11)
                                          ? aw_gpu_kind_find("a100")
                                          : NULL;
    const double limit = i->limit_mw_max ? i->limit_mw_max / 1e3 : LIMIT_W;
    p->kind =
        known ? *known
              : (struct aw_gpu_kind){.name = "by its limit",
                                     .limit_w = limit,
                                     .volt = {0, 1},
                                     .core = {fmin(IDLE_W, limit), fmax(limit - IDLE_W, 0), 1},
                                     .stream = {fmin(IDLE_W, limit), fmax(limit - IDLE_W, 0), 1}};
    p->kind.clock_max = i->clock_mhz_max;
    p->kind.clock_min = i->clock_mhz_min;
    p->kind.clock_step = i->clock_count > 1
                             ? (double)(i->clock_mhz_max - i->clock_mhz_min) / (i->clock_count - 1)
                             : 1;
}

static enum aw_err devices_look(struct aw__power *p, struct aw_diag *diag)
{
    p->count = p->devices.ops->count(p->devices.self);
    if (!p->count || p->count > AW_DEVICES_MAX)
        return aw_fail(diag, AW_ERR_NODATA, "there is no device whose clock could follow");
    for (uint32_t d = 0; d < p->count; d++) {
        struct aw_device_info *i = &p->info[d];
        const enum aw_err err = p->devices.ops->describe(p->devices.self, d, i, diag);
        if (err)
            return err;
        if (!i->clock_mhz_max || (p->config.act && !(i->capabilities & AW_DEVICE_SETS_CLOCK)))
            return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s has no clock that can be set: %s", i->id,
                           i->why);
        if (i->clock_mhz_max != p->info[0].clock_mhz_max ||
            i->clock_mhz_min != p->info[0].clock_mhz_min)
            return aw_fail(diag, AW_ERR_UNSUPPORTED,
                           "expected devices of one kind, found %s with %u to %u MHz and %s with "
                           "%u to %u: one proxy for each kind",
                           p->info[0].id, p->info[0].clock_mhz_min, p->info[0].clock_mhz_max, i->id,
                           i->clock_mhz_min, i->clock_mhz_max);
    }
    return AW_OK;
}

/* The device's clock at or below (a cap), or at or above (an SLO) this share of the largest. */
static uint32_t clock_round(const struct aw_device_info *info, double x, bool down)
{
    const double mhz = x * info->clock_mhz_max;
    if (!info->clock_count)
        return aw_device_clock_near(info,
                                    (uint32_t)(down ? mhz + EPSILON_X : ceil(mhz - EPSILON_X)));
    uint32_t best = down ? info->clock_mhz[0] : info->clock_mhz[info->clock_count - 1];
    for (uint32_t i = 0; i < info->clock_count; i++) {
        const uint32_t at = info->clock_mhz[i];
        if (down ? at <= mhz + EPSILON_X && at > best : at + 1 >= mhz && at < best)
            best = at;
    }
    return best;
}

static void sentence_make(const struct aw__power *p, uint32_t d, struct past *past)
{
    const struct aw_clocks_choice *c = &past->choice;
    struct aw_text t;
    aw_text_init(&t, past->sentence, sizeof past->sentence);
    aw_text_add(&t, "%s %s %u MHz: %s", p->info[d].id,
                p->config.act ? "is set to" : "would be set to", past->mhz,
                aw_clocks_why_text(c->why));
    if (c->server != UINT32_MAX)
        aw_text_add(&t, " (upstream %u: %u in flight, %u waiting)", c->server,
                    p->now[c->server].in_flight, p->now[c->server].waiting);
    if (!isnan(c->slack))
        aw_text_add(&t, "; %.0f %% of the tightest SLO is left", 100 * c->slack);
    aw_text_add(&t, "; the rule %s asks for %.0f MHz", aw_power_name(p->config.rule.rule),
                c->wish_x * p->info[d].clock_mhz_max);
    if (c->wants_more)
        aw_text_add(&t, "; it is at its largest clock and wants a replica");
}

/* Recorded before it is done. False: it could not be. */
static bool record(struct aw__power *p, uint32_t d, uint32_t from, const struct past *next)
{
    char members[SENTENCE + 512];
    struct aw_diag diag = {0};
    if (!p->config.audit)
        return !p->config.act;
    struct aw_text t;
    aw_text_init(&t, members, sizeof members);
    aw_text_add(&t,
                "\"device\":\"%s\",\"from_mhz\":%u,\"to_mhz\":%u,\"acts\":%s,\"rule\":\"%s\","
                "\"reason\":\"%s\",\"text\":\"%s\"",
                p->info[d].id, from, next->mhz, p->config.act ? "true" : "false",
                aw_power_name(p->config.rule.rule), aw_clocks_why_name(next->choice.why),
                next->sentence);
    const enum aw_err err = aw_audit_append_text(p->config.audit, aw_clock_now_us(NULL), "clock",
                                                 members, t.len, NULL, &diag);
    if (!err)
        return true;
    aw_log_warn(p->log, "a change of clock could not be recorded", AW_LOG_STR("why", diag.text));
    return false;
}

static bool commit(struct aw__power *p)
{
    struct aw_diag diag = {0};
    if (!p->config.audit || !aw_audit_commit(p->config.audit, &diag))
        return true;
    aw_log_warn(p->log, "changes of clocks could not be recorded", AW_LOG_STR("why", diag.text));
    return false;
}

static void tick(struct aw__power *p, int64_t now_us)
{
    struct aw_clocks_device device[AW_DEVICES_MAX];
    struct aw_clocks_choice choice[AW_DEVICES_MAX];
    struct past next[AW_DEVICES_MAX];
    bool change[AW_DEVICES_MAX], recorded = true;
    aw_device_helper_beat(&p->devices);
    aw_setter_step(&p->setter, now_us);
    for (uint32_t d = 0; d < p->count; d++) {
        const struct aw_setter_device *s = &p->setter.device[d];
        const bool clock = s->read && s->reading.known & AW_DEVICE_CLOCK;
        device[d] = (struct aw_clocks_device){
            .read_x = !clock ? NAN
                      : p->config.act
                          ? (double)s->reading.clock_mhz / p->info[d].clock_mhz_max
                          : p->clocks.set_x[d], /* a dry run pretends that it was done */
            .unset = s->state == AW_SETTER_REFUSED || s->state == AW_SETTER_IGNORED};
        for (uint32_t i = 0; i < p->servers; i++)
            device[d].servers |= (uint32_t)(p->bits[i] >> d & 1) << i;
    }
    const bool kept =
        aw_clocks_decide(&p->clocks, (double)now_us / 1e6, p->now, p->servers, device, choice);
    const bool capped = p->config.cap_w > 0 || p->config.device_cap_w > 0;
    for (uint32_t d = 0; d < p->count; d++) {
        next[d] = p->past[d];
        next[d].choice = choice[d];
        next[d].mhz = clock_round(&p->info[d], choice[d].x, capped);
        sentence_make(p, d, &next[d]);
        change[d] = next[d].mhz != p->past[d].mhz;
        if (change[d])
            recorded &= record(p, d, p->past[d].mhz, &next[d]);
    }
    recorded &= commit(p);
    for (uint32_t d = 0; d < p->count; d++) {
        if (!change[d])
            continue;
        if (!recorded && next[d].mhz < p->past[d].mhz && choice[d].why != AW_CLOCKS_CAP) {
            change[d] = false; /* without a record no clock goes down */
            p->clocks.set_x[d] = (double)p->past[d].mhz / p->info[d].clock_mhz_max;
            next[d] = p->past[d];
            continue;
        }
        next[d].from_mhz = p->past[d].mhz;
        next[d].changed_us = now_us;
        next[d].changes++;
        aw_setter_want(&p->setter, d, next[d].mhz, 0, now_us);
    }
    (void)pthread_mutex_lock(&p->lock);
    for (uint32_t d = 0; d < p->count; d++) {
        p->changes += change[d];
        p->raised += change[d] && next[d].mhz > p->past[d].mhz;
        p->past[d] = next[d];
        p->read[d] = p->setter.device[d].read;
        p->reading[d] = p->setter.device[d].reading;
        p->state[d] = p->setter.device[d].state;
    }
    p->unrecorded += !recorded;
    p->failures = p->setter.failures;
    p->kept = kept;
    (void)pthread_mutex_unlock(&p->lock);
}

static void *power_main(void *ctx)
{
    struct aw__power *p = ctx;
    for (bool stop = false; !stop;) {
        struct timespec until;
        (void)pthread_mutex_lock(&p->lock);
        memcpy(p->now, p->server, sizeof p->now);
        (void)pthread_mutex_unlock(&p->lock);
        tick(p, aw_clock_monotonic_us(NULL));
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_US * 1000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        (void)pthread_mutex_lock(&p->lock);
        if (!p->stop)
            (void)pthread_cond_timedwait(&p->ended, &p->lock, &until);
        stop = p->stop;
        (void)pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static enum aw_err clocks_make(struct aw__power *p, struct aw_diag *diag)
{
    const struct aw_proxy_power *c = &p->config;
    const double largest = p->info[0].clock_mhz_max;
    kind_make(p);
    struct aw_clocks_config config = {.power = c->rule,
                                      .x_low = c->clock_mhz_min / largest,
                                      .x_high = c->clock_mhz_max ? c->clock_mhz_max / largest : 1,
                                      .cap_w = c->cap_w,
                                      .device_cap_w = c->device_cap_w,
                                      .kind = &p->kind};
    config.power.switch_s = p->info[0].switch_us ? (double)p->info[0].switch_us / 1e6 : SWITCH_S;
    enum aw_err err =
        aw_clocks_init(&p->clocks, &config, p->count, p->info[0].clock_mhz_min / largest, diag);
    if (!err)
        err = aw_setter_init(&p->setter, &p->devices, &(struct aw_setter_config){.act = c->act},
                             diag);
    for (uint32_t d = 0; d < p->count && !err; d++) {
        const struct aw_device_info info = p->info[d]; /* a copy: the two lie in one object */
        p->past[d].mhz = info.clock_mhz_max;
        snprintf(p->past[d].sentence, SENTENCE, "%s is as the system has it", info.id);
        if (c->device_cap_w > 0 && p->info[d].capabilities & AW_DEVICE_SETS_LIMIT) {
            /* the card keeps its own limit, whatever becomes of us; we bound the clock as well */
            const double mw = fmax(c->device_cap_w * 1e3, p->info[d].limit_mw_min);
            aw_setter_want(&p->setter, d, 0, (uint32_t)fmin(mw, p->info[d].limit_mw_max),
                           aw_clock_monotonic_us(NULL));
        }
    }
    return err;
}

enum aw_err aw__power_start(struct aw__power **ret, const struct aw_proxy_power *config,
                            const struct aw_devices *devices, const uint64_t *device_bits,
                            uint32_t servers, struct aw_log *log, const struct aw_alloc *alloc,
                            struct aw_diag *diag)
{
    AW_ASSERT(servers <= AW_CLOCKS_SERVERS_MAX);
    if (config->act && !config->audit)
        return aw_fail(diag, AW_ERR_CONFIG, "setting clocks needs an audit log: --audit DIR");
    struct aw__power *p = aw_alloc_new(alloc, 1, sizeof *p);
    if (!p)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the clocks");
    *p = (struct aw__power){.config = *config,
                            .devices = *devices,
                            .log = log,
                            .alloc = alloc,
                            .servers = servers,
                            .kept = true};
    pthread_condattr_t monotonic;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->ended, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    for (uint32_t i = 0; i < servers; i++) {
        p->bits[i] = device_bits[i] ? device_bits[i] : UINT64_MAX;
        p->server[i].at_s = -INFINITY; /* nothing is known: the largest clock */
    }
    enum aw_err err = devices_look(p, diag);
    for (uint32_t i = 0; i < servers && !err; i++)
        if (device_bits[i] && p->count < 64 && device_bits[i] >> p->count)
            err = aw_fail(diag, AW_ERR_CONFIG,
                          "upstream %u names a device that is not there: there are %u, from 0 on",
                          i, p->count);
    if (!err)
        err = clocks_make(p, diag);
    if (!err && aw_thread_begin(&p->thread, power_main, p))
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the clocks");
    p->running = !err;
    if (err)
        aw__power_stop(p);
    else
        *ret = p;
    return err;
}

void aw__power_stop(struct aw__power *p)
{
    if (!p)
        return;
    struct aw_diag diag = {0};
    if (p->running) {
        (void)pthread_mutex_lock(&p->lock);
        p->stop = true;
        (void)pthread_cond_signal(&p->ended);
        (void)pthread_mutex_unlock(&p->lock);
        (void)pthread_join(p->thread, NULL);
    }
    if (p->setter.devices && aw_setter_finish(&p->setter, aw_clock_monotonic_us(NULL), &diag))
        aw_log_warn(p->log, "a clock could not be reset", AW_LOG_STR("why", diag.text));
    (void)pthread_cond_destroy(&p->ended);
    (void)pthread_mutex_destroy(&p->lock);
    aw_alloc_free(p->alloc, p);
}

void aw__power_publish(struct aw__power *p, const struct aw_clocks_server *server, uint32_t count)
{
    (void)pthread_mutex_lock(&p->lock);
    memcpy(p->server, server, count * sizeof *server);
    (void)pthread_mutex_unlock(&p->lock);
}

double aw__power_clock(struct aw__power *p, uint32_t server)
{
    double least = 1;
    (void)pthread_mutex_lock(&p->lock);
    for (uint32_t d = 0; d < p->count; d++)
        if (p->bits[server] >> d & 1 && p->read[d] && p->reading[d].known & AW_DEVICE_CLOCK)
            least = fmin(least, (double)p->reading[d].clock_mhz / p->info[d].clock_mhz_max);
    (void)pthread_mutex_unlock(&p->lock);
    return fmax(least, 0.05);
}

bool aw__power_reading(struct aw__power *p, uint32_t d, struct aw_device_reading *ret)
{
    (void)pthread_mutex_lock(&p->lock);
    const bool read = d < p->count && p->read[d];
    if (read)
        *ret = p->reading[d];
    (void)pthread_mutex_unlock(&p->lock);
    return read;
}

void aw__power_explain(struct aw__power *p, struct aw_text *t)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    (void)pthread_mutex_lock(&p->lock);
    aw_text_add(t, "[");
    for (uint32_t d = 0; d < p->count; d++) {
        const struct past *past = &p->past[d];
        aw_text_add(
            t, "%s{\"device\":\"%s\",\"acts\":%s,\"rule\":\"%s\",\"clock_mhz\":", d ? "," : "",
            p->info[d].id, p->config.act ? "true" : "false", aw_power_name(p->config.rule.rule));
        if (p->read[d] && p->reading[d].known & AW_DEVICE_CLOCK)
            aw_text_add(t, "%u", p->reading[d].clock_mhz);
        else
            aw_text_add(t, "null");
        aw_text_add(t,
                    ",\"wanted_mhz\":%u,\"before_mhz\":%u,\"seconds_ago\":%.1f,\"changes\":%" PRIu64
                    ",\"reason\":\"%s\",\"state\":\"%s\",\"wants_replica\":%s,\"why\":\"%s\"}",
                    past->mhz, past->from_mhz,
                    past->changed_us ? (double)(now_us - past->changed_us) / 1e6 : 0.0,
                    past->changes, aw_clocks_why_name(past->choice.why),
                    aw_setter_state_text(p->state[d]), past->choice.wants_more ? "true" : "false",
                    past->sentence);
    }
    aw_text_add(t, "]");
    (void)pthread_mutex_unlock(&p->lock);
}

static void head(struct aw_text *t, const char *name, const char *kind, const char *help)
{
    aw_text_add(t, "# HELP aware_proxy_%s %s\n# TYPE aware_proxy_%s %s\n", name, help, name, kind);
}

void aw__power_metrics(struct aw__power *p, struct aw_text *t)
{
    (void)pthread_mutex_lock(&p->lock);
    head(t, "clock_mhz", "gauge", "Clock as read back.");
    for (uint32_t d = 0; d < p->count; d++)
        if (p->read[d] && p->reading[d].known & AW_DEVICE_CLOCK)
            aw_text_add(t, "aware_proxy_clock_mhz{device=\"%s\"} %u\n", p->info[d].id,
                        p->reading[d].clock_mhz);
    head(t, "clock_wanted_mhz", "gauge", "Clock that is wanted; in a dry run, that would be.");
    for (uint32_t d = 0; d < p->count; d++)
        aw_text_add(t, "aware_proxy_clock_wanted_mhz{device=\"%s\",reason=\"%s\"} %u\n",
                    p->info[d].id, aw_clocks_why_name(p->past[d].choice.why), p->past[d].mhz);
    head(t, "power_watts", "gauge", "Power as read.");
    for (uint32_t d = 0; d < p->count; d++)
        if (p->read[d] && p->reading[d].known & AW_DEVICE_POWER)
            aw_text_add(t, "aware_proxy_power_watts{device=\"%s\"} %.3f\n", p->info[d].id,
                        p->reading[d].power_mw / 1e3);
    head(t, "clock_changes_total", "counter", "Changes of clocks, all devices.");
    aw_text_add(t, "aware_proxy_clock_changes_total %" PRIu64 "\n", p->changes);
    head(t, "clock_failures_total", "counter", "Calls to devices that failed.");
    aw_text_add(t, "aware_proxy_clock_failures_total %" PRIu64 "\n", p->failures);
    head(t, "clock_unrecorded_total", "counter", "Ticks whose changes the audit log refused.");
    aw_text_add(t, "aware_proxy_clock_unrecorded_total %" PRIu64 "\n", p->unrecorded);
    head(t, "cap_kept", "gauge", "1: the cap in watts can be kept, or there is none.");
    aw_text_add(t, "aware_proxy_cap_kept %d\n", p->kept);
    (void)pthread_mutex_unlock(&p->lock);
}
