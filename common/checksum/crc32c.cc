#include "common/checksum/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace ringmaster {
namespace {

// 0x1EDC6F41 with its bits in reverse order: the highest bit of a remainder
// stands for x^0.
constexpr uint32_t kReflectedPolynomial = 0x82F63B78;

using Table = std::array<uint32_t, 256>;

// Table 0: entry b is the remainder of the byte b followed by 32 zero bits.
// Table k: the same with k zero bytes more.
constexpr std::array<Table, 8> MakeByteTables() {
  std::array<Table, 8> tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder =
          (remainder >> 1) ^ ((remainder & 1) != 0 ? kReflectedPolynomial : 0);
    }
    tables[0][byte] = remainder;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kByteTables = MakeByteTables();

// Eight bytes, little endian.
inline uint64_t Word(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  if constexpr (std::endian::native == std::endian::big)
    word = __builtin_bswap64(word);
  return word;
}

uint32_t AddByte(uint32_t remainder, std::byte byte) {
  const auto index =
      static_cast<uint8_t>(remainder ^ static_cast<uint8_t>(byte));
  return (remainder >> 8) ^ kByteTables[0][index];
}

uint32_t AddByTables(uint32_t remainder, std::span<const std::byte> bytes) {
  while (bytes.size() >= 8) {
    const uint64_t next = Word(bytes.data()) ^ remainder;
    remainder = 0;
    for (size_t i = 0; i < 8; ++i)
      remainder ^= kByteTables[7 - i][(next >> (8 * i)) & 0xff];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) remainder = AddByte(remainder, byte);
  return remainder;
}

#if defined(__x86_64__)

// The product of two remainders.
constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kReflectedPolynomial : 0);
  }
  return product;
}

// x to the power of `exponent`.
constexpr uint32_t PowerOfX(uint64_t exponent) {
  uint32_t power = uint32_t{1} << 31;
  uint32_t square = uint32_t{1} << 30;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = Multiply(power, square);
    square = Multiply(square, square);
  }
  return power;
}

// Takes a remainder over `kBytes` zero bytes, by the bytes of the remainder.
template <size_t kBytes>
struct Skip {
  static constexpr std::array<Table, 4> MakeTables() {
    std::array<Table, 4> tables = {};
    for (size_t k = 0; k < tables.size(); ++k) {
      for (uint32_t byte = 0; byte < 256; ++byte)
        tables[k][byte] = Multiply(byte << (8 * k), PowerOfX(8 * kBytes));
    }
    return tables;
  }
  static constexpr std::array<Table, 4> kTables = MakeTables();

  static uint32_t Over(uint32_t remainder) {
    return kTables[0][remainder & 0xff] ^ kTables[1][(remainder >> 8) & 0xff] ^
           kTables[2][(remainder >> 16) & 0xff] ^ kTables[3][remainder >> 24];
  }
};

// Takes blocks of three parts of kPart bytes each off `bytes`.
template <size_t kPart>
[[gnu::target("sse4.2")]] uint64_t AddBlocks(
    uint64_t remainder, std::span<const std::byte>& bytes) {
  static_assert(kPart % 8 == 0);
  while (bytes.size() >= 3 * kPart) {
    const std::byte* const at = bytes.data();
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      remainder = __builtin_ia32_crc32di(remainder, Word(at + i));
      second = __builtin_ia32_crc32di(second, Word(at + kPart + i));
      third = __builtin_ia32_crc32di(third, Word(at + 2 * kPart + i));
    }
    const uint32_t first_two =
        Skip<kPart>::Over(static_cast<uint32_t>(remainder)) ^
        static_cast<uint32_t>(second);
    remainder = Skip<kPart>::Over(first_two) ^ static_cast<uint32_t>(third);
    bytes = bytes.subspan(3 * kPart);
  }
  return remainder;
}

[[gnu::target("sse4.2")]] uint32_t AddByInstruction(
    uint32_t first, std::span<const std::byte> bytes) {
  uint64_t remainder = first;
  remainder = AddBlocks<4096>(remainder, bytes);
  remainder = AddBlocks<256>(remainder, bytes);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8))
    remainder = __builtin_ia32_crc32di(remainder, Word(bytes.data()));
  auto rest = static_cast<uint32_t>(remainder);
  for (const std::byte byte : bytes)
    rest = __builtin_ia32_crc32qi(rest, std::to_integer<uint8_t>(byte));
  return rest;
}

#endif  // defined(__x86_64__)

}  // namespace

uint32_t ExtendCrc32cByTables(uint32_t crc, std::span<const std::byte> more) {
  return ~AddByTables(~crc, more);
}

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> more) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) [[likely]]
    return ~AddByInstruction(~crc, more);
#endif
  return ExtendCrc32cByTables(crc, more);
}

}  // namespace ringmaster
