/* stop.c - the one handler of signals that ask for an end. */
#include "frame/stop.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

_Atomic int aw_stop_signal, aw_stop_hangup;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler writes them");

static struct aw_stop_config how;
static struct sigaction before_int, before_term, before_hup;

static void words_write(const char *words)
{
    const int before = errno; /* of what was interrupted */
    if (words) {
        const ssize_t written = write(STDERR_FILENO, words, strlen(words));
        (void)written; /* there is nobody to tell */
    }
    errno = before;
}

static void on_signal(int number)
{
    if (number == SIGHUP && how.hangup == AW_STOP_HANGUP_NOTED) {
        aw_stop_hangup = number;
        return;
    }
    if (how.twice && aw_stop_signal) {
        words_write(how.second_words);
        signal(number, SIG_DFL);
        raise(number); /* delivered when the handler returns */
        return;
    }
    if (!aw_stop_signal)
        words_write(how.first_words);
    aw_stop_signal = number;
}

void aw_stop_catch(const struct aw_stop_config *config)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = config->twice ? SA_RESTART : 0};
    sigemptyset(&action.sa_mask);
    how = *config;
    aw_stop_signal = aw_stop_hangup = 0;
    sigaction(SIGINT, &action, &before_int);
    sigaction(SIGTERM, &action, &before_term);
    if (how.hangup != AW__STOP_HANGUP_DEFAULT)
        sigaction(SIGHUP, &action, &before_hup);
}

void aw_stop_let_go(void)
{
    sigaction(SIGINT, &before_int, NULL);
    sigaction(SIGTERM, &before_term, NULL);
    if (how.hangup != AW__STOP_HANGUP_DEFAULT)
        sigaction(SIGHUP, &before_hup, NULL);
}

static sigset_t both(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void aw_stop_hold(struct aw_stop_held *held)
{
    const sigset_t set = both();
    pthread_sigmask(SIG_BLOCK, &set, &held->before);
}

int aw_stop_wait(void)
{
    const sigset_t set = both();
    int number = 0;
    sigwait(&set, &number);
    return number;
}

void aw_stop_release(const struct aw_stop_held *held)
{
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
