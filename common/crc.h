/* crc.h - CRC-32C (Castagnoli), as in iSCSI (RFC 3720, appendix B.4) and ext4. */
#ifndef HILO_CRC_H
#define HILO_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from crc; 0 to begin with. crc32c(0, "123456789", 9) is 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *p, size_t len);

#endif
