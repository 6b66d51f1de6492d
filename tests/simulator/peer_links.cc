#include "tests/simulator/peer_links.h"

#include <algorithm>
#include <utility>

namespace ringmaster::simulator {

void PeerLinks::Deliver(Link& link, int from, int to, const Frame& frame) {
  link.last_arrival =
      std::max(link.last_arrival, context_.now + context_.Latency());
  SimEvent event;
  event.kind = EventKind::kFrame;
  event.slot = static_cast<int8_t>(to);
  event.from = static_cast<int8_t>(from);
  event.frame = frame;
  context_.At(link.last_arrival, event);
}

void PeerLinks::Send(int from, int to, const Frame& frame) {
  Link& link = links_[from][to];
  if (link.cut_until > context_.now) {
    link.held.push_back(frame);
  } else {
    Deliver(link, from, to, frame);
  }
}

void PeerLinks::Cut(int from, int to, int64_t until) {
  Link& link = links_[from][to];
  link.cut_until = std::max(link.cut_until, until);
  SimEvent event;
  event.kind = EventKind::kPeerHeal;
  event.slot = static_cast<int8_t>(to);
  event.from = static_cast<int8_t>(from);
  context_.At(link.cut_until, event);
}

void PeerLinks::Heal(int from, int to) {
  Link& link = links_[from][to];
  if (link.cut_until > context_.now) return;
  for (const Frame& frame : std::exchange(link.held, {})) {
    Deliver(link, from, to, frame);
  }
}

}  // namespace ringmaster::simulator
