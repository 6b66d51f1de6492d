// Random numbers that nobody can guess, for incarnations and secrets.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_RANDOM_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringmaster::coordinator {

// From getrandom(2). Ends the process if the kernel has none, which does not
// happen after boot.
[[nodiscard]] std::string RandomBytes(size_t count);
// Never 0.
[[nodiscard]] uint64_t RandomIncarnation();

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_RANDOM_H_
