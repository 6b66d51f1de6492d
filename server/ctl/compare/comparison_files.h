// The files of a comparison: report.html, comparison.json and an SVG file a
// chart, in one directory.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_FILES_H_
#define RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

inline constexpr const char* kReportFile = "report.html";

// Makes `directory` if it is missing, and checks that files can be written
// there. INVALID_ARGUMENT names the flag --out and what the system says.
[[nodiscard]] absl::Status MakeOutDirectory(const std::string& directory);

// Writes them anew: each is whole or not there. UNAVAILABLE names the file and
// what the system says.
[[nodiscard]] absl::Status WriteComparison(const Comparison& comparison,
                                           const std::string& directory);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_FILES_H_
