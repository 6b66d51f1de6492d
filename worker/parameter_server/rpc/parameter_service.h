// ParameterServiceImpl serves a ParameterStore over gRPC: handlers parse and
// check, ask the store, and translate.
//
// Thread-safe; methods are called by gRPC, and wait for the store at most until
// the call's deadline, or kCallTimeout. Their number, time and memory have bounds
// (call_limits.h).
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_RPC_PARAMETER_SERVICE_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_RPC_PARAMETER_SERVICE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "ringmaster/v1/parameter_service.grpc.pb.h"
#include "worker/parameter_server/parameter_store.h"
#include "worker/parameter_server/rpc/call_limits.h"

namespace ringmaster {

class ParameterServiceImpl final : public v1::ParameterService::Service {
 public:
  static constexpr absl::Duration kCallTimeout = absl::Seconds(10);
  static constexpr int64_t kMaxChunkBytes = int64_t{1} << 20;
  // A push holds its elements until the last is there.
  static constexpr int64_t kMaxPushBytes = int64_t{1} << 30;

  // Both must outlive the server.
  ParameterServiceImpl(ParameterStore& store, Clock& clock,
                       const CallLimits::Values& limits = {})
      : store_(store), clock_(clock), limits_(limits) {}

  grpc::Status GetShards(grpc::ServerContext* context,
                         const v1::GetShardsRequest* request,
                         v1::GetShardsResponse* response) override;
  grpc::Status Pull(grpc::ServerContext* context,
                    const v1::PullRequest* request,
                    grpc::ServerWriter<v1::PullResponse>* writer) override;
  grpc::Status Push(grpc::ServerContext* context,
                    grpc::ServerReader<v1::PushRequest>* reader,
                    v1::PushResponse* response) override;

 private:
  // What a call asks for. All of it is here, so that nobody makes the limits count
  // elements that do not exist.
  [[nodiscard]] absl::StatusOr<std::vector<ElemRange>> RangesOf(
      const v1::PullRequest& request, MonotonicTime deadline);
  [[nodiscard]] MonotonicTime DeadlineOf(
      const grpc::ServerContext& context) const;

  ParameterStore& store_;
  Clock& clock_;
  CallLimits limits_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_RPC_PARAMETER_SERVICE_H_
