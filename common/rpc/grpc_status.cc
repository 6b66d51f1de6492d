#include "common/rpc/grpc_status.h"

#include <grpcpp/support/status.h>

#include <string>

#include "common/status/reason.h"
#include "common/text/utf8.h"
#include "ringmaster/v1/error.pb.h"

namespace ringmaster {
namespace {

constexpr char kDomain[] = "ringmaster";
constexpr size_t kMaxMessageBytes = 2000;

// Both enumerations follow google.rpc.Code.
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));

std::string BoundedMessage(absl::string_view message) {
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  return BoundedUtf8({message.data(), message.size()}, kMaxMessageBytes) +
         "...";
}

std::string ReasonInTrailer(const std::string& trailer) {
  v1::ErrorStatus details;
  if (trailer.empty() || !details.ParseFromString(trailer)) return "";
  for (const auto& detail : details.details()) {
    v1::ErrorInfo info;
    if (detail.Is<v1::ErrorInfo>() && detail.UnpackTo(&info) &&
        info.domain() == kDomain) {
      return info.reason();
    }
  }
  return "";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message = BoundedMessage(status.message());
  const std::string reason = ReasonOf(status);
  if (reason.empty()) return grpc::Status(code, message);
  v1::ErrorStatus details;
  details.set_code(code);
  details.set_message(message);
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(kDomain);
  details.add_details()->PackFrom(info);
  return grpc::Status(code, message, details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
  const std::string reason = ReasonInTrailer(status.error_details());
  return reason.empty() ? result : WithReason(std::move(result), reason);
}

}  // namespace ringmaster
