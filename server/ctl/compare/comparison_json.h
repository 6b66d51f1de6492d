// A comparison as JSON, for programs: beside the report that is made of it.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_JSON_H_
#define RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_JSON_H_

#include <string>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// {"conditions": {...}, "runs": [{...}], "memory": [{...}]}, indented; keys end
// in their units. The values of theory stand beside those that were measured. A
// value that is not known is null.
[[nodiscard]] std::string ComparisonJson(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_JSON_H_
