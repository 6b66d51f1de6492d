// Metrics: a registry of named counters and gauges, cheap enough for the hot
// path.
//
// Counter and Gauge are single atomics; a registry owns them for its whole
// life, so references stay valid. Names follow Prometheus' rules
// (https://prometheus.io/docs/practices/naming/): `ringmaster_` prefix, base
// units, `_total` on counters. Thread-safe.
#ifndef RINGMASTER_COMMON_METRICS_METRICS_H_
#define RINGMASTER_COMMON_METRICS_METRICS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/sync/mutex.h"

namespace ringmaster {

class Counter {
 public:
  void Add(int64_t amount) {
    value_.fetch_add(amount, std::memory_order_relaxed);
  }
  void Increment() { Add(1); }
  [[nodiscard]] int64_t value() const {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> value_{0};
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] double value() const {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<double> value_{0};
};

struct MetricSample {
  std::string name;
  std::string help;
  bool is_counter = true;
  double value = 0;
};

class MetricRegistry {
 public:
  MetricRegistry() = default;
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  // The counter or gauge of that name, made on first use; the same name always
  // gives the same object, with the first caller's help. A malformed name is a
  // bug of ours and ends the process. Only counters end in `_total`, so no name
  // can be both.
  Counter& counter(std::string_view name, std::string_view help);
  Gauge& gauge(std::string_view name, std::string_view help);

  // All values at one moment, sorted by name.
  [[nodiscard]] std::vector<MetricSample> Samples() const;

 private:
  struct Entry {
    std::string help;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
  };
  Entry& FindOrAdd(std::string_view name, std::string_view help)
      REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_METRICS_METRICS_H_
