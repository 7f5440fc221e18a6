/* orders.c - names of orders. */
#include "safety/orders.h"

const char *aw_order_name(uint32_t kind)
{
    static const char *const names[] = {
#define X(id, name, sentence) name,
        AW_ORDER_MAP(X)
#undef X
    };
    return kind < AW_ORDER_COUNT ? names[kind] : NULL;
}

const char *aw_order_sentence(uint32_t kind)
{
    static const char *const sentences[] = {
#define X(id, name, sentence) sentence,
        AW_ORDER_MAP(X)
#undef X
    };
    return kind < AW_ORDER_COUNT ? sentences[kind] : NULL;
}
