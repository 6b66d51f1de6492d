// Little-endian integers in byte arrays, whatever the host's own order and
// alignment.
#ifndef RINGMASTER_COMMON_TRANSPORT_LITTLE_ENDIAN_H_
#define RINGMASTER_COMMON_TRANSPORT_LITTLE_ENDIAN_H_

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ringmaster {

// Writes `value` at `to`, which has room for sizeof(T) bytes.
template <std::unsigned_integral T>
void StoreLittleEndian(T value, std::byte* to) {
  for (size_t i = 0; i < sizeof(T); ++i)
    to[i] = static_cast<std::byte>(value >> (8 * i));
}

// Reads sizeof(T) bytes at `from`.
template <std::unsigned_integral T>
[[nodiscard]] T LoadLittleEndian(const std::byte* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  }
  return static_cast<T>(value);
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_LITTLE_ENDIAN_H_
