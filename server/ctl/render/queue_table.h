// The table of `ringctl queues`.
#ifndef RINGMASTER_SERVER_CTL_RENDER_QUEUE_TABLE_H_
#define RINGMASTER_SERVER_CTL_RENDER_QUEUE_TABLE_H_

#include <string>
#include <vector>

#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// A line for each queue of `status`, with its limits and what its jobs have; or one that
// says that there are none.
[[nodiscard]] std::vector<std::string> QueueTable(const v1::Status& status,
                                                  const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_QUEUE_TABLE_H_
