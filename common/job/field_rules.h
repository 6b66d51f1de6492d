// The rules that the fields of a job carry as options
// (proto/ringmaster/v1/field_rule.proto), applied to any message by reflection:
// a new field needs no code of its own to be defaulted, checked, compared and
// documented.
//
// Pure.
#ifndef RINGMASTER_COMMON_JOB_FIELD_RULES_H_
#define RINGMASTER_COMMON_JOB_FIELD_RULES_H_

#include <string>

#include "common/job/spec_errors.h"

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace ringmaster {

// Sets the fields that `message` and the messages in it leave out to their
// defaults. Idempotent.
void FillDefaults(google::protobuf::Message& message);

// Adds to `errors` each field of `message`, whose defaults are filled in, that
// breaks its rule, with `path` before its name. Enumerations must have a value
// that this build knows, floating-point numbers must be finite.
void CheckRules(const google::protobuf::Message& message,
                const std::string& path, SpecErrors& errors);

// Returns the part of `message`, whose defaults are filled in, that ranks must
// agree on: names and values of all fields that are not local, in the order of
// their numbers, those of a map by key. Fields with their default value are
// omitted, so that a rank whose build lacks a field agrees with one that does
// not use it.
[[nodiscard]] std::string AgreedText(const google::protobuf::Message& message);

// Returns the bounds of `field`, as in "at least 1" or "above 0 and below 1";
// empty if its rule has none.
[[nodiscard]] std::string BoundsText(
    const google::protobuf::FieldDescriptor& field);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_FIELD_RULES_H_
