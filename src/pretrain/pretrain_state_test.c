/* pretrain_state_test.c - stopped anywhere and resumed is never stopped; threads change nothing;
 * processes that share a pool have the same weights. */
#include "pretrain/pretrain.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

#define ROUNDS 4u

static char folder[] = "/tmp/aware-pretrain-XXXXXX";
static char state_path[64];

static void load_of(void *ctx, uint32_t app, char *buf, size_t size)
{
    const unsigned *other = ctx;
    snprintf(buf, size, "diurnal:peak=2,period=%u", (other ? *other : 1200) + 60 * (app % 7));
}

static struct aw_pretrain_config small(void)
{
    struct aw_pretrain_config config;
    aw_pretrain_config_init(&config);
    config.learn = (struct aw_pretrain_pool){.seed = 1, .count = 5, .load = load_of};
    config.check = (struct aw_pretrain_pool){.seed = 1, .first = 600, .count = 2, .load = load_of};
    config.pairs[0] = "objective=paper";
    config.pairs[1] = "episode_steps=20";
    config.pair_count = 2;
    config.context.hidden = 16;
    config.context.encoder_hidden = config.context.encoder_dense = 8;
    config.context.embedding = 4;
    config.context.replay = 64; /* so that the rings come round */
    config.fallback_episodes = 2;
    config.teacher_tries = 10;
    config.teacher_episodes = 1;
    config.rounds = ROUNDS;
    config.updates = 3;
    return config;
}

static struct aw_pretrain *begin(const struct aw_pretrain_config *config)
{
    struct aw_pretrain *pretrain = NULL;
    struct aw_diag diag = {0};
    if (aw_pretrain_new(config, NULL, &pretrain, &diag))
        fail_msg("%s", diag.text);
    return pretrain;
}

/* One round and its check. */
static void advance(struct aw_pretrain *pretrain)
{
    struct aw_pretrain_score learned, checked;
    assert_ok(aw_pretrain_round(pretrain, &learned, NULL));
    assert_ok(aw_pretrain_check(pretrain, &checked, NULL, NULL));
    (void)aw_pretrain_mark(pretrain, &checked);
}

/* After all rounds: of the weights, and of the best ones. */
struct outcome {
    uint64_t last, best;
    uint32_t best_round;
    double worth;
};

static struct outcome finish(struct aw_pretrain *pretrain)
{
    struct outcome outcome = {.last = aw_context_checksum(aw_pretrain_context(pretrain)),
                              .best_round = aw_pretrain_best(pretrain)->round,
                              .worth = aw_pretrain_best(pretrain)->worth};
    aw_pretrain_recall(pretrain);
    outcome.best = aw_context_checksum(aw_pretrain_context(pretrain));
    aw_pretrain_free(pretrain);
    return outcome;
}

static void assert_same(struct outcome a, struct outcome b)
{
    assert_true(a.last == b.last);
    assert_true(a.best == b.best);
    assert_int_equal(a.best_round, b.best_round);
    assert_true(a.worth == b.worth);
}

static struct outcome whole(const struct aw_pretrain_config *config)
{
    struct aw_pretrain *pretrain = begin(config);
    while (aw_pretrain_rounds(pretrain) < ROUNDS)
        advance(pretrain);
    return finish(pretrain);
}

static void a_run_stopped_after_any_round_goes_on_as_if_it_had_not(void **state)
{
    (void)state;
    const struct aw_pretrain_config config = small();
    const struct outcome never = whole(&config);
    for (uint32_t stop = 0; stop <= ROUNDS; stop++) {
        struct aw_pretrain *pretrain = begin(&config);
        while (aw_pretrain_rounds(pretrain) < stop)
            advance(pretrain);
        assert_ok(aw_pretrain_save_state(pretrain, state_path, NULL));
        advance(pretrain); /* what is done after a save is not in it */
        aw_pretrain_free(pretrain);
        pretrain = begin(&config);
        struct aw_diag diag = {0};
        if (aw_pretrain_load_state(pretrain, state_path, &diag))
            fail_msg("after %u rounds: %s", stop, diag.text);
        assert_int_equal(aw_pretrain_rounds(pretrain), stop);
        while (aw_pretrain_rounds(pretrain) < ROUNDS)
            advance(pretrain);
        assert_same(finish(pretrain), never);
    }
}

static void the_number_of_threads_changes_nothing(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    const struct outcome one = whole(&config);
    config.threads = 2;
    assert_same(whole(&config), one);
    config.threads = 3;
    config.context.encoder = AW_ENCODER_GRU;
    const struct outcome three = whole(&config);
    config.threads = 1;
    assert_same(whole(&config), three);
    assert_true(three.last != one.last);
}

static size_t read_all(char **ret)
{
    FILE *file = fopen(state_path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    *ret = malloc(size);
    assert_non_null(*ret);
    assert_int_equal(fread(*ret, 1, size, file), size);
    fclose(file);
    return size;
}

static void write_all(const char *bytes, size_t size)
{
    FILE *file = fopen(state_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void assert_refused(struct aw_pretrain *pretrain, const char *said)
{
    struct aw_diag diag = {0};
    const uint64_t before = aw_context_checksum(aw_pretrain_context(pretrain));
    assert_int_not_equal(aw_pretrain_load_state(pretrain, state_path, &diag), AW_OK);
    if (!strstr(diag.text, said) && !strstr(diag.key, said))
        fail_msg("expected \"%s\", found \"%s: %s\"", said, diag.key, diag.text);
    assert_null(strchr(diag.text, '\n'));
    assert_true(aw_context_checksum(aw_pretrain_context(pretrain)) == before);
    assert_int_equal(aw_pretrain_rounds(pretrain), 0);
}

static void a_damaged_state_is_refused_wherever_it_is_damaged(void **state)
{
    (void)state;
    const struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = begin(&config);
    char *bytes = NULL;
    advance(pretrain);
    assert_ok(aw_pretrain_save_state(pretrain, state_path, NULL));
    aw_pretrain_free(pretrain);
    const size_t size = read_all(&bytes);
    pretrain = begin(&config);
    for (uint32_t i = 1; i <= 24; i++) { /* one bit, here and there in the data */
        const size_t at = size - 1 - (size - 8192) / 25 * (i - 1);
        bytes[at] = (char)(bytes[at] ^ 1);
        write_all(bytes, size);
        assert_refused(pretrain, "");
        bytes[at] = (char)(bytes[at] ^ 1);
    }
    bytes[size - 1] = (char)(bytes[size - 1] ^ 1);
    write_all(bytes, size);
    assert_refused(pretrain, "damaged");
    bytes[size - 1] = (char)(bytes[size - 1] ^ 1);
    write_all(bytes, size - 4);
    assert_refused(pretrain, "");
    write_all("nothing of the kind", 19);
    assert_refused(pretrain, "");
    write_all(bytes, size); /* and whole again it is taken */
    assert_ok(aw_pretrain_load_state(pretrain, state_path, NULL));
    aw_pretrain_free(pretrain);
    free(bytes);
}

static void the_state_of_another_run_is_refused_with_what_differs(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = begin(&config);
    assert_ok(aw_pretrain_save_state(pretrain, state_path, NULL));
    aw_pretrain_free(pretrain);
    static const struct {
        const char *why, *said;
    } cases[] = {
        {"another reward", "reward_miss"},
        {"other applications", "apps 1:0+4"},
        {"another option", "objective=constrained"},
        {"another network", "hidden"},
        {"another seed", "seed"},
        {"another load", "loads"},
    };
    unsigned shorter = 900;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config = small();
        config.reward_miss = i == 0 ? 0.5 : config.reward_miss;
        config.learn.count = i == 1 ? 4 : 5;
        config.check.count = i == 1 ? 3 : 2;
        config.pairs[0] = i == 2 ? "objective=constrained" : config.pairs[0];
        config.context.hidden = i == 3 ? 24 : 16;
        config.seed = i == 4 ? 2 : 1;
        config.learn.ctx = i == 5 ? &shorter : NULL;
        pretrain = begin(&config);
        assert_refused(pretrain, cases[i].said);
        aw_pretrain_free(pretrain);
    }
    config = small();
    pretrain = begin(&config); /* a model is not a state */
    assert_ok(aw_context_save(aw_pretrain_context(pretrain), state_path, NULL, 0, NULL));
    assert_refused(pretrain, "format");
    aw_pretrain_free(pretrain);
}

/* --- a team, as two threads of this process --------------------------------------------------- */

#define TEAM 2u

/* What a message passing library does, with a barrier and a shared array. */
struct shared {
    pthread_barrier_t barrier;
    float *from[TEAM];
    unsigned char *bytes;
};

struct member {
    struct shared *shared;
    uint32_t rank;
    struct aw_pretrain_config config;
    uint64_t after[ROUNDS];
    double checked[ROUNDS];
    float embedding[5 * 4];
};

static enum aw_err reduce(void *ctx, float *gradient, size_t count)
{
    const struct member *member = ctx;
    struct shared *shared = member->shared;
    float *mean = malloc(count * sizeof *mean);
    assert_non_null(mean);
    shared->from[member->rank] = gradient;
    pthread_barrier_wait(&shared->barrier);
    for (size_t i = 0; i < count; i++)
        mean[i] = (shared->from[0][i] + shared->from[1][i]) / TEAM;
    pthread_barrier_wait(&shared->barrier);
    memcpy(gradient, mean, count * sizeof *mean);
    free(mean);
    return AW_OK;
}

static enum aw_err broadcast(void *ctx, void *bytes, size_t count)
{
    const struct member *member = ctx;
    struct shared *shared = member->shared;
    if (member->rank == 0)
        shared->bytes = bytes;
    pthread_barrier_wait(&shared->barrier);
    if (member->rank != 0)
        memcpy(bytes, shared->bytes, count);
    pthread_barrier_wait(&shared->barrier);
    return AW_OK;
}

static void *work(void *ctx)
{
    struct member *member = ctx;
    struct aw_pretrain *pretrain = begin(&member->config);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        struct aw_pretrain_score learned, checked;
        assert_ok(aw_pretrain_round(pretrain, &learned, NULL));
        assert_ok(aw_pretrain_check(pretrain, &checked, NULL, NULL));
        member->after[r] = aw_context_checksum(aw_pretrain_context(pretrain));
        member->checked[r] = checked.reward;
    }
    assert_ok(aw_pretrain_embeddings(pretrain, member->embedding, NULL));
    aw_pretrain_free(pretrain);
    return NULL;
}

static void a_team_has_the_same_weights_after_every_round(void **state)
{
    (void)state;
    struct shared shared = {0};
    struct member member[TEAM];
    pthread_t thread[TEAM];
    assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, TEAM), 0);
    for (uint32_t i = 0; i < TEAM; i++) {
        member[i] = (struct member){.shared = &shared, .rank = i, .config = small()};
        member[i].config.team = (struct aw_pretrain_team){i, TEAM, reduce, broadcast, &member[i]};
    }
    for (uint32_t i = 0; i < TEAM; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, &member[i]), 0);
    for (uint32_t i = 0; i < TEAM; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        assert_true(member[0].after[r] == member[1].after[r]);
        assert_true(member[0].checked[r] == member[1].checked[r]);
        assert_true(r == 0 || member[0].after[r] != member[0].after[r - 1]);
    }
    assert_memory_equal(member[0].embedding, member[1].embedding, sizeof member[0].embedding);
    for (uint32_t i = 0; i < 5; i++) { /* everybody's is there */
        double size = 0;
        for (uint32_t k = 0; k < 4; k++)
            size += (double)(member[0].embedding[4 * i + k] * member[0].embedding[4 * i + k]);
        assert_true(size > 0);
    }
    pthread_barrier_destroy(&shared.barrier);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(state_path, sizeof state_path, "%s/state", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(state_path);
    return rmdir(folder);
}

AW_TEST_GROUP("pretrain-state")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_stopped_after_any_round_goes_on_as_if_it_had_not),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(a_damaged_state_is_refused_wherever_it_is_damaged),
        cmocka_unit_test(the_state_of_another_run_is_refused_with_what_differs),
        cmocka_unit_test(a_team_has_the_same_weights_after_every_round),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
