// LinkProber answers the coordinator's probes: a thread that connects to peers, so
// that the agent's own is never kept waiting.
//
// One probe at a time: another one, or Stop, cancels it, and it is not answered.
// Thread-safety: all methods from one thread.
// Ownership: the clock must outlive it; the destructor calls Stop.
#ifndef RINGMASTER_WORKER_AGENT_LINK_PROBER_H_
#define RINGMASTER_WORKER_AGENT_LINK_PROBER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/clock/clock.h"
#include "ringmaster/v1/probe.pb.h"

namespace ringmaster {

class LinkProber {
 public:
  // `probe` without the peers whose address is a name, and one status for each of
  // those left, as from ReachPeers. On the prober's thread; must not block, nor
  // call methods.
  using OnProbed = std::function<void(const v1::Probe& probe,
                                      const std::vector<absl::Status>&)>;

  explicit LinkProber(Clock& clock);
  ~LinkProber();
  LinkProber(const LinkProber&) = delete;
  LinkProber& operator=(const LinkProber&) = delete;

  void Start(const v1::Probe& probe, OnProbed on_probed);
  void Stop();

 private:
  struct Round;

  Clock& clock_;
  std::unique_ptr<Round> round_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_LINK_PROBER_H_
