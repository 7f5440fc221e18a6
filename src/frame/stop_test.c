/* stop_test.c - what one signal does to a process, and what two do. */
#include "frame/stop.h"

#include "base/testing.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `what` in a process of its own. Returns its wait status; `said` is what it wrote to standard
 * error. */
static int apart(int (*what)(void), char *said, size_t size)
{
    int ends[2], status = 0;
    size_t have = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        _exit(what());
    }
    close(ends[1]);
    for (ssize_t got; have < size - 1 && (got = read(ends[0], said + have, size - 1 - have)) > 0;)
        have += (size_t)got;
    said[have] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int once_then_on(void)
{
    aw_stop_catch(&(struct aw_stop_config){.twice = true, .first_words = "ending\n"});
    raise(SIGTERM);
    return aw_stop_signal == SIGTERM ? 7 : 1;
}

static int twice(void)
{
    aw_stop_catch(&(struct aw_stop_config){
        .twice = true, .first_words = "ending\n", .second_words = "ended\n"});
    raise(SIGTERM);
    raise(SIGINT);
    return 1; /* not reached */
}

static int often(void)
{
    aw_stop_catch(&(struct aw_stop_config){.first_words = "ending\n", .second_words = "never\n"});
    for (int i = 0; i < 5; i++)
        raise(i % 2 ? SIGTERM : SIGINT);
    return aw_stop_signal == SIGINT ? 7 : 1;
}

static int hung_up(void)
{
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW_STOP_HANGUP_NOTED});
    raise(SIGHUP);
    if (!aw_stop_hangup || aw_stop_signal)
        return 1;
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW__STOP_HANGUP_ENDS});
    if (aw_stop_hangup)
        return 2;
    raise(SIGHUP);
    return aw_stop_signal == SIGHUP && !aw_stop_hangup ? 7 : 3;
}

static int let_go(void)
{
    aw_stop_catch(&(struct aw_stop_config){.twice = false});
    raise(SIGINT);
    aw_stop_let_go();
    if (aw_stop_signal != SIGINT)
        return 1;
    raise(SIGTERM);
    return 2; /* not reached */
}

static int held_and_waited_for(void)
{
    struct aw_stop_held held;
    aw_stop_hold(&held);
    raise(SIGTERM);
    if (aw_stop_wait() != SIGTERM)
        return 1;
    aw_stop_release(&held);
    raise(SIGINT);
    return 2; /* not reached */
}

static void signals_are_numbers_until_the_second_where_that_ends(void **state)
{
    (void)state;
    static const struct {
        int (*what)(void);
        int exits, signalled; /* -1: it does not */
        const char *says, *why;
    } cases[] = {
        {once_then_on, 7, -1, "ending\n", "the first is noted, and the words come at once"},
        {twice, -1, SIGINT, "ending\nended\n", "the second ends it, whichever of the two it is"},
        {often, 7, -1, "ending\n", "without `twice` no number of them does"},
        {hung_up, 7, -1, "", "a hang-up is apart, or an end like the others"},
        {let_go, -1, SIGTERM, "", "as before, once let go"},
        {held_and_waited_for, -1, SIGINT, "", "held back until waited for"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[256];
        const int status = apart(cases[i].what, said, sizeof said);
        if ((cases[i].exits >= 0 &&
             !(WIFEXITED(status) && WEXITSTATUS(status) == cases[i].exits)) ||
            (cases[i].signalled >= 0 &&
             !(WIFSIGNALED(status) && WTERMSIG(status) == cases[i].signalled)) ||
            strcmp(said, cases[i].says) != 0)
            fail_msg("%s: status %#x, said \"%s\"", cases[i].why, (unsigned)status, said);
    }
}

static void calls_that_wait_go_on_where_a_second_signal_ends(void **state)
{
    (void)state;
    for (int is_twice = 0; is_twice < 2; is_twice++) {
        struct sigaction now;
        aw_stop_catch(&(struct aw_stop_config){.twice = is_twice});
        assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
        assert_int_equal((now.sa_flags & SA_RESTART) != 0, is_twice);
        aw_stop_let_go();
        assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
        assert_true(now.sa_handler == SIG_DFL);
    }
}

AW_TEST_GROUP("cli-stop")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_numbers_until_the_second_where_that_ends),
        cmocka_unit_test(calls_that_wait_go_on_where_a_second_signal_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
