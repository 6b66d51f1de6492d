// Shape is the list of dimensions of a tensor, outermost first, row-major.
//
// A small value type: at most kMaxRank dimensions, kept inline, so that copying
// one never allocates.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_COMMON_TENSOR_SHAPE_H_
#define RINGMASTER_COMMON_TENSOR_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace ringmaster {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  // The shape of a scalar: no dimensions, one element.
  Shape() = default;
  // Requires at most kMaxRank dimensions, none negative.
  Shape(std::initializer_list<int64_t> dims);

  int rank() const { return rank_; }
  // Requires 0 <= axis < rank().
  int64_t dim(int axis) const;
  // The product of the dimensions.
  int64_t num_elems() const;

  // "[256,32]"; "[]" for a scalar.
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  // Dimensions past rank_ stay 0, so that equality is that of the members.
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_SHAPE_H_
