#include "server/ctl/commands/job_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/read_file.h"
#include "common/config/yaml_to_proto.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ringmaster::ctl {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr absl::Duration kLocalSettle = absl::Seconds(20);

// The shortest text that reads back as the same number.
std::string NumberText(double value) {
  std::array<char, 32> text{};
  const std::to_chars_result end =
      std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

// YAML's double quotes take C's escapes.
std::string YamlQuoted(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

std::string ScalarText(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberText(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return YamlNameOf(*reflection.GetEnum(message, &field));
    default:
      return YamlQuoted(reflection.GetString(message, &field));
  }
}

std::string ItemText(const Message& message, const FieldDescriptor& field,
                     int index) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection.GetRepeatedInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection.GetRepeatedInt64(message, &field, index));
    default:
      return YamlQuoted(reflection.GetRepeatedString(message, &field, index));
  }
}

// "[32, 64]", or "{\"depth\": 2}" of values by name: JobSpec has lists of whole
// numbers and of texts, and maps from texts.
std::string RepeatedText(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<std::string> items;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (!field.is_map()) {
      items.push_back(ItemText(message, field, i));
      continue;
    }
    const Message& pair = reflection.GetRepeatedMessage(message, &field, i);
    const auto& entry = *field.message_type();
    items.push_back(absl::StrCat(ScalarText(pair, *entry.map_key()), ": ",
                                 ScalarText(pair, *entry.map_value())));
  }
  // The order of a map is not its own.
  if (field.is_map()) std::sort(items.begin(), items.end());
  return field.is_map() ? absl::StrCat("{", absl::StrJoin(items, ", "), "}")
                        : absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

void AppendYaml(const Message& message, const std::string& indent,
                std::string& yaml) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    absl::StrAppend(&yaml, indent, field->name(), ":");
    if (field->is_repeated()) {
      absl::StrAppend(&yaml, " ", RepeatedText(message, *field), "\n");
      continue;
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      absl::StrAppend(&yaml, " ", ScalarText(message, *field), "\n");
      continue;
    }
    const Message& value = message.GetReflection()->GetMessage(message, field);
    if (const auto* duration =
            dynamic_cast<const google::protobuf::Duration*>(&value)) {
      absl::StrAppend(&yaml, " ", absl::FormatDuration(FromProto(*duration)),
                      "\n");
    } else if (value.ByteSizeLong() == 0) {
      absl::StrAppend(&yaml, " {}\n");
    } else {
      yaml.append("\n");
      AppendYaml(value, indent + "  ", yaml);
    }
  }
}

absl::Status ReadStandardInput(v1::JobSpec& spec) {
  // One more than is allowed, so that YamlToProto sees that there is more.
  std::string yaml(kMaxTextFileBytes + 1, '\0');
  yaml.resize(static_cast<size_t>(std::cin.rdbuf()->sgetn(
      yaml.data(), static_cast<std::streamsize>(yaml.size()))));
  if (yaml.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(JobFileName("-"),
                     ": it is empty; pass a job file to it, as in: ringctl "
                     "submit - <job.yaml"));
  }
  return YamlToProto(yaml, JobFileName("-"), spec);
}

}  // namespace

std::string JobFileName(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

absl::StatusOr<v1::JobSpec> LoadJobFile(
    const std::string& path, const std::vector<std::string>& assignments) {
  v1::JobSpec spec;
  RETURN_IF_ERROR(path == "-" ? ReadStandardInput(spec)
                              : YamlFileToProto(path, spec));
  for (const std::string& assignment : assignments)
    RETURN_IF_ERROR(SetProtoField(assignment, spec));
  return spec;
}

std::string ToYaml(const v1::JobSpec& spec) {
  std::string yaml;
  AppendYaml(spec, "", yaml);
  return yaml;
}

absl::StatusOr<int> FitToLocalWorkers(int count, v1::JobSpec& spec) {
  v1::WorkerRange& range = *spec.mutable_workers();
  if (count == 0) count = std::max({range.min(), range.max(), 1});
  if (range.min() > count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the job needs at least ", range.min(),
        " workers (workers.min), but -n ", count, " asks for fewer: give -n ",
        range.min(), " or --set workers.min=", count));
  }
  // Figures are of one number of ranks.
  if (spec.has_bench()) range.set_min(count);
  range.set_max(count);
  if (!range.has_settle()) *range.mutable_settle() = ToProto(kLocalSettle);
  return count;
}

}  // namespace ringmaster::ctl
