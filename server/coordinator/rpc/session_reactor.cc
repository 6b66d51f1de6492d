#include "server/coordinator/rpc/session_reactor.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/admission.h"
#include "common/fail_point/fail_point_set.h"
#include "common/rpc/grpc_status.h"
#include "common/status/status_macros.h"
#include "server/coordinator/rpc/caller.h"
#include "server/coordinator/rpc/session_message.h"

namespace ringmaster::coordinator {
namespace {

constexpr char kMethod[] = "/ringmaster.v1.CoordinatorService/Session";

FailPointSet& ReceivePoints() {
  using Request = v1::SessionRequest;
  static FailPointSet& points = *new FailPointSet({
      {Request::kHello, "coordinator.receive.hello"},
      {Request::kBeat, "coordinator.receive.beat"},
      {Request::kPrepared, "coordinator.receive.prepared"},
      {Request::kHalted, "coordinator.receive.halted"},
      {Request::kSuspicion, "coordinator.receive.suspicion"},
      {Request::kFinished, "coordinator.receive.finished"},
      {Request::kFailed, "coordinator.receive.failed"},
      {Request::kLeaving, "coordinator.receive.leaving"},
      {Request::kTraceReply, "coordinator.receive.trace"},
      {Request::kNotice, "coordinator.receive.notice"},
      {Request::kLogReply, "coordinator.receive.log_reply"},
      {Request::kProbed, "coordinator.receive.probed"},
  });
  return points;
}

FailPointSet& SendPoints() {
  using Response = v1::SessionResponse;
  static FailPointSet& points = *new FailPointSet({
      {Response::kWelcome, "coordinator.send.welcome"},
      {Response::kAssignment, "coordinator.send.assignment"},
      {Response::kStart, "coordinator.send.start"},
      {Response::kHalt, "coordinator.send.halt"},
      {Response::kStop, "coordinator.send.stop"},
      {Response::kRelease, "coordinator.send.release"},
      {Response::kTraceRequest, "coordinator.send.trace_request"},
      {Response::kLogRequest, "coordinator.send.log_request"},
      {Response::kPause, "coordinator.send.pause"},
      {Response::kLeaveAdvice, "coordinator.send.leave_advice"},
      {Response::kProbe, "coordinator.send.probe"},
  });
  return points;
}

}  // namespace

SessionReactor* SessionReactor::Start(grpc::CallbackServerContext* context,
                                      CoordinatorRuntime& runtime,
                                      Acceptor& acceptor,
                                      std::optional<Identity> identity,
                                      OpenCalls& open_calls) {
  const std::shared_ptr<SessionReactor> reactor(new SessionReactor(
      context, runtime, acceptor, std::move(identity), context->peer()));
  reactor->self_ = reactor;
  // Before the first read, so that the runtime hears of the session before its
  // messages.
  reactor->id_ = runtime.OpenSession(reactor, reactor->observed_host_);
  const std::weak_ptr<SessionReactor> weak = reactor;
  reactor->place_ = open_calls.Add({.method = kMethod,
                                    .address = AddressOf(*context),
                                    .credentials = CredentialsOf(*context),
                                    .end =
                                        [weak](const absl::Status& status) {
                                          if (const auto open = weak.lock())
                                            open->End(status);
                                        },
                                    .cut =
                                        [weak] {
                                          if (const auto open = weak.lock())
                                            open->call_.TryCancel();
                                        },
                                    .check =
                                        [weak](const Identity& caller) {
                                          const auto open = weak.lock();
                                          return open ? open->CheckRole(caller)
                                                      : absl::OkStatus();
                                        }});
  reactor->StartSendInitialMetadata();
  reactor->StartRead(&reactor->incoming_);
  return reactor.get();
}

void SessionReactor::OnReadDone(bool ok) {
  if (!ok) {
    ReportEnd(context_->IsCancelled() ? "connection lost"
                                      : "the worker ended it");
    return;
  }
  if (const absl::Status status =
          ReceivePoints().Pass(incoming_.message_case());
      !status.ok()) {
    Cut(std::string(status.message()));
    return;
  }
  if (incoming_.has_trace_reply() || incoming_.has_log_reply()) {
    absl::StatusOr<EventBody> event = Parse();
    runtime_.ReceiveAnswer(id_, std::move(event), std::move(incoming_));
  } else {
    runtime_.Receive(id_, Parse());
  }
}

absl::StatusOr<EventBody> SessionReactor::Parse() {
  ASSIGN_OR_RETURN(EventBody event,
                   ParseSessionMessage(id_, incoming_, observed_host_));
  if (auto* const hello = std::get_if<HelloReceived>(&event)) {
    if (identity_.has_value())
      RETURN_IF_ERROR(CheckSessionRole(*identity_, hello->role));
    hello->caller = CallerOf(*context_, identity_);
    {
      MutexLock lock(mutex_);
      role_ = hello->role;
    }
    // The caller's roles may be others since the call began.
    place_->Review();
  }
  return event;
}

absl::Status SessionReactor::CheckRole(const Identity& caller) const {
  std::optional<v1::Role> role;
  {
    MutexLock lock(mutex_);
    role = role_;
  }
  return role.has_value() ? CheckSessionRole(caller, *role) : absl::OkStatus();
}

void SessionReactor::ReadNext() {
  {
    MutexLock lock(mutex_);
    if (is_finished_) return;
  }
  incoming_.Clear();
  StartRead(&incoming_);
}

void SessionReactor::Send(v1::SessionResponse message) {
  if (const absl::Status status = SendPoints().Pass(message.message_case());
      !status.ok()) {
    Cut(std::string(status.message()));
    return;
  }
  bool is_full = false;
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return;
    if (message.has_welcome() && !is_done_ && !is_admitted_) {
      is_admitted_ = true;
      acceptor_.Admit(peer_);
    }
    is_full = queue_.size() >= kMaxQueuedMessages;
    if (!is_full) queue_.push_back(std::move(message));
  }
  if (is_full) {
    Cut(absl::StrCat("the worker left ", kMaxQueuedMessages,
                     " messages unread"));
    return;
  }
  Advance();
}

void SessionReactor::Close(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return;
    end_ = status;
    is_end_reported_ = true;
  }
  Advance();
}

void SessionReactor::OnWriteDone(bool ok) {
  {
    MutexLock lock(mutex_);
    is_writing_ = false;
    if (!ok) queue_.clear();
  }
  if (!ok) ReportEnd("connection lost");
  Advance();
}

void SessionReactor::Advance() {
  std::optional<absl::Status> finish;
  {
    MutexLock lock(mutex_);
    if (is_writing_ || is_finished_) return;
    if (!queue_.empty()) {
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      is_writing_ = true;
    } else if (end_.has_value()) {
      is_finished_ = true;
      finish = end_;
    } else {
      return;
    }
  }
  if (finish.has_value()) {
    Finish(ToGrpcStatus(*finish));
  } else {
    StartWrite(&outgoing_);
  }
}

void SessionReactor::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return;
    end_ = status;
    queue_.clear();
  }
  ReportEnd(std::string(status.message()));
  Advance();
}

void SessionReactor::Cut(const std::string& detail) {
  call_.TryCancel();
  ReportEnd(detail);
}

void SessionReactor::ReportEnd(const std::string& detail) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(is_end_reported_, true)) return;
  }
  runtime_.SessionEnded(id_, detail);
}

// The first to notice a broken connection while no read is under way.
void SessionReactor::OnCancel() { ReportEnd("connection lost"); }

void SessionReactor::OnDone() {
  place_.reset();
  call_.Forget();
  const auto self = std::move(self_);
  MutexLock lock(mutex_);
  is_done_ = true;
  if (is_admitted_) acceptor_.Dismiss(peer_);
}

}  // namespace ringmaster::coordinator
