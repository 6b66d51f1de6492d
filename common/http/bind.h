// Bind: an HTTP server (cpp-httplib) on an address of ours.
#ifndef RINGMASTER_COMMON_HTTP_BIND_H_
#define RINGMASTER_COMMON_HTTP_BIND_H_

#include <httplib.h>

#include "absl/status/statusor.h"
#include "common/config/address.h"

namespace ringmaster {

// Binds `server` to `address` (port 0: any free one), the first one that a name has, and
// returns where it will listen. A port that is in use is refused, one in TIME_WAIT is
// not, as with gRPC's servers.
//   FAILED_PRECONDITION  cannot listen there, with the reason
[[nodiscard]] absl::StatusOr<HostPort> Bind(const HostPort& address,
                                            httplib::Server& server);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_HTTP_BIND_H_
