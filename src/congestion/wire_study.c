/* wire_study.c - see wire_study.h. */
#include "congestion/wire_study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "congestion/bed.h"
#include "congestion/recorded.h"
#include "congestion/relay.h"

#define JOIN_SHARE 0.15 /* of the time: then the second flow comes */
#define QUARTERS   4u
#define LATE_MS    1.0 /* a link that is later than this in one of 100 packets is worth a note */

static const struct aw_controller *const ours[] = {&aw_adaptive_controller,
                                                   &aw_bbr_like,
                                                   &aw_bbr_tuned,
                                                   &aw_cubic_like,
                                                   &aw_vivace,
                                                   &aw_aimd,
                                                   NULL};

struct method {
    char name[AW_WIRE_NAME_MAX];
    const struct aw_controller *controller; /* NULL: the kernel's TCP, called name + 4 */
    bool absent;                            /* from this kernel */
};

struct place {
    char name[2 * AW_WIRE_NAME_MAX];
    struct aw_link link;
};

struct study {
    const struct aw_wire_study *ask;
    const struct aw_adaptive_policy *policy;
    const struct aw_task_sink *sink;
    struct aw_recorded recorded;
    struct method method[AW_WIRE_METHODS_MAX], beside;
    struct place place[AW_WIRE_LINKS_MAX];
    uint32_t method_count, place_count, done;
    double late_ms;
    bool no_hurry;
    const char *now;
    struct aw_bed_result result;
    union {
        struct aw_adaptive adaptive;
        _Alignas(16) char bytes[4096];
    } self[2];
};

double aw_jain(const double *x, uint32_t count)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    return squares > 0 ? sum * sum / (count * squares) : (double)NAN;
}

/* ---- what was asked for ---- */

static enum aw_err method_parse(const char *text, size_t len, struct method *ret,
                                struct aw_diag *diag)
{
    if (len > 4 && len < sizeof ret->name && !strncmp(text, "tcp-", 4)) {
        *ret = (struct method){.controller = NULL};
        memcpy(ret->name, text, len);
        return AW_OK;
    }
    for (uint32_t i = 0; ours[i]; i++) {
        if (strlen(ours[i]->name) == len && !strncmp(text, ours[i]->name, len)) {
            *ret = (struct method){.controller = ours[i]};
            memcpy(ret->name, text, len);
            return AW_OK;
        }
    }
    return aw_fail(diag, AW_ERR_USAGE,
                   "expected adaptive, bbr-like, bbr-tuned, cubic-like, vivace, aimd or tcp-NAME "
                   "of the kernel, found '%.*s'",
                   (int)len, text);
}

static enum aw_err methods_parse(struct study *study, const char *text, struct aw_diag *diag)
{
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        if (study->method_count == AW_WIRE_METHODS_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "more than %u methods", AW_WIRE_METHODS_MAX);
        const enum aw_err err = method_parse(at, len, &study->method[study->method_count], diag);
        if (err)
            return err;
        study->method_count++;
        at += len;
        if (!*at)
            return AW_OK;
    }
}

static enum aw_err place_add(struct study *study, const struct aw_recorded_run *run,
                             struct aw_diag *diag)
{
    if (study->place_count == AW_WIRE_LINKS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u links", AW_WIRE_LINKS_MAX);
    struct place *place = &study->place[study->place_count++];
    snprintf(place->name, sizeof place->name, "%s %.40s #%llu", run->kind[0] ? run->kind : "run",
             run->site, (unsigned long long)run->id);
    aw_recorded_link(run, study->ask->queue, study->ask->loss, &place->link);
    return AW_OK;
}

static enum aw_err runs_named(struct study *study, struct aw_diag *diag)
{
    char list[1024];
    if ((size_t)snprintf(list, sizeof list, "%s", study->ask->runs) >= sizeof list)
        return aw_fail(diag, AW_ERR_LIMIT, "a list of runs of more than %zu bytes", sizeof list);
    char *save = NULL;
    for (char *word = strtok_r(list, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        uint64_t id;
        const struct aw_recorded_run *found = NULL;
        if (aw_text_parse_u64(word, &id))
            return aw_fail(diag, AW_ERR_USAGE, "expected numbers of runs, found '%s'", word);
        for (uint32_t i = 0; i < study->recorded.count && !found; i++)
            if (study->recorded.run[i].id == id)
                found = &study->recorded.run[i];
        if (!found)
            return aw_fail(diag, AW_ERR_NOTFOUND, "%s has no run %s", study->ask->data, word);
        const enum aw_err err = place_add(study, found, diag);
        if (err)
            return err;
    }
    return AW_OK;
}

static bool alike(const struct aw_recorded_run *a, const struct aw_recorded_run *b)
{
    return !strcmp(a->kind, b->kind) && !strcmp(a->site, b->site);
}

/* Of each kind and site the run whose mean bandwidth is in the middle. */
static enum aw_err runs_middle(struct study *study, struct aw_diag *diag)
{
    const struct aw_recorded *recorded = &study->recorded;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < recorded->count; i++) {
        const struct aw_recorded_run *first = &recorded->run[i];
        bool seen = false;
        uint32_t same = 0;
        for (uint32_t k = 0; k < recorded->count; k++) {
            same += alike(first, &recorded->run[k]);
            seen = seen || (k < i && alike(first, &recorded->run[k]));
        }
        for (uint32_t k = i; !seen && k < recorded->count; k++) {
            const double mean = aw_bandwidth_mean(&recorded->run[k].trace);
            uint32_t below = 0;
            if (!alike(first, &recorded->run[k]))
                continue;
            for (uint32_t j = i; j < recorded->count; j++) {
                const double other = aw_bandwidth_mean(&recorded->run[j].trace);
                below +=
                    alike(first, &recorded->run[j]) && (other < mean || (other <= mean && j < k));
            }
            if (below == same / 2) {
                err = place_add(study, &recorded->run[k], diag);
                break;
            }
        }
    }
    return err;
}

static void boxes(struct study *study)
{
    static const double usual[][2] = {{4, 40}, {20, 20}, {60, 10}}; /* Mbit/s, ms one way */
    const bool one = study->ask->mbps > 0;
    for (uint32_t i = 0; i < (one ? 1 : sizeof usual / sizeof *usual); i++) {
        const double mbps = one ? study->ask->mbps : usual[i][0];
        const double delay_s = (one ? study->ask->delay_ms : usual[i][1]) * 1e-3;
        struct place *place = &study->place[study->place_count++];
        const double rate = mbps * 1e6 / AW_PACKET_BITS;
        snprintf(place->name, sizeof place->name, "%g Mbit/s, %g ms", mbps, delay_s * 1e3);
        place->link = (struct aw_link){.rate = rate,
                                       .delay_s = delay_s,
                                       .loss = study->ask->loss,
                                       .queue = fmax(10, study->ask->queue * rate * 2 * delay_s)};
    }
}

static enum aw_err study_open(struct study *study, struct aw_diag *diag)
{
    const struct aw_wire_study *ask = study->ask;
    enum aw_err err = methods_parse(study, ask->methods ? ask->methods : AW_WIRE_METHODS, diag);
    if (!err && ask->beside)
        err = method_parse(ask->beside, strlen(ask->beside), &study->beside, diag);
    if (!err && ask->data) {
        err = aw_recorded_read(ask->data, NULL, &study->recorded, diag);
        if (!err)
            err = ask->runs ? runs_named(study, diag) : runs_middle(study, diag);
    } else if (!err) {
        boxes(study);
    }
    return err;
}

/* ---- runs and rows ---- */

static bool progress(void *ctx, double share)
{
    const struct study *study = ctx;
    const double all = study->place_count * study->method_count;
    return study->sink->progress(study->sink->self, (study->done + share) / all, study->now);
}

static void flow_set(struct study *study, uint32_t at, const struct method *method, double start_s,
                     struct aw_bed_flow *ret)
{
    *ret = (struct aw_bed_flow){.tcp = method->controller ? NULL : method->name + 4,
                                .controller = method->controller,
                                .self = &study->self[at],
                                .start_s = start_s};
    memset(&study->self[at], 0, sizeof study->self[at]);
    study->self[at].adaptive.policy = study->policy;
    AW_ASSERT(!method->controller || method->controller->bytes <= sizeof study->self[at]);
    if (method->controller && method->controller != &aw_adaptive_controller)
        memset(&study->self[at], 0, sizeof study->self[at]);
}

static void row_end(struct study *study, const struct aw_bed_seen *seen)
{
    const struct aw_task_sink *sink = study->sink;
    const double late_ms = (double)aw_latency_histogram_quantile(&study->result.late, 0.99) * 1e-3;
    sink->figure(sink->self, "delay_p50_ms",
                 (double)aw_latency_histogram_quantile(&seen->delay, 0.5) * 1e-3);
    sink->figure(sink->self, "delay_p95_ms",
                 (double)aw_latency_histogram_quantile(&seen->delay, 0.95) * 1e-3);
    sink->figure(sink->self, "loss",
                 seen->packets ? (double)(seen->lost + seen->dropped) / (double)seen->packets
                               : (double)NAN);
    sink->figure(sink->self, "late_p99_ms", late_ms);
    sink->row(sink->self);
    study->late_ms = fmax(study->late_ms, late_ms);
    study->no_hurry = study->no_hurry || !study->result.real_time;
}

static void row_alone(struct study *study, const struct place *place, const struct method *method)
{
    const struct aw_task_sink *sink = study->sink;
    const struct aw_bed_seen *seen = &study->result.flow[0];
    const double seconds = study->ask->seconds;
    const double capacity = aw_link_capacity(&place->link, 0, seconds) * AW_PACKET_BITS;
    sink->text(sink->self, "link", place->name);
    sink->figure(sink->self, "mean_mbps", capacity / seconds * 1e-6);
    sink->text(sink->self, "method", method->name);
    sink->figure(sink->self, "throughput_mbps", seen->bits / seconds * 1e-6);
    sink->figure(sink->self, "utilisation", seen->bits / capacity);
    row_end(study, seen);
}

/* Jain's index of the two from one time to another, by half seconds. */
static double jain_of(const struct aw_bed_result *result, double from_s, double until_s)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t b = (uint32_t)ceil(from_s / AW_BED_BIN_S); (b + 1) * AW_BED_BIN_S <= until_s;
         b++) {
        const double x[2] = {result->flow[0].bin_bits[b], result->flow[1].bin_bits[b]};
        const double jain = aw_jain(x, 2);
        if (!isnan(jain)) {
            sum += jain;
            count++;
        }
    }
    return count ? sum / count : (double)NAN;
}

static void row_beside(struct study *study, const struct place *place, const struct method *method,
                       double join_s)
{
    const struct aw_task_sink *sink = study->sink;
    const struct aw_bed_result *result = &study->result;
    const double seconds = study->ask->seconds, quarter_s = (seconds - join_s) / QUARTERS;
    double bits[2] = {0, 0};
    for (uint32_t b = (uint32_t)ceil(join_s / AW_BED_BIN_S); (b + 1) * AW_BED_BIN_S <= seconds; b++)
        for (uint32_t i = 0; i < 2; i++)
            bits[i] += result->flow[i].bin_bits[b];
    sink->text(sink->self, "link", place->name);
    sink->text(sink->self, "method", method->name);
    sink->text(sink->self, "beside", study->beside.name);
    sink->figure(sink->self, "share", bits[1] / (bits[0] + bits[1]));
    sink->figure(sink->self, "jain", jain_of(result, join_s, seconds));
    for (uint32_t q = 0; q < QUARTERS; q++) {
        char key[16];
        snprintf(key, sizeof key, "jain_%u", q + 1);
        sink->figure(sink->self, key,
                     jain_of(result, join_s + q * quarter_s, join_s + (q + 1) * quarter_s));
    }
    sink->figure(sink->self, "utilisation",
                 (result->flow[0].bits + result->flow[1].bits) /
                     (aw_link_capacity(&place->link, 0, seconds) * AW_PACKET_BITS));
    row_end(study, &result->flow[1]);
}

static enum aw_err one(struct study *study, const struct place *place, const struct method *method,
                       struct aw_diag *diag)
{
    const bool two = study->ask->beside != NULL;
    const double join_s = ceil(JOIN_SHARE * study->ask->seconds / AW_BED_BIN_S) * AW_BED_BIN_S;
    struct aw_bed_plan plan = {.link = place->link,
                               .seconds = study->ask->seconds,
                               .seed = study->ask->seed,
                               .flow_count = two ? 2 : 1};
    study->now = method->name;
    if (two)
        flow_set(study, 1, &study->beside, 0, &plan.flow[0]);
    flow_set(study, 0, method, two ? join_s : 0, &plan.flow[two]);
    const enum aw_err err = aw_bed_run(&plan, progress, study, &study->result, diag);
    if (!err && two)
        row_beside(study, place, method, join_s);
    else if (!err)
        row_alone(study, place, method);
    return err;
}

static void notes(const struct study *study)
{
    const struct aw_task_sink *sink = study->sink;
    char sentence[200];
    sink->note(sink->self, "Delays are one way, in the link: queue and propagation, measured in "
                           "the same way for all. tcp-NAME is this kernel's TCP.");
    if (study->no_hurry)
        sink->note(sink->self, "The link had no real-time priority here (CAP_SYS_NICE gives it): "
                               "other programs may have made it late.");
    snprintf(sentence, sizeof sentence,
             "In the worst run 1 %% of the packets left the link %.1f ms or more after they were "
             "due: this machine was too busy for exact delays.",
             study->late_ms);
    if (study->late_ms > LATE_MS)
        sink->note(sink->self, sentence);
}

enum aw_err aw_wire_study_run(const struct aw_wire_study *ask,
                              const struct aw_adaptive_policy *policy,
                              const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct study *study = aw_alloc_new(NULL, 1, sizeof *study);
    if (!study)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a study");
    *study = (struct study){.ask = ask, .policy = policy, .sink = sink};
    enum aw_err err = study_open(study, diag);
    for (uint32_t p = 0; !err && p < study->place_count; p++)
        for (uint32_t m = 0; !err && m < study->method_count; m++, study->done++) {
            struct aw_diag said = {0};
            if (study->method[m].absent)
                continue;
            err = one(study, &study->place[p], &study->method[m], &said);
            if (err == AW_ERR_NOTFOUND && study->method_count > 1) {
                study->method[m].absent = true;
                sink->note(sink->self, said.text);
                err = AW_OK;
            } else if (err && diag) {
                *diag = said;
            }
        }
    if (!err)
        notes(study);
    aw_recorded_deinit(&study->recorded);
    aw_alloc_free(NULL, study);
    return err;
}
