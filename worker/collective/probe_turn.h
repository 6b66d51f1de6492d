// ProbeTurn is the right to measure: of the processes of a host (of a network
// namespace, to be exact) one at a time has it.
//
// Workers of a host start together, and would measure each other; one of them
// knows what all want to know. It is the bound name of an abstract Unix socket
// (unix(7)), which vanishes with its process. Anybody may hold it, which costs
// nobody more than a measurement.
#ifndef RINGMASTER_WORKER_COLLECTIVE_PROBE_TURN_H_
#define RINGMASTER_WORKER_COLLECTIVE_PROBE_TURN_H_

#include <optional>
#include <string_view>
#include <utility>

#include "common/transport/unique_fd.h"

namespace ringmaster {

class ProbeTurn {
 public:
  // Nothing while another process has it. A host without such sockets gives it
  // to everybody. It ends with the object. `name` is for tests.
  [[nodiscard]] static std::optional<ProbeTurn> Take(
      std::string_view name = "ringmaster-probe");

 private:
  explicit ProbeTurn(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_PROBE_TURN_H_
