/* helpers.c - a list of jobs with parts left; workers push to it, helpers take from its head. */
#include "segments/helpers.h"

#include "base/threads.h"

#include <pthread.h>
#include <signal.h>

struct job {
    struct job *next;
    void (*part)(void *ctx, uint32_t index, uint32_t lane);
    void *ctx;
    uint32_t part_count, taken, done;
    pthread_cond_t finished;
};

struct helper {
    struct aw__helpers *gang;
    pthread_t thread;
    uint32_t lane;
};

struct aw__helpers {
    const struct aw_alloc *alloc;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job *jobs; /* those with parts that nobody has taken */
    bool stop;
    uint32_t helper_count;
    struct helper helper[AW__HELPERS_HELPERS_MAX];
};

static void unlist(struct aw__helpers *gang, struct job *job)
{
    for (struct job **at = &gang->jobs; *at; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            return;
        }
    }
}

/* Takes and runs one part; the lock is held before and after. */
static void part_run(struct aw__helpers *gang, struct job *job, uint32_t lane)
{
    const uint32_t index = job->taken++;
    if (job->taken == job->part_count)
        unlist(gang, job);
    pthread_mutex_unlock(&gang->lock);
    job->part(job->ctx, index, lane);
    pthread_mutex_lock(&gang->lock);
    if (++job->done == job->part_count)
        pthread_cond_signal(&job->finished);
}

static void *help(void *arg)
{
    struct helper *helper = arg;
    struct aw__helpers *gang = helper->gang;
    pthread_mutex_lock(&gang->lock);
    while (!gang->stop) {
        if (gang->jobs)
            part_run(gang, gang->jobs, helper->lane);
        else
            pthread_cond_wait(&gang->work, &gang->lock);
    }
    pthread_mutex_unlock(&gang->lock);
    return NULL;
}

enum aw_err aw__helpers_new(uint32_t helper_count, uint32_t lane_first,
                            const struct aw_alloc *alloc, struct aw__helpers **ret_gang)
{
    AW_ASSERT(helper_count <= AW__HELPERS_HELPERS_MAX);
    struct aw__helpers *gang = aw_alloc_new(alloc, 1, sizeof *gang);
    if (!gang)
        return AW_ERR_NOMEM;
    gang->alloc = alloc;
    (void)pthread_mutex_init(&gang->lock, NULL);
    (void)pthread_cond_init(&gang->work, NULL);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < helper_count; i++) {
        struct helper *helper = &gang->helper[i];
        *helper = (struct helper){.gang = gang, .lane = lane_first + i};
        if (aw_thread_begin(&helper->thread, help, helper) != 0)
            err = AW_ERR_UNAVAILABLE;
        else
            gang->helper_count++;
    }
    if (err)
        aw__helpers_free(gang);
    else
        *ret_gang = gang;
    return err;
}

void aw__helpers_free(struct aw__helpers *gang)
{
    if (!gang)
        return;
    pthread_mutex_lock(&gang->lock);
    gang->stop = true;
    pthread_cond_broadcast(&gang->work);
    pthread_mutex_unlock(&gang->lock);
    for (uint32_t i = 0; i < gang->helper_count; i++)
        (void)pthread_join(gang->helper[i].thread, NULL);
    (void)pthread_cond_destroy(&gang->work);
    (void)pthread_mutex_destroy(&gang->lock);
    aw_alloc_free(gang->alloc, gang);
}

void aw__helpers_run(struct aw__helpers *gang, uint32_t lane, uint32_t part_count,
                     void (*part)(void *ctx, uint32_t index, uint32_t lane), void *ctx)
{
    if (part_count == 0)
        return;
    struct job job = {.part = part, .ctx = ctx, .part_count = part_count};
    (void)pthread_cond_init(&job.finished, NULL);
    pthread_mutex_lock(&gang->lock);
    struct job **end = &gang->jobs; /* first come, first helped */
    while (*end)
        end = &(*end)->next;
    *end = &job;
    for (uint32_t i = 1; i < part_count; i++)
        pthread_cond_signal(&gang->work);
    while (job.taken < job.part_count)
        part_run(gang, &job, lane);
    while (job.done < job.part_count)
        pthread_cond_wait(&job.finished, &gang->lock);
    pthread_mutex_unlock(&gang->lock);
    (void)pthread_cond_destroy(&job.finished);
}
