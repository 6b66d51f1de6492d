#include "worker/agent/agent.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "common/credentials/tls_watch.h"
#include "common/executor/serial_executor.h"
#include "common/logging/logging.h"
#include "common/protocol/proto_time.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "worker/agent/core/agent_core.h"
#include "worker/agent/link_prober.h"
#include "worker/agent/rpc/assignment_payload.h"
#include "worker/agent/rpc/coordinator_session.h"
#include "worker/agent/rpc/session_messages.h"
#include "worker/agent/rpc/trace_reply.h"
#include "worker/agent/trainer_thread.h"

namespace ringmaster {
namespace {

// The times that the coordinator may take to end a session that we have
// finished, and the trainer to return from an abort.
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(1);
constexpr absl::Duration kTrainerTimeout = absl::Seconds(2);

agent::AgentConfig CoreConfig(const AgentOptions& options) {
  agent::AgentConfig config;
  config.coordinator = options.coordinator;
  config.name = options.identity.name;
  config.coordinator_timeout = options.coordinator_timeout;
  config.drain_timeout = options.drain_timeout;
  config.abort_timeout = options.abort_timeout;
  config.answer_timeout = options.answer_timeout;
  config.name_wait = options.name_wait;
  config.max_jobs = options.max_jobs;
  config.signal_window = options.signal_window;
  return config;
}

LogLevel ToLogLevel(agent::Severity severity) {
  switch (severity) {
    case agent::Severity::kInfo:
      return LogLevel::kInfo;
    case agent::Severity::kWarning:
      return LogLevel::kWarning;
    case agent::Severity::kError:
      break;
  }
  return LogLevel::kError;
}

}  // namespace

// The core, the session and what belongs to them are touched only by tasks of
// the executor; AwaitEnd takes over when it has stopped.
class Agent::Impl {
 public:
  Impl(Clock& clock, JobRunner& trainer, AgentOptions options)
      : clock_(clock),
        trainer_(trainer),
        options_(std::move(options)),
        core_(CoreConfig(options_), clock.Now()),
        executor_(clock, {.name = "agent"}),
        trainer_thread_(trainer,
                        [this](agent::Event event) { Post(std::move(event)); }),
        prober_(clock) {
    trainer.SetNoticeCallback([this](const v1::Notice& notice) {
      Post(agent::TrainerNoticed{notice});
    });
    trainer.SetAdvanceCallback([this](int64_t generation) {
      Post(agent::TrainerAdvanced{generation});
    });
    Post(agent::Tick{});
  }

  ~Impl() {
    executor_.Stop();
    if (trainer_generation_) {
      trainer_.Abort(*trainer_generation_, "the worker ends");
    }
    session_.reset();
  }

  void Post(agent::Event event) {
    executor_.PostUrgent(
        [this, event = std::move(event)]() mutable { Handle(event); });
  }

  bool Answers(absl::Duration patience) { return executor_.Answers(patience); }

  End AwaitEnd();

 private:
  void Handle(agent::Event& event);

  void Do(const agent::OpenSession& action);
  void Do(const agent::CloseSession&) { session_->Cancel(); }
  void Do(const agent::SendBeat& action) {
    v1::SessionRequest beat =
        BeatMessage(action, core_.state(), trainer_.progress());
    if (const auto ends = OwnCertificateEndingSoon(absl::Now())) {
      *beat.mutable_beat()->mutable_certificate_expire_time() =
          ToProto(ends->end);
    }
    session_->SendBeat(std::move(beat));
  }
  void Do(const agent::SendPrepared& action) { Send(ToMessage(action)); }
  void Do(const agent::SendHalted& action) { Send(ToMessage(action)); }
  void Do(const agent::SendFailed& action) { Send(ToMessage(action)); }
  void Do(const agent::SendSuspicion& action) {
    Send(ToMessage(action, trainer_.progress()));
  }
  void Do(const agent::SendFinished& action) {
    Send(ToMessage(action, trainer_.progress()));
  }
  void Do(const agent::SendLeaving& action) {
    Send(ToMessage(action, trainer_.progress()));
  }
  void Do(const agent::SendNotice& action) { Send(ToMessage(action)); }
  void Do(const agent::SendTrace& action) {
    Send(ToMessage(action, options_.identity, trainer_.trace(),
                   trainer_.progress(), clock_.Now()));
  }
  void Do(const agent::SendLog& action) { Send(ToMessage(action)); }
  void Do(const agent::SendProbed& action);
  void Do(const agent::PrepareTrainer& action);
  void Do(const agent::RunTrainer& action) {
    trainer_thread_.Run(action.generation);
  }
  void Do(const agent::AbortTrainer& action) {
    trainer_.Abort(action.generation, action.why);
  }
  void Do(const agent::RequestStop&) { trainer_.RequestStop(); }
  void Do(const agent::RequestDrain&) { trainer_.RequestDrain(); }
  void Do(const agent::RequestLeave&) { trainer_.RequestLeave(); }
  void Do(const agent::RequestPause& action) {
    trainer_.RequestPause(action.is_let_go, action.let_go_count);
  }
  void Do(const agent::ReleaseTrainer&);
  void Do(const agent::Log& action) {
    LogEvent(ToLogLevel(action.severity), action.event,
             {{"message", action.message}});
  }
  void Do(const agent::Exit& action);

  void Send(v1::SessionRequest message) { session_->Send(std::move(message)); }

  Clock& clock_;
  JobRunner& trainer_;
  const AgentOptions options_;
  absl::BitGen random_;

  // Only the executor's tasks use these.
  agent::AgentCore core_;
  std::unique_ptr<CoordinatorSession> session_;
  std::optional<int64_t> trainer_generation_;
  bool is_attached_ = false;

  Mutex mutex_;
  CondVar changed_;
  std::optional<agent::Exit> exit_ GUARDED_BY(mutex_);
  bool is_session_over_ GUARDED_BY(mutex_) = true;

  SerialExecutor executor_;
  TrainerThread trainer_thread_;
  LinkProber prober_;  // only the executor's tasks use it
};

void Agent::Impl::Handle(agent::Event& event) {
  if (auto* down = std::get_if<agent::SessionDown>(&event)) {
    down->jitter = absl::Uniform(random_, 0.0, 1.0);
    session_.reset();
    prober_.Stop();
    MutexLock lock(mutex_);
    is_session_over_ = true;
    changed_.NotifyAll();
  }
  for (const agent::Action& action : core_.Handle(event, clock_.Now())) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  if (is_attached_ != core_.is_session_up()) {
    is_attached_ = core_.is_session_up();
    if (options_.on_attached) options_.on_attached(is_attached_);
  }
  const MonotonicTime deadline = core_.NextDeadline();
  if (deadline == MonotonicTime::InfiniteFuture()) {
    executor_.ClearWakeup();
    return;
  }
  executor_.SetWakeup(deadline, [this] {
    agent::Event tick = agent::Tick{};
    Handle(tick);
  });
}

void Agent::Impl::Do(const agent::OpenSession& action) {
  {
    MutexLock lock(mutex_);
    is_session_over_ = false;
  }
  session_ = CoordinatorSession::Open(
      options_.coordinator, action.peer, options_.credentials,
      HelloMessage(options_.identity, action, trainer_.progress()),
      [this](agent::Event event) { Post(std::move(event)); });
}

void Agent::Impl::Do(const agent::SendProbed& action) {
  prober_.Start(action.probe, [this](const v1::Probe& probe,
                                     const std::vector<absl::Status>& reached) {
    executor_.PostUrgent([this, answer = ProbedMessage(probe, reached)] {
      if (core_.is_session_up()) Send(answer);
    });
  });
}

void Agent::Impl::Do(const agent::PrepareTrainer& action) {
  trainer_generation_ = action.generation;
  SetLogGeneration(action.generation);
  SetLogRank(action.payload->assignment.rank);
  trainer_thread_.Prepare(action.payload);
}

void Agent::Impl::Do(const agent::ReleaseTrainer&) {
  SetLogGeneration(std::nullopt);
  SetLogRank(std::nullopt);
  trainer_thread_.Release();
}

void Agent::Impl::Do(const agent::Exit& action) {
  if (session_ != nullptr) {
    if (action.is_hurried) {
      session_->Cancel();
    } else {
      session_->Finish();
    }
  }
  MutexLock lock(mutex_);
  exit_ = action;
  changed_.NotifyAll();
}

Agent::End Agent::Impl::AwaitEnd() {
  agent::Exit exit;
  {
    MutexLock lock(mutex_);
    while (!exit_) changed_.Wait(mutex_);
    exit = *exit_;
    const MonotonicTime deadline = clock_.Now() + kGoodbyeTimeout;
    while (!exit.is_hurried && !is_session_over_) {
      if (!changed_.WaitUntil(mutex_, clock_, deadline)) break;
    }
  }
  const bool is_trainer_over =
      !exit.is_hurried &&
      trainer_thread_.StopUntil(clock_, clock_.Now() + kTrainerTimeout);
  return End{exit.code, exit.message, !is_trainer_over};
}

Agent::Agent(Clock& clock, JobRunner& trainer, AgentOptions options)
    : impl_(std::make_unique<Impl>(clock, trainer, std::move(options))) {}

Agent::~Agent() = default;

void Agent::Terminate(std::string_view signal) {
  impl_->Post(agent::TerminateSignal{std::string(signal)});
}

bool Agent::Answers(absl::Duration patience) {
  return impl_->Answers(patience);
}

Agent::End Agent::AwaitEnd() { return impl_->AwaitEnd(); }

}  // namespace ringmaster
