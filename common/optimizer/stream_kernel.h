// ForEachStreamed is the loop of a kernel that passes once over several long
// arrays, more than the caches hold.
//
// Processors prefetch only within a page of memory, and with several arrays at
// once they do not reach a core's full bandwidth. Prefetching the lines by hand
// takes 12% off AdamW's time and 30% off that of a sum of squares (an Intel
// server of 2023, arrays of 500 MB in huge pages).
#ifndef RINGMASTER_COMMON_OPTIMIZER_STREAM_KERNEL_H_
#define RINGMASTER_COMMON_OPTIMIZER_STREAM_KERNEL_H_

#include <cstdint>

#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {

inline constexpr int64_t kStreamLineBytes = 64;
// Measured: AdamW is equally fast from 512 B to 4 KiB; a kernel that only reads
// needs all 4 KiB.
inline constexpr int64_t kStreamAheadBytes = 4096;

// Prefetches the line that a loop at `elem` will reach soon. The address may
// lie beyond the array: a prefetch of it is ignored.
template <typename T>
RM_KERNEL void FetchAhead(const T* elem) {
  __builtin_prefetch(reinterpret_cast<const void*>(
      reinterpret_cast<uintptr_t>(elem) + kStreamAheadBytes));
}

// Calls update(i) for each i in [0, count), and FetchAhead for each of `arrays`
// once per line.
template <typename T, typename Update, typename... Arrays>
RM_KERNEL void ForEachStreamed(int64_t count, Update update,
                               const Arrays*... arrays) {
  constexpr int64_t kLine = kStreamLineBytes / sizeof(T);
  int64_t begin = 0;
  for (; begin + kLine <= count; begin += kLine) {
    (FetchAhead(arrays + begin), ...);
    for (int64_t i = begin; i < begin + kLine; ++i) update(i);
  }
  for (; begin < count; ++begin) update(begin);
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_STREAM_KERNEL_H_
