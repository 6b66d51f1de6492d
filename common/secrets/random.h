// Random numbers that nobody can guess, for incarnations, keys and secrets.
// Thread-safe.
#ifndef RINGMASTER_COMMON_SECRETS_RANDOM_H_
#define RINGMASTER_COMMON_SECRETS_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringmaster {

// The length of a key or token: 256 bits.
inline constexpr size_t kKeyBytes = 32;

// From getrandom(2). Ends the process if the kernel has none, which does not
// happen after boot.
[[nodiscard]] std::string RandomBytes(size_t count);
// Never 0.
[[nodiscard]] uint64_t RandomIncarnation();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_SECRETS_RANDOM_H_
