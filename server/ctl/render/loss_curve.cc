#include "server/ctl/render/loss_curve.h"

#include <cmath>

namespace ringmaster::ctl {

void LossCurve::Add(double loss) {
  if (!std::isfinite(loss)) return;
  sum_ += loss;
  if (++count_ < stride_) return;
  points_.push_back(sum_ / count_);
  sum_ = 0;
  count_ = 0;
  if (static_cast<int>(points_.size()) < capacity_) return;
  for (size_t i = 0; i < points_.size() / 2; ++i)
    points_[i] = (points_[2 * i] + points_[2 * i + 1]) / 2;
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

std::vector<double> LossCurve::Points() const {
  std::vector<double> points = points_;
  if (count_ > 0) points.push_back(sum_ / count_);
  return points;
}

}  // namespace ringmaster::ctl
