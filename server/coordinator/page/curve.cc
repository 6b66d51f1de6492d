#include "server/coordinator/page/curve.h"

#include <cmath>

namespace ringmaster::coordinator {

void Curve::Add(const CurvePoint& point) {
  if (!std::isfinite(point.value)) return;
  newest_ = point;
  if (!buckets_.empty() && buckets_.back().count < bucket_width_) {
    Bucket& bucket = buckets_.back();
    if (point.value < bucket.lowest.value) bucket.lowest = point;
    if (point.value > bucket.highest.value) bucket.highest = point;
    ++bucket.count;
    return;
  }
  if (buckets_.size() == kMaxBuckets) Widen();
  buckets_.push_back({.lowest = point, .highest = point, .count = 1});
}

void Curve::Widen() {
  static_assert(kMaxBuckets % 2 == 0);
  for (size_t i = 0; i < kMaxBuckets / 2; ++i) {
    Bucket merged = buckets_[2 * i];
    const Bucket& next = buckets_[2 * i + 1];
    if (next.lowest.value < merged.lowest.value) merged.lowest = next.lowest;
    if (next.highest.value > merged.highest.value)
      merged.highest = next.highest;
    merged.count += next.count;
    buckets_[i] = merged;
  }
  buckets_.resize(kMaxBuckets / 2);
  bucket_width_ *= 2;
}

std::vector<CurvePoint> Curve::Points() const {
  std::vector<CurvePoint> points;
  points.reserve(kMaxPoints);
  for (const Bucket& bucket : buckets_) {
    const bool is_rising = bucket.lowest.time_ms < bucket.highest.time_ms;
    const CurvePoint& first = is_rising ? bucket.lowest : bucket.highest;
    const CurvePoint& second = is_rising ? bucket.highest : bucket.lowest;
    points.push_back(first);
    if (second != first) points.push_back(second);
  }
  if (!points.empty() && points.back() != newest_) points.push_back(newest_);
  return points;
}

}  // namespace ringmaster::coordinator
