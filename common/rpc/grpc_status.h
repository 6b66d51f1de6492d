// Translates between absl::Status with a Reason and grpc::Status, at the
// adapters.
//
// On the wire the reason is a ringmaster.v1.ErrorInfo inside a
// ringmaster.v1.ErrorStatus, in the trailer `grpc-status-details-bin`, whose
// bytes equal google.rpc.Status (AIP-193). Free of gRPC's headers.
#ifndef RINGMASTER_COMMON_RPC_GRPC_STATUS_H_
#define RINGMASTER_COMMON_RPC_GRPC_STATUS_H_

#include "absl/status/status.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace ringmaster {

// Keeps code, message and reason; other payloads stay behind. Messages longer
// than 2,000 bytes are cut, since trailers beyond gRPC's limit (8 KiB by
// default) would hide the error.
[[nodiscard]] grpc::Status ToGrpcStatus(const absl::Status& status);

// Keeps code, message and reason. Trailers that are not ours, or not well
// formed, are ignored.
[[nodiscard]] absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_GRPC_STATUS_H_
