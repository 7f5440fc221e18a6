/* models.c - where shipped models are looked for. */
#include "policy/models.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the folder of this program. */
#define INSTALLED "/../share/aware/models"
#define BUILT     "/../models" /* a build folder lies in the source tree */

enum aw_err aw_models_open(const char *given, struct aw_model_shelf **ret_shelf,
                           struct aw_diag *diag)
{
    char folder[AW_FILE_PATH_MAX],
        installed[AW_FILE_PATH_MAX + sizeof INSTALLED] = "",
                                            built[AW_FILE_PATH_MAX + sizeof BUILT] = "";
    const ssize_t len = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (len > 0) {
        folder[len] = '\0';
        char *slash = strrchr(folder, '/');
        if (slash)
            *slash = '\0';
        snprintf(installed, sizeof installed, "%s" INSTALLED, folder);
        snprintf(built, sizeof built, "%s" BUILT, folder);
    }
    const char *const folders[] = {given, getenv("AWARE_MODELS"), installed, built};
    return aw_model_shelf_new(folders, sizeof folders / sizeof *folders, NULL, ret_shelf, diag);
}
