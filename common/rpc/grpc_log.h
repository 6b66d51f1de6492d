// RedirectGrpcLog sends the logs of gRPC and of protobuf to ours.
#ifndef RINGMASTER_COMMON_RPC_GRPC_LOG_H_
#define RINGMASTER_COMMON_RPC_GRPC_LOG_H_

namespace ringmaster {

// Sends gRPC's own lines to LogEvent as `grpc`, at level debug: anything
// important in them also reaches us as a status, which is reported once, where
// it is handled. Protobuf's become `protobuf`, at level warning, and at most one
// in ten seconds: it writes one for each field of a message that is not UTF-8,
// so that a stranger could fill a disk. To be called at the start of main, before gRPC is used.
void RedirectGrpcLog();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_GRPC_LOG_H_
