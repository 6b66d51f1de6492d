// TensorView is a pointer with a shape: it owns nothing and may be copied
// freely.
//
// Ownership: the elements belong to someone else (mostly an Arena), who must
// outlive the view.
#ifndef RINGMASTER_COMMON_TENSOR_TENSOR_VIEW_H_
#define RINGMASTER_COMMON_TENSOR_TENSOR_VIEW_H_

#include "absl/types/span.h"
#include "common/tensor/shape.h"

namespace ringmaster {

template <typename T>
struct TensorView {
  T* ptr = nullptr;
  Shape shape;

  // All elements, in row-major order.
  absl::Span<T> elems() const {
    return absl::Span<T>(ptr, static_cast<size_t>(shape.num_elems()));
  }
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_TENSOR_VIEW_H_
