#include "common/metrics/metric_page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

namespace ringmaster {

prometheus::ClientMetric& MetricPage::Add(std::string_view name,
                                          std::string_view help,
                                          prometheus::MetricType type,
                                          const MetricLabels& labels) {
  auto family = std::find_if(
      families_.begin(), families_.end(),
      [name](const prometheus::MetricFamily& f) { return f.name == name; });
  if (family == families_.end()) {
    family = families_.insert(families_.end(), prometheus::MetricFamily{});
    family->name = std::string(name);
    family->help = std::string(help);
    family->type = type;
  }
  prometheus::ClientMetric& point = family->metric.emplace_back();
  for (const auto& [label, value] : labels)
    point.label.push_back({label, value});
  return point;
}

void MetricPage::AddCounter(std::string_view name, std::string_view help,
                            double value, const MetricLabels& labels) {
  Add(name, help, prometheus::MetricType::Counter, labels).counter.value =
      value;
}

void MetricPage::AddGauge(std::string_view name, std::string_view help,
                          double value, const MetricLabels& labels) {
  Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void MetricPage::AddHistogram(std::string_view name, std::string_view help,
                              const prometheus::ClientMetric::Histogram& value,
                              const MetricLabels& labels) {
  Add(name, help, prometheus::MetricType::Histogram, labels).histogram = value;
}

void MetricPage::AddSamples(const std::vector<MetricSample>& samples,
                            const MetricLabels& labels) {
  for (const MetricSample& sample : samples) {
    if (sample.is_counter) {
      AddCounter(sample.name, sample.help, sample.value, labels);
    } else {
      AddGauge(sample.name, sample.help, sample.value, labels);
    }
  }
}

std::string MetricPage::Text() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families_);
  return text.str();
}

}  // namespace ringmaster
