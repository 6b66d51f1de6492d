#include "worker/data/token_file_dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "worker/data/list_files.h"
#include "worker/data/token_file.h"
#include "worker/data/window_dataset.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using Contents = TokenContents<uint16_t>;

TokenFormat FormatOf(const DataConfig& config) {
  if (config.token_format == "llm.c") return TokenFormat::kLlmC;
  if (config.token_format == "raw") return TokenFormat::kRaw;
  return TokenFormat::kDetect;
}

absl::StatusOr<std::vector<fs::path>> List(const char* field,
                                           const std::string& path) {
  absl::StatusOr<std::vector<fs::path>> files = ListDirectory(path, ".bin");
  if (!files.ok()) return Annotate(files.status(), field);
  return files;
}

// Returns true if both names are of one file. If one cannot be seen, opening it will tell.
bool IsSame(const fs::path& a, const fs::path& b) {
  struct stat of_a = {};
  struct stat of_b = {};
  return ProcessFiles().Stat(a.string(), of_a) == 0 &&
         ProcessFiles().Stat(b.string(), of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// Removes from `files` those that `others` has too, under whatever name.
void RemoveSame(const std::vector<fs::path>& others,
                std::vector<fs::path>& files) {
  const auto is_other = [&others](const fs::path& file) {
    return std::any_of(others.begin(), others.end(),
                       [&](const fs::path& o) { return IsSame(file, o); });
  };
  files.erase(std::remove_if(files.begin(), files.end(), is_other),
              files.end());
}

// Opens `paths`, keeping the files in `owned`.
absl::Status OpenFiles(const char* field, const std::vector<fs::path>& paths,
                       TokenFormat format, std::vector<TokenFile>& owned,
                       std::vector<Contents::File>& files) {
  for (const fs::path& path : paths) {
    absl::StatusOr<TokenFile> file = TokenFile::Open(path.string(), format);
    if (!file.ok()) return Annotate(file.status(), field);
    owned.push_back(*std::move(file));
    files.push_back({absl::StrCat(field, ": ", path.string()),
                     owned.back().tokens(), path.string(),
                     owned.back().size_bytes()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateTokenFileDataset(
    const DataConfig& config, const CancelToken* cancel) {
  ASSIGN_OR_RETURN(std::vector<fs::path> training,
                   List("data.path", config.path));
  std::vector<fs::path> evaluation;
  if (!config.evaluation_path.empty()) {
    ASSIGN_OR_RETURN(evaluation,
                     List("data.evaluation_path", config.evaluation_path));
    RemoveSame(evaluation, training);
    if (training.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data.path: ", config.path,
                       " has no tokens to train on but those that "
                       "data.evaluation_path names"));
    }
  }
  auto owned = std::make_shared<std::vector<TokenFile>>();
  Contents contents;
  const TokenFormat format = FormatOf(config);
  RETURN_IF_ERROR(
      OpenFiles("data.path", training, format, *owned, contents.training));
  RETURN_IF_ERROR(OpenFiles("data.evaluation_path", evaluation, format, *owned,
                            contents.evaluation));
  contents.owner = owned;
  // Once through all of it to check it, then samples here and there.
  for (const TokenFile& file : *owned)
    file.Expect(MappedFile::ReadOrder::kSequential);
  ASSIGN_OR_RETURN(
      std::unique_ptr<Dataset> dataset,
      CreateWindowDataset(config, "tokens", std::move(contents), cancel));
  for (const TokenFile& file : *owned)
    file.Expect(MappedFile::ReadOrder::kRandom);
  return dataset;
}

}  // namespace ringmaster
