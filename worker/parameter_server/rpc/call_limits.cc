#include "worker/parameter_server/rpc/call_limits.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/admission.h"
#include "common/logging/logging.h"

namespace ringmaster {

CallLimits::Call::Call(CallLimits& limits, const char* method,
                       const grpc::ServerContext& context)
    : limits_(limits), method_(method), address_(AddressOf(context)) {}

CallLimits::Call::~Call() {
  // The alarm may be ringing on another thread.
  if (context_ != nullptr) context_->Forget();
  MutexLock lock(limits_.mutex_);
  if (context_ != nullptr) --limits_.calls_;
  limits_.bytes_ -= bytes_;
}

absl::Status CallLimits::Call::Hold(int64_t bytes) {
  {
    MutexLock lock(limits_.mutex_);
    if (limits_.bytes_ == 0 ||
        bytes <= limits_.values_.bytes - limits_.bytes_) {
      limits_.bytes_ += bytes;
      bytes_ += bytes;
      return absl::OkStatus();
    }
  }
  return limits_.Refuse(
      *this, absl::StrCat("would make calls under way hold more than ",
                          limits_.values_.bytes, " bytes of elements"));
}

absl::StatusOr<std::unique_ptr<CallLimits::Call>> CallLimits::Begin(
    const char* method, grpc::ServerContext& context) {
  std::unique_ptr<Call> call(new Call(*this, method, context));
  {
    MutexLock lock(mutex_);
    if (calls_ < values_.calls) {
      ++calls_;
      call->context_ = std::make_shared<CallContext>(&context);
    }
  }
  if (call->context_ == nullptr) {
    return Refuse(*call,
                  absl::StrCat("would be one more than the ", values_.calls,
                               " that may be under way at once"));
  }
  call->too_long_.Set(
      std::chrono::system_clock::now() +
          absl::ToChronoMilliseconds(values_.time),
      [method = call->method_, address = call->address_,
       context = call->context_, is_cut = call->is_cut_,
       time = values_.time](bool is_due) {
        if (!is_due) return;
        is_cut->store(true);
        LogEvent(LogLevel::kWarning, "parameters.call_cut",
                 {{"method", method},
                  {"address", address},
                  {"message", absl::StrCat("it took more than ",
                                           absl::FormatDuration(time))}});
        context->TryCancel();
      });
  return call;
}

absl::Status CallLimits::Refuse(const Call& call, const std::string& why) {
  const absl::Status refusal = absl::ResourceExhaustedError(absl::StrCat(
      "the call from ", call.address_, " ", why, "; try again later"));
  refusals_.Add(call.method_, refusal);
  return refusal;
}

}  // namespace ringmaster
