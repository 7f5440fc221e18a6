/* fleet.c - the event loop. */
#include "serving/fleet.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define NONE        UINT32_MAX
#define LOAD_TAU_S  60.0 /* over which utilisation is averaged */
#define BURST_TAU_S 5.0
#define WORST_SLOTS 10u  /* seconds that corrected MIAD looks back */
#define PARK_TICK_S 15.0 /* between decisions about replicas */
#define BIAS_GAIN   0.02 /* of how a model's work differs from what is predicted */

struct device {
    struct aw_serving_queue queue;
    uint32_t *request; /* [AW_FLEET_WAITING_MAX]: slot -> request */
    uint32_t *slot;    /* free slots, a stack */
    uint32_t slots;
    uint32_t running; /* NONE: idle */
    double left_s;    /* of its work at the largest clock */
    double x, target_x, switch_at, finish_at, since, power_w, thermal_x;
    double backlog_s; /* predicted work that is there */
    double load, load_at;
    bool parked, lost;
    double ready_at; /* when models are loaded again */
    double busy_j, idle_j, busy_s, active_s;
    double slowed_s; /* of this busy period: what the largest clock would have saved */
    /* of MIAD */
    double miad_x; /* while anything is there */
    double latency[AW_FLEET_MODELS_MAX], sum[AW_FLEET_MODELS_MAX];
    uint32_t count[AW_FLEET_MODELS_MAX];
    double worst[AW_FLEET_MODELS_MAX][WORST_SLOTS];
};

struct aw_fleet {
    struct aw_fleet_world world;
    uint32_t requests_max;
    struct device device[AW_FLEET_DEVICES_MAX];
    double *latency; /* [requests_max] */
    /* of one run */
    const struct aw_fleet_load *load;
    const struct aw_fleet_settings *settings;
    struct aw_fleet_result *result;
    struct aw_rng rng;
    double now, x_min, rate, rate_at;
    double caution, debt, spare;      /* the guards of power.h */
    double bias[AW_FLEET_MODELS_MAX]; /* logarithm of true over predicted work */
    uint32_t active, before, second;  /* not parked, now and at the tick before */
    uint64_t done;
    double asked[AW_FLEET_MODELS_MAX], burst[AW_FLEET_MODELS_MAX]; /* fading counts */
    double asked_at[AW_FLEET_MODELS_MAX];
    double work[AW_FLEET_MODELS_MAX]; /* mean, predicted */
};

enum aw_err aw_fleet_new(const struct aw_fleet_world *world, uint32_t requests_max,
                         struct aw_fleet **ret, struct aw_diag *diag)
{
    if (world->devices == 0 || world->devices > AW_FLEET_DEVICES_MAX || world->models == 0 ||
        world->models > AW_FLEET_MODELS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u devices and models",
                       AW_FLEET_DEVICES_MAX);
    for (uint32_t m = 0; m < world->models; m++)
        if (world->replicas[m] == 0)
            return aw_fail(diag, AW_ERR_CONFIG, "model %u is placed on no device", m);
    struct aw_fleet *fleet = aw_alloc_new(NULL, 1, sizeof *fleet);
    enum aw_err err = fleet ? AW_OK : AW_ERR_NOMEM;
    if (fleet) {
        fleet->world = *world;
        fleet->requests_max = requests_max;
        fleet->latency = aw_alloc_new(NULL, requests_max, sizeof *fleet->latency);
        err = fleet->latency ? AW_OK : AW_ERR_NOMEM;
    }
    for (uint32_t d = 0; !err && d < world->devices; d++) {
        struct device *device = &fleet->device[d];
        err = aw_serving_queue_init(&device->queue, AW_FLEET_WAITING_MAX, NULL);
        device->request = aw_alloc_new(NULL, AW_FLEET_WAITING_MAX, sizeof *device->request);
        device->slot = aw_alloc_new(NULL, AW_FLEET_WAITING_MAX, sizeof *device->slot);
        if (!device->request || !device->slot)
            err = AW_ERR_NOMEM;
    }
    if (err) {
        aw_fleet_free(fleet);
        return aw_fail(diag, err, "no memory for a fleet");
    }
    *ret = fleet;
    return AW_OK;
}

void aw_fleet_free(struct aw_fleet *fleet)
{
    if (!fleet)
        return;
    for (uint32_t d = 0; d < AW_FLEET_DEVICES_MAX; d++) {
        aw_serving_queue_deinit(&fleet->device[d].queue);
        aw_alloc_free(NULL, fleet->device[d].request);
        aw_alloc_free(NULL, fleet->device[d].slot);
    }
    aw_alloc_free(NULL, fleet->latency);
    aw_alloc_free(NULL, fleet);
}

/* --- a device over time ----------------------------------------------------------------------- */

static double slow(double m, double x)
{
    return m + (1 - m) / x;
}

static double memory_of(const struct aw_fleet *fleet, uint32_t request)
{
    return fleet->world.memory[fleet->load->model[request]];
}

/* Books what has passed since the last change. */
static void advance(struct aw_fleet *fleet, struct device *device)
{
    const double dt = fleet->now - device->since, joules = device->power_w * dt;
    device->since = fleet->now;
    device->active_s += device->parked ? 0 : dt;
    if (device->running == NONE) {
        device->idle_j += joules;
        device->slowed_s *= dt > 0 ? 0 : 1;
        return;
    }
    const uint32_t model = fleet->load->model[device->running];
    const double work = dt / slow(fleet->world.memory[model], device->x);
    device->left_s -= work;
    device->slowed_s += dt - work;
    device->busy_j += joules;
    device->busy_s += dt;
    fleet->result->model_j[model] += joules;
}

/* After a change of clock or of what runs. */
static void refresh(struct aw_fleet *fleet, struct device *device)
{
    const struct aw_gpu_kind *kind = fleet->world.kind;
    if (device->running == NONE) {
        device->finish_at = INFINITY;
        device->power_w = device->parked ? (fleet->settings->released ? 0 : kind->parked_w)
                                         : aw_gpu_idle_w(kind, device->x);
        return;
    }
    const double m = memory_of(fleet, device->running);
    device->finish_at = fleet->now + fmax(device->left_s, 0) * slow(m, device->x);
    device->power_w = aw_gpu_busy_w(kind, m, device->x);
}

static void clock_want(struct aw_fleet *fleet, struct device *device, double x)
{
    x = fmin(aw_gpu_grid(fleet->world.kind, x), device->thermal_x);
    if (fabs(x - device->target_x) < 1e-9)
        return;
    fleet->result->switches++;
    if (fleet->settings->failed_share > 0 &&
        aw_rng_double(&fleet->rng) < fleet->settings->failed_share)
        return; /* read back, it is seen to have done nothing: the next event tries again */
    device->target_x = x;
    device->switch_at = fleet->now + fleet->settings->switch_s;
}

static void clock_switch(struct aw_fleet *fleet, struct device *device)
{
    advance(fleet, device);
    device->x = fmin(device->target_x, device->thermal_x);
    device->switch_at = INFINITY;
    refresh(fleet, device);
}

/* --- who decides ------------------------------------------------------------------------------ */

static double load_of(struct device *device, double now, double more)
{
    device->load *= exp(-(now - device->load_at) / LOAD_TAU_S);
    device->load_at = now;
    device->load += more / LOAD_TAU_S;
    return device->load;
}

static int by_key(const struct aw_serving_waiting *a, const struct aw_serving_waiting *b)
{
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
                            : (a->number > b->number) - (a->number < b->number);
}

static struct aw_power_item item_of(const struct aw_fleet *fleet, uint32_t request, double work_s)
{
    const uint32_t model = fleet->load->model[request];
    return (struct aw_power_item){.left_s = fleet->load->arrival_s[request] +
                                            fleet->world.slo_s[model] - fleet->now,
                                  .work_s = work_s,
                                  .memory = fleet->world.memory[model]};
}

/* The requests that wait, in the order of service; false: more than is looked at. */
static bool waiting_sort(const struct device *device, uint32_t *ret)
{
    struct aw_serving_waiting sorted[AW_POWER_ITEMS_MAX];
    if (device->queue.count >= AW_POWER_ITEMS_MAX)
        return false;
    for (uint32_t i = 0; i < device->queue.count; i++) {
        uint32_t at = i;
        for (; at > 0 && by_key(&device->queue.heap[i], &sorted[at - 1]) < 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = device->queue.heap[i];
    }
    for (uint32_t i = 0; i < device->queue.count; i++)
        ret[i] = device->request[sorted[i].id];
    return true;
}

static double served_of(const struct aw_fleet *fleet, const struct device *device)
{
    return (double)fleet->load->work_s[device->running] - device->left_s;
}

/* What is there, the running one first, each by its p90. */
static uint32_t items_take(const struct aw_fleet *fleet, const struct device *device,
                           const uint32_t *waiting, struct aw_power_item *item)
{
    uint32_t count = 0;
    if (device->running != NONE) {
        /* what was served counts off the prediction; beyond it, a tenth of it is still to come */
        const double high = (double)fleet->load->high_s[device->running];
        item[count++] =
            item_of(fleet, device->running, fmax(high - served_of(fleet, device), 0.1 * high));
    }
    for (uint32_t i = 0; i < device->queue.count; i++)
        item[count++] = item_of(fleet, waiting[i], (double)fleet->load->high_s[waiting[i]]);
    return count;
}

/* The same as chances, each model by what its requests were seen to take. */
static uint32_t chances_take(const struct aw_fleet *fleet, const struct device *device,
                             const uint32_t *waiting, struct aw_power_chance *chance)
{
    uint32_t count = 0;
    for (uint32_t i = device->running == NONE; i <= device->queue.count; i++) {
        const uint32_t request = i == 0 ? device->running : waiting[i - 1],
                       model = fleet->load->model[request];
        const double bias = exp(fleet->bias[model]);
        chance[count] = aw_power_rest(bias * (double)fleet->load->guess_s[request],
                                      bias * (double)fleet->load->high_s[request],
                                      i == 0 ? served_of(fleet, device) : 0);
        chance[count].left_s =
            fleet->load->arrival_s[request] + fleet->world.slo_s[model] - fleet->now;
        chance[count++].memory = fleet->world.memory[model];
    }
    return count;
}

/* Requests/s of a model: the larger of a slow mean and of a fast one, which sees bursts. */
static double rate_of(const struct aw_fleet *fleet, uint32_t m)
{
    const double since = fleet->now - fleet->asked_at[m];
    return fmax(fleet->asked[m] / LOAD_TAU_S * exp(-since / LOAD_TAU_S),
                fleet->burst[m] / BURST_TAU_S * exp(-since / BURST_TAU_S));
}

/* Models of this device, and how often each of its replicas is asked. */
static uint32_t others_take(const struct aw_fleet *fleet, uint32_t d, struct aw_power_other *other)
{
    const struct aw_fleet_world *world = &fleet->world;
    uint32_t count = 0;
    for (uint32_t m = 0; m < world->models; m++) {
        if (!(world->replicas[m] >> d & 1))
            continue;
        uint32_t free = 1; /* a busy device is asked only where the others are busy, too */
        for (uint32_t k = 0; k < world->devices; k++)
            free += k != d && world->replicas[m] >> k & 1 && !fleet->device[k].parked &&
                    fleet->device[k].running == NONE;
        other[count++] = (struct aw_power_other){free > 1 ? 0 : rate_of(fleet, m),
                                                 world->slo_s[m] - fleet->work[m]};
    }
    return count;
}

static double predict(struct aw_fleet *fleet, struct device *device)
{
    const struct aw_power_settings *power = &fleet->settings->power;
    const uint32_t d = (uint32_t)(device - fleet->device);
    const double load = load_of(device, fleet->now, 0);
    struct aw_power_other other[AW_FLEET_MODELS_MAX];
    uint32_t waiting[AW_POWER_ITEMS_MAX];
    if (!waiting_sort(device, waiting))
        return 1;
    const uint32_t others = others_take(fleet, d, other);
    if (power->price_j > 0) {
        struct aw_power_chance chance[AW_POWER_ITEMS_MAX + 1];
        const uint32_t count = chances_take(fleet, device, waiting, chance);
        return aw_power_least(power, fleet->world.kind, chance, count, other, others, device->x,
                              load, fleet->debt);
    }
    struct aw_power_item item[AW_POWER_ITEMS_MAX + 1];
    const struct aw_power_settings careful = aw_power_careful(power, fleet->caution);
    const uint32_t count = items_take(fleet, device, waiting, item);
    return aw_power_predict(&careful, item, count, other, others, fleet->x_min, device->x, load);
}

/* At every arrival and end. */
static void decide(struct aw_fleet *fleet, struct device *device)
{
    const struct aw_power_settings *power = &fleet->settings->power;
    const bool idle = device->running == NONE && device->queue.count == 0;
    if (device->parked)
        return;
    switch (power->rule) {
    case AW_POWER_RACE:
        clock_want(fleet, device, idle ? fleet->x_min : 1);
        break;
    case AW_POWER_MIAD:
        if (idle)
            clock_want(fleet, device, fleet->x_min);
        else if (device->target_x < power->floor_x)
            clock_want(fleet, device, fmax(power->floor_x, device->miad_x));
        break;
    case AW_POWER_PREDICTIVE:
        clock_want(fleet, device, idle ? fleet->x_min : predict(fleet, device));
        break;
    default:
        break;
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static void serve_next(struct aw_fleet *fleet, struct device *device)
{
    uint32_t slot;
    if (device->running != NONE || device->lost || fleet->now < device->ready_at ||
        !aw_serving_queue_pop(&device->queue, &slot))
        return;
    device->running = device->request[slot];
    device->slot[device->slots++] = slot;
    device->left_s = (double)fleet->load->work_s[device->running];
}

/* The replica with the least predicted work before it, among those that serve. */
static uint32_t replica_of(const struct aw_fleet *fleet, uint32_t model)
{
    uint32_t best = NONE;
    for (uint32_t d = 0; d < fleet->world.devices; d++) {
        const struct device *device = &fleet->device[d];
        if (!(fleet->world.replicas[model] >> d & 1) || device->parked || device->lost)
            continue;
        const double wait = device->backlog_s + fmax(device->ready_at - fleet->now, 0);
        if (best == NONE || wait < fleet->device[best].backlog_s +
                                       fmax(fleet->device[best].ready_at - fleet->now, 0))
            best = d;
    }
    return best;
}

static void arrive(struct aw_fleet *fleet, uint32_t request)
{
    const struct aw_fleet_load *load = fleet->load;
    const uint32_t d = replica_of(fleet, load->model[request]);
    struct device *device = d == NONE ? NULL : &fleet->device[d];
    const double guess = (double)load->guess_s[request];
    fleet->rate =
        fleet->rate * exp(-(fleet->now - fleet->rate_at) / LOAD_TAU_S) + guess / LOAD_TAU_S;
    fleet->rate_at = fleet->now;
    const uint32_t model = load->model[request];
    fleet->asked[model] =
        1 + fleet->asked[model] * exp(-(fleet->now - fleet->asked_at[model]) / LOAD_TAU_S);
    fleet->burst[model] =
        1 + fleet->burst[model] * exp(-(fleet->now - fleet->asked_at[model]) / BURST_TAU_S);
    fleet->asked_at[model] = fleet->now;
    fleet->work[model] += (guess - fleet->work[model]) * 0.02;
    if (!device || device->slots == 0) {
        fleet->result->lost++;
        fleet->result->missed++;
        fleet->result->model_missed[load->model[request]]++;
        return;
    }
    advance(fleet, device);
    load_of(device, fleet->now, guess);
    const uint32_t slot = device->slot[--device->slots];
    device->request[slot] = request;
    device->backlog_s += guess;
    const double work =
        fleet->settings->order.kind == AW_SERVING_ORACLE ? (double)load->work_s[request] : guess;
    (void)aw_serving_queue_push(
        &device->queue, slot,
        aw_serving_key(&fleet->settings->order, load->arrival_s[request], work));
    serve_next(fleet, device);
    refresh(fleet, device);
    decide(fleet, device);
}

static void finish(struct aw_fleet *fleet, struct device *device)
{
    const uint32_t request = device->running, model = fleet->load->model[request];
    const double latency = fleet->now - fleet->load->arrival_s[request];
    struct aw_fleet_result *result = fleet->result;
    advance(fleet, device);
    device->running = NONE;
    device->backlog_s = fmax(device->backlog_s - (double)fleet->load->guess_s[request], 0);
    fleet->latency[fleet->done++] = latency;
    result->done++;
    result->tokens += (double)fleet->load->tokens[request];
    result->model_done[model]++;
    const bool late = latency > fleet->world.slo_s[model];
    result->missed += late;
    result->model_missed[model] += late;
    const bool blamed = late && latency - device->slowed_s <= fleet->world.slo_s[model];
    fleet->caution = aw_power_learn(&fleet->settings->power, fleet->caution, blamed);
    fleet->debt = aw_power_bill(&fleet->settings->power, fleet->debt, blamed);
    /* all devices would have shared the queue before it */
    const uint32_t active = fleet->active < fleet->before ? fleet->active : fleet->before;
    const double waited = latency - (double)fleet->load->work_s[request],
                 shared = latency - waited * (1 - (double)active / fleet->world.devices);
    fleet->spare =
        aw_power_spare(fleet->spare, late && !blamed && shared <= fleet->world.slo_s[model]);
    fleet->bias[model] +=
        BIAS_GAIN *
        (log((double)fleet->load->work_s[request] / (double)fleet->load->guess_s[request]) -
         fleet->bias[model]);
    device->sum[model] += latency;
    device->count[model]++;
    double *worst = &device->worst[model][fleet->second % WORST_SLOTS];
    *worst = fmax(*worst, latency);
    serve_next(fleet, device);
    refresh(fleet, device);
    decide(fleet, device);
}

/* --- once a second ---------------------------------------------------------------------------- */

/* A request that waits or runs is at least as late as it is old. */
static void waiting_see(struct aw_fleet *fleet, struct device *device, uint32_t request)
{
    double *worst = &device->worst[fleet->load->model[request]][fleet->second % WORST_SLOTS];
    *worst = fmax(*worst, fleet->now - fleet->load->arrival_s[request]);
}

static void miad_tick(struct aw_fleet *fleet, struct device *device)
{
    const struct aw_fleet_world *world = &fleet->world;
    struct aw_miad_seen seen[AW_FLEET_MODELS_MAX];
    bool up = false;
    if (device->running != NONE)
        waiting_see(fleet, device, device->running);
    for (uint32_t i = 0; i < device->queue.count; i++)
        waiting_see(fleet, device, device->request[device->queue.heap[i].id]);
    for (uint32_t m = 0; m < world->models; m++) {
        if (device->count[m])
            device->latency[m] = device->sum[m] / device->count[m];
        double worst = 0;
        for (uint32_t s = 0; s < WORST_SLOTS; s++)
            worst = fmax(worst, device->worst[m][s]);
        seen[m] =
            (struct aw_miad_seen){world->slo_s[m], world->memory[m], device->latency[m], worst};
        device->sum[m] = 0;
        device->count[m] = 0;
        device->worst[m][(fleet->second + 1) % WORST_SLOTS] = 0;
    }
    const bool idle = device->running == NONE && device->queue.count == 0;
    if (fleet->settings->power.rule == AW_POWER_MIAD_PRINTED) {
        clock_want(fleet, device,
                   aw_miad_printed(&fleet->settings->power, seen, world->models, device->target_x,
                                   fleet->x_min));
    } else {
        device->miad_x = aw_miad(&fleet->settings->power, seen, world->models, idle, device->miad_x,
                                 fleet->x_min, &up);
        if (!idle)
            clock_want(fleet, device, device->miad_x);
    }
}

/* How many devices: enough for the work that arrives at the utilisation aimed at. Devices are
 * parked from the last on; every model has a replica among the first. */
static void park_tick(struct aw_fleet *fleet)
{
    const uint32_t D = fleet->world.devices;
    const double rate = fleet->rate * exp(-(fleet->now - fleet->rate_at) / LOAD_TAU_S);
    uint32_t least = 1, wanted = (uint32_t)ceil(fmin(rate * (1 + fleet->spare), D) /
                                                fleet->settings->power.target);
    for (uint32_t m = 0; m < fleet->world.models; m++) {
        const uint32_t first = (uint32_t)__builtin_ctzll(fleet->world.replicas[m]) + 1;
        least = first > least ? first : least;
    }
    wanted = wanted < least ? least : wanted > D ? D : wanted;
    if (wanted + 1 == fleet->active) /* one device of hysteresis on the way down */
        wanted = fleet->active;
    for (uint32_t d = 0; d < D; d++) {
        struct device *device = &fleet->device[d];
        const bool park = d >= wanted;
        if (park == device->parked || (park && (device->running != NONE || device->queue.count)))
            continue;
        advance(fleet, device);
        device->parked = park;
        device->ready_at = park ? INFINITY : fleet->now + fleet->settings->load_s;
        if (!park)
            device->x = device->target_x = fleet->x_min;
        refresh(fleet, device);
    }
    fleet->before = fleet->active;
    fleet->active = wanted;
}

static void tick(struct aw_fleet *fleet)
{
    const struct aw_fleet_settings *settings = fleet->settings;
    const uint32_t rule = settings->power.rule;
    fleet->second++;
    for (uint32_t d = 0; d < fleet->world.devices; d++) {
        struct device *device = &fleet->device[d];
        if (settings->thermal_share > 0) {
            const bool hot = aw_rng_double(&fleet->rng) < settings->thermal_share;
            device->thermal_x = hot ? settings->thermal_x : 1;
            if (device->x > device->thermal_x)
                clock_switch(fleet, device);
        }
        if (rule == AW_POWER_MIAD || rule == AW_POWER_MIAD_PRINTED)
            miad_tick(fleet, device);
        else if (settings->failed_share > 0 || settings->thermal_share > 0)
            decide(fleet, device);
        if (device->ready_at <= fleet->now && device->running == NONE && device->queue.count) {
            advance(fleet, device);
            serve_next(fleet, device);
            refresh(fleet, device);
            decide(fleet, device);
        }
    }
    if (settings->power.replicas && fmod((double)fleet->second, PARK_TICK_S) == 0)
        park_tick(fleet);
}

/* --- a run ------------------------------------------------------------------------------------ */

static void begin(struct aw_fleet *fleet, const struct aw_fleet_load *load,
                  const struct aw_fleet_settings *settings, struct aw_fleet_result *ret)
{
    const uint32_t rule = settings->power.rule;
    memset(ret, 0, sizeof *ret);
    fleet->load = load;
    fleet->settings = settings;
    fleet->result = ret;
    aw_rng_init(&fleet->rng, settings->seed, 0xf1ee7);
    fleet->now = fleet->rate = fleet->rate_at = 0;
    fleet->caution = fleet->debt = fleet->spare = 0;
    memset(fleet->bias, 0, sizeof fleet->bias);
    fleet->second = 0;
    fleet->done = 0;
    fleet->active = fleet->before = fleet->world.devices;
    fleet->x_min = aw_gpu_x_min(fleet->world.kind);
    memset(fleet->asked, 0, sizeof fleet->asked);
    memset(fleet->burst, 0, sizeof fleet->burst);
    memset(fleet->asked_at, 0, sizeof fleet->asked_at);
    memset(fleet->work, 0, sizeof fleet->work);
    const double x = rule == AW_POWER_STATIC
                         ? aw_gpu_grid(fleet->world.kind, settings->power.static_x)
                     : rule == AW_POWER_RACE || rule == AW_POWER_PREDICTIVE ? fleet->x_min
                                                                            : 1;
    for (uint32_t d = 0; d < fleet->world.devices; d++) {
        struct device *device = &fleet->device[d];
        const struct device old = *device;
        *device = (struct device){.queue = old.queue,
                                  .request = old.request,
                                  .slot = old.slot,
                                  .slots = AW_FLEET_WAITING_MAX,
                                  .running = NONE,
                                  .x = x,
                                  .target_x = x,
                                  .miad_x = 1,
                                  .thermal_x = 1,
                                  .switch_at = INFINITY,
                                  .finish_at = INFINITY};
        aw_serving_queue_clear(&device->queue);
        for (uint32_t i = 0; i < AW_FLEET_WAITING_MAX; i++)
            device->slot[i] = i;
        refresh(fleet, device);
    }
}

static void now_take(struct aw_fleet *fleet, struct aw_fleet_now *now)
{
    now->devices = fleet->world.devices;
    now->watts = now->energy_j = 0;
    now->done = fleet->result->done;
    now->missed = fleet->result->missed;
    now->tokens = (uint64_t)fleet->result->tokens;
    for (uint32_t d = 0; d < fleet->world.devices; d++) {
        struct device *device = &fleet->device[d];
        advance(fleet, device);
        now->clock_mhz[d] = device->x * fleet->world.kind->clock_max;
        now->power_w[d] = device->power_w;
        now->waiting[d] = device->queue.count;
        now->busy[d] = device->running != NONE;
        now->parked[d] = device->parked;
        now->watts += device->power_w;
        now->energy_j += device->busy_j + device->idle_j;
    }
}

static void end(struct aw_fleet *fleet)
{
    struct aw_fleet_result *result = fleet->result;
    double busy_s = 0, active_s = 0;
    result->length_s = fleet->now;
    for (uint32_t d = 0; d < fleet->world.devices; d++) {
        struct device *device = &fleet->device[d];
        advance(fleet, device);
        result->busy_j += device->busy_j;
        result->idle_j += device->idle_j;
        busy_s += device->busy_s;
        active_s += device->active_s;
    }
    result->energy_j = result->busy_j + result->idle_j;
    result->requests = fleet->load->count;
    result->attainment =
        result->requests ? 1 - (double)result->missed / (double)result->requests : 1;
    result->mean_w = result->energy_j / fmax(fleet->now, 1e-9);
    result->busy_share = busy_s / fmax(fleet->now * fleet->world.devices, 1e-9);
    result->active_devices = active_s / fmax(fleet->now, 1e-9);
    if (fleet->done) {
        result->latency_mean_s = aw_stats_mean(fleet->latency, fleet->done);
        aw_stats_sort(fleet->latency, fleet->done);
        result->latency_p50_s = aw_stats_quantile(fleet->latency, fleet->done, 0.5);
        result->latency_p99_s = aw_stats_quantile(fleet->latency, fleet->done, 0.99);
    }
}

enum aw_err aw_fleet_run(struct aw_fleet *fleet, const struct aw_fleet_load *load,
                         const struct aw_fleet_settings *settings, struct aw_fleet_result *ret)
{
    AW_ASSERT(load->count <= fleet->requests_max);
    begin(fleet, load, settings, ret);
    const uint32_t D = fleet->world.devices;
    struct aw_fleet_now now = {0};
    double tick_at = settings->power.tick_s,
           track_at = settings->track ? settings->track_s : INFINITY;
    for (uint32_t next = 0;;) {
        const double arrival = next < load->count ? load->arrival_s[next] : INFINITY;
        double at = fmin(fmin(arrival, tick_at), track_at);
        uint32_t who = NONE;
        bool switches = false;
        for (uint32_t d = 0; d < D; d++) {
            const struct device *device = &fleet->device[d];
            if (device->finish_at < at || device->switch_at < at) {
                switches = device->switch_at < device->finish_at;
                at = switches ? device->switch_at : device->finish_at;
                who = d;
            }
        }
        fleet->now = at;
        if (who != NONE) {
            if (switches)
                clock_switch(fleet, &fleet->device[who]);
            else
                finish(fleet, &fleet->device[who]);
        } else if (arrival <= at) {
            arrive(fleet, next++);
        } else if (tick_at <= at) {
            tick(fleet);
            tick_at += settings->power.tick_s;
            if (next == load->count && ret->done + ret->lost == load->count &&
                fleet->now >= load->length_s)
                break;
        } else {
            now_take(fleet, &now);
            track_at += settings->track_s;
            if (!settings->track(settings->track_ctx, fleet->now, &now))
                return AW_ERR_INTERRUPTED;
        }
    }
    end(fleet);
    return AW_OK;
}
