#include "common/metrics/metrics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"

namespace ringmaster {
namespace {

bool IsWellFormed(std::string_view name, bool is_counter) {
  const bool has_good_characters =
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  return has_good_characters && name.starts_with("ringmaster_") &&
         name.ends_with("_total") == is_counter;
}

void CheckName(std::string_view name, bool is_counter) {
  RM_CHECK(IsWellFormed(name, is_counter),
           absl::StrCat("metric name \"",
                        absl::string_view(name.data(), name.size()),
                        "\": must be ringmaster_ and lower_snake, with _total "
                        "at the end iff it is a counter"));
}

}  // namespace

MetricRegistry::Entry& MetricRegistry::FindOrAdd(std::string_view name,
                                                 std::string_view help) {
  const auto it = entries_.find(name);
  if (it != entries_.end()) return it->second;
  Entry& entry = entries_[std::string(name)];
  entry.help = std::string(help);
  return entry;
}

Counter& MetricRegistry::counter(std::string_view name, std::string_view help) {
  CheckName(name, /*is_counter=*/true);
  MutexLock lock(mutex_);
  Entry& entry = FindOrAdd(name, help);
  if (entry.counter == nullptr) entry.counter = std::make_unique<Counter>();
  return *entry.counter;
}

Gauge& MetricRegistry::gauge(std::string_view name, std::string_view help) {
  CheckName(name, /*is_counter=*/false);
  MutexLock lock(mutex_);
  Entry& entry = FindOrAdd(name, help);
  if (entry.gauge == nullptr) entry.gauge = std::make_unique<Gauge>();
  return *entry.gauge;
}

std::vector<MetricSample> MetricRegistry::Samples() const {
  MutexLock lock(mutex_);
  std::vector<MetricSample> samples;
  samples.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    const bool is_counter = entry.counter != nullptr;
    samples.push_back({name, entry.help, is_counter,
                       is_counter ? static_cast<double>(entry.counter->value())
                                  : entry.gauge->value()});
  }
  return samples;
}

}  // namespace ringmaster
