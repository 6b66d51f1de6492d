#include "worker/figures/crc32c.h"

#include <array>

namespace ringmaster {
namespace {

// 0x1EDC6F41 with its bits in reverse order.
constexpr uint32_t kReflectedPolynomial = 0x82F63B78;

// Entry b is the remainder of the byte b followed by 32 zero bits.
constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder =
          (remainder >> 1) ^ ((remainder & 1) != 0 ? kReflectedPolynomial : 0);
    }
    table[byte] = remainder;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t remainder = ~uint32_t{0};
  for (const char byte : bytes) {
    const auto index =
        static_cast<uint8_t>(remainder ^ static_cast<uint8_t>(byte));
    remainder = (remainder >> 8) ^ kTable[index];
  }
  return ~remainder;
}

}  // namespace ringmaster
