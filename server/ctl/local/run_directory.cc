#include "server/ctl/local/run_directory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kMaxTailBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::string> MakeRunDirectory(const std::string& wanted,
                                             absl::Time now) {
  const std::string name =
      wanted.empty() ? absl::StrCat("ringmaster-run-",
                                    absl::FormatTime("%Y%m%d-%H%M%S", now,
                                                     absl::LocalTimeZone()))
                     : wanted;
  std::string path = name;
  std::error_code error;
  // Two runs may start within a second; the one that makes the directory has
  // it.
  for (int attempt = 2;
       wanted.empty() && !fs::create_directory(path, error) && !error;
       ++attempt) {
    path = absl::StrCat(name, "-", attempt);
  }
  if (!wanted.empty()) fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot make the directory ", path, " for the run's logs: ",
        error.message(), "; give another one with --run_dir"));
  }
  return path;
}

std::vector<std::string> LastLines(const std::string& path, int count) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kMaxTailBytes));
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<std::string> lines = absl::StrSplit(text.str(), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > static_cast<size_t>(count))
    lines.erase(lines.begin(), lines.end() - count);
  return lines;
}

}  // namespace ringmaster::ctl
