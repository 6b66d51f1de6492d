#include "worker/device/cuda/emulator/nccl_reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ringmaster::cuda_emulator {
namespace {

// The type that elements of type T are combined in.
template <typename T>
struct Wide {
  using Type = T;
  static T Widen(T value) { return value; }
  static T Narrow(T value) { return value; }
};
template <>
struct Wide<__half> {
  using Type = float;
  static float Widen(__half value) { return __half2float(value); }
  static __half Narrow(float value) { return __float2half(value); }
};
template <>
struct Wide<__nv_bfloat16> {
  using Type = float;
  static float Widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __nv_bfloat16 Narrow(float value) { return __float2bfloat16(value); }
};

// Integers wrap around.
template <typename V>
V Add(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    using U = std::make_unsigned_t<V>;
    return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <typename V>
V Combine(ncclRedOp_t op, V a, V b) {
  switch (op) {
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return Add(a, b);
  }
}

// On the wire elements are not aligned.
template <typename T>
T Load(const std::byte* at, size_t i) {
  T value;
  std::memcpy(&value, at + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
ncclResult_t ReduceAs(ncclRedOp_t op, size_t count,
                      const std::vector<const std::byte*>& inputs,
                      std::byte* out) {
  using V = typename Wide<T>::Type;
  if (op == ncclAvg && std::is_integral_v<V>) return ncclInvalidArgument;
  for (size_t i = 0; i < count; ++i) {
    V value = Wide<T>::Widen(Load<T>(inputs[0], i));
    for (size_t k = 1; k < inputs.size(); ++k) {
      value = Combine<V>(op, value, Wide<T>::Widen(Load<T>(inputs[k], i)));
    }
    if (op == ncclAvg) value = value / static_cast<V>(inputs.size());
    const T narrow = Wide<T>::Narrow(value);
    std::memcpy(out + i * sizeof(T), &narrow, sizeof(T));
  }
  return ncclSuccess;
}

}  // namespace

size_t NcclElementBytes(ncclDataType_t dtype) {
  switch (dtype) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

ncclResult_t NcclReduce(ncclDataType_t dtype, ncclRedOp_t op, size_t count,
                        const std::vector<const std::byte*>& inputs,
                        std::byte* out) {
  if (op != ncclSum && op != ncclMax && op != ncclMin && op != ncclAvg) {
    return ncclInvalidArgument;
  }
  switch (dtype) {
    case ncclUint8:
      return ReduceAs<uint8_t>(op, count, inputs, out);
    case ncclInt32:
      return ReduceAs<int32_t>(op, count, inputs, out);
    case ncclInt64:
      return ReduceAs<int64_t>(op, count, inputs, out);
    case ncclFloat16:
      return ReduceAs<__half>(op, count, inputs, out);
    case ncclBfloat16:
      return ReduceAs<__nv_bfloat16>(op, count, inputs, out);
    case ncclFloat32:
      return ReduceAs<float>(op, count, inputs, out);
    case ncclFloat64:
      return ReduceAs<double>(op, count, inputs, out);
    default:
      return ncclInvalidArgument;
  }
}

}  // namespace ringmaster::cuda_emulator
