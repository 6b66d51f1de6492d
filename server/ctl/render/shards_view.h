// Text that a job with parameter servers shows beside that of every job. Pure.
#ifndef RINGMASTER_SERVER_CTL_RENDER_SHARDS_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_SHARDS_VIEW_H_

#include <string>

#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {

// "staleness 0: 61%, 1: 30%, 2: 9% (bound 2)": how many steps the workers that
// servers answered were ahead of the slowest, over all servers since the
// generation began. Empty if no server reports any.
[[nodiscard]] std::string StalenessLine(const v1::Job& job);

// "STEP", "CONNECT, waits for rank 3": what the member does; "-" if that is not
// known.
[[nodiscard]] std::string PhaseCell(const v1::Member& member);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_SHARDS_VIEW_H_
