// FaultInjector: makes the planned faults happen, and notes whom they touch and
// how long.
#ifndef RINGMASTER_TESTS_SIMULATOR_FAULT_INJECTOR_H_
#define RINGMASTER_TESTS_SIMULATOR_FAULT_INJECTOR_H_

#include <array>
#include <memory>

#include "tests/simulator/context.h"
#include "tests/simulator/fault.h"
#include "tests/simulator/peer_links.h"
#include "tests/simulator/session_links.h"
#include "tests/simulator/sim_coordinator.h"
#include "tests/simulator/sim_worker.h"

namespace ringmaster::simulator {

using Workers = std::array<std::unique_ptr<SimWorker>, kWorkers>;

// All that can break; must outlive the injector.
struct Cluster {
  SessionLinks& sessions;
  PeerLinks& peers;
  SimCoordinator& coordinator;
  Workers& workers;
};

// Thread-compatible.
class FaultInjector {
 public:
  FaultInjector(Context& context, Cluster cluster);

  // Schedules the faults that come at a time of their own.
  void Begin();
  // Fault `index` happens; `slot` is the worker that has reached the moment it
  // waited for, or -1.
  void Strike(int index, int slot);
  // Handles the event kPeerSilent: the kernel of `slot` has probed its
  // connection with `peer` for long enough.
  void OnOutOfMemory(int slot);
  void OnPeerSilent(int slot, int peer);
  // No fault comes any more, and who is away comes back.
  void Calm();

  const std::array<int, kFaultKinds>& counts() const { return counts_; }

 private:
  void Apply(const Fault& fault, int slot);
  // `stays_away`: it may do so until the end.
  void KillWorker(int slot, bool is_silent, bool stays_away);
  void KillGiverLater(int index);
  void CutPeers(int from, int to, int directions, int64_t until);
  void ProbeLater(int slot, int peer);
  void SpoilHosts(const Fault& fault, int slot);
  void StartTwin(int64_t until);
  void StopCoordinator(const Fault& fault);
  // Everybody falls silent at the same time.
  void SilenceAll(const Fault& fault, int64_t until);
  int TargetOf(const Fault& fault, int slot);
  // SIGTERM of the members; of `everybody`, as a cluster that is shut down.
  void LeaveAll(bool everybody);
  // A worker to do it to: the one that reached the moment, or any.
  int PickTarget(int slot);
  // A holder of shards, and one from which `slot` takes copies, or any holder.
  int PickHolder();
  int PickGiver(int slot);
  // A neighbour of it in the ring, or any other worker.
  int PickPeer(int slot);
  void Touch(int slot, int64_t until) {
    context_.fault_log.Touch(slot, until + aftermath_);
  }

  Context& context_;
  Cluster cluster_;
  // How long after a fault its consequences may show.
  const int64_t aftermath_;
  std::array<int, kFaultKinds> counts_ = {};
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_FAULT_INJECTOR_H_
