// CoordinatorRuntime runs a CoordinatorCore: it feeds it messages, users'
// calls, the journal's answers and time, and performs the actions that come
// out.
//
// All state belongs to one thread, the executor's; the methods only post to it.
// Free of gRPC, so that it runs with fake streams too.
//
// Thread-safety: thread-safe. Callbacks (replies, queries) run on the executor;
// they must not block, nor call Shutdown.
// Ownership: owns core, journal and threads. Streams and watchers are shared
// with the services.
// Example:
//   ASSIGN_OR_RETURN(auto runtime, CoordinatorRuntime::Start(options));
//   const SessionId session = runtime->OpenSession(stream, "10.0.0.7");
//   runtime->Receive(session,
//                    ParseSessionMessage(session, message, "10.0.0.7"));
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_RUNTIME_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/access/refusal_log.h"
#include "common/clock/clock.h"
#include "common/executor/serial_executor.h"
#include "common/plan/topology.h"
#include "common/program/health.h"
#include "server/coordinator/core/core.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/rpc/event_log.h"
#include "server/coordinator/rpc/flight_gathering.h"
#include "server/coordinator/rpc/gatherings.h"
#include "server/coordinator/rpc/limits.h"
#include "server/coordinator/rpc/log_gathering.h"
#include "server/coordinator/rpc/publisher.h"
#include "server/coordinator/rpc/session_stream.h"
#include "server/coordinator/rpc/state_proto.h"
#include "server/coordinator/rpc/trace_gathering.h"

namespace ringmaster::coordinator {

// The coordinator as a query sees it; valid while the query runs.
struct CoordinatorView {
  const State& state;
  const EventLog& events;
  const CoordinatorIdentity& self;
  const Config& config;
  MonotonicTime now;
  // Journal::OldestWait(), zero if none waits.
  absl::Duration journal_wait = {};

  // For StatusProto.
  [[nodiscard]] StatusSource Status() const;
};

class CoordinatorRuntime {
 public:
  struct Options {
    Config config = {};
    Limits limits = {};
    std::string state_dir = {};
    std::string version = {};
    // Outlives the runtime.
    Clock* clock = &Clock::Real();
  };

  // Opens the journal, recovers what it holds and starts. The errors are
  // Journal::Open's and Load's, and CoordinatorCore::Recover's; they carry an
  // exit code.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CoordinatorRuntime>>
  Start(Options options);

  // Shuts down, then waits for what was posted and for the journal.
  ~CoordinatorRuntime();
  CoordinatorRuntime(const CoordinatorRuntime&) = delete;
  CoordinatorRuntime& operator=(const CoordinatorRuntime&) = delete;

  // ---- Workers' sessions.

  // Announces a new stream from `observed_host`. It must say hello within the
  // lease.
  SessionId OpenSession(std::shared_ptr<SessionStream> stream,
                        std::string observed_host);
  // Takes a parsed message. Closes a session that breaks the protocol: `event`
  // is an error, a hello is not the first message, or the first message is not
  // a hello. Calls the stream's ReadNext once the event has been handled.
  void Receive(SessionId session, absl::StatusOr<EventBody> event);
  // As Receive, for the answer to a question of Gatherings, which gets it unless
  // that ends the session.
  void ReceiveAnswer(SessionId session, absl::StatusOr<EventBody> event,
                     v1::SessionRequest answer);
  // The stream has ended because of `detail`; also called after Close.
  void SessionEnded(SessionId session, std::string detail);

  // ---- Users' calls. Not OK, and then without any callback:
  //   RESOURCE_EXHAUSTED  too many calls wait (LimitReached)
  //   UNAVAILABLE         shutting down

  using Query = absl::AnyInvocable<void(const CoordinatorView&)>;
  [[nodiscard]] absl::Status Ask(Query query);

  // `status` may be an error; `job` is the job it is about, or null.
  using UserReply = absl::AnyInvocable<void(
      const absl::Status& status, const CoordinatorView& view, const Job* job)>;
  // `request.request` is filled in here.
  [[nodiscard]] absl::Status Submit(SubmitRequested request, UserReply reply);
  [[nodiscard]] absl::Status Cancel(CancelRequested request, UserReply reply);
  [[nodiscard]] absl::Status Change(ChangeRequested request, UserReply reply);
  // About no job.
  [[nodiscard]] absl::Status Cordon(CordonRequested request, UserReply reply);
  [[nodiscard]] absl::Status SetQueues(QueuesRequested request,
                                       UserReply reply);
  // The same of the file Config::queues_file, which `owner` may write. To be called again
  // and again: it changes nothing where that is so already, or while the journal fails.
  void FollowQueues(v1::QueueFile file, Caller owner);

  // `reply` gets NOT_FOUND/JOB_NOT_FOUND without such a job.
  [[nodiscard]] absl::Status GatherTrace(std::string job, int64_t first_step,
                                         int64_t last_step, TraceReply reply);
  // Of workers; `reply` gets GatherLogs' errors.
  [[nodiscard]] absl::Status GatherLogs(v1::GetLogsRequest request,
                                        LogsReply reply);

  // The members' collectives: their record of that incident of the job, or, if it
  // is 0, what they do now. `reply` gets the errors of KeptFlight and
  // AskForCollectives, and NOT_FOUND/JOB_NOT_FOUND.
  [[nodiscard]] absl::Status GetFlight(std::string job, int incident,
                                       FlightReply reply);

  // Notes a change that somebody made outside of the core, for the audit.
  void NoteChange(AuditedRecord entry);

  // These errors end the watch.
  void WatchStatus(std::shared_ptr<StatusWatcher> watcher,
                   v1::WatchStatusRequest request = {});
  void WatchJob(std::string job, std::shared_ptr<JobWatcher> watcher);

  // Returns true if the executor answers within `patience`: for watchdogs. Do
  // not call it from a callback.
  [[nodiscard]] bool Answers(absl::Duration patience) {
    return executor_.Answers(patience);
  }
  // Health for probes, by the executor's own answer within `patience`. It is
  // ready while decisions become durable; otherwise the journal's file and its
  // fault are the reason. Do not call it from a callback.
  [[nodiscard]] Health CheckHealth(absl::Duration patience);

  // ---- The end.

  // Ends every session, watch and waiting call with UNAVAILABLE/SHUTTING_DOWN,
  // now and later. Workers keep training and return to the next coordinator.
  // Returns at once.
  void Shutdown();

  [[nodiscard]] const CoordinatorIdentity& identity() const { return self_; }

 private:
  struct Session {
    std::shared_ptr<SessionStream> stream;
    std::string observed_host;
    bool has_said_hello = false;
    bool is_welcomed = false;
  };
  // Values that all members of a generation receive alike.
  struct GenerationSecrets {
    int64_t generation = 0;
    std::string secret;
    uint64_t table_hash = 0;
    Topology topology = Topology::OneHost(1);
    // Null: the job has no shards.
    std::shared_ptr<const v1::ShardPlacements> placements;
  };

  explicit CoordinatorRuntime(Options options);

  // The rest runs on the executor.
  void OnReceive(SessionId session, absl::StatusOr<EventBody> event);
  void OnEnded(SessionId session, const std::string& detail,
               bool is_violation = false);
  void OnWakeup();
  void OnShutdown();
  // Closes a session for a reason of the adapter's own; the core sees a broken
  // stream.
  void Break(SessionId session, const absl::Status& status);
  void RefuseSilentSessions();
  // Refuses the oldest of them while they are too many.
  void MakeRoomForSilentSessions();
  void EraseSession(std::unordered_map<SessionId, Session>::iterator it);
  // OK, or the limit that was reached: by a hello, a job, a call that waits for
  // the disk.
  absl::Status CheckSessionLimit(const HelloReceived& hello) const;
  absl::Status CheckReplyLimit() const;
  // Posts a call, unless too many wait for their turn.
  absl::Status PostCall(absl::AnyInvocable<void()> call);
  // The same of one that the core answers.
  template <typename Request>
  absl::Status PostCommand(Request request, UserReply reply);

  void Feed(EventBody body);
  void ScheduleWakeup();
  CoordinatorView View() const;

  void Perform(SendWelcome& action);
  void SendRehearsal(const SendAssignment& action, const Job& job);
  void LogRefusal(const Session& session, const absl::Status& status);
  void Perform(SendAssignment& action);
  void Perform(SendStart& action);
  void Perform(SendHalt& action);
  void Perform(SendLeaveAdvice& action);
  void Perform(SendProbe& action);
  void Perform(SendStop& action);
  void Perform(SendPause& action);
  void Perform(SendRelease& action);
  void Perform(GatherFlight& action);
  void Perform(CloseSession& action);
  void Perform(Persist& action);
  void Perform(ReplyToUser& action);
  void Perform(EmitEvent& action);
  void Send(SessionId session, v1::SessionResponse message);
  const GenerationSecrets& SecretsOf(int64_t generation, const Job& job);

  const Options options_;
  Clock& clock_;
  const CoordinatorIdentity self_;
  std::atomic<SessionId> last_session_{0};

  // Only the executor's thread uses these, except before Begin and after Stop.
  std::optional<CoordinatorCore> core_;
  bool is_shut_down_ = false;
  std::unordered_map<SessionId, Session> sessions_;
  // Sessions by when they must have said hello; those that have, or have ended,
  // may still be in it.
  std::deque<std::pair<MonotonicTime, SessionId>> hello_deadlines_;
  int greeted_sessions_ = 0;  // those that have said hello
  RequestToken last_request_ = 0;
  std::unordered_map<RequestToken, UserReply> replies_;
  EventLog events_;
  Publisher publisher_;
  Gatherings gatherings_;
  LogPlaces log_places_;
  FlightRecords flights_;
  GenerationSecrets secrets_;
  MonotonicTime wakeup_ = MonotonicTime::InfiniteFuture();

  // A slow log must not hold up the coordinator.
  // All workers may come back at once, again and again, and none be let in.
  RefusalLog refused_sessions_{clock_, "session.refused", "host",
                               absl::Seconds(10)};
  SerialExecutor log_executor_;
  SerialExecutor executor_;
  std::unique_ptr<Journal> journal_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_RUNTIME_H_
