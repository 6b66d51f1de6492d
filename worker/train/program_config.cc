#include "worker/train/program_config.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/optimizer/optimizer_spec.h"
#include "common/rpc/proto_time.h"
#include "common/status/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status AtLeast(const char* field, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "train.", field, " must be at least ", least, ", got ", value));
}

// The numbers of a message as settings by name, so that a field added to a
// model's message needs no code here. Texts (a preset's name) were translated
// into numbers when the job was submitted.
ModelConfig::Settings NumbersOf(const Message& message) {
  ModelConfig::Settings settings;
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    std::vector<double> values;
    if (field->is_repeated()) {
      for (int j = 0; j < reflection.FieldSize(message, field); ++j)
        values.push_back(reflection.GetRepeatedInt32(message, field, j));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      values.push_back(reflection.GetInt32(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      values.push_back(reflection.GetDouble(message, field));
    } else {
      continue;
    }
    settings[field->name()] = std::move(values);
  }
  return settings;
}

absl::Status ParseModel(const v1::ModelSpec& spec, ModelConfig& config) {
  switch (spec.model_case()) {
    case v1::ModelSpec::kMlp:
      config = {"mlp", NumbersOf(spec.mlp())};
      return absl::OkStatus();
    case v1::ModelSpec::kGpt:
      config = {"gpt", NumbersOf(spec.gpt())};
      return absl::OkStatus();
    case v1::ModelSpec::kCnn:
      config = {"cnn", NumbersOf(spec.cnn())};
      return absl::OkStatus();
    case v1::ModelSpec::kCustom:
      config = {spec.custom().name(), {}};
      for (const auto& [name, value] : spec.custom().settings())
        config.settings[name] = {value};
      return absl::OkStatus();
    case v1::ModelSpec::MODEL_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "train.model names no model that this worker has; it has mlp, gpt, cnn "
      "and custom");
}

absl::Status ParseSource(const v1::DataSpec& spec, DataConfig& config) {
  switch (spec.source_case()) {
    case v1::DataSpec::kText:
      config.kind = "text";
      config.path = spec.text().path();
      config.eval_fraction = spec.text().eval_fraction();
      config.vocabulary_path = spec.text().vocabulary();
      config.merges_path = spec.text().merges();
      if (spec.text().max_bytes() > 0)
        config.max_bytes = spec.text().max_bytes();
      return absl::OkStatus();
    case v1::DataSpec::kSynthetic:
      config.kind = "synthetic";
      config.num_samples = spec.synthetic().samples();
      config.eval_fraction = spec.synthetic().eval_fraction();
      return absl::OkStatus();
    case v1::DataSpec::kTokens:
      config.kind = "tokens";
      config.path = spec.tokens().path();
      config.evaluation_path = spec.tokens().evaluation_path();
      config.eval_fraction = spec.tokens().eval_fraction();
      config.skip_corrupt =
          spec.tokens().corrupt_records() == v1::CORRUPT_RECORDS_SKIP;
      return absl::OkStatus();
    case v1::DataSpec::kImages:
      config.kind = "images";
      config.path = spec.images().images();
      config.labels_path = spec.images().labels();
      config.evaluation_path = spec.images().evaluation_images();
      config.evaluation_labels_path = spec.images().evaluation_labels();
      config.eval_fraction = spec.images().eval_fraction();
      config.skip_corrupt =
          spec.images().corrupt_records() == v1::CORRUPT_RECORDS_SKIP;
      return absl::OkStatus();
    case v1::DataSpec::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "train.data names no source that this worker has; it has text, tokens, "
      "images and synthetic");
}

absl::Status ParseCheckpoint(const v1::CheckpointSpec& spec,
                             CheckpointConfig& config) {
  if (spec.directory().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(AtLeast("checkpoint.every_steps", spec.every_steps(), 0));
  RETURN_IF_ERROR(AtLeast("checkpoint.keep", spec.keep(), 1));
  config.directory = spec.directory();
  config.every_steps = spec.every_steps();
  config.keep = spec.keep();
  config.resume = spec.resume();
  config.fails_on_error = spec.on_error() == v1::WRITE_ERROR_POLICY_FAIL;
  return absl::OkStatus();
}

absl::Status ParseNonFinite(const v1::NonFiniteSpec& spec,
                            ProgramConfig& config) {
  RETURN_IF_ERROR(AtLeast("non_finite.max_in_a_row", spec.max_in_a_row(), 0));
  if (spec.policy() == v1::NON_FINITE_POLICY_FAIL) {
    config.max_skipped_in_a_row = 1;
  } else if (spec.max_in_a_row() > 0) {
    config.max_skipped_in_a_row = spec.max_in_a_row();
  }
  return absl::OkStatus();
}

absl::Status ParseSample(const v1::SampleSpec& spec, SampleConfig& config) {
  if (spec.prompt().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(AtLeast("sample.bytes", spec.bytes(), 1));
  RETURN_IF_ERROR(AtLeast("sample.top_k", spec.top_k(), 0));
  if (!(spec.temperature() >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("train.sample.temperature must be at least 0, got ",
                     spec.temperature()));
  }
  config.prompt = spec.prompt();
  config.bytes = spec.bytes();
  config.temperature = spec.temperature();
  config.top_k = spec.top_k();
  return absl::OkStatus();
}

EmulationConfig EmulationOf(const v1::EmulateComputeSpec& spec) {
  EmulationConfig config;
  config.forward = FromProto(spec.forward());
  config.backward = FromProto(spec.backward());
  config.ready_permille.assign(spec.ready_permille().begin(),
                               spec.ready_permille().end());
  return config;
}

absl::StatusOr<Precision> PrecisionOf(v1::Precision precision,
                                      Precision default_precision) {
  switch (precision) {
    case v1::PRECISION_UNSPECIFIED:
      return default_precision;
    case v1::PRECISION_FLOAT32:
      return Precision::kFloat32;
    case v1::PRECISION_BFLOAT16:
      return Precision::kBFloat16;
    case v1::PRECISION_TF32:
      return Precision::kTf32;
    case v1::PRECISION_FLOAT16:
      return Precision::kFloat16;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("train.precision is ", static_cast<int>(precision),
                       ", which this worker does not know"));
  }
}

}  // namespace

std::string ProgramConfig::CanonicalText() const {
  std::string text = absl::StrCat(
      model.CanonicalText(), "\n", data.CanonicalText(), "\n",
      optimizer.CanonicalText(), "\nsteps=", steps,
      " global_batch=", global_batch, " micro_batch=", micro_batch,
      " precision=", PrecisionName(precision), " seed=", seed,
      " evaluate_every=", evaluate_every,
      " evaluation_samples=", evaluation_samples, " hash_every=", hash_every);
  if (!checkpoint.directory.empty()) {
    absl::StrAppend(&text, " checkpoint_every=", checkpoint.every_steps,
                    " resume=", checkpoint.resume);
  }
  if (parameter_server.has_value()) {
    absl::StrAppend(&text,
                    " parameter_server=", parameter_server->CanonicalText());
  }
  // Algorithm and transport are left out: ranks that disagree about them refuse
  // each other's frames.
  if (collective.wire.has_value()) {
    const std::string_view wire = DTypeName(*collective.wire);
    absl::StrAppend(&text,
                    " wire=", absl::string_view(wire.data(), wire.size()));
  }
  return text;
}

absl::StatusOr<ProgramConfig> ParseProgram(const v1::TrainProgram& program,
                                           Precision default_precision) {
  ProgramConfig config;
  RETURN_IF_ERROR(ParseModel(program.model(), config.model));
  config.data.seed = static_cast<uint64_t>(program.seed());
  RETURN_IF_ERROR(ParseSource(program.data(), config.data));
  ASSIGN_OR_RETURN(config.optimizer, ParseOptimizer(program.optimizer()));
  RETURN_IF_ERROR(AtLeast("steps", program.steps(), 1));
  RETURN_IF_ERROR(AtLeast("global_batch", program.global_batch(), 1));
  RETURN_IF_ERROR(AtLeast("micro_batch", program.micro_batch(), 0));
  RETURN_IF_ERROR(AtLeast("evaluate_every", program.evaluate_every(), 0));
  RETURN_IF_ERROR(
      AtLeast("evaluation_samples", program.evaluation_samples(), 0));
  RETURN_IF_ERROR(AtLeast("bucket_bytes", program.bucket_bytes(), 1));
  RETURN_IF_ERROR(AtLeast("hash_every", program.hash_every(), 0));
  RETURN_IF_ERROR(ParseCheckpoint(program.checkpoint(), config.checkpoint));
  RETURN_IF_ERROR(ParseSample(program.sample(), config.sample));
  RETURN_IF_ERROR(ParseNonFinite(program.non_finite(), config));
  ASSIGN_OR_RETURN(config.collective, ParseCollective(program.collective()));
  if (program.has_parameter_server()) {
    ASSIGN_OR_RETURN(config.parameter_server,
                     ParseUpdateRules(program, config.optimizer));
  }
  config.data.needs_held_out = program.evaluate_every() > 0;
  config.steps = program.steps();
  config.global_batch = program.global_batch();
  config.micro_batch = program.micro_batch();
  ASSIGN_OR_RETURN(config.precision,
                   PrecisionOf(program.precision(), default_precision));
  config.seed = static_cast<uint64_t>(program.seed());
  config.evaluate_every = program.evaluate_every();
  config.evaluation_samples = program.evaluation_samples();
  config.bucket_bytes = program.bucket_bytes();
  config.emulation = EmulationOf(program.emulate_compute());
  config.hash_every = program.hash_every();
  config.initial_parameters = program.initial_parameters();
  return config;
}

}  // namespace ringmaster
