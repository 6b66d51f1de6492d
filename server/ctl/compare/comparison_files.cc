#include "server/ctl/compare/comparison_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "server/ctl/compare/comparison_charts.h"
#include "server/ctl/compare/comparison_json.h"
#include "server/ctl/compare/report.h"
#include "server/ctl/compare/svg_chart.h"

namespace ringmaster::ctl {
namespace {

// Under another name first: what is there stays whole.
absl::Status WriteFile(const std::string& path, std::string_view text) {
  const std::string part = path + ".part";
  errno = 0;
  std::ofstream file(part, std::ios::binary);
  file << text;
  file.close();
  if (file.good() && std::rename(part.c_str(), path.c_str()) == 0)
    return absl::OkStatus();
  const int error = errno;
  return absl::UnavailableError(
      absl::StrCat("cannot write the file ", path, ": ", std::strerror(error)));
}

}  // namespace

absl::Status MakeOutDirectory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error && ::access(directory.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out: cannot write to the directory ", directory, ": ",
                   error.message()));
}

absl::Status WriteComparison(const Comparison& comparison,
                             const std::string& directory) {
  RETURN_IF_ERROR(WriteFile(absl::StrCat(directory, "/comparison.json"),
                            ComparisonJson(comparison)));
  for (const NamedChart& chart : ChartsOf(comparison)) {
    RETURN_IF_ERROR(WriteFile(absl::StrCat(directory, "/", chart.name, ".svg"),
                              SvgFile(chart.svg)));
  }
  return WriteFile(absl::StrCat(directory, "/", kReportFile),
                   ReportHtml(comparison));
}

}  // namespace ringmaster::ctl
