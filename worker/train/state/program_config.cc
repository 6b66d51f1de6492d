#include "worker/train/state/program_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/field_rules.h"
#include "common/job/job_spec.h"
#include "common/optimizer/optimizer_spec.h"
#include "common/protocol/enum_pairs.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ringmaster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The numbers of a message (1 for true) as settings by name, so that a field
// added to a model's message needs no code here. The only text is a preset's
// name, which its sizes stand for.
ModelConfig::Settings NumbersOf(const Message& message) {
  ModelConfig::Settings settings;
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    std::vector<double> values;
    if (field->is_repeated()) {
      for (int j = 0; j < reflection.FieldSize(message, field); ++j)
        values.push_back(reflection.GetRepeatedInt32(message, field, j));
      if (values.empty()) continue;  // the model's own default
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      values.push_back(reflection.GetInt32(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      values.push_back(reflection.GetDouble(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      values.push_back(reflection.GetBool(message, field) ? 1 : 0);
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
    case v1::ModelSpec::kLlama:
      config = {"llama", NumbersOf(spec.llama())};
      return absl::OkStatus();
    case v1::ModelSpec::kBert:
      config = {"bert", NumbersOf(spec.bert())};
      return absl::OkStatus();
    case v1::ModelSpec::kResnet:
      config = {"resnet", NumbersOf(spec.resnet())};
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
      "train.model names no model that this worker has; it has mlp, gpt, "
      "llama, bert, cnn, resnet and custom");
}

void ParseLabelledText(const v1::LabelledTextSource& spec, DataConfig& config) {
  config.kind = "labelled_text";
  config.path = spec.path();
  config.evaluation_path = spec.evaluation_path();
  config.eval_fraction = spec.eval_fraction();
  config.text_column = spec.text();
  config.second_text_column = spec.second_text();
  config.label_column = spec.label();
  config.label_names.assign(spec.labels().begin(), spec.labels().end());
  config.vocabulary_path = spec.vocabulary();
  config.merges_path = spec.merges();
  config.lowercase = spec.lowercase();
  config.max_bytes = spec.max_bytes();
  config.skip_corrupt = spec.corrupt_records() == v1::CORRUPT_RECORDS_SKIP;
}

void ParseImageFolder(const v1::ImageFolderSource& spec, DataConfig& config) {
  config.kind = "image_folder";
  config.path = spec.path();
  config.evaluation_path = spec.evaluation_path();
  config.eval_fraction = spec.eval_fraction();
  config.crop_area = spec.crop_area();
  config.flip = spec.flip();
  config.evaluation_crop = spec.evaluation_crop();
  config.decode_threads = spec.decode_threads();
  config.skip_corrupt = spec.corrupt_records() == v1::CORRUPT_RECORDS_SKIP;
}

absl::Status ParseSource(const v1::DataSpec& spec, DataConfig& config) {
  switch (spec.source_case()) {
    case v1::DataSpec::kText:
      config.kind = "text";
      config.path = spec.text().path();
      config.eval_fraction = spec.text().eval_fraction();
      config.vocabulary_path = spec.text().vocabulary();
      config.merges_path = spec.text().merges();
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
    case v1::DataSpec::kLabelledText:
      ParseLabelledText(spec.labelled_text(), config);
      return absl::OkStatus();
    case v1::DataSpec::kImageFolder:
      ParseImageFolder(spec.image_folder(), config);
      return absl::OkStatus();
    case v1::DataSpec::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "train.data names no source that this worker has; it has text, tokens, "
      "images, image_folder, labelled_text and synthetic");
}

EmulationConfig EmulationOf(const v1::EmulateComputeSpec& spec) {
  EmulationConfig config;
  config.forward = FromProto(spec.forward());
  config.backward = FromProto(spec.backward());
  config.ready_permille.assign(spec.ready_permille().begin(),
                               spec.ready_permille().end());
  return config;
}

constexpr EnumPair<v1::Precision, Precision> kPrecisions[] = {
    {v1::PRECISION_FLOAT32, Precision::kFloat32},
    {v1::PRECISION_BFLOAT16, Precision::kBFloat16},
    {v1::PRECISION_TF32, Precision::kTf32},
    {v1::PRECISION_FLOAT16, Precision::kFloat16}};

}  // namespace

v1::TrainProgram ProgramConfig::DefaultedProgram() {
  v1::TrainProgram program;
  FillDefaults(program);
  return program;
}

std::string ProgramConfig::CanonicalText() const {
  return absl::StrCat(AgreedText(program), "\n", data.CanonicalText(),
                      "\nprecision=", PrecisionName(precision));
}

int64_t ProgramConfig::sample_group() const {
  const auto group = model.settings.find("norm_group");
  if (group == model.settings.end() || group->second.size() != 1) return 1;
  return std::max<int64_t>(1, static_cast<int64_t>(group->second[0]));
}

absl::StatusOr<ProgramConfig> ParseProgram(const v1::TrainProgram& given,
                                           Precision default_precision) {
  ProgramConfig config;
  ASSIGN_OR_RETURN(config.program, DefaultProgram(given));
  const v1::TrainProgram& program = config.program;
  RETURN_IF_ERROR(ParseModel(program.model(), config.model));
  // Of a custom model that is one with norms; others have a rule in the job.
  if (program.global_batch() % config.sample_group() != 0 ||
      program.micro_batch() % config.sample_group() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train.global_batch and train.micro_batch must be multiples of "
        "train.model's norm_group (",
        config.sample_group(), "), got ", program.global_batch(), " and ",
        program.micro_batch()));
  }
  config.data.seed = static_cast<uint64_t>(program.seed());
  config.data.needs_held_out = program.evaluate_every() > 0;
  RETURN_IF_ERROR(ParseSource(program.data(), config.data));
  ASSIGN_OR_RETURN(config.optimizer, ParseOptimizer(program.optimizer()));
  config.precision = program.precision() == v1::PRECISION_UNSPECIFIED
                         ? default_precision
                         : OwnOf(kPrecisions, program.precision());
  config.collective = CollectiveConfigOf(program.collective());
  config.emulation = EmulationOf(program.emulate_compute());
  if (program.has_parameter_server()) {
    ASSIGN_OR_RETURN(config.parameter_server,
                     ParseUpdateRules(program, config.optimizer));
  }
  return config;
}

}  // namespace ringmaster
