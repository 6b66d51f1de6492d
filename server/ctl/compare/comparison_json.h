// A comparison as JSON, for programs; the report has the same figures.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_JSON_H_
#define RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_JSON_H_

#include <string>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// {"conditions": {...}, "runs": [{...}], "memory": [{...}]}, indented; keys end
// in their units. Theoretical values stand beside the measured ones. A value
// that is not known is null.
[[nodiscard]] std::string ComparisonJson(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_JSON_H_
