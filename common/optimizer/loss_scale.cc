#include "common/optimizer/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace ringmaster {

bool LossScale::IsValue(double value) {
  int exponent = 0;
  return value >= kLeast && value <= kMost &&
         std::frexp(value, &exponent) == 0.5;
}

void LossScale::Note(bool is_finite) {
  if (!is_dynamic_) return;
  if (!is_finite) {
    value_ = std::max(value_ / 2, kLeast);
    good_updates_ = 0;
  } else if (++good_updates_ == kPatience) {
    value_ = std::min(value_ * 2, kMost);
    good_updates_ = 0;
  }
}

}  // namespace ringmaster
