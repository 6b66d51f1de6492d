// PeerLinks: the network between workers.
//
// Frames of one link arrive in order. While a link is cut they are held up, as
// TCP does, and arrive when it is whole again. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_PEER_LINKS_H_
#define RINGMASTER_TESTS_SIMULATOR_PEER_LINKS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "tests/simulator/context.h"

namespace ringmaster::simulator {

class PeerLinks {
 public:
  explicit PeerLinks(Context& context) : context_(context) {}

  void Send(int from, int to, const Frame& frame);
  void Cut(int from, int to, int64_t until);
  bool IsCut(int from, int to) const {
    return links_[from][to].cut_until > context_.now;
  }
  // Handles the event kPeerHeal.
  void Heal(int from, int to);

 private:
  struct Link {
    int64_t cut_until = 0;
    int64_t last_arrival = 0;
    std::vector<Frame> held;
  };
  void Deliver(Link& link, int from, int to, const Frame& frame);

  Context& context_;
  std::array<std::array<Link, kWorkers>, kWorkers> links_;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_PEER_LINKS_H_
