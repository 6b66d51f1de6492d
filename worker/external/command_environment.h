// The environment of a rank's command: torchrun's contract. Pure.
#ifndef RINGMASTER_WORKER_EXTERNAL_COMMAND_ENVIRONMENT_H_
#define RINGMASTER_WORKER_EXTERNAL_COMMAND_ENVIRONMENT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/port_range.h"

namespace ringmaster {

// A rank's place among the commands of a job.
struct CommandPlace {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // on its host
  int local_world_size = 1;
  int host_index = 0;  // of its host, by the ranks
  int host_count = 1;
  std::string master_address;  // rank 0's host
  int master_port = 0;         // free there, for a store of rank 0's
  int restart_count = 0;       // how often the commands were started before
  int max_restarts = 0;
  std::string run_id;
  int threads = 1;
  // The ports that the command is to listen on; nullopt: any.
  std::optional<PortRange> port_range = {};
  // A directory of Python modules for the command; empty: none.
  std::string python_path = {};
  // ViewServer::name; empty: the command is told of no views.
  std::string views = {};
  // TakesNewcomers::group, of one that takes the place of a rank that was lost;
  // else empty.
  std::string group = {};
};

// Returns the entries NAME=VALUE for execve, one of each name: those of the
// process, `inherited`, without what only Ringmaster understands; `own` in
// their place, and the rank's before all, RINGMASTER_DATA_PORTS, RINGMASTER_VIEWS
// and RINGMASTER_GROUP where it has such among them. Of the rest, OMP_NUM_THREADS and
// PYTHONUNBUFFERED are set where nobody else did, and PYTHONPATH begins with
// python_path.
[[nodiscard]] std::vector<std::string> CommandEnvironment(
    const std::vector<std::string>& inherited,
    const std::map<std::string, std::string>& own, const CommandPlace& place);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_COMMAND_ENVIRONMENT_H_
