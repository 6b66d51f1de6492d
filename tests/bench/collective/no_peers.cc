#include "tests/bench/collective/candidate.h"

namespace ringmaster {

std::vector<std::unique_ptr<Candidate>> MakePeers(
    int /*rank*/, int /*world_size*/, const std::string& /*directory*/) {
  return {};
}

}  // namespace ringmaster
