#include "worker/agent/rpc/worker_identity.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ringmaster {

absl::StatusOr<ProcessEnd> ParsePredecessor(std::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ':');
  ProcessEnd end;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &end.pid) ||
      !absl::SimpleAtoi(parts[1], &end.exit_code) ||
      !absl::SimpleAtoi(parts[2], &end.signal) || end.pid < 1 ||
      end.exit_code < 0 || end.exit_code > 255 || end.signal < 0 ||
      end.signal > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat(kPredecessorVariable,
                     " must be PID:EXIT_CODE:SIGNAL, as in 4711:0:9; got '",
                     std::string(text), "'"));
  }
  return end;
}

}  // namespace ringmaster
