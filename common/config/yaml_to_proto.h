// YAML into a protobuf message, strictly, field by field.
//
//   train:                      # a message
//     steps: 1_000              # error: job.yaml:2: train.steps: ...
//     global_batch: 256         # integers and doubles, range checked
//     bucket_bytes: 4MiB        # fields ..._bytes take KiB, MiB, GiB
//     settle: 1.5s              # google.protobuf.Duration: 500ms, 1.5s, 2m
//     kind: adamw               # enum OPTIMIZER_KIND_ADAMW of OptimizerKind
//     is_deterministic: true    # true or false only
//     hosts: [a, b]             # repeated; map fields are YAML maps
//
// Fields have the names of the .proto file. An error is one line that begins
// with the file and the line: an unknown field (with what was probably meant),
// a field given twice, a value of the wrong type or out of range, two fields of
// one oneof, a field without a value. Values are checked against their types
// only; what they mean is for the message's owner to validate.
#ifndef RINGMASTER_COMMON_CONFIG_YAML_TO_PROTO_H_
#define RINGMASTER_COMMON_CONFIG_YAML_TO_PROTO_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace google::protobuf {
class EnumValueDescriptor;
class Message;
}  // namespace google::protobuf

namespace ringmaster {

// Replaces `message` by the content of `yaml`; `file_name` is for errors.
// INVALID_ARGUMENT as above; `message` is then undefined.
[[nodiscard]] absl::Status YamlToProto(std::string_view yaml,
                                       std::string_view file_name,
                                       google::protobuf::Message& message);

// The same for the content of the file at `path`.
[[nodiscard]] absl::Status YamlFileToProto(const std::string& path,
                                           google::protobuf::Message& message);

// Returns the name of an enum value in YAML: "adamw".
[[nodiscard]] std::string YamlNameOf(
    const google::protobuf::EnumValueDescriptor& value);

// Sets one field of `message`, as `--set train.steps=100` does: a path of field
// names, and a value in YAML. Lists are replaced, messages are merged into, and
// another field of the same oneof is cleared.
[[nodiscard]] absl::Status SetProtoField(std::string_view assignment,
                                         google::protobuf::Message& message);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_YAML_TO_PROTO_H_
