#include "worker/nn/cuda/matmul_plan_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"

namespace ringmaster {

MatmulPlanFile::MatmulPlanFile(std::string_view directory, std::string gpu,
                               int64_t library_version)
    : directory_(directory) {
  plans_.gpu = std::move(gpu);
  plans_.library_version = library_version;
  if (directory_.empty()) return;
  path_ = absl::StrCat(directory_, "/",
                       MatmulPlansFileName(plans_.gpu, library_version));
  const absl::Status status = Read(&plans_);
  if (status.ok() || absl::IsNotFound(status)) return;
  LogEvent(LogLevel::kWarning, "matmul.plans_ignored",
           {{"path", path_}, {"error", status.message()}});
}

std::optional<MatmulAlgorithm> MatmulPlanFile::Find(
    const std::string& product) const {
  const auto found = plans_.algorithms.find(product);
  if (found == plans_.algorithms.end()) return std::nullopt;
  return found->second;
}

void MatmulPlanFile::Add(const std::string& product,
                         const MatmulAlgorithm& algorithm) {
  plans_.algorithms[product] = algorithm;
  if (path_.empty()) return;
  // Keeps what others have found in the meantime; a damaged file has nothing to
  // keep.
  MatmulPlans now = plans_;
  now.algorithms.clear();
  if (Read(&now).ok()) plans_.algorithms.merge(now.algorithms);
  const absl::Status status = Write();
  if (status.ok()) return;
  LogEvent(LogLevel::kWarning, "matmul.plans_not_written",
           {{"path", path_}, {"error", status.message()}});
  path_.clear();
}

// Adds what the file has to `plans`, which are of the same GPU and library.
absl::Status MatmulPlanFile::Read(MatmulPlans* plans) const {
  errno = 0;
  std::ifstream in(path_, std::ios::binary);
  std::stringstream text;
  if (in) text << in.rdbuf();
  // An empty file gives nothing to read either, but no error.
  if (!in || (!text && errno != 0))
    return absl::ErrnoToStatus(errno, "it cannot be read");
  ASSIGN_OR_RETURN(MatmulPlans read, ParseMatmulPlans(text.str()));
  if (read.gpu != plans->gpu ||
      read.library_version != plans->library_version) {
    return absl::DataLossError(absl::StrCat(
        "it is of ", read.gpu, " and library ", read.library_version));
  }
  plans->algorithms.merge(read.algorithms);
  return absl::OkStatus();
}

absl::Status MatmulPlanFile::Write() const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               "its directory cannot be created");
  }
  // Processes that share the directory, on one host or many, each have a name.
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const std::string part = absl::StrCat(path_, ".", host, ".", getpid());
  errno = 0;
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << FormatMatmulPlans(plans_);
  out.close();
  if (out && rename(part.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  const absl::Status status =
      absl::ErrnoToStatus(errno, "it cannot be written");
  unlink(part.c_str());
  return status;
}

}  // namespace ringmaster
