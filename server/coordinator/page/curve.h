// Curve keeps one figure's course over a whole run in bounded memory.
//
// Neighbouring points share a bucket, which keeps its lowest and its highest point;
// when there are too many buckets, each takes in its neighbour. So a curve of any
// length has at most kMaxPoints points, and a spike of one step stays in it.
// Pure. Thread-compatible.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_CURVE_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringmaster/v1/page_history.pb.h"

namespace ringmaster::coordinator {

struct CurvePoint {
  int64_t time_ms = 0;  // since the epoch of Unix
  int64_t step = 0;
  double value = 0;

  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

class Curve {
 public:
  static constexpr size_t kMaxBuckets = 400;
  // Two of each bucket, and the newest.
  static constexpr size_t kMaxPoints = 2 * kMaxBuckets + 1;

  // Takes a point that is newer than the others. One that is not finite is left out.
  void Add(const CurvePoint& point);

  // Oldest first; the last is the newest that was added.
  [[nodiscard]] std::vector<CurvePoint> Points() const;

  // The curve as a message, and the same curve from it. One that breaks the bounds
  // above is empty.
  [[nodiscard]] v1::Curve ToProto() const;
  [[nodiscard]] static Curve FromProto(const v1::Curve& from);

 private:
  struct Bucket {
    CurvePoint lowest;
    CurvePoint highest;
    int64_t count = 0;
  };

  // Half as many buckets, each twice as wide.
  void Widen();

  std::vector<Bucket> buckets_;
  int64_t bucket_width_ = 1;  // in points
  CurvePoint newest_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_CURVE_H_
