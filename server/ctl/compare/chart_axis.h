// ChartAxis places values on an axis of a chart, and chooses its ticks.
//
// Thread-safety: a value. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_CHART_AXIS_H_
#define RINGMASTER_SERVER_CTL_COMPARE_CHART_AXIS_H_

#include <vector>

namespace ringmaster::ctl {

class ChartAxis {
 public:
  enum class Scale { kLinear, kLog2, kLog10 };

  // Covers [low, high], widened to round ends. Logarithmic ones take values
  // above 0. An empty range is widened as well.
  static ChartAxis Covering(double low, double high, Scale scale);

  // In pixels, where the axis goes from `start` to `end`.
  [[nodiscard]] double At(double value, double start, double end) const;
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }
  [[nodiscard]] bool Takes(double value) const;

 private:
  // Linear, or the exponent.
  [[nodiscard]] double Position(double value) const;

  Scale scale_ = Scale::kLinear;
  double low_ = 0;   // as Position
  double high_ = 1;  // likewise
  std::vector<double> ticks_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_CHART_AXIS_H_
