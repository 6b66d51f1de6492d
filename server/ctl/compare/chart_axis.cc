#include "server/ctl/compare/chart_axis.h"

#include <algorithm>
#include <cmath>

namespace ringmaster::ctl {
namespace {

constexpr int kMostTicks = 7;

// 1, 2 or 5 times a power of ten: the smallest that needs few enough ticks.
double RoundStep(double range) {
  const double raw = range / (kMostTicks - 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double ChartAxis::Position(double value) const {
  switch (scale_) {
    case Scale::kLog2:
      return std::log2(value);
    case Scale::kLog10:
      return std::log10(value);
    case Scale::kLinear:
      break;
  }
  return value;
}

bool ChartAxis::Takes(double value) const {
  return std::isfinite(value) && (scale_ == Scale::kLinear || value > 0);
}

ChartAxis ChartAxis::Covering(double low, double high, Scale scale) {
  ChartAxis axis;
  axis.scale_ = scale;
  if (scale == Scale::kLinear) {
    if (high <= low) high = low + (low == 0 ? 1 : std::abs(low));
    const double step = RoundStep(high - low);
    axis.low_ = std::floor(low / step + 1e-9) * step;
    axis.high_ = std::ceil(high / step - 1e-9) * step;
    const auto count =
        static_cast<int>(std::lround((axis.high_ - axis.low_) / step));
    for (int i = 0; i <= count; ++i)
      axis.ticks_.push_back(axis.low_ + i * step);
    return axis;
  }
  axis.low_ = std::floor(axis.Position(low) + 1e-9);
  axis.high_ = std::ceil(axis.Position(high) - 1e-9);
  if (axis.high_ <= axis.low_) axis.high_ = axis.low_ + 1;
  const double stride = std::ceil((axis.high_ - axis.low_) / (2 * kMostTicks));
  const double base = scale == Scale::kLog2 ? 2 : 10;
  for (double at = axis.low_; at <= axis.high_ + 1e-9; at += stride)
    axis.ticks_.push_back(std::pow(base, at));
  return axis;
}

double ChartAxis::At(double value, double start, double end) const {
  return start + (Position(value) - low_) / (high_ - low_) * (end - start);
}

}  // namespace ringmaster::ctl
