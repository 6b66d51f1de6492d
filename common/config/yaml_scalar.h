// A scalar of YAML into a field of a message, checked against the field's type.
#ifndef RINGMASTER_COMMON_CONFIG_YAML_SCALAR_H_
#define RINGMASTER_COMMON_CONFIG_YAML_SCALAR_H_

#include <string>

#include "absl/status/status.h"

namespace google::protobuf {
class EnumValueDescriptor;
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace ringmaster {

struct YamlScalar {
  std::string text;
  // Plain scalars can be of any type, quoted ones are strings.
  bool is_quoted = false;
};

// Sets `field` of `message`, or adds to it if it is repeated. `field` is not a
// message. INVALID_ARGUMENT says what is expected instead, without the place.
[[nodiscard]] absl::Status SetScalarField(
    const YamlScalar& scalar, const google::protobuf::FieldDescriptor& field,
    google::protobuf::Message& message);

// Sets a google.protobuf.Duration from 500ms, 1.5s, 2m.
[[nodiscard]] absl::Status SetDurationMessage(
    const YamlScalar& scalar, google::protobuf::Message& duration);

// "adamw" for OPTIMIZER_KIND_ADAMW of OptimizerKind: how it is written in YAML.
[[nodiscard]] std::string ShortEnumName(
    const google::protobuf::EnumValueDescriptor& value);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_YAML_SCALAR_H_
