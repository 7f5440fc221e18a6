/*
 * copy_fit.c - what a workload's requests cost, from what was seen of it.
 *
 * Sought are waiting, both variabilities, parallelism and workers, by the least weighted error of
 * latency at the SLO's quantile, median, mean and throttling over the bins of the record, through
 * the steady state that the fast simulator uses itself (cluster/surrogate.h). CMA-ES (base/cma.h)
 * seeks them once for every plausible number of workers: the one parameter in which the answer
 * jumps.
 */
#include "rehearsal/copy_fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cma.h"
#include "base/units.h"
#include "cluster/surrogate.h"

#define FADE            0.9995 /* per step: half of it is a day's work of six hours ago */
#define RATE_RATIO      1.25   /* within a bin */
#define CORES_RATIO     1.06
#define BIAS_MAX        0.3
#define PROBE_MS        2500      /* of the time to ready: half a readiness period */
#define COLD_START_MS   3000      /* where none was seen */
#define START_US_MAX    600000000 /* beyond ten minutes it did not start: its readiness flapped */
#define KEEPS_UP        0.95 /* of arrivals answered: backlog tells nothing of a steady state */
#define CATCHES_UP      1.02 /* of arrivals answered: a backlog is being worked off */
#define BACKLOG_LEAST   5.0  /* requests: fewer left over are chance */
#define SETTLE_STEPS    4.0  /* that neither fall behind nor catch up, after a backlog */
#define DRAWS           8u
#define GENERATIONS     40u
#define SPREAD          0.25
#define NEARLY          1.12 /* times the best error */
#define NEARLY_MORE     0.003
#define PARALLEL_PRICE  0.004 /* parallelism explains much that variability does too */
#define RECENT          10.0  /* steps that a bin remembers: a new size must count at once */
#define OFF_MAX         1.0   /* of one figure: an outlier must not rule the copy */
#define ENOUGH_PER_S    6.0 /* 90 requests in 15 s: below, a p99 is little more than the largest */
#define SLO_WEIGHT      1.5
#define P50_WEIGHT      1.0
#define MEAN_WEIGHT     0.5
#define THROTTLE_WEIGHT 0.5
#define PRIOR_WEIGHT    0.003 /* pulls what nothing speaks of to the middle of its range */
#define DRIFT_ALLOWED   0.1   /* of ln CPU or ln p50, per step: less is chance or no matter */
#define DRIFT_STEP_MAX  0.5   /* an outlier is no drift */
#define DRIFT_LIMIT     1.5   /* of the sum: five steps of half as much again */
#define DRIFT_BUSY_MAX  0.6   /* of a replica's cores: above, latency hangs on little */
#define DRIFT_ROWS      10.0  /* that are known at least, before anything can be off them */

void aw_copy_begin(struct aw_copy_record *record)
{
    memset(record, 0, sizeof *record);
}

static struct aw_copy_bin *bin_for(struct aw_copy_record *record, double cores, double rate)
{
    for (uint32_t i = 0; i < record->bin_count; i++) {
        struct aw_copy_bin *bin = &record->bin[i];
        if (fabs(log(bin->cores / cores)) <= log(CORES_RATIO) &&
            fabs(log(bin->rate_per_s / rate)) <= 0.5 * log(RATE_RATIO))
            return bin;
    }
    struct aw_copy_bin *made = &record->bin[0];
    if (record->bin_count < AW_COPY_BINS_MAX) {
        made = &record->bin[record->bin_count++];
    } else { /* the one that has faded most gives way */
        for (uint32_t i = 1; i < record->bin_count; i++)
            if (record->bin[i].weight < made->weight)
                made = &record->bin[i];
    }
    *made = (struct aw_copy_bin){.cores = (float)cores, .rate_per_s = (float)rate};
    return made;
}

static void blend(float *mean, double value, double share)
{
    *mean = (float)((double)*mean + share * (value - (double)*mean));
}

/* Cumulative sum (Page, 1954): beyond what is allowed, steps on one side of what is known add up.
 */
static bool drifts(double *above, double *below, double off)
{
    off = fmin(DRIFT_STEP_MAX, fmax(-DRIFT_STEP_MAX, off));
    *above = fmax(0, *above + off - DRIFT_ALLOWED);
    *below = fmax(0, *below - off - DRIFT_ALLOWED);
    return fmax(*above, *below) > DRIFT_LIMIT;
}

/* Returns whether latencies have drifted from those known of this size and load. */
static bool add_latency(struct aw_copy_record *record, const struct aw_sample *sample,
                        const struct aw_reading *reading)
{
    const double cores = 1e-3 * (double)reading->cpu_millicores_wanted;
    const double rate = reading->arrivals_per_s / reading->replicas_ready;
    struct aw_copy_bin *bin = bin_for(record, cores, rate);
    record->last_cores = cores;
    bin->weight += 1;
    const double share = 1 / fmin(RECENT, bin->weight);
    blend(&bin->rate_per_s, rate, share);
    blend(&bin->cores, cores, share);
    blend(&bin->requests_per_s, reading->arrivals_per_s, share);
    if (!isnan(reading->throttled_share))
        blend(&bin->throttled, reading->throttled_share, share);
    bin->latency_rows += 1;
    const double row = 1 / fmin(RECENT, bin->latency_rows);
    const double log_p50 = log(sample->latency_us_p50.value);
    const bool drifted =
        bin->latency_rows >= DRIFT_ROWS && bin->requests_per_s >= ENOUGH_PER_S &&
        reading->cpu_cores_used <= DRIFT_BUSY_MAX * cores * reading->replicas_ready &&
        drifts(&record->latency_above, &record->latency_below, log_p50 - bin->log_p50);
    blend(&bin->log_slo, log(reading->latency_us_slo), row);
    blend(&bin->log_p50, log_p50, row);
    blend(&bin->mean_us, sample->latency_us_mean.value, row);
    return drifted;
}

/* Replicas that became ready since the reading before. */
static void add_starts(struct aw_copy_record *record, const struct aw_sample *sample)
{
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        if (!pod->ready || pod->started_us == AW_NEVER || pod->ready_change_us <= record->seen_us ||
            pod->ready_change_us <= pod->started_us ||
            pod->ready_change_us - pod->started_us > START_US_MAX)
            continue;
        record->start_us += (double)(pod->ready_change_us - pod->started_us);
        record->start_count++;
    }
    record->seen_us = sample->at_us;
}

/* Whether the step tells of a steady state: it answers what arrives, and did for a while. What is
 * answered late counts against the step in which it is answered, so a backlog is waited out. */
static bool steady_step(struct aw_copy_record *record, const struct aw_reading *reading,
                        int64_t before_us)
{
    const double arrived = reading->arrivals_per_s, answered = reading->completions_per_s;
    const double passed_s = 1e-6 * ((double)reading->at_us - (double)before_us);
    const bool keeps_up = answered >= KEEPS_UP * arrived;
    /* where time runs faster than requests do, the product is more than what is left over */
    const bool waits = isnan(reading->in_flight) || reading->in_flight > BACKLOG_LEAST;
    const bool behind = !keeps_up && waits && (arrived - answered) * passed_s > BACKLOG_LEAST;
    const bool catching_up = record->unsettled > 0 && answered > CATCHES_UP * arrived;
    if (behind || catching_up)
        record->unsettled = SETTLE_STEPS;
    else if (record->unsettled > 0)
        record->unsettled -= 1;
    return keeps_up && record->unsettled <= 0;
}

static bool told(const struct aw_figure *figure)
{
    return figure->at_us != AW_NEVER && isfinite(figure->value) && figure->value > 0;
}

/* What a request costs is not what it did: nothing that was seen of it is believed. How long a
 * replica takes to start is another matter. */
static void forget(struct aw_copy_record *record)
{
    const struct aw_copy_record old = *record;
    aw_copy_begin(record);
    record->start_us = old.start_us;
    record->start_count = old.start_count;
    record->last_cores = old.last_cores;
    record->unsettled = old.unsettled;
    record->seen_us = old.seen_us;
    record->steps = old.steps;
}

/* Whether the CPU of a request has drifted from what is known of it. */
static bool cpu_drifts(struct aw_copy_record *record, const struct aw_reading *reading)
{
    const double known = record->cores_used, answered = reading->completions_per_s;
    if (record->cpu_steps < DRIFT_ROWS || known <= 0 || reading->cpu_cores_used <= 0 ||
        answered < ENOUGH_PER_S)
        return false;
    return drifts(&record->cpu_above, &record->cpu_below,
                  log(reading->cpu_cores_used / answered) - log(known / record->arrivals));
}

bool aw_copy_add(struct aw_copy_record *record, const struct aw_sample *sample,
                 const struct aw_reading *reading)
{
    record->steps++;
    record->cores_used *= FADE;
    record->arrivals *= FADE;
    record->cpu_steps *= FADE;
    for (uint32_t i = 0; i < record->bin_count; i++) {
        record->bin[i].weight = (float)(FADE * (double)record->bin[i].weight);
        record->bin[i].latency_rows = (float)(FADE * (double)record->bin[i].latency_rows);
    }
    const bool starting = reading->replicas_ready < reading->replicas_wanted;
    const int64_t before_us = record->seen_us;
    add_starts(record, sample);
    if (isnan(reading->arrivals_per_s) || isnan(reading->cpu_cores_used) ||
        isnan(reading->completions_per_s))
        return false;
    /* CPU goes into requests that are lost as well, and what waits in a queue takes no memory:
     * steps that fail or fall behind would tell of requests that cost more and hold less than they
     * do */
    const bool answers = !(reading->errors_per_s > (1 - KEEPS_UP) * reading->arrivals_per_s);
    const bool steady = steady_step(record, reading, before_us) && answers;
    if (steady && cpu_drifts(record, reading)) {
        forget(record);
        return true;
    }
    if (answers) {
        record->cpu_steps += 1;
        record->cores_used += reading->cpu_cores_used;
        record->arrivals += reading->completions_per_s;
    }
    if (reading->replicas_ready == 0 || !steady)
        return false;
    if (!isnan(reading->memory_bytes_used) && !isnan(reading->in_flight)) {
        const double x = reading->in_flight / reading->replicas_ready;
        record->memory_n = record->memory_n * FADE + 1;
        record->memory_x = record->memory_x * FADE + x;
        record->memory_y = record->memory_y * FADE + reading->memory_bytes_used;
        record->memory_xx = record->memory_xx * FADE + x * x;
        record->memory_xy = record->memory_xy * FADE + x * reading->memory_bytes_used;
        if (record->memory_low <= 0 || reading->memory_bytes_used < record->memory_low)
            record->memory_low = reading->memory_bytes_used;
    }
    if (!reading->rollout && !starting && reading->arrivals_per_s > 0 &&
        reading->cpu_millicores_wanted > 0 && reading->latency_us_slo > 0 &&
        told(&sample->latency_us_p50) && told(&sample->latency_us_mean) &&
        add_latency(record, sample, reading)) {
        forget(record);
        return true;
    }
    return false;
}

void aw_copy_doubt(struct aw_copy_record *record, double share)
{
    record->cores_used *= share;
    record->arrivals *= share;
    record->memory_n *= share;
    record->memory_x *= share;
    record->memory_y *= share;
    record->memory_xx *= share;
    record->memory_xy *= share;
    /* of what a bin can count at most: one that was filled all day is doubted as much as another */
    for (uint32_t i = 0; i < record->bin_count; i++) {
        record->bin[i].weight = (float)(share * fmin(RECENT, (double)record->bin[i].weight));
        record->bin[i].latency_rows =
            (float)(share * fmin(RECENT, (double)record->bin[i].latency_rows));
    }
}

/* --- the search ------------------------------------------------------------------------------- */

/* What is sought, each in [0, 1]: waiting, of the lowest mean latency seen; variability of CPU time
 * and of waiting; parallelism. And what is believed of each where nothing speaks. */
enum { WAITING, CPU_CV, IO_CV, PARALLELISM, DIM };
static const double usual[DIM] = {0.5, 0.4, 0.4, 0.1};
static const uint32_t workers[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 0};
#define WORKERS (sizeof workers / sizeof *workers)

struct search {
    const struct aw_copy_record *record;
    double quantile;
    double cpu_ms, quick_us; /* CPU of a request, and the lowest mean latency seen */
    double weight[AW_COPY_BINS_MAX];
};

/* What a copy shows where the SLO looks. */
static double at_quantile(const struct aw_steady *steady, double quantile)
{
    const double latency_us[] = {steady->p50_us, steady->p95_us, steady->p99_us};
    return latency_us[aw_latency_index(quantile)];
}

static double between(double u, double low, double high)
{
    return low * pow(high / low, u);
}

static struct aw_demand demand_of(const struct search *search, const double *x, uint32_t threads)
{
    return (struct aw_demand){
        .cpu_ms = search->cpu_ms,
        .cpu_cv = between(x[CPU_CV], 0.05, 1),
        .io_ms = 1e-3 * search->quick_us * between(x[WAITING], 0.01, 1),
        .io_cv = between(x[IO_CV], 0.15, 1.2),
        .parallelism = 1 + 2 * x[PARALLELISM],
        .threads = threads,
    };
}

static double loss_of(const struct search *search, const double *x, uint32_t threads)
{
    const struct aw_demand demand = demand_of(search, x, threads);
    double loss = 0, weight = 0;
    for (uint32_t i = 0; i < search->record->bin_count; i++) {
        const struct aw_copy_bin *bin = &search->record->bin[i];
        if (search->weight[i] <= 0)
            continue;
        const struct aw_replica replica = {
            .demand = demand, .cores = bin->cores, .rate_per_s = bin->rate_per_s};
        const double capacity = aw_replica_capacity(&demand, bin->cores);
        double off;
        if (bin->rate_per_s > AW_SURROGATE_LOAD_MAX * capacity) {
            off = OFF_MAX; /* the copy could not serve what was served */
        } else {
            struct aw_steady steady;
            aw_surrogate_eval(&replica, &steady);
            const double told = bin->requests_per_s >= ENOUGH_PER_S ? SLO_WEIGHT : 0;
            off = told * fmin(OFF_MAX,
                              fabs(log(at_quantile(&steady, search->quantile)) - bin->log_slo)) +
                  P50_WEIGHT * fmin(OFF_MAX, fabs(log(steady.p50_us) - bin->log_p50)) +
                  MEAN_WEIGHT * fmin(OFF_MAX, fabs(log(steady.mean_us / bin->mean_us)));
            off /= told + P50_WEIGHT + MEAN_WEIGHT;
            off += THROTTLE_WEIGHT * fabs(steady.throttled_share - bin->throttled);
        }
        loss += search->weight[i] * off;
        weight += search->weight[i];
    }
    loss /= weight;
    for (uint32_t d = 0; d < DIM; d++)
        loss += PRIOR_WEIGHT * (x[d] - usual[d]) * (x[d] - usual[d]);
    return loss + PARALLEL_PRICE * x[PARALLELISM];
}

struct draw {
    double x[DIM];
    double loss;
};

static struct draw search_workers(const struct search *search, uint32_t threads, uint64_t seed)
{
    struct aw_cma cma;
    aw_cma_init(&cma, DIM, usual, SPREAD, DRAWS, seed);
    for (uint32_t g = 0; g < GENERATIONS; g++) {
        double loss[DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t i = 0; i < DRAWS; i++)
            loss[i] = loss_of(search, cma.x[i], threads);
        aw_cma_tell(&cma, loss);
    }
    struct draw best = {.loss = cma.best_value};
    memcpy(best.x, cma.best, sizeof best.x);
    return best;
}

/* The best number of workers; for a second opinion the next best one, where it is nearly as good.
 */
static uint32_t choose(const struct draw *found, bool second)
{
    uint32_t best = 0, next = WORKERS;
    for (uint32_t i = 1; i < WORKERS; i++)
        if (found[i].loss < found[best].loss)
            best = i;
    for (uint32_t i = 0; i < WORKERS; i++)
        if (i != best && (next == WORKERS || found[i].loss < found[next].loss))
            next = i;
    return second && found[next].loss <= NEARLY * found[best].loss + NEARLY_MORE ? next : best;
}

/* How far the copy is off where the workload is now: sizes within a tenth of the last. */
static double bias_of(const struct search *search, const struct aw_demand *demand)
{
    const struct aw_copy_record *record = search->record;
    double sum = 0, weight = 0;
    for (uint32_t i = 0; i < record->bin_count; i++) {
        const struct aw_copy_bin *bin = &record->bin[i];
        const double capacity = aw_replica_capacity(demand, bin->cores);
        if (bin->latency_rows < 0.5 || bin->rate_per_s > 0.9 * capacity ||
            fabs(bin->cores / record->last_cores - 1) > 0.1)
            continue;
        struct aw_steady steady;
        aw_surrogate_eval(&(struct aw_replica){.demand = *demand,
                                               .cores = bin->cores,
                                               .rate_per_s = bin->rate_per_s},
                          &steady);
        sum += bin->weight * (bin->log_slo - log(at_quantile(&steady, search->quantile)));
        weight += bin->weight;
    }
    return weight > 0 ? fmin(BIAS_MAX, fmax(-BIAS_MAX, sum / weight)) : 0;
}

static void memory_of(const struct aw_copy_record *record, struct aw_segment *segment)
{
    const double n = record->memory_n, mx = n > 0 ? record->memory_x / n : 0;
    const double my = n > 0 ? record->memory_y / n : 64 * AW_MIB_REAL;
    const double var = n > 0 ? record->memory_xx / n - mx * mx : 0;
    const double cov = n > 0 ? record->memory_xy / n - mx * my : 0;
    double slope = var > 1e-6 ? fmax(0, cov / var) : 0;
    if (my - slope * mx < 0.5 * record->memory_low) /* most of it is there without requests */
        slope = mx > 0 ? (my - 0.5 * record->memory_low) / mx : 0;
    segment->memory_base_mib = fmax(1, (my - slope * mx) / AW_MIB_REAL);
    segment->memory_flight_mib = slope / AW_MIB_REAL;
}

enum aw_err aw_copy_fit(const struct aw_copy_record *record, double slo_quantile, uint64_t seed,
                        struct aw_copy_fit *ret)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    struct search search = {.record = record, .quantile = slo_quantile, .quick_us = INFINITY};
    uint32_t bins = 0;
    for (uint32_t i = 0; i < record->bin_count; i++) {
        const struct aw_copy_bin *bin = &record->bin[i];
        if (bin->latency_rows < 0.5)
            continue;
        /* a load that was there all day must not drown the few that tell most; times chance, so
         * that a second opinion believes other bins */
        search.weight[i] = fmin(RECENT, bin->weight) * (seed ? 0.5 + aw_rng_double(&rng) : 1);
        search.quick_us = fmin(search.quick_us, fmax(bin->mean_us, 1));
        bins++;
    }
    if (bins < AW_COPY_BINS_MIN || record->arrivals <= 0 || record->cores_used <= 0)
        return AW_ERR_NODATA;
    search.cpu_ms = 1e3 * record->cores_used / record->arrivals;
    struct draw found[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        found[i] = search_workers(&search, workers[i], seed + i);
    const uint32_t chosen = choose(found, seed != 0), threads = workers[chosen];
    const struct draw best = found[chosen];
    const struct aw_demand demand = demand_of(&search, best.x, threads);
    *ret = (struct aw_copy_fit){.quantile = slo_quantile,
                                .bias = bias_of(&search, &demand),
                                .error = best.loss,
                                .capacity_per_core = aw_replica_capacity(&demand, 1)};
    struct aw_app *app = &ret->app;
    snprintf(app->name, sizeof app->name, "copy");
    app->segment_count = 1;
    struct aw_segment *segment = &app->segment[0];
    snprintf(segment->name, sizeof segment->name, "copy");
    segment->cpu_ms = demand.cpu_ms;
    segment->cpu_cv = demand.cpu_cv;
    segment->io_ms = demand.io_ms;
    segment->io_cv = demand.io_cv;
    segment->parallelism = demand.parallelism;
    segment->threads = threads;
    memory_of(record, segment);
    segment->cold_start_ms =
        record->start_count > 0
            ? fmax(100, 1e-3 * record->start_us / record->start_count - PROBE_MS)
            : COLD_START_MS;
    return AW_OK;
}

double aw_copy_latency_us(const struct aw_copy_fit *fit, const struct aw_plan *plan,
                          double arrivals_per_s)
{
    struct aw_replica replica = {.cores = 1e-3 * (double)plan->cpu_millicores,
                                 .rate_per_s = arrivals_per_s / plan->replicas};
    aw_app_demand(&fit->app, 1, 0, &replica.demand);
    if (plan->replicas == 0 || replica.cores <= 0 ||
        replica.rate_per_s >
            AW_SURROGATE_LOAD_MAX * aw_replica_capacity(&replica.demand, replica.cores))
        return INFINITY;
    struct aw_steady steady;
    aw_surrogate_eval(&replica, &steady);
    return at_quantile(&steady, fit->quantile) * exp(fit->bias);
}
