// SimCoordinator: the coordinator's process with the real CoordinatorCore, a
// journal that outlives it, and its sessions.
//
// The adapter around the core: what server/coordinator/rpc and
// server/coordinator/journal do with gRPC and a disk. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_SIM_COORDINATOR_H_
#define RINGMASTER_TESTS_SIMULATOR_SIM_COORDINATOR_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/parameter_server/shard_placement.h"
#include "server/coordinator/core/core.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/record.h"
#include "tests/simulator/context.h"
#include "tests/simulator/core_timer.h"
#include "tests/simulator/session_links.h"

namespace ringmaster::simulator {

class SimCoordinator {
 public:
  // Facts about the workers, which are not this class's, for the ledger.
  struct Witness {
    // That process of the worker lives.
    std::function<bool(int slot, int64_t pid)> is_alive;
    // That process lives and holds the last committed step of that job.
    std::function<bool(int job, int slot, uint64_t incarnation)> holds_newest;
    // The parameters that the process holds; nothing if it is dead.
    std::function<std::vector<HeldShard>(int slot, uint64_t incarnation)>
        shards_of;
  };
  SimCoordinator(Context& context, SessionLinks& sessions, Witness witness)
      : context_(context),
        sessions_(sessions),
        witness_(std::move(witness)),
        timer_(context, EventKind::kCoordinatorTimer, /*slot=*/-1) {}

  // With the journal's records, unless one lives.
  void Start();
  void Kill();
  // Another coordinator takes its place, on a copy of the journal without the
  // newest generation; returns false if there is no such copy of which it could
  // be known. EndTwin brings the first one back.
  [[nodiscard]] bool StartTwin();
  void EndTwin();
  void Stall(int64_t until);
  // The journal fails until then.
  void FailJournal(int64_t until);
  // An operator drains that worker, and lifts it again after `duration`.
  void Drain(int slot, int64_t duration);
  // Lifts a drain whose time is over, and looks again each second: a copy of the
  // journal may have it again.
  void Uncordon(int slot);

  // Handle the events kToCoordinator, kCoordinatorTimer, kJournalWritten,
  // kJournalAnswer and kJournalWorks.
  void OnMessage(coordinator::SessionId session);
  void OnTimer(uint32_t version);
  void OnJournalWritten(uint32_t version);
  void OnJournalAnswer(uint32_t version);
  void OnJournalWorks();

  bool is_alive() const { return core_.has_value(); }
  // A user's action of the plan happens, if it can be asked.
  void OnUserAction(int index);
  // Jobs that are suspended are resumed, from now on each second: a copy of the
  // journal may have one suspended again.
  void ResumeAll();
  // Submits the jobs whose time has come.
  void Submit();
  // The job has members that prepare, train or halt.
  bool IsAtWork(int job) const;
  // Its members have been told of a generation.
  bool HasBegun(int job) const;
  // A job waits because the ends of a link that failed twice are kept apart
  // for a while: that is policy.
  bool KeepsLinkApart() const;
  // A job waits for members that were given up and may hold its steps.
  bool AwaitsAbsent() const;
  // Returns true if it has said of that process that it is lost or has left.
  bool HasGivenUp(int slot, uint64_t incarnation) const {
    return lost_[slot].incarnation == incarnation;
  }
  // One waits, and the workers of some host failed so often that it takes none of
  // them for now.
  bool LeavesHostOut() const;
  int64_t stalled_until() const { return stalled_until_; }

 private:
  struct Pending {
    coordinator::PersistToken token = 0;
    coordinator::JournalRecord record;
  };
  struct Answer {
    coordinator::PersistToken token = 0;
    bool is_durable = false;
  };

  // Requires is_alive.
  void ChangeJob(int index, const coordinator::JobChange& change);
  // Null before it is accepted. Requires is_alive.
  const coordinator::Job* FindJob(int index) const;
  bool SomeJobWaits(
      const std::function<bool(const coordinator::Job&)>& condition) const;
  // A worker belongs to at most one generation.
  void CheckOneGeneration(const coordinator::GenerationFormedRecord& formed);
  void Feed(coordinator::EventBody body);
  void Perform(coordinator::Action& action);
  void Do(coordinator::SendWelcome& action);
  void Do(coordinator::SendAssignment& action);
  void Do(coordinator::SendStart& action);
  void Do(coordinator::SendHalt& action);
  void Do(coordinator::SendLeaveAdvice& action);
  void Do(coordinator::SendProbe& action);
  void Do(coordinator::GatherFlight& action);
  void Do(coordinator::SendStop& action);
  void Do(coordinator::SendPause& action);
  void Do(coordinator::SendRelease& action);
  void Do(coordinator::CloseSession& action);
  void Do(coordinator::Persist& action);
  void Do(coordinator::ReplyToUser&) {}
  void Do(coordinator::EmitEvent& action);
  void MakeDurable(const coordinator::JournalRecord& record);
  void OnFormationByTwin(int64_t generation);
  void EndTwinNow();
  void NoteEnds();
  // Returns true if the job may fail with that code now (decision 0028).
  bool MayFail(const std::string& job_id, int exit_code) const;
  // A worker failed by its own fault.
  void CheckOwnFailure(const v1::Event& event);
  void CheckContradiction(const v1::Event& event);
  void NoteLost(int job, int slot, uint64_t incarnation, bool has_left);
  bool HasSurvivor(int job, bool is_rollback) const;
  bool HasAllShards(int job) const;

  Context& context_;
  SessionLinks& sessions_;
  const Witness witness_;

  std::optional<coordinator::CoordinatorCore> core_;
  uint32_t life_ = 0;
  int64_t stalled_until_ = 0;
  CoreTimer timer_;

  std::vector<coordinator::JournalRecord> journal_;
  // While the twin is there: the first one's, and whether a member has told the
  // twin of its generation, which that does not know.
  std::optional<std::vector<coordinator::JournalRecord>> first_journal_;
  bool has_met_member_ = false;
  // The jobs that it has decided to fail when they might.
  std::set<std::string> may_fail_;
  std::deque<Pending> pending_;
  std::deque<Answer> answers_;
  int64_t last_write_ = 0;
  int64_t journal_fails_until_ = 0;
  // A process that was said to be lost to a job, or to have left it.
  struct Lost {
    uint64_t incarnation = 0;
    int job = 0;
    int64_t time = 0;
    bool has_left = false;
    // The newest one whose record was durable then.
    int64_t generation = 0;
  };
  // The job must not go back while this member lives and holds its steps.
  bool IsCountedOn(int job, int slot, uint64_t incarnation) const;
  // By slot: the last one.
  std::array<Lost, kWorkers> lost_ = {};
  // When each worker's last drain is over, and whether somebody looks after it.
  std::array<int64_t, kWorkers> drained_until_ = {};
  std::array<bool, kWorkers> is_looked_after_ = {};
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_SIM_COORDINATOR_H_
