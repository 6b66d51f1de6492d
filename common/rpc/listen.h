// Listening sockets for servers of other libraries.
#ifndef RINGMASTER_COMMON_RPC_LISTEN_H_
#define RINGMASTER_COMMON_RPC_LISTEN_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/address.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

struct ListeningSockets {
  std::vector<UniqueFd> sockets = {};  // at least one; non-blocking
  int port = 0;                        // of all of them
};

// Listens on all addresses that `address` has, or on those of them that it can;
// 0.0.0.0 takes IPv6 as well, where there is any. Port 0: any free one.
//   FAILED_PRECONDITION  none of them, with the reason: taken, not an address
//                        of this host, not permitted
[[nodiscard]] absl::StatusOr<ListeningSockets> ListenOn(
    const HostPort& address);

// FAILED_PRECONDITION, with the reason why a server could not listen there that
// does not say so itself: this tries once more to find out.
[[nodiscard]] absl::Status CannotListen(const HostPort& address);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_LISTEN_H_
