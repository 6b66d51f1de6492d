// ProbeTurn is the right to measure: one process of a host (of a network
// namespace, to be exact) has it at a time.
//
// Workers of a host start together and would disturb each other's measurements;
// one measurement serves them all. It is the bound name of an abstract Unix
// socket (unix(7)), which vanishes with its process. Any process can take it;
// that costs no more than a measurement.
#ifndef RINGMASTER_WORKER_COLLECTIVE_PROBE_TURN_H_
#define RINGMASTER_WORKER_COLLECTIVE_PROBE_TURN_H_

#include <optional>
#include <string_view>
#include <utility>

#include "common/transport/unique_fd.h"

namespace ringmaster {

class ProbeTurn {
 public:
  // Returns nullopt while another process has it. On a host without such
  // sockets every process gets it. It ends with the object. `name` is for
  // tests.
  [[nodiscard]] static std::optional<ProbeTurn> Take(
      std::string_view name = "ringmaster-probe");

 private:
  explicit ProbeTurn(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_PROBE_TURN_H_
