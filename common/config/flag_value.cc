#include "common/config/flag_value.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

absl::Status CheckRange(const FlagSpec& spec, double value,
                        absl::string_view unit) {
  if (value >= spec.min && value <= spec.max) return absl::OkStatus();
  if (std::isinf(spec.max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be at least ", spec.min, unit));
  }
  if (std::isinf(spec.min)) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be at most ", spec.max, unit));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be from ", spec.min, unit, " to ", spec.max, unit));
}

absl::Status SetBool(const std::string& text, bool& value) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return absl::InvalidArgumentError("must be true or false");
  }
  value = text == "true" || text == "1";
  return absl::OkStatus();
}

template <typename Integer>
absl::Status SetInteger(const FlagSpec& spec, const std::string& text,
                        Integer& value) {
  Integer parsed = 0;
  if (!absl::SimpleAtoi(text, &parsed)) {
    return absl::InvalidArgumentError("must be a whole number");
  }
  RETURN_IF_ERROR(CheckRange(spec, static_cast<double>(parsed), ""));
  value = parsed;
  return absl::OkStatus();
}

absl::Status SetDouble(const FlagSpec& spec, const std::string& text,
                       double& value) {
  double parsed = 0;
  if (!absl::SimpleAtod(text, &parsed) || !std::isfinite(parsed)) {
    return absl::InvalidArgumentError("must be a number");
  }
  RETURN_IF_ERROR(CheckRange(spec, parsed, ""));
  value = parsed;
  return absl::OkStatus();
}

absl::Status SetDuration(const FlagSpec& spec, const std::string& text,
                         absl::Duration& value) {
  absl::Duration parsed;
  if (!absl::ParseDuration(text, &parsed) ||
      parsed == absl::InfiniteDuration() || parsed < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "must be a duration, as 400ms, 1.5s or 2m");
  }
  RETURN_IF_ERROR(CheckRange(spec, absl::ToDoubleSeconds(parsed), "s"));
  value = parsed;
  return absl::OkStatus();
}

absl::Status CheckChoice(const FlagSpec& spec, const std::string& text) {
  if (spec.choices.empty() ||
      std::find(spec.choices.begin(), spec.choices.end(), text) !=
          spec.choices.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be one of ", absl::StrJoin(spec.choices, ", ")));
}

}  // namespace

absl::Status SetFlag(const FlagSpec& spec, const FlagTarget& target,
                     std::span<const std::string> texts) {
  return std::visit(
      [&](auto* value) -> absl::Status {
        using T = std::remove_pointer_t<decltype(value)>;
        const std::string& text = texts.back();
        if constexpr (std::is_same_v<T, bool>) {
          return SetBool(text, *value);
        } else if constexpr (std::is_integral_v<T>) {
          return SetInteger(spec, text, *value);
        } else if constexpr (std::is_same_v<T, double>) {
          return SetDouble(spec, text, *value);
        } else if constexpr (std::is_same_v<T, absl::Duration>) {
          return SetDuration(spec, text, *value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          RETURN_IF_ERROR(CheckChoice(spec, text));
          *value = text;
          return absl::OkStatus();
        } else {
          for (const std::string& each : texts)
            RETURN_IF_ERROR(CheckChoice(spec, each));
          value->assign(texts.begin(), texts.end());
          return absl::OkStatus();
        }
      },
      target);
}

std::string FlagText(const FlagTarget& target) {
  return std::visit(
      [](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return *value ? "true" : "false";
        } else if constexpr (std::is_arithmetic_v<T>) {
          return absl::StrCat(*value);
        } else if constexpr (std::is_same_v<T, absl::Duration>) {
          return absl::FormatDuration(*value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return *value;
        } else {
          return absl::StrJoin(*value, ",");
        }
      },
      target);
}

std::string FlagUnit(const FlagSpec& spec, const FlagTarget& target) {
  if (!spec.unit.empty()) return spec.unit;
  if (!spec.choices.empty()) return absl::StrJoin(spec.choices, "|");
  return std::visit(
      [](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return "";
        } else if constexpr (std::is_integral_v<T>) {
          return "N";
        } else if constexpr (std::is_same_v<T, double>) {
          return "X";
        } else if constexpr (std::is_same_v<T, absl::Duration>) {
          return "DURATION";
        } else {
          return "TEXT";
        }
      },
      target);
}

}  // namespace ringmaster
