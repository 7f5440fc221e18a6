/*
 * units.h - sizes of memory in bytes, as whole numbers and as factors of floating point.
 *
 * The trap: AW_MIB is an int64_t. Divide by AW_MIB_REAL where a share of a MiB matters.
 */
#ifndef AW_BASE_UNITS_H
#define AW_BASE_UNITS_H

#include <stdint.h>

#define AW_KIB (INT64_C(1) << 10)
#define AW_MIB (INT64_C(1) << 20)
#define AW_GIB (INT64_C(1) << 30)

#define AW_KIB_REAL 0x1p10
#define AW_MIB_REAL 0x1p20
#define AW_GIB_REAL 0x1p30

#endif
