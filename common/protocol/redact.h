// Secrets that messages hold: fields whose rule says so (field_rule.proto). What
// leaves the programs to be read (status, events, logs, JSON) goes through Redact()
// first; what goes to those who need the secret does not.
#ifndef RINGMASTER_COMMON_PROTOCOL_REDACT_H_
#define RINGMASTER_COMMON_PROTOCOL_REDACT_H_

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace ringmaster {

// Stands where a value of a secret field was.
inline constexpr char kRedacted[] = "(secret)";

// True if a message of `type`, or one inside it at any depth, has a secret field.
// Remembers what it found, since types do not change. Thread-safe.
[[nodiscard]] bool MayHoldSecrets(const google::protobuf::Descriptor& type);

// Puts kRedacted in the place of each text in a secret field of `message`, at any
// depth, and leaves out secrets that are no text. Of a map that is secret, the keys
// stay. Fields that a later release added are dropped, since nobody knows here
// whether they are secret. Does nothing to a type without secrets.
void Redact(google::protobuf::Message& message);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_REDACT_H_
