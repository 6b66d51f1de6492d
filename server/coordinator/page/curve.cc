#include "server/coordinator/page/curve.h"

#include <cmath>

namespace ringmaster::coordinator {
namespace {

void SetPoint(const CurvePoint& from, v1::CurvePoint& to) {
  to.set_time_ms(from.time_ms);
  to.set_step(from.step);
  to.set_value(from.value);
}

CurvePoint PointOf(const v1::CurvePoint& from) {
  return {from.time_ms(), from.step(), from.value()};
}

}  // namespace

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

v1::Curve Curve::ToProto() const {
  v1::Curve to;
  to.set_bucket_width(bucket_width_);
  for (const Bucket& bucket : buckets_) {
    v1::CurveBucket& added = *to.add_buckets();
    SetPoint(bucket.lowest, *added.mutable_lowest());
    SetPoint(bucket.highest, *added.mutable_highest());
    added.set_count(bucket.count);
  }
  SetPoint(newest_, *to.mutable_newest());
  return to;
}

Curve Curve::FromProto(const v1::Curve& from) {
  Curve curve;
  if (from.bucket_width() < 1 || from.buckets_size() > int{kMaxBuckets})
    return curve;
  for (const v1::CurveBucket& bucket : from.buckets()) {
    if (!std::isfinite(bucket.lowest().value()) ||
        !std::isfinite(bucket.highest().value()) || bucket.count() < 1) {
      return {};
    }
    curve.buckets_.push_back({.lowest = PointOf(bucket.lowest()),
                              .highest = PointOf(bucket.highest()),
                              .count = bucket.count()});
  }
  if (!std::isfinite(from.newest().value())) return {};
  curve.bucket_width_ = from.bucket_width();
  curve.newest_ = PointOf(from.newest());
  return curve;
}

}  // namespace ringmaster::coordinator
