/* learn.c - see learn.h. */
#include "congestion/learn.h"

#include <math.h>

#include "base/alloc.h"
#include "base/cma.h"

#define BOX_WEIGHT   4.0   /* a lost hundredth in a box counts as four of the way to the oracle */
#define WEIGHT_RANGE 0.35  /* what a trait may add to a law, in [0, 1] of its range */
#define DEVIATION    0.07  /* of the first draws */
#define SCALE_MIN    100.0 /* Genet's score: least distance between oracle and 0 to divide by */
#define LINKS_MAX    512u

void aw_box_order(uint32_t order[AW_BOX_COUNT])
{
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0x626f78 /* "box" */);
    for (uint32_t i = 0; i < AW_BOX_COUNT; i++)
        order[i] = i;
    aw_rng_shuffle(&rng, order, AW_BOX_COUNT);
}

static double log_uniform(struct aw_rng *rng, double low, double high)
{
    return low * pow(high / low, aw_rng_double(rng));
}

void aw_moving_link_draw(struct aw_moving_link *moving, uint64_t seed, uint64_t index)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0x6d6f7665 + index /* "move" */);
    const double mean_mbps = log_uniform(&rng, 0.3, 100);
    const double spread = log_uniform(&rng, 0.02, 0.6), keep = aw_rng_uniform(&rng, 0.2, 0.95);
    const double outage = aw_rng_double(&rng) < 0.3 ? aw_rng_uniform(&rng, 0, 0.06) : 0;
    double level = spread * aw_rng_normal(&rng);
    bool out = false;
    moving->served[0] = 0;
    for (uint32_t i = 0; i < AW_MOVING_POINTS; i++) {
        /* log bandwidth: a first-order autoregression, and outages that last a second or two */
        level = keep * level + sqrt(1 - keep * keep) * spread * aw_rng_normal(&rng);
        out = aw_rng_double(&rng) < (out ? 0.6 : outage);
        const double mbps = out ? 0.1 : fmax(mean_mbps * exp(level), 0.1);
        moving->time_s[i] = 0.5 * i;
        moving->rate[i] = mbps * 1e6 / AW_PACKET_BITS;
        moving->served[i + 1] = moving->served[i] + 0.5 * moving->rate[i];
    }
    moving->trace = (struct aw_bandwidth){.count = AW_MOVING_POINTS,
                                          .period_s = 0.5 * AW_MOVING_POINTS,
                                          .time_s = moving->time_s,
                                          .rate = moving->rate,
                                          .served = moving->served};
    const double delay_s = log_uniform(&rng, 0.01, 0.15);
    const double mean = aw_bandwidth_mean(&moving->trace);
    moving->link = (struct aw_link){
        .rate = mean,
        .delay_s = delay_s,
        .loss = aw_rng_double(&rng) < 0.5 ? 0 : aw_rng_uniform(&rng, 0, 0.02),
        .queue = fmax(10, floor(log_uniform(&rng, 0.3, 3) * mean * 2 * delay_s)),
        .trace = &moving->trace,
    };
}

struct aw_congestion_lesson aw_congestion_lesson_default(void)
{
    return (struct aw_congestion_lesson){.boxes = 20,
                                         .moving = 96,
                                         .draws = 12,
                                         .generations = 24,
                                         .generations_trait = 10,
                                         .seed = 1,
                                         .threads = 2};
}

/* ---- judging ---- */

struct school {
    const struct aw_congestion_lesson *lesson;
    const struct aw_alloc *alloc;
    struct aw_link *box;           /* [boxes] */
    struct aw_moving_link *moving; /* [moving] */
    double *oracle;                /* [moving]: Genet's score */
    double *rtt_p95_s;             /* [moving]: of BBR-like */
    struct aw_adaptive_policy policy[AW_CMA_DRAWS_MAX];
    double loss[AW_CMA_DRAWS_MAX];
};

struct desk {
    struct aw_flow flow;
    struct aw_latency_histogram rtts;
    struct aw_adaptive adaptive;
    char self[1024];
};

static void judge_moving(const struct school *school, uint32_t index,
                         const struct aw_controller *controller, struct desk *desk,
                         struct aw_episode *ret)
{
    const struct aw_episode_plan plan = {.link = school->moving[index].link,
                                         .seconds = AW_TRACE_SECONDS,
                                         .seed = school->lesson->seed + index};
    void *self = controller == &aw_adaptive_controller ? (void *)&desk->adaptive : desk->self;
    aw_episode_run(&plan, controller, &desk->flow, self, &desk->rtts, NULL, NULL, ret);
}

static enum aw_err judge(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct school *school = ctx;
    const struct aw_congestion_lesson *lesson = school->lesson;
    struct desk *desk = aw_alloc_new(school->alloc, 1, sizeof *desk);
    if (!desk)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a link");
    desk->adaptive.policy = &school->policy[turn];
    struct aw_episode episode;
    double boxes = 0, moving = 0;
    for (uint32_t i = 0; i < lesson->boxes; i++) {
        const struct aw_episode_plan plan = {
            .link = school->box[i], .steps = AW_BOX_STEPS, .seed = lesson->seed + i};
        aw_episode_run(&plan, &aw_adaptive_controller, &desk->flow, &desk->adaptive, &desk->rtts,
                       NULL, NULL, &episode);
        boxes += fmin(episode.regret, 1);
    }
    for (uint32_t i = 0; i < lesson->moving; i++) {
        judge_moving(school, i, &aw_adaptive_controller, desk, &episode);
        const double scale = fmax(school->oracle[i], SCALE_MIN);
        moving += fmin(fmax((school->oracle[i] - episode.genet) / scale, -1), 3) +
                  fmax(0, episode.rtt_p95_s / school->rtt_p95_s[i] - 1);
    }
    school->loss[turn] = (lesson->boxes ? BOX_WEIGHT * boxes / lesson->boxes : 0) +
                         (lesson->moving ? moving / lesson->moving : 0);
    aw_alloc_free(school->alloc, desk);
    return AW_OK;
}

static enum aw_err school_open(struct school *school, struct aw_diag *diag)
{
    const struct aw_congestion_lesson *lesson = school->lesson;
    uint32_t order[AW_BOX_COUNT];
    school->box = aw_alloc_new(school->alloc, lesson->boxes + 1, sizeof *school->box);
    school->moving = aw_alloc_new(school->alloc, lesson->moving + 1, sizeof *school->moving);
    school->oracle = aw_alloc_new(school->alloc, lesson->moving + 1, sizeof(double));
    school->rtt_p95_s = aw_alloc_new(school->alloc, lesson->moving + 1, sizeof(double));
    struct desk *desk = aw_alloc_new(school->alloc, 1, sizeof *desk);
    if (!school->box || !school->moving || !school->oracle || !school->rtt_p95_s || !desk) {
        aw_alloc_free(school->alloc, desk);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u links", lesson->moving);
    }
    aw_box_order(order);
    for (uint32_t i = 0; i < lesson->boxes; i++)
        aw_box_link(order[i % AW_BOXES_LEARNED], lesson->seed, &school->box[i]);
    for (uint32_t i = 0; i < lesson->moving; i++) {
        struct aw_episode episode;
        aw_moving_link_draw(&school->moving[i], lesson->seed, i);
        judge_moving(school, i, &aw_rate_oracle, desk, &episode);
        school->oracle[i] = episode.genet;
        judge_moving(school, i, &aw_bbr_like, desk, &episode);
        school->rtt_p95_s[i] = fmax(episode.rtt_p95_s, 1e-4);
    }
    aw_alloc_free(school->alloc, desk);
    return AW_OK;
}

static void school_close(struct school *school)
{
    aw_alloc_free(school->alloc, school->box);
    aw_alloc_free(school->alloc, school->moving);
    aw_alloc_free(school->alloc, school->oracle);
    aw_alloc_free(school->alloc, school->rtt_p95_s);
}

/* ---- the search ---- */

/* Numbers of a search as a policy: the base (trait == AW_TRAIT_COUNT), or what one trait adds. */
static void policy_set(struct aw_adaptive_policy *policy, uint32_t trait, const double *x)
{
    for (uint32_t i = 0; i < AW_LAW_COUNT; i++) {
        if (trait == AW_TRAIT_COUNT)
            policy->base[i] = x[i];
        else
            policy->weight[i][trait] = (x[i] - 0.5) * 2 * WEIGHT_RANGE;
    }
}

static enum aw_err search(struct school *school, uint32_t trait, uint32_t generations,
                          struct aw_adaptive_policy *policy, double *loss, uint32_t *done,
                          aw_congestion_progress *progress, void *ctx, struct aw_diag *diag)
{
    const struct aw_congestion_lesson *lesson = school->lesson;
    const uint32_t all = lesson->generations + AW_TRAIT_COUNT * lesson->generations_trait;
    struct aw_cma cma;
    double from[AW_LAW_COUNT];
    for (uint32_t i = 0; i < AW_LAW_COUNT; i++)
        from[i] = trait == AW_TRAIT_COUNT ? policy->base[i]
                                          : 0.5 + policy->weight[i][trait] / (2 * WEIGHT_RANGE);
    aw_cma_init(&cma, AW_LAW_COUNT, from, DEVIATION, lesson->draws, lesson->seed + trait);
    for (uint32_t g = 0; g < generations; g++) {
        aw_cma_ask(&cma);
        for (uint32_t i = 0; i < cma.draws; i++) {
            school->policy[i] = *policy;
            policy_set(&school->policy[i], trait, cma.x[i]);
        }
        const enum aw_err err = aw_parallel_tasks(lesson->threads, cma.draws, judge, school, NULL,
                                                  NULL, school->alloc, diag);
        if (err)
            return err;
        aw_cma_tell(&cma, school->loss);
        if (progress && !progress(ctx, (double)++*done / all, cma.best_value))
            return aw_fail(diag, AW_ERR_INTERRUPTED, "the search was stopped");
    }
    if (cma.best_value < *loss) {
        policy_set(policy, trait, cma.best);
        *loss = cma.best_value;
    }
    return AW_OK;
}

enum aw_err aw_congestion_learn(const struct aw_congestion_lesson *lesson,
                                const struct aw_alloc *alloc, aw_congestion_progress *progress,
                                void *ctx, struct aw_adaptive_policy *ret_policy, double *ret_loss,
                                struct aw_diag *diag)
{
    if (lesson->boxes > AW_BOXES_LEARNED || lesson->moving > LINKS_MAX ||
        lesson->boxes + lesson->moving == 0 || lesson->draws < 4 ||
        lesson->draws > AW_CMA_DRAWS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected 1 to %u boxes, at most %u moving links and 4 to %u draws",
                       AW_BOXES_LEARNED, LINKS_MAX, AW_CMA_DRAWS_MAX);
    struct school *school = aw_alloc_new(alloc, 1, sizeof *school);
    if (!school)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a search");
    school->lesson = lesson;
    school->alloc = alloc;
    struct aw_adaptive_policy policy = aw_adaptive_first();
    double loss = INFINITY;
    uint32_t done = 0;
    enum aw_err err = school_open(school, diag);
    if (!err)
        err = search(school, AW_TRAIT_COUNT, lesson->generations, &policy, &loss, &done, progress,
                     ctx, diag);
    for (uint32_t trait = 0; !err && trait < AW_TRAIT_COUNT; trait++)
        err = search(school, trait, lesson->generations_trait, &policy, &loss, &done, progress, ctx,
                     diag);
    if (!err) {
        *ret_policy = policy;
        *ret_loss = loss;
    }
    school_close(school);
    aw_alloc_free(alloc, school);
    return err;
}
