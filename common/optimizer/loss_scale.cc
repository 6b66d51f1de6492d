#include "common/optimizer/loss_scale.h"

#include <algorithm>

namespace ringmaster {

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
