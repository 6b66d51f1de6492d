// Text of flight records: what ranks did in collectives. Pure; lines have no
// newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_FLIGHT_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_FLIGHT_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmaster/v1/trace.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// Who held the others up, and a table with the last `last` (> 0) collectives of
// each rank, the newest last. Ages are before the rank's answer.
[[nodiscard]] std::vector<std::string> FlightLines(
    const v1::FlightRecord& record, int64_t last, const Style& style);

// "no record of rank 2 (worker w2): it was lost", a line for each missing rank.
[[nodiscard]] std::vector<std::string> MissingRankLines(
    const v1::FlightRecord& record);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_FLIGHT_VIEW_H_
