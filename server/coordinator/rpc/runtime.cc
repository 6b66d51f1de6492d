#include "server/coordinator/rpc/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/secrets/random.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "server/coordinator/core/account/explain.h"
#include "server/coordinator/core/state/limit_reached.h"
#include "server/coordinator/rpc/queries.h"

namespace ringmaster::coordinator {
namespace {

absl::Status ShuttingDown() {
  return WithReason(absl::UnavailableError("the coordinator is shutting down"),
                    reason::kShuttingDown);
}

absl::Status Violation(const std::string& message) {
  return WithReason(absl::InvalidArgumentError(message),
                    reason::kSessionProtocolViolation);
}

// Streams on which no hello has come yet. One too many ends the oldest: so
// nobody keeps the others from saying theirs.
constexpr size_t kMaxSilentSessions = 1000;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace

StatusSource CoordinatorView::Status() const {
  return {.state = state,
          .self = self,
          .now = now,
          .time = absl::Now(),
          .journal_wait = journal_wait};
}

CoordinatorRuntime::CoordinatorRuntime(Options options)
    : options_(std::move(options)),
      clock_(*options_.clock),
      self_({.version = options_.version,
             .incarnation = RandomIncarnation(),
             .start_time = absl::Now(),
             .pid = getpid(),
             .host = HostName(),
             .requires_encryption = options_.config.requires_encryption}),
      events_(options_.limits.events),
      publisher_(options_.limits.watches),
      gatherings_(
          [this](SessionId session, v1::SessionResponse question) {
            Send(session, std::move(question));
          },
          options_.limits.gatherings),
      log_executor_(clock_, {.name = "log", .max_queued = 1024}),
      executor_(
          clock_,
          {.name = "coordinator",
           .max_queued = static_cast<size_t>(options_.limits.waiting_calls)}) {}

absl::StatusOr<std::unique_ptr<CoordinatorRuntime>> CoordinatorRuntime::Start(
    Options options) {
  RETURN_IF_ERROR(options.config.Validate());
  std::unique_ptr<CoordinatorRuntime> runtime(
      new CoordinatorRuntime(std::move(options)));
  CoordinatorRuntime* const self = runtime.get();
  ASSIGN_OR_RETURN(
      runtime->journal_,
      Journal::Open({.state_dir = self->options_.state_dir,
                     .on_works_again =
                         [self] {
                           self->executor_.PostUrgent(
                               [self] { self->Feed(JournalWorks{}); });
                         },
                     .max_ended_jobs = self->options_.config.max_ended_jobs,
                     .clock = &self->clock_}));
  ASSIGN_OR_RETURN(const std::vector<JournalRecord> records,
                   runtime->journal_->Load());
  ASSIGN_OR_RETURN(CoordinatorCore core,
                   CoordinatorCore::Recover(self->options_.config, records,
                                            self->self_.incarnation));
  runtime->core_.emplace(std::move(core));
  self->executor_.PostUrgent([self] { self->Feed(Tick{}); });
  return runtime;
}

CoordinatorRuntime::~CoordinatorRuntime() {
  Shutdown();
  executor_.Stop();
  // Commits what was appended. Its answers are no longer needed.
  journal_.reset();
  log_executor_.Stop();
}

void CoordinatorRuntime::Shutdown() {
  executor_.PostUrgent([this] { OnShutdown(); });
}

void CoordinatorRuntime::OnShutdown() {
  if (is_shut_down_ || !core_.has_value()) return;
  is_shut_down_ = true;
  Feed(ShutdownStarted{});
  const absl::Status status = ShuttingDown();
  // The core closed the sessions that it knew.
  for (auto& [id, session] : std::exchange(sessions_, {})) {
    session.stream->Close(status);
  }
  greeted_sessions_ = 0;
  publisher_.End(status);
  gatherings_.Abort(status);
  for (auto& [token, reply] : std::exchange(replies_, {})) {
    reply(status, View(), nullptr);
  }
}

// ---- Sessions.

SessionId CoordinatorRuntime::OpenSession(std::shared_ptr<SessionStream> stream,
                                          std::string observed_host) {
  const SessionId id = ++last_session_;
  SessionStream& handle = *stream;
  const bool is_posted = executor_.PostUrgent(
      [this, id, stream = stream, host = std::move(observed_host)]() mutable {
        if (is_shut_down_) {
          stream->Close(ShuttingDown());
          return;
        }
        sessions_.emplace(id, Session{.stream = std::move(stream),
                                      .observed_host = std::move(host)});
        hello_deadlines_.emplace_back(clock_.Now() + options_.config.lease, id);
        MakeRoomForSilentSessions();
        ScheduleWakeup();
      });
  if (!is_posted) handle.Close(ShuttingDown());
  return id;
}

void CoordinatorRuntime::Receive(SessionId session,
                                 absl::StatusOr<EventBody> event) {
  executor_.PostUrgent([this, session, event = std::move(event)]() mutable {
    OnReceive(session, std::move(event));
  });
}

void CoordinatorRuntime::ReceiveAnswer(SessionId session,
                                       absl::StatusOr<EventBody> event,
                                       v1::SessionRequest answer) {
  executor_.PostUrgent([this, session, event = std::move(event),
                        answer = std::move(answer)]() mutable {
    // An answer that cannot be ends its session, and then nobody waits for it.
    OnReceive(session, std::move(event));
    gatherings_.Add(session, std::move(answer));
  });
}

void CoordinatorRuntime::OnReceive(SessionId session,
                                   absl::StatusOr<EventBody> event) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  if (!event.ok()) {
    Break(session, event.status());
    return;
  }
  const bool is_hello = std::holds_alternative<HelloReceived>(*event);
  if (is_hello == it->second.has_said_hello) {
    Break(session, Violation(is_hello ? "hello was said before"
                                      : "the first message must be hello"));
    return;
  }
  if (is_hello) {
    const auto& hello = std::get<HelloReceived>(*event);
    if (const absl::Status status = CheckSessionLimit(hello); !status.ok()) {
      Break(session, status);
      return;
    }
    it->second.has_said_hello = true;
    ++greeted_sessions_;
    log_places_.Note(hello);
  }
  Feed(*std::move(event));
  // The event may have closed the session.
  it = sessions_.find(session);
  if (it != sessions_.end()) it->second.stream->ReadNext();
}

void CoordinatorRuntime::SessionEnded(SessionId session, std::string detail) {
  executor_.PostUrgent([this, session, detail = std::move(detail)] {
    OnEnded(session, detail);
  });
}

void CoordinatorRuntime::OnEnded(SessionId session, const std::string& detail,
                                 bool is_violation) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  it->second.stream->Close(absl::OkStatus());
  EraseSession(it);
  gatherings_.Forget(session);
  Feed(StreamClosed{
      .session = session, .detail = detail, .is_violation = is_violation});
}

void CoordinatorRuntime::EraseSession(
    std::unordered_map<SessionId, Session>::iterator it) {
  if (it->second.has_said_hello) --greeted_sessions_;
  sessions_.erase(it);
}

absl::Status CoordinatorRuntime::CheckSessionLimit(
    const HelloReceived& hello) const {
  // One that comes back takes its own place.
  if (greeted_sessions_ < options_.limits.sessions ||
      core_->state().workers.contains(hello.name)) {
    return absl::OkStatus();
  }
  return LimitReached(options_.limits.sessions, "sessions", "max_sessions");
}

void CoordinatorRuntime::LogRefusal(const Session& session,
                                    const absl::Status& status) {
  (void)log_executor_.Post([this, host = session.observed_host,
                            code = status.code(),
                            error = std::string(status.message())] {
    refused_sessions_.Add(host, absl::Status(code, error));
  });
}

void CoordinatorRuntime::Break(SessionId session, const absl::Status& status) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  LogRefusal(it->second, status);
  it->second.stream->Close(status);
  OnEnded(session, std::string(status.message()), /*is_violation=*/true);
}

void CoordinatorRuntime::RefuseSilentSessions() {
  const MonotonicTime now = clock_.Now();
  while (!hello_deadlines_.empty() && hello_deadlines_.front().first <= now) {
    const SessionId session = hello_deadlines_.front().second;
    hello_deadlines_.pop_front();
    const auto it = sessions_.find(session);
    if (it == sessions_.end() || it->second.has_said_hello) continue;
    // Not treated as a violation, which would end the worker: the network, or
    // this process, may have been slow.
    Break(session, absl::UnavailableError(absl::StrCat(
                       "no hello came within ",
                       absl::FormatDuration(options_.config.lease))));
  }
}

void CoordinatorRuntime::MakeRoomForSilentSessions() {
  const size_t greeted = static_cast<size_t>(greeted_sessions_);
  while (sessions_.size() - greeted > kMaxSilentSessions) {
    const SessionId session = hello_deadlines_.front().second;
    hello_deadlines_.pop_front();
    const auto it = sessions_.find(session);
    if (it == sessions_.end() || it->second.has_said_hello) continue;
    Break(session, absl::UnavailableError(absl::StrCat(
                       "no hello came yet, and ", kMaxSilentSessions,
                       " later streams have not said one either")));
  }
}

// ---- Users' calls.

absl::Status CoordinatorRuntime::PostCall(absl::AnyInvocable<void()> call) {
  const absl::Status posted = executor_.Post(std::move(call));
  if (!absl::IsResourceExhausted(posted)) return posted;
  return LimitReached(options_.limits.waiting_calls, "waiting calls",
                      "max_waiting_calls");
}

absl::Status CoordinatorRuntime::CheckReplyLimit() const {
  if (static_cast<int>(replies_.size()) < options_.limits.waiting_calls)
    return absl::OkStatus();
  return LimitReached(options_.limits.waiting_calls,
                      "calls that wait for the disk", "max_waiting_calls");
}

absl::Status CoordinatorRuntime::Ask(Query query) {
  return PostCall(
      [this, query = std::move(query)]() mutable { query(View()); });
}

template <typename Request>
absl::Status CoordinatorRuntime::PostCommand(Request request, UserReply reply) {
  return PostCall(
      [this, request = std::move(request), reply = std::move(reply)]() mutable {
        if (is_shut_down_) return reply(ShuttingDown(), View(), nullptr);
        if (const absl::Status limit = CheckReplyLimit(); !limit.ok())
          return reply(limit, View(), nullptr);
        request.request = ++last_request_;
        replies_.emplace(request.request, std::move(reply));
        Feed(std::move(request));
      });
}

absl::Status CoordinatorRuntime::Submit(SubmitRequested request,
                                        UserReply reply) {
  return PostCommand(std::move(request), std::move(reply));
}

absl::Status CoordinatorRuntime::Cancel(CancelRequested request,
                                        UserReply reply) {
  return PostCommand(std::move(request), std::move(reply));
}

absl::Status CoordinatorRuntime::Change(ChangeRequested request,
                                        UserReply reply) {
  return PostCommand(std::move(request), std::move(reply));
}

absl::Status CoordinatorRuntime::Cordon(CordonRequested request,
                                        UserReply reply) {
  return PostCommand(std::move(request), std::move(reply));
}

absl::Status CoordinatorRuntime::SetQueues(QueuesRequested request,
                                           UserReply reply) {
  return PostCommand(std::move(request), std::move(reply));
}

void CoordinatorRuntime::FollowQueues(v1::QueueFile file, Caller owner) {
  executor_.PostUrgent(
      [this, file = std::move(file), owner = std::move(owner)]() mutable {
        if (is_shut_down_) return;
        Feed(QueuesRequested{.file = std::move(file),
                             .caller = std::move(owner),
                             .is_from_file = true});
      });
}

void CoordinatorRuntime::NoteChange(AuditedRecord entry) {
  executor_.PostUrgent([this, entry = std::move(entry)]() mutable {
    if (!is_shut_down_) Feed(ChangeMade{std::move(entry)});
  });
}

absl::Status CoordinatorRuntime::GatherTrace(std::string job,
                                             int64_t first_step,
                                             int64_t last_step,
                                             TraceReply reply) {
  return PostCall([this, job = std::move(job), first_step, last_step,
                   reply = std::move(reply)]() mutable {
    if (is_shut_down_) return reply(ShuttingDown());
    const absl::StatusOr<const Job*> found = core_->state().LookUpJob(job);
    if (!found.ok()) return reply(found.status());
    coordinator::GatherTrace(core_->state(), **found, first_step, last_step,
                             clock_.Now(), std::move(reply), gatherings_);
    ScheduleWakeup();
  });
}

absl::Status CoordinatorRuntime::GatherLogs(v1::GetLogsRequest request,
                                            LogsReply reply) {
  return PostCall(
      [this, request = std::move(request), reply = std::move(reply)]() mutable {
        if (is_shut_down_) return reply(ShuttingDown());
        coordinator::GatherLogs(core_->state(), events_, log_places_, request,
                                clock_.Now(), std::move(reply), gatherings_);
        ScheduleWakeup();
      });
}

absl::Status CoordinatorRuntime::GetFlight(std::string job, int incident,
                                           FlightReply reply) {
  return PostCall([this, job = std::move(job), incident,
                   reply = std::move(reply)]() mutable {
    if (is_shut_down_) return reply(ShuttingDown());
    const absl::StatusOr<const Job*> found = core_->state().LookUpJob(job);
    if (!found.ok()) return reply(found.status());
    if (incident > 0) return reply(KeptFlight(**found, incident, flights_));
    AskForCollectives(core_->state(), PresentFlight(**found), clock_.Now(),
                      std::move(reply), gatherings_);
    ScheduleWakeup();
  });
}

void CoordinatorRuntime::WatchStatus(std::shared_ptr<StatusWatcher> watcher,
                                     v1::WatchStatusRequest request) {
  const absl::Status status =
      PostCall([this, watcher, request = std::move(request)] {
        if (is_shut_down_) return watcher->End(ShuttingDown());
        publisher_.AddStatusWatcher(watcher, request, View().Status());
        ScheduleWakeup();
      });
  if (!status.ok()) watcher->End(status);
}

void CoordinatorRuntime::WatchJob(std::string job,
                                  std::shared_ptr<JobWatcher> watcher) {
  const absl::Status status = PostCall([this, watcher, job = std::move(job)] {
    if (is_shut_down_) return watcher->End(ShuttingDown());
    const absl::StatusOr<const Job*> found = core_->state().LookUpJob(job);
    if (!found.ok()) return watcher->End(found.status());
    publisher_.AddJobWatcher(watcher, core_->state(), **found);
  });
  if (!status.ok()) watcher->End(status);
}

// ---- Health.

Health CoordinatorRuntime::CheckHealth(absl::Duration patience) {
  // The task may run when nobody waits any more.
  auto fault = std::make_shared<std::string>();
  const bool answers = executor_.Answers(patience, [this, fault] {
    *fault = JournalFault(core_->state(), View().journal_wait);
  });
  if (!answers) {
    return Health::Stuck(absl::DeadlineExceededError(
        absl::StrCat("the coordinator's thread has not answered for ",
                     absl::FormatDuration(patience))));
  }
  const std::string& text = *fault;
  if (text.empty()) return {};
  return {.ready = absl::UnavailableError(absl::StrCat(
              "journal ", options_.state_dir, "/", kJournalFile, ": ", text))};
}

// ---- The core.

CoordinatorView CoordinatorRuntime::View() const {
  return {
      .state = core_->state(),
      .events = events_,
      .self = self_,
      .config = core_->config(),
      .now = clock_.Now(),
      .journal_wait = journal_->OldestWait().value_or(absl::ZeroDuration())};
}

void CoordinatorRuntime::Feed(EventBody body) {
  std::vector<Action> actions =
      core_->Step(Event(std::move(body), absl::Now()), clock_.Now());
  for (Action& action : actions) {
    std::visit([this](auto& typed) { Perform(typed); }, action);
  }
  publisher_.Publish(View().Status());
  ScheduleWakeup();
}

void CoordinatorRuntime::OnWakeup() {
  wakeup_ = MonotonicTime::InfiniteFuture();
  RefuseSilentSessions();
  gatherings_.Expire(clock_.Now());
  Feed(Tick{});
}

void CoordinatorRuntime::ScheduleWakeup() {
  MonotonicTime next =
      std::min({core_->NextDeadline(), publisher_.NextDeadline(),
                gatherings_.NextDeadline()});
  if (!hello_deadlines_.empty()) {
    next = std::min(next, hello_deadlines_.front().first);
  }
  // Watchers must be told if the disk hangs.
  const std::optional<absl::Duration> wait = journal_->OldestWait();
  if (publisher_.watcher_count() > 0 && wait.has_value() &&
      *wait < kJournalPatience) {
    next = std::min(next, clock_.Now() + (kJournalPatience - *wait));
  }
  if (next == wakeup_) return;
  wakeup_ = next;
  if (next == MonotonicTime::InfiniteFuture()) {
    executor_.ClearWakeup();
  } else {
    executor_.SetWakeup(next, [this] { OnWakeup(); });
  }
}

}  // namespace ringmaster::coordinator
