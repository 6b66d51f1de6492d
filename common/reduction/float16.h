// float32 to and from float16 (IEEE 754 binary16), and to bfloat16, for many
// elements at the speed of caches.
//
// Guarantees: the same bits on every processor. Rounds to nearest, ties to
// even; a number of 65520 or larger becomes an infinity in float16, and one
// below its normal range becomes subnormal. A NaN stays a NaN: it keeps its
// sign and its upper bits, and becomes quiet. bfloat16: see NarrowToBFloat16 in
// float_bits.h.
// Arrays need not be aligned and must not overlap. Pure.
#ifndef RINGMASTER_COMMON_REDUCTION_FLOAT16_H_
#define RINGMASTER_COMMON_REDUCTION_FLOAT16_H_

#include <cstddef>
#include <cstdint>

namespace ringmaster {

// `count` float16 from as many float32.
void NarrowToFloat16(std::byte* float16s, const std::byte* float32s,
                     int64_t count);
// The reverse, which is exact.
void WidenFloat16(std::byte* float32s, const std::byte* float16s,
                  int64_t count);

// `count` bfloat16 from as many float32. The reverse is a shift.
void NarrowToBFloat16(std::byte* bfloat16s, const std::byte* float32s,
                      int64_t count);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_REDUCTION_FLOAT16_H_
