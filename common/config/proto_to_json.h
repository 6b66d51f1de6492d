// A protobuf message as JSON, in protobuf's own mapping
// (https://protobuf.dev/programming-guides/json/). Values of secret fields are
// left out (common/protocol/redact.h), for JSON is written to be read.
#ifndef RINGMASTER_COMMON_CONFIG_PROTO_TO_JSON_H_
#define RINGMASTER_COMMON_CONFIG_PROTO_TO_JSON_H_

#include <string>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace ringmaster {

struct JsonOptions {
  // global_batch, as in the .proto file and in YAML; else globalBatch, as in
  // the JSON of other gRPC tools.
  bool has_proto_field_names = true;
  // Several lines, indented; else one line.
  bool is_indented = true;
  // Fields that hold their default are written too.
  bool has_defaults = false;
};

// INTERNAL: protobuf refused (a message that breaks its own rules, such as a
// Duration out of range).
[[nodiscard]] absl::StatusOr<std::string> ProtoToJson(
    const google::protobuf::Message& message, const JsonOptions& options = {});

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_PROTO_TO_JSON_H_
