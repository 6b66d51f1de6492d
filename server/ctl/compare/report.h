// The report of a comparison: one self-contained HTML file.
//
// No script, nothing from outside; light or dark as the reader's browser asks.
// Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_REPORT_H_
#define RINGMASTER_SERVER_CTL_COMPARE_REPORT_H_

#include <string>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

[[nodiscard]] std::string ReportHtml(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_REPORT_H_
