#include "common/job/field_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/config/yaml_scalar.h"
#include "common/protocol/proto_time.h"
#include "common/status/check.h"
#include "common/text/quoted.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "ringmaster/v1/field_rule.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using v1::FieldRule;

constexpr size_t kMaxPathBytes = 4096;
// Names are shown in errors.
constexpr size_t kMaxShownName = 80;

const FieldRule& RuleOf(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::rule);
}

bool IsDuration(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type() == google::protobuf::Duration::descriptor();
}

// A message with fields of its own.
bool IsNested(const FieldDescriptor& field) {
  return field.message_type() != nullptr && !field.is_repeated() &&
         !IsDuration(field);
}

bool IsLeftOut(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) == 0
                             : !reflection.HasField(message, &field);
}

std::string PathOf(const std::string& path, const FieldDescriptor& field) {
  return path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
}

// The field called `name` beside `field`.
const FieldDescriptor& Beside(const FieldDescriptor& field,
                              const std::string& name) {
  const FieldDescriptor* const other =
      field.containing_type()->FindFieldByName(name);
  RM_CHECK(other != nullptr, "a rule names a field that is not there");
  return *other;
}

bool HasSubstitute(const Message& message, const FieldDescriptor& field) {
  const std::string& name = RuleOf(field).unless();
  return !name.empty() && !IsLeftOut(message, Beside(field, name));
}

// ---- Defaults.

void SetDefault(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const std::string& text = RuleOf(field).default_value();
  absl::Status status;
  if (IsDuration(field)) {
    status = SetDurationMessage({text},
                                *reflection.MutableMessage(&message, &field));
  } else if (field.is_repeated()) {
    for (const absl::string_view entry : absl::StrSplit(text, ", "))
      status.Update(SetScalarField({std::string(entry)}, field, message));
  } else {
    status = SetScalarField({text}, field, message);
  }
  RM_CHECK(status.ok(), "a rule's default is not a value of its field");
}

bool IsImplied(const Message& message, const FieldDescriptor& field) {
  if (!RuleOf(field).implied()) return false;
  const auto* const oneof = field.real_containing_oneof();
  return oneof == nullptr || !message.GetReflection()->HasOneof(message, oneof);
}

// ---- Bounds.

std::string Number(double value, const FieldDescriptor& field) {
  if (IsDuration(field)) {
    return value == 0 ? "0s" : absl::FormatDuration(absl::Seconds(value));
  }
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return absl::StrCat(static_cast<int64_t>(value));
  return absl::StrCat(value);
}

std::string LowerText(const FieldDescriptor& field) {
  const FieldRule& rule = RuleOf(field);
  switch (rule.lower_case()) {
    case FieldRule::kAtLeast:
      return absl::StrCat("at least ", Number(rule.at_least(), field));
    case FieldRule::kAbove:
      return absl::StrCat("above ", Number(rule.above(), field));
    case FieldRule::LOWER_NOT_SET:
      return "";
  }
  return "";
}

std::string UpperText(const FieldDescriptor& field) {
  const FieldRule& rule = RuleOf(field);
  switch (rule.upper_case()) {
    case FieldRule::kAtMost:
      return absl::StrCat("at most ", Number(rule.at_most(), field));
    case FieldRule::kBelow:
      return absl::StrCat("below ", Number(rule.below(), field));
    case FieldRule::UPPER_NOT_SET:
      return "";
  }
  return "";
}

// NaN is on the wrong side of any bound.
bool IsHighEnough(double value, const FieldRule& rule) {
  if (rule.has_at_least()) return value >= rule.at_least();
  return !rule.has_above() || value > rule.above();
}

bool IsLowEnough(double value, const FieldRule& rule) {
  if (rule.has_at_most()) return value <= rule.at_most();
  return !rule.has_below() || value < rule.below();
}

bool KeepsBounds(double value, const FieldRule& rule) {
  return IsHighEnough(value, rule) && IsLowEnough(value, rule);
}

// ---- Checks.

void CheckInteger(int64_t value, const FieldDescriptor& field,
                  const std::string& path, SpecErrors& errors) {
  const FieldRule& rule = RuleOf(field);
  const auto number = static_cast<double>(value);
  if (KeepsBounds(number, rule)) return;
  errors.Add(absl::StrCat(
      path, " must be ",
      IsHighEnough(number, rule) ? UpperText(field) : LowerText(field),
      ", got ", value));
}

void CheckDouble(double value, const FieldDescriptor& field,
                 const std::string& path, SpecErrors& errors) {
  const FieldRule& rule = RuleOf(field);
  if (std::isfinite(value) && KeepsBounds(value, rule)) return;
  std::vector<std::string> bounds;
  if (rule.lower_case() != FieldRule::LOWER_NOT_SET)
    bounds.push_back(LowerText(field));
  bounds.push_back(rule.upper_case() != FieldRule::UPPER_NOT_SET
                       ? UpperText(field)
                       : "finite");
  errors.Add(absl::StrCat(path, " must be ", absl::StrJoin(bounds, " and "),
                          ", got ", value));
}

void CheckDuration(const Message& message, const FieldDescriptor& field,
                   const std::string& path, SpecErrors& errors) {
  const absl::Duration value =
      FromProto(static_cast<const google::protobuf::Duration&>(
          message.GetReflection()->GetMessage(message, &field)));
  const double seconds = absl::ToDoubleSeconds(value);
  if (KeepsBounds(seconds, RuleOf(field))) return;
  errors.Add(absl::StrCat(path, " must be ", BoundsText(field), ", got ",
                          absl::FormatDuration(value)));
}

void CheckEnum(int number, const FieldDescriptor& field,
               const std::string& path, SpecErrors& errors) {
  const EnumDescriptor& type = *field.enum_type();
  if (type.FindValueByNumber(number) != nullptr) return;
  std::string names;
  for (int i = 1; i < type.value_count(); ++i) {  // 0 is "not set"
    absl::StrAppend(&names,
                    i == 1                        ? ""
                    : i + 1 == type.value_count() ? " or "
                                                  : ", ",
                    ShortEnumName(*type.value(i)));
  }
  errors.Add(absl::StrCat(path, " must be ", names, ", got ", number,
                          "; this program may be older than the one that "
                          "wrote it"));
}

void CheckSize(int size, const FieldDescriptor& field, const std::string& path,
               SpecErrors& errors) {
  const FieldRule& rule = RuleOf(field);
  const bool is_short = size < rule.min_size();
  if (!is_short && (rule.max_size() == 0 || size <= rule.max_size())) return;
  errors.Add(absl::StrCat(
      path, path.back() == 's' ? "'" : "'s", " number of entries must be at ",
      is_short ? "least " : "most ",
      is_short ? rule.min_size() : rule.max_size(), ", got ", size));
}

void CheckString(const std::string& value, const FieldDescriptor& field,
                 const std::string& path, SpecErrors& errors) {
  const FieldRule& rule = RuleOf(field);
  if (rule.path_of().empty()) {
    const auto max_size = static_cast<size_t>(rule.max_size());
    if (value.size() < static_cast<size_t>(rule.min_size()) ||
        (max_size > 0 && value.size() > max_size)) {
      errors.Add(absl::StrCat(path, " must have ", BoundsText(field),
                              " bytes, got ", value.size()));
    }
    return;
  }
  if (value.empty() && rule.required()) {
    errors.Add(absl::StrCat(path, " must name ", rule.path_of()));
  } else if (value.size() > kMaxPathBytes) {
    errors.Add(absl::StrCat(path, " must have at most ", kMaxPathBytes,
                            " bytes, got ", value.size()));
  } else if (value.find('\0') != std::string::npos) {
    errors.Add(absl::StrCat(path, " must not contain a zero byte"));
  }
}

void CheckMap(const Message& message, const FieldDescriptor& field,
              const std::string& path, SpecErrors& errors) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  CheckSize(size, field, path, errors);
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  if (value.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) return;
  for (int i = 0; i < size; ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const std::string name = entry.GetReflection()->GetString(entry, &key);
    CheckDouble(entry.GetReflection()->GetDouble(entry, &value), value,
                absl::StrCat(path, ".",
                             absl::CHexEscape(name.substr(0, kMaxShownName))),
                errors);
  }
}

void CheckList(const Message& message, const FieldDescriptor& field,
               const std::string& path, SpecErrors& errors) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  CheckSize(size, field, path, errors);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return;
  const bool is_narrow = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  RM_CHECK(is_narrow || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64,
           "lists are of integers or texts");
  for (int i = 0; i < size; ++i) {
    const int64_t value = is_narrow
                              ? reflection.GetRepeatedInt32(message, &field, i)
                              : reflection.GetRepeatedInt64(message, &field, i);
    if (KeepsBounds(static_cast<double>(value), RuleOf(field))) continue;
    // It stands for all that are wrong.
    CheckInteger(value, field, absl::StrCat(path, "[", i, "]"), errors);
    return;
  }
}

void CheckValue(const Message& message, const FieldDescriptor& field,
                const std::string& path, SpecErrors& errors) {
  // Optional, and without a default.
  if (IsLeftOut(message, field) && !RuleOf(field).required()) return;
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      CheckInteger(reflection.GetInt32(message, &field), field, path, errors);
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      CheckInteger(reflection.GetInt64(message, &field), field, path, errors);
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      CheckDouble(reflection.GetDouble(message, &field), field, path, errors);
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      CheckEnum(reflection.GetEnumValue(message, &field), field, path, errors);
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      CheckString(reflection.GetString(message, &field), field, path, errors);
      return;
    default:
      return;  // true or false
  }
}

// Two fields of which each excludes, or needs, the other.
void CheckBeside(const Message& message, const FieldDescriptor& field,
                 const std::string& path, SpecErrors& errors) {
  const FieldRule& rule = RuleOf(field);
  const bool is_given = !IsLeftOut(message, field);
  if (HasSubstitute(message, field) && is_given) {
    errors.Add(absl::StrCat(PathOf(path, field), " and ",
                            PathOf(path, Beside(field, rule.unless())),
                            " exclude each other: give one of them"));
  }
  if (rule.together_with().empty()) return;
  const FieldDescriptor& other = Beside(field, rule.together_with());
  if (is_given == !IsLeftOut(message, other)) return;
  errors.Add(absl::StrCat(PathOf(path, field), " and ", PathOf(path, other),
                          " must be given together; ",
                          PathOf(path, is_given ? other : field),
                          " is missing"));
}

void CheckField(const Message& message, const FieldDescriptor& field,
                const std::string& path, SpecErrors& errors) {
  const std::string own_path = PathOf(path, field);
  CheckBeside(message, field, path, errors);
  if (HasSubstitute(message, field)) return;
  if (field.is_map()) {
    CheckMap(message, field, own_path, errors);
  } else if (field.is_repeated()) {
    CheckList(message, field, own_path, errors);
  } else if (field.message_type() == nullptr) {
    CheckValue(message, field, own_path, errors);
  } else if (!IsLeftOut(message, field)) {
    if (IsDuration(field)) {
      CheckDuration(message, field, own_path, errors);
    } else {
      CheckRules(message.GetReflection()->GetMessage(message, &field), own_path,
                 errors);
    }
  }
}

// ---- Agreement.

// A double's text holds all of its bits.
std::string ValueText(const Message& message, const FieldDescriptor& field,
                      int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool is_list = field.is_repeated();
  char text[64];
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(
          is_list ? reflection.GetRepeatedInt32(message, &field, index)
                  : reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(
          is_list ? reflection.GetRepeatedInt64(message, &field, index)
                  : reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      std::snprintf(text, sizeof(text), "%.17g",
                    is_list
                        ? reflection.GetRepeatedDouble(message, &field, index)
                        : reflection.GetDouble(message, &field));
      return text;
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortEnumName(*reflection.GetEnum(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return Quoted(is_list
                        ? reflection.GetRepeatedString(message, &field, index)
                        : reflection.GetString(message, &field));
    default:
      return absl::FormatDuration(
          FromProto(static_cast<const google::protobuf::Duration&>(
              reflection.GetMessage(message, &field))));
  }
}

std::string MapText(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  std::map<std::string, std::string> entries;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    entries[ValueText(entry, *field.message_type()->map_key(), 0)] =
        ValueText(entry, *field.message_type()->map_value(), 0);
  }
  return absl::StrCat(
      "{", absl::StrJoin(entries, " ", absl::PairFormatter(":")), "}");
}

std::string FieldText(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_map()) return MapText(message, field);
  if (field.is_repeated()) {
    std::vector<std::string> entries;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i)
      entries.push_back(ValueText(message, field, i));
    return absl::StrCat("[", absl::StrJoin(entries, " "), "]");
  }
  if (IsNested(field)) {
    return absl::StrCat("{", AgreedText(reflection.GetMessage(message, &field)),
                        "}");
  }
  return ValueText(message, field, 0);
}

// Returns true if a field with this text is as one that is left out, whose
// message has `defaults`.
bool SaysNothing(const std::string& text, const FieldDescriptor& field,
                 const Message& defaults) {
  if (IsNested(field)) {
    const bool is_choice = field.real_containing_oneof() != nullptr;
    return text == "{}" && (!is_choice || RuleOf(field).implied());
  }
  return !IsLeftOut(defaults, field) && text == FieldText(defaults, field);
}

// By number, so that where a field stands in the file does not matter.
std::vector<const FieldDescriptor*> FieldsOf(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i)
    fields.push_back(message.GetDescriptor()->field(i));
  std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) {
    return a->number() < b->number();
  });
  return fields;
}

}  // namespace

void FillDefaults(Message& message) {
  for (const FieldDescriptor* const field : FieldsOf(message)) {
    if (IsNested(*field)) {
      if (IsLeftOut(message, *field) && !IsImplied(message, *field)) continue;
      FillDefaults(*message.GetReflection()->MutableMessage(&message, field));
    } else if (!RuleOf(*field).default_value().empty() &&
               IsLeftOut(message, *field) && !HasSubstitute(message, *field)) {
      SetDefault(message, *field);
    }
  }
}

void CheckRules(const Message& message, const std::string& path,
                SpecErrors& errors) {
  for (const FieldDescriptor* const field : FieldsOf(message))
    CheckField(message, *field, path, errors);
}

std::string AgreedText(const Message& message) {
  const std::unique_ptr<Message> defaults(message.New());
  FillDefaults(*defaults);
  std::vector<std::string> words;
  for (const FieldDescriptor* const field : FieldsOf(message)) {
    const v1::FieldRule& rule = RuleOf(*field);
    if (rule.local() || rule.secret() || IsLeftOut(message, *field)) continue;
    const std::string text = FieldText(message, *field);
    if (!SaysNothing(text, *field, *defaults))
      words.push_back(absl::StrCat(field->name(), "=", text));
  }
  return absl::StrJoin(words, " ");
}

std::string BoundsText(const FieldDescriptor& field) {
  const FieldRule& rule = RuleOf(field);
  if (rule.min_size() > 0 || rule.max_size() > 0) {
    if (rule.max_size() == 0) return absl::StrCat("at least ", rule.min_size());
    if (rule.min_size() == 0) return absl::StrCat("at most ", rule.max_size());
    return absl::StrCat(rule.min_size(), " to ", rule.max_size());
  }
  if (rule.has_at_least() && rule.has_at_most()) {
    return IsDuration(field)
               ? absl::StrCat("between ", Number(rule.at_least(), field),
                              " and ", Number(rule.at_most(), field))
               : absl::StrCat(Number(rule.at_least(), field), " to ",
                              Number(rule.at_most(), field));
  }
  const std::string lower = LowerText(field);
  const std::string upper = UpperText(field);
  return absl::StrCat(lower, lower.empty() || upper.empty() ? "" : " and ",
                      upper);
}

}  // namespace ringmaster
