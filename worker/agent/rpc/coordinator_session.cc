#include "worker/agent/rpc/coordinator_session.h"

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/fail_point/fail_point_set.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/coordinator_service.grpc.pb.h"
#include "worker/agent/rpc/session_messages.h"

namespace ringmaster {
namespace {

// As long as a lease is by default: a coordinator that is unreachable for
// longer has given the worker up, or has been replaced at another address.
// Beats keep the connection busy, so the kernel notices; pings are for proxies
// in between, and are rare, since a merely slow coordinator must not be
// abandoned.
constexpr absl::Duration kDeadAfter = absl::Milliseconds(1500);
constexpr absl::Duration kPingInterval = absl::Seconds(60);

FailPointSet& SendPoints() {
  using Request = v1::SessionRequest;
  static FailPointSet& points = *new FailPointSet({
      {Request::kHello, "session.send.hello"},
      {Request::kBeat, "session.send.beat"},
      {Request::kPrepared, "session.send.prepared"},
      {Request::kHalted, "session.send.halted"},
      {Request::kSuspicion, "session.send.suspicion"},
      {Request::kFinished, "session.send.finished"},
      {Request::kFailed, "session.send.failed"},
      {Request::kLeaving, "session.send.leaving"},
      {Request::kTraceReply, "session.send.trace"},
      {Request::kNotice, "session.send.notice"},
      {Request::kLogReply, "session.send.log_reply"},
      {Request::kProbed, "session.send.probed"},
  });
  return points;
}

FailPointSet& ReceivePoints() {
  using Response = v1::SessionResponse;
  static FailPointSet& points = *new FailPointSet({
      {Response::kWelcome, "session.receive.welcome"},
      {Response::kAssignment, "session.receive.assignment"},
      {Response::kStart, "session.receive.start"},
      {Response::kHalt, "session.receive.halt"},
      {Response::kStop, "session.receive.stop"},
      {Response::kRelease, "session.receive.release"},
      {Response::kTraceRequest, "session.receive.trace_request"},
      {Response::kLogRequest, "session.receive.log_request"},
      {Response::kPause, "session.receive.pause"},
      {Response::kLeaveAdvice, "session.receive.leave_advice"},
      {Response::kProbe, "session.receive.probe"},
  });
  return points;
}

}  // namespace

// Writes are started by the owner's thread as well as by reactions, so a hold
// keeps the call alive until no write can be started any more: reading has
// ended and no write is under way. The first to see both releases it.
//
// The owner destroys it, never OnDone: with it goes the channel, and gRPC 1.51
// ends the threads of its callbacks with the last channel, which must not
// happen on one of them.
class CoordinatorSession::Stream final
    : public grpc::ClientBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  Stream(std::shared_ptr<grpc::Channel> channel, EventCallback on_event)
      : stub_(v1::CoordinatorService::NewStub(channel)),
        on_event_(std::move(on_event)) {}

  void Start(const v1::SessionRequest& hello) {
    requires_encryption_ = hello.hello().requires_encryption();
    stub_->async()->Session(&context_, this);
    AddHold();
    StartRead(&response_);
    Send(hello, false);
    StartCall();
  }

  void Send(v1::SessionRequest message, bool is_beat) {
    if (absl::Status status = SendPoints().Pass(message.message_case());
        !status.ok()) {
      Break(std::move(status));
      return;
    }
    {
      MutexLock lock(mutex_);
      if (is_writing_over_ || is_finish_wanted_) return;
      if (is_beat && queue_.size() >= kMaxQueued) return;
      queue_.push_back(std::move(message));
      if (is_writing_) return;
      is_writing_ = true;
    }
    WriteNext();
  }

  void Finish() {
    {
      MutexLock lock(mutex_);
      if (is_writing_over_ || is_finish_wanted_) return;
      is_finish_wanted_ = true;
      if (is_writing_) return;
      is_writing_ = true;
    }
    WriteNext();
  }

  void Cancel() { context_.TryCancel(); }

  // As Cancel; SessionDown will say `why`.
  void Break(absl::Status why) {
    {
      MutexLock lock(mutex_);
      if (!broken_by_) broken_by_ = std::move(why);
    }
    Cancel();
  }

  void AwaitDone() {
    MutexLock lock(mutex_);
    while (!is_done_) done_.Wait(mutex_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      EndWriting();
      return;
    }
    if (absl::Status status = Deliver(); !status.ok()) {
      has_ended_ = true;
      Break(std::move(status));
    }
    StartRead(&response_);
  }

  void OnWriteDone(bool ok) override {
    bool releases_hold = false;
    bool has_next = false;
    {
      MutexLock lock(mutex_);
      if (!ok) {
        is_writing_over_ = true;
        queue_.clear();
      }
      if (!queue_.empty()) queue_.pop_front();
      has_next = !is_writing_over_ && (!queue_.empty() || is_finish_wanted_);
      if (!has_next) {
        is_writing_ = false;
        releases_hold = is_reading_over_;
      }
    }
    if (has_next) WriteNext();
    if (releases_hold) RemoveHold();
  }

  void OnWritesDoneDone(bool /*ok*/) override {
    bool releases_hold = false;
    {
      MutexLock lock(mutex_);
      is_writing_over_ = true;
      is_writing_ = false;
      releases_hold = is_reading_over_;
    }
    if (releases_hold) RemoveHold();
  }

  void OnDone(const grpc::Status& grpc_status) override {
    const absl::Status status = EndStatus(grpc_status);
    agent::SessionDown down;
    // A stream that ends with OK has ended too.
    down.code = status.ok() ? absl::StatusCode::kUnavailable : status.code();
    down.reason = ReasonOf(status);
    down.message = status.ok() ? "the coordinator ended the session"
                               : std::string(status.message());
    // Without an answer it is the name that was tried.
    if (!down.reason.empty()) down.peer = context_.peer();
    on_event_(std::move(down));
    MutexLock lock(mutex_);
    is_done_ = true;
    done_.NotifyAll();
  }

  absl::Status EndStatus(const grpc::Status& grpc_status) {
    MutexLock lock(mutex_);
    return broken_by_ ? *broken_by_ : FromGrpcStatus(grpc_status);
  }

  // Hands the message just read to the owner.
  absl::Status Deliver() {
    if (has_ended_) return absl::OkStatus();  // what follows does not count
    RETURN_IF_ERROR(ReceivePoints().Pass(response_.message_case()));
    absl::StatusOr<std::optional<agent::Event>> event = ToEvent(response_);
    if (!event.ok()) return event.status();
    if (response_.has_welcome()) {
      RETURN_IF_ERROR(
          CheckEncryption(response_.welcome(), requires_encryption_));
    }
    if (response_.has_assignment()) {
      RETURN_IF_ERROR(
          CheckEncryption(response_.assignment(), requires_encryption_));
    }
    if (!event->has_value()) return absl::OkStatus();
    const bool is_welcome = std::holds_alternative<agent::SessionUp>(**event);
    if (is_welcome == is_welcomed_) {
      return WithReason(
          absl::InvalidArgumentError(
              is_welcome ? "the coordinator sent a second welcome"
                         : "the coordinator's first message is no welcome"),
          reason::kSessionProtocolViolation);
    }
    is_welcomed_ = true;
    if (is_welcome) {
      std::get<agent::SessionUp>(**event).peer = context_.peer();
    }
    on_event_(**std::move(event));
    return absl::OkStatus();
  }

  // Requires that is_writing_ was set by the caller.
  void WriteNext() {
    const v1::SessionRequest* next = nullptr;
    {
      MutexLock lock(mutex_);
      if (!queue_.empty()) next = &queue_.front();
    }
    // A deque's elements stay where they are while others are added.
    if (next != nullptr) {
      StartWrite(next);
    } else {
      StartWritesDone();
    }
  }

  void EndWriting() {
    bool releases_hold = false;
    {
      MutexLock lock(mutex_);
      is_reading_over_ = true;
      is_writing_over_ = true;
      releases_hold = !is_writing_;
    }
    if (releases_hold) RemoveHold();
  }

  const std::unique_ptr<v1::CoordinatorService::Stub> stub_;
  const EventCallback on_event_;
  grpc::ClientContext context_;

  // Only reactions to reads use these.
  bool requires_encryption_ = false;  // as its hello said
  v1::SessionResponse response_;
  bool is_welcomed_ = false;
  bool has_ended_ = false;  // by the coordinator's violation, or a fail point

  Mutex mutex_;
  CondVar done_;
  std::deque<v1::SessionRequest> queue_ GUARDED_BY(mutex_);
  bool is_writing_ GUARDED_BY(mutex_) = false;  // the front, or WritesDone
  bool is_writing_over_ GUARDED_BY(mutex_) = false;
  bool is_reading_over_ GUARDED_BY(mutex_) = false;
  bool is_finish_wanted_ GUARDED_BY(mutex_) = false;
  bool is_done_ GUARDED_BY(mutex_) = false;
  // The reason why we cancelled the stream ourselves.
  std::optional<absl::Status> broken_by_ GUARDED_BY(mutex_);
};

CoordinatorSession::CoordinatorSession(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)) {}

std::unique_ptr<CoordinatorSession> CoordinatorSession::Open(
    const std::string& coordinator, const std::string& peer,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const v1::SessionRequest& hello, EventCallback on_event) {
  ChannelOptions options = {.has_own_connection = true,
                            .dead_after = kDeadAfter,
                            .ping_interval = kPingInterval};
  if (!peer.empty()) options.certified_for = coordinator;
  auto stream = std::make_unique<Stream>(
      MakeChannel(peer.empty() ? coordinator : peer, credentials, options),
      std::move(on_event));
  stream->Start(hello);
  return std::unique_ptr<CoordinatorSession>(
      new CoordinatorSession(std::move(stream)));
}

CoordinatorSession::~CoordinatorSession() {
  stream_->Cancel();
  stream_->AwaitDone();
}

void CoordinatorSession::Send(v1::SessionRequest message) {
  stream_->Send(std::move(message), /*is_beat=*/false);
}

void CoordinatorSession::SendBeat(v1::SessionRequest message) {
  stream_->Send(std::move(message), /*is_beat=*/true);
}

void CoordinatorSession::Finish() { stream_->Finish(); }

void CoordinatorSession::Cancel() { stream_->Cancel(); }

}  // namespace ringmaster
