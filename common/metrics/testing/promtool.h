// Prometheus' own linter, for tests.
#ifndef RINGMASTER_COMMON_METRICS_TESTING_PROMTOOL_H_
#define RINGMASTER_COMMON_METRICS_TESTING_PROMTOOL_H_

#include "common/metrics/metric_page.h"

namespace ringmaster {

// Expects `promtool check metrics` to find nothing; skips the test if promtool
// is not installed.
void ExpectPassesPromtool(const MetricPage& page);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_METRICS_TESTING_PROMTOOL_H_
