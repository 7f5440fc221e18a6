/* crc32c.h - the Castagnoli checksum (RFC 3720 appendix B.4) of bytes in a file. Pure function. */
#ifndef AW_BASE_CRC32C_H
#define AW_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `size` bytes that follow those which gave `crc`; 0 to begin. */
uint32_t aw_crc32c(uint32_t crc, const void *bytes, size_t size);

/* The same without the instruction, for machines that lack it; a test compares the two. */
uint32_t aw__crc32c_portable(uint32_t crc, const void *bytes, size_t size);

#endif
