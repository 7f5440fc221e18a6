/* clocks.c - rule, guard, cap: in this order, for every device. */
#include "serving/clocks.h"

#include <math.h>
#include <string.h>

#define DOWN_X  0.1
#define HOLD_S  10
#define STALE_S 2
#define BOUND   1.1
#define NOBODY  UINT32_MAX

static const struct {
    const char *name, *text;
    bool largest;
} whys[AW_CLOCKS_WHYS] = {
#define X(name, largest, text) {#name, text, largest},
    AW_CLOCKS_WHY_MAP(X)
#undef X
};

const char *aw_clocks_why_name(enum aw_clocks_why why)
{
    AW_ASSERT((uint32_t)why < AW_CLOCKS_WHYS);
    return whys[why].name;
}

const char *aw_clocks_why_text(enum aw_clocks_why why)
{
    AW_ASSERT((uint32_t)why < AW_CLOCKS_WHYS);
    return whys[why].text;
}

enum aw_err aw_clocks_init(struct aw_clocks *clocks, const struct aw_clocks_config *config,
                           uint32_t devices, double x_min, struct aw_diag *diag)
{
    AW_ASSERT(devices && devices <= AW_CAP_DEVICES_MAX);
    *clocks = (struct aw_clocks){.config = *config, .devices = devices, .x_min = x_min};
    struct aw_clocks_config *c = &clocks->config;
#define OR(member, value) c->member = c->member > 0 ? c->member : (value)
    OR(down_x, DOWN_X);
    OR(hold_s, HOLD_S);
    OR(stale_s, STALE_S);
    OR(bound, BOUND);
    OR(x_high, 1);
#undef OR
    c->x_low = fmax(c->x_low, x_min);
    if (!(c->x_low <= c->x_high && c->x_high <= 1))
        return aw_fail(diag, AW_ERR_CONFIG, "expected a smallest clock below the largest one");
    for (uint32_t d = 0; d < devices; d++) {
        clocks->set_x[d] = c->x_high; /* until something was measured */
        clocks->unset_s[d] = -INFINITY;
    }
    if (!(c->cap_w > 0) && !(c->device_cap_w > 0))
        return AW_OK;
    if (!c->kind)
        return aw_fail(diag, AW_ERR_CONFIG, "a cap in watts needs to know what the devices draw");
    aw_cap_init(&clocks->cap, c->kind, devices, 1, c->bound, c->power.switch_s);
    const double least = aw_cap_watts(&clocks->cap, x_min);
    if ((c->cap_w > 0 && c->cap_w < least * devices) ||
        (c->device_cap_w > 0 && c->device_cap_w < least))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "the cap is too low: a device at its smallest clock may draw %.0f W, %u of "
                       "them %.0f W",
                       least, devices, least * devices);
    return AW_OK;
}

/* The clock for a server's own sake. */
static double predict(const struct aw_power_settings *power, const struct aw_clocks_server *s,
                      double x_min, double x_now)
{
    const struct aw_power_settings careful = aw_power_careful(power, s->caution);
    double need = x_min;
    for (uint32_t i = 0; i < s->runs; i++) /* side by side: each has the clock for itself */
        need =
            fmax(need, aw_power_predict(&careful, &s->run[i], 1, NULL, 0, x_min, x_now, s->load));
    const struct aw_power_other other = {s->rate_per_s, s->slack_s};
    const bool full = s->in_flight + s->waiting >= s->slots; /* who comes now waits */
    if (s->waits)
        need = fmax(need, aw_power_predict(&careful, s->wait, s->waits, &other, full ? 1 : 0, x_min,
                                           x_now, s->load));
    return need;
}

static bool is_idle(const struct aw_clocks_server *s)
{
    return !s->in_flight && !s->waiting;
}

static double propose(const struct aw_clocks *clocks, const struct aw_clocks_server *s, double x,
                      bool *ret_more)
{
    const struct aw_power_settings *power = &clocks->config.power;
    const double low = clocks->config.x_low;
    struct aw_miad_seen goal[AW_CLOCKS_GOALS];
    uint32_t goals = 0;
    double next;
    for (uint32_t i = 0; i < AW_CLOCKS_GOALS; i++)
        if (s->goal[i].slo_s > 0)
            goal[goals++] = s->goal[i];
    switch (power->rule) {
    case AW_POWER_STATIC:
        return power->static_x;
    case AW_POWER_RACE:
        return is_idle(s) ? low : 1;
    case AW_POWER_MIAD_PRINTED:
        next = aw_miad_printed(power, goal, goals, x, low);
        return clocks->due ? next : fmax(next, x);
    case AW_POWER_MIAD:
        if (is_idle(s))
            return low;
        next = aw_miad(power, goal, goals, false, x, low, ret_more);
        return clocks->due ? next : fmax(next, x);
    case AW_POWER_PREDICTIVE:
        return is_idle(s) ? low : predict(power, s, low, x);
    default:
        return 1;
    }
}

static double slack_of(const struct aw_clocks_server *s)
{
    double least = NAN;
    for (uint32_t i = 0; i < AW_CLOCKS_GOALS; i++)
        if (s->goal[i].slo_s > 0 && s->goal[i].worst_s > 0)
            least = fmin(least, (s->goal[i].slo_s - s->goal[i].worst_s) / s->goal[i].slo_s);
    return least;
}

/* Why the guard wants the largest clock, whatever the rule says; RULE: it does not. */
static enum aw_clocks_why guard(const struct aw_clocks *clocks, const struct aw_clocks_server *s,
                                double now_s)
{
    const struct aw_clocks_config *c = &clocks->config;
    if (!(now_s - s->at_s <= c->stale_s))
        return AW_CLOCKS_STALE;
    if (c->power.rule == AW_POWER_FIXED || c->power.rule == AW_POWER_STATIC)
        return AW_CLOCKS_RULE; /* these look at nothing, so nothing can mislead them */
    if (!s->healthy)
        return AW_CLOCKS_DOWN;
    if (now_s - s->missed_s <= c->power.tick_s)
        return AW_CLOCKS_MISSED;
    if (now_s - s->missed_s <= c->hold_s && !is_idle(s))
        return AW_CLOCKS_HOLD;
    if (!s->known && c->power.rule != AW_POWER_RACE)
        return AW_CLOCKS_UNKNOWN;
    return AW_CLOCKS_RULE;
}

static void decide_one(const struct aw_clocks *clocks, double now_s,
                       const struct aw_clocks_server *server, uint32_t servers,
                       const struct aw_clocks_device *device, double x_now,
                       struct aw_clocks_choice *ret)
{
    const struct aw_clocks_config *c = &clocks->config;
    struct aw_clocks_choice choice = {.server = NOBODY, .slack = NAN, .why = AW_CLOCKS_IDLE};
    bool idle = true;
    choice.wish_x = c->power.rule == AW_POWER_STATIC  ? c->power.static_x
                    : c->power.rule == AW_POWER_FIXED ? 1
                                                      : c->x_low;
    choice.x = choice.wish_x;
    for (uint32_t i = 0; i < servers; i++) {
        if (!(device->servers >> i & 1))
            continue;
        const struct aw_clocks_server *s = &server[i];
        const double wish = propose(clocks, s, x_now, &choice.wants_more);
        const enum aw_clocks_why why = guard(clocks, s, now_s);
        const double x = whys[why].largest ? 1 : wish;
        choice.slack = fmin(choice.slack, slack_of(s)); /* fmin leaves NAN out */
        choice.wish_x = fmax(choice.wish_x, wish);
        idle &= is_idle(s);
        /* the one that wants most says why; a guard that fires says more than a rule */
        if (choice.server == NOBODY || x > choice.x ||
            (x >= choice.x && why > choice.why && choice.why == AW_CLOCKS_RULE)) {
            choice.x = fmax(choice.x, x);
            choice.why = why;
            choice.server = i;
        }
    }
    if (choice.why == AW_CLOCKS_RULE && idle)
        choice.why = AW_CLOCKS_IDLE;
    if (isnan(device->read_x) || device->unset) {
        choice.why = isnan(device->read_x) ? AW_CLOCKS_LOST : AW_CLOCKS_UNSET;
        choice.x = 1;
    }
    const double lowest = clocks->config.power.rule == AW_POWER_STATIC ? 0 : x_now - c->down_x;
    if (choice.x < lowest) { /* an idle device has nobody to hurt, but requests come at once */
        choice.x = lowest;
        choice.why = AW_CLOCKS_STEP;
    }
    if (choice.x > c->x_high || choice.x < c->x_low) {
        choice.x = fmin(fmax(choice.x, c->x_low), c->x_high);
        choice.why = whys[choice.why].largest ? choice.why : AW_CLOCKS_BOUND;
    }
    *ret = choice;
}

/* The largest clock at which the bound of a device's power is below `watts`. */
static double clock_below(const struct aw_cap *cap, double watts, double low)
{
    double high = 1;
    if (aw_cap_watts(cap, high) <= watts)
        return high;
    for (uint32_t i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;
        if (aw_cap_watts(cap, middle) <= watts)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool cap_keep(struct aw_clocks *clocks, double now_s, const struct aw_clocks_server *server,
                     uint32_t servers, const struct aw_clocks_device *device,
                     struct aw_clocks_choice *ret)
{
    const struct aw_clocks_config *c = &clocks->config;
    struct aw_cap_device wish[AW_CAP_DEVICES_MAX];
    double x[AW_CAP_DEVICES_MAX];
    const double most =
        c->device_cap_w > 0 ? clock_below(&clocks->cap, c->device_cap_w, clocks->x_min) : 1;
    for (uint32_t d = 0; d < clocks->devices; d++) {
        if (ret[d].x > most) {
            ret[d].x = most;
            ret[d].why = AW_CLOCKS_CAP;
        }
        double weight = 0;
        for (uint32_t i = 0; i < servers; i++)
            if (device[d].servers >> i & 1)
                weight += server[i].in_flight + server[i].waiting;
        wish[d] = (struct aw_cap_device){.read_x = device[d].read_x,
                                         .want_x = ret[d].x,
                                         .need_x = fmin(fmax(ret[d].wish_x, clocks->x_min), 1),
                                         .weight = weight};
    }
    if (!(c->cap_w > 0))
        return true;
    const bool kept = aw_cap_tick(&clocks->cap, now_s, c->cap_w, wish, x);
    for (uint32_t d = 0; d < clocks->devices; d++) {
        /* what it does not set stays: a raise that has no room yet, or a device that is lost */
        const double given = isnan(x[d]) ? clocks->cap.target_x[d] : x[d];
        if (given < ret[d].x - 1e-9)
            ret[d].why = AW_CLOCKS_CAP;
        ret[d].x = fmin(given, ret[d].x);
    }
    return kept;
}

bool aw_clocks_decide(struct aw_clocks *clocks, double now_s, const struct aw_clocks_server *server,
                      uint32_t servers, const struct aw_clocks_device *device,
                      struct aw_clocks_choice *ret)
{
    AW_ASSERT(servers <= AW_CLOCKS_SERVERS_MAX);
    bool kept = true;
    clocks->due = now_s >= clocks->due_s;
    if (clocks->due)
        clocks->due_s = now_s + clocks->config.power.tick_s;
    for (uint32_t d = 0; d < clocks->devices; d++) {
        struct aw_clocks_device one = device[d];
        if (one.unset)
            clocks->unset_s[d] = now_s;
        one.unset = now_s - clocks->unset_s[d] <= clocks->config.hold_s;
        decide_one(clocks, now_s, server, servers, &one, clocks->set_x[d], &ret[d]);
    }
    if (clocks->config.cap_w > 0 || clocks->config.device_cap_w > 0)
        kept = cap_keep(clocks, now_s, server, servers, device, ret);
    for (uint32_t d = 0; d < clocks->devices; d++)
        clocks->set_x[d] = ret[d].x;
    return kept;
}
