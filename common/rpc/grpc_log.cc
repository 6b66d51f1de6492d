#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "common/logging/logging.h"

namespace ringmaster {
namespace {

void Log(gpr_log_func_args* args) {
  LogEvent(
      LogLevel::kDebug, "grpc",
      {{"file", args->file}, {"line", args->line}, {"message", args->message}});
}

}  // namespace

void RedirectGrpcLog() {
  gpr_set_log_function(&Log);
  // Takes GRPC_VERBOSITY or, without it, errors only. Otherwise lines before gRPC's own start would be lost.
  gpr_log_verbosity_init();
}

}  // namespace ringmaster
