// The findings of a comparison, in sentences with its own figures: none that it
// does not have. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_FINDINGS_H_
#define RINGMASTER_SERVER_CTL_COMPARE_FINDINGS_H_

#include <string>
#include <vector>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// Says which mode is the fastest, how bytes grow with the workers, what
// gather-broadcast costs, who is the busiest and who needs most memory, what
// each variation brings, how stale answers were, how far off predictions.
[[nodiscard]] std::vector<std::string> FindingsOf(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_FINDINGS_H_
