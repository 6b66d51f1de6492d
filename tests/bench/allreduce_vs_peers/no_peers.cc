#include "tests/bench/allreduce_vs_peers/candidate.h"

namespace ringmaster {

Candidates MakePeers(int /*rank*/, int /*world_size*/,
                     const std::string& /*directory*/) {
  return {};
}

}  // namespace ringmaster
