#include "server/coordinator/rpc/job_spec_errors.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/reason.h"

namespace ringmaster::coordinator {
namespace {

constexpr size_t kMaxPathLength = 4096;
constexpr size_t kMaxReportedErrors = 10;

}  // namespace

void SpecErrors::RequireRange(const std::string& field, int64_t value,
                              int64_t low, int64_t high) {
  if (value < low) {
    Add(absl::StrCat(field, " must be at least ", low, ", got ", value));
  } else if (value > high) {
    Add(absl::StrCat(field, " must be at most ", high, ", got ", value));
  }
}

void SpecErrors::RequireKnown(bool is_known, const std::string& field,
                              const char* names, int number) {
  if (is_known) return;
  Add(absl::StrCat(field, " must be ", names, ", got ", number));
}

void SpecErrors::RequireThat(bool holds, const std::string& field,
                             const char* bounds, double value) {
  if (!holds) Add(absl::StrCat(field, " must be ", bounds, ", got ", value));
}

void SpecErrors::RequireAboveZero(const std::string& field, double value) {
  RequireThat(value > 0 && std::isfinite(value), field, "above 0 and finite",
              value);
}

void SpecErrors::RequireNotNegative(const std::string& field, double value) {
  RequireThat(value >= 0 && std::isfinite(value), field,
              "at least 0 and finite", value);
}

void SpecErrors::RequireBelowOne(const std::string& field, double value) {
  RequireThat(value >= 0 && value < 1, field, "at least 0 and below 1", value);
}

void SpecErrors::RequirePath(const std::string& field, const std::string& path,
                             const char* what) {
  if (path.empty()) Add(absl::StrCat(field, " must name ", what));
  RequirePathOrNone(field, path);
}

void SpecErrors::RequirePathOrNone(const std::string& field,
                                   const std::string& path) {
  if (path.size() > kMaxPathLength) {
    Add(absl::StrCat(field, " must have at most ", kMaxPathLength,
                     " bytes, got ", path.size()));
  } else if (path.find('\0') != std::string::npos) {
    Add(absl::StrCat(field, " must not contain a zero byte"));
  }
}

void SpecErrors::Take(const SpecErrors& other) {
  texts_.insert(texts_.end(), other.texts_.begin(), other.texts_.end());
}

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

}  // namespace ringmaster::coordinator
