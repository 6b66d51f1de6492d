#include "server/ctl/local/binaries.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;

// Returns the path where Bazel puts a binary, from the root of its outputs.
fs::path BazelPath(const std::string& name) {
  const fs::path own_package = fs::path(name) / name;
  return name == "worker" ? own_package : "server" / own_package;
}

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

BinaryPlaces OwnPlaces(const std::string& bin_dir) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  const char* runfiles = std::getenv("RUNFILES_DIR");
  return {.bin_dir = bin_dir,
          .own_path = own.string(),
          .runfiles_dir = runfiles == nullptr ? "" : runfiles};
}

absl::StatusOr<std::string> FindBinary(const std::string& name,
                                       const BinaryPlaces& places) {
  std::vector<fs::path> candidates;
  if (!places.bin_dir.empty()) {
    candidates = {fs::path(places.bin_dir) / name};
  } else {
    const fs::path own(places.own_path);
    const fs::path directory = own.parent_path();
    candidates = {
        directory / name,
        directory.parent_path().parent_path() / BazelPath(name),
        fs::path(own.string() + ".runfiles") / "ringmaster" / BazelPath(name)};
    if (!places.runfiles_dir.empty()) {
      candidates.push_back(fs::path(places.runfiles_dir) / "ringmaster" /
                           BazelPath(name));
    }
  }
  std::vector<std::string> tried;
  for (const fs::path& candidate : candidates) {
    if (IsProgram(candidate)) return candidate.string();
    tried.push_back(candidate.string());
  }
  return absl::NotFoundError(absl::StrCat(
      "cannot find the program ", name, " (looked for ",
      absl::StrJoin(tried, ", "), "): give its directory with --bin_dir"));
}

}  // namespace ringmaster::ctl
