/* resource.c - the table of resources as constants. */
#include <aware/resource.h>

const struct aw_resource_row aw_resource_table[AW_RESOURCES] = {
#define X(id, member_, name_, unit_, most_, common, restarts, use_, words_, noun_, up, down, low_, \
          high_, step_, lot, lots_, ...)                                                           \
    [AW_RESOURCE_##id] = {.member = #member_,                                                      \
                          .name = #name_,                                                          \
                          .words = words_,                                                         \
                          .noun = noun_,                                                           \
                          .most = most_,                                                           \
                          .low = low_,                                                             \
                          .high = high_,                                                           \
                          .step = step_,                                                           \
                          .lots = lots_,                                                           \
                          .unit = AW_AMOUNT_##unit_,                                               \
                          .use = AW_USE_##use_},
    AW_RESOURCE_MAP(X)
#undef X
};
