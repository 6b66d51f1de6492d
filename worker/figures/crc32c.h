// Crc32c: the checksum of the records in a TensorBoard event file.
//
// CRC-32 with Castagnoli's polynomial 0x1EDC6F41, bits reflected, all ones as
// initial value and final exclusive or; "123456789" gives 0xE3069283. Source:
// RFC 3720 (iSCSI), section 12.1, with test vectors in appendix B.4. A table of
// 256 entries, about half a gigabyte a second: records are some hundred bytes.
// Pure.
#ifndef RINGMASTER_WORKER_FIGURES_CRC32C_H_
#define RINGMASTER_WORKER_FIGURES_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace ringmaster {

[[nodiscard]] uint32_t Crc32c(std::string_view bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_CRC32C_H_
