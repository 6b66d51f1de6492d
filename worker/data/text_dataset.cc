#include "worker/data/text_dataset.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

// Files are read in pieces of this size.
constexpr int64_t kReadBytes = int64_t{1} << 20;

absl::Status PathError(const fs::path& path, int error) {
  const std::string message = absl::StrCat(
      "data.path: cannot read ", path.string(), ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

absl::Status CheckNotCancelled(const CancelToken* cancel) {
  return cancel == nullptr ? absl::OkStatus() : cancel->status();
}

// The regular files at or below `root`, in the order of their relative paths.
absl::StatusOr<std::vector<fs::path>> ListFiles(const fs::path& root,
                                                const CancelToken* cancel) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::regular)
    return std::vector<fs::path>{root};
  if (status.type() == fs::file_type::not_found) return PathError(root, ENOENT);
  if (error) return PathError(root, error.value());
  if (status.type() != fs::file_type::directory) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.path: ", root.string(),
                     " is neither a regular file nor a directory"));
  }
  std::vector<std::pair<std::string, fs::path>> found;  // relative path, path
  fs::recursive_directory_iterator it(root, error);
  while (!error && it != fs::recursive_directory_iterator()) {
    RETURN_IF_ERROR(CheckNotCancelled(cancel));
    std::error_code entry_error;
    if (it->is_regular_file(entry_error))
      found.emplace_back(it->path().lexically_relative(root).string(),
                         it->path());
    // A link whose target is gone is as little a regular file as a socket is;
    // anything else must not pass unseen.
    if (entry_error && entry_error != std::errc::no_such_file_or_directory) {
      return PathError(it->path(), entry_error.value());
    }
    it.increment(error);
  }
  if (error) return PathError(root, error.value());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> files;
  files.reserve(found.size());
  for (auto& [relative, path] : found) files.push_back(std::move(path));
  return files;
}

// Joins files into one sequence of bytes, which may become `max_bytes` long.
class FileJoiner {
 public:
  FileJoiner(const DataConfig& config, const CancelToken* cancel)
      : config_(config), cancel_(cancel), piece_(kReadBytes) {}

  // INVALID_ARGUMENT once there are more than max_bytes; ABORTED once it was
  // cancelled.
  absl::Status Append(const fs::path& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return PathError(path, errno);
    const absl::Cleanup close_file = [fd] { close(fd); };
    while (true) {
      RETURN_IF_ERROR(CheckNotCancelled(cancel_));
      const ssize_t count = read(fd, piece_.data(), piece_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return PathError(path, errno);
      if (count == 0) return absl::OkStatus();
      if (static_cast<int64_t>(bytes_.size()) + count > config_.max_bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "data.path: ", config_.path, " holds more than data.max_bytes = ",
            config_.max_bytes, " bytes; raise the limit or name less data"));
      }
      bytes_.insert(bytes_.end(), piece_.begin(), piece_.begin() + count);
    }
  }

  std::vector<uint8_t> TakeBytes() {
    bytes_.shrink_to_fit();
    return std::move(bytes_);
  }

 private:
  const DataConfig& config_;
  const CancelToken* const cancel_;
  std::vector<uint8_t> piece_;  // of a file, as read
  std::vector<uint8_t> bytes_;
};

class TextDataset final : public Dataset {
 public:
  TextDataset(const DataConfig& config, int64_t held_out_bytes,
              std::vector<uint8_t> bytes)
      : shape_(config.shape),
        train_bytes_(static_cast<int64_t>(bytes.size()) - held_out_bytes),
        held_out_bytes_(held_out_bytes),
        fingerprint_(XXH3_64bits(bytes.data(), bytes.size())),
        bytes_(std::move(bytes)) {}

  int64_t size(Split split) const override {
    const int64_t bytes =
        split == Split::kTrain ? train_bytes_ : held_out_bytes_;
    // The byte after a sample's last is a target too.
    return bytes <= shape_.tokens ? 0
                                  : (bytes - 1 - shape_.tokens) / stride() + 1;
  }
  const SampleShape& shape() const override { return shape_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status FillBatch(Split split, absl::Span<const int64_t> ids,
                         Batch& batch) const override {
    RETURN_IF_ERROR(PrepareBatch(*this, split, ids, batch));
    const int64_t first = split == Split::kTrain ? 0 : train_bytes_;
    int32_t* input = batch.mutable_inputs().data();
    int32_t* target = batch.mutable_targets().data();
    for (const int64_t id : ids) {
      const uint8_t* sample = bytes_.data() + first + id * stride();
      input = std::copy_n(sample, shape_.tokens, input);
      target = std::copy_n(sample + shape_.tokens + 1 - shape_.targets,
                           shape_.targets, target);
    }
    return absl::OkStatus();
  }

 private:
  // From one sample to the next: so that each byte is a target once an epoch.
  int64_t stride() const { return shape_.targets; }

  SampleShape shape_;
  int64_t train_bytes_;
  int64_t held_out_bytes_;
  uint64_t fingerprint_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateTextDataset(
    const DataConfig& config, const CancelToken* cancel) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> files,
                   ListFiles(config.path, cancel));
  FileJoiner joiner(config, cancel);
  for (const fs::path& file : files) RETURN_IF_ERROR(joiner.Append(file));
  std::vector<uint8_t> bytes = joiner.TakeBytes();
  const auto size = static_cast<int64_t>(bytes.size());
  const auto held_out =
      static_cast<int64_t>(static_cast<double>(size) * config.eval_fraction);
  if (size - held_out <= config.shape.tokens) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data.path: ", config.path, " holds ", size, " bytes, of which ",
        size - held_out, " are for training; one sample needs ",
        config.shape.tokens + 1,
        " (the model's window and the byte that follows)"));
  }
  return std::make_unique<TextDataset>(config, held_out, std::move(bytes));
}

}  // namespace ringmaster
