// Tables that map the protocol's enumerations to ours, in both directions:
//
//   constexpr EnumPair<v1::Precision, Precision> kPrecisions[] = {...};
//   OwnOf(kPrecisions, program.precision())
//
// Pure.
#ifndef RINGMASTER_COMMON_PROTOCOL_ENUM_PAIRS_H_
#define RINGMASTER_COMMON_PROTOCOL_ENUM_PAIRS_H_

#include <cstddef>

namespace ringmaster {

template <typename Proto, typename Own>
struct EnumPair {
  Proto proto;
  Own own;
};

// Returns our value for `proto`, or the table's first if it has no such entry.
// Messages may come from a later release, so those that are orders are checked
// before (CheckRules).
template <typename Proto, typename Own, size_t kSize>
[[nodiscard]] constexpr Own OwnOf(const EnumPair<Proto, Own> (&pairs)[kSize],
                                  Proto proto) {
  for (const auto& pair : pairs) {
    if (pair.proto == proto) return pair.own;
  }
  return pairs[0].own;
}

// Returns the protocol's value for `own`, or the table's first if it has no
// such entry.
template <typename Proto, typename Own, size_t kSize>
[[nodiscard]] constexpr Proto ProtoOf(
    const EnumPair<Proto, Own> (&pairs)[kSize], Own own) {
  for (const auto& pair : pairs) {
    if (pair.own == own) return pair.proto;
  }
  return pairs[0].proto;
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_ENUM_PAIRS_H_
