#include "worker/data/image_dataset.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "worker/data/content_hash.h"
#include "worker/data/data_identity.h"
#include "worker/data/idx_file.h"
#include "worker/data/sample_index.h"

namespace ringmaster {
namespace {

// A file of images and one of labels, which belong together.
struct LabelledImages {
  IdxImages images;
  std::vector<uint8_t> labels;
  std::vector<HashedFile> files;  // the two
};

// The settings that a pair of files comes from.
struct Source {
  const char* images_field;
  const char* labels_field;
  const std::string& images_path;
  const std::string& labels_path;
};

// Describes a file by its contents, for it may be compressed.
HashedFile HashedOf(const std::string& path,
                    const std::vector<uint8_t>& contents) {
  ContentHash hash;
  hash.Add(contents.data(), contents.size());
  return {path, static_cast<int64_t>(contents.size()), hash.Digest()};
}

absl::StatusOr<LabelledImages> ReadPair(const Source& source,
                                        const DataConfig& config,
                                        const CancelToken* cancel) {
  absl::StatusOr<IdxImages> images =
      ReadIdxImages(source.images_path, config.max_bytes, cancel);
  if (!images.ok()) return Annotate(images.status(), source.images_field);
  if (images->height * images->width != config.shape.pixels) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.images_field, ": ", source.images_path,
                     " has images of ", images->height, " x ", images->width,
                     " = ", images->height * images->width,
                     " pixels, but the model takes ", config.shape.pixels));
  }
  absl::StatusOr<std::vector<uint8_t>> labels =
      ReadIdxLabels(source.labels_path, config.max_bytes, cancel);
  if (!labels.ok()) return Annotate(labels.status(), source.labels_field);
  if (static_cast<int64_t>(labels->size()) != images->count) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.labels_field, ": ", source.labels_path, " has ",
                     labels->size(), " labels, but ", source.images_path,
                     " has ", images->count, " images"));
  }
  std::vector<HashedFile> files = {HashedOf(source.images_path, images->pixels),
                                   HashedOf(source.labels_path, *labels)};
  return LabelledImages{*std::move(images), *std::move(labels),
                        std::move(files)};
}

// The valid ones of records [begin, end).
absl::StatusOr<SampleIndex> IndexRecords(const Source& source,
                                         const LabelledImages& records,
                                         int64_t begin, int64_t end,
                                         const DataConfig& config) {
  SampleIndex index(end - begin);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t label = records.labels[static_cast<size_t>(i)];
    if (label < config.vocabulary) continue;
    if (!config.skip_corrupt) {
      return absl::InvalidArgumentError(absl::StrCat(
          source.labels_field, ": ", source.labels_path, ": label ", i, " is ",
          label, ", but the model has ", config.vocabulary, " classes (0 to ",
          config.vocabulary - 1,
          "); \"corrupt_records: skip\" leaves out such samples"));
    }
    index.Skip(i - begin, i - begin + 1);
  }
  return index;
}

class ImageDataset final : public Dataset {
 public:
  // A split is the records of `index`, from record `begin` of a pair of files
  // on.
  struct Part {
    const LabelledImages* records = nullptr;
    int64_t begin = 0;
    SampleIndex index{0};
  };

  ImageDataset(const SampleShape& shape,
               std::vector<std::unique_ptr<const LabelledImages>> records,
               Part training, Part held_out)
      : shape_(shape),
        records_(std::move(records)),
        training_(std::move(training)),
        held_out_(std::move(held_out)) {
    ContentHash hash;
    std::vector<HashedFile> files;
    for (const auto& pair : records_) {
      files.insert(files.end(), pair->files.begin(), pair->files.end());
      const int64_t sizes[] = {pair->images.count, pair->images.height,
                               pair->images.width};
      hash.Add(sizes, sizeof(sizes));
      hash.Add(pair->images.pixels.data(), pair->images.pixels.size());
      hash.Add(pair->labels.data(), pair->labels.size());
    }
    fingerprint_ = hash.Digest();
    identity_ = IdentityOf(files);
  }

  int64_t size(Split split) const override {
    return PartOf(split).index.size();
  }
  const SampleShape& shape() const override { return shape_; }
  int64_t skipped_samples() const override {
    return training_.index.skipped() + held_out_.index.skipped();
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  v1::DataIdentity identity() const override { return identity_; }

  absl::Status FillBatch(Split split, absl::Span<const int64_t> ids,
                         Batch& batch) const override {
    RETURN_IF_ERROR(PrepareBatch(*this, split, ids, batch));
    const Part& part = PartOf(split);
    uint8_t* pixels = batch.mutable_pixels().data();
    int32_t* target = batch.mutable_targets().data();
    for (const int64_t id : ids) {
      const int64_t record = part.begin + part.index.RecordOf(id);
      pixels = std::copy_n(
          part.records->images.pixels.data() + record * shape_.pixels,
          shape_.pixels, pixels);
      *target++ = part.records->labels[static_cast<size_t>(record)];
    }
    return absl::OkStatus();
  }

 private:
  const Part& PartOf(Split split) const {
    return split == Split::kTrain ? training_ : held_out_;
  }

  SampleShape shape_;
  std::vector<std::unique_ptr<const LabelledImages>> records_;
  Part training_;  // of records_, as the next
  Part held_out_;
  uint64_t fingerprint_ = 0;
  v1::DataIdentity identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateImageDataset(
    const DataConfig& config, const CancelToken* cancel) {
  const Source source = {"data.path", "data.labels_path", config.path,
                         config.labels_path};
  const Source evaluation_source = {
      "data.evaluation_path", "data.evaluation_labels_path",
      config.evaluation_path, config.evaluation_labels_path};
  const bool has_evaluation = !config.evaluation_path.empty();

  std::vector<std::unique_ptr<const LabelledImages>> records;
  const auto read = [&](const Source& from) -> absl::Status {
    ASSIGN_OR_RETURN(LabelledImages pair, ReadPair(from, config, cancel));
    records.push_back(std::make_unique<LabelledImages>(std::move(pair)));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read(source));
  if (has_evaluation) RETURN_IF_ERROR(read(evaluation_source));

  const int64_t count = records.front()->images.count;
  const int64_t train =
      has_evaluation ? count
                     : count - static_cast<int64_t>(static_cast<double>(count) *
                                                    config.eval_fraction);
  ImageDataset::Part training = {.records = records.front().get()};
  ASSIGN_OR_RETURN(training.index,
                   IndexRecords(source, *training.records, 0, train, config));
  if (training.index.size() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data.path: ", config.path, " holds ", count, " images, of which ",
        train, " are for training and ", training.index.skipped(),
        " of these were left out, for labels of ", config.vocabulary,
        " or more; there is none to train on"));
  }
  ImageDataset::Part held_out = {.records = records.back().get(),
                                 .begin = has_evaluation ? 0 : train};
  ASSIGN_OR_RETURN(held_out.index,
                   IndexRecords(has_evaluation ? evaluation_source : source,
                                *held_out.records, held_out.begin,
                                held_out.records->images.count, config));
  return std::make_unique<ImageDataset>(config.shape, std::move(records),
                                        std::move(training),
                                        std::move(held_out));
}

}  // namespace ringmaster
