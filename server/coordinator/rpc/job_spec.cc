#include "server/coordinator/rpc/job_spec.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/proto_time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "server/coordinator/rpc/job_spec_bench.h"
#include "server/coordinator/rpc/job_spec_collective.h"
#include "server/coordinator/rpc/job_spec_data.h"
#include "server/coordinator/rpc/job_spec_errors.h"
#include "server/coordinator/rpc/job_spec_model.h"
#include "server/coordinator/rpc/job_spec_optimizer.h"
#include "server/coordinator/rpc/job_spec_parameter_server.h"

namespace ringmaster::coordinator {
namespace {

constexpr size_t kMaxNameLength = 40;
constexpr int64_t kMaxWorkers = 4096;
constexpr int64_t kMaxSteps = 1'000'000'000'000;
constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kMaxKept = 1'000'000;
constexpr size_t kMaxPromptBytes = 16 << 10;
constexpr int64_t kMaxSampleBytes = 100'000;
constexpr int64_t kMaxSkippedInARow = 1'000'000;
constexpr int64_t kMaxBatch = int64_t{1} << 24;
constexpr int64_t kMinBucketBytes = 1 << 10;
constexpr int64_t kMaxBucketBytes = 1 << 30;
constexpr absl::Duration kMaxSettle = absl::Hours(1);

// A field this build does not know was meant to have an effect; running without
// it would surprise.
void RefuseUnknownFields(const google::protobuf::Message& message,
                         const std::string& path, SpecErrors& errors) {
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

void CheckName(const std::string& name, SpecErrors& errors) {
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

void CheckWorkers(v1::WorkerRange& workers, SpecErrors& errors) {
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

void CheckCheckpoint(v1::TrainProgram& train, SpecErrors& errors) {
  if (!train.has_checkpoint()) return;
  v1::CheckpointSpec& checkpoint = *train.mutable_checkpoint();
  if (checkpoint.keep() == 0) checkpoint.set_keep(2);
  if (!checkpoint.has_resume()) checkpoint.set_resume(true);
  const std::string path = "train.checkpoint.";
  errors.RequirePath(path + "directory", checkpoint.directory(),
                     "the directory to write checkpoints to");
  errors.RequireRange(path + "every_steps", checkpoint.every_steps(), 0,
                      kMaxSteps);
  errors.RequireRange(path + "keep", checkpoint.keep(), 1, kMaxKept);
  if (checkpoint.on_error() == v1::WRITE_ERROR_POLICY_UNSPECIFIED)
    checkpoint.set_on_error(v1::WRITE_ERROR_POLICY_CONTINUE);
  errors.RequireKnown(v1::WriteErrorPolicy_IsValid(checkpoint.on_error()),
                      path + "on_error", "continue or fail",
                      checkpoint.on_error());
}

void CheckNonFinite(v1::TrainProgram& train, SpecErrors& errors) {
  v1::NonFiniteSpec& non_finite = *train.mutable_non_finite();
  if (non_finite.policy() == v1::NON_FINITE_POLICY_UNSPECIFIED)
    non_finite.set_policy(v1::NON_FINITE_POLICY_SKIP);
  if (non_finite.max_in_a_row() == 0) non_finite.set_max_in_a_row(20);
  errors.RequireKnown(v1::NonFinitePolicy_IsValid(non_finite.policy()),
                      "train.non_finite.policy", "skip or fail",
                      non_finite.policy());
  errors.RequireRange("train.non_finite.max_in_a_row",
                      non_finite.max_in_a_row(), 1, kMaxSkippedInARow);
}

void CheckSample(v1::TrainProgram& train, SpecErrors& errors) {
  if (!train.has_sample()) return;
  v1::SampleSpec& sample = *train.mutable_sample();
  if (sample.bytes() == 0) sample.set_bytes(200);
  if (!sample.has_temperature()) sample.set_temperature(0.8);
  const std::string path = "train.sample";
  if (sample.prompt().empty()) {
    errors.Add(path + ".prompt must have at least one byte");
  } else if (sample.prompt().size() > kMaxPromptBytes) {
    errors.Add(absl::StrCat(path, ".prompt must have at most ", kMaxPromptBytes,
                            " bytes, got ", sample.prompt().size()));
  }
  errors.RequireRange(path + ".bytes", sample.bytes(), 1, kMaxSampleBytes);
  errors.RequireNotNegative(path + ".temperature", sample.temperature());
  errors.RequireRange(path + ".top_k", sample.top_k(), 0,
                      std::numeric_limits<int32_t>::max());
  if (train.data().has_tokens() && train.model().gpt().vocabulary() > 256) {
    errors.Add(path +
               " needs data of text: what tokens stand for, train.data.tokens "
               "does not tell (ringctl sample can write from a checkpoint)");
  }
  if (train.model().has_cnn()) {
    errors.Add(path +
               " needs a model that continues text: mlp, gpt or custom, not "
               "cnn");
  }
}

// Left out, it follows from what the workers compute on.
void CheckPrecision(const v1::TrainProgram& train, SpecErrors& errors) {
  if (train.precision() == v1::PRECISION_UNSPECIFIED) return;
  errors.RequireKnown(v1::Precision_IsValid(train.precision()),
                      "train.precision", "float32, bfloat16, tf32 or float16",
                      train.precision());
}

// The longest emulated forward or backward pass of a sample.
constexpr absl::Duration kMaxEmulated = absl::Minutes(1);

void CheckEmulation(const v1::TrainProgram& train, SpecErrors& errors) {
  if (!train.has_emulate_compute()) return;
  const v1::EmulateComputeSpec& emulation = train.emulate_compute();
  const std::string path = "train.emulate_compute";
  const absl::Duration forward = FromProto(emulation.forward());
  const absl::Duration backward = FromProto(emulation.backward());
  if (std::min(forward, backward) < absl::ZeroDuration() ||
      std::max(forward, backward) > kMaxEmulated ||
      forward + backward <= absl::ZeroDuration()) {
    errors.Add(absl::StrCat(
        path,
        " must say how long forward and backward take for a sample, at "
        "most ",
        absl::FormatDuration(kMaxEmulated), " each, got ",
        absl::FormatDuration(forward), " and ",
        absl::FormatDuration(backward)));
  }
  int before = 0;
  for (const int ready : emulation.ready_permille()) {
    if (ready < before || ready > 1000) {
      errors.Add(
          absl::StrCat(path, ".ready_permille must ascend from 0 to 1000, got ",
                       ready, " after ", before));
      return;
    }
    before = ready;
  }
}

void CheckTrain(v1::TrainProgram& train, int32_t max_workers,
                SpecErrors& errors) {
  if (train.global_batch() == 0) train.set_global_batch(256);
  if (train.seed() == 0) train.set_seed(1);
  if (!train.has_evaluation_samples()) train.set_evaluation_samples(4096);
  if (train.bucket_bytes() == 0) train.set_bucket_bytes(256 << 10);
  if (!train.has_hash_every()) train.set_hash_every(50);
  CheckModel(train, errors);
  CheckDataSource(train, errors);
  CheckOptimizer(train, errors);
  CheckPrecision(train, errors);
  CheckCheckpoint(train, errors);
  CheckNonFinite(train, errors);
  CheckCollective(train.collective(), "train.collective", errors);
  CheckParameterServer(train, max_workers, errors);
  CheckSample(train, errors);
  CheckEmulation(train, errors);
  errors.RequirePathOrNone("train.initial_parameters",
                           train.initial_parameters());
  errors.RequireRange("train.steps", train.steps(), 1, kMaxSteps);
  errors.RequireRange("train.global_batch", train.global_batch(), 1, kMaxBatch);
  if (train.global_batch() >= 1 && train.global_batch() < max_workers) {
    errors.Add(absl::StrCat(
        "train.global_batch must be at least workers.max (", max_workers,
        "), so that every rank has a sample, got ", train.global_batch()));
  }
  errors.RequireRange("train.micro_batch", train.micro_batch(), 0, kMaxBatch);
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
  SpecErrors errors;
  RefuseUnknownFields(spec, "", errors);
  CheckName(spec.name(), errors);
  CheckWorkers(*spec.mutable_workers(), errors);
  switch (spec.program_case()) {
    case v1::JobSpec::kTrain:
      CheckTrain(*spec.mutable_train(), spec.workers().max(), errors);
      break;
    case v1::JobSpec::kBench:
      CheckBench(*spec.mutable_bench(), spec.workers(), errors);
      break;
    case v1::JobSpec::PROGRAM_NOT_SET:
      errors.Add("the spec must have a program: train or bench");
      break;
  }
  if (absl::Status status = errors.ToStatus(); !status.ok()) return status;
  return spec;
}

std::string SerializeSpec(const v1::JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }  // the streams write what is left
  return bytes;
}

}  // namespace ringmaster::coordinator
