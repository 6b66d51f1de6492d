// MetricPage is the response to one scrape by Prometheus, built point by point.
//
// Names and units follow https://prometheus.io/docs/practices/naming/: a prefix,
// base units, `_total` on counters. Thread-safety: thread-compatible.
#ifndef RINGMASTER_COMMON_METRICS_METRIC_PAGE_H_
#define RINGMASTER_COMMON_METRICS_METRIC_PAGE_H_

#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/metrics/metrics.h"

namespace ringmaster {

// Names and values. Names are ours; values may be any UTF-8.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricPage {
 public:
  // Each adds a point to the family of that name, which the first point creates
  // with its help and type. A family has one point for each set of labels.
  void AddCounter(std::string_view name, std::string_view help, double value,
                  const MetricLabels& labels = {});
  void AddGauge(std::string_view name, std::string_view help, double value,
                const MetricLabels& labels = {});
  void AddHistogram(std::string_view name, std::string_view help,
                    const prometheus::ClientMetric::Histogram& value,
                    const MetricLabels& labels = {});
  // All of a registry, with the same labels.
  void AddSamples(const std::vector<MetricSample>& samples,
                  const MetricLabels& labels = {});

  [[nodiscard]] const std::vector<prometheus::MetricFamily>& families() const {
    return families_;
  }
  // In Prometheus' text format, version 0.0.4.
  [[nodiscard]] std::string Text() const;

 private:
  prometheus::ClientMetric& Add(std::string_view name, std::string_view help,
                                prometheus::MetricType type,
                                const MetricLabels& labels);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_METRICS_METRIC_PAGE_H_
