// ToJsonLine: a message as one line of JSON, for `-o json`.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_JSON_LINE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_JSON_LINE_H_

#include <string>

#include "common/config/proto_to_json.h"
#include "google/protobuf/message.h"

namespace ringmaster::ctl {

// With a line feed. Every field is there, those that hold their default too;
// only messages and optional fields are absent while they are unset. A message that breaks protobuf's own rules becomes
// {"error": ...}, so that the reader always gets JSON.
[[nodiscard]] inline std::string ToJsonLine(
    const google::protobuf::Message& message, bool is_indented = false) {
  const absl::StatusOr<std::string> json =
      ProtoToJson(message, {.is_indented = is_indented, .has_defaults = true});
  if (!json.ok())
    return "{\"error\": \"this message cannot be shown as JSON\"}\n";
  return json->ends_with('\n') ? *json : *json + "\n";
}

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_JSON_LINE_H_
