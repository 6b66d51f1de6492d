#include "common/config/yaml_scalar.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/config/byte_count.h"
#include "common/config/closest_name.h"
#include "common/protocol/enum_name.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status MustBe(absl::string_view what, const YamlScalar& scalar) {
  return absl::InvalidArgumentError(absl::StrCat(
      "must be ", what, ", not ", scalar.is_quoted ? "the string " : "", "\"",
      scalar.text, "\""));
}

template <std::integral T>
absl::StatusOr<T> ToInteger(const YamlScalar& scalar,
                            const FieldDescriptor& field) {
  const bool is_bytes = absl::EndsWith(field.name(), "_bytes");
  const std::optional<absl::int128> value =
      is_bytes ? ParseBytes(scalar.text) : ParseWholeNumber(scalar.text);
  if (scalar.is_quoted || !value.has_value()) {
    return MustBe(is_bytes ? "a whole number of bytes, as 65536 or 64KiB"
                           : "a whole number",
                  scalar);
  }
  using Limits = std::numeric_limits<T>;
  if (*value < absl::int128(Limits::min()) ||
      *value > absl::int128(Limits::max())) {
    return MustBe(absl::StrCat("from ", Limits::min(), " to ", Limits::max()),
                  scalar);
  }
  return static_cast<T>(*value);
}

absl::StatusOr<double> ToDouble(const YamlScalar& scalar) {
  double value = 0;
  if (scalar.is_quoted || !absl::SimpleAtod(scalar.text, &value) ||
      std::isnan(value)) {
    return MustBe("a number", scalar);
  }
  if (std::isinf(value)) return MustBe("a finite number", scalar);
  return value;
}

absl::StatusOr<float> ToFloat(const YamlScalar& scalar) {
  ASSIGN_OR_RETURN(const double value, ToDouble(scalar));
  if (std::abs(value) > std::numeric_limits<float>::max()) {
    return MustBe("a number within the range of a 32-bit float", scalar);
  }
  return static_cast<float>(value);
}

absl::StatusOr<bool> ToBool(const YamlScalar& scalar) {
  if (scalar.is_quoted || (scalar.text != "true" && scalar.text != "false")) {
    return MustBe("true or false", scalar);
  }
  return scalar.text == "true";
}

absl::StatusOr<const EnumValueDescriptor*> ToEnum(const YamlScalar& scalar,
                                                  const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor& value = *type.value(i);
    if (value.number() == 0) continue;  // ..._UNSPECIFIED
    names.push_back(ShortEnumName(value));
    if (scalar.text == names.back()) return &value;
  }
  const std::optional<std::string> closest = ClosestName(scalar.text, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "must be one of ", absl::StrJoin(names, ", "), ", not \"", scalar.text,
      "\"",
      closest.has_value() ? absl::StrCat(" (did you mean ", *closest, "?)")
                          : ""));
}

// Reflection::SetX or AddX, according to the field.
template <typename T, typename Set, typename Add>
absl::Status Store(absl::StatusOr<T> value, const FieldDescriptor& field,
                   Message& message, Set set, Add add) {
  RETURN_IF_ERROR(value.status());
  const auto* const reflection = message.GetReflection();
  if (field.is_repeated()) {
    (reflection->*add)(&message, &field, *std::move(value));
  } else {
    (reflection->*set)(&message, &field, *std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ShortEnumName(const EnumValueDescriptor& value) {
  return absl::AsciiStrToLower(EnumName(value));
}

absl::Status SetScalarField(const YamlScalar& scalar,
                            const FieldDescriptor& field, Message& message) {
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Store(ToInteger<int32_t>(scalar, field), field, message,
                   &R::SetInt32, &R::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return Store(ToInteger<int64_t>(scalar, field), field, message,
                   &R::SetInt64, &R::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return Store(ToInteger<uint32_t>(scalar, field), field, message,
                   &R::SetUInt32, &R::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return Store(ToInteger<uint64_t>(scalar, field), field, message,
                   &R::SetUInt64, &R::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Store(ToDouble(scalar), field, message, &R::SetDouble,
                   &R::AddDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Store(ToFloat(scalar), field, message, &R::SetFloat, &R::AddFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return Store(ToBool(scalar), field, message, &R::SetBool, &R::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return Store(ToEnum(scalar, *field.enum_type()), field, message,
                   &R::SetEnum, &R::AddEnum);
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() == FieldDescriptor::TYPE_BYTES) {
        return absl::InvalidArgumentError("cannot be written in YAML");
      }
      return Store(absl::StatusOr<std::string>(scalar.text), field, message,
                   &R::SetString, &R::AddString);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return absl::InternalError(
      absl::StrCat(field.full_name(), " is not a scalar field"));
}

absl::Status SetDurationMessage(const YamlScalar& scalar, Message& duration) {
  absl::Duration value;
  if (scalar.is_quoted || !absl::ParseDuration(scalar.text, &value) ||
      value == absl::InfiniteDuration() || value == -absl::InfiniteDuration()) {
    return MustBe("a duration, as 500ms, 1.5s or 2m", scalar);
  }
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(value, absl::Seconds(1), &rest);
  const auto* const type = duration.GetDescriptor();
  const auto* const reflection = duration.GetReflection();
  reflection->SetInt64(&duration, type->FindFieldByName("seconds"), seconds);
  reflection->SetInt32(&duration, type->FindFieldByName("nanos"),
                       static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return absl::OkStatus();
}

}  // namespace ringmaster
