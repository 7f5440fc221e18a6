/* stage.c - the names of stages and actors. */
#include <aware/stage.h>

const char *aw_stage_name(uint32_t stage)
{
    static const char *const names[] = {
#define X(id, name) name,
        AW_STAGE_MAP(X)
#undef X
    };
    return stage < AW_STAGE_COUNT ? names[stage] : NULL;
}

const char *aw_actor_name(uint32_t actor)
{
    static const char *const names[] = {
#define X(id, name) name,
        AW_ACTOR_MAP(X)
#undef X
    };
    return actor < AW_ACTOR_COUNT ? names[actor] : NULL;
}
