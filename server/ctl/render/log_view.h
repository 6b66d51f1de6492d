// Lines of logs as text.
//
// Pure. Lines have no newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_LOG_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_LOG_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// The lines of all processes by their time: as a process writes its own, with
// its name in front if `has_names`.
[[nodiscard]] std::vector<std::string> LogTextLines(
    const v1::GetLogsResponse& response, bool has_names, const Style& style);

// "w1 did not answer within 2s", and where its log lies if that is known.
[[nodiscard]] std::string MissingLogText(const v1::MissingLog& missing);

// How far each process's log has been read, by its incarnation.
using LogPositions = std::map<uint64_t, int64_t>;

// Says which lines of those asked for are not in `response`, a sentence for each
// process: those that did not fit the answer, and those after `read` that are not
// kept any more.
[[nodiscard]] std::vector<std::string> LogGaps(
    const v1::GetLogsResponse& response, const LogPositions& read);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_LOG_VIEW_H_
