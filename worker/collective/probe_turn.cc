#include "worker/collective/probe_turn.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/status/check.h"

namespace ringmaster {

std::optional<ProbeTurn> ProbeTurn::Take(std::string_view name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return ProbeTurn(UniqueFd());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // The first byte of an abstract name is 0.
  RM_CHECK(name.size() < sizeof(address.sun_path), "a name that fits");
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) !=
          0 &&
      errno == EADDRINUSE) {
    return std::nullopt;
  }
  return ProbeTurn(std::move(socket));
}

}  // namespace ringmaster
