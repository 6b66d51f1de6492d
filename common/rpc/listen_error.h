// The reason why a gRPC server could not listen at an address.
#ifndef RINGMASTER_COMMON_RPC_LISTEN_ERROR_H_
#define RINGMASTER_COMMON_RPC_LISTEN_ERROR_H_

#include "absl/status/status.h"
#include "common/config/address.h"

namespace ringmaster {

// FAILED_PRECONDITION, with the reason: taken, not an address of this host, not
// permitted. gRPC only logs it, so this tries once more to find out.
[[nodiscard]] absl::Status CannotListen(const HostPort& address);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_LISTEN_ERROR_H_
