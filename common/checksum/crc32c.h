// Crc32c: the checksum of frames on the wire, and of records in some files.
//
// CRC-32 with Castagnoli's polynomial 0x1EDC6F41, bits reflected, all ones as
// initial value and final exclusive or; "123456789" gives 0xE3069283. Source:
// RFC 3720 (iSCSI), section 12.1, with test vectors in appendix B.4. It finds
// every error of up to 32 bits in a row, any 5 flipped bits in up to 655 bytes,
// any 3 in up to 256 MiB (Koopman 2002), and other damage except one in 2^32.
//
// On x86-64 with SSE 4.2 it uses the processor's instruction, on three parts of
// the bytes in turn, since one takes three cycles but another can begin in each:
// V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
// Instruction" (Intel, 2011). Elsewhere it uses eight tables: M. Kounavis and F.
// Berry, "Novel Table Lookup-Based Algorithms for High-Performance CRC
// Generation" (IEEE Transactions on Computers, 2008).
// Pure.
#ifndef RINGMASTER_COMMON_CHECKSUM_CRC32C_H_
#define RINGMASTER_COMMON_CHECKSUM_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ringmaster {

// Returns the checksum of some bytes, with checksum `crc` (0: there are none),
// followed by `more`.
[[nodiscard]] uint32_t ExtendCrc32c(uint32_t crc,
                                    std::span<const std::byte> more);

// The same by tables, on any processor.
[[nodiscard]] uint32_t ExtendCrc32cByTables(uint32_t crc,
                                            std::span<const std::byte> more);

[[nodiscard]] inline uint32_t Crc32c(std::span<const std::byte> bytes) {
  return ExtendCrc32c(0, bytes);
}
[[nodiscard]] inline uint32_t Crc32c(std::string_view bytes) {
  return ExtendCrc32c(0, std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CHECKSUM_CRC32C_H_
