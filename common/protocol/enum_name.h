// The names of the protocol's enumerations as people read them: without the
// enumeration's own, "LEASE_EXPIRED" for EVIDENCE_KIND_LEASE_EXPIRED. Pure.
#ifndef RINGMASTER_COMMON_PROTOCOL_ENUM_NAME_H_
#define RINGMASTER_COMMON_PROTOCOL_ENUM_NAME_H_

#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace ringmaster {

[[nodiscard]] std::string EnumName(
    const google::protobuf::EnumValueDescriptor& value);

// The number where this program does not know the value.
[[nodiscard]] std::string EnumName(const google::protobuf::EnumDescriptor& type,
                                   int value);

template <typename Enum>
[[nodiscard]] std::string EnumName(Enum value) {
  return EnumName(*google::protobuf::GetEnumDescriptor<Enum>(),
                  static_cast<int>(value));
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_ENUM_NAME_H_
