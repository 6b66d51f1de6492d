// The flags by which `ringctl status`, `workers` and `top` show a part of the cluster.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_STATUS_FLAGS_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_STATUS_FLAGS_H_

#include <string>
#include <vector>

#include "common/config/flags.h"
#include "ringmaster/v1/status_service.pb.h"

namespace ringmaster::ctl {

// Each empty: all.
struct StatusOptions {
  std::vector<std::string> jobs;
  std::vector<std::string> queues;
  std::vector<std::string> owners;
  std::vector<std::string> hosts;
};

// `options` must outlive the parsing.
void AddStatusFlags(FlagSet& command, StatusOptions& options);

[[nodiscard]] v1::StatusFilter FilterOf(const StatusOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_STATUS_FLAGS_H_
