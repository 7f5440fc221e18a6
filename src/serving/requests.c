/* requests.c - traces of requests, and what a fleet makes of them. */
#include "serving/requests.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/stats.h"
#include "serving/table.h"
#include "trace/read.h"
#include "workload/load.h"

#define LENGTH_MEDIAN 140.0 /* of LMSYS answers, tokens */
#define LENGTH_SIGMA  0.9
#define LENGTH_CUT    511.0 /* LMSYS answers of 512 tokens or more were dropped */
#define P90           1.2816

void aw_requests_deinit(struct aw_requests *requests)
{
    aw_alloc_free(NULL, requests->arrival_s);
    aw_alloc_free(NULL, requests->prompt);
    aw_alloc_free(NULL, requests->answer);
    memset(requests, 0, sizeof *requests);
}

static enum aw_err requests_init(struct aw_requests *requests, uint32_t count, struct aw_diag *diag)
{
    *requests = (struct aw_requests){0};
    requests->arrival_s = aw_alloc_new(NULL, count, sizeof(double));
    requests->prompt = aw_alloc_new(NULL, count, sizeof(float));
    requests->answer = aw_alloc_new(NULL, count, sizeof(float));
    if (requests->arrival_s && requests->prompt && requests->answer)
        return AW_OK;
    aw_requests_deinit(requests);
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u requests", count);
}

/* "2023-11-16 18:17:03.9799600" as seconds; NAN: no time. */
static double time_read(const char *text)
{
    struct tm tm = {0};
    double second = 0;
    int used = 0;
    if (sscanf(text, "%d-%d-%d%*[ T]%d:%d:%lf%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &second, &used) != 6)
        return NAN;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (double)timegm(&tm) + second;
}

static void take(struct aw_requests *requests, double at, double prompt, double answer)
{
    requests->arrival_s[requests->count] = at;
    requests->prompt[requests->count] = (float)fmax(prompt, 1);
    requests->answer[requests->count++] = (float)fmax(answer, 1);
}

static enum aw_err table_take(const char *path, const struct aw_serving_table *table, uint64_t seed,
                              uint32_t count_max, struct aw_requests *ret, struct aw_diag *diag)
{
    static const char *const azure[] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens", NULL};
    static const char *const lengths[] = {"num_prefill_tokens", "num_decode_tokens", NULL};
    const bool timed = aw_serving_table_has(table, azure);
    if (!timed && !aw_serving_table_has(table, lengths))
        return AW_ERR_UNSUPPORTED;
    const uint32_t time = aw_serving_table_column(table, azure[0]),
                   prompt = aw_serving_table_column(table, timed ? azure[1] : lengths[0]),
                   answer = aw_serving_table_column(table, timed ? azure[2] : lengths[1]);
    enum aw_err err = requests_init(ret, table->rows, diag);
    struct aw_rng rng;
    double last = 0, first = NAN;
    aw_rng_init(&rng, seed, 0x7ace);
    for (uint32_t r = 0; !err && r < table->rows && ret->count < count_max; r++) {
        const double at = timed ? time_read(aw_serving_table_text(table, r, time))
                                : last + aw_rng_exponential(&rng, 1);
        const double p = aw_serving_table_real(table, r, prompt),
                     a = aw_serving_table_real(table, r, answer);
        first = r == 0 ? (timed ? at : 0) : first;
        if (!isfinite(at) || !isfinite(p) || !isfinite(a))
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, table->line[r + 1], 0, NULL,
                             "expected a time and two numbers of tokens");
        else
            take(ret, at - first, p, a);
        last = at;
    }
    if (err)
        aw_requests_deinit(ret);
    return err;
}

static enum aw_err lines_take(const char *path, char *bytes, uint32_t count_max,
                              struct aw_requests *ret, struct aw_diag *diag)
{
    uint32_t lines = 1, number = 0;
    for (const char *at = bytes; *at; at++)
        lines += *at == '\n';
    enum aw_err err = requests_init(ret, lines, diag);
    for (char *at = bytes; !err && at && *at && ret->count < count_max;) {
        char *end = strchr(at, '\n');
        json_error_t error;
        number++;
        json_t *object = json_loadb(at, end ? (size_t)(end - at) : strlen(at), 0, &error);
        const json_t *time = json_object_get(object, "timestamp"),
                     *prompt = json_object_get(object, "input_length"),
                     *answer = json_object_get(object, "output_length");
        if (json_is_number(time) && json_is_number(prompt) && json_is_number(answer))
            take(ret, 1e-3 * json_number_value(time), json_number_value(prompt),
                 json_number_value(answer));
        else if (end != at && *at)
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, number, 0, NULL,
                             "expected {\"timestamp\":, \"input_length\":, \"output_length\":}");
        json_decref(object);
        at = end ? end + 1 : NULL;
    }
    if (err)
        aw_requests_deinit(ret);
    return err;
}

/* Arrivals of a load as workload/ knows it: Poisson within each second; lengths are made up. */
static enum aw_err load_take(const char *text, uint64_t seed, uint32_t count_max,
                             struct aw_requests *ret, struct aw_diag *diag)
{
    struct aw_load load;
    struct aw_rng rng;
    enum aw_err err = aw_load_parse(text, seed, NULL, &load, diag);
    if (err)
        return err;
    aw_rng_init(&rng, seed, 0x10ad);
    const uint32_t most = count_max < AW_REQUESTS_MAX ? count_max : AW_REQUESTS_MAX;
    const double length_s = (double)load.slot_us * 1e-6 * load.slot_count;
    const double mean = aw_load_mean(&load, 0, load.slot_us * (int64_t)load.slot_count);
    const double wanted = fmin(mean * length_s, most);
    const double scale = mean > 0 ? wanted / (mean * length_s) : 0; /* fewer, of the same shape */
    err = scale > 0 ? requests_init(ret, most, diag)
                    : aw_fail(diag, AW_ERR_NODATA, "%s has no request", text);
    for (double second = 0; !err && second < length_s && ret->count < most; second++) {
        const double rate = scale * aw_load_rate(&load, (int64_t)(second * 1e6));
        uint64_t n = rate > 0 ? aw_rng_poisson(&rng, rate) : 0;
        double gap[64];
        n = n > 64 ? 64 : n;
        for (uint64_t i = 0; i < n; i++)
            gap[i] = aw_rng_double(&rng);
        aw_stats_sort(gap, n);
        for (uint64_t i = 0; i < n && ret->count < most; i++)
            take(ret, second + gap[i], 512,
                 fmin(LENGTH_MEDIAN * exp(LENGTH_SIGMA * aw_rng_normal(&rng)), LENGTH_CUT));
    }
    aw_load_deinit(&load);
    return err;
}

enum aw_err aw_requests_read(const char *text, uint64_t seed, uint32_t count_max,
                             struct aw_requests *ret, struct aw_diag *diag)
{
    struct aw_serving_table table = {0};
    enum aw_err err = AW_ERR_UNSUPPORTED;
    count_max = count_max && count_max < AW_REQUESTS_MAX ? count_max : AW_REQUESTS_MAX;
    memset(ret, 0, sizeof *ret);
    if (strstr(text, ".jsonl")) {
        char *bytes = NULL;
        size_t len;
        err = aw_packed_read(text, AW_SERVING_TABLE_BYTES_MAX, NULL, &bytes, &len, diag);
        err = err ? err : lines_take(text, bytes, count_max, ret, diag);
        aw_alloc_free(NULL, bytes);
    } else if (strstr(text, ".csv") && !strchr(text, ':')) {
        err = aw_serving_table_read(text, &table, diag);
        err = err ? err : table_take(text, &table, seed, count_max, ret, diag);
        aw_serving_table_deinit(&table);
    }
    if (err == AW_ERR_UNSUPPORTED)
        err = load_take(text, seed, count_max, ret, diag);
    if (!err && ret->count < 10) {
        err = aw_fail_at(diag, AW_ERR_NODATA, text, 0, 0, NULL,
                         "expected at least 10 requests, found %u", ret->count);
        aw_requests_deinit(ret);
    }
    for (uint32_t i = 1; !err && i < ret->count; i++) /* clocks of servers differ by little */
        ret->arrival_s[i] = fmax(ret->arrival_s[i], ret->arrival_s[i - 1]);
    if (!err)
        ret->length_s = ret->arrival_s[ret->count - 1];
    return err;
}

/* --- as the load of a fleet ------------------------------------------------------------------- */

void aw_requests_load_deinit(struct aw_fleet_load *load)
{
    aw_alloc_free(NULL, load->arrival_s);
    aw_alloc_free(NULL, load->model);
    aw_alloc_free(NULL, load->work_s);
    aw_alloc_free(NULL, load->guess_s);
    aw_alloc_free(NULL, load->high_s);
    aw_alloc_free(NULL, load->tokens);
    memset(load, 0, sizeof *load);
}

static bool load_init(struct aw_fleet_load *load, uint32_t count)
{
    *load = (struct aw_fleet_load){.count = count,
                                   .arrival_s = aw_alloc_new(NULL, count, sizeof(double)),
                                   .model = aw_alloc_new(NULL, count, sizeof(uint16_t)),
                                   .work_s = aw_alloc_new(NULL, count, sizeof(float)),
                                   .guess_s = aw_alloc_new(NULL, count, sizeof(float)),
                                   .high_s = aw_alloc_new(NULL, count, sizeof(float)),
                                   .tokens = aw_alloc_new(NULL, count, sizeof(float))};
    return load->arrival_s && load->model && load->work_s && load->guess_s && load->high_s &&
           load->tokens;
}

enum aw_err aw_requests_load(const struct aw_requests *requests,
                             const struct aw_requests_plan *plan, struct aw_fleet_world *world,
                             struct aw_fleet_load *ret, struct aw_diag *diag)
{
    const uint32_t first = (uint32_t)(plan->from * requests->count),
                   end = (uint32_t)(plan->to * requests->count), part = end - first;
    if (end <= first || end > requests->count || !(plan->load > 0))
        return aw_fail(diag, AW_ERR_RANGE, "no request in this part of the trace");
    const double begin_s = requests->arrival_s[first],
                 span_s = fmax(requests->arrival_s[end - 1] - begin_s, 1e-3);
    struct aw_rng rng;
    double factor[AW_FLEET_MODELS_MAX], work = 0;
    aw_rng_init(&rng, plan->seed, 0x5e4);
    for (uint32_t m = 0; m < world->models; m++)
        factor[m] = 1 + plan->wrong * aw_rng_uniform(&rng, -1, 1);
    for (uint32_t i = 0; i < part; i++) { /* as the paper: models in turn */
        const uint32_t m = (i + (uint32_t)plan->seed) % world->models;
        const double n = fmin((double)requests->answer[first + i], AW_REQUESTS_TOKENS_MAX);
        work += aw_serving_work(&aw_serving_models[m], n);
    }
    const double stretch = work / (plan->load * world->devices) / span_s;
    uint32_t rounds = 1;
    if (plan->repeat_s > 0)
        rounds = (uint32_t)fmax(ceil(plan->repeat_s / (span_s * stretch)), 1);
    if ((uint64_t)rounds * part > AW_REQUESTS_MAX)
        rounds = AW_REQUESTS_MAX / part;
    if (!load_init(ret, part * rounds)) {
        aw_requests_load_deinit(ret);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u requests", part * rounds);
    }
    for (uint32_t m = 0; m < world->models; m++)
        world->slo_s[m] = plan->slo_scale * aw_serving_models[m].latency_s;
    for (uint32_t i = 0; i < part * rounds; i++) {
        const uint32_t r = first + i % part, m = (i + (uint32_t)plan->seed) % world->models;
        const struct aw_serving_model *model = &aw_serving_models[m];
        const double n = fmin((double)requests->answer[r], AW_REQUESTS_TOKENS_MAX);
        const double noise = exp(plan->guess_sigma * aw_rng_normal(&rng));
        ret->arrival_s[i] =
            stretch * (requests->arrival_s[r] - begin_s + span_s * (double)(i / part));
        ret->model[i] = (uint16_t)m;
        ret->tokens[i] = model->autoregressive ? (float)n : 1;
        ret->work_s[i] = (float)(factor[m] * aw_serving_work(model, n));
        ret->guess_s[i] = (float)aw_serving_work(model, n * noise);
        ret->high_s[i] = (float)aw_serving_work(model, n * noise * exp(P90 * plan->guess_sigma));
    }
    ret->length_s = stretch * span_s * rounds;
    return AW_OK;
}

/* --- placement of whole models ---------------------------------------------------------------- */

enum aw_err aw_fleet_place(struct aw_fleet_world *world, const double *share, struct aw_diag *diag)
{
    double room[AW_FLEET_DEVICES_MAX], load[AW_FLEET_DEVICES_MAX] = {0};
    uint32_t copies[AW_FLEET_MODELS_MAX] = {0}, used = 1;
    bool done[AW_FLEET_MODELS_MAX] = {false};
    for (uint32_t d = 0; d < world->devices; d++)
        room[d] = world->kind->memory_gb;
    memset(world->replicas, 0, sizeof world->replicas);
    for (uint32_t round = 0; round < world->models; round++) { /* the largest first, once each */
        uint32_t largest = UINT32_MAX, best = UINT32_MAX;
        for (uint32_t m = 0; m < world->models; m++)
            if (!done[m] &&
                (largest == UINT32_MAX || world->weights_gb[m] > world->weights_gb[largest]))
                largest = m;
        for (uint32_t d = 0; d < used; d++)
            if (room[d] >= world->weights_gb[largest] &&
                (best == UINT32_MAX || load[d] < load[best]))
                best = d;
        if (best == UINT32_MAX && used < world->devices)
            best = used++;
        if (best == UINT32_MAX || room[best] < world->weights_gb[largest])
            return aw_fail(diag, AW_ERR_RANGE, "%u devices of %g GB do not hold the models",
                           world->devices, world->kind->memory_gb);
        world->replicas[largest] |= UINT64_C(1) << best;
        room[best] -= world->weights_gb[largest];
        load[best] += share[largest];
        copies[largest] = 1;
        done[largest] = true;
    }
    for (;;) { /* then the model whose replicas have the most work each, where work is least */
        uint32_t model = UINT32_MAX, device = UINT32_MAX;
        for (uint32_t m = 0; m < world->models; m++) {
            uint32_t best = UINT32_MAX;
            for (uint32_t d = 0; d < world->devices; d++)
                if (!(world->replicas[m] >> d & 1) && room[d] >= world->weights_gb[m] &&
                    (best == UINT32_MAX || load[d] < load[best]))
                    best = d;
            if (best != UINT32_MAX &&
                (model == UINT32_MAX || share[m] / copies[m] > share[model] / copies[model])) {
                model = m;
                device = best;
            }
        }
        if (model == UINT32_MAX)
            return AW_OK;
        world->replicas[model] |= UINT64_C(1) << device;
        room[device] -= world->weights_gb[model];
        copies[model]++;
        for (uint32_t d = 0; d < world->devices; d++) { /* shares are spread anew */
            if (world->replicas[model] >> d & 1 && d != device)
                load[d] -= share[model] * (1.0 / (copies[model] - 1) - 1.0 / copies[model]);
        }
        load[device] += share[model] / copies[model];
    }
}

enum aw_err aw_fleet_world_table(struct aw_fleet_world *world, const struct aw_gpu_kind *kind,
                                 uint32_t devices, struct aw_diag *diag)
{
    double share[AW_SERVING_MODELS];
    memset(world, 0, sizeof *world);
    world->kind = kind;
    world->devices = devices;
    world->models = AW_SERVING_MODELS;
    for (uint32_t m = 0; m < AW_SERVING_MODELS; m++) {
        world->memory[m] = aw_serving_models[m].memory;
        world->weights_gb[m] = aw_serving_models[m].weights_gb;
        share[m] = aw_serving_work(&aw_serving_models[m], LENGTH_MEDIAN);
    }
    return aw_fleet_place(world, share, diag);
}
