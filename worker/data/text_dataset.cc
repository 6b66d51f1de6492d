#include "worker/data/text_dataset.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "worker/data/bpe_tokenizer.h"
#include "worker/data/content_hash.h"
#include "worker/data/data_file.h"
#include "worker/data/list_files.h"
#include "worker/data/window_dataset.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

// Files are read, and text is encoded, in pieces of this size.
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int64_t kByteTokens = 256;

// Joins files into one sequence of bytes, which may become `max_bytes` long.
class FileJoiner {
 public:
  FileJoiner(const DataConfig& config, const CancelToken* cancel)
      : config_(config), cancel_(cancel), piece_(kPieceBytes) {}

  // INVALID_ARGUMENT once there are more than max_bytes; ABORTED once it was
  // cancelled.
  absl::Status Append(const fs::path& path) {
    const UniqueFd fd = ProcessFiles().OpenFile(path.string(), O_RDONLY);
    if (!fd.is_open()) return Error(path, errno);
    ContentHash hash;
    const size_t begin = bytes_.size();
    while (true) {
      RETURN_IF_ERROR(CheckNotCancelled(cancel_));
      const ssize_t count = read(fd.get(), piece_.data(), piece_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Error(path, errno);
      if (count == 0) break;
      if (static_cast<int64_t>(bytes_.size()) + count > config_.max_bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "data.path: ", config_.path, " holds more than data.max_bytes = ",
            config_.max_bytes, " bytes; raise the limit or name less data"));
      }
      bytes_.insert(bytes_.end(), piece_.begin(), piece_.begin() + count);
      hash.Add(piece_.data(), static_cast<size_t>(count));
    }
    files_.push_back({path.string(),
                      static_cast<int64_t>(bytes_.size() - begin),
                      hash.Digest()});
    return absl::OkStatus();
  }

  std::vector<uint8_t> TakeBytes() {
    bytes_.shrink_to_fit();
    return std::move(bytes_);
  }
  std::vector<HashedFile> TakeFiles() { return std::move(files_); }

 private:
  static absl::Status Error(const fs::path& path, int error) {
    return Annotate(FileError(path.string(), error), "data.path");
  }

  const DataConfig& config_;
  const CancelToken* const cancel_;
  std::vector<uint8_t> piece_;  // of a file, as read
  std::vector<uint8_t> bytes_;
  std::vector<HashedFile> files_;
};

// The data set of `tokens`, which it keeps; they were made from `sources`.
template <typename T>
absl::StatusOr<std::unique_ptr<Dataset>> FromTokens(
    const DataConfig& config, const std::string& unit, std::vector<T> tokens,
    std::vector<HashedFile> sources, const CancelToken* cancel) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(tokens));
  TokenContents<T> contents;
  contents.training.push_back({config.path, *owner});
  contents.sources = std::move(sources);
  contents.owner = std::move(owner);
  return CreateWindowDataset(config, unit, std::move(contents), cancel);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Dataset>> FromEncodedText(
    const DataConfig& config, const BpeTokenizer& tokenizer, FileJoiner& joiner,
    const CancelToken* cancel) {
  std::vector<uint8_t> bytes = joiner.TakeBytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                        bytes.size());
  std::vector<T> tokens;
  std::vector<int32_t> piece;
  while (!text.empty()) {
    RETURN_IF_ERROR(CheckNotCancelled(cancel));
    piece.clear();
    text.remove_prefix(tokenizer.EncodeSome(text, kPieceBytes, piece));
    tokens.insert(tokens.end(), piece.begin(), piece.end());
  }
  tokens.shrink_to_fit();
  bytes = {};
  return FromTokens(config, "tokens", std::move(tokens), joiner.TakeFiles(),
                    cancel);
}

// Loaded first: a wrong path should not be found out after a long read.
absl::StatusOr<std::unique_ptr<BpeTokenizer>> LoadTokenizer(
    const DataConfig& config) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<BpeTokenizer> tokenizer,
      BpeTokenizer::Load(config.vocabulary_path, config.merges_path));
  // A model may have more, as is done to round the number up.
  if (tokenizer->vocabulary() > config.vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.vocabulary_path: ", config.vocabulary_path, " has ",
                     tokenizer->vocabulary(), " tokens, but the model takes ",
                     config.vocabulary));
  }
  return tokenizer;
}

absl::Status CheckTakesBytes(const DataConfig& config) {
  if (config.vocabulary >= kByteTokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.path: the bytes of a text are ", kByteTokens,
      " different tokens, but the model takes ", config.vocabulary));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateTextDataset(
    const DataConfig& config, const CancelToken* cancel) {
  std::unique_ptr<BpeTokenizer> tokenizer;
  if (config.vocabulary_path.empty()) {
    RETURN_IF_ERROR(CheckTakesBytes(config));
  } else {
    ASSIGN_OR_RETURN(tokenizer, LoadTokenizer(config));
  }
  absl::StatusOr<std::vector<fs::path>> files = ListTree(config.path, cancel);
  if (!files.ok()) return Annotate(files.status(), "data.path");
  FileJoiner joiner(config, cancel);
  for (const fs::path& file : *files) RETURN_IF_ERROR(joiner.Append(file));
  if (tokenizer == nullptr)
    return FromTokens(config, "bytes", joiner.TakeBytes(), joiner.TakeFiles(),
                      cancel);
  if (tokenizer->vocabulary() <= std::numeric_limits<uint16_t>::max() + 1)
    return FromEncodedText<uint16_t>(config, *tokenizer, joiner, cancel);
  return FromEncodedText<int32_t>(config, *tokenizer, joiner, cancel);
}

}  // namespace ringmaster
