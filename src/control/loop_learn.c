/* loop_learn.c - whose turn it is to learn, and rounds of learning at once or beside the ticks. */
#include "control/loop_internal.h"

#include <math.h>

/* A thread that never waits has a processor of its own, and goes first. */
enum aw_err aw__loop_learning_make(struct aw_loop *loop, const struct aw_loop_config *config,
                                   struct aw_diag *diag)
{
    const uint32_t threads = config->thread_count;
    enum aw_err err;
    loop->mode = config->learning;
    if (loop->mode == AW_LOOP_LEARN_AT_ONCE) {
        if ((err = aw_threads_init(&loop->pool, threads, loop->alloc)))
            aw_fail(diag, err, "no threads to learn with");
        return err;
    }
    loop->later = config->learn_after ? config->learn_after : AW_LOOP_LEARN_LATER;
    if (loop->later > AW_LOOP_LEARN_LATER_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected at most %u ticks until rounds are over",
                       AW_LOOP_LEARN_LATER_MAX);
    loop->round_max = loop->learn_max * (loop->mode == AW_LOOP_LEARN_AFTER ? loop->later + 1 : 1);
    loop->rounds = aw_alloc_new(loop->alloc, loop->round_max, sizeof *loop->rounds);
    const bool waits = loop->mode == AW_LOOP_LEARN_AFTER;
    const uint32_t learners = waits || threads < 2 ? threads : threads - 1;
    err = loop->rounds
              ? aw__learning_init(&loop->learning, learners, loop->round_max, !waits, loop->alloc)
              : AW_ERR_NOMEM;
    return err ? aw_fail(diag, err, "no threads to learn with") : AW_OK;
}

bool aw_loop_learns(const struct aw_loop *loop, uint32_t index)
{
    return loop->rounds && loop->slot[index].pilot && loop->slot[index].round != AW__LOOP_NOBODY;
}

void aw__loop_round_leave(struct aw_loop *loop, struct aw__loop_slot *slot)
{
    if (slot->round != AW__LOOP_NOBODY)
        loop->rounds[slot->round].workload = AW__LOOP_NOBODY;
    slot->round = AW__LOOP_NOBODY;
}

/* Puts `key` in the place of the highest, and brings the highest of what is left to the top. */
static void heap_replace_top(uint64_t *heap, uint32_t count, uint64_t key)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1] > heap[child];
        if (heap[child] <= key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

/* The highest key of the `turns`, one at least, whose turn it is. */
static uint64_t last_turn(struct aw_loop *loop, uint32_t turns)
{
    uint64_t *lowest = loop->lowest;
    for (uint32_t i = 0; i < turns; i++)
        lowest[i] = AW__LOOP_NOT_DUE;
    for (uint32_t i = 0; i < loop->count; i++)
        if (loop->slot[i].key < lowest[0])
            heap_replace_top(lowest, turns, loop->slot[i].key);
    return lowest[0];
}

/* The store is asked again in the next tick: full, busy or gone may pass. */
bool aw__loop_may_pass(const struct aw_loop *loop, enum aw_err err)
{
    return loop->steadfast && err != AW_ERR_CONFLICT && err != AW_ERR_DIVERGED;
}

static void learned(struct aw_loop *loop, uint32_t workload, enum aw_err err, double took_s)
{
    if (loop->hooks)
        loop->hooks->learned(loop->hooks->ctx, workload, err, took_s);
    loop->counts.learn_rounds += err == AW_OK;
    /* a question that has changed is no failure: it is asked again */
    loop->counts.learn_failures += err != AW_OK && err != AW_ERR_NODATA && err != AW_ERR_CONFLICT;
}

/* `due` as a round of another life had it; 0: of this one. */
void aw__loop_round_put(struct aw_loop *loop, uint32_t workload, struct aw_pilot_round *made,
                        uint64_t due)
{
    uint32_t at = 0;
    while (at < loop->round_max && loop->rounds[at].taken)
        at++;
    AW_ASSERT(at < loop->round_max);
    if (due == 0 && loop->mode == AW_LOOP_LEARN_AFTER)
        due = loop->counts.ticks + loop->later;
    loop->rounds[at] = (struct aw__loop_round){.taken = true,
                                               .place = aw__learning_begin(&loop->learning, made),
                                               .workload = workload,
                                               .due = due};
    loop->slot[workload].round = at;
}

static enum aw_err round_begin(struct aw_loop *loop, uint32_t workload, struct aw_diag *diag)
{
    struct aw_pilot *pilot = loop->slot[workload].pilot;
    struct aw_pilot_round *made = NULL;
    if (!loop->store && aw_pilot_learns_episodes(pilot)) { /* they are nowhere but in the pilot */
        const enum aw_err err = aw_pilot_recall(pilot, NULL, diag);
        if (!err)
            learned(loop, workload, aw_pilot_learn(pilot, NULL), NAN);
        return err;
    }
    const enum aw_err err = aw_pilot_round_new(pilot, loop->store, &made, diag);
    if (!err)
        aw__loop_round_put(loop, workload, made, 0);
    return err;
}

/* Takes what rounds have come to whose time it is. Only one that is late is waited for, where the
 * same ticks are to give the same bytes. */
static void take_rounds(struct aw_loop *loop)
{
    for (uint32_t i = 0; i < loop->round_max; i++) {
        struct aw__loop_round *round = &loop->rounds[i];
        if (!round->taken || round->due > loop->counts.ticks)
            continue;
        struct aw_pilot_round *made = round->due
                                          ? aw__learning_wait(&loop->learning, round->place)
                                          : aw__learning_finished(&loop->learning, round->place);
        if (!made)
            continue;
        if (round->workload != AW__LOOP_NOBODY) {
            struct aw__loop_slot *slot = &loop->slot[round->workload];
            const enum aw_err err = aw_pilot_round_take(slot->pilot, made);
            slot->round = AW__LOOP_NOBODY;
            learned(loop, round->workload, err, aw_pilot_round_took_s(made));
        }
        aw_pilot_round_free(made);
        *round = (struct aw__loop_round){0};
    }
}

static void learn_one(void *ctx, uint32_t turn, uint32_t worker)
{
    (void)worker;
    struct aw_loop *loop = ctx;
    loop->err[turn] = aw_pilot_learn(loop->slot[loop->due[turn]].pilot, NULL);
}

/* Who is due, by turns, begins: at once, or as a round beside the ticks. */
static enum aw_err begin_all(struct aw_loop *loop, uint32_t turns, struct aw_diag *diag)
{
    const uint64_t last = turns > 0 ? last_turn(loop, turns) : 0;
    loop->due_count = 0;
    loop->counts.learn_waiting = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        struct aw__loop_slot *slot = &loop->slot[i];
        if (slot->key == AW__LOOP_NOT_DUE)
            continue;
        if (turns == 0 || slot->key > last) {
            loop->counts.learn_waiting++;
            continue;
        }
        slot->key = AW__LOOP_NOT_DUE;
        slot->since = 0;
        const enum aw_err err = loop->rounds ? round_begin(loop, i, diag)
                                             : aw_pilot_recall(slot->pilot, loop->store, diag);
        if (err && !aw__loop_may_pass(loop, err))
            return err;
        loop->counts.learn_failures += err != AW_OK; /* it stays due */
        if (!err)
            loop->due[loop->due_count++] = i;
    }
    loop->counts.learn_waited += loop->counts.learn_waiting;
    return AW_OK;
}

enum aw_err aw__loop_learn(struct aw_loop *loop, struct aw_diag *diag)
{
    const bool crowd = loop->store && loop->live > loop->learn_max;
    if (loop->rounds) {
        take_rounds(loop);
        const uint32_t room = aw__learning_room(&loop->learning);
        return begin_all(loop, room < loop->learn_max ? room : loop->learn_max, diag);
    }
    const enum aw_err err = begin_all(loop, loop->learn_max, diag);
    if (err || loop->due_count == 0)
        return err;
    aw_threads_parallel_for(&loop->pool, loop->due_count, 1, learn_one, loop);
    for (uint32_t i = 0; i < loop->due_count; i++) {
        learned(loop, loop->due[i], loop->err[i], NAN);
        if (crowd) /* as many records at once as rounds, and not as workloads */
            aw_pilot_put_away(loop->slot[loop->due[i]].pilot);
    }
    return AW_OK;
}
