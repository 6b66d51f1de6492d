#include "worker/agent/testing/fake_coordinator.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/protocol/proto_time.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/status/check.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/coordinator_service.grpc.pb.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

// One session's stream. Finish comes after all that was to be sent.
class ServerStream final
    : public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  struct Owner {
    virtual ~Owner() = default;
    virtual void OnMessage(ServerStream& stream,
                           const v1::SessionRequest& request) = 0;
    virtual void OnReadEnd(ServerStream& stream) = 0;
    virtual void OnStreamDone(ServerStream& stream) = 0;
  };

  explicit ServerStream(Owner& owner) : owner_(owner) { StartRead(&request_); }

  void Send(const v1::SessionResponse& response) {
    MutexLock lock(mutex_);
    if (end_) return;
    queue_.push_back(response);
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void End(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      if (end_) return;
      end_ = status;
      if (!queue_.empty()) return;
    }
    Finish(ToGrpcStatus(status));
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      owner_.OnMessage(*this, request_);
      StartRead(&request_);
    } else {
      owner_.OnReadEnd(*this);
    }
  }
  void OnWriteDone(bool ok) override {
    std::optional<absl::Status> end;
    {
      MutexLock lock(mutex_);
      queue_.pop_front();
      if (!ok) queue_.clear();
      if (!queue_.empty()) {
        StartWrite(&queue_.front());
      } else {
        end = end_;
      }
    }
    if (end) Finish(ToGrpcStatus(*end));
  }
  void OnDone() override { owner_.OnStreamDone(*this); }

  Owner& owner_;
  v1::SessionRequest request_;
  Mutex mutex_;
  std::deque<v1::SessionResponse> queue_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ GUARDED_BY(mutex_);
};

}  // namespace

class FakeCoordinator::Impl final
    : public v1::CoordinatorService::CallbackService,
      private ServerStream::Owner {
 public:
  explicit Impl(const Options& options) : options_(options) {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", options.port),
                             grpc::InsecureServerCredentials(), &port_);
    if (options.has_service) {
      builder.RegisterService(this);
    } else {
      builder.RegisterCallbackGenericService(&other_service_);
    }
    server_ = builder.BuildAndStart();
    RM_CHECK(server_ != nullptr, "no server on the port");
  }

  ~Impl() override {
    // Streams that are still open are cancelled by this deadline.
    server_->Shutdown(std::chrono::system_clock::now());
    MutexLock lock(mutex_);
    while (open_count_ > 0) changed_.Wait(mutex_);
  }

  grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* Session(
      grpc::CallbackServerContext* /*context*/) override {
    {
      MutexLock lock(mutex_);
      ++open_count_;
    }
    return new ServerStream(*this);
  }

  std::optional<v1::SessionRequest> Take(v1::SessionRequest::MessageCase kind) {
    const MonotonicTime deadline = Clock::Real().Now() + kPatience;
    MutexLock lock(mutex_);
    for (;;) {
      while (!received_.empty()) {
        v1::SessionRequest request = std::move(received_.front());
        received_.pop_front();
        if (request.message_case() == kind) return request;
      }
      if (!changed_.WaitUntil(mutex_, Clock::Real(), deadline)) {
        return std::nullopt;
      }
    }
  }

  bool AwaitHalfClose() {
    const MonotonicTime deadline = Clock::Real().Now() + kPatience;
    MutexLock lock(mutex_);
    while (!is_half_closed_) {
      if (!changed_.WaitUntil(mutex_, Clock::Real(), deadline)) return false;
    }
    return true;
  }

  void Refuse(absl::Status status) {
    MutexLock lock(mutex_);
    refusal_ = std::move(status);
  }

  void Send(const v1::SessionResponse& response) {
    MutexLock lock(mutex_);
    if (newest_ != nullptr) newest_->Send(response);
  }

  void EndSession(const absl::Status& status) {
    MutexLock lock(mutex_);
    if (newest_ != nullptr) newest_->End(status);
  }

  int port() const { return port_; }

 private:
  void OnMessage(ServerStream& stream,
                 const v1::SessionRequest& request) override {
    absl::Status refusal;
    {
      MutexLock lock(mutex_);
      if (request.has_hello()) {
        newest_ = &stream;
        is_half_closed_ = false;
        refusal = refusal_;
      }
    }
    if (!refusal.ok()) {
      stream.End(refusal);
    } else if (request.has_hello() && options_.answers_hello) {
      stream.Send(Welcome());
    }
    MutexLock lock(mutex_);
    received_.push_back(request);
    changed_.NotifyAll();
  }

  void OnReadEnd(ServerStream& stream) override {
    {
      MutexLock lock(mutex_);
      if (newest_ == &stream) is_half_closed_ = true;
      changed_.NotifyAll();
    }
    stream.End(absl::OkStatus());
  }

  void OnStreamDone(ServerStream& stream) override {
    MutexLock lock(mutex_);
    if (newest_ == &stream) newest_ = nullptr;
    --open_count_;
    changed_.NotifyAll();
    delete &stream;
  }

  v1::SessionResponse Welcome() const {
    v1::SessionResponse response;
    v1::Welcome& welcome = *response.mutable_welcome();
    welcome.set_coordinator_incarnation(1);
    welcome.set_protocol(options_.protocol);
    *welcome.mutable_beat_interval() =
        ToProto(absl::Milliseconds(options_.beat_interval_ms));
    *welcome.mutable_lease() = ToProto(absl::Seconds(1));
    return response;
  }

  const Options options_;
  grpc::CallbackGenericService other_service_;  // knows no method
  int port_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::SessionRequest> received_ GUARDED_BY(mutex_);
  absl::Status refusal_ GUARDED_BY(mutex_);
  ServerStream* newest_ GUARDED_BY(mutex_) = nullptr;
  bool is_half_closed_ GUARDED_BY(mutex_) = false;
  int open_count_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

FakeCoordinator::FakeCoordinator(const Options& options)
    : impl_(std::make_unique<Impl>(options)) {}

FakeCoordinator::~FakeCoordinator() = default;

int FakeCoordinator::port() const { return impl_->port(); }

std::string FakeCoordinator::address() const {
  return absl::StrCat("127.0.0.1:", port());
}

void FakeCoordinator::RefuseSessions(absl::Status status) {
  impl_->Refuse(std::move(status));
}

std::optional<v1::SessionRequest> FakeCoordinator::Take(
    v1::SessionRequest::MessageCase kind) {
  return impl_->Take(kind);
}

void FakeCoordinator::Send(const v1::SessionResponse& response) {
  impl_->Send(response);
}

void FakeCoordinator::SendAssignment(int64_t generation, int rank,
                                     int world_size, int64_t resume_step) {
  v1::SessionResponse response;
  v1::Assignment& assignment = *response.mutable_assignment();
  assignment.set_generation(generation);
  assignment.set_job_id("mlp-1");
  assignment.mutable_spec()->mutable_train()->set_steps(10);
  assignment.mutable_self()->set_rank(rank);
  assignment.set_world_size(world_size);
  assignment.add_ranks_per_host(world_size);
  assignment.mutable_self()->set_local_rank(rank);
  assignment.set_local_world_size(world_size);
  assignment.set_resume_step(resume_step);
  assignment.set_secret("secret");
  Send(response);
}

void FakeCoordinator::SendStart(int64_t generation) {
  v1::SessionResponse response;
  response.mutable_start()->set_generation(generation);
  Send(response);
}

void FakeCoordinator::SendHalt(int64_t generation) {
  v1::SessionResponse response;
  response.mutable_halt()->set_generation(generation);
  response.mutable_halt()->mutable_verdict()->set_summary("w1 is lost");
  Send(response);
}

void FakeCoordinator::SendRelease(int64_t generation) {
  v1::SessionResponse response;
  response.mutable_release()->set_generation(generation);
  Send(response);
}

void FakeCoordinator::EndSession(const absl::Status& status) {
  impl_->EndSession(status);
}

bool FakeCoordinator::AwaitHalfClose() { return impl_->AwaitHalfClose(); }

}  // namespace ringmaster
