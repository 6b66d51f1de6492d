// HostPort: `host:port` and `[v6]:port`, parsed and checked; pure.
#ifndef RINGMASTER_COMMON_CONFIG_ADDRESS_H_
#define RINGMASTER_COMMON_CONFIG_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ringmaster {

struct HostPort {
  // A name, an IPv4 or an IPv6 address, without brackets.
  std::string host;
  // 0 to 65535; 0 stands for "any free port" where one listens.
  int port = 0;

  // `host:port`, with brackets around an IPv6 address.
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Parses `node-7:29400`, `10.0.0.7:29400` or `[fd00::7]:29400`.
// INVALID_ARGUMENT says what is wrong and shows the form to write. The host
// must not be empty: an address without one would listen everywhere by
// accident.
[[nodiscard]] absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Returns true if only this machine can reach a listener on `address`:
// 127.0.0.0/8, ::1, `localhost` (with or without a port), `unix:` and
// `unix-abstract:` sockets. False for other names, which are not resolved.
[[nodiscard]] bool IsLoopback(std::string_view address);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_ADDRESS_H_
