/* findings.c - what is wrong or odd in files of users, as lines on standard error. */
#include "frame/findings.h"

#include <stdio.h>

void aw_finding_print(void *ctx, const struct aw_profile_finding *finding)
{
    const bool color = *(const bool *)ctx;
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    aw_diag_format(&finding->diag, finding->err ? finding->err : AW_ERR_CONFIG, line, sizeof line);
    if (finding->err)
        fprintf(stderr, "%s%s%s\n", color ? "\033[31m" : "", line, color ? "\033[0m" : "");
    else
        fprintf(stderr, "%swarning: %s [%s]%s\n", color ? "\033[33m" : "", line, finding->warning,
                color ? "\033[0m" : "");
}
