#include "common/job/spec_errors.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/reason.h"

namespace ringmaster {
namespace {

constexpr size_t kMaxReportedErrors = 10;

}  // namespace

absl::Status SpecErrors::ToStatus() const {
  if (texts_.empty()) return absl::OkStatus();
  std::vector<std::string> shown = texts_;
  if (shown.size() > kMaxReportedErrors) {
    shown.resize(kMaxReportedErrors);
    shown.push_back(
        absl::StrCat("and ", texts_.size() - kMaxReportedErrors, " more"));
  }
  return WithReason(absl::InvalidArgumentError(absl::StrJoin(shown, "; ")),
                    reason::kInvalidJobSpec);
}

}  // namespace ringmaster
