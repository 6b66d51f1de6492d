#include "worker/member/end_process.h"

#include <unistd.h>

#include <string>

#include "common/logging/logging.h"
#include "common/status/exit_code.h"

namespace ringmaster {

void EndProcess(const char* event, const absl::Status& why) {
  LogEvent(LogLevel::kError, event,
           {{"message", std::string(why.message())},
            {"exit_code", static_cast<int>(ExitCode::kRetryElsewhere)}});
  _exit(static_cast<int>(ExitCode::kRetryElsewhere));
}

}  // namespace ringmaster
