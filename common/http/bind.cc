#include "common/http/bind.h"

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/listen.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_address.h"

namespace ringmaster {
namespace {

void SetSocketOptions(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

}  // namespace

absl::StatusOr<HostPort> Bind(const HostPort& address,
                              httplib::Server& server) {
  // The library listens on one address.
  const absl::StatusOr<std::vector<SocketAddress>> resolved =
      Resolve(address.ToString());
  if (!resolved.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ",
                     std::string(resolved.status().message())));
  }
  ASSIGN_OR_RETURN(HostPort listening,
                   ParseHostPort(resolved->front().ToString()));
  server.set_socket_options(SetSocketOptions);
  if (listening.port == 0) {
    listening.port = server.bind_to_any_port(listening.host);
    if (listening.port <= 0) return CannotListen(address);
  } else if (!server.bind_to_port(listening.host, listening.port)) {
    return CannotListen(address);
  }
  return listening;
}

}  // namespace ringmaster
