/* completion.h - candidates for the word under the cursor, for any shell. */
#ifndef AW_CLI_COMPLETION_H
#define AW_CLI_COMPLETION_H

#include <stdint.h>

/* Prints to stdout one line for each candidate, "candidate<TAB>what it is", or ":dirs". `words` are
 * those after the program's name, after an optional "--"; the last is under the cursor. Unlike
 * a verb it reads them as they are: they belong to a command line that is not finished. */
void aw__complete(char *const *words, uint32_t count);

#endif
