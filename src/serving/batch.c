/* batch.c - a server with slots, from event to event. */
#include "serving/batch.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define DONE_S 1e-7 /* of work: less is rounding of the time, which grows to 1e6 s */

/* Marsaglia and Tsang (2000); below 1 by the usual power. */
static double gamma_draw(struct aw_rng *rng, double shape)
{
    if (shape < 1)
        return gamma_draw(rng, shape + 1) * pow(fmax(aw_rng_double(rng), 1e-300), 1 / shape);
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double z = aw_rng_normal(rng), v = pow(1 + c * z, 3);
        if (v > 0 && log(fmax(aw_rng_double(rng), 1e-300)) < 0.5 * z * z + d - d * v + d * log(v))
            return d * v;
    }
}

static double slow(const struct aw_batch_settings *settings, uint32_t B)
{
    return 1 + settings->slowdown * (B > 0 ? B - 1 : 0);
}

double aw_batch_capacity(const struct aw_batch_settings *settings, double tokens_mean)
{
    const double alone = settings->first_s + settings->token_s * tokens_mean;
    return settings->kind == AW_BATCH_NONE
               ? alone
               : alone * slow(settings, settings->slots) / settings->slots;
}

/* What runs: the work that each has left, in seconds alone. */
struct running {
    uint32_t count;
    uint32_t request[AW_BATCH_SLOTS_MAX];
    double left[AW_BATCH_SLOTS_MAX];
};

/* Everything of a run that is not in the arrays. */
struct state {
    struct running running;
    struct aw_rng rng;
    double now, next, busy_s;
    uint32_t arrived, done;
};

static void request_draw(const struct aw_batch_settings *settings, struct aw_rng *rng,
                         const float *tokens, const float *guess, uint32_t count, double *ret_work,
                         double *ret_guess)
{
    const uint32_t i = aw_rng_below(rng, count);
    *ret_work = settings->first_s + settings->token_s * (double)tokens[i];
    *ret_guess = settings->first_s + settings->token_s * (double)guess[i];
}

static void slots_fill(const struct aw_batch_settings *settings, struct state *state,
                       struct aw_serving_queue *queue, const double *work)
{
    struct running *running = &state->running;
    const uint32_t slots = settings->kind == AW_BATCH_NONE ? 1 : settings->slots;
    uint32_t id;
    if (settings->kind == AW_BATCH_DYNAMIC && running->count)
        return;
    while (running->count < slots && aw_serving_queue_pop(queue, &id)) {
        running->request[running->count] = id;
        running->left[running->count++] = work[id];
    }
}

enum aw_err aw_batch_run(const struct aw_batch_settings *settings, const float *tokens,
                         const float *guess, uint32_t count, uint32_t n,
                         struct aw_serving_queue *queue, double *latency,
                         struct aw_batch_result *ret)
{
    if (n > queue->capacity || count == 0 || settings->slots == 0 ||
        settings->slots > AW_BATCH_SLOTS_MAX || !(settings->load > 0) || !(settings->cv > 0))
        return AW_ERR_RANGE;
    struct state state = {0};
    struct aw_rng draw;
    double mean = 0, *arrival = latency, *work = latency + n; /* latency has room for 3 n */
    double *end = latency + 2 * (size_t)n;
    for (uint32_t i = 0; i < count; i++)
        mean += (double)tokens[i] / count;
    const double gap = aw_batch_capacity(settings, mean) / settings->load;
    const double shape = 1 / (settings->cv * settings->cv);
    aw_rng_init(&state.rng, settings->seed, 1);
    aw_rng_init(&draw, settings->seed, 2); /* the same requests whatever the order */
    aw_serving_queue_clear(queue);
    double quarter_at = 0;
    while (state.done < n) {
        struct running *running = &state.running;
        const double pace = slow(settings, running->count);
        double least = INFINITY;
        for (uint32_t i = 0; i < running->count; i++)
            least = fmin(least, running->left[i]);
        const double at = fmin(state.arrived < n ? state.next : INFINITY, state.now + least * pace);
        const double step = (at - state.now) / pace;
        state.busy_s += running->count ? at - state.now : 0;
        for (uint32_t i = 0; i < running->count; i++)
            running->left[i] -= step;
        state.now = at;
        if (state.arrived < n && state.next <= at) {
            const uint32_t id = state.arrived++;
            double expected;
            request_draw(settings, &draw, tokens, guess, count, &work[id], &expected);
            arrival[id] = at;
            const bool oracle = settings->order.kind == AW_SERVING_ORACLE;
            (void)aw_serving_queue_push(
                queue, id, aw_serving_key(&settings->order, at, oracle ? work[id] : expected));
            state.next = at + gap / shape * gamma_draw(&state.rng, shape);
        }
        for (uint32_t i = 0; i < running->count;) {
            if (running->left[i] > DONE_S) {
                i++;
                continue;
            }
            end[running->request[i]] = state.now - arrival[running->request[i]];
            state.done++;
            quarter_at = state.done == n / 4 ? state.now : quarter_at;
            running->left[i] = running->left[--running->count];
            running->request[i] = running->request[running->count];
        }
        slots_fill(settings, &state, queue, work);
    }
    memcpy(latency, end, n * sizeof *latency);
    memcpy(work, end, n * sizeof *work);
    aw_stats_sort(work, n);
    *ret = (struct aw_batch_result){.mean_s = aw_stats_mean(latency, n),
                                    .p50_s = aw_stats_quantile(work, n, 0.5),
                                    .p99_s = aw_stats_quantile(work, n, 0.99),
                                    .max_s = work[n - 1],
                                    .busy = state.busy_s / state.now,
                                    .done_quarter = quarter_at > 0 ? n / 4 / quarter_at : 0};
    return AW_OK;
}
