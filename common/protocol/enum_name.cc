#include "common/protocol/enum_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ringmaster {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

// OptimizerKind -> OPTIMIZER_KIND_
std::string EnumPrefix(const EnumDescriptor& type) {
  std::string prefix;
  const std::string& name = type.name();
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_upper =
        absl::ascii_isupper(static_cast<unsigned char>(name[i]));
    if (is_upper && i > 0) prefix += '_';
    prefix += absl::ascii_toupper(static_cast<unsigned char>(name[i]));
  }
  return prefix + "_";
}

}  // namespace

std::string EnumName(const EnumValueDescriptor& value) {
  absl::string_view name = value.name();
  absl::ConsumePrefix(&name, EnumPrefix(*value.type()));
  return std::string(name);
}

std::string EnumName(const EnumDescriptor& type, int value) {
  const EnumValueDescriptor* const known = type.FindValueByNumber(value);
  return known == nullptr ? absl::StrCat(value) : EnumName(*known);
}

}  // namespace ringmaster
