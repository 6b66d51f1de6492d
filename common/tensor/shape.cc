#include "common/tensor/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/status/check.h"

namespace ringmaster {

Shape::Shape(std::initializer_list<int64_t> dims) {
  RM_CHECK(dims.size() <= kMaxRank, "a shape of too many dimensions");
  for (int64_t dim : dims) {
    RM_CHECK(dim >= 0, "a negative dimension");
    dims_[rank_++] = dim;
  }
}

int64_t Shape::dim(int axis) const {
  RM_CHECK(axis >= 0 && axis < rank_, "no such axis");
  return dims_[axis];
}

int64_t Shape::num_elems() const {
  int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= dims_[axis];
  return product;
}

std::string Shape::ToString() const {
  return absl::StrCat(
      "[", absl::StrJoin(absl::MakeConstSpan(dims_).subspan(0, rank_), ","),
      "]");
}

}  // namespace ringmaster
