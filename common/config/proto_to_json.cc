#include "common/config/proto_to_json.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/redact.h"

namespace ringmaster {

absl::StatusOr<std::string> ProtoToJson(
    const google::protobuf::Message& message, const JsonOptions& options) {
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = options.has_proto_field_names;
  print.add_whitespace = options.is_indented;
  print.always_print_primitive_fields = options.has_defaults;
  std::unique_ptr<google::protobuf::Message> redacted;
  if (MayHoldSecrets(*message.GetDescriptor())) {
    redacted.reset(message.New());
    redacted->CopyFrom(message);
    Redact(*redacted);
  }
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(
      redacted == nullptr ? message : *redacted, &json, print);
  if (!status.ok()) {
    return absl::InternalError(
        absl::StrCat(message.GetTypeName(), " as JSON: ", status.ToString()));
  }
  return json;
}

}  // namespace ringmaster
