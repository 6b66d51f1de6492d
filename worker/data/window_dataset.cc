#include "worker/data/window_dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/data/content_hash.h"
#include "worker/data/data_file.h"
#include "worker/data/sample_index.h"

namespace ringmaster {
namespace {

// Tokens are checked and hashed in pieces of this size.
constexpr size_t kPieceTokens = size_t{1} << 19;

// Tokens that follow one another in one file.
template <typename T>
struct Run {
  std::string file;
  int64_t offset = 0;  // of the first token in the file
  absl::Span<const T> tokens;
  size_t number = 0;  // of the file, in the order of reading
};

// Tokens from one record to the next.
int64_t StrideOf(const SampleShape& shape) {
  return shape.is_masked ? shape.tokens : shape.targets;
}

int64_t RecordsIn(const SampleShape& shape, int64_t tokens) {
  // The token after a record's last is a target too.
  return tokens <= shape.tokens
             ? 0
             : (tokens - 1 - shape.tokens) / StrideOf(shape) + 1;
}

// The records of one split.
template <typename T>
struct Part {
  Part(const SampleShape& shape, std::vector<Run<T>> all)
      : runs(std::move(all)), index(0) {
    int64_t records = 0;
    for (const Run<T>& run : runs) {
      first_records.push_back(records);
      records += RecordsIn(shape, static_cast<int64_t>(run.tokens.size()));
    }
    index = SampleIndex(records);
  }

  // The first token of the record that sample `id` is.
  const T* Sample(const SampleShape& shape, int64_t id) const {
    const int64_t record = index.RecordOf(id);
    // The last run that begins there: a run without records begins where the
    // next one does.
    const auto run = std::prev(
        std::upper_bound(first_records.begin(), first_records.end(), record));
    return runs[static_cast<size_t>(run - first_records.begin())]
               .tokens.data() +
           (record - *run) * StrideOf(shape);
  }

  std::vector<Run<T>> runs;
  std::vector<int64_t> first_records;  // of each run
  SampleIndex index;
};

// Leaves out the records that touch tokens [begin, end) of run `number`.
template <typename T>
void SkipTokens(const SampleShape& shape, size_t number, int64_t begin,
                int64_t end, Part<T>& part) {
  const int64_t first = part.first_records[number];
  const auto tokens = static_cast<int64_t>(part.runs[number].tokens.size());
  const int64_t stride = StrideOf(shape);
  // Record r has tokens [r * stride, r * stride + shape.tokens].
  const int64_t begin_record =
      std::max<int64_t>(0, begin - shape.tokens + stride - 1) / stride;
  const int64_t end_record =
      std::min(RecordsIn(shape, tokens), (end - 1) / stride + 1);
  if (begin_record < end_record)
    part.index.Skip(first + begin_record, first + end_record);
}

template <typename T>
absl::Status InvalidToken(const DataConfig& config, const Run<T>& run,
                          size_t at) {
  return absl::InvalidArgumentError(absl::StrCat(
      run.file, ": token ", run.offset + static_cast<int64_t>(at), " is ",
      static_cast<int64_t>(run.tokens[at]), ", but the model takes ",
      config.vocabulary, " (0 to ", config.vocabulary - 1,
      "); \"corrupt_records: skip\" leaves out such samples"));
}

// Checks tokens [begin, begin + count) of run `number`.
template <typename T>
absl::Status CheckPiece(const DataConfig& config, size_t number, size_t begin,
                        size_t count, Part<T>& part) {
  if (int64_t{std::numeric_limits<T>::max()} < config.vocabulary)
    return absl::OkStatus();
  const Run<T>& run = part.runs[number];
  const auto bound = static_cast<T>(config.vocabulary);
  T largest = 0;
  for (const T token : run.tokens.subspan(begin, count))
    largest = std::max(largest, token);
  if (largest < bound) return absl::OkStatus();
  for (size_t i = begin; i < begin + count; ++i) {
    if (run.tokens[i] < bound) continue;
    if (!config.skip_corrupt) return InvalidToken(config, run, i);
    SkipTokens(config.shape, number, static_cast<int64_t>(i),
               static_cast<int64_t>(i) + 1, part);
  }
  return absl::OkStatus();
}

// Checks and hashes a part's tokens, in one pass over them. `file_hashes` has one for
// each file, or none.
template <typename T>
absl::Status ReadPart(const DataConfig& config, const CancelToken* cancel,
                      Part<T>& part, ContentHash& hash,
                      std::vector<ContentHash>& file_hashes) {
  for (size_t number = 0; number < part.runs.size(); ++number) {
    const absl::Span<const T> tokens = part.runs[number].tokens;
    for (size_t begin = 0; begin < tokens.size(); begin += kPieceTokens) {
      RETURN_IF_ERROR(CheckNotCancelled(cancel));
      const size_t count = std::min(kPieceTokens, tokens.size() - begin);
      RETURN_IF_ERROR(CheckPiece(config, number, begin, count, part));
      hash.Add(tokens.data() + begin, count * sizeof(T));
      if (file_hashes.empty()) continue;
      file_hashes[part.runs[number].number].Add(tokens.data() + begin,
                                                count * sizeof(T));
    }
  }
  return absl::OkStatus();
}

// The whole files as runs; without evaluation files, the end of `training` goes
// to `held_out`.
template <typename T>
void SplitRuns(const TokenContents<T>& contents, double eval_fraction,
               std::vector<Run<T>>& training, std::vector<Run<T>>& held_out) {
  int64_t total = 0;
  for (const auto& file : contents.training)
    total += static_cast<int64_t>(file.tokens.size());
  int64_t left = total;  // tokens for training, from here on
  if (contents.evaluation.empty())
    left -= static_cast<int64_t>(static_cast<double>(total) * eval_fraction);
  size_t number = 0;
  for (const auto& file : contents.training) {
    const auto size = static_cast<int64_t>(file.tokens.size());
    const int64_t own = std::min(left, size);
    left -= own;
    if (own > 0)
      training.push_back({file.name, 0, file.tokens.subspan(0, own), number});
    if (own < size)
      held_out.push_back({file.name, own, file.tokens.subspan(own), number});
    ++number;
  }
  for (const auto& file : contents.evaluation)
    held_out.push_back({file.name, 0, file.tokens, number++});
}

template <typename T>
int64_t CountTokens(const std::vector<Run<T>>& runs) {
  int64_t count = 0;
  for (const Run<T>& run : runs)
    count += static_cast<int64_t>(run.tokens.size());
  return count;
}

template <typename T>
class WindowDataset final : public Dataset {
 public:
  WindowDataset(const SampleShape& shape, Part<T> training, Part<T> held_out,
                uint64_t fingerprint, v1::DataIdentity identity,
                std::shared_ptr<const void> owner)
      : shape_(shape),
        training_(std::move(training)),
        held_out_(std::move(held_out)),
        fingerprint_(fingerprint),
        identity_(std::move(identity)),
        owner_(std::move(owner)) {}

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
    const Part<T>& part = PartOf(split);
    int32_t* input = batch.mutable_inputs().data();
    int32_t* target = batch.mutable_targets().data();
    for (const int64_t id : ids) {
      const T* sample = part.Sample(shape_, id);
      input = std::copy_n(sample, shape_.tokens, input);
      if (shape_.is_masked) {
        target = std::fill_n(target, shape_.targets, 0);
        continue;
      }
      target = std::copy_n(sample + shape_.tokens + 1 - shape_.targets,
                           shape_.targets, target);
    }
    return absl::OkStatus();
  }

 private:
  const Part<T>& PartOf(Split split) const {
    return split == Split::kTrain ? training_ : held_out_;
  }

  SampleShape shape_;
  Part<T> training_;
  Part<T> held_out_;
  uint64_t fingerprint_;
  v1::DataIdentity identity_;
  std::shared_ptr<const void> owner_;
};

// The ends of files are part of the contents: no record reaches across them.
template <typename T>
uint64_t Fingerprint(const TokenContents<T>& contents, ContentHash& hash) {
  for (const auto* files : {&contents.training, &contents.evaluation}) {
    for (const auto& file : *files) {
      const uint64_t size = file.tokens.size();
      hash.Add(&size, sizeof(size));
    }
    const uint64_t count = files->size();
    hash.Add(&count, sizeof(count));
  }
  return hash.Digest();
}

template <typename T>
std::vector<HashedFile> HashedFiles(const TokenContents<T>& contents,
                                    const std::vector<ContentHash>& hashes) {
  std::vector<HashedFile> files;
  for (const auto* part : {&contents.training, &contents.evaluation}) {
    for (const auto& file : *part) {
      files.push_back(
          {file.path, file.size_bytes, hashes[files.size()].Digest()});
    }
  }
  return files;
}

template <typename T>
absl::Status CheckHasSamples(const DataConfig& config, const std::string& unit,
                             int64_t held_out_tokens, const Part<T>& training) {
  if (training.index.size() > 0) return absl::OkStatus();
  const int64_t tokens = CountTokens(training.runs);
  std::string message = absl::StrCat(
      "data.path: ", config.path, " holds ", tokens + held_out_tokens, " ",
      unit, ", of which ", tokens, " are for training; one sample needs ",
      config.shape.tokens + 1,
      " (the model's window and the one that follows)");
  if (training.index.skipped() > 0) {
    absl::StrAppend(&message, "; all ", training.index.skipped(),
                    " samples were left out, for ids of ", config.vocabulary,
                    " or more");
  } else if (training.runs.size() > 1) {
    absl::StrAppend(&message, " within one file");
  }
  return absl::FailedPreconditionError(message);
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Dataset>> CreateWindowDataset(
    const DataConfig& config, const std::string& unit,
    TokenContents<T> contents, const CancelToken* cancel) {
  std::vector<Run<T>> training_runs;
  std::vector<Run<T>> held_out_runs;
  SplitRuns(contents, config.eval_fraction, training_runs, held_out_runs);
  const int64_t held_out_tokens =
      contents.evaluation.empty() ? CountTokens(held_out_runs) : 0;
  Part<T> training(config.shape, std::move(training_runs));
  Part<T> held_out(config.shape, std::move(held_out_runs));

  ContentHash hash;
  std::vector<ContentHash> file_hashes(contents.sources.empty()
                                           ? contents.training.size() +
                                                 contents.evaluation.size()
                                           : 0);
  RETURN_IF_ERROR(ReadPart(config, cancel, training, hash, file_hashes));
  RETURN_IF_ERROR(ReadPart(config, cancel, held_out, hash, file_hashes));
  RETURN_IF_ERROR(CheckHasSamples(config, unit, held_out_tokens, training));
  const uint64_t fingerprint = Fingerprint(contents, hash);
  return std::make_unique<WindowDataset<T>>(
      config.shape, std::move(training), std::move(held_out), fingerprint,
      IdentityOf(contents.sources.empty() ? HashedFiles(contents, file_hashes)
                                          : contents.sources),
      std::move(contents.owner));
}

template absl::StatusOr<std::unique_ptr<Dataset>> CreateWindowDataset(
    const DataConfig&, const std::string&, TokenContents<uint8_t>,
    const CancelToken*);
template absl::StatusOr<std::unique_ptr<Dataset>> CreateWindowDataset(
    const DataConfig&, const std::string&, TokenContents<uint16_t>,
    const CancelToken*);
template absl::StatusOr<std::unique_ptr<Dataset>> CreateWindowDataset(
    const DataConfig&, const std::string&, TokenContents<int32_t>,
    const CancelToken*);

}  // namespace ringmaster
