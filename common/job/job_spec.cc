#include "common/job/job_spec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job/field_rules.h"
#include "common/job/program_rules.h"
#include "common/job/spec_errors.h"
#include "common/job/token_model.h"
#include "common/protocol/labels.h"
#include "common/protocol/proto_time.h"
#include "common/text/quoted.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"

namespace ringmaster {
namespace {

constexpr size_t kMaxNameLength = 40;
constexpr int kDefaultStaleness = 2;

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

void AddName(const char* field, const std::string& name, SpecErrors& errors) {
  const absl::Status status = CheckName(field, name);
  if (!status.ok()) errors.Add(std::string(status.message()));
}

void CheckRequired(const Labels& labels, SpecErrors& errors) {
  for (const auto& [key, value] : labels) {
    const absl::Status status = CheckLabel(key, value);
    if (!status.ok())
      errors.Add(absl::StrCat("workers.require: ", status.message()));
  }
}

// ---- Defaults that other fields decide.

void FillTrain(v1::TrainProgram& train) {
  if (train.has_model()) FillModel(*train.mutable_model());
  if (!train.has_parameter_server()) return;
  v1::ParameterServerSpec& servers = *train.mutable_parameter_server();
  if (servers.consistency() == v1::CONSISTENCY_SSP && servers.staleness() == 0)
    servers.set_staleness(kDefaultStaleness);
}

void Fill(v1::JobSpec& spec, SpecErrors& errors) {
  if (spec.train().has_model())
    FillPreset(*spec.mutable_train()->mutable_model(), errors);
  FillDefaults(spec);
  if (spec.workers().max() == 0)
    spec.mutable_workers()->set_max(spec.workers().min());
  if (spec.has_train()) FillTrain(*spec.mutable_train());
}

// ---- Checks of several fields, each of which keeps its own rule.

void CheckSample(const v1::TrainProgram& train, SpecErrors& errors) {
  if (!train.has_sample()) return;
  const auto tokens = TokenModelOf(train.model());
  if (train.data().has_tokens() && tokens && tokens->vocabulary > 256) {
    errors.Add(
        "train.sample needs data of text: what tokens stand for, "
        "train.data.tokens does not tell (ringctl sample can write from a "
        "checkpoint)");
  }
  const char* const kind =
      train.model().has_bert() ? "bert" : ImageModelOf(train.model());
  if (kind != nullptr) {
    errors.Add(absl::StrCat(
        "train.sample needs a model that continues text: mlp, gpt, llama or "
        "custom, not ",
        kind));
  }
}

void CheckEmulation(const v1::TrainProgram& train, SpecErrors& errors) {
  if (!train.has_emulate_compute()) return;
  const v1::EmulateComputeSpec& emulation = train.emulate_compute();
  const std::string path = "train.emulate_compute";
  const absl::Duration forward = FromProto(emulation.forward());
  const absl::Duration backward = FromProto(emulation.backward());
  if (forward + backward <= absl::ZeroDuration()) {
    errors.Add(absl::StrCat(
        path,
        " must say how long forward and backward take for a sample, at most "
        "1m each, got ",
        absl::FormatDuration(forward), " and ",
        absl::FormatDuration(backward)));
  }
  int before = 0;
  for (const int ready : emulation.ready_permille()) {
    if (ready < before) {
      errors.Add(
          absl::StrCat(path, ".ready_permille must ascend from 0 to 1000, got ",
                       ready, " after ", before));
      return;
    }
    before = ready;
  }
}

void CheckSchedule(const v1::ScheduleSpec& schedule, int64_t steps,
                   SpecErrors& errors) {
  const std::string path = "train.optimizer.schedule";
  const bool is_wsd = schedule.kind() == v1::SCHEDULE_KIND_WSD;
  if (schedule.warmup_steps() > steps) {
    errors.Add(absl::StrCat(path, ".warmup_steps must be at most train.steps (",
                            steps, "), got ", schedule.warmup_steps()));
  } else if (!is_wsd && schedule.decay_steps() > 0) {
    errors.Add(absl::StrCat(path, ".decay_steps needs ", path,
                            ".kind wsd, got ", schedule.decay_steps()));
  } else if (is_wsd && schedule.decay_steps() == 0) {
    errors.Add(absl::StrCat(path, ".kind wsd needs ", path,
                            ".decay_steps, the last steps, over which the "
                            "learning rate falls"));
  } else if (schedule.decay_steps() > steps - schedule.warmup_steps()) {
    errors.Add(absl::StrCat(
        path, ".decay_steps must be at most train.steps without the warm-up (",
        steps - schedule.warmup_steps(), "), got ", schedule.decay_steps()));
  }
}

void CheckOptimizer(const v1::TrainProgram& train, SpecErrors& errors) {
  const v1::OptimizerSpec& optimizer = train.optimizer();
  if (optimizer.sgd().nesterov() && optimizer.sgd().momentum() == 0) {
    errors.Add(
        "train.optimizer.sgd.nesterov needs train.optimizer.sgd.momentum above "
        "0, got 0");
  }
  CheckSchedule(optimizer.schedule(), train.steps(), errors);
}

void CheckOptimizerSharding(const v1::TrainProgram& train, int max_workers,
                            SpecErrors& errors) {
  if (!train.has_optimizer_sharding()) return;
  if (train.has_parameter_server()) {
    errors.Add(
        "train.optimizer_sharding must be left out with "
        "train.parameter_server: the servers have the moments");
    return;
  }
  if (train.optimizer().has_sgd() && train.optimizer().sgd().momentum() == 0) {
    errors.Add(
        "train.optimizer_sharding needs an optimizer with moments: adamw, or "
        "sgd with momentum");
  }
  if (train.optimizer_sharding().mirror() >= max_workers) {
    errors.Add(absl::StrCat(
        "train.optimizer_sharding.mirror must be below workers.max (",
        max_workers, "), since a mirror is on another worker, got ",
        train.optimizer_sharding().mirror()));
  }
}

void CheckEvaluations(const v1::TrainProgram& train, SpecErrors& errors) {
  if (train.checkpoint().keep_best() && train.evaluate_every() == 0) {
    errors.Add(
        "train.checkpoint.keep_best needs train.evaluate_every above 0, got 0: "
        "without evaluations there is no best");
  }
  if (!train.has_early_stop()) return;
  if (train.evaluate_every() == 0) {
    errors.Add(
        "train.early_stop needs train.evaluate_every above 0, got 0: without "
        "evaluations there is nothing to stop for");
  }
  if (train.has_emulate_compute()) {
    errors.Add(
        "train.early_stop does not go with train.emulate_compute, with which "
        "nothing is learnt");
  }
}

// Samples of a step that go to one worker together.
int64_t SampleGroup(const v1::TrainProgram& train) {
  return std::max(1, train.model().resnet().norm_group());
}

void CheckWorkers(const v1::TrainProgram& train, int max_workers,
                  SpecErrors& errors) {
  const int64_t group = SampleGroup(train);
  if (train.global_batch() / group >= max_workers) return;
  const std::string times =
      group == 1
          ? ""
          : absl::StrCat(" times train.model.resnet.norm_group (", group, ")");
  errors.Add(absl::StrCat(
      "train.global_batch must be at least workers.max (", max_workers, ")",
      times, ", so that every rank has a ", group == 1 ? "sample" : "group",
      ", got ", train.global_batch()));
}

void CheckTrain(const v1::TrainProgram& train, int max_workers,
                SpecErrors& errors) {
  CheckModel(train, errors);
  CheckData(train, errors);
  CheckOptimizer(train, errors);
  CheckParameterServer(train, max_workers, errors);
  CheckOptimizerSharding(train, max_workers, errors);
  CheckSample(train, errors);
  CheckEmulation(train, errors);
  CheckEvaluations(train, errors);
  CheckWorkers(train, max_workers, errors);
}

// Checks that each required choice has been made.
void CheckChoices(const v1::JobSpec& spec, SpecErrors& errors) {
  if (spec.program_case() == v1::JobSpec::PROGRAM_NOT_SET)
    errors.Add("the spec must have a program: train, bench or external");
  if (!spec.has_train()) return;
  if (spec.train().model().model_case() == v1::ModelSpec::MODEL_NOT_SET)
    errors.Add(
        "train.model must name a model: mlp, gpt, llama, bert, cnn, resnet "
        "or custom");
  if (spec.train().data().source_case() == v1::DataSpec::SOURCE_NOT_SET) {
    errors.Add(
        "train.data must name a source: text, tokens, images, image_folder, "
        "labelled_text or "
        "synthetic");
  }
}

}  // namespace

absl::Status CheckName(const char* field, const std::string& name) {
  const bool is_good =
      !name.empty() && name.size() <= kMaxNameLength &&
      absl::ascii_islower(name.front()) && name.back() != '-' &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
      });
  if (is_good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " must be 1 to ", kMaxNameLength,
      " lower-case letters, digits and dashes, begin with a letter and not "
      "end with a dash, got ",
      Quoted(name, 2 * kMaxNameLength)));
}

absl::StatusOr<v1::JobSpec> ValidateAndDefault(v1::JobSpec spec) {
  SpecErrors errors;
  RefuseUnknownFields(spec, "", errors);
  Fill(spec, errors);
  AddName("name", spec.name(), errors);
  if (!spec.queue().empty()) AddName("queue", spec.queue(), errors);
  CheckRequired(RequiredLabels(spec), errors);
  CheckChoices(spec, errors);
  CheckRules(spec, "", errors);
  if (errors.empty()) {
    if (spec.workers().max() < spec.workers().min()) {
      errors.Add(absl::StrCat("workers.max must be at least workers.min (",
                              spec.workers().min(), "), got ",
                              spec.workers().max()));
    }
    if (spec.has_train())
      CheckTrain(spec.train(), spec.workers().max(), errors);
    if (spec.has_bench()) CheckBench(spec.bench(), spec.workers(), errors);
    if (spec.has_external()) CheckExternal(spec.external(), errors);
  }
  if (const size_t bytes = spec.ByteSizeLong(); bytes > kMaxSpecBytes) {
    errors.Add(absl::StrCat("the spec must take at most ", kMaxSpecBytes,
                            " bytes, got ", bytes));
  }
  if (absl::Status status = errors.ToStatus(); !status.ok()) return status;
  return spec;
}

absl::StatusOr<v1::TrainProgram> DefaultProgram(v1::TrainProgram program) {
  SpecErrors errors;
  // A coordinator that has translated the preset may know more of them.
  if (!HasAllSizes(program.model()))
    FillPreset(*program.mutable_model(), errors);
  FillDefaults(program);
  FillTrain(program);
  CheckRules(program, "train", errors);
  if (absl::Status status = errors.ToStatus(); !status.ok()) return status;
  return program;
}

absl::StatusOr<v1::BenchProgram> DefaultProgram(v1::BenchProgram program) {
  SpecErrors errors;
  FillDefaults(program);
  CheckRules(program, "bench", errors);
  if (absl::Status status = errors.ToStatus(); !status.ok()) return status;
  return program;
}

absl::StatusOr<v1::ExternalProgram> DefaultProgram(
    v1::ExternalProgram program) {
  SpecErrors errors;
  FillDefaults(program);
  CheckRules(program, "external", errors);
  if (errors.empty()) CheckExternal(program, errors);
  if (absl::Status status = errors.ToStatus(); !status.ok()) return status;
  return program;
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

Labels RequiredLabels(const v1::JobSpec& spec) {
  return Labels(spec.workers().require().begin(),
                spec.workers().require().end());
}

int ScaleLimit(const v1::JobSpec& spec) {
  if (spec.has_bench()) return 0;
  auto limit = static_cast<int64_t>(
      v1::WorkerRange::descriptor()
          ->FindFieldByNumber(v1::WorkerRange::kMaxFieldNumber)
          ->options()
          .GetExtension(v1::rule)
          .at_most());
  if (spec.has_train()) {
    limit = std::min(limit,
                     spec.train().global_batch() / SampleGroup(spec.train()));
    if (spec.train().parameter_server().colocated())
      limit = std::min<int64_t>(limit, spec.workers().max());
  }
  return static_cast<int>(limit);
}

bool CanGoOnLater(const v1::JobSpec& spec) {
  if (spec.has_external()) return spec.external().requeue();
  const v1::CheckpointSpec& checkpoint = spec.train().checkpoint();
  // Present in a job that has been checked, with its default.
  return !checkpoint.directory().empty() && checkpoint.resume();
}

bool CanEndEarly(const v1::JobSpec& spec) {
  return spec.train().has_early_stop();
}

bool FailsOnWriteError(const v1::JobSpec& spec) {
  const v1::CheckpointSpec& checkpoint = spec.train().checkpoint();
  return !checkpoint.directory().empty() &&
         checkpoint.on_error() == v1::WRITE_ERROR_POLICY_FAIL;
}

}  // namespace ringmaster
