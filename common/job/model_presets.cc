#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"
#include "common/text/quoted.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ringmaster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct Preset {
  const char* name;
  // Fields of the model's message.
  std::vector<std::pair<const char*, double>> values;
};

// The sizes that GPT-2 was published in (Radford et al., 2019).
Preset Gpt2(const char* name, int layers, int heads, int width) {
  return {name,
          {{"vocabulary", 50257},
           {"window", 1024},
           {"layers", layers},
           {"heads", heads},
           {"width", width}}};
}

// The sizes that BERT and RoBERTa were published in, and their vocabularies'
// special tokens.
Preset Bert(const char* name, int layers, int heads, int width,
            bool is_roberta) {
  Preset preset = {name,
                   {{"window", 512},
                    {"layers", layers},
                    {"heads", heads},
                    {"width", width},
                    {"dropout", 0.1}}};
  const std::vector<std::pair<const char*, double>> bert = {
      {"vocabulary", 30522}, {"separator", 102}, {"mask", 103}};
  const std::vector<std::pair<const char*, double>> roberta = {
      {"vocabulary", 50265},
      {"mask", 50264},
      {"roberta", 1},
      {"norm_epsilon", 1e-5}};
  for (const auto& value : is_roberta ? roberta : bert)
    preset.values.push_back(value);
  return preset;
}

const std::vector<Preset>& PresetsOf(const std::string& message) {
  static const auto& gpt = *new std::vector<Preset>{
      Gpt2("gpt2", 12, 12, 768),
      Gpt2("gpt2-medium", 24, 16, 1024),
      Gpt2("gpt2-large", 36, 20, 1280),
      Gpt2("gpt2-xl", 48, 25, 1600),
  };
  // From the config.json of JackFram/llama-160m, HuggingFaceTB/SmolLM-135M and
  // TinyLlama/TinyLlama-1.1B on Hugging Face's hub.
  static const auto& llama = *new std::vector<Preset>{
      {"llama-160m",
       {{"vocabulary", 32000},
        {"window", 2048},
        {"layers", 12},
        {"heads", 12},
        {"kv_heads", 12},
        {"width", 768},
        {"hidden", 3072},
        {"norm_epsilon", 1e-6}}},
      {"smollm-135m",
       {{"vocabulary", 49152},
        {"window", 2048},
        {"layers", 30},
        {"heads", 9},
        {"kv_heads", 3},
        {"width", 576},
        {"hidden", 1536},
        {"tied", 1}}},
      {"tinyllama-1.1b",
       {{"vocabulary", 32000},
        {"window", 2048},
        {"layers", 22},
        {"heads", 32},
        {"kv_heads", 4},
        {"width", 2048},
        {"hidden", 5632}}},
  };
  static const auto& bert = *new std::vector<Preset>{
      Bert("bert-base", 12, 12, 768, false),
      Bert("bert-large", 24, 16, 1024, false),
      Bert("roberta-base", 12, 12, 768, true),
      Bert("roberta-large", 24, 16, 1024, true),
  };
  static const auto& resnet =
      *new std::vector<Preset>{{"resnet18", {{"depth", 18}}},
                               {"resnet34", {{"depth", 34}}},
                               {"resnet50", {{"depth", 50}}}};
  static const auto& none = *new std::vector<Preset>();
  if (message == "GptSpec") return gpt;
  if (message == "BertSpec") return bert;
  if (message == "ResnetSpec") return resnet;
  return message == "LlamaSpec" ? llama : none;
}

// The field of the model that is set; null if none is.
const FieldDescriptor* KindOf(const v1::ModelSpec& model) {
  return model.GetReflection()->GetOneofFieldDescriptor(
      model, model.GetDescriptor()->FindOneofByName("model"));
}

// Null if the model has no presets.
const FieldDescriptor* PresetField(const Message& kind) {
  return kind.GetDescriptor()->FindFieldByName("preset");
}

// Sets `field` if it has no value yet.
void SetIfUnset(const FieldDescriptor* field, double value, Message& kind) {
  const Reflection& reflection = *kind.GetReflection();
  if (field->has_presence() && reflection.HasField(kind, field)) return;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (reflection.GetInt32(kind, field) == 0)
        reflection.SetInt32(&kind, field, static_cast<int32_t>(value));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (reflection.GetDouble(kind, field) == 0)
        reflection.SetDouble(&kind, field, value);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&kind, field, value != 0);
      return;
    default:
      return;
  }
}

}  // namespace

void FillPreset(v1::ModelSpec& model, SpecErrors& errors) {
  const FieldDescriptor* const field = KindOf(model);
  if (field == nullptr) return;
  Message& kind = *model.GetReflection()->MutableMessage(&model, field);
  const FieldDescriptor* const name = PresetField(kind);
  if (name == nullptr) return;
  const std::string chosen = kind.GetReflection()->GetString(kind, name);
  if (chosen.empty()) return;
  std::string known;
  for (const Preset& preset : PresetsOf(kind.GetDescriptor()->name())) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", preset.name);
    if (chosen != preset.name) continue;
    for (const auto& [setting, value] : preset.values)
      SetIfUnset(kind.GetDescriptor()->FindFieldByName(setting), value, kind);
    return;
  }
  errors.Add(absl::StrCat("train.model.", field->name(),
                          ".preset must be one of ", known,
                          ", or be left out, got ", Quoted(chosen)));
}

bool HasAllSizes(const v1::ModelSpec& model) {
  const FieldDescriptor* const field = KindOf(model);
  if (field == nullptr) return true;
  const Message& kind = model.GetReflection()->GetMessage(model, field);
  if (PresetField(kind) == nullptr) return true;
  for (const char* size : {"vocabulary", "window", "layers", "heads", "width",
                           "kv_heads", "hidden", "depth"}) {
    const FieldDescriptor* const number =
        kind.GetDescriptor()->FindFieldByName(size);
    if (number != nullptr && kind.GetReflection()->GetInt32(kind, number) == 0)
      return false;
  }
  return true;
}

}  // namespace ringmaster
