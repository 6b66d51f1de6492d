// The findings of a comparison, in sentences that use only its own figures.
// Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_FINDINGS_H_
#define RINGMASTER_SERVER_CTL_COMPARE_FINDINGS_H_

#include <string>
#include <vector>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// Says which mode is the fastest, how bytes grow with the workers, what
// gather-broadcast costs, which rank is the busiest and which needs most
// memory, what each variation gains, how stale answers were, and how far
// predictions were off.
[[nodiscard]] std::vector<std::string> FindingsOf(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_FINDINGS_H_
