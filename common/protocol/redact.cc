#include "common/protocol/redact.h"

#include <map>
#include <set>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "ringmaster/v1/field_rule.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsSecret(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::rule).secret();
}

// Looks through `type` and all that it is made of, which may refer to itself.
bool FindSecret(const Descriptor& type, std::set<const Descriptor*>& seen) {
  if (!seen.insert(&type).second) return false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsSecret(field)) return true;
    if (field.message_type() != nullptr &&
        FindSecret(*field.message_type(), seen)) {
      return true;
    }
  }
  return false;
}

void RedactValue(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    reflection.ClearField(&message, &field);
    return;
  }
  if (!field.is_repeated()) {
    reflection.SetString(&message, &field, kRedacted);
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    reflection.SetRepeatedString(&message, &field, i, kRedacted);
  }
}

// Calls `visit` with each message in `field`; the entries of a map are messages.
template <typename Visit>
void ForEachMessage(Message& message, const FieldDescriptor& field,
                    const Visit& visit) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    visit(*reflection.MutableMessage(&message, &field));
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    visit(*reflection.MutableRepeatedMessage(&message, &field, i));
  }
}

void RedactField(Message& message, const FieldDescriptor& field) {
  if (IsSecret(field) && field.is_map()) {
    const FieldDescriptor& value = *field.message_type()->map_value();
    ForEachMessage(message, field,
                   [&](Message& entry) { RedactValue(entry, value); });
  } else if (IsSecret(field)) {
    RedactValue(message, field);
  } else if (field.message_type() != nullptr) {
    ForEachMessage(message, field, Redact);
  }
}

}  // namespace

bool MayHoldSecrets(const Descriptor& type) {
  static absl::Mutex& mutex = *new absl::Mutex;
  static auto& known = *new std::map<const Descriptor*, bool>;
  absl::MutexLock lock(&mutex);
  const auto [entry, is_new] = known.emplace(&type, false);
  if (is_new) {
    std::set<const Descriptor*> seen;
    entry->second = FindSecret(type, seen);
  }
  return entry->second;
}

void Redact(Message& message) {
  if (!MayHoldSecrets(*message.GetDescriptor())) return;
  const Reflection& reflection = *message.GetReflection();
  reflection.MutableUnknownFields(&message)->Clear();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    RedactField(message, *field);
  }
}

}  // namespace ringmaster
