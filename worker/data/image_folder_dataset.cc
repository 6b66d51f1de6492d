#include "worker/data/image_folder_dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/plan/counter_random.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "common/sync/thread_pool.h"
#include "common/text/quoted.h"
#include "worker/data/content_hash.h"
#include "worker/data/data_file.h"
#include "worker/data/data_identity.h"
#include "worker/data/list_files.h"
#include "worker/data/permutation_sampler.h"
#include "worker/data/picture_crop.h"
#include "worker/data/picture_file.h"
#include "worker/data/picture_resize.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kExtensions = {".jpg", ".jpeg",
                                                         ".png"};
constexpr int64_t kMaxFileBytes = int64_t{1} << 28;
// Files that are decoded before an error of one of them ends the check.
constexpr int64_t kCheckedFiles = 256;
// A thread keeps this much room for pixels, 5 million in RGB; to get more anew
// for a larger picture takes little time beside decoding it.
constexpr size_t kKeptPixelBytes = size_t{16} << 20;

// Part the key space, so that crops and the held-out part draw from different
// streams.
constexpr uint64_t kCropStream = 1;
constexpr uint64_t kHeldOutStream = 2;
// One of a sample's draws; crops take the first ones.
constexpr uint64_t kFlipDraw = uint64_t{1} << 32;

struct LabelledFile {
  std::string path;
  int32_t label = 0;
  int64_t number = 0;  // in the order in which the files were listed
};

// A setting and what it names.
struct Root {
  const char* field;
  const std::string& path;
};

// A root's classes and files, in the order of names.
struct Folder {
  std::vector<std::string> classes;
  std::vector<LabelledFile> files;
};

bool IsPicture(const fs::path& path) {
  const std::string extension = path.extension().string();
  return std::any_of(
      kExtensions.begin(), kExtensions.end(), [&](std::string_view known) {
        return absl::EqualsIgnoreCase(extension, {known.data(), known.size()});
      });
}

// Whether a part of the path, below `directory`, begins with a dot.
bool IsHidden(const fs::path& path, const fs::path& directory) {
  const std::string name = path.lexically_relative(directory).string();
  return absl::StartsWith(name, ".") || absl::StrContains(name, "/.");
}

// Lists a root and hashes the names and sizes of what it finds.
class Lister {
 public:
  explicit Lister(const CancelToken* cancel) : cancel_(cancel) {}

  absl::StatusOr<Folder> List(const Root& root) {
    absl::StatusOr<Folder> folder = ListRoot(root.path);
    if (folder.ok() || absl::IsAborted(folder.status())) return folder;
    return Annotate(folder.status(), root.field);
  }
  // Tells what has been listed apart from the same without this file.
  void LeaveOut(int64_t number) {
    all_.Add(&number, sizeof number);
    uint64_t& hash = files_[static_cast<size_t>(number)].hash;
    hash = ~hash;
  }
  uint64_t fingerprint() const { return all_.Digest(); }
  v1::DataIdentity identity() const { return IdentityOf(files_); }

 private:
  absl::StatusOr<Folder> ListRoot(const fs::path& root) {
    Folder folder;
    ASSIGN_OR_RETURN(folder.classes, ListSubdirectories(root));
    if (folder.classes.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          root.string(), " has no subdirectories, which would be the classes"));
    }
    for (size_t label = 0; label < folder.classes.size(); ++label) {
      const fs::path directory = root / folder.classes[label];
      ASSIGN_OR_RETURN(const std::vector<fs::path> found,
                       ListTree(directory, cancel_));
      const size_t before = folder.files.size();
      for (const fs::path& path : found) {
        if (!IsPicture(path) || IsHidden(path, directory)) continue;
        folder.files.push_back({path.string(), static_cast<int32_t>(label),
                                static_cast<int64_t>(files_.size())});
        RETURN_IF_ERROR(Hash(root, path));
      }
      if (folder.files.size() == before) {
        return absl::InvalidArgumentError(
            absl::StrCat(directory.string(),
                         " has no .jpg, .jpeg or .png files: a class must have "
                         "some"));
      }
    }
    return folder;
  }

  absl::Status Hash(const fs::path& root, const fs::path& path) {
    RETURN_IF_ERROR(CheckNotCancelled(cancel_));
    struct stat info = {};
    if (ProcessFiles().Stat(path.string(), info) != 0)
      return FileError(path.string(), errno);
    const std::string name = path.lexically_relative(root).string();
    const int64_t size = info.st_size;
    ContentHash own;
    for (ContentHash* const hash : {&own, &all_}) {
      hash->Add(name.c_str(), name.size() + 1);
      hash->Add(&size, sizeof size);
    }
    files_.push_back({path.string(), size, own.Digest()});
    return absl::OkStatus();
  }

  const CancelToken* const cancel_;
  ContentHash all_;
  std::vector<HashedFile> files_;
};

// A file's pixels, and all that a thread needs to get at them.
struct Decoder {
  PicturePart part;
  ResizeScratch resize;
};

Decoder& ThreadsDecoder() {
  thread_local Decoder decoder;
  return decoder;
}

void FreeLarge(Decoder& decoder) {
  std::vector<uint8_t>& pixels = decoder.part.picture.pixels;
  if (pixels.capacity() > kKeptPixelBytes) std::vector<uint8_t>().swap(pixels);
}

class ImageFolderDataset final : public Dataset {
 public:
  explicit ImageFolderDataset(const DataConfig& config)
      : config_(config),
        size_({config.shape.height, config.shape.width}),
        channels_(config.shape.pixels / (size_.height * size_.width)),
        key_(CounterRandom(config.seed, kCropStream)),
        pool_(config.decode_threads) {}

  // Once, before all else.
  absl::Status Open(const CancelToken* cancel);

  int64_t size(Split split) const override {
    return static_cast<int64_t>(FilesOf(split).size());
  }
  const SampleShape& shape() const override { return config_.shape; }
  int64_t skipped_samples() const override { return skipped_; }
  bool decodes() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }
  v1::DataIdentity identity() const override { return identity_; }

  absl::Status FillBatch(Split split, absl::Span<const int64_t> ids,
                         Batch& batch) const override {
    return Fill(split, ids, {}, batch);
  }
  absl::Status FillTraining(absl::Span<const int64_t> ids,
                            absl::Span<const int64_t> epochs,
                            Batch& batch) const override {
    return Fill(Split::kTrain, ids, epochs, batch);
  }

 private:
  const std::vector<LabelledFile>& FilesOf(Split split) const {
    return split == Split::kTrain ? training_ : held_out_;
  }
  // Without `epochs` they are 0.
  absl::Status Fill(Split split, absl::Span<const int64_t> ids,
                    absl::Span<const int64_t> epochs, Batch& batch) const;
  // Calls decode(i) for each i in [0, count), by all threads; returns the error
  // of the smallest i.
  absl::Status ForEach(int64_t count,
                       absl::FunctionRef<absl::Status(int64_t)> decode) const;
  absl::Status Decode(const LabelledFile& file, bool is_random, uint64_t key,
                      uint8_t* out) const;
  absl::Status CheckClasses(const Folder& folder) const;
  absl::Status RemoveDamaged(const CancelToken* cancel, Lister& lister,
                             std::vector<LabelledFile>& files);
  void HoldOut();

  const DataConfig config_;
  const PictureSize size_;
  const int64_t channels_;
  const uint64_t key_;
  // Constant once opened.
  std::vector<LabelledFile> training_;
  std::vector<LabelledFile> held_out_;
  int64_t skipped_ = 0;
  uint64_t fingerprint_ = 0;
  v1::DataIdentity identity_;

  // An evaluation and the batches ahead of it share the threads in turn.
  mutable Mutex mutex_;
  mutable ThreadPool pool_ GUARDED_BY(mutex_);
};

absl::Status ImageFolderDataset::ForEach(
    int64_t count, absl::FunctionRef<absl::Status(int64_t)> decode) const {
  std::vector<absl::Status> results(static_cast<size_t>(count));
  {
    MutexLock lock(mutex_);
    pool_.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        results[static_cast<size_t>(i)] = decode(i);
    });
  }
  for (absl::Status& result : results) RETURN_IF_ERROR(std::move(result));
  return absl::OkStatus();
}

absl::Status ImageFolderDataset::Fill(Split split,
                                      absl::Span<const int64_t> ids,
                                      absl::Span<const int64_t> epochs,
                                      Batch& batch) const {
  RETURN_IF_ERROR(PrepareBatch(*this, split, ids, batch));
  const std::vector<LabelledFile>& files = FilesOf(split);
  const bool is_training = split == Split::kTrain;
  uint8_t* const pixels = batch.mutable_pixels().data();
  int32_t* const targets = batch.mutable_targets().data();
  return ForEach(static_cast<int64_t>(ids.size()), [&](int64_t i) {
    const int64_t id = ids[static_cast<size_t>(i)];
    const int64_t epoch = epochs.empty() ? 0 : epochs[static_cast<size_t>(i)];
    const LabelledFile& file = files[static_cast<size_t>(id)];
    targets[i] = file.label;
    return Decode(
        file, is_training,
        CounterRandom(CounterRandom(key_, static_cast<uint64_t>(epoch)),
                      static_cast<uint64_t>(id)),
        pixels + i * config_.shape.pixels);
  });
}

absl::Status ImageFolderDataset::Decode(const LabelledFile& file,
                                        bool is_random, uint64_t key,
                                        uint8_t* out) const {
  Decoder& decoder = ThreadsDecoder();
  const absl::StatusOr<std::string> read =
      ReadSmallFile(file.path, kMaxFileBytes);
  if (!read.ok()) return WithExitCode(read.status(), ExitCode::kUnreadable);
  const absl::Status decoded = DecodePicture(
      {reinterpret_cast<const uint8_t*>(read->data()), read->size()},
      {.channels = channels_, .least = size_},
      [&](PictureSize size) {
        return is_random && config_.crop_area < 1
                   ? RandomCrop(size, config_.crop_area, key)
                   : MiddleCrop(size, size_, config_.evaluation_crop);
      },
      decoder.part);
  if (!decoded.ok()) {
    FreeLarge(decoder);
    if (absl::IsResourceExhausted(decoded)) return Annotate(decoded, file.path);
    return WithExitCode(
        absl::Status(decoded.code(),
                     absl::StrCat(file.path, ": ", decoded.message(),
                                  "; \"corrupt_records: skip\" leaves out such "
                                  "samples")),
        ExitCode::kUnreadable);
  }
  const bool is_flipped =
      is_random && config_.flip && CounterRandom(key, kFlipDraw) % 2 == 1;
  ResizePart(decoder.part, size_, is_flipped, decoder.resize, out);
  FreeLarge(decoder);
  return absl::OkStatus();
}

absl::Status ImageFolderDataset::CheckClasses(const Folder& folder) const {
  const auto count = static_cast<int64_t>(folder.classes.size());
  if (count == config_.vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.path: ", config_.path, " has ", count, " subdirectories, from ",
      Quoted(folder.classes.front()), " to ", Quoted(folder.classes.back()),
      ", but the model has ", config_.vocabulary, " classes"));
}

// The name that one of the two lists has and the other has not.
std::string FirstDifference(const std::vector<std::string>& a,
                            const std::vector<std::string>& b) {
  const auto [in_a, in_b] =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end()) return *in_b;
  if (in_b == b.end()) return *in_a;
  return std::min(*in_a, *in_b);
}

// OK, unless the file could not be checked.
absl::Status CheckFile(const std::string& path, int64_t channels,
                       char& is_damaged) {
  Decoder& decoder = ThreadsDecoder();
  ASSIGN_OR_RETURN(const std::string bytes, ReadSmallFile(path, kMaxFileBytes));
  const absl::Status decoded = DecodePicture(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      {.channels = channels, .least = {1, 1}},
      [](PictureSize size) -> PixelBox {
        return {0, 0, size.height, size.width};
      },
      decoder.part);
  FreeLarge(decoder);
  // On another rank there may be memory, and so another sample.
  if (absl::IsResourceExhausted(decoded)) return Annotate(decoded, path);
  is_damaged = !decoded.ok();
  return absl::OkStatus();
}

absl::Status ImageFolderDataset::RemoveDamaged(
    const CancelToken* cancel, Lister& lister,
    std::vector<LabelledFile>& files) {
  const auto count = static_cast<int64_t>(files.size());
  std::vector<char> is_damaged(files.size(), 0);
  for (int64_t begin = 0; begin < count; begin += kCheckedFiles) {
    RETURN_IF_ERROR(
        ForEach(std::min(kCheckedFiles, count - begin), [&](int64_t i) {
          const auto index = static_cast<size_t>(begin + i);
          RETURN_IF_ERROR(CheckNotCancelled(cancel));
          return CheckFile(files[index].path, channels_, is_damaged[index]);
        }));
  }
  size_t kept = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (is_damaged[i]) {
      lister.LeaveOut(files[i].number);
      continue;
    }
    if (kept != i) files[kept] = std::move(files[i]);
    ++kept;
  }
  skipped_ += count - static_cast<int64_t>(kept);
  files.resize(kept);
  return absl::OkStatus();
}

void ImageFolderDataset::HoldOut() {
  const auto count = static_cast<int64_t>(training_.size());
  const auto held_out =
      static_cast<int64_t>(static_cast<double>(count) * config_.eval_fraction);
  if (held_out == 0) return;
  const PermutationSampler sampler(CounterRandom(config_.seed, kHeldOutStream),
                                   count);
  std::vector<char> is_held_out(training_.size(), 0);
  for (int64_t i = 0; i < held_out; ++i)
    is_held_out[static_cast<size_t>(sampler.SampleAt(i))] = 1;
  std::vector<LabelledFile> rest;
  for (size_t i = 0; i < training_.size(); ++i)
    (is_held_out[i] ? held_out_ : rest).push_back(std::move(training_[i]));
  training_ = std::move(rest);
}

absl::Status ImageFolderDataset::Open(const CancelToken* cancel) {
  Lister lister(cancel);
  ASSIGN_OR_RETURN(Folder training, lister.List({"data.path", config_.path}));
  RETURN_IF_ERROR(CheckClasses(training));
  training_ = std::move(training.files);
  const bool has_evaluation = !config_.evaluation_path.empty();
  if (has_evaluation) {
    ASSIGN_OR_RETURN(Folder evaluation, lister.List({"data.evaluation_path",
                                                     config_.evaluation_path}));
    if (evaluation.classes != training.classes) {
      const std::string name =
          FirstDifference(training.classes, evaluation.classes);
      const bool is_missing = std::binary_search(training.classes.begin(),
                                                 training.classes.end(), name);
      return absl::InvalidArgumentError(absl::StrCat(
          "data.evaluation_path: ", config_.evaluation_path,
          is_missing ? " has no subdirectory " : " has a subdirectory ",
          Quoted(name), ", but ", config_.path,
          is_missing ? " has one" : " has none"));
    }
    held_out_ = std::move(evaluation.files);
  }
  // Of all that was listed: a file that is left out moves no other one from one
  // part to the other.
  if (!has_evaluation) HoldOut();
  if (config_.skip_corrupt) {
    RETURN_IF_ERROR(RemoveDamaged(cancel, lister, training_));
    RETURN_IF_ERROR(RemoveDamaged(cancel, lister, held_out_));
  }
  fingerprint_ = lister.fingerprint();
  identity_ = lister.identity();
  if (!training_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data.path: ", config_.path, " has no picture to train on; ",
                   skipped_, " were left out"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateImageFolderDataset(
    const DataConfig& config, const CancelToken* cancel) {
  const int64_t area = config.shape.height * config.shape.width;
  const int64_t pixels = config.shape.pixels;
  if (area < 1 || (pixels != area && pixels != 3 * area)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.path: an image_folder is for a model of images that says their "
        "height and width, with 1 or 3 channels; this one takes ",
        config.shape.height, " x ", config.shape.width, " and ", pixels,
        " bytes"));
  }
  auto dataset = std::make_unique<ImageFolderDataset>(config);
  RETURN_IF_ERROR(dataset->Open(cancel));
  return dataset;
}

}  // namespace ringmaster
