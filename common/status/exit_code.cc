#include "common/status/exit_code.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"

namespace ringmaster {
namespace {
constexpr char kExitCodeUrl[] = "ringmaster.v1/exit_code";
constexpr char kOfJobUrl[] = "ringmaster.v1/of_job";
}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kDone;
  if (const absl::optional<absl::Cord> payload =
          status.GetPayload(kExitCodeUrl);
      payload.has_value()) {
    int code = 0;
    if (absl::SimpleAtoi(std::string(*payload), &code))
      return static_cast<ExitCode>(code);
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return ExitCode::kUsage;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kCheckpointCorrupt;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kRetryElsewhere;
    case absl::StatusCode::kCancelled:
      return ExitCode::kStopped;
    default:
      return ExitCode::kInternal;
  }
}

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  if (!status.ok()) {
    status.SetPayload(kExitCodeUrl,
                      absl::Cord(absl::StrCat(static_cast<int>(code))));
  }
  return status;
}

absl::Status OfJob(absl::Status status) {
  if (!status.ok()) status.SetPayload(kOfJobUrl, absl::Cord());
  return status;
}

bool IsOfJob(const absl::Status& status) {
  return status.GetPayload(kOfJobUrl).has_value();
}

std::string ExitCodeTable() {
  std::string table;
  for (const auto& [code, meaning] : kExitCodes) {
    absl::StrAppendFormat(&table, "  %3d  %s\n", static_cast<int>(code),
                          absl::string_view(meaning.data(), meaning.size()));
  }
  return table;
}

}  // namespace ringmaster
