/* learning.c - rounds of learning on threads of their own. */
#include "control/learning.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/threads.h"

/* A tenth of what a thread that ticks gets where both want the same processor. */
#define NICE 10

/* The one that has waited longest; NULL: none waits. */
static struct aw__learning_place *next_of(struct aw__learning *l)
{
    struct aw__learning_place *next = NULL;
    for (uint32_t i = 0; i < l->max; i++) {
        struct aw__learning_place *place = &l->place[i];
        if (place->round && place->state == AW__LEARNING_WAITS &&
            (!next || place->order < next->order))
            next = place;
    }
    return next;
}

static void *work(void *ctx)
{
    struct aw__learning *l = ctx;
    /* of this thread alone, on Linux; without the right to, it learns as any other thread */
    if (l->humble)
        (void)!setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        struct aw__learning_place *place = next_of(l);
        if (!place) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        place->state = AW__LEARNING_RUNS;
        pthread_mutex_unlock(&l->lock);
        aw_pilot_round_run(place->round, &l->stop);
        pthread_mutex_lock(&l->lock);
        place->state = AW__LEARNING_DONE;
        pthread_cond_broadcast(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

enum aw_err aw__learning_init(struct aw__learning *l, uint32_t threads, uint32_t rounds_max,
                              bool humble, const struct aw_alloc *alloc)
{
    *l = (struct aw__learning){.alloc = alloc, .max = rounds_max, .humble = humble};
    threads = threads > 0 ? threads : 1;
    l->place = aw_alloc_new(alloc, rounds_max, sizeof *l->place);
    l->thread = aw_alloc_new(alloc, threads, sizeof *l->thread);
    if (!l->place || !l->thread) {
        aw_alloc_free(alloc, l->place);
        aw_alloc_free(alloc, l->thread);
        *l = (struct aw__learning){0};
        return AW_ERR_NOMEM;
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    l->made = true;
    for (uint32_t i = 0; i < threads; i++) {
        if (aw_thread_begin(&l->thread[i], work, l))
            break;
        l->thread_count++;
    }
    if (l->thread_count == 0) {
        aw__learning_deinit(l);
        return AW_ERR_UNAVAILABLE;
    }
    return AW_OK;
}

void aw__learning_deinit(struct aw__learning *l)
{
    if (!l->made)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < l->thread_count; i++)
        pthread_join(l->thread[i], NULL);
    for (uint32_t i = 0; i < l->max; i++)
        aw_pilot_round_free(l->place[i].round);
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    aw_alloc_free(l->alloc, l->thread);
    aw_alloc_free(l->alloc, l->place);
    *l = (struct aw__learning){0};
}

uint32_t aw__learning_room(const struct aw__learning *l)
{
    return l->max - l->used;
}

uint32_t aw__learning_begin(struct aw__learning *l, struct aw_pilot_round *round)
{
    uint32_t at = 0;
    pthread_mutex_lock(&l->lock);
    while (at < l->max && l->place[at].round)
        at++;
    AW_ASSERT(at < l->max);
    l->place[at] = (struct aw__learning_place){
        .round = round, .order = ++l->next_order, .state = AW__LEARNING_WAITS};
    l->used++;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return at;
}

static struct aw_pilot_round *give(struct aw__learning *l, uint32_t place)
{
    struct aw_pilot_round *round = l->place[place].round;
    l->place[place].round = NULL;
    l->used--;
    return round;
}

struct aw_pilot_round *aw__learning_finished(struct aw__learning *l, uint32_t place)
{
    pthread_mutex_lock(&l->lock);
    const bool done = l->place[place].state == AW__LEARNING_DONE;
    struct aw_pilot_round *round = done ? give(l, place) : NULL;
    pthread_mutex_unlock(&l->lock);
    return round;
}

struct aw_pilot_round *aw__learning_wait(struct aw__learning *l, uint32_t place)
{
    pthread_mutex_lock(&l->lock);
    while (l->place[place].state != AW__LEARNING_DONE)
        pthread_cond_wait(&l->done, &l->lock);
    struct aw_pilot_round *round = give(l, place);
    pthread_mutex_unlock(&l->lock);
    return round;
}
