// RandomCluster: a core among workers, users and a journal that do, at random
// and in virtual time, anything the protocol allows; it checks the invariants
// meanwhile.
//
// The workers keep to the commit protocol of training: a step is complete on a
// rank once all have contributed to it, and applied once all have said that it
// is complete. A job may start from a checkpoint, which its ranks load before
// or while they train, as if its step were the first. Newcomers hold nothing
// until the state was copied to them; members that are asked to pause do so
// where all hold the same step. In some jobs parameter servers, or the workers
// beside their own work, hold the parameters: a step is complete on a worker
// once every shard's primary and its backup have made it. A leaver that holds
// shards stays until it is released or loses its patience; except for that, and
// for sudden losses, no job goes back. Processes die, freeze, lose their
// streams and come back; the journal fails; the coordinator restarts. The same
// seed does the same again.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_RANDOM_CLUSTER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_RANDOM_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/core.h"

namespace ringmaster::coordinator {

class RandomCluster {
 public:
  // Log() tells the last `log_lines` things that happened.
  explicit RandomCluster(uint64_t seed, size_t log_lines = 60);

  // Lets `count` random things happen.
  void RunAtRandom(int count);
  // Stops all faults, repairs what is broken, and provides enough workers.
  // Returns true if all jobs ended within a virtual hour.
  bool RunToTheEnd();

  // The invariants that were violated, in order; empty if none was.
  const std::vector<std::string>& violations() const { return violations_; }
  // The last things that happened, and what jobs wait for: for a failure's
  // message.
  std::string Log() const;

  // How often each kind of thing happened: a test checks that all of them did.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  enum class Mode {
    kIdle,
    kPreparing,
    kPrepared,
    kRunning,
    kHalted,
    kFinished,
    kFailed,
  };
  struct Process {
    std::string name;
    std::string host;
    v1::Role role = v1::ROLE_WORKER;
    uint64_t incarnation = 0;
    bool is_frozen = false;
    SessionId session = 0;
    // It is sent away, as its generation is another coordinator's, since then.
    std::optional<MonotonicTime> sent_away_since;
    // On their way to the coordinator and from it.
    std::deque<Event> up;
    std::deque<Action> down;
    Mode mode = Mode::kIdle;
    int64_t generation = 0;
    uint64_t formed_by = 0;
    int rank = -1;
    std::string job_id;
    int64_t applied = 0;
    int64_t complete = 0;
    int64_t disk_bytes = 0;
    // Rises with each beat while the rank's commands run.
    int64_t meetings = 0;
    bool wants_stop = false;
    bool wants_pause = false;
    // The state is still to be copied to it.
    bool is_newcomer = false;
    bool is_leaving = false;
    bool is_rehearsal = false;
    // The newest step of each shard that it holds whole.
    std::map<int, int64_t> shards;
  };
  // Some lives are of a release before the newest.
  static int ProtocolOf(uint64_t incarnation) {
    return incarnation % 4 == 0 ? 1 : kNewestProtocol;
  }
  // The values that the ranks of a generation have exchanged.
  struct Exchange {
    std::string job_id;
    int64_t total_steps = 0;
    int64_t checkpoint_step = 0;
    int64_t resume_step = 0;
    int source_rank = -1;
    v1::FrameIntegrity integrity = v1::FRAME_INTEGRITY_UNSPECIFIED;
    // By rank of the workers: highest step contributed to, and said to be
    // complete.
    std::vector<int64_t> contributed;
    std::vector<int64_t> recorded;
    Sharding sharding;
    int members = 0;
    // Null: the job has no shards.
    std::shared_ptr<const std::vector<ShardPlacement>> placements;
    // By shard: the newest step that workers were answered with; -1: none.
    std::vector<int64_t> answered;
    // It makes no step, and rank 0 writes a checkpoint.
    bool is_for_checkpoint = false;
    // A parameter server wants to leave.
    bool has_leaving_server = false;
    // By rank of the workers: how they have ended.
    enum class Done { kNo, kFinished, kStopped, kDrained };
    std::vector<Done> done;
    // Its step is commands, which take a while. As long as one of them runs, the ranks
    // may agree that all are to end.
    bool runs_commands = false;
    Done agreed_end = Done::kNo;
  };

  int Pick(int bound);
  bool Chance(int percent) { return Pick(100) < percent; }
  Process* PickProcess();
  void Count(const std::string& what) { ++counts_[what]; }
  void Violate(const std::string& what) { violations_.push_back(what); }

  // Faults and wishes.
  void DoSomething();
  void Spawn();
  void Kill(const std::string& name);
  void BreakStream(Process& process);
  void Complain(Process& process);
  void AskForSomething();
  void Cordon(RequestToken request);
  void SetQueues(RequestToken request);
  void ChangeSomeJob(RequestToken request);
  Sharding DrawSharding(int max_workers);
  void DoJournal(bool is_fault);
  void RestartCoordinator();

  // The regular course of things.
  void DoWork(Process& process);
  void Train(Process& process);
  // The part of a holder of shards.
  void Serve(Process& process);
  void ServeShard(Process& process, Exchange& exchange, int shard);
  static bool IsHolder(const Process& process, const ShardPlacement& placement);
  // The least step that is served of the shards that the process holds for the
  // generation; nullopt: it holds none.
  static std::optional<int64_t> LeastServedStep(const Process& process,
                                                const Exchange& exchange);
  void DropSpares(Process& process, const Exchange& exchange);
  // Ends a parameter server's part once all workers have ended theirs.
  void EndServing(Process& process);
  // Brings what it holds to where the generation goes on.
  void PrepareShards(Process& process, const SendAssignment& assignment);
  void TrainByOwnClock(Process& process);
  Process* ProcessAt(int64_t generation, int rank);
  void SetDone(const Process& process, Exchange::Done done);
  static bool IsAnswered(const Exchange& exchange, int64_t step);
  HaltedReceived HaltedOf(const Process& process);
  // Takes over the state that the generation goes on from.
  void Copy(Process& process);
  void Apply(Process& process, int64_t step);
  // Ends between two steps if asked to; returns true if it did.
  // Notes what `process` wants all commands to do.
  static void AgreeOnEnd(const Process& process, Exchange& exchange);
  bool EndsHere(Process& process);
  // A leaver that holds something waits for its release.
  static bool StaysUntilReleased(const Process& process);
  // Loads the job's checkpoint, which counts as a step that is complete.
  void Load(Process& process);
  void Connect(Process& process);
  void Beat(Process& process);
  void DeliverUp(Process& process);
  void DeliverDown(Process& process);
  void Receive(Process& process, const Action& action);
  void AnswerProbe(Process& process, const v1::Probe& probe);
  // It is in no job any more.
  static void GoIdle(Process& process);
  void ReceiveAssignment(Process& process, const SendAssignment& assignment);
  void SayAgain(Process& process);
  // It is to write the last step of a job that keeps checkpoints.
  bool IsLastWriter(const Process& process) const;
  void Finish(Process& process, bool is_stopped);
  void Advance(absl::Duration duration);

  void Feed(const Event& event);
  void Perform(const Action& action);
  Process* ProcessOf(SessionId session);

  // Checks of the invariants.
  void CheckRecord(const JournalRecord& record);
  void CheckAssignment(const SendAssignment& assignment);
  void CheckIntegrity(const SendAssignment& assignment);
  void CheckPlacements(const SendAssignment& assignment);
  static bool IsBeingReleased(const Process& process);
  void CheckRollback(const GenerationFormedRecord& formed);
  void CheckCordons(const GenerationFormedRecord& formed);
  void CheckRoom(const GenerationFormedRecord& formed);
  void CheckGifts();
  void CheckLeavers(const GenerationFormedRecord& formed);
  void CheckNotRelieved(const std::vector<Action>& actions);
  static bool IsLoss(const v1::Event& event);
  void CheckStepsLost(const v1::Event& event);
  void CheckReply(const ReplyToUser& reply);
  void CheckState();
  void CheckMembers(const Job& job);

  const size_t log_lines_;
  std::mt19937_64 random_;
  Config config_;
  CoordinatorCore core_;
  MonotonicTime now_;
  std::map<std::string, Process> processes_;
  std::map<int64_t, Exchange> exchanges_;
  std::vector<Persist> unanswered_;
  std::vector<JournalRecord> journal_;
  // Generations and job ends that are durable.
  std::set<int64_t> durable_generations_;
  std::set<std::string> durable_jobs_;
  std::set<std::string> durable_ends_;
  std::set<RequestToken> submits_;
  // The last generation that was assigned, by job.
  std::map<std::string, int64_t> last_assigned_;
  // The step of the checkpoint that a job finds; 0: it finds none.
  std::map<std::string, int64_t> checkpoints_;
  // Jobs whose last step is in a checkpoint.
  std::set<std::string> written_;
  // The highest step applied by anybody, by job, since its last rollback, and
  // the generation of that.
  std::map<std::string, int64_t> applied_;
  // The highest step after which a generation was told to go on, by job, since its
  // last rollback: all shards were made as of it, though no worker may have applied it.
  std::map<std::string, int64_t> told_;
  std::map<std::string, int64_t> rollbacks_;
  // Jobs of which members may have been lost, or released with what they held,
  // since their last generation began.
  std::set<std::string> lossy_jobs_;
  // When workers were lost last lost.
  std::map<std::string, MonotonicTime> lost_at_;
  bool has_queues_ = false;
  bool has_failed_journal_ = false;
  bool is_calm_ = false;
  uint64_t last_incarnation_ = 0;
  uint64_t coordinator_incarnation_ = 0;
  SessionId last_session_ = 0;
  RequestToken last_request_ = 0;
  std::vector<std::string> violations_;
  std::deque<std::string> log_;
  std::map<std::string, int> counts_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_RANDOM_CLUSTER_H_
