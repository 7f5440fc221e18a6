/*
 * screen.c - the whole terminal for a table that is redrawn, given back however it ends.
 *
 * The alternate screen leaves what was there before in place (xterm's private mode 1049, which
 * every terminal of today has); keys are read one by one, without echo.
 */
#include "frame/rows.h"
#include "frame/stop.h"

#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ESCAPE_MS 20 /* within which the rest of a key is there */

static struct termios before;

void aw_screen_begin(struct aw_screen *screen)
{
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW__STOP_HANGUP_ENDS});
    screen->raw = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (screen->raw) {
        struct termios raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l" AW_SCREEN_HOME AW_SCREEN_CLEAR, stdout);
    fflush(stdout);
}

void aw_screen_end(struct aw_screen *screen)
{
    if (screen->raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    *screen = (struct aw_screen){0};
}

int aw_screen_wait(double seconds)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    const bool terminal = isatty(STDIN_FILENO);
    unsigned char key = 0;
    if (aw_stop_signal)
        return -1;
    const int ready = poll(&keys, terminal ? 1 : 0, (int)(1000 * seconds));
    if (aw_stop_signal)
        return -1;
    if (ready <= 0 || read(STDIN_FILENO, &key, 1) != 1)
        return 0;
    if (key != '\033')
        return key;
    /* an arrow is ESC [ A, all at once; ESC alone is a key */
    unsigned char rest[8];
    const bool more = poll(&keys, 1, ESCAPE_MS) > 0;
    const ssize_t count = more ? read(STDIN_FILENO, rest, sizeof rest) : 0;
    if (count <= 0)
        return AW_KEY_ESCAPE;
    if (count < 2 || (*rest != '[' && *rest != 'O'))
        return 0;
    switch (rest[1]) {
    case 'A':
        return AW_KEY_UP;
    case 'B':
        return AW_KEY_DOWN;
    case 'C':
        return AW_KEY_RIGHT;
    case 'D':
        return AW_KEY_LEFT;
    default:
        return 0;
    }
}

void aw_screen_size(unsigned *ret_rows, unsigned *ret_columns)
{
    struct winsize size;
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    *ret_rows = known ? size.ws_row : 24;
    *ret_columns = known ? size.ws_col : 80;
}
