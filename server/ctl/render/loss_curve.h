// LossCurve: the course of a run's loss in a bounded number of points, however
// long the run is.
//
// When it is full, neighbours are averaged into one point, and from then on a
// point stands for twice as many losses. Thread-compatible.
#ifndef RINGMASTER_SERVER_CTL_RENDER_LOSS_CURVE_H_
#define RINGMASTER_SERVER_CTL_RENDER_LOSS_CURVE_H_

#include <vector>

namespace ringmaster::ctl {

class LossCurve {
 public:
  // Keeps at most `capacity` points; even and at least 2.
  explicit LossCurve(int capacity = 48) : capacity_(capacity) {}

  // Adds the next loss; one that is not finite is left out.
  void Add(double loss);

  // The points, oldest first, the one under way included.
  [[nodiscard]] std::vector<double> Points() const;

 private:
  const int capacity_;
  std::vector<double> points_;  // each the mean of stride_ losses
  int stride_ = 1;
  double sum_ = 0;  // of the point under way
  int count_ = 0;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_LOSS_CURVE_H_
