// Finding: what `ringctl doctor` says about one thing that it checked.
//
// Pure values and functions.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_FINDING_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_FINDING_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/status/exit_code.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

enum class Level { kOk, kWarning, kFailure };

struct Finding {
  std::string check;  // what was looked at: "cores"
  Level level = Level::kOk;
  std::string what;    // what was found
  std::string why;     // what comes of it; "" with kOk
  std::string remedy;  // what to do; "" with kOk
  // The exit code of a program that meets a failure like this.
  ExitCode code = ExitCode::kUsage;

  friend bool operator==(const Finding&, const Finding&) = default;
};

[[nodiscard]] Finding Good(std::string_view check, std::string what);
[[nodiscard]] Finding Warn(std::string_view check, std::string what,
                           std::string why, std::string remedy);
[[nodiscard]] Finding Fail(std::string_view check, std::string what,
                           std::string why, std::string remedy,
                           ExitCode code = ExitCode::kUsage);

// Says that something cannot be found out here. It is no fault, so it is kOk.
[[nodiscard]] Finding NotKnown(std::string_view check, std::string_view why);

// kDone without a failure; else the least code of all failures, so that one
// that has to be corrected comes before one that may pass.
[[nodiscard]] ExitCode ExitCodeOfFindings(std::span<const Finding> findings);

// A line each, with why and remedy below it, and a line with the counts.
[[nodiscard]] std::vector<std::string> FindingLines(
    std::span<const Finding> findings, const Style& style);

// One document: {"findings": [...], "failures": N, "warnings": N}.
[[nodiscard]] std::string ToJson(std::span<const Finding> findings);
// The findings of such a document. DATA_LOSS: it is none.
[[nodiscard]] absl::StatusOr<std::vector<Finding>> FromJson(
    std::string_view json);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_FINDING_H_
