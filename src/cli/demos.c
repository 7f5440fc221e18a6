/* demos.c - the table of demos. */
#include "cli/demos.h"

#include "lab/serving_demo.h"

#define ROW(name_, run_, what_)  {.name = name_, .run = run_},
#define NAME(name_, run_, what_) name_,

const struct aw__demo aw__demos[] = {AW__DEMO_MAP(ROW){.name = NULL}};
const char *const aw__demo_names[] = {AW__DEMO_MAP(NAME) NULL};

const struct aw__demo *aw__demo_asked(const struct aw_args *args)
{
    const char *name = aw_args_text(args, "demo");
    for (const struct aw__demo *demo = aw__demos; name && demo->name; demo++)
        if (!strcmp(demo->name, name))
            return demo->run ? demo : NULL;
    return NULL;
}
