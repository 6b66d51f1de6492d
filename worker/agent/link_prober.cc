#include "worker/agent/link_prober.h"

#include <string>
#include <thread>
#include <utility>

#include "common/protocol/proto_time.h"
#include "common/transport/cancel_token.h"
#include "common/transport/reach_peers.h"

namespace ringmaster {

struct LinkProber::Round {
  CancelToken cancel;
  std::thread thread;
};

LinkProber::LinkProber(Clock& clock) : clock_(clock) {}

LinkProber::~LinkProber() { Stop(); }

void LinkProber::Start(const v1::Probe& probe, OnProbed on_probed) {
  Stop();
  round_ = std::make_unique<Round>();
  round_->thread = std::thread([this, probe, on_probed = std::move(on_probed),
                                &cancel = round_->cancel] {
    v1::Probe tried = probe;
    tried.clear_peers();
    std::vector<std::string> addresses;
    for (const v1::ProbePeer& peer : probe.peers()) {
      // Stop must not wait for a name server.
      if (!IsNumeric(peer.data_address())) continue;
      *tried.add_peers() = peer;
      addresses.push_back(peer.data_address());
    }
    const std::vector<absl::Status> reached =
        ReachPeers(addresses, FromProto(tried.timeout()), clock_, cancel);
    if (!cancel.is_cancelled()) on_probed(tried, reached);
  });
}

void LinkProber::Stop() {
  if (round_ == nullptr) return;
  round_->cancel.Cancel("the probe is over");
  round_->thread.join();
  round_.reset();
}

}  // namespace ringmaster
