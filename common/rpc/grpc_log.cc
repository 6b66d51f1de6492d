#include "common/rpc/grpc_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/logging/logging.h"

namespace ringmaster {
namespace {

void Log(gpr_log_func_args* args) {
  LogEvent(
      LogLevel::kDebug, "grpc",
      {{"file", args->file}, {"line", args->line}, {"message", args->message}});
}

constexpr absl::Duration kProtobufInterval = absl::Seconds(10);

void LogProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                 const std::string& message) {
  static std::atomic<int64_t> next_nanos = 0;
  static std::atomic<int64_t> left_out = 0;
  const MonotonicTime now = Clock::Real().Now();
  int64_t next = next_nanos.load();
  // One that ends the process is not left out.
  if (level != google::protobuf::LOGLEVEL_FATAL &&
      (now.nanos() < next || !next_nanos.compare_exchange_strong(
                                 next, (now + kProtobufInterval).nanos()))) {
    ++left_out;
    return;
  }
  LogEvent(LogLevel::kWarning, "protobuf",
           {{"file", file},
            {"line", line},
            {"left_out", left_out.exchange(0)},
            {"message", message}});
}

}  // namespace

void RedirectGrpcLog() {
  google::protobuf::SetLogHandler(&LogProtobuf);
  gpr_set_log_function(&Log);
  // Takes GRPC_VERBOSITY or, without it, errors only. Otherwise lines before gRPC's own start would be lost.
  gpr_log_verbosity_init();
}

}  // namespace ringmaster
