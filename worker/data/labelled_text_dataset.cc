#include "worker/data/labelled_text_dataset.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "worker/data/bpe_tokenizer.h"
#include "worker/data/content_hash.h"
#include "worker/data/data_file.h"
#include "worker/data/data_identity.h"
#include "worker/data/labelled_records.h"
#include "worker/data/sample_index.h"
#include "worker/data/wordpiece_tokenizer.h"

namespace ringmaster {
namespace {

// Records between two looks at a cancellation.
constexpr size_t kPieceRecords = 256;
// More than either layout of two empty texts has.
constexpr int64_t kLeastTokens = 5;

// A tokenizer with the special tokens that frame texts.
struct Framing {
  std::function<std::vector<int32_t>(std::string_view)> encode = nullptr;
  int64_t vocabulary = 0;
  std::optional<int32_t> begin;
  std::optional<int32_t> end;
  std::optional<int32_t> padding;
  bool doubles_end = false;   // between two texts
  const char* names[3] = {};  // of begin, end and padding
};

absl::StatusOr<Framing> LoadFraming(const DataConfig& config) {
  Framing framing;
  if (config.merges_path.empty()) {
    ASSIGN_OR_RETURN(
        std::shared_ptr<const WordPieceTokenizer> tokenizer,
        WordPieceTokenizer::Load(config.vocabulary_path, config.lowercase));
    framing = {.vocabulary = tokenizer->vocabulary(),
               .begin = tokenizer->Find("[CLS]"),
               .end = tokenizer->Find("[SEP]"),
               .padding = tokenizer->Find("[PAD]"),
               .names = {"[CLS]", "[SEP]", "[PAD]"}};
    framing.encode = [tokenizer](std::string_view text) {
      return tokenizer->Encode(text);
    };
    return framing;
  }
  ASSIGN_OR_RETURN(
      std::shared_ptr<const BpeTokenizer> tokenizer,
      BpeTokenizer::Load(config.vocabulary_path, config.merges_path));
  framing = {.vocabulary = tokenizer->vocabulary(),
             .begin = tokenizer->Find("<s>"),
             .end = tokenizer->Find("</s>"),
             .padding = tokenizer->Find("<pad>"),
             .doubles_end = true,
             .names = {"<s>", "</s>", "<pad>"}};
  framing.encode = [tokenizer](std::string_view text) {
    return tokenizer->Encode(text);
  };
  return framing;
}

absl::Status CheckFits(const DataConfig& config, const Framing& framing) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.vocabulary_path: ", config.vocabulary_path, " has ", what));
  };
  // A model may have more, as is done to round the number up.
  if (framing.vocabulary > config.vocabulary) {
    return error(absl::StrCat(framing.vocabulary,
                              " tokens, but the model takes ",
                              config.vocabulary));
  }
  const std::optional<int32_t>* const tokens[] = {&framing.begin, &framing.end,
                                                  &framing.padding};
  for (size_t i = 0; i < 3; ++i) {
    if (!tokens[i]->has_value())
      return error(absl::StrCat("no \"", framing.names[i], "\""));
  }
  if (*framing.padding != config.padding) {
    return error(absl::StrCat("\"", framing.names[2], "\" as ",
                              *framing.padding, ", but the model's padding is ",
                              config.padding));
  }
  if (config.separator >= 0 && *framing.end != config.separator) {
    return error(absl::StrCat("\"", framing.names[1], "\" as ", *framing.end,
                              ", but the model's separator is ",
                              config.separator));
  }
  return absl::OkStatus();
}

// Samples of one file: tokens end to end, without padding.
struct Samples {
  std::vector<int32_t> tokens;
  std::vector<size_t> ends;  // in tokens
  std::vector<int32_t> labels;
  SampleIndex index{0};
};

// The ids of a record's sample.
void AppendSample(const DataConfig& config, const Framing& framing,
                  const LabelledRecord& record, std::vector<int32_t>& tokens) {
  const bool is_pair = !config.second_text_column.empty();
  std::vector<int32_t> first = framing.encode(record.text);
  std::vector<int32_t> second;
  if (is_pair) second = framing.encode(record.second_text);
  const int64_t specials = !is_pair ? 2 : (framing.doubles_end ? 4 : 3);
  const auto room = static_cast<size_t>(config.shape.tokens - specials);
  if (first.size() + second.size() > room) {
    // The longer one first, until both are as long.
    const size_t shorter = std::min(first.size(), second.size());
    const size_t kept = std::min(shorter, room / 2);
    std::vector<int32_t>& longer =
        first.size() >= second.size() ? first : second;
    std::vector<int32_t>& other =
        first.size() >= second.size() ? second : first;
    other.resize(kept);
    longer.resize(std::min(longer.size(), room - kept));
  }
  tokens.push_back(*framing.begin);
  tokens.insert(tokens.end(), first.begin(), first.end());
  tokens.push_back(*framing.end);
  if (!is_pair) return;
  if (framing.doubles_end) tokens.push_back(*framing.end);
  tokens.insert(tokens.end(), second.begin(), second.end());
  tokens.push_back(*framing.end);
}

// The class of a label, or why it is none.
absl::StatusOr<int32_t> ClassOf(const DataConfig& config,
                                const std::string& label) {
  const std::vector<std::string>& names = config.label_names;
  if (!names.empty()) {
    const auto found = std::find(names.begin(), names.end(), label);
    if (found != names.end())
      return static_cast<int32_t>(found - names.begin());
    return absl::InvalidArgumentError(
        absl::StrCat("the label ", Quoted(label), " is none of the ",
                     names.size(), " classes that data.labels names"));
  }
  int32_t number = 0;
  if (absl::SimpleAtoi(label, &number) && number >= 0 &&
      number < config.classes)
    return number;
  return absl::InvalidArgumentError(
      absl::StrCat("the label ", Quoted(label), " is none of the model's ",
                   config.classes, " classes (0 to ", config.classes - 1, ")"));
}

absl::StatusOr<std::unique_ptr<RecordReader>> OpenRecords(
    const DataConfig& config, const std::string& path, std::string_view text) {
  const RecordColumns columns = {config.text_column, config.second_text_column,
                                 config.label_column};
  if (absl::EndsWithIgnoreCase(path, ".jsonl") ||
      absl::EndsWithIgnoreCase(path, ".json"))
    return ReadJsonRecords(text, columns);
  auto records = ReadCsvRecords(text, columns);
  if (!records.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " ", records.status().message()));
  }
  return records;
}

class Reader {
 public:
  Reader(const DataConfig& config, const Framing& framing,
         const CancelToken* cancel)
      : config_(config), framing_(framing), cancel_(cancel) {}

  absl::StatusOr<Samples> Read(const std::string& field,
                               const std::string& path) {
    absl::StatusOr<Samples> samples = ReadFile(path);
    if (samples.ok() || absl::IsAborted(samples.status())) return samples;
    return Annotate(samples.status(), field);
  }
  std::vector<HashedFile> TakeFiles() { return std::move(files_); }

 private:
  absl::StatusOr<Samples> ReadFile(const std::string& path) {
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const auto bytes = static_cast<int64_t>(file.bytes().size());
    if (bytes > config_.max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has ", bytes,
          " bytes, more than data.max_bytes = ", config_.max_bytes));
    }
    ContentHash hash;
    hash.Add(file.bytes().data(), file.bytes().size());
    files_.push_back({path, bytes, hash.Digest()});
    ASSIGN_OR_RETURN(
        const std::unique_ptr<RecordReader> records,
        OpenRecords(config_, path,
                    {reinterpret_cast<const char*>(file.bytes().data()),
                     file.bytes().size()}));
    Samples samples;
    std::vector<int64_t> left_out;
    while (true) {
      if (samples.labels.size() % kPieceRecords == 0)
        RETURN_IF_ERROR(CheckNotCancelled(cancel_));
      const std::optional<LabelledRecord> record = records->Next();
      if (!record.has_value()) break;
      RETURN_IF_ERROR(Append(path, *record, samples, left_out));
    }
    samples.index = SampleIndex(static_cast<int64_t>(samples.labels.size()));
    for (const int64_t number : left_out)
      samples.index.Skip(number, number + 1);
    return samples;
  }

  absl::Status Append(const std::string& path, const LabelledRecord& record,
                      Samples& samples, std::vector<int64_t>& left_out) {
    absl::StatusOr<int32_t> label =
        record.problem.empty() ? ClassOf(config_, record.label)
                               : absl::InvalidArgumentError(record.problem);
    if (!label.ok() && !config_.skip_corrupt) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": line ", record.line, ": ", label.status().message(),
          "; \"corrupt_records: skip\" leaves out such samples"));
    }
    if (label.ok()) {
      AppendSample(config_, framing_, record, samples.tokens);
    } else {
      left_out.push_back(static_cast<int64_t>(samples.labels.size()));
    }
    samples.ends.push_back(samples.tokens.size());
    samples.labels.push_back(label.ok() ? *label : 0);
    return absl::OkStatus();
  }

  const DataConfig& config_;
  const Framing& framing_;
  const CancelToken* const cancel_;
  std::vector<HashedFile> files_;
};

class LabelledTextDataset final : public Dataset {
 public:
  LabelledTextDataset(const DataConfig& config, Samples training,
                      std::optional<Samples> evaluation,
                      const std::vector<HashedFile>& files)
      : shape_(config.shape),
        padding_(static_cast<int32_t>(config.padding)),
        training_(std::move(training)),
        evaluation_(std::move(evaluation)),
        identity_(IdentityOf(files)) {
    const int64_t valid = training_.index.size();
    held_out_ = evaluation_.has_value()
                    ? 0
                    : static_cast<int64_t>(static_cast<double>(valid) *
                                           config.eval_fraction);
    ContentHash hash;
    for (const Samples* samples :
         {&training_, evaluation_ ? &*evaluation_ : nullptr}) {
      if (samples == nullptr) continue;
      hash.Add(samples->tokens.data(),
               samples->tokens.size() * sizeof(int32_t));
      hash.Add(samples->ends.data(), samples->ends.size() * sizeof(size_t));
      hash.Add(samples->labels.data(),
               samples->labels.size() * sizeof(int32_t));
    }
    fingerprint_ = hash.Digest();
  }

  int64_t size(Split split) const override {
    if (split == Split::kTrain) return training_.index.size() - held_out_;
    return evaluation_.has_value() ? evaluation_->index.size() : held_out_;
  }
  const SampleShape& shape() const override { return shape_; }
  int64_t skipped_samples() const override {
    return training_.index.skipped() +
           (evaluation_.has_value() ? evaluation_->index.skipped() : 0);
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  v1::DataIdentity identity() const override { return identity_; }

  absl::Status FillBatch(Split split, absl::Span<const int64_t> ids,
                         Batch& batch) const override {
    RETURN_IF_ERROR(PrepareBatch(*this, split, ids, batch));
    const bool is_apart = split == Split::kHeldOut && evaluation_.has_value();
    const Samples& samples = is_apart ? *evaluation_ : training_;
    const int64_t first =
        split == Split::kHeldOut && !is_apart ? size(Split::kTrain) : 0;
    int32_t* input = batch.mutable_inputs().data();
    int32_t* target = batch.mutable_targets().data();
    for (const int64_t id : ids) {
      const auto record =
          static_cast<size_t>(samples.index.RecordOf(first + id));
      const size_t begin = record == 0 ? 0 : samples.ends[record - 1];
      int32_t* const end =
          std::copy(samples.tokens.data() + begin,
                    samples.tokens.data() + samples.ends[record], input);
      input += shape_.tokens;
      std::fill(end, input, padding_);
      *target++ = samples.labels[record];
    }
    return absl::OkStatus();
  }

 private:
  const SampleShape shape_;
  const int32_t padding_;
  const Samples training_;  // and the held-out ones, if they are no others
  const std::optional<Samples> evaluation_;
  const v1::DataIdentity identity_;
  int64_t held_out_ = 0;  // at the end of training_
  uint64_t fingerprint_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateLabelledTextDataset(
    const DataConfig& config, const CancelToken* cancel) {
  if (config.classes < 1) {
    return absl::InvalidArgumentError(
        "data.path: labelled text is for a model with classes, which this one "
        "does not have");
  }
  const size_t names = config.label_names.size();
  if (names > 0 && names != static_cast<size_t>(config.classes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.labels: there are ", names,
                     " names, but the model has ", config.classes, " classes"));
  }
  if (config.shape.tokens < kLeastTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.path: a sample of labelled text needs at least ", kLeastTokens,
        " tokens, but the model takes ", config.shape.tokens));
  }
  // Loaded first: a wrong path should not be found out after a long read.
  ASSIGN_OR_RETURN(const Framing framing, LoadFraming(config));
  RETURN_IF_ERROR(CheckFits(config, framing));
  Reader reader(config, framing, cancel);
  ASSIGN_OR_RETURN(Samples training, reader.Read("data.path", config.path));
  if (training.index.size() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data.path: ", config.path, " has no valid record to train on; ",
        training.index.skipped(), " were left out"));
  }
  std::optional<Samples> evaluation;
  if (!config.evaluation_path.empty()) {
    ASSIGN_OR_RETURN(evaluation, reader.Read("data.evaluation_path",
                                             config.evaluation_path));
  }
  return std::make_unique<LabelledTextDataset>(
      config, std::move(training), std::move(evaluation), reader.TakeFiles());
}

}  // namespace ringmaster
