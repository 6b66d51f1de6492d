#include "server/coordinator/rpc/job_spec.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/rpc/proto_time.h"
#include "common/status/reason.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"

namespace ringmaster::coordinator {
namespace {

constexpr size_t kMaxNameLength = 40;
constexpr size_t kMaxPathLength = 4096;
constexpr size_t kMaxReportedErrors = 10;
constexpr int64_t kMaxWorkers = 4096;
constexpr int64_t kMaxSteps = 1'000'000'000'000;
constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kMaxBatch = int64_t{1} << 24;
constexpr int64_t kMinBucketBytes = 1 << 10;
constexpr int64_t kMaxBucketBytes = 1 << 30;
constexpr int64_t kDefaultMaxBytes = int64_t{1} << 30;
constexpr int64_t kMaxParameters = int64_t{1} << 31;
constexpr absl::Duration kMaxSettle = absl::Hours(1);

// Collects what is wrong, so that the author of a spec learns of everything at
// once.
class Errors {
 public:
  void Add(std::string text) { texts_.push_back(std::move(text)); }

  void RequireRange(const std::string& field, int64_t value, int64_t low,
                    int64_t high) {
    if (value < low) {
      Add(absl::StrCat(field, " must be at least ", low, ", got ", value));
    } else if (value > high) {
      Add(absl::StrCat(field, " must be at most ", high, ", got ", value));
    }
  }

  // Also refuses NaN.
  void RequireThat(bool holds, const std::string& field, const char* bounds,
                   double value) {
    if (!holds) Add(absl::StrCat(field, " must be ", bounds, ", got ", value));
  }

  absl::Status ToStatus() const {
    if (texts_.empty()) return absl::OkStatus();
    std::vector<std::string> shown = texts_;
    if (shown.size() > kMaxReportedErrors) {
      shown.resize(kMaxReportedErrors);
      shown.push_back(
          absl::StrCat("and ", texts_.size() - kMaxReportedErrors, " more"));
    }
    return WithReason(absl::InvalidArgumentError(absl::StrJoin(shown, "; ")),
                      reason::kInvalidJobSpec);
  }

 private:
  std::vector<std::string> texts_;
};

// A field this build does not know was meant to have an effect; running without
// it would surprise.
void RefuseUnknownFields(const google::protobuf::Message& message,
                         const std::string& path, Errors& errors) {
  const auto& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    errors.Add(absl::StrCat(path.empty() ? "the spec" : path, " has field ",
                            unknown.field(i).number(),
                            ", which this coordinator does not know; it may "
                            "be older than the client"));
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    RefuseUnknownFields(
        reflection.GetMessage(message, field),
        path.empty() ? field->name() : absl::StrCat(path, ".", field->name()),
        errors);
  }
}

void CheckName(const std::string& name, Errors& errors) {
  bool is_good = !name.empty() && name.size() <= kMaxNameLength &&
                 absl::ascii_islower(name.front()) && name.back() != '-';
  for (const char c : name) {
    is_good = is_good &&
              (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
  }
  if (is_good) return;
  errors.Add(absl::StrCat(
      "name must be 1 to ", kMaxNameLength,
      " lower-case letters, digits and dashes, begin with a letter and not "
      "end with a dash, got \"",
      absl::CHexEscape(name.substr(0, 2 * kMaxNameLength)), "\""));
}

void CheckWorkers(v1::WorkerRange& workers, Errors& errors) {
  if (workers.min() == 0) workers.set_min(1);
  if (workers.max() == 0) workers.set_max(workers.min());
  if (!workers.has_settle()) {
    *workers.mutable_settle() = ToProto(absl::Seconds(1));
  }
  errors.RequireRange("workers.min", workers.min(), 1, kMaxWorkers);
  errors.RequireRange("workers.max", workers.max(), 1, kMaxWorkers);
  if (workers.min() >= 1 && workers.max() >= 1 &&
      workers.max() < workers.min()) {
    errors.Add(absl::StrCat("workers.max must be at least workers.min (",
                            workers.min(), "), got ", workers.max()));
  }
  const absl::Duration settle = FromProto(workers.settle());
  if (settle < absl::ZeroDuration() || settle > kMaxSettle) {
    errors.Add(absl::StrCat("workers.settle must be between 0s and ",
                            absl::FormatDuration(kMaxSettle), ", got ",
                            absl::FormatDuration(settle)));
  }
}

// `path` is "train.model.mlp".
void CheckMlp(v1::MlpSpec& mlp, const std::string& path, Errors& errors) {
  if (mlp.window() == 0) mlp.set_window(16);
  if (mlp.embedding_dim() == 0) mlp.set_embedding_dim(32);
  if (mlp.hidden_dim() == 0) mlp.set_hidden_dim(256);
  if (mlp.hidden_layers() == 0) mlp.set_hidden_layers(2);
  Errors own;
  own.RequireRange(path + ".window", mlp.window(), 1, 4096);
  own.RequireRange(path + ".embedding_dim", mlp.embedding_dim(), 1, 4096);
  own.RequireRange(path + ".hidden_dim", mlp.hidden_dim(), 1, 65536);
  own.RequireRange(path + ".hidden_layers", mlp.hidden_layers(), 1, 64);
  if (const absl::Status status = own.ToStatus(); !status.ok()) {
    errors.Add(std::string(status.message()));
    return;
  }
  // Each dimension may be large, but not all of them together.
  constexpr int64_t kBytes = 256;
  const int64_t hidden = mlp.hidden_dim();
  const int64_t parameters =
      kBytes * mlp.embedding_dim() +
      int64_t{mlp.window()} * mlp.embedding_dim() * hidden + hidden +
      (mlp.hidden_layers() - 1) * (hidden * hidden + hidden) + hidden * kBytes +
      kBytes;
  errors.RequireRange(path + "'s number of parameters", parameters, 1,
                      kMaxParameters);
}

void CheckModel(v1::TrainProgram& train, Errors& errors) {
  switch (train.model().model_case()) {
    case v1::ModelSpec::kMlp:
      CheckMlp(*train.mutable_model()->mutable_mlp(), "train.model.mlp",
               errors);
      return;
    case v1::ModelSpec::MODEL_NOT_SET:
      errors.Add("train.model must name a model: mlp");
      return;
  }
}

template <typename Source>
void CheckEvalFraction(Source& source, const std::string& path,
                       Errors& errors) {
  if (source.eval_fraction() == 0) source.set_eval_fraction(0.1);
  errors.RequireThat(source.eval_fraction() > 0 && source.eval_fraction() < 1,
                     path + ".eval_fraction", "above 0 and below 1",
                     source.eval_fraction());
}

void CheckText(v1::TextSource& text, Errors& errors) {
  if (text.max_bytes() == 0) text.set_max_bytes(kDefaultMaxBytes);
  if (text.path().empty()) {
    errors.Add("train.data.text.path must name a file or a directory");
  } else if (text.path().size() > kMaxPathLength) {
    errors.Add(absl::StrCat("train.data.text.path must have at most ",
                            kMaxPathLength, " bytes, got ",
                            text.path().size()));
  } else if (text.path().find('\0') != std::string::npos) {
    errors.Add("train.data.text.path must not contain a zero byte");
  }
  CheckEvalFraction(text, "train.data.text", errors);
  errors.RequireRange("train.data.text.max_bytes", text.max_bytes(), 1,
                      std::numeric_limits<int64_t>::max());
}

void CheckSynthetic(v1::SyntheticSource& synthetic, Errors& errors) {
  if (synthetic.samples() == 0) synthetic.set_samples(65536);
  errors.RequireRange("train.data.synthetic.samples", synthetic.samples(), 1,
                      kMaxSamples);
  CheckEvalFraction(synthetic, "train.data.synthetic", errors);
}

void CheckDataSource(v1::TrainProgram& train, Errors& errors) {
  switch (train.data().source_case()) {
    case v1::DataSpec::kText:
      CheckText(*train.mutable_data()->mutable_text(), errors);
      return;
    case v1::DataSpec::kSynthetic:
      CheckSynthetic(*train.mutable_data()->mutable_synthetic(), errors);
      return;
    case v1::DataSpec::SOURCE_NOT_SET:
      errors.Add("train.data must name a source: text or synthetic");
      return;
  }
}

void CheckOptimizer(v1::TrainProgram& train, Errors& errors) {
  // There is one, so it is also the default.
  v1::AdamwSpec& adamw = *train.mutable_optimizer()->mutable_adamw();
  if (adamw.learning_rate() == 0) adamw.set_learning_rate(0.001);
  if (!adamw.has_beta1()) adamw.set_beta1(0.9);
  if (!adamw.has_beta2()) adamw.set_beta2(0.999);
  if (adamw.epsilon() == 0) adamw.set_epsilon(1e-8);
  if (!adamw.has_weight_decay()) adamw.set_weight_decay(0.01);
  const std::string path = "train.optimizer.adamw.";
  const auto is_rate = [](double x) { return x > 0 && std::isfinite(x); };
  errors.RequireThat(is_rate(adamw.learning_rate()), path + "learning_rate",
                     "above 0 and finite", adamw.learning_rate());
  errors.RequireThat(adamw.beta1() >= 0 && adamw.beta1() < 1, path + "beta1",
                     "at least 0 and below 1", adamw.beta1());
  errors.RequireThat(adamw.beta2() >= 0 && adamw.beta2() < 1, path + "beta2",
                     "at least 0 and below 1", adamw.beta2());
  // Smaller ones vanish in float.
  errors.RequireThat(adamw.epsilon() >= 1e-30 && std::isfinite(adamw.epsilon()),
                     path + "epsilon", "at least 1e-30 and finite",
                     adamw.epsilon());
  errors.RequireThat(
      adamw.weight_decay() >= 0 && std::isfinite(adamw.weight_decay()),
      path + "weight_decay", "at least 0 and finite", adamw.weight_decay());
  errors.RequireThat(adamw.clip_norm() >= 0 && std::isfinite(adamw.clip_norm()),
                     path + "clip_norm", "at least 0 and finite",
                     adamw.clip_norm());
}

void CheckTrain(v1::TrainProgram& train, int32_t max_workers, Errors& errors) {
  if (train.global_batch() == 0) train.set_global_batch(256);
  if (train.seed() == 0) train.set_seed(1);
  if (!train.has_evaluation_samples()) train.set_evaluation_samples(4096);
  if (train.bucket_bytes() == 0) train.set_bucket_bytes(256 << 10);
  if (!train.has_hash_every()) train.set_hash_every(50);
  CheckModel(train, errors);
  CheckDataSource(train, errors);
  CheckOptimizer(train, errors);
  errors.RequireRange("train.steps", train.steps(), 1, kMaxSteps);
  errors.RequireRange("train.global_batch", train.global_batch(), 1, kMaxBatch);
  if (train.global_batch() >= 1 && train.global_batch() < max_workers) {
    errors.Add(absl::StrCat(
        "train.global_batch must be at least workers.max (", max_workers,
        "), so that every rank has a sample, got ", train.global_batch()));
  }
  errors.RequireRange("train.evaluate_every", train.evaluate_every(), 0,
                      kMaxSteps);
  errors.RequireRange("train.evaluation_samples", train.evaluation_samples(), 0,
                      kMaxSamples);
  errors.RequireRange("train.bucket_bytes", train.bucket_bytes(),
                      kMinBucketBytes, kMaxBucketBytes);
  errors.RequireRange("train.hash_every", train.hash_every(), 0, kMaxSteps);
}

}  // namespace

absl::StatusOr<v1::JobSpec> ValidateAndDefault(v1::JobSpec spec) {
  Errors errors;
  RefuseUnknownFields(spec, "", errors);
  CheckName(spec.name(), errors);
  CheckWorkers(*spec.mutable_workers(), errors);
  switch (spec.program_case()) {
    case v1::JobSpec::kTrain:
      CheckTrain(*spec.mutable_train(), spec.workers().max(), errors);
      break;
    case v1::JobSpec::PROGRAM_NOT_SET:
      errors.Add("the spec must have a program: train");
      break;
  }
  if (absl::Status status = errors.ToStatus(); !status.ok()) return status;
  return spec;
}

}  // namespace ringmaster::coordinator
